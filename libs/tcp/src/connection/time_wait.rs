//! What is left of a connection in TIME-WAIT, or in FIN-WAIT-2 if nobody reads what the peer still
//! sends: what its segments need, and a new connection between the same addresses and ports, in so
//! few bytes that the connection's own place need not wait.

use super::receive::Challenges;
use super::timers::Acknowledgement;
use super::{Connection, State};
use crate::header::{Flags, Header};
use crate::options::{Options, Timestamps};
use crate::sequence::{Range, Sequence};
use crate::time::Instant;

/// How far the first number of the next connection is from the last of this one: further than
/// what may still be on the way.
const DISTANCE: u32 = (1 << 16) + 2;

/// A connection in TIME-WAIT, for whoever keeps this in place of the [`Connection`]: both sides
/// have closed, and what came is acknowledged. In FIN-WAIT-2 the peer has not closed yet: what it
/// sends in order is acknowledged and thrown away. How long it lasts is up to its owner.
#[derive(Clone, Copy, Debug, Default)]
pub struct TimeWait {
    /// The number of this side's SYN, and the one behind its FIN.
    initial: Sequence,
    nxt: Sequence,
    /// The number behind the peer's FIN, or behind what has come, if that has not.
    next: Sequence,
    /// Whether the peer's FIN has come.
    is_ended: bool,
    /// The peer's timestamp that is echoed, where both sides have timestamps.
    recent_stamp: Option<u32>,
    stamp_offset: u32,
    /// The window as it stands on the wire.
    window: u16,
    challenges: Challenges,
    /// Whether the peer's address has said that it knows of no such connection.
    is_unknown: bool,
}

impl TimeWait {
    /// Returns the number of this side's SYN.
    pub fn initial(&self) -> Sequence {
        self.initial
    }

    /// Returns the answer to a segment with `length` bytes of payload, which came at `now`: what
    /// was acknowledged, once more (RFC 9293, §3.10.7.4), or what the segment brings of what the
    /// peer has not sent before. There is none to what only acknowledges
    /// this side's end, to a reset, which must not end the wait either (RFC 1337, §3, F1), and to
    /// more than a few segments a second (RFC 5961, §7) that bring nothing.
    ///
    /// A reset that answers what was said here shows that whoever has the peer's address and port
    /// knows of no such connection: another host behind the same translator, whose SYN seemed old.
    /// From then on any SYN of it opens another connection; else it would be kept out for as long
    /// as this waits.
    pub fn answer(&mut self, segment: &Header, length: u32, now: Instant) -> Option<Header> {
        let flags = segment.flags;
        let has_content = length > 0 || flags.has(Flags::SYN) || flags.has(Flags::FIN);
        // Without a timestamp where there are some it is dropped (RFC 7323, §3.2); an old one is
        // answered (§5.3).
        let is_old = match (self.recent_stamp, segment.options.timestamps) {
            (Some(recent), Some(stamps)) => (stamps.value.wrapping_sub(recent) as i32) < 0,
            // One that opens may be of another host, which has none.
            (Some(_), None) if !flags.has(Flags::SYN) => return None,
            _ => false,
        };
        let is_next = segment.sequence == self.next;
        if flags.has(Flags::RST) {
            self.is_unknown |= is_next;
            return None;
        }
        let is_new = has_content && is_next && !is_old && !self.is_ended && !flags.has(Flags::SYN);
        if is_new && !flags.has(Flags::ACK) {
            return None;
        }
        // What acknowledges what was never sent is not from the peer (RFC 5961, §5.2).
        if is_new && !segment.acknowledgement.is_after(self.nxt) {
            self.is_ended = flags.has(Flags::FIN);
            self.next += length + u32::from(self.is_ended);
            self.recent_stamp = self.recent_stamp.and(segment.options.timestamps).map(|stamps| stamps.value);
        } else if !(has_content || is_old || !is_next) || !self.challenges.allow(now) {
            return None;
        }
        let value = now.milliseconds().wrapping_add(self.stamp_offset);
        let timestamps = self.recent_stamp.map(|echo| Timestamps { value, echo });
        Some(Header {
            source: segment.destination,
            destination: segment.source,
            sequence: self.nxt,
            acknowledgement: self.next,
            flags: Flags::ACK,
            window: self.window,
            options: Options { timestamps, ..Options::default() },
        })
    }

    /// Returns whether `syn` opens a new connection in place of this one: if it is certainly later
    /// than all that was sent in this one, by its timestamp or by its number (RFC 9293, §3.6.1; RFC
    /// 6191, §2). Gives the least initial number of this side then; one by [`Sequence::initial`] is
    /// greater nearly always. Any other SYN is for [`Self::answer`].
    pub fn succeeded_by(&self, syn: &Header) -> Option<Sequence> {
        let unwanted = Flags::ACK.with(Flags::RST).with(Flags::FIN);
        let is_syn = syn.flags.has(Flags::SYN) && syn.flags.without(unwanted) == syn.flags;
        let is_later = syn.sequence.is_after(self.next);
        let is_new = match (syn.options.timestamps, self.recent_stamp) {
            (Some(_), None) => true,
            (Some(stamps), Some(recent)) => match stamps.value.wrapping_sub(recent) as i32 {
                0 => is_later,
                passed => passed > 0,
            },
            (None, _) => is_later,
        };
        (is_syn && (is_new || self.is_unknown)).then_some(self.nxt + DISTANCE)
    }

    /// Returns whether a segment goes on where the connection has stopped, with both its numbers:
    /// another connection's does by chance, one in 2³²: its peer chooses but one of them.
    #[inline]
    pub fn is_continued_by(&self, segment: &Header) -> bool {
        segment.sequence == self.next && segment.acknowledgement == self.nxt
    }

    /// Returns whether a segment with `length` bytes of payload, after [`Self::answer`] has taken
    /// it, is the peer's end, which may come again because its acknowledgement was lost: then the
    /// wait begins anew (RFC 9293, §3.10.7.4, eighth).
    pub fn is_end(&self, segment: &Header, length: u32) -> bool {
        let is_fin = segment.flags.has(Flags::FIN.with(Flags::ACK)) && !segment.flags.has(Flags::SYN);
        is_fin && self.is_ended && segment.sequence + length + 1 == self.next
    }
}

impl Connection<'_> {
    /// Returns what is to be kept of this connection in its place, if it is in TIME-WAIT, or in
    /// FIN-WAIT-2 where nothing has come out of turn and all is acknowledged; to be asked after
    /// [`Self::transmit`], which may still have to acknowledge the peer's end, and in FIN-WAIT-2
    /// only if nobody reads on.
    pub fn time_wait(&self) -> Option<TimeWait> {
        let is_ended = self.state == State::TimeWait;
        let has_all = !self.incoming.has_holes() && self.acknowledgement == Acknowledgement::None;
        let is_waiting = is_ended || self.state == State::FinWait2 && has_all;
        let window = Range { start: self.incoming.next, end: self.announced }.length() >> self.receive_scale;
        is_waiting.then(|| TimeWait {
            initial: self.settings.initial,
            nxt: self.nxt,
            next: self.incoming.next,
            is_ended,
            recent_stamp: self.has_stamps.then_some(self.recent_stamp),
            stamp_offset: self.settings.stamp_offset,
            window: window.min(u16::MAX.into()) as u16,
            challenges: self.challenges,
            is_unknown: false,
        })
    }
}
