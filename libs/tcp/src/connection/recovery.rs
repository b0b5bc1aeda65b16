//! Finding losses and repairing them: RACK-TLP (RFC 8985) where the peer reports by SACK, else
//! three duplicates and NewReno (RFC 5681, RFC 6582); proportional rate reduction (RFC 6937); and
//! taking back what was done for a loss that was none, by timestamps (Eifel, RFC 3522 and 4015) or
//! by new data (`spurious_timeout`).

use super::Connection;
use super::reordering::Reordering;
use super::spurious_timeout::TimeoutTest;
use super::timers::Timer;
use crate::congestion::{Congestion, ReductionRate};
use crate::header::Header;
use crate::scoreboard::{Fate, Sent};
use crate::sequence::Sequence;
use crate::time::{Instant, Span};

/// Duplicates that tell of a loss (RFC 5681, §3.2).
const DUPLICATES: u32 = 3;

/// What a peer may add to the round trip by delaying an acknowledgement (RFC 8985, §7.2).
const LONGEST_DELAY: Span = Span::from_milliseconds(200);

/// How long an acknowledgement is waited for at least before a probe. Where a round trip is short,
/// a driver in the path that begins anew takes many of them, and has lost nothing.
const SHORTEST_PATIENCE: Span = Span::from_milliseconds(30);

/// What an acknowledgement has told.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct News {
    /// Bytes that are acknowledged and were not.
    pub bytes: u32,
    /// Bytes that are known to have arrived and were not.
    pub delivered: u32,
    /// Bytes that were not acknowledged before.
    pub outstanding: u32,
    /// Bytes of payload that came with it.
    pub length: u32,
    pub has_window_changed: bool,
    /// Whether it reports that something arrived twice that was sent again.
    pub is_duplicate: bool,
    /// When the earliest was sent of what has arrived, of that sent once; and whether something
    /// has that was sent again.
    pub first_sent_at: Option<Instant>,
    pub has_repeated: bool,
    /// When the earliest was sent of what has arrived after something behind it, of that sent once.
    pub late_sent_at: Option<Instant>,
    /// The latest sent of what has arrived.
    pub latest: Option<Sent>,
}

/// How losses are dealt with at present.
#[derive(Clone, Copy, Debug, Default)]
pub(super) enum Phase {
    /// Nothing is lost.
    #[default]
    Open,
    /// Something is, and repaired while the window comes down, until this is acknowledged.
    Recovery(Sequence, ReductionRate),
    /// A timeout has passed; the window grows from one segment, until this is acknowledged.
    Loss(Sequence),
}

/// A probe of the tail (RFC 8985, §7): the number behind all that was sent, and whether the probe
/// sent something again.
#[derive(Clone, Copy, Debug)]
struct Probe {
    end: Sequence,
    is_repeated: bool,
}

/// What is known of losses.
#[derive(Debug, Default)]
pub(super) struct Recovery {
    pub phase: Phase,
    /// The latest sent of all that has arrived: when, its end, and how long it took (RACK).
    latest: Option<(Instant, Sequence, Span)>,
    /// The end of the furthest that has arrived.
    furthest: Sequence,
    reordering: Reordering,
    probe: Option<Probe>,
    /// Bytes that were sent again since the window was last lowered, without those that the peer
    /// has reported to have arrived twice.
    unreported: u32,
    /// Duplicates of a peer without SACK.
    duplicates: u32,
    /// The congestion state before the loss, and the timestamp of the first repetition.
    undo: Option<(Congestion, Option<u32>)>,
    /// The test whether a timeout was spurious.
    pub timeout_test: Option<TimeoutTest>,
}

impl Recovery {
    /// Notes the first number of data.
    pub fn begin(&mut self, first: Sequence) {
        self.furthest = first;
    }

    /// Notes a part that has arrived (RFC 8985, §6.2, steps 2 and 3).
    #[inline]
    pub fn note_delivered(&mut self, sent: &Sent, news: &mut News) {
        news.delivered += sent.range.length();
        news.has_repeated |= sent.is_repeated;
        if !sent.is_repeated {
            news.first_sent_at = Some(news.first_sent_at.map_or(sent.at, |at| at.min(sent.at)));
            if sent.range.end.is_before(self.furthest) {
                news.late_sent_at = Some(news.late_sent_at.map_or(sent.at, |at| at.min(sent.at)));
            }
        }
        self.furthest = self.furthest.max(sent.range.end);
        if news.latest.is_none_or(|latest| sent.is_after(latest.at, latest.range.end)) {
            news.latest = Some(*sent);
        }
    }

    /// Notes that all has arrived that was on the way: `sent`, after `trip`.
    #[inline]
    pub fn note_whole(&mut self, sent: &Sent, trip: Span) {
        self.duplicates = 0;
        self.furthest = self.furthest.max(sent.range.end);
        if self.latest.is_none_or(|(at, end, _)| sent.is_after(at, end)) {
            self.latest = Some((sent.at, sent.range.end, trip));
        }
    }

    /// Notes that something was sent again, with its timestamp.
    pub fn note_repeated(&mut self, stamp: u32, bytes: u32) {
        if let Some((_, first @ None)) = &mut self.undo {
            *first = Some(stamp);
        }
        self.unreported = self.unreported.saturating_add(bytes);
        self.note_sent(bytes);
    }

    /// Takes a report that `bytes` arrived twice, and returns whether it counts: whether so many
    /// were sent again lately. The path may double what was sent once, and anybody may say so; that
    /// tells nothing of reordering (RFC 2883, §5).
    pub fn take_report(&mut self, bytes: u32) -> bool {
        if self.probe.is_some_and(|probe| probe.is_repeated) {
            return true;
        }
        let rest = self.unreported.checked_sub(bytes);
        self.unreported = rest.unwrap_or(self.unreported);
        rest.is_some()
    }

    /// Notes that something was sent.
    #[inline]
    pub fn note_sent(&mut self, bytes: u32) {
        if let Phase::Recovery(_, rate) = &mut self.phase {
            rate.sent(bytes);
        }
    }

    #[inline]
    pub fn is_open(&self) -> bool {
        matches!(self.phase, Phase::Open)
    }

    /// Returns whether nothing is taken for lost, or was sent to find out.
    #[inline]
    pub fn is_calm(&self) -> bool {
        self.is_open() && self.probe.is_none()
    }

    pub fn note_probe(&mut self, end: Sequence, is_repeated: bool) {
        self.probe = Some(Probe { end, is_repeated });
    }

    pub fn has_probe(&self) -> bool {
        self.probe.is_some()
    }
}

impl Connection<'_> {
    /// Returns how many bytes are on the way, as far as is known (pipe, RFC 6675, §4).
    #[inline]
    pub(super) fn on_the_way(&self) -> u32 {
        let arrived = self.recovery.duplicates.saturating_mul(self.payload());
        self.board.on_the_way().saturating_sub(arrived)
    }

    /// Deals with what an acknowledgement has told of losses.
    #[inline]
    pub(super) fn recover(&mut self, header: &Header, news: &News, now: Instant) {
        self.note_latest(header, news, now);
        if self.recovery.is_open()
            && news.delivered == news.bytes
            && self.board.arrived() == 0
            && news.bytes > 0
            && !self.recovery.has_probe()
        {
            // Nothing is lost: nearly every acknowledgement.
            self.recovery.duplicates = 0;
            self.grow(news.bytes, now);
            return;
        }
        self.recover_from_loss(header, news, now);
    }

    #[cold]
    fn recover_from_loss(&mut self, header: &Header, news: &News, now: Instant) {
        self.recovery.reordering.note_acknowledged(self.una);
        if news.is_duplicate {
            self.recovery.reordering.note_duplicate(self.nxt);
        }
        self.end_probe(header, news);
        self.undo_if_spurious(header, news, now);
        if self.recovery.timeout_test.is_some() && self.test_timeout(header, news) {
            return;
        }
        let mut delivered = news.delivered;
        if self.has_sack {
            self.detect(now);
        } else {
            delivered = self.count_duplicates(header, news);
        }
        if self.board.lost() > 0 && !self.excuse_longer(now) && self.recovery.is_open() {
            self.begin_recovery(news.outstanding);
        }
        match self.recovery.phase {
            Phase::Open => {
                if news.bytes > 0 {
                    self.grow(news.bytes, now);
                }
            }
            Phase::Recovery(until, mut rate) => {
                if !self.una.is_before(until) {
                    self.congestion.set_window(self.congestion.threshold());
                    self.end_recovery();
                    return;
                }
                let on_the_way = self.on_the_way();
                let threshold = self.congestion.threshold();
                let window = rate.acknowledged(delivered, on_the_way, threshold, self.segment);
                self.recovery.phase = Phase::Recovery(until, rate);
                // What a partial acknowledgement shows to be lost goes at once (RFC 6582, §3.2).
                let is_partial = !self.has_sack && news.bytes > 0;
                let least = if is_partial { on_the_way + self.segment } else { 0 };
                self.congestion.set_window(window.max(least));
            }
            Phase::Loss(until) => {
                if news.bytes > 0 {
                    self.is_limited = true;
                    self.grow(news.bytes, now);
                }
                if !self.una.is_before(until) {
                    self.end_recovery();
                }
            }
        }
    }

    /// Grows the congestion window, if that is what held data back.
    #[inline]
    pub(super) fn grow(&mut self, bytes: u32, now: Instant) {
        if self.is_limited {
            let round_trip = self.round_trip.smoothed().unwrap_or_default();
            self.congestion.acknowledged(bytes, now, round_trip);
        }
    }

    /// Takes the latest sent that has arrived, unless what arrived may be what was sent before
    /// (RFC 8985, §6.2, step 2).
    #[inline]
    fn note_latest(&mut self, header: &Header, news: &News, now: Instant) {
        let Some(sent) = news.latest else { return };
        let time = now.since(sent.at);
        if sent.is_repeated {
            let echo = header.options.timestamps.map(|stamps| stamps.echo);
            let is_before = |echo: u32| (echo.wrapping_sub(self.stamp(sent.at)) as i32) < 0;
            let is_of_the_first = self.has_stamps && echo.is_some_and(is_before);
            if is_of_the_first || self.round_trip.least().is_some_and(|least| time < least) {
                return;
            }
        }
        if self.recovery.latest.is_none_or(|(at, end, _)| sent.is_after(at, end)) {
            self.recovery.latest = Some((sent.at, sent.range.end, time));
        }
        if let Some(sent_at) = news.late_sent_at {
            self.note_late(sent_at, now);
        }
    }

    /// Notes that what was sent at `sent_at` has arrived `now`, after something sent later.
    #[cold]
    fn note_late(&mut self, sent_at: Instant, now: Instant) {
        let Some((at, _, time)) = self.recovery.latest else { return };
        self.recovery.reordering.note_late(sent_at, (at, time), now);
    }

    /// Ends a probe of the tail, and reduces the window if it has repaired a loss (RFC 8985, §7.4).
    fn end_probe(&mut self, header: &Header, news: &News) {
        let Some(probe) = self.recovery.probe else { return };
        if header.acknowledgement.is_before(probe.end) {
            return;
        }
        let is_duplicate = news.is_duplicate || self.is_duplicate(header, news);
        if !probe.is_repeated || is_duplicate {
            self.recovery.probe = None;
        } else if header.acknowledgement.is_after(probe.end) {
            self.recovery.probe = None;
            if self.recovery.is_open() {
                self.congestion.lost(news.outstanding);
                self.congestion.set_window(self.congestion.threshold());
            }
        }
    }

    /// Takes back what a loss has done to the window, if the first acknowledgement of more echoes
    /// the time of what was sent first (RFC 3522, §3.2; RFC 4015, §3).
    fn undo_if_spurious(&mut self, header: &Header, news: &News, now: Instant) {
        if news.bytes == 0 {
            return;
        }
        let Some((before, Some(stamp))) = self.recovery.undo else { return };
        self.recovery.undo = None;
        let echo = header.options.timestamps.map(|stamps| stamps.echo);
        let Some(echo) = echo.filter(|echo| self.has_stamps && (echo.wrapping_sub(stamp) as i32) < 0) else { return };
        if !self.recovery.is_open() {
            self.congestion = before;
            self.board.set_all(Fate::Lost, Fate::OnTheWay);
            self.end_recovery();
            // A millisecond more, since the peer echoes whole ones.
            let passed = Span::from_milliseconds(self.stamp(now).wrapping_sub(echo).saturating_add(1));
            self.note_late(Instant(now.0.saturating_sub(passed.0.into())), now);
        }
    }

    /// Counts duplicates of a peer without SACK, and takes the first segment for lost at the third,
    /// and at each acknowledgement of a part in a recovery (RFC 6582, §3.2). Returns how many bytes
    /// have arrived, those that duplicates had told of not among them.
    fn count_duplicates(&mut self, header: &Header, news: &News) -> u32 {
        if news.bytes > 0 {
            let segments = news.bytes.div_ceil(self.payload());
            let told = self.recovery.duplicates.min(segments - 1);
            self.recovery.duplicates -= told;
            if let Phase::Recovery(until, _) = self.recovery.phase
                && self.una.is_before(until)
            {
                self.lose_first();
            }
            if self.recovery.is_open() {
                self.recovery.duplicates = 0;
            }
            return news.delivered.saturating_sub(told * self.payload());
        }
        // After a timeout they tell of what was sent before it, until something is acknowledged
        // (RFC 6582, §3.2).
        if self.timeouts > 0 || !self.is_duplicate(header, news) {
            return 0;
        }
        let most = news.outstanding / self.payload();
        self.recovery.duplicates = (self.recovery.duplicates + 1).min(most);
        if self.recovery.duplicates == DUPLICATES && self.recovery.is_open() {
            self.lose_first();
        }
        self.payload()
    }

    fn lose_first(&mut self) {
        let Some(first) = self.board.get(0) else { return };
        if first.fate == Fate::OnTheWay {
            self.board.cut(0, self.payload());
            self.board.set_fate(0, Fate::Lost);
        }
    }

    fn begin_recovery(&mut self, outstanding: u32) {
        self.recovery.undo = Some((self.congestion, None));
        self.recovery.unreported = 0;
        self.congestion.lost(outstanding);
        self.recovery.phase = Phase::Recovery(self.nxt, ReductionRate::new(outstanding));
    }

    pub(super) fn end_recovery(&mut self) {
        let recovery = &mut self.recovery;
        recovery.phase = Phase::Open;
        (recovery.duplicates, recovery.undo, recovery.timeout_test) = (0, None, None);
        recovery.reordering.end_recovery();
    }

    /// Returns by how much something may come late without being lost (RFC 8985, §6.2, step 4).
    fn reordering_window(&self) -> Span {
        let is_told = self.board.arrived() >= DUPLICATES * self.payload();
        let reordering = &self.recovery.reordering;
        if !reordering.is_seen() && (!self.recovery.is_open() || is_told) {
            return Span(0);
        }
        let trip = &self.round_trip;
        reordering.window(trip.least().unwrap_or_default(), trip.smoothed().unwrap_or_default())
    }

    /// Takes what was sent long enough before the latest that has arrived for lost (RFC 8985, §6.2,
    /// step 5).
    pub(super) fn detect(&mut self, now: Instant) {
        let Some((at, end, time)) = self.recovery.latest else { return };
        let patience = time + self.reordering_window();
        for index in 0..self.board.count() {
            if let Some(sent) = self.board.get(index)
                && sent.fate == Fate::OnTheWay
                && !sent.is_after(at, end)
                && now >= sent.at + patience
            {
                self.board.set_fate(index, Fate::Lost);
            }
        }
    }

    /// Returns when the first of what was sent before the latest that has arrived is to be taken
    /// for lost.
    pub(super) fn reordering_deadline(&self) -> Option<Instant> {
        if !self.has_sack || self.board.arrived() == 0 && self.recovery.is_open() {
            return None;
        }
        let (at, end, time) = self.recovery.latest?;
        let patience = time + self.reordering_window();
        let sent = (0..self.board.count()).filter_map(|index| self.board.get(index));
        let early = sent.filter(|sent| sent.fate == Fate::OnTheWay && !sent.is_after(at, end));
        early.map(|sent| sent.at + patience).min()
    }

    /// The time of reordering has passed: what has not arrived is lost.
    pub(super) fn reordering_passed(&mut self, now: Instant) {
        let outstanding = self.nxt.since(self.una).max(0) as u32;
        self.detect(now);
        if self.board.lost() > 0 && !self.excuse_longer(now) && self.recovery.is_open() {
            self.begin_recovery(outstanding);
            if let Phase::Recovery(until, mut rate) = self.recovery.phase {
                let window = rate.acknowledged(0, self.on_the_way(), self.congestion.threshold(), self.segment);
                self.recovery.phase = Phase::Recovery(until, rate);
                self.congestion.set_window(window);
            }
        }
    }

    /// A retransmission timeout has passed: all that has not arrived is lost (RFC 6298, §5; RFC
    /// 5681, §3.1: a second one does not lower the threshold again).
    pub(super) fn timeout_passed(&mut self, now: Instant) {
        let outstanding = self.nxt.since(self.una).max(0) as u32;
        self.recovery.timeout_test = None;
        if !matches!(self.recovery.phase, Phase::Loss(_)) {
            if self.recovery.is_open() {
                self.recovery.undo = Some((self.congestion, None));
                self.recovery.unreported = 0;
                if !self.has_stamps {
                    self.recovery.timeout_test = Some(TimeoutTest::new(self.congestion));
                }
                self.congestion.lost(outstanding);
            }
            self.recovery.phase = Phase::Loss(self.nxt);
        }
        self.congestion.collapse();
        self.recovery.probe = None;
        self.recovery.duplicates = 0;
        if self.board.get(0).is_some_and(|first| first.fate == Fate::Arrived) {
            // The peer has thrown away what it had told of (RFC 2018, §8).
            self.board.set_all(Fate::Arrived, Fate::Lost);
        }
        self.board.lose_all();
        self.excuse_longer(now);
    }

    /// The peer's window has opened: what was sent to ask for it was dropped. What was sent before
    /// the window closed was not, since a receiver does not take back what it has offered (RFC
    /// 9293, §3.8.6); if one does, that is found as any loss is. So a peer whose window opens and
    /// closes has nothing sent again but what asks for it.
    pub(super) fn lose_probe(&mut self) {
        let Some(first) = self.board.get(0) else { return };
        if first.fate != Fate::OnTheWay || first.at <= self.closed_at {
            return;
        }
        self.board.set_fate(0, Fate::Lost);
        if self.recovery.is_open() {
            self.recovery.phase = Phase::Loss(self.nxt);
        }
    }

    /// Has all that is on the way sent again, for a reason that is no word of the path: the window
    /// stays. A test whether a timeout was spurious ends: it would have new data sent first.
    pub(super) fn lose_without_blame(&mut self) {
        self.recovery.timeout_test = None;
        self.board.lose_all();
        if self.recovery.is_open() && !self.board.is_empty() {
            self.recovery.phase = Phase::Loss(self.nxt);
        }
    }

    /// Returns the timer for a probe of the tail, if there is to be one (RFC 8985, §7.2).
    pub(super) fn probe_timer(&self, now: Instant) -> Option<(Instant, Timer)> {
        let is_idle = self.recovery.is_open() && !self.recovery.has_probe() && self.board.arrived() == 0;
        if !self.has_sack || !is_idle {
            return None;
        }
        let trip = self.round_trip.smoothed()?;
        let delay = if self.board.on_the_way() <= self.segment { LONGEST_DELAY } else { Span(0) };
        let patience = trip.times(2).max(SHORTEST_PATIENCE) + delay;
        Some(((now + patience).min(self.timeout_at), Timer::Probe))
    }
}
