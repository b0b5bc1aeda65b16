//! What is sent, and when: what is lost first, then new data as far as both windows go (RFC 9293,
//! §3.8), with neither many small segments nor a wait that nothing ends.

use super::timers::{Acknowledgement, Due, Timer};
use super::{Connection, State};
use crate::header::{Flags, Header};
use crate::options::{Options, Timestamps};
use crate::scoreboard::Fate;
use crate::sequence::{Range, Sequence};
use crate::time::Instant;

/// Segments of new data from which on it is worth waiting until they can go as a train.
const WORTHWHILE_TRAIN: u32 = 8;

/// A segment to be sent, or a train of segments that the device divides.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Transmission {
    /// The header, of the first segment if there are several: each next one has the sequence number
    /// that follows, and FIN and PSH are the last one's.
    pub header: Header,
    /// Bytes of payload in each segment but the last.
    pub segment: u32,
    /// Bytes of payload in all.
    pub length: u32,
    /// Whether its packets may be marked in place of being dropped (ECT(0), RFC 3168, §5): new data
    /// of a connection whose ends have agreed on that.
    pub is_ect: bool,
    pub(super) offset: u32,
}

impl Transmission {
    /// A segment without payload.
    fn bare(header: Header) -> Self {
        Self { header, segment: 0, length: 0, is_ect: false, offset: 0 }
    }
}

impl Connection<'_> {
    /// Notes that nothing holds data back, and returns true, if the handshake is over and
    /// [`Self::transmit`] would find nothing to be sent, as after nearly each segment; else changes
    /// nothing. Whoever asks this first pays less than for calling that in vain.
    #[inline]
    pub fn settle_if_quiet(&mut self) -> bool {
        let is_quiet = !matches!(self.state, State::SynSent | State::SynReceived | State::Closed)
            && self.acknowledgement != Acknowledgement::Now
            && self.board.lost() == 0
            && self.due.is_none()
            && (self.timer.is_some() || self.board.is_empty())
            && self.pending() == 0;
        if is_quiet {
            (self.is_limited, self.is_held) = (false, false);
        }
        is_quiet
    }

    /// Returns the next segment to be sent at `now`, or the next train; `None` if there is none.
    pub fn transmit(&mut self, now: Instant) -> Option<Transmission> {
        if let Some(header) = self.reset.take() {
            return Some(Transmission::bare(header));
        }
        match self.state {
            State::Closed => return None,
            State::SynSent | State::SynReceived => {
                if self.due == Some(Due::Syn) {
                    return Some(self.send_syn(now));
                }
            }
            _ => {
                let due = self.due.take().and_then(|due| self.send_due(due, now));
                if due.is_none() && self.timer.is_none() {
                    self.arm(now);
                }
                let data = due.or_else(|| self.send_lost(now)).or_else(|| self.send_new(now));
                if data.is_some() {
                    return data;
                }
            }
        }
        (self.acknowledgement == Acknowledgement::Now && self.state != State::SynSent)
            .then(|| self.bare(self.next_without_content(), now))
    }

    /// Returns the number of a segment without content. Of a peer with a closed window it is the
    /// one that it expects: what has the number behind a probe of that window, it drops unread (RFC
    /// 9293, §3.10.7.4, first).
    #[inline]
    pub(super) fn next_without_content(&self) -> Sequence {
        if self.window == 0 { self.una } else { self.nxt }
    }

    fn send_syn(&mut self, now: Instant) -> Transmission {
        self.due = None;
        if self.timeouts == 0 {
            self.sent_at = now;
        }
        // A peer that repeats its SYN does not put off the end of its patience.
        if self.timer.is_none() {
            self.timer = Some((now + self.round_trip.timeout(), Timer::Timeout));
        }
        let is_answer = self.state == State::SynReceived;
        let may_offer_scale = !is_answer || self.receive_scale != 0 || self.send_scale != 0;
        let options = Options {
            mss: Some(self.settings.segment),
            window_scale: may_offer_scale.then_some(self.receive_scale),
            sack_permitted: self.has_sack,
            timestamps: self.stamps(now),
            ..Options::default()
        };
        // The window of a SYN is never scaled.
        let window = self.free().min(u16::MAX.into());
        if is_answer {
            self.announced = self.announced.max(self.incoming.next + window);
            self.acknowledgement = Acknowledgement::None;
        }
        let flags = if is_answer { Flags::SYN.with(Flags::ACK) } else { Flags::SYN };
        let header = Header {
            source: self.settings.source,
            destination: self.settings.destination,
            sequence: self.settings.initial,
            acknowledgement: if is_answer { self.incoming.next } else { Sequence(0) },
            flags: flags.with(self.ecn.syn_flags(self.settings.ecn, is_answer, self.timeouts)),
            window: window as u16,
            options,
        };
        Transmission::bare(header)
    }

    #[inline]
    fn stamps(&self, now: Instant) -> Option<Timestamps> {
        self.has_stamps.then(|| Timestamps { value: self.stamp(now), echo: self.recent_stamp })
    }

    /// Returns a header that acknowledges all there is, and takes note of that.
    #[inline]
    fn header(&mut self, sequence: Sequence, flags: Flags, now: Instant) -> Header {
        let window = self.announce();
        self.acknowledged = self.incoming.next;
        self.acknowledgement = Acknowledgement::None;
        let mut header = Header {
            source: self.settings.source,
            destination: self.settings.destination,
            sequence,
            acknowledgement: self.incoming.next,
            flags: flags.with(Flags::ACK).with(self.ecn.echo()),
            window,
            options: Options { timestamps: self.stamps(now), ..Options::default() },
        };
        if self.has_sack && self.incoming.news(1) > 0 {
            header.options.sack = self.incoming.blocks();
        }
        header
    }

    /// Returns the window that the peer is told. Its end never goes back, and forth only by so much
    /// that it is worth a segment (RFC 9293, §3.8.6.2.2).
    #[inline]
    fn announce(&mut self) -> u16 {
        let next = self.incoming.next;
        let told = Range { start: next, end: self.announced }.length();
        let free = self.free();
        let window = if free >= told.saturating_add(self.worthwhile()) { free } else { told };
        let scaled = (window >> self.receive_scale).min(u16::MAX.into());
        self.announced = self.announced.max(next + (scaled << self.receive_scale));
        scaled as u16
    }

    fn bare(&mut self, sequence: Sequence, now: Instant) -> Transmission {
        let header = self.header(sequence, Flags::ACK, now);
        Transmission::bare(header)
    }

    /// Returns the segment or train of `range`, the number of the FIN possibly included, with
    /// `flags` and those that follow from its content.
    #[inline(always)]
    fn data(&mut self, range: Range, mut flags: Flags, segment: u32, now: Instant) -> Transmission {
        let end = self.una + self.outgoing.length();
        let length = Range { start: range.start, end: range.end.min(end) }.length();
        if range.end == end || range.end.is_after(end) {
            flags = flags.with(Flags::PSH);
        }
        if range.end.is_after(end) {
            flags = flags.with(Flags::FIN);
            self.is_fin_sent = true;
        }
        self.sent_at = now;
        self.arm_sent(now);
        let offset = range.start.since(self.una).max(0) as u32;
        Transmission { header: self.header(range.start, flags, now), segment, length, is_ect: false, offset }
    }

    /// Returns the segment or train of `range` that is sent once more.
    #[inline(never)]
    fn data_again(&mut self, range: Range, segment: u32, now: Instant) -> Transmission {
        self.data(range, Flags::ACK, segment, now)
    }

    #[cold]
    fn send_due(&mut self, due: Due, now: Instant) -> Option<Transmission> {
        match due {
            Due::Syn => None,
            Due::Question => Some(self.bare(self.una - 1, now)),
            Due::Probe => self.send_probe(now),
            Due::Window => self.send_window_probe(now),
        }
    }

    /// Sends new data, or else the last segment again (RFC 8985, §7.3).
    fn send_probe(&mut self, now: Instant) -> Option<Transmission> {
        if self.board.is_empty() || !self.recovery.is_open() {
            return None;
        }
        let segment = self.payload_of_next();
        let length = self.pending().min(self.usable()).min(segment);
        if length > 0 {
            let sent = self.send_range(length, Flags::ACK, segment, now);
            self.recovery.note_probe(self.nxt, false);
            self.arm(now);
            return Some(sent);
        }
        let last = self.board.cut_last(segment)?;
        let range = self.board.get(last)?.range;
        self.board.repeat(last, now);
        self.recovery.note_probe(self.nxt, true);
        let sent = self.data_again(range, segment, now);
        self.arm(now);
        Some(sent)
    }

    /// Sends what the window allows, and a byte if it allows none (RFC 9293, §3.8.6.1).
    fn send_window_probe(&mut self, now: Instant) -> Option<Transmission> {
        let segment = self.payload_of_next();
        let length = self.usable().clamp(1, segment);
        let sent = if self.board.cut(0, length).is_some() {
            self.board.repeat(0, now);
            let range = self.board.get(0)?.range;
            self.forget_longer(range);
            self.data_again(range, segment, now)
        } else {
            let length = length.min(self.pending());
            if length == 0 {
                return None;
            }
            self.send_range(length, Flags::ACK, segment, now)
        };
        self.timer = Some((now + self.round_trip.timeout(), Timer::Window));
        Some(sent)
    }

    /// Sends `length` numbers from the next one on.
    #[inline(always)]
    pub(super) fn send_range(&mut self, length: u32, flags: Flags, segment: u32, now: Instant) -> Transmission {
        let range = Range::new(self.nxt, length);
        self.board.append(range, now);
        self.recovery.note_sent(length);
        let sent = self.data(range, flags, segment, now);
        self.nxt = range.end;
        sent
    }

    /// Sends again what is taken for lost, as far as the peer's window and the congestion window
    /// go, or one segment if nothing is on the way.
    fn send_lost(&mut self, now: Instant) -> Option<Transmission> {
        if self.recovery.timeout_test.is_some_and(|test| test.is_new_awaited()) {
            return None;
        }
        let index = self.board.first_lost()?;
        let record = self.board.get(index)?;
        let on_the_way = self.on_the_way();
        let room = self.congestion.window().saturating_sub(on_the_way);
        let least = record.range.length().min(self.payload());
        let usable = Range { start: record.range.start, end: self.una + self.window }.length();
        if usable == 0 || room < least && on_the_way > 0 {
            return None;
        }
        let segment = self.payload_of_next().min(usable);
        let most = room.min(self.settings.longest_train).min(usable).max(segment);
        // Where records were put together to make a place, another part may be the first.
        self.board.cut(index, most - most % segment)?;
        let index = self.board.first_lost()?;
        let index = self.board.cut(index, most - most % segment)?;
        let range = self.board.get(index).filter(|record| record.fate == Fate::Lost)?.range;
        self.board.repeat(index, now);
        let stamp = self.stamp(now);
        self.recovery.note_repeated(stamp, range.length());
        Some(self.data_again(range, segment, now))
    }

    /// Returns how many numbers wait to be sent for the first time.
    #[inline]
    pub(super) fn pending(&self) -> u32 {
        Range { start: self.nxt, end: self.limit() }.length()
    }

    /// Returns how many more numbers the peer's window takes.
    #[inline]
    pub(super) fn usable(&self) -> u32 {
        Range { start: self.nxt, end: self.una + self.window }.length()
    }

    /// Sends data for the first time.
    #[inline]
    fn send_new(&mut self, now: Instant) -> Option<Transmission> {
        let pending = self.pending();
        if pending == 0 {
            self.is_limited = false;
            return None;
        }
        if self.board.is_empty() && now.since(self.sent_at) > self.round_trip.timeout() {
            self.congestion.idle();
        }
        let usable = self.usable();
        let room = self.congestion.window().saturating_sub(self.on_the_way());
        if self.search.is_under_way()
            && let Some(sent) = self.try_longer(pending.min(usable).min(room), now)
        {
            return Some(sent);
        }
        let segment = self.payload_of_next();
        self.is_limited = room < pending.min(usable);
        let allowed = pending.min(usable).min(room);
        let is_worth = allowed == pending
            || allowed >= segment
            || allowed == usable && allowed > 0 && allowed >= self.largest_window / 2;
        if !is_worth {
            if self.board.is_empty() && self.timer.is_none() {
                // Nothing that comes back would have it looked at again (RFC 9293, §3.8.6.2.1).
                self.timer = Some((now + self.round_trip.timeout(), Timer::Window));
            }
            return None;
        }
        if self.is_train_awaited && allowed >= WORTHWHILE_TRAIN * segment && !self.board.is_empty() {
            self.is_held = true;
            return None;
        }
        // A device that divides a train may repeat CWR in each segment, where one is enough.
        let flags = if self.ecn.is_reduced() { Flags::CWR } else { Flags::default() };
        let most = if self.ecn.is_reduced() { segment } else { self.settings.longest_train.max(segment) };
        let whole = |bytes: u32| bytes - bytes % segment;
        let length = if allowed > most {
            whole(most)
        } else if allowed < pending && allowed > segment {
            whole(allowed)
        } else {
            allowed
        };
        self.ecn.note_told();
        let mut sent = self.send_range(length, flags, segment, now);
        sent.is_ect = self.ecn.is_used() && sent.length > 0;
        Some(sent)
    }

    /// Returns how many bytes of payload the next segment has at most.
    #[inline]
    pub(super) fn payload_of_next(&self) -> u32 {
        let blocks = if self.has_sack { self.incoming.news(if self.has_stamps { 3 } else { 4 }) } else { 0 };
        let blocks = if blocks > 0 { 4 + 8 * blocks } else { 0 };
        self.segment.saturating_sub(self.fixed_options() + blocks).max(1)
    }
}
