//! The reading side of a ring.

use crate::atomic::{Ordering, fence};
use crate::{Entry, NOBODY, Shared, generation, index, next_generation, passed, word};

/// The reading side of a ring.
#[derive(Debug)]
pub struct Consumer<T: Entry> {
    shared: Shared<T>,
    /// Index of the next entry to read.
    head: u32,
    /// Where `head` stood when it was last published.
    released: u32,
    /// The producer's index, as last seen and accepted.
    tail: u32,
    generation: u32,
    /// The producer's generation, or [`NOBODY`].
    peer_generation: u64,
    violations: u32,
    /// The next release asks for a notification whatever the producer announced.
    fresh: bool,
    restarted: bool,
    /// This is an end of a [`Link`](crate::Link), which deals with a producer that is new or not credible.
    linked: bool,
    /// Such a word was read, and the link has not dealt with it yet.
    stale: bool,
}

impl<T: Entry> Consumer<T> {
    /// Takes the consumer's place in a ring, resuming at the first entry that was not released.
    pub fn attach(shared: Shared<T>) -> Self {
        let own = shared.header().consumer.word.load(Ordering::Relaxed);
        let peer = shared.header().producer.word.load(Ordering::Acquire);
        let mut consumer = Self {
            shared,
            head: index(own),
            released: index(own),
            tail: index(peer),
            generation: next_generation(generation(own)),
            peer_generation: generation(peer).into(),
            violations: 0,
            fresh: true,
            restarted: false,
            linked: false,
            stale: false,
        };
        if consumer.available() > shared.capacity() {
            consumer.follow(index(peer));
        }
        consumer.store_word();
        consumer
    }

    /// As an end of a link that reads nothing yet.
    pub(crate) fn linked(shared: Shared<T>) -> Self {
        Self {
            shared,
            head: 0,
            released: 0,
            tail: 0,
            generation: 0,
            peer_generation: NOBODY,
            violations: 0,
            fresh: true,
            restarted: false,
            linked: true,
            stale: false,
        }
    }

    /// Reads nothing from now on, and tells the producer that it has no news of this side.
    pub(crate) fn leave(&mut self) {
        let tail = index(self.shared.header().producer.word.load(Ordering::Relaxed));
        (self.head, self.released, self.tail) = (tail, tail, tail);
        (self.generation, self.peer_generation) = (0, NOBODY);
        (self.stale, self.fresh) = (false, true);
        self.store_word();
    }

    /// Reads from `start` on what the producer of generation `peer` publishes, which has got as far as `tail`.
    pub(crate) fn enter(&mut self, generation: u32, peer: u32, start: u32, tail: u32) {
        (self.head, self.released, self.tail) = (start, start, tail);
        (self.generation, self.peer_generation) = (generation, peer.into());
        (self.stale, self.fresh) = (false, true);
        // Nothing is waited for, whatever a previous life announced: an index that is passed already.
        crate::step();
        self.shared.header().consumer.wanted.store(start.wrapping_sub(1), Ordering::Relaxed);
        self.store_word();
    }

    /// As [`Self::enter`], where the previous life of the same generation stopped. False: what stands in its word is not of
    /// that generation, or `taken` more entries cannot have been read.
    pub(crate) fn resume(&mut self, generation: u32, peer: u32, taken: u32) -> bool {
        let own = self.shared.header().consumer.word.load(Ordering::Relaxed);
        (self.head, self.released, self.tail) = (index(own), index(own), index(own));
        (self.generation, self.peer_generation) = (generation, peer.into());
        if crate::generation(own) != generation || taken > self.capacity() {
            return false;
        }
        let known = self.refresh() >= taken;
        self.head = self.head.wrapping_add(taken);
        if !known {
            self.tail = self.head;
        }
        // Of a producer that was restarted meanwhile nothing need be known: all is void.
        known | self.stale
    }

    /// Whether the producer's word was found to be new or not credible.
    #[inline(always)]
    pub(crate) fn is_stale(&self) -> bool {
        self.stale
    }

    /// The ring itself.
    #[inline(always)]
    pub fn shared(&self) -> Shared<T> {
        self.shared
    }

    /// The count of slots.
    #[inline(always)]
    pub fn capacity(&self) -> u32 {
        self.shared.capacity()
    }

    /// Entries to pop, as far as is known without looking at the producer's index.
    #[inline(always)]
    pub fn available(&self) -> u32 {
        self.tail.wrapping_sub(self.head)
    }

    /// Index of the next entry to read: how many were ever popped, modulo 2³².
    #[inline(always)]
    pub fn position(&self) -> u32 {
        self.head
    }

    /// Looks at the producer's index; returns the count of entries to pop.
    #[inline]
    pub fn refresh(&mut self) -> u32 {
        let peer = self.shared.header().producer.word.load(Ordering::Acquire);
        let gained = index(peer).wrapping_sub(self.tail);
        // Measured from what was released, not from what was popped: a producer cannot make a loop of pops endless.
        let space = self.released.wrapping_add(self.shared.capacity()).wrapping_sub(self.tail);
        if peer >> 32 == self.peer_generation && gained <= space {
            self.tail = index(peer);
        } else {
            self.examine(peer, gained <= space);
        }
        self.available()
    }

    /// Deals with a producer's word that is of a new generation or not credible.
    #[cold]
    fn examine(&mut self, peer: u64, credible: bool) {
        if self.linked {
            if credible && !self.stale && self.peer_generation != NOBODY {
                // The new life publishes nothing before this side has opened for it: so these are its predecessor's last.
                self.tail = index(peer);
            }
            self.stale |= self.peer_generation != NOBODY;
            return;
        }
        if credible {
            self.tail = index(peer);
        } else {
            self.follow(index(peer));
        }
        if peer >> 32 != self.peer_generation {
            self.restarted |= self.peer_generation != 0;
            self.peer_generation = peer >> 32;
            self.fresh = true;
        }
        // Also where it is credible: its previous life may have overwritten our word.
        self.store_word();
    }

    /// Counts a violation, and goes on at the producer's index, whatever was queued.
    fn follow(&mut self, tail: u32) {
        self.violations = self.violations.saturating_add(1);
        (self.head, self.released, self.tail) = (tail, tail, tail);
        self.fresh = true;
    }

    /// Copies the next entry out. Its slot is not the producer's again until [`Self::release`].
    #[inline(always)]
    pub fn pop(&mut self) -> Option<T> {
        if self.head == self.tail && self.refresh() == 0 {
            return None;
        }
        self.pop_known()
    }

    /// Copies the next entry out, of those that [`Self::refresh`] has seen: for rounds that look once at the beginning and whose
    /// [`Self::sleep`] finds what came meanwhile.
    #[inline(always)]
    pub fn pop_known(&mut self) -> Option<T> {
        if self.head == self.tail {
            return None;
        }
        let entry = self.shared.load(self.head);
        self.head = self.head.wrapping_add(1);
        Some(entry)
    }

    /// Leaves the entry that was popped last queued after all, where it was not released yet. When it is popped again the producer may
    /// have changed it.
    pub fn put_back(&mut self) {
        if self.head != self.released {
            self.head = self.head.wrapping_sub(1);
        }
    }

    /// Copies as many entries out as there are and `entries` has room for; returns how many.
    #[inline]
    pub fn pop_slice(&mut self, entries: &mut [T]) -> usize {
        let drain = self.drain(entries.len().min(u32::MAX as usize) as u32);
        let mut count = 0;
        for (slot, entry) in entries.iter_mut().zip(drain) {
            *slot = entry;
            count += 1;
        }
        count
    }

    /// Pops up to `count` entries: the fastest way to read many. Looks at the producer's index only where less than
    /// `count` entries are known. Entries that are not taken from the iterator stay queued.
    #[inline]
    pub fn drain(&mut self, count: u32) -> Drain<'_, T> {
        let mut available = self.available();
        if available < count {
            available = self.refresh();
        }
        let (shared, head) = (self.shared, self.head);
        Drain { shared, head, end: head.wrapping_add(available.min(count)), consumer: self }
    }

    /// Gives the slots of all popped entries back to the producer. True: notify it, it waits for space.
    #[inline]
    #[must_use = "a producer that waits for space waits for a notification"]
    pub fn release(&mut self) -> bool {
        let old = self.released;
        if self.head == old && !self.fresh {
            return false;
        }
        self.released = self.head;
        self.store_word();
        // Between our word and its announcement: either we see that it waits, or it sees what we released.
        fence(Ordering::SeqCst);
        let wanted = self.shared.header().producer.wanted.load(Ordering::Relaxed);
        core::mem::take(&mut self.fresh) | passed(wanted, old, self.head)
    }

    /// As [`Self::release`], but puts it off until there are `count` slots to give back at once. For queues whose producer has
    /// fewer entries to push than there are slots, by `count` at least; it never waits for those.
    #[inline(always)]
    #[must_use = "a producer that waits for space waits for a notification"]
    pub fn release_many(&mut self, count: u32) -> bool {
        (self.head.wrapping_sub(self.released) >= count || self.fresh) && self.release()
    }

    /// Announces that this side wants a notification as soon as there is an entry to pop. False: there is one
    /// already, do not sleep.
    #[inline(always)]
    #[must_use = "there may be entries already"]
    pub fn sleep(&mut self) -> bool {
        self.announce(1);
        let peer = self.shared.header().producer.word.load(Ordering::Acquire);
        // Nothing new, nothing to pop: the usual case.
        (peer == self.peer_generation << 32 | u64::from(self.tail) && self.head == self.tail) || self.sleep_until(1)
    }

    /// Announces that this side wants a notification as soon as there are `count` entries to pop (at least 1, at
    /// most the capacity). False: there are already, do not sleep. Release first: the producer cannot fill slots
    /// that it was not given back.
    #[inline]
    #[must_use = "there may be entries already"]
    pub fn sleep_until(&mut self, count: u32) -> bool {
        let count = count.clamp(1, self.capacity());
        let head = self.head;
        self.announce(count);
        if self.refresh() < count && self.head != head {
            // The producer's index was not credible, we follow it: what we announced is out of date. Not more than
            // once, though: a producer that goes on like this is not worth waiting for.
            self.announce(count);
            self.refresh();
        }
        self.available() < count && !self.stale
    }

    /// Tells the producer to wake us when there are `count` entries, before a look at its index.
    #[inline(always)]
    fn announce(&self, count: u32) {
        // The producer must get as far as `head + count`, that is, pass the index before it.
        let wanted = self.head.wrapping_add(count).wrapping_sub(1);
        crate::step();
        self.shared.header().consumer.wanted.store(wanted, Ordering::Relaxed);
        fence(Ordering::SeqCst);
    }

    /// Whether the producer was restarted since this was last asked.
    #[inline]
    pub fn restarted(&mut self) -> bool {
        core::mem::take(&mut self.restarted)
    }

    /// How often the producer's index was not credible.
    pub fn violations(&self) -> u32 {
        self.violations
    }

    #[inline(always)]
    fn store_word(&self) {
        crate::step();
        self.shared.header().consumer.word.store(word(self.generation, self.released), Ordering::Release);
    }
}

/// Entries being popped. What was taken counts when this is dropped.
#[derive(Debug)]
pub struct Drain<'a, T: Entry> {
    consumer: &'a mut Consumer<T>,
    shared: Shared<T>,
    head: u32,
    end: u32,
}

impl<T: Entry> Iterator for Drain<'_, T> {
    type Item = T;

    #[inline(always)]
    fn next(&mut self) -> Option<T> {
        if self.head == self.end {
            return None;
        }
        let entry = self.shared.load(self.head);
        self.head = self.head.wrapping_add(1);
        Some(entry)
    }

    #[inline]
    fn size_hint(&self) -> (usize, Option<usize>) {
        let left = self.end.wrapping_sub(self.head) as usize;
        (left, Some(left))
    }
}

impl<T: Entry> ExactSizeIterator for Drain<'_, T> {}

impl<T: Entry> Drop for Drain<'_, T> {
    #[inline(always)]
    fn drop(&mut self) {
        self.consumer.head = self.head;
    }
}
