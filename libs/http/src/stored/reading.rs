//! Sending a file, or the word that there is none.

use super::selection::{Selected, Tag, select};
use super::{Asked, path};
use crate::connection::{Body, Connection, Phase, Shared, Source, Step, head_of, put};
use crate::documents::Renderer;
use crate::files::{Entry, Files, Found, Purpose, Trouble};
use crate::limits;
use crate::media;
use crate::request::Request;
use crate::response::{self, Head, Persistence, Refusal, Status};
use crate::target;
use crate::transport::Stream;

/// Bytes of a `Cache-Control` beyond which it is left out.
pub(super) const CACHE_CONTROL: usize = 512;

/// Bytes that make it worth asking the files for more, where there is more.
const WORTHWHILE: usize = 8 * 1024;

impl Connection {
    /// Answers a GET or HEAD.
    pub(super) fn respond<S: Stream, R: Renderer, F: Files>(
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
    pub(super) fn miss<S: Stream, R: Renderer, F: Files>(
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
