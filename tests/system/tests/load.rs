//! The web server under load, on one core and on four, and with clients that mean no good.
//!
//! One load at a time, since the generator takes a processor of its own.

#![allow(missing_docs, reason = "a test's name says what it tests")]

use culm_system_tests::client::{Background, curl, run};
use culm_system_tests::{Boot, Machine, on_a_wire};
use std::io::Write;
use std::net::TcpStream;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

/// Holds whoever makes load.
fn turn() -> MutexGuard<'static, ()> {
    static TURN: Mutex<()> = Mutex::new(());
    // That another one failed is no reason not to begin.
    TURN.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Requests of the test of constant memory.
const REQUESTS: u64 = 1_000_000;

fn stands_the_load(system: &str) {
    let _turn = turn();
    on_a_wire(Boot::system(system), |machine| {
        machine.wait_for_web();
        let url = machine.url("/favicon.svg");
        let wrk = run(60, "wrk", &["-t1", "-c256", "-d5s", "--timeout", "30s", &url]);
        assert!(!wrk.contains("Non-2xx"), "{wrk}");
        assert!(!wrk.contains("Socket errors"), "{wrk}");
        let ab = run(120, "ab", &["-q", "-k", "-n", "5000", "-c", "32", &url]);
        assert!(ab.contains("Failed requests:        0"), "{ab}");
        let server = format!("--server={}", machine.address(80).ip());
        let rest = ["--uri=/favicon.svg", "--num-conns=300", "--num-calls=3", "--rate=50", "--timeout=20"];
        let httperf = run(120, "httperf", &[&[server.as_str()], &rest as &[&str]].concat());
        assert!(httperf.contains("Errors: total 0 "), "{httperf}");
        assert!(httperf.contains("Reply status: 1xx=0 2xx=900 "), "{httperf}");
        assert!(machine.status().counter("http", "requests") > 5900);
        machine.is_unharmed();
    });
}

#[test]
fn one_core_stands_the_load() {
    stands_the_load("web");
}

#[test]
fn four_cores_stand_the_load() {
    stands_the_load("web4");
}

#[test]
fn memory_stays_constant_over_many_requests() {
    let _turn = turn();
    on_a_wire(Boot::system("web"), |machine| {
        machine.wait_for_web();
        let url = machine.url("/favicon.svg");
        // Requests in connections old and new, for files and documents, and in vain.
        let load = || {
            run(300, "wrk", &["-t1", "-c256", "-d5s", "--timeout", "30s", &url]);
            run(300, "ab", &["-q", "-n", "2000", "-c", "64", &url]);
            for path in ["/_metrics", "/_metrics", "/_status.json", "/_status.json", "/nothing"] {
                run(300, "ab", &["-q", "-n", "200", "-c", "32", &machine.url(path)]);
            }
            let status = machine.status();
            (status.counter("http", "requests"), status.counter("http", "heap_used"))
        };
        // What is kept is made in the beginning: buffers of connections, and of the documents.
        load();
        let (first, used) = load();
        let (last, grown) = loop {
            let (requests, used) = load();
            if requests >= first + REQUESTS {
                break (requests, used);
            }
        };
        // Documents grow a little as the numbers in them do.
        assert!(
            used > 0 && grown < used + REQUESTS / 16,
            "{used} bytes in use, {grown} after {} requests",
            last - first
        );
        machine.is_unharmed();
    });
}

/// A client that gets all it asks for, each time in a connection of its own.
fn is_served_well(machine: &Machine, times: usize) {
    for _ in 0..times {
        let answer = curl(&machine.url("/"), &[]);
        assert_eq!(answer.status, 200);
        assert!(answer.text().ends_with("</html>\n"), "all of it");
    }
}

#[test]
fn slow_and_silent_clients_do_not_keep_others_out() {
    let _turn = turn();
    on_a_wire(Boot::system("web"), |machine| {
        machine.wait_for_web();
        let mut slow = vec![];
        for number in 0..400 {
            let stream = TcpStream::connect_timeout(&machine.address(80), Duration::from_secs(20));
            let mut stream = stream.unwrap_or_else(|error| panic!("connection {number}: {error}"));
            // Half of them begin a request and never end it, half say nothing.
            if number % 2 == 0 {
                // It may have been turned away already, which is as good.
                _ = stream.write_all(b"GET / HTTP/1.1\r\nHost: slow\r\nX: ");
            }
            slow.push(stream);
        }
        is_served_well(machine, 20);
        // They go on, as slowly as they can.
        for _ in 0..5 {
            for stream in &mut slow {
                _ = stream.write(b"x");
            }
            is_served_well(machine, 4);
        }
        assert!(machine.status().counter("http", "evicted") > 0, "more of them than there are places for");
        machine.is_unharmed();
    });
}

#[test]
fn half_open_connections_do_not_keep_others_out() {
    let _turn = turn();
    on_a_wire(Boot::system("web"), |machine| {
        machine.wait_for_web();
        // From addresses that nobody has, so that nobody takes back what was begun.
        let target = machine.address(80).ip().to_string();
        let flood = ["-q", "-S", "-p", "80", "-i", "u1000", "-c", "20000", "-a", "198.18.0.99", &target];
        let mut flood = Background::start("hping3", &flood);
        is_served_well(machine, 40);
        assert!(flood.is_running(), "the flood was over before the client was");
        drop(flood);
        let status = machine.status();
        let turned_away = status.counter("http", "half_open_evicted") + status.counter("http", "half_open_refused");
        assert!(turned_away > 0, "the flood did not reach the server's limits");
        machine.is_unharmed();
    });
}
