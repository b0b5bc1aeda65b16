//! Registers of the PL011 (ARM PrimeCell UART Technical Reference Manual, DDI 0183G, chapter 3).

use culm_mmio::{registers, values};

/// Bytes that the registers take.
pub const SIZE: usize = 0x1000;

registers! {
    /// Data (3.3.1).
    pub DATA: Data(u32) at 0x00, read write {
        /// The character.
        CHARACTER: 0..=7 as u8,
        /// The character had no valid stop bit.
        FRAMING_ERROR: 8,
        /// The character's parity is not the selected one.
        PARITY_ERROR: 9,
        /// The line was held low for longer than a character.
        BREAK: 10,
        /// Characters before this one were lost in the FIFO.
        OVERRUN: 11,
    }
    /// Flags (3.3.3).
    pub FLAGS: Flags(u32) at 0x18, read {
        /// The port is sending.
        BUSY: 3,
        /// Nothing was received.
        RECEIVE_EMPTY: 4,
        /// There is no space to send.
        TRANSMIT_FULL: 5,
    }
    /// Line control (3.3.7).
    pub LINE_CONTROL: LineControl(u32) at 0x2c, read write {
        /// Both FIFOs are on.
        FIFOS: 4,
        /// Bits of a character.
        LENGTH: 5..=6 as Length,
    }
    /// Control (3.3.8).
    pub CONTROL: Control(u32) at 0x30, read write {
        /// The port is on.
        ENABLE: 0,
        /// It sends.
        TRANSMIT: 8,
        /// It receives.
        RECEIVE: 9,
    }
    /// Levels at which the FIFOs interrupt (3.3.9).
    pub FIFO_LEVELS: FifoLevels(u32) at 0x34, read write {
        /// The transmit FIFO has become as empty as this.
        TRANSMIT: 0..=2 as Level,
        /// The receive FIFO has become as full as this.
        RECEIVE: 3..=5 as Level,
    }
    /// Interrupts that are let through (3.3.10).
    pub INTERRUPT_MASK: Interrupts(u32) at 0x38, read write {
        /// The receive FIFO is as full as [`FIFO_LEVELS`] says.
        RECEIVE: 4,
        /// The transmit FIFO is as empty as [`FIFO_LEVELS`] says.
        TRANSMIT: 5,
        /// There is something in the receive FIFO and nothing follows.
        TIMEOUT: 6,
        /// All eleven.
        ALL: 0..=10 as u16,
    }
    /// Interrupts to clear (3.3.13).
    pub INTERRUPT_CLEAR: Interrupts at 0x44, write;
}

values! {
    /// Bits of a character.
    pub Length: 2 bits {
        /// Five.
        FIVE = 0b00,
        /// Six.
        SIX = 0b01,
        /// Seven.
        SEVEN = 0b10,
        /// Eight.
        EIGHT = 0b11,
    }
}

values! {
    /// How full a FIFO is.
    pub Level: 3 bits {
        /// One eighth.
        EIGHTH = 0b000,
        /// A quarter.
        QUARTER = 0b001,
        /// Half.
        HALF = 0b010,
        /// Three quarters.
        THREE_QUARTERS = 0b011,
        /// Seven eighths.
        SEVEN_EIGHTHS = 0b100,
    }
}
