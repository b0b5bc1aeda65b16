//! The writing side of a ring.

use crate::atomic::{Ordering, fence};
use crate::{Entry, NOBODY, Peer, Progress, Shared, generation, index, next_generation, passed, word};
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
    /// The value of `tail` that was published last.
    published: u32,
    /// The index that `tail` cannot pass: the consumer's index, as last seen and accepted, plus the
    /// capacity.
    limit: u32,
    generation: u32,
    /// The consumer's generation, or [`NOBODY`].
    peer_generation: u64,
    violations: u32,
    /// The consumer's word that was found to be invalid last.
    invalid: Option<u64>,
    /// Whether the next publication asks for a notification whatever the consumer announced.
    fresh: bool,
    restarted: bool,
    /// Whether this is an end of a [`Link`](crate::Link), which handles a consumer that is invalid.
    linked: bool,
    /// Whether an invalid index was read and the link has not handled it yet.
    stale: bool,
}

impl<T: Entry> Producer<T> {
    /// Attaches as the producer of a ring, resuming after the entry that was published last.
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
            invalid: None,
            fresh: true,
            restarted: false,
            linked: false,
            stale: false,
        };
        if producer.free() > shared.capacity() {
            producer.disown(peer);
        }
        producer.store_word();
        producer
    }

    /// Attaches as an end of a link that has no space yet, behind the entry that was published
    /// last.
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
            invalid: None,
            fresh: true,
            restarted: false,
            linked: true,
            stale: false,
        }
    }

    /// Gives up all space, and forgets entries that were pushed and not published. The consumer
    /// sees `generation`.
    pub(crate) fn leave(&mut self, generation: u32) {
        (self.tail, self.limit) = (self.published, self.published);
        (self.generation, self.peer_generation) = (generation, NOBODY);
        (self.stale, self.fresh) = (false, true);
        self.store_word();
    }

    /// Takes the whole ring as space: nobody reads what is published before [`Self::enter`].
    pub(crate) fn discard(&mut self) {
        self.limit = self.published.wrapping_add(self.capacity());
    }

    /// Opens for the consumer of generation `peer`: entries published from here on are meant for
    /// it, all before are void.
    pub(crate) fn open(&mut self, peer: u32) {
        crate::crash_point();
        self.shared.header().producer.start.store(word(peer, self.published), Ordering::Release);
        self.fresh = true;
    }

    /// Closes the ring: entries published next are meant for no consumer, until [`Self::open`]
    /// names one.
    pub(crate) fn close(&mut self) {
        crate::crash_point();
        self.shared.header().producer.start.store(0, Ordering::Relaxed);
    }

    /// Takes the whole ring as space, for the consumer of generation `peer`. Nothing was pushed
    /// since [`Self::open`].
    pub(crate) fn enter(&mut self, peer: u32) {
        self.limit = self.published.wrapping_add(self.capacity());
        self.peer_generation = peer.into();
        (self.stale, self.fresh) = (false, true);
        // Announce an index that is passed already, so that nothing is waited for, whatever a
        // previous life announced.
        crate::crash_point();
        let passed = self.published.wrapping_sub(self.capacity()).wrapping_sub(1);
        self.shared.header().producer.wanted.store(passed, Ordering::Relaxed);
    }

    /// Does what [`Self::enter`] does, behind the last entry that the previous life of the same
    /// generation wrote, at index `tail`. Returns false if the word in the ring is not of that
    /// generation, or that life cannot have written so many entries that it did not publish.
    pub(crate) fn resume(&mut self, generation: u32, peer: u32, tail: u32) -> bool {
        let own = self.shared.header().producer.word.load(Ordering::Relaxed);
        let pushed = tail.wrapping_sub(self.published);
        (self.generation, self.peer_generation) = (generation, peer.into());
        // No space is known yet: only a word of this consumer's shows that there is some.
        self.refresh();
        let space = self.limit.wrapping_sub(self.published);
        if generation != crate::generation(own) || pushed > self.capacity() {
            return false;
        }
        self.tail = tail;
        if space < pushed {
            // The consumer is another by now, for which all entries are void, or was invalid.
            self.limit = tail;
        }
        true
    }

    /// Returns whether the consumer's index was found to be invalid.
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

    /// Returns the slots that are known to be free without looking at the consumer's index again.
    #[inline(always)]
    pub fn free(&self) -> u32 {
        self.limit.wrapping_sub(self.tail)
    }

    /// Returns the index of the next entry to write: how many were ever pushed, modulo 2³². After
    /// an attachment it is how many were ever published.
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
            self.accept_peer_word(peer, gained <= outstanding);
        }
        self.free()
    }

    /// Handles a consumer's word that is of a new generation or invalid.
    #[cold]
    fn accept_peer_word(&mut self, peer: u64, credible: bool) {
        if self.linked {
            // A consumer of another generation has not begun to read, so there is no news, or is
            // new: then the ring that it produces shows it.
            self.stale |= peer >> 32 == self.peer_generation;
            return;
        }
        if credible {
            self.limit = index(peer).wrapping_add(self.shared.capacity());
        } else if self.invalid != Some(peer) {
            self.disown(peer);
        }
        if peer >> 32 != self.peer_generation {
            self.restarted |= self.peer_generation != 0;
            self.peer_generation = peer >> 32;
            // The consumer's previous life may have overwritten our word.
            self.store_word();
            self.fresh = true;
        }
    }

    /// Counts a violation, and takes everything that was published as consumed: an honest consumer
    /// goes on behind it. Call it once for each invalid word: a word that stays would make space
    /// for ever, for a producer that fills whatever is free.
    fn disown(&mut self, word: u64) {
        self.violations = self.violations.saturating_add(1);
        self.invalid = Some(word);
        self.limit = self.published.wrapping_add(self.shared.capacity());
        self.fresh = true;
    }

    /// Writes one entry. It is not visible to the consumer until [`Self::publish`].
    ///
    /// # Errors
    ///
    /// [`Full`] if there is no space.
    #[inline(always)]
    pub fn push(&mut self, entry: T) -> Result<(), Full> {
        if self.tail == self.limit && self.refresh() == 0 {
            return Err(Full);
        }
        // Read the index once: the store could change it, as far as the compiler knows.
        let tail = self.tail;
        self.tail = tail.wrapping_add(1);
        self.shared.store(tail, entry);
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

    /// Returns space for up to `count` entries: the fastest way to write many. Looks at the
    /// consumer's index only if less than `count` is known to be free.
    #[inline]
    pub fn reserve(&mut self, count: u32) -> Reservation<'_, T> {
        let mut free = self.free();
        if free < count {
            free = self.refresh();
        }
        let (shared, tail) = (self.shared, self.tail);
        Reservation { shared, tail, limit: tail.wrapping_add(free.min(count)), producer: self }
    }

    /// Makes all pushed entries visible to the consumer.
    #[inline]
    pub fn publish(&mut self) -> Peer {
        let (shared, old, tail) = (self.shared, self.published, self.tail);
        if tail == old && !self.fresh {
            return Peer::Awake;
        }
        let fresh = core::mem::take(&mut self.fresh);
        self.published = tail;
        self.store_word();
        // The fence is between our word and its announcement: either we see that it sleeps, or it
        // sees what we published.
        fence(Ordering::SeqCst);
        let wanted = shared.header().consumer.wanted.load(Ordering::Relaxed);
        Peer::asleep_if(fresh | passed(wanted, old, tail))
    }

    /// Publishes only if at least `count` entries can be shown together, or a notification is due
    /// after an attachment. Hazard: the last entries may stay unseen. Use it only if the consumer
    /// can do without the last `count` of them.
    #[inline(always)]
    pub fn publish_many(&mut self, count: u32) -> Peer {
        let is_due = self.tail.wrapping_sub(self.published) >= count || self.fresh;
        if is_due { self.publish() } else { Peer::Awake }
    }

    /// Returns whether the consumer sleeps until one of the next `count` entries arrives; if not, a
    /// producer can delay making them. If the consumer announced its sleep before it published an
    /// entry on another ring, and this side has read that entry, this side sees the announcement.
    #[inline]
    pub fn awaited(&self, count: u32) -> bool {
        let wanted = self.shared.header().consumer.wanted.load(Ordering::Relaxed);
        passed(wanted, self.published, self.published.wrapping_add(count))
    }

    /// Announces that this side wants a notification as soon as there is space for one entry,
    /// unless there is some already.
    #[inline]
    pub fn sleep(&mut self) -> Progress {
        self.sleep_until(1)
    }

    /// Announces that this side wants a notification as soon as there is space for `count` entries
    /// (at least 1, at most the capacity), unless there is already. Publish first: the consumer
    /// cannot release entries that it does not see.
    #[inline]
    pub fn sleep_until(&mut self, count: u32) -> Progress {
        let count = count.clamp(1, self.capacity());
        // The consumer must reach `tail + count - capacity`, that is, pass the index before it.
        let wanted = self.tail.wrapping_add(count).wrapping_sub(self.capacity()).wrapping_sub(1);
        crate::crash_point();
        self.shared.header().producer.wanted.store(wanted, Ordering::Relaxed);
        fence(Ordering::SeqCst);
        Progress::asleep_if(self.refresh() < count && !self.stale)
    }

    /// Returns whether the consumer was restarted since the last call of this.
    #[inline]
    pub fn restarted(&mut self) -> bool {
        core::mem::take(&mut self.restarted)
    }

    /// Returns how often the consumer's index was invalid.
    pub fn violations(&self) -> u32 {
        self.violations
    }

    #[inline(always)]
    fn store_word(&self) {
        crate::crash_point();
        self.shared.header().producer.word.store(word(self.generation, self.published), Ordering::Release);
    }
}

/// Space in a ring, being filled. Entries written to it are pushed when this is dropped.
#[derive(Debug)]
pub struct Reservation<'a, T: Entry> {
    producer: &'a mut Producer<T>,
    shared: Shared<T>,
    tail: u32,
    limit: u32,
}

impl<T: Entry> Reservation<'_, T> {
    /// Returns the index of the next entry to write.
    #[inline(always)]
    pub fn position(&self) -> u32 {
        self.tail
    }

    /// Returns the slots left in this reservation.
    #[inline(always)]
    pub fn left(&self) -> u32 {
        self.limit.wrapping_sub(self.tail)
    }

    /// Writes one entry.
    ///
    /// # Errors
    ///
    /// [`Full`] if the reservation is used up.
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
