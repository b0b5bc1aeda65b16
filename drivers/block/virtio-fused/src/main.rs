//! Driver for virtio block devices with its virtualiser in its domain (`fused = true`).
//!
//! The virtualiser is the same program as in a domain of its own, and so is what the driver does
//! with the device. Only the queues between the two are left out: a client's request goes straight
//! into the device's queue. A restart is one of both: the device is reset, which ends what the
//! previous life gave it, before requests are taken; the clients send again what was not answered.

#![cfg_attr(target_os = "none", no_std, no_main)]
#![forbid(unsafe_code)]

#[cfg(test)]
mod tests;

use block_virt::{Tag, Virtualiser};
use block_virtio::{Engine, registers};
use culm::time::Instant;
use culm::{Channels, Component, Interrupt, ROUNDS, run_rounds, start};
use culm_mmio::Mapped;

culm::component!(BlockVirtioFused);

struct BlockVirtioFused {
    virtualiser: Virtualiser<Engine<Mapped<{ registers::SIZE }>, Tag>>,
    interrupt: Interrupt,
}

impl Component for BlockVirtioFused {
    type Config = Config;
    type Connections = Connections;

    fn init(_: Config, Connections { device, block, .. }: Connections) -> Self {
        let interrupt = device.interrupt(0).expect("the board's file gives the device its interrupt");
        let engine = match Engine::new(Mapped::new(device.registers()), device.dma()) {
            Ok(engine) => engine,
            Err(reason) => panic!("{reason}"),
        };
        let virtualiser = Virtualiser::with_driver(engine, &block, start::list(block.clients));
        culm::wake_at(Instant::default());
        Self { virtualiser, interrupt }
    }

    #[inline(always)]
    fn notified(&mut self, channels: Channels) {
        let mut interrupted = false;
        for channel in channels {
            if channel == self.interrupt.channel() {
                interrupted = true;
                self.virtualiser.driver().interrupted();
            } else {
                self.virtualiser.mark(channel);
            }
        }
        run_rounds(
            ROUNDS,
            #[inline(always)]
            || self.virtualiser.round(),
        );
        if interrupted {
            self.interrupt.enable();
        }
    }
}

// The manifest lists the counters of both.
const _: () = assert!(counters::COUNTERS == block_virtio::counters::COUNTERS + block_virt::counters::COUNTERS);
