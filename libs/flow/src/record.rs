//! Flows in memory that outlives the router.
//!
//! A flow is 24 words, which say all that must not be lost of it. What makes it quick to find, and
//! fair to drop, is the router's own ([`crate::Table`]) and made anew by its next life.
//!
//! A flow is written before its first word says that there is one, and the word is cleared before
//! anything else of it changes. While it is there, each change is of one word, and each word by
//! itself is at most one packet old: the router may be stopped between any two stores. The part
//! that never changes is sealed by its hash, which notices what was written by mistake. Nobody else
//! maps the memory for writing, so the hash needs no secret.

use crate::flow::{Direction, Flow, State};
use crate::hash::Key;
use crate::tcp::{self, Side};
use crate::transport::Segment;
use crate::tuple::Tuple;
use core::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use core::sync::atomic::AtomicU64;
use core::sync::atomic::Ordering::{Acquire, Relaxed, Release};

/// Words of a flow.
const RECORD: usize = 24;

/// Words in front of the flows.
pub(crate) const HEADER: usize = 2;

/// First word of memory of this layout.
const SIGNATURE: u64 = u64::from_be_bytes(*b"culmflo2");

/// Upper part of the first word of a flow; the lower 8 bits are its state.
const PRESENT: u64 = u64::from_be_bytes(*b"\0\0\0\0flw\0");

/// The key of seals, which is no secret.
const SEAL_KEY: Key = Key([SIGNATURE, 0x9e37_79b9_7f4a_7c15]);

// Words of a flow. The tuples and the tag are what is sealed.
const STATE: usize = 0;
const TUPLES: [usize; 2] = [1, 6];
const TAG: usize = 11;
const SEAL: usize = 12;
const USED: usize = 13;
const SIDES: [usize; 2] = [14, 17];
const PACKETS: usize = 20;
const BYTES: usize = 22;

/// Returns how many words of memory so many flows need.
pub const fn memory_words(flows: usize) -> usize {
    HEADER + flows * RECORD
}

/// A tuple in words.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Packed(pub [u64; 5]);

/// Bits of a packed tuple's first word: source and destination are of IPv6.
const IS_V6: [u64; 2] = [1 << 8, 1 << 9];

impl Packed {
    /// Both bits.
    pub const BOTH_V6: u64 = IS_V6[0] | IS_V6[1];

    /// Returns the tuple of packets that answer those of this one.
    #[inline(always)]
    pub fn reversed(&self) -> Self {
        let [first, a, b, c, d] = self.0;
        // Both bits of an address's version are alike.
        let ports = ((first >> 32) as u32).rotate_left(16);
        Self([first & 0xffff_ffff | u64::from(ports) << 32, c, d, a, b])
    }

    /// Packs a tuple.
    #[inline]
    pub fn new(tuple: &Tuple) -> Self {
        let ports = u64::from(tuple.source_port) << 32 | u64::from(tuple.destination_port) << 48;
        let mut words = [u64::from(tuple.protocol) | ports, 0, 0, 0, 0];
        for (index, address) in [tuple.source, tuple.destination].into_iter().enumerate() {
            match address {
                IpAddr::V4(address) => words[1 + 2 * index] = u32::from(address).into(),
                IpAddr::V6(address) => {
                    let bits = u128::from(address);
                    words[0] |= IS_V6[index];
                    words[1 + 2 * index] = (bits >> 64) as u64;
                    words[2 + 2 * index] = bits as u64;
                }
            }
        }
        Self(words)
    }

    /// Returns the hash of a tuple.
    #[inline(always)]
    pub fn hash(&self, key: &Key) -> u64 {
        let [first, source, _, destination, _] = self.0;
        // Two words less are most of the work for IPv4. The first word says which it is.
        if first & Self::BOTH_V6 == 0 { key.place(&[first, source << 32 | destination]) } else { key.place(&self.0) }
    }

    /// Returns the tuple; `None` if these words are none of one.
    pub fn tuple(&self) -> Option<Tuple> {
        let [first, a, b, c, d] = self.0;
        let address = |index: usize, high: u64, low: u64| {
            if first & IS_V6[index] != 0 {
                Some(IpAddr::V6(Ipv6Addr::from(u128::from(high) << 64 | u128::from(low))))
            } else {
                u32::try_from(high).ok().filter(|_| low == 0).map(|bits| IpAddr::V4(Ipv4Addr::from(bits)))
            }
        };
        let (source, destination) = (address(0, a, b)?, address(1, c, d)?);
        let unused = 0xffff_ffff & !(0xff | Self::BOTH_V6);
        let is_one = first & unused == 0 && source.is_ipv4() == destination.is_ipv4();
        let (source_port, destination_port) = ((first >> 32) as u16, (first >> 48) as u16);
        is_one.then_some(Tuple { protocol: first as u8, source, destination, source_port, destination_port })
    }
}

/// The words of one flow, for the short way.
#[derive(Clone, Copy, Debug)]
pub struct Words<'a>(&'a [AtomicU64; RECORD]);

impl Words<'_> {
    /// Returns whether this is the tuple of the flow's packets of a direction.
    #[inline(always)]
    pub fn has(self, direction: Direction, tuple: &Packed) -> bool {
        let Packed([first, a, b, c, d]) = *tuple;
        let own = self.tuple(direction);
        // The first word says which version both are of, and of IPv4 two words are 0.
        let is_v4 = first & Packed::BOTH_V6 == 0;
        let own = |index: usize| own[index].load(Relaxed);
        own(0) == first && own(1) == a && own(3) == c && (is_v4 || own(2) == b && own(4) == d)
    }

    /// Returns the tuple of the flow's packets of a direction.
    #[inline(always)]
    pub fn packed(self, direction: Direction) -> Packed {
        let own = self.tuple(direction);
        Packed(core::array::from_fn(|index| own[index].load(Relaxed)))
    }

    #[inline(always)]
    fn tuple(&self, direction: Direction) -> &[AtomicU64] {
        let at = TUPLES[0] + (TUPLES[1] - TUPLES[0]) * direction as usize;
        &self.0[at..at + 5]
    }

    /// Returns whether the flow is in this state.
    #[inline(always)]
    pub fn is_in(self, state: State) -> bool {
        self.0[STATE].load(Relaxed) == PRESENT | state as u64
    }

    /// Returns when the flow was used.
    #[inline(always)]
    pub fn used(self) -> u64 {
        self.0[USED].load(Relaxed)
    }

    /// Counts a packet of so many bytes.
    #[inline(always)]
    pub fn count(self, direction: Direction, bytes: usize) {
        let [packets, total] = [PACKETS, BYTES].map(|at| &self.0[at + direction as usize]);
        packets.store(packets.load(Relaxed).wrapping_add(1), Relaxed);
        total.store(total.load(Relaxed).wrapping_add(bytes as u64), Relaxed);
    }

    /// Follows a segment in the midst of a connection; returns whether it belongs there, and
    /// nothing else has to be known of it. Otherwise nothing has changed.
    #[inline(always)]
    pub fn follow(self, direction: Direction, segment: &Segment) -> bool {
        let sides = [&self.0[SIDES[0]..SIDES[0] + 3], &self.0[SIDES[1]..SIDES[1] + 3]];
        let (own, peer) = match direction {
            Direction::Original => (sides[0], sides[1]),
            Direction::Reply => (sides[1], sides[0]),
        };
        let [own_words, peer_words] = [own, peer].map(|side| core::array::from_fn(|index| side[index].load(Relaxed)));
        let Some([ended, acked, reached]) = tcp::follow_plain(own_words, peer_words, segment) else { return false };
        own[0].store(ended, Relaxed);
        own[1].store(acked, Relaxed);
        peer[0].store(reached, Relaxed);
        true
    }
}

/// The flows in a piece of memory.
#[derive(Clone, Copy, Debug)]
pub struct Records<'a> {
    header: &'a [AtomicU64],
    records: &'a [[AtomicU64; RECORD]],
}

impl<'a> Records<'a> {
    /// The flows in `memory`, as many as there is room for, `most` at most.
    pub fn new(memory: &'a [AtomicU64], most: usize) -> Self {
        let (header, rest) = memory.split_at(HEADER.min(memory.len()));
        let (records, _) = rest.as_chunks();
        Self { header, records: &records[..records.len().min(most)] }
    }

    /// Returns how many flows there is room for.
    pub fn capacity(&self) -> usize {
        self.records.len()
    }

    /// Returns the words of the flow in a slot, if there is such a slot.
    #[inline(always)]
    pub fn words(&self, slot: u32) -> Option<Words<'a>> {
        self.records.get(slot as usize).map(Words)
    }

    /// Returns whether a router that had as much room has left flows here.
    pub fn is_left(&self) -> bool {
        let header = [SIGNATURE, self.records.len() as u64];
        self.header.iter().map(|word| word.load(Relaxed)).eq(header)
    }

    /// Removes all flows, and makes the memory one that a router can leave.
    pub fn clear_all(&self) {
        let header = [SIGNATURE, self.records.len() as u64];
        // A router that is stopped meanwhile leaves nothing.
        self.header.iter().for_each(|word| word.store(0, Release));
        self.records.iter().for_each(|record| record[STATE].store(0, Release));
        self.header.iter().zip(header).rev().for_each(|(word, value)| word.store(value, Release));
    }

    /// Writes a flow to a free slot.
    pub fn write(&self, slot: u32, tuples: [Packed; 2], state: State, tag: u64, used: u64, sides: &[Side; 2]) {
        let record = &self.records[slot as usize];
        for (at, Packed(words)) in TUPLES.into_iter().zip(tuples) {
            store_all(record, at, words);
        }
        record[TAG].store(tag, Relaxed);
        record[SEAL].store(seal(record), Relaxed);
        record[USED].store(used, Relaxed);
        self.set_sides(slot, sides);
        store_all(record, PACKETS, [0; 4]);
        self.set_state(slot, state);
    }

    /// Changes the tag of a flow in a slot.
    pub fn set_tag(&self, slot: u32, tag: u64) {
        let record = &self.records[slot as usize];
        let state = record[STATE].load(Relaxed);
        // The tag is sealed: a router that is stopped in between loses the flow.
        self.clear(slot);
        record[TAG].store(tag, Relaxed);
        record[SEAL].store(seal(record), Relaxed);
        record[STATE].store(state, Release);
    }

    /// Frees a slot.
    pub fn clear(&self, slot: u32) {
        self.records[slot as usize][STATE].store(0, Release);
    }

    /// Returns the state of the flow in a slot, if there is one.
    #[inline]
    pub fn state(&self, slot: u32) -> Option<State> {
        let word = self.records.get(slot as usize)?[STATE].load(Relaxed);
        State::from_number(word as u8).filter(|_| word & !0xff == PRESENT)
    }

    /// Returns whether nothing is in a slot, not even what was written by mistake.
    pub fn is_free(&self, slot: u32) -> bool {
        self.records[slot as usize][STATE].load(Relaxed) == 0
    }

    /// Returns the protocol of the flow in a slot.
    #[inline]
    pub fn protocol(&self, slot: u32) -> u8 {
        self.records[slot as usize][TUPLES[0]].load(Relaxed) as u8
    }

    /// Changes a flow's state.
    pub fn set_state(&self, slot: u32, state: State) {
        self.records[slot as usize][STATE].store(PRESENT | state as u64, Release);
    }

    /// Returns the tuple of a flow's packets of a direction.
    #[inline]
    pub fn packed(&self, slot: u32, direction: Direction) -> Packed {
        Words(&self.records[slot as usize]).packed(direction)
    }

    /// Returns when a flow was used.
    pub fn used(&self, slot: u32) -> u64 {
        self.records[slot as usize][USED].load(Relaxed)
    }

    /// Records that a flow was used at `now`.
    pub fn set_used(&self, slot: u32, now: u64) {
        self.records[slot as usize][USED].store(now, Relaxed);
    }

    /// Returns how far both ends are, of TCP.
    pub fn sides(&self, slot: u32) -> Option<[Side; 2]> {
        let record = self.records.get(slot as usize)?;
        let [original, reply] = SIDES.map(|at| Side::from_words(load_all(record, at)));
        Some([original?, reply?])
    }

    /// Records how far both ends are.
    pub fn set_sides(&self, slot: u32, sides: &[Side; 2]) {
        for (at, side) in SIDES.into_iter().zip(sides) {
            store_all(&self.records[slot as usize], at, side.words());
        }
    }

    /// Counts a packet of so many bytes.
    #[inline]
    pub fn count(&self, slot: u32, direction: Direction, bytes: usize) {
        if let Some(flow) = self.words(slot) {
            flow.count(direction, bytes);
        }
    }

    /// Returns the flow in a slot, if there is one, and all of it can be: it is sealed, its state
    /// is one of its protocol, and it was not used after `now`.
    pub fn checked(&self, slot: u32, now: u64) -> Option<Flow> {
        let flow = self.flow(slot)?;
        let record = self.records.get(slot as usize)?;
        let is_whole = record[SEAL].load(Relaxed) == seal(record)
            && flow.used <= now
            && flow.state.is_of(flow.original.protocol)
            && flow.original.protocol == flow.reply.protocol
            && flow.original != flow.reply
            && self.sides(slot).is_some();
        is_whole.then_some(flow)
    }

    /// Returns the flow in a slot, as whoever reads beside the router sees it: if all of it can be,
    /// and belongs together.
    pub fn seen(&self, slot: usize) -> Option<Flow> {
        let record = self.records.get(slot)?;
        // No later load comes before one that acquires.
        seen(|word| record.get(word).map_or(0, |word| word.load(Acquire)))
    }

    /// Returns the flow in a slot, if there is one.
    pub fn flow(&self, slot: u32) -> Option<Flow> {
        let state = self.state(slot)?;
        let record = self.records.get(slot as usize)?;
        let [original, reply] = Direction::BOTH.map(|direction| self.packed(slot, direction).tuple());
        Some(Flow {
            original: original?,
            reply: reply?,
            state,
            tag: record[TAG].load(Relaxed),
            used: self.used(slot),
            packets: load_all(record, PACKETS),
            bytes: load_all(record, BYTES),
        })
    }
}

fn store_all<const N: usize>(record: &[AtomicU64; RECORD], at: usize, words: [u64; N]) {
    record[at..at + N].iter().zip(words).for_each(|(word, value)| word.store(value, Relaxed));
}

#[inline(always)]
fn load_all<const N: usize>(record: &[AtomicU64; RECORD], at: usize) -> [u64; N] {
    core::array::from_fn(|index| record[at + index].load(Relaxed))
}

/// Reads a flow whose words may change meanwhile. `load` loads one of them, after those before.
///
/// Each word is read once, and seal and flow are of that copy. The first word and the seal are read
/// again at last: they say whether the flow is still there. Its state may have become another.
///
/// The router stores for its next life, not in an order for readers on other cores: packets and
/// bytes can be those of a flow that has just taken the slot, and are for showing only.
fn seen(mut load: impl FnMut(usize) -> u64) -> Option<Flow> {
    let words: [u64; RECORD] = core::array::from_fn(&mut load);
    let state = state_of(words[STATE])?;
    let tuple = |at: usize| part(&words, at).and_then(|words| Packed(words).tuple());
    let (original, reply) = (tuple(TUPLES[0])?, tuple(TUPLES[1])?);
    let is_whole = words[SEAL] == SEAL_KEY.place(&words[1..SEAL])
        && state.is_of(original.protocol)
        && original.protocol == reply.protocol
        && original != reply
        && SIDES.iter().all(|at| part(&words, *at).and_then(Side::from_words).is_some());
    let is_there = load(SEAL) == words[SEAL] && state_of(load(STATE)).is_some();
    let (packets, bytes) = (part(&words, PACKETS)?, part(&words, BYTES)?);
    let flow = Flow { original, reply, state, tag: words[TAG], used: words[USED], packets, bytes };
    (is_whole && is_there).then_some(flow)
}

/// Returns the state that a flow's first word says, if it says that there is one.
fn state_of(word: u64) -> Option<State> {
    State::from_number(word as u8).filter(|_| word & !0xff == PRESENT)
}

/// Returns the words of a copy from `at` on.
fn part<const N: usize>(words: &[u64; RECORD], at: usize) -> Option<[u64; N]> {
    words.get(at..)?.first_chunk().copied()
}

/// Returns the seal of what never changes of a flow.
fn seal(record: &[AtomicU64; RECORD]) -> u64 {
    SEAL_KEY.place(&load_all::<{ SEAL - 1 }>(record, 1))
}

#[cfg(test)]
mod tests;
