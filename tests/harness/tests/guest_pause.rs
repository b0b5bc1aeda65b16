//! A guest that its operator pauses, beside another one and the web server.

#![allow(missing_docs, reason = "a test's name says what it tests")]

use culm_tests_harness::client::Status;
use culm_tests_harness::terminal::Terminal;
use culm_tests_harness::{Boot, free_port, root, tiny_guest};
use std::io::Write as _;
use std::net::{Ipv4Addr, TcpStream};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread::{JoinHandle, sleep};
use std::time::Duration;

/// Linux, the smallest guest and the web server; the files of Linux's initial RAM disk follow.
const DESCRIPTION: &str = r#"
name = "guest-pause"
description = "Two guests, one of which is paused, beside a web server"
board = "virt"

[device.nic0]
priority = 240

[device.uart0]
priority = 60

[pd.switch]
component = "switch"
priority = 150
uplink = { device = "nic0", promiscuous = true, copier = false, large_buffers = 0 }

[pd.http]
component = "http"
priority = 100
observe = true
config = { port = 80, address = "10.0.2.15/24", gateway = "10.0.2.2" }
net = "switch"

[pd.monitor]
component = "vmm"
core = 1
priority = 50
guest = "linux"
console = { device = "uart0", input = true, commands = true }
net = "switch"

[pd.tiny_monitor]
component = "vmm"
core = 2
priority = 50
guest = "tiny"
console = { device = "uart0", input = true, commands = true }

[guest.tiny]
kernel = "tiny.image"
memory = "8MiB"
cores = [2]
priority = 40

[guest.linux]
kernel = "debian:linux-image-cloud-arm64"
memory = "128MiB"
cores = [1]
priority = 40
command_line = "console=ttyAMA0 quiet address=10.0.2.20/24 gateway=10.0.2.2"

[guest.linux.files]
"#;

/// Bytes that are sent to the guest.
const SENT: u64 = 24 << 20;

/// What the status page says of the guest: its exits, and seconds of processor time that it used.
fn work(url: &str) -> (u64, f64) {
    let status = Status::ask(url);
    let used = status.component("linux cpu 0")["cpu_seconds"].as_f64().expect("a number");
    (status.counter("monitor", "exits"), used)
}

/// Sends to a port of this host until all has gone; the count of what has gone is shared.
fn send(port: u16) -> (Arc<AtomicU64>, JoinHandle<()>) {
    let gone = Arc::new(AtomicU64::new(0));
    let count = gone.clone();
    let thread = std::thread::spawn(move || {
        let mut stream = TcpStream::connect((Ipv4Addr::LOCALHOST, port)).expect("QEMU listens there");
        let block = [0_u8; 4096];
        while count.load(Ordering::Relaxed) < SENT {
            stream.write_all(&block).expect("the guest goes on taking");
            count.fetch_add(block.len() as u64, Ordering::Relaxed);
        }
    });
    (gone, thread)
}

fn boot(folder: &Path) -> Boot {
    std::fs::write(folder.join("tiny.image"), tiny_guest::image()).expect("the folder is writable");
    let linux = std::fs::read_to_string(root().join("systems/linux.toml")).expect("the system is there");
    let (_, files) = linux.split_once("[guest.linux.files]\n").expect("its guest has files");
    let files = files.replace("\"linux/", &format!("\"{}/", root().join("systems/linux").display()));
    let file = folder.join("guest-pause.toml");
    std::fs::write(&file, format!("{DESCRIPTION}{files}")).expect("the folder is writable");
    let boot = Boot::system(file.to_str().expect("temporary paths are text"));
    boot.build();
    boot
}

#[test]
fn a_paused_guest_stands_still_alone_and_goes_on_where_it_was() {
    let folder = tempfile::tempdir().expect("a temporary folder can be made");
    let (web, sink) = (free_port(), free_port());
    let forwards = [format!("{web}:10.0.2.15:80"), format!("{sink}:10.0.2.20:9000")];
    let boot = boot(folder.path()).option(&["--forward", &forwards[0], "--forward", &forwards[1]]);
    let status = format!("http://127.0.0.1:{web}/_status.json");
    let mut terminal = Terminal::run(&boot.run_command());
    terminal.expect("/ # ");
    // It is busy, and somebody sends to it.
    // It ends once the sender has: an end of its own input would close the connection half before.
    terminal.press("(tail -f /dev/null | nc -l -p 9000 | wc -c) & ");
    terminal.press("until grep -q :2328 /proc/net/tcp*; do sleep 1; done; ");
    terminal.press("while :; do :; done & echo busy $((40 + 2))\r");
    terminal.expect("busy 42");
    let (gone, sender) = send(sink);
    // Until the guest has it: this host's sockets hold megabytes. A guest that paused within the
    // handshake, and repeated its half of it later, was seen to make QEMU's network (libslirp 4.7)
    // skip 85,504 bytes: its own FIN came that much early.
    let taken = || Status::ask(&status).counter("monitor", "frames_received") * 1460;
    let before = taken();
    while taken() < before + SENT / 16 {
        assert!(!sender.is_finished(), "it is sending");
    }
    let (exits, used) = work(&status);
    terminal.press("\x1dz");
    terminal.expect("the guest is paused");
    // What was on its way has come to rest.
    sleep(Duration::from_secs(2));
    let (paused, sent) = (work(&status), gone.load(Ordering::Relaxed));
    assert!(paused.0 > exits && paused.1 > used, "it ran before: {paused:?}, {exits} exits, {used} s");
    sleep(Duration::from_secs(3));
    assert_eq!(work(&status), paused, "neither exits nor processor time");
    assert_eq!(Status::ask(&status).counter("monitor", "paused"), 1);
    assert_eq!(gone.load(Ordering::Relaxed), sent, "it takes nothing");
    assert!(sent < SENT && !sender.is_finished(), "the pause came in the middle");
    // The other guest answers.
    terminal.press("\x1d2abc");
    terminal.expect("[console 2*: tiny]");
    terminal.expect("abc");
    // Both are paused now, and each goes on by itself; what is typed meanwhile waits.
    terminal.press("\x1dzdef");
    terminal.expect("tiny_monitor: the guest is paused");
    terminal.press("\x1dz");
    terminal.expect_all(&["tiny_monitor: the guest goes on", "def"]);
    terminal.press("\x1d1\x1dz");
    terminal.expect("the guest goes on");
    sender.join().expect("all was sent");
    terminal.expect(&SENT.to_string());
    terminal.press("echo again $((40 + 2))\r");
    terminal.expect("again 42");
    let after = work(&status);
    assert!(after.0 > paused.0 && after.1 > paused.1, "it runs again");
    assert_eq!(Status::ask(&status).counter("monitor", "paused"), 0);
    assert!(Status::ask(&status).faulted().is_empty());
}
