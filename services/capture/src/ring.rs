//! What was captured and not yet taken: bytes in memory of a fixed size.

use alloc::boxed::Box;
use alloc::vec;

/// A ring of bytes. What is put in is there whole or not at all.
pub(crate) struct Ring {
    bytes: Box<[u8]>,
    /// Place of the first byte that was not taken.
    first: usize,
    /// Bytes that were put in and not taken.
    held: usize,
}

impl Ring {
    /// An empty ring of so many bytes, all that it will ever have.
    pub(crate) fn new(size: usize) -> Self {
        Self { bytes: vec![0; size].into_boxed_slice(), first: 0, held: 0 }
    }

    /// Puts the parts in behind each other. Returns false, and puts nothing in, if there is no room
    /// for all.
    pub(crate) fn put(&mut self, parts: [&[u8]; 2]) -> bool {
        let length: usize = parts.iter().map(|part| part.len()).sum();
        if length > self.bytes.len() - self.held {
            return false;
        }
        for part in parts {
            let at = (self.first + self.held) % self.bytes.len().max(1);
            let (until_end, rest) = part.split_at(part.len().min(self.bytes.len() - at));
            // The room was counted above.
            if let Some(place) = self.bytes.get_mut(at..at + until_end.len()) {
                place.copy_from_slice(until_end);
            }
            if let Some(place) = self.bytes.get_mut(..rest.len()) {
                place.copy_from_slice(rest);
            }
            self.held += part.len();
        }
        true
    }

    /// Returns the first bytes, as many as lie side by side; none if it is empty.
    pub(crate) fn first(&self) -> &[u8] {
        let end = (self.first + self.held).min(self.bytes.len());
        self.bytes.get(self.first..end).unwrap_or_default()
    }

    /// Takes the first `count` bytes out.
    pub(crate) fn take(&mut self, count: usize) {
        let count = count.min(self.held);
        self.held -= count;
        self.first = (self.first + count) % self.bytes.len().max(1);
    }

    /// Returns whether nothing is in it.
    pub(crate) fn is_empty(&self) -> bool {
        self.held == 0
    }

    /// Takes everything out.
    pub(crate) fn clear(&mut self) {
        (self.first, self.held) = (0, 0);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::VecDeque;
    use std::vec::Vec;

    proptest! {
        #[test]
        fn what_is_put_in_comes_out_in_its_order(
            steps in prop::collection::vec((prop::collection::vec(any::<u8>(), 0..20), 0..5_usize, 0..30_usize), 0..60),
        ) {
            let (mut ring, mut model) = (Ring::new(40), VecDeque::<u8>::new());
            for (bytes, split, count) in steps {
                let (head, rest) = bytes.split_at(split.min(bytes.len()));
                let fits = model.len() + bytes.len() <= 40;
                prop_assert_eq!(ring.put([head, rest]), fits);
                if fits {
                    model.extend(&bytes);
                }
                let taken = count.min(ring.first().len());
                let expected: Vec<u8> = model.drain(..taken).collect();
                prop_assert_eq!(&ring.first()[..taken], &expected[..]);
                ring.take(taken);
                prop_assert_eq!(ring.is_empty(), model.is_empty());
                prop_assert_eq!(ring.first().is_empty(), model.is_empty());
            }
        }
    }
}
