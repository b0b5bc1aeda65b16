//! Crash reports for the status page: the newest files of the series `crash.txt`, `crash-1.txt`, …
//! in a folder, which the log's keeper writes.
//!
//! They are read when the component starts and then every few seconds; whoever looks at the page
//! sees what was found last, and waits for nothing.

use alloc::format;
use alloc::string::String;
use alloc::vec;
use alloc::vec::Vec;
use culm::Progress;
use culm::connection::FileClient;
use culm::time::{Duration, Instant};
use culm_file::{Client, Completion, Done, Error, File, Mode, NotSent};

/// Reports that are shown: all that a domain leaves which stays stopped by the usual limit of
/// restarts, and some before.
pub const SHOWN: usize = 12;

/// Names that are tried for reports: there may be none of some numbers. While the keeper moves
/// reports up, and after a power cut then, one is free; who removes reports by hand leaves more.
const NAMES: usize = 2 * SHOWN;

/// Bytes of a report that are shown.
const TEXT: usize = 4096;

/// Bytes of the longest name.
const NAME: usize = "crash-99.txt".len();

/// How often the reports are read.
const PERIOD: Duration = Duration::from_secs(5);

/// A crash report.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Crash {
    /// The file's name.
    pub name: String,
    /// When it was written, in seconds since 1970 by the clock of who wrote it; 0 if that is not
    /// known.
    pub modified: u64,
    /// Its first bytes. It has no control characters but ends of lines.
    pub text: String,
}

impl Crash {
    /// The report of which a rendering is the longest.
    pub fn longest() -> Self {
        Self { name: "\"".repeat(NAME), modified: u64::MAX, text: "\"".repeat(TEXT) }
    }
}

/// The request that is under way, or comes next.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Step {
    Rest,
    Open,
    Read,
}

/// The reports that there are.
#[derive(Debug)]
pub struct Crashes {
    client: Client<()>,
    step: Step,
    is_asked: bool,
    file: Option<File>,
    /// The number in the name of the next report's file; 0 for the newest, which has none.
    number: usize,
    /// The reports that were read since the first one was opened, the newest first.
    found: Vec<Crash>,
    shown: Vec<Crash>,
    /// When the reports are read again.
    due: Instant,
    /// The client's count of changes of the volume.
    changes: u32,
}

impl Crashes {
    /// The reports in the folder of this connection.
    pub fn connect(connection: &FileClient) -> Self {
        Self {
            client: Client::connect(connection),
            step: Step::Open,
            is_asked: false,
            file: None,
            number: 0,
            found: Vec::new(),
            shown: Vec::new(),
            due: Instant::default(),
            changes: 0,
        }
    }

    /// Returns the reports that were found, the newest first.
    pub fn shown(&self) -> &[Crash] {
        &self.shown
    }

    /// Returns when there is something to do that nobody notifies of.
    pub fn wake(&self) -> Instant {
        self.due
    }

    /// Takes what was answered and asks for what comes next. Returns whether [`Self::shown`] is
    /// new.
    pub fn begin_round(&mut self, now: Instant) -> bool {
        self.client.begin();
        let mut is_new = false;
        while let Some(Completion { result, .. }) = self.client.next_completion() {
            self.is_asked = false;
            is_new |= self.complete(result);
        }
        let changes = self.client.changes();
        if changes != self.changes || self.due <= now {
            (self.changes, self.due) = (changes, now + PERIOD);
            // A look that is not done yet goes on.
            if self.step == Step::Rest {
                self.step = Step::Open;
            }
        }
        let is_there = self.client.volume().is_some_and(|volume| volume.is_present());
        if is_there && !self.is_asked && self.step != Step::Rest && self.client.under_way() == 0 {
            match self.ask() {
                Ok(()) => self.is_asked = true,
                Err(NotSent::Refused(_)) => self.give_up(),
                // The provider brings the next turn.
                Err(NotSent::Full | NotSent::Unknown) => {}
            }
        }
        is_new
    }

    /// Ends a round.
    pub fn end_round(&mut self) -> Progress {
        self.client.end_round()
    }

    /// Returns the name of the next report's file.
    fn name(&self) -> String {
        match self.number {
            0 => "crash.txt".into(),
            number => format!("crash-{number}.txt"),
        }
    }

    fn ask(&mut self) -> Result<(), NotSent> {
        match (self.step, self.file) {
            (Step::Read, Some(file)) => self.client.read(file, 0, 0, TEXT as u32, ()),
            _ => {
                self.step = Step::Open;
                self.file = Some(self.client.open(&format!("/{}", self.name()), Mode::Read, ())?);
                Ok(())
            }
        }
    }

    /// Takes an answer. Returns whether all reports were read.
    fn complete(&mut self, result: Result<Done, Error>) -> bool {
        match (self.step, result) {
            (Step::Open, Ok(done)) => {
                let modified = done.info.map_or(0, |info| info.modified);
                self.found.push(Crash { name: self.name(), modified, text: String::new() });
                self.step = Step::Read;
                false
            }
            (Step::Read, Ok(done)) => {
                let mut bytes = vec![0; (done.count as usize).min(TEXT)];
                let is_read = self.client.memory().read(0, &mut bytes).is_ok();
                if let Some(crash) = self.found.last_mut().filter(|_| is_read) {
                    crash.text = text(&bytes);
                }
                self.close();
                self.step = Step::Open;
                self.go_on()
            }
            (Step::Open, Err(Error::NotFound)) => {
                self.file = None;
                self.go_on()
            }
            (Step::Open, Err(_)) => {
                self.file = None;
                self.give_up();
                false
            }
            // If a report comes, the files move up while they are read; the next look finds them
            // at rest.
            (Step::Read | Step::Rest, _) => {
                self.give_up();
                false
            }
        }
    }

    /// Goes on to the next name. Returns whether all reports were read.
    fn go_on(&mut self) -> bool {
        self.number += 1;
        let is_done = self.found.len() == SHOWN || self.number == NAMES;
        if is_done {
            self.finish();
        }
        is_done
    }

    fn finish(&mut self) {
        (self.step, self.number) = (Step::Rest, 0);
        self.shown = core::mem::take(&mut self.found);
    }

    /// Leaves it at what was found before, until it is time to look again.
    fn give_up(&mut self) {
        self.close();
        self.found.clear();
        (self.step, self.number) = (Step::Rest, 0);
    }

    fn close(&mut self) {
        if let Some(file) = self.file.take() {
            self.client.close(file);
        }
    }
}

/// Returns text without control characters but ends of lines, whatever the bytes are.
fn text(bytes: &[u8]) -> String {
    let keep = |letter: char| if letter == '\n' || !letter.is_control() { letter } else { ' ' };
    let mut text: String = String::from_utf8_lossy(bytes).chars().map(keep).collect();
    // Replacing bytes that are no text has made it longer: cut it again.
    text.truncate(text.floor_char_boundary(TEXT));
    text
}

#[cfg(test)]
mod tests {
    use super::*;
    use culm_file::Volume;
    use culm_file::testing::{RamFiles, connection};

    fn world() -> (Crashes, RamFiles) {
        let connection = connection(16, 32 * 1024, 1);
        (Crashes::connect(&connection), RamFiles::new(&connection, Volume::new(1, false)))
    }

    /// Lets both take turns. Returns whether there were new reports to show.
    fn settle(crashes: &mut Crashes, files: &mut RamFiles, now: Instant) -> bool {
        let mut is_new = false;
        for _ in 0..100 {
            is_new |= crashes.begin_round(now);
            let _ = crashes.end_round();
            let _ = files.round();
        }
        is_new
    }

    fn names(crashes: &Crashes) -> Vec<&str> {
        crashes.shown().iter().map(|crash| crash.name.as_str()).collect()
    }

    #[test]
    fn the_newest_reports_are_found_and_looked_for_again() {
        let (mut crashes, mut files) = world();
        let now = Instant::default() + PERIOD;
        assert!(settle(&mut crashes, &mut files, now));
        assert!(crashes.shown().is_empty());
        files.put("/crash.txt", b"http faulted: \x1b[2J\xff\nlines\n");
        for number in 1..20 {
            files.put(&format!("/crash-{number}.txt"), b"earlier");
        }
        assert!(!settle(&mut crashes, &mut files, now));
        let due = crashes.wake();
        assert!(settle(&mut crashes, &mut files, due));
        assert_eq!(names(&crashes).len(), SHOWN);
        assert_eq!(names(&crashes)[..2], ["crash.txt", "crash-1.txt"]);
        let first = &crashes.shown()[0];
        assert_eq!((first.text.as_str(), first.modified), ("http faulted:  [2J\u{fffd}\nlines\n", files.time));
    }

    #[test]
    fn numbers_of_which_there_is_no_report_are_passed_over() {
        let (mut crashes, mut files) = world();
        for number in [1, 2, 5, 23, 24] {
            files.put(&format!("/crash-{number}.txt"), b"earlier");
        }
        assert!(settle(&mut crashes, &mut files, Instant::default()));
        assert_eq!(names(&crashes), ["crash-1.txt", "crash-2.txt", "crash-5.txt", "crash-23.txt"]);
        files.nodes.remove("/crash-2.txt");
        files.put("/crash.txt", b"new");
        let due = crashes.wake();
        assert!(settle(&mut crashes, &mut files, due));
        assert_eq!(names(&crashes), ["crash.txt", "crash-1.txt", "crash-5.txt", "crash-23.txt"]);
    }

    #[test]
    fn what_was_found_stays_while_nothing_can_be_read() {
        let (mut crashes, mut files) = world();
        files.put("/crash.txt", &[b'"'; 2 * TEXT]);
        settle(&mut crashes, &mut files, Instant::default());
        assert_eq!(crashes.shown()[0].text.len(), TEXT);
        files.failing = Some(Error::Failed);
        let due = crashes.wake();
        assert!(!settle(&mut crashes, &mut files, due));
        files.failing = None;
        files.nodes.clear();
        files.insert(Volume::new(2, false));
        assert_eq!(names(&crashes), ["crash.txt"]);
        assert!(settle(&mut crashes, &mut files, due));
        assert!(crashes.shown().is_empty());
    }
}
