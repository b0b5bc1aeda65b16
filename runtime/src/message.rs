//! Messages of calls: a few words that travel in registers.

use core::fmt;
use culm_abi::syscall::MESSAGE_WORDS;

/// Up to eight words, the content of a call or of a reply.
///
/// Words beyond the length are zero, and stay so on their way: a message never carries what a register happened to
/// hold.
#[derive(Clone, Copy, Default, PartialEq, Eq)]
pub struct Message {
    words: [u64; MESSAGE_WORDS],
    length: usize,
}

impl Message {
    /// The message without words.
    pub const EMPTY: Self = Self { words: [0; MESSAGE_WORDS], length: 0 };

    /// A message of `N` words, at most eight; a longer one does not compile.
    #[inline(always)]
    pub const fn new<const N: usize>(words: [u64; N]) -> Self {
        const { assert!(N <= MESSAGE_WORDS, "a message has at most eight words") };
        let mut message = Self { words: [0; MESSAGE_WORDS], length: N };
        let mut index = 0;
        while index < N {
            message.words[index] = words[index];
            index += 1;
        }
        message
    }

    /// A message as the registers hold it. `length` comes from the kernel, which checked it: at most eight.
    #[inline(always)]
    #[cfg(target_os = "none")]
    pub(crate) const fn from_registers(words: [u64; MESSAGE_WORDS], length: usize) -> Self {
        Self { words, length }
    }

    /// All eight registers, zero where the message has no word.
    #[inline(always)]
    #[cfg(any(target_os = "none", test))]
    pub(crate) const fn registers(&self) -> &[u64; MESSAGE_WORDS] {
        &self.words
    }

    /// The words.
    #[inline(always)]
    pub fn words(&self) -> &[u64] {
        &self.words[..self.length]
    }

    /// Word `index`, or 0 where the message is shorter.
    #[inline(always)]
    pub fn word(&self, index: usize) -> u64 {
        self.words.get(index).copied().unwrap_or(0)
    }

    /// Count of words.
    #[inline(always)]
    pub const fn len(&self) -> usize {
        self.length
    }

    /// Whether there is no word.
    #[inline(always)]
    pub const fn is_empty(&self) -> bool {
        self.length == 0
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

/// The callee of a call faulted, was stopped or was restarted before it replied. There is no reply; whether the callee
/// did what was asked is not known.
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
    fn words_beyond_the_length_are_zero() {
        let message = Message::new([1, 2]);
        assert_eq!(message.words(), [1, 2]);
        assert_eq!(message.registers(), &[1, 2, 0, 0, 0, 0, 0, 0]);
        assert_eq!((message.word(1), message.word(2), message.word(99)), (2, 0, 0));
    }
}
