//! The time of day: in the log and in what the web server answers, by the host's clock.

#![allow(missing_docs, reason = "a test's name says what it tests")]

use culm_tests_harness::Boot;
use culm_tests_harness::client::{curl, run};

/// Seconds since 1970 of a time that `date` understands.
fn seconds(time: &str) -> i64 {
    let said = run(10, "date", &["-u", "-d", time, "+%s"]);
    said.trim().parse().unwrap_or_else(|_| panic!("`{time}` is no time: {said}"))
}

/// Whether a time lies between two moments of the host, give or take a second.
fn is_between(time: i64, before: i64, after: i64) -> bool {
    (before - 1..=after + 1).contains(&time)
}

#[test]
fn log_and_web_server_know_the_time_of_day() {
    let before = seconds("now");
    let machine = &mut Boot::system("tests/systems/clock.toml").start(&[80]);
    let line = machine.expect("info  http: serves");
    machine.wait_for_web();
    let first = line.split_whitespace().next().unwrap_or_default().to_string();
    assert!(is_between(seconds(&first), before, seconds("now")), "{line}");
    // It goes on, and each kind of answer has it.
    for (path, status) in [("/", 200), ("/status.json", 200), ("/nothing-here", 404)] {
        let before = seconds("now");
        let answer = curl(&machine.url(path), &[]);
        let date = answer.header("date").unwrap_or_else(|| panic!("{path}: no Date in {status}")).to_string();
        assert!(date.ends_with(" GMT"), "{date}");
        assert!(is_between(seconds(&date), before, seconds("now")), "{path}: {date}");
    }
}
