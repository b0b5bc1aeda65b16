//! Some of a virtualiser's clients, a bit for each. A round goes through those that have something
//! to do, and costs nothing for the others.

use core::ops::{BitOr, BitOrAssign, SubAssign};

/// Some of the clients, by their numbers.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ClientSet(u64);

impl ClientSet {
    /// Clients that a virtualiser can have at most: one bit is left, for the driver
    /// ([`crate::Holders`]).
    pub const MAX: usize = 63;

    /// No client.
    pub const EMPTY: Self = Self(0);

    /// Returns the set of the first `count` clients, at most [`Self::MAX`].
    #[inline(always)]
    pub const fn first(count: usize) -> Self {
        Self((1 << count) - 1)
    }

    /// Returns the set of one client.
    #[inline(always)]
    pub const fn one(index: usize) -> Self {
        Self(1 << index)
    }

    /// Returns whether no client is in it.
    #[inline(always)]
    pub const fn is_empty(self) -> bool {
        self.0 == 0
    }

    /// Returns whether a client is in it.
    #[inline(always)]
    pub const fn contains(self, index: usize) -> bool {
        self.0 & 1 << index != 0
    }

    /// Adds a client.
    #[inline(always)]
    pub const fn insert(&mut self, index: usize) {
        self.0 |= 1 << index;
    }

    /// Removes a client.
    #[inline(always)]
    pub const fn remove(&mut self, index: usize) {
        self.0 &= !(1 << index);
    }

    /// Adds a client, or removes it.
    #[inline(always)]
    pub const fn set(&mut self, index: usize, is_in: bool) {
        self.0 = self.0 & !(1 << index) | (is_in as u64) << index;
    }

    /// Empties the set. Returns what it was.
    #[inline(always)]
    pub const fn take(&mut self) -> Self {
        core::mem::replace(self, Self::EMPTY)
    }

    /// Returns the first client in it from number `from` on, at most [`Self::MAX`], going round.
    #[inline(always)]
    pub const fn next_from(self, from: usize) -> Option<usize> {
        let after = self.0 & (u64::MAX << from);
        if self.is_empty() {
            None
        } else if after != 0 {
            Some(after.trailing_zeros() as usize)
        } else {
            Some(self.0.trailing_zeros() as usize)
        }
    }
}

impl BitOr for ClientSet {
    type Output = Self;

    #[inline(always)]
    fn bitor(self, other: Self) -> Self {
        Self(self.0 | other.0)
    }
}

impl BitOrAssign for ClientSet {
    #[inline(always)]
    fn bitor_assign(&mut self, other: Self) {
        self.0 |= other.0;
    }
}

impl SubAssign for ClientSet {
    #[inline(always)]
    fn sub_assign(&mut self, other: Self) {
        self.0 &= !other.0;
    }
}

impl IntoIterator for ClientSet {
    type Item = usize;
    type IntoIter = Iter;

    #[inline(always)]
    fn into_iter(self) -> Iter {
        Iter(self)
    }
}

/// The numbers of the clients in a set, in ascending order.
#[derive(Clone, Debug)]
pub struct Iter(ClientSet);

impl Iterator for Iter {
    type Item = usize;

    #[inline(always)]
    fn next(&mut self) -> Option<usize> {
        let ClientSet(bits) = self.0;
        if bits == 0 {
            return None;
        }
        self.0 = ClientSet(bits & (bits - 1));
        Some(bits.trailing_zeros() as usize)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::BTreeSet;
    use std::vec::Vec;

    proptest! {
        #[test]
        fn it_is_a_set(acts in proptest::collection::vec((0..ClientSet::MAX, any::<bool>()), 0..200), from in 0..=ClientSet::MAX) {
            let (mut set, mut expected) = (ClientSet::EMPTY, BTreeSet::new());
            for (index, is_in) in acts {
                set.set(index, is_in);
                if is_in { expected.insert(index) } else { expected.remove(&index) };
                prop_assert_eq!(set.contains(index), is_in);
            }
            prop_assert!(set.into_iter().eq(expected.iter().copied()));
            prop_assert_eq!(set.is_empty(), expected.is_empty());
            let next = expected.range(from..).chain(&expected).next().copied();
            prop_assert_eq!(set.next_from(from), next);
        }
    }

    #[test]
    fn sets_are_joined_and_subtracted() {
        let mut set = ClientSet::first(3) | ClientSet::one(62);
        set -= ClientSet::one(1);
        assert_eq!(set.into_iter().collect::<Vec<_>>(), [0, 2, 62]);
        assert_eq!(set.take().into_iter().count(), 3);
        assert!(set.is_empty());
        assert_eq!(ClientSet::first(ClientSet::MAX).into_iter().count(), ClientSet::MAX);
    }
}
