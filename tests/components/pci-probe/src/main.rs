//! Waits for a device on a PCI bus, and says what its registers hold: the capabilities of an SD
//! host controller (SD Host Controller Simplified Specification 3.00, 2.2.26), which never change.

#![cfg_attr(target_os = "none", no_std, no_main)]
#![forbid(unsafe_code)]

use culm::{Channels, Component};
use culm_bus::{Seat, State};
use culm_mmio::{Mapped, Registers};

culm::component!(Probe);

culm_mmio::registers! {
    /// What the controller can do.
    CAPABILITIES: u32 at 0x40, read;
}

struct Probe {
    registers: Mapped<0x100>,
    seat: Seat,
    is_done: bool,
}

impl Component for Probe {
    type Config = Config;
    type Connections = Connections;

    fn init(_: Config, connections: Connections) -> Self {
        let Connections { device, bus } = connections;
        let mut probe = Self { registers: Mapped::new(device.registers()), seat: Seat::new(bus), is_done: false };
        probe.look();
        probe
    }

    fn notified(&mut self, _: Channels) {
        self.look();
    }
}

impl Probe {
    fn look(&mut self) {
        match self.seat.state() {
            State::Waiting => culm::info!("waits for its device"),
            _ if self.is_done => {}
            State::Ready => {
                self.is_done = true;
                culm::info!("capabilities {:#010x}", self.registers.read(CAPABILITIES));
            }
            State::Refused => culm::error!("the device is off"),
        }
    }
}
