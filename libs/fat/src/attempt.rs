//! Attempts: what each operation does in memory.

use crate::entry::Raw;
use crate::error::Error;
use crate::file::{File, FileId, Files};
use crate::folder::{self, Folder};
use crate::medium::{self, Session};
use crate::operation::{Answer, Operation, Space};
use crate::order::Stages;
use crate::pages::Stop;
use crate::path::{self, Known};
use crate::table::{self, Link};
use crate::volume::{Mounted, Outcome, Phase};
use core::cell::RefCell;

/// The most clusters that one part looks at to give them free.
const MOST_FREED: u32 = 8192;

/// The most chains that wait to be given free when an operation ends.
const MOST_WAITING: usize = 256;

impl Mounted {
    /// The progress of a count that has not begun: the first cluster, and none free before it.
    pub(crate) const NOT_COUNTED: (u32, u32) = (2, 0);

    pub(crate) fn new(session: Session, free: Option<u32>) -> Self {
        let is_marked = session.geometry.is_marked;
        Self {
            session: RefCell::new(session),
            files: Files::default(),
            known: Known::default(),
            doomed: Default::default(),
            after_free: Phase::Last,
            free,
            count: Self::NOT_COUNTED,
            is_counted: false,
            is_marked,
            is_doubtful: is_marked,
            recovery: None,
            uncounted: false,
        }
    }

    /// Tries a part of an operation. Its changes are in the overlay, and in the stages that it
    /// returns.
    pub(crate) fn attempt(&mut self, operation: &Operation, phase: Phase, read_only: bool) -> Result<Outcome, Stop> {
        let changes = !matches!(
            operation,
            Operation::Find { .. }
                | Operation::Open { .. }
                | Operation::Locate { .. }
                | Operation::List { .. }
                | Operation::Close { .. }
                | Operation::Count
                | Operation::Sync
        );
        if changes && read_only {
            return Err(Error::ReadOnly.into());
        }
        self.session.get_mut().begin_attempt();
        let mut mark = Stages::default();
        if !self.is_marked && (changes || phase == Phase::Free) && *operation != Operation::Rest {
            let session = self.session.get_mut();
            session.mark(true)?;
            mark.any_order(session, false);
        }
        let waiting = self.doomed.len();
        let outcome = match phase {
            Phase::First => self.first(operation),
            Phase::Free => self.free_part(),
            Phase::Link(_) | Phase::Join | Phase::Name => self.publish_part(operation, phase),
            Phase::Last => Ok(Outcome::end(Answer::Done)),
        };
        // `lamfat` may have gone on without the page.
        self.check_complete()?;
        let mut outcome = match outcome {
            // Chains that are still to be freed may make enough space: free some, then try again.
            Err(Stop::Fail(Error::Full | Error::Fragmented)) if !self.doomed.is_empty() => self.free_before(phase),
            outcome => outcome?,
        };
        if outcome.next == Phase::Last && self.doomed.len() > waiting {
            // This frees a short chain as a whole. The rest of a long one waits for
            // `Operation::Free`, so that no other operation waits for it.
            (outcome.next, self.after_free) = (Phase::Free, Phase::Last);
        }
        if !outcome.stages.is_empty() && !mark.is_empty() {
            outcome.stages.prepend(mark);
            self.is_marked = true;
        }
        Ok(outcome)
    }

    /// Takes what was written as what is on the medium.
    pub(crate) fn commit(&mut self) {
        let session = self.session.get_mut();
        let change = session.freed();
        session.pages.commit();
        session.pages.begin();
        if !core::mem::take(&mut self.uncounted) {
            self.free = self.free.and_then(|free| free.checked_add_signed(change));
        }
    }

    fn first(&mut self, operation: &Operation) -> Result<Outcome, Stop> {
        match operation {
            Operation::Mount => Err(Error::NotReady.into()),
            Operation::Recover => self.recover(),
            Operation::Find { path } => self.find_entry(path),
            Operation::Open { path } => self.open(path),
            Operation::Create { path } => self.create(path),
            Operation::Append { path } => self.append(path),
            Operation::Locate { file, offset } => self.locate(*file, *offset),
            Operation::Reserve { file, size } => self.reserve(*file, *size),
            Operation::Publish { file, size } => self.publish(*file, *size),
            Operation::Close { file } => self.close(*file),
            Operation::List { path, from, most } => self.list(path, *from, *most),
            Operation::MakeFolder { path } => self.make_folder(path),
            Operation::Remove { path } => self.remove(path),
            Operation::Rename { from, to, replace } => self.rename(from, to, *replace),
            Operation::Count | Operation::Rest if !self.doomed.is_empty() => Ok(self.free_before(Phase::First)),
            Operation::Free if !self.doomed.is_empty() => Ok(self.free_before(Phase::Last)),
            Operation::Free => Ok(Outcome::end(Answer::Done)),
            Operation::Count => self.count_free(),
            Operation::Sync => {
                let mut stages = Stages::default();
                stages.flush();
                Ok(Outcome::then(stages, Phase::Last))
            }
            Operation::Rest => self.rest(),
        }
    }

    /// Finds what a path names; `None` for the root.
    fn find(&mut self, path: &str) -> Result<Option<Raw>, Stop> {
        if let Some(raw) = self.known.get(path) {
            return Ok(Some(raw));
        }
        let found = folder::find(&self.session, path::names(path)?)?;
        if let Some(raw) = found {
            self.known.add(path, raw);
        }
        Ok(found)
    }

    /// Finds the file that a path names.
    fn find_file(&mut self, path: &str) -> Result<Raw, Stop> {
        let raw = self.find(path)?.ok_or(Error::IsAFolder)?;
        if raw.is_folder() {
            return Err(Error::IsAFolder.into());
        }
        let geometry = &self.session.get_mut().geometry;
        let first = raw.cluster(geometry);
        if (first != 0 || raw.size() != 0) && !geometry.has(first) {
            return Err(Error::Corrupt.into());
        }
        Ok(raw)
    }

    fn find_entry(&mut self, path: &str) -> Result<Outcome, Stop> {
        let found = self.find(path)?;
        let name = path::names(path)?.next_back().unwrap_or_default();
        let root = Raw { at: 0, bytes: Raw::ROOT };
        Ok(Outcome::end(Answer::Found(found.unwrap_or(root).seen(name.into()))))
    }

    fn open(&mut self, path: &str) -> Result<Outcome, Stop> {
        let raw = self.find_file(path)?;
        let geometry = &self.session.get_mut().geometry;
        let size = u64::from(raw.size());
        let first = if size == 0 { 0 } else { raw.cluster(geometry) };
        let file = File { entry: Some(raw.at), first, size, ..File::default() };
        Ok(Outcome::end(Answer::Opened { file: self.files.open(file)?, size }))
    }

    fn create(&mut self, path: &str) -> Result<Outcome, Stop> {
        let mut names = path::names(path)?;
        names.next_back().ok_or(Error::IsAFolder)?;
        let replaced = match self.find_file(path) {
            Ok(raw) if raw.is_read_only() => return Err(Error::ReadOnly.into()),
            // If two wrote the same file, the later one to publish would silently win.
            Ok(raw) if self.files.has_other_name(raw.at, path) => return Err(Error::Busy.into()),
            Ok(raw) => Some(raw.at),
            Err(Stop::Fail(Error::NotFound)) => {
                // Fail now, not when the file is published, if its folder is missing.
                let fs = medium::open(&self.session)?;
                Folder::follow(&self.session, &fs, names)?;
                None
            }
            Err(Stop::Fail(Error::Corrupt)) => None,
            Err(stop) => return Err(stop),
        };
        let file = File { path: Some(path.into()), replaced, has_end: true, ..File::default() };
        Ok(Outcome::end(Answer::Opened { file: self.files.open(file)?, size: 0 }))
    }

    fn append(&mut self, path: &str) -> Result<Outcome, Stop> {
        let raw = match self.find_file(path) {
            Err(Stop::Fail(Error::NotFound)) => return self.create(path),
            found => found?,
        };
        if raw.is_read_only() {
            return Err(Error::ReadOnly.into());
        }
        if self.files.is_written(raw.at, None) {
            return Err(Error::Busy.into());
        }
        let first = raw.cluster(&self.session.get_mut().geometry);
        let size = u64::from(raw.size());
        let file = File { path: Some(path.into()), entry: Some(raw.at), first, size, ..File::default() };
        Ok(Outcome::end(Answer::Opened { file: self.files.open(file)?, size }))
    }

    fn locate(&mut self, id: FileId, offset: u64) -> Result<Outcome, Stop> {
        self.files.make_room(id);
        let file = self.files.get_mut(id)?;
        let Session { pages, geometry, .. } = self.session.get_mut();
        let index = u32::try_from(offset / u64::from(geometry.cluster)).unwrap_or(u32::MAX);
        if file.fresh.first().is_none_or(|first| index < first.index) {
            file.learn(index, pages, geometry)?;
        }
        let place = file.place(offset, geometry);
        if place.is_none() && file.path.is_none() && offset < file.size {
            // The chain ends before the file does.
            return Err(Error::Corrupt.into());
        }
        Ok(Outcome::end(Answer::Located(place)))
    }

    /// Fails if a page was missing.
    pub(crate) fn check_complete(&mut self) -> Result<(), Stop> {
        if self.session.get_mut().pages.lacks() { Err(Stop::Missing) } else { Ok(()) }
    }

    /// Has a chain given free that no entry names any more, once nobody reads it.
    pub(crate) fn give_up(&mut self, first: u32) {
        if !self.session.get_mut().geometry.has(first) {
            return;
        }
        if self.files.is_open(first) {
            self.files.orphans.push(first);
        } else {
            self.doomed.push_front(first);
        }
    }

    fn close(&mut self, id: FileId) -> Result<Outcome, Stop> {
        let mut file = self.files.close(id)?;
        let session = self.session.get_mut();
        for extent in file.fresh.drain(..) {
            session.taken.release(extent.cluster, extent.count);
        }
        session.search.restart();
        if !self.files.is_open(file.first)
            && let Some(place) = self.files.orphans.iter().position(|orphan| *orphan == file.first)
        {
            self.files.orphans.swap_remove(place);
            self.doomed.push_front(file.first);
        }
        Ok(Outcome::end(Answer::Done))
    }

    /// Has some clusters given free before the operation goes on in this phase.
    fn free_before(&mut self, phase: Phase) -> Outcome {
        self.after_free = phase;
        Outcome::then(Stages::default(), Phase::Free)
    }

    /// Gives some clusters free that nothing names.
    fn free_part(&mut self) -> Result<Outcome, Stop> {
        let mut stages = Stages::default();
        let Some(mut next) = self.doomed.front().copied() else { return Ok(Outcome::then(stages, self.after_free)) };
        let session = self.session.get_mut();
        let mut left = true;
        let mut looked = 0;
        while looked < MOST_FREED && !session.pages.has_changed_most() {
            let following = table::get(&mut session.pages, &session.geometry, next)?;
            if matches!(following, Link::Next(_) | Link::End) {
                table::set(&mut session.pages, &session.geometry, next, 0)?;
            }
            looked += 1;
            let Link::Next(cluster) = following else {
                left = false;
                break;
            };
            next = cluster;
        }
        stages.any_order(session, true);
        session.search.restart();
        self.doomed.pop_front();
        if left {
            self.doomed.push_front(next);
        }
        // The queue is bounded: whoever removes many long files waits until some are freed.
        let is_enough = self.doomed.len() <= MOST_WAITING;
        Ok(Outcome::then(stages, if is_enough { self.after_free } else { Phase::Free }))
    }

    fn list(&mut self, path: &str, from: u64, most: usize) -> Result<Outcome, Stop> {
        let names = path::names(path)?;
        let fs = medium::open(&self.session)?;
        let folder = Folder::follow(&self.session, &fs, names)?;
        let (entries, next) = folder.list(from, most)?;
        Ok(Outcome::end(Answer::Listed { entries, next }))
    }

    fn make_folder(&mut self, path: &str) -> Result<Outcome, Stop> {
        let mut names = path::names(path)?;
        let last = names.next_back().ok_or(Error::Exists)?;
        self.session.get_mut().show_free()?;
        let at = {
            let fs = medium::open(&self.session)?;
            let folder = Folder::follow(&self.session, &fs, names)?;
            if folder.search(last)?.is_some() {
                return Err(Error::Exists.into());
            }
            folder.create_folder(last)?.at
        };
        let mut stages = Stages::default();
        stages.appearing(self.session.get_mut(), at, false);
        self.check_complete()?;
        self.known.clear();
        Ok(Outcome::then(stages, Phase::Last))
    }

    fn remove(&mut self, path: &str) -> Result<Outcome, Stop> {
        let mut names = path::names(path)?;
        let last = names.next_back().ok_or(Error::ReadOnly)?;
        let (at, first) = {
            let fs = medium::open(&self.session)?;
            let folder = Folder::follow(&self.session, &fs, names)?;
            let (raw, entry) = folder.search(last)?.ok_or(Error::NotFound)?;
            if raw.is_read_only() {
                return Err(Error::ReadOnly.into());
            }
            if self.files.is_written(raw.at, None) {
                return Err(Error::Busy.into());
            }
            if raw.is_folder() && !folder.enter(&raw, &entry)?.is_empty()? {
                return Err(Error::NotEmpty.into());
            }
            (raw.at, unname(&self.session, &folder, raw)?)
        };
        let mut stages = Stages::default();
        stages.disappearing(self.session.get_mut(), at, false);
        self.check_complete()?;
        self.known.clear();
        self.files.forget_entry(at);
        self.give_up(first);
        Ok(Outcome::then(stages, Phase::Last))
    }

    fn rename(&mut self, from: &str, to: &str, replace: bool) -> Result<Outcome, Stop> {
        let (mut from_names, mut to_names) = (path::names(from)?, path::names(to)?);
        let from_last = from_names.next_back().ok_or(Error::ReadOnly)?;
        let to_last = to_names.next_back().ok_or(Error::Exists)?;
        let mut stages = Stages::default();
        let mut replaced = 0;
        let disappeared = {
            let fs = medium::open(&self.session)?;
            let geometry = self.session.borrow().geometry;
            let from_folder = Folder::follow(&self.session, &fs, from_names)?;
            let (old, old_entry) = from_folder.search(from_last)?.ok_or(Error::NotFound)?;
            if self.files.is_written(old.at, None) {
                return Err(Error::Busy.into());
            }
            let mut to_folder = Folder::root(&self.session, &fs)?;
            for name in to_names {
                let (raw, entry) = to_folder.search(name)?.ok_or(Error::NotFound)?;
                if raw.at == old.at {
                    return Err(Error::IntoItself.into());
                }
                to_folder = to_folder.enter(&raw, &entry)?;
            }
            let mut new;
            match to_folder.search(to_last)?.map(|(raw, _)| raw) {
                Some(other) if other.at == old.at => {
                    return if from_last == to_last {
                        Ok(Outcome::end(Answer::Done))
                    } else {
                        Err(Error::Exists.into())
                    };
                }
                Some(other) if !replace || other.is_folder() || old.is_folder() => return Err(Error::Exists.into()),
                Some(other) if other.is_read_only() => return Err(Error::ReadOnly.into()),
                Some(other) if self.files.is_written(other.at, None) => return Err(Error::Busy.into()),
                Some(other) => {
                    replaced = other.cluster(&geometry);
                    new = other;
                    new.take_content(&old);
                    new.set_moved(true);
                    folder::put(&self.session, &new)?;
                    stages.any_order(&mut self.session.borrow_mut(), false);
                }
                None => {
                    new = to_folder.create_file(to_last)?;
                    new.take_all_but_name(&old);
                    new.set_moved(true);
                    folder::put(&self.session, &new)?;
                    stages.appearing(&mut self.session.borrow_mut(), new.at, false);
                }
            }
            if old.is_folder() && from_folder.cluster != to_folder.cluster {
                let inner = from_folder.enter(&old, &old_entry)?.parent_entry()?;
                if let Some(mut inner) = inner {
                    inner.set_content(to_folder.cluster, 0, &geometry);
                    folder::put(&self.session, &inner)?;
                    stages.any_order(&mut self.session.borrow_mut(), true);
                }
            }
            unname(&self.session, &from_folder, old)?;
            stages.disappearing(&mut self.session.borrow_mut(), old.at, true);
            new = folder::raw(&self.session, new.at)?;
            new.set_moved(false);
            folder::put(&self.session, &new)?;
            stages.any_order(&mut self.session.borrow_mut(), true);
            old.at
        };
        self.check_complete()?;
        self.known.clear();
        self.files.forget_entry(disappeared);
        self.give_up(replaced);
        Ok(Outcome::then(stages, Phase::Last))
    }

    /// Counts the free clusters in the table. If a page is missing, the next attempt goes on from
    /// there.
    pub(crate) fn count_clusters(&mut self) -> Result<u32, Stop> {
        let Session { pages, geometry, .. } = self.session.get_mut();
        while geometry.has(self.count.0) {
            let link = table::get(pages, geometry, self.count.0).inspect_err(|_| pages.release())?;
            let is_free = link == Link::Free;
            self.count = (self.count.0 + 1, self.count.1 + u32::from(is_free));
        }
        let free = self.count.1;
        (self.free, self.is_counted, self.count) = (Some(free), true, Self::NOT_COUNTED);
        Ok(free)
    }

    fn count_free(&mut self) -> Result<Outcome, Stop> {
        if self.free.is_none() {
            self.count_clusters()?;
        }
        let geometry = self.session.get_mut().geometry;
        let bytes = |clusters: u32| u64::from(clusters) * u64::from(geometry.cluster);
        let (total, free) = (bytes(geometry.end_cluster - 2), bytes(self.free.unwrap_or(0)));
        Ok(Outcome::end(Answer::Counted(Space { total, free, cluster: geometry.cluster })))
    }

    /// Says on the medium that the volume is whole.
    fn rest(&mut self) -> Result<Outcome, Stop> {
        let mut stages = Stages::default();
        let free = self.free;
        let session = self.session.get_mut();
        if self.is_marked && !self.is_doubtful && self.files.orphans.is_empty() {
            session.put_information(free)?;
            stages.any_order(session, true);
            session.mark(false)?;
            stages.any_order(session, true);
            self.check_complete()?;
            self.is_marked = false;
        }
        stages.flush();
        Ok(Outcome::then(stages, Phase::Last))
    }
}

/// Takes an entry away and leaves its clusters; returns the first of those.
fn unname(session: &RefCell<Session>, folder: &Folder<'_, '_>, raw: Raw) -> Result<u32, Stop> {
    let first = raw.cluster(&session.borrow().geometry);
    folder.remove(raw)?;
    Ok(first)
}
