//! Power: the Power State Coordination Interface (Arm DEN0022), version 0.2 or later.
//!
//! Whoever is below us answers: firmware by SMC where the kernel is at EL2, a hypervisor by HVC where it is at EL1.

use super::system_register::read_register;

const CPU_ON: u64 = 0xc400_0003;
const SYSTEM_OFF: u64 = 0x8400_0008;

fn call(function: u64, arguments: [u64; 3]) -> i64 {
    let result: i64;
    let [a, b, c] = arguments;
    if read_register!("CurrentEL") == 2 << 2 {
        // SAFETY: an SMC as the SMC Calling Convention (Arm DEN0028) has it: `x0`-`x17` may change, memory does not,
        // but for what CPU_ON's target does on its own stack.
        unsafe {
            core::arch::asm!("smc #0", inlateout("x0") function => result, inlateout("x1") a => _,
                inlateout("x2") b => _, inlateout("x3") c => _, clobber_abi("C"));
        }
    } else {
        // SAFETY: as above, by HVC.
        unsafe {
            core::arch::asm!("hvc #0", inlateout("x0") function => result, inlateout("x1") a => _,
                inlateout("x2") b => _, inlateout("x3") c => _, clobber_abi("C"));
        }
    }
    result
}

/// Starts the core with the affinity `mpidr` at physical address `entry`, `context` in its `x0`.
///
/// # Errors
/// The interface's error code, for example −2 where there is no such core.
pub fn start_core(mpidr: u64, entry: u64, context: u64) -> Result<(), i64> {
    match call(CPU_ON, [mpidr, entry, context]) {
        0 => Ok(()),
        error => Err(error),
    }
}

/// Powers the machine off.
pub fn power_off() -> ! {
    call(SYSTEM_OFF, [0; 3]);
    loop {
        super::machine::wait_for_interrupt();
    }
}
