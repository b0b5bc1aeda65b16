//! `systems/router.toml` between two Linux machines: the page that shows what passes, and rules
//! that take others' place while packets pass. Leases and names are tested in `lan.rs`.
//!
//! It takes root's rights; without them the test is skipped, and says so.

#![allow(missing_docs, reason = "a test's name says what it tests")]

use culm_tests_harness::client::{Answer, curl, wait_for_ping};
use culm_tests_harness::{Boot, PATIENCE, on_wires, root};
use culm_wire::{Namespace, ip};
use std::io::{Read as _, Write as _};
use std::net::{IpAddr, Ipv4Addr, SocketAddr, TcpListener, TcpStream, UdpSocket};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread::sleep;
use std::time::{Duration, Instant};

const OUTER: (&str, &str) = ("culm0", "10.0.2.2/24");
const INNER: (&str, &str) = ("culm1", "10.0.3.2/24");

const OUTSIDE: &str = "10.0.2.2";
const ROUTER_OUTSIDE: &str = "10.0.2.15";
const ROUTER_INSIDE: &str = "10.0.3.15";
const PAGE: &str = "http://10.0.3.80";

/// Who may give the router rules; the hash is by sha256sum.
const TOKEN: &str = "open-sesame";
const HASH: &str = "d7ecdf25eaf3deba0f2628771dbdd22d4138ab6cf38f91ed02a2ca0dec7c8ab7";

/// How often rules are exchanged under load.
const EXCHANGES: usize = 12;

/// Writes the description with a token. Returns the folder that has it, for as long as it is kept,
/// and the file.
fn with_token() -> (tempfile::TempDir, String) {
    let folder = tempfile::tempdir().expect("there is a place for temporary files");
    let file = folder.path().join("router-token.toml");
    let text = std::fs::read_to_string(root().join("systems/router.toml")).expect("it is there");
    let rules = format!("{:?}", root().join("systems/router/rules"));
    let text = text.replace("\"router/rules\"", &rules).replace("name = \"router\"", "name = \"router-token\"");
    let line = "# reload_token_sha256 = \"...\"";
    assert!(text.contains(line), "the description says where a token goes");
    std::fs::write(&file, text.replace(line, &format!("reload_token_sha256 = \"{HASH}\""))).expect("it is writable");
    let file = file.to_str().expect("temporary paths are text").to_string();
    (folder, file)
}

/// Runs `work` inside.
fn inside<T: Send>(namespace: &Namespace, work: impl FnOnce() -> T + Send) -> T {
    namespace.within(|| Ok(work())).expect("what failed is above")
}

/// Asks for the state.
fn state() -> serde_json::Value {
    let answer = curl(&format!("{PAGE}/status.json"), &[]);
    assert_eq!(answer.status, 200, "{}", answer.text());
    serde_json::from_slice(&answer.body).expect("it is JSON")
}

/// Gives the router rules.
fn put(token: &str, rules: &str) -> Answer {
    let file = tempfile::NamedTempFile::new().expect("there is a place for temporary files");
    std::fs::write(file.path(), rules).expect("it is writable");
    let path = file.path().to_str().expect("temporary paths are text");
    curl(&format!("{PAGE}/rules"), &["-H", "Expect:", "-H", &format!("Authorization: Bearer {token}"), "-T", path])
}

#[test]
fn rules_are_seen_and_exchanged_while_packets_pass() {
    let (_folder, file) = with_token();
    on_wires(Boot::system(file), &[OUTER, INNER], |machine| {
        let (namespace, ()) = Namespace::new(|| Ok(())).expect("there was one before");
        wait_for_ping(ROUTER_OUTSIDE);
        ip(&format!("link set culm1 netns {}", namespace.path())).expect("it can be moved");
        let set_up = || {
            ip("addr add 10.0.3.2/24 dev culm1")?;
            ip("link set culm1 up")?;
            ip(&format!("route add default via {ROUTER_INSIDE}"))
        };
        namespace.within(set_up).expect("it can be set up");
        ip(&format!("route add 10.0.3.0/24 via {ROUTER_OUTSIDE}")).expect("there is a way");
        let of_system = std::fs::read_to_string(root().join("systems/router/rules")).expect("it is there");
        inside(&namespace, || {
            wait_for_ping("10.0.3.80");
            let page = curl(&format!("{PAGE}/"), &[]);
            assert!(page.status == 200 && page.text().contains("<h1>Router"), "{}", page.text());
            assert_eq!(curl(&format!("{PAGE}/rules"), &[]).text(), of_system);
            assert_eq!(curl(&format!("{PAGE}/nothing"), &[]).status, 404);
            assert_eq!(curl(&format!("{PAGE}/rules"), &["-H", "Host: elsewhere.example"]).status, 421);
            refuses_who_has_no_token();
        });
        // The rules let nobody in from outside.
        let page: SocketAddr = ([10, 0, 3, 80], 80).into();
        assert!(TcpStream::connect_timeout(&page, Duration::from_secs(1)).is_err());
        goes_on_under_load(&namespace, &of_system);
        assert!(!machine.saw("faulted"), "{}", machine.tail());
    });
}

fn refuses_who_has_no_token() {
    let answer = curl(&format!("{PAGE}/rules"), &["-X", "PUT", "-d", "allow"]);
    assert_eq!(answer.status, 401, "{}", answer.text());
    assert_eq!(put("open-says-me", "allow\n").status, 401);
    assert_eq!(state()["rules"]["proposed"], false);
}

/// Says that it is over when it is dropped.
struct Ending<'a>(&'a AtomicBool);

impl Drop for Ending<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

/// Rules that are tried at once, and a destination that the last but one denies.
const MANY: u32 = 1_000;
const DENIED: SocketAddr = SocketAddr::new(IpAddr::V4(Ipv4Addr::new(198, 51, 100, 9)), 10_000 + MANY as u16 - 2);

/// Returns [`MANY`] rules, each about a port of its own. The last lets the connection be.
fn thousand_rules() -> String {
    let mut rules = String::from("default deny\n");
    for number in 0..MANY - 1 {
        rules += &format!("deny tcp in inner out outer to {} port {}\n", DENIED.ip(), 10_000 + number);
    }
    rules + "allow tcp in inner out outer port 7777\nnat in inner out outer to own ports 32768-65535\n"
}

/// Checks that the last of many rules lets a new connection pass, and the one before it denies
/// another.
fn decides_by_the_last_of_many() {
    TcpStream::connect((OUTSIDE, 7777)).expect("the last rule lets it go out");
    assert!(TcpStream::connect_timeout(&DENIED, Duration::from_millis(500)).is_err());
    let state = state();
    let list = state["rules"]["list"].as_array().expect("there are rules");
    let [.., denying, allowing, default] = list.as_slice() else { panic!("{list:?}") };
    assert_eq!((list.len() as u32, &default["line"]), (MANY + 1, &0.into()));
    assert_eq!((&denying["line"], &allowing["line"]), (&MANY.into(), &(MANY + 1).into()));
    assert!(denying["packets"].as_u64() >= Some(1) && allowing["packets"].as_u64() >= Some(1), "{denying} {allowing}");
    let elsewhere: u64 = list[..list.len() - 3].iter().filter_map(|rule| rule["packets"].as_u64()).sum();
    assert_eq!((elsewhere, &default["packets"]), (0, &0.into()));
}

/// A connection goes on whatever rules come and go, as long as they let it be; a flow that they do
/// not let be ends.
fn goes_on_under_load(namespace: &Namespace, of_system: &str) {
    let listener = TcpListener::bind((OUTSIDE, 7777)).expect("the port is free");
    let datagrams = UdpSocket::bind((OUTSIDE, 7778)).expect("the port is free");
    datagrams.set_read_timeout(Some(Duration::from_secs(5))).expect("it is not zero");
    let (is_over, taken) = (AtomicBool::new(false), AtomicU64::new(0));
    std::thread::scope(|scope| {
        scope.spawn(|| {
            let (mut stream, _) = listener.accept().expect("somebody comes");
            let mut bytes = vec![0; 65_536];
            while let Ok(count @ 1..) = stream.read(&mut bytes) {
                taken.fetch_add(count as u64, Ordering::Relaxed);
            }
        });
        let mut stream = inside(namespace, || TcpStream::connect((OUTSIDE, 7777)).expect("the rules let it go out"));
        stream.set_write_timeout(Some(PATIENCE)).expect("it is not zero");
        let sending = scope.spawn({
            let is_over = &is_over;
            move || {
                while !is_over.load(Ordering::Relaxed) {
                    stream.write_all(&[7; 16_384]).expect("the connection goes on");
                }
            }
        });
        // What fails below ends the sender, too.
        let ending = Ending(&is_over);
        let knocking = inside(namespace, || UdpSocket::bind(("10.0.3.2", 5555)).expect("the port is free"));
        let knock = || {
            inside(namespace, || knocking.send_to(b"knock", (OUTSIDE, 7778)).expect("there is a way"));
            datagrams.recv_from(&mut [0; 16])
        };
        let (_, seen) = knock().expect("the rules let it go out");
        assert_eq!(seen.ip().to_string(), ROUTER_OUTSIDE);
        inside(namespace, || {
            // A mistake is shown where it stands, and nothing changes.
            let wrong = put(TOKEN, "default deny\nallow in inner out outer\nallow tcp in inner out outer port 7777\n");
            assert_eq!(wrong.status, 422, "{}", wrong.text());
            let said = wrong.text();
            for part in ["rules:3:1", "^^^^^", "the rule that hides it", "stay in use"] {
                assert!(said.contains(part), "not `{part}`: {said}");
            }
            assert_eq!(curl(&format!("{PAGE}/rules"), &[]).text(), of_system);
            // Others take their place again and again.
            let narrow = "default deny\nallow tcp in inner out outer port 7777\nnat in inner out outer to own ports 32768-65535\n";
            let many = thousand_rules();
            for round in 0..EXCHANGES {
                let before = taken.load(Ordering::Relaxed);
                let rules = [of_system, &many, narrow][round % 3];
                let answer = put(TOKEN, rules);
                assert_eq!(answer.status, 200, "{}", answer.text());
                assert_eq!(curl(&format!("{PAGE}/rules"), &[]).text(), rules);
                let until = Instant::now() + PATIENCE;
                while taken.load(Ordering::Relaxed) <= before + 1_000_000 {
                    let is_well = Instant::now() < until && !sending.is_finished();
                    assert!(is_well, "the connection stands still in round {round}, after {before} bytes: {}", state());
                    sleep(Duration::from_millis(10));
                }
                if round == 1 {
                    decides_by_the_last_of_many();
                }
            }
            let state = state();
            assert_eq!(state["rules"]["proposed"], true);
            let ports = state["ports"].as_array().expect("the switch shows its ports").clone();
            let count = |port: &str, what: &str| {
                let port =
                    ports.iter().find(|other| other["name"] == port).unwrap_or_else(|| panic!("no {port}: {ports:?}"));
                port[what].as_u64().expect("a number")
            };
            // The connection's bytes come in by the card and go out to the router.
            assert!(count("uplink", "bytes_in") > 1_000_000 && count("router", "bytes_out") > 1_000_000, "{ports:?}");
            assert!(count("status", "frames_in") > 0 && count("lan", "source_drops") == 0, "{ports:?}");
            let flows = state["flows"]["busiest"].as_array().expect("there are flows").clone();
            let own = flows.iter().find(|flow| flow["destination_port"] == 7777).expect("it is one of the busiest");
            assert_eq!((&own["state"], &own["line"]), (&"open".into(), &2.into()), "{own}");
            assert_eq!(own["translated"]["source"], ROUTER_OUTSIDE, "{own}");
            assert!(!flows.iter().any(|flow| flow["destination_port"] == 7778), "the other flow has ended");
        });
        datagrams.set_read_timeout(Some(Duration::from_millis(500))).expect("it is not zero");
        assert!(knock().is_err(), "the rules deny it");
        drop(ending);
        sending.join().expect("the connection went on");
    });
}
