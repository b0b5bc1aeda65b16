//! A hostile guest: exits of any kind, list registers with any content, bytes from outside at any
//! time, on any of its CPUs. Its machine deals with each, and offers no interrupt twice.

#![no_main]

#[path = "../common/input.rs"]
mod input;

use culm_abi::guest::{LIST_REGISTERS, MAX_CPUS};
use culm_guest::exit::Exit;
use culm_guest::virtio::Devices;
use culm_guest::{Machine, Registers};
use input::Input;
use libfuzzer_sys::fuzz_target;
use std::cell::Cell;

/// Registers that all hold one value.
struct Same(Cell<u64>);

impl Registers for Same {
    fn read(&self, general: u8) -> u64 {
        assert!(general < 31, "the zero register is none");
        self.0.get()
    }
    fn write(&self, general: u8, value: u64) {
        assert!(general < 31, "the zero register is none");
        self.0.set(value);
    }
    fn pass(&self) {}
}

fn word(input: &mut Input<'_>) -> u64 {
    input.bytes(8).iter().fold(0, |word, byte| word << 8 | u64::from(*byte))
}

/// The interrupts in these list registers.
fn numbers(registers: &[u64; LIST_REGISTERS]) -> Vec<u64> {
    registers.iter().filter(|register| **register >> 62 != 0).map(|register| register & 0xffff_ffff).collect()
}

fuzz_target!(|bytes: &[u8]| {
    let mut input = Input::new(bytes);
    let cpus = usize::from(input.byte()) % MAX_CPUS + 1;
    let mut machine = Machine::new(cpus, Devices::default());
    let mut offered = [[0; LIST_REGISTERS]; MAX_CPUS];
    let mut untaken: [Vec<u64>; MAX_CPUS] = Default::default();
    while !input.is_over() {
        let cpu = usize::from(input.byte()) % cpus;
        for added in std::mem::take(&mut untaken[cpu]) {
            machine.controller.take_back(cpu, added);
        }
        let registers = std::array::from_fn::<_, LIST_REGISTERS, _>(|_| word(&mut input));
        machine.controller.collect(cpu, &registers, word(&mut input));
        let exit = Exit::decode(word(&mut input), word(&mut input), word(&mut input));
        machine.exit(cpu, exit, &Same(Cell::new(word(&mut input))));
        for _ in 0..input.byte() % 4 {
            machine.serial.receive(input.byte());
            machine.serial.take_sent();
        }
        machine.follow_devices(|_, _| {});
        // Others are in the guest: what has become pending for them is added, and the kernel has a
        // place for it or not.
        for other in (0..cpus).filter(|other| *other != cpu) {
            while let Some(added) = machine.controller.add(other) {
                assert!((16..64).contains(&(added & 0xffff_ffff)), "interrupt {added:#x} is added");
                let is_new = !numbers(&offered[other]).contains(&(added & 0xffff_ffff));
                match offered[other][1..].iter_mut().find(|register| **register >> 62 == 0) {
                    Some(free) if is_new => *free = added,
                    _ if is_new => untaken[other].push(added),
                    _ => {}
                }
            }
            machine.controller.must_leave(other);
        }
        offered[cpu] = machine.controller.offer(cpu).registers;
        assert!(!machine.controller.must_leave(cpu), "a CPU goes on only to leave at once");
        let own = numbers(&offered[cpu]);
        for (index, number) in own.iter().enumerate() {
            assert!(*number < 64, "interrupt {number}");
            assert!(!own[..index].contains(number), "interrupt {number} is offered twice");
        }
        let mut shared: Vec<u64> = offered[..cpus].iter().flat_map(numbers).filter(|number| *number >= 32).collect();
        shared.sort_unstable();
        assert!(shared.windows(2).all(|pair| pair[0] != pair[1]), "two CPUs have one interrupt: {shared:?}");
    }
});
