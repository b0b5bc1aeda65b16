//! The device as the driver of a virtualiser in the same domain: requests go straight into its
//! queue.

use crate::counters;
use crate::engine::Engine;
use core::fmt::Display;
use culm::{Channel, Progress};
use culm_block::driver::Driver;
use culm_block::{Completion, Disk, NotSent, Request, Shift};
use culm_virtio::Interface;

impl<I: Interface, T> Driver<T> for Engine<I, T> {
    const COUNTERS_BEFORE: usize = counters::COUNTERS;

    /// The device interrupts instead: see [`Self::interrupted`].
    #[inline(always)]
    fn notifies_over(&self, _: Channel) -> bool {
        false
    }

    #[inline(always)]
    fn disk(&self) -> Option<&Disk> {
        Some(Engine::disk(self))
    }

    fn trouble(&self) -> Option<&dyn Display> {
        Engine::trouble(self).map(|trouble| trouble as &dyn Display)
    }

    #[inline(always)]
    fn shown(&self) -> u32 {
        Engine::shown(self)
    }

    #[inline(always)]
    fn changes(&self) -> u32 {
        Engine::changes(self)
    }

    #[inline(always)]
    fn under_way(&self) -> usize {
        self.requests.under_way()
    }

    #[inline(always)]
    fn space(&self) -> usize {
        Engine::space(self)
    }

    #[inline(always)]
    fn begin(&mut self) {
        Engine::begin(self);
    }

    #[inline(always)]
    fn next_completion(&mut self) -> Option<Completion<T>> {
        Engine::next_completion(self)
    }

    #[inline(always)]
    fn forward(&mut self, request: &Request, shift: Shift, tag: T) -> Result<(), NotSent> {
        self.give(request, shift, tag)
    }

    /// Takes nothing back: the device may have begun all that it was given. What a trial has taken
    /// from it and not given again (module `reset`) could end here, but waits with the others.
    fn cancel(&mut self, _: impl FnMut(&T) -> bool) {}

    #[inline(always)]
    fn end_round(&mut self) -> Progress {
        Engine::end_round(self)
    }
}
