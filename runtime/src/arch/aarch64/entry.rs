//! The first instructions, and what a panic becomes.

// At start and at each restart (`culm_abi::syscall::RESTART`) the kernel enters here with x0 =
// start block, x1 = count of restarts so far, x2 to x5 = seed, the stack pointer at the stack's top
// and everything else zero. Memory is what the previous life left: `.data` is copied from its image
// in the read-only part and `.bss` is zeroed, before any compiled code runs. The linker script
// aligns all bounds to 16 bytes.
core::arch::global_asm!(
    r#"
    .section .text.start, "ax", %progbits
    .globl _start
    .type _start, %function
_start:
    adrp x9, __data_load
    add x9, x9, :lo12:__data_load
    adrp x10, __data_start
    add x10, x10, :lo12:__data_start
    adrp x11, __data_end
    add x11, x11, :lo12:__data_end
1:  cmp x10, x11
    b.hs 2f
    ldp x12, x13, [x9], #16
    stp x12, x13, [x10], #16
    b 1b
2:  adrp x10, __bss_start
    add x10, x10, :lo12:__bss_start
    adrp x11, __bss_end
    add x11, x11, :lo12:__bss_end
3:  cmp x10, x11
    b.hs 4f
    stp xzr, xzr, [x10], #16
    b 3b
4:  mov x29, xzr
    mov x30, xzr
    b culm_main
    .size _start, . - _start
"#
);

/// A panic is a fault of this component: it is logged, then the supervisor decides.
#[panic_handler]
fn panic(info: &core::panic::PanicInfo<'_>) -> ! {
    match info.location() {
        Some(place) => crate::error!("panic at {}:{}: {}", place.file(), place.line(), info.message()),
        None => crate::error!("panic: {}", info.message()),
    }
    if let Some(advice) = info.location().and_then(|place| crate::exhaustion::advice(place.file())) {
        crate::error!("{advice}");
    }
    // Whoever looks at the system reads why the component is stopped, until its next life begins.
    crate::trouble::show(format_args!("{}", info.message()));
    crate::log::flush();
    // SAFETY: [D2] does not return: the exception is a fault of this domain
    // (`culm_abi::syscall::FaultKind::Panic`).
    unsafe { core::arch::asm!("brk #1", options(noreturn, nostack)) }
}
