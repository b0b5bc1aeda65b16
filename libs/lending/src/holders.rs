//! The record of each buffer's holders, in memory that outlives the virtualiser.
//!
//! A word has a bit for each client that holds the buffer. If the driver has it, the word has the
//! driver's bit and the index of the entry by which the driver got it. Each step of a buffer's way
//! is one store ([`crate::account`]): from nobody to the driver, from the driver to all clients who
//! are given what is in it, and from each of them to nobody.

use crate::ClientSet;
use crate::account::store;
use core::sync::atomic::AtomicU64;
use core::sync::atomic::Ordering::Relaxed;

/// Those who hold a buffer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Holders(u64);

impl Holders {
    /// Nobody: the buffer is idle.
    pub const NOBODY: Self = Self(0);

    const DRIVER: u64 = 1 << ClientSet::MAX;

    /// The driver, by the entry of this index.
    #[inline(always)]
    pub const fn driver(index: u32) -> Self {
        Self(Self::DRIVER | index as u64)
    }

    /// The client of this number.
    #[inline(always)]
    pub const fn client(index: usize) -> Self {
        Self(1 << index)
    }

    /// Returns whether the driver has the buffer.
    #[inline(always)]
    pub const fn is_driver(self) -> bool {
        self.0 & Self::DRIVER != 0
    }

    /// Returns the index of the entry by which the driver got it, if the driver has it.
    pub const fn index(self) -> u32 {
        self.0 as u32
    }

    /// Returns whether a client is among them.
    #[inline(always)]
    pub const fn has_client(self, index: usize) -> bool {
        self.0 & (Self::DRIVER | 1 << index) == 1 << index
    }

    /// Returns both, which are clients.
    #[inline(always)]
    pub const fn and(self, others: Self) -> Self {
        Self(self.0 | others.0)
    }

    /// Returns all but a client.
    #[inline(always)]
    pub const fn without(self, index: usize) -> Self {
        Self(self.0 & !(1 << index))
    }

    /// Returns whether all of them can be holders where there are so many clients.
    pub const fn are_possible(self, clients: usize) -> bool {
        if self.is_driver() { self.0 >> 32 == Self::DRIVER >> 32 } else { self.0 >> clients == 0 }
    }
}

/// The record of one buffer's holders.
#[derive(Clone, Copy, Debug)]
pub struct Entry(&'static AtomicU64);

impl Entry {
    /// Returns the holders.
    #[inline(always)]
    pub fn get(self) -> Holders {
        Holders(self.0.load(Relaxed))
    }

    /// Records the holders.
    #[inline(always)]
    pub fn set(self, holders: Holders) {
        store(self.0, holders.0);
    }
}

/// The holders of each buffer.
#[derive(Clone, Copy, Debug)]
pub struct Record(&'static [AtomicU64]);

impl Record {
    /// Creates the record in these words, one for each buffer.
    pub fn new(words: &'static [AtomicU64]) -> Self {
        Self(words)
    }

    /// Returns the record of a buffer, if there is a buffer of this number.
    #[inline(always)]
    pub fn entry(self, number: u32) -> Option<Entry> {
        Some(Entry(self.0.get(number as usize)?))
    }

    /// Returns a buffer's holders, if there is a buffer of this number.
    #[inline(always)]
    pub fn get(self, number: u32) -> Option<Holders> {
        Some(self.entry(number)?.get())
    }

    /// Records a buffer's holders.
    #[inline(always)]
    pub fn set(self, number: u32, holders: Holders) {
        if let Some(entry) = self.entry(number) {
            entry.set(holders);
        }
    }

    /// Returns the numbers and holders of all buffers.
    pub fn all(self) -> impl DoubleEndedIterator<Item = (u32, Holders)> + ExactSizeIterator + use<> {
        self.0.iter().enumerate().map(|(number, word)| (number as u32, Holders(word.load(Relaxed))))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use culm::Region;
    use culm::testing::memory;

    #[test]
    fn a_buffer_is_free_when_the_last_holder_has_returned_it() {
        let words = Region::new(memory(16, 0)).atomics_u64(0, 2).expect("two words");
        let record = Record::new(words);
        let both = Holders::client(0).and(Holders::client(62));
        record.set(1, both);
        assert_eq!(record.get(1), Some(both));
        assert!(both.has_client(0) && both.has_client(62) && !both.has_client(1) && !both.is_driver());
        assert_eq!(both.without(0).without(62), Holders::NOBODY);
        assert_eq!(both.without(5), both, "who does not hold it cannot return it");
        assert_eq!((record.get(0), record.get(2)), (Some(Holders::NOBODY), None));
        record.set(2, both);
        assert_eq!(record.all().next_back(), Some((1, both)));
    }

    #[test]
    fn what_the_driver_has_is_no_clients() {
        let driver = Holders::driver(u32::MAX);
        assert!(driver.is_driver() && driver.index() == u32::MAX);
        assert!((0..ClientSet::MAX).all(|client| !driver.has_client(client)));
    }

    #[test]
    fn only_those_who_are_there_are_possible() {
        assert!(Holders::NOBODY.are_possible(0) && Holders::driver(u32::MAX).are_possible(0));
        assert!(Holders::client(2).are_possible(3) && !Holders::client(3).are_possible(3));
        assert!(Holders::client(62).are_possible(ClientSet::MAX));
        assert!(!Holders(Holders::DRIVER | 1 << 32).are_possible(ClientSet::MAX), "the driver and a client");
    }
}
