//! Driver for virtio network devices on MMIO, modern interface (VIRTIO 1.2).
//!
//! It moves descriptors between the device's queues and those of the two virtualisers and maps no payload. [`registers`] says
//! where things are, [`device`] sets a device up, [`ring`] is the virtqueue, [`net`] moves packets between it and a [`pair`] of
//! queues, [`account`] says how a restarted driver goes on, [`reset`] what happens where it cannot.

#![cfg_attr(target_os = "none", no_std, no_main)]
#![forbid(unsafe_code)]

#[cfg(target_os = "none")]
extern crate alloc;
#[cfg(not(target_os = "none"))]
extern crate std as alloc;

mod account;
mod device;
#[cfg(test)]
mod fake;
mod net;
mod pair;
mod patience;
mod registers;
mod reset;
#[cfg(test)]
mod restart_tests;
mod ring;
#[cfg(test)]
mod tests;

use culm::{Channels, Component, Interrupt, time};
use culm_mmio::Mapped;
use net::Net;

culm::component!(VirtioNet);

/// Rounds in one turn before others of the same priority get theirs.
const ROUNDS: u32 = 8;

struct VirtioNet {
    net: Net<Mapped<{ registers::SIZE }>>,
    interrupt: Interrupt,
}

impl Component for VirtioNet {
    type Config = Config;
    type Connections = Connections;

    fn init(_: Config, connections: Connections) -> Self {
        let Connections { device, net } = connections;
        let interrupt = device.interrupt(0).expect("the board's file gives the device its interrupt");
        let registers = Mapped::new(device.registers());
        let net = match Net::new(registers, device.dma(), &net) {
            Ok(net) => net,
            Err(reason) => panic!("{reason}"),
        };
        let mut driver = Self { net, interrupt };
        driver.take_turn();
        // A previous life may have left it masked.
        driver.interrupt.enable();
        driver
    }

    fn notified(&mut self, channels: Channels) {
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
}

impl VirtioNet {
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
