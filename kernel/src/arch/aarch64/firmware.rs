//! Calls of the firmware or hypervisor below the kernel, by the SMC Calling Convention (Arm
//! DEN0028).
//!
//! The instruction depends on the exception level at which the image was *entered*, not on the one
//! at which the kernel runs. If the image was entered at EL2, firmware at EL3 is below and is
//! reached by SMC, also from EL1, to which the kernel goes without VHE (an HVC would end at EL2,
//! where no code handles it). If it was entered at EL1, a hypervisor is below and is reached by
//! HVC.

use core::sync::atomic::{AtomicBool, Ordering};

/// Whether the image was entered at EL2.
static ENTERED_AT_EL2: AtomicBool = AtomicBool::new(false);

/// Sets the exception level at which the image was entered: once, before any call.
pub fn set_entry_level(level: u64) {
    ENTERED_AT_EL2.store(level == 2, Ordering::Relaxed);
}

/// Calls `function`; returns what `x0` to `x3` hold afterwards.
pub fn call(function: u64, arguments: [u64; 3]) -> [u64; 4] {
    let [mut b, mut c, mut d] = arguments;
    let mut a = function;
    if ENTERED_AT_EL2.load(Ordering::Relaxed) {
        // SAFETY: [K7] an SMC as the convention has it: `x0`-`x17` may change, memory does not, but
        // for what PSCI's CPU_ON's target does on its own stack.
        unsafe {
            core::arch::asm!("smc #0", inlateout("x0") a, inlateout("x1") b, inlateout("x2") c, inlateout("x3") d,
                clobber_abi("C"));
        }
    } else {
        // SAFETY: [K7] as above, by HVC.
        unsafe {
            core::arch::asm!("hvc #0", inlateout("x0") a, inlateout("x1") b, inlateout("x2") c, inlateout("x3") d,
                clobber_abi("C"));
        }
    }
    [a, b, c, d]
}
