//! The work, step by step.

use alloc::format;
use alloc::string::String;
use culm::Progress;
use culm::connection::FileClient;
use culm_file::{BLOCK, Client, Completion, Done, Error, File, Mode, NotSent};

/// Bytes of the file, which end within a block.
const SIZE: u64 = 300_001;

/// Bytes of one request, whole blocks.
const PIECE: u32 = 32 * 1024;

/// Requests that are under way at a time, each with memory of its own.
const DEPTH: u32 = 3;

/// Lines that are appended in each round.
const LINES: u32 = 20;

/// The step that is under way.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Step {
    Folder,
    Create,
    Write,
    Commit,
    Open,
    Read,
    OpenLog,
    Log,
    CommitLog,
    Remove,
    Rename,
    OpenFolder,
    List,
    Done,
}

/// A request that is under way: the step that it is for, and its position.
type Tag = (Step, u64);

/// The work. One value of it is the component's state.
#[derive(Debug)]
pub struct Work {
    client: Client<Tag>,
    seed: u64,
    /// The seed behind the last one.
    end: u64,
    step: Step,
    file: Option<File>,
    /// Requests of this step that are under way.
    under_way: u32,
    /// The places of the memory that those that move data have, a bit for each. Reads pass each
    /// other, so a place is free again when its own request is complete, and no sooner.
    used: u32,
    /// The next position of the step.
    next: u64,
    lines: u32,
    found: u32,
}

/// Returns a byte of the file.
fn byte(seed: u64, position: u64) -> u8 {
    ((position / 8 + seed).wrapping_mul(0x9e37_79b9_7f4a_7c15) >> (position % 8 * 8)) as u8
}

/// Returns which of the places is that of the piece from this position on.
fn number(position: u64) -> u32 {
    (position / u64::from(PIECE)) as u32 % DEPTH
}

impl Work {
    /// Begins with the first seed.
    pub fn new(connection: &FileClient, seed: u64, rounds: u32) -> Self {
        Self {
            client: Client::connect(connection),
            seed,
            end: seed + u64::from(rounds),
            step: Step::Folder,
            file: None,
            under_way: 0,
            used: 0,
            next: 0,
            lines: 0,
            found: 0,
        }
    }

    /// Takes a round: looks at what is complete, and asks for more.
    pub fn round(&mut self) -> Progress {
        self.client.begin();
        while let Some(Completion { tag, result }) = self.client.next_completion() {
            self.under_way -= 1;
            if matches!(tag.0, Step::Write | Step::Read) {
                self.used &= !(1 << number(tag.1));
            }
            match result {
                Ok(done) => self.complete(tag, done),
                Err(error) => self.failed(tag, error),
            }
        }
        while self.client.volume().is_some_and(|volume| volume.is_present()) && self.step != Step::Done {
            match self.go_on() {
                Ok(true) => self.under_way += 1,
                Ok(false) | Err(NotSent::Full) => break,
                Err(NotSent::Refused(Error::Lost)) => self.begin_again(),
                Err(error) => {
                    let step = self.step;
                    self.fail(format_args!("{step:?} cannot be asked for: {error}"));
                    break;
                }
            }
        }
        self.client.end_round()
    }

    /// Begins the round again: what was open is lost.
    fn begin_again(&mut self) {
        culm::info!("begins again");
        if let Some(file) = self.file.take() {
            self.client.close(file);
        }
        self.enter(Step::Folder);
    }

    fn enter(&mut self, step: Step) {
        (self.step, self.next) = (step, 0);
    }

    fn fail(&mut self, why: core::fmt::Arguments<'_>) {
        culm::error!("file-test failed: {why}");
        self.step = Step::Done;
    }

    fn failed(&mut self, (step, _): Tag, error: Error) {
        match (step, error) {
            // An earlier round has left its folder, or has removed the file.
            (Step::Folder, Error::Exists) => self.enter(Step::Create),
            (Step::Remove, Error::NotFound) => self.enter(Step::Rename),
            (_, Error::Lost) if self.step == Step::Folder => {}
            (_, Error::Lost) => self.begin_again(),
            // It was answered when the round was begun again.
            (other, _) if other != self.step => {}
            (step, error) => self.fail(format_args!("{step:?}: {error}")),
        }
    }

    /// Asks for the next thing. Returns whether there was one.
    fn go_on(&mut self) -> Result<bool, NotSent> {
        let (step, is_idle) = (self.step, self.under_way == 0);
        let tag = (step, self.next);
        let number = number(self.next);
        let place = number * PIECE / BLOCK as u32;
        match (step, self.file) {
            (Step::Write | Step::Read, Some(file)) if self.next < SIZE && self.used & 1 << number == 0 => {
                let length = (SIZE - self.next).min(PIECE.into()) as u32;
                let offset = place as usize * BLOCK;
                for at in 0..length {
                    let value = if step == Step::Write { byte(self.seed, self.next + u64::from(at)) } else { 0xee };
                    let _ = self.client.memory().write(offset + at as usize, &[value]);
                }
                if step == Step::Write {
                    self.client.write(file, place, length, tag)?;
                } else {
                    self.client.read(file, self.next, place, length, tag)?;
                }
                self.used |= 1 << number;
                self.next += u64::from(length);
                return Ok(true);
            }
            (Step::Log, Some(file)) if is_idle => {
                let line = format!("line {} of seed {}\n", self.lines, self.seed);
                let offset = self.client.end(file) as usize % BLOCK;
                let _ = self.client.memory().write(offset, line.as_bytes());
                self.client.write(file, 0, line.len() as u32, tag)?;
            }
            (Step::List, Some(folder)) if is_idle => self.client.list(folder, self.next, 0, 1000, tag)?,
            (Step::Commit | Step::CommitLog, Some(file)) if is_idle => self.client.commit(file, tag)?,
            (Step::Create, None) if is_idle => self.open("/folder/file", Mode::New, tag)?,
            (Step::Open, None) if is_idle => self.open("/folder/file", Mode::Read, tag)?,
            (Step::OpenLog, None) if is_idle => self.open("/folder/the log", Mode::Append, tag)?,
            (Step::OpenFolder, None) if is_idle => self.open("/folder", Mode::Read, tag)?,
            (Step::Folder, _) if is_idle => self.client.make_folder("/folder", tag)?,
            (Step::Remove, _) if is_idle => self.client.remove("/folder/renamed", tag)?,
            (Step::Rename, _) if is_idle => self.client.rename("/folder/file", "/folder/renamed", tag)?,
            _ => return Ok(false),
        }
        Ok(true)
    }

    fn open(&mut self, path: &str, mode: Mode, tag: Tag) -> Result<(), NotSent> {
        self.file = Some(self.client.open(path, mode, tag)?);
        Ok(())
    }

    /// Takes the answer to a request, and goes to the next step if the last one is done.
    fn complete(&mut self, (step, position): Tag, done: Done) {
        if step != self.step {
            // It was answered when the round was begun again.
            return;
        }
        let is_last = self.next >= SIZE && self.under_way == 0;
        match step {
            Step::Folder => self.enter(Step::Create),
            Step::Create => self.enter(Step::Write),
            Step::Write if is_last => self.enter(Step::Commit),
            Step::Write => {}
            Step::Commit => self.close(Step::Open),
            Step::Open if done.info.is_none_or(|info| info.size != SIZE) => {
                self.fail(format_args!("the file is {:?}", done.info));
            }
            Step::Open => self.enter(Step::Read),
            Step::Read => {
                if !self.compare(position, done.count) {
                    return self.fail(format_args!("{} bytes from {position} on are wrong", done.count));
                }
                if is_last {
                    self.close(Step::OpenLog);
                }
            }
            Step::OpenLog => {
                self.lines = 0;
                self.enter(Step::Log);
            }
            Step::Log => {
                self.lines += 1;
                if self.lines == LINES {
                    self.enter(Step::CommitLog);
                }
            }
            Step::CommitLog => self.close(Step::Remove),
            Step::Remove => self.enter(Step::Rename),
            Step::Rename => {
                self.found = 0;
                self.enter(Step::OpenFolder);
            }
            Step::OpenFolder => self.enter(Step::List),
            Step::List => self.look(done),
            Step::Done => {}
        }
    }

    fn close(&mut self, next: Step) {
        if let Some(file) = self.file.take() {
            self.client.close(file);
        }
        self.enter(next);
    }

    /// Compares a piece that was read with what was written.
    fn compare(&self, position: u64, count: u32) -> bool {
        let offset = number(position) as usize * PIECE as usize;
        let is_right = |at: u64| {
            let value: Result<u8, _> = self.client.memory().load(offset + at as usize);
            value == Ok(byte(self.seed, position + at))
        };
        u64::from(count) == (SIZE - position).min(PIECE.into()) && (0..u64::from(count)).all(is_right)
    }

    /// Looks at a part of the folder's list, and ends the round with the last one.
    fn look(&mut self, done: Done) {
        let expected: [(&str, u64); 2] = [("renamed", SIZE), ("the log", 0)];
        for item in self.client.listing(0, done.count) {
            let name: String = item.name;
            let is_known = |(other, size): &(&str, u64)| name == *other && (*size == 0 || *size == item.info.size);
            self.found += u32::from(expected.iter().any(is_known));
        }
        if let Some(next) = done.next {
            self.next = next;
            return;
        }
        let found = self.found;
        if found != 2 {
            return self.fail(format_args!("{found} of its files are in the folder"));
        }
        culm::info!("seed {} was read as it was written", self.seed);
        self.seed += 1;
        if self.seed < self.end {
            return self.close(Step::Create);
        }
        self.close(Step::Done);
        culm::info!("file-test passed");
    }
}
