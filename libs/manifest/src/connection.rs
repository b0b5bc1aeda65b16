//! Kinds of connection that a component can ask for, and the classes of devices: those that
//! `culm-abi` declares.

use crate::need::Need;
use crate::needs::Needs;
use crate::problem::Located;
use core::cmp::Ordering;
use core::fmt;
use core::ops::Range;
use culm_abi::connection::{KINDS, Kind, Role};
use std::sync::LazyLock;

/// The kind of a connection.
#[derive(Clone, Copy)]
pub struct ConnectionKind(&'static Kind);

impl ConnectionKind {
    /// The kind of connection that has this structure.
    pub fn of<C: culm_abi::connection::Connection>() -> Self {
        Self(const { &C::KIND })
    }

    /// Whether its connections have this structure.
    pub fn is<C: culm_abi::connection::Connection>(self) -> bool {
        self == Self::of::<C>()
    }

    /// Every kind that a manifest can ask for, by its name there.
    pub fn names() -> &'static [(&'static str, Self)] {
        static NAMES: LazyLock<Vec<(&str, ConnectionKind)>> = LazyLock::new(|| {
            let asked_for = KINDS.iter().filter(|kind| kind.role != Role::Granted);
            asked_for.map(|kind| (kind.name, ConnectionKind(kind))).collect()
        });
        &NAMES
    }

    /// Its declaration.
    pub fn declaration(self) -> &'static Kind {
        self.0
    }

    /// The kind's name in a manifest.
    pub fn name(self) -> &'static str {
        self.0.name
    }

    /// The class whose provider a connection of this kind names in a system file (`net = "nic0"`),
    /// if it names one.
    pub fn client_class(self) -> Option<DeviceClass> {
        self.0.class.filter(|_| self.0.role == Role::Client).map(DeviceClass)
    }

    /// The class that a component with a connection of this kind provides, if it provides one.
    pub fn provided_class(self) -> Option<DeviceClass> {
        self.0.class.filter(|_| matches!(self.0.role, Role::Driver | Role::Provider)).map(DeviceClass)
    }

    /// Whether who has it is the far end of its clients, with no virtualiser in between.
    pub fn serves_clients(self) -> bool {
        self.0.role == Role::Provider
    }

    /// Whether expansion makes connections of this kind by itself, for a component that it adds.
    pub fn made_by_expansion(self) -> bool {
        !matches!(self.0.role, Role::Described | Role::Client | Role::Provider)
    }

    /// Whether a system file has to connect it: neither does expansion make it by itself, nor does
    /// it wait for whoever comes.
    pub fn waits_for_description(self) -> bool {
        matches!(self.0.role, Role::Described | Role::Client)
    }
}

impl From<&'static Kind> for ConnectionKind {
    fn from(kind: &'static Kind) -> Self {
        Self(kind)
    }
}

impl fmt::Debug for ConnectionKind {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(self.0.structure)
    }
}

/// No two kinds have one number.
impl PartialEq for ConnectionKind {
    fn eq(&self, other: &Self) -> bool {
        self.0.number == other.0.number
    }
}

impl Eq for ConnectionKind {}

impl PartialOrd for ConnectionKind {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for ConnectionKind {
    fn cmp(&self, other: &Self) -> Ordering {
        self.0.number.cmp(&other.0.number)
    }
}

/// A class of devices and of what stands in for them: there is one wherever a kind of connection
/// provides it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct DeviceClass(&'static str);

impl DeviceClass {
    /// Every class by its name in boards and manifests.
    pub fn names() -> &'static [(&'static str, Self)] {
        static NAMES: LazyLock<Vec<(&str, DeviceClass)>> = LazyLock::new(|| {
            let provided = KINDS.iter().filter_map(|kind| ConnectionKind(kind).provided_class());
            let mut names: Vec<(&str, DeviceClass)> = provided.map(|class| (class.0, class)).collect();
            names.dedup();
            names
        });
        &NAMES
    }

    /// The class of this name.
    pub fn named(name: &str) -> Option<Self> {
        Self::names().iter().find(|(known, _)| *known == name).map(|(_, class)| *class)
    }

    /// The class's name.
    pub fn name(self) -> &'static str {
        self.0
    }

    /// The kinds of connection by which a component provides this class: by the first of them a
    /// driver does.
    pub fn provided_by(self) -> impl Iterator<Item = ConnectionKind> {
        KINDS.iter().map(ConnectionKind).filter(move |kind| kind.provided_class() == Some(self))
    }
}

/// One connection that a component asks for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Connection {
    /// Its name, which is also that of the field in the generated `Connections`.
    pub name: String,
    /// Its kind.
    pub kind: ConnectionKind,
    /// It may be absent: the component sees an `Option`.
    pub optional: bool,
    /// Kind of memory that it must be, where that matters; regions only.
    pub memory: Option<MemoryKind>,
    /// The least size with which the component can do what it is configured for; regions only.
    pub min_size: Option<Located<Need>>,
    /// Whether the component has to write to it; regions only.
    pub writes: bool,
    /// The needs of a device that the component owns itself; of the kind `device` only.
    pub needs: Option<Needs>,
    /// The class's keys that a system must set to true for it; clients of a class only.
    pub requires: Vec<Located<String>>,
    /// The file system without which its component can do nothing with the disk, if it says so;
    /// clients of the block class only.
    pub file_system: Option<FileSystem>,
    /// Whether its component takes a received packet in the pieces in which it lies in a device's
    /// buffers; clients of the net class only.
    pub takes_pieces: bool,
    /// Whether what comes by it is what a switch mirrors, so that it is of no use where that
    /// mirrors nothing to it; clients of the net class only.
    pub mirrored: bool,
    /// How many things it has that clients name by number, such as a chip's lines, if it says so;
    /// those that provide a class only.
    pub count: Option<u32>,
    /// Its purpose, one sentence.
    pub description: String,
    /// Where its table stands in the manifest.
    pub span: Range<usize>,
}

impl Connection {
    /// Whether expansion makes it by itself, for a component that it adds. A device that the
    /// component owns is named in the system file.
    pub fn made_by_expansion(&self) -> bool {
        self.kind.made_by_expansion() && self.needs.is_none()
    }

    /// Whether a key of the domain in a system file connects it, by naming a provider or a device.
    pub fn named_by_key(&self) -> bool {
        self.kind.client_class().is_some() || self.kind.is::<culm_abi::connection::Guest>() || self.needs.is_some()
    }
}

/// A file system that a component reads.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum FileSystem {
    /// FAT16 or FAT32.
    Fat,
}

impl FileSystem {
    /// Every file system by its name in manifests.
    pub const NAMES: &[(&str, FileSystem)] = &[("fat", FileSystem::Fat)];
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
