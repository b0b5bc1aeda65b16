//! Several network cards in one system.

#![allow(missing_docs, reason = "a test's name says what it tests")]

use culm_tests_harness::client::{answers_pings, run, try_run};
use culm_tests_harness::{Boot, Machine, PATIENCE, free_port, on_wires};
use culm_wire::{Namespace, ip};
use std::net::{Ipv4Addr, SocketAddr, UdpSocket};
use std::time::{Duration, Instant};

/// The networks of `two-cards.toml`: device of the host, its address, the machine's, the name that
/// stands before what is answered there.
const NETWORKS: [(&str, &str, Ipv4Addr, &[u8]); 2] = [
    ("culm0", "10.0.2.2/24", Ipv4Addr::new(10, 0, 2, 15), b"outer "),
    ("culm1", "10.0.3.2/24", Ipv4Addr::new(10, 0, 3, 15), b"inner "),
];

fn boot() -> Boot {
    Boot::system("tests/systems/two-cards.toml")
}

/// Sends a datagram until it is answered, since one may be lost; returns the answer.
fn ask(to: SocketAddr, question: &[u8], patience: Duration) -> Option<Vec<u8>> {
    let socket = UdpSocket::bind((Ipv4Addr::UNSPECIFIED, 0)).expect("there is a free port");
    socket.set_read_timeout(Some(Duration::from_millis(500))).expect("a socket takes a time-out");
    let until = Instant::now() + patience;
    let mut answer = [0; 2048];
    while Instant::now() < until {
        // While nobody has the address yet, the host may say that there is no way.
        _ = socket.send_to(question, to);
        while let Ok((length, from)) = socket.recv_from(&mut answer) {
            if from == to {
                return Some(answer[..length].to_vec());
            }
        }
    }
    None
}

/// Asks on one network until it is answered, and checks the answer.
fn is_answered(to: SocketAddr, name: &[u8], question: &[u8]) {
    let answer = ask(to, question, PATIENCE);
    assert_eq!(answer, Some([name, question].concat()), "{to}");
}

#[test]
fn each_card_has_its_own_network_and_ports() {
    let ports = [free_port(), free_port()];
    let forward = |network: usize| format!("udp:{}:{}:7", ports[network], NETWORKS[network].2);
    let _machine = boot().option(&["--forward", &forward(0), "--forward", &forward(1)]).start(&[]);
    for (port, (.., name)) in ports.into_iter().zip(NETWORKS) {
        is_answered((Ipv4Addr::LOCALHOST, port).into(), name, b"by user networking");
    }
}

#[test]
fn a_component_serves_two_cards_at_once() {
    let wires = NETWORKS.map(|(device, address, ..)| (device, address));
    on_wires(boot(), &wires, |machine: &mut Machine| {
        for (_, _, address, name) in NETWORKS {
            is_answered((address, 7).into(), name, b"anybody?");
        }
        for (.., address, _) in NETWORKS {
            for size in [56, 1400] {
                answers_pings(&address.to_string(), size);
            }
        }
        // A card answers for the address on its own network, not for the one on the other.
        let said = try_run(10, "ping", &["-n", "-c", "2", "-W", "1", "-I", "culm0", "10.0.3.15"]);
        let said = String::from_utf8_lossy(&said.stdout).into_owned();
        assert!(said.contains(" 0 received"), "{said}");
        std::thread::scope(|scope| {
            for (_, _, address, name) in NETWORKS {
                scope.spawn(move || {
                    for count in 0..300_usize {
                        is_answered((address, 7).into(), name, &vec![count as u8; count * 4]);
                    }
                });
            }
        });
        assert!(!machine.saw("faulted"), "{}", machine.tail());
    });
}

/// Two networks in two namespaces, joined by a switch in the machine, which has a client besides.
#[test]
fn a_switch_joins_two_cards_and_a_client() {
    let wires = [("culm0", "10.0.2.2/24"), ("culm1", "10.0.9.2/24")];
    on_wires(Boot::system("tests/systems/bridge.toml"), &wires, |machine: &mut Machine| {
        let station = SocketAddr::from((NETWORKS[0].2, 7));
        assert_eq!(ask(station, b"anybody?", PATIENCE).as_deref(), Some(&b"anybody?"[..]));
        // The second wire's end goes to a namespace of its own, where it is of the same network.
        let (other, ()) = Namespace::new(|| Ok(())).expect("there was one before");
        ip(&format!("link set culm1 netns {}", other.path())).expect("it can be moved");
        let set_up = || {
            ip("addr add 10.0.2.3/24 dev culm1")?;
            ip("link set culm1 up")
        };
        other.within(set_up).expect("it can be set up");
        answers_pings("10.0.2.3", 56);
        answers_pings("10.0.2.3", 1400);
        let from_there = || {
            assert_eq!(ask(station, b"and here?", PATIENCE).as_deref(), Some(&b"and here?"[..]));
            answers_pings("10.0.2.2", 56);
            Ok(())
        };
        other.within(from_there).expect("what failed is above");
        assert!(!machine.saw("faulted"), "{}", machine.tail());
    });
}

/// What a switch's mirror shows is read by tcpdump while it comes, and is what the host has sent
/// and received.
#[test]
fn a_mirror_is_captured_for_tcpdump() {
    let wires = [("culm0", "10.0.2.2/24"), ("culm1", "10.0.3.2/24")];
    on_wires(Boot::system("tests/systems/mirror.toml"), &wires, |machine: &mut Machine| {
        let capture = "http://10.0.3.15/capture.pcap";
        assert_eq!(
            ask((Ipv4Addr::new(10, 0, 2, 16), 7).into(), b"anybody?", PATIENCE).as_deref(),
            Some(&b"anybody?"[..])
        );
        answers_pings("10.0.3.15", 56);
        let folder = tempfile::tempdir().expect("a temporary folder can be made");
        let file = folder.path().join("capture.pcap");
        let path = file.to_str().expect("temporary paths are text");
        let status = |url: &str| run(30, "curl", &["-s", "-o", "/dev/null", "-w", "%{http_code}", url]);
        assert_eq!(status("http://10.0.3.15/"), "404");
        std::thread::scope(|scope| {
            let taken =
                scope.spawn(|| run(120, "curl", &["-s", "-S", "-N", "-o", path, &format!("{capture}?frames=40")]));
            // It has begun as soon as its first bytes are there; nobody else gets one meanwhile.
            let until = Instant::now() + PATIENCE;
            while std::fs::metadata(&file).map_or(0, |file| file.len()) == 0 && Instant::now() < until {
                std::thread::sleep(Duration::from_millis(50));
            }
            assert_eq!(status(capture), "503");
            answers_pings("10.0.2.16", 1400);
            taken.join().expect("it was taken");
        });
        let said = run(30, "tcpdump", &["-nn", "-e", "-r", path]);
        let lines = |what: &str| said.lines().filter(|line| line.contains(what)).count();
        assert_eq!(said.lines().count(), 40, "{said}");
        // Twenty there and back, beside what else the host may say of itself.
        assert!(lines("10.0.2.2 > 10.0.2.16: ICMP echo request") >= 15, "{said}");
        assert!(lines("10.0.2.16 > 10.0.2.2: ICMP echo reply") >= 15, "{said}");
        // Of each the first 1000 bytes are there, and how long it was.
        assert!(lines("length 1442: ") >= 30, "{said}");
        let length = std::fs::metadata(&file).expect("it is there").len();
        assert!(length < 24 + 40 * (16 + 1000) + 1, "{length}");
        // The next one can have a capture.
        let next = run(120, "curl", &["-s", "-S", "-o", path, "-w", "%{http_code}", &format!("{capture}?frames=0")]);
        assert_eq!((next.as_str(), std::fs::metadata(&file).expect("it is there").len()), ("200", 24));
        assert!(!machine.saw("faulted"), "{}", machine.tail());
    });
}
