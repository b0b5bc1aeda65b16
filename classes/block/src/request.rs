//! A client's requests, and why they may be refused.

use crate::MAX_SEGMENTS;
use core::fmt;

/// An operation on blocks. Its number is the one that it has in a queue.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum Operation {
    /// Read them into memory.
    Read = 1,
    /// Write them from memory.
    Write = 2,
    /// Make all durable that was answered before. It names no blocks.
    Flush = 3,
    /// Forget their content: what is read there afterwards is anything, until it is written. A
    /// device may do nothing.
    Discard = 4,
    /// Write zeroes.
    WriteZeroes = 5,
    /// Write zeroes. The device may forget the blocks, and so keep no space for them, if it reads
    /// zeroes there afterwards.
    DiscardToZeroes = 6,
}

impl Operation {
    /// Returns the operation of this number, if there is one.
    #[inline(always)]
    pub(crate) const fn of(number: u64) -> Option<Self> {
        match number {
            1 => Some(Self::Read),
            2 => Some(Self::Write),
            3 => Some(Self::Flush),
            4 => Some(Self::Discard),
            5 => Some(Self::WriteZeroes),
            6 => Some(Self::DiscardToZeroes),
            _ => None,
        }
    }

    /// Returns whether it is [`Self::Read`].
    #[inline(always)]
    pub const fn is_read(self) -> bool {
        matches!(self, Self::Read)
    }

    /// Returns whether it is [`Self::Flush`].
    #[inline(always)]
    pub const fn is_flush(self) -> bool {
        matches!(self, Self::Flush)
    }

    /// Returns whether memory is read or written.
    #[inline(always)]
    pub const fn moves_data(self) -> bool {
        matches!(self, Self::Read | Self::Write)
    }

    /// Returns whether blocks lose their content, or get zeroes for it.
    #[inline(always)]
    pub const fn clears_blocks(self) -> bool {
        matches!(self, Self::Discard | Self::WriteZeroes | Self::DiscardToZeroes)
    }

    /// Returns whether blocks change.
    #[inline(always)]
    pub const fn changes_blocks(self) -> bool {
        matches!(self, Self::Write) || self.clears_blocks()
    }
}

/// A piece of memory, in blocks.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Segment {
    /// Number of its first block: in a client's data region, or in the device's address space.
    pub place: u64,
    /// Count of its blocks.
    pub blocks: u32,
}

impl Segment {
    /// Returns the block behind the last one. It does not overflow for a segment from a queue.
    #[inline(always)]
    pub const fn end(self) -> u64 {
        self.place.saturating_add(self.blocks as u64)
    }
}

/// A request.
#[derive(Clone, Debug)]
pub struct Request {
    /// The operation.
    pub operation: Operation,
    /// The first block.
    pub block: u64,
    /// The count of blocks.
    pub blocks: u32,
    segments: [Segment; MAX_SEGMENTS],
    count: usize,
}

impl Request {
    /// Creates a request that reads blocks from `block` on into the segments, one after the other.
    /// Returns `None` if there is none, or more than [`MAX_SEGMENTS`].
    #[inline]
    pub fn read(block: u64, segments: &[Segment]) -> Option<Self> {
        Self::moving(Operation::Read, block, segments)
    }

    /// Creates a request that writes the segments, one after the other, to the blocks from `block`
    /// on. Returns `None` if there is none, or more than [`MAX_SEGMENTS`].
    #[inline]
    pub fn write(block: u64, segments: &[Segment]) -> Option<Self> {
        Self::moving(Operation::Write, block, segments)
    }

    /// Creates a request that makes all durable that was answered before it is sent.
    pub fn flush() -> Self {
        Self::without_data(Operation::Flush, 0, 0)
    }

    /// Creates a request that forgets the content of blocks.
    pub fn discard(block: u64, blocks: u32) -> Self {
        Self::without_data(Operation::Discard, block, blocks)
    }

    /// Creates a request that writes zeroes to blocks, which the device `may_discard`.
    pub fn write_zeroes(block: u64, blocks: u32, may_discard: bool) -> Self {
        let operation = if may_discard { Operation::DiscardToZeroes } else { Operation::WriteZeroes };
        Self::without_data(operation, block, blocks)
    }

    #[inline]
    fn without_data(operation: Operation, block: u64, blocks: u32) -> Self {
        Self { operation, block, blocks, segments: [Segment::default(); MAX_SEGMENTS], count: 0 }
    }

    #[inline]
    fn moving(operation: Operation, block: u64, segments: &[Segment]) -> Option<Self> {
        let mut request = Self::without_data(operation, block, 0);
        let whole = !segments.is_empty() && segments.iter().all(|segment| request.add(*segment));
        whole.then_some(request)
    }

    /// Makes another request of this one, with its first segment, whose count of blocks is the
    /// request's if it moves no data. What stands behind its segments stays.
    #[inline(always)]
    pub(crate) fn begin_again(&mut self, operation: Operation, block: u64, segment: Segment) {
        (self.operation, self.block, self.blocks) = (operation, block, segment.blocks);
        self.segments[0] = segment;
        self.count = usize::from(operation.moves_data());
    }

    /// Adds a segment. Returns false if there are [`MAX_SEGMENTS`] already.
    #[inline]
    pub(crate) fn add(&mut self, segment: Segment) -> bool {
        let Some(free) = self.segments.get_mut(self.count) else { return false };
        *free = segment;
        self.count += 1;
        self.blocks = self.blocks.saturating_add(segment.blocks);
        true
    }

    /// Returns the segments; there are some if and only if the request moves data.
    #[inline(always)]
    pub fn segments(&self) -> &[Segment] {
        self.segments.get(..self.count).unwrap_or_default()
    }
}

/// A request whose segments stand elsewhere: to send one, none need be copied.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Borrowed<'a> {
    pub operation: Operation,
    pub block: u64,
    pub blocks: u32,
    pub segments: &'a [Segment],
}

impl<'a> Borrowed<'a> {
    /// Creates a request that moves data. Whether a disk takes it is for the disk to say.
    #[inline(always)]
    pub fn moving(operation: Operation, block: u64, segments: &'a [Segment]) -> Self {
        let blocks = segments.iter().fold(0, |blocks: u32, segment| blocks.saturating_add(segment.blocks));
        Self { operation, block, blocks, segments }
    }
}

impl<'a> From<&'a Request> for Borrowed<'a> {
    #[inline(always)]
    fn from(request: &'a Request) -> Self {
        let Request { operation, block, blocks, .. } = *request;
        Self { operation, block, blocks, segments: request.segments() }
    }
}

/// How far a client's blocks and its memory lie from where its virtualiser counts them: what is
/// added to the numbers in its requests on the way to the driver.
///
/// The sums stay within what a queue can express: the client's part lies within a disk, its memory
/// within what a device can address ([`crate::MAX_DISK`]), and each of its requests within both.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Shift {
    /// The first block of the client's part.
    pub blocks: u64,
    /// The first place of the client's memory.
    pub places: u64,
}

impl Shift {
    /// Everything stays where it is.
    pub const NONE: Self = Self { blocks: 0, places: 0 };

    /// Returns the first block of a request there, whose own is `block`.
    #[inline(always)]
    pub fn block(self, operation: Operation, block: u64) -> u64 {
        // A flush has no blocks to lie anywhere.
        if operation.is_flush() { 0 } else { block.wrapping_add(self.blocks) }
    }

    /// Returns the place of a segment there.
    #[inline(always)]
    pub fn place(self, segment: Segment) -> u64 {
        segment.place.wrapping_add(self.places)
    }
}

/// Compares the segments that a request has; those behind them are no part of it.
impl PartialEq for Request {
    fn eq(&self, other: &Self) -> bool {
        let head = |request: &Self| (request.operation, request.block, request.blocks);
        head(self) == head(other) && self.segments() == other.segments()
    }
}

impl Eq for Request {}

/// The reason why a request failed. It had no effect, unless the reason says otherwise, or the
/// provider was restarted since the request was sent: an earlier life may have done some of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Error {
    /// The request contradicts the protocol or the limits of the disk, or names memory outside its
    /// client's data region.
    Invalid,
    /// It names blocks that the disk does not have.
    OutOfRange,
    /// The disk cannot be written.
    ReadOnly,
    /// The disk cannot do that.
    Unsupported,
    /// There is no medium. Of a write or clear that was under way when it was taken out, any blocks
    /// may have been changed.
    Absent,
    /// Another medium than the one for which the request was meant is there. Of the earlier one as
    /// after [`Self::Absent`].
    Changed,
    /// The device says that it failed. Of a write or clear, any blocks may have been changed; of a
    /// flush, see [`crate`].
    Failed,
}

impl Error {
    /// Every reason, in the order of their numbers in a queue.
    pub const ALL: [Self; 7] =
        [Self::Invalid, Self::OutOfRange, Self::ReadOnly, Self::Unsupported, Self::Absent, Self::Changed, Self::Failed];
}

impl fmt::Display for Error {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(match self {
            Self::Invalid => "the request is invalid",
            Self::OutOfRange => "the request names blocks that the disk does not have",
            Self::ReadOnly => "the disk is read-only",
            Self::Unsupported => "the disk cannot do that",
            Self::Absent => "there is no medium",
            Self::Changed => "another medium is there",
            Self::Failed => "the device failed",
        })
    }
}

impl core::error::Error for Error {}
