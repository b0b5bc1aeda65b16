//! Linux's TCP as peer, with each of its options left out and congestion marks asked for, over a
//! card that divides and joins segments and over one that does not, on a wire that loses some.
//!
//! It takes root's rights; without them the tests are skipped, and say so.

#![allow(missing_docs, reason = "a test's name says what it tests")]

use culm_tests_harness::client::{curl, run};
use culm_tests_harness::{Boot, on_a_wire, wire};
use std::fs;

/// Bytes that go each way: longer than any window without scaling.
const BULK: usize = 700_001;

/// What Linux is told of its TCP: names below `/proc/sys/net/ipv4`, and values. All others have
/// their usual ones.
type Variant<'a> = (&'a str, &'a [(&'a str, &'a str)]);

const VARIANTS: [Variant<'_>; 7] = [
    ("as it comes", &[]),
    ("without SACK", &[("tcp_sack", "0")]),
    ("without timestamps", &[("tcp_timestamps", "0")]),
    ("without scaling of windows", &[("tcp_window_scaling", "0")]),
    ("without any of these", &[("tcp_sack", "0"), ("tcp_timestamps", "0"), ("tcp_window_scaling", "0")]),
    ("with congestion marks", &[("tcp_ecn", "1")]),
    ("with these and without timestamps", &[("tcp_ecn", "1"), ("tcp_timestamps", "0")]),
];

const USUAL: [(&str, &str); 4] =
    [("tcp_sack", "1"), ("tcp_timestamps", "1"), ("tcp_window_scaling", "1"), ("tcp_ecn", "2")];

/// Sets options of Linux's TCP, in this namespace alone.
fn tell_linux(settings: &[(&str, &str)]) {
    for (name, value) in settings {
        let file = format!("/proc/sys/net/ipv4/{name}");
        fs::write(&file, value).expect("a namespace of our own has it");
        assert_eq!(fs::read_to_string(&file).expect("it can be read").trim(), *value, "{name}");
    }
}

/// Loses one packet in 31, each way.
fn lose() {
    let chain = |hook: &str| {
        let begin = format!("chain {hook} {{ type filter hook {hook} device {} priority 0; ", wire::DEVICE);
        begin + "tcp dport 0-65535 numgen inc mod 31 == 20 counter drop; }; "
    };
    run(10, "nft", &[&format!("table netdev loss {{ {}{} }};", chain("ingress"), chain("egress"))]);
}

/// Packets that were lost.
fn losses() -> usize {
    let said = run(10, "nft", &["list", "table", "netdev", "loss"]);
    let counts = said.split("counter packets ").skip(1);
    counts.map(|rest| rest.split(' ').next().and_then(|count| count.parse::<usize>().ok()).expect("a count")).sum()
}

fn content(seed: u64) -> Vec<u8> {
    let words = (1..).map(|word: u64| (word ^ seed << 40).wrapping_mul(0x9e37_79b9_7f4a_7c15));
    words.flat_map(u64::to_be_bytes).take(BULK).collect()
}

/// Puts a file of each variant's, and gets it back.
fn what_goes_up_comes_down(options: &[&str], seed: u64) {
    on_a_wire(Boot::system("tests/systems/uploads.toml").option(options), |machine| {
        machine.wait_for_web();
        let folder = tempfile::tempdir().expect("a temporary folder");
        let file = folder.path().join("content");
        let data = format!("@{}", file.display());
        let put = ["-X", "PUT", "-H", "Authorization: Bearer open-sesame", "-H", "Expect:", "--data-binary", &data];
        for (is_lossy, base) in [(false, seed), (true, seed + 100)] {
            if is_lossy {
                lose();
            }
            for (number, (name, settings)) in VARIANTS.into_iter().enumerate() {
                tell_linux(&USUAL);
                tell_linux(settings);
                let content = content(base + number as u64);
                fs::write(&file, &content).expect("the folder is writable");
                let url = machine.url(&format!("/variant-{number}"));
                let status = curl(&url, &put).status;
                assert!(status == 201 || status == 204, "{name}, with loss: {is_lossy}: {status}");
                let back = curl(&url, &[]);
                assert_eq!(back.status, 200, "{name}, with loss: {is_lossy}");
                assert!(back.body == content, "Linux {name}, with loss: {is_lossy}: not what was put there");
            }
        }
        assert!(losses() > VARIANTS.len(), "nearly nothing was lost");
        machine.is_unharmed();
    });
}

#[test]
fn linux_of_each_kind_puts_and_gets_files() {
    // Over a card that divides and joins, and over one that does not; one after the other, since
    // both have the same disk.
    what_goes_up_comes_down(&[], 0);
    what_goes_up_comes_down(&wire::PLAIN, 1000);
}
