//! The geometry of a data region: buffers of one size, a power of two, side by side.
//!
//! Fixed slots make an offset checkable by a mask and a comparison, and allocation a matter of moving descriptors.

use crate::MIN_PACKET;

/// How a data region is divided into buffers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Slots {
    count: u32,
    shift: u32,
}

impl Slots {
    /// As many buffers of `buffer_size` bytes as fit into `bytes`, but not more than `limit` (for example the capacity
    /// of a queue that must hold them all).
    ///
    /// # Panics
    ///
    /// Where `buffer_size` is no power of two from 2 KiB to 32 KiB: the description is at fault, and the build tool checks that.
    pub fn new(bytes: u64, buffer_size: u32, limit: u32) -> Self {
        let valid = buffer_size.is_power_of_two() && (2048..=32768).contains(&buffer_size);
        assert!(valid, "buffers of {buffer_size} bytes: make it a power of two from 2048 to 32768");
        let shift = buffer_size.trailing_zeros();
        Self { count: (bytes >> shift).min(limit.into()) as u32, shift }
    }

    /// Count of buffers.
    #[inline(always)]
    pub const fn count(self) -> u32 {
        self.count
    }

    /// Bytes of one buffer.
    #[inline(always)]
    pub const fn buffer_size(self) -> usize {
        1 << self.shift
    }

    /// Number of the buffer at `offset`, or `None` where none begins.
    #[inline(always)]
    pub const fn number(self, offset: u32) -> Option<u32> {
        // Bits below the buffer's size go to the top, so one comparison finds both faults.
        let number = offset.rotate_right(self.shift);
        if number < self.count { Some(number) } else { None }
    }

    /// Offset of buffer `number`.
    #[inline(always)]
    pub const fn offset(self, number: u32) -> u32 {
        number << self.shift
    }

    /// Whether a packet of `length` bytes, packet header included, can be in a buffer.
    #[inline(always)]
    pub const fn holds(self, length: u16) -> bool {
        let length = length as usize;
        length >= MIN_PACKET && length <= self.buffer_size()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn only_starts_of_buffers_are_offsets(offset: u32) {
            let slots = Slots::new(512 * 2048 + 100, 2048, 1024);
            let expected = (offset % 2048 == 0 && offset < 512 * 2048).then_some(offset / 2048);
            prop_assert_eq!(slots.number(offset), expected);
        }

        #[test]
        fn numbers_and_offsets_agree(number in 0_u32..512) {
            let slots = Slots::new(1 << 20, 2048, 1024);
            prop_assert_eq!(slots.number(slots.offset(number)), Some(number));
        }
    }

    #[test]
    fn packets_have_bounds() {
        let slots = Slots::new(1 << 20, 2048, 16);
        assert_eq!(slots.count(), 16);
        assert!(!slots.holds(0) && !slots.holds(25) && slots.holds(26) && slots.holds(2048) && !slots.holds(2049));
    }
}
