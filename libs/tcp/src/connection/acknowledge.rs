//! What an acknowledgement tells: what has arrived, how long that took, how much more may go.

use super::Connection;
use super::recovery::News;
use super::timers::Timer;
use crate::header::{Flags, Header};
use crate::sequence::Range;
use crate::time::{Instant, Span};

impl Connection<'_> {
    /// Takes the peer's window, unless the segment is older than what told it last (RFC 9293,
    /// §3.10.7.4, fifth). Returns whether it has changed.
    #[inline]
    pub(super) fn update_window(&mut self, header: &Header, now: Instant) -> bool {
        let (sequence, acknowledgement) = self.window_from;
        let is_newer = sequence.is_before(header.sequence)
            || sequence == header.sequence && !header.acknowledgement.is_before(acknowledgement);
        if !is_newer {
            return false;
        }
        let window = u32::from(header.window) << self.send_scale;
        // The window counts from the acknowledgement, `window` from what is acknowledged now.
        let has_changed = window != self.window;
        let was_closed = self.window == 0;
        self.window = window;
        self.largest_window = self.largest_window.max(window);
        self.window_from = (header.sequence, header.acknowledgement);
        if has_changed && window > 0 && matches!(self.timer, Some((_, Timer::Window))) {
            self.timer = None;
            self.round_trip.end_back_off();
        }
        if was_closed && window > 0 && header.acknowledgement == self.una {
            self.lose_probe();
        }
        if !was_closed && window == 0 {
            self.closed_at = now;
        }
        has_changed
    }

    /// Takes an acknowledgement between what is acknowledged and what was sent.
    #[inline]
    pub(super) fn take_acknowledgement(
        &mut self,
        header: &Header,
        length: u32,
        now: Instant,
        mut release: impl FnMut(u64),
    ) {
        let acknowledgement = header.acknowledgement;
        let outstanding = self.nxt.since(self.una).max(0) as u32;
        let was_closed = self.window == 0;
        let has_window_changed = self.update_window(header, now);
        let bytes = acknowledgement.since(self.una).max(0) as u32;
        (self.heard_at, self.questions) = (now, 0);
        if outstanding == 0 && header.options.sack.is_empty() {
            // Nothing is on the way. A peer that answers is there, however long its window stays
            // closed.
            self.timeouts = if self.window == 0 { 0 } else { self.timeouts };
            return;
        }
        if bytes > 0 && self.take_whole(header, bytes, now, &mut release) {
            return;
        }
        let mut news = News { bytes, outstanding, has_window_changed, length, ..News::default() };
        if bytes > 0 {
            let (board, recovery) = (&mut self.board, &mut self.recovery);
            board.acknowledge(acknowledgement, |sent| recovery.note_delivered(&sent, &mut news));
            self.una = acknowledgement;
            // A FIN is acknowledged last, and is no byte of the application's.
            self.outgoing.acknowledge(bytes, release);
            self.timeouts = 0;
        }
        // After what is acknowledged, which lies before them: else it would seem to come late.
        if self.has_sack && !header.options.sack.is_empty() {
            self.take_blocks(header, &mut news);
        }
        if self.window == 0 {
            // A peer that answers is there, however long its window stays closed.
            self.timeouts = 0;
        }
        if news.delivered == 0 && outstanding == 0 && !news.is_duplicate {
            return;
        }
        self.measure(header, &news, now);
        self.recover(header, &news, now);
        // Any other change of the window does not restart the timer (RFC 6298, §5.3): a peer that
        // sends all the time would put it off for ever.
        let has_closed_or_opened = was_closed != (self.window == 0);
        if news.delivered > 0 || self.timer.is_none() || has_closed_or_opened {
            self.arm(now);
        }
    }

    /// Takes the acknowledgement of all `bytes` that are on the way, if they were sent together and
    /// once, and no loss is suspected, as after a short response: the usual case, in fewer steps.
    /// Returns whether that is so.
    #[inline]
    fn take_whole(&mut self, header: &Header, bytes: u32, now: Instant, release: impl FnMut(u64)) -> bool {
        let is_plain = header.acknowledgement == self.nxt && header.options.sack.is_empty();
        if !is_plain || !self.recovery.is_calm() {
            return false;
        }
        let Some(sent) = self.board.take_only() else { return false };
        let trip = now.since(sent.at);
        self.una = self.nxt;
        self.outgoing.acknowledge(bytes, release);
        self.recovery.note_whole(&sent, trip);
        self.round_trip.measure(trip, now, bytes / self.segment.max(1) / 2);
        self.grow(bytes, now);
        (self.timeouts, self.timer) = (0, None);
        true
    }

    /// Takes SACK blocks: each is checked, since a peer can say anything (RFC 2018, §5). A first
    /// one of what is acknowledged already, or in the second one, tells of a duplicate (RFC 2883,
    /// §4), which counts if it can be of something that was sent again.
    fn take_blocks(&mut self, header: &Header, news: &mut News) {
        let blocks = header.options.sack.as_slice();
        for (index, block) in blocks.iter().enumerate() {
            let is_within = |outer: &Range| !block.start.is_before(outer.start) && !block.end.is_after(outer.end);
            let is_duplicate =
                index == 0 && (!block.end.is_after(header.acknowledgement) || blocks.get(1).is_some_and(is_within));
            if is_duplicate {
                let is_plausible = !block.is_empty() && !block.end.is_after(self.nxt);
                news.is_duplicate = is_plausible && self.recovery.take_report(block.length());
                continue;
            }
            let is_plausible = !block.is_empty() && !block.start.is_before(self.una) && !block.end.is_after(self.nxt);
            if is_plausible {
                let (board, recovery) = (&mut self.board, &mut self.recovery);
                board.mark_arrived(*block, |sent| recovery.note_delivered(&sent, news));
            }
        }
    }

    /// Measures the round trip: by the first part that has arrived, if all that has was sent once
    /// (what came with a repetition may have waited for it), or by the timestamp that the peer has
    /// echoed (RFC 6298, §3; RFC 7323, §4.1).
    #[inline]
    fn measure(&mut self, header: &Header, news: &News, now: Instant) {
        let in_segments = news.outstanding / self.segment.max(1);
        if let Some(sent_at) = news.first_sent_at.filter(|_| !news.has_repeated) {
            self.round_trip.measure(now.since(sent_at), now, in_segments / 2);
        } else if news.bytes > 0
            && self.has_stamps
            && let Some(stamps) = header.options.timestamps
        {
            let milliseconds = self.stamp(now).wrapping_sub(stamps.echo);
            if milliseconds < 60_000 {
                let time = Span::from_milliseconds(milliseconds).max(Span(1000));
                self.round_trip.measure(time, now, in_segments / 2);
            }
        }
    }

    /// Returns the timestamp of `at`, in milliseconds.
    #[inline]
    pub(super) fn stamp(&self, at: Instant) -> u32 {
        at.milliseconds().wrapping_add(self.settings.stamp_offset)
    }

    /// Returns whether an acknowledgement is a duplicate by RFC 5681, §2: for peers without SACK.
    pub(super) fn is_duplicate(&self, header: &Header, news: &News) -> bool {
        news.bytes == 0
            && news.length == 0
            && !news.has_window_changed
            && !self.board.is_empty()
            && self.window > 0
            && header.acknowledgement == self.una
            && !header.flags.has(Flags::FIN)
    }
}
