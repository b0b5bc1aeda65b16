// Fill every vector register, FPCR and FPSR from memory, do one thing, store them there: V0-V31 at
// offsets of 16, FPCR at 512, FPSR at 520.

    .section .text.vectors, "ax", %progbits

    .macro each operation
    .irp    number, 0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16, 17, 18, 19, 20, 21, 22, 23, 24, 25, 26, 27, 28, 29, 30, 31
    \operation q\number, [x11, #(16 * \number)]
    .endr
    .endm

    .macro count_down
1:  sub     x8, x8, #1
    cbnz    x8, 1b
    .endm

// x0: the memory; x1 and x2: what x8 and x9 are to hold. A system call keeps x19-x29. x0-x7 are the
// message that `snoop` expects of a caller.
    .macro filled name, work:vararg
    .globl \name
    .type \name, %function
\name:
    stp     x29, x30, [sp, #-96]!
    str     x19, [sp, #16]
    stp     d8, d9, [sp, #32]
    stp     d10, d11, [sp, #48]
    stp     d12, d13, [sp, #64]
    stp     d14, d15, [sp, #80]
    mov     x19, x0
    mov     x11, x0
    each    ldr
    ldr     x12, [x0, #512]
    ldr     x13, [x0, #520]
    msr     fpcr, x12
    msr     fpsr, x13
    mov     x8, x1
    mov     x9, x2
    mov     x10, xzr
    mov     x0, #(1 << 32)
    movk    x0, #0x5eed, lsl #48
    .irp    number, 1, 2, 3, 4, 5, 6, 7
    add     x\number, x0, #\number
    .endr
    \work
    mov     x11, x19
    each    str
    mrs     x12, fpcr
    mrs     x13, fpsr
    str     x12, [x19, #512]
    str     x13, [x19, #520]
    mov     x0, x8
    ldr     x19, [sp, #16]
    ldp     d8, d9, [sp, #32]
    ldp     d10, d11, [sp, #48]
    ldp     d12, d13, [sp, #64]
    ldp     d14, d15, [sp, #80]
    ldp     x29, x30, [sp], #96
    ret
    .size \name, . - \name
    .endm

    filled vectors_wait, svc #0
    filled vectors_reply_wait, svc #1
    filled vectors_signal, svc #2
    filled vectors_call, svc #3
    filled vectors_work, count_down

    .globl vectors_control
    .type vectors_control, %function
vectors_control:
    mrs     x0, fpcr
    ret
    .size vectors_control, . - vectors_control
