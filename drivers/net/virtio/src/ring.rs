//! A split virtqueue (VIRTIO 1.2 §2.7), one descriptor per packet.
//!
//! Descriptors are slots of their own: none is ever chained, so taking one is popping a number from
//! a stack. The used ring, which the device writes, is read once and checked.
//!
//! The driver's record of each buffer lies beside the queue, in memory that outlives the driver;
//! the next life goes on from it ([`crate::account`]). Two rules let it: (1) a slot is marked busy
//! only after its descriptor is in the available ring; (2) a freed slot keeps its token until the
//! descriptor is used again, and the buffer's return is published before that. Hazard: breaking
//! rule 2 loses a buffer if the driver dies in between.
//!
//! The used ring lies at an address that is 4 modulo 8: so its elements, which follow a word of 4
//! bytes, are aligned to 8 and read by one access.

use crate::registers::{AVAILABLE_NO_INTERRUPT, USED_NO_NOTIFY};
use crate::step;
use alloc::vec;
use alloc::vec::Vec;
use core::sync::atomic::Ordering::{Acquire, Relaxed, Release, SeqCst};
use core::sync::atomic::{AtomicU16, AtomicU64, compiler_fence, fence};
use culm::{Progress, Region};

/// The offsets of a queue's parts in the device's memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Layout {
    /// Descriptors that it has, a power of two.
    pub size: u16,
    /// Offset of the descriptors, a multiple of 16.
    pub descriptors: usize,
    /// Offset of the available ring, which the driver writes.
    pub available: usize,
    /// Offset of the used ring, which the device writes.
    pub used: usize,
    /// Offset of the slots, in which the driver keeps its record of each buffer.
    pub slots: usize,
    /// Offset of the first byte behind all that.
    pub end: usize,
}

impl Layout {
    /// Lays out a queue of `size` descriptors from `start` on.
    pub fn new(size: u16, start: usize) -> Self {
        let entries = usize::from(size);
        let descriptors = start.next_multiple_of(64);
        let available = descriptors + 16 * entries;
        // Flags, index, ring, used_event; flags, index, ring, avail_event (§2.7.6, §2.7.8).
        let used = (available + 6 + 2 * entries).next_multiple_of(64) + 4;
        let slots = (used + 6 + 8 * entries).next_multiple_of(64);
        Self { size, descriptors, available, used, slots, end: slots + 8 * entries }
    }
}

/// A buffer that the device has used.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Used {
    /// The token that [`Ring::add`] was given.
    pub token: u32,
    /// Bytes that the device says it wrote, at most those that the buffer has.
    pub length: u16,
}

/// The driver's record of a descriptor, in one word: the buffer's token, its length, and whether
/// the device has it.
#[derive(Clone, Copy)]
struct Slot(u64);

impl Slot {
    /// The device has it.
    const BUSY: u64 = 1 << 48;

    /// From this bit on: its rank among the buffers that a device gets again after a reset.
    const RANK: u32 = 49;

    #[inline(always)]
    fn new(token: u32, length: u16) -> Self {
        Self(u64::from(token) | u64::from(length) << 32 | Self::BUSY)
    }

    #[inline(always)]
    fn is_busy(self) -> bool {
        self.0 & Self::BUSY != 0
    }

    #[inline(always)]
    fn token(self) -> u32 {
        self.0 as u32
    }

    #[inline(always)]
    fn length(self) -> u16 {
        (self.0 >> 32) as u16
    }
}

/// A virtqueue.
pub struct Ring {
    pub(crate) layout: Layout,
    descriptors: &'static [[AtomicU64; 2]],
    /// Flags, index, ring, used_event.
    available: &'static [AtomicU16],
    /// Flags, index.
    used_head: &'static [AtomicU16],
    used: &'static [AtomicU64],
    avail_event: &'static AtomicU16,
    /// A [`Slot`] for each descriptor.
    slots: &'static [AtomicU64],
    idle: Vec<u16>,
    mask: u16,
    /// Flags of all descriptors.
    flags: u16,
    event_index: bool,
    /// Index of the next entry to make available.
    next: u16,
    /// `next` when it was last published.
    published: u16,
    /// Index of the next used entry to read.
    seen: u16,
    /// The device's used index, as last read and accepted.
    device: u16,
    errors: u32,
    broken: bool,
}

impl Ring {
    /// Returns the queue in `memory` where `layout` says, not yet set up: see [`Self::adopt`] and
    /// [`Self::renew`]. Returns `None` if the memory is too small.
    pub fn new(memory: &Region, layout: Layout, flags: u16) -> Option<Self> {
        let entries = usize::from(layout.size);
        let event = layout.used + 4 + 8 * entries;
        Some(Self {
            layout,
            descriptors: memory.atomics_u64(layout.descriptors, 2 * entries).ok()?.as_chunks().0,
            available: memory.atomics_u16(layout.available, entries + 3).ok()?,
            used_head: memory.atomics_u16(layout.used, 2).ok()?,
            used: memory.atomics_u64(layout.used + 4, entries).ok()?,
            avail_event: memory.atomics_u16(event, 1).ok()?.first()?,
            slots: memory.atomics_u64(layout.slots, entries).ok()?,
            idle: Vec::with_capacity(entries),
            mask: layout.size.wrapping_sub(1),
            flags,
            event_index: false,
            next: 0,
            published: 0,
            seen: 0,
            device: 0,
            errors: 0,
            broken: false,
        })
    }

    /// Goes on in the middle of a queue in which a device is at work, and of which `seen` used
    /// entries were passed on. Returns false if its contents are invalid: then clear the queue.
    ///
    /// The work is bounded by the queue's size, whatever its contents.
    pub fn adopt(&mut self, seen: u16, event_index: bool) -> bool {
        let (published, device) = (self.available[1].load(Acquire), self.used_head[1].load(Acquire));
        let in_flight = published.wrapping_sub(seen);
        if in_flight > self.size() || device.wrapping_sub(seen) > in_flight {
            return false;
        }
        // These may have been taken by the previous life, which ended before it passed them on:
        // they are taken again.
        for index in (0..device.wrapping_sub(seen)).map(|ahead| seen.wrapping_add(ahead)) {
            let number = self.used[usize::from(index & self.mask)].load(Relaxed) as u32;
            let Some(slot) = self.slots.get(number as usize) else { return false };
            step();
            slot.store(slot.load(Relaxed) | Slot::BUSY, Relaxed);
        }
        // These were added, but the device never saw them: they are added again. Remove them from
        // the last to the first, so that the rest is still a beginning if this life ends here.
        let Some(unseen) = self.count_busy().checked_sub(in_flight) else { return false };
        for index in (0..unseen).rev().map(|ahead| published.wrapping_add(ahead)) {
            let number = self.available[usize::from(index & self.mask) + 2].load(Relaxed);
            if !self.is_busy(number) {
                return false;
            }
            self.free(&self.slots[usize::from(number)]);
        }
        (self.next, self.published, self.seen, self.device) = (published, published, seen, device);
        self.event_index = event_index;
        self.find_idle();
        true
    }

    /// Goes on in a queue in which a device is at work but has no buffer. Returns false if it has a
    /// buffer, or may have one.
    pub fn adopt_empty(&mut self, event_index: bool) -> bool {
        self.count_busy() == 0 && self.adopt(self.used_head[1].load(Acquire), event_index) && self.in_flight() == 0
    }

    /// Records the order in which the buffers that the device has were added. Call it before
    /// [`Self::renew`], which may need several lives.
    pub fn rank(&self) {
        for (rank, number) in self.in_order().into_iter().enumerate() {
            let slot = &self.slots[usize::from(number)];
            let unranked = slot.load(Relaxed) & ((1 << Slot::RANK) - 1);
            step();
            slot.store(unranked | (rank as u64) << Slot::RANK, Relaxed);
        }
    }

    /// Sets the queue up again for a device that was reset, and gives it the buffers that it had,
    /// in the order that [`Self::rank`] recorded.
    pub fn renew(&mut self, event_index: bool) {
        let mut order: Vec<u16> = (0..self.size()).filter(|number| self.is_busy(*number)).collect();
        order.sort_unstable_by_key(|number| self.slots[usize::from(*number)].load(Relaxed) >> Slot::RANK);
        for (entry, number) in self.available[2..].iter().zip(&order) {
            step();
            entry.store(*number, Relaxed);
        }
        let count = order.len() as u16;
        for word in [&self.used_head[0], &self.used_head[1], self.avail_event, &self.available[0]] {
            step();
            word.store(0, Relaxed);
        }
        step();
        self.available[1].store(count, Release);
        (self.next, self.published, self.seen, self.device) = (count, count, 0, 0);
        self.event_index = event_index;
        (self.errors, self.broken) = (0, false);
        self.find_idle();
        self.suppress();
    }

    /// Forgets all buffers: the device, which has been reset or is about to be, has none.
    pub fn clear(&self) {
        for slot in self.slots.iter().filter(|slot| Slot(slot.load(Relaxed)).is_busy()) {
            self.free(slot);
        }
    }

    /// Returns the busy descriptors in the order in which they were added. Those that are no longer
    /// in the available ring came before all that are.
    fn in_order(&self) -> Vec<u16> {
        let newest = self.available[1].load(Relaxed);
        let mut listed = vec![false; self.slots.len()];
        let mut order = Vec::with_capacity(self.slots.len());
        for index in (1..=self.size()).map(|back| newest.wrapping_sub(back)) {
            let number = self.available[usize::from(index & self.mask) + 2].load(Relaxed);
            if self.is_busy(number) && !core::mem::replace(&mut listed[usize::from(number)], true) {
                order.push(number);
            }
        }
        order.extend((0..self.size()).filter(|number| self.is_busy(*number) && !listed[usize::from(*number)]));
        order.reverse();
        order
    }

    /// Returns whether the device has the buffer of descriptor `number`, if there is such a
    /// descriptor.
    fn is_busy(&self, number: u16) -> bool {
        self.slots.get(usize::from(number)).is_some_and(|slot| Slot(slot.load(Relaxed)).is_busy())
    }

    fn free(&self, slot: &AtomicU64) {
        step();
        slot.store(slot.load(Relaxed) & !Slot::BUSY, Relaxed);
    }

    fn count_busy(&self) -> u16 {
        (0..self.size()).filter(|number| self.is_busy(*number)).count() as u16
    }

    fn find_idle(&mut self) {
        self.idle.clear();
        for number in (0..self.layout.size).rev() {
            if !self.is_busy(number) {
                self.idle.push(number);
            }
        }
    }

    /// Returns how many entries were ever made available, modulo 2¹⁶, unpublished ones included.
    pub fn added(&self) -> u16 {
        self.next
    }

    /// Returns how many used entries were ever taken, modulo 2¹⁶.
    pub fn taken(&self) -> u16 {
        self.seen
    }

    /// Returns how many buffers the device can have seen: those of [`Self::added`] that are
    /// published. It can be called before the queue is adopted.
    pub fn committed(&self) -> u16 {
        self.available[1].load(Relaxed)
    }

    /// Returns the count of free descriptors.
    #[inline(always)]
    pub fn space(&self) -> usize {
        self.idle.len()
    }

    /// Returns the count of buffers that the device has, or has used without this side having seen
    /// it.
    #[inline(always)]
    pub fn in_flight(&self) -> u16 {
        self.next.wrapping_sub(self.seen)
    }

    /// Returns the count of all descriptors.
    #[inline(always)]
    pub fn size(&self) -> u16 {
        self.mask.wrapping_add(1)
    }

    /// Gives the device a buffer, which it sees after [`Self::publish`]. Returns false if there is
    /// no space.
    #[inline(always)]
    pub fn add(&mut self, address: u64, length: u16, token: u32) -> bool {
        let Some(number) = self.idle.pop() else { return false };
        let index = usize::from(number);
        let place = usize::from(self.next & self.mask);
        let (Some(slot), Some([low, high]), Some(entry)) =
            (self.slots.get(index), self.descriptors.get(index), self.available.get(place + 2))
        else {
            return false;
        };
        step();
        low.store(address, Relaxed);
        high.store(u64::from(length) | u64::from(self.flags) << 32, Relaxed);
        step();
        entry.store(number, Relaxed);
        // From here on the next life takes the buffer as added; it sees this life's stores in
        // program order.
        compiler_fence(Release);
        step();
        slot.store(Slot::new(token, length).0, Relaxed);
        self.next = self.next.wrapping_add(1);
        true
    }

    /// Makes the added buffers visible to the device. Returns true if its doorbell must be rung.
    #[inline]
    pub fn publish(&mut self) -> bool {
        let old = self.published;
        if self.next == old {
            return false;
        }
        self.published = self.next;
        step();
        self.available[1].store(self.next, Release);
        // The fence is between our index and the device's wish: either the device sees the one, or
        // we see the other (§2.7.21).
        fence(SeqCst);
        if self.event_index {
            passed(self.avail_event.load(Relaxed), old, self.next)
        } else {
            self.used_head[0].load(Relaxed) & USED_NO_NOTIFY == 0
        }
    }

    /// Looks at the device's used index; returns how many buffers wait to be taken.
    #[inline]
    pub fn refresh(&mut self) -> u16 {
        let device = self.used_head[1].load(Acquire);
        // The device cannot have used more than it was given.
        if device.wrapping_sub(self.seen) <= self.published.wrapping_sub(self.seen) {
            self.device = device;
        } else {
            self.broken = true;
        }
        self.device.wrapping_sub(self.seen)
    }

    /// Takes a used buffer back, of those that [`Self::refresh`] has seen.
    #[inline(always)]
    pub fn take(&mut self) -> Option<Used> {
        if self.seen != self.device {
            let element = self.used.get(usize::from(self.seen & self.mask))?.load(Relaxed);
            self.seen = self.seen.wrapping_add(1);
            // The number and the length have 32 bits each (§2.7.8).
            let (number, length) = (element as u32, (element >> 32) as u32);
            let Some(slot) = self.slots.get(number as usize) else { return self.lose_place() };
            let held = Slot(slot.load(Relaxed));
            if !held.is_busy() {
                return self.lose_place();
            }
            step();
            slot.store(held.0 ^ Slot::BUSY, Relaxed);
            self.idle.push(number as u16);
            return Some(Used { token: held.token(), length: self.credible(length, held.length()) });
        }
        None
    }

    /// Marks the queue as broken: the device returned a descriptor that does not exist or that it
    /// does not have, so one that it has may never come back. Nothing more is taken from it.
    #[cold]
    fn lose_place(&mut self) -> Option<Used> {
        self.errors += 1;
        self.broken = true;
        self.seen = self.device;
        None
    }

    /// Returns `length` if the buffer can have it, else 0.
    #[inline(always)]
    fn credible(&mut self, length: u32, longest: u16) -> u16 {
        if length > longest.into() { self.lie() } else { length as u16 }
    }

    #[cold]
    fn lie(&mut self) -> u16 {
        self.errors += 1;
        0
    }

    /// Asks for an interrupt as soon as the device has used `count` more buffers (at least 1) than
    /// were taken, unless it has already.
    #[inline]
    pub fn wait_for(&mut self, count: u16) -> Progress {
        let count = count.max(1);
        if self.event_index {
            self.used_event(self.seen.wrapping_add(count - 1));
        } else {
            self.available[0].store(0, Relaxed);
        }
        // The fence is between our wish and the device's index: either the device sees the one, or
        // we see the other (§2.7.7).
        fence(SeqCst);
        Progress::asleep_if(self.refresh() < count)
    }

    /// Asks for no interrupt.
    #[inline]
    pub fn suppress(&self) {
        if self.event_index {
            // The index that is farthest away.
            self.used_event(self.seen.wrapping_sub(1));
        } else {
            self.available[0].store(AVAILABLE_NO_INTERRUPT, Relaxed);
        }
    }

    #[inline(always)]
    fn used_event(&self, index: u16) {
        if let Some(used_event) = self.available.last() {
            used_event.store(index, Relaxed);
        }
    }

    /// Returns the count of invalid values that the device wrote since the last call of this.
    #[inline(always)]
    pub fn errors(&mut self) -> u32 {
        core::mem::take(&mut self.errors)
    }

    /// Returns whether the queue is broken: then the device must be reset.
    #[inline(always)]
    pub fn is_broken(&self) -> bool {
        self.broken
    }
}

/// Returns whether an index that went from `old` to `new` passed `event` (§2.7.10,
/// `vring_need_event`).
#[inline(always)]
fn passed(event: u16, old: u16, new: u16) -> bool {
    new.wrapping_sub(event).wrapping_sub(1) < new.wrapping_sub(old)
}
