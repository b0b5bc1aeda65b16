//! Entries of a ring: plain data that is copied in and out through atomics.
//!
//! The other side may write a slot while it is read. Through atomics that race is no undefined
//! behaviour, and it costs nothing: a relaxed atomic access is an ordinary load or store.

use crate::atomic::{AtomicU8, AtomicU16, AtomicU32, AtomicU64, Ordering};

/// A value that travels in a ring.
///
/// Any bit pattern may come out of a ring, so every word must convert back: check the value after
/// reading it.
pub trait Entry: Copy + 'static {
    /// The integers as which the entry lies in shared memory.
    type Word: Word;

    /// Returns this entry as integers.
    fn into_word(self) -> Self::Word;

    /// Returns the entry that the integers stand for.
    fn from_word(word: Self::Word) -> Self;
}

/// Integers that a slot can hold: `u8`, `u16`, `u32`, `u64`, `[u64; 2]`.
pub trait Word: Copy + sealed::Slot + 'static {}

pub(crate) mod sealed {
    /// The form of a word in shared memory.
    pub trait Slot {
        /// The atomics; of the same size as the word.
        type Cell;

        /// Returns a cell of zeros.
        fn zero() -> Self::Cell;

        /// Copies the word out.
        fn load(cell: &Self::Cell) -> Self;

        /// Copies the word in.
        fn store(self, cell: &Self::Cell);
    }
}

macro_rules! integer {
    ($integer:ty, $atomic:ty) => {
        impl sealed::Slot for $integer {
            type Cell = $atomic;

            fn zero() -> $atomic {
                <$atomic>::new(0)
            }

            #[inline(always)]
            fn load(cell: &$atomic) -> Self {
                cell.load(Ordering::Relaxed)
            }

            #[inline(always)]
            fn store(self, cell: &$atomic) {
                cell.store(self, Ordering::Relaxed);
            }
        }

        impl Word for $integer {}

        impl Entry for $integer {
            type Word = Self;

            #[inline(always)]
            fn into_word(self) -> Self {
                self
            }

            #[inline(always)]
            fn from_word(word: Self) -> Self {
                word
            }
        }
    };
}

integer!(u8, AtomicU8);
integer!(u16, AtomicU16);
integer!(u32, AtomicU32);
integer!(u64, AtomicU64);

impl sealed::Slot for [u64; 2] {
    type Cell = [AtomicU64; 2];

    fn zero() -> [AtomicU64; 2] {
        [AtomicU64::new(0), AtomicU64::new(0)]
    }

    #[inline(always)]
    fn load(cell: &[AtomicU64; 2]) -> Self {
        [cell[0].load(Ordering::Relaxed), cell[1].load(Ordering::Relaxed)]
    }

    #[inline(always)]
    fn store(self, cell: &[AtomicU64; 2]) {
        cell[0].store(self[0], Ordering::Relaxed);
        cell[1].store(self[1], Ordering::Relaxed);
    }
}

impl Word for [u64; 2] {}

impl Entry for [u64; 2] {
    type Word = Self;

    #[inline(always)]
    fn into_word(self) -> Self {
        self
    }

    #[inline(always)]
    fn from_word(word: Self) -> Self {
        word
    }
}
