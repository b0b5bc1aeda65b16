//! Driver for PCI host bridges with an ECAM window: the only component that sees configuration
//! space.
//!
//! It works once in each life, when it starts: wakes planned devices that firmware left asleep,
//! turns off all that nobody planned, checks each planned device, gives it its address, and tells
//! its driver. A device that is in use, which an earlier life made ready, is only looked at. After
//! that the component sleeps for good: a bus does not change without hot plugging, which Culm does
//! not have.
//!
//! The steps for each device, and their reasons, are in `culm-pci`.

#![cfg_attr(target_os = "none", no_std, no_main)]
#![forbid(unsafe_code)]

#[cfg(target_os = "none")]
extern crate alloc;
#[cfg(not(target_os = "none"))]
extern crate std as alloc;

mod ecam;
#[cfg(test)]
mod tests;

use alloc::boxed::Box;
use alloc::vec::Vec;
use culm::connection::BusProviderClient;
use culm::time::{self, Duration, Instant};
use culm::{Channels, Component, start};
use culm_bus::{Details, State, Tenant};
use culm_mmio::Mapped;
use culm_pci::{BUS_BYTES, ConfigSpace, Function, Planned, Silenced, keeps, prepare, silence, wake};
use ecam::Ecam;

culm::component!(Pci);

/// The time in which a device wakes.
const WAKING: Duration = Duration::from_millis(culm_pci::WAKING);

struct Pci {
    /// The bus, as long as there is something to be done.
    work: Option<Work>,
}

/// A bus that is not as it was planned yet.
struct Work {
    space: Ecam<Mapped<BUS_BYTES>>,
    seated: Box<[Seated]>,
    /// Where what nobody uses is put: address and bytes.
    aside: (u64, u64),
    /// The moment until which devices that were woken are left alone.
    until: Instant,
}

/// A device with the driver that waits for it.
struct Seated {
    planned: Planned,
    tenant: Tenant,
}

impl Component for Pci {
    type Config = Config;
    type Connections = Connections;

    fn init(_: Config, connections: Connections) -> Self {
        let Connections { device, clients } = connections;
        let seated: Box<[Seated]> = start::list(clients.clients).iter().filter_map(seat).collect();
        let mut space = Ecam::new(Mapped::<BUS_BYTES>::new(device.registers()));
        let aside = (clients.aside, clients.aside_size);
        let until = time::now() + if wake_all(&mut space, &seated) { WAKING } else { Duration::ZERO };
        let mut pci = Self { work: Some(Work { space, seated, aside, until }) };
        pci.go_on();
        pci
    }

    fn notified(&mut self, _: Channels) {
        self.go_on();
    }
}

impl Pci {
    /// Makes the bus as it was planned, if all devices are awake and that is not done yet.
    fn go_on(&mut self) {
        let now = time::now();
        match self.work.take_if(|work| work.until <= now) {
            Some(Work { mut space, seated, aside, .. }) => make_ready(&mut space, &seated, aside),
            None => self.work.iter().for_each(|work| culm::wake_at(work.until)),
        }
    }
}

/// Wakes the planned devices that sleep; returns whether there are any.
fn wake_all(space: &mut impl ConfigSpace, seated: &[Seated]) -> bool {
    let woken = seated.iter().filter(|seated| wake(space, &seated.planned));
    let slots = woken.map(|seated| seated.planned.function.slot());
    slots.inspect(|slot| culm::info!("slot {slot}: woken")).count() > 0
}

/// Reads what the build tool planned for a client. It let only slots and registers pass that there
/// are.
fn seat(client: &BusProviderClient) -> Option<Seated> {
    let planned = Planned {
        function: Function::new(u8::try_from(client.slot).ok()?, 0)?,
        vendor: client.vendor as u16,
        product: client.product as u16,
        bar: client.bar as u8,
        address: client.address,
        size: client.size,
        is_master: client.is_master != 0,
    };
    Some(Seated { planned, tenant: Tenant::new(client) })
}

/// Makes the bus as it was planned, and tells each driver of its device.
fn make_ready(space: &mut impl ConfigSpace, seated: &[Seated], aside: (u64, u64)) {
    let in_use = |seated: &&Seated| matches!(seated.tenant.state(), State::Ready(_)) && keeps(space, &seated.planned);
    let kept: Vec<Function> = seated.iter().filter(in_use).map(|seated| seated.planned.function).collect();
    for seated in seated.iter().filter(|seated| !kept.contains(&seated.planned.function)) {
        seated.tenant.withdraw();
    }
    let Silenced { off, unruly } = silence(space, &kept);
    counters::TURNED_OFF.add(off as u64);
    culm::info!("found {off} functions on the bus that nobody uses yet, and turned them off");
    if unruly > 0 {
        culm::error!("{unruly} functions on the bus do not let themselves be turned off");
    }
    for Seated { planned, tenant } in seated {
        let slot = planned.function.slot();
        if kept.contains(&planned.function) {
            culm::info!("slot {slot}: in use");
            tenant.notify();
            continue;
        }
        match prepare(space, planned, aside) {
            Ok(extras) => {
                let unused = if extras.has_msi_x { "; its MSI-X is not used" } else { "" };
                culm::info!("slot {slot}: ready, {:#x} bytes at {:#x}{unused}", planned.size, planned.address);
                counters::READY.add(1);
                tenant.admit(extras.structures.map_or(Details::default(), |structures| structures.words()));
            }
            Err(refusal) => {
                let (vendor, product) = (planned.vendor, planned.product);
                culm::error!("slot {slot}: off, it is not {vendor:04x}:{product:04x} as planned: {refusal}");
                counters::REFUSED.add(1);
                tenant.refuse();
            }
        }
    }
}
