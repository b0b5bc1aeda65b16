//! Timeouts of what was late and not lost, told by two acknowledgements where there are no
//! timestamps (F-RTO, RFC 5682).

#[path = "common/script.rs"]
mod script;

use script::{Script, settings};

/// A connection with ten segments on the way, for which the timeout has passed, and of which the
/// first was sent again. Much waits to be sent.
fn after_a_timeout(has_sack: bool, waiting: u32) -> Script {
    let mut script = Script::open(settings(), has_sack);
    script.write(10_000 + waiting);
    for number in 0..10 {
        let push = if number == 9 && waiting == 0 { "P" } else { "" };
        script.expect(&format!("{push}. {}+1000 ack 1", number * 1000 + 1));
    }
    if has_sack {
        // The probe of the tail, which has data of its own or the last again.
        script.wait();
        assert!(script.connection.transmit(culm_tcp::Instant(script.now)).is_some());
    }
    script.wait();
    script.expect(". 1+1000 ack 1");
    script.nothing();
    script
}

/// Has what was sent again be acknowledged: two new segments from `next` on are the test.
#[track_caller]
fn begin_test(script: &mut Script, next: u32) {
    script.inject(". 1+0 ack 1001");
    script.expect(&format!(". {next}+1000 ack 1"));
    script.expect(&format!(". {}+1000 ack 1", next + 1000));
}

/// RFC 5682, §2.1, steps 2b and 3b: two acknowledgements go on without what was sent again.
#[test]
fn two_acknowledgements_that_go_on_take_the_timeout_back() {
    for has_sack in [false, true] {
        let mut script = after_a_timeout(has_sack, 40_000);
        let next = if has_sack { 11_001 } else { 10_001 };
        begin_test(&mut script, next);
        script.nothing();
        assert!(script.connection.congestion_window() <= 3000);
        script.inject(". 1+0 ack 2001");
        // The window is what it was, and nothing is sent again.
        assert!(script.connection.congestion_window() >= 10_000, "{}", script.connection.congestion_window());
        if !has_sack {
            script.nothing();
        }
        script.inject(". 1+0 ack 10001");
        script.expect(&format!(". {}+1000 ack 1", next + 2000));
    }
}

/// Step 3a: new data is reported to have arrived before what was taken for lost.
#[test]
fn a_duplicate_after_new_data_shows_that_the_loss_was_real() {
    for has_sack in [false, true] {
        let mut script = after_a_timeout(has_sack, 40_000);
        let next = if has_sack { 11_001 } else { 10_001 };
        begin_test(&mut script, next);
        let block = if has_sack { format!(" blocks {next}-{}", next + 1000) } else { String::new() };
        script.inject(&format!(". 1+0 ack 1001{block}"));
        script.expect(". 1001+1000 ack 1");
        assert!(script.connection.congestion_window() <= 3000);
    }
}

/// Step 2a: an acknowledgement of all, or of a part of what was sent again, or a duplicate, says
/// nothing of the kind.
#[test]
fn the_first_acknowledgement_may_say_that_the_loss_was_real() {
    let mut script = after_a_timeout(false, 40_000);
    script.inject(". 1+0 ack 1");
    script.inject(". 1+0 ack 1001");
    script.expect(". 1001+1000 ack 1");

    let mut script = after_a_timeout(false, 40_000);
    script.inject(". 1+0 ack 10001");
    script.expect(". 10001+1000 ack 1");
    assert!(script.connection.congestion_window() < 10_000);

    for has_sack in [false, true] {
        let mut script = after_a_timeout(has_sack, 40_000);
        script.inject(". 1+0 ack 501");
        script.expect(". 1001+1000 ack 1");
        script.inject(". 1+0 ack 2001");
        assert!(script.connection.congestion_window() < 10_000);
    }
}

/// Without new data there is no test, and what is taken for lost is sent again.
#[test]
fn without_new_data_what_is_taken_for_lost_is_sent_again() {
    let mut script = after_a_timeout(false, 0);
    script.inject(". 1+0 ack 1001");
    script.expect(". 1001+1000 ack 1");
    script.inject(". 1+0 ack 3001");
    assert!(script.connection.congestion_window() < 10_000);
}

/// A second timeout ends the test.
#[test]
fn after_a_second_timeout_there_is_no_test() {
    let mut script = after_a_timeout(false, 40_000);
    begin_test(&mut script, 10_001);
    script.wait();
    script.expect(". 1001+1000 ack 1");
    script.inject(". 1+0 ack 2001");
    script.expect(". 2001+1000 ack 1");
}

/// What a router's word has shown to be lost is sent again in place of new data.
#[test]
fn a_routers_word_ends_the_test() {
    let mut script = after_a_timeout(false, 40_000);
    begin_test(&mut script, 10_001);
    script.nothing();
    assert!(script.too_big(1001, 600));
    script.expect(". 1001+600 ack 1");
    script.expect(". 1601+600 ack 1");
    script.inject(". 1+0 ack 2201");
    assert!(script.connection.congestion_window() < 10_000);
}
