//! Driver for virtio network devices with their virtualisers in its domain (`fused = true`).

#![cfg_attr(target_os = "none", no_std, no_main)]
#![forbid(unsafe_code)]

use culm::{Channels, Component};
use net_fused::Fused;
use net_virtio::Driver;

culm::component!(NetVirtioFused);

struct NetVirtioFused(Fused<Driver>);

impl Component for NetVirtioFused {
    type Config = Config;
    type Connections = Connections;

    fn init(_: Config, connections: Connections) -> Self {
        let Connections { device, net, receive, transmit } = connections;
        let parts = net_fused::Connections { driver: net, receive, transmit };
        Self(Fused::new(&parts, net_virtio::counters::COUNTERS, || Driver::new(&device, &net)))
    }

    #[inline(always)]
    fn notified(&mut self, channels: Channels) {
        self.0.notified(channels);
    }
}

// The manifest lists the counters of all three.
const _: () = assert!(counters::COUNTERS == net_virtio::counters::COUNTERS + net_fused::COUNTERS);
