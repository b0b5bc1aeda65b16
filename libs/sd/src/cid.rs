//! Card identification (§5.2).

use crate::bits;
use core::fmt::{self, Write as _};

/// A card's identification.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Cid(u128);

impl Cid {
    /// Takes the register's bits 127 to 8, in their places. The host controller has checked and
    /// removed the others, which are the checksum.
    pub const fn new(register: u128) -> Self {
        Self(register)
    }

    /// Returns the manufacturer's number.
    pub const fn manufacturer(self) -> u8 {
        bits(self.0, 120, 8) as u8
    }

    /// Returns the two characters of who sells the card, as they are: any bytes.
    pub const fn application(self) -> [u8; 2] {
        [bits(self.0, 112, 8) as u8, bits(self.0, 104, 8) as u8]
    }

    /// Returns the product's name, as it is: any bytes.
    pub const fn name(self) -> [u8; 5] {
        let name = bits_64(self.0 >> 64, 40).to_be_bytes();
        [name[3], name[4], name[5], name[6], name[7]]
    }

    /// Returns the product's revision, major and minor.
    pub const fn revision(self) -> (u8, u8) {
        (bits(self.0, 60, 4) as u8, bits(self.0, 56, 4) as u8)
    }

    /// Returns the serial number.
    pub const fn serial(self) -> u32 {
        (self.0 >> 24) as u32
    }

    /// Returns year and month of manufacture; the month is 1 to 12 if the card is right.
    pub const fn date(self) -> (u16, u8) {
        (2000 + bits(self.0, 12, 8) as u16, bits(self.0, 8, 4) as u8)
    }

    /// Returns the register.
    pub const fn register(self) -> u128 {
        self.0
    }
}

const fn bits_64(register: u128, count: u32) -> u64 {
    (register & ((1 << count) - 1)) as u64
}

/// Name, revision, serial number and date. Of characters that cannot be printed, dots.
impl fmt::Display for Cid {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        for byte in self.name() {
            let is_visible = byte.is_ascii_graphic() || byte == b' ';
            formatter.write_char(if is_visible { char::from(byte) } else { '.' })?;
        }
        let ((major, minor), (year, month)) = (self.revision(), self.date());
        write!(formatter, " {major}.{minor}, serial {:08x}, {year}-{month:02}", self.serial())
    }
}
