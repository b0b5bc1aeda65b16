//! Supervision: a component's commands to the protection domains that it supervises.
//!
//! A supervisor has a channel per supervised domain ([`culm_abi::connection::Child`]), which is
//! notified when that domain faults.

use crate::arch::syscall;
use crate::channel::Channel;
/// Where things lie in an address space, by which a supervisor knows what a fault touched.
pub use culm_abi::memory as address_space;
/// The numbers of the system calls, by which a supervisor names a bad one.
pub use culm_abi::syscall as system_calls;
pub use culm_abi::syscall::{BadCall, FaultKind, FaultReport};

/// Reads the report of the fault at which the domain behind `child` stands.
pub fn fault(child: Channel) -> FaultReport {
    syscall::fault(child.number())
}

/// Lets a faulted domain go on where it faulted.
pub fn resume(child: Channel) {
    syscall::resume(child.number());
}

/// Does what [`resume`] does for a guest's virtual CPU, at the end of this turn and at no extra
/// cost. A command that is given after it in the same turn takes effect before it, and on another
/// core can be replaced by it: give none.
#[inline]
pub fn resume_at_end(virtual_cpu: Channel) {
    virtual_cpu.notify();
}

/// Restarts a domain at its entry point, with pristine memory. Shared regions keep their content.
pub fn restart(child: Channel) {
    syscall::restart(child.number());
}

/// Stops a domain until it is restarted.
pub fn stop(child: Channel) {
    syscall::stop(child.number());
}

/// Ends the system and powers the machine off, with an exit status for the program that started it.
/// Needs `may_halt`.
pub fn halt(status: u32) -> ! {
    syscall::halt(status)
}
