//! The decision after a fault: pure logic, without a clock.
//!
//! Each restart leaves a debt, which the domain pays off by the time for which it then serves:
//! `window / limit` per restart. So a domain that serves long enough between its faults is
//! restarted however often it has faulted; one that faults faster than it pays waits twice as long
//! each time; and one that owes for `limit` restarts is stopped for good. (A leaky bucket of
//! `limit`, which leaks only while the domain runs.)

use culm::time::{Duration, Instant};

/// The longest that a restart waits.
const LONGEST_WAIT: Duration = Duration::from_secs(60);

/// The system description's policy for a domain's faults.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Policy {
    /// Restart it.
    Restart {
        /// Restarts that it may owe for.
        limit: u32,
        /// Time of service that pays for `limit` restarts.
        window: Duration,
        /// Wait before a restart if nothing is owed; doubled for each restart that is.
        backoff: Duration,
    },
    /// Leave it stopped.
    Stop,
    /// Halt the system.
    Halt,
}

/// The decision.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Decision {
    /// Restart it at `at`; it then owes for `count` restarts.
    Restart {
        /// The time of the restart.
        at: Instant,
        /// Restarts that are not paid for, this one included.
        count: u32,
    },
    /// Leave it stopped, as the description says.
    Stop,
    /// Leave it stopped, since it has used up its restarts.
    GiveUp,
    /// Halt the system.
    Halt,
}

/// The faults of one domain.
#[derive(Debug)]
pub struct History {
    policy: Policy,
    /// Time of service that is owed.
    debt: Duration,
    /// The time since which it serves.
    started: Instant,
}

impl History {
    /// Creates the history of a domain that has not faulted yet.
    pub fn new(policy: Policy) -> Self {
        Self { policy, debt: Duration::ZERO, started: Instant::from_ticks(0) }
    }

    /// Records that the domain was restarted, and serves from now on.
    pub fn restarted(&mut self, now: Instant) {
        self.started = now;
    }

    /// Records a fault of the domain, and decides.
    pub fn fault(&mut self, now: Instant) -> Decision {
        match self.policy {
            Policy::Stop => Decision::Stop,
            Policy::Halt => Decision::Halt,
            Policy::Restart { limit, window, backoff } => self.restart(now, limit, window, backoff),
        }
    }

    fn restart(&mut self, now: Instant, limit: u32, window: Duration, backoff: Duration) -> Decision {
        // The price is at least a nanosecond. With a window of 0 every debt is paid at once.
        let price = (window / limit.max(1)).max(Duration::from_nanos(1));
        let paid = now.since(self.started);
        self.debt = self.debt.saturating_sub(paid);
        let owed = self.debt.as_nanos().div_ceil(price.as_nanos()).min(u32::MAX.into()) as u32;
        if owed >= limit {
            return Decision::GiveUp;
        }
        let doubled = 1u32.checked_shl(owed).unwrap_or(u32::MAX);
        let wait = backoff.saturating_mul(doubled).min(LONGEST_WAIT.max(backoff));
        self.debt = self.debt.saturating_add(price);
        // The domain pays nothing until it is restarted.
        self.started = now + wait;
        Decision::Restart { at: now + wait, count: owed + 1 }
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
            History::new(Policy::Restart { limit: 3, window: 3 * SECOND, backoff: Duration::from_millis(50) });
        assert_eq!(history.fault(at(0)), Decision::Restart { at: at(50), count: 1 });
        assert_eq!(history.fault(at(60)), Decision::Restart { at: at(160), count: 2 });
        assert_eq!(history.fault(at(200)), Decision::Restart { at: at(400), count: 3 });
        assert_eq!(history.fault(at(500)), Decision::GiveUp);
    }

    #[test]
    fn service_pays_for_restarts() {
        let mut history =
            History::new(Policy::Restart { limit: 3, window: 3 * SECOND, backoff: Duration::from_millis(50) });
        // A thousand faults, each after a second of service: no more than one is owed for.
        let mut now = 0;
        for _ in 0..1000 {
            assert_eq!(history.fault(at(now)), Decision::Restart { at: at(now + 50), count: 1 });
            history.restarted(at(now + 50));
            now += 1050;
        }
        // In quick succession two more, and then service for two.
        assert_eq!(history.fault(at(now)), Decision::Restart { at: at(now + 50), count: 1 });
        assert_eq!(history.fault(at(now + 50)), Decision::Restart { at: at(now + 150), count: 2 });
        history.restarted(at(now + 150));
        assert_eq!(history.fault(at(now + 2150)), Decision::Restart { at: at(now + 2200), count: 1 });
    }

    #[test]
    fn waiting_is_no_service() {
        let mut history = History::new(Policy::Restart { limit: 2, window: 2 * SECOND, backoff: 10 * SECOND });
        assert_eq!(history.fault(at(0)), Decision::Restart { at: at(10_000), count: 1 });
        history.restarted(at(10_000));
        assert_eq!(history.fault(at(10_000)), Decision::Restart { at: at(30_000), count: 2 });
        history.restarted(at(30_000));
        assert_eq!(history.fault(at(30_000)), Decision::GiveUp);
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

        /// However faults come: in any time there are no more restarts than `limit` and those that
        /// it pays for.
        #[test]
        fn restarts_are_bounded_by_time(
            limit in 1..10u32,
            window in 10..5000u64,
            backoff in 0..1000u64,
            gaps in proptest::collection::vec(0..2000u64, 1..100),
        ) {
            let (length, first) = (Duration::from_millis(window), Duration::from_millis(backoff));
            let mut history = History::new(Policy::Restart { limit, window: length, backoff: first });
            let (mut now, mut restarts) = (0, 0);
            for gap in gaps {
                now += gap;
                match history.fault(at(now)) {
                    Decision::Restart { at: when, count } => {
                        prop_assert!((1..=limit).contains(&count));
                        prop_assert!(when >= at(now + backoff) && when <= at(now + backoff.max(60_000)));
                        restarts += 1;
                        now = when.since_start().as_millis() as u64;
                        history.restarted(when);
                    }
                    decision => {
                        prop_assert_eq!(decision, Decision::GiveUp);
                        break;
                    }
                }
                prop_assert!(restarts <= u64::from(limit) + 1 + now * u64::from(limit) / window);
            }
        }

        #[test]
        fn whoever_serves_long_enough_is_never_given_up(
            limit in 1..10u32,
            price in 1..500u64,
            extra in proptest::collection::vec(0..100u64, 1..200),
        ) {
            let window = Duration::from_millis(price * u64::from(limit));
            let mut history = History::new(Policy::Restart { limit, window, backoff: SECOND });
            let mut now = 0;
            for extra in extra {
                now += price + 1 + extra;
                prop_assert_eq!(history.fault(at(now)), Decision::Restart { at: at(now + 1000), count: 1 });
                now += 1000;
                history.restarted(at(now));
            }
        }

        #[test]
        fn a_limit_beyond_counting_never_gives_up(faults in 1..500u32, backoff in any::<u64>()) {
            let backoff = Duration::from_nanos(backoff);
            let mut history = History::new(Policy::Restart { limit: u32::MAX, window: SECOND, backoff });
            for _ in 0..faults {
                let restarts = matches!(history.fault(at(0)), Decision::Restart { .. });
                prop_assert!(restarts);
            }
        }
    }
}
