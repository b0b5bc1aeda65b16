//! Packets of many segments of TCP, over either version of IP, from a machine whose card divides
//! them: few leave the machine, and what Linux makes of them for a wire is as it should be.
//!
//! It takes root's rights; without them the test is skipped, and says so.

#![allow(missing_docs, reason = "a test's name says what it tests")]

use culm_tests_harness::capture::Capture;
use culm_tests_harness::client::{curl, run};
use culm_tests_harness::wire::DEVICE;
use culm_tests_harness::{Boot, Machine, PATIENCE, on_a_wire, root};
use culm_wire::ip;
use std::fs;
use std::net::IpAddr;
use std::path::Path;
use std::thread::sleep;
use std::time::{Duration, Instant};

/// Bytes of the file that is fetched.
const SIZE: usize = 2 << 20;

/// The end of a wire that takes no packet of many segments, and this host's end of it.
const NARROW: &str = "narrow0";
const FAR: &str = "narrow1";

/// The most bytes of a packet on it.
const MTU: usize = 1500;

/// Bytes of TCP's header with timestamps.
const TCP_HEADER: usize = 32;

/// Bytes that are the same each time, and of each word others.
fn content() -> Vec<u8> {
    let words = (0..SIZE as u64 / 8).map(|word| (word + 1).wrapping_mul(0x9e37_79b9_7f4a_7c15));
    words.flat_map(u64::to_le_bytes).collect()
}

/// The system `web` with the file in its site.
fn describe(folder: &Path) -> Boot {
    let site = folder.join("site");
    fs::create_dir(&site).expect("the folder is writable");
    fs::write(site.join("file"), content()).expect("the folder is writable");
    let system = fs::read_to_string(root().join("systems/web.toml")).expect("the system is there");
    let system = system.replace("name = \"web\"", "name = \"segments\"").replace("\"../site\"", "\"site\"");
    let file = folder.join("segments.toml");
    fs::write(&file, system).expect("the folder is writable");
    Boot::system(file.to_str().expect("temporary paths are text"))
}

/// Puts a wire between the machine's and this host, over which packets of many segments cannot go:
/// Linux divides them there, as a card would.
fn narrow(machine: &Machine) {
    let host = format!("{}/24", culm_wire::HOST);
    let set = |words: String| ip(&words).expect("a namespace of our own allows it");
    set(format!("link add {NARROW} gso_max_size {MTU} type veth peer name {FAR}"));
    set("link add joined type bridge forward_delay 0".into());
    fs::write(format!("/proc/sys/net/ipv6/conf/{FAR}/accept_dad"), "0").expect("a namespace of our own has it");
    set(format!("addr del {host} dev {DEVICE}"));
    set(format!("addr add {host} dev {FAR}"));
    for device in [DEVICE, NARROW] {
        set(format!("link set {device} master joined"));
    }
    for device in [NARROW, FAR, "joined"] {
        set(format!("link set {device} up"));
    }
    assert_eq!(curl(&machine.url("/file"), &["--head"]).status, 200, "the way through the bridge");
}

/// Packets that have come from the machine so far, where they have not been divided yet.
fn packets() -> usize {
    let links = run(10, "ip", &["-s", "-j", "link", "show", "dev", DEVICE]);
    let links: serde_json::Value = serde_json::from_str(&links).expect("it is JSON");
    links[0]["stats64"]["rx"]["packets"].as_u64().expect("it counts packets") as usize
}

/// Fetches the file; returns the bytes of payload of each segment on the narrow wire.
fn fetch(url: &str, name: &str) -> Vec<usize> {
    // Of each segment its headers and some more are kept.
    let capture = Capture::start(FAR, &format!("segments-{name}"), &["--immediate-mode", "-s", "128"]);
    let answer = curl(url, &["--globoff"]);
    assert!(answer.body == content(), "{} bytes came, or others than were sent", answer.body.len());
    // What has come is captured a moment later.
    let until = Instant::now() + PATIENCE;
    loop {
        let lengths = capture.read("tcp.srcport == 80 && tcp.len > 0", &["tcp.len"], &[]);
        let lengths: Vec<usize> = lengths.iter().map(|line| line.parse().expect("a number")).collect();
        if lengths.iter().sum::<usize>() >= SIZE {
            return lengths;
        }
        assert!(Instant::now() < until, "{} segments are captured, not all", lengths.len());
        sleep(Duration::from_millis(200));
    }
}

#[test]
fn what_is_sent_in_bulk_is_divided_by_the_card() {
    let folder = tempfile::tempdir().expect("a temporary folder can be made");
    on_a_wire(describe(folder.path()), |machine| {
        machine.wait_for_web();
        narrow(machine);
        let addresses = [
            machine.address(80).ip(),
            machine.link_local().split('%').next().expect("one").parse().expect("an address"),
        ];
        for address in addresses {
            let (name, url, ip_header) = match address {
                IpAddr::V4(address) => ("4", format!("http://{address}/file"), 20),
                IpAddr::V6(address) => ("6", format!("http://[{address}%25{FAR}]/file"), 40),
            };
            let full = MTU - ip_header - TCP_HEADER;
            let before = packets();
            let segments = fetch(&url, name);
            let sent = packets() - before;
            assert_eq!(segments.iter().max(), Some(&full), "IPv{name}");
            assert!(segments.len() >= SIZE / full, "IPv{name}: {} segments were seen", segments.len());
            assert!(sent < segments.len() / 2, "IPv{name}: {sent} packets of {} segments", segments.len());
        }
        machine.is_unharmed();
    });
}
