//! The meter of one core: which domain has it, whose budget pays, since when, and when the timer
//! fires next.
//!
//! [`Meter::pass`], and what the fast paths have in its place, change these, all at one time, so
//! that no tick is booked twice, to no domain, or to the wrong budget, and no budget runs without a
//! timer that ends it. An entry reads the clock once, when it first needs the time, so two
//! decisions of one entry agree about the time. On the general paths the time never goes back, even
//! if the machine's counter does; the switches of the fast paths take the counter as it is
//! ([`Meter::switch_fast`]).

use crate::counter::add;
use crate::domain::{Context, Domain, NO_DOMAIN};
use crate::system::Hardware;
use ::core::sync::atomic::AtomicU64;
use culm_abi::accounting::DomainAccount;
use culm_abi::syscall::NEVER;

/// The meter of one core; see the module.
#[derive(Debug)]
pub(crate) struct Meter<'s> {
    /// The domain that has the core, or [`NO_DOMAIN`].
    current: u32,
    /// The domain, by its index on this core, whose budget pays; [`NO_DOMAIN`] if no budget does.
    payer: u32,
    /// The time up to which all time is booked.
    since: u64,
    /// The time to which the hardware timer is set.
    alarm: u64,
    /// The time of this entry, once an operation has asked for it; [`NEVER`] before.
    now: u64,
    /// The counter for time in which no domain has the core.
    idle: &'s AtomicU64,
}

impl<'s> Meter<'s> {
    /// Creates a meter; no domain has the core.
    pub fn new(idle: &'s AtomicU64, hardware: &impl Hardware) -> Self {
        Self { current: NO_DOMAIN, payer: NO_DOMAIN, since: hardware.now(), alarm: NEVER, now: NEVER, idle }
    }

    /// Returns the domain that has the core, or [`NO_DOMAIN`].
    #[inline(always)]
    pub fn current(&self) -> u32 {
        self.current
    }

    /// Returns the domain whose budget pays, or [`NO_DOMAIN`].
    pub fn payer(&self) -> u32 {
        self.payer
    }

    /// Returns the time of this entry; reads the clock the first time.
    #[inline(always)]
    pub fn time(&mut self, hardware: &impl Hardware) -> u64 {
        if self.now == NEVER {
            self.now = hardware.now().max(self.since);
        }
        self.now
    }

    /// Reads the clock at the beginning of an entry, before its reason is known.
    #[inline(always)]
    pub fn enter(&mut self, hardware: &impl Hardware) {
        self.now = hardware.now().max(self.since);
    }

    /// Books the time up to now to the domain that had the core, and to the budget that pays.
    pub fn book<C: Context>(&mut self, domains: &mut [Domain<'_, C>], hardware: &impl Hardware) {
        let now = self.time(hardware);
        let ticks = now - self.since;
        self.since = now;
        add(domains.get(self.current as usize).map_or(self.idle, |domain| &domain.account.ticks), ticks);
        if let Some(budget) = domains.get_mut(self.payer as usize).and_then(|payer| payer.budget.as_mut()) {
            budget.consume(ticks);
        }
    }

    /// Ends an entry: `next`, or no domain, has the core from now on, and the budget of `payer`
    /// pays, if it has one. The timer fires at `earliest` or before, and when that budget is used
    /// up.
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
        self.set_alarm(alarm, hardware);
    }

    /// Lets the timer fire at `alarm` or before. It is never moved to a later time: one that fires
    /// early costs one look.
    #[inline(always)]
    fn set_alarm(&mut self, alarm: u64, hardware: &mut impl Hardware) {
        if alarm < self.alarm {
            self.alarm = alarm;
            hardware.set_timer(alarm);
        }
    }

    /// Does what [`Self::pass`] does, on a core without budgets that no domain has from now on, in
    /// place of the one with this account. The entry must have taken the time.
    #[inline(always)]
    pub fn rest(&mut self, account: &DomainAccount, earliest: u64, hardware: &mut impl Hardware) {
        add(&account.ticks, self.now - self.since);
        add(&account.other_switches, 1);
        (self.current, self.since, self.now) = (NO_DOMAIN, self.now, NEVER);
        self.set_alarm(earliest, hardware);
    }

    /// Ends that: `next` has the core from now on. The entry must have taken the time.
    #[inline(always)]
    pub fn wake(&mut self, next: u32) {
        add(self.idle, self.now - self.since);
        (self.current, self.since, self.now) = (next, self.now, NEVER);
    }

    /// Does the budget's part of [`Self::pass`]: books the elapsed time, starts `payer`'s budget,
    /// and returns when the timer must fire: when that budget is used up or, if another pays in
    /// place of `next`'s own payer, when the own payer's budget returns.
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

    /// Ends an entry that changed neither the running domain nor the payer.
    #[inline(always)]
    pub fn leave(&mut self) {
        self.now = NEVER;
    }

    /// Books a whole entry, on a core without budgets, that changes only which domain has the core.
    /// It takes the counter as it is, which saves two instructions: if the counter steps back,
    /// which the architecture rules out (Arm DDI 0487, D12.1.2), one domain's account has that much
    /// less and the next one's that much more. No budget is on such a core.
    #[inline(always)]
    pub fn switch_fast(&mut self, next: u32, account: &DomainAccount, hardware: &impl Hardware) {
        self.current = next;
        add(&account.fast_switches, 1);
        let now = hardware.now();
        add(&account.ticks, now.wrapping_sub(self.since));
        self.since = now;
    }

    /// Marks the timer as fired, and sets it to no time.
    pub fn alarm_fired(&mut self, hardware: &mut impl Hardware) {
        self.alarm = NEVER;
        hardware.set_timer(NEVER);
    }
}
