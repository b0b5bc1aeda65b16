//! The decision what to answer to a request, without sending anything; and the memory of the last
//! one.

use crate::fields::{self, Codings, Comparison, Range};
use crate::files::Offer;
use crate::limits;
use crate::request::{Expect, Framing, HeadRange, List, Method, Request};
use crate::response::{Persistence, Refusal, Status};
use crate::site::{Kind, ResourceId, Site};
use crate::target;

/// The answer to a request.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Answer {
    /// All of a file, or a page that is sent as it is.
    Whole(ResourceId),
    /// The client has it.
    NotModified(ResourceId),
    /// The bytes from the first number to before the second.
    Partial(ResourceId, usize, usize),
    /// There are no such bytes.
    Unsatisfiable(ResourceId),
    /// A document that is rendered for the request.
    Document(ResourceId, u16),
    /// It is elsewhere, where this query, which begins with `?`, goes along.
    Redirect(ResourceId, HeadRange),
    /// It may be among the files that are not in memory.
    Stored,
    /// One of these files is to be replaced or removed.
    Change,
    /// It is not served.
    Refused(Refusal),
}

/// The decision.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Decision {
    pub(crate) answer: Answer,
    pub(crate) persistence: Persistence,
    pub(crate) after: After,
    /// Bytes of the request's head.
    pub(crate) length: u16,
    pub(crate) with_body: bool,
}

impl Decision {
    /// Returns the same decision, after which the connection ends.
    #[cold]
    pub(crate) fn as_last(self) -> Self {
        let after = match self.after {
            After::Next(0) | After::Release => After::Release,
            After::Next(_) | After::Drain => After::Drain,
        };
        Self { persistence: Persistence::Close, after, ..self }
    }
}

/// The connection's fate after a response.
#[derive(Clone, Copy, Debug)]
pub(crate) enum After {
    /// It ends: all of the request has come.
    Release,
    /// It ends once the client has: more of the request may come, which has to be read for the
    /// client to see the response.
    Drain,
    /// The next request, after so many bytes of this one's body.
    Next(u64),
}

/// The last request that came over a slot, and what is answered to it.
///
/// Clients repeat themselves: their fields about themselves are the same in each request, and a
/// client that asks again for the same thing sends the same bytes. The answer depends on those
/// bytes alone, so comparing them takes the place of parsing.
#[derive(Clone, Debug)]
pub struct LastRequest {
    head: [u8; limits::REMEMBERED],
    /// Bytes of `head`; 0 for none.
    length: usize,
    decision: Decision,
    /// The request, where the decision does not say all of it.
    request: Request,
}

impl Default for LastRequest {
    fn default() -> Self {
        let none = Refusal::new(Status::BadRequest, "");
        let decision = Decision {
            answer: Answer::Refused(none),
            persistence: Persistence::Close,
            after: After::Drain,
            length: 0,
            with_body: false,
        };
        Self { head: [0; limits::REMEMBERED], length: 0, decision, request: Request::default() }
    }
}

impl LastRequest {
    /// Returns the answer to the request that `bytes` begin with, if that is the one remembered. A
    /// head ends at its first empty line after a line, so bytes that begin with this one hold no
    /// other.
    #[inline]
    pub(crate) fn recall(&self, bytes: &[u8]) -> Option<Decision> {
        let head = self.head.get(..self.length)?;
        (self.length > 0 && bytes.starts_with(head)).then_some(self.decision)
    }

    #[inline]
    pub(crate) fn remember(&mut self, head: &[u8], request: &Request, decision: Decision) {
        match decision.answer {
            // Who may change files is asked each time.
            Answer::Change => return,
            Answer::Stored => self.request = *request,
            _ => {}
        }
        if let Some(place) = self.head.get_mut(..head.len()) {
            place.copy_from_slice(head);
            self.length = head.len();
            self.decision = decision;
        } else if matches!(decision.answer, Answer::Stored) {
            self.length = 0;
        }
    }

    /// The request that was remembered last with the answer [`Answer::Stored`].
    pub(crate) fn request(&self) -> &Request {
        &self.request
    }
}

/// Decides what to answer. `head` are the request's bytes.
pub(crate) fn decide(request: &Request, head: &[u8], path: &mut [u8], site: &Site, offer: Offer) -> Decision {
    let (refusal, body) = refused_body(request, offer);
    let (persistence, after) = persistence(request, body);
    let answer = match (refusal, request.method) {
        (Some(refusal), _) => Answer::Refused(refusal),
        (None, Method::NotAllowed) => Answer::Refused(not_allowed(offer)),
        (None, Method::Unknown) => Answer::Refused(UNKNOWN_METHOD),
        (None, Method::Put | Method::Delete) => change(request, head, path, site, offer),
        (None, Method::Get | Method::Head) => match target::path(request.target.of(head), path) {
            Ok(path) => {
                let id = site.find(path);
                if offer != Offer::Nothing && site.is_not_found(id) {
                    Answer::Stored
                } else {
                    select(request, head, site, id)
                }
            }
            Err(refusal) => Answer::Refused(refusal),
        },
    };
    Decision { answer, persistence, after, length: request.length, with_body: request.method != Method::Head }
}

/// Whether the connection goes on after a response, if so many bytes of the request's body are then
/// left. None: its end cannot be known or awaited.
pub(crate) fn persistence(request: &Request, left: Option<u64>) -> (Persistence, After) {
    match (left, request.keep, request.old) {
        (Some(0), false, _) => (Persistence::Close, After::Release),
        (None, ..) | (_, false, _) => (Persistence::Close, After::Drain),
        (Some(left), true, false) => (Persistence::Keep, After::Next(left)),
        (Some(left), true, true) => (Persistence::KeepOld, After::Next(left)),
    }
}

const NOT_ALLOWED: Refusal = Refusal::new(Status::MethodNotAllowed, "Only GET and HEAD are allowed here.");
const NOT_ALLOWED_HERE: Refusal =
    Refusal::new(Status::MethodNotAllowed, "Only GET, HEAD, PUT and DELETE are allowed here.");
const UNKNOWN_METHOD: Refusal = Refusal::new(Status::NotImplemented, "This server does not know the request's method.");

fn not_allowed(offer: Offer) -> Refusal {
    match offer {
        Offer::Write { .. } => NOT_ALLOWED_HERE.with("Allow: GET, HEAD, PUT, DELETE\r\n"),
        Offer::Nothing | Offer::Read => NOT_ALLOWED.with("Allow: GET, HEAD\r\n"),
    }
}

/// Decides on an upload or a removal. Files in memory cannot be changed, and hide stored ones.
#[cold]
fn change(request: &Request, head: &[u8], path: &mut [u8], site: &Site, offer: Offer) -> Answer {
    if !matches!(offer, Offer::Write { .. }) {
        return Answer::Refused(not_allowed(offer));
    }
    match target::path(request.target.of(head), path) {
        Ok(path) if site.is_not_found(site.find(path)) => Answer::Change,
        Ok(_) => Answer::Refused(not_allowed(Offer::Read)),
        Err(refusal) => Answer::Refused(refusal),
    }
}

/// Whether the request's body, or what is said about it, is a reason to refuse; and how many bytes
/// of it are to be dropped before the next request. None: its end cannot be known or awaited, so
/// the connection must end.
fn refused_body(request: &Request, offer: Offer) -> (Option<Refusal>, Option<u64>) {
    const TOO_LARGE: Refusal = Refusal::new(Status::ContentTooLarge, "This server takes no content as large as that.");
    const CODING: Refusal = Refusal::new(Status::NotImplemented, "This server does not know the transfer coding.");
    const NO_LENGTH: Refusal = Refusal::new(Status::LengthRequired, "Content must come with its Content-Length.");
    const EXPECTATION: Refusal = Refusal::new(Status::ExpectationFailed, "This server cannot do what is expected.");
    // Content that is for a file has a limit of its own, which only those are told who may send it.
    let is_stored = request.method == Method::Put && matches!(offer, Offer::Write { .. });
    let is_dropped = matches!(request.method, Method::Get | Method::Head)
        || (request.method == Method::Delete && matches!(offer, Offer::Write { .. }));
    match (request.framing, request.expect) {
        (Framing::None | Framing::Length(0), Expect::Unknown) => (Some(EXPECTATION), Some(0)),
        (Framing::None | Framing::Length(0), _) => (None, Some(0)),
        (Framing::Length(length), _) if length > limits::BODY && !is_stored => (Some(TOO_LARGE), None),
        (_, Expect::Unknown) => (Some(EXPECTATION), None),
        // RFC 9110 §10.1.1: after a final answer the client may or may not send the content.
        (Framing::Length(_), Expect::Continue) => (None, None),
        (Framing::Length(length), Expect::None) => (None, Some(length).filter(|length| *length <= limits::BODY)),
        (Framing::Chunked, _) => (is_dropped.then_some(NO_LENGTH), None),
        (Framing::Unknown, _) => (Some(CODING), None),
    }
}

/// Applies conditions and ranges, in the order of RFC 9110 §13.2.2.
fn select(request: &Request, head: &[u8], site: &Site, id: ResourceId) -> Answer {
    let id = chosen_form(request, head, site, id);
    let resource = site.resource(id);
    let kind = resource.kind();
    // RFC 9110 §13.2.1: what would not be answered with success has no conditions.
    match kind {
        Kind::File | Kind::Document(_) => {}
        Kind::Fixed => return Answer::Whole(id),
        Kind::Redirect => return redirect(request, head, id),
    }
    if has_conditions(request)
        && let Some(answer) = failed_condition(request, head, site, id)
    {
        return answer;
    }
    if let Kind::Document(number) = kind {
        return Answer::Document(id, number);
    }
    let Some(range) = request.range else { return Answer::Whole(id) };
    // RFC 9110 §14.2: ranges are for GET only.
    if request.method != Method::Get {
        return Answer::Whole(id);
    }
    if let Some(tag) = request.if_range
        && !fields::tag_is(tag.of(head), resource.tag().as_bytes())
    {
        return Answer::Whole(id);
    }
    match fields::range(range.of(head), resource.bytes().len()) {
        Range::Whole => Answer::Whole(id),
        Range::Part(start, end) => Answer::Partial(id, start, end),
        Range::Unsatisfiable => Answer::Unsatisfiable(id),
    }
}

/// The form of a resource that the request is for: conditions and ranges are about that one (RFC
/// 9110 §12, §13.1, §14.2).
fn chosen_form(request: &Request, head: &[u8], site: &Site, id: ResourceId) -> ResourceId {
    let Some(gzip) = site.resource(id).gzip() else { return id };
    let mut codings = Codings::default();
    request.accept_encoding.any(b"accept-encoding", head, |value| {
        codings.add(value);
        false
    });
    if codings.prefer_gzip() { gzip } else { id }
}

fn has_conditions(request: &Request) -> bool {
    request.if_match.is_present() || request.if_none_match.is_present()
}

/// Returns the answer because a condition does not hold, if one does not.
fn failed_condition(request: &Request, head: &[u8], site: &Site, id: ResourceId) -> Option<Answer> {
    const MISMATCH: Refusal = Refusal::new(Status::PreconditionFailed, "No entity tag in If-Match is this file's.");
    let resource = site.resource(id);
    let matches = |list: List, name: &[u8], comparison| {
        list.any(name, head, |value| fields::tags_contain(value, resource.tag().as_bytes(), comparison))
    };
    if request.if_match.is_present() && !matches(request.if_match, b"if-match", Comparison::Strong) {
        return Some(Answer::Refused(MISMATCH));
    }
    matches(request.if_none_match, b"if-none-match", Comparison::Weak).then_some(Answer::NotModified(id))
}

/// RFC 9110 §15.4: the new address is for the same request, so its query goes along.
#[cold]
fn redirect(request: &Request, head: &[u8], id: ResourceId) -> Answer {
    const TOO_LONG: Refusal = Refusal::new(Status::UriTooLong, "The query is longer than a redirect can carry on.");
    let target = request.target.of(head);
    let path = target.iter().position(|&byte| byte == b'?').unwrap_or(target.len());
    let query = request.target.skip(path);
    if target.len() - path > limits::REDIRECTED_QUERY { Answer::Refused(TOO_LONG) } else { Answer::Redirect(id, query) }
}
