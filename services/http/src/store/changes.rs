//! Uploads and removals: what each stage asks of the class, and what its answers mean.

use super::properties::{entry, trouble};
use super::{State, Store, Tag, Work};
use alloc::string::String;
use culm_file::{Error, File, Info, Mode, NotSent};
use culm_http::files::{Found, Trouble};

/// The work of a slot that changes a file.
pub(super) struct Change {
    /// With the slash in front.
    pub(super) path: String,
    pub(super) stage: Stage,
    /// Whether the stage's request was sent.
    pub(super) is_sent: bool,
    pub(super) found: Option<Result<Found, Trouble>>,
    pub(super) outcome: Option<Result<(), Trouble>>,
    pub(super) file: Option<File>,
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

impl Store {
    /// Sends what the stage of a change needs, as far as there is room.
    pub(super) fn change(&mut self, slot: u16) {
        let work = self.work(slot);
        let job = &mut self.jobs[usize::from(slot)];
        let State::Changing(change) = &mut job.state else { return };
        if change.is_sent {
            return;
        }
        let tag = Tag::For(work);
        let path = change.path.as_str();
        let sent = match change.stage {
            Stage::Finding => self.client.stat(path, tag),
            Stage::Creating => self.client.open(path, Mode::New, tag).map(|file| change.file = Some(file)),
            Stage::Removing => self.client.remove(path, tag),
            Stage::Writing => return self.send_full(slot, false),
            Stage::Committing => {
                self.send_full(slot, true);
                let State::Changing(change) = &mut self.jobs[usize::from(slot)].state else { return };
                // A commit makes of a file what was written, if not all of it was: it is sent only
                // when all of it was.
                if change.failed.is_none() && (change.filling.is_some() || change.writes > 0) {
                    return;
                }
                match (change.failed, change.file) {
                    (Some(trouble), _) => {
                        (change.outcome, change.is_sent) = (Some(Err(trouble)), true);
                        return;
                    }
                    (None, Some(file)) => self.client.commit(file, tag),
                    (None, None) => Err(NotSent::Refused(Error::Lost)),
                }
            }
        };
        let State::Changing(change) = &mut self.jobs[usize::from(slot)].state else { return };
        match sent {
            Ok(()) => change.is_sent = true,
            Err(NotSent::Full | NotSent::Unknown | NotSent::Refused(Error::TooMany)) => self.wait(slot),
            Err(NotSent::Refused(error)) => {
                change.is_sent = true;
                self.answered(work, Err(error));
            }
        }
    }

    /// Sends the buffer of an upload if it is full; or, at its end, if there is anything in it.
    pub(super) fn send_full(&mut self, slot: u16, is_end: bool) {
        let work = self.work(slot);
        let size = self.given.len();
        let State::Changing(change) = &mut self.jobs[usize::from(slot)].state else { return };
        let Some((buffer, filled)) = change.filling.filter(|(_, filled)| is_end || *filled == size) else { return };
        if filled == 0 || change.failed.is_some() {
            change.filling = None;
            return self.release(buffer);
        }
        let Some(file) = change.file else { return };
        let place = (usize::from(buffer) * self.stride) as u32;
        match self.client.write(file, place, filled as u32, Tag::Wrote(work, buffer)) {
            Ok(()) => (change.filling, change.writes) = (None, change.writes + 1),
            Err(NotSent::Full | NotSent::Unknown) => self.wait(slot),
            Err(NotSent::Refused(error)) => {
                (change.filling, change.failed) = (None, Some(trouble(error)));
                self.release(buffer);
            }
        }
    }

    pub(super) fn write_ended(&mut self, work: Work, buffer: u16, error: Option<Error>) {
        self.release(buffer);
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
            Stage::Creating if result.is_ok() => (change.stage, change.outcome) = (Stage::Writing, Some(Ok(()))),
            Stage::Creating | Stage::Writing => {
                (change.file, change.outcome) = (None, Some(result.map(|_| ()).map_err(trouble)));
            }
            Stage::Committing | Stage::Removing => {
                let failed = change.failed;
                change.outcome = Some(failed.map_or(result.map(|_| ()).map_err(trouble), Err));
                // What readers get from now on is new.
                self.has_changed = true;
                self.forget_all();
            }
        }
        self.tell(work.slot);
    }
}
