//! Bytes of files on their way to readers.

use super::content::NoContent;
use super::properties::trouble;
use super::waiting::Need;
use super::{Job, State, Store, Tag, Work};
use culm_file::{BLOCK, Error, NotSent};
use culm_http::files::Trouble;

/// Bytes of a file on their way.
#[derive(Clone, Copy)]
pub(super) enum Fetch {
    None,
    /// They find no room.
    Wanted {
        at: u64,
        count: u32,
    },
    Asked {
        at: u64,
    },
    Here(Piece),
    /// The whole file is asked for, for all of its readers.
    Content,
    Failed(Trouble),
}

impl Job {
    /// Whether bytes are asked for or here, so that the file must stay open until they are taken;
    /// or wanted by a reader that has lost its turn for a buffer once. If it lost that again, it
    /// would get nothing for as long as others ask for files.
    pub(super) fn is_busy(&self) -> bool {
        match self.state {
            State::Reading { fetch: Fetch::Asked { .. } | Fetch::Here(_) | Fetch::Content, .. } => true,
            State::Reading { fetch: Fetch::Wanted { .. }, .. } => self.has_yielded,
            _ => false,
        }
    }
}

/// Bytes of a file in a buffer: those from `at` to before `end`. The buffer begins with the one at
/// `origin`, the beginning of a block.
#[derive(Clone, Copy)]
pub(super) struct Piece {
    pub(super) buffer: u16,
    pub(super) origin: u64,
    pub(super) at: u64,
    pub(super) end: u64,
}

impl Store {
    /// Asks for bytes of a file, or waits for the room that it takes.
    pub(super) fn ask_for(&mut self, slot: u16, place: u8, at: u64, count: u32) {
        let fetch = self.take_buffer(slot, place, at, count);
        self.set_fetch(slot, fetch);
        if let Fetch::Wanted { .. } = fetch {
            self.wait(slot, Need::Buffer);
        }
    }

    /// Asks for all of a file, or for bytes of it in a buffer that no other slot waits for, if
    /// there is room.
    pub(super) fn take_buffer(&mut self, slot: u16, place: u8, at: u64, count: u32) -> Fetch {
        match self.ask_for_content(slot, place) {
            Ok(fetch) => return fetch,
            Err(NoContent::Full) => return Fetch::Wanted { at, count },
            Err(NoContent::Unfit) => {}
        }
        let Some(file) = self.open[usize::from(place)].file else { return Fetch::Failed(Trouble::Failed) };
        let is_next = self.is_next(slot, Need::Buffer);
        let Some(buffer) = self.free.pop_if(|_| is_next) else { return Fetch::Wanted { at, count } };
        let tag = Tag::Read(self.work(slot), buffer);
        match self.client.read(file, at, self.first_block(buffer), count, tag) {
            Ok(()) => Fetch::Asked { at },
            Err(error) => {
                self.free.push(buffer);
                match error {
                    NotSent::Full | NotSent::Unknown => Fetch::Wanted { at, count },
                    NotSent::Refused(error) => Fetch::Failed(trouble(error)),
                }
            }
        }
    }

    pub(super) fn first_block(&self, buffer: u16) -> u32 {
        (usize::from(buffer) * self.stride) as u32
    }

    /// Bytes that a buffer has room for, wherever they begin within their block.
    pub(super) fn piece(&self) -> usize {
        (self.stride - 1) * BLOCK
    }

    /// Copies bytes from `at` on of those in a buffer. Returns how many.
    pub(super) fn copy(&self, piece: Piece, at: u64, into: &mut [u8]) -> usize {
        let Some(left) = piece.end.checked_sub(at).filter(|_| piece.at <= at) else { return 0 };
        let count = into.len().min(left as usize);
        let place = self.first_block(piece.buffer) as usize * BLOCK + (at - piece.origin) as usize;
        self.client.memory().read(place, &mut into[..count]).map_or(0, |()| count)
    }

    pub(super) fn set_fetch(&mut self, slot: u16, new: Fetch) {
        if let State::Reading { fetch, .. } = &mut self.jobs[usize::from(slot)].state {
            *fetch = new;
        }
    }

    pub(super) fn read_ended(&mut self, work: Work, buffer: u16, result: Result<u32, Error>) {
        let job = self.job(work).map(|job| {
            job.has_yielded = false;
            &mut job.state
        });
        match job {
            Some(State::Reading { fetch, .. }) => {
                let at = match fetch {
                    Fetch::Asked { at } => *at,
                    _ => 0,
                };
                let is_here = match result {
                    Ok(count) if count > 0 => {
                        *fetch = Fetch::Here(Piece {
                            buffer,
                            origin: at - at % BLOCK as u64,
                            at,
                            end: at + u64::from(count),
                        });
                        true
                    }
                    // The file is shorter than its properties said.
                    Ok(_) => {
                        *fetch = Fetch::Failed(Trouble::Failed);
                        false
                    }
                    Err(error) => {
                        *fetch = Fetch::Failed(trouble(error));
                        false
                    }
                };
                if !is_here {
                    self.release(buffer);
                }
                self.tell(work.slot);
            }
            _ => self.release(buffer),
        }
    }

    pub(super) fn release(&mut self, buffer: u16) {
        self.free.push(buffer);
        self.has_room = true;
    }
}
