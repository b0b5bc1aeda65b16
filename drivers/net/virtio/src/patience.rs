//! The back-off between resets of a device that fails.
//!
//! A device that seldom fails is reset at once; each further time within [`CALM`] only after twice
//! the wait, up to [`LONGEST`]. So a device that fails for ever costs little, and one that recovers
//! is in use a moment later.

use culm::time::{Duration, Instant};

/// The wait before the second reset.
const FIRST: Duration = Duration::from_millis(10);

/// The longest wait before any reset.
const LONGEST: Duration = Duration::from_secs(1);

/// A device that has worked for so long is as good as one that never failed.
const CALM: Duration = Duration::from_secs(10);

/// The time from which on the device may be reset again.
pub struct Patience {
    next: Instant,
    wait: Duration,
    last: Option<Instant>,
}

impl Patience {
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
