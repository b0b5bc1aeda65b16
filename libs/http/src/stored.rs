//! A connection's dealings with the files that are not in memory: sending, replacing, removing one.
//!
//! The request's head stays in the receive buffer until the files have answered, so conditions and
//! ranges are judged by what was found. An upload is refused before its content is read, wherever
//! its head says enough for that; then, and only then, `100 Continue` is sent to a client that
//! waits for it. What was taken of an upload that does not come to its end is dropped.

use crate::connection::{Body, Connection, Phase, Scratch, Shared, Source, Step, head_of, put};
use crate::content::{Content, Piece};
use crate::decision::{self, After, Decision};
use crate::documents::Renderer;
use crate::fields::{self, Comparison, Range};
use crate::files::{Entry, Files, Found, Offer, Permission, Purpose, Trouble};
use crate::limits;
use crate::media;
use crate::request::{Expect, Framing, Method, Request};
use crate::response::{self, Head, Persistence, Refusal, Status};
use crate::target;
use crate::transport::Stream;

/// A request that waits for the files.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Asked {
    request: Request,
    pub(crate) decision: Decision,
    stage: Stage,
}

#[derive(Clone, Copy, Debug)]
enum Stage {
    /// The path is looked up.
    Finding,
    /// A new file is begun, where there was one or not.
    Creating { replaces: bool },
    /// The file is removed.
    Removing,
}

impl Asked {
    pub(crate) fn new(request: Request, decision: Decision) -> Self {
        Self { request, decision, stage: Stage::Finding }
    }
}

/// An upload under way.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Upload {
    commit: Commit,
    content: Content,
    /// Bytes of content that were taken.
    taken: u64,
    /// Bytes of it that give the client more time.
    milestone: u64,
    /// Bytes of it at most.
    limit: u64,
    /// Whether the files took less than there was.
    pub(crate) is_held_up: bool,
}

/// The answer to an upload that has ended well.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Commit {
    replaces: bool,
    persistence: Persistence,
    after: After,
}

/// Bytes of a response's head that is written here, of a refusal too. With a `Cache-Control` of up
/// to [`CACHE_CONTROL`] it fits the smallest send buffer.
const HEAD_ROOM: usize = 1024;

/// Bytes of a `Cache-Control` beyond which it is left out.
const CACHE_CONTROL: usize = 512;

/// Bytes that make it worth asking the files for more, where there is more.
const WORTHWHILE: usize = 8 * 1024;

/// Bytes of a path with the name that answers for a folder.
pub(crate) const NAME: usize = limits::STORED_PATH + INDEX.len();

const INDEX: &str = "index.html";

const CONTINUE: &[u8] = b"HTTP/1.1 100 Continue\r\n\r\n";

const MISMATCH: Refusal = Refusal::new(Status::PreconditionFailed, "No entity tag in If-Match is this file's.");
const EXISTS: Refusal = Refusal::new(Status::PreconditionFailed, "The file that If-None-Match excludes is there.");
const CHANGED: Refusal = Refusal::new(Status::PreconditionFailed, "The file was changed after If-Unmodified-Since.");

impl Connection {
    /// Begins to look for what a GET or HEAD asks for.
    pub(crate) fn look_up<S: Stream, R: Renderer, F: Files>(
        &mut self,
        asked: Asked,
        stream: &mut S,
        shared: &mut Shared<R, F>,
    ) -> Step {
        if !self.begin_at_path(&asked.request, Purpose::Read, stream, shared) {
            return self.respond(asked, Ok(Found::Missing), stream, shared);
        }
        self.ask(asked, stream, shared)
    }

    /// Begins something at a request's path. Returns whether there may be a file with such a path.
    fn begin_at_path<S: Stream, R: Renderer, F: Files>(
        &mut self,
        request: &Request,
        purpose: Purpose,
        stream: &mut S,
        shared: &mut Shared<R, F>,
    ) -> bool {
        self.since = shared.now;
        let Shared { scratch, files, .. } = shared;
        let Some(path) = path(request, purpose, stream, scratch) else { return false };
        files.begin(usize::from(self.slot), purpose, path);
        true
    }

    /// Goes on with a request that waits for the files.
    pub(crate) fn ask<S: Stream, R: Renderer, F: Files>(
        &mut self,
        asked: Asked,
        stream: &mut S,
        shared: &mut Shared<R, F>,
    ) -> Step {
        let slot = usize::from(self.slot);
        self.phase = Phase::Asking(asked);
        match asked.stage {
            Stage::Finding => match shared.files.found(slot) {
                Some(found) if asked.request.method == Method::Put => self.replace(asked, found, stream, shared),
                Some(found) if asked.request.method == Method::Delete => self.remove(asked, found, stream, shared),
                Some(found) => self.respond(asked, found, stream, shared),
                None => Step::Wait,
            },
            Stage::Creating { replaces } => match shared.files.done(slot) {
                Some(Ok(())) => self.begin_upload(asked, replaces, stream, shared),
                Some(Err(trouble)) => self.turn_away(asked, trouble.refusal(), stream, shared),
                None => Step::Wait,
            },
            Stage::Removing => match shared.files.done(slot) {
                Some(Ok(())) => self.removed(asked, stream, shared),
                Some(Err(trouble)) => self.turn_away(asked, trouble.refusal(), stream, shared),
                None => Step::Wait,
            },
        }
    }

    /// Refuses a request that waits for the files.
    #[cold]
    fn turn_away<S: Stream, R: Renderer, F: Files>(
        &mut self,
        asked: Asked,
        refusal: Refusal,
        stream: &mut S,
        shared: &mut Shared<R, F>,
    ) -> Step {
        self.close_if_begun(
            asked,
            |connection, shared| connection.begin_refusal(refusal, asked.decision, stream, shared),
            shared,
        )
    }

    /// Begins an answer that needs no file any more. If it finds no room, the request goes on
    /// waiting.
    fn close_if_begun<R: Renderer, F: Files>(
        &mut self,
        asked: Asked,
        begin: impl FnOnce(&mut Self, &mut Shared<R, F>) -> Option<Step>,
        shared: &mut Shared<R, F>,
    ) -> Step {
        match begin(self, shared) {
            Some(step) => {
                shared.files.close(usize::from(self.slot));
                step
            }
            None => {
                self.phase = Phase::Asking(asked);
                Step::Wait
            }
        }
    }

    /// Answers a GET or HEAD.
    fn respond<S: Stream, R: Renderer, F: Files>(
        &mut self,
        asked: Asked,
        found: Result<Found, Trouble>,
        stream: &mut S,
        shared: &mut Shared<R, F>,
    ) -> Step {
        match found {
            Ok(Found::File(entry)) => self.respond_file(asked, &entry, stream, shared),
            Ok(Found::Folder) => {
                self.close_if_begun(asked, |connection, shared| connection.redirect(asked, stream, shared), shared)
            }
            Ok(Found::Missing) | Err(Trouble::BadName | Trouble::NoFolder) => {
                self.close_if_begun(asked, |connection, shared| connection.miss(asked, stream, shared), shared)
            }
            Err(trouble) => self.turn_away(asked, trouble.refusal(), stream, shared),
        }
    }

    fn respond_file<S: Stream, R: Renderer, F: Files>(
        &mut self,
        asked: Asked,
        entry: &Entry,
        stream: &mut S,
        shared: &mut Shared<R, F>,
    ) -> Step {
        let Asked { request, decision, .. } = asked;
        let tag = Tag::of(entry);
        let selected = {
            let head = head_of(&request, stream, &mut shared.scratch.head);
            select(&request, head, entry, &tag)
        };
        let (head, start, end) = match selected {
            Selected::Part(start, end) => (response::partial(start, end, entry.length as usize), start, end),
            Selected::Whole => (Head::new(Status::Ok), 0, entry.length as usize),
            Selected::NotModified => (Head::new(Status::NotModified), 0, 0),
            Selected::Failed(refusal) => return self.turn_away(asked, refusal, stream, shared),
            Selected::Unsatisfiable => {
                let begin = |connection: &mut Self, shared: &mut Shared<R, F>| {
                    let whole = entry.length as usize;
                    let head = response::unsatisfiable(whole, &shared.date, decision.persistence);
                    connection.begin_fixed(&head, decision, stream, shared)
                };
                return self.close_if_begun(asked, begin, shared);
            }
        };
        if put_head(head, &request, selected, entry, &tag, decision.persistence, stream, shared).is_none() {
            self.phase = Phase::Asking(asked);
            return Step::Wait;
        }
        let end = if decision.with_body { end } else { start };
        self.begin_body(
            decision,
            Body { source: Source::Stored, at: start, end, after: decision.after },
            stream,
            shared,
        )
    }

    /// The answer for a path at which nothing is.
    #[cold]
    fn miss<S: Stream, R: Renderer, F: Files>(
        &mut self,
        asked: Asked,
        stream: &mut S,
        shared: &mut Shared<R, F>,
    ) -> Option<Step> {
        let Asked { decision, .. } = asked;
        let id = shared.site.not_found();
        let resource = shared.site.resource(id);
        put(&[resource.head(), shared.date.field(), decision.persistence.tail()], stream, &mut shared.tally)?;
        shared.tally.requests_refused += 1;
        let end = if decision.with_body { resource.bytes().len() } else { 0 };
        Some(self.begin_body(
            decision,
            Body { source: Source::Resource(id), at: 0, end, after: decision.after },
            stream,
            shared,
        ))
    }

    /// The answer for a folder without its slash.
    #[cold]
    fn redirect<S: Stream, R: Renderer, F: Files>(
        &mut self,
        asked: Asked,
        stream: &mut S,
        shared: &mut Shared<R, F>,
    ) -> Option<Step> {
        const TOO_LONG: Refusal = Refusal::new(Status::UriTooLong, "The path is longer than a redirect can carry on.");
        let Asked { request, decision, .. } = asked;
        let scratch = &mut *shared.scratch;
        let length = usize::from(request.length);
        stream.copy_received(&mut scratch.head[..length]);
        let (path, query) = target::split(request.target.of(&scratch.head[..length]));
        if path.len() + query.len() > limits::REDIRECTED_QUERY {
            return self.begin_refusal(TOO_LONG, decision, stream, shared);
        }
        let head = Head::new(Status::MovedPermanently);
        let fields: &[u8] = b"Content-Length: 0\r\nLocation: ";
        let (date, tail) = (shared.date.field(), decision.persistence.tail());
        put(&[head.as_bytes(), fields, path, b"/", query, b"\r\n", date, tail], stream, &mut shared.tally)?;
        self.consume_head(decision, stream);
        Some(self.end_response(decision.after, stream, shared))
    }

    /// Sends what is here of a file, and asks for more.
    pub(crate) fn send_stored<S: Stream, R: Renderer, F: Files>(
        &mut self,
        mut body: Body,
        stream: &mut S,
        shared: &mut Shared<R, F>,
    ) -> Step {
        let slot = usize::from(self.slot);
        while body.at < body.end {
            self.phase = Phase::Sending(body);
            let left = body.end - body.at;
            let room = stream.room();
            // Small reads cost as much as large ones.
            if room < left.min(WORTHWHILE) && stream.unacknowledged() > 0 {
                return Step::Wait;
            }
            let count = left.min(room);
            let taken = match shared.files.read(slot, body.at as u64, count) {
                Ok(bytes) => stream.send(&bytes[..bytes.len().min(count)]),
                Err(_) => {
                    // The length was promised: that it is not kept must be seen.
                    self.forget(shared);
                    stream.abort();
                    return Step::Over;
                }
            };
            if taken == 0 {
                return Step::Wait;
            }
            shared.tally.bytes += taken as u64;
            self.since = shared.now;
            body.at += taken;
        }
        shared.files.close(slot);
        self.end_response(body.after, stream, shared)
    }

    /// Begins to replace or remove a file, if the client may and its request's head says nothing
    /// that stands against it.
    #[cold]
    pub(crate) fn begin_change<S: Stream, R: Renderer, F: Files>(
        &mut self,
        decision: Decision,
        stream: &mut S,
        shared: &mut Shared<R, F>,
    ) -> Option<Step> {
        const DENIED: Refusal = Refusal::new(Status::Unauthorized, "Files are changed by those who have the token.")
            .with("WWW-Authenticate: Bearer realm=\"files\"\r\n");
        const WRONG: Refusal = Refusal::new(Status::Unauthorized, "This is not the token.")
            .with("WWW-Authenticate: Bearer realm=\"files\", error=\"invalid_token\"\r\n");
        const LATER: Refusal =
            Refusal::new(Status::TooManyRequests, "There were too many wrong tokens. Try again later.")
                .with("Retry-After: 10\r\n");
        const NO_PATH: Refusal = Refusal::new(Status::BadRequest, "No file can have this path here.");
        // A guess counts once: not again if its answer finds no room.
        if stream.room() < HEAD_ROOM {
            return None;
        }
        let request = *self.parser.request();
        let peer = stream.peer();
        let head = head_of(&request, stream, &mut shared.scratch.head);
        let token = request.authorization.and_then(|field| fields::bearer(field.of(head)));
        let refusal = match shared.files.permit(token, peer, shared.now) {
            Permission::Granted => refused_upload(&request, shared.offer),
            Permission::Denied if token.is_some() => Some(WRONG),
            Permission::Denied => Some(DENIED),
            Permission::Later => Some(LATER),
        };
        if let Some(refusal) = refusal {
            return self.begin_refusal(refusal, decision, stream, shared);
        }
        if !self.begin_at_path(&request, Purpose::Change, stream, shared) {
            return self.begin_refusal(NO_PATH, decision, stream, shared);
        }
        Some(self.ask(Asked::new(request, decision), stream, shared))
    }

    /// Begins the new file, if the old one allows it.
    fn replace<S: Stream, R: Renderer, F: Files>(
        &mut self,
        asked: Asked,
        found: Result<Found, Trouble>,
        stream: &mut S,
        shared: &mut Shared<R, F>,
    ) -> Step {
        if let Some(refusal) = refused_change(&asked.request, found, stream, &mut shared.scratch) {
            return self.turn_away(asked, refusal, stream, shared);
        }
        let length = match asked.request.framing {
            Framing::Length(length) => Some(length),
            _ => None,
        };
        shared.files.replace(usize::from(self.slot), length);
        let stage = Stage::Creating { replaces: matches!(found, Ok(Found::File(_))) };
        self.ask(Asked { stage, ..asked }, stream, shared)
    }

    /// Begins to remove the file, if it allows it.
    fn remove<S: Stream, R: Renderer, F: Files>(
        &mut self,
        asked: Asked,
        found: Result<Found, Trouble>,
        stream: &mut S,
        shared: &mut Shared<R, F>,
    ) -> Step {
        if let Some(refusal) = refused_change(&asked.request, found, stream, &mut shared.scratch) {
            return self.turn_away(asked, refusal, stream, shared);
        }
        if matches!(found, Ok(Found::Missing)) {
            return self.close_if_begun(asked, |connection, shared| connection.miss(asked, stream, shared), shared);
        }
        shared.files.remove(usize::from(self.slot));
        self.ask(Asked { stage: Stage::Removing, ..asked }, stream, shared)
    }

    fn removed<S: Stream, R: Renderer, F: Files>(
        &mut self,
        asked: Asked,
        stream: &mut S,
        shared: &mut Shared<R, F>,
    ) -> Step {
        let Asked { decision, .. } = asked;
        let begin = |connection: &mut Self, shared: &mut Shared<R, F>| {
            put_changed(Status::NoContent, decision.persistence, stream, shared)?;
            connection.consume_head(decision, stream);
            Some(connection.end_response(decision.after, stream, shared))
        };
        self.close_if_begun(asked, begin, shared)
    }

    /// Begins to take an upload, which nothing stands against any more.
    fn begin_upload<S: Stream, R: Renderer, F: Files>(
        &mut self,
        asked: Asked,
        replaces: bool,
        stream: &mut S,
        shared: &mut Shared<R, F>,
    ) -> Step {
        let Asked { request, decision, .. } = asked;
        // RFC 9110 §10.1.1: it may be left out if content has come already.
        let has_content = stream.received_count() > usize::from(request.length);
        if request.expect == Expect::Continue && !has_content && put(&[CONTINUE], stream, &mut shared.tally).is_none() {
            return Step::Wait;
        }
        self.consume_head(decision, stream);
        self.since = shared.now;
        let (content, limit) = match (request.framing, shared.offer) {
            (Framing::Length(length), _) => (Content::plain(length), length),
            (_, Offer::Write { limit }) => (Content::chunked(), limit),
            (_, Offer::Nothing | Offer::Read) => (Content::chunked(), 0),
        };
        // All of the content is read before the answer.
        let (persistence, after) = decision::persistence(&request, Some(0));
        let commit = Commit { replaces, persistence, after };
        let milestone = limits::UPLOAD_PIECE;
        self.upload(Upload { commit, content, taken: 0, milestone, limit, is_held_up: false }, stream, shared)
    }

    /// Takes what has come of an upload.
    pub(crate) fn upload<S: Stream, R: Renderer, F: Files>(
        &mut self,
        mut upload: Upload,
        stream: &mut S,
        shared: &mut Shared<R, F>,
    ) -> Step {
        const TOO_LARGE: Refusal =
            Refusal::new(Status::ContentTooLarge, "The content is longer than an upload may be.");
        let slot = usize::from(self.slot);
        loop {
            let bytes = stream.received();
            let piece = match upload.content.next(bytes) {
                Ok(piece) => piece,
                Err(refusal) => return self.break_off(refusal, true, stream, shared),
            };
            match piece {
                Piece::Framing(count) => stream.consume(count),
                Piece::Content(count) if count as u64 > upload.limit - upload.taken => {
                    return self.break_off(TOO_LARGE, true, stream, shared);
                }
                Piece::Content(count) => {
                    let count = match shared.files.write(slot, &bytes[..count]) {
                        Ok(taken) => taken.min(count),
                        Err(trouble) => return self.break_off(trouble.refusal(), true, stream, shared),
                    };
                    // The client's time does not run while the files take none.
                    if upload.is_held_up {
                        self.since = shared.now;
                    }
                    upload.is_held_up = count == 0;
                    if count == 0 {
                        self.phase = Phase::Uploading(upload);
                        return Step::Wait;
                    }
                    upload.content.take(count);
                    upload.taken += count as u64;
                    stream.consume(count);
                    if upload.taken >= upload.milestone {
                        upload.milestone = upload.taken + limits::UPLOAD_PIECE;
                        self.since = shared.now;
                    }
                }
                Piece::Wait => {
                    self.phase = Phase::Uploading(upload);
                    if !stream.ended() {
                        return Step::Wait;
                    }
                    self.forget(shared);
                    return self.finish(stream, shared);
                }
                Piece::End => {
                    shared.files.commit(slot);
                    self.since = shared.now;
                    return self.commit(upload.commit, stream, shared);
                }
            }
        }
    }

    /// Answers an upload when it is there to stay.
    pub(crate) fn commit<S: Stream, R: Renderer, F: Files>(
        &mut self,
        commit: Commit,
        stream: &mut S,
        shared: &mut Shared<R, F>,
    ) -> Step {
        self.phase = Phase::Committing(commit);
        match shared.files.done(usize::from(self.slot)) {
            None => Step::Wait,
            Some(Err(trouble)) => self.break_off(trouble.refusal(), true, stream, shared),
            Some(Ok(())) => {
                let status = if commit.replaces { Status::NoContent } else { Status::Created };
                if put_changed(status, commit.persistence, stream, shared).is_none() {
                    return Step::Wait;
                }
                shared.files.close(usize::from(self.slot));
                self.end_response(commit.after, stream, shared)
            }
        }
    }
}

/// The path of the file that a request names, without its first slash; nothing if no file can have
/// it. A folder that is to be read is answered for by the file in it.
fn path<'b, S: Stream>(
    request: &Request,
    purpose: Purpose,
    stream: &'b mut S,
    scratch: &'b mut Scratch,
) -> Option<&'b str> {
    let Scratch { head, path, name } = scratch;
    let head = head_of(request, stream, head);
    // It was found to be good when it was decided that the files are to be asked.
    let path = target::path(request.target.of(head), path).ok()?.bytes;
    let path = path.get(1..).filter(|path| path.len() <= limits::STORED_PATH)?;
    let is_folder = path.is_empty() || path.ends_with(b"/");
    let index = match purpose {
        Purpose::Read if is_folder => INDEX.as_bytes(),
        _ => b"",
    };
    let length = path.len() + index.len();
    let name = name.get_mut(..length)?;
    name[..path.len()].copy_from_slice(path);
    name[path.len()..].copy_from_slice(index);
    let name = core::str::from_utf8(name).ok()?;
    name.split('/').all(|segment| !segment.is_empty()).then_some(name)
}

/// The reason not to take an upload, as far as its head alone says one.
fn refused_upload(request: &Request, offer: Offer) -> Option<Refusal> {
    const NO_LENGTH: Refusal =
        Refusal::new(Status::LengthRequired, "An upload comes with its Content-Length, or in chunks.");
    const PART: Refusal = Refusal::new(Status::BadRequest, "A file is uploaded as a whole: there is no Content-Range.");
    const ENCODED: Refusal =
        Refusal::new(Status::UnsupportedMediaType, "A file is uploaded as it is, without Content-Encoding.")
            .with("Accept-Encoding: identity\r\n");
    const TOO_LARGE: Refusal = Refusal::new(Status::ContentTooLarge, "The content is longer than an upload may be.");
    if request.method != Method::Put {
        return None;
    }
    let limit = match offer {
        Offer::Write { limit } => limit,
        Offer::Nothing | Offer::Read => 0,
    };
    match request.framing {
        // RFC 9110 §14.5.
        _ if request.is_partial => Some(PART),
        _ if request.is_encoded => Some(ENCODED),
        Framing::None => Some(NO_LENGTH),
        Framing::Length(length) if length > limit => Some(TOO_LARGE),
        _ => None,
    }
}

/// The reason not to replace or remove what was found.
fn refused_change<S: Stream>(
    request: &Request,
    found: Result<Found, Trouble>,
    stream: &mut S,
    scratch: &mut Scratch,
) -> Option<Refusal> {
    const FOLDER: Refusal = Refusal::new(Status::Conflict, "This is a folder; only files are replaced and removed.");
    let entry = match found {
        Ok(Found::File(entry)) => Some(entry),
        Ok(Found::Missing) => None,
        Ok(Found::Folder) => return Some(FOLDER),
        Err(trouble) => return Some(trouble.refusal()),
    };
    let head = head_of(request, stream, &mut scratch.head);
    match &entry {
        Some(entry) => failed_condition(request, head, entry, &Tag::of(entry)),
        // RFC 9110 §13.1.1: what is not there matches nothing.
        None => request.if_match.is_present().then_some(MISMATCH),
    }
}

/// What is sent of a file.
#[derive(Clone, Copy)]
enum Selected {
    Whole,
    /// From the first number to before the second.
    Part(usize, usize),
    NotModified,
    Unsatisfiable,
    Failed(Refusal),
}

/// Applies conditions and ranges, in the order of RFC 9110 §13.2.2.
fn select(request: &Request, head: &[u8], entry: &Entry, tag: &Tag) -> Selected {
    if has_conditions(request) {
        if let Some(refusal) = failed_condition(request, head, entry, tag) {
            return if refusal == EXISTS { Selected::NotModified } else { Selected::Failed(refusal) };
        }
        if !request.if_none_match.is_present()
            && entry.is_settled
            && let Some(since) = request.if_modified_since.and_then(|field| fields::date(field.of(head)))
            && modified(entry).is_some_and(|modified| modified <= since)
        {
            return Selected::NotModified;
        }
    }
    let Some(range) = request.range else { return Selected::Whole };
    // RFC 9110 §14.2: ranges are for GET only.
    if request.method != Method::Get || !is_in_range(request, head, entry, tag) {
        return Selected::Whole;
    }
    match fields::range(range.of(head), entry.length as usize) {
        Range::Whole => Selected::Whole,
        Range::Part(start, end) => Selected::Part(start, end),
        Range::Unsatisfiable => Selected::Unsatisfiable,
    }
}

fn has_conditions(request: &Request) -> bool {
    request.if_match.is_present()
        || request.if_none_match.is_present()
        || request.if_modified_since.is_some()
        || request.if_unmodified_since.is_some()
}

/// RFC 9110 §13.1.5: `If-Range` holds for a strong tag, or a date that is a strong validator.
fn is_in_range(request: &Request, head: &[u8], entry: &Entry, tag: &Tag) -> bool {
    let Some(field) = request.if_range else { return true };
    let value = field.of(head);
    let is_date = entry.modified.is_some_and(|modified| value == modified);
    entry.is_settled && (fields::tag_is(value, tag.strong()) || is_date)
}

/// The reason for which a condition does not hold; [`EXISTS`] where that of `If-None-Match` does
/// not. A version that is not settled is no proof that the content is the same: no tag matches it,
/// and no date.
fn failed_condition(request: &Request, head: &[u8], entry: &Entry, tag: &Tag) -> Option<Refusal> {
    if request.if_match.is_present() {
        let is_same = |list: &[u8]| {
            list == b"*" || (entry.is_settled && fields::tags_contain(list, tag.strong(), Comparison::Strong))
        };
        if !request.if_match.any(b"if-match", head, is_same) {
            return Some(MISMATCH);
        }
    } else if let Some(since) = request.if_unmodified_since.and_then(|field| fields::date(field.of(head)))
        && modified(entry).is_none_or(|modified| modified > since || !entry.is_settled)
    {
        return Some(CHANGED);
    }
    let is_same =
        |list: &[u8]| list == b"*" || (entry.is_settled && fields::tags_contain(list, tag.strong(), Comparison::Weak));
    request.if_none_match.any(b"if-none-match", head, is_same).then_some(EXISTS)
}

fn modified(entry: &Entry) -> Option<fields::Moment> {
    fields::date(&entry.modified?)
}

/// Sends the head of a response with a file, or a part of it, or the word that it is the same.
#[expect(clippy::too_many_arguments, reason = "a head says it all")]
fn put_head<S: Stream, R: Renderer, F: Files>(
    mut head: Head,
    request: &Request,
    selected: Selected,
    entry: &Entry,
    tag: &Tag,
    persistence: Persistence,
    stream: &mut S,
    shared: &mut Shared<R, F>,
) -> Option<()> {
    let Shared { scratch, files, .. } = shared;
    // There is one, since the file was found by it.
    let path = path(request, Purpose::Read, stream, scratch).unwrap_or_default();
    if !matches!(selected, Selected::NotModified) {
        head.push(b"Content-Type: ");
        head.push(media::of(path).as_bytes());
        head.push(b"\r\n");
    }
    if let Selected::Whole = selected {
        head.push(b"Content-Length: ");
        head.push_number(entry.length);
        head.push(b"\r\nAccept-Ranges: bytes\r\n");
    }
    head.push(b"ETag: ");
    head.push(tag.as_bytes());
    if let Some(modified) = &entry.modified {
        head.push(b"\r\nLast-Modified: ");
        head.push(modified);
    }
    let caching = files.cache_control(path);
    let caching = if caching.len() > CACHE_CONTROL { "no-cache" } else { caching };
    let field: &[u8] = b"\r\nCache-Control: ";
    let (date, tail) = (shared.date.field(), persistence.tail());
    put(&[head.as_bytes(), field, caching.as_bytes(), b"\r\n", date, tail], stream, &mut shared.tally)
}

/// Sends the response to a change that is done.
fn put_changed<S: Stream, R: Renderer, F: Files>(
    status: Status,
    persistence: Persistence,
    stream: &mut S,
    shared: &mut Shared<R, F>,
) -> Option<()> {
    let head = Head::new(status);
    // RFC 9110 §8.6: a 204 has none.
    let length: &[u8] = if status == Status::NoContent { b"" } else { b"Content-Length: 0\r\n" };
    put(&[head.as_bytes(), length, shared.date.field(), persistence.tail()], stream, &mut shared.tally)
}

/// A file's entity tag: its version and length in hexadecimal, in quotes, with `W/` in front while
/// it is weak.
struct Tag {
    bytes: [u8; 37],
    start: usize,
}

impl Tag {
    const WEAK: &[u8; 2] = b"W/";

    fn of(entry: &Entry) -> Self {
        let mut bytes = [b'-'; 37];
        bytes[..2].copy_from_slice(Self::WEAK);
        (bytes[2], bytes[36]) = (b'"', b'"');
        hexadecimal(entry.version, &mut bytes[3..19]);
        hexadecimal(entry.length, &mut bytes[20..36]);
        Self { bytes, start: if entry.is_settled { 2 } else { 0 } }
    }

    fn as_bytes(&self) -> &[u8] {
        &self.bytes[self.start..]
    }

    /// The tag as it is when it is strong.
    fn strong(&self) -> &[u8] {
        &self.bytes[2..]
    }
}

/// Writes a number with all digits that its type has.
fn hexadecimal(number: u64, into: &mut [u8]) {
    for (byte, shift) in into.iter_mut().zip((0..16).rev()) {
        *byte = b"0123456789abcdef"[(number >> (4 * shift)) as usize & 15];
    }
}
