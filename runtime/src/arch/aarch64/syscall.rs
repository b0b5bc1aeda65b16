//! System calls: the only way into the kernel, in the registers that [`culm_abi::syscall`] names.
//!
//! The kernel keeps `x19`–`x29`, the stack pointer and the program counter, as a C function does;
//! everything else is declared as clobbered, so that it has nothing more to save when it switches
//! protection domains.

use crate::arch::Arrival;
use crate::message::{CalleeGone, Message};
use crate::turn::Leave;
use core::arch::asm;
use culm_abi::syscall::{
    CALL, CallStatus, FAULT, FaultReport, HALT, REPLY_WAIT, RESTART, RESUME, SIGNAL, STOP, TurnOptions, WAIT,
};

/// Ends the turn: sends the signals and waits for an event.
#[inline(always)]
pub(crate) fn wait(leave: Leave) -> Arrival {
    let [a, b, c, d, e, f, g, h];
    let (event, set);
    // SAFETY: [D2] everything that the kernel does not keep is an output or declared clobbered; it
    // writes no memory of this domain. What happens to shared memory meanwhile is why the block is
    // not `nomem`.
    unsafe {
        asm!(
            "svc #{number}",
            number = const WAIT,
            lateout("x0") a, lateout("x1") b, lateout("x2") c, lateout("x3") d,
            lateout("x4") e, lateout("x5") f, lateout("x6") g, lateout("x7") h,
            inlateout("x8") leave.signals => event,
            inlateout("x9") leave.deadline => set,
            in("x10") TurnOptions::new(0).0,
            clobber_abi("C"),
            options(nostack),
        );
    }
    ([a, b, c, d, e, f, g, h], event, set)
}

/// Ends the turn: replies, sends the signals and waits for an event.
#[inline(always)]
pub(crate) fn reply_wait(reply: &Message, leave: Leave) -> Arrival {
    let [mut a, mut b, mut c, mut d, mut e, mut f, mut g, mut h] = *reply.words();
    let (event, set);
    // SAFETY: [D2] as in `wait`.
    unsafe {
        asm!(
            "svc #{number}",
            number = const REPLY_WAIT,
            inlateout("x0") a, inlateout("x1") b, inlateout("x2") c, inlateout("x3") d,
            inlateout("x4") e, inlateout("x5") f, inlateout("x6") g, inlateout("x7") h,
            inlateout("x8") leave.signals => event,
            inlateout("x9") leave.deadline => set,
            in("x10") TurnOptions::new(0).0,
            clobber_abi("C"),
            options(nostack),
        );
    }
    ([a, b, c, d, e, f, g, h], event, set)
}

/// Sends signals of one group and goes on.
#[inline(always)]
pub(crate) fn signal(group: u32, signals: u64) {
    // SAFETY: [D2] as in `wait`.
    unsafe {
        asm!(
            "svc #{number}",
            number = const SIGNAL,
            in("x8") signals,
            in("x10") TurnOptions::new(group).0,
            clobber_abi("C"),
            options(nostack),
        );
    }
}

/// Calls the peer behind channel `channel` and waits for its reply.
#[inline(always)]
pub(crate) fn call(channel: u32, message: &Message) -> Result<Message, CalleeGone> {
    let [mut a, mut b, mut c, mut d, mut e, mut f, mut g, mut h] = *message.words();
    let status: u64;
    // SAFETY: [D2] as in `wait`.
    unsafe {
        asm!(
            "svc #{number}",
            number = const CALL,
            inlateout("x0") a, inlateout("x1") b, inlateout("x2") c, inlateout("x3") d,
            inlateout("x4") e, inlateout("x5") f, inlateout("x6") g, inlateout("x7") h,
            inlateout("x8") u64::from(channel) => status,
            clobber_abi("C"),
            options(nostack),
        );
    }
    if status == CallStatus::Replied as u64 { Ok(Message::new([a, b, c, d, e, f, g, h])) } else { Err(CalleeGone) }
}

/// Reads the fault of the supervised domain behind `channel`.
pub(crate) fn fault(channel: u32) -> FaultReport {
    let mut report = FaultReport::default();
    // SAFETY: [D2] as in `wait`.
    unsafe {
        asm!(
            "svc #{number}",
            number = const FAULT,
            inlateout("x0") u64::from(channel) => report.kind,
            lateout("x1") report.syndrome,
            lateout("x2") report.address,
            lateout("x3") report.pc,
            lateout("x4") report.sp,
            lateout("x5") report.fp,
            lateout("x6") report.lr,
            lateout("x7") report.restarts,
            clobber_abi("C"),
            options(nostack),
        );
    }
    report
}

/// A system call with one argument and no result.
macro_rules! command {
    ($(#[$doc:meta])* $name:ident, $number:expr) => {
        $(#[$doc])*
        pub(crate) fn $name(channel: u32) {
            // SAFETY: [D2] as in `wait`.
            unsafe {
                asm!(
                    "svc #{number}",
                    number = const $number,
                    in("x0") u64::from(channel),
                    clobber_abi("C"),
                    options(nostack),
                );
            }
        }
    };
}

command!(
    /// Lets the faulted domain behind `channel` go on where it faulted.
    resume, RESUME
);
command!(
    /// Puts the domain behind `channel` back to its entry point.
    restart, RESTART
);
command!(
    /// Stops the domain behind `channel` until it is restarted.
    stop, STOP
);

/// Ends the system.
pub(crate) fn halt(status: u32) -> ! {
    // SAFETY: [D2] does not return, or is a fault of this domain.
    unsafe {
        asm!(
            "svc #{number}",
            "brk #2",
            number = const HALT,
            in("x0") u64::from(status),
            options(nostack, noreturn),
        );
    }
}
