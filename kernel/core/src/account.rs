//! The counts of a core, beside time and switches ([`crate::meter`]): entries and sleeps, for its
//! domains and for itself ([`culm_abi::accounting`]).

use crate::core::Core;
use crate::counter::add;
use crate::domain::Context;
use crate::system::Hardware;
use ::core::sync::atomic::Ordering;

impl<C: Context, H: Hardware> Core<'_, C, H> {
    #[inline(always)]
    pub(crate) fn count_system_call(&self) {
        add(&self.domains[self.meter.current() as usize].account.other_calls, 1);
    }

    #[inline(always)]
    pub(crate) fn count_interrupt(&self) {
        add(&self.account.interrupts, 1);
    }

    /// Counts a sleep of the core, which begins now.
    #[inline(always)]
    pub fn count_sleep(&self) {
        add(&self.account.sleeps, 1);
        self.account.asleep.store(1, Ordering::Relaxed);
    }

    /// Records that the core sleeps no longer.
    pub fn note_awake(&self) {
        self.account.asleep.store(0, Ordering::Relaxed);
    }
}
