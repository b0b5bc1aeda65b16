//! Who pays: on whose budget a domain may run now, or from when on it may.
//!
//! An active domain runs on its own budget. A passive one has no time of its own: it runs on that of the caller that it
//! serves. Where that one's budget is used up, whoever waits for it too may pay (bandwidth inheritance: Lamastra,
//! Lipari, Abeni, *A Bandwidth Inheritance Algorithm for Real-Time Task Synchronization in Open Systems*, RTSS 2001);
//! else all who share a server would wait until the budget returns of the one that it happens to serve. A domain that
//! nobody pays for is held back, out of the ready queue.
//!
//! All of this is asked when a domain's turn to run has come, and nowhere before.

use crate::account::add;
use crate::core::Core;
use crate::domain::{Context, NO_DOMAIN, State};
use crate::system::Hardware;
use culm_abi::syscall::NEVER;

impl<C: Context, H: Hardware> Core<'_, C, H> {
    /// Whoever pays for a domain that is to run, [`NO_DOMAIN`] where this core has no budgets. None: it is held back.
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
        domain.held_back = true;
        domain.deadline = from;
        add(&domain.account.throttles, 1);
        self.timers.set(local, from);
        None
    }

    /// From when on a domain's own budget has something.
    fn budget_from(&self, local: u32) -> u64 {
        self.domains[local as usize].budget.as_ref().map_or(0, |budget| budget.available_from())
    }

    /// Whether a domain is in a call that cannot end before `server` goes on.
    fn waits_for(&self, local: u32, server: u32) -> bool {
        self.end_of_calls(local, server) == server && local != server
    }

    /// Follows a domain's call, its callee's, and so on, up to `until` at most. It ends, since callees have higher
    /// priorities than their callers ([`crate::System::check`]).
    fn end_of_calls(&self, local: u32, until: u32) -> u32 {
        let mut at = local;
        while at != until && self.domains[at as usize].state == State::Calling {
            at = self.domains[at as usize].callee;
        }
        at
    }

    /// A domain that was held back may have somebody who pays.
    pub(crate) fn release(&mut self, local: u32) {
        let domain = &mut self.domains[local as usize];
        domain.held_back = false;
        domain.deadline = NEVER;
        self.make_ready(local);
    }

    /// A caller with a budget has come to wait for `callee`: whichever domain it waits for in the end may go on.
    pub(crate) fn relieve(&mut self, callee: u32) {
        let last = self.end_of_calls(callee, NO_DOMAIN);
        let domain = &self.domains[last as usize];
        if domain.held_back && domain.passive {
            self.release(last);
        }
    }
}
