//! Puts fragments together (RFC 791 §3.2, RFC 8200 §4.5), in memory of a fixed size.
//!
//! Each packet under way has a slot, and all slots have the same share of the memory: a packet that
//! is larger is refused. A host of the Internet takes 1,500 bytes at least (RFC 8200 §5).
//!
//! # Who has to make way
//!
//! A source has a quarter of the slots at most, where a source is an address of IPv4 or the first
//! 64 bits of one of IPv6, within which a host gives itself as many as it likes. Its own oldest
//! packet makes way for its next one. Where all slots are taken, the oldest packet of a source that
//! has most of them does. Looking for it takes time with the square of the slots: some dozens are
//! enough for a host.
//!
//! # What is refused
//!
//! Fragments that overlap are an attack, and the whole packet is refused until its time is over
//! (RFC 5722 §4), over IPv4 as over IPv6. One that comes twice with the same bytes does no harm,
//! and is passed over (RFC 8200 §4.5). So are packets whose ends contradict each other, and those
//! whose fragments come in an order that leaves more than [`PIECES`] separate pieces.
//!
//! A packet bears a mark of congestion if one of its fragments does; one of which another fragment
//! says that its sender knows no marks is refused (RFC 3168 §5.3).

use crate::Instant;
use crate::extension::Part;
use crate::ipv4::{self, Ipv4};
use crate::ipv6::Ipv6;
use core::net::{IpAddr, Ipv4Addr};
use core::time::Duration;
use culm_packet::ip;
use culm_packet::wire::ecn;

/// How long a packet's fragments may take from the first that arrives (RFC 8200 §4.5;
/// RFC 1122 §3.3.2).
pub const PATIENCE: Duration = Duration::from_secs(60);

/// Separate pieces that a packet may be in. One of 65,535 bytes in fragments for an Ethernet is in
/// 23 at most, whatever their order.
pub const PIECES: usize = 24;

/// Bytes of a packet's first fragment that are kept for the message that its time is over: IPv4's
/// longest header and 64 bits (RFC 792), or IPv6's with what follows it.
pub const HEAD: usize = 128;

/// The most that an IP packet's lengths can tell.
const LONGEST: usize = 65_535;

/// A fragment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Fragment<'a> {
    source: IpAddr,
    destination: IpAddr,
    /// Of IPv4, what the packet is: part of its name. Of IPv6, what it begins with.
    protocol: u8,
    part: Part,
    payload: &'a [u8],
    /// What its packet says of congestion.
    ecn: u8,
    /// The packet that the fragment came in.
    packet: &'a [u8],
}

impl<'a> Fragment<'a> {
    /// A fragment of IPv4; a whole packet is one too, of all there is.
    pub fn of_ipv4(packet: &Ipv4<'a>) -> Self {
        let Ipv4 { source, destination, protocol, payload, .. } = *packet;
        let part =
            Part { identification: packet.identification.into(), offset: packet.offset, has_more: packet.has_more };
        let (source, destination, packet) = (source.into(), destination.into(), packet.packet);
        Self { source, destination, protocol, part, payload, ecn: ip::ecn(packet), packet }
    }

    /// A fragment of IPv6: of `bytes`, whose header is `packet`, and of which
    /// [`content`](crate::extension::content) has found `part`, `protocol` and `payload`.
    pub fn of_ipv6(bytes: &'a [u8], packet: &Ipv6<'_>, part: Part, protocol: u8, payload: &'a [u8]) -> Self {
        let Ipv6 { source, destination, .. } = *packet;
        let (source, destination) = (source.into(), destination.into());
        Self { source, destination, protocol, part, payload, ecn: ip::ecn(bytes), packet: bytes }
    }

    /// Where the fragment ends in the packet, in bytes.
    fn end(&self) -> usize {
        usize::from(self.part.offset) + self.payload.len()
    }

    /// Returns what is wrong with this fragment by itself.
    fn problem(&self) -> Option<Refusal> {
        let most = if self.source.is_ipv4() { LONGEST - ipv4::HEADER } else { LONGEST };
        match self.part.has_more {
            true if self.payload.is_empty() || !self.payload.len().is_multiple_of(8) => Some(Refusal::Length),
            false if self.payload.is_empty() && self.part.offset != 0 => Some(Refusal::Length),
            _ if self.end() > most => Some(Refusal::End),
            _ => None,
        }
    }

    /// Returns whether it is all of its packet (RFC 6946).
    fn is_all(&self) -> bool {
        self.part.offset == 0 && !self.part.has_more
    }
}

/// Why a fragment is refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Refusal {
    /// It is empty, or others follow and its length is no multiple of 8. Over IPv6 the sender is
    /// told: a parameter problem of the payload length, with code 0 (RFC 8200 §4.5).
    Length,
    /// It ends beyond what a packet can have. Over IPv6 the sender is told: a parameter problem of
    /// the fragment's offset, with code 0 (RFC 8200 §4.5).
    End,
    /// Its packet is larger than a slot's memory, or in too many pieces, or there are no slots.
    Memory,
    /// It overlaps another fragment of its packet, or contradicts its end, or one did before.
    Overlap,
    /// It has a mark of congestion, and others of its packet must not have any, or the other way
    /// round.
    Mark,
}

/// What becomes of a fragment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outcome<'a> {
    /// Others are still missing.
    Incomplete,
    /// Nothing is missing.
    Whole {
        /// What the payload is; of IPv6, what it begins with, an extension header perhaps. It is
        /// what the first fragment says (RFC 8200 §4.5).
        protocol: u8,
        /// The payload of the packet.
        payload: &'a [u8],
        /// Whether a fragment bears a mark of congestion (CE).
        is_marked: bool,
    },
    /// It is dropped.
    Refused(Refusal),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    Free,
    Collecting,
    Refused,
}

/// Bytes from the first number to before the second.
type Piece = (usize, usize);

/// A place for a packet under way; its payload is in the memory of the [`Reassembly`].
#[derive(Clone, Debug)]
pub struct Slot {
    state: State,
    source: IpAddr,
    destination: IpAddr,
    identification: u32,
    protocol: u8,
    due: Instant,
    /// How many packets had begun before it.
    order: u64,
    /// What has arrived, in order; no two pieces touch.
    pieces: [Piece; PIECES],
    count: usize,
    /// How many bytes the packet has, once its last fragment is there.
    length: Option<usize>,
    /// Whether a fragment bears a mark of congestion, and whether one says that there are none.
    is_marked: bool,
    is_unmarkable: bool,
    head: [u8; HEAD],
    /// How many bytes of the first fragment are in `head`; none if it is not there.
    head_length: usize,
}

impl Default for Slot {
    fn default() -> Self {
        let nobody = IpAddr::V4(Ipv4Addr::UNSPECIFIED);
        Self {
            state: State::Free,
            source: nobody,
            destination: nobody,
            identification: 0,
            protocol: 0,
            due: Instant::NEVER,
            order: 0,
            pieces: [(0, 0); PIECES],
            count: 0,
            length: None,
            is_marked: false,
            is_unmarkable: false,
            head: [0; HEAD],
            head_length: 0,
        }
    }
}

impl Slot {
    fn is_of(&self, fragment: &Fragment<'_>) -> bool {
        self.state != State::Free
            && (self.source, self.destination) == (fragment.source, fragment.destination)
            && self.identification == fragment.part.identification
            && (self.source.is_ipv6() || self.protocol == fragment.protocol)
    }

    fn pieces(&self) -> &[Piece] {
        self.pieces.get(..self.count).unwrap_or_default()
    }

    fn is_complete(&self) -> bool {
        self.length.is_some_and(|length| self.pieces() == [(0, length)])
    }

    /// Puts a fragment into its place in `memory`.
    fn add(&mut self, fragment: &Fragment<'_>, memory: &mut [u8]) -> Result<(), Refusal> {
        self.is_marked |= fragment.ecn == ecn::MARKED;
        self.is_unmarkable |= fragment.ecn == ecn::UNMARKABLE;
        if self.is_marked && self.is_unmarkable {
            return Err(Refusal::Mark);
        }
        let new = (usize::from(fragment.part.offset), fragment.end());
        let arrived = self.pieces().last().map_or(0, |last| last.1);
        let is_last = !fragment.part.has_more;
        let contradicts = match self.length {
            Some(length) => new.1 > length || is_last != (new.1 == length),
            None => is_last && new.1 <= arrived,
        };
        if contradicts {
            return Err(Refusal::Overlap);
        }
        let place = memory.get_mut(new.0..new.1).ok_or(Refusal::Memory)?;
        if let Some(touched) = self.pieces().iter().find(|piece| piece.0 < new.1 && new.0 < piece.1) {
            let is_repeated = touched.0 <= new.0 && new.1 <= touched.1 && place == fragment.payload;
            return if is_repeated { Ok(()) } else { Err(Refusal::Overlap) };
        }
        self.insert(new)?;
        place.copy_from_slice(fragment.payload);
        if is_last {
            self.length = Some(new.1);
        }
        if new.0 == 0 {
            self.protocol = fragment.protocol;
            self.head_length = fragment.packet.len().min(HEAD);
            self.head.iter_mut().zip(fragment.packet).for_each(|(place, byte)| *place = *byte);
        }
        Ok(())
    }

    /// Adds a piece that overlaps no other; it becomes one with those that it touches.
    fn insert(&mut self, new: Piece) -> Result<(), Refusal> {
        let pieces = self.pieces();
        let start = pieces.iter().find(|piece| piece.1 == new.0).map_or(new.0, |before| before.0);
        let end = pieces.iter().find(|piece| piece.0 == new.1).map_or(new.1, |behind| behind.1);
        let lower = pieces.iter().filter(|piece| piece.1 < new.0);
        let higher = pieces.iter().filter(|piece| new.1 < piece.0);
        let (mut merged, mut count) = ([(0, 0); PIECES], 0);
        for piece in lower.chain([&(start, end)]).chain(higher) {
            *merged.get_mut(count).ok_or(Refusal::Memory)? = *piece;
            count += 1;
        }
        (self.pieces, self.count) = (merged, count);
        Ok(())
    }
}

/// Packets under way. See the [module](self).
#[derive(Debug)]
pub struct Reassembly<'a> {
    slots: &'a mut [Slot],
    memory: &'a mut [u8],
    /// How many packets have begun.
    begun: u64,
}

impl<'a> Reassembly<'a> {
    /// Space for as many packets as there are `slots`, all of which are free from now on, each with
    /// the same share of `memory`.
    pub fn new(slots: &'a mut [Slot], memory: &'a mut [u8]) -> Self {
        slots.fill_with(Slot::default);
        Self { slots, memory, begun: 0 }
    }

    /// When [`Self::expire`] has something to do.
    pub fn deadline(&self) -> Instant {
        self.slots.iter().map(|slot| slot.due).min().unwrap_or(Instant::NEVER)
    }

    /// Takes a fragment. Returns the packet's payload if nothing is missing any more.
    pub fn take<'b>(&'b mut self, fragment: &Fragment<'b>, now: Instant) -> Outcome<'b> {
        if let Some(problem) = fragment.problem() {
            return Outcome::Refused(problem);
        }
        if fragment.is_all() {
            let (protocol, payload) = (fragment.protocol, fragment.payload);
            return Outcome::Whole { protocol, payload, is_marked: fragment.ecn == ecn::MARKED };
        }
        let found = self.slots.iter().position(|slot| slot.is_of(fragment));
        let Some(index) = found.or_else(|| self.claim(fragment, now)) else {
            return Outcome::Refused(Refusal::Memory);
        };
        let share = self.memory.len() / self.slots.len().max(1);
        let memory = self.memory.get_mut(index * share..).and_then(|rest| rest.get_mut(..share)).unwrap_or_default();
        let Some(slot) = self.slots.get_mut(index) else { return Outcome::Refused(Refusal::Memory) };
        if slot.state == State::Refused {
            return Outcome::Refused(Refusal::Overlap);
        }
        if let Err(refusal) = slot.add(fragment, memory) {
            slot.state = State::Refused;
            return Outcome::Refused(refusal);
        }
        if !slot.is_complete() {
            return Outcome::Incomplete;
        }
        (slot.state, slot.due) = (State::Free, Instant::NEVER);
        let (protocol, length, is_marked) = (slot.protocol, slot.length.unwrap_or(0), slot.is_marked);
        Outcome::Whole { protocol, payload: memory.get(..length).unwrap_or_default(), is_marked }
    }

    /// Gives up the next packet whose time is over by `now`. Returns the first bytes of its first
    /// fragment, to whose sender that is told (time exceeded, code 1); of a packet whose first
    /// fragment has not come, or that was refused, nobody is told (RFC 792, RFC 8200 §4.5, RFC
    /// 5722 §4). `None` if there is no such packet.
    pub fn expire(&mut self, now: Instant) -> Option<&[u8]> {
        let mut told = None;
        for (index, slot) in self.slots.iter_mut().enumerate().filter(|(_, slot)| slot.due <= now) {
            let is_told = slot.state == State::Collecting && slot.head_length > 0;
            (slot.state, slot.due) = (State::Free, Instant::NEVER);
            if is_told {
                told = Some(index);
                break;
            }
        }
        let slot = self.slots.get(told?)?;
        slot.head.get(..slot.head_length)
    }

    /// Gives a slot to the packet of `fragment`. Returns which.
    fn claim(&mut self, fragment: &Fragment<'_>, now: Instant) -> Option<usize> {
        let held =
            |by: u64| self.slots.iter().filter(|slot| slot.state != State::Free && owner(slot.source) == by).count();
        let own = owner(fragment.source);
        let slots = || self.slots.iter().enumerate();
        let taken = || slots().filter(|(_, slot)| slot.state != State::Free);
        let is_over_share = held(own) >= (self.slots.len() / 4).max(1);
        let chosen = if is_over_share {
            taken().filter(|(_, slot)| owner(slot.source) == own).min_by_key(|(_, slot)| slot.order)
        } else {
            let free = slots().find(|(_, slot)| slot.state == State::Free);
            free.or_else(|| taken().min_by_key(|(_, slot)| (core::cmp::Reverse(held(owner(slot.source))), slot.order)))
        };
        let (index, _) = chosen?;
        *self.slots.get_mut(index)? = Slot {
            state: State::Collecting,
            source: fragment.source,
            destination: fragment.destination,
            identification: fragment.part.identification,
            protocol: fragment.protocol,
            due: now + PATIENCE,
            order: self.begun,
            ..Slot::default()
        };
        self.begun += 1;
        Some(index)
    }
}

/// Names who is behind a source: an address of IPv4, or all with the first 64 bits of one of IPv6.
fn owner(source: IpAddr) -> u64 {
    match source {
        IpAddr::V4(address) => u64::from(u32::from(address)),
        IpAddr::V6(address) => (u128::from(address) >> 64) as u64 | 1 << 63,
    }
}

#[cfg(test)]
mod tests;
