//! Reset and setup of the device: at the first start, if a restarted driver cannot go on, and if
//! the device failed.
//!
//! Buffers of which the checkpoint tells stay with the device across its reset: it gets packets to
//! send again, and empty buffers too; in order, unless it uses buffers out of order. No virtualiser
//! learns of it. Hazard: a packet that the device had received but not reported is lost, and one
//! that it had sent but not reported is sent twice; the driver cannot tell.

use crate::counters;
use crate::net::{Net, take_received, take_sent};
use crate::registers::{QUEUE_RECEIVE, QUEUE_TRANSMIT};
use culm_mmio::Registers;
use culm_virtio::Unusable;
use culm_virtio::checkpoint::State;

impl<R: Registers> Net<R> {
    /// Resets a device that cannot go on. If it fails repeatedly, the reset waits for the back-off,
    /// and the device is out of service until then.
    #[cold]
    pub(crate) fn repair(&mut self) {
        if !self.health.may_reset(self.queues.receive.is_broken() || self.queues.transmit.is_broken()) {
            return;
        }
        // A reset that was begun finds everything committed, and queues whose indices mean nothing.
        if self.checkpoint.state() == State::AtWork {
            self.commit_all();
        }
        let outcome = self.set_up();
        self.health.was_set_up(outcome);
    }

    /// Commits all entries that were taken and passed on, so that the slots alone tell which
    /// buffers the device has.
    pub(crate) fn commit_all(&mut self) {
        if self.receive.link.is_live() && !self.queues.receive.is_broken() {
            let first = if self.is_fresh { self.pass_first_on() } else { 0 };
            let received = take_received(&mut self.queues.receive, &mut self.receive, self.flags);
            counters::RECEIVED_PACKETS.add(first + received);
        }
        let (queue, pair) = (&mut self.queues.transmit, &mut self.transmit);
        if pair.link.is_live() && !queue.is_broken() {
            take_sent(queue, pair);
        }
        for (queue, pair) in
            [(&mut self.queues.receive, &mut self.receive), (&mut self.queues.transmit, &mut self.transmit)]
        {
            pair.pass_on();
            // Whether the device sees these buffers does not matter: it gets them again after the
            // reset.
            let _ = queue.publish();
            if pair.link.is_live() {
                pair.release_all();
            }
        }
    }

    /// Resets the device, sets it up, and gives it the buffers that it had.
    pub(crate) fn set_up(&mut self) -> Result<(), Unusable> {
        let pairs = [(&self.queues.receive, &mut self.receive), (&self.queues.transmit, &mut self.transmit)];
        for (queue, pair) in pairs {
            if !pair.link.is_live() || pair.stale {
                pair.forget(queue, &self.checkpoint);
            }
        }
        if self.checkpoint.state() != State::Resetting {
            self.queues.receive.rank();
            self.queues.transmit.rank();
        }
        self.checkpoint.set_state(State::Resetting);
        counters::RESETS.add(1);
        self.device.reset()?;
        self.checkpoint.set_features(self.device.features());
        let event_index = self.device.has_event_index();
        let pairs = [(&mut self.queues.receive, &self.receive), (&mut self.queues.transmit, &self.transmit)];
        for (queue, pair) in pairs {
            queue.renew(event_index);
            if pair.link.is_live() && !pair.stale {
                pair.keep(queue, &self.checkpoint);
            }
        }
        self.checkpoint.set_state(State::AtWork);
        self.is_fresh = true;
        self.device.set_to_work(&self.memory, &self.queues.receive, &self.queues.transmit);
        self.take_over();
        Ok(())
    }

    /// Goes on with the device that the previous life left at work. That life may have got the
    /// notification of an interrupt, and an edge does not come again: so acknowledge the interrupt
    /// first, then look at everything.
    pub(crate) fn adopt(&mut self) {
        self.device.acknowledge();
        self.is_fresh = self.checkpoint.is_fresh() && self.queues.receive.taken() == 0;
        self.take_over();
        self.health.check(&self.device);
    }

    /// Rings the doorbells that the previous life may not have rung, and has everything looked at.
    fn take_over(&mut self) {
        self.flags = self.device.flags() | self.health.flags();
        self.health.take_over(&self.device);
        self.device.ring_doorbell(QUEUE_RECEIVE);
        self.device.ring_doorbell(QUEUE_TRANSMIT);
        for pair in [&mut self.receive, &mut self.transmit] {
            (pair.due, pair.stale) = (true, false);
        }
    }
}
