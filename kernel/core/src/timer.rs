//! The timer queue of one core: at most one deadline per domain, in a binary heap over a fixed
//! table.
//!
//! Deadlines are set at nearly every wait and seldom pass, so the heap is kept lazily: it holds for
//! each domain some time that is *not later* than its deadline. Setting a later deadline, or none,
//! does not touch the heap; when the earlier time comes, the owner looks at the real deadline and
//! either acts or puts the domain back.

/// An element of the table. Two arrays are folded into one: `time` and `domain` are the heap by
/// heap position, `position` is, by domain, where in the heap it stands (plus 1; 0 for not there).
/// All zero is an empty queue.
#[derive(Clone, Copy, Debug, Default)]
#[repr(C)]
pub struct Slot {
    time: u64,
    domain: u32,
    position: u32,
}

/// The heap.
#[derive(Debug)]
pub struct TimerQueue<'s> {
    /// Time of the first in the heap, `u64::MAX` for none.
    earliest: u64,
    slots: &'s mut [Slot],
    length: usize,
}

impl<'s> TimerQueue<'s> {
    /// Creates an empty queue over a zeroed table with one slot per domain.
    pub fn new(slots: &'s mut [Slot]) -> Self {
        Self { earliest: u64::MAX, slots, length: 0 }
    }

    /// Returns the earliest time, or `u64::MAX` for none.
    #[inline(always)]
    pub fn earliest(&self) -> u64 {
        self.earliest
    }

    /// Returns whether [`Self::expired`] returns `domain` no later than at `time` anyway.
    #[inline(always)]
    pub fn has(&self, domain: u32, time: u64) -> bool {
        let slot = |index: usize| self.slots.get(index);
        let position = slot(domain as usize).map_or(0, |slot| slot.position as usize);
        // Position 0 stands for none: the slot before the first is none either.
        slot(position.wrapping_sub(1)).is_some_and(|slot| slot.time <= time)
    }

    /// Makes [`Self::expired`] return `domain` no later than at `time`.
    #[inline(always)]
    pub fn set(&mut self, domain: u32, time: u64) {
        self.earliest = self.earliest.min(time);
        let position = self.slots[domain as usize].position as usize;
        if position != 0 {
            if self.slots[position - 1].time > time {
                self.slots[position - 1].time = time;
                self.sift_up(position - 1);
            }
            return;
        }
        let at = self.length;
        self.length += 1;
        self.place(at, time, domain);
        self.sift_up(at);
    }

    /// Removes and returns a domain whose time is not after `now`.
    pub fn expired(&mut self, now: u64) -> Option<u32> {
        if self.length == 0 || self.slots[0].time > now {
            return None;
        }
        let domain = self.slots[0].domain;
        self.slots[domain as usize].position = 0;
        self.length -= 1;
        if self.length > 0 {
            let last = self.slots[self.length];
            self.place(0, last.time, last.domain);
            self.sift_down();
        }
        self.earliest = if self.length == 0 { u64::MAX } else { self.slots[0].time };
        Some(domain)
    }

    fn place(&mut self, at: usize, time: u64, domain: u32) {
        self.slots[at].time = time;
        self.slots[at].domain = domain;
        self.slots[domain as usize].position = at as u32 + 1;
    }

    fn exchange(&mut self, a: usize, b: usize) {
        let (first, second) = (self.slots[a], self.slots[b]);
        self.place(a, second.time, second.domain);
        self.place(b, first.time, first.domain);
    }

    fn sift_up(&mut self, mut at: usize) {
        while at > 0 {
            let parent = (at - 1) / 2;
            if self.slots[parent].time <= self.slots[at].time {
                return;
            }
            self.exchange(at, parent);
            at = parent;
        }
    }

    fn sift_down(&mut self) {
        let mut at = 0;
        loop {
            let left = 2 * at + 1;
            if left >= self.length {
                return;
            }
            let right = left + 1;
            let child =
                if right < self.length && self.slots[right].time < self.slots[left].time { right } else { left };
            if self.slots[at].time <= self.slots[child].time {
                return;
            }
            self.exchange(at, child);
            at = child;
        }
    }
}
