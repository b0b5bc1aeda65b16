//! What is done for losses, and for what only seems to be one, rule by rule.

#[path = "common/script.rs"]
mod script;

use culm_tcp::{Ending, State};
use script::{Script, settings, write_and_expect};

/// RFC 8985, §6.2: three segments that have arrived behind a hole leave no time for reordering.
#[test]
fn a_hole_with_three_segments_behind_it_is_filled_at_once_and_once() {
    let mut script = Script::open(settings(), true);
    write_and_expect(&mut script, 10_000, 1, 10);
    script.pass(100);
    script.inject(". 1+0 ack 1 blocks 1001-2001");
    script.nothing();
    script.inject(". 1+0 ack 1 blocks 1001-4001");
    script.expect(". 1+1000 ack 1");
    script.nothing();
    script.inject(". 1+0 ack 1 blocks 1001-5001");
    script.nothing();
    script.inject(". 1+0 ack 10001");
    assert_eq!(script.connection.congestion_window(), 5000);
    assert_eq!(script.released, [0]);
}

/// RFC 8985, §6.2 and §6.3.
#[test]
fn a_hole_waits_a_quarter_of_a_round_trip_for_what_comes_late() {
    let mut script = Script::open(settings(), true);
    write_and_expect(&mut script, 10_000, 1, 10);
    script.pass(100);
    script.inject(". 1+0 ack 1 blocks 1001-2001");
    assert_eq!(script.wait(), 25);
    script.expect(". 1+1000 ack 1");

    let mut script = Script::open(settings(), true);
    write_and_expect(&mut script, 10_000, 1, 10);
    script.pass(100);
    script.inject(". 1+0 ack 1 blocks 1001-2001");
    script.pass(20);
    script.inject(". 1+0 ack 2001");
    script.nothing();
    assert!(script.connection.congestion_window() >= 10_000);
    // Reordering was seen: three segments are no proof any more.
    script.inject(". 1+0 ack 2001 blocks 3001-7001");
    script.nothing();
}

/// RFC 8985, §6.2, and RFC 3522: what was sent again for nothing tells how late it came. Its
/// reordering window is no quarter of the least round trip any more.
#[test]
fn what_was_sent_again_for_nothing_tells_how_late_it_came() {
    let mut script = Script::open_with_stamps(settings());
    script.write(20_000);
    for start in (1..9881).step_by(988) {
        script.expect(&format!(". {start}+988 ack 1 stamps 1100:5000"));
    }
    // The last one overtakes all, and takes half of the time.
    script.pass(50);
    script.inject(". 1+0 ack 1 stamps 5000:1000 blocks 8893-9881");
    script.expect(". 9881+988 ack 1");
    assert_eq!(script.wait(), 12);
    script.expect(". 1+988 ack 1 stamps 1162:5000");
    script.nothing();
    script.pass(38);
    script.inject(". 1+0 ack 989 stamps 5000:1100 blocks 8893-9881");
    script.expect(". 10869+988 ack 1");
    script.expect(". 11857+988 ack 1");
    script.nothing();
    // The others may be as late: they were sent 100.5 ms ago, and timestamps are whole
    // milliseconds.
    script.wait();
    assert_eq!(script.now, 1_201_000);
    script.expect(". 989+988 ack 1");
}

/// RFC 3042.
#[test]
fn what_arrives_behind_a_hole_lets_new_data_go() {
    let mut script = Script::open(settings(), true);
    write_and_expect(&mut script, 20_000, 1, 10);
    script.pass(100);
    script.inject(". 1+0 ack 1 blocks 1001-2001");
    script.expect(". 10001+1000 ack 1");
    script.nothing();
    script.inject(". 1+0 ack 1 blocks 1001-3001");
    script.expect(". 11001+1000 ack 1");
    script.nothing();
}

/// RFC 8985, §7.
#[test]
fn a_lost_tail_is_probed_before_the_timeout() {
    let mut script = Script::open(settings(), true);
    write_and_expect(&mut script, 3000, 1, 3);
    assert_eq!(script.wait(), 200);
    script.expect("P. 2001+1000 ack 1");
    script.nothing();
    // The probe tells of two losses.
    script.pass(100);
    script.inject(". 1+0 ack 1 blocks 2001-3001");
    script.expect(". 1+1000 ack 1");
}

/// A round trip of a millisecond: a pause of some more is no loss.
#[test]
fn a_probe_waits_out_a_short_pause() {
    let mut script = Script::connect(settings());
    script.expect("S 0+0 mss 1000 sack-ok");
    script.pass(1);
    script.inject("S. 0+0 ack 1 win 60000 mss 1000 sack-ok");
    script.expect(". 1+0 ack 1");
    write_and_expect(&mut script, 3000, 1, 3);
    assert_eq!(script.wait(), 30);
    script.expect("P. 2001+1000 ack 1");
}

#[test]
fn a_probe_is_new_data_if_there_is_any() {
    let mut script = Script::open(settings(), true);
    write_and_expect(&mut script, 20_000, 1, 10);
    assert_eq!(script.wait(), 200);
    script.expect(". 10001+1000 ack 1");
    script.nothing();
    assert_eq!(script.wait(), 300);
    script.expect(". 1+1000 ack 1");
    script.nothing();
}

/// RFC 6298, §5, and RFC 5681, §3.1.
#[test]
fn a_timeout_leaves_one_segment_and_slow_start_follows() {
    let mut script = Script::open(settings(), false);
    write_and_expect(&mut script, 3000, 1, 3);
    assert_eq!(script.wait(), 300);
    script.expect(". 1+1000 ack 1");
    script.nothing();
    script.inject(". 1+0 ack 1001");
    script.expect(". 1001+1000 ack 1");
    script.expect("P. 2001+1000 ack 1");
    script.nothing();
}

/// RFC 2018, §8: what was told of may be thrown away until it is acknowledged.
#[test]
fn what_a_receiver_told_of_and_threw_away_is_sent_again() {
    let mut script = Script::open(settings(), true);
    write_and_expect(&mut script, 3000, 1, 3);
    script.inject(". 1+0 ack 1 blocks 1001-3001");
    script.wait();
    script.expect(". 1+1000 ack 1");
    script.inject(". 1+0 ack 1001");
    let mut again = Vec::new();
    for _ in 0..20 {
        while let Some(sent) = script.connection.transmit(culm_tcp::Instant(script.now)) {
            again.push(sent.length);
        }
        if !again.is_empty() {
            break;
        }
        script.wait();
    }
    assert!(!again.is_empty() && script.state() == State::Established, "it would wait for ever");
}

/// RFC 9293, §3.8.3, MUST-21: the application says how long.
#[test]
fn how_often_is_tried_can_be_set() {
    let mut script = Script::open(settings(), false);
    script.connection.set_attempts(1);
    script.write(1000);
    script.expect("P. 1+1000 ack 1");
    script.wait();
    script.expect("P. 1+1000 ack 1");
    script.wait();
    assert_eq!(script.connection.ending(), Some(Ending::TimedOut));
}

#[test]
fn timeouts_double_until_a_peer_that_does_not_answer_is_given_up() {
    let mut script = Script::open(settings(), false);
    script.write(500);
    script.expect("P. 1+500 ack 1");
    for times in [1, 2, 4, 8, 16] {
        assert_eq!(script.wait(), 300 * times);
        script.expect("P. 1+500 ack 1");
    }
    script.wait();
    assert_eq!((script.connection.ending(), &script.released[..]), (Some(Ending::TimedOut), &[0][..]));
}

/// RFC 3522 and RFC 4015: an acknowledgement of what was sent first undoes the timeout.
#[test]
fn a_timeout_that_was_none_is_taken_back() {
    for is_spurious in [true, false] {
        let mut script = Script::open_with_stamps(settings());
        script.write(2964);
        for start in [1, 989] {
            script.expect(&format!(". {start}+988 ack 1 stamps 1100:5000"));
        }
        script.expect("P. 1977+988 ack 1");
        assert_eq!(script.wait(), 200);
        script.expect("P. 1977+988 ack 1 stamps 1300:5000");
        assert_eq!(script.wait(), 300);
        script.expect(". 1+988 ack 1 stamps 1600:5000");
        script.nothing();
        script.inject(if is_spurious { ". 1+0 ack 989 stamps 5600:1100" } else { ". 1+0 ack 989 stamps 5600:1600" });
        if is_spurious {
            script.nothing();
            assert_eq!(script.connection.congestion_window(), 9880);
        } else {
            script.expect(". 989+988 ack 1");
            assert!(script.connection.congestion_window() < 2000);
        }
    }
}

/// RFC 5681, §3.2, and RFC 6582, §3.2.
#[test]
fn without_sack_three_duplicates_and_partial_acknowledgements_repair() {
    let mut script = Script::open(settings(), false);
    write_and_expect(&mut script, 10_000, 1, 10);
    script.pass(100);
    script.inject(". 1+0 ack 1");
    script.inject(". 1+0 ack 1");
    // What changes the window is no duplicate (RFC 5681, §2).
    script.inject(". 1+0 ack 1 win 50000");
    script.nothing();
    script.inject(". 1+0 ack 1 win 50000");
    script.expect(". 1+1000 ack 1");
    script.nothing();
    script.inject(". 1+0 ack 4001 win 50000");
    script.expect(". 4001+1000 ack 1");
    script.nothing();
    script.inject(". 1+0 ack 10001 win 50000");
    script.nothing();
    assert_eq!(script.connection.congestion_window(), 5000);
}

/// RFC 8985, §6.2: a hole beside what is acknowledged by the same segment is no reordering.
#[test]
fn an_acknowledgement_with_a_block_tells_of_no_reordering() {
    let mut script = Script::open(settings(), true);
    write_and_expect(&mut script, 6000, 1, 6);
    script.pass(100);
    script.inject(". 1+0 ack 1001 blocks 2001-3001");
    script.nothing();
    script.inject(". 1+0 ack 1001 blocks 2001-5001");
    script.expect(". 1001+1000 ack 1");
}

/// RFC 8985, §6.2: timestamps make segments shorter, and three of them are as many.
#[test]
fn three_segments_with_timestamps_leave_no_time_for_reordering() {
    let mut script = Script::open_with_stamps(settings());
    script.write(988 * 5);
    for first in [1, 989, 1977, 2965] {
        script.expect(&format!(". {first}+988 ack 1"));
    }
    script.expect("P. 3953+988 ack 1");
    script.pass(100);
    script.inject(". 1+0 ack 1 stamps 5200:1100 blocks 989-3953");
    script.expect(". 1+988 ack 1");
}

/// Karn's algorithm (RFC 9293, §3.8.1): a timeout stays doubled until a round trip was measured.
#[test]
fn what_was_sent_twice_does_not_end_the_backing_off() {
    let mut script = Script::open(settings(), false);
    script.write(1000);
    script.expect("P. 1+1000 ack 1");
    let timeout = script.wait();
    script.expect("P. 1+1000 ack 1");
    script.pass(10);
    script.inject(". 1+0 ack 1001");
    script.write(1000);
    script.expect("P. 1001+1000 ack 1");
    assert_eq!(script.wait(), 2 * timeout);
    script.expect("P. 1001+1000 ack 1");
    script.inject(". 1+0 ack 2001");
    script.write(1000);
    script.expect("P. 2001+1000 ack 1");
    script.pass(100);
    script.inject(". 1+0 ack 3001");
    script.write(1000);
    script.expect("P. 3001+1000 ack 1");
    assert!(script.wait() <= timeout);
}

/// Karn's algorithm: what had arrived before the repetition was waited for says nothing either.
#[test]
fn what_waited_for_a_repetition_does_not_measure_the_round_trip() {
    let mut script = Script::open(settings(), false);
    write_and_expect(&mut script, 2000, 1, 2);
    let before = script.connection.round_trip();
    script.wait();
    script.expect(". 1+1000 ack 1");
    script.pass(100);
    script.inject(". 1+0 ack 2001");
    assert_eq!(script.connection.round_trip(), before);
}

/// RFC 8985, §7.2, and RFC 6298, §5.1: neither a probe nor the timeout waits for a pause.
#[test]
fn who_sends_a_little_all_the_time_is_told_of_losses() {
    let mut script = Script::open(settings(), true);
    for start in (1..=401).step_by(100) {
        script.write(100);
        script.expect(&format!("P. {start}+100 ack 1"));
        script.pass(55);
    }
    script.write(100);
    script.expect("P. 501+100 ack 1");
    assert_eq!(script.wait(), 300 - 5 * 55);
    script.expect("P. 501+100 ack 1");
    script.write(100);
    script.expect("P. 601+100 ack 1");
    script.pass(200);
    script.write(100);
    script.expect("P. 701+100 ack 1");
    assert_eq!(script.wait(), 100);
    script.expect(". 1+100 ack 1");
}

/// RFC 2883, §5, and RFC 8985, §6.2, step 4: a report that something arrived twice widens the
/// reordering window by a quarter of the round trip, but only where so much was sent again.
#[test]
fn only_what_was_sent_again_is_believed_to_have_arrived_twice() {
    let mut script = Script::open(settings(), true);
    // How long the first of two segments is waited for, when the second has arrived. Each block is
    // then reported as a duplicate.
    let mut waits = |first: u32, reports: &[&str]| {
        write_and_expect(&mut script, 2000, first, 2);
        script.pass(100);
        script.inject(&format!(". 1+0 ack {first} blocks {}-{}", first + 1000, first + 2000));
        let waited = script.wait();
        script.expect(&format!(". {first}+1000 ack 1"));
        script.pass(100);
        script.inject(&format!(". 1+0 ack {}", first + 2000));
        for block in reports {
            script.inject(&format!(". 1+0 ack {} blocks {block}", first + 2000));
        }
        waited
    };
    assert_eq!(waits(1, &["1-2001"]), 25);
    assert_eq!(waits(2001, &["2001-3001"]), 25, "2,000 bytes were not sent again");
    assert_eq!(waits(4001, &[]), 50, "1,000 were");
}
