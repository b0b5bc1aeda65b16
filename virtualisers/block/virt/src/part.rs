//! Which part of the disk a client has, and where that is on the medium.

use crate::turns::MAX_CLEARED;
use core::fmt;
use culm_block::Disk;
use culm_partition::{NotFound, Selector, Table};

/// A client's part of the disk, as the system file describes it.
#[derive(Clone, Copy, Debug)]
pub struct Part {
    /// The partition; the whole disk if there is none.
    pub partition: Option<Selector<'static>>,
    /// The first block, within that.
    pub first: u64,
    /// The count of blocks; all that follow if it is 0.
    pub blocks: u64,
    /// Whether nothing can be written.
    pub read_only: bool,
}

/// The reason why a part is not there.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Missing {
    /// There is no such partition, or it cannot be used.
    Partition(NotFound),
    /// The range lies outside.
    Range,
}

impl fmt::Display for Missing {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Partition(reason) => reason.fmt(formatter),
            Self::Range => {
                formatter.write_str("its range lies outside, or begins or ends within a block of the device")
            }
        }
    }
}

impl Part {
    /// Returns where the part is on `disk`.
    pub fn place(&self, disk: &Disk, table: Option<&Table>) -> Result<Placement, Missing> {
        let (start, length) = match self.partition {
            None => (0, disk.blocks),
            Some(selector) => {
                let found = table.ok_or(NotFound::None).and_then(|table| table.find(&selector));
                let partition = found.map_err(Missing::Partition)?;
                (partition.first, partition.blocks)
            }
        };
        let behind = length.checked_sub(self.first).ok_or(Missing::Range)?;
        let blocks = if self.blocks == 0 { behind } else { self.blocks };
        let first = start.checked_add(self.first).ok_or(Missing::Range)?;
        let placement = self.at(disk, first, blocks).filter(|_| blocks > 0 && blocks <= behind);
        placement.ok_or(Missing::Range)
    }

    /// Returns the placement at these blocks of `disk`, if they are there.
    pub fn at(&self, disk: &Disk, first: u64, blocks: u64) -> Option<Placement> {
        let part = disk.part(first, blocks)?;
        let disk = Disk {
            medium: number(disk.medium, first),
            read_only: part.read_only || self.read_only,
            most_cleared: part.most_cleared.min(MAX_CLEARED),
            failures: 0,
            ..part
        };
        Some(Placement { first, disk })
    }

    /// Returns whether the system file lets the two have the same blocks: it says the same of both,
    /// or gives one of them the whole disk.
    pub fn may_overlap(&self, other: &Self) -> bool {
        let is_whole = |part: &Self| part.partition.is_none() && (part.first, part.blocks) == (0, 0);
        self.partition == other.partition || is_whole(self) || is_whole(other)
    }
}

/// Returns the number of the medium that a part is, which begins at block `first` of a medium. A
/// part that has moved is another medium to its client: requests must not reach what is at its
/// earlier place now. The number follows from where the part is, so a restart does not change it.
fn number(medium: u32, first: u64) -> u32 {
    // The upper half of a product by an odd number without a pattern differs for places nearby.
    let spread = (first.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 32) as u32;
    match medium ^ spread {
        0 => u32::MAX,
        number => number,
    }
}

/// Where a client's part is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Placement {
    /// Its first block on the disk.
    pub first: u64,
    /// The part as a disk of its own.
    pub disk: Disk,
}

impl Placement {
    /// Nowhere.
    pub const ABSENT: Self = Self { first: 0, disk: Disk::ABSENT };

    /// Returns the block behind the last one.
    fn end(&self) -> u64 {
        self.first + self.disk.blocks
    }

    /// Returns whether the part is not where it was.
    pub fn is_elsewhere(&self, before: &Self) -> bool {
        (self.first, self.end()) != (before.first, before.end())
    }

    /// Returns whether one of the two may write blocks that the other one has.
    pub fn collides(&self, other: &Self) -> bool {
        let writes = !self.disk.read_only || !other.disk.read_only;
        writes && self.first < other.end() && other.first < self.end()
    }
}
