//! A device that a component drives: its registers, its interrupts, and memory for its own
//! structures.

use crate::channel::{Channel, Interrupt};
use crate::region::Region;
use culm_abi::start::Memory;

/// A device, as its driver was given it.
#[derive(Clone, Copy, Debug)]
pub struct Device {
    registers: Memory,
    interrupts: &'static [u32],
    dma: Region,
}

impl Device {
    /// A device with these registers, interrupts (channel numbers, in the board's order) and DMA
    /// memory; for tests and fakes. Components get theirs from their connections.
    pub const fn new(registers: Memory, interrupts: &'static [u32], dma: Region) -> Self {
        Self { registers, interrupts, dma }
    }

    /// Returns where the registers are mapped; `culm-mmio` gives access.
    pub const fn registers(&self) -> Memory {
        self.registers
    }

    /// Returns interrupt `index` in the board's order.
    pub fn interrupt(&self, index: usize) -> Option<Interrupt> {
        self.interrupts.get(index).map(|channel| Interrupt::new(Channel::new(*channel)))
    }

    /// Returns all interrupts, in the board's order.
    pub fn interrupts(&self) -> impl ExactSizeIterator<Item = Interrupt> + use<> {
        self.interrupts.iter().map(|channel| Interrupt::new(Channel::new(*channel)))
    }

    /// Returns memory for the device's own structures (descriptor rings), with the address at which
    /// the device sees it. Empty if the board declares none.
    pub const fn dma(&self) -> Region {
        self.dma
    }
}
