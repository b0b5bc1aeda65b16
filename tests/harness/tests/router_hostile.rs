//! The router of `tests/systems/router-alone.toml` and packets that no honest station sends, made
//! by scapy: what must not pass is not seen at the other end, who is to be told is told, and
//! connections go on.
//!
//! It takes root's rights; without them the test is skipped, and says so.

#![allow(missing_docs, reason = "a test's name says what it tests")]

use culm_tests_harness::client::{run, wait_for_ping};
use culm_tests_harness::{Boot, Machine, on_wires, root};
use culm_wire::{Namespace, ip};
use std::collections::BTreeSet;
use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::{IpAddr, Ipv4Addr, SocketAddr, TcpListener, TcpStream};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

const OUTER: (&str, &str) = ("culm0", "10.0.2.2/24");
const INNER: (&str, &str) = ("culm1", "10.0.3.2/24");
const INSIDE: &str = "10.0.3.2";
const ROUTER_OUTSIDE: &str = "10.0.2.15";
const ROUTER_INSIDE: &str = "10.0.3.15";

/// Servers of the test.
const SERVER_OUTSIDE: SocketAddr = SocketAddr::new(IpAddr::V4(Ipv4Addr::new(10, 0, 2, 2)), 7777);
const SERVER_INSIDE: SocketAddr = SocketAddr::new(IpAddr::V4(Ipv4Addr::new(10, 0, 3, 2)), 8000);

/// Packets of a flood: more than the router follows flows.
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

/// Connects to the server on the other side.
fn connect(to: SocketAddr) -> TcpStream {
    let stream = TcpStream::connect_timeout(&to, Duration::from_secs(30));
    let stream = stream.unwrap_or_else(|error| panic!("{to} is not reached soon: {error}"));
    stream.set_read_timeout(Some(Duration::from_secs(30))).expect("it is not zero");
    stream
}

/// Starts a server that sends back what it gets, for as long as the test runs.
fn serve(address: SocketAddr) {
    let server = TcpListener::bind(address).expect("it is free");
    std::thread::spawn(move || {
        for stream in server.incoming().map_while(Result::ok) {
            std::thread::spawn(move || std::io::copy(&mut &stream, &mut &stream));
        }
    });
}

/// Runs `test` outside, with the machine, the namespace that is inside, and the router's stations
/// outside and inside. On both sides a server echoes.
fn with_router(boot: Boot, test: impl FnOnce(&mut Machine, &Namespace, [&str; 2]) + Send) {
    on_wires(boot, &[OUTER, INNER], |machine| {
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
        serve(SERVER_OUTSIDE);
        inside(&namespace, || serve(SERVER_INSIDE));
        let outer = station("culm0", ROUTER_OUTSIDE);
        let inner = inside(&namespace, || station("culm1", ROUTER_INSIDE));
        // Each side knows its neighbours, so that none of the packets waits for that.
        for address in [INSIDE, "2001:db8:3::2"] {
            run(30, "ping", &["-n", "-c", "1", "-W", "20", address]);
        }
        test(machine, &namespace, [&outer, &inner]);
        assert!(!machine.saw("faulted"), "{}", machine.tail());
    });
}

/// Sends what no honest station sends, from both sides, and checks what comes of it.
fn nothing_dishonest_passes(namespace: &Namespace, [outer, inner]: [&str; 2]) {
    let (within, without) = (inside(namespace, || Listener::start("culm1")), Listener::start("culm0"));
    send(60, &["send", "culm0", outer, "outside"]);
    let (seen, told) = (within.end(), without.end());
    let good = ["first", "first6", "fragment", "rest", "covered", "many", "last"].map(|name| format!("good-{name}"));
    only_good_ones(&seen, &good.each_ref().map(String::as_str));
    for error in [format!("error 11 {ROUTER_OUTSIDE} late-ttl"), "error 3 2001:db8:2::15 late-ttl6".into()] {
        assert!(told.contains(&error), "not `{error}`: {told:?}");
    }
    // Nobody is told of what has been made up.
    let made_up: Vec<&String> = told.iter().filter(|line| line.contains(" bad-")).collect();
    assert!(made_up.is_empty(), "{made_up:?}");

    let without = Listener::start("culm0");
    inside(namespace, || send(60, &["send", "culm1", inner, "inside"]));
    only_good_ones(&without.end(), &["good-out"]);
}

#[test]
fn what_no_honest_station_sends_does_not_pass() {
    with_router(Boot::system("tests/systems/router-alone.toml"), |_, namespace, stations| {
        nothing_dishonest_passes(namespace, stations);
    });
}

/// The rules of the other systems deny what comes from outside with an address of the network
/// inside. Without that rule all of it would be let pass, were it not for the router itself.
#[test]
fn what_comes_from_where_its_sender_is_not_passes_whatever_the_rules_say() {
    let (_folder, file) = without_rules_about_sources();
    with_router(Boot::system(file), |machine, namespace, stations| {
        nothing_dishonest_passes(namespace, stations);
        // No line of the log is about a packet with a spoofed source: the rules were not asked.
        assert!(!machine.saw("from 10.0.3.7"), "{}", machine.tail());
    });
}

/// Writes a description of the router's system whose rules say nothing about who packets are from.
/// Returns the folder that has it, for as long as it is kept, and the file.
fn without_rules_about_sources() -> (tempfile::TempDir, String) {
    let read = |path: &str| std::fs::read_to_string(root().join(path)).expect("it is there");
    let (text, rules) = (read("tests/systems/router-alone.toml"), read("systems/router/rules"));
    let denying = "deny log from 10.0.3.0/24, 2001:db8:3::/64 in outer\n";
    assert!(rules.contains(denying), "{rules}");
    let folder = tempfile::tempdir().expect("there is a place for temporary files");
    // One that lets them pass would say so.
    let allowing = "allow icmp in outer type echo-request\n";
    assert!(rules.contains(allowing), "{rules}");
    let rules = rules.replace(denying, "").replace(allowing, &allowing.replace("allow", "allow log"));
    std::fs::write(folder.path().join("rules"), rules).expect("it is writable");
    let text = text.replace("../../systems/router/rules", "rules");
    let text = text.replace("name = \"router-alone\"", "name = \"router-any-source\"");
    let file = folder.path().join("router-any-source.toml");
    std::fs::write(&file, text).expect("it is writable");
    let file = file.to_str().expect("temporary paths are text").to_string();
    (folder, file)
}

#[test]
fn what_many_sources_begin_takes_nothing_from_one() {
    with_router(Boot::system("tests/systems/router-alone.toml"), |_, namespace, [outer, _]| {
        let mut early = inside(namespace, || connect(SERVER_OUTSIDE));
        send(300, &["flood", "culm0", outer, &FLOOD.to_string(), "sources"]);
        inside(namespace, || {
            echoes(&mut early);
            echoes(&mut connect(SERVER_OUTSIDE));
        });
    });
}

/// One source outside begins connections that it never completes, then one inside flows to
/// everywhere: more than there are in all. Who else is on either side is served meanwhile.
#[test]
fn what_one_source_begins_takes_nothing_from_others() {
    with_router(Boot::system("tests/systems/router-alone.toml"), |_, namespace, [outer, inner]| {
        let mut early = [inside(namespace, || connect(SERVER_OUTSIDE)), connect(SERVER_INSIDE)];
        let count = FLOOD.to_string();
        let from_outside = || send(300, &["flood", "culm0", outer, &count, "segments"]);
        let from_inside = || inside(namespace, || send(300, &["flood", "culm1", inner, &count, "datagrams"]));
        let floods: [(&str, &(dyn Fn() + Sync)); 2] = [("segments", &from_outside), ("datagrams", &from_inside)];
        for (name, flood) in floods {
            let mut served = 0;
            std::thread::scope(|scope| {
                let flooding = scope.spawn(flood);
                while !flooding.is_finished() {
                    inside(namespace, || echoes(&mut connect(SERVER_OUTSIDE)));
                    echoes(&mut connect(SERVER_INSIDE));
                    early.iter_mut().for_each(echoes);
                    served += 1;
                }
            });
            eprintln!("{name}: {served} connections of each side during the flood");
            assert!(served > 3, "{served} connections during {name}");
        }
    });
}
