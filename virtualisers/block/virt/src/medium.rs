//! The medium, and its partition table, which is read like any other blocks: by requests to the
//! driver.

use alloc::vec;
use culm::Region;
use culm_block::{BLOCK, Disk, Request, Segment};
use culm_partition::{NoTable, Scan, Table};

/// The medium, as far as it is known.
#[derive(Debug, Default)]
pub enum Medium {
    /// Nothing: the driver has said nothing yet.
    #[default]
    Unknown,
    /// The disk is known; its table is being read.
    Scanning {
        /// The disk.
        disk: Disk,
        /// How far the table is read.
        scan: Scan,
        /// Whether some of it could not be read.
        has_failed: bool,
    },
    /// All that is needed.
    Known {
        /// The disk.
        disk: Disk,
    },
}

/// A table as it was read.
#[derive(Debug)]
pub struct Found {
    /// The table, or why there is none.
    pub table: Result<Table, NoTable>,
    /// Whether some of it could not be read: another time it may say more.
    pub has_failed: bool,
}

impl Medium {
    /// Returns what the medium is, as far as it is known.
    pub fn disk(&self) -> Option<&Disk> {
        match self {
            Self::Unknown => None,
            Self::Scanning { disk, .. } | Self::Known { disk } => Some(disk),
        }
    }

    /// Begins to read the table of `disk`.
    pub fn scanning(disk: Disk) -> Self {
        Self::Scanning { disk, scan: Scan::new(disk.blocks, disk.granule, disk.most), has_failed: false }
    }

    /// Returns the request for what is to be read next, if there is something, into the blocks of
    /// memory from `place` on.
    pub fn request(&self, place: u64) -> Option<Request> {
        let Self::Scanning { scan, .. } = self else { return None };
        let read = scan.wants()?;
        Request::read(read.block, &[Segment { place, blocks: read.blocks }])
    }

    /// Takes what was read, which stands in `memory`; `None` if it cannot be read.
    pub fn give(&mut self, memory: Option<&Region>) {
        let Self::Scanning { scan, has_failed, .. } = self else { return };
        let length = scan.wants().map_or(0, |read| read.blocks as usize * BLOCK);
        let mut bytes = vec![0; length];
        let is_read = memory.is_some_and(|memory| memory.read(0, &mut bytes).is_ok());
        *has_failed |= !is_read;
        scan.give(is_read.then_some(bytes.as_slice()));
    }

    /// Returns what the table says, once all of it is read.
    pub fn finished(&mut self) -> Option<Found> {
        let Self::Scanning { scan, disk, has_failed } = self else { return None };
        if scan.wants().is_some() {
            return None;
        }
        let (known, has_failed) = (Self::Known { disk: *disk }, *has_failed);
        let Self::Scanning { scan, .. } = core::mem::replace(self, known) else { return None };
        scan.finish().map(|table| Found { table, has_failed })
    }
}
