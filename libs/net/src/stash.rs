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
        let large = slots.large() as usize;
        // Without large ones there is nothing to look for, and no small one is found in between.
        let small = if large == 0 { 0 } else { slots.count() as usize - large };
        Self { small: Vec::with_capacity(small), large: Vec::with_capacity(large) }
    }

    /// A small one.
    #[inline(always)]
    pub fn small(&mut self) -> Option<u32> {
        self.small.pop()
    }

    /// A large one.
    #[inline(always)]
    pub fn large(&mut self) -> Option<u32> {
        self.large.pop()
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
        assert_eq!(core::iter::from_fn(|| stash.large()).count(), 2);
        assert_eq!(core::iter::from_fn(|| stash.small()).count(), 4);
        stash.keep(1, true);
        stash.clear();
        assert_eq!((stash.small(), stash.large()), (None, None));
    }
}
