//! Replies: the words that a card sends back at once (§4.9).

/// The voltage window that a host with 3.3 V offers: 3.2 to 3.4 V (§5.1).
pub(crate) const VOLTAGE: u32 = 0b11 << 20;

/// The host knows high capacity; the card has it (§4.2.3.1, §5.1).
pub(crate) const HIGH_CAPACITY: u32 = 1 << 30;

/// State of a card when it got the command (§4.10.1, `CURRENT_STATE`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct State(u8);

impl State {
    /// Selected, and without data under way.
    pub const TRANSFER: Self = Self(4);
    /// Writing to its flash memory.
    pub const PROGRAMMING: Self = Self(7);
}

/// Status of a card (§4.10.1, reply R1).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Status(pub u32);

impl Status {
    /// An address outside of the card.
    pub const OUT_OF_RANGE: u32 = 1 << 31;
    /// A write to a block that is protected.
    pub const PROTECTED: u32 = 1 << 26;
    /// The card is locked by a password.
    pub const LOCKED: u32 = 1 << 25;
    /// Blocks of a range to erase were skipped, since they are protected.
    pub const ERASE_SKIPPED: u32 = 1 << 15;
    /// The next command is taken for one of the application's.
    pub const APPLICATION: u32 = 1 << 5;
    /// The card can take data.
    pub const READY: u32 = 1 << 8;

    /// Errors of a command, or of an earlier one whose end was not awaited. Left out are
    /// `COM_CRC_ERROR` and `ILLEGAL_COMMAND`: they speak of a command that got no reply, which the
    /// host knows by that.
    pub const ERRORS: u32 = Self::OUT_OF_RANGE
        | 1 << 30 // `ADDRESS_ERROR`
        | 1 << 29 // `BLOCK_LEN_ERROR`
        | 1 << 28 // `ERASE_SEQ_ERROR`
        | 1 << 27 // `ERASE_PARAM`
        | Self::PROTECTED
        | 1 << 24 // `LOCK_UNLOCK_FAILED`
        | 1 << 21 // `CARD_ECC_FAILED`
        | 1 << 20 // `CC_ERROR`
        | 1 << 19 // `ERROR`
        | 1 << 16 // `CSD_OVERWRITE`
        | Self::ERASE_SKIPPED
        | 1 << 3; // `AKE_SEQ_ERROR`

    /// Returns whether any of these bits is set.
    #[inline(always)]
    pub const fn has(self, bits: u32) -> bool {
        self.0 & bits != 0
    }

    /// Returns the state in which the command found the card.
    #[inline(always)]
    pub const fn state(self) -> State {
        State((self.0 >> 9 & 0xf) as u8)
    }

    /// Returns whether the card waits for the next command with or without data.
    #[inline(always)]
    pub const fn is_ready(self) -> bool {
        self.state().0 == State::TRANSFER.0 && self.has(Self::READY)
    }
}

/// Operation conditions (§5.1, reply R3).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Ocr(pub u32);

impl Ocr {
    /// Returns whether the card is powered up; the other answers mean nothing before.
    pub const fn is_powered_up(self) -> bool {
        self.0 >> 31 != 0
    }

    /// Returns whether addresses count blocks instead of bytes.
    pub const fn has_high_capacity(self) -> bool {
        self.0 & HIGH_CAPACITY != 0
    }

    /// Returns whether the card works with 3.3 V.
    pub const fn takes_voltage(self) -> bool {
        self.0 & VOLTAGE != 0
    }
}

/// A published address (§4.9.5, reply R6).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Address(pub u32);

impl Address {
    /// Returns the address.
    pub const fn address(self) -> u16 {
        (self.0 >> 16) as u16
    }
}
