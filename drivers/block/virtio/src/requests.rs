//! The requests that are under way: what the device has of each besides its data, and whose it is.
//!
//! Header, range and status of a request lie in the device's memory, in a *record*, and so does the
//! table of its parts, if the device takes tables. A record's number is the token by which the
//! virtqueue returns the request. Whose the request is stands in the driver's own memory, which the
//! device cannot write.

use crate::registers::*;
use alloc::vec::Vec;
use core::sync::atomic::AtomicU64;
use core::sync::atomic::Ordering::Relaxed;
use culm::Region;
use culm_block::{BLOCK, Disk, Error, MAX_SEGMENTS, Operation, Request, Segment, Shift};
use culm_virtio::virtqueue::{Access, DESCRIPTOR, Table};
use culm_virtio::{Part, Used};

/// Words of a record: header (two words), range (two words), status, the rest of a cache line, and
/// the table.
const WORDS: usize = TABLE / 8 + 2 * MOST_PARTS + 4;

/// Bytes of a record: whole cache lines.
pub const RECORD: usize = 8 * WORDS;

const _: () = assert!(RECORD.is_multiple_of(64) && DESCRIPTOR == 16);

/// Offset of a record's range to discard or to zero (§5.2.6, `virtio_blk_discard_write_zeroes`).
const RANGE: u64 = 16;

/// Offset of a record's status.
const STATUS: u64 = 32;

/// Offset of a record's table.
const TABLE: usize = 64;

/// In place of a request's type: the record is free.
const NO_REQUEST: u64 = u64::MAX;

/// In place of the type of a flush that is under way, and counted as failed. What makes it another
/// value stands in the half that is reserved (§5.2.6): a device that does not reset may take the
/// request, and is to find a flush.
const COUNTED_FLUSH: u64 = TYPE_FLUSH as u64 | 1 << 63;

/// A status that no device writes.
const NO_STATUS: u64 = 0xff;

/// The parts of a chain at most: a header, segments, a status.
pub const MOST_PARTS: usize = MAX_SEGMENTS + 2;

/// The resets of the device that a request has been through when it becomes a suspect: the device
/// may have failed because of it.
const MOST_RESETS: u8 = 2;

/// How many periods a flush may take: a disk that has much in its cache, or whose host has, is at
/// it for minutes. A device that is reset for it loses what it has done so far.
const FLUSH_PERIODS: u32 = 10;

/// The owner of a record.
#[derive(Clone, Copy, Debug)]
struct Owner<T> {
    /// The name of the request for who asked; `None` if the record is free.
    tag: Option<T>,
    /// Bytes that the device writes if the request is done: its data if it reads, and the status.
    written: u32,
    /// After how many more resets of the device the request is a suspect. A flush survives none.
    chances: u8,
    /// Whether it is a flush.
    is_flush: bool,
    /// The period in which the device got it: see [`Requests::end_period`].
    period: u32,
}

impl<T> Owner<T> {
    /// Returns how many whole periods the device may have the request.
    fn patience(&self) -> u32 {
        if self.is_flush { FLUSH_PERIODS } else { 1 }
    }
}

/// The outcome of a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Outcome<T> {
    /// The name of the request for who asked.
    pub tag: T,
    /// The result for who asked.
    pub result: Result<(), Error>,
    /// Whether what the device said of it cannot be.
    pub is_lie: bool,
}

/// The records.
#[derive(Debug)]
pub struct Requests<T> {
    records: &'static [[AtomicU64; WORDS]],
    /// Where the device sees the first record.
    dma: u64,
    /// How many flushes have failed: see [`Disk::failures`]. It outlives the driver.
    failures: &'static AtomicU64,
    owners: Vec<Owner<T>>,
    free: Vec<u16>,
    period: u32,
    /// Whether a request to write zeroes may allow the device to discard the blocks.
    pub zeroes_may_discard: bool,
}

impl<T> Requests<T> {
    /// Creates `count` records in `memory`, behind what ends at `end`. Returns `None` if that is
    /// too small.
    pub fn new(memory: &Region, end: usize, count: u16) -> Option<Self> {
        let failures = end.next_multiple_of(64);
        let offset = failures + 64;
        let words = memory.atomics_u64(offset, WORDS * usize::from(count)).ok()?;
        Some(Self {
            records: words.as_chunks().0,
            failures: memory.atomic_u64(failures).ok()?,
            dma: memory.dma() + offset as u64,
            owners: (0..count)
                .map(|_| Owner { tag: None, written: 0, chances: 0, is_flush: false, period: 0 })
                .collect(),
            free: (0..count).rev().collect(),
            period: 0,
            zeroes_may_discard: false,
        })
    }

    /// Writes what is the same for all requests of a record: where their headers are, and where
    /// their status goes. The device must have been reset: it may have written to the records, or
    /// be at work there for a previous life.
    #[cold]
    pub fn prepare(&self) {
        for (number, record) in (0..).zip(self.records) {
            let address = self.address(number);
            table(record).set_ends(first_part(address), last_part(address));
        }
    }

    /// Returns where the device sees a record.
    #[inline(always)]
    fn address(&self, number: u16) -> u64 {
        self.dma + (RECORD * usize::from(number)) as u64
    }

    /// Returns whether no request is under way.
    #[inline(always)]
    pub fn is_empty(&self) -> bool {
        self.free.len() == self.owners.len()
    }

    /// Counts the flushes that the device failed for the previous life and that were not answered,
    /// and frees all records. If the device `had_failed` as a whole, it may have failed each flush
    /// that it did not say was done. The device must have been reset.
    pub fn look_back(&self, had_failed: bool) {
        for record in self.records {
            let (kind, status) = (record[0].load(Relaxed), record[4].load(Relaxed) as u8);
            let is_done = status == STATUS_OK || u64::from(status) == NO_STATUS && !had_failed;
            if kind == TYPE_FLUSH.into() && !is_done {
                self.count_failure();
            }
            // Dying before this counts it again, which does no harm.
            record[0].store(NO_REQUEST, Relaxed);
        }
    }

    /// Counts a flush that failed, for this life and the next.
    #[cold]
    fn count_failure(&self) {
        self.failures.store(Disk::next_failure(self.failures()).into(), Relaxed);
    }

    /// Returns the count of flushes that have failed ([`Disk::failures`]).
    pub fn failures(&self) -> u8 {
        // It begins as 0, and whatever a device writes there is a count.
        (self.failures.load(Relaxed) % (u64::from(Disk::MAX_FAILURES) + 1)).max(1) as u8
    }

    /// Returns how many requests are under way.
    #[inline(always)]
    pub fn under_way(&self) -> usize {
        self.owners.len() - self.free.len()
    }

    /// Returns how many records are free.
    #[inline(always)]
    pub fn space(&self) -> usize {
        self.free.len()
    }

    /// Writes the record of a request. Returns its number and the count of parts in its table, or
    /// `None` if there is no free record.
    #[inline(always)]
    pub fn begin(&mut self, request: &Request, shift: Shift, tag: T) -> Option<(u16, u16)> {
        let number = self.free.pop()?;
        let address = self.address(number);
        let (record, owner) = (self.records.get(usize::from(number))?, self.owners.get_mut(usize::from(number))?);
        let Request { operation, blocks, .. } = *request;
        let kind = match operation {
            Operation::Read => TYPE_READ,
            Operation::Write => TYPE_WRITE,
            Operation::Flush => TYPE_FLUSH,
            Operation::Discard => TYPE_DISCARD,
            Operation::WriteZeroes | Operation::DiscardToZeroes => TYPE_WRITE_ZEROES,
        };
        // A header's block is 0 where the request moves no data (§5.2.6.1): blocks to clear stand
        // in the range.
        let first = shift.block(operation, request.block);
        let block = if operation.moves_data() { first } else { 0 };
        record[0].store(kind.into(), Relaxed);
        record[1].store(block, Relaxed);
        record[4].store(NO_STATUS, Relaxed);
        let parts = if operation.clears_blocks() {
            let may_discard = operation == Operation::DiscardToZeroes;
            let flags = if may_discard && self.zeroes_may_discard { RANGE_MAY_DISCARD } else { 0 };
            record[2].store(first, Relaxed);
            record[3].store(u64::from(blocks) | u64::from(flags) << 32, Relaxed);
            table(record).set(first_part(address), core::iter::once(range_part(address)))
        } else {
            match request.segments() {
                [segment] => {
                    table(record).set(first_part(address), core::iter::once(data_part(request, *segment, shift)))
                }
                segments => {
                    let parts = segments.iter().map(|segment| data_part(request, *segment, shift));
                    table(record).set(first_part(address), parts)
                }
            }
        };
        let written = if operation.is_read() { 1 + blocks * BLOCK as u32 } else { 1 };
        // A flush that a failing device did not answer may have failed. If it were sent again, the
        // device could say that it is done, and blocks that it has lost would count as durable.
        let is_flush = operation.is_flush();
        *owner = Owner { tag: Some(tag), written, chances: MOST_RESETS, is_flush, period: self.period };
        Some((number, parts))
    }

    /// Returns where the device sees the table of a record.
    #[inline(always)]
    pub fn table_address(&self, number: u16) -> u64 {
        self.address(number) + TABLE as u64
    }

    /// Puts the parts that stand in the table of a record in place of what is in `parts`.
    #[cold]
    pub fn list_parts(&self, number: u16, parts: &mut Vec<Part>) {
        if let Some(record) = self.records.get(usize::from(number)) {
            table(record).read(parts);
        }
    }

    /// Frees the record of a request that the device does not get; returns its tag.
    #[cold]
    pub fn forget(&mut self, number: u16) -> Option<T> {
        let tag = self.owners.get_mut(usize::from(number))?.tag.take()?;
        self.free.push(number);
        Some(tag)
    }

    /// Ends the request that the device has used, and frees its record. Returns `None` if there is
    /// no such request, which only a device that writes outside the used ring can bring about.
    #[inline(always)]
    pub fn end(&mut self, used: Used) -> Option<Outcome<T>> {
        let (record, owner) = (self.records.get(used.token as usize)?, self.owners.get_mut(used.token as usize)?);
        let tag = owner.tag.take()?;
        self.free.push(used.token as u16);
        let is_flush = owner.is_flush;
        let (result, is_lie) = match record[4].load(Relaxed) as u8 {
            // Bytes beyond the used length are not known to be written (§2.7.8.2): the read fails.
            STATUS_OK => {
                let is_lie = used.length != owner.written;
                (if is_lie { Err(Error::Failed) } else { Ok(()) }, is_lie)
            }
            STATUS_FAILED => (Err(Error::Failed), false),
            STATUS_UNSUPPORTED => (Err(Error::Unsupported), false),
            _ => (Err(Error::Failed), true),
        };
        if is_flush {
            if result == Err(Error::Failed) {
                self.count_failure();
            }
            // From here on it is known, whatever becomes of the answer.
            if let Some([kind, ..]) = self.records.get(used.token as usize) {
                kind.store(NO_REQUEST, Relaxed);
            }
        }
        Some(Outcome { tag, result, is_lie })
    }

    /// Counts the flushes under way as failed that a device has not done which is about to be
    /// reset. After the reset, a next life could not tell.
    #[cold]
    pub fn give_flushes_up(&self) {
        for (owner, record) in self.owners.iter().zip(self.records) {
            let is_under_way = owner.tag.is_some() && record[0].load(Relaxed) == TYPE_FLUSH.into();
            if is_under_way && record[4].load(Relaxed) as u8 != STATUS_OK {
                self.count_failure();
                record[0].store(COUNTED_FLUSH, Relaxed);
            }
        }
    }

    /// Records a reset of the device, which has ended all requests. Frees the records of those that
    /// do not survive it, all of them if the device `is_lost`, and calls `end` with the tag of each
    /// and its outcome. The device is to get the others again. Returns whether there is a suspect
    /// among them.
    ///
    /// A flush that does not survive is done if the device said so before the reset had ended, and
    /// only did not come to say that it used the request. Of data that is no proof: it may lie.
    pub fn survive(&mut self, is_lost: bool, mut end: impl FnMut(T, Result<(), Error>)) -> bool {
        let mut has_suspect = false;
        for (number, (owner, record)) in (0..).zip(self.owners.iter_mut().zip(self.records)) {
            if owner.tag.is_none() {
                continue;
            }
            owner.period = self.period;
            let is_done = owner.is_flush && record[4].load(Relaxed) as u8 == STATUS_OK;
            record[4].store(NO_STATUS, Relaxed);
            if !is_lost && !owner.is_flush {
                owner.chances = owner.chances.saturating_sub(1);
                has_suspect |= owner.chances == 0;
                continue;
            }
            self.free.push(number);
            if let Some(tag) = owner.tag.take() {
                end(tag, if is_done { Ok(()) } else { Err(Error::Failed) });
            }
        }
        has_suspect
    }

    /// Returns the records of requests.
    pub fn all_under_way(&self) -> impl Iterator<Item = u16> {
        (0..).zip(&self.owners).filter(|(_, owner)| owner.tag.is_some()).map(|(number, _)| number)
    }

    /// Returns the block of the disk at which a request begins. It stands where the device can
    /// write, so it is good for a guess only.
    pub fn block(&self, number: u16) -> u64 {
        let Some([kind, block, first, ..]) = self.records.get(usize::from(number)) else { return 0 };
        let is_in_range = [TYPE_DISCARD, TYPE_WRITE_ZEROES].map(u64::from).contains(&kind.load(Relaxed));
        if is_in_range { first.load(Relaxed) } else { block.load(Relaxed) }
    }

    /// Begins a period at whose end the device has had each request for a whole one.
    pub fn begin_period(&mut self) {
        let before = self.period.wrapping_sub(1);
        self.owners.iter_mut().for_each(|owner| owner.period = before);
    }

    /// Returns whether record `number` is that of a request.
    pub fn is_under_way(&self, number: u32) -> bool {
        self.owners.get(number as usize).is_some_and(|owner| owner.tag.is_some())
    }

    /// Ends a period. Returns whether the device has had a request for as many whole ones as it
    /// may.
    pub fn end_period(&mut self) -> bool {
        let before = self.period;
        self.period = before.wrapping_add(1);
        self.owners.iter().any(|owner| owner.tag.is_some() && before.wrapping_sub(owner.period) >= owner.patience())
    }
}

/// Returns the table of a record.
#[inline(always)]
fn table(record: &[AtomicU64; WORDS]) -> Table<'_> {
    Table::new(record.get(TABLE / 8..).unwrap_or_default())
}

/// Returns the part that is the header of the request whose record stands at `address`.
#[inline(always)]
fn first_part(address: u64) -> Part {
    Part { address, length: 16, access: Access::Read }
}

/// Returns the part that is its range.
fn range_part(address: u64) -> Part {
    Part { address: address + RANGE, length: 16, access: Access::Read }
}

/// Returns the part that is its status.
fn last_part(address: u64) -> Part {
    Part { address: address + STATUS, length: 1, access: Access::Write }
}

/// Returns the part of a request that is one segment of its data.
#[inline(always)]
fn data_part(request: &Request, segment: Segment, shift: Shift) -> Part {
    Part {
        // Both factors are bounded: places have 40 bits, blocks 24.
        address: shift.place(segment) * BLOCK as u64,
        length: segment.blocks * BLOCK as u32,
        access: if request.operation.is_read() { Access::Write } else { Access::Read },
    }
}
