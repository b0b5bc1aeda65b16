//! The virtio driver, made to die: each of its lives ends at some store that outlives it, in the
//! middle of what it does.
//!
//! It is the driver's own code, all of it but `main.rs`, with another `step`. So what the tests of
//! restarts show of this one holds for that one, which has no way to be ended.

#![cfg_attr(target_os = "none", no_std, no_main)]
#![forbid(unsafe_code)]

#[cfg(target_os = "none")]
extern crate alloc;
#[cfg(not(target_os = "none"))]
extern crate std as alloc;

#[path = "../../../../drivers/net/virtio/src/account.rs"]
mod account;
#[path = "../../../../drivers/net/virtio/src/device.rs"]
mod device;
#[path = "../../../../drivers/net/virtio/src/driver.rs"]
mod driver;
#[path = "../../../../drivers/net/virtio/src/net.rs"]
mod net;
#[path = "../../../../drivers/net/virtio/src/pair.rs"]
mod pair;
#[path = "../../../../drivers/net/virtio/src/patience.rs"]
mod patience;
#[path = "../../../../drivers/net/virtio/src/registers.rs"]
mod registers;
#[path = "../../../../drivers/net/virtio/src/reset.rs"]
mod reset;
#[path = "../../../../drivers/net/virtio/src/ring.rs"]
mod ring;

use core::sync::atomic::{AtomicU32, Ordering::Relaxed};
use culm::{Channels, Component, time};
use driver::Driver;

culm::component!(VirtioNetMortal);

/// Steps that are left to this life; 0: as many as it likes.
static LEFT: AtomicU32 = AtomicU32::new(0);

struct VirtioNetMortal(Driver);

impl Component for VirtioNetMortal {
    type Config = Config;
    type Connections = Connections;

    fn init(config: Config, connections: Connections) -> Self {
        // Any number, another one in each life: the low bits of a counter of nanoseconds, mixed.
        let random = (time::now().ticks().wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 32) as u32;
        LEFT.store(1 + random % config.steps, Relaxed);
        Self(Driver::new(&connections.device, &connections.net))
    }

    fn notified(&mut self, channels: Channels) {
        self.0.notified(channels);
    }
}

/// A store is about to be made that outlives this life.
#[inline(always)]
fn step() {
    match LEFT.load(Relaxed) {
        0 => {}
        1 => panic!("the death that this driver is made for"),
        left => LEFT.store(left - 1, Relaxed),
    }
}
