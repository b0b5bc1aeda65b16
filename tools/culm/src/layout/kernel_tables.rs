//! The kernel's tables: which there are, how large each is, and where it stands among the others.

use crate::plan::{PhysicalRange, Plan, Purpose, Region};
use culm_abi::accounting::{CoreAccount, DomainAccount};
use culm_abi::memory::{PAGE_SIZE, attribute_index};
use culm_abi::syscall::GROUP;
use culm_abi::system::{
    CoreDescription, DomainDescription, END_INTERRUPT, EndDescription, FIRST_INTERRUPT, InterruptRoute, KernelLayout,
    MemoryRange, Table, VectorRegisters,
};

/// Where a table stands in the memory that it shares with others.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TablePlace {
    /// Offset of the first element.
    pub offset: u64,
    /// Count of elements.
    pub count: u32,
    /// Bytes of an element.
    pub stride: u32,
}

impl TablePlace {
    /// Bytes of the table.
    pub fn size(&self) -> u64 {
        u64::from(self.count) * u64::from(self.stride)
    }

    /// The table as the kernel finds it, where the memory is mapped at `base`.
    pub fn at(&self, base: u64) -> Table {
        Table { address: base + self.offset, count: self.count, stride: self.stride }
    }
}

/// The kernel's tables: shape and place of each.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct KernelTables {
    /// Read-only: [`CoreDescription`]s.
    pub cores: TablePlace,
    /// Read-only: [`DomainDescription`]s.
    pub domains: TablePlace,
    /// Read-only: [`EndDescription`]s.
    pub ends: TablePlace,
    /// Read-only: [`InterruptRoute`]s.
    pub interrupts: TablePlace,
    /// Read-only: [`MemoryRange`]s of the regions that [`uncached_regions`] names.
    pub uncached: TablePlace,
    /// State of domains that their core alone touches.
    pub local_state: TablePlace,
    /// State of domains that other cores may touch.
    pub shared_state: TablePlace,
    /// Notification words.
    pub words: TablePlace,
    /// Words of pending domains.
    pub pending_domains: TablePlace,
    /// [`VectorRegisters`] of those that use them, in the order of [`Plan::vector_users`].
    pub vectors: TablePlace,
    /// Timer slots.
    pub timer_slots: TablePlace,
    /// On pages of their own.
    pub core_accounts: TablePlace,
    /// On pages of their own.
    pub domain_accounts: TablePlace,
}

/// Notification words of a domain with `ends` channel ends.
pub fn groups(ends: usize) -> u32 {
    (ends as u32).div_ceil(GROUP).max(1)
}

/// Words of pending domains of a core with `domains` domains.
pub fn pending_words(domains: usize) -> u32 {
    domains.div_ceil(64) as u32
}

/// How many domains and virtual CPUs each core has.
pub fn domains_per_core(plan: &Plan) -> Vec<usize> {
    let mut counts = vec![0; plan.cores() as usize];
    for domain in &plan.domains {
        counts[domain.core as usize] += 1;
    }
    for cpu in plan.virtual_cpus() {
        counts[cpu.core as usize] += 1;
    }
    counts
}

/// The regions in main memory that are used uncached, a guest's included, which begins so: zeroed
/// at boot through the cache, which must be cleaned then.
pub fn uncached_regions(plan: &Plan) -> impl Iterator<Item = usize> + '_ {
    let is_memory = |region: &Region| {
        region.address.is_none_or(|address| plan.board.memory.contains(PhysicalRange { address, size: region.size }))
    };
    let regions = plan.regions.iter().enumerate();
    regions
        .filter(move |(_, region)| {
            let is_uncached = region.kind.attribute(&plan.board) == attribute_index::UNCACHED;
            (is_uncached || region.purpose == Purpose::Guest) && region.size > 0 && is_memory(region)
        })
        .map(|(index, _)| index)
}

/// Puts tables one behind the other, each at the start of a cache line.
#[derive(Default)]
struct Packer {
    end: u64,
}

impl Packer {
    fn place(&mut self, count: usize, stride: usize) -> TablePlace {
        // An element's alignment divides its size; no element is aligned to more than the power of
        // two in that.
        let alignment = (1_u64 << stride.trailing_zeros()).clamp(64, PAGE_SIZE);
        let place =
            TablePlace { offset: self.end.next_multiple_of(alignment), count: count as u32, stride: stride as u32 };
        self.end = place.offset + place.size();
        place
    }
}

impl KernelTables {
    /// The tables that `plan` needs, given the sizes that the kernel tells.
    pub fn new(plan: &Plan, layout: &KernelLayout) -> Self {
        let cores = plan.cores() as usize;
        let virtual_cpus = plan.virtual_cpus().count();
        let domains = plan.domains.len() + virtual_cpus;
        let ends = plan.domains.iter().map(|domain| domain.ends.len()).sum();
        let words = plan.domains.iter().map(|domain| groups(domain.ends.len())).sum::<u32>() + virtual_cpus as u32;
        let pending: u32 = domains_per_core(plan).into_iter().map(pending_words).sum();
        let mut fixed = Packer::default();
        let mut state = Packer::default();
        Self {
            cores: fixed.place(cores, size_of::<CoreDescription>()),
            domains: fixed.place(domains, size_of::<DomainDescription>()),
            ends: fixed.place(ends, size_of::<EndDescription>()),
            interrupts: fixed.place((END_INTERRUPT - FIRST_INTERRUPT) as usize, size_of::<InterruptRoute>()),
            uncached: fixed.place(uncached_regions(plan).count(), size_of::<MemoryRange>()),
            local_state: state.place(domains, layout.local_state as usize),
            shared_state: state.place(domains, layout.shared_state as usize),
            words: state.place(words as usize, 8),
            pending_domains: state.place(pending as usize, 8),
            vectors: state.place(plan.vector_users().count(), size_of::<VectorRegisters>()),
            timer_slots: state.place(domains, layout.timer_slot as usize),
            core_accounts: Packer::default().place(cores, size_of::<CoreAccount>()),
            domain_accounts: Packer::default().place(domains, size_of::<DomainAccount>()),
        }
    }

    /// Bytes of the tables that the kernel only reads.
    pub fn read_only_size(&self) -> u64 {
        self.uncached.offset + self.uncached.size()
    }

    /// Bytes of the kernel's state.
    pub fn state_size(&self) -> u64 {
        self.timer_slots.offset + self.timer_slots.size()
    }
}
