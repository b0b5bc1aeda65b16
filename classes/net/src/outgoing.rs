//! The check of frames of a client that may send from one address only.
//!
//! A frame is looked at together with its packet header, since what the header asks of the device
//! changes the frame behind the check: a checksum that is "completed" anywhere in the frame would
//! write a number of the sender's choice over the address that was checked. So a device is asked
//! only for what a packet of that kind can want: the checksum of TCP or UDP, where that has its
//! place, and segments of TCP over the version of IP that the header names, with the length which
//! all lengths in the frame add up to.
//!
//! Hardware addresses are checked, in Ethernet's header and in ARP. IP addresses are not: a client
//! agrees on its own with the network (DHCP, autoconfiguration), and this side does not know them.

pub mod segments;

use crate::header::{PacketHeader, flags, segmentation};
use crate::wire::{Ipv4, Ipv6, array, ethernet, ipv4, ipv6, number, protocols, tcp, types, udp};
use crate::{ETHERNET_HEADER, MTU, Mac};

/// Bytes of a frame that the check needs: its headers up to TCP's data offset, with two tags and
/// the longest IPv4 header.
pub const HEAD: usize = ETHERNET_HEADER + 2 * TAG + ipv4::LONGEST_HEADER + tcp::FLAGS + 1;

/// Bytes of a VLAN tag (IEEE 802.1Q §9.3).
const TAG: usize = 4;

/// The longest frame that the link takes as it is, with a VLAN tag (IEEE 802.3 §3.2.7).
const LONGEST_FRAME: usize = ETHERNET_HEADER + TAG + MTU;

/// The least payload of a segment that a sender may ask for: with less the device would send more
/// headers than payload. No stack offers less (RFC 9293 §3.7.1 assumes 536 for a peer that offers
/// nothing).
pub const MIN_SEGMENT: u16 = 48;

/// A TCP or UDP packet within a frame.
struct Transport {
    protocol: u8,
    version_4: bool,
    /// Offset of the IP header from the frame's first byte.
    network: usize,
    /// Offset of the TCP or UDP header.
    start: usize,
    /// Offset of the packet's end, by the IP header.
    end: usize,
}

/// Returns whether a client that has the address `only` may send a frame of `length` bytes with
/// this header. `head` is the frame's beginning, up to [`HEAD`] bytes.
pub fn may_send(header: PacketHeader, head: &[u8], length: usize, only: Mac) -> bool {
    let Some((kind, network)) = own_network(head, only) else { return false };
    match (header.flags, header.segmentation) {
        (0, segmentation::NONE) => length <= LONGEST_FRAME,
        (flags::NEEDS_CHECKSUM, segmentation::NONE) => {
            length <= LONGEST_FRAME
                && transport(head, kind, network).is_some_and(|part| asks_its_checksum(header, &part, length))
        }
        (flags::NEEDS_CHECKSUM, asked @ (segmentation::TCP_4 | segmentation::TCP_6)) => {
            let is_version_4 = asked == segmentation::TCP_4;
            transport(head, kind, network)
                .is_some_and(|part| part.version_4 == is_version_4 && asks_its_segments(header, head, &part, length))
        }
        _ => false,
    }
}

/// Returns whether `only` is the address from which a frame comes, and if it is ARP, the address
/// that it tells. `head` is the frame's beginning, up to [`HEAD`] bytes.
pub fn is_from(head: &[u8], only: Mac) -> bool {
    own_network(head, only).is_some()
}

/// Returns what [`network`] does, if the addresses in the frame are `only`: see [`is_from`].
fn own_network(head: &[u8], only: Mac) -> Option<(u16, usize)> {
    let source = array(head, ethernet::SOURCE)?;
    let (kind, network) = network(head)?;
    let is_own = Mac::new(*source) == only && (kind != types::ARP || is_own_arp(head, network, only));
    is_own.then_some((kind, network))
}

/// Returns the type of a frame, behind at most two tags, and the offset of its payload.
fn network(head: &[u8]) -> Option<(u16, usize)> {
    for at in [0, TAG, 2 * TAG].map(|tags| ethernet::TYPE + tags) {
        match number(head, at)? {
            types::VLAN | types::PROVIDER_VLAN => {}
            kind => return Some((kind, at + 2)),
        }
    }
    None
}

/// Returns whether an ARP packet names `only` as its sender's hardware address (RFC 826). ARP of
/// other hardware than Ethernet is refused: no receiver understands it.
fn is_own_arp(head: &[u8], at: usize, only: Mac) -> bool {
    const ETHERNET_FOR_IPV4: [u8; 6] = [0, 1, 8, 0, 6, 4];
    head.get(at..at + 6) == Some(&ETHERNET_FOR_IPV4) && head.get(at + 8..at + 14) == Some(&only.bytes())
}

/// Returns the TCP or UDP packet in a frame; `None` if there is none, or only a fragment.
fn transport(head: &[u8], kind: u16, network: usize) -> Option<Transport> {
    match kind {
        types::IPV4 => {
            let header = Ipv4::at(head, network)?;
            let is_whole = header.version() == 4 && header.header_length() >= ipv4::HEADER && !header.is_fragment();
            let (start, end) = (network + header.header_length(), network + header.total_length());
            Transport::of(header.protocol(), true, network, start, end).filter(|_| is_whole)
        }
        types::IPV6 => {
            // IPv6 without extension headers: the client library makes no others, and devices take
            // no others.
            let header = Ipv6::at(head, network)?;
            let start = network + ipv6::HEADER;
            let end = start + header.payload_length();
            Transport::of(header.next_header(), false, network, start, end).filter(|_| header.version() == 6)
        }
        _ => None,
    }
}

impl Transport {
    /// Returns a packet of `protocol`, if that is TCP or UDP.
    fn of(protocol: u8, version_4: bool, network: usize, start: usize, end: usize) -> Option<Self> {
        let is_known = matches!(protocol, protocols::TCP | protocols::UDP);
        is_known.then_some(Self { protocol, version_4, network, start, end })
    }
}

/// Returns whether the checksum that the header asks for is the packet's own, and lies in it.
fn asks_its_checksum(header: PacketHeader, part: &Transport, length: usize) -> bool {
    let (place, least) = match part.protocol {
        protocols::TCP => (tcp::CHECKSUM, tcp::HEADER),
        _ => (udp::CHECKSUM, udp::HEADER),
    };
    usize::from(header.checksum_start) == part.start
        && usize::from(header.checksum_offset) == place
        && part.start + least <= part.end
        && part.end <= length
}

/// Returns whether the frame is one packet of TCP, whose segments have headers and payload of a
/// size that the link takes.
fn asks_its_segments(header: PacketHeader, head: &[u8], part: &Transport, length: usize) -> bool {
    let Some(words) = head.get(part.start + tcp::DATA_OFFSET).map(|byte| usize::from(byte >> 4)) else { return false };
    let headers = part.start + words * 4;
    let segment = headers - part.network + usize::from(header.segment_size);
    part.protocol == protocols::TCP
        && asks_its_checksum(header, part, length)
        && part.end == length
        && words >= 5
        && usize::from(header.header_length) == headers
        && headers <= length
        && header.segment_size >= MIN_SEGMENT
        && segment <= MTU
}

#[cfg(test)]
mod tests;
