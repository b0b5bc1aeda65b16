//! Sets of numbers as ranges: what a rule says of addresses and ports.

use alloc::vec;
use alloc::vec::Vec;
use core::fmt::Debug;

/// A number of which ranges are made.
pub trait Number: Copy + Ord + Debug {
    /// The least.
    const MIN: Self;
    /// The greatest.
    const MAX: Self;

    /// Returns the number that follows, unless this is the greatest.
    fn next(self) -> Option<Self>;
}

macro_rules! numbers {
    ($($number:ty),*) => { $(
        impl Number for $number {
            const MIN: Self = <$number>::MIN;
            const MAX: Self = <$number>::MAX;

            fn next(self) -> Option<Self> {
                self.checked_add(1)
            }
        }
    )* };
}

numbers!(u16, u32, u128);
#[cfg(test)]
numbers!(u8);

/// A set of numbers.
///
/// Its ranges (first and last number of each) are in order, and between two of them is a gap. So
/// each set has one form, and equal sets are equal values.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Ranges<T>(Vec<(T, T)>);

impl<T: Number> Ranges<T> {
    /// The set that has none.
    pub const EMPTY: Self = Self(Vec::new());

    /// Returns the set of all numbers.
    pub fn all() -> Self {
        Self(vec![(T::MIN, T::MAX)])
    }

    /// Returns the set of what is in any of `parts`, which may overlap. A part whose last number is
    /// before its first has none.
    pub fn new(mut parts: Vec<(T, T)>) -> Self {
        parts.retain(|(first, last)| first <= last);
        parts.sort_unstable();
        let mut merged: Vec<(T, T)> = Vec::with_capacity(parts.len());
        for (first, last) in parts {
            match merged.last_mut() {
                Some((_, end)) if end.next().is_none_or(|next| first <= next) => *end = last.max(*end),
                _ => merged.push((first, last)),
            }
        }
        Self(merged)
    }

    /// Returns the ranges, in order.
    pub fn parts(&self) -> &[(T, T)] {
        &self.0
    }

    /// Returns whether the set has no number.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Returns whether the set has every number.
    pub fn is_all(&self) -> bool {
        self.0.first() == Some(&(T::MIN, T::MAX))
    }

    /// Returns whether `number` is in the set.
    pub fn contains(&self, number: T) -> bool {
        let after = self.0.partition_point(|(first, _)| *first <= number);
        after.checked_sub(1).and_then(|at| self.0.get(at)).is_some_and(|(_, last)| number <= *last)
    }

    /// Returns whether every number of `other` is in the set.
    pub fn covers(&self, other: &Self) -> bool {
        let mut own = self.0.iter();
        let mut candidate = own.next();
        other.0.iter().all(|(first, last)| {
            while let Some((_, end)) = candidate
                && end < first
            {
                candidate = own.next();
            }
            candidate.is_some_and(|(begin, end)| begin <= first && last <= end)
        })
    }

    /// Returns whether a number is in both sets.
    pub fn meets(&self, other: &Self) -> bool {
        let (mut ours, mut theirs) = (self.0.iter().peekable(), other.0.iter().peekable());
        while let (Some((first, last)), Some((begin, end))) = (ours.peek(), theirs.peek()) {
            if last < begin {
                ours.next();
            } else if end < first {
                theirs.next();
            } else {
                return true;
            }
        }
        false
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::BTreeSet;

    /// Parts of sets of small numbers, some of them without a number.
    fn parts() -> impl Strategy<Value = Vec<(u8, u8)>> {
        let number = prop_oneof![0..12_u8, u8::MAX - 6..=u8::MAX];
        proptest::collection::vec((number.clone(), number), 0..5)
    }

    fn numbers(parts: &[(u8, u8)]) -> BTreeSet<u8> {
        parts.iter().flat_map(|(first, last)| *first..=*last).collect()
    }

    proptest! {
        #[test]
        fn ranges_are_sets(one in parts(), other in parts(), number in 0..14_u8) {
            let (first, second) = (Ranges::new(one.clone()), Ranges::new(other.clone()));
            let (one, other) = (numbers(&one), numbers(&other));
            prop_assert_eq!(numbers(first.parts()), one.clone());
            prop_assert_eq!(first == second, one == other);
            prop_assert_eq!(first.is_empty(), one.is_empty());
            prop_assert_eq!(first.contains(number), one.contains(&number));
            prop_assert_eq!(first.covers(&second), one.is_superset(&other));
            prop_assert_eq!(first.meets(&second), !one.is_disjoint(&other));
        }
    }

    #[test]
    fn neighbours_become_one() {
        assert_eq!(Ranges::new(vec![(8, 9_u8), (0, 7), (10, u8::MAX)]), Ranges::all());
        assert!(Ranges::<u128>::all().is_all() && !Ranges::new(vec![(0, 5_u128), (7, u128::MAX)]).is_all());
    }
}
