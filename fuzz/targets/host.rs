//! A host on a link where anything comes, its DHCP server's answers among it.
//!
//! The input is what is received, with checksums made right or not, packets that upper layers want
//! to send, and time that passes. Whatever comes, what is due is done, no frame that goes out is
//! longer than the link takes, and a neighbour's question for the host's address is answered.

#![no_main]

#[path = "../common/input.rs"]
mod input;

use culm_ip::host::{Config, Frame, Host, Ipv4Config, Kind, LARGEST, Memory, Neighbour, Packet, Wire};
use culm_ip::neighbour::arp::Arp;
use culm_ip::path::Path;
use culm_ip::reassembly::Slot;
use culm_ip::udp::Checksum;
use culm_ip::{Cidr, Instant, Key, LinkAddress};
use input::Input;
use libfuzzer_sys::fuzz_target;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::time::Duration;

const LINK: LinkAddress = LinkAddress([2, 0, 0, 0, 0, 1]);
const PEER: LinkAddress = LinkAddress([2, 0, 0, 0, 0, 2]);
const OWN: Ipv4Addr = Ipv4Addr::new(10, 0, 0, 1);
const OTHER: Ipv4Addr = Ipv4Addr::new(10, 0, 0, 2);
const OWN_6: Ipv6Addr = Ipv6Addr::new(0xfe80, 0, 0, 0, 0, 0xff, 0xfe00, 1);
const OTHER_6: Ipv6Addr = Ipv6Addr::new(0xfe80, 0, 0, 0, 0, 0xff, 0xfe00, 2);

/// What has gone out.
#[derive(Default)]
struct Sent {
    /// Answers of ARP to the peer.
    replies: usize,
    /// The number of DHCP's last request.
    transaction: [u8; 4],
}

impl Wire for Sent {
    fn send(&mut self, to: LinkAddress, kind: Kind, packet: &[u8]) {
        assert!(!packet.is_empty() && packet.len() <= LARGEST);
        self.replies += usize::from(kind == Kind::Arp && to == PEER);
        if kind == Kind::Ipv4 && packet.get(22..24) == Some(&[0, 67]) {
            self.transaction.copy_from_slice(&packet[32..36]);
        }
    }
}

/// The Internet checksum of all these bytes.
fn checksum(parts: &[&[u8]]) -> [u8; 2] {
    let bytes = parts.concat();
    let halves = bytes.chunks(2).map(|half| u32::from(half[0]) << 8 | u32::from(*half.get(1).unwrap_or(&0)));
    let sum: u32 = halves.sum();
    let sum = (sum & 0xffff) + (sum >> 16);
    (!((sum & 0xffff) + (sum >> 16)) as u16).to_be_bytes()
}

/// A packet of IPv4 for the host, with a header that is right.
fn ipv4(input: &mut Input<'_>, protocol: u8, payload: &[u8]) -> Vec<u8> {
    let total = (20 + payload.len()) as u16;
    let [high, low] = total.to_be_bytes();
    let (place, destination) = (input.bytes(2), if input.byte() & 1 == 0 { OWN } else { Ipv4Addr::BROADCAST });
    let place = [place.first().unwrap_or(&0) & 0x21, *place.last().unwrap_or(&0)];
    let mut header = [0x45, 0, high, low, 0, 9, place[0], place[1], 64, protocol, 0, 0].to_vec();
    header.extend(OTHER.octets());
    header.extend(destination.octets());
    let sum = checksum(&[&header]);
    header[10..12].copy_from_slice(&sum);
    [&header, payload].concat()
}

/// A server's message with the input's options.
fn offer(input: &mut Input<'_>, transaction: [u8; 4]) -> Vec<u8> {
    let mut message = vec![0; 236];
    message[..4].copy_from_slice(&[2, 1, 6, 0]);
    message[4..8].copy_from_slice(&transaction);
    message[16..20].copy_from_slice(if input.byte() & 3 == 0 { &[0, 0, 0, 9] } else { &[10, 0, 0, 1] });
    message[28..34].copy_from_slice(&LINK.0);
    message.extend([99, 130, 83, 99, 53, 1, [2, 5, 6, 2][usize::from(input.byte() & 3)], 54, 4, 10, 0, 0, 2]);
    if input.byte() & 1 == 0 {
        message.extend([51, 4, 0, 0, input.byte(), 20]);
    }
    let count = usize::from(input.byte() & 31);
    message.extend(input.bytes(count));
    let length = ((message.len() + 8) as u16).to_be_bytes();
    [&[0, 67, 0, 68, length[0], length[1], 0, 0][..], &message].concat()
}

/// A packet of IPv6 for the host with a message of ICMPv6, whose checksum is right.
fn ipv6(input: &mut Input<'_>) -> Vec<u8> {
    let kind = [128, 130, 133 + input.byte() % 5, 1 + input.byte() % 4][usize::from(input.byte() & 3)];
    let count = usize::from(input.byte());
    let mut message = [&[kind, 0, 0, 0], input.bytes(count)].concat();
    let (source, destination) = (OTHER_6.octets(), OWN_6.octets());
    let length = (message.len() as u16).to_be_bytes();
    let sum = checksum(&[&source, &destination, &[0, 58], &length, &message]);
    message[2..4].copy_from_slice(&sum);
    let hop_limit = if kind == 130 { 1 } else { 255 };
    [&[0x60, 0, 0, 0, length[0], length[1], 58, hop_limit][..], &source, &destination, &message].concat()
}

fuzz_target!(|bytes: &[u8]| {
    let mut input = Input::new(bytes);
    let mut neighbours: Vec<Neighbour> = (0..16).map(|_| Neighbour::default()).collect();
    let mut packets = vec![Packet::default(); 3];
    let mut paths = vec![Path::default(); 8];
    let mut slots = vec![Slot::default(); 4];
    let mut fragments = vec![0; 8000];
    let is_leased = input.byte() & 1 == 0;
    let fixed = Ipv4Config::Fixed(Cidr::new(OWN, 24).expect("24 of 32"), None);
    let config = Config {
        link: LINK,
        mtu: 1500,
        ipv4: if is_leased { Ipv4Config::Leased } else { fixed },
        ipv6: true,
        key: Key([1, 3, 5, 7, 9]),
        seed: u64::from(input.byte()),
    };
    let memory = Memory {
        neighbours: &mut neighbours,
        packets: &mut packets,
        paths: &mut paths,
        slots: &mut slots,
        fragments: &mut fragments,
    };
    let mut now = Instant::default();
    let (mut host, mut sent) = (Host::new(config, memory, now), Sent::default());
    while !input.is_over() {
        let (kind, packet) = match input.byte() % 7 {
            0 => {
                let count = usize::from(input.byte() & 31);
                let mut message = Arp::request(PEER, OTHER, OWN).bytes();
                message.iter_mut().zip(input.bytes(count)).for_each(|(byte, change)| *byte ^= change);
                (Kind::Arp, message.to_vec())
            }
            1 => {
                let count = usize::from(input.byte());
                let payload = input.bytes(count);
                let protocol = input.byte() & 31;
                (Kind::Ipv4, ipv4(&mut input, protocol, payload))
            }
            2 => {
                let message = offer(&mut input, sent.transaction);
                (Kind::Ipv4, ipv4(&mut input, 17, &message))
            }
            3 => (Kind::Ipv6, ipv6(&mut input)),
            4 => {
                let count = usize::from(input.byte());
                (Kind::Ipv6, [&[0x60], input.bytes(count)].concat())
            }
            5 => {
                let four = IpAddr::from(Ipv4Addr::new(10, 0, 0, input.byte()));
                let to = if input.byte() & 1 == 0 { four } else { OTHER_6.into() };
                let _ = host.send_datagram(9, SocketAddr::new(to, 9), b"question", now, &mut sent);
                continue;
            }
            _ => {
                now = now + Duration::from_millis(1 << (input.byte() & 15));
                for _ in 0..4 {
                    host.poll(now, &mut sent);
                }
                assert!(host.deadline() > now, "what is due is done");
                continue;
            }
        };
        let was_for_all = input.byte() & 1 == 0;
        let frame = Frame { from: PEER, was_for_all, kind, packet: &packet, checksum: Checksum::Unknown };
        let _ = host.receive(&frame, &|protocol, port| protocol == 17 && port == 7, now, &mut sent);
        while host.notice().is_some() {}
    }
    let has_address = host.addresses().any(|own| own.address() == IpAddr::from(OWN));
    assert!(has_address || is_leased, "an address that is given stays");
    sent.replies = 0;
    let request = Arp::request(PEER, OTHER, OWN).bytes();
    let frame = Frame { from: PEER, was_for_all: true, kind: Kind::Arp, packet: &request, checksum: Checksum::Unknown };
    let _ = host.receive(&frame, &|_, _| false, now, &mut sent);
    assert_eq!(sent.replies, usize::from(has_address));
});
