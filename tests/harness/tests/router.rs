//! The router of `systems/router.toml` between two Linux machines: network namespaces of the test's
//! own, each at the other end of a card's wire.
//!
//! It takes root's rights; without them the tests are skipped, and say so.

#![allow(missing_docs, reason = "a test's name says what it tests")]

use culm_tests_harness::client::{Background, answers_pings, run, try_run};
use culm_tests_harness::debugger::{Debugger, code};
use culm_tests_harness::{Boot, Machine, PATIENCE, free_port, on_wires, root};
use culm_wire::{Namespace, ip};
use std::io::{Read as _, Write as _};
use std::net::{TcpListener, TcpStream};
use std::time::{Duration, Instant};

/// The wires' ends on the host, with their addresses.
const OUTER: (&str, &str) = ("culm0", "10.0.2.2/24");
const INNER: (&str, &str) = ("culm1", "10.0.3.2/24");

/// What is at each end.
const OUTSIDE: &str = "10.0.2.2";
const OUTSIDE_6: &str = "2001:db8:2::2";
const INSIDE: &str = "10.0.3.2";
const INSIDE_6: &str = "2001:db8:3::2";
const ROUTER_OUTSIDE: &str = "10.0.2.15";
const ROUTER_INSIDE: &str = "10.0.3.15";

/// The router's domain is started again only after a while, in which its code can be put back.
const RESTART: &str = "restart = { limit = 1000, window = \"1s\", backoff = \"3s\" }";

/// Runs `test` outside, with the machine and the namespace that is inside.
fn with_router(test: impl FnOnce(&mut Machine, &Namespace) + Send) {
    with_router_of(Boot::system("router"), |machine, inside| {
        test(machine, inside);
        assert!(!machine.saw("faulted"), "{}", machine.tail());
    });
}

/// The same with another description.
fn with_router_of(boot: Boot, test: impl FnOnce(&mut Machine, &Namespace) + Send) {
    on_wires(boot, &[OUTER, INNER], |machine| {
        let (inside, ()) = Namespace::new(|| Ok(())).expect("there was one before");
        ip(&format!("link set culm1 netns {}", inside.path())).expect("it can be moved");
        let set_up = || {
            add("culm1", INSIDE, INSIDE_6)?;
            ip(&format!("route add default via {ROUTER_INSIDE}"))?;
            ip("-6 route add default via 2001:db8:3::15")
        };
        inside.within(set_up).expect("it can be set up");
        ip(&format!("addr add {OUTSIDE_6}/64 dev culm0 nodad")).expect("it can have an address");
        ip("-6 route add 2001:db8:3::/64 via 2001:db8:2::15").expect("there is a way");
        ip(&format!("route add 10.0.3.0/24 via {ROUTER_OUTSIDE}")).expect("there is a way");
        test(machine, &inside);
    });
}

/// Gives a device its addresses.
fn add(device: &str, v4: &str, v6: &str) -> anyhow::Result<()> {
    ip(&format!("addr add {v4}/24 dev {device}"))?;
    ip(&format!("addr add {v6}/64 dev {device} nodad"))?;
    ip(&format!("link set {device} up"))
}

/// Runs `work` inside.
fn inside<T: Send>(namespace: &Namespace, work: impl FnOnce() -> T + Send) -> T {
    namespace.within(|| Ok(work())).expect("what failed is above")
}

/// Waits until the router answers.
fn wait_for(address: &str) {
    let until = Instant::now() + PATIENCE;
    while !try_run(5, "ping", &["-n", "-c", "1", "-W", "1", address]).status.success() {
        assert!(Instant::now() < until, "{address} does not answer");
    }
}

/// Sends to an iperf3 server and back; returns what it said of both ways.
fn throughput(address: &str, options: &[&str]) -> serde_json::Value {
    let mut arguments = vec!["-J", "-c", address, "-t", "2", "--connect-timeout", "20000"];
    arguments.extend(options);
    serde_json::from_str(&run(60, "iperf3", &arguments)).expect("iperf3 writes JSON")
}

#[test]
fn linux_on_both_sides_reaches_the_other() {
    with_router(|_, namespace| {
        inside(namespace, || wait_for(ROUTER_INSIDE));
        wait_for(ROUTER_OUTSIDE);
        inside(namespace, || {
            for address in [ROUTER_INSIDE, "2001:db8:3::15", OUTSIDE, OUTSIDE_6] {
                answers_pings(address, 56);
            }
            // Whole, in two fragments, in many.
            for size in [0, 1472, 1473, 9000, 40_000] {
                answers_pings(OUTSIDE, size);
                answers_pings(OUTSIDE_6, size);
            }
        });
        // The rules let nobody in but for pings, and addresses inside are not for outside.
        answers_pings(INSIDE_6, 1400);
        let server = inside(namespace, || TcpListener::bind((INSIDE, 9999)).expect("it is free"));
        assert!(TcpStream::connect_timeout(&([10, 0, 3, 2], 9999).into(), Duration::from_secs(1)).is_err());
        drop(server);
    });
}

#[test]
fn streams_and_datagrams_pass_both_ways() {
    with_router(|_, namespace| {
        let _server = Background::start("iperf3", &["-s"]);
        inside(namespace, || {
            wait_for(OUTSIDE);
            for (address, options) in [(OUTSIDE, &[][..]), (OUTSIDE, &["-R"]), (OUTSIDE_6, &[]), (OUTSIDE_6, &["-R"])] {
                let said = throughput(address, options);
                let bits = said["end"]["sum_received"]["bits_per_second"].as_f64().expect("it says how many");
                eprintln!("TCP {address} {options:?}: {:.0} Mbit/s", bits / 1e6);
                assert!(bits > 1e6, "{said}");
            }
        });
        for address in [OUTSIDE, OUTSIDE_6] {
            let before = dropped_by_server();
            let said = inside(namespace, || throughput(address, &["-u", "-b", "10M", "-l", "1200"]));
            let count = |what: &str| said["end"]["sum"][what].as_u64().expect("it says how many");
            let dropped = dropped_by_server() - before;
            let (sent, lost) = (count("packets"), count("lost_packets").saturating_sub(dropped));
            eprintln!("UDP {address}: {lost} of {sent} lost, {dropped} dropped by the server");
            assert!(sent > 1000 && lost * 20 < sent, "{said}");
        }
    });
}

/// Returns how many datagrams have come that found no room, since their reader was late. The
/// emulator competes with it for processors.
fn dropped_by_server() -> u64 {
    let read = |file: &str| std::fs::read_to_string(format!("/proc/thread-self/net/{file}")).expect("Linux has it");
    let (v4, v6) = (read("snmp"), read("snmp6"));
    let mut lines = v4.lines().filter_map(|line| line.strip_prefix("Udp: ")).map(str::split_whitespace);
    let (names, values) = (lines.next().expect("names"), lines.next().expect("values"));
    let v4 = names.zip(values).find(|(name, _)| *name == "RcvbufErrors").map(|(_, value)| value);
    let v6 = v6.lines().find_map(|line| line.strip_prefix("Udp6RcvbufErrors")).map(str::trim);
    [v4, v6].into_iter().map(|value| value.and_then(|value| value.parse::<u64>().ok()).expect("a number")).sum()
}

#[test]
fn ports_are_forwarded_and_answers_come_from_the_outer_address() {
    with_router(|_, namespace| {
        let server = inside(namespace, || {
            wait_for(OUTSIDE);
            TcpListener::bind((INSIDE, 8000)).expect("it is free")
        });
        let serving = std::thread::spawn(move || {
            for stream in server.incoming().take(2) {
                let mut stream = stream.expect("a connection");
                let mut request = [0; 5];
                stream.read_exact(&mut request).expect("a request");
                stream.write_all(&request).expect("an answer");
            }
        });
        let ask = || {
            let mut stream = TcpStream::connect((ROUTER_OUTSIDE, 8080)).expect("the port is forwarded");
            stream.write_all(b"hello").expect("a request");
            let mut answer = [0; 5];
            stream.read_exact(&mut answer).expect("an answer");
            assert_eq!(&answer, b"hello");
        };
        ask();
        // A host inside reaches another by the outer address, too.
        inside(namespace, ask);
        serving.join().expect("it served two");
    });
}

#[test]
fn senders_are_told_why_packets_go_no_further() {
    with_router(|_, namespace| {
        inside(namespace, || {
            wait_for(OUTSIDE);
            let says = |arguments: &[&str], expected: &str| {
                let said = try_run(20, "ping", arguments);
                let said = String::from_utf8_lossy(&said.stdout).into_owned();
                assert!(said.contains(expected), "{said}");
            };
            says(&["-n", "-c", "1", "-t", "1", OUTSIDE], "From 10.0.3.15 icmp_seq=1 Time to live exceeded");
            says(&["-n", "-c", "1", "-t", "1", OUTSIDE_6], "From 2001:db8:3::15 icmp_seq=1 Time exceeded: Hop limit");
            says(&["-n", "-c", "1", "-W", "10", "10.0.2.77"], "From 10.0.3.15 icmp_seq=1 Destination Host Unreachable");
        });
    });
}

/// A connection that is under way when the router dies goes on with its next life.
#[test]
fn flows_outlive_the_router() {
    let folder = tempfile::tempdir().expect("there is a place for temporary files");
    let file = folder.path().join("router-restart.toml");
    let rules = root().join("systems/router/rules");
    let text = std::fs::read_to_string(root().join("systems/router.toml")).expect("it is there");
    let text = text.replace("\"router/rules\"", &format!("{rules:?}"));
    let text = text.replace("component = \"router\"\n", &format!("component = \"router\"\n{RESTART}\n"));
    std::fs::write(&file, text.replace("name = \"router\"", "name = \"router-restart\"")).expect("it is writable");
    let port = free_port();
    let listen = format!("tcp:127.0.0.1:{port}");
    let boot = Boot::system(file.to_str().expect("temporary paths are text"));
    with_router_of(boot.option(&["--qemu", "-gdb", "--qemu", &listen]), |machine, namespace| {
        inside(namespace, || wait_for(OUTSIDE));
        let server = TcpListener::bind((OUTSIDE, 7777)).expect("it is free");
        let mut client = inside(namespace, || TcpStream::connect((OUTSIDE, 7777)).expect("the rules let it go out"));
        let (mut served, _) = server.accept().expect("a connection");
        let mut answer = [0; 4];
        for round in 0..2 {
            client.write_all(b"ping").expect("it is open");
            served.read_exact(&mut answer).expect("it comes");
            served.write_all(b"pong").expect("it is open");
            client.read_exact(&mut answer).expect("an answer");
            assert_eq!(&answer, b"pong");
            if round == 0 {
                break_down(machine, port, "router-restart-virt", "router");
                machine.expect("flows go on");
            }
        }
    });
}

/// Takes a domain's code away until it has noticed.
fn break_down(machine: &mut Machine, port: u16, build: &str, domain: &str) {
    let (address, size) = code(build, domain);
    let mut debugger = Debugger::connect(port);
    let code = debugger.read(address, size);
    // All instructions are undefined now (Arm ARM C6.2, UDF).
    debugger.write(address, &vec![0; size]);
    drop(debugger);
    // Whatever comes makes it run.
    _ = try_run(5, "ping", &["-n", "-c", "1", "-W", "1", ROUTER_OUTSIDE]);
    machine.expect(&format!("supervisor: {domain} faulted: undefined instruction"));
    Debugger::connect(port).write(address, &code);
}
