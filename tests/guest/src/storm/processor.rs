//! What a guest's processor can be made to do: its interrupt interface, its system registers, its
//! tables, and instructions of which nobody knows what they do.

use crate::steps::place;
use core::sync::atomic::{AtomicU64, Ordering};
use culm_abi::guest::MAX_CPUS;
use culm_tests_guest::controller;
use culm_tests_guest::machine::{self, FOR_PROGRAMS, PLAYGROUND, leap, load, publish, store};
use culm_tests_guest::random::Random;
use culm_tests_guest::{read, write};

/// `svc #0`: ends what nobody knows the end of.
const END: u32 = 0xd400_0001;

/// Instructions that are executed at a time.
const INSTRUCTIONS: u64 = 14;

/// Bytes of a line of the instruction cache, which they and their end fit into.
const LINE: u64 = 64;

/// A table of translation.
#[repr(C, align(4096))]
struct Table([AtomicU64; 512]);

impl Table {
    const fn new() -> Self {
        Self([const { AtomicU64::new(0) }; 512])
    }

    fn address(&self) -> u64 {
        core::ptr::from_ref(self) as u64
    }
}

/// Each CPU's tables of the levels 1 to 3.
static TABLES: [[Table; 3]; MAX_CPUS] = [const { [const { Table::new() }; 3] }; MAX_CPUS];

/// Writes to the interface by which the CPU takes interrupts.
pub fn change_interface(random: &mut Random) {
    for _ in 0..random.below(8) {
        let value = random.value();
        match random.below(16) {
            0 => write!("icc_pmr_el1", value),
            // The field only: QEMU 10.0 takes larger values for smaller than the least, and ends by
            // an assertion of its own (`icv_gprio_mask`).
            1 => write!("icc_bpr0_el1", value & 0b111),
            2 => write!("icc_bpr1_el1", value & 0b111),
            3 => write!("icc_ctlr_el1", value),
            4 => write!("icc_igrpen0_el1", value),
            5 => write!("icc_igrpen1_el1", value),
            6 => write!("icc_eoir0_el1", value),
            7 => write!("icc_eoir1_el1", value & 0x3f),
            8 => write!("icc_dir_el1", value & 0x3f),
            9 => write!("icc_ap1r0_el1", value),
            10 => write!("icc_ap0r0_el1", value),
            11 => write!("icc_sgi0r_el1", value),
            12 => write!("icc_asgi1r_el1", value),
            13 => write!("icc_sre_el1", value),
            14 => _ = read!("icc_iar0_el1") + read!("icc_hppir1_el1") + read!("icc_rpr_el1"),
            _ => _ = controller::acknowledge(),
        }
    }
}

/// Reads or writes any system register, or executes any system instruction.
pub fn access_register(cpu: usize, is_keeper: bool, random: &mut Random) {
    // Op0 is 1 for instructions, 2 for registers of debugging, 3 for others (Arm ARM C4.1.94).
    let kind = random.one_of(&[1_u64, 2, 3, 3, 3]);
    let (mut op1, mut crn, crm, op2) = (random.below(8), random.below(16), random.below(16), random.below(8));
    if random.once_in(2) {
        // Most of those that there are.
        (op1, crn) = (random.one_of(&[0, 0, 3, 4, 5]), random.one_of(&[0, 1, 4, 5, 9, 10, 12, 13, 14]));
    }
    let is_read = random.once_in(2);
    // Translation and vectors, without which the CPU would be lost.
    if is_keeper && kind == 3 && !is_read && ([1, 2, 10].contains(&crn) || crn == 12 && crm == 0) {
        return;
    }
    let register = 0xd500_0000 | kind << 19 | op1 << 16 | crn << 12 | crm << 8 | op2 << 5;
    run(cpu, &[register as u32 | u32::from(is_read) << 21, END], random);
}

/// Executes random instructions at EL1.
pub fn run_instructions(cpu: usize, random: &mut Random) {
    let words = instructions(random);
    controller::begin_anew();
    controller::set_timer(random.below(2000));
    machine::unmask_interrupts();
    run(cpu, &words, random);
}

/// Executes random instructions at EL0, of which some are of AArch32; or returns to a level that
/// there is not.
pub fn run_program(cpu: usize, random: &mut Random) {
    /// `PSTATE` of EL0: of AArch64, of AArch32 with A32 and with T32 instructions.
    const PROGRAMS: [u64; 4] = [0, 0, 0x10, 0x30];
    let address = put(cpu, &instructions(random));
    controller::begin_anew();
    controller::set_timer(random.below(2000));
    let state = random.one_of(&PROGRAMS);
    let is_impossible = random.once_in(16);
    // Interrupts stay masked at a level that is not EL0: the end of the instructions ends it.
    let state = if is_impossible { random.value() & !0xf | random.below(16) | 1 << 20 } else { state };
    machine::drop_to(address + FOR_PROGRAMS, random.number(), state)
}

fn instructions(random: &mut Random) -> [u32; INSTRUCTIONS as usize] {
    /// Words of kinds that there are many instructions of: loads and stores, atomic and exclusive
    /// ones, branches and system instructions, vectors.
    const KINDS: [u32; 6] = [0x3800_0000, 0xb800_0000, 0x0800_0000, 0xd400_0000, 0x0c00_0000, 0x1e00_0000];
    core::array::from_fn(|index| {
        let word = random.number() as u32;
        let kind = random.one_of(&KINDS);
        match random.below(4) {
            _ if index + 1 == INSTRUCTIONS as usize => END,
            0 => word,
            // The higher registers hold addresses that are good.
            _ => word & 0x03ff_ffff | kind,
        }
    })
}

/// Puts instructions where they can be executed, of which the last one ends them.
fn put(cpu: usize, words: &[u32]) -> u64 {
    let address = PLAYGROUND + 0x3f_0000 + (cpu % MAX_CPUS) as u64 * LINE;
    for (place, word) in (address..).step_by(4).zip(words) {
        store(place, 4, (*word).into());
    }
    publish(address);
    address
}

fn run(cpu: usize, words: &[u32], random: &mut Random) -> ! {
    leap(put(cpu, words), random.value())
}

/// Maps what is not the program's own at random, and accesses it.
pub fn map_at_random(cpu: usize, random: &mut Random) {
    const PAGE: u64 = 0x1000;
    let [first, second, third] = &TABLES[cpu % MAX_CPUS];
    // The program, its devices beside.
    first.0[1].store(0x4000_0705, Ordering::Relaxed);
    let tables = [second.address() | 3, third.address() | 3];
    // What leads out of the guest's memory stops it, once it is accessed.
    let is_wild = random.once_in(16);
    let any = random.below(512);
    for index in [0, 2, 3, any as usize] {
        let entry = if is_wild { random.value() & !3 | random.below(4) } else { tables[0] };
        if index != 1 {
            first.0[index].store(entry, Ordering::Relaxed);
        }
    }
    for entry in &second.0 {
        let block = place(random, PAGE) & !0x1f_ffff | random.number() & 0xfc | 0x401;
        let other = if is_wild { random.number() } else { block };
        entry.store(random.one_of(&[block, tables[1], tables[1], 0, other]), Ordering::Relaxed);
    }
    for entry in &third.0 {
        let address = if is_wild { random.number() & 0xfff_f000 } else { place(random, PAGE) };
        let attributes = random.number() & 0x0060_0000_0000_0fc0;
        entry.store(address | attributes | random.one_of(&[3, 3, 3, 0]), Ordering::Relaxed);
    }
    machine::set_table(first.address());
    for _ in 0..random.below(16) {
        let address = random.one_of(&[0, 2, 3, any]) << 30 | random.below(1 << 30) & !7;
        if random.once_in(2) {
            load(address, 8);
        } else {
            store(address, 8, random.value());
        }
    }
}
