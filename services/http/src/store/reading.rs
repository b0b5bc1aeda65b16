//! Bytes of files on their way to readers.

use super::properties::trouble;
use super::waiting::Need;
use super::{State, Store, Tag, Work};
use culm_file::{Error, NotSent};
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
    Here {
        at: u64,
        buffer: u16,
        count: u32,
    },
    Failed(Trouble),
}

impl Store {
    /// Asks for bytes of a file, or waits for the room that it takes.
    pub(super) fn fetch(&mut self, slot: u16, place: u8, at: u64, count: u32) {
        let fetch = match self.is_waited_for(Need::Buffer) {
            true => Fetch::Wanted { at, count },
            false => self.take_buffer(slot, place, at, count),
        };
        self.set_fetch(slot, fetch);
        if let Fetch::Wanted { .. } = fetch {
            self.wait(slot, Need::Buffer);
        }
    }

    /// Asks for bytes of a file if there is room.
    pub(super) fn take_buffer(&mut self, slot: u16, place: u8, at: u64, count: u32) -> Fetch {
        let Some(file) = self.open[usize::from(place)].file else { return Fetch::Failed(Trouble::Failed) };
        let Some(buffer) = self.free.pop() else { return Fetch::Wanted { at, count } };
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

    pub(super) fn set_fetch(&mut self, slot: u16, new: Fetch) {
        if let State::Reading { fetch, .. } = &mut self.jobs[usize::from(slot)].state {
            *fetch = new;
        }
    }

    pub(super) fn read_ended(&mut self, work: Work, buffer: u16, result: Result<u32, Error>) {
        match self.job(work).map(|job| &mut job.state) {
            Some(State::Reading { fetch, .. }) => {
                let at = match fetch {
                    Fetch::Asked { at } => *at,
                    _ => 0,
                };
                let is_here = match result {
                    Ok(count) if count > 0 => {
                        *fetch = Fetch::Here { at, buffer, count };
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
