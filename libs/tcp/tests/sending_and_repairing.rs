//! What is sent when, what is done for losses, and what is acknowledged, rule by rule.

#[path = "common/script.rs"]
mod script;

use culm_tcp::{Ending, Placement, Settings, State};
use script::{Script, settings};

/// Gives `bytes` and takes the segments of 1000 bytes that go out from `first` on.
#[track_caller]
fn write_and_expect(script: &mut Script, bytes: u32, first: u32, segments: u32) {
    script.write(bytes);
    for number in 0..segments {
        let is_last = first + (number + 1) * 1000 > bytes;
        script.expect(&format!("{} {}+1000 ack 1", if is_last { "P." } else { "." }, first + number * 1000));
    }
    script.nothing();
}

/// RFC 6928 and RFC 5681, §3.1.
#[test]
fn ten_segments_go_first_and_slow_start_follows() {
    let mut script = Script::open(settings(), true);
    write_and_expect(&mut script, 40_000, 1, 10);
    script.pass(100);
    script.inject(". 1+0 ack 2001");
    for start in [10_001, 11_001, 12_001, 13_001] {
        script.expect(&format!(". {start}+1000 ack 1"));
    }
    script.nothing();
}

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

/// RFC 5681, §4.1.
#[test]
fn after_idleness_ten_segments_go() {
    let mut script = Script::open(settings(), true);
    write_and_expect(&mut script, 30_000, 1, 10);
    script.pass(100);
    script.inject(". 1+0 ack 10001");
    for number in 10..28 {
        script.expect(&format!(". {}+1000 ack 1", number * 1000 + 1));
    }
    script.pass(100);
    script.inject(". 1+0 ack 28001");
    script.expect(". 28001+1000 ack 1");
    script.expect("P. 29001+1000 ack 1");
    script.inject(". 1+0 ack 30001");
    assert!(script.connection.congestion_window() > 20_000);
    script.pass(10_000);
    script.write(30_000);
    for number in 30..40 {
        script.expect(&format!(". {}+1000 ack 1", number * 1000 + 1));
    }
    script.nothing();
}

/// RFC 9293, §3.8.6.1.
#[test]
fn a_closed_window_is_probed_ever_more_seldom_without_end() {
    let mut script = Script::open(settings(), true);
    script.inject(". 1+0 ack 1 win 0");
    script.write(10);
    script.nothing();
    for times in [1, 2, 4, 8, 16, 32, 64, 128] {
        assert_eq!(script.wait(), 300 * times);
        script.expect(". 1+1 ack 1");
        script.nothing();
        script.inject(". 1+0 ack 1 win 0");
        script.nothing();
    }
    script.inject(". 1+0 ack 1 win 60000");
    script.expect(". 1+1 ack 1");
    script.expect("P. 2+9 ack 1");
    script.nothing();
}

/// RFC 9293, §3.8.6.2.1.
#[test]
fn a_small_window_is_not_filled_with_small_segments() {
    let mut script = Script::open(settings(), true);
    script.inject(". 1+0 ack 1 win 500");
    script.write(5000);
    script.nothing();
    assert_eq!(script.wait(), 300);
    script.expect(". 1+500 ack 1");
    script.nothing();
}

/// RFC 9293, §3.8.6.2.2.
#[test]
fn the_window_opens_by_two_segments_at_least() {
    let mut script = Script::open(settings(), true);
    script.inject(". 1+1000 ack 1");
    script.inject(". 1001+1000 ack 1");
    script.expect(". 1+0 ack 2001 win 58000");
    script.connection.read(1999);
    script.nothing();
    script.connection.read(1);
    script.expect(". 1+0 ack 2001 win 60000");
}

/// RFC 9293, §3.8.6.3, and RFC 5681, §4.2.
#[test]
fn every_second_segment_is_acknowledged_at_once_and_a_single_one_soon() {
    let mut script = Script::open(settings(), true);
    assert!(script.inject("P. 1+1000 ack 1").is_some());
    script.nothing();
    assert_eq!(script.wait(), 40);
    script.expect(". 1+0 ack 1001");
    script.inject(". 1001+1000 ack 1");
    script.nothing();
    script.inject(". 2001+1000 ack 1");
    script.expect(". 1+0 ack 3001");
    // Data takes the acknowledgement along.
    script.inject("P. 3001+10 ack 1");
    script.write(10);
    script.expect("P. 1+10 ack 3011");
    script.nothing();
}

/// RFC 2018, §4, and RFC 2883, §4.
#[test]
fn what_is_out_of_order_is_told_at_once_and_duplicates_too() {
    let mut script = Script::open(settings(), true);
    let placement = script.inject(". 2001+1000 ack 1");
    assert_eq!(placement, Some(Placement { skip: 0, length: 1000, offset: 2000, ready: 0 }));
    script.expect(". 1+0 ack 1 blocks 2001-3001");
    script.inject(". 4001+1000 ack 1");
    script.expect(". 1+0 ack 1 blocks 4001-5001,2001-3001");
    assert_eq!(script.inject(". 1+1000 ack 1").map(|placement| placement.ready), Some(1000));
    script.expect(". 1+0 ack 1001 blocks 4001-5001,2001-3001");
    assert_eq!(script.inject(". 1001+1000 ack 1").map(|placement| placement.ready), Some(2000));
    script.expect(". 1+0 ack 3001 blocks 4001-5001");
    assert_eq!(script.inject(". 4001+1000 ack 1").map(|placement| placement.ready), Some(0));
    script.expect(". 1+0 ack 3001 blocks 4001-5001,4001-5001");
}

/// RFC 7323, §3.2 and §5.3.
#[test]
fn what_is_older_than_the_last_timestamp_is_not_taken() {
    let mut script = Script::open_with_stamps(settings());
    assert_eq!(script.inject("P. 1+10 ack 1 stamps 4999:1100"), None);
    script.expect(". 1+0 ack 1 stamps 1100:5000");
    assert_eq!(script.inject("P. 1+10 ack 1"), None);
    script.nothing();
    assert!(script.inject("P. 1+10 ack 1 stamps 5001:1100").is_some());
    assert_eq!(script.connection.readable(), 10);
}

/// RFC 6093: urgent data is data.
#[test]
fn urgent_data_is_data() {
    let mut script = Script::open(settings(), true);
    assert_eq!(script.inject("PU. 1+10 ack 1").map(|placement| placement.ready), Some(10));
}

#[test]
fn what_is_beyond_the_window_is_cut() {
    let mut script = Script::open(Settings { capacity: 1500, ..settings() }, true);
    assert_eq!(script.inject(". 1+1000 ack 1").map(|placement| placement.length), Some(1000));
    assert_eq!(script.inject(". 1001+1000 ack 1").map(|placement| placement.length), Some(500));
    assert_eq!(script.connection.readable(), 1500);
    script.expect(". 1+0 ack 1501 win 0");
    assert_eq!(script.inject(". 1501+1 ack 1"), None);
    script.expect(". 1+0 ack 1501 win 0");
}

/// RFC 1191, §6.4, and RFC 5927, §4.1.
#[test]
fn what_was_too_big_is_sent_again_in_shorter_segments() {
    let mut script = Script::open(settings(), true);
    write_and_expect(&mut script, 3000, 1, 3);
    assert!(!script.too_big(3001, 600), "not on the way");
    assert!(!script.too_big(0, 600), "acknowledged");
    assert!(!script.too_big(1, 1000), "not shorter");
    assert!(script.too_big(1, 600));
    for start in [1, 601, 1201, 1801] {
        script.expect(&format!(". {start}+600 ack 1"));
    }
    script.expect("P. 2401+600 ack 1");
    script.nothing();
    assert_eq!(script.connection.congestion_window(), 10_000);
    assert!(script.too_big(1, 60));
    script.expect(". 1+512 ack 1");
}

/// RFC 4821, §7.7.
#[test]
fn a_path_that_swallows_long_segments_gets_shorter_ones() {
    // Among segments of up to 1300 bytes, one of 1000 is not helped by the first length tried.
    let mut script = Script::connect(Settings { segment: 1300, ..settings() });
    script.expect("S 0+0 mss 1300");
    script.pass(100);
    script.inject("S. 0+0 ack 1 win 60000 mss 1300");
    script.expect(". 1+0 ack 1");
    script.write(1000);
    script.expect("P. 1+1000 ack 1");
    script.wait();
    script.expect("P. 1+1000 ack 1");
    script.wait();
    script.expect(". 1+536 ack 1");
    script.nothing();
    script.inject(". 1+0 ack 537");
    script.expect("P. 537+464 ack 1");
}

/// RFC 9293, §3.8.6.2.2: a window that grew a little is not told with other news either.
#[test]
fn an_acknowledgement_does_not_tell_of_a_little_more_window() {
    let mut script = Script::open(settings(), true);
    script.inject(". 1+1000 ack 1");
    script.inject(". 1001+1000 ack 1");
    script.expect(". 1+0 ack 2001 win 58000");
    script.connection.read(1000);
    script.inject("P. 2001+100 ack 1");
    assert_eq!(script.wait(), 40);
    script.expect(". 1+0 ack 2101 win 57900");
}

/// A receiver takes back nothing that it has offered (RFC 9293, §3.8.6): what was sent before its
/// window closed has not to be sent again when that opens, or two short segments of a peer's would
/// cost a whole congestion window, as often as it likes.
#[test]
fn a_window_that_opens_and_closes_has_nothing_sent_again() {
    for open in [1, 500, 60_000] {
        let mut script = Script::open(settings(), true);
        write_and_expect(&mut script, 10_000, 1, 10);
        script.pass(10);
        for _ in 0..20 {
            script.inject(". 1+0 ack 1 win 0");
            script.nothing();
            script.inject(&format!(". 1+0 ack 1 win {open}"));
            script.nothing();
        }
    }
}

/// What is taken for lost goes as far as the window that the peer has now, at most.
#[test]
fn what_is_sent_again_keeps_to_the_window() {
    let mut script = Script::open(settings(), true);
    write_and_expect(&mut script, 10_000, 1, 10);
    script.pass(100);
    script.inject(". 1+0 ack 1 win 1 blocks 5001-10001");
    script.expect(". 1+1 ack 1");
    script.nothing();
    script.pass(100);
    script.inject(". 1+0 ack 2 win 1500 blocks 5001-10001");
    script.expect(". 2+1000 ack 1");
    script.expect(". 1002+500 ack 1");
    script.nothing();
}

/// RFC 9293, §3.10.7.4, first: the peer's probe was not taken, so its numbers are one ahead.
#[test]
fn a_closed_window_lets_acknowledgements_through() {
    let mut script = Script::open(Settings { capacity: 1000, ..settings() }, true);
    script.inject(". 1+1000 ack 1");
    script.write(10);
    script.expect("P. 1+10 ack 1001 win 0");
    script.inject(". 1002+0 ack 11");
    assert_eq!(script.released, [0]);
    script.connection.read(1000);
    script.expect(". 11+0 ack 1001 win 1000");
}

/// The number of an acknowledgement is one ahead of a closed window after a probe of it. That may
/// be the only one of the FIN, after which no timer runs.
#[test]
fn a_closed_window_lets_the_acknowledgement_of_a_fin_through() {
    for (from_peer, state) in [("P. 1+1000 ack 1", State::FinWait2), ("F. 1+1000 ack 1", State::Closed)] {
        let mut script = Script::open(Settings { capacity: 1000, ..settings() }, true);
        script.inject(from_peer);
        script.close();
        script.expect("FP. 1+0");
        let next = if state == State::Closed { 1002 } else { 1001 };
        script.inject(&format!(". {}+0 ack 2 win 60000", next + 1));
        assert_eq!(script.state(), state, "{from_peer}");
    }
}

/// RFC 6298, §5.3: only an acknowledgement of new data restarts the timer.
#[test]
fn a_peer_whose_window_moves_does_not_put_off_a_timeout() {
    let mut script = Script::open(settings(), true);
    script.write(1000);
    script.expect("P. 1+1000 ack 1");
    let due = script.connection.deadline();
    script.pass(50);
    script.inject(". 1+0 ack 1 win 59000");
    assert_eq!(script.connection.deadline(), due);
}

/// The peer threw the probe away because it had no space, which is no word of the path.
#[test]
fn a_window_that_opens_again_leaves_the_congestion_window() {
    let mut script = Script::open(settings(), true);
    write_and_expect(&mut script, 1000, 1, 1);
    script.pass(100);
    script.inject(". 1+0 ack 1001 win 0");
    script.write(20_000);
    script.nothing();
    let before = script.connection.congestion_window();
    script.wait();
    script.expect(". 1001+1 ack 1");
    script.inject(". 1+0 ack 1001 win 0");
    script.pass(10);
    script.inject(". 1+0 ack 1001 win 60000");
    assert_eq!(script.connection.congestion_window(), before);
    script.expect(". 1001+1 ack 1");
    script.expect(". 1002+1000 ack 1");
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

/// RFC 9293, §3.10.7.4, first: a peer that has filled the window and lost its first segment has no
/// other number than that behind the window.
#[test]
fn an_acknowledgement_right_behind_the_window_counts() {
    let mut script = Script::open(Settings { capacity: 2000, ..settings() }, true);
    script.write(1000);
    script.expect("P. 1+1000 ack 1 win 2000");
    script.inject(". 1001+1000 ack 1");
    script.expect(". 1001+0 ack 1 win 2000 blocks 1001-2001");
    script.inject(". 2001+0 ack 1001");
    assert_eq!(script.released, [0]);
    script.nothing();
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

/// What is worth a train waits for it as long as an acknowledgement is to come; less does not, nor
/// does the first segment after all is acknowledged, an acknowledgement, or what is lost.
#[test]
fn what_is_worth_a_train_waits_for_one() {
    let mut script = Script::open(settings(), true);
    script.connection.set_train_awaited(true);
    script.write(60_000);
    script.expect(". 1+1000 ack 1");
    assert!(!script.connection.is_held());
    script.nothing();
    assert!(script.connection.is_held());
    script.inject("P. 1+2000 ack 1");
    script.expect(". 1001+0 ack 2001");
    script.pass(100);
    script.inject(". 2001+0 ack 1001");
    script.expect(". 1001+1000 ack 2001");
    script.nothing();
    script.connection.set_longest_train(8000);
    script.connection.set_train_awaited(false);
    script.expect(". 2001+8000 ack 2001");
    assert!(!script.connection.is_held());
    script.connection.set_longest_train(1000);
    script.connection.set_train_awaited(true);
    // Two segments of the congestion window are left, which are not worth it.
    script.expect(". 10001+1000 ack 2001");
    script.expect(". 11001+1000 ack 2001");
    script.nothing();
    assert!(!script.connection.is_held());
}
