//! Power: the Power State Coordination Interface (Arm DEN0022), version 0.2 or later.

use super::firmware::call;

const CPU_ON: u64 = 0xc400_0003;
const SYSTEM_OFF: u64 = 0x8400_0008;

/// Starts the core with the affinity `mpidr` at physical address `entry`, `context` in its `x0`.
///
/// # Errors
/// Returns the interface's error code, for example −2 if there is no such core.
pub fn start_core(mpidr: u64, entry: u64, context: u64) -> Result<(), i32> {
    match call(CPU_ON, [mpidr, entry, context])[0] as i32 {
        0 => Ok(()),
        error => Err(error),
    }
}

/// Powers the machine off.
#[unsafe(export_name = "culm_power_off")]
pub extern "C" fn power_off() -> ! {
    call(SYSTEM_OFF, [0; 3]);
    loop {
        super::machine::wait_for_interrupt();
    }
}
