//! The driver of a device, as a virtualiser sees it: it takes entries, and gives others for them.
//!
//! Where the driver is a domain of its own, that is a [`Link`]: a pair of queues in shared memory.
//! Where driver and virtualisers share a domain, it is the device's own queue, and what passes over
//! it passes by calls. A virtualiser is the same program for both, made anew for each by the
//! compiler, so that neither pays for the other.
//!
//! Both have the same order: an entry has an *index*, the number of those before it, by which a
//! virtualiser records it in its account, and after a restart the record tells
//! which entries the other side has. Indices of queues count modulo 2³², those of a device's queue
//! perhaps modulo 2¹⁶ only, so what is computed from them is compared modulo 2¹⁶.

use crate::DmaDescriptor;
use core::fmt;
use culm::connection::Ring;
use culm::link::{Event, Generations, Link, Positions};
use culm::queue;
use culm::{Channel, Progress};
use culm_queue::{Drain, Reservation};

/// A driver with which a virtualiser is at work.
pub trait DriverLink {
    /// Space for entries, being filled.
    type Space<'a>: Space
    where
        Self: 'a;

    /// Entries, being taken. Those that are not taken from it stay with the driver.
    type Entries<'a>: Entries
    where
        Self: 'a;

    /// How many counters of the component stand before the virtualiser's.
    const COUNTERS_BEFORE: usize;

    /// Returns whether a notification over this channel is the driver's.
    fn notifies_over(&self, channel: Channel) -> bool;

    /// Looks at what the driver has given. Returns whether entries can pass; if not, call
    /// [`Self::reconnect`].
    fn look(&mut self) -> bool;

    /// Takes the next steps towards a driver to which entries can pass. When they can
    /// ([`Event::Renewed`]), the driver has nothing of what it was given before.
    fn reconnect(&mut self) -> Event;

    /// Returns whether entries can pass.
    fn is_live(&self) -> bool;

    /// Takes entries from the driver, of those that [`Self::look`] has seen.
    fn drain(&mut self) -> Self::Entries<'_>;

    /// Returns how many entries the driver can be given at least. If that is less than `wanted`,
    /// looks whether it has become more.
    fn space(&mut self, wanted: u32) -> u32;

    /// Returns space for up to `count` entries. The driver sees those pushed after
    /// [`Self::publish`].
    fn reserve(&mut self, count: u32) -> Self::Space<'_>;

    /// Returns the indices of the next entries to push and to pop.
    fn positions(&self) -> Positions;

    /// Returns what tells this life of the connection to the driver from all others.
    fn generations(&self) -> Generations;

    /// Shows the driver what was pushed, then that what was popped is dealt with.
    fn publish(&mut self);

    /// Shows the driver what was pushed. What was popped is still to be dealt with.
    fn publish_output(&mut self);

    /// Asks for a turn as soon as the driver has given an entry, unless it has already.
    fn sleep(&mut self) -> Progress;

    /// Asks for a turn as soon as the driver has space for `count` entries, unless it has already.
    fn sleep_for_space(&mut self, count: u32) -> Progress;

    /// Asks the driver for `count` entries, and for a turn as soon as it has given them, unless it
    /// has already.
    fn ask_for(&mut self, count: u32) -> Progress;

    /// Returns the most entries that the driver can be given at a time.
    fn capacity(&self) -> u32;
}

/// Space for entries, being filled.
pub trait Space {
    /// Returns for how many entries there is space left.
    fn left(&self) -> u32;

    /// Returns the index of the next entry to push.
    fn position(&self) -> u32;

    /// Pushes an entry, for which there is space.
    fn push(&mut self, entry: DmaDescriptor);
}

/// Entries from the driver, being taken.
pub trait Entries: Iterator<Item = DmaDescriptor> {
    /// Returns the index of the next entry.
    fn position(&self) -> u32;
}

/// Where a virtualiser finds its driver, and what its previous life left there.
pub trait FoundDriver {
    /// The driver that is found there.
    type Driver: DriverLink;

    /// Returns the most entries that the driver can be given at a time.
    fn capacity(&self) -> u32;

    /// Returns whether what stands here is of these generations, or of later ones in which nothing
    /// has passed yet. If it is not, what [`Self::published`], [`Self::unpublished`] and
    /// [`Self::popped`] return means nothing: use none of it, and [begin](Self::begin).
    fn has(&self, generations: Generations) -> bool;

    /// Returns the index of the next entry to publish.
    fn published(&self) -> u32;

    /// Returns how far behind the next entry to publish this one lies, if it is pushed and not
    /// published. After a wrap of the index its slot holds another entry, which the token tells.
    fn unpublished(&self, index: u32, token: u32) -> Option<u32>;

    /// Returns the token in the slot of this index. It is another entry's, or none that exists, if
    /// the entry that was popped there is dealt with.
    fn popped(&self, index: u32) -> u32;

    /// Goes on with the driver if it has the previous life's entries still: see [`Link::resume`].
    ///
    /// # Errors
    ///
    /// The place, if that is impossible.
    fn resume(self, generations: Generations, positions: Positions) -> Result<Self::Driver, Self>
    where
        Self: Sized;

    /// Begins a new life: see [`DriverLink::reconnect`].
    fn begin(self) -> Self::Driver;
}

/// A device whose driver shares the domain of its virtualisers: what is left to do of the driver's
/// work.
pub trait Chip {
    /// The driver of the receive virtualiser.
    type Receive: DriverLink;

    /// The driver of the transmit virtualiser.
    type Transmit: DriverLink;

    /// The reason why a device cannot be used.
    type Unusable: fmt::Display;

    /// Takes the device into use. It goes on where both virtualisers can.
    ///
    /// # Errors
    ///
    /// If it cannot be used.
    fn start(&mut self, receive: &mut Self::Receive, transmit: &mut Self::Transmit) -> Result<(), Self::Unusable>;

    /// Handles the device's interrupt. Returns whether it may be for sent frames too.
    fn interrupted(&mut self, transmit: &Self::Transmit) -> bool;

    /// Ends a round of the virtualisers: has the device look at what they gave, and looks after the
    /// device. There is more to do if the device starts over.
    fn finish(&mut self, receive: &mut Self::Receive, transmit: &mut Self::Transmit) -> Progress;
}

/// The queues to and from a driver that is a domain of its own.
#[derive(Clone, Copy, Debug)]
pub struct Queues {
    /// The queue to the driver.
    pub output: Ring,
    /// The queue from the driver.
    pub input: Ring,
    /// The channel to the driver.
    pub channel: u32,
}

impl FoundDriver for Queues {
    type Driver = Link<DmaDescriptor>;

    fn capacity(&self) -> u32 {
        self.output.capacity.min(self.input.capacity)
    }

    /// A new life of the link keeps the indices and entries of the last one until it is live, and
    /// the account of that one is forgotten before.
    fn has(&self, _: Generations) -> bool {
        true
    }

    fn published(&self) -> u32 {
        Link::<DmaDescriptor>::shown(self.output, self.input).output
    }

    fn unpublished(&self, index: u32, token: u32) -> Option<u32> {
        let ring = queue::shared::<DmaDescriptor>(self.output);
        let rank = index.wrapping_sub(self.published());
        (rank < ring.capacity() && ring.load(index).token == token).then_some(rank)
    }

    fn popped(&self, index: u32) -> u32 {
        queue::shared::<DmaDescriptor>(self.input).load(index).token
    }

    fn resume(self, generations: Generations, positions: Positions) -> Result<Self::Driver, Self> {
        Link::resume(self.output, self.input, self.channel, generations, positions).ok_or(self)
    }

    fn begin(self) -> Self::Driver {
        Link::new(self.output, self.input, self.channel)
    }
}

impl DriverLink for Link<DmaDescriptor> {
    type Space<'a> = Reservation<'a, DmaDescriptor>;
    type Entries<'a> = Drain<'a, DmaDescriptor>;

    const COUNTERS_BEFORE: usize = 0;

    #[inline(always)]
    fn notifies_over(&self, channel: Channel) -> bool {
        channel == self.channel()
    }

    #[inline(always)]
    fn look(&mut self) -> bool {
        (**self).look()
    }

    fn reconnect(&mut self) -> Event {
        (**self).reconnect()
    }

    #[inline(always)]
    fn is_live(&self) -> bool {
        (**self).is_live()
    }

    #[inline(always)]
    fn drain(&mut self) -> Drain<'_, DmaDescriptor> {
        let known = self.input.available();
        self.input.drain(known)
    }

    #[inline(always)]
    fn space(&mut self, wanted: u32) -> u32 {
        let free = self.output.free();
        if free < wanted { self.output.refresh() } else { free }
    }

    #[inline(always)]
    fn reserve(&mut self, count: u32) -> Self::Space<'_> {
        self.output.reserve(count)
    }

    #[inline(always)]
    fn positions(&self) -> Positions {
        (**self).positions()
    }

    fn generations(&self) -> Generations {
        (**self).generations()
    }

    #[inline(always)]
    fn publish(&mut self) {
        Link::publish(self);
    }

    #[inline(always)]
    fn publish_output(&mut self) {
        Link::publish_output(self);
    }

    #[inline(always)]
    fn sleep(&mut self) -> Progress {
        (**self).sleep()
    }

    #[inline(always)]
    fn sleep_for_space(&mut self, count: u32) -> Progress {
        (**self).sleep_for_space(count)
    }

    #[inline(always)]
    fn ask_for(&mut self, count: u32) -> Progress {
        // The driver looks for the announcement when it is given entries. There may be none to
        // give, so notify it.
        self.channel().notify();
        self.sleep_until(count)
    }

    #[inline(always)]
    fn capacity(&self) -> u32 {
        self.output.capacity()
    }
}

impl Entries for Drain<'_, DmaDescriptor> {
    #[inline(always)]
    fn position(&self) -> u32 {
        Drain::position(self)
    }
}

impl Space for Reservation<'_, DmaDescriptor> {
    #[inline(always)]
    fn left(&self) -> u32 {
        Reservation::left(self)
    }

    #[inline(always)]
    fn position(&self) -> u32 {
        Reservation::position(self)
    }

    #[inline(always)]
    fn push(&mut self, entry: DmaDescriptor) {
        // There is space, as the caller has seen.
        let _ = Reservation::push(self, entry);
    }
}
