//! Forward RTO-Recovery (F-RTO, RFC 5682, §2.1): whether a timeout was spurious, where no timestamp
//! tells.
//!
//! After a timeout the first segment is sent again. If the peer's next acknowledgement goes on, new
//! data is sent, and nothing again. If the one after that goes on too, it acknowledges what was
//! sent once and before the timeout: that was late, and not lost. If it does not, new data came
//! before what is missing.

use super::Connection;
use super::recovery::{News, Phase};
use crate::congestion::Congestion;
use crate::header::Header;
use crate::scoreboard::Fate;

/// Segments of new data that are sent for the test (RFC 5682, §2.1, step 2b), and segments of the
/// window after it has shown that the loss was real (step 3a).
const NEW: u32 = 2;
const AFTER_LOSS: u32 = 3;

/// A test under way.
#[derive(Clone, Copy, Debug)]
pub(super) struct TimeoutTest {
    /// The congestion state before the timeout.
    before: Congestion,
    /// Whether an acknowledgement has gone on.
    has_gone_on: bool,
}

impl TimeoutTest {
    pub fn new(before: Congestion) -> Self {
        Self { before, has_gone_on: false }
    }

    /// Returns whether new data is sent in place of what is taken for lost.
    pub fn is_new_awaited(&self) -> bool {
        self.has_gone_on
    }
}

impl Connection<'_> {
    /// Takes what an acknowledgement has told for the test. Returns whether it goes on or has shown
    /// that nothing was lost: there is nothing to be repaired then.
    pub(super) fn test_timeout(&mut self, header: &Header, news: &News) -> bool {
        let (Some(mut test), Phase::Loss(until)) = (self.recovery.timeout_test, self.recovery.phase) else {
            return false;
        };
        if news.delivered == 0 && !self.is_duplicate(header, news) {
            return false;
        }
        self.recovery.timeout_test = None;
        if test.has_gone_on {
            if news.bytes > 0 && news.first_sent_at.is_some() {
                self.congestion = test.before;
                self.board.set_all(Fate::Lost, Fate::OnTheWay);
                self.end_recovery();
                return true;
            }
            let window = self.congestion.window().min(AFTER_LOSS * self.segment);
            self.congestion.set_window(window);
            return false;
        }
        let has_new = self.pending().min(self.usable()) >= self.payload();
        // An acknowledgement of a part of what was sent again says nothing (step 2a).
        let first = self.board.get(0);
        let is_partial = first.is_some_and(|first| first.is_repeated && first.fate == Fate::OnTheWay);
        if news.bytes > 0 && self.una.is_before(until) && !is_partial && has_new {
            test.has_gone_on = true;
            self.recovery.timeout_test = Some(test);
            self.congestion.set_window(self.on_the_way() + NEW * self.payload());
            return true;
        }
        false
    }
}
