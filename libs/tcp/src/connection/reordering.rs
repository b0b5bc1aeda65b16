//! How late something may come without being lost: RACK's reordering window (RFC 8985, §6.2, step
//! 4), widened by reports of duplicates, and by what has come late itself.
//!
//! The RFC widens the window by a quarter of the least round trip at a time. Where a segment
//! overtakes all that is on the way, its own round trip is that least one, and a quarter of it too
//! short by far: half a window would be sent again before each widening, and all of that once more
//! whenever the window is narrow again. But how late something was is known: of what was sent once
//! by the time it was sent at, and of what was sent again for nothing by the timestamp that the
//! peer echoes (RFC 3522). So the window is no shorter than the latest of these.

use crate::sequence::Sequence;
use crate::time::{Instant, Span};

/// Recoveries for which a widened reordering window stays so (RFC 8985, §6.2, step 4).
const PERSISTENCE: u8 = 16;

/// What is known of reordering.
#[derive(Debug)]
pub(super) struct Reordering {
    is_seen: bool,
    /// By how many quarters of the least round trip something may come late, and the number that
    /// was next to be sent when one was added, until all before it is acknowledged.
    quarters: u8,
    widened_at: Option<Sequence>,
    /// How late the latest has come.
    late: Span,
    /// For how many recoveries more `quarters` and `late` count.
    persistence: u8,
}

impl Default for Reordering {
    fn default() -> Self {
        Self { is_seen: false, quarters: 1, widened_at: None, late: Span(0), persistence: 0 }
    }
}

impl Reordering {
    pub fn is_seen(&self) -> bool {
        self.is_seen
    }

    /// Notes a report that something arrived twice, for which the window is widened once each round
    /// trip; `nxt` is the next number to be sent.
    pub fn note_duplicate(&mut self, nxt: Sequence) {
        if self.widened_at.is_none() {
            self.quarters = self.quarters.saturating_add(1);
            (self.persistence, self.widened_at) = (PERSISTENCE, Some(nxt));
        }
    }

    /// Notes that all before `una` is acknowledged: a round trip may be over.
    pub fn note_acknowledged(&mut self, una: Sequence) {
        if self.widened_at.is_some_and(|at| !una.is_before(at)) {
            self.widened_at = None;
        }
    }

    /// Notes that what was sent at `sent_at` has arrived `now`, after something that was sent at
    /// `later` and took `time`.
    #[cold]
    pub fn note_late(&mut self, sent_at: Instant, (later, time): (Instant, Span), now: Instant) {
        self.is_seen = true;
        if sent_at > later {
            return;
        }
        let late = now.since(sent_at) - time;
        if late.0 >= self.late.0 / 2 {
            self.persistence = PERSISTENCE;
        }
        self.late = self.late.max(late);
    }

    /// Notes the end of a recovery: after some of them what was learnt is forgotten.
    pub fn end_recovery(&mut self) {
        self.persistence = self.persistence.saturating_sub(1);
        if self.persistence == 0 {
            (self.quarters, self.late) = (1, Span(0));
        }
    }

    /// Returns the window, for this least and this smoothed round trip: no longer than the latter.
    pub fn window(&self, least: Span, smoothed: Span) -> Span {
        Span(least.0 / 4).times(self.quarters.into()).max(self.late).min(smoothed)
    }
}
