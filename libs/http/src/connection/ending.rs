//! The end of a connection: what its client has to do next and how long it may take, refusals after
//! which nothing comes, and how both sides part.

use super::{Connection, Phase, Shared, Step, put};
use crate::decision::After;
use crate::documents::Renderer;
use crate::files::Files;
use crate::limits::Timeouts;
use crate::request::START;
use crate::response::{self, Persistence, Refusal, Status};
use crate::transport::Stream;

/// The client's next duty, which decides how long it may take and what becomes of it after that.
enum Duty {
    /// Begin a request.
    Ask,
    /// Complete its request.
    Complete,
    /// Acknowledge more of what was sent.
    Acknowledge,
    /// None: the files have to answer.
    None,
    /// End its side, after this side was ended, and all of it acknowledged, at this time.
    End(u64),
}

impl Connection {
    /// Renews the time that the client has, if it had to acknowledge something and has done so
    /// since the last turn. Returns whether that is so.
    #[inline]
    pub(super) fn note_acknowledged<S: Stream>(&mut self, stream: &mut S, now: u64) -> bool {
        let left = stream.unacknowledged();
        let renewed = left < self.unacknowledged && self.is_to_acknowledge();
        if renewed {
            self.since = now;
            if let Phase::Draining(began) = &mut self.phase {
                *began = now;
            }
        }
        self.unacknowledged = left;
        renewed
    }

    /// Returns whether the client's next duty is to acknowledge something.
    #[inline(always)]
    fn is_to_acknowledge(&self) -> bool {
        // As nearly always, and told in fewer steps: it has nothing else under way.
        let is_at_rest = matches!(self.phase, Phase::Reading) && self.parser.is_untouched();
        if is_at_rest { self.unacknowledged > 0 } else { matches!(self.duty(), Duty::Acknowledge) }
    }

    #[inline]
    fn duty(&self) -> Duty {
        match self.phase {
            Phase::Sending(_) | Phase::Refusing(..) => Duty::Acknowledge,
            Phase::Asking(asked) if asked.lacks_room => Duty::Acknowledge,
            Phase::Asking(_) | Phase::Committing(_) => Duty::None,
            Phase::Uploading(upload) if upload.is_held_up => Duty::None,
            Phase::Uploading(_) => Duty::Complete,
            // The answer finds no room.
            Phase::Reading if self.parser.is_complete() => Duty::Acknowledge,
            Phase::Reading if !self.parser.is_fresh() => Duty::Complete,
            Phase::Dropping(_) => Duty::Complete,
            Phase::Reading | Phase::Draining(_) if self.unacknowledged > 0 => Duty::Acknowledge,
            Phase::Reading => Duty::Ask,
            Phase::Draining(began) => Duty::End(began),
        }
    }

    /// Answers a request whose end cannot be known, and ends the connection.
    #[cold]
    pub(super) fn refuse<S: Stream, R: Renderer, F: Files>(
        &mut self,
        refusal: Refusal,
        stream: &mut S,
        shared: &mut Shared<R, F>,
    ) -> Step {
        let mut start = [0; START];
        let count = stream.copy_received(&mut start);
        let with_body = !self.parser.is_head(&start[..count]);
        shared.tally.requests += 1;
        self.break_off(refusal, with_body, stream, shared)
    }

    /// Answers a request that was counted and whose end cannot be known or is not awaited, and ends
    /// the connection.
    #[cold]
    pub(crate) fn break_off<S: Stream, R: Renderer, F: Files>(
        &mut self,
        refusal: Refusal,
        with_body: bool,
        stream: &mut S,
        shared: &mut Shared<R, F>,
    ) -> Step {
        self.forget(shared);
        shared.tally.requests_refused += 1;
        self.since = shared.now;
        self.send_refusal(refusal, with_body, stream, shared)
    }

    #[cold]
    pub(super) fn send_refusal<S: Stream, R: Renderer, F: Files>(
        &mut self,
        refusal: Refusal,
        with_body: bool,
        stream: &mut S,
        shared: &mut Shared<R, F>,
    ) -> Step {
        let head = response::refusal(refusal, &shared.date, Persistence::Close, with_body);
        if put(&[head.as_bytes()], stream, &mut shared.tally).is_none() {
            self.phase = Phase::Refusing(refusal, with_body);
            return Step::Wait;
        }
        self.finish(stream, shared)
    }

    pub(super) fn drop_body<S: Stream, R: Renderer, F: Files>(
        &mut self,
        left: u64,
        stream: &mut S,
        shared: &mut Shared<R, F>,
    ) -> Step {
        let count = (stream.received_count() as u64).min(left);
        stream.consume(count as usize);
        let left = left - count;
        if left == 0 {
            return self.end_response(After::Next(0), stream, shared);
        }
        if stream.ended() {
            return self.finish(stream, shared);
        }
        self.phase = Phase::Dropping(left);
        Step::Wait
    }

    /// Ends this side. The peer's side is read on, so that the last response is not lost to a
    /// reset.
    pub(crate) fn finish<S: Stream, R: Renderer, F: Files>(
        &mut self,
        stream: &mut S,
        shared: &mut Shared<R, F>,
    ) -> Step {
        stream.finish();
        self.since = shared.now;
        self.drain(shared.now, stream, shared)
    }

    /// Ends this side after a request of which nothing is left to be read, and leaves the rest to
    /// the transport, if it can do that.
    pub(super) fn release<S: Stream, R: Renderer, F: Files>(
        &mut self,
        stream: &mut S,
        shared: &mut Shared<R, F>,
    ) -> Step {
        if !stream.finishes_alone() {
            return self.finish(stream, shared);
        }
        // What the response held was given back.
        self.phase = Phase::Draining(shared.now);
        Step::Over
    }

    pub(super) fn drain<S: Stream, R: Renderer, F: Files>(
        &mut self,
        began: u64,
        stream: &mut S,
        shared: &mut Shared<R, F>,
    ) -> Step {
        let count = stream.received_count();
        stream.consume(count);
        if count > 0 && self.unacknowledged == 0 {
            self.since = shared.now;
        }
        self.phase = Phase::Draining(began);
        if stream.is_over() { Step::Over } else { Step::Wait }
    }

    /// When the connection is to be ended if nothing happens on it.
    pub fn deadline(&self, timeouts: &Timeouts) -> u64 {
        let limit = match self.duty() {
            Duty::Ask => timeouts.idle,
            Duty::Complete => timeouts.request,
            Duty::Acknowledge | Duty::None => timeouts.response,
            Duty::End(began) => {
                return self.since.saturating_add(timeouts.linger).min(began.saturating_add(timeouts.farewell));
            }
        };
        self.since.saturating_add(limit)
    }

    /// Ends what took too long, unless there is an acknowledgement that has had no turn yet.
    pub fn expire<S: Stream, R: Renderer, F: Files>(&mut self, stream: &mut S, shared: &mut Shared<R, F>) -> Step {
        const SLOW: Refusal = Refusal::new(Status::RequestTimeout, "The request's head did not arrive in time.");
        const SLOW_CONTENT: Refusal = Refusal::new(Status::RequestTimeout, "The content did not arrive in time.");
        const NO_ANSWER: Refusal = Refusal::new(Status::Unavailable, "The medium of the files did not answer in time.");
        if stream.is_over() {
            self.forget(shared);
            return Step::Over;
        }
        if self.note_acknowledged(stream, shared.now) {
            return Step::Wait;
        }
        shared.tally.timeouts += 1;
        let step = match (self.duty(), self.phase) {
            (Duty::Complete, Phase::Reading) => self.refuse(SLOW, stream, shared),
            (Duty::Complete, Phase::Uploading(_)) => self.break_off(SLOW_CONTENT, true, stream, shared),
            (Duty::None, phase) => {
                let with_body = !matches!(phase, Phase::Asking(asked) if !asked.decision.with_body);
                self.break_off(NO_ANSWER, with_body, stream, shared)
            }
            (Duty::Ask | Duty::Complete, _) => self.finish(stream, shared),
            (Duty::Acknowledge | Duty::End(_), _) => {
                self.forget(shared);
                stream.abort();
                Step::Over
            }
        };
        self.unacknowledged = stream.unacknowledged();
        step
    }

    /// Whether no complete request is under way.
    #[inline]
    pub fn rests(&self) -> bool {
        match self.phase {
            Phase::Reading | Phase::Dropping(_) | Phase::Draining(_) => true,
            Phase::Sending(_) | Phase::Refusing(..) | Phase::Asking(_) | Phase::Uploading(_) | Phase::Committing(_) => {
                false
            }
        }
    }
}
