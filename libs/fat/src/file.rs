//! Open files: where their bytes lie, what is promised to them, and which chains outlive their
//! names.

use crate::BLOCK;
use crate::MAX_FILES;
use crate::error::Error;
use crate::geometry::Geometry;
use crate::pages::{Pages, Stop};
use crate::path;
use crate::table::{self, Extent, Search};
use alloc::string::String;
use alloc::vec::Vec;

/// The most extents of a file that are remembered, and the most that are promised to one.
pub(crate) const MOST_EXTENTS: usize = 1024;

/// The most extents of all files that are remembered.
const MOST_KNOWN: usize = 8 * MOST_EXTENTS;

/// The extents that are promised to all files before one gets no more than [`LEAST_PROMISED`].
const MOST_PROMISED: usize = 2 * MOST_EXTENTS;

/// The extents that a file can be promised, whatever others have taken.
const LEAST_PROMISED: usize = 16;

/// An open file.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct FileId {
    pub(crate) index: u16,
    /// Tells apart files that had the same index, one after the other.
    pub(crate) life: u16,
}

/// Where bytes of a file lie.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Place {
    /// The block in which the first of them is.
    pub block: u64,
    /// Its offset within the block.
    pub offset: u32,
    /// How many follow on the medium without a gap: of the file, or of the space it has.
    pub bytes: u64,
}

/// Free clusters that are promised to files: ranges, each up to before its second number, in order
/// and with gaps between. There are no more of them than extents that are promised.
#[derive(Debug, Default)]
pub(crate) struct Taken(Vec<(u32, u32)>);

impl Taken {
    /// Returns the index of the first range that ends behind a cluster.
    fn at(&self, cluster: u32) -> usize {
        self.0.partition_point(|(_, end)| *end <= cluster)
    }

    pub(crate) fn has(&self, cluster: u32) -> bool {
        self.0.get(self.at(cluster)).is_some_and(|(first, _)| *first <= cluster)
    }

    /// Returns how many clusters are promised.
    pub(crate) fn clusters(&self) -> u32 {
        self.0.iter().map(|(first, end)| end - first).sum()
    }

    /// Returns how many ranges there are.
    #[cfg(test)]
    pub(crate) fn count(&self) -> usize {
        self.0.len()
    }

    pub(crate) fn take(&mut self, first: u32, count: u32) {
        let (mut from, mut to) = (first, first + count);
        let begin = self.0.partition_point(|(_, end)| *end < from);
        let behind = self.0.partition_point(|(first, _)| *first <= to);
        if let Some(joined) = self.0.get(begin..behind)
            && let (Some((first, _)), Some((_, end))) = (joined.first(), joined.last())
        {
            (from, to) = (from.min(*first), to.max(*end));
        }
        self.0.splice(begin..behind, [(from, to)]);
    }

    /// Makes these clusters ones that are promised to nobody.
    pub(crate) fn release(&mut self, first: u32, count: u32) {
        let (begin, end) = (self.at(first), first + count);
        let behind = self.0.partition_point(|(first, _)| *first < end).max(begin);
        let touched = self.0.get(begin..behind).unwrap_or_default();
        let Some((from, to)) = touched.first().zip(touched.last()).map(|(one, other)| (one.0, other.1)) else { return };
        let left = [(from, first.min(to)), (end.max(from), to)];
        self.0.splice(begin..behind, left.into_iter().filter(|(from, to)| from < to));
    }
}

/// The clusters of a file.
#[derive(Debug, Default)]
pub(crate) struct File {
    /// Its path, if it is written.
    pub(crate) path: Option<String>,
    /// Where its entry is, once there is one.
    pub(crate) entry: Option<u64>,
    /// Where the entry was whose place a new file is to take, when that was opened.
    pub(crate) replaced: Option<u64>,
    /// Its first cluster; 0 if it has none.
    pub(crate) first: u32,
    /// Bytes that its entry names.
    pub(crate) size: u64,
    /// Extents of its chain, in order, without a gap, not always from the beginning.
    pub(crate) known: Vec<Extent>,
    /// Extents that follow the end of its chain and are promised to it.
    pub(crate) fresh: Vec<Extent>,
    /// Whether `known` goes to the end of the chain.
    pub(crate) has_end: bool,
    /// The index behind the last cluster that an operation has promised it that succeeded.
    pub(crate) kept: u32,
    /// Whether it could not be named. Its clusters are being given free: a name that it got after
    /// all would be that of a chain of which clusters go to other files.
    pub(crate) is_given_up: bool,
}

/// Adds clusters to extents that go on without a gap in the file.
fn extend(extents: &mut Vec<Extent>, index: u32, cluster: u32, count: u32) {
    match extents.last_mut() {
        _ if count == 0 => {}
        Some(last) if last.end() == cluster => last.count += count,
        _ => extents.push(Extent { index, cluster, count }),
    }
}

impl File {
    /// Returns the index behind the last cluster that is known or promised.
    pub(crate) fn clusters(&self) -> u32 {
        self.fresh.last().or(self.known.last()).map_or(0, |extent| extent.index + extent.count)
    }

    /// Fails if nothing can be written to it.
    pub(crate) fn check_written(&self) -> Result<(), Error> {
        if self.path.is_none() || self.is_given_up { Err(Error::BadFile) } else { Ok(()) }
    }

    /// Returns where a byte lies, if that is known, and what follows it.
    pub(crate) fn place(&self, offset: u64, geometry: &Geometry) -> Option<Place> {
        let size = u64::from(geometry.cluster);
        let index = u32::try_from(offset / size).ok()?;
        let list = if self.fresh.first().is_some_and(|first| first.index <= index) { &self.fresh } else { &self.known };
        let at = list.partition_point(|extent| extent.index <= index).checked_sub(1)?;
        let extent = list.get(at).filter(|extent| index < extent.index + extent.count)?;
        let begin = geometry.place(extent.cluster) + (offset - u64::from(extent.index) * size);
        let end = geometry.place(extent.cluster) + u64::from(extent.count) * size;
        let bytes = if self.path.is_some() { end - begin } else { (end - begin).min(self.size.checked_sub(offset)?) };
        let block = begin / BLOCK as u64;
        (bytes > 0).then_some(Place { block, offset: (begin % BLOCK as u64) as u32, bytes })
    }

    /// Learns more of the chain, until the cluster of this index is known, or the chain ends. What
    /// is found stays if a page is missing.
    pub(crate) fn learn(&mut self, index: u32, pages: &mut Pages, geometry: &Geometry) -> Result<(), Stop> {
        if self.known.first().is_some_and(|first| index < first.index) {
            self.known.clear();
            self.has_end = false;
        }
        if self.known.is_empty() && !self.has_end {
            if self.first == 0 {
                self.has_end = true;
            } else if geometry.has(self.first) {
                extend(&mut self.known, 0, self.first, 1);
            } else {
                return Err(Error::Corrupt.into());
            }
        }
        while let Some(last) = self.known.last() {
            let behind = last.index + last.count;
            if self.has_end || behind > index {
                break;
            }
            if behind >= geometry.end_cluster {
                // The chain has more clusters than the volume: it is a circle.
                return Err(Error::Corrupt.into());
            }
            let tail = last.end() - 1;
            let followed = table::follow(pages, geometry, tail);
            if followed == Err(Stop::Missing) {
                // The extents are kept, so the table's unit is not needed again.
                pages.release();
            }
            let (count, next) = followed?;
            extend(&mut self.known, behind, tail + 1, count - 1);
            match next {
                Some(cluster) => extend(&mut self.known, behind + count - 1, cluster, 1),
                None => self.has_end = true,
            }
            self.forget_first();
        }
        Ok(())
    }

    /// Forgets the first extents of many. There is space for two more afterwards.
    fn forget_first(&mut self) {
        if let Some(many) = self.known.len().checked_sub(MOST_EXTENTS - 2)
            && many > 0
        {
            self.known.drain(..many.max(MOST_EXTENTS / 2));
        }
    }

    /// Promises it free clusters until it has `clusters`, of which the table's chain must be known
    /// to its end. There are `others` extents that are promised to other files. What was promised
    /// stays if a page is missing; if there is too little, it has what it had before the operation.
    pub(crate) fn reserve(
        &mut self,
        clusters: u32,
        pages: &mut Pages,
        geometry: &Geometry,
        (search, taken): (&mut Search, &mut Taken),
        others: usize,
    ) -> Result<(), Stop> {
        let most = MOST_PROMISED.saturating_sub(others).clamp(LEAST_PROMISED, MOST_EXTENTS);
        while self.clusters() < clusters {
            let index = self.clusters();
            let found = if self.fresh.len() < most {
                search.run(pages, geometry, clusters - index, |cluster| taken.has(cluster))
            } else {
                Err(Error::Fragmented.into())
            };
            if matches!(found, Err(Stop::Fail(_)))
                && let Some(first) = self.release_promised(taken)
            {
                // The next search finds these first.
                *search = Search::new(first);
            }
            let (first, count) = found?;
            taken.take(first, count);
            extend(&mut self.fresh, index, first, count);
        }
        self.kept = self.clusters();
        Ok(())
    }

    /// Gives the last promised clusters to something else, so many.
    pub(crate) fn cede(&mut self, count: u32, taken: &mut Taken) {
        self.kept = self.clusters() - count;
        let _ = self.release_promised(taken);
    }

    /// Gives promised clusters back that are not kept; returns the first of them.
    fn release_promised(&mut self, taken: &mut Taken) -> Option<u32> {
        let mut first = None;
        while let Some(last) = self.fresh.last_mut() {
            let count = (last.index + last.count).saturating_sub(self.kept).min(last.count);
            if count == 0 {
                break;
            }
            last.count -= count;
            taken.release(last.end(), count);
            first = Some(last.end());
            if last.count == 0 {
                self.fresh.pop();
            }
        }
        self.fresh.shrink_to_fit();
        first
    }

    /// Returns the cluster of an index among those that are promised.
    pub(crate) fn fresh_cluster(&self, index: u32) -> Option<u32> {
        let at = self.fresh.partition_point(|extent| extent.index <= index).checked_sub(1)?;
        let extent = self.fresh.get(at)?;
        (index < extent.index + extent.count).then(|| extent.cluster + (index - extent.index))
    }

    /// Moves promised clusters before this index to those of the chain.
    pub(crate) fn attach_promised(&mut self, clusters: u32, taken: &mut Taken) {
        let mut left = Vec::new();
        for extent in core::mem::take(&mut self.fresh) {
            let count = clusters.saturating_sub(extent.index).min(extent.count);
            if count > 0 {
                taken.release(extent.cluster, count);
                extend(&mut self.known, extent.index, extent.cluster, count);
            }
            if count < extent.count {
                let (index, cluster) = (extent.index + count, extent.cluster + count);
                left.push(Extent { index, cluster, count: extent.count - count });
            }
        }
        self.fresh = left;
        if self.first == 0 {
            self.first = self.known.first().map_or(0, |extent| extent.cluster);
        }
        self.forget_first();
        self.known.shrink_to(MOST_EXTENTS);
    }
}

/// All open files.
#[derive(Debug, Default)]
pub(crate) struct Files {
    slots: Vec<(u16, Option<File>)>,
    /// First clusters of chains that no entry names any more and that somebody reads.
    pub(crate) orphans: Vec<u32>,
}

impl Files {
    pub(crate) fn get(&self, id: FileId) -> Result<&File, Error> {
        let slot = self.slots.get(usize::from(id.index)).filter(|slot| slot.0 == id.life);
        slot.and_then(|slot| slot.1.as_ref()).ok_or(Error::BadFile)
    }

    pub(crate) fn get_mut(&mut self, id: FileId) -> Result<&mut File, Error> {
        let slot = self.slots.get_mut(usize::from(id.index)).filter(|slot| slot.0 == id.life);
        slot.and_then(|slot| slot.1.as_mut()).ok_or(Error::BadFile)
    }

    pub(crate) fn open(&mut self, file: File) -> Result<FileId, Error> {
        let index = match self.slots.iter().position(|slot| slot.1.is_none()) {
            Some(index) => index,
            None if self.slots.len() < MAX_FILES => {
                self.slots.push((0, None));
                self.slots.len() - 1
            }
            None => return Err(Error::TooManyOpen),
        };
        let slot = self.slots.get_mut(index).ok_or(Error::TooManyOpen)?;
        *slot = (slot.0.wrapping_add(1), Some(file));
        Ok(FileId { index: index as u16, life: slot.0 })
    }

    pub(crate) fn close(&mut self, id: FileId) -> Result<File, Error> {
        self.get(id)?;
        self.slots.get_mut(usize::from(id.index)).and_then(|slot| slot.1.take()).ok_or(Error::BadFile)
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = &File> {
        self.slots.iter().filter_map(|slot| slot.1.as_ref())
    }

    /// Returns how many extents are promised to files other than `but`.
    pub(crate) fn promised(&self, but: FileId) -> usize {
        let others = (0..).zip(&self.slots).filter(|(index, _)| but.index != *index);
        others.filter_map(|(_, slot)| slot.1.as_ref()).map(|file| file.fresh.len()).sum()
    }

    /// Forgets where files other than `but` lie of which much is known, until there is space for
    /// what can be known of that one.
    pub(crate) fn make_room(&mut self, but: FileId) {
        loop {
            let files = (0..).zip(&mut self.slots).filter(|(index, _)| but.index != *index);
            let files = files.filter_map(|(_, slot)| slot.1.as_mut());
            let (mut all, mut largest) = (0, None::<&mut File>);
            for file in files {
                all += file.known.capacity();
                if largest.as_ref().is_none_or(|other| other.known.capacity() < file.known.capacity()) {
                    largest = Some(file);
                }
            }
            match largest {
                Some(file) if all > MOST_KNOWN - MOST_EXTENTS => (file.known, file.has_end) = (Vec::new(), false),
                _ => break,
            }
        }
    }

    /// Returns whether somebody other than `but` writes the file whose entry is there.
    pub(crate) fn is_written(&self, entry: u64, but: Option<FileId>) -> bool {
        let files = (0..).zip(&self.slots).filter_map(|(index, slot)| Some((index, slot.1.as_ref()?)));
        let mut others = files.filter(|(index, _)| but.is_none_or(|but| but.index != *index));
        others.any(|(_, file)| file.path.is_some() && file.entry == Some(entry))
    }

    /// Returns whether somebody writes the file whose entry is there, or a new one in its place,
    /// under another name than that at the end of this path.
    pub(crate) fn has_other_name(&self, entry: u64, path: &str) -> bool {
        self.iter().any(|file| {
            let is_it = file.entry == Some(entry) || file.replaced == Some(entry);
            is_it && file.path.as_ref().is_some_and(|other| !path::is_same(other, path))
        })
    }

    /// Lets nobody take the place of an entry that has disappeared: another file's may come there.
    pub(crate) fn forget_entry(&mut self, entry: u64) {
        for file in self.slots.iter_mut().filter_map(|slot| slot.1.as_mut()) {
            file.replaced = file.replaced.filter(|replaced| *replaced != entry);
        }
    }

    /// Returns whether somebody has the chain open that begins there.
    pub(crate) fn is_open(&self, first: u32) -> bool {
        self.iter().any(|file| file.first == first)
    }
}
