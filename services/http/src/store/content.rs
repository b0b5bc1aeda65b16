//! The content of files that fit a buffer: read once for all who read the open file.
//!
//! It goes with the open file. A file that is open does not change (the class has new content at
//! another place), so what was read of it holds for as long as it is open; and whatever has a file
//! opened anew, time or a change, has its content read anew. Where room is needed, the content that
//! was used longest ago gives way, but none that was used in the same round: those who waited for
//! it have their turn in that.

use super::properties::trouble;
use super::reading::{Fetch, Piece};
use super::{State, Store, Tag};
use culm_file::{Error, NotSent};
use culm_http::files::Trouble;

/// The content of an open file.
#[derive(Clone, Copy, Default, PartialEq, Eq)]
pub(super) enum Content {
    /// It is not in memory.
    #[default]
    None,
    /// It is asked for.
    Asked { buffer: u16 },
    /// It is here, and was used last at this time.
    Here { buffer: u16, length: u64, used: u64 },
}

/// The reason why content is not asked for.
pub(super) enum NoContent {
    /// It is none of a file that fits a buffer, or all buffers are in use.
    Unfit,
    /// There is no room for a request.
    Full,
}

impl Store {
    /// The content from `at` on of the file that is open at a place, if it is here.
    #[inline]
    pub(super) fn kept_content(&mut self, place: u8, at: u64) -> Option<Piece> {
        match &mut self.open[usize::from(place)].content {
            Content::Here { buffer, length, used } if at < *length => {
                *used = self.now;
                Some(Piece { buffer: *buffer, origin: 0, at, end: *length })
            }
            _ => None,
        }
    }

    /// Asks for all of the file that a slot reads, unless that is asked for, or here.
    pub(super) fn ask_for_content(&mut self, slot: u16, place: u8) -> Result<Fetch, NoContent> {
        let shared = &self.open[usize::from(place)];
        match shared.content {
            Content::Here { .. } => return Ok(Fetch::None),
            Content::Asked { .. } => {}
            Content::None => {
                let (Some(file), Some(Ok(info))) = (shared.file, shared.found) else { return Err(NoContent::Unfit) };
                if !(1..=self.piece() as u64).contains(&info.size) {
                    return Err(NoContent::Unfit);
                }
                let life = shared.life;
                let buffer = self.room_for_content().ok_or(NoContent::Unfit)?;
                let tag = Tag::Content { place, life, buffer };
                if let Err(error) = self.client.read(file, 0, self.first_block(buffer), info.size as u32, tag) {
                    self.free_for_content.push(buffer);
                    return match error {
                        NotSent::Full | NotSent::Unknown => Err(NoContent::Full),
                        NotSent::Refused(error) => Ok(Fetch::Failed(trouble(error))),
                    };
                }
                self.open[usize::from(place)].content = Content::Asked { buffer };
            }
        }
        self.open[usize::from(place)].waiting.push(slot);
        Ok(Fetch::Content)
    }

    /// A buffer for content: a free one, or that of the content that was used longest ago.
    fn room_for_content(&mut self) -> Option<u16> {
        if let Some(buffer) = self.free_for_content.pop() {
            return Some(buffer);
        }
        let used = |content: &Content| match content {
            Content::Here { used, .. } if *used < self.now => Some(*used),
            _ => None,
        };
        let old = self.open.iter_mut().filter_map(|shared| Some((used(&shared.content)?, &mut shared.content)));
        let (_, oldest) = old.min_by_key(|(used, _)| *used)?;
        match core::mem::take(oldest) {
            Content::Here { buffer, .. } => Some(buffer),
            Content::None | Content::Asked { .. } => None,
        }
    }

    /// Gives back the buffer of a place's content. What is asked for gives it back when it comes.
    pub(super) fn forget_content(&mut self, place: usize) {
        if let Content::Here { buffer, .. } = core::mem::take(&mut self.open[place].content) {
            self.free_for_content.push(buffer);
        }
    }

    /// The content of a file was read, or was not.
    pub(super) fn content_ended(&mut self, place: u8, life: u32, buffer: u16, result: Result<u32, Error>) {
        let shared = self.open.get_mut(usize::from(place));
        let asked = shared.filter(|shared| shared.life == life && shared.content == Content::Asked { buffer });
        let Some(shared) = asked else { return self.free_for_content.push(buffer) };
        let size = shared.found.and_then(Result::ok).map_or(0, |info| info.size);
        let result = match result {
            Ok(count) if u64::from(count) == size => {
                shared.content = Content::Here { buffer, length: size, used: self.now };
                Fetch::None
            }
            // The file is shorter than its properties said.
            Ok(_) => Fetch::Failed(Trouble::Failed),
            Err(error) => Fetch::Failed(trouble(error)),
        };
        let waiting = core::mem::take(&mut shared.waiting);
        if let Fetch::Failed(_) = result {
            shared.content = Content::None;
            self.free_for_content.push(buffer);
        }
        for slot in waiting {
            match &mut self.jobs[usize::from(slot)].state {
                State::Reading { place: other, fetch, .. } if *other == place => *fetch = result,
                _ => {}
            }
            self.tell(slot);
        }
    }
}
