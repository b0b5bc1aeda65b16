//! Open files: where their bytes lie, what is promised to them, and which chains outlive their
//! names.

use crate::BLOCK;
use crate::MAX_FILES;
use crate::error::Error;
use crate::geometry::Geometry;
use crate::pages::{Pages, Stop};
use crate::table::{self, Extent, Search};
use alloc::string::String;
use alloc::vec::Vec;

/// The most extents of a file that are remembered, and the most that are promised to one.
pub(crate) const MOST_EXTENTS: usize = 1024;

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

/// Free clusters that are promised to files.
#[derive(Debug, Default)]
pub(crate) struct Taken(Vec<(u32, u32)>);

impl Taken {
    pub(crate) fn has(&self, cluster: u32) -> bool {
        self.0.iter().any(|(first, end)| (*first..*end).contains(&cluster))
    }

    fn take(&mut self, first: u32, count: u32) {
        match self.0.iter_mut().find(|(_, end)| *end == first) {
            Some(range) => range.1 += count,
            None => self.0.push((first, first + count)),
        }
    }

    /// Makes these clusters ones that are promised to nobody.
    pub(crate) fn release(&mut self, first: u32, count: u32) {
        let (end, mut left) = (first + count, Vec::new());
        self.0.retain(|(from, to)| {
            let is_apart = *to <= first || end <= *from;
            if !is_apart {
                left.extend([(*from, first.min(*to)), (end.max(*from), *to)]);
            }
            is_apart
        });
        self.0.extend(left.into_iter().filter(|(from, to)| from < to));
    }
}

/// The clusters of a file.
#[derive(Debug, Default)]
pub(crate) struct File {
    /// Its path, if it is written.
    pub(crate) path: Option<String>,
    /// Where its entry is, once there is one.
    pub(crate) entry: Option<u64>,
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
            if self.known.len() > MOST_EXTENTS {
                self.known.drain(..MOST_EXTENTS / 2);
            }
        }
        Ok(())
    }

    /// Promises it free clusters until it has `clusters`, of which the table's chain must be known
    /// to its end. What was promised stays if a page is missing.
    pub(crate) fn reserve(
        &mut self,
        clusters: u32,
        pages: &mut Pages,
        geometry: &Geometry,
        (search, taken): (&mut Search, &mut Taken),
    ) -> Result<(), Stop> {
        while self.clusters() < clusters {
            if self.fresh.len() >= MOST_EXTENTS {
                return Err(Error::Fragmented.into());
            }
            let index = self.clusters();
            let (first, count) = search.run(pages, geometry, clusters - index, |cluster| taken.has(cluster))?;
            taken.take(first, count);
            extend(&mut self.fresh, index, first, count);
        }
        Ok(())
    }

    /// Returns the cluster of an index among those that are promised.
    pub(crate) fn fresh_cluster(&self, index: u32) -> Option<u32> {
        let at = self.fresh.partition_point(|extent| extent.index <= index).checked_sub(1)?;
        let extent = self.fresh.get(at)?;
        (index < extent.index + extent.count).then(|| extent.cluster + (index - extent.index))
    }

    /// Moves promised clusters before this index to those of the chain.
    pub(crate) fn settle(&mut self, clusters: u32, taken: &mut Taken) {
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

    /// Returns whether somebody other than `but` writes the file whose entry is there.
    pub(crate) fn is_written(&self, entry: u64, but: Option<FileId>) -> bool {
        let files = (0..).zip(&self.slots).filter_map(|(index, slot)| Some((index, slot.1.as_ref()?)));
        let mut others = files.filter(|(index, _)| but.is_none_or(|but| but.index != *index));
        others.any(|(_, file)| file.path.is_some() && file.entry == Some(entry))
    }

    /// Returns whether somebody has the chain open that begins there.
    pub(crate) fn is_open(&self, first: u32) -> bool {
        self.iter().any(|file| file.first == first)
    }
}
