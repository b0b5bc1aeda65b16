//! Reset of a device that failed: it gets the unanswered requests again.
//!
//! A request during which the device failed several times is a *suspect*: it may be the reason.
//! After the reset at which there is one, the device gets what was under way one at a time, and
//! nothing else meanwhile. So a request that makes the device fail is alone then, and is answered
//! by an error; the others are done. If several in a row fail alone, the device is the reason, and
//! all end by an error. A flush does so at each reset, unless the device has said before that it is
//! done.
//!
//! A device that does not reset keeps the requests, since it may still write to their memory: they
//! wait. One that resets and then cannot be used has none: they are answered by an error, and there
//! is no disk until the device is of use again.

use crate::counters;
use crate::engine::{Engine, Service};
use alloc::collections::VecDeque;
use culm::{Progress, time};
use culm_block::{Disk, Error};
use culm_mmio::Registers;
use culm_virtio::Unusable;

/// The most requests that fail alone, one after the other, before the device is taken for the
/// reason. Each may take a whole period.
const MOST_GUILTY: u32 = 3;

/// The trial of the requests with which the device has failed several times.
#[derive(Default)]
pub(crate) struct Trial {
    /// The record of the request that the device has, alone.
    present: Option<u16>,
    /// The records of those that it is to get next.
    next: VecDeque<u16>,
    /// How many failed alone since one was done.
    guilty: u32,
}

impl<R: Registers, T> Engine<R, T> {
    /// Resets the device. If it fails repeatedly, that waits for the back-off, and the device is
    /// out of service until then.
    #[cold]
    pub(crate) fn repair(&mut self) {
        self.failed = true;
        if let Err(when) = self.backoff.ask(time::now()) {
            self.service = Service::Out;
            culm::wake_at(when);
            return;
        }
        match self.set_up_again() {
            Ok(()) => {
                self.failed = false;
                self.look();
            }
            Err(reason) => {
                culm::error!("the device cannot be used: {reason}");
                self.service = Service::Out;
                // Nothing else may ever wake this driver.
                culm::wake_at(self.backoff.ask(time::now()).err().unwrap_or_else(time::now));
            }
        }
    }

    /// Resets the device, sets it up, and gives it the requests that it had.
    fn set_up_again(&mut self) -> Result<(), Unusable> {
        counters::RESETS.add(1);
        self.queue.rank();
        self.requests.give_flushes_up();
        match self.device.reset() {
            Err(Unusable::Stuck) => return Err(Unusable::Stuck),
            Err(reason) => {
                self.fail(true);
                self.set_disk(Disk::ABSENT);
                return Err(reason);
            }
            Ok(()) => self.judge(),
        }
        self.queue.renew(self.device.has_event_index());
        self.device.set_to_work(&self.memory, &self.queue);
        // The device looks by itself only at what comes later.
        self.device.ring_doorbell();
        Ok(())
    }

    /// Ends the requests that do not survive this reset, and finds out which the device gets now.
    fn judge(&mut self) {
        if let Some(alone) = self.trial.present.take().filter(|number| self.requests.is_under_way((*number).into())) {
            self.trial.guilty += 1;
            counters::FAILED.add(1);
            self.ended.extend(self.requests.forget(alone).map(|tag| (tag, Err(Error::Failed))));
        }
        let has_suspect = self.fail(self.trial.guilty >= MOST_GUILTY);
        self.service = if has_suspect { Service::Trial } else { Service::Full };
        if has_suspect {
            self.trial.next = self.requests.all_under_way().collect();
            self.queue.clear();
        } else {
            self.trial = Trial::default();
        }
    }

    /// Gives the device the next request of the trial, once it has done the present one. The last
    /// one ends the trial: then there is something to do again.
    #[cold]
    pub(crate) fn go_on_with_trial(&mut self) -> Progress {
        let is_under_way = |number: &u16| self.requests.is_under_way((*number).into());
        if self.trial.present.is_some_and(|number| is_under_way(&number)) {
            return Progress::Asleep;
        }
        if self.trial.present.is_some() {
            self.trial.guilty = 0;
        }
        self.trial.present = core::iter::from_fn(|| self.trial.next.pop_front()).find(is_under_way);
        let Some(number) = self.trial.present else {
            self.service = Service::Full;
            return Progress::More;
        };
        self.requests.renew_patience();
        // Only a device that writes to the table can bring it about that there is no space.
        self.failed |= !self.give_again(number);
        Progress::more_if(self.failed)
    }

    /// Ends the requests that do not survive this reset, which is all of them if the device
    /// `is_lost`. The queue keeps the others, and nothing that is none. Returns whether there is a
    /// suspect among them.
    ///
    /// The caller must describe the disk anew after this: flushes may have failed.
    fn fail(&mut self, is_lost: bool) -> bool {
        let (requests, ended) = (&mut self.requests, &mut self.ended);
        let has_suspect = requests.survive(is_lost, |tag, result| {
            counters::FAILED.add(result.is_err().into());
            ended.push_back((tag, result));
        });
        self.queue.retain(|record| requests.is_under_way(record));
        has_suspect
    }
}
