//! The driver's record of a descriptor, in one word.

/// The record of a descriptor. Which bits mean what depends on the descriptor's role:
///
/// | Bits | Buffer of one descriptor | First of a chain | Later one of a chain |
/// | --- | --- | --- | --- |
/// | 0 to 31 | token | token | in the second: bytes that the device may write into the chain |
/// | 32 to 47 | length | number of the next descriptor | the same, or [`Slot::LAST`] |
/// | 48 [`Slot::BUSY`] | the device has it | 0 | 0 |
/// | 49 [`Slot::FIRST`] | 0 | 1 | 0 |
/// | 50 [`Slot::CHAINED`] | 0 | the device has it | the device has it |
/// | 51 to 63 | rank | rank | |
///
/// A buffer that is back keeps its word, but for the bit that says that the device has it: the next
/// life may have to take it again.
#[derive(Clone, Copy)]
pub struct Slot(pub u64);

impl Slot {
    /// The device has the buffer, which is this descriptor alone.
    pub const BUSY: u64 = 1 << 48;

    /// The descriptor is, or was, the first of a chain.
    const FIRST: u64 = 1 << 49;

    /// The device has the descriptor as part of a chain.
    const CHAINED: u64 = 1 << 50;

    /// From this bit on: the buffer's rank among those that a device gets again after a reset.
    const RANK: u32 = 51;

    /// Stands for the length of a buffer into which the device may write as much as it likes, as
    /// far as the queue knows.
    pub const ANY_LENGTH: u16 = u16::MAX;

    /// Stands for the next descriptor in the last one of a chain. No queue has so many.
    pub const LAST: u16 = u16::MAX;

    /// Creates the record of a buffer that is one descriptor.
    #[inline(always)]
    pub fn single(token: u32, length: u16) -> Self {
        Self(u64::from(token) | u64::from(length) << 32 | Self::BUSY)
    }

    /// Creates the record of the first descriptor of a chain.
    pub fn first(token: u32, next: u16) -> Self {
        Self(u64::from(token) | u64::from(next) << 32 | Self::FIRST | Self::CHAINED)
    }

    /// Creates the record of a later descriptor of a chain.
    pub fn later(writable: u32, next: u16) -> Self {
        Self(u64::from(writable) | u64::from(next) << 32 | Self::CHAINED)
    }

    /// Returns whether the device has the buffer, if it is one descriptor.
    #[inline(always)]
    pub fn is_busy_single(self) -> bool {
        self.0 & Self::BUSY != 0
    }

    /// Returns whether the device has the buffer, if this is the first descriptor of a chain.
    pub fn is_busy_first(self) -> bool {
        self.is_first() && self.0 & Self::CHAINED != 0
    }

    /// Returns whether the device has a buffer that begins here.
    pub fn is_busy(self) -> bool {
        self.is_busy_single() || self.is_busy_first()
    }

    /// Returns whether the descriptor is, or was, the first of a chain.
    pub fn is_first(self) -> bool {
        self.0 & Self::FIRST != 0
    }

    /// Returns whether the device has the descriptor as a later one of a chain.
    pub fn is_busy_later(self) -> bool {
        !self.is_first() && self.0 & Self::CHAINED != 0
    }

    /// Returns the record of the same descriptor when the device has it.
    pub fn taken(self, chained: bool) -> Self {
        Self(self.0 | if chained { Self::CHAINED } else { Self::BUSY })
    }

    /// Returns the record of the same descriptor when the device does not have it.
    pub fn freed(self) -> Self {
        Self(self.0 & !(Self::BUSY | Self::CHAINED))
    }

    /// Returns the buffer's token.
    #[inline(always)]
    pub fn token(self) -> u32 {
        self.0 as u32
    }

    /// Returns the bytes that the device may write into the chain, of its second descriptor.
    pub fn writable(self) -> u32 {
        self.0 as u32
    }

    /// Returns the length of a buffer that is one descriptor.
    #[inline(always)]
    pub fn length(self) -> u16 {
        (self.0 >> 32) as u16
    }

    /// Returns whether the device may say that it wrote so many bytes, into a buffer that is one
    /// descriptor.
    #[inline(always)]
    pub fn takes(self, length: u32) -> bool {
        length <= u32::from(self.length()) || self.length() == Self::ANY_LENGTH
    }

    /// Returns the number of the chain's next descriptor, if there is one.
    pub fn next(self) -> Option<u16> {
        let next = (self.0 >> 32) as u16;
        (next != Self::LAST).then_some(next)
    }

    /// Returns the buffer's rank.
    pub fn rank(self) -> u64 {
        self.0 >> Self::RANK
    }

    /// Returns the record with this rank, which is less than [`super::Layout::MAX_SIZE`].
    pub fn ranked(self, rank: usize) -> Self {
        Self(self.0 & ((1 << Self::RANK) - 1) | (rank as u64) << Self::RANK)
    }
}

const _: () = assert!(1 << (64 - Slot::RANK) >= super::Layout::MAX_SIZE as u64, "each buffer has a rank of its own");
