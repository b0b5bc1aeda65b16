//! How often a device that fails is reset.
//!
//! At once, as long as that is seldom; each further time within [`CALM`] only after twice the wait, up to [`LONGEST`]. So a device that
//! fails for ever costs little, and one that comes to its senses is in use a moment later.

use culm::time::{Duration, Instant};

/// What the second reset waits for.
const FIRST: Duration = Duration::from_millis(10);

/// What any reset waits for at most.
const LONGEST: Duration = Duration::from_secs(1);

/// A device that has worked for so long is as good as one that never failed.
const CALM: Duration = Duration::from_secs(10);

/// When the device may be reset again.
pub struct Patience {
    next: Instant,
    wait: Duration,
    last: Option<Instant>,
}

impl Patience {
    pub const fn new() -> Self {
        Self { next: Instant::from_ticks(0), wait: FIRST, last: None }
    }

    /// Asks for a reset now. `Err`: it is to wait until then.
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
