//! The second CPU, which counts the interrupts that it takes.

use crate::program::comes;
use core::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use culm_tests_guest::controller::{self, NONE};
use culm_tests_guest::machine::{call, wait_for_interrupt};

const CPU_OFF: u64 = 0x8400_0002;

/// Interrupts that it has taken, by their numbers.
static TAKEN: [AtomicU32; 64] = [const { AtomicU32::new(0) }; 64];
static IS_HERE: AtomicBool = AtomicBool::new(false);
static GOES_OFF: AtomicBool = AtomicBool::new(false);

/// Takes interrupts until it is to go off. The next interrupt tells it of that.
pub fn serve() -> ! {
    IS_HERE.store(true, Ordering::Release);
    loop {
        wait_for_interrupt();
        loop {
            let number = controller::acknowledge();
            if number == NONE {
                break;
            }
            controller::end(number);
            if let Some(taken) = TAKEN.get(number as usize) {
                taken.fetch_add(1, Ordering::Release);
            }
        }
        if GOES_OFF.swap(false, Ordering::Acquire) {
            IS_HERE.store(false, Ordering::Release);
            call(true, [CPU_OFF, 0, 0, 0]);
        }
    }
}

/// Returns whether it begins within the time that things may take.
pub fn begins() -> bool {
    comes(|| IS_HERE.load(Ordering::Acquire))
}

/// Has it switch itself off as soon as it takes an interrupt.
pub fn go_off() {
    GOES_OFF.store(true, Ordering::Release);
}

/// How often it has taken an interrupt.
pub fn taken(number: u64) -> u32 {
    TAKEN.get(number as usize).map_or(0, |taken| taken.load(Ordering::Acquire))
}

/// Returns whether it takes an interrupt once more than `before`.
pub fn takes(number: u64, before: u32) -> bool {
    comes(|| taken(number) != before) && taken(number) == before.wrapping_add(1)
}
