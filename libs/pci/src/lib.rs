//! The devices of one PCI bus, which was planned when the system was built: turns off whatever was
//! not planned, checks what sits in a slot that was, and gives it its addresses.
//!
//! Access to configuration space is behind [`ConfigSpace`]. What devices answer is data of
//! strangers: each value is read once and checked, and every loop is bounded. A device that is not
//! what the plan says stays off ([`Refusal`] says why). Of a virtio device, [`virtio`] finds the
//! structures.
//!
//! Anything that a device does beyond configuration space is out of reach here: one that reads or
//! writes memory although bus mastering is off is stopped by an IOMMU only.
//!
//! Sections are those of the PCI Local Bus Specification 3.0; PCI Express devices have the same
//! registers in the first 256 bytes.

#![no_std]
#![forbid(unsafe_code)]

mod bar;
mod capability;
mod prepare;
mod refusal;
#[cfg(test)]
mod tests;
pub mod virtio;

pub use capability::{Capability, capabilities};
pub use prepare::{Extras, Planned, Silenced, WAKING, keeps, prepare, silence, wake};
pub use refusal::Refusal;

/// Slots of a bus (3.2.2.3.2: a device number has five bits).
pub const SLOTS: u8 = 32;

/// Functions of a device (3.2.2.3.2: a function number has three bits).
pub const FUNCTIONS: u8 = 8;

/// Bytes of configuration space of one function, as an Enhanced Configuration Access Mechanism
/// (ECAM) maps it (PCI Express Base Specification 2.0, 7.2.2).
pub const FUNCTION_BYTES: usize = 0x1000;

/// Bytes of one bus in an ECAM window.
pub const BUS_BYTES: usize = FUNCTION_BYTES * FUNCTIONS as usize * SLOTS as usize;

/// A function of a device on the bus.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Function {
    slot: u8,
    number: u8,
}

impl Function {
    /// Returns function `number` of the device in `slot`, `None` if a bus has no such.
    pub fn new(slot: u8, number: u8) -> Option<Self> {
        (slot < SLOTS && number < FUNCTIONS).then_some(Self { slot, number })
    }

    /// Returns the slot of its device.
    pub fn slot(self) -> u8 {
        self.slot
    }

    /// Returns the offset of its configuration space from that of the bus in an ECAM window; with a
    /// register's offset added it is less than [`BUS_BYTES`].
    pub fn offset(self) -> usize {
        FUNCTION_BYTES * (FUNCTIONS as usize * self.slot as usize + self.number as usize)
    }
}

/// Configuration space of a bus.
pub trait ConfigSpace {
    /// Reads the register of 32 bits at `offset`, a multiple of 4 below 256. All ones where there
    /// is no such function.
    fn read(&self, function: Function, offset: u8) -> u32;

    /// Writes the register of 32 bits at `offset`, a multiple of 4 below 256.
    fn write(&mut self, function: Function, offset: u8, value: u32);
}

/// Registers of every header (6.1, figure 6-1).
mod register {
    /// Vendor in the lower half, device in the upper (6.2.1).
    pub const IDENTITY: u8 = 0x00;
    /// Command in the lower half (6.2.2), status in the upper (6.2.3), whose bits are cleared by
    /// ones: a command is written with zeroes there.
    pub const COMMAND: u8 = 0x04;
    /// Revision, and from bit 8 on the class code (6.2.1).
    pub const CLASS: u8 = 0x08;
    /// Header type in bits 16 to 23 (6.2.1).
    pub const HEADER: u8 = 0x0c;
    /// First base address register (6.2.5.1).
    pub const BAR: u8 = 0x10;
    /// Base address of the expansion ROM (6.2.5.2).
    pub const ROM: u8 = 0x30;
    /// Offset of the first capability in the lowest byte (6.7).
    pub const CAPABILITIES: u8 = 0x34;
    /// Interrupt pin in bits 8 to 15 (6.2.4).
    pub const INTERRUPT: u8 = 0x3c;
}

/// Bits of the command (6.2.2, table 6-1).
mod command {
    /// The device answers at its memory addresses.
    pub const MEMORY: u32 = 1 << 1;
    /// The device reads and writes memory.
    pub const MASTER: u32 = 1 << 2;
    /// The device does not assert its interrupt line.
    pub const NO_INTERRUPT: u32 = 1 << 10;
    /// The bits that are compared of a command: input and output, memory, master and interrupt.
    pub const COMPARED: u32 = 1 | MEMORY | MASTER | NO_INTERRUPT;
}

/// Bits of the status, where it stands beside the command (6.2.3, table 6-2).
mod status {
    /// There is a list of capabilities.
    pub const CAPABILITIES: u32 = 1 << (16 + 4);
}

/// Identity of a function that is not there (6.1: no vendor has `ffff`).
const ABSENT: u32 = u32::MAX;

/// Bit of [`register::HEADER`] that says that a device has several functions (6.2.1).
const SEVERAL_FUNCTIONS: u32 = 1 << 23;

/// Returns the layout of a header: 0 for a device, 1 for a bridge.
fn layout(header: u32) -> u8 {
    (header >> 16 & 0x7f) as u8
}

/// Returns whether no function answers with this identity.
fn is_absent(identity: u32) -> bool {
    identity == ABSENT || identity & 0xffff == 0xffff
}
