//! Slices that are addressed modulo their length, as rings that a device or a peer shares are.

use core::marker::PhantomData;
use core::ptr::NonNull;

/// Elements whose count is a power of two. Any index leads to one of them, modulo their count, so
/// that an access needs no check.
#[derive(Debug)]
pub struct Cyclic<T: 'static> {
    first: NonNull<T>,
    /// The count less one.
    mask: usize,
    elements: PhantomData<&'static [T]>,
}

impl<T> Clone for Cyclic<T> {
    #[inline(always)]
    fn clone(&self) -> Self {
        *self
    }
}

impl<T> Copy for Cyclic<T> {}

impl<T> Cyclic<T> {
    /// Returns these elements, if their count is a power of two.
    pub const fn new(all: &'static [T]) -> Option<Self> {
        if !all.len().is_power_of_two() {
            return None;
        }
        Some(Self { first: NonNull::from_ref(all).cast(), mask: all.len() - 1, elements: PhantomData })
    }

    /// Returns the element of this index, modulo the count.
    #[inline(always)]
    pub fn at(&self, index: impl Into<usize>) -> &'static T {
        // SAFETY: [A3, A4] `new` was given as many elements, for as long as the program runs; the
        // masked index is below their count.
        unsafe { self.first.add(index.into() & self.mask).as_ref() }
    }

    /// Returns the element of this index, if there are so many.
    #[inline(always)]
    pub fn get(&self, index: usize) -> Option<&'static T> {
        if index > self.mask {
            return None;
        }
        // SAFETY: [A3, A4] as in `at`: the index is below the count.
        Some(unsafe { self.first.add(index).as_ref() })
    }

    /// Returns all elements, in order.
    pub fn all(&self) -> &'static [T] {
        // SAFETY: [A3] they are those that `new` was given, for as long as the program runs.
        unsafe { NonNull::slice_from_raw_parts(self.first, self.mask + 1).as_ref() }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn any_index_leads_to_an_element() {
        let cyclic = Cyclic::new(&[10, 11, 12, 13]).expect("a power of two");
        let found = [0_usize, 3, 4, 6, usize::MAX].map(|index| *cyclic.at(index));
        assert_eq!(found, [10, 13, 10, 12, 13]);
        assert_eq!([3, 4, usize::MAX].map(|index| cyclic.get(index).copied()), [Some(13), None, None]);
        assert_eq!(cyclic.all(), [10, 11, 12, 13]);
    }

    #[test]
    fn only_powers_of_two_are_counts() {
        assert!(Cyclic::<u8>::new(&[]).is_none() && Cyclic::new(&[0; 3]).is_none() && Cyclic::new(&[0]).is_some());
    }
}
