//! Files of the file class as the server's files that are not in memory.
//!
//! * **Open files.** What was opened for one reader serves all who ask for the same path within a
//!   second, and is closed when nobody reads it after that, or when its place is needed. After each
//!   change that goes through here everything is opened anew, since one file can have several
//!   names. While all places are taken, a file that was opened some seconds ago is closed, once
//!   what is on its way of it is there: its readers have it opened again when they go on, and break
//!   off if it is not the same any more. So neither slow readers nor many keep anybody from other
//!   files. What is open keeps its space, although others have replaced it: few such versions stay
//!   open.
//! * **Buffers.** The client's memory is divided into buffers. Half of them are for what is on its
//!   way. A reader has one only from the request to the disk until the bytes are in the send
//!   buffer: a client that reads slowly holds none. An upload holds one that it fills, and those
//!   that are being written.
//! * **Content.** The other half is for the content of files that fit a buffer: it is read once for
//!   all who read the open file, and stays for as long as that is open, or until another one needs
//!   the buffer. So it is never older than an open file may be, and large files drive nothing out.
//! * **Waiting.** What finds no room (of open files, buffers, requests under way) waits for it, in
//!   the order in which it came: who comes later never gets what another one waits for.
//!
//! Each slot's work has a serial number, which comes back with whatever was asked for it: what
//! comes late, after the slot has turned to other work, only gives its buffer back.

mod changes;
mod content;
mod open;
mod properties;
mod reading;
mod waiting;

use alloc::boxed::Box;
use alloc::collections::VecDeque;
use alloc::format;
use alloc::string::String;
use alloc::vec::Vec;
use changes::{Change, Stage};
use core::net::IpAddr;
use culm::Progress;
use culm::connection::FileClient;
use culm_file::{BLOCK, Client, Completion};
use culm_guard::{Guard, TooMany};
use culm_http::Caching;
use culm_http::files::{Files, Found, KeptHead, Offer, Permission, Purpose, Trouble};
use open::{OPEN, Seen, Shared};
use properties::is_same_name;
use reading::{Fetch, Piece};
use waiting::Need;

/// Uploads at a time.
const UPLOADS: usize = 8;

/// Blocks of a buffer's data at most.
const BUFFER: usize = 64;

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
    /// All of a file, for all of its readers.
    Content { place: u8, life: u32, buffer: u16 },
    /// Bytes of an upload.
    Wrote(Work, u16),
}

/// A slot's work.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Work {
    slot: u16,
    serial: u32,
}

#[derive(Default)]
struct Job {
    serial: u32,
    /// The room that it waits for.
    waits: Option<Need>,
    /// Whether it has lost its turn for a buffer, since others needed the place of its file, and
    /// has got no bytes since.
    has_yielded: bool,
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
        /// The properties that the file must still have, if it was opened again for this reader.
        seen: Option<Seen>,
    },
    /// Has read, or found out what there is; the file was closed meanwhile.
    Parked {
        path: String,
        seen: Seen,
    },
    Changing(Box<Change>),
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
    /// The buffers that nobody has: for what is on its way, and for content.
    free: Vec<u16>,
    free_for_content: Vec<u16>,
    /// How many there are for what is on its way.
    buffers: usize,
    /// Blocks of a buffer, with the one that data which begins within a block has in addition.
    stride: usize,
    /// The slots that wait for each [`Need`], in the order in which they came.
    waiting: [VecDeque<u16>; Need::ALL.len()],
    /// Whether something that others wait for became free.
    has_room: bool,
    news: VecDeque<u16>,
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
        let stride = (blocks / 16).clamp(1, BUFFER) + 1;
        let (guard, offer) = match uploads {
            Some((guard, limit)) => (Some(guard), Offer::Write { limit }),
            None => (None, Offer::Read),
        };
        let total = (blocks / stride).min(usize::from(u16::MAX)) as u16;
        let buffers = total - total / 2;
        Self {
            changes: client.changes(),
            client,
            offer,
            guard,
            caching,
            jobs: (0..slots).map(|_| Job::default()).collect(),
            open: (0..OPEN).map(|_| Shared { is_stale: true, ..Shared::default() }).collect(),
            changing: Vec::new(),
            left: Vec::new(),
            free: (0..buffers).collect(),
            free_for_content: (buffers..total).collect(),
            buffers: buffers.into(),
            stride,
            waiting: Need::ALL.map(|_| VecDeque::with_capacity(slots)),
            has_room: false,
            news: VecDeque::with_capacity(slots),
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
            // A completion makes room for another request.
            self.has_room = true;
            match tag {
                Tag::Opened { place, life } => self.opened(place, life, result.map(|done| done.info)),
                Tag::For(work) => self.answered(work, result.map(|done| done.info)),
                Tag::Changed(work) => self.changed(work, result.err()),
                Tag::Read(work, buffer) => self.read_ended(work, buffer, result.map(|done| done.count)),
                Tag::Content { place, life, buffer } => {
                    self.content_ended(place, life, buffer, result.map(|done| done.count));
                }
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

    fn work(&self, slot: u16) -> Work {
        Work { slot, serial: self.jobs[usize::from(slot)].serial }
    }

    /// The job that this was asked for, if it is still the slot's.
    fn job(&mut self, work: Work) -> Option<&mut Job> {
        self.jobs.get_mut(usize::from(work.slot)).filter(|job| job.serial == work.serial)
    }
}

impl Files for Store {
    fn offer(&self) -> Offer {
        self.offer
    }

    fn permit(&mut self, token: Option<&[u8]>, peer: Option<IpAddr>, now: u64) -> Permission {
        match self.guard.as_mut().map(|guard| guard.permit(token, peer, now)) {
            Some(Ok(true)) => Permission::Granted,
            Some(Ok(false)) | None => Permission::Denied,
            Some(Err(TooMany)) => Permission::Later,
        }
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
                    length: 0,
                    again_at: None,
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
                self.open[usize::from(*place)].seen().map(|seen| self.told(&seen))
            }
            State::Changing(change) => change.found,
            State::Queued { seen, .. } => seen.as_ref().map(|seen| self.told(seen)),
            // Nothing was begun, since no file can have such a path.
            State::Idle => Some(Ok(Found::Missing)),
        }
    }

    fn fetch(&mut self, slot: usize, at: u64, count: usize) -> Result<usize, Trouble> {
        if let State::Reading { place, fetch: Fetch::None, .. } = self.jobs[slot].state
            && self.open[usize::from(place)].is_leaving
        {
            self.park(slot as u16);
        }
        if let State::Parked { path, seen } = &mut self.jobs[slot].state {
            let (path, seen) = (core::mem::take(path), *seen);
            self.attach(slot as u16, &path, Some(seen));
        }
        let State::Reading { place, fetch, seen } = &mut self.jobs[slot].state else {
            let is_queued = matches!(self.jobs[slot].state, State::Queued { .. });
            return if is_queued { Ok(0) } else { Err(Trouble::Failed) };
        };
        let (place, fetch) = (*place, *fetch);
        if let Some(then) = seen {
            let shared = &self.open[usize::from(place)];
            match shared.seen().map(|now| then.is_still(&now)) {
                Some(true) => *seen = None,
                Some(false) => return Err(Trouble::Changed),
                None => return Ok(0),
            }
        }
        match fetch {
            Fetch::Failed(trouble) => Err(trouble),
            Fetch::Here(piece) if piece.at == at => Ok(count.min((piece.end - at) as usize)),
            Fetch::Here(_) => Err(Trouble::Failed),
            Fetch::Wanted { .. } | Fetch::Asked { .. } | Fetch::Content => Ok(0),
            Fetch::None => match self.kept_content(place, at) {
                Some(piece) => Ok(count.min((piece.end - at) as usize)),
                None => {
                    self.ask_for(slot as u16, place, at, count.min(self.piece()) as u32);
                    Ok(0)
                }
            },
        }
    }

    fn take(&mut self, slot: usize, at: u64, into: &mut [u8]) -> usize {
        let State::Reading { place, fetch, seen: None } = self.jobs[slot].state else { return 0 };
        match fetch {
            Fetch::Here(piece) => {
                let count = self.copy(piece, at, into);
                let rest = Piece { at: at + count as u64, ..piece };
                self.set_fetch(slot as u16, if rest.at < rest.end { Fetch::Here(rest) } else { Fetch::None });
                if rest.at >= rest.end {
                    self.release(piece.buffer);
                }
                count
            }
            Fetch::None => self.kept_content(place, at).map_or(0, |piece| self.copy(piece, at, into)),
            _ => 0,
        }
    }

    fn kept_head(&mut self, slot: usize) -> Option<&mut KeptHead> {
        match self.jobs[slot].state {
            State::Reading { place, seen: None, .. } => Some(&mut self.open[usize::from(place)].head),
            _ => None,
        }
    }

    fn replace(&mut self, slot: usize, length: Option<u64>) {
        let is_upload = |slot: &&u16| match &self.jobs[usize::from(**slot)].state {
            State::Changing(change) => !matches!(change.stage, Stage::Finding | Stage::Removing),
            _ => false,
        };
        let uploads = self.changing.iter().filter(is_upload).count();
        // Clients that are slow to upload leave half of the buffers to others.
        let most = UPLOADS.min(self.buffers / 2).max(1);
        let State::Changing(change) = &mut self.jobs[slot].state else { return };
        (change.stage, change.is_sent, change.outcome) = (Stage::Creating, false, None);
        change.length = length.unwrap_or(0);
        if uploads >= most {
            (change.stage, change.is_sent, change.outcome) = (Stage::Finding, true, Some(Err(Trouble::Busy)));
            return;
        }
        self.change(slot as u16);
    }

    fn write(&mut self, slot: usize, bytes: &[u8]) -> Result<usize, Trouble> {
        let (size, stride) = (self.piece(), self.stride);
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
        job.has_yielded = false;
        match core::mem::take(&mut job.state) {
            State::Idle | State::Queued { .. } | State::Parked { .. } => {}
            State::Reading { place, fetch, .. } => {
                if let Fetch::Here(piece) = fetch {
                    self.release(piece.buffer);
                }
                let shared = &mut self.open[usize::from(place)];
                shared.waiting.retain(|other| usize::from(*other) != slot);
                self.leave(usize::from(place));
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
