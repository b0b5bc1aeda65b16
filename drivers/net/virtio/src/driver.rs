//! The component: the driver's turns.

use crate::net::Net;
use crate::{Config, Connections, registers};
use culm::connection::NetDriver;
use culm::{Channels, Component, Device, Interrupt, ROUNDS, run_rounds};
use culm_mmio::Mapped;

/// The driver of one device.
pub struct Driver {
    net: Net<Mapped<{ registers::SIZE }>>,
    interrupt: Interrupt,
}

impl Driver {
    /// Takes the device's first turn.
    ///
    /// # Panics
    ///
    /// If the device cannot be used.
    pub fn new(device: &Device, net: &NetDriver) -> Self {
        let interrupt = device.interrupt(0).expect("the board's file gives the device its interrupt");
        let registers = Mapped::new(device.registers());
        let net = match Net::new(registers, device.dma(), net) {
            Ok(net) => net,
            Err(reason) => panic!("{reason}"),
        };
        let mut driver = Self { net, interrupt };
        driver.run();
        driver
    }

    #[inline(always)]
    fn run(&mut self) {
        run_rounds(ROUNDS, || self.net.round());
    }
}

impl Component for Driver {
    type Config = Config;
    type Connections = Connections;

    fn init(_: Config, connections: Connections) -> Self {
        Self::new(&connections.device, &connections.net)
    }

    #[inline(always)]
    fn notified(&mut self, channels: Channels) {
        let interrupt = self.interrupt.channel();
        let interrupted = channels.contains(interrupt);
        if interrupted {
            self.net.interrupted();
        }
        if channels != Channels::from(interrupt) {
            self.net.mark_due(channels);
        }
        self.run();
        if interrupted {
            self.interrupt.enable();
        }
    }
}
