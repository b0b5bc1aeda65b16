//! What has arrived beyond what is in order: ranges of numbers, not bytes.
//!
//! The bytes are where whoever received them puts them. This knows which there are, so that none is
//! delivered twice, and tells the peer by SACK blocks (RFC 2018) and reports of duplicates (RFC
//! 2883). Ranges are few: a peer that makes more holes than there are places has its data dropped
//! and sends it again once holes are filled. What was accepted is never forgotten.

use crate::options::Blocks;
use crate::sequence::{Range, Sequence};

/// A range of bytes that has arrived before bytes in front of it.
#[derive(Clone, Copy, Debug, Default)]
pub struct Island {
    range: Range,
    /// When it last grew, as a count of arrivals: the latest is reported first.
    arrival: u32,
}

/// Where the bytes of an accepted segment go.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Placement {
    /// Bytes at the start of the payload that are known already or are not data.
    pub skip: u32,
    /// Bytes that follow and are to be kept. Some of them may have been kept before; they are the
    /// same ones.
    pub length: u32,
    /// How far from the next byte in order they belong: 0 if they are in order.
    pub offset: u32,
    /// How many bytes are in order now that were not before, these and what had arrived earlier.
    pub ready: u32,
}

/// The receiving side's account of numbers.
#[derive(Debug)]
pub struct Incoming<'s> {
    /// The next byte in order (RCV.NXT).
    pub next: Sequence,
    islands: &'s mut [Island],
    count: u32,
    arrivals: u32,
    /// What arrived although it was there, until it is reported.
    duplicate: Option<Range>,
}

impl<'s> Incoming<'s> {
    /// Nothing has arrived; `next` is the number of the first byte. There can be as many islands as
    /// the slice has, 65,536 at most.
    pub fn new(next: Sequence, islands: &'s mut [Island]) -> Self {
        let usable = islands.len().min(1 << 16);
        Self { next, islands: &mut islands[..usable], count: 0, arrivals: 0, duplicate: None }
    }

    /// Takes the places of islands away.
    pub(crate) fn take_slots(&mut self) -> &'s mut [Island] {
        self.count = 0;
        core::mem::take(&mut self.islands)
    }

    /// Returns whether something has arrived that is not in order.
    #[inline]
    pub fn has_holes(&self) -> bool {
        self.count > 0
    }

    /// Returns the end of the furthest that has arrived.
    pub fn furthest(&self) -> Sequence {
        self.known().last().map_or(self.next, |last| last.range.end)
    }

    /// Returns how many blocks [`Self::blocks`] has, `most` at most.
    #[inline]
    pub fn news(&self, most: u32) -> u32 {
        (self.count + u32::from(self.duplicate.is_some())).min(most)
    }

    #[inline]
    fn known(&self) -> &[Island] {
        self.islands.get(..self.count as usize).unwrap_or(&[])
    }

    /// Takes a segment's payload. `window` is how many bytes from [`Self::next`] on are wanted.
    /// Returns where they go; `None` if there is nothing in it to be kept.
    #[inline]
    pub fn accept(&mut self, payload: Range, window: u32) -> Option<Placement> {
        // In order, nothing waits behind: nearly every segment.
        if payload.start == self.next && self.count == 0 {
            let length = payload.length().min(window);
            self.next += length;
            return (length > 0).then_some(Placement { skip: 0, length, offset: 0, ready: length });
        }
        self.accept_out_of_order(payload, window)
    }

    #[cold]
    fn accept_out_of_order(&mut self, payload: Range, window: u32) -> Option<Placement> {
        let range = Range { start: payload.start.max(self.next), end: payload.end.min(self.next + window) };
        self.note_duplicate(payload);
        if range.is_empty() {
            return None;
        }
        let placement = Placement {
            skip: Range { start: payload.start, end: range.start }.length(),
            length: range.length(),
            offset: Range { start: self.next, end: range.start }.length(),
            ready: 0,
        };
        if range.start == self.next {
            let ready = self.advance(range.end);
            return Some(Placement { ready, ..placement });
        }
        self.insert(range).then_some(placement)
    }

    /// Notes the bytes of `payload` that are in order already, or else those on an island that has
    /// all of it.
    pub fn note_duplicate(&mut self, payload: Range) {
        if payload.start.is_before(self.next) && !payload.is_empty() {
            self.duplicate = Some(Range { start: payload.start, end: payload.end.min(self.next) });
        } else if self.known().iter().any(|island| contains(island.range, payload)) {
            self.duplicate = Some(payload);
        }
    }

    /// Takes all bytes up to `end` for arrived, and those of islands that follow; returns how many
    /// are in order now that were not.
    fn advance(&mut self, end: Sequence) -> u32 {
        let before = self.next;
        self.next = end;
        let mut used = 0;
        for island in self.known() {
            if island.range.start.is_after(end) {
                break;
            }
            used += 1;
        }
        if let Some(last) = self.known()[..used].last() {
            self.next = self.next.max(last.range.end);
        }
        self.remove(0, used);
        Range { start: before, end: self.next }.length()
    }

    /// Notes `range`, which lies beyond what is in order; returns whether there was a place.
    fn insert(&mut self, range: Range) -> bool {
        let known = self.known();
        let from = known.iter().take_while(|island| island.range.end.is_before(range.start)).count();
        let touched = known[from..].iter().take_while(|island| !island.range.start.is_after(range.end)).count();
        let mut merged = range;
        for island in &known[from..from + touched] {
            merged.start = merged.start.min(island.range.start);
            merged.end = merged.end.max(island.range.end);
        }
        let count = self.count as usize;
        if touched == 0 && count == self.islands.len() {
            return false;
        }
        self.arrivals = self.arrivals.wrapping_add(1);
        let island = Island { range: merged, arrival: self.arrivals };
        if touched == 0 {
            self.islands.copy_within(from..count, from + 1);
            self.count += 1;
        } else {
            self.remove(from + 1, touched - 1);
        }
        self.islands[from] = island;
        true
    }

    /// Removes `removed` islands from `at` on.
    fn remove(&mut self, at: usize, removed: usize) {
        let count = self.count as usize;
        self.islands.copy_within(at + removed..count, at);
        self.count = (count - removed) as u32;
    }

    /// Returns the blocks of the next acknowledgement: a duplicate first, once (RFC 2883, §4), then
    /// what grew last (RFC 2018, §4).
    pub fn blocks(&mut self) -> Blocks {
        let mut blocks = Blocks::default();
        if let Some(duplicate) = self.duplicate.take() {
            blocks.push(duplicate);
        }
        // How long ago each grew; the next one to report is the latest before the last reported.
        let age = |island: &Island| self.arrivals.wrapping_sub(island.arrival);
        let mut reported = None;
        for _ in 0..crate::MOST_BLOCKS {
            let older = self.known().iter().filter(|island| reported.is_none_or(|reported| age(island) > reported));
            let Some(next) = older.min_by_key(|island| age(island)) else { break };
            blocks.push(next.range);
            reported = Some(age(next));
        }
        blocks
    }
}

/// Returns whether `outer` has all bytes of `inner`, which has some.
fn contains(outer: Range, inner: Range) -> bool {
    !inner.is_empty() && !inner.start.is_before(outer.start) && !inner.end.is_after(outer.end)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::vec::Vec;

    const START: Sequence = Sequence(u32::MAX - 50);

    fn range(from: u32, to: u32) -> Range {
        Range { start: START + from, end: START + to }
    }

    proptest! {
        /// Against a bit per byte: what is accepted is in order when all before it has been, and
        /// blocks tell of nothing else than what was accepted.
        #[test]
        fn it_knows_which_bytes_there_are(
            segments in prop::collection::vec((0_u32..150, 0_u32..30), 0..60), places in 0_usize..5,
        ) {
            let mut islands = std::vec![Island::default(); places];
            let mut incoming = Incoming::new(START, &mut islands);
            let (mut has, mut next) = ([false; 260], 0_u32);
            for (from, length) in segments {
                // The peer may not send beyond the window, and may well send again.
                let from = (next + from).saturating_sub(40);
                let window = 100;
                let placement = incoming.accept(range(from, from + length), window);
                if let Some(placement) = placement {
                    let start = next + placement.offset;
                    prop_assert_eq!(start, from + placement.skip);
                    prop_assert!(placement.length > 0 && placement.skip + placement.length <= length);
                    prop_assert!(placement.offset + placement.length <= window);
                    has[start as usize..(start + placement.length) as usize].fill(true);
                    let ready = (next..).take_while(|at| has[*at as usize]).count() as u32;
                    prop_assert_eq!(placement.ready, ready);
                    next += ready;
                } else {
                    // Nothing new in the window, or no place for one more island.
                    let wanted = (from.max(next)..(from + length).min(next + window)).count() > 0;
                    prop_assert!(!wanted || from > next && incoming.count as usize == places);
                }
                prop_assert_eq!(incoming.next, START + next);
                for block in incoming.blocks().as_slice() {
                    let from = block.start.since(START) as usize;
                    prop_assert!(!block.is_empty() && has[from..from + block.length() as usize].iter().all(|has| *has));
                }
                if next > 90 {
                    break;
                }
            }
        }
    }

    fn blocks(incoming: &mut Incoming<'_>) -> Vec<(u32, u32)> {
        let offset = |at: Sequence| at.since(START) as u32;
        incoming.blocks().as_slice().iter().map(|block| (offset(block.start), offset(block.end))).collect()
    }

    #[test]
    fn the_block_that_grew_last_comes_first() {
        let mut islands = [Island::default(); 8];
        let mut incoming = Incoming::new(START, &mut islands);
        for (from, to) in [(10, 20), (30, 40), (50, 60), (70, 80), (90, 100), (32, 44)] {
            incoming.accept(range(from, to), 200);
        }
        assert_eq!(blocks(&mut incoming), [(30, 44), (90, 100), (70, 80), (50, 60)]);
    }

    #[test]
    fn a_duplicate_is_reported_once_and_first() {
        let mut islands = [Island::default(); 8];
        let mut incoming = Incoming::new(START, &mut islands);
        incoming.accept(range(0, 10), 200);
        incoming.accept(range(20, 30), 200);
        assert_eq!(incoming.accept(range(5, 10), 200), None);
        assert_eq!(blocks(&mut incoming), [(5, 10), (20, 30)]);
        assert_eq!(blocks(&mut incoming), [(20, 30)]);
        incoming.accept(range(22, 30), 200);
        assert_eq!(blocks(&mut incoming), [(22, 30), (20, 30)]);
    }

    #[test]
    fn more_holes_than_places_cost_the_newest_data() {
        let mut islands = [Island::default(); 2];
        let mut incoming = Incoming::new(START, &mut islands);
        incoming.accept(range(10, 20), 200);
        incoming.accept(range(30, 40), 200);
        assert_eq!(incoming.accept(range(50, 60), 200), None);
        assert!(incoming.accept(range(20, 30), 200).is_some());
        assert!(incoming.accept(range(50, 60), 200).is_some());
        assert_eq!(incoming.accept(range(0, 10), 200).map(|placement| placement.ready), Some(40));
    }
}
