//! How often the stack says by ICMP that something is not there.
//!
//! Nobody waits for such an answer, and who sends what causes it may lie about where he is. So they
//! are limited, by a bucket of tokens as RFC 1812 §4.3.2.8 and RFC 4443 §2.4 (f) have it; echo
//! replies are not errors.

use culm::time::{Duration, Instant};

/// Errors that can be sent at once.
const BURST: u64 = 50;

/// The time in which one more may be sent.
const INTERVAL: Duration = Duration::from_millis(1);

/// The bucket.
pub(super) struct Errors {
    left: u64,
    /// Up to when tokens came in.
    since: Instant,
}

impl Errors {
    /// A full one.
    pub(super) fn new(now: Instant) -> Self {
        Self { left: BURST, since: now }
    }

    /// Whether one more error may be sent. It counts as sent then.
    #[cold]
    pub(super) fn may_send(&mut self, now: Instant) -> bool {
        let came = (now.since(self.since).as_micros() / INTERVAL.as_micros()) as u64;
        if came > 0 {
            self.left = self.left.saturating_add(came).min(BURST);
            self.since = now;
        }
        let may = self.left > 0;
        self.left -= u64::from(may);
        may
    }
}
