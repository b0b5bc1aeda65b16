//! Driver for Arm PL061 GPIO chips: it tells each client of one input line.
//!
//! Contacts bounce: a button that is pressed once makes many edges within milliseconds. The first
//! one is told at once; then the chip is not listened to for a while, and what the lines are after
//! that is told too. So a line that never rests costs a bounded number of turns.
//!
//! The driver may run late: a press that is over by then has left the level as it was, but the chip
//! remembers the edge. If nothing but edges of a line was seen during the wait, press and release
//! are told at its end, together. Not earlier: in the middle of bounces, a level that seems to be
//! unchanged may be about to change, and would be told as a second press.

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
use chip::{Chip, LINES, Seen};
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
    /// Lines that had an edge since the chip was last listened to.
    edges: u32,
    /// Lines of which a change was told since then: their edges are its bounces.
    told: u32,
}

impl Component for Pl061 {
    type Config = Config;
    type Connections = Connections;

    fn init(_: Config, connections: Connections) -> Self {
        let Connections { device, gpio } = connections;
        let watchers = start::list(gpio.clients).iter().map(Watcher::new).collect();
        let lines = Lines::new(Mapped::new(device.registers()), watchers, time::now());
        if let Some(again) = lines.again {
            culm::wake_at(again);
        }
        Self { lines, interrupt: device.interrupt(0).expect("the manifest asks for one") }
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
    fn new(registers: R, watchers: Box<[Watcher]>, now: Instant) -> Self {
        if watchers.iter().any(|watcher| watcher.bit() & LINES == 0) {
            culm::warn!(
                "a client watches a line that is none of this chip's {}, and will never change",
                LINES.count_ones()
            );
        }
        let watched = watchers.iter().fold(0, |bits, watcher| bits | watcher.bit() & LINES);
        // A line may have changed before this life. Edges may be bounces of what the life before
        // told, and do not count until contacts are at rest.
        let mut lines = Self { chip: Chip::new(registers, watched), watchers, again: None, edges: 0, told: watched };
        lines.ignore(now);
        lines.watchers.iter().for_each(Watcher::notify);
        culm::info!("watches {} line{}", watched.count_ones(), if watched.count_ones() == 1 { "" } else { "s" });
        lines
    }

    /// Looks at the lines where the chip has interrupted, and where contacts are at rest by now;
    /// returns when there is to be another turn.
    fn turn(&mut self, interrupted: bool, now: Instant) -> Option<Instant> {
        if interrupted {
            self.ignore(now);
        } else if self.again.is_some_and(|again| again <= now) {
            self.listen(now);
        }
        self.again
    }

    /// Tells what the lines are now, and waits for contacts to come to rest.
    fn ignore(&mut self, now: Instant) {
        let Seen { levels, edges } = self.chip.ignore();
        self.edges |= edges;
        self.told |= self.tell(levels);
        self.again = Some(now + BOUNCE);
    }

    /// Tells what the lines are after a wait, and what came and went during it. The chip is
    /// listened to if that is nothing new; a change that is found only now may bounce too, and has
    /// a wait of its own.
    fn listen(&mut self, now: Instant) {
        let Seen { levels, edges } = self.chip.listen();
        let changed = self.tell(levels);
        let passed = (self.edges | edges) & !(self.told | changed);
        for watcher in self.watchers.iter().filter(|watcher| watcher.bit() & passed != 0) {
            watcher.tell_pulse();
            counters::CHANGES.add(2);
        }
        (self.edges, self.told, self.again) = (0, changed | passed, None);
        if self.told != 0 {
            self.ignore(now);
        }
    }

    /// Tells each watcher by the levels; returns the lines that have changed.
    fn tell(&self, levels: u32) -> u32 {
        let mut changed = 0;
        for watcher in self.watchers.iter().filter(|watcher| watcher.tell(levels, LINES)) {
            changed |= watcher.bit();
            counters::CHANGES.add(1);
        }
        changed
    }
}
