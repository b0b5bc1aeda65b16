//! What each connection of a domain is given: [`culm_abi::connection`] with indices in place of addresses.

use super::{DeviceId, DomainId, EndNumber, RegionId, RingId};
use culm_abi::connection::kind;

/// One connection of a domain, as its start block will have it.
#[derive(Clone, Debug)]
pub struct DomainConnection {
    /// Position in the manifest's list, or [`culm_abi::start::IMPLICIT`].
    pub slot: u32,
    /// The connection's name in the manifest; for those that no manifest lists: `log`, `observation`.
    pub name: String,
    /// The other side's name, as the system file has it: a device or an instance. A region's own name.
    pub peer: String,
    /// What it is given.
    pub data: ConnectionData,
}

/// Memory that a connection gives to its domain: a whole region.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Memory {
    /// The region. If the domain has no mapping of it, the address is 0.
    pub region: RegionId,
    /// The domain is told the address at which devices see it.
    pub dma: bool,
    /// Bytes, where fewer than the region has.
    pub size: u64,
}

/// The structure of each kind in [`culm_abi::connection`], field by field.
#[derive(Clone, Debug)]
#[expect(missing_docs, reason = "each field is documented at its namesake in culm_abi::connection")]
pub enum ConnectionData {
    /// [`culm_abi::connection::Channel`].
    Channel { channel: EndNumber, notify: bool, call: bool },
    /// [`culm_abi::connection::Region`].
    Region { memory: Memory, writable: bool },
    /// [`culm_abi::connection::Device`]. Registers and DMA memory are those of the [`super::Device`].
    Device { device: DeviceId, interrupts: Vec<EndNumber> },
    /// [`culm_abi::connection::NetDriver`].
    NetDriver {
        rx_free: RingId,
        rx_filled: RingId,
        tx_filled: RingId,
        tx_free: RingId,
        rx_channel: EndNumber,
        tx_channel: EndNumber,
        mac: [u8; 6],
        large_receive: bool,
    },
    /// [`culm_abi::connection::NetRxVirtualiser`].
    NetRxVirtualiser {
        driver_free: RingId,
        driver_filled: RingId,
        data: Memory,
        buffer_size: u32,
        driver_channel: EndNumber,
        clients: Vec<NetRxClient>,
    },
    /// [`culm_abi::connection::NetTxVirtualiser`].
    NetTxVirtualiser {
        driver_filled: RingId,
        driver_free: RingId,
        driver_channel: EndNumber,
        buffer_size: u32,
        bounce: Option<Memory>,
        bounce_large: u32,
        clients: Vec<NetTxClient>,
    },
    /// [`culm_abi::connection::NetCopier`].
    NetCopier {
        device_filled: RingId,
        device_free: RingId,
        device_data: Memory,
        client_filled: RingId,
        client_free: RingId,
        client_data: Memory,
        device_buffer_size: u32,
        client_buffer_size: u32,
        device_channel: EndNumber,
        client_channel: EndNumber,
        client_large: u32,
    },
    /// [`culm_abi::connection::NetClient`].
    NetClient {
        rx_filled: RingId,
        rx_free: RingId,
        tx_filled: RingId,
        tx_free: RingId,
        rx_data: Memory,
        tx_data: Memory,
        rx_channel: EndNumber,
        tx_channel: EndNumber,
        buffer_size: u32,
        owns_rx: bool,
        rx_large: u32,
        tx_large: u32,
        mac: [u8; 6],
    },
    /// [`culm_abi::connection::SerialDriver`].
    SerialDriver { tx: RingId, rx: RingId, channel: EndNumber },
    /// [`culm_abi::connection::SerialVirtualiser`].
    SerialVirtualiser {
        driver_tx: RingId,
        driver_rx: RingId,
        driver_channel: EndNumber,
        clients: Vec<SerialVirtualiserClient>,
    },
    /// [`culm_abi::connection::SerialClient`].
    SerialClient { tx: RingId, rx: Option<RingId>, channel: EndNumber },
    /// [`culm_abi::connection::Supervision`].
    Supervision { children: Vec<Child> },
    /// [`culm_abi::connection::Observation`]: of all domains, and of these rings.
    Observation { rings: Vec<RingId> },
}

impl ConnectionData {
    /// The kind's number in a start block ([`culm_abi::connection::kind`]).
    pub fn kind(&self) -> u32 {
        match self {
            ConnectionData::Channel { .. } => kind::CHANNEL,
            ConnectionData::Region { .. } => kind::REGION,
            ConnectionData::Device { .. } => kind::DEVICE,
            ConnectionData::NetDriver { .. } => kind::NET_DRIVER,
            ConnectionData::NetRxVirtualiser { .. } => kind::NET_RX_VIRTUALISER,
            ConnectionData::NetTxVirtualiser { .. } => kind::NET_TX_VIRTUALISER,
            ConnectionData::NetCopier { .. } => kind::NET_COPIER,
            ConnectionData::NetClient { .. } => kind::NET_CLIENT,
            ConnectionData::SerialDriver { .. } => kind::SERIAL_DRIVER,
            ConnectionData::SerialVirtualiser { .. } => kind::SERIAL_VIRTUALISER,
            ConnectionData::SerialClient { .. } => kind::SERIAL_CLIENT,
            ConnectionData::Supervision { .. } => kind::SUPERVISION,
            ConnectionData::Observation { .. } => kind::OBSERVATION,
        }
    }
}

/// [`culm_abi::connection::NetRxClient`].
#[derive(Clone, Debug)]
#[expect(missing_docs, reason = "each field is documented at its namesake in culm_abi::connection")]
pub struct NetRxClient {
    pub filled: RingId,
    pub free: RingId,
    pub channel: EndNumber,
    pub mac: [u8; 6],
}

/// [`culm_abi::connection::NetTxClient`].
#[derive(Clone, Debug)]
#[expect(missing_docs, reason = "each field is documented at its namesake in culm_abi::connection")]
pub struct NetTxClient {
    pub filled: RingId,
    pub free: RingId,
    pub data: Memory,
    pub channel: EndNumber,
    pub anti_spoof: bool,
    pub large: u32,
    pub mac: [u8; 6],
}

/// [`culm_abi::connection::SerialVirtualiserClient`].
#[derive(Clone, Debug)]
#[expect(missing_docs, reason = "each field is documented at its namesake in culm_abi::connection")]
pub struct SerialVirtualiserClient {
    pub tx: RingId,
    pub rx: Option<RingId>,
    pub channel: EndNumber,
    pub rights: u32,
    pub name: String,
}

/// [`culm_abi::connection::Child`]; action, limit, window and back-off are those of the child's
/// [`super::Domain`], whose stack the supervisor sees read-only.
#[derive(Clone, Debug)]
pub struct Child {
    /// The supervisor's channel end for this domain.
    pub channel: EndNumber,
    /// The domain.
    pub domain: DomainId,
}
