//! The choice of steps, and those that are about time, firmware and other CPUs.

use crate::{devices, processor, program, requests};
use culm_abi::guest::MAX_CPUS;
use culm_tests_guest::machine::{self, PLAYGROUND, PLAYGROUND_SIZE, call, now};
use culm_tests_guest::random::Random;
use culm_tests_guest::{console::Console, controller};

/// What its machine has not, a guest does once in so many steps of the kinds that can.
const SELDOM: u64 = 64;

/// The first CPU keeps out of what can lose it: it is to notice that another is lost.
const KEEPER: usize = 0;

/// Does something at random. It need not return: an exception ends it, too.
pub fn step(cpu: usize, random: &mut Random) {
    let is_keeper = cpu == KEEPER;
    match random.below(64) {
        0..=17 => devices::access(random),
        18..=23 => devices::use_queues(cpu, random),
        24..=27 => requests::make(cpu, random),
        28..=31 => send_interrupts(random),
        32..=35 => processor::change_interface(random),
        36..=39 => call_firmware(cpu, random),
        40..=45 => processor::access_register(cpu, is_keeper, random),
        46..=47 => processor::run_program(cpu, random),
        48..=49 if !is_keeper => processor::run_instructions(cpu, random),
        48..=51 => processor::map_at_random(cpu, random),
        52..=53 => share_memory(random),
        54..=56 => wait(random),
        57..=58 => let_timer_storm(random),
        59 => spin(random),
        60 => talk(random),
        61..=62 => switch_on(random),
        _ if random.once_in(SELDOM) => do_what_is_not_there(random),
        _ => devices::access(random),
    }
}

/// An address of the memory that is played with, a multiple of `unit`.
pub fn place(random: &mut Random, unit: u64) -> u64 {
    PLAYGROUND + random.below(PLAYGROUND_SIZE / unit) * unit
}

/// Sends interrupts to any CPUs, some of which there are, and takes what has come.
fn send_interrupts(random: &mut Random) {
    for _ in 0..random.below(32) {
        if random.once_in(4) {
            culm_tests_guest::write!("icc_sgi1r_el1", random.value());
        } else {
            controller::send(random.below(16), random.below(16));
        }
    }
    if random.once_in(2) {
        controller::begin_anew();
        machine::let_interrupts_in();
    }
}

/// Calls a function of the firmware, or one that is none, with any arguments.
fn call_firmware(cpu: usize, random: &mut Random) {
    const CPU_OFF: u64 = 0x8400_0002;
    const ENDS: [u64; 3] = [CPU_OFF, 0x8400_0008, 0x8400_0009];
    const SUSPEND: u64 = 0x8400_0001;
    let function = match random.below(4) {
        0 => random.value(),
        1 => 0x8000_0000 | random.below(0x20),
        2 => random.one_of(&[0x8400_0000, 0xc400_0000]) | random.below(0x20),
        _ => random.value() & 0xff00_ffff | 0x8000_0000,
    };
    let narrow = function & 0xffff_ffff;
    if ENDS.contains(&narrow) && !random.once_in(SELDOM) {
        return;
    }
    if narrow & !(1 << 30) == SUSPEND {
        controller::begin_anew();
        controller::set_timer(random.below(1000));
    }
    if narrow == CPU_OFF {
        program::goes_off(cpu);
    }
    call(random.once_in(2), [function, random.value(), random.value(), random.value()]);
}

/// Switches another CPU on: to begin as it should, or with what it finds.
fn switch_on(random: &mut Random) {
    const CPU_ON: u64 = 0xc400_0003;
    let entry = if random.once_in(8) { place(random, 4) } else { machine::beginning() };
    call(true, [CPU_ON, random.below(MAX_CPUS as u64 + 1), entry, program::ANOTHER]);
}

/// Exclusive and atomic accesses to memory that other CPUs change.
fn share_memory(random: &mut Random) {
    for _ in 0..random.below(64) {
        let unit = random.one_of(&[1, 8, 16]);
        let address = if random.once_in(4) { PLAYGROUND } else { place(random, unit) };
        machine::access_oddly(random.number(), address, random.value());
    }
}

/// Waits for interrupts and events that come soon, are there already, or never come.
fn wait(random: &mut Random) {
    for _ in 0..random.below(16) {
        controller::begin_anew();
        controller::set_timer(random.below(300));
        match random.below(4) {
            0 => machine::wait_for_event(random.once_in(2)),
            _ => machine::wait_for_interrupt(),
        }
    }
}

/// Has the timer go off again and again, at once.
fn let_timer_storm(random: &mut Random) {
    controller::begin_anew();
    for _ in 0..random.below(64) {
        controller::set_timer(0);
        if random.once_in(2) {
            controller::end(controller::acknowledge());
        }
    }
    machine::let_interrupts_in();
}

/// Does nothing for a while, and nothing ends it but the timer.
fn spin(random: &mut Random) {
    controller::begin_anew();
    let end = now() + random.below(3000) * machine::microsecond();
    while now() < end {}
}

/// Writes any bytes to the console.
fn talk(random: &mut Random) {
    for _ in 0..random.below(48) {
        Console.send(random.number() as u8);
    }
}

/// Does what stops a guest: accesses to nothing, or to devices by instructions that tell nothing of
/// what they want, and instructions out of devices.
fn do_what_is_not_there(random: &mut Random) {
    let device = devices::place(random);
    match random.below(4) {
        0 => machine::leap(device & !3, random.number()),
        1 => machine::access_oddly(random.number(), device, random.value()),
        2 => _ = machine::load(random.number() & 0x3fff_fff8, 8),
        _ => machine::store((0x4000_0000 + random.below(0x4000_0000)) & !7, 8, random.value()),
    }
}
