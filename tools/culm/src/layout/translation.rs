//! Translation tables: from a list of mappings to the bytes that the processor walks.
//!
//! One format serves all three kinds of table in an image: the kernel's at EL1, the kernel's at EL2
//! with `HCR_EL2.E2H` set (the EL2&0 regime uses the EL1&0 format, Arm ARM DDI 0487 D8.3), and the
//! domains'; a guest's at stage 2 differs in a few bits only, with the same levels. 39 bits of
//! address, 4 KiB granule: three levels, whose entries cover 1 GiB, 2 MiB and 4 KiB (D8.2).
//!
//! [`Permissions`] has no value that is both writable and executable, so that no table can be.

use culm_abi::memory::{ADDRESS_BITS, PAGE_SIZE};
use std::collections::BTreeMap;
use std::fmt;

/// Bytes covered by a descriptor of level 2.
pub const LEVEL_2_SIZE: u64 = 2 * 1024 * 1024;

const ENTRIES: usize = 512;

/// Bits of a descriptor (Arm ARM D8.3.1 and D8.3.2).
pub mod bits {
    /// The descriptor is valid.
    pub const VALID: u64 = 1 << 0;
    /// A table at levels 1 and 2, a page at level 3; without it a valid descriptor of level 2 is
    /// that of 2 MiB.
    pub const TABLE_OR_PAGE: u64 = 1 << 1;
    /// First bit of `AttrIndx`.
    pub const ATTRIBUTE_SHIFT: u32 = 2;
    /// `AP[1]`: EL0 has access.
    pub const USER: u64 = 1 << 6;
    /// `AP[2]`: the mapping is read-only.
    pub const READ_ONLY: u64 = 1 << 7;
    /// `SH` = inner shareable.
    pub const INNER_SHAREABLE: u64 = 0b11 << 8;
    /// The access flag: without it the first access faults.
    pub const ACCESSED: u64 = 1 << 10;
    /// Not global: the TLB entry belongs to the current ASID.
    pub const NOT_GLOBAL: u64 = 1 << 11;
    /// Privileged execute never.
    pub const PRIVILEGED_EXECUTE_NEVER: u64 = 1 << 53;
    /// Unprivileged execute never.
    pub const USER_EXECUTE_NEVER: u64 = 1 << 54;
    /// Of stage 2: `MemAttr`, normal memory, write-back, inside and outside; `S2AP`, to be read and
    /// written; `XN` zero, to be executed.
    pub const STAGE_2_MEMORY: u64 = 0b1111 << 2 | 0b11 << 6;
    /// The output address.
    pub const ADDRESS: u64 = 0x0000_ffff_ffff_f000;
}

/// The permissions of mapped memory. Reading is always allowed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Permissions {
    /// Read.
    Read,
    /// Read and write.
    ReadWrite,
    /// Read and execute.
    ReadExecute,
}

impl fmt::Display for Permissions {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(match self {
            Self::Read => "r",
            Self::ReadWrite => "rw",
            Self::ReadExecute => "rx",
        })
    }
}

/// The user of a mapping.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Owner {
    /// The kernel: global, no access from EL0.
    Kernel,
    /// The kernel while it boots, in the half that will be the domains': tagged with the ASID that
    /// no domain has, 0, so that what a TLB keeps of it is nobody's. Global entries there would hit
    /// in every domain (Arm ARM D8.13.3).
    Boot,
    /// A guest, at stage 2: what its own tables allow, it may do with this memory.
    Guest,
    /// A protection domain: tagged with its ASID, never executable by the kernel.
    Domain,
}

/// A range of virtual addresses, what it shows and who may do what with it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Mapping {
    /// First virtual address.
    pub address: u64,
    /// Physical address that it shows.
    pub physical: u64,
    /// Bytes, whole pages.
    pub size: u64,
    /// The permissions.
    pub permissions: Permissions,
    /// By whom.
    pub owner: Owner,
    /// The memory type: one of [`culm_abi::memory::attribute_index`].
    pub attribute: u64,
}

impl Mapping {
    /// The first address after the mapping.
    pub fn end(&self) -> u64 {
        self.address + self.size
    }

    /// The descriptor of a page (level 3) or of 2 MiB (level 2) of this mapping that shows
    /// `physical`.
    fn descriptor(&self, physical: u64, level: usize) -> u64 {
        if self.owner == Owner::Guest {
            let kind = if level == 3 { bits::TABLE_OR_PAGE } else { 0 };
            return physical | kind | bits::VALID | bits::ACCESSED | bits::INNER_SHAREABLE | bits::STAGE_2_MEMORY;
        }
        let mut descriptor =
            physical | bits::VALID | bits::ACCESSED | bits::INNER_SHAREABLE | self.attribute << bits::ATTRIBUTE_SHIFT;
        if level == 3 {
            descriptor |= bits::TABLE_OR_PAGE;
        }
        if self.permissions != Permissions::ReadWrite {
            descriptor |= bits::READ_ONLY;
        }
        let execute = self.permissions == Permissions::ReadExecute;
        match self.owner {
            Owner::Domain => {
                descriptor |= bits::USER | bits::NOT_GLOBAL | bits::PRIVILEGED_EXECUTE_NEVER;
                if !execute {
                    descriptor |= bits::USER_EXECUTE_NEVER;
                }
            }
            Owner::Guest => {}
            Owner::Kernel | Owner::Boot => {
                descriptor |= bits::USER_EXECUTE_NEVER;
                if self.owner == Owner::Boot {
                    descriptor |= bits::NOT_GLOBAL;
                }
                if !execute {
                    descriptor |= bits::PRIVILEGED_EXECUTE_NEVER;
                }
            }
        }
        descriptor
    }
}

/// Why a mapping cannot be made. Any of these is a mistake of the layout, not of a description.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Refused {
    /// An address or the size is not a multiple of the page size, or the size is zero.
    Unaligned(Mapping),
    /// The range leaves its half of the address space.
    OutOfRange(Mapping),
    /// Part of the range is mapped already.
    Overlap(Mapping),
}

impl fmt::Display for Refused {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (mapping, reason) = match self {
            Self::Unaligned(mapping) => (mapping, "is not made of whole pages"),
            Self::OutOfRange(mapping) => (mapping, "leaves its half of the address space"),
            Self::Overlap(mapping) => (mapping, "overlaps another mapping"),
        };
        write!(
            formatter,
            "the mapping of {:#x} (0x{:x} bytes) to physical {:#x} {reason}",
            mapping.address, mapping.size, mapping.physical
        )
    }
}

impl std::error::Error for Refused {}

#[derive(Clone, Debug)]
enum Entry {
    Table(Box<Node>),
    Leaf(u64),
}

#[derive(Clone, Debug, Default)]
struct Node {
    entries: BTreeMap<usize, Entry>,
}

/// One address space: a tree of tables that has no place in memory yet.
#[derive(Clone, Debug, Default)]
pub struct Tables {
    root: Node,
}

/// Bytes covered by one entry of a table of `level`.
const fn span(level: usize) -> u64 {
    PAGE_SIZE << (9 * (3 - level))
}

impl Tables {
    /// Maps nothing.
    pub fn new() -> Self {
        Self::default()
    }

    /// Adds `mapping`, in blocks of 2 MiB where both addresses allow.
    pub fn map(&mut self, mapping: &Mapping) -> Result<(), Refused> {
        if mapping.size == 0 || !(mapping.address | mapping.physical | mapping.size).is_multiple_of(PAGE_SIZE) {
            return Err(Refused::Unaligned(*mapping));
        }
        let half = 1u64 << ADDRESS_BITS;
        let offset = mapping.address & (half - 1);
        let upper = mapping.address >> ADDRESS_BITS;
        let in_half = upper == 0 || upper == u64::MAX >> ADDRESS_BITS;
        if !in_half || mapping.size > half - offset || mapping.physical > bits::ADDRESS - mapping.size {
            return Err(Refused::OutOfRange(*mapping));
        }
        let mut done = 0;
        while done < mapping.size {
            let (at, physical) = (offset + done, mapping.physical + done);
            let large = (at | physical).is_multiple_of(LEVEL_2_SIZE) && mapping.size - done >= LEVEL_2_SIZE;
            let level = if large { 2 } else { 3 };
            if !self.root.insert(1, level, at, mapping.descriptor(physical, level)) {
                return Err(Refused::Overlap(*mapping));
            }
            done += span(level);
        }
        Ok(())
    }

    /// Count of tables, the root included; each takes a page.
    pub fn count(&self) -> u64 {
        self.root.count()
    }

    /// The tables' bytes for a place at physical address `base`, where the root comes first.
    pub fn encode(&self, base: u64) -> Vec<u8> {
        let mut tables = Vec::new();
        self.root.encode(base, &mut tables);
        tables.into_iter().flatten().flat_map(u64::to_le_bytes).collect()
    }
}

impl Node {
    /// Puts `descriptor` for address `at` into the table of `target` level below this one, which is
    /// of `level`. False where something is there already.
    fn insert(&mut self, level: usize, target: usize, at: u64, descriptor: u64) -> bool {
        let index = (at / span(level)) as usize % ENTRIES;
        if level == target {
            return self.entries.insert(index, Entry::Leaf(descriptor)).is_none();
        }
        match self.entries.entry(index).or_insert_with(|| Entry::Table(Box::default())) {
            Entry::Table(table) => table.insert(level + 1, target, at, descriptor),
            Entry::Leaf(_) => false,
        }
    }

    fn count(&self) -> u64 {
        let below = self.entries.values().map(|entry| match entry {
            Entry::Table(table) => table.count(),
            Entry::Leaf(_) => 0,
        });
        1 + below.sum::<u64>()
    }

    /// Appends this table and those below it to `tables`, the first of which stands at `base`.
    fn encode(&self, base: u64, tables: &mut Vec<[u64; ENTRIES]>) {
        let own = tables.len();
        tables.push([0; ENTRIES]);
        for (&index, entry) in &self.entries {
            tables[own][index] = match entry {
                Entry::Leaf(descriptor) => *descriptor,
                Entry::Table(table) => {
                    let address = base + tables.len() as u64 * PAGE_SIZE;
                    table.encode(base, tables);
                    address | bits::VALID | bits::TABLE_OR_PAGE
                }
            };
        }
    }
}
