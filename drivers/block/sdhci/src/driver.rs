//! The component: the driver's turns.

use crate::registers;
use crate::sdhci::{Counts, Options};
use crate::seated::Seated;
use crate::source::Source;
use crate::{Config, Connections, counters};
use alloc::boxed::Box;
use alloc::vec::Vec;
use culm::connection::{BlockMemory, BlockMemoryRegion, BusClient};
use culm::{Channel, Channels, Component, Device, Interrupt, ROUNDS, Region, run_rounds, start};
use culm_block::Port;
use culm_bus::Seat;
use culm_mmio::Mapped;

/// The driver of one controller, and its client: the virtualiser, or another one in this domain.
pub struct Driver<S = Port> {
    seated: Seated<Mapped<{ registers::SIZE }>, S>,
    bus: Channel,
    interrupt: Interrupt,
    /// Whether the interrupt has come and is masked since.
    is_masked: bool,
    /// The counters as observers were last shown them.
    shown: Counts,
}

impl<S: Source> Driver<S> {
    /// Begins with whatever the bus's driver says. `data` is the memory of requests, if the driver
    /// is to move their data; `client` makes who uses the controller, each time that it is ready.
    ///
    /// # Panics
    ///
    /// If the controller is ready and cannot be used.
    pub fn new(
        device: Device,
        bus: BusClient,
        data: Vec<Region>,
        client: impl Fn() -> S + 'static,
        options: Options,
    ) -> Self {
        let interrupt = device.interrupt(0).expect("the board's file gives the device its interrupt");
        let seat = Seat::new(bus);
        let registers = Box::new(move || Mapped::new(device.registers()));
        let seated = Seated::new(seat, registers, device.dma(), data, Box::new(client), options);
        let mut driver = Self { seated, bus: seat.channel(), interrupt, is_masked: false, shown: Counts::default() };
        driver.look_at_bus();
        driver.run();
        driver
    }

    /// Takes a turn.
    ///
    /// # Panics
    ///
    /// If the controller is ready and cannot be used.
    #[inline(always)]
    pub fn notified(&mut self, channels: Channels) {
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

    /// Looks at what the bus's driver says.
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
        let Config { base_clock, has_no_switch, trusts_erasing } = config;
        let options = Options { base_clock, has_no_switch, trusts_erasing };
        Self::new(device, bus, mapped(memory), move || Port::connect(&block), options)
    }

    #[inline(always)]
    fn notified(&mut self, channels: Channels) {
        Self::notified(self, channels);
    }
}
