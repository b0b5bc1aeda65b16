//! Linux's ways to signal: the numbers of their rows. Culm's calls and notifications are compared
//! with them, and so is a Linux in a virtual machine with one that has the machine to itself.

/// A system call that does nothing.
pub const GETPID: u64 = 601;
/// Two programs wake each other by a futex.
pub const FUTEX: u64 = 602;
/// A byte goes through a pipe, and one comes back.
pub const PIPE: u64 = 603;
/// An event counter is raised, and another one answers.
pub const EVENTFD: u64 = 604;

/// The rows of a Linux in a virtual machine: number and name.
pub static IPC: [(u64, &str); 4] =
    [(GETPID, "ipc-getpid"), (FUTEX, "ipc-futex"), (PIPE, "ipc-pipe"), (EVENTFD, "ipc-eventfd")];
