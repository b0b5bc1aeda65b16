//! The objects that take physical memory, each once, however many domains map it.

use super::kernel_tables::KernelTables;
use super::program::{ProgramPages, pages};
use crate::plan::{DomainId, Plan, Purpose, RegionKind};
use culm_abi::memory::{KERNEL_STACK_SIZE, attribute_index};
use std::collections::BTreeMap;
use std::path::PathBuf;

/// Position in [`Objects::list`].
pub type ObjectId = usize;

/// How an object's physical memory is placed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Placement {
    /// In the image file.
    File,
    /// Behind it, zeroed at boot.
    Zeroed,
    /// Where the board or the system file says. Main memory there is zeroed at boot.
    Fixed(u64),
}

/// For whom memory is taken: how the map of memory groups its lines.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Taker {
    /// The kernel: its program, tables, state and stacks.
    Kernel,
    /// Translation tables of the kernel and of all domains.
    TranslationTables,
    /// The code and constants of a component.
    Component(String),
    /// Memory that a domain has for itself.
    Domain(String),
    /// A guest's kernel, device tree and initial RAM disk.
    Guest(String),
    /// A region.
    Region(String),
    /// Files and folders of configurations, and the picture.
    Files,
}

/// One contiguous piece of physical memory.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Object {
    /// Its name, for people.
    pub name: String,
    /// For whom it is.
    pub taker: Taker,
    /// Bytes, whole pages.
    pub size: u64,
    /// Where it is to be.
    pub placement: Placement,
    /// Its memory type: one of [`culm_abi::memory::attribute_index`].
    pub attribute: u64,
}

/// The objects that a domain has for itself.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DomainObjects {
    /// Zeroed memory of its program, in the order of [`ProgramPages::zeroed`].
    pub zeroed: Vec<ObjectId>,
    /// Its stack.
    pub stack: ObjectId,
    /// Its heap.
    pub heap: Option<ObjectId>,
    /// Its start block.
    pub start: ObjectId,
}

/// The objects that a guest begins with, which its monitor copies into its memory.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct GuestObjects {
    /// Its kernel.
    pub kernel: ObjectId,
    /// Its device tree and its initial RAM disk.
    pub end: ObjectId,
}

/// All objects, and which is which.
#[derive(Clone, Debug, Default)]
pub struct Objects {
    /// All of them. The kernel's program is the first.
    pub list: Vec<Object>,
    /// The tables that the kernel reads.
    pub system_tables: ObjectId,
    /// The kernel's own state.
    pub state: ObjectId,
    /// Accounts of the cores.
    pub core_accounts: ObjectId,
    /// Accounts of the domains.
    pub domain_accounts: ObjectId,
    /// The kernel's stacks by core.
    pub kernel_stacks: Vec<ObjectId>,
    /// By component: its content, in the order of [`ProgramPages::contents`].
    pub programs: Vec<Vec<ObjectId>>,
    /// By domain.
    pub domains: Vec<DomainObjects>,
    /// By region of the plan.
    pub regions: Vec<ObjectId>,
    /// Content of files and folders.
    pub files: BTreeMap<PathBuf, ObjectId>,
    /// By guest.
    pub guests: Vec<GuestObjects>,
    /// The system's picture, where somebody observes.
    pub picture: Option<ObjectId>,
}

/// Position of the kernel's program in [`Objects::list`].
pub const KERNEL: ObjectId = 0;

/// Sizes that the plan does not know.
#[derive(Clone, Debug)]
pub struct Sizes<'a> {
    /// Bytes of the kernel's program, from its first to its last.
    pub kernel: u64,
    /// The kernel's tables.
    pub tables: &'a KernelTables,
    /// By component.
    pub programs: &'a [ProgramPages],
    /// By domain: bytes of its start block.
    pub starts: &'a [u64],
    /// Bytes of each file and packed folder.
    pub files: &'a BTreeMap<PathBuf, u64>,
    /// Bytes of the picture.
    pub picture: u64,
}

impl Objects {
    /// Everything that `plan` needs.
    pub fn collect(plan: &Plan, sizes: &Sizes<'_>) -> Self {
        let mut objects = Self::default();
        objects.add_kernel(plan, sizes);
        for (component, program) in plan.components.iter().zip(sizes.programs) {
            let name = &component.manifest.name;
            let contents = program.contents.iter().map(|content| {
                let what = format!("program of {name} ({})", content.permissions);
                objects.add(what, Taker::Component(name.clone()), content.bytes.len() as u64, Placement::File)
            });
            let contents = contents.collect();
            objects.programs.push(contents);
        }
        for domain in 0..plan.domains.len() {
            objects.add_domain(plan, sizes, domain);
        }
        for guest in &plan.guests {
            let mut add = |what: &str, size: u64| {
                let name = format!("{what} of guest {}", guest.name);
                objects.add(name, Taker::Guest(guest.name.clone()), size, Placement::File)
            };
            let made = GuestObjects {
                kernel: add("kernel", guest.memory.kernel),
                end: add("device tree and initial RAM disk", guest.memory.end()),
            };
            objects.guests.push(made);
        }
        for (path, &size) in sizes.files {
            let object = objects.add(path.display().to_string(), Taker::Files, size.max(1), Placement::File);
            objects.files.insert(path.clone(), object);
        }
        if plan.observers().next().is_some() {
            objects.picture = Some(objects.add("picture".into(), Taker::Files, sizes.picture.max(1), Placement::File));
        }
        objects.add_regions(plan);
        objects
    }

    /// The object of this number.
    pub fn get(&self, object: ObjectId) -> &Object {
        &self.list[object]
    }

    fn add(&mut self, name: String, taker: Taker, size: u64, placement: Placement) -> ObjectId {
        self.list.push(Object { name, taker, size: pages(size), placement, attribute: attribute_index::CACHED });
        self.list.len() - 1
    }

    fn add_kernel(&mut self, plan: &Plan, sizes: &Sizes<'_>) {
        let tables = sizes.tables;
        self.add("kernel".into(), Taker::Kernel, sizes.kernel, Placement::File);
        self.system_tables = self.add("system tables".into(), Taker::Kernel, tables.read_only_size(), Placement::File);
        self.state = self.add("kernel state".into(), Taker::Kernel, tables.state_size(), Placement::Zeroed);
        self.core_accounts =
            self.add("accounts of cores".into(), Taker::Kernel, tables.core_accounts.size(), Placement::Zeroed);
        self.domain_accounts =
            self.add("accounts of domains".into(), Taker::Kernel, tables.domain_accounts.size(), Placement::Zeroed);
        for core in 0..plan.cores() {
            let stack =
                self.add(format!("kernel stack of core {core}"), Taker::Kernel, KERNEL_STACK_SIZE, Placement::Zeroed);
            self.kernel_stacks.push(stack);
        }
    }

    fn add_domain(&mut self, plan: &Plan, sizes: &Sizes<'_>, id: DomainId) {
        let domain = &plan.domains[id];
        let mut add = |what: &str, size: u64, placement: Placement| {
            self.add(format!("{what} of {}", domain.name), Taker::Domain(domain.name.clone()), size, placement)
        };
        let zeroed = sizes.programs[domain.component].zeroed.iter();
        let zeroed = zeroed.map(|zeroed| add("variables", zeroed.size, Placement::Zeroed)).collect();
        let stack = add("stack", domain.stack, Placement::Zeroed);
        let heap = (domain.heap > 0).then(|| add("heap", domain.heap, Placement::Zeroed));
        let start = add("start block", sizes.starts[id], Placement::File);
        self.domains.push(DomainObjects { zeroed, stack, heap, start });
    }

    fn add_regions(&mut self, plan: &Plan) {
        for region in &plan.regions {
            let placement = region.address.map_or(Placement::Zeroed, Placement::Fixed);
            let device = region.kind == RegionKind::Device || region.purpose == Purpose::Registers;
            let what = if device { "registers" } else { "region" };
            let taker = Taker::Region(region.name.clone());
            let object = self.add(format!("{what} {}", region.name), taker, region.size, placement);
            self.list[object].attribute = region.kind.attribute(&plan.board);
            self.regions.push(object);
        }
    }
}
