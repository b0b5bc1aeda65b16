//! SD status (§4.10.2).

use crate::bits_of;

/// The SD status: how the card discards, and how long it takes to erase.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SdStatus {
    /// Whether the card knows discarding, which may do less than erasing (`DISCARD_SUPPORT`).
    pub discards: bool,
    /// Seconds that the card takes to erase an allocation unit at most, if it says so (§4.14).
    pub erase_seconds: Option<u32>,
}

impl SdStatus {
    /// Reads the 64 bytes.
    pub fn read(register: &[u8; 64]) -> Self {
        // ERASE_SIZE units take ERASE_TIMEOUT seconds, and ERASE_OFFSET more. A single unit takes
        // no longer than that.
        let (units, seconds) = (bits_of(register, 408, 16), bits_of(register, 402, 6));
        let offset = bits_of(register, 400, 2);
        Self {
            discards: bits_of(register, 313, 1) != 0,
            erase_seconds: (units > 0 && seconds > 0).then_some(seconds + offset),
        }
    }
}
