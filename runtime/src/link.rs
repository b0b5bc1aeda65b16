//! A component's end of a pair of queues to one peer: both rings and the channel, and the turns
//! that go with them.
//!
//! A round begins by [`Link::begin`](culm_queue::Link::begin), pops from `input`, pushes to
//! `output`, shows what it did by [`Link::publish`], and ends by
//! [`Link::sleep`](culm_queue::Link::sleep). How the two sides find each other after a restart is
//! in [`culm_queue::link`].

use crate::arch::domain_static;
use crate::channel::Channel;
use crate::{queue, random, time};
use core::cell::Cell;
use core::ops::{Deref, DerefMut};
use culm_abi::connection::Ring;
use culm_queue::Entry;
pub use culm_queue::{Event, Generations, Positions};

domain_static! {
    /// How many links were begun.
    BEGUN: Cell<u64> = Cell::new(0);
}

/// Returns after how many entries to release a ring of this capacity, or to return buffers that are
/// lent over it: one release costs the same for one entry as for many.
#[inline(always)]
pub const fn release_batch(capacity: u32) -> u32 {
    capacity / 16
}

/// One end of a pair of queues, with the channel to the peer that has the other.
#[derive(Debug)]
pub struct Link<O: Entry, I: Entry = O> {
    ends: culm_queue::Link<O, I>,
    channel: Channel,
}

impl<O: Entry, I: Entry> Link<O, I> {
    /// Begins a life that writes `output` and reads `input`, whose peer is at the other end of
    /// `channel`.
    ///
    /// # Panics
    ///
    /// If the memory cannot be a ring's, which no start block contains.
    pub fn new(output: Ring, input: Ring, channel: u32) -> Self {
        let ends = culm_queue::Link::attach(queue::shared(output), queue::shared(input), generation());
        Self { ends, channel: Channel::new(channel) }
    }

    /// Goes on with a life that ended while the link was live: see [`culm_queue::Link::resume`].
    ///
    /// # Panics
    ///
    /// As [`Self::new`].
    pub fn resume(
        output: Ring,
        input: Ring,
        channel: u32,
        generations: Generations,
        positions: Positions,
    ) -> Option<Self> {
        let ends = culm_queue::Link::resume(queue::shared(output), queue::shared(input), generations, positions)?;
        Some(Self { ends, channel: Channel::new(channel) })
    }

    /// Returns what the previous life of this side showed in its rings.
    ///
    /// # Panics
    ///
    /// As [`Self::new`].
    pub fn shown(output: Ring, input: Ring) -> Positions {
        Positions::shown(queue::shared::<O>(output), queue::shared::<I>(input))
    }

    /// The channel to the peer.
    #[inline(always)]
    pub fn channel(&self) -> Channel {
        self.channel
    }

    /// Publishes pushed entries, then releases popped ones once they are worth it, and notifies the
    /// peer if it waits for either. Publish before release: a restart in between reads the popped
    /// entries again; the other order loses them.
    #[inline(always)]
    pub fn publish(&mut self) {
        self.publish_many(1);
    }

    /// Does what [`Self::publish`] does, but puts publication off too, until there are `count`
    /// entries.
    #[inline(always)]
    pub fn publish_many(&mut self, count: u32) {
        let given = self.ends.output.publish_many(count);
        let taken = self.ends.input.release_many(release_batch(self.ends.input.capacity()));
        if (given | taken).is_asleep() {
            self.channel.notify();
        }
    }

    /// Publishes pushed entries, and releases none.
    #[inline(always)]
    pub fn publish_output(&mut self) {
        if self.ends.output.publish().is_asleep() {
            self.channel.notify();
        }
    }

    /// Releases popped entries once there are `count` of them, and publishes none.
    #[inline(always)]
    pub fn release_input(&mut self, count: u32) {
        if self.ends.input.release_many(count).is_asleep() {
            self.channel.notify();
        }
    }
}

impl<O: Entry, I: Entry> Deref for Link<O, I> {
    type Target = culm_queue::Link<O, I>;

    #[inline(always)]
    fn deref(&self) -> &Self::Target {
        &self.ends
    }
}

impl<O: Entry, I: Entry> DerefMut for Link<O, I> {
    #[inline(always)]
    fn deref_mut(&mut self) -> &mut Self::Target {
        &mut self.ends
    }
}

/// Returns the generation of a new life. A previous life that an attacker had taken over must not
/// guess it: it is random if the machine has randomness; otherwise it is made of the time, and can
/// be guessed as well as the moment of the restart.
fn generation() -> u32 {
    let begun = BEGUN.with(|begun| begun.replace(begun.get().wrapping_add(1)));
    let random = random::words().map_or(0, |[word]| word);
    // The multiplier spreads small differences over the upper bits (Knuth, The Art of Computer
    // Programming 3, 6.4).
    let mixed = ((time::now().ticks().wrapping_add(begun)) ^ random).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    (mixed >> 32) as u32
}
