//! A volume, and how an operation on it goes: attempts, reads in between, stages of writes.

use crate::BLOCK;
use crate::error::{Error, NotFat};
use crate::file::{FileId, Files, Place};
use crate::geometry::Geometry;
use crate::medium::Session;
use crate::operation::{Answer, Operation, Recovered, Step};
use crate::order::{Stage, Stages};
use crate::pages::{Pages, Stop};
use crate::path::Known;
use crate::recover::Walk;
use crate::time::Stamp;
use alloc::collections::VecDeque;
use core::cell::RefCell;

/// The disk that a volume is on, and how it is used.
#[derive(Clone, Copy, Debug)]
pub struct Options {
    /// Blocks of the disk, or of the partition.
    pub blocks: u64,
    /// The exponent of the count of blocks that the device reads and writes at once, as
    /// `Disk::granule` of the block class: 0 for 512 bytes, 3 for 4 KiB. At most
    /// [`LARGEST_GRANULE`](crate::LARGEST_GRANULE).
    pub granule: u8,
    /// How many blocks the cache holds; 256 at least. Folders longer than that cannot be used.
    pub cache_blocks: usize,
    /// Whether nothing is written.
    pub read_only: bool,
}

/// How far an operation is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Phase {
    /// At its beginning.
    First,
    /// Links of promised clusters are written, from this index on.
    Link(u32),
    /// They are joined to the chain that was there.
    Join,
    /// The entry is written.
    Name,
    /// Some clusters that nothing names any more are given free.
    Free,
    /// Done.
    Last,
}

/// An operation that has begun.
#[derive(Debug)]
struct Running {
    operation: Operation,
    phase: Phase,
    answer: Result<Answer, Error>,
}

/// A request to the medium.
#[derive(Debug)]
enum Io {
    None,
    /// A read: the first unit and how many.
    Read {
        unit: u64,
        count: u32,
        is_sent: bool,
    },
    /// Writes in stages.
    Write {
        stages: VecDeque<Stage>,
        next: usize,
        outstanding: usize,
        flush: Flush,
        has_failed: bool,
    },
}

/// Whether the flush before a stage is done.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Flush {
    Due,
    Sent,
    Done,
}

/// The state of a mounted volume.
#[derive(Debug)]
pub(crate) struct Mounted {
    pub(crate) session: RefCell<Session>,
    pub(crate) files: Files,
    pub(crate) known: Known,
    /// First clusters of chains that are given free.
    pub(crate) doomed: VecDeque<u32>,
    /// Where the operation goes on when it has given some of them free.
    pub(crate) after_free: Phase,
    /// Free clusters, if they are counted.
    pub(crate) free: Option<u32>,
    /// How far a count has come: the next cluster, and how many are free before it.
    pub(crate) count: (u32, u32),
    /// Whether they were counted in the table; if not, the medium has said how many there are.
    pub(crate) is_counted: bool,
    /// Whether the medium says that the volume is being written.
    pub(crate) is_marked: bool,
    /// Whether it said so when it was mounted, or clusters were lost since, and it was not
    /// recovered.
    pub(crate) is_doubtful: bool,
    /// How far recovery has come.
    pub(crate) recovery: Option<Walk>,
    /// Whether what is written now is in `free` already.
    pub(crate) uncounted: bool,
}

/// A FAT volume.
#[derive(Debug)]
pub struct Volume {
    options: Options,
    unit: usize,
    now: u64,
    mounted: Option<Mounted>,
    /// Pages before mounting.
    pages: Option<Pages>,
    running: Option<Running>,
    io: Io,
}

impl Volume {
    /// Creates a volume; the first operation is [`Operation::Mount`].
    pub fn new(options: Options) -> Self {
        let unit = BLOCK << options.granule.min(crate::LARGEST_GRANULE);
        let capacity = options.cache_blocks * BLOCK / unit;
        let pages = Some(Pages::new(unit, capacity));
        Self { options, unit, now: 0, mounted: None, pages, running: None, io: Io::None }
    }

    /// Says what time it is, in seconds since 1970, for what is written from now on.
    pub fn set_time(&mut self, seconds: u64) {
        self.now = seconds;
    }

    /// Returns whether the volume said that it was not put to rest when it was last written, or has
    /// lost clusters since to a table that cannot be read; [`Operation::Recover`] repairs both.
    pub fn is_marked(&self) -> bool {
        self.mounted.as_ref().is_some_and(|mounted| mounted.is_doubtful)
    }

    /// Returns whether the volume is mounted.
    pub fn is_mounted(&self) -> bool {
        self.mounted.is_some()
    }

    #[cfg(test)]
    pub(crate) fn mounted(&self) -> &Mounted {
        self.mounted.as_ref().expect("it is mounted")
    }

    /// Returns whether the medium says of the volume that it is whole, so that
    /// [`Operation::Rest`] has nothing to say; also if none is mounted.
    pub fn is_at_rest(&self) -> bool {
        self.mounted.as_ref().is_none_or(|mounted| !mounted.is_marked)
    }

    /// Returns whether clusters wait to be given free: a long file was removed, or closed, and the
    /// operation has given free no more than it can at once. [`Operation::Free`] goes on with it;
    /// operations that need the space do so too, and those that count it.
    pub fn is_freeing(&self) -> bool {
        self.mounted.as_ref().is_some_and(|mounted| !mounted.doomed.is_empty())
    }

    /// Returns whether no operation is under way.
    pub fn is_idle(&self) -> bool {
        self.running.is_none()
    }

    /// Returns the bytes of an open file: of one that is written, those that are published.
    ///
    /// # Errors
    ///
    /// [`Error::BadFile`].
    pub fn size(&self, file: FileId) -> Result<u64, Error> {
        Ok(self.mounted.as_ref().ok_or(Error::BadFile)?.files.get(file)?.size)
    }

    /// Returns whether an open file can still be published: it is written, and was not given up
    /// because it could not take its name.
    pub fn can_publish(&self, file: FileId) -> bool {
        let mounted = self.mounted.as_ref();
        mounted.is_some_and(|mounted| mounted.files.get(file).is_ok_and(|file| file.check_written().is_ok()))
    }

    /// Returns where the byte at this offset of an open file lies, and how many follow it without a
    /// gap: of one that is read, bytes of the file; of one that is written, bytes of its space.
    /// Returns `None` if that is not known, for which there is [`Operation::Locate`], or if there
    /// is no such byte.
    pub fn place(&self, file: FileId, offset: u64) -> Option<Place> {
        let mounted = self.mounted.as_ref()?;
        mounted.files.get(file).ok()?.place(offset, &mounted.session.borrow().geometry)
    }

    /// Begins an operation.
    ///
    /// # Errors
    ///
    /// [`Error::NotReady`] if another one has not ended.
    pub fn begin(&mut self, operation: Operation) -> Result<(), Error> {
        if self.running.is_some() {
            return Err(Error::NotReady);
        }
        if operation == Operation::Mount {
            if let Some(mounted) = self.mounted.take() {
                self.pages = Some(mounted.session.into_inner().pages);
            }
            if let Some(pages) = &mut self.pages {
                pages.clear();
            }
        }
        if let Some(mounted) = &mut self.mounted {
            mounted.session.get_mut().begin(Stamp::from_unix(self.now));
        } else if let Some(pages) = &mut self.pages {
            pages.begin();
        }
        self.running = Some(Running { operation, phase: Phase::First, answer: Ok(Answer::Done) });
        Ok(())
    }

    /// Returns what the medium is to be asked for next, or the end of the operation. Without an
    /// operation, [`Error::NotReady`].
    pub fn step(&mut self) -> Step<'_> {
        // The two halves are apart so that the bytes of a write can be lent.
        while matches!(self.io, Io::None) {
            if let Some(result) = self.attempt() {
                self.running = None;
                return Step::Done(result);
            }
        }
        match &mut self.io {
            Io::Read { unit, count, is_sent: is_sent @ false } => {
                *is_sent = true;
                let per_unit = (self.unit / BLOCK) as u64;
                Step::Read { block: *unit * per_unit, blocks: *count * per_unit as u32 }
            }
            Io::None | Io::Read { .. } => Step::Wait,
            Io::Write { .. } => self.step_of_write(),
        }
    }

    /// Takes the bytes of the blocks that were to be read, or `None` if that has failed.
    pub fn give(&mut self, block: u64, bytes: Option<&[u8]>) {
        let Io::Read { unit, count, is_sent: true } = self.io else { return };
        if block != unit * (self.unit / BLOCK) as u64 {
            return;
        }
        self.io = Io::None;
        let whole = bytes.filter(|bytes| bytes.len() == count as usize * self.unit);
        let pages = match &mut self.mounted {
            Some(mounted) => Some(&mut mounted.session.get_mut().pages),
            None => self.pages.as_mut(),
        };
        let given = match (whole, pages) {
            (Some(bytes), Some(pages)) => pages.give(unit, bytes),
            (_, Some(pages)) => {
                pages.forgive();
                Err(Error::Failed)
            }
            (_, None) => Err(Error::Failed),
        };
        if let Err(error) = given {
            self.fail_part(error);
        }
    }

    /// Ends the operation because the part of it that is next cannot be done. Nothing of that part
    /// has been written.
    fn fail_part(&mut self, error: Error) {
        let Some(running) = &mut self.running else { return };
        match (&mut self.mounted, running.phase) {
            (Some(mounted), Phase::Free) => {
                // The operation goes on, or is done: its answer stays. The chain's clusters are
                // lost until the volume is recovered; tried again, they would be in the way of all
                // that follows.
                mounted.doomed.pop_front();
                mounted.is_doubtful = true;
                running.phase = mounted.after_free;
            }
            (mounted, phase) => {
                if let Some(mounted) = mounted {
                    mounted.recovery = None;
                    // Other operations may change what was counted before the next count.
                    mounted.count = Mounted::NOT_COUNTED;
                    // Earlier parts have linked clusters that nothing names.
                    mounted.is_doubtful |= matches!(phase, Phase::Link(_) | Phase::Join | Phase::Name);
                }
                let answer = match (&running.operation, error) {
                    // It needs more memory than there is.
                    (Operation::Recover, Error::Corrupt | Error::FolderTooLong) => {
                        Ok(Answer::Recovered(Recovered::default()))
                    }
                    _ => Err(error),
                };
                (running.phase, running.answer) = (Phase::Last, answer);
            }
        }
    }

    /// Takes it that one of the writes is done, or has failed.
    pub fn wrote(&mut self, is_well: bool) {
        if let Io::Write { outstanding, has_failed, .. } = &mut self.io {
            *outstanding = outstanding.saturating_sub(1);
            *has_failed |= !is_well;
        }
    }

    /// Takes it that the flush is done, or has failed.
    pub fn flushed(&mut self, is_well: bool) {
        if let Io::Write { flush: flush @ Flush::Sent, has_failed, .. } = &mut self.io {
            *flush = Flush::Done;
            *has_failed |= !is_well;
        }
    }

    /// Returns the next step of what is written.
    fn step_of_write(&mut self) -> Step<'_> {
        let Io::Write { stages, next, outstanding, flush, has_failed } = &mut self.io else { return Step::Wait };
        if *has_failed {
            if *outstanding > 0 || *flush == Flush::Sent {
                return Step::Wait;
            }
            self.io = Io::None;
            self.running = None;
            // Unmount: after a failed write nobody knows what is on the medium. Mounting it again
            // empties the cache.
            self.pages = self.mounted.take().map(|mounted| mounted.session.into_inner().pages);
            return Step::Done(Err(Error::Failed));
        }
        while let Some(stage) = stages.front() {
            match *flush {
                Flush::Due if stage.flush => {
                    *flush = Flush::Sent;
                    return Step::Flush;
                }
                Flush::Sent => return Step::Wait,
                _ => {}
            }
            if *next < stage.runs.len() {
                (*next, *outstanding) = (*next + 1, *outstanding + 1);
                break;
            }
            if *outstanding > 0 {
                return Step::Wait;
            }
            stages.pop_front();
            (*next, *flush) = (0, Flush::Due);
        }
        if stages.is_empty() {
            self.io = Io::None;
            if let Some(mounted) = &mut self.mounted {
                mounted.commit();
            }
            return self.step();
        }
        let Io::Write { stages, next, .. } = &self.io else { return Step::Wait };
        match stages.front().and_then(|stage| stage.runs.get(*next - 1)) {
            Some(run) => Step::Write { block: run.block, bytes: &run.bytes },
            None => Step::Wait,
        }
    }

    /// Tries the part of the operation that is next. Returns its result if it has ended.
    fn attempt(&mut self) -> Option<Result<Answer, Error>> {
        let Some(running) = &mut self.running else { return Some(Err(Error::NotReady)) };
        if running.phase == Phase::Last {
            return Some(core::mem::replace(&mut running.answer, Ok(Answer::Done)));
        }
        if running.operation == Operation::Mount {
            return self.mount();
        }
        let Some(mounted) = &mut self.mounted else { return Some(Err(Error::NotReady)) };
        match mounted.attempt(&running.operation, running.phase, self.options.read_only) {
            Ok(done) => {
                running.phase = done.next;
                if let Some(answer) = done.answer {
                    running.answer = answer;
                }
                if done.stages.is_empty() {
                    mounted.session.get_mut().pages.abandon();
                } else {
                    let stages = done.stages.in_runs(self.unit);
                    self.io = Io::Write { stages, next: 0, outstanding: 0, flush: Flush::Due, has_failed: false };
                }
            }
            Err(Stop::Missing) => self.read_missing(),
            Err(Stop::Fail(error)) => {
                mounted.session.get_mut().pages.abandon();
                self.fail_part(error);
            }
        }
        None
    }

    /// Has the missing unit read, and some that follow it.
    fn read_missing(&mut self) {
        let wanted = match &mut self.mounted {
            Some(mounted) => {
                let session = mounted.session.get_mut();
                let wanted = session.pages.wanted(|at| session.geometry.end_of_area(at));
                // Give up the attempt, but keep the number of the unit that it lacked.
                session.pages.abandon_attempt();
                wanted
            }
            None => self.pages.as_mut().and_then(|pages| pages.wanted(|at| at + BLOCK as u64)),
        };
        match wanted {
            Some((unit, count)) => self.io = Io::Read { unit, count, is_sent: false },
            None => self.fail_part(Error::Corrupt),
        }
    }

    /// Tries to mount.
    fn mount(&mut self) -> Option<Result<Answer, Error>> {
        let Some(pages) = &mut self.pages else { return Some(Err(Error::NotReady)) };
        let length = self.options.blocks.saturating_mul(BLOCK as u64);
        if length < self.unit as u64 {
            return Some(Err(Error::NotFat(NotFat::NoBootSector)));
        }
        let Ok(boot) = pages.read(0, BLOCK) else {
            self.read_missing();
            return None;
        };
        let geometry = match Geometry::parse(boot, length, self.unit as u32) {
            Ok(geometry) => geometry,
            Err(reason) => return Some(Err(Error::NotFat(reason))),
        };
        let (mut hint, mut free) = (2, None);
        if let Some(at) = geometry.information {
            let Ok(bytes) = information(pages, at) else {
                self.read_missing();
                return None;
            };
            if let Some((count, next)) = bytes {
                free = (count <= geometry.end_cluster - 2 && !geometry.is_marked).then_some(count);
                hint = if geometry.has(next) { next } else { 2 };
            }
        }
        let pages = self.pages.take()?;
        self.mounted = Some(Mounted::new(Session::new(pages, geometry, hint), free));
        Some(Ok(Answer::Done))
    }
}

/// Reads the count of free clusters and the next one from the information sector, if it is one.
fn information(pages: &mut Pages, at: u64) -> Result<Option<(u32, u32)>, Stop> {
    let mut number = |offset: u64| -> Result<u32, Stop> {
        let bytes = pages.read(at + offset, 4)?;
        Ok(bytes.iter().rev().fold(0_u32, |number, byte| number << 8 | u32::from(*byte)))
    };
    let is_one = number(0)? == 0x4161_5252 && number(484)? == 0x6141_7272;
    let numbers = (number(488)?, number(492)?);
    Ok(is_one.then_some(numbers))
}

/// The outcome of a part of an operation.
#[derive(Debug)]
pub(crate) struct Outcome {
    pub(crate) stages: Stages,
    pub(crate) next: Phase,
    pub(crate) answer: Option<Result<Answer, Error>>,
}

impl Outcome {
    /// The end, with an answer and nothing to write.
    pub(crate) fn end(answer: Answer) -> Self {
        Self { stages: Stages::default(), next: Phase::Last, answer: Some(Ok(answer)) }
    }

    /// Stages to write, after which the operation goes on.
    pub(crate) fn then(stages: Stages, next: Phase) -> Self {
        Self { stages, next, answer: None }
    }
}
