//! Rules that are proposed: a number, a length, and the text. A new number says that they are
//! there.

use crate::text;
use alloc::string::String;
use core::sync::atomic::AtomicU64;
use core::sync::atomic::Ordering::{Acquire, Relaxed, Release};

/// Words in front of the text: the proposal's number, and its length in bytes.
const HEADER: usize = 2;

/// Splits memory into header and text.
fn parts(words: &[AtomicU64]) -> Option<(&[AtomicU64; HEADER], &[AtomicU64])> {
    words.split_first_chunk()
}

/// The side that proposes.
#[derive(Clone, Copy, Debug)]
pub struct Proposal<'a> {
    header: &'a [AtomicU64; HEADER],
    text: &'a [AtomicU64],
}

impl<'a> Proposal<'a> {
    /// Proposals in this memory; `None` if it is too small for any.
    pub fn new(words: &'a [AtomicU64]) -> Option<Self> {
        let (header, text) = parts(words)?;
        Some(Self { header, text })
    }

    /// Returns how many bytes rules may have.
    pub fn room(&self) -> usize {
        self.text.len() * 8
    }

    /// Proposes rules, and returns the number by which the answer is known. What was proposed
    /// before should have been answered: the router may find the new text in its place. `None`: the
    /// text is too long.
    pub fn propose(&self, rules: &str) -> Option<u64> {
        if rules.len() > self.room() {
            return None;
        }
        let [number, length] = self.header;
        text::write(self.text, rules);
        length.store(rules.len() as u64, Relaxed);
        let next = number.load(Relaxed).wrapping_add(1);
        number.store(next, Release);
        Some(next)
    }
}

/// The router's side.
#[derive(Clone, Copy, Debug)]
pub struct Inbox<'a> {
    header: &'a [AtomicU64; HEADER],
    text: &'a [AtomicU64],
}

impl<'a> Inbox<'a> {
    /// Proposals in this memory; `None` if it is too small for any.
    pub fn new(words: &'a [AtomicU64]) -> Option<Self> {
        let (header, text) = parts(words)?;
        Some(Self { header, text })
    }

    /// Returns the number of what was proposed last; 0 if nothing was.
    #[inline]
    pub fn number(&self) -> u64 {
        self.header[0].load(Acquire)
    }

    /// Returns the text of what was proposed last; `None` if it is none, or longer than can be.
    pub fn text(&self) -> Option<String> {
        text::read(self.text, self.header[1].load(Relaxed))
    }
}
