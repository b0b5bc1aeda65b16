//! Waiting for room, in the order in which slots came.

use super::reading::Fetch;
use super::{State, Store};

/// The room that a slot's work waits for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Need {
    /// A place among the files that are open for readers.
    Place,
    /// A buffer, and a request to fill it.
    Buffer,
    /// A request of a change.
    Request,
}

impl Need {
    pub(super) const ALL: [Self; 3] = [Self::Place, Self::Buffer, Self::Request];
}

impl Store {
    pub(super) fn somebody_waits(&self) -> bool {
        self.waiting.iter().any(|slots| !slots.is_empty())
    }

    /// Whether others came earlier for the same.
    pub(super) fn is_waited_for(&self, need: Need) -> bool {
        !self.waiting[need as usize].is_empty()
    }

    /// Whether no other slot waits for the same longer.
    pub(super) fn is_next(&self, slot: u16, need: Need) -> bool {
        self.waiting[need as usize].front().is_none_or(|first| *first == slot)
    }

    /// Gives those that wait for room what there is now. Who gets none goes on waiting, and is told
    /// nothing; it does not stand in the way of those that wait for other room.
    #[cold]
    pub(super) fn go_on(&mut self) {
        for need in Need::ALL {
            // Who is served may have to wait for the same again, behind all others.
            for _ in 0..self.waiting[need as usize].len() {
                let Some(&slot) = self.waiting[need as usize].front() else { break };
                if !self.serve(slot) {
                    break;
                }
                if self.waiting[need as usize].front() == Some(&slot) {
                    self.stop_waiting(slot);
                }
                self.tell(slot);
            }
        }
    }

    /// Takes what a slot waits for, as far as it is there. Returns whether it was.
    fn serve(&mut self, slot: u16) -> bool {
        match &mut self.jobs[usize::from(slot)].state {
            State::Idle | State::Parked { .. } => true,
            State::Queued { path, seen } => {
                let (path, seen) = (core::mem::take(path), *seen);
                let is_served = self.take_place(slot, &path, seen);
                if !is_served {
                    self.jobs[usize::from(slot)].state = State::Queued { path, seen };
                }
                is_served
            }
            State::Reading { place, fetch: Fetch::Wanted { at, count }, .. } => {
                let (place, at, count) = (*place, *at, *count);
                let fetch = self.take_buffer(slot, place, at, count);
                self.set_fetch(slot, fetch);
                !matches!(fetch, Fetch::Wanted { .. })
            }
            State::Reading { .. } => true,
            State::Changing(change) if change.wants_buffer => match self.free.pop() {
                Some(buffer) => {
                    (change.wants_buffer, change.filling) = (false, Some((buffer, 0)));
                    true
                }
                None => false,
            },
            State::Changing(_) => self.take_request(slot),
        }
    }

    /// Has the slot tried again when something has become free.
    pub(super) fn wait(&mut self, slot: u16, need: Need) {
        if self.jobs[usize::from(slot)].waits != Some(need) {
            self.stop_waiting(slot);
            self.jobs[usize::from(slot)].waits = Some(need);
            self.waiting[need as usize].push_back(slot);
        }
    }

    pub(super) fn stop_waiting(&mut self, slot: u16) {
        if let Some(need) = self.jobs[usize::from(slot)].waits.take() {
            self.waiting[need as usize].retain(|other| *other != slot);
        }
    }
}
