//! A guest that does anything: no exit is a panic, and what its machine offers it stays sound.

use culm_abi::guest::{DISTRIBUTOR, LIST_REGISTERS, REDISTRIBUTOR, SERIAL, TIMER_INTERRUPT};
use culm_guest::exit::Exit;
use culm_guest::{Machine, Registers};
use proptest::prelude::*;
use std::cell::Cell;

/// Registers that hold what the guest likes.
struct Fake {
    value: Cell<u64>,
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
    fn pass(&self) {}
}

/// Syndromes of all sorts, most of them of accesses to devices.
fn exits() -> impl Strategy<Value = (u64, u64, u64)> {
    let devices = prop_oneof![Just(DISTRIBUTOR), Just(REDISTRIBUTOR), Just(SERIAL)];
    let access = (devices, any::<u64>(), any::<u32>(), any::<u64>()).prop_map(|(device, offset, bits, value)| {
        let address = device.address + offset % device.size;
        let syndrome = 0x24 << 26 | 1 << 24 | u64::from(bits) & 0xff_0040 | 0b000111;
        (syndrome, address, value)
    });
    let anything = any::<(u64, u64, u64)>();
    let register = (any::<u64>(), any::<u64>()).prop_map(|(bits, value)| (0x18 << 26 | bits & 0x1ff_ffff, 0, value));
    prop_oneof![8 => access, 1 => anything, 1 => register]
}

proptest! {
    #[test]
    fn whatever_a_guest_does_its_machine_stays_sound(exits in prop::collection::vec(exits(), 1..200), bytes in any::<u8>()) {
        let mut machine = Machine::default();
        let mut offered = [0; LIST_REGISTERS];
        for (syndrome, address, value) in exits {
            let registers = Fake { value: Cell::new(value) };
            machine.controller.collect(&offered);
            machine.exit(Exit::decode(syndrome, address, address >> 8), &registers);
            machine.serial.receive(bytes);
            while machine.serial.take_sent().is_some() {}
            machine.follow_lines();
            offered = machine.controller.offer();
            let taken: Vec<u64> = offered.iter().copied().filter(|register| *register != 0).collect();
            for (index, register) in taken.iter().enumerate() {
                let number = register & 0xffff_ffff;
                let pending_or_active = register >> 62;
                prop_assert!(number < 64 && pending_or_active != 0);
                prop_assert!(number != u64::from(TIMER_INTERRUPT), "the timer's is the kernel's");
                prop_assert_eq!(register >> 61 & 1, 0, "no physical interrupt is the guest's to end");
                prop_assert!(taken[..index].iter().all(|other| other & 0xffff_ffff != number), "offered twice");
            }
        }
    }
}
