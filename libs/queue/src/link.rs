//! One end of a pair of rings, one each way, between two sides that each may be restarted at any
//! time.
//!
//! A side's knowledge of the entries that it took and gave ends with its life. So entries are meant
//! for one life of their reader only, and both sides agree at which entry that life begins. Each
//! side has a *generation* for its life. It stands in the words of this side's producer and
//! consumer, and beside the producer's word stands its *start*: the peer's generation, and the
//! index from which on entries are meant for that life. All of these are states, which can be read
//! at any time, not messages, which can be missed. Whatever a previous life wrote over the words of
//! its rings, each side writes its own words again when it begins and when it finds that the other
//! has begun, and relies only on what it then reads.
//!
//! A side is *live* if its start names the peer's present generation and the peer's start names its
//! own. Until then it neither reads nor writes entries.
//!
//! * *A life begins* ([`Link::attach`], [`Link::start_over`]): the side clears its start, so that
//!   the previous life's is not taken for its own, then shows its new generation.
//! * *The peer's life began*, as its producer's word shows: the side writes its own words again,
//!   gives up what it pushed and did not publish, and opens: its start names the peer's generation.
//!   A consumer that is not live shows generation 0, which no side has: its index is no news to the
//!   producer.
//! * *The peer's start names this life*: the consumer goes on at the index there, and the producer
//!   has the whole ring. That is reported once, as [`Event::Renewed`]: everything that was lent
//!   over the pair is with its owner again.
//! * *A word of the peer's that cannot be* (a violation), under an unchanged generation: the side
//!   begins a new life by itself, so that an honest peer starts over too and nothing stays lost
//!   between the two.
//!
//! Each of these asks for a notification at the next publication, whatever the peer announced. So a
//! side that waits to become live needs no announcement.
//!
//! A life changes only in [`Link::begin`], or in its second half alone ([`Link::reconnect`]).
//! Entries read and written between two calls belong to the life of that time; if the peer has
//! begun another since, it skips them.

use crate::atomic::Ordering;
use crate::{Consumer, Entry, Producer, Progress, Shared, generation, index, next_generation};

/// The result of the beginning of a round.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[must_use = "a renewed link means that everything lent is back"]
pub enum Event {
    /// Nothing changes.
    None,
    /// The peer is new, or what it wrote is invalid: the pair starts over, and is not live yet.
    Changed,
    /// The pair starts over, and is live: everything lent is with its owner again, all that was
    /// sent so far is void.
    Renewed,
}

/// The generations of both sides of a live link, with which the next life can go on with this one
/// ([`Link::resume`]).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Generations {
    /// This side's.
    pub own: u32,
    /// The peer's.
    pub peer: u32,
}

/// The positions of one side in both rings: how many entries were ever pushed and popped, modulo
/// 2³².
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Positions {
    /// Index of the next entry to write.
    pub output: u32,
    /// Index of the next entry to read.
    pub input: u32,
}

impl Positions {
    /// Returns what a side's previous life showed to its peer: how many entries it published and
    /// released.
    pub fn shown<O: Entry, I: Entry>(output: Shared<O>, input: Shared<I>) -> Self {
        let published = output.header().producer.word.load(Ordering::Relaxed);
        let released = input.header().consumer.word.load(Ordering::Relaxed);
        Self { output: index(published), input: index(released) }
    }
}

/// One end of a pair of rings.
#[derive(Debug)]
pub struct Link<O: Entry, I: Entry = O> {
    /// Entries that this side sends. It has no space unless the link is live, with one exception:
    /// after a [`Self::look`] that finds that the pair starts over, until [`Self::reconnect`].
    pub output: Producer<O>,
    /// Entries that this side reads. It is empty unless the link is live, with the same exception.
    pub input: Consumer<I>,
    live: bool,
    /// The peer's is 0 until this side has opened for it.
    generations: Generations,
    violations: u32,
}

impl<O: Entry, I: Entry> Link<O, I> {
    /// Begins a life that writes `output` and reads `input`. `wish` is its generation, unless that
    /// could be taken for a previous one's; a previous life that wrote over the rings must not be
    /// able to guess it.
    pub fn attach(output: Shared<O>, input: Shared<I>, wish: u32) -> Self {
        let generations = Generations { own: 0, peer: 0 };
        let (output, input) = (Producer::linked(output), Consumer::linked(input));
        let mut link = Self { output, input, live: false, generations, violations: 0 };
        link.enter(wish);
        link
    }

    /// Goes on with a life that ended while the link was live and had these generations, at
    /// `positions`: that life wrote all entries before the one and has dealt with all before the
    /// other, whether or not it showed so ([`Positions::shown`]). Entries that it wrote and did not
    /// publish are published next. Returns `None` if that is impossible.
    pub fn resume(output: Shared<O>, input: Shared<I>, generations: Generations, positions: Positions) -> Option<Self> {
        let (mut output, mut input) = (Producer::linked(output), Consumer::linked(input));
        let Generations { own, peer } = generations;
        let known = own != 0
            && peer != 0
            && output.resume(own, peer, positions.output)
            && input.resume(own, peer, positions.input);
        known.then_some(Self { output, input, live: true, generations, violations: 0 })
    }

    /// Returns the generations, for [`Self::resume`].
    pub fn generations(&self) -> Generations {
        self.generations
    }

    /// Returns where this side is in both rings.
    pub fn positions(&self) -> Positions {
        Positions { output: self.output.position(), input: self.input.position() }
    }

    /// Returns whether entries can be read and written.
    #[inline(always)]
    pub fn is_live(&self) -> bool {
        self.live
    }

    /// Returns how often the peer's words were invalid.
    pub fn violations(&self) -> u32 {
        self.violations
    }

    /// Begins a round: looks what the peer has published, and whether the pair starts over.
    #[inline]
    pub fn begin(&mut self) -> Event {
        if self.look() { Event::None } else { self.reconnect() }
    }

    /// Does the first half of [`Self::begin`], for callers that must finish something before the
    /// pair starts over: looks at what the peer has published. Returns whether the link is live. If
    /// not, call [`Self::reconnect`], in this round or a later one, which ends the previous life.
    /// Until then the peer's last entries of that life can be read, no more than the ring holds,
    /// and it can be resumed; entries that are pushed reach nobody.
    #[inline]
    pub fn look(&mut self) -> bool {
        self.input.refresh();
        self.check()
    }

    /// Returns whether the link is still live, by the peer's words that were read so far.
    #[inline(always)]
    fn check(&mut self) -> bool {
        if self.input.is_stale() | self.output.is_stale() {
            self.live = false;
        }
        self.live
    }

    /// Takes the whole of `output` as space after a [`Self::look`] that found that the pair starts
    /// over: entries that are pushed reach nobody, so they need not wait for a reader.
    pub fn discard_output(&mut self) {
        if !self.live {
            self.output.discard();
        }
    }

    /// Does the second half of [`Self::begin`]: takes the next steps towards a live link.
    #[cold]
    pub fn reconnect(&mut self) -> Event {
        let stale = self.input.is_stale() | self.output.is_stale();
        if stale && self.peer_generation() == self.generations.peer {
            self.violate();
        }
        let peer = self.peer_generation();
        let changed = peer != self.generations.peer;
        if changed {
            self.open(peer);
        }
        match self.join() {
            Event::None if changed => Event::Changed,
            event => event,
        }
    }

    /// Begins a new life of this side, as if it had been restarted: the peer takes everything that
    /// passed over the pair as void.
    #[cold]
    pub fn start_over(&mut self) {
        self.enter(next_generation(self.generations.own));
    }

    /// Ends a round: announces that this side wants a notification for the next entry, unless there
    /// is one already, or the state of the link has changed.
    #[inline(always)]
    pub fn sleep(&mut self) -> Progress {
        if self.live && self.input.sleep().is_asleep() { Progress::Asleep } else { self.sleep_until_connected() }
    }

    /// Does what [`Self::sleep`] does, for `count` entries at once.
    #[inline]
    pub fn sleep_until(&mut self, count: u32) -> Progress {
        if self.live && self.input.sleep_until(count).is_asleep() {
            Progress::Asleep
        } else {
            self.sleep_until_connected()
        }
    }

    /// Does what [`Self::sleep`] does, for space for `count` entries. It works too if the link is
    /// not live.
    #[inline]
    pub fn sleep_for_space(&mut self, count: u32) -> Progress {
        if self.live && self.output.sleep_until(count).is_asleep() {
            Progress::Asleep
        } else {
            self.sleep_until_connected()
        }
    }

    /// Lets a side sleep whose link is not live, if nothing has changed: the peer notifies whenever
    /// it changes what this side waits for.
    #[cold]
    fn sleep_until_connected(&mut self) -> Progress {
        if self.live {
            self.check();
            return Progress::More;
        }
        Progress::more_if(self.has_news())
    }

    /// Returns whether [`Self::reconnect`] would find a change. What [`Self::look`] found does not
    /// pass, whatever the peer shows since.
    fn has_news(&self) -> bool {
        self.input.is_stale() | self.output.is_stale()
            || self.peer_generation() != self.generations.peer
            || self.generations.peer != 0 && generation(self.peer_start()) == self.generations.own
    }

    /// Begins a life of this side.
    fn enter(&mut self, wish: u32) {
        self.live = false;
        self.generations = Generations { own: self.unused(wish), peer: 0 };
        // Close before the new generation shows. Otherwise the peer would take the start of the
        // previous life for one of this life.
        self.output.close();
        // Clear the peer's start, which the previous life may have overwritten. The peer writes it
        // again when it has seen the new generation, not before.
        crate::crash_point();
        self.input.shared().header().producer.start.store(0, Ordering::Relaxed);
        self.input.leave();
        self.output.leave(self.generations.own);
    }

    /// Returns a generation that neither side can take for an earlier one: `wish`, or one of the
    /// next.
    fn unused(&self, wish: u32) -> u32 {
        let (output, input) = (self.output.shared(), self.input.shared());
        let producer = output.header().producer.word.load(Ordering::Relaxed);
        let consumer = input.header().consumer.word.load(Ordering::Relaxed);
        let known = [0, generation(producer), generation(consumer), generation(self.peer_start())];
        (0..=known.len() as u32).map(|ahead| wish.wrapping_add(ahead)).find(|own| !known.contains(own)).unwrap_or(wish)
    }

    /// Gives up unpublished entries, and opens for the generation that the peer shows. Writes this
    /// side's words again, since the peer's previous life may have overwritten them.
    fn open(&mut self, peer: u32) {
        self.live = false;
        self.generations.peer = peer;
        self.input.leave();
        self.output.leave(self.generations.own);
        self.output.open(peer);
    }

    /// Becomes live, if the peer has opened for this life.
    fn join(&mut self) -> Event {
        let Generations { own, peer } = self.generations;
        let start = self.peer_start();
        if peer == 0 || generation(start) != own {
            return Event::None;
        }
        // Read the word after the start: the start is never ahead of it.
        let word = self.peer_word();
        if generation(word) != peer {
            // The peer begins another life just now, and will notify.
            return Event::None;
        }
        if index(word).wrapping_sub(index(start)) > self.input.capacity() {
            self.violate();
            return Event::Changed;
        }
        self.input.enter(own, peer, index(start), index(word));
        self.output.enter(peer);
        self.live = true;
        Event::Renewed
    }

    #[cold]
    fn violate(&mut self) {
        self.violations = self.violations.saturating_add(1);
        self.start_over();
    }

    fn peer_word(&self) -> u64 {
        self.input.shared().header().producer.word.load(Ordering::Acquire)
    }

    fn peer_generation(&self) -> u32 {
        generation(self.peer_word())
    }

    fn peer_start(&self) -> u64 {
        self.input.shared().header().producer.start.load(Ordering::Acquire)
    }
}
