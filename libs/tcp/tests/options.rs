//! Options that both ends agree on: only in a SYN, and what they mean afterwards (RFC 7323, RFC
//! 2018, RFC 9293, §3.7.1).

#[path = "common/script.rs"]
mod script;

use culm_tcp::{Instant, Settings, Span};
use script::{Script, settings};

/// RFC 7323, §1.3 and §2.2: in any other segment than a SYN a scale means nothing.
#[test]
fn a_scale_counts_in_a_syn_alone() {
    let mut script = Script::open(settings(), false);
    script.inject(". 1+0 ack 1 win 1000 scale 7 mss 200 sack-ok");
    script.write(5000);
    script.expect(". 1+1000 ack 1");
    script.nothing();
}

/// RFC 7323, §2.2: both have to offer it.
#[test]
fn no_window_is_scaled_unless_both_sides_offer_it() {
    let mut script = Script::accept(Settings { capacity: 1 << 20, ..settings() }, "S 0+0 mss 1000");
    script.expect("S. 0+0 win 65535");
    let answer = script.inject(". 1+0 ack 1 win 2000");
    assert_eq!(answer, None);
    script.inject("P. 1+10 ack 1 win 2000");
    script.wait();
    script.expect(". 1+0 ack 11 win 65535");
}

/// RFC 7323, §3.2: what was agreed on is in each segment, and who leaves it out is not heard.
#[test]
fn timestamps_are_in_each_segment_or_it_is_dropped() {
    let mut script = Script::open_with_stamps(settings());
    assert_eq!(script.inject("P. 1+10 ack 1"), None);
    script.nothing();
    assert!(script.inject("P. 1+10 ack 1 stamps 5001:1100").is_some());
    script.write(10);
    script.expect("P. 1+10 ack 11 stamps 1100:5001");
    // A reset needs none.
    script.inject("R 11+0");
    assert!(script.connection.ending().is_some());
}

/// RFC 7323, §4.3: what is echoed is the stamp of the segment at the left edge, so that a delayed
/// acknowledgement counts as part of the round trip, and a hole does not.
#[test]
fn the_stamp_that_is_echoed_is_that_of_the_left_edge() {
    let mut script = Script::open_with_stamps(settings());
    script.inject(". 1+100 ack 1 stamps 5001:1100");
    script.inject(". 101+100 ack 1 stamps 5009:1100");
    script.wait();
    script.expect(". 1+0 ack 201 stamps 1140:5001");
    script.inject(". 301+100 ack 1 stamps 5020:1100");
    script.expect(". 1+0 ack 201 stamps 1140:5001");
    script.inject(". 201+100 ack 1 stamps 5015:1100");
    script.expect(". 1+0 ack 401 stamps 1140:5015");
}

/// RFC 7323, §5.3 and §5.5: an older stamp is not taken, unless the last one is 24 days old.
#[test]
fn a_stamp_protects_against_wrapped_numbers_for_24_days() {
    let mut script = Script::open_with_stamps(settings());
    assert_eq!(script.inject("P. 1+10 ack 1 stamps 4999:1100"), None);
    script.expect(". 1+0 ack 1 stamps 1100:5000");
    assert!(script.inject("P. 1+10 ack 1 stamps 5000:1100").is_some());
    script.wait();
    script.expect(". 1+0 ack 11");
    script.pass(25 * 24 * 3_600_000);
    assert!(script.inject("P. 11+10 ack 1 stamps 4000:1100").is_some());
}

/// RFC 7323, §4.1, and RFC 6298, §3: the echo says which of both was acknowledged, so a round trip
/// is measured though a segment went twice.
#[test]
fn a_stamp_measures_what_was_sent_twice() {
    let mut script = Script::open_with_stamps(settings());
    script.inject(". 1+0 ack 1 stamps 5001:1100");
    let before = script.connection.round_trip();
    script.write(500);
    script.expect("P. 1+500 ack 1");
    while script.connection.transmit(Instant(script.now)).is_none() {
        script.wait();
    }
    let echo = script.now / 1000;
    script.pass(30);
    script.inject(&format!(". 1+0 ack 501 stamps 5400:{echo}"));
    assert!(script.connection.round_trip() < before, "{before:?} {:?}", script.connection.round_trip());
    assert!(script.connection.round_trip() > Some(Span::from_milliseconds(30)));
}

/// RFC 2018, §2 and §3: who has not offered it is sent no blocks, and its own are not read.
#[test]
fn no_blocks_go_where_they_were_not_agreed_on() {
    let mut script = Script::open(settings(), false);
    script.inject(". 1001+1000 ack 1");
    let Some(sent) = script.connection.transmit(Instant(script.now)) else { panic!("a duplicate is due") };
    assert!(sent.header.options.sack.is_empty());
    script.write(3000);
    for start in [1, 1001] {
        script.expect(&format!(". {start}+1000 ack 1"));
    }
    script.expect("P. 2001+1000 ack 1");
    for _ in 0..2 {
        script.inject(". 2001+0 ack 1 blocks 1001-3001");
    }
    script.nothing();
}

/// RFC 9293, §3.7.1 (MUST-15, MUST-16): who says nothing takes 536 bytes over IPv4, and 1,220 over
/// IPv6.
#[test]
fn who_says_no_size_gets_what_every_host_takes() {
    for usual in [536, 1220] {
        let settings = Settings { segment: 1400, longest_train: 0, usual_segment: usual, ..settings() };
        let mut script = Script::accept(settings, "S 0+0");
        script.expect("S. 0+0 mss 1400");
        script.inject(". 1+0 ack 1");
        script.write(5000);
        script.expect(&format!(". 1+{usual} ack 1"));
    }
}
