//! Reading a segment that belongs to no connection.
//!
//! A flood of them must cost little, and what answers them goes back to the station that they came
//! from: so only their headers are looked at, and whoever cannot be answered is passed over.

use super::classify::Key;
use super::cookie::Offer;
use super::frame::{Link, Route};
use crate::checksum::Sum;
use crate::wire::{Ethernet, Ipv4, Ipv6, ecn, ipv4, ipv6, protocols};
use crate::{ETHERNET_HEADER, Mac};
use core::net::{IpAddr, SocketAddr};
use culm_ip::{Cidr, is_host};
use culm_packet::ip;
use culm_tcp::{Flags, Header};

/// A segment of which no connection is known.
#[derive(Clone, Copy)]
pub(super) struct UnmatchedSegment {
    /// Where its frame came from.
    pub(super) link: Link,
    pub(super) key: Key,
    pub(super) remote: SocketAddr,
    pub(super) local: SocketAddr,
    pub(super) header: Header,
    /// Bytes of its payload.
    pub(super) length: u32,
    /// Whether its packet bears a mark of congestion (CE, RFC 3168 §5).
    pub(super) is_marked: bool,
}

impl UnmatchedSegment {
    /// Reads a frame of TCP; returns its payload too. None where it is damaged, not for this
    /// station, or from nobody who could be answered.
    #[cold]
    pub(super) fn read<'a>(frame: &'a [u8], key: Key, mac: Mac, addresses: &[Cidr]) -> Option<(Self, &'a [u8])> {
        let ethernet = Ethernet::at(frame, 0)?;
        let link = ethernet.source();
        if ethernet.destination() != mac.bytes() || link[0] & 1 != 0 {
            return None;
        }
        let packet = &frame[ETHERNET_HEADER..];
        let (from, to, segment) = match packet.first()? >> 4 {
            4 => read_4(packet)?,
            6 => read_6(packet)?,
            _ => return None,
        };
        let is_own = |address| addresses.iter().any(|own| own.address() == address);
        if !is_own(to) || is_own(from) || !is_station(from, addresses) {
            return None;
        }
        let (header, length) = Header::parse(segment).ok()?;
        let payload = segment.get(length..)?;
        let remote = SocketAddr::new(from, header.source);
        let local = SocketAddr::new(to, header.destination);
        let (length, is_marked) = (payload.len() as u32, ip::ecn(packet) == ecn::MARKED);
        let segment = Self { link, key, remote, local, header, length, is_marked };
        (remote.port() != 0).then_some((segment, payload))
    }

    /// Returns whether it brings bytes or the sender's end, and so is sent again until it is
    /// acknowledged.
    pub(super) fn wants_answer(&self) -> bool {
        self.length > 0 || self.header.flags.has(Flags::FIN)
    }

    /// Returns what it offers, if it is a SYN.
    pub(super) fn offer(&self) -> Offer {
        let options = &self.header.options;
        Offer::new(options.mss, options.window_scale, options.sack_permitted)
    }

    /// Returns how answers get to its sender.
    pub(super) fn route(&self, mac: Mac) -> Route {
        Route::new(mac, self.link, self.local.ip(), self.remote.ip())
    }
}

/// Returns sender, receiver and segment of an IPv4 packet that is no fragment.
fn read_4(packet: &[u8]) -> Option<(IpAddr, IpAddr, &[u8])> {
    let header = Ipv4::at(packet, 0)?;
    let length = header.header_length();
    let is_right = Sum::ZERO.add_bytes(packet.get(..length)?).fold() == 0xffff;
    if length < ipv4::HEADER || header.is_fragment() || header.protocol() != protocols::TCP || !is_right {
        return None;
    }
    let address = |octets: [u8; 4]| IpAddr::from(octets);
    Some((address(header.source()), address(header.destination()), packet.get(length..header.total_length())?))
}

/// Returns sender, receiver and segment of an IPv6 packet without options.
fn read_6(packet: &[u8]) -> Option<(IpAddr, IpAddr, &[u8])> {
    let header = Ipv6::at(packet, 0)?;
    let segment = packet[ipv6::HEADER..].get(..header.payload_length())?;
    let address = |octets: [u8; 16]| IpAddr::from(octets);
    let is_tcp = header.next_header() == protocols::TCP;
    is_tcp.then_some((address(header.source()), address(header.destination()), segment))
}

/// Whether an address is one station's, and not that of all on a link.
fn is_station(address: IpAddr, own: &[Cidr]) -> bool {
    match address {
        IpAddr::V4(address) => is_host(address) && !own.iter().any(|own| own.is_everybody(address)),
        IpAddr::V6(address) => !address.is_multicast() && !address.is_unspecified() && !address.is_loopback(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn any_bytes_are_survived(bytes in proptest::collection::vec(any::<u8>(), 0..100), version in 0..3) {
            let mut frame = bytes;
            if frame.len() > 20 {
                match version {
                    0 => frame[14] = 0x45,
                    1 => (frame[14], frame[20]) = (0x60, protocols::TCP),
                    _ => {}
                }
                let mac: [u8; 6] = frame[..6].try_into().expect("six bytes");
                let _ = UnmatchedSegment::read(&frame, Key::default(), Mac::new(mac), &[]);
            }
        }
    }
}
