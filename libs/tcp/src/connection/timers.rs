//! When something is to be done without a segment from the peer, and what.

use super::{Connection, Ending, State};
use crate::time::{Instant, Span};

/// How long an acknowledgement waits for data to go with, or for a second segment (RFC 9293,
/// §3.8.6.3: less than half a second).
pub(super) const DELAY: Span = Span::from_milliseconds(40);

/// How often a SYN is sent again, which takes three minutes at least (RFC 9293, §3.8.3, MUST-23): a
/// peer that is there answers one of them.
const SYNS: u8 = 7;

/// What the one timer of what was sent waits for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Timer {
    /// What was sent is lost, or the SYN.
    Timeout,
    /// The tail may be lost (RFC 8985, §7).
    Probe,
    /// What seems to come late is lost (RFC 8985, §6.3).
    Reordering,
    /// The peer's window may have opened (RFC 9293, §3.8.6.1).
    Window,
    /// The connection is over.
    TimeWait,
}

/// Something to be sent besides data in its turn.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Due {
    /// The SYN, with an ACK if the peer's has come.
    Syn,
    /// The last segment or the next.
    Probe,
    /// A byte into a closed window.
    Window,
    /// An old number, to be answered.
    Question,
}

/// Whether an acknowledgement is to be sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Acknowledgement {
    /// None is.
    None,
    /// At this time, unless data goes before.
    At(Instant),
    /// At once.
    Now,
}

impl Connection<'_> {
    /// Returns when [`Self::pass_time`] is to be called next; `None` if only a segment or the
    /// application can change something.
    #[inline]
    pub fn deadline(&self) -> Option<Instant> {
        // The peer is not asked whether it is there while a timer runs.
        let timer = self.timer.map(|(at, _)| at).or_else(|| self.question_at());
        match (timer, self.acknowledgement) {
            (Some(timer), Acknowledgement::At(delayed)) => Some(timer.min(delayed)),
            (None, Acknowledgement::At(delayed)) => Some(delayed),
            (timer, _) => timer,
        }
    }

    /// Does what is due at `now`. Tokens go to `release` if the connection ends by that.
    pub fn pass_time(&mut self, now: Instant, release: impl FnMut(u64)) {
        if let Acknowledgement::At(at) = self.acknowledgement
            && at <= now
        {
            self.acknowledgement = Acknowledgement::Now;
        }
        if let Some((at, timer)) = self.timer
            && at <= now
        {
            self.timer = None;
            self.timer_passed(timer, now, release);
        } else if let Some(at) = self.question_at()
            && at <= now
        {
            self.ask(now, release);
        }
    }

    fn timer_passed(&mut self, timer: Timer, now: Instant, release: impl FnMut(u64)) {
        match timer {
            Timer::TimeWait => self.end(Ending::Closed, release),
            Timer::Reordering => {
                self.reordering_passed(now);
                self.arm(now);
            }
            Timer::Probe => self.due = Some(Due::Probe),
            Timer::Window | Timer::Timeout => {
                let is_opening = matches!(self.state, State::SynSent | State::SynReceived);
                let most = if is_opening { SYNS } else { self.settings.attempts };
                if self.timeouts >= most {
                    return self.give_up(release);
                }
                self.timeouts += 1;
                self.round_trip.back_off();
                match timer {
                    _ if is_opening => self.due = Some(Due::Syn),
                    Timer::Window => {
                        // What asks for the window is as long as the window lets it be.
                        self.narrow(now);
                        self.due = Some(Due::Window);
                    }
                    _ => {
                        self.narrow(now);
                        self.timeout_passed(now);
                        self.arm(now);
                    }
                }
            }
        }
    }

    /// Sets the timer for what is on the way: to be called when something has arrived, or was sent.
    #[inline]
    pub(super) fn arm(&mut self, now: Instant) {
        if self.state == State::TimeWait {
            return;
        }
        if self.board.is_empty() {
            // Data that waits for a closed window has the timer set when it is looked at.
            self.timer = None;
            return;
        }
        let timeout = now + self.round_trip.timeout();
        self.timeout_at = timeout;
        self.timer = Some(if self.window == 0 {
            (timeout, Timer::Window)
        } else if let Some(at) = self.reordering_deadline() {
            (at.min(timeout), Timer::Reordering)
        } else {
            self.probe_timer(now).unwrap_or((timeout, Timer::Timeout))
        });
    }

    /// Sets the timer after something was sent: one for a probe anew, but not beyond the timeout of
    /// what was sent before (RFC 8985, §7.2: else who sends a little all the time would learn of no
    /// loss), any other if none runs (RFC 6298, §5.1).
    #[inline]
    pub(super) fn arm_sent(&mut self, now: Instant) {
        match self.timer {
            None => self.arm(now),
            Some((_, Timer::Probe)) => {
                self.timer = Some(self.probe_timer(now).unwrap_or((self.timeout_at, Timer::Timeout)));
            }
            _ => {}
        }
    }

    /// Returns when a silent peer is to be asked.
    #[inline]
    fn question_at(&self) -> Option<Instant> {
        let keep_alive = self.settings.keep_alive?;
        let is_open = !matches!(self.state, State::SynSent | State::SynReceived | State::TimeWait | State::Closed);
        // What is on the way has a timer of its own.
        if !is_open || self.timer.is_some() {
            return None;
        }
        Some(match self.questions {
            0 => self.heard_at.after(keep_alive.idle),
            _ => self.asked_at.after(keep_alive.interval),
        })
    }

    fn ask(&mut self, now: Instant, release: impl FnMut(u64)) {
        let Some(keep_alive) = self.settings.keep_alive else { return };
        if self.questions >= keep_alive.questions {
            return self.give_up(release);
        }
        (self.questions, self.asked_at) = (self.questions + 1, now);
        self.due = Some(Due::Question);
    }
}
