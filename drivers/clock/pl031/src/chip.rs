//! The use of the clock's registers: its seconds are read, and it says when one begins.
//!
//! The clock counts whole seconds. How far into one it is it tells only by its interrupt, which
//! comes when a second begins.

use crate::registers::*;
use culm::time::{self, Duration, Instant};
use culm_mmio::Registers;

/// Attempts to have it interrupt at a second that has not begun yet, and to read the second and the
/// time at once.
const ATTEMPTS: u32 = 4;

/// The most time that the reading of the second takes, unless this domain is preempted meanwhile.
const READING: Duration = Duration::from_micros(200);

/// Its only interrupt.
const MATCHED: Interrupts = Interrupts::ZERO.set(Interrupts::MATCHED);

/// A clock.
pub struct Chip<R>(R);

impl<R: Registers> Chip<R> {
    /// Takes over a clock in whatever state a previous life left it. It is set by nobody here.
    pub fn new(registers: R) -> Self {
        registers.write(INTERRUPT_MASK, Interrupts::ZERO);
        registers.write(INTERRUPT_CLEAR, MATCHED);
        registers.write(CONTROL, Control::ZERO.set(Control::ENABLE));
        Self(registers)
    }

    /// Returns the second, counted from 1970, and a moment soon after it was read. If this domain
    /// is preempted between the two, it reads again, but not for ever.
    pub fn second(&self) -> (u32, Instant) {
        let mut before = time::now();
        let mut left = ATTEMPTS;
        loop {
            let (second, after) = (self.0.read(DATA), time::now());
            left -= 1;
            if after.since(before) <= READING || left == 0 {
                return (second, after);
            }
            before = after;
        }
    }

    /// Has it interrupt when a second begins: the one that is `ahead` of the present one, at least
    /// one.
    pub fn interrupt_in(&mut self, ahead: u32) {
        for _ in 0..ATTEMPTS {
            let second = self.0.read(DATA);
            self.0.write(MATCH, second.wrapping_add(ahead.max(1)));
            self.0.write(INTERRUPT_MASK, MATCHED);
            // If that second began while it was written, its interrupt may never come.
            if self.0.read(DATA) == second {
                return;
            }
        }
    }

    /// Acknowledges its interrupt; returns what [`Self::second`] does.
    pub fn begun(&mut self) -> (u32, Instant) {
        self.0.write(INTERRUPT_CLEAR, MATCHED);
        self.second()
    }
}
