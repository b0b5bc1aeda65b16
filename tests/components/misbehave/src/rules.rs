//! The rules, and how each is broken.

extern crate alloc;

use crate::Connections;
use core::arch::{asm, global_asm};
use core::hint::black_box;
use culm::{Channel, Message};
use culm_abi::memory::{KERNEL_BASE, PROGRAM_BASE, START_BASE};
use culm_abi::syscall::{CALL, HALT, REPLY_WAIT, RESTART, SIGNAL, WAIT};

/// An address at which no component has anything.
const NOWHERE: u64 = 0x7f_0000_0000;

global_asm!(include_str!("rules.s"));

unsafe extern "C" {
    /// `svc` with a number that no system call has, and the same with the greatest number that
    /// there is.
    fn misbehave_no_such_call();
    fn misbehave_last_call();
    /// One instruction each, in [`INSTRUCTIONS`].
    fn misbehave_undefined();
    fn misbehave_breakpoint();
    fn misbehave_floating_point();
    fn misbehave_page_table_register();
    fn misbehave_interrupt_mask();
    fn misbehave_timer_register();
    fn misbehave_performance_counter();
    fn misbehave_debug_channel();
    fn misbehave_hypervisor_call();
    fn misbehave_monitor_call();
    fn misbehave_exception_return();
    fn misbehave_cache_maintenance();
}

/// Rules that one instruction breaks.
const INSTRUCTIONS: &[(&str, unsafe extern "C" fn())] = &[
    ("bad-system-call", misbehave_no_such_call),
    ("last-system-call", misbehave_last_call),
    ("undefined-instruction", misbehave_undefined),
    ("breakpoint", misbehave_breakpoint),
    ("floating-point", misbehave_floating_point),
    ("page-table-register", misbehave_page_table_register),
    ("interrupt-mask", misbehave_interrupt_mask),
    ("timer-register", misbehave_timer_register),
    ("performance-counter", misbehave_performance_counter),
    ("debug-channel", misbehave_debug_channel),
    ("hypervisor-call", misbehave_hypervisor_call),
    ("monitor-call", misbehave_monitor_call),
    ("exception-return", misbehave_exception_return),
    ("cache-maintenance", misbehave_cache_maintenance),
];

/// Breaks the rule of this name. Returns only where the rule does not end in a fault, or where it
/// was not enforced.
pub fn break_rule(rule: &str, connections: &Connections) {
    if let Some((_, instruction)) = INSTRUCTIONS.iter().find(|(name, _)| *name == rule) {
        // SAFETY: none is claimed. The instruction is to be refused; were it not, the test fails.
        return unsafe { instruction() };
    }
    let channel = connections.peer.unwrap_or(Channel::new(0));
    match rule {
        "undeclared-channel" => Channel::new(40).notify_now(),
        "far-channel" => Channel::new(u32::MAX - 1).notify_now(),
        "undeclared-call" => _ = Channel::new(40).call(Message::EMPTY),
        // Without the right, or of somebody who breaks a rule when called.
        "call-without-right" | "call-the-peer" => _ = channel.call(Message::EMPTY),
        "huge-channel" => system_call::<CALL>(0, 1 << 32 | u64::from(channel.number()), 0),
        "reply-without-call" => system_call::<REPLY_WAIT>(0, 0, 0),
        "wait-while-owing" => system_call::<WAIT>(0, 0, 0),
        // The deadline is 0, a time that has passed.
        "deadline-of-passive" => system_call::<REPLY_WAIT>(0, 0, 0),
        "wait-signals-undeclared" => system_call::<WAIT>(0, 1 << 62, 0),
        "signal-far-group" => system_call::<SIGNAL>(0, 1, 0xffff << 32),
        // 63 times this is -1 in 32 bits, and one more is channel 0, which everybody with a log
        // has.
        "signal-wrapping-group" => system_call::<SIGNAL>(0, 1 << 1, 0x4104_1041 << 32),
        "signal-bit-63" => system_call::<SIGNAL>(0, 1 << 63, 0),
        "wait-signals-bit-63" => system_call::<WAIT>(0, 1 << 63, 0),
        "signal-bad-options" => system_call::<SIGNAL>(0, 0, 1),
        "wait-bad-options" => system_call::<WAIT>(0, 0, 0x8000_0000),
        "restart-without-right" => system_call::<RESTART>(0, 0, 0),
        "halt-without-right" => system_call::<HALT>(0, 0, 0),
        "wild-read" => read(NOWHERE),
        "null-read" => read(8),
        "kernel-read" => read(KERNEL_BASE),
        "non-canonical-read" => read(0x0100_0000_0000_0000),
        "wild-write" => write(NOWHERE),
        "kernel-write" => write(KERNEL_BASE),
        "write-code" => write(PROGRAM_BASE),
        "write-constant" => write(INSTRUCTIONS.as_ptr().addr() as u64),
        "write-start-block" => write(START_BASE),
        "jump-to-nothing" => jump(NOWHERE),
        "jump-to-kernel" => jump(KERNEL_BASE),
        "jump-unaligned" => jump(PROGRAM_BASE + 2),
        "execute-data" => execute_data(),
        "stack-overflow" => _ = black_box(overflow(black_box(0))),
        "unaligned-exclusive" => unaligned_exclusive(),
        "panic" => panic!("asked to"),
        "allocation-without-heap" => _ = black_box(alloc::vec::Vec::<u8>::with_capacity(black_box(2048))),
        "endless-loop" => loop {
            core::hint::spin_loop();
        },
        "endless-notifications" => loop {
            channel.notify_now();
        },
        "endless-log" => loop {
            culm::info!("and another line");
            culm::log::flush();
        },
        _ => culm::error!("there is no rule {rule}"),
    }
}

/// A system call with anything in its registers.
fn system_call<const NUMBER: u16>(first: u64, eighth: u64, tenth: u64) {
    // SAFETY: clobbers what a system call clobbers. That it is refused is the point.
    unsafe {
        asm!(
            "svc #{number}",
            number = const NUMBER,
            in("x0") first, in("x8") eighth, in("x9") 0_u64, in("x10") tenth,
            clobber_abi("C"), options(nostack),
        );
    }
}

fn read(address: u64) {
    // SAFETY: none is claimed. The access is to be refused; were it not, what it reads is dropped.
    unsafe { asm!("ldr {value}, [{address}]", value = out(reg) _, address = in(reg) address, options(nostack)) };
}

fn write(address: u64) {
    // SAFETY: none is claimed. The access is to be refused; were it not, the test fails.
    unsafe { asm!("str xzr, [{address}]", address = in(reg) address, options(nostack)) };
}

fn jump(address: u64) {
    // SAFETY: none is claimed. The fetch is to be refused; were it not, the test fails.
    unsafe { asm!("blr {address}", address = in(reg) address, clobber_abi("C")) };
}

/// Runs a return instruction that lies in writable memory.
fn execute_data() {
    const RETURN: u32 = 0xd65f_03c0;
    let code = black_box([RETURN; 4]);
    jump((&raw const code).addr() as u64);
}

/// Uses the stack until there is none left.
fn overflow(depth: u64) -> u64 {
    let frame = black_box([depth; 16]);
    if frame[3] == u64::MAX { 0 } else { frame[0] + overflow(black_box(depth + 1)) + frame[15] }
}

/// An exclusive access must be aligned in any memory (Arm ARM B2.8.2).
fn unaligned_exclusive() {
    let words = black_box([0_u64; 4]);
    let address = (&raw const words).addr() + 4;
    // SAFETY: reads the array on the stack, where the processor does not refuse it.
    unsafe {
        asm!("ldaxr {value}, [{address}]", "clrex", value = out(reg) _, address = in(reg) address, options(nostack))
    };
}
