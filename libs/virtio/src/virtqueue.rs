//! A split virtqueue (VIRTIO 1.2 §2.7): buffers of one descriptor each, chains of several, and
//! tables of them.
//!
//! Descriptors are slots of their own. The numbers of idle ones wait in the available ring, in the
//! entries that are added next: so adding a buffer is going on by one entry, and a descriptor that
//! comes back is written behind the last idle one. The device has read those entries before it used
//! as many buffers, and does not look at them again before they are published. Hazard: if it uses
//! buffers in another order than it got them, the ring forgets which of those in flight came first.
//! The used ring, which the device writes, is read once and checked. The available ring and the
//! records are believed: they lie in memory that the device could write, and no honest one does.
//!
//! The driver's record of each buffer lies beside the queue, in memory that outlives the driver;
//! the next life goes on from it ([`crate::checkpoint`]; how is in `recovery`). Two rules let it:
//! (1) a slot is marked busy only after its descriptor is in the available ring; (2) a freed slot
//! keeps its record until the descriptor is used again, and the buffer's return is published before
//! that. Hazard: breaking rule 2 loses a buffer if the driver dies in between.

mod layout;
mod recovery;
mod slot;
mod table;

use crate::crash_point;
use crate::registers::{AVAILABLE_NO_INTERRUPT, DESCRIPTOR_NEXT, DESCRIPTOR_WRITE, USED_NO_NOTIFY};
use core::sync::atomic::Ordering::{Acquire, Relaxed, Release, SeqCst};
use core::sync::atomic::{AtomicU16, AtomicU64, compiler_fence, fence};
use culm::{Cyclic, Progress, Region};
pub use layout::Layout;
use slot::Slot;
pub use table::{DESCRIPTOR, Table};

/// The access of the device to the buffers of one descriptor that a queue takes, or with a part of
/// a chain.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Access {
    /// It reads them.
    Read,
    /// It writes them.
    Write,
}

impl Access {
    const fn flags(self) -> u16 {
        match self {
            Self::Read => 0,
            Self::Write => DESCRIPTOR_WRITE,
        }
    }
}

/// One part of a chain.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Part {
    /// Address at which the device sees it.
    pub address: u64,
    /// Bytes.
    pub length: u32,
    /// The access of the device to it.
    pub access: Access,
}

/// The reason why a chain was not added.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NotAdded {
    /// The queue has too few free descriptors.
    Full,
    /// It has fewer than two parts, or one to read behind one to write (§2.7.4.2).
    NoChain,
}

/// A buffer or chain that the device has used.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Used {
    /// The token that [`Virtqueue::add`] or [`Virtqueue::add_chain`] was given.
    pub token: u32,
    /// Bytes that the device says it wrote, at most those that it was given to write, if it was
    /// given no [table](Virtqueue::add_table).
    pub length: u32,
}

/// A virtqueue.
#[derive(Debug)]
pub struct Virtqueue {
    layout: Layout,
    descriptors: Cyclic<[AtomicU64; 2]>,
    available: Cyclic<AtomicU16>,
    /// The words beside the available ring, which the driver writes.
    available_flags: &'static AtomicU16,
    available_index: &'static AtomicU16,
    used_event: &'static AtomicU16,
    used: Cyclic<AtomicU64>,
    /// The words beside the used ring, which the device writes.
    used_flags: &'static AtomicU16,
    used_index: &'static AtomicU16,
    avail_event: &'static AtomicU16,
    /// A [`Slot`] for each descriptor.
    slots: Cyclic<AtomicU64>,
    /// Flags of descriptors that are buffers of their own.
    flags: u16,
    event_index: bool,
    /// Index of the next entry to make available.
    next: u16,
    /// Index behind the last entry that has the number of an idle descriptor. The first is `next`.
    idle_end: u16,
    /// `next` when it was last published.
    published: u16,
    /// Index of the next used entry to read.
    seen: u16,
    /// The device's used index, as last read and accepted.
    device: u16,
    errors: u32,
    /// Used entries that were passed over when the queue broke.
    skipped: u16,
    broken: bool,
}

impl Virtqueue {
    /// Returns the queue in `memory` where `layout` says, not yet set up: see [`Self::adopt`] and
    /// [`Self::renew`]. With buffers of one descriptor the device may do what `access` says.
    /// Returns `None` if the memory is too small, or the layout's size is none.
    pub fn new(memory: &Region, layout: Layout, access: Access) -> Option<Self> {
        if !layout.size.is_power_of_two() || layout.size > Layout::MAX_SIZE {
            return None;
        }
        let entries = usize::from(layout.size);
        let word = |offset: usize| memory.atomics_u16(offset, 1).ok()?.first();
        let Layout { available, used, .. } = layout;
        Some(Self {
            layout,
            descriptors: Cyclic::new(memory.atomics_u64(layout.descriptors, 2 * entries).ok()?.as_chunks().0)?,
            available_flags: word(available)?,
            available_index: word(available + 2)?,
            available: Cyclic::new(memory.atomics_u16(available + 4, entries).ok()?)?,
            used_event: word(available + 4 + 2 * entries)?,
            used_flags: word(used)?,
            used_index: word(used + 2)?,
            used: Cyclic::new(memory.atomics_u64(used + 4, entries).ok()?)?,
            avail_event: word(used + 4 + 8 * entries)?,
            slots: Cyclic::new(memory.atomics_u64(layout.slots, entries).ok()?)?,
            flags: access.flags(),
            event_index: false,
            next: 0,
            idle_end: 0,
            published: 0,
            seen: 0,
            device: 0,
            errors: 0,
            skipped: 0,
            broken: false,
        })
    }

    /// Returns where its parts lie.
    pub fn layout(&self) -> Layout {
        self.layout
    }

    /// Returns how many entries were ever made available, modulo 2¹⁶, unpublished ones included.
    pub fn added(&self) -> u16 {
        self.next
    }

    /// Returns how many used entries were ever taken, modulo 2¹⁶.
    pub fn taken(&self) -> u16 {
        self.seen
    }

    /// Returns the count of free descriptors.
    #[inline(always)]
    pub fn space(&self) -> usize {
        self.idle_end.wrapping_sub(self.next).into()
    }

    /// Returns the count of buffers and chains that the device has, or has used without this side
    /// having seen it.
    #[inline(always)]
    pub fn in_flight(&self) -> u16 {
        self.next.wrapping_sub(self.seen)
    }

    /// Returns the count of all descriptors.
    #[inline(always)]
    pub fn size(&self) -> u16 {
        self.layout.size
    }

    /// Gives the device a buffer of less than 65,535 bytes, which it sees after [`Self::publish`].
    /// Returns false if there is no space.
    #[inline(always)]
    pub fn add(&mut self, address: u64, length: u16, token: u32) -> bool {
        let mut space = self.reserve(1);
        let has_space = space.left() > 0;
        if has_space {
            space.add(address, length, token);
        }
        has_space
    }

    /// Returns space for up to `count` buffers: the fastest way to add many.
    #[inline(always)]
    pub fn reserve(&mut self, count: u32) -> Reservation<'_> {
        let left = self.idle_end.wrapping_sub(self.next);
        Reservation {
            available: self.available,
            descriptors: self.descriptors,
            slots: self.slots,
            flags: u64::from(self.flags) << 32,
            next: self.next,
            end: self.next.wrapping_add(u32::from(left).min(count) as u16),
            queue: self,
        }
    }

    /// Gives the device a request of several parts, which it sees after [`Self::publish`]. Parts to
    /// read come before parts to write. A request of one part is a buffer: see [`Self::add`].
    pub fn add_chain(&mut self, parts: &[Part], token: u32) -> Result<(), NotAdded> {
        if parts.len() < 2 || !parts.is_sorted_by_key(|part| part.access) {
            return Err(NotAdded::NoChain);
        }
        if parts.len() > self.space() {
            return Err(NotAdded::Full);
        }
        // The first descriptor is the one of the next entry. The others come from the other end, so
        // that those left stand side by side.
        let (head, end) = (self.next, self.idle_end);
        let number = |index: u16| {
            let entry = if index == 0 { head } else { end.wrapping_sub(index) };
            self.available.at(entry).load(Relaxed)
        };
        let last = (parts.len() - 1) as u16;
        let next = |index: u16| if index == last { Slot::LAST } else { number(index + 1) };
        for (index, part) in (0..).zip(parts) {
            let [low, high] = self.descriptors.at(number(index));
            let link = match next(index) {
                Slot::LAST => 0,
                next => u64::from(DESCRIPTOR_NEXT) << 32 | u64::from(next) << 48,
            };
            crash_point();
            low.store(part.address, Relaxed);
            high.store(u64::from(part.length) | u64::from(part.access.flags()) << 32 | link, Relaxed);
        }
        // As in `add`. The first descriptor's record comes last: without it, the next life takes
        // the others for free.
        compiler_fence(Release);
        let lengths = parts.iter().filter(|part| part.access == Access::Write).map(|part| part.length);
        let writable = lengths.fold(0, u32::saturating_add);
        for index in 1..=last {
            crash_point();
            let slot = Slot::later(if index == 1 { writable } else { 0 }, next(index));
            self.slots.at(number(index)).store(slot.0, Relaxed);
        }
        compiler_fence(Release);
        crash_point();
        self.slots.at(number(0)).store(Slot::first(token, next(0)).0, Relaxed);
        self.idle_end = end.wrapping_sub(last);
        self.next = head.wrapping_add(1);
        Ok(())
    }

    /// Makes the added buffers visible to the device. Returns true if its doorbell must be rung.
    #[inline]
    pub fn publish(&mut self) -> bool {
        let (old, new) = (self.published, self.next);
        if new == old {
            return false;
        }
        self.published = new;
        crash_point();
        self.available_index.store(new, Release);
        // The fence is between our index and the device's wish: either the device sees the one, or
        // we see the other (§2.7.21).
        fence(SeqCst);
        if self.event_index {
            passed(self.avail_event.load(Relaxed), old, new)
        } else {
            self.used_flags.load(Relaxed) & USED_NO_NOTIFY == 0
        }
    }

    /// Looks at the device's used index; returns how many buffers wait to be taken.
    #[inline]
    pub fn refresh(&mut self) -> u16 {
        self.look();
        self.device.wrapping_sub(self.seen)
    }

    /// Looks at the device's used index. Returns whether it can be.
    #[inline]
    fn look(&mut self) -> bool {
        let device = self.used_index.load(Acquire);
        // The device cannot have used more than it was given.
        let is_possible = device.wrapping_sub(self.seen) <= self.published.wrapping_sub(self.seen);
        if is_possible {
            self.device = device;
        } else if !self.broken {
            self.break_down();
        }
        is_possible
    }

    /// Takes a used buffer back, of those that [`Self::refresh`] has seen.
    #[inline(always)]
    pub fn take(&mut self) -> Option<Used> {
        if self.seen == self.device { None } else { self.drain().next() }
    }

    /// Takes used buffers back, of those that [`Self::refresh`] has seen: the fastest way to take
    /// many. Those that are not taken from the iterator wait.
    #[inline(always)]
    pub fn drain(&mut self) -> Drain<'_> {
        Drain {
            used: self.used,
            slots: self.slots,
            available: self.available,
            seen: self.seen,
            end: self.device,
            idle_end: self.idle_end,
            queue: self,
        }
    }

    /// Takes back what a used entry names that was just read and is no buffer, or has a length that
    /// no buffer has.
    #[cold]
    fn take_unusual(&mut self, element: u64) -> Option<Used> {
        let (number, length) = parts_of(element);
        let Some(slot) = self.slots.get(number as usize) else { return self.lose_place() };
        let held = Slot(slot.load(Relaxed));
        if !held.is_busy_single() {
            return self.take_chain(number as u16, held, length);
        }
        self.free(slot);
        self.available.at(self.idle_end).store(number as u16, Relaxed);
        self.idle_end = self.idle_end.wrapping_add(1);
        Some(Used { token: held.token(), length: self.credible(length, held.takes(length)) })
    }

    /// Takes the chain back that begins with descriptor `number`.
    fn take_chain(&mut self, number: u16, first: Slot, length: u32) -> Option<Used> {
        let Self { slots, available, idle_end, .. } = &*self;
        let (mut end, mut writable) = (*idle_end, None);
        let limit = self.seen.wrapping_add(self.size());
        // A device that writes elsewhere than in the used ring can change the records too. There
        // are never more idle descriptors than entries that the device is done with.
        let mut list = |number: u16| {
            let has_room = end != limit;
            if has_room {
                available.at(end).store(number, Relaxed);
                end = end.wrapping_add(1);
            }
            has_room
        };
        let whole = first.is_busy_first()
            && list(number)
            && walk(slots, first, |number, later| {
                writable = writable.or(Some(later.writable()));
                later.is_busy_later() && list(number)
            });
        if !whole {
            return self.lose_place();
        }
        while self.idle_end != end {
            self.free(self.slots.at(self.available.at(self.idle_end).load(Relaxed)));
            self.idle_end = self.idle_end.wrapping_add(1);
        }
        Some(Used { token: first.token(), length: self.credible(length, length <= writable.unwrap_or(0)) })
    }

    /// Records that the device does not have the descriptor of `slot`.
    fn free(&self, slot: &AtomicU64) {
        crash_point();
        slot.store(Slot(slot.load(Relaxed)).freed().0, Relaxed);
    }

    /// Marks the queue as broken: the device returned a descriptor that does not exist or that it
    /// does not have, so one that it has may never come back. Of what it has used so far, nothing
    /// more is taken.
    #[cold]
    fn lose_place(&mut self) -> Option<Used> {
        self.break_down();
        // The entry itself was read, and is no buffer's.
        self.skipped = self.skipped.wrapping_add(self.device.wrapping_sub(self.seen)).wrapping_add(1);
        self.seen = self.device;
        None
    }

    /// Marks the queue as broken: the device wrote what cannot be.
    #[cold]
    fn break_down(&mut self) {
        self.errors += 1;
        self.broken = true;
    }

    /// Returns `length` if the device can have written so much (`is_possible`), else 0.
    fn credible(&mut self, length: u32, is_possible: bool) -> u32 {
        self.errors += u32::from(!is_possible);
        if is_possible { length } else { 0 }
    }

    /// Asks for an interrupt as soon as the device has used `count` more buffers (at least 1) than
    /// were taken, unless it has already, or has broken the queue: then there is nothing to wait
    /// for.
    #[inline]
    pub fn wait_for(&mut self, count: u16) -> Progress {
        let count = count.max(1);
        if self.event_index {
            self.used_event.store(self.seen.wrapping_add(count - 1), Relaxed);
        } else {
            self.available_flags.store(0, Relaxed);
        }
        // The fence is between our wish and the device's index: either the device sees the one, or
        // we see the other (§2.7.7).
        fence(SeqCst);
        Progress::asleep_if(self.look() && self.device.wrapping_sub(self.seen) < count)
    }

    /// Asks for no interrupt.
    #[inline]
    pub fn suppress(&self) {
        if self.event_index {
            // The index that is farthest away.
            self.used_event.store(self.seen.wrapping_sub(1), Relaxed);
        } else {
            self.available_flags.store(AVAILABLE_NO_INTERRUPT, Relaxed);
        }
    }

    /// Returns the count of invalid values that the device wrote since the last call of this.
    #[inline(always)]
    pub fn errors(&mut self) -> u32 {
        core::mem::take(&mut self.errors)
    }

    /// Returns how many of the used entries that count as [taken](Self::taken) gave no buffer back,
    /// since the last call of this: there are some only if there are [errors](Self::errors).
    pub fn skipped(&mut self) -> u16 {
        core::mem::take(&mut self.skipped)
    }

    /// Returns whether the queue is broken: then the device must be reset.
    #[inline(always)]
    pub fn is_broken(&self) -> bool {
        self.broken
    }
}

/// Space in a queue, being filled. Buffers given to it are added when this is dropped.
pub struct Reservation<'a> {
    queue: &'a mut Virtqueue,
    // Of the queue, so that it need not be looked at for each buffer.
    available: Cyclic<AtomicU16>,
    descriptors: Cyclic<[AtomicU64; 2]>,
    slots: Cyclic<AtomicU64>,
    flags: u64,
    next: u16,
    end: u16,
}

impl Reservation<'_> {
    /// Returns for how many buffers there is space left.
    #[inline(always)]
    pub fn left(&self) -> u16 {
        self.end.wrapping_sub(self.next)
    }

    /// Returns the index of the next entry to make available.
    #[inline(always)]
    pub fn position(&self) -> u16 {
        self.next
    }

    /// Gives the device a buffer, for which there is space. It sees the buffer after
    /// [`Virtqueue::publish`].
    #[inline(always)]
    pub fn add(&mut self, address: u64, length: u16, token: u32) {
        let number = self.available.at(self.next).load(Relaxed);
        let [low, high] = self.descriptors.at(number);
        crash_point();
        low.store(address, Relaxed);
        high.store(u64::from(length) | self.flags, Relaxed);
        // From here on the next life takes the buffer as added; it sees this life's stores in
        // program order.
        compiler_fence(Release);
        crash_point();
        self.slots.at(number).store(Slot::single(token, length).0, Relaxed);
        self.next = self.next.wrapping_add(1);
    }
}

impl Drop for Reservation<'_> {
    #[inline(always)]
    fn drop(&mut self) {
        self.queue.next = self.next;
    }
}

/// Used buffers being taken. Those taken from it are taken from the queue when this is dropped.
pub struct Drain<'a> {
    queue: &'a mut Virtqueue,
    // Of the queue, so that it need not be looked at for each buffer.
    used: Cyclic<AtomicU64>,
    slots: Cyclic<AtomicU64>,
    available: Cyclic<AtomicU16>,
    seen: u16,
    end: u16,
    idle_end: u16,
}

impl Drain<'_> {
    /// Returns how many used entries were ever taken, modulo 2¹⁶.
    #[inline(always)]
    pub fn taken(&self) -> u16 {
        self.seen
    }

    /// Does what [`Virtqueue::take_unusual`] does.
    #[cold]
    fn take_unusual(&mut self, element: u64) -> Option<Used> {
        (self.queue.seen, self.queue.idle_end) = (self.seen, self.idle_end);
        let used = self.queue.take_unusual(element);
        (self.seen, self.idle_end) = (self.queue.seen, self.queue.idle_end);
        used
    }
}

impl Iterator for Drain<'_> {
    type Item = Used;

    #[inline(always)]
    fn next(&mut self) -> Option<Used> {
        if self.seen == self.end {
            return None;
        }
        let element = self.used.at(self.seen).load(Relaxed);
        self.seen = self.seen.wrapping_add(1);
        let (number, length) = parts_of(element);
        if let Some(slot) = self.slots.get(number as usize) {
            let held = Slot(slot.load(Relaxed));
            if held.is_busy_single() && held.takes(length) {
                crash_point();
                slot.store(held.0 ^ Slot::BUSY, Relaxed);
                self.available.at(self.idle_end).store(number as u16, Relaxed);
                self.idle_end = self.idle_end.wrapping_add(1);
                return Some(Used { token: held.token(), length });
            }
        }
        // The result of the call lies in memory; that of the usual case stays in registers only if
        // it is another one.
        let Used { token, length } = self.take_unusual(element)?;
        Some(Used { token, length })
    }
}

impl Drop for Drain<'_> {
    #[inline(always)]
    fn drop(&mut self) {
        (self.queue.seen, self.queue.idle_end) = (self.seen, self.idle_end);
    }
}

/// Returns the number and the length of a used entry, which have 32 bits each (§2.7.8).
#[inline(always)]
fn parts_of(element: u64) -> (u32, u32) {
    (element as u32, (element >> 32) as u32)
}

/// Visits the descriptors of a chain behind `first`, in order, until `visit` returns false. Returns
/// whether all are there, each of which `visit` accepts. The work is bounded by the queue's size,
/// and each record is read once.
fn walk(slots: &Cyclic<AtomicU64>, first: Slot, mut visit: impl FnMut(u16, Slot) -> bool) -> bool {
    let mut next = first.next();
    for _ in slots.all() {
        let Some(number) = next else { return true };
        let Some(slot) = slots.get(usize::from(number)) else { return false };
        let record = Slot(slot.load(Relaxed));
        next = record.next();
        if !visit(number, record) {
            return false;
        }
    }
    false
}

/// Returns whether an index that went from `old` to `new` passed `event` (§2.7.10,
/// `vring_need_event`).
#[inline(always)]
fn passed(event: u16, old: u16, new: u16) -> bool {
    new.wrapping_sub(event).wrapping_sub(1) < new.wrapping_sub(old)
}
