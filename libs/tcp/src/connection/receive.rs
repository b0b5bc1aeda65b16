//! What a segment does (RFC 9293, §3.10.7.3 and §3.10.7.4, with RFC 5961 and RFC 7323).

use super::timers::{Acknowledgement, DELAY, Due};
use super::{Connection, Ending, State, reset_for};
use crate::header::{Flags, Header};
use crate::incoming::Placement;
use crate::sequence::Range;
use crate::time::{Instant, Span};

/// How long a timestamp counts: it may have wrapped after that (RFC 7323, §5.5).
const STAMP_LIFE: u64 = 24 * 24 * 3_600 * 1_000_000;

/// Acknowledgements a second of segments that are not acceptable and carry nothing (RFC 5961, §7):
/// two sides that disagree must not keep telling each other so.
const CHALLENGES: u8 = 10;

/// The second in which acknowledgements of what is not acceptable were sent, and how many.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Challenges {
    second: u32,
    count: u8,
}

impl Challenges {
    /// Returns whether one more may be sent at `now`, and counts it then.
    pub(super) fn allow(&mut self, now: Instant) -> bool {
        let second = (now.0 / 1_000_000) as u32;
        if self.second != second {
            *self = Self { second, count: 0 };
        }
        let is_allowed = self.count < CHALLENGES;
        self.count += u8::from(is_allowed);
        is_allowed
    }
}

impl Connection<'_> {
    /// Takes a segment of this connection with `length` bytes of payload, which came at `now`, its
    /// packet with a mark of congestion if `is_marked` (CE, RFC 3168, §5). Tokens of what it
    /// acknowledges go to `release`. Returns what is to be done with the payload; nothing if
    /// `None`.
    #[inline]
    pub fn receive(
        &mut self,
        header: &Header,
        length: u32,
        is_marked: bool,
        now: Instant,
        mut release: impl FnMut(u64),
    ) -> Option<Placement> {
        if !is_marked && self.is_expected(header, length) {
            self.note_stamp(header, now);
            if !self.is_data_alone(header, length, now) {
                self.take_acknowledgement(header, length, now, &mut release);
            }
            return self.take_payload(header, length, now);
        }
        match self.state {
            State::Closed => {
                self.reset = reset_for(header, length);
                None
            }
            State::SynSent => {
                self.receive_in_syn_sent(header, now, release);
                None
            }
            _ => self.receive_any(header, length, is_marked, now, release),
        }
    }

    /// Returns whether a segment is what nearly all of an established connection are: the next in
    /// order, with nothing about it that needs a rule of its own (header prediction).
    #[inline]
    fn is_expected(&self, header: &Header, length: u32) -> bool {
        self.state == State::Established
            && header.flags.without(Flags::PSH) == Flags::ACK
            && header.sequence == self.incoming.next
            && length <= self.free()
            && !header.acknowledgement.is_before(self.una)
            && !header.acknowledgement.is_after(self.nxt)
            && self.is_stamp_in_order(header)
    }

    /// Returns whether a segment that is expected brings data and tells nothing new of what this
    /// side sends, as all of a download's do. Takes note of it then.
    #[inline]
    fn is_data_alone(&mut self, header: &Header, length: u32, now: Instant) -> bool {
        let is_alone = length > 0
            && header.acknowledgement == self.una
            && self.window > 0
            && u32::from(header.window) << self.send_scale == self.window
            && header.options.sack.is_empty();
        if is_alone {
            self.window_from = (header.sequence, header.acknowledgement);
            (self.heard_at, self.questions) = (now, 0);
        }
        is_alone
    }

    #[inline]
    fn is_stamp_in_order(&self, header: &Header) -> bool {
        match header.options.timestamps {
            Some(stamps) => !self.has_stamps || stamps.value.wrapping_sub(self.recent_stamp) as i32 >= 0,
            None => !self.has_stamps,
        }
    }

    /// Remembers the timestamp to be echoed: that of the segment at the left edge of what is not
    /// acknowledged (RFC 7323, §4.3).
    #[inline]
    fn note_stamp(&mut self, header: &Header, now: Instant) {
        if let Some(stamps) = header.options.timestamps
            && self.has_stamps
            && !header.sequence.is_after(self.acknowledged)
        {
            (self.recent_stamp, self.recent_at) = (stamps.value, now);
        }
    }

    #[cold]
    fn receive_in_syn_sent(&mut self, header: &Header, now: Instant, release: impl FnMut(u64)) {
        let has_ack = header.flags.has(Flags::ACK);
        if has_ack && header.acknowledgement != self.nxt {
            self.reset = reset_for(header, 0);
            return;
        }
        if header.flags.has(Flags::RST) {
            if has_ack {
                self.end(Ending::Refused, release);
            }
            return;
        }
        if !header.flags.has(Flags::SYN) {
            return;
        }
        self.take_syn(header, now);
        if has_ack {
            self.ecn.take_answer(self.settings.ecn, self.timeouts, header.flags);
            self.establish(header, now);
            self.acknowledgement = Acknowledgement::Now;
        } else {
            // Both sides open at once (§3.5, figure 8).
            self.state = State::SynReceived;
            self.due = Some(Due::Syn);
        }
    }

    /// Notes that the SYN is acknowledged.
    pub(super) fn establish(&mut self, header: &Header, now: Instant) {
        self.round_trip.end_back_off();
        if self.timeouts == 0 && !self.is_syn_repeated {
            self.round_trip.measure(now.since(self.sent_at), now, 1);
        } else if self.timeouts > 0 {
            self.round_trip.distrust();
        }
        if self.timeouts > 1 {
            // RFC 6928, §2: a SYN that was lost more than once is word of a bad path.
            self.congestion.collapse();
        }
        self.una = self.settings.initial + 1;
        self.recovery.begin(self.una);
        (self.timeouts, self.timer, self.due, self.heard_at) = (0, None, None, now);
        self.window_from = (header.sequence, header.acknowledgement);
        self.begin_buffer(now);
        self.state = if self.is_closing { State::FinWait1 } else { State::Established };
    }

    /// Takes a segment in any state but CLOSED and SYN-SENT, in the order of §3.10.7.4.
    #[inline(never)]
    fn receive_any(
        &mut self,
        header: &Header,
        length: u32,
        is_marked: bool,
        now: Instant,
        mut release: impl FnMut(u64),
    ) -> Option<Placement> {
        // The other side of a simultaneous opening repeats its SYN with an ACK; a peer that got no
        // answer to its SYN repeats that.
        if self.state == State::SynReceived && header.flags.has(Flags::SYN) && header.sequence + 1 == self.incoming.next
        {
            if !header.flags.has(Flags::ACK) {
                self.ecn.note_syn(header.flags);
                self.is_syn_repeated = true;
                self.due = Some(Due::Syn);
                return None;
            }
            self.acknowledgement = Acknowledgement::Now;
            let header = Header {
                flags: header.flags.without(Flags::SYN),
                sequence: header.sequence + 1,
                // It is not scaled (RFC 7323, §2.2), and one that is open stays so.
                window: (header.window >> self.send_scale).max(header.window.min(1)),
                ..*header
            };
            return self.receive_any(&header, length, is_marked, now, release);
        }
        let is_reset = header.flags.has(Flags::RST);
        if self.has_stamps && !is_reset && !self.is_stamp_in_order(header) {
            // PAWS (RFC 7323, §5.3); without a timestamp it is dropped in silence (§3.2).
            header.options.timestamps?;
            if now.0.saturating_sub(self.recent_at.0) < STAMP_LIFE {
                self.acknowledge_again(length > 0, now);
                return None;
            }
        }
        if !self.is_acceptable(header, length) {
            if !is_reset {
                if self.is_window_closed_to(header) {
                    self.take_acknowledgement(header, length, now, &mut release);
                    self.note_fin_acknowledged(now, &mut release);
                }
                if self.state == State::TimeWait && header.flags.has(Flags::FIN) {
                    self.enter_time_wait(now);
                }
                if self.can_receive() {
                    // Data that is acknowledged already (RFC 2883, §4.1).
                    self.incoming.note_duplicate(Range::new(header.sequence, length));
                }
                self.acknowledge_again(length > 0 || header.flags.has(Flags::FIN), now);
            }
            return None;
        }
        if is_reset {
            if self.state == State::TimeWait {
                // It answers something old, and must not end the wait (RFC 1337, §3, F1).
                return None;
            }
            // Only the exact number resets (RFC 5961, §3.2).
            if header.sequence == self.incoming.next {
                let is_opening = self.state == State::SynReceived;
                self.end(if is_opening { Ending::Refused } else { Ending::Reset }, release);
            } else {
                self.acknowledge_again(false, now);
            }
            return None;
        }
        if header.flags.has(Flags::SYN) {
            // RFC 5961, §4.2.
            self.acknowledge_again(false, now);
            return None;
        }
        if !header.flags.has(Flags::ACK) {
            return None;
        }
        if self.state == State::SynReceived {
            if header.acknowledgement != self.nxt {
                self.reset = reset_for(header, length);
                return None;
            }
            self.establish(header, now);
            self.update_window(header, now);
        }
        // An acknowledgement of what was never sent, or long ago, is not from the peer (RFC 5961,
        // §5.2).
        let behind = self.una.since(header.acknowledgement);
        if header.acknowledgement.is_after(self.nxt) || behind > 0 && behind as u32 > self.largest_window {
            self.acknowledge_again(false, now);
            return None;
        }
        self.note_stamp(header, now);
        if behind <= 0 {
            self.take_ecn(header);
            self.take_acknowledgement(header, length, now, &mut release);
            self.note_fin_acknowledged(now, release);
        }
        if is_marked && length > 0 {
            // After a CWR beside it, which answers earlier ones (RFC 3168, §6.1.3).
            self.ecn.note_mark();
        }
        let placement = self.take_payload(header, length, now);
        self.take_fin(header, length, now);
        placement
    }

    /// Returns whether any of a segment lies in the window (§3.10.7.4, first).
    ///
    /// One that occupies no number may also stand right behind the window, where the rule's own
    /// words exclude it: a peer that has filled the window, while its first segment is lost, has no
    /// other number for its acknowledgements. Two sides in that state would never hear each other.
    fn is_acceptable(&self, header: &Header, length: u32) -> bool {
        let occupied = length + u32::from(header.flags.has(Flags::SYN)) + u32::from(header.flags.has(Flags::FIN));
        let window = Range { start: self.incoming.next, end: self.announced }.length();
        if occupied == 0 {
            return header.sequence.is_in(self.incoming.next, window + 1);
        }
        let last = header.sequence + (occupied - 1);
        window > 0
            && (header.sequence.is_in(self.incoming.next, window)
                || last.is_in(self.incoming.next, window)
                // It begins before the window and ends behind it.
                || header.sequence.is_before(self.incoming.next) && last.is_after(self.incoming.next))
    }

    /// Returns whether a segment is not acceptable only because the window is closed: what it
    /// acknowledges counts (§3.10.7.4, first). After a probe of the window the peer's numbers are
    /// one ahead.
    fn is_window_closed_to(&self, header: &Header) -> bool {
        let is_acknowledgement = !header.flags.has(Flags::SYN) && header.flags.has(Flags::ACK);
        is_acknowledgement
            && self.state != State::SynReceived
            && self.announced == self.incoming.next
            && header.sequence.is_in(self.incoming.next, 2)
            && !header.acknowledgement.is_before(self.una)
            && !header.acknowledgement.is_after(self.nxt)
    }

    /// Acknowledges a segment that is not acceptable. One with data tells of a lost acknowledgement
    /// and is always answered; others a few times a second.
    pub(super) fn acknowledge_again(&mut self, has_data: bool, now: Instant) {
        if has_data || self.challenges.allow(now) {
            self.acknowledgement = Acknowledgement::Now;
        }
    }

    /// Takes the payload, if this side still expects any.
    #[inline(always)]
    fn take_payload(&mut self, header: &Header, length: u32, now: Instant) -> Option<Placement> {
        if length == 0 || !self.can_receive() {
            return None;
        }
        let mut payload = Range::new(header.sequence, length);
        if let Some(fin) = self.fin {
            payload.end = payload.end.min(fin);
        }
        let had_holes = self.incoming.has_holes();
        let placement = self.incoming.accept(payload, self.free());
        let ready = placement.map_or(0, |placement| placement.ready);
        self.unread += ready;
        self.grow_buffer(header, now);
        self.received_segment = self.received_segment.max(length.min(self.settings.segment.into()));
        // At once if it is out of order, fills a hole, is not taken whole, or is the second full
        // segment (RFC 5681, §4.2); soon if not.
        let waiting = self.incoming.next.since(self.acknowledged);
        if had_holes || ready < length || waiting >= 2 * self.received_segment as i32 {
            self.acknowledgement = Acknowledgement::Now;
        } else if self.acknowledgement == Acknowledgement::None {
            self.acknowledgement = Acknowledgement::At(now + DELAY);
        }
        if let Some(fin) = self.fin
            && self.incoming.next == fin
        {
            self.peer_has_closed(now);
        }
        placement
    }

    /// Takes a FIN, and keeps it in mind if data before it is missing.
    fn take_fin(&mut self, header: &Header, length: u32, now: Instant) {
        if !header.flags.has(Flags::FIN) || self.fin.is_some() || !self.can_receive() {
            return;
        }
        let fin = header.sequence + length;
        // A FIN behind the window, or before what has arrived, is not believed: with the latter,
        // the numbers in order would step over it, and it would be waited for without end.
        if fin.is_before(self.incoming.furthest()) || fin.is_after(self.incoming.next + self.free()) {
            return;
        }
        self.fin = Some(fin);
        self.acknowledgement = Acknowledgement::Now;
        if fin == self.incoming.next {
            self.peer_has_closed(now);
        }
    }

    fn peer_has_closed(&mut self, now: Instant) {
        self.incoming.next += 1;
        self.announced = self.announced.max(self.incoming.next);
        self.acknowledgement = Acknowledgement::Now;
        match self.state {
            State::Established => self.state = State::CloseWait,
            State::FinWait1 => self.state = State::Closing,
            State::FinWait2 => self.enter_time_wait(now),
            _ => {}
        }
    }

    /// Goes on to the next state if the peer has acknowledged this side's FIN.
    fn note_fin_acknowledged(&mut self, now: Instant, release: impl FnMut(u64)) {
        if !self.is_fin_sent || self.una != self.nxt {
            return;
        }
        match self.state {
            State::FinWait1 => self.state = State::FinWait2,
            State::Closing => self.enter_time_wait(now),
            State::LastAck => self.end(Ending::Closed, release),
            _ => {}
        }
    }

    fn enter_time_wait(&mut self, now: Instant) {
        self.state = State::TimeWait;
        let length = self.settings.time_wait.max(Span(1));
        self.timer = Some((now + length, super::timers::Timer::TimeWait));
    }
}
