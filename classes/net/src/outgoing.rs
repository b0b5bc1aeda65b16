//! The check of frames of a client that may send from one address only.
//!
//! A frame is looked at together with its packet header, since what the header asks of the device
//! changes the frame behind the check: a checksum that is "completed" anywhere in the frame would
//! write a number of the sender's choice over the address that was checked. So a device is asked
//! only for what a packet of that kind can want: the checksum of TCP or UDP, where that has its
//! place, and segments of TCP over IPv4 that have the length which all lengths in the frame add up
//! to.
//!
//! Hardware addresses are checked, in Ethernet's header and in ARP. IP addresses are not: a client
//! agrees on its own with the network (DHCP, autoconfiguration), and this side does not know them.

use crate::header::{PacketHeader, flags, segmentation};
use crate::{ETHERNET_HEADER, MTU, Mac};

/// Bytes of a frame that the check needs: its headers up to TCP's data offset, with two tags and
/// the longest IPv4 header.
pub const HEAD: usize = ETHERNET_HEADER + 2 * TAG + 60 + 14;

/// Bytes of a VLAN tag (IEEE 802.1Q §9.3).
const TAG: usize = 4;

/// The longest frame that the link takes as it is, with a VLAN tag (IEEE 802.3 §3.2.7).
const LONGEST_FRAME: usize = ETHERNET_HEADER + TAG + MTU;

/// The least payload of a segment that a sender may ask for: with less the device would send more
/// headers than payload. No stack offers less (RFC 9293 §3.7.1 assumes 536 for a peer that offers
/// nothing).
pub const LEAST_SEGMENT: u16 = 48;

/// Types of a frame (IEEE 802 EtherType registry).
mod kind {
    pub(super) const IPV4: u16 = 0x0800;
    pub(super) const ARP: u16 = 0x0806;
    pub(super) const VLAN: u16 = 0x8100;
    pub(super) const IPV6: u16 = 0x86dd;
    pub(super) const PROVIDER_VLAN: u16 = 0x88a8;
}

const TCP: u8 = 6;
const UDP: u8 = 17;

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
    let Some(source) = head.get(6..12).and_then(|bytes| bytes.first_chunk()) else { return false };
    if Mac::new(*source) != only {
        return false;
    }
    let Some((kind, network)) = network(head) else { return false };
    if kind == kind::ARP && !is_own_arp(head, network, only) {
        return false;
    }
    match (header.flags, header.segmentation) {
        (0, segmentation::NONE) => length <= LONGEST_FRAME,
        (flags::NEEDS_CHECKSUM, segmentation::NONE) => {
            length <= LONGEST_FRAME
                && transport(head, kind, network).is_some_and(|part| asks_its_checksum(header, &part, length))
        }
        (flags::NEEDS_CHECKSUM, segmentation::TCP_4) => {
            transport(head, kind, network).is_some_and(|part| asks_its_segments(header, head, &part, length))
        }
        _ => false,
    }
}

/// Returns the type of a frame, behind at most two tags, and the offset of its payload.
fn network(head: &[u8]) -> Option<(u16, usize)> {
    for at in [12, 12 + TAG, 12 + 2 * TAG] {
        match number(head, at)? {
            kind::VLAN | kind::PROVIDER_VLAN => {}
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
    let header = head.get(network..)?;
    let version = header.first()? >> 4;
    match (kind, version) {
        (kind::IPV4, 4) => {
            let words = usize::from(header[0] & 0xf);
            let fragment = number(header, 6)? & 0x3fff;
            let (protocol, total) = (*header.get(9)?, usize::from(number(header, 2)?));
            let whole = words >= 5 && fragment == 0 && matches!(protocol, TCP | UDP);
            let (start, end) = (network + words * 4, network + total);
            whole.then_some(Transport { protocol, version_4: true, network, start, end })
        }
        (kind::IPV6, 6) => {
            // IPv6 without extension headers: the client library makes no others, and devices take
            // no others.
            let (protocol, start) = (*header.get(6)?, network + 40);
            let end = start + usize::from(number(header, 4)?);
            matches!(protocol, TCP | UDP).then_some(Transport { protocol, version_4: false, network, start, end })
        }
        _ => None,
    }
}

/// Returns whether the checksum that the header asks for is the packet's own, and lies in it.
fn asks_its_checksum(header: PacketHeader, part: &Transport, length: usize) -> bool {
    let (place, least) = if part.protocol == TCP { (16, 20) } else { (6, 8) };
    usize::from(header.checksum_start) == part.start
        && header.checksum_offset == place
        && part.start + least <= part.end
        && part.end <= length
}

/// Returns whether the frame is one packet of TCP over IPv4, whose segments have headers and
/// payload of a size that the link takes.
fn asks_its_segments(header: PacketHeader, head: &[u8], part: &Transport, length: usize) -> bool {
    let Some(words) = head.get(part.start + 12).map(|byte| usize::from(byte >> 4)) else { return false };
    let headers = part.start + words * 4;
    let segment = headers - part.network + usize::from(header.segment_size);
    part.version_4
        && part.protocol == TCP
        && asks_its_checksum(header, part, length)
        && part.end == length
        && words >= 5
        && usize::from(header.header_length) == headers
        && headers <= length
        && header.segment_size >= LEAST_SEGMENT
        && segment <= MTU
}

/// Returns the number in network byte order at `at`.
fn number(bytes: &[u8], at: usize) -> Option<u16> {
    bytes.get(at..at + 2).and_then(|bytes| bytes.first_chunk()).map(|bytes| u16::from_be_bytes(*bytes))
}

#[cfg(test)]
mod tests;
