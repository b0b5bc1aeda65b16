//! Ports whose clients speak first.

use super::lan::{Lan, echo};
use super::station::{ACK, FIN, RST, SYN, Station, addressee, stamp};
use crate::stack::table::Phase;
use std::vec::Vec;

/// A stack with one place, whose clients speak first.
fn for_requests() -> Lan {
    let mut lan = Lan::fixed(1);
    lan.server = echo;
    lan.stack.listen_for_requests(80);
    lan
}

/// Where clients speak first there is no connection before that, and no place is taken, whatever
/// they wait for: so all of them are let in, and each is served when it speaks.
#[test]
fn clients_that_have_said_nothing_have_no_place() {
    let mut lan = for_requests();
    let mut stations: Vec<_> = (0..5).map(Station::new).collect();
    for station in &mut stations {
        station.open(&mut lan);
        // Once more, as the network may have it.
        station.send(&mut lan, ACK, b"");
        lan.pass(300);
        assert!(station.receive(&mut lan).is_empty());
    }
    // Nor later, when nobody remembers that they have asked.
    lan.pass(10_000);
    for station in &mut stations {
        station.send(&mut lan, ACK, b"");
        lan.pass(2);
        assert!(station.receive(&mut lan).is_empty());
    }
    assert_eq!((lan.stack.tcp.count(Phase::Free), lan.events, lan.stack.counts().opened), (1, 0, 0));
    for station in &mut stations {
        station.exchange(&mut lan, b"hello");
        station.exchange(&mut lan, b"hello again");
        station.send(&mut lan, ACK | FIN, b"");
        lan.pass(5);
        assert!(station.receive(&mut lan).iter().any(|(flags, _)| flags & FIN != 0));
        station.send(&mut lan, ACK, b"");
        lan.pass(5);
    }
    assert_eq!((lan.stack.tcp.count(Phase::Free), lan.stack.counts().opened), (1, 5));
    assert_eq!((lan.stack.counts().evicted, lan.stack.counts().resets), (0, 0));
}

/// One that ends without a word is answered by an end, and one that speaks too late by a reset.
#[test]
fn a_client_that_says_nothing_may_end_and_may_not_come_late() {
    let mut lan = for_requests();
    let mut station = Station::new(0);
    station.open(&mut lan);
    station.send(&mut lan, ACK | FIN, b"");
    lan.pass(5);
    assert!(station.receive(&mut lan).iter().any(|(flags, _)| flags & FIN != 0));
    station.send(&mut lan, ACK, b"");
    lan.pass(5);
    assert_eq!(lan.stack.tcp.count(Phase::Free), 1);
    let mut late = Station::new(1);
    late.open(&mut lan);
    lan.pass(70_000);
    late.send(&mut lan, ACK, b"hello");
    lan.pass(5);
    assert!(matches!(late.receive(&mut lan)[..], [(RST, _)]));
}

/// What comes besides a silent client's first words is not answered by a reset: the second segment
/// of its request before the first, and a question whether this side is there (RFC 9293 §3.8.4).
#[test]
fn a_silent_client_is_not_reset() {
    for pause in [10, 3000, 4100, 10_000, 30_000] {
        let mut lan = for_requests();
        let mut station = Station::new(0);
        station.open(&mut lan);
        lan.pass(pause);
        let before = Station { next: station.next - 1, ..station };
        let first = station.segment(ACK, b"hello");
        station.next += 5;
        let second = station.segment(ACK, b"world");
        for frame in [before.segment(ACK, b""), second] {
            lan.wire.to_stack.push_back(frame);
            lan.pass(2);
            assert!(station.receive(&mut lan).is_empty(), "after {pause} ms");
        }
        lan.wire.to_stack.push_back(first);
        lan.pass(5);
        assert!(station.receive(&mut lan).iter().any(|(_, payload)| payload == b"hello"), "after {pause} ms");
    }
}

/// RFC 6298 §2: a client that has thought for a while is no long way off. If the answer to its
/// first words is lost, it is sent again after a second.
#[test]
fn a_client_that_thinks_is_no_long_way_off() {
    let mut lan = for_requests();
    let mut station = Station::new(0);
    lan.wire.to_stack.push_back(station.stamped(SYN, b"", [1000, 0]));
    station.next += 1;
    lan.pass(2);
    let stamp = lan.seen.iter().rfind(|frame| addressee(frame) == Some(station.port)).and_then(|frame| stamp(frame));
    let _ = station.receive(&mut lan);
    let stamp = stamp.expect("timestamps are agreed on");
    lan.wire.to_stack.push_back(station.stamped(ACK, b"", [1002, stamp]));
    lan.pass(10_000);
    lan.wire.to_stack.push_back(station.stamped(ACK, b"request", [11_000, stamp]));
    lan.pass(3);
    let is_answer = |(_, payload): &(u8, Vec<u8>)| payload == b"request";
    assert!(station.receive(&mut lan).iter().any(is_answer));
    lan.pass(1100);
    assert!(station.receive(&mut lan).iter().any(is_answer), "the answer that was lost");
}
