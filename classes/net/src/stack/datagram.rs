//! UDP, answered in place: a datagram is read in the buffer that it came in, and the answer written
//! in the buffer that it leaves in.
//!
//! What servers do with datagrams is answer them, so that is what this module offers. An answer
//! goes back to the station that the datagram came from, be that its sender or the router on the
//! way there, without looking into the neighbour cache or the routes.
//!
//! A datagram gets here if it is for this station alone (not broadcast or multicast), whole (no
//! fragment), without IP options, for one of the stack's addresses, for a bound port, from an
//! address that can be answered, and its checksums are right. All others are the host's
//! (`super::host`), which gives those for a bound port back, whole and without options.

use super::station::Station;
use crate::checksum::{self, Sum};
use crate::client::Transmitter;
use crate::header::flags::NEEDS_CHECKSUM;
use crate::wire::{HOP_LIMIT, ethernet, ipv4, ipv6, protocols, put, types, udp};
use crate::{ETHERNET_HEADER, MTU, PacketHeader};
use core::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};

/// Ports that can be bound.
const PORTS: usize = 4;

/// Offset of the IP header in a frame.
const IP: usize = ETHERNET_HEADER;

/// Offset of the UDP header in a frame, over IPv4 without options and over IPv6 without extensions.
const UDP_4: usize = IP + ipv4::HEADER;
const UDP_6: usize = IP + ipv6::HEADER;

/// Bytes before the payload.
const HEADERS_4: usize = UDP_4 + udp::HEADER;
const HEADERS_6: usize = UDP_6 + udp::HEADER;

/// The bound ports.
#[derive(Debug, Default)]
pub(super) struct Ports {
    /// As they lie in a packet; 0 for none.
    ports: [u16; PORTS],
    station: Station,
    /// The first eight bytes of the frames that are looked at, without the last two: those for this
    /// station, or [`NOTHING`] while no port is bound.
    to: u64,
}

/// What no frame begins with, without the last two of eight bytes.
const NOTHING: u64 = u64::MAX;

/// Where in its frame a datagram is.
#[derive(Clone, Copy)]
struct DatagramOffsets {
    /// The UDP header.
    start: usize,
    /// Bytes of UDP header and payload.
    length: usize,
    /// The sum of both addresses, for the pseudo-header.
    addresses: Sum,
}

/// A received datagram.
pub struct Datagram<'a> {
    frame: &'a [u8],
    offsets: DatagramOffsets,
    transmitter: &'a mut Transmitter,
    station: &'a Station,
}

impl Ports {
    pub(super) fn bind(&mut self, port: u16) {
        assert!(port != 0, "port 0 is no port to bind");
        let port = port.to_be();
        if let Some(place) = self.ports.iter_mut().find(|place| **place == 0 || **place == port) {
            *place = port;
        } else {
            culm::error!("a port is not bound: a stack binds at most {PORTS} ports");
        }
        self.set_station(self.station);
    }

    /// Sets this station's addresses.
    pub(super) fn set_station(&mut self, station: Station) {
        let [a, b, c, d, e, f] = station.mac;
        let to = u64::from_ne_bytes([a, b, c, d, e, f, 0, 0]) & WITHOUT_LAST_TWO;
        self.to = if self.ports == [0; PORTS] { NOTHING } else { to };
        self.station = station;
    }

    /// Sets the hop limit of answers over IPv6 (RFC 4861 §6.3.4).
    pub(super) fn set_hop_limit(&mut self, hop_limit: u8) {
        self.station.hop_limit = hop_limit;
    }

    /// Returns whether datagrams for `port` are taken.
    pub(super) fn is_bound(&self, port: u16) -> bool {
        port != 0 && self.ports.contains(&port.to_be())
    }

    /// Returns the datagram in `frame`, if it is one for a bound port. `is_verified` says that
    /// nobody need look at its checksum; else it must be right.
    #[inline(always)]
    pub(super) fn find<'a>(
        &'a self,
        frame: &'a [u8],
        is_verified: bool,
        transmitter: &'a mut Transmitter,
    ) -> Option<Datagram<'a>> {
        let offsets = self.recognise(frame)?;
        let is_intact = is_verified || checksum::is_right(frame);
        is_intact.then_some(Datagram { frame, offsets, transmitter, station: &self.station })
    }

    #[inline(always)]
    fn recognise(&self, frame: &[u8]) -> Option<DatagramOffsets> {
        let head = frame.first_chunk::<HEADERS_4>()?;
        if double(head, ethernet::DESTINATION) & WITHOUT_LAST_TWO != self.to {
            return None;
        }
        match half(head, ethernet::TYPE) {
            IPV4 => self.recognise_4(head, frame.len()),
            IPV6 => self.recognise_6(frame),
            _ => None,
        }
    }

    /// Whether a port of the UDP header is bound, and its length what the IP header allows and the
    /// frame has. Returns that length.
    #[inline(always)]
    fn recognise_udp(&self, header: &[u8], length: usize, frame_rest: usize) -> Option<usize> {
        let port = half(header, udp::DESTINATION);
        let of_udp = usize::from(u16::from_be(half(header, udp::LENGTH)));
        let fits = of_udp >= udp::HEADER && of_udp <= length && length <= frame_rest;
        (fits && port != 0 && half(header, udp::SOURCE) != 0 && self.ports.contains(&port)).then_some(of_udp)
    }

    #[inline(always)]
    fn recognise_4(&self, head: &[u8; HEADERS_4], frame: usize) -> Option<DatagramOffsets> {
        // Version and length of header, service, total length, identification, fragmentation; time
        // to live, protocol, checksum.
        let (first, second) = (double(head, IP + ipv4::VERSION), full(head, IP + ipv4::TIME_TO_LIVE));
        let (source, destination) = (full(head, IP + ipv4::SOURCE), full(head, IP + ipv4::DESTINATION));
        // Version 4, five words of header; not a fragment (more-fragments flag and offset are 0);
        // UDP.
        let plain = first & PLAIN_FIRST.0 == PLAIN_FIRST.1 && second & PLAIN_SECOND.0 == PLAIN_SECOND.1;
        if !plain || destination != self.station.ipv4 || destination == 0 || !answerable(source) {
            return None;
        }
        let addresses = Sum::ZERO.add_word(u64::from(source) | u64::from(destination) << 32);
        if addresses.add_word(first).add_word(second.into()).fold() != 0xffff {
            return None;
        }
        let total = usize::from(u16::from_be(half(head, IP + ipv4::TOTAL_LENGTH)));
        let length = self.recognise_udp(&head[UDP_4..], total.checked_sub(ipv4::HEADER)?, frame - UDP_4)?;
        Some(DatagramOffsets { start: UDP_4, length, addresses })
    }

    #[inline]
    fn recognise_6(&self, frame: &[u8]) -> Option<DatagramOffsets> {
        let head = frame.get(IP..)?.first_chunk::<{ ipv6::HEADER }>()?;
        let length = usize::from(u16::from_be(half(head, ipv6::PAYLOAD_LENGTH)));
        let destination = [double(head, ipv6::DESTINATION), double(head, ipv6::DESTINATION + 8)];
        let udp = frame.get(UDP_6..).filter(|udp| udp.len() >= udp::HEADER)?;
        let source = [double(head, ipv6::SOURCE), double(head, ipv6::SOURCE + 8)];
        // Not from a multicast address, nor from none.
        let answerable = head[ipv6::SOURCE] != 0xff && source != [0, 0];
        let is_udp = head[ipv6::VERSION] >> 4 == 6 && head[ipv6::NEXT_HEADER] == protocols::UDP;
        if !is_udp || !answerable || !self.station.ipv6.contains(&destination) {
            return None;
        }
        (destination != [0, 0]).then_some(())?;
        let addresses = source.into_iter().chain(destination).fold(Sum::ZERO, Sum::add_word);
        let length = self.recognise_udp(udp, length, udp.len())?;
        Some(DatagramOffsets { start: UDP_6, length, addresses })
    }
}

impl Datagram<'_> {
    /// Returns the payload.
    #[inline(always)]
    pub fn payload(&self) -> &[u8] {
        &self.frame[self.offsets.start + udp::HEADER..self.offsets.start + self.offsets.length]
    }

    /// The sender's port.
    #[inline(always)]
    pub fn remote_port(&self) -> u16 {
        self.port(0)
    }

    /// The sender's address and port.
    pub fn remote(&self) -> SocketAddr {
        SocketAddr::new(self.address(0), self.port(0))
    }

    /// The address and port that it was sent to.
    pub fn local(&self) -> SocketAddr {
        SocketAddr::new(self.address(1), self.port(1))
    }

    #[inline(always)]
    fn port(&self, index: usize) -> u16 {
        u16::from_be(half(self.frame, self.offsets.start + 2 * index))
    }

    fn address(&self, index: usize) -> IpAddr {
        let end = self.offsets.start;
        if self.is_ipv6() {
            let at = end - 32 + 16 * index;
            let mut address = [0; 16];
            address.copy_from_slice(&self.frame[at..at + 16]);
            IpAddr::V6(Ipv6Addr::from(address))
        } else {
            let at = end - 8 + 4 * index;
            IpAddr::V4(Ipv4Addr::from(full(self.frame, at).to_ne_bytes()))
        }
    }

    #[inline(always)]
    fn is_ipv6(&self) -> bool {
        self.offsets.start == UDP_6
    }

    /// Sends `length` bytes back, which `write` makes; it is given the bytes of the answer, which
    /// are those of some older packet, and the datagram's. Returns whether it was sent: not where
    /// no buffer is free, or where it is longer than a packet can be.
    #[inline(always)]
    pub fn answer(self, length: usize, write: impl FnOnce(&mut [u8], &[u8])) -> bool {
        if self.is_ipv6() {
            // Its parts are passed one by one, so that the datagram itself stays in registers.
            let Self { frame, offsets, transmitter, station } = self;
            answer_6(frame, offsets.length, transmitter, station, offsets.addresses, length, write)
        } else {
            self.answer_4(length, write)
        }
    }

    #[inline(always)]
    fn answer_4(self, length: usize, write: impl FnOnce(&mut [u8], &[u8])) -> bool {
        if length > MTU - ipv4::HEADER - udp::HEADER {
            return false;
        }
        let Self { frame, offsets, transmitter, station } = self;
        let payload = &frame[HEADERS_4..][..offsets.length - udp::HEADER];
        let Some(request) = frame.first_chunk::<HEADERS_4>() else { return false };
        let offload = transmitter.offloads_checksum();
        let sent = transmitter.send(HEADERS_4 + length, |answer| {
            let Some((head, body)) = answer.split_first_chunk_mut::<HEADERS_4>() else { return Default::default() };
            write(body, payload);
            let length = (udp::HEADER + length) as u16;
            write_4(head, request, &station.mac, length, offsets.addresses);
            let (ports, pseudo) = (full(request, UDP_4 + udp::SOURCE), pseudo(offsets.addresses, length));
            let header = write_udp(&mut head[UDP_4..], UDP_4 as u16, ports, pseudo, length, body, offload);
            (header, ())
        });
        sent.is_some()
    }
}

/// Does what [`Datagram::answer`] does, for a datagram over IPv6 whose UDP header and payload take
/// `received` bytes.
#[inline(never)]
fn answer_6(
    frame: &[u8],
    received: usize,
    transmitter: &mut Transmitter,
    station: &Station,
    addresses: Sum,
    length: usize,
    write: impl FnOnce(&mut [u8], &[u8]),
) -> bool {
    if length > MTU - ipv6::HEADER - udp::HEADER {
        return false;
    }
    let payload = &frame[HEADERS_6..][..received - udp::HEADER];
    let Some(request) = frame.first_chunk::<HEADERS_6>() else { return false };
    let offload = transmitter.offloads_checksum();
    let sent = transmitter.send(HEADERS_6 + length, |answer| {
        let Some((head, body)) = answer.split_first_chunk_mut::<HEADERS_6>() else { return Default::default() };
        write(body, payload);
        let length = (udp::HEADER + length) as u16;
        write_6(head, request, station, length);
        let (ports, pseudo) = (full(request, UDP_6 + udp::SOURCE), pseudo(addresses, length));
        let header = write_udp(&mut head[UDP_6..], UDP_6 as u16, ports, pseudo, length, body, offload);
        (header, ())
    });
    sent.is_some()
}

/// The sum of the pseudo-header (RFC 768, RFC 8200 §8.1).
#[inline(always)]
fn pseudo(addresses: Sum, length: u16) -> Sum {
    addresses.add_number(protocols::UDP.into()).add_number(length)
}

/// Writes an answer's Ethernet and IPv4 headers.
#[inline(always)]
fn write_4(head: &mut [u8; HEADERS_4], request: &[u8; HEADERS_4], mac: &[u8; 6], length: u16, addresses: Sum) {
    write_ethernet(head, request, mac);
    // Version and length, service, total length; identification 0, do not fragment.
    let first = (u32::from(ipv4::VERSION_AND_LENGTH) << 24) | (ipv4::HEADER as u32 + u32::from(length));
    let second = u32::from(ipv4::DO_NOT_FRAGMENT);
    let first = u64::from_ne_bytes(((u64::from(first) << 32) | u64::from(second)).to_be_bytes());
    let second = u32::from_ne_bytes([HOP_LIMIT, protocols::UDP, 0, 0]);
    let [low, high] = (!addresses.add_word(first).add_word(second.into()).fold()).to_ne_bytes();
    put(head, IP + ipv4::VERSION, first.to_ne_bytes());
    put(head, IP + ipv4::TIME_TO_LIVE, [HOP_LIMIT, protocols::UDP, low, high]);
    put(head, IP + ipv4::SOURCE, full(request, IP + ipv4::DESTINATION).to_ne_bytes());
    put(head, IP + ipv4::DESTINATION, full(request, IP + ipv4::SOURCE).to_ne_bytes());
}

/// Writes an answer's Ethernet and IPv6 headers.
fn write_6(head: &mut [u8; HEADERS_6], request: &[u8; HEADERS_6], station: &Station, length: u16) {
    const SOURCE: usize = IP + ipv6::SOURCE;
    const DESTINATION: usize = IP + ipv6::DESTINATION;
    write_ethernet(head, request, &station.mac);
    put(head, IP + ipv6::VERSION, ipv6::VERSION_ALONE);
    put(head, IP + ipv6::PAYLOAD_LENGTH, length.to_be_bytes());
    put(head, IP + ipv6::NEXT_HEADER, [protocols::UDP, station.hop_limit]);
    head[SOURCE..DESTINATION].copy_from_slice(&request[DESTINATION..UDP_6]);
    head[DESTINATION..UDP_6].copy_from_slice(&request[SOURCE..DESTINATION]);
}

/// Writes an answer's Ethernet header: back to where the frame came from.
#[inline(always)]
fn write_ethernet(head: &mut [u8], request: &[u8], mac: &[u8; 6]) {
    const SOURCE: usize = ethernet::SOURCE;
    const TYPE: usize = ethernet::TYPE;
    head[ethernet::DESTINATION..SOURCE].copy_from_slice(&request[SOURCE..TYPE]);
    put(head, SOURCE, *mac);
    head[TYPE..ETHERNET_HEADER].copy_from_slice(&request[TYPE..ETHERNET_HEADER]);
}

/// Writes an answer's UDP header, which begins at `start` in the frame; returns what the device is
/// to do about its checksum.
#[inline(always)]
fn write_udp(
    udp: &mut [u8],
    start: u16,
    ports: u32,
    pseudo: Sum,
    length: u16,
    body: &[u8],
    offload: bool,
) -> PacketHeader {
    let ports = ports.rotate_left(16);
    let checksum;
    let header;
    if offload {
        checksum = pseudo.fold();
        header = PacketHeader {
            flags: NEEDS_CHECKSUM,
            checksum_start: start,
            checksum_offset: udp::CHECKSUM as u16,
            ..PacketHeader::default()
        };
    } else {
        let sum = pseudo.add_word(ports.into()).add_number(length).add_bytes(body).fold();
        // A checksum that comes out as 0 is sent as its other zero (RFC 768).
        checksum = if sum == 0xffff { sum } else { !sum };
        header = PacketHeader::default();
    }
    put(udp, udp::SOURCE, ports.to_ne_bytes());
    put(udp, udp::LENGTH, length.to_be_bytes());
    put(udp, udp::CHECKSUM, checksum.to_ne_bytes());
    header
}

/// All but the last two of eight bytes.
const WITHOUT_LAST_TWO: u64 = u64::from_ne_bytes([0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0, 0]);

/// Which bits of the first eight bytes of an IPv4 header must have which values.
const PLAIN_FIRST: (u64, u64) = (
    u64::from_ne_bytes([0xff, 0, 0, 0, 0, 0, 0x3f, 0xff]),
    u64::from_ne_bytes([ipv4::VERSION_AND_LENGTH, 0, 0, 0, 0, 0, 0, 0]),
);

/// The same of the four bytes after those.
const PLAIN_SECOND: (u32, u32) = (u32::from_ne_bytes([0, 0xff, 0, 0]), u32::from_ne_bytes([0, protocols::UDP, 0, 0]));

/// Types of frames, as they lie in one.
const IPV4: u16 = types::IPV4.to_be();
const IPV6: u16 = types::IPV6.to_be();

/// Whether an IPv4 address, as it lies in a packet, is one station's: not "this network" (0), not
/// multicast, reserved or broadcast (224 and up), not the loopback (RFC 1122 §3.2.1.3).
#[inline(always)]
fn answerable(address: u32) -> bool {
    let first = address.to_ne_bytes()[0];
    first != 0 && first != 127 && first < 224
}

#[inline(always)]
fn half(bytes: &[u8], at: usize) -> u16 {
    let mut number = [0; 2];
    number.copy_from_slice(&bytes[at..at + 2]);
    u16::from_ne_bytes(number)
}

#[inline(always)]
fn full(bytes: &[u8], at: usize) -> u32 {
    let mut number = [0; 4];
    number.copy_from_slice(&bytes[at..at + 4]);
    u32::from_ne_bytes(number)
}

#[inline(always)]
fn double(bytes: &[u8], at: usize) -> u64 {
    let mut number = [0; 8];
    number.copy_from_slice(&bytes[at..at + 8]);
    u64::from_ne_bytes(number)
}
