//! The packet that an error is about, as far as the error quotes it.

use crate::Malformed;
use crate::extension::behind;
use core::net::IpAddr;
use culm_packet::ip::Part;
use culm_packet::wire::{Ipv4, Ipv6, array};

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
    /// Reads a packet of this host's own.
    ///
    /// # Errors
    ///
    /// It is no packet of IP, or a fragment that is not the first, or too short.
    pub fn of_packet(packet: &[u8]) -> Result<Self, Malformed> {
        match packet.first().map(|first| first >> 4) {
            Some(4) => Self::of_ipv4(packet),
            Some(6) => Self::of_ipv6(packet),
            _ => Err(Malformed::Version),
        }
    }

    /// Reads a quoted packet of IPv4. Its checksum is not looked at, since routers change what it
    /// sums.
    pub(super) fn of_ipv4(bytes: &[u8]) -> Result<Self, Malformed> {
        let header = Ipv4::at(bytes, 0).ok_or(Malformed::Short)?;
        if header.version() != 4 || header.header_length() < crate::ipv4::HEADER {
            return Err(Malformed::Version);
        }
        // A fragment that is not the first has no ports.
        if Part::of(header).offset != 0 {
            return Err(Malformed::Value);
        }
        let (source, destination) = (header.source().into(), header.destination().into());
        let start = *array(bytes, header.header_length()).ok_or(Malformed::Short)?;
        Ok(Self { source, destination, protocol: header.protocol(), length: header.total_length() as u16, start })
    }

    /// Reads a quoted packet of IPv6, which may be cut off behind the first bytes of what it
    /// carries.
    pub(super) fn of_ipv6(bytes: &[u8]) -> Result<Self, Malformed> {
        let (fixed, behind_it) = bytes.split_at_checked(crate::ipv6::HEADER).ok_or(Malformed::Short)?;
        let header = Ipv6::at(fixed, 0).filter(|header| header.version() == 6).ok_or(Malformed::Version)?;
        let length = u16::try_from(crate::ipv6::HEADER + header.payload_length()).unwrap_or(u16::MAX);
        let (source, destination) = (header.source().into(), header.destination().into());
        let mut content = behind(header.next_header(), behind_it)?;
        if let Some(part) = content.fragment {
            if part.offset != 0 {
                return Err(Malformed::Value);
            }
            content = behind(content.protocol, content.payload)?;
        }
        let start = *array(content.payload, 0).ok_or(Malformed::Short)?;
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
