//! The logic of the kernel: schedule, channels, budgets, deadlines, faults and restarts.
//!
//! Nothing here depends on a processor. What the logic needs of one is behind the traits
//! [`Context`] (saved registers) and [`Hardware`] (clock, timer, interrupt controller); the binary
//! in `kernel/` supplies both, host tests supply fakes.
//!
//! There is one [`Core`] per processor core. It alone owns the state of its protection domains;
//! other cores reach them only by the atomics in [`notification`], [`pending`] and [`generated`],
//! so nothing is locked. Nothing is allocated either: every table has the size that the build tool
//! gave it.

#![no_std]
#![forbid(unsafe_code)]

#[cfg(test)]
extern crate std;

mod account;
pub mod budget;
mod check;
pub mod core;
mod counter;
pub mod domain;
mod fast;
pub mod generated;
mod guest;
mod interrupts;
mod meter;
pub mod notification;
mod payer;
pub mod pending;
pub mod ready;
mod supervise;
pub mod system;
pub mod timer;
mod vectors;

pub use crate::check::BadTable;
pub use crate::core::{Core, Next};
pub use crate::domain::{Added, Context, Domain, Entry, Generated, Trap};
pub use crate::fast::{FastSwitch, SignalLeft};
pub use crate::system::{Hardware, Interrupt, System};

/// Atomics of the standard kind, or loom's when models are checked.
mod atomic {
    #[cfg(not(loom))]
    pub use ::core::sync::atomic::{AtomicU32, AtomicU64, Ordering, fence};
    #[cfg(loom)]
    pub use loom::sync::atomic::{AtomicU32, AtomicU64, Ordering, fence};
}
