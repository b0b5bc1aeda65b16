//! Datagrams of UDP (RFC 768, RFC 8200 §8.1).

use crate::Malformed;
use crate::bytes::{Reader, Writer};
use core::net::IpAddr;
use culm_packet::checksum::Sum;

pub use culm_packet::wire::protocols::UDP;

/// Bytes of the header.
pub const HEADER: usize = 8;

/// Whether a checksum is still to be looked at.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Checksum {
    /// It is.
    Unknown,
    /// The device has done so, or the datagram comes from the same machine.
    Verified,
}

/// A datagram.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Datagram<'a> {
    /// The sender's port; 0 if it wants no answer.
    pub source_port: u16,
    /// The port that it is for.
    pub destination_port: u16,
    /// What it brings.
    pub payload: &'a [u8],
}

impl<'a> Datagram<'a> {
    /// Reads the datagram in `bytes`, the payload of a whole packet from `source` to
    /// `destination`. What follows behind its own length is left out.
    ///
    /// # Errors
    ///
    /// It is cut off, for port 0, not intact, or without a checksum over IPv6, which demands one
    /// (RFC 8200 §8.1; of the exceptions of RFC 6936, which are for tunnels, there is none here).
    pub fn parse(source: IpAddr, destination: IpAddr, bytes: &'a [u8], checksum: Checksum) -> Result<Self, Malformed> {
        let mut reader = Reader(bytes);
        let (source_port, destination_port) = (reader.half()?, reader.half()?);
        let (length, sum) = (usize::from(reader.half()?), reader.half()?);
        let whole = bytes.get(..length).ok_or(Malformed::Short)?;
        let payload = whole.get(HEADER..).ok_or(Malformed::Short)?;
        if destination_port == 0 {
            return Err(Malformed::Value);
        }
        match (sum, checksum) {
            (0, _) if destination.is_ipv6() => return Err(Malformed::Checksum),
            // Over IPv4 this means that the sender has made none.
            (0, _) | (_, Checksum::Verified) => {}
            (_, Checksum::Unknown) => {
                let pseudo = pseudo_header(source, destination, length).ok_or(Malformed::Version)?;
                if !pseudo.add_bytes(whole).is_intact() {
                    return Err(Malformed::Checksum);
                }
            }
        }
        Ok(Self { source_port, destination_port, payload })
    }

    /// Writes it, with its checksum, for a packet from `source` to `destination`. Returns its
    /// length; `None` if it does not fit into `buffer`, has more than 65,535 bytes, or if the
    /// addresses are of two versions.
    pub fn write(&self, source: IpAddr, destination: IpAddr, buffer: &mut [u8]) -> Option<usize> {
        let length = self.payload.len().checked_add(HEADER)?;
        let mut writer = Writer::new(buffer);
        writer.put(&self.source_port.to_be_bytes())?;
        writer.put(&self.destination_port.to_be_bytes())?;
        writer.put(&u16::try_from(length).ok()?.to_be_bytes())?;
        writer.put(&[0; 2])?;
        writer.put(self.payload)?;
        let sum = pseudo_header(source, destination, length)?.add_bytes(writer.written()).checksum();
        // One that comes out as 0, which means none, is sent as its other zero (RFC 768).
        let sum = if sum == 0 { u16::MAX } else { sum };
        writer.patch(6, &sum.to_be_bytes())?;
        Some(writer.len())
    }
}

/// Returns the sum of the pseudo-header of `length` bytes; `None` if the addresses are of two
/// versions.
fn pseudo_header(source: IpAddr, destination: IpAddr, length: usize) -> Option<Sum> {
    (source.is_ipv4() == destination.is_ipv4()).then(|| Sum::pseudo_header(source, destination, UDP, length))
}

#[cfg(test)]
mod tests {
    use super::*;
    use core::net::{Ipv4Addr, Ipv6Addr};
    use proptest::prelude::*;

    const HOSTS: [(IpAddr, IpAddr); 2] = [
        (IpAddr::V4(Ipv4Addr::new(10, 0, 0, 1)), IpAddr::V4(Ipv4Addr::new(10, 0, 0, 2))),
        (
            IpAddr::V6(Ipv6Addr::new(0xfe80, 0, 0, 0, 0, 0, 0, 1)),
            IpAddr::V6(Ipv6Addr::new(0xfe80, 0, 0, 0, 0, 0, 0, 2)),
        ),
    ];

    /// A datagram of "hi" from port 7 to port 9, with this checksum.
    fn hi(checksum: [u8; 2]) -> [u8; 10] {
        let [a, b] = checksum;
        [0, 7, 0, 9, 0, 10, a, b, b'h', b'i']
    }

    #[test]
    fn a_datagram_may_do_without_a_checksum_over_ipv4_only() {
        let bytes = hi([0, 0]);
        let [(source, destination), (source_6, destination_6)] = HOSTS;
        let found = Datagram { source_port: 7, destination_port: 9, payload: b"hi" };
        assert_eq!(Datagram::parse(source, destination, &bytes, Checksum::Unknown), Ok(found));
        for checksum in [Checksum::Unknown, Checksum::Verified] {
            assert_eq!(Datagram::parse(source_6, destination_6, &bytes, checksum), Err(Malformed::Checksum));
        }
        let wrong = hi([1, 1]);
        assert_eq!(Datagram::parse(source, destination, &wrong, Checksum::Unknown), Err(Malformed::Checksum));
        assert_eq!(Datagram::parse(source, destination, &wrong, Checksum::Verified), Ok(found));
        assert_eq!(Datagram::parse(source, destination_6, &wrong, Checksum::Unknown), Err(Malformed::Version));
    }

    /// The sum by hand: addresses, protocol and length, ports and length, and "hi".
    #[test]
    fn the_checksum_is_that_of_the_standard() {
        let sum: u32 = 0x0a00 + 1 + 0x0a00 + 2 + 17 + 10 + 7 + 9 + 10 + 0x6869;
        let (source, destination) = HOSTS[0];
        let mut buffer = [0; 10];
        let datagram = Datagram { source_port: 7, destination_port: 9, payload: b"hi" };
        assert_eq!(datagram.write(source, destination, &mut buffer), Some(10));
        assert_eq!(buffer, hi((!(sum as u16)).to_be_bytes()));
        assert_eq!(datagram.write(source, destination, &mut buffer[..9]), None);
        assert_eq!(datagram.write(source, HOSTS[1].1, &mut buffer), None);
    }

    #[test]
    fn a_checksum_of_zero_is_sent_as_its_other_zero() {
        let (source, destination) = HOSTS[0];
        let sum: u32 = 0x0a00 + 1 + 0x0a00 + 2 + 17 + 10 + 7 + 9 + 10;
        let payload = (!(sum as u16)).to_be_bytes();
        let datagram = Datagram { source_port: 7, destination_port: 9, payload: &payload };
        let mut buffer = [0; 10];
        assert_eq!(datagram.write(source, destination, &mut buffer), Some(10));
        assert_eq!(buffer[6..8], [0xff, 0xff]);
        assert_eq!(Datagram::parse(source, destination, &buffer, Checksum::Unknown), Ok(datagram));
    }

    #[test]
    fn lengths_and_ports_are_checked() {
        let (source, destination) = HOSTS[0];
        let parse = |bytes: &[u8]| Datagram::parse(source, destination, bytes, Checksum::Unknown).err();
        let mut bytes = hi([0, 0]);
        assert_eq!(parse(&bytes[..9]), Some(Malformed::Short));
        assert_eq!(parse(&bytes[..7]), Some(Malformed::Short));
        for length in [0, 7, 11] {
            bytes[5] = length;
            assert_eq!(parse(&bytes), Some(Malformed::Short), "{length}");
        }
        bytes[5] = 8;
        assert_eq!(parse(&bytes), None, "what follows is left out");
        bytes[3] = 0;
        assert_eq!(parse(&bytes), Some(Malformed::Value));
    }

    proptest! {
        #[test]
        fn what_was_written_is_read_and_not_after_a_flip(
            source_port: u16, destination_port in 1_u16.., payload in prop::collection::vec(any::<u8>(), 0..100),
            is_ipv6: bool, place: prop::sample::Index, bit in 0..8,
        ) {
            let (source, destination) = HOSTS[usize::from(is_ipv6)];
            let datagram = Datagram { source_port, destination_port, payload: &payload };
            let mut buffer = [0; 120];
            let length = datagram.write(source, destination, &mut buffer).expect("fits");
            prop_assert_eq!(Datagram::parse(source, destination, &buffer, Checksum::Unknown), Ok(datagram));
            buffer[place.index(length)] ^= 1_u8 << bit;
            let is_refused = Datagram::parse(source, destination, &buffer[..length], Checksum::Unknown).is_err();
            // A checksum of which the only bit goes means none over IPv4.
            prop_assert!(is_refused || !is_ipv6 && buffer[6..8] == [0, 0]);
        }
    }
}
