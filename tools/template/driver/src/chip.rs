//! The driver's use of the device, whether real or a test's.

use crate::registers::*;
use culm_mmio::Registers;

/// How often to look whether a reset is done. A device that never ends it must not hold up the
/// system.
const RESET_LIMIT: u32 = 1_000_000;

/// The device.
#[derive(Debug)]
pub struct Chip<R: Registers> {
    registers: R,
}

/// The error of a device that does not end its reset.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NeverReset;

impl<R: Registers> Chip<R> {
    /// Sets the device up, whatever state a previous life of the driver left it in.
    pub fn new(registers: R) -> Result<Self, NeverReset> {
        registers.write(CONTROL, Control::ZERO.set(Control::RESET));
        if !(0..RESET_LIMIT).any(|_| !registers.read(CONTROL).has(Control::RESET)) {
            return Err(NeverReset);
        }
        registers.write(CONTROL, Control::ZERO.set(Control::ON));
        Ok(Self { registers })
    }

    /// Handles an interrupt. Returns whether the device reports an error.
    pub fn interrupted(&mut self) -> bool {
        let status = self.registers.read(STATUS);
        self.registers.write(STATUS, status);
        status.has(Status::ERROR)
    }
}
