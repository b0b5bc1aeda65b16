//! Connections that the application has released, and those that it has not been told of: neither
//! keeps a place from others.

use super::crowd::server;
use super::lan::{Lan, echo};
use super::station::{ACK, FIN, RST, Station, addressee};
use crate::stack::table::Phase;
use crate::stack::{Event, Stack};
use std::vec::Vec;

/// What the segments that were seen acknowledge, of those to this station.
fn acknowledged(lan: &Lan, station: &Station) -> Vec<u32> {
    let is_ours = |frame: &&Vec<u8>| addressee(frame) == Some(station.port);
    let number = |frame: &Vec<u8>| u32::from_be_bytes(frame[42..46].try_into().expect("four bytes"));
    lan.seen.iter().filter(is_ours).map(number).collect()
}

/// Bytes of a long answer: eight segments.
const LONG: usize = 8 * 536;

/// Answers the first request, and has nothing more to do with the connection.
fn answer(stack: &mut Stack, event: Event, content: &'static [u8]) {
    let (Event::Opened { slot, .. } | Event::Ready { slot }) = event;
    let Some(mut stream) = stack.stream(slot) else { return };
    if stream.received_count() > 0 {
        assert_eq!(stream.send_static(content), content.len());
        stack.release(slot);
    }
}

fn answer_briefly(stack: &mut Stack, event: Event) {
    answer(stack, event, b"answer");
}

fn answer_at_length(stack: &mut Stack, event: Event) {
    answer(stack, event, &[7; LONG]);
}

/// RFC 9293 §3.6, figure 12, and §3.10.7.4: a peer need not end its side, and what it sends until
/// then is acknowledged. That nobody reads it takes no place.
#[test]
fn a_peer_that_does_not_end_its_side_keeps_no_place() {
    let mut lan = server(1);
    lan.server = answer_briefly;
    let mut stations = [Station::new(0), Station::new(1)];
    for station in &mut stations {
        station.shake_hands(&mut lan);
        station.send(&mut lan, ACK, b"pay");
        lan.pass(5);
        assert!(station.receive(&mut lan).iter().any(|(flags, payload)| payload == b"answer" && flags & FIN != 0));
        assert_eq!(lan.stack.tcp.count(Phase::Free), 0, "it may have to be sent again");
        station.send(&mut lan, ACK, b"");
        lan.pass(5);
        assert!(station.receive(&mut lan).is_empty());
        assert_eq!(lan.stack.tcp.count(Phase::Free), 1);
    }
    assert_eq!((lan.stack.tcp.time_waits(), lan.stack.counts().evicted), (2, 0));
    let [mut station, _] = stations;
    // More often than a stranger would be answered.
    for _ in 0..30 {
        station.send(&mut lan, ACK, b"more");
        lan.pass(2);
        assert_eq!(acknowledged(&lan, &station), [station.next]);
        assert!(matches!(station.receive(&mut lan)[..], [(ACK, _)]));
    }
    // What is not its turn, and what was there before.
    for other in [station.next + 4, station.next - 4] {
        lan.wire.to_stack.push_back(Station { next: other, ..station }.segment(ACK, b"more"));
        lan.pass(2);
        assert_eq!(acknowledged(&lan, &station), [station.next], "{other}");
        let _ = station.receive(&mut lan);
    }
    lan.pass(40_000);
    let end = station.segment(ACK | FIN, b"last");
    // It waits anew after its end, which comes again where its acknowledgement is lost.
    for pause in [0, 40_000, 40_000] {
        lan.pass(pause);
        lan.wire.to_stack.push_back(end.clone());
        lan.pass(2);
        assert_eq!(acknowledged(&lan, &station), [station.next + 5], "after {pause} ms");
        assert!(matches!(station.receive(&mut lan)[..], [(ACK, _)]));
    }
    lan.pass(60_000);
    lan.wire.to_stack.push_back(end);
    lan.pass(2);
    assert!(matches!(station.receive(&mut lan)[..], [(RST, _)]));
}

/// A peer has twenty seconds to acknowledge something, and twenty more after that: it gets all, as
/// slow as it may be. One that acknowledges nothing is given up.
#[test]
fn a_slow_reader_gets_what_was_sent_before_the_release() {
    for last in [9, 3] {
        let mut lan = server(1);
        lan.server = answer_at_length;
        let mut station = Station::new(0);
        station.open(&mut lan);
        let first = station.seen;
        station.send(&mut lan, ACK, b"give");
        lan.pass(5);
        for count in 1..=last {
            lan.pass(15_000);
            let received = station.receive(&mut lan);
            assert!(received.iter().all(|(flags, _)| flags & RST == 0), "{count} of {last}");
            assert_eq!(lan.stack.tcp.count(Phase::Free), 0, "{count} of {last}");
            // The last one acknowledges the end.
            station.seen = first.wrapping_add((count * 536).min(LONG as u32 + 1));
            station.send(&mut lan, ACK, b"");
            lan.pass(2);
        }
        lan.pass(if last == 9 { 0 } else { 22_000 });
        let is_reset = station.receive(&mut lan).iter().any(|(flags, _)| flags & RST != 0);
        assert_eq!((lan.stack.tcp.count(Phase::Free), is_reset), (1, last != 9));
    }
}

/// A stack with one place, whose clients speak first.
fn patient() -> Lan {
    let mut lan = Lan::fixed(1);
    lan.server = echo;
    lan.stack.listen_for_requests(80);
    lan
}

/// Where clients speak first there is no connection before that, and no place is taken, whatever
/// they wait for: so all of them are let in, and each is served when it speaks.
#[test]
fn clients_that_have_said_nothing_have_no_place() {
    let mut lan = patient();
    let mut stations: Vec<_> = (0..5).map(Station::new).collect();
    for station in &mut stations {
        station.open(&mut lan);
        // Once more, as the network may have it.
        station.send(&mut lan, ACK, b"");
        lan.pass(300);
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
    let mut lan = patient();
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
