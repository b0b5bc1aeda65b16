//! How many of those whose SYN was answered are still expected to come.
//!
//! A SYN takes no place, but who is told that he may come does. Where more are told so than there
//! are places for, those that find none send their requests again and again, all of which is read
//! in vain: the more are asked in, the fewer are served. So no more are told than there is room
//! for, counting those who are on their way.
//!
//! Of a flood nobody comes. It must not look like a crowd, or it would lock out all others; so what
//! counts is the share of those told that has come lately. Who was told is forgotten after a
//! quarter of a second, in four generations.

use culm::time::{Duration, Instant};

/// How long a generation lasts.
const GENERATION: Duration = Duration::from_millis(64);

/// Generations that are expected.
const GENERATIONS: usize = 4;

/// All, of [`Promises::share`].
const ALL: u32 = 256;

/// Those who were told that they may come.
pub(super) struct Promises {
    /// Youngest first.
    generations: [Generation; GENERATIONS],
    /// When the youngest is complete.
    ends: Instant,
    /// How many come of those who are told so, of [`ALL`].
    share: u32,
}

#[derive(Clone, Copy, Default)]
struct Generation {
    told: u32,
    came: u32,
}

impl Generation {
    fn expected(&self) -> u32 {
        self.told - self.came
    }
}

impl Promises {
    /// Nobody. As long as nothing else is known, all are taken to come who are told so.
    pub(super) fn new() -> Self {
        Self { generations: [Generation::default(); GENERATIONS], ends: Instant::default(), share: ALL }
    }

    /// Somebody is told that he may come.
    pub(super) fn tell(&mut self, now: Instant) {
        self.turn(now);
        self.generations[0].told += 1;
    }

    /// Somebody comes: one of those who were told first.
    pub(super) fn come(&mut self, now: Instant) {
        self.turn(now);
        if let Some(oldest) = self.generations.iter_mut().rev().find(|generation| generation.expected() > 0) {
            oldest.came += 1;
        }
    }

    /// How many are expected still.
    #[inline(never)]
    pub(super) fn expected(&mut self, now: Instant) -> usize {
        self.turn(now);
        let told: u32 = self.generations.iter().map(Generation::expected).sum();
        (u64::from(told) * u64::from(self.share) / u64::from(ALL)) as usize
    }

    /// Whether most of those who were told do not come.
    pub(super) fn is_flood(&self) -> bool {
        self.share < ALL / 2
    }

    /// Begins new generations where it is time.
    fn turn(&mut self, now: Instant) {
        for _ in 0..GENERATIONS {
            if now < self.ends {
                return;
            }
            self.generations.rotate_right(1);
            let gone = core::mem::take(&mut self.generations[0]);
            if let Some(share) = (gone.came * ALL).checked_div(gone.told) {
                self.share = (self.share + share) / 2;
            }
            self.ends += GENERATION;
        }
        // Nothing has happened for long.
        self.ends = self.ends.max(now + GENERATION);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(milliseconds: u64) -> Instant {
        Instant::default() + Duration::from_millis(1_000_000 + milliseconds)
    }

    #[test]
    fn who_is_told_is_expected_until_he_comes_or_is_forgotten() {
        let mut promises = Promises::new();
        (0..100).for_each(|_| promises.tell(at(0)));
        (0..40).for_each(|_| promises.come(at(10)));
        assert_eq!(promises.expected(at(10)), 60);
        assert_eq!(promises.expected(at(190)), 60);
        assert_eq!(promises.expected(at(400)), 0);
        // Who comes unexpectedly, or for the second time, is nobody who was told.
        promises.come(at(400));
        promises.tell(at(500));
        assert!(promises.expected(at(500)) <= 1);
    }

    #[test]
    fn of_a_flood_nobody_is_expected() {
        let mut promises = Promises::new();
        let mut told = 0;
        for now in 0..2000 {
            // As many as are let in where there are a hundred places.
            while promises.expected(at(now)) < 100 && told < 10 * now {
                promises.tell(at(now));
                told += 1;
            }
        }
        assert!(promises.is_flood());
        assert!(told > 15_000, "the flood is answered, and with it whoever is in it: {told}");
        // After the flood, those who are told come, so that they count again.
        for now in 2000..3000 {
            promises.tell(at(now));
            promises.come(at(now));
        }
        (0..100).for_each(|_| promises.tell(at(3000)));
        assert!(promises.expected(at(3000)) > 90 && !promises.is_flood());
    }

    #[test]
    fn a_long_way_is_no_reason_to_expect_nobody() {
        let mut promises = Promises::new();
        for now in 0..5000 {
            promises.tell(at(now));
            if now >= 700 {
                promises.come(at(now));
            }
        }
        (0..100).for_each(|_| promises.tell(at(5000)));
        assert!(promises.expected(at(5000)) > 80);
    }
}
