//! Buffers that came over a queue while one of another size was looked for.
//!
//! Large and small buffers come back over the same queue, in the order in which they were used. A
//! side that needs the one kind keeps buffers of the other kind here. The count of buffers bounds
//! the stash: surplus entries of a peer are dropped.

use crate::{Geometry, Slots};
use alloc::vec::Vec;

/// Offsets of unused buffers, by size.
#[derive(Debug)]
pub struct Stash {
    small: Vec<u32>,
    large: Vec<u32>,
}

impl Stash {
    /// Creates an empty stash for the buffers of `slots`.
    pub fn new<G: Geometry>(slots: Slots<G>) -> Self {
        let (all, large) = (slots.count() as usize, slots.large() as usize);
        Self { small: Vec::with_capacity(all - large), large: Vec::with_capacity(large) }
    }

    /// Takes a buffer of that size, if there is one.
    #[cold]
    pub fn take(&mut self, large: bool) -> Option<u32> {
        if large { self.large.pop() } else { self.small.pop() }
    }

    /// Keeps a buffer.
    pub fn keep(&mut self, offset: u32, large: bool) {
        let kept = if large { &mut self.large } else { &mut self.small };
        // The list never grows beyond its first capacity.
        if kept.len() < kept.capacity() {
            kept.push(offset);
        }
    }

    /// Forgets all buffers: they belong to the peer again.
    pub fn clear(&mut self) {
        self.small.clear();
        self.large.clear();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::slots::tests::Mixed;

    #[test]
    fn no_more_are_kept_than_there_are() {
        let slots = Slots::<Mixed>::with_large(4 * 2048 + 2 * u64::from(Mixed::LARGE), 2048, 2, u32::MAX);
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
