//! Ethernet addresses as numbers, so that two are compared by one instruction.

use core::fmt;

/// An Ethernet address: its bytes in memory order, the first one lowest.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct Mac(u64);

impl Mac {
    /// The broadcast address.
    pub const BROADCAST: Self = Self(0xffff_ffff_ffff);

    /// Creates the address with these bytes.
    #[inline(always)]
    pub const fn new(bytes: [u8; 6]) -> Self {
        let [a, b, c, d, e, f] = bytes;
        Self(u64::from_le_bytes([a, b, c, d, e, f, 0, 0]))
    }

    /// Creates the address from the low 48 bits of a little-endian word.
    #[inline(always)]
    pub const fn from_word(word: u64) -> Self {
        Self(word & 0xffff_ffff_ffff)
    }

    /// Returns the bytes.
    pub const fn bytes(self) -> [u8; 6] {
        let [a, b, c, d, e, f, _, _] = self.0.to_le_bytes();
        [a, b, c, d, e, f]
    }

    /// Returns whether this stands for several stations: multicast and broadcast (IEEE 802.3
    /// §3.2.3, the first bit on the wire).
    #[inline(always)]
    pub const fn is_group(self) -> bool {
        self.0 & 1 != 0
    }
}

impl fmt::Display for Mac {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let [a, b, c, d, e, f] = self.bytes();
        write!(formatter, "{a:02x}:{b:02x}:{c:02x}:{d:02x}:{e:02x}:{f:02x}")
    }
}

impl fmt::Debug for Mac {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, formatter)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::string::ToString;

    #[test]
    fn addresses_print_and_compare() {
        let mac = Mac::new([0x52, 0x54, 0, 0x12, 0x34, 0x56]);
        assert_eq!(mac.to_string(), "52:54:00:12:34:56");
        assert_eq!(Mac::from_word(0xaaaa_5634_1200_5452), mac);
        assert_eq!(Mac::new(mac.bytes()), mac);
        assert!(!mac.is_group() && Mac::BROADCAST.is_group() && Mac::new([1, 0, 0x5e, 0, 0, 1]).is_group());
    }
}
