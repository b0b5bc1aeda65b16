//! Files of the file class as the server's files that are not in memory.
//!
//! * **Open files.** What was opened for one reader serves all who ask for the same path within a
//!   second, and is closed when its place is needed. After each change that goes through here
//!   everything is opened anew, since one file can have several names.
//!   While all places are taken, a file that was opened some seconds ago is closed if nothing of it
//!   is on its way: its readers have it opened again when they go on, and break off if it is not
//!   the same any more. So slow readers keep nobody from other files.
//! * **Buffers.** The client's memory is divided into buffers. A reader has one only from the
//!   request to the disk until the bytes are in the send buffer: a client that reads slowly holds
//!   none. An upload holds one that it fills, and those that are being written.
//! * **Waiting.** What finds no room (of open files, buffers, requests under way) waits for it, in
//!   the order in which it came: who comes later never gets what another one waits for.
//!
//! Each slot's work has a serial number, which comes back with whatever was asked for it: what
//! comes late, after the slot has turned to other work, only gives its buffer back.

mod changes;
mod properties;

use crate::guard::Guard;
use alloc::boxed::Box;
use alloc::collections::VecDeque;
use alloc::format;
use alloc::string::String;
use alloc::vec;
use alloc::vec::Vec;
use changes::{Change, Stage};
use culm::Progress;
use culm::connection::FileClient;
use culm_file::{BLOCK, Client, Completion, Error, File, Info, Mode, NotSent};
use culm_http::Caching;
use culm_http::files::{Entry, Files, Found, Offer, Permission, Purpose, Trouble};
use properties::{entry, is_same_name, trouble};

/// Files that are open for readers at a time. With the uploads they are fewer than the class
/// allows.
const OPEN: usize = 20;

/// Uploads at a time.
const UPLOADS: usize = 8;

/// Blocks of a buffer's data at most.
const BUFFER: usize = 64;

/// The time for which a file stays open in any case while others wait for its place, in multiples
/// of that for which what is open serves those who come later.
const HOLD: u64 = 3;

/// Writes of one upload that are under way at a time.
const WRITES: u8 = 2;

/// The name of what was asked of the class.
#[derive(Clone, Copy, Debug)]
enum Tag {
    /// A file was opened for readers.
    Opened { place: u8, life: u32 },
    /// Something was asked for a slot's work, without data.
    For(Work),
    /// Files are changed for a slot's work: a new one is committed, or one is removed.
    Changed(Work),
    /// Bytes for a reader.
    Read(Work, u16),
    /// Bytes of an upload.
    Wrote(Work, u16),
}

/// A slot's work.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Work {
    slot: u16,
    serial: u32,
}

/// The room that a slot's work waits for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Need {
    /// A place among the files that are open for readers.
    Place,
    /// A buffer, and a request to fill it.
    Buffer,
    /// A request of a change.
    Request,
}

impl Need {
    const ALL: [Self; 3] = [Self::Place, Self::Buffer, Self::Request];
}

/// A file that is open for readers, or about to be.
struct Shared {
    /// With the slash in front.
    path: String,
    file: Option<File>,
    /// What was found; nothing while it is being opened.
    found: Option<Result<Info, Error>>,
    readers: u32,
    /// Since when it is open: later readers open it anew.
    since: u64,
    is_stale: bool,
    /// Whether its properties were settled when it was opened, and which [`Store::generation`]
    /// there was then.
    is_settled: bool,
    generation: u32,
    /// How often the place was used.
    life: u32,
    /// The slots that wait for it to be open.
    waiting: Vec<u16>,
}

#[derive(Default)]
struct Job {
    serial: u32,
    /// The room that it waits for.
    waits: Option<Need>,
    state: State,
}

#[derive(Default)]
enum State {
    #[default]
    Idle,
    /// Wants to read, or to go on reading what it has seen, and finds no room.
    Queued {
        path: String,
        seen: Option<Seen>,
    },
    Reading {
        place: u8,
        fetch: Fetch,
        /// What the file must still be, if it was opened again for this reader.
        seen: Option<Seen>,
    },
    /// Has read, or found out what there is; the file was closed meanwhile.
    Parked {
        path: String,
        seen: Seen,
    },
    Changing(Box<Change>),
}

/// What a reader has found.
#[derive(Clone, Copy)]
struct Seen {
    found: Result<Info, Error>,
    is_settled: bool,
    generation: u32,
}

/// Bytes of a file on their way.
#[derive(Clone, Copy)]
enum Fetch {
    None,
    /// They find no room.
    Wanted {
        at: u64,
        count: u32,
    },
    Asked {
        at: u64,
    },
    Here {
        at: u64,
        buffer: u16,
        count: u32,
    },
    Failed(Trouble),
}

/// The files of one connection to the class.
pub struct Store {
    client: Client<Tag>,
    offer: Offer,
    guard: Option<Guard>,
    caching: Caching<'static>,
    jobs: Box<[Job]>,
    open: Vec<Shared>,
    /// Slots whose work changes files.
    changing: Vec<u16>,
    /// Changes under way whose slots have turned to other work, with their paths. They are no more
    /// than the requests under way.
    left: Vec<(Work, String)>,
    free: Vec<u16>,
    /// Blocks of a buffer, with the one that data which begins within a block has in addition.
    stride: usize,
    /// The slots that wait for each [`Need`], in the order in which they came.
    waiting: [VecDeque<u16>; Need::ALL.len()],
    /// Whether something that others wait for became free.
    has_room: bool,
    news: VecDeque<u16>,
    /// The bytes that a reader is given.
    given: Box<[u8]>,
    /// How often the volume has changed.
    changes: u32,
    /// How often everything was to be opened anew, modulo 2³².
    generation: u32,
    /// The time of this turn, and as many units of it as an open file serves.
    now: u64,
    fresh: u64,
    /// Seconds since 1970, if that is known.
    today: Option<u64>,
    /// Whether something was changed through here.
    has_changed: bool,
}

impl Store {
    /// The files of a connection, for a server of so many connections. `uploads` says who may
    /// change them and how long a file may be. What is open serves for `fresh` units of time.
    pub fn connect(
        connection: &FileClient,
        slots: usize,
        uploads: Option<(Guard, u64)>,
        caching: Caching<'static>,
        fresh: u64,
    ) -> Self {
        let client = Client::<Tag>::connect(connection);
        let blocks = client.memory().len() / BLOCK;
        let stride = (blocks / 8).clamp(1, BUFFER) + 1;
        let (guard, offer) = match uploads {
            Some((guard, limit)) => (Some(guard), Offer::Write { limit }),
            None => (None, Offer::Read),
        };
        let shared = || Shared {
            path: String::new(),
            file: None,
            found: None,
            readers: 0,
            since: 0,
            is_stale: true,
            is_settled: false,
            generation: 0,
            life: 0,
            waiting: Vec::new(),
        };
        Self {
            changes: client.changes(),
            client,
            offer,
            guard,
            caching,
            jobs: (0..slots).map(|_| Job::default()).collect(),
            open: (0..OPEN).map(|_| shared()).collect(),
            changing: Vec::new(),
            left: Vec::new(),
            free: (0..(blocks / stride).min(usize::from(u16::MAX)) as u16).collect(),
            stride,
            waiting: Need::ALL.map(|_| VecDeque::with_capacity(slots)),
            has_room: false,
            news: VecDeque::with_capacity(slots),
            given: vec![0; (stride - 1) * BLOCK].into(),
            generation: 0,
            now: 0,
            fresh,
            today: None,
            has_changed: false,
        }
    }

    /// Tells the time of day, in seconds since 1970.
    pub fn set_today(&mut self, since_1970: u64) {
        self.today = Some(since_1970);
    }

    /// Begins a round: takes what was answered. The slots with news come from [`Self::news`].
    #[inline]
    pub fn begin_round(&mut self, now: u64) {
        self.now = now;
        self.client.begin();
        while let Some(Completion { tag, result }) = self.client.next_completion() {
            // What is complete makes room for another request.
            self.has_room = true;
            match tag {
                Tag::Opened { place, life } => self.opened(place, life, result.map(|done| done.info)),
                Tag::For(work) => self.answered(work, result.map(|done| done.info)),
                Tag::Changed(work) => self.changed(work, result.err()),
                Tag::Read(work, buffer) => self.read_ended(work, buffer, result.map(|done| done.count)),
                Tag::Wrote(work, buffer) => self.write_ended(work, buffer, result.err()),
            }
        }
        if self.client.changes() != self.changes {
            self.changes = self.client.changes();
            self.forget_all();
        }
        // Of some of what makes room, as of files that are closed, nobody tells.
        self.has_room |= self.somebody_waits();
    }

    /// The next slot for whose connection there is news.
    #[inline]
    pub fn news(&mut self) -> Option<usize> {
        if core::mem::take(&mut self.has_room) {
            self.go_on();
        }
        self.news.pop_front().map(usize::from)
    }

    /// Ends a round: sends what was asked for.
    #[inline]
    pub fn end_round(&mut self) -> Progress {
        let is_waited_for = self.has_room && self.somebody_waits();
        self.client.end_round() & Progress::more_if(is_waited_for || !self.news.is_empty())
    }

    fn tell(&mut self, slot: u16) {
        // One piece of news is enough, but several do no harm; a slot has few at a time.
        self.news.push_back(slot);
    }

    fn somebody_waits(&self) -> bool {
        self.waiting.iter().any(|slots| !slots.is_empty())
    }

    /// Whether others came earlier for the same.
    fn is_waited_for(&self, need: Need) -> bool {
        !self.waiting[need as usize].is_empty()
    }

    /// Gives those that wait for room what there is now. Who gets none goes on waiting, and is told
    /// nothing; it does not stand in the way of those that wait for other room.
    #[cold]
    fn go_on(&mut self) {
        for need in Need::ALL {
            // Who is served may have to wait for the same again, behind all others.
            for _ in 0..self.waiting[need as usize].len() {
                let Some(&slot) = self.waiting[need as usize].front() else { break };
                if !self.serve(slot) {
                    break;
                }
                if self.waiting[need as usize].front() == Some(&slot) {
                    self.stop_waiting(slot);
                }
                self.tell(slot);
            }
        }
    }

    /// Takes what a slot waits for, as far as it is there. Returns whether it was.
    fn serve(&mut self, slot: u16) -> bool {
        match &mut self.jobs[usize::from(slot)].state {
            State::Idle | State::Parked { .. } => true,
            State::Queued { path, seen } => {
                let (path, seen) = (core::mem::take(path), *seen);
                let is_served = self.take_place(slot, &path, seen);
                if !is_served {
                    self.jobs[usize::from(slot)].state = State::Queued { path, seen };
                }
                is_served
            }
            State::Reading { place, fetch: Fetch::Wanted { at, count }, .. } => {
                let (place, at, count) = (*place, *at, *count);
                let fetch = self.take_buffer(slot, place, at, count);
                self.set_fetch(slot, fetch);
                !matches!(fetch, Fetch::Wanted { .. })
            }
            State::Reading { .. } => true,
            State::Changing(change) if change.wants_buffer => match self.free.pop() {
                Some(buffer) => {
                    (change.wants_buffer, change.filling) = (false, Some((buffer, 0)));
                    true
                }
                None => false,
            },
            State::Changing(_) => self.take_request(slot),
        }
    }

    /// Has the slot tried again when something has become free.
    fn wait(&mut self, slot: u16, need: Need) {
        if self.jobs[usize::from(slot)].waits != Some(need) {
            self.stop_waiting(slot);
            self.jobs[usize::from(slot)].waits = Some(need);
            self.waiting[need as usize].push_back(slot);
        }
    }

    fn stop_waiting(&mut self, slot: u16) {
        if let Some(need) = self.jobs[usize::from(slot)].waits.take() {
            self.waiting[need as usize].retain(|other| *other != slot);
        }
    }

    fn work(&self, slot: u16) -> Work {
        Work { slot, serial: self.jobs[usize::from(slot)].serial }
    }

    /// The job that this was asked for, if it is still the slot's.
    fn job(&mut self, work: Work) -> Option<&mut Job> {
        self.jobs.get_mut(usize::from(work.slot)).filter(|job| job.serial == work.serial)
    }

    /// Has a slot read the file at `path`, which has no slash in front; or go on reading it.
    fn attach(&mut self, slot: u16, path: &str, seen: Option<Seen>) {
        if !self.take_place(slot, path, seen) {
            self.jobs[usize::from(slot)].state = State::Queued { path: path.into(), seen };
            self.wait(slot, Need::Place);
        }
    }

    /// Has a slot read the file at `path` if there is a place for that: one where it is open, or
    /// one that no other slot waits for. Returns whether there is.
    fn take_place(&mut self, slot: u16, path: &str, seen: Option<Seen>) -> bool {
        let is_it = |shared: &Shared| !shared.is_stale && shared.path.get(1..) == Some(path);
        let is_fresh = |shared: &Shared| self.now.saturating_sub(shared.since) < self.fresh;
        let fresh = self.open.iter().position(|shared| is_it(shared) && is_fresh(shared));
        let is_full = self.open.iter().all(|shared| shared.readers > 0);
        let place = fresh.or_else(|| if self.is_next(slot, Need::Place) { self.open_file(path) } else { None });
        // What others read for longer is better than nothing.
        let is_it = |shared: &Shared| !shared.is_stale && shared.path.get(1..) == Some(path);
        let place = place.or_else(|| if is_full { self.open.iter().position(is_it) } else { None });
        let Some(place) = place else { return false };
        let shared = &mut self.open[place];
        shared.readers += 1;
        if shared.found.is_none() {
            shared.waiting.push(slot);
        }
        self.jobs[usize::from(slot)].state = State::Reading { place: place as u8, fetch: Fetch::None, seen };
        true
    }

    /// Takes the place of the file that is open for longest from its readers, if it is open for
    /// some time and nothing of it is on its way.
    #[cold]
    fn park_readers(&mut self) -> Option<usize> {
        let least = self.fresh.saturating_mul(HOLD);
        let is_old = |shared: &Shared| shared.found.is_some() && self.now.saturating_sub(shared.since) >= least;
        if !self.open.iter().any(is_old) {
            return None;
        }
        let mut is_quiet = [true; OPEN];
        for job in &self.jobs {
            if let State::Reading { place, fetch, .. } = job.state {
                is_quiet[usize::from(place)] &= matches!(fetch, Fetch::None);
            }
        }
        let quiet = self.open.iter().zip(is_quiet).enumerate();
        let quiet = quiet.filter(|(_, (shared, is_quiet))| *is_quiet && is_old(shared));
        let (place, (shared, _)) = quiet.min_by_key(|(_, (shared, _))| shared.since)?;
        let now = Seen { found: shared.found?, is_settled: shared.is_settled, generation: shared.generation };
        for job in &mut self.jobs {
            match job.state {
                State::Reading { place: other, seen, .. } if usize::from(other) == place => {
                    let path = shared.path.get(1..).unwrap_or_default().into();
                    job.state = State::Parked { path, seen: seen.unwrap_or(now) };
                }
                _ => {}
            }
        }
        self.open[place].readers = 0;
        Some(place)
    }

    /// Whether what is open at a place is what a reader has seen; nothing while it is being opened.
    fn is_still(&self, seen: &Seen, place: u8) -> Option<bool> {
        let shared = &self.open[usize::from(place)];
        let is_same = match (seen.found, shared.found?) {
            (Ok(then), Ok(now)) => now.is_same(&then),
            _ => false,
        };
        // Properties that were not settled may be those of another content.
        Some(is_same && (seen.is_settled || seen.generation == shared.generation))
    }

    /// What is found at a path, as HTTP has it.
    fn told(&self, seen: &Seen) -> Result<Found, Trouble> {
        match seen.found {
            Ok(info) if info.is_folder => Ok(Found::Folder),
            Ok(info) => {
                let entry = entry(&info, self.today, self.has_changed);
                Ok(Found::File(Entry { is_settled: entry.is_settled && seen.is_settled, ..entry }))
            }
            // A path through a file leads to nothing.
            Err(Error::NotFound | Error::WrongKind) => Ok(Found::Missing),
            Err(error) => Err(trouble(error)),
        }
    }

    /// Whether no other slot waits for the same longer.
    fn is_next(&self, slot: u16, need: Need) -> bool {
        self.waiting[need as usize].front().is_none_or(|first| *first == slot)
    }

    /// Begins to open a file for readers, in place of the one that is oldest among those without,
    /// or among those that can be opened again. Returns its place, if there is room.
    fn open_file(&mut self, path: &str) -> Option<usize> {
        let unread = self.open.iter().enumerate().filter(|(_, shared)| shared.readers == 0);
        let unread = unread.min_by_key(|(_, shared)| (!shared.is_stale, shared.since)).map(|(place, _)| place);
        let place = unread.or_else(|| self.park_readers())?;
        let path = format!("/{path}");
        let life = self.open[place].life.wrapping_add(1);
        // What is there is closed only if something comes in its place. The class allows more open
        // files than there are places and uploads, so that one more is no matter.
        let (file, found) = match self.client.open(&path, Mode::Read, Tag::Opened { place: place as u8, life }) {
            Ok(file) => (Some(file), None),
            Err(NotSent::Full | NotSent::Unknown | NotSent::Refused(Error::TooMany)) => return None,
            Err(NotSent::Refused(error)) => (None, Some(Err(error))),
        };
        self.shut(place);
        let shared = &mut self.open[place];
        (shared.path, shared.life, shared.file, shared.found) = (path, life, file, found);
        (shared.since, shared.is_stale, shared.is_settled) = (self.now, false, false);
        shared.generation = self.generation;
        Some(place)
    }

    /// Closes a file that nobody reads.
    fn shut(&mut self, place: usize) {
        let shared = &mut self.open[place];
        (shared.is_stale, shared.found) = (true, None);
        if let Some(file) = shared.file.take() {
            self.client.close(file);
        }
    }

    /// Has everything opened anew.
    fn forget_all(&mut self) {
        self.generation = self.generation.wrapping_add(1);
        for place in 0..self.open.len() {
            self.open[place].is_stale = true;
            if self.open[place].readers == 0 {
                self.shut(place);
            }
        }
    }

    fn opened(&mut self, place: u8, life: u32, result: Result<Option<Info>, Error>) {
        let Some(shared) = self.open.get_mut(usize::from(place)).filter(|shared| shared.life == life) else { return };
        if result.is_err() {
            // There is no such file, and so nothing to close.
            (shared.file, shared.is_stale) = (None, true);
        }
        let found = result.and_then(|info| info.ok_or(Error::Failed));
        shared.is_settled = found.is_ok_and(|info| entry(&info, self.today, self.has_changed).is_settled);
        shared.found = Some(found);
        let waiting = core::mem::take(&mut shared.waiting);
        for slot in waiting {
            self.tell(slot);
        }
    }

    /// Asks for bytes of a file, or waits for the room that it takes.
    fn fetch(&mut self, slot: u16, place: u8, at: u64, count: u32) {
        let fetch = match self.is_waited_for(Need::Buffer) {
            true => Fetch::Wanted { at, count },
            false => self.take_buffer(slot, place, at, count),
        };
        self.set_fetch(slot, fetch);
        if let Fetch::Wanted { .. } = fetch {
            self.wait(slot, Need::Buffer);
        }
    }

    /// Asks for bytes of a file if there is room.
    fn take_buffer(&mut self, slot: u16, place: u8, at: u64, count: u32) -> Fetch {
        let Some(file) = self.open[usize::from(place)].file else { return Fetch::Failed(Trouble::Failed) };
        let Some(buffer) = self.free.pop() else { return Fetch::Wanted { at, count } };
        let tag = Tag::Read(self.work(slot), buffer);
        match self.client.read(file, at, self.first_block(buffer), count, tag) {
            Ok(()) => Fetch::Asked { at },
            Err(error) => {
                self.free.push(buffer);
                match error {
                    NotSent::Full | NotSent::Unknown => Fetch::Wanted { at, count },
                    NotSent::Refused(error) => Fetch::Failed(trouble(error)),
                }
            }
        }
    }

    fn first_block(&self, buffer: u16) -> u32 {
        (usize::from(buffer) * self.stride) as u32
    }

    fn set_fetch(&mut self, slot: u16, new: Fetch) {
        if let State::Reading { fetch, .. } = &mut self.jobs[usize::from(slot)].state {
            *fetch = new;
        }
    }

    fn read_ended(&mut self, work: Work, buffer: u16, result: Result<u32, Error>) {
        match self.job(work).map(|job| &mut job.state) {
            Some(State::Reading { fetch, .. }) => {
                let at = match fetch {
                    Fetch::Asked { at } => *at,
                    _ => 0,
                };
                let is_here = match result {
                    Ok(count) if count > 0 => {
                        *fetch = Fetch::Here { at, buffer, count };
                        true
                    }
                    // The file is shorter than its properties said.
                    Ok(_) => {
                        *fetch = Fetch::Failed(Trouble::Failed);
                        false
                    }
                    Err(error) => {
                        *fetch = Fetch::Failed(trouble(error));
                        false
                    }
                };
                if !is_here {
                    self.release(buffer);
                }
                self.tell(work.slot);
            }
            _ => self.release(buffer),
        }
    }

    fn release(&mut self, buffer: u16) {
        self.free.push(buffer);
        self.has_room = true;
    }
}

impl Files for Store {
    fn offer(&self) -> Offer {
        self.offer
    }

    fn permit(&mut self, token: Option<&[u8]>, peer: u64, now: u64) -> Permission {
        self.guard.as_mut().map_or(Permission::Denied, |guard| guard.permit(token, peer, now))
    }

    fn begin(&mut self, slot: usize, purpose: Purpose, path: &str) {
        let slot = slot as u16;
        match purpose {
            Purpose::Read => self.attach(slot, path, None),
            Purpose::Change => {
                let path = format!("/{path}");
                let is_changed = |other: &u16| match &self.jobs[usize::from(*other)].state {
                    State::Changing(change) => is_same_name(&change.path, &path),
                    _ => false,
                };
                let is_taken = self.changing.iter().any(is_changed)
                    || self.left.iter().any(|(_, other)| is_same_name(other, &path));
                let change = Change {
                    path,
                    stage: Stage::Finding,
                    is_sent: is_taken,
                    found: is_taken.then_some(Err(Trouble::Busy)),
                    outcome: None,
                    file: None,
                    wants_buffer: false,
                    filling: None,
                    writes: 0,
                    failed: None,
                };
                self.changing.push(slot);
                self.jobs[usize::from(slot)].state = State::Changing(Box::new(change));
                self.change(slot);
            }
        }
    }

    fn found(&mut self, slot: usize) -> Option<Result<Found, Trouble>> {
        match &self.jobs[slot].state {
            State::Reading { seen: Some(seen), .. } | State::Parked { seen, .. } => Some(self.told(seen)),
            State::Reading { place, seen: None, .. } => {
                let shared = &self.open[usize::from(*place)];
                let (is_settled, generation) = (shared.is_settled, shared.generation);
                Some(self.told(&Seen { found: shared.found?, is_settled, generation }))
            }
            State::Changing(change) => change.found,
            State::Queued { seen, .. } => seen.as_ref().map(|seen| self.told(seen)),
            // Nothing was begun, since no file can have such a path.
            State::Idle => Some(Ok(Found::Missing)),
        }
    }

    fn read(&mut self, slot: usize, at: u64, count: usize) -> Result<&[u8], Trouble> {
        if let State::Parked { path, seen } = &mut self.jobs[slot].state {
            let (path, seen) = (core::mem::take(path), *seen);
            self.attach(slot as u16, &path, Some(seen));
        }
        let (place, fetch) = match &self.jobs[slot].state {
            State::Reading { place, seen: Some(seen), .. } => match self.is_still(seen, *place) {
                Some(true) => (*place, Fetch::None),
                Some(false) => return Err(Trouble::Failed),
                None => return Ok(&[]),
            },
            State::Reading { place, fetch, seen: None } => (*place, *fetch),
            State::Queued { .. } => return Ok(&[]),
            _ => return Err(Trouble::Failed),
        };
        if let State::Reading { seen, .. } = &mut self.jobs[slot].state {
            *seen = None;
        }
        let count = count.min(self.given.len());
        match fetch {
            Fetch::Failed(trouble) => Err(trouble),
            Fetch::Wanted { .. } | Fetch::Asked { .. } => Ok(&[]),
            Fetch::None => {
                self.fetch(slot as u16, place, at, count as u32);
                Ok(&[])
            }
            Fetch::Here { at: from, buffer, count: here } => {
                self.set_fetch(slot as u16, Fetch::None);
                self.release(buffer);
                let begin = usize::from(buffer) * self.stride * BLOCK + from as usize % BLOCK;
                let length = count.min(here as usize);
                let into = self.given.get_mut(..length).ok_or(Trouble::Failed)?;
                if from != at || self.client.memory().read(begin, into).is_err() {
                    return Err(Trouble::Failed);
                }
                Ok(&self.given[..length])
            }
        }
    }

    fn replace(&mut self, slot: usize, _: Option<u64>) {
        let is_upload = |slot: &&u16| match &self.jobs[usize::from(**slot)].state {
            State::Changing(change) => !matches!(change.stage, Stage::Finding | Stage::Removing),
            _ => false,
        };
        let uploads = self.changing.iter().filter(is_upload).count();
        // Clients that are slow to upload leave half of the buffers to others.
        let total = self.client.memory().len() / BLOCK / self.stride;
        let most = UPLOADS.min(total / 2).max(1);
        let State::Changing(change) = &mut self.jobs[slot].state else { return };
        (change.stage, change.is_sent, change.outcome) = (Stage::Creating, false, None);
        if uploads >= most {
            (change.stage, change.is_sent, change.outcome) = (Stage::Finding, true, Some(Err(Trouble::Busy)));
            return;
        }
        self.change(slot as u16);
    }

    fn write(&mut self, slot: usize, bytes: &[u8]) -> Result<usize, Trouble> {
        let (size, stride) = (self.given.len(), self.stride);
        let is_free = !self.is_waited_for(Need::Buffer);
        let State::Changing(change) = &mut self.jobs[slot].state else { return Err(Trouble::Failed) };
        if let Some(trouble) = change.failed {
            return Err(trouble);
        }
        let (buffer, filled) = match change.filling {
            Some(filling) => filling,
            None if change.writes >= WRITES => return Ok(0),
            None => {
                let Some(buffer) = self.free.pop_if(|_| is_free) else {
                    change.wants_buffer = true;
                    self.wait(slot as u16, Need::Buffer);
                    return Ok(0);
                };
                (buffer, 0)
            }
        };
        let count = bytes.len().min(size - filled);
        let begin = usize::from(buffer) * stride * BLOCK + filled;
        change.filling = Some((buffer, filled + count));
        self.client.memory().write(begin, &bytes[..count]).map_err(|_| Trouble::Failed)?;
        self.change(slot as u16);
        Ok(count)
    }

    fn commit(&mut self, slot: usize) {
        let State::Changing(change) = &mut self.jobs[slot].state else { return };
        (change.stage, change.is_sent, change.outcome) = (Stage::Committing, false, None);
        self.change(slot as u16);
    }

    fn remove(&mut self, slot: usize) {
        let State::Changing(change) = &mut self.jobs[slot].state else { return };
        (change.stage, change.is_sent, change.outcome) = (Stage::Removing, false, None);
        self.change(slot as u16);
    }

    fn done(&mut self, slot: usize) -> Option<Result<(), Trouble>> {
        match &self.jobs[slot].state {
            State::Changing(change) => change.outcome,
            _ => Some(Err(Trouble::Failed)),
        }
    }

    fn close(&mut self, slot: usize) {
        self.stop_waiting(slot as u16);
        let work = self.work(slot as u16);
        let job = &mut self.jobs[slot];
        job.serial = job.serial.wrapping_add(1);
        match core::mem::take(&mut job.state) {
            State::Idle | State::Queued { .. } | State::Parked { .. } => {}
            State::Reading { place, fetch, .. } => {
                if let Fetch::Here { buffer, .. } = fetch {
                    self.release(buffer);
                }
                let shared = &mut self.open[usize::from(place)];
                shared.waiting.retain(|other| usize::from(*other) != slot);
                shared.readers = shared.readers.saturating_sub(1);
                if shared.readers == 0 {
                    self.has_room = true;
                    if shared.is_stale {
                        self.shut(usize::from(place));
                    }
                }
            }
            State::Changing(change) => {
                self.changing.retain(|other| usize::from(*other) != slot);
                if let Some((buffer, _)) = change.filling {
                    self.release(buffer);
                }
                if let Some(file) = change.file {
                    self.client.close(file);
                }
                // Its name stays taken until it is known what becomes of it.
                if change.is_changing() {
                    self.left.push((work, change.path));
                }
                self.has_room = true;
            }
        }
    }

    fn cache_control(&self, path: &str) -> &str {
        self.caching.of(path)
    }
}
