//! Going on in a virtqueue that a previous life used, and renewing it for a device that was reset.
//!
//! The contents of the queue's memory are believed only as far as it was checked, and the work is
//! bounded by the queue's size, whatever stands there.

use super::{Slot, Virtqueue, walk};
use crate::crash_point;
use alloc::vec;
use alloc::vec::Vec;
use core::sync::atomic::AtomicU64;
use core::sync::atomic::Ordering::{Acquire, Relaxed, Release};

impl Virtqueue {
    /// Goes on in the middle of a queue in which a device is at work, and of which `seen` used
    /// entries were passed on. Entries that were added and not published are added again by the
    /// caller. Returns false if its contents are invalid: then clear the queue.
    pub fn adopt(&mut self, seen: u16, event_index: bool) -> bool {
        self.adopt_with(seen, self.committed(), event_index)
    }

    /// Does what [`Self::adopt`] does, but keeps what was added before index `added`: it is
    /// published next.
    pub fn adopt_with(&mut self, seen: u16, added: u16, event_index: bool) -> bool {
        let (published, device) = (self.available_index.load(Acquire), self.used_index.load(Acquire));
        let (in_flight, kept) = (published.wrapping_sub(seen), added.wrapping_sub(published));
        if in_flight > self.size() || kept > self.size() - in_flight || device.wrapping_sub(seen) > in_flight {
            return false;
        }
        // These may have been taken by the previous life, which ended before it passed them on:
        // they are taken again.
        for index in (0..device.wrapping_sub(seen)).map(|ahead| seen.wrapping_add(ahead)) {
            let number = self.used.at(index).load(Relaxed) as u32;
            let Some(slot) = self.slots.get(number as usize) else { return false };
            if !self.take_again(slot) {
                return false;
            }
        }
        // These were added, but the device never saw them: they are added again. Remove them from
        // the last to the first, so that the rest is still a beginning if this life ends here.
        let Some(unseen) = self.count_busy().checked_sub(in_flight + kept) else { return false };
        for index in (0..unseen).rev().map(|ahead| added.wrapping_add(ahead)) {
            let number = self.available.at(index).load(Relaxed);
            if !self.is_busy(number) {
                return false;
            }
            self.free(self.slots.at(number));
        }
        (self.next, self.published, self.seen, self.device) = (added, published, seen, device);
        self.event_index = event_index;
        let held = self.find_held();
        if !held.broken.is_empty() {
            return false;
        }
        self.list_idle(&held.busy);
        true
    }

    /// Records that the device has the buffer of `slot`, which it has used. Returns false if it is
    /// a chain that is not whole.
    fn take_again(&self, slot: &AtomicU64) -> bool {
        let mark = |slot: &AtomicU64, record: Slot, chained: bool| {
            crash_point();
            slot.store(record.taken(chained).0, Relaxed);
        };
        let first = Slot(slot.load(Relaxed));
        let whole = !first.is_first()
            || walk(&self.slots, first, |number, later| {
                let possible = !later.is_first() && !later.is_busy_single();
                if possible {
                    mark(self.slots.at(number), later, true);
                }
                possible
            });
        mark(slot, first, first.is_first());
        whole
    }

    /// Goes on in a queue in which a device is at work but has no buffer. Returns false if it has a
    /// buffer, or may have one.
    pub fn adopt_empty(&mut self, event_index: bool) -> bool {
        self.count_busy() == 0 && self.adopt(self.used_index.load(Acquire), event_index) && self.in_flight() == 0
    }

    /// Returns how many buffers the device can have seen: those of [`Self::added`] that are
    /// published. It can be called before the queue is adopted.
    pub fn committed(&self) -> u16 {
        self.available_index.load(Relaxed)
    }

    /// Returns the token of the buffer that was added by the entry of this index, of those that may
    /// not be published: the record of none of them was used again since. It can be called before
    /// the queue is adopted.
    pub fn added_token(&self, index: u16) -> Option<u32> {
        let number = self.available.at(index).load(Relaxed);
        self.token_of(number.into())
    }

    /// Returns the token of the buffer that the device has used by the entry of this index, unless
    /// its descriptor was used again since. It can be called before the queue is adopted.
    pub fn used_token(&self, index: u16) -> Option<u32> {
        self.token_of(self.used.at(index).load(Relaxed) as u32)
    }

    fn token_of(&self, number: u32) -> Option<u32> {
        Some(Slot(self.slots.get(number as usize)?.load(Relaxed)).token())
    }

    /// Records the order in which the buffers that the device has were added. Call it before
    /// [`Self::renew`], which may need several lives.
    pub fn rank(&self) {
        for (rank, number) in self.in_order().into_iter().enumerate() {
            let slot = self.slots.at(number);
            let ranked = Slot(slot.load(Relaxed)).ranked(rank);
            crash_point();
            slot.store(ranked.0, Relaxed);
        }
    }

    /// Sets the queue up again for a device that was reset, and gives it the buffers that it had,
    /// in the order that [`Self::rank`] recorded.
    pub fn renew(&mut self, event_index: bool) {
        let Held { busy, mut firsts, broken } = self.find_held();
        for number in broken {
            self.free(self.slots.at(number));
        }
        firsts.sort_unstable_by_key(|(_, first)| first.rank());
        for (entry, (number, _)) in self.available.all().iter().zip(&firsts) {
            crash_point();
            entry.store(*number, Relaxed);
        }
        let count = firsts.len() as u16;
        for word in [self.used_flags, self.used_index, self.avail_event, self.available_flags] {
            crash_point();
            word.store(0, Relaxed);
        }
        crash_point();
        self.available_index.store(count, Release);
        (self.next, self.published, self.seen, self.device) = (count, count, 0, 0);
        self.event_index = event_index;
        (self.errors, self.skipped, self.broken) = (0, 0, false);
        self.list_idle(&busy);
        self.suppress();
    }

    /// Forgets all buffers: the device, which has been reset or is about to be, has none.
    pub fn clear(&self) {
        self.retain(|_| false);
    }

    /// Forgets the buffers and chains whose token `keeps` does not know: the device, which has been
    /// reset, does not get them again by [`Self::renew`].
    pub fn retain(&self, mut keeps: impl FnMut(u32) -> bool) {
        for slot in self.slots.all() {
            let first = Slot(slot.load(Relaxed));
            if first.is_busy() && !keeps(first.token()) {
                self.free(slot);
            }
        }
    }

    /// Returns the buffers that the device has, by their first descriptors, in the order in which
    /// they were added. Those that are no longer in the available ring came before all that are.
    fn in_order(&self) -> Vec<u16> {
        let newest = self.available_index.load(Relaxed);
        let mut listed = vec![false; self.slots.all().len()];
        let mut order = Vec::with_capacity(self.slots.all().len());
        for index in (1..=self.size()).map(|back| newest.wrapping_sub(back)) {
            let number = self.available.at(index).load(Relaxed);
            if self.is_busy(number) && !core::mem::replace(&mut listed[usize::from(number)], true) {
                order.push(number);
            }
        }
        order.extend((0..self.size()).filter(|number| self.is_busy(*number) && !listed[usize::from(*number)]));
        order.reverse();
        order
    }

    /// Returns whether the device has a buffer that begins with descriptor `number`, if there is
    /// such a descriptor.
    fn is_busy(&self, number: u16) -> bool {
        self.slots.get(usize::from(number)).is_some_and(|slot| Slot(slot.load(Relaxed)).is_busy())
    }

    fn count_busy(&self) -> u16 {
        (0..self.size()).filter(|number| self.is_busy(*number)).count() as u16
    }

    /// Finds out what the device has. Each record is read once: so this ends, and says nothing that
    /// contradicts itself, also if a device writes there that was reset and should write nothing.
    fn find_held(&self) -> Held {
        let records: Vec<Slot> = self.slots.all().iter().map(|slot| Slot(slot.load(Relaxed))).collect();
        let mut held = Held { busy: vec![false; records.len()], firsts: Vec::new(), broken: Vec::new() };
        for (number, first) in (0..).zip(&records).filter(|(_, record)| record.is_busy()) {
            let chain = if first.is_busy_single() { Some(Vec::new()) } else { later_ones(&records, *first) };
            let all = chain.map(|later| [later, vec![number]].concat());
            match all.filter(|all| all.iter().all(|number| !held.busy[usize::from(*number)])) {
                Some(all) => {
                    all.iter().for_each(|number| held.busy[usize::from(*number)] = true);
                    held.firsts.push((number, *first));
                }
                None => held.broken.push(number),
            }
        }
        held
    }

    /// Lists the descriptors that the device does not have, from the next entry on.
    fn list_idle(&mut self, busy: &[bool]) {
        self.idle_end = self.next;
        for number in (0..self.size()).filter(|number| !busy[usize::from(*number)]) {
            crash_point();
            self.available.at(self.idle_end).store(number, Relaxed);
            self.idle_end = self.idle_end.wrapping_add(1);
        }
    }
}

/// The descriptors that the device has, as the records say.
struct Held {
    /// For each descriptor whether the device has it.
    busy: Vec<bool>,
    /// The buffers and chains, by their first descriptors.
    firsts: Vec<(u16, Slot)>,
    /// Those of chains that are not whole, which only a device that wrote outside the used ring can
    /// have changed.
    broken: Vec<u16>,
}

/// Returns the numbers of the descriptors of a chain behind its first, if all are there.
fn later_ones(records: &[Slot], first: Slot) -> Option<Vec<u16>> {
    let (mut chain, mut next) = (Vec::new(), first.next());
    while let Some(number) = next {
        let later = records.get(usize::from(number)).filter(|later| later.is_busy_later())?;
        // One with a circle in it has no end.
        if chain.len() == records.len() {
            return None;
        }
        chain.push(number);
        next = later.next();
    }
    Some(chain)
}
