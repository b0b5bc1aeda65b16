//! The layout of memory: physical places, address spaces, and the translation tables that make
//! them.
//!
//! The layout is made in steps: programs in whole pages ([`program`]), all that takes memory
//! ([`objects`]), what each address space shows ([`space`], [`kernel`]), a physical place for all
//! ([`physical`]), translation tables ([`translation`]). Nothing is decided while the system runs.

pub mod kernel;
pub mod kernel_tables;
pub mod objects;
pub mod physical;
pub mod program;
pub mod space;
#[cfg(test)]
pub(crate) mod tests;
pub mod translation;

use crate::build::elf::Program;
use crate::failure::Failure;
use crate::plan::{PhysicalRange, Plan};
use culm_abi::memory::{KERNEL_BASE, PAGE_SIZE};
use culm_abi::system::KernelLayout;
use kernel::KernelSpace;
use kernel_tables::KernelTables;
use objects::{ObjectId, Objects, Sizes};
use physical::Physical;
use program::ProgramPages;
use space::Space;
use std::collections::BTreeMap;
use std::path::PathBuf;
use translation::{Mapping, Owner, Permissions, Tables};

/// The parts that a layout is made from.
#[derive(Clone, Copy, Debug)]
pub struct Inputs<'a> {
    /// The system.
    pub plan: &'a Plan,
    /// The kernel's program.
    pub kernel: &'a Program,
    /// Sizes of the kernel's state.
    pub kernel_layout: &'a KernelLayout,
    /// The components' programs, in the plan's order.
    pub programs: &'a [Program],
    /// By domain: bytes of its start block.
    pub start_sizes: &'a [u64],
    /// Bytes of each file and packed folder that configurations name.
    pub file_sizes: &'a BTreeMap<PathBuf, u64>,
    /// Bytes of the system's picture.
    pub picture_size: u64,
}

/// A system's memory.
#[derive(Clone, Debug)]
pub struct Layout {
    /// The components' programs in pages.
    pub programs: Vec<ProgramPages>,
    /// Shape and place of the kernel's tables.
    pub tables: KernelTables,
    /// Everything that takes memory.
    pub objects: Objects,
    /// Where it is.
    pub physical: Physical,
    /// The kernel's address space.
    pub kernel: KernelSpace,
    /// By domain: its address space.
    pub domains: Vec<Space>,
    /// By guest: its memory, by guest-physical address.
    pub guests: Vec<Space>,
    /// The translation tables' bytes, for [`Physical::tables`].
    pub table_bytes: Vec<u8>,
    /// Physical addresses of the root tables.
    pub roots: Roots,
}

/// Physical addresses of the root tables.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Roots {
    /// The kernel's.
    pub kernel: u64,
    /// The one used while booting.
    pub boot: u64,
    /// By domain.
    pub domains: Vec<u64>,
    /// By guest: those of stage 2.
    pub guests: Vec<u64>,
}

impl Layout {
    /// Lays out a system.
    pub fn new(inputs: &Inputs<'_>) -> Result<Self, Failure> {
        let plan = inputs.plan;
        let components = plan.components.iter().zip(inputs.programs);
        let programs = components
            .map(|(component, program)| program::divide(&component.manifest.name, program))
            .collect::<Result<Vec<_>, _>>()?;
        let tables = KernelTables::new(plan, inputs.kernel_layout);
        let objects = Objects::collect(
            plan,
            &Sizes {
                kernel: kernel::kernel_size(inputs.kernel)?,
                tables: &tables,
                programs: &programs,
                starts: inputs.start_sizes,
                files: inputs.file_sizes,
                picture: inputs.picture_size,
            },
        );
        let kernel = kernel::kernel_space(plan, inputs.kernel, &objects);
        let domains = (0..plan.domains.len())
            .map(|id| space::domain_space(plan, &objects, &programs[plan.domains[id].component], id))
            .collect::<Result<Vec<_>, _>>()?;
        let guests = (0..plan.guests.len()).map(|id| space::guest_space(plan, &objects, id)).collect();
        let mut layout = Self {
            programs,
            tables,
            objects,
            physical: Physical {
                addresses: Vec::new(),
                load_address: 0,
                tables: PhysicalRange { address: 0, size: 0 },
                file_end: 0,
                zeroed: PhysicalRange { address: 0, size: 0 },
            },
            kernel,
            domains,
            guests,
            table_bytes: Vec::new(),
            roots: Roots::default(),
        };
        layout.choose_addresses(plan)?;
        Ok(layout)
    }

    /// Chooses physical addresses. How many translation tables there are depends on them a little
    /// (the table used while booting follows the image's end), and they on it: so it is tried until
    /// it is enough, which the second round nearly always is.
    fn choose_addresses(&mut self, plan: &Plan) -> Result<(), Failure> {
        let mut size = 0;
        loop {
            self.physical = physical::place(plan, &self.objects, size)?;
            let all = self.translate()?;
            let needed = all.iter().map(Tables::count).sum::<u64>() * PAGE_SIZE;
            if needed <= size {
                physical::check_fixed(plan, &self.objects, &self.physical)?;
                self.encode(&all);
                return Ok(());
            }
            size = needed;
        }
    }

    /// The tables of the kernel, of booting, of each domain and of each guest.
    fn translate(&self) -> Result<Vec<Tables>, Failure> {
        let mistake = |error: translation::Refused| {
            Failure::new(format!("the layout contradicts itself: {error}")).help("this is a mistake in the tool")
        };
        self.address_spaces()
            .into_iter()
            .map(|mappings| {
                let mut tables = Tables::new();
                mappings.iter().try_for_each(|mapping| tables.map(mapping))?;
                Ok(tables)
            })
            .collect::<Result<_, _>>()
            .map_err(mistake)
    }

    /// Returns the mappings that the tables must have: the kernel's, those of booting, those of
    /// each domain, those of each guest.
    pub fn address_spaces(&self) -> Vec<Vec<Mapping>> {
        let mut kernel = self.mappings(&self.kernel.space, Owner::Kernel);
        kernel.extend(self.kernel.devices.iter().map(|&(address, range)| Mapping {
            address,
            physical: range.address,
            size: range.size,
            permissions: Permissions::ReadWrite,
            owner: Owner::Kernel,
            attribute: kernel::DEVICE_ATTRIBUTE,
        }));
        let mut all = vec![kernel, self.boot_mappings()];
        all.extend(self.domains.iter().map(|space| self.mappings(space, Owner::Domain)));
        all.extend(self.guests.iter().map(|space| self.mappings(space, Owner::Guest)));
        all
    }

    fn mappings(&self, space: &Space, owner: Owner) -> Vec<Mapping> {
        let mapping = |view: &space::View| Mapping {
            address: view.address,
            physical: self.physical.addresses[view.object] + view.offset,
            size: view.size,
            permissions: view.permissions,
            owner,
            attribute: self.objects.get(view.object).attribute,
        };
        space.views.iter().map(mapping).collect()
    }

    /// Identity: the kernel's code executable, the rest of the image and what is to be zeroed
    /// writable.
    fn boot_mappings(&self) -> Vec<Mapping> {
        let start = self.physical.load_address;
        let code = self.kernel.space.views.iter().find(|view| view.address == KERNEL_BASE).map_or(0, |view| view.size);
        let range = |address: u64, end: u64, permissions| Mapping {
            address,
            physical: address,
            size: end - address,
            permissions,
            owner: Owner::Boot,
            attribute: culm_abi::memory::attribute_index::CACHED,
        };
        vec![
            range(start, start + code, Permissions::ReadExecute),
            range(start + code, self.physical.zeroed.end(), Permissions::ReadWrite),
        ]
    }

    fn encode(&mut self, all: &[Tables]) {
        let mut roots = Vec::new();
        let mut bytes = Vec::new();
        for tables in all {
            let base = self.physical.tables.address + bytes.len() as u64;
            roots.push(base);
            bytes.extend(tables.encode(base));
        }
        bytes.resize(self.physical.tables.size as usize, 0);
        self.table_bytes = bytes;
        let guests = roots.split_off(2 + self.domains.len());
        self.roots = Roots { kernel: roots[0], boot: roots[1], domains: roots.split_off(2), guests };
    }

    /// Physical address of an object.
    pub fn physical(&self, object: ObjectId) -> u64 {
        self.physical.addresses[object]
    }

    /// Bytes from the start of the image to the end of everything it uses next to it.
    pub fn image_size(&self) -> u64 {
        self.physical.zeroed.end() - self.physical.load_address
    }
}
