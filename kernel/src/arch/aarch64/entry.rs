//! Entering and leaving the kernel.
//!
//! While a domain runs, `SP_EL1` points at its [`Registers`] (which stand first in its `Domain`) and `TPIDR_EL1` at the
//! core's [`crate::processor::Processor`], whose first word is the top of the kernel stack. There is one kernel stack
//! per core, empty between entries: the kernel never sleeps inside.
//!
//! A system call keeps `x19`–`x29`, stack pointer and program counter: its stub declares everything else clobbered.
//! `x19`–`x28` go to memory only where another domain takes the core. An interrupt or fault saves all. On the way back
//! every register that carries no result is cleared. So is `TPIDR_EL0` at each switch: a domain can write it without the
//! kernel's help (Arm ARM D19.2.147), and would leave a message there for the next.

use super::registers::{Registers, resume};
use core::mem::offset_of;
use culm_abi::syscall;
use culm_kernel_core::Domain;

core::arch::global_asm!(
    r#"
    .macro save_all
    stp     x0, x1, [sp, #0]
    stp     x2, x3, [sp, #16]
    stp     x4, x5, [sp, #32]
    stp     x6, x7, [sp, #48]
    stp     x8, x9, [sp, #64]
    stp     x10, x11, [sp, #80]
    stp     x12, x13, [sp, #96]
    stp     x14, x15, [sp, #112]
    stp     x18, x19, [sp, #144]
    stp     x20, x21, [sp, #160]
    stp     x22, x23, [sp, #176]
    stp     x24, x25, [sp, #192]
    stp     x26, x27, [sp, #208]
    stp     x28, x29, [sp, #224]
    mrs     x1, sp_el0
    mrs     x2, elr_el1
    mrs     x3, spsr_el1
    mov     x4, #{all}
    stp     x30, x1, [sp, #240]
    stp     x2, x3, [sp, #{pc}]
    str     x4, [sp, #{resume}]
    mrs     x0, tpidr_el1
    ldr     x4, [x0]
    mov     sp, x4
    .endm

    .macro vector name
    .balign 0x80
    b       \name
    .endm

    .text
    .balign 0x800
    .globl culm_vectors
culm_vectors:
    vector  kernel_fault            // this level, SP_EL0
    vector  kernel_fault
    vector  kernel_fault
    vector  kernel_fault
    vector  kernel_fault            // this level: the kernel itself
    vector  kernel_fault
    vector  kernel_fault
    vector  kernel_fault

    .balign 0x80                    // EL0, synchronous
    stp     x16, x17, [sp, #128]
    mrs     x16, esr_el1
    lsr     x17, x16, #26           // EC 0x15: SVC from AArch64
    cmp     x17, #0x15
    b.ne    user_fault
    mrs     x17, sp_el0
    mrs     x18, elr_el1
    str     x29, [sp, #232]
    stp     x17, x18, [sp, #{sp}]
    mov     x11, sp
    mrs     x14, tpidr_el1
    ldr     x13, [x14]
    mov     sp, x13
    str     x11, [sp, #-16]!        // whose system call this is, for the way back
    ands    w13, w16, #0xffff
    b.eq    call_wait
    cmp     w13, #{SIGNAL}
    b.eq    call_signal
    b.lo    call_reply_wait
    cmp     w13, #{CALL}
    b.eq    call_call
    b       call_other

    .balign 0x80                    // EL0, interrupt
    stp     x16, x17, [sp, #128]
    b       user_interrupt
    .balign 0x80
    b       kernel_fault            // FIQ: not used
    .balign 0x80                    // SError: no domain can be blamed for sure
    b       kernel_fault
    vector  kernel_fault            // AArch32: never entered
    vector  kernel_fault
    vector  kernel_fault
    vector  kernel_fault

call_wait:
    mov     x0, x14
    mov     x1, x8
    mov     x2, x9
    mov     x3, x10
    bl      culm_wait
    b       leave_call

call_signal:
    mov     x0, x14
    mov     x1, x8
    mov     x2, x10
    bl      culm_signal
    cbnz    x0, leave_call
    ldr     x0, [sp]                // nothing to switch and no result
    mov     sp, x0
    mov     x8, xzr
    mov     x9, xzr
    b       clear

call_reply_wait:
    cbz     w10, 1f                 // a reply of no words
    stp     x0, x1, [x11, #0]
    stp     x2, x3, [x11, #16]
    stp     x4, x5, [x11, #32]
    stp     x6, x7, [x11, #48]
1:  mov     x0, x14
    mov     x1, x8
    mov     x2, x9
    mov     x3, x10
    bl      culm_reply_wait
    b       leave_call

call_call:
    lsr     x13, x8, #32
    cbz     x13, 1f                 // a message of no words
    stp     x0, x1, [x11, #0]
    stp     x2, x3, [x11, #16]
    stp     x4, x5, [x11, #32]
    stp     x6, x7, [x11, #48]
1:  mov     x0, x14
    mov     x1, x8
    bl      culm_call
    b       leave_call

call_other:
    mov     x2, x0
    mov     x0, x14
    mov     x1, x13
    bl      culm_other_call
    b       leave_call

user_interrupt:
    save_all
    bl      culm_interrupt
    b       culm_resume

user_fault:
    save_all
    mov     x1, x16                 // syndrome
    mrs     x2, far_el1
    bl      culm_fault
    b       culm_resume

    // After a system call. x0: the domain that runs next. Its caller's x19-x28 are what they were, since Rust functions
    // keep them; they are saved only now that it turns out whether another domain takes the core.
leave_call:
    ldr     x1, [sp]
    mov     sp, x0
    ldr     x10, [x0, #{resume}]
    cmp     x0, x1
    b.ne    1f
    cmp     x10, #{message}
    b.lo    3f
    b.eq    4f
1:  stp     x19, x20, [x1, #152]
    stp     x21, x22, [x1, #168]
    stp     x23, x24, [x1, #184]
    stp     x25, x26, [x1, #200]
    stp     x27, x28, [x1, #216]
    b       2f

    // x0: the domain that runs next; nothing of what ran before is left to save.
    .globl culm_resume
culm_resume:
    mov     sp, x0
    ldr     x10, [x0, #{resume}]
2:  cmp     x10, #{message}
    b.hs    5f
    ldr     x11, [x0, #{table}]
    ldp     x12, x13, [x0, #{sp}]
    msr     ttbr0_el1, x11
    msr     tpidr_el0, xzr
    msr     sp_el0, x12
    msr     elr_el1, x13
    msr     spsr_el1, xzr
    ldp     x19, x20, [x0, #152]
    ldp     x21, x22, [x0, #168]
    ldp     x23, x24, [x0, #184]
    ldp     x25, x26, [x0, #200]
    ldp     x27, x28, [x0, #216]
    ldr     x29, [x0, #232]
3:  ldp     x8, x9, [x0, #64]
clear:
    mov     x0, xzr
    mov     x1, xzr
    mov     x2, xzr
    mov     x3, xzr
    mov     x4, xzr
    mov     x5, xzr
    mov     x6, xzr
    mov     x7, xzr
    b       clear_and_leave

5:  ldr     x11, [x0, #{table}]
    ldp     x12, x13, [x0, #{sp}]
    msr     ttbr0_el1, x11
    msr     tpidr_el0, xzr
    msr     sp_el0, x12
    msr     elr_el1, x13
    ldp     x19, x20, [x0, #152]
    ldp     x21, x22, [x0, #168]
    ldp     x23, x24, [x0, #184]
    ldp     x25, x26, [x0, #200]
    ldp     x27, x28, [x0, #216]
    ldr     x29, [x0, #232]
    b.hi    6f
    msr     spsr_el1, xzr
4:  ldp     x2, x3, [x0, #16]
    ldp     x4, x5, [x0, #32]
    ldp     x6, x7, [x0, #48]
    ldp     x8, x9, [x0, #64]
    ldp     x0, x1, [x0, #0]
clear_and_leave:
    mov     x10, xzr
    mov     x11, xzr
    mov     x12, xzr
    mov     x13, xzr
    mov     x14, xzr
    mov     x15, xzr
    mov     x16, xzr
    mov     x17, xzr
    mov     x18, xzr
    mov     x30, xzr
    eret

6:  ldr     x11, [x0, #{pstate}]
    msr     spsr_el1, x11
    ldp     x2, x3, [x0, #16]
    ldp     x4, x5, [x0, #32]
    ldp     x6, x7, [x0, #48]
    ldp     x8, x9, [x0, #64]
    ldp     x10, x11, [x0, #80]
    ldp     x12, x13, [x0, #96]
    ldp     x14, x15, [x0, #112]
    ldp     x16, x17, [x0, #128]
    ldr     x18, [x0, #144]
    ldr     x30, [x0, #240]
    ldp     x0, x1, [x0, #0]
    eret

kernel_fault:                       // a defect of the kernel: what is left of it says so on a stack that is sound
    mrs     x3, tpidr_el1
    ldr     x3, [x3]
    mov     sp, x3
    mrs     x0, esr_el1
    mrs     x1, elr_el1
    mrs     x2, far_el1
    bl      culm_kernel_fault
    "#,
    sp = const offset_of!(Registers, sp),
    pc = const offset_of!(Registers, pc),
    pstate = const offset_of!(Registers, pstate),
    resume = const offset_of!(Registers, resume),
    table = const offset_of!(Domain<Registers>, table),
    all = const resume::ALL,
    message = const resume::MESSAGE,
    SIGNAL = const syscall::SIGNAL,
    CALL = const syscall::CALL,
);

const _: () = {
    assert!(offset_of!(Domain<Registers>, context) == 0);
    assert!(offset_of!(Registers, sp) == 248 && offset_of!(Registers, pc) == 256);
    assert!(offset_of!(Registers, pstate) == offset_of!(Registers, pc) + 8);
    assert!(syscall::WAIT == 0 && syscall::REPLY_WAIT < syscall::SIGNAL);
};
