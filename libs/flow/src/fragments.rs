//! Which flow a later fragment belongs to, without putting packets together.
//!
//! Only the first fragment of a packet has its ports. Its tuple is remembered for those that
//! follow, by source, destination and identification, of IPv4 also by protocol; a router forwards
//! each as it comes, and holds no bytes of any. In return a fragment that comes before the first
//! one is dropped, since nothing tells what may become of it.
//!
//! A firewall must not be told one packet and the receiver be sent another. So no byte of a packet
//! is let through twice: what overlaps ends the packet (RFC 5722, RFC 3128, RFC 1858), and what
//! repeats is dropped (RFC 8200 §4.5). Fragments too small for the transport header are no packets
//! at all ([`crate::Malformed::Fragment`]).

use crate::hash::Key;
use crate::header::Fragment;
use crate::index::{Index, Lists, MOST};
use crate::packet::Packet;
use crate::record::Packed;
use crate::sources::{Kind, Sources};
use crate::tuple::Tuple;
use alloc::boxed::Box;
use alloc::vec;

/// For how long the fragments of a packet may take, in milliseconds: receivers wait for as long at
/// least (RFC 1122 §3.3.2 says 60 to 120 seconds), and a fast sender uses its identification again
/// soon after (RFC 4963).
const LIFETIME: u64 = 30_000;

/// Separate pieces that a packet may be in: a way that reorders leaves few, and each is looked at.
const MOST_PIECES: usize = 8;

/// List of packets that are known, and of places that are free.
const KNOWN: usize = 0;
const FREE: usize = 1;

/// What a fragment is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Followed {
    /// One of a packet with this tuple.
    Of(Tuple),
    /// Nobody has seen the first one, or it was one of nothing that has a tuple.
    Unknown,
    /// What it has was there before: it is dropped.
    Repeated,
    /// It overlaps another one, or reaches beyond the last: it is dropped, and all that follow.
    Overlapping,
    /// Its packet is in too many pieces: it is dropped.
    Scattered,
}

/// A packet of which the first fragment was seen.
#[derive(Clone, Copy, Debug)]
struct Known {
    name: [u64; 6],
    tuple: Tuple,
    since: u64,
    is_refused: bool,
    /// Behind the last byte, if the last fragment was seen.
    end: Option<u32>,
    /// What was seen, in order and apart from each other: from, until. Empty ones are at the end.
    pieces: [(u32, u32); MOST_PIECES],
}

/// Packets that come in fragments.
#[derive(Debug)]
pub struct Fragments {
    key: Key,
    known: Box<[Option<Known>]>,
    index: Index,
    ages: Lists,
    sources: Sources,
}

impl Fragments {
    /// Room for so many packets at a time. If there is none left, the source with the most loses
    /// its oldest. The key is of random bits.
    pub fn new(key: Key, packets: usize) -> Self {
        let packets = packets.min(MOST);
        let mut ages = Lists::new(2, packets);
        (0..packets as u32).for_each(|slot| ages.push(FREE, slot));
        let (index, sources) = (Index::new(packets), Sources::new(key, packets));
        Self { key, known: vec![None; packets].into(), index, ages, sources }
    }

    /// Follows a fragment that comes in at `now`, in milliseconds. A packet that is none is of its
    /// own tuple.
    pub fn follow(&mut self, packet: &Packet, now: u64) -> Followed {
        let Some(fragment) = packet.fragment else {
            return packet.tuple().map_or(Followed::Unknown, Followed::Of);
        };
        self.expire(now);
        let name = name(packet, fragment.identification);
        let hash = self.key.place(&name);
        let is_it = |slot: u32| self.known[slot as usize].is_some_and(|known| known.name == name);
        let mut found = self.index.find(hash, is_it);
        // Of many that have had their time, not all have gone yet.
        if let Some(slot) = found.take_if(|slot| self.has_expired(*slot, now)) {
            self.leave(slot);
        }
        match (found, packet.tuple()) {
            (Some(slot), tuple) => {
                let Some(known) = &mut self.known[slot as usize] else { return Followed::Unknown };
                // Another first one with other ports would have the rest follow the wrong flow.
                known.is_refused |= tuple.is_some_and(|tuple| tuple != known.tuple);
                known.add(&fragment)
            }
            (None, Some(tuple)) => {
                let mut known =
                    Known { name, tuple, since: now, is_refused: false, end: None, pieces: [(0, 0); MOST_PIECES] };
                let followed = known.add(&fragment);
                self.enter(known, hash);
                followed
            }
            (None, None) => Followed::Unknown,
        }
    }

    /// Returns how many packets are known.
    pub fn count(&self) -> usize {
        self.sources.total(Kind::Tentative) as usize
    }

    fn expire(&mut self, now: u64) {
        // One goes for each that comes, and one more: there are never many.
        for _ in 0..2 {
            let Some(slot) = self.ages.first(KNOWN) else { return };
            if !self.has_expired(slot, now) {
                return;
            }
            self.leave(slot);
        }
    }

    fn has_expired(&self, slot: u32, now: u64) -> bool {
        self.known[slot as usize].is_none_or(|known| now.saturating_sub(known.since) >= LIFETIME)
    }

    fn enter(&mut self, known: Known, hash: u64) {
        if self.ages.first(FREE).is_none()
            && let Some(slot) = self.sources.oldest_of_heaviest(Kind::Tentative)
        {
            self.leave(slot);
        }
        let Some(slot) = self.ages.first(FREE) else { return };
        self.ages.remove(FREE, slot);
        self.ages.push(KNOWN, slot);
        self.index.insert(slot, hash);
        self.sources.add(slot, known.tuple.source, Kind::Tentative);
        self.known[slot as usize] = Some(known);
    }

    fn leave(&mut self, slot: u32) {
        self.known[slot as usize] = None;
        self.index.remove(slot);
        self.sources.remove(slot, Kind::Tentative);
        self.ages.remove(KNOWN, slot);
        self.ages.push(FREE, slot);
    }
}

impl Known {
    /// Adds a fragment to what was seen.
    fn add(&mut self, fragment: &Fragment) -> Followed {
        let from = u32::from(fragment.offset);
        let until = from + u32::from(fragment.length);
        let last = self.pieces.iter().map(|piece| piece.1).max().unwrap_or(0);
        let is_beyond =
            self.end.is_some_and(|end| until > end || !fragment.more && until != end) || !fragment.more && until < last;
        let is_repeated = self.pieces.iter().any(|piece| piece.0 <= from && until <= piece.1);
        let overlaps = self.pieces.iter().any(|piece| piece.0 < until && from < piece.1);
        self.is_refused |= is_beyond || overlaps && !is_repeated;
        if self.is_refused {
            return Followed::Overlapping;
        }
        if is_repeated {
            return Followed::Repeated;
        }
        if !self.insert(from, until) {
            return Followed::Scattered;
        }
        if !fragment.more {
            self.end = Some(until);
        }
        Followed::Of(self.tuple)
    }

    /// Adds a piece that overlaps none, joined with those that it touches. Returns whether there
    /// was room.
    fn insert(&mut self, mut from: u32, mut until: u32) -> bool {
        let mut pieces = [(0, 0); MOST_PIECES];
        let mut count = 0;
        let mut is_in = false;
        for piece in self.pieces.into_iter().filter(|piece| piece.1 != 0) {
            if piece.1 == from {
                from = piece.0;
            } else if piece.0 == until {
                until = piece.1;
            } else {
                if piece.0 > until && !is_in {
                    is_in = put(&mut pieces, &mut count, (from, until));
                }
                if !put(&mut pieces, &mut count, piece) {
                    return false;
                }
            }
        }
        if !is_in && !put(&mut pieces, &mut count, (from, until)) {
            return false;
        }
        self.pieces = pieces;
        true
    }
}

/// Puts a piece behind the last, and returns whether there was room.
fn put(pieces: &mut [(u32, u32); MOST_PIECES], count: &mut usize, piece: (u32, u32)) -> bool {
    let Some(place) = pieces.get_mut(*count) else { return false };
    *place = piece;
    *count += 1;
    true
}

/// What the fragments of a packet have in common. Of IPv6 the next headers that they name may
/// differ (RFC 8200 §4.5).
fn name(packet: &Packet, identification: u32) -> [u64; 6] {
    let Packet { source, destination, .. } = *packet;
    let protocol = if source.is_ipv4() { packet.protocol } else { 0 };
    let [a, b, c, d, e] = Packed::new(&Tuple { protocol, source, destination, source_port: 0, destination_port: 0 }).0;
    [a, b, c, d, e, identification.into()]
}
