//! The bus class: a bus whose devices were placed when the system was built.

use super::{Form, Start};
use culm_abi_derive::Structure;
use zerocopy::{FromBytes, Immutable};

/// Bus class, provider: a driver of a host bridge, which makes each device ready for its driver.
#[derive(Clone, Copy, Debug, FromBytes, Immutable, Structure)]
#[connection(kind = 128, name = "bus-provider", class = "bus", role = Provider)]
#[repr(C)]
pub struct BusProvider<F: Form = Start> {
    /// Address on the bus at which memory of devices is put that no driver uses.
    pub aside: u64,
    /// Bytes that there are for it.
    pub aside_size: u64,
    /// The drivers whose devices sit on the bus.
    pub clients: F::List<BusProviderClient<F>>,
}

/// One client of a [`BusProvider`]: a device, and its driver.
#[derive(Clone, Copy, Debug, FromBytes, Immutable, Structure)]
#[repr(C)]
pub struct BusProviderClient<F: Form = Start> {
    /// The page that the client reads; its layout is `culm_bus`'s.
    pub shown: F::Memory,
    /// Address that the device's registers are to have.
    pub address: u64,
    /// Their bytes.
    pub size: u64,
    /// The device's slot.
    pub slot: u32,
    /// The base address register that its driver uses.
    pub bar: u32,
    /// The device's vendor.
    pub vendor: u32,
    /// The device's number among its vendor's.
    pub product: u32,
    /// Channel to the client.
    pub channel: F::Channel,
    /// Whether the device may read and write memory.
    pub is_master: F::Flag,
}

/// Bus class, client: a driver of a device on the bus.
#[derive(Clone, Copy, Debug, FromBytes, Immutable, Structure)]
#[connection(kind = 129, name = "bus-client", class = "bus", role = Client)]
#[repr(C)]
pub struct BusClient<F: Form = Start> {
    /// The provider's words about the device; mapped read-only.
    pub shown: F::Memory,
    /// Channel to the provider.
    pub channel: F::Channel,
}
