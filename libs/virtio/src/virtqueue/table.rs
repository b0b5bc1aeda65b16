//! Tables of descriptors (VIRTIO 1.2 §2.7.5.3): a chain whose parts stand in memory of the
//! driver's, so that it takes one descriptor of the queue, however many parts it has.

use super::{Access, Part, Slot, Virtqueue};
use crate::crash_point;
use crate::registers::{DESCRIPTOR_NEXT, DESCRIPTOR_TABLE, DESCRIPTOR_WRITE};
use alloc::vec::Vec;
use core::sync::atomic::AtomicU64;
use core::sync::atomic::Ordering::{Relaxed, Release};
use core::sync::atomic::compiler_fence;

/// Bytes of a descriptor.
pub const DESCRIPTOR: usize = 16;

/// Number of the descriptor of a table's last part. The others stand around it, in order.
const LAST: u64 = 1;

/// A table for chains with the same first and the same last part, which are written once: each has
/// a descriptor of its own.
#[derive(Clone, Copy, Debug)]
pub struct Table<'a>(&'a [[AtomicU64; 2]]);

impl<'a> Table<'a> {
    /// Creates the table that stands in these words, two for each part.
    #[inline(always)]
    pub fn new(words: &'a [AtomicU64]) -> Self {
        Self(words.as_chunks().0)
    }

    /// Writes what all chains have: where the first part is, and the last part. A chain that stands
    /// there stays.
    pub fn set_ends(self, first: Part, last: Part) {
        if let [[first_low, _], [low, high], ..] = self.0 {
            first_low.store(first.address, Relaxed);
            low.store(last.address, Relaxed);
            high.store(described(last), Relaxed);
        }
    }

    /// Writes a chain: behind its first part, which is the one of [`Self::set_ends`], as many of
    /// those `between` as there is room for, before the last one. Parts to read come before parts
    /// to write (§2.7.4.2). Returns how many parts the chain has.
    #[inline(always)]
    pub fn set(self, first: Part, between: impl Iterator<Item = Part>) -> u16 {
        let [[_, high], _, room @ ..] = self.0 else { return 0 };
        // The word of the part before, without its link.
        let (mut before, mut word, mut number) = (high, described(first), LAST);
        let mut room = room.iter();
        for part in between {
            let Some([low, high]) = room.next() else { break };
            number += 1;
            before.store(word | link(number), Relaxed);
            low.store(part.address, Relaxed);
            (before, word) = (high, described(part));
        }
        before.store(word | link(LAST), Relaxed);
        number as u16 + 1
    }

    /// Puts the parts of the chain that stands there in place of what is in `parts`.
    pub fn read(self, parts: &mut Vec<Part>) {
        parts.clear();
        let mut number = 0;
        // A device that writes there can make a circle of it.
        while parts.len() < self.0.len()
            && let Some([low, high]) = self.0.get(number)
        {
            let high = high.load(Relaxed);
            let (flags, next) = ((high >> 32) as u16, high >> 48);
            let access = if flags & DESCRIPTOR_WRITE == 0 { Access::Read } else { Access::Write };
            parts.push(Part { address: low.load(Relaxed), length: high as u32, access });
            if flags & DESCRIPTOR_NEXT == 0 {
                return;
            }
            number = next as usize;
        }
    }
}

/// Returns a descriptor's second word, without a next one.
#[inline(always)]
fn described(part: Part) -> u64 {
    u64::from(part.length) | u64::from(part.access.flags()) << 32
}

/// Returns what that word has of a next descriptor.
#[inline(always)]
fn link(next: u64) -> u64 {
    u64::from(DESCRIPTOR_NEXT) << 32 | next << 48
}

impl Virtqueue {
    /// Gives the device a chain of `count` parts, which stand in the table at `address` and stay
    /// there until it is used. The device sees it after [`Self::publish`]. Returns false if there
    /// is no space.
    ///
    /// The device must have [`crate::registers::FEATURE_TABLES`]. How many bytes it may write is
    /// not recorded: [`Used::length`](super::Used::length) is what it says.
    #[inline]
    pub fn add_table(&mut self, address: u64, count: u16, token: u32) -> bool {
        if self.space() == 0 {
            return false;
        }
        let number = self.available.at(self.next).load(Relaxed);
        let [low, high] = self.descriptors.at(number);
        crash_point();
        low.store(address, Relaxed);
        let length = u64::from(count) * DESCRIPTOR as u64;
        high.store(length | u64::from(DESCRIPTOR_TABLE) << 32, Relaxed);
        // As in `Reservation::add`.
        compiler_fence(Release);
        crash_point();
        self.slots.at(number).store(Slot::single(token, Slot::ANY_LENGTH).0, Relaxed);
        self.next = self.next.wrapping_add(1);
        true
    }
}
