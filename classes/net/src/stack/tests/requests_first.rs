//! Ports whose clients speak first.

use super::lan::{Lan, echo};
use super::station::{ACK, FIN, RST, Station};
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
