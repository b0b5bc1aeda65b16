//! The web server and a client whose segments no TCP makes, by scapy: requests in pieces of any
//! length, which overlap, come in any order and twice, over either version of IP. The answers are
//! those that Linux's TCP gets for the same bytes.
//!
//! It takes root's rights; without them the test is skipped, and says so.

#![allow(missing_docs, reason = "a test's name says what it tests")]

use culm_tests_harness::client::exchange;
use culm_tests_harness::deaths::is_soak;
use culm_tests_harness::frames::Random;
use culm_tests_harness::{Boot, on_a_wire, root, wire};
use std::io::Write as _;
use std::process::{Command, Stdio};
use std::thread;

/// Python as Debian has it, with Debian's scapy.
const PYTHON: &str = "/usr/bin/python3";

/// Connections over each version of IP, usually and in a soak.
const CONNECTIONS: [u64; 2] = [4, 100];

/// Requests on a connection.
const REQUESTS: usize = 40;

/// Requests whose answers differ, on one connection that the last of them ends.
fn requests(random: &mut Random) -> Vec<u8> {
    let mut all = vec![];
    for number in 0..REQUESTS {
        let path = ["/", "/favicon.svg", "/nothing"][random.below(3)];
        let method = ["GET", "HEAD", "GET"][random.below(3)];
        let filler = "0123456789".repeat(random.below(60));
        let connection = if number + 1 == REQUESTS { "close" } else { "keep-alive" };
        let request = format!(
            "{method} {path} HTTP/1.1\r\nHost: guest\r\nX-Filler: {filler}\r\nConnection: {connection}\r\n\r\n"
        );
        all.extend(request.into_bytes());
    }
    all
}

/// Sends the requests as the script does; returns what comes back.
fn exchange_oddly(mac: &str, address: &str, seed: u64, requests: &[u8]) -> Vec<u8> {
    let script = root().join("tests/harness/tests/odd_segments.py");
    let mut child = Command::new(PYTHON)
        .arg(script)
        .args([wire::DEVICE, mac, address, &seed.to_string()])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .expect("Python is there");
    let mut input = child.stdin.take().expect("it is piped");
    let bytes = requests.to_vec();
    // It may write before it has read all.
    let writer = thread::spawn(move || input.write_all(&bytes));
    let output = child.wait_with_output().expect("it is a child");
    let written = writer.join().expect("it does not panic");
    assert!(output.status.success() && written.is_ok(), "{address}, seed {seed}: see above, or ./culm setup --tests");
    output.stdout
}

/// Answers without the time at which each was made.
fn timeless(answers: &[u8]) -> String {
    let text = String::from_utf8_lossy(answers);
    text.split_inclusive('\n').filter(|line| !line.starts_with("Date: ")).collect()
}

#[test]
fn pieces_of_any_kind_are_the_stream_that_they_are_of() {
    on_a_wire(Boot::system("web").option(&wire::PLAIN), |machine| {
        machine.wait_for_web();
        let mac = machine.mac().map(|byte| format!("{byte:02x}")).join(":");
        let link_local = wire::link_local(machine.mac()).to_string();
        for seed in 1..=CONNECTIONS[usize::from(is_soak())] {
            let requests = requests(&mut Random::new(seed));
            let expected = exchange(machine.address(80), &requests).expect("it connects");
            let expected = timeless(&expected);
            assert!(expected.matches("HTTP/1.1 ").count() >= REQUESTS, "Linux gets all answers: {expected}");
            for address in [machine.address(80).ip().to_string(), link_local.clone()] {
                let answers = exchange_oddly(&mac, &address, seed, &requests);
                assert!(timeless(&answers) == expected, "{address}, seed {seed}: other answers");
            }
        }
        machine.is_unharmed();
    });
}
