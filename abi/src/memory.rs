//! Address-space layout and memory kinds.
//!
//! A protection domain sees 39 bits of virtual address through `TTBR0` (Arm ARM D8.2, 4 KiB
//! granule, three levels); the kernel lives in the top 39 bits through `TTBR1`.

/// Bytes in a page, the granule of all mappings.
pub const PAGE_SIZE: u64 = 4096;

/// Bits of virtual address in each half (`TCR_ELx.T0SZ` = `T1SZ` = 64 − this).
pub const ADDRESS_BITS: u32 = 39;

/// Lowest address of the kernel's half. The kernel's ELF file is linked here.
pub const KERNEL_BASE: u64 = 0xffff_ff80_0000_0000;

/// Kernel tables (system header's tables, per-domain state, accounting) are mapped from here.
pub const KERNEL_TABLES: u64 = 0xffff_ff80_2000_0000;

/// Kernel stacks are mapped from here, at [`kernel_stack`].
pub const KERNEL_STACKS: u64 = 0xffff_ff80_4000_0000;

/// Bytes of one core's kernel stack. What takes most is booting without optimisation, where large
/// values are copied.
pub const KERNEL_STACK_SIZE: u64 = 32 * 1024;

/// Where the kernel stack of `core` begins. The page below it is unmapped.
pub const fn kernel_stack(core: u64) -> u64 {
    KERNEL_STACKS + core * (KERNEL_STACK_SIZE + PAGE_SIZE) + PAGE_SIZE
}

/// The core on whose kernel stack there was no place for what is at `address`: it lies in the page
/// below.
pub const fn overflown_kernel_stack(address: u64) -> Option<u64> {
    if address < KERNEL_STACKS || address >= KERNEL_DEVICES {
        return None;
    }
    let offset = address - KERNEL_STACKS;
    let each = KERNEL_STACK_SIZE + PAGE_SIZE;
    if offset % each < PAGE_SIZE { Some(offset / each) } else { None }
}

/// Devices that the kernel itself drives (interrupt controller, boot console) are mapped from here.
pub const KERNEL_DEVICES: u64 = 0xffff_ff80_6000_0000;

/// Where a component's ELF file is linked. Everything below stays unmapped, page zero included.
pub const PROGRAM_BASE: u64 = 0x20_0000;

/// The stack grows down to here; the page below is unmapped. Its top is `STACK_BASE` + the declared
/// size.
pub const STACK_BASE: u64 = 0x1000_0000;

/// The start block ([`crate::start`]) is mapped here, read-only.
pub const START_BASE: u64 = 0x2000_0000;

/// The heap, where a component declares one, is mapped from here.
pub const HEAP_BASE: u64 = 0x3000_0000;

/// Regions and devices are mapped from here upwards, an unmapped page between any two.
pub const REGION_BASE: u64 = 0x4000_0000;

/// Offset of the image from the start of memory (the `text_offset` of its Linux arm64 header), so
/// that both QEMU and U-Boot's `booti` put it at the same, known physical address.
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_overflow_of_a_kernel_stack_is_told_from_everything_else() {
        for core in [0, 1, 63] {
            let bottom = kernel_stack(core);
            assert_eq!(overflown_kernel_stack(bottom - 8), Some(core));
            assert_eq!(overflown_kernel_stack(bottom - PAGE_SIZE), Some(core));
            assert_eq!(overflown_kernel_stack(bottom), None);
            assert_eq!(overflown_kernel_stack(bottom + KERNEL_STACK_SIZE - 8), None);
        }
        for elsewhere in [0, KERNEL_BASE, KERNEL_STACKS - 8, KERNEL_DEVICES, u64::MAX] {
            assert_eq!(overflown_kernel_stack(elsewhere), None);
        }
    }
}
