//! The geometry of a data region: small buffers of one size, a power of two, side by side, and
//! behind them perhaps some [large](LARGE_BUFFER) ones.
//!
//! Fixed slots make an offset checkable by a mask and a comparison, and allocation a matter of
//! moving descriptors. Nearly all packets are small or fit the link; the few that carry many
//! segments at once ([`header`](crate::header)) are worth buffers of their own rather than a size
//! for all that would have room for them.

use crate::{LARGE_BUFFER, MIN_PACKET};

/// The exponent of [`LARGE_BUFFER`].
const LARGE_SHIFT: u32 = LARGE_BUFFER.trailing_zeros();

/// The division of a data region into buffers. Small ones have the numbers from 0 on, large ones
/// follow.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Slots {
    small: u32,
    shift: u32,
    /// Offset of the first large buffer.
    base: u32,
    large: u32,
}

impl Slots {
    /// Divides `bytes` into as many buffers of `buffer_size` bytes as fit, but not more than
    /// `limit` (for example the capacity of a queue that must hold them all).
    ///
    /// # Panics
    ///
    /// If `buffer_size` is no power of two from 2 KiB to 32 KiB, which the build tool does not let
    /// happen.
    pub fn new(bytes: u64, buffer_size: u32, limit: u32) -> Self {
        Self::with_large(bytes, buffer_size, 0, limit)
    }

    /// Does what [`Self::new`] does, with `large` large buffers at the end of `bytes`.
    ///
    /// # Panics
    ///
    /// As [`Self::new`], and if there are not so many bytes.
    pub fn with_large(bytes: u64, buffer_size: u32, large: u32, limit: u32) -> Self {
        let valid = buffer_size.is_power_of_two() && (2048..=32768).contains(&buffer_size);
        assert!(valid, "buffers of {buffer_size} bytes: make it a power of two from 2048 to 32768");
        let shift = buffer_size.trailing_zeros();
        let base = bytes.min(u32::MAX.into()).checked_sub(u64::from(large) << LARGE_SHIFT);
        let Some(base) = base else { panic!("{large} large buffers do not fit into {bytes} bytes") };
        let large = large.min(limit);
        let small = (base >> shift).min((limit - large).into()) as u32;
        Self { small, shift, base: if large == 0 { u32::MAX } else { base as u32 }, large }
    }

    /// Returns the count of all buffers.
    #[inline(always)]
    pub const fn count(self) -> u32 {
        self.small + self.large
    }

    /// Returns the count of large ones.
    #[inline(always)]
    pub const fn large(self) -> u32 {
        self.large
    }

    /// Returns the bytes of a small buffer.
    #[inline(always)]
    pub const fn buffer_size(self) -> usize {
        1 << self.shift
    }

    /// Returns the number of the buffer at `offset`, or `None` if none begins there.
    #[inline(always)]
    pub const fn number(self, offset: u32) -> Option<u32> {
        if offset >= self.base {
            return self.large_number(offset);
        }
        // The rotation moves bits below the buffer's size to the top, so one comparison finds both
        // faults.
        let number = offset.rotate_right(self.shift);
        if number < self.small { Some(number) } else { None }
    }

    #[cold]
    const fn large_number(self, offset: u32) -> Option<u32> {
        let number = (offset - self.base).rotate_right(LARGE_SHIFT);
        if number < self.large { Some(self.small + number) } else { None }
    }

    /// Returns the offset of buffer `number`.
    #[inline(always)]
    pub const fn offset(self, number: u32) -> u32 {
        if number < self.small { number << self.shift } else { self.base + ((number - self.small) << LARGE_SHIFT) }
    }

    /// Returns whether buffer `number` is a large one.
    #[inline(always)]
    pub const fn is_large(self, number: u32) -> bool {
        number >= self.small
    }

    /// Returns whether the buffer at `offset`, which must be a buffer's, is a large one.
    #[inline(always)]
    pub const fn is_large_at(self, offset: u32) -> bool {
        offset >= self.base
    }

    /// Returns the longest packet, packet header included, for which buffer `number` has room.
    #[inline(always)]
    pub const fn room(self, number: u32) -> usize {
        if self.is_large(number) { LARGEST_PACKET } else { self.buffer_size() }
    }

    /// Returns whether a packet of `length` bytes, packet header included, can be in a small
    /// buffer.
    #[inline(always)]
    pub const fn small_holds(self, length: u16) -> bool {
        (length as usize).wrapping_sub(MIN_PACKET) <= self.buffer_size() - MIN_PACKET
    }

    /// Returns whether a packet of `length` bytes, packet header included, can be in buffer
    /// `number`.
    #[inline(always)]
    pub const fn holds(self, number: u32, length: u16) -> bool {
        let length = length as usize;
        length >= MIN_PACKET && length <= self.room(number)
    }
}

/// The longest packet that a descriptor can describe, packet header included.
pub const LARGEST_PACKET: usize = u16::MAX as usize;

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// Where small ones end is no multiple of a large one's size.
    const MIXED: u64 = 24 * 2048 + 4 * LARGE_BUFFER as u64;

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

        #[test]
        fn buffers_of_both_sizes_lie_apart(offset in 0_u32..MIXED as u32 + 100_000, step in 0_u32..400) {
            let slots = Slots::with_large(MIXED, 2048, 4, u32::MAX);
            for offset in [offset, step * 1024] {
                let large = offset >= 24 * 2048;
                let start = if large { (offset - 24 * 2048) % LARGE_BUFFER == 0 } else { offset % 2048 == 0 };
                let number = slots.number(offset);
                prop_assert_eq!(number.is_some(), start && u64::from(offset) < MIXED);
                if let Some(number) = number {
                    prop_assert_eq!((slots.offset(number), slots.is_large(number), slots.is_large_at(offset)), (offset, large, large));
                    prop_assert!(u64::from(offset) + slots.room(number) as u64 <= MIXED);
                }
            }
        }
    }

    #[test]
    fn packets_have_bounds() {
        let slots = Slots::with_large(MIXED, 2048, 4, 16);
        assert_eq!((slots.count(), slots.large()), (16, 4));
        let holds = |length| slots.holds(11, length);
        assert!(!holds(0) && !holds(25) && holds(26) && holds(2048) && !holds(2049));
        let small = |length| slots.small_holds(length);
        assert!(!small(0) && !small(25) && small(26) && small(2048) && !small(2049));
        assert!(!slots.holds(12, 25) && slots.holds(12, u16::MAX));
        assert_eq!(slots.offset(12), 24 * 2048, "those for which there is no room in the queue stay unused");
    }

    #[test]
    fn without_large_buffers_there_are_none() {
        let slots = Slots::new(MIXED, 2048, u32::MAX);
        assert_eq!((slots.count(), slots.large()), (24 + 4 * 32, 0));
        assert_eq!(slots.number(u32::MAX), None);
        assert!(!slots.is_large_at(MIXED as u32 - 2048));
    }
}
