//! GUID partition tables (UEFI 2.10 §5.3).

use crate::bytes::{Crc, array, double, half, word};
use crate::{BLOCK, Partition, Problem, Uuid};
use core::fmt;

/// The problem of one of a disk's two GPTs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum HeaderProblem {
    /// Its header cannot be read.
    Unreadable,
    /// There is none.
    Absent,
    /// It is of another revision.
    Revision,
    /// Its checksum is wrong.
    Checksum,
    /// It says that it belongs elsewhere.
    Misplaced,
    /// The blocks that it says partitions can have are outside the disk, or its own.
    Usable,
    /// Its entries lie outside the disk, or are of a size or number that is not supported.
    Entries,
    /// Its entries cannot be read.
    UnreadableEntries,
    /// The checksum of its entries is wrong.
    EntriesChecksum,
}

impl fmt::Display for HeaderProblem {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(match self {
            Self::Unreadable => "its header cannot be read",
            Self::Absent => "it is not there",
            Self::Revision => "it is of another revision",
            Self::Checksum => "its checksum is wrong",
            Self::Misplaced => "it says that it belongs elsewhere",
            Self::Usable => "it allows partitions outside the disk or in its own blocks",
            Self::Entries => "its entries lie outside the disk, or their number or size is not supported",
            Self::UnreadableEntries => "its entries cannot be read",
            Self::EntriesChecksum => "the checksum of its entries is wrong",
        })
    }
}

/// The most entries: far more than partitions that a table can have here.
const MAX_ENTRIES: u32 = 1024;

/// The revision of headers that is known, 1.0.
const REVISION: u32 = 0x0001_0000;

/// A header that is as it should be. Places are logical blocks.
#[derive(Clone, Copy, Debug)]
pub struct Header {
    /// Where it says that the other table's header is.
    pub other: u64,
    pub usable: (u64, u64),
    pub entries: u64,
    pub entry_count: u32,
    pub entry_size: u32,
    entries_checksum: u32,
}

impl Header {
    /// Reads the header at logical block `place` of a disk of so many, with bytes of the whole
    /// block (table 5-5).
    pub fn parse(bytes: &[u8], place: u64, blocks: u64) -> Result<Self, HeaderProblem> {
        const CHECKSUM: usize = 16;
        if array(bytes, 0) != *b"EFI PART" {
            return Err(HeaderProblem::Absent);
        }
        let size = word(bytes, 12) as usize;
        let head = bytes.get(..size).filter(|_| size >= 92).ok_or(HeaderProblem::Checksum)?;
        let mut checksum = Crc::new();
        checksum.add(head.get(..CHECKSUM).unwrap_or_default());
        checksum.add(&[0; 4]);
        checksum.add(head.get(CHECKSUM + 4..).unwrap_or_default());
        if checksum.value() != word(bytes, CHECKSUM) {
            return Err(HeaderProblem::Checksum);
        }
        if word(bytes, 8) != REVISION {
            return Err(HeaderProblem::Revision);
        }
        if double(bytes, 24) != place {
            return Err(HeaderProblem::Misplaced);
        }
        let header = Self {
            other: double(bytes, 32),
            usable: (double(bytes, 40), double(bytes, 48)),
            entries: double(bytes, 72),
            entry_count: word(bytes, 80),
            entry_size: word(bytes, 84),
            entries_checksum: word(bytes, 88),
        };
        // Entries of a larger size could lie across what is read at a time.
        let sizes = header.entry_size.is_power_of_two() && (128..=BLOCK as u32).contains(&header.entry_size);
        if !sizes || !(1..=MAX_ENTRIES).contains(&header.entry_count) {
            return Err(HeaderProblem::Entries);
        }
        header.check_places(bytes, place, blocks)?;
        Ok(header)
    }

    /// Checks that entries and partitions are within the disk, and apart from each other and from
    /// both headers.
    fn check_places(&self, bytes: &[u8], place: u64, blocks: u64) -> Result<(), HeaderProblem> {
        let unit = bytes.len().max(BLOCK) as u64;
        let length = self.entry_bytes().div_ceil(unit);
        let entries_end = self.entries.checked_add(length).ok_or(HeaderProblem::Entries)?;
        if self.entries < 2 || entries_end > blocks || (self.entries..entries_end).contains(&place) {
            return Err(HeaderProblem::Entries);
        }
        let (first, last) = self.usable;
        // The other table's entries are as many; those of the first one begin at block 2.
        let within = first <= last && last < blocks && first >= 2 + length;
        let apart = entries_end <= first || self.entries > last;
        let is_usable = |block: u64| (first..=last).contains(&block);
        // The backup is looked for in the last block, wherever the header says that it is.
        if !within || !apart || is_usable(place) || is_usable(self.other) || is_usable(blocks - 1) {
            return Err(HeaderProblem::Usable);
        }
        Ok(())
    }

    /// Returns the bytes of all entries.
    pub fn entry_bytes(&self) -> u64 {
        u64::from(self.entry_count) * u64::from(self.entry_size)
    }

    pub fn has_checksum(&self, checksum: Crc) -> bool {
        checksum.value() == self.entries_checksum
    }

    /// Reads one entry (table 5-6) of a disk whose logical blocks are 2^`granule` blocks. Returns
    /// `None` if it is not in use.
    pub fn entry(&self, bytes: &[u8], number: u32, granule: u8) -> Option<Partition> {
        if array(bytes, 0) == [0; 16] {
            return None;
        }
        let (first, last) = (double(bytes, 32), double(bytes, 40));
        let (usable_first, usable_last) = self.usable;
        let problem = if last < first {
            Some(Problem::Reversed)
        } else if first < usable_first || last > usable_last {
            Some(Problem::OutOfRange)
        } else {
            None
        };
        // Without a problem neither overflows: the disk's blocks are counted in the same number.
        let (first, blocks) = match problem {
            None => (first << granule, (last - first + 1) << granule),
            Some(_) => (0, 0),
        };
        let name = core::array::from_fn(|unit| half(bytes, 56 + 2 * unit));
        Some(Partition { number, first, blocks, uuid: guid(array(bytes, 16)), name, problem })
    }
}

/// Returns a GUID in the order in which it is written: its first three fields lie with their lowest
/// byte first (UEFI 2.10 appendix A).
fn guid(bytes: [u8; 16]) -> Uuid {
    let [a, b, c, d, e, f, g, h, rest @ ..] = bytes;
    let [i, j, k, l, m, n, o, p] = rest;
    Uuid::Gpt([d, c, b, a, f, e, h, g, i, j, k, l, m, n, o, p])
}
