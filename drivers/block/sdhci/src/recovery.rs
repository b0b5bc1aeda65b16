//! What is done if a command fails.
//!
//! First what commands and data use is reset (SD Host Controller 3.00, 3.10.1), and the card told
//! to stop. If the request fails again, the controller is reset and the card set up anew. If it
//! fails once more, it is answered by an error.

use crate::exchange::Fault;
use crate::registers::State;
use crate::sdhci::Sdhci;
use crate::slot::Phase;
use crate::work::Stage;
use culm::time::Instant;
use culm_block::Error;
use culm_mmio::Registers;
use culm_sd::Status;

/// Failures after which a request is answered by an error.
const MOST_FAILURES: u8 = 3;

impl<R: Registers> Sdhci<R> {
    /// Goes on after a command has failed, or was not taken.
    #[cold]
    pub(crate) fn fail(&mut self, fault: Fault, now: Instant) {
        // A card that was not sending refuses CMD12.
        let is_refused_stop = self.work.as_ref().is_some_and(|work| work.stage == Stage::Stop);
        self.counts.faults += u64::from(!is_refused_stop);
        let are_reset = self.host.reset_lines();
        if !self.host.state().has(State::HAS_CARD) {
            return self.change_card(now);
        }
        match self.phase {
            Phase::Ready => self.recover(are_reset, now),
            _ if are_reset => self.initialise_after(fault, now),
            _ => self.reset(now),
        }
    }

    /// Has the request under way done again, or answered by an error.
    fn recover(&mut self, are_reset: bool, now: Instant) {
        let Some(work) = &mut self.work else { return self.reset(now) };
        if work.stage == Stage::Stop && are_reset {
            work.stage = Stage::Check { limit: now };
            return;
        }
        work.failures += 1;
        if work.failures == 1 && are_reset {
            work.stage = Stage::Stop;
            return;
        }
        if work.failures >= MOST_FAILURES {
            work.verdict = Some(Error::Failed);
        }
        work.not_before = None;
        work.stage = if work.taken.request.operation.moves_data() { Stage::Move } else { Stage::Clear(0) };
        self.reset(now);
    }

    /// Goes on after the card's status said that a command, or the one before, has failed. The
    /// controller is done with it.
    #[cold]
    pub(crate) fn refused(&mut self, status: Status, now: Instant) {
        if status.has(Status::PROTECTED) || status.has(Status::ERASE_SKIPPED) {
            return self.finish(Err(Error::ReadOnly));
        }
        self.fail(Fault::Damaged, now);
    }

    /// Answers a request whose failure had to wait for the controller's reset.
    pub(crate) fn end_failed_work(&mut self) {
        if let Some(error) = self.work.as_ref().and_then(|work| work.verdict) {
            self.finish(Err(error));
        }
    }
}
