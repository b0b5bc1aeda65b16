//! Reset of a device that failed: it gets the unanswered requests again.
//!
//! A request during which the device failed several times is a *suspect*: it may be the reason.
//! After the reset at which there is one, the device gets what was under way one at a time, and
//! nothing else meanwhile. So a request that makes the device fail is alone then, and is answered
//! by an error; the others are done. After one that fails comes the one whose blocks are farthest
//! away: it is probably another client's, where parts of the disk are whose they are. If several
//! in a row fail alone even so, or many in one trial, the device is the reason, and all end by an
//! error. A flush does so at each reset, unless the device has said before that it is
//! done.
//!
//! A device that does not reset keeps the requests, since it may still write to their memory: they
//! wait. One that resets and then cannot be used has none: they are answered by an error, and there
//! is no disk until the device is of use again.

use crate::counters;
use crate::engine::{Engine, PERIOD, Service};
use crate::trouble::Trouble;
use alloc::collections::VecDeque;
use culm::{Progress, time};
use culm_block::{Disk, Error};
use culm_virtio::{Interface, Unusable};

/// The most requests that fail alone, one after the other, before the device is taken for the
/// reason. Of two clients with a part of the disk each, both have had one tried then: the second
/// one begins farthest from the first, and the third one farthest from the second.
const MOST_GUILTY: u32 = 3;

/// The most that fail alone in one trial. Each may take a whole period, in which nobody is served.
const MOST_GUILTY_IN_ALL: u32 = 8;

/// The trial of the requests with which the device has failed several times.
#[derive(Default)]
pub(crate) struct Trial {
    /// The record of the request that the device has, alone.
    present: Option<u16>,
    /// The records of those that it is to get next.
    next: VecDeque<u16>,
    /// How many failed alone since one was done.
    guilty: u32,
    /// How many failed alone.
    guilty_in_all: u32,
}

impl<I: Interface, T> Engine<I, T> {
    /// Resets the device. If it fails repeatedly, that waits for the back-off, and the device is
    /// out of service until then.
    #[cold]
    pub(crate) fn repair(&mut self) {
        self.failed = true;
        if let Err(when) = self.backoff.ask(time::now()) {
            self.service = Service::Out;
            if self.works() {
                self.set_trouble(Some(Trouble::Resting));
            }
            culm::wake_at(when);
            return;
        }
        match self.set_up_again() {
            Ok(()) => {
                self.failed = false;
                self.look();
            }
            Err(reason) => {
                self.set_trouble(Some(Trouble::Unusable(reason)));
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
        self.requests.prepare();
        let alone = self.trial.present.take().filter(|number| self.requests.is_under_way((*number).into()));
        let guilty_block = alone.map(|number| self.requests.block(number));
        if let Some(alone) = alone {
            self.trial.guilty += 1;
            self.trial.guilty_in_all += 1;
            counters::FAILED.add(1);
            self.ended.extend(self.requests.forget(alone).map(|tag| (tag, Err(Error::Failed))));
        }
        let is_lost = self.trial.guilty >= MOST_GUILTY || self.trial.guilty_in_all >= MOST_GUILTY_IN_ALL;
        let has_suspect = self.fail(is_lost);
        self.service = if has_suspect { Service::Trial } else { Service::Full };
        if has_suspect {
            self.trial.next = self.requests.all_under_way().collect();
            if let Some(block) = guilty_block {
                let distance = |number: &u16| self.requests.block(*number).abs_diff(block);
                let farthest = (0..).zip(&self.trial.next).max_by_key(|(_, number)| distance(number));
                if let Some((index, _)) = farthest {
                    self.trial.next.swap(0, index);
                }
            }
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
            (self.service, self.trial) = (Service::Full, Trial::default());
            return Progress::More;
        };
        self.period_end = time::now() + PERIOD;
        self.requests.begin_period();
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
