//! A hostile guest: exits of any kind, list registers with any content, bytes from outside at any
//! time. Its machine deals with each, and offers no interrupt twice.

#![no_main]

#[path = "../common/input.rs"]
mod input;

use culm_abi::guest::LIST_REGISTERS;
use culm_guest::exit::Exit;
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

fuzz_target!(|bytes: &[u8]| {
    let mut input = Input::new(bytes);
    let mut machine = Machine::default();
    while !input.is_over() {
        machine.controller.collect(&std::array::from_fn::<_, LIST_REGISTERS, _>(|_| word(&mut input)));
        let exit = Exit::decode(word(&mut input), word(&mut input), word(&mut input));
        machine.exit(exit, &Same(Cell::new(word(&mut input))));
        for _ in 0..input.byte() % 4 {
            machine.serial.receive(input.byte());
            machine.serial.take_sent();
        }
        machine.follow_lines();
        let offered = machine.controller.offer();
        let numbers: Vec<u64> =
            offered.iter().filter(|register| *register >> 62 != 0).map(|register| register & 0xffff_ffff).collect();
        for (index, number) in numbers.iter().enumerate() {
            assert!(*number < 64, "interrupt {number}");
            assert!(!numbers[..index].contains(number), "interrupt {number} is offered twice");
        }
    }
});
