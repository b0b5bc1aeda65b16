//! Notification words: how one protection domain's signals reach another, on this core or any
//! other.
//!
//! Each domain has one word per 63 channels. Bits 0–62 are pending notifications; bit 63 says that
//! the domain sleeps. A signal is one atomic OR. The one signaller that turns a word from "asleep,
//! nothing pending" into "something pending" must wake the domain. So exactly one wake-up ends each
//! sleep, and a signal to a domain that runs costs only the OR.

use crate::atomic::{AtomicU64, Ordering};

const ASLEEP: u64 = 1 << 63;

/// The state in which a signaller finds the receiver.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[must_use = "a domain that is found asleep is woken by nobody else"]
pub enum Receiver {
    /// It is awake, or another signaller wakes it: there is nothing more to do.
    Awake,
    /// It sleeps: the signaller must have it woken.
    Asleep,
}

/// Pending notifications of up to 63 channels of one domain.
#[repr(transparent)]
#[derive(Debug)]
pub struct NotificationWord(AtomicU64);

impl Default for NotificationWord {
    fn default() -> Self {
        Self::new()
    }
}

impl NotificationWord {
    /// Creates a word with nothing pending, its domain awake.
    pub fn new() -> Self {
        Self(AtomicU64::new(0))
    }

    /// Makes `bit` (0 to 62) pending.
    ///
    /// Release: a domain that takes the bit sees everything that the signaller wrote before.
    #[inline(always)]
    pub fn signal(&self, bit: u32) -> Receiver {
        match self.0.fetch_or(1 << (bit & 63), Ordering::AcqRel) {
            ASLEEP => Receiver::Asleep,
            _ => Receiver::Awake,
        }
    }

    /// Takes all pending notifications, and `bit` as if it had been signalled just before; marks
    /// the domain awake.
    #[inline(always)]
    pub fn take_with(&self, bit: u32) -> u64 {
        self.take() | 1 << (bit & 63)
    }

    /// Marks the domain asleep. Returns whether it may sleep: whether no notification is pending.
    #[inline(always)]
    #[must_use]
    pub fn sleep(&self) -> bool {
        self.0.fetch_or(ASLEEP, Ordering::AcqRel) & !ASLEEP == 0
    }

    /// Does what [`Self::sleep`] does, if nothing is pending and the domain is not marked asleep.
    /// Returns whether it did; sometimes it does not although it could.
    #[inline(always)]
    #[must_use]
    pub fn sleep_idle(&self) -> bool {
        self.0.compare_exchange_weak(0, ASLEEP, Ordering::AcqRel, Ordering::Relaxed).is_ok()
    }

    /// Returns whether the domain is still marked asleep and nothing is pending. A call does not
    /// clear the callee's mark, so a callee that replies need not set it again; a wake-up has no
    /// effect on a domain that does not wait.
    #[inline(always)]
    #[must_use]
    pub fn still_asleep(&self) -> bool {
        // Relaxed is enough: a signal that this load misses has found the mark, so its sender posts
        // a wake-up, which takes effect when the domain waits.
        self.0.load(Ordering::Relaxed) == ASLEEP
    }

    /// Returns whether a notification is pending. A core that found the domain pending sees at
    /// least the signal that made it so, unless a wait has taken it since.
    pub fn is_pending(&self) -> bool {
        self.0.load(Ordering::Relaxed) & !ASLEEP != 0
    }

    /// Takes all pending notifications and marks the domain awake.
    #[inline(always)]
    pub fn take(&self) -> u64 {
        self.0.swap(0, Ordering::AcqRel) & !ASLEEP
    }

    /// Marks the domain awake and leaves its notifications pending.
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
        let word = NotificationWord::new();
        assert_eq!(word.signal(3), Receiver::Awake);
        assert!(!word.sleep());
        assert_eq!(word.take(), 1 << 3);
        assert!(word.sleep());
        assert_eq!(word.signal(0), Receiver::Asleep);
        assert_eq!(word.signal(62), Receiver::Awake);
        assert_eq!(word.take(), 1 | 1 << 62);
        assert_eq!(word.take(), 0);
    }

    #[test]
    fn sleeping_twice_is_sleeping() {
        let word = NotificationWord::new();
        assert!(word.sleep());
        assert!(word.sleep());
        assert_eq!(word.signal(1), Receiver::Asleep);
    }

    #[test]
    fn awake_keeps_what_is_pending() {
        let word = NotificationWord::new();
        assert!(word.sleep());
        assert_eq!(word.signal(5), Receiver::Asleep);
        word.awake();
        assert_eq!(word.signal(6), Receiver::Awake);
        assert_eq!(word.take(), 1 << 5 | 1 << 6);
    }
}
