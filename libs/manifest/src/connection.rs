//! Kinds of connection that a component can ask for.

use core::ops::Range;

/// What a connection is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum ConnectionKind {
    /// A channel to another protection domain and nothing else.
    Channel,
    /// A shared region of memory.
    Region,
    /// A device: registers, interrupts, DMA memory. Only drivers have it.
    Device,
    /// Net class, driver's side.
    NetDriver,
    /// Net class, receive virtualiser.
    NetRxVirtualiser,
    /// Net class, transmit virtualiser.
    NetTxVirtualiser,
    /// Net class, copier.
    NetCopier,
    /// Net class, client.
    NetClient,
    /// Serial class, driver's side.
    SerialDriver,
    /// Serial class, virtualiser.
    SerialVirtualiser,
    /// Serial class, client.
    SerialClient,
    /// Supervision of other protection domains.
    Supervision,
}

impl ConnectionKind {
    /// Every kind by its name in a manifest.
    pub const NAMES: &[(&str, ConnectionKind)] = &[
        ("channel", ConnectionKind::Channel),
        ("region", ConnectionKind::Region),
        ("device", ConnectionKind::Device),
        ("net-driver", ConnectionKind::NetDriver),
        ("net-rx-virtualiser", ConnectionKind::NetRxVirtualiser),
        ("net-tx-virtualiser", ConnectionKind::NetTxVirtualiser),
        ("net-copier", ConnectionKind::NetCopier),
        ("net-client", ConnectionKind::NetClient),
        ("serial-driver", ConnectionKind::SerialDriver),
        ("serial-virtualiser", ConnectionKind::SerialVirtualiser),
        ("serial-client", ConnectionKind::SerialClient),
        ("supervision", ConnectionKind::Supervision),
    ];

    /// The kind's name in a manifest.
    pub fn name(self) -> &'static str {
        Self::NAMES.iter().find(|(_, kind)| *kind == self).map_or("", |(name, _)| name)
    }

    /// The class of device that a connection of this kind names in a system file (`net = "nic0"`), if it names one.
    pub fn client_class(self) -> Option<DeviceClass> {
        match self {
            ConnectionKind::NetClient => Some(DeviceClass::Net),
            ConnectionKind::SerialClient => Some(DeviceClass::Serial),
            _ => None,
        }
    }

    /// Whether expansion makes connections of this kind by itself: a system file never names them.
    pub fn made_by_expansion(self) -> bool {
        !matches!(
            self,
            ConnectionKind::Channel | ConnectionKind::Region | ConnectionKind::NetClient | ConnectionKind::SerialClient
        )
    }
}

/// A class of devices.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum DeviceClass {
    /// Network interfaces.
    Net,
    /// Serial ports.
    Serial,
}

impl DeviceClass {
    /// Every class by its name in boards and manifests.
    pub const NAMES: &[(&str, DeviceClass)] = &[("net", DeviceClass::Net), ("serial", DeviceClass::Serial)];

    /// The class's name.
    pub fn name(self) -> &'static str {
        match self {
            DeviceClass::Net => "net",
            DeviceClass::Serial => "serial",
        }
    }

    /// The kind of connection by which a driver of this class serves its virtualisers.
    pub fn driver_connection(self) -> ConnectionKind {
        match self {
            DeviceClass::Net => ConnectionKind::NetDriver,
            DeviceClass::Serial => ConnectionKind::SerialDriver,
        }
    }
}

/// One connection that a component asks for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Connection {
    /// Its name, which is also that of the field in the generated `Connections`.
    pub name: String,
    /// What it is.
    pub kind: ConnectionKind,
    /// It may be absent: the component sees an `Option`.
    pub optional: bool,
    /// Kind of memory that it must be, where that matters; regions only.
    pub memory: Option<MemoryKind>,
    /// What it is for, one sentence.
    pub description: String,
    /// Where its table stands in the manifest.
    pub span: Range<usize>,
}

/// Kind of a region's memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum MemoryKind {
    /// Normal memory, cached.
    Cached,
    /// Normal memory, not cached.
    Uncached,
    /// Memory that devices reach too: cached where the board's devices see the caches, else not.
    Dma,
}

impl MemoryKind {
    /// Every kind by its name in manifests and system files.
    pub const NAMES: &[(&str, MemoryKind)] =
        &[("cached", MemoryKind::Cached), ("uncached", MemoryKind::Uncached), ("dma", MemoryKind::Dma)];

    /// The kind's name.
    pub fn name(self) -> &'static str {
        match self {
            MemoryKind::Cached => "cached",
            MemoryKind::Uncached => "uncached",
            MemoryKind::Dma => "dma",
        }
    }
}

/// What raises an interrupt.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Trigger {
    /// The line's being active.
    Level,
    /// The line's becoming active.
    Edge,
}

impl Trigger {
    /// Both by their names in boards and manifests.
    pub const NAMES: &[(&str, Trigger)] = &[("level", Trigger::Level), ("edge", Trigger::Edge)];

    /// Its name.
    pub fn name(self) -> &'static str {
        match self {
            Trigger::Level => "level",
            Trigger::Edge => "edge",
        }
    }
}

/// What makes a component a driver.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Driver {
    /// The class of its devices.
    pub class: DeviceClass,
    /// The devices it drives, as boards name them in `compatible`.
    pub compatible: Vec<String>,
    /// Bytes of registers that it uses, 0 where it does not say.
    pub registers: u64,
    /// How its devices interrupt, if all do it in the same way.
    pub trigger: Option<Trigger>,
    /// How many interrupts of its device it uses, 0 where it does not say.
    pub interrupts: u64,
    /// Bytes of memory for the device's own structures that it uses, 0 where it does not say.
    pub dma: u64,
    /// Where the table stands in the manifest.
    pub span: Range<usize>,
}
