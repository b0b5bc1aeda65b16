//! Payers: the budget on which a domain may run now, or the time from which on there is one.
//!
//! An active domain runs on its own budget. A passive one has no time of its own: it runs on the
//! budget of the caller that it serves. If that budget is used up, another domain that waits for it
//! may pay (bandwidth inheritance: Lamastra, Lipari, Abeni, *A Bandwidth Inheritance Algorithm for
//! Real-Time Task Synchronization in Open Systems*, RTSS 2001); otherwise all clients of a server
//! would wait until the budget of the one that it serves returns. A domain for which no budget can
//! pay is *throttled*: held outside the ready queue until a budget returns.
//!
//! The payer is looked for when a domain's turn to run has come, not before.

use crate::core::Core;
use crate::counter::add;
use crate::domain::{Context, NO_DOMAIN, State};
use crate::system::Hardware;
use culm_abi::syscall::NEVER;

impl<C: Context, H: Hardware> Core<'_, C, H> {
    /// Returns the domain whose budget pays for `local`; [`NO_DOMAIN`] if this core has no budgets.
    /// `None`: no budget can pay now, and the domain is throttled until one returns or a caller
    /// with a budget comes ([`Self::unthrottle_callee`]).
    #[inline(always)]
    pub(crate) fn payer(&mut self, local: u32) -> Option<u32> {
        if self.budgets { self.find_payer(local) } else { Some(NO_DOMAIN) }
    }

    #[inline(never)]
    fn find_payer(&mut self, local: u32) -> Option<u32> {
        let now = self.meter.time(&self.hardware);
        self.meter.book(self.domains, &self.hardware);
        let mut payer = self.domains[local as usize].payer;
        let mut from = self.budget_from(payer);
        if from > now && self.domains[local as usize].passive {
            for waiting in 0..self.domains.len() as u32 {
                let other = self.domains[waiting as usize].payer;
                if self.budget_from(other) < from && self.waits_for(waiting, local) {
                    (payer, from) = (other, self.budget_from(other));
                }
            }
        }
        if from <= now {
            return Some(payer);
        }
        let domain = &mut self.domains[local as usize];
        domain.state = State::Ready;
        domain.throttled = true;
        domain.deadline = from;
        add(&domain.account.throttles, 1);
        self.timers.set(local, from);
        None
    }

    /// Returns the time from which on a domain's own budget has something; 0 if it has no budget.
    fn budget_from(&self, local: u32) -> u64 {
        self.domains[local as usize].budget.as_ref().map_or(0, |budget| budget.available_from())
    }

    /// Returns whether a domain is in a call that cannot end before `server` runs.
    fn waits_for(&self, local: u32, server: u32) -> bool {
        self.end_of_calls(local, server) == server && local != server
    }

    /// Follows a domain's call, its callee's, and so on, up to `until` at most; returns where that
    /// ends. It is bounded, since callees have higher priorities than their callers
    /// ([`crate::System::check`]).
    fn end_of_calls(&self, local: u32, until: u32) -> u32 {
        let mut at = local;
        while at != until && self.domains[at as usize].state == State::Calling {
            at = self.domains[at as usize].callee;
        }
        at
    }

    /// Makes a domain that was throttled ready: a budget may pay for it now.
    pub(crate) fn unthrottle(&mut self, local: u32) {
        let domain = &mut self.domains[local as usize];
        domain.throttled = false;
        domain.deadline = NEVER;
        self.make_ready(local);
    }

    /// Unthrottles the domain at the end of `callee`'s chain of calls, if it is throttled: a new
    /// caller's budget may pay for it.
    pub(crate) fn unthrottle_callee(&mut self, callee: u32) {
        let last = self.end_of_calls(callee, NO_DOMAIN);
        let domain = &self.domains[last as usize];
        if domain.throttled && domain.passive {
            self.unthrottle(last);
        }
    }
}
