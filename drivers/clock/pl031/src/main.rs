//! Driver for Arm PL031 real-time clocks.
//!
//! It shows the second as soon as it is there, and from the beginning of the next one on to the
//! microsecond or so: the clock interrupts then. Once in a while it does so again, since the
//! clock and the system counter drift apart. Nobody can set the clock.
//!
//! A second that was read has begun at some time before: the time is later than that by less than a
//! second. What is shown already, by an earlier life too, is better if it agrees with that: so a
//! restart does not set the time back.

#![cfg_attr(target_os = "none", no_std, no_main)]
#![forbid(unsafe_code)]

mod chip;
mod registers;
#[cfg(test)]
mod tests;

use chip::Chip;
use culm::time::{Duration, Instant};
use culm::{Channels, Component, Interrupt};
use culm_clock::Face;
use culm_mmio::Mapped;

culm::component!(Pl031);

/// Seconds after which clock and system counter are compared again: they drift apart by some
/// milliseconds meanwhile.
const AGAIN: u32 = 60;

/// The most by which they drift apart in that time, by far. If the clock seems to be behind what is
/// shown by more than that, and by less than a second, its interrupt was handled late.
const DRIFT: Duration = Duration::from_millis(50);

/// How far into a second the clock may be when the second is read.
const SECOND: Duration = Duration::from_secs(1);

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
        show(&driver.face, driver.chip.second(), Duration::ZERO);
        driver.chip.interrupt_in(1);
        driver
    }

    fn notified(&mut self, channels: Channels) {
        if channels.contains(self.interrupt.channel()) {
            let is_shown = show(&self.face, self.chip.begun(), DRIFT);
            self.chip.interrupt_in(if is_shown { AGAIN } else { 1 });
            self.interrupt.enable();
        }
    }
}

/// Shows that a second has just begun at a moment, unless the time that is shown already is ahead
/// of that by `least` or more, and less than a second. Returns whether it was shown.
fn show(face: &Face, (second, moment): (u32, Instant), least: Duration) -> bool {
    let begun = Duration::from_secs(second.into());
    let ahead = face.shown(moment).and_then(|shown| shown.checked_sub(begun));
    if ahead.is_some_and(|ahead| (least..SECOND).contains(&ahead)) {
        return false;
    }
    face.show(begun, moment);
    counters::SETTINGS.add(1);
    true
}
