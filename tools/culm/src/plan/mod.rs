//! A system, fully expanded and checked: what the layout, the image, the picture and `culm expand`
//! are made from.
//!
//! Everything is plain data; things refer to each other by index ([`DomainId`], [`RegionId`],
//! [`RingId`], [`DeviceId`]). Nothing here has a virtual address, and only fixed regions and
//! devices have a physical one: those are the layout's to choose. Domains are in image order,
//! sorted by core.

mod board;
mod connection;
mod guest;
mod order;

pub use board::{Board, BoardDevice, Bridge, Gic, Interrupt, PhysicalRange, Qemu, Slot};
pub use connection::{ConnectionData, DomainConnection, Fields, Memory, Planned, RegionPart, Rights, Value};
pub use culm_manifest::Trigger;
pub use culm_manifest::{DeviceClass, Manifest};
pub use guest::{Guest, GuestMemory, Initrd, VirtualCpu};
pub use order::{Order, Scheduled};

use crate::diagnostics::Location;
use crate::disk::Disk;
use culm_manifest::MemoryKind;
use std::path::PathBuf;

/// Position in [`Plan::domains`], which is also the domain's index in the image.
pub type DomainId = usize;
/// Position in [`Plan::regions`].
pub type RegionId = usize;
/// Position in [`Plan::rings`].
pub type RingId = usize;
/// Position in [`Plan::devices`].
pub type DeviceId = usize;
/// Position in [`Plan::providers`].
pub type ProviderId = usize;
/// Position in [`Plan::guests`].
pub type GuestId = usize;
/// Number of a channel end, as its owner counts: position in [`Domain::ends`].
pub type EndNumber = u32;

/// A whole system.
#[derive(Clone, Debug)]
pub struct Plan {
    /// The system's name.
    pub name: String,
    /// Its description, one sentence; may be empty.
    pub description: String,
    /// The system file.
    pub file: PathBuf,
    /// The board it is for.
    pub board: Board,
    /// The components in use, each once, sorted by name.
    pub components: Vec<Component>,
    /// The protection domains, sorted by core.
    pub domains: Vec<Domain>,
    /// Regions of memory that connections need. Programs, stacks, heaps, start blocks and the
    /// content of files are not among them: the layout makes those from the domains themselves.
    pub regions: Vec<Region>,
    /// Queues, each within a region.
    pub rings: Vec<Ring>,
    /// The board's devices in use.
    pub devices: Vec<Device>,
    /// The providers of classes.
    pub providers: Vec<Provider>,
    /// The guests.
    pub guests: Vec<Guest>,
}

/// A component in use.
#[derive(Clone, Debug)]
pub struct Component {
    /// Its manifest. The name is also that of its crate and of its ELF file.
    pub manifest: Manifest,
    /// Folder of its crate.
    pub folder: PathBuf,
}

/// A protection domain.
#[derive(Clone, Debug)]
pub struct Domain {
    /// Its name, unique in the system.
    pub name: String,
    /// Position in [`Plan::components`].
    pub component: usize,
    /// Why it is there.
    pub origin: Origin,
    /// Index of its core.
    pub core: u32,
    /// 0 to 255, higher runs first.
    pub priority: u8,
    /// Runs only on behalf of callers.
    pub passive: bool,
    /// How long it may run in each period, if that is limited.
    pub budget: Option<Budget>,
    /// Bytes of stack, a multiple of a page.
    pub stack: u64,
    /// Bytes of heap, a multiple of a page; 0 for none.
    pub heap: u64,
    /// The level of its log.
    pub log: LogLevel,
    /// May end the system.
    pub may_halt: bool,
    /// The action of its supervisor if it faults.
    pub on_fault: FaultAction,
    /// How often it may be restarted.
    pub restart: RestartPolicy,
    /// Its supervisor and the supervisor's end that stands for it; `None` for the supervisor
    /// itself.
    pub supervisor: Option<(DomainId, EndNumber)>,
    /// The page of counters that it writes, where its manifest names counters.
    pub counters: Option<RegionId>,
    /// One value per configuration field, in the manifest's order.
    pub config: Vec<ConfigValue>,
    /// Its connections: those of the manifest that are made, in the manifest's order, then those
    /// that no manifest lists (log, observation), with [`culm_abi::start::IMPLICIT`] for a slot.
    pub connections: Vec<DomainConnection>,
    /// Its channel ends; the position is the number by which it knows the channel.
    pub ends: Vec<End>,
}

/// Why a domain is in the system.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Origin {
    /// The system file names it.
    Description,
    /// It drives a device.
    Driver(DeviceId),
    /// It shares a device among clients.
    Virtualiser(ProviderId),
    /// It stands between a provider's side and one client.
    Before {
        /// The provider.
        provider: ProviderId,
        /// Its duty, one sentence, in which `{provider}` stands for the provider's name.
        duty: &'static str,
    },
    /// It supervises the others.
    Supervisor,
}

/// A share of a core: `budget` nanoseconds in each `period`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Budget {
    /// Nanoseconds that it may run.
    pub budget: u64,
    /// Nanoseconds after which time used is given back.
    pub period: u64,
}

/// The level of a component's log.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum LogLevel {
    /// Nothing.
    Off = 0,
    /// Errors.
    Error = 1,
    /// Warnings too.
    Warn = 2,
    /// Events, too.
    Info = 3,
    /// Details for a developer, too.
    Debug = 4,
    /// Everything.
    Trace = 5,
}

impl LogLevel {
    /// Every level by its name.
    pub const NAMES: &[(&str, LogLevel)] = &[
        ("off", LogLevel::Off),
        ("error", LogLevel::Error),
        ("warn", LogLevel::Warn),
        ("info", LogLevel::Info),
        ("debug", LogLevel::Debug),
        ("trace", LogLevel::Trace),
    ];
}

/// The action of a supervisor if a domain faults.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FaultAction {
    /// Restart it, within its [`RestartPolicy`].
    Restart,
    /// Leave it stopped.
    Stop,
    /// Halt the whole system.
    Halt,
}

impl FaultAction {
    /// Every action by its name.
    pub const NAMES: &[(&str, FaultAction)] =
        &[("restart", FaultAction::Restart), ("stop", FaultAction::Stop), ("halt", FaultAction::Halt)];

    /// The action as start blocks have it ([`culm_abi::connection::fault_action`]).
    pub fn code(self) -> u32 {
        match self {
            FaultAction::Restart => culm_abi::connection::fault_action::RESTART,
            FaultAction::Stop => culm_abi::connection::fault_action::STOP,
            FaultAction::Halt => culm_abi::connection::fault_action::HALT,
        }
    }
}

/// How often a domain may be restarted. Each restart leaves a debt, which running pays off.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RestartPolicy {
    /// Restarts that it may owe for; with so many it stays stopped.
    pub limit: u32,
    /// Nanoseconds of running that pay for all of them, each for its share.
    pub window: u64,
    /// Nanoseconds that a restart waits where nothing is owed; twice as long for each that is.
    pub backoff: u64,
}

/// A configuration value, ready for a start block.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ConfigValue {
    /// An optional field that is not given.
    Absent,
    /// `bool`.
    Bool(bool),
    /// `u8` to `u64`, durations in nanoseconds, sizes in bytes.
    Unsigned(u64),
    /// `i64`.
    Signed(i64),
    /// `string`.
    Text(String),
    /// `mac`.
    Mac([u8; 6]),
    /// `file`: an existing file.
    File(PathBuf),
    /// `folder`: an existing folder.
    Folder(PathBuf),
    /// `list-of-string`.
    List(Vec<String>),
    /// `cache-control`: patterns with their directives.
    Pairs(Vec<(String, String)>),
}

/// One end of a channel.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum End {
    /// A channel to another domain.
    Peer {
        /// The other domain.
        domain: DomainId,
        /// The number by which the other domain knows the channel.
        end: EndNumber,
        /// This side may notify the other.
        notify: bool,
        /// This side may call the other.
        call: bool,
        /// The purpose of the channel, as the picture and `culm expand` call it.
        label: String,
    },
    /// An interrupt of a device; signalling it re-enables it.
    Interrupt {
        /// The device.
        device: DeviceId,
        /// Interrupt number (INTID) and trigger.
        interrupt: Interrupt,
    },
    /// A supervised domain.
    Child {
        /// The domain.
        domain: DomainId,
    },
    /// A guest's virtual CPU, run by this domain.
    VirtualCpu {
        /// The guest.
        guest: GuestId,
        /// Which of its virtual CPUs.
        cpu: usize,
    },
}

/// Physical memory, mapped into one or more domains.
#[derive(Clone, Debug)]
pub struct Region {
    /// Its name, unique in the system.
    pub name: String,
    /// Bytes, a multiple of a page.
    pub size: u64,
    /// The kind of its memory.
    pub kind: RegionKind,
    /// Where it must be, a multiple of a page; `None`: anywhere.
    pub address: Option<u64>,
    /// The domains that see it, and how.
    pub mappings: Vec<Mapping>,
    /// Its purpose.
    pub purpose: Purpose,
    /// Where the system file gives its address.
    pub place: Option<Location>,
}

/// Kind of a region's memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RegionKind {
    /// Normal memory, cached.
    Cached,
    /// Normal memory, not cached.
    Uncached,
    /// Memory that devices reach too: cached where the board's devices see the caches, else not.
    Dma,
    /// Registers of a device; always at a fixed address.
    Device,
}

impl RegionKind {
    /// The kind's name.
    pub fn name(self) -> &'static str {
        match self {
            RegionKind::Cached => "cached",
            RegionKind::Uncached => "uncached",
            RegionKind::Dma => "dma",
            RegionKind::Device => "device",
        }
    }

    /// The kind that descriptions give to a region.
    pub fn of(memory: MemoryKind) -> Self {
        match memory {
            MemoryKind::Cached => RegionKind::Cached,
            MemoryKind::Uncached => RegionKind::Uncached,
            MemoryKind::Dma => RegionKind::Dma,
        }
    }

    /// Index of its memory attributes ([`culm_abi::memory::attribute_index`]) on this board.
    pub fn attribute(self, board: &Board) -> u64 {
        use culm_abi::memory::attribute_index;
        match self {
            RegionKind::Cached => attribute_index::CACHED,
            RegionKind::Dma if board.coherent_dma => attribute_index::CACHED,
            RegionKind::Dma | RegionKind::Uncached => attribute_index::UNCACHED,
            RegionKind::Device => attribute_index::DEVICE,
        }
    }
}

/// The purpose of a region.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Purpose {
    /// The system file names it.
    Description,
    /// Queues between one pair of domains.
    Queues,
    /// Payload buffers.
    Buffers,
    /// Registers of a device.
    Registers,
    /// A driver's own structures that its device reads.
    Descriptors,
    /// Counters of one domain.
    Counters,
    /// A domain's own record, which its next life finds.
    Account,
    /// The page that a provider shows to all of its clients.
    Shown,
    /// The page of a guest's virtual CPU, which the kernel writes too.
    VirtualCpu,
    /// Memory of a guest.
    Guest,
}

/// One domain's view of a region.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Mapping {
    /// The domain.
    pub domain: DomainId,
    /// It may write.
    pub writable: bool,
    /// The bytes that it sees, if these are not all: where they begin and how many they are, whole
    /// pages.
    pub only: Option<(u64, u64)>,
}

/// A queue.
#[derive(Clone, Debug)]
pub struct Ring {
    /// The name of what travels in it, for example `nic0 rx_filled`.
    pub name: String,
    /// The region that it is in.
    pub region: RegionId,
    /// Offset of its header in the region, a multiple of [`culm_queue::ALIGNMENT`].
    pub offset: u64,
    /// Entries, a power of two.
    pub capacity: u32,
    /// Bytes of an entry.
    pub entry_size: u32,
    /// The domain that puts entries in.
    pub producer: DomainId,
    /// The domain that takes entries out.
    pub consumer: DomainId,
    /// Observers see its indices.
    pub observed: bool,
}

/// A device of the board that the system uses.
#[derive(Clone, Debug)]
pub struct Device {
    /// The board's description of it.
    pub board: BoardDevice,
    /// The domain that drives it, or that owns it.
    pub driver: DomainId,
    /// Its registers: the pages around them.
    pub registers: RegionId,
    /// Offset of the registers in that region.
    pub offset: u64,
    /// DMA memory for the driver's own structures.
    pub dma: Option<RegionId>,
    /// Its own hardware address, where its class gives it one.
    pub mac: Option<[u8; 6]>,
    /// The file of the host's that it stands for in an emulated machine, where its class has one.
    pub file: Option<HostFile>,
}

/// A file of the host's that a device of an emulated machine stands for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HostFile {
    /// The file; `None` for one that the first run makes and further ones find again.
    pub path: Option<PathBuf>,
    /// The disk that the first run writes to the file that it makes; zeroes where there is none.
    pub disk: Option<Disk>,
    /// Its bytes.
    pub size: u64,
    /// The machine cannot write it.
    pub read_only: bool,
}

/// A provider of a class: the driver of a device, or a component in its place.
#[derive(Clone, Debug)]
pub struct Provider {
    /// The name by which clients know it.
    pub name: String,
    /// The class.
    pub class: DeviceClass,
    /// The driver, or the component in its place.
    pub domain: DomainId,
    /// The device that it drives, if it does.
    pub device: Option<DeviceId>,
}

impl Plan {
    /// The domain of this name.
    pub fn domain(&self, name: &str) -> Option<DomainId> {
        self.domains.iter().position(|domain| domain.name == name)
    }

    /// The component of a domain.
    pub fn component_of(&self, domain: DomainId) -> &Component {
        &self.components[self.domains[domain].component]
    }

    /// How many cores have domains or virtual CPUs: those from 0 to the highest in use.
    pub fn cores(&self) -> u32 {
        let cores = self.domains.iter().map(|domain| domain.core).chain(self.virtual_cpus().map(|cpu| cpu.core));
        cores.max().map_or(1, |highest| highest + 1)
    }

    /// Domains that may see the whole system.
    pub fn observers(&self) -> impl Iterator<Item = DomainId> + '_ {
        let observes = |domain: &Domain| {
            domain.connections.iter().any(|connection| matches!(connection.data, ConnectionData::Observation(_)))
        };
        self.domains.iter().enumerate().filter(move |(_, domain)| observes(domain)).map(|(id, _)| id)
    }
}
