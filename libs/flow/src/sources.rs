//! Who has how many flows, so that who has the most pays first when there is no more room.
//!
//! A source is who began a flow. Its flows are of two kinds: *tentative* ones, of which the peer
//! has not shown that it wants them, or which have ended; and *lasting* ones. For each kind there
//! is a list of each source's flows, the one that was used longest ago first, and for each count a
//! list of the sources that have so many. A source moves by one count at a time, so that every
//! step, that to the source with the most flows included, takes constant time.

use crate::hash::Key;
use crate::index::{Index, Lists};
use alloc::boxed::Box;
use alloc::vec;
use alloc::vec::Vec;
use core::net::IpAddr;

/// Returns the address of a sender in two words, of IPv6 only its net of 64 bits: who has such a
/// net has all of its addresses, and would be as many senders as it likes. No two senders have the
/// same.
pub fn prefix(address: IpAddr) -> [u64; 2] {
    match address {
        IpAddr::V4(address) => [0, u32::from(address).into()],
        IpAddr::V6(address) => [1, (u128::from(address) >> 64) as u64],
    }
}

/// Kind of a flow.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// Half open, unanswered, or at its end.
    Tentative,
    /// Both ends take part.
    Lasting,
}

/// Number of kinds.
const KINDS: usize = 2;

/// The sources of a table's flows.
#[derive(Debug)]
pub struct Sources {
    key: Key,
    index: Index,
    prefixes: Box<[[u64; 2]]>,
    counts: Box<[[u32; KINDS]]>,
    /// Each flow's source.
    owners: Box<[u32]>,
    /// For each source and kind, its flows.
    flows: Lists,
    /// For each kind and count, the sources that have so many.
    ranks: [Lists; KINDS],
    most: [u32; KINDS],
    totals: [u32; KINDS],
    free: Vec<u32>,
}

impl Sources {
    /// No sources, of `flows` flows at most.
    pub fn new(key: Key, flows: usize) -> Self {
        Self {
            key,
            index: Index::new(flows),
            prefixes: vec![[0; 2]; flows].into(),
            counts: vec![[0; KINDS]; flows].into(),
            owners: vec![0; flows].into(),
            flows: Lists::new(flows * KINDS, flows),
            ranks: [Lists::new(flows + 1, flows), Lists::new(flows + 1, flows)],
            most: [0; KINDS],
            totals: [0; KINDS],
            free: (0..flows as u32).rev().collect(),
        }
    }

    /// Returns the number of flows of a kind.
    pub fn total(&self, kind: Kind) -> u32 {
        self.totals[kind as usize]
    }

    /// Returns the number of flows that `address` has begun.
    pub fn count(&self, address: IpAddr) -> u32 {
        self.find(prefix(address)).map_or(0, |source| self.counts[source as usize].iter().sum())
    }

    /// Returns the flow that a source used longest ago, of the tentative ones if it has any.
    pub fn oldest_of(&self, address: IpAddr) -> Option<u32> {
        let source = self.find(prefix(address))?;
        self.oldest(source, Kind::Tentative).or_else(|| self.oldest(source, Kind::Lasting))
    }

    /// Returns the flow that was used longest ago by the source with the most flows of that kind.
    pub fn oldest_of_heaviest(&self, kind: Kind) -> Option<u32> {
        let source = self.ranks[kind as usize].first(self.most[kind as usize] as usize)?;
        self.oldest(source, kind)
    }

    /// Adds a flow that `address` has begun.
    pub fn add(&mut self, flow: u32, address: IpAddr, kind: Kind) {
        let prefix = prefix(address);
        let source = match self.find(prefix) {
            Some(source) => source,
            None => {
                // Each source has a flow, so there are as many places as flows.
                let Some(source) = self.free.pop() else {
                    return;
                };
                self.prefixes[source as usize] = prefix;
                self.index.insert(source, self.key.place(&prefix));
                source
            }
        };
        self.owners[flow as usize] = source;
        self.enter(flow, source, kind);
    }

    /// Removes a flow of a kind.
    pub fn remove(&mut self, flow: u32, kind: Kind) {
        let source = self.owners[flow as usize];
        self.leave(flow, source, kind);
        if self.counts[source as usize] == [0; KINDS] {
            self.index.remove(source);
            self.free.push(source);
        }
    }

    /// Makes a flow of one kind one of another.
    pub fn change(&mut self, flow: u32, from: Kind, to: Kind) {
        let source = self.owners[flow as usize];
        self.leave(flow, source, from);
        self.enter(flow, source, to);
    }

    /// Records that a flow was used.
    pub fn touch(&mut self, flow: u32, kind: Kind) {
        let list = list(self.owners[flow as usize], kind);
        self.flows.remove(list, flow);
        self.flows.push(list, flow);
    }

    fn find(&self, prefix: [u64; 2]) -> Option<u32> {
        self.index.find(self.key.place(&prefix), |source| self.prefixes[source as usize] == prefix)
    }

    fn oldest(&self, source: u32, kind: Kind) -> Option<u32> {
        self.flows.first(list(source, kind))
    }

    fn enter(&mut self, flow: u32, source: u32, kind: Kind) {
        self.flows.push(list(source, kind), flow);
        let count = self.counts[source as usize][kind as usize];
        self.rank(source, kind, count, count + 1);
        self.totals[kind as usize] += 1;
    }

    fn leave(&mut self, flow: u32, source: u32, kind: Kind) {
        self.flows.remove(list(source, kind), flow);
        let count = self.counts[source as usize][kind as usize];
        self.rank(source, kind, count, count - 1);
        self.totals[kind as usize] -= 1;
    }

    /// Moves a source from one count to the next higher or lower.
    fn rank(&mut self, source: u32, kind: Kind, from: u32, to: u32) {
        let (ranks, most) = (&mut self.ranks[kind as usize], &mut self.most[kind as usize]);
        if from != 0 {
            ranks.remove(from as usize, source);
        }
        if to != 0 {
            ranks.push(to as usize, source);
        }
        // If nobody has as many any more, this source has one less and nobody has more.
        if to > *most || from == *most && ranks.first(from as usize).is_none() {
            *most = to;
        }
        self.counts[source as usize][kind as usize] = to;
    }
}

/// The list of a source's flows of a kind.
fn list(source: u32, kind: Kind) -> usize {
    source as usize * KINDS + kind as usize
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn host(number: u32) -> IpAddr {
        IpAddr::V4(number.into())
    }

    proptest! {
        #[test]
        fn who_pays_is_who_a_recount_says(steps in prop::collection::vec((0..16_u32, 0..5_u32, 0..3_u8), 1..300)) {
            let mut sources = Sources::new(Key([3, 4]), 16);
            // Flow, source and kind, the one that was used longest ago first.
            let mut model: Vec<(u32, u32, Kind)> = Vec::new();
            for (flow, source, step) in steps {
                let at = model.iter().position(|(own, ..)| *own == flow);
                match (at, step) {
                    (None, _) => {
                        let kind = if step == 0 { Kind::Lasting } else { Kind::Tentative };
                        sources.add(flow, host(source), kind);
                        model.push((flow, source, kind));
                    }
                    (Some(at), 0) => {
                        let (_, _, kind) = model.remove(at);
                        sources.remove(flow, kind);
                    }
                    (Some(at), 1) => {
                        let own = model.remove(at);
                        sources.touch(flow, own.2);
                        model.push(own);
                    }
                    (Some(at), _) => {
                        let (_, owner, kind) = model.remove(at);
                        let other = if kind == Kind::Lasting { Kind::Tentative } else { Kind::Lasting };
                        sources.change(flow, kind, other);
                        model.push((flow, owner, other));
                    }
                }
                for kind in [Kind::Tentative, Kind::Lasting] {
                    let count = |source: u32| model.iter().filter(|own| (own.1, own.2) == (source, kind)).count();
                    let most = (0..5).map(count).max().unwrap_or(0);
                    prop_assert_eq!(sources.total(kind) as usize, (0..5).map(count).sum::<usize>());
                    match sources.oldest_of_heaviest(kind) {
                        None => prop_assert_eq!(most, 0),
                        Some(flow) => {
                            let (_, payer, _) = *model.iter().find(|own| own.0 == flow).unwrap();
                            prop_assert_eq!(count(payer), most);
                            prop_assert!(model.iter().find(|own| (own.1, own.2) == (payer, kind)).unwrap().0 == flow);
                        }
                    }
                }
                for source in 0..5 {
                    let own = |kind| model.iter().find(|own| own.1 == source && kind == own.2).map(|own| own.0);
                    prop_assert_eq!(sources.oldest_of(host(source)), own(Kind::Tentative).or(own(Kind::Lasting)));
                    let count = model.iter().filter(|own| own.1 == source).count();
                    prop_assert_eq!(sources.count(host(source)) as usize, count);
                }
            }
        }
    }
}
