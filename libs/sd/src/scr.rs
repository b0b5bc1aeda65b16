//! SD configuration register (§5.6).

use crate::bits_of;

/// The SD configuration register (SCR): version, bus widths, and the commands that the card knows.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Scr {
    /// Version of the specification: 0 is 1.0, 1 is 1.1, 2 is 2.00 or later (`SD_SPEC`).
    pub version: u8,
    /// Whether erased blocks read as ones (`DATA_STAT_AFTER_ERASE`).
    pub erases_to_ones: bool,
    /// Whether the card has four data lines (`SD_BUS_WIDTHS`).
    pub has_four_lines: bool,
    /// Whether the card knows CMD23 (`CMD_SUPPORT`).
    pub counts_blocks: bool,
}

impl Scr {
    /// Reads the register's eight bytes. A register of an unknown structure says nothing but that
    /// there is a card with one data line.
    pub fn read(register: &[u8; 8]) -> Self {
        if bits_of(register, 60, 4) != 0 {
            return Self { erases_to_ones: true, ..Self::default() };
        }
        Self {
            version: bits_of(register, 56, 4) as u8,
            erases_to_ones: bits_of(register, 55, 1) != 0,
            has_four_lines: bits_of(register, 50, 1) != 0,
            counts_blocks: bits_of(register, 33, 1) != 0,
        }
    }
}
