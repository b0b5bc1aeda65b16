// Loops of `./culm bench cpu` and `./culm bench mem`, the same instructions on Culm and on Linux.
// None touches the stack or a register that a function has to keep (AAPCS64 6.1.1).

    .section .text.culm_loops, "ax", %progbits

// Four instructions, one of them a branch, x0 times. The loop begins where the function does: at an
// odd multiple of its alignment, so that it is aligned to no more.
    .macro spin alignment
    .balign 512
    .space  \alignment
    .globl  culm_spin_\alignment
    .type   culm_spin_\alignment, %function
culm_spin_\alignment:
    add     x1, x1, #1
    eor     x2, x2, x1
    subs    x0, x0, #1
    b.ne    culm_spin_\alignment
    ret
    .endm

    spin 4
    spin 8
    spin 16
    spin 32
    spin 64
    spin 128
    spin 256

// The same across the end of a page of 4 KiB.
    .balign 4096
    .space  4096 - 8
    .globl  culm_spin_pages
    .type   culm_spin_pages, %function
culm_spin_pages:
    add     x1, x1, #1
    eor     x2, x2, x1
    subs    x0, x0, #1
    b.ne    culm_spin_pages
    ret

// x0 memory, x1 bytes, a multiple of 64 and not zero.
    .balign 64
    .globl  culm_read
    .type   culm_read, %function
culm_read:
    ldp     x2, x3, [x0], #64
    ldp     x4, x5, [x0, #-48]
    ldp     x6, x7, [x0, #-32]
    ldp     x8, x9, [x0, #-16]
    subs    x1, x1, #64
    b.ne    culm_read
    ret

// As above.
    .balign 64
    .globl  culm_write
    .type   culm_write, %function
culm_write:
    stp     xzr, xzr, [x0], #64
    stp     xzr, xzr, [x0, #-48]
    stp     xzr, xzr, [x0, #-32]
    stp     xzr, xzr, [x0, #-16]
    subs    x1, x1, #64
    b.ne    culm_write
    ret

// x0 destination, x1 source, x2 bytes, as above.
    .balign 64
    .globl  culm_copy_pairs
    .type   culm_copy_pairs, %function
culm_copy_pairs:
    ldp     x4, x5, [x1], #64
    ldp     x6, x7, [x1, #-48]
    ldp     x8, x9, [x1, #-32]
    ldp     x10, x11, [x1, #-16]
    stp     x4, x5, [x0], #64
    stp     x6, x7, [x0, #-48]
    stp     x8, x9, [x0, #-32]
    stp     x10, x11, [x0, #-16]
    subs    x2, x2, #64
    b.ne    culm_copy_pairs
    ret

// x0 destination, x1 source, x2 bytes, not zero: one byte at a time.
    .balign 64
    .globl  culm_copy_bytes
    .type   culm_copy_bytes, %function
culm_copy_bytes:
    ldrb    w4, [x1], #1
    strb    w4, [x0], #1
    subs    x2, x2, #1
    b.ne    culm_copy_bytes
    ret
