//! Whether the device works: its link, its errors, and the resets that end them.

use crate::device::Device;
use culm::time;
use culm_mmio::Registers;
use culm_net::descriptor::flags::{LINK_COUNT, LINK_COUNT_SHIFT};
use culm_virtio::checkpoint::{Checkpoint, State};
use culm_virtio::{ResetBackoff, Unusable};

/// The device's health, as far as it is known.
pub struct Health {
    /// Whether the device's link is up.
    link: bool,
    /// How often it came up, modulo 2¹⁶.
    ups: u16,
    /// Whether the device needs a reset, or could not be set up.
    failed: bool,
    /// Whether the device waits for its reset.
    out_of_service: bool,
    backoff: ResetBackoff,
    /// The back-off of resets for virtualisers that start over.
    restarts: ResetBackoff,
}

impl Health {
    pub fn new() -> Self {
        Self {
            link: true,
            ups: 0,
            failed: false,
            out_of_service: false,
            backoff: ResetBackoff::new(),
            restarts: ResetBackoff::new(),
        }
    }

    /// Returns how often the link came up, as flags of the class.
    pub fn flags(&self) -> u16 {
        (self.ups << LINK_COUNT_SHIFT) & LINK_COUNT
    }

    /// Returns whether the device needs a reset.
    #[inline(always)]
    pub fn has_failed(&self) -> bool {
        self.failed
    }

    /// Returns whether the device waits for its reset.
    #[inline(always)]
    pub fn is_out_of_service(&self) -> bool {
        self.out_of_service
    }

    /// Records that the device needs a reset.
    pub fn fail(&mut self) {
        self.failed = true;
    }

    /// Takes the state of the link of a device that is taken over.
    pub fn take_over(&mut self, device: &Device<impl Registers>) {
        self.link = device.has_link();
    }

    /// Checks the device after an interrupt that may be about something other than packets.
    #[cold]
    pub fn check(&mut self, device: &Device<impl Registers>) {
        if !device.has_changed() {
            return;
        }
        if device.needs_reset() {
            culm::warn!("the device has met an error");
            self.failed = true;
            return;
        }
        let link = device.has_link();
        if link != self.link {
            self.link = link;
            self.ups = self.ups.wrapping_add(link.into());
            culm::info!("link {}", if link { "up" } else { "down" });
        }
    }

    /// Returns whether the device may be reset now. `is_failure`: the reset answers a failure, and
    /// not only a virtualiser's restart. Whoever causes resets repeatedly waits for the back-off; a
    /// device that fails is out of service until then, a virtualiser's restart leaves it in use for
    /// the other one.
    pub fn may_reset(&mut self, is_failure: bool) -> bool {
        let is_failure = self.failed | is_failure;
        let backoff = if is_failure { &mut self.backoff } else { &mut self.restarts };
        if let Err(when) = backoff.ask(time::now()) {
            self.out_of_service |= is_failure;
            culm::wake_at(when);
            return false;
        }
        (self.failed, self.out_of_service) = (false, false);
        true
    }

    /// Records how the device was set up by a life that found it in state `found`. If a previous
    /// life had it at work, it may be so again: then it waits for its reset, as it did in that
    /// life.
    ///
    /// # Errors
    ///
    /// If the device cannot be used and never was.
    pub fn began(
        &mut self,
        outcome: Result<(), Unusable>,
        found: State,
        checkpoint: &Checkpoint,
    ) -> Result<(), Unusable> {
        if outcome.is_err() && found == State::Unknown {
            // The next life finds it as this one did.
            checkpoint.set_state(State::Unknown);
            return outcome;
        }
        self.was_set_up(outcome);
        Ok(())
    }

    /// Records how the device was set up.
    pub fn was_set_up(&mut self, outcome: Result<(), Unusable>) {
        if let Err(reason) = outcome {
            culm::error!("the device cannot be used: {reason}");
            (self.failed, self.out_of_service) = (true, true);
            // Set a deadline for the next try: now if no back-off is running, else at its end.
            // Nothing else may ever wake this driver.
            culm::wake_at(self.backoff.ask(time::now()).err().unwrap_or_else(time::now));
        }
    }
}
