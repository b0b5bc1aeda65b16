//! Buffers that came over a queue in between, while one of another size was looked for.
//!
//! Large and small buffers come back over the same queue, in the order in which they were used. Who needs the one kind keeps
//! what it finds of the other here. What is kept is bounded by the count of buffers: a peer that sends more than there are
//! finds them forgotten.

use crate::Slots;
use alloc::vec::Vec;

/// Offsets of buffers that nobody uses, by size.
#[derive(Debug)]
pub struct Stash {
    small: Vec<u32>,
    large: Vec<u32>,
}

impl Stash {
    /// An empty stash for the buffers of `slots`.
    pub fn new(slots: Slots) -> Self {
        let (all, large) = (slots.count() as usize, slots.large() as usize);
        Self { small: Vec::with_capacity(all - large), large: Vec::with_capacity(large) }
    }

    /// One of that size.
    #[cold]
    pub fn take(&mut self, large: bool) -> Option<u32> {
        if large { self.large.pop() } else { self.small.pop() }
    }

    /// Keeps one.
    pub fn keep(&mut self, offset: u32, large: bool) {
        let kept = if large { &mut self.large } else { &mut self.small };
        // Never grown.
        if kept.len() < kept.capacity() {
            kept.push(offset);
        }
    }

    /// Forgets all: they belong to somebody else again.
    pub fn clear(&mut self) {
        self.small.clear();
        self.large.clear();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::LARGE_BUFFER;

    #[test]
    fn no_more_are_kept_than_there_are() {
        let slots = Slots::with_large(4 * 2048 + 2 * u64::from(LARGE_BUFFER), 2048, 2, u32::MAX);
        let mut stash = Stash::new(slots);
        for round in 0..100 {
            stash.keep(round, round % 2 == 0);
        }
        assert_eq!(core::iter::from_fn(|| stash.take(true)).count(), 2);
        assert_eq!(core::iter::from_fn(|| stash.take(false)).count(), 4);
        stash.keep(1, true);
        stash.clear();
        assert_eq!((stash.take(false), stash.take(true)), (None, None));
    }
}
