//! A driver that misuses its device's registers, for the isolation tests.
//!
//! After half a second it reads a register at an address that is not aligned, which device memory
//! does not allow (Arm ARM B2.8.2): a fault of this component, and nobody else's business. It reads
//! with acquire semantics, since QEMU 10 lets plain unaligned reads of a device pass.

#![cfg_attr(target_os = "none", no_std, no_main)]

use culm::time::{self, Duration, Instant};
use culm::{Channels, Component, Device};

culm::component!(Misbehave);

struct Misbehave {
    device: Device,
    when: Instant,
}

impl Component for Misbehave {
    type Config = Config;
    type Connections = Connections;

    fn init(_: Config, connections: Connections) -> Self {
        let when = time::now() + Duration::from_millis(500);
        culm::wake_at(when);
        Self { device: connections.device, when }
    }

    fn notified(&mut self, _: Channels) {
        if time::now() < self.when {
            culm::wake_at(self.when);
            return;
        }
        culm::info!("now breaking the rule unaligned-device-access");
        culm::log::flush();
        read(self.device.registers().address + 1);
        culm::error!("survived breaking the rule unaligned-device-access");
    }
}

#[cfg(target_os = "none")]
fn read(address: u64) {
    // SAFETY: none is claimed. The access is to be refused; were it not, what it reads is dropped.
    unsafe {
        core::arch::asm!("ldar {value:w}, [{address}]", value = out(reg) _, address = in(reg) address, options(nostack))
    };
}

#[cfg(not(target_os = "none"))]
fn read(_: u64) {}
