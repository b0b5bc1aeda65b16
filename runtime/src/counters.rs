//! Named counters of a component, which observers, such as the status page, read without its help.
//!
//! `culm::component!` makes one [`Counter`] per name in the manifest's `counters`. They live in a
//! page that only this component writes; a restart does not reset them.

use crate::arch::domain_static;
use core::cell::Cell;
use core::sync::atomic::{AtomicU64, Ordering::Relaxed};
use culm_abi::connection::Counters;

domain_static! {
    /// The page that counters are in.
    PAGE: Cell<&'static Counters> = Cell::new(&UNSEEN);
}

/// The page before start, and if no component observes: so a count need not ask whether there is
/// one.
static UNSEEN: Counters = Counters::new();

/// Sets the page that counters are in.
pub(crate) fn set_page(page: Option<&'static Counters>) {
    PAGE.with(|cell| cell.set(page.unwrap_or(&UNSEEN)));
}

/// Returns the page that counters are in.
pub(crate) fn page() -> &'static Counters {
    PAGE.with(Cell::get)
}

/// One counter.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Counter(usize);

impl Counter {
    /// Returns the counter at this position of the manifest's list.
    pub const fn new(index: usize) -> Self {
        Self(index)
    }

    /// Returns the counter's position in the manifest's list.
    pub const fn position(self) -> usize {
        self.0
    }

    /// Returns the counter of this position in the list of a part of the component, which `first`
    /// counters of other parts stand before.
    #[inline(always)]
    #[must_use]
    pub const fn behind(self, first: usize) -> Self {
        Self(self.0 + first)
    }

    /// Adds to the counter. For events that happen for every packet, add once per batch.
    #[inline(always)]
    pub fn add(self, amount: u64) {
        // There is one writer, so load and store need not be one atomic operation.
        self.with(|value| value.store(value.load(Relaxed).wrapping_add(amount), Relaxed));
    }

    /// Sets the counter, for values that also fall.
    #[inline(always)]
    pub fn set(self, value: u64) {
        self.with(|word| word.store(value, Relaxed));
    }

    /// Returns the counter's value.
    pub fn get(self) -> u64 {
        let mut value = 0;
        self.with(|word| value = word.load(Relaxed));
        value
    }

    #[inline(always)]
    fn with(self, function: impl FnOnce(&AtomicU64)) {
        if let Some(word) = page().values.get(self.0) {
            function(word);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_counted_without_a_page_is_not_seen_in_one() {
        let counter = Counter::new(3);
        counter.add(1);
        set_page(Some(Box::leak(Box::new(Counters::new()))));
        counter.add(2);
        counter.add(3);
        assert_eq!((counter.get(), Counter::new(4).get(), Counter::new(9999).get()), (5, 0, 0));
        Counter::new(2).behind(3).add(7);
        assert_eq!((counter.get(), Counter::new(5).get()), (5, 7));
    }
}
