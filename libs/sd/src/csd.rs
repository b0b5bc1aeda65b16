//! Card-specific data (§5.3): capacity, and what the card can do.

use crate::bits;
use core::fmt;

/// The card-specific data register (CSD): size, erasure and write protection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Csd {
    /// Its size in blocks of 512 bytes.
    pub blocks: u64,
    /// Whether it has the layout of cards with high capacity.
    pub is_high_capacity: bool,
    /// The classes of commands that it knows, a bit for each (§5.3.2, `CCC`).
    pub classes: u16,
    /// Whether it refuses writes, for now or for ever.
    pub is_protected: bool,
    /// Whether single blocks can be erased. Otherwise an erasure is widened to whole sectors.
    pub erases_blocks: bool,
}

/// The reason why a card's CSD is of no use.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NotUsable {
    /// The register's version is that of cards beyond 2 TiB, or unknown.
    Version(u8),
    /// A block has a length that no card has.
    BlockLength(u8),
}

impl fmt::Display for NotUsable {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Version(2) => formatter.write_str("its size class is SDUC (beyond 2 TiB): use a smaller one"),
            Self::Version(version) => write!(formatter, "its CSD has the unknown version {version}"),
            Self::BlockLength(exponent) => write!(formatter, "its CSD says that blocks have 2^{exponent} bytes"),
        }
    }
}

impl Csd {
    /// Class of commands: erase (§4.7.3).
    pub const CLASS_ERASE: u16 = 1 << 5;
    /// Class of commands: switch (§4.7.3).
    pub const CLASS_SWITCH: u16 = 1 << 10;

    /// Reads the register's bits 127 to 8, which are in their places.
    ///
    /// # Errors
    ///
    /// If the register is none of a card that can be used.
    pub const fn read(register: u128) -> Result<Self, NotUsable> {
        let (blocks, is_high_capacity) = match bits(register, 126, 2) {
            0 => match standard_blocks(register) {
                Ok(blocks) => (blocks, false),
                Err(reason) => return Err(reason),
            },
            // §5.3.3: C_SIZE counts 512 KiB.
            1 => ((bits(register, 48, 22) as u64 + 1) * 1024, true),
            version => return Err(NotUsable::Version(version as u8)),
        };
        Ok(Self {
            blocks,
            is_high_capacity,
            classes: bits(register, 84, 12) as u16,
            is_protected: bits(register, 12, 2) != 0,
            // It is fixed to 1 in version 2 (§5.3.3).
            erases_blocks: is_high_capacity || bits(register, 46, 1) != 0,
        })
    }

    /// Returns whether the card knows a class of commands.
    pub const fn has(&self, class: u16) -> bool {
        self.classes & class != 0
    }
}

/// Returns the size of a card with a CSD of version 1 (§5.3.2).
const fn standard_blocks(register: u128) -> Result<u64, NotUsable> {
    let length = bits(register, 80, 4);
    if length < 9 || length > 11 {
        return Err(NotUsable::BlockLength(length as u8));
    }
    let (size, multiplier) = (bits(register, 62, 12), bits(register, 47, 3));
    Ok((size as u64 + 1) << (multiplier + 2) << (length - 9))
}
