//! Registers of the PL031 (ARM PrimeCell Real Time Clock Technical Reference Manual, DDI 0224C,
//! chapter 3).

use culm_mmio::registers;

/// Bytes that the registers take.
pub const SIZE: usize = 0x1000;

registers! {
    /// Seconds since 1970 (3.3.1).
    pub DATA: u32 at 0x00, read;
    /// The second at which it interrupts (3.3.2).
    pub MATCH: u32 at 0x04, read write;
    /// Control (3.3.4).
    pub CONTROL: Control(u32) at 0x0c, read write {
        /// The clock counts.
        ENABLE: 0,
    }
    /// Interrupts that are let through (3.3.5).
    pub INTERRUPT_MASK: Interrupts(u32) at 0x10, read write {
        /// The second of [`MATCH`] has come.
        MATCHED: 0,
    }
    /// Interrupts to clear (3.3.8).
    pub INTERRUPT_CLEAR: Interrupts at 0x1c, write;
}
