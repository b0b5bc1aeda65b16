//! The commonest entries, straight through: a signal of one channel, a turn that ends by waking one domain that
//! runs next, a call to a domain that waits for it, its reply.
//!
//! Each function does what the general path in [`crate::core`] would do, for the case where nothing else is to be
//! considered, or leaves everything as it was and answers `None`; then the general path is taken. They exist because
//! these entries are nearly all that a busy system makes. Tests run random systems with and without them and compare.
//! (One thing is sooner here: [`Core::fast_wait`] takes a signal from another core whose mail is still under way.)
//!
//! No budget is on the core, each domain has one notification word and no queue of callers ([`Domain::straight`]), and no
//! deadline is set: then neither timer nor ready queue change. A message is not looked at: the entry code passes it on as it came.

use crate::account::add;
use crate::core::Core;
use crate::domain::{Context, Domain, NO_DOMAIN, State};
use crate::system::Hardware;
use culm_abi::syscall::{CallStatus, NEVER};
use culm_abi::system::{EndDescription, end_rights};

/// What remains of a `signal` after [`Core::fast_signal`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SignalLeft {
    /// The caller goes on at once, its result registers zero.
    Nothing,
    /// The receiver sleeps: [`Core::signal_wake`] it.
    Wake(u32),
    /// Nothing was done: [`Core::signal`] does it.
    All,
}

/// The domain that has the core now, and its result.
#[derive(Debug)]
pub struct Passed<'c, 's, C> {
    /// Whose registers are to be loaded.
    pub domain: &'c mut Domain<'s, C>,
    /// [`Core::fast_wait`]: the set of notifications, of group 0. [`Core::fast_call`] and [`Core::fast_reply`]: the event or
    /// the status; the message is the sender's registers.
    pub result: u64,
}

impl<'s, C: Context, H: Hardware> Core<'s, C, H> {
    /// `signal` of one channel. Answers what is left to do.
    #[inline(always)]
    pub fn fast_signal(&self, signals: u64, options: u64) -> SignalLeft {
        let Some(domain) = self.domains.get(self.meter.current() as usize) else { return SignalLeft::All };
        let Some(end) = single_peer(domain, signals, options) else { return SignalLeft::All };
        let Some(word) = self.system.words.get(end.word as usize) else { return SignalLeft::All };
        add(&domain.account.other_calls, 1);
        if word.signal(end.bit) { SignalLeft::Wake(end.target) } else { SignalLeft::Nothing }
    }

    /// `wait` with one signal, to a waiting domain of this core that is next to run.
    #[inline(always)]
    pub fn fast_wait(&mut self, signals: u64, deadline: u64, options: u64) -> Option<Passed<'_, 's, C>> {
        let (current, highest) = (self.meter.current(), self.ready.highest());
        let domains = &mut *self.domains;
        let from = domains.get(current as usize)?;
        let end = single_peer(from, signals, options)?;
        let (own, account) = (from.straight?, from.account);
        let next = end.target.wrapping_sub(self.first);
        let to = domains.get(next as usize)?;
        let word = to.straight?;
        if !to.state.waits()
            // Equals that are ready go first.
            || i32::from(to.priority) <= highest
            || from.client != NO_DOMAIN
            || deadline != NEVER
            || !own.sleep_idle()
        {
            return None;
        }
        domains[current as usize].state = State::Open;
        let domain = &mut domains[next as usize];
        domain.state = State::Running;
        domain.deadline = NEVER;
        self.meter.pass_straight(next, account, &self.hardware);
        Some(Passed { domain, result: word.take_with(end.bit) })
    }

    /// `call` of a domain that waits for nothing else.
    #[inline(always)]
    pub fn fast_call(&mut self, channel: u64) -> Option<Passed<'_, 's, C>> {
        let current = self.meter.current();
        let domains = &mut *self.domains;
        let from = domains.get(current as usize)?;
        let (end, account) = (from.ends.get(channel as usize)?, from.account);
        if domains.get(end.callee as usize)?.state != State::Open {
            return None;
        }
        let from = &mut domains[current as usize];
        from.state = State::Calling;
        from.callee = end.callee;
        let domain = &mut domains[end.callee as usize];
        domain.client = current;
        domain.state = State::Running;
        self.meter.pass_straight(end.callee, account, &self.hardware);
        Some(Passed { domain, result: end.event })
    }

    /// `reply_wait` without signals, to a caller that is next to run.
    #[inline(always)]
    pub fn fast_reply(&mut self, signals: u64, deadline: u64, options: u64) -> Option<Passed<'_, 's, C>> {
        let (current, highest) = (self.meter.current(), self.ready.highest());
        let domains = &mut *self.domains;
        let from = domains.get(current as usize)?;
        let (own, account, client) = (from.straight?, from.account, from.client);
        let to = domains.get(client as usize)?;
        if signals | options | !deadline != 0 || i32::from(to.priority) < highest || !own.still_asleep() {
            return None;
        }
        let from = &mut domains[current as usize];
        from.client = NO_DOMAIN;
        from.state = State::Open;
        let domain = &mut domains[client as usize];
        domain.state = State::Running;
        self.meter.pass_straight(client, account, &self.hardware);
        Some(Passed { domain, result: CallStatus::Replied as u64 })
    }
}

/// The end that `signals` names, where it is one peer of group 0 that may be notified.
#[inline(always)]
fn single_peer<'s, C>(domain: &Domain<'s, C>, signals: u64, options: u64) -> Option<&'s EndDescription> {
    let end = domain.near_ends.get(signals.trailing_zeros() as usize)?;
    let single = signals.is_power_of_two() && options == 0;
    (single && end.rights & end_rights::NOTIFY != 0).then_some(end)
}
