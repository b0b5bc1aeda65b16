//! The network under standard tools, and under packets that no honest station sends.

#![allow(missing_docs, reason = "a test's name says what it tests")]

use culm_tests_harness::client::{Background, answers_pings, curl, try_run};
use culm_tests_harness::frames::{Random, malformed, noise, write_capture};
use culm_tests_harness::{Boot, Machine, PATIENCE, on_a_wire, wire};
use std::path::Path;
use std::time::Instant;

/// Whether only what takes little time is to be tested; `./culm test --quick` says so.
fn is_quick() -> bool {
    std::env::var_os("CULM_QUICK").is_some()
}

#[test]
fn it_answers_pings() {
    on_a_wire(Boot::system("web"), |machine| {
        machine.wait_for_web();
        let addresses = [machine.address(80).ip().to_string(), machine.link_local()];
        for address in &addresses {
            for size in [56, 1400] {
                answers_pings(address, size);
            }
        }
        // Larger than a packet; it need not answer, but must go on.
        try_run(10, "ping", &["-n", "-c", "3", "-W", "1", "-s", "4000", &addresses[0]]);
        answers_pings(&addresses[0], 56);
        machine.is_unharmed();
    });
}

#[test]
fn it_serves_by_ipv6() {
    on_a_wire(Boot::system("web"), |machine| {
        machine.wait_for_web();
        let address = machine.link_local().replace('%', "%25");
        let page = curl(&format!("http://[{address}]/"), &["--globoff"]);
        assert_eq!((page.status, page.body), (200, curl(&machine.url("/"), &[]).body));
    });
}

/// Sends the frames again and again with tcpreplay while a client asks, until this many have
/// arrived; each of its requests must be answered, whole.
fn goes_on_serving(machine: &mut Machine, frames: &[Vec<u8>], rate: &str, enough: u64) {
    let folder = tempfile::tempdir().expect("there is a place for temporary files");
    let file = folder.path().join("frames.pcap");
    write_capture(&file, frames).expect("the folder is writable");
    // Broadcast and multicast frames count too; what is for nobody was dropped before.
    let arrived = |machine: &Machine| machine.status().counter("nic0_rx", "packets");
    let before = arrived(machine);
    let interface = format!("--intf1={}", wire::DEVICE);
    let endless = ["--quiet", "--preload-pcap", "--loop=100000"];
    let words = [&[interface.as_str(), rate], &endless[..], &[path(&file)]].concat();
    let mut replay = Background::start("tcpreplay", &words);
    let page = curl(&machine.url("/"), &[]);
    assert_eq!(page.status, 200);
    let until = Instant::now() + 5 * PATIENCE;
    let mut requests = 0;
    while requests < 10 || arrived(machine) < before + enough {
        let again = curl(&machine.url("/"), &[]);
        assert!(again.status == 200 && again.body == page.body, "not the page: {again:?}");
        requests += 1;
        assert!(replay.is_running(), "tcpreplay ended by itself");
        assert!(Instant::now() < until, "{} frames arrived during {requests} requests", arrived(machine) - before);
    }
    drop(replay);
    machine.is_unharmed();
}

fn path(file: &Path) -> &str {
    file.to_str().expect("temporary paths are text")
}

#[test]
fn malformed_packets_harm_nobody() {
    on_a_wire(Boot::system("web"), |machine| {
        machine.wait_for_web();
        let mac = machine.mac();
        let frames = malformed(mac, wire::link_local(mac), &mut Random::new(0x000c_001f), 12_000);
        goes_on_serving(machine, &frames, "--pps=2000", 6_000);
        assert!(machine.status().counter("http", "drops") > 0, "no checksum was found wrong");
    });
}

#[test]
fn random_frames_harm_nobody() {
    on_a_wire(Boot::system("web"), |machine| {
        machine.wait_for_web();
        let frames = noise(machine.mac(), &mut Random::new(0x000c_0020), 10_000);
        let enough = if is_quick() { 10_000 } else { 50_000 };
        goes_on_serving(machine, &frames, "--pps=1500", enough);
    });
}
