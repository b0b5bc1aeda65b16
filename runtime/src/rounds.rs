//! The rounds of a turn.
//!
//! A component that moves entries between queues works in *rounds*: it moves what it finds,
//! publishes that once, and announces that it sleeps. If something came meanwhile, nobody may
//! notify, so it begins another round. A turn takes a bounded number of them, then lets others of
//! the same priority have theirs.

use crate::{time, wake_at};
pub use culm_queue::Progress;

/// Rounds in one turn of a component whose round moves all that its queues hold.
pub const ROUNDS: u32 = 8;

/// Takes rounds until one ends asleep, at most `count` ([`ROUNDS`], unless rounds are short). If
/// none does, asks for another turn as soon as others of the same priority had theirs.
#[inline(always)]
pub fn run_rounds(count: u32, mut round: impl FnMut() -> Progress) {
    for _ in 0..count {
        if round().is_asleep() {
            return;
        }
    }
    wake_at(time::now());
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing;

    #[test]
    fn a_turn_ends_with_the_round_that_ends_asleep() {
        let mut left = 3;
        run_rounds(ROUNDS, || {
            left -= 1;
            Progress::more_if(left > 0)
        });
        assert_eq!((left, testing::deadline()), (0, None));
    }

    #[test]
    fn a_turn_without_end_asks_for_another() {
        testing::set_time(time::Instant::from_ticks(700));
        let mut rounds = 0;
        run_rounds(5, || {
            rounds += 1;
            Progress::More
        });
        assert_eq!((rounds, testing::deadline()), (5, Some(time::now())));
    }
}
