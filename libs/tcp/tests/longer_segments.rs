//! Segments that got shorter get longer again, if the path lets them (RFC 4821, RFC 8899).

#[path = "common/script.rs"]
mod script;

use culm_tcp::Settings;
use script::{Script, settings};

/// A connection whose segments of 1300 bytes had to be of 600; numbers up to 1301 are acknowledged.
fn narrowed() -> Script {
    let mut script = Script::connect(Settings { segment: 1300, ..settings() });
    script.expect("S 0+0 mss 1300");
    script.pass(100);
    script.inject("S. 0+0 ack 1 win 60000 mss 1300 sack-ok");
    script.expect(". 1+0 ack 1");
    script.write(1300);
    script.expect("P. 1+1300 ack 1");
    assert!(script.too_big(1, 600));
    for start in [1, 601] {
        script.expect(&format!(". {start}+600 ack 1"));
    }
    script.expect("P. 1201+100 ack 1");
    script.pass(50);
    script.inject(". 1+0 ack 1301");
    script.nothing();
    script
}

/// Sends ten segments from `start` on, the first one of `first` bytes, the others of 600; returns
/// the next number.
#[track_caller]
fn send(script: &mut Script, start: u32, first: u32) -> u32 {
    script.expect(&format!(". {start}+{first} ack 1"));
    let mut at = start + first;
    while at < start + first + 5 * 600 {
        script.expect(&format!(". {at}+600 ack 1"));
        at += 600;
    }
    while script.connection.transmit(culm_tcp::Instant(script.now)).is_some() {}
    at
}

/// Has all that was sent be acknowledged, whose numbers end before `end`.
fn acknowledge(script: &mut Script, end: u32) {
    script.pass(50);
    script.inject(&format!(". 1+0 ack {end}"));
    script.nothing();
}

/// A connection that has sent a longer segment of the numbers from 1301 to 2601, and others.
fn with_a_longer_one() -> Script {
    let mut script = narrowed();
    script.pass(600_000);
    script.write(5500);
    send(&mut script, 1301, 1300);
    script
}

#[test]
fn after_ten_minutes_longer_ones_are_tried_and_kept() {
    let mut script = narrowed();
    script.pass(599_800);
    script.write(5400);
    script.expect(". 1301+600 ack 1");
    while script.connection.transmit(culm_tcp::Instant(script.now)).is_some() {}
    acknowledge(&mut script, 6701);
    script.pass(200);
    // Too little to find its loss by.
    script.write(1300);
    script.expect(". 6701+600 ack 1");
    while script.connection.transmit(culm_tcp::Instant(script.now)).is_some() {}
    acknowledge(&mut script, 8001);
    script.write(5500);
    send(&mut script, 8001, 1300);
    acknowledge(&mut script, 13_501);
    script.write(5200);
    script.expect(". 13501+1300 ack 1");
    script.expect(". 14801+1300 ack 1");
}

/// One that does not arrive is sent again in shorter ones, and the next length is tried; the
/// congestion window does not come down.
#[test]
fn the_loss_of_a_longer_one_is_no_congestion() {
    let mut script = with_a_longer_one();
    let window = script.connection.congestion_window();
    script.pass(50);
    script.inject(". 1+0 ack 1301 blocks 2601-4401");
    script.expect(". 1301+600 ack 1");
    script.expect(". 1901+600 ack 1");
    script.expect(". 2501+100 ack 1");
    assert_eq!(script.connection.congestion_window(), window);
    acknowledge(&mut script, 6801);
    assert!(script.connection.congestion_window() >= window);
    // What any IPv6 link carries.
    script.write(5000);
    send(&mut script, 6801, 1220);
    script.pass(50);
    script.inject(". 1+0 ack 6801 blocks 8021-9821");
    script.expect(". 6801+600 ack 1");
    while script.connection.transmit(culm_tcp::Instant(script.now)).is_some() {}
    acknowledge(&mut script, 11_801);
    assert!(script.connection.congestion_window() >= window);
    // No other is tried for ten minutes.
    script.write(5000);
    script.expect(". 11801+600 ack 1");
    while script.connection.transmit(culm_tcp::Instant(script.now)).is_some() {}
    acknowledge(&mut script, 16_801);
    script.pass(600_000);
    script.write(5500);
    send(&mut script, 16_801, 1300);
}

/// Where others are lost beside it, there is congestion.
#[test]
fn other_losses_count() {
    let mut script = with_a_longer_one();
    let window = script.connection.congestion_window();
    script.pass(50);
    script.inject(". 1+0 ack 1301 blocks 3201-5001");
    script.inject(". 1+0 ack 6801");
    assert!(script.connection.congestion_window() < window);
}

/// What is sent again in shorter ones to ask for the peer's window has not shown that longer ones
/// get through.
#[test]
fn a_probe_of_the_window_is_no_longer_one() {
    let mut script = with_a_longer_one();
    script.pass(50);
    // The peer takes its window back.
    script.inject(". 1+0 ack 1301 win 0");
    script.wait();
    script.expect(". 1301+1 ack 1");
    script.inject(". 1+0 ack 6801 win 60000");
    // It is tried again, alone.
    script.write(5500);
    send(&mut script, 6801, 1300);
}

/// One that is lost while the loss of another is repaired has not got through.
#[test]
fn the_loss_of_a_longer_one_within_a_recovery_is_found() {
    let mut script = narrowed();
    // The window grows, so that a longer one goes behind others.
    for start in (1301..13_301).step_by(3000) {
        script.write(3000);
        while script.connection.transmit(culm_tcp::Instant(script.now)).is_some() {}
        acknowledge(&mut script, start + 3000);
    }
    script.pass(600_000);
    script.write(2400);
    for at in [13_301, 13_901, 14_501] {
        script.expect(&format!(". {at}+600 ack 1"));
    }
    script.expect("P. 15101+600 ack 1");
    script.write(3800);
    script.expect(". 15701+1300 ack 1");
    while script.connection.transmit(culm_tcp::Instant(script.now)).is_some() {}
    // The first one is found to be lost, and then the longer one.
    script.pass(50);
    script.inject(". 1+0 ack 13301 blocks 13901-15701");
    script.expect(". 13301+600 ack 1");
    script.pass(20);
    script.inject(". 1+0 ack 13301 blocks 17001-18801,13901-15701");
    script.expect(". 15701+600 ack 1");
    while script.connection.transmit(culm_tcp::Instant(script.now)).is_some() {}
    acknowledge(&mut script, 19_501);
    // Segments are as short as they were, and the next length is tried when the window allows.
    script.write(6000);
    script.expect(". 19501+600 ack 1");
    while script.connection.transmit(culm_tcp::Instant(script.now)).is_some() {}
    script.pass(50);
    script.inject(". 1+0 ack 21901");
    script.expect(". 21901+1220 ack 1");
    script.expect(". 23121+600 ack 1");
}
