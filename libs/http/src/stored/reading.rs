//! Sending a file, or the word that there is none.

use super::selection::{Selected, Tag, is_plain, select};
use super::{Asked, HEAD_ROOM, path};
use crate::connection::{Body, Connection, Phase, Shared, Source, Step, head_of, put};
use crate::documents::Renderer;
use crate::files::{Entry, Files, Found, Purpose, Trouble};
use crate::limits;
use crate::media;
use crate::response::{self, Head, Refusal, Status};
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
        let selected = match is_plain(&request) {
            true => Selected::Whole,
            false => select(&request, head_of(&request, stream, &mut shared.scratch.head), entry),
        };
        let (start, end) = match selected {
            Selected::Whole => (0, entry.length as usize),
            Selected::Part(start, end) => (start, end),
            Selected::NotModified => (0, 0),
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
        let end = if decision.with_body { end } else { start };
        if start < end
            && let Some(step) = self.await_beginning(asked, start, end, stream, shared)
        {
            return step;
        }
        if put_head(self.slot, &asked, selected, entry, stream, shared).is_none() {
            return self.await_room(asked);
        }
        self.begin_body(
            decision,
            Body { source: Source::Stored { is_asked: true }, at: start, end, after: decision.after },
            stream,
            shared,
        )
    }

    /// Has the beginning of a body here before its head is sent: so both are in one packet, and it
    /// can still be said if the file cannot be read. Returns the connection's next need if there is
    /// nothing to send yet.
    fn await_beginning<S: Stream, R: Renderer, F: Files>(
        &mut self,
        asked: Asked,
        start: usize,
        end: usize,
        stream: &mut S,
        shared: &mut Shared<R, F>,
    ) -> Option<Step> {
        let room = stream.room().saturating_sub(HEAD_ROOM);
        if is_crowded(room, end - start, stream) {
            return Some(self.await_room(asked));
        }
        match shared.files.fetch(usize::from(self.slot), start as u64, (end - start).min(room).max(1)) {
            Ok(0) => Some(Step::Wait),
            Ok(_) => None,
            // Nothing of it was sent yet.
            Err(Trouble::Changed) => {
                shared.files.close(usize::from(self.slot));
                self.begin_at_path(&asked.request, Purpose::Read, stream, shared);
                Some(Step::Again)
            }
            Err(trouble) => Some(self.turn_away(asked, trouble.refusal(), stream, shared)),
        }
    }

    /// Waits until the client has acknowledged some of what it was sent.
    fn await_room(&mut self, asked: Asked) -> Step {
        self.phase = Phase::Asking(Asked { lacks_room: true, ..asked });
        Step::Wait
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

    /// Sends what is here of a file, and asks for more. What was asked for is sent however little
    /// room there is: it takes memory that others wait for until it is all sent. It always fits,
    /// since no more is asked for than there is room.
    pub(crate) fn send_stored<S: Stream, R: Renderer, F: Files>(
        &mut self,
        mut body: Body,
        mut is_asked: bool,
        stream: &mut S,
        shared: &mut Shared<R, F>,
    ) -> Step {
        let slot = usize::from(self.slot);
        while body.at < body.end {
            body.source = Source::Stored { is_asked };
            self.phase = Phase::Sending(body);
            let left = body.end - body.at;
            let room = stream.room();
            if room == 0 || (!is_asked && is_crowded(room, left, stream)) {
                return Step::Wait;
            }
            let at = body.at as u64;
            let (count, sent) = match shared.files.fetch(slot, at, left.min(room)) {
                Ok(0) => {
                    body.source = Source::Stored { is_asked: true };
                    self.phase = Phase::Sending(body);
                    return Step::Wait;
                }
                Ok(count) => (count, stream.send_with(count, |into| shared.files.take(slot, at, into))),
                Err(_) => (0, 0),
            };
            if sent == 0 {
                // The length was promised: that it is not kept must be seen.
                self.forget(shared);
                stream.abort();
                return Step::Over;
            }
            shared.tally.bytes += sent as u64;
            self.since = shared.now;
            body.at += sent;
            is_asked = sent < count;
        }
        shared.files.close(slot);
        self.end_response(body.after, stream, shared)
    }
}

/// Whether to wait for more room before bytes are asked for, of which so many are left: small reads
/// cost as much as large ones.
fn is_crowded<S: Stream>(room: usize, left: usize, stream: &S) -> bool {
    room < left.min(WORTHWHILE) && stream.unacknowledged() > 0
}

/// Sends the head of a response with a file, or a part of it, or the word that it is the same.
fn put_head<S: Stream, R: Renderer, F: Files>(
    slot: u16,
    asked: &Asked,
    selected: Selected,
    entry: &Entry,
    stream: &mut S,
    shared: &mut Shared<R, F>,
) -> Option<()> {
    let Shared { scratch, files, date, tally, .. } = shared;
    let is_whole = matches!(selected, Selected::Whole);
    let (date, tail) = (date.field(), asked.decision.persistence.tail());
    let kept = if is_whole { files.kept_head(usize::from(slot)) } else { None };
    if let Some(head) = kept.and_then(|kept| kept.of(entry)) {
        return put(&[head, date, tail], stream, tally);
    }
    // There is a path, since the file was found by it.
    let path = path(&asked.request, Purpose::Read, stream, scratch).unwrap_or_default();
    let head = head(selected, entry, path, files.cache_control(path));
    put(&[head.as_bytes(), date, tail], stream, tally)?;
    if is_whole && let Some(kept) = files.kept_head(usize::from(slot)) {
        kept.keep(head, entry);
    }
    Some(())
}

/// The head of a response with a file, without its date and its end.
fn head(selected: Selected, entry: &Entry, path: &str, caching: &str) -> Head {
    let mut head = match selected {
        Selected::Part(start, end) => response::partial(start, end, entry.length as usize),
        Selected::NotModified => Head::new(Status::NotModified),
        _ => Head::new(Status::Ok),
    };
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
    head.push(Tag::of(entry).as_bytes());
    if let Some(modified) = &entry.modified {
        head.push(b"\r\nLast-Modified: ");
        head.push(modified);
    }
    head.push(b"\r\nCache-Control: ");
    head.push(if caching.len() > CACHE_CONTROL { "no-cache" } else { caching }.as_bytes());
    head.push(b"\r\n");
    head
}
