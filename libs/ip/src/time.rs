//! Time as the owner of a stack tells it: microseconds that never go back.

use core::ops::Add;
use core::time::Duration;

/// A point of time, in microseconds from any start.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Instant(pub u64);

impl Instant {
    /// Later than anything that happens: the deadline of what waits for nothing.
    pub const NEVER: Self = Self(u64::MAX);

    /// Returns the time that has passed since `earlier`; none if that is later.
    pub const fn since(self, earlier: Self) -> Duration {
        Duration::from_micros(self.0.saturating_sub(earlier.0))
    }
}

impl Add<Duration> for Instant {
    type Output = Self;

    /// Returns the time that comes so much later, [`Instant::NEVER`] where that has no number.
    fn add(self, duration: Duration) -> Self {
        Self(self.0.saturating_add(u64::try_from(duration.as_micros()).unwrap_or(u64::MAX)))
    }
}

/// Returns a part of `most` that `random` chooses: from nothing for 0 to nearly all for
/// `u32::MAX`. Finer than a microsecond is cut off.
pub(crate) fn part(most: Duration, random: u32) -> Duration {
    let microseconds = (most.as_micros() * u128::from(random)) >> 32;
    Duration::from_micros(u64::try_from(microseconds).unwrap_or(u64::MAX))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_overflows() {
        assert_eq!(Instant(5).since(Instant(7)), Duration::ZERO);
        assert_eq!(Instant::NEVER + Duration::from_secs(1), Instant::NEVER);
        assert_eq!(Instant(1) + Duration::MAX, Instant::NEVER);
        assert_eq!(part(Duration::MAX, u32::MAX), Duration::from_micros(u64::MAX));
    }

    #[test]
    fn a_part_lies_between_nothing_and_all() {
        let second = Duration::from_secs(1);
        assert_eq!(part(second, 0), Duration::ZERO);
        assert_eq!(part(second, 1 << 31), Duration::from_millis(500));
        assert_eq!(part(second, u32::MAX), Duration::from_micros(999_999));
    }
}
