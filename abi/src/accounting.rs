//! Accounts of use, which the kernel publishes: readable without a system call by domains that may
//! observe.
//!
//! One [`CoreAccount`] per core, then one [`DomainAccount`] per protection domain in image order.
//! All fields but `asleep` and `state` only grow; each is written by one core and may be read at
//! any time. Times are ticks of the system counter (`CNTVCT_EL0`, frequency in `CNTFRQ_EL0`).

use core::sync::atomic::{AtomicU32, AtomicU64, Ordering};

/// The account of one core.
#[repr(C, align(64))]
#[derive(Default, Debug)]
pub struct CoreAccount {
    /// Ticks spent with nothing to run.
    pub idle: AtomicU64,
    /// Interrupts taken, those of other cores included.
    pub interrupts: AtomicU64,
    /// Inter-processor interrupts (IPIs) sent to other cores.
    pub ipis_sent: AtomicU64,
    /// Timer expiries.
    pub timer: AtomicU64,
    /// Times the core went to sleep.
    pub sleeps: AtomicU64,
    /// 1 while the core sleeps, else 0. Its present sleep is not in `idle` yet.
    pub asleep: AtomicU64,
    reserved: [u64; 2],
}

/// The account of one protection domain.
#[repr(C, align(64))]
#[derive(Default, Debug)]
pub struct DomainAccount {
    /// Ticks it ran, its system calls included. A callee's time is its own, whoever's budget pays.
    pub ticks: AtomicU64,
    /// System calls it made, but for those in `fast_switches`: see [`Self::system_calls`].
    pub other_calls: AtomicU64,
    /// Times it left the core, but for those in `fast_switches`: see [`Self::switches`].
    pub other_switches: AtomicU64,
    /// System calls by which it handed the core to another domain on a fast path: nearly all that a
    /// busy domain makes.
    pub fast_switches: AtomicU64,
    /// Times it was preempted.
    pub preemptions: AtomicU64,
    /// Times it was throttled, because nobody had budget to pay for it: its own, or a passive one's
    /// callers'.
    pub throttles: AtomicU64,
    /// Faults.
    pub faults: AtomicU32,
    /// Restarts.
    pub restarts: AtomicU32,
    /// A [`DomainState`].
    pub state: AtomicU32,
    reserved: u32,
}

impl DomainAccount {
    /// System calls it made.
    pub fn system_calls(&self) -> u64 {
        self.other_calls.load(Ordering::Relaxed).wrapping_add(self.fast_switches.load(Ordering::Relaxed))
    }

    /// Times it left the core to another domain, or to nobody.
    pub fn switches(&self) -> u64 {
        self.other_switches.load(Ordering::Relaxed).wrapping_add(self.fast_switches.load(Ordering::Relaxed))
    }
}

/// The state of a protection domain, as far as an observer cares.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[repr(u32)]
pub enum DomainState {
    /// Running, ready or waiting.
    #[default]
    Alive = 0,
    /// Faulted; its supervisor decides.
    Faulted = 1,
    /// Stopped by its supervisor.
    Stopped = 2,
}
