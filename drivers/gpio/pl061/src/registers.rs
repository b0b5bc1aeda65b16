//! Registers of the PL061 (ARM PrimeCell General Purpose Input/Output Technical Reference Manual,
//! DDI 0190B). In each, a bit stands for a line.

use culm_mmio::registers;

/// Bytes that the registers take.
pub const SIZE: usize = 0x1000;

registers! {
    /// Levels of all lines: bits 9:2 of the address say which of them are read.
    pub DATA: u32 at 0x3fc, read;
    /// Lines that are outputs.
    pub DIRECTION: u32 at 0x400, read write;
    /// Lines that interrupt by their level, not by an edge.
    pub SENSE: u32 at 0x404, read write;
    /// Lines that interrupt at both edges.
    pub BOTH_EDGES: u32 at 0x408, read write;
    /// Lines whose interrupts are let through.
    pub INTERRUPT_ENABLE: u32 at 0x410, read write;
    /// Lines that had an edge since they were last cleared, let through or not.
    pub RAW_STATUS: u32 at 0x414, read;
    /// Interrupts to clear.
    pub INTERRUPT_CLEAR: u32 at 0x41c, write;
    /// Lines that other hardware has.
    pub ALTERNATE: u32 at 0x420, read write;
}
