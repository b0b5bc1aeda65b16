//! Who must not lose by those that come: clients with a connection, with a request under way, or
//! with a handshake behind them.

use super::crowd::server;
use super::station::{ACK, RST, SYN, Station};
use crate::stack::table::Phase;
use crate::stack::{Event, Stack};
use std::vec::Vec;

static LONG: [u8; 4_000_000] = [0; 4_000_000];

fn answer_at_length(stack: &mut Stack, event: Event) {
    let (Event::Opened { slot, .. } | Event::Ready { slot }) = event;
    let Some(mut stream) = stack.stream(slot) else { return };
    if stream.received_count() > 0 {
        stream.consume(usize::MAX);
        stream.send_static(&LONG);
    }
}

/// Answers what comes, and rests.
fn answer(stack: &mut Stack, event: Event) {
    let (Event::Opened { slot, .. } | Event::Ready { slot }) = event;
    let Some(mut stream) = stack.stream(slot) else { return };
    if stream.received_count() > 0 {
        stream.consume(usize::MAX);
        stream.send(b"answer");
    }
    stream.rest();
}

/// Has nothing to say.
fn idle(_: &mut Stack, _: Event) {}

/// Returns the bytes that a reader gets in 300 ms of a flood, where the card sends four frames a
/// millisecond, and so many SYNs of strangers come in each.
fn taken_beside(syns: u16) -> usize {
    let mut lan = server(64);
    lan.server = answer_at_length;
    let mut reader = Station::new(0);
    reader.open(&mut lan);
    lan.gives_back = false;
    reader.send(&mut lan, ACK, b"give");
    let (mut bytes, mut stranger) = (0, 0);
    for at in 0..1300 {
        lan.pass(1);
        let payloads: usize = reader.receive(&mut lan).iter().map(|(_, payload)| payload.len()).sum();
        if payloads > 0 {
            lan.wire.to_stack.push_back(reader.segment(ACK, b""));
        }
        bytes += if at < 1000 { 0 } else { payloads };
        lan.seen.clear();
        // A card drops what finds no buffer.
        lan.wire.to_stack.truncate(100);
        for _ in 0..syns {
            stranger = stranger % 40_000 + 1;
            lan.wire.to_stack.push_back(Station::new(stranger).segment(SYN, b""));
        }
        lan.give_some(4);
    }
    bytes
}

#[test]
fn strangers_leave_buffers_to_those_who_are_served() {
    let alone = taken_beside(0);
    for syns in [2, 8] {
        let beside = taken_beside(syns);
        assert!(beside * 4 > alone * 3, "{beside} bytes beside {syns} SYNs a millisecond, {alone} without");
    }
}

#[test]
fn who_has_shaken_hands_goes_before_who_asks() {
    for clients in [1, 20] {
        let mut lan = server(clients.into());
        lan.server = idle;
        let [mut begun, mut late] =
            [0, clients].map(|from| (from..from + clients).map(Station::new).collect::<Vec<_>>());
        begun.iter_mut().for_each(|station| station.shake_hands(&mut lan));
        // Longer than who was told that he may come is expected.
        lan.pass(400);
        late.iter_mut().for_each(|station| station.send(&mut lan, SYN, b""));
        begun.iter_mut().for_each(|station| station.send(&mut lan, ACK, b"request"));
        lan.pass(1);
        assert_eq!(lan.stack.tcp.count(Phase::Free), 0);
        let told = late.iter_mut().filter_map(|station| station.receive(&mut lan).pop()).count();
        assert_eq!(told, 0, "told to come, and there is no place");
    }
}

/// A server with one place, whose client has had an answer a while ago.
fn server_with_a_rest() -> (super::lan::Lan, Station) {
    let mut lan = server(1);
    lan.server = answer;
    let mut station = Station::new(0);
    station.open(&mut lan);
    station.send(&mut lan, ACK, b"first");
    lan.pass(5);
    let _ = station.receive(&mut lan);
    station.send(&mut lan, ACK, b"");
    lan.pass(300);
    assert_eq!(lan.stack.tcp.count(Phase::Idle), 1);
    (lan, station)
}

/// Its connection rests no more. To end it would acknowledge a request that nobody answers.
#[test]
fn a_connection_whose_request_was_received_does_not_make_way() {
    let (mut lan, mut old) = server_with_a_rest();
    let mut new = Station::new(1);
    new.shake_hands(&mut lan);
    old.send(&mut lan, ACK, b"second");
    new.send(&mut lan, ACK, b"first");
    lan.pass(5);
    assert!(old.receive(&mut lan).iter().any(|(_, payload)| payload == b"answer"));
    assert_eq!(lan.stack.counts().evicted, 0);
}

/// The application is told of a connection that it has opened when that is answered, and not of
/// what the one before had to tell in the same slot.
#[test]
fn a_slot_that_is_opened_hears_of_its_own_connection_only() {
    let (mut lan, mut old) = server_with_a_rest();
    old.send(&mut lan, ACK, b"");
    lan.deliver();
    lan.stack.receive(&mut |_| ());
    assert_eq!(lan.stack.connect("10.0.0.77:99".parse().expect("an address")), Ok(0));
    assert_eq!(lan.stack.event(), None);
}

/// A client that has reset its connection comes again from the same port, while the application
/// still has the old one.
#[test]
fn who_is_told_that_he_may_come_is_not_reset() {
    let mut lan = server(3);
    lan.server = idle;
    let mut station = Station::new(0);
    station.open(&mut lan);
    station.send(&mut lan, RST, b"");
    lan.pass(5);
    let mut again = Station { next: 1_000_000, seen: 0, ..station };
    again.shake_hands(&mut lan);
    again.send(&mut lan, ACK, b"request");
    lan.pass(100);
    assert!(matches!(again.receive(&mut lan)[..], [(ACK, _)]));
    assert_eq!(lan.stack.counts().opened, 2);
}

/// An application is told when a client waits for whom there is no place, and as long as that is
/// so.
#[test]
fn that_a_client_waits_for_a_place_is_told() {
    let mut lan = server(1);
    lan.server = idle;
    let [mut first, mut second] = [0, 1].map(Station::new);
    first.open(&mut lan);
    first.send(&mut lan, ACK, b"request");
    lan.pass(300);
    assert!(!lan.stack.is_crowded());
    second.send(&mut lan, SYN, b"");
    lan.pass(5);
    assert!(lan.stack.is_crowded());
    lan.stack.release(0);
    lan.pass(5);
    let _ = first.receive(&mut lan);
    first.send(&mut lan, ACK, b"");
    lan.pass(5);
    assert!(!lan.stack.is_crowded());
    assert!(matches!(second.receive(&mut lan)[..], [(flags, _)] if flags == SYN | ACK));
}
