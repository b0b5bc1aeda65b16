//! Two Linux guests beside the web server, as anybody gets them by `./culm run two-guests`, on one
//! network card and one SD card.

#![allow(missing_docs, reason = "a test's name says what it tests")]

use culm_tests_harness::client::{Status, curl};
use culm_tests_harness::terminal::Terminal;
use culm_tests_harness::volume::{content, program, run};
use culm_tests_harness::{Boot, free_port, root};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use tempfile::TempDir;

const SERVER: &str = "10.0.2.15";
const HOST: &str = "10.0.2.2";

/// A guest.
#[derive(Clone, Copy, PartialEq, Eq)]
struct Guest {
    name: &'static str,
    address: &'static str,
    /// The number of its console.
    console: u32,
}

const ALPHA: Guest = Guest { name: "alpha", address: "10.0.2.20", console: 1 };
const BETA: Guest = Guest { name: "beta", address: "10.0.2.21", console: 2 };

/// The machine, with both guests at their shells.
struct World {
    terminal: Terminal,
    /// The guest that has the keyboard.
    focus: Guest,
    /// Ports of the host that lead to the server's and to alpha's port 80.
    server: u16,
    alpha: u16,
    /// The image of the SD card.
    card: PathBuf,
    folder: TempDir,
}

impl World {
    fn boot() -> Self {
        // A copy with a name of its own, and so with a card of its own.
        let folder = tempfile::tempdir().expect("a temporary folder can be made");
        let name = "two-guests-in-a-test";
        let system = std::fs::read_to_string(root().join("systems/two-guests.toml")).expect("the system is there");
        let system = system.replace("name = \"two-guests\"", &format!("name = \"{name}\""));
        let system = system.replace("\"linux/", &format!("\"{}/", root().join("systems/linux").display()));
        let system = system.replace("\"../site\"", &format!("\"{}\"", root().join("site").display()));
        let file = folder.path().join(format!("{name}.toml"));
        std::fs::write(&file, system).expect("the folder is writable");
        let boot = Boot::system(file.to_str().expect("temporary paths are text"));
        boot.build();
        let (server, alpha) = (free_port(), free_port());
        let forwards = [format!("{server}:80"), format!("{alpha}:{}:80", ALPHA.address)];
        let boot = boot.option(&["--forward", &forwards[0], "--forward", &forwards[1]]);
        let build = std::env::var_os("CULM_BUILD").map_or_else(|| root().join("build"), PathBuf::from);
        let card = build.join("disks").join(format!("{name}-sd0.img"));
        forget(&card);
        let mut terminal = Terminal::run(&boot.run_command());
        terminal.expect("alpha:/ # ");
        let mut world = Self { terminal, focus: ALPHA, server, alpha, card, folder };
        world.focus(BETA);
        world.terminal.expect("beta:/ # ");
        world
    }

    /// Gives a guest the keyboard.
    fn focus(&mut self, guest: Guest) {
        if self.focus != guest {
            self.focus = guest;
            self.terminal.press(&format!("\x1d{}", guest.console));
            self.terminal.expect(&format!("[console {}*: {}]", guest.console, guest.name));
        }
    }

    /// Types a command for a guest's shell and waits for an answer, which must not stand in the
    /// command: the terminal shows that too.
    fn ask(&mut self, guest: Guest, command: &str, answer: &str) {
        self.focus(guest);
        self.terminal.press(&format!("{command}\r"));
        self.terminal.expect(answer);
    }

    /// Three questions of one packet each: of several, busybox waits a second for the last answer
    /// if the others have come faster, which on a busy host is too little.
    fn pings(&mut self, guest: Guest, address: &str) {
        let once = format!("ping -q -c 1 -W 60 {address}");
        self.ask(guest, &format!("{once} && {once} && {once} && echo is $((40 + 2)) there"), "is 42 there");
    }

    /// A guest has both of its CPUs.
    fn has_its_cpus(&mut self, guest: Guest) {
        self.ask(guest, "echo has-$(nproc)-cpus", "has-2-cpus");
    }

    /// Linux's own checks have found nothing since the guest has begun.
    fn has_no_complaints(&mut self, guest: Guest) {
        let complaints = "echo $(dmesg | grep -c -E 'stall|lockup|unexpected')-complaints";
        self.ask(guest, complaints, "0-complaints");
    }

    fn status(&self) -> Status {
        Status::ask(&self.url("/_status.json"))
    }

    fn url(&self, path: &str) -> String {
        format!("http://127.0.0.1:{}{path}", self.server)
    }

    /// Copies a guest's partition out of the card's image.
    fn partition(&self, guest: Guest) -> PathBuf {
        let table = run(program("sfdisk").arg("-J").arg(&self.card));
        let table: serde_json::Value = serde_json::from_slice(&table).expect("it is JSON");
        let partitions = table["partitiontable"]["partitions"].as_array().expect("there are some");
        let own = partitions.iter().find(|partition| partition["name"] == guest.name).expect("it is there");
        let number = |key: &str| own[key].as_u64().expect("a number").to_string();
        let copy = self.folder.path().join(guest.name);
        let (input, output) = (format!("if={}", self.card.display()), format!("of={}", copy.display()));
        let (skip, count) = (format!("skip={}", number("start")), format!("count={}", number("size")));
        run(program("dd").args(["bs=512", "status=none", &input, &output, &skip, &count]));
        copy
    }
}

impl Drop for World {
    fn drop(&mut self) {
        forget(&self.card);
    }
}

/// Removes the card's image, so that the next run begins with a new one.
fn forget(card: &Path) {
    for file in [card.to_path_buf(), card.with_extension("made")] {
        // There may be none.
        _ = std::fs::remove_file(file);
    }
}

fn page() -> Vec<u8> {
    std::fs::read(root().join("site/index.html")).expect("the site is there")
}

/// A client of the web server that asks again and again.
struct Visitor {
    stop: Arc<AtomicBool>,
    thread: JoinHandle<usize>,
}

impl Visitor {
    fn start(url: String) -> Self {
        let stop = Arc::new(AtomicBool::new(false));
        let stopped = stop.clone();
        let thread = std::thread::spawn(move || {
            let mut count = 0;
            while !stopped.load(Ordering::Relaxed) {
                assert_eq!(curl(&url, &[]).body, page(), "after {count} answers");
                count += 1;
            }
            count
        });
        Self { stop, thread }
    }

    /// Every answer was right, and there were some.
    fn was_served(self) {
        self.stop.store(true, Ordering::Relaxed);
        assert!(self.thread.join().expect("each answer was right") > 0);
    }
}

fn is_whole(volume: &Path) {
    run(program("fsck.fat").arg("-n").arg(volume));
}

#[test]
fn two_linuxes_live_beside_the_web_server() {
    let mut world = World::boot();
    let visitor = Visitor::start(world.url("/"));
    each_reaches_everybody(&mut world);
    what_is_written_stays_ones_own(&mut world);
    nobody_speaks_in_anothers_name(&mut world);
    one_ends_and_the_others_go_on(&mut world);
    one_begins_anew_under_load(&mut world);
    visitor.was_served();
    assert!(world.status().faulted().is_empty(), "{:?}", world.status().faulted());
    // What was synced is there, and what each wrote is on its own partition.
    let (alpha, beta) = (world.partition(ALPHA), world.partition(BETA));
    is_whole(&alpha);
    for (volume, guest, other) in [(&alpha, ALPHA, BETA), (&beta, BETA, ALPHA)] {
        assert_eq!(content(volume, "page.html"), page(), "{}", guest.name);
        assert_eq!(content(volume, "note"), format!("of {}\n", guest.name).as_bytes());
        let listed = run(program("mdir").arg("-b").arg("-i").arg(volume));
        assert!(!String::from_utf8_lossy(&listed).contains(other.name), "{}", guest.name);
    }
}

fn each_reaches_everybody(world: &mut World) {
    for guest in [ALPHA, BETA] {
        world.has_its_cpus(guest);
        for address in [SERVER, HOST, ALPHA.address, BETA.address] {
            world.pings(guest, address);
        }
        world.ask(guest, &format!("wget -q -O /disk/page.html http://{SERVER}/ && echo got $((40 + 2))"), "got 42");
    }
    // From guest to guest, and to the host.
    world.ask(ALPHA, "httpd -h /disk && echo serves $((40 + 2))", "serves 42");
    let fetch =
        format!("wget -q -O - http://{}/page.html | cmp - /disk/page.html && echo same $((40 + 2))", ALPHA.address);
    world.ask(BETA, &fetch, "same 42");
    assert_eq!(curl(&format!("http://127.0.0.1:{}/page.html", world.alpha), &[]).body, page());
}

fn what_is_written_stays_ones_own(world: &mut World) {
    for guest in [ALPHA, BETA] {
        let name = guest.name;
        world.ask(
            guest,
            &format!("echo of {name} > /disk/note; echo > /disk/{name}; sync; echo now $((40 + 2))"),
            "now 42",
        );
    }
}

/// With the other's hardware address a guest sends what nobody receives, and the other goes on.
fn nobody_speaks_in_anothers_name(world: &mut World) {
    world.ask(BETA, "own=$(cat /sys/class/net/eth0/address); echo had $((40 + 2))", "had 42");
    let refused = world.status().counter("beta_monitor", "frames_refused");
    let learn =
        format!("other=$(arp -n {} | sed 's/.* at \\([^ ]*\\) .*/\\1/'); echo knows $other $((40 + 2))", ALPHA.address);
    world.ask(BETA, &learn, "knows 52:54:00:43:");
    world.ask(BETA, "ip link set eth0 address $other && echo is $((40 + 2)) disguised", "is 42 disguised");
    for address in [SERVER, ALPHA.address] {
        world.ask(BETA, &format!("ping -c 2 -W 2 {address}"), "0 packets received, 100% packet loss");
    }
    assert!(world.status().counter("beta_monitor", "frames_refused") > refused);
    world.pings(ALPHA, SERVER);
    world.ask(BETA, "ip link set eth0 address $own && echo is $((40 + 2)) itself", "is 42 itself");
    world.pings(BETA, SERVER);
    world.pings(ALPHA, BETA.address);
}

fn one_ends_and_the_others_go_on(world: &mut World) {
    // The server may not have ended when `killall` has: on another CPU, it is in its folder still.
    let unmount = "killall httpd; until umount /disk; do sleep 1; done; echo un$((40 + 2))mounted";
    world.ask(ALPHA, unmount, "un42mounted");
    world.has_no_complaints(ALPHA);
    world.ask(ALPHA, "poweroff -f", "alpha_monitor: the guest has switched itself off");
    world.pings(BETA, SERVER);
    world.pings(BETA, HOST);
    world.ask(
        BETA,
        &format!("wget -q -O - http://{SERVER}/ | cmp - /disk/page.html && echo same $((40 + 2))"),
        "same 42",
    );
}

fn one_begins_anew_under_load(world: &mut World) {
    let load = "(while :; do dd if=/dev/zero of=/disk/load bs=64k count=16 conv=fsync 2>/dev/null; done) & echo loads $((40 + 2))";
    world.ask(BETA, load, "loads 42");
    world.has_no_complaints(BETA);
    world.ask(BETA, "sleep 2; reboot -f", "beta_monitor: the guest has reset itself");
    world.terminal.expect("beta:/ # ");
    world.has_its_cpus(BETA);
    world.ask(BETA, "cat /disk/note", "of beta");
    world.pings(BETA, SERVER);
    world.has_no_complaints(BETA);
    world.ask(BETA, "umount /disk && echo un$((40 + 2))mounted", "un42mounted");
    world.ask(BETA, "poweroff -f", "beta_monitor: the guest has switched itself off");
}
