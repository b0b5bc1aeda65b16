//! Uploads and removals: what each stage asks of the class, and what its answers mean.

use super::properties::{entry, trouble};
use super::{Job, Need, State, Store, Tag, Work};
use alloc::string::String;
use culm_file::{Error, File, Info, NotSent};
use culm_http::files::{Found, Trouble};

/// The work of a slot that changes a file.
pub(super) struct Change {
    /// With the slash in front.
    pub(super) path: String,
    pub(super) stage: Stage,
    /// Bytes of the new file, as far as they are known: it is begun only where they have space.
    pub(super) length: u64,
    /// When it is begun once more, or was: the space that there was not may be free by then.
    pub(super) again_at: Option<u64>,
    /// Whether the stage's request was sent.
    pub(super) is_sent: bool,
    pub(super) found: Option<Result<Found, Trouble>>,
    pub(super) outcome: Option<Result<(), Trouble>>,
    pub(super) file: Option<File>,
    /// It waits for a buffer to fill.
    pub(super) wants_buffer: bool,
    /// The buffer that is being filled, with the bytes in it.
    pub(super) filling: Option<(u16, usize)>,
    pub(super) writes: u8,
    pub(super) failed: Option<Trouble>,
}

#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Stage {
    Finding,
    Creating,
    Writing,
    Committing,
    Removing,
}

impl Change {
    /// Whether the class was asked for what others see, and has not answered.
    pub(super) fn is_changing(&self) -> bool {
        matches!(self.stage, Stage::Committing | Stage::Removing) && self.is_sent && self.outcome.is_none()
    }
}

impl Store {
    /// Sends what the stage of a change needs, or waits for the room that it takes.
    pub(super) fn change(&mut self, slot: u16) {
        let size = self.piece();
        let needs_nothing = match &self.jobs[usize::from(slot)].state {
            State::Changing(change) if change.stage == Stage::Writing => {
                change.filling.is_none_or(|(_, filled)| filled < size)
            }
            State::Changing(change) => change.is_sent,
            _ => true,
        };
        if needs_nothing {
            return;
        }
        if self.is_waited_for(Need::Request) || !self.take_request(slot) {
            self.wait(slot, Need::Request);
        }
    }

    /// Sends what the stage of a change needs. Returns whether there was room for it.
    pub(super) fn take_request(&mut self, slot: u16) -> bool {
        let work = self.work(slot);
        let job = &mut self.jobs[usize::from(slot)];
        let State::Changing(change) = &mut job.state else { return true };
        if change.is_sent {
            return true;
        }
        let tag = Tag::For(work);
        let path = change.path.as_str();
        let sent = match change.stage {
            Stage::Finding => self.client.stat(path, tag),
            Stage::Creating => self.client.create(path, change.length, tag).map(|file| change.file = Some(file)),
            Stage::Removing => self.client.remove(path, Tag::Changed(work)),
            Stage::Writing => return self.send_full(slot, false),
            Stage::Committing => {
                if !self.send_full(slot, true) {
                    return false;
                }
                let State::Changing(change) = &mut self.jobs[usize::from(slot)].state else { return true };
                // A commit makes of a file what was written, if not all of it was: it is sent only
                // when all of it was.
                if change.failed.is_none() && (change.filling.is_some() || change.writes > 0) {
                    return true;
                }
                match (change.failed, change.file) {
                    (Some(trouble), _) => {
                        (change.outcome, change.is_sent) = (Some(Err(trouble)), true);
                        return true;
                    }
                    (None, Some(file)) => self.client.commit(file, Tag::Changed(work)),
                    (None, None) => Err(NotSent::Refused(Error::Lost)),
                }
            }
        };
        let State::Changing(change) = &mut self.jobs[usize::from(slot)].state else { return true };
        match sent {
            Ok(()) => {
                change.is_sent = true;
                if change.is_changing() {
                    self.files_change();
                }
            }
            Err(NotSent::Full | NotSent::Unknown | NotSent::Refused(Error::TooMany)) => return false,
            Err(NotSent::Refused(error)) => {
                change.is_sent = true;
                self.answered(work, Err(error));
            }
        }
        true
    }

    /// Has readers get what is new from now on.
    fn files_change(&mut self) {
        self.has_changed = true;
        self.forget_all();
    }

    /// Sends the buffer of an upload if it is full; or, at its end, if there is anything in it.
    /// Returns whether there was room for that.
    fn send_full(&mut self, slot: u16, is_end: bool) -> bool {
        let work = self.work(slot);
        let size = self.piece();
        let State::Changing(change) = &mut self.jobs[usize::from(slot)].state else { return true };
        let Some((buffer, filled)) = change.filling.filter(|(_, filled)| is_end || *filled == size) else {
            return true;
        };
        if filled == 0 || change.failed.is_some() {
            change.filling = None;
            self.release(buffer);
            return true;
        }
        let Some(file) = change.file else { return true };
        let place = (usize::from(buffer) * self.stride) as u32;
        match self.client.write(file, place, filled as u32, Tag::Wrote(work, buffer)) {
            Ok(()) => (change.filling, change.writes) = (None, change.writes + 1),
            Err(NotSent::Full | NotSent::Unknown) => return false,
            Err(NotSent::Refused(error)) => {
                (change.filling, change.failed) = (None, Some(trouble(error)));
                self.release(buffer);
            }
        }
        true
    }

    pub(super) fn write_ended(&mut self, work: Work, buffer: u16, error: Option<Error>) {
        self.release(buffer);
        if error == Some(Error::Full) {
            self.make_space();
        }
        if let Some(State::Changing(change)) = self.job(work).map(|job| &mut job.state) {
            change.writes = change.writes.saturating_sub(1);
            if let Some(error) = error {
                change.failed = change.failed.or(Some(trouble(error)));
            }
            self.change(work.slot);
            self.tell(work.slot);
        }
    }

    /// A request of a change was answered.
    pub(super) fn answered(&mut self, work: Work, result: Result<Option<Info>, Error>) {
        let (today, has_changed) = (self.today, self.has_changed);
        let may_become_free = result == Err(Error::Full) && self.make_space();
        let again_at = self.now.saturating_add(self.fresh);
        let Some(State::Changing(change)) = self.job(work).map(|job| &mut job.state) else { return };
        match change.stage {
            Stage::Finding => {
                change.found = Some(match result {
                    Ok(Some(info)) if info.is_folder => Ok(Found::Folder),
                    Ok(Some(info)) => Ok(Found::File(entry(&info, today, has_changed))),
                    Ok(None) => Err(Trouble::Failed),
                    Err(Error::NotFound) => Ok(Found::Missing),
                    Err(error) => Err(trouble(error)),
                });
            }
            Stage::Creating if result.is_ok() => {
                (change.stage, change.is_sent, change.outcome) = (Stage::Writing, false, Some(Ok(())));
            }
            Stage::Creating if may_become_free && change.again_at.is_none() => {
                (change.file, change.again_at) = (None, Some(again_at));
                return;
            }
            Stage::Creating | Stage::Writing => {
                (change.file, change.outcome) = (None, Some(result.map(|_| ()).map_err(trouble)));
            }
            Stage::Committing | Stage::Removing => {
                let failed = change.failed;
                change.outcome = Some(failed.map_or(result.map(|_| ()).map_err(trouble), Err));
            }
        }
        self.tell(work.slot);
    }

    /// Begins the new files once more for which there was no space, when their time has come.
    pub(super) fn create_again(&mut self) {
        for index in 0..self.changing.len() {
            let slot = self.changing[index];
            let now = self.now;
            let State::Changing(change) = &mut self.jobs[usize::from(slot)].state else { continue };
            let has_failed = change.is_sent && change.file.is_none() && change.outcome.is_none();
            if change.stage == Stage::Creating && has_failed && change.again_at.is_some_and(|at| at <= now) {
                change.is_sent = false;
                self.change(slot);
            }
        }
    }

    /// Files were changed, or not: also if the slot has turned to other work.
    pub(super) fn changed(&mut self, work: Work, error: Option<Error>) {
        let left = self.left.iter().position(|(left, _)| *left == work);
        let path = match left {
            Some(index) => Some(self.left.swap_remove(index).1),
            None => match self.job(work) {
                Some(Job { state: State::Changing(change), .. }) => Some(change.path.clone()),
                _ => None,
            },
        };
        self.files_change();
        if let Some(path) = path {
            self.replaced(&path);
        }
        self.answered(work, error.map_or(Ok(None), Err));
        // The provider's earlier life may have done it, and may not.
        if error == Some(Error::Lost)
            && let Some(State::Changing(change)) = self.job(work).map(|job| &mut job.state)
        {
            change.outcome = Some(Err(Trouble::Unknown));
        }
    }
}
