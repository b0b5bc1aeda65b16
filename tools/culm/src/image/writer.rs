//! Writes plain data in which structures refer to each other by offset: a start block.

use culm_abi::start::Span;
use zerocopy::{Immutable, IntoBytes};

/// Alignment of everything that is written.
const ALIGNMENT: usize = 8;

/// The bytes that are written so far.
#[derive(Debug, Default)]
pub struct Writer {
    bytes: Vec<u8>,
}

impl Writer {
    /// Begins with `size` bytes that are filled in at the end.
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

    /// Fills in the head and returns all that is written.
    pub fn finish<T: IntoBytes + Immutable>(mut self, head: &T) -> Vec<u8> {
        let head = head.as_bytes();
        self.bytes[..head.len()].copy_from_slice(head);
        self.bytes.resize(self.bytes.len().next_multiple_of(ALIGNMENT), 0);
        self.bytes
    }
}
