//! Time: the system counter, read without a system call.
//!
//! The counter (`CNTVCT_EL0`, Arm ARM D12.1) counts ticks since the machine was switched on; all
//! cores see the same.

use crate::arch::counter;
use core::fmt;
use core::ops::{Add, AddAssign, Sub};
pub use core::time::Duration;

const NANOSECONDS: u64 = 1_000_000_000;

/// A moment: ticks of the system counter.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Instant(u64);

impl Instant {
    /// A moment that never comes.
    pub const NEVER: Self = Self(u64::MAX);

    /// Returns the moment at `ticks` of the system counter.
    #[inline(always)]
    pub const fn from_ticks(ticks: u64) -> Self {
        Self(ticks)
    }

    /// Returns the ticks of the system counter.
    #[inline(always)]
    pub const fn ticks(self) -> u64 {
        self.0
    }

    /// Returns the time from `earlier` to this moment, zero if `earlier` is later.
    pub fn since(self, earlier: Self) -> Duration {
        duration(self.0.saturating_sub(earlier.0))
    }

    /// Time since the machine was switched on.
    pub fn since_start(self) -> Duration {
        duration(self.0)
    }

    /// Whole microseconds since the machine was switched on.
    pub fn microseconds(self) -> u64 {
        scale(self.0, frequency(), 1_000_000)
    }
}

impl Add<Duration> for Instant {
    type Output = Self;
    fn add(self, duration: Duration) -> Self {
        Self(self.0.saturating_add(ticks(duration)))
    }
}

impl AddAssign<Duration> for Instant {
    fn add_assign(&mut self, duration: Duration) {
        *self = *self + duration;
    }
}

impl Sub for Instant {
    type Output = Duration;
    fn sub(self, earlier: Self) -> Duration {
        self.since(earlier)
    }
}

/// Seconds and microseconds since the machine was switched on.
impl fmt::Display for Instant {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let microseconds = self.microseconds();
        write!(formatter, "{:5}.{:06}", microseconds / 1_000_000, microseconds % 1_000_000)
    }
}

/// Returns the present moment. It costs one instruction.
#[inline(always)]
pub fn now() -> Instant {
    Instant(counter::now())
}

/// Returns the ticks per second.
#[inline(always)]
pub fn frequency() -> u64 {
    counter::frequency()
}

/// Returns the ticks of `duration`. It divides: in frequent work, convert once and keep the ticks.
pub fn ticks(duration: Duration) -> u64 {
    let frequency = frequency();
    duration
        .as_secs()
        .saturating_mul(frequency)
        .saturating_add(u64::from(duration.subsec_nanos()) * frequency / NANOSECONDS)
}

/// Returns the duration of `ticks`.
pub fn duration(ticks: u64) -> Duration {
    let frequency = frequency();
    Duration::new(ticks / frequency, scale(ticks % frequency, frequency, NANOSECONDS) as u32)
}

/// Converts `ticks` to units of which there are `per_second`.
fn scale(ticks: u64, frequency: u64, per_second: u64) -> u64 {
    ticks / frequency * per_second + ticks % frequency * per_second / frequency
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ticks_and_durations_convert() {
        assert_eq!(ticks(Duration::from_secs(2)), 125_000_000);
        assert_eq!(ticks(Duration::from_micros(1)), 62);
        assert_eq!(duration(62_500), Duration::from_millis(1));
        assert_eq!(ticks(Duration::MAX), u64::MAX);
        assert_eq!(Instant::from_ticks(62_500_000 + 625).microseconds(), 1_000_010);
    }

    #[test]
    fn differences_do_not_wrap() {
        let (early, late) = (Instant::from_ticks(10), Instant::from_ticks(20));
        assert_eq!(early - late, Duration::ZERO);
        assert_eq!(late - early, duration(10));
        assert_eq!(late + Duration::MAX, Instant::NEVER);
    }

    #[test]
    fn moments_print_as_in_the_log() {
        let moment = Instant::default() + Duration::new(12, 345_678_000);
        assert_eq!(moment.to_string(), "   12.345678");
    }
}
