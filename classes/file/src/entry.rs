//! Entries of the queues: plain values that their reader copies out once and checks. From the
//! lowest bit on, with the count of bits:
//!
//! ```text
//!            first word                                        second word
//!   request  token 16, operation 8, file 8, length 32          position 40, place 24
//!   answer   token 16, kind 8, result 8, count 32              where to go on + 1; 0: it ends
//!   volume   flags 16, kind 8, result 8, number 32             0
//! ```

use crate::{Done, Error, Info, Mode, Operation, Request, Volume};
use culm_abi::connection::file::ENTRY_SIZE;
use culm_queue::Entry;

// The build tool lays the queues out by this.
const _: () =
    assert!(size_of::<RequestEntry>() == ENTRY_SIZE as usize && size_of::<AnswerEntry>() == ENTRY_SIZE as usize);

/// Every operation, in the order of their numbers in a queue, from 1 on.
const OPERATIONS: [Operation; 12] = [
    Operation::Open(Mode::Read),
    Operation::Open(Mode::New),
    Operation::Open(Mode::Append),
    Operation::Close,
    Operation::Read,
    Operation::Write,
    Operation::Commit,
    Operation::Stat,
    Operation::List,
    Operation::MakeFolder,
    Operation::Remove,
    Operation::Rename,
];

/// Kinds of entries from a provider, in bits 16 to 23.
mod kind {
    pub const ANSWER: u64 = 0;
    /// An answer with an `Info` in memory.
    pub const FILE: u64 = 1;
    pub const VOLUME: u64 = 2;
}

/// Flag of a volume.
const READ_ONLY: u64 = 1 << 0;

/// Returns `count` bits of `word` from `from` on.
#[inline(always)]
const fn bits(word: u64, from: u32, count: u32) -> u64 {
    word >> from & ((1 << count) - 1)
}

/// A [`Request`] in a queue.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct RequestEntry(pub [u64; 2]);

impl RequestEntry {
    /// Writes a request under this token. Its numbers are those that [`Request::check`] accepts.
    pub fn new(request: &Request, token: u16) -> Self {
        let code =
            OPERATIONS.iter().position(|operation| *operation == request.operation).map_or(0, |at| at as u64 + 1);
        let word = u64::from(token) | code << 16 | u64::from(request.file) << 24 | u64::from(request.length) << 32;
        Self([word, bits(request.position, 0, 40) | bits(request.place.into(), 0, 24) << 40])
    }

    /// Returns the token, and the request if it is one. It is not checked yet.
    #[inline]
    pub fn read(self) -> (u16, Option<Request>) {
        let Self([word, second]) = self;
        let code = bits(word, 16, 8) as usize;
        let operation = OPERATIONS.get(code.wrapping_sub(1));
        let request = operation.map(|operation| Request {
            operation: *operation,
            file: bits(word, 24, 8) as u8,
            position: bits(second, 0, 40),
            place: bits(second, 40, 24) as u32,
            length: bits(word, 32, 32) as u32,
        });
        (word as u16, request)
    }
}

impl Entry for RequestEntry {
    type Word = [u64; 2];

    #[inline(always)]
    fn into_word(self) -> [u64; 2] {
        self.0
    }

    #[inline(always)]
    fn from_word(word: [u64; 2]) -> Self {
        Self(word)
    }
}

/// A message of a provider.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Answer {
    /// The request of this token is done, or has failed. What its `info` says is in memory.
    Of {
        /// The token that the request had.
        token: u16,
        /// Its outcome.
        result: Result<Done, Error>,
    },
    /// This is the volume, from here on.
    Volume(Volume),
}

/// An [`Answer`] in a queue.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct AnswerEntry(pub [u64; 2]);

impl From<Answer> for AnswerEntry {
    #[inline]
    fn from(answer: Answer) -> Self {
        match answer {
            Answer::Of { token, result: Ok(done) } => {
                let kind = if done.info.is_some() { kind::FILE } else { kind::ANSWER };
                let next = done.next.map_or(0, |next| next.wrapping_add(1));
                Self([u64::from(token) | kind << 16 | u64::from(done.count) << 32, next])
            }
            Answer::Of { token, result: Err(error) } => {
                Self([u64::from(token) | kind::ANSWER << 16 | (1 + error as u64) << 24, 0])
            }
            Answer::Volume(volume) => {
                let flags = if volume.read_only { READ_ONLY } else { 0 };
                let fault = volume.fault.map_or(0, |fault| 1 + fault as u64);
                Self([flags | kind::VOLUME << 16 | fault << 24 | u64::from(volume.number) << 32, 0])
            }
        }
    }
}

impl AnswerEntry {
    /// Returns what the entry says, or `None` if that cannot be. A reason that is not known is
    /// taken for a failure of the device. An `info` that is in memory is all zero here.
    #[inline]
    pub fn read(self) -> Option<Answer> {
        let Self([word, second]) = self;
        let reason = bits(word, 24, 8).checked_sub(1);
        let error = reason.map(|reason| Error::ALL.get(reason as usize).copied().unwrap_or(Error::Failed));
        match bits(word, 16, 8) {
            kind @ (kind::ANSWER | kind::FILE) => {
                let done = Done {
                    count: (word >> 32) as u32,
                    info: (kind == kind::FILE).then(Info::default),
                    next: second.checked_sub(1),
                };
                Some(Answer::Of { token: word as u16, result: error.map_or(Ok(done), Err) })
            }
            kind::VOLUME => {
                let volume = Volume { number: (word >> 32) as u32, read_only: word & READ_ONLY != 0, fault: error };
                volume.is_valid().then_some(Answer::Volume(volume))
            }
            _ => None,
        }
    }
}

impl Entry for AnswerEntry {
    type Word = [u64; 2];

    #[inline(always)]
    fn into_word(self) -> [u64; 2] {
        self.0
    }

    #[inline(always)]
    fn from_word(word: [u64; 2]) -> Self {
        Self(word)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn requests_keep_their_fields(
            code in 0..OPERATIONS.len(), token: u16, file: u8, length: u32, position in 0..=Request::MAX_POSITION,
            place in 0..=Request::MAX_PLACE
        ) {
            let request = Request { operation: OPERATIONS[code], file, position, place, length };
            prop_assert_eq!(RequestEntry::new(&request, token).read(), (token, Some(request)));
        }

        #[test]
        fn answers_keep_their_fields(token: u16, count: u32, next in proptest::option::of(0..u64::MAX), has_info: bool) {
            let answer = Answer::Of { token, result: Ok(Done { count, next, info: has_info.then(Info::default) }) };
            prop_assert_eq!(AnswerEntry::from(answer).read(), Some(answer));
        }

        #[test]
        fn any_word_is_an_entry_or_none(words: [u64; 2]) {
            let _ = RequestEntry(words).read();
            if let Some(Answer::Volume(volume)) = AnswerEntry(words).read() {
                prop_assert!(volume.is_valid());
            }
        }
    }

    #[test]
    fn answers_and_volumes_keep_their_reason() {
        for error in Error::ALL {
            let answer = Answer::Of { token: 0xfedc, result: Err(error) };
            assert_eq!(AnswerEntry::from(answer).read(), Some(answer));
            let answer = Answer::Volume(Volume { fault: Some(error), ..Volume::ABSENT });
            assert_eq!(AnswerEntry::from(answer).read(), Some(answer));
        }
        let answer = Answer::Volume(Volume::new(u32::MAX, true));
        assert_eq!(AnswerEntry::from(answer).read(), Some(answer));
    }
}
