//! How a connection begins and ends, rule by rule, and what a stranger cannot do to it.

#[path = "common/script.rs"]
mod script;

use core::time::Duration;
use culm_tcp::{Ending, Flags, Header, KeepAlive, Sequence, State, reset_for};
use script::{Script, settings};

/// RFC 9293, §3.5, figure 6.
#[test]
fn a_side_that_opens_offers_options_and_acknowledges() {
    let mut script = Script::connect(settings());
    script.expect("S 0+0 win 60000 mss 1000 scale 0 sack-ok stamps 1000:0");
    script.nothing();
    assert_eq!(script.inject("S. 0+0 ack 1 win 60000 mss 900 sack-ok stamps 7:1000"), None);
    script.expect(". 1+0 ack 1 stamps 1000:7");
    assert_eq!(script.state(), State::Established);
    // RFC 6691: the peer's size is without options.
    script.write(5000);
    script.expect(". 1+888 ack 1");
}

#[test]
fn a_side_that_is_opened_answers_what_was_offered() {
    let mut script = Script::accept(settings(), "S 0+0 win 500 mss 1400 scale 3");
    script.expect("S. 0+0 ack 1 win 60000 mss 1000 scale 0");
    assert_eq!(script.state(), State::SynReceived);
    script.inject(". 1+0 ack 1 win 500");
    assert_eq!(script.state(), State::Established);
    // The window is scaled from here on (RFC 7323, §2.2): 4000 bytes.
    script.write(9000);
    for start in [1, 1001, 2001, 3001] {
        script.expect(&format!(". {start}+1000 ack 1"));
    }
    script.nothing();
}

/// RFC 9293, §3.5, figure 7.
#[test]
fn both_sides_open_at_once() {
    let mut script = Script::connect(settings());
    script.expect("S 0+0");
    script.inject("S 0+0 mss 1000");
    assert_eq!(script.state(), State::SynReceived);
    script.expect("S. 0+0 ack 1");
    script.inject("S. 0+0 ack 1 mss 1000");
    assert_eq!(script.state(), State::Established);
    script.expect(". 1+0 ack 1");
}

/// RFC 6298, §2.1 and §5.5.
#[test]
fn a_syn_is_sent_again_until_there_is_no_hope() {
    let mut script = Script::connect(settings());
    script.expect("S 0+0");
    // Three minutes in all (RFC 9293, §3.8.3, MUST-23).
    for seconds in [1, 2, 4, 8, 16, 32, 60] {
        assert_eq!(script.wait(), seconds * 1000);
        script.expect("S 0+0");
        script.nothing();
    }
    assert_eq!(script.wait(), 60_000);
    assert_eq!((script.state(), script.connection.ending()), (State::Closed, Some(Ending::TimedOut)));
    script.nothing();
    assert_eq!(script.connection.deadline(), None);
}

/// RFC 9293, §3.10.7.3.
#[test]
fn only_the_right_reset_refuses() {
    let mut script = Script::connect(settings());
    script.expect("S 0+0");
    script.inject("R 0+0");
    script.inject("R. 0+0 ack 2");
    script.inject(". 0+0 ack 9");
    // What acknowledges what was not sent is reset.
    script.expect("R 9+0");
    assert_eq!(script.state(), State::SynSent);
    script.inject("R. 0+0 ack 1");
    assert_eq!(script.connection.ending(), Some(Ending::Refused));
}

#[test]
fn a_lost_answer_to_a_syn_is_sent_again_when_the_syn_is() {
    let mut script = Script::accept(settings(), "S 0+0 mss 1000");
    script.expect("S. 0+0 ack 1");
    script.inject("S 0+0 mss 1000");
    script.expect("S. 0+0 ack 1");
    script.nothing();
    script.inject(". 1+0 ack 7");
    script.expect("R 7+0");
    assert_eq!(script.state(), State::SynReceived);
}

/// RFC 9293, §3.6, figure 12: this side closes first.
#[test]
fn who_closes_first_waits() {
    let mut script = Script::open(settings(), true);
    script.write(10);
    script.close();
    script.expect("FP. 1+10 ack 1");
    assert_eq!(script.state(), State::FinWait1);
    script.inject(". 1+0 ack 12");
    assert_eq!((script.state(), &script.released[..]), (State::FinWait2, &[0][..]));
    assert!(script.inject("P. 1+5 ack 12").is_some());
    script.inject("F. 6+0 ack 12");
    assert_eq!(script.state(), State::TimeWait);
    script.expect(". 12+0 ack 7");
    script.pass(30_000);
    script.inject("F. 6+0 ack 12");
    script.expect(". 12+0 ack 7");
    // A reset does not end it (RFC 1337).
    script.inject("R 7+0");
    assert_eq!(script.state(), State::TimeWait);
    assert_eq!(script.wait(), 60_000);
    assert_eq!(script.connection.ending(), Some(Ending::Closed));
}

#[test]
fn who_closes_last_does_not_wait() {
    let mut script = Script::open(settings(), true);
    script.inject("FP. 1+10 ack 1");
    assert_eq!((script.state(), script.connection.readable()), (State::CloseWait, 10));
    script.expect(". 1+0 ack 12");
    script.write(5);
    script.expect("P. 1+5 ack 12");
    script.close();
    script.expect("FP. 6+0 ack 12");
    assert_eq!(script.state(), State::LastAck);
    script.inject(". 12+0 ack 7");
    assert_eq!(script.connection.ending(), Some(Ending::Closed));
}

/// RFC 9293, §3.6, figure 13.
#[test]
fn both_close_at_once() {
    let mut script = Script::open(settings(), true);
    script.close();
    script.expect("FP. 1+0 ack 1");
    script.inject("F. 1+0 ack 1");
    assert_eq!(script.state(), State::Closing);
    script.expect(". 2+0 ack 2");
    script.inject(". 2+0 ack 2");
    assert_eq!(script.state(), State::TimeWait);
}

#[test]
fn a_fin_ahead_of_its_data_waits_for_it() {
    let mut script = Script::open(settings(), true);
    script.inject("FP. 1001+10 ack 1");
    assert_eq!(script.state(), State::Established);
    script.expect(". 1+0 ack 1 blocks 1001-1011");
    assert_eq!(script.inject(". 1+1000 ack 1").map(|placement| placement.ready), Some(1010));
    assert_eq!(script.state(), State::CloseWait);
    script.expect(". 1+0 ack 1012");
}

#[test]
fn a_fin_that_is_lost_is_sent_again() {
    let mut script = Script::open(settings(), false);
    script.close();
    script.expect("FP. 1+0 ack 1");
    script.wait();
    script.expect("FP. 1+0 ack 1");
    script.nothing();
}

/// RFC 5961, §3.2 and §4.2.
#[test]
fn a_guess_is_challenged_and_only_the_exact_reset_counts() {
    let mut script = Script::open(settings(), true);
    script.inject("R 100000+0");
    script.nothing();
    script.inject("R 2+0");
    script.expect(". 1+0 ack 1");
    script.inject("S 2+0");
    script.expect(". 1+0 ack 1");
    assert_eq!(script.state(), State::Established);
    script.inject("R 1+0");
    assert_eq!(script.connection.ending(), Some(Ending::Reset));
}

/// RFC 5961, §5.2 and §7.
#[test]
fn acknowledgements_of_what_was_never_sent_are_answered_a_few_times_a_second() {
    let mut script = Script::open(settings(), true);
    for _ in 0..10 {
        script.inject(". 1+0 ack 99");
        script.expect(". 1+0 ack 1");
    }
    script.inject(". 1+0 ack 99");
    script.nothing();
    script.pass(1000);
    script.inject(". 1+0 ack 99");
    script.expect(". 1+0 ack 1");
}

#[test]
fn aborting_resets() {
    let mut script = Script::open(settings(), true);
    script.write(10);
    script.expect("P. 1+10 ack 1");
    let mut released = Vec::new();
    script.connection.abort(|token| released.push(token));
    script.expect("R. 11+0 ack 1");
    assert_eq!((released, script.connection.ending()), (vec![0], Some(Ending::Aborted)));
    // What comes later is answered as where there is no connection.
    script.inject(". 1+10 ack 11");
    script.expect("R 11+0");
}

/// RFC 9293, §3.8.4.
#[test]
fn a_silent_peer_is_asked_and_given_up() {
    let keep_alive = KeepAlive { idle: Duration::from_secs(100), interval: Duration::from_secs(10), questions: 2 };
    let mut script = Script::open(culm_tcp::Settings { keep_alive: Some(keep_alive), ..settings() }, true);
    script.inject(". 1+0 ack 1");
    assert_eq!(script.wait(), 100_000);
    script.expect(". 0+0 ack 1");
    script.inject(". 1+0 ack 1");
    assert_eq!(script.wait(), 100_000);
    script.expect(". 0+0 ack 1");
    assert_eq!(script.wait(), 10_000);
    script.expect(". 0+0 ack 1");
    assert_eq!(script.wait(), 10_000);
    assert_eq!(script.connection.ending(), Some(Ending::TimedOut));
}

/// RFC 9293, §3.8.4: who asks for it gets it, after two hours or later, and can have it ended.
#[test]
fn a_peer_is_asked_only_where_that_is_wanted() {
    let mut script = Script::open(settings(), true);
    assert_eq!(script.connection.deadline(), None);
    script.connection.set_keep_alive(Some(KeepAlive::USUAL));
    assert_eq!(script.wait(), 2 * 3_600_000);
    script.expect(". 0+0 ack 1");
    script.inject(". 1+0 ack 1");
    script.connection.set_keep_alive(None);
    assert_eq!(script.connection.deadline(), None);
}

/// RFC 9293, §3.8.4: questions that are all late by now are still asked one by one, so that a peer
/// that is there can answer.
#[test]
fn a_peer_has_time_to_answer_questions_that_are_late() {
    let mut script = Script::open(settings(), true);
    script.now += 3 * 3_600_000_000;
    script.connection.set_keep_alive(Some(KeepAlive::USUAL));
    assert_eq!(script.wait(), 0);
    script.expect(". 0+0 ack 1");
    assert_eq!(script.wait(), 75_000);
    script.expect(". 0+0 ack 1");
}

/// RFC 9293, §3.8.4: what waits for an acknowledgement asks by itself.
#[test]
fn no_peer_is_asked_while_data_is_on_the_way() {
    let keep_alive = KeepAlive { idle: Duration::from_millis(1), ..KeepAlive::USUAL };
    let mut script = Script::open(culm_tcp::Settings { keep_alive: Some(keep_alive), ..settings() }, false);
    script.write(1000);
    script.expect("P. 1+1000 ack 1");
    script.wait();
    script.expect("P. 1+1000 ack 1");
}

/// RFC 9293, §3.9.2.2: soft errors end nothing, but say why the peer did not answer.
#[test]
fn an_opening_goes_on_after_a_soft_error_and_ends_by_a_final_one() {
    let mut script = Script::connect(settings());
    script.write(10);
    script.expect("S 0+0");
    assert!(!script.unreachable(1, true) && !script.unreachable(u32::MAX, true), "nobody has sent that");
    assert!(script.unreachable(0, false) && script.connection.is_unreachable());
    for _ in 0..8 {
        script.wait();
        let _ = script.connection.transmit(culm_tcp::Instant(script.now));
    }
    assert_eq!(script.connection.ending(), Some(Ending::Unreachable));

    let mut script = Script::connect(settings());
    script.write(10);
    script.expect("S 0+0");
    assert!(script.unreachable(0, true));
    assert_eq!((script.connection.ending(), &script.released[..]), (Some(Ending::Unreachable), &[0][..]));
    assert!(!script.unreachable(0, true), "it is over");
}

/// RFC 9293, §3.9.2.2, and RFC 5927, §5.2: nobody's word ends what is open.
#[test]
fn an_open_connection_goes_on_after_any_error() {
    let mut script = Script::open(settings(), false);
    script.write(1000);
    script.expect("P. 1+1000 ack 1");
    assert!(script.unreachable(1, true) && script.connection.is_unreachable());
    assert_eq!(script.state(), State::Established);
    script.pass(1);
    script.inject(". 1+0 ack 1001");
    assert!(!script.connection.is_unreachable(), "the peer was heard");
    assert!(!script.unreachable(1, true), "nothing is on the way");
}

#[test]
fn a_connection_whose_address_is_lost_ends_in_silence() {
    let mut script = Script::open(settings(), true);
    script.write(10);
    script.expect("P. 1+10 ack 1");
    let mut released = Vec::new();
    script.connection.lose_address(|token| released.push(token));
    script.nothing();
    assert_eq!((script.connection.ending(), released), (Some(Ending::AddressLost), vec![0]));
    assert_eq!(script.connection.deadline(), None);
}

/// RFC 9293, §3.10.7.1.
#[test]
fn what_has_no_connection_is_reset_but_for_resets() {
    let header = Header { source: 5, destination: 6, sequence: Sequence(u32::MAX), ..Header::default() };
    let syn = Header { flags: Flags::SYN, ..header };
    let answer = reset_for(&syn, 10).unwrap();
    assert_eq!((answer.source, answer.destination, answer.acknowledgement), (6, 5, Sequence(10)));
    assert!(answer.flags == Flags::RST.with(Flags::ACK) && answer.sequence == Sequence(0));
    let late = Header { flags: Flags::ACK, acknowledgement: Sequence(77), ..header };
    let answer = reset_for(&late, 10).unwrap();
    assert_eq!((answer.sequence, answer.flags), (Sequence(77), Flags::RST));
    assert_eq!(reset_for(&Header { flags: Flags::RST, ..header }, 0), None);
}

/// RFC 6298, §3: whoever repeats a SYN neither shortens the round trip nor is waited for longer.
#[test]
fn a_repeated_syn_neither_measures_nor_puts_off_the_end() {
    let mut script = Script::accept(settings(), "S 0+0 mss 1000");
    script.expect("S. 0+0 ack 1");
    let due = script.connection.deadline();
    script.pass(900);
    script.inject("S 0+0 mss 1000");
    script.expect("S. 0+0 ack 1");
    assert_eq!(script.connection.deadline(), due);
    script.inject(". 1+0 ack 1");
    assert_eq!((script.state(), script.connection.round_trip()), (State::Established, None));
}

/// RFC 6298, §5.7.
#[test]
fn after_a_lost_syn_the_first_timeout_is_three_seconds() {
    let mut script = Script::connect(settings());
    script.expect("S 0+0");
    script.wait();
    script.expect("S 0+0");
    script.inject("S. 0+0 ack 1 mss 1000");
    script.expect(". 1+0 ack 1");
    script.write(1000);
    script.expect("P. 1+1000 ack 1");
    assert_eq!(script.wait(), 3000);
}

/// RFC 7323, §2.2: the window of a segment with SYN is never scaled.
#[test]
fn the_window_of_a_simultaneous_opening_is_not_scaled() {
    let mut script = Script::connect(settings());
    script.expect("S 0+0");
    script.inject("S 0+0 mss 1000 scale 7 win 1000");
    script.expect("S. 0+0 ack 1");
    script.inject("S. 0+0 ack 1 mss 1000 scale 7 win 1000");
    script.expect(". 1+0 ack 1");
    script.write(9000);
    script.expect(". 1+896 ack 1");
    script.nothing();
}

/// RFC 9293, §3.10.7.4: numbers in order would step over a FIN before what has arrived, and the end
/// would never be seen.
#[test]
fn a_fin_before_what_has_arrived_is_not_believed() {
    let mut script = Script::open(settings(), true);
    script.inject(". 2001+1000 ack 1");
    script.expect(". 1+0 ack 1 blocks 2001-3001");
    script.inject("F. 2501+0 ack 1");
    assert_eq!(script.inject(". 1+2000 ack 1").map(|placement| placement.ready), Some(3000));
    script.inject("F. 3001+0 ack 1");
    assert_eq!(script.state(), State::CloseWait);
    script.expect(". 1+0 ack 3002");
}

/// The same data again, now with the FIN behind it.
#[test]
fn a_fin_with_data_that_has_arrived_counts() {
    let mut script = Script::open(settings(), true);
    script.inject(". 1001+1000 ack 1");
    script.inject("F. 1001+1000 ack 1");
    script.inject(". 1+1000 ack 1");
    assert_eq!((script.state(), script.connection.readable()), (State::CloseWait, 2000));
    script.expect(". 1+0 ack 2002");
}

/// RFC 9293, §3.6: what was closed one way goes on the other way, as long as it likes.
#[test]
fn a_side_that_has_closed_goes_on_reading() {
    let mut script = Script::open(settings(), true);
    script.close();
    script.expect("FP. 1+0 ack 1");
    script.inject(". 1+0 ack 2");
    assert_eq!((script.state(), script.connection.deadline()), (State::FinWait2, None));
    script.pass(1_000_000);
    for start in (1..59_001).step_by(2000) {
        script.inject(&format!(". {start}+1000 ack 2"));
        script.inject(&format!("P. {}+1000 ack 2", start + 1000));
        script.read(2000);
        script.expect(&format!(". 2+0 ack {} win 60000", start + 2000));
        script.nothing();
    }
    script.inject("F. 60001+0 ack 2");
    assert_eq!(script.state(), State::TimeWait);
}

/// Ends a connection that this side has closed first, with 10 bytes each way.
fn wait_after(mut script: Script, stamps: [&str; 2]) -> Script {
    script.write(10);
    script.close();
    script.expect("FP. 1+10 ack 1");
    script.inject(&format!("FP. 1+10 ack 12{}", stamps[0]));
    script.expect(". 12+0 ack 12");
    assert_eq!(script.state(), State::TimeWait);
    script.inject(&format!(". 12+0 ack 12{}", stamps[1]));
    script
}

/// RFC 9293, §3.6.1, and RFC 6191, §2.
#[test]
fn a_later_syn_opens_a_connection_in_place_of_one_that_waits() {
    let script = wait_after(Script::open(settings(), true), [""; 2]);
    assert!(script.succeeded_by("S 13+0").is_some_and(|first| first > 12 + 65_535));
    assert!(script.succeeded_by("SEW 13+0").is_some());
    assert!(script.succeeded_by("S 3+0 stamps 1:0").is_some());
    for other in ["S 12+0", "S 3+0", "S. 13+0 ack 1", "SF 13+0", "SR 13+0", ". 13+0 ack 1"] {
        assert_eq!(script.succeeded_by(other), None, "{other}");
    }

    let script = wait_after(Script::open_with_stamps(settings()), [" stamps 5001:1100", " stamps 5001:1100"]);
    for syn in ["S 3+0 stamps 5002:0", "S 13+0 stamps 5001:0", "S 13+0"] {
        assert!(script.succeeded_by(syn).is_some(), "{syn}");
    }
    for syn in ["S 13+0 stamps 5000:0", "S 3+0 stamps 5001:0", "S 12+0"] {
        assert_eq!(script.succeeded_by(syn), None, "{syn}");
    }
    assert_eq!(Script::open(settings(), true).succeeded_by("S 13+0"), None, "it does not wait");
}

/// What is kept in place of a connection in TIME-WAIT answers as that would, but no more than ten
/// times a second.
#[test]
fn what_is_kept_of_a_connection_answers_as_it_does() {
    let with_stamps = Script::open_with_stamps(settings());
    for (open, stamps) in [(Script::open(settings(), true), ""), (with_stamps, " stamps 5001:1100")] {
        let mut script = wait_after(open, [stamps; 2]);
        let mut kept = script.connection.time_wait().expect("both have closed");
        let mut answered = 0;
        for segment in [
            "F. 11+0 ack 12",
            "FP. 1+10 ack 12",
            "P. 1+10 ack 12",
            ". 1+0 ack 12",
            ". 12+0 ack 12",
            ". 12+0 ack 11",
            "R 12+0",
            "R. 12+0 ack 12",
            "R 11+0",
            "S 0+0",
            "S 12+0",
            "S 5000+0",
            "SR 0+0",
            " 11+0",
            "F 11+0",
            "S. 0+0 ack 1",
            ". 90000+0 ack 12",
            ". 12+0 ack 12 stamps 4000:1100",
            "F. 11+0 ack 12 stamps 4000:1100",
        ] {
            script.pass(1000);
            let is_stamped = segment.contains("stamps");
            let line = if is_stamped { segment.to_owned() } else { format!("{segment}{stamps}") };
            script.inject(&line);
            let (wanted, found) = (script.sent(), script.answer(&mut kept, &line));
            assert_eq!(found, wanted, "{line}");
            answered += u32::from(found.is_some());
        }
        assert!(answered > 8, "{answered}");
        script.inject("F. 11+0 ack 12");
        assert_eq!(script.answer(&mut kept, "F. 11+0 ack 12"), script.sent(), "without a timestamp");
        assert!(script.answer(&mut kept, "S 0+0").is_some(), "another host need not have timestamps");
        script.pass(1000);
        let line = format!("F. 11+0 ack 12{stamps}");
        let times = (0..20).filter(|_| script.answer(&mut kept, &line).is_some()).count();
        assert_eq!(times, 10, "a second");
    }
}

/// What goes on where a connection has stopped is told from what another one between the same ports
/// sends, whose numbers are others.
#[test]
fn only_what_goes_on_with_both_numbers_is_of_the_same_connection() {
    let script = wait_after(Script::open(settings(), true), [""; 2]);
    let kept = script.connection.time_wait().expect("both have closed");
    for (segment, is_continued) in [
        (". 12+0 ack 12", true),
        ("F. 12+0 ack 12", true),
        (". 11+0 ack 12", false),
        (". 12+0 ack 11", false),
        (". 12+0 ack 13", false),
        ("P. 13+10 ack 12", false),
    ] {
        assert_eq!(script.is_continued(&kept, segment), is_continued, "{segment}");
    }
}

/// The same in FIN-WAIT-2, where nobody reads: what the peer sends in order is taken, whole, as
/// soon as it comes, and nothing else is.
#[test]
fn what_is_kept_before_the_peer_has_ended_takes_what_comes_next() {
    let with_stamps = Script::open_with_stamps(settings());
    for (mut script, stamps) in [(Script::open(settings(), true), ""), (with_stamps, " stamps 5001:1100")] {
        script.write(10);
        script.close();
        script.expect("FP. 1+10 ack 1");
        assert!(script.connection.time_wait().is_none(), "this side's end is not acknowledged");
        script.inject(&format!(". 1+0 ack 12{stamps}"));
        assert_eq!(script.state(), State::FinWait2);
        let mut kept = script.connection.time_wait().expect("only the peer's end is awaited");
        for (segment, acknowledged) in [
            (". 1+0 ack 12", None),
            ("P. 1+10 ack 12", Some(11)),
            ("P. 1+10 ack 12", Some(11)),
            ("P. 21+10 ack 12", Some(11)),
            ("F. 21+0 ack 12", Some(11)),
            ("S 11+0", Some(11)),
            ("R 11+0", None),
            ("P. 11+10 ack 12", Some(21)),
            ("FP. 21+10 ack 12", Some(32)),
            ("FP. 21+10 ack 12", Some(32)),
            ("P. 32+10 ack 12", Some(32)),
            (". 32+0 ack 12", None),
        ] {
            let line = format!("{segment}{stamps}");
            let found = script.answer(&mut kept, &line);
            let wanted = acknowledged.map(|number| format!(". 12+0 ack {number}"));
            assert!(
                found.as_ref().zip(wanted.as_ref()).is_some_and(|(found, wanted)| found.starts_with(wanted))
                    || found == wanted,
                "{line}: {found:?}, not {wanted:?}"
            );
        }
        // The end with a word of congestion (RFC 3168) is the end, and what acknowledges nothing,
        // or what was never sent, is from nobody.
        let mut kept = script.connection.time_wait().expect("as before");
        for other in [" 1+10 ack 12", "F 1+0 ack 12", "P. 1+10 ack 5000", "F. 1+0 ack 90000"] {
            let found = script.answer(&mut kept, &format!("{other}{stamps}"));
            assert!(found.is_none_or(|found| found.contains("ack 1 ") || found.ends_with("ack 1")), "{other}");
        }
        assert!(script.answer(&mut kept, &format!("FEW. 1+0 ack 12{stamps}")).is_some());
        assert!(script.is_end(&kept, &format!("FEW. 1+0 ack 12{stamps}")));
        // An old one, and one without a timestamp where there are some, are not what comes next.
        // What is taken is what is echoed (RFC 7323, §4.3).
        let mut kept = script.connection.time_wait().expect("as before");
        if !stamps.is_empty() {
            assert!(
                script.answer(&mut kept, "P. 1+10 ack 12 stamps 4000:1100").is_some_and(|it| it.contains("ack 1 "))
            );
            assert_eq!(script.answer(&mut kept, "P. 1+10 ack 12"), None);
            let answer = script.answer(&mut kept, "P. 1+10 ack 12 stamps 9000:1100").expect("it is taken");
            assert!(answer.ends_with(":9000"), "{answer}");
        }
        // With a hole before what has come, the connection itself is needed.
        script.inject(&format!("P. 11+10 ack 12{stamps}"));
        assert!(script.connection.time_wait().is_none());
    }
}
