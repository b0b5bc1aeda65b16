//! Finding and ordering of slots, in constant time and in memory that does not grow.
//!
//! A table of so many slots has each of its items in one of these; an [`Index`] finds slots by a
//! hash, [`Lists`] keep them in order. Both name slots by number, so that whatever else a slot has
//! can lie elsewhere. Numbers here come from the table itself, never from a packet.

use alloc::boxed::Box;
use alloc::vec;

/// No slot.
const NONE: u32 = u32::MAX;

/// Most slots of an index or of lists.
pub const MOST: usize = 1 << 30;

/// Slots by hash: chains, one for each slot on average at most.
#[derive(Debug)]
pub struct Index {
    heads: Box<[u32]>,
    links: Box<[Link]>,
}

#[derive(Clone, Copy, Debug)]
struct Link {
    hash: u32,
    next: u32,
}

impl Index {
    /// An index of `slots` slots, none of which is in it.
    pub fn new(slots: usize) -> Self {
        let heads = vec![NONE; slots.next_power_of_two()].into();
        Self { heads, links: vec![Link { hash: 0, next: NONE }; slots].into() }
    }

    #[inline(always)]
    fn bucket(&self, hash: u32) -> usize {
        hash as usize & (self.heads.len() - 1)
    }

    /// Adds a slot that is not in the index.
    pub fn insert(&mut self, slot: u32, hash: u64) {
        let hash = hash as u32;
        let bucket = self.bucket(hash);
        self.links[slot as usize] = Link { hash, next: self.heads[bucket] };
        self.heads[bucket] = slot;
    }

    /// Removes a slot that is in the index.
    pub fn remove(&mut self, slot: u32) {
        let Link { hash, next } = self.links[slot as usize];
        let bucket = self.bucket(hash);
        if self.heads[bucket] == slot {
            self.heads[bucket] = next;
            return;
        }
        let mut at = self.heads[bucket];
        while at != NONE {
            let link = &mut self.links[at as usize];
            if link.next == slot {
                link.next = next;
                return;
            }
            at = link.next;
        }
    }

    /// Returns the slot whose item is the one of this hash, as `is_it` says of those that may be.
    #[inline(always)]
    pub fn find(&self, hash: u64, is_it: impl Fn(u32) -> bool) -> Option<u32> {
        let mut at = *self.heads.get(self.bucket(hash as u32))?;
        // No slot is behind the last one.
        while let Some(link) = self.links.get(at as usize) {
            if link.hash == hash as u32 && is_it(at) {
                return Some(at);
            }
            at = link.next;
        }
        None
    }
}

/// Lists of slots, of which each is in one list at most.
#[derive(Debug)]
pub struct Lists {
    ends: Box<[Ends]>,
    links: Box<[Ends]>,
}

/// First and last of a list; or what stands before and behind a slot.
#[derive(Clone, Copy, Debug)]
struct Ends {
    first: u32,
    last: u32,
}

const EMPTY: Ends = Ends { first: NONE, last: NONE };

impl Lists {
    /// So many empty lists.
    pub fn new(lists: usize, slots: usize) -> Self {
        Self { ends: vec![EMPTY; lists].into(), links: vec![EMPTY; slots].into() }
    }

    /// Returns the first of a list.
    pub fn first(&self, list: usize) -> Option<u32> {
        Some(self.ends[list].first).filter(|slot| *slot != NONE)
    }

    /// Returns what follows a slot in its list.
    #[cfg(test)]
    fn next(&self, slot: u32) -> Option<u32> {
        Some(self.links[slot as usize].last).filter(|slot| *slot != NONE)
    }

    /// Adds a slot that is in no list to the end of one.
    pub fn push(&mut self, list: usize, slot: u32) {
        let last = self.ends[list].last;
        self.links[slot as usize] = Ends { first: last, last: NONE };
        match last {
            NONE => self.ends[list].first = slot,
            last => self.links[last as usize].last = slot,
        }
        self.ends[list].last = slot;
    }

    /// Removes a slot from the list that it is in.
    pub fn remove(&mut self, list: usize, slot: u32) {
        let Ends { first: before, last: behind } = self.links[slot as usize];
        match before {
            NONE => self.ends[list].first = behind,
            before => self.links[before as usize].last = behind,
        }
        match behind {
            NONE => self.ends[list].last = before,
            behind => self.links[behind as usize].first = before,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::{BTreeMap, BTreeSet, VecDeque};
    use std::vec::Vec;

    proptest! {
        #[test]
        fn an_index_finds_what_a_map_finds(steps in prop::collection::vec((0..20_u32, 0..6_u64), 1..200)) {
            let (mut index, mut model) = (Index::new(20), BTreeMap::new());
            for (slot, hash) in steps {
                // Hashes that differ above the buckets' bits share a bucket.
                let hash = hash * 32;
                if model.remove(&slot).is_some() {
                    index.remove(slot);
                } else {
                    model.insert(slot, hash);
                    index.insert(slot, hash);
                }
                for hash in (0..6).map(|hash| hash * 32) {
                    let expected: BTreeSet<u32> =
                        model.iter().filter(|(_, own)| **own == hash).map(|(slot, _)| *slot).collect();
                    let found: BTreeSet<u32> = (0..20).filter(|slot| index.find(hash, |at| at == *slot).is_some()).collect();
                    prop_assert_eq!(found, expected);
                }
            }
        }

        #[test]
        fn lists_keep_their_order(steps in prop::collection::vec((0..3_usize, 0..10_u32), 1..200)) {
            let (mut lists, mut model) = (Lists::new(3, 10), [const { VecDeque::new() }; 3]);
            for (list, slot) in steps {
                match (0..3).find(|list| model[*list].contains(&slot)) {
                    Some(own) => {
                        lists.remove(own, slot);
                        model[own].retain(|other| *other != slot);
                    }
                    None => {
                        lists.push(list, slot);
                        model[list].push_back(slot);
                    }
                }
                for (list, model) in model.iter().enumerate() {
                    let found: Vec<u32> =
                        core::iter::successors(lists.first(list), |slot| lists.next(*slot)).collect();
                    prop_assert_eq!(&found, &model.iter().copied().collect::<Vec<_>>());
                }
            }
        }
    }
}
