//! Time as whoever uses a connection tells it: microseconds that never go back.

use core::ops::{Add, Sub};
use core::time::Duration;

/// A point of time, in microseconds from any start.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Instant(pub u64);

/// A length of time in microseconds: up to 71 minutes; what would be longer stays at that.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Span(pub u32);

impl Instant {
    /// Returns the time that has passed since `earlier`; none if that is later.
    #[inline]
    pub fn since(self, earlier: Self) -> Span {
        Span(u32::try_from(self.0.saturating_sub(earlier.0)).unwrap_or(u32::MAX))
    }

    /// Returns the time that is `wait` later, which may be longer than a [`Span`].
    #[inline]
    pub fn after(self, wait: Duration) -> Self {
        Self(self.0.saturating_add(u64::try_from(wait.as_micros()).unwrap_or(u64::MAX)))
    }

    /// Returns the milliseconds from the start, modulo 2³².
    #[inline]
    pub const fn milliseconds(self) -> u32 {
        (self.0 / 1000) as u32
    }
}

impl Add<Span> for Instant {
    type Output = Self;

    #[inline]
    fn add(self, span: Span) -> Self {
        Self(self.0.saturating_add(span.0 as u64))
    }
}

impl Span {
    /// So many milliseconds, 4,294,967 at most.
    pub const fn from_milliseconds(milliseconds: u32) -> Self {
        Self(milliseconds.saturating_mul(1000))
    }

    /// So many seconds, 4,294 at most.
    pub const fn from_seconds(seconds: u32) -> Self {
        Self(seconds.saturating_mul(1_000_000))
    }

    /// Returns `times` this length.
    #[inline]
    pub const fn times(self, times: u32) -> Self {
        Self(self.0.saturating_mul(times))
    }
}

impl Add for Span {
    type Output = Self;

    #[inline]
    fn add(self, other: Self) -> Self {
        Self(self.0.saturating_add(other.0))
    }
}

impl Sub for Span {
    type Output = Self;

    #[inline]
    fn sub(self, other: Self) -> Self {
        Self(self.0.saturating_sub(other.0))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_overflows() {
        assert_eq!(Instant(5).since(Instant(7)), Span(0));
        assert_eq!(Instant(u64::MAX).since(Instant(0)), Span(u32::MAX));
        assert_eq!(Instant(u64::MAX) + Span(1), Instant(u64::MAX));
        assert_eq!(Span::from_seconds(u32::MAX) + Span(1), Span(u32::MAX));
        assert_eq!(Span(1) - Span(2), Span(0));
        assert_eq!(Span::from_seconds(3).times(2000), Span(u32::MAX));
        assert_eq!(Instant(4_294_967_296_000).milliseconds(), 0);
    }
}
