//! The file allocation table: entries, chains of clusters, and the search for free ones.

use crate::error::Error;
use crate::geometry::Geometry;
use crate::pages::{Pages, Stop};

/// The meaning of a cluster's entry in the table.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Link {
    Free,
    /// Another cluster follows.
    Next(u32),
    /// It is the last one.
    End,
    /// It is not to be used, or its number is none.
    Bad,
}

/// The value of the last cluster of a chain.
pub(crate) const END: u32 = 0x0fff_ffff;

/// Returns what the bytes of an entry mean.
pub(crate) fn decode(geometry: &Geometry, bytes: &[u8]) -> Link {
    let number = match *bytes {
        [low, high] => u16::from_le_bytes([low, high]).into(),
        [a, b, c, d] => u32::from_le_bytes([a, b, c, d]),
        _ => return Link::Bad,
    };
    let (number, first_end) = if geometry.is_fat32 { (number & END, 0x0fff_fff8) } else { (number, 0xfff8) };
    match number {
        0 => Link::Free,
        _ if number >= first_end => Link::End,
        _ if geometry.has(number) => Link::Next(number),
        _ => Link::Bad,
    }
}

/// Reads what stands for a cluster of the volume.
pub(crate) fn get(pages: &mut Pages, geometry: &Geometry, cluster: u32) -> Result<Link, Stop> {
    let width = geometry.entry_bytes();
    let bytes = pages.read(geometry.first_table() + u64::from(cluster) * width, width as usize)?;
    Ok(decode(geometry, bytes))
}

/// Returns the cluster that follows; `None` behind the last one.
pub(crate) fn next(pages: &mut Pages, geometry: &Geometry, cluster: u32) -> Result<Option<u32>, Stop> {
    match get(pages, geometry, cluster)? {
        Link::Next(next) => Ok(Some(next)),
        Link::End => Ok(None),
        Link::Free | Link::Bad => Err(Error::Corrupt.into()),
    }
}

/// Follows a chain as long as it goes on with the next cluster and within one unit of the table.
/// Returns how many clusters that is, the first one included, and which one follows; `None` behind
/// the last one.
pub(crate) fn follow(pages: &mut Pages, geometry: &Geometry, cluster: u32) -> Result<(u32, Option<u32>), Stop> {
    let width = geometry.entry_bytes();
    let at = geometry.first_table() + u64::from(cluster) * width;
    let entries = pages.read(at, pages.unit() - (at % pages.unit() as u64) as usize)?;
    let (mut last, mut count) = (cluster, 1);
    for entry in entries.chunks_exact(width as usize) {
        match decode(geometry, entry) {
            Link::Next(next) if next == last + 1 => (last, count) = (next, count + 1),
            Link::Next(next) => return Ok((count, Some(next))),
            Link::End => return Ok((count, None)),
            Link::Free | Link::Bad => return Err(Error::Corrupt.into()),
        }
    }
    // The link of the last one is in the next unit.
    Ok((count - 1, Some(last)))
}

/// Writes what stands for a cluster, in each copy of the table: 0, a cluster, or [`END`].
pub(crate) fn set(pages: &mut Pages, geometry: &Geometry, cluster: u32, value: u32) -> Result<(), Stop> {
    let width = geometry.entry_bytes();
    let offset = u64::from(cluster) * width;
    for table in geometry.tables() {
        let at = table + offset;
        if geometry.is_fat32 {
            let old = pages.read(at, 4)?;
            let kept = old.last().map_or(0, |byte| u32::from(byte & 0xf0) << 24);
            pages.write(at, &(value & END | kept).to_le_bytes())?;
        } else {
            pages.write(at, &(value as u16).to_le_bytes())?;
        }
    }
    Ok(())
}

/// Clusters one after the other.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Extent {
    /// How many clusters of the file are before it.
    pub(crate) index: u32,
    pub(crate) cluster: u32,
    pub(crate) count: u32,
}

impl Extent {
    /// Returns the number of the cluster behind it.
    pub(crate) fn end(&self) -> u32 {
        self.cluster + self.count
    }
}

/// A search for free clusters, which goes on where the one before has ended.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Search {
    /// The cluster that is looked at next.
    cursor: u32,
    /// How many clusters were looked at since the last one that was free.
    looked: u32,
}

impl Search {
    pub(crate) fn new(hint: u32) -> Self {
        Self { cursor: hint, looked: 0 }
    }

    /// Begins to look at all clusters again: some have become free.
    pub(crate) fn restart(&mut self) {
        self.looked = 0;
    }

    /// Returns where the search goes on.
    pub(crate) fn cursor(&self) -> u32 {
        self.cursor
    }

    /// Finds free clusters one after the other, `most` at most, that are not `taken`. If a page is
    /// missing, the next attempt goes on from there.
    pub(crate) fn run(
        &mut self,
        pages: &mut Pages,
        geometry: &Geometry,
        most: u32,
        taken: impl Fn(u32) -> bool,
    ) -> Result<(u32, u32), Stop> {
        while self.looked < geometry.end_cluster {
            if !geometry.has(self.cursor) {
                self.cursor = 2;
            }
            let first = self.cursor;
            let mut count = 0;
            while count < most && geometry.has(self.cursor) && !taken(self.cursor) {
                match get(pages, geometry, self.cursor) {
                    Ok(Link::Free) => (count, self.cursor) = (count + 1, self.cursor + 1),
                    Err(Stop::Missing) if count > 0 => {
                        // The clusters found so far are enough for now.
                        pages.forgive();
                        break;
                    }
                    Err(stop) => {
                        pages.release();
                        return Err(stop);
                    }
                    Ok(_) => break,
                }
            }
            if count > 0 {
                self.looked = 0;
                return Ok((first, count));
            }
            (self.cursor, self.looked) = (self.cursor + 1, self.looked + 1);
        }
        Err(Error::Full.into())
    }
}
