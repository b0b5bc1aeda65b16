//! Storm control: how many frames for many a port may send in a second. A loop, a broken station or
//! a scan sends as many as it can, each is copied to every other port, and so costs everybody.

/// What is counted apart: each has the port's whole rate.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// For all stations.
    Broadcast,
    /// For a group of stations.
    Multicast,
    /// For one station of which nobody knows where it is.
    Unknown,
}

/// Parts of a frame in which tokens are counted: the nanoseconds of a second, so that a rate is
/// parts in a nanosecond.
const FRAME: u64 = 1_000_000_000;

/// A token bucket: it holds the frames of a quarter of a second, one at least.
#[derive(Clone, Copy, Debug)]
struct Bucket {
    tokens: u64,
    /// When they were counted, in nanoseconds.
    at: u64,
}

/// The rates of one port.
#[derive(Clone, Debug)]
pub struct Storm {
    /// Frames in a second; `None`: as many as come.
    rate: Option<u32>,
    buckets: [Bucket; 3],
}

impl Storm {
    /// Creates the control of a port that may send so many frames of each kind in a second.
    pub fn new(rate: Option<u32>) -> Self {
        let full = Bucket { tokens: rate.map_or(0, most), at: 0 };
        Self { rate, buckets: [full; 3] }
    }

    /// Returns whether a frame of this kind may pass at `now`, in nanoseconds, and counts it then.
    pub fn admits(&mut self, kind: Kind, now: u64) -> bool {
        let Some(rate) = self.rate else { return true };
        let bucket = &mut self.buckets[kind as usize];
        let elapsed = now.saturating_sub(bucket.at);
        let grown = elapsed.saturating_mul(rate.into()).saturating_add(bucket.tokens);
        (bucket.tokens, bucket.at) = (grown.min(most(rate)), now.max(bucket.at));
        let is_admitted = bucket.tokens >= FRAME;
        if is_admitted {
            bucket.tokens -= FRAME;
        }
        is_admitted
    }
}

/// Returns what a bucket holds at most.
fn most(rate: u32) -> u64 {
    (u64::from(rate) * (FRAME / 4)).max(FRAME)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn each_kind_has_the_whole_rate() {
        let mut storm = Storm::new(Some(4));
        for kind in [Kind::Broadcast, Kind::Multicast, Kind::Unknown] {
            assert!(storm.admits(kind, 0));
            assert!(!storm.admits(kind, 0));
            assert!(!storm.admits(kind, 249_999_999));
            assert!(storm.admits(kind, 250_000_000));
        }
    }

    #[test]
    fn without_a_rate_all_pass() {
        let mut storm = Storm::new(None);
        assert!((0..1000).all(|_| storm.admits(Kind::Broadcast, 0)));
    }

    proptest! {
        /// However frames come, also where time seems to go back, no more pass than the bucket
        /// holds and the rate brings.
        #[test]
        fn the_rate_is_kept(rate in 1_u32..1_000_000, steps in prop::collection::vec((0_u64..1_000_000_000, any::<bool>()), 1..300)) {
            let mut storm = Storm::new(Some(rate));
            let (mut now, mut passed) = (0_u64, 0_u64);
            for (step, is_back) in steps {
                now += step;
                let seen = if is_back { now.saturating_sub(step) } else { now };
                for _ in 0..2 {
                    passed += u64::from(storm.admits(Kind::Multicast, seen));
                }
                let most = u128::from(now) * u128::from(rate) / u128::from(FRAME) + u128::from(rate).div_ceil(4) + 1;
                prop_assert!(u128::from(passed) <= most);
            }
        }
    }
}
