//! The keeper with files in memory, which is killed, cut off and filled up.

use crate::crashes::Crashes;
use crate::keeper::{Keeper, Limits};
use culm::connection::{FileClient, Ring};
use culm::time::{Duration, Instant};
use culm::{Region, testing};
use culm_file::testing::{RamFiles, connection};
use culm_file::{Client, Error, Volume};
use culm_queue::{Consumer, Producer, Shared};
use proptest::prelude::*;

const DELAY: Duration = Duration::from_secs(1);
const QUEUE: usize = 4096;
/// Bytes of a queue before its entries.
const HEAD: usize = 256;
const VOLUME: Volume = Volume::new(1, false);

/// A keeper, whoever it has the lines from, and its files.
struct Bench {
    keeper: Keeper,
    files: Option<RamFiles>,
    lines: Producer<u8>,
    shared: Shared<u8>,
    /// The memory of the lines' queue.
    queue: Region,
    connection: FileClient,
    limits: Limits,
    now: Instant,
    /// The lines that were given to the keeper.
    told: String,
    count: u32,
}

fn bench(size: u64, count: u32) -> Bench {
    let connection = connection(16, 16 * 1024, 1);
    let files = RamFiles::new(&connection, VOLUME);
    let memory = testing::memory(culm_queue::layout(QUEUE as u32, 1).expect("a power of two"), 0);
    let shared = culm::queue::shared(Ring { address: memory.address, capacity: QUEUE as u32, reserved: 0 });
    let queue = Region::new(memory);
    let limits = Limits { size, count, delay: DELAY };
    let keeper = Keeper::new(Client::connect(&connection), Consumer::attach(shared), None, limits, true);
    let (files, lines, now) = (Some(files), Producer::attach(shared), Instant::default());
    Bench { keeper, files, lines, shared, queue, connection, limits, now, told: String::new(), count: 0 }
}

impl Bench {
    fn files(&mut self) -> &mut RamFiles {
        self.files.as_mut().expect("they are only away for their restart")
    }

    /// Gives the keeper a line, unless the queue has no space, as the virtualiser does.
    fn tell(&mut self) -> bool {
        let line = format!("line {} {}\n", self.count, "x".repeat(self.count as usize * 7 % 50));
        if (self.lines.refresh() as usize) < line.len() {
            return false;
        }
        self.lines.push_slice(line.as_bytes());
        let _ = self.lines.publish();
        self.told += &line;
        self.count += 1;
        true
    }

    fn keep(&mut self) {
        let _ = self.keeper.round(self.now);
    }

    /// Lets both take turns until nothing happens, and time pass for what waits.
    fn settle(&mut self) {
        for _ in 0..600 {
            self.keep();
            let _ = self.files().round();
            if let Some(time) = self.keeper.wake() {
                self.now = self.now.max(time);
            }
        }
    }

    /// The keeper's next life.
    fn restart(&mut self) {
        let (client, lines) = (Client::connect(&self.connection), Consumer::attach(self.shared));
        self.keeper = Keeper::new(client, lines, None, self.limits, false);
    }

    /// The provider's next life.
    fn restart_files(&mut self) {
        self.files = self.files.take().map(RamFiles::restarted);
    }

    /// The files' content, the oldest first, without the marks of starts.
    fn kept(&mut self) -> String {
        let mut kept = String::new();
        for number in (0..100).rev() {
            let path = if number == 0 { "/log.txt".to_string() } else { format!("/log-{number}.txt") };
            if let Some(content) = self.files().get(&path) {
                kept += core::str::from_utf8(content).expect("lines are text");
            }
        }
        kept.lines().filter(|line| !line.starts_with("--- ")).map(|line| format!("{line}\n")).collect()
    }
}

#[test]
fn lines_are_kept_after_the_delay_behind_a_mark_of_the_start() {
    let mut bench = bench(1 << 20, 3);
    bench.tell();
    bench.tell();
    for _ in 0..20 {
        bench.keep();
        let _ = bench.files().round();
    }
    assert_eq!(bench.kept(), "");
    assert_eq!(bench.keeper.wake(), Some(bench.now + DELAY));
    bench.settle();
    assert_eq!(bench.kept(), bench.told);
    assert!(bench.files().get("/log.txt").expect("it is there").starts_with(b"--- the system has started ---\nline 0"));
    assert_eq!(bench.keeper.wake(), None);
}

#[test]
fn a_queue_that_is_half_full_does_not_wait() {
    let mut bench = bench(1 << 20, 3);
    while bench.told.len() < QUEUE / 2 {
        bench.tell();
    }
    for _ in 0..30 {
        bench.keep();
        let _ = bench.files().round();
    }
    assert_eq!(bench.kept(), bench.told);
}

#[test]
fn full_files_move_up_and_the_oldest_makes_way() {
    let mut bench = bench(5000, 2);
    for _ in 0..400 {
        bench.tell();
        if bench.count.is_multiple_of(20) {
            bench.settle();
        }
    }
    bench.settle();
    let kept = bench.kept();
    assert!(bench.told.ends_with(&kept), "{kept}");
    assert!(kept.len() > 9000 && kept.len() <= 15000);
    let files: Vec<_> = bench.files().nodes.keys().cloned().collect();
    assert_eq!(files, ["/log-1.txt", "/log-2.txt", "/log.txt"]);
    for path in files {
        assert!(bench.files().get(&path).expect("it is there").len() <= 5000);
    }
}

#[test]
fn files_beyond_a_smaller_count_are_removed() {
    let mut bench = bench(5000, 2);
    for number in [3, 4, 7, 99] {
        bench.files().put(&format!("/log-{number}.txt"), b"line 0 of a time with a greater count\n");
    }
    while bench.told.len() < 6000 {
        bench.tell();
        bench.settle();
    }
    let files: Vec<_> = bench.files().nodes.keys().cloned().collect();
    assert_eq!(files, ["/log-1.txt", "/log.txt"]);
}

#[test]
fn a_full_disk_costs_the_oldest_file() {
    let mut bench = bench(5000, 9);
    bench.files().space = 12_000;
    for _ in 0..600 {
        while !bench.tell() {
            bench.settle();
        }
    }
    bench.settle();
    let kept = bench.kept();
    assert!(bench.told.ends_with(&kept) && kept.len() > 4000, "{} bytes are kept", kept.len());
}

#[test]
fn a_disk_that_others_have_filled_is_tried_again() {
    let mut bench = bench(5000, 2);
    bench.files().put("/other", &[0; 1000]);
    bench.files().space = 1000;
    bench.tell();
    bench.settle();
    assert_eq!(bench.kept(), "");
    let log = testing::take_log();
    assert_eq!(log.matches("the log cannot be written: there is no space left").count(), 1, "{log}");
    bench.files().space = 100_000;
    bench.settle();
    assert_eq!(bench.kept(), bench.told);
    assert!(testing::take_log().contains("the log is written again"));
}

#[test]
fn another_volume_is_written_to() {
    let mut bench = bench(1 << 20, 3);
    bench.tell();
    bench.settle();
    bench.files().insert(Volume::ABSENT);
    bench.tell();
    bench.settle();
    assert_eq!(bench.keeper.wake(), None, "nothing is tried without a medium");
    bench.files().nodes.clear();
    bench.files().insert(Volume::new(2, false));
    bench.settle();
    let all = bench.told.clone();
    assert!(all.ends_with(&bench.kept()) && bench.kept().contains("line 1 "), "{}", bench.kept());
}

/// The card is pulled when it has the lines and nobody was told so, and put back.
#[test]
fn a_line_that_the_medium_has_already_is_not_written_again() {
    for requests in 0..8 {
        let mut bench = bench(1 << 20, 3);
        bench.tell();
        bench.settle();
        bench.tell();
        bench.keep();
        bench.now += DELAY;
        for _ in 0..requests {
            bench.keep();
            let _ = bench.files().round();
        }
        bench.keep();
        bench.files().take();
        bench.files().pull(1);
        bench.settle();
        bench.files().insert(Volume::new(2, false));
        bench.settle();
        assert_eq!(bench.kept(), bench.told, "after {requests} requests");
    }
}

/// A bench whose keeper keeps up to three crash reports too, and the files that they are in.
fn bench_with_crashes() -> (Bench, RamFiles) {
    let connection = connection(16, 32 * 1024, 2);
    let files = RamFiles::new(&connection, VOLUME);
    (bench(1 << 20, 3).with_crashes(&connection), files)
}

impl Bench {
    /// Has the keeper keep crash reports, of which it knows nothing yet.
    fn with_crashes(self, connection: &FileClient) -> Self {
        let crashes = Crashes::new(Client::connect(connection), 3);
        Self { keeper: self.keeper.with_crashes(Some(crashes)), ..self }
    }

    /// Lets the log tell of a fault.
    fn tell_of_crash(&mut self, who: &str) {
        let sign = "[    1.706749] error supervisor: ";
        let lines = format!("{sign}{who} faulted: panic\n{sign}backtrace {who}: 0x2\n{sign}{who} stays stopped\n");
        self.lines.push_slice(lines.as_bytes());
        let _ = self.lines.publish();
        self.told += &lines;
    }

    /// Lets the log tell of a fault, and all take turns until nothing happens.
    fn crash(&mut self, who: &str, crashes: &mut RamFiles) {
        self.tell_of_crash(who);
        for _ in 0..600 {
            self.keep();
            let _ = self.files().round();
            let _ = crashes.round();
            if let Some(time) = self.keeper.wake() {
                self.now = self.now.max(time);
            }
        }
    }
}

#[test]
fn crashes_are_kept_in_files_and_the_oldest_makes_way() {
    let (mut bench, mut crashes) = bench_with_crashes();
    bench.tell();
    for who in ["one", "two", "three", "four", "five"] {
        bench.crash(who, &mut crashes);
    }
    let names: Vec<_> = crashes.nodes.keys().cloned().collect();
    assert_eq!(names, ["/crash-1.txt", "/crash-2.txt", "/crash.txt"]);
    for (path, who) in [("/crash.txt", "five"), ("/crash-1.txt", "four"), ("/crash-2.txt", "three")] {
        let report = String::from_utf8_lossy(crashes.get(path).expect("it is there"));
        assert!(report.starts_with(&format!("[    1.706749] error supervisor: {who} faulted: panic\n")), "{report}");
        assert!(report.contains("\nline 0 ") && report.ends_with(&format!("{who} stays stopped\n")), "{report}");
    }
    assert_eq!(bench.kept(), bench.told);
}

#[test]
fn a_report_that_cannot_be_kept_holds_up_nothing() {
    let (mut bench, mut crashes) = bench_with_crashes();
    crashes.failing = Some(Error::Failed);
    for who in ["one", "two"] {
        let begun = bench.now;
        bench.crash(who, &mut crashes);
        // Pauses of 1, 2, 4 and 8 s, and what the log waits for.
        assert!(bench.now - begun <= Duration::from_secs(15) + DELAY, "there is a pause with nothing behind it");
    }
    assert_eq!(bench.kept(), bench.told);
    let log = testing::take_log();
    assert_eq!(log.matches("a crash report cannot be kept: ").count(), 2, "{log}");
    crashes.failing = None;
    bench.crash("three", &mut crashes);
    assert_eq!(crashes.nodes.keys().cloned().collect::<Vec<_>>(), ["/crash.txt"]);
}

/// A volume that is only read refuses a report before anything is sent, so that no answer brings
/// the keeper another turn.
#[test]
fn a_report_that_is_refused_at_once_holds_up_no_further_one() {
    let (mut bench, mut crashes) = bench_with_crashes();
    crashes.insert(Volume::new(2, true));
    bench.tell_of_crash("one");
    bench.tell_of_crash("two");
    let mut log = String::new();
    while log.matches("a crash report cannot be kept: ").count() < 2 {
        // Whatever was notified of has had its turns; only time brings another.
        for _ in 0..20 {
            bench.keep();
            let _ = bench.files().round();
            let _ = crashes.round();
            let given_up = testing::take_log();
            log += &given_up;
            if !given_up.is_empty() {
                break;
            }
        }
        let is_done = log.matches("a crash report cannot be kept: ").count() == 2;
        assert!(is_done || bench.keeper.wake().is_some(), "a report waits for nothing; the log:\n{log}");
        bench.now = bench.keeper.wake().unwrap_or(bench.now);
    }
    assert_eq!(bench.keeper.wake(), None);
}

#[test]
fn one_crash_report_can_be_kept() {
    let connection = connection(16, 32 * 1024, 2);
    let mut crashes = RamFiles::new(&connection, VOLUME);
    let keeper = Crashes::new(Client::connect(&connection), 1);
    let mut bench = bench(1 << 20, 3);
    bench.keeper = bench.keeper.with_crashes(Some(keeper));
    bench.tell();
    crashes.put("/crash-1.txt", b"of a configuration that kept more");
    for who in ["one", "two", "three"] {
        bench.crash(who, &mut crashes);
        assert_eq!(reports(&crashes), [("/crash.txt", who)]);
    }
}

/// A domain that faults as often as it is restarted by default leaves the report of its first
/// fault, which says best why.
#[test]
fn the_first_report_of_a_domain_that_stays_stopped_is_kept() {
    let manifest = include_str!("../component.toml");
    let (_, field) = manifest.split_once("name = \"crashes\"\ntype = ").expect("it is configured");
    let (_, default) = field.split_once("default = ").expect("it has a default");
    let kept = default.lines().next().and_then(|number| number.parse().ok()).expect("a number");
    let connection = connection(16, 32 * 1024, 2);
    let mut crashes = RamFiles::new(&connection, VOLUME);
    let keeper = Crashes::new(Client::connect(&connection), kept);
    let mut bench = bench(1 << 20, 3);
    bench.keeper = bench.keeper.with_crashes(Some(keeper));
    bench.tell();
    // Without `restart` in the system file, the eighth restart is the last.
    let lives: Vec<String> = (1..=9).map(|life| format!("life{life}")).collect();
    for life in &lives {
        bench.crash(life, &mut crashes);
    }
    assert!(reports(&crashes).contains(&("/crash-8.txt", "life1")), "{:?}", reports(&crashes));
}

/// Returns the names of the crash reports, and of whom each tells.
fn reports(crashes: &RamFiles) -> Vec<(&str, &str)> {
    let teller = |path: &String| {
        let report = core::str::from_utf8(crashes.get(path)?).expect("lines are text");
        report.strip_prefix("[    1.706749] error supervisor: ")?.split(' ').next()
    };
    crashes.nodes.keys().map(|path| (path.as_str(), teller(path).unwrap_or_default())).collect()
}

#[test]
fn a_report_for_which_there_is_no_space_costs_no_earlier_one() {
    let (mut bench, mut crashes) = bench_with_crashes();
    for who in ["one", "two", "three"] {
        bench.crash(who, &mut crashes);
    }
    crashes.space = 0;
    bench.crash("four", &mut crashes);
    assert_eq!(reports(&crashes), [("/crash-1.txt", "two"), ("/crash-2.txt", "one"), ("/crash.txt", "three")]);
    crashes.space = usize::MAX;
    bench.crash("five", &mut crashes);
    assert_eq!(reports(&crashes), [("/crash-1.txt", "three"), ("/crash-2.txt", "two"), ("/crash.txt", "five")]);
}

/// Whenever the file service dies, or the keeper with it: a new report costs one earlier one.
#[test]
fn a_death_on_the_way_to_a_report_costs_no_second_one() {
    for (rounds, keeper_dies) in (0..40).flat_map(|rounds| [(rounds, false), (rounds, true)]) {
        let connection = connection(16, 32 * 1024, 2);
        let mut crashes = RamFiles::new(&connection, VOLUME);
        let mut bench = bench(1 << 20, 3).with_crashes(&connection);
        for who in ["one", "two", "three"] {
            bench.crash(who, &mut crashes);
        }
        bench.tell_of_crash("four");
        for _ in 0..rounds {
            bench.keep();
            let _ = bench.files().round();
            let _ = crashes.round();
            bench.now += DELAY;
        }
        if keeper_dies {
            bench.restart();
            bench = bench.with_crashes(&connection);
        } else {
            crashes = crashes.restarted();
        }
        bench.crash("five", &mut crashes);
        let reports = reports(&crashes);
        assert_eq!(reports.len(), 3, "{rounds} rounds, then a death: {reports:?}");
        let [(_, second), (_, third), (_, newest)] = reports[..] else { unreachable!() };
        assert_eq!(newest, "five");
        assert!([("four", "three"), ("three", "two")].contains(&(second, third)), "{reports:?}");
    }
}

#[test]
fn a_report_waits_for_its_folder_s_medium() {
    let (mut bench, mut crashes) = bench_with_crashes();
    crashes.insert(Volume::ABSENT);
    bench.crash("one", &mut crashes);
    assert!(crashes.nodes.is_empty());
    crashes.insert(Volume::new(2, false));
    bench.crash("two", &mut crashes);
    assert_eq!(crashes.nodes.keys().cloned().collect::<Vec<_>>(), ["/crash-1.txt", "/crash.txt"]);
}

/// An event.
#[derive(Clone, Copy, Debug)]
enum Event {
    Tell,
    Keep,
    Take,
    Finish,
    Publish,
    Wait,
    Kill,
    KillFiles,
    Fail(Option<Error>),
    /// The medium is taken out, with so many requests carried out whose answers are lost; or put
    /// back: the same one, of which nobody can know that.
    Pull(usize),
    PutBack,
}

fn event() -> impl Strategy<Value = Event> {
    let failures = [None, None, Some(Error::Failed), Some(Error::Full), Some(Error::Busy)];
    prop_oneof![
        12 => Just(Event::Tell),
        12 => Just(Event::Keep),
        8 => Just(Event::Take),
        8 => Just(Event::Finish),
        8 => Just(Event::Publish),
        4 => Just(Event::Wait),
        1 => Just(Event::Kill),
        1 => Just(Event::KillFiles),
        1 => proptest::sample::select(failures.to_vec()).prop_map(Event::Fail),
        2 => (0..2_usize).prop_map(Event::Pull),
        2 => Just(Event::PutBack),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, cases: 100, ..ProptestConfig::default() })]

    /// Whatever dies when: the files have the first lines, none of them missing or doubled, at any
    /// moment, as a power cut would leave them; and all lines in the end.
    #[test]
    fn no_line_is_lost_or_doubled(events in proptest::collection::vec(event(), 1..600)) {
        let mut bench = bench(700, 99);
        let mut medium = 1;
        for event in events {
            match event {
                Event::Tell => drop(bench.tell()),
                Event::Keep => bench.keep(),
                Event::Take => bench.files().take(),
                Event::Finish if bench.files().taken.is_empty() => {}
                Event::Finish => bench.files().finish(0),
                Event::Publish => drop(bench.files().end_round()),
                Event::Wait => bench.now += DELAY,
                Event::Kill => bench.restart(),
                Event::KillFiles => bench.restart_files(),
                Event::Fail(error) => bench.files().failing = error,
                Event::Pull(carried_out) => bench.files().pull(carried_out),
                Event::PutBack => {
                    medium += 1;
                    bench.files().insert(Volume::new(medium, false));
                }
            }
            let kept = bench.kept();
            prop_assert!(bench.told.starts_with(&kept), "told:\n{}\nkept:\n{kept}", bench.told);
        }
        bench.files().failing = None;
        bench.files().insert(Volume::new(medium + 1, false));
        bench.settle();
        prop_assert_eq!(bench.kept(), bench.told);
    }

    /// Whatever the provider or the disk writes to the keeper's memory, and a hostile virtualiser
    /// to the queue: nothing panics.
    #[test]
    fn nothing_in_shared_memory_is_a_panic(
        words in proptest::collection::vec((0..64usize, any::<u64>()), 1..20),
        bytes in proptest::collection::vec(any::<u8>(), 0..3000),
        head in proptest::collection::vec((0..HEAD / 8, any::<u64>()), 1..5),
    ) {
        let mut bench = bench(700, 3);
        bench.tell();
        bench.settle();
        let memory = Region::new(bench.connection.memory);
        for (index, word) in words {
            memory.store(8 * 1024 + index * 8, &word).expect("within");
        }
        bench.restart();
        bench.lines.push_slice(&bytes);
        let _ = bench.lines.publish();
        bench.settle();
        for (index, word) in head {
            bench.queue.store(index * 8, &word).expect("within");
            bench.settle();
        }
    }
}
