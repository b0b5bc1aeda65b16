//! The kernel's half of the address space: its program, its stacks, the devices that it drives, and
//! where its tables (`kernel_tables.rs`) are seen.

use super::objects::{KERNEL, Objects};
use super::program::pages;
use super::space::{Space, View};
use super::translation::Permissions;
use crate::build::elf::Program;
use crate::failure::Failure;
use crate::plan::{PhysicalRange, Plan};
use culm_abi::memory::{KERNEL_BASE, KERNEL_DEVICES, KERNEL_TABLES, PAGE_SIZE, attribute_index, kernel_stack};

/// Where the kernel finds its devices.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct KernelDevices {
    /// The interrupt controller's distributor.
    pub distributor: u64,
    /// Its CPU interface or ranges of redistributors.
    pub interfaces: Vec<u64>,
    /// The boot console, 0 for none.
    pub console: u64,
}

/// The kernel's space.
#[derive(Clone, Debug)]
pub struct KernelSpace {
    /// Its views of objects.
    pub space: Space,
    /// Its views of devices: virtual address, pages, memory type.
    pub devices: Vec<(u64, PhysicalRange)>,
    /// Where the devices' registers are within.
    pub registers: KernelDevices,
}

/// Checks that the kernel's program can be put into pages as it is linked, and returns its size in
/// whole pages.
pub fn kernel_size(kernel: &Program) -> Result<u64, Failure> {
    let wrong = |what: &str| {
        Failure::new(format!("the kernel's program {what}"))
            .detail(kernel.path.display().to_string())
            .help("it must be linked with the linker script of the kernel, kernel/link.ld")
    };
    let mut end = KERNEL_BASE;
    for segment in &kernel.segments {
        if !segment.address.is_multiple_of(PAGE_SIZE) || segment.address != segment.load_address {
            return Err(wrong("has a segment that does not start with a page"));
        }
        if segment.address < end {
            return Err(wrong("has segments that overlap"));
        }
        end = segment.address + pages(segment.size);
    }
    let first = kernel.segments.first().ok_or_else(|| wrong("is empty"))?;
    if first.address != KERNEL_BASE || !first.execute {
        return Err(wrong("does not begin with its header and code"));
    }
    if end > KERNEL_TABLES {
        return Err(wrong("is larger than the addresses set aside for it"));
    }
    Ok(end - KERNEL_BASE)
}

/// Lays out the kernel's half.
pub fn kernel_space(plan: &Plan, kernel: &Program, objects: &Objects) -> KernelSpace {
    let mut space = Space::new(KERNEL_TABLES);
    for segment in &kernel.segments {
        let permissions = match (segment.execute, segment.write) {
            (true, _) => Permissions::ReadExecute,
            (_, true) => Permissions::ReadWrite,
            _ => Permissions::Read,
        };
        space.views.push(View {
            object: KERNEL,
            offset: segment.address - KERNEL_BASE,
            address: segment.address,
            size: pages(segment.size),
            permissions,
        });
    }
    space.allocate(objects, objects.system_tables, Permissions::Read);
    for object in [objects.state, objects.core_accounts, objects.domain_accounts] {
        space.allocate(objects, object, Permissions::ReadWrite);
    }
    for cpu in plan.virtual_cpus() {
        space.allocate(objects, objects.regions[cpu.page], Permissions::ReadWrite);
    }
    for (core, &stack) in objects.kernel_stacks.iter().enumerate() {
        space.place(objects, stack, kernel_stack(core as u64), Permissions::ReadWrite);
    }
    let (devices, registers) = kernel_devices(plan);
    KernelSpace { space, devices, registers }
}

/// Memory type of the kernel's devices.
pub const DEVICE_ATTRIBUTE: u64 = attribute_index::DEVICE;

fn kernel_devices(plan: &Plan) -> (Vec<(u64, PhysicalRange)>, KernelDevices) {
    let mut devices = Vec::new();
    let mut space = Space::new(KERNEL_DEVICES);
    let mut map = |range: PhysicalRange| {
        let pages = range.pages();
        let address = space.reserve(pages.size, Some(pages.address));
        devices.push((address, pages));
        address + (range.address - pages.address)
    };
    let gic = &plan.board.gic;
    let distributor = map(gic.distributor);
    let interfaces = gic.interfaces.iter().map(|&range| map(range)).collect();
    let console = plan.board.console.as_ref().and_then(|name| plan.board.device(name));
    let console = console.map_or(0, |device| map(device.registers));
    (devices, KernelDevices { distributor, interfaces, console })
}
