//! Peers, stations and addresses that are no longer there, and what the application hears of that.

use super::lan::{HOST, HOST_MAC, Lan, echo};
use super::station::{ACK, Station};
use crate::checksum::Sum;
use crate::descriptor::flags::LINK_COUNT_SHIFT;
use crate::stack::{Ending, Event, KeepAlive, Stack};
use core::net::{IpAddr, SocketAddr};
use core::time::Duration;
use culm_ip::Cidr;
use smoltcp::socket::tcp;
use std::vec;
use std::vec::Vec;

/// Asks after two seconds, and gives up a second after the second question.
const SOON: KeepAlive = KeepAlive { idle: Duration::from_secs(2), interval: Duration::from_secs(1), questions: 2 };

/// Echoes, and has silent peers be asked.
fn careful(stack: &mut Stack, event: Event) {
    if let Event::Opened { slot, .. } = event
        && let Some(mut stream) = stack.stream(slot)
    {
        stream.keep_alive(Some(SOON));
    }
    echo(stack, event);
}

/// A stack that serves two places, and one open connection.
fn served(server: super::lan::Server) -> (Lan, Station) {
    let mut lan = Lan::fixed(2);
    lan.server = server;
    lan.stack.listen(80);
    let mut station = Station::new(0);
    station.open(&mut lan);
    (lan, station)
}

/// RFC 9293 §3.8.4: a peer that answers is kept, one that has vanished is not.
#[test]
fn a_vanished_peer_holds_no_place_for_ever() {
    let (mut lan, mut station) = served(careful);
    station.exchange(&mut lan, b"hello");
    lan.pass(2200);
    assert!(matches!(station.receive(&mut lan)[..], [(ACK, ref payload)] if payload.is_empty()), "it is asked");
    station.seen = station.seen.wrapping_add(1);
    station.send(&mut lan, ACK, b"");
    lan.pass(3000);
    assert_eq!(lan.open.len(), 1, "it has answered");
    lan.pass(2500);
    assert!(lan.open.is_empty());
}

/// RFC 9293 §3.8.4, MUST-25: nobody is asked unless the application wants it.
#[test]
fn no_peer_is_asked_of_itself() {
    let (mut lan, mut station) = served(echo);
    station.exchange(&mut lan, b"hello");
    lan.pass(30_000);
    assert!(station.receive(&mut lan).is_empty());
    assert_eq!(lan.open.len(), 1);
}

/// Leaves what happens on a connection to the test.
fn nothing(_: &mut Stack, _: Event) {}

fn client(places: usize) -> Lan {
    let mut lan = Lan::fixed(places);
    lan.server = nothing;
    lan.pass(3000);
    lan.seen.clear();
    lan
}

fn ending(lan: &mut Lan, slot: usize) -> Option<Ending> {
    lan.stack.stream(slot).expect("the application's").ending()
}

/// RFC 4861 §7.2.2: three questions in three seconds, and nobody is there.
#[test]
fn a_neighbour_that_is_not_there_ends_the_attempt() {
    let mut lan = client(2);
    let nobody = SocketAddr::new("10.0.0.77".parse().expect("an address"), 80);
    let slot = lan.stack.connect(nobody).expect("there is a way");
    lan.pass(2500);
    assert_eq!(ending(&mut lan, slot), None);
    let events = lan.events;
    lan.pass(1000);
    assert_eq!(ending(&mut lan, slot), Some(Ending::Unreachable));
    assert!(lan.events > events, "the application is told");
}

/// A link that comes up has neighbours asked for anew: of nobody is it known that he is not there.
#[test]
fn an_attempt_outlives_a_link_that_comes_up() {
    let mut lan = client(2);
    let nobody = SocketAddr::new("10.0.0.77".parse().expect("an address"), 80);
    let slot = lan.stack.connect(nobody).expect("there is a way");
    lan.pass(500);
    // The first frame that says so: for all, as a neighbour's question is.
    let mut frame = [&[0xff; 6][..], &HOST_MAC, &[8, 6]].concat();
    frame.resize(60, 0);
    lan.flags = 1 << LINK_COUNT_SHIFT;
    lan.wire.to_stack.push_back(frame);
    lan.pass(5);
    assert_eq!(ending(&mut lan, slot), None);
    // Its SYN is repeated after a second, and the neighbour asked for three times from then on.
    lan.pass(3000);
    assert_eq!(ending(&mut lan, slot), None);
    lan.pass(1500);
    assert_eq!(ending(&mut lan, slot), Some(Ending::Unreachable));
}

/// Of the places for neighbours, a quarter is for those that have not answered yet.
#[test]
fn an_attempt_outlives_those_that_have_its_neighbour_make_way() {
    let mut lan = client(20);
    let attempts = (100..117).map(|number| SocketAddr::new(IpAddr::from([10, 0, 0, number]), 80));
    let slots: Vec<_> = attempts.map(|peer| lan.stack.connect(peer).expect("there is a way")).collect();
    lan.pass(20);
    assert!(slots.iter().all(|slot| ending(&mut lan, *slot).is_none()));
}

/// The message of ICMP that `packet`, of IPv4, did not get there, from the station of the host.
fn icmp(packet: &[u8], code: u8) -> Vec<u8> {
    let mut message = vec![3, code, 0, 0, 0, 0, 0, 0];
    message.extend(&packet[..28]);
    let sum = !Sum::ZERO.add_bytes(&message).fold();
    message[2..4].copy_from_slice(&sum.to_le_bytes());
    let mut header = vec![0x45, 0, 0, (20 + message.len()) as u8, 0, 0, 0, 0, 64, 1, 0, 0, 10, 0, 0, 2, 10, 0, 0, 1];
    let sum = !Sum::ZERO.add_bytes(&header).fold();
    header[10..12].copy_from_slice(&sum.to_le_bytes());
    [&super::lan::MAC[..], &HOST_MAC, &[8, 0], &header, &message].concat()
}

/// RFC 9293 §3.9.2.2.
#[test]
fn a_router_s_word_ends_an_attempt_where_it_is_final_and_nothing_else() {
    for (code, ends) in [(1, false), (3, true)] {
        let mut lan = client(2);
        let slot = lan.stack.connect(SocketAddr::new(IpAddr::from(HOST), 80)).expect("there is a way");
        let syn = loop {
            lan.pass(1);
            let is_syn = |frame: &&Vec<u8>| frame[12..14] == [8, 0] && frame[23] == 6;
            if let Some(syn) = lan.seen.iter().find(is_syn).cloned() {
                break syn;
            }
        };
        // Before the host's own answer.
        lan.wire.to_stack.clear();
        lan.wire.to_host.clear();
        lan.wire.to_stack.push_back(icmp(&syn[14..], code));
        lan.pass(1);
        assert_eq!(ending(&mut lan, slot), ends.then_some(Ending::Unreachable), "{code}");
        assert!(ends || lan.stack.stream(slot).expect("the application's").is_unreachable());
    }
}

/// RFC 4861 §7.3.1: what TCP hears of a neighbour spares it questions.
#[test]
fn a_neighbour_in_use_by_tcp_is_not_asked() {
    for is_used in [true, false] {
        let mut lan = client(2);
        let buffer = || tcp::SocketBuffer::new(vec![0; 4096]);
        let mut socket = tcp::Socket::new(buffer(), buffer());
        socket.listen(80).expect("a free port");
        let handle = lan.add(socket);
        let host = SocketAddr::new(IpAddr::from(HOST), 80);
        let slot = lan.stack.connect(host).expect("there is a way");
        lan.pass(1500);
        lan.seen.clear();
        let mut asked = 0;
        for _ in 0..60 {
            // A datagram by way of the cache, and what the connection has acknowledged.
            let _ = lan.stack.send_to(9, SocketAddr::new(IpAddr::from(HOST), 9), b"hello");
            if is_used {
                assert_eq!(lan.stack.stream(slot).expect("its own").send(b"hello"), 5);
            }
            lan.pass(1000);
            let mut bytes = [0; 8];
            let _ = lan.socket(handle).recv_slice(&mut bytes);
            let is_question = |frame: &&Vec<u8>| frame[12..14] == [8, 6] && frame[20..22] == [0, 1];
            asked += lan.seen.iter().filter(is_question).count();
            lan.seen.clear();
        }
        assert_eq!(asked == 0, is_used, "{asked}");
    }
}

#[test]
fn a_lost_address_ends_its_connections() {
    let (mut lan, _) = served(nothing);
    let slot = *lan.open.first().expect("one is open");
    let own: Vec<_> = lan.stack.addresses().iter().copied().filter(|own| !own.address().is_ipv4()).collect();
    let other = Cidr::new(IpAddr::from([10, 0, 0, 9]), 24).expect("24 of 32");
    lan.stack.tcp.keep_to(&[&own[..], &[other]].concat());
    lan.seen.clear();
    lan.pass(5);
    assert_eq!(ending(&mut lan, slot), Some(Ending::AddressLost));
    assert!(lan.seen.is_empty(), "nobody is told from an address that is lost");
    lan.stack.release(slot);
    lan.pass(5);
    assert!(lan.open.is_empty());
}
