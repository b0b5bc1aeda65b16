//! The component: the driver's turns.

use crate::registers;
use crate::sdhci::{Counts, Options};
use crate::seated::Seated;
use crate::{Config, Connections, counters};
use alloc::boxed::Box;
use alloc::vec::Vec;
use culm::connection::{BlockMemory, BlockMemoryRegion};
use culm::{Channel, Channels, Component, Interrupt, ROUNDS, Region, run_rounds, start};
use culm_bus::Seat;
use culm_mmio::Mapped;

/// The driver of one controller.
pub struct Driver {
    seated: Seated<Mapped<{ registers::SIZE }>>,
    bus: Channel,
    interrupt: Interrupt,
    /// Whether the interrupt has come and is masked since.
    is_masked: bool,
    /// The counters as observers were last shown them.
    shown: Counts,
}

impl Driver {
    /// Looks at what the bus's driver says.
    ///
    /// # Panics
    ///
    /// If the controller is ready and cannot be used.
    #[cold]
    fn look_at_bus(&mut self) {
        if let Err(reason) = self.seated.look_at_bus() {
            panic!("{reason}");
        }
        self.shown = Counts::default();
    }

    #[inline(always)]
    fn run(&mut self) {
        run_rounds(ROUNDS, || self.seated.round());
        if self.is_masked && self.seated.is_running() {
            self.is_masked = false;
            self.interrupt.enable();
        }
        self.show();
    }

    #[inline(always)]
    fn show(&mut self) {
        let counts = self.seated.counts();
        counters::REQUESTS.add(counts.requests - self.shown.requests);
        if counts.is_eventful(&self.shown) {
            counters::FAILED.add(counts.failed - self.shown.failed);
            counters::FAULTS.add(counts.faults - self.shown.faults);
            counters::RESETS.add(counts.resets - self.shown.resets);
        }
        self.shown = counts;
    }
}

/// Returns the memory of requests, if the driver is to move their data.
fn mapped(memory: Option<BlockMemory>) -> Vec<Region> {
    let regions: &[BlockMemoryRegion] = memory.map_or(&[][..], |memory| start::list(memory.regions));
    regions.iter().map(|region| Region::new(region.data)).collect()
}

impl Component for Driver {
    type Config = Config;
    type Connections = Connections;

    fn init(config: Config, connections: Connections) -> Self {
        let Connections { device, bus, block, memory } = connections;
        let interrupt = device.interrupt(0).expect("the board's file gives the device its interrupt");
        let Config { base_clock, has_no_switch, trusts_erasing } = config;
        let options = Options { base_clock, has_no_switch, trusts_erasing };
        let seat = Seat::new(bus);
        let registers = Box::new(move || Mapped::new(device.registers()));
        let seated = Seated::new(seat, registers, device.dma(), mapped(memory), block, options);
        let mut driver = Self { seated, bus: seat.channel(), interrupt, is_masked: false, shown: Counts::default() };
        driver.look_at_bus();
        driver.run();
        driver
    }

    #[inline(always)]
    fn notified(&mut self, channels: Channels) {
        if channels.contains(self.interrupt.channel()) {
            counters::INTERRUPTS.add(1);
            self.is_masked = true;
            self.seated.interrupted();
        }
        if channels.contains(self.bus) {
            self.look_at_bus();
        }
        self.run();
    }
}
