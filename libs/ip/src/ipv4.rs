//! The header of IPv4 packets (RFC 791 §3.1).

use crate::Malformed;
use crate::bytes::Writer;
use core::net::Ipv4Addr;
use culm_packet::checksum::Sum;
use culm_packet::ip::{Extent, Packet4, Part};
use culm_packet::wire::ipv4 as wire;

/// Bytes of a header without options.
pub use culm_packet::wire::ipv4::HEADER;

/// What every host can receive, in fragments if need be (RFC 791 §3.1), in bytes.
pub const MINIMUM_MTU: u16 = 576;

/// A packet, or a fragment of one, whose lengths and header checksum were checked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Ipv4<'a> {
    /// Who sent it.
    pub source: Ipv4Addr,
    /// Whom it is for.
    pub destination: Ipv4Addr,
    /// What the payload is.
    pub protocol: u8,
    /// How many more routers it may pass.
    pub time_to_live: u8,
    /// Which packet this is a fragment of.
    pub identification: u16,
    /// Whether routers may divide it.
    pub may_fragment: bool,
    /// Where the payload lies in the whole packet's, in bytes, a multiple of 8.
    pub offset: u16,
    /// Whether other fragments follow.
    pub has_more: bool,
    /// What follows the header, as long as the header says.
    pub payload: &'a [u8],
    /// The whole of it, header and options too.
    pub packet: &'a [u8],
}

impl<'a> Ipv4<'a> {
    /// Reads a packet. What follows behind its end, such as Ethernet's padding, is left out, and
    /// options are passed over, as they ask nothing of the packet's destination that a host has to
    /// do (RFC 1122 §3.2.1.8; RFC 7126 §4 on those that ask for a route).
    ///
    /// # Errors
    ///
    /// It is cut off, of another version, its header is not intact, or it comes from a group or
    /// from everybody (RFC 1122 §3.2.1.3).
    pub fn parse(packet: &'a [u8]) -> Result<Self, Malformed> {
        let read = Packet4::read(packet, Extent::Whole)?;
        if !read.is_intact() {
            return Err(Malformed::Checksum);
        }
        let (header, part) = (read.header, Part::of(read.header));
        let source = Ipv4Addr::from(header.source());
        if source.is_multicast() || source.is_broadcast() {
            return Err(Malformed::Value);
        }
        Ok(Self {
            source,
            destination: header.destination().into(),
            protocol: header.protocol(),
            time_to_live: header.time_to_live(),
            identification: header.identification(),
            may_fragment: header.may_fragment(),
            offset: part.offset,
            has_more: part.has_more,
            payload: read.payload,
            packet: packet.get(..read.length).ok_or(Malformed::Short)?,
        })
    }

    /// Returns whether this is not a whole packet.
    pub fn is_fragment(&self) -> bool {
        self.has_more || self.offset != 0
    }

    /// Writes the header, without options, for a payload of `length` bytes; `None` if there is no
    /// place, or the packet would have more than 65,535 bytes.
    pub(crate) fn write_header(&self, writer: &mut Writer<'_>, length: usize) -> Option<()> {
        let total = u16::try_from(length.checked_add(HEADER)?).ok()?;
        let flags = if self.may_fragment { 0 } else { wire::DO_NOT_FRAGMENT };
        let more = if self.has_more { wire::MORE_FRAGMENTS } else { 0 };
        let mut header = [0; HEADER];
        let mut head = Writer::new(&mut header);
        head.put(&[wire::VERSION_AND_LENGTH, 0])?;
        head.put(&total.to_be_bytes())?;
        head.put(&self.identification.to_be_bytes())?;
        head.put(&(flags | more | self.offset >> 3).to_be_bytes())?;
        head.put(&[self.time_to_live, self.protocol, 0, 0])?;
        head.put(&self.source.octets())?;
        head.put(&self.destination.octets())?;
        let checksum = Sum::ZERO.add_bytes(head.written()).checksum();
        head.patch(wire::CHECKSUM, &checksum.to_be_bytes())?;
        writer.put(head.written())
    }

    /// Writes header and payload into `buffer`; returns how many bytes that are, `None` if there
    /// is no place for them.
    pub fn write(&self, buffer: &mut [u8]) -> Option<usize> {
        let mut writer = Writer::new(buffer);
        self.write_header(&mut writer, self.payload.len())?;
        writer.put(self.payload)?;
        Some(writer.len())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// A header from a capture: TCP's first segment, 60 bytes.
    const EXAMPLE: [u8; 20] =
        [0x45, 0, 0, 0x3c, 0x1c, 0x46, 0x40, 0, 0x40, 0x06, 0xb1, 0xe6, 0xac, 0x10, 0x0a, 0x63, 0xac, 0x10, 0x0a, 0x0c];

    #[test]
    fn a_known_header_is_read_and_written() {
        let mut bytes = [0; 64];
        bytes[..20].copy_from_slice(&EXAMPLE);
        let packet = Ipv4::parse(&bytes).expect("a packet");
        assert_eq!((packet.source, packet.protocol), (Ipv4Addr::new(172, 16, 10, 99), 6));
        assert!(!packet.may_fragment && !packet.is_fragment());
        assert_eq!((packet.payload.len(), packet.packet.len()), (40, 60));
        let mut written = [0; 60];
        assert_eq!(packet.write(&mut written), Some(60));
        assert_eq!(written, bytes[..60]);
        assert_eq!(packet.write(&mut written[..59]), None);
    }

    #[test]
    fn headers_that_are_none_are_refused() {
        let changed = |place: usize, value: u8| {
            let mut bytes = [0; 60];
            bytes[..20].copy_from_slice(&EXAMPLE);
            bytes[place] = value;
            bytes[10..12].fill(0);
            let length = usize::from(bytes[0] & 15).clamp(5, 15) * 4;
            let checksum = Sum::ZERO.add_bytes(&bytes[..length]).checksum();
            bytes[10..12].copy_from_slice(&checksum.to_be_bytes());
            Ipv4::parse(&bytes).map(|packet| packet.payload.len())
        };
        assert_eq!(changed(0, 0x65), Err(Malformed::Version));
        assert_eq!(changed(0, 0x44), Err(Malformed::Value));
        assert_eq!(changed(0, 0x46), Ok(36), "options are passed over");
        assert_eq!(changed(3, 19), Err(Malformed::Short));
        assert_eq!(changed(3, 61), Err(Malformed::Short));
        assert_eq!(changed(3, 20), Ok(0));
        assert_eq!(changed(12, 224), Err(Malformed::Value));
        assert_eq!(Ipv4::parse(&EXAMPLE[..19]), Err(Malformed::Short));
        let mut bytes = [0; 60];
        bytes[..20].copy_from_slice(&EXAMPLE);
        bytes[8] ^= 1;
        assert_eq!(Ipv4::parse(&bytes), Err(Malformed::Checksum));
    }

    proptest! {
        #[test]
        fn what_was_written_is_read(
            source in 0x0100_0000_u32..0xe000_0000, destination: u32, identification: u16, eighths in 0_u16..8192,
            has_more: bool, may_fragment: bool, payload in prop::collection::vec(any::<u8>(), 0..100),
        ) {
            let packet = Ipv4 {
                source: source.into(),
                destination: destination.into(),
                protocol: 17,
                time_to_live: 64,
                identification,
                may_fragment,
                offset: eighths * 8,
                has_more,
                payload: &payload,
                packet: &[],
            };
            let mut buffer = [0; 200];
            let length = packet.write(&mut buffer).expect("fits");
            let expected = Ipv4 { packet: &buffer[..length], ..packet };
            prop_assert_eq!(Ipv4::parse(&buffer), Ok(expected));
        }
    }
}
