//! The round-trip time and the retransmission timeout (RFC 6298), and the least round trip of late
//! (RFC 8985, §6.1).

use crate::time::{Instant, Span};

/// The timeout before the first measurement (RFC 6298, §2.1).
pub const FIRST_TIMEOUT: Span = Span::from_seconds(1);

/// The timeout before the first measurement if the SYN was lost (RFC 6298, §5.7).
const CAREFUL_TIMEOUT: Span = Span::from_seconds(3);

/// The shortest timeout. RFC 6298, §2.4, asks for a second, against clocks that were coarse then;
/// this is what systems in use keep to, and longer than they delay an acknowledgement.
pub const SHORTEST_TIMEOUT: Span = Span::from_milliseconds(200);

/// The longest timeout, with backing off (RFC 6298, §2.5).
pub const LONGEST_TIMEOUT: Span = Span::from_seconds(60);

/// How long a least round trip counts, before a longer one may replace it.
const MEMORY: Span = Span::from_seconds(300);

/// What is known of the path's round trip.
#[derive(Clone, Copy, Debug)]
pub struct RoundTrip {
    /// The smoothed time, times 8; 0 before the first measurement.
    smoothed_8: u32,
    /// Its mean deviation, times 4.
    deviation_4: u32,
    least: Span,
    least_at: Instant,
    /// The retransmission timeout, which is asked for more often than it changes.
    timeout: Span,
    /// How often it was doubled.
    doublings: u8,
    /// Whether the SYN was lost, or is slower than [`FIRST_TIMEOUT`].
    is_slow: bool,
}

impl RoundTrip {
    /// Nothing is known.
    pub const fn new() -> Self {
        Self {
            smoothed_8: 0,
            deviation_4: 0,
            least: Span(u32::MAX),
            least_at: Instant(0),
            timeout: FIRST_TIMEOUT,
            doublings: 0,
            is_slow: false,
        }
    }

    /// Takes a measurement: `time` passed between a segment and its acknowledgement. Segments that
    /// were sent twice have none (RFC 6298, §3), unless timestamps tell which one it was. `count`
    /// is how many measurements a round trip brings: each has that part of the usual weight (RFC
    /// 7323, appendix G).
    #[inline]
    pub fn measure(&mut self, time: Span, now: Instant, count: u32) {
        // Bounded so that sums of it cannot overflow: a round trip of a minute is none.
        let sample = time.0.clamp(1, LONGEST_TIMEOUT.0);
        if sample <= self.least.0 || now.since(self.least_at) > MEMORY {
            (self.least, self.least_at) = (Span(sample), now);
        }
        self.doublings = 0;
        if self.smoothed_8 == 0 {
            (self.smoothed_8, self.deviation_4) = (sample * 8, sample * 2);
            self.timeout = self.base_timeout();
            return;
        }
        let count = count.clamp(1, 64);
        let smoothed = self.smoothed_8 / 8;
        let off = sample.abs_diff(smoothed);
        let deviation = self.deviation_4 / 4;
        self.deviation_4 = approach(self.deviation_4, deviation, off, count);
        self.smoothed_8 = approach(self.smoothed_8, smoothed, sample, count).max(8);
        self.timeout = self.base_timeout();
    }

    /// Returns the smoothed round-trip time; `None` before the first measurement.
    #[inline]
    pub fn smoothed(&self) -> Option<Span> {
        (self.smoothed_8 != 0).then_some(Span(self.smoothed_8 / 8))
    }

    /// Returns the least round trip of late; `None` before the first measurement.
    #[inline]
    pub fn least(&self) -> Option<Span> {
        (self.smoothed_8 != 0).then_some(self.least)
    }

    /// Returns the timeout without backing off.
    #[inline]
    pub fn base_timeout(&self) -> Span {
        if self.smoothed_8 == 0 {
            return if self.is_slow { CAREFUL_TIMEOUT } else { FIRST_TIMEOUT };
        }
        let timeout = self.smoothed_8 / 8 + self.deviation_4.max(1000);
        Span(timeout.clamp(SHORTEST_TIMEOUT.0, LONGEST_TIMEOUT.0))
    }

    /// Returns the retransmission timeout.
    #[inline]
    pub fn timeout(&self) -> Span {
        self.timeout
    }

    fn update_timeout(&mut self) {
        self.timeout = self.base_timeout().times(1 << self.doublings.min(12)).min(LONGEST_TIMEOUT);
    }

    /// Notes that the SYN was sent again: the path may be slow, until a measurement says otherwise.
    pub fn distrust(&mut self) {
        self.is_slow = true;
        self.update_timeout();
    }

    /// Doubles the timeout: it has passed (RFC 6298, §5.5).
    pub fn back_off(&mut self) {
        self.doublings = self.doublings.saturating_add(1);
        self.update_timeout();
    }

    /// Takes the timeout back to what was measured: there is progress.
    pub fn end_back_off(&mut self) {
        self.doublings = 0;
        self.update_timeout();
    }
}

impl Default for RoundTrip {
    fn default() -> Self {
        Self::new()
    }
}

/// Moves `scaled`, a multiple of `mean`, by the difference of `sample` and `mean`, divided by
/// `count`.
#[inline]
fn approach(scaled: u32, mean: u32, sample: u32, count: u32) -> u32 {
    if sample >= mean {
        scaled.saturating_add((sample - mean) / count)
    } else {
        scaled.saturating_sub((mean - sample) / count)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const fn ms(milliseconds: u32) -> Span {
        Span::from_milliseconds(milliseconds)
    }

    #[test]
    fn the_first_measurement_is_taken_whole() {
        let mut trip = RoundTrip::new();
        assert_eq!((trip.timeout(), trip.smoothed()), (Span::from_seconds(1), None));
        trip.measure(ms(400), Instant(0), 1);
        // RTO = SRTT + 4 × RTTVAR, with RTTVAR = SRTT / 2 (RFC 6298, §2.2).
        assert_eq!((trip.smoothed(), trip.timeout()), (Some(ms(400)), ms(1200)));
    }

    #[test]
    fn the_next_ones_weigh_an_eighth_and_a_quarter() {
        let mut trip = RoundTrip::new();
        trip.measure(ms(400), Instant(0), 1);
        trip.measure(ms(480), Instant(0), 1);
        // RTTVAR = 3/4 × 200 + 1/4 × 80 = 170; SRTT = 7/8 × 400 + 1/8 × 480 = 410 (§2.3).
        assert_eq!((trip.smoothed(), trip.timeout()), (Some(ms(410)), ms(410 + 4 * 170)));
    }

    #[test]
    fn the_timeout_doubles_until_it_is_the_longest() {
        let mut trip = RoundTrip::new();
        trip.measure(ms(400), Instant(0), 1);
        trip.back_off();
        assert_eq!(trip.timeout(), ms(2400));
        for _ in 0..300 {
            trip.back_off();
        }
        assert_eq!(trip.timeout(), LONGEST_TIMEOUT);
        trip.end_back_off();
        assert_eq!(trip.timeout(), ms(1200));
    }

    #[test]
    fn the_least_is_forgotten_after_a_while() {
        let mut trip = RoundTrip::new();
        trip.measure(ms(10), Instant(0), 1);
        trip.measure(ms(30), Instant(1_000_000), 1);
        assert_eq!(trip.least(), Some(ms(10)));
        trip.measure(ms(30), Instant(301_000_000), 1);
        assert_eq!(trip.least(), Some(ms(30)));
    }

    proptest! {
        #[test]
        fn the_timeout_is_between_its_bounds(samples in prop::collection::vec((any::<u32>(), any::<u32>()), 1..50)) {
            let mut trip = RoundTrip::new();
            let (mut low, mut high) = (u32::MAX, 0);
            for (sample, count) in samples {
                let sample = sample.clamp(1, LONGEST_TIMEOUT.0);
                (low, high) = (low.min(sample), high.max(sample));
                trip.measure(Span(sample), Instant(0), count);
                let smoothed = trip.smoothed().unwrap();
                prop_assert!(smoothed.0 <= high && smoothed.0 + 8 >= low);
                prop_assert!(trip.timeout() >= SHORTEST_TIMEOUT && trip.timeout() <= LONGEST_TIMEOUT);
                prop_assert_eq!(trip.least(), Some(Span(low)));
            }
        }
    }
}
