//! The keeper: takes lines from the queue, writes them behind the file's end, makes them durable,
//! and gives their slots back then.
//!
//! It asks the files for one thing at a time ([`Job`]). What fails is tried again after a pause,
//! with the same bytes: they are behind the file's end already if its size says so.

use crate::account::{Account, Entry};
use crate::crashes::Crashes;
use crate::rotation::{Rotation, Series};
use alloc::format;
use alloc::vec;
use alloc::vec::Vec;
use culm::Progress;
use culm::queue::Consumer;
use culm::time::{Duration, Instant};
use culm_clock::Clock;
use culm_file::{BLOCK, Client, Completion, Done as Answer, Error, File, Mode, NotSent};

/// The block of the client's memory at which data begins: behind that of the account.
const PLACE: u32 = 1;

/// The most bytes that are written at once.
const PIECE: usize = 32 * 1024;

/// The pause after a failure; it doubles with each further one.
const PAUSE: Duration = Duration::from_millis(500);

/// The longest pause.
const LONGEST_PAUSE: Duration = Duration::from_secs(60);

/// The limits that the configuration sets.
#[derive(Clone, Copy, Debug)]
pub struct Limits {
    /// Bytes of a file.
    pub size: u64,
    /// Full files.
    pub count: u32,
    /// How long a line may wait.
    pub delay: Duration,
}

/// The work so far.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Done {
    /// Bytes that are durable.
    pub bytes: u64,
    /// How often something was made durable.
    pub commits: u64,
    /// Files that were filled.
    pub rotations: u64,
    /// Requests to the files that failed.
    pub failures: u64,
}

/// The request that is under way, or comes next.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Job {
    /// There is none.
    Rest,
    Open,
    /// It is open to be read, to find out whether its end is the piece ([`Keeper::is_in_doubt`]).
    OpenToRead,
    Read,
    Write,
    Commit,
    Rotate(Rotation),
    /// There is no space: a full file makes way, this one if it is there.
    MakeRoom(u32),
}

/// The pause after a failed request, and what it is for.
#[derive(Debug)]
struct Trouble {
    /// Nothing is asked for before.
    until: Option<Instant>,
    pause: Duration,
    /// Whether it has been told of.
    is_told: bool,
}

impl Trouble {
    const NONE: Self = Self { until: None, pause: PAUSE, is_told: false };
}

/// The keeper.
#[derive(Debug)]
pub struct Keeper {
    client: Client<()>,
    lines: Consumer<u8>,
    /// The queue's position up to which slots were given back.
    released: u32,
    account: Account,
    /// The entry that the earlier life has left.
    inherited: Option<Entry>,
    clock: Option<Clock>,
    limits: Limits,
    series: Series,
    /// The keeper of crash reports, if there is one.
    crashes: Option<Crashes>,
    file: Option<File>,
    job: Job,
    /// Whether the job was asked for.
    is_asked: bool,
    /// Bytes on their way to the file: lines that were taken and not given back, or the mark of
    /// the system's start.
    piece: Vec<u8>,
    /// Bytes of the file before the piece; `None` if that is not known.
    base: Option<u64>,
    /// Whether the file has the piece already.
    is_stored: bool,
    /// Whether the file may have the piece although nobody said so: its medium was taken out
    /// meanwhile, and it may be the same one that is there again.
    is_in_doubt: bool,
    /// Whether the system's start is marked.
    is_marked: bool,
    /// When lines that wait must be written.
    due: Option<Instant>,
    /// When there is something to do that nobody notifies of.
    wake: Option<Instant>,
    trouble: Trouble,
    /// The client's count of changes of the volume.
    changes: u32,
    done: Done,
}

impl Keeper {
    /// Creates the keeper of these lines. If it is not the first life, it goes on with what the
    /// earlier one has left.
    pub fn new(client: Client<()>, lines: Consumer<u8>, clock: Option<Clock>, limits: Limits, is_first: bool) -> Self {
        let account = Account::new(*client.memory());
        if is_first {
            // Memory may hold what the machine left before it was switched on again.
            account.clear();
        }
        let released = lines.position();
        let inherited = account.find(released);
        Self {
            client,
            lines,
            released,
            account,
            inherited,
            clock,
            limits,
            series: Series::new("log", limits.count),
            crashes: None,
            file: None,
            job: Job::Rest,
            is_asked: false,
            piece: Vec::new(),
            base: None,
            is_stored: false,
            is_in_doubt: false,
            is_marked: inherited.is_some(),
            due: None,
            wake: None,
            trouble: Trouble::NONE,
            changes: 0,
            done: Done::default(),
        }
    }

    /// Has crash reports kept too.
    pub fn with_crashes(self, crashes: Option<Crashes>) -> Self {
        Self { crashes, ..self }
    }

    /// Returns the work so far.
    pub fn done(&self) -> Done {
        self.done
    }

    /// Returns what keeps crash reports.
    pub fn crashes(&self) -> Option<&Crashes> {
        self.crashes.as_ref()
    }

    /// Takes answers, and asks for what comes next.
    pub fn round(&mut self, now: Instant) -> Progress {
        let asleep = self.round_of_log(now);
        self.crashes.as_mut().map_or(asleep, |crashes| asleep & crashes.round(now))
    }

    fn round_of_log(&mut self, now: Instant) -> Progress {
        self.client.begin();
        while let Some(Completion { result, .. }) = self.client.next_completion() {
            self.is_asked = false;
            self.complete(result, now);
        }
        if self.client.changes() != self.changes {
            // Forget the file's size and the pause after failures: this is another volume, or the
            // same one again.
            self.changes = self.client.changes();
            (self.base, self.trouble.until) = (None, None);
            self.is_in_doubt = !self.piece.is_empty();
        }
        self.look(now);
        let is_there = self.client.volume().is_some_and(|volume| volume.is_present());
        self.trouble.until = self.trouble.until.filter(|until| *until > now);
        if is_there && self.trouble.until.is_none() && !self.is_asked && self.client.under_way() == 0 {
            self.ask(now);
        }
        // Set no time for work that is due already: it was requested above, or the provider's
        // answer wakes the keeper.
        self.wake = self.trouble.until.or(self.due.filter(|due| *due > now));
        let asleep = self.sleep(now);
        self.client.end_round() & asleep
    }

    /// Returns when there is something to do that nobody notifies of.
    pub fn wake(&self) -> Option<Instant> {
        let crashes = self.crashes.as_ref().and_then(Crashes::wake);
        self.wake.into_iter().chain(crashes).min()
    }

    /// Looks whether lines wait, and since when.
    fn look(&mut self, now: Instant) {
        let waiting = self.lines.refresh();
        if waiting == 0 {
            self.due = None;
        } else if waiting >= self.lines.capacity() / 2 {
            self.due = Some(now);
        } else {
            self.due = self.due.or(Some(now + self.limits.delay));
        }
    }

    /// Announces for which lines this side wants to be notified.
    fn sleep(&mut self, now: Instant) -> Progress {
        if self.lines.available() == 0 {
            self.lines.sleep()
        } else if self.due.is_some_and(|due| due > now) {
            self.lines.sleep_until(self.lines.capacity() / 2)
        } else {
            // An answer, another volume or the end of a pause brings the next turn.
            Progress::Asleep
        }
    }

    /// Chooses the next job and asks for it.
    fn ask(&mut self, now: Instant) {
        if self.job == Job::Rest {
            self.job = self.choose(now);
        }
        let asked = match self.job {
            Job::Rest => return,
            Job::Open => self.open(Mode::Append),
            Job::OpenToRead => self.open(Mode::Read),
            Job::Read => self.read(),
            Job::Write => self.write(),
            Job::Commit => self.file.map_or(Err(Error::Lost.into()), |file| self.client.commit(file, ())),
            Job::Rotate(rotation) => rotation.ask(&self.series, &mut self.client),
            Job::MakeRoom(number) => self.client.remove(&self.series.numbered(number), ()),
        };
        match asked {
            Ok(()) => self.is_asked = true,
            // The provider brings the next turn.
            Err(NotSent::Full | NotSent::Unknown) => {}
            Err(NotSent::Refused(error)) => self.fail(error, now),
        }
    }

    fn choose(&mut self, now: Instant) -> Job {
        if self.file.is_none() {
            return if self.is_in_doubt { Job::OpenToRead } else { Job::Open };
        }
        if self.piece.is_empty() && self.due.is_some_and(|due| due <= now) {
            self.take();
        }
        let size = self.base.unwrap_or(0);
        if self.piece.is_empty() {
            Job::Rest
        } else if self.is_stored {
            Job::Commit
        } else if size > 0 && size + self.piece.len() as u64 > self.limits.size {
            self.close();
            Job::Rotate(Rotation::begin(&self.series))
        } else {
            Job::Write
        }
    }

    /// Takes the next lines, or the mark of the system's start before the first ones.
    fn take(&mut self) {
        if !self.is_marked {
            self.is_marked = true;
            self.piece = match self.clock.and_then(|clock| clock.now()) {
                Some(time) => format!("--- the system has started; it is {time} ---\n"),
                None => "--- the system has started ---\n".into(),
            }
            .into_bytes();
            return;
        }
        let room = PIECE.min(self.client.memory().len().saturating_sub((PLACE as usize + 1) * BLOCK));
        self.take_bytes(room);
        // A line that is not all there is taken with the next ones, so that no file ends within it.
        let end = self.piece.iter().rposition(|byte| *byte == b'\n').map_or(self.piece.len(), |end| end + 1);
        (end..self.piece.len()).for_each(|_| self.lines.put_back());
        self.piece.truncate(end);
    }

    /// Takes so many bytes, or fewer if there are no more.
    fn take_bytes(&mut self, count: usize) {
        self.piece = vec![0; count];
        let taken = self.lines.pop_slice(&mut self.piece);
        self.piece.truncate(taken);
    }

    fn open(&mut self, mode: Mode) -> Result<(), NotSent> {
        self.client.open(&self.series.newest(), mode, ()).map(|file| self.file = Some(file))
    }

    /// Reads as many bytes of the file's end as the piece has.
    fn read(&mut self) -> Result<(), NotSent> {
        let file = self.file.ok_or(Error::Lost)?;
        self.client.read(file, self.base.unwrap_or(0), PLACE, self.piece.len() as u32, ())
    }

    /// Writes the piece behind the file's end.
    fn write(&mut self) -> Result<(), NotSent> {
        let file = self.file.ok_or(Error::Lost)?;
        let offset = PLACE as usize * BLOCK + self.client.end(file) as usize % BLOCK;
        self.client.memory().write(offset, &self.piece).map_err(|_| Error::Invalid)?;
        self.client.write(file, PLACE, self.piece.len() as u32, ())
    }

    fn complete(&mut self, result: Result<Answer, Error>, now: Instant) {
        let job = core::mem::replace(&mut self.job, Job::Rest);
        match (job, result) {
            (Job::Open, Ok(done)) => self.opened(done.info.map_or(0, |info| info.size)),
            (Job::OpenToRead, Ok(done)) => {
                // A file that is shorter does not have it: then nothing is read.
                self.base = done.info.and_then(|info| info.size.checked_sub(self.piece.len() as u64));
                self.job = if self.base.is_some() { Job::Read } else { self.is_not_in_doubt() };
            }
            (Job::Read, Ok(_)) => {
                self.base = self.base.filter(|base| self.was_read(*base));
                self.job = self.is_not_in_doubt();
            }
            (Job::OpenToRead, Err(Error::NotFound)) => {
                self.file = None;
                self.job = self.is_not_in_doubt();
            }
            (Job::Write, Ok(_)) => self.job = Job::Commit,
            (Job::Commit, Ok(_)) => self.committed(),
            (Job::Rotate(rotation), result) => match rotation.answer(&mut self.series, result.map(|_| ())) {
                Ok(Some(next)) => self.job = Job::Rotate(next),
                Ok(None) => {
                    self.done.rotations += 1;
                    self.base = None;
                }
                Err(error) => self.fail(error, now),
            },
            (Job::Write | Job::Commit, Err(Error::Full)) => {
                self.done.failures += 1;
                self.close();
                self.job = Job::MakeRoom(self.series.count());
            }
            (Job::MakeRoom(1), Err(Error::NotFound)) => self.fail(Error::Full, now),
            (Job::MakeRoom(number), Err(Error::NotFound)) => self.job = Job::MakeRoom(number - 1),
            (Job::Rest, _) | (Job::MakeRoom(_), Ok(_)) => {}
            (Job::Open | Job::OpenToRead, Err(error)) => {
                self.file = None;
                self.fail(error, now);
            }
            (_, Err(error)) => self.fail(error, now),
        }
    }

    /// Returns whether the piece was read at this place of the file.
    fn was_read(&self, base: u64) -> bool {
        let mut bytes = vec![0; self.piece.len()];
        let offset = PLACE as usize * BLOCK + base as usize % BLOCK;
        self.client.memory().read(offset, &mut bytes).is_ok() && bytes == self.piece
    }

    /// Takes it that the file's size, if it is known, says whether it has the piece. Returns the
    /// job that comes next: to open it so that it can be written.
    fn is_not_in_doubt(&mut self) -> Job {
        self.is_in_doubt = false;
        self.close();
        Job::Open
    }

    /// The file is open, and has so many bytes.
    fn opened(&mut self, size: u64) {
        let volume = self.client.volume().map_or(0, |volume| volume.number);
        if let Some(entry) = self.inherited.take().filter(|entry| entry.volume == volume) {
            self.base = Some(entry.size);
            // The queue yields again what the earlier life wrote and did not release: take as many
            // bytes as the file has grown by, so that none is written twice.
            let written = size.saturating_sub(entry.size);
            if written <= PIECE as u64 {
                self.take_bytes(written as usize);
            }
        }
        let stored = self.base.and_then(|base| size.checked_sub(base));
        self.is_stored = !self.piece.is_empty() && stored == Some(self.piece.len() as u64);
        if self.is_stored || stored == Some(0) {
            return;
        }
        // It is another file, or somebody else has written to it: nothing of the piece is known to
        // be there.
        self.base = Some(size);
        let is_mark = !self.piece.is_empty() && self.lines.position() == self.released;
        if self.is_marked && !is_mark {
            self.account.note(Entry { position: self.released, size, volume }, self.released);
        }
    }

    /// The piece is durable.
    fn committed(&mut self) {
        let size = self.base.unwrap_or(0) + self.piece.len() as u64;
        let volume = self.client.volume().map_or(0, |volume| volume.number);
        let position = self.lines.position();
        // The account before the slots: a death in between finds the lines again, and their bytes
        // in the file.
        self.account.note(Entry { position, size, volume }, self.released);
        let _ = self.lines.release();
        (self.released, self.base, self.is_stored) = (position, Some(size), false);
        self.done.bytes += self.piece.len() as u64;
        self.done.commits += 1;
        if let Some(crashes) = &mut self.crashes {
            crashes.read(&self.piece);
        }
        self.piece.clear();
        if core::mem::replace(&mut self.trouble, Trouble::NONE).is_told {
            culm::info!("the log is written again");
        }
    }

    fn close(&mut self) {
        if let Some(file) = self.file.take() {
            self.client.close(file);
        }
    }

    /// Begins again after a pause. It tells of that once: what it says is a line of the log too.
    fn fail(&mut self, error: Error, now: Instant) {
        self.done.failures += 1;
        self.close();
        self.job = Job::Rest;
        self.trouble.until = Some(now + self.trouble.pause);
        self.trouble.pause = (self.trouble.pause * 2).min(LONGEST_PAUSE);
        // A provider that was restarted has lost nothing that is not written again.
        if error != Error::Lost && !core::mem::replace(&mut self.trouble.is_told, true) {
            culm::warn!("the log cannot be written: {error}; lines wait, and are tried again");
        }
    }
}
