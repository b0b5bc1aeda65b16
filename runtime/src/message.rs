//! Messages of calls: a few words that travel in registers.

use core::fmt;
use culm_abi::syscall::MESSAGE_WORDS;

/// Eight words, the content of a call or of a reply.
///
/// Words that the sender does not give are zero: a message never carries a register's old content.
#[derive(Clone, Copy, Default, PartialEq, Eq)]
pub struct Message([u64; MESSAGE_WORDS]);

impl Message {
    /// The empty message: all zero.
    pub const EMPTY: Self = Self([0; MESSAGE_WORDS]);

    /// Creates a message that begins with these words, at most eight; more do not compile.
    #[inline(always)]
    pub const fn new<const N: usize>(words: [u64; N]) -> Self {
        const { assert!(N <= MESSAGE_WORDS, "a message has at most eight words") };
        let mut message = Self::EMPTY;
        let mut index = 0;
        while index < N {
            message.0[index] = words[index];
            index += 1;
        }
        message
    }

    /// Returns the words, as the registers hold them.
    #[inline(always)]
    pub const fn words(&self) -> &[u64; MESSAGE_WORDS] {
        &self.0
    }

    /// Returns word `index`, or 0 if there is none.
    #[inline(always)]
    pub fn word(&self, index: usize) -> u64 {
        self.0.get(index).copied().unwrap_or(0)
    }
}

impl<const N: usize> From<[u64; N]> for Message {
    #[inline(always)]
    fn from(words: [u64; N]) -> Self {
        Self::new(words)
    }
}

impl fmt::Debug for Message {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_tuple("Message").field(&self.words()).finish()
    }
}

/// The callee of a call faulted, was stopped or was restarted before it replied. There is no reply;
/// whether the callee did what was asked is not known.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CalleeGone;

impl fmt::Display for CalleeGone {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("the called component failed before it replied")
    }
}

impl core::error::Error for CalleeGone {}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_that_nobody_gave_are_zero() {
        let message = Message::new([1, 2]);
        assert_eq!(message.words(), &[1, 2, 0, 0, 0, 0, 0, 0]);
        assert_eq!((message.word(1), message.word(2), message.word(99)), (2, 0, 0));
    }
}
