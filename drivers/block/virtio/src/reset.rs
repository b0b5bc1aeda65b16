//! Reset of a device that failed: it gets the unanswered requests again.
//!
//! A request during which the device failed several times may be the reason, so it is answered by
//! an error, after the reset that ends it; a flush each time, unless the device has said before
//! that it is done. A device that does not reset keeps
//! the requests, since it may still write to their memory: they wait. One that resets and then
//! cannot be used has none: they are answered by an error, and there is no disk until the device is
//! of use again.

use crate::counters;
use crate::engine::Engine;
use culm::time;
use culm_block::Disk;
use culm_mmio::Registers;
use culm_virtio::Unusable;

impl<R: Registers, T> Engine<R, T> {
    /// Resets the device. If it fails repeatedly, that waits for the back-off, and the device is
    /// out of service until then.
    #[cold]
    pub(crate) fn repair(&mut self) {
        self.failed = true;
        if let Err(when) = self.backoff.ask(time::now()) {
            self.out_of_service = true;
            culm::wake_at(when);
            return;
        }
        match self.set_up_again() {
            Ok(()) => {
                (self.failed, self.out_of_service) = (false, false);
                self.look();
            }
            Err(reason) => {
                culm::error!("the device cannot be used: {reason}");
                self.out_of_service = true;
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
            Ok(()) => self.fail(false),
        }
        self.queue.renew(self.device.has_event_index());
        self.device.set_to_work(&self.memory, &self.queue);
        // The device looks by itself only at what comes later.
        self.device.ring_doorbell();
        Ok(())
    }

    /// Ends the requests that do not survive this reset, which is all of them if the device
    /// `is_lost`. The queue keeps the others, and nothing that is none.
    ///
    /// The caller must describe the disk anew after this: flushes may have failed.
    fn fail(&mut self, is_lost: bool) {
        let (requests, ended) = (&mut self.requests, &mut self.ended);
        requests.survive(is_lost, |tag, result| {
            counters::FAILED.add(result.is_err().into());
            ended.push_back((tag, result));
        });
        self.queue.retain(|record| requests.is_under_way(record));
    }
}
