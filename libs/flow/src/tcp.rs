//! How far both ends of a TCP connection are, as a router between them sees it.
//!
//! The bounds are those of Guido van Rooij, *Real Stateful TCP Packet Filtering in IP Filter*
//! (2001): of each side, how far it has sent, how far its peer's windows let it send, and the
//! largest window that it has offered. A segment outside of them is of no use to the receiver, and
//! all that somebody can send who does not see the connection. What is in doubt is let through:
//! the ends decide themselves, and a router that is stricter than they are breaks connections.
//!
//! A connection is only ended by what its ends take as its end, too: a RST at exactly the sequence
//! number that is next (RFC 5961 §3.2), or FINs that both have acknowledged.

use crate::flow::{Direction, State};
use crate::transport::{Segment, flags};

/// How far behind what was sent an acknowledgement may be at least, whatever the window. The paper
/// takes the largest window without scaling, and two segments.
const SMALLEST_LAG: u32 = 66_000;

/// How far a segment may reach beyond its first fragment: to the end of the longest packet.
const LARGEST_REST: u32 = 65_535;

/// The largest window (RFC 7323 §2.3).
const LARGEST_WINDOW: u32 = 65_535 << 14;

/// One end of a connection. All numbers are modulo 2³².
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Side {
    /// The sequence number behind the last that it has sent.
    end: u32,
    /// The sequence number behind the last that its peer's windows let it send.
    reach: u32,
    /// The highest number that it has acknowledged.
    acked: u32,
    /// The largest window that it has offered, scaled.
    window: u32,
    /// Shift of its windows.
    scale: u8,
    /// Whether it has sent a SYN.
    is_seen: bool,
    /// Whether its SYN offered to scale windows.
    offers_scale: bool,
    /// Whether it has acknowledged something.
    has_acked: bool,
    /// Whether it has sent a FIN, whose number is the one before `end`.
    has_ended: bool,
    /// Whether its peer has acknowledged that.
    is_done: bool,
    /// Whether it has sent segments in fragments, which may be longer than is known.
    has_parts: bool,
    /// The number behind the SYN by which it has asked for another connection in this one's midst.
    asked: Option<u32>,
}

/// What a segment means.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Meaning {
    /// It belongs to the connection, which is in this state now.
    Belongs(State),
    /// It is outside of what the ends can have sent.
    Outside,
    /// It begins another connection between the same ports, after the end of this one; or answers
    /// one that both ends begin since they have forgotten this one.
    Reopens,
}

/// Returns how far `later` is behind `earlier`, less than 0 if it is before.
fn distance(later: u32, earlier: u32) -> i32 {
    later.wrapping_sub(earlier).cast_signed()
}

impl Side {
    /// The side that has sent this SYN.
    fn opened(segment: &Segment) -> Self {
        let end = segment.sequence.wrapping_add(segment.advance());
        Self {
            end,
            reach: end,
            window: u32::from(segment.window).max(1),
            scale: segment.scale.unwrap_or(0),
            offers_scale: segment.scale.is_some(),
            is_seen: true,
            ..Self::default()
        }
    }

    /// Returns the side as three words.
    pub fn words(&self) -> [u64; 3] {
        let Self { end, reach, acked, window, scale, asked, .. } = *self;
        let bits = [
            (bits::IS_SEEN, self.is_seen),
            (bits::OFFERS_SCALE, self.offers_scale),
            (bits::HAS_ACKED, self.has_acked),
            (bits::HAS_ENDED, self.has_ended),
            (bits::IS_DONE, self.is_done),
            (bits::HAS_PARTS, self.has_parts),
            (bits::HAS_ASKED, asked.is_some()),
        ];
        let bits = bits.iter().fold(u32::from(scale), |word, (bit, is_set)| if *is_set { word | bit } else { word });
        [join(end, reach), join(acked, window), join(bits, asked.unwrap_or(0))]
    }

    /// Returns the side of three words; `None` if they are none of a side.
    pub fn from_words([first, second, third]: [u64; 3]) -> Option<Self> {
        let ([end, reach], [acked, window], [bits, asked]) = (split(first), split(second), split(third));
        let scale = bits as u8;
        let side = Self {
            end,
            reach,
            acked,
            window,
            scale,
            is_seen: bits & bits::IS_SEEN != 0,
            offers_scale: bits & bits::OFFERS_SCALE != 0,
            has_acked: bits & bits::HAS_ACKED != 0,
            has_ended: bits & bits::HAS_ENDED != 0,
            is_done: bits & bits::IS_DONE != 0,
            has_parts: bits & bits::HAS_PARTS != 0,
            asked: (bits & bits::HAS_ASKED != 0).then_some(asked),
        };
        (scale <= 14 && window <= LARGEST_WINDOW && bits & !bits::ALL == 0).then_some(side)
    }
}

/// Bits of a side's third word, whose upper half is [`Side::asked`].
mod bits {
    /// Its scale.
    pub const SCALE: u32 = 0xff;
    /// Fields of [`Side`](super::Side) with the same names.
    pub const IS_SEEN: u32 = 1 << 8;
    pub const OFFERS_SCALE: u32 = 1 << 9;
    pub const HAS_ACKED: u32 = 1 << 10;
    pub const HAS_ENDED: u32 = 1 << 11;
    pub const IS_DONE: u32 = 1 << 12;
    pub const HAS_PARTS: u32 = 1 << 13;
    /// Whether it has asked for another connection.
    pub const HAS_ASKED: u32 = 1 << 14;
    /// All that there are.
    pub const ALL: u32 = (1 << 15) - 1;
    /// What a side in the midst of a connection has, and nothing else but [`OF_SCALE`]: its SYN was
    /// seen, and it has acknowledged something.
    pub const AMIDST: u32 = IS_SEEN | HAS_ACKED;
    /// Its scale, and whether it has offered one.
    pub const OF_SCALE: u32 = SCALE | OFFERS_SCALE;
}

/// A word of two numbers.
#[inline(always)]
fn join(low: u32, high: u32) -> u64 {
    u64::from(low) | u64::from(high) << 32
}

/// The two numbers of a word.
#[inline(always)]
fn split(word: u64) -> [u32; 2] {
    [word as u32, (word >> 32) as u32]
}

/// Returns how far behind what was sent an acknowledgement of `side` may be.
fn lag_allowed(side: &Side) -> i32 {
    SMALLEST_LAG.max(side.window).saturating_mul(2).cast_signed()
}

/// Returns the sides of a connection that begins with this SYN.
pub fn open(segment: &Segment) -> [Side; 2] {
    [Side::opened(segment), Side::default()]
}

/// Returns whether an end may have sent a segment with this number lately.
pub fn has_sent(sides: &[Side; 2], from: Direction, sequence: u32) -> bool {
    let own = &sides[from as usize];
    let lag = distance(own.end, sequence);
    own.is_seen && lag >= 0 && lag <= SMALLEST_LAG.max(sides[from.reversed() as usize].window).cast_signed()
}

/// Follows a segment from one end of a connection in `state` to the other. `is_part` says whether
/// only its first fragment was seen.
pub fn follow(sides: &mut [Side; 2], state: State, from: Direction, segment: &Segment, is_part: bool) -> Meaning {
    let [original, reply] = sides;
    let (own, peer) = match from {
        Direction::Original => (original, reply),
        Direction::Reply => (reply, original),
    };
    let is_opening = matches!(state, State::SynSent | State::SynReceived);
    let answers_asked =
        segment.has(flags::ACK) && peer.asked == Some(segment.acknowledgement) && state != State::Closed;
    match (segment.has(flags::SYN), segment.has(flags::ACK)) {
        (true, false) if state == State::Closed && reopens(own, peer, segment) => Meaning::Reopens,
        (true, false) if state == State::SynSent => follow_syn(own, peer, from, segment),
        // A host that has forgotten the connection asks for one. The other end answers by an
        // acknowledgement, which has the first one reset the connection (RFC 5961 §4.2), unless it
        // has forgotten as well.
        (true, false) => {
            // This connection's own, come late, asks for nothing.
            let lag = distance(own.end, segment.sequence);
            let is_own = lag >= 0 && lag <= lag_allowed(peer);
            own.asked = (!is_opening && !is_own).then(|| segment.sequence.wrapping_add(1));
            Meaning::Belongs(state)
        }
        (true, true) if is_opening => follow_syn_ack(own, peer, segment),
        (true, true) if answers_asked => Meaning::Reopens,
        _ if segment.has(flags::RST) && answers_asked => Meaning::Belongs(State::Closed),
        _ if segment.has(flags::RST) => follow_reset(own, peer, state, segment),
        _ => follow_acknowledgement(own, peer, state, segment, is_part),
    }
}

/// Follows a segment without SYN, FIN and RST in an open connection, of which neither end has sent
/// all: what [`follow`] makes of it if it belongs there, from the words of the sender's side and
/// its peer's. Returns the first and the second word of the one, and the first of the other; `None`
/// if it is for [`follow`] to say.
#[inline(always)]
pub fn follow_plain(own: [u64; 3], peer: [u64; 3], segment: &Segment) -> Option<[u64; 3]> {
    let is_amidst = |words: [u64; 3]| words[2] as u32 & !bits::OF_SCALE == bits::AMIDST;
    let scale = own[2] as u32 & bits::SCALE;
    if !is_amidst(own) || !is_amidst(peer) || scale > 14 {
        return None;
    }
    let ([own_end, own_reach], [own_acked, own_window]) = (split(own[0]), split(own[1]));
    let ([peer_end, peer_reach], [_, peer_window]) = (split(peer[0]), split(peer[1]));
    let window = u32::from(segment.window) << scale;
    let end = segment.sequence.wrapping_add(segment.data.into());
    let lag = distance(peer_end, segment.acknowledgement);
    // As in `follow_acknowledgement`, where each of these has its reason.
    let belongs = distance(end, own_reach) <= 1
        && distance(end, own_end.wrapping_sub(peer_window).wrapping_sub(1)) >= 0
        && lag >= 0
        && lag <= SMALLEST_LAG.max(own_window).saturating_mul(2).cast_signed();
    if !belongs {
        return None;
    }
    let later = |one: u32, other: u32| if distance(one, other) > 0 { one } else { other };
    let reach = later(segment.acknowledgement.wrapping_add(window), peer_reach);
    let acked = later(segment.acknowledgement, own_acked);
    Some([join(later(end, own_end), own_reach), join(acked, own_window.max(window)), join(peer_end, reach)])
}

/// Returns whether a SYN begins another connection, after one that has ended. If that ended in
/// order, a SYN that is not behind it was sent before it (RFC 9293 §3.6.1).
fn reopens(own: &Side, peer: &Side, segment: &Segment) -> bool {
    !(own.is_done && peer.is_done) || distance(segment.sequence, own.end) > 0
}

/// Another SYN while there is no answer to the first: sent again, begun anew, or sent by both.
fn follow_syn(own: &mut Side, peer: &Side, from: Direction, segment: &Segment) -> Meaning {
    *own = Side::opened(segment);
    match from {
        Direction::Original if !peer.is_seen => Meaning::Belongs(State::SynSent),
        _ => Meaning::Belongs(State::SynReceived),
    }
}

fn follow_syn_ack(own: &mut Side, peer: &mut Side, segment: &Segment) -> Meaning {
    let lag = distance(peer.end, segment.acknowledgement);
    // Data in the SYN may be acknowledged or not (RFC 7413 §2), the SYN itself must be.
    if !peer.is_seen || lag < 0 || lag >= SMALLEST_LAG.cast_signed() {
        return Meaning::Outside;
    }
    let opened = Side::opened(segment);
    // Sent again, it takes back nothing that was sent behind it.
    let is_again = own.has_acked && (0..=peer.window.cast_signed()).contains(&distance(own.end, opened.end));
    let end = if is_again { own.end } else { opened.end };
    // Who has answered a SYN may send without waiting (RFC 7413 §4.2).
    let reach = opened.end.wrapping_add(peer.window);
    *own = Side { end, reach, acked: segment.acknowledgement, has_acked: true, ..opened };
    // RFC 7323 §2.2: windows are scaled if both offer it. The window of a SYN itself is not.
    if !(own.offers_scale && peer.offers_scale) {
        (own.scale, peer.scale) = (0, 0);
    }
    peer.reach = segment.acknowledgement.wrapping_add(own.window);
    Meaning::Belongs(opened_or(State::SynReceived, own, peer))
}

/// Returns [`State::Established`] after both sides have acknowledged each other's SYN.
fn opened_or(state: State, own: &Side, peer: &Side) -> State {
    if own.has_acked && peer.has_acked { State::Established } else { state }
}

fn follow_reset(own: &Side, peer: &Side, state: State, segment: &Segment) -> Meaning {
    let is_exact = if own.is_seen {
        // What the peer has acknowledged last may be less than what it has received.
        segment.sequence == own.end || peer.has_acked && segment.sequence == peer.acked
    } else {
        // A refusal of the connection (RFC 9293 §3.10.7.3).
        segment.has(flags::ACK) && segment.acknowledgement == peer.end
    };
    let is_near = own.is_seen
        && distance(segment.sequence, own.reach) <= 0
        && distance(segment.sequence, own.end.wrapping_sub(peer.window)) >= 0;
    match (is_exact, is_near) {
        (true, _) => Meaning::Belongs(State::Closed),
        // The peer answers by an acknowledgement, which makes the sender name the exact number.
        (_, true) => Meaning::Belongs(state),
        _ => Meaning::Outside,
    }
}

fn follow_acknowledgement(own: &mut Side, peer: &mut Side, state: State, segment: &Segment, is_part: bool) -> Meaning {
    let scale = if segment.has(flags::SYN) { 0 } else { own.scale };
    let window = u32::from(segment.window) << scale;
    let Segment { sequence, acknowledgement, .. } = *segment;
    let end = sequence.wrapping_add(segment.advance());
    let lag = distance(peer.end, acknowledgement);
    let rest = if peer.has_parts { LARGEST_REST } else { 0 };
    let belongs = own.is_seen
        && peer.is_seen
        // A probe of a window that is closed is one byte beyond it.
        && distance(end, own.reach) <= 1
        // What is sent again was within a window once.
        && distance(end, own.end.wrapping_sub(peer.window).wrapping_sub(1)) >= 0
        // Nobody acknowledges what was not sent, nor what was received long ago.
        && lag >= -rest.cast_signed()
        && lag <= lag_allowed(own);
    if !belongs {
        return Meaning::Outside;
    }
    // Both know of the connection.
    (own.asked, peer.asked) = (None, None);
    own.has_parts |= is_part;
    own.window = own.window.max(window);
    if lag < 0 {
        peer.end = acknowledgement;
    }
    if distance(end, own.end) > 0 {
        own.end = end;
    }
    if !own.has_acked || distance(acknowledgement, own.acked) > 0 {
        (own.acked, own.has_acked) = (acknowledgement, true);
    }
    let reach = acknowledgement.wrapping_add(window);
    if distance(reach, peer.reach) > 0 {
        peer.reach = reach;
    }
    own.has_ended |= segment.has(flags::FIN) && end == own.end;
    peer.is_done |= peer.has_ended && acknowledgement == peer.end;
    let state = match state {
        State::SynSent | State::SynReceived => opened_or(state, own, peer),
        state => state,
    };
    Meaning::Belongs(match state {
        State::Closed => State::Closed,
        _ if own.is_done && peer.is_done => State::Closed,
        _ if own.has_ended || peer.has_ended => State::Closing,
        state => state,
    })
}
