//! Configuration space in memory: the Enhanced Configuration Access Mechanism of PCI Express (PCI
//! Express Base Specification 2.0, 7.2.2).

use culm_mmio::{Register, Registers};
use culm_pci::{ConfigSpace, Function};

/// The window of one bus.
pub struct Ecam<R> {
    registers: R,
}

impl<R: Registers> Ecam<R> {
    /// Creates the configuration space behind `registers`.
    pub fn new(registers: R) -> Self {
        Self { registers }
    }
}

/// Returns the place of a register in the window.
fn at(function: Function, offset: u8) -> Register<u32> {
    Register::at(function.offset() + usize::from(offset))
}

impl<R: Registers> ConfigSpace for Ecam<R> {
    fn read(&self, function: Function, offset: u8) -> u32 {
        self.registers.read(at(function, offset))
    }

    fn write(&mut self, function: Function, offset: u8, value: u32) {
        self.registers.write(at(function, offset), value);
    }
}
