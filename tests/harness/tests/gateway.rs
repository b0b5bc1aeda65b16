//! Two Linux guests in the path of packets, a firewall and a server joined by a link, as anybody
//! gets them by `./culm run gateway`: here with a network of the test's own at each card.

#![allow(missing_docs, reason = "a test's name says what it tests")]

use culm_tests_harness::client::{answers_pings, curl, try_run};
use culm_tests_harness::terminal::Terminal;
use culm_tests_harness::wire::skip;
use culm_tests_harness::{Boot, free_port};
use culm_wire::{Namespace, ip};
use std::io::{Read as _, Write as _};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::time::{Duration, Instant};

/// Devices of the host at the cards, and their addresses.
const WIRES: [(&str, &str); 2] = [("culm0", "10.0.2.2/24"), ("culm1", "10.0.3.2/24")];

/// The firewall, from outside.
const FIREWALL: &str = "10.0.2.15";
/// The server on the link, and on the net behind it.
const SERVER: &str = "192.168.7.2";
const ROUTER: &str = "10.0.3.15";

/// Bytes of the server's large file.
const LARGE: usize = 16 << 20;

/// Packets in which it comes if each carries many segments: a fraction of the 11,600 segments.
const PACKETS: usize = 4000;

/// How long a guest may take to be back.
const PATIENCE: Duration = Duration::from_secs(120);

/// The machine, and the network behind its second card; outside is where the test is.
struct World<'a> {
    terminal: Terminal,
    inner: &'a Namespace,
}

impl World<'_> {
    /// Types a command for the shell that has the keyboard and waits for an answer, which must not
    /// stand in the command: the terminal shows that too.
    fn ask(&mut self, command: &str, answer: &str) {
        self.terminal.press(&format!("{command}\r"));
        self.terminal.expect(answer);
    }

    /// Gives a guest the keyboard: 1 is the firewall's, 2 the server's.
    fn focus(&mut self, console: u32, name: &str) {
        self.terminal.press(&format!("\x1d{console}"));
        self.terminal.expect(&format!("[console {console}*: {name}]"));
    }

    /// Does something on the inner network.
    fn inside<T: Send>(&self, work: impl FnOnce() -> T + Send) -> T {
        self.inner.within(|| Ok(work())).expect("what failed is above")
    }
}

#[test]
fn two_linuxes_are_a_gateway() {
    let set_up = || {
        for (device, address) in WIRES {
            ip(&format!("tuntap add dev {device} mode tap"))?;
            ip(&format!("addr add {address} dev {device}"))?;
            ip(&format!("link set {device} up"))?;
        }
        // What knows of the link's addresses does not reach them either.
        ip(&format!("route add 192.168.7.0/24 via {FIREWALL}"))
    };
    let outer = match Namespace::new(set_up) {
        Ok((namespace, ())) => namespace,
        Err(error) => return skip(&format!("{error:#}")),
    };
    let (inner, ()) = Namespace::new(|| Ok(())).expect("there was one before");
    let boot = Boot::system("systems/gateway.toml");
    // Before the namespace is entered, from which nothing could be fetched.
    boot.build();
    let run = || {
        let taps: Vec<&str> = WIRES.iter().flat_map(|(device, _)| ["--tap", device]).collect();
        let mut terminal = Terminal::run(&boot.option(&taps).run_command());
        terminal.expect_all(&["the firewall is up", "the server is up"]);
        let (device, address) = WIRES[1];
        ip(&format!("link set {device} netns {}", inner.path()))?;
        inner.within(|| {
            ip(&format!("addr add {address} dev {device}"))?;
            ip(&format!("link set {device} up"))?;
            ip(&format!("route add default via {ROUTER}"))
        })?;
        let mut world = World { terminal, inner: &inner };
        outside_reaches_the_server_and_nothing_else();
        inside_reaches_out_under_the_firewalls_address(&world);
        packets_of_many_segments_cross_the_link_whole(&mut world);
        one_begins_anew_and_the_other_goes_on(&mut world);
        Ok(())
    };
    outer.within(run).expect("what failed is above");
}

/// The page of the server, by one of its addresses.
fn has_the_page(address: &str) {
    let answer = curl(&format!("http://{address}/"), &[]);
    assert!(answer.status == 200 && answer.text().contains("Behind a firewall"), "{}", answer.text());
}

/// Asks again until the page comes: who begins anew is not there for a while.
fn comes_back(address: &str) {
    let until = Instant::now() + PATIENCE;
    let url = format!("http://{address}/");
    while !try_run(10, "curl", &["--silent", "--fail", "--max-time", "3", &url]).status.success() {
        assert!(Instant::now() < until, "{address} did not come back");
    }
    has_the_page(address);
}

fn outside_reaches_the_server_and_nothing_else() {
    has_the_page(FIREWALL);
    answers_pings(FIREWALL, 56);
    // Bulk, through both guests.
    let answer = curl(&format!("http://{FIREWALL}/large"), &[]);
    let expected: Vec<u8> =
        b"Each Linux is sealed in a compartment of its own.\n".iter().copied().cycle().take(LARGE).collect();
    assert!(answer.body == expected, "{} bytes came, or others than were sent", answer.body.len());
    for refused in [format!("{FIREWALL}:22"), format!("{FIREWALL}:8080"), format!("{SERVER}:80")] {
        let address: SocketAddr = refused.parse().expect("an address");
        let connected = TcpStream::connect_timeout(&address, Duration::from_secs(2));
        assert!(connected.is_err(), "{refused} is reached");
    }
}

fn inside_reaches_out_under_the_firewalls_address(world: &World<'_>) {
    world.inside(|| {
        // Past both guests, each a hop.
        answers_pings("10.0.2.2", 56);
        answers_pings("10.0.2.2", 1400);
        has_the_page(ROUTER);
    });
    let port = free_port();
    let listener = TcpListener::bind(("10.0.2.2", port)).expect("the port is free");
    std::thread::scope(|scope| {
        let answered = scope.spawn(move || {
            let (mut stream, from) = listener.accept().expect("somebody comes");
            stream.write_all(b"from outside").expect("it is open");
            from.ip().to_string()
        });
        let said = world.inside(|| {
            let address: SocketAddr = ([10, 0, 2, 2], port).into();
            let mut stream = TcpStream::connect_timeout(&address, PATIENCE).expect("it listens");
            let mut said = String::new();
            stream.read_to_string(&mut said).expect("it answers");
            said
        });
        assert_eq!(said, "from outside");
        assert_eq!(answered.join().expect("it listened"), FIREWALL, "nobody outside sees inner addresses");
    });
}

/// Over IPv4 and IPv6.
fn packets_of_many_segments_cross_the_link_whole(world: &mut World<'_>) {
    world.focus(1, "firewall");
    for (number, address) in [SERVER, "[fd00:7::2]"].into_iter().enumerate() {
        let count = "$(cat /sys/class/net/eth1/statistics/rx_packets)";
        let fetch = format!("before={count}; wget -q -O - http://{address}/large | wc -c; after={count}");
        let few = format!("[ $((after - before)) -lt {PACKETS} ] && echo few-$((40 + {number}))-packets");
        world.ask(&fetch, &LARGE.to_string());
        world.ask(&few, &format!("few-{}-packets", 40 + number));
    }
}

fn one_begins_anew_and_the_other_goes_on(world: &mut World<'_>) {
    world.focus(1, "firewall");
    world.ask("reboot -f", "firewall_monitor: the guest has reset itself");
    // The server goes on beside it.
    world.inside(|| has_the_page(ROUTER));
    world.terminal.expect("the firewall is up");
    comes_back(FIREWALL);
    world.inside(|| answers_pings("10.0.2.2", 56));
    world.focus(2, "server");
    world.ask("reboot -f", "server_monitor: the guest has reset itself");
    answers_pings(FIREWALL, 56);
    world.terminal.expect("the server is up");
    comes_back(FIREWALL);
    let answer = curl(&format!("http://{FIREWALL}/large"), &[]);
    assert_eq!(answer.body.len(), LARGE);
    world.inside(|| answers_pings("10.0.2.2", 1400));
}
