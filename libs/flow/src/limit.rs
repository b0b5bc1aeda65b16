//! How often a router answers packets that it cannot forward.
//!
//! RFC 1812 §4.3.2.8 and RFC 4443 §2.4 f require a limit. One for all would let a single sender use
//! it up, and no other would learn why its packets vanish: path MTU discovery would fail for
//! everybody. So senders share buckets by a keyed hash of their address, and beside that all of
//! them one bound.

use crate::hash::Key;
use crate::sources;
use core::net::IpAddr;

/// Buckets that senders share.
const BUCKETS: usize = 256;

/// Milliseconds of a second.
const SECOND: u64 = 1000;

/// Limits of what is sent in answer: per sender, and in all.
#[derive(Clone, Debug)]
pub struct Limits {
    key: Key,
    each: Rate,
    all: Rate,
    buckets: [Bucket; BUCKETS],
    common: Bucket,
}

/// How much may be sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Rate {
    /// Answers in a second, in the long run.
    pub per_second: u32,
    /// Answers at once, after a while without any. 0 sends none ever.
    pub burst: u32,
}

/// Thousandths of answers that may be sent, as of a moment.
#[derive(Clone, Copy, Debug, Default)]
struct Bucket {
    tokens: u64,
    at: u64,
}

impl Bucket {
    /// Fills the bucket with what has come since, and returns whether it has an answer.
    fn fill(&mut self, rate: Rate, now: u64) -> bool {
        let since = now.saturating_sub(self.at);
        let most = u64::from(rate.burst) * SECOND;
        self.tokens = since.saturating_mul(rate.per_second.into()).saturating_add(self.tokens).min(most);
        self.at = now.max(self.at);
        self.tokens >= SECOND
    }
}

impl Limits {
    /// Limits of which nothing is used. Of a sender's bucket, `each` is filled a second, of the
    /// common one `all`; the key is for choosing senders' buckets.
    pub fn new(key: Key, each: Rate, all: Rate) -> Self {
        let full = |rate: Rate| Bucket { tokens: u64::from(rate.burst) * SECOND, at: 0 };
        Self { key, each, all, buckets: [full(each); BUCKETS], common: full(all) }
    }

    /// Returns whether `to` may be sent an answer at `now`, in milliseconds, and counts it if so.
    pub fn take(&mut self, to: IpAddr, now: u64) -> bool {
        let words = sources::prefix(to);
        let Some(bucket) = self.buckets.get_mut(self.key.hash(&words) as usize % BUCKETS) else { return false };
        // Both are filled in any case; what one refuses is not taken from the other.
        let may = bucket.fill(self.each, now) & self.common.fill(self.all, now);
        if may {
            bucket.tokens -= SECOND;
            self.common.tokens -= SECOND;
        }
        may
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::vec::Vec;

    const EACH: Rate = Rate { per_second: 10, burst: 3 };
    const ALL: Rate = Rate { per_second: 1000, burst: 50 };

    fn host(number: u32) -> IpAddr {
        IpAddr::V4(number.into())
    }

    #[test]
    fn one_sender_does_not_use_up_the_answers_of_another() {
        let mut limits = Limits::new(Key([1, 2]), EACH, ALL);
        assert_eq!((0..1000).filter(|_| limits.take(host(1), 5)).count(), 3);
        assert!(limits.take(host(2), 5));
        assert!(!limits.take(host(1), 104) && limits.take(host(1), 105));
    }

    #[test]
    fn hosts_of_one_net_of_ipv6_are_one_sender() {
        let mut limits = Limits::new(Key([1, 2]), EACH, ALL);
        let host = |number: u16| IpAddr::from([0x2001, 0xdb8, 0, 0, number, 0, 0, 1]);
        assert_eq!((0..1000).filter(|number| limits.take(host(*number), 5)).count(), 3);
    }

    #[test]
    fn a_clock_that_stands_or_goes_back_gives_nothing() {
        let mut limits = Limits::new(Key([1, 2]), EACH, ALL);
        assert_eq!((0..100).filter(|step| limits.take(host(1), 100 - step)).count(), 3);
        assert!(!limits.take(host(1), 150));
    }

    proptest! {
        #[test]
        fn no_stretch_of_time_has_more_than_burst_and_rate(
            steps in prop::collection::vec((0..400_u64, 0..40_u32), 1..100),
        ) {
            let mut limits = Limits::new(Key([1, 2]), EACH, ALL);
            let (mut now, mut sent) = (0, Vec::new());
            for (pause, sender) in steps {
                now += pause;
                if limits.take(host(sender), now) {
                    sent.push((now, sender));
                }
            }
            for (index, (from, sender)) in sent.iter().enumerate() {
                let later = || sent.iter().skip(index);
                for (until, _) in later() {
                    let all = later().filter(|(at, _)| at <= until).count() as u64;
                    prop_assert!(all <= 50 + (until - from), "all together");
                    let own = later().filter(|(at, other)| at <= until && other == sender).count() as u64;
                    prop_assert!(own <= 3 + (until - from).div_ceil(100), "one sender");
                }
            }
        }
    }
}
