//! The time of day that is shown, and when it is corrected.
//!
//! A second that was read has begun at some time before: the time is later than that by less than a
//! second. What is shown already, by an earlier life too, is better if it agrees with that: so
//! neither a restart nor an interrupt that is handled late sets the time back. But if one second
//! after the other seems to begin late, then it is the clock that was set back, by less than a
//! second; so the time follows it.

use crate::counters;
use culm::time::{Duration, Instant};
use culm_clock::Face;

/// The most by which clock and system counter drift apart between two comparisons: more than 160
/// parts in a million, where crystals are right to within 100. If the clock seems to be behind what
/// is shown by more than that, and by less than a second, its interrupt was handled late.
pub const DRIFT: Duration = Duration::from_millis(10);

/// How far into a second the clock may be when the second is read.
const SECOND: Duration = Duration::from_secs(1);

/// Seconds in a row that seem to begin late before the clock is taken to have been set back.
pub const PATIENCE: u32 = 3;

/// The time of day that clients are shown.
pub struct Shown {
    face: Face,
    /// Seconds in a row that seemed to begin late.
    late: u32,
    /// The least by which what is shown was ahead of them.
    ahead: Duration,
}

impl Shown {
    /// Creates it from what an earlier life may have shown.
    pub fn new(face: Face) -> Self {
        Self { face, late: 0, ahead: Duration::MAX }
    }

    /// Begins with a second that was read before `moment`, somewhere within it: shows that it
    /// begins at that moment, unless an earlier life has shown what agrees with it.
    pub fn begin(&mut self, (second, moment): (u32, Instant)) {
        if self.ahead(second, moment, Duration::ZERO).is_none() {
            self.show(since_1970(second), moment);
        }
    }

    /// Shows that a second begins at `moment`, unless the time that is shown already says that it
    /// began before. Returns whether the time is right now, as far as can be told.
    pub fn second_begins(&mut self, (second, moment): (u32, Instant)) -> bool {
        let Some(ahead) = self.ahead(second, moment, DRIFT) else {
            self.show(since_1970(second), moment);
            return true;
        };
        self.late += 1;
        self.ahead = self.ahead.min(ahead);
        if self.late < PATIENCE {
            return false;
        }
        // The one of these seconds that was handled soonest says most exactly when they begin.
        self.show((since_1970(second) + ahead).saturating_sub(self.ahead), moment);
        true
    }

    /// Returns by how much the time that is shown is ahead of the beginning of a second, if that is
    /// `least` or more and can be because the second began before `moment`.
    ///
    /// The next second may begin between the reading and `moment`, and what is shown is only right
    /// to within the drift: if this took just less than a second for possible, a restart at the end
    /// of a second would set the time back by one.
    fn ahead(&self, second: u32, moment: Instant, least: Duration) -> Option<Duration> {
        let ahead = self.face.shown(moment)?.checked_sub(since_1970(second))?;
        (least..SECOND + DRIFT).contains(&ahead).then_some(ahead)
    }

    fn show(&mut self, since_1970: Duration, moment: Instant) {
        self.face.show(since_1970, moment);
        (self.late, self.ahead) = (0, Duration::MAX);
        counters::SETTINGS.add(1);
    }
}

fn since_1970(second: u32) -> Duration {
    Duration::from_secs(second.into())
}
