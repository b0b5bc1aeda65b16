//! Guests: virtual machines, each run by a domain that is its monitor.

use super::{ConnectionData, DomainId, EndNumber, Plan, RegionId};
use culm_abi::guest::{MEMORY, VirtioSlot};
use std::collections::BTreeMap;
use std::path::PathBuf;

/// A guest.
#[derive(Clone, Debug)]
pub struct Guest {
    /// Its name.
    pub name: String,
    /// The domain that runs it.
    pub monitor: DomainId,
    /// Its virtual CPUs, by their numbers.
    pub cpus: Vec<VirtualCpu>,
    /// Priority of its virtual CPUs.
    pub priority: u8,
    /// Its kernel, an arm64 Image.
    pub kernel: PathBuf,
    /// Its initial RAM disk.
    pub initrd: Option<Initrd>,
    /// The kernel's command line.
    pub command_line: String,
    /// The layout of its memory when it begins.
    pub memory: GuestMemory,
    /// Its memory, which its monitor sees too.
    pub region: RegionId,
}

/// A virtual CPU of a guest.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct VirtualCpu {
    /// The core that it has for itself among virtual CPUs.
    pub core: u32,
    /// The monitor's end that stands for it.
    pub channel: EndNumber,
    /// Its page, which kernel and monitor share.
    pub page: RegionId,
}

impl Plan {
    /// The virtio devices of a guest: those for which its monitor has a connection, by that one's
    /// name, in the order of their addresses. Linux numbers them in this order.
    pub fn virtio_devices(&self, guest: &Guest) -> Vec<(&str, VirtioSlot)> {
        let connections = &self.domains[guest.monitor].connections;
        let mut counts = BTreeMap::new();
        let mut device = |data: &ConnectionData| {
            let class = data.kind().class?;
            let before: &mut usize = counts.entry(class).or_default();
            let slot = VirtioSlot::of_class(class, *before);
            *before += 1;
            slot
        };
        let mut devices: Vec<_> = connections
            .iter()
            // What the monitor logs is its own.
            .filter(|connection| connection.name != "log")
            .filter_map(|connection| Some((connection.name.as_str(), device(&connection.data)?)))
            .collect();
        devices.sort_by_key(|(_, slot)| slot.index());
        devices
    }
}

/// Where a guest's initial RAM disk comes from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Initrd {
    /// A file that is one.
    File(PathBuf),
    /// The tool packs it: each file, by its path in it.
    Packed(BTreeMap<String, PathBuf>),
}

/// The layout of a guest's memory when it begins: the kernel's file at the beginning, the device
/// tree and the initial RAM disk at the end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct GuestMemory {
    /// Bytes of all, whole units.
    pub size: u64,
    /// Bytes of the kernel's file.
    pub kernel: u64,
    /// Bytes of the initial RAM disk.
    pub initrd: u64,
}

impl GuestMemory {
    /// Bytes for the device tree.
    pub const TREE: u64 = 0x1_0000;
    /// Bytes that one entry of the stage 2 table maps.
    pub const UNIT: u64 = crate::layout::translation::LEVEL_2_SIZE;

    /// Bytes of device tree and initial RAM disk, which lie together.
    pub fn end(&self) -> u64 {
        Self::TREE.saturating_add(self.initrd)
    }

    /// Bytes that kernel, device tree and initial RAM disk leave to nobody else when the guest
    /// begins, if its kernel takes `image` bytes then.
    pub fn least(&self, image: u64) -> u64 {
        image.next_multiple_of(Self::UNIT).saturating_add(self.end().next_multiple_of(Self::UNIT))
    }

    /// Guest-physical address of the device tree, at the beginning of a unit.
    pub fn tree_at(&self) -> u64 {
        MEMORY + self.size - self.end().next_multiple_of(Self::UNIT)
    }

    /// Guest-physical address of the initial RAM disk.
    pub fn initrd_at(&self) -> u64 {
        self.tree_at() + Self::TREE
    }
}
