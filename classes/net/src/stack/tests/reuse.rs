//! Clients whose ports and numbers are those of a connection before: what comes again from the
//! network begins nothing, and who means it is served.

use super::crowd::{answer_and_end, server};
use super::lan::Lan;
use super::station::{ACK, FIN, RST, SYN, Station};
use crate::stack::table::Phase;
use std::vec::Vec;

/// Has something echoed and ends the connection, first: so the server waits for nothing when that
/// is acknowledged.
fn exchange_and_end(station: &mut Station, lan: &mut Lan) {
    station.exchange(lan, b"once");
    station.send(lan, ACK | FIN, b"");
    lan.pass(5);
    assert!(station.receive(lan).iter().any(|(flags, _)| flags & FIN != 0));
    station.send(lan, ACK, b"");
    lan.pass(5);
}

/// A segment that begins a connection may come once more when that is over and its place is free:
/// the network has it twice, or somebody has listened. The request is not done again.
#[test]
fn what_began_a_connection_begins_no_second_one() {
    for pause in [0, 5000, 20_000] {
        let mut lan = server(4);
        let mut station = Station::new(1);
        station.shake_hands(&mut lan);
        let first = station.segment(ACK, b"once");
        exchange_and_end(&mut station, &mut lan);
        assert_eq!(lan.stack.tcp.count(Phase::Free), 4);
        lan.pass(pause);
        lan.wire.to_stack.push_back(first);
        lan.pass(50);
        let answers = station.receive(&mut lan);
        assert!(matches!(answers[..], [(RST, _)]), "after {pause} ms: {answers:?}");
        assert_eq!(lan.stack.counts().opened, 1);
    }
}

/// A client whose first numbers do not change is no repetition of the network's: it is answered by
/// another cookie, or once there is one, and so often that it asks again for two minutes.
#[test]
fn who_begins_with_the_same_number_again_is_served_again() {
    let mut lan = server(4);
    for round in 0..4 {
        let mut station = Station::new(1);
        let syn = station.segment(SYN, b"");
        station.next += 1;
        let mut answers = Vec::new();
        for _ in 0..40 {
            lan.wire.to_stack.push_back(syn.clone());
            lan.pass(5);
            answers = station.receive(&mut lan);
            if !answers.is_empty() {
                break;
            }
            lan.pass(1000);
        }
        assert!(matches!(answers[..], [(flags, _)] if flags == SYN | ACK), "round {round}: {answers:?}");
        let first = station.segment(ACK, b"once");
        exchange_and_end(&mut station, &mut lan);
        assert_eq!(lan.stack.counts().opened, round + 1);
        lan.wire.to_stack.push_back(first);
        lan.pass(5);
        assert!(matches!(station.receive(&mut lan)[..], [(RST, _)]), "round {round}");
    }
}

/// RFC 9293 §3.6.1, RFC 6191: a SYN that may be an old one is answered by what the connection in
/// TIME-WAIT has acknowledged; a later one opens another connection.
#[test]
fn only_a_later_syn_takes_the_place_of_a_connection_in_time_wait() {
    let mut lan = server(2);
    lan.server = answer_and_end;
    let mut station = Station::new(0);
    station.shake_hands(&mut lan);
    station.send(&mut lan, ACK, b"pay");
    lan.pass(5);
    assert!(station.receive(&mut lan).iter().any(|(_, payload)| payload == b"answer"));
    station.send(&mut lan, ACK | FIN, b"");
    lan.pass(5);
    let _ = station.receive(&mut lan);
    assert_eq!(lan.stack.tcp.time_waits(), 1);
    for old in [77, 80, station.next] {
        lan.wire.to_stack.push_back(Station { next: old, ..station }.segment(SYN, b""));
        lan.pass(5);
        let answers = station.receive(&mut lan);
        assert!(matches!(answers[..], [(ACK, _)]), "{old}: {answers:?}");
    }
    let mut next = Station { next: station.next + 1, ..station };
    next.shake_hands(&mut lan);
    next.send(&mut lan, ACK, b"pay");
    lan.pass(5);
    assert!(next.receive(&mut lan).iter().any(|(_, payload)| payload == b"answer"));
    assert_eq!(lan.stack.counts().opened, 2);
}

/// A connection that is over takes no place from anybody, and yet what comes late finds it: the
/// peer's end is acknowledged as often as it comes, ten times a second at most (RFC 5961 §7), and a
/// reset ends nothing (RFC 1337). After a minute nobody knows of it.
#[test]
fn a_connection_that_is_over_has_no_place_and_is_known() {
    let mut lan = server(1);
    lan.server = answer_and_end;
    let mut stations = [Station::new(0), Station::new(1), Station::new(2)];
    for station in &mut stations {
        station.shake_hands(&mut lan);
        station.send(&mut lan, ACK, b"pay");
        lan.pass(5);
        assert!(station.receive(&mut lan).iter().any(|(_, payload)| payload == b"answer"));
        station.send(&mut lan, ACK | FIN, b"");
        lan.pass(5);
        assert!(matches!(station.receive(&mut lan)[..], [(ACK, _)]));
        assert_eq!(lan.stack.tcp.count(Phase::Free), 1);
    }
    assert_eq!((lan.stack.tcp.time_waits(), lan.stack.counts().evicted), (3, 0));
    let [station, ..] = &mut stations;
    let (end, seen) = (Station { next: station.next - 1, ..*station }, station.seen);
    lan.pass(1000);
    for _ in 0..20 {
        lan.wire.to_stack.push_back(station.segment(RST, b""));
        lan.wire.to_stack.push_back(station.segment(ACK, b""));
        lan.wire.to_stack.push_back(end.segment(ACK | FIN, b""));
        lan.pass(2);
    }
    let answers = station.receive(&mut lan);
    assert_eq!(answers, [const { (ACK, Vec::new()) }; 10]);
    assert_eq!(station.seen, seen);
    lan.pass(60_000);
    lan.wire.to_stack.push_back(end.segment(ACK | FIN, b""));
    lan.pass(5);
    assert!(matches!(station.receive(&mut lan)[..], [(RST, _)]));
}

/// The network may double a segment, and bring the second one late. In TIME-WAIT the request that
/// brought the cookie back is the old connection's, and not another one's (RFC 9293 §3.4.2).
#[test]
fn a_request_that_comes_twice_is_not_served_twice() {
    let mut lan = server(2);
    lan.server = answer_and_end;
    let mut station = Station::new(0);
    station.shake_hands(&mut lan);
    let request = station.segment(ACK, b"pay");
    station.send(&mut lan, ACK, b"pay");
    lan.pass(5);
    assert!(station.receive(&mut lan).iter().any(|(_, payload)| payload == b"answer"));
    station.send(&mut lan, ACK | FIN, b"");
    lan.pass(5);
    let _ = station.receive(&mut lan);
    lan.wire.to_stack.push_back(request);
    lan.pass(5);
    assert_eq!(lan.stack.counts().opened, 1);
    assert!(station.receive(&mut lan).iter().all(|(_, payload)| payload != b"answer"));
}

/// The port of a translator's address is another host's a moment later, whose clocks and first
/// numbers know nothing of the one before. It is told that its SYN is old, says by a reset that it
/// knows of no such connection (RFC 9293 §3.10.7.3), asks again (RFC 6298), and is served.
#[test]
fn another_host_behind_one_address_is_not_kept_out() {
    let mut lan = server(2);
    lan.server = answer_and_end;
    let mut station = Station::new(0);
    station.next = 1_000_000;
    station.shake_hands(&mut lan);
    station.send(&mut lan, ACK, b"pay");
    lan.pass(5);
    let _ = station.receive(&mut lan);
    station.send(&mut lan, ACK | FIN, b"");
    lan.pass(5);
    let _ = station.receive(&mut lan);
    assert_eq!(lan.stack.tcp.time_waits(), 1);
    let mut other = Station { next: 500_000, ..station };
    // SYNs of Linux: after 0, 1, 3, 7, 15 and 31 seconds.
    for pause in [1_000, 2_000, 4_000, 8_000, 16_000] {
        lan.wire.to_stack.push_back(Station { seen: 0, ..other }.segment(SYN, b""));
        lan.pass(5);
        match other.receive(&mut lan)[..] {
            [(flags, _)] if flags == SYN | ACK => return,
            [(ACK, _)] => lan.wire.to_stack.push_back(Station { next: station.next, ..other }.segment(RST, b"")),
            ref answers => panic!("{answers:?}"),
        }
        lan.pass(pause);
    }
    panic!("not served for 31 seconds");
}

/// RFC 9293 §3.10.7.4, eighth: the peer's end, which comes again, has the time begin anew.
#[test]
fn a_late_end_has_the_time_of_a_connection_that_is_over_begin_anew() {
    let mut lan = server(1);
    lan.server = answer_and_end;
    let mut station = Station::new(0);
    station.shake_hands(&mut lan);
    station.send(&mut lan, ACK, b"pay");
    lan.pass(5);
    let _ = station.receive(&mut lan);
    station.send(&mut lan, ACK | FIN, b"");
    lan.pass(5);
    let _ = station.receive(&mut lan);
    let end = Station { next: station.next - 1, ..station };
    for pause in [30_000, 50_000] {
        lan.pass(pause);
        lan.wire.to_stack.push_back(end.segment(ACK | FIN, b""));
        lan.pass(5);
        assert!(matches!(station.receive(&mut lan)[..], [(ACK, _)]), "after {pause}");
    }
}
