//! Power cuts of a system that writes: what was answered is on the disk, what was under way is
//! there as a whole or not at all, and the volume is one that recovery makes whole.
//!
//! Clients put files on the web server's disk, replace and remove them, until QEMU is killed at
//! some moment. That is a cut of which the host keeps every write that the disk had taken. A real
//! one loses some: so QEMU keeps a record of writes and flushes (its driver `blklogwrites`), and
//! from that the test makes the disk as it would be if the power had gone at other moments, with
//! any of the blocks missing that were written after the last flush. Each such disk is looked at by
//! the host's programs, and one of them is the next machine's.
//!
//! A few machines are killed in the usual run, two hundred if `CULM_SOAK` is set. `CULM_CUTS_SEED`
//! says which of all possible runs it is.

#![allow(missing_docs, reason = "a test's name says what it tests")]

use culm_tests_harness::client::{run, try_run};
use culm_tests_harness::frames::Random;
use culm_tests_harness::process::{are_gone, children};
use culm_tests_harness::{Boot, Machine, PATIENCE, root};
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use std::collections::BTreeMap;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};
use tempfile::TempDir;

const TOKEN: &str = "open-sesame";
/// The token's SHA-256.
const HASH: &str = "d7ecdf25eaf3deba0f2628771dbdd22d4138ab6cf38f91ed02a2ca0dec7c8ab7";
/// Bytes of a block: what a disk writes as a whole.
const BLOCK: usize = 512;
/// Where the partition begins, and its bytes.
const PARTITION: std::ops::Range<usize> = 1 << 20..65 << 20;
/// Clients at work, and files of each.
const CLIENTS: usize = 4;
const FILES: usize = 8;
/// Entries at the end of a record of which a machine that is killed may have written a part.
const TORN: usize = 16;

/// Beginnings of what `fsck.fat -n` may say after a cut: what the book says that one leaves where
/// nobody moves files or appends to them.
const DOCUMENTED: &[&str] = &[
    "fsck.fat 4",
    "Leaving filesystem unchanged.",
    "Dirty bit is set. Fs was not properly unmounted and some data may be corrupt.",
    " Automatically removing dirty bit.",
    "There are differences between boot sector and its backup.",
    "This is mostly harmless. Differences: (offset:original/backup)",
    "  65:01/00",
    "  Not automatically fixing this.",
    "Free cluster summary ",
    "  Auto-correcting.",
    "Reclaimed ",
    "Reclaiming unconnected clusters.",
    "FATs differ but appear to be intact.",
    "  Using first FAT.",
    "Orphaned long file name part ",
    "  Auto-deleting.",
];

/// Machines that are killed.
fn kills() -> usize {
    if std::env::var_os("CULM_SOAK").is_some() { 200 } else { 5 }
}

/// Other moments at which the power goes, for each machine.
const CUTS: usize = 8;

fn seed() -> u64 {
    let given = std::env::var("CULM_CUTS_SEED").ok().and_then(|seed| seed.parse().ok());
    // Without `CULM_SOAK` the same each time.
    let other = || if std::env::var_os("CULM_SOAK").is_some() { u64::from(std::process::id()) } else { 8 };
    given.unwrap_or_else(other).max(1)
}

fn text(path: &Path) -> &str {
    path.to_str().expect("temporary paths are text")
}

/// A file's content: bytes that follow from a number of its own.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Content {
    version: u64,
    length: usize,
}

impl Content {
    fn bytes(self) -> Vec<u8> {
        let words = (0..self.length as u64 / 8 + 1)
            .map(|word| (word ^ self.version << 32).wrapping_mul(0x9e37_79b9_7f4a_7c15).rotate_left(17));
        words.flat_map(u64::to_le_bytes).take(self.length).collect()
    }
}

/// The content that a file may have; none if it is not there.
type State = Option<Content>;

/// A client's request to change a file. Places are those of the record: its length, in bytes.
#[derive(Debug)]
struct Change {
    /// The file's new state.
    to: State,
    /// Where the record ended before the request was sent.
    begun: u64,
    /// Where it ended after the answer had come that it is done.
    done: Option<u64>,
}

/// A file, and what has happened to it since the machine was started.
#[derive(Debug, Default)]
struct History {
    start: State,
    changes: Vec<Change>,
}

impl History {
    /// Returns what may be there if the record ends at a place.
    fn states(&self, end: u64) -> Vec<State> {
        let mut states = vec![self.start];
        for change in &self.changes {
            match change.done {
                Some(done) if done <= end => states = vec![change.to],
                _ if change.begun <= end => states.push(change.to),
                _ => {}
            }
        }
        states
    }
}

/// All files, by their paths.
type Files = BTreeMap<String, History>;

fn paths(client: usize) -> impl Iterator<Item = String> {
    (0..FILES).map(move |file| match file % 4 {
        0 => format!("/{client}-{file}"),
        1 => format!("/folder/{client}-{file}.txt"),
        2 => format!("/folder/file-{file}-of-client-{client}-with-a-name-that-takes-many-entries.html"),
        _ => format!("/the-long-name-of-file-{file}-of-client-{client}.bin"),
    })
}

/// A connection to the web server.
struct Connection {
    stream: BufReader<TcpStream>,
    is_closed: bool,
}

impl Connection {
    fn open(address: SocketAddr) -> Option<Self> {
        let stream = TcpStream::connect_timeout(&address, PATIENCE).ok()?;
        stream.set_read_timeout(Some(PATIENCE)).ok()?;
        Some(Self { stream: BufReader::new(stream), is_closed: false })
    }

    /// Sends a request and returns the answer's status and content; none if the connection breaks.
    fn ask(&mut self, method: &str, path: &str, content: &[u8]) -> Option<(u16, Vec<u8>)> {
        let length = content.len();
        let length = if method == "PUT" { format!("Content-Length: {length}\r\n") } else { String::new() };
        let head = format!("{method} {path} HTTP/1.1\r\nHost: disk\r\nAuthorization: Bearer {TOKEN}\r\n{length}\r\n");
        self.stream.get_mut().write_all(head.as_bytes()).ok()?;
        self.stream.get_mut().write_all(content).ok()?;
        let mut line = String::new();
        self.stream.read_line(&mut line).ok()?;
        let status = line.split(' ').nth(1)?.parse().ok()?;
        let mut length = 0;
        loop {
            line.clear();
            self.stream.read_line(&mut line).ok()?;
            let Some((name, value)) = line.split_once(':') else { break };
            if name.eq_ignore_ascii_case("content-length") {
                length = value.trim().parse().ok()?;
            }
            self.is_closed |= name.eq_ignore_ascii_case("connection") && value.contains("close");
        }
        let mut body = vec![0; length];
        self.stream.read_exact(&mut body).ok()?;
        Some((status, body))
    }
}

/// State that the clients of a machine share.
struct Load<'a> {
    address: SocketAddr,
    record: &'a Path,
    is_cut: &'a AtomicBool,
}

impl Load<'_> {
    /// Where the record ends now.
    fn place(&self) -> u64 {
        std::fs::metadata(self.record).expect("QEMU keeps a record").len()
    }

    /// A client: changes its files until the machine is gone. `version` is the first of a range of
    /// its own.
    fn work(&self, mut connection: Connection, mut files: Files, mut version: u64, mut random: Random) -> Files {
        let names: Vec<String> = files.keys().cloned().collect();
        loop {
            let path = &names[random.below(names.len())];
            let history = files.get_mut(path).expect("it has a history");
            let length = match random.below(8) {
                0 => 0,
                1..=3 => random.below(3_000),
                4..=6 => random.below(60_000),
                _ => random.below(300_000),
            };
            version += 1;
            let to = (random.below(4) != 0).then_some(Content { version, length });
            let (method, content) = to.map_or(("DELETE", vec![]), |content| ("PUT", content.bytes()));
            let before = history.states(u64::MAX);
            history.changes.push(Change { to, begun: self.place(), done: None });
            let answer = connection.ask(method, path, &content);
            let Some((status, body)) = answer else {
                assert!(self.is_cut.load(Ordering::SeqCst), "{method} {path}: the connection broke before the cut");
                return files;
            };
            let was_there = |there: bool| before.iter().any(|state| state.is_some() == there);
            let is_done = match (method, status) {
                ("PUT", 201) | ("DELETE", 404) => was_there(false),
                ("PUT" | "DELETE", 204) => was_there(true),
                // Too much at once.
                (_, 503) => true,
                _ => false,
            };
            assert!(is_done, "{method} {path}: {status} {}, after {before:?}", String::from_utf8_lossy(&body));
            if status != 503 {
                let change = history.changes.last_mut().expect("this one");
                change.done = Some(self.place());
            }
            if connection.is_closed {
                let Some(other) = Connection::open(self.address) else { continue };
                connection = other;
            }
        }
    }
}

/// An entry of the record.
enum Entry {
    Write { at: usize, bytes: Vec<u8> },
    Flush,
}

/// Reads what QEMU has recorded: entries, each with the place where it ends. It is the format of
/// Linux's dm-log-writes (Documentation/admin-guide/device-mapper/log-writes.rst): a block about
/// the record, and then a block about each write, with what was written behind it.
fn read_record(record: &Path) -> Vec<(u64, Entry)> {
    let record = std::fs::read(record).expect("QEMU keeps a record");
    let mut entries = vec![];
    let mut place = BLOCK;
    while let Some(head) = record.get(place..place + BLOCK) {
        let field = |index: usize| {
            let bytes = head[index * 8..index * 8 + 8].try_into().expect("eight bytes");
            u64::from_le_bytes(bytes) as usize
        };
        let (block, blocks, flags) = (field(0), field(1), field(2));
        place += BLOCK;
        let entry = match (blocks, flags) {
            // Not written yet.
            (0, 0) => break,
            (0, 1) => Entry::Flush,
            (_, 0) => {
                let Some(bytes) = record.get(place..place + blocks * BLOCK) else { break };
                place += bytes.len();
                Entry::Write { at: block * BLOCK, bytes: bytes.to_vec() }
            }
            other => panic!("an entry of {} blocks with the flags {}", other.0, other.1),
        };
        entries.push((place as u64, entry));
    }
    entries
}

/// Makes the disk as it is if the power goes after these entries: with all that was flushed, and
/// any of the blocks that were written later.
fn cut(disk: &mut [u8], entries: &[(u64, Entry)], random: &mut Random) {
    let is_flush = |(_, entry): &(u64, Entry)| matches!(entry, Entry::Flush);
    let flushed = entries.iter().rposition(is_flush).unwrap_or(0);
    // Of four blocks so many are written.
    let share = random.below(5);
    for (index, (_, entry)) in entries.iter().enumerate() {
        let Entry::Write { at, bytes } = entry else { continue };
        for (block, new) in (*at..).step_by(BLOCK).zip(bytes.chunks(BLOCK)) {
            if index < flushed || random.below(4) < share {
                disk[block..block + BLOCK].copy_from_slice(new);
            }
        }
    }
}

/// A disk, and what may be on it.
struct World {
    folder: TempDir,
    files: Files,
    random: Random,
    /// The first version that no client has used.
    version: u64,
}

impl World {
    fn new(seed: u64) -> Self {
        let folder = tempfile::tempdir().expect("a temporary folder");
        std::fs::create_dir_all(folder.path().join("files/site/folder")).expect("the folder is writable");
        std::fs::write(folder.path().join("files/outside"), b"outside").expect("the folder is writable");
        let partition = "partition = [{ name = \"site\", size = \"64MiB\", fat = 32, folder = \"files\" }]\n";
        std::fs::write(folder.path().join("disk.toml"), partition).expect("the folder is writable");
        let (from, to) = (folder.path().join("disk.toml"), folder.path().join("disk.img"));
        run(300, text(&root().join("culm")), &["image", text(&from), "-o", text(&to)]);
        let system = format!(
            "name = \"power-cuts\"\ndescription = \"A web server over a disk\"\nboard = \"virt\"\n\
             [device.nic0]\npriority = 240\n[device.uart0]\npriority = 60\n[device.rtc0]\npriority = 50\n\
             [device.disk0]\npriority = 200\nimage = \"disk.img\"\n\
             [pd.files]\ncomponent = \"file\"\npriority = 150\ndisk = {{ device = \"disk0\", partition = \"site\" }}\nclock = \"rtc0\"\n\
             [pd.http]\ncomponent = \"http\"\npriority = 100\nobserve = true\nnet = \"nic0\"\nclock = \"rtc0\"\n\
             files = {{ device = \"files\", folder = \"/site\", write = true, memory = \"1MiB\" }}\n\
             config = {{ upload_token_sha256 = \"{HASH}\", upload_limit = \"1MiB\" }}\n"
        );
        std::fs::write(folder.path().join("power-cuts.toml"), system).expect("the folder is writable");
        let files = (0..CLIENTS).flat_map(paths).map(|path| (path, History::default())).collect();
        Self { folder, files, random: Random::new(seed), version: 0 }
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
        let set = |option: &str| format!("--qemu=drive.disk0.{option}");
        let file = set(&format!("log.filename={}", text(&record)));
        let options = ["format=blklogwrites", "log.driver=file", "log.cache.no-flush=on"].map(set);
        let all = options.iter().chain([&file]).flat_map(|option| ["--qemu=-set", option]);
        let all: Vec<&str> = all.collect();
        let mut machine = Boot::system(text(&self.path("power-cuts.toml"))).option(&all).start(&[80]);
        machine.wait_for_web();
        machine
    }

    /// Returns what `fsck.fat` finds on a disk, less its first line and its last.
    fn complaints(&self, disk: &[u8]) -> Vec<String> {
        let partition = self.path("partition.img");
        std::fs::write(&partition, &disk[PARTITION]).expect("the folder is writable");
        let said = try_run(60, "/usr/sbin/fsck.fat", &["-n", text(&partition)]);
        let said = String::from_utf8_lossy(&said.stdout).into_owned();
        assert!(said.starts_with("fsck.fat "), "{said}");
        let is_found = |line: &&str| !line.starts_with("fsck.fat ") && !line.starts_with(text(&partition));
        said.lines().filter(|line| !line.is_empty()).filter(is_found).map(str::to_owned).collect()
    }

    /// Returns the files of the disk that was looked at last, by mtools.
    fn contents(&self) -> BTreeMap<String, Vec<u8>> {
        let (partition, copy) = (self.path("partition.img"), self.path("copy"));
        if copy.exists() {
            std::fs::remove_dir_all(&copy).expect("the folder is writable");
        }
        std::fs::create_dir(&copy).expect("the folder is writable");
        run(60, "mcopy", &["-s", "-n", "-Q", "-i", text(&partition), "::/site", "::/outside", text(&copy)]);
        assert_eq!(std::fs::read(copy.join("outside")).expect("it is copied"), b"outside");
        let mut files = BTreeMap::new();
        for folder in ["/", "/folder/"] {
            let entries = std::fs::read_dir(copy.join("site").join(&folder[1..])).expect("the folder is there");
            for entry in
                entries.map(|entry| entry.expect("the folder can be read").path()).filter(|path| path.is_file())
            {
                let name = entry.file_name().and_then(|name| name.to_str()).expect("names are text");
                files.insert(format!("{folder}{name}"), std::fs::read(&entry).expect("it is copied"));
            }
        }
        files
    }

    /// Checks a disk that was cut off where the record ended, and returns the states of its files.
    fn check(&self, disk: &[u8], end: u64, about: &str) -> BTreeMap<String, State> {
        let said = self.complaints(disk);
        for line in &said {
            let is_known = DOCUMENTED.iter().any(|known| line.starts_with(known));
            assert!(is_known, "{about}: {line:?} in\n{}", self.keep(disk, &said.join("\n")));
        }
        let (mut states, mut files) = (BTreeMap::new(), self.contents());
        for (path, history) in &self.files {
            let found = files.remove(path);
            let mut all = history.states(end).into_iter();
            let state = all.find(|state| state.map(Content::bytes) == found);
            let Some(state) = state else {
                let length = found.map(|bytes| bytes.len());
                panic!(
                    "{about}: {path} has {length:?} bytes, and may be one of {:?}; {history:?}\n{}",
                    history.states(end),
                    self.keep(disk, &said.join("\n"))
                )
            };
            states.insert(path.clone(), state);
        }
        let others: Vec<&String> = files.keys().collect();
        assert!(others.is_empty(), "{about}: there are {others:?}\n{}", self.keep(disk, &said.join("\n")));
        states
    }

    /// Keeps a disk for who looks for the cause, and says where.
    fn keep(&self, disk: &[u8], said: &str) -> String {
        let path = culm_tests_harness::artefacts().join("power-cuts.img");
        std::fs::write(&path, disk).expect("artefacts are writable");
        format!("{said}\nthe disk: {}", path.display())
    }

    /// Begins anew with a disk.
    fn go_on(&mut self, disk: &[u8], states: BTreeMap<String, State>) {
        std::fs::write(self.path("disk.img"), disk).expect("the folder is writable");
        self.files = states.into_iter().map(|(path, start)| (path, History { start, changes: vec![] })).collect();
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
            let said = self.complaints(&self.disk());
            if said.is_empty() {
                return;
            }
            assert!(Instant::now() < until, "the volume does not come to rest:\n{}", said.join("\n"));
            std::thread::sleep(Duration::from_millis(300));
        }
    }

    /// Has clients write until the machine is killed, and remembers what they know.
    fn load(&mut self, machine: Machine) {
        let is_cut = AtomicBool::new(false);
        let record = self.path("record");
        let load = Load { address: machine.address(80), record: &record, is_cut: &is_cut };
        let time = Duration::from_millis(200 + self.random.below(2800) as u64);
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
            std::thread::sleep(time);
            is_cut.store(true, Ordering::SeqCst);
            let emulators = children(machine.process());
            for emulator in &emulators {
                let number = emulator.file_name().and_then(|name| name.to_str()).and_then(|name| name.parse().ok());
                kill(Pid::from_raw(number.expect("a process has a number")), Signal::SIGKILL).expect("it runs");
            }
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

#[test]
fn what_was_answered_outlives_power_cuts() {
    let seed = seed();
    eprintln!("CULM_CUTS_SEED={seed}");
    let mut world = World::new(seed);
    let (mut answered, mut cuts) = (0, 0);
    for kill in 0..kills() {
        let before = world.disk();
        let machine = world.boot();
        world.is_served(&machine);
        world.rests();
        world.load(machine);
        let changes = || world.files.values().flat_map(|history| &history.changes);
        let done = changes().filter(|change| change.done.is_some()).count();
        let (under_way, entries) = (changes().count() - done, read_record(&world.path("record")));
        answered += done;
        eprintln!(
            "kill {kill}: {done} answered, {under_way} under way or refused, {} writes and flushes",
            entries.len()
        );
        let killed = world.disk();
        let mut next = (world.check(&killed, u64::MAX, &format!("kill {kill}")), killed);
        let length = entries.len().saturating_sub(TORN);
        // A record of few entries is one of a machine that was killed early.
        for number in 0..if length == 0 { 0 } else { CUTS } {
            let entry = world.random.below(length);
            let mut disk = before.clone();
            cut(&mut disk, &entries[..=entry], &mut world.random);
            let about = format!("kill {kill}, cut {number} after {entry} entries of {length}");
            let states = world.check(&disk, entries[entry].0, &about);
            cuts += 1;
            // The last one is the next machine's, every other time.
            if number == CUTS - 1 && kill % 2 == 0 {
                next = (states, disk);
            }
        }
        world.go_on(&next.1, next.0);
    }
    let before = world.disk();
    let machine = world.boot();
    world.is_served(&machine);
    world.rests();
    machine.is_unharmed();
    machine.interrupt();
    let after = world.disk();
    let states = world.check(&after, u64::MAX, "after a stop");
    assert!(world.files.iter().all(|(path, history)| states[path] == history.start));
    assert_eq!(world.complaints(&after), Vec::<String>::new());
    // The record is what happened.
    let mut again = before;
    let mut entries = read_record(&world.path("record"));
    entries.push((u64::MAX, Entry::Flush));
    cut(&mut again, &entries, &mut world.random);
    assert!(again == after, "the record leads to another disk");
    eprintln!("{} kills, {cuts} cuts of their records, {answered} changes answered", kills());
    assert!(answered > kills(), "{answered} changes answered");
}
