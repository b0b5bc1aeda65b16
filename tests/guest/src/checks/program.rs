//! The program around the checks.

use crate::{firmware, interrupts, other, timer, vectors};
use core::panic::PanicInfo;
use core::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use culm_tests_guest::machine::{call, microsecond, now};
use culm_tests_guest::{controller, say};

/// What the second CPU is given.
pub const ANOTHER: u64 = 0x616e_6f74_6865_7221;

/// Microseconds for something to happen on the other CPU.
const PATIENCE: u64 = 5_000_000;

/// PSCI's functions that do not return.
const OFF: u64 = 0x8400_0008;
const RESET: u64 = 0x8400_0009;

static PASSED: AtomicU32 = AtomicU32::new(0);
static FAILED: AtomicU32 = AtomicU32::new(0);

/// How often the guest has reset itself. It outlives a life.
#[unsafe(link_section = ".kept")]
static LIVES: AtomicU64 = AtomicU64::new(0);

/// Counts a check, and says which has failed.
pub fn check(is_so: bool, what: &str) {
    if is_so {
        PASSED.fetch_add(1, Ordering::Relaxed);
    } else {
        FAILED.fetch_add(1, Ordering::Relaxed);
        say!("checks: FAILED: {what}");
    }
}

/// Counts a comparison, and says which has failed.
pub fn equals(found: u64, expected: u64, what: &str) {
    check(found == expected, what);
    if found != expected {
        say!("checks: it is {found:#x}, not {expected:#x}");
    }
}

/// Waits until something is so, and returns whether it came to that.
pub fn comes(is_so: impl Fn() -> bool) -> bool {
    let end = now() + PATIENCE * microsecond();
    while !is_so() {
        if now() > end {
            return false;
        }
    }
    true
}

/// A CPU begins: the first with the address of the device tree, the second with [`ANOTHER`].
#[unsafe(no_mangle)]
extern "C" fn guest_main(_: usize, argument: u64) -> ! {
    controller::begin_anew();
    if argument == ANOTHER {
        other::serve();
    }
    interrupts::run();
    timer::run();
    vectors::run();
    firmware::run();
    firmware::debug_in_aarch32()
}

/// Says how it went, and ends this life.
fn finish() -> ! {
    let life = LIVES.fetch_add(1, Ordering::Relaxed);
    let (passed, failed) = (PASSED.load(Ordering::Relaxed), FAILED.load(Ordering::Relaxed));
    say!("checks: {passed} passed, {failed} failed in life {life}");
    call(true, [if life == 0 { RESET } else { OFF }, 0, 0, 0]);
    end("the firmware returned from an end")
}

/// No exception is meant to be, but the call by which the program in AArch32 ends.
#[unsafe(no_mangle)]
extern "C" fn guest_recovers(cpu: usize, vector: u64, syndrome: u64, address: u64) -> ! {
    /// Synchronous, from AArch32; `svc` there.
    const VECTOR: u64 = 12;
    const CALL: u64 = 0x11;
    if (vector, syndrome >> 26) == (VECTOR, CALL) {
        check(true, "a program in AArch32 reads a debug register and goes on");
        finish();
    }
    say!("checks: exception {vector} of CPU {cpu}, syndrome {syndrome:#x}, at {address:#x}");
    end("an exception")
}

fn end(why: &str) -> ! {
    say!("checks: FAILED by {why}");
    loop {
        culm_tests_guest::machine::wait_for_interrupt();
    }
}

#[panic_handler]
fn panic(_: &PanicInfo) -> ! {
    end("a panic")
}
