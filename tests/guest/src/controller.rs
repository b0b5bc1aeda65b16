//! The processor's part of the interrupt controller (Arm IHI 0069, 12.2).

use crate::machine::{microsecond, now};
use crate::{read, write};
use culm_abi::guest::TIMER_INTERRUPT;

/// `INTID` when there is no interrupt.
pub const NONE: u64 = 1023;

/// Takes every interrupt of group 1, with none active and no timer set.
pub fn begin_anew() {
    stop_timer();
    write!("icc_ctlr_el1", 1 << 1);
    // The timer's may be active, and would never come again.
    write!("icc_dir_el1", u64::from(TIMER_INTERRUPT));
    write!("icc_ctlr_el1", 0);
    write!("icc_ap1r0_el1", 0);
    write!("icc_bpr1_el1", 0);
    write!("icc_pmr_el1", 0xff);
    write!("icc_igrpen1_el1", 1);
}

/// Takes the most urgent pending interrupt, and returns its number.
pub fn acknowledge() -> u64 {
    read!("icc_iar1_el1") & 0xff_ffff
}

/// Ends an interrupt.
pub fn end(number: u64) {
    write!("icc_eoir1_el1", number);
}

/// Sends an interrupt to CPUs, a bit each.
pub fn send(number: u64, cpus: u64) {
    write!("icc_sgi1r_el1", number << 24 | cpus);
}

/// Sets the virtual timer to go off after so many microseconds.
pub fn set_timer(microseconds: u64) {
    write!("cntv_cval_el0", now() + microseconds * microsecond());
    write!("cntv_ctl_el0", 1);
}

/// Turns the virtual timer off.
pub fn stop_timer() {
    write!("cntv_ctl_el0", 0);
}
