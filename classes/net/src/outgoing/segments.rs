//! The division of a packet of TCP into its segments, for who sends such packets over a
//! device that does not divide them: what a device does otherwise (VIRTIO 1.2 §5.1.6.2).

use crate::checksum::Sum;
use crate::header::flags::NEEDS_CHECKSUM;
use crate::wire::{Ethernet, Ipv4, Ipv6, Tcp, ipv4, ipv6, protocols, put, tcp, types};
use crate::{ETHERNET_HEADER, PacketHeader};
use core::ops::Range;

/// Bytes of the longest headers: Ethernet's without a tag, IPv4's and TCP's with all options.
pub const LONGEST_HEADERS: usize = ETHERNET_HEADER + ipv4::LONGEST_HEADER + tcp::LONGEST_HEADER;

/// The segments of a packet.
#[derive(Clone, Copy, Debug)]
pub struct Segments {
    /// The packet's headers.
    headers: [u8; LONGEST_HEADERS],
    /// Offset of TCP's header.
    start: usize,
    /// Offset of the payload.
    end: usize,
    /// Bytes of the packet's frame.
    length: usize,
    /// Bytes of payload in each segment but the last.
    size: usize,
}

impl Segments {
    /// Divides the packet of `length` bytes that begins with `headers`, all of them and nothing
    /// more, into segments of `size` bytes of payload. Returns nothing if it is no TCP over IPv4,
    /// or over IPv6 without extension headers, behind an Ethernet header without tags, or lengths
    /// contradict each other.
    pub fn new(headers: &[u8], length: usize, size: u16) -> Option<Self> {
        let (network_length, total_length) = match Ethernet::at(headers, 0)?.kind() {
            types::IPV4 => of_ipv4(headers)?,
            types::IPV6 => of_ipv6(headers)?,
            _ => return None,
        };
        let start = ETHERNET_HEADER + network_length;
        let transport = Tcp::at(headers, start)?;
        let end = start + transport.header_length();
        let is_whole = headers.len() == end && end <= length && total_length + ETHERNET_HEADER == length;
        if transport.header_length() < tcp::HEADER || !is_whole || size == 0 {
            return None;
        }
        let mut own = [0; LONGEST_HEADERS];
        own.get_mut(..end)?.copy_from_slice(headers);
        Some(Self { headers: own, start, end, length, size: size.into() })
    }

    /// Returns how many there are: one at least, which may have no payload.
    pub fn count(&self) -> usize {
        (self.length - self.end).div_ceil(self.size).max(1)
    }

    /// Returns where a segment's payload is in the packet.
    pub fn payload(&self, index: usize) -> Range<usize> {
        let from = self.size.saturating_mul(index).saturating_add(self.end).min(self.length);
        from..from.saturating_add(self.size).min(self.length)
    }

    /// Returns the bytes of a segment's headers.
    pub fn headers_length(&self) -> usize {
        self.end
    }

    /// Writes a segment's headers to the beginning of its frame. Returns the packet header that
    /// asks for its checksum, whose field has the sum of the pseudo-header.
    ///
    /// # Panics
    /// If the frame is shorter than they are.
    pub fn write_headers(&self, index: usize, frame: &mut [u8]) -> PacketHeader {
        let frame = &mut frame[..self.end];
        frame.copy_from_slice(&self.headers[..self.end]);
        let payload = self.payload(index).len();
        let (network, transport) = frame[ETHERNET_HEADER..].split_at_mut(self.start - ETHERNET_HEADER);
        // Lengths of a part of a packet fit where those of the packet did.
        let transport_length = (transport.len() + payload) as u16;
        let addresses = if network[0] >> 4 == 4 {
            write_ipv4(network, index, transport_length);
            Sum::ZERO.add_bytes(&network[ipv4::SOURCE..ipv4::HEADER])
        } else {
            put(network, ipv6::PAYLOAD_LENGTH, transport_length.to_be_bytes());
            Sum::ZERO.add_bytes(&network[ipv6::SOURCE..ipv6::HEADER])
        };
        let pseudo = addresses.add_number(protocols::TCP.into()).add_number(transport_length);
        self.write_transport(transport, index);
        put(transport, tcp::CHECKSUM, pseudo.fold().to_ne_bytes());
        PacketHeader {
            flags: NEEDS_CHECKSUM,
            checksum_start: self.start as u16,
            checksum_offset: tcp::CHECKSUM as u16,
            ..PacketHeader::default()
        }
    }

    /// Changes TCP's header to that of a segment, but for its checksum.
    fn write_transport(&self, header: &mut [u8], index: usize) {
        let before = self.payload(index).start - self.end;
        // Sequence numbers wrap (RFC 9293 §3.4).
        let sequence = sequence(header).wrapping_add(before as u32);
        put(header, tcp::SEQUENCE, sequence.to_be_bytes());
        // The end of the stream and the wish to have it delivered come with the last byte; that the
        // sender sends less is told once (RFC 3168 §6.1.2).
        if index + 1 < self.count() {
            header[tcp::FLAGS] &= !(tcp::FIN | tcp::PSH);
        }
        if index > 0 {
            header[tcp::FLAGS] &= !tcp::CWR;
        }
    }
}

/// Returns the lengths of the IPv4 header of a whole packet of TCP, and of the packet.
fn of_ipv4(headers: &[u8]) -> Option<(usize, usize)> {
    let network = Ipv4::at(headers, ETHERNET_HEADER)?;
    let is_tcp = network.version() == 4
        && network.header_length() >= ipv4::HEADER
        && !network.is_fragment()
        && network.protocol() == protocols::TCP;
    is_tcp.then_some((network.header_length(), network.total_length()))
}

/// Returns the lengths of the IPv6 header of a packet of TCP, and of the packet.
fn of_ipv6(headers: &[u8]) -> Option<(usize, usize)> {
    let network = Ipv6::at(headers, ETHERNET_HEADER)?;
    let is_tcp = network.version() == 6 && network.next_header() == protocols::TCP;
    is_tcp.then_some((ipv6::HEADER, ipv6::HEADER + network.payload_length()))
}

/// Changes an IPv4 header to that of a segment with so many bytes of TCP.
fn write_ipv4(header: &mut [u8], index: usize, transport_length: u16) {
    put(header, ipv4::TOTAL_LENGTH, (header.len() as u16 + transport_length).to_be_bytes());
    let identification = u16::from_be_bytes([header[ipv4::IDENTIFICATION], header[ipv4::IDENTIFICATION + 1]]);
    put(header, ipv4::IDENTIFICATION, identification.wrapping_add(index as u16).to_be_bytes());
    put(header, ipv4::CHECKSUM, [0, 0]);
    let sum = !Sum::ZERO.add_bytes(header).fold();
    put(header, ipv4::CHECKSUM, sum.to_ne_bytes());
}

/// Returns the sequence number in TCP's header.
fn sequence(header: &[u8]) -> u32 {
    Tcp::at(header, 0).map_or(0, Tcp::sequence)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::checksum;
    use proptest::prelude::*;
    use std::vec::Vec;

    const FIRST: u32 = 0xffff_ff00;

    /// A packet with as many words of options in both headers.
    fn packet(options: [usize; 2], payload: &[u8], flags: u8) -> (Vec<u8>, usize) {
        let [network, transport] = [ipv4::HEADER + 4 * options[0], tcp::HEADER + 4 * options[1]];
        let mut packet = std::vec![0; ETHERNET_HEADER + network + transport];
        packet[12..14].copy_from_slice(&types::IPV4.to_be_bytes());
        let total = (network + transport + payload.len()) as u16;
        let (ip, tcp_header) = packet[ETHERNET_HEADER..].split_at_mut(network);
        ip[0] = 0x40 | (network / 4) as u8;
        ip[2..4].copy_from_slice(&total.to_be_bytes());
        ip[4..6].copy_from_slice(&0xffff_u16.to_be_bytes());
        ip[9] = protocols::TCP;
        ip[12..20].copy_from_slice(&[10, 0, 0, 1, 10, 0, 0, 2]);
        tcp_header[tcp::SEQUENCE..][..4].copy_from_slice(&FIRST.to_be_bytes());
        tcp_header[tcp::DATA_OFFSET] = ((transport / 4) << 4) as u8;
        tcp_header[tcp::FLAGS] = flags;
        let headers = packet.len();
        packet.extend_from_slice(payload);
        (packet, headers)
    }

    /// All segments, with their checksums.
    fn divide(packet: &[u8], headers: usize, size: u16) -> Vec<Vec<u8>> {
        let segments = Segments::new(&packet[..headers], packet.len(), size).expect("TCP over IPv4");
        let one = |index| {
            let payload = &packet[segments.payload(index)];
            let mut frame = std::vec![0xaa; segments.headers_length() + payload.len()];
            let header = segments.write_headers(index, &mut frame);
            frame[headers..].copy_from_slice(payload);
            assert_eq!(usize::from(header.checksum_offset), tcp::CHECKSUM);
            let start = usize::from(header.checksum_start);
            // As a device does.
            let sum = !Sum::ZERO.add_bytes(&frame[start..]).fold();
            frame[start + tcp::CHECKSUM..][..2].copy_from_slice(&sum.to_ne_bytes());
            frame
        };
        (0..segments.count()).map(one).collect()
    }

    proptest! {
        #[test]
        fn segments_are_whole_packets_that_make_up_the_stream(
            payload in proptest::collection::vec(any::<u8>(), 0..4000), size in 1_u16..2000, network in 0..10_usize,
            transport in 0..10_usize, flags: u8,
        ) {
            let (packet, headers) = packet([network, transport], &payload, flags);
            let segments = divide(&packet, headers, size);
            let mut stream = Vec::new();
            for (index, frame) in segments.iter().enumerate() {
                prop_assert!(checksum::is_right(frame));
                let ip = Ipv4::at(frame, ETHERNET_HEADER).expect("there");
                prop_assert_eq!(ip.total_length() + ETHERNET_HEADER, frame.len());
                let start = ETHERNET_HEADER + ip.header_length();
                prop_assert_eq!(Sum::ZERO.add_bytes(&frame[ETHERNET_HEADER..start]).fold(), 0xffff);
                let tcp_header = Tcp::at(frame, start).expect("there");
                prop_assert_eq!(tcp_header.sequence(), FIRST.wrapping_add(stream.len() as u32));
                let (is_first, is_last) = (index == 0, index + 1 == segments.len());
                let hidden = if is_first { 0 } else { tcp::CWR } | if is_last { 0 } else { tcp::FIN | tcp::PSH };
                prop_assert_eq!(tcp_header.flags(), flags & !hidden);
                prop_assert!(is_last && frame.len() <= headers + usize::from(size)
                    || frame.len() == headers + usize::from(size));
                stream.extend_from_slice(&frame[headers..]);
            }
            prop_assert_eq!(stream, payload);
        }

        #[test]
        fn no_headers_make_it_panic(headers in proptest::collection::vec(any::<u8>(), 0..200), length: usize, size: u16,
            index: usize) {
            if let Some(segments) = Segments::new(&headers, length, size) {
                segments.payload(index);
                segments.write_headers(index, &mut [0; LONGEST_HEADERS]);
            }
        }

        #[test]
        fn changed_headers_are_refused_or_stay_within_the_packet(place in 12..54_usize, value: u8, index: usize) {
            let (mut packet, headers) = packet([0, 0], &[7; 3000], tcp::ACK);
            packet[place] = value;
            if let Some(segments) = Segments::new(&packet[..headers], packet.len(), 1000) {
                prop_assert!(segments.payload(index).end <= packet.len());
                prop_assert_eq!(segments.headers_length(), headers);
                segments.write_headers(index, &mut [0; LONGEST_HEADERS]);
            }
        }
    }

    /// The same packet over IPv6.
    fn packet_6(options: usize, payload: &[u8], flags: u8) -> (Vec<u8>, usize) {
        let (four, headers) = packet([0, options], payload, flags);
        let start = ETHERNET_HEADER + ipv4::HEADER;
        let mut packet = four[..ETHERNET_HEADER].to_vec();
        packet[12..14].copy_from_slice(&types::IPV6.to_be_bytes());
        packet.extend([0x60, 0, 0, 0]);
        packet.extend(((four.len() - start) as u16).to_be_bytes());
        packet.extend([protocols::TCP, 64]);
        packet.extend((0..32).map(|byte| byte * 7));
        packet.extend_from_slice(&four[start..]);
        (packet, headers + ipv6::HEADER - ipv4::HEADER)
    }

    proptest! {
        #[test]
        fn segments_of_ipv6_are_whole_packets_that_make_up_the_stream(
            payload in proptest::collection::vec(any::<u8>(), 0..4000), size in 1_u16..2000, options in 0..10_usize,
            flags: u8,
        ) {
            let (packet, headers) = packet_6(options, &payload, flags);
            let mut stream = Vec::new();
            for frame in divide(&packet, headers, size) {
                prop_assert!(checksum::is_right(&frame));
                let network = Ipv6::at(&frame, ETHERNET_HEADER).expect("there");
                prop_assert_eq!(network.payload_length() + ipv6::HEADER + ETHERNET_HEADER, frame.len());
                let transport = Tcp::at(&frame, ETHERNET_HEADER + ipv6::HEADER).expect("there");
                prop_assert_eq!(transport.sequence(), FIRST.wrapping_add(stream.len() as u32));
                stream.extend_from_slice(&frame[headers..]);
            }
            prop_assert_eq!(stream, payload);
        }
    }

    #[test]
    fn identifications_count_on() {
        let (packet, headers) = packet([0, 0], &[1; 3000], tcp::ACK);
        let numbers = divide(&packet, headers, 1000).iter().map(|frame| [frame[18], frame[19]]).collect::<Vec<_>>();
        assert_eq!(numbers, [[0xff, 0xff], [0, 0], [0, 1]]);
    }

    #[test]
    fn what_is_no_packet_of_segments_is_refused() {
        let (packet, headers) = packet([0, 0], &[1; 3000], tcp::ACK);
        let divides = |packet: &[u8], headers, length| Segments::new(&packet[..headers], length, 1000).is_some();
        assert!(divides(&packet, headers, packet.len()));
        assert!(!divides(&packet, headers, packet.len() + 1) && !divides(&packet, headers, headers - 1));
        assert!(!divides(&packet, headers - 1, packet.len()) && !divides(&packet, headers + 1, packet.len()));
        assert!(Segments::new(&packet[..headers], packet.len(), 0).is_none());
        for (place, value) in [(12, 0x81), (14, 0x65), (14, 0x44), (20, 0x20), (23, protocols::UDP), (46, 0x40)] {
            let mut other = packet.clone();
            other[place] = value;
            assert!(!divides(&other, headers, packet.len()), "{value:#x} at {place}");
        }
    }
}
