//! What is sent when, in how long segments, rule by rule.

#[path = "common/script.rs"]
mod script;

use culm_tcp::Settings;
use script::{Script, settings, write_and_expect};

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

/// RFC 9293, §3.9.1.2, MUST-60, MUST-61 and SHLD-28: segments are full, and what was given last
/// asks to be handed on.
#[test]
fn every_segment_but_the_last_is_full_and_that_says_so() {
    let mut script = Script::open(settings(), true);
    for _ in 0..5 {
        script.write(500);
    }
    script.expect(". 1+1000 ack 1");
    script.expect(". 1001+1000 ack 1");
    script.expect("P. 2001+500 ack 1");
    script.nothing();
}
