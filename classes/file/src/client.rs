//! The client's side: sends requests, keeps each until it is answered, and sends it again if the
//! provider starts over. It knows which files are open, and opens them again.
//!
//! A round begins by [`Client::begin`], takes what is complete by [`Client::next_completion`] until
//! there is nothing, asks for more, and ends by [`Client::end_round`], which publishes everything
//! at once and announces that the client sleeps.
//!
//! ```no_run
//! # fn example(connection: &culm::connection::FileClient) -> Option<()> {
//! use culm_file::{Client, Mode};
//!
//! let mut client = Client::<&str>::connect(connection);
//! client.begin();
//! // Once `client.volume()` is some:
//! let file = client.open("/index.html", Mode::Read, "opened").ok()?;
//! let _ = client.end_round();
//! // Rounds later, when "opened" is complete: 4 KiB from byte 1000 on. They lie 1000 % 512 bytes
//! // behind the beginning of block 0 of `client.memory()`.
//! client.read(file, 1000, 0, 4096, "read").ok()?;
//! # Some(()) }
//! ```

mod files;
mod slots;

use crate::{
    Answer, AnswerEntry, BLOCK, Done, Error, Info, Listing, Mode, Operation, PATH_BLOCKS, PATHS, Request, RequestEntry,
    Volume, depth, path,
};
use alloc::string::String;
use alloc::vec::Vec;
use core::fmt;
use culm::link::Event;
use culm::{Link, Progress, Region};
use culm_abi::connection::FileClient;
use culm_abi::connection::file::{MIN_MEMORY, MIN_QUEUE};
pub use files::File;
use files::{Files, State};
use slots::{Slots, Use};

/// The most requests of a user that are under way: tokens have 16 bits, and tell a slot's requests
/// apart.
const MAX_DEPTH: u32 = (1 << 15) - 1;

/// A request that is complete.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Completion<T> {
    /// The tag that the client gave with its request.
    pub tag: T,
    /// The outcome of the request.
    pub result: Result<Done, Error>,
}

/// The reason why a request was not sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NotSent {
    /// As many as possible are under way, of all or of those with paths.
    Full,
    /// The volume is not known yet: the provider has not begun.
    Unknown,
    /// It cannot be done, for this reason.
    Refused(Error),
}

impl fmt::Display for NotSent {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Full => formatter.write_str("as many requests as possible are under way"),
            Self::Unknown => formatter.write_str("the volume is not known yet"),
            Self::Refused(error) => error.fmt(formatter),
        }
    }
}

impl core::error::Error for NotSent {}

impl From<Error> for NotSent {
    fn from(error: Error) -> Self {
        Self::Refused(error)
    }
}

/// A client's connection to files. Each request has a tag of type `T`, with which it comes back.
#[derive(Debug)]
pub struct Client<T> {
    link: Link<RequestEntry, AnswerEntry>,
    /// All of its memory: paths, then data.
    whole: Region,
    /// The part for data.
    memory: Region,
    volume: Option<Volume>,
    /// Whether `volume` was shown since the pair started over.
    is_confirmed: bool,
    slots: Slots<T>,
    files: Files,
    /// Room for paths that no request has, by its first block. Block 0 is for files that are opened
    /// again.
    free_paths: Vec<u32>,
    /// How often the volume has changed, modulo 2³².
    changes: u32,
    answers_refused: u32,
}

impl<T> Client<T> {
    /// Creates the client's side of `connection`.
    ///
    /// # Panics
    ///
    /// If the memory or one of the queues is smaller than the class allows, which the build tool
    /// does not let happen.
    pub fn connect(connection: &FileClient) -> Self {
        let FileClient { requests, answers, memory, channel } = *connection;
        let least = requests.capacity.min(answers.capacity);
        assert!(least >= MIN_QUEUE, "a queue of {least} entries: make it {MIN_QUEUE} at least");
        let whole = Region::new(memory);
        let memory = whole.part(PATHS as usize, whole.len().saturating_sub(PATHS as usize));
        let Some(memory) = memory.ok().filter(|_| whole.len() as u64 >= MIN_MEMORY) else {
            panic!("{} bytes of memory: give it {MIN_MEMORY} at least", whole.len())
        };
        let rooms = PATHS as u32 / BLOCK as u32 / PATH_BLOCKS;
        let mut client = Self {
            link: Link::new(requests, answers, channel),
            whole,
            memory,
            volume: None,
            is_confirmed: false,
            slots: Slots::new(depth(requests.capacity, answers.capacity).min(MAX_DEPTH) as u16),
            files: Files::new(),
            free_paths: (1..rooms).rev().map(|room| room * PATH_BLOCKS).collect(),
            changes: 0,
            answers_refused: 0,
        };
        // Tell the provider of this life.
        client.link.publish();
        client
    }

    /// Returns which volume there is, as far as the provider has said. After a restart of the
    /// provider it is what the previous life said, until [`Self::next_completion`] finds what the
    /// new one says.
    #[inline(always)]
    pub fn volume(&self) -> Option<&Volume> {
        self.volume.as_ref()
    }

    /// Returns how often the volume has changed, modulo 2³².
    #[inline(always)]
    pub fn changes(&self) -> u32 {
        self.changes
    }

    /// Returns the memory for data. Places count its blocks.
    #[inline(always)]
    pub fn memory(&self) -> &Region {
        &self.memory
    }

    /// Returns how many requests are under way, those included that wait for a provider's restart.
    #[inline(always)]
    pub fn under_way(&self) -> usize {
        self.slots.under_way()
    }

    /// Returns how many more requests can be sent now.
    #[inline(always)]
    pub fn space(&self) -> usize {
        self.slots.space()
    }

    /// Returns how many entries of the provider's were none, or answered what was not asked.
    pub fn answers_refused(&self) -> u32 {
        self.answers_refused
    }

    /// Returns the channel to the provider.
    pub fn channel(&self) -> culm::Channel {
        self.link.channel()
    }

    /// Begins a round: looks at answers, and whether the provider was restarted.
    #[inline]
    pub fn begin(&mut self) {
        if self.link.begin() != Event::None {
            self.start_over();
        }
    }

    /// Has everything sent again as soon as the provider has said which volume there is.
    #[cold]
    fn start_over(&mut self) {
        self.is_confirmed = false;
        self.slots.start_over();
        for number in self.files.all() {
            self.files.reset(number);
        }
    }

    /// Opens what a path leads to. [`Done::info`] says what it is. The file can be used when the
    /// request is complete, and not before; if it has failed, there is none.
    ///
    /// # Errors
    ///
    /// See [`NotSent`]. [`Error::TooMany`] if as many as possible are open.
    pub fn open(&mut self, path: &str, mode: Mode, tag: T) -> Result<File, NotSent> {
        self.open_with(path, mode, 0, tag)
    }

    /// Opens a new file ([`Mode::New`]) if the volume has space for so many bytes, which are its
    /// own until it is closed. Otherwise the request fails by [`Error::Full`].
    ///
    /// # Errors
    ///
    /// As [`Self::open`]. [`Error::Full`] if no request can name so many bytes.
    pub fn create(&mut self, path: &str, bytes: u64, tag: T) -> Result<File, NotSent> {
        if bytes > Request::MAX_POSITION {
            return Err(Error::Full.into());
        }
        self.open_with(path, Mode::New, bytes, tag)
    }

    fn open_with(&mut self, path: &str, mode: Mode, bytes: u64, tag: T) -> Result<File, NotSent> {
        self.check_path(path)?;
        let operation = Operation::Open(mode);
        self.check(operation)?;
        let place = self.room()?;
        let Some(file) = self.files.claim(path, mode) else {
            self.free_paths.push(place);
            return Err(Error::TooMany.into());
        };
        let request = Request { file: file.number, position: bytes, ..self.with_path(operation, place, path, "") };
        self.send(request, tag, true);
        Ok(file)
    }

    /// Reads `length` bytes of a file from `position` on. They lie `position % BLOCK` behind the
    /// beginning of block `place` of [`Self::memory`]. [`Done::count`] says how many there are:
    /// fewer, if the file ends.
    ///
    /// # Errors
    ///
    /// See [`NotSent`].
    #[inline]
    pub fn read(&mut self, file: File, position: u64, place: u32, length: u32, tag: T) -> Result<(), NotSent> {
        self.move_data(Operation::Read, file, position, place, length, tag)
    }

    /// Writes `length` bytes behind the end of a file that is open for that. They lie
    /// `end % BLOCK` behind the beginning of block `place` of [`Self::memory`], `end` being
    /// [`Self::end`]. Further ones can be sent before it is complete. After one that failed nothing
    /// more can be written to the file.
    ///
    /// # Errors
    ///
    /// See [`NotSent`].
    pub fn write(&mut self, file: File, place: u32, length: u32, tag: T) -> Result<(), NotSent> {
        let end = self.files.get(file)?.end;
        self.move_data(Operation::Write, file, end, place, length, tag)?;
        self.files.wrote(file, length);
        Ok(())
    }

    /// Returns where the next write to a file begins: its bytes, those included whose writes are
    /// under way. 0 if it is not open.
    pub fn end(&self, file: File) -> u64 {
        self.files.get(file).map_or(0, |known| known.end)
    }

    /// Makes what was written to a file durable, and visible under its path. What is written after
    /// that is written behind its end.
    ///
    /// # Errors
    ///
    /// See [`NotSent`]. [`Error::Busy`] if a commit of the file is under way.
    pub fn commit(&mut self, file: File, tag: T) -> Result<(), NotSent> {
        let operation = Operation::Commit;
        self.check(operation)?;
        self.usable(file)?;
        if self.files.get(file)?.commit.is_some() {
            return Err(Error::Busy.into());
        }
        let request = Request { operation, file: file.number, position: 0, place: 0, length: 0 };
        self.send(request, tag, false);
        self.files.commits(file);
        Ok(())
    }

    /// Lists items of a folder that is open for reading, from `next` on: 0, or what an earlier
    /// answer's [`Done::next`] said. The list has up to `length` bytes from block `place` of
    /// [`Self::memory`] on; [`Self::listing`] reads it. The items of a folder that changes in
    /// between may be missing or come twice.
    ///
    /// # Errors
    ///
    /// See [`NotSent`].
    pub fn list(&mut self, folder: File, next: u64, place: u32, length: u32, tag: T) -> Result<(), NotSent> {
        self.move_data(Operation::List, folder, next, place, length, tag)
    }

    /// Returns the items of a list of which [`Done::count`] bytes are at block `place`.
    pub fn listing(&self, place: u32, count: u32) -> Listing {
        Listing::read(&self.memory, place, count)
    }

    /// Asks what a path leads to; [`Done::info`] says it.
    ///
    /// # Errors
    ///
    /// See [`NotSent`].
    pub fn stat(&mut self, path: &str, tag: T) -> Result<(), NotSent> {
        self.send_path(Operation::Stat, path, "", tag)
    }

    /// Makes a folder.
    ///
    /// # Errors
    ///
    /// See [`NotSent`].
    pub fn make_folder(&mut self, path: &str, tag: T) -> Result<(), NotSent> {
        self.send_path(Operation::MakeFolder, path, "", tag)
    }

    /// Removes a file or an empty folder.
    ///
    /// # Errors
    ///
    /// See [`NotSent`].
    pub fn remove(&mut self, path: &str, tag: T) -> Result<(), NotSent> {
        self.send_path(Operation::Remove, path, "", tag)
    }

    /// Gives a file or folder another path, where there must be nothing.
    ///
    /// # Errors
    ///
    /// See [`NotSent`].
    pub fn rename(&mut self, from: &str, to: &str, tag: T) -> Result<(), NotSent> {
        self.check_path(to)?;
        self.send_path(Operation::Rename, from, to, tag)
    }

    /// Closes a file, after the requests for it that are under way. A new one that was not
    /// committed is given back. There is no completion.
    pub fn close(&mut self, file: File) {
        self.files.close(file);
    }

    /// Returns the next request that is complete, of those that were at the beginning of the round.
    #[inline]
    pub fn next_completion(&mut self) -> Option<Completion<T>> {
        loop {
            let (index, result) = match self.slots.next_ended() {
                Some((index, error)) => (index, Err(error)),
                None => match self.link.input.pop_known()?.read() {
                    Some(Answer::Of { token, result }) if self.slots.is_sent(token) => {
                        (self.slots.index(token), result)
                    }
                    Some(Answer::Volume(volume)) => {
                        self.learn(volume);
                        continue;
                    }
                    _ => {
                        self.answers_refused = self.answers_refused.saturating_add(1);
                        continue;
                    }
                },
            };
            if let Some(completion) = self.complete(index, result) {
                return Some(completion);
            }
        }
    }

    /// Ends a round: publishes what was asked for, and announces that the client sleeps.
    #[inline]
    pub fn end_round(&mut self) -> Progress {
        if self.files.take_work() {
            self.send_own();
        }
        let is_full = self.push();
        self.link.publish();
        // While the queue is full, space in it is worth a turn.
        let space = if is_full { self.link.sleep_for_space(1) } else { Progress::Asleep };
        space & self.link.sleep() & Progress::more_if(self.slots.has_ended())
    }

    /// Checks that something can be asked for.
    #[inline]
    fn check(&self, operation: Operation) -> Result<(), NotSent> {
        let volume = self.volume.ok_or(NotSent::Unknown)?;
        if let Some(fault) = volume.fault {
            return Err(fault.into());
        }
        if operation.changes_files() && volume.read_only {
            return Err(Error::ReadOnly.into());
        }
        if self.slots.space() == 0 { Err(NotSent::Full) } else { Ok(()) }
    }

    fn check_path(&self, path: &str) -> Result<(), NotSent> {
        if path::is_valid(path) { Ok(()) } else { Err(Error::Name.into()) }
    }

    /// Checks that a file can be used.
    #[inline]
    fn usable(&self, file: File) -> Result<(), NotSent> {
        match self.files.get(file)?.state {
            State::Lost(error) => Err(error.into()),
            State::Open | State::Reopen | State::Reopening => Ok(()),
            State::Free | State::Opening | State::Closing => Err(Error::Invalid.into()),
        }
    }

    /// Takes room for a path.
    fn room(&mut self) -> Result<u32, NotSent> {
        self.free_paths.pop().ok_or(NotSent::Full)
    }

    /// Makes a request whose path or paths it writes to their room.
    fn with_path(&self, operation: Operation, place: u32, first: &str, second: &str) -> Request {
        let offset = place as usize * BLOCK;
        // The room is there, and paths are no longer than it.
        let _ = self.whole.write(offset, first.as_bytes());
        let _ = self.whole.write(offset + first.len(), second.as_bytes());
        let position = if second.is_empty() { 0 } else { first.len() as u64 };
        Request { operation, file: 0, position, place, length: (first.len() + second.len()) as u32 }
    }

    fn send_path(&mut self, operation: Operation, first: &str, second: &str, tag: T) -> Result<(), NotSent> {
        self.check_path(first)?;
        self.check(operation)?;
        let place = self.room()?;
        self.send(self.with_path(operation, place, first, second), tag, true);
        Ok(())
    }

    #[inline]
    fn move_data(
        &mut self,
        operation: Operation,
        file: File,
        position: u64,
        place: u32,
        length: u32,
        tag: T,
    ) -> Result<(), NotSent> {
        self.check(operation)?;
        self.usable(file)?;
        let place = place.checked_add(PATHS as u32 / BLOCK as u32).filter(|place| *place <= Request::MAX_PLACE);
        let request = Request { operation, file: file.number, position, place: place.ok_or(Error::Invalid)?, length };
        request.check(self.whole.len())?;
        self.send(request, tag, false);
        Ok(())
    }

    #[inline]
    fn send(&mut self, request: Request, tag: T, is_alone: bool) {
        self.slots.send(Use::Request(tag), request);
        if !is_alone {
            self.files.began(request.file);
        }
    }

    /// Frees the slot of a request that has ended; returns what its client is told.
    #[inline]
    fn complete(&mut self, index: u16, result: Result<Done, Error>) -> Option<Completion<T>> {
        let (used, request, is_repeated) = self.slots.release(index)?;
        if request.operation.has_path() {
            return self.complete_path(used, request, result, is_repeated);
        }
        match used {
            Use::Request(tag) => {
                let result = result.map(|done| Done { count: done.count.min(request.length), info: None, ..done });
                self.files.ended(&request, result.err());
                Some(Completion { tag, result })
            }
            Use::Own => {
                self.files.closed(request.file);
                None
            }
        }
    }

    /// Ends a request with a path.
    fn complete_path(
        &mut self,
        used: Use<T>,
        request: Request,
        result: Result<Done, Error>,
        is_repeated: bool,
    ) -> Option<Completion<T>> {
        let info = Info::read(&self.whole, request.offset() + path::SPACE).unwrap_or_default();
        let result = result.map(|done| Done { info: done.info.map(|_| info), count: 0, next: None });
        let Use::Request(tag) = used else {
            self.files.reopened(request.file, result.map(|done| done.info.unwrap_or_default()));
            self.end_lost();
            return None;
        };
        self.free_paths.push(request.place);
        let result = match (request.operation, result) {
            (Operation::Open(_), result) => {
                self.files.opened(request.file, result.ok().and_then(|done| done.info));
                result
            }
            // The earlier life of the provider has done it, as far as can be known.
            (Operation::MakeFolder, Err(Error::Exists)) | (Operation::Remove, Err(Error::NotFound)) if is_repeated => {
                Ok(Done::NOTHING)
            }
            (Operation::Rename, Err(Error::NotFound | Error::Exists)) if is_repeated => Err(Error::Lost),
            (_, result) => result,
        };
        Some(Completion { tag, result })
    }

    /// Takes what the provider says of the volume.
    #[cold]
    fn learn(&mut self, volume: Volume) {
        if self.volume.is_some_and(|known| known.number != volume.number) {
            if self.is_confirmed && self.volume.is_some_and(|known| known.is_present()) {
                // Requests on their way would reach the new volume: a provider starts over first,
                // so this one is broken.
                self.answers_refused = self.answers_refused.saturating_add(1);
                self.link.start_over();
                self.start_over();
                return;
            }
            self.changes = self.changes.wrapping_add(1);
            self.slots.end_waiting(Error::Changed, |_| true);
            for number in self.files.all() {
                self.files.lose(number, Error::Changed);
            }
        }
        (self.volume, self.is_confirmed) = (Some(volume), true);
        self.end_lost();
    }

    /// Ends the requests for files that are lost.
    fn end_lost(&mut self) {
        for number in self.files.all() {
            if let State::Lost(error) = self.files.state(number) {
                self.slots.end_waiting(error, |request| {
                    request.file == number && request.operation.has_file() && !request.operation.has_path()
                });
            }
        }
    }

    /// Asks for what the client's user did not: files are opened again, and closed.
    #[cold]
    fn send_own(&mut self) {
        if !self.is_confirmed {
            return self.files.leave_work();
        }
        for number in self.files.all() {
            if !self.slots.has_own_space() {
                return self.files.leave_work();
            }
            match self.files.work(number) {
                files::Work::None => {}
                files::Work::Close => {
                    let operation = Operation::Close;
                    self.slots.send(Use::Own, Request { operation, file: number, position: 0, place: 0, length: 0 });
                }
                files::Work::Open(path, mode) => {
                    let request = self.with_path(Operation::Open(mode), 0, &path, "");
                    self.slots.send_first(Use::Own, Request { file: number, ..request });
                }
            }
        }
    }

    /// Pushes requests that wait, as many as there is space for. Returns whether one has none.
    #[inline]
    fn push(&mut self) -> bool {
        if !self.is_confirmed || !self.link.is_live() || !self.slots.is_waiting() {
            return false;
        }
        let (files, output) = (&self.files, &mut self.link.output);
        self.slots.push_waiting(
            |request| {
                // Those for a file that is being opened again wait for that.
                let is_own = request.operation.has_path() || !request.operation.has_file();
                is_own || !matches!(files.state(request.file), State::Reopen | State::Reopening)
            },
            |entry| (output.free() > 0 || output.refresh() > 0) && output.push(entry).is_ok(),
        )
    }
}

/// Returns a path's copy.
fn owned(path: &str) -> String {
    path.into()
}
