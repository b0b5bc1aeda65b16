//! What is taken, acknowledged and told of the window, rule by rule.

#[path = "common/script.rs"]
mod script;

use culm_tcp::{Placement, Settings, State};
use script::{Script, settings};

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

/// RFC 9293, §3.8.6, SHLD-14: the end of the window stays where it was told.
#[test]
fn a_window_that_stays_where_it_was_told() {
    let mut script = Script::open(settings(), true);
    for start in (1..50_001).step_by(2000) {
        script.inject(&format!(". {start}+1000 ack 1"));
        script.inject(&format!(". {}+1000 ack 1", start + 1000));
        script.expect(&format!(". 1+0 ack {} win {}", start + 2000, 58_001 - start));
    }
}
