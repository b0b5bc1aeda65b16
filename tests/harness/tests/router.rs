//! The router of `tests/systems/router-alone.toml` between two Linux machines: network namespaces
//! of the test's own, each at the other end of a card's wire.
//!
//! It takes root's rights; without them the tests are skipped, and say so.

#![allow(missing_docs, reason = "a test's name says what it tests")]

use culm_tests_harness::client::{Background, answers_pings, curl, run, try_run, wait_for_ping};
use culm_tests_harness::debugger::{Debugger, code};
use culm_tests_harness::{Boot, Machine, PATIENCE, free_port, on_wires, root};
use culm_wire::{Namespace, ip};
use std::io::{Read as _, Write as _};
use std::net::{SocketAddr, TcpListener, TcpStream, UdpSocket};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread::sleep;
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

/// Addresses of a host behind the one outside.
const FAR: &str = "10.0.9.2";
const FAR_TOO: &str = "10.0.9.3";
const FAR_6: &str = "2001:db8:9::2";

/// Another address inside, and the flows that are begun from there: more than the router has.
const FLOODER: &str = "10.0.3.3";
const FLOOD: usize = 3 * 16_384;

/// The router's domain is started again only after a while, in which its code can be put back.
const RESTART: &str = "restart = { limit = 1000, window = \"1s\", backoff = \"3s\" }";

/// Runs `test` outside, with the machine and the namespace that is inside.
fn with_router(test: impl FnOnce(&mut Machine, &Namespace) + Send) {
    with_router_of(Boot::system("tests/systems/router-alone.toml"), |machine, inside| {
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

/// Writes a description of the router's system with another name and one more line, behind `line`.
/// Returns the folder that has it, for as long as it is kept, and the file.
fn described(name: &str, line: &str, more: &str) -> (tempfile::TempDir, String) {
    let folder = tempfile::tempdir().expect("there is a place for temporary files");
    let file = folder.path().join(name).with_extension("toml");
    let rules = root().join("systems/router/rules");
    let text = std::fs::read_to_string(root().join("tests/systems/router-alone.toml")).expect("it is there");
    assert!(text.contains(line), "{line}");
    let text = text.replace("\"../../systems/router/rules\"", &format!("{rules:?}"));
    let text = text.replace(line, &format!("{line}{more}\n"));
    let text = text.replace("name = \"router-alone\"", &format!("name = \"{name}\""));
    std::fs::write(&file, text).expect("it is writable");
    let file = file.to_str().expect("temporary paths are text").to_string();
    (folder, file)
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

/// Asks for an echo, with these options; `expected` is what is said then.
fn says(arguments: &[&str], expected: &str) {
    let said = try_run(20, "ping", &[&["-n", "-c", "1", "-W", "10"], arguments].concat());
    let said = String::from_utf8_lossy(&said.stdout).into_owned();
    assert!(said.contains(expected), "not `{expected}`: {said}");
}

/// Sends to an iperf3 server and back; returns what it said of both ways.
fn throughput(address: &str, options: &[&str]) -> serde_json::Value {
    let mut arguments = vec!["-J", "-c", address, "-t", "2", "--connect-timeout", "20000"];
    arguments.extend(options);
    let until = Instant::now() + PATIENCE;
    loop {
        let said = run(60, "iperf3", &arguments);
        let said: serde_json::Value = serde_json::from_str(&said).expect("iperf3 writes JSON");
        // Of errors it tells there only. The server may not have ended the test before this one.
        match said["error"].as_str() {
            None => return said,
            Some(error) => assert!(error.contains("busy") && Instant::now() < until, "{error}"),
        }
        sleep(Duration::from_millis(100));
    }
}

#[test]
fn linux_on_both_sides_reaches_the_other() {
    with_router(|_, namespace| {
        inside(namespace, || wait_for_ping(ROUTER_INSIDE));
        wait_for_ping(ROUTER_OUTSIDE);
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
            wait_for_ping(OUTSIDE);
            for (address, options) in [(OUTSIDE, &[][..]), (OUTSIDE, &["-R"]), (OUTSIDE_6, &[]), (OUTSIDE_6, &["-R"])] {
                let said = throughput(address, options);
                let bits = said["end"]["sum_received"]["bits_per_second"].as_f64();
                let bits = bits.unwrap_or_else(|| panic!("it does not say how many: {said}"));
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
            wait_for_ping(OUTSIDE);
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
            wait_for_ping(OUTSIDE);
            says(&["-t", "1", OUTSIDE], "From 10.0.3.15 icmp_seq=1 Time to live exceeded");
            says(&["-t", "1", OUTSIDE_6], "From 2001:db8:3::15 icmp_seq=1 Time exceeded: Hop limit");
            says(&["10.0.2.77"], "From 10.0.3.15 icmp_seq=1 Destination Host Unreachable");
        });
    });
}

/// Behind the host outside is another network, over a link that carries less than the router's own,
/// which carries less than the one inside. Errors from out there are about packets that NAT has
/// rewritten: who is inside understands them only if they are rewritten too.
#[test]
fn path_and_its_mtu_are_found() {
    let (_folder, file) = described("router-small", "gateway = \"10.0.2.2\"\n", "outer_mtu = 1400");
    with_router_of(Boot::system(file), |machine, namespace| {
        let far = far_network();
        let server = far.within(|| Ok(TcpListener::bind((FAR_TOO, 7777))?)).expect("it is free");
        let reading = std::thread::spawn(move || {
            let (mut stream, _) = server.accept().expect("a connection");
            std::io::copy(&mut stream, &mut std::io::sink()).expect("it is read to its end")
        });
        inside(namespace, || {
            wait_for_ping(FAR);
            // What traceroute does.
            says(&["-t", "1", FAR], "From 10.0.3.15 icmp_seq=1 Time to live exceeded");
            says(&["-t", "2", FAR], "From 10.0.2.2 icmp_seq=1 Time to live exceeded");
            says(&["-t", "3", FAR], "1 received");
            says(&["-t", "1", FAR_6], "From 2001:db8:3::15 icmp_seq=1 Time exceeded: Hop limit");
            says(&["-t", "2", FAR_6], "From 2001:db8:2::2 icmp_seq=1 Time exceeded: Hop limit");
            says(&["-t", "3", FAR_6], "1 received");
            for (address, local) in [(FAR, INSIDE), (FAR_6, INSIDE_6)] {
                let socket = UdpSocket::bind((local, 0)).expect("there are ports");
                socket.set_read_timeout(Some(PATIENCE)).expect("it is not zero");
                socket.connect((address, 33_434)).expect("there is a way");
                socket.send(b"who is there").expect("it has room");
                let error = socket.recv(&mut [0; 16]).expect_err("nobody is there");
                assert_eq!(error.kind(), std::io::ErrorKind::ConnectionRefused, "{address}: {error}");
            }
            // Each link in turn says what it carries; the largest packet that all carry passes.
            for (size, expected) in [
                ("1472", "From 10.0.3.15 icmp_seq=1 Frag needed and DF set (mtu = 1400)"),
                ("1372", "From 10.0.2.2 icmp_seq=1 Frag needed and DF set (mtu = 1300)"),
                ("1272", "1 received"),
            ] {
                says(&["-M", "do", "-s", size, FAR], expected);
            }
            for (size, expected) in [
                ("1452", "From 2001:db8:3::15 icmp_seq=1 Packet too big: mtu=1400"),
                ("1352", "From 2001:db8:2::2 icmp_seq=1 Packet too big: mtu=1300"),
                ("1252", "1 received"),
            ] {
                says(&["-M", "do", "-s", size, FAR_6], expected);
            }
            // What may be divided is: by the router, then beyond it.
            says(&["-M", "dont", "-s", "1472", FAR_TOO], "1 received");
            // TCP to an address of which nothing is known so far.
            let mut stream = TcpStream::connect((FAR_TOO, 7777)).expect("the rules let it go out");
            stream.write_all(&vec![7; 1 << 20]).expect("it is open");
            drop(stream);
            let known = run(10, "ip", &["route", "get", FAR_TOO]);
            assert!(known.contains("mtu 1300"), "{known}");
        });
        assert_eq!(reading.join().expect("it has read"), 1 << 20);
        assert!(!machine.saw("faulted"), "{}", machine.tail());
    });
}

/// Makes a network behind the host outside, with a link that carries packets of 1300 bytes, and
/// returns what is at its end.
fn far_network() -> Namespace {
    for file in ["ipv4/ip_forward", "ipv6/conf/all/forwarding"] {
        std::fs::write(format!("/proc/sys/net/{file}"), "1").expect("this namespace is the test's");
    }
    let (far, ()) = Namespace::new(|| Ok(())).expect("there was one before");
    ip(&format!("link add far0 mtu 1300 type veth peer name far1 mtu 1300 netns {}", far.path()))
        .expect("there can be a link");
    add("far0", "10.0.9.1", "2001:db8:9::1").expect("it can be set up");
    let set_up = || {
        add("far1", FAR, FAR_6)?;
        ip(&format!("addr add {FAR_TOO}/24 dev far1"))?;
        // It takes larger segments than its link carries, so that their sender must find out.
        ip("route add default via 10.0.9.1 advmss 1460")?;
        ip("-6 route add default via 2001:db8:9::1")
    };
    far.within(set_up).expect("it can be set up");
    far
}

/// A host inside that was told nothing gives itself an address and finds the way out by what the
/// router advertises, and fetches a page from outside.
#[test]
fn hosts_inside_configure_themselves_for_ipv6() {
    let keys = "inner_advertise = true\nname_server6 = \"2001:db8:2::53\"";
    let (folder, file) = described("router-advertising", "gateway6 = \"2001:db8:2::2\"\n", keys);
    with_router_of(Boot::system(file), |machine, namespace| {
        let server = TcpListener::bind((OUTSIDE_6, 8000)).expect("it is free");
        let serving = std::thread::spawn(move || {
            let (mut stream, from) = server.accept().expect("a connection");
            let count = stream.read(&mut [0; 4096]).expect("a request");
            assert!(count > 0);
            stream.write_all(b"HTTP/1.0 200 OK\r\nContent-Length: 6\r\n\r\nhello\n").expect("an answer");
            from.ip().to_string()
        });
        wait_for_ping(ROUTER_OUTSIDE);
        inside(namespace, || {
            let heard = "icmp6 and ip6[40] == 134";
            let file = folder.path().join("heard");
            let path = file.to_str().expect("temporary paths are text");
            let _listening = Background::start("tcpdump", &["-Z", "root", "-U", "-i", "culm1", "-w", path, heard]);
            let until = Instant::now() + PATIENCE;
            while !file.exists() {
                assert!(Instant::now() < until, "tcpdump does not begin");
                sleep(Duration::from_millis(50));
            }
            // Nothing of what the other tests give it is left, and it asks anew when it comes up.
            for words in ["addr del 2001:db8:3::2/64 dev culm1", "link set culm1 down", "link set culm1 up"] {
                ip(words).expect("it can be taken away");
            }
            let own = loop {
                let addresses =
                    run(5, "ip", &["-6", "-o", "addr", "show", "dev", "culm1", "scope", "global", "-tentative"]);
                let own = addresses.split_whitespace().find_map(|word| word.strip_suffix("/64"));
                if let Some(own) = own {
                    assert!(own.starts_with("2001:db8:3:"), "{addresses}");
                    break own.to_string();
                }
                assert!(Instant::now() < until, "it has no address: {addresses}");
                sleep(Duration::from_millis(100));
            };
            let routes = run(5, "ip", &["-6", "route", "show", "default"]);
            assert!(routes.starts_with("default via fe80:") && routes.contains("proto ra"), "{routes}");
            assert!(routes.contains("dev culm1"), "{routes}");
            let page = curl(&format!("http://[{OUTSIDE_6}]:8000/"), &[]);
            assert_eq!((page.status, page.text().as_str()), (200, "hello\n"));
            assert_eq!(serving.join().expect("it has served"), own);
            let told = run(30, "tcpdump", &["-n", "-vv", "-r", path]);
            assert!(told.contains("rdnss option (25)") && told.contains("addr: 2001:db8:2::53"), "{told}");
            assert!(told.contains("mtu option (5), length 8 (1):  1500"), "{told}");
        });
        assert!(!machine.saw("faulted"), "{}", machine.tail());
    });
}

/// One host begins more flows than there are; another's go on, and it can begin new ones.
#[test]
fn a_host_that_fills_its_share_of_flows_takes_nothing_from_others() {
    with_router(|_, namespace| {
        let server = TcpListener::bind((OUTSIDE, 7777)).expect("it is free");
        // Each connection has an echo of its own until its client leaves.
        std::thread::spawn(move || {
            for stream in server.incoming().map_while(Result::ok) {
                std::thread::spawn(move || std::io::copy(&mut &stream, &mut &stream));
            }
        });
        inside(namespace, || {
            ip(&format!("addr add {FLOODER}/24 dev culm1")).expect("it can have another address");
            wait_for_ping(OUTSIDE);
            let mut early = connect_from_inside();
            let sent = AtomicUsize::new(0);
            std::thread::scope(|scope| {
                scope.spawn(|| flood(&sent));
                let mut connections = 0;
                while sent.load(Ordering::Relaxed) < FLOOD {
                    echoes(&mut connect_from_inside());
                    connections += 1;
                }
                eprintln!("{connections} connections during the flood");
                // At least in the time in which its flows already fill the table.
                assert!(connections > 3, "{connections} connections");
            });
            echoes(&mut connect_from_inside());
            echoes(&mut early);
        });
    });
}

/// Opens a connection from the inner host's own address.
fn connect_from_inside() -> TcpStream {
    let to = SocketAddr::from(([10, 0, 2, 2], 7777));
    let stream = TcpStream::connect_timeout(&to, Duration::from_secs(10)).expect("it comes about soon");
    assert_eq!(stream.local_addr().expect("it has one").ip().to_string(), INSIDE);
    stream.set_read_timeout(Some(Duration::from_secs(10))).expect("it is not zero");
    stream
}

/// Checks that what is sent comes back.
fn echoes(stream: &mut TcpStream) {
    let mut answer = [0; 4];
    stream.write_all(b"ping").expect("it is open");
    stream.read_exact(&mut answer).expect("an answer");
    assert_eq!(&answer, b"ping");
}

/// Sends datagrams, each of which begins a flow: [`FLOOD`] of them, at a pace at which the emulator
/// need not drop what others send.
fn flood(sent: &AtomicUsize) {
    let bind = |_| UdpSocket::bind((FLOODER, 0)).expect("there are ports");
    let sockets: Vec<UdpSocket> = (0..256).map(bind).collect();
    for number in 0..FLOOD {
        // Errors of earlier ones are told here: ports on which nobody listens.
        _ = sockets[number % 256].send_to(b"", (OUTSIDE, 10_000 + (number / 256) as u16));
        sent.fetch_add(1, Ordering::Relaxed);
        if number % 64 == 0 {
            sleep(Duration::from_millis(5));
        }
    }
}

/// A connection that is under way when the router dies goes on with its next life.
#[test]
fn flows_outlive_the_router() {
    let (_folder, file) = described("router-restart", "component = \"router\"\n", RESTART);
    let port = free_port();
    let listen = format!("tcp:127.0.0.1:{port}");
    with_router_of(Boot::system(file).option(&["--qemu", "-gdb", "--qemu", &listen]), |machine, namespace| {
        inside(namespace, || wait_for_ping(OUTSIDE));
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
