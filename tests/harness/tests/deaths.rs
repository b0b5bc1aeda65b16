//! The network driver dies under load, again and again and at any store; nobody at the other end of
//! the wire notices.
//!
//! The driver is `net-mortal`: the real one, made to die. It dies a few dozen times in the
//! usual run, a thousand times if `CULM_SOAK` is set.

#![allow(missing_docs, reason = "a test's name says what it tests")]

use culm_tests_harness::{Boot, Machine, PATIENCE, download, on_a_wire};
use std::collections::BTreeMap;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{TcpStream, UdpSocket};
use std::time::Duration;

/// What the supervisor says of each death.
const RESTARTED: &str = "supervisor: nic0_driver restarted";

/// Datagrams that are under way at a time: fewer than the card has buffers for while nobody empties
/// them.
const WINDOW: u64 = 64;

fn deaths() -> usize {
    if std::env::var_os("CULM_SOAK").is_some() { 1000 } else { 30 }
}

/// A system whose network driver dies after at most `steps` stores, each time anew. The console has
/// a higher priority than the load, since deaths are counted there. `steps` must be more than a
/// life needs to give the card all 512 receive buffers, which takes three stores each and is
/// committed at the end: no life of fewer steps would get any further than the one before.
fn description(name: &str, steps: u32, client: &str) -> String {
    format!(
        "name = \"{name}\"\ndescription = \"A driver that dies\"\nboard = \"virt\"\n\
         [device.nic0]\npriority = 240\ndriver = \"net-mortal\"\nconfig = {{ steps = {steps} }}\n\
         restart = {{ limit = 1000, window = \"1ms\", backoff = \"1ms\" }}\n\
         [device.uart0]\npriority = 220\n{client}"
    )
}

fn boot(folder: &tempfile::TempDir, description: &str) -> Boot {
    let file = folder.path().join("deaths.toml");
    std::fs::write(&file, description).expect("the folder is writable");
    Boot::system(file.to_str().expect("temporary paths are text"))
}

/// How often the driver has died.
fn died(machine: &mut Machine) -> usize {
    machine.console().matches(RESTARTED).count()
}

/// Every datagram is answered once, in order, however often the driver dies.
#[test]
fn no_datagram_is_lost_or_doubled() {
    let folder = tempfile::tempdir().expect("there is a place for temporary files");
    let client = "[pd.echo]\ncomponent = \"udp-echo\"\npriority = 100\nnet = \"nic0\"\n";
    on_a_wire(boot(&folder, &description("deaths-udp", 6000, client)), |machine| {
        let socket = UdpSocket::bind("0.0.0.0:0").expect("a port is free");
        socket.connect(machine.address(7)).expect("there is a way to the guest");
        socket.set_read_timeout(Some(Duration::from_secs(1))).expect("a socket takes a time-out");
        wait_for_echo(&socket);
        let before = died(machine);
        let (mut sent, mut answered) = (0, 0);
        let receive = |answered: &mut u64| {
            let mut bytes = [0; 256];
            let started = std::time::Instant::now();
            let length = loop {
                match socket.recv(&mut bytes) {
                    Ok(length) => break length,
                    Err(error) => assert!(started.elapsed() < PATIENCE, "datagram {answered} is not answered: {error}"),
                }
            };
            assert_eq!(length, 100);
            assert_eq!(bytes[..8], answered.to_be_bytes(), "expected is datagram {answered}");
            *answered += 1;
        };
        while died(machine) < before + deaths() {
            for _ in 0..1000 {
                let mut bytes = [0; 100];
                bytes[..8].copy_from_slice(&u64::to_be_bytes(sent));
                socket.send(&bytes).expect("the wire takes it");
                sent += 1;
                if sent - answered >= WINDOW {
                    receive(&mut answered);
                }
            }
        }
        while answered < sent {
            receive(&mut answered);
        }
        eprintln!("{sent} datagrams, {} deaths", died(machine) - before);
        only_restarts(machine);
    });
}

/// Until somebody answers: the guest has an address and has learnt ours. What is late is read away.
fn wait_for_echo(socket: &UdpSocket) {
    let started = std::time::Instant::now();
    let mut bytes = [0; 256];
    loop {
        // Nobody may listen yet.
        _ = socket.send(b"hello");
        if socket.recv(&mut bytes).is_ok() {
            break;
        }
        assert!(started.elapsed() < PATIENCE, "nobody answers");
    }
    while socket.recv(&mut bytes).is_ok() {}
}

/// Nothing but the driver faulted, and it was never given up.
fn only_restarts(machine: &mut Machine) {
    let console = machine.console();
    let faults = console.matches(" faulted: ").count();
    assert_eq!(faults, console.matches("supervisor: nic0_driver faulted: ").count(), "{}", machine.tail());
    assert_eq!(console.matches("too often").count(), 0, "{}", machine.tail());
}

/// A connection lives on, what comes over it is right, and neither side had to send anything twice.
#[test]
fn no_connection_is_lost_and_none_waits_for_a_retransmission() {
    let folder = tempfile::tempdir().expect("there is a place for temporary files");
    let site = folder.path().join("site");
    std::fs::create_dir(&site).expect("the folder is writable");
    let content = download::content();
    std::fs::write(site.join("file.bin"), &content).expect("the folder is writable");
    let client = format!(
        "[pd.http]\ncomponent = \"http\"\npriority = 100\nobserve = true\nconfig = {{ site = {site:?} }}\nnet = \"nic0\"\n"
    );
    on_a_wire(boot(&folder, &description("deaths-tcp", 3000, &client)), |machine| {
        machine.wait_for_web();
        let before = died(machine);
        let counted = counters();
        let resets = |machine: &Machine| machine.status().counter("nic0_driver", "resets");
        let set_up = resets(machine);
        let stream = TcpStream::connect(machine.address(80)).expect("the server listens");
        stream.set_read_timeout(Some(PATIENCE)).expect("a socket takes a time-out");
        let mut stream = BufReader::new(stream);
        let mut downloads = 0;
        while died(machine) < before + deaths() {
            assert!(fetch(&mut stream) == content, "download {downloads} is not what was packed");
            downloads += 1;
        }
        let now = counters();
        let changed: Vec<_> = now.iter().filter(|(name, value)| counted[*name] != **value).collect();
        eprintln!("{downloads} downloads, {} deaths, changed: {changed:?}", died(machine) - before);
        assert_eq!(changed, [], "something was sent twice, or came out of order");
        only_restarts(machine);
        assert_eq!((set_up, resets(machine)), (1, 1), "each life goes on with the card as it is");
    });
}

/// Fetches the file over a connection that stays.
fn fetch(stream: &mut BufReader<TcpStream>) -> Vec<u8> {
    stream.get_mut().write_all(b"GET /file.bin HTTP/1.1\r\nHost: culm\r\n\r\n").expect("the connection stands");
    let (mut length, mut line) = (None, String::new());
    loop {
        line.clear();
        assert!(stream.read_line(&mut line).expect("the connection stands") > 0, "the connection was closed");
        if line == "\r\n" {
            break;
        }
        if let Some(value) = line.to_ascii_lowercase().strip_prefix("content-length:") {
            length = value.trim().parse().ok();
        }
    }
    let mut content = vec![0; length.expect("the answer has a length")];
    stream.read_exact(&mut content).expect("the connection stands");
    content
}

/// What this host's TCP, in the namespace of this thread, counts of packets that were lost or
/// doubled: those that it sent again, those that came again, and those that came before others that
/// were missing.
fn counters() -> BTreeMap<String, u64> {
    let mut counters = BTreeMap::new();
    for file in ["snmp", "netstat"] {
        let text = std::fs::read_to_string(format!("/proc/thread-self/net/{file}")).expect("the host is Linux");
        let mut lines = text.lines();
        while let (Some(names), Some(values)) = (lines.next(), lines.next()) {
            for (name, value) in names.split(' ').zip(values.split(' ')) {
                if ["RetransSegs", "TCPDSACKOldSent", "TCPDSACKOfoSent", "TCPOFOQueue"].contains(&name) {
                    counters.insert(name.to_string(), value.parse().expect("a number"));
                }
            }
        }
    }
    counters
}
