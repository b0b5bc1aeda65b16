//! The virtio driver, made to die: each of its lives ends at some store that outlives it, in the
//! middle of what it does.
//!
//! It is the driver's own library. The feature `crash` of the libraries below it lets a life end at
//! a store to a queue, to a virtqueue or to the checkpoint; no other component sets it.

#![cfg_attr(target_os = "none", no_std, no_main)]
#![forbid(unsafe_code)]

use culm::{Channels, Component, time};
use culm_queue::crash;
use net_virtio::Driver;

culm::component!(NetMortal);

struct NetMortal(Driver);

impl Component for NetMortal {
    type Config = Config;
    type Connections = Connections;

    fn init(config: Config, connections: Connections) -> Self {
        // Any number, another one in each life: the low bits of a counter of nanoseconds, mixed.
        let random = (time::now().ticks().wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 32) as u32;
        crash::die_after(random % config.steps);
        Self(Driver::new(&connections.device, &connections.net))
    }

    fn notified(&mut self, channels: Channels) {
        self.0.notified(channels);
    }
}

/// The driver counts by the positions of its own manifest.
const _: () = {
    use culm::Counter;
    use net_virtio::counters as driver;
    const fn same(own: Counter, other: Counter) {
        assert!(own.position() == other.position(), "the two manifests list different counters");
    }
    same(counters::RECEIVED_PACKETS, driver::RECEIVED_PACKETS);
    same(counters::SENT_PACKETS, driver::SENT_PACKETS);
    same(counters::INTERRUPTS, driver::INTERRUPTS);
    same(counters::DOORBELLS, driver::DOORBELLS);
    same(counters::DEVICE_ERRORS, driver::DEVICE_ERRORS);
    same(counters::RESETS, driver::RESETS);
};
