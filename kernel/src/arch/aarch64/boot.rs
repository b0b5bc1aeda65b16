//! From the boot loader to Rust: the image's header, exception level, address translation, the
//! first stack.
//!
//! The image is entered as the Linux arm64 boot protocol says (Linux
//! `Documentation/arch/arm64/booting.rst`): address translation off, interrupts masked, at EL2 or
//! EL1. Nothing is written before translation and caches are on. Every table was made by the build
//! tool; the code here only loads their addresses.

use core::mem::offset_of;
use culm_abi::memory::{IMAGE_OFFSET, KERNEL_BASE, MAIR};
use culm_abi::system::{AFFINITY, CoreDescription, HEADER_OFFSET, MemoryRange, SystemHeader, Table};

use crate::processor::Processor;

core::arch::global_asm!(
    r#"
    .section .culm.image, "ax"
    .globl culm_image_start
culm_image_start:
    b       primary_start           // code0
    .long   0                       // code1
    .quad   {image_offset}          // text_offset
    .quad   0                       // image_size: filled in by the build tool
    .quad   0b0010                  // flags: little-endian, 4 KiB pages, at text_offset from the start of memory
    .quad   0, 0, 0
    .ascii  "ARM\x64"
    .long   0
    .globl  culm_system_header
culm_system_header:                 // at {header_offset}: filled in by the build tool
    .zero   {header_size}

primary_start:
    mov     x23, #1                 // the processor that boots; which core it is shows later
    b       start

    // PSCI CPU_ON comes here with the core's index in x0.
    .globl  culm_secondary_start
culm_secondary_start:
    mov     x23, #0
    mov     x20, x0

start:
    msr     daifset, #0xf
    adr     x21, culm_system_header
    mrs     x0, CurrentEL
    lsr     x22, x0, #2             // the level of entry
    cmp     x22, #2
    b.ne    at_el1
    mrs     x0, id_aa64dfr0_el1     // MDCR_EL2: no debug or counter access is trapped here, all counters are EL1's
    sbfx    x0, x0, #8, #4          // PMUVer: 0 is none, 15 is one that is not Arm's
    cmp     x0, #1
    mov     x0, xzr
    b.lt    0f
    mrs     x0, pmcr_el0            // N, bits 11-15
    ubfx    x0, x0, #11, #5
0:  msr     mdcr_el2, x0
    mrs     x0, id_aa64pfr0_el1     // GIC, bits 24-27: system-register interface, for EL2 as for EL1
    ubfx    x0, x0, #24, #4
    cbz     x0, 1f
    mrs     x0, S3_4_C12_C9_5       // ICC_SRE_EL2: SRE, Enable
    orr     x0, x0, #1
    orr     x0, x0, #8
    msr     S3_4_C12_C9_5, x0
    isb
1:
    mrs     x0, id_aa64mmfr1_el1    // VH, bits 8-11: Virtualization Host Extensions
    ubfx    x0, x0, #8, #4
    cbz     x0, leave_el2
    mov     x0, #(1 << 31)          // HCR_EL2.RW
    orr     x0, x0, #(1 << 27)      // TGE: EL0 belongs to EL2
    orr     x0, x0, #(1 << 34)      // E2H
    msr     hcr_el2, x0
    isb
    b       translate

leave_el2:                          // no VHE: the kernel lives at EL1, nothing is trapped on its way there
    mov     x0, #(1 << 31)          // HCR_EL2.RW
    msr     hcr_el2, x0
    mov     x0, #3                  // EL1 may use the counter and the timer
    msr     cnthctl_el2, x0
    msr     cntvoff_el2, xzr
    mov     x0, #0x33ff             // CPTR_EL2: RES1 bits, no traps
    msr     cptr_el2, x0
    msr     hstr_el2, xzr
    mrs     x0, midr_el1
    msr     vpidr_el2, x0
    mrs     x0, mpidr_el1
    msr     vmpidr_el2, x0
    movz    x0, #0x0800             // SCTLR_EL1: RES1 bits only
    movk    x0, #0x30d0, lsl #16
    msr     sctlr_el1, x0
    mov     x0, #0x3c5              // EL1h, all masked
    msr     spsr_el2, x0
    adr     x0, translate
    msr     elr_el2, x0
    eret

at_el1:
    cmp     x22, #1
    b.ne    hang                    // EL3: no firmware below us, nothing we could do

translate:
    ldr     x0, [x21, #{load_address}]
    adr     x1, culm_image_start
    cmp     x0, x1
    b.ne    hang                    // every table was made for another address
    ldr     x0, ={mair}
    msr     mair_el1, x0
    // TCR: 39 bits in each half, 4 KiB granule, write-back inner-shareable table walks (Arm ARM
    // D19.2.139).
    ldr     x0, =0x00000000b5193519
    mrs     x1, id_aa64mmfr0_el1
    and     x2, x1, #0xf            // PARange
    cmp     x2, #5
    mov     x3, #5
    csel    x2, x2, x3, lo
    orr     x0, x0, x2, lsl #32     // IPS
    ubfx    x2, x1, #4, #4          // ASIDBits
    cmp     x2, #2
    cset    x2, eq
    orr     x0, x0, x2, lsl #36     // AS: 16-bit ASIDs
    mrs     x1, id_aa64mmfr2_el1    // E0PD, bits 60-63: then EL0's accesses to the kernel's half fault, mapped or not, in
    ubfx    x2, x1, #60, #4         // the same time (Arm ARM D8.4.1.2.4), so that it learns nothing by timing them
    cmp     x2, #0
    cset    x2, ne
    orr     x0, x0, x2, lsl #56     // E0PD1
    msr     tcr_el1, x0
    ldr     x0, [x21, #{boot_table}]
    msr     ttbr0_el1, x0
    ldr     x0, [x21, #{kernel_table}]
    msr     ttbr1_el1, x0
    tlbi    vmalle1
    ic      iallu
    dsb     nsh
    isb
    // SCTLR: RES1 bits; UCI, UCT, DZE: EL0 may maintain caches; WXN: nothing writable is
    // executable; SA, SA0: the stack pointer is aligned; I, C, M. nTWE is set, nTWI is not: WFI at
    // EL0 is a fault.
    ldr     x0, =0x34dcd81d
    mrs     x1, id_aa64mmfr1_el1    // PAN, bits 20-23: then the kernel cannot reach user memory even by mistake
    ubfx    x1, x1, #20, #4
    cbz     x1, 2f
    bic     x0, x0, #(1 << 23)      // SPAN: set PSTATE.PAN at every entry
    .inst   0xd500419f              // msr pan, #1
2:  msr     sctlr_el1, x0
    isb
    ldr     x0, =high
    br      x0

high:                               // in the kernel's half; the identity map still serves for zeroing and cleaning
    msr     cpacr_el1, xzr          // floating point and vectors trap
    mov     x0, #2                  // EL0VCTEN: EL0 may read the counter
    msr     cntkctl_el1, x0
    // Close everything else that EL0 could reach, and by which domains could communicate: the
    // debugger's channel, performance and activity counters, the read-only thread register. Their
    // controls are UNKNOWN after reset (Arm ARM D19.3, D19.5, D19.6).
    mov     x0, #(1 << 12)          // MDSCR_EL1.TDCC: the debug communications channel traps
    msr     mdscr_el1, x0
    mrs     x0, id_aa64dfr0_el1     // PMUVer
    sbfx    x0, x0, #8, #4
    cmp     x0, #1
    b.lt    1f
    msr     pmuserenr_el0, xzr
1:  mrs     x0, id_aa64pfr0_el1     // AMU, bits 44-47
    ubfx    x0, x0, #44, #4
    cbz     x0, 2f
    msr     S3_3_C13_C2_3, xzr      // AMUSERENR_EL0
2:  msr     tpidrro_el0, xzr
    ldr     x0, =culm_vectors
    msr     vbar_el1, x0
    ldr     x21, =culm_system_header
    cbz     x23, alone

    ldp     x0, x1, [x21, #{zero_start}]
    mrs     x2, dczid_el0
    cmp     x2, #4                  // 64-byte blocks, allowed
    b.ne    4f
3:  cmp     x0, x1
    b.hs    clean
    dc      zva, x0
    add     x2, x0, #64
    dc      zva, x2
    add     x2, x0, #128
    dc      zva, x2
    add     x2, x0, #192
    dc      zva, x2
    add     x0, x0, #256
    b       3b
4:  cmp     x0, x1
    b.hs    clean
    stp     xzr, xzr, [x0], #16
    b       4b

    // Clean the zeros of memory that is used uncached from the caches now. Otherwise a line that is
    // still dirty could later be written back over what a device or a domain has put there (Arm ARM
    // B2.8, mismatched attributes).
clean:
    ldr     x0, [x21, #{uncached}]
    ldr     w1, [x21, #{uncached_count}]
    mrs     x2, ctr_el0
    ubfx    x2, x2, #16, #4         // DminLine: words in the smallest line, as a power of two
    mov     x3, #4
    lsl     x3, x3, x2
5:  cbz     w1, 7f
    ldp     x4, x5, [x0], #16       // physical address and size, which is not zero
    add     x5, x4, x5
6:  dc      civac, x4
    add     x4, x4, x3
    cmp     x4, x5
    b.lo    6b
    sub     w1, w1, #1
    b       5b
7:  dsb     sy

    // Find the index of the core that boots: no rule says that it is the description's first.
    mrs     x0, mpidr_el1
    ldr     x1, ={affinity}
    and     x0, x0, x1
    ldr     x1, [x21, #{cores}]
    ldr     w2, [x21, #{core_count}]
    mov     x20, #0
8:  ldr     x3, [x1], #{core_size}
    cmp     x3, x0
    b.eq    alone
    add     x20, x20, #1
    cmp     x20, x2
    b.lo    8b                      // none of them: culm_main says so

    // The identity map is no longer needed. No TLB entry of it may remain, and no cached alias of
    // uncached memory may exist: until this core's first domain runs, the lower half maps nothing
    // (Arm ARM D8.16, TLB maintenance).
alone:
    ldr     x0, =culm_no_table - {kernel_base}
    ldr     x1, [x21, #{load_address}]
    add     x0, x0, x1
    msr     ttbr0_el1, x0
    isb
    tlbi    vmalle1
    dsb     nsh
    isb

    ldr     x0, [x21, #{cores}]
    ldr     w2, [x21, #{core_count}]
    cmp     x20, x2
    csel    x2, x20, xzr, lo
    mov     x1, #{core_size}
    madd    x0, x2, x1, x0
    ldr     x0, [x0, #{stack_top}]
    sub     x1, x0, #{processor}    // above the stack: the core's state
    mov     sp, x1
    mov     x29, xzr
    mov     x30, xzr
    mov     x0, x20
    mov     x2, x22
    mov     x3, x23
    bl      culm_main

hang:
    wfe
    b       hang
    .ltorg

    .section .rodata.culm_no_table, "a"
    .balign 4096
    .globl culm_no_table
culm_no_table:                      // a translation table in which nothing is mapped
    .zero   4096
    "#,
    image_offset = const IMAGE_OFFSET,
    header_offset = const HEADER_OFFSET,
    header_size = const size_of::<SystemHeader>(),
    load_address = const offset_of!(SystemHeader, load_address),
    boot_table = const offset_of!(SystemHeader, boot_table),
    kernel_table = const offset_of!(SystemHeader, kernel_table),
    zero_start = const offset_of!(SystemHeader, zero_start),
    uncached = const offset_of!(SystemHeader, uncached) + offset_of!(Table, address),
    uncached_count = const offset_of!(SystemHeader, uncached) + offset_of!(Table, count),
    cores = const offset_of!(SystemHeader, cores) + offset_of!(Table, address),
    core_count = const offset_of!(SystemHeader, cores) + offset_of!(Table, count),
    affinity = const AFFINITY,
    kernel_base = const KERNEL_BASE,
    core_size = const size_of::<CoreDescription>(),
    stack_top = const offset_of!(CoreDescription, stack_top),
    processor = const size_of::<Processor>(),
    mair = const MAIR,
);

const _: () = {
    assert!(offset_of!(CoreDescription, mpidr) == 0);
    assert!(size_of::<MemoryRange>() == 16 && offset_of!(MemoryRange, size) == 8);
};

unsafe extern "C" {
    static culm_no_table: [u64; 512];
    static culm_system_header: SystemHeader;
    fn culm_secondary_start();
}

/// Returns the system header that the build tool put into this image.
pub fn system_header() -> &'static SystemHeader {
    // SAFETY: [K1] the symbol names a read-only part of the image of exactly this type, made of
    // integers only.
    unsafe { &*core::hint::black_box(&raw const culm_system_header) }
}

/// Returns the physical address at which a secondary core starts.
pub fn secondary_start() -> u64 {
    culm_secondary_start as *const () as u64 - KERNEL_BASE + system_header().load_address
}

/// Returns the physical address of a translation table in which nothing is mapped.
pub fn no_table() -> u64 {
    (&raw const culm_no_table) as u64 - KERNEL_BASE + system_header().load_address
}
