//! Rules that are proposed: a number, the token of who proposes them, and the text. A new number
//! says that they are there.
//!
//! ```text
//! word  0  number: even; odd while another proposal is written
//!       1  bytes of the text
//!       2  bytes of the token
//!       3  the token, then the text
//! ```
//!
//! The reader loads the number again when it has read the rest: what is proposed anew meanwhile is
//! nobody's proposal, and has a number of its own once it is whole.

use crate::text;
use alloc::string::String;
use core::sync::atomic::Ordering::{Acquire, Relaxed, Release};
use core::sync::atomic::{AtomicU64, fence};

/// Bytes of the longest token.
pub const LONGEST_TOKEN: usize = 256;

const HEADER: usize = 3;
const TOKEN: usize = LONGEST_TOKEN / 8;

/// The memory, divided.
#[derive(Clone, Copy, Debug)]
struct Parts<'a> {
    header: &'a [AtomicU64; HEADER],
    token: &'a [AtomicU64],
    text: &'a [AtomicU64],
}

impl<'a> Parts<'a> {
    fn new(words: &'a [AtomicU64]) -> Option<Self> {
        let (header, rest) = words.split_first_chunk()?;
        let (token, text) = rest.split_at_checked(TOKEN)?;
        Some(Self { header, token, text })
    }
}

/// Returns how many words proposals of so many bytes need.
pub const fn proposal_words(text: usize) -> usize {
    HEADER + TOKEN + text.div_ceil(8)
}

/// The side that proposes.
#[derive(Clone, Copy, Debug)]
pub struct Proposal<'a> {
    parts: Parts<'a>,
}

impl<'a> Proposal<'a> {
    /// Proposals in this memory; `None` if it is too small for any.
    pub fn new(words: &'a [AtomicU64]) -> Option<Self> {
        Some(Self { parts: Parts::new(words)? })
    }

    /// Returns how many bytes rules may have.
    pub fn room(&self) -> usize {
        self.parts.text.len() * 8
    }

    /// Proposes rules with the token of who sends them, and returns the number by which the answer
    /// is known. What was proposed before and is not answered yet is withdrawn. `None`: text or
    /// token is too long.
    pub fn propose(&self, token: &str, rules: &str) -> Option<u64> {
        if rules.len() > self.room() || token.len() > LONGEST_TOKEN {
            return None;
        }
        let [number, length, token_length] = self.parts.header;
        // A life that ended in between has left an odd one.
        let odd = number.load(Relaxed) | 1;
        number.store(odd, Relaxed);
        fence(Release);
        token_length.store(text::write(self.parts.token, token) as u64, Relaxed);
        length.store(text::write(self.parts.text, rules) as u64, Relaxed);
        // Zero is the number of none.
        let next = odd.wrapping_add(1).max(2);
        number.store(next, Release);
        Some(next)
    }

    /// Removes the token, which is needed no more once there is an answer.
    pub fn forget_token(&self) {
        self.parts.token.iter().for_each(|word| word.store(0, Relaxed));
    }
}

/// Another proposal has taken the place of the one that was asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Withdrawn;

/// The router's side.
#[derive(Clone, Copy, Debug)]
pub struct Inbox<'a> {
    parts: Parts<'a>,
}

impl<'a> Inbox<'a> {
    /// Proposals in this memory; `None` if it is too small for any.
    pub fn new(words: &'a [AtomicU64]) -> Option<Self> {
        Some(Self { parts: Parts::new(words)? })
    }

    /// Returns the number of what is proposed; `None` if nothing is, or it is not whole yet.
    #[inline]
    pub fn number(&self) -> Option<u64> {
        Some(self.parts.header[0].load(Acquire)).filter(|number| *number != 0 && number.is_multiple_of(2))
    }

    /// Returns the token that came with the proposal `number`: `None` in it if that is no text, or
    /// longer than can be.
    ///
    /// # Errors
    ///
    /// If another proposal has taken its place, or just does.
    pub fn token(&self, number: u64) -> Result<Option<String>, Withdrawn> {
        self.read(number, self.parts.token, 2)
    }

    /// Returns the text of the proposal `number`, likewise.
    ///
    /// # Errors
    ///
    /// As of [`Self::token`].
    pub fn rules(&self, number: u64) -> Result<Option<String>, Withdrawn> {
        self.read(number, self.parts.text, 1)
    }

    fn read(&self, number: u64, words: &[AtomicU64], length_at: usize) -> Result<Option<String>, Withdrawn> {
        let own = &self.parts.header[0];
        if own.load(Acquire) != number {
            return Err(Withdrawn);
        }
        let text = text::read(words, self.parts.header[length_at].load(Relaxed));
        // Whoever has seen a word of the next one sees that this one's number is gone.
        fence(Acquire);
        if own.load(Relaxed) == number { Ok(text) } else { Err(Withdrawn) }
    }
}
