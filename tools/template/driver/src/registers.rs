//! Registers of new-chip. Name the manual here, and its section at each register.

use culm_mmio::Register;

/// Bytes that the registers take, as `registers` in `component.toml` says too: a device of fewer is
/// refused.
pub const SIZE: usize = 0x100;

/// Control.
pub const CONTROL: Register<u32> = Register::at(0x00);
/// Status; what is written as one is cleared.
pub const STATUS: Register<u32> = Register::at(0x04);

/// [`CONTROL`]: on.
pub const CONTROL_ON: u32 = 1;
/// [`CONTROL`]: to be reset; reads as zero when that is done.
pub const CONTROL_RESET: u32 = 1 << 1;
/// [`STATUS`]: something went wrong.
pub const STATUS_ERROR: u32 = 1 << 31;
