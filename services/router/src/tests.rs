//! Packets through the router, between cards that keep what they are to send.

mod advertise;
mod packets;
mod reload;
mod short;

use crate::journal::Journal;
use crate::networks::{Address, Network, Networks};
use crate::policy::Policy;
use crate::router::{Cards, Room, Router, Secrets, Tally};
use crate::settings::read;
use core::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use core::sync::atomic::AtomicU64;
use core::sync::atomic::Ordering::Relaxed;
use culm_flow::{ICMP, ICMP6, Packet, TCP, UDP, memory_words};
use culm_ip::neighbour::arp::Arp;
use culm_ip::{Instant, Key, LinkAddress};
use culm_net::header::RawHeader;
use culm_net::{ETHERNET_HEADER, PacketHeader, checksum};
use culm_packet::checksum::Sum;
use std::boxed::Box;
use std::format;
use std::string::String;
use std::vec;
use std::vec::Vec;

/// The networks, and who is on them.
const OUTER: usize = 0;
const INNER: usize = 1;
const FLOWS: usize = 64;

const RULES: &str = "default deny
allow in inner out outer
allow in inner out self
allow tcp in outer,inner to 10.0.1.5 port 80
reject tcp in outer to 10.0.1.6
reject udp in outer to 10.0.1.6
forward tcp in outer,inner port 8080 to 10.0.1.5 port 80
nat in inner out outer to own ports 40000-40999
";

/// Returns the router's station on a network, and the one that its neighbours have.
fn link(network: usize) -> LinkAddress {
    LinkAddress([2, 0, 0, 0, 0, network as u8])
}

fn neighbour(network: usize) -> LinkAddress {
    LinkAddress([2, 0, 0, 0, 1, network as u8])
}

fn networks(mtu: u16) -> Networks {
    let network = |name, number, v4, v6, mtu| Network {
        name,
        link: link(number),
        v4: Address::<Ipv4Addr>::parse(v4),
        v6: Address::<Ipv6Addr>::parse(v6),
        mtu,
    };
    let outer = network("outer", OUTER, "192.0.2.2/24", "2001:db8::2/64", mtu);
    let inner = network("inner", INNER, "10.0.1.1/24", "2001:db8:1::1/64", 1500);
    Networks::new(vec![outer, inner], "192.0.2.1".parse().ok(), "fe80::1".parse().ok())
}

/// Cards that keep frames.
#[derive(Default)]
struct Sent(Vec<(usize, Vec<u8>)>);

/// Room for a frame, and what becomes of the frame when it is sent.
struct Written<'a> {
    frame: Vec<u8>,
    offloads: bool,
    keep: Box<dyn FnOnce(PacketHeader, Vec<u8>) + 'a>,
}

impl<'a> Written<'a> {
    fn new(length: usize, offloads: bool, keep: impl FnOnce(PacketHeader, Vec<u8>) + 'a) -> Option<Self> {
        Some(Self { frame: vec![0xaa; length], offloads, keep: Box::new(keep) })
    }
}

impl Room for Written<'_> {
    fn frame(&mut self) -> &mut [u8] {
        &mut self.frame
    }

    fn send(self, header: PacketHeader) {
        (self.keep)(header, self.frame);
    }

    fn send_on(mut self, header: RawHeader<'_>) {
        let header = checksum::finish(&mut self.frame, &header.read(), self.offloads);
        self.send(header);
    }
}

impl Cards for Sent {
    type Room<'a> = Written<'a>;

    fn room(&mut self, card: usize, length: usize) -> Option<Written<'_>> {
        Written::new(length, false, move |_, frame| self.0.push((card, frame)))
    }

    fn send_segments(&mut self, _: usize, _: usize, _: u8, _: u16, _: impl FnOnce(&mut [u8])) -> bool {
        false
    }

    fn divides(&mut self, _: usize, _: u8) -> bool {
        false
    }

    fn offloads_checksum(&mut self, _: usize) -> bool {
        false
    }
}

/// A router whose neighbours answer at once.
struct World {
    router: Router,
    memory: &'static [AtomicU64],
    now: Instant,
    kept: usize,
}

impl World {
    fn new() -> Self {
        Self::with(RULES, 1500)
    }

    fn with(rules: &str, mtu: u16) -> Self {
        let memory: Vec<AtomicU64> = (0..memory_words(FLOWS)).map(|_| AtomicU64::new(0)).collect();
        Self::on(memory.leak(), rules, mtu, Instant(1_000_000))
    }

    fn on(memory: &'static [AtomicU64], rules: &str, mtu: u16, now: Instant) -> Self {
        let networks = networks(mtu);
        let secrets = Secrets { flows: culm_flow::Key([now.0, 2]), neighbours: Key([1, 2, 3, 4, 5]) };
        let rules = read(rules, &networks).expect("rules");
        let policy = Policy::new(rules, &networks, secrets.flows, FLOWS).expect("they can be used");
        let journal = Journal::new(secrets.flows, 10);
        let (router, adopted) = Router::new(networks, policy, memory, 32, &secrets, journal, now);
        Self { router, memory, now, kept: adopted.kept }
    }

    /// The router's next life.
    fn reborn(self) -> Self {
        Self::on(self.memory, RULES, 1500, self.now)
    }

    /// Has a packet come over a network; returns the packets that leave, with their networks, once
    /// neighbours have said who they are.
    fn pass(&mut self, network: usize, packet: &[u8]) -> Vec<(usize, Vec<u8>)> {
        let mut sent = Sent::default();
        let frame = frame(link(network), neighbour(network), packet);
        self.router.take_with(network, PacketHeader::default(), &frame, &mut sent);
        self.router.begin(self.now, &mut sent);
        let mut left = vec![];
        while !sent.0.is_empty() {
            let mut more = Sent::default();
            for (card, frame) in sent.0 {
                match &frame[12..14] {
                    [8, 6] => self.answer_arp(card, &frame, &mut more),
                    _ => left.push((card, frame[ETHERNET_HEADER..].to_vec())),
                }
            }
            self.router.begin(self.now, &mut more);
            sent = more;
        }
        left
    }

    fn answer_arp(&mut self, card: usize, question: &[u8], sent: &mut Sent) {
        let question = Arp::parse(&question[ETHERNET_HEADER..]).expect("a message");
        let answer = question.reply(neighbour(card)).bytes();
        let mut frame = frame(link(card), neighbour(card), &answer);
        frame[12..14].copy_from_slice(&[8, 6]);
        self.router.take_with(card, PacketHeader::default(), &frame, sent);
    }

    /// The same of a packet of which one is to leave over `to`.
    fn passes(&mut self, from: usize, packet: &[u8], to: usize) -> (Packet, Vec<u8>) {
        let left = self.pass(from, packet);
        let [(network, bytes)] = left.as_slice() else { panic!("{left:02x?}, {:?}", self.router.tally()) };
        assert_eq!(*network, to);
        let packet = Packet::read(bytes).expect("a packet");
        assert_ne!(culm_flow::checksum_is_right(&packet, bytes), Some(false), "{packet:?}");
        (packet, bytes.clone())
    }

    /// Nothing leaves; returns what was counted.
    fn drops(&mut self, network: usize, packet: &[u8]) -> Tally {
        self.router.tally();
        let left = self.pass(network, packet);
        assert!(left.is_empty(), "{left:02x?}");
        self.router.tally()
    }
}

fn frame(to: LinkAddress, from: LinkAddress, packet: &[u8]) -> Vec<u8> {
    let kind = if packet.first().is_some_and(|first| first >> 4 == 6) { [0x86, 0xdd] } else { [8, 0] };
    [&to.0[..], &from.0, &kind, packet].concat()
}

fn address(text: &str) -> IpAddr {
    text.parse().expect("an address")
}

/// Makes a packet of a protocol with this message, whose checksum is at the place, if it has one.
fn packet(from: &str, to: &str, protocol: u8, mut message: Vec<u8>, checksum: Option<usize>) -> Vec<u8> {
    let (source, destination) = (address(from), address(to));
    if let Some(at) = checksum {
        let sum =
            if protocol == ICMP { Sum::ZERO } else { Sum::pseudo_header(source, destination, protocol, message.len()) };
        let sum = sum.add_bytes(&message).checksum().to_be_bytes();
        message[at..at + 2].copy_from_slice(&sum);
    }
    let mut bytes = match (source, destination) {
        (IpAddr::V4(source), IpAddr::V4(destination)) => {
            let length = (20 + message.len() as u16).to_be_bytes();
            let mut header = vec![0x45, 0, length[0], length[1], 0, 1, 0x40, 0, 64, protocol, 0, 0];
            header.extend(source.octets().into_iter().chain(destination.octets()));
            let sum = Sum::ZERO.add_bytes(&header).checksum().to_be_bytes();
            header[10..12].copy_from_slice(&sum);
            header
        }
        (IpAddr::V6(source), IpAddr::V6(destination)) => {
            let length = (message.len() as u16).to_be_bytes();
            let mut header = vec![0x60, 0, 0, 0, length[0], length[1], protocol, 64];
            header.extend(source.octets().into_iter().chain(destination.octets()));
            header
        }
        _ => panic!("{from} {to}"),
    };
    bytes.extend(message);
    bytes
}

fn udp(from: (&str, u16), to: (&str, u16), payload: usize) -> Vec<u8> {
    let length = (8 + payload as u16).to_be_bytes();
    let mut message = [from.1.to_be_bytes(), to.1.to_be_bytes(), length, [0, 0]].concat();
    message.extend((0..payload).map(|byte| byte as u8));
    packet(from.0, to.0, UDP, message, Some(6))
}

/// A segment with these flags; a SYN offers a maximum segment size of 1460.
fn tcp(from: (&str, u16), to: (&str, u16), flags: u8, numbers: [u32; 2]) -> Vec<u8> {
    let mut message = [from.1.to_be_bytes(), to.1.to_be_bytes()].concat();
    message.extend(numbers.into_iter().flat_map(u32::to_be_bytes));
    let is_syn = flags & 2 != 0;
    message.extend([if is_syn { 0x60 } else { 0x50 }, flags, 0xff, 0xff, 0, 0, 0, 0]);
    if is_syn {
        message.extend([2, 4, 5, 0xb4]);
    }
    packet(from.0, to.0, TCP, message, Some(16))
}

fn ping(from: &str, to: &str, payload: usize) -> Vec<u8> {
    let (protocol, kind) = if address(from).is_ipv4() { (ICMP, 8) } else { (ICMP6, 128) };
    let mut message = vec![kind, 0, 0, 0, 0x12, 0x34, 0, 1];
    message.extend((0..payload).map(|byte| byte as u8));
    packet(from, to, protocol, message, Some(2))
}

/// Changes a byte of an IPv4 header, and its checksum.
fn change(mut packet: Vec<u8>, at: usize, to: u8) -> Vec<u8> {
    packet[at] = to;
    packet[10..12].fill(0);
    let sum = Sum::ZERO.add_bytes(&packet[..20]).checksum().to_be_bytes();
    packet[10..12].copy_from_slice(&sum);
    packet
}

fn show(packet: &Packet) -> String {
    let (source, destination) = packet.transport.ports().unwrap_or_default();
    format!("{} {source} {} {destination}", packet.source, packet.destination)
}
