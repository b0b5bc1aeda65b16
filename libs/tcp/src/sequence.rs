//! Sequence numbers, which wrap (RFC 9293, §3.4).

use crate::time::Instant;
use core::ops::{Add, AddAssign, Sub};

/// The number of a byte of one direction of a connection, modulo 2³².
///
/// Two numbers can be compared only if they are less than 2³¹ apart. Windows of at most 2³⁰ bytes
/// (RFC 7323, §2.3) keep all numbers that matter to a connection that close; a peer can still send
/// any number, so there is no `Ord`: each comparison says by its name which of the two is where.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Sequence(pub u32);

impl Sequence {
    /// Returns an initial sequence number by RFC 6528, §3: a clock that ticks every 4 µs, plus
    /// `hash`, which is a keyed one of both addresses and ports. The key must be random, secret,
    /// and the same for as long as `now` counts from the same start; whoever has it, or sees a hash
    /// that does not depend on all four, can guess the numbers of others.
    pub const fn initial(now: Instant, hash: u32) -> Self {
        Self(((now.0 / 4) as u32).wrapping_add(hash))
    }

    /// Returns whether this number comes before `other`.
    #[inline]
    pub const fn is_before(self, other: Self) -> bool {
        (self.0.wrapping_sub(other.0) as i32) < 0
    }

    /// Returns whether this number comes after `other`.
    #[inline]
    pub const fn is_after(self, other: Self) -> bool {
        other.is_before(self)
    }

    /// Returns how many bytes lie between `earlier` and this number; below 0 if it comes first.
    #[inline]
    pub const fn since(self, earlier: Self) -> i32 {
        self.0.wrapping_sub(earlier.0) as i32
    }

    /// Returns whether this number is one of the `length` numbers from `start` on.
    #[inline]
    pub const fn is_in(self, start: Self, length: u32) -> bool {
        self.0.wrapping_sub(start.0) < length
    }

    /// Returns the later of both.
    #[inline]
    pub const fn max(self, other: Self) -> Self {
        if self.is_before(other) { other } else { self }
    }

    /// Returns the earlier of both.
    #[inline]
    pub const fn min(self, other: Self) -> Self {
        if other.is_before(self) { other } else { self }
    }
}

impl Add<u32> for Sequence {
    type Output = Self;

    #[inline]
    fn add(self, bytes: u32) -> Self {
        Self(self.0.wrapping_add(bytes))
    }
}

impl AddAssign<u32> for Sequence {
    #[inline]
    fn add_assign(&mut self, bytes: u32) {
        *self = *self + bytes;
    }
}

impl Sub<u32> for Sequence {
    type Output = Self;

    #[inline]
    fn sub(self, bytes: u32) -> Self {
        Self(self.0.wrapping_sub(bytes))
    }
}

/// The bytes from `start` up to, not including, `end`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Range {
    /// The first byte.
    pub start: Sequence,
    /// The byte behind the last one.
    pub end: Sequence,
}

impl Range {
    /// The `length` bytes from `start` on; fewer than 2³¹.
    #[inline]
    pub fn new(start: Sequence, length: u32) -> Self {
        Self { start, end: start + length }
    }

    /// Returns how many bytes there are; 0 if the end comes before the start.
    #[inline]
    pub const fn length(self) -> u32 {
        let length = self.end.since(self.start);
        if length < 0 { 0 } else { length as u32 }
    }

    /// Returns whether there is no byte.
    #[inline]
    pub const fn is_empty(self) -> bool {
        self.length() == 0
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn order_survives_the_wrap(start: u32, distance in 1_u32..1 << 31) {
            let (start, end) = (Sequence(start), Sequence(start) + distance);
            prop_assert!(start.is_before(end) && end.is_after(start) && !end.is_before(start));
            prop_assert_eq!(end.since(start), distance as i32);
            prop_assert_eq!(start.since(end), -(distance as i32));
            prop_assert_eq!((start.max(end), start.min(end)), (end, start));
            prop_assert_eq!((Range { start, end }.length(), Range { start: end, end: start }.length()), (distance, 0));
        }

        /// RFC 6528, §3: a later connection of the same addresses and ports has a later number.
        #[test]
        fn initial_numbers_of_one_peer_rise(hash: u32, at in 0_u64..1 << 60, pause in 4_u64..1 << 32) {
            let (one, next) = (Sequence::initial(Instant(at), hash), Sequence::initial(Instant(at + pause), hash));
            prop_assert!(next.is_after(one));
        }

        #[test]
        fn a_range_has_its_start_and_not_its_end(start: u32, length in 1_u32..1 << 31) {
            let start = Sequence(start);
            prop_assert!(start.is_in(start, length) && (start + (length - 1)).is_in(start, length));
            prop_assert!(!(start + length).is_in(start, length) && !(start - 1).is_in(start, length));
            prop_assert!(!start.is_in(start, 0));
        }
    }
}
