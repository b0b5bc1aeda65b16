//! Driver for virtio network devices with their virtualisers in its domain (`fused = true`).

#![cfg_attr(target_os = "none", no_std, no_main)]
#![forbid(unsafe_code)]

#[cfg(test)]
mod tests;

use culm::{Channels, Component, start};
use net_fused::{Fused, Receive, Transmit};
use net_virtio::fused::Device;

culm::component!(NetVirtioFused);

/// Counters of the driver, and of the driver and the receive virtualiser.
const RX: usize = net_virtio::counters::COUNTERS;
const TX: usize = net_fused::before_transmit(RX);

struct NetVirtioFused(Fused<Device<RX, TX>>);

impl Component for NetVirtioFused {
    type Config = Config;
    type Connections = Connections;

    fn init(_: Config, connections: Connections) -> Self {
        let Connections { device, net, receive, transmit } = connections;
        let interrupt = device.interrupt(0).expect("the board's file gives the device its interrupt");
        let (chip, to_fill, to_send) = match Device::of(&device, &net) {
            Ok(parts) => parts,
            Err(reason) => panic!("{reason}"),
        };
        let receive = Receive::with_driver(to_fill, &receive, start::list(receive.clients));
        let transmit = Transmit::with_driver(to_send, &transmit, start::list(transmit.clients));
        Self(Fused::new(chip, interrupt, receive, transmit))
    }

    #[inline(always)]
    fn notified(&mut self, channels: Channels) {
        self.0.notified(channels);
    }
}

// The manifest lists the counters of all three.
const _: () = assert!(counters::COUNTERS == net_fused::counters(RX));
