//! Windows that grow with what the application reads.

#[path = "common/script.rs"]
mod script;

use culm_tcp::Settings;
use script::{Script, settings};

fn growing() -> Settings {
    Settings { first_capacity: 8000, capacity: 60_000, ..settings() }
}

/// Has `bytes` come in segments of 1000 from `first` on, each with the rest of its line, and reads
/// them.
fn pass_through(script: &mut Script, first: u32, bytes: u32, rest: &str) {
    for start in (first..first + bytes).step_by(1000) {
        assert!(script.inject(&format!(". {start}+1000 ack 1{rest}")).is_some(), "{start}");
        script.read(1000);
    }
}

/// Returns the window that the last of what is sent now tells.
#[track_caller]
fn window(script: &mut Script) -> u16 {
    let mut told = None;
    while let Some(sent) = script.connection.transmit(culm_tcp::Instant(script.now)) {
        told = Some(sent.header.window);
    }
    told.expect("an acknowledgement")
}

#[test]
fn a_window_that_is_read_in_a_round_trip_doubles_up_to_the_limit() {
    let mut script = Script::connect(growing());
    script.expect("S 0+0 win 8000");
    script.inject("S. 0+0 ack 1 win 60000 mss 1000 sack-ok stamps 5000:1000");
    script.expect(". 1+0 ack 1 win 8000");
    let (mut first, mut told) = (1, Vec::new());
    for trip in 1..=5 {
        script.now += 100_000;
        // The first segment of a round trip echoes what was sent after the last one began.
        let echo = 1000 + trip * 100 - 50;
        let bytes = told.last().map_or(8000, |window| u32::from(*window) / 1000 * 1000);
        pass_through(&mut script, first, bytes, &format!(" stamps {}:{echo}", 5000 + trip));
        told.push(window(&mut script));
        first += bytes;
    }
    assert_eq!(told, [8000, 16_000, 32_000, 60_000, 60_000]);
}

#[test]
fn without_timestamps_a_window_that_was_filled_tells_of_a_round_trip() {
    let mut script = Script::connect(growing());
    script.expect("S 0+0 win 8000");
    script.inject("S. 0+0 ack 1 win 60000 mss 1000 sack-ok");
    script.expect(". 1+0 ack 1 win 8000");
    pass_through(&mut script, 1, 8000, "");
    assert_eq!(window(&mut script), 8000);
    pass_through(&mut script, 8001, 8000, "");
    assert_eq!(window(&mut script), 16_000);
}

#[test]
fn a_window_stays_if_the_application_reads_little_or_little_comes() {
    let mut script = Script::connect(growing());
    script.expect("S 0+0 win 8000");
    script.inject("S. 0+0 ack 1 win 60000 mss 1000 sack-ok stamps 5000:1000");
    script.expect(". 1+0 ack 1");
    for trip in 1..10_u32 {
        script.now += 100_000;
        pass_through(&mut script, trip * 3000 - 2999, 3000, &format!(" stamps {}:{}", 5000 + trip, 950 + trip * 100));
        assert_eq!(window(&mut script), 8000);
    }
    // Nothing is read: what comes fills what there is.
    for start in (27_001..35_001).step_by(1000) {
        script.inject(&format!(". {start}+1000 ack 1 stamps 6000:{}", 1000 + start));
    }
    assert_eq!(window(&mut script), 0);
}

/// Twice what may be on the way: so much keeps a window filled that doubles.
#[test]
fn the_room_for_what_is_sent_grows_with_the_congestion_window() {
    let mut script = Script::open(settings(), true);
    assert_eq!(script.connection.room(), 20_000);
    script.write(20_000);
    assert_eq!(script.connection.room(), 0);
    while script.connection.transmit(culm_tcp::Instant(script.now)).is_some() {}
    script.inject(". 1+0 ack 10001");
    assert_eq!(script.connection.room(), 2 * script.connection.congestion_window() - 10_000);
}

#[test]
fn a_first_buffer_smaller_than_a_window_tells_apart_is_no_closed_window() {
    let mut script = Script::connect(Settings { first_capacity: 1, capacity: 1 << 20, ..settings() });
    let _ = window(&mut script);
    script.inject("S. 0+0 ack 1 win 60000 mss 1000 scale 7 sack-ok");
    assert!(window(&mut script) > 0);
}

/// What the window would grow to is asked for, and the window grows as far as there is memory.
#[test]
fn a_window_grows_no_further_than_there_is_memory() {
    let mut script = Script::connect(growing());
    script.connection.keep_up_to(8000);
    script.expect("S 0+0 win 8000");
    script.inject("S. 0+0 ack 1 win 60000 mss 1000 sack-ok stamps 5000:1000");
    script.expect(". 1+0 ack 1");
    let mut start = 1;
    for (round, (granted, expected)) in [(12_000, 12_000), (0, 12_000), (90_000, 60_000)].into_iter().enumerate() {
        for trip in 0..4 {
            assert!(!script.connection.takes_more() || trip > 0);
            script.now += 100_000;
            let stamp = 1000 + (round as u32 * 4 + trip) * 100;
            pass_through(&mut script, start, 8000, &format!(" stamps {}:{stamp}", 5001 + start));
            start += 8000;
        }
        assert!(script.connection.takes_more(), "{granted}");
        script.connection.keep_up_to(granted);
        assert!(!script.connection.takes_more());
        assert_eq!(window(&mut script), expected);
    }
}
