//! The system counter (`CNTVCT_EL0`, Arm ARM D12.1).

use core::arch::asm;

/// Ticks since the machine was switched on.
#[inline(always)]
pub(crate) fn now() -> u64 {
    let ticks;
    // SAFETY: [D2] reads a register that the kernel lets EL0 read; touches neither memory nor
    // flags.
    unsafe { asm!("mrs {}, cntvct_el0", out(reg) ticks, options(nomem, nostack, preserves_flags)) };
    ticks
}

/// Ticks per second.
#[inline(always)]
pub(crate) fn frequency() -> u64 {
    let frequency;
    // SAFETY: [D2] as above. The value never changes while the system runs, hence `pure`.
    unsafe { asm!("mrs {}, cntfrq_el0", out(reg) frequency, options(pure, nomem, nostack, preserves_flags)) };
    frequency
}
