//! Power cuts of a system that writes: what was answered is on the disk, what was under way is
//! there as a whole or not at all, and the volume is one that recovery makes whole.
//!
//! Clients put files on the web server's disk, replace and remove them, and beside it a component
//! moves files and folders and appends to files (`moves`), until QEMU is killed at some moment.
//! That is a cut of which the host keeps every write that the disk had taken. A real one loses
//! some: so QEMU keeps a record of writes and flushes (its driver `blklogwrites`), and from that
//! the test makes the disk as it would be if the power had gone at other moments, with any of the
//! blocks missing that were written after the last flush. Each such disk is looked at by the host's
//! programs, and one of them is the next machine's.
//!
//! The same is done with an SD card, which has no cache: what it has taken is there.
//!
//! A few machines are killed in the usual run, two hundred with a disk and fifty with a card if
//! `CULM_SOAK` is set. `CULM_CUTS_SEED` says which of all possible runs it is. While a machine
//! works, the disks of the one before are looked at.

#![allow(missing_docs, reason = "a test's name says what it tests")]

extern crate alloc;

#[path = "../../../../libs/fat/src/tests/documented.rs"]
mod documented;
mod moves;
mod uploads;

use culm_tests_harness::client::{run, try_run};
use culm_tests_harness::deaths::is_soak;
use culm_tests_harness::frames::Random;
use culm_tests_harness::process::{are_gone, children};
use culm_tests_harness::record::{Entry, cut, flushed, read_record};
use culm_tests_harness::{Boot, Machine, PATIENCE, root};
use documented::is_documented;
use moves::{Moves, Tree};
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{JoinHandle, spawn};
use std::time::{Duration, Instant};
use tempfile::TempDir;
use uploads::{CLIENTS, Connection, Content, Files, HASH, History, Load, State, paths};

/// The file that lets a client begin to move and append, in its folder.
const GO: &str = "/go";

/// Where the partition begins, and its bytes.
const PARTITION: std::ops::Range<usize> = 1 << 20..35 << 20;
/// Entries at the end of a record of which a machine that is killed may have written a part.
const TORN: usize = 16;

/// The line by which a client that moves and appends says that it has done one step more.
const STEP: &str = " steps of life ";
/// So many steps are done before others write too: those that make folders, and a move.
const FIRST_STEPS: usize = 6;

/// The folder of who moves and appends: of all paths only those in it can be named by `fsck.fat`.
const MOVES: &str = "/site/moves/";

/// What holds the partition, and how it differs.
#[derive(Clone, Copy, Debug)]
struct Medium {
    /// Its device, which names the system too.
    device: &'static str,
    /// More keys of the device, and tables.
    keys: &'static str,
    /// The key of an image of which the size must be a certain one.
    size: &'static str,
    /// What was written may be lost until it is flushed. If not, QEMU makes each block durable
    /// before it takes the next.
    has_cache: bool,
    /// Machines that are killed: in the usual run, and if `CULM_SOAK` is set.
    kills: (usize, usize),
}

const DISK: Medium = Medium { device: "disk0", keys: "", size: "", has_cache: true, kills: (5, 200) };

const CARD: Medium = Medium {
    device: "sd0",
    keys: "bus = \"pci0\"\n[device.pci0]\npriority = 55\n",
    size: "size = \"64MiB\"\n",
    has_cache: false,
    kills: (2, 50),
};

/// Other moments at which the power goes, for each machine.
const CUTS: usize = 8;

fn seed() -> u64 {
    let given = std::env::var("CULM_CUTS_SEED").ok().and_then(|seed| seed.parse().ok());
    // Without `CULM_SOAK` the same each time.
    let other = || if is_soak() { u64::from(std::process::id()) } else { 8 };
    given.unwrap_or_else(other).max(1)
}

fn text(path: &Path) -> &str {
    path.to_str().expect("temporary paths are text")
}

/// Returns what `fsck.fat` finds on a disk, less its first line and its last.
fn complaints(folder: &TempDir, disk: &[u8]) -> Vec<String> {
    let partition = folder.path().join("partition.img");
    std::fs::write(&partition, &disk[PARTITION]).expect("the folder is writable");
    let said = try_run(60, "/usr/sbin/fsck.fat", &["-n", text(&partition)]);
    let said = String::from_utf8_lossy(&said.stdout).into_owned();
    assert!(said.starts_with("fsck.fat "), "{said}");
    let is_found = |line: &&str| !line.starts_with("fsck.fat ") && !line.starts_with(text(&partition));
    said.lines().filter(|line| !line.is_empty()).filter(is_found).map(str::to_owned).collect()
}

/// Keeps a disk for who looks for the cause, and says where.
fn keep(disk: &[u8], said: &str) -> String {
    let path = culm_tests_harness::artefacts().join("power-cuts.img");
    std::fs::write(&path, disk).expect("artefacts are writable");
    format!("{said}\nthe disk: {}", path.display())
}

/// A machine that was killed: what may be on its disk, at each moment of its record.
struct Past {
    folder: TempDir,
    about: String,
    files: Files,
    moves: Moves,
    /// The disk as the machine found it.
    before: Vec<u8>,
    entries: Vec<(u64, Entry)>,
    has_cache: bool,
}

impl Past {
    /// Returns how many entries of the record a cut may leave. One of few entries is that of a
    /// machine that was killed early.
    fn length(&self) -> usize {
        self.entries.len().saturating_sub(TORN)
    }

    /// Checks the disk as it is if the power goes at some moment; returns it, and what is on it.
    ///
    /// Without a cache a part of the last entry may be missing. So nothing that was answered after
    /// it is asked for.
    fn check_cut(&self, number: usize, random: &mut Random) -> (Found, Vec<u8>) {
        let entry = random.below(self.length());
        let whole = if self.has_cache { entry } else { entry.saturating_sub(1) };
        self.check_cut_at(entry, self.entries[whole].0, entry, number, random)
    }

    /// Checks the disk as it is if the power goes while nobody writes: a step that was told of and
    /// not flushed would be found by no other cut, since the next step's flush follows at once.
    /// Without a cache the last entry is durable too: what was told of may have been answered
    /// for it.
    fn check_pauses(&self, random: &mut Random) {
        for (number, end) in (CUTS..).zip(self.moves.pauses()) {
            if let Some(entry) = self.entries.iter().rposition(|(place, _)| *place <= end) {
                self.check_cut_at(entry, end, entry + 1, number, random);
            }
        }
    }

    /// Checks the disk of a cut after an entry: `taken` entries are durable without a cache, and
    /// what was answered before the record ended at `end` must be there.
    fn check_cut_at(
        &self,
        entry: usize,
        end: u64,
        taken: usize,
        number: usize,
        random: &mut Random,
    ) -> (Found, Vec<u8>) {
        let entries = &self.entries[..=entry];
        let mut disk = self.before.clone();
        cut(&mut disk, entries, if self.has_cache { flushed(entries) } else { taken }, random);
        let about = format!("{}, cut {number} after {entry} entries of {}", self.about, self.length());
        (self.check(&disk, end, &about), disk)
    }

    /// Returns the files of the disk that was looked at last, by mtools: those of the web server's
    /// clients, and those of who moves and appends.
    fn contents(&self) -> (BTreeMap<String, Vec<u8>>, Tree) {
        let (partition, copy) = (self.folder.path().join("partition.img"), self.folder.path().join("copy"));
        if copy.exists() {
            std::fs::remove_dir_all(&copy).expect("the folder is writable");
        }
        std::fs::create_dir(&copy).expect("the folder is writable");
        run(60, "mcopy", &["-s", "-n", "-Q", "-i", text(&partition), "::/site", "::/outside", text(&copy)]);
        assert_eq!(std::fs::read(copy.join("outside")).expect("it is copied"), b"outside");
        let (site, mut files, mut moved) = (copy.join("site"), BTreeMap::new(), Tree::new());
        for (path, content) in tree(&site) {
            match (path.strip_prefix("/moves"), content) {
                (Some("" | GO), _) => {}
                (Some(path), content) => drop(moved.insert(path.to_owned(), content)),
                (None, Some(content)) => drop(files.insert(path, content)),
                (None, None) => assert_eq!(path, "/folder"),
            }
        }
        (files, moved)
    }

    /// Checks a disk that was cut off where the record ended, and returns what is on it.
    fn check(&self, disk: &[u8], end: u64, about: &str) -> Found {
        let said = complaints(&self.folder, disk);
        for line in &said {
            assert!(
                is_documented(line) || line.starts_with(MOVES),
                "{about}: {line:?} in\n{}",
                keep(disk, &said.join("\n"))
            );
        }
        let (mut states, (mut files, moved)) = (BTreeMap::new(), self.contents());
        for (path, history) in &self.files {
            let found = files.remove(path);
            let length = found.as_ref().map(Vec::len);
            let mut all = history.states(end).into_iter().filter(|state| state.map(|state| state.length) == length);
            let state = all.find(|state| state.map(Content::bytes) == found);
            let Some(state) = state else {
                panic!(
                    "{about}: {path} has {length:?} bytes, and may be one of {:?}; {history:?}\n{}",
                    history.states(end),
                    keep(disk, &said.join("\n"))
                )
            };
            states.insert(path.clone(), state);
        }
        let others: Vec<&String> = files.keys().collect();
        assert!(others.is_empty(), "{about}: there are {others:?}\n{}", keep(disk, &said.join("\n")));
        let about = format!("{about}: {}", said.join("; "));
        Found { states, moves: self.moves.check(&moved, end, || keep(disk, &about)) }
    }
}

/// What is on a disk, and what its next machine may do with it.
struct Found {
    states: BTreeMap<String, State>,
    moves: Moves,
}

/// Returns what is in a folder, by paths that begin with a slash.
fn tree(folder: &Path) -> Tree {
    let mut tree = Tree::new();
    for entry in std::fs::read_dir(folder).expect("the folder is there") {
        let entry = entry.expect("the folder can be read").path();
        let name = format!("/{}", entry.file_name().and_then(|name| name.to_str()).expect("names are text"));
        if entry.is_file() {
            tree.insert(name, Some(std::fs::read(&entry).expect("it is copied")));
        } else {
            let within = self::tree(&entry);
            tree.extend(within.into_iter().map(|(path, content)| (format!("{name}{path}"), content)));
            tree.insert(name, None);
        }
    }
    tree
}

/// A disk, and what may be on it.
struct World {
    medium: Medium,
    folder: TempDir,
    files: Files,
    moves: Moves,
    random: Random,
    /// The first version that no client has used.
    version: u64,
}

impl World {
    fn new(medium: Medium, seed: u64) -> Self {
        let folder = tempfile::tempdir().expect("a temporary folder");
        std::fs::create_dir_all(folder.path().join("files/site/folder")).expect("the folder is writable");
        std::fs::write(folder.path().join("files/outside"), b"outside").expect("the folder is writable");
        let Medium { device, keys, size, .. } = medium;
        let image =
            format!("{size}partition = [{{ name = \"site\", size = \"34MiB\", fat = 32, folder = \"files\" }}]\n");
        std::fs::write(folder.path().join("disk.toml"), image).expect("the folder is writable");
        let (from, to) = (folder.path().join("disk.toml"), folder.path().join("disk.img"));
        run(300, text(&root().join("culm")), &["image", text(&from), "-o", text(&to)]);
        let system = format!(
            "name = \"power-cuts-{device}\"\ndescription = \"A web server over a disk\"\nboard = \"virt\"\n\
             [device.nic0]\npriority = 240\n[device.uart0]\npriority = 220\n[device.rtc0]\npriority = 50\n\
             [device.{device}]\npriority = 200\nimage = \"disk.img\"\n{keys}\
             [pd.files]\ncomponent = \"file\"\npriority = 150\ndisk = {{ device = \"{device}\", partition = \"site\" }}\nclock = \"rtc0\"\n\
             [pd.http]\ncomponent = \"http\"\npriority = 100\nobserve = true\nnet = \"nic0\"\nclock = \"rtc0\"\n\
             files = {{ device = \"files\", folder = \"/site\", write = true, shared = true, memory = \"1MiB\" }}\n\
             config = {{ upload_token_sha256 = \"{HASH}\", upload_limit = \"1MiB\" }}\n\
             [pd.moves]\ncomponent = \"file-moves\"\npriority = 90\n\
             files = {{ device = \"files\", folder = \"/site/moves\", write = true, shared = true, memory = \"64KiB\" }}\n"
        );
        let files = (0..CLIENTS).flat_map(paths).map(|path| (path, History::default())).collect();
        let (moves, random) = (Moves::default(), Random::new(seed));
        let world = Self { medium, folder, files, moves, random, version: 0 };
        std::fs::write(world.system(), system).expect("the folder is writable");
        Boot::system(text(&world.system())).build();
        world
    }

    fn system(&self) -> PathBuf {
        self.path(&format!("power-cuts-{}.toml", self.medium.device))
    }

    fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    fn disk(&self) -> Vec<u8> {
        std::fs::read(self.path("disk.img")).expect("there is a disk")
    }

    /// Starts a machine with the disk, and a new record.
    fn boot(&self) -> Machine {
        let record = self.path("record");
        std::fs::write(&record, b"").expect("the folder is writable");
        let set = |option: &str| format!("--qemu=drive.{}.{option}", self.medium.device);
        let file = set(&format!("log.filename={}", text(&record)));
        let options = ["format=blklogwrites", "log.driver=file", "log.cache.no-flush=on"].map(set);
        let all = options.iter().chain([&file]).flat_map(|option| ["--qemu=-set", option]);
        let all: Vec<&str> = all.collect();
        let mut machine = Boot::system(text(&self.system())).option(&all).start_again(&[80]);
        machine.wait_for_web();
        machine
    }

    /// Begins anew with a disk.
    fn go_on(&mut self, disk: &[u8], found: Found) {
        std::fs::write(self.path("disk.img"), disk).expect("the folder is writable");
        self.moves = found.moves;
        self.files = found.states.into_iter().map(|(path, start)| (path, History { start, changes: vec![] })).collect();
    }

    /// Checks that the server has the files.
    fn is_served(&self, machine: &Machine) {
        let mut connection = Connection::open(machine.address(80)).expect("the server is there");
        for (path, history) in &self.files {
            let (status, body) = connection.ask("GET", path, b"").expect("the server answers");
            match history.start {
                Some(content) => assert!(status == 200 && body == content.bytes(), "{path}: {status}, {content:?}"),
                None => assert_eq!(status, 404, "{path}"),
            }
        }
    }

    /// Waits until the volume is at rest: `fsck.fat` finds nothing at all.
    fn rests(&self) {
        let until = Instant::now() + PATIENCE;
        loop {
            let said = complaints(&self.folder, &self.disk());
            if said.is_empty() {
                return;
            }
            assert!(Instant::now() < until, "the volume does not come to rest:\n{}", said.join("\n"));
            std::thread::sleep(Duration::from_millis(100));
        }
    }

    /// Has clients write until the machine is killed, and remembers what they know.
    fn load(&mut self, mut machine: Machine) {
        machine.expect_anywhere(&format!("waits for {GO}"));
        let is_cut = AtomicBool::new(false);
        let record = self.path("record");
        let load = Load { address: machine.address(80), record: &record, is_cut: &is_cut };
        let time = Duration::from_millis(200 + self.random.below(2800) as u64);
        let mut connection = Connection::open(load.address).expect("the server is there");
        let answer = connection.ask("PUT", &format!("/moves{GO}"), b"go");
        assert_eq!(answer.map(|(status, _)| status), Some(201));
        // On a slow card the others would leave it no time before the cut.
        let until = Instant::now() + PATIENCE;
        while self.moves.done() < FIRST_STEPS {
            assert!(Instant::now() < until, "nothing is moved; the last lines:\n{}", machine.tail());
            self.moves.told(machine.count(STEP), load.place());
            std::thread::sleep(Duration::from_millis(5));
        }
        let mut files = core::mem::take(&mut self.files);
        std::thread::scope(|scope| {
            let clients: Vec<_> = (0..CLIENTS)
                .map(|client| {
                    let own: Files = paths(client).filter_map(|path| files.remove_entry(&path)).collect();
                    let random = Random::new(self.random.number() | 1);
                    let version = self.version + ((client as u64) << 16);
                    let load = &load;
                    // Here and not in the client, which may have its first turn after the cut.
                    let connection = Connection::open(load.address).expect("the server is there");
                    scope.spawn(move || load.work(connection, own, version, random))
                })
                .collect();
            let end = Instant::now() + time;
            while Instant::now() < end {
                self.moves.told(machine.count(STEP), load.place());
                std::thread::sleep(Duration::from_millis(5));
            }
            is_cut.store(true, Ordering::SeqCst);
            let emulators = children(machine.process());
            for emulator in &emulators {
                let number = emulator.file_name().and_then(|name| name.to_str()).and_then(|name| name.parse().ok());
                kill(Pid::from_raw(number.expect("a process has a number")), Signal::SIGKILL).expect("it runs");
            }
            self.moves.told(machine.count(STEP), load.place());
            assert_eq!(machine.count(" failed: "), 0, "{}", machine.tail());
            drop(machine);
            are_gone(&emulators);
            for client in clients {
                files.extend(client.join().expect("a client sees what it may see"));
            }
        });
        self.files = files;
        self.version += (CLIENTS as u64) << 16;
    }
}

/// Kills machines with such a medium, one after the other.
fn kill_machines(medium: Medium) {
    let seed = seed();
    eprintln!("CULM_CUTS_SEED={seed}");
    let mut world = World::new(medium, seed);
    let kills = if is_soak() { medium.kills.1 } else { medium.kills.0 };
    let (mut answered, mut cuts, mut steps) = (0, 0, 0);
    // Looks at the disks of the machine before.
    let mut checks: Option<JoinHandle<()>> = None;
    for kill in 0..kills {
        let before = world.disk();
        let machine = world.boot();
        world.is_served(&machine);
        world.rests();
        world.load(machine);
        let (killed, entries) = (world.disk(), read_record(&world.path("record")));
        let past = Past {
            folder: tempfile::tempdir().expect("a temporary folder"),
            about: format!("{}, kill {kill}", medium.device),
            files: core::mem::take(&mut world.files),
            moves: core::mem::take(&mut world.moves),
            before,
            entries,
            has_cache: medium.has_cache,
        };
        let changes = || past.files.values().flat_map(|history| &history.changes);
        let done = changes().filter(|change| change.done.is_some()).count();
        let (under_way, entries) = (changes().count() - done, past.entries.len());
        answered += done;
        let told = past.moves.done();
        steps += told;
        eprintln!(
            "kill {kill}: {done} answered, {under_way} under way or refused, {told} moves and appends, \
             {entries} writes and flushes"
        );
        let rest = if past.length() == 0 { 0 } else { CUTS };
        cuts += rest;
        let mut next = (past.check(&killed, u64::MAX, &past.about), killed);
        // One of the cuts is the next machine's, every other time.
        if rest > 0 && kill % 2 == 0 {
            next = past.check_cut(0, &mut world.random);
        }
        world.go_on(&next.1, next.0);
        if let Some(checks) = checks.take() {
            checks.join().expect("the disks of the machine before are as they may be");
        }
        let mut random = Random::new(world.random.number() | 1);
        let begin = if kill % 2 == 0 { 1 } else { 0 };
        checks = Some(spawn(move || {
            (begin..rest).for_each(|number| _ = past.check_cut(number, &mut random));
            past.check_pauses(&mut random);
        }));
    }
    if let Some(checks) = checks {
        checks.join().expect("the disks of the last machine are as they may be");
    }
    let before = world.disk();
    let machine = world.boot();
    world.is_served(&machine);
    world.rests();
    machine.is_unharmed();
    machine.interrupt();
    let after = world.disk();
    // The record is what happened.
    let mut again = before.clone();
    let entries = read_record(&world.path("record"));
    cut(&mut again, &entries, entries.len(), &mut world.random);
    assert!(again == after, "the record leads to another disk");
    let folder = tempfile::tempdir().expect("a temporary folder");
    assert_eq!(complaints(&folder, &after), Vec::<String>::new());
    let (files, moves, has_cache) = (world.files, world.moves, medium.has_cache);
    let about = "after a stop".into();
    let last = Past { folder, about, files, moves, before, entries, has_cache };
    let found = last.check(&after, u64::MAX, &last.about);
    assert!(last.files.iter().all(|(path, history)| found.states[path] == history.start));
    assert!(last.moves.are_recovered(&found.moves), "what was moved and appended to is not as it was");
    eprintln!(
        "{}: {kills} kills, {cuts} cuts of their records, {answered} changes and {steps} moves and appends answered",
        medium.device
    );
    assert!(answered > kills && steps > kills, "{answered} changes and {steps} moves and appends answered");
}

#[test]
fn what_was_answered_outlives_power_cuts() {
    kill_machines(DISK);
}

#[test]
fn what_was_answered_outlives_power_cuts_of_a_card() {
    kill_machines(CARD);
}
