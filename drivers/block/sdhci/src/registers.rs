//! Registers of a standard SD host controller (SD Specifications Part A2, SD Host Controller
//! Simplified Specification, version 3.00), each with its title there.
//!
//! Pairs of registers of 16 bits that are written or read together are declared as one of 32.

use culm_mmio::{registers, values};

/// Bytes that the registers take.
pub const SIZE: usize = 0x100;

registers! {
    /// Argument of the CMD23 that the controller sends by itself (Argument 2).
    pub AUTO_ARGUMENT: u32 at 0x00, write;
    /// Size and count of blocks (Block Size, Block Count).
    pub BLOCKS: Blocks(u32) at 0x04, read write {
        /// Bytes of a block.
        SIZE: 0..=11 as u16,
        /// Blocks that are left.
        COUNT: 16..=31 as u16,
    }
    /// Argument of the command (Argument 1).
    pub ARGUMENT: u32 at 0x08, write;
    /// Transfer mode (Transfer Mode) and command (Command), whose highest byte sends it.
    pub COMMAND: Command(u32) at 0x0c, read write {
        /// Data goes by DMA.
        DMA: 0,
        /// Blocks are counted.
        COUNTS: 1,
        /// The commands that the controller sends by itself.
        AUTO: 2..=3 as Auto,
        /// Data comes from the card.
        READ: 4,
        /// There is more than one block.
        MULTIPLE: 5,
        /// Length of the reply.
        REPLY: 16..=17 as Reply,
        /// The reply's checksum is checked.
        CHECKS_SUM: 19,
        /// The command's number is in the reply, and is checked.
        CHECKS_INDEX: 20,
        /// Data follows.
        DATA: 21,
        /// Type of the command.
        KIND: 22..=23 as Kind,
        /// Number of the command.
        INDEX: 24..=29 as u8,
    }
    /// The transfer mode alone, which sends nothing (Transfer Mode).
    pub TRANSFER_MODE: TransferMode(u16) at 0x0c, read write {
        /// The commands that the controller sends by itself.
        AUTO: 2..=3 as Auto,
    }
    /// The reply, lowest bits first (Response).
    pub REPLY_0: u32 at 0x10, read;
    /// The reply's next bits.
    pub REPLY_1: u32 at 0x14, read;
    /// The reply's next bits.
    pub REPLY_2: u32 at 0x18, read;
    /// The reply's highest bits; the reply to a CMD12 that the controller sent by itself.
    pub REPLY_3: u32 at 0x1c, read;
    /// Four bytes of data (Buffer Data Port).
    pub DATA: u32 at 0x20, read write;
    /// State of controller and slot (Present State).
    pub STATE: State(u32) at 0x24, read {
        /// No command can be sent.
        IS_SENDING: 0,
        /// No command that uses the data lines can be sent.
        IS_BUSY: 1,
        /// There is a card.
        HAS_CARD: 16,
        /// The bits that tell of the card have been stable for a while.
        IS_STABLE: 17,
        /// The card's switch allows writing.
        CAN_WRITE: 19,
    }
    /// The bus (Host Control 1).
    pub CONTROL: Control(u8) at 0x28, read write {
        /// Over four data lines.
        FOUR_LINES: 1,
        /// With high speed's timing.
        HIGH_SPEED: 2,
        /// Kind of DMA.
        DMA: 3..=4 as Dma,
    }
    /// Power of the slot (Power Control).
    pub POWER: Power(u8) at 0x29, read write {
        /// On.
        ON: 0,
        /// Voltage.
        VOLTAGE: 1..=3 as Voltage,
    }
    /// Clocks (Clock Control).
    pub CLOCK: Clock(u16) at 0x2c, read write {
        /// The controller's clock is on.
        INTERNAL: 0,
        /// The controller's clock is stable.
        STABLE: 1,
        /// The card's clock is on.
        CARD: 2,
        /// Upper bits of the divider; from version 3 on.
        UPPER: 6..=7 as u8,
        /// Lower bits of the divider.
        DIVIDER: 8..=15 as u8,
    }
    /// Time after which a silent data line is an error (Timeout Control): 2^(13 + x) cycles.
    pub TIME_OUT: u8 at 0x2e, write;
    /// Resets (Software Reset). A bit stays until that reset is done.
    pub RESET: Reset(u8) at 0x2f, read write {
        /// Everything but the detection of cards.
        ALL: 0,
        /// The circuit for commands.
        COMMAND: 1,
        /// The circuit for data.
        DATA: 2,
    }
    /// Events that have happened (Normal and Error Interrupt Status). Ones that are written are
    /// cleared.
    pub STATUS: Events(u32) at 0x30, read write {
        /// The command got its reply.
        REPLIED: 0,
        /// Data is transferred, or the card is busy no more.
        TRANSFERRED: 1,
        /// There is space for a block.
        CAN_WRITE: 4,
        /// There is a block.
        CAN_READ: 5,
        /// A card was put in.
        INSERTED: 6,
        /// The card was taken out.
        REMOVED: 7,
        /// Any of the errors.
        ERROR: 15,
        /// No reply within 64 clocks.
        SILENT: 16,
        /// Data did not come or go in time, or the card was busy for too long.
        DATA_TIME_OUT: 20,
        /// All errors.
        ERRORS: 16..=25 as u16,
    }
    /// Events that [`STATUS`] records (Normal and Error Interrupt Status Enable).
    pub RECORDED: Events at 0x34, write;
    /// Events that interrupt (Normal Interrupt Signal Enable, Error Interrupt Signal Enable).
    pub SIGNALLED: Events at 0x38, write;
    /// The controller's capabilities (Capabilities), lower half.
    pub CAPABILITIES: Capabilities(u32) at 0x40, read {
        /// Base clock in MHz, 0 if unknown; two bits fewer before version 3.
        BASE_CLOCK: 8..=15 as u8,
        /// It has ADMA2.
        ADMA2: 19,
        /// It has high speed.
        HIGH_SPEED: 21,
        /// It supplies 3.3 V.
        VOLTAGE_33: 24,
        /// DMA has addresses of 64 bits.
        LONG_ADDRESSES: 28,
    }
    /// Where the table of descriptors is (ADMA System Address), lower half.
    pub TABLE_LOW: u32 at 0x58, write;
    /// The upper half.
    pub TABLE_HIGH: u32 at 0x5c, write;
    /// Version of the specification (Host Controller Version).
    pub VERSION: Version(u16) at 0xfe, read {
        /// 0 is 1.00, 1 is 2.00, 2 is 3.00, and so on.
        NUMBER: 0..=7 as u8,
    }
}

values! {
    /// The commands that the controller sends by itself around one with several blocks.
    pub Auto: 2 bits {
        /// Nothing.
        NONE = 0,
        /// CMD12 behind them.
        STOP = 1,
        /// CMD23 before them.
        COUNT = 2,
    }
}

values! {
    /// Length of a reply.
    pub Reply: 2 bits {
        /// None.
        NONE = 0,
        /// 136 bits.
        LONG = 1,
        /// 48 bits.
        SHORT = 2,
        /// 48 bits, and then the card may be busy.
        SHORT_BUSY = 3,
    }
}

values! {
    /// Type of a command.
    pub Kind: 2 bits {
        /// An ordinary one.
        NORMAL = 0,
        /// One that ends another's data.
        ABORT = 3,
    }
}

values! {
    /// Kind of DMA.
    pub Dma: 2 bits {
        /// ADMA2 with addresses of 32 bits.
        ADMA2_32 = 2,
        /// ADMA2 with addresses of 64 bits.
        ADMA2_64 = 3,
    }
}

values! {
    /// Voltage of the slot.
    pub Voltage: 3 bits {
        /// 3.3 V.
        V33 = 7,
    }
}
