//! Entering and leaving the kernel.
//!
//! While a domain runs, `SP_EL1` points at the core's [`Processor`], below which its kernel stack
//! grows: empty between entries, since the kernel never sleeps inside. The processor's first word
//! points at the [`Registers`] of the domain that runs, the next eight take the message of a call
//! or a reply. `TPIDR_EL1` points at the processor too, for code that no longer knows where the
//! stack ends.
//!
//! A system call keeps `x19`–`x29`, stack pointer and program counter: its stub declares everything
//! else clobbered. One that switches to another domain on a fast path
//! ([`culm_kernel_core::FastSwitch`]) leaves by `fast_exit_message` or `fast_exit_notifications`,
//! its result in registers; so does the interrupt that wakes a domain on a sleeping core. All
//! others leave by `culm_resume`, their result in the domain's saved registers. A `signal` that
//! switches to no other domain saves nothing. An interrupt or fault saves all registers. On the way
//! back every register that carries no result is cleared. So is `TPIDR_EL0`: a domain can write it
//! without the kernel's help (Arm ARM D19.2.147), and would leave a message there for the next.
//!
//! No path here asks whether a domain may use vector registers. The saved registers of one that may
//! name an empty address space, so whichever path leaves for it, its first instruction faults. That
//! fault is its way in (`user_fault`): it opens the vector registers and the domain's own address
//! space, and has the domain do the same again. From there to its next entry, exceptions come to
//! `open_vectors`, which closes both.

use super::registers::{Registers, resume};
use super::vectors::OPEN;
use crate::processor::Processor;
use core::mem::offset_of;
use culm_abi::syscall;

/// Bytes of the stack on which a defect of the kernel is reported. The report takes a third of that
/// in a build without optimisation.
const FAULT_STACK: usize = 12 * 1024 - 16;

core::arch::global_asm!(
    pair_macros!(),
    r#"
    // Saves what a system call keeps to the registers at x17; clobbers x16 and x18.
    .macro save_kept
    mrs     x16, sp_el0
    mrs     x18, elr_el1
    pairs   stp, 19, 27, x17
    stp     x29, x16, [x17, #232]
    str     x18, [x17, #{pc}]
    .endm

    .macro save_message
    pairs   stp, 0, 6, sp, {message}
    .endm

    // Saves all registers of an interrupted domain; its x16 and x17 are below the stack.
    .macro save_all
    ldr     x16, [sp, #{current}]
    pairs   stp, 0, 14, x16
    ldp     x0, x1, [sp, #-16]
    stp     x0, x1, [x16, #128]
    pairs   stp, 18, 28, x16
    mrs     x1, sp_el0
    mrs     x2, elr_el1
    mrs     x3, spsr_el1
    mov     x4, #{all}
    stp     x1, x2, [x16, #{sp}]
    str     x30, [x16, #{link}]
    stp     x3, x4, [x16, #{pstate}]
    mov     x0, sp
    .endm

    // Loads what a system call keeps, the address space and the processor state from the registers
    // at x0; clobbers x10-x12.
    .macro load_kept
    ldp     x29, x10, [x0, #232]
    ldp     x11, x12, [x0, #{pc}]
    msr     sp_el0, x10
    msr     elr_el1, x11
    msr     ttbr0_el1, x12
    msr     tpidr_el0, xzr
    pairs   ldp, 19, 27, x0
    .endm

    .macro clear from, to
    mov     x\from, xzr
    .if     \to - \from
    clear   %(\from + 1), \to
    .endif
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
    stp     x16, x17, [sp, #-16]
user_exception:
    mrs     x16, esr_el1
    mov     x17, #0x56000000        // EC 0x15, SVC from AArch64, of 32 bits; below it the call's number
    sub     x16, x16, x17
    cbz     x16, call_wait
    cmp     x16, #{CALL}
    b.eq    call_call
    b.hi    call_other
    tbz     x16, #0, call_signal
    ldr     x17, [sp, #{current}]   // reply_wait
    save_message
    save_kept
    mov     x0, sp
    mov     x1, x8
    mov     x2, x9
    mov     x3, x10
    bl      culm_reply_wait
    b       fast_exit_message

    .balign 0x80                    // EL0, interrupt
    stp     x16, x17, [sp, #-16]
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
    ldr     x17, [sp, #{current}]
    save_kept
    mov     x0, sp
    mov     x1, x8
    mov     x2, x9
    mov     x3, x10
    bl      culm_wait

    // x0: the registers of the domain that has the core now; x1: the set of its notifications.
fast_exit_notifications:
    str     x0, [sp, #{current}]
    mov     x9, x1
    msr     spsr_el1, xzr
    load_kept
    clear   0, 8
    clear   10, 18
    mov     x30, xzr
    eret

call_call:
    ldr     x17, [sp, #{current}]
    save_message
    save_kept
    mov     x0, sp
    mov     x1, x8
    bl      culm_call

    // x0: the registers of the domain that has the core now; x1: its event or status. The message
    // is the sender's.
fast_exit_message:
    str     x0, [sp, #{current}]
    mov     x8, x1
    msr     spsr_el1, xzr
    load_kept
    pairs   ldp, 0, 6, sp, {message}
    clear   9, 18
    mov     x30, xzr
    eret

call_signal:
    stp     x8, x10, [sp, #{message}]
    mov     x0, sp
    mov     x1, x8
    mov     x2, x10
    bl      culm_signal
    cbnz    x0, 1f
    clear   0, 18                   // nothing to switch and no result
    mov     x30, xzr
    eret
1:  mov     x1, x0                  // what is left of it; x19-x29 are what they were, since Rust functions keep them
    ldr     x17, [sp, #{current}]
    save_kept
    mov     x0, sp
    bl      culm_signal_rest

call_other:
    lsr     x17, x16, #16
    cbnz    x17, user_fault         // no system call
    ldr     x17, [sp, #{current}]
    mov     x1, x16
    mov     x2, x0
    save_kept
    mov     x0, sp
    bl      culm_other_call

user_interrupt:
    save_all
    bl      culm_interrupt

    // Any fault of a domain to which the vector registers are closed. If it may use them, this is
    // its way in.
user_fault:
    ldr     x16, [sp, #{current}]
    ldr     x16, [x16, #{open}]
    cbnz    x16, 1f
    sub     sp, sp, #176            // x16 and x17 are there already
    pairs   stp, 0, 14, sp
    stp     x18, x30, [sp, #128]
    add     x0, sp, #176
    bl      culm_take_vectors
    pairs   ldp, 0, 14, sp
    ldp     x18, x30, [sp, #128]
    add     sp, sp, #176
    ldr     x16, [sp, #{current}]
    ldr     x16, [x16, #{open}]
    cbz     x16, open_fault
1:  msr     ttbr0_el1, x16
    ldr     x16, =open_vectors
    msr     vbar_el1, x16
    mov     x16, #{OPEN}
    msr     cpacr_el1, x16
    ldp     x16, x17, [sp, #-16]
    eret

open_fault:
    save_all
    mrs     x1, esr_el1
    mrs     x2, far_el1
    bl      culm_fault

    // As at fast_exit_notifications, from any depth of the stack.
    .globl culm_resume_notified
culm_resume_notified:
    mrs     x2, tpidr_el1
    mov     sp, x2
    b       fast_exit_notifications

    // x0: the saved registers of the domain that runs next, its result in them.
    .globl culm_resume
culm_resume:
    mrs     x1, tpidr_el1
    mov     sp, x1
    str     x0, [sp, #{current}]
    load_kept
    ldr     x10, [x0, #{resume}]
    cmp     x10, #{with_message}
    b.hi    3f
    msr     spsr_el1, xzr
    ldp     x8, x9, [x0, #64]
    b.eq    2f
    clear   0, 7
1:  clear   10, 18
    mov     x30, xzr
    eret
2:  pairs   ldp, 2, 6, x0
    ldp     x0, x1, [x0, #0]
    b       1b
3:  ldp     x30, x11, [x0, #{link}]
    msr     spsr_el1, x11
    pairs   ldp, 2, 16, x0
    ldr     x18, [x0, #144]
    ldp     x0, x1, [x0, #0]
    eret

    // Closes the vector registers. The next exception return has all of it take effect.
    .macro close_vectors
    stp     x16, x17, [sp, #-16]
    msr     cpacr_el1, xzr
    ldr     x16, =culm_vectors
    msr     vbar_el1, x16
    ldr     x16, [sp, #{current}]
    ldr     x16, [x16, #{table}]
    msr     ttbr0_el1, x16
    .endm

    .balign 0x800
open_vectors:
    .rept   8
    vector  kernel_fault            // this level
    .endr
    .balign 0x80                    // EL0, synchronous
    close_vectors
    mrs     x16, esr_el1
    lsr     x16, x16, #26
    cmp     x16, #0x15              // SVC from AArch64
    b.eq    user_exception
    b       open_fault
    .balign 0x80                    // EL0, interrupt
    close_vectors
    b       user_interrupt
    .rept   6
    vector  kernel_fault            // as in the other table
    .endr
    .ltorg

    // Reports a defect of the kernel. The core's own stack may be broken, and its state may not
    // exist yet, so all cores share one static stack: the first core to fault claims it, reports,
    // and powers the machine off. Another core that faults sleeps. If the reporting core faults
    // again, it powers off at once.
kernel_fault:
    adrp    x3, fault_owner
    add     x3, x3, :lo12:fault_owner
    mrs     x4, mpidr_el1           // not zero: bit 31 is one
1:  ldaxr   x5, [x3]
    cbnz    x5, 2f
    stxr    w5, x4, [x3]
    cbnz    w5, 1b
    add     x3, x3, #{fault_stack_top}
    mov     sp, x3
    mov     x29, xzr
    mrs     x0, esr_el1
    mrs     x1, elr_el1
    mrs     x2, far_el1
    bl      culm_kernel_fault
2:  cmp     x5, x4
    b.ne    3f
    add     x3, x3, #{fault_stack_top}
    mov     sp, x3
    bl      culm_power_off
3:  wfi
    b       3b

    .bss
    .balign 16
fault_owner:                        // the affinity of the core that faulted, 0 for none; the stack is above it
    .zero   16
    .zero   {fault_stack}
    .text
    .noaltmacro
    .purgem pair
    .purgem pairs
    "#,
    current = const Processor::CURRENT,
    message = const Processor::MESSAGE,
    sp = const offset_of!(Registers, sp),
    pc = const offset_of!(Registers, pc),
    table = const offset_of!(Registers, table),
    OPEN = const OPEN,
    link = const offset_of!(Registers, link),
    pstate = const offset_of!(Registers, pstate),
    resume = const offset_of!(Registers, resume),
    open = const offset_of!(Registers, open),
    all = const resume::ALL,
    with_message = const resume::MESSAGE,
    CALL = const syscall::CALL,
    fault_stack = const FAULT_STACK,
    fault_stack_top = const 16 + FAULT_STACK,
);

const _: () = {
    assert!(offset_of!(Registers, sp) == 240 && offset_of!(Registers, pc) == 248);
    assert!(offset_of!(Registers, table) == offset_of!(Registers, pc) + 8);
    assert!(offset_of!(Registers, pstate) == offset_of!(Registers, link) + 8);
    assert!(offset_of!(Registers, resume) == offset_of!(Registers, pstate) + 8);
    assert!(align_of::<Processor>() >= 16 && Processor::MESSAGE.is_multiple_of(8));
    assert!(syscall::WAIT == 0 && syscall::REPLY_WAIT == 1 && syscall::SIGNAL == 2 && syscall::CALL == 3);
};

unsafe extern "C" {
    fn culm_resume(registers: *mut Registers) -> !;
    fn culm_resume_notified(registers: *mut Registers, set: u64) -> !;
}

/// Leaves the kernel for the domain with these registers, whatever is on the kernel stack.
#[inline(always)]
pub fn resume(registers: &'static mut Registers) -> ! {
    // SAFETY: [K4, K5] the assembly reads this type, and writes it at this domain's next entry,
    // when no reference to it is left: what the caller has on the stack is never used again and
    // needs no destructor.
    unsafe { culm_resume(registers) }
}

/// Does what [`resume()`] does, for a domain in a wait that ends with this set of notifications of
/// group 0.
#[inline(always)]
pub fn resume_notified(registers: &'static mut Registers, set: u64) -> ! {
    // SAFETY: [K4, K5] as in `resume`. It loads what the domain's system call has saved.
    unsafe { culm_resume_notified(registers, set) }
}
