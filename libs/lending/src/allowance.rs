//! Allowances: bounds on the work without use that a peer may cause.
//!
//! A component that serves several clients at a high priority works at their request: it looks at a
//! queue because it was notified, reads entries that turn out to name no buffer, and lends
//! everything again to a client that starts over. Each of these is a few *steps* of work, and a
//! client that does nothing else could cause them without end, at a priority that is not its own.
//! So each client has an allowance of steps, which comes back with time, and with useful work. A
//! client that has used it up is not looked at until it has some again ([`crate::Paused`]): it
//! waits, and no other client does.

use culm::time::{self, Duration, Instant};

/// The time in which a whole allowance comes back.
const PERIOD: Duration = Duration::from_millis(100);

/// Steps that every peer has, however few buffers are lent to it.
const MIN: u32 = 256;

/// Time after which a client that has used up its allowance is looked at again. A part of the
/// allowance is back then, so that even a client that uses it up at once is looked at a few times
/// in each 100 ms.
pub const PAUSE: Duration = Duration::from_millis(25);

/// The steps that a peer may still cause.
#[derive(Clone, Copy, Debug)]
pub struct Allowance {
    left: u32,
    most: u32,
    /// The time at which the allowance was found spent; `None` while it is not.
    since: Option<Instant>,
}

impl Allowance {
    /// Creates the allowance of a peer to which `buffers` are lent: it may start over, and soon
    /// once more, without waiting.
    pub const fn new(buffers: u32) -> Self {
        let most = MIN.saturating_add(buffers.saturating_mul(3));
        Self { left: most, most, since: None }
    }

    /// Takes steps from it, down to 0.
    #[inline]
    pub fn spend(&mut self, steps: u32) {
        self.left = self.left.saturating_sub(steps);
    }

    /// Returns whether nothing is left of it.
    #[inline(always)]
    pub const fn is_spent(&self) -> bool {
        self.left == 0
    }

    /// Gives steps back: as many as the peer has sent useful entries.
    #[inline(always)]
    pub fn earn(&mut self, steps: u32) {
        if self.left != self.most {
            self.give(steps);
        }
    }

    #[inline(never)]
    fn give(&mut self, steps: u32) {
        self.left = self.left.saturating_add(steps).min(self.most);
    }

    /// Gives back the steps that time has earned. Returns whether there are some. Call it when the
    /// allowance is found spent, which starts the clock, then after each [`PAUSE`].
    pub fn replenish(&mut self) -> bool {
        let now = time::now();
        let Some(since) = self.since else {
            self.since = Some(now);
            return false;
        };
        let waited = now.since(since);
        if waited < PAUSE {
            return false;
        }
        self.since = None;
        let share = waited.min(PERIOD).as_micros() as u64 * u64::from(self.most) / PERIOD.as_micros() as u64;
        self.give(share as u32);
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use culm::testing::set_time;

    fn pass(duration: Duration) {
        set_time(time::now() + duration);
    }

    #[test]
    fn steps_come_back_with_time() {
        let mut allowance = Allowance::new(100);
        allowance.spend(556);
        assert!(allowance.is_spent());
        assert!(!allowance.replenish(), "the time begins");
        pass(PAUSE / 2);
        assert!(!allowance.replenish() && allowance.is_spent());
        pass(PAUSE / 2);
        assert!(allowance.replenish());
        allowance.spend(138);
        assert!(!allowance.is_spent());
        allowance.spend(1);
        assert!(allowance.is_spent(), "a quarter of the period, a quarter of the steps");
        assert!(!allowance.replenish());
        pass(Duration::from_secs(3600));
        assert!(allowance.replenish());
        allowance.spend(555);
        assert!(!allowance.is_spent());
        allowance.spend(u32::MAX);
        assert!(allowance.is_spent(), "never more than all");
    }

    #[test]
    fn work_that_is_worth_it_pays() {
        let mut allowance = Allowance::new(0);
        for _ in 0..10_000 {
            allowance.spend(1);
            allowance.earn(1);
        }
        assert!(!allowance.is_spent());
        allowance.earn(u32::MAX);
        allowance.spend(MIN - 1);
        assert!(!allowance.is_spent());
    }

    #[test]
    fn a_client_may_start_over_at_once_and_once_more() {
        let mut allowance = Allowance::new(512);
        for _ in 0..2 {
            allowance.spend(512 + 512 / 8 + 8);
        }
        assert!(!allowance.is_spent());
    }
}
