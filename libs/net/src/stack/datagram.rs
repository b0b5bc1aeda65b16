//! UDP, answered in place: a datagram is read in the buffer that it came in, and the answer written in the buffer that it leaves
//! in.
//!
//! smoltcp's UDP sockets copy every payload into a ring and out again, and find the next hop anew for every datagram: several
//! times the work of the whole path from device to client. What servers do with datagrams is answer them, so that is what
//! this module offers. An answer goes back to the station that the datagram came from, be that its sender or the router on the way
//! there, without looking into the neighbour cache or the routes.
//!
//! A datagram gets here if it is for this station alone (not broadcast or multicast), whole (no fragment), without IP options,
//! for one of the stack's addresses, for a bound port, from an address that can be answered, and its checksums are right.
//! All others take smoltcp's way.

use crate::checksum::Sum;
use crate::client::{Packet, Transmitter};
use crate::header::flags::NEEDS_CHECKSUM;
use crate::{ETHERNET_HEADER, Mac, PacketHeader};
use smoltcp::wire::{IpAddress, IpCidr, Ipv4Address, Ipv6Address};

/// Ports that can be bound.
const PORTS: usize = 4;

/// Bytes of the UDP header (RFC 768).
const UDP_HEADER: usize = 8;

/// Bytes of an IPv4 header without options (RFC 791 §3.1).
const IPV4_HEADER: usize = 20;

/// Bytes of an IPv6 header without extensions (RFC 8200 §3).
const IPV6_HEADER: usize = 40;

/// Bytes before the payload over IPv4.
const HEADERS_4: usize = ETHERNET_HEADER + IPV4_HEADER + UDP_HEADER;

/// The protocol's number.
const UDP: u8 = 17;

/// How far an answer may go (RFC 1700: the recommended default).
const HOPS: u8 = 64;

/// The addresses by which a datagram is recognised as this station's.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Addresses {
    mac: [u8; 6],
    /// As it lies in a packet; 0 for none.
    ipv4: u32,
    /// All zero for none.
    ipv6: [[u8; 16]; 3],
}

impl Addresses {
    pub(super) fn new(mac: Mac, addresses: &[IpCidr]) -> Self {
        let mut all = Self { mac: mac.bytes(), ..Self::default() };
        let mut places = all.ipv6.iter_mut();
        for address in addresses {
            match address.address() {
                IpAddress::Ipv4(address) if all.ipv4 == 0 => all.ipv4 = u32::from_ne_bytes(address.octets()),
                IpAddress::Ipv4(_) => {}
                IpAddress::Ipv6(address) => {
                    if let Some(place) = places.next() {
                        *place = address.octets();
                    }
                }
            }
        }
        all
    }
}

/// The bound ports.
#[derive(Debug, Default)]
pub(super) struct Ports {
    /// As they lie in a packet; 0 for none.
    ports: [u16; PORTS],
    pub(super) addresses: Addresses,
}

/// Where in a frame the parts of a datagram are.
#[derive(Clone, Copy)]
struct Place {
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
    place: Place,
    transmitter: &'a mut Transmitter,
    mac: [u8; 6],
}

impl Ports {
    pub(super) fn bind(&mut self, port: u16) {
        let port = port.to_be();
        if let Some(place) = self.ports.iter_mut().find(|place| **place == 0 || **place == port) {
            *place = port;
        } else {
            culm::error!("a port is not bound: a stack binds at most {PORTS} ports");
        }
    }

    /// Takes the packet if it is a datagram for a bound port; else it comes back.
    #[inline(always)]
    pub(super) fn offer<'a>(
        &self,
        packet: Packet<'a>,
        transmitter: &mut Transmitter,
        take: &mut impl FnMut(Datagram<'_>),
    ) -> Option<Packet<'a>> {
        let frame = packet.frame();
        let Some(place) = self.recognise(frame) else { return Some(packet) };
        if !packet.is_intact() {
            return Some(packet);
        }
        take(Datagram { frame, place, transmitter, mac: self.addresses.mac });
        None
    }

    #[inline(always)]
    fn recognise(&self, frame: &[u8]) -> Option<Place> {
        let head = frame.first_chunk::<HEADERS_4>()?;
        if word_48(head, 0) != word_48_of(&self.addresses.mac) {
            return None;
        }
        let place = match half(head, 12) {
            IPV4 => self.recognise_4(head)?,
            IPV6 => self.recognise_6(frame)?,
            _ => return None,
        };
        let header = frame.get(place.start..)?.first_chunk::<UDP_HEADER>()?;
        let length = usize::from(u16::from_be(half(header, 4)));
        let port = half(header, 2);
        // What the UDP header says must fit into what the IP header says, and that into the frame.
        let fits = length >= UDP_HEADER && length <= place.length && place.start + place.length <= frame.len();
        (fits && port != 0 && half(header, 0) != 0 && self.ports.contains(&port)).then_some(Place { length, ..place })
    }

    #[inline(always)]
    fn recognise_4(&self, head: &[u8; HEADERS_4]) -> Option<Place> {
        let total = usize::from(u16::from_be(half(head, 16)));
        // Version 4, five words of header; not a fragment (more-fragments flag and offset are 0); UDP.
        let plain = head[14] == 0x45 && half(head, 20) & 0x3fff_u16.to_be() == 0 && head[23] == UDP;
        let (source, destination) = (full(head, 26), full(head, 30));
        let addresses = Sum::ZERO.add_word(u64::from(source) | u64::from(destination) << 32);
        let sum = addresses.add_word(double(head, 14)).add_word(full(head, 22).into());
        let for_us = destination == self.addresses.ipv4 && destination != 0;
        if !plain || !for_us || sum.fold() != 0xffff || total < IPV4_HEADER + UDP_HEADER || !answerable(source) {
            return None;
        }
        Some(Place { start: ETHERNET_HEADER + IPV4_HEADER, length: total - IPV4_HEADER, addresses })
    }

    #[inline]
    fn recognise_6(&self, frame: &[u8]) -> Option<Place> {
        let head = frame.get(ETHERNET_HEADER..)?.first_chunk::<IPV6_HEADER>()?;
        let length = usize::from(u16::from_be(half(head, 4)));
        let destination: &[u8; 16] = head.last_chunk()?;
        // Not from a multicast address, nor from none.
        let answerable = head[8] != 0xff && double(head, 8) | double(head, 16) != 0;
        if head[0] >> 4 != 6 || head[6] != UDP || !answerable || !self.addresses.ipv6.contains(destination) {
            return None;
        }
        let addresses = Sum::ZERO
            .add_word(double(head, 8))
            .add_word(double(head, 16))
            .add_word(double(head, 24))
            .add_word(double(head, 32));
        (double(head, 24) | double(head, 32) != 0).then_some(())?;
        Some(Place { start: ETHERNET_HEADER + IPV6_HEADER, length, addresses })
    }
}

impl Datagram<'_> {
    /// What was sent.
    #[inline(always)]
    pub fn payload(&self) -> &[u8] {
        &self.frame[self.place.start + UDP_HEADER..self.place.start + self.place.length]
    }

    /// The sender's port.
    #[inline(always)]
    pub fn remote_port(&self) -> u16 {
        self.port(0)
    }

    /// The sender's address and port.
    pub fn remote(&self) -> (IpAddress, u16) {
        (self.address(0), self.port(0))
    }

    /// The address and port that it was sent to.
    pub fn local(&self) -> (IpAddress, u16) {
        (self.address(1), self.port(1))
    }

    #[inline(always)]
    fn port(&self, index: usize) -> u16 {
        u16::from_be(half(self.frame, self.place.start + 2 * index))
    }

    fn address(&self, index: usize) -> IpAddress {
        let end = self.place.start;
        if self.is_ipv6() {
            let at = end - 32 + 16 * index;
            let mut address = [0; 16];
            address.copy_from_slice(&self.frame[at..at + 16]);
            IpAddress::Ipv6(Ipv6Address::from(address))
        } else {
            let at = end - 8 + 4 * index;
            IpAddress::Ipv4(Ipv4Address::from(full(self.frame, at).to_ne_bytes()))
        }
    }

    #[inline(always)]
    fn is_ipv6(&self) -> bool {
        self.place.start != ETHERNET_HEADER + IPV4_HEADER
    }

    /// Sends `length` bytes back, which `write` makes; it is given the bytes of the answer, which are those of some older packet, and the
    /// datagram's. Returns whether it was sent: not where no buffer is free, or where it is longer than a packet can be.
    #[inline(always)]
    pub fn answer(self, length: usize, write: impl FnOnce(&mut [u8], &[u8])) -> bool {
        let headers = self.place.start + UDP_HEADER;
        if length > crate::MTU + ETHERNET_HEADER - headers {
            return false;
        }
        let (frame, place, mac) = (self.frame, self.place, self.mac);
        let payload = &frame[headers..place.start + place.length];
        let (ipv6, offload) = (self.is_ipv6(), self.transmitter.offloads_checksum());
        let sent = self.transmitter.send(headers + length, |answer| {
            let (head, body) = answer.split_at_mut(headers);
            write(body, payload);
            let length = (UDP_HEADER + length) as u16;
            let udp = if ipv6 {
                write_6(head, frame, &mac, length)
            } else {
                write_4(head, frame, &mac, length, place.addresses)
            };
            udp.map_or((PacketHeader::default(), ()), |udp| {
                let pseudo = place.addresses.add_number(UDP.into()).add_number(length);
                (write_udp(udp, frame, place.start, length, pseudo, body, offload), ())
            })
        });
        sent.is_some()
    }
}

/// Writes an answer's Ethernet and IPv4 headers; returns its UDP header.
#[inline(always)]
fn write_4<'a>(
    head: &'a mut [u8],
    frame: &[u8],
    mac: &[u8; 6],
    length: u16,
    addresses: Sum,
) -> Option<&'a mut [u8; 8]> {
    let (head, udp) = head.split_first_chunk_mut::<{ ETHERNET_HEADER + IPV4_HEADER }>()?;
    write_ethernet(head, frame, mac);
    // Version and length, service, total length; identification 0, do not fragment (RFC 6864 §4.1: then it means nothing).
    let first = 0x4500_0000 | (IPV4_HEADER as u32 + u32::from(length));
    let second = 0x0000_4000;
    let third = u32::from(HOPS) << 24 | u32::from(UDP) << 16;
    let sum = addresses
        .add_word(u64::from(first.to_be()) | u64::from(u32::to_be(second)) << 32)
        .add_word(third.to_be().into());
    let third = third.to_be() | u32::from(!sum.fold()) << 16;
    head[14..18].copy_from_slice(&first.to_be_bytes());
    head[18..22].copy_from_slice(&second.to_be_bytes());
    head[22..26].copy_from_slice(&third.to_ne_bytes());
    head[26..30].copy_from_slice(&full(frame, 30).to_ne_bytes());
    head[30..34].copy_from_slice(&full(frame, 26).to_ne_bytes());
    udp.first_chunk_mut()
}

/// Writes an answer's Ethernet and IPv6 headers; returns its UDP header.
#[inline]
fn write_6<'a>(head: &'a mut [u8], frame: &[u8], mac: &[u8; 6], length: u16) -> Option<&'a mut [u8; 8]> {
    let (head, udp) = head.split_first_chunk_mut::<{ ETHERNET_HEADER + IPV6_HEADER }>()?;
    write_ethernet(head, frame, mac);
    head[14..18].copy_from_slice(&[0x60, 0, 0, 0]);
    head[18..20].copy_from_slice(&length.to_be_bytes());
    head[20..22].copy_from_slice(&[UDP, HOPS]);
    head[22..38].copy_from_slice(&frame[38..54]);
    head[38..54].copy_from_slice(&frame[22..38]);
    udp.first_chunk_mut()
}

/// Writes an answer's Ethernet header: back to where the frame came from.
#[inline(always)]
fn write_ethernet(head: &mut [u8], frame: &[u8], mac: &[u8; 6]) {
    head[..6].copy_from_slice(&frame[6..12]);
    head[6..12].copy_from_slice(mac);
    head[12..14].copy_from_slice(&frame[12..14]);
}

/// Writes an answer's UDP header; returns what the device is to do about its checksum.
#[inline(always)]
fn write_udp(
    udp: &mut [u8; 8],
    frame: &[u8],
    start: usize,
    length: u16,
    pseudo: Sum,
    body: &[u8],
    offload: bool,
) -> PacketHeader {
    let ports = full(frame, start).rotate_left(16);
    let checksum;
    let header;
    if offload {
        checksum = pseudo.fold();
        let checksum_start = start as u16;
        header = PacketHeader { flags: NEEDS_CHECKSUM, checksum_start, checksum_offset: 6, ..PacketHeader::default() };
    } else {
        let sum = pseudo.add_word(ports.into()).add_number(length).add_bytes(body).fold();
        // A checksum that comes out as 0 is sent as its other zero (RFC 768).
        checksum = if sum == 0xffff { sum } else { !sum };
        header = PacketHeader::default();
    }
    udp[..4].copy_from_slice(&ports.to_ne_bytes());
    udp[4..6].copy_from_slice(&length.to_be_bytes());
    udp[6..].copy_from_slice(&checksum.to_ne_bytes());
    header
}

const IPV4: u16 = 0x0800_u16.to_be();
const IPV6: u16 = 0x86dd_u16.to_be();

/// Whether an IPv4 address, as it lies in a packet, is one station's: not "this network" (0), not multicast, reserved or
/// broadcast (224 and up), not the loopback (RFC 1122 §3.2.1.3).
#[inline(always)]
fn answerable(address: u32) -> bool {
    let first = address.to_ne_bytes()[0];
    first != 0 && first != 127 && first < 224
}

#[inline(always)]
fn half(bytes: &[u8], at: usize) -> u16 {
    u16::from_ne_bytes([bytes[at], bytes[at + 1]])
}

#[inline(always)]
fn full(bytes: &[u8], at: usize) -> u32 {
    u32::from_ne_bytes([bytes[at], bytes[at + 1], bytes[at + 2], bytes[at + 3]])
}

#[inline(always)]
fn double(bytes: &[u8], at: usize) -> u64 {
    u64::from(full(bytes, at)) | u64::from(full(bytes, at + 4)) << 32
}

#[inline(always)]
fn word_48(bytes: &[u8], at: usize) -> u64 {
    u64::from(full(bytes, at)) | u64::from(half(bytes, at + 4)) << 32
}

#[inline(always)]
fn word_48_of(bytes: &[u8; 6]) -> u64 {
    word_48(bytes, 0)
}
