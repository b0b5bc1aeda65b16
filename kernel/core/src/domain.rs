//! The state of one protection domain that only its own core touches.

use crate::budget::Budget;
use crate::system::System;
use crate::word::Word;
use culm_abi::accounting::DomainAccount;
use culm_abi::start::SEED_WORDS;
use culm_abi::syscall::{CallStatus, Event, FaultReport, GROUP, MESSAGE_WORDS};
use culm_abi::system::{EndDescription, domain_flags};

/// Index of no domain.
pub const NO_DOMAIN: u32 = u32::MAX;

/// The caller of the call that is being served has gone: the reply goes nowhere.
pub const GONE: u32 = u32::MAX - 1;

/// The saved registers of a domain, as the architecture keeps them.
pub trait Context {
    /// No registers yet. `table` is the address space, as the architecture wants it: loaded with the registers.
    fn new(table: u64) -> Self;
    /// Puts all registers in their first state: at `entry`, on `stack`, with two arguments and a seed.
    fn start(&mut self, entry: u64, stack: u64, arguments: [u64; 2], seed: [u64; SEED_WORDS]);
    /// Sets the result of a wait that ended with notifications.
    fn notified(&mut self, event: Event, set: u64);
    /// Sets the result of a wait that ended with a call.
    fn called(&mut self, event: Event, words: &[u64; MESSAGE_WORDS]);
    /// Sets the result of a call.
    fn replied(&mut self, status: CallStatus, words: &[u64; MESSAGE_WORDS]);
    /// Keeps the message of a call that the callee cannot take yet.
    fn keep(&mut self, words: &[u64; MESSAGE_WORDS]);
    /// The message of [`Self::keep`].
    fn kept(&self) -> [u64; MESSAGE_WORDS];
    /// Program counter, stack pointer, frame pointer and link register, for a report.
    fn place(&self) -> [u64; 4];
    /// Sets the result of reading a fault.
    fn fault(&mut self, report: &FaultReport);
    /// Sets the result of a system call that has none: all result registers are zero.
    fn done(&mut self);
}

/// What a domain is doing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u32)]
pub enum State {
    /// Stopped.
    Stopped,
    /// Passive, and at its entry point: its first caller pays for its start.
    Dormant,
    /// On the core.
    Running,
    /// In the ready queue, or held back until somebody pays for it.
    Ready,
    /// In a wait.
    Waiting,
    /// In a wait without a deadline, on a core without budgets: a call to it can go straight.
    Open,
    /// In a call, queued at the callee or being served by it.
    Calling,
    /// Faulted; its supervisor decides.
    Faulted,
}

impl State {
    /// Whether it is in a wait.
    #[inline(always)]
    pub fn waits(self) -> bool {
        matches!(self, Self::Waiting | Self::Open)
    }
}

/// One protection domain, as its core sees it. It takes a power of two of bytes, so that an index becomes an address by a
/// shift: any other size costs each entry and each switch an instruction more.
#[derive(Debug)]
#[repr(C, align(1024))]
pub struct Domain<'s, C> {
    /// Saved registers.
    pub context: C,
    /// Its channel ends.
    pub(crate) ends: &'s [EndDescription],
    /// Those of group 0: no more than a set of signals can name.
    pub(crate) near_ends: &'s [EndDescription],
    /// Its notification words, one per group of channels.
    pub(crate) words: &'s [Word],
    /// Its notification word, where it has one only, no budget is on its core and nobody is queued to call it: what the
    /// straight paths ask for.
    pub(crate) straight: Option<&'s Word>,
    /// What it has used.
    pub(crate) account: &'s DomainAccount,
    /// Link of the ready queue.
    pub next: u32,
    /// Whose budget is to pay: an index of this core.
    pub(crate) payer: u32,
    /// Priority, higher first.
    pub priority: u8,
    /// It was woken from a wait, and its result is still to be collected.
    pub(crate) woken: bool,
    /// It has no time of its own: it runs only while somebody calls it.
    pub(crate) passive: bool,
    /// It could run but nobody pays for it. It is not in the ready queue: its deadline says when it may go on.
    pub(crate) held_back: bool,
    /// The caller that it serves, [`NO_DOMAIN`] or [`GONE`].
    pub(crate) client: u32,
    /// What it is doing.
    pub state: State,
    /// While calling: the callee.
    pub(crate) callee: u32,
    /// When its wait ends by itself, or its budget returns; `u64::MAX` for never.
    pub(crate) deadline: u64,
    /// While queued at a callee: what the call is to that one.
    pub(crate) call: Event,
    /// Link of the callee's queue of callers.
    pub(crate) next_caller: u32,
    /// Callers that wait for it, first and last.
    pub(crate) callers: (u32, u32),
    /// Group that was served last, where there are several.
    pub(crate) last_group: u32,
    /// Restarts so far.
    pub(crate) restarts: u32,
    /// Its own budget.
    pub(crate) budget: Option<Budget>,
}

impl<'s, C: Context> Domain<'s, C> {
    /// Domain `index` of all, stopped. `frequency` is the system counter's, in ticks per second.
    pub fn new(system: &System<'s>, index: u32, frequency: u64) -> Self {
        let description = &system.domains[index as usize];
        let range = |first: u32, count: u32| first as usize..(first + count) as usize;
        let ticks = |nanoseconds: u64| {
            let ticks = u128::from(nanoseconds) * u128::from(frequency) / 1_000_000_000;
            u64::try_from(ticks).unwrap_or(u64::MAX).max(1)
        };
        let ends = &system.ends[range(description.first_end, description.end_count)];
        Self {
            context: C::new(description.table),
            ends,
            near_ends: &ends[..ends.len().min(GROUP as usize)],
            words: &system.words[range(description.first_word, description.groups)],
            straight: None,
            account: &system.domain_accounts[index as usize],
            next: NO_DOMAIN,
            payer: index - system.cores[description.core as usize].first_domain,
            priority: description.priority as u8,
            state: State::Stopped,
            woken: false,
            passive: description.flags & domain_flags::PASSIVE != 0,
            held_back: false,
            client: NO_DOMAIN,
            deadline: u64::MAX,
            call: Event(0),
            callee: NO_DOMAIN,
            next_caller: NO_DOMAIN,
            callers: (NO_DOMAIN, NO_DOMAIN),
            last_group: 0,
            restarts: 0,
            budget: (description.budget != 0)
                .then(|| Budget::new(ticks(description.budget), ticks(description.period))),
        }
    }
    /// Whether a signal is pending.
    pub(crate) fn is_notified(&self) -> bool {
        self.words.iter().any(Word::is_pending)
    }

    /// Where it could run but nobody pays for it: when it is to be looked at again.
    pub fn held_back_until(&self) -> Option<u64> {
        self.held_back.then_some(self.deadline)
    }
}
