//! CUBIC's aim (RFC 9438): what the window was before the last loss, approached and left by the
//! cube of time.

use crate::time::{Instant, Span};

/// The longest time that the cube is taken of, in milliseconds: it has 112,000 segments by then.
const LONGEST: u64 = 1 << 16;

/// The time since the last loss, and the window that was lost by.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Cubic {
    /// Where the plateau of the cube is, in bytes (W_max).
    plateau: u32,
    /// The window before the last loss, in bytes (cwnd_prior).
    prior: u32,
    /// The time since which the window grows, and what follows from the window at that time; `None`
    /// until it does.
    epoch: Option<Epoch>,
}

#[derive(Clone, Copy, Debug)]
struct Epoch {
    start: Instant,
    /// When the window last grew: time in which it was not what held the sender back does not count
    /// (§5.8).
    last: Instant,
    /// Milliseconds from the start until the plateau is reached (K).
    delay: u64,
    /// What Reno would have, in bytes (W_est), and what it has of the next byte, times the window.
    reno: u32,
    credit: u64,
}

impl Cubic {
    /// Notes a loss at `window` (§4.6, §4.7).
    pub fn lost(&mut self, window: u32) {
        // Fast convergence: one that has lost again before it was back makes way for others.
        let makes_way = window < self.plateau;
        self.plateau = if makes_way { (u64::from(window) * 17 / 20) as u32 } else { window };
        self.prior = window;
        self.epoch = None;
    }

    pub fn idle(&mut self) {
        self.epoch = None;
    }

    /// Returns the window to aim at within a round trip, at least `window`, after `bytes` were
    /// acknowledged.
    pub fn acknowledged(&mut self, bytes: u32, window: u32, segment: u32, now: Instant, round_trip: Span) -> u32 {
        let epoch = self.epoch.get_or_insert_with(|| {
            self.plateau = self.plateau.max(window);
            let missing = u64::from(self.plateau - window);
            // K is the cube root of the missing segments / 0.4, in seconds (§4.2).
            let delay = cube_root(missing * 2_500_000_000 / u64::from(segment));
            Epoch { start: now, last: now, delay, reno: window, credit: 0 }
        });
        let pause = now.since(epoch.last);
        if pause > round_trip {
            epoch.start = epoch.start + (pause - round_trip);
        }
        epoch.last = now;

        let elapsed = now.since(epoch.start) + round_trip;
        let cube = cube(u64::from(elapsed.0 / 1000), epoch.delay, segment);
        let curve = (i64::from(self.plateau) + cube).clamp(0, u32::MAX.into()) as u32;

        // Reno's share beside one that halves: 9/17 of a segment each round trip, and a whole one
        // once it is where it was (§4.3).
        let share = if epoch.reno < self.prior { 9 } else { 17 };
        epoch.credit += u64::from(bytes.min(window)) * u64::from(segment) * share / 17;
        let gain = epoch.credit / u64::from(window);
        epoch.credit %= u64::from(window);
        epoch.reno = epoch.reno.saturating_add(gain as u32);

        // Where Reno is faster, its window is what counts, whatever it takes to get there.
        let most = window.saturating_add(window / 2);
        if curve < epoch.reno { epoch.reno.clamp(window, most) } else { curve.clamp(window, most) }
    }
}

/// Returns 0.4 segments times the cube of the seconds from `delay` to `elapsed`, both in
/// milliseconds, in bytes; below 0 before `delay`.
fn cube(elapsed: u64, delay: u64, segment: u32) -> i64 {
    let distance = elapsed.abs_diff(delay).min(LONGEST);
    // 0.4 / 1000³ is 1 / (2500 × 1,000,000); in two steps, so that 64 bits suffice.
    let bytes = (distance * distance * distance / 2500 * u64::from(segment) / 1_000_000) as i64;
    if elapsed < delay { -bytes } else { bytes }
}

/// Returns the cube root, rounded down.
fn cube_root(number: u64) -> u64 {
    let mut root = 0_u64;
    for bit in (0..=21).rev() {
        let next = root | 1 << bit;
        if next.checked_pow(3).is_some_and(|cube| cube <= number) {
            root = next;
        }
    }
    root
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn a_cube_root_is_the_largest_whose_cube_fits(number: u64) {
            let root = u128::from(cube_root(number));
            prop_assert!(root.pow(3) <= number.into() && (root + 1).pow(3) > number.into());
        }
    }

    #[test]
    fn who_loses_again_before_being_back_makes_way() {
        let mut cubic = Cubic::default();
        cubic.lost(100_000);
        assert_eq!(cubic.plateau, 100_000);
        cubic.lost(90_000);
        assert_eq!(cubic.plateau, 76_500);
    }

    #[test]
    fn time_in_which_the_window_did_not_matter_does_not_count() {
        let trip = Span::from_milliseconds(100);
        let mut cubic = Cubic::default();
        cubic.lost(1_000_000);
        let early = cubic.acknowledged(1000, 700_000, 1000, Instant(0), trip);
        let late = cubic.acknowledged(1000, 700_000, 1000, Instant(9_000_000), trip);
        assert!(late < 720_000, "{early} {late}");
    }
}
