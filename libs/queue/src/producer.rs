//! The writing side of a ring.

use crate::atomic::{Ordering, fence};
use crate::{Entry, NOBODY, Shared, generation, index, next_generation, passed, word};
use core::fmt;

/// There is no space left in the ring.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Full;

impl fmt::Display for Full {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("the queue is full")
    }
}

impl core::error::Error for Full {}

/// The writing side of a ring.
#[derive(Debug)]
pub struct Producer<T: Entry> {
    shared: Shared<T>,
    /// Index of the next entry to write.
    tail: u32,
    /// Where `tail` stood when it was last published.
    published: u32,
    /// The index that `tail` cannot pass: the consumer's index, as last seen and accepted, plus the capacity.
    limit: u32,
    generation: u32,
    /// The consumer's generation, or [`NOBODY`].
    peer_generation: u64,
    violations: u32,
    /// The next publication asks for a notification whatever the consumer announced.
    fresh: bool,
    restarted: bool,
    /// This is an end of a [`Link`](crate::Link), which deals with a consumer that is not credible.
    linked: bool,
    /// Such an index was read, and the link has not dealt with it yet.
    stale: bool,
}

impl<T: Entry> Producer<T> {
    /// Takes the producer's place in a ring, resuming after what was published last.
    pub fn attach(shared: Shared<T>) -> Self {
        let own = shared.header().producer.word.load(Ordering::Relaxed);
        let peer = shared.header().consumer.word.load(Ordering::Acquire);
        let tail = index(own);
        let mut producer = Self {
            shared,
            tail,
            published: tail,
            limit: index(peer).wrapping_add(shared.capacity()),
            generation: next_generation(generation(own)),
            peer_generation: generation(peer).into(),
            violations: 0,
            fresh: true,
            restarted: false,
            linked: false,
            stale: false,
        };
        if producer.free() > shared.capacity() {
            producer.disown();
        }
        producer.store_word();
        producer
    }

    /// As an end of a link that has no space yet, behind what was published last.
    pub(crate) fn linked(shared: Shared<T>) -> Self {
        let tail = index(shared.header().producer.word.load(Ordering::Relaxed));
        Self {
            shared,
            tail,
            published: tail,
            limit: tail,
            generation: 0,
            peer_generation: NOBODY,
            violations: 0,
            fresh: true,
            restarted: false,
            linked: true,
            stale: false,
        }
    }

    /// Has no space from now on, and forgets what was pushed and not published. The consumer sees this generation.
    pub(crate) fn leave(&mut self, generation: u32) {
        (self.tail, self.limit) = (self.published, self.published);
        (self.generation, self.peer_generation) = (generation, NOBODY);
        (self.stale, self.fresh) = (false, true);
        self.store_word();
    }

    /// What is published from here on is meant for the consumer of this generation, all before is void.
    pub(crate) fn open(&mut self, peer: u32) {
        crate::step();
        self.shared.header().producer.start.store(word(peer, self.published), Ordering::Release);
        self.fresh = true;
    }

    /// What is published next is for nobody, until [`Self::open`] says for whom.
    pub(crate) fn close(&mut self) {
        crate::step();
        self.shared.header().producer.start.store(0, Ordering::Relaxed);
    }

    /// Has all space for the consumer of generation `peer`. Nothing was pushed since [`Self::open`].
    pub(crate) fn enter(&mut self, peer: u32) {
        self.limit = self.published.wrapping_add(self.capacity());
        self.peer_generation = peer.into();
        (self.stale, self.fresh) = (false, true);
        // Nothing is waited for, whatever a previous life announced: an index that is passed already.
        crate::step();
        let passed = self.published.wrapping_sub(self.capacity()).wrapping_sub(1);
        self.shared.header().producer.wanted.store(passed, Ordering::Relaxed);
    }

    /// As [`Self::enter`], where the previous life of the same generation stopped. False: what stands in its word is not of
    /// that generation.
    pub(crate) fn resume(&mut self, generation: u32, peer: u32) -> bool {
        let own = self.shared.header().producer.word.load(Ordering::Relaxed);
        (self.generation, self.peer_generation) = (generation, peer.into());
        // No space is known: it takes a word of this consumer's to say that there is some.
        self.refresh();
        crate::generation(own) == generation
    }

    /// Whether the consumer's index was found not to be credible.
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

    /// Free slots, as far as is known without looking at the consumer's index.
    #[inline(always)]
    pub fn free(&self) -> u32 {
        self.limit.wrapping_sub(self.tail)
    }

    /// Index of the next entry to write: how many were ever pushed, modulo 2³². After an attachment it is how many were ever
    /// published.
    #[inline(always)]
    pub fn position(&self) -> u32 {
        self.tail
    }

    /// Looks at the consumer's index; returns the count of free slots.
    #[inline]
    pub fn refresh(&mut self) -> u32 {
        let peer = self.shared.header().consumer.word.load(Ordering::Acquire);
        let limit = index(peer).wrapping_add(self.shared.capacity());
        let gained = limit.wrapping_sub(self.limit);
        let outstanding = self.published.wrapping_add(self.shared.capacity()).wrapping_sub(self.limit);
        if peer >> 32 == self.peer_generation && gained <= outstanding {
            self.limit = limit;
        } else {
            self.examine(peer, gained <= outstanding);
        }
        self.free()
    }

    /// Deals with a consumer's word that is of a new generation or not credible.
    #[cold]
    fn examine(&mut self, peer: u64, credible: bool) {
        if self.linked {
            // A consumer of another generation has not begun to read, or is new: so there is no news, or its own ring says.
            self.stale |= peer >> 32 == self.peer_generation;
            return;
        }
        if credible {
            self.limit = index(peer).wrapping_add(self.shared.capacity());
        } else {
            self.disown();
        }
        if peer >> 32 != self.peer_generation {
            self.restarted |= self.peer_generation != 0;
            self.peer_generation = peer >> 32;
            // Its previous life may have overwritten our word.
            self.store_word();
            self.fresh = true;
        }
    }

    /// Counts a violation, and everything that was published as taken: an honest consumer will go on behind it.
    fn disown(&mut self) {
        self.violations = self.violations.saturating_add(1);
        self.limit = self.published.wrapping_add(self.shared.capacity());
        self.fresh = true;
    }

    /// Writes one entry. It is not visible to the consumer until [`Self::publish`].
    ///
    /// # Errors
    ///
    /// [`Full`] where there is no space.
    #[inline(always)]
    pub fn push(&mut self, entry: T) -> Result<(), Full> {
        if self.tail == self.limit && self.refresh() == 0 {
            return Err(Full);
        }
        self.shared.store(self.tail, entry);
        self.tail = self.tail.wrapping_add(1);
        Ok(())
    }

    /// Writes as many of `entries` as there is space for; returns how many.
    #[inline]
    pub fn push_slice(&mut self, entries: &[T]) -> usize {
        let mut reservation = self.reserve(entries.len().min(u32::MAX as usize) as u32);
        for (count, entry) in entries.iter().enumerate() {
            if reservation.push(*entry).is_err() {
                return count;
            }
        }
        entries.len()
    }

    /// Space for up to `count` entries: the fastest way to write many. Looks at the consumer's index only where
    /// less than `count` is known to be free.
    #[inline]
    pub fn reserve(&mut self, count: u32) -> Reservation<'_, T> {
        let mut free = self.free();
        if free < count {
            free = self.refresh();
        }
        let (shared, tail) = (self.shared, self.tail);
        Reservation { shared, tail, limit: tail.wrapping_add(free.min(count)), producer: self }
    }

    /// Makes all pushed entries visible to the consumer. True: notify it, it sleeps.
    #[inline]
    #[must_use = "a consumer that sleeps waits for a notification"]
    pub fn publish(&mut self) -> bool {
        let old = self.published;
        if self.tail == old && !self.fresh {
            return false;
        }
        self.published = self.tail;
        self.store_word();
        // Between our word and its announcement: either we see that it sleeps, or it sees what we published.
        fence(Ordering::SeqCst);
        let wanted = self.shared.header().consumer.wanted.load(Ordering::Relaxed);
        core::mem::take(&mut self.fresh) | passed(wanted, old, self.tail)
    }

    /// As [`Self::publish`], but puts it off until there are `count` entries to show at once. For entries that nobody waits for: a
    /// consumer that does must be able to do without the last `count` of them.
    #[inline(always)]
    #[must_use = "a consumer that sleeps waits for a notification"]
    pub fn publish_many(&mut self, count: u32) -> bool {
        (self.tail.wrapping_sub(self.published) >= count || self.fresh) && self.publish()
    }

    /// Whether the consumer sleeps until it gets one of the next `count` entries: for a producer that can put off
    /// making them. An announcement that the consumer made before an entry which it published to this side's knowledge, over
    /// another ring for one, is seen.
    #[inline]
    pub fn awaited(&self, count: u32) -> bool {
        let wanted = self.shared.header().consumer.wanted.load(Ordering::Relaxed);
        passed(wanted, self.published, self.published.wrapping_add(count))
    }

    /// Announces that this side wants a notification as soon as there is space for one entry. False: there is
    /// some already, do not sleep.
    #[inline]
    #[must_use = "there may be space already"]
    pub fn sleep(&mut self) -> bool {
        self.sleep_until(1)
    }

    /// Announces that this side wants a notification as soon as there is space for `count` entries (at least 1, at
    /// most the capacity). False: there is already, do not sleep. Publish first: the consumer cannot make space of
    /// entries that it does not see.
    #[inline]
    #[must_use = "there may be space already"]
    pub fn sleep_until(&mut self, count: u32) -> bool {
        let count = count.clamp(1, self.capacity());
        // The consumer must get as far as `tail + count - capacity`, that is, pass the index before it.
        let wanted = self.tail.wrapping_add(count).wrapping_sub(self.capacity()).wrapping_sub(1);
        crate::step();
        self.shared.header().producer.wanted.store(wanted, Ordering::Relaxed);
        fence(Ordering::SeqCst);
        self.refresh() < count && !self.stale
    }

    /// Whether the consumer was restarted since this was last asked.
    #[inline]
    pub fn restarted(&mut self) -> bool {
        core::mem::take(&mut self.restarted)
    }

    /// How often the consumer's index was not credible.
    pub fn violations(&self) -> u32 {
        self.violations
    }

    #[inline(always)]
    fn store_word(&self) {
        crate::step();
        self.shared.header().producer.word.store(word(self.generation, self.published), Ordering::Release);
    }
}

/// Space in a ring, being filled. What was pushed counts when this is dropped.
#[derive(Debug)]
pub struct Reservation<'a, T: Entry> {
    producer: &'a mut Producer<T>,
    shared: Shared<T>,
    tail: u32,
    limit: u32,
}

impl<T: Entry> Reservation<'_, T> {
    /// Slots left in this reservation.
    #[inline(always)]
    pub fn left(&self) -> u32 {
        self.limit.wrapping_sub(self.tail)
    }

    /// Writes one entry.
    ///
    /// # Errors
    ///
    /// [`Full`] where the reservation is used up.
    #[inline(always)]
    pub fn push(&mut self, entry: T) -> Result<(), Full> {
        if self.tail == self.limit {
            return Err(Full);
        }
        self.shared.store(self.tail, entry);
        self.tail = self.tail.wrapping_add(1);
        Ok(())
    }
}

impl<T: Entry> Drop for Reservation<'_, T> {
    #[inline(always)]
    fn drop(&mut self) {
        self.producer.tail = self.tail;
    }
}
