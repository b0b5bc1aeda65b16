// The beginning of a guest's Image, its vectors, and jumps to code of which nothing is known.
//
// Whatever exception a CPU takes, it goes on from a state that is known: with its registers set
// anew and an empty stack. So nothing need be saved, and nothing that a guest did to its own
// processor stays in the way, as long as the vectors are found.

    .section .guest.image, "ax"
    .globl  guest_image
guest_image:                        // Linux, Documentation/arch/arm64/booting.rst
    b       start
    .long   0
    .quad   0                       // from the beginning of memory
    .quad   guest_end - guest_image
    .quad   0b1010                  // little endian, pages of 4 KiB, anywhere
    .quad   0, 0, 0
    .ascii  "ARM\x64"
    .long   0

start:                              // x0: the device tree
    ldr     x1, =guest_zeroed
    ldr     x2, =guest_zeroed_end
1:  cmp     x1, x2
    b.hs    guest_begin
    stp     xzr, xzr, [x1], #16
    b       1b

    // Another CPU begins here. x0: what the one that switched it on has given.
    .globl  guest_begin
guest_begin:
    mov     x20, x0
    bl      guest_sane
    mov     x1, x20
    b       guest_main

    // Sets what the guest's own code needs; x0: the CPU's number.
guest_sane:
    msr     daifset, #15
    msr     spsel, #1
    ldr     x1, =guest_vectors
    msr     vbar_el1, x1
    ldr     x1, =0x30d00800         // SCTLR_EL1: off
    msr     sctlr_el1, x1
    isb
    ldr     x1, =guest_table
    msr     ttbr0_el1, x1
    ldr     x1, =0xff04             // MAIR_EL1: device, normal
    msr     mair_el1, x1
    ldr     x1, =0x100803519        // TCR_EL1: 39 bits by TTBR0 alone, 36 physical ones
    msr     tcr_el1, x1
    mov     x1, #(3 << 20)          // CPACR_EL1: vectors do not trap
    msr     cpacr_el1, x1
    isb
    tlbi    vmalle1
    dsb     nsh
    isb
    ldr     x1, =0x30d01805         // SCTLR_EL1: translation and caches on
    msr     sctlr_el1, x1
    isb
    mrs     x0, mpidr_el1
    and     x0, x0, #3
    ldr     x1, =guest_stacks + 0x4000
    add     x1, x1, x0, lsl #14
    mov     sp, x1
    ret

    // x0: where to, at this level; x1: a random number, of which the other registers are made.
    .globl  guest_leap
guest_leap:
    bl      scramble
    br      x30

    // x0: where to; x1: a random number; x2: PSTATE there.
    .globl  guest_drop
guest_drop:
    msr     elr_el1, x0
    msr     spsr_el1, x2
    bl      scramble
    eret

scramble:                           // x30 becomes where to, then the way back is in x29
    mov     x29, x30
    mov     x30, x0
    and     x2, x1, #0x3ffff8
    ldr     x3, =0x40200000
    add     x2, x2, x3              // in the memory that is played with
    ubfx    x4, x1, #20, #14
    bic     x4, x4, #7
    ldr     x3, =0x0a000000
    add     x4, x4, x3              // in a virtio device, or just behind
    mov     x3, x1
    add     x5, x2, #8
    eor     x6, x1, x2
    lsr     x7, x1, #32
    add     x8, x2, #64
    mov     x9, #0
    mvn     x10, xzr
    add     x11, x2, #0x1000
    ror     x12, x1, #13
    mov     x13, x2
    ror     x14, x1, #29
    mov     x15, x2
    mov     x16, x1
    mov     x17, x2
    mov     x18, #1
    mov     x19, x2
    mov     x20, x1
    mov     x21, x2
    mov     x22, x5
    mov     x23, x8
    mov     x24, x12
    mov     x25, x14
    mov     x26, x2
    mov     x27, x1
    mov     x28, x2
    mov     x0, x2
    ret     x29

    .macro  vector number
    .balign 0x80
    mov     x18, #\number
    b       recover
    .endm

    .balign 0x800
guest_vectors:
    vector 0
    vector 1
    vector 2
    vector 3
    vector 4
    vector 5
    vector 6
    vector 7
    vector 8
    vector 9
    vector 10
    vector 11
    vector 12
    vector 13
    vector 14
    vector 15

recover:
    mrs     x20, esr_el1
    mrs     x21, elr_el1
    bl      guest_sane
    mov     x1, x18
    mov     x2, x20
    mov     x3, x21
    b       guest_recovers
    .ltorg

    // All that there is, by blocks of 1 GiB: devices, memory, and memory again for EL0.
    .data
    .balign 4096
guest_table:
    .quad   0x401
    .quad   0x40000705
    .quad   0x40000745
    .fill   509, 8, 0
