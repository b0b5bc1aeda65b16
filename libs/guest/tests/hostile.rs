//! A guest that does anything: no exit is a panic, and what its machine offers it stays sound.

use culm_abi::guest::{DISTRIBUTOR, MAX_CPUS, SERIAL, TIMER_INTERRUPT, redistributors};
use culm_guest::controller::Offer;
use culm_guest::exit::Exit;
use culm_guest::virtio::Devices;
use culm_guest::{Machine, Outcome, Registers};
use proptest::prelude::*;
use std::cell::Cell;

/// Registers that hold what the guest likes.
struct Fake {
    value: Cell<u64>,
    /// How often an instruction was passed.
    passed: Cell<u32>,
}

impl Fake {
    fn with(value: u64) -> Self {
        Self { value: Cell::new(value), passed: Cell::new(0) }
    }
}

impl Registers for Fake {
    fn read(&self, general: u8) -> u64 {
        assert!(general < 31);
        self.value.get()
    }
    fn write(&self, general: u8, value: u64) {
        assert!(general < 31);
        self.value.set(value);
    }
    fn pass(&self) {
        self.passed.set(self.passed.get() + 1);
    }
}

/// Syndromes of all sorts, most of them of accesses to devices.
fn exits() -> impl Strategy<Value = (u64, u64, u64)> {
    let devices = prop_oneof![Just(DISTRIBUTOR), Just(redistributors(MAX_CPUS)), Just(SERIAL)];
    // Of the distributor: on and off, and what turns shared interrupts on or off, or makes them
    // pending or not.
    let offset = prop_oneof![any::<u64>(), prop::sample::select(&[0_u64, 0x104, 0x184, 0x204, 0x284][..])];
    let access = (devices, offset, any::<u32>(), any::<u64>()).prop_map(|(device, offset, bits, value)| {
        let address = device.address + offset % device.size;
        let syndrome = 0x24 << 26 | 1 << 24 | u64::from(bits) & 0xff_0040 | 0b000111;
        (syndrome, address, value)
    });
    let anything = any::<(u64, u64, u64)>();
    let register = (any::<u64>(), any::<u64>()).prop_map(|(bits, value)| (0x18 << 26 | bits & 0x1ff_ffff, 0, value));
    prop_oneof![8 => access, 1 => anything, 1 => register]
}

/// What becomes of a list register while a CPU is in the guest.
fn left(register: u64, what: u64) -> u64 {
    match (register >> 62, what % 4) {
        (_, 0) => register,
        // Ended, or handled: pending again if it was both.
        (0, _) | (_, 1) => 0,
        (state, 2) if state & 1 != 0 => register & !(1 << 62) | 1 << 63,
        _ => register & !(1 << 63),
    }
}

/// A step: a CPU takes an exception; what its registers are, and what became of its list registers.
fn steps() -> impl Strategy<Value = Vec<(usize, (u64, u64, u64), u64)>> {
    prop::collection::vec((0..MAX_CPUS, exits(), any::<u64>()), 1..200)
}

/// Checks what a CPU goes on with.
fn check(offer: &Offer) -> Result<(), TestCaseError> {
    let taken: Vec<_> = offer.registers.iter().enumerate().filter(|(_, register)| **register >> 62 != 0).collect();
    let number = |register: u64| register & 0xffff_ffff;
    for (index, (at, register)) in taken.iter().enumerate() {
        let number = number(**register);
        prop_assert!(number < 64 && (*at == 0) == (number < 16));
        prop_assert!(number != u64::from(TIMER_INTERRUPT), "the timer's is the kernel's");
        prop_assert_eq!(**register >> 61 & 1, 0, "no physical interrupt is the guest's to end");
        prop_assert!(taken[..index].iter().all(|(_, other)| **other & 0xffff_ffff != number), "offered twice");
    }
    prop_assert!(offer.generated >> 16 == 0 && offer.generated & !offer.enabled == 0);
    Ok(())
}

/// `mrc p14, 0, r0, c1, c0, 0`, say, which the guest's kernel cannot forbid its applications: the
/// register by which it would is not there.
#[test]
fn an_application_in_aarch32_does_not_stop_its_guest() {
    for class in [0x03_u64, 0x04, 0x05, 0x06, 0x0c] {
        let (mut machine, registers) = (Machine::new(1, Devices::default()), Fake::with(7));
        let outcome = machine.exit(0, Exit::decode(class << 26 | 1 << 25 | 1, 0, 0), &registers);
        assert_eq!((outcome, registers.value.get(), registers.passed.get()), (Outcome::Goes, 7, 1), "{class:#x}");
    }
}

proptest! {
    #[test]
    fn whatever_a_guest_does_its_machine_stays_sound(cpus in 1..=MAX_CPUS, steps in steps(), bytes in any::<u8>()) {
        let mut machine = Machine::new(cpus, Devices::default());
        let mut offers = [Offer::default(); MAX_CPUS];
        let mut untaken: [Vec<u64>; MAX_CPUS] = Default::default();
        for (cpu, (syndrome, address, value), what) in steps {
            let cpu = cpu % cpus;
            let registers = Fake::with(value);
            let found = offers[cpu].registers;
            let mut index = 0;
            let lists = found.map(|register| { index += 2; left(register, what >> index) });
            for added in std::mem::take(&mut untaken[cpu]) {
                machine.controller.take_back(cpu, added);
            }
            machine.controller.collect(cpu, &lists, what >> 32 & 0xffff);
            machine.exit(cpu, Exit::decode(syndrome, address, address >> 8), &registers);
            machine.serial.receive(bytes);
            while machine.serial.take_sent().is_some() {}
            machine.follow_devices(|_, _| {});
            // Others are in the guest: what has become pending for them is added, and the kernel
            // takes it or not.
            for other in (0..cpus).filter(|other| *other != cpu) {
                while let Some(added) = machine.controller.add(other) {
                    prop_assert!((16..64).contains(&(added & 0xffff_ffff)) && added >> 61 & 0b111 == 0b010);
                    let lists = &mut offers[other].registers;
                    let has_it = |list: &u64| list >> 62 != 0 && list & 0xffff_ffff == added & 0xffff_ffff;
                    match lists.iter().position(has_it) {
                        Some(index) => lists[index] |= added,
                        None if what & 1 != 0 && lists[1] >> 62 == 0 => lists[1] = added,
                        None => untaken[other].push(added),
                    }
                }
            }
            offers[cpu] = machine.controller.offer(cpu);
            check(&offers[cpu])?;
            // A CPU that had to leave with what it was just offered would never execute anything.
            prop_assert!(!machine.controller.must_leave(cpu), "it goes on for nothing");
            // No two CPUs have a shared interrupt at a time: two would handle it.
            let shared = |cpu: usize| offers[cpu].registers.into_iter().filter(|register| register >> 62 != 0 && register & 0xffff_ffff >= 32);
            let mut all: Vec<u64> = (0..cpus).flat_map(shared).map(|register| register & 0xffff_ffff).collect();
            all.sort();
            let many = all.len();
            all.dedup();
            prop_assert_eq!(all.len(), many, "two CPUs have one interrupt");
        }
    }
}
