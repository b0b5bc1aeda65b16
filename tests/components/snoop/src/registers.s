// Fill every register from an array, do one thing, store every register into the array: x0-x30,
// NZCV, TPIDR_EL0 at offsets of 8.

    .section .text.snoop, "ax", %progbits

    .macro count_down
1:  sub     x0, x0, #1
    cbnz    x0, 1b
    .endm

// x0: the array. Its address stays on the stack, as no register is free.
    .macro filled name, work:vararg
    .globl \name
    .type \name, %function
\name:
    stp     x29, x30, [sp, #-112]!
    stp     x19, x20, [sp, #16]
    stp     x21, x22, [sp, #32]
    stp     x23, x24, [sp, #48]
    stp     x25, x26, [sp, #64]
    stp     x27, x28, [sp, #80]
    str     x0, [sp, #96]
    ldp     x1, x2, [x0, #248]
    msr     nzcv, x1
    msr     tpidr_el0, x2
    ldp     x1, x2, [x0, #8]
    ldp     x3, x4, [x0, #24]
    ldp     x5, x6, [x0, #40]
    ldp     x7, x8, [x0, #56]
    ldp     x9, x10, [x0, #72]
    ldp     x11, x12, [x0, #88]
    ldp     x13, x14, [x0, #104]
    ldp     x15, x16, [x0, #120]
    ldp     x17, x18, [x0, #136]
    ldp     x19, x20, [x0, #152]
    ldp     x21, x22, [x0, #168]
    ldp     x23, x24, [x0, #184]
    ldp     x25, x26, [x0, #200]
    ldp     x27, x28, [x0, #216]
    ldp     x29, x30, [x0, #232]
    ldr     x0, [x0]
    \work
    stp     x0, x1, [sp, #-16]!
    ldr     x0, [sp, #112]
    stp     x2, x3, [x0, #16]
    stp     x4, x5, [x0, #32]
    stp     x6, x7, [x0, #48]
    stp     x8, x9, [x0, #64]
    stp     x10, x11, [x0, #80]
    stp     x12, x13, [x0, #96]
    stp     x14, x15, [x0, #112]
    stp     x16, x17, [x0, #128]
    stp     x18, x19, [x0, #144]
    stp     x20, x21, [x0, #160]
    stp     x22, x23, [x0, #176]
    stp     x24, x25, [x0, #192]
    stp     x26, x27, [x0, #208]
    stp     x28, x29, [x0, #224]
    str     x30, [x0, #240]
    mrs     x1, nzcv
    mrs     x2, tpidr_el0
    stp     x1, x2, [x0, #248]
    ldp     x1, x2, [sp], #16
    stp     x1, x2, [x0]
    ldp     x19, x20, [sp, #16]
    ldp     x21, x22, [sp, #32]
    ldp     x23, x24, [sp, #48]
    ldp     x25, x26, [sp, #64]
    ldp     x27, x28, [sp, #80]
    ldp     x29, x30, [sp], #112
    ret
    .size \name, . - \name
    .endm

    filled snoop_wait, svc #0
    filled snoop_reply_wait, svc #1
    filled snoop_call, svc #3
    filled snoop_work, count_down
