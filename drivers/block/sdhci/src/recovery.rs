//! Recovery from a command that failed.
//!
//! First what commands and data use is reset (SD Host Controller 3.00, "Error Recovery"), and the
//! card told to stop. If the request fails again, the controller is reset and the card set up anew.
//! If it fails once more, it is answered by an error. A controller that does not end even the first
//! is reset as a whole.
//!
//! Nobody else is served meanwhile, so this is bounded: by [`RETRIES`]; by one try of an erasure
//! for which the card has had all its time; and by one try of each request, once several in a row
//! were answered by errors.

use crate::exchange::Fault;
use crate::host::Line;
use crate::registers::State;
use crate::sdhci::{Sdhci, Turn};
use crate::slot::{Phase, SETTLE_LIMIT, SOON};
use crate::source::Source;
use crate::trouble::Cause;
use crate::work::{RETRIES, Stage};
use culm::time::Instant;
use culm_block::Error;
use culm_mmio::Registers;
use culm_sd::{Command, Status};

/// Failures after which a request is answered by an error.
const MOST_FAILURES: u8 = 3;

/// A reset of the lines that is under way, one line after the other.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Mending {
    line: Line,
    limit: Instant,
    after: After,
}

/// The thing that is done after the lines were reset.
#[derive(Clone, Copy, Debug)]
enum After {
    /// A command has failed.
    Fault(Fault),
    /// This command was taken, with this reply; the card is busy still.
    Busy(Command, u128),
}

impl<R: Registers, S: Source> Sdhci<R, S> {
    /// Goes on after a command has failed, or was not taken.
    #[cold]
    pub(crate) fn fail(&mut self, fault: Fault, now: Instant) {
        // A card that was not sending refuses CMD12.
        let is_refused_stop = self.work.as_ref().is_some_and(|work| work.stage == Stage::Stop);
        self.counts.faults += u64::from(!is_refused_stop);
        self.mend_line(Line::Command, now, After::Fault(fault));
    }

    /// Goes on after the controller stopped waiting for a card that is busy.
    #[cold]
    pub(crate) fn stay_busy(&mut self, command: Command, reply: u128, now: Instant) {
        self.mend_line(Line::Command, now, After::Busy(command, reply));
    }

    fn mend_line(&mut self, line: Line, now: Instant, after: After) {
        self.host.reset_line(line);
        self.mending = Some(Mending { line, limit: now + SETTLE_LIMIT, after });
    }

    /// Looks whether a line is reset.
    #[cold]
    pub(crate) fn mend(&mut self, Mending { line, limit, after }: Mending, now: Instant) -> Turn {
        let is_reset = self.host.is_reset();
        if !is_reset && now < limit {
            return Turn::Until(now + SOON);
        }
        if is_reset && line == Line::Command {
            self.mend_line(Line::Data, now, after);
            return Turn::Again;
        }
        self.mending = None;
        self.host.forget_events();
        if !self.host.state().has(State::HAS_CARD) {
            self.change_card(now);
            return Turn::Again;
        }
        match (after, self.phase) {
            _ if !is_reset => self.start_over(now),
            (After::Busy(command, reply), Phase::Ready) => self.done(&command, reply, now),
            // While the card is busy the next command cannot be sent, and fails by that.
            (After::Busy(command, reply), _) => self.initialised(&command, reply, now),
            (After::Fault(fault), Phase::Ready) => self.recover(fault, now),
            (After::Fault(fault), _) => self.initialise_after(fault, now),
        }
        Turn::Again
    }

    /// Has everything reset, since the lines were not: the request under way is done again.
    fn start_over(&mut self, now: Instant) {
        self.trouble.tell(Cause::Lines);
        self.trouble.count();
        self.count_failure(Fault::Nonsense, now);
        self.reset(now);
    }

    /// Counts a failure of the request under way, which begins again, or is to be answered by an
    /// error.
    fn count_failure(&mut self, fault: Fault, now: Instant) {
        let Some(work) = &mut self.work else { return };
        if work.failures == 0 {
            self.retry_until = now + RETRIES;
        }
        work.failures += 1;
        let number = self.counts.requests;
        let is_over = work.failures >= MOST_FAILURES || now >= self.retry_until || self.trouble.is_expected(number);
        let is_erasing = work.operation.clears_blocks() && matches!(work.stage, Stage::Clear(2) | Stage::Verify { .. });
        let has_had_its_time = is_erasing && fault == Fault::Overdue;
        if (is_over || has_had_its_time) && work.verdict.is_none() {
            work.verdict = Some(Error::Failed);
            self.trouble.fail(&self.client.taken().request, number);
        }
        work.begin_again();
    }

    /// Has the request under way done again, or answered by an error.
    fn recover(&mut self, fault: Fault, now: Instant) {
        if let Some(work) = self.work.as_mut().filter(|work| work.stage == Stage::Stop) {
            // A card that was not sending may be writing, or erasing.
            return work.check(now);
        }
        self.count_failure(fault, now);
        match &mut self.work {
            Some(work) if work.failures == 1 && work.verdict.is_none() => work.stage = Stage::Stop,
            _ => self.reset(now),
        }
    }

    /// Goes on after the card's status said that a command, or the one before, has failed. The
    /// controller is done with it.
    #[cold]
    pub(crate) fn recover_from_status(&mut self, status: Status, now: Instant) {
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
