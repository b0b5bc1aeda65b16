//! Fast paths of the commonest entries: a signal of one channel, a turn that ends by waking the one
//! domain that runs next, or by leaving the core idle, the interrupt that ends that, a call to a
//! domain that waits for one, and its reply.
//!
//! Each function either does what the general path in [`crate::core`] would do, or changes nothing
//! and returns `None` (or false) because its preconditions do not hold; the caller then takes the
//! general path. Nearly all entries of a busy system are of these kinds. Tests run random systems
//! with and without them and compare. (There is one difference: [`Core::fast_wait`] also takes a
//! signal from another core whose interrupt has not arrived yet.)
//!
//! The preconditions: no budget is on the core, and each domain has exactly one notification word
//! and no queue of callers ([`Domain::fast_word`]). A deadline is set only where the timer queue
//! has an earlier time for the domain already, or where the core is left idle. So the ready queue
//! does not change. The entry code passes a message on in the registers in which it came; these
//! functions do not see it.

use crate::core::Core;
use crate::counter::add;
use crate::domain::{Context, Domain, NO_DOMAIN, State};
use crate::notification::Receiver;
use crate::system::{Hardware, Interrupt};
use ::core::sync::atomic::Ordering;
use culm_abi::syscall::{CallStatus, Event, NEVER};
use culm_abi::system::{EndDescription, FIRST_INTERRUPT, end_rights};

/// Work that remains of a `signal` after [`Core::fast_signal`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SignalLeft {
    /// Nothing: the caller continues at once, its result registers zero.
    Nothing,
    /// The receiver sleeps: wake it with [`Core::signal_wake`].
    Wake(u32),
    /// All of it: nothing was done, call [`Core::signal`].
    All,
}

/// The domain that has the core now, and its result.
#[derive(Debug)]
pub struct FastSwitch<'c, 's, C> {
    /// The domain whose registers are to be loaded.
    pub domain: &'c mut Domain<'s, C>,
    /// [`Core::fast_wait`]: the set of notifications, of group 0. [`Core::fast_call`] and
    /// [`Core::fast_reply`]: the event or the status; the message is the sender's registers.
    pub result: u64,
}

impl<'s, C: Context, H: Hardware> Core<'s, C, H> {
    /// Does a `signal` of one channel. Returns the work that remains.
    #[inline(always)]
    pub fn fast_signal(&self, signals: u64, options: u64) -> SignalLeft {
        let Some(domain) = self.domains.get(self.meter.current() as usize) else { return SignalLeft::All };
        let Some(end) = single_peer(domain, signals, options) else { return SignalLeft::All };
        let Some(word) = self.system.words.get(end.word as usize) else { return SignalLeft::All };
        add(&domain.account.other_calls, 1);
        match word.signal(end.bit) {
            Receiver::Asleep => SignalLeft::Wake(end.target),
            Receiver::Awake => SignalLeft::Nothing,
        }
    }

    /// Does a `wait` with one signal, to a waiting domain of this core that runs next. Besides it
    /// may ask for interrupts again, as a driver's turn does.
    #[inline(always)]
    pub fn fast_wait(&mut self, signals: u64, deadline: u64, options: u64) -> Option<FastSwitch<'_, 's, C>> {
        if deadline == NEVER { self.wait_for_peer::<false>(signals, deadline, options) } else { None }
    }

    /// Does what [`Self::fast_wait`] does, if there is a deadline which is later than the one
    /// before: the timer stays as it is.
    #[inline(always)]
    pub fn fast_wait_until(&mut self, signals: u64, deadline: u64, options: u64) -> Option<FastSwitch<'_, 's, C>> {
        if deadline == NEVER { None } else { self.wait_for_peer::<true>(signals, deadline, options) }
    }

    #[inline(always)]
    fn wait_for_peer<const HAS_DEADLINE: bool>(
        &mut self,
        signals: u64,
        deadline: u64,
        options: u64,
    ) -> Option<FastSwitch<'_, 's, C>> {
        let (current, highest) = (self.meter.current(), self.ready.highest());
        let domains = &mut *self.domains;
        let from = domains.get(current as usize)?;
        let interrupts = signals & from.near_interrupts;
        let end = single_peer(from, signals ^ interrupts, options)?;
        let (own, account, ends) = (from.fast_word?, from.account, from.near_ends);
        let next = end.target.wrapping_sub(self.first);
        let to = domains.get(next as usize)?;
        let word = to.fast_word?;
        if !to.state.waits()
            // Ready domains of the same priority run first.
            || i32::from(to.priority) <= highest
            || from.client != NO_DOMAIN
            || HAS_DEADLINE && (!self.timers.has(current, deadline) || deadline <= self.hardware.now())
            || !own.sleep_idle()
        {
            return None;
        }
        if interrupts != 0 {
            enable(&mut self.hardware, ends, interrupts);
        }
        let from = &mut domains[current as usize];
        if HAS_DEADLINE {
            (from.state, from.deadline) = (State::Waiting, deadline);
        } else {
            from.state = State::WaitingFast;
        }
        let domain = &mut domains[next as usize];
        domain.state = State::Running;
        domain.deadline = NEVER;
        self.meter.switch_fast(next, account, &self.hardware);
        Some(FastSwitch { domain, result: word.take_with(end.bit) })
    }

    /// Does a `wait` without signals on a core that has nothing else to do. Returns whether it did:
    /// then no domain has the core.
    #[inline(always)]
    pub fn fast_idle(&mut self, signals: u64, deadline: u64, options: u64) -> bool {
        let current = self.meter.current();
        let Some(from) = self.domains.get_mut(current as usize) else { return false };
        let Some(own) = from.fast_word else { return false };
        if signals | options != 0
            || from.client != NO_DOMAIN
            || from.passive && deadline != NEVER
            || self.ready.highest() >= 0
            || deadline <= self.meter.time(&self.hardware)
            || !own.sleep_idle()
        {
            return false;
        }
        if deadline == NEVER {
            from.state = State::WaitingFast;
        } else {
            (from.state, from.deadline) = (State::Waiting, deadline);
            self.timers.set(current, deadline);
        }
        add(&from.account.other_calls, 1);
        self.meter.rest(from.account, self.timers.earliest(), &mut self.hardware);
        true
    }

    /// Takes an interrupt on a core that sleeps, if it is that of a device whose owner waits, and
    /// the only one. Returns which domain has the core now, and its notifications, of group 0.
    ///
    /// # Errors
    ///
    /// Otherwise an interrupt that was taken and is to be handled, if there was one at all, by
    /// [`Core::handle_interrupts`].
    #[inline(always)]
    pub fn fast_interrupt(&mut self) -> Result<(u32, u64), Option<Interrupt>> {
        self.meter.enter(&self.hardware);
        let first = self.hardware.take_interrupt();
        let Some(Interrupt::Device(number)) = first else { return Err(first) };
        let Some((local, set)) = self.wake_owner(number) else { return Err(first) };
        let second = self.hardware.take_interrupt();
        if second.is_none() {
            return Ok((local, set));
        }
        self.domains[local as usize].context.notified(Event::notified(0), set);
        Err(second)
    }

    /// Gives a core that no domain has to the owner of a device that has interrupted, if that one
    /// waits. Returns which domain it is, and its notifications.
    #[inline(always)]
    fn wake_owner(&mut self, number: u32) -> Option<(u32, u64)> {
        debug_assert!(self.meter.current() == NO_DOMAIN && self.ready.highest() < 0, "the core sleeps");
        let route = self.system.routes.get(number.wrapping_sub(FIRST_INTERRUPT) as usize)?;
        // Without a route it is a number that no domain has.
        let local = route.domain.wrapping_sub(self.first);
        let domain = self.domains.get_mut(local as usize)?;
        let word = domain.fast_word.filter(|_| domain.state.waits())?;
        domain.state = State::Running;
        domain.deadline = NEVER;
        let account = self.account;
        add(&account.interrupts, 1);
        account.asleep.store(0, Ordering::Relaxed);
        self.meter.wake(local);
        Some((local, word.take_with(route.bit)))
    }

    /// Does a `call` of a domain that is in a wait without a deadline, on a core without budgets.
    #[inline(always)]
    pub fn fast_call(&mut self, channel: u64) -> Option<FastSwitch<'_, 's, C>> {
        let current = self.meter.current();
        let domains = &mut *self.domains;
        let from = domains.get(current as usize)?;
        let (end, account) = (from.ends.get(channel as usize)?, from.account);
        if domains.get(end.callee as usize)?.state != State::WaitingFast {
            return None;
        }
        let from = &mut domains[current as usize];
        from.state = State::Calling;
        from.callee = end.callee;
        let domain = &mut domains[end.callee as usize];
        domain.client = current;
        domain.state = State::Running;
        self.meter.switch_fast(end.callee, account, &self.hardware);
        Some(FastSwitch { domain, result: end.event })
    }

    /// Does a `reply_wait` without signals, to a caller that runs next.
    #[inline(always)]
    pub fn fast_reply(&mut self, signals: u64, deadline: u64, options: u64) -> Option<FastSwitch<'_, 's, C>> {
        let (current, highest) = (self.meter.current(), self.ready.highest());
        let domains = &mut *self.domains;
        let from = domains.get(current as usize)?;
        let (own, account, client) = (from.fast_word?, from.account, from.client);
        let to = domains.get(client as usize)?;
        if signals | options | !deadline != 0 || i32::from(to.priority) < highest || !own.still_asleep() {
            return None;
        }
        let from = &mut domains[current as usize];
        from.client = NO_DOMAIN;
        from.state = State::WaitingFast;
        let domain = &mut domains[client as usize];
        domain.state = State::Running;
        self.meter.switch_fast(client, account, &self.hardware);
        Some(FastSwitch { domain, result: CallStatus::Replied as u64 })
    }
}

/// Asks for these interrupts again, of the channel ends of group 0.
#[inline(always)]
fn enable(hardware: &mut impl Hardware, ends: &[EndDescription], mut interrupts: u64) {
    while interrupts != 0 {
        if let Some(end) = ends.get(interrupts.trailing_zeros() as usize) {
            hardware.enable_interrupt(end.target);
        }
        interrupts &= interrupts - 1;
    }
}

/// Returns the channel end that `signals` names, if it names exactly one, of group 0, whose peer
/// may be notified.
#[inline(always)]
fn single_peer<'s, C>(domain: &Domain<'s, C>, signals: u64, options: u64) -> Option<&'s EndDescription> {
    let end = domain.near_ends.get(signals.trailing_zeros() as usize)?;
    let single = signals.is_power_of_two() && options == 0;
    (single && end.rights & end_rights::NOTIFY != 0).then_some(end)
}
