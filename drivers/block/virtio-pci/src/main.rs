//! Driver for virtio block devices on a PCI bus (VIRTIO 1.2 §4.1): the component. Whether there is
//! a device is in module `seated`; all that is done with one is in `block-virtio`, as for those on
//! MMIO.

#![cfg_attr(target_os = "none", no_std, no_main)]
#![forbid(unsafe_code)]

#[cfg(target_os = "none")]
extern crate alloc;
#[cfg(not(target_os = "none"))]
extern crate std as alloc;

mod seated;
#[cfg(test)]
mod tests;

use alloc::boxed::Box;
use culm::{Channel, Channels, Component, Interrupt, ROUNDS, run_rounds};
use culm_bus::Seat;
use culm_mmio::Mapped;
use seated::Seated;

culm::component!(BlockVirtioPci);

/// Bytes of the registers, among which all structures of the device have to be.
const SIZE: usize = 0x4000;

struct BlockVirtioPci {
    seated: Seated<Mapped<SIZE>>,
    bus: Channel,
    interrupt: Interrupt,
    /// Whether the interrupt has come and is masked since.
    is_masked: bool,
}

impl BlockVirtioPci {
    /// Looks at what the bus's driver says.
    ///
    /// # Panics
    ///
    /// If the device is ready and does not reset: the next life tries again.
    #[cold]
    fn look_at_bus(&mut self) {
        if let Err(reason) = self.seated.look_at_bus() {
            panic!("{reason}");
        }
    }

    #[inline(always)]
    fn run(&mut self) {
        run_rounds(ROUNDS, || self.seated.round());
        if self.is_masked && self.seated.is_running() {
            self.is_masked = false;
            self.interrupt.enable();
        }
    }
}

impl Component for BlockVirtioPci {
    type Config = Config;
    type Connections = Connections;

    fn init(_: Config, Connections { device, bus, block }: Connections) -> Self {
        let interrupt = device.interrupt(0).expect("the board's file gives the device its interrupt");
        let seat = Seat::new(bus);
        let registers = Box::new(move || Mapped::new(device.registers()));
        let seated = Seated::new(seat, registers, SIZE, device.dma(), block);
        let mut driver = Self { seated, bus: seat.channel(), interrupt, is_masked: false };
        driver.look_at_bus();
        driver.run();
        driver
    }

    #[inline(always)]
    fn notified(&mut self, channels: Channels) {
        if channels.contains(self.interrupt.channel()) {
            self.is_masked = true;
            self.seated.interrupted(channels.without(self.interrupt.channel()).is_empty());
        }
        if channels.contains(self.bus) {
            self.look_at_bus();
        }
        self.run();
    }
}

// The manifest lists the counters of the library.
const _: () = assert!(counters::COUNTERS == block_virtio::counters::COUNTERS);
