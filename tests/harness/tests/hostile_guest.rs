//! A hostile guest (`tests/guest`) beside a web server that serves from the same disk and the same
//! network card: whatever it does, the server answers rightly, and nobody faults or begins anew but
//! the guest. No frame leaves the card in a name that is nobody's here, and nothing of the disk
//! changes but the guest's part.
//!
//! The usual run has one storm, of some seconds at least. With `CULM_SOAK` there are ten, of a
//! minute each, with other seeds each time. `CULM_STORM_SEED` says which storm the usual run has.

#![allow(missing_docs, reason = "a test's name says what it tests")]

use culm_tests_harness::client::{Status, exchange};
use culm_tests_harness::deaths::is_soak;
use culm_tests_harness::volume::{program, run};
use culm_tests_harness::{Boot, Machine, PATIENCE, guest_image, root};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

/// The least length of a storm, usually and in a soak, and of how many a soak is made.
const USUAL: Duration = Duration::from_secs(5);
const SOAK: Duration = Duration::from_secs(60);
const STORMS: u64 = 10;

/// Exits and lives that a storm has at least, however slow the machine under it is.
const EXITS: u64 = 4000;
const LIVES: usize = 3;

/// Counters of the monitor that each storm moves: what the guest accesses, and what becomes of its
/// requests.
const MOVED: [&str; 10] = [
    "exits_net",
    "exits_disk",
    "exits_entropy",
    "exits_serial",
    "exits_controller",
    "exits_calls",
    "frames_sent",
    "frames_refused",
    "disk_requests",
    "disk_failures",
];

/// Hardware addresses of the server and of the guest.
const SERVER: [u8; 6] = [2, 0, 0, 0, 0, 1];
const GUEST: [u8; 6] = [2, 0, 0, 0, 0, 2];

/// How the addresses of those whom QEMU's user networking stands for begin.
const OTHERS: [[u8; 3]; 2] = [[0x52, 0x55, 0x0a], [0x52, 0x56, 0]];

/// Which cores the guest's CPUs have, and its monitor: together and apart. The server is on the
/// first.
const PLACES: [(&str, &str); 3] = [("[0, 1]", "0"), ("[0, 1, 2]", "3"), ("[2, 3, 0, 1]", "0")];

/// The guest has each of the server's devices.
const DESCRIPTION: &str = r#"
name = "hostile-guest"
description = "A hostile guest beside a web server, on one network card and one disk"
board = "virt"

[device.nic0]
priority = 240

[device.rng0]
priority = 230

[device.disk0]
priority = 200
image = { size = "64MiB", partition = [
    { name = "guest", size = "16MiB" },
    { name = "site", fat = 32, folder = "SITE" },
] }

[device.uart0]
priority = 60

[pd.files]
component = "file"
priority = 120
disk = { device = "disk0", partition = "site" }

[pd.http]
component = "http"
priority = 100
observe = true
config = { port = 80 }
net = { device = "nic0", mac = "02:00:00:00:00:01" }
entropy = "rng0"
files = { device = "files", folder = "/", memory = "1MiB" }

[pd.monitor]
component = "vmm"
priority = 50
core = MONITOR
config = { begins_anew = true }
guest = "storm"
console = { device = "uart0", input = true }
net = { device = "nic0", mac = "02:00:00:00:00:02" }
disk = { device = "disk0", partition = "guest" }
entropy = "rng0"

[guest.storm]
kernel = "KERNEL"
memory = "8MiB"
cores = CORES
priority = 40
command_line = "seed=SEED"
"#;

/// Describes the system, with a storm of this seed.
fn describe(folder: &Path, kernel: &Path, seed: u64) -> Boot {
    let file = folder.join("hostile-guest.toml");
    let (cores, monitor) = PLACES[(seed % PLACES.len() as u64) as usize];
    let description = DESCRIPTION
        .replace("SITE", &root().join("site").display().to_string())
        .replace("KERNEL", &kernel.display().to_string())
        .replace("CORES", cores)
        .replace("MONITOR", monitor)
        .replace("SEED", &seed.to_string());
    std::fs::write(&file, description).expect("the folder is writable");
    let dump = format!("--qemu=filter-dump,id=dump,netdev=nic0,file={}", frames_of(folder).display());
    Boot::system(file.to_str().expect("temporary paths are text")).option(&["--qemu=-object", &dump])
}

/// The file to which QEMU writes the frames that pass the card.
fn frames_of(folder: &Path) -> PathBuf {
    folder.join("frames.pcap")
}

/// Every frame has a sender that is somebody, which ARP tells, too. Some are the guest's.
fn nobody_was_forged(folder: &Path) {
    /// Bytes of the file's header and of a record's, and where that has the frame's length
    /// (libpcap's file format).
    const FILE: usize = 24;
    const RECORD: usize = 16;
    const LENGTH: usize = 8;
    const ARP: [u8; 2] = [8, 6];
    let dump = std::fs::read(frames_of(folder)).expect("QEMU has written frames");
    let (mut rest, mut own) = (&dump[FILE..], 0);
    while let Some((record, behind)) = rest.split_first_chunk::<RECORD>() {
        let length = record[LENGTH..].first_chunk().map_or(0, |length| u32::from_le_bytes(*length)) as usize;
        // QEMU may have been ended while it wrote the last one.
        let Some((frame, behind)) = behind.split_at_checked(length) else { break };
        let sender = &frame[6..12];
        let is_known = sender == SERVER || sender == GUEST || OTHERS.iter().any(|other| sender.starts_with(other));
        assert!(is_known, "a frame from {sender:02x?}: {frame:02x?}");
        assert!(frame[12..14] != ARP || frame[22..28] == *sender, "a forged ARP: {frame:02x?}");
        own += usize::from(sender == GUEST);
        rest = behind;
    }
    assert!(own > 0, "no frame of the guest's among {} bytes", dump.len());
}

/// What is on the disk before and behind the guest's partition.
fn beside_the_guest() -> [Vec<u8>; 2] {
    const SECTOR: u64 = 512;
    let build = std::env::var_os("CULM_BUILD").map_or_else(|| root().join("build"), PathBuf::from);
    let image = build.join("disks/hostile-guest-disk0.img");
    let table = run(program("sfdisk").arg("-J").arg(&image));
    let table: serde_json::Value = serde_json::from_slice(&table).expect("it is JSON");
    let partitions = table["partitiontable"]["partitions"].as_array().expect("there are some");
    let own = partitions.iter().find(|partition| partition["name"] == "guest").expect("it is there");
    let [start, size] = ["start", "size"].map(|key| (own[key].as_u64().expect("a number") * SECTOR) as usize);
    let mut before = std::fs::read(&image).expect("the disk has an image");
    let behind = before.split_off(start + size);
    before.truncate(start);
    [before, behind]
}

/// The pages, and what is in them.
fn pages() -> Vec<(&'static str, Vec<u8>)> {
    let pages = ["/index.html", "/404.html", "/favicon.svg"];
    pages.map(|page| (page, std::fs::read(root().join(format!("site{page}"))).expect("the site is there"))).into()
}

/// Asks for a page. The answer is right.
fn visit(machine: &Machine, page: &str, content: &[u8]) {
    let request = format!("GET {page} HTTP/1.0\r\n\r\n");
    let answer = exchange(machine.address(80), request.as_bytes()).expect("the server takes the connection");
    let head = answer.windows(4).position(|end| end == b"\r\n\r\n").map(|at| at + 4);
    let is_right = answer.starts_with(b"HTTP/1.1 200 ") && head.is_some_and(|head| &answer[head..] == content);
    assert!(is_right, "{page}: {}", String::from_utf8_lossy(&answer));
}

/// Nobody has faulted or begun anew, the monitor neither.
fn is_unharmed(machine: &mut Machine) -> Status {
    let status = machine.status();
    assert!(status.faulted().is_empty(), "{:?} faulted:\n{}", status.faulted(), machine.tail());
    for component in status.components() {
        assert_eq!(component["restarts"], 0, "{}:\n{}", component["name"], machine.tail());
        assert_eq!(component["state"], "alive", "{}:\n{}", component["name"], machine.tail());
    }
    status
}

fn storm(folder: &Path, kernel: &Path, seed: u64, least: Duration) {
    eprintln!("storm {seed}");
    let pages = pages();
    let mut machine = describe(folder, kernel, seed).start(&[80]);
    machine.wait_for_web();
    let disk = beside_the_guest();
    let (start, mut answers) = (Instant::now(), 0);
    loop {
        for (page, content) in pages.iter().cycle().take(30) {
            visit(&machine, page, content);
            answers += 1;
        }
        let status = is_unharmed(&mut machine);
        let exits = status.counter("monitor", "exits");
        // What it says when it begins.
        let lives = machine.count("storm: life ");
        let moved = MOVED.map(|name| (name, status.counter("monitor", name)));
        let is_enough = exits >= EXITS && lives >= LIVES && moved.iter().all(|(_, count)| *count > 0);
        if is_enough && start.elapsed() >= least {
            eprintln!("{answers} answers beside {lives} lives with {exits} exits: {moved:?}");
            break;
        }
        let patience = least + PATIENCE;
        assert!(start.elapsed() < patience, "{exits} exits, {lives} lives, {moved:?}:\n{}", machine.tail());
    }
    drop(machine);
    assert!(beside_the_guest() == disk, "the disk has changed beside the guest's part");
    nobody_was_forged(folder);
}

#[test]
fn a_hostile_guest_harms_nobody() {
    let folder = tempfile::tempdir().expect("a temporary folder can be made");
    let kernel = guest_image::build("storm");
    if is_soak() {
        let now = SystemTime::now().duration_since(UNIX_EPOCH).expect("it is after 1970").as_secs();
        (now..now + STORMS).for_each(|seed| storm(folder.path(), &kernel, seed, SOAK));
    } else {
        let seed = std::env::var("CULM_STORM_SEED").ok().and_then(|seed| seed.parse().ok());
        storm(folder.path(), &kernel, seed.unwrap_or(0), USUAL);
    }
}
