//! What to do about a fault: pure logic, without a clock.
//!
//! A domain that is to be restarted is, as long as it faults no more than `limit` times within `window`; each restart within the
//! window waits twice as long as the one before. Then it is stopped for good.

use alloc::collections::VecDeque;
use culm::time::{Duration, Instant};

/// The largest limit that is counted exactly; above it a domain is restarted whenever it faults.
const COUNTED: u32 = 64;

/// The longest that a restart waits.
const LONGEST_WAIT: Duration = Duration::from_secs(60);

/// What the system description says about a domain's faults.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Policy {
    /// Restart it.
    Restart {
        /// Restarts allowed within `window`.
        limit: u32,
        /// Time in which restarts are counted.
        window: Duration,
        /// How long the first restart within the window waits.
        backoff: Duration,
    },
    /// Leave it stopped.
    Stop,
    /// Halt the system.
    Halt,
}

/// What to do now.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Decision {
    /// Restart it at `at`, the `count`th time within the window.
    Restart {
        /// When.
        at: Instant,
        /// How many restarts there are within the window, this one included.
        count: u32,
    },
    /// Leave it stopped, as the description says.
    Stop,
    /// Leave it stopped, since it had its restarts.
    GiveUp,
    /// Halt the system.
    Halt,
}

/// The faults of one domain.
#[derive(Debug)]
pub struct History {
    policy: Policy,
    /// When it was decided to restart it, as far as that is within the window.
    restarts: VecDeque<Instant>,
}

impl History {
    /// A domain that has not faulted yet.
    pub fn new(policy: Policy) -> Self {
        let counted = match policy {
            Policy::Restart { limit, .. } => limit.min(COUNTED),
            Policy::Stop | Policy::Halt => 0,
        };
        Self { policy, restarts: VecDeque::with_capacity(counted as usize) }
    }

    /// The domain faulted.
    pub fn fault(&mut self, now: Instant) -> Decision {
        match self.policy {
            Policy::Stop => Decision::Stop,
            Policy::Halt => Decision::Halt,
            Policy::Restart { limit, window, backoff } => self.restart(now, limit, window, backoff),
        }
    }

    fn restart(&mut self, now: Instant, limit: u32, window: Duration, backoff: Duration) -> Decision {
        while self.restarts.front().is_some_and(|time| now.since(*time) >= window) {
            self.restarts.pop_front();
        }
        if self.restarts.len() == limit.min(COUNTED) as usize {
            if limit <= COUNTED {
                return Decision::GiveUp;
            }
            self.restarts.pop_front();
        }
        let doubled = 1u32.checked_shl(self.restarts.len() as u32).unwrap_or(u32::MAX);
        let wait = backoff.saturating_mul(doubled).min(LONGEST_WAIT.max(backoff));
        self.restarts.push_back(now);
        Decision::Restart { at: now + wait, count: self.restarts.len() as u32 }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const SECOND: Duration = Duration::from_secs(1);

    fn at(milliseconds: u64) -> Instant {
        Instant::default() + Duration::from_millis(milliseconds)
    }

    #[test]
    fn restarts_wait_longer_and_longer_and_then_end() {
        let mut history =
            History::new(Policy::Restart { limit: 3, window: SECOND, backoff: Duration::from_millis(50) });
        assert_eq!(history.fault(at(0)), Decision::Restart { at: at(50), count: 1 });
        assert_eq!(history.fault(at(60)), Decision::Restart { at: at(160), count: 2 });
        assert_eq!(history.fault(at(200)), Decision::Restart { at: at(400), count: 3 });
        assert_eq!(history.fault(at(500)), Decision::GiveUp);
    }

    #[test]
    fn old_restarts_do_not_count() {
        let mut history = History::new(Policy::Restart { limit: 1, window: SECOND, backoff: Duration::ZERO });
        for second in 0..10 {
            assert_eq!(history.fault(at(second * 1000)), Decision::Restart { at: at(second * 1000), count: 1 });
        }
        assert_eq!(history.fault(at(9999)), Decision::GiveUp);
    }

    #[test]
    fn what_the_description_says_is_done() {
        assert_eq!(History::new(Policy::Stop).fault(at(0)), Decision::Stop);
        assert_eq!(History::new(Policy::Halt).fault(at(0)), Decision::Halt);
        let never = Policy::Restart { limit: 0, window: SECOND, backoff: SECOND };
        assert_eq!(History::new(never).fault(at(0)), Decision::GiveUp);
    }

    proptest! {
        #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

        #[test]
        fn never_more_than_the_limit_within_any_window(
            limit in 0..10u32,
            window in 1..5000u64,
            backoff in 0..1000u64,
            gaps in proptest::collection::vec(0..2000u64, 1..100),
        ) {
            let (length, first) = (Duration::from_millis(window), Duration::from_millis(backoff));
            let mut history = History::new(Policy::Restart { limit, window: length, backoff: first });
            let (mut now, mut restarts) = (0, Vec::new());
            for gap in gaps {
                now += gap;
                let recent = restarts.iter().filter(|time| now - **time < window).count() as u32;
                match history.fault(at(now)) {
                    Decision::Restart { at: when, count } => {
                        prop_assert!(recent < limit && count == recent + 1);
                        prop_assert!(when >= at(now + backoff));
                        prop_assert!(when <= at(now + backoff.max(60_000)));
                        restarts.push(now);
                    }
                    decision => {
                        prop_assert_eq!(decision, Decision::GiveUp);
                        prop_assert!(recent >= limit);
                    }
                }
            }
        }

        #[test]
        fn a_limit_beyond_counting_never_gives_up(faults in 1..500u32, backoff in any::<u64>()) {
            let backoff = Duration::from_nanos(backoff);
            let mut history = History::new(Policy::Restart { limit: u32::MAX, window: Duration::MAX, backoff });
            for _ in 0..faults {
                let restarts = matches!(history.fault(at(0)), Decision::Restart { .. });
                prop_assert!(restarts);
            }
        }
    }
}
