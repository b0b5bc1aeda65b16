//! How much may be on the way: Reno (RFC 5681) and CUBIC (RFC 9438), with an initial window of ten
//! segments (RFC 6928).
//!
//! All is in bytes. A connection says what was acknowledged while the window was what held it
//! back, what was lost, and when it had been idle. Within a recovery the window is
//! [`ReductionRate`]'s (RFC 6937).

mod cubic;
mod reduction;

use crate::time::{Instant, Span};
use cubic::Cubic;

pub use reduction::ReductionRate;

/// The largest window: what a connection can have unacknowledged (RFC 7323, §2.3).
const LARGEST: u32 = 1 << 30;

/// Segments by which one acknowledgement grows the window in slow start at most (RFC 3465 §2.2 has
/// 2, RFC 9406 §4.2 has 8 for who does not pace): one that covers a whole window, of a receiver
/// that puts segments together, must neither count for nothing nor cause a burst of any size.
const GROWTH: u32 = 8;

/// How the window grows when there is no slow start, and what is left of it after a loss.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Algorithm {
    /// A segment each round trip; half.
    Reno,
    /// By the cube of the time since the last loss, and as Reno at least; 7/10.
    #[default]
    Cubic,
}

/// The congestion window and its threshold.
#[derive(Clone, Copy, Debug)]
pub struct Congestion {
    algorithm: Algorithm,
    segment: u32,
    window: u32,
    threshold: u32,
    /// What is acknowledged and has not made a byte of the window yet, times the window.
    credit: u64,
    cubic: Cubic,
}

impl Congestion {
    /// Begins with the initial window, for segments of `segment` bytes; no loss has set a
    /// threshold.
    pub fn new(algorithm: Algorithm, segment: u32) -> Self {
        let segment = segment.clamp(1, 1 << 16);
        let window = initial_window(segment);
        Self { algorithm, segment, window, threshold: LARGEST, credit: 0, cubic: Cubic::default() }
    }

    /// Returns the window in bytes: at least one segment.
    #[inline]
    pub fn window(&self) -> u32 {
        self.window
    }

    /// Returns the window in bytes up to which slow start grows it; at least two segments.
    #[inline]
    pub fn threshold(&self) -> u32 {
        self.threshold
    }

    /// Sets the bytes that a segment carries, as the path has it.
    pub fn set_segment(&mut self, segment: u32) {
        self.segment = segment.clamp(1, 1 << 16);
        self.window = self.window.max(self.segment);
    }

    /// Grows the window after `bytes` were acknowledged. To be called only while the window is what
    /// held the sender back, and not in a recovery (RFC 9438, §4.2: else it would grow to what was
    /// never tried).
    #[inline]
    pub fn acknowledged(&mut self, bytes: u32, now: Instant, round_trip: Span) {
        if self.window < self.threshold {
            self.window = self.window.saturating_add(bytes.min(GROWTH * self.segment)).min(self.threshold);
            return;
        }
        let aim = match self.algorithm {
            Algorithm::Reno => u64::from(self.segment) + u64::from(self.window),
            Algorithm::Cubic => u64::from(self.cubic.acknowledged(bytes, self.window, self.segment, now, round_trip)),
        };
        let window = u64::from(self.window);
        self.credit += aim.saturating_sub(window) * u64::from(bytes.min(self.window));
        self.window = (window + self.credit / window).min(LARGEST.into()) as u32;
        self.credit %= window;
    }

    /// Sets the threshold after a loss, with `in_flight` bytes unacknowledged. The window follows
    /// by [`ReductionRate`], or [`Self::collapse`].
    pub fn lost(&mut self, in_flight: u32) {
        let kept = match self.algorithm {
            Algorithm::Reno => in_flight / 2,
            Algorithm::Cubic => (u64::from(self.window) * 7 / 10) as u32,
        };
        self.cubic.lost(self.window);
        self.credit = 0;
        self.threshold = kept.clamp(2 * self.segment, LARGEST);
    }

    /// Leaves one segment of the window: a retransmission timeout has passed (RFC 5681, §3.1).
    pub fn collapse(&mut self) {
        self.window = self.segment;
        self.credit = 0;
    }

    /// Sets the window within a recovery, or at its end.
    #[inline]
    pub fn set_window(&mut self, bytes: u32) {
        self.window = bytes.clamp(self.segment, LARGEST);
    }

    /// Takes the window back to the initial one, if it is larger: nothing was sent for a
    /// retransmission timeout, and nobody knows what the path carries now (RFC 5681, §4.1).
    pub fn idle(&mut self) {
        self.window = self.window.min(initial_window(self.segment));
        self.cubic.idle();
    }
}

/// Returns the initial window (RFC 6928, §2).
fn initial_window(segment: u32) -> u32 {
    (10 * segment).min((2 * segment).max(14_600))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const TRIP: Span = Span::from_milliseconds(100);

    /// Acknowledges `rounds` full windows, segment by segment, a round trip each.
    fn grow(congestion: &mut Congestion, rounds: u32, now: &mut Instant) {
        for _ in 0..rounds {
            let segments = congestion.window() / congestion.segment;
            for _ in 0..segments {
                congestion.acknowledged(congestion.segment, *now, TRIP);
            }
            *now = *now + TRIP;
        }
    }

    #[test]
    fn the_initial_window_is_ten_segments_or_14600_bytes() {
        for (segment, window) in [(536, 5360), (1460, 14_600), (4000, 14_600), (8960, 17_920)] {
            assert_eq!(Congestion::new(Algorithm::Reno, segment).window(), window);
        }
    }

    #[test]
    fn slow_start_doubles_each_round_trip() {
        let mut congestion = Congestion::new(Algorithm::Cubic, 1000);
        let mut now = Instant(0);
        grow(&mut congestion, 3, &mut now);
        assert_eq!(congestion.window(), 80_000);
        congestion.acknowledged(80_000, now, TRIP);
        assert_eq!(congestion.window(), 88_000);
    }

    #[test]
    fn reno_halves_and_grows_by_a_segment_each_round_trip() {
        let mut congestion = Congestion::new(Algorithm::Reno, 1000);
        congestion.set_window(100_000);
        congestion.lost(100_000);
        assert_eq!(congestion.threshold(), 50_000);
        congestion.set_window(congestion.threshold());
        let mut now = Instant(0);
        grow(&mut congestion, 10, &mut now);
        assert!((59_000..=60_000).contains(&congestion.window()), "{}", congestion.window());
    }

    #[test]
    fn cubic_is_back_after_the_time_that_its_cube_says() {
        let mut congestion = Congestion::new(Algorithm::Cubic, 1000);
        congestion.set_window(1_000_000);
        congestion.lost(1_000_000);
        assert_eq!(congestion.threshold(), 700_000);
        congestion.set_window(congestion.threshold());
        // K = cube root of (300 segments / 0.4) = 9.09 s (RFC 9438, §4.2).
        let mut now = Instant(0);
        grow(&mut congestion, 60, &mut now);
        let concave = congestion.window();
        assert!((970_000..999_000).contains(&concave), "{concave}");
        grow(&mut congestion, 31, &mut now);
        assert!((995_000..1_005_000).contains(&congestion.window()), "{}", congestion.window());
        grow(&mut congestion, 60, &mut now);
        // 0.4 × 6³ = 86 segments beyond.
        assert!((1_060_000..1_110_000).contains(&congestion.window()), "{}", congestion.window());
    }

    #[test]
    fn cubic_grows_as_reno_where_its_cube_is_slower() {
        let mut congestion = Congestion::new(Algorithm::Cubic, 1000);
        congestion.set_window(20_000);
        congestion.lost(20_000);
        congestion.set_window(congestion.threshold());
        // The cube brings next to nothing in 50 ms. Reno's share is 9/17 of a segment each round
        // trip, for 12 of them, until the window is what it was; then a whole one, for 38.
        let mut now = Instant(0);
        for _ in 0..50 {
            congestion.acknowledged(congestion.window(), now, Span::from_milliseconds(1));
            now = now + Span::from_milliseconds(1);
        }
        assert!((55_000..60_000).contains(&congestion.window()), "{}", congestion.window());
    }

    #[test]
    fn idleness_takes_it_back_to_the_initial_window() {
        let mut congestion = Congestion::new(Algorithm::Cubic, 1000);
        congestion.set_window(500_000);
        congestion.idle();
        assert_eq!(congestion.window(), 10_000);
        congestion.collapse();
        congestion.idle();
        assert_eq!(congestion.window(), 1000);
    }

    proptest! {
        #[test]
        fn the_window_is_always_between_a_segment_and_the_largest(
            is_cubic: bool, segment in 1_u32..70_000,
            steps in prop::collection::vec((0..5_u8, any::<u32>(), 0_u64..1 << 40), 0..100),
        ) {
            let algorithm = if is_cubic { Algorithm::Cubic } else { Algorithm::Reno };
            let mut congestion = Congestion::new(algorithm, segment);
            let mut now = Instant(0);
            for (step, bytes, time) in steps {
                now = Instant(now.0 + time);
                let before = congestion.window();
                match step {
                    0 => {
                        congestion.acknowledged(bytes, now, Span(bytes));
                        prop_assert!(congestion.window() >= before);
                    }
                    1 => congestion.lost(bytes),
                    2 => congestion.collapse(),
                    3 => congestion.set_window(bytes),
                    _ => congestion.idle(),
                }
                let least = segment.min(1 << 16);
                prop_assert!((least..=LARGEST).contains(&congestion.window()));
                prop_assert!(congestion.threshold() >= 2 * least);
            }
        }
    }
}
