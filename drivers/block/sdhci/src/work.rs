//! The request that is under way: its commands, one after the other.

use crate::exchange::{COMMAND_LIMIT, Exchange, Fault};
use crate::host::Way;
use crate::registers::Auto;
use crate::sdhci::{Sdhci, Turn};
use crate::source::Source;
use core::sync::atomic::{Ordering, fence};
use culm::time::{Duration, Instant};
use culm_block::{Error, Operation, Taken};
use culm_mmio::Registers;
use culm_sd::{Card, Clearing, Command, Direction, State, Status};

/// The time in which blocks are read: what [`Sdhci::most`] allows, twice, and 100 ms for each
/// access (SD Physical Layer 9.10 §4.6.2.1).
const READ_LIMIT: Duration = Duration::from_secs(3);

/// The time in which blocks are written. A card may be busy for half a second for a block
/// (§4.6.2.2), but is not for each.
const WRITE_LIMIT: Duration = Duration::from_secs(10);

/// The time in which blocks are erased, if the card does not say (§4.14).
const ERASE_LIMIT: Duration = Duration::from_secs(30);

/// The longest time for an erasure, whatever the card says.
const LONGEST_ERASURE: Duration = Duration::from_secs(120);

/// The time after its first failure in which a request is tried again, and in which the card has to
/// recover from a failure.
pub(crate) const RETRIES: Duration = Duration::from_secs(15);

/// The time between two questions whether a card is busy.
const BUSY: Duration = Duration::from_millis(1);

/// The stage that a request is in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Stage {
    /// Blocks are read or written.
    Move,
    /// Blocks are named for an erasure, or erased: the command of this number.
    Clear(u8),
    /// The card is asked whether all went well.
    Verify { limit: Instant },
    /// After a failure, the card is told to stop.
    Stop,
    /// After a failure, the card is asked whether it takes commands.
    Check { limit: Instant },
}

/// A request that is under way. The whole of it stays with the client
/// ([`Source::taken`]): no other request is taken before its answer.
#[derive(Debug)]
pub(crate) struct Work {
    pub token: u16,
    pub operation: Operation,
    pub blocks: u32,
    pub stage: Stage,
    /// How long the card may be busy with its commands.
    pub patience: Duration,
    /// Blocks that are done.
    pub done: u32,
    /// Blocks of the command under way.
    pub part: u32,
    /// Failures so far.
    pub failures: u8,
    /// The answer that it gets when the controller is reset.
    pub verdict: Option<Error>,
    /// The moment from which on the next command is sent.
    pub not_before: Option<Instant>,
}

impl Work {
    fn new(taken: &Taken) -> Self {
        let (token, operation, blocks) = (taken.token, taken.request.operation, taken.request.blocks);
        let (stage, patience) = (first_stage(operation), WRITE_LIMIT);
        let (done, part, failures) = (0, 0, 0);
        Self { token, operation, blocks, stage, patience, done, part, failures, verdict: None, not_before: None }
    }

    /// Does it again from where it failed.
    pub fn begin_again(&mut self) {
        (self.stage, self.not_before) = (first_stage(self.operation), None);
    }

    /// Has the card asked, after a failure, whether it takes commands.
    pub fn check(&mut self, now: Instant) {
        self.stage = Stage::Check { limit: now + self.patience.min(RETRIES) };
    }
}

#[inline(always)]
fn first_stage(operation: Operation) -> Stage {
    if operation.moves_data() { Stage::Move } else { Stage::Clear(0) }
}

impl<R: Registers, S: Source> Sdhci<R, S> {
    /// Takes a request, or does the next thing for the one under way.
    #[inline]
    pub(crate) fn go_on(&mut self, now: Instant) -> Turn {
        if self.work.is_none() {
            let Some(taken) = self.client.take() else { return Turn::Idle };
            self.counts.requests += 1;
            if taken.request.operation == Operation::Flush {
                // Nothing is written that is not durable: see the head of this crate.
                let token = taken.token;
                self.client.answer(token, Ok(()));
                return Turn::Again;
            }
            self.work = Some(Work::new(taken));
        }
        let Some(work) = &mut self.work else { return Turn::Again };
        if let Some(when) = work.not_before {
            if now < when {
                return Turn::Until(when);
            }
            work.not_before = None;
        }
        match self.send(now) {
            Ok(exchange) => self.exchange = Some(exchange),
            Err(Refusal::Answer(error)) => self.finish(Err(error)),
            Err(Refusal::Fault(fault)) => self.fail(fault, now),
        }
        Turn::Again
    }

    /// Sends the next command of the request.
    #[inline]
    fn send(&mut self, now: Instant) -> Result<Exchange, Refusal> {
        let (Some(work), Some(card)) = (&mut self.work, &self.card) else { return Err(Error::Absent.into()) };
        let request = &self.client.taken().request;
        let (mut way, mut auto, mut limit) = (Way::None, Auto::NONE, COMMAND_LIMIT);
        let command = match work.stage {
            Stage::Move => {
                let direction = if request.operation == Operation::Read { Direction::Read } else { Direction::Write };
                limit = if direction == Direction::Read { READ_LIMIT } else { WRITE_LIMIT };
                let left = (request.blocks - work.done).min(self.most);
                (work.part, way) = match &self.table {
                    Some(table) => {
                        let part = table.write(request.segments(), work.done, left).map_err(|_| Error::Invalid)?;
                        (part, Way::Dma(table.dma()))
                    }
                    None if self.data.begin(request.segments(), work.done) => (left, Way::Port),
                    None => return Err(Error::Invalid.into()),
                };
                auto = self.auto;
                // The controller reads descriptors and data after what was written here before.
                fence(Ordering::SeqCst);
                let first = request.block + u64::from(work.done);
                card.transfer(direction, first, work.part as u16).ok_or(Error::OutOfRange)?
            }
            Stage::Clear(number) => {
                let is_discard = request.operation == Operation::Discard;
                let clearing = if is_discard { Clearing::Discard } else { Clearing::Erase };
                if number == 2 {
                    limit = card.status.erase_seconds.map_or(ERASE_LIMIT, |seconds| {
                        // One request clears 32 MiB at most: 32 units of allocation of 1 MiB.
                        Duration::from_secs(u64::from(seconds) * 32).clamp(ERASE_LIMIT, LONGEST_ERASURE)
                    });
                    work.patience = limit;
                }
                work.part = request.blocks;
                let commands = card.clear(clearing, request.block, request.blocks).ok_or(Error::OutOfRange)?;
                *commands.get(usize::from(number)).ok_or(Error::Failed)?
            }
            Stage::Verify { .. } | Stage::Check { .. } => Command::send_status(card.address),
            Stage::Stop => Command::stop(),
        };
        Ok(Exchange::begin(&self.host, command, way, auto, now + limit)?)
    }

    /// Takes the reply to a command of the request.
    #[inline]
    pub(crate) fn done(&mut self, command: &Command, reply: u128, now: Instant) {
        let status = Status(reply as u32);
        let Some(work) = &mut self.work else { return };
        if work.stage == Stage::Stop {
            return work.check(now);
        }
        if let Stage::Check { limit } = work.stage {
            // Its errors are those of the command that failed, which are known.
            return self.checked(status, limit, now);
        }
        if status.has(Status::ERRORS) || command.is_open_ended && self.has_stopped_badly(command) {
            return self.recover_from_status(status, now);
        }
        let Some(work) = &mut self.work else { return };
        match work.stage {
            Stage::Move if work.operation.is_read() => {
                // Bytes that the controller has written are read after this fence.
                fence(Ordering::SeqCst);
                self.advance();
            }
            Stage::Move | Stage::Clear(2) => work.stage = Stage::Verify { limit: now + work.patience },
            Stage::Clear(number) => work.stage = Stage::Clear(number + 1),
            Stage::Verify { limit } => self.verified(status, limit, now),
            Stage::Stop | Stage::Check { .. } => {}
        }
    }

    /// Returns whether the card said, when it was told to stop, that something has failed. It says
    /// so once: its next status is without it (SD Physical Layer 9.10 §4.10.1).
    fn has_stopped_badly(&self, command: &Command) -> bool {
        let is_read = command.data.is_some_and(|data| data.direction == Direction::Read);
        let first = self.client.taken().request.block;
        let behind = self.work.as_ref().map(|work| first + u64::from(work.done + work.part));
        let is_at_end = behind == self.card.as_ref().map(Card::blocks);
        // A card that has sent its last block may say that the next one is out of range (§4.3.3).
        let errors = if is_read && is_at_end { Status::ERRORS & !Status::OUT_OF_RANGE } else { Status::ERRORS };
        self.auto == Auto::STOP && Status(self.host.auto_reply()).has(errors)
    }

    /// Goes on after the card said whether what it did went well.
    #[inline]
    fn verified(&mut self, status: Status, limit: Instant, now: Instant) {
        if status.is_ready() {
            return self.advance();
        }
        if now >= limit || ![State::PROGRAMMING, State::TRANSFER].contains(&status.state()) {
            return self.fail(Fault::Overdue, now);
        }
        if let Some(work) = &mut self.work {
            work.not_before = Some(now + BUSY);
        }
    }

    /// Goes on after a part of the request is done.
    #[inline]
    fn advance(&mut self) {
        let Some(work) = &mut self.work else { return };
        work.done += work.part;
        if work.done >= work.blocks {
            self.finish(Ok(()));
        } else {
            work.stage = Stage::Move;
        }
    }

    /// Goes on after a card has recovered from a failure, or has not.
    fn checked(&mut self, status: Status, limit: Instant, now: Instant) {
        let Some(work) = &mut self.work else { return };
        if status.is_ready() {
            work.begin_again();
        } else if now < limit && status.state() == State::PROGRAMMING {
            work.not_before = Some(now + BUSY);
        } else {
            self.fail(Fault::Overdue, now);
        }
    }

    /// Answers the request under way. Nothing of it goes on in the controller.
    #[inline]
    pub(crate) fn finish(&mut self, result: Result<(), Error>) {
        if let Some(work) = self.work.take() {
            self.answer(&work, result);
        }
    }

    #[inline]
    pub(crate) fn answer(&mut self, work: &Work, result: Result<(), Error>) {
        self.counts.failed += u64::from(result.is_err());
        self.client.answer(work.token, result);
    }
}

/// The reason why a command was not sent.
enum Refusal {
    /// The request cannot be done.
    Answer(Error),
    /// The controller failed.
    Fault(Fault),
}

impl From<Error> for Refusal {
    fn from(error: Error) -> Self {
        Self::Answer(error)
    }
}

impl From<Fault> for Refusal {
    fn from(fault: Fault) -> Self {
        Self::Fault(fault)
    }
}
