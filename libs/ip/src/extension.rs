//! Extension headers of IPv6 (RFC 8200 §4): what stands between the header and the protocol.

use crate::Malformed;
use crate::bytes::Reader;
use crate::ipv6::Ipv6;
use culm_packet::ip::Extensions;
use culm_packet::wire::extension;

pub use culm_packet::ip::Part;

/// What is left of a packet behind its extension headers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Content<'a> {
    /// What the payload is; of a fragment, what the whole packet's begins with.
    pub protocol: u8,
    /// The payload, or the fragment's part of it.
    pub payload: &'a [u8],
    /// Which part of which packet it is, if it is a fragment.
    pub fragment: Option<Part>,
}

/// Passes over the extension headers of `packet`, up to the first fragment header.
///
/// # Errors
///
/// One is cut off or out of its place; one has an option that a host that does not know it may
/// not pass over (§4.2), or asks for a further route (RFC 5095); or there are more than eight.
pub fn content<'a>(packet: &Ipv6<'a>) -> Result<Content<'a>, Malformed> {
    behind(packet.next_header, packet.payload)
}

/// Does what [`content`] does, for what begins with the header `first`: a reassembled packet, say.
///
/// # Errors
///
/// Those of [`content`].
pub fn behind(first: u8, payload: &[u8]) -> Result<Content<'_>, Malformed> {
    let mut walk = Extensions::new(first, payload);
    while let Some(header) = walk.advance()? {
        match header.kind {
            extension::FRAGMENT => {
                return Ok(Content { protocol: walk.protocol, payload: walk.rest, fragment: header.part() });
            }
            // The second byte says how many stations are still to be visited.
            extension::ROUTING if header.content.get(1) != Some(&0) => return Err(Malformed::Value),
            extension::ROUTING => {}
            _ => options(Reader(header.content))?,
        }
    }
    Ok(Content { protocol: walk.protocol, payload: walk.rest, fragment: None })
}

/// Checks that all options may be passed over: the two highest bits of an unknown one's type say
/// so (RFC 8200 §4.2).
fn options(mut reader: Reader<'_>) -> Result<(), Malformed> {
    while let Ok([kind]) = reader.array() {
        // A single byte of padding has no length.
        if kind == 0 {
            continue;
        }
        let [length] = reader.array()?;
        reader.take(length.into())?;
        if kind >> 6 != 0 {
            return Err(Malformed::Value);
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::vec::Vec;

    const UDP: u8 = 17;

    #[test]
    fn headers_are_passed_over_in_their_order() {
        let bytes = [
            &[60, 0, 5, 2, 0, 0, 1, 0][..],
            &[43, 1, 1, 12, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0],
            &[UDP, 0, 4, 0, 0, 0, 0, 0],
            b"payload",
        ]
        .concat();
        let expected = Content { protocol: UDP, payload: b"payload", fragment: None };
        assert_eq!(behind(0, &bytes), Ok(expected));
        assert_eq!(behind(UDP, &bytes), Ok(Content { payload: &bytes, ..expected }));
        for end in 0..32 {
            assert_eq!(behind(0, &bytes[..end]), Err(Malformed::Short), "{end}");
        }
    }

    #[test]
    fn what_may_not_be_passed_over_is_refused() {
        let refused = |first, bytes: &[u8]| behind(first, bytes) == Err(Malformed::Value);
        assert!(refused(60, &[0, 0, 1, 4, 0, 0, 0, 0, UDP, 0, 1, 4, 0, 0, 0, 0]), "hop-by-hop comes first");
        assert!(refused(43, &[UDP, 0, 0, 1, 0, 0, 0, 0]), "a route is to be followed");
        assert!(refused(60, &[UDP, 0, 0x40, 4, 0, 0, 0, 0]));
        assert!(refused(60, &[UDP, 0, 0x80, 4, 0, 0, 0, 0]));
        assert!(!refused(60, &[UDP, 0, 0x3f, 4, 0, 0, 0, 0]));
        assert_eq!(behind(60, &[UDP, 0, 1, 5, 0, 0, 0, 0]), Err(Malformed::Short), "an option beyond its header");
        let mut many: Vec<u8> = [60, 0, 1, 4, 0, 0, 0, 0].repeat(9);
        assert!(refused(60, &many));
        many[56] = UDP;
        assert!(!refused(60, &many), "eight of them are not too many");
    }

    #[test]
    fn a_fragment_says_its_place() {
        let bytes = [UDP, 0, 0x05, 0xa9, 1, 2, 3, 4, 9, 9];
        let fragment = Some(Part { identification: 0x0102_0304, offset: 0x05a8, has_more: true });
        assert_eq!(behind(44, &bytes), Ok(Content { protocol: UDP, payload: &[9, 9], fragment }));
    }

    proptest! {
        #[test]
        fn nothing_that_comes_is_a_panic(first: u8, bytes in prop::collection::vec(any::<u8>(), 0..100)) {
            if let Ok(content) = behind(first, &bytes) {
                prop_assert!(bytes.ends_with(content.payload));
            }
        }
    }
}
