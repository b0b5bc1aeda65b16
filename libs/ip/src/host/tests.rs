//! A host, and what others on the link do to it.

use super::*;
use crate::ipv4::Ipv4;
use crate::ipv6::Ipv6;
use crate::neighbour::arp::{Arp, Operation};
use crate::neighbour::{Message, NeighbourAdvertisement, NeighbourSolicitation};
use crate::udp::{Datagram, UDP};
use crate::{ALL_NODES, multicast, solicited_node};
use core::net::{Ipv6Addr, SocketAddr};
use proptest::prelude::*;
use std::boxed::Box;
use std::vec;
use std::vec::Vec;

const LINK: LinkAddress = LinkAddress([2, 0, 0, 0, 0, 1]);
const PEER: LinkAddress = LinkAddress([2, 0, 0, 0, 0, 2]);
const OWN: Ipv4Addr = Ipv4Addr::new(10, 0, 0, 1);
const OTHER: Ipv4Addr = Ipv4Addr::new(10, 0, 0, 2);
const ROUTER: Ipv4Addr = Ipv4Addr::new(10, 0, 0, 9);
const OWN_6: Ipv6Addr = Ipv6Addr::new(0xfe80, 0, 0, 0, 0, 0xff, 0xfe00, 1);
const OTHER_6: Ipv6Addr = Ipv6Addr::new(0xfe80, 0, 0, 0, 0, 0xff, 0xfe00, 2);
const UDP_PORT: u16 = 7;

/// Frames that were sent.
#[derive(Default)]
struct Sent(Vec<(LinkAddress, Kind, Vec<u8>)>, Vec<IpAddr>);

impl Wire for Sent {
    fn send(&mut self, to: LinkAddress, kind: Kind, packet: &[u8]) {
        assert!(!packet.is_empty() && packet.len() <= LARGEST);
        self.0.push((to, kind, packet.to_vec()));
    }

    fn undelivered(&mut self, packet: &[u8]) {
        self.1.push(crate::icmp::Quoted::of_packet(packet).expect("it was sent whole").destination);
    }
}

struct Lan {
    host: Host<'static>,
    sent: Sent,
    now: Instant,
}

fn leak<T: Clone + Default>(count: usize) -> &'static mut [T] {
    Box::leak(vec![T::default(); count].into_boxed_slice())
}

impl Lan {
    fn new(ipv4: Ipv4Config) -> Self {
        let neighbours: Vec<Neighbour> = (0..16).map(|_| Neighbour::default()).collect();
        let memory = Memory {
            neighbours: Box::leak(neighbours.into_boxed_slice()),
            packets: leak(4),
            paths: leak(8),
            slots: leak(4),
            fragments: leak(16_000),
        };
        let key = Key([1, 3, 5, 7, 9]);
        let config = Config { link: LINK, mtu: 1500, ipv4, ipv6: true, key, seed: 11 };
        let now = Instant::default();
        Self { host: Host::new(config, memory, now), sent: Sent::default(), now }
    }

    fn fixed() -> Self {
        let network = Cidr::new(OWN, 24).expect("24 of 32");
        Self::new(Ipv4Config::Fixed(network, Some(ROUTER)))
    }

    /// A host whose addresses are all certain.
    fn settled() -> Self {
        let mut lan = Self::fixed();
        lan.pass(5000);
        lan.sent.0.clear();
        lan
    }

    fn pass(&mut self, milliseconds: u64) {
        let end = self.now + Duration::from_millis(milliseconds);
        loop {
            self.host.poll(self.now, &mut self.sent);
            let next = self.host.deadline();
            assert!(next > self.now, "what is due is done");
            if next > end {
                break;
            }
            self.now = next;
        }
        self.now = end;
    }

    fn receive(&mut self, kind: Kind, packet: &[u8]) -> bool {
        self.receive_from(PEER, false, kind, packet)
    }

    /// Returns whether an upper layer takes it.
    fn receive_from(&mut self, from: LinkAddress, was_for_all: bool, kind: Kind, packet: &[u8]) -> bool {
        let frame = Frame { from, was_for_all, kind, packet, checksum: Checksum::Unknown };
        let upper = |protocol, port| (protocol, port) == (UDP, UDP_PORT) || protocol == 6;
        let received = self.host.receive(&frame, &upper, self.now, &mut self.sent);
        matches!(received, Received::Packet(_))
    }

    fn take(&mut self) -> Vec<(LinkAddress, Kind, Vec<u8>)> {
        core::mem::take(&mut self.sent.0)
    }

    fn addresses(&self) -> Vec<IpAddr> {
        self.host.addresses().map(Cidr::address).collect()
    }

    fn notices(&mut self) -> Vec<Notice> {
        core::iter::from_fn(|| self.host.notice()).collect()
    }

    /// Sends a datagram; returns what went out, the destinations of frames and their kinds.
    fn send(&mut self, to: impl Into<IpAddr>) -> Result<Vec<(LinkAddress, Kind)>, Unsent> {
        let to = SocketAddr::new(to.into(), 53);
        self.host.send_datagram(4000, to, b"question", self.now, &mut self.sent)?;
        self.host.poll(self.now, &mut self.sent);
        Ok(self.take().into_iter().map(|(link, kind, _)| (link, kind)).collect())
    }
}

fn udp(source: IpAddr, destination: IpAddr, port: u16, payload: &[u8]) -> Vec<u8> {
    let (mut datagram, mut packet) = (vec![0; 3000], vec![0; 3000]);
    let udp = Datagram { source_port: 999, destination_port: port, payload };
    let length = udp.write(source, destination, &mut datagram).expect("fits");
    let payload = &datagram[..length];
    let length = match (source, destination) {
        (IpAddr::V4(source), IpAddr::V4(destination)) => {
            super::send::ipv4(source, destination, UDP, payload).write(&mut packet)
        }
        (IpAddr::V6(source), IpAddr::V6(destination)) => {
            Ipv6 { source, destination, next_header: UDP, hop_limit: 64, payload }.write(&mut packet)
        }
        _ => panic!("two versions"),
    };
    packet.truncate(length.expect("fits"));
    packet
}

fn advertise(lan: &mut Lan, address: Ipv6Addr) {
    let told = NeighbourAdvertisement {
        source: address,
        destination: ALL_NODES,
        target: address,
        link: Some(PEER),
        is_router: false,
        is_solicited: false,
        overrides: true,
    };
    let mut buffer = [0; 100];
    let length = told.write(&mut buffer).expect("fits");
    lan.receive_from(PEER, true, Kind::Ipv6, &buffer[..length]);
}

#[test]
fn addresses_are_used_at_once_and_made_certain() {
    let mut lan = Lan::fixed();
    assert_eq!(lan.addresses(), [IpAddr::from(OWN), OWN_6.into()]);
    assert_eq!(lan.notices(), [Notice::Addresses]);
    lan.pass(5000);
    let sent = lan.take();
    let announced = sent.iter().filter(|(to, kind, packet)| {
        let arp = (*kind == Kind::Arp).then(|| Arp::parse(packet).expect("a message"));
        *to == LinkAddress::BROADCAST && arp == Some(Arp::announcement(LINK, OWN))
    });
    assert_eq!(announced.count(), 2);
    let ipv6 = |sent: &[(LinkAddress, Kind, Vec<u8>)]| -> Vec<Vec<u8>> {
        sent.iter().filter(|(_, kind, _)| *kind == Kind::Ipv6).map(|(_, _, packet)| packet.clone()).collect()
    };
    // The group is reported before it is asked in, and who asks is nobody yet.
    let packets = ipv6(&sent);
    let first = Ipv6::parse(&packets[0]).expect("a packet");
    assert_eq!((first.destination, first.source), (multicast::ALL_ROUTERS_2, Ipv6Addr::UNSPECIFIED));
    let probe = packets.iter().filter_map(|packet| match Message::parse(&Ipv6::parse(packet).ok()?) {
        Ok(Message::NeighbourSolicitation(question)) => Some((question.source, question.target, question.link)),
        _ => None,
    });
    assert_eq!(probe.collect::<Vec<_>>(), [(Ipv6Addr::UNSPECIFIED, OWN_6, None)]);
    assert!(packets.iter().any(|packet| packet[40] == 133), "routers are asked for");
}

#[test]
fn a_link_address_that_somebody_else_has_is_given_up() {
    let mut lan = Lan::fixed();
    lan.pass(10);
    lan.notices();
    advertise(&mut lan, OWN_6);
    assert_eq!(lan.notices(), [Notice::Duplicate(OWN_6.into()), Notice::Addresses]);
    assert_eq!(lan.addresses(), [IpAddr::from(OWN)]);
    assert_eq!(lan.send(OTHER_6), Err(Unsent::NoRoute));
    // Once it is certain nobody can take it by a message.
    let mut lan = Lan::settled();
    advertise(&mut lan, OWN_6);
    assert_eq!(lan.addresses().len(), 2);
}

#[test]
fn an_optimistic_address_puts_nobody_out_of_his_place() {
    let question = |source| {
        let link = (source != Ipv6Addr::UNSPECIFIED).then_some(PEER);
        let question = NeighbourSolicitation { source, destination: solicited_node(OWN_6), target: OWN_6, link };
        let mut buffer = [0; 100];
        let length = question.write(&mut buffer).expect("fits");
        buffer[..length].to_vec()
    };
    for (is_certain, overrides) in [(false, false), (true, true)] {
        let mut lan = if is_certain { Lan::settled() } else { Lan::fixed() };
        lan.receive_from(PEER, true, Kind::Ipv6, &question(OTHER_6));
        let sent = lan.take();
        let [(to, Kind::Ipv6, packet)] = &sent[..] else { panic!("{sent:?}") };
        let packet = Ipv6::parse(packet).expect("a packet");
        let Ok(Message::NeighbourAdvertisement(told)) = Message::parse(&packet) else { panic!("{packet:?}") };
        assert_eq!((*to, told.target, told.link, told.overrides), (PEER, OWN_6, Some(LINK), overrides));
        // Somebody else claims it at the same time: neither gets it, while it is not certain.
        lan.receive_from(PEER, true, Kind::Ipv6, &question(Ipv6Addr::UNSPECIFIED));
        assert_eq!(lan.addresses().contains(&OWN_6.into()), is_certain);
    }
}

#[test]
fn a_given_address_is_defended_but_not_given_up() {
    let mut lan = Lan::settled();
    for _ in 0..3 {
        lan.receive_from(PEER, true, Kind::Arp, &Arp::announcement(PEER, OWN).bytes());
        lan.pass(10);
    }
    let sent = lan.take();
    let defence = (LinkAddress::BROADCAST, Kind::Arp, Arp::announcement(LINK, OWN).bytes().to_vec());
    assert_eq!(sent, [defence], "once in ten seconds");
    assert!(lan.addresses().contains(&OWN.into()));
}

#[test]
fn datagrams_wait_for_their_neighbour() {
    let mut lan = Lan::settled();
    assert_eq!(lan.send(OTHER), Ok(vec![(LinkAddress::BROADCAST, Kind::Arp)]));
    assert_eq!(lan.send(OTHER), Ok(vec![]), "it was asked already");
    let reply = Arp { operation: Operation::Reply, ..Arp::request(PEER, OTHER, OWN) };
    lan.receive(Kind::Arp, &Arp { target_link: LINK, ..reply }.bytes());
    lan.pass(0);
    let sent: Vec<_> = lan.take().into_iter().map(|(to, kind, packet)| (to, kind, packet.len())).collect();
    assert_eq!(sent, [(PEER, Kind::Ipv4, 36); 2]);
    assert_eq!(lan.send(OTHER), Ok(vec![(PEER, Kind::Ipv4)]));
    let (link, place) = lan.host.station(OTHER.into(), lan.now).expect("is known");
    assert_eq!((link, lan.host.station_at(place, lan.now)), (PEER, Some(PEER)));
}

/// RFC 4861 §7.2.2, of ARP too (RFC 1122 §2.3.2.2).
#[test]
fn who_waits_in_vain_is_told() {
    let mut lan = Lan::settled();
    let _ = lan.send(OTHER);
    let _ = lan.send(OTHER);
    lan.pass(2900);
    assert!(lan.sent.1.is_empty());
    lan.pass(200);
    assert_eq!(lan.sent.1, [IpAddr::V4(OTHER); 2]);
}

/// RFC 4861 §7.3.1.
#[test]
fn a_neighbour_that_upper_layers_hear_of_is_not_asked() {
    for confirms in [true, false] {
        let mut lan = Lan::settled();
        let _ = lan.send(OTHER);
        lan.receive(Kind::Arp, &Arp { target_link: LINK, ..Arp::request(PEER, OTHER, OWN) }.bytes());
        lan.pass(0);
        let mut asked = 0;
        for _ in 0..60 {
            let _ = lan.send(OTHER);
            lan.now = lan.now + Duration::from_secs(2);
            if confirms && lan.host.is_asking(lan.now) {
                // Somebody else's station says nothing.
                lan.host.confirm(OTHER.into(), LinkAddress([2, 0, 0, 0, 0, 7]), lan.now);
                assert!(lan.host.is_asking(lan.now));
                lan.host.confirm(OTHER.into(), PEER, lan.now);
                assert!(!lan.host.is_asking(lan.now));
            }
            lan.host.poll(lan.now, &mut lan.sent);
            asked += lan.take().iter().filter(|(_, kind, _)| *kind == Kind::Arp).count();
        }
        assert_eq!(asked > 0, !confirms, "{asked}");
    }
}

#[test]
fn who_is_not_there_takes_no_memory_for_ever() {
    let mut lan = Lan::settled();
    for number in 20..40 {
        let _ = lan.send(Ipv4Addr::new(10, 0, 0, number));
    }
    lan.pass(10_000);
    lan.take();
    assert_eq!(lan.send(OTHER), Ok(vec![(LinkAddress::BROADCAST, Kind::Arp)]));
    lan.receive(Kind::Arp, &Arp::request(PEER, OTHER, OWN).bytes());
    lan.pass(0);
    let kinds: Vec<_> = lan.take().into_iter().map(|(_, kind, packet)| (kind, packet.len())).collect();
    assert_eq!(kinds, [(Kind::Arp, 28), (Kind::Ipv4, 36)], "there was a place for it");
}

#[test]
fn other_networks_are_reached_by_the_router() {
    let mut lan = Lan::settled();
    lan.receive(Kind::Arp, &Arp::request(PEER, ROUTER, OWN).bytes());
    lan.take();
    assert_eq!(lan.send(Ipv4Addr::new(192, 0, 2, 1)), Ok(vec![(PEER, Kind::Ipv4)]));
    assert_eq!(lan.send(Ipv4Addr::new(10, 0, 0, 255)), Ok(vec![(LinkAddress::BROADCAST, Kind::Ipv4)]));
    let group = LinkAddress([1, 0, 0x5e, 0, 0, 251]);
    assert_eq!(lan.send(Ipv4Addr::new(224, 0, 0, 251)), Ok(vec![(group, Kind::Ipv4)]));
    for nowhere in [IpAddr::from(OWN), OWN_6.into(), Ipv4Addr::LOCALHOST.into(), Ipv6Addr::LOCALHOST.into()] {
        assert_eq!(lan.send(nowhere), Err(Unsent::NoRoute), "{nowhere}");
    }
    assert_eq!(lan.send("2001:db8::1".parse::<Ipv6Addr>().expect("an address")), Err(Unsent::NoRoute));
}

#[test]
fn echo_requests_are_answered_to_where_they_came_from() {
    let mut lan = Lan::settled();
    let echo = [8, 0, 0xf7, 0xfa, 0, 1, 0, 4];
    let mut packet = [0; 100];
    let request = |source, destination| super::send::ipv4(source, destination, 1, &echo);
    let length = request(Ipv4Addr::new(192, 0, 2, 1), OWN).write(&mut packet).expect("fits");
    lan.receive(Kind::Ipv4, &packet[..length]);
    let sent = lan.take();
    let [(PEER, Kind::Ipv4, answer)] = &sent[..] else { panic!("{sent:?}") };
    let answer = Ipv4::parse(answer).expect("a packet");
    assert_eq!((answer.payload[0], answer.destination), (0, Ipv4Addr::new(192, 0, 2, 1)));
    // Not to all, not from a station that is none, and not where the own frame comes back.
    let length = request(OTHER, Ipv4Addr::BROADCAST).write(&mut packet).expect("fits");
    lan.receive_from(PEER, true, Kind::Ipv4, &packet[..length]);
    let length = request(OTHER, OWN).write(&mut packet).expect("fits");
    lan.receive_from(LinkAddress::BROADCAST, false, Kind::Ipv4, &packet[..length]);
    lan.receive_from(LINK, false, Kind::Ipv4, &packet[..length]);
    assert_eq!(lan.take(), []);
}

#[test]
fn what_nobody_takes_is_told_its_sender_within_bounds() {
    let mut lan = Lan::settled();
    for (source, destination) in [(IpAddr::from(OTHER), IpAddr::from(OWN)), (OTHER_6.into(), OWN_6.into())] {
        let kind = if source.is_ipv4() { Kind::Ipv4 } else { Kind::Ipv6 };
        assert!(lan.receive(kind, &udp(source, destination, UDP_PORT, b"taken")));
        assert!(!lan.receive(kind, &udp(source, destination, 8, b"not")));
        let sent = lan.take();
        let [(PEER, _, error)] = &sent[..] else { panic!("{sent:?}") };
        let expected = if source.is_ipv4() { (20, [3, 3]) } else { (40, [1, 4]) };
        assert_eq!(error[expected.0..][..2], expected.1);
        let mut broken = udp(source, destination, 8, b"not");
        *broken.last_mut().expect("a byte") ^= 1;
        lan.receive(kind, &broken);
        assert_eq!(lan.take(), [], "a broken one may be for anybody");
    }
    let stray = udp(OTHER.into(), OWN.into(), 8, b"not");
    (0..1000).for_each(|_| assert!(!lan.receive(Kind::Ipv4, &stray)));
    let told = lan.take().len();
    assert!((40..=120).contains(&told), "{told}");
}

#[test]
fn fragments_are_put_together_and_missing_ones_told() {
    let mut lan = Lan::settled();
    let whole = udp(OTHER.into(), OWN.into(), UDP_PORT, &[7; 2000]);
    let content = &whole[20..];
    let fragment = |offset: usize, end: usize| {
        let part = Ipv4 {
            identification: 5,
            offset: offset as u16,
            has_more: end < content.len(),
            may_fragment: true,
            ..super::send::ipv4(OTHER, OWN, UDP, &content[offset..end])
        };
        let mut packet = vec![0; 1500];
        let length = part.write(&mut packet).expect("fits");
        packet.truncate(length);
        packet
    };
    assert!(!lan.receive(Kind::Ipv4, &fragment(1480, content.len())));
    assert!(lan.receive(Kind::Ipv4, &fragment(0, 1480)));
    assert!(!lan.receive(Kind::Ipv4, &fragment(0, 1480)), "another packet's");
    lan.receive(Kind::Arp, &Arp::request(PEER, OTHER, OWN).bytes());
    lan.take();
    lan.pass(61_000);
    let sent = lan.take();
    let told = sent.iter().filter(|(to, kind, packet)| (*to, *kind) == (PEER, Kind::Ipv4) && packet[20..22] == [11, 1]);
    assert_eq!(told.count(), 1, "{sent:?}");
}

#[test]
fn errors_are_for_upper_layers_to_judge() {
    let mut lan = Lan::settled();
    let quoted = udp(OWN.into(), OTHER.into(), 53, &[0; 1400]);
    let mut message = vec![3, 4, 0, 0, 0, 0, 5, 0];
    message.extend(&quoted[..28]);
    let sum = culm_packet::checksum::Sum::ZERO.add_bytes(&message).checksum();
    message[2..4].copy_from_slice(&sum.to_be_bytes());
    let mut packet = vec![0; 200];
    let length = super::send::ipv4(ROUTER, OWN, 1, &message).write(&mut packet).expect("fits");
    let frame = Frame {
        from: PEER,
        was_for_all: false,
        kind: Kind::Ipv4,
        packet: &packet[..length],
        checksum: Checksum::Unknown,
    };
    let received = lan.host.receive(&frame, &|_, _| false, lan.now, &mut lan.sent);
    let Received::Error(Report::TooBig(1280), quoted) = received else { panic!("{received:?}") };
    let told = TooBig { destination: quoted.destination, length: quoted.length, mtu: 1280 };
    assert_eq!(lan.host.limit(OTHER.into(), lan.now).mtu, 1500);
    lan.host.too_big(told, lan.now, || true);
    assert_eq!(lan.host.limit(OTHER.into(), lan.now).mtu, 1280);
    let to = SocketAddr::new(OTHER.into(), 53);
    let result = lan.host.send_datagram(4000, to, &[0; 1300], lan.now, &mut lan.sent);
    assert_eq!(result, Err(Unsent::TooLong));
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    /// Whatever comes, the host goes on, and answers a neighbour's question for its address.
    #[test]
    fn nothing_that_comes_is_a_panic(
        frames in prop::collection::vec(
            (0..6_usize, prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 0..5), 0_u64..3000), 0..60,
        ),
    ) {
        let mut lan = Lan::fixed();
        for (choice, changes, passed) in frames {
            let (kind, mut packet) = match choice {
                0 => (Kind::Arp, Arp::request(PEER, OTHER, OWN).bytes().to_vec()),
                1 => (Kind::Ipv4, udp(OTHER.into(), OWN.into(), 8, &[1; 40])),
                2 => (Kind::Ipv6, udp(OTHER_6.into(), OWN_6.into(), 8, &[1; 40])),
                3 => (Kind::Ipv6, {
                    let mut packet = udp(OTHER_6.into(), OWN_6.into(), 8, &[134; 40]);
                    (packet[6], packet[7]) = (58, 255);
                    packet
                }),
                4 => (Kind::Ipv4, {
                    let mut packet = udp(OTHER.into(), OWN.into(), 68, &[2; 300]);
                    packet[9] = 1;
                    packet
                }),
                _ => (Kind::Ipv6, vec![0x60; 90]),
            };
            for (index, byte) in changes {
                let place = index.index(packet.len());
                packet[place] = byte;
            }
            lan.receive_from(PEER, passed % 2 == 0, kind, &packet);
            let _ = lan.host.send_datagram(9, SocketAddr::new(OTHER.into(), 9), b"x", lan.now, &mut lan.sent);
            lan.pass(passed);
        }
        lan.take();
        lan.receive(Kind::Arp, &Arp::request(PEER, OTHER, OWN).bytes());
        prop_assert!(lan.take().iter().any(|(to, kind, _)| (*to, *kind) == (PEER, Kind::Arp)));
    }
}
