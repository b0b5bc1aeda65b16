//! Driver for Arm PL061 GPIO chips: it tells each client of one input line.
//!
//! Contacts bounce: a button that is pressed once makes many edges within milliseconds. The first
//! one is told at once; then the chip is not listened to for a while, and what the lines are after
//! that is told too. So a line that never rests costs a bounded number of turns.

#![cfg_attr(target_os = "none", no_std, no_main)]
#![forbid(unsafe_code)]

#[cfg(target_os = "none")]
extern crate alloc;
#[cfg(not(target_os = "none"))]
extern crate std as alloc;

mod chip;
mod registers;
#[cfg(test)]
mod tests;

use alloc::boxed::Box;
use chip::{Chip, LINES};
use culm::time::{self, Duration, Instant};
use culm::{Channels, Component, Interrupt, start};
use culm_gpio::Watcher;
use culm_mmio::{Mapped, Registers};

culm::component!(Pl061);

/// How long contacts bounce at most.
const BOUNCE: Duration = Duration::from_millis(10);

/// The component.
struct Pl061 {
    lines: Lines<Mapped<{ registers::SIZE }>>,
    interrupt: Interrupt,
}

/// The chip, and who watches its lines.
struct Lines<R> {
    chip: Chip<R>,
    watchers: Box<[Watcher]>,
    /// When the chip is listened to again, if it is not now.
    again: Option<Instant>,
}

impl Component for Pl061 {
    type Config = Config;
    type Connections = Connections;

    fn init(_: Config, connections: Connections) -> Self {
        let Connections { device, gpio } = connections;
        let watchers = start::list(gpio.clients).iter().map(Watcher::new).collect();
        Self {
            lines: Lines::new(Mapped::new(device.registers()), watchers),
            interrupt: device.interrupt(0).expect("the manifest asks for one"),
        }
    }

    fn notified(&mut self, channels: Channels) {
        let interrupted = channels.contains(self.interrupt.channel());
        if interrupted {
            counters::INTERRUPTS.add(1);
        }
        if let Some(again) = self.lines.turn(interrupted, time::now()) {
            culm::wake_at(again);
        }
        if interrupted {
            self.interrupt.enable();
        }
    }
}

impl<R: Registers> Lines<R> {
    fn new(registers: R, watchers: Box<[Watcher]>) -> Self {
        if watchers.iter().any(|watcher| watcher.bit() & LINES == 0) {
            culm::warn!(
                "a client watches a line that is none of this chip's {}, and will never change",
                LINES.count_ones()
            );
        }
        let watched = watchers.iter().fold(0, |bits, watcher| bits | watcher.bit() & LINES);
        let mut lines = Self { chip: Chip::new(registers, watched), watchers, again: None };
        culm::info!("watches {} line{}", watched.count_ones(), if watched.count_ones() == 1 { "" } else { "s" });
        // A line may have changed before this life.
        let levels = lines.chip.listen();
        lines.tell(levels);
        lines
    }

    /// Looks at the lines where the chip has interrupted, and where contacts are at rest by now;
    /// returns when there is to be another turn.
    fn turn(&mut self, interrupted: bool, now: Instant) -> Option<Instant> {
        if interrupted {
            let levels = self.chip.ignore();
            self.tell(levels);
            self.again = Some(now + BOUNCE);
        } else if self.again.is_some_and(|again| again <= now) {
            let levels = self.chip.listen();
            self.tell(levels);
            self.again = None;
        }
        self.again
    }

    fn tell(&self, levels: u32) {
        let changes = self.watchers.iter().filter(|watcher| watcher.tell(levels)).count();
        counters::CHANGES.add(changes as u64);
    }
}
