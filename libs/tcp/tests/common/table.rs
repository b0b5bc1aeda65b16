//! A script as a table: a line for each event, with its time in milliseconds since the connection
//! was opened, and nothing else may happen.
//!
//! ```text
//!   0  write 10000                 the application gives bytes to be sent
//!   0  > . 1+1000 x10 ack 1        this side sends ten segments, one after the other
//! 100  < . 1+0 ack 1 x3            three segments come, each as in `script`
//! 100  > . 1+1000 ack 1            …
//! 100  window 5000                 the congestion window has so many bytes
//! ```
//!
//! Further calls are `read BYTES` and `close`, further checks `state NAME`, `readable BYTES` and
//! `ends NAME`. What a line says of a segment is checked, and what it leaves out is not;
//! `blocks none` says that it reports nothing by SACK.

use crate::script::Script;

/// Plays a table.
#[track_caller]
pub fn play(script: &mut Script, table: &str) {
    let start = script.now;
    for line in table.lines().map(str::trim).filter(|line| !line.is_empty()) {
        let words: Vec<&str> = line.split_whitespace().collect();
        let [time, event, rest @ ..] = &words[..] else { panic!("no event: {line}") };
        let milliseconds: f64 = time.parse().expect("a time");
        let at = start + (milliseconds * 1000.0).round() as u64;
        pass_until(script, at, line);
        if !matches!(*event, ">" | "<" | "write" | "close") {
            expect_nothing(script, line);
        }
        match (*event, rest) {
            (">", rest) => {
                let (segment, count) = repeated(rest);
                (0..count).for_each(|number| script.expect(&nth(&segment, number)));
            }
            ("<", rest) => {
                let (segment, count) = repeated(rest);
                for _ in 0..count {
                    expect_nothing(script, line);
                    script.inject(&segment);
                }
            }
            ("write", [bytes]) => script.write(number(bytes)),
            ("read", [bytes]) => script.read(number(bytes)),
            ("close", []) => script.close(),
            ("window", [bytes]) => assert_eq!(script.connection.congestion_window(), number(bytes), "{line}"),
            ("readable", [bytes]) => assert_eq!(script.connection.readable(), number(bytes), "{line}"),
            ("state", [name]) => assert_eq!(format!("{:?}", script.state()), *name, "{line}"),
            ("ends", [name]) => {
                assert_eq!(format!("{:?}", script.connection.ending()), format!("Some({name})"), "{line}")
            }
            _ => panic!("no such event: {line}"),
        }
    }
    expect_nothing(script, "the end");
}

/// Has the time pass until `at`, and checks that nothing is sent before.
#[track_caller]
fn pass_until(script: &mut Script, at: u64, line: &str) {
    assert!(script.now <= at, "time goes back: {line}");
    while script.now < at {
        expect_nothing(script, line);
        match script.connection.deadline() {
            Some(due) if due.0 <= at => {
                let _ = script.wait();
            }
            _ => script.now = at,
        }
    }
}

#[track_caller]
fn expect_nothing(script: &mut Script, line: &str) {
    if let Some(sent) = script.connection.transmit(culm_tcp::Instant(script.now)) {
        panic!("before {line:?}, sent at {} µs: {:?}", script.now, crate::script::render(&sent));
    }
}

/// Returns the segment of these words without `xN`, and N.
fn repeated(words: &[&str]) -> (String, u32) {
    let count = words.iter().find_map(|word| word.strip_prefix('x')?.parse().ok());
    let rest: Vec<&str> = words.iter().copied().filter(|word| !word.starts_with('x')).collect();
    (rest.join(" "), count.unwrap_or(1))
}

/// Returns the segment that comes so many after this one.
fn nth(segment: &str, number: u32) -> String {
    let mut words: Vec<String> = segment.split(' ').map(str::to_string).collect();
    if let Some((first, length)) = words[1].split_once('+') {
        let (first, length) = (self::number(first), self::number(length));
        words[1] = format!("{}+{length}", first + number * length);
    }
    words.join(" ")
}

#[track_caller]
fn number(text: &str) -> u32 {
    text.parse().expect("a number")
}
