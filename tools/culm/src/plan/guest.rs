//! Guests: virtual machines, each run by a domain that is its monitor.

use super::{DomainId, EndNumber, RegionId};
use culm_abi::guest::MEMORY;
use std::collections::BTreeMap;
use std::path::PathBuf;

/// A guest.
#[derive(Clone, Debug)]
pub struct Guest {
    /// Its name.
    pub name: String,
    /// The domain that runs it, on the same core.
    pub monitor: DomainId,
    /// The monitor's end that stands for the guest's virtual CPU.
    pub channel: EndNumber,
    /// The core.
    pub core: u32,
    /// Priority of its virtual CPU.
    pub priority: u8,
    /// Its kernel, an arm64 Image.
    pub kernel: PathBuf,
    /// Its initial RAM disk.
    pub initrd: Option<Initrd>,
    /// The kernel's command line.
    pub command_line: String,
    /// What is where in its memory.
    pub memory: GuestMemory,
    /// The page of its virtual CPU, which kernel and monitor share.
    pub page: RegionId,
    /// The memory between its kernel and its device tree.
    pub blank: RegionId,
}

/// Where a guest's initial RAM disk comes from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Initrd {
    /// A file that is one.
    File(PathBuf),
    /// The tool packs it: each file, by its path in it.
    Packed(BTreeMap<String, PathBuf>),
}

/// What is where in a guest's memory: the kernel's file at the beginning, the device tree and the
/// initial RAM disk at the end, and in between what is zero at first. Each part is whole units.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct GuestMemory {
    /// Bytes of all.
    pub size: u64,
    /// Bytes of the kernel's part.
    pub kernel: u64,
    /// Bytes of the part with device tree and initial RAM disk.
    pub end: u64,
    /// Bytes of the initial RAM disk.
    pub initrd: u64,
}

impl GuestMemory {
    /// Bytes for the device tree.
    pub const TREE: u64 = 0x1_0000;
    /// Bytes that one entry of the stage 2 table maps.
    pub const UNIT: u64 = crate::layout::translation::LEVEL_2_SIZE;

    /// The parts of `size` bytes with a kernel and an initial RAM disk of so many bytes; there may
    /// be less memory than they take.
    pub fn new(size: u64, kernel: u64, initrd: u64) -> Self {
        let units = |size: u64| size.next_multiple_of(Self::UNIT);
        Self { size, kernel: units(kernel), end: units(Self::TREE.saturating_add(initrd)), initrd }
    }

    /// Guest-physical address of what is zero at first.
    pub fn blank_at(&self) -> u64 {
        MEMORY + self.kernel
    }

    /// Its bytes.
    pub fn blank(&self) -> u64 {
        self.size - self.kernel - self.end
    }

    /// Guest-physical address of the device tree.
    pub fn tree_at(&self) -> u64 {
        MEMORY + self.size - self.end
    }

    /// Guest-physical address of the initial RAM disk.
    pub fn initrd_at(&self) -> u64 {
        self.tree_at() + Self::TREE
    }
}
