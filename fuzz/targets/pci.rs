//! PCI devices that answer anything, and not twice the same.
//!
//! The input is what configuration space answers, register by register, as changes of a usual
//! device. Preparing the device ends after few writes whatever that is; where it is not refused,
//! the last that was written to its command is no more than what was planned.

#![no_main]

#[path = "../common/input.rs"]
mod input;

use culm_pci::{ConfigSpace, Function, Planned, capabilities, keeps, prepare, silence};
use input::Input;
use libfuzzer_sys::fuzz_target;
use std::cell::RefCell;

/// More writes than a bus of silent devices and one planned device can need.
const WRITES: usize = 256 + 100;

/// A bus whose planned slot has registers that the input changes at each read.
struct Bus<'a> {
    registers: [u32; 64],
    command: u32,
    writes: usize,
    input: RefCell<Input<'a>>,
}

impl ConfigSpace for Bus<'_> {
    fn read(&self, _: Function, offset: u8) -> u32 {
        assert!(offset.is_multiple_of(4), "a register at {offset}");
        let mut input = self.input.borrow_mut();
        let usual = self.registers[usize::from(offset / 4)];
        match input.byte() {
            _ if input.is_over() => usual,
            1 => input.bytes(4).iter().fold(0, |word, byte| word << 8 | u32::from(*byte)),
            2 => usual ^ 1 << (input.byte() & 31),
            _ => usual,
        }
    }

    fn write(&mut self, _: Function, offset: u8, value: u32) {
        assert!(offset.is_multiple_of(4), "a register at {offset}");
        self.writes += 1;
        let mask = match offset {
            0x04 => {
                self.command = value;
                0x407
            }
            0x10 => 0xffff_ff00,
            0x18 => 0xffff_c000,
            0x1c => 0xffff_ffff,
            0x40 => 0x8000_0000,
            _ => 0,
        };
        let register = &mut self.registers[usize::from(offset / 4)];
        *register = *register & !mask | value & mask;
    }
}

fuzz_target!(|bytes: &[u8]| {
    let mut input = Input::new(bytes);
    let is_master = input.byte() & 1 != 0;
    let mut registers = [0; 64];
    for (offset, value) in
        [(0, 0x0007_1b36), (4, 7 | 1 << 20), (8, 0x0805_0100), (0x18, 0xc), (0x34, 0x40), (0x3c, 0x100), (0x40, 0x11)]
    {
        registers[offset / 4] = value;
    }
    let mut bus = Bus { registers, command: 0, writes: 0, input: RefCell::new(input) };
    let function = Function::new(3, 0).expect("a bus has it");
    let (address, size) = (0x1000_0000, 0x100);
    let planned = Planned { function, vendor: 0x1b36, product: 7, bar: 0, address, size, is_master };
    silence(&mut bus, &[function]);
    let prepared = prepare(&mut bus, &planned, (0x2000_0000, 0x1000_0000));
    let allowed = if is_master { 6 } else { 2 };
    assert_eq!(bus.command & 7, if prepared.is_ok() { allowed } else { 0 });
    assert!(bus.writes < WRITES, "{} writes", bus.writes);
    let writes = bus.writes;
    keeps(&bus, &planned);
    let mut count = 0;
    capabilities(&bus, function, |_, _| count += 1);
    assert!(count <= 48 && writes == bus.writes);
});
