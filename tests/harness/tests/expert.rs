//! What Wireshark's expert says of what a machine sends, to Linux, with nothing left to devices:
//! no packet is malformed, no checksum wrong, and what is sent twice is what was lost. A host that
//! stands still for a while makes a loss of what is none: for that there is some room.
//!
//! It takes root's rights; without them the tests are skipped, and say so.

#![allow(missing_docs, reason = "a test's name says what it tests")]

use culm_tests_harness::capture::Capture;
use culm_tests_harness::client::{curl, run, wait_for_ping};
use culm_tests_harness::{Boot, on_a_wire, on_wires, wire};
use std::io::{Read as _, Write as _};
use std::net::TcpStream;
use std::thread::sleep;
use std::time::Duration;

/// Bytes that go each way in bulk.
const BULK: usize = 3_000_000;

/// What the expert has noted.
#[derive(Debug)]
struct Notes {
    /// Packets that the machine has sent.
    sent: usize,
    /// Of these, what was sent again, or out of order.
    repeated: Vec<String>,
    /// What is wrong in itself.
    wrong: Vec<String>,
}

impl Notes {
    /// Fails where anything is wrong, or where more was sent again than the losses and a half per
    /// cent of all.
    fn are_well(&self, losses: usize) {
        let Self { sent, repeated, wrong } = self;
        assert!(wrong.is_empty(), "{}", wrong.join("\n"));
        assert!(repeated.len() <= losses + sent / 200, "of {sent}, with {losses} losses:\n{}", repeated.join("\n"));
    }
}

/// Begins a capture of the wire.
fn capture(name: &str) -> Capture {
    Capture::start(wire::DEVICE, name, &[])
}

/// Ends a capture. Returns what the expert notes of the machine's packets (severity note, warning
/// or error), a line for each.
fn notes(mut capture: Capture) -> Notes {
    // What has been sent is captured a moment later.
    sleep(Duration::from_millis(500));
    capture.stop();
    let guest = "eth.src[0:3] == 52:54:00";
    let noted = format!("{guest} && _ws.expert.severity >= \"Note\"");
    let checks = ["ip", "tcp", "udp"].map(|protocol| format!("{protocol}.check_checksum:TRUE"));
    let options: Vec<&str> = checks.iter().flat_map(|check| ["-o", check]).collect();
    let ask = |filter: &str, field: &str| capture.read(filter, &["frame.number", field], &options);
    // Ends of connections are worth a note to it, and in order.
    let is_end = |line: &String| line.contains("undergoes the connection closing") || line.contains("(RST)");
    let is_repeated = |line: &String| line.contains("retransmission") || line.contains("out-of-order");
    let notes = ask(&noted, "_ws.expert.message").into_iter().filter(|line| !is_end(line));
    let (repeated, wrong) = notes.partition(is_repeated);
    Notes { sent: ask(guest, "frame.len").len(), repeated, wrong }
}

/// Takes and sends bytes in bulk.
fn bulk() {
    let mut source = TcpStream::connect("198.18.0.2:19").expect("it listens");
    let mut bytes = vec![0; BULK];
    source.read_exact(&mut bytes).expect("it sends");
    drop(source);
    let mut sink = TcpStream::connect("198.18.0.2:9").expect("it listens");
    sink.write_all(&bytes).expect("it takes");
    sink.shutdown(std::net::Shutdown::Write).expect("it was open");
    sink.read_to_end(&mut vec![]).expect("it ends too");
}

#[test]
fn requests_and_answers_are_as_they_should_be() {
    on_a_wire(Boot::system("web").option(&wire::PLAIN), |machine| {
        machine.wait_for_web();
        let capture = capture("expert-web");
        for _ in 0..20 {
            assert_eq!(curl(&machine.url("/"), &[]).status, 200);
        }
        let address = machine.link_local().replace('%', "%25");
        assert_eq!(curl(&format!("http://[{address}]/"), &["--globoff"]).status, 200);
        run(60, "wrk", &["-t", "1", "-c", "32", "-d", "2", &machine.url("/")]);
        let notes = notes(capture);
        assert!(notes.sent > 500, "{notes:?}");
        notes.are_well(0);
        machine.is_unharmed();
    });
}

fn bulk_boot() -> Boot {
    Boot::system("bench/systems/bench-tcp.toml").option(&wire::PLAIN)
}

const BULK_WIRE: (&str, &str) = (wire::DEVICE, "198.18.0.1/24");

#[test]
fn bulk_is_sent_once_and_in_order() {
    on_wires(bulk_boot(), &[BULK_WIRE], |machine| {
        wait_for_ping("198.18.0.2");
        let capture = capture("expert-bulk");
        bulk();
        let notes = notes(capture);
        assert!(notes.sent > BULK / 1460, "{notes:?}");
        notes.are_well(0);
        assert!(!machine.saw("faulted"), "{}", machine.console());
    });
}

#[test]
fn what_is_lost_is_sent_again_and_nothing_else() {
    on_wires(bulk_boot(), &[BULK_WIRE], |machine| {
        wait_for_ping("198.18.0.2");
        let rules = "table netdev loss { chain machine { type filter hook ingress device culm0 priority 0; \
                     tcp sport 19 numgen inc mod 101 == 50 counter drop; }; }";
        run(10, "nft", &[rules]);
        let capture = capture("expert-loss");
        bulk();
        let notes = notes(capture);
        let said = run(10, "nft", &["list", "table", "netdev", "loss"]);
        let dropped = said.split("packets ").nth(1).and_then(|rest| rest.split(' ').next()?.parse().ok());
        let losses: usize = dropped.expect("a counter");
        assert!(losses >= 15 && notes.repeated.len() >= losses, "{losses} losses, {notes:?}");
        notes.are_well(losses);
        assert!(!machine.saw("faulted"), "{}", machine.console());
    });
}
