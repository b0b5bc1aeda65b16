//! A growing block of plain data in which structures refer to each other by offset.

use culm_abi::start::Span;
use zerocopy::{Immutable, IntoBytes};

/// Alignment of everything in the block.
const ALIGNMENT: usize = 8;

/// The block so far.
#[derive(Debug, Default)]
pub struct Block {
    bytes: Vec<u8>,
}

impl Block {
    /// A block whose first `size` bytes are filled in at the end.
    pub fn with_head(size: usize) -> Self {
        Self { bytes: vec![0; size] }
    }

    /// Appends `elements` and returns where they are.
    pub fn list<T: IntoBytes + Immutable>(&mut self, elements: &[T]) -> Span {
        self.bytes.resize(self.bytes.len().next_multiple_of(ALIGNMENT), 0);
        let span = Span { offset: self.bytes.len() as u32, count: elements.len() as u32 };
        self.bytes.extend_from_slice(elements.as_bytes());
        span
    }

    /// Appends the bytes of `count` structures.
    pub fn structures(&mut self, bytes: &[u8], count: usize) -> Span {
        Span { count: count as u32, ..self.list(bytes) }
    }

    /// Appends a text.
    pub fn text(&mut self, text: &str) -> Span {
        self.list(text.as_bytes())
    }

    /// Bytes so far, padded to the alignment.
    pub fn size(&self) -> usize {
        self.bytes.len().next_multiple_of(ALIGNMENT)
    }

    /// Fills in the head and gives the block away.
    pub fn finish<T: IntoBytes + Immutable>(mut self, head: &T) -> Vec<u8> {
        let head = head.as_bytes();
        self.bytes[..head.len()].copy_from_slice(head);
        self.bytes.resize(self.bytes.len().next_multiple_of(ALIGNMENT), 0);
        self.bytes
    }
}
