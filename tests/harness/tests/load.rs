//! The web server under load, on one core and on four, and with clients that mean no good.
//!
//! One load at a time, since the generator takes a processor of its own.

#![allow(missing_docs, reason = "a test's name says what it tests")]

use culm_tests_harness::client::{Background, curl, run};
use culm_tests_harness::frames::write_capture;
use culm_tests_harness::{Boot, Machine, PATIENCE, on_a_wire, wire};
use std::io::{Read, Write};
use std::net::TcpStream;
use std::sync::{Barrier, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

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
        // Memory that is kept is taken in the beginning: buffers of connections, and of the
        // documents.
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

/// A good client, and how long it waits where nobody else asks.
struct Client {
    url: String,
    alone: Duration,
}

impl Client {
    /// The client of a machine that has nothing else to do.
    fn of(machine: &Machine) -> Self {
        let url = machine.url("/");
        let alone = (0..10).map(|_| Self::wait(&url)).max().expect("it asked");
        Self { url, alone }
    }

    /// How long it waits for the whole page, in a connection of its own.
    fn wait(url: &str) -> Duration {
        let begin = Instant::now();
        let answer = curl(url, &[]);
        assert_eq!(answer.status, 200);
        assert!(answer.text().ends_with("</html>\n"), "all of it");
        begin.elapsed()
    }

    /// It gets all it asks for, and is never locked out. Two packets of its connection may have to
    /// be sent again, for which its TCP waits seconds on any host; besides, what others do may make
    /// it wait many times as long as when it is alone.
    fn is_served_well(&self, times: usize) {
        let most = Duration::from_secs(5) + 50 * self.alone;
        for _ in 0..times {
            let waited = Self::wait(&self.url);
            assert!(waited < most, "it waited for {waited:?}; alone, for {:?}", self.alone);
        }
    }
}

/// Opens connections with `open`, more and more of them, until some had to make way for others:
/// then all places are taken. Good clients are served all the while. Returns the connections.
fn fill_all_places(
    machine: &Machine,
    client: &Client,
    mut open: impl FnMut(usize, TcpStream) -> TcpStream,
) -> Vec<TcpStream> {
    let mut streams = vec![];
    while machine.status().counter("http", "evicted") == 0 {
        // So many can be open at once in one process that starts with a usual limit; where none
        // made way, something is wrong.
        assert!(streams.len() < 800, "{} connections, and none had to make way", streams.len());
        for _ in 0..100 {
            let number = streams.len();
            let stream = TcpStream::connect_timeout(&machine.address(80), PATIENCE);
            let stream = stream.unwrap_or_else(|error| panic!("connection {number}: {error}"));
            streams.push(open(number, stream));
        }
        client.is_served_well(4);
    }
    streams
}

#[test]
fn slow_and_silent_clients_do_not_keep_others_out() {
    let _turn = turn();
    on_a_wire(Boot::system("web"), |machine| {
        machine.wait_for_web();
        let client = Client::of(machine);
        let mut slow = fill_all_places(machine, &client, |number, mut stream| {
            // Half of them begin a request and never end it, half say nothing.
            if number % 2 == 0 {
                // It may have been turned away already, which is as good.
                _ = stream.write_all(b"GET / HTTP/1.1\r\nHost: slow\r\nX: ");
            }
            stream
        });
        // They go on, as slowly as they can.
        for _ in 0..5 {
            for stream in &mut slow {
                _ = stream.write(b"x");
            }
            client.is_served_well(4);
        }
        machine.is_unharmed();
    });
}

#[test]
fn clients_that_keep_their_connections_do_not_keep_others_out() {
    let _turn = turn();
    on_a_wire(Boot::system("web"), |machine| {
        machine.wait_for_web();
        let client = Client::of(machine);
        let mut kept = fill_all_places(machine, &client, |_, mut stream| {
            ask(&mut stream);
            stream
        });
        // They go on asking, those that may.
        for _ in 0..3 {
            kept.retain_mut(ask);
            client.is_served_well(10);
        }
        assert!(kept.len() > 100, "{} of them are still served", kept.len());
        machine.is_unharmed();
    });
}

/// More connections than there are places, each of which asks again as soon as it has its answer,
/// as those of a proxy do: none of them ever rests.
#[test]
fn clients_that_ask_without_pause_do_not_keep_others_out() {
    let _turn = turn();
    on_a_wire(Boot::system("web"), |machine| {
        machine.wait_for_web();
        let url = machine.url("/favicon.svg");
        let before = machine.status().counter("http", "connections");
        let mut load = Background::start("wrk", &["-t1", "-c400", "-d300s", "--timeout", "60s", &url]);
        while machine.status().counter("http", "connections") < before + 400 {
            assert!(load.is_running(), "the load ended, and others had no turn");
        }
        for _ in 0..4 {
            assert_eq!(curl(&url, &[]).status, 200);
            assert!(load.is_running(), "the load ended before somebody else had a turn");
        }
        drop(load);
        machine.is_unharmed();
    });
}

/// Asks for a page on a connection that stays; whether the answer came whole.
fn ask(stream: &mut TcpStream) -> bool {
    let mut answer = vec![];
    let mut buffer = [0; 4096];
    _ = stream.set_read_timeout(Some(PATIENCE));
    if stream.write_all(b"GET /favicon.svg HTTP/1.1\r\nHost: kept\r\n\r\n").is_err() {
        return false;
    }
    while !answer.ends_with(b"</svg>\n") {
        match stream.read(&mut buffer) {
            Ok(count) if count > 0 => answer.extend_from_slice(&buffer[..count]),
            _ => return false,
        }
    }
    answer.starts_with(b"HTTP/1.1 200 ")
}

#[test]
fn a_flash_crowd_is_served_without_a_reset() {
    const CROWD: usize = 800;
    let _turn = turn();
    on_a_wire(Boot::system("web"), |machine| {
        machine.wait_for_web();
        let address = machine.address(80);
        // More than there are places, all at once; each leaves when it has its answer.
        let gate = Barrier::new(CROWD);
        let client = || {
            gate.wait();
            let mut stream =
                TcpStream::connect_timeout(&address, PATIENCE).map_err(|error| format!("connect: {error}"))?;
            stream.set_read_timeout(Some(PATIENCE)).map_err(|error| error.to_string())?;
            let request = b"GET /favicon.svg HTTP/1.1\r\nHost: crowd\r\nConnection: close\r\n\r\n";
            stream.write_all(request).map_err(|error| format!("send: {error}"))?;
            let mut answer = vec![];
            stream.read_to_end(&mut answer).map_err(|error| format!("receive: {error}"))?;
            if answer.starts_with(b"HTTP/1.1 200 ") && answer.ends_with(b"</svg>\n") {
                Ok(())
            } else {
                Err("cut".into())
            }
        };
        let failed: Vec<String> = std::thread::scope(|scope| {
            // Threads of the scope are in the namespace of the one that starts them.
            let clients: Vec<_> = (0..CROWD).map(|_| scope.spawn(client)).collect();
            clients.into_iter().filter_map(|client| client.join().expect("clients do not panic").err()).collect()
        });
        assert!(failed.is_empty(), "{} of {CROWD} failed: {:?}", failed.len(), failed.first());
        assert_eq!(machine.status().counter("http", "resets"), 0);
        machine.is_unharmed();
    });
}

/// Serves good clients while a flood goes on, and for at least so long that so many of its requests
/// for connections came.
fn is_served_beside(machine: &mut Machine, client: &Client, mut flood: Background, attempts: u64) {
    client.is_served_well(20);
    while machine.status().counter("http", "attempts") < attempts {
        client.is_served_well(4);
        assert!(flood.is_running(), "the flood ended by itself");
    }
    drop(flood);
    machine.is_unharmed();
}

/// How the status page shows attempts that are refused: `zero`, `warn` while there are any, `some`
/// after that.
fn refused(machine: &Machine) -> String {
    let page = curl(&machine.url("/_status"), &[]).text();
    let (_, tile) = page.split_once("<h3>Refused</h3><b class=\"").expect("the page tells of attempts");
    tile.split_once('"').expect("the class ends").0.to_owned()
}

#[test]
fn the_status_page_tells_of_an_overload_and_of_its_end() {
    let _turn = turn();
    on_a_wire(Boot::system("web"), |machine| {
        machine.wait_for_web();
        let client = Client::of(machine);
        assert_eq!(refused(machine), "zero");
        // Many more clients than there are places, and each of their requests on a connection of
        // its own.
        let url = machine.url("/favicon.svg");
        let load = ["-t1", "-c4000", "-d300s", "--timeout", "60s", "-H", "Connection: close", &url];
        let mut load = Background::start("wrk", &load);
        let mut counts = vec![0];
        while counts.len() < 4 || refused(machine) != "warn" {
            assert!(load.is_running(), "the load ended by itself");
            let now = machine.status().counter("http", "attempts_refused");
            if Some(&now) > counts.last() {
                counts.push(now);
            }
        }
        drop(load);
        // Requests that they had sent still come to their end.
        let begin = Instant::now();
        while refused(machine) != "some" {
            assert!(begin.elapsed() < PATIENCE, "attempts are refused with nobody there");
        }
        let before = machine.status();
        client.is_served_well(20);
        let after = machine.status();
        let refusals = [&before, &after].map(|status| status.counter("http", "attempts_refused"));
        assert_eq!(refusals[0], refusals[1], "everybody is let in at once");
        let drops = [&before, &after].map(|status| status.counter("nic0_rx", "drops_syns"));
        assert_eq!(drops[0], drops[1], "nobody's SYN is dropped before the server sees it");
        assert_eq!(after.counter("http", "resets"), 0);
        machine.is_unharmed();
    });
}

#[test]
fn half_open_connections_do_not_keep_others_out() {
    let _turn = turn();
    on_a_wire(Boot::system("web"), |machine| {
        machine.wait_for_web();
        let client = Client::of(machine);
        // From addresses that nobody has, so that nobody takes back what was begun.
        let target = machine.address(80).ip().to_string();
        let flood = ["-q", "-S", "-p", "80", "-i", "u500", "-a", "198.18.0.99", &target];
        is_served_beside(machine, &client, Background::start("hping3", &flood), 2000);
    });
}

#[test]
fn half_open_connections_from_a_clients_own_address_do_not_keep_it_out() {
    let _turn = turn();
    on_a_wire(Boot::system("web"), |machine| {
        machine.wait_for_web();
        let client = Client::of(machine);
        let target = machine.address(80).ip().to_string();
        let flood = ["-q", "-S", "-p", "80", "-i", "u500", &target];
        is_served_beside(machine, &client, Background::start("hping3", &flood), 2000);
    });
}

#[test]
fn false_claims_of_addresses_do_not_keep_others_out() {
    let _turn = turn();
    on_a_wire(Boot::system("web"), |machine| {
        machine.wait_for_web();
        let client = Client::of(machine);
        let folder = tempfile::tempdir().expect("there is a place for temporary files");
        let capture = folder.path().join("claims.pcap");
        let (std::net::IpAddr::V4(target), mac) = (machine.address(80).ip(), machine.mac()) else {
            unreachable!("the wire has IPv4 addresses")
        };
        // That the client's address is somebody else's, as an ARP reply (RFC 826).
        let liar = [2, 6, 6, 6, 6, 6];
        let mut claim = [mac, liar].concat();
        claim.extend([0x08, 0x06, 0, 1, 8, 0, 6, 4, 0, 2]);
        claim.extend(liar);
        claim.extend(culm_wire::HOST.octets());
        claim.extend(mac);
        claim.extend(target.octets());
        write_capture(&capture, &[claim]).expect("the folder is writable");
        let interface = format!("--intf1={}", wire::DEVICE);
        let capture = capture.to_str().expect("temporary paths are text");
        let claims = ["--quiet", "--pps=1000", "--loop=100000000", &interface, capture];
        let mut claims = Background::start("tcpreplay", &claims);
        client.is_served_well(40);
        assert!(claims.is_running(), "the claims ended by themselves");
        drop(claims);
        machine.is_unharmed();
    });
}
