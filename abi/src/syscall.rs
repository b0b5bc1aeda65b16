//! System calls: numbers, registers, events.
//!
//! A system call is `svc #number`. To the compiler it clobbers what a function call clobbers; the
//! kernel keeps `x19`–`x29`, the stack pointer and the program counter, and nothing else. Registers
//! that carry no result are zero afterwards; `TPIDR_EL0` is zero whenever another domain ran
//! meanwhile. A system call that breaks a rule (a number that does not exist, a channel that was
//! not declared, a right that was not given) is a fault of its caller, reported to its supervisor:
//! there are no error codes to ignore.

/// `wait`: send signals, then wait for an event.
///
/// In: `x8` signals, `x9` deadline, `x10` signal group (see [`TurnOptions`]). Out: an event (see
/// [`Event`]).
pub const WAIT: u16 = 0;
/// `reply_wait`: reply to the current call, send signals, then wait for an event.
///
/// In: `x0`–`x7` reply, `x8` signals, `x9` deadline, `x10` signal group. Out: an event.
pub const REPLY_WAIT: u16 = 1;
/// `signal`: send signals and go on. In: `x8` signals, `x10` signal group. Out: nothing.
pub const SIGNAL: u16 = 2;
/// `call`: call the protection domain behind a channel and wait for its reply.
///
/// In: `x0`–`x7` message, `x8` channel number. Out: `x0`–`x7` reply, `x8` [`CallStatus`].
pub const CALL: u16 = 3;
/// `fault`: read the fault of a supervised protection domain. In: `x0` its channel. Out: `x0`–`x7`,
/// see [`FaultReport`].
pub const FAULT: u16 = 4;
/// `resume`: let a faulted protection domain go on where it faulted. In: `x0` its channel.
pub const RESUME: u16 = 5;
/// `restart`: put a supervised protection domain back to its entry point. In: `x0` its channel.
pub const RESTART: u16 = 6;
/// `stop`: stop a supervised protection domain until it is restarted. In: `x0` its channel.
pub const STOP: u16 = 7;
/// `halt`: end the system and power the machine off. In: `x0` exit status. Does not return.
pub const HALT: u16 = 8;
/// Count of system calls; the kernel refuses every number from here on.
pub const COUNT: u16 = 9;

/// Words of every message, of a call or of a reply. They are the sender's `x0`–`x7` as they stand:
/// what it does not want to say there it has to overwrite, as the runtime does.
pub const MESSAGE_WORDS: usize = 8;

/// Channels in one group. Signals and notifications travel as sets of up to 63 channels of one
/// group: channel `n` is bit `n % 63` of group `n / 63`. (Bit 63 of a notification word is the
/// kernel's own.)
pub const GROUP: u32 = 63;

/// A deadline that never passes. A deadline in the past, such as 0, makes [`WAIT`] a poll.
pub const NEVER: u64 = u64::MAX;

/// Register `x10` of [`WAIT`], [`REPLY_WAIT`] and [`SIGNAL`]: the group in bits 32–63, and zeros.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TurnOptions(pub u64);

impl TurnOptions {
    /// Signals of `group`.
    pub const fn new(group: u32) -> Self {
        Self((group as u64) << 32)
    }

    /// The group of the signals; none where a bit is set that means nothing.
    pub const fn group(self) -> Option<u32> {
        if self.0 as u32 == 0 { Some((self.0 >> 32) as u32) } else { None }
    }
}

/// Register `x8` of an event: what ended a wait.
///
/// Bits 0–7: 0 for notifications (their set is in `x9`; empty where the deadline passed), 1 for a
/// call (its message is in `x0`–`x7`). Bits 32–63: the group of the notifications, or the channel
/// of the call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Event(pub u64);

impl Event {
    /// Notifications of `group`.
    pub const fn notified(group: u32) -> Self {
        Self((group as u64) << 32)
    }

    /// A call over `channel`.
    pub const fn called(channel: u32) -> Self {
        Self((channel as u64) << 32 | 1)
    }

    /// Whether this is a call.
    pub const fn is_call(self) -> bool {
        self.0 & 1 != 0
    }

    /// The channel of a call, or the group of notifications.
    pub const fn source(self) -> u32 {
        (self.0 >> 32) as u32
    }
}

/// Register `x8` after [`CALL`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u64)]
pub enum CallStatus {
    /// The callee replied.
    Replied = 0,
    /// The callee is stopped, or was stopped or restarted while it served this call. The message is
    /// all zero.
    CalleeGone = 1,
}

/// The kind of fault that stopped a protection domain ([`FAULT`], word 0).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u64)]
pub enum FaultKind {
    /// The domain has not faulted.
    None = 0,
    /// A processor exception: word 1 holds the syndrome register.
    Exception = 1,
    /// A system call that breaks a rule: word 1 holds the call's number, word 2 a [`BadCall`]
    /// reason.
    SystemCall = 2,
    /// The domain gave up by `brk #n` (the runtime's panic): word 1 holds the syndrome register.
    Panic = 3,
}

/// Why a system call was refused ([`FaultKind::SystemCall`]).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u64)]
pub enum BadCall {
    /// No system call has this number.
    Number = 0,
    /// A channel number that was not declared, or a channel that does not allow this.
    Channel = 1,
    /// A reply although there is no call to reply to.
    Reply = 2,
    /// A right that the description does not give.
    Right = 3,
    /// A wait although a call is still to be replied to.
    Owed = 4,
    /// Bits of [`TurnOptions`] that mean nothing.
    Options = 5,
    /// A deadline of a passive domain, which has no time of its own to act on it.
    Deadline = 6,
}

/// Words of a fault report, in the order of the registers `x0`–`x7` after [`FAULT`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
#[repr(C)]
pub struct FaultReport {
    /// A [`FaultKind`].
    pub kind: u64,
    /// Syndrome (`ESR_ELx`), or the number of the refused system call.
    pub syndrome: u64,
    /// Faulting address (`FAR_ELx`), or a [`BadCall`].
    pub address: u64,
    /// Program counter.
    pub pc: u64,
    /// Stack pointer.
    pub sp: u64,
    /// Frame pointer, `x29`: the first link of the chain of frames.
    pub fp: u64,
    /// Link register, `x30`; zero where the fault came out of a system call, which does not keep
    /// it.
    pub lr: u64,
    /// How often this domain was restarted so far.
    pub restarts: u64,
}
