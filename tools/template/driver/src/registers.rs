//! Registers of new-chip. Name the manual here, and its section at each register.

use culm_mmio::registers;

/// Bytes that the registers take, as `registers` in `component.toml` says too: a device of fewer is
/// refused.
pub const SIZE: usize = 0x100;

registers! {
    /// Control.
    pub CONTROL: Control(u32) at 0x00, read write {
        /// The device is on.
        ON: 0,
        /// The device is to be reset; reads as zero when that is done.
        RESET: 1,
    }
    /// Status; what is written as one is cleared.
    pub STATUS: Status(u32) at 0x04, read write {
        /// Something went wrong.
        ERROR: 31,
    }
}
