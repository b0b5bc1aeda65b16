//! The driver of a disk, as its virtualiser sees it: it takes requests, each with a tag, and
//! returns them complete.
//!
//! Where the driver is a domain of its own, that is a [`Client`] of its queues. Where driver and
//! virtualiser share a domain, it is the device's own queue, and requests pass by calls. A
//! virtualiser is the same program for both, made anew for each by the compiler, so that neither
//! pays for the other.

use crate::{Client, Completion, Disk, NotSent, Request, Shift};
use core::fmt::Display;
use culm::{Channel, Progress};

/// A driver with which a virtualiser is at work. Its requests have tags of type `T`.
pub trait Driver<T> {
    /// How many counters of the component stand before the virtualiser's.
    const COUNTERS_BEFORE: usize;

    /// Returns whether a notification over this channel is the driver's.
    fn notifies_over(&self, channel: Channel) -> bool;

    /// Returns what the disk is, as far as it is known.
    fn disk(&self) -> Option<&Disk>;

    /// Returns what is wrong with the device, as far as this domain has to show it: a driver with a
    /// domain of its own does that itself.
    fn trouble(&self) -> Option<&dyn Display> {
        None
    }

    /// Returns how often the driver has said what the disk is, modulo 2³²: [`Self::disk`] and
    /// [`Self::trouble`] are the same as long as this is.
    fn shown(&self) -> u32;

    /// Returns how often the medium has changed: see [`Client::changes`].
    fn changes(&self) -> u32;

    /// Returns how many requests are under way.
    fn under_way(&self) -> usize;

    /// Returns how many more requests can be sent now.
    fn space(&self) -> usize;

    /// Begins a round.
    fn begin(&mut self);

    /// Returns the next request that is complete, of those that were at the beginning of the round.
    fn next_completion(&mut self) -> Option<Completion<T>>;

    /// Sends a request, which is within the disk: see [`Client::forward`].
    ///
    /// # Errors
    ///
    /// [`NotSent::Full`].
    fn forward(&mut self, request: &Request, shift: Shift, tag: T) -> Result<(), NotSent>;

    /// Ends those requests whose tag `is_meant` and that nobody has begun: see [`Client::cancel`].
    fn cancel(&mut self, is_meant: impl FnMut(&T) -> bool);

    /// Ends a round: the driver sees what was sent.
    fn end_round(&mut self) -> Progress;
}

impl<T> Driver<T> for Client<T> {
    const COUNTERS_BEFORE: usize = 0;

    #[inline(always)]
    fn notifies_over(&self, channel: Channel) -> bool {
        channel == self.channel()
    }

    #[inline(always)]
    fn disk(&self) -> Option<&Disk> {
        Client::disk(self)
    }

    #[inline(always)]
    fn shown(&self) -> u32 {
        Client::shown(self)
    }

    #[inline(always)]
    fn changes(&self) -> u32 {
        Client::changes(self)
    }

    #[inline(always)]
    fn under_way(&self) -> usize {
        Client::under_way(self)
    }

    #[inline(always)]
    fn space(&self) -> usize {
        Client::space(self)
    }

    #[inline(always)]
    fn begin(&mut self) {
        Client::begin(self);
    }

    #[inline(always)]
    fn next_completion(&mut self) -> Option<Completion<T>> {
        Client::next_completion(self)
    }

    #[inline(always)]
    fn forward(&mut self, request: &Request, shift: Shift, tag: T) -> Result<(), NotSent> {
        Client::forward(self, request, shift, tag)
    }

    fn cancel(&mut self, is_meant: impl FnMut(&T) -> bool) {
        Client::cancel(self, is_meant);
    }

    #[inline(always)]
    fn end_round(&mut self) -> Progress {
        Client::end_round(self)
    }
}
