//! The back-off between resets of a device that fails.
//!
//! A device that seldom fails is reset at once; each further time within `CALM` only after twice
//! the wait, up to `LONGEST`. So a device that fails for ever costs little, and one that recovers
//! is in use a moment later.

use culm::time::{Duration, Instant};

/// The wait before the second reset.
const FIRST: Duration = Duration::from_millis(10);

/// The longest wait before any reset.
const LONGEST: Duration = Duration::from_secs(1);

/// A device that has worked for so long is as good as one that never failed.
const CALM: Duration = Duration::from_secs(10);

/// The time from which on a device may be reset again.
#[derive(Debug)]
pub struct ResetBackoff {
    next: Instant,
    wait: Duration,
    last: Option<Instant>,
}

impl ResetBackoff {
    /// Creates the back-off of a device that has not failed yet.
    pub const fn new() -> Self {
        Self { next: Instant::from_ticks(0), wait: FIRST, last: None }
    }

    /// Asks for a reset now. Returns the time to wait for as `Err`, if it is too early.
    pub fn ask(&mut self, now: Instant) -> Result<(), Instant> {
        if now < self.next {
            return Err(self.next);
        }
        let calm = self.last.is_none_or(|last| now.since(last) >= CALM);
        self.wait = if calm { FIRST } else { (self.wait * 2).min(LONGEST) };
        self.next = now + self.wait;
        self.last = Some(now);
        Ok(())
    }
}

impl Default for ResetBackoff {
    fn default() -> Self {
        Self::new()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_further_reset_waits_twice_as_long_until_the_device_works() {
        let mut backoff = ResetBackoff::new();
        let mut now = Instant::from_ticks(0) + Duration::from_secs(1);
        let mut waits = std::vec::Vec::new();
        for _ in 0..9 {
            assert_eq!(backoff.ask(now), Ok(()));
            let next = backoff.ask(now).expect_err("a device that has just been reset waits");
            waits.push((next - now).as_millis());
            now = next;
        }
        assert_eq!(waits, [10, 20, 40, 80, 160, 320, 640, 1000, 1000]);
        now += CALM;
        assert_eq!(backoff.ask(now), Ok(()));
        assert_eq!(backoff.ask(now), Err(now + FIRST), "a device that has worked for a while is as a new one");
    }
}
