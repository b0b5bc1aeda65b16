//! Checks of every system after each step.

use super::Run;
use culm_abi::syscall::NEVER;
use culm_kernel_core::domain::State;
use proptest::prelude::*;
use std::sync::atomic::Ordering;

/// Ticks by which a budget may be exceeded: the clock moves while timers that are due wait for each
/// other.
const LATE: u64 = 40;

impl Run {
    pub(crate) fn check_all(&mut self) -> Result<(), TestCaseError> {
        for core in 0..2 {
            self.check_schedule(core)?;
            self.check_payer(core)?;
            self.check_time(core)?;
        }
        Ok(())
    }

    pub(crate) fn domains_of(&self, core: u32) -> std::ops::Range<usize> {
        let core = &self.fake.system.cores[core as usize];
        core.first_domain as usize..(core.first_domain + core.domain_count) as usize
    }

    /// Checks that the highest domain runs that may, and that timers and IPIs are under way for all
    /// that sleep.
    fn check_schedule(&mut self, core: u32) -> Result<(), TestCaseError> {
        let running = self.running(core);
        let now = self.now();
        let alarm = self.fake.cores[core as usize].hardware().alarm;
        let ipi = self.fake.bench.ipis.borrow().contains(&core);
        for domain in self.domains_of(core) {
            let (state, throttled) = {
                let (core, local) = self.fake.core(domain as u32);
                let domain = core.domain(local);
                (domain.state, domain.throttled_until())
            };
            prop_assert_eq!(state == State::Running, running == Some(domain));
            if let Some(until) = throttled {
                prop_assert_eq!(state, State::Ready);
                prop_assert!(alarm <= until, "the timer comes too late for domain {}, throttled", domain);
                prop_assert!(until <= now + 2 * 80 * 8, "domain {} is throttled for long", domain);
            } else if state == State::Ready {
                let higher =
                    running.is_some_and(|running| self.shape.priorities[running] >= self.shape.priorities[domain]);
                prop_assert!(higher, "{:?} runs although {} is ready", running, domain);
            }
            if state.waits() {
                let known = &self.known[domain];
                prop_assert!(known.pending.is_empty() || ipi, "domain {} sleeps through a signal", domain);
                prop_assert!(alarm <= known.deadline.unwrap_or(NEVER), "domain {} oversleeps", domain);
            }
        }
        Ok(())
    }

    /// Checks that the payer has time of its own, and that a passive domain runs only if it is
    /// called: on the budget of the client that it serves, or of one that waits for it.
    fn check_payer(&mut self, core: u32) -> Result<(), TestCaseError> {
        let first = self.domains_of(core).start;
        let payer = self.fake.cores[core as usize].paid_by().map(|payer| first + payer as usize);
        if let Some(domain) = self.running(core) {
            if let Some(payer) = payer {
                prop_assert!(!self.shape.passive[payer]);
                prop_assert!(self.shape.passive[domain] || payer == domain);
                if let Some(client) = self.client_in_the_end(domain) {
                    let waits = self
                        .domains_of(core)
                        .any(|other| self.waits_for(other, domain) && self.client_in_the_end(other) == Some(payer));
                    prop_assert!(payer == client || waits, "{} pays for {}, which serves {}", payer, domain, client);
                }
            }
            prop_assert!(!self.shape.passive[domain] || self.known[domain].called, "{} runs uncalled", domain);
        } else {
            prop_assert_eq!(payer, None);
        }
        Ok(())
    }

    /// Returns the time of a core that is booked to its domains and to nobody.
    pub(crate) fn booked(&self, core: u32) -> u64 {
        let ticks = |domain: usize| self.account(domain).ticks.load(Ordering::Relaxed);
        let idle = self.fake.system.core_accounts[core as usize].idle.load(Ordering::Relaxed);
        self.domains_of(core).map(ticks).sum::<u64>() + idle
    }

    /// Checks that no more time is booked than there was, and that budgets hold in every window.
    fn check_time(&mut self, core: u32) -> Result<(), TestCaseError> {
        let booked = self.booked(core);
        prop_assert!(booked <= self.now() - self.start, "core {} booked {} ticks", core, booked);
        for domain in self.domains_of(core) {
            let Some((budget, period)) = self.shape.budgets[domain] else { continue };
            let paid = &mut self.known[domain].paid;
            let newest = paid.last().map_or(0, |(_, to)| *to);
            paid.retain(|(_, to)| to + period > newest);
            let window = newest.saturating_sub(period);
            let used: u64 = paid.iter().map(|(from, to)| to - (*from).max(window)).sum();
            prop_assert!(used <= budget + LATE, "domain {} used {} of {} in {}", domain, used, budget, period);
        }
        Ok(())
    }
}
