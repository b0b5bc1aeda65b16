//! The record of each buffer's holders, in memory that outlives the virtualiser.
//!
//! A word has a bit for each client that holds the buffer. If the driver has it, the word has the
//! driver's bit and the index of the entry by which the driver got it. Each step of a buffer's way
//! is one store ([`culm_net::account`]): from nobody to the driver, from the driver to all clients
//! who are given the frame in it, and from each of them to nobody. See [`crate::resume`].

use core::sync::atomic::AtomicU64;
use core::sync::atomic::Ordering::Relaxed;
use culm_net::account::store;

/// Clients that a word has bits for.
pub(crate) const MAX_CLIENTS: usize = 63;

/// Those who hold a buffer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Holders(u64);

impl Holders {
    /// Nobody: the buffer is idle.
    pub(crate) const NOBODY: Self = Self(0);

    const DRIVER: u64 = 1 << 63;

    /// The driver, by the entry of this index.
    #[inline(always)]
    pub(crate) const fn driver(index: u32) -> Self {
        Self(Self::DRIVER | index as u64)
    }

    /// The client of this number.
    #[inline(always)]
    pub(crate) const fn client(index: usize) -> Self {
        Self(1 << index)
    }

    /// Returns whether the driver has the buffer.
    #[inline(always)]
    pub(crate) const fn is_driver(self) -> bool {
        self.0 & Self::DRIVER != 0
    }

    /// Returns the index of the entry by which the driver got it, if the driver has it.
    pub(crate) const fn index(self) -> u32 {
        self.0 as u32
    }

    /// Returns whether a client is among them.
    #[inline(always)]
    pub(crate) const fn has_client(self, index: usize) -> bool {
        self.0 & (Self::DRIVER | 1 << index) == 1 << index
    }

    /// Returns both, which are clients.
    #[inline(always)]
    pub(crate) const fn and(self, others: Self) -> Self {
        Self(self.0 | others.0)
    }

    /// Returns all but a client.
    #[inline(always)]
    pub(crate) const fn without(self, index: usize) -> Self {
        Self(self.0 & !(1 << index))
    }

    /// Returns whether all of them can be holders where there are so many clients.
    pub(crate) const fn are_possible(self, clients: usize) -> bool {
        if self.is_driver() { self.0 >> 32 == Self::DRIVER >> 32 } else { self.0 >> clients == 0 }
    }
}

/// The holders of each buffer.
#[derive(Clone, Copy)]
pub(crate) struct Record(&'static [AtomicU64]);

impl Record {
    /// Creates the record in these words, one for each buffer.
    pub(crate) fn new(words: &'static [AtomicU64]) -> Self {
        Self(words)
    }

    /// Returns a buffer's holders, if there is a buffer of this number.
    #[inline(always)]
    pub(crate) fn get(self, number: u32) -> Option<Holders> {
        Some(Holders(self.0.get(number as usize)?.load(Relaxed)))
    }

    /// Records a buffer's holders.
    #[inline(always)]
    pub(crate) fn set(self, number: u32, holders: Holders) {
        if let Some(word) = self.0.get(number as usize) {
            store(word, holders.0);
        }
    }

    /// Returns the numbers and holders of all buffers.
    pub(crate) fn all(self) -> impl DoubleEndedIterator<Item = (u32, Holders)> + ExactSizeIterator + use<> {
        self.0.iter().enumerate().map(|(number, word)| (number as u32, Holders(word.load(Relaxed))))
    }
}
