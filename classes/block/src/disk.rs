//! A disk's properties, and whether it takes a request.

use crate::request::Borrowed;
use crate::{Error, MAX_BLOCKS, MAX_DISK, MAX_SEGMENTS, Operation, Request};

/// A disk, or the part of one that a client sees.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Disk {
    /// Count of its blocks; 0 if there is no medium.
    pub blocks: u64,
    /// Number of the medium: another one if another is put in its place, or if what was answered is
    /// lost ([`crate`]); 0 if there is none. A driver's next life gives the same medium the same
    /// number.
    pub medium: u32,
    /// Nothing can be written.
    pub read_only: bool,
    /// [`Operation::Discard`] is there.
    pub discards: bool,
    /// [`Operation::WriteZeroes`] is there.
    pub writes_zeroes: bool,
    /// Whether a write that was answered may be lost until it is flushed. If not,
    /// [`Operation::Flush`] has nothing to do, and [`crate::Client`] does not send it.
    pub caches: bool,
    /// Binary logarithm of the granule: requests begin at a multiple of 2^`granule` blocks, and
    /// name a multiple of so many. It is 3 if the device has blocks of 4 KiB. Segments need not be
    /// multiples of it.
    pub granule: u8,
    /// The most segments of a request.
    pub segments: u8,
    /// The most blocks that a request reads or writes.
    pub most: u32,
    /// The exponent of the most blocks that are discarded or zeroed by one request.
    pub most_cleared: u8,
    /// Counts the flushes that have failed, in all lives of the driver, from 1 to
    /// [`Self::MAX_FAILURES`] and again: who asked for a flush may have been restarted before it
    /// was answered. 0 if the driver does not count them, and for clients of a virtualiser, which
    /// are told by their own flushes.
    pub failures: u8,
}

impl Disk {
    /// No medium.
    pub const ABSENT: Self = Self {
        blocks: 0,
        medium: 0,
        read_only: false,
        discards: false,
        writes_zeroes: false,
        caches: true,
        granule: 0,
        segments: MAX_SEGMENTS as u8,
        most: MAX_BLOCKS,
        most_cleared: Self::MAX_CLEARED,
        failures: 0,
    };

    /// The largest count of failed flushes: it has 7 bits in a queue.
    pub const MAX_FAILURES: u8 = 127;

    /// Returns the count of failed flushes behind `count`.
    pub const fn next_failure(count: u8) -> u8 {
        count % Self::MAX_FAILURES + 1
    }

    /// The largest exponent of the most blocks that are cleared by one request: their count has 24
    /// bits in a queue.
    pub const MAX_CLEARED: u8 = 23;

    /// The largest exponent of a granule: 64 KiB.
    pub const LARGEST_GRANULE: u8 = 7;

    /// Creates a disk of so many blocks that reads and writes, within the limits of the class.
    /// Others are made of it by changing fields.
    pub const fn new(blocks: u64, medium: u32) -> Self {
        Self { blocks, medium, ..Self::ABSENT }
    }

    /// Returns the disk as it is after it was `known` so: a medium that had a cache keeps it. A
    /// device may say otherwise after a reset, and a flush has yet to tell what became of writes
    /// that were answered before.
    #[must_use]
    pub const fn after(self, known: &Self) -> Self {
        let had_cache = known.medium == self.medium && known.caches;
        Self { caches: self.caches || had_cache, ..self }
    }

    /// Returns whether there is a medium.
    #[inline(always)]
    pub const fn is_present(&self) -> bool {
        self.medium != 0
    }

    /// Returns whether every field is within the class's limits: a peer may have written anything.
    pub const fn is_valid(&self) -> bool {
        self.blocks <= MAX_DISK
            && (self.medium != 0 || self.blocks == 0)
            && self.granule <= Self::LARGEST_GRANULE
            && self.blocks.is_multiple_of(1 << self.granule)
            && self.segments > 0
            && self.segments as usize <= MAX_SEGMENTS
            && self.most >= 1 << self.granule
            && self.most <= MAX_BLOCKS
            && self.most_cleared >= self.granule
            && self.most_cleared <= Self::MAX_CLEARED
            && self.failures <= Self::MAX_FAILURES
    }

    /// Returns whether the disk takes a request of a client that has `memory_blocks` blocks of
    /// memory.
    ///
    /// # Errors
    ///
    /// The reason why it does not.
    #[inline(always)]
    pub fn check(&self, request: &Request, memory_blocks: u64) -> Result<(), Error> {
        self.check_borrowed(request.into(), memory_blocks)
    }

    /// Does what [`Self::check`] does.
    #[inline(always)]
    pub(crate) fn check_borrowed(&self, request: Borrowed<'_>, memory_blocks: u64) -> Result<(), Error> {
        if !self.is_present() {
            return Err(Error::Absent);
        }
        if request.operation.changes_blocks() && self.read_only {
            return Err(Error::ReadOnly);
        }
        if request.operation.moves_data() {
            let (segments, most) = (request.segments, usize::from(self.segments));
            let whole = segments.iter().all(|segment| segment.blocks > 0 && segment.end() <= memory_blocks);
            if !whole || segments.is_empty() || segments.len() > most || request.blocks > self.most {
                return Err(Error::Invalid);
            }
        } else if request.operation.is_flush() {
            return if (request.block, request.blocks) == (0, 0) { Ok(()) } else { Err(Error::Invalid) };
        } else {
            let is_possible = if request.operation == Operation::Discard { self.discards } else { self.writes_zeroes };
            if !is_possible {
                return Err(Error::Unsupported);
            }
            if request.blocks == 0 || request.blocks > 1 << self.most_cleared {
                return Err(Error::Invalid);
            }
        }
        let (blocks, within_granule) = (u64::from(request.blocks), (1_u64 << self.granule) - 1);
        if (request.block | blocks) & within_granule != 0 {
            return Err(Error::Invalid);
        }
        let end = request.block.checked_add(blocks).ok_or(Error::OutOfRange)?;
        if end > self.blocks { Err(Error::OutOfRange) } else { Ok(()) }
    }

    /// Returns the disk as a client sees it that has `blocks` of it from block `first` on. Returns
    /// `None` if the disk does not have these blocks, or they do not begin and end at a multiple of
    /// its granule.
    pub fn part(&self, first: u64, blocks: u64) -> Option<Self> {
        let end = first.checked_add(blocks).filter(|end| *end <= self.blocks)?;
        let aligned = (first | end) & ((1 << self.granule) - 1) == 0;
        aligned.then_some(Self { blocks, ..*self })
    }
}
