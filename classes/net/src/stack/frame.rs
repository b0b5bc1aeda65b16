//! The frames of a connection: headers of Ethernet and IP that are the same in all of them but for
//! lengths, and TCP's behind them.
//!
//! Frames go to the station that the peer's came from, so no neighbour has to be found first, and
//! what others say about addresses on the link has no influence.

use super::classify::Key;
use super::station::Station;
use crate::checksum::{self, Sum};
use crate::client::Transmitter;
use crate::header::flags::NEEDS_CHECKSUM;
use crate::header::segmentation::{TCP_4, TCP_6};
use crate::wire::{self, HOP_LIMIT, ecn, ethernet, ipv4, ipv6, protocols, put, tcp, types};
use crate::{ETHERNET_HEADER, HEADROOM, MTU, PacketHeader};
use culm_tcp::{Header, LONGEST_HEADER};

/// A station's hardware address.
pub(super) type Link = [u8; ethernet::ADDRESS];

/// Bytes of the longest headers before TCP's: no more than IPv4's with the shortest of TCP.
const LONGEST: usize = ETHERNET_HEADER + ipv6::HEADER;
const _: () = assert!(LONGEST <= ETHERNET_HEADER + ipv4::HEADER + tcp::HEADER);

/// Bytes of the longest packet without payload.
pub(super) const LONGEST_PACKET: usize = ipv6::HEADER + LONGEST_HEADER;

/// Bytes of the longest payload that the device is left to divide, whatever its header.
pub(super) const LONGEST_TRAIN: u32 =
    (crate::slots::LARGEST_PACKET - HEADROOM - ETHERNET_HEADER - ipv6::HEADER - LONGEST_HEADER) as u32;

/// What the frames of a connection begin with.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Route {
    head: Head,
    /// The sum of IPv4's header, without its length.
    sum: Sum,
    /// The sum of the pseudo-header of TCP, without its length.
    pseudo: Sum,
    is_version_4: bool,
}

#[derive(Clone, Copy, Debug)]
struct Head([u8; LONGEST]);

/// Returns how many bytes of payload and options a peer takes that does not say (RFC 9293 §3.7.1).
pub(super) const fn usual_segment(is_version_4: bool) -> u16 {
    if is_version_4 { 536 } else { 1220 }
}

impl Default for Head {
    fn default() -> Self {
        Self([0; LONGEST])
    }
}

impl Route {
    /// From the station `own`, to where segments with this key come from, which is reached through
    /// the station `next_hop`.
    pub(super) fn new(own: &Station, next_hop: Link, key: &Key, is_version_4: bool) -> Self {
        let mut head = [0; LONGEST];
        let (ethernet, ip) = head.split_at_mut(ETHERNET_HEADER);
        put(ethernet, ethernet::DESTINATION, next_hop);
        put(ethernet, ethernet::SOURCE, own.mac);
        let mut sum = Sum::ZERO;
        // Addresses lie in a key as they lie in a packet.
        if is_version_4 {
            put(ethernet, ethernet::TYPE, types::IPV4.to_be_bytes());
            ip[ipv4::VERSION] = ipv4::VERSION_AND_LENGTH;
            put(ip, ipv4::FRAGMENT, ipv4::DO_NOT_FRAGMENT.to_be_bytes());
            put(ip, ipv4::TIME_TO_LIVE, [HOP_LIMIT, protocols::TCP]);
            put(ip, ipv4::SOURCE, (key.local[0] as u32).to_le_bytes());
            put(ip, ipv4::DESTINATION, (key.remote[0] as u32).to_le_bytes());
            sum = sum.add_bytes(&ip[..ipv4::HEADER]);
        } else {
            put(ethernet, ethernet::TYPE, types::IPV6.to_be_bytes());
            put(ip, ipv6::VERSION, ipv6::VERSION_ALONE);
            put(ip, ipv6::NEXT_HEADER, [protocols::TCP, own.hop_limit]);
            for (index, word) in key.local.into_iter().chain(key.remote).enumerate() {
                put(ip, ipv6::SOURCE + 8 * index, word.to_le_bytes());
            }
        }
        let pseudo = key.sum().add_number(protocols::TCP.into());
        Self { head: Head(head), sum, pseudo, is_version_4 }
    }

    /// Returns the station that frames go to.
    #[inline(always)]
    pub(super) fn link(&self) -> Link {
        core::array::from_fn(|index| self.head.0[ethernet::DESTINATION + index])
    }

    /// Returns whether frames go to this station.
    #[inline(always)]
    pub(super) fn is_through(&self, link: &Link) -> bool {
        wire::array(&self.head.0, ethernet::DESTINATION) == Some(link)
    }

    /// Has frames go to another station.
    pub(super) fn set_link(&mut self, link: Link) {
        put(&mut self.head.0, ethernet::DESTINATION, link);
    }

    #[inline(always)]
    pub(super) fn is_version_4(&self) -> bool {
        self.is_version_4
    }

    /// Returns the kind of segmentation of a packet of many segments.
    #[inline(always)]
    pub(super) fn segmentation(&self) -> u8 {
        if self.is_version_4 { TCP_4 } else { TCP_6 }
    }

    /// Returns how many bytes of payload and options a segment has that fills Ethernet's MTU.
    pub(super) fn segment(&self) -> u16 {
        let header = if self.is_version_4 { ipv4::HEADER } else { ipv6::HEADER };
        (MTU - header - tcp::HEADER) as u16
    }

    /// Returns how many bytes of payload and options the peer takes, if it does not say.
    pub(super) fn usual_segment(&self) -> u16 {
        usual_segment(self.is_version_4)
    }

    /// Sends a segment with `length` bytes of payload, which `fill` writes. If `each` is 0 it is
    /// one; else the device divides it into segments with so many bytes of payload each. Where it
    /// `is_ect`, routers may mark it. Returns whether there was a buffer.
    #[inline(always)]
    pub(super) fn send(
        &self,
        transmitter: &mut Transmitter,
        header: &Header,
        length: usize,
        each: u16,
        is_ect: bool,
        fill: impl FnOnce(&mut [u8]),
    ) -> bool {
        let before = ETHERNET_HEADER + if self.is_version_4 { ipv4::HEADER } else { ipv6::HEADER };
        let tcp = header.length();
        let description = PacketHeader {
            flags: NEEDS_CHECKSUM,
            segmentation: if each > 0 { self.segmentation() } else { 0 },
            header_length: if each > 0 { (before + tcp) as u16 } else { 0 },
            segment_size: each,
            checksum_start: before as u16,
            checksum_offset: tcp::CHECKSUM as u16,
            ..PacketHeader::default()
        };
        transmitter.send_described(before + tcp + length, &description, |frame| {
            // Copied at a length that the compiler knows: what is too much of IPv4's lies where
            // TCP's header comes.
            let Some(start) = frame.first_chunk_mut() else { return };
            *start = self.head.0;
            let Some((head, rest)) = frame.split_at_mut_checked(before) else { return };
            let Some((segment, payload)) = rest.split_at_mut_checked(tcp) else { return };
            self.complete(head, tcp + length);
            if is_ect {
                self.set_markable(head);
            }
            header.emit_whole(segment);
            // A checksum begins with the sum of the pseudo-header.
            let pseudo = self.pseudo.add_number((tcp + length) as u16);
            put(segment, tcp::CHECKSUM, pseudo.fold().to_le_bytes());
            fill(payload);
        })
    }

    /// Sends a segment without payload by itself: the answer to a SYN, a reset, or the end of a
    /// connection that makes way.
    #[inline(never)]
    pub(super) fn send_alone(&self, transmitter: &mut Transmitter, header: &Header) -> bool {
        self.send(transmitter, header, 0, 0, false, |_| {})
    }

    /// Writes the IP packet of a segment without payload, for which the station is yet to be found.
    /// Returns its length.
    #[cold]
    pub(super) fn packet(&self, header: &Header, into: &mut [u8; LONGEST_PACKET]) -> usize {
        let mut room = [0; LONGEST_HEADER];
        let tcp = header.emit(&mut room);
        let ip = if self.is_version_4 { ipv4::HEADER } else { ipv6::HEADER };
        let mut frame = [0; ETHERNET_HEADER + LONGEST_PACKET];
        let head = &mut frame[..ETHERNET_HEADER + ip];
        head.copy_from_slice(&self.head.0[..ETHERNET_HEADER + ip]);
        self.complete(head, tcp);
        let end = ETHERNET_HEADER + ip + tcp;
        frame[ETHERNET_HEADER + ip..end].copy_from_slice(&room[..tcp]);
        checksum::complete(&mut frame[..end]);
        into.copy_from_slice(&frame[ETHERNET_HEADER..]);
        ip + tcp
    }

    /// Has the packet of completed headers be one that may be marked (ECT(0), RFC 3168 §5).
    fn set_markable(&self, head: &mut [u8]) {
        let ip = &mut head[ETHERNET_HEADER..];
        if self.is_version_4 {
            ip[ipv4::SERVICE] = ecn::MARKABLE;
            let [high, low] = [ip[ipv4::CHECKSUM], ip[ipv4::CHECKSUM + 1]];
            // A checksum is the complement of the sum (RFC 1624 §3).
            let sum = Sum::ZERO.add_number(!u16::from_be_bytes([high, low])).add_number(ecn::MARKABLE.into());
            put(ip, ipv4::CHECKSUM, (!sum.fold()).to_le_bytes());
        } else {
            ip[ipv6::CLASS] = ecn::MARKABLE << ecn::SHIFT_6;
        }
    }

    /// Completes the headers for `length` bytes of TCP.
    #[inline(always)]
    fn complete(&self, head: &mut [u8], length: usize) {
        let ip = &mut head[ETHERNET_HEADER..];
        if self.is_version_4 {
            let total = (ipv4::HEADER + length) as u16;
            put(ip, ipv4::TOTAL_LENGTH, total.to_be_bytes());
            put(ip, ipv4::CHECKSUM, (!self.sum.add_number(total).fold()).to_le_bytes());
        } else {
            put(ip, ipv6::PAYLOAD_LENGTH, (length as u16).to_be_bytes());
        }
    }
}
