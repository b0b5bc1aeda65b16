//! The table of flows: bounded, found in constant time, fair to sources when it is full.
//!
//! Everything takes a time that does not depend on how many flows there are. A hash with a key
//! finds a flow by the tuple of either direction. Flows that are believed for the same time are in
//! one list, the one that was used longest ago first, so those that have expired stand in front.
//! So that not each packet moves its flow in that list, a flow counts as used then until a
//! sixteenth of its time has passed.
//!
//! # Who pays
//!
//! A source can have `most_per_source` flows. With one more, it loses the one that it used longest
//! ago, of those that are tentative if there are any. So one source cannot fill the table. If the
//! table is full nevertheless, the source with the most tentative flows loses one, as long as an
//! eighth of the table is tentative; with less, new connections of everybody would drop each other
//! before they are answered, so the source with the most lasting ones pays.

use crate::flow::{CLASSES, Direction, Flow, State, Timeouts, class};
use crate::hash::Key;
use crate::index::{Index, Lists, MOST};
use crate::packet::Packet;
use crate::record::{Packed, Records};
use crate::sources::{Kind, Sources};
use crate::tcp::{self, Meaning};
use crate::transport::{Quoted, Segment, Transport, flags};
use crate::tuple::Tuple;
use alloc::vec::Vec;
use core::net::IpAddr;
use core::sync::atomic::AtomicU64;

/// The list of slots without a flow, behind those of the classes.
const FREE: usize = CLASSES;

/// A flow is late in its list by this part of its time at most.
const SLACK: u64 = 16;

/// Flows that have expired, of which each new one removes as many at most.
const SWEEP: usize = 2;

/// The part of the table that tentative flows may keep from lasting ones.
const TENTATIVE_PART: u32 = 8;

/// How a table is kept.
#[derive(Clone, Copy, Debug)]
pub struct Settings {
    /// Random bits, other ones in each life.
    pub key: Key,
    /// For how long flows are believed.
    pub timeouts: Timeouts,
    /// Flows that one source can begin, at least 1: an address of IPv4, a net of 64 bits of IPv6.
    pub most_per_source: u32,
}

/// Names a flow, until it is removed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Id(pub(crate) u32);

impl Id {
    /// Returns the flow's number, below [`Table::capacity`], which another flow gets when this one
    /// is removed: the place of what else somebody keeps of each flow.
    pub fn index(self) -> usize {
        self.0 as usize
    }

    /// Returns the number of one direction of the flow, below twice the capacity.
    #[inline(always)]
    pub fn index_of(self, direction: Direction) -> usize {
        2 * self.0 as usize + direction as usize
    }
}

/// Why a packet starts no flow.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Refusal {
    /// It is in the middle of a connection, or answers what nobody asked: a TCP segment other than
    /// a first SYN, an echo reply, an ICMP error, a later fragment.
    NotAStart,
    /// Its sender and receiver are the same (the attack called *land*).
    Loop,
    /// A flow that is there has one of its tuples.
    Taken,
    /// The table has room for no flow at all.
    NoRoom,
}

/// What becomes of a packet of a flow.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Tracked {
    /// It belongs to the flow.
    Belongs,
    /// It does not: the ends of the connection cannot have sent it.
    Outside,
    /// It begins another flow. The old one is removed. So it is by an answer to a SYN that both
    /// ends know of and the flow does not: the SYN begins a flow when it is sent again.
    Reopens,
}

/// Why a flow was removed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Cause {
    /// It was not used for too long.
    Expired,
    /// Its source had more than its share, or the most of all.
    MadeWay,
    /// Another one has begun in its place.
    Reopened,
    /// Whoever has the table removed it.
    Removed,
}

/// How many flows of a previous life there were.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Adopted {
    /// Flows that go on.
    pub kept: usize,
    /// What was there and is not believed, or has expired.
    pub refused: usize,
}

/// Flows by their tuples.
#[derive(Debug)]
pub struct Table<'a> {
    records: Records<'a>,
    key: Key,
    /// Twice the slot, and 1 for the reply direction.
    index: Index,
    ages: Lists,
    sources: Sources,
    timeouts: [u64; CLASSES],
    most_per_source: u32,
}

impl<'a> Table<'a> {
    /// An empty table in `memory`, of as many flows as there is room for
    /// ([`crate::memory_words`]). All else that it needs is allocated here and never again.
    pub fn new(settings: &Settings, memory: &'a [AtomicU64]) -> Self {
        let table = Self::bare(settings, memory);
        table.records.clear_all();
        table.with_free_slots()
    }

    /// The table that a previous life left in `memory`, as far as it can be believed: each flow is
    /// checked by itself, and kept if `believe` says so of it: it returns what is to be remembered
    /// of the flow from now on ([`Flow::tag`]). `now` is in milliseconds of a clock that the
    /// previous life had, too.
    pub fn adopt(
        settings: &Settings,
        memory: &'a [AtomicU64],
        now: u64,
        mut believe: impl FnMut(&Flow) -> Option<u64>,
    ) -> (Self, Adopted) {
        let mut table = Self::bare(settings, memory);
        let mut adopted = Adopted::default();
        if !table.records.is_left() {
            table.records.clear_all();
            return (table.with_free_slots(), adopted);
        }
        let mut order: Vec<(u64, u32)> = Vec::with_capacity(table.capacity());
        order.extend((0..table.capacity() as u32).map(|slot| (table.records.used(slot), slot)));
        order.sort_unstable();
        for (_, slot) in order {
            let flow = table.records.checked(slot, now);
            let flow = flow.filter(|flow| table.can_enter(flow, now));
            if let Some((flow, tag)) = flow.and_then(|flow| Some((flow, believe(&flow)?))) {
                if tag != flow.tag {
                    table.records.set_tag(slot, tag);
                }
                let hashes = [&flow.original, &flow.reply].map(|tuple| Packed::new(tuple).hash(&table.key));
                table.enter(slot, hashes, flow.state, &flow.original);
                adopted.kept += 1;
            } else {
                // Anything but zero was a flow, or should have been.
                adopted.refused += usize::from(!table.records.is_free(slot));
                table.records.clear(slot);
            }
        }
        (table.with_free_slots(), adopted)
    }

    fn bare(settings: &Settings, memory: &'a [AtomicU64]) -> Self {
        let records = Records::new(memory, MOST / 2);
        let slots = records.capacity();
        Self {
            records,
            key: settings.key,
            index: Index::new(2 * slots),
            ages: Lists::new(CLASSES + 1, slots),
            sources: Sources::new(settings.key, slots),
            timeouts: settings.timeouts.by_class(),
            most_per_source: settings.most_per_source.max(1),
        }
    }

    fn with_free_slots(mut self) -> Self {
        for slot in 0..self.capacity() as u32 {
            if self.records.state(slot).is_none() {
                self.ages.push(FREE, slot);
            }
        }
        self
    }

    /// Returns how many flows there is room for.
    pub fn capacity(&self) -> usize {
        self.records.capacity()
    }

    /// Returns how many flows there are, those included that have expired and were not removed yet.
    pub fn count(&self) -> usize {
        (self.sources.total(Kind::Tentative) + self.sources.total(Kind::Lasting)) as usize
    }

    /// Returns how many flows `source` has begun, together with those that share its net of IPv6.
    pub fn count_of(&self, source: IpAddr) -> usize {
        self.sources.count(source) as usize
    }

    /// Returns a flow.
    pub fn flow(&self, id: Id) -> Option<Flow> {
        self.records.flow(id.0)
    }

    /// Returns the tuple with which a flow's packets of a direction leave: [`Flow::onward`] without
    /// the rest of the flow, which most packets do not need.
    #[inline]
    pub fn onward(&self, id: Id, direction: Direction) -> Option<Tuple> {
        self.records.state(id.0)?;
        Some(self.records.packed(id.0, direction.reversed()).tuple()?.reversed())
    }

    /// Returns all flows, in no order.
    pub fn flows(&self) -> impl Iterator<Item = (Id, Flow)> {
        (0..self.capacity() as u32).filter_map(|slot| Some((Id(slot), self.records.flow(slot)?)))
    }

    /// Returns the flow whose packets of one direction have `tuple`, and that direction.
    #[inline(never)]
    pub fn find(&self, tuple: &Tuple, now: u64) -> Option<(Id, Direction)> {
        let (slot, direction) = self.find_packed(&Packed::new(tuple))?;
        (!self.has_expired(slot, now)).then_some((Id(slot), direction))
    }

    /// Returns by how much a flow of a state and a protocol may be late in its list.
    #[inline(always)]
    pub(crate) fn slack(&self, state: State, protocol: u8) -> u64 {
        self.timeouts[class(state, protocol)] / SLACK
    }

    #[inline(always)]
    pub(crate) fn records(&self) -> &Records<'a> {
        &self.records
    }

    /// Returns the flow that an ICMP error is about, and the direction in which the error travels:
    /// that of the answers to what it quotes. An error about a TCP segment that cannot have been
    /// sent is about none (RFC 5927 §4.1): who guesses ports is not told numbers.
    pub fn find_quoted(&self, quoted: &Quoted, now: u64) -> Option<(Id, Direction)> {
        let (id, direction) = self.find(&quoted.tuple.reversed(), now)?;
        let is_sent = match quoted.sequence {
            None => true,
            Some(sequence) => tcp::has_sent(&self.records.sides(id.0)?, direction.reversed(), sequence),
        };
        is_sent.then_some((id, direction))
    }

    #[inline(always)]
    pub(crate) fn find_packed(&self, tuple: &Packed) -> Option<(u32, Direction)> {
        self.find_hashed(tuple, tuple.hash(&self.key))
    }

    /// Does what [`Self::find_packed`] does, for a tuple whose hash is known.
    #[inline(always)]
    fn find_hashed(&self, tuple: &Packed, hash: u64) -> Option<(u32, Direction)> {
        let parts = |entry: u32| (entry / 2, if entry & 1 == 0 { Direction::Original } else { Direction::Reply });
        let is_it = |entry| {
            let (slot, direction) = parts(entry);
            self.records.words(slot).is_some_and(|flow| flow.has(direction, tuple))
        };
        self.index.find(hash, is_it).map(parts)
    }

    /// Begins a flow with `packet`, whose packets come in with the tuple `original`, and answers
    /// with `reply`: those differ from each other's reverse if the flow is translated. Flows that
    /// make way for it, or have expired, are told to `gone`. The packet is not counted.
    ///
    /// # Errors
    ///
    /// Why there can be no such flow.
    pub fn insert(
        &mut self,
        [original, reply]: [&Tuple; 2],
        packet: &Packet,
        tag: u64,
        now: u64,
        mut gone: impl FnMut(&Flow, Cause),
    ) -> Result<Id, Refusal> {
        let (state, sides) = match packet.transport {
            Transport::Tcp(segment) if segment.has(flags::SYN) && !segment.has(flags::ACK) => {
                (State::SynSent, tcp::open(&segment))
            }
            Transport::Udp { .. }
            | Transport::Sctp { .. }
            | Transport::Echo { is_request: true, .. }
            | Transport::Other => (State::OneWay, Default::default()),
            _ => return Err(Refusal::NotAStart),
        };
        if original == reply {
            return Err(Refusal::Loop);
        }
        let tuples = [Packed::new(original), Packed::new(reply)];
        if !state.is_of(original.protocol) || original.protocol != reply.protocol {
            return Err(Refusal::NotAStart);
        }
        self.expire(now, SWEEP, &mut gone);
        let hashes = tuples.map(|tuple| tuple.hash(&self.key));
        for (tuple, hash) in tuples.iter().zip(hashes) {
            match self.find_hashed(tuple, hash) {
                Some((slot, _)) if self.has_expired(slot, now) => self.leave(slot, Cause::Expired, &mut gone),
                Some(_) => return Err(Refusal::Taken),
                None => {}
            }
        }
        self.make_way(original.source, &mut gone);
        let slot = self.ages.first(FREE).ok_or(Refusal::NoRoom)?;
        self.ages.remove(FREE, slot);
        self.records.write(slot, tuples, state, tag, now, &sides);
        self.enter(slot, hashes, state, original);
        Ok(Id(slot))
    }

    /// Removes the flow, if one has to go, in whose place `source` can begin another one. Returns
    /// whether one has gone. [`Self::insert`] does this itself; whoever needs something else for a
    /// new flow that each flow holds, such as a port of NAT, does it when there is none left.
    pub fn make_way(&mut self, source: IpAddr, gone: impl FnMut(&Flow, Cause)) -> bool {
        let slot = if self.sources.count(source) >= self.most_per_source {
            self.sources.oldest_of(source)
        } else if self.ages.first(FREE).is_none() {
            self.payer()
        } else {
            None
        };
        if let Some(slot) = slot {
            self.leave(slot, Cause::MadeWay, gone);
        }
        slot.is_some()
    }

    /// Returns the flow that makes way in a full table.
    fn payer(&self) -> Option<u32> {
        let share = self.capacity() as u32 / TENTATIVE_PART;
        let (first, second) = if self.sources.total(Kind::Tentative) > share {
            (Kind::Tentative, Kind::Lasting)
        } else {
            (Kind::Lasting, Kind::Tentative)
        };
        self.sources.oldest_of_heaviest(first).or_else(|| self.sources.oldest_of_heaviest(second))
    }

    /// Follows a packet of a flow, the first one included, at `now` in milliseconds. A flow that it
    /// ends is told to `gone`. An ICMP error about a flow is no packet of it (RFC 5508 REQ-6).
    pub fn track(
        &mut self,
        id: Id,
        direction: Direction,
        packet: &Packet,
        now: u64,
        gone: impl FnMut(&Flow, Cause),
    ) -> Tracked {
        let Id(slot) = id;
        let segment = match packet.transport {
            Transport::Tcp(segment) => Some((segment, packet.fragment.is_some())),
            // A later fragment, which may be of any protocol, tells nothing about the state.
            _ => None,
        };
        match self.advance(slot, direction, segment, packet.length, now) {
            Meaning::Belongs(_) => Tracked::Belongs,
            Meaning::Outside => Tracked::Outside,
            Meaning::Reopens => {
                self.leave(slot, Cause::Reopened, gone);
                Tracked::Reopens
            }
        }
    }

    /// Follows a packet of so many bytes of the flow in a slot; of TCP with its segment, and
    /// whether only the first fragment of that was seen. Unless it belongs, nothing has changed.
    #[inline(never)]
    pub(crate) fn advance(
        &mut self,
        slot: u32,
        direction: Direction,
        segment: Option<(Segment, bool)>,
        length: usize,
        now: u64,
    ) -> Meaning {
        let Some(state) = self.records.state(slot) else { return Meaning::Outside };
        let next = match segment {
            Some((segment, is_part)) => {
                let Some(mut sides) = self.records.sides(slot) else { return Meaning::Outside };
                let meaning = tcp::follow(&mut sides, state, direction, &segment, is_part);
                let Meaning::Belongs(next) = meaning else { return meaning };
                self.records.set_sides(slot, &sides);
                next
            }
            None if direction == Direction::Reply && state == State::OneWay => State::BothWays,
            None => state,
        };
        self.records.count(slot, direction, length);
        self.refresh(slot, state, next, now);
        Meaning::Belongs(next)
    }

    /// Moves a flow that is used at `now` to where it belongs.
    fn refresh(&mut self, slot: u32, state: State, next: State, now: u64) {
        let class = self.class(slot, state);
        if next != state {
            self.records.set_used(slot, now);
            self.records.set_state(slot, next);
            self.ages.remove(class, slot);
            self.ages.push(self.class(slot, next), slot);
            if next.kind() != state.kind() {
                self.sources.change(slot, state.kind(), next.kind());
            } else {
                self.sources.touch(slot, state.kind());
            }
        } else if now.saturating_sub(self.records.used(slot)) > self.timeouts[class] / SLACK {
            self.records.set_used(slot, now);
            self.ages.remove(class, slot);
            self.ages.push(class, slot);
            self.sources.touch(slot, state.kind());
        }
    }

    /// Removes flows that have expired, `most` at most, and returns how many.
    pub fn expire(&mut self, now: u64, most: usize, mut gone: impl FnMut(&Flow, Cause)) -> usize {
        let mut count = 0;
        for class in 0..CLASSES {
            while count < most
                && let Some(slot) = self.ages.first(class)
                && self.has_expired(slot, now)
            {
                self.leave(slot, Cause::Expired, &mut gone);
                count += 1;
            }
        }
        count
    }

    /// Returns when the next flow expires, in milliseconds.
    pub fn next_expiry(&self) -> Option<u64> {
        (0..CLASSES).filter_map(|class| self.ages.first(class)).map(|slot| self.expiry(slot)).min()
    }

    /// Removes a flow.
    pub fn remove(&mut self, id: Id, gone: impl FnMut(&Flow, Cause)) {
        if self.records.state(id.0).is_some() {
            self.leave(id.0, Cause::Removed, gone);
        }
    }

    /// Asks about each flow whether it may go on: `judge` returns what is to be remembered of it
    /// from now on ([`Flow::tag`]), or `None` if it is to be removed. Returns how many were
    /// removed. It takes a time that the table's capacity decides.
    pub fn review(&mut self, mut judge: impl FnMut(&Flow) -> Option<u64>, mut gone: impl FnMut(&Flow, Cause)) -> usize {
        let mut removed = 0;
        for slot in 0..self.capacity() as u32 {
            let Some(flow) = self.records.flow(slot) else { continue };
            match judge(&flow) {
                Some(tag) if tag == flow.tag => {}
                Some(tag) => self.records.set_tag(slot, tag),
                None => {
                    self.leave(slot, Cause::Removed, &mut gone);
                    removed += 1;
                }
            }
        }
        removed
    }

    fn class(&self, slot: u32, state: State) -> usize {
        class(state, self.records.protocol(slot))
    }

    fn expiry(&self, slot: u32) -> u64 {
        let Some(state) = self.records.state(slot) else {
            return 0;
        };
        let timeout = self.timeouts[self.class(slot, state)];
        self.records.used(slot).saturating_add(timeout).saturating_add(timeout / SLACK)
    }

    pub(crate) fn has_expired(&self, slot: u32, now: u64) -> bool {
        self.expiry(slot) <= now
    }

    /// Returns whether a flow that a previous life left can be one of this table.
    fn can_enter(&self, flow: &Flow, now: u64) -> bool {
        let timeout = self.timeouts[class(flow.state, flow.original.protocol)];
        flow.used.saturating_add(timeout).saturating_add(timeout / SLACK) > now
            && self.sources.count(flow.original.source) < self.most_per_source
            && [flow.original, flow.reply].iter().all(|tuple| self.find_packed(&Packed::new(tuple)).is_none())
    }

    /// Makes a flow that is in its slot, and whose tuples have these hashes, one that is found.
    fn enter(&mut self, slot: u32, hashes: [u64; 2], state: State, original: &Tuple) {
        for (direction, hash) in Direction::BOTH.into_iter().zip(hashes) {
            self.index.insert(2 * slot + direction as u32, hash);
        }
        self.ages.push(class(state, original.protocol), slot);
        self.sources.add(slot, original.source, state.kind());
    }

    /// Removes a flow.
    fn leave(&mut self, slot: u32, cause: Cause, mut gone: impl FnMut(&Flow, Cause)) {
        let Some(flow) = self.records.flow(slot) else {
            return;
        };
        self.records.clear(slot);
        for direction in Direction::BOTH {
            self.index.remove(2 * slot + direction as u32);
        }
        self.ages.remove(class(flow.state, flow.original.protocol), slot);
        self.sources.remove(slot, flow.state.kind());
        self.ages.push(FREE, slot);
        gone(&flow, cause);
    }
}
