//! Checks of the virtual timer (Arm ARM D12.2) and of its interrupt.

use crate::program::{check, comes, equals};
use culm_abi::guest::{TIMER_INTERRUPT, redistributors};
use culm_tests_guest::controller::{self, NONE, acknowledge, end, set_timer, stop_timer};
use culm_tests_guest::machine::{microsecond, now, store, wait_for_interrupt};
use culm_tests_guest::{read, write};

const NUMBER: u64 = TIMER_INTERRUPT as u64;

/// `CNTV_CTL_EL0`: its condition is met.
const MET: u64 = 1 << 2;

/// Does all checks.
pub fn run() {
    store(redistributors(1).address + 0x1_0100, 4, 1 << NUMBER);
    let before = now();
    check(now() >= before, "time does not go back");
    write!("cntv_tval_el0", 1_000_000 * microsecond());
    let left = read!("cntv_tval_el0");
    check(left <= 1_000_000 * microsecond() && left > 0, "what is left of a time is what was set, or less");
    write!("cntv_ctl_el0", 1);
    equals(read!("cntv_ctl_el0") & MET, 0, "a time that is to come is not met");
    equals(acknowledge(), NONE, "a time that is to come does not interrupt");
    // Before the timer is set: a domain may have the core in between.
    let start = now();
    set_timer(2000);
    wait_for_interrupt();
    check(comes(|| read!("cntv_ctl_el0") & MET != 0), "a time comes");
    check(now() - start >= 1900 * microsecond(), "a wait for it does not end before");
    check(comes(|| read!("icc_hppir1_el1") == NUMBER), "its interrupt is pending");
    equals(acknowledge(), NUMBER, "its interrupt comes");
    equals(acknowledge(), NONE, "it does not come again before its end");
    end(NUMBER);
    check(comes(|| read!("icc_hppir1_el1") == NUMBER), "it comes again after its end, while the time is met");
    equals(acknowledge(), NUMBER, "it is the timer's");
    stop_timer();
    end(NUMBER);
    equals(acknowledge(), NONE, "it does not after the timer is off");
    write!("cntv_ctl_el0", 0b11);
    write!("cntv_cval_el0", now());
    equals(read!("cntv_ctl_el0") & MET, MET, "a timer whose interrupt is masked meets its condition");
    equals(acknowledge(), NONE, "but does not interrupt");
    controller::begin_anew();
}
