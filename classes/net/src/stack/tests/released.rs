//! Connections that the application has released: their peers get what was sent to them, and keep
//! no place from others.

use super::crowd::server;
use super::lan::Lan;
use super::station::{ACK, FIN, RST, SYN, Station, addressee};
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

/// A client whose SYN waits for a place gets the next one, and not who asks in the very moment at
/// which it becomes free: with the acknowledgement of the end of the connection that had it.
#[test]
fn who_waits_goes_before_who_comes() {
    let mut lan = server(1);
    lan.server = answer_briefly;
    let [mut first, mut waiting, mut late] = [0, 1, 2].map(Station::new);
    first.shake_hands(&mut lan);
    first.send(&mut lan, ACK, b"pay");
    lan.pass(5);
    assert!(first.receive(&mut lan).iter().any(|(_, payload)| payload == b"answer"));
    waiting.send(&mut lan, SYN, b"");
    lan.pass(300);
    assert!(waiting.receive(&mut lan).is_empty(), "there is no place");
    first.send(&mut lan, ACK, b"");
    late.send(&mut lan, SYN, b"");
    lan.pass(5);
    assert!(matches!(waiting.receive(&mut lan)[..], [(flags, _)] if flags == SYN | ACK));
    assert!(late.receive(&mut lan).is_empty(), "the place is promised");
}

/// What comes with the acknowledgement of this side's end is acknowledged too, though not at once:
/// the place waits for that.
#[test]
fn what_comes_with_the_acknowledgement_of_the_end_is_acknowledged() {
    let mut lan = server(1);
    lan.server = answer_briefly;
    let mut station = Station::new(0);
    station.shake_hands(&mut lan);
    station.send(&mut lan, ACK, b"pay");
    lan.pass(5);
    let _ = station.receive(&mut lan);
    station.send(&mut lan, ACK, b"more");
    lan.pass(100);
    assert_eq!(acknowledged(&lan, &station), [station.next]);
    assert_eq!(lan.stack.tcp.count(Phase::Free), 1);
}

/// A stack with one place, and a station that has asked it for [`LONG`] bytes, of which this is the
/// number of the first.
fn asked_for_much() -> (Lan, Station, u32) {
    let mut lan = server(1);
    lan.server = answer_at_length;
    let mut station = Station::new(0);
    station.open(&mut lan);
    let first = station.seen;
    station.send(&mut lan, ACK, b"give");
    lan.pass(5);
    (lan, station, first)
}

/// A peer has twenty seconds to acknowledge something, and twenty more after that: it gets all, as
/// slow as it may be. One that acknowledges nothing is given up.
#[test]
fn a_slow_reader_gets_what_was_sent_before_the_release() {
    for last in [9, 3] {
        let (mut lan, mut station, first) = asked_for_much();
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

/// A byte of an answer now and then is nothing that a peer could not take at once: it keeps no
/// place for that.
#[test]
fn a_byte_now_and_then_keeps_no_place() {
    let (mut lan, mut station, first) = asked_for_much();
    for count in 1..=6 {
        station.seen = first.wrapping_add(count);
        station.send(&mut lan, ACK, b"");
        lan.pass(4000);
        let _ = station.receive(&mut lan);
    }
    assert_eq!(lan.stack.tcp.count(Phase::Free), 1);
}
