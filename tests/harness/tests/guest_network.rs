//! A guest's network card on a wire of its own, which divides packets of many segments for its
//! driver: by the system's card where that can, and without.

#![allow(missing_docs, reason = "a test's name says what it tests")]

use culm_tests_harness::client::{curl, run};
use culm_tests_harness::wire::DEVICE;
use culm_tests_harness::{Boot, Machine, on_a_wire, root};
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;

/// Bytes of the page that the guest serves: 725 segments of 1,448.
const PAGE: usize = 1 << 20;

/// The most packets in which the page comes if the card divides it: this end of the wire is given
/// what the card was. How many segments are in one depends on how far the other end has got.
const PACKETS: u64 = 600;

/// The bytes of a segment.
const SEGMENT: usize = 1448;

/// What the guest runs: it says what its card can do (VIRTIO 1.2 §5.1.3, by bits from the first
/// on), and serves the page.
const INIT: &str = r#"#!/bin/busybox sh
/bin/busybox mkdir -p /dev /proc /sys
/bin/busybox --install -s /bin
mount -t devtmpfs dev /dev
mount -t proc proc /proc
mount -t sysfs sys /sys
for driver in virtio_ring virtio virtio_mmio failover net_failover virtio_net; do insmod /lib/$driver.ko; done
ip addr add 198.18.0.2/24 dev eth0
ip link set eth0 up
echo "divides segments: $(cut -c12 /sys/class/net/eth0/device/features)"
httpd -h /site
echo "it serves"
while true; do sleep 1000; done
"#;

/// Bytes that are the same each time, and of each word others.
fn page() -> Vec<u8> {
    let words = (0..PAGE as u64 / 8).map(|word| (word + 1).wrapping_mul(0x9e37_79b9_7f4a_7c15));
    words.flat_map(u64::to_le_bytes).collect()
}

/// The system `linux`, whose guest serves the page.
fn describe(folder: &Path) -> Boot {
    let init = folder.join("init");
    std::fs::write(&init, INIT).expect("the folder is writable");
    std::fs::set_permissions(&init, std::fs::Permissions::from_mode(0o755)).expect("it is ours");
    std::fs::write(folder.join("page"), page()).expect("the folder is writable");
    let system = std::fs::read_to_string(root().join("systems/linux.toml")).expect("the system is there");
    let dhcp = format!("\"{}\"", root().join("systems/linux/dhcp").display());
    let system = system
        .replace("name = \"linux\"", "name = \"guest-network\"")
        .replace("\"init\" = \"linux/init\"", "\"init\" = \"init\"\n\"site/page\" = \"page\"")
        .replace("\"linux/dhcp\"", &dhcp);
    let file = folder.join("guest-network.toml");
    std::fs::write(&file, system).expect("the folder is writable");
    Boot::system(file.to_str().expect("temporary paths are text"))
}

/// Packets that have come from the guest so far.
fn packets() -> u64 {
    let links = run(10, "ip", &["-s", "-j", "link", "show", "dev", DEVICE]);
    let links: serde_json::Value = serde_json::from_str(&links).expect("it is JSON");
    links[0]["stats64"]["rx"]["packets"].as_u64().expect("it counts packets")
}

/// Fetches the page from the guest; returns in how many packets it came.
fn fetch(machine: &mut Machine) -> u64 {
    machine.expect("divides segments: 1");
    machine.expect("it serves");
    let before = packets();
    let answer = curl("http://198.18.0.2/page", &[]);
    let sent = packets() - before;
    assert!(answer.body == page(), "{} bytes came, or others than were sent", answer.body.len());
    sent
}

#[test]
fn what_a_guest_sends_in_bulk_is_divided_by_the_card() {
    let folder = tempfile::tempdir().expect("a temporary folder can be made");
    on_a_wire(describe(folder.path()), |machine| {
        let sent = fetch(machine);
        assert!(sent < PACKETS, "{sent} packets");
    });
}

/// The card can do nothing for its driver: the monitor makes segments of what the guest sends, and
/// their checksums.
#[test]
fn what_a_guest_sends_in_bulk_is_divided_where_the_card_cannot() {
    let folder = tempfile::tempdir().expect("a temporary folder can be made");
    let boot = describe(folder.path()).option(&["--qemu=-global", "--qemu=virtio-net-device.csum=off"]);
    on_a_wire(boot, |machine| {
        let sent = fetch(machine);
        assert!(sent >= PAGE.div_ceil(SEGMENT) as u64, "{sent} packets");
        // Of this thread's network namespace.
        let counts = std::fs::read_to_string("/proc/thread-self/net/snmp").expect("Linux counts");
        let tcp: Vec<_> = counts.lines().filter(|line| line.starts_with("Tcp:")).collect();
        let errors = tcp[0].split(' ').position(|name| name == "InCsumErrors").expect("it is counted");
        assert_eq!(tcp[1].split(' ').nth(errors), Some("0"), "wrong checksums");
    });
}
