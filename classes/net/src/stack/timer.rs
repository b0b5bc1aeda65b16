//! A timer per connection, in a wheel: setting one costs the same whatever their number.
//!
//! Time is divided into steps of some milliseconds; each spoke of the wheel lists the connections
//! that are due in its step. A connection whose deadline moves later stays where it is, and is
//! looked at once too often: so acknowledged data, which moves the deadline with every packet,
//! costs nothing here. Deadlines beyond the wheel's turn are on its last spoke and looked at again
//! from there.

use alloc::boxed::Box;
use alloc::vec;
use culm::time::Instant;

/// Spokes of the wheel; each has a bit in `occupied`.
const SPOKES: u64 = 256;

/// No connection.
const NONE: u16 = u16::MAX;

/// Not on the wheel.
const IDLE: u64 = u64::MAX;

#[derive(Clone, Copy)]
struct Entry {
    next: u16,
    previous: u16,
    /// The step it is listed for.
    step: u64,
}

/// Timers for connections `0..count`.
pub(super) struct Wheel {
    entries: Box<[Entry]>,
    spokes: [u16; SPOKES as usize],
    occupied: [u64; SPOKES as usize / 64],
    /// Connections on the wheel.
    listed: usize,
    /// The next step to look at.
    step: u64,
    /// A step lasts 2^`shift` ticks.
    shift: u32,
}

impl Wheel {
    /// A wheel whose steps last at most `step_ticks`, beginning at `now`.
    pub(super) fn new(count: usize, step_ticks: u64, now: Instant) -> Self {
        let shift = step_ticks.max(1).ilog2();
        Self {
            entries: vec![Entry { next: NONE, previous: NONE, step: IDLE }; count].into_boxed_slice(),
            spokes: [NONE; SPOKES as usize],
            occupied: [0; SPOKES as usize / 64],
            listed: 0,
            step: now.ticks() >> shift,
            shift,
        }
    }

    /// Whether no timer is set.
    #[inline(always)]
    pub(super) fn is_empty(&self) -> bool {
        self.listed == 0
    }

    /// Arranges that `slot` is looked at at `at` or a step later, or earlier if that is already
    /// arranged.
    #[inline]
    pub(super) fn set(&mut self, slot: usize, at: Instant) {
        if at == Instant::NEVER {
            return;
        }
        // Round up, so that a slot that is looked at in a step finds its deadline passed.
        let step = ((at.ticks() >> self.shift) + 1).clamp(self.step, self.step + SPOKES - 1);
        if step < self.entries[slot].step {
            self.bring_forward(slot, step);
        }
    }

    /// Lists `slot` for an earlier step than before.
    #[inline(never)]
    fn bring_forward(&mut self, slot: usize, step: u64) {
        self.cancel(slot);
        self.list(slot, step);
    }

    /// Forgets the timer of `slot`.
    fn cancel(&mut self, slot: usize) {
        let Entry { next, previous, step } = self.entries[slot];
        if step == IDLE {
            return;
        }
        let spoke = (step % SPOKES) as usize;
        if previous == NONE {
            self.spokes[spoke] = next;
            if next == NONE {
                self.occupied[spoke / 64] &= !(1 << (spoke % 64));
            }
        } else {
            self.entries[usize::from(previous)].next = next;
        }
        if next != NONE {
            self.entries[usize::from(next)].previous = previous;
        }
        self.entries[slot].step = IDLE;
        self.listed -= 1;
    }

    fn list(&mut self, slot: usize, step: u64) {
        let spoke = (step % SPOKES) as usize;
        let next = self.spokes[spoke];
        self.entries[slot] = Entry { next, previous: NONE, step };
        if next != NONE {
            self.entries[usize::from(next)].previous = slot as u16;
        }
        self.spokes[spoke] = slot as u16;
        self.occupied[spoke / 64] |= 1 << (spoke % 64);
        self.listed += 1;
    }

    /// A connection that is due, taken off the wheel. Call it until there is none.
    #[inline]
    pub(super) fn due(&mut self, now: Instant) -> Option<usize> {
        let current = now.ticks() >> self.shift;
        while self.step <= current {
            let slot = self.spokes[(self.step % SPOKES) as usize];
            if slot != NONE {
                self.cancel(slot.into());
                return Some(slot.into());
            }
            // On to the next spoke with anything on it, or to the present.
            self.step = self.first().map_or(current + 1, |step| step.min(current + 1));
        }
        None
    }

    /// When something is due next.
    #[inline]
    pub(super) fn deadline(&self) -> Instant {
        if self.is_empty() {
            return Instant::NEVER;
        }
        self.first().map_or(Instant::NEVER, |step| Instant::from_ticks(step << self.shift))
    }

    /// The first step from `self.step` on with a connection listed.
    #[inline]
    fn first(&self) -> Option<u64> {
        let start = (self.step % SPOKES) as usize;
        let words = self.occupied.len();
        // The word that holds the start is looked at first for the bits from there on, and last for
        // those before.
        for round in 0..=words {
            let index = (start / 64 + round) % words;
            let mut word = self.occupied[index];
            if round == 0 {
                word &= u64::MAX << (start % 64);
            } else if round == words {
                word &= !(u64::MAX << (start % 64));
            }
            if word != 0 {
                let spoke = (index * 64) as u64 + u64::from(word.trailing_zeros());
                return Some(self.step + (spoke.wrapping_sub(start as u64) % SPOKES));
            }
        }
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::vec::Vec;

    proptest! {
        /// Against a plain table of deadlines: everybody is looked at after its deadline, at most a
        /// step late or a turn of the wheel early.
        #[test]
        fn nobody_is_forgotten(acts in proptest::collection::vec((0_usize..8, 0_u64..5000, 0_u64..300), 1..300)) {
            let mut wheel = Wheel::new(8, 16, Instant::from_ticks(1000));
            let mut deadlines = [u64::MAX; 8];
            let mut now = 1000_u64;
            for (slot, delay, pass) in acts {
                // A later deadline replaces an earlier one in the table; on the wheel the earlier
                // look remains.
                deadlines[slot] = now + delay;
                wheel.set(slot, Instant::from_ticks(now + delay));
                now += pass;
                let asked = wheel.deadline().ticks();
                while let Some(slot) = wheel.due(Instant::from_ticks(now)) {
                    prop_assert!(asked <= now, "woken although nothing was due");
                    if deadlines[slot] <= now {
                        deadlines[slot] = u64::MAX;
                    } else {
                        wheel.set(slot, Instant::from_ticks(deadlines[slot]));
                    }
                }
                for deadline in deadlines {
                    prop_assert!(deadline == u64::MAX || deadline + 32 > now, "due at {deadline}, now {now}");
                }
            }
        }
    }

    #[test]
    fn timers_can_be_cancelled() {
        let mut wheel = Wheel::new(4, 16, Instant::default());
        for slot in 0..4 {
            wheel.set(slot, Instant::from_ticks(100));
        }
        wheel.cancel(2);
        wheel.cancel(2);
        wheel.cancel(0);
        let due: Vec<usize> = core::iter::from_fn(|| wheel.due(Instant::from_ticks(1000))).collect();
        assert_eq!(due, [3, 1]);
        assert_eq!(wheel.deadline(), Instant::NEVER);
    }
}
