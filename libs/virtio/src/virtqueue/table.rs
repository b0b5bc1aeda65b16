//! Tables of descriptors (VIRTIO 1.2 §2.7.5.3): a chain whose parts stand in memory of the
//! driver's, so that it takes one descriptor of the queue, however many parts it has.

use super::{Part, Slot, Virtqueue};
use crate::crash_point;
use crate::registers::{DESCRIPTOR_NEXT, DESCRIPTOR_TABLE};
use core::sync::atomic::AtomicU64;
use core::sync::atomic::Ordering::{Relaxed, Release};
use core::sync::atomic::compiler_fence;

/// Bytes of a descriptor.
pub const DESCRIPTOR: usize = 16;

/// Writes the parts of a chain into `table`, as far as there is room: two words for each. Parts to
/// read come before parts to write (§2.7.4.2).
#[inline]
pub fn write_table(table: &[AtomicU64], parts: &[Part]) {
    let (descriptors, _) = table.as_chunks::<2>();
    for (next, ([low, high], part)) in (1..).zip(descriptors.iter().zip(parts)) {
        let link = u64::from(DESCRIPTOR_NEXT) << 32 | next << 48;
        let flags = u64::from(part.access.flags()) << 32 | if next == parts.len() as u64 { 0 } else { link };
        low.store(part.address, Relaxed);
        high.store(u64::from(part.length) | flags, Relaxed);
    }
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
