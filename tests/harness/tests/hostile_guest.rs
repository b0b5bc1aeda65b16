//! A hostile guest (`tests/guest`) beside a web server that serves from the same disk and the same
//! network card: whatever it does, the server answers rightly, and nobody faults or begins anew but
//! the guest.
//!
//! The usual run has one storm, of some seconds at least. With `CULM_SOAK` there are ten, of a
//! minute each, with other seeds each time. `CULM_STORM_SEED` says which storm the usual run has.

#![allow(missing_docs, reason = "a test's name says what it tests")]

use culm_tests_harness::client::{Status, exchange};
use culm_tests_harness::deaths::is_soak;
use culm_tests_harness::{Boot, Machine, PATIENCE, guest_image, root};
use std::path::Path;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

/// The least length of a storm, usually and in a soak, and of how many a soak is made.
const USUAL: Duration = Duration::from_secs(5);
const SOAK: Duration = Duration::from_secs(60);
const STORMS: u64 = 10;

/// Exits and lives that a storm has at least, however slow the machine under it is.
const EXITS: u64 = 4000;
const LIVES: usize = 3;

/// Counters of the monitor that each storm moves: what the guest accesses. Few of its queues are
/// right: a frame goes out once in minutes.
const MOVED: [&str; 6] =
    ["exits_net", "exits_disk", "exits_entropy", "exits_serial", "exits_controller", "exits_calls"];

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
net = "nic0"
entropy = "rng0"
files = { device = "files", folder = "/", memory = "1MiB" }

[pd.monitor]
component = "vmm"
priority = 50
core = MONITOR
config = { begins_anew = true }
guest = "storm"
console = { device = "uart0", input = true }
net = "nic0"
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
    Boot::system(file.to_str().expect("temporary paths are text"))
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
            return;
        }
        let patience = least + PATIENCE;
        assert!(start.elapsed() < patience, "{exits} exits, {lives} lives, {moved:?}:\n{}", machine.tail());
    }
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
