//! What a core books: time, entries and switches, for its domains and for itself ([`culm_abi::accounting`]).

use crate::core::Core;
use crate::domain::Context;
use crate::system::Hardware;
use ::core::sync::atomic::Ordering;

impl<C: Context, H: Hardware> Core<'_, C, H> {
    /// Books the time since the last switch to whoever had it.
    #[inline(always)]
    pub(crate) fn account(&mut self, now: u64) {
        let ticks = now.wrapping_sub(self.since);
        self.since = now;
        let Some(domain) = self.domains.get(self.current as usize) else {
            add(&self.system.core_accounts[self.index as usize].idle, ticks);
            return;
        };
        add(&domain.account.ticks, ticks);
        if self.charged {
            let charge = domain.charge;
            if let Some(budget) = &mut self.domains[charge as usize].budget {
                budget.consume(ticks);
            }
        }
    }

    #[inline(always)]
    pub(crate) fn count_system_call(&self) {
        add(&self.domains[self.current as usize].account.other_calls, 1);
    }

    /// The running domain leaves the core.
    #[inline(always)]
    pub(crate) fn count_switch(&self) {
        if let Some(domain) = self.domains.get(self.current as usize) {
            add(&domain.account.other_switches, 1);
        }
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

    /// Notes that the core sleeps no longer.
    pub fn note_awake(&self) {
        self.system.core_accounts[self.index as usize].asleep.store(0, Ordering::Relaxed);
    }
}

/// Adds to a counter that only this core writes: no atomic read-modify-write is needed.
#[inline(always)]
pub(crate) fn add(counter: &::core::sync::atomic::AtomicU64, amount: u64) {
    counter.store(counter.load(Ordering::Relaxed).wrapping_add(amount), Ordering::Relaxed);
}
