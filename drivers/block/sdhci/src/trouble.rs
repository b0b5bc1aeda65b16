//! The trouble with a slot: how often it has failed, and what of it was told.
//!
//! What was told last stands until it is over, until something else is wrong, or until there is
//! another card or none.

use core::fmt;
use culm_block::{Operation, Request};
use culm_sd::Problem;

/// A thing that is wrong.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Cause {
    /// The card cannot be used.
    Card(Problem),
    /// The controller does not end its reset.
    Reset,
    /// The controller's clock does not get stable.
    Clock,
    /// The controller does not end the reset of its lines.
    Lines,
    /// So many requests were answered by an error, this one last.
    Requests { failed: u32, operation: Operation, block: u64, blocks: u32 },
}

impl fmt::Display for Cause {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Card(problem) => write!(formatter, "the card cannot be used: {problem}; put another one in"),
            // It may still write to memory.
            Self::Reset => formatter.write_str("the controller does not end its reset: requests wait"),
            Self::Clock => formatter.write_str("the controller's clock does not get stable: the slot is tried again"),
            Self::Lines => {
                formatter
                    .write_str("a command has failed, and the controller does not end the reset of its lines: ")?;
                formatter.write_str("all of it is reset")
            }
            Self::Requests { failed, operation, block, blocks } => {
                let request = match operation {
                    Operation::Read => "read",
                    Operation::Write => "write",
                    Operation::Flush => "flush",
                    Operation::Discard => "discard",
                    Operation::WriteZeroes | Operation::DiscardToZeroes => "clear",
                };
                write!(formatter, "requests fail: {failed} so far, the last to {request} {blocks} blocks from ")?;
                write!(formatter, "block {block}: the card may be worn out")
            }
        }
    }
}

/// Requests in a row that were answered by errors, after which the next one is expected to fail.
const MOST_IN_A_ROW: u32 = 3;

/// Failures since a card could be used, or was put in.
#[derive(Debug, Default)]
pub(crate) struct Trouble {
    failures: u32,
    /// Requests of this card that were answered by an error.
    failed_requests: u32,
    /// How many of them came one after the other last, and the number of the last one.
    in_a_row: u32,
    last: u64,
    told: Option<Cause>,
    /// Looks at a controller that does not end its reset.
    late: u32,
}

impl Trouble {
    /// Counts a failure of the slot.
    pub fn count(&mut self) {
        self.failures = self.failures.saturating_add(1);
    }

    /// Returns how often the slot has failed.
    pub fn failures(&self) -> u32 {
        self.failures
    }

    /// Counts a look at a controller that does not end its reset; returns how many there were.
    pub fn count_late(&mut self) -> u32 {
        self.tell(Cause::Reset);
        self.late = self.late.saturating_add(1);
        self.late
    }

    /// Takes note that the controller has ended its reset. What was wrong before is told again if
    /// it still is.
    pub fn reset_ended(&mut self) {
        self.late = 0;
        self.take_back_if(Cause::Reset);
    }

    /// Says what is wrong, unless that was told last.
    pub fn tell(&mut self, cause: Cause) {
        if self.told.replace(cause) != Some(cause) {
            culm::trouble::tell(format_args!("{cause}"));
        }
    }

    /// Takes back what was told, if it was this.
    pub fn take_back_if(&mut self, cause: Cause) {
        if self.told == Some(cause) {
            self.take_back();
        }
    }

    /// Returns whether the request of this number is expected to fail, since those before it did.
    pub fn is_expected(&self, number: u64) -> bool {
        self.in_a_row >= MOST_IN_A_ROW && number == self.last + 1
    }

    /// Counts a request that the card has failed, the one of this number, and tells of it: the log,
    /// where there are many, ever more seldom.
    pub fn fail(&mut self, request: &Request, number: u64) {
        self.in_a_row = if number == self.last + 1 { self.in_a_row.saturating_add(1) } else { 1 };
        self.last = number;
        let Request { operation, block, blocks, .. } = *request;
        self.failed_requests = self.failed_requests.saturating_add(1);
        let cause = Cause::Requests { failed: self.failed_requests, operation, block, blocks };
        if self.failed_requests.is_power_of_two() {
            self.tell(cause);
        } else {
            self.told = Some(cause);
            culm::trouble::show(format_args!("{cause}"));
        }
    }

    /// Takes note of a card that can be used, of which requests may have failed before.
    pub fn card_works(&mut self) {
        (self.failures, self.late) = (0, 0);
        if !matches!(self.told, Some(Cause::Requests { .. })) {
            self.take_back();
        }
    }

    /// Forgets everything: there is another card, or none.
    pub fn forget(&mut self) {
        self.take_back();
        *self = Self::default();
    }

    fn take_back(&mut self) {
        if self.told.take().is_some() {
            culm::trouble::clear();
        }
    }
}
