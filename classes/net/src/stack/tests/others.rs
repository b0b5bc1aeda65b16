//! What the host does besides answering to where frames came from: its neighbours, fragments, and
//! routers' words about paths.

use super::lan::{ADDRESS, ADDRESS_6, HOST, HOST_6, HOST_MAC, Lan, MAC};
use super::station::{ACK, SYN, Station};
use super::udp_socket;
use crate::Mac;
use crate::checksum;
use crate::stack::Unsent;
use crate::stack::host::rebuild;
use core::net::{IpAddr, Ipv6Addr, SocketAddr};
use culm_ip::LinkAddress;
use culm_ip::host::Payload;
use smoltcp::socket::{tcp, udp};
use std::vec::Vec;

/// A frame of IPv4 from the host to the stack, whose header's checksum is made.
fn frame(protocol: u8, place: u16, payload: &[u8]) -> Vec<u8> {
    let mut frame = [MAC, HOST_MAC].concat();
    frame.extend([8, 0, 0x45, 0]);
    frame.extend((20 + payload.len() as u16).to_be_bytes());
    frame.extend([0, 9]);
    frame.extend(place.to_be_bytes());
    frame.extend([64, protocol, 0, 0, 10, 0, 0, 2, 10, 0, 0, 1]);
    let sum = !checksum::Sum::ZERO.add_bytes(&frame[14..34]).fold();
    frame[24..26].copy_from_slice(&sum.to_le_bytes());
    frame.extend(payload);
    frame
}

#[test]
fn the_application_sends_datagrams_of_its_own_accord() {
    for (host, own) in [(HOST, ADDRESS), (HOST_6, ADDRESS_6)] {
        let mut lan = Lan::fixed(0);
        let handle = lan.add(udp_socket(999));
        let to = SocketAddr::new(host.into(), 999);
        for question in [&b"one"[..], b"two"] {
            assert_eq!(lan.stack.send_to(7, to, question), Ok(()));
        }
        lan.pass(5);
        for question in [&b"one"[..], b"two"] {
            let socket = lan.sockets.get_mut::<udp::Socket<'_>>(handle);
            let (content, from) = socket.recv().expect("a datagram");
            assert_eq!((content, from.endpoint.addr, from.endpoint.port), (question, own, 7));
        }
    }
    let mut lan = Lan::fixed(0);
    let nowhere = SocketAddr::new(IpAddr::from([192, 0, 2, 1]), 53);
    assert_eq!(lan.stack.send_to(7, nowhere, b"question"), Err(Unsent::NoRoute));
    let near = SocketAddr::new(HOST.into(), 53);
    assert_eq!(lan.stack.send_to(7, near, &[0; 1473]), Err(Unsent::TooLong));
}

#[test]
fn who_sends_without_end_is_told_when_buffers_run_out() {
    let mut lan = Lan::fixed(0);
    let handle = lan.add(udp_socket(999));
    let to = SocketAddr::new(HOST.into(), 999);
    assert_eq!(lan.stack.send_to(7, to, b"first"), Ok(()));
    lan.pass(5);
    lan.sockets.get_mut::<udp::Socket<'_>>(handle).recv().expect("a datagram");
    lan.gives_back = false;
    lan.seen.clear();
    for _ in 0..2 {
        let mut count = 0;
        while lan.stack.can_send() {
            assert_eq!(lan.stack.send_to(7, to, b"more"), Ok(()));
            count += 1;
            assert!(count < 1000, "there are not so many buffers");
        }
        lan.step();
        assert!(count > 10, "there are more buffers");
        assert_eq!(lan.seen.len(), count, "what was sent has left");
        lan.gives_back = true;
        lan.step();
        lan.seen.clear();
    }
}

/// What is longer than any packet that is put together from fragments finds no memory, and none is
/// taken.
#[test]
fn a_frame_is_made_anew_in_the_memory_that_there_is() {
    let mut frame = Vec::with_capacity(100);
    let space = frame.capacity();
    for (length, fits) in [(space - 54, true), (space - 53, false), (60_000, false)] {
        let payload = Payload {
            source: HOST.into(),
            destination: ADDRESS.into(),
            protocol: 6,
            payload: &std::vec![0; length],
            from: LinkAddress(HOST_MAC),
            came_whole: true,
            is_marked: false,
        };
        assert_eq!(rebuild(&mut frame, &payload, Mac::new(MAC)), fits, "{length}");
        assert_eq!(frame.capacity(), space);
    }
}

#[test]
fn a_datagram_in_fragments_is_answered() {
    let mut lan = Lan::fixed(0);
    lan.stack.bind(7);
    let mut datagram = Vec::from([3, 231, 0, 7, 0, 32, 0, 0]);
    datagram.extend(b"twenty-four bytes of it.");
    lan.wire.to_stack.push_back(frame(17, 2, &datagram[16..]));
    lan.wire.to_stack.push_back(frame(17, 0x2000, &datagram[..16]));
    lan.pass(2);
    let is_answer = |frame: &Vec<u8>| frame[..6] == HOST_MAC && frame[34..38] == [0, 7, 3, 231];
    let answer = lan.seen.iter().find(|frame| is_answer(frame)).expect("an answer");
    assert_eq!(answer[42..66], datagram[8..]);
}

/// A segment that comes in fragments is the connection's like any other.
#[test]
fn a_segment_in_fragments_is_received() {
    let mut lan = Lan::fixed(4);
    lan.stack.listen(80);
    let mut station = Station { mac: HOST_MAC, address: [10, 0, 0, 2], ..Station::new(0) };
    station.open(&mut lan);
    let whole = station.segment(ACK, b"in two pieces");
    station.next += 13;
    lan.wire.to_stack.push_back(frame(6, 0x2000, &whole[34..58]));
    lan.wire.to_stack.push_back(frame(6, 3, &whole[58..]));
    lan.pass(5);
    let answer: Vec<u8> = station.receive(&mut lan).into_iter().flat_map(|(_, payload)| payload).collect();
    assert_eq!(answer, b"in two pieces");
}

/// An answer that is too big for a link on its way: the router says so (RFC 1191).
fn too_big(quoted: &[u8], mtu: u16) -> Vec<u8> {
    let mut message = Vec::from([3, 4, 0, 0, 0, 0]);
    message.extend(mtu.to_be_bytes());
    message.extend(&quoted[14..42]);
    let sum = !checksum::Sum::ZERO.add_bytes(&message).fold();
    message[2..4].copy_from_slice(&sum.to_le_bytes());
    frame(1, 0, &message)
}

#[test]
fn a_narrow_path_is_believed_of_what_is_on_the_way() {
    let mut lan = Lan::fixed(4);
    lan.server = super::fill_and_finish;
    lan.stack.listen(80);
    let mut station = Station::new(0);
    // It offers segments of 1,460 bytes (RFC 9293 §3.7.1).
    let mut syn = station.segment(SYN, &[2, 4, 5, 0xb4]);
    syn[46] = 0x60;
    checksum::complete(&mut syn);
    station.next += 1;
    lan.wire.to_stack.push_back(syn);
    lan.pass(2);
    assert_eq!(station.receive(&mut lan).len(), 1);
    station.send(&mut lan, ACK, b"");
    station.send(&mut lan, ACK, b"request");
    lan.pass(2);
    let longest = |lan: &Lan| lan.seen.iter().map(Vec::len).max().unwrap_or(0);
    let sent = lan.seen.iter().find(|frame| frame.len() > 500).expect("a segment").clone();
    assert_eq!(longest(&lan), 14 + 1500);
    let mut forged = sent.clone();
    forged[38] ^= 0x40;
    for (quoted, expected) in [(forged, 14 + 1500), (sent, 14 + 1280)] {
        lan.seen.clear();
        lan.wire.to_stack.push_back(too_big(&quoted, 1280));
        lan.pass(2500);
        assert_eq!(longest(&lan), expected);
    }
}

#[test]
fn another_station_with_the_address_is_told_of_and_withstood() {
    let mut lan = Lan::fixed(0);
    lan.pass(3000);
    lan.seen.clear();
    let other = LinkAddress([2, 0, 0, 0, 0, 9]);
    let claim = culm_ip::neighbour::arp::Arp::announcement(other, [10, 0, 0, 1].into());
    lan.wire.to_stack.push_back([&[0xff; 6][..], &other.0, &[8, 6], &claim.bytes()].concat());
    lan.pass(5);
    let own = culm_ip::neighbour::arp::Arp::announcement(LinkAddress(MAC), [10, 0, 0, 1].into());
    assert!(lan.seen.iter().any(|frame| frame[14..] == own.bytes()));
    assert!(lan.stack.addresses().iter().any(|own| ADDRESS == own.address().into()));
}

/// A frame of IPv6 from the host to the stack, whose payload has its checksum at `place`.
fn frame_6(to: [u8; 6], ends: [Ipv6Addr; 2], protocol: u8, place: usize, payload: &[u8]) -> Vec<u8> {
    let length = (payload.len() as u16).to_be_bytes();
    let addresses = ends.map(|end| end.octets()).concat();
    let pseudo = [&addresses, &[0, 0][..], &length, &[0, 0, 0, protocol], payload].concat();
    let sum = !checksum::Sum::ZERO.add_bytes(&pseudo).fold();
    let mut frame = [&to[..], &HOST_MAC, &[0x86, 0xdd, 0x60, 0, 0, 0], &length, &[protocol, 255], &addresses].concat();
    frame.extend(payload);
    frame[54 + place..56 + place].copy_from_slice(&sum.to_le_bytes());
    frame
}

/// Whoever advertises networks first must not keep the stack from being reached by others.
#[test]
fn datagrams_are_answered_at_each_of_many_addresses() {
    let router = Ipv6Addr::new(0xfe80, 0, 0, 0, 0, 0, 0, 9);
    let all_nodes = Ipv6Addr::new(0xff02, 0, 0, 0, 0, 0, 0, 1);
    let mut lan = Lan::fixed(0);
    lan.stack.bind(7);
    let mut advertisement = Vec::from([134, 0, 0, 0, 64, 0, 0x07, 0x08, 0, 0, 0, 0, 0, 0, 0, 0]);
    for network in 0..8_u16 {
        advertisement.extend([3, 4, 64, 0xc0, 0, 1, 0, 0, 0, 1, 0, 0, 0, 0, 0, 0]);
        advertisement.extend(Ipv6Addr::new(0x2001, 0xdb8, network, 0, 0, 0, 0, 0).octets());
    }
    lan.wire.to_stack.push_back(frame_6([0x33, 0x33, 0, 0, 0, 1], [router, all_nodes], 58, 2, &advertisement));
    lan.pass(2500);
    let own = lan.stack.addresses().iter().filter_map(|own| match own.address() {
        IpAddr::V6(address) => Some(address),
        IpAddr::V4(_) => None,
    });
    let own: Vec<Ipv6Addr> = own.collect();
    assert_eq!(own.len(), 9);
    for address in own {
        lan.seen.clear();
        let question = [3, 231, 0, 7, 0, 10, 0, 0, b'h', b'i'];
        lan.wire.to_stack.push_back(frame_6(MAC, [router, address], 17, 6, &question));
        lan.pass(2);
        let is_answer = |frame: &Vec<u8>| frame[12..14] == [0x86, 0xdd] && frame[54..58] == [0, 7, 3, 231];
        assert!(lan.seen.iter().any(is_answer), "{address}");
    }
}

/// Lets a router say the hop limit 37.
fn say_hop_limit(lan: &mut Lan) {
    let (router, all_nodes) = (Ipv6Addr::new(0xfe80, 0, 0, 0, 0, 0, 0, 9), Ipv6Addr::new(0xff02, 0, 0, 0, 0, 0, 0, 1));
    lan.pass(3000);
    let told = [134, 0, 0, 0, 37, 0, 0x07, 0x08, 0, 0, 0, 0, 0, 0, 0, 0];
    lan.wire.to_stack.push_back(frame_6([0x33, 0x33, 0, 0, 0, 1], [router, all_nodes], 58, 2, &told));
    lan.pass(5);
    lan.seen.clear();
}

/// RFC 4861 §6.3.4: packets begin with the hop limit that a router says, those of connections too,
/// whoever opens them.
#[test]
fn connections_begin_with_the_hop_limit_that_a_router_says() {
    let mut lan = Lan::fixed(4);
    lan.stack.listen(80);
    say_hop_limit(&mut lan);
    let handle = lan.connect(ADDRESS_6, 50_001);
    let IpAddr::V6(host) = HOST_6.into() else { panic!("it is of IPv6") };
    lan.stack.connect((host, 7).into()).expect("there is a place");
    lan.pass(30);
    assert_eq!(lan.socket(handle).state(), tcp::State::Established);
    let of_tcp = |frame: &&Vec<u8>| frame[12..14] == [0x86, 0xdd] && frame[20] == 6;
    let mut said: Vec<_> = lan.seen.iter().filter(of_tcp).map(|frame| (frame[67] & (SYN | ACK), frame[21])).collect();
    said.sort_unstable();
    assert_eq!(said, [(SYN, 37), (SYN | ACK, 37)]);
}

/// RFC 4861 §6.3.4, of answers: of a bound port, to a ping, and that a port is not bound. It holds
/// when addresses change too.
#[test]
fn answers_begin_with_the_hop_limit_that_a_router_says() {
    let (IpAddr::V6(host), IpAddr::V6(own)) = (HOST_6.into(), ADDRESS_6.into()) else { panic!("they are of IPv6") };
    let mut lan = Lan::fixed(0);
    lan.stack.bind(7);
    say_hop_limit(&mut lan);
    for other in [false, true] {
        for (protocol, place, question, answer) in [
            (17, 6, &[3, 231, 0, 7, 0, 10, 0, 0, b'h', b'i'][..], &[0, 7, 3, 231][..]),
            (58, 2, &[128, 0, 0, 0, 0, 1, 0, 1], &[129, 0]),
            (17, 6, &[3, 231, 0, 8, 0, 10, 0, 0, b'h', b'i'], &[1, 4]),
        ] {
            lan.seen.clear();
            lan.wire.to_stack.push_back(frame_6(MAC, [host, own], protocol, place, question));
            lan.pass(2);
            let is_answer = |frame: &&Vec<u8>| frame[12..14] == [0x86, 0xdd] && frame[54..].starts_with(answer);
            let said = lan.seen.iter().find(is_answer).expect("an answer")[21];
            assert_eq!(said, 37, "{answer:?}, addresses changed: {other}");
        }
        lan.stack.note_addresses();
    }
}
