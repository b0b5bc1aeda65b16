//! From a value to the row of bits of the rules that have it in their set.

use crate::{MAX_RULES, Number};
use alloc::collections::BTreeMap;
use alloc::vec;
use alloc::vec::Vec;
use core::fmt;

/// Rules of which a word of a row tells.
const WORD: usize = 64;

// A row's summary is one word.
const _: () = assert!(MAX_RULES <= WORD * WORD);

/// Tables that would be larger than the caller allows, or than they can be.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TooLarge;

impl fmt::Display for TooLarge {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("the tables of these rules are too large: write fewer rules, or fewer and larger ranges")
    }
}

impl core::error::Error for TooLarge {}

/// The name of a row. Tries use its highest bit for themselves.
pub type RowId = u16;

/// Rows of bits, and the summary of each.
#[derive(Clone, Debug)]
pub struct Rows {
    /// A row's bit is set if the word of that number is not zero.
    summaries: Vec<u64>,
    /// The words of all rows, one row after the other.
    bits: Vec<u64>,
    /// The words of a row.
    words: usize,
}

impl Rows {
    /// Returns the first rule that is in all of these rows.
    #[inline]
    pub fn first_in_all<const COUNT: usize>(&self, ids: [RowId; COUNT]) -> Option<usize> {
        let mut summary = u64::MAX;
        for id in ids {
            summary &= self.summaries.get(usize::from(id)).copied().unwrap_or(0);
        }
        while summary != 0 {
            let word = summary.trailing_zeros() as usize;
            let mut bits = u64::MAX;
            for id in ids {
                bits &= self.bits.get(usize::from(id) * self.words + word).copied().unwrap_or(0);
            }
            if bits != 0 {
                return Some(word * WORD + bits.trailing_zeros() as usize);
            }
            summary &= summary - 1;
        }
        None
    }
}

/// Makes rows and tables, each row once, within a limit of memory.
#[derive(Debug)]
pub struct Builder {
    rows: Rows,
    known: BTreeMap<Vec<u64>, RowId>,
    /// Bytes that tables may still take.
    left: usize,
}

impl Builder {
    /// For so many rules, with tables of at most `limit` bytes.
    pub fn new(rules: usize, limit: usize) -> Self {
        let words = rules.div_ceil(WORD);
        Self { rows: Rows { summaries: Vec::new(), bits: Vec::new(), words }, known: BTreeMap::new(), left: limit }
    }

    /// Returns the rows, and how many bytes of the limit are left.
    pub fn finish(mut self) -> (Rows, usize) {
        self.rows.summaries.shrink_to_fit();
        self.rows.bits.shrink_to_fit();
        (self.rows, self.left)
    }

    fn take(&mut self, bytes: usize) -> Result<(), TooLarge> {
        self.left = self.left.checked_sub(bytes).ok_or(TooLarge)?;
        Ok(())
    }

    /// Returns the row with these words.
    fn row(&mut self, words: &[u64]) -> Result<RowId, TooLarge> {
        if let Some(id) = self.known.get(words) {
            return Ok(*id);
        }
        let id = RowId::try_from(self.known.len()).ok().filter(|id| id & NODE == 0).ok_or(TooLarge)?;
        self.take((self.rows.words + 1) * size_of::<u64>())?;
        let summary = words.iter().rev().fold(0, |summary, word| summary << 1 | u64::from(*word != 0));
        self.rows.summaries.push(summary);
        self.rows.bits.extend_from_slice(words);
        self.known.insert(words.to_vec(), id);
        Ok(id)
    }

    /// Returns, for each of `values`, the row of the rules that have it.
    pub fn list<V, R>(
        &mut self,
        values: &[V],
        rules: &[R],
        has: impl Fn(&R, &V) -> bool,
    ) -> Result<Vec<RowId>, TooLarge> {
        self.take(values.len() * size_of::<RowId>())?;
        let mut words = vec![0; self.rows.words];
        let row = |value| {
            words.fill(0);
            let found = rules.iter().enumerate().filter(|(_, rule)| has(rule, value));
            found.for_each(|(rule, _)| flip(&mut words, rule));
            self.row(&words)
        };
        values.iter().map(row).collect()
    }

    /// Returns the values at which another row begins, in order, each with that row; the first is
    /// the least value. `sets` are the ranges of each rule.
    fn segments<'a, T: Number + 'a>(
        &mut self,
        sets: impl Iterator<Item = &'a [(T, T)]>,
    ) -> Result<Vec<(T, RowId)>, TooLarge> {
        let mut changes = Vec::new();
        for (rule, parts) in sets.enumerate() {
            for (first, last) in parts {
                changes.push((*first, rule));
                changes.extend(last.next().map(|end| (end, rule)));
            }
        }
        changes.sort_unstable();
        let mut words = vec![0; self.rows.words];
        let mut segments: Vec<(T, RowId)> = Vec::new();
        let mut at = T::MIN;
        for (value, rule) in changes {
            if value != at {
                add(&mut segments, at, self.row(&words)?);
                at = value;
            }
            flip(&mut words, rule);
        }
        add(&mut segments, at, self.row(&words)?);
        Ok(segments)
    }

    /// Returns a table for numbers of 16 bits.
    pub fn trie_16<'a>(&mut self, sets: impl Iterator<Item = &'a [(u16, u16)]>) -> Result<Trie<2>, TooLarge> {
        let segments: Vec<_> = self.segments(sets)?.into_iter().map(|(start, row)| (u32::from(start), row)).collect();
        self.trie(&segments)
    }

    /// Returns a table for numbers of 32 bits.
    pub fn trie_32<'a>(&mut self, sets: impl Iterator<Item = &'a [(u32, u32)]>) -> Result<Trie<4>, TooLarge> {
        let segments = self.segments(sets)?;
        self.trie(&segments)
    }

    fn trie<const BYTES: usize>(&mut self, segments: &[(u32, RowId)]) -> Result<Trie<BYTES>, TooLarge> {
        let mut nodes = Vec::new();
        let root = match segments {
            [(_, row)] => *row,
            _ => self.node(&mut nodes, segments, 0, BYTES as u32 * 8 - 8)?,
        };
        nodes.shrink_to_fit();
        Ok(Trie { root, nodes })
    }

    /// Adds a node for the numbers that begin with those bits of `base` that are above the byte at
    /// `shift`; returns the entry that leads to it. The first of `segments` has `base` in it.
    fn node(
        &mut self,
        nodes: &mut Vec<Node>,
        segments: &[(u32, RowId)],
        base: u32,
        shift: u32,
    ) -> Result<u16, TooLarge> {
        self.take(size_of::<Node>())?;
        let index = u16::try_from(nodes.len()).ok().filter(|index| index & NODE == 0).ok_or(TooLarge)?;
        nodes.push([0; 256]);
        let mut node = [0; 256];
        let mut rest = segments;
        for (entry, value) in node.iter_mut().zip(0_u32..) {
            let first = base | value << shift;
            let last = first | ((1 << shift) - 1);
            while let [_, tail @ ..] = rest
                && tail.first().is_some_and(|(start, _)| *start <= first)
            {
                rest = tail;
            }
            *entry = match rest {
                [_, (start, _), ..] if *start <= last => self.node(nodes, rest, first, shift.saturating_sub(8))?,
                [(_, row), ..] => *row,
                [] => 0,
            };
        }
        if let Some(place) = nodes.get_mut(usize::from(index)) {
            *place = node;
        }
        Ok(index | NODE)
    }

    /// Returns a table for numbers of 128 bits.
    pub fn sorted<'a>(&mut self, sets: impl Iterator<Item = &'a [(u128, u128)]>) -> Result<Sorted, TooLarge> {
        let segments = self.segments(sets)?;
        self.take(segments.len() * (size_of::<u128>() + size_of::<RowId>()))?;
        let (starts, rows) = segments.into_iter().unzip();
        Ok(Sorted { starts, rows })
    }
}

/// Adds a segment, unless it goes on as the last one does.
fn add<T>(segments: &mut Vec<(T, RowId)>, start: T, row: RowId) {
    if segments.last().is_none_or(|(_, last)| *last != row) {
        segments.push((start, row));
    }
}

/// Turns a rule's bit over. A rule's ranges have gaps between them, so each change is one turn.
fn flip(words: &mut [u64], rule: usize) {
    if let Some(word) = words.get_mut(rule / WORD) {
        *word ^= 1 << (rule % WORD);
    }
}

/// The mark of an entry that leads to a node.
const NODE: u16 = 1 << 15;

/// For each value of a byte a row, or a further node.
type Node = [u16; 256];

/// A table by the bytes of a number, the highest first. It ends as soon as all numbers that begin
/// so have the same row.
#[derive(Clone, Debug)]
pub struct Trie<const BYTES: usize> {
    root: u16,
    nodes: Vec<Node>,
}

impl<const BYTES: usize> Trie<BYTES> {
    /// Returns the row of a number.
    #[inline]
    pub fn find(&self, number: [u8; BYTES]) -> RowId {
        let mut entry = self.root;
        for byte in number {
            if entry & NODE == 0 {
                break;
            }
            entry = self.nodes.get(usize::from(entry & !NODE)).map_or(0, |node| node[usize::from(byte)]);
        }
        entry
    }
}

/// A table of the numbers at which another row begins.
#[derive(Clone, Debug)]
pub struct Sorted {
    starts: Vec<u128>,
    rows: Vec<RowId>,
}

impl Sorted {
    /// Returns the row of a number.
    #[inline]
    pub fn find(&self, number: u128) -> RowId {
        // The first start is 0.
        let after = self.starts.partition_point(|start| *start <= number);
        after.checked_sub(1).and_then(|at| self.rows.get(at)).copied().unwrap_or(0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn summaries_lead_to_the_first_common_rule() {
        let mut builder = Builder::new(4096, 1 << 20);
        let mut row = |rules: &[usize]| {
            let mut words = vec![0; 64];
            rules.iter().for_each(|rule| flip(&mut words, *rule));
            builder.row(&words).expect("there is room")
        };
        // Rules 5 and 6 share a word, so the summary leads there in vain.
        let (one, other, last) = (row(&[5, 200, 4095]), row(&[6, 200, 201, 4095]), row(&[4095]));
        let (rows, _) = builder.finish();
        assert_eq!(rows.first_in_all([one, other]), Some(200));
        assert_eq!(rows.first_in_all([one, other, last]), Some(4095));
        assert_eq!(rows.first_in_all([other]), Some(6));
    }

    #[test]
    fn a_row_is_kept_once() {
        let mut builder = Builder::new(1, 1000);
        assert_eq!((builder.row(&[1]), builder.row(&[0]), builder.row(&[1])), (Ok(0), Ok(1), Ok(0)));
        let (rows, left) = builder.finish();
        assert_eq!((left, rows.first_in_all([0]), rows.first_in_all([0, 1])), (1000 - 2 * 16, Some(0), None));
    }

    #[test]
    fn tables_keep_to_the_limit() {
        let part = [(7_u32, 7_u32)];
        let sets = || [part.as_slice()].into_iter();
        // Two rows of two words, and a node for each byte.
        let needed = 2 * 16 + 4 * 512;
        assert!(Builder::new(1, needed).trie_32(sets()).is_ok());
        assert_eq!(Builder::new(1, needed - 1).trie_32(sets()).err(), Some(TooLarge));
        assert_eq!(Builder::new(1, 31).trie_32(sets()).err(), Some(TooLarge));
    }

    #[test]
    fn tables_end_where_nothing_changes() {
        let all = [(0, u16::MAX)];
        let trie = Builder::new(1, 16).trie_16([all.as_slice()].into_iter()).expect("one row");
        assert!(trie.nodes.is_empty());
        let part = [(0x1200, 0x12ff)];
        let trie = Builder::new(1, 1 << 12).trie_16([part.as_slice()].into_iter()).expect("two rows");
        assert_eq!(trie.nodes.len(), 1);
        assert_eq!([0x11ff, 0x1200, 0x12ff, 0x1300_u16].map(|port| trie.find(port.to_be_bytes())), [0, 1, 1, 0]);
    }

    #[test]
    fn the_ends_of_numbers_are_found() {
        let part = [(0, 0), (9, 9), (u128::MAX, u128::MAX)];
        let sorted = Builder::new(1, 1 << 12).sorted([part.as_slice()].into_iter()).expect("two rows");
        let found = [0, 1, 8, 9, 10, u128::MAX - 1, u128::MAX].map(|number| sorted.find(number));
        assert_eq!(found, [0, 1, 1, 0, 1, 1, 0]);
    }
}
