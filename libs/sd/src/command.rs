//! Commands: the words that a host sends to a card (§4.7).

/// The reply that a command gets (§4.9).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reply {
    /// None.
    None,
    /// The card's status.
    R1,
    /// The same, and the card may be busy afterwards.
    R1b,
    /// The CID or CSD register.
    R2,
    /// The OCR register, without a checksum.
    R3,
    /// A new address.
    R6,
    /// The supply voltage that the card takes.
    R7,
}

/// Which way data goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Direction {
    /// From the card.
    Read,
    /// To the card.
    Write,
}

/// The data that follows a command.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Data {
    /// Which way it goes.
    pub direction: Direction,
    /// Bytes of a block.
    pub size: u16,
    /// The count of blocks.
    pub blocks: u16,
}

/// A command.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Command {
    /// Its number.
    pub index: u8,
    /// Its argument.
    pub argument: u32,
    /// The reply that it gets.
    pub reply: Reply,
    /// The data that follows.
    pub data: Option<Data>,
    /// Whether the card goes on with further blocks until it is told to stop, by CMD12, or by CMD23
    /// beforehand (§4.3.3, §4.3.4).
    pub is_open_ended: bool,
}

/// The pattern that CMD8 has echoed.
pub(crate) const CHECK_PATTERN: u32 = 0xaa;

impl Command {
    const fn new(index: u8, argument: u32, reply: Reply) -> Self {
        Self { index, argument, reply, data: None, is_open_ended: false }
    }

    const fn reading(self, size: u16) -> Self {
        Self { data: Some(Data { direction: Direction::Read, size, blocks: 1 }), ..self }
    }

    /// CMD0: all cards go to the idle state (§4.2.1).
    pub const fn go_idle() -> Self {
        Self::new(0, 0, Reply::None)
    }

    /// CMD2: the card tells its CID (§4.2.3).
    pub const fn all_send_cid() -> Self {
        Self::new(2, 0, Reply::R2)
    }

    /// CMD3: the card publishes a new address (§4.2.3).
    pub const fn send_address() -> Self {
        Self::new(3, 0, Reply::R6)
    }

    /// CMD6: asks whether the card has high speed, or with `is_set` switches to it (§4.3.10). All
    /// other functions stay as they are.
    pub const fn switch_to_high_speed(is_set: bool) -> Self {
        Self::new(6, (is_set as u32) << 31 | 0x00ff_fff1, Reply::R1).reading(64)
    }

    /// CMD7: selects the card of this address (§4.3).
    pub const fn select(address: u16) -> Self {
        Self::new(7, (address as u32) << 16, Reply::R1b)
    }

    /// CMD8: says that the host supplies 2.7 to 3.6 V (§4.3.13).
    pub const fn send_if_condition() -> Self {
        Self::new(8, 1 << 8 | CHECK_PATTERN, Reply::R7)
    }

    /// CMD9: the card of this address tells its CSD (§4.2.3).
    pub const fn send_csd(address: u16) -> Self {
        Self::new(9, (address as u32) << 16, Reply::R2)
    }

    /// CMD12: the card stops sending or receiving (§4.3.3, §4.3.4).
    pub const fn stop() -> Self {
        Self::new(12, 0, Reply::R1b)
    }

    /// CMD13: the card of this address tells its status (§4.10.1).
    pub const fn send_status(address: u16) -> Self {
        Self::new(13, (address as u32) << 16, Reply::R1)
    }

    /// CMD16: sets the length of a block, which is fixed but for cards of standard capacity
    /// (§4.3.2).
    pub const fn set_block_length(bytes: u32) -> Self {
        Self::new(16, bytes, Reply::R1)
    }

    /// CMD17 or CMD18, CMD24 or CMD25: reads or writes blocks (§4.3.3, §4.3.4). `address` counts in
    /// what the card counts in.
    #[inline]
    pub const fn transfer(direction: Direction, address: u32, blocks: u16) -> Self {
        let single = match direction {
            Direction::Read => 17,
            Direction::Write => 24,
        };
        let is_open_ended = blocks > 1;
        Self {
            index: single + is_open_ended as u8,
            argument: address,
            reply: Reply::R1,
            data: Some(Data { direction, size: crate::BLOCK as u16, blocks }),
            is_open_ended,
        }
    }

    /// CMD32: the first block to erase (§4.3.5).
    pub const fn erase_first(address: u32) -> Self {
        Self::new(32, address, Reply::R1)
    }

    /// CMD33: the last block to erase (§4.3.5).
    pub const fn erase_last(address: u32) -> Self {
        Self::new(33, address, Reply::R1)
    }

    /// CMD38: erases the blocks that were named; with `is_discard` the card may do less (§4.3.5).
    pub const fn erase(is_discard: bool) -> Self {
        Self::new(38, is_discard as u32, Reply::R1b)
    }

    /// CMD55: the next command is one of the application's (§4.3.9).
    pub const fn application(address: u16) -> Self {
        Self::new(55, (address as u32) << 16, Reply::R1)
    }

    /// ACMD6: sets the width of the bus (§4.3.9).
    pub const fn set_bus_width(has_four_lines: bool) -> Self {
        Self::new(6, if has_four_lines { 2 } else { 0 }, Reply::R1)
    }

    /// ACMD13: the card sends its SD status (§4.10.2).
    pub const fn send_sd_status() -> Self {
        Self::new(13, 0, Reply::R1).reading(64)
    }

    /// ACMD41: begins the card's initialisation, or asks whether it is done. The host supplies 3.2
    /// to 3.4 V, and knows high capacity if it says so (§4.2.3.1).
    pub const fn operate(knows_high_capacity: bool) -> Self {
        let high = if knows_high_capacity { crate::reply::HIGH_CAPACITY } else { 0 };
        Self::new(41, high | crate::reply::VOLTAGE, Reply::R3)
    }

    /// ACMD51: the card sends its SCR (§5.6).
    pub const fn send_scr() -> Self {
        Self::new(51, 0, Reply::R1).reading(8)
    }
}
