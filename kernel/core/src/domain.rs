//! The state of one protection domain that only its own core touches.

use crate::budget::Budget;
use culm_abi::syscall::{CallStatus, Event, FaultReport, MESSAGE_WORDS};

/// Index of no domain.
pub const NO_DOMAIN: u32 = u32::MAX;

/// The caller of the call that is being served has gone: the reply goes nowhere.
pub const GONE: u32 = u32::MAX - 1;

/// The saved registers of a domain, as the architecture keeps them.
pub trait Context: Default {
    /// Puts all registers in their first state: at `entry`, on `stack`, with two arguments.
    fn start(&mut self, entry: u64, stack: u64, arguments: [u64; 2]);
    /// Sets the result of a wait that ended with notifications.
    fn notified(&mut self, event: Event, set: u64);
    /// Sets the result of a wait that ended with a call.
    fn called(&mut self, event: Event, words: &[u64; MESSAGE_WORDS]);
    /// Sets the result of a call.
    fn replied(&mut self, status: CallStatus, length: usize, words: &[u64; MESSAGE_WORDS]);
    /// The words of the message that a call or reply in progress sends.
    fn message(&self) -> [u64; MESSAGE_WORDS];
    /// Program counter, stack pointer, frame pointer and link register, for a report.
    fn place(&self) -> [u64; 4];
    /// Sets the result of reading a fault.
    fn fault(&mut self, report: &FaultReport);
    /// Sets the result of a system call that has none: all result registers are zero.
    fn done(&mut self);
}

/// What a domain is doing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum State {
    /// Stopped, or not yet started.
    Stopped,
    /// On the core.
    Running,
    /// In the ready queue, or held back until its budget returns.
    Ready,
    /// In a wait.
    Waiting,
    /// In a call, queued at the callee or being served by it.
    Calling,
    /// Faulted; its supervisor decides.
    Faulted,
}

/// One protection domain, as its core sees it.
#[derive(Debug)]
#[repr(C, align(64))]
pub struct Domain<C> {
    /// Saved registers. First, so that the architecture finds them at the domain's own address.
    pub context: C,
    /// The address space: what the architecture wants to load when it switches to the domain.
    pub table: u64,
    /// Link of the ready queue.
    pub next: u32,
    /// First of its ends in the table of ends.
    pub(crate) first_end: u32,
    /// Count of its ends.
    pub(crate) end_count: u32,
    /// First of its notification words.
    pub(crate) first_word: u32,
    /// Count of its notification words.
    pub(crate) groups: u32,
    /// Group that was served last, where there are several.
    pub(crate) last_group: u32,
    /// Priority, higher first.
    pub priority: u8,
    /// What it is doing.
    pub state: State,
    /// It was woken from a wait, and its result is still to be collected.
    pub(crate) woken: bool,
    /// It has no time of its own.
    pub(crate) passive: bool,
    /// It ran out of budget and is not in the ready queue: its deadline says when it may go on.
    pub(crate) throttled: bool,
    /// Whose budget pays: an index of this core.
    pub(crate) charge: u32,
    /// Its own budget.
    pub(crate) budget: Option<Budget>,
    /// The caller that it serves, [`NO_DOMAIN`] or [`GONE`].
    pub(crate) client: u32,
    /// While calling: the callee.
    pub(crate) callee: u32,
    /// While calling: the channel end of the callee, length of the message.
    pub(crate) call: Event,
    /// Callers that wait for it, first and last.
    pub(crate) callers: (u32, u32),
    /// Link of the callee's queue of callers.
    pub(crate) next_caller: u32,
    /// When its wait ends by itself, or its budget returns; `u64::MAX` for never.
    pub(crate) deadline: u64,
    /// Restarts so far.
    pub(crate) restarts: u64,
}

impl<C: Context> Default for Domain<C> {
    fn default() -> Self {
        Self {
            context: C::default(),
            table: 0,
            next: NO_DOMAIN,
            first_end: 0,
            end_count: 0,
            first_word: 0,
            groups: 1,
            last_group: 0,
            priority: 0,
            state: State::Stopped,
            woken: false,
            passive: false,
            throttled: false,
            charge: NO_DOMAIN,
            budget: None,
            client: NO_DOMAIN,
            callee: NO_DOMAIN,
            call: Event(0),
            callers: (NO_DOMAIN, NO_DOMAIN),
            next_caller: NO_DOMAIN,
            deadline: u64::MAX,
            restarts: 0,
        }
    }
}
