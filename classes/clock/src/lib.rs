//! The clock class: time of day for whoever asks.
//!
//! Everybody has the same system counter, read without a system call ([`culm::time`]). What is
//! missing is when it was zero. The provider shows that in a word that clients have mapped
//! read-only: nanoseconds from 1970 to the counter's zero, all in UTC; 0 until it knows. So asking
//! costs no call and reaches nobody, on whichever core the provider is.
//!
//! A provider that shows nonsense makes its clients say nonsense, and no more: every value of the
//! word is a time of day.

#![no_std]
#![forbid(unsafe_code)]

pub mod calendar;

pub use calendar::TimeOfDay;

use core::sync::atomic::{AtomicU64, Ordering};
use culm::Region;
use culm::connection::{ClockClient, ClockProvider};
use culm::time::{self, Duration, Instant};

/// Where the word is in what is shown.
const ZERO: usize = 0;

/// A client's view of a clock.
#[derive(Clone, Copy, Debug)]
pub struct Clock(&'static AtomicU64);

impl Clock {
    /// Creates the client's side of `connection`.
    ///
    /// # Panics
    ///
    /// If `connection` gives no memory, which those of a start block do.
    pub fn new(connection: ClockClient) -> Self {
        Self(word(&Region::read_only(connection.shown)))
    }

    /// Returns the time of day; `None` until the provider knows it.
    pub fn now(&self) -> Option<TimeOfDay> {
        self.at(time::now())
    }

    /// Returns the time of day at a moment.
    pub fn at(&self, moment: Instant) -> Option<TimeOfDay> {
        since_1970(self.0, moment).map(TimeOfDay::new)
    }
}

/// A provider's side: what its clients read.
#[derive(Clone, Copy, Debug)]
pub struct Face(&'static AtomicU64);

impl Face {
    /// Creates the provider's side of `connection`. What an earlier life showed stays.
    ///
    /// # Panics
    ///
    /// If `connection` gives no memory, which those of a start block do.
    pub fn new(connection: ClockProvider) -> Self {
        Self(word(&Region::new(connection.shown)))
    }

    /// Returns the time of day at a moment, since 1970, as clients are shown it; `None` until
    /// something was shown.
    pub fn shown(&self, moment: Instant) -> Option<Duration> {
        since_1970(self.0, moment)
    }

    /// Shows that it is this time of day, since 1970, at a moment.
    pub fn show(&self, since_1970: Duration, moment: Instant) {
        let zero = since_1970.saturating_sub(moment.since_start());
        self.0.store(u64::try_from(zero.as_nanos()).unwrap_or(u64::MAX), Ordering::Relaxed);
    }
}

/// Returns the time at a moment, since 1970, as the word tells it.
fn since_1970(word: &AtomicU64, moment: Instant) -> Option<Duration> {
    let zero = word.load(Ordering::Relaxed);
    (zero != 0).then(|| Duration::from_nanos(zero).saturating_add(moment.since_start()))
}

fn word(shown: &Region) -> &'static AtomicU64 {
    shown.atomic_u64(ZERO).expect("a start block gives a page")
}

#[cfg(test)]
mod tests {
    use super::*;
    use culm_abi::start::Memory;
    use proptest::prelude::*;

    extern crate std;

    fn pair() -> (Face, Clock) {
        let words = std::boxed::Box::leak(std::boxed::Box::new([const { AtomicU64::new(0) }; 8]));
        let shown = Memory { address: words.as_ptr().addr() as u64, size: 64, dma: 0 };
        (Face::new(ClockProvider { shown }), Clock::new(ClockClient { shown }))
    }

    #[test]
    fn nobody_knows_the_time_before_it_is_shown() {
        let (face, clock) = pair();
        assert!(clock.now().is_none() && face.shown(time::now()).is_none());
        let moment = Instant::default() + Duration::from_secs(7);
        face.show(Duration::from_secs(1_000_000_000), moment);
        let later = clock.at(moment + Duration::from_millis(1500)).expect("it is shown");
        assert_eq!(std::format!("{later}"), "2001-09-09T01:46:41.500Z");
        assert_eq!(face.shown(moment), Some(Duration::from_secs(1_000_000_000)));
    }

    proptest! {
        #[test]
        fn every_word_is_a_time(word: u64, ticks: u64) {
            let (_, clock) = pair();
            clock.0.store(word, Ordering::Relaxed);
            if let Some(time) = clock.at(Instant::from_ticks(ticks)) {
                let _ = std::format!("{time} {}", time.http());
            }
        }
    }
}
