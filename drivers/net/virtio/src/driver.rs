//! The driver's turns.

use crate::net::Net;
use crate::registers;
use culm::connection::NetDriver;
use culm::{Channels, Device, Interrupt, ROUNDS, run_rounds};
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
        // A previous life may have left the interrupt masked.
        driver.interrupt.enable();
        driver
    }

    /// Takes a turn.
    #[inline(always)]
    pub fn notified(&mut self, channels: Channels) {
        let interrupt = self.interrupt.channel();
        let interrupted = channels.contains(interrupt);
        if interrupted {
            self.net.interrupted();
        }
        if channels != Channels::from(interrupt) {
            self.net.note(channels);
        }
        self.run();
        if interrupted {
            self.interrupt.enable();
        }
    }

    #[inline(always)]
    fn run(&mut self) {
        run_rounds(ROUNDS, || self.net.round());
    }
}
