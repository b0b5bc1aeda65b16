//! Counters in accounts that domains read.

use core::sync::atomic::{AtomicU64, Ordering::Relaxed};

/// Adds to a counter that only this core writes: no atomic read-modify-write is needed.
#[inline(always)]
pub(crate) fn add(counter: &AtomicU64, amount: u64) {
    counter.store(counter.load(Relaxed).wrapping_add(amount), Relaxed);
}
