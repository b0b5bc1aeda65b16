//! Driver for virtio network devices on MMIO, modern interface (VIRTIO 1.2).
//!
//! It moves descriptors between the device's queues and those of the two virtualisers and maps no
//! payload. [`registers`] has the register map, [`device`] sets a device up, [`ring`] is the
//! virtqueue, [`net`] moves packets between it and a [`pair`] of queues, [`account`] lets a
//! restarted driver go on, and [`reset`] resets the device if that is impossible.

#![cfg_attr(target_os = "none", no_std, no_main)]
#![forbid(unsafe_code)]

#[cfg(target_os = "none")]
extern crate alloc;
#[cfg(not(target_os = "none"))]
extern crate std as alloc;

mod account;
mod device;
mod driver;
#[cfg(test)]
mod fake;
mod net;
mod pair;
mod patience;
mod registers;
mod reset;
#[cfg(test)]
mod restart_tests;
mod ring;
#[cfg(test)]
mod tests;

use culm::{Channels, Component};
use driver::Driver;

culm::component!(VirtioNet);

struct VirtioNet(Driver);

impl Component for VirtioNet {
    type Config = Config;
    type Connections = Connections;

    fn init(_: Config, connections: Connections) -> Self {
        Self(Driver::new(&connections.device, &connections.net))
    }

    #[inline(always)]
    fn notified(&mut self, channels: Channels) {
        self.0.notified(channels);
    }
}

/// The next store outlives this life: tests end one here.
#[inline(always)]
fn step() {
    #[cfg(test)]
    culm_queue::crash::step();
}
