//! Driver for new-chip.
//!
//! Registers are in [`registers`], what is done with them in [`chip`]. The guide "Add a driver" in
//! the book goes on from here: what comes through `connections.queues`, and which rules a driver
//! keeps.

#![cfg_attr(target_os = "none", no_std, no_main)]
#![forbid(unsafe_code)]

mod chip;
mod registers;
#[cfg(test)]
mod tests;

use chip::Chip;
use culm::{Channels, Component, Interrupt};
use culm_mmio::Mapped;

culm::component!(NewChip);

struct NewChip {
    chip: Chip<Mapped<{ registers::SIZE }>>,
    interrupt: Interrupt,
}

impl Component for NewChip {
    type Config = Config;
    type Connections = Connections;

    fn init(_: Config, connections: Connections) -> Self {
        let Connections { device, queues: _ } = connections;
        let interrupt = device.interrupt(0).expect("the board's file gives the device its interrupt");
        let chip = Chip::new(Mapped::new(device.registers())).expect("the device can be reset");
        Self { chip, interrupt }
    }

    fn notified(&mut self, channels: Channels) {
        if channels.contains(self.interrupt.channel()) {
            counters::INTERRUPTS.add(1);
            counters::DEVICE_ERRORS.add(u64::from(self.chip.interrupted()));
            self.interrupt.enable();
        }
    }
}
