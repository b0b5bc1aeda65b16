//! One command that is under way, from its sending to its end.

use crate::data::DataPort;
use crate::host::{CARD_EVENTS, Host, Way, is_of_card};
use crate::registers::{Auto, Events};
use culm::time::{Duration, Instant};
use culm_mmio::Registers;
use culm_sd::{Command, Data, Direction, Reply};

/// Looks at the controller in one turn, each of which moves a block at most.
const LOOKS: u32 = 32;

/// The reason why a command failed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fault {
    /// The card sent no reply.
    Silent,
    /// The controller says that reply or data was damaged or late, or that its DMA failed.
    Damaged,
    /// Nothing came of it in time.
    Overdue,
    /// The controller takes no command, or says what cannot be.
    Nonsense,
}

/// How far a command that is under way has come.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Progress {
    /// It is done, with this reply.
    Done(u128),
    /// It failed. Lines must be reset before the next one.
    Failed(Fault),
    /// The card has taken it, with this reply, and is busy for longer than the controller waits.
    /// Lines must be reset before the next one, which asks the card when it is done.
    Busy(u128),
    /// A card was put in or out.
    CardChanged,
    /// An interrupt tells more, or this deadline passes.
    Pending(Instant),
    /// There is more to do at once than one turn should.
    More,
}

/// A command that is under way.
#[derive(Debug)]
pub struct Exchange {
    command: Command,
    way: Way,
    /// Events since it was sent.
    seen: Events,
    /// Blocks that the driver has still to move.
    left: u16,
    limit: Instant,
}

impl Exchange {
    /// Sends a command, which must end before `limit`.
    ///
    /// # Errors
    ///
    /// If the controller takes none.
    #[inline]
    pub fn begin<R: Registers>(
        host: &Host<R>,
        command: Command,
        way: Way,
        auto: Auto,
        limit: Instant,
    ) -> Result<Self, Fault> {
        if !host.send(&command, way, auto) {
            return Err(Fault::Nonsense);
        }
        let left = if way == Way::Port { command.data.map_or(0, |data| data.blocks) } else { 0 };
        Ok(Self { command, way, seen: Events::ZERO, left, limit })
    }

    /// Looks at what the controller has done since the last call. Interrupts are asked for only if
    /// that is not all: often it is.
    #[inline]
    pub fn poll<R: Registers>(&mut self, host: &mut Host<R>, port: &mut DataPort, now: Instant) -> Progress {
        for _ in 0..LOOKS {
            let events = host.take_events();
            if is_of_card(events) {
                return Progress::CardChanged;
            }
            self.see(events);
            if let Some(fault) = fault_of(events) {
                return self.late(fault, host);
            }
            match self.move_block(host, port) {
                Ok(true) => continue,
                Ok(false) => {}
                Err(fault) => return Progress::Failed(fault),
            }
            if self.seen.has(Events::TRANSFERRED) && self.left > 0 {
                // The end of more data than was there.
                return Progress::Failed(Fault::Nonsense);
            }
            if self.is_done() {
                host.signal(CARD_EVENTS);
                return Progress::Done(host.reply(self.command.reply));
            }
            if now >= self.limit {
                return self.late(Fault::Overdue, host);
            }
            if events == Events::ZERO {
                host.signal(self.awaited());
                return Progress::Pending(self.limit);
            }
        }
        Progress::More
    }

    /// Returns what a fault comes to: a card that is only busy for long has not failed.
    #[cold]
    fn late<R: Registers>(&self, fault: Fault, host: &Host<R>) -> Progress {
        let is_busy = self.command.reply == Reply::R1b && self.seen.has(Events::REPLIED);
        match fault {
            Fault::Overdue if is_busy => Progress::Busy(host.reply(self.command.reply)),
            _ => Progress::Failed(fault),
        }
    }

    fn see(&mut self, events: Events) {
        for flag in [Events::REPLIED, Events::TRANSFERRED, Events::CAN_READ, Events::CAN_WRITE] {
            if events.has(flag) {
                self.seen = self.seen.set(flag);
            }
        }
    }

    /// Moves a block if there is one to be moved. Returns whether there was.
    #[inline]
    fn move_block<R: Registers>(&mut self, host: &Host<R>, port: &mut DataPort) -> Result<bool, Fault> {
        let Some(Data { direction, size, .. }) = self.command.data.filter(|_| self.left > 0) else { return Ok(false) };
        let ready = match direction {
            Direction::Read => Events::CAN_READ,
            Direction::Write => Events::CAN_WRITE,
        };
        if !self.seen.has(ready) {
            return Ok(false);
        }
        self.seen = self.seen.clear(ready);
        self.left -= 1;
        if port.move_block(&host.registers, direction, size.into()) { Ok(true) } else { Err(Fault::Nonsense) }
    }

    /// Returns whether the card is busy, or data moves, after the reply.
    #[inline(always)]
    fn has_second_half(&self) -> bool {
        self.command.data.is_some() || self.command.reply == Reply::R1b
    }

    #[inline(always)]
    fn is_done(&self) -> bool {
        self.seen.has(Events::REPLIED) && (self.seen.has(Events::TRANSFERRED) || !self.has_second_half())
    }

    /// Returns the events that bring it further.
    fn awaited(&self) -> Events {
        let awaited = CARD_EVENTS.with(Events::ERRORS, u16::MAX);
        if !self.has_second_half() {
            return awaited.set(Events::REPLIED);
        }
        // Both may come in any order.
        let is_reply_left = self.seen.has(Events::TRANSFERRED);
        let awaited = if is_reply_left { awaited.set(Events::REPLIED) } else { awaited.set(Events::TRANSFERRED) };
        if self.way == Way::Port { awaited.set(Events::CAN_READ).set(Events::CAN_WRITE) } else { awaited }
    }

    /// Returns its command.
    pub fn command(&self) -> &Command {
        &self.command
    }
}

/// Returns the time in which a command without data ends, the card's being busy included (SD
/// Physical Layer 9.10 §4.6.2.2: half a second at most for writes).
pub const COMMAND_LIMIT: Duration = Duration::from_millis(1500);

/// Returns what failed, if any of these events says so.
#[inline(always)]
fn fault_of(events: Events) -> Option<Fault> {
    if events.get(Events::ERRORS) == 0 && !events.has(Events::ERROR) {
        return None;
    }
    cold_fault_of(events)
}

#[cold]
fn cold_fault_of(events: Events) -> Option<Fault> {
    let errors = events.get(Events::ERRORS);
    let data_time_out = Events::ZERO.set(Events::DATA_TIME_OUT).get(Events::ERRORS);
    // A transfer that is complete is not late (Normal Interrupt Status).
    if events.has(Events::TRANSFERRED) && errors == data_time_out {
        return None;
    }
    Some(match errors {
        _ if events.has(Events::SILENT) => Fault::Silent,
        _ if errors == data_time_out => Fault::Overdue,
        _ => Fault::Damaged,
    })
}
