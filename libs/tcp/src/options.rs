//! The options of a header: maximum segment size (RFC 9293, §3.7.1), window scale and timestamps
//! (RFC 7323), SACK permitted and SACK blocks (RFC 2018).

use crate::sequence::{Range, Sequence};

/// Bytes that a header has for options.
pub const SPACE: usize = 40;

/// The most SACK blocks that fit: four, or three beside timestamps (RFC 2018, §3).
pub const MOST_BLOCKS: usize = 4;

/// The largest window scale; a larger one that is received counts as this (RFC 7323, §2.3).
pub const LARGEST_SCALE: u8 = 14;

/// Bytes of the options of a SYN that has all four, packed.
const USUAL_SYN: usize = 20;

const END: u8 = 0;
const NO_OPERATION: u8 = 1;
const MSS: u8 = 2;
const WINDOW_SCALE: u8 = 3;
const SACK_PERMITTED: u8 = 4;
const SACK: u8 = 5;
const TIMESTAMPS: u8 = 8;

/// The timestamps option (RFC 7323, §3.2), in ticks of the sender's and of the receiver's clock.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Timestamps {
    /// The sender's clock.
    pub value: u32,
    /// The latest value that the sender has received; in a segment without ACK it means nothing.
    pub echo: u32,
}

/// SACK blocks, [`MOST_BLOCKS`] at most.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Blocks {
    blocks: [Range; MOST_BLOCKS],
    count: u8,
}

impl Blocks {
    /// Adds a block, unless there are as many as there can be.
    pub fn push(&mut self, block: Range) {
        if let Some(place) = self.blocks.get_mut(usize::from(self.count)) {
            *place = block;
            self.count += 1;
        }
    }

    /// Returns them in the order of the wire: the first is what arrived last (RFC 2018, §4).
    #[inline]
    pub fn as_slice(&self) -> &[Range] {
        self.blocks.get(..usize::from(self.count)).unwrap_or(&[])
    }

    /// Returns whether there is none.
    #[inline]
    pub const fn is_empty(&self) -> bool {
        self.count == 0
    }
}

/// The options that a header has.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Options {
    /// The largest payload in bytes that the sender takes in a segment, without options; in a SYN
    /// only.
    pub mss: Option<u16>,
    /// The power of two by which the sender's windows are scaled, [`LARGEST_SCALE`] at most; in a
    /// SYN only.
    pub window_scale: Option<u8>,
    /// Whether the sender takes SACK blocks; in a SYN only.
    pub sack_permitted: bool,
    /// What the sender has received beyond what it acknowledges.
    pub sack: Blocks,
    /// The timestamps.
    pub timestamps: Option<Timestamps>,
}

impl Options {
    /// Reads the options of a header.
    ///
    /// Unknown kinds are skipped, and so are known ones of a wrong length. At a length that leads
    /// nowhere reading ends, and what was read up to there counts (RFC 9293, §3.1, MUST-6, MUST-7).
    #[inline]
    pub fn parse(bytes: &[u8]) -> Self {
        let mut options = Self::default();
        options.take(bytes);
        options
    }

    /// Does what [`Self::parse`] does, where these options are to stay.
    #[inline(always)]
    pub(crate) fn take(&mut self, bytes: &[u8]) {
        // The form that nearly all segments of an established connection have (RFC 7323, A).
        if let [NO_OPERATION, NO_OPERATION, TIMESTAMPS, 10, stamps @ ..] = bytes
            && let Ok(stamps) = <[u8; 8]>::try_from(stamps)
        {
            self.timestamps = Some(read_timestamps(&stamps));
        } else if !self.take_usual_syn(bytes) {
            self.read_all(bytes);
        }
    }

    /// Reads the options of a SYN in the form that most have, Linux's; returns whether they have
    /// it.
    #[inline(always)]
    fn take_usual_syn(&mut self, bytes: &[u8]) -> bool {
        let [MSS, 4, high, low, SACK_PERMITTED, 2, TIMESTAMPS, 10, rest @ ..] = bytes else { return false };
        let Some((stamps, [NO_OPERATION, WINDOW_SCALE, 3, scale])) = rest.split_first_chunk() else { return false };
        self.mss = Some(u16::from_be_bytes([*high, *low]));
        self.sack_permitted = true;
        self.timestamps = Some(read_timestamps(stamps));
        self.window_scale = Some((*scale).min(LARGEST_SCALE));
        true
    }

    #[inline(never)]
    fn read_all(&mut self, mut bytes: &[u8]) {
        while let [kind, rest @ ..] = bytes {
            match *kind {
                END => break,
                NO_OPERATION => {
                    bytes = rest;
                    continue;
                }
                _ => {}
            }
            let Some(length) = rest.first().map(|length| usize::from(*length)) else { break };
            let Some(value) = bytes.get(2..length) else { break };
            self.read(*kind, value);
            bytes = bytes.get(length..).unwrap_or(&[]);
        }
    }

    /// Takes the option of a kind, if its value has the length that it must have.
    fn read(&mut self, kind: u8, value: &[u8]) {
        match (kind, value) {
            (MSS, [high, low]) => self.mss = Some(u16::from_be_bytes([*high, *low])),
            (WINDOW_SCALE, [scale]) => self.window_scale = Some((*scale).min(LARGEST_SCALE)),
            (SACK_PERMITTED, []) => self.sack_permitted = true,
            (TIMESTAMPS, stamps) => {
                if let Ok(stamps) = <[u8; 8]>::try_from(stamps) {
                    self.timestamps = Some(read_timestamps(&stamps));
                }
            }
            (SACK, blocks) if blocks.len().is_multiple_of(8) => {
                for block in blocks.chunks_exact(8) {
                    if let Ok(block) = <[u8; 8]>::try_from(block) {
                        let (start, end) = two_numbers(&block);
                        self.sack.push(Range { start: Sequence(start), end: Sequence(end) });
                    }
                }
            }
            _ => {}
        }
    }

    /// Returns whether there is nothing but timestamps, as in nearly all segments.
    #[inline]
    fn is_usual(&self) -> bool {
        self.sack.is_empty() && self.mss.is_none() && self.window_scale.is_none() && !self.sack_permitted
    }

    /// Returns the options of a SYN that has all four, as most have.
    #[inline]
    fn usual_syn(&self) -> Option<(u16, u8, Timestamps)> {
        let (mss, scale, stamps) = (self.mss?, self.window_scale?, self.timestamps?);
        (self.sack_permitted && self.sack.is_empty()).then_some((mss, scale, stamps))
    }

    /// Returns how many bytes the options have, padded to a multiple of 4: 40 at most.
    #[inline]
    pub fn length(&self) -> usize {
        let stamps = if self.timestamps.is_some() { 12 } else { 0 };
        if self.is_usual() {
            return stamps;
        }
        self.length_of_any(stamps)
    }

    /// Does what [`Self::length`] does, for options that are not the usual ones; `stamps` is the
    /// length of the timestamps.
    #[inline(never)]
    fn length_of_any(&self, stamps: usize) -> usize {
        if self.usual_syn().is_some() {
            return USUAL_SYN;
        }
        let words = [self.mss.is_some(), self.window_scale.is_some(), self.sack_permitted];
        let others = stamps + words.into_iter().map(|is_there| 4 * usize::from(is_there)).sum::<usize>();
        let blocks = self.sack.as_slice().len().min(fitting(others));
        others + if blocks > 0 { 4 + 8 * blocks } else { 0 }
    }

    /// Writes the options, padded to a multiple of 4, to the start of `space`, which has
    /// [`Self::length`] bytes at least. SACK blocks that do not fit in a header beside the others
    /// are left out, the last ones first.
    #[inline]
    pub fn emit(&self, space: &mut [u8]) {
        if self.is_usual()
            && let Some(stamps) = self.timestamps
            && let Some(space) = space.first_chunk_mut::<12>()
        {
            let ([a, b, c, d], [e, f, g, h]) = (stamps.value.to_be_bytes(), stamps.echo.to_be_bytes());
            *space = [NO_OPERATION, NO_OPERATION, TIMESTAMPS, 10, a, b, c, d, e, f, g, h];
        } else {
            self.emit_any(space);
        }
    }

    /// Does what [`Self::emit`] does, for options that are not the usual ones.
    #[inline(never)]
    fn emit_any(&self, space: &mut [u8]) {
        let mut writer = Writer { space, at: 0 };
        if let Some((mss, scale, stamps)) = self.usual_syn() {
            let [high, low] = mss.to_be_bytes();
            writer.put(&[MSS, 4, high, low]);
            writer.put(&[SACK_PERMITTED, 2, TIMESTAMPS, 10]);
            writer.put(&stamps.value.to_be_bytes());
            writer.put(&stamps.echo.to_be_bytes());
            return writer.put(&[NO_OPERATION, WINDOW_SCALE, 3, scale]);
        }
        if let Some(mss) = self.mss {
            let [high, low] = mss.to_be_bytes();
            writer.put(&[MSS, 4, high, low]);
        }
        if let Some(scale) = self.window_scale {
            writer.put(&[NO_OPERATION, WINDOW_SCALE, 3, scale]);
        }
        if self.sack_permitted {
            writer.put(&[NO_OPERATION, NO_OPERATION, SACK_PERMITTED, 2]);
        }
        if let Some(stamps) = self.timestamps {
            writer.put(&[NO_OPERATION, NO_OPERATION, TIMESTAMPS, 10]);
            writer.put(&stamps.value.to_be_bytes());
            writer.put(&stamps.echo.to_be_bytes());
        }
        let blocks = self.sack.as_slice();
        let blocks = &blocks[..blocks.len().min(fitting(writer.at))];
        if !blocks.is_empty() {
            writer.put(&[NO_OPERATION, NO_OPERATION, SACK, 2 + 8 * blocks.len() as u8]);
            for block in blocks {
                writer.put(&block.start.0.to_be_bytes());
                writer.put(&block.end.0.to_be_bytes());
            }
        }
    }
}

/// Returns how many SACK blocks fit in a header beside other options of so many bytes.
fn fitting(others: usize) -> usize {
    SPACE.saturating_sub(others + 4) / 8
}

fn two_numbers(bytes: &[u8; 8]) -> (u32, u32) {
    let [a, b, c, d, e, f, g, h] = *bytes;
    (u32::from_be_bytes([a, b, c, d]), u32::from_be_bytes([e, f, g, h]))
}

fn read_timestamps(bytes: &[u8; 8]) -> Timestamps {
    let (value, echo) = two_numbers(bytes);
    Timestamps { value, echo }
}

struct Writer<'a> {
    space: &'a mut [u8],
    at: usize,
}

impl Writer<'_> {
    fn put(&mut self, bytes: &[u8; 4]) {
        if let Some(place) = self.space.get_mut(self.at..self.at + 4) {
            place.copy_from_slice(bytes);
            self.at += 4;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_illegal_length_ends_the_options_and_keeps_those_before() {
        let with_mss = Options { mss: Some(1460), ..Options::default() };
        for tail in [&[WINDOW_SCALE, 0, 7][..], &[WINDOW_SCALE, 1, 7], &[TIMESTAMPS, 10, 1, 2], &[SACK_PERMITTED]] {
            let bytes = [&[MSS, 4, 5, 180], tail].concat();
            assert_eq!(Options::parse(&bytes), with_mss, "{tail:?}");
        }
    }

    #[test]
    fn a_known_kind_of_a_wrong_length_is_skipped() {
        let bytes = [MSS, 3, 5, TIMESTAMPS, 4, 1, 2, SACK, 6, 1, 2, 3, 4, SACK_PERMITTED, 2];
        assert_eq!(Options::parse(&bytes), Options { sack_permitted: true, ..Options::default() });
    }

    #[test]
    fn unknown_kinds_are_skipped_and_the_end_is_the_end() {
        let bytes = [254, 4, 9, 9, NO_OPERATION, WINDOW_SCALE, 3, 7, END, SACK_PERMITTED, 2];
        assert_eq!(Options::parse(&bytes), Options { window_scale: Some(7), ..Options::default() });
    }

    #[test]
    fn a_scale_that_is_too_large_is_the_largest() {
        assert_eq!(Options::parse(&[WINDOW_SCALE, 3, 200]).window_scale, Some(14));
    }

    #[test]
    fn five_blocks_are_no_more_than_four() {
        let mut bytes = std::vec![SACK, 42];
        bytes.extend([0; 40]);
        assert_eq!(Options::parse(&bytes).sack.as_slice().len(), 4);
    }

    #[test]
    fn blocks_that_do_not_fit_are_left_out_from_the_end() {
        let mut options = Options { timestamps: Some(Timestamps { value: 1, echo: 2 }), ..Options::default() };
        for number in 0..4 {
            options.sack.push(Range::new(Sequence(number * 10), 5));
        }
        let mut space = [0; SPACE];
        assert_eq!(options.length(), SPACE);
        options.emit(&mut space);
        let read = Options::parse(&space);
        assert_eq!(read.sack.as_slice(), &options.sack.as_slice()[..3]);
        assert_eq!(read.timestamps, options.timestamps);
    }
}
