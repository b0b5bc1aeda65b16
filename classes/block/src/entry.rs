//! Entries of the queues: plain values that their reader copies out once and checks.
//!
//! A request is one entry or several, each with one segment; all but the last of them say that it
//! continues. From the lowest bit on, with the count of bits:
//!
//! ```text
//!            first word                                              second word
//!   request  block 40, token 16, operation 4, flags 4                place 40, blocks 24
//!   answer   token 16, kind 8, result 8                              0
//!   disk     flags 4, granule 4, segments 8, kind 8,            blocks 41, most 16, failures 7
//!            most cleared 8, medium 32
//! ```
//!
//! A request that moves no data has its count of blocks in the second word, and place 0.

use crate::request::Borrowed;
use crate::{Disk, Error, MAX_SEGMENTS, Operation, Request, Segment, Shift};
use culm_abi::connection::block::ENTRY_SIZE;
use culm_queue::Entry;

// The build tool lays the queues out by this.
const _: () =
    assert!(size_of::<RequestEntry>() == ENTRY_SIZE as usize && size_of::<AnswerEntry>() == ENTRY_SIZE as usize);

/// In place of an operation's number: the entry continues the request of the entry before.
const SEGMENT: u64 = 7;

/// Flag of an entry: the next one continues its request.
const CONTINUES: u64 = 1;

/// Flags of a disk.
mod disk_flag {
    pub const READ_ONLY: u64 = 1 << 0;
    pub const DISCARDS: u64 = 1 << 1;
    pub const WRITES_ZEROES: u64 = 1 << 2;
    pub const CACHES: u64 = 1 << 3;
}

/// Kinds of entries from a provider, in bits 16 to 23.
mod kind {
    pub const ANSWER: u64 = 0;
    pub const DISK: u64 = 1;
}

/// Returns `count` bits of `word` from `from` on.
const fn bits(word: u64, from: u32, count: u32) -> u64 {
    word >> from & ((1 << count) - 1)
}

/// A request, or a further segment of one.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct RequestEntry(pub [u64; 2]);

/// The meaning of one entry.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Step {
    /// A request begins.
    Begin { token: u16, operation: Operation, block: u64, segment: Segment, continues: bool },
    /// The request goes on with this segment.
    Continue { segment: Segment, continues: bool },
    /// No valid request. Its token can be read, so it is answered.
    Nonsense { token: u16 },
}

impl RequestEntry {
    /// Writes the entries of a request under this token; returns how many there are.
    ///
    /// The request's numbers are those that [`Disk::check`] accepts: larger ones are cut off.
    pub fn write(request: &Request, token: u16, entries: &mut [Self; MAX_SEGMENTS]) -> usize {
        Self::write_shifted(request.into(), Shift::NONE, token, entries)
    }

    /// Does what [`Self::write`] does, with the request's numbers shifted.
    #[inline(always)]
    pub(crate) fn write_shifted(
        request: Borrowed<'_>,
        shift: Shift,
        token: u16,
        entries: &mut [Self; MAX_SEGMENTS],
    ) -> usize {
        let (operation, block) = (request.operation as u64, shift.block(request.operation, request.block));
        let Some((first, rest)) = request.segments.split_first() else {
            let counted = Segment { place: 0, blocks: request.blocks };
            entries[0] = Self::new(operation, 0, block, token, counted);
            return 1;
        };
        let shifted = |segment: &Segment| Segment { place: shift.place(*segment), ..*segment };
        let continues = |behind: usize| if behind == 0 { 0 } else { CONTINUES };
        entries[0] = Self::new(operation, continues(rest.len()), block, token, shifted(first));
        for (index, (entry, segment)) in entries.iter_mut().skip(1).zip(rest).enumerate() {
            *entry = Self::new(SEGMENT, continues(rest.len() - index - 1), 0, token, shifted(segment));
        }
        1 + rest.len()
    }

    #[inline(always)]
    fn new(operation: u64, flags: u64, block: u64, token: u16, segment: Segment) -> Self {
        let word = bits(block, 0, 40) | u64::from(token) << 40 | operation << 56 | flags << 60;
        Self([word, bits(segment.place, 0, 40) | bits(segment.blocks.into(), 0, 24) << 40])
    }

    #[inline]
    pub(crate) fn step(self) -> Step {
        let Self([word, memory]) = self;
        let (token, flags) = (bits(word, 40, 16) as u16, bits(word, 60, 4));
        let segment = Segment { place: bits(memory, 0, 40), blocks: bits(memory, 40, 24) as u32 };
        let (block, number, continues) = (bits(word, 0, 40), bits(word, 56, 4), flags == CONTINUES);
        if flags & !CONTINUES != 0 {
            return Step::Nonsense { token };
        }
        let Some(operation) = Operation::of(number) else {
            return if number == SEGMENT { Step::Continue { segment, continues } } else { Step::Nonsense { token } };
        };
        if !operation.moves_data() {
            let names_blocks = operation.is_flush() && (block, segment.blocks) != (0, 0);
            if continues || segment.place != 0 || names_blocks {
                return Step::Nonsense { token };
            }
        }
        Step::Begin { token, operation, block, segment, continues }
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
    /// The request of this token is done, or has failed.
    Of {
        /// The token that the request had.
        token: u16,
        /// Its outcome.
        result: Result<(), Error>,
    },
    /// This is the disk, from here on.
    Disk(Disk),
}

/// An [`Answer`] in a queue.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct AnswerEntry(pub [u64; 2]);

impl From<Answer> for AnswerEntry {
    #[inline]
    fn from(answer: Answer) -> Self {
        match answer {
            Answer::Of { token, result } => {
                let result = result.map_or_else(|error| 1 + error as u64, |()| 0);
                Self([u64::from(token) | kind::ANSWER << 16 | result << 24, 0])
            }
            Answer::Disk(disk) => {
                let flag = |is: bool, flag: u64| if is { flag } else { 0 };
                let flags = flag(disk.read_only, disk_flag::READ_ONLY)
                    | flag(disk.discards, disk_flag::DISCARDS)
                    | flag(disk.writes_zeroes, disk_flag::WRITES_ZEROES)
                    | flag(disk.caches, disk_flag::CACHES);
                let limits = u64::from(disk.granule) << 4 | u64::from(disk.segments) << 8;
                let rest = u64::from(disk.most_cleared) << 24 | u64::from(disk.medium) << 32;
                Self([
                    flags | limits | kind::DISK << 16 | rest,
                    disk.blocks | u64::from(disk.most) << 41 | u64::from(disk.failures) << 57,
                ])
            }
        }
    }
}

impl AnswerEntry {
    /// Returns what the entry says, or `None` if that cannot be. A reason that is not known is
    /// taken for a failure of the device.
    #[inline]
    pub fn read(self) -> Option<Answer> {
        let Self([word, second]) = self;
        match bits(word, 16, 8) {
            kind::ANSWER => {
                let result = match bits(word, 24, 8).checked_sub(1) {
                    None => Ok(()),
                    Some(reason) => Err(Error::ALL.get(reason as usize).copied().unwrap_or(Error::Failed)),
                };
                Some(Answer::Of { token: word as u16, result })
            }
            kind::DISK => {
                let disk = Disk {
                    blocks: bits(second, 0, 41),
                    medium: (word >> 32) as u32,
                    read_only: word & disk_flag::READ_ONLY != 0,
                    discards: word & disk_flag::DISCARDS != 0,
                    writes_zeroes: word & disk_flag::WRITES_ZEROES != 0,
                    caches: word & disk_flag::CACHES != 0,
                    granule: bits(word, 4, 4) as u8,
                    segments: bits(word, 8, 8) as u8,
                    most: bits(second, 41, 16) as u32,
                    most_cleared: bits(word, 24, 8) as u8,
                    failures: bits(second, 57, 7) as u8,
                };
                disk.is_valid().then_some(Answer::Disk(disk))
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
    use crate::{MAX_BLOCKS, MAX_DISK};
    use proptest::prelude::*;

    fn segment() -> impl Strategy<Value = Segment> {
        (0..MAX_DISK, 1..1_u32 << 24).prop_map(|(place, blocks)| Segment { place, blocks })
    }

    proptest! {
        #[test]
        fn requests_keep_their_fields(
            block in 0..MAX_DISK, token: u16, segments in proptest::collection::vec(segment(), 1..=MAX_SEGMENTS)
        ) {
            let request = Request::write(block, &segments).expect("so many are possible");
            let mut entries = [RequestEntry::default(); MAX_SEGMENTS];
            let count = RequestEntry::write(&request, token, &mut entries);
            prop_assert_eq!(count, segments.len());
            let Step::Begin { operation, segment, .. } = entries[0].step() else { panic!("it begins") };
            prop_assert_eq!((operation, segment), (Operation::Write, segments[0]));
            for (index, (entry, segment)) in entries.iter().zip(&segments).enumerate() {
                let continues = index + 1 < count;
                let expected = match index {
                    0 => Step::Begin { token, operation, block, segment: *segment, continues },
                    _ => Step::Continue { segment: *segment, continues },
                };
                prop_assert_eq!(entry.step(), expected);
            }
        }

        #[test]
        fn disks_keep_their_fields(
            blocks in 1..=MAX_DISK, medium in 1..u32::MAX, flags: [bool; 4], granule in 0..=Disk::LARGEST_GRANULE,
            segments in 1..=MAX_SEGMENTS as u8, most in 128..=MAX_BLOCKS, most_cleared in 7..=Disk::MAX_CLEARED,
            failures in 0..=Disk::MAX_FAILURES
        ) {
            let blocks = blocks >> granule << granule;
            let [read_only, discards, writes_zeroes, caches] = flags;
            let disk = Disk { blocks, medium, read_only, discards, writes_zeroes, caches, granule, segments, most, most_cleared, failures };
            prop_assert_eq!(AnswerEntry::from(Answer::Disk(disk)).read(), Some(Answer::Disk(disk)));
        }

        #[test]
        fn any_word_is_an_entry_or_none(words: [u64; 2]) {
            let _ = RequestEntry(words).step();
            if let Some(Answer::Disk(disk)) = AnswerEntry(words).read() {
                prop_assert!(disk.is_valid());
            }
        }
    }

    #[test]
    fn answers_keep_their_reason() {
        for result in Error::ALL.map(Err).into_iter().chain([Ok(())]) {
            let answer = Answer::Of { token: 0xfedc, result };
            assert_eq!(AnswerEntry::from(answer).read(), Some(answer));
        }
    }
}
