//! How long frames of a busy guest are put off, both ways.
//!
//! A look at its queues takes the core from the guest: for a turn of the monitor, the way there and
//! back, and often an interrupt. So looks are so far apart that they take little of the time: the
//! longer, the slower the machine is. An emulator that shares its host does in a millisecond what a
//! processor does in a few hundredths of one, which is hardly worth a look.

use culm::time::{self, Duration, Instant};

/// The least time: what a frame may wait for on any machine.
const LEAST: Duration = Duration::from_millis(1);

/// The most time, however slow the machine is.
const MOST: Duration = Duration::from_millis(4);

/// How many times as long as a look the time to the next one is, within these bounds.
const LOOKS: u64 = 64;

/// What a new look counts for, of all that there were: one of so many. A single long one can be
/// one that was interrupted.
const OF: u64 = 8;

/// The time for which frames are put off, by how long looks took lately.
#[derive(Debug)]
pub struct PutOff {
    ticks: u64,
    least: u64,
    most: u64,
}

impl PutOff {
    /// Begins with the least time.
    pub fn new() -> Self {
        let [least, most] = [LEAST, MOST].map(time::ticks);
        Self { ticks: least, least, most }
    }

    /// Returns the time until which a frame of now is put off at most.
    pub fn from(&self, now: Instant) -> Instant {
        Instant::from_ticks(now.ticks().saturating_add(self.ticks))
    }

    /// Learns how long a look took.
    pub fn learn(&mut self, begin: Instant, end: Instant) {
        let spent = end.ticks().saturating_sub(begin.ticks());
        let wanted = spent.saturating_mul(LOOKS).clamp(self.least, self.most);
        self.ticks = self.ticks - self.ticks / OF + wanted / OF;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The time in units of the least, after so many looks of this many microseconds.
    fn after(put_off: &mut PutOff, looks: u32, microseconds: u64) -> f64 {
        let begin = Instant::from_ticks(7);
        (0..looks).for_each(|_| put_off.learn(begin, begin + Duration::from_micros(microseconds)));
        let until = put_off.from(begin).ticks() - begin.ticks();
        until as f64 / time::ticks(LEAST) as f64
    }

    #[test]
    fn the_time_follows_how_long_looks_take_within_bounds() {
        let mut put_off = PutOff::new();
        let near = |time: f64, expected: f64| assert!((time - expected).abs() < 0.05, "{time}, not {expected}");
        near(after(&mut put_off, 0, 0), 1.0);
        near(after(&mut put_off, 100, 2), 1.0);
        near(after(&mut put_off, 1, 10_000), 1.375);
        near(after(&mut put_off, 100, 40), 2.56);
        near(after(&mut put_off, 100, 10_000), 4.0);
        near(after(&mut put_off, 100, 0), 1.0);
    }

    #[test]
    fn a_clock_that_steps_back_harms_nothing() {
        let mut put_off = PutOff::new();
        put_off.learn(Instant::from_ticks(9), Instant::default());
        put_off.learn(Instant::default(), Instant::NEVER);
        assert_eq!(put_off.from(Instant::NEVER), Instant::NEVER);
    }
}
