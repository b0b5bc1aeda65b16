//! The reading side of a ring.

use crate::atomic::{Ordering, fence};
use crate::{Entry, NOBODY, Peer, Progress, Shared, generation, index, next_generation, passed, word};

/// The reading side of a ring.
#[derive(Debug)]
pub struct Consumer<T: Entry> {
    shared: Shared<T>,
    /// Index of the next entry to read.
    head: u32,
    /// The value of `head` that was published last.
    released: u32,
    /// The producer's index, as last seen and accepted.
    tail: u32,
    generation: u32,
    /// The producer's generation, or [`NOBODY`].
    peer_generation: u64,
    violations: u32,
    /// Whether the next release asks for a notification whatever the producer announced.
    fresh: bool,
    restarted: bool,
    /// Whether this is an end of a [`Link`](crate::Link), which handles a producer that is new or
    /// invalid.
    linked: bool,
    /// Whether a new or invalid producer's word was read and the link has not handled it yet.
    stale: bool,
}

impl<T: Entry> Consumer<T> {
    /// Attaches as the consumer of a ring, resuming at the first entry that was not released.
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

    /// Attaches as an end of a link that reads nothing yet.
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

    /// Stops reading, and shows the producer generation 0: its index is no news.
    pub(crate) fn leave(&mut self) {
        let tail = index(self.shared.header().producer.word.load(Ordering::Relaxed));
        (self.head, self.released, self.tail) = (tail, tail, tail);
        (self.generation, self.peer_generation) = (0, NOBODY);
        (self.stale, self.fresh) = (false, true);
        self.store_word();
    }

    /// Starts to read at `start` what the producer of generation `peer` publishes, whose index is
    /// `tail` now.
    pub(crate) fn enter(&mut self, generation: u32, peer: u32, start: u32, tail: u32) {
        (self.head, self.released, self.tail) = (start, start, tail);
        (self.generation, self.peer_generation) = (generation, peer.into());
        (self.stale, self.fresh) = (false, true);
        // Announce an index that is passed already, so that nothing is waited for, whatever a
        // previous life announced.
        crate::crash_point();
        self.shared.header().consumer.wanted.store(start.wrapping_sub(1), Ordering::Relaxed);
        self.store_word();
    }

    /// Does what [`Self::enter`] does, at index `head`, up to which the previous life of the same
    /// generation dealt with all entries. Returns false if the word in the ring is not of that
    /// generation, or that life cannot have read so many entries.
    pub(crate) fn resume(&mut self, generation: u32, peer: u32, head: u32) -> bool {
        let own = self.shared.header().consumer.word.load(Ordering::Relaxed);
        (self.head, self.released, self.tail) = (index(own), index(own), index(own));
        (self.generation, self.peer_generation) = (generation, peer.into());
        let taken = head.wrapping_sub(self.released);
        if crate::generation(own) != generation || taken > self.capacity() {
            return false;
        }
        let known = self.refresh() >= taken;
        self.head = head;
        if !known {
            self.tail = head;
        }
        // If the producer was restarted meanwhile, its index need not be known: all entries are
        // void.
        known | self.stale
    }

    /// Returns whether the producer's word was found to be of a new generation or invalid.
    #[inline(always)]
    pub(crate) fn is_stale(&self) -> bool {
        self.stale
    }

    /// Returns the ring itself.
    #[inline(always)]
    pub fn shared(&self) -> Shared<T> {
        self.shared
    }

    /// Returns the count of slots.
    #[inline(always)]
    pub fn capacity(&self) -> u32 {
        self.shared.capacity()
    }

    /// Returns the entries that can be popped without looking at the producer's index again.
    #[inline(always)]
    pub fn available(&self) -> u32 {
        self.tail.wrapping_sub(self.head)
    }

    /// Returns the index of the next entry to read: how many were ever popped, modulo 2³².
    #[inline(always)]
    pub fn position(&self) -> u32 {
        self.head
    }

    /// Looks at the producer's index; returns the count of entries to pop.
    #[inline]
    pub fn refresh(&mut self) -> u32 {
        let peer = self.shared.header().producer.word.load(Ordering::Acquire);
        let gained = index(peer).wrapping_sub(self.tail);
        // Measure from the released index, not from the popped one: so a producer cannot make a
        // loop of pops endless.
        let space = self.released.wrapping_add(self.shared.capacity()).wrapping_sub(self.tail);
        if peer >> 32 == self.peer_generation && gained <= space {
            self.tail = index(peer);
        } else {
            self.accept_peer_word(peer, gained <= space);
        }
        self.available()
    }

    /// Handles a producer's word that is of a new generation or invalid.
    #[cold]
    fn accept_peer_word(&mut self, peer: u64, credible: bool) {
        if self.linked {
            if credible && !self.stale && self.peer_generation != NOBODY {
                // The producer's new life publishes nothing before this side has opened for it, so
                // these entries are its predecessor's last.
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
        // Do this for a valid word too: the producer's previous life may have overwritten our word.
        self.store_word();
    }

    /// Counts a violation, and goes on at the producer's index, whatever was queued.
    fn follow(&mut self, tail: u32) {
        self.violations = self.violations.saturating_add(1);
        (self.head, self.released, self.tail) = (tail, tail, tail);
        self.fresh = true;
    }

    /// Copies the next entry out. The producer does not get its slot back before [`Self::release`].
    #[inline(always)]
    pub fn pop(&mut self) -> Option<T> {
        if self.head == self.tail && self.refresh() == 0 {
            return None;
        }
        self.pop_known()
    }

    /// Copies the next entry out, of those that [`Self::refresh`] has seen. It is for rounds that
    /// look at the producer's index once, at the beginning: [`Self::sleep`] finds the entries that
    /// came meanwhile.
    #[inline(always)]
    pub fn pop_known(&mut self) -> Option<T> {
        if self.head == self.tail {
            return None;
        }
        let entry = self.shared.load(self.head);
        self.head = self.head.wrapping_add(1);
        Some(entry)
    }

    /// Puts the entry that was popped last back, if it was not released yet. Hazard: the producer
    /// may have changed it when it is popped again.
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

    /// Pops up to `count` entries: the fastest way to read many. Looks at the producer's index only
    /// if less than `count` entries are known. Entries that are not taken from the iterator stay
    /// queued.
    #[inline]
    pub fn drain(&mut self, count: u32) -> Drain<'_, T> {
        let mut available = self.available();
        if available < count {
            available = self.refresh();
        }
        let (shared, head) = (self.shared, self.head);
        Drain { shared, head, end: head.wrapping_add(available.min(count)), consumer: self }
    }

    /// Gives the slots of all popped entries back to the producer.
    #[inline]
    pub fn release(&mut self) -> Peer {
        let (shared, old, head) = (self.shared, self.released, self.head);
        if head == old && !self.fresh {
            return Peer::Awake;
        }
        let fresh = core::mem::take(&mut self.fresh);
        self.released = head;
        self.store_word();
        // The fence is between our word and its announcement: either we see that it waits, or it
        // sees what we released.
        fence(Ordering::SeqCst);
        let wanted = shared.header().producer.wanted.load(Ordering::Relaxed);
        Peer::asleep_if(fresh | passed(wanted, old, head))
    }

    /// Releases only if at least `count` slots can be given back together, or a notification is due
    /// after an attachment. Hazard: a producer that waits for the last `count` slots would wait for
    /// ever. Use it only if the producer never has more than `capacity − count` entries to push.
    #[inline(always)]
    pub fn release_many(&mut self, count: u32) -> Peer {
        let is_due = self.head.wrapping_sub(self.released) >= count || self.fresh;
        if is_due { self.release() } else { Peer::Awake }
    }

    /// Announces that this side wants a notification as soon as there is an entry to pop, unless
    /// there is one already.
    #[inline(always)]
    pub fn sleep(&mut self) -> Progress {
        let (shared, tail, known) = (self.shared, self.tail, self.peer_generation << 32 | u64::from(self.tail));
        let is_empty = self.head == tail;
        self.announce(1);
        // Nothing new, nothing to pop: the usual case.
        if is_empty && shared.header().producer.word.load(Ordering::Acquire) == known {
            Progress::Asleep
        } else {
            self.sleep_until(1)
        }
    }

    /// Announces that this side wants a notification as soon as there are `count` entries to pop
    /// (at least 1, at most the capacity), unless there are already. Release first: the producer
    /// cannot fill slots that it was not given back.
    #[inline]
    pub fn sleep_until(&mut self, count: u32) -> Progress {
        let count = count.clamp(1, self.capacity());
        let head = self.head;
        self.announce(count);
        if self.refresh() < count && self.head != head {
            // The producer's index was invalid and this side jumped to it, so the announced index
            // is stale: announce again. Only once: a hostile producer could repeat this without
            // end.
            self.announce(count);
            self.refresh();
        }
        Progress::asleep_if(self.available() < count && !self.stale)
    }

    /// Tells the producer to wake us when there are `count` entries, before a look at its index.
    #[inline(always)]
    fn announce(&self, count: u32) {
        // The producer must reach `head + count`, that is, pass the index before it.
        let wanted = self.head.wrapping_add(count).wrapping_sub(1);
        crate::crash_point();
        self.shared.header().consumer.wanted.store(wanted, Ordering::Relaxed);
        fence(Ordering::SeqCst);
    }

    /// Returns whether the producer was restarted since the last call of this.
    #[inline]
    pub fn restarted(&mut self) -> bool {
        core::mem::take(&mut self.restarted)
    }

    /// Returns how often the producer's index was invalid.
    pub fn violations(&self) -> u32 {
        self.violations
    }

    #[inline(always)]
    fn store_word(&self) {
        crate::crash_point();
        self.shared.header().consumer.word.store(word(self.generation, self.released), Ordering::Release);
    }
}

/// Entries being popped. Those taken from it are popped when this is dropped.
#[derive(Debug)]
pub struct Drain<'a, T: Entry> {
    consumer: &'a mut Consumer<T>,
    shared: Shared<T>,
    head: u32,
    end: u32,
}

impl<T: Entry> Drain<'_, T> {
    /// Returns the index of the next entry: see [`Consumer::position`].
    #[inline(always)]
    pub fn position(&self) -> u32 {
        self.head
    }

    /// Copies the next entry out and leaves it in the queue. Hazard: the producer may change it
    /// before it is read again. So use this copy, and [`Self::pass`] over the entry then.
    #[inline(always)]
    pub fn peek(&self) -> Option<T> {
        (self.head != self.end).then(|| self.shared.load(self.head))
    }

    /// Passes over the next entry, if there is one.
    #[inline(always)]
    pub fn pass(&mut self) {
        if self.head != self.end {
            self.head = self.head.wrapping_add(1);
        }
    }
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
