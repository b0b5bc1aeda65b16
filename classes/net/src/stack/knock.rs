//! The handshake: reading a segment that belongs to no connection, and answering one that asks for
//! a connection.
//!
//! An answer goes back to the station that the question came from, so no neighbour has to be found
//! first, and what others say about addresses on the link has no influence. Headers are read and
//! written here without smoltcp: they are all that there is to such segments, and of a flood of
//! them each is to cost little.

use super::classify::Key;
use super::cookie::Offer;
use crate::checksum::Sum;
use crate::client::Transmitter;
use crate::{ETHERNET_HEADER, MTU, Mac};
use smoltcp::wire::{IpAddress, IpCidr, IpEndpoint, Ipv4Address, Ipv6Address};

/// Bytes of an IPv4 header without options (RFC 791 §3.1).
const HEADER_4: usize = 20;

/// Bytes of an IPv6 header (RFC 8200 §3).
const HEADER_6: usize = 40;

/// Bytes of a TCP header without options (RFC 9293 §3.1).
const HEADER_TCP: usize = 20;

/// TCP's protocol number.
const TCP: u8 = 6;

/// How far an answer may go (RFC 1700: the recommended default).
const HOPS: u8 = 64;

/// Bits of TCP's flags.
pub(super) mod flags {
    pub(in super::super) const SYN: u8 = 2;
    pub(in super::super) const ACK: u8 = 16;
}

/// Kinds of options that a SYN has (RFC 9293 §3.1, RFC 7323 §2.2, RFC 2018 §2).
mod option {
    pub(super) const END: u8 = 0;
    pub(super) const NONE: u8 = 1;
    pub(super) const SEGMENT: u8 = 2;
    pub(super) const SCALE: u8 = 3;
    pub(super) const SELECTIVE: u8 = 4;
}

/// A station's hardware address.
pub(super) type Link = [u8; 6];

/// A segment of which no connection is known.
#[derive(Clone, Copy)]
pub(super) struct UnmatchedSegment {
    /// Where its frame came from.
    pub(super) link: Link,
    pub(super) key: Key,
    pub(super) remote: IpEndpoint,
    pub(super) local: IpEndpoint,
    pub(super) sequence: u32,
    pub(super) acknowledged: u32,
    /// What it offers, where it is a SYN.
    pub(super) offer: Offer,
}

impl UnmatchedSegment {
    /// Reads a frame of TCP. None where it is damaged, not for this station, or from nobody who
    /// could be answered.
    #[cold]
    pub(super) fn read(frame: &[u8], key: Key, mac: Mac, addresses: &[IpCidr]) -> Option<Self> {
        let (ethernet, packet) = frame.split_first_chunk::<ETHERNET_HEADER>()?;
        let link = bytes::<6>(ethernet, 6)?;
        if ethernet[..6] != mac.bytes() || link[0] & 1 != 0 {
            return None;
        }
        let (from, to, segment) = match packet.first()? >> 4 {
            4 => read_4(packet)?,
            6 => read_6(packet)?,
            _ => return None,
        };
        let is_own = |address| addresses.iter().any(|own| own.address() == address);
        if !is_own(to) || is_own(from) || !is_station(from, addresses) {
            return None;
        }
        let header = segment.first_chunk::<HEADER_TCP>()?;
        let options = segment.get(HEADER_TCP..usize::from(header[12] >> 4) * 4)?;
        let remote = IpEndpoint::new(from, u16::from_be_bytes(bytes(header, 0)?));
        let local = IpEndpoint::new(to, u16::from_be_bytes(bytes(header, 2)?));
        (remote.port != 0).then_some(Self {
            link,
            key,
            remote,
            local,
            sequence: u32::from_be_bytes(bytes(header, 4)?),
            acknowledged: u32::from_be_bytes(bytes(header, 8)?),
            offer: if header[13] & flags::SYN != 0 { read_offer(options) } else { Offer::default() },
        })
    }

    /// Answers a SYN: this side's initial sequence number is `ours`, its receive buffer has so many
    /// bytes. False: there is no buffer to send in.
    pub(super) fn answer(&self, ours: u32, buffer: usize, mac: Mac, transmitter: &mut Transmitter) -> bool {
        let mut room = [0; LONGEST_OPTIONS];
        let segment = Segment {
            from: (mac.bytes(), self.local),
            to: (self.link, self.remote),
            sequence: ours,
            acknowledged: self.sequence.wrapping_add(1),
            flags: flags::SYN | flags::ACK,
            window: u16::try_from(buffer).unwrap_or(u16::MAX),
            options: write_offer(&mut room, segment_size(self.local.addr), self.offer, scale(buffer)),
            payload: &[],
        };
        transmitter.send_with_checksum(segment.length(), |frame| segment.write(frame)).is_some()
    }
}

/// A segment to be written. TCP's checksum is not.
pub(super) struct Segment<'a> {
    pub(super) from: (Link, IpEndpoint),
    pub(super) to: (Link, IpEndpoint),
    pub(super) sequence: u32,
    pub(super) acknowledged: u32,
    pub(super) flags: u8,
    pub(super) window: u16,
    pub(super) options: &'a [u8],
    pub(super) payload: &'a [u8],
}

impl Segment<'_> {
    /// Bytes of its frame.
    pub(super) fn length(&self) -> usize {
        ETHERNET_HEADER + header(self.from.1.addr) + HEADER_TCP + self.options.len() + self.payload.len()
    }

    /// Writes its frame, of [`Self::length`] bytes.
    pub(super) fn write(&self, frame: &mut [u8]) {
        let (ethernet, packet) = frame.split_at_mut(ETHERNET_HEADER);
        ethernet[..6].copy_from_slice(&self.to.0);
        ethernet[6..12].copy_from_slice(&self.from.0);
        let (head, segment) = packet.split_at_mut(header(self.from.1.addr));
        match (self.from.1.addr, self.to.1.addr) {
            (IpAddress::Ipv4(from), IpAddress::Ipv4(to)) => {
                ethernet[12..].copy_from_slice(&[0x08, 0x00]);
                let length = ((head.len() + segment.len()) as u16).to_be_bytes();
                // Version and length; do not fragment (RFC 6864 §4.1: then the identification means
                // nothing).
                head[..12].copy_from_slice(&[0x45, 0, length[0], length[1], 0, 0, 0x40, 0, HOPS, TCP, 0, 0]);
                head[12..16].copy_from_slice(&from.octets());
                head[16..20].copy_from_slice(&to.octets());
                let sum = !Sum::ZERO.add_bytes(head).fold();
                head[10..12].copy_from_slice(&sum.to_le_bytes());
            }
            (IpAddress::Ipv6(from), IpAddress::Ipv6(to)) => {
                ethernet[12..].copy_from_slice(&[0x86, 0xdd]);
                let length = (segment.len() as u16).to_be_bytes();
                head[..8].copy_from_slice(&[0x60, 0, 0, 0, length[0], length[1], TCP, HOPS]);
                head[8..24].copy_from_slice(&from.octets());
                head[24..40].copy_from_slice(&to.octets());
            }
            // Both were read from one header.
            _ => {}
        }
        let (head, rest) = segment.split_at_mut(HEADER_TCP);
        head[..2].copy_from_slice(&self.from.1.port.to_be_bytes());
        head[2..4].copy_from_slice(&self.to.1.port.to_be_bytes());
        head[4..8].copy_from_slice(&self.sequence.to_be_bytes());
        head[8..12].copy_from_slice(&self.acknowledged.to_be_bytes());
        let words = (HEADER_TCP + self.options.len()) / 4;
        head[12..14].copy_from_slice(&[(words << 4) as u8, self.flags]);
        head[14..16].copy_from_slice(&self.window.to_be_bytes());
        head[16..20].fill(0);
        let (options, payload) = rest.split_at_mut(self.options.len());
        options.copy_from_slice(self.options);
        payload.copy_from_slice(self.payload);
    }
}

/// Bytes of the options that a SYN has here.
pub(super) const LONGEST_OPTIONS: usize = 12;

/// Bytes of the longest frame of a [`Segment`] with those options.
pub(super) const LONGEST_FRAME: usize = ETHERNET_HEADER + HEADER_6 + HEADER_TCP + LONGEST_OPTIONS;

/// Writes the options of a SYN: `segment` bytes at a time, and what both sides understand.
pub(super) fn write_offer(room: &mut [u8; LONGEST_OPTIONS], segment: u16, offer: Offer, scale: u8) -> &[u8] {
    let [high, low] = segment.to_be_bytes();
    room[..4].copy_from_slice(&[option::SEGMENT, 4, high, low]);
    let mut length = 4;
    if offer.selective {
        room[length..length + 4].copy_from_slice(&[option::NONE, option::NONE, option::SELECTIVE, 2]);
        length += 4;
    }
    if offer.scale.is_some() {
        room[length..length + 4].copy_from_slice(&[option::NONE, option::SCALE, 3, scale]);
        length += 4;
    }
    &room[..length]
}

/// What the options of a SYN offer. What cannot be read is taken for the end.
fn read_offer(mut options: &[u8]) -> Offer {
    let (mut segment, mut scale, mut selective) = (None, None, false);
    while let Some((&kind, rest)) = options.split_first() {
        if kind == option::NONE {
            options = rest;
            continue;
        }
        let length = rest.first().copied().map_or(0, usize::from);
        if kind == option::END || length < 2 || length > options.len() {
            break;
        }
        match (kind, &options[2..length]) {
            (option::SEGMENT, [high, low]) => segment = Some(u16::from_be_bytes([*high, *low])),
            (option::SCALE, [shift]) => scale = Some(*shift),
            (option::SELECTIVE, []) => selective = true,
            _ => {}
        }
        options = &options[length..];
    }
    Offer::new(segment, scale, selective)
}

/// Sender, receiver and segment of an IPv4 packet that is none's fragment.
fn read_4(packet: &[u8]) -> Option<(IpAddress, IpAddress, &[u8])> {
    let length = usize::from(packet.first()? & 0xf) * 4;
    let header = packet.get(..length.max(HEADER_4))?;
    let total = usize::from(u16::from_be_bytes(bytes(header, 2)?));
    let fragment = u16::from_be_bytes(bytes(header, 6)?) & 0x3fff;
    if length < HEADER_4 || fragment != 0 || header[9] != TCP || Sum::ZERO.add_bytes(header).fold() != 0xffff {
        return None;
    }
    let address = |at| Some(IpAddress::Ipv4(Ipv4Address::from(bytes::<4>(header, at)?)));
    Some((address(12)?, address(16)?, packet.get(length..total)?))
}

/// The same of an IPv6 packet without options.
fn read_6(packet: &[u8]) -> Option<(IpAddress, IpAddress, &[u8])> {
    let (header, rest) = packet.split_first_chunk::<HEADER_6>()?;
    let length = usize::from(u16::from_be_bytes([header[4], header[5]]));
    let address = |at| Some(IpAddress::Ipv6(Ipv6Address::from(bytes::<16>(header, at)?)));
    (header[6] == TCP).then_some((address(8)?, address(24)?, rest.get(..length)?))
}

fn bytes<const N: usize>(from: &[u8], at: usize) -> Option<[u8; N]> {
    from.get(at..)?.first_chunk().copied()
}

/// Bytes of the IP header.
fn header(address: IpAddress) -> usize {
    match address {
        IpAddress::Ipv4(_) => HEADER_4,
        IpAddress::Ipv6(_) => HEADER_6,
    }
}

/// Bytes of the largest segment that this station takes.
fn segment_size(address: IpAddress) -> u16 {
    (MTU - header(address) - HEADER_TCP) as u16
}

/// Places by which smoltcp shifts the window of a receive buffer.
fn scale(buffer: usize) -> u8 {
    (usize::BITS - buffer.leading_zeros()).saturating_sub(16) as u8
}

/// Whether an address is one station's, and not that of all on a link.
fn is_station(address: IpAddress, own: &[IpCidr]) -> bool {
    let of_all = |own: &IpCidr| match (own, address) {
        (IpCidr::Ipv4(own), IpAddress::Ipv4(address)) => own.broadcast() == Some(address),
        _ => false,
    };
    address.is_unicast() && !own.iter().any(of_all)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use smoltcp::phy::ChecksumCapabilities;
    use smoltcp::wire::{TcpPacket, TcpRepr};

    proptest! {
        /// Options of any bytes are read as smoltcp reads them, where it can.
        #[test]
        fn options_are_read_as_smoltcp_reads_them(
            known in proptest::collection::vec(prop_oneof![
                Just(std::vec![1]),
                any::<u16>().prop_map(|bytes| std::vec![2, 4, (bytes >> 8) as u8, bytes as u8]),
                (0_u8..15).prop_map(|shift| std::vec![3, 3, shift]),
                Just(std::vec![4, 2]),
                any::<[u8; 8]>().prop_map(|stamp| [&[8, 10][..], &stamp].concat()),
                any::<[u8; 3]>().prop_map(|bytes| bytes.to_vec()),
            ], 0..6),
        ) {
            let mut options = known.concat();
            options.truncate(40);
            options.resize(options.len().next_multiple_of(4), 0);
            let mut segment = std::vec![0, 9, 0, 80, 0, 0, 0, 1, 0, 0, 0, 0, 0, flags::SYN, 0, 0, 0, 0, 0, 0];
            segment[12] = (((HEADER_TCP + options.len()) / 4) << 4) as u8;
            segment.extend(&options);
            let packet = TcpPacket::new_checked(&segment[..]).expect("a header and its options");
            let addresses = (IpAddress::v4(10, 0, 0, 1), IpAddress::v4(10, 0, 0, 2));
            if let Ok(seen) = TcpRepr::parse(&packet, &addresses.0, &addresses.1, &ChecksumCapabilities::ignored()) {
                let expected = Offer::new(seen.max_seg_size, seen.window_scale, seen.sack_permitted);
                prop_assert_eq!(read_offer(&options), expected);
            }
        }

        #[test]
        fn any_bytes_are_survived(bytes in proptest::collection::vec(any::<u8>(), 0..100), version in 0..3) {
            let mut frame = bytes;
            if frame.len() > 20 {
                match version {
                    0 => frame[14] = 0x45,
                    1 => (frame[14], frame[20]) = (0x60, TCP),
                    _ => {}
                }
                let mac: Link = frame[..6].try_into().expect("six bytes");
                let _ = UnmatchedSegment::read(&frame, Key::default(), Mac::new(mac), &[]);
            }
        }
    }
}
