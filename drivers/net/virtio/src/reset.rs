//! Setting the device up: at the first start, where a restart cannot go on, and where the device failed.
//!
//! Buffers of which there is an account stay with the device across its reset: what was to be sent is given to it again, in order, and empty
//! buffers too. No virtualiser learns of it. What the device had received but not yet said is lost, and what it had sent but
//! not yet said is sent twice: nobody can know.

use crate::account::State;
use crate::counters;
use crate::device::Unusable;
use crate::net::{Net, take_received, take_sent};
use crate::registers::{QUEUE_RECEIVE, QUEUE_TRANSMIT};
use culm::time;
use culm_mmio::Registers;

impl<R: Registers> Net<R> {
    /// Resets a device that cannot go on; one that does so again and again only after a while, and until then it is out of service.
    #[cold]
    pub(crate) fn repair(&mut self) {
        let failed = self.failed || self.rings.receive.is_broken() || self.rings.transmit.is_broken();
        if failed && let Err(when) = self.patience.ask(time::now()) {
            self.out_of_service = true;
            culm::wake_at(when);
            return;
        }
        self.finish_accounts();
        (self.failed, self.out_of_service) = (false, false);
        if let Err(reason) = self.set_up() {
            culm::error!("the device cannot be used: {reason}");
            (self.failed, self.out_of_service) = (true, true);
            // Asked again at once where patience has been shown none yet: nobody else may come to wake this driver.
            culm::wake_at(self.patience.ask(time::now()).err().unwrap_or_else(time::now));
        }
    }

    /// Commits everything that was taken and given, so that only the slots say what the device has.
    pub(crate) fn finish_accounts(&mut self) {
        let (ring, pair) = (&mut self.rings.receive, &mut self.receive);
        if pair.link.is_live() && !ring.is_broken() {
            let received = take_received(ring, pair, self.flags);
            counters::RECEIVED_PACKETS.add(received);
        }
        let (ring, pair) = (&mut self.rings.transmit, &mut self.transmit);
        if pair.link.is_live() && !ring.is_broken() {
            take_sent(ring, pair);
        }
        for (ring, pair) in
            [(&mut self.rings.receive, &mut self.receive), (&mut self.rings.transmit, &mut self.transmit)]
        {
            pair.pass_on();
            // The device sees them or not: it gets them again.
            let _ = ring.publish();
            if pair.link.is_live() {
                pair.release_all();
            }
        }
    }

    /// Resets the device, sets it up, and gives it the buffers that it had.
    pub(crate) fn set_up(&mut self) -> Result<(), Unusable> {
        let pairs = [(&self.rings.receive, &mut self.receive), (&self.rings.transmit, &mut self.transmit)];
        for (ring, pair) in pairs {
            if !pair.link.is_live() || pair.stale {
                pair.forget(ring, &self.account);
            }
        }
        if self.account.state() != State::Resetting {
            self.rings.receive.rank();
            self.rings.transmit.rank();
        }
        self.account.set_state(State::Resetting);
        counters::RESETS.add(1);
        self.device.reset()?;
        self.account.set_features(self.device.features());
        let event_index = self.device.has_event_index();
        let pairs = [(&mut self.rings.receive, &self.receive), (&mut self.rings.transmit, &self.transmit)];
        for (ring, pair) in pairs {
            ring.renew(event_index);
            if pair.link.is_live() && !pair.stale {
                pair.keep(ring, &self.account);
            }
        }
        self.account.set_state(State::AtWork);
        self.device.set_to_work(&self.memory, &self.rings);
        self.take_over();
        Ok(())
    }

    /// Goes on with the device that the previous life left at work. What it interrupted for may
    /// have been told to that life only, and an edge does not come again: so it is acknowledged
    /// first, then everything is looked at.
    pub(crate) fn adopt(&mut self) {
        self.device.acknowledge();
        self.take_over();
        self.check_device();
    }

    /// Tells the device what it may not have been told, and looks at everything.
    fn take_over(&mut self) {
        self.flags = self.device.flags();
        self.link = self.device.has_link();
        self.device.ring_doorbell(QUEUE_RECEIVE);
        self.device.ring_doorbell(QUEUE_TRANSMIT);
        for pair in [&mut self.receive, &mut self.transmit] {
            (pair.due, pair.stale) = (true, false);
        }
    }
}
