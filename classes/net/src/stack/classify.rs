//! Finding out whether a frame is a TCP segment, and of which connection.

use crate::ETHERNET_HEADER;
use crate::checksum::Sum;
use crate::wire::{self, Ethernet, Ipv4, Ipv6, ecn, ipv4, ipv6, protocols, tcp, types};
use core::net::{IpAddr, Ipv4Addr, Ipv6Addr};

/// The connection to which a TCP segment belongs. Fields are as they lie in the frame; they serve
/// only for comparison.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Key {
    /// The sender's address; of IPv4 the lower words are 0.
    pub(super) remote: [u64; 2],
    /// The address that it was sent to.
    pub(super) local: [u64; 2],
    /// Both ports: the sender's in the lower half.
    pub(super) ports: u32,
}

impl Key {
    /// The key of segments from one address and port to another.
    pub(super) fn new(remote: (IpAddr, u16), local: (IpAddr, u16)) -> Self {
        let words = |address| match address {
            IpAddr::V4(address) => [u32::from_le_bytes(Ipv4Addr::octets(&address)).into(), 0],
            IpAddr::V6(address) => {
                let all = u128::from_le_bytes(Ipv6Addr::octets(&address));
                [all as u64, (all >> 64) as u64]
            }
        };
        let ports = u32::from(remote.1.swap_bytes()) | u32::from(local.1.swap_bytes()) << 16;
        Self { remote: words(remote.0), local: words(local.0), ports }
    }

    /// Returns the sender's port.
    pub(super) fn remote_port(&self) -> u16 {
        (self.ports as u16).swap_bytes()
    }

    /// Returns the sum of both addresses, for pseudo-headers.
    #[inline(always)]
    pub(super) fn sum(&self) -> Sum {
        let [remote, local] = [self.remote, self.local];
        Sum::ZERO.add_word(remote[0]).add_word(remote[1]).add_word(local[0]).add_word(local[1])
    }

    /// Returns the addresses of sender and receiver, of either version.
    #[inline]
    pub(super) fn addresses(&self, is_version_4: bool) -> (IpAddr, IpAddr) {
        let address = |[first, second]: [u64; 2]| match is_version_4 {
            true => IpAddr::from((first as u32).to_le_bytes()),
            false => IpAddr::from((u128::from(first) | u128::from(second) << 64).to_le_bytes()),
        };
        (address(self.remote), address(self.local))
    }
}

/// A TCP segment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Segment {
    /// The connection to which it belongs.
    pub(super) key: Key,
    /// The port that it was sent to.
    pub(super) local_port: u16,
    /// Its flags (RFC 9293 §3.1).
    flags: u8,
    /// Whether its packet bears a mark of congestion (CE, RFC 3168 §5).
    pub(super) is_marked: bool,
    /// Offsets of its first byte and of its end in the frame.
    start: u16,
    end: u16,
}

impl Segment {
    /// Returns whether it asks for a new connection: SYN without ACK or RST.
    #[inline(always)]
    pub(super) fn opens(&self) -> bool {
        self.flags & CONNECTING == tcp::SYN
    }

    /// Returns its bytes in the frame that it was found in.
    #[inline(always)]
    pub(super) fn of<'a>(&self, frame: &'a [u8]) -> &'a [u8] {
        frame.get(self.start.into()..self.end.into()).unwrap_or_default()
    }

    /// Returns whether its checksum is right, in the frame that it was found in.
    #[inline(always)]
    pub(super) fn is_intact(&self, frame: &[u8]) -> bool {
        let bytes = self.of(frame);
        // Both numbers of the pseudo-header at once: a frame is shorter than 64 KiB, headers
        // included, so that their sum fits.
        let numbers = (bytes.len() as u16).wrapping_add(protocols::TCP.into());
        self.key.sum().add_number(numbers).add_word(culm::sum(bytes)).is_intact()
    }

    /// Returns whether it brings nothing but an acknowledgement.
    #[inline]
    pub(super) fn only_acknowledges(&self, frame: &[u8]) -> bool {
        let bytes = self.of(frame);
        let header = bytes.get(tcp::DATA_OFFSET).map_or(0, |offset| usize::from(offset >> 4) * 4);
        self.flags & (CONNECTING | tcp::FIN) == tcp::ACK && header == bytes.len()
    }

    /// Returns whether it acknowledges something, and may be the one that completes a connection:
    /// ACK without SYN or RST.
    #[inline(always)]
    pub(super) fn acknowledges(&self) -> bool {
        self.flags & CONNECTING == tcp::ACK
    }
}

/// The flags that tell whether a segment opens a connection or belongs to one.
const CONNECTING: u8 = tcp::SYN | tcp::RST | tcp::ACK;

/// Offsets in a frame, where an IPv4 header has no options.
mod offset {
    use crate::ETHERNET_HEADER;
    use crate::wire::{ipv4, ipv6};

    pub(super) const IPV4_PROTOCOL: usize = ETHERNET_HEADER + ipv4::PROTOCOL;
    pub(super) const IPV6_NEXT_HEADER: usize = ETHERNET_HEADER + ipv6::NEXT_HEADER;
}

/// Returns the TCP segment in `frame`: one that is whole, and over IPv6 without extension headers.
#[inline]
pub(super) fn segment(frame: &[u8]) -> Option<Segment> {
    let head = frame.first_chunk::<{ ETHERNET_HEADER + ipv4::HEADER }>()?;
    match Ethernet::at(head, 0)?.kind() {
        types::IPV4 if head[offset::IPV4_PROTOCOL] == protocols::TCP => {
            let header = Ipv4::at(head, ETHERNET_HEADER)?;
            let address = |octets| [u32::from_le_bytes(octets).into(), 0];
            let (length, end) = (header.header_length(), ETHERNET_HEADER + header.total_length());
            // Nearly all have no options. Over so many bytes as the compiler knows, the sum takes a
            // few instructions.
            let sum = match length {
                ipv4::HEADER => Sum::ZERO.add_bytes(&head[ETHERNET_HEADER..]),
                _ => Sum::ZERO.add_bytes(frame.get(ETHERNET_HEADER..ETHERNET_HEADER + length)?),
            };
            if header.version() != 4 || !sum.is_intact() || length < ipv4::HEADER || header.is_fragment() {
                return None;
            }
            let start = ETHERNET_HEADER + length;
            let addresses = (address(header.source()), address(header.destination()));
            ports(frame, start, end, addresses, header.ecn())
        }
        types::IPV6 if head[offset::IPV6_NEXT_HEADER] == protocols::TCP => {
            let start = ETHERNET_HEADER + ipv6::HEADER;
            let header = Ipv6::at(frame, ETHERNET_HEADER)?;
            let end = start + header.payload_length();
            let addresses = frame.get(ETHERNET_HEADER + ipv6::SOURCE..start)?.as_chunks::<8>().0;
            let word = |index: usize| u64::from_le_bytes(addresses[index]);
            let addresses = ([word(0), word(1)], [word(2), word(3)]);
            ports(frame, start, end, addresses, header.ecn()).filter(|_| header.version() == 6)
        }
        _ => None,
    }
}

#[inline(always)]
fn ports(frame: &[u8], start: usize, end: usize, (remote, local): ([u64; 2], [u64; 2]), mark: u8) -> Option<Segment> {
    let head = wire::array::<{ tcp::HEADER }>(frame.get(..end)?, start)?;
    let [source, destination] = [tcp::SOURCE, tcp::DESTINATION].map(|port| [head[port], head[port + 1]]);
    let key = Key { remote, local, ports: u32::from_le_bytes([source[0], source[1], destination[0], destination[1]]) };
    let (local_port, flags) = (u16::from_be_bytes(destination), head[tcp::FLAGS]);
    // What a descriptor describes is shorter than 64 KiB.
    Some(Segment { key, local_port, flags, is_marked: mark == ecn::MARKED, start: start as u16, end: end as u16 })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::checksum;
    use crate::wire::protocols::TCP;
    use proptest::prelude::*;
    use std::vec::Vec;

    fn frame(version: u8, flags: u8) -> Vec<u8> {
        let mut frame = Vec::from([0; 12]);
        if version == 4 {
            frame.extend([0x08, 0, 0x45, 0, 0, 40, 0, 0, 0, 0, 64, TCP, 0, 0, 10, 0, 0, 1, 10, 0, 0, 2]);
        } else {
            frame.extend([0x86, 0xdd, 0x60, 0, 0, 0, 0, 20, TCP, 64]);
            frame.extend([1; 16]);
            frame.extend([2; 16]);
        }
        frame.extend([0xc0, 0x01, 0, 80, 0, 0, 0, 0, 0, 0, 0, 0, 0x50, flags, 0, 0, 0, 0, 0, 0]);
        if version == 4 {
            let sum = !Sum::ZERO.add_bytes(&frame[14..34]).fold();
            frame[24..26].copy_from_slice(&sum.to_le_bytes());
        }
        frame
    }

    #[test]
    fn segments_are_found() {
        for version in [4, 6] {
            let segment = segment(&frame(version, 0x02)).expect("TCP");
            assert_eq!((segment.local_port, segment.opens(), segment.acknowledges()), (80, true, false));
            assert_ne!(segment.key.remote, segment.key.local);
            let of = |four: [u8; 4], six: u8| if version == 4 { IpAddr::from(four) } else { IpAddr::from([six; 16]) };
            let (remote, local) = ((of([10, 0, 0, 1], 1), 0xc001), (of([10, 0, 0, 2], 2), 80));
            assert_eq!(segment.key, Key::new(remote, local));
            assert_eq!(segment.key.addresses(version == 4), (remote.0, local.0));
            for flags in [0x12, 0x04, 0x06, 0x10, 0x18, 0x11] {
                let segment = super::segment(&frame(version, flags)).expect("TCP");
                assert!(!segment.opens(), "{flags:#x}");
                assert_eq!(segment.acknowledges(), matches!(flags, 0x10 | 0x18 | 0x11), "{flags:#x}");
            }
        }
    }

    /// RFC 9293, MUST-50.
    #[test]
    fn options_of_ip_are_passed_over() {
        let plain = frame(4, 0x02);
        let mut frame = plain.clone();
        // Eight bytes: a router's alert (RFC 2113), and no-operations.
        frame.splice(34..34, [148, 4, 0, 0, 1, 1, 1, 1]);
        (frame[14], frame[17]) = (0x47, 48);
        frame[24..26].fill(0);
        let sum = !Sum::ZERO.add_bytes(&frame[14..42]).fold();
        frame[24..26].copy_from_slice(&sum.to_le_bytes());
        let (found, expected) = (segment(&frame).expect("TCP"), segment(&plain).expect("TCP"));
        assert_eq!((found.key, found.flags, found.start), (expected.key, expected.flags, expected.start + 8));
        frame[40] = 0;
        assert!(segment(&frame).is_none(), "the header's checksum has its options too");
    }

    #[test]
    fn a_checksum_is_looked_at_as_everywhere() {
        for version in [4, 6] {
            let mut frame = frame(version, 0x10);
            frame.extend(b"payload");
            match version {
                4 => frame[17] = 47,
                _ => frame[19] = 27,
            }
            let header = ETHERNET_HEADER..ETHERNET_HEADER + ipv4::HEADER;
            if version == 4 {
                frame[24..26].fill(0);
                let sum = !Sum::ZERO.add_bytes(&frame[header]).fold();
                frame[24..26].copy_from_slice(&sum.to_le_bytes());
            }
            checksum::complete(&mut frame);
            let found = segment(&frame).expect("TCP");
            assert!(found.is_intact(&frame) && checksum::is_right(&frame));
            for at in usize::from(found.start)..frame.len() {
                frame[at] ^= 0x10;
                assert!(!found.is_intact(&frame), "{at} of version {version}");
                frame[at] ^= 0x10;
            }
        }
    }

    proptest! {
        #[test]
        fn any_bytes_are_survived(bytes in proptest::collection::vec(any::<u8>(), 0..80), kind in 0..3) {
            let mut bytes = bytes;
            if bytes.len() > 23 {
                match kind {
                    0 => { bytes[12..14].copy_from_slice(&[8, 0]); bytes[23] = TCP; }
                    1 => { bytes[12..14].copy_from_slice(&[0x86, 0xdd]); bytes[20] = TCP; }
                    _ => {}
                }
            }
            let _ = segment(&bytes);
        }
    }
}
