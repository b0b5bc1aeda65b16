//! A controller on a bus: what becomes of it as the bus's driver makes it ready, refuses it, or
//! takes it back.
//!
//! A controller that was made ready anew has lost what it was told. Then everything begins as in a
//! new life of the driver: the virtualiser sends again what was not answered.

use crate::sdhci::{Counts, Options, Sdhci, Unusable};
use crate::source::Source;
use crate::starting::Starting;
use alloc::boxed::Box;
use alloc::vec::Vec;
use culm::{Progress, Region};
use culm_block::{Disk, Port};
use culm_bus::{Seat, State};
use culm_mmio::Registers;

/// How far the controller's start has come.
#[derive(Debug)]
#[expect(clippy::large_enum_variant, reason = "a driver has one of it")]
enum Stage<R, S> {
    /// The bus's driver has not looked at the controller yet: no register may be touched.
    Waiting,
    /// The bus's driver keeps the controller off: clients are told that there is no disk.
    Off(S),
    /// The controller is being reset.
    Starting(Starting<R>),
    /// The controller is in use.
    Running(Box<Sdhci<R, S>>),
}

/// A controller, its place on the bus, and its client.
pub struct Seated<R, S = Port> {
    seat: Seat,
    /// The bus driver's word on the controller when it was last looked at.
    state: Option<State>,
    stage: Stage<R, S>,
    registers: Box<dyn Fn() -> R>,
    memory: Region,
    data: Vec<Region>,
    client: Box<dyn Fn() -> S>,
    options: Options,
}

impl<R: Registers, S: Source> Seated<R, S> {
    /// Creates a controller that is not looked at yet. `registers` says where it is, and
    /// `client` makes who uses it, anew each time that it is ready; `memory` and `data` are what
    /// [`Starting::new`] says.
    pub fn new(
        seat: Seat,
        registers: Box<dyn Fn() -> R>,
        memory: Region,
        data: Vec<Region>,
        client: Box<dyn Fn() -> S>,
        options: Options,
    ) -> Self {
        Self { seat, state: None, stage: Stage::Waiting, registers, memory, data, client, options }
    }

    /// Looks at what the bus's driver says. It does when it is notified, and at the start.
    ///
    /// # Errors
    ///
    /// If the controller is ready and cannot be used.
    #[cold]
    pub fn look_at_bus(&mut self) -> Result<(), Unusable> {
        let state = self.seat.state();
        if self.state.replace(state) == Some(state) {
            return Ok(());
        }
        culm::trouble::clear();
        self.stage = match state {
            State::Waiting => {
                culm::info!("waits for the bus's driver");
                Stage::Waiting
            }
            State::Ready(_) => {
                Stage::Starting(Starting::new((self.registers)(), &self.memory, self.data.clone(), self.options)?)
            }
            State::Refused => {
                culm::trouble::tell(format_args!("the bus's driver keeps the controller off: there is no disk"));
                let mut client = (self.client)();
                client.set_disk(Disk::ABSENT);
                Stage::Off(client)
            }
        };
        Ok(())
    }

    /// Notes the controller's interrupt.
    #[inline(always)]
    pub fn interrupted(&mut self) {
        if let Stage::Running(sdhci) = &mut self.stage {
            sdhci.interrupted();
        }
    }

    /// Returns whether the controller is in use, so that an interrupt ends by what the driver does.
    #[inline(always)]
    pub fn is_running(&self) -> bool {
        matches!(self.stage, Stage::Running(_))
    }

    /// Returns what was counted since the controller is in use.
    #[inline(always)]
    pub fn counts(&self) -> Counts {
        match &self.stage {
            Stage::Running(sdhci) => sdhci.counts(),
            _ => Counts::default(),
        }
    }

    /// Does what there is to do.
    #[inline]
    pub fn round(&mut self) -> Progress {
        match &mut self.stage {
            Stage::Running(sdhci) => sdhci.round(),
            _ => self.round_apart(),
        }
    }

    #[cold]
    fn round_apart(&mut self) -> Progress {
        match core::mem::replace(&mut self.stage, Stage::Waiting) {
            Stage::Starting(starting) => match starting.finish(&self.client) {
                Ok(sdhci) => {
                    self.stage = Stage::Running(Box::new(sdhci));
                    return Progress::More;
                }
                Err(starting) => self.stage = Stage::Starting(starting),
            },
            Stage::Off(mut client) => {
                client.begin();
                let taken = client.take();
                debug_assert!(taken.is_none(), "a disk without a medium takes nothing");
                let progress = client.end_round(true);
                self.stage = Stage::Off(client);
                return progress;
            }
            stage => self.stage = stage,
        }
        Progress::Asleep
    }
}
