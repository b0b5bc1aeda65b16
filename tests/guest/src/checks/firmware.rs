//! Checks of the firmware's calls (Arm DEN0022), of a second CPU, and of what there is not.

use crate::other;
use crate::program::{ANOTHER, check, comes, equals};
use culm_abi::guest::{DISTRIBUTOR, TIMER_INTERRUPT, redistributors};
use culm_tests_guest::controller::{acknowledge, begin_anew, end, send, set_timer, stop_timer};
use culm_tests_guest::machine::{FOR_PROGRAMS, PLAYGROUND, beginning, call, drop_to, publish, store};
use culm_tests_guest::{read, write};

const VERSION: u64 = 0x8400_0000;
const SUSPEND: u64 = 0xc400_0001;
const CPU_ON: u64 = 0xc400_0003;
const AFFINITY: u64 = 0xc400_0004;
const MIGRATION: u64 = 0x8400_0006;
const FEATURES: u64 = 0x8400_000a;

/// What functions return.
const SUCCESS: u64 = 0;
const NOT_SUPPORTED: u64 = -1_i64 as u64;
const INVALID: u64 = -2_i64 as u64;
const ALREADY_ON: u64 = -4_i64 as u64;
const IS_OFF: u64 = 1;

/// The second CPU.
const SECOND: u64 = 1;
const SECOND_BIT: u64 = 1 << SECOND;

/// A shared interrupt that no device has.
const SHARED: u64 = 51;

fn firmware(function: u64, first: u64, second: u64, third: u64) -> u64 {
    call(true, [function, first, second, third])
}

/// Does all checks.
pub fn run() {
    equals(firmware(VERSION, 0, 0, 0), 0x1_0000, "the version is 1.0");
    equals(call(false, [VERSION, 0, 0, 0]), 0x1_0000, "a secure call is answered too");
    equals(firmware(MIGRATION, 0, 0, 0), 2, "nothing need migrate");
    for function in [VERSION, SUSPEND, CPU_ON, AFFINITY, 0x8400_0002, 0x8400_0008, 0x8400_0009] {
        equals(firmware(FEATURES, function, 0, 0), SUCCESS, "it says that it has what it has");
    }
    for function in [0x8400_001f, 0x8000_ffff, 0xc600_0000, 0] {
        equals(firmware(function, 0, 0, 0), NOT_SUPPORTED, "what it has not is not supported");
        equals(firmware(FEATURES, function, 0, 0), NOT_SUPPORTED, "and it says so");
    }
    begin_anew();
    set_timer(1000);
    equals(firmware(SUSPEND, 0, 0, 0), SUCCESS, "a CPU that was suspended goes on at an interrupt");
    equals(acknowledge(), TIMER_INTERRUPT.into(), "it is the timer's");
    stop_timer();
    end(TIMER_INTERRUPT.into());
    begin_anew();
    cpus();
    nothing_is_counted();
}

fn cpus() {
    equals(firmware(AFFINITY, 0, 0, 0), 0, "the first CPU is on");
    equals(firmware(AFFINITY, SECOND, 0, 0), IS_OFF, "the second is off at first");
    equals(firmware(AFFINITY, 2, 0, 0), INVALID, "there is no third");
    equals(firmware(CPU_ON, 2, beginning(), ANOTHER), INVALID, "it cannot be switched on");
    equals(firmware(CPU_ON, 0, beginning(), ANOTHER), ALREADY_ON, "the first is on already");
    for _ in 0..3 {
        equals(firmware(CPU_ON, SECOND, beginning(), ANOTHER), SUCCESS, "the second is switched on");
        check(other::begins(), "it begins with what it was given");
        equals(firmware(AFFINITY, SECOND, 0, 0), 0, "it is on");
        equals(firmware(CPU_ON, SECOND, beginning(), ANOTHER), ALREADY_ON, "it is on already");
        interrupts_between_cpus();
        other::go_off();
        send(1, SECOND_BIT);
        check(comes(|| firmware(AFFINITY, SECOND, 0, 0) == IS_OFF), "it is off after it switched itself off");
    }
}

fn interrupts_between_cpus() {
    for number in 0..16 {
        let before = other::taken(number);
        send(number, SECOND_BIT);
        check(other::takes(number, before), "the second CPU takes an interrupt that is sent to it, once");
    }
    let before = other::taken(2);
    // To all but the sender (IHI 0069, 12.2.22, IRM).
    write!("icc_sgi1r_el1", 1 << 40 | 2 << 24);
    check(other::takes(2, before), "it takes one that is sent to all others");
    equals(read!("icc_hppir1_el1"), 1023, "the sender does not");
    let before = other::taken(3);
    send(3, 1 << 5);
    equals(other::taken(3).into(), before.into(), "one to a CPU that is not there comes nowhere");
    let route = DISTRIBUTOR.address + 0x6000 + 8 * SHARED;
    let bit = 1 << (SHARED - 32);
    store(route, 8, SECOND);
    let trigger = DISTRIBUTOR.address + 0xc0c;
    store(trigger, 4, 0xaaaa_aaaa);
    store(DISTRIBUTOR.address + 0x104, 4, bit);
    let before = other::taken(SHARED);
    store(DISTRIBUTOR.address + 0x204, 4, bit);
    check(other::takes(SHARED, before), "it takes a shared interrupt that is routed to it, once");
    store(route, 8, 0);
    store(DISTRIBUTOR.address + 0x184, 4, bit);
    // By the second CPU's redistributor anybody can make its private interrupts pending.
    let frame = redistributors(2).address + culm_abi::guest::REDISTRIBUTOR_SIZE + 0x1_0000;
    let before = other::taken(4);
    store(frame + 0x200, 4, 1 << 4);
    check(other::takes(4, before), "it takes a private interrupt that is set pending");
}

/// Registers of which there is nothing read as zero.
fn nothing_is_counted() {
    write!("pmcntenset_el0", u64::MAX >> 32);
    equals(read!("pmcr_el0"), 0, "there is no performance monitor");
    equals(read!("pmcntenset_el0"), 0, "it counts nothing");
    equals(read!("mdscr_el1"), 0, "nothing is debugged");
}

/// Has a program at EL0 in AArch32 read a debug register, and call.
pub fn debug_in_aarch32() -> ! {
    /// `mrc p14, 0, r0, c1, c0, 0`, which is `DBGDRAR`, and `svc 0`.
    const PROGRAM: [u64; 2] = [0xee11_0e10, 0xef00_0000];
    /// AArch32's user mode, with everything masked.
    const STATE: u64 = 0x1d0;
    for (at, instruction) in (PLAYGROUND..).step_by(4).zip(PROGRAM) {
        store(at, 4, instruction);
    }
    publish(PLAYGROUND);
    drop_to(PLAYGROUND + FOR_PROGRAMS, 0, STATE)
}
