//! Which outer address and port stands for which inner one (NAT44).
//!
//! A *mapping* gives an inner address and port one outer pair, whoever the peer is
//! (endpoint-independent, RFC 4787 REQ-1, RFC 5382 REQ-1, RFC 5508 REQ-1), so that peers can tell
//! each other where they are. It lives as long as a flow uses it, each of which lives for as long
//! as a mapping must. So mappings are not kept for the next life: they follow from the flows that
//! it adopts ([`Nat::believe`]).
//!
//! An outer pair is of one inner pair only (RFC 4787 REQ-3). Which one is new is chosen at random
//! (RFC 6056), so that nobody guesses it who is not told. *Forwards* are mappings that stand in the
//! configuration.
//!
//! For ICMP echoes the identifier is the port.

use crate::flow::Flow;
use crate::hash::Key;
use crate::index::Index;
use crate::tuple::{ICMP, TCP, Tuple, UDP};
use alloc::boxed::Box;
use alloc::vec;
use alloc::vec::Vec;
use core::net::{IpAddr, SocketAddrV4};

/// Outer ports that mappings may take, of one address.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Pool {
    /// The outer address, and the first port, at least 1.
    pub first: SocketAddrV4,
    /// The last port.
    pub last: u16,
    /// Whether an even port gets an even one and an odd port an odd one, if there is one (RFC 4787
    /// REQ-4): old programs for RTP expect it.
    pub keeps_parity: bool,
}

/// An outer pair that always leads to an inner one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Forward {
    /// Number of the protocol: TCP or UDP.
    pub protocol: u8,
    /// Where packets from outside are sent to.
    pub outer: SocketAddrV4,
    /// Where they go.
    pub inner: SocketAddrV4,
}

/// What is wrong with a configuration. Pools and forwards are named by their places.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mistake {
    /// A pool has no port, or has port 0.
    EmptyPool(usize),
    /// Two pools have a port in common.
    Overlap(usize, usize),
    /// Two forwards of a protocol have the same outer pair.
    SameForward(usize, usize),
    /// A forward is of a protocol other than TCP and UDP, or has port 0.
    NoForward(usize),
}

/// Where an outer pair leads.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Inward {
    /// The configuration says so.
    Forwarded(SocketAddrV4),
    /// A host inside uses it just now. Whether peers may come to it that it has not sent anything
    /// to is for the rules to say (RFC 4787 REQ-8).
    Mapped(SocketAddrV4),
}

/// Protocols with mappings of their own, and their number.
const PROTOCOLS: [u8; 3] = [TCP, UDP, ICMP];

#[derive(Clone, Copy, Debug)]
struct Mapping {
    protocol: u8,
    pool: u32,
    inner: SocketAddrV4,
    outer: SocketAddrV4,
    /// Flows that use it; 0 if there is no such mapping.
    flows: u32,
}

/// Pools, forwards and mappings.
#[derive(Debug)]
pub struct Nat {
    key: Key,
    pools: Box<[Pool]>,
    forwards: Box<[Forward]>,
    /// For each pool and protocol, a bit for each port that is taken.
    taken: Box<[[Box<[u64]>; PROTOCOLS.len()]]>,
    mappings: Box<[Mapping]>,
    by_inner: Index,
    by_outer: Index,
    free: Vec<u32>,
    /// Ports that were chosen so far.
    choices: u64,
}

const NOWHERE: SocketAddrV4 = SocketAddrV4::new(core::net::Ipv4Addr::UNSPECIFIED, 0);

impl Nat {
    /// Mappings for `flows` flows. The key is of random bits.
    ///
    /// # Errors
    ///
    /// What is wrong with the pools or forwards.
    pub fn new(key: Key, pools: &[Pool], forwards: &[Forward], flows: usize) -> Result<Self, Mistake> {
        for (index, pool) in pools.iter().enumerate() {
            if pool.first.port() == 0 || pool.first.port() > pool.last {
                return Err(Mistake::EmptyPool(index));
            }
            let meets = |other: &Pool| {
                pool.first.ip() == other.first.ip()
                    && pool.first.port() <= other.last
                    && other.first.port() <= pool.last
            };
            if let Some(other) = pools.iter().take(index).position(meets) {
                return Err(Mistake::Overlap(other, index));
            }
        }
        for (index, forward) in forwards.iter().enumerate() {
            if !matches!(forward.protocol, TCP | UDP) || forward.outer.port() == 0 || forward.inner.port() == 0 {
                return Err(Mistake::NoForward(index));
            }
            let is_same = |other: &Forward| (other.protocol, other.outer) == (forward.protocol, forward.outer);
            if let Some(other) = forwards.iter().take(index).position(is_same) {
                return Err(Mistake::SameForward(other, index));
            }
        }
        let words = |pool: &Pool| vec![0; usize::from(pool.last - pool.first.port()) / 64 + 1].into_boxed_slice();
        let none = Mapping { protocol: 0, pool: 0, inner: NOWHERE, outer: NOWHERE, flows: 0 };
        let mut nat = Self {
            key,
            pools: pools.into(),
            forwards: forwards.into(),
            taken: pools.iter().map(|pool| [words(pool), words(pool), words(pool)]).collect(),
            mappings: vec![none; flows].into(),
            by_inner: Index::new(flows),
            by_outer: Index::new(flows),
            free: (0..flows as u32).rev().collect(),
            choices: 0,
        };
        // What is forwarded is nobody else's.
        for forward in forwards {
            if let Some(pool) = nat.pool_of(forward.outer) {
                nat.take(pool, forward.protocol, forward.outer.port());
            }
        }
        Ok(nat)
    }

    /// Returns where packets to an outer pair go.
    pub fn inward(&self, protocol: u8, outer: SocketAddrV4) -> Option<Inward> {
        let is_it = |forward: &&Forward| (forward.protocol, forward.outer) == (protocol, outer);
        if let Some(forward) = self.forwards.iter().find(is_it) {
            return Some(Inward::Forwarded(forward.inner));
        }
        self.find_outer(protocol, outer).map(|slot| Inward::Mapped(self.mappings[slot as usize].inner))
    }

    /// Returns whether a pool has this pair, whoever uses it.
    pub fn lends(&self, outer: SocketAddrV4) -> bool {
        self.pools
            .iter()
            .any(|pool| pool.first.ip() == outer.ip() && (pool.first.port()..=pool.last).contains(&outer.port()))
    }

    /// Returns the tuple of packets that answer a new flow's, whose destination becomes
    /// `destination`, if that is something, and whose source becomes one of `pool`, if that is
    /// something. The flow counts as one that uses its mapping from now on, until
    /// [`Self::release`].
    ///
    /// A host inside that sends to the outer pair of another is answered from there, since its
    /// source becomes an outer one, too (hairpinning, RFC 4787 REQ-9).
    ///
    /// Returns `None` if there is no port left, no such pool, or the flow is of a protocol or
    /// family that is not translated.
    pub fn begin(&mut self, original: &Tuple, destination: Option<SocketAddrV4>, pool: Option<usize>) -> Option<Tuple> {
        let mut reply = original.reversed();
        if destination.is_none() && pool.is_none() {
            return Some(reply);
        }
        let (IpAddr::V4(source), protocol) = (original.source, original.protocol) else { return None };
        PROTOCOLS.contains(&protocol).then_some(())?;
        if let Some(destination) = destination {
            (reply.source, reply.source_port) = ((*destination.ip()).into(), destination.port());
        }
        if let Some(pool) = pool {
            let outer = self.outward(protocol, SocketAddrV4::new(source, original.source_port), pool)?;
            (reply.destination, reply.destination_port) = ((*outer.ip()).into(), outer.port());
        }
        Some(reply)
    }

    /// Records that a flow is gone, or did not come about, which had its reply's tuple from
    /// [`Self::begin`] or was believed.
    pub fn release(&mut self, flow: &Flow) {
        self.release_tuples(&flow.original, &flow.reply);
    }

    /// As [`Self::release`], of a flow that did not come about.
    pub fn release_tuples(&mut self, original: &Tuple, reply: &Tuple) {
        let (Some(inner), Some(outer)) = (source(original), source(&reply.reversed())) else { return };
        let Some(slot) = self.find_outer(original.protocol, outer) else { return };
        let mapping = &mut self.mappings[slot as usize];
        if mapping.inner != inner {
            return;
        }
        mapping.flows -= 1;
        if mapping.flows == 0 {
            let Mapping { protocol, pool, .. } = *mapping;
            self.by_inner.remove(slot);
            self.by_outer.remove(slot);
            self.free.push(slot);
            self.free_port(pool as usize, protocol, outer.port());
        }
    }

    /// Returns whether a flow of a previous life can go on, as one that uses its mapping; the
    /// configuration may be another one now. Asked once of each ([`crate::Table::adopt`]).
    pub fn believe(&mut self, flow: &Flow) -> bool {
        let Flow { original, reply, .. } = flow;
        if original.source == reply.destination && original.source_port == reply.destination_port {
            return true;
        }
        let (Some(inner), Some(outer)) = (source(original), source(&reply.reversed())) else { return false };
        let protocol = original.protocol;
        match self.inward(protocol, outer) {
            Some(Inward::Forwarded(own)) => own == inner,
            Some(Inward::Mapped(own)) if own != inner => false,
            Some(Inward::Mapped(_)) => {
                let slot = self.find_outer(protocol, outer);
                slot.inspect(|slot| self.mappings[*slot as usize].flows += 1).is_some()
            }
            None => match self.pool_of(outer) {
                // An inner pair has one mapping in each pool.
                Some(pool) if PROTOCOLS.contains(&protocol) && self.find_inner(protocol, inner, pool).is_none() => {
                    self.map(protocol, inner, pool, outer.port()).is_some()
                }
                _ => false,
            },
        }
    }

    /// Returns how many mappings there are.
    pub fn count(&self) -> usize {
        self.mappings.len() - self.free.len()
    }

    /// Returns the outer pair of an inner one, for one flow more.
    fn outward(&mut self, protocol: u8, inner: SocketAddrV4, pool: usize) -> Option<SocketAddrV4> {
        let own = *self.pools.get(pool)?;
        // Who is reached by a forward is seen there.
        let is_it = |forward: &&Forward| {
            (forward.protocol, forward.inner) == (protocol, inner) && forward.outer.ip() == own.first.ip()
        };
        if let Some(forward) = self.forwards.iter().find(is_it) {
            return Some(forward.outer);
        }
        if let Some(slot) = self.find_inner(protocol, inner, pool) {
            let mapping = &mut self.mappings[slot as usize];
            mapping.flows += 1;
            return Some(mapping.outer);
        }
        let parity = own.keeps_parity.then_some(inner.port() % 2);
        let port = self.choose(pool, protocol, parity).or_else(|| self.choose(pool, protocol, None))?;
        self.map(protocol, inner, pool, port)
    }

    /// Makes a mapping to a port of a pool that is not taken, for one flow.
    fn map(&mut self, protocol: u8, inner: SocketAddrV4, pool: usize, port: u16) -> Option<SocketAddrV4> {
        let outer = SocketAddrV4::new(*self.pools.get(pool)?.first.ip(), port);
        let slot = self.free.pop()?;
        self.take(pool, protocol, port);
        self.mappings[slot as usize] = Mapping { protocol, pool: pool as u32, inner, outer, flows: 1 };
        self.by_inner.insert(slot, self.inner_hash(protocol, inner, pool));
        self.by_outer.insert(slot, self.outer_hash(protocol, outer));
        Some(outer)
    }

    /// Returns a port of a pool that is free, of a parity if that is something: the first from a
    /// random one on.
    fn choose(&mut self, pool: usize, protocol: u8, parity: Option<u16>) -> Option<u16> {
        let (own, taken) = (self.pools.get(pool)?, self.taken.get(pool)?.get(place(protocol)?)?);
        self.choices = self.choices.wrapping_add(1);
        let (first, count) = (own.first.port(), u32::from(own.last - own.first.port()) + 1);
        let start = self.key.hash(&[self.choices, pool as u64, protocol.into()]) % u64::from(count);
        let (start_word, start_bit) = (start as usize / 64, start % 64);
        let right_parity = match parity {
            None => u64::MAX,
            Some(parity) if parity == first % 2 => 0x5555_5555_5555_5555,
            Some(_) => 0xaaaa_aaaa_aaaa_aaaa,
        };
        // The word of the start comes twice: its upper bits first, the others last.
        (0..=taken.len()).find_map(|step| {
            let word = (start_word + step) % taken.len();
            let from_start = u64::MAX << start_bit;
            let part = if step == 0 {
                from_start
            } else if step == taken.len() {
                !from_start
            } else {
                u64::MAX
            };
            let free = !taken[word] & right_parity & part;
            let bit = word as u32 * 64 + free.trailing_zeros();
            // Bits behind the last port are of no port, and stand behind all that are.
            (free != 0 && bit < count).then(|| first + bit as u16)
        })
    }

    fn pool_of(&self, outer: SocketAddrV4) -> Option<usize> {
        let has =
            |pool: &Pool| pool.first.ip() == outer.ip() && (pool.first.port()..=pool.last).contains(&outer.port());
        self.pools.iter().position(has)
    }

    /// Returns the word and bit of a port.
    fn bit(&mut self, pool: usize, protocol: u8, port: u16) -> Option<(&mut u64, u64)> {
        let index = usize::from(port.checked_sub(self.pools.get(pool)?.first.port())?);
        let word = self.taken.get_mut(pool)?.get_mut(place(protocol)?)?.get_mut(index / 64)?;
        Some((word, 1 << (index % 64)))
    }

    fn take(&mut self, pool: usize, protocol: u8, port: u16) {
        if let Some((word, bit)) = self.bit(pool, protocol, port) {
            *word |= bit;
        }
    }

    fn free_port(&mut self, pool: usize, protocol: u8, port: u16) {
        if let Some((word, bit)) = self.bit(pool, protocol, port) {
            *word &= !bit;
        }
    }

    fn find_inner(&self, protocol: u8, inner: SocketAddrV4, pool: usize) -> Option<u32> {
        self.by_inner.find(self.inner_hash(protocol, inner, pool), |slot| {
            let mapping = &self.mappings[slot as usize];
            (mapping.protocol, mapping.inner, mapping.pool as usize) == (protocol, inner, pool)
        })
    }

    fn find_outer(&self, protocol: u8, outer: SocketAddrV4) -> Option<u32> {
        self.by_outer.find(self.outer_hash(protocol, outer), |slot| {
            let mapping = &self.mappings[slot as usize];
            (mapping.protocol, mapping.outer) == (protocol, outer)
        })
    }

    fn inner_hash(&self, protocol: u8, inner: SocketAddrV4, pool: usize) -> u64 {
        self.key.place(&[word(protocol, inner), pool as u64])
    }

    fn outer_hash(&self, protocol: u8, outer: SocketAddrV4) -> u64 {
        self.key.place(&[word(protocol, outer)])
    }
}

/// The place of a protocol's bits.
fn place(protocol: u8) -> Option<usize> {
    PROTOCOLS.iter().position(|own| *own == protocol)
}

/// A protocol and a pair in one word.
fn word(protocol: u8, pair: SocketAddrV4) -> u64 {
    u64::from(u32::from(*pair.ip())) << 32 | u64::from(pair.port()) << 8 | u64::from(protocol)
}

/// The source of a tuple of IPv4.
fn source(tuple: &Tuple) -> Option<SocketAddrV4> {
    match tuple.source {
        IpAddr::V4(address) => Some(SocketAddrV4::new(address, tuple.source_port)),
        IpAddr::V6(_) => None,
    }
}
