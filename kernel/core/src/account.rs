//! The counts of a core, beside time and switches ([`crate::meter`]): entries and sleeps, for its
//! domains and for itself ([`culm_abi::accounting`]).

use crate::core::Core;
use crate::domain::Context;
use crate::system::Hardware;
use ::core::sync::atomic::Ordering;

impl<C: Context, H: Hardware> Core<'_, C, H> {
    #[inline(always)]
    pub(crate) fn count_system_call(&self) {
        add(&self.domains[self.meter.current() as usize].account.other_calls, 1);
    }

    pub(crate) fn count_interrupt(&self) {
        add(&self.system.core_accounts[self.index as usize].interrupts, 1);
    }

    /// Counts a sleep of the core, which begins now.
    pub fn count_sleep(&self) {
        let account = &self.system.core_accounts[self.index as usize];
        add(&account.sleeps, 1);
        account.asleep.store(1, Ordering::Relaxed);
    }

    /// Records that the core sleeps no longer.
    pub fn note_awake(&self) {
        self.system.core_accounts[self.index as usize].asleep.store(0, Ordering::Relaxed);
    }
}

/// Adds to a counter that only this core writes: no atomic read-modify-write is needed.
#[inline(always)]
pub(crate) fn add(counter: &::core::sync::atomic::AtomicU64, amount: u64) {
    counter.store(counter.load(Ordering::Relaxed).wrapping_add(amount), Ordering::Relaxed);
}
