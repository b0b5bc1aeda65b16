//! Pending domains: which domains of a core another core wants to wake or has a command for.
//!
//! They are a set for each core, one bit for each domain, in words of 64. A sender that finds a
//! word empty interrupts the core; a sender that finds it occupied knows that an interrupt is under
//! way.

use crate::atomic::{AtomicU64, Ordering};

/// The domains that a sender finds in the word to which it adds one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[must_use = "a core that nobody interrupts does not look"]
pub enum Posted {
    /// Nothing: the sender must interrupt the core.
    First,
    /// Another domain, so that an interrupt is under way.
    Another,
}

/// Up to 64 domains of one core that want attention.
#[repr(transparent)]
#[derive(Debug)]
pub struct PendingDomains(AtomicU64);

impl Default for PendingDomains {
    fn default() -> Self {
        Self::new()
    }
}

impl PendingDomains {
    /// Creates an empty set.
    pub fn new() -> Self {
        Self(AtomicU64::new(0))
    }

    /// Adds a domain (`bit`, 0 to 63).
    pub fn post(&self, bit: u32) -> Posted {
        match self.0.fetch_or(1 << (bit & 63), Ordering::AcqRel) {
            0 => Posted::First,
            _ => Posted::Another,
        }
    }

    /// Takes the whole set; called by the domains' own core.
    pub fn take(&self) -> u64 {
        self.0.swap(0, Ordering::AcqRel)
    }
}
