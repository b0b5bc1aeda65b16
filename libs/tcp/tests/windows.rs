//! What a sender does with a small, a closed and a moving window, rule by rule.

#[path = "common/script.rs"]
mod script;

use script::{Script, settings, write_and_expect};

/// A peer drops what lies behind its closed window, an acknowledgement or a reset as well, and
/// takes no byte of a probe: what says something beside that has the number that it expects (RFC
/// 9293, §3.10.7.4, first).
#[test]
fn beside_a_probe_a_closed_window_gets_the_number_that_it_expects() {
    let mut script = Script::open(settings(), true);
    script.inject(". 1+0 ack 1 win 0");
    script.write(10);
    script.nothing();
    script.wait();
    script.expect(". 1+1 ack 1");
    script.inject("P. 11+5 ack 1 win 0");
    script.expect(". 1+0 ack 1 win 60000 blocks 11-16");
    script.connection.abort(|_| {});
    script.expect("R. 1+0 ack 1");
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
