//! The network's driver and its virtualisers die under load, again and again; nobody at the other
//! end of the wire notices.
//!
//! The driver is `net-mortal`: the real one, made to die at any store. The virtualisers are those
//! of every system; they die at any instruction, which a debugger takes away, and so does a driver
//! that shares its domain with them. Each dies a few dozen times in the usual run, a thousand times
//! if `CULM_SOAK` is set.

#![allow(missing_docs, reason = "a test's name says what it tests")]

use culm_tests_harness::debugger::{Debugger, code};
use culm_tests_harness::frames::Random;
use culm_tests_harness::{Boot, Machine, PATIENCE, client, download, free_port, on_a_wire};
use std::collections::BTreeMap;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{TcpStream, UdpSocket};
use std::time::Duration;

/// The supervisor's line about each death.
const RESTARTED: &str = "supervisor: nic0_driver restarted";

/// Each death is answered at once.
const RESTART: &str = "restart = { limit = 1000, window = \"1ms\", backoff = \"1ms\" }";

/// Datagrams that are under way at a time: fewer than the card has buffers for while nobody empties
/// them.
const WINDOW: u64 = 64;

/// Instructions that are taken away at a time.
const AT_ONCE: usize = 4;

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
        let mut echo = Echo::new(machine);
        let before = died(machine);
        while died(machine) < before + deaths() {
            echo.send(1000);
        }
        echo.finish(machine);
        eprintln!("{} datagrams, {} deaths", echo.sent, died(machine) - before);
        only_restarts(machine, "nic0_driver");
    });
}

/// A station that has the card to itself, and answers for the address of the wire's other end.
const STATION: &str = "[pd.station]\ncomponent = \"reflector\"\npriority = 100\ncard = \"nic0\"\n\
     config = { address = \"198.18.0.2\" }\nrestart = { limit = 1000, window = \"1ms\", backoff = \"1ms\" }\n";

/// The same description, where the card has no virtualisers.
fn bare(description: &str) -> String {
    description.replacen("[device.nic0]\n", "[device.nic0]\nbare = true\n", 1)
}

/// A client without virtualisers does what they do for theirs: it loses nothing where
/// the driver dies.
#[test]
fn a_bare_client_loses_and_doubles_no_datagram() {
    let folder = tempfile::tempdir().expect("there is a place for temporary files");
    on_a_wire(boot(&folder, &bare(&description("deaths-bare", 6000, STATION))), |machine| {
        let mut echo = Echo::new(machine);
        let address = machine.address(7).ip().to_string();
        let said = client::run(20, "ping", &["-n", "-c", "3", "-i", "0.2", "-s", "1400", &address]);
        assert!(said.contains("3 received"), "{said}");
        let before = died(machine);
        while died(machine) < before + deaths() {
            echo.send(1000);
        }
        echo.finish(machine);
        eprintln!("{} datagrams, {} deaths", echo.sent, died(machine) - before);
        only_restarts(machine, "nic0_driver");
    });
}

/// A client without virtualisers dies at any instruction: the card is given up with what it had for
/// it, and the next life answers.
#[test]
fn a_bare_client_that_dies_answers_again() {
    let folder = tempfile::tempdir().expect("there is a place for temporary files");
    let description = bare(&format!(
        "name = \"deaths-station\"\ndescription = \"A client that dies\"\nboard = \"virt\"\n\
         [device.nic0]\npriority = 240\n[device.uart0]\npriority = 220\n{STATION}"
    ));
    let port = free_port();
    let listen = format!("tcp:127.0.0.1:{port}");
    let boot = boot(&folder, &description).option(&["--qemu", "-gdb", "--qemu", &listen]);
    on_a_wire(boot, |machine| {
        let socket = Echo::new(machine).socket;
        let (address, size) = code("deaths-station-virt", "station");
        let text = Debugger::connect(port).read(address, size);
        let (mut random, mut tried) = (Random::new(1), 0);
        while machine.console().matches("supervisor: station faulted: ").count() < deaths() {
            let offset = random.below(size / 4) * 4;
            // An undefined one (Arm ARM C6.2, UDF).
            Debugger::connect(port).write(address + offset as u64, &[0; 4]);
            for _ in 0..64 {
                _ = socket.send(b"are you there?");
            }
            _ = socket.recv(&mut [0; 64]);
            Debugger::connect(port).write(address + offset as u64, &text[offset..offset + 4]);
            wait_for_echo(&socket);
            tried += 1;
        }
        eprintln!("{} deaths, {tried} instructions", deaths());
        only_restarts(machine, "station");
    });
}

/// Every datagram is answered once, in order, at whichever instructions a domain of the card's
/// dies, of a device with these keys.
fn die_at_any_instruction(name: &str, keys: &str, domain: &str) {
    let folder = tempfile::tempdir().expect("there is a place for temporary files");
    let description = format!(
        "name = \"{name}\"\ndescription = \"A domain that dies\"\nboard = \"virt\"\n\
         [device.nic0]\npriority = 240\n{keys}\n[device.uart0]\npriority = 220\n\
         [pd.echo]\ncomponent = \"udp-echo\"\npriority = 100\nnet = \"nic0\"\n"
    );
    let port = free_port();
    let listen = format!("tcp:127.0.0.1:{port}");
    let boot = boot(&folder, &description).option(&["--qemu", "-gdb", "--qemu", &listen]);
    on_a_wire(boot, |machine| {
        let mut echo = Echo::new(machine);
        let (address, size) = code(&format!("{name}-virt"), domain);
        let text = Debugger::connect(port).read(address, size);
        let faulted = format!("supervisor: {domain} faulted: ");
        let (mut random, mut tried) = (Random::new(1), 0);
        while machine.console().matches(&faulted).count() < deaths() {
            // A few instructions at a time: of all, this load comes to one in ten or so.
            let offsets: [usize; AT_ONCE] = std::array::from_fn(|_| random.below(size / 4) * 4);
            let before = machine.console().matches(&faulted).count();
            // An undefined one (Arm ARM C6.2, UDF).
            let mut debugger = Debugger::connect(port);
            offsets.iter().for_each(|offset| debugger.write(address + *offset as u64, &[0; 4]));
            drop(debugger);
            for _ in 0..4 {
                echo.try_to_send(64);
                if machine.console().matches(&faulted).count() > before {
                    break;
                }
            }
            let mut debugger = Debugger::connect(port);
            offsets.iter().for_each(|offset| debugger.write(address + *offset as u64, &text[*offset..offset + 4]));
            drop(debugger);
            echo.finish(machine);
            tried += AT_ONCE;
        }
        eprintln!("{} datagrams, {} deaths, {tried} instructions", echo.sent, deaths());
        only_restarts(machine, domain);
    });
}

#[test]
fn a_transmit_virtualiser_that_dies_loses_and_doubles_no_datagram() {
    die_at_any_instruction("deaths-tx", &format!("virtualiser = {{ {RESTART} }}"), "nic0_tx");
}

#[test]
fn a_receive_virtualiser_that_dies_loses_and_doubles_no_datagram() {
    die_at_any_instruction("deaths-rx", &format!("virtualiser = {{ {RESTART} }}"), "nic0_rx");
}

#[test]
fn a_fused_driver_that_dies_loses_and_doubles_no_datagram() {
    die_at_any_instruction("deaths-fused", &format!("fused = true\n{RESTART}"), "nic0_driver");
}

/// Datagrams to the guest, which sends them back, and their answers.
struct Echo {
    socket: UdpSocket,
    sent: u64,
    answered: u64,
}

impl Echo {
    fn new(machine: &Machine) -> Self {
        let socket = UdpSocket::bind("0.0.0.0:0").expect("a port is free");
        socket.connect(machine.address(7)).expect("there is a way to the guest");
        socket.set_read_timeout(Some(Duration::from_secs(1))).expect("a socket takes a time-out");
        wait_for_echo(&socket);
        Self { socket, sent: 0, answered: 0 }
    }

    /// Sends so many, and waits for answers where too many are under way.
    fn send(&mut self, count: u32) {
        for _ in 0..count {
            let mut bytes = [0; 100];
            bytes[..8].copy_from_slice(&u64::to_be_bytes(self.sent));
            self.socket.send(&bytes).expect("the wire takes it");
            self.sent += 1;
            if self.sent - self.answered >= WINDOW {
                assert!(self.receive(PATIENCE), "datagram {} is not answered", self.answered);
            }
        }
    }

    /// Does what [`Self::send`] does, but sends no more if the guest does not answer for a while.
    fn try_to_send(&mut self, count: u64) {
        self.send(count.min(WINDOW - 1 - (self.sent - self.answered)) as u32);
        while self.answered < self.sent && self.receive(Duration::from_millis(20)) {}
    }

    /// Waits for the answers to all.
    fn finish(&mut self, machine: &mut Machine) {
        while self.answered < self.sent {
            let answered = self.receive(PATIENCE);
            assert!(answered, "datagram {} is not answered:\n{}", self.answered, machine.tail());
        }
    }

    /// Waits for the next answer. Returns false if there is none for so long.
    fn receive(&mut self, patience: Duration) -> bool {
        let mut bytes = [0; 256];
        let started = std::time::Instant::now();
        self.socket.set_read_timeout(Some(patience.min(Duration::from_secs(1)))).expect("a socket takes a time-out");
        let length = loop {
            match self.socket.recv(&mut bytes) {
                Ok(length) => break length,
                Err(_) if started.elapsed() < patience => {}
                Err(_) => return false,
            }
        };
        assert_eq!(length, 100);
        assert_eq!(bytes[..8], self.answered.to_be_bytes(), "expected is datagram {}", self.answered);
        self.answered += 1;
        true
    }
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

/// Nothing but `domain` faulted, and it was never given up.
fn only_restarts(machine: &mut Machine, domain: &str) {
    let console = machine.console();
    let faults = console.matches(" faulted: ").count();
    let of_domain = format!("supervisor: {domain} faulted: ");
    assert_eq!(faults, console.matches(&of_domain).count(), "{}", machine.tail());
    assert_eq!(console.matches("too often").count(), 0, "{}", machine.tail());
    assert_eq!(console.matches("does not send").count(), 0, "the card is blamed: {}", machine.tail());
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
        only_restarts(machine, "nic0_driver");
        // The first lives may end before the card is set up.
        assert_eq!(resets(machine), set_up, "each life goes on with the card as it is");
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

/// Returns what this host's TCP, in the namespace of this thread, counts of packets that were lost
/// or doubled: those that it sent again, those that came again, and those that came before others
/// that were missing.
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
