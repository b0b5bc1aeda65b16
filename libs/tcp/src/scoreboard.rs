//! What was sent and is not acknowledged: when each part was sent last, and what became of it
//! (RFC 6675's scoreboard, with RFC 8985's times).
//!
//! A record covers as many segments as went out at one time and have met the same fate. There are
//! as many as the slice has; where they run out, neighbours are put together, at the price of
//! sending something again that had arrived, or of learning of a loss a little later.

use crate::ring::Ring;
use crate::sequence::{Range, Sequence};
use crate::time::Instant;

/// The fewest records that a connection can do with.
pub const FEWEST_RECORDS: usize = 8;

/// What became of what was sent.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Fate {
    /// It is on the way, as far as is known.
    #[default]
    OnTheWay,
    /// The peer has it, by a SACK block.
    Arrived,
    /// It is taken for lost, and to be sent again.
    Lost,
}

/// A part of what was sent: made by its default for a slice of records, and then the connection's.
#[derive(Clone, Copy, Debug, Default)]
pub struct Sent {
    pub(crate) range: Range,
    /// When it was sent last.
    pub(crate) at: Instant,
    pub(crate) fate: Fate,
    /// Whether it was sent more than once.
    pub(crate) is_repeated: bool,
}

impl Sent {
    /// Returns whether this was sent after what ended at `end` and was sent `at` (RFC 8985, §6.2).
    #[inline]
    pub fn is_after(&self, at: Instant, end: Sequence) -> bool {
        self.at > at || self.at == at && self.range.end.is_after(end)
    }
}

/// The records, in the order of their numbers, without gaps.
#[derive(Debug)]
pub(crate) struct Scoreboard<'s> {
    records: Ring<'s, Sent>,
    /// Bytes that are on the way (pipe), and bytes taken for lost.
    on_the_way: u32,
    lost: u32,
    arrived: u32,
}

impl<'s> Scoreboard<'s> {
    pub fn new(records: &'s mut [Sent]) -> Self {
        Self { records: Ring::new(records), on_the_way: 0, lost: 0, arrived: 0 }
    }

    /// Takes the slots of the records away.
    pub fn take_slots(&mut self) -> &'s mut [Sent] {
        self.records.take_slots()
    }

    #[inline]
    pub fn is_empty(&self) -> bool {
        self.records.count() == 0
    }

    #[inline]
    pub fn on_the_way(&self) -> u32 {
        self.on_the_way
    }

    #[inline]
    pub fn lost(&self) -> u32 {
        self.lost
    }

    #[inline]
    pub fn arrived(&self) -> u32 {
        self.arrived
    }

    #[inline]
    pub fn count(&self) -> usize {
        self.records.count()
    }

    #[inline]
    pub fn get(&self, index: usize) -> Option<Sent> {
        self.records.get(index)
    }

    #[inline]
    pub fn last(&self) -> Option<Sent> {
        self.records.last()
    }

    fn bytes_of(&mut self, fate: Fate) -> &mut u32 {
        match fate {
            Fate::OnTheWay => &mut self.on_the_way,
            Fate::Arrived => &mut self.arrived,
            Fate::Lost => &mut self.lost,
        }
    }

    /// Notes what was sent for the first time, behind all that was sent before.
    #[inline]
    pub fn append(&mut self, range: Range, at: Instant) {
        self.on_the_way += range.length();
        let is_new = |last: &Sent| last.fate == Fate::OnTheWay && !last.is_repeated;
        if let Some(last) = self.last()
            && is_new(&last)
            && last.at == at
        {
            self.extend_last(range.end, at);
            return;
        }
        // Two places are kept for dividing a record.
        if !self.records.has_space(3) {
            self.make_room();
        }
        if self.records.has_space(1) {
            self.records.push(Sent { range, at, fate: Fate::OnTheWay, is_repeated: false });
        } else {
            self.extend_last(range.end, at);
        }
    }

    fn extend_last(&mut self, end: Sequence, at: Instant) {
        if let Some(last) = self.records.count().checked_sub(1).and_then(|last| self.records.get_mut(last)) {
            (last.range.end, last.at) = (end, at);
        }
    }

    /// Changes what became of a record.
    pub fn set_fate(&mut self, index: usize, fate: Fate) {
        let Some(record) = self.records.get_mut(index) else { return };
        let (old, length) = (core::mem::replace(&mut record.fate, fate), record.range.length());
        *self.bytes_of(old) -= length;
        *self.bytes_of(fate) += length;
    }

    /// Notes that a record was sent again.
    pub fn repeat(&mut self, index: usize, at: Instant) {
        self.set_fate(index, Fate::OnTheWay);
        if let Some(record) = self.records.get_mut(index) {
            (record.at, record.is_repeated) = (at, true);
        }
    }

    /// Takes the record of all that is on the way for acknowledged, if it is the only one and was
    /// sent once; returns it.
    #[inline]
    pub fn take_only(&mut self) -> Option<Sent> {
        let only = self.records.get(0)?;
        if self.records.count() > 1 || only.fate != Fate::OnTheWay || only.is_repeated {
            return None;
        }
        self.records.pop();
        self.on_the_way = 0;
        Some(only)
    }

    /// Takes all before `end` for acknowledged. Hands to `delivered` what had not arrived before.
    #[inline]
    pub fn acknowledge(&mut self, end: Sequence, mut delivered: impl FnMut(Sent)) {
        while let Some(first) = self.records.get(0) {
            if !first.range.start.is_before(end) {
                break;
            }
            let mut done = first;
            done.range.end = first.range.end.min(end);
            *self.bytes_of(first.fate) -= done.range.length();
            if first.fate != Fate::Arrived {
                delivered(done);
            }
            if first.range.end.is_after(end) {
                if let Some(record) = self.records.get_mut(0) {
                    record.range.start = end;
                }
                break;
            }
            self.records.pop();
        }
    }

    /// Takes `block` for arrived. Hands to `delivered` what had not before. A part of a record is
    /// passed over if there is no place to divide it.
    pub fn mark_arrived(&mut self, block: Range, mut delivered: impl FnMut(Sent)) {
        let mut index = 0;
        while let Some(record) = self.records.get(index) {
            if !record.range.start.is_before(block.end) {
                break;
            }
            let overlap = Range { start: record.range.start.max(block.start), end: record.range.end.min(block.end) };
            if overlap.is_empty() || record.fate == Fate::Arrived {
                index += 1;
                continue;
            }
            if overlap.start != record.range.start {
                if !self.divide(index, overlap.start) {
                    index += 1;
                    continue;
                }
                index += 1;
            }
            if overlap.end != record.range.end && !self.divide(index, overlap.end) {
                break;
            }
            if let Some(record) = self.records.get(index) {
                delivered(record);
            }
            self.set_fate(index, Fate::Arrived);
            index = self.join_arrived(index) + 1;
        }
    }

    /// Puts an arrived record together with arrived neighbours; returns where it is then.
    fn join_arrived(&mut self, index: usize) -> usize {
        let is_arrived = |record: Option<Sent>| record.is_some_and(|record| record.fate == Fate::Arrived);
        if is_arrived(self.get(index + 1)) {
            self.join(index);
        }
        match index.checked_sub(1) {
            Some(before) if is_arrived(self.get(before)) => {
                self.join(before);
                before
            }
            _ => index,
        }
    }

    /// Puts the record of `index` and the next one together: on the way if one of them is, and else
    /// lost if one of them is. It counts as sent when the later one was.
    ///
    /// What was lost then waits for another sign of that. The other way round, what was sent again
    /// just now would be lost at once and sent without end.
    fn join(&mut self, index: usize) {
        let (Some(one), Some(next)) = (self.get(index), self.get(index + 1)) else { return };
        let has = |fate| one.fate == fate || next.fate == fate;
        let fate = if has(Fate::OnTheWay) {
            Fate::OnTheWay
        } else if has(Fate::Lost) {
            Fate::Lost
        } else {
            Fate::Arrived
        };
        self.set_fate(index, fate);
        self.set_fate(index + 1, fate);
        if let Some(record) = self.records.get_mut(index) {
            record.range.end = next.range.end;
            record.at = one.at.max(next.at);
            record.is_repeated = one.is_repeated | next.is_repeated;
        }
        self.records.remove(index + 1);
    }

    /// Divides a record at `at`, which lies within; returns whether there was a place.
    pub fn divide(&mut self, index: usize, at: Sequence) -> bool {
        let Some(record) = self.records.get(index) else { return false };
        let second = Sent { range: Range { start: at, end: record.range.end }, ..record };
        if !self.records.insert(index + 1, second) {
            return false;
        }
        if let Some(first) = self.records.get_mut(index) {
            first.range.end = at;
        }
        true
    }

    /// Makes places for records: puts neighbours together, those first for which that costs least.
    #[cold]
    pub fn make_room(&mut self) {
        let mut index = 0;
        while let Some(cost) = self.cost_of_joining(index) {
            if cost == 0 {
                self.join(index);
            } else {
                index += 1;
            }
        }
        while !self.records.has_space(3) {
            let costs = (0..self.count()).filter_map(|index| Some((self.cost_of_joining(index)?, index)));
            let Some((_, index)) = costs.min() else { break };
            self.join(index);
        }
    }

    /// Returns what is lost by putting a record and the next one together: nothing, the knowledge
    /// of whether they were sent once, bytes that have arrived and are sent again, or the knowledge
    /// of a loss. `None` if there is no next one.
    fn cost_of_joining(&self, index: usize) -> Option<u64> {
        let (one, next) = (self.get(index)?, self.get(index + 1)?);
        let arrived = [one, next].into_iter().filter(|record| record.fate == Fate::Arrived);
        Some(match () {
            () if one.fate == next.fate => u64::from(one.is_repeated != next.is_repeated),
            () if one.fate == Fate::Arrived || next.fate == Fate::Arrived => {
                arrived.map(|record| 1 + u64::from(record.range.length())).sum()
            }
            () => u64::MAX,
        })
    }

    /// Returns the first record that is taken for lost.
    pub fn first_lost(&self) -> Option<usize> {
        if self.lost == 0 {
            return None;
        }
        (0..self.count()).find(|index| self.get(*index).is_some_and(|record| record.fate == Fate::Lost))
    }

    /// Has the record of `index` end after `length` bytes, if it is longer. Makes a place for the
    /// rest if there is none; where the record was put together with others for that, they are what
    /// is divided. Returns where the record with its first byte is then.
    pub fn cut(&mut self, index: usize, length: u32) -> Option<usize> {
        let record = self.get(index)?;
        let (start, at) = (record.range.start, record.range.start + length);
        if length == 0 || record.range.length() <= length || self.divide(index, at) {
            return Some(index);
        }
        self.make_room();
        let index = self.holding(start)?;
        let joined = self.get(index)?.range;
        let end = joined.start + length;
        if joined.end.is_after(end) {
            self.divide(index, end);
        }
        Some(index)
    }

    /// Has the last `length` bytes be a record of their own, as [`Self::cut`] does with the first
    /// ones. Returns its place.
    pub fn cut_last(&mut self, length: u32) -> Option<usize> {
        let last = self.last()?.range;
        let at = last.end - length;
        if length > 0 && last.length() > length && !self.divide(self.count() - 1, at) {
            self.make_room();
            self.divide(self.holding(at)?, at);
        }
        self.count().checked_sub(1)
    }

    /// Returns the place of the record that has this number.
    fn holding(&self, number: Sequence) -> Option<usize> {
        (0..self.count()).find(|index| self.get(*index).is_some_and(|record| record.range.end.is_after(number)))
    }

    /// Takes all that is on the way for lost.
    pub fn lose_all(&mut self) {
        self.set_all(Fate::OnTheWay, Fate::Lost);
    }

    /// Has all of one fate meet another.
    pub fn set_all(&mut self, from: Fate, to: Fate) {
        for index in 0..self.count() {
            if self.get(index).is_some_and(|record| record.fate == from) {
                self.set_fate(index, to);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::vec::Vec;

    const START: Sequence = Sequence(u32::MAX - 100);

    fn range(from: u32, to: u32) -> Range {
        Range { start: START + from, end: START + to }
    }

    fn check(board: &Scoreboard<'_>, from: u32, to: u32) {
        let mut at = START + from;
        let mut sums = [0; 3];
        for index in 0..board.count() {
            let record = board.get(index).unwrap();
            assert_eq!(record.range.start, at, "no gaps");
            assert!(!record.range.is_empty());
            sums[record.fate as usize] += record.range.length();
            at = record.range.end;
        }
        assert_eq!(at, START + to);
        assert_eq!(sums, [board.on_the_way(), board.arrived(), board.lost()]);
    }

    proptest! {
        /// Records cover what is not acknowledged, without gaps; sums are right; each byte is
        /// delivered once, or twice where records ran out; what was never said to have arrived is
        /// not taken for it.
        #[test]
        fn records_cover_what_was_sent(
            steps in prop::collection::vec((0..7_u8, 0_u32..300, 1_u32..60), 0..80), places in FEWEST_RECORDS..30,
        ) {
            let mut slots = std::vec![Sent::default(); places];
            let mut board = Scoreboard::new(&mut slots);
            let (mut una, mut nxt) = (0_u32, 0_u32);
            let mut told = Vec::new();
            for (number, (step, at, length)) in steps.into_iter().enumerate() {
                let now = Instant(number as u64 / 2);
                match step {
                    0 | 1 => {
                        board.append(range(nxt, nxt + length), now);
                        nxt += length;
                    }
                    2 => {
                        una = nxt.min(una + at / 4);
                        board.acknowledge(START + una, |sent| assert_ne!(sent.fate, Fate::Arrived));
                    }
                    3 => {
                        let (from, to) = (nxt.min(una + at), nxt.min(una + at + length));
                        told.push((from, to));
                        board.mark_arrived(range(from, to), |sent| {
                            let from = sent.range.start.since(START) as u32;
                            assert!(from >= una && from + sent.range.length() <= nxt);
                        });
                    }
                    4 => board.set_all(Fate::OnTheWay, Fate::Lost),
                    5 => if let Some(index) = board.first_lost() {
                        let index = board.cut(index, length).unwrap();
                        prop_assert!(board.get(index).unwrap().range.length() <= length);
                        board.repeat(index, now);
                    }
                    // However few records there are, what is lost has been sent again at some time.
                    _ => for turn in 0.. {
                        prop_assert!(turn < 10_000);
                        let Some(index) = board.first_lost() else { break };
                        let index = board.cut(index, length).unwrap();
                        board.repeat(index, now);
                    }
                }
                check(&board, una, nxt);
                for index in 0..board.count() {
                    let record = board.get(index).unwrap();
                    if record.fate == Fate::Arrived {
                        let from = record.range.start.since(START) as u32;
                        let is_told = |at: u32| told.iter().any(|(from, to)| (*from..*to).contains(&at));
                        prop_assert!((from..from + record.range.length()).all(is_told));
                    }
                }
            }
        }
    }
}
