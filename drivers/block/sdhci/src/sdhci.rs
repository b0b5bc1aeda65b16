//! The driver's state, and its rounds.

use crate::data::DataPort;
use crate::descriptors::Table;
use crate::exchange::{Exchange, Progress as Step};
use crate::host::{Host, is_of_card};
use crate::recovery::Mending;
use crate::registers::Auto;
use crate::slot::Phase;
use crate::source::Source;
use crate::trouble::Trouble;
use crate::work::Work;
use core::fmt;
use culm::Progress;
use culm::time::{self, Instant};
use culm_block::{Disk, Port};
use culm_mmio::Registers;
use culm_sd::{Bus, Card, Init};

/// Steps of a round: sending a command, or looking what came of it.
const STEPS: u32 = 64;

/// How a controller is used.
#[derive(Clone, Copy, Debug, Default)]
pub struct Options {
    /// Frequency of the base clock in Hz, for controllers that do not say; 0 otherwise.
    pub base_clock: u32,
    /// The slot has no write-protect switch, as those of small cards.
    pub has_no_switch: bool,
    /// A card is believed that says that erased blocks read as zeroes, and zeroes are written by
    /// erasing. Some lie: QEMU's (10.0) says so and erases to ones.
    pub trusts_erasing: bool,
}

/// The reason why a controller cannot be used.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Unusable {
    /// It supplies no 3.3 V, or its base clock is not known, or too fast.
    Slot,
    /// It has no ADMA2, and the driver has no requests' memory mapped.
    Dma,
    /// The memory for descriptors is too small, or out of the controller's reach.
    Memory,
}

impl fmt::Display for Unusable {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(match self {
            Self::Slot => {
                "the controller has no 3.3 V, or its base clock is too fast or not known: `base_clock` says it"
            }
            Self::Dma => "the controller has no ADMA2: have the driver move the data by `pio = true`",
            Self::Memory => "the memory for descriptors is too small, or beyond the 4 GiB that the controller reaches",
        })
    }
}

/// Counters, for the log and for observers.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// Requests that were taken.
    pub requests: u64,
    /// Requests that were answered by an error.
    pub failed: u64,
    /// Commands that failed.
    pub faults: u64,
    /// Resets of the controller.
    pub resets: u64,
}

impl Counts {
    /// Returns whether anything but requests was counted since.
    #[inline(always)]
    pub fn is_eventful(&self, earlier: &Self) -> bool {
        let events = |counts: &Self| (counts.failed, counts.faults, counts.resets);
        events(self) != events(earlier)
    }
}

/// The result of one step.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Turn {
    /// There may be more to do.
    Again,
    /// Nothing until an interrupt, or this moment.
    Until(Instant),
    /// Nothing until an interrupt or a request.
    Idle,
}

/// The driver of one controller, and its client.
#[derive(Debug)]
pub struct Sdhci<R, S = Port> {
    pub(crate) host: Host<R>,
    pub(crate) options: Options,
    /// `None` if the driver moves the data.
    pub(crate) table: Option<Table>,
    pub(crate) data: DataPort,
    pub(crate) client: S,
    pub(crate) phase: Phase,
    pub(crate) exchange: Option<Exchange>,
    /// The recovery from a command that failed.
    pub(crate) mending: Option<Mending>,
    pub(crate) init: Init,
    pub(crate) card: Option<Card>,
    /// How the controller ends commands with several blocks.
    pub(crate) auto: Auto,
    /// The most blocks of one command.
    pub(crate) most: u32,
    pub(crate) work: Option<Work>,
    /// The moment from which on the request under way is not tried again, if it has failed.
    pub(crate) retry_until: Instant,
    pub(crate) disk: Option<Disk>,
    pub(crate) trouble: Trouble,
    pub(crate) counts: Counts,
    /// Whether the controller has interrupted and no exchange has looked at it yet.
    interrupted: bool,
}

impl<R: Registers, S: Source> Sdhci<R, S> {
    /// Begins with a controller that has just been reset.
    pub(crate) fn begin(host: Host<R>, options: Options, data: DataPort, table: Option<Table>, client: S) -> Self {
        Self {
            host,
            options,
            table,
            data,
            client,
            phase: Phase::off(time::now()),
            exchange: None,
            mending: None,
            init: Init::new(Bus::default()),
            card: None,
            auto: Auto::STOP,
            most: 1,
            work: None,
            retry_until: time::now(),
            disk: None,
            trouble: Trouble::default(),
            counts: Counts { resets: 1, ..Counts::default() },
            interrupted: false,
        }
    }

    /// Returns what was counted.
    pub fn counts(&self) -> Counts {
        self.counts
    }

    /// Notes the controller's interrupt. A round looks at it, after which it can be enabled again.
    #[inline(always)]
    pub fn interrupted(&mut self) {
        self.interrupted = true;
    }

    /// Does what there is to do, publishes answers, and announces sleep. It asks for a turn at a
    /// deadline where there is one.
    #[inline]
    pub fn round(&mut self) -> Progress {
        let now = time::now();
        self.client.begin();
        for _ in 0..STEPS {
            match self.step(now) {
                Turn::Again => {}
                Turn::Until(when) => {
                    culm::wake_at(when);
                    // Those for a disk that is not there are refused at once.
                    return self.client.end_round(self.disk == Some(Disk::ABSENT));
                }
                Turn::Idle => return self.client.end_round(true),
            }
        }
        let _ = self.client.end_round(false);
        Progress::More
    }

    #[inline]
    fn step(&mut self, now: Instant) -> Turn {
        if self.exchange.is_some() {
            return self.look(now);
        }
        if let Some(mending) = self.mending {
            return self.mend(mending, now);
        }
        if core::mem::take(&mut self.interrupted) && is_of_card(self.host.take_events()) {
            self.change_card(now);
            return Turn::Again;
        }
        match self.phase {
            Phase::Ready => self.go_on(now),
            _ => self.set_up(now),
        }
    }

    /// Looks at the command that is under way.
    #[inline]
    fn look(&mut self, now: Instant) -> Turn {
        let Some(exchange) = &mut self.exchange else { return Turn::Again };
        self.interrupted = false;
        match exchange.poll(&mut self.host, &mut self.data, now) {
            Step::Pending(limit) => return Turn::Until(limit),
            Step::More => return Turn::Until(now),
            Step::CardChanged => self.change_card(now),
            Step::Done(reply) => {
                let command = *exchange.command();
                self.exchange = None;
                match self.phase {
                    Phase::Ready => self.done(&command, reply, now),
                    _ => self.initialised(&command, reply, now),
                }
            }
            Step::Busy(reply) => {
                let command = *exchange.command();
                self.exchange = None;
                self.stay_busy(command, reply, now);
            }
            Step::Failed(fault) => {
                self.exchange = None;
                self.fail(fault, now);
            }
        }
        Turn::Again
    }
}
