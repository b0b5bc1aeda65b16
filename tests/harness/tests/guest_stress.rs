//! A Linux with two CPUs that works as hard as it can, as peers' tests have it: Debian's stress-ng
//! verifies what it computes, sends between processes, and reads back from the disk, beside
//! downloads from the host. Linux's own checks find nothing, and the native web server on the same
//! card answers all the while.
//!
//! With `CULM_SOAK` it takes ten minutes.

#![allow(missing_docs, reason = "a test's name says what it tests")]

use culm_tests_harness::deaths::is_soak;
use culm_tests_harness::{Boot, PATIENCE, root};
use std::io::{Read as _, Write as _};
use std::net::TcpListener;
use std::path::Path;
use std::time::{Duration, Instant};

/// How long stress-ng works, usually and in a soak.
const USUAL: Duration = Duration::from_secs(15);
const SOAK: Duration = Duration::from_secs(600);

/// Kinds of work, each of which is to have ended well, and in a soak to have been done.
const WORK: [&str; 13] =
    ["cpu", "vm", "mmap", "timer", "fork", "switch", "futex", "pipe", "sem", "sigq", "kill", "hdd", "iomix"];

/// What Linux says of its own defects, and of its devices' and its processors', in lower case.
const COMPLAINTS: [&str; 14] = [
    "stall",
    "lost interrupt",
    "nobody cared",
    "lockup",
    "hung task",
    "blocked for more than",
    "bug:",
    "warning:",
    "oops",
    "call trace",
    "i/o error",
    "virtio_blk virtio1: error",
    "is not a head",
    "corrupt",
];

/// The file that the host serves: numbers, as `seq` writes them.
fn page() -> Vec<u8> {
    (1_u32..).flat_map(|number| format!("{number}\n").into_bytes()).take(400_000).collect()
}

/// Serves the file to whoever comes, for as long as the test runs; returns the port.
fn serve() -> u16 {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port is free");
    let port = listener.local_addr().expect("it is bound").port();
    std::thread::spawn(move || {
        let page = page();
        for mut client in listener.incoming().flatten() {
            // A guest that ends in the middle is no mistake of this side's.
            let head = format!("HTTP/1.0 200 OK\r\nContent-Length: {}\r\n\r\n", page.len());
            _ = client.read(&mut [0; 4096]);
            _ = client.write_all(head.as_bytes()).and_then(|()| client.write_all(&page));
        }
    });
    port
}

/// The system `stress`, at work for so long.
fn describe(folder: &Path, time: Duration, port: u16) -> Boot {
    let systems = root().join("tests/systems");
    let system = std::fs::read_to_string(systems.join("stress.toml")).expect("the system is there");
    let system = system
        .replace("\"stress/", &format!("\"{}/", systems.join("stress").display()))
        .replace("\"../..", &format!("\"{}", root().display()))
        .replace("seconds=15", &format!("seconds={} port={port}", time.as_secs()))
        .replace("name = \"stress\"", "name = \"guest-stress\"");
    let file = folder.join("guest-stress.toml");
    std::fs::write(&file, system).expect("the folder is writable");
    Boot::system(file.to_str().expect("temporary paths are text"))
}

/// Returns how much of a kind of work was done: its name in stress-ng's table, and a count.
fn done(console: &str, kind: &str) -> Option<u64> {
    let rows = console.lines().filter_map(|line| line.split_once("metrc: ")?.1.split_once("] ")).map(|(_, row)| row);
    let mut words = rows.map(str::split_whitespace).find(|row| row.clone().next() == Some(kind))?;
    words.nth(1)?.parse().ok()
}

#[test]
fn linux_works_hard_and_finds_nothing_wrong() {
    let folder = tempfile::tempdir().expect("a temporary folder can be made");
    let time = if is_soak() { SOAK } else { USUAL };
    let mut machine = describe(folder.path(), time, serve()).start(&[80]);
    machine.wait_for_web();
    machine.expect("stress: begins");
    let (start, mut answers) = (Instant::now(), 0);
    while !machine.saw("stress: that is all") {
        machine.is_unharmed();
        answers += 1;
        assert!(start.elapsed() < time + PATIENCE, "it does not end:\n{}", machine.tail());
    }
    let console = machine.console();
    let says = |words: &str| assert!(console.contains(words), "no {words:?} in\n{console}");
    says("stress: work cpus has ended with 0");
    says("stress: work disk has ended with 0");
    says("downloads are right");
    assert!(!console.contains("stress: 0 downloads") && !console.contains("is wrong"), "{console}");
    // In a few seconds on a busy host a kind of work may not come to the end of its first piece.
    let least = if is_soak() { 1 } else { 0 };
    for kind in WORK {
        assert!(done(&console, kind).is_some_and(|count| count >= least), "no work of {kind} in\n{console}");
    }
    let kernel: Vec<_> = console.lines().filter(|line| line.contains("kernel: [")).collect();
    assert!(kernel.iter().any(|line| line.contains("Linux version")), "the kernel's log begins:\n{console}");
    for line in kernel {
        let small = line.to_lowercase();
        let complaint = COMPLAINTS.iter().find(|complaint| small.contains(*complaint));
        assert!(complaint.is_none(), "{line}");
    }
    assert!(answers > 0);
    let status = machine.status();
    let components = status.components();
    assert!(components.iter().all(|component| component["restarts"] == 0), "{}", machine.tail());
    eprintln!("{answers} answers beside {:?} of work", WORK.map(|kind| (kind, done(&console, kind))));
}
