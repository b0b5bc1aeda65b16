//! A client's open files: what is known of each, and whether it can be opened again after the
//! provider's restart.

use super::owned;
use crate::{Error, Info, MAX_FILES, Mode, Operation, Request};
use alloc::string::String;
use alloc::vec::Vec;

/// An open file of a [`Client`](super::Client).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct File {
    pub(super) number: u8,
    /// Which of the files that had this number.
    life: u32,
}

/// The state of a number.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum State {
    /// No file has it.
    Free,
    /// It was asked for.
    Opening,
    Open,
    /// It is to be asked for again.
    Reopen,
    Reopening,
    /// It cannot be used any more, for this reason.
    Lost(Error),
    /// The provider was asked to close it.
    Closing,
}

/// The file that a number stands for.
#[derive(Debug)]
pub(super) struct Known {
    pub(super) state: State,
    life: u32,
    mode: Mode,
    path: String,
    /// The file as it was opened.
    info: Info,
    /// Where the next write begins.
    pub(super) end: u64,
    /// Whether something was written that is not committed, or may not be.
    is_changed: bool,
    /// Whether writes were sent behind the commit that is under way; `None` if there is none.
    pub(super) commit: Option<bool>,
    /// Requests under way, those to open and close it aside.
    under_way: u16,
    /// Whether it is to be closed.
    is_closing: bool,
    /// Whether the provider's present life has it open.
    is_there: bool,
}

impl Known {
    fn new(state: State, life: u32, mode: Mode, path: String) -> Self {
        let (info, end, is_changed, commit) = (Info::default(), 0, false, None);
        let (under_way, is_closing, is_there) = (0, false, false);
        Self { state, life, mode, path, info, end, is_changed, commit, under_way, is_closing, is_there }
    }
}

/// A request that the client itself is to send.
pub(super) enum Work {
    None,
    Open(String, Mode),
    Close,
}

/// All of them.
#[derive(Debug)]
pub(super) struct Files {
    known: Vec<Known>,
    /// Whether some number may need [`Self::work`].
    needs_work: bool,
}

impl Files {
    pub(super) fn new() -> Self {
        let known = (0..MAX_FILES).map(|_| Known::new(State::Free, 0, Mode::Read, String::new()));
        Self { known: known.collect(), needs_work: false }
    }

    /// Every number.
    pub(super) fn all(&self) -> core::ops::Range<u8> {
        0..MAX_FILES as u8
    }

    /// Takes a number for a file.
    pub(super) fn claim(&mut self, path: &str, mode: Mode) -> Option<File> {
        let number = self.known.iter().position(|known| known.state == State::Free)?;
        let known = self.known.get_mut(number)?;
        let life = known.life.wrapping_add(1);
        *known = Known::new(State::Opening, life, mode, owned(path));
        Some(File { number: number as u8, life })
    }

    /// Returns the state of an open file.
    #[inline]
    pub(super) fn get(&self, file: File) -> Result<&Known, Error> {
        let known = self.known.get(usize::from(file.number)).ok_or(Error::Invalid)?;
        let is_there = known.life == file.life && known.state != State::Free && !known.is_closing;
        if is_there { Ok(known) } else { Err(Error::Invalid) }
    }

    fn get_mut(&mut self, file: File) -> Option<&mut Known> {
        self.get(file).ok()?;
        self.known.get_mut(usize::from(file.number))
    }

    #[inline]
    pub(super) fn state(&self, number: u8) -> State {
        self.known.get(usize::from(number)).map_or(State::Free, |known| known.state)
    }

    pub(super) fn wrote(&mut self, file: File, length: u32) {
        if let Some(known) = self.get_mut(file) {
            known.end += u64::from(length);
            known.is_changed = true;
            known.commit = known.commit.map(|_| true);
        }
    }

    /// A commit was sent.
    pub(super) fn commits(&mut self, file: File) {
        if let Some(known) = self.get_mut(file) {
            (known.is_changed, known.commit) = (true, Some(false));
        }
    }

    /// A request for an open file was sent.
    #[inline]
    pub(super) fn began(&mut self, number: u8) {
        if let Some(known) = self.known.get_mut(usize::from(number)) {
            known.under_way += 1;
        }
    }

    /// It has ended.
    #[inline]
    pub(super) fn ended(&mut self, request: &Request, error: Option<Error>) {
        let Some(known) = self.known.get_mut(usize::from(request.file)) else { return };
        known.under_way = known.under_way.saturating_sub(1);
        self.needs_work |= known.is_closing;
        match (request.operation, error) {
            (Operation::Write, Some(error)) if known.state == State::Open => known.state = State::Lost(error),
            (Operation::Commit, error) => {
                let is_last = known.commit.take() == Some(false);
                if error.is_none() {
                    known.is_changed &= !is_last;
                    // It is there now: what is written from here on is written behind it.
                    known.mode = Mode::Append;
                }
            }
            _ => {}
        }
    }

    /// A file was opened, or there is none.
    pub(super) fn opened(&mut self, number: u8, info: Option<Info>) {
        let Some(known) = self.known.get_mut(usize::from(number)) else { return };
        self.needs_work |= known.is_closing;
        let Some(info) = info else {
            known.state = State::Free;
            return;
        };
        (known.state, known.info, known.is_there) = (State::Open, info, true);
        known.end = if known.mode == Mode::Append { info.size } else { 0 };
    }

    /// The provider was restarted.
    pub(super) fn reset(&mut self, number: u8) {
        let Some(known) = self.known.get_mut(usize::from(number)) else { return };
        known.is_there = false;
        known.state = match known.state {
            // The file is closed, since nobody has opened it.
            State::Closing => State::Free,
            State::Open | State::Reopen | State::Reopening => {
                let is_lost = known.mode == Mode::New || known.is_changed;
                if is_lost { State::Lost(Error::Lost) } else { State::Reopen }
            }
            state => state,
        };
        self.needs_work = true;
    }

    /// A file was opened again, or cannot be.
    pub(super) fn reopened(&mut self, number: u8, result: Result<Info, Error>) {
        let Some(known) = self.known.get_mut(usize::from(number)) else { return };
        if known.state != State::Reopening {
            return;
        }
        (self.needs_work, known.is_there) = (true, result.is_ok());
        let is_same = result.is_ok_and(|info| match known.mode {
            Mode::Append => !info.is_folder && info.size == known.end,
            _ => info.is_same(&known.info),
        });
        known.state = if is_same { State::Open } else { State::Lost(Error::Lost) };
    }

    /// A file cannot be used any more.
    pub(super) fn lose(&mut self, number: u8, error: Error) {
        let Some(known) = self.known.get_mut(usize::from(number)) else { return };
        if known.state == State::Closing {
            known.state = State::Free;
        } else if known.state != State::Free && known.state != State::Opening {
            (known.state, known.is_there) = (State::Lost(error), false);
        }
        self.needs_work = true;
    }

    /// A file is to be closed.
    pub(super) fn close(&mut self, file: File) {
        if let Some(known) = self.get_mut(file) {
            known.is_closing = true;
            self.needs_work = true;
        }
    }

    /// A file is closed: its number can be used again.
    pub(super) fn closed(&mut self, number: u8) {
        if let Some(known) = self.known.get_mut(usize::from(number))
            && known.state == State::Closing
        {
            known.state = State::Free;
        }
    }

    /// Returns whether there may be [`Self::work`], and that it is looked at.
    #[inline(always)]
    pub(super) fn take_work(&mut self) -> bool {
        core::mem::take(&mut self.needs_work)
    }

    /// Says that the work must be looked at again.
    pub(super) fn leave_work(&mut self) {
        self.needs_work = true;
    }

    /// Takes what the client is to ask for because of this number. Files are opened again one after
    /// the other.
    pub(super) fn work(&mut self, number: u8) -> Work {
        let is_opening = self.known.iter().any(|known| known.state == State::Reopening);
        let Some(known) = self.known.get_mut(usize::from(number)) else { return Work::None };
        let is_last = known.is_closing && known.under_way == 0;
        match known.state {
            State::Open | State::Lost(_) if is_last && known.is_there => {
                known.state = State::Closing;
                Work::Close
            }
            State::Lost(_) | State::Reopen if is_last => {
                known.state = State::Free;
                Work::None
            }
            State::Reopen if !is_opening => {
                known.state = State::Reopening;
                Work::Open(known.path.clone(), known.mode)
            }
            _ => Work::None,
        }
    }
}
