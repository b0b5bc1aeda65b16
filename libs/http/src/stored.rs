//! A connection's dealings with the files that are not in memory: sending, replacing, removing one.
//!
//! The request's head stays in the receive buffer until the files have answered, so conditions and
//! ranges are judged by what was found.

mod changes;
mod reading;
mod selection;

use crate::connection::{Connection, Phase, Scratch, Shared, Step, head_of};
use crate::decision::Decision;
use crate::documents::Renderer;
use crate::files::{Files, Found, Purpose};
use crate::limits;
use crate::request::{Method, Request};
use crate::response::Refusal;
use crate::target;
use crate::transport::Stream;
pub(crate) use changes::{Commit, Upload};

/// A request that waits for the files.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Asked {
    request: Request,
    pub(crate) decision: Decision,
    stage: Stage,
    /// Whether the answer waits for room in the send buffer.
    pub(crate) lacks_room: bool,
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
        Self { request, decision, stage: Stage::Finding, lacks_room: false }
    }
}

/// Bytes of a response's head that is written here, of a refusal too. With a `Cache-Control` of up
/// to [`reading::CACHE_CONTROL`] it fits the smallest send buffer.
const HEAD_ROOM: usize = 1024;

/// Bytes of a path with the name that answers for a folder.
pub(crate) const NAME: usize = limits::STORED_PATH + INDEX.len();

const INDEX: &str = "index.html";

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
        let asked = Asked { lacks_room: false, ..asked };
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
