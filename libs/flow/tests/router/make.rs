//! Packets to try, made without the library's help.

use culm_flow::{ICMP, ICMP6, TCP, Tuple, UDP};
use proptest::prelude::*;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

pub const SYN: u8 = 2;
pub const RST: u8 = 4;
pub const ACK: u8 = 16;
pub const FIN: u8 = 1;

/// The plain Internet checksum.
pub fn checksum(bytes: &[u8]) -> [u8; 2] {
    let mut sum: u32 = 0;
    for word in bytes.chunks(2) {
        sum += u32::from(word[0]) << 8 | u32::from(*word.get(1).unwrap_or(&0));
        sum = (sum & 0xffff) + (sum >> 16);
    }
    (!(sum as u16)).to_be_bytes()
}

/// The checksum of a transport protocol.
pub fn transport_checksum(source: IpAddr, destination: IpAddr, protocol: u8, message: &[u8]) -> [u8; 2] {
    let mut bytes = octets(source);
    bytes.extend(octets(destination));
    bytes.extend((message.len() as u32).to_be_bytes());
    bytes.extend([0, 0, 0, protocol]);
    bytes.extend(message);
    checksum(&bytes)
}

pub fn octets(address: IpAddr) -> Vec<u8> {
    match address {
        IpAddr::V4(address) => address.octets().to_vec(),
        IpAddr::V6(address) => address.octets().to_vec(),
    }
}

/// A packet around `message`.
pub fn ip(source: IpAddr, destination: IpAddr, protocol: u8, hops: u8, message: &[u8]) -> Vec<u8> {
    let (own, peer) = (octets(source), octets(destination));
    let mut packet = match source {
        IpAddr::V4(_) => {
            let length = (20 + message.len() as u16).to_be_bytes();
            vec![0x45, 0, length[0], length[1], 0x12, 0x34, 0, 0, hops, protocol, 0, 0]
        }
        IpAddr::V6(_) => {
            let length = (message.len() as u16).to_be_bytes();
            vec![0x60, 0, 0, 0, length[0], length[1], protocol, hops]
        }
    };
    packet.extend(own);
    packet.extend(peer);
    if source.is_ipv4() {
        let sum = checksum(&packet);
        packet[10..12].copy_from_slice(&sum);
    }
    packet.extend(message);
    packet
}

/// A TCP segment's fields that tests vary.
#[derive(Clone, Debug, Default)]
pub struct Segment {
    pub flags: u8,
    pub sequence: u32,
    pub acknowledgement: u32,
    pub window: u16,
    pub options: Vec<u8>,
    pub data: usize,
}

pub fn tcp(tuple: &Tuple, segment: &Segment) -> Vec<u8> {
    let mut options = segment.options.clone();
    options.resize(options.len().next_multiple_of(4), 0);
    let mut message = ports(tuple);
    message.extend(segment.sequence.to_be_bytes());
    message.extend(segment.acknowledgement.to_be_bytes());
    message.extend([(5 + options.len() as u8 / 4) << 4, segment.flags]);
    message.extend(segment.window.to_be_bytes());
    message.extend([0; 4]);
    message.extend(options);
    message.extend((0..segment.data).map(|index| index as u8));
    sealed(tuple, TCP, message, 16)
}

pub fn udp(tuple: &Tuple, data: &[u8]) -> Vec<u8> {
    let mut message = ports(tuple);
    message.extend((8 + data.len() as u16).to_be_bytes());
    message.extend([0; 2]);
    message.extend(data);
    sealed(tuple, UDP, message, 6)
}

/// An echo request, or its reply if the tuple's source port is 0.
pub fn echo(tuple: &Tuple, data: &[u8]) -> Vec<u8> {
    let is_request = tuple.source_port != 0;
    let kind = match (tuple.is_v4(), is_request) {
        (true, true) => 8,
        (true, false) => 0,
        (false, true) => 128,
        (false, false) => 129,
    };
    let identifier = (tuple.source_port | tuple.destination_port).to_be_bytes();
    let mut message = vec![kind, 0, 0, 0, identifier[0], identifier[1], 0, 7];
    message.extend(data);
    icmp(tuple.source, tuple.destination, message)
}

/// An ICMP message with its checksum.
pub fn icmp(source: IpAddr, destination: IpAddr, mut message: Vec<u8>) -> Vec<u8> {
    if source.is_ipv4() {
        let sum = checksum(&message);
        message[2..4].copy_from_slice(&sum);
        ip(source, destination, ICMP, 64, &message)
    } else {
        let sum = transport_checksum(source, destination, ICMP6, &message);
        message[2..4].copy_from_slice(&sum);
        ip(source, destination, ICMP6, 64, &message)
    }
}

/// An ICMP error of `from` about a packet, of which it quotes `quoted` bytes.
pub fn error(from: IpAddr, to: IpAddr, kind: u8, code: u8, packet: &[u8], quoted: usize) -> Vec<u8> {
    let mut message = vec![kind, code, 0, 0, 0, 0, 5, 0];
    message.extend(&packet[..quoted.min(packet.len())]);
    icmp(from, to, message)
}

/// A packet of `tuple` of whatever protocol that is, with some data.
pub fn packet(tuple: &Tuple, data: &[u8]) -> Vec<u8> {
    match tuple.protocol {
        TCP => tcp(tuple, &Segment { flags: ACK, window: 1000, data: data.len(), ..Segment::default() }),
        UDP => udp(tuple, data),
        _ => echo(tuple, data),
    }
}

fn ports(tuple: &Tuple) -> Vec<u8> {
    [tuple.source_port.to_be_bytes(), tuple.destination_port.to_be_bytes()].concat()
}

fn sealed(tuple: &Tuple, protocol: u8, mut message: Vec<u8>, at: usize) -> Vec<u8> {
    let sum = transport_checksum(tuple.source, tuple.destination, protocol, &message);
    // RFC 768: zero would mean that there is none.
    let sum = if protocol == UDP && sum == [0, 0] { [0xff, 0xff] } else { sum };
    message[at..at + 2].copy_from_slice(&sum);
    ip(tuple.source, tuple.destination, protocol, 64, &message)
}

/// A fragment of an IPv4 packet without options: of its payload the bytes `from..until`.
pub fn fragment(packet: &[u8], from: usize, until: usize, identification: u16) -> Vec<u8> {
    let payload = &packet[20..];
    let mut fragment = packet[..20].to_vec();
    fragment.extend(&payload[from..until]);
    let length = (fragment.len() as u16).to_be_bytes();
    fragment[2..4].copy_from_slice(&length);
    fragment[4..6].copy_from_slice(&identification.to_be_bytes());
    let more = if until < payload.len() { 0x2000 } else { 0 };
    fragment[6..8].copy_from_slice(&((from as u16 / 8) | more).to_be_bytes());
    reseal(&mut fragment);
    fragment
}

/// Gives an IPv4 packet without options the checksum of its header.
pub fn reseal(packet: &mut [u8]) {
    packet[10..12].copy_from_slice(&[0, 0]);
    let sum = checksum(&packet[..20]);
    packet[10..12].copy_from_slice(&sum);
}

pub fn v4(octets: [u8; 4]) -> IpAddr {
    IpAddr::V4(Ipv4Addr::from(octets))
}

pub fn v6(last: u16) -> IpAddr {
    IpAddr::V6(Ipv6Addr::from([0x2001, 0xdb8, 0, 0, 0, 0, 0, last]))
}

pub fn tuple(protocol: u8, source: (IpAddr, u16), destination: (IpAddr, u16)) -> Tuple {
    Tuple {
        protocol,
        source: source.0,
        source_port: source.1,
        destination: destination.0,
        destination_port: destination.1,
    }
}

/// Any tuple of IPv4 that is of TCP, UDP, or an echo.
pub fn any_v4() -> impl Strategy<Value = Tuple> {
    (0..3_u8, any::<[u8; 4]>(), any::<[u8; 4]>(), 1..=u16::MAX, 1..=u16::MAX, any::<bool>()).prop_map(
        |(kind, source, destination, own, peer, is_request)| {
            let (protocol, own, peer) = match (kind, is_request) {
                (0, _) => (TCP, own, peer),
                (1, _) => (UDP, own, peer),
                (_, true) => (ICMP, own, 0),
                (_, false) => (ICMP, 0, peer),
            };
            tuple(protocol, (v4(source), own), (v4(destination), peer))
        },
    )
}
