//! Driver for Arm PL031 real-time clocks.
//!
//! It shows the second as soon as it is there, and from the beginning of the next one on to the
//! microsecond or so: the clock interrupts then. Once in a while it does so again, since the
//! clock and the system counter drift apart. Nobody can set the clock.
//!
//! Nothing here sets the time back by mistake: neither a restart nor an interrupt that is handled
//! late ([`shown`]).

#![cfg_attr(target_os = "none", no_std, no_main)]
#![forbid(unsafe_code)]

mod chip;
mod registers;
mod shown;
#[cfg(test)]
mod tests;

use chip::Chip;
use culm::{Channels, Component, Interrupt};
use culm_clock::Face;
use culm_mmio::Mapped;
use shown::Shown;

culm::component!(Pl031);

/// Seconds after which clock and system counter are compared again: they drift apart by some
/// milliseconds meanwhile.
const AGAIN: u32 = 60;

struct Pl031 {
    chip: Chip<Mapped<{ registers::SIZE }>>,
    interrupt: Interrupt,
    shown: Shown,
}

impl Component for Pl031 {
    type Config = Config;
    type Connections = Connections;

    fn init(_: Config, connections: Connections) -> Self {
        let Connections { device, clock } = connections;
        let mut driver = Self {
            chip: Chip::new(Mapped::new(device.registers())),
            interrupt: device.interrupt(0).expect("the manifest asks for one"),
            shown: Shown::new(Face::new(clock)),
        };
        driver.shown.begin(driver.chip.second());
        driver.chip.interrupt_in(1);
        driver
    }

    fn notified(&mut self, channels: Channels) {
        if channels.contains(self.interrupt.channel()) {
            let is_right = self.shown.second_begins(self.chip.begun());
            self.chip.interrupt_in(if is_right { AGAIN } else { 1 });
            self.interrupt.enable();
        }
    }
}
