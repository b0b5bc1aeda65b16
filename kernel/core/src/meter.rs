//! The meter of one core: who has it, at whose expense, since when, and when the timer is to look again.
//!
//! These belong together. They move in [`Meter::pass`] alone, all at one time, so that no tick is booked twice, to
//! nobody, or to the wrong budget, and so that no budget runs without a timer that ends it. An entry takes the time
//! once, when it first asks for it: two decisions of one entry can never disagree about what time it is. The time
//! never goes back either, should the machine's counter do so.

use crate::account::add;
use crate::domain::{Context, Domain, NO_DOMAIN};
use crate::system::Hardware;
use ::core::sync::atomic::AtomicU64;
use culm_abi::accounting::DomainAccount;
use culm_abi::syscall::NEVER;

/// See the module.
#[derive(Debug)]
pub(crate) struct Meter<'s> {
    /// Whoever has the core, or [`NO_DOMAIN`].
    current: u32,
    /// Whose budget pays for it: an index of this core, or [`NO_DOMAIN`] where no budget does.
    payer: u32,
    /// Until when all time is booked.
    since: u64,
    /// What the hardware timer is set to.
    alarm: u64,
    /// The time of this entry, once it was asked for; [`NEVER`] before that.
    now: u64,
    /// Where time is booked in which nobody has the core.
    idle: &'s AtomicU64,
}

impl<'s> Meter<'s> {
    /// Nobody has the core.
    pub fn new(idle: &'s AtomicU64, hardware: &impl Hardware) -> Self {
        Self { current: NO_DOMAIN, payer: NO_DOMAIN, since: hardware.now(), alarm: NEVER, now: NEVER, idle }
    }

    /// Whoever has the core, or [`NO_DOMAIN`].
    #[inline(always)]
    pub fn current(&self) -> u32 {
        self.current
    }

    /// Whose budget pays, or [`NO_DOMAIN`].
    pub fn payer(&self) -> u32 {
        self.payer
    }

    /// The time of this entry.
    #[inline(always)]
    pub fn time(&mut self, hardware: &impl Hardware) -> u64 {
        if self.now == NEVER {
            self.now = hardware.now().max(self.since);
        }
        self.now
    }

    /// An entry begins now, before it is known what for.
    #[inline(always)]
    pub fn enter(&mut self, hardware: &impl Hardware) {
        self.now = hardware.now().max(self.since);
    }

    /// Books the time up to now to whoever had the core, and to the budget that pays.
    pub fn book<C: Context>(&mut self, domains: &mut [Domain<'_, C>], hardware: &impl Hardware) {
        let now = self.time(hardware);
        let ticks = now - self.since;
        self.since = now;
        add(domains.get(self.current as usize).map_or(self.idle, |domain| &domain.account.ticks), ticks);
        if let Some(budget) = domains.get_mut(self.payer as usize).and_then(|payer| payer.budget.as_mut()) {
            budget.consume(ticks);
        }
    }

    /// Ends an entry: `next` has the core from now on, or nobody, at the expense of `payer`, if it has a budget. The
    /// timer looks at `earliest` or before, and when that budget is used up.
    #[inline(always)]
    pub fn pass<C: Context, H: Hardware>(
        &mut self,
        (next, payer): (u32, u32),
        domains: &mut [Domain<'_, C>],
        earliest: u64,
        hardware: &mut H,
    ) {
        let alarm = if self.payer & payer == NO_DOMAIN {
            earliest
        } else {
            earliest.min(self.bill((next, payer), domains, hardware))
        };
        let now = if self.now == NEVER { hardware.now().max(self.since) } else { self.now };
        let ticks = now - self.since;
        let before = self.current;
        (self.current, self.since, self.now) = (next, now, NEVER);
        if let Some(domain) = domains.get(before as usize) {
            add(&domain.account.ticks, ticks);
            if next != before {
                add(&domain.account.other_switches, 1);
            }
        } else {
            add(self.idle, ticks);
        }
        // Never put off: a timer that is early costs one look.
        if alarm < self.alarm {
            self.alarm = alarm;
            hardware.set_timer(alarm);
        }
    }

    /// What [`Self::pass`] does besides where a budget has paid or is to pay: answers when that of `payer` is used up,
    /// or when the one returns that should pay for `next` in its place.
    #[cold]
    #[inline(never)]
    fn bill<C: Context>(
        &mut self,
        (next, payer): (u32, u32),
        domains: &mut [Domain<'_, C>],
        hardware: &impl Hardware,
    ) -> u64 {
        let now = self.time(hardware);
        self.book(domains, hardware);
        self.payer = payer;
        let Some(budget) = domains.get_mut(payer as usize).and_then(|payer| payer.budget.as_mut()) else {
            return NEVER;
        };
        budget.begin(now);
        let end = now.saturating_add(budget.remaining(now));
        let owed_by = domains.get(next as usize).map(|next| next.payer).filter(|other| *other != payer);
        let other = owed_by.and_then(|other| domains.get(other as usize)).and_then(|other| other.budget.as_ref());
        other.map_or(end, |other| end.min(other.available_from()))
    }

    /// Ends an entry after which everything is as it was before.
    #[inline(always)]
    pub fn leave(&mut self) {
        self.now = NEVER;
    }

    /// A whole entry on a core without budgets that changes nothing but who has the core. It takes the counter as it is,
    /// which saves two instructions: if the counter steps back, which the architecture rules out (Arm DDI 0487, D12.1.2),
    /// one domain's account has that much less and the next one's that much more. No budget is on such a core.
    #[inline(always)]
    pub fn pass_straight(&mut self, next: u32, account: &DomainAccount, hardware: &impl Hardware) {
        self.current = next;
        add(&account.straight, 1);
        let now = hardware.now();
        add(&account.ticks, now.wrapping_sub(self.since));
        self.since = now;
    }

    /// The timer went off, and is set no more.
    pub fn rang(&mut self, hardware: &mut impl Hardware) {
        self.alarm = NEVER;
        hardware.set_timer(NEVER);
    }
}
