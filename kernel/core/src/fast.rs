//! The commonest entries, straight through: a signal of one channel, a turn that ends by waking one domain that
//! runs next, a call to a domain that waits for it, its reply.
//!
//! Each function does what the general path in [`crate::core`] would do, for the case where nothing else is to be
//! considered, or leaves everything as it was and answers `None`; then the general path is taken. They exist because
//! these entries are nearly all that a busy system makes. Tests run random systems with and without them and compare.
//!
//! No budget may be involved (`Core::budgets`), each domain has one notification word, and no deadline is set: then
//! neither timer nor ready queue change.

use crate::core::{Core, add};
use crate::domain::{Context, Domain, NO_DOMAIN, State};
use crate::system::Hardware;
use culm_abi::syscall::{CallStatus, Event, MESSAGE_WORDS, NEVER, TurnOptions};
use culm_abi::system::{EndDescription, end_kind, end_rights};

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

impl<'s, C: Context, H: Hardware> Core<'s, C, H> {
    /// `signal` of one channel. Answers what is left to do.
    #[inline(always)]
    pub fn fast_signal(&self, signals: u64, options: u64) -> SignalLeft {
        let Some(domain) = self.domains.get(self.current as usize) else { return SignalLeft::All };
        let Some(end) = single_peer(domain, signals, options) else { return SignalLeft::All };
        let Some(word) = self.system.words.get(end.word as usize) else { return SignalLeft::All };
        add(&domain.account.system_calls, 1);
        if word.signal(end.bit) { SignalLeft::Wake(end.target) } else { SignalLeft::Nothing }
    }

    /// `wait` with one signal, to a waiting domain of this core that is next to run.
    #[inline(always)]
    pub fn fast_wait(&mut self, signals: u64, deadline: u64, options: u64) -> Option<&mut Domain<'s, C>> {
        let current = self.current;
        let end = single_peer(self.domains.get(current as usize)?, signals, options)?;
        let local = end.target.wrapping_sub(self.first);
        let highest = self.ready.highest();
        let [from, to] = self.domains.get_disjoint_mut([current as usize, local as usize]).ok()?;
        let ([own], [word]) = (from.words, to.words) else { return None };
        if to.state != State::Waiting
            // Equals that are ready go first.
            || i32::from(to.priority) <= highest
            || from.callers.0 != NO_DOMAIN
            || from.client != NO_DOMAIN
            || deadline != NEVER
            || self.budgets
            || !own.sleep()
        {
            return None;
        }
        from.state = State::Waiting;
        to.state = State::Running;
        to.deadline = NEVER;
        add(&from.account.system_calls, 1);
        to.context.notified(Event::notified(0), word.take_with(end.bit));
        let now = self.hardware.now();
        hand_over(from, to, now.wrapping_sub(self.since));
        self.since = now;
        self.current = local;
        Some(to)
    }

    /// `call` of a domain that waits, with `WORDS` or without.
    #[inline(always)]
    pub fn fast_call<const WORDS: bool>(&mut self, target: u64) -> Option<&mut Domain<'s, C>> {
        let current = self.current;
        let (number, length) = (target as u32, (target >> 32) as usize);
        let end = self.domains.get(current as usize)?.ends.get(number as usize)?;
        let local = end.target.wrapping_sub(self.first);
        if end.kind != end_kind::PEER
            || end.rights & end_rights::CALL == 0
            || length > MESSAGE_WORDS
            || self.budgets
            || WORDS == (length == 0)
        {
            return None;
        }
        let [from, to] = self.domains.get_disjoint_mut([current as usize, local as usize]).ok()?;
        if to.state != State::Waiting {
            return None;
        }
        let event = Event::called(end.peer_end, length);
        from.state = State::Calling;
        from.callee = local;
        to.state = State::Running;
        to.client = current;
        to.deadline = NEVER;
        if to.passive {
            to.charge = from.charge;
        }
        add(&from.account.system_calls, 1);
        if WORDS {
            to.context.called(event, &from.context.message_of(length));
        } else {
            to.context.notified(event, 0);
        }
        let now = self.hardware.now();
        hand_over(from, to, now.wrapping_sub(self.since));
        self.since = now;
        self.current = local;
        Some(to)
    }

    /// `reply_wait` without signals, with `WORDS` or without, to a caller that is next to run.
    #[inline(always)]
    pub fn fast_reply<const WORDS: bool>(
        &mut self,
        signals: u64,
        deadline: u64,
        options: u64,
    ) -> Option<&mut Domain<'s, C>> {
        let current = self.current;
        let length = TurnOptions(options).length();
        let client = self.domains.get(current as usize)?.client;
        let highest = self.ready.highest();
        let [from, to] = self.domains.get_disjoint_mut([current as usize, client as usize]).ok()?;
        let [own] = from.words else { return None };
        if signals != 0
            || deadline != NEVER
            || length > MESSAGE_WORDS
            || WORDS == (length == 0)
            || from.callers.0 != NO_DOMAIN
            || i32::from(to.priority) < highest
            || self.budgets
            || !own.sleep()
        {
            return None;
        }
        from.state = State::Waiting;
        from.client = NO_DOMAIN;
        to.state = State::Running;
        add(&from.account.system_calls, 1);
        if WORDS {
            to.context.replied(CallStatus::Replied, length, &from.context.message_of(length));
        } else {
            to.context.notified(Event(CallStatus::Replied as u64), 0);
        }
        let now = self.hardware.now();
        hand_over(from, to, now.wrapping_sub(self.since));
        self.since = now;
        self.current = client;
        Some(to)
    }
}

/// The end that `signals` names, where it is one peer of group 0 that may be notified.
#[inline(always)]
fn single_peer<'s, C>(domain: &Domain<'s, C>, signals: u64, options: u64) -> Option<&'s EndDescription> {
    let end = domain.ends.get(signals.trailing_zeros() as usize)?;
    let single = signals & signals.wrapping_sub(1) == 0 && TurnOptions(options).group() == 0;
    let allowed = end.kind == end_kind::PEER && end.rights & end_rights::NOTIFY != 0;
    (single && allowed).then_some(end)
}

/// Books the time and the switch from one domain to the other.
#[inline(always)]
fn hand_over<C>(from: &Domain<'_, C>, to: &Domain<'_, C>, ticks: u64) {
    add(&from.account.ticks, ticks);
    add(&to.account.switches, 1);
}
