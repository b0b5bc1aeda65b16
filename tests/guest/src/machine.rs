//! Accesses to the machine, of every kind that a guest's program can make, and the jumps of
//! `start.s`. Any of them may end in an exception: the program goes on in `guest_recovers` then.
//!
//! A guest is alone in its machine, whose memory is nobody else's. So nothing that these functions
//! do can break what Rust assumes of another program; of this one it could, which the callers keep
//! to memory that is no variable's ([`PLAYGROUND`]).

use core::arch::{asm, global_asm};

global_asm!(include_str!("start.s"));

/// Memory behind code and data: whatever is written there, the program does not mind.
pub const PLAYGROUND: u64 = culm_abi::guest::MEMORY + 0x20_0000;

/// Its bytes.
pub const PLAYGROUND_SIZE: u64 = 0x40_0000;

/// Where EL0 has the memory of the guest: so many bytes behind.
pub const FOR_PROGRAMS: u64 = 0x4000_0000;

unsafe extern "C" {
    fn guest_begin();
    fn guest_leap(to: u64, random: u64) -> !;
    fn guest_drop(to: u64, random: u64, state: u64) -> !;
}

/// Where another CPU begins.
pub fn beginning() -> u64 {
    guest_begin as *const () as u64
}

/// Goes on at `to`, with registers made of a random number.
pub fn leap(to: u64, random: u64) -> ! {
    // SAFETY: what is there may do anything; the next exception brings the CPU back.
    unsafe { guest_leap(to, random) }
}

/// Goes on at `to` with this `PSTATE`, with registers made of a random number.
pub fn drop_to(to: u64, random: u64, state: u64) -> ! {
    // SAFETY: as `leap`.
    unsafe { guest_drop(to, random, state) }
}

/// Reads a system register by its name.
#[macro_export]
macro_rules! read {
    ($name:literal) => {{
        let value: u64;
        // SAFETY: reading it changes nothing that Rust knows of.
        unsafe { core::arch::asm!(concat!("mrs {}, ", $name), out(reg) value, options(nostack)) };
        value
    }};
}

/// Writes a system register by its name.
#[macro_export]
macro_rules! write {
    ($name:literal, $value:expr) => {{
        let value: u64 = $value;
        // SAFETY: those that are written here concern interrupts and the timer.
        unsafe { core::arch::asm!(concat!("msr ", $name, ", {}"), "isb", in(reg) value, options(nostack)) }
    }};
}

/// An instruction or more without operands, or with one or two.
macro_rules! instructions {
    ($($text:literal),+ $(; $($operand:tt)+)?) => {
        // SAFETY: it touches no variable; an exception that it takes is dealt with.
        unsafe { asm!($($text),+, $($($operand)+,)? options(nostack)) }
    };
}

/// Reads 1, 2, 4 or 8 bytes.
pub fn load(address: u64, size: u64) -> u64 {
    let value: u64;
    match size {
        1 => instructions!("ldrb {0:w}, [{1}]"; out(reg) value, in(reg) address),
        2 => instructions!("ldrh {0:w}, [{1}]"; out(reg) value, in(reg) address),
        4 => instructions!("ldr {0:w}, [{1}]"; out(reg) value, in(reg) address),
        _ => instructions!("ldr {0}, [{1}]"; out(reg) value, in(reg) address),
    }
    value
}

/// Writes 1, 2, 4 or 8 bytes.
pub fn store(address: u64, size: u64, value: u64) {
    match size {
        1 => instructions!("strb {0:w}, [{1}]"; in(reg) value, in(reg) address),
        2 => instructions!("strh {0:w}, [{1}]"; in(reg) value, in(reg) address),
        4 => instructions!("str {0:w}, [{1}]"; in(reg) value, in(reg) address),
        _ => instructions!("str {0}, [{1}]"; in(reg) value, in(reg) address),
    }
}

/// Accesses `address` by an instruction of another kind: one whose syndrome does not describe it,
/// an exclusive or an atomic one.
pub fn access_oddly(kind: u64, address: u64, value: u64) {
    match kind % 12 {
        0 => instructions!("ldp {0}, {1}, [{2}]"; out(reg) _, out(reg) _, in(reg) address),
        1 => instructions!("stp {0}, {0}, [{1}]"; in(reg) value, in(reg) address),
        2 => instructions!("ldr {0}, [{1}], #8"; out(reg) _, inout(reg) address => _),
        3 => instructions!("ldxr {0}, [{1}]", "stxr {2:w}, {0}, [{1}]"; out(reg) _, in(reg) address, out(reg) _),
        4 => instructions!("ldaxp {0}, {1}, [{2}]"; out(reg) _, out(reg) _, in(reg) address),
        5 => instructions!("stlxr {2:w}, {0}, [{1}]"; in(reg) value, in(reg) address, out(reg) _),
        6 => {
            instructions!(".arch_extension lse", "ldaddal {0}, {2}, [{1}]"; in(reg) value, in(reg) address, out(reg) _)
        }
        7 => instructions!(".arch_extension lse", "casal {0}, {0}, [{1}]"; inout(reg) value => _, in(reg) address),
        8 => instructions!("dc zva, {0}"; in(reg) address),
        9 => instructions!("dc civac, {0}"; in(reg) address),
        10 => instructions!("ldtr {0}, [{1}]"; out(reg) _, in(reg) address),
        _ => {
            instructions!(".arch_extension lse", "swpb {0:w}, {2:w}, [{1}]"; in(reg) value, in(reg) address, out(reg) _)
        }
    }
}

/// Calls the firmware, by `hvc` or by `smc`. Returns what comes back in the first register.
pub fn call(by_hvc: bool, arguments: [u64; 4]) -> u64 {
    let [mut first, second, third, fourth] = arguments;
    if by_hvc {
        instructions!("hvc #0"; inout("x0") first, inout("x1") second => _, inout("x2") third => _, inout("x3") fourth => _);
    } else {
        instructions!("smc #0"; inout("x0") first, inout("x1") second => _, inout("x2") third => _, inout("x3") fourth => _);
    }
    first
}

/// Makes instructions that were written to this line of memory those that are fetched.
pub fn publish(address: u64) {
    instructions!("dc cvau, {0}", "dsb ish", "ic ivau, {0}", "dsb ish", "isb"; in(reg) address);
}

/// Changes the table of lower addresses, and forgets what is known of the one before.
pub fn set_table(address: u64) {
    instructions!("dsb ish", "msr ttbr0_el1, {0}", "isb", "tlbi vmalle1", "dsb nsh", "isb"; in(reg) address);
}

/// Waits for an interrupt.
pub fn wait_for_interrupt() {
    instructions!("dsb sy", "wfi");
}

/// Waits for an event, having caused one or not.
pub fn wait_for_event(causes: bool) {
    if causes {
        instructions!("sev");
    }
    instructions!("wfe");
}

/// Lets interrupts in, for as long as the CPU takes to execute a few instructions.
pub fn let_interrupts_in() {
    instructions!("msr daifclr, #2", "isb", "nop", "nop", "msr daifset, #2");
}

/// Lets interrupts in from now on.
pub fn unmask_interrupts() {
    instructions!("msr daifclr, #2");
}

/// The CPU's number.
pub fn cpu() -> usize {
    (read!("mpidr_el1") & 3) as usize
}

/// The time, in ticks.
pub fn now() -> u64 {
    instructions!("isb");
    read!("cntvct_el0")
}

/// Ticks of a microsecond.
pub fn microsecond() -> u64 {
    (read!("cntfrq_el0") / 1_000_000).max(1)
}
