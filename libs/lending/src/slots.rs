//! The geometry of a data region: small buffers of one size, a power of two, side by side, and
//! behind them perhaps some large ones, of the size that the class gives them ([`Geometry`]).
//!
//! Fixed slots make an offset checkable by a mask and a comparison, and allocation a matter of
//! moving descriptors. Where most contents are short and a few are very long, these few are worth
//! buffers of their own rather than a size for all that would have room for them.

use core::marker::PhantomData;
use core::ops::RangeInclusive;

/// The geometry of a class's buffers and their contents.
pub trait Geometry: Copy {
    /// Sizes that small buffers may have, in bytes. Of these, only powers of two.
    const SMALL: RangeInclusive<u32>;

    /// Bytes of a large buffer, a power of two.
    const LARGE: u32;

    /// Bytes of the shortest content of a buffer.
    const SHORTEST: u32;

    /// Bytes of the longest content, at most [`Self::LARGE`].
    const LONGEST: u32;
}

/// The division of a data region into buffers. Small ones have the numbers from 0 on, large ones
/// follow.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Slots<G: Geometry> {
    small: u32,
    shift: u32,
    /// Offset of the first large buffer.
    base: u32,
    large: u32,
    geometry: PhantomData<G>,
}

impl<G: Geometry> Slots<G> {
    const LARGE_SHIFT: u32 = {
        assert!(G::LARGE.is_power_of_two() && G::LONGEST <= G::LARGE && G::SHORTEST <= *G::SMALL.start());
        G::LARGE.trailing_zeros()
    };

    /// Divides `bytes` into as many buffers of `buffer_size` bytes as fit, but not more than
    /// `limit` (for example the capacity of a queue that must hold them all).
    ///
    /// # Panics
    ///
    /// If `buffer_size` is no power of two or not among [`Geometry::SMALL`], which the build tool
    /// does not let happen.
    pub fn new(bytes: u64, buffer_size: u32, limit: u32) -> Self {
        Self::with_large(bytes, buffer_size, 0, limit)
    }

    /// Does what [`Self::new`] does, with `large` large buffers at the end of `bytes`.
    ///
    /// # Panics
    ///
    /// As [`Self::new`], and if there are not so many bytes.
    pub fn with_large(bytes: u64, buffer_size: u32, large: u32, limit: u32) -> Self {
        let valid = buffer_size.is_power_of_two() && G::SMALL.contains(&buffer_size);
        assert!(valid, "buffers of {buffer_size} bytes: make it a power of two of {:?}", G::SMALL);
        let shift = buffer_size.trailing_zeros();
        let base = bytes.min(u32::MAX.into()).checked_sub(u64::from(large) << Self::LARGE_SHIFT);
        let Some(base) = base else { panic!("{large} large buffers do not fit into {bytes} bytes") };
        let large = large.min(limit);
        let small = (base >> shift).min((limit - large).into()) as u32;
        Self { small, shift, base: if large == 0 { u32::MAX } else { base as u32 }, large, geometry: PhantomData }
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
        if let Some(number) = self.small_number(offset) { Some(number) } else { self.large_number(offset) }
    }

    /// Returns the number of the small buffer at `offset`, or `None` if none begins there.
    #[inline(always)]
    pub const fn small_number(self, offset: u32) -> Option<u32> {
        let number = self.candidate(offset);
        if number < self.small { Some(number) } else { None }
    }

    /// Returns the number of the small buffer at `offset`, or one that is too large if none begins
    /// there.
    #[inline(always)]
    pub const fn candidate(self, offset: u32) -> u32 {
        // The rotation moves bits below the buffer's size to the top, so one comparison finds both
        // faults.
        offset.rotate_right(self.shift)
    }

    /// Returns the count of small buffers.
    #[inline(always)]
    pub const fn small(self) -> u32 {
        self.small
    }

    #[cold]
    const fn large_number(self, offset: u32) -> Option<u32> {
        if offset < self.base {
            return None;
        }
        let number = (offset - self.base).rotate_right(Self::LARGE_SHIFT);
        if number < self.large { Some(self.small + number) } else { None }
    }

    /// Returns the offset of buffer `number`.
    #[inline(always)]
    pub const fn offset(self, number: u32) -> u32 {
        if number < self.small {
            number << self.shift
        } else {
            self.base + ((number - self.small) << Self::LARGE_SHIFT)
        }
    }

    /// Returns the offset of buffer `number`, which is a small one.
    #[inline(always)]
    pub const fn small_offset(self, number: u32) -> u32 {
        number << self.shift
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

    /// Returns the bytes of the longest content for which buffer `number` has room.
    #[inline(always)]
    pub const fn room(self, number: u32) -> u32 {
        if self.is_large(number) { G::LONGEST } else { 1 << self.shift }
    }

    /// Returns whether content of `length` bytes can be in a small buffer.
    #[inline(always)]
    pub fn small_holds(self, length: impl Into<u32>) -> bool {
        length.into().wrapping_sub(G::SHORTEST) <= (1 << self.shift) - G::SHORTEST
    }

    /// Returns whether content of `length` bytes can be in buffer `number`.
    #[inline(always)]
    pub fn holds(self, number: u32, length: impl Into<u32>) -> bool {
        let length = length.into();
        length >= G::SHORTEST && length <= self.room(number)
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;
    use proptest::prelude::*;

    /// Buffers of two sizes, whose contents have two bounds.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub(crate) enum Mixed {}

    impl Geometry for Mixed {
        const SMALL: RangeInclusive<u32> = 2048..=32768;
        const LARGE: u32 = 65536;
        const SHORTEST: u32 = 26;
        const LONGEST: u32 = 65535;
    }

    /// Where small ones end is no multiple of a large one's size.
    const BYTES: u64 = 24 * 2048 + 4 * Mixed::LARGE as u64;

    proptest! {
        #[test]
        fn only_starts_of_buffers_are_offsets(offset: u32) {
            let slots = Slots::<Mixed>::new(512 * 2048 + 100, 2048, 1024);
            let expected = (offset % 2048 == 0 && offset < 512 * 2048).then_some(offset / 2048);
            prop_assert_eq!(slots.number(offset), expected);
        }

        #[test]
        fn numbers_and_offsets_agree(number in 0_u32..512) {
            let slots = Slots::<Mixed>::new(1 << 20, 2048, 1024);
            prop_assert_eq!(slots.number(slots.offset(number)), Some(number));
        }

        #[test]
        fn buffers_of_both_sizes_lie_apart(offset in 0_u32..BYTES as u32 + 100_000, step in 0_u32..400) {
            let slots = Slots::<Mixed>::with_large(BYTES, 2048, 4, u32::MAX);
            for offset in [offset, step * 1024] {
                let large = offset >= 24 * 2048;
                let start = if large { (offset - 24 * 2048) % Mixed::LARGE == 0 } else { offset % 2048 == 0 };
                let number = slots.number(offset);
                prop_assert_eq!(number.is_some(), start && u64::from(offset) < BYTES);
                prop_assert_eq!(slots.small_number(offset), number.filter(|_| !large));
                if let Some(number) = number {
                    prop_assert_eq!((slots.offset(number), slots.is_large(number), slots.is_large_at(offset)), (offset, large, large));
                    prop_assert!(u64::from(offset) + u64::from(slots.room(number)) <= BYTES);
                }
            }
        }
    }

    #[test]
    fn contents_have_bounds() {
        let slots = Slots::<Mixed>::with_large(BYTES, 2048, 4, 16);
        assert_eq!((slots.count(), slots.large()), (16, 4));
        let holds = |length: u16| slots.holds(11, length);
        assert!(!holds(0) && !holds(25) && holds(26) && holds(2048) && !holds(2049));
        let small = |length: u16| slots.small_holds(length);
        assert!(!small(0) && !small(25) && small(26) && small(2048) && !small(2049));
        assert!(!slots.holds(12, 25_u16) && slots.holds(12, u16::MAX));
        assert_eq!(slots.offset(12), 24 * 2048, "those for which there is no room in the queue stay unused");
    }

    #[test]
    fn without_large_buffers_there_are_none() {
        let slots = Slots::<Mixed>::new(BYTES, 2048, u32::MAX);
        assert_eq!((slots.count(), slots.large()), (24 + 4 * 32, 0));
        assert_eq!(slots.number(u32::MAX), None);
        assert!(!slots.is_large_at(BYTES as u32 - 2048));
    }
}
