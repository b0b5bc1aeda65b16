//! Address-space layout and memory kinds.
//!
//! A protection domain sees 39 bits of virtual address through `TTBR0` (Arm ARM D8.2, 4 KiB granule, three
//! levels); the kernel lives in the top 39 bits through `TTBR1`.

/// Bytes in a page, the granule of all mappings.
pub const PAGE_SIZE: u64 = 4096;

/// Bits of virtual address in each half (`TCR_ELx.T0SZ` = `T1SZ` = 64 − this).
pub const ADDRESS_BITS: u32 = 39;

/// Lowest address of the kernel's half. The kernel's ELF file is linked here.
pub const KERNEL_BASE: u64 = 0xffff_ff80_0000_0000;

/// Kernel tables (system header's tables, per-domain state, accounting) are mapped from here.
pub const KERNEL_TABLES: u64 = 0xffff_ff80_2000_0000;

/// Kernel stacks, one per core with an unmapped page below each, are mapped from here.
pub const KERNEL_STACKS: u64 = 0xffff_ff80_4000_0000;

/// Bytes of one core's kernel stack.
pub const KERNEL_STACK_SIZE: u64 = 16 * 1024;

/// Devices that the kernel itself drives (interrupt controller, boot console) are mapped from here.
pub const KERNEL_DEVICES: u64 = 0xffff_ff80_6000_0000;

/// Where a component's ELF file is linked. Everything below stays unmapped, page zero included.
pub const PROGRAM_BASE: u64 = 0x20_0000;

/// The stack grows down to here; the page below is unmapped. Its top is `STACK_BASE` + the declared size.
pub const STACK_BASE: u64 = 0x1000_0000;

/// The start block ([`crate::start`]) is mapped here, read-only.
pub const START_BASE: u64 = 0x2000_0000;

/// The heap, where a component declares one, is mapped from here.
pub const HEAP_BASE: u64 = 0x3000_0000;

/// Regions and devices are mapped from here upwards, an unmapped page between any two.
pub const REGION_BASE: u64 = 0x4000_0000;

/// Offset of the image from the start of memory (the `text_offset` of its Linux arm64 header), so that both
/// QEMU and U-Boot's `booti` put it at the same, known physical address.
pub const IMAGE_OFFSET: u64 = 0x20_0000;

/// Indices into `MAIR_ELx`, as page-table entries hold them in `AttrIndx`.
pub mod attribute_index {
    /// Device-nGnRE: device registers.
    pub const DEVICE: u64 = 0;
    /// Normal memory, write-back cacheable.
    pub const CACHED: u64 = 1;
    /// Normal memory, not cacheable: DMA memory on boards without coherent DMA.
    pub const UNCACHED: u64 = 2;
}

/// The value of `MAIR_ELx` that gives [`attribute_index`] its meaning (Arm ARM D19.2.100).
pub const MAIR: u64 = 0x00_44_ff_04;
