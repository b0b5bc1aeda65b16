//! The router of `tests/systems/router-alone.toml` and packets that no honest station sends, made
//! by scapy: what must not pass is not seen at the other end, who is to be told is told, and
//! connections go on.
//!
//! It takes root's rights; without them the test is skipped, and says so.

#![allow(missing_docs, reason = "a test's name says what it tests")]

use culm_tests_harness::client::{run, wait_for_ping};
use culm_tests_harness::{Boot, on_wires, root};
use culm_wire::{Namespace, ip};
use std::collections::BTreeSet;
use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

const OUTER: (&str, &str) = ("culm0", "10.0.2.2/24");
const INNER: (&str, &str) = ("culm1", "10.0.3.2/24");
const OUTSIDE: &str = "10.0.2.2";
const INSIDE: &str = "10.0.3.2";
const ROUTER_OUTSIDE: &str = "10.0.2.15";
const ROUTER_INSIDE: &str = "10.0.3.15";

/// First segments of a flood: more than the router follows flows.
const FLOOD: usize = 18_000;

/// Python as Debian has it, with Debian's scapy.
const PYTHON: &str = "/usr/bin/python3";

/// Runs `work` inside.
fn inside<T: Send>(namespace: &Namespace, work: impl FnOnce() -> T + Send) -> T {
    namespace.within(|| Ok(work())).expect("what failed is above")
}

/// Returns the path of the script.
fn script() -> String {
    let path = root().join("tests/harness/tests/router_hostile.py");
    path.to_str().expect("paths here are text").to_string()
}

/// Has the script send, from the side of this thread.
fn send(seconds: u32, arguments: &[&str]) {
    run(seconds, PYTHON, &[&[script().as_str()], arguments].concat());
}

/// A script that listens on the side of the thread that starts it.
struct Listener(Child, BufReader<std::process::ChildStdout>);

impl Listener {
    fn start(device: &str) -> Self {
        let mut command = Command::new(PYTHON);
        command.args([&script(), "listen", device]).stdin(Stdio::piped()).stdout(Stdio::piped());
        let mut child = command.spawn().expect("Python is there");
        let mut lines = BufReader::new(child.stdout.take().expect("it is piped"));
        let mut line = String::new();
        lines.read_line(&mut line).expect("it says something");
        assert_eq!(line, "ready\n", "scapy is missing: ./culm setup --tests");
        Self(child, lines)
    }

    /// Returns what it has written, a while later.
    fn end(mut self) -> BTreeSet<String> {
        std::thread::sleep(Duration::from_secs(3));
        drop(self.0.stdin.take());
        let mut text = String::new();
        self.1.read_to_string(&mut text).expect("it is text");
        self.0.wait().expect("it is a child");
        text.lines().map(String::from).collect()
    }
}

/// Waits until the router answers, and returns its station.
fn station(device: &str, address: &str) -> String {
    wait_for_ping(address);
    let said = run(5, "ip", &["neigh", "show", address, "dev", device]);
    let words: Vec<&str> = said.split_whitespace().collect();
    let at = words.iter().position(|word| *word == "lladdr").unwrap_or_else(|| panic!("no station: {said}"));
    words[at + 1].to_string()
}

/// Checks that each packet with a good name has come, and none with a bad one.
fn only_good_ones(seen: &BTreeSet<String>, good: &[&str]) {
    let names = seen.iter().filter(|line| !line.starts_with("error ")).filter_map(|line| line.split(' ').next());
    let names: BTreeSet<&str> = names.collect();
    let bad: Vec<&&str> = names.iter().filter(|name| !name.starts_with("good-")).collect();
    assert!(bad.is_empty(), "these have passed: {bad:?}");
    for name in good {
        assert!(names.contains(name), "{name} has not come: {seen:?}");
    }
}

fn echoes(stream: &mut TcpStream) {
    let mut answer = [0; 4];
    stream.write_all(b"ping").expect("it is open");
    stream.read_exact(&mut answer).expect("an answer");
    assert_eq!(&answer, b"ping");
}

fn connect() -> TcpStream {
    let to = SocketAddr::from(([10, 0, 2, 2], 7777));
    let stream = TcpStream::connect_timeout(&to, Duration::from_secs(10)).expect("it comes about soon");
    stream.set_read_timeout(Some(Duration::from_secs(10))).expect("it is not zero");
    stream
}

#[test]
fn what_no_honest_station_sends_does_not_pass() {
    on_wires(Boot::system("tests/systems/router-alone.toml"), &[OUTER, INNER], |machine| {
        let (namespace, ()) = Namespace::new(|| Ok(())).expect("there was one before");
        ip(&format!("link set culm1 netns {}", namespace.path())).expect("it can be moved");
        let set_up = || {
            ip(&format!("addr add {INSIDE}/24 dev culm1"))?;
            ip("addr add 2001:db8:3::2/64 dev culm1 nodad")?;
            ip("link set culm1 up")?;
            ip(&format!("route add default via {ROUTER_INSIDE}"))?;
            ip("-6 route add default via 2001:db8:3::15")
        };
        namespace.within(set_up).expect("it can be set up");
        ip("addr add 2001:db8:2::2/64 dev culm0 nodad").expect("it can have an address");
        ip("-6 route add 2001:db8:3::/64 via 2001:db8:2::15").expect("there is a way");
        ip(&format!("route add 10.0.3.0/24 via {ROUTER_OUTSIDE}")).expect("there is a way");

        let server = TcpListener::bind((OUTSIDE, 7777)).expect("it is free");
        std::thread::spawn(move || {
            for stream in server.incoming().map_while(Result::ok) {
                std::thread::spawn(move || std::io::copy(&mut &stream, &mut &stream));
            }
        });
        let outer = station("culm0", ROUTER_OUTSIDE);
        let inner = inside(&namespace, || station("culm1", ROUTER_INSIDE));
        // Each side knows its neighbours, so that none of the packets waits for that.
        for address in [INSIDE, "2001:db8:3::2"] {
            run(30, "ping", &["-n", "-c", "1", "-W", "20", address]);
        }
        let mut early = inside(&namespace, connect);

        let (within, without) = (inside(&namespace, || Listener::start("culm1")), Listener::start("culm0"));
        send(60, &["send", "culm0", &outer, "outside"]);
        let (seen, told) = (within.end(), without.end());
        let good =
            ["first", "first6", "fragment", "rest", "covered", "many", "last"].map(|name| format!("good-{name}"));
        only_good_ones(&seen, &good.each_ref().map(String::as_str));
        for error in [format!("error 11 {ROUTER_OUTSIDE} late-ttl"), "error 3 2001:db8:2::15 late-ttl6".into()] {
            assert!(told.contains(&error), "not `{error}`: {told:?}");
        }
        // Nobody is told of what has been made up.
        let made_up: Vec<&String> = told.iter().filter(|line| line.contains(" bad-")).collect();
        assert!(made_up.is_empty(), "{made_up:?}");

        let without = Listener::start("culm0");
        inside(&namespace, || send(60, &["send", "culm1", &inner, "inside"]));
        only_good_ones(&without.end(), &["good-out"]);

        // The table is full of what many sources have begun.
        send(300, &["flood", "culm0", &outer, &FLOOD.to_string()]);
        inside(&namespace, || {
            echoes(&mut early);
            echoes(&mut connect());
        });
        assert!(!machine.saw("faulted"), "{}", machine.tail());
    });
}
