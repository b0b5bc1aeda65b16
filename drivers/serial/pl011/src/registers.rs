//! Registers of the PL011 (ARM PrimeCell UART Technical Reference Manual, DDI 0183G, chapter 3).

use culm_mmio::Register;

/// Bytes that the registers take.
pub const SIZE: usize = 0x1000;

/// Data (3.3.1).
pub const DATA: Register<u32> = Register::at(0x00);
/// Flags (3.3.3).
pub const FLAGS: Register<u32> = Register::at(0x18);
/// Line control (3.3.7).
pub const LINE_CONTROL: Register<u32> = Register::at(0x2c);
/// Control (3.3.8).
pub const CONTROL: Register<u32> = Register::at(0x30);
/// Levels at which the FIFOs interrupt (3.3.9).
pub const FIFO_LEVELS: Register<u32> = Register::at(0x34);
/// Interrupts that are let through (3.3.10).
pub const INTERRUPT_MASK: Register<u32> = Register::at(0x38);
/// Interrupts to clear (3.3.13).
pub const INTERRUPT_CLEAR: Register<u32> = Register::at(0x44);

/// Bits of [`DATA`] that say that the character is damaged: framing, parity, break.
pub const DATA_DAMAGED: u32 = 0b111 << 8;
/// Bit of [`DATA`]: characters before this one were lost in the FIFO.
pub const DATA_OVERRUN: u32 = 1 << 11;

/// Bit of [`FLAGS`]: it is sending.
pub const FLAG_BUSY: u32 = 1 << 3;
/// Bit of [`FLAGS`]: nothing was received.
pub const FLAG_RECEIVE_EMPTY: u32 = 1 << 4;
/// Bit of [`FLAGS`]: there is no space to send.
pub const FLAG_TRANSMIT_FULL: u32 = 1 << 5;

/// [`LINE_CONTROL`]: eight bits, no parity, one stop bit, FIFOs on.
pub const LINE_8N1_FIFO: u32 = 0b11 << 5 | 1 << 4;
/// [`CONTROL`]: on, sending and receiving.
pub const CONTROL_ON: u32 = 1 << 9 | 1 << 8 | 1;
/// [`FIFO_LEVELS`]: when the transmit FIFO is an eighth full, when the receive FIFO is half full.
pub const LEVELS: u32 = 0b010 << 3;

/// Interrupt: the receive FIFO is as full as [`LEVELS`] says.
pub const INTERRUPT_RECEIVE: u32 = 1 << 4;
/// Interrupt: the transmit FIFO is as empty as [`LEVELS`] says.
pub const INTERRUPT_TRANSMIT: u32 = 1 << 5;
/// Interrupt: there is something in the receive FIFO and nothing follows.
pub const INTERRUPT_TIMEOUT: u32 = 1 << 6;
/// All eleven interrupts.
pub const INTERRUPT_ALL: u32 = 0x7ff;
