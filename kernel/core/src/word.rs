//! Notification words: how one protection domain's signals reach another, on this core or any other.
//!
//! Each domain has one word per 63 channels. Bits 0–62 are pending notifications; bit 63 says that the domain
//! sleeps. A signal is one atomic OR. Whoever turns a word from "asleep, nothing pending" into "something pending",
//! and only it, has to wake the domain; so each sleep is ended by exactly one wake-up, and a domain that runs costs
//! its signallers nothing but the OR.

use crate::atomic::{AtomicU64, Ordering};

const ASLEEP: u64 = 1 << 63;

/// Pending notifications of up to 63 channels of one domain.
#[repr(transparent)]
#[derive(Debug)]
pub struct Word(AtomicU64);

impl Default for Word {
    fn default() -> Self {
        Self::new()
    }
}

impl Word {
    /// A word with nothing pending, its domain awake.
    pub fn new() -> Self {
        Self(AtomicU64::new(0))
    }

    /// Makes `bit` (0 to 62) pending. True: the domain sleeps, and the caller must have it woken.
    ///
    /// Release: what was written before is seen by the domain when it takes the bit.
    #[inline(always)]
    #[must_use]
    pub fn signal(&self, bit: u32) -> bool {
        self.0.fetch_or(1 << (bit & 63), Ordering::AcqRel) == ASLEEP
    }

    /// Takes all that is pending, and `bit` as if it had been signalled just before; marks the domain awake.
    #[inline(always)]
    pub fn take_with(&self, bit: u32) -> u64 {
        self.take() | 1 << (bit & 63)
    }

    /// Announces that the domain is about to sleep. False: something is pending, and it must not.
    #[inline(always)]
    #[must_use]
    pub fn sleep(&self) -> bool {
        self.0.fetch_or(ASLEEP, Ordering::AcqRel) & !ASLEEP == 0
    }

    /// [`Self::sleep`], but false also where the domain is marked asleep already, or by chance; then nothing changed.
    #[inline(always)]
    #[must_use]
    pub fn sleep_idle(&self) -> bool {
        self.0.compare_exchange_weak(0, ASLEEP, Ordering::AcqRel, Ordering::Relaxed).is_ok()
    }

    /// Whether the domain is still marked asleep, with nothing pending. A call leaves the mark: signals wake only who
    /// waits, and the callee finds the mark there when it waits again.
    #[inline(always)]
    #[must_use]
    pub fn still_asleep(&self) -> bool {
        // Whoever signals and is not seen here found the mark, and has the domain woken: when it waits.
        self.0.load(Ordering::Relaxed) == ASLEEP
    }

    /// Whether anything is pending. Who has it from a mailbox that the domain is to be woken sees at least that signal,
    /// unless it was taken.
    pub fn is_pending(&self) -> bool {
        self.0.load(Ordering::Relaxed) & !ASLEEP != 0
    }

    /// Takes all that is pending and marks the domain awake.
    #[inline(always)]
    pub fn take(&self) -> u64 {
        self.0.swap(0, Ordering::AcqRel) & !ASLEEP
    }

    /// Marks the domain awake and leaves what is pending.
    pub fn awake(&self) {
        self.0.fetch_and(!ASLEEP, Ordering::AcqRel);
    }
}

#[cfg(test)]
#[cfg(not(loom))]
mod tests {
    use super::*;

    #[test]
    fn only_the_first_signal_to_a_sleeper_wakes() {
        let word = Word::new();
        assert!(!word.signal(3));
        assert!(!word.sleep());
        assert_eq!(word.take(), 1 << 3);
        assert!(word.sleep());
        assert!(word.signal(0));
        assert!(!word.signal(62));
        assert_eq!(word.take(), 1 | 1 << 62);
        assert_eq!(word.take(), 0);
    }

    #[test]
    fn sleeping_twice_is_sleeping() {
        let word = Word::new();
        assert!(word.sleep());
        assert!(word.sleep());
        assert!(word.signal(1));
    }

    #[test]
    fn awake_keeps_what_is_pending() {
        let word = Word::new();
        assert!(word.sleep());
        assert!(word.signal(5));
        word.awake();
        assert!(!word.signal(6));
        assert_eq!(word.take(), 1 << 5 | 1 << 6);
    }
}
