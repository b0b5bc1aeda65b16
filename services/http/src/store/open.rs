//! Files that are open for readers: who shares which, and when one is opened anew.

use super::content::Content;
use super::properties::{is_same_name, is_strong, modified, trouble, version};
use super::reading::Fetch;
use super::waiting::Need;
use super::{State, Store, Tag};
use alloc::format;
use alloc::string::String;
use alloc::vec::Vec;
use culm_file::{Error, File, Info, Mode, NotSent};
use culm_http::files::{Entry, Found, KeptHead, Trouble};

/// Files that are open for readers at a time. With the uploads they are fewer than the class
/// allows.
pub(super) const OPEN: usize = 20;

/// The time for which a file stays open in any case while others wait for its place, in multiples
/// of that for which what is open serves those who come later.
const HOLD: u64 = 3;

/// The time for which a file stays open at most while somebody reads it, in the same multiples. By
/// then nobody else may see it any more, and its space is nobody else's for as long as it is open.
const LONGEST: u64 = 300;

/// Versions of files that are open although others are known to have taken their places.
const OLD_VERSIONS: usize = 2;

/// A file that is open for readers, or about to be.
#[derive(Default)]
pub(super) struct Shared {
    /// With the slash in front.
    pub(super) path: String,
    pub(super) file: Option<File>,
    /// The outcome; none while it is being opened.
    pub(super) found: Option<Result<Info, Error>>,
    pub(super) readers: u32,
    /// Since when it is open: later readers open it anew.
    pub(super) since: u64,
    /// Whether later readers open it anew in any case.
    pub(super) is_stale: bool,
    /// Whether the path is known to lead to another file by now, or to none.
    pub(super) is_replaced: bool,
    /// Whether it is closed, or gives way to another, as soon as nothing of it is under way: no
    /// reader comes to it, and none goes on.
    pub(super) is_leaving: bool,
    /// When it was changed, as HTTP writes it.
    pub(super) modified: Option<[u8; 29]>,
    /// Whether its version was strong when it was opened, and which [`Store::generation`]
    /// there was then.
    pub(super) is_strong: bool,
    pub(super) generation: u32,
    /// How often the place was used.
    pub(super) life: u32,
    /// The slots that wait for it to be open, or for its content.
    pub(super) waiting: Vec<u16>,
    pub(super) content: Content,
    pub(super) head: KeptHead,
}

impl Shared {
    /// The outcome for a reader; none while it is being opened.
    #[inline]
    pub(super) fn seen(&self) -> Option<Seen> {
        let Self { found, modified, is_strong, generation, .. } = *self;
        Some(Seen { found: found?, modified, is_strong, generation })
    }

    /// Whether what is replaced is open for somebody who reads it.
    fn is_old_version(&self) -> bool {
        self.is_replaced && matches!(self.found, Some(Ok(_))) && self.readers > 0 && !self.is_leaving
    }

    /// Whether both are open, and one version of one file.
    fn is_same_version(&self, other: &Self) -> bool {
        matches!((self.found, other.found), (Some(Ok(one)), Some(Ok(other))) if one.is_same(&other))
    }
}

/// The outcome of opening a file for a reader.
#[derive(Clone, Copy)]
pub(super) struct Seen {
    found: Result<Info, Error>,
    modified: Option<[u8; 29]>,
    is_strong: bool,
    generation: u32,
}

impl Seen {
    /// Whether it is what is found now.
    pub(super) fn is_still(&self, now: &Self) -> bool {
        let is_same = match (self.found, now.found) {
            (Ok(then), Ok(now)) => now.is_same(&then),
            _ => false,
        };
        // A version that was not strong may be that of another content.
        is_same && (self.is_strong || self.generation == now.generation)
    }
}

impl Store {
    /// Has a slot read the file at `path`, which has no slash in front; or go on reading it.
    pub(super) fn attach(&mut self, slot: u16, path: &str, seen: Option<Seen>) {
        if !self.take_place(slot, path, seen) {
            self.jobs[usize::from(slot)].state = State::Queued { path: path.into(), seen };
            self.wait(slot, Need::Place);
        }
    }

    /// Has a slot read the file at `path` if there is a place for that: one where it is open, or
    /// one that no other slot waits for. Returns whether there is.
    pub(super) fn take_place(&mut self, slot: u16, path: &str, seen: Option<Seen>) -> bool {
        let is_it = |shared: &Shared| !shared.is_stale && !shared.is_leaving && shared.path.get(1..) == Some(path);
        let is_fresh = |shared: &Shared| self.now.saturating_sub(shared.since) < self.fresh;
        let fresh = self.open.iter().position(|shared| is_it(shared) && is_fresh(shared));
        // Who goes on reading wants what it has seen, however long that is open.
        let is_seen = |shared: &Shared| seen.is_some_and(|then| shared.seen().is_some_and(|now| then.is_still(&now)));
        let place = fresh.or_else(|| self.open.iter().position(|shared| is_it(shared) && is_seen(shared)));
        let is_full = self.open.iter().all(|shared| shared.readers > 0);
        let place = place.or_else(|| if self.is_next(slot, Need::Place) { self.open_file(path) } else { None });
        // If no place is free, share a file that is open for longer than `fresh`.
        let is_it = |shared: &Shared| !shared.is_stale && !shared.is_leaving && shared.path.get(1..) == Some(path);
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

    /// Begins to open a file for readers, in place of its earlier version, of the one that is
    /// oldest among those without readers, or among those that can be opened again. Returns its
    /// place, if there is room.
    fn open_file(&mut self, path: &str) -> Option<usize> {
        let path = format!("/{path}");
        let unread = self.open.iter().enumerate().filter(|(_, shared)| shared.readers == 0);
        let unread = unread
            .min_by_key(|(_, shared)| (shared.path != path, !shared.is_stale && !shared.is_leaving, shared.since))
            .map(|(place, _)| place);
        let place = unread.or_else(|| self.park_readers())?;
        let life = self.open[place].life.wrapping_add(1);
        // Close the old file only after the new one was asked for: a failure leaves it open. The
        // class allows one file more than there are places and uploads.
        let (file, found) = match self.client.open(&path, Mode::Read, Tag::Opened { place: place as u8, life }) {
            Ok(file) => (Some(file), None),
            Err(NotSent::Full | NotSent::Unknown | NotSent::Refused(Error::TooMany)) => return None,
            Err(NotSent::Refused(error)) => (None, Some(Err(error))),
        };
        self.shut(place);
        let shared = &mut self.open[place];
        shared.head = KeptHead::default();
        (shared.path, shared.life, shared.file, shared.found) = (path, life, file, found);
        (shared.is_stale, shared.is_replaced, shared.is_leaving) = (false, false, false);
        (shared.since, shared.is_strong) = (self.now, false);
        shared.generation = self.generation;
        Some(place)
    }

    /// Takes a place from its readers that is open for some time. Returns it if nobody is left.
    #[cold]
    fn park_readers(&mut self) -> Option<usize> {
        let place = self.open.iter().position(|shared| shared.is_leaving && shared.readers > 0);
        let place = place.or_else(|| self.choose_place())?;
        self.give_up(place);
        (self.open[place].readers == 0).then_some(place)
    }

    /// Takes a place from its readers: at once from those of whose reads none is under way, and
    /// from the others as theirs end. They go on where the file is opened anew and is the same.
    ///
    /// If it waited for a place of which nothing is under way, readers that a disk is slow to serve
    /// would keep all others away: each of them has asked, or wants to ask, for more all the time.
    #[cold]
    fn give_up(&mut self, place: usize) {
        self.open[place].is_leaving = true;
        for slot in 0..self.jobs.len() {
            let job = &mut self.jobs[slot];
            match job.state {
                State::Reading { place: other, fetch, .. } if usize::from(other) == place && !job.is_busy() => {
                    if let Fetch::Wanted { .. } = fetch {
                        job.has_yielded = true;
                        // It waits for a buffer no more, so nothing else would tell it to go on.
                        self.stop_waiting(slot as u16);
                        self.tell(slot as u16);
                    }
                    self.park(slot as u16);
                }
                _ => {}
            }
        }
    }

    /// Chooses the place that is taken from its readers, among those that are open for some time:
    /// one of which nothing is under way, one of a path that is open in another place too, the
    /// oldest.
    fn choose_place(&self) -> Option<usize> {
        let least = self.fresh.saturating_mul(HOLD);
        let is_old = |shared: &Shared| shared.found.is_some() && self.now.saturating_sub(shared.since) >= least;
        if !self.open.iter().any(is_old) {
            return None;
        }
        let mut is_busy = [false; OPEN];
        for job in &self.jobs {
            if let State::Reading { place, .. } = job.state {
                is_busy[usize::from(place)] |= job.is_busy();
            }
        }
        let is_alone = |path: &str| self.open.iter().filter(|shared| shared.path == path).count() < 2;
        let old = self.open.iter().zip(is_busy).enumerate().filter(|(_, (shared, _))| is_old(shared));
        let chosen = old.min_by_key(|(_, (shared, is_busy))| (*is_busy, is_alone(&shared.path), shared.since));
        chosen.map(|(place, _)| place)
    }

    /// Takes a reader's place from it, if something was found there. It goes on when it wants more.
    pub(super) fn park(&mut self, slot: u16) {
        let State::Reading { place, seen, .. } = self.jobs[usize::from(slot)].state else { return };
        let shared = &self.open[usize::from(place)];
        let Some(seen) = seen.or(shared.seen()) else { return };
        let path = shared.path.get(1..).unwrap_or_default().into();
        self.jobs[usize::from(slot)].state = State::Parked { path, seen };
        self.leave(usize::from(place));
    }

    /// Takes it that a reader of a place has gone.
    pub(super) fn leave(&mut self, place: usize) {
        let shared = &mut self.open[place];
        shared.readers = shared.readers.saturating_sub(1);
        if shared.readers == 0 {
            self.has_room = true;
            if shared.is_stale {
                self.shut(place);
            }
        }
    }

    /// Looks through what is open, which is to be done each `fresh` units of time while
    /// [`Self::has_open_files`]: closes what serves nobody, for the space of a file that is
    /// replaced or removed is free only then; and has those who read for long go on with what is
    /// there now.
    pub fn patrol(&mut self) {
        for place in 0..self.open.len() {
            let shared = &self.open[place];
            let age = self.now.saturating_sub(shared.since);
            // Who reads a version that is not strong would be broken off, were there any change.
            let is_safe = shared.is_replaced || shared.is_strong || shared.generation == self.generation;
            let is_over = is_safe && age >= self.fresh.saturating_mul(LONGEST);
            if shared.readers > 0 && (shared.is_leaving || is_over) {
                self.give_up(place);
            } else if shared.readers == 0 && shared.file.is_some() && age >= self.fresh {
                self.shut(place);
            }
        }
        self.limit_old_versions();
        self.create_again();
    }

    /// Whether files are open for readers, or were a moment ago.
    pub fn has_open_files(&self) -> bool {
        self.open.iter().any(|shared| shared.file.is_some())
    }

    /// Gives up whatever may be an old version, whose space others need. Returns whether there was
    /// any.
    pub(super) fn make_space(&mut self) -> bool {
        let mut was_any = false;
        for place in 0..self.open.len() {
            let shared = &self.open[place];
            let is_old = shared.is_stale || self.now.saturating_sub(shared.since) >= self.fresh;
            if shared.file.is_none() || !is_old {
                continue;
            }
            was_any = true;
            match shared.readers {
                0 => self.shut(place),
                _ => self.give_up(place),
            }
        }
        was_any
    }

    /// Takes it that another file is at a path, or none. Those who read what was there go on with
    /// that, but only so many such versions stay open: readers who are slow on purpose would keep
    /// the space of each.
    pub(super) fn replaced(&mut self, path: &str) {
        for shared in &mut self.open {
            // One that is being opened may be the new one.
            shared.is_replaced |= matches!(shared.found, Some(Ok(_))) && is_same_name(&shared.path, path);
        }
        self.limit_old_versions();
    }

    /// Takes it that what is at the path of a place, which was opened just now, has replaced what
    /// was found there before: another component may have changed it.
    fn replaced_by(&mut self, place: usize) {
        for other in 0..self.open.len() {
            let (old, new) = (&self.open[other], &self.open[place]);
            let is_older = old.readers > 0 && old.since < new.since && !old.is_same_version(new);
            if is_older && is_same_name(&old.path, &new.path) {
                (self.open[other].is_replaced, self.open[other].is_stale) = (true, true);
            }
        }
        self.limit_old_versions();
    }

    /// Takes their places from the readers of the oldest old versions until few enough are left,
    /// but for those that are open for a moment only: fast readers end with what they began.
    fn limit_old_versions(&mut self) {
        loop {
            let old = || self.open.iter().enumerate().filter(|(_, shared)| shared.is_old_version());
            // One version can be open in several places.
            let is_counted = |place: usize, shared: &Shared| {
                old().any(|(earlier, other)| earlier < place && other.is_same_version(shared))
            };
            if old().filter(|(place, shared)| !is_counted(*place, shared)).count() <= OLD_VERSIONS {
                return;
            }
            let Some((oldest, shared)) = old().min_by_key(|(_, shared)| shared.since) else { return };
            if self.now.saturating_sub(shared.since) < self.fresh.saturating_mul(HOLD) {
                return;
            }
            self.give_up(oldest);
        }
    }

    /// Closes a file that nobody reads.
    pub(super) fn shut(&mut self, place: usize) {
        self.forget_content(place);
        let shared = &mut self.open[place];
        (shared.is_stale, shared.found) = (true, None);
        if let Some(file) = shared.file.take() {
            self.client.close(file);
        }
    }

    /// Has everything opened anew.
    pub(super) fn forget_all(&mut self) {
        self.generation = self.generation.wrapping_add(1);
        for place in 0..self.open.len() {
            self.open[place].is_stale = true;
            if self.open[place].readers == 0 {
                self.shut(place);
            }
        }
    }

    pub(super) fn opened(&mut self, place: u8, life: u32, result: Result<Option<Info>, Error>) {
        let Some(shared) = self.open.get_mut(usize::from(place)).filter(|shared| shared.life == life) else { return };
        if result.is_err() {
            // There is no such file, and so nothing to close.
            (shared.file, shared.is_stale) = (None, true);
        }
        let found = result.and_then(|info| info.ok_or(Error::Failed));
        shared.is_strong = found.is_ok_and(|info| is_strong(&info, self.today, self.has_changed));
        shared.modified = found.ok().and_then(|info| modified(&info));
        shared.found = Some(found);
        self.replaced_by(usize::from(place));
        let shared = &mut self.open[usize::from(place)];
        let waiting = core::mem::take(&mut shared.waiting);
        for slot in waiting {
            self.tell(slot);
        }
    }

    /// Returns the outcome of opening a path, in HTTP's terms.
    pub(super) fn told(&self, seen: &Seen) -> Result<Found, Trouble> {
        match seen.found {
            Ok(info) if info.is_folder => Ok(Found::Folder),
            Ok(info) => {
                let is_strong = seen.is_strong && is_strong(&info, self.today, self.has_changed);
                Ok(Found::File(Entry {
                    length: info.size,
                    version: version(&info),
                    is_strong,
                    modified: seen.modified,
                }))
            }
            // A path through a file leads to nothing.
            Err(Error::NotFound | Error::WrongKind) => Ok(Found::Missing),
            Err(error) => Err(trouble(error)),
        }
    }
}
