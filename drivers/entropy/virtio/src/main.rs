//! Driver for virtio sources of random bits (VIRTIO 1.2 §5.4).
//!
//! It keeps a seed ready for each of its clients. Seeds come from a generator, to which bits of the
//! device are added whenever some were given, and those that the kernel gave this driver: whoever
//! knows only the one or the other cannot predict what a client gets. [`source`] talks to the
//! device.

#![cfg_attr(target_os = "none", no_std, no_main)]
#![forbid(unsafe_code)]

mod source;
#[cfg(test)]
mod tests;

use culm::{Channels, Component, Interrupt, Progress, ROUNDS, run_rounds};
use culm_entropy::Clients;
use culm_mmio::Mapped;
use culm_random::{Generator, Seed};
use source::Source;

culm::component!(EntropyVirtio);

struct EntropyVirtio {
    /// The device, unless it cannot be used.
    source: Option<Source<Mapped<{ source::SIZE }>>>,
    interrupt: Interrupt,
    clients: Clients,
    /// `None` until the device has given something.
    generator: Option<Generator>,
}

impl Component for EntropyVirtio {
    type Config = Config;
    type Connections = Connections;

    fn init(_: Config, connections: Connections) -> Self {
        let Connections { device, clients } = connections;
        let interrupt = device.interrupt(0).expect("the board's file gives the device its interrupt");
        let source = Source::new(Mapped::new(device.registers()), device.dma());
        // Its clients say that they get nothing, and go on.
        let source = source.inspect_err(|reason| culm::error!("no random bits: {reason}")).ok();
        let mut driver = Self { source, interrupt, clients: Clients::new(&clients), generator: None };
        driver.run();
        driver
    }

    fn notified(&mut self, channels: Channels) {
        let interrupted = channels.contains(self.interrupt.channel());
        if let (true, Some(source)) = (interrupted, &mut self.source) {
            source.interrupted();
        }
        self.run();
        // The interrupt of a device that cannot be used stays off: nobody would acknowledge it.
        if interrupted && self.source.is_some() {
            self.interrupt.enable();
        }
    }
}

impl EntropyVirtio {
    fn run(&mut self) {
        run_rounds(ROUNDS, || self.round());
    }

    fn round(&mut self) -> Progress {
        let Self { source: Some(source), clients, generator, .. } = self else { return Progress::Asleep };
        if let Some(seed) = source.take() {
            add(generator, seed);
        }
        let Some(generator) = generator else { return source.sleep() };
        let given = clients.fill(generator);
        if given > 0 {
            counters::SEEDS_GIVEN.add(given);
            source.ask();
        }
        source.sleep() & clients.sleep()
    }
}

/// Adds bits of the device, and with the first ones those that the kernel gave.
fn add(generator: &mut Option<Generator>, seed: Seed) {
    if let Some(generator) = generator {
        generator.add(seed);
        return;
    }
    let mut first = Generator::new(seed);
    if let Some(own) = culm::random::words() {
        first.add(own);
    }
    *generator = Some(first);
}
