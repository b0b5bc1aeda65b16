//! Frames that leave: written once, into the buffer of the card that sends them.

use super::{Cards, Router, Tally};
use crate::station::Arrival;
use core::net::IpAddr;
use culm_flow::rewrite::{clamp_mss, count_hop, translate, translate_error};
use culm_flow::{Packet, TCP, Tuple, UDP};
use culm_ip::LinkAddress;
use culm_net::header::{flags, segmentation};
use culm_net::outgoing::segments::Segments;
use culm_net::wire::types;
use culm_net::{ETHERNET_HEADER, PacketHeader, checksum};
use culm_packet::checksum::Sum;

/// Bytes of the longest frame.
pub const LONGEST_FRAME: usize = ETHERNET_HEADER + 65_575;

/// Bytes of an IPv4 header without options.
const IPV4_HEADER: usize = 20;

/// What is changed of a packet.
#[derive(Clone, Copy, Debug)]
pub enum Change {
    /// It goes on.
    Forward {
        /// With these addresses and ports.
        to: Option<Tuple>,
        /// With a maximum segment size of so many bytes at most.
        clamp: Option<u16>,
    },
    /// It is an ICMP error that goes on, about a packet of this tuple.
    Error {
        /// What it quotes.
        quoted: Tuple,
        /// From whom it is.
        source: IpAddr,
        /// For whom it is.
        destination: IpAddr,
    },
}

impl Change {
    /// Makes the change, and counts this router.
    #[inline]
    fn apply(&self, bytes: &mut [u8], packet: &Packet) -> Option<()> {
        count_hop(bytes, packet)?;
        match self {
            Self::Forward { to, clamp } => {
                if let Some(to) = to {
                    translate(bytes, packet, to).ok()?;
                }
                if let Some(most) = clamp {
                    clamp_mss(bytes, packet, *most);
                }
            }
            Self::Error { quoted, source, destination } if quoted.is_v4() => {
                translate_error(bytes, packet, quoted, *source, *destination).ok()?;
            }
            Self::Error { .. } => {}
        }
        Some(())
    }
}

/// Returns the bytes of the longest packet that a packet is to the next link: of one of many
/// segments those of a segment.
#[inline]
pub fn longest_part(header: &PacketHeader, packet: &Packet) -> usize {
    if header.segmentation == segmentation::NONE {
        return packet.length;
    }
    let segment = match packet.transport {
        culm_flow::Transport::Tcp(segment) => packet.length - packet.payload - usize::from(segment.data),
        _ => 0,
    };
    (packet.payload + segment + usize::from(header.segment_size)).min(packet.length)
}

impl Router {
    /// Sends a packet on, to a station on a network.
    #[allow(clippy::too_many_arguments, reason = "all that is known of a packet by now")]
    #[inline]
    pub(super) fn emit(
        &mut self,
        network: usize,
        to: LinkAddress,
        arrival: &Arrival,
        frame: &[u8],
        packet: &Packet,
        change: &Change,
        is_longer: bool,
        cards: &mut impl Cards,
    ) {
        let mut header = arrival.header;
        if is_longer {
            header.segment_size = self.shorter(network, &header, packet);
        }
        if header.segmentation != segmentation::NONE || is_longer {
            return self.emit_large(network, to, header, frame, packet, change, cards);
        }
        let Self { stations, tally, .. } = self;
        let Some(station) = stations.get(network) else { return };
        let length = ETHERNET_HEADER + packet.length;
        let Some(frame) = frame.get(..length) else { return };
        let offloads = cards.offloads_checksum(network);
        let kind = if packet.source.is_ipv4() { types::IPV4 } else { types::IPV6 };
        let is_sent = cards.send(network, length, |out| {
            out.copy_from_slice(frame);
            station.head(to, kind, out)?;
            change.apply(out.get_mut(ETHERNET_HEADER..)?, packet)?;
            Some(complete(out, &header, packet, change, offloads))
        });
        count(tally, is_sent);
    }

    /// Returns the payload of segments of a packet, whose sender lets routers divide it, that fit a
    /// network.
    #[cold]
    fn shorter(&self, network: usize, header: &PacketHeader, packet: &Packet) -> u16 {
        let mtu = self.networks.get(network).map_or(0, |network| network.mtu);
        let culm_flow::Transport::Tcp(segment) = packet.transport else { return header.segment_size };
        let headers = packet.length - usize::from(segment.data);
        header.segment_size.min(mtu.saturating_sub(u16::try_from(headers).unwrap_or(u16::MAX)))
    }

    /// Sends a packet of many segments, or one that is too long for the network.
    #[allow(clippy::too_many_arguments, reason = "all that is known of a packet by now")]
    #[inline(never)]
    fn emit_large(
        &mut self,
        network: usize,
        to: LinkAddress,
        header: PacketHeader,
        frame: &[u8],
        packet: &Packet,
        change: &Change,
        cards: &mut impl Cards,
    ) {
        let Self { stations, tally, scratch, .. } = self;
        let Some(station) = stations.get(network) else { return };
        let length = ETHERNET_HEADER + packet.length;
        let (Some(frame), Some(scratch)) = (frame.get(..length), scratch.get_mut(..length)) else { return };
        let is_v4 = packet.source.is_ipv4();
        let (kind, segments) =
            if is_v4 { (types::IPV4, segmentation::TCP_4) } else { (types::IPV6, segmentation::TCP_6) };
        let write = |out: &mut [u8]| {
            out.copy_from_slice(frame);
            station.head(to, kind, out)?;
            change.apply(out.get_mut(ETHERNET_HEADER..)?, packet)
        };
        if header.segmentation != segmentation::NONE && cards.divides(network, segments) {
            let is_sent = cards.send_segments(network, length, segments, header.segment_size, |out| {
                // The packet was read from these bytes, so nothing is missing in them.
                let _ = write(out);
            });
            return count(tally, is_sent);
        }
        if write(scratch).is_none() {
            return;
        }
        let mtu = self.networks.get(network).map_or(0, |network| usize::from(network.mtu));
        let is_sent = if header.segmentation == segmentation::NONE {
            if header.flags & flags::NEEDS_CHECKSUM != 0 {
                checksum::complete(scratch);
            }
            send_fragments(network, scratch, packet, mtu, cards)
        } else {
            send_segments(network, scratch, packet, &header, cards)
        };
        count(tally, is_sent);
    }
}

/// Returns the header with which a rewritten frame is sent. Where its sender has left the checksum
/// to the device, the field has the sum of the pseudo-header, which is another now if the packet
/// was translated.
#[inline]
fn complete(frame: &mut [u8], header: &PacketHeader, packet: &Packet, change: &Change, offloads: bool) -> PacketHeader {
    if header.flags & flags::NEEDS_CHECKSUM == 0 {
        return PacketHeader::default();
    }
    let is_translated = matches!(change, Change::Forward { to: Some(_), .. });
    if is_translated && matches!(packet.protocol, TCP | UDP) {
        checksum::offload(frame);
    }
    checksum::finish(frame, header, offloads)
}

/// Sends a packet as the segments that it is made of. Returns whether all were sent.
fn send_segments(network: usize, frame: &[u8], packet: &Packet, header: &PacketHeader, cards: &mut impl Cards) -> bool {
    let culm_flow::Transport::Tcp(segment) = packet.transport else { return false };
    let headers = frame.len() - usize::from(segment.data);
    let Some(segments) =
        frame.get(..headers).and_then(|headers| Segments::new(headers, frame.len(), header.segment_size))
    else {
        return false;
    };
    let offloads = cards.offloads_checksum(network);
    (0..segments.count()).all(|index| {
        let payload = frame.get(segments.payload(index)).unwrap_or_default();
        cards.send(network, headers + payload.len(), |out| {
            let own = segments.write_headers(index, out);
            out.get_mut(headers..)?.copy_from_slice(payload);
            Some(checksum::finish(out, &own, offloads))
        })
    })
}

/// Sends a packet of IPv4 in fragments that the network carries (RFC 791 §3.2). Returns whether all
/// were sent.
fn send_fragments(network: usize, frame: &[u8], packet: &Packet, mtu: usize, cards: &mut impl Cards) -> bool {
    let header = packet.payload;
    let each = mtu.saturating_sub(header) & !7;
    let Some((head, payload)) = frame.split_at_checked(ETHERNET_HEADER + header) else { return false };
    if each == 0 || header < IPV4_HEADER {
        return false;
    }
    let (first, has_more) =
        packet.fragment.map_or((0, false), |fragment| (usize::from(fragment.offset), fragment.more));
    payload.chunks(each).enumerate().all(|(index, part)| {
        let is_last = (index + 1) * each >= payload.len();
        let place = ((first + index * each) as u16 / 8) | (u16::from(!is_last || has_more) << 13);
        cards.send(network, head.len() + part.len(), |out| {
            let (own, rest) = out.split_at_mut_checked(head.len())?;
            own.copy_from_slice(head);
            rest.copy_from_slice(part);
            let ip = own.get_mut(ETHERNET_HEADER..)?;
            ip.get_mut(2..4)?.copy_from_slice(&((header + part.len()) as u16).to_be_bytes());
            ip.get_mut(6..8)?.copy_from_slice(&place.to_be_bytes());
            // Options that are for the first fragment only are left to nothing (RFC 791 §3.1).
            if index > 0 {
                leave_out_options(ip.get_mut(IPV4_HEADER..)?);
            }
            ip.get_mut(10..12)?.copy_from_slice(&[0, 0]);
            let checksum = Sum::ZERO.add_bytes(ip).checksum().to_be_bytes();
            ip.get_mut(10..12)?.copy_from_slice(&checksum);
            Some(PacketHeader::default())
        })
    })
}

/// Replaces options that are not copied into later fragments by no operation.
fn leave_out_options(mut options: &mut [u8]) {
    loop {
        let length = match options {
            [] | [0, ..] => return,
            [1, ..] => 1,
            [_, length, ..] => usize::from(*length).max(2),
            [_] => 1,
        };
        let Some((option, rest)) = options.split_at_mut_checked(length) else { return };
        if option.first().is_some_and(|kind| kind & 0x80 == 0) {
            option.fill(1);
        }
        options = rest;
    }
}

#[inline(always)]
pub(super) fn count(tally: &mut Tally, is_sent: bool) {
    if is_sent {
        tally.forwarded += 1;
    } else {
        tally.congestion += 1;
    }
}
