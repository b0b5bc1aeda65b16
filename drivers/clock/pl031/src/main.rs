//! Driver for Arm PL031 real-time clocks.
//!
//! It shows the second as soon as it is there, and from the beginning of the next one on to the
//! microsecond or so: the clock interrupts then. Once in a while it does so again, since the
//! clock and the system counter drift apart. Nobody can set the clock.

#![cfg_attr(target_os = "none", no_std, no_main)]
#![forbid(unsafe_code)]

mod chip;
mod registers;
#[cfg(test)]
mod tests;

use chip::Chip;
use culm::time::{self, Duration};
use culm::{Channels, Component, Interrupt};
use culm_clock::Face;
use culm_mmio::Mapped;

culm::component!(Pl031);

/// Seconds after which clock and system counter are compared again: they drift apart by some
/// milliseconds meanwhile.
const AGAIN: u32 = 60;

struct Pl031 {
    chip: Chip<Mapped<{ registers::SIZE }>>,
    interrupt: Interrupt,
    face: Face,
}

impl Component for Pl031 {
    type Config = Config;
    type Connections = Connections;

    fn init(_: Config, connections: Connections) -> Self {
        let Connections { device, clock } = connections;
        let mut driver = Self {
            chip: Chip::new(Mapped::new(device.registers())),
            interrupt: device.interrupt(0).expect("the manifest asks for one"),
            face: Face::new(clock),
        };
        driver.show(driver.chip.second());
        driver.chip.interrupt_in(1);
        driver
    }

    fn notified(&mut self, channels: Channels) {
        if channels.contains(self.interrupt.channel()) {
            let second = self.chip.begun();
            self.show(second);
            self.chip.interrupt_in(AGAIN);
            self.interrupt.enable();
        }
    }
}

impl Pl031 {
    /// Shows that this second has just begun.
    fn show(&self, second: u32) {
        self.face.show(Duration::from_secs(second.into()), time::now());
        counters::SETTINGS.add(1);
    }
}
