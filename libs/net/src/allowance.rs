//! How much work that brings nothing a peer may cause.
//!
//! Whoever serves several clients at a high priority works on their word: looks at a queue because it was notified, reads entries that
//! turn out to be nobody's buffers, lends everything anew to one that says that it starts over. Each of these is a few *steps*
//! of work, and a client that does nothing else could have them without end, at a priority that is not its own. So each client has
//! an allowance of steps, which comes back with time, and with work that was worth it: one that has used its up is
//! not looked at until it has some again. It waits, and nobody else does.

use culm::time::{self, Duration, Instant};

/// The time in which a whole allowance comes back.
const PERIOD: Duration = Duration::from_millis(100);

/// Steps that everybody has, whatever there is to be lent.
const LEAST: u32 = 256;

/// How long to wait before looking after a client again that has used up its allowance: until a part of it is back, so that
/// even one that uses it up at once is looked at a few times in each [`PERIOD`].
pub const PAUSE: Duration = Duration::from_millis(25);

/// The steps that a peer may still cause.
#[derive(Clone, Copy, Debug)]
pub struct Allowance {
    left: u32,
    most: u32,
    /// When some came back by time. Nothing is written down while there are enough.
    since: Option<Instant>,
}

impl Allowance {
    /// The allowance of a peer to whom `buffers` are lent: it may start over, and soon once more, without waiting.
    pub const fn new(buffers: u32) -> Self {
        let most = LEAST.saturating_add(buffers.saturating_mul(3));
        Self { left: most, most, since: None }
    }

    /// Takes some steps from it, as far as there are so many.
    #[inline]
    pub fn spend(&mut self, steps: u32) {
        self.left = self.left.saturating_sub(steps);
    }

    /// Whether nothing is left of it.
    #[inline(always)]
    pub const fn is_spent(&self) -> bool {
        self.left == 0
    }

    /// Gives steps back: as many as the peer has sent that was worth the work.
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

    /// Gives back what time brings; false where it is spent still. Call it for one that is, first when that is found and then after
    /// each [`PAUSE`].
    pub fn wait(&mut self) -> bool {
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
        assert!(!allowance.wait(), "the time begins");
        pass(PAUSE / 2);
        assert!(!allowance.wait() && allowance.is_spent());
        pass(PAUSE / 2);
        assert!(allowance.wait());
        allowance.spend(138);
        assert!(!allowance.is_spent());
        allowance.spend(1);
        assert!(allowance.is_spent(), "a quarter of the period, a quarter of the steps");
        assert!(!allowance.wait());
        pass(Duration::from_secs(3600));
        assert!(allowance.wait());
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
        allowance.spend(LEAST - 1);
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
