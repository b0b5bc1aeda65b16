//! A split virtqueue (VIRTIO 1.2 §2.7), one descriptor per packet.
//!
//! Descriptors are slots of their own: none is ever chained, so taking one is popping a number from a stack. What the device is to
//! write (the used ring) is read once and checked.
//!
//! What the driver has to remember of a buffer lies beside the queue, in memory that outlives the driver: see [`crate::account`] for what
//! a next life makes of it. It holds for that: a slot is marked busy after its descriptor stands in the available ring, and a slot that
//! was freed keeps its token until the descriptor is used again, which must not be before the buffer's return was published.
//!
//! The used ring lies at an address that is 4 modulo 8: so its elements, which follow a word of 4 bytes, are aligned to 8 and
//! read by one access.

use crate::registers::{AVAILABLE_NO_INTERRUPT, USED_NO_NOTIFY};
use crate::step;
use alloc::vec;
use alloc::vec::Vec;
use core::sync::atomic::Ordering::{Acquire, Relaxed, Release, SeqCst};
use core::sync::atomic::{AtomicU16, AtomicU64, compiler_fence, fence};
use culm::Region;

/// Where in the device's memory the parts of a queue are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Layout {
    /// Descriptors that it has, a power of two.
    pub size: u16,
    /// Offset of the descriptors, a multiple of 16.
    pub descriptors: usize,
    /// Offset of what the driver writes.
    pub available: usize,
    /// Offset of what the device writes.
    pub used: usize,
    /// Offset of what the driver remembers.
    pub slots: usize,
    /// Offset of the first byte behind all that.
    pub end: usize,
}

impl Layout {
    /// A queue of `size` descriptors from `start` on.
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

/// What the device has done with a buffer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Used {
    /// What [`Ring::add`] was told.
    pub token: u32,
    /// Bytes that the device says it wrote, at most those that the buffer has.
    pub length: u16,
}

/// What the driver remembers of a descriptor, in one word: the buffer's token, its length, and whether the device has it.
#[derive(Clone, Copy)]
struct Slot(u64);

impl Slot {
    /// The device has it.
    const BUSY: u64 = 1 << 48;

    /// Above this its place in the order of those that a device gets again when it was reset.
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
    /// The device's index, as last read and accepted.
    device: u16,
    errors: u32,
    broken: bool,
}

impl Ring {
    /// The queue in `memory` where `layout` says, not yet set up: see [`Self::adopt`] and [`Self::renew`]. `None`: the memory is too
    /// small.
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

    /// Goes on in the middle of a queue that a device is at work in, where `seen` used entries were passed on. False: what stands there
    /// cannot be, and the queue is to be cleared.
    ///
    /// Everything is bounded by the queue's size, whatever stands there.
    pub fn adopt(&mut self, seen: u16, event_index: bool) -> bool {
        let (published, device) = (self.available[1].load(Acquire), self.used_head[1].load(Acquire));
        let in_flight = published.wrapping_sub(seen);
        if in_flight > self.size() || device.wrapping_sub(seen) > in_flight {
            return false;
        }
        // Taken, but the previous life ended before it passed them on: they are taken again.
        for index in (0..device.wrapping_sub(seen)).map(|ahead| seen.wrapping_add(ahead)) {
            let number = self.used[usize::from(index & self.mask)].load(Relaxed) as u32;
            let Some(slot) = self.slots.get(number as usize) else { return false };
            step();
            slot.store(slot.load(Relaxed) | Slot::BUSY, Relaxed);
        }
        // Added, but the device never saw them: they are added again. From the last to the first, so that what is left is
        // still the beginning if this life ends here.
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

    /// Goes on in a queue in which a device is at work but has no buffer. False: it has, or may have.
    pub fn adopt_empty(&mut self, event_index: bool) -> bool {
        self.count_busy() == 0 && self.adopt(self.used_head[1].load(Acquire), event_index) && self.in_flight() == 0
    }

    /// Writes down in which order the buffers that the device has were added: before [`Self::renew`], which may need several lives.
    pub fn rank(&self) {
        for (rank, number) in self.in_order().into_iter().enumerate() {
            let slot = &self.slots[usize::from(number)];
            let unranked = slot.load(Relaxed) & ((1 << Slot::RANK) - 1);
            step();
            slot.store(unranked | (rank as u64) << Slot::RANK, Relaxed);
        }
    }

    /// Sets up a queue that begins anew, for a device that was reset. The buffers that the device had are given to it again, in
    /// the order that [`Self::rank`] wrote down.
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

    /// Descriptors that are busy, the one first that was added first. Those that stand no more in the available ring came
    /// before all that do.
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

    /// Whether the device has the buffer of descriptor `number`, if there is such a one.
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

    /// How many entries were made available ever, modulo 2¹⁶, unpublished ones included.
    pub fn added(&self) -> u16 {
        self.next
    }

    /// How many used entries were taken ever, modulo 2¹⁶.
    pub fn taken(&self) -> u16 {
        self.seen
    }

    /// How many buffers the device can have seen: those of [`Self::added`] that are published. Also before the queue is adopted.
    pub fn committed(&self) -> u16 {
        self.available[1].load(Relaxed)
    }

    /// Descriptors that are free.
    #[inline(always)]
    pub fn space(&self) -> usize {
        self.idle.len()
    }

    /// Buffers that the device has, or has used without this side having seen it.
    #[inline(always)]
    pub fn in_flight(&self) -> u16 {
        self.next.wrapping_sub(self.seen)
    }

    /// Descriptors in all.
    #[inline(always)]
    pub fn size(&self) -> u16 {
        self.mask.wrapping_add(1)
    }

    /// Gives the device a buffer; it sees it after [`Self::publish`]. False: there is no space.
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
        // A next life, which sees this one's stores in the order in which they were made, takes it for added from here on.
        compiler_fence(Release);
        step();
        slot.store(Slot::new(token, length).0, Relaxed);
        self.next = self.next.wrapping_add(1);
        true
    }

    /// Lets the device see the buffers given. True: ring its doorbell.
    #[inline]
    pub fn publish(&mut self) -> bool {
        let old = self.published;
        if self.next == old {
            return false;
        }
        self.published = self.next;
        step();
        self.available[1].store(self.next, Release);
        // Between our index and the device's wish: either it sees the one, or we see the other (§2.7.21).
        fence(SeqCst);
        if self.event_index {
            passed(self.avail_event.load(Relaxed), old, self.next)
        } else {
            self.used_head[0].load(Relaxed) & USED_NO_NOTIFY == 0
        }
    }

    /// Looks what the device has used; returns how many buffers wait to be taken.
    #[inline]
    pub fn refresh(&mut self) -> u16 {
        let device = self.used_head[1].load(Acquire);
        // It cannot have used more than it was given.
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
            // Of the number, 32 bits, as of the length (§2.7.8).
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

    /// The device returned a descriptor that does not exist or that it does not have; so one that it has may never come back. Nothing
    /// more is taken from it.
    #[cold]
    fn lose_place(&mut self) -> Option<Used> {
        self.errors += 1;
        self.broken = true;
        self.seen = self.device;
        None
    }

    /// A length that a buffer can have; 0 for others.
    #[inline(always)]
    fn credible(&mut self, length: u32, longest: u16) -> u16 {
        if length > longest.into() { self.lie() } else { length as u16 }
    }

    #[cold]
    fn lie(&mut self) -> u16 {
        self.errors += 1;
        0
    }

    /// Asks for an interrupt as soon as the device has used `count` more buffers (at least 1) than were taken. False: it has
    /// already.
    #[inline]
    pub fn wait_for(&mut self, count: u16) -> bool {
        let count = count.max(1);
        if self.event_index {
            self.used_event(self.seen.wrapping_add(count - 1));
        } else {
            self.available[0].store(0, Relaxed);
        }
        // Between our wish and the device's index: either it sees the one, or we see the other (§2.7.7).
        fence(SeqCst);
        self.refresh() < count
    }

    /// Asks for no interrupt.
    #[inline]
    pub fn suppress(&self) {
        if self.event_index {
            // As far off as an index can be.
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

    /// What the device wrote that makes no sense, counted since this was last asked.
    #[inline(always)]
    pub fn errors(&mut self) -> u32 {
        core::mem::take(&mut self.errors)
    }

    /// Whether the device has lost its place: it must be reset.
    #[inline(always)]
    pub fn is_broken(&self) -> bool {
        self.broken
    }
}

/// Whether an index that went from `old` to `new` passed `event` (§2.7.10, `vring_need_event`).
#[inline(always)]
fn passed(event: u16, old: u16, new: u16) -> bool {
    new.wrapping_sub(event).wrapping_sub(1) < new.wrapping_sub(old)
}
