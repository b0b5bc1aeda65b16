//! The log in files: what the console has said is in them after a power cut, whatever dies and
//! however much is said.

#![allow(missing_docs, reason = "a test's name says what it tests")]

use culm_tests_harness::client::curl;
use culm_tests_harness::deaths::{count, is_soak};
use culm_tests_harness::debugger::{Debugger, code};
use culm_tests_harness::frames::Random;
use culm_tests_harness::process::{are_gone, children};
use culm_tests_harness::qmp::Qmp;
use culm_tests_harness::{Boot, Machine, PATIENCE, free_port, root};
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use serde_json::{Value, json};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};

/// A system with a keeper of the log, on a disk of its own.
struct Bench {
    folder: tempfile::TempDir,
    name: String,
    device: &'static str,
}

impl Bench {
    /// One with these options of the keeper's, and these further tables.
    fn new(name: &str, disk: &str, options: &str, tables: &str) -> Self {
        Self::on("disk0", "", &format!("partition = [{disk}]"), name, options, tables)
    }

    /// One on this device, which has these keys and an image with that in it.
    fn on(device: &'static str, keys: &str, image: &str, name: &str, options: &str, tables: &str) -> Self {
        let folder = tempfile::tempdir().expect("there is a place for temporary files");
        let description = format!(
            "name = \"{name}\"\ndescription = \"The log in files\"\nboard = \"virt\"\n\
             [device.uart0]\npriority = 60\nvirtualiser = {{ clock = \"rtc0\" }}\n[device.rtc0]\npriority = 50\n\
             [device.{device}]\npriority = 200\n{keys}\nimage = {{ {image} }}\n\
             [pd.files]\ncomponent = \"file\"\npriority = 150\ndisk = {{ device = \"{device}\", partition = 1 }}\n{RESTART}\n\
             [pd.log]\ncomponent = \"log-keeper\"\npriority = 40\nclock = \"rtc0\"\n{options}\n\
             console = {{ device = \"uart0\", log = true }}\n\
             files = {{ device = \"files\", folder = \"/log\", write = true }}\n{tables}"
        );
        std::fs::write(folder.path().join("log.toml"), description).expect("the folder is writable");
        Self { folder, name: name.into(), device }
    }

    fn boot(&self) -> Boot {
        let file = self.folder.path().join("log.toml");
        Boot::system(file.to_str().expect("temporary paths are text"))
    }

    /// The disk's image, which the tool has made.
    fn image(&self) -> PathBuf {
        root().join("build/disks").join(format!("{}-{}.img", self.name, self.device))
    }

    /// Starts with an empty disk.
    fn start(&self, options: &[&str]) -> Machine {
        self.start_with_ports(options, &[])
    }

    /// The same, with these ports of the guest forwarded.
    fn start_with_ports(&self, options: &[&str], ports: &[u16]) -> Machine {
        // There is none yet, usually.
        let _ = std::fs::remove_file(self.image());
        self.boot().option(options).start(ports)
    }
}

/// Returns the file of this path. The partition begins at 1 MiB.
fn file(image: &Path, path: &str) -> Option<String> {
    let volume = format!("{}@@1M", image.display());
    let mut copy = Command::new("mtype");
    copy.args(["-i", &volume, &format!("::{path}")]);
    let copied = copy.output().expect("this test needs `mtype`: `./culm setup --tests` installs it");
    copied.status.success().then(|| String::from_utf8_lossy(&copied.stdout).into_owned())
}

/// Joins the files of the log, the oldest first. Of a disk in use, some may have moved meanwhile.
fn kept(image: &Path) -> String {
    let folder = tempfile::tempdir().expect("there is a place for temporary files");
    let mut copy = Command::new("mcopy");
    copy.args(["-s", "-n", "-Q", "-i", &format!("{}@@1M", image.display()), "::/log"]).arg(folder.path());
    // It fails if there is no folder yet.
    let _ = copy.output().expect("this test needs `mcopy`: `./culm setup --tests` installs it");
    let names = (1..100).rev().map(|number| format!("log-{number}.txt")).chain(["log.txt".into()]);
    let files = names.filter_map(|name| std::fs::read(folder.path().join("log").join(name)).ok());
    files.map(|bytes| String::from_utf8_lossy(&bytes).into_owned()).collect()
}

/// Waits until the files have this text so many times. They are read while they are written, so
/// that nothing else can be said of them.
fn wait_for(image: &Path, machine: &mut Machine, text: &str, times: usize) {
    let until = Instant::now() + PATIENCE;
    while kept(image).matches(text).count() < times {
        assert!(Instant::now() < until, "{text:?} is not in the files; the console:\n{}", machine.tail());
        std::thread::sleep(Duration::from_millis(200));
    }
}

/// Ends the machine as a power cut does. Returns all that its console has said until then: a line
/// can be kept after one has looked at the console and before the machine ends.
fn cut(machine: Machine) -> String {
    let emulators = children(machine.process());
    for emulator in &emulators {
        let number = emulator.file_name().and_then(|name| name.to_str()).and_then(|name| name.parse().ok());
        kill(Pid::from_raw(number.expect("a process has a number")), Signal::SIGKILL).expect("it runs");
    }
    let console = machine.all_said();
    are_gone(&emulators);
    console
}

/// Returns the lines of the console that are in a log, without what QEMU and `./culm run` say.
fn logged(console: &str, component: &str) -> Vec<String> {
    let sign = format!(" info  {component}: ");
    console.lines().filter(|line| line.contains(&sign)).map(str::to_string).collect()
}

const RESTART: &str = "restart = { limit = 1000, window = \"1ms\", backoff = \"1ms\" }";

/// What each line of the chatter begins with.
const SAID: &str = "chatter: life 0: line ";

const ENDLESS_CHATTER: &str =
    "[pd.chatter]\ncomponent = \"chatter\"\npriority = 30\nconfig = { lines = 1_000_000, pause = \"5ms\" }\n";

const FAT: &str = "{ name = \"log\", size = \"34MiB\", fat = 32 }";

#[test]
fn what_was_said_is_there_after_a_power_cut() {
    let bench = Bench::new("log-cut", FAT, "", "[pd.chatter]\ncomponent = \"chatter\"\npriority = 30\n");
    let mut machine = bench.start(&[]);
    machine.expect("chatter: life 0: line 99 of 100");
    wait_for(&bench.image(), &mut machine, "line 99 of 100", 1);
    let console = cut(machine);
    let first = kept(&bench.image());
    assert_eq!(first.matches("--- the system has started; it is 20").count(), 1, "{first}");
    assert_eq!(logged(&first, "chatter"), logged(&console, "chatter"));
    // The next start writes behind it.
    let mut machine = bench.boot().start(&[]);
    machine.expect("chatter: life 0: line 99 of 100");
    wait_for(&bench.image(), &mut machine, "line 99 of 100", 2);
    cut(machine);
    let both = kept(&bench.image());
    assert!(both.starts_with(&first), "{both}");
    assert_eq!(both.matches("--- the system has started; it is 20").count(), 2, "{both}");
    assert_eq!(both.matches("chatter: life 0: line ").count(), 200);
}

#[test]
fn a_chatty_component_fills_files_in_turn() {
    let chatter = "[pd.chatter]\ncomponent = \"chatter\"\npriority = 30\nconfig = { lines = 6000 }\n";
    let bench = Bench::new("log-chatty", FAT, "config = { size = \"64KiB\", count = 3 }", chatter);
    let mut machine = bench.start(&[]);
    machine.expect("chatter: life 0: line 5999 of 6000");
    wait_for(&bench.image(), &mut machine, "line 5999 of 6000", 1);
    let console = cut(machine);
    let kept = kept(&bench.image());
    let (kept, said) = (logged(&kept, "chatter"), logged(&console, "chatter"));
    // Four files of 64 KiB, the last perhaps begun just now.
    assert!(kept.len() > 1500 && kept.len() < 4000, "{} lines", kept.len());
    assert!(said.ends_with(&kept), "lines are missing, doubled or in another order");
}

/// Returns what the chatter has said last.
fn latest(machine: &mut Machine) -> String {
    let line = logged(&machine.console(), "chatter").pop().expect("it goes on");
    line.split_once(" chatter: ").expect("it is the chatter's").1.to_string()
}

/// Lets a domain die again and again while the log is kept: no line is lost or doubled. It dies a
/// few times in the usual run, a thousand times if `CULM_SOAK` is set.
fn die(name: &str, victim: &str) {
    // No file makes way before the end.
    let size = if is_soak() { "320KiB" } else { "64KiB" };
    let options = format!("{RESTART}\nconfig = {{ delay = \"20ms\", count = 99, size = \"{size}\" }}");
    let bench = Bench::new(name, FAT, &options, ENDLESS_CHATTER);
    let port = free_port();
    let mut machine = bench.start(&["--qemu", "-gdb", "--qemu", &format!("tcp:127.0.0.1:{port}")]);
    machine.expect("chatter: life 0: line 99 of");
    let (address, size) = code(&format!("{}-virt", bench.name), victim);
    let text = Debugger::connect(port).read(address, size);
    let faulted = format!("supervisor: {victim} faulted: ");
    // Some instructions let each life die until they are back: that counts as one death.
    let (mut random, mut deadly, mut tried) = (Random::new(2), 0, 0);
    while deadly < count(15) {
        let died = machine.count(&faulted);
        // An undefined instruction (Arm ARM C6.2, UDF), here and there.
        let offsets: [usize; 8] = std::array::from_fn(|_| random.below(size / 4) * 4);
        let mut debugger = Debugger::connect(port);
        offsets.iter().for_each(|offset| debugger.write(address + *offset as u64, &[0; 4]));
        drop(debugger);
        wait_for_lines(&mut machine, 20, |machine| machine.count(&faulted) > died);
        let mut debugger = Debugger::connect(port);
        offsets.iter().for_each(|offset| debugger.write(address + *offset as u64, &text[*offset..offset + 4]));
        drop(debugger);
        wait_for_lines(&mut machine, 20, |_| false);
        deadly += usize::from(machine.count(&faulted) > died);
        tried += 1;
    }
    let faults = machine.count(&faulted);
    eprintln!("{faults} deaths, {deadly} of {tried} sets of instructions deadly");
    assert_eq!(machine.count(" faulted: "), faults, "{}", machine.tail());
    // A line that is said from now on is kept, so all before it are.
    let line = latest(&mut machine);
    wait_for(&bench.image(), &mut machine, &line, 1);
    let console = cut(machine);
    let kept = kept(&bench.image());
    let (kept, said) = (logged(&kept, "chatter"), logged(&console, "chatter"));
    assert!(said.starts_with(&kept), "of {} lines, some are missing or doubled in {}", said.len(), kept.len());
    assert!(kept.len() > 100);
}

/// Waits until so many lines more are said, or something else has come.
fn wait_for_lines(machine: &mut Machine, lines: usize, is_enough: impl Fn(&mut Machine) -> bool) {
    let (until, said) = (Instant::now() + PATIENCE, machine.count(SAID) + lines);
    while machine.count(SAID) < said && !is_enough(machine) {
        assert!(Instant::now() < until, "nothing is said any more:\n{}", machine.tail());
        std::thread::sleep(Duration::from_millis(10));
    }
}

#[test]
fn the_keeper_loses_no_line_when_it_dies() {
    die("log-deaths", "log");
}

#[test]
fn nor_does_it_when_the_file_service_dies() {
    die("log-files-deaths", "files");
}

/// Returns whether a line, of a log or on a console, is a component's.
fn is_of_component(line: &&str) -> bool {
    ["] info  ", "] warn  ", "] error "].iter().any(|sign| line.contains(sign))
}

/// Returns the count of missing lines of which a line of a log tells, if it does.
fn told_missing(line: &str) -> Option<usize> {
    let (before, _) = line.split_once(" missing here: nobody took the log")?;
    Some(before.rsplit(' ').nth(2).and_then(|count| count.parse().ok()).expect("it is a number"))
}

/// Returns how many lines a log says are missing in it, after its lines were found to be those of
/// the console, from the first on: each once and in order, but for as many as it says, where it
/// says so.
fn missing(kept: &str, console: &str) -> usize {
    let said: Vec<&str> = console.lines().filter(is_of_component).collect();
    let (mut next, mut missing) = (0, 0);
    for line in kept.lines() {
        if let Some(count) = told_missing(line) {
            (next, missing) = (next + count, missing + count);
        } else if is_of_component(&line) {
            let around = &said[next.saturating_sub(3).min(said.len())..said.len().min(next + 4)];
            assert_eq!(said.get(next), Some(&line), "twice, in another order, or lost unsaid: {around:#?}");
            next += 1;
        }
    }
    missing
}

/// Tests that a disk that others have filled costs the oldest files, and no line that is new.
#[test]
fn on_a_full_disk_the_oldest_file_makes_way() {
    let chatter = "[pd.chatter]\ncomponent = \"chatter\"\npriority = 30\nconfig = { lines = 20_000 }\n";
    let disk = FAT.replace("fat = 32", "fat = 32, folder = \"full\"");
    // No file makes way for its number: there are 20 at most.
    let bench = Bench::new("log-full", &disk, "config = { size = \"64KiB\", count = 99 }", chatter);
    let (full, size) = (bench.folder.path().join("full"), 33 << 20);
    std::fs::create_dir(&full).expect("the folder is writable");
    std::fs::File::create(full.join("full.bin")).and_then(|file| file.set_len(size)).expect("there is space");
    let mut machine = bench.start(&[]);
    machine.expect("chatter: life 0: line 19999 of 20000");
    wait_for(&bench.image(), &mut machine, "line 19999 of 20000", 1);
    let console = cut(machine);
    let kept = kept(&bench.image());
    // A half MiB is free, and files are removed as a whole.
    assert!((300_000..500_000).contains(&kept.len()), "{} bytes", kept.len());
    let (kept, said) = (logged(&kept, "chatter"), logged(&console, "chatter"));
    assert!(kept.len() < said.len() && said.ends_with(&kept), "lines are missing, doubled or in another order");
    assert!(file(&bench.image(), "/full.bin").is_some_and(|bytes| bytes.len() as u64 == size));
}

/// Waits until the console has had this text so many times.
fn wait_for_count(machine: &mut Machine, text: &str, times: usize) {
    let until = Instant::now() + PATIENCE;
    while machine.count(text) < times {
        assert!(Instant::now() < until, "{text:?} is not said {times} times:\n{}", machine.tail());
        std::thread::sleep(Duration::from_millis(10));
    }
}

/// Tests that the log goes on when its card is pulled and put back, each line kept once or counted.
/// What is said without a card for a short while has space in the queue, and all of it is kept.
#[test]
fn a_card_that_is_pulled_costs_no_line_unsaid() {
    let card = format!("size = \"64MiB\", partition = [{FAT}]");
    let tables = format!("[device.pci0]\npriority = 55\n{ENDLESS_CHATTER}");
    let bench = Bench::on("sd0", "bus = \"pci0\"", &card, "log-pulled", "config = { delay = \"20ms\" }", &tables);
    let port = free_port();
    let [qmp, address] = Qmp::options(port);
    let mut machine = bench.start(&[&qmp, &address]);
    wait_for(&bench.image(), &mut machine, "line 99 of", 1);
    let mut monitor = Qmp::connect(port);
    let put_back = json!({ "device": "sd0", "filename": bench.image(), "format": "raw" });
    let (taken_out, found) = ("sd0_driver: the card was taken out", "sd0_driver: card ");
    for (round, lines) in (1..).zip([10, 100, 3000]) {
        monitor.execute("eject", &json!({ "device": "sd0", "force": true }));
        wait_for_count(&mut machine, taken_out, round);
        let before = kept(&bench.image());
        wait_for_lines(&mut machine, lines, |_| false);
        assert!(kept(&bench.image()) == before, "something is written without a card");
        assert_eq!(
            (machine.count(taken_out), machine.count(found)),
            (round, round),
            "the card is not out all the time"
        );
        monitor.execute("blockdev-change-medium", &put_back);
        // Before these there is space in the queue again.
        wait_for_lines(&mut machine, 200, |_| false);
        let line = latest(&mut machine);
        wait_for(&bench.image(), &mut machine, &line, 1);
        assert_eq!(machine.count(found), round + 1, "the round ends with the card");
        let is_short = lines <= 100;
        assert_eq!(kept(&bench.image()).lines().any(|line| told_missing(line).is_some()), !is_short);
    }
    let console = cut(machine);
    let missing = missing(&kept(&bench.image()), &console);
    assert!(missing > 1000, "{missing}: the queue holds less than what was said without a card");
    assert!(!console.contains(" faulted: "), "{console}");
}

/// A disk that takes next to nothing for a while: the queue fills, the console goes on, and the log
/// says how many lines are missing.
#[test]
fn a_slow_disk_costs_lines_and_nobody_s_time() {
    let bench = Bench::new("log-slow", FAT, "config = { delay = \"20ms\" }", ENDLESS_CHATTER);
    let port = free_port();
    let [qmp, address] = Qmp::options(port);
    let mut machine = bench.start(&[&qmp, &address]);
    wait_for(&bench.image(), &mut machine, "line 99 of", 1);
    let mut monitor = Qmp::connect(port);
    let disks = monitor.execute("query-block", &json!({}));
    let is_ours = |disk: &&Value| disk["inserted"]["file"].as_str().is_some_and(|file| file.contains("log-slow"));
    let disk = disks.as_array().and_then(|disks| disks.iter().find(is_ours)).expect("the machine has the disk");
    let by = if disk["device"] == "" { ("id", &disk["qdev"]) } else { ("device", &disk["device"]) };
    let mut limit = |operations: u32| {
        let mut limits = json!({ "bps": 0, "bps_rd": 0, "bps_wr": 0, "iops": operations, "iops_rd": 0, "iops_wr": 0 });
        limits[by.0] = by.1.clone();
        monitor.execute("block_set_io_throttle", &limits);
    };
    limit(1);
    // Far more than the queue has room for.
    let said = logged(&machine.console(), "chatter").len();
    machine.expect(&format!("chatter: life 0: line {} of", said + 4000));
    limit(0);
    wait_for(&bench.image(), &mut machine, "lines are missing here: nobody took the log", 1);
    // What was said while the queue was full is lost; the keeper keeps up with what comes later.
    let until = Instant::now() + PATIENCE;
    loop {
        let line = latest(&mut machine);
        std::thread::sleep(Duration::from_millis(500));
        if kept(&bench.image()).contains(&line) {
            break;
        }
        assert!(Instant::now() < until, "no line is kept any more; the console:\n{}", machine.tail());
    }
    let console = cut(machine);
    let kept = kept(&bench.image());
    let missing = missing(&kept, &console);
    assert!(missing > 1000, "{missing}");
}

/// Asks for the system's state until it has a crash report of whoever has faulted for the
/// `number`th time.
fn wait_for_report(machine: &mut Machine, number: usize) -> Value {
    let until = Instant::now() + PATIENCE;
    loop {
        let answer = curl(&machine.url("/_status.json"), &[]);
        let status: Value = serde_json::from_slice(&answer.body).expect("the status is JSON");
        let newest = status["crashes"][0]["text"].as_str().unwrap_or_default();
        if newest.contains(&format!("; {} restarts before", number - 1)) {
            return status["crashes"].clone();
        }
        assert!(Instant::now() < until, "there is no report; the console:\n{}", machine.tail());
        std::thread::sleep(Duration::from_millis(200));
    }
}

#[test]
fn crashes_are_in_files_and_on_the_status_page_also_after_a_power_cut() {
    let tables = "[device.nic0]\npriority = 240\n\
                  [pd.http]\ncomponent = \"http\"\npriority = 100\nobserve = true\nnet = \"nic0\"\n\
                  crashes = { device = \"files\", folder = \"/crashes\", shared = true }\n\
                  [pd.chatter]\ncomponent = \"chatter\"\npriority = 30\n\
                  restart = { limit = 4, window = \"3600s\", backoff = \"10ms\" }\n\
                  config = { lines = 20, faults = true }\n";
    let options = "crashes = { device = \"files\", folder = \"/crashes\", write = true, shared = true }\nconfig = { crashes = 3 }";
    let bench = Bench::new("log-crashes", FAT, options, tables);
    let mut machine = bench.start_with_ports(&[], &[80]);
    machine.wait_for_web();
    let shown = wait_for_report(&mut machine, 5);
    machine.expect_anywhere("supervisor: chatter stays stopped: it faults too often");
    let page = curl(&machine.url("/_status"), &[]).text();
    assert!(page.contains("chatter faulted: panic: its log says why") && page.contains("<p>crash-2.txt</p>"), "{page}");
    cut(machine);
    let report = |number: &str| file(&bench.image(), &format!("/crashes/crash{number}.txt"));
    let newest = report("").expect("the newest is there");
    for part in [
        "supervisor: chatter faulted: panic: its log says why, where it has one (pc 0x",
        "\nThe log before and after:\n",
        "chatter: life 4: line 19 of 20",
        "life 4 has said all that it had to say",
        "supervisor: registers chatter: lr 0x",
        "supervisor: backtrace chatter: 0x",
        "supervisor: chatter stays stopped: it faults too often",
    ] {
        assert!(newest.contains(part), "no {part:?} in:\n{newest}");
    }
    let is_dated = |line: &str| line.starts_with("20") && line.contains("Z [");
    assert!(newest.lines().next().is_some_and(is_dated), "{newest}");
    assert!(newest.len() <= 4096);
    for (number, before) in [("-1", 3), ("-2", 2)] {
        let earlier = report(number).expect("earlier ones are there");
        assert!(earlier.contains(&format!("; {before} restarts before")), "{earlier}");
    }
    assert_eq!(report("-3"), None, "three are kept");
    assert_eq!(shown.as_array().map(Vec::len), Some(3));
    // A system in which nothing faults shows what another one has left there.
    let calm = Bench::new("log-crashes", FAT, options, &tables.replace("faults = true", "faults = false"));
    let mut machine = calm.boot().start(&[80]);
    machine.wait_for_web();
    assert_eq!(wait_for_report(&mut machine, 5), shown);
}
