//! The first bytes of an image: the header of a Linux arm64 image (Linux,
//! Documentation/arch/arm64/booting.rst), by which QEMU and U-Boot's `booti` know where to load it,
//! then the system header.

use crate::layout::Layout;
use crate::layout::kernel_tables::TablePlace;
use crate::layout::objects::ObjectId;
use crate::plan::{Order, Plan};
use culm_abi::memory::IMAGE_OFFSET;
use culm_abi::system::{GicDescription, HEADER_OFFSET, MAGIC, MemoryRange, NONE, SystemHeader, Table};
use zerocopy::IntoBytes;

/// Offset of `text_offset`: where the image stands from the start of memory.
const TEXT_OFFSET: usize = 8;
/// Offset of `image_size`: what the image takes, with the memory behind its file.
const IMAGE_SIZE: usize = 16;
/// Offset of `flags`.
const FLAGS: usize = 24;
/// Offset of the magic number.
const LINUX_MAGIC: usize = 56;

/// Little-endian, 4 KiB pages, at `text_offset` from the start of memory.
const LITTLE_ENDIAN_4K_FIXED: u64 = 0b0010;

/// Fills in both headers. The branch in the image's first word is the kernel's.
pub(super) fn patch(image: &mut [u8], plan: &Plan, layout: &Layout) {
    let mut put = |offset: usize, bytes: &[u8]| image[offset..offset + bytes.len()].copy_from_slice(bytes);
    put(TEXT_OFFSET, &IMAGE_OFFSET.to_le_bytes());
    put(IMAGE_SIZE, &layout.image_size().to_le_bytes());
    put(FLAGS, &LITTLE_ENDIAN_4K_FIXED.to_le_bytes());
    put(LINUX_MAGIC, b"ARM\x64");
    put(HEADER_OFFSET as usize, system_header(plan, layout).as_bytes());
}

fn system_header(plan: &Plan, layout: &Layout) -> SystemHeader {
    let tables = &layout.tables;
    let objects = &layout.objects;
    let at =
        |object: ObjectId, place: &TablePlace| -> Table { place.at(layout.kernel.space.address(object).unwrap_or(0)) };
    let registers = &layout.kernel.registers;
    SystemHeader {
        magic: MAGIC,
        version: culm_abi::VERSION,
        size: size_of::<SystemHeader>() as u32,
        load_address: layout.physical.load_address,
        image_size: layout.physical.file_end - layout.physical.load_address,
        boot_table: layout.roots.boot,
        kernel_table: layout.roots.kernel,
        zero_start: layout.physical.zeroed.address,
        zero_end: layout.physical.zeroed.end(),
        uncached: at(objects.system_tables, &tables.uncached),
        cores: at(objects.system_tables, &tables.cores),
        domains: at(objects.system_tables, &tables.domains),
        ends: at(objects.system_tables, &tables.ends),
        interrupts: at(objects.system_tables, &tables.interrupts),
        local_state: at(objects.state, &tables.local_state),
        shared_state: at(objects.state, &tables.shared_state),
        words: at(objects.state, &tables.words),
        pending_domains: at(objects.state, &tables.pending_domains),
        timer_slots: at(objects.state, &tables.timer_slots),
        core_accounts: at(objects.core_accounts, &tables.core_accounts),
        domain_accounts: at(objects.domain_accounts, &tables.domain_accounts),
        gic: GicDescription {
            version: plan.board.gic.version,
            reserved: 0,
            distributor: registers.distributor,
            interfaces: std::array::from_fn(|index| {
                let range = plan.board.gic.interfaces.get(index).zip(registers.interfaces.get(index));
                range.map_or_else(MemoryRange::default, |(range, &address)| MemoryRange { address, size: range.size })
            }),
        },
        console: registers.console,
        console_driver: console_driver(plan),
        reserved: 0,
    }
}

/// The domain that drives the device on which the kernel prints, if the system has it in use.
fn console_driver(plan: &Plan) -> u32 {
    let is_console = |name: &str| plan.board.console.as_deref() == Some(name);
    plan.devices
        .iter()
        .find(|device| is_console(&device.board.name))
        .map_or(NONE, |device| Order::new(plan).domain(device.driver))
}
