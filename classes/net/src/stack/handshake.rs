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
use crate::wire::{Ethernet, HOP_LIMIT, Ipv4, Ipv6, Tcp, ethernet, ipv4, ipv6, protocols, put, tcp, types};
use crate::{ETHERNET_HEADER, MTU, Mac};
use smoltcp::wire::{IpAddress, IpCidr, IpEndpoint, Ipv4Address, Ipv6Address};

/// Kinds of options that a SYN has (RFC 9293 §3.1, RFC 7323 §2.2, RFC 2018 §2).
mod option {
    pub(super) const END: u8 = 0;
    pub(super) const NONE: u8 = 1;
    pub(super) const SEGMENT: u8 = 2;
    pub(super) const SCALE: u8 = 3;
    pub(super) const SELECTIVE: u8 = 4;
}

/// A station's hardware address.
pub(super) type Link = [u8; ethernet::ADDRESS];

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
    /// It brings bytes or the sender's end, and is sent again until it is acknowledged.
    pub(super) wants_answer: bool,
    /// Its offer, if it is a SYN.
    pub(super) offer: Offer,
}

impl UnmatchedSegment {
    /// Reads a frame of TCP. None where it is damaged, not for this station, or from nobody who
    /// could be answered.
    #[cold]
    pub(super) fn read(frame: &[u8], key: Key, mac: Mac, addresses: &[IpCidr]) -> Option<Self> {
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
        let header = Tcp::at(segment, 0)?;
        let options = segment.get(tcp::HEADER..header.header_length())?;
        let remote = IpEndpoint::new(from, header.source());
        let local = IpEndpoint::new(to, header.destination());
        (remote.port != 0).then_some(Self {
            link,
            key,
            remote,
            local,
            sequence: header.sequence(),
            acknowledged: header.acknowledgement(),
            wants_answer: segment.len() > header.header_length() || header.flags() & tcp::FIN != 0,
            offer: if header.flags() & tcp::SYN != 0 { read_offer(options) } else { Offer::default() },
        })
    }

    /// Answers a SYN: this side's initial sequence number is `ours`, its receive buffer has so many
    /// bytes. Returns whether it was sent: not if there is no buffer to send in.
    pub(super) fn answer(&self, ours: u32, buffer: usize, mac: Mac, transmitter: &mut Transmitter) -> bool {
        let mut room = [0; LONGEST_OPTIONS];
        let segment = Segment {
            from: (mac.bytes(), self.local),
            to: (self.link, self.remote),
            sequence: ours,
            acknowledged: self.sequence.wrapping_add(1),
            flags: tcp::SYN | tcp::ACK,
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
        ETHERNET_HEADER + ip_header(self.from.1.addr) + tcp::HEADER + self.options.len() + self.payload.len()
    }

    /// Writes its frame, of [`Self::length`] bytes.
    pub(super) fn write(&self, frame: &mut [u8]) {
        let (ethernet, packet) = frame.split_at_mut(ETHERNET_HEADER);
        put(ethernet, ethernet::DESTINATION, self.to.0);
        put(ethernet, ethernet::SOURCE, self.from.0);
        let (header, segment) = packet.split_at_mut(ip_header(self.from.1.addr));
        match (self.from.1.addr, self.to.1.addr) {
            (IpAddress::Ipv4(from), IpAddress::Ipv4(to)) => {
                put(ethernet, ethernet::TYPE, types::IPV4.to_be_bytes());
                write_4(header, from, to, segment.len());
            }
            (IpAddress::Ipv6(from), IpAddress::Ipv6(to)) => {
                put(ethernet, ethernet::TYPE, types::IPV6.to_be_bytes());
                write_6(header, from, to, segment.len());
            }
            // Both were read from one header.
            _ => {}
        }
        let (header, rest) = segment.split_at_mut(tcp::HEADER);
        put(header, tcp::SOURCE, self.from.1.port.to_be_bytes());
        put(header, tcp::DESTINATION, self.to.1.port.to_be_bytes());
        put(header, tcp::SEQUENCE, self.sequence.to_be_bytes());
        put(header, tcp::ACKNOWLEDGEMENT, self.acknowledged.to_be_bytes());
        let words = (tcp::HEADER + self.options.len()) / 4;
        header[tcp::DATA_OFFSET] = (words << 4) as u8;
        header[tcp::FLAGS] = self.flags;
        put(header, tcp::WINDOW, self.window.to_be_bytes());
        header[tcp::CHECKSUM..].fill(0);
        let (options, payload) = rest.split_at_mut(self.options.len());
        options.copy_from_slice(self.options);
        payload.copy_from_slice(self.payload);
    }
}

/// Writes an IPv4 header without options before `length` bytes of TCP.
fn write_4(header: &mut [u8], from: Ipv4Address, to: Ipv4Address, length: usize) {
    header.fill(0);
    header[ipv4::VERSION] = ipv4::VERSION_AND_LENGTH;
    put(header, ipv4::TOTAL_LENGTH, ((ipv4::HEADER + length) as u16).to_be_bytes());
    put(header, ipv4::FRAGMENT, ipv4::DO_NOT_FRAGMENT.to_be_bytes());
    put(header, ipv4::TIME_TO_LIVE, [HOP_LIMIT, protocols::TCP]);
    put(header, ipv4::SOURCE, from.octets());
    put(header, ipv4::DESTINATION, to.octets());
    let sum = !Sum::ZERO.add_bytes(header).fold();
    put(header, ipv4::CHECKSUM, sum.to_le_bytes());
}

/// Writes an IPv6 header before `length` bytes of TCP.
fn write_6(header: &mut [u8], from: Ipv6Address, to: Ipv6Address, length: usize) {
    put(header, ipv6::VERSION, ipv6::VERSION_ALONE);
    put(header, ipv6::PAYLOAD_LENGTH, (length as u16).to_be_bytes());
    put(header, ipv6::NEXT_HEADER, [protocols::TCP, HOP_LIMIT]);
    put(header, ipv6::SOURCE, from.octets());
    put(header, ipv6::DESTINATION, to.octets());
}

/// Bytes of the options that a SYN has here.
pub(super) const LONGEST_OPTIONS: usize = 12;

/// Bytes of the longest frame of a [`Segment`] with those options.
pub(super) const LONGEST_FRAME: usize = ETHERNET_HEADER + ipv6::HEADER + tcp::HEADER + LONGEST_OPTIONS;

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

/// Returns the offer in the options of a SYN. What cannot be read is taken for the end.
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

/// Returns sender, receiver and segment of an IPv4 packet that is no fragment.
fn read_4(packet: &[u8]) -> Option<(IpAddress, IpAddress, &[u8])> {
    let header = Ipv4::at(packet, 0)?;
    let length = header.header_length();
    let is_right = Sum::ZERO.add_bytes(packet.get(..length)?).fold() == 0xffff;
    if length < ipv4::HEADER || header.is_fragment() || header.protocol() != protocols::TCP || !is_right {
        return None;
    }
    let address = |octets| IpAddress::Ipv4(Ipv4Address::from(octets));
    Some((address(header.source()), address(header.destination()), packet.get(length..header.total_length())?))
}

/// Returns sender, receiver and segment of an IPv6 packet without options.
fn read_6(packet: &[u8]) -> Option<(IpAddress, IpAddress, &[u8])> {
    let header = Ipv6::at(packet, 0)?;
    let segment = packet[ipv6::HEADER..].get(..header.payload_length())?;
    let address = |octets| IpAddress::Ipv6(Ipv6Address::from(octets));
    let is_tcp = header.next_header() == protocols::TCP;
    is_tcp.then_some((address(header.source()), address(header.destination()), segment))
}

/// Returns the bytes of the IP header.
fn ip_header(address: IpAddress) -> usize {
    match address {
        IpAddress::Ipv4(_) => ipv4::HEADER,
        IpAddress::Ipv6(_) => ipv6::HEADER,
    }
}

/// Bytes of the largest segment that this station takes.
fn segment_size(address: IpAddress) -> u16 {
    (MTU - ip_header(address) - tcp::HEADER) as u16
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
            let mut segment = std::vec![0, 9, 0, 80, 0, 0, 0, 1, 0, 0, 0, 0, 0, tcp::SYN, 0, 0, 0, 0, 0, 0];
            segment[tcp::DATA_OFFSET] = (((tcp::HEADER + options.len()) / 4) << 4) as u8;
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
                    1 => (frame[14], frame[20]) = (0x60, protocols::TCP),
                    _ => {}
                }
                let mac: Link = frame[..6].try_into().expect("six bytes");
                let _ = UnmatchedSegment::read(&frame, Key::default(), Mac::new(mac), &[]);
            }
        }
    }
}
