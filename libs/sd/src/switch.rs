//! The card's answer to CMD6: which functions it has, and which it switched to (§4.3.10.4).

use crate::bits_of;

/// The function of group 1 (access mode) that is high speed.
const HIGH_SPEED: u32 = 1;

/// The status of a switch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Switch {
    /// Whether the card has high speed.
    pub has_high_speed: bool,
    /// Whether the card is at high speed, or would be if it was only asked.
    pub is_high_speed: bool,
}

impl Switch {
    /// Reads the 64 bytes.
    pub fn read(status: &[u8; 64]) -> Self {
        Self {
            has_high_speed: bits_of(status, 400 + HIGH_SPEED as usize, 1) != 0,
            is_high_speed: bits_of(status, 376, 4) == HIGH_SPEED,
        }
    }
}
