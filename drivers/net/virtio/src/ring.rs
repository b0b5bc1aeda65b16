//! A split virtqueue (VIRTIO 1.2 §2.7), one descriptor per packet.
//!
//! Descriptors are slots of their own: none is ever chained, so taking one is popping a number from a stack. What the device can write
//! (the used ring) is read once and checked; what the driver has to remember of a buffer it keeps in memory of its own.
//!
//! The used ring lies at an address that is 4 modulo 8: so its elements, which follow a word of 4 bytes, are aligned to 8 and
//! read by one access.

use crate::registers::{AVAILABLE_NO_INTERRUPT, USED_NO_NOTIFY};
use alloc::boxed::Box;
use alloc::vec;
use alloc::vec::Vec;
use core::sync::atomic::Ordering::{Acquire, Relaxed, Release, SeqCst};
use core::sync::atomic::{AtomicU16, AtomicU64, fence};
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
        Self { size, descriptors, available, used, end: used + 6 + 8 * entries }
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
    const IDLE: Self = Self(0);

    /// The device has it.
    const BUSY: u64 = 1 << 48;

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
    descriptors: &'static [[AtomicU64; 2]],
    /// Flags, index, ring, used_event.
    available: &'static [AtomicU16],
    /// Flags, index.
    used_head: &'static [AtomicU16],
    used: &'static [AtomicU64],
    avail_event: &'static AtomicU16,
    slots: Box<[Slot]>,
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
    /// An empty queue in `memory`, which is all zero where `layout` says. `None`: it is too small.
    pub fn new(memory: &Region, layout: Layout, flags: u16, event_index: bool) -> Option<Self> {
        let entries = usize::from(layout.size);
        let event = layout.used + 4 + 8 * entries;
        let ring = Self {
            descriptors: memory.atomics_u64(layout.descriptors, 2 * entries).ok()?.as_chunks().0,
            available: memory.atomics_u16(layout.available, entries + 3).ok()?,
            used_head: memory.atomics_u16(layout.used, 2).ok()?,
            used: memory.atomics_u64(layout.used + 4, entries).ok()?,
            avail_event: memory.atomics_u16(event, 1).ok()?.first()?,
            slots: vec![Slot::IDLE; entries].into_boxed_slice(),
            idle: (0..layout.size).rev().collect(),
            mask: layout.size.wrapping_sub(1),
            flags,
            event_index,
            next: 0,
            published: 0,
            seen: 0,
            device: 0,
            errors: 0,
            broken: false,
        };
        ring.suppress();
        Some(ring)
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
            (self.slots.get_mut(index), self.descriptors.get(index), self.available.get(place + 2))
        else {
            return false;
        };
        *slot = Slot::new(token, length);
        low.store(address, Relaxed);
        high.store(u64::from(length) | u64::from(self.flags) << 32, Relaxed);
        entry.store(number, Relaxed);
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
        while self.seen != self.device {
            let element = self.used.get(usize::from(self.seen & self.mask))?.load(Relaxed);
            self.seen = self.seen.wrapping_add(1);
            // Of the number, 32 bits, as of the length (§2.7.8).
            let (number, length) = (element as u32, (element >> 32) as u32);
            match self.slots.get_mut(number as usize) {
                Some(slot) if slot.is_busy() => {
                    let (token, longest) = (slot.token(), slot.length());
                    *slot = Slot::IDLE;
                    self.idle.push(number as u16);
                    return Some(Used { token, length: self.credible(length, longest) });
                }
                // A descriptor that does not exist, or that the device does not have. One that it has is lost by that.
                _ => self.errors += 1,
            }
        }
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
