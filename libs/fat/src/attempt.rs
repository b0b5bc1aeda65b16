//! Attempts: what each operation does in memory.

use crate::MAX_FILE;
use crate::entry::Raw;
use crate::error::Error;
use crate::file::{File, FileId, Files};
use crate::folder::{self, Folder};
use crate::medium::{self, Session};
use crate::order::Plan;
use crate::pages::Stop;
use crate::path::{self, Known};
use crate::table::{self, END, Link};
use crate::volume::{Answer, Mounted, Operation, Part, Phase, Space};
use core::cell::RefCell;

/// The most units of the table that one part of an operation changes.
const MOST_TABLE_UNITS: usize = 64;

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

    /// Tries a part of an operation: what it changes is in the overlay, and in the plan.
    pub(crate) fn attempt(&mut self, operation: &Operation, phase: Phase, read_only: bool) -> Result<Part, Stop> {
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
        let mut mark = Plan::default();
        if !self.is_marked && (changes || phase == Phase::Free) && *operation != Operation::Rest {
            let session = self.session.get_mut();
            session.mark(true)?;
            mark.any_order(session, false);
        }
        let waiting = self.doomed.len();
        let part = match phase {
            Phase::First => self.first(operation),
            Phase::Free => self.free_part(),
            Phase::Link(_) | Phase::Join | Phase::Name => self.publish_part(operation, phase),
            Phase::Last => Ok(Part::end(Answer::Done)),
        };
        // `lamfat` may have gone on without the page.
        self.check_complete()?;
        let mut part = match part {
            // There may be space after all.
            Err(Stop::Fail(Error::Full | Error::Fragmented)) if !self.doomed.is_empty() => self.free_before(phase),
            part => part?,
        };
        if part.next == Phase::Last && self.doomed.len() > waiting {
            // What is short is free with that. The rest of what is long waits, so that others need
            // not wait for it.
            (part.next, self.after_free) = (Phase::Free, Phase::Last);
        }
        if !part.plan.is_empty() && !mark.is_empty() {
            part.plan.prepend(mark);
            self.is_marked = true;
        }
        Ok(part)
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

    fn first(&mut self, operation: &Operation) -> Result<Part, Stop> {
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
            Operation::Free => Ok(Part::end(Answer::Done)),
            Operation::Count => self.count_free(),
            Operation::Sync => {
                let mut plan = Plan::default();
                plan.flush();
                Ok(Part::then(plan, Phase::Last))
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

    fn find_entry(&mut self, path: &str) -> Result<Part, Stop> {
        let found = self.find(path)?;
        let name = path::names(path)?.next_back().unwrap_or_default();
        let root = Raw { at: 0, bytes: Raw::ROOT };
        Ok(Part::end(Answer::Found(found.unwrap_or(root).seen(name.into()))))
    }

    fn open(&mut self, path: &str) -> Result<Part, Stop> {
        let raw = self.find_file(path)?;
        let geometry = &self.session.get_mut().geometry;
        let size = u64::from(raw.size());
        let first = if size == 0 { 0 } else { raw.cluster(geometry) };
        let file = File { entry: Some(raw.at), first, size, ..File::default() };
        Ok(Part::end(Answer::Opened { file: self.files.open(file)?, size }))
    }

    fn create(&mut self, path: &str) -> Result<Part, Stop> {
        let mut names = path::names(path)?;
        names.next_back().ok_or(Error::IsAFolder)?;
        let replaced = match self.find_file(path) {
            Ok(raw) if raw.is_read_only() => return Err(Error::ReadOnly.into()),
            // Of two that write the same file, the later one would silently win.
            Ok(raw) if self.files.has_other_name(raw.at, path) => return Err(Error::Busy.into()),
            Ok(raw) => Some(raw.at),
            Err(Stop::Fail(Error::NotFound)) => {
                // The folder is there.
                let fs = medium::open(&self.session)?;
                Folder::follow(&self.session, &fs, names)?;
                None
            }
            Err(Stop::Fail(Error::Corrupt)) => None,
            Err(stop) => return Err(stop),
        };
        let file = File { path: Some(path.into()), replaced, has_end: true, ..File::default() };
        Ok(Part::end(Answer::Opened { file: self.files.open(file)?, size: 0 }))
    }

    fn append(&mut self, path: &str) -> Result<Part, Stop> {
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
        Ok(Part::end(Answer::Opened { file: self.files.open(file)?, size }))
    }

    fn locate(&mut self, id: FileId, offset: u64) -> Result<Part, Stop> {
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
        Ok(Part::end(Answer::Located(place)))
    }

    fn reserve(&mut self, id: FileId, size: u64) -> Result<Part, Stop> {
        self.files.make_room(id);
        let others = self.files.promised(id);
        let file = self.files.get_mut(id)?;
        if file.path.is_none() {
            return Err(Error::BadFile.into());
        }
        if size > MAX_FILE {
            return Err(Error::TooLarge.into());
        }
        let Session { pages, geometry, .. } = self.session.get_mut();
        file.learn(u32::MAX, pages, geometry)?;
        let clusters = size.div_ceil(geometry.cluster.into()) as u32;
        let missing = clusters.saturating_sub(file.clusters());
        if self.free.is_some_and(|free| missing > free) {
            // The count may be one that others have left on the medium: it is checked once.
            if self.is_counted || missing > self.count_clusters()? {
                return Err(Error::Full.into());
            }
        }
        let file = self.files.get_mut(id)?;
        let Session { pages, geometry, search, taken, .. } = self.session.get_mut();
        file.reserve(clusters, pages, geometry, (search, taken), others)?;
        Ok(Part::end(Answer::Done))
    }

    fn publish(&mut self, id: FileId, size: u64) -> Result<Part, Stop> {
        self.files.make_room(id);
        let file = self.files.get_mut(id)?;
        let Session { pages, geometry, .. } = self.session.get_mut();
        let clusters = size.div_ceil(geometry.cluster.into());
        if file.path.is_none() || size < file.size {
            return Err(Error::BadFile.into());
        }
        file.learn(u32::MAX, pages, geometry)?;
        if clusters > u64::from(file.clusters()) {
            return Err(Error::BadFile.into());
        }
        let first = file.fresh.first().map_or(u32::MAX, |extent| extent.index);
        let next = if u64::from(first) < clusters { Phase::Link(first) } else { Phase::Name };
        Ok(Part::then(Plan::default(), next))
    }

    /// Goes on with publishing.
    fn publish_part(&mut self, operation: &Operation, phase: Phase) -> Result<Part, Stop> {
        let Operation::Publish { file, size } = operation else { return Err(Error::NotReady.into()) };
        match phase {
            Phase::Link(from) => self.link(*file, *size, from),
            Phase::Join => {
                let mut plan = Plan::default();
                self.join(*file)?;
                plan.any_order(self.session.get_mut(), true);
                Ok(Part::then(plan, Phase::Name))
            }
            _ => match self.name(*file, *size) {
                // The folder may grow after all, when more clusters are free.
                Err(Stop::Fail(Error::Full)) if !self.doomed.is_empty() => Err(Error::Full.into()),
                Err(Stop::Fail(error)) => {
                    self.check_complete()?;
                    self.session.get_mut().pages.abandon();
                    // The linked clusters are still promised to the file, and named by nothing.
                    let file = self.files.get_mut(*file)?;
                    if file.entry.is_none()
                        && let Some(first) = file.fresh.first()
                    {
                        self.doomed.push_front(first.cluster);
                    }
                    Ok(Part { plan: Plan::default(), next: Phase::Last, answer: Some(Err(error)) })
                }
                named => named,
            },
        }
    }

    /// Writes links of promised clusters, as many as are written at once.
    fn link(&mut self, id: FileId, size: u64, from: u32) -> Result<Part, Stop> {
        let file = self.files.get(id)?;
        let session = self.session.get_mut();
        let clusters = size.div_ceil(session.geometry.cluster.into()) as u32;
        let mut index = from;
        while index < clusters && session.pages.changed() < MOST_TABLE_UNITS {
            let Some(cluster) = file.fresh_cluster(index) else { return Err(Error::BadFile.into()) };
            let following = if index + 1 < clusters { file.fresh_cluster(index + 1) } else { Some(END) };
            let value = following.ok_or(Error::BadFile)?;
            table::set(&mut session.pages, &session.geometry, cluster, value)?;
            index += 1;
        }
        let mut plan = Plan::default();
        plan.any_order(session, false);
        let next = if index < clusters {
            Phase::Link(index)
        } else if file.known.is_empty() {
            Phase::Name
        } else {
            Phase::Join
        };
        Ok(Part::then(plan, next))
    }

    /// Joins the promised clusters, which are linked, to the chain before them.
    fn join(&mut self, id: FileId) -> Result<(), Stop> {
        let file = self.files.get(id)?;
        let Session { pages, geometry, .. } = self.session.get_mut();
        let tail = file.known.last().ok_or(Error::BadFile)?.end() - 1;
        let first = file.fresh.first().ok_or(Error::BadFile)?.cluster;
        table::set(pages, geometry, tail, first)
    }

    /// Writes the entry of a file whose clusters are linked.
    fn name(&mut self, id: FileId, size: u64) -> Result<Part, Stop> {
        let file = self.files.get(id)?;
        let path = file.path.clone().ok_or(Error::BadFile)?;
        let first = match file.first {
            0 => file.fresh.first().map_or(0, |extent| extent.cluster),
            first => first,
        };
        let first = if size == 0 { file.first } else { first };
        let mut plan = Plan::default();
        let mut replaced = 0;
        let at = match file.entry {
            Some(at) => {
                let mut raw = folder::raw(&self.session, at)?;
                let session = self.session.get_mut();
                raw.set_content(first, size as u32, &session.geometry);
                raw.set_modified(session.now);
                folder::put(&self.session, &raw)?;
                plan.any_order(self.session.get_mut(), true);
                at
            }
            None => {
                let mut names = path::names(&path)?;
                let last = names.next_back().ok_or(Error::IsAFolder)?;
                let at = {
                    let fs = medium::open(&self.session)?;
                    let folder = Folder::follow(&self.session, &fs, names)?;
                    let old = folder.search(last)?.map(|(raw, _)| raw);
                    let is_new = old.is_none();
                    let mut raw = match old {
                        None => folder.create_file(last)?,
                        Some(old) if old.is_folder() => return Err(Error::IsAFolder.into()),
                        Some(old) if old.is_read_only() => return Err(Error::ReadOnly.into()),
                        Some(old) if self.files.is_written(old.at, Some(id)) => return Err(Error::Busy.into()),
                        Some(old) => old,
                    };
                    let (geometry, now) = {
                        let session = self.session.borrow();
                        (session.geometry, session.now)
                    };
                    if !is_new {
                        replaced = raw.cluster(&geometry);
                    }
                    raw.set_content(first, size as u32, &geometry);
                    raw.set_modified(now);
                    folder::put(&self.session, &raw)?;
                    raw.at
                };
                plan.appearing(self.session.get_mut(), at, true);
                at
            }
        };
        self.check_complete()?;
        // Nothing is missing any more: from here on the attempt has succeeded.
        self.known.clear();
        let session = self.session.get_mut();
        let clusters = size.div_ceil(session.geometry.cluster.into()) as u32;
        let file = self.files.get_mut(id)?;
        file.settle(clusters, &mut session.taken);
        (file.entry, file.size) = (Some(at), size);
        self.give_up(replaced);
        Ok(Part::then(plan, Phase::Last))
    }

    /// Fails if a page was missing.
    fn check_complete(&mut self) -> Result<(), Stop> {
        if self.session.get_mut().pages.lacks() { Err(Stop::Missing) } else { Ok(()) }
    }

    /// Has a chain given free that no entry names any more, once nobody reads it.
    fn give_up(&mut self, first: u32) {
        if !self.session.get_mut().geometry.has(first) {
            return;
        }
        if self.files.is_open(first) {
            self.files.orphans.push(first);
        } else {
            self.doomed.push_front(first);
        }
    }

    fn close(&mut self, id: FileId) -> Result<Part, Stop> {
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
        Ok(Part::end(Answer::Done))
    }

    /// Has some clusters given free before the operation goes on in this phase.
    fn free_before(&mut self, phase: Phase) -> Part {
        self.after_free = phase;
        Part::then(Plan::default(), Phase::Free)
    }

    /// Gives some clusters free that nothing names.
    fn free_part(&mut self) -> Result<Part, Stop> {
        let mut plan = Plan::default();
        let Some(mut next) = self.doomed.front().copied() else { return Ok(Part::then(plan, self.after_free)) };
        let session = self.session.get_mut();
        let mut left = true;
        let mut looked = 0;
        while looked < MOST_FREED && session.pages.changed() < MOST_TABLE_UNITS {
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
        plan.any_order(session, true);
        session.search.restart();
        self.doomed.pop_front();
        if left {
            self.doomed.push_front(next);
        }
        // Whoever removes many long files waits for some of them.
        let is_enough = self.doomed.len() <= MOST_WAITING;
        Ok(Part::then(plan, if is_enough { self.after_free } else { Phase::Free }))
    }

    fn list(&mut self, path: &str, from: u64, most: usize) -> Result<Part, Stop> {
        let names = path::names(path)?;
        let fs = medium::open(&self.session)?;
        let folder = Folder::follow(&self.session, &fs, names)?;
        let (entries, next) = folder.list(from, most)?;
        Ok(Part::end(Answer::Listed { entries, next }))
    }

    fn make_folder(&mut self, path: &str) -> Result<Part, Stop> {
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
        let mut plan = Plan::default();
        plan.appearing(self.session.get_mut(), at, false);
        self.check_complete()?;
        self.known.clear();
        Ok(Part::then(plan, Phase::Last))
    }

    fn remove(&mut self, path: &str) -> Result<Part, Stop> {
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
        let mut plan = Plan::default();
        plan.disappearing(self.session.get_mut(), at, false);
        self.check_complete()?;
        self.known.clear();
        self.files.has_disappeared(at);
        self.give_up(first);
        Ok(Part::then(plan, Phase::Last))
    }

    fn rename(&mut self, from: &str, to: &str, replace: bool) -> Result<Part, Stop> {
        let (mut from_names, mut to_names) = (path::names(from)?, path::names(to)?);
        let from_last = from_names.next_back().ok_or(Error::ReadOnly)?;
        let to_last = to_names.next_back().ok_or(Error::Exists)?;
        let mut plan = Plan::default();
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
                    return if from_last == to_last { Ok(Part::end(Answer::Done)) } else { Err(Error::Exists.into()) };
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
                    plan.any_order(&mut self.session.borrow_mut(), false);
                }
                None => {
                    new = to_folder.create_file(to_last)?;
                    new.take_all_but_name(&old);
                    new.set_moved(true);
                    folder::put(&self.session, &new)?;
                    plan.appearing(&mut self.session.borrow_mut(), new.at, false);
                }
            }
            if old.is_folder() && from_folder.cluster != to_folder.cluster {
                let inner = from_folder.enter(&old, &old_entry)?.parent_entry()?;
                if let Some(mut inner) = inner {
                    inner.set_content(to_folder.cluster, 0, &geometry);
                    folder::put(&self.session, &inner)?;
                    plan.any_order(&mut self.session.borrow_mut(), true);
                }
            }
            unname(&self.session, &from_folder, old)?;
            plan.disappearing(&mut self.session.borrow_mut(), old.at, true);
            new = folder::raw(&self.session, new.at)?;
            new.set_moved(false);
            folder::put(&self.session, &new)?;
            plan.any_order(&mut self.session.borrow_mut(), true);
            old.at
        };
        self.check_complete()?;
        self.known.clear();
        self.files.has_disappeared(disappeared);
        self.give_up(replaced);
        Ok(Part::then(plan, Phase::Last))
    }

    /// Counts the free clusters in the table. If a page is missing, the next attempt goes on from
    /// there.
    fn count_clusters(&mut self) -> Result<u32, Stop> {
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

    fn count_free(&mut self) -> Result<Part, Stop> {
        if self.free.is_none() {
            self.count_clusters()?;
        }
        let geometry = self.session.get_mut().geometry;
        let bytes = |clusters: u32| u64::from(clusters) * u64::from(geometry.cluster);
        let (total, free) = (bytes(geometry.end_cluster - 2), bytes(self.free.unwrap_or(0)));
        Ok(Part::end(Answer::Counted(Space { total, free, cluster: geometry.cluster })))
    }

    /// Says on the medium that the volume is whole.
    fn rest(&mut self) -> Result<Part, Stop> {
        let mut plan = Plan::default();
        let free = self.free;
        let session = self.session.get_mut();
        if self.is_marked && !self.is_doubtful && self.files.orphans.is_empty() {
            session.put_information(free)?;
            plan.any_order(session, true);
            session.mark(false)?;
            plan.any_order(session, true);
            self.check_complete()?;
            self.is_marked = false;
        }
        plan.flush();
        Ok(Part::then(plan, Phase::Last))
    }
}

/// Takes an entry away and leaves its clusters; returns the first of those.
fn unname(session: &RefCell<Session>, folder: &Folder<'_, '_>, raw: Raw) -> Result<u32, Stop> {
    let first = raw.cluster(&session.borrow().geometry);
    folder.remove(raw)?;
    Ok(first)
}
