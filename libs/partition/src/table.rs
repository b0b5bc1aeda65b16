//! The result of a scan: a table of partitions, with its problems.

use crate::{HeaderProblem, MAX_PARTITIONS, Selector};
use alloc::vec::Vec;
use core::fmt;

/// The kind of a table.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// Master boot record.
    Mbr,
    /// GUID partition table.
    Gpt,
}

/// The identifier of a partition, which stays the same wherever it lies: a GUID, or of an MBR what
/// Linux shows as PARTUUID.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Uuid {
    /// A GUID, in the order in which it is written (RFC 9562).
    Gpt([u8; 16]),
    /// The number of the disk and that of the partition, as Linux has them for an MBR.
    Mbr {
        /// Of the disk.
        signature: u32,
        /// Of the partition.
        number: u8,
    },
}

/// The problem of a partition.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Problem {
    /// It lies outside the disk, or where its table says that none can be.
    OutOfRange,
    /// Its end is before its beginning.
    Reversed,
    /// It overlaps the partition of this number.
    Overlaps(u32),
    /// It holds blocks of the table itself: whoever writes there would say what the others are.
    HoldsTable,
}

/// A partition.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Partition {
    /// Its number, as Linux counts: entries from 1 on, logical partitions from 5 to 255, in the
    /// order of the chains.
    pub number: u32,
    /// The first block.
    pub first: u64,
    /// The count of blocks. Together with `first` it does not overflow.
    pub blocks: u64,
    /// Its identifier.
    pub uuid: Uuid,
    /// Its name in a GPT: UTF-16, up to the first zero.
    pub name: [u16; 36],
    /// Its problem, if it has one.
    pub problem: Option<Problem>,
}

impl Partition {
    /// Returns its name, where what is no text is replaced.
    pub fn name(&self) -> impl Iterator<Item = char> {
        char::decode_utf16(self.units()).map(|char| char.unwrap_or(char::REPLACEMENT_CHARACTER))
    }

    /// Returns its name as it stands in a GPT.
    pub(crate) fn units(&self) -> impl Iterator<Item = u16> {
        self.name.iter().copied().take_while(|unit| *unit != 0)
    }

    fn end(&self) -> u64 {
        self.first + self.blocks
    }
}

/// The flaw of a table that can be used all the same.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Flaw {
    /// The primary GPT has this problem; the backup was used.
    Primary(HeaderProblem),
    /// The primary GPT is good, but its backup's header has this problem, or the primary one says
    /// that the backup is elsewhere.
    Backup(HeaderProblem),
    /// A further logical partition could not be read, or leads back to one before, or an extended
    /// partition lies outside the disk. What follows is left out: its numbers are not known.
    BrokenChain,
    /// There are more than [`MAX_PARTITIONS`].
    TooMany,
}

/// The reason why there is no table.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NoTable {
    /// There is none: no boot signature, or entries that are no partitions.
    None,
    /// The first block cannot be read.
    Unreadable,
    /// Both GPTs have problems.
    BadGpt {
        /// The one at the beginning of the disk.
        primary: HeaderProblem,
        /// The one at its end.
        backup: HeaderProblem,
    },
}

/// The reason why a partition is not there.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NotFound {
    /// No partition is of that description.
    None,
    /// More than one is.
    Ambiguous,
    /// It is there, but cannot be used.
    Bad(Problem),
}

/// A partition table.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Table {
    /// Its kind.
    pub kind: Kind,
    /// Its partitions, by number.
    pub partitions: Vec<Partition>,
    /// Its flaw, if it has one.
    pub flaw: Option<Flaw>,
}

impl Table {
    pub(crate) fn new(kind: Kind) -> Self {
        Self { kind, partitions: Vec::new(), flaw: None }
    }

    /// Adds a partition, if there is space for one more.
    pub(crate) fn add(&mut self, partition: Partition) {
        if self.partitions.len() < MAX_PARTITIONS {
            self.partitions.push(partition);
        } else {
            self.flaw = self.flaw.or(Some(Flaw::TooMany));
        }
    }

    /// Marks partitions that overlap.
    pub(crate) fn check_overlaps(&mut self) {
        let mut order: Vec<usize> = (0..self.partitions.len()).collect();
        let sound = |partition: &Partition| partition.problem.is_none();
        order.retain(|index| self.partitions.get(*index).is_some_and(sound));
        order.sort_unstable_by_key(|index| self.partitions.get(*index).map(|partition| partition.first));
        // In the order of their beginnings, one overlaps an earlier one if and only if it begins
        // before the farthest end so far.
        let mut farthest: Option<usize> = None;
        for index in order {
            let get = |index: usize| self.partitions.get(index).map(|partition| (partition.number, partition.end()));
            let Some((number, end)) = get(index) else { continue };
            let before = farthest.and_then(|other| Some((other, get(other)?)));
            let begins = self.partitions.get(index).map_or(0, |partition| partition.first);
            if let Some((other, (other_number, other_end))) = before {
                if begins < other_end {
                    self.mark(index, Problem::Overlaps(other_number));
                    self.mark(other, Problem::Overlaps(number));
                }
                if end <= other_end {
                    continue;
                }
            }
            farthest = Some(index);
        }
    }

    fn mark(&mut self, index: usize, problem: Problem) {
        if let Some(partition) = self.partitions.get_mut(index) {
            partition.problem = partition.problem.or(Some(problem));
        }
    }

    /// Returns the partition that `selector` describes.
    ///
    /// # Errors
    ///
    /// See [`NotFound`].
    pub fn find(&self, selector: &Selector<'_>) -> Result<&Partition, NotFound> {
        let mut found = self.partitions.iter().filter(|partition| selector.describes(partition));
        let first = found.next().ok_or(NotFound::None)?;
        if found.next().is_some() {
            return Err(NotFound::Ambiguous);
        }
        first.problem.map_or(Ok(first), |problem| Err(NotFound::Bad(problem)))
    }
}

impl fmt::Display for Problem {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::OutOfRange => formatter.write_str("it lies outside the disk, or outside what its table allows"),
            Self::Reversed => formatter.write_str("it ends before it begins"),
            Self::Overlaps(number) => write!(formatter, "it overlaps partition {number}"),
            Self::HoldsTable => formatter.write_str("it holds a part of the partition table"),
        }
    }
}

impl fmt::Display for Flaw {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Primary(problem) => write!(formatter, "the first GPT cannot be used, {problem}; its backup is"),
            Self::Backup(problem) => write!(formatter, "the backup of the GPT cannot be used: {problem}"),
            Self::BrokenChain => formatter.write_str("the chain of logical partitions is broken"),
            Self::TooMany => write!(formatter, "there are more than {MAX_PARTITIONS} partitions"),
        }
    }
}

impl fmt::Display for NoTable {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::None => formatter.write_str("there is no partition table"),
            Self::Unreadable => formatter.write_str("the first block cannot be read"),
            Self::BadGpt { primary, backup } => {
                write!(formatter, "neither GPT can be used: of the first, {primary}; of its backup, {backup}")
            }
        }
    }
}

impl fmt::Display for NotFound {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::None => formatter.write_str("there is no such partition"),
            Self::Ambiguous => formatter.write_str("there is more than one such partition"),
            Self::Bad(problem) => problem.fmt(formatter),
        }
    }
}

impl core::error::Error for NoTable {}

impl core::error::Error for NotFound {}
