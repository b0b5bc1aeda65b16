//! What becomes of packets: of those that belong to something, and of those that somebody has
//! thought up.

use super::*;
use culm_flow::{Transport, flags};
use culm_ip::neighbour::{LONGEST, discovery};
use culm_net::header::segmentation::{TCP_4, TCP_6};
use proptest::prelude::*;

const HOST: &str = "10.0.1.7";
const PEER: &str = "198.51.100.9";

#[test]
fn answers_come_back_to_who_has_asked() {
    let mut world = World::new();
    let (asked, _) = world.passes(INNER, &udp((HOST, 1000), (PEER, 53), 10), OUTER);
    let (port, _) = asked.transport.ports().expect("it has ports");
    assert!((40000..41000).contains(&port), "{port}");
    assert_eq!((asked.source, asked.hops), (address("192.0.2.2"), 63));
    let (answer, bytes) = world.passes(OUTER, &udp((PEER, 53), ("192.0.2.2", port), 20), INNER);
    assert_eq!(show(&answer), "198.51.100.9 53 10.0.1.7 1000");
    assert_eq!(bytes.len(), 48);
    // Somebody else who sends there is of no flow, and the rules let nobody in.
    assert_eq!(world.drops(OUTER, &udp(("198.51.100.10", 53), ("192.0.2.2", port), 20)).denied, 1);
}

#[test]
fn ipv6_passes_as_it_is() {
    let mut world = World::with("default deny\nallow in inner out outer\nallow in inner out self\n", 1500);
    // Its gateway's neighbours are asked for by discovery, which this world's do not answer.
    let left = world.pass(INNER, &ping("2001:db8:1::7", "2001:db8::9", 8));
    let [(OUTER, question)] = left.as_slice() else { panic!("{left:02x?}") };
    assert_eq!((question[6], question[40]), (ICMP6, 135));
    let (answer, _) = world.passes(INNER, &ping("2001:db8:1::7", "2001:db8:1::1", 8), INNER);
    assert_eq!(answer.transport, Transport::Echo { is_request: false, identifier: 0x1234 });
}

#[test]
fn ports_are_forwarded_from_both_sides() {
    let mut world = World::new();
    let syn = tcp((PEER, 999), ("192.0.2.2", 8080), flags::SYN, [5, 0]);
    let (first, _) = world.passes(OUTER, &syn, INNER);
    assert_eq!(show(&first), "198.51.100.9 999 10.0.1.5 80");
    let answer = tcp(("10.0.1.5", 80), (PEER, 999), flags::SYN | flags::ACK, [77, 6]);
    let (second, _) = world.passes(INNER, &answer, OUTER);
    assert_eq!(show(&second), "192.0.2.2 8080 198.51.100.9 999");
    // A host inside is seen from outside there, so that its answers come by way of the router.
    let syn = tcp((HOST, 999), ("192.0.2.2", 8080), flags::SYN, [5, 0]);
    let (hairpin, _) = world.passes(INNER, &syn, INNER);
    let (port, _) = hairpin.transport.ports().expect("it has ports");
    assert_eq!((hairpin.source, hairpin.destination), (address("192.0.2.2"), address("10.0.1.5")));
    let answer = tcp(("10.0.1.5", 80), ("192.0.2.2", port), flags::SYN | flags::ACK, [77, 6]);
    let (back, _) = world.passes(INNER, &answer, INNER);
    assert_eq!(show(&back), "192.0.2.2 8080 10.0.1.7 999");
}

#[test]
fn flows_go_on_in_the_next_life() {
    let mut world = World::new();
    let (asked, _) = world.passes(INNER, &udp((HOST, 1000), (PEER, 53), 10), OUTER);
    let (port, _) = asked.transport.ports().expect("it has ports");
    let mut world = world.reborn();
    assert_eq!(world.kept, 1);
    let (answer, _) = world.passes(OUTER, &udp((PEER, 53), ("192.0.2.2", port), 20), INNER);
    assert_eq!(show(&answer), "198.51.100.9 53 10.0.1.7 1000");
}

#[test]
fn nobody_sends_in_the_place_of_another() {
    let mut world = World::new();
    for (network, from, to) in [
        (OUTER, HOST, PEER),
        (INNER, PEER, "198.51.100.10"),
        (OUTER, "127.0.0.1", HOST),
        (OUTER, "224.0.0.1", HOST),
        (OUTER, "10.0.1.255", HOST),
        (OUTER, "192.0.2.2", HOST),
        (INNER, "10.0.1.1", PEER),
        (INNER, HOST, HOST),
    ] {
        assert_eq!(world.drops(network, &udp((from, 1), (to, 2), 0)).spoofed, 1, "{from} {to}");
    }
    for to in ["224.0.0.1", "10.0.1.255", "255.255.255.255", "127.0.0.1"] {
        assert_eq!(world.drops(OUTER, &udp((PEER, 1), (to, 2), 0)).stray, 1, "{to}");
    }
    // Nor as the end of a flow that is there.
    world.passes(INNER, &udp((HOST, 1000), (PEER, 53), 10), OUTER);
    assert_eq!(world.drops(OUTER, &udp((HOST, 1000), (PEER, 53), 10)).spoofed, 1);
}

#[test]
fn senders_are_told() {
    let mut world = World::new();
    let late = change(udp((HOST, 1000), (PEER, 53), 10), 8, 1);
    let (error, bytes) = world.passes(INNER, &late, INNER);
    assert_eq!((error.source, error.destination), (address("10.0.1.1"), address(HOST)));
    assert_eq!(bytes[20..22], [11, 0]);
    // A rule that rejects says so in the way of the protocol.
    let (reset, _) = world.passes(OUTER, &tcp((PEER, 9), ("10.0.1.6", 22), flags::SYN, [5, 0]), OUTER);
    let Transport::Tcp(segment) = reset.transport else { panic!("{reset:?}") };
    assert_eq!((segment.flags, segment.acknowledgement), (flags::RST | flags::ACK, 6));
    let (_, bytes) = world.passes(OUTER, &udp((PEER, 9), ("10.0.1.6", 22), 0), OUTER);
    assert_eq!(bytes[20..22], [3, 13]);
}

#[test]
fn a_narrow_network_has_its_packets_cut_or_refused() {
    let mut world = World::with(RULES, 1280);
    let long = udp((HOST, 1000), (PEER, 53), 1400);
    let (_, error) = world.passes(INNER, &long, INNER);
    assert_eq!(error[20..28], [3, 4, error[22], error[23], 0, 0, 5, 0]);
    // Where its sender allows it, it is divided.
    let left = world.pass(INNER, &change(long, 6, 0));
    let parts: Vec<Packet> = left.iter().map(|(_, bytes)| Packet::read(bytes).expect("a packet")).collect();
    let places: Vec<_> = parts.iter().filter_map(|part| part.fragment).map(|part| (part.offset, part.more)).collect();
    assert_eq!(places, [(0, true), (1256, false)]);
    assert!(parts.iter().all(|part| part.length <= 1280));
    // A connection learns at its beginning.
    let (_, syn) = world.passes(INNER, &tcp((HOST, 999), (PEER, 80), flags::SYN, [5, 0]), OUTER);
    assert_eq!(syn[40..44], [2, 4, 0x04, 0xd8]);
}

#[test]
fn errors_about_a_flow_come_back_through_nat() {
    let mut world = World::new();
    let (_, sent) = world.passes(INNER, &udp((HOST, 1000), (PEER, 53), 10), OUTER);
    let mut message = vec![3, 4, 0, 0, 0, 0, 5, 0];
    message.extend(&sent[..28]);
    let error = packet("203.0.113.1", "192.0.2.2", ICMP, message, Some(2));
    let (told, bytes) = world.passes(OUTER, &error, INNER);
    assert_eq!((told.source, told.destination), (address("203.0.113.1"), address(HOST)));
    let Transport::Error(quoted) = told.transport else { panic!("{told:?}") };
    assert_eq!((quoted.tuple.source, quoted.tuple.source_port), (address(HOST), 1000));
    assert_eq!(bytes[26..28], [5, 0]);
}

#[test]
fn one_source_has_its_share_of_flows_and_no_more() {
    let mut world = World::new();
    world.passes(INNER, &udp(("10.0.1.8", 1000), (PEER, 53), 10), OUTER);
    for port in 1000..1200 {
        world.passes(INNER, &udp((HOST, port), (PEER, 53), 10), OUTER);
    }
    let tally = world.router.tally();
    assert_eq!((tally.begun, tally.made_way), (201, 168));
    world.passes(INNER, &udp(("10.0.1.8", 1000), (PEER, 53), 10), OUTER);
    assert_eq!(world.router.tally().begun, 0, "the other's flow is still there");
}

#[test]
fn nat_makes_way_in_a_full_table() {
    let mut world = World::new();
    for host in ["10.0.1.8", "10.0.1.9"] {
        for port in 1000..1032 {
            world.passes(INNER, &udp((host, port), (PEER, 53), 10), OUTER);
        }
    }
    // All places are taken, each with a port of its own.
    world.passes(INNER, &udp((HOST, 1000), (PEER, 53), 10), OUTER);
    let tally = world.router.tally();
    assert_eq!((tally.begun, tally.made_way, tally.congestion), (65, 1, 0));
}

#[test]
fn ports_of_nat_come_back_when_their_flows_have_had_their_time() {
    let mut world =
        World::with("default deny\nallow in inner out outer\nnat out outer to own ports 40000-40007\n", 1500);
    for port in 1000..1008 {
        world.passes(INNER, &udp((HOST, port), (PEER, 53), 10), OUTER);
    }
    assert_eq!(world.drops(INNER, &udp(("10.0.1.8", 1000), (PEER, 53), 10)).congestion, 1);
    world.now = world.now + core::time::Duration::from_secs(600);
    world.router.begin(world.now, &mut Sent::default());
    world.passes(INNER, &udp(("10.0.1.8", 1000), (PEER, 53), 10), OUTER);
}

#[test]
fn who_has_its_share_gets_a_port_of_its_own() {
    // As many ports as one source may have flows.
    let mut world =
        World::with("default deny\nallow in inner out outer\nnat out outer to own ports 40000-40031\n", 1500);
    for port in 1000..1040 {
        world.passes(INNER, &udp((HOST, port), (PEER, 53), 10), OUTER);
    }
    assert_eq!(world.router.tally().congestion, 0);
}

#[test]
fn errors_come_in_nobody_elses_name() {
    let mut world = World::with("default deny\nallow in inner out outer\n", 1500);
    let (_, sent) = world.passes(INNER, &udp((HOST, 1000), (PEER, 53), 10), OUTER);
    let mut message = vec![3, 4, 0, 0, 0, 0, 5, 0];
    message.extend(&sent[..28]);
    for from in ["10.0.1.5", "127.0.0.1", "224.0.0.1", "10.0.1.255"] {
        let error = packet(from, HOST, ICMP, message.clone(), Some(2));
        assert_eq!(world.drops(OUTER, &error).spoofed, 1, "{from}");
    }
    world.passes(OUTER, &packet("203.0.113.1", HOST, ICMP, message, Some(2)), INNER);
}

#[test]
fn nobody_spoils_the_fragments_of_another() {
    let mut world = World::new();
    let whole = udp((HOST, 1000), (PEER, 53), 64);
    let first = change(change(whole[..60].to_vec(), 3, 60), 6, 0x20);
    // Somebody outside sends its first fragment in its name, with other ports.
    let mut other = first.clone();
    other[21] ^= 1;
    assert_eq!(world.drops(OUTER, &other).spoofed, 1);
    world.passes(INNER, &first, OUTER);
}

#[test]
fn segments_that_may_be_divided_fit_a_narrow_network() {
    let mut world = World::with(RULES, 1280);
    world.pass(INNER, &udp((HOST, 1001), (PEER, 53), 0));
    let mut bytes = tcp((HOST, 999), (PEER, 80), flags::SYN, [5, 0]);
    bytes.extend(vec![7; 2800]);
    let total = (bytes.len() as u16).to_be_bytes();
    // Routers may divide it.
    let bytes = change(change(change(bytes, 2, total[0]), 3, total[1]), 6, 0);
    let header = PacketHeader { flags: 1, segmentation: 1, segment_size: 1400, ..PacketHeader::default() };
    let mut sent = Sent::default();
    world.router.take_with(INNER, header, &frame(link(INNER), neighbour(INNER), &bytes), &mut sent);
    let lengths: Vec<_> = sent.0.iter().map(|(_, frame)| frame.len() - ETHERNET_HEADER).collect();
    assert_eq!(lengths, [1280, 1280, 372]);
}

/// Cards that divide packets of one kind of segmentation, and keep the length of each frame that is
/// sent, with what they are to do with it.
struct Dividing {
    kind: u8,
    sent: Vec<(usize, u8)>,
}

impl Cards for Dividing {
    type Room<'a> = Written<'a>;

    fn room(&mut self, _: usize, length: usize) -> Option<Written<'_>> {
        Written::new(length, true, move |header, _| self.sent.push((length, header.segmentation)))
    }

    fn send_segments(&mut self, _: usize, length: usize, kind: u8, _: u16, write: impl FnOnce(&mut [u8])) -> bool {
        write(&mut vec![0; length]);
        self.sent.push((length, kind));
        true
    }

    fn divides(&mut self, _: usize, kind: u8) -> bool {
        kind == self.kind
    }

    fn offloads_checksum(&mut self, _: usize) -> bool {
        true
    }
}

/// A packet of many segments is left to a card that divides TCP over its version of IP, and divided
/// here for any other.
#[test]
fn segments_are_left_to_a_card_that_divides_their_kind() {
    const SEGMENT: usize = 1000;
    for (divides, kind) in [(TCP_4, TCP_4), (TCP_4, TCP_6), (TCP_6, TCP_4), (TCP_6, TCP_6)] {
        let mut world = World::with("default deny\nallow in inner out outer\n", 1500);
        let mut bytes = if kind == TCP_4 {
            world.pass(INNER, &udp((HOST, 1001), (PEER, 53), 0));
            tcp((HOST, 999), (PEER, 80), flags::SYN, [5, 0])
        } else {
            // The gateway asks for the router, which knows it then.
            let (source, target) = (Ipv6Addr::new(0xfe80, 0, 0, 0, 0, 0, 0, 1), "2001:db8::2".parse().expect("one"));
            let mut question = [0; LONGEST];
            let length = discovery::question(source, neighbour(OUTER), target, Some(link(OUTER))).write(&mut question);
            world.pass(OUTER, &question[..length.expect("it fits")]);
            tcp(("2001:db8:1::7", 999), ("2001:db8:9::9", 80), flags::SYN, [5, 0])
        };
        let headers = ETHERNET_HEADER + bytes.len();
        bytes.extend([7; 2 * SEGMENT]);
        if kind == TCP_4 {
            let total = (bytes.len() as u16).to_be_bytes();
            bytes = change(change(bytes, 2, total[0]), 3, total[1]);
        } else {
            let payload = (bytes.len() as u16 - 40).to_be_bytes();
            bytes[4..6].copy_from_slice(&payload);
        }
        let header =
            PacketHeader { flags: 1, segmentation: kind, segment_size: SEGMENT as u16, ..PacketHeader::default() };
        let mut cards = Dividing { kind: divides, sent: vec![] };
        world.router.take_with(INNER, header, &frame(link(INNER), neighbour(INNER), &bytes), &mut cards);
        let expected =
            if divides == kind { vec![(headers + 2 * SEGMENT, kind)] } else { vec![(headers + SEGMENT, 0); 2] };
        assert_eq!(cards.sent, expected, "{divides} {kind}");
    }
}

proptest! {
    #[test]
    fn whatever_comes_nothing_breaks(
        packets in prop::collection::vec((any::<bool>(), 0_usize..6, any::<[(u8, u8); 4]>(), 0_usize..80), 1..40),
    ) {
        let mut world = World::new();
        for (is_outer, which, changes, length) in packets {
            let mut bytes = match which {
                0 => udp((HOST, 1000), (PEER, 53), 30),
                1 => tcp((HOST, 999), (PEER, 80), flags::SYN, [5, 0]),
                2 => ping("2001:db8:1::7", "2001:db8::9", 8),
                3 => ping(HOST, "10.0.1.1", 30),
                4 => udp((PEER, 53), ("192.0.2.2", 40_000), 30),
                _ => vec![length as u8; length],
            };
            for (at, value) in changes {
                let at = usize::from(at) % bytes.len().max(1);
                if let Some(byte) = bytes.get_mut(at) {
                    *byte = value;
                }
            }
            if bytes.len() >= 20 && bytes[0] >> 4 == 4 {
                bytes = change(bytes, 1, 0);
            }
            bytes.truncate(bytes.len() - length.min(bytes.len() / 3));
            let network = if is_outer { OUTER } else { INNER };
            let mut sent = Sent::default();
            world.router.take_with(network, PacketHeader::default(), &frame(link(network), neighbour(network), &bytes), &mut sent);
            world.now = Instant(world.now.0 + 500_000);
            world.router.begin(world.now, &mut sent);
            for (_, frame) in sent.0.iter().filter(|(_, frame)| frame[12..14] == [8, 0]) {
                prop_assert!(Packet::read(&frame[ETHERNET_HEADER..]).is_ok());
            }
        }
    }

    #[test]
    fn no_packet_header_breaks_anything(
        length in 0_usize..3000, segmentation: u8, size in 0_u16..3000, flags in 0_u8..4, start: u16, offset in 0_u16..100,
        which in 0_u8..3,
    ) {
        let mut world = World::new();
        let mut bytes = match which {
            0 => udp((HOST, 1000), (PEER, 53), length),
            1 => tcp((HOST, 999), (PEER, 80), flags::SYN, [5, 0]),
            _ => ping(HOST, PEER, length),
        };
        if which == 1 {
            bytes.extend(vec![7; length]);
            let total = (bytes.len() as u16).to_be_bytes();
            bytes = change(change(bytes, 2, total[0]), 3, total[1]);
        }
        let header = PacketHeader {
            flags,
            segmentation: segmentation % 6,
            segment_size: size,
            checksum_start: start % 200,
            checksum_offset: offset,
            ..PacketHeader::default()
        };
        let mut sent = Sent::default();
        let frame = frame(link(INNER), neighbour(INNER), &bytes);
        // The gateway answers who it is before.
        world.pass(INNER, &udp((HOST, 1001), (PEER, 53), 0));
        world.router.take_with(INNER, header, &frame, &mut sent);
        for (_, frame) in &sent.0 {
            prop_assert!(Packet::read(&frame[ETHERNET_HEADER..]).is_ok() || flags & 1 != 0);
        }
    }
}
