//! The slot: what becomes of a card from its insertion until it can be used.

use crate::exchange::{COMMAND_LIMIT, Exchange, Fault};
use crate::host::{Way, is_of_card};
use crate::registers::{Auto, State};
use crate::sdhci::{Sdhci, Turn};
use crate::source::Source;
use crate::trouble::Cause;
use culm::time::{Duration, Instant};
use culm_block::{BLOCK, Disk, Error, MAX_BLOCKS};
use culm_mmio::Registers;
use culm_sd::{Action, Bus, Card, Command, Init, Outcome, Problem};

/// A reset, or a clock, that takes longer than this has failed. Both take microseconds.
pub(crate) const SETTLE_LIMIT: Duration = Duration::from_millis(100);

/// The time between two looks at what changes soon.
pub(crate) const SOON: Duration = Duration::from_millis(1);

/// The time from power to the first command: 35 ms until the voltage is there, 1 ms more, and 74
/// clocks (SD Physical Layer 9.10 §6.4.1), of 400 kHz (§4.2.1).
const POWER_UP: Duration = Duration::from_millis(40);

/// The time between two looks at a card that is not in for good yet.
const INSERTION: Duration = Duration::from_millis(10);

/// The time without power before a card is set up: 1 ms below 0.5 V (SD Physical Layer 9.10, "Power
/// Up Time and Power Cycle"), which capacitors reach late. It is twice as long after each failure.
const POWER_OFF: Duration = Duration::from_millis(10);

/// The longest time without power.
const LONGEST_WAIT: Duration = Duration::from_secs(10);

/// Failures in a row, without a card that could be used in between, after which there is no disk.
const MOST_FAILURES: u32 = 3;

/// Exponent of the most blocks that one request clears: 32 MiB. The virtualiser asks for 1 MiB at
/// most; this bounds whoever has the driver without one.
const MOST_CLEARED: u8 = 16;

/// The state of the slot.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Phase {
    /// The controller resets everything.
    Reset { limit: Instant },
    /// The card is to be without power until then.
    Off { until: Instant },
    /// There is no card, or none that is in for good.
    Empty,
    /// The clock changes.
    Clock { limit: Instant, is_first: bool },
    /// The initialisation, or the card's power, needs time.
    Wait { until: Instant, is_first: bool },
    /// The card is initialised.
    Init,
    /// The card can be used.
    Ready,
}

impl Phase {
    /// Returns the first one after a reset of the controller.
    pub(crate) fn off(now: Instant) -> Self {
        Self::Off { until: now + POWER_OFF }
    }
}

/// Returns how long a slot is left alone that has failed so often.
fn wait_after(failures: u32) -> Duration {
    (POWER_OFF * (1 << failures.min(16))).min(LONGEST_WAIT)
}

impl<R: Registers, S: Source> Sdhci<R, S> {
    /// Begins to reset the controller. Everything follows from there.
    pub(crate) fn reset(&mut self, now: Instant) {
        // The reset forgets it.
        if is_of_card(self.host.take_events()) {
            self.lose_medium();
        }
        self.counts.resets += 1;
        (self.exchange, self.mending, self.card) = (None, None, None);
        self.host.reset();
        self.phase = Phase::Reset { limit: now + SETTLE_LIMIT };
    }

    /// Goes on without a card that can be used.
    pub(crate) fn set_up(&mut self, now: Instant) -> Turn {
        match self.phase {
            Phase::Reset { limit } => self.await_reset(limit, now),
            Phase::Empty => self.look_for_card(now),
            Phase::Clock { limit, is_first } => self.await_clock(limit, is_first, now),
            Phase::Wait { until, .. } | Phase::Off { until } if now < until => {
                self.refuse_all();
                Turn::Until(until)
            }
            Phase::Off { .. } => {
                self.phase = Phase::Empty;
                Turn::Again
            }
            Phase::Wait { is_first, .. } => {
                self.phase = Phase::Init;
                if is_first {
                    self.init = Init::new(self.host.buses());
                } else {
                    self.proceed(Outcome::Done, now);
                }
                Turn::Again
            }
            Phase::Init => self.initialise(now),
            Phase::Ready => Turn::Again,
        }
    }

    /// Answers what a client asks of a disk that is not there.
    fn refuse_all(&mut self) {
        if self.disk.is_some_and(|disk| !disk.is_present()) {
            let taken = self.client.take();
            debug_assert!(taken.is_none(), "a disk without a medium takes nothing");
        }
    }

    fn await_reset(&mut self, limit: Instant, now: Instant) -> Turn {
        if self.host.is_reset() {
            self.trouble.reset_ended();
            self.host.begin();
            self.phase = Phase::Off { until: now + wait_after(self.trouble.failures()) };
            self.end_failed_work();
            if self.trouble.failures() >= MOST_FAILURES {
                self.lose_card();
            }
            return Turn::Again;
        }
        if now < limit {
            return Turn::Until(now + SOON);
        }
        // It may still write to the memory of the request under way, which waits, as all do.
        Turn::Until(now + wait_after(self.trouble.count_late()))
    }

    fn look_for_card(&mut self, now: Instant) -> Turn {
        let state = self.host.state();
        if !state.has(State::HAS_CARD) {
            // Nothing can be said of a card that is not there, even if nobody saw it go.
            self.trouble.forget();
            self.lose_card();
            self.refuse_all();
            return Turn::Idle;
        }
        if !state.has(State::IS_STABLE) {
            return Turn::Until(now + INSERTION);
        }
        self.host.power_up();
        self.change_clock(None, now);
        Turn::Again
    }

    fn change_clock(&mut self, bus: Option<Bus>, now: Instant) {
        self.host.change_clock(bus);
        self.phase = Phase::Clock { limit: now + SETTLE_LIMIT, is_first: bus.is_none() };
    }

    fn await_clock(&mut self, limit: Instant, is_first: bool, now: Instant) -> Turn {
        if !self.host.start_clock() {
            if now < limit {
                return Turn::Until(now + SOON);
            }
            self.trouble.tell(Cause::Clock);
            self.trouble.count();
            self.reset(now);
            return Turn::Again;
        }
        self.phase = if is_first { Phase::Wait { until: now + POWER_UP, is_first } } else { Phase::Init };
        if !is_first {
            self.trouble.take_back_if(Cause::Clock);
            self.proceed(Outcome::Done, now);
        }
        Turn::Again
    }

    /// Does the next step of the initialisation.
    fn initialise(&mut self, now: Instant) -> Turn {
        match self.init.action() {
            Action::Send(command) => {
                let way = if command.data.is_some() { Way::Port } else { Way::None };
                match Exchange::begin(&self.host, command, way, Auto::NONE, now + COMMAND_LIMIT) {
                    Ok(exchange) => self.exchange = Some(exchange),
                    Err(fault) => self.fail(fault, now),
                }
            }
            Action::Wait(time) => self.phase = Phase::Wait { until: now + time, is_first: false },
            Action::Use(bus) => self.change_clock(Some(bus), now),
        }
        Turn::Again
    }

    /// Takes the reply to a command of the initialisation.
    pub(crate) fn initialised(&mut self, command: &Command, reply: u128, now: Instant) {
        let register = self.data.register;
        let length = command.data.map_or(0, |data| usize::from(data.size));
        let data = register.get(..length).unwrap_or_default();
        let outcome = if command.reply == culm_sd::Reply::None { Outcome::Done } else { Outcome::Reply(reply, data) };
        self.proceed(outcome, now);
    }

    /// Goes on after a command of the initialisation has failed, and the lines were reset.
    pub(crate) fn initialise_after(&mut self, fault: Fault, now: Instant) {
        self.proceed(if fault == Fault::Silent { Outcome::Silent } else { Outcome::Failed }, now);
    }

    fn proceed(&mut self, outcome: Outcome<'_>, now: Instant) {
        match self.init.proceed(outcome) {
            Ok(None) => {}
            Ok(Some(card)) => self.use_card(card),
            Err(problem) => self.refuse_card(problem, now),
        }
    }

    /// Begins to use a card.
    fn use_card(&mut self, card: Card) {
        let is_read_only =
            card.csd.is_protected || !self.options.has_no_switch && !self.host.state().has(State::CAN_WRITE);
        let can_count = card.scr.counts_blocks && self.host.counts_blocks();
        self.auto = if can_count { Auto::COUNT } else { Auto::STOP };
        // A transfer that would take longer than about a second is divided.
        self.most = (self.host.bytes_per_second() / BLOCK as u32).clamp(1, MAX_BLOCKS);
        let disk = Disk {
            read_only: is_read_only,
            discards: card.erases(),
            writes_zeroes: self.options.trusts_erasing && card.erases_to_zeroes(),
            // A write that a card has answered is durable: see the head of this crate.
            caches: false,
            most_cleared: MOST_CLEARED,
            ..Disk::new(card.blocks(), card.number())
        };
        if self.disk != Some(disk) {
            let protection = if is_read_only { ", read-only" } else { "" };
            culm::info!("card {}: {} blocks of {BLOCK} bytes{protection}", card.cid, card.blocks());
        }
        if let Some(work) = self.work.take_if(|_| self.disk.is_some_and(|known| known.medium != disk.medium)) {
            self.answer(&work, Err(Error::Changed));
        }
        if self.disk.is_some_and(|known| known.medium != disk.medium) {
            self.trouble.forget();
        }
        self.trouble.card_works();
        (self.card, self.disk, self.phase) = (Some(card), Some(disk), Phase::Ready);
        self.client.set_disk(disk);
    }

    /// Leaves a card that cannot be used.
    fn refuse_card(&mut self, problem: Problem, now: Instant) {
        self.trouble.tell(Cause::Card(problem));
        self.trouble.count();
        self.lose_card();
        self.reset(now);
    }

    /// Says that there is no disk. The controller has ended what it did.
    fn lose_card(&mut self) {
        self.card = None;
        if let Some(work) = self.work.take() {
            self.answer(&work, Err(Error::Absent));
        }
        if self.disk != Some(Disk::ABSENT) {
            self.disk = Some(Disk::ABSENT);
            self.client.set_disk(Disk::ABSENT);
        }
    }

    /// Goes on after a card was put in or taken out, or both.
    #[cold]
    pub(crate) fn change_card(&mut self, now: Instant) {
        self.lose_medium();
        self.reset(now);
    }

    /// Has the request under way answered, after the reset, by the card's being gone.
    fn lose_medium(&mut self) {
        if self.card.is_some() {
            culm::info!("the card was taken out");
        }
        self.trouble.forget();
        if let Some(work) = &mut self.work {
            work.verdict.get_or_insert(Error::Absent);
        }
        if self.disk.is_some() {
            self.disk = Some(Disk::ABSENT);
            self.client.set_disk(Disk::ABSENT);
        }
    }
}
