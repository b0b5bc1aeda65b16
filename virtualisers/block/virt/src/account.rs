//! The account of failed flushes, in a word that outlives the virtualiser.
//!
//! A driver counts the flushes that have failed ([`Disk::failures`]). Up to which count they were
//! answered stands here, and whether each client that they concern was told. So the next life finds
//! a failure whose answer the previous one took, or never took, and tells all.
//!
//! [`Disk::failures`]: culm_block::Disk::failures

use core::sync::atomic::AtomicU64;
use core::sync::atomic::Ordering::Relaxed;
use culm::Region;
use culm_block::Disk;

/// The count up to which failures were answered; 0 before it is known.
const COUNT: u64 = 0x7f;

/// Somebody may not have been told of one of them.
const UNTOLD: u64 = 1 << 8;

/// The account.
#[derive(Debug)]
pub struct Account {
    word: &'static AtomicU64,
}

impl Account {
    /// Takes the account up that the previous life left in `memory`. Returns `None` if that is too
    /// small.
    pub fn new(memory: &Region) -> Option<Self> {
        memory.atomic_u64(0).ok().map(|word| Self { word })
    }

    fn count(&self) -> u8 {
        (self.word.load(Relaxed) & COUNT) as u8
    }

    /// Compares what is recorded with a driver's count of failures: returns whether it has failed
    /// nothing else. One that does not count says 0. The first count of all is recorded.
    pub fn compare(&self, failures: u8) -> bool {
        if self.count() == 0 && !self.is_untold() {
            self.word.store(failures.into(), Relaxed);
        }
        failures == 0 || self.count() == failures
    }

    /// Records that failures up to this count are to be told.
    pub fn record(&self, failures: u8) {
        self.word.store(u64::from(failures) | UNTOLD, Relaxed);
    }

    /// Records that a flush was answered so: the driver counts one more, if it counts.
    pub fn record_next(&self) {
        let count = self.count();
        self.record(if count == 0 { 0 } else { Disk::next_failure(count) });
    }

    /// Returns whether somebody may not have been told of a failure.
    #[inline(always)]
    pub fn is_untold(&self) -> bool {
        self.word.load(Relaxed) & UNTOLD != 0
    }

    /// Records that everybody is told.
    pub fn mark_told(&self) {
        self.word.store(self.count().into(), Relaxed);
    }
}
