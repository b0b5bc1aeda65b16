//! The header of IPv6 packets (RFC 8200 §3).

use crate::Malformed;
use crate::bytes::Writer;
use core::net::Ipv6Addr;
use culm_packet::ip::{Extent, Packet6};
use culm_packet::wire::ipv6::VERSION_ALONE;

/// Bytes of the header.
pub use culm_packet::wire::ipv6::HEADER;

/// The least that every link carries in one packet (RFC 8200 §5), in bytes.
pub const MINIMUM_MTU: u16 = 1280;

/// A packet whose length was checked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Ipv6<'a> {
    /// Who sent it.
    pub source: Ipv6Addr,
    /// Whom it is for.
    pub destination: Ipv6Addr,
    /// What the payload begins with: a protocol or an extension header.
    pub next_header: u8,
    /// How many more routers it may pass; 255 if it has passed none, for those that begin so.
    pub hop_limit: u8,
    /// What follows the header, as long as the header says.
    pub payload: &'a [u8],
}

impl<'a> Ipv6<'a> {
    /// Reads a packet. What follows behind its end, such as Ethernet's padding, is left out.
    ///
    /// # Errors
    ///
    /// It is cut off, of another version, or from a group (RFC 4291 §2.7: no packet is).
    pub fn parse(packet: &'a [u8]) -> Result<Self, Malformed> {
        let Packet6 { header, payload, .. } = Packet6::read(packet, Extent::Whole)?;
        let source = Ipv6Addr::from(header.source());
        if source.is_multicast() {
            return Err(Malformed::Value);
        }
        let destination = header.destination().into();
        Ok(Self { source, destination, next_header: header.next_header(), hop_limit: header.hop_limit(), payload })
    }

    /// Writes the header for the payload's length; `None` if there is no place, or if the payload
    /// has more than 65,535 bytes.
    pub(crate) fn write_header(&self, writer: &mut Writer<'_>, length: usize) -> Option<()> {
        writer.put(&VERSION_ALONE)?;
        writer.put(&u16::try_from(length).ok()?.to_be_bytes())?;
        writer.put(&[self.next_header, self.hop_limit])?;
        writer.put(&self.source.octets())?;
        writer.put(&self.destination.octets())
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

    proptest! {
        #[test]
        fn what_was_written_is_read(
            source: u128, destination: u128, next_header: u8, hop_limit: u8,
            payload in prop::collection::vec(any::<u8>(), 0..200), padding in 0_usize..20,
        ) {
            let source = Ipv6Addr::from(source & !(0xff << 120));
            let destination = Ipv6Addr::from(destination);
            let packet = Ipv6 { source, destination, next_header, hop_limit, payload: &payload };
            let mut buffer = [0; 300];
            let length = packet.write(&mut buffer).expect("fits");
            prop_assert_eq!(Ipv6::parse(&buffer[..length + padding]), Ok(packet));
            prop_assert_eq!(Ipv6::parse(&buffer[..length - 1]), Err(Malformed::Short));
            prop_assert_eq!(packet.write(&mut buffer[..length - 1]), None);
            buffer[0] ^= 0x20;
            prop_assert_eq!(Ipv6::parse(&buffer), Err(Malformed::Version));
        }
    }

    #[test]
    fn nothing_comes_from_a_group() {
        let source = "ff02::1".parse().expect("an address");
        let packet = Ipv6 { source, destination: source, next_header: 59, hop_limit: 1, payload: &[] };
        let mut buffer = [0; HEADER];
        assert_eq!(packet.write(&mut buffer), Some(HEADER));
        assert_eq!(Ipv6::parse(&buffer), Err(Malformed::Value));
    }
}
