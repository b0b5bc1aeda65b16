//! PCI devices that answer anything, and not twice the same.
//!
//! The input is what configuration space answers, register by register, as changes of a usual
//! device: an SD host controller, or a virtio disk. Preparing the device ends after few writes
//! whatever that is; where it is not refused, the last that was written to its command is no more
//! than what was planned, and its structures are among its registers.

#![no_main]

#[path = "../common/input.rs"]
mod input;

use culm_pci::virtio::Structures;
use culm_pci::{ConfigSpace, Function, Planned, capabilities, keeps, prepare, silence};
use input::Input;
use libfuzzer_sys::fuzz_target;
use std::cell::RefCell;

/// More writes than a bus of bridges, each of which is turned off and holds what is behind it in
/// reset, and one planned device can need.
const WRITES: usize = 2 * 256 + 100;

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

/// Checks structures that were let pass: the driver lets them pass too, and no doorbell is beyond
/// the registers.
fn check(structures: Option<Structures>, size: u64) {
    let Some(structures) = structures else { return };
    assert_eq!(Structures::from_words(structures.words(), size), Some(structures));
    let doorbells = (0..=u16::MAX).step_by(257).filter_map(|number| structures.doorbell(number));
    doorbells.for_each(|offset| assert!(u64::from(offset) + 2 <= size && offset.is_multiple_of(2)));
}

fuzz_target!(|bytes: &[u8]| {
    let mut input = Input::new(bytes);
    let head = input.byte();
    let (is_master, is_disk) = (head & 1 != 0, head & 2 != 0);
    let mut registers = [0; 64];
    for (offset, value) in
        [(0, 0x0007_1b36), (4, 7 | 1 << 20), (8, 0x0805_0100), (0x18, 0xc), (0x34, 0x40), (0x3c, 0x100), (0x40, 0x11)]
    {
        registers[offset / 4] = value;
    }
    if is_disk {
        registers[0] = 0x1042_1af4;
        // Common configuration, doorbells, causes, own configuration; the second has a multiplier.
        for (index, offset) in [0, 0x3000, 0x1000, 0x2000].into_iter().enumerate() {
            let (at, next) = (0x10 + 5 * index, if index < 3 { 0x54 + 20 * index as u32 } else { 0 });
            let head = (index as u32 + 1) << 24 | 20 << 16 | next << 8 | 9;
            registers[at..at + 5].copy_from_slice(&[head, 2, offset, 0x1000, 4]);
        }
    }
    let mut bus = Bus { registers, command: 0, writes: 0, input: RefCell::new(input) };
    let function = Function::new(3, 0).expect("a bus has it");
    let address = 0x1000_0000;
    let (vendor, product, bar, size) = if is_disk { (0x1af4, 0x1042, 2, 0x4000) } else { (0x1b36, 7, 0, 0x100) };
    let planned = Planned { function, vendor, product, bar, address, size, is_master };
    silence(&mut bus, &[function]);
    let prepared = prepare(&mut bus, &planned, (0x2000_0000, 0x1000_0000));
    let allowed = if is_master { 6 } else { 2 };
    assert_eq!(bus.command & 7, if prepared.is_ok() { allowed } else { 0 });
    assert!(bus.writes < WRITES, "{} writes", bus.writes);
    if let Ok(extras) = prepared {
        assert_eq!(extras.structures.is_some(), is_disk);
        check(extras.structures, size);
    }
    let writes = bus.writes;
    keeps(&bus, &planned);
    let mut count = 0;
    capabilities(&bus, function, |_, _| count += 1);
    assert!(count <= 48 && writes == bus.writes);
});
