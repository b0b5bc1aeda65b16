//! The state of one protection domain that only its own core touches.

use crate::budget::Budget;
use crate::notification::NotificationWord;
use crate::system::System;
use culm_abi::accounting::DomainAccount;
use culm_abi::start::SEED_WORDS;
use culm_abi::syscall::{CallStatus, Event, FaultReport, GROUP, MESSAGE_WORDS};
use culm_abi::system::{DomainDescription, EndDescription, domain_flags, end_kind};

/// Index of no domain.
pub const NO_DOMAIN: u32 = u32::MAX;

/// In place of a client's index: the caller whose call is being served has gone, and the reply goes
/// nowhere.
pub const CLIENT_GONE: u32 = u32::MAX - 1;

/// Returns whether this is a virtual CPU of a guest, not a protection domain.
pub(crate) fn is_virtual_cpu(description: &DomainDescription) -> bool {
    description.virtual_cpu != 0
}

/// The saved registers of a domain, as the architecture keeps them.
pub trait Context {
    /// Creates a context without registers. The address space in it, in the architecture's form, is
    /// loaded with the registers.
    fn new(description: &DomainDescription) -> Self;
    /// Puts all registers in their first state: at `entry`, on `stack`, with two arguments and a
    /// seed.
    fn start(&mut self, entry: u64, stack: u64, arguments: [u64; 2], seed: [u64; SEED_WORDS]);
    /// Deals with an exception that the guest on the core took, if that need not be its monitor's.
    fn trap(&mut self) -> Trap;
    /// Records in a virtual CPU's page that the guest has left the core for its monitor, and why.
    fn exit(&mut self, reason: u64);
    /// Returns whether the monitor has answered a virtual CPU's last exit.
    fn is_answered(&self) -> bool;
    /// Takes from a virtual CPU's page what its monitor has written there. Returns whether it goes
    /// on at once; else when there is an interrupt for it.
    fn enter(&mut self) -> bool;
    /// Sets the result of a wait that ended with notifications.
    fn notified(&mut self, event: Event, set: u64);
    /// Sets the result of a wait that ended with a call.
    fn called(&mut self, event: Event, words: &[u64; MESSAGE_WORDS]);
    /// Sets the result of a call.
    fn replied(&mut self, status: CallStatus, words: &[u64; MESSAGE_WORDS]);
    /// Keeps the message of a call that the callee cannot take yet.
    fn keep(&mut self, words: &[u64; MESSAGE_WORDS]);
    /// Returns the message of [`Self::keep`].
    fn kept(&self) -> [u64; MESSAGE_WORDS];
    /// Returns program counter, stack pointer, frame pointer and link register, for a report.
    fn place(&self) -> [u64; 4];
    /// Sets the result of reading a fault.
    fn fault(&mut self, report: &FaultReport);
    /// Sets the result of a system call that has none: all result registers are zero.
    fn done(&mut self);
}

/// The outcome of an exception that a guest took.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Trap {
    /// The guest goes on, behind the instruction.
    Passed,
    /// It waits for an interrupt; none is pending.
    Waits,
    /// Its monitor deals with it.
    Exits,
}

/// The state of a domain.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u32)]
pub enum State {
    /// Stopped.
    Stopped,
    /// Passive, and at its entry point: its first caller pays for its start.
    Dormant,
    /// On the core.
    Running,
    /// In the ready queue, or throttled until a budget pays for it.
    Ready,
    /// In a wait.
    Waiting,
    /// In a wait without a deadline, on a core without budgets: a call to it can take the fast
    /// path.
    WaitingFast,
    /// In a call, queued at the callee or being served by it.
    Calling,
    /// Faulted; its supervisor decides.
    Faulted,
    /// A virtual CPU that has left the core; its monitor resumes it.
    Exited,
    /// A virtual CPU that waits for an interrupt.
    Idle,
}

impl State {
    /// Returns whether it is in a wait.
    #[inline(always)]
    pub fn waits(self) -> bool {
        matches!(self, Self::Waiting | Self::WaitingFast)
    }
}

/// One protection domain, as its core sees it. It takes a power of two of bytes, so that an index
/// becomes an address by a shift: any other size costs each entry and each switch an instruction
/// more.
#[derive(Debug)]
#[repr(C, align(1024))]
pub struct Domain<'s, C> {
    /// Saved registers.
    pub context: C,
    /// Its channel ends.
    pub(crate) ends: &'s [EndDescription],
    /// Its channel ends of group 0: no more than a set of signals can name.
    pub(crate) near_ends: &'s [EndDescription],
    /// Those of them that stand for interrupts, as a set of signals.
    pub(crate) near_interrupts: u64,
    /// Its notification words, one per group of channels.
    pub(crate) words: &'s [NotificationWord],
    /// Its notification word, if the fast paths may end its turns: it has exactly one word, its
    /// core has no budgets, and no caller is queued.
    pub(crate) fast_word: Option<&'s NotificationWord>,
    /// Its account: time, switches and calls.
    pub(crate) account: &'s DomainAccount,
    /// Link of the ready queue.
    pub next: u32,
    /// The domain whose budget is to pay, by its index on this core.
    pub(crate) payer: u32,
    /// Priority, higher first.
    pub priority: u8,
    /// Whether it was woken from a wait whose result is still to be collected.
    pub(crate) woken: bool,
    /// Whether it has no time of its own: it runs only while a caller waits for it.
    pub(crate) passive: bool,
    /// Whether it is a virtual CPU of a guest, not a protection domain.
    pub(crate) virtual_cpu: bool,
    /// Whether it could run but no budget pays for it. It is not in the ready queue then: its
    /// deadline says when it may go on.
    pub(crate) throttled: bool,
    /// The caller that it serves; [`NO_DOMAIN`] or [`CLIENT_GONE`] if there is none.
    pub(crate) client: u32,
    /// Its state.
    pub state: State,
    /// While calling: the callee.
    pub(crate) callee: u32,
    /// The time at which its wait ends by itself, or a budget that can pay for it returns;
    /// `u64::MAX` for never.
    pub(crate) deadline: u64,
    /// While queued at a callee: the event that the callee receives with the call.
    pub(crate) call: Event,
    /// Link of the callee's queue of callers.
    pub(crate) next_caller: u32,
    /// Callers that wait for it, first and last.
    pub(crate) callers: (u32, u32),
    /// Group that was served last, if it has several.
    pub(crate) last_group: u32,
    /// Restarts so far.
    pub(crate) restarts: u32,
    /// Its own budget.
    pub(crate) budget: Option<Budget>,
}

impl<'s, C: Context> Domain<'s, C> {
    /// Creates the domain with the global index `index`, stopped. `frequency` is the system
    /// counter's, in ticks per second.
    pub fn new(system: &System<'s>, index: u32, frequency: u64) -> Self {
        let description = &system.domains[index as usize];
        let range = |first: u32, count: u32| first as usize..(first + count) as usize;
        let ticks = |nanoseconds: u64| {
            let ticks = u128::from(nanoseconds) * u128::from(frequency) / 1_000_000_000;
            u64::try_from(ticks).unwrap_or(u64::MAX).max(1)
        };
        let ends = &system.ends[range(description.first_end, description.end_count)];
        let near_ends = &ends[..ends.len().min(GROUP as usize)];
        Self {
            context: C::new(description),
            ends,
            near_ends,
            near_interrupts: (0..)
                .zip(near_ends)
                .fold(0, |set, (bit, end)| set | u64::from(end.kind == end_kind::INTERRUPT) << bit),
            words: &system.words[range(description.first_word, description.groups)],
            fast_word: None,
            account: &system.domain_accounts[index as usize],
            next: NO_DOMAIN,
            payer: index - system.cores[description.core as usize].first_domain,
            priority: description.priority as u8,
            state: State::Stopped,
            woken: false,
            passive: description.flags & domain_flags::PASSIVE != 0,
            virtual_cpu: is_virtual_cpu(description),
            throttled: false,
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
    /// Returns whether a signal is pending.
    pub(crate) fn is_notified(&self) -> bool {
        self.words.iter().any(NotificationWord::is_pending)
    }

    /// Returns when to look at the domain again, if it could run but no budget pays for it.
    pub fn throttled_until(&self) -> Option<u64> {
        self.throttled.then_some(self.deadline)
    }
}
