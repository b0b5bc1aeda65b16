//! One connection, from request to response and on to the next request.

mod ending;

use crate::decision::{After, Answer, Decision, LastRequest, decide};
use crate::documents::{Documents, Renderer, RenderingId};
use crate::files::{Files, Offer};
use crate::limits;
use crate::request::{HeadRange, Parser, Progress, Request};
use crate::response::{self, Date, Head, Refusal, Status};
use crate::site::{ResourceId, Site};
use crate::stored::{self, Asked, Commit, Upload};
use crate::transport::Stream;

/// Counts of what a server has done. They only grow.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Tally {
    /// Requests answered, whatever the answer.
    pub requests: u64,
    /// Of these, answered with a status from 400 on.
    pub requests_refused: u64,
    /// Bytes of responses handed to the transport.
    pub bytes: u64,
    /// Connections accepted.
    pub connections: u64,
    /// Connections ended because nothing happened on them in time.
    pub timeouts: u64,
}

/// The state that all connections share.
pub struct Shared<R, F> {
    /// The site that is served.
    pub site: Site,
    /// The documents that are rendered on request.
    pub documents: Documents<R>,
    /// The files that are not in memory.
    pub files: F,
    /// The operations on them that clients are offered.
    pub offer: Offer,
    /// Room for a head that lies in two pieces, and for a decoded path.
    pub scratch: alloc::boxed::Box<Scratch>,
    /// The counts of what was done.
    pub tally: Tally,
    /// The time of this turn.
    pub now: u64,
    /// Whether clients wait for whom there is no place.
    pub is_crowded: bool,
    /// The time of day.
    pub date: Date,
}

/// See [`Shared::scratch`].
pub struct Scratch {
    pub(crate) head: [u8; limits::HEAD],
    pub(crate) path: [u8; limits::REQUEST_LINE],
    /// A path that the files are asked for.
    pub(crate) name: [u8; stored::NAME],
}

impl Default for Scratch {
    fn default() -> Self {
        Self { head: [0; limits::HEAD], path: [0; limits::REQUEST_LINE], name: [0; stored::NAME] }
    }
}

/// The next need of a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Step {
    /// News from its transport.
    Wait,
    /// Another turn, after the others had theirs.
    Again,
    /// Nothing: it is over.
    Over,
}

#[derive(Clone, Copy, Debug)]
pub(crate) enum Phase {
    /// Awaits or reads a request's head.
    Reading,
    /// Has a refusal to send that ends the connection; whether with content.
    Refusing(Refusal, bool),
    /// Waits for the files. The request's head is still in the receive buffer.
    Asking(Asked),
    /// Takes a request's body for a file.
    Uploading(Upload),
    /// Waits until the file is there to stay.
    Committing(Commit),
    /// Sends a response's body.
    Sending(Body),
    /// Drops as many bytes of a request's body.
    Dropping(u64),
    /// Has ended its side, and drops what still comes, so that the last response is not lost to a
    /// reset (RFC 9112 §9.6). The time is that of the end, or of the last acknowledgement after it.
    Draining(u64),
}

#[derive(Clone, Copy, Debug)]
pub(crate) struct Body {
    pub(crate) source: Source,
    pub(crate) at: usize,
    pub(crate) end: usize,
    pub(crate) after: After,
}

#[derive(Clone, Copy, Debug)]
pub(crate) enum Source {
    Resource(ResourceId),
    Rendering(RenderingId),
    /// The file that the slot has under way.
    Stored {
        /// Whether the next bytes were asked for, and not all sent since.
        is_asked: bool,
    },
}

/// The state of one connection.
#[derive(Clone, Debug)]
pub struct Connection {
    pub(crate) phase: Phase,
    pub(crate) parser: Parser,
    /// When it last got on: connected, began a head, finished a response, had bytes of it
    /// acknowledged, sent a piece of an upload.
    pub(crate) since: u64,
    /// Bytes that were not acknowledged at the end of its last turn.
    unacknowledged: usize,
    /// Its place among the connections.
    pub(crate) slot: u16,
    /// Answers that were begun on it.
    answers: u32,
}

/// Answers after which a connection ends where others wait for a place.
const FAIR_SHARE: u32 = 64;

impl Connection {
    /// A connection that was just made.
    pub fn new(slot: u16, now: u64) -> Self {
        Self { phase: Phase::Reading, parser: Parser::default(), since: now, unacknowledged: 0, slot, answers: 0 }
    }

    /// Does what can be done now, but answers no more than one request. `last` is the slot's last
    /// request.
    #[inline]
    pub fn advance<S: Stream, R: Renderer, F: Files>(
        &mut self,
        stream: &mut S,
        shared: &mut Shared<R, F>,
        last: &mut LastRequest,
    ) -> Step {
        if stream.is_over() {
            self.forget(shared);
            return Step::Over;
        }
        self.note_acknowledged(stream, shared.now);
        let step = match self.phase {
            Phase::Reading => self.read(stream, shared, last),
            Phase::Sending(body) => self.send(body, stream, shared),
            Phase::Refusing(refusal, with_body) => self.send_refusal(refusal, with_body, stream, shared),
            Phase::Asking(asked) => self.ask(asked, stream, shared),
            Phase::Uploading(upload) => self.upload(upload, stream, shared),
            Phase::Committing(commit) => self.commit(commit, stream, shared),
            Phase::Dropping(left) => self.drop_body(left, stream, shared),
            Phase::Draining(began) => self.drain(began, stream, shared),
        };
        self.unacknowledged = stream.unacknowledged();
        step
    }

    /// Gives back what the connection holds, before it is forgotten.
    pub fn forget<R: Renderer, F: Files>(&mut self, shared: &mut Shared<R, F>) {
        match self.phase {
            Phase::Sending(Body { source: Source::Rendering(id), .. }) => shared.documents.release(id),
            Phase::Sending(Body { source: Source::Stored { .. }, .. })
            | Phase::Asking(_)
            | Phase::Uploading(_)
            | Phase::Committing(_) => shared.files.close(usize::from(self.slot)),
            _ => {}
        }
        self.phase = Phase::Draining(0);
    }

    #[inline]
    fn read<S: Stream, R: Renderer, F: Files>(
        &mut self,
        stream: &mut S,
        shared: &mut Shared<R, F>,
        last: &mut LastRequest,
    ) -> Step {
        if self.parser.is_untouched()
            && let Some(decision) = last.recall(stream.received())
        {
            return self.answer(decision, stream, shared, last);
        }
        // As after each connection that is new, and each answer.
        if stream.received_count() == 0 && !stream.ended() {
            return Step::Wait;
        }
        self.parse(stream, shared, last)
    }

    fn parse<S: Stream, R: Renderer, F: Files>(
        &mut self,
        stream: &mut S,
        shared: &mut Shared<R, F>,
        last: &mut LastRequest,
    ) -> Step {
        let fresh = self.parser.is_fresh();
        let bytes = stream.received();
        let together = bytes.len();
        let mut progress = self.parser.advance(bytes);
        if progress == Ok(Progress::Incomplete) && together < stream.received_count() {
            // The receive buffer is a ring, and the head goes over its end.
            let count = stream.copy_received(&mut shared.scratch.head);
            progress = self.parser.advance(&shared.scratch.head[..count]);
        }
        match progress {
            Ok(Progress::Complete) => {
                let decision = self.decide(stream, shared, last);
                self.answer(decision, stream, shared, last)
            }
            Ok(Progress::Incomplete) => {
                if fresh && !self.parser.is_fresh() {
                    self.since = shared.now;
                }
                self.incomplete(stream, shared)
            }
            Err(refusal) => self.refuse(refusal, stream, shared),
        }
    }

    fn incomplete<S: Stream, R: Renderer, F: Files>(&mut self, stream: &mut S, shared: &mut Shared<R, F>) -> Step {
        if !stream.ended() {
            return Step::Wait;
        }
        if stream.received_count() == 0 {
            return self.finish(stream, shared);
        }
        const CUT: Refusal = Refusal::new(Status::BadRequest, "The request ended before its head was complete.");
        self.refuse(CUT, stream, shared)
    }

    /// Decides what to answer to the request that the parser has read.
    fn decide<S: Stream, R: Renderer, F: Files>(
        &self,
        stream: &mut S,
        shared: &mut Shared<R, F>,
        last: &mut LastRequest,
    ) -> Decision {
        let request = self.parser.request();
        let Shared { site, scratch, offer, .. } = shared;
        let Scratch { head, path, .. } = &mut **scratch;
        let head = head_of(request, stream, head);
        let decision = decide(request, head, path, site, *offer);
        last.remember(head, request, decision);
        decision
    }

    #[inline]
    fn answer<S: Stream, R: Renderer, F: Files>(
        &mut self,
        decision: Decision,
        stream: &mut S,
        shared: &mut Shared<R, F>,
        last: &LastRequest,
    ) -> Step {
        let is_last = shared.is_crowded && self.answers >= FAIR_SHARE;
        let decision = if is_last { decision.as_last() } else { decision };
        match self.begin(decision, stream, shared, last) {
            Some(step) => {
                shared.tally.requests += 1;
                self.answers = self.answers.saturating_add(1);
                step
            }
            // Nothing was consumed: the next turn comes here again.
            None => Step::Wait,
        }
    }

    /// Begins a response, unless its head finds no room.
    fn begin<S: Stream, R: Renderer, F: Files>(
        &mut self,
        decision: Decision,
        stream: &mut S,
        shared: &mut Shared<R, F>,
        last: &LastRequest,
    ) -> Option<Step> {
        let persistence = decision.persistence;
        let body = match decision.answer {
            Answer::Whole(id) => {
                let resource = shared.site.resource(id);
                let (head, date, bytes) = (resource.head(), shared.date.field(), resource.bytes());
                // A short one goes along with the head.
                let (is_short, with_body) = (resource.is_short(), decision.with_body);
                let (at, tally) = (if is_short && with_body { bytes.len() } else { 0 }, &mut shared.tally);
                let answer = resource.answer(persistence);
                match date {
                    _ if is_short && !with_body => put(&[head, date, persistence.tail()], stream, tally)?,
                    // A transport refers to few things at a time: what is sent to who pipelines is
                    // joined.
                    [] if stream.unacknowledged() == 0 => put_static(answer, stream, tally)?,
                    [] => put(&[answer], stream, tally)?,
                    date => put(&[head, date, &answer[head.len()..]], stream, tally)?,
                }
                shared.tally.requests_refused += u64::from(shared.site.is_not_found(id));
                (Source::Resource(id), at, bytes.len())
            }
            Answer::NotModified(id) => {
                let resource = shared.site.resource(id);
                put(&[resource.not_modified(), shared.date.field(), persistence.tail()], stream, &mut shared.tally)?;
                (Source::Resource(id), 0, 0)
            }
            Answer::Partial(id, start, end) => {
                let resource = shared.site.resource(id);
                let head = response::partial(start, end, resource.bytes().len());
                let (form, fields) = (resource.form().as_bytes(), resource.fields().as_bytes());
                let pieces = [head.as_bytes(), form, fields, shared.date.field(), persistence.tail()];
                put(&pieces, stream, &mut shared.tally)?;
                (Source::Resource(id), start, end)
            }
            Answer::Redirect(id, query) => {
                begin_redirect(id, query, decision, stream, shared)?;
                (Source::Resource(id), 0, 0)
            }
            Answer::Document(id, number) => {
                return self.begin_document(id, number, decision, stream, shared);
            }
            Answer::Unsatisfiable(id) => {
                let head = response::unsatisfiable(shared.site.resource(id).bytes().len(), &shared.date, persistence);
                return self.begin_fixed(&head, decision, stream, shared);
            }
            Answer::Refused(refusal) => return self.begin_refusal(refusal, decision, stream, shared),
            Answer::Stored => {
                // A request that is answered from memory of the last one was not parsed.
                let request = if self.parser.is_complete() { self.parser.request() } else { last.request() };
                let asked = Asked::new(*request, decision);
                return Some(self.look_up(asked, stream, shared));
            }
            Answer::Change => return self.begin_change(decision, stream, shared),
        };
        let (source, at, end) = body;
        let end = if decision.with_body { end } else { at };
        if at == end {
            self.consume_head(decision, stream);
            return Some(self.end_response(decision.after, stream, shared));
        }
        Some(self.begin_body(decision, Body { source, at, end, after: decision.after }, stream, shared))
    }

    /// Begins and ends a response that refuses the request.
    pub(crate) fn begin_refusal<S: Stream, R: Renderer, F: Files>(
        &mut self,
        refusal: Refusal,
        decision: Decision,
        stream: &mut S,
        shared: &mut Shared<R, F>,
    ) -> Option<Step> {
        let head = response::refusal(refusal, &shared.date, decision.persistence, decision.with_body);
        self.begin_fixed(&head, decision, stream, shared)
    }

    /// Begins and ends a response that is all in `whole`.
    pub(crate) fn begin_fixed<S: Stream, R: Renderer, F: Files>(
        &mut self,
        whole: &Head,
        decision: Decision,
        stream: &mut S,
        shared: &mut Shared<R, F>,
    ) -> Option<Step> {
        put(&[whole.as_bytes()], stream, &mut shared.tally)?;
        shared.tally.requests_refused += 1;
        self.consume_head(decision, stream);
        Some(self.end_response(decision.after, stream, shared))
    }

    fn begin_document<S: Stream, R: Renderer, F: Files>(
        &mut self,
        id: ResourceId,
        number: u16,
        decision: Decision,
        stream: &mut S,
        shared: &mut Shared<R, F>,
    ) -> Option<Step> {
        let Some(rendering) = shared.documents.acquire(number, shared.now) else {
            return self.begin_refusal(BUSY, decision, stream, shared);
        };
        let length = shared.documents.bytes(rendering).len();
        let head = response::rendered(length, shared.site.resource(id).media());
        if put(&[head.as_bytes(), shared.date.field(), decision.persistence.tail()], stream, &mut shared.tally)
            .is_none()
        {
            shared.documents.release(rendering);
            return None;
        }
        let end = if decision.with_body { length } else { 0 };
        let body = Body { source: Source::Rendering(rendering), at: 0, end, after: decision.after };
        Some(self.begin_body(decision, body, stream, shared))
    }

    #[inline]
    pub(crate) fn begin_body<S: Stream, R: Renderer, F: Files>(
        &mut self,
        decision: Decision,
        body: Body,
        stream: &mut S,
        shared: &mut Shared<R, F>,
    ) -> Step {
        self.consume_head(decision, stream);
        self.since = shared.now;
        self.send(body, stream, shared)
    }

    /// Drops the request's head, which nothing refers to any more.
    pub(crate) fn consume_head<S: Stream>(&mut self, decision: Decision, stream: &mut S) {
        stream.consume(usize::from(decision.length));
        if !self.parser.is_untouched() {
            self.parser = Parser::default();
        }
    }

    fn send<S: Stream, R: Renderer, F: Files>(
        &mut self,
        mut body: Body,
        stream: &mut S,
        shared: &mut Shared<R, F>,
    ) -> Step {
        let taken = match body.source {
            Source::Resource(_) if body.at == body.end => 0,
            Source::Resource(id) => stream.send_static(&shared.site.resource(id).bytes()[body.at..body.end]),
            Source::Rendering(id) => stream.send(&shared.documents.bytes(id)[body.at..body.end]),
            Source::Stored { is_asked } => return self.send_stored(body, is_asked, stream, shared),
        };
        shared.tally.bytes += taken as u64;
        body.at += taken;
        if body.at < body.end {
            self.phase = Phase::Sending(body);
            return Step::Wait;
        }
        if let Source::Rendering(id) = body.source {
            shared.documents.release(id);
        }
        self.end_response(body.after, stream, shared)
    }

    #[inline]
    pub(crate) fn end_response<S: Stream, R: Renderer, F: Files>(
        &mut self,
        after: After,
        stream: &mut S,
        shared: &mut Shared<R, F>,
    ) -> Step {
        self.since = shared.now;
        match after {
            After::Release => self.release(stream, shared),
            After::Drain => self.finish(stream, shared),
            After::Next(0) => {
                self.phase = Phase::Reading;
                if stream.received_count() > 0 || stream.ended() { Step::Again } else { Step::Wait }
            }
            After::Next(left) => {
                self.phase = Phase::Dropping(left);
                Step::Again
            }
        }
    }
}

const BUSY: Refusal = Refusal::new(Status::Unavailable, "Too many readers are at this page. Try again in a moment.");

/// The head of `request`, which the receive buffer begins with: where it is, or in `copy` if it
/// goes over the buffer's end.
pub(crate) fn head_of<'b, S: Stream>(request: &Request, stream: &'b mut S, copy: &'b mut [u8]) -> &'b [u8] {
    let length = usize::from(request.length);
    let copy = &mut copy[..length];
    if stream.received().len() < length {
        stream.copy_received(copy);
        return copy;
    }
    &stream.received()[..length]
}

/// Sends a redirect's head, if it finds room, with the query of the request that is still in the
/// receive buffer.
#[cold]
fn begin_redirect<S: Stream, R: Renderer, F: Files>(
    id: ResourceId,
    query: HeadRange,
    decision: Decision,
    stream: &mut S,
    shared: &mut Shared<R, F>,
) -> Option<()> {
    let count = stream.copy_received(&mut shared.scratch.head[..usize::from(decision.length)]);
    let query = query.of(&shared.scratch.head[..count]);
    let pieces = [shared.site.resource(id).head(), query, b"\r\n", shared.date.field(), decision.persistence.tail()];
    put(&pieces, stream, &mut shared.tally)
}

/// Sends a head that is in pieces, with a short body possibly, if all of it finds room.
#[inline]
pub(crate) fn put<S: Stream, const COUNT: usize>(
    pieces: &[&[u8]; COUNT],
    stream: &mut S,
    tally: &mut Tally,
) -> Option<()> {
    let length = pieces.iter().map(|piece| piece.len()).sum();
    if stream.send_with(length, |place| join(pieces, place)) < length {
        put_apart(pieces, length, stream)?;
    }
    tally.bytes += length as u64;
    Some(())
}

/// Sends bytes that stay where they are, all or none. A transport that cannot refer to them
/// copies them.
#[inline]
fn put_static<S: Stream>(bytes: &'static [u8], stream: &mut S, tally: &mut Tally) -> Option<()> {
    if !stream.send_static_whole(bytes) {
        return None;
    }
    tally.bytes += bytes.len() as u64;
    Some(())
}

/// Writes `pieces` one after the other, and returns how many bytes they have; 0, if `place` does
/// not have room for all of them.
#[inline]
fn join(pieces: &[&[u8]], place: &mut [u8]) -> usize {
    let mut end = 0;
    for piece in pieces {
        let start = end;
        end += piece.len();
        let Some(part) = place.get_mut(start..end) else { return 0 };
        part.copy_from_slice(piece);
    }
    end
}

/// Does what [`put`] does where no place has room for all pieces side by side.
#[cold]
fn put_apart<S: Stream>(pieces: &[&[u8]], length: usize, stream: &mut S) -> Option<()> {
    if stream.room() < length {
        return None;
    }
    // Without a clock the field `Date` is empty.
    for piece in pieces.iter().filter(|piece| !piece.is_empty()) {
        stream.send(piece);
    }
    Some(())
}
