//! A device on a bus: what becomes of it as the bus's driver makes it ready, refuses it, or takes
//! it back.
//!
//! A device that was made ready anew has lost what it was told. Then everything begins as in a new
//! life of the driver: the virtualiser sends again what was not answered.

use alloc::boxed::Box;
use block_virtio::Block;
use culm::connection::BlockDriver;
use culm::{Progress, Region};
use culm_block::Port;
use culm_bus::{Seat, State};
use culm_mmio::Registers;
use culm_pci::virtio::Structures;
use culm_virtio::{Pci, Unusable};

/// The state of the device.
enum Stage<R> {
    /// The bus's driver has not looked at it yet: no register may be touched.
    Waiting,
    /// It stays off: clients are told that there is no disk.
    Off(Box<Port>),
    /// It is in use.
    Running(Box<Block<Pci<R>>>),
}

/// A device and its place on the bus.
pub struct Seated<R> {
    seat: Seat,
    /// The bus driver's word on the device when it was last looked at.
    state: Option<State>,
    stage: Stage<R>,
    registers: Box<dyn Fn() -> R>,
    /// Bytes of the registers.
    size: usize,
    memory: Region,
    connection: BlockDriver,
}

impl<R: Registers> Seated<R> {
    /// Creates a device that is not looked at yet. `registers` says where it is, over `size` bytes;
    /// `memory` is what it shares with the driver.
    pub fn new(
        seat: Seat,
        registers: Box<dyn Fn() -> R>,
        size: usize,
        memory: Region,
        connection: BlockDriver,
    ) -> Self {
        Self { seat, state: None, stage: Stage::Waiting, registers, size, memory, connection }
    }

    /// Looks at what the bus's driver says. It does when it is notified, and at the start.
    ///
    /// # Errors
    ///
    /// If the device is ready and does not reset: it may be at work in clients' memory, so their
    /// requests must not end.
    #[cold]
    pub fn look_at_bus(&mut self) -> Result<(), Unusable> {
        let state = self.seat.state();
        if self.state.replace(state) == Some(state) {
            return Ok(());
        }
        // The memory of what there was is free for what comes.
        self.stage = Stage::Waiting;
        culm::trouble::clear();
        self.stage = match state {
            State::Waiting => {
                culm::info!("waits for the bus's driver");
                Stage::Waiting
            }
            State::Ready(number) => match self.seat.details(number) {
                // It is being changed: the bus's driver notifies of what it becomes.
                None => Stage::Waiting,
                Some(details) => match Structures::from_words(details, self.size as u64) {
                    Some(structures) => {
                        let interface = Pci::new((self.registers)(), structures);
                        match Block::new(interface, self.memory, &self.connection) {
                            Ok(block) => Stage::Running(Box::new(block)),
                            Err(Unusable::Stuck) => return Err(Unusable::Stuck),
                            Err(reason) => {
                                culm::trouble::tell(format_args!(
                                    "the device cannot be used: {reason}: there is no disk"
                                ));
                                self.off()
                            }
                        }
                    }
                    None => {
                        culm::trouble::tell(format_args!(
                            "the device's structures are not in {:#x} bytes: there is no disk",
                            self.size
                        ));
                        self.off()
                    }
                },
            },
            State::Refused => {
                culm::trouble::tell(format_args!("the bus's driver keeps the device off: there is no disk"));
                self.off()
            }
        };
        Ok(())
    }

    fn off(&self) -> Stage<R> {
        Stage::Off(Box::new(Port::without_disk(&self.connection)))
    }

    /// Notes the device's interrupt, and whether it `is_alone`: see [`Block::interrupted`].
    #[inline(always)]
    pub fn interrupted(&mut self, is_alone: bool) {
        if let Stage::Running(block) = &mut self.stage {
            block.interrupted(is_alone);
        }
    }

    /// Returns whether the device is in use, so that an interrupt ends by what the driver does.
    #[inline(always)]
    pub fn is_running(&self) -> bool {
        matches!(self.stage, Stage::Running(_))
    }

    /// Does what there is to do.
    #[inline]
    pub fn round(&mut self) -> Progress {
        match &mut self.stage {
            Stage::Running(block) => block.round(),
            Stage::Off(port) => port.refuse_all(),
            Stage::Waiting => Progress::Asleep,
        }
    }
}
