//! The packet that an error is about, as far as the error quotes it.

use crate::Malformed;
use crate::bytes::Reader;
use crate::extension::behind;
use core::net::IpAddr;

/// A packet that an error quotes. Nothing of it is checked but that it is there: its sender knows
/// whether it has sent such a one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Quoted {
    /// Who sent it, which is this host if the error is honest.
    pub source: IpAddr,
    /// Whom it was for.
    pub destination: IpAddr,
    /// The protocol behind all headers of IP.
    pub protocol: u8,
    /// How many bytes the packet had, by its header.
    pub length: u16,
    /// The first bytes of what it carried: ports, and of TCP the sequence number.
    pub start: [u8; 8],
}

impl Quoted {
    /// Reads a quoted packet of IPv4. Its checksum is not looked at, since routers change what it
    /// sums.
    pub(super) fn of_ipv4(bytes: &[u8]) -> Result<Self, Malformed> {
        let mut reader = Reader(bytes);
        let [first, _] = reader.array()?;
        let header = usize::from(first & 15) * 4;
        let length = reader.half()?;
        let [_, _, place_high, place_low, _, protocol, _, _] = reader.array()?;
        let (source, destination) = (reader.ipv4()?.into(), reader.ipv4()?.into());
        if first >> 4 != 4 || header < crate::ipv4::HEADER {
            return Err(Malformed::Version);
        }
        // A fragment that is not the first has no ports.
        if u16::from_be_bytes([place_high, place_low]) & 0x1fff != 0 {
            return Err(Malformed::Value);
        }
        let start = Reader(bytes.get(header..).ok_or(Malformed::Short)?).array()?;
        Ok(Self { source, destination, protocol, length, start })
    }

    /// Reads a quoted packet of IPv6, which may be cut off behind the first bytes of what it
    /// carries.
    pub(super) fn of_ipv6(bytes: &[u8]) -> Result<Self, Malformed> {
        let mut reader = Reader(bytes);
        if reader.word()? >> 28 != 6 {
            return Err(Malformed::Version);
        }
        let length = reader.half()?.saturating_add(crate::ipv6::HEADER as u16);
        let [next_header, _] = reader.array()?;
        let (source, destination) = (reader.ipv6()?.into(), reader.ipv6()?.into());
        let mut content = behind(next_header, reader.0)?;
        if let Some(part) = content.fragment {
            if part.offset != 0 {
                return Err(Malformed::Value);
            }
            content = behind(content.protocol, content.payload)?;
        }
        let start = Reader(content.payload).array()?;
        Ok(Self { source, destination, protocol: content.protocol, length, start })
    }

    /// Returns the ports of the packet's sender and of whom it was for, of TCP and UDP.
    pub fn ports(&self) -> (u16, u16) {
        let [a, b, c, d, ..] = self.start;
        (u16::from_be_bytes([a, b]), u16::from_be_bytes([c, d]))
    }

    /// Returns TCP's sequence number.
    pub fn sequence(&self) -> u32 {
        let [.., a, b, c, d] = self.start;
        u32::from_be_bytes([a, b, c, d])
    }
}
