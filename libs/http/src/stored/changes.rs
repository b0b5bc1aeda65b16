//! Replacing and removing a file.
//!
//! An upload is refused before its content is read, wherever its head says enough for that; then,
//! and only then, `100 Continue` is sent to a client that waits for it. What was taken of an upload
//! that does not come to its end is dropped.

use super::selection::{MISMATCH, Tag, failed_condition};
use super::{Asked, HEAD_ROOM, Stage};
use crate::connection::{Connection, Phase, Scratch, Shared, Step, head_of, put};
use crate::content::{Content, Piece};
use crate::decision::{self, After, Decision};
use crate::documents::Renderer;
use crate::fields;
use crate::files::{Files, Found, Offer, Permission, Purpose, Trouble};
use crate::limits;
use crate::request::{Expect, Framing, Method, Request};
use crate::response::{Head, Persistence, Refusal, Status};
use crate::transport::Stream;

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

const CONTINUE: &[u8] = b"HTTP/1.1 100 Continue\r\n\r\n";

impl Connection {
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
    pub(super) fn replace<S: Stream, R: Renderer, F: Files>(
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
    pub(super) fn remove<S: Stream, R: Renderer, F: Files>(
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

    pub(super) fn removed<S: Stream, R: Renderer, F: Files>(
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
    pub(super) fn begin_upload<S: Stream, R: Renderer, F: Files>(
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
