//! What the path carries: by routers' word (RFC 1191, RFC 8201), and where there is none, by what
//! gets through (RFC 4821, §7.7; RFC 8899, §4.3).
//!
//! Ten minutes after segments got shorter a longer one is sent, of new data, with others behind it
//! by which its loss is found. If it arrives, segments are as long from then on; if it alone is
//! lost, that is no word of congestion, and its bytes go again in shorter ones (RFC 4821, §7.6).

use super::recovery::Phase;
use super::transmit::Transmission;
use super::{Connection, STAMPS_LENGTH, State};
use crate::header::Flags;
use crate::scoreboard::Fate;
use crate::sequence::{Range, Sequence};
use crate::time::{Instant, Span};

/// The least that a router is believed to carry, in bytes of payload and options: that of a packet
/// of 552 bytes. A stranger who guesses a number could otherwise have this side send in crumbs.
const LEAST_BELIEVED: u16 = 512;

/// What is tried in turn on a path that swallows what is too big without a word: what any IPv6 link
/// carries, and any IPv4 host.
const TRIED: [u32; 2] = [1220, 536];

/// Bytes of options that a segment has at most (RFC 9293, §3.1).
const MOST_OPTIONS: u32 = 40;

/// How many timeouts in a row show that a path swallows segments.
const TIMEOUTS: u8 = 2;

/// How long segments stay short before longer ones are tried (RFC 8201, §4; RFC 8899, §5.1.1:
/// PMTU_RAISE_TIMER).
const RAISE_AFTER: Span = Span::from_seconds(600);

/// Segments that follow a longer one, so that its loss is found without a timeout (RFC 4821, §7.4).
const FOLLOWING: u32 = 3;

/// The search for longer segments.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Search {
    /// What both ends take in a segment: 0 if segments never got shorter than that.
    widest: u32,
    /// The shortest that did not get through since the search began.
    failed: u32,
    /// When the next segment is tried.
    at: Instant,
    /// The numbers of the one that is on the way, and the bytes of its payload and options.
    tried: Option<(Range, u32)>,
}

impl Search {
    /// Returns whether segments are shorter than both ends take.
    #[inline]
    pub fn is_under_way(&self) -> bool {
        self.widest > 0
    }
}

impl Connection<'_> {
    /// Takes a router's word that a packet was too big: `sequence` is in the quoted header, and
    /// `segment` how many bytes of payload and options fit. Returns whether it is believed: only
    /// if that number is on the way (RFC 5927, §4.1), and less is to be sent than before. What is
    /// on the way is sent again then; the congestion window stays (RFC 1191, §6.4).
    ///
    /// Less than 512 bytes are taken for 512: whoever makes packets must let routers divide those.
    pub fn too_big(&mut self, sequence: Sequence, segment: u16, now: Instant) -> bool {
        let outstanding = self.nxt.since(self.una).max(0) as u32;
        let segment = u32::from(segment.max(LEAST_BELIEVED));
        let is_opening = matches!(self.state, State::SynSent | State::SynReceived);
        if is_opening || !sequence.is_in(self.una, outstanding) || segment >= self.segment {
            return false;
        }
        self.shorten(segment, now);
        self.lose_without_blame();
        self.arm(now);
        true
    }

    /// A timeout has passed: tries shorter segments if it was one of several, and the first one on
    /// the way is longer.
    pub(super) fn narrow(&mut self, now: Instant) {
        let first = self.board.get(0).map_or(0, |first| first.range.length());
        // How many blocks it told of is not remembered.
        let longest = self.segment.min(first + MOST_OPTIONS);
        if self.timeouts >= TIMEOUTS
            && let Some(shorter) = TRIED.into_iter().find(|tried| *tried < longest)
        {
            self.shorten(shorter, now);
        }
    }

    fn shorten(&mut self, segment: u32, now: Instant) {
        let widest = self.search.widest.max(self.segment);
        self.search = Search { widest, failed: u32::MAX, at: now + RAISE_AFTER, tried: None };
        self.set_segment(segment);
    }

    /// Returns the next length to be tried: what both ends take, or else what any IPv6 link
    /// carries.
    fn longer(&self) -> Option<u32> {
        let search = &self.search;
        [search.widest, TRIED[0]].into_iter().find(|length| *length > self.segment && *length < search.failed)
    }

    /// Returns a longer segment of new data, of which `allowed` bytes may be sent, if it is time to
    /// try one. Where the one tried before has arrived, segments are as long from now on.
    #[cold]
    pub(super) fn try_longer(&mut self, allowed: u32, now: Instant) -> Option<Transmission> {
        if let Some((range, length)) = self.search.tried {
            if self.una.is_before(range.end) {
                return None;
            }
            self.search.tried = None;
            self.set_segment(length);
            if self.longer().is_none() {
                self.search = Search { at: now + RAISE_AFTER, failed: u32::MAX, ..self.search };
            }
            if length >= self.search.widest {
                self.search = Search::default();
            }
        }
        if now < self.search.at || !self.has_sack || !self.recovery.is_calm() || self.ecn.is_reduced() {
            return None;
        }
        let length = self.longer()?;
        let segment = self.payload_of_next();
        let payload = segment + (length - self.segment);
        if allowed < payload + FOLLOWING * segment {
            return None;
        }
        let mut sent = self.send_range(payload, Flags::default(), payload, now);
        sent.is_ect = self.ecn.is_used();
        self.search.tried = Some((Range { start: self.nxt - payload, end: self.nxt }, length));
        Some(sent)
    }

    /// Notes that something is taken for lost, in whatever phase, before it is sent again. Returns
    /// whether that is nothing but the longer segment that was tried: its loss is none of the
    /// path's congestion, and begins a repair that leaves the window as it is.
    pub(super) fn excuse_longer(&mut self, now: Instant) -> bool {
        let Some((range, length)) = self.search.tried else { return false };
        let overlap = |one: Range| Range { start: one.start.max(range.start), end: one.end.min(range.end) }.length();
        let records = (0..self.board.count()).filter_map(|index| self.board.get(index));
        let lost = records.filter(|record| record.fate == Fate::Lost).map(|record| overlap(record.range)).sum::<u32>();
        if lost == 0 {
            return false;
        }
        (self.search.tried, self.search.failed) = (None, length);
        if self.longer().is_none() {
            (self.search.failed, self.search.at) = (u32::MAX, now + RAISE_AFTER);
        }
        let is_alone = lost == self.board.lost();
        if is_alone && self.recovery.is_open() {
            self.recovery.phase = Phase::Loss(range.end);
        }
        is_alone
    }

    /// Notes that these numbers go again. If they were of the longer segment that was tried, what
    /// acknowledges them does not say that it has arrived.
    pub(super) fn forget_longer(&mut self, range: Range) {
        self.search.tried.take_if(|(tried, _)| range.start.is_before(tried.end) && tried.start.is_before(range.end));
    }

    fn set_segment(&mut self, segment: u32) {
        self.segment = segment;
        self.congestion.set_segment(segment - self.fixed_options());
    }

    /// Returns how many bytes of payload go in a segment without options of its own.
    pub(super) fn payload(&self) -> u32 {
        self.segment.saturating_sub(self.fixed_options()).max(1)
    }

    /// Returns how many bytes of options each segment has.
    pub(super) fn fixed_options(&self) -> u32 {
        if self.has_stamps { STAMPS_LENGTH } else { 0 }
    }
}
