//! The initialisation of a card, step by step (§4.2.3, §4.3).
//!
//! [`Init::action`] says what is to be done, [`Init::proceed`] is told what came of it, until that
//! returns the card or says why there is none. The number of steps is bounded whatever the card
//! answers.

use crate::{Address, Card, Cid, Command, Csd, LONGEST_REGISTER, NotUsable, Ocr, Scr, SdStatus, Status, Switch};
use core::fmt;
use core::time::Duration;

/// How card and host exchange data.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Bus {
    /// Over four data lines instead of one.
    pub has_four_lines: bool,
    /// With 50 MHz and high speed's timing, instead of 25 MHz.
    pub is_high_speed: bool,
}

/// The host's next action.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Action {
    /// Send a command.
    Send(Command),
    /// Wait so long.
    Wait(Duration),
    /// Use the bus so from now on.
    Use(Bus),
}

/// The outcome of an action.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outcome<'a> {
    /// It is done: a wait, a change of the bus, or a command that gets no reply.
    Done,
    /// The reply to a command: bits 127 to 8 of a long one, in their places; of another the
    /// argument. With the data that came after it.
    Reply(u128, &'a [u8]),
    /// The card sent no reply within 64 clocks.
    Silent,
    /// A damaged reply, damaged data, or a host controller that failed.
    Failed,
}

/// The reason why a card cannot be used.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Problem {
    /// It does not answer what each SD memory card does; it may be an MMC, or SDIO only.
    NotMemory,
    /// It does not work with 3.3 V.
    Voltage,
    /// It does not get ready.
    NeverReady,
    /// It is locked by a password.
    Locked,
    /// Its capacity cannot be told.
    Csd(NotUsable),
    /// Its registers contradict each other.
    Contradiction,
    /// It refused this command, or sent what cannot be.
    Refused(u8),
    /// This command, or its reply or data, was damaged or lost too often.
    Unreliable(u8),
}

impl fmt::Display for Problem {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NotMemory => formatter.write_str("it is no SD memory card"),
            Self::Voltage => formatter.write_str("it does not work with 3.3 V"),
            Self::NeverReady => formatter.write_str("it does not get ready within a second"),
            Self::Locked => formatter.write_str("it is locked by a password"),
            Self::Csd(reason) => reason.fmt(formatter),
            Self::Contradiction => formatter.write_str("its OCR and its CSD say different capacities"),
            Self::Refused(command) => write!(formatter, "it refuses CMD{command}"),
            Self::Unreliable(command) => write!(formatter, "CMD{command} fails again and again"),
        }
    }
}

/// Milliseconds in which a card must get ready: 1 s (§4.2.3), and a little more.
const READY_LIMIT: u32 = 1200;

/// Failures of commands that one initialisation survives.
const MOST_FAILURES: u8 = 4;

/// Addresses that a card may choose before one is not 0.
const MOST_ADDRESSES: u8 = 4;

/// The step that comes next.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Step {
    Idle,
    Condition,
    Operate,
    Pause,
    Identify,
    Address,
    Describe,
    Select,
    Clock,
    BlockLength,
    Scr,
    Width,
    UseWidth,
    Status,
    AskSpeed,
    SetSpeed,
    UseSpeed,
}

/// An initialisation.
#[derive(Clone, Debug)]
pub struct Init {
    step: Step,
    /// The widest and fastest bus that the host can drive.
    host: Bus,
    bus: Bus,
    /// Whether CMD55 announced the step's command.
    is_announced: bool,
    /// Whether the card knows CMD8, so may have high capacity.
    knows_condition: bool,
    has_high_capacity: bool,
    /// Milliseconds that were waited for the card to get ready.
    waited: u32,
    failures: u8,
    addresses: u8,
    address: u16,
    cid: Cid,
    csd: Option<Csd>,
    scr: Scr,
    status: SdStatus,
}

impl Init {
    /// Begins with a card that was powered up and has had its 74 clocks (§6.4.1), at 400 kHz at
    /// most and over one data line. The bus is then made as wide and fast as card and `host` can.
    pub const fn new(host: Bus) -> Self {
        let bus = Bus { has_four_lines: false, is_high_speed: false };
        Self {
            step: Step::Idle,
            host,
            bus,
            is_announced: false,
            knows_condition: false,
            has_high_capacity: false,
            waited: 0,
            failures: 0,
            addresses: 0,
            address: 0,
            cid: Cid::new(0),
            csd: None,
            scr: Scr { version: 0, erases_to_ones: true, has_four_lines: false, counts_blocks: false },
            status: SdStatus { discards: false, erase_seconds: None },
        }
    }

    /// Returns what is to be done next. It is the same until [`Self::proceed`] is called.
    pub fn action(&self) -> Action {
        let is_application = matches!(self.step, Step::Operate | Step::Scr | Step::Width | Step::Status);
        if is_application && !self.is_announced {
            return Action::Send(Command::application(self.address));
        }
        Action::Send(match self.step {
            Step::Idle => Command::go_idle(),
            Step::Condition => Command::send_if_condition(),
            Step::Operate => Command::operate(self.knows_condition),
            Step::Pause => return Action::Wait(Duration::from_millis(self.pause().into())),
            Step::Identify => Command::all_send_cid(),
            Step::Address => Command::send_address(),
            Step::Describe => Command::send_csd(self.address),
            Step::Select => Command::select(self.address),
            Step::Clock | Step::UseWidth | Step::UseSpeed => return Action::Use(self.bus),
            Step::BlockLength => Command::set_block_length(crate::BLOCK as u32),
            Step::Scr => Command::send_scr(),
            Step::Width => Command::set_bus_width(true),
            Step::Status => Command::send_sd_status(),
            Step::AskSpeed => Command::switch_to_high_speed(false),
            Step::SetSpeed => Command::switch_to_high_speed(true),
        })
    }

    /// Milliseconds until the card is asked again: few at first, since many are ready soon.
    const fn pause(&self) -> u32 {
        if self.waited < 10 { 1 } else { 10 }
    }

    /// Goes on after the action was done. Returns the card if that was the last.
    ///
    /// # Errors
    ///
    /// If the card cannot be used. To try again is to power it up again.
    pub fn proceed(&mut self, outcome: Outcome<'_>) -> Result<Option<Card>, Problem> {
        let (reply, data) = match (outcome, self.action()) {
            (Outcome::Done, Action::Wait(_) | Action::Use(_)) => (0, &[][..]),
            (Outcome::Done, Action::Send(Command { reply: crate::Reply::None, .. })) => (0, &[][..]),
            (Outcome::Reply(reply, data), Action::Send(_)) => (reply, data),
            (Outcome::Silent, Action::Send(command)) => return self.silent(command.index).map(|()| None),
            (_, Action::Send(command)) => return self.failed(command.index).map(|()| None),
            (_, Action::Wait(_) | Action::Use(_)) => return self.failed(0).map(|()| None),
        };
        if self.announces() {
            return self.announced(Status(reply as u32)).map(|()| None);
        }
        self.is_announced = false;
        self.done(reply, data)
    }

    fn announces(&self) -> bool {
        matches!(self.action(), Action::Send(Command { index: 55, .. }))
    }

    /// Goes on after CMD55.
    fn announced(&mut self, status: Status) -> Result<(), Problem> {
        if !status.has(Status::APPLICATION) {
            return self.failed(55);
        }
        self.is_announced = true;
        Ok(())
    }

    /// Goes on after a command without a reply that should have one.
    fn silent(&mut self, index: u8) -> Result<(), Problem> {
        match self.step {
            // A card of version 1 does not know CMD8 (§4.2.2).
            Step::Condition => {
                (self.knows_condition, self.step) = (false, Step::Operate);
                Ok(())
            }
            Step::Operate if self.waited == 0 && self.failures > 0 => Err(Problem::NotMemory),
            _ => self.failed(index),
        }
    }

    /// Has the step tried again, unless there were too many failures.
    fn failed(&mut self, index: u8) -> Result<(), Problem> {
        self.is_announced = false;
        self.failures += 1;
        if self.failures > MOST_FAILURES { Err(Problem::Unreliable(index)) } else { Ok(()) }
    }

    /// Goes on after the step was done with this reply and this data.
    fn done(&mut self, reply: u128, data: &[u8]) -> Result<Option<Card>, Problem> {
        let status = Status(reply as u32);
        self.step = match self.step {
            Step::Idle => Step::Condition,
            Step::Condition => {
                // Voltage and pattern come back (§4.3.13).
                if reply as u32 & 0xfff != Command::send_if_condition().argument {
                    return self.failed(8).map(|()| None);
                }
                self.knows_condition = true;
                Step::Operate
            }
            Step::Operate => self.operated(Ocr(reply as u32))?,
            Step::Pause => {
                self.waited += self.pause();
                Step::Operate
            }
            Step::Identify => {
                self.cid = Cid::new(reply);
                Step::Address
            }
            Step::Address => self.addressed(Address(reply as u32).address())?,
            Step::Describe => {
                self.describe(reply)?;
                Step::Select
            }
            Step::Select if status.has(Status::LOCKED) => return Err(Problem::Locked),
            Step::Select => Step::Clock,
            Step::Clock => Step::BlockLength,
            Step::UseWidth => Step::Status,
            Step::UseSpeed => return self.finish(),
            _ if status.has(Status::ERRORS) => return Err(Problem::Refused(self.index())),
            Step::BlockLength => Step::Scr,
            Step::Width => {
                self.bus.has_four_lines = true;
                Step::UseWidth
            }
            Step::Scr => {
                let Ok(register) = data.try_into() else { return Err(Problem::Refused(51)) };
                self.scr = Scr::read(register);
                if self.host.has_four_lines && self.scr.has_four_lines { Step::Width } else { Step::Status }
            }
            Step::Status => {
                self.status = SdStatus::read(long_register(data).ok_or(Problem::Refused(13))?);
                if self.may_switch() { Step::AskSpeed } else { return self.finish() }
            }
            Step::AskSpeed => {
                let switch = Switch::read(long_register(data).ok_or(Problem::Refused(6))?);
                if switch.has_high_speed { Step::SetSpeed } else { return self.finish() }
            }
            Step::SetSpeed => {
                // A card that did not switch goes on as before (§4.3.10.3).
                self.bus.is_high_speed = Switch::read(long_register(data).ok_or(Problem::Refused(6))?).is_high_speed;
                Step::UseSpeed
            }
        };
        Ok(None)
    }

    /// The number of the step's command.
    fn index(&self) -> u8 {
        match self.action() {
            Action::Send(command) => command.index,
            _ => 0,
        }
    }

    /// Returns what follows ACMD41.
    fn operated(&mut self, ocr: Ocr) -> Result<Step, Problem> {
        if !ocr.takes_voltage() {
            return Err(Problem::Voltage);
        }
        if ocr.is_powered_up() {
            self.has_high_capacity = ocr.has_high_capacity() && self.knows_condition;
            return Ok(Step::Identify);
        }
        if self.waited >= READY_LIMIT { Err(Problem::NeverReady) } else { Ok(Step::Pause) }
    }

    /// Returns what follows CMD3.
    fn addressed(&mut self, address: u16) -> Result<Step, Problem> {
        self.addresses += 1;
        match address {
            // It deselects all cards (§4.3, CMD7), so it is none of a card.
            0 if self.addresses >= MOST_ADDRESSES => Err(Problem::Refused(3)),
            0 => Ok(Step::Address),
            _ => {
                self.address = address;
                Ok(Step::Describe)
            }
        }
    }

    /// Takes the CSD.
    fn describe(&mut self, register: u128) -> Result<(), Problem> {
        let csd = Csd::read(register).map_err(Problem::Csd)?;
        // Addresses count what the OCR says: another belief would write elsewhere.
        if csd.is_high_capacity != self.has_high_capacity {
            return Err(Problem::Contradiction);
        }
        self.csd = Some(csd);
        Ok(())
    }

    /// Returns whether the card may know CMD6 (§4.3.10), and the host has a use for it.
    fn may_switch(&self) -> bool {
        let knows = self.csd.is_some_and(|csd| csd.has(Csd::CLASS_SWITCH));
        self.host.is_high_speed && self.scr.version >= 1 && knows
    }

    fn finish(&self) -> Result<Option<Card>, Problem> {
        let Self { address, cid, scr, status, bus, .. } = *self;
        let csd = self.csd.ok_or(Problem::Contradiction)?;
        Ok(Some(Card { address, cid, csd, scr, status, bus }))
    }
}

fn long_register(data: &[u8]) -> Option<&[u8; LONGEST_REGISTER]> {
    data.try_into().ok()
}
