//! Proportional rate reduction (RFC 6937): how the window comes down in a recovery, evenly over a
//! round trip, and up again where more was lost than that takes away.

/// One recovery's account.
#[derive(Clone, Copy, Debug)]
pub struct ReductionRate {
    /// Bytes unacknowledged when the recovery began (RecoverFS).
    at_start: u32,
    /// Bytes that have arrived since (prr_delivered).
    delivered: u64,
    /// Bytes sent since (prr_out).
    sent: u64,
}

impl ReductionRate {
    /// Begins a recovery with `in_flight` bytes unacknowledged.
    pub fn new(in_flight: u32) -> Self {
        Self { at_start: in_flight.max(1), delivered: 0, sent: 0 }
    }

    /// Returns the window in bytes after an acknowledgement that told of `delivered` more bytes,
    /// while `on_the_way` bytes are (pipe). Reduction bound SSRB (§3.1): where less is on the way
    /// than the threshold allows, it grows as in slow start.
    pub fn acknowledged(&mut self, delivered: u32, on_the_way: u32, threshold: u32, segment: u32) -> u32 {
        self.delivered += u64::from(delivered);
        let more = if on_the_way > threshold {
            let share = (self.delivered * u64::from(threshold)).div_ceil(self.at_start.into());
            share.saturating_sub(self.sent)
        } else {
            let bound = self.delivered.saturating_sub(self.sent).max(delivered.into()) + u64::from(segment);
            bound.min((threshold - on_the_way).into())
        };
        // The first retransmission must not wait for what comes in later (§3, "fast retransmit").
        let more = if self.sent == 0 { more.max(segment.into()) } else { more };
        on_the_way.saturating_add(u32::try_from(more).unwrap_or(u32::MAX))
    }

    /// Notes that `bytes` were sent.
    #[inline]
    pub fn sent(&mut self, bytes: u32) {
        self.sent += u64::from(bytes);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_window_comes_down_evenly() {
        // 20 segments on the way, the first is lost; 10 may stay. Of each two that arrive, one goes
        // out, until 10 are on the way (RFC 6937, §3.2, first example).
        let mut rate = ReductionRate::new(20_000);
        let (mut on_the_way, mut sent) = (19_000_u32, 0);
        for _ in 0..19 {
            on_the_way -= 1000;
            let window = rate.acknowledged(1000, on_the_way, 10_000, 1000);
            while on_the_way + 1000 <= window {
                on_the_way += 1000;
                sent += 1000;
                rate.sent(1000);
            }
        }
        assert!((9_000..=10_000).contains(&sent), "{sent}");
        assert!((9_000..=10_000).contains(&on_the_way), "{on_the_way}");
    }

    #[test]
    fn after_heavy_losses_it_grows_as_in_slow_start() {
        // 20 on the way, 16 lost: 4 left, 10 allowed.
        let mut rate = ReductionRate::new(20_000);
        assert_eq!(rate.acknowledged(1000, 3000, 10_000, 1000), 5000);
        rate.sent(2000);
        assert_eq!(rate.acknowledged(1000, 4000, 10_000, 1000), 6000);
        rate.sent(100_000);
        assert_eq!(rate.acknowledged(1000, 9_900, 10_000, 1000), 10_000);
    }

    #[test]
    fn the_first_retransmission_does_not_wait() {
        let mut rate = ReductionRate::new(20_000);
        assert!(rate.acknowledged(0, 19_000, 10_000, 1000) >= 20_000);
    }
}
