//! Publishing a file: space for it, links between its clusters, and the entry that names it.

use crate::MAX_FILE;
use crate::error::Error;
use crate::file::FileId;
use crate::folder::{self, Folder};
use crate::medium::{self, Session};
use crate::operation::{Answer, Operation};
use crate::order::Stages;
use crate::pages::Stop;
use crate::path;
use crate::table::{self, END};
use crate::volume::{Mounted, Outcome, Phase};

impl Mounted {
    /// Promises a written file the clusters that so many bytes need, in memory alone; and behind
    /// them those by which its folder may have to grow for its name, unless there are none and the
    /// folder has room for the name now.
    pub(crate) fn reserve(&mut self, id: FileId, size: u64) -> Result<Outcome, Stop> {
        self.files.make_room(id);
        let file = self.files.get_mut(id)?;
        file.check_written()?;
        if size > MAX_FILE {
            return Err(Error::TooLarge.into());
        }
        let Session { pages, geometry, .. } = self.session.get_mut();
        file.learn(u32::MAX, pages, geometry)?;
        let clusters = size.div_ceil(geometry.cluster.into()) as u32;
        let growth = self.growth(id)?;
        match self.promise(id, clusters + growth) {
            // Chains that are still to be freed may make enough space: the caller frees them first.
            Err(Stop::Fail(Error::Full | Error::Fragmented))
                if growth > 0 && self.doomed.is_empty() && self.has_room(id)? =>
            {
                self.promise(id, clusters)
            }
            promised => promised,
        }
    }

    /// Returns how many clusters a file's folder may have to grow by for its name: none if it has
    /// its name, or takes another's place.
    fn growth(&mut self, id: FileId) -> Result<u32, Stop> {
        let file = self.files.get(id)?;
        let geometry = &self.session.get_mut().geometry;
        let mut names = path::names(file.path.as_deref().ok_or(Error::BadFile)?)?;
        let name = names.next_back().ok_or(Error::IsAFolder)?;
        let can_grow = geometry.is_fat32 || names.next().is_some();
        let is_new = file.entry.or(file.replaced).is_none();
        Ok(if is_new && can_grow { folder::growth(name, geometry) } else { 0 })
    }

    /// Returns whether a file's folder has room for its name as it is.
    fn has_room(&self, id: FileId) -> Result<bool, Stop> {
        let path = self.files.get(id)?.path.as_deref().ok_or(Error::BadFile)?;
        let mut names = path::names(path)?;
        let name = names.next_back().ok_or(Error::IsAFolder)?;
        let fs = medium::open(&self.session)?;
        let folder = Folder::follow(&self.session, &fs, names)?;
        folder.has_room(name)
    }

    /// Promises a written file so many clusters, of which its chain must be known to its end.
    fn promise(&mut self, id: FileId, clusters: u32) -> Result<Outcome, Stop> {
        let others = self.files.promised(id);
        let file = self.files.get(id)?;
        let taken = &self.session.get_mut().taken;
        let missing = clusters.saturating_sub(file.clusters());
        // Clusters that an operation has linked before it failed are promised and not free: search
        // then.
        let promised = if self.is_doubtful { 0 } else { taken.clusters() };
        let is_there = |free: u32| missing <= free.saturating_sub(promised);
        // Count the table once before refusing: another system may have left a wrong count on the
        // medium, or there is none. Without a count each refusal would cost a search of the table.
        if missing > 0 && !self.free.is_some_and(is_there) && (self.is_counted || !is_there(self.count_clusters()?)) {
            return Err(Error::Full.into());
        }
        let file = self.files.get_mut(id)?;
        let Session { pages, geometry, search, taken, .. } = self.session.get_mut();
        file.reserve(clusters, pages, geometry, (search, taken), others)?;
        Ok(Outcome::end(Answer::Done))
    }

    /// Begins to publish a written file: finds the first of its clusters that is not linked yet.
    pub(crate) fn publish(&mut self, id: FileId, size: u64) -> Result<Outcome, Stop> {
        self.files.make_room(id);
        let file = self.files.get_mut(id)?;
        let Session { pages, geometry, .. } = self.session.get_mut();
        let clusters = size.div_ceil(geometry.cluster.into());
        file.check_written()?;
        if size < file.size {
            return Err(Error::BadFile.into());
        }
        file.learn(u32::MAX, pages, geometry)?;
        if clusters > u64::from(file.clusters()) {
            return Err(Error::BadFile.into());
        }
        let first = file.fresh.first().map_or(u32::MAX, |extent| extent.index);
        let next = if u64::from(first) < clusters { Phase::Link(first) } else { Phase::Name };
        Ok(Outcome::then(Stages::default(), next))
    }

    /// Carries out one phase of publishing: links, their junction with the chain, or the entry.
    pub(crate) fn publish_part(&mut self, operation: &Operation, phase: Phase) -> Result<Outcome, Stop> {
        let Operation::Publish { file, size } = operation else { return Err(Error::NotReady.into()) };
        match phase {
            Phase::Link(from) => self.link(*file, *size, from),
            Phase::Join => {
                let mut stages = Stages::default();
                self.join(*file)?;
                stages.any_order(self.session.get_mut(), true);
                Ok(Outcome::then(stages, Phase::Name))
            }
            _ => match self.name(*file, *size) {
                // Pass the error on: the caller frees clusters, by which the folder can grow.
                Err(Stop::Fail(Error::Full)) if !self.doomed.is_empty() => Err(Error::Full.into()),
                Err(Stop::Fail(error)) => {
                    self.check_complete()?;
                    self.session.get_mut().pages.abandon();
                    // Nothing names the linked clusters. They stay promised until the file is
                    // closed: writes of its data may be under way, which must not reach another's.
                    let file = self.files.get_mut(*file)?;
                    if file.entry.is_none() {
                        file.is_given_up = true;
                        if let Some(first) = file.fresh.first() {
                            self.doomed.push_front(first.cluster);
                        }
                    }
                    Ok(Outcome { stages: Stages::default(), next: Phase::Last, answer: Some(Err(error)) })
                }
                named => named,
            },
        }
    }

    /// Writes links of promised clusters, as many as are written at once.
    fn link(&mut self, id: FileId, size: u64, from: u32) -> Result<Outcome, Stop> {
        let file = self.files.get(id)?;
        let session = self.session.get_mut();
        let clusters = size.div_ceil(session.geometry.cluster.into()) as u32;
        let mut index = from;
        while index < clusters && !session.pages.has_changed_most() {
            let Some(cluster) = file.fresh_cluster(index) else { return Err(Error::BadFile.into()) };
            let following = if index + 1 < clusters { file.fresh_cluster(index + 1) } else { Some(END) };
            let value = following.ok_or(Error::BadFile)?;
            table::set(&mut session.pages, &session.geometry, cluster, value)?;
            index += 1;
        }
        let mut stages = Stages::default();
        stages.any_order(session, false);
        let next = if index < clusters {
            Phase::Link(index)
        } else if file.known.is_empty() {
            Phase::Name
        } else {
            Phase::Join
        };
        Ok(Outcome::then(stages, next))
    }

    /// Joins the promised clusters, which are linked, to the chain before them.
    fn join(&mut self, id: FileId) -> Result<(), Stop> {
        let file = self.files.get(id)?;
        let Session { pages, geometry, .. } = self.session.get_mut();
        let tail = file.known.last().ok_or(Error::BadFile)?.end() - 1;
        let first = file.fresh.first().ok_or(Error::BadFile)?.cluster;
        table::set(pages, geometry, tail, first)
    }

    /// Lends a file's folder the last clusters that are promised to the file, as many as it may
    /// have to grow by for the name and none of the file's bytes lie in. Returns how many.
    fn lend(&mut self, id: FileId, size: u64) -> Result<u32, Stop> {
        let growth = self.growth(id)?;
        let (file, session) = (self.files.get(id)?, self.session.get_mut());
        let (used, end) = (size.div_ceil(session.geometry.cluster.into()) as u32, file.clusters());
        let first = used.max(end.saturating_sub(growth));
        session.lent = (first..end).filter_map(|index| file.fresh_cluster(index)).collect();
        Ok(session.lent.len() as u32)
    }

    /// Writes the entry of a file whose clusters are linked.
    fn name(&mut self, id: FileId, size: u64) -> Result<Outcome, Stop> {
        let lent = self.lend(id, size)?;
        let file = self.files.get(id)?;
        let path = file.path.clone().ok_or(Error::BadFile)?;
        let first = match file.first {
            0 => file.fresh.first().map_or(0, |extent| extent.cluster),
            first => first,
        };
        let first = if size == 0 { file.first } else { first };
        let mut stages = Stages::default();
        let mut replaced = 0;
        let at = match file.entry {
            Some(at) => {
                let mut raw = folder::raw(&self.session, at)?;
                let session = self.session.get_mut();
                raw.set_content(first, size as u32, &session.geometry);
                raw.set_modified(session.now);
                folder::put(&self.session, &raw)?;
                stages.any_order(self.session.get_mut(), true);
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
                stages.appearing(self.session.get_mut(), at, true);
                at
            }
        };
        self.check_complete()?;
        // All pages were in memory, so the attempt is not repeated: only now change the state of
        // files, which an attempt that is given up would not restore.
        self.known.clear();
        let session = self.session.get_mut();
        let clusters = size.div_ceil(session.geometry.cluster.into()) as u32;
        let file = self.files.get_mut(id)?;
        file.attach_promised(clusters, &mut session.taken);
        file.cede(lent - session.lent.len() as u32, &mut session.taken);
        (file.entry, file.size) = (Some(at), size);
        self.give_up(replaced);
        Ok(Outcome::then(stages, Phase::Last))
    }
}
