//! Explicit congestion notification, rule by rule (RFC 3168).

#[path = "common/script.rs"]
mod script;

use culm_tcp::Settings;
use script::{Script, settings};

fn marking() -> Settings {
    Settings { ecn: true, ..settings() }
}

/// A connection that is open and uses it, with a round trip of 100 ms.
fn open() -> Script {
    let mut script = Script::connect(marking());
    script.expect("SEW 0+0 mss 1000 sack-ok");
    script.pass(100);
    script.inject("SE. 0+0 ack 1 win 60000 mss 1000 sack-ok");
    script.expect(". 1+0 ack 1");
    script
}

/// RFC 3168, §6.1.1.
#[test]
fn it_is_used_if_both_sides_want_it() {
    let mut script = open();
    script.write(1000);
    script.expect("P. 1+1000 ack 1 ect");

    let mut script = Script::accept(marking(), "SEW 0+0 mss 1000");
    script.expect("SE. 0+0 ack 1");
    script.inject(". 1+0 ack 1");
    script.write(1000);
    script.expect("P. 1+1000 ack 1 ect");
}

/// Returns whether the next segment with data may be marked.
fn may_be_marked(script: &mut Script) -> bool {
    script.write(1000);
    script.connection.transmit(culm_tcp::Instant(script.now)).is_some_and(|sent| sent.is_ect)
}

#[test]
fn it_is_not_used_with_a_peer_that_does_not_want_it_or_reflects_flags() {
    for answer in ["S. 0+0 ack 1 mss 1000", "SEW. 0+0 ack 1 mss 1000", "SW. 0+0 ack 1 mss 1000"] {
        let mut script = Script::connect(marking());
        script.expect("SEW 0+0");
        script.inject(answer);
        script.expect(". 1+0 ack 1");
        assert!(!may_be_marked(&mut script), "{answer}");
    }
    for syn in ["S 0+0 mss 1000", "SE 0+0 mss 1000", "SW 0+0 mss 1000"] {
        let mut script = Script::accept(marking(), syn);
        script.expect("S. 0+0 ack 1");
        script.inject(". 1+0 ack 1");
        assert!(!may_be_marked(&mut script), "{syn}");
    }
    let mut script = Script::accept(settings(), "SEW 0+0 mss 1000");
    script.expect("S. 0+0 ack 1");
}

/// RFC 3168, §6.1.1.1.
#[test]
fn a_syn_that_gets_no_answer_is_sent_without_the_offer() {
    let mut script = Script::connect(marking());
    script.expect("SEW 0+0");
    script.wait();
    script.expect("S 0+0");
    // Whoever has sent a SYN without it does not use it (§6.1.1).
    script.inject("SE. 0+0 ack 1 mss 1000");
    script.expect(". 1+0 ack 1");
    assert!(!may_be_marked(&mut script));
}

#[test]
fn a_peer_that_does_not_repeat_its_offer_has_given_it_up() {
    let mut script = Script::accept(marking(), "SEW 0+0 mss 1000");
    script.expect("SE. 0+0 ack 1");
    script.inject("S 0+0 mss 1000");
    script.expect("S. 0+0 ack 1");
    script.inject(". 1+0 ack 1");
    assert!(!may_be_marked(&mut script));
}

/// Nothing is kept of the SYN: the timestamp of its answer tells, one millisecond early if need be.
#[test]
fn a_connection_that_is_resumed_knows_what_was_agreed_on() {
    let last = |echo: u32| format!(". 1+0 ack 1 stamps 57:{echo}");
    for (settings, syn, answer, echo, is_used) in [
        (marking(), "SEW 0+0 mss 1000 stamps 7:0", "SE. 0+0 ack 1 win 60000 mss 1000 stamps 999:7", 999, true),
        (marking(), "S 0+0 mss 1000 stamps 7:0", "S. 0+0 ack 1 win 60000 mss 1000 stamps 1000:7", 1000, false),
        (settings(), "SEW 0+0 mss 1000 stamps 7:0", "S. 0+0 ack 1 win 60000 mss 1000 stamps 1000:7", 1000, false),
        (settings(), "SEW 0+0 mss 1000 stamps 7:0", "S. 0+0 ack 1 win 60000 mss 1000 stamps 1000:7", 1001, false),
    ] {
        let (mut script, found) = Script::resume(settings, syn, &last(echo), 50);
        assert_eq!(found, answer, "{syn}");
        assert_eq!(may_be_marked(&mut script), is_used, "{syn}");
    }
    let odd = Settings { stamp_offset: 1, ..marking() };
    let (_, answer) = Script::resume(odd, "S 0+0 mss 1000 stamps 7:0", &last(1000), 50);
    assert_eq!(answer, "S. 0+0 ack 1 win 60000 mss 1000 stamps 1000:7");
    // Without timestamps there is nothing to tell it by.
    let (mut script, answer) = Script::resume(marking(), "SEW 0+0 mss 1000", ". 1+0 ack 1", 50);
    assert_eq!(answer, "S. 0+0 ack 1 win 60000 mss 1000");
    assert!(!may_be_marked(&mut script));
}

/// RFC 3168, §6.1.3.
#[test]
fn a_mark_is_echoed_until_the_peer_has_reduced_its_window() {
    let mut script = open();
    script.inject(". 1+1000 ack 1");
    script.inject_marked("P. 1001+1000 ack 1");
    script.expect("E. 1+0 ack 2001");
    script.inject(". 2001+1000 ack 1");
    script.inject(". 3001+1000 ack 1");
    script.expect("E. 1+0 ack 4001");
    script.write(1000);
    script.expect("PE. 1+1000 ack 4001 ect");
    script.inject("W. 4001+1000 ack 1001");
    script.inject(". 5001+1000 ack 1001");
    script.expect(". 1001+0 ack 6001");
    // A mark with the answer to an earlier one counts.
    script.inject_marked("W. 6001+1000 ack 1001");
    script.inject(". 7001+1000 ack 1001");
    script.expect("E. 1001+0 ack 8001");
}

/// What a stranger sends does not slow the peer down, and acknowledgements are not marked (§6.1.4).
#[test]
fn only_data_in_the_window_echoes_marks() {
    let mut script = open();
    script.inject_marked(". 1+0 ack 1");
    script.inject_marked(". 100000+1000 ack 1");
    script.expect(". 1+0 ack 1");
    script.inject(". 1+1000 ack 1");
    script.inject(". 1001+1000 ack 1");
    script.expect(". 1+0 ack 2001");
}

/// An old timestamp, or an acknowledgement of what was never sent, is a stranger's.
#[test]
fn a_mark_of_a_segment_that_is_dropped_is_not_echoed() {
    let mut script = Script::connect(marking());
    script.expect("SEW 0+0 stamps 1000:0");
    script.inject("SE. 0+0 ack 1 win 60000 mss 1000 sack-ok stamps 5000:1000");
    script.expect(". 1+0 ack 1 stamps 1000:5000");
    script.inject_marked(". 1+1000 ack 1 stamps 4999:1000");
    script.expect(". 1+0 ack 1");
    script.inject_marked(". 1+1000 ack 2 stamps 5000:1000");
    script.expect(". 1+0 ack 1");
    // One that counts, with data that comes late beside an older acknowledgement.
    script.write(1000);
    script.expect("P. 1+1000 ack 1 ect");
    script.inject(". 1001+1000 ack 1001 stamps 5000:1000");
    script.expect(". 1001+0 ack 1");
    script.inject_marked(". 1+1000 ack 1 stamps 5000:1000");
    script.expect("E. 1001+0 ack 2001");
}

/// What was dropped with a mark does not outlive the next CWR.
#[test]
fn a_mark_of_a_segment_that_is_dropped_is_forgotten() {
    let mut script = open();
    script.inject_marked(". 1+1000 ack 1");
    script.inject_marked("W. 1001+1000 ack 5000");
    script.expect("E. 1+0 ack 1001");
    script.inject("W. 1001+1000 ack 1");
    script.inject(". 2001+1000 ack 1");
    script.expect(". 1+0 ack 3001");
}

/// RFC 3168, §6.1.2.
#[test]
fn an_echo_reduces_the_window_once_each_round_trip_and_is_answered() {
    let mut script = open();
    script.write(40_000);
    for number in 0..10 {
        script.expect(&format!(". {}+1000 ack 1 ect", number * 1000 + 1));
    }
    script.nothing();
    script.pass(100);
    script.inject("E. 1+0 ack 1001");
    assert_eq!(script.connection.congestion_window(), 5000);
    script.inject("E. 1+0 ack 3001");
    script.nothing();
    assert_eq!(script.connection.congestion_window(), 5000);
    // The first new data tells.
    script.inject(". 1+0 ack 8001");
    script.expect("W. 10001+1000 ack 1 ect");
    script.expect(". 11001+1000 ack 1 ect");
    script.expect(". 12001+1000 ack 1 ect");
    script.expect(". 13001+1000 ack 1 ect");
    script.nothing();
    // What was sent before the reduction says nothing new; what was sent since does.
    script.inject("E. 1+0 ack 10001");
    assert_eq!(script.connection.congestion_window(), 6000);
    script.expect(". 14001+1000 ack 1");
    script.expect(". 15001+1000 ack 1");
    script.pass(100);
    script.inject("E. 1+0 ack 13001");
    assert_eq!(script.connection.congestion_window(), 3000);
}

/// A device that divides a train may repeat CWR in each of its segments.
#[test]
fn the_answer_goes_in_a_segment_of_its_own() {
    let mut script = Script::connect(Settings { longest_train: 60_000, ..marking() });
    script.expect("SEW 0+0");
    script.inject("SE. 0+0 ack 1 win 60000 mss 1000 sack-ok");
    script.expect(". 1+0 ack 1");
    script.write(40_000);
    script.expect(". 1+10000 ack 1 ect");
    script.inject("E. 1+0 ack 10001");
    script.expect("W. 10001+1000 ack 1 ect");
    script.expect(". 11001+4000 ack 1 ect");
}

/// RFC 3168, §6.1.5.
#[test]
fn what_is_sent_again_is_not_to_be_marked() {
    let mut script = open();
    script.write(10_000);
    for number in 0..10 {
        script.connection.transmit(culm_tcp::Instant(script.now)).unwrap_or_else(|| panic!("{number}"));
    }
    script.pass(100);
    script.inject(". 1+0 ack 1 blocks 1001-5001");
    let sent = script.connection.transmit(culm_tcp::Instant(script.now)).unwrap();
    assert_eq!((sent.length, sent.is_ect), (1000, false));
}
