//! The driver's turns.

use crate::net::Net;
use crate::registers;
use culm::connection::NetDriver;
use culm::{Channels, Device, Interrupt, time};
use culm_mmio::Mapped;

/// Rounds in one turn before others of the same priority get theirs.
const ROUNDS: u32 = 8;

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
        driver.take_turn();
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
        self.take_turn();
        if interrupted {
            self.interrupt.enable();
        }
    }

    #[inline(always)]
    fn take_turn(&mut self) {
        for _ in 0..ROUNDS {
            if self.net.round() {
                return;
            }
        }
        culm::wake_at(time::now());
    }
}
