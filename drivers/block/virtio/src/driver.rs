//! The component: the driver's turns.

use crate::block::Block;
use crate::{Config, Connections, registers};
use culm::connection::BlockDriver;
use culm::time::Instant;
use culm::{Channels, Component, Device, Interrupt, ROUNDS, run_rounds};
use culm_mmio::Mapped;

/// The driver of one device.
pub struct Driver {
    block: Block<Mapped<{ registers::SIZE }>>,
    interrupt: Interrupt,
}

impl Driver {
    /// Sets the device up, and asks for the first turn.
    ///
    /// # Panics
    ///
    /// If the device cannot be used.
    pub fn new(device: &Device, connection: &BlockDriver) -> Self {
        let interrupt = device.interrupt(0).expect("the board's file gives the device its interrupt");
        let registers = Mapped::new(device.registers());
        let block = match Block::new(registers, device.dma(), connection) {
            Ok(block) => block,
            Err(reason) => panic!("{reason}"),
        };
        culm::wake_at(Instant::default());
        Self { block, interrupt }
    }
}

impl Component for Driver {
    type Config = Config;
    type Connections = Connections;

    fn init(_: Config, connections: Connections) -> Self {
        Self::new(&connections.device, &connections.block)
    }

    #[inline(always)]
    fn notified(&mut self, channels: Channels) {
        let interrupted = channels.contains(self.interrupt.channel());
        if interrupted {
            self.block.interrupted(channels.without(self.interrupt.channel()).is_empty());
        }
        run_rounds(
            ROUNDS,
            #[inline(always)]
            || self.block.round(),
        );
        if interrupted {
            self.interrupt.enable();
        }
    }
}
