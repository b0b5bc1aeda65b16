//! A bus of fake devices, usual ones and such as nobody should build.

use super::*;
use proptest::prelude::*;

mod virtio;

extern crate std;
use std::vec;
use std::vec::Vec;

/// A function whose registers keep the bits that their masks let be written.
#[derive(Clone, Debug)]
struct Fake {
    function: Function,
    registers: [u32; 64],
    masks: [u32; 64],
}

#[derive(Clone, Debug, Default)]
struct Bus {
    functions: Vec<Fake>,
    writes: usize,
}

impl ConfigSpace for Bus {
    fn read(&self, function: Function, offset: u8) -> u32 {
        assert_eq!(offset % 4, 0);
        let found = self.functions.iter().find(|fake| fake.function == function);
        found.map_or(u32::MAX, |fake| fake.registers[offset as usize / 4])
    }

    fn write(&mut self, function: Function, offset: u8, value: u32) {
        assert_eq!(offset % 4, 0);
        self.writes += 1;
        if let Some(fake) = self.functions.iter_mut().find(|fake| fake.function == function) {
            let (register, mask) = (&mut fake.registers[offset as usize / 4], fake.masks[offset as usize / 4]);
            *register = *register & !mask | value & mask;
        }
    }
}

impl Bus {
    fn fake(&mut self, slot: u8) -> &mut Fake {
        let function = Function { slot, number: 0 };
        self.functions.iter_mut().find(|fake| fake.function == function).expect("a device")
    }

    fn command(&self, slot: u8) -> u32 {
        self.read(Function { slot, number: 0 }, register::COMMAND)
    }
}

/// A controller with 256 bytes of registers, a table for MSI-X of 16 KiB at a register of 64 bits,
/// and ports.
fn controller(slot: u8, number: u8) -> Fake {
    let mut fake = Fake { function: Function::new(slot, number).expect("a slot"), registers: [0; 64], masks: [0; 64] };
    let mut set = |offset: usize, value, mask| {
        fake.registers[offset / 4] = value;
        fake.masks[offset / 4] = mask;
    };
    set(0x00, 0x0007_1b36, 0);
    set(0x04, status::CAPABILITIES | 7, 0x407);
    set(0x08, 0x0805_0100, 0);
    set(0x10, 0, 0xffff_ff00);
    set(0x14, 1, 0xffe0);
    set(0x18, 0xc, 0xffff_c000);
    set(0x1c, 0, 0xffff_ffff);
    set(0x30, 1, 0xffff_0001);
    set(0x34, 0x40, 0);
    set(0x3c, 0x0100, 0xff);
    set(0x40, 0x8003_0000 | 0x5011, 0x8000_0000);
    set(0x50, 0x0001_0005, 1 << 16);
    fake
}

fn planned() -> Planned {
    let function = Function { slot: 3, number: 0 };
    let (vendor, product, address, size) = (0x1b36, 7, 0x1000_0000, 0x100);
    Planned { function, vendor, product, bar: 0, address, size, is_master: false }
}

const ASIDE: (u64, u64) = (0x2000_0000, 0x1000_0000);

fn bus() -> Bus {
    Bus { functions: vec![controller(3, 0)], writes: 0 }
}

/// Prepares a controller after `change`.
fn after(change: impl Fn(&mut Fake)) -> (Result<Extras, Refusal>, Bus) {
    let mut bus = bus();
    change(bus.fake(3));
    let found = prepare(&mut bus, &planned(), ASIDE);
    // Whether a bit of the command register is set that can be cleared at all.
    let is_on = bus.command(3) & bus.fake(3).masks[1] & 7 != 0;
    assert!(found.is_ok() || !is_on, "a refused device is on");
    (found, bus)
}

#[test]
fn a_planned_device_gets_its_address_and_no_more() {
    let (found, mut bus) = after(|_| {});
    assert_eq!(found, Ok(Extras { has_msi_x: true, aside: 1, structures: None }));
    assert_eq!(bus.command(3) & 0xffff, command::MEMORY, "no bus mastering, no ports");
    let registers = bus.fake(3).registers;
    assert_eq!(registers[4..8], [0x1000_0000, 1, 0x2000_000c, 0], "the addresses");
    assert_eq!(registers[0x30 / 4], 0, "the ROM is off");
    assert_eq!((registers[16] >> 31, registers[20] >> 16), (0, 0), "messages are off");
    assert!(keeps(&bus, &planned()));
}

#[test]
fn a_device_with_memory_of_its_own_is_a_master() {
    let mut bus = bus();
    let planned = Planned { is_master: true, ..planned() };
    prepare(&mut bus, &planned, ASIDE).expect("as planned");
    assert_eq!(bus.command(3) & 0xffff, command::MEMORY | command::MASTER);
    assert!(keeps(&bus, &planned));
    assert!(!keeps(&bus, &Planned { is_master: false, ..planned }));
}

#[test]
fn a_register_of_64_bits_takes_an_address_above_4_gib() {
    let high = Planned { bar: 2, address: 0x80_0000_4000, size: 0x4000, ..planned() };
    let mut found = bus();
    prepare(&mut found, &high, ASIDE).expect("as planned");
    assert_eq!(found.fake(3).registers[6..8], [0x4000 | 0xc, 0x80]);
    assert!(keeps(&found, &high));
    let low = Planned { address: 0x80_0000_0000, ..planned() };
    assert_eq!(prepare(&mut bus(), &low, ASIDE), Err(Refusal::Address(0)));
}

#[test]
fn what_is_not_as_planned_stays_off() {
    let refused = |change: fn(&mut Fake)| after(change).0.expect_err("not as planned");
    assert_eq!(prepare(&mut Bus::default(), &planned(), ASIDE), Err(Refusal::Absent));
    let other = Refusal::Other { vendor: 0x8086, product: 0x10d3, class: 0x08_0501 };
    assert_eq!(refused(|fake| fake.registers[0] = 0x10d3_8086), other);
    assert_eq!(refused(|fake| fake.registers[3] = 1 << 16), Refusal::Header(1));
    assert_eq!(refused(|fake| fake.masks[1] = 0), Refusal::Unruly);
    assert_eq!(refused(|fake| fake.masks[4] = 0xffff_f000), Refusal::Size { bar: 0, found: 0x1000 });
    assert_eq!(refused(|fake| fake.masks[4] = 0), Refusal::Bar(0));
    assert_eq!(refused(|fake| fake.masks[4] = 0x0fff_ff00), Refusal::Bar(0));
    assert_eq!(refused(|fake| fake.registers[4] = 1), Refusal::Bar(0));
    assert_eq!(refused(|fake| fake.registers[4] = 2), Refusal::Bar(0));
    assert_eq!(refused(|fake| fake.registers[9] = 4), Refusal::Bar(5));
    assert_eq!(refused(|fake| fake.masks[6] = 0xe000_0000), Refusal::Aside { bar: 2, found: 0x2000_0000 });
    assert_eq!(refused(|fake| fake.masks[6] = 0), Refusal::Aside { bar: 2, found: 1 << 32 });
    assert_eq!(refused(|fake| fake.registers[15] = 0), Refusal::Pin(0));
    assert_eq!(refused(|fake| fake.registers[15] = 0x200), Refusal::Pin(2));
    assert_eq!(refused(|fake| fake.registers[20] = 0x5005), Refusal::Capabilities);
    assert_eq!(refused(|fake| fake.registers[20] = 0x2005), Refusal::Capabilities);
    assert_eq!(refused(|fake| fake.masks[1] = 0x400), Refusal::Unruly);
}

/// Turned off, it cannot be turned on.
#[test]
fn a_device_that_takes_no_command_is_refused() {
    assert_eq!(
        after(|fake| {
            fake.registers[1] = 0;
            fake.masks[1] = 0x400;
        })
        .0,
        Err(Refusal::Command)
    );
}

#[test]
fn what_nobody_planned_is_turned_off() {
    let mut bus = bus();
    let mut several = controller(9, 0);
    several.registers[3] = SEVERAL_FUNCTIONS;
    let mut bridge = controller(0, 0);
    bridge.registers[2] = 0x0600_0000;
    bus.functions.extend([bridge, several, controller(9, 7), controller(31, 0)]);
    assert_eq!(silence(&mut bus, &[Function { slot: 3, number: 0 }]), Silenced { off: 3, unruly: 0 });
    for fake in &bus.functions {
        let is_left = [0, 3].contains(&fake.function.slot);
        assert_eq!(fake.registers[1] & 7, if is_left { 7 } else { 0 }, "{:?}", fake.function);
    }
}

/// A device of one function that answers for it under every number.
struct Echo(Bus);

impl ConfigSpace for Echo {
    fn read(&self, function: Function, offset: u8) -> u32 {
        self.0.read(Function { number: 0, ..function }, offset)
    }

    fn write(&mut self, function: Function, offset: u8, value: u32) {
        self.0.write(Function { number: 0, ..function }, offset, value);
    }
}

#[test]
fn a_device_that_answers_under_every_number_is_not_turned_off_by_the_others() {
    let mut echo = Echo(bus());
    assert_eq!(silence(&mut echo, &[planned().function]), Silenced::default());
    assert_eq!(echo.0.command(3) & 7, 7);
}

/// A device that says that it has one function, and has another.
#[test]
fn a_hidden_function_is_turned_off() {
    for is_kept in [true, false] {
        let mut bus = bus();
        let mut hidden = controller(3, 2);
        hidden.registers[0] = 0x1234_5678;
        bus.functions.push(hidden);
        let kept = [planned().function];
        assert_eq!(silence(&mut bus, if is_kept { &kept } else { &[] }).off, if is_kept { 1 } else { 2 });
        assert_eq!(bus.functions[1].registers[1] & 7, 0);
        assert_eq!(bus.command(3) & 7 != 0, is_kept);
    }
}

#[test]
fn a_bridge_holds_what_is_behind_it_in_reset() {
    let mut bus = bus();
    let bridge = bus.fake(3);
    (bridge.registers[3], bridge.masks[15]) = (1 << 16, 0xffff_00ff);
    assert_eq!(silence(&mut bus, &[]).off, 1);
    assert_eq!(bus.fake(3).registers[15], 1 << 22 | 0x0100);
}

#[test]
fn a_function_that_stays_on_is_told_of() {
    let mut bus = bus();
    bus.fake(3).masks[1] = 0x400;
    assert_eq!(silence(&mut bus, &[]), Silenced { off: 0, unruly: 1 });
}

#[test]
fn a_device_that_sleeps_is_woken() {
    let mut bus = bus();
    assert!(!wake(&mut bus, &planned()));
    let writes = bus.writes;
    assert_eq!(writes, 0, "one that is awake is only read");
    // Power management behind the last capability; asleep (D3), with events, and others to keep.
    let sleeper = bus.fake(3);
    (sleeper.registers[20], sleeper.registers[24], sleeper.registers[25]) = (0x6005, 0x0001, 0x8103);
    (sleeper.masks[25], sleeper.masks[20]) = (0x8103, 0);
    let other = Planned { product: 8, ..planned() };
    assert!(!wake(&mut bus, &other), "another device is left asleep");
    assert!(wake(&mut bus, &planned()));
    assert_eq!(bus.fake(3).registers[25], 0x100, "no event is cleared, and others stay enabled");
    assert!(!wake(&mut bus, &planned()));
}

#[test]
fn a_device_in_use_is_only_read() {
    let (_, bus) = after(|_| {});
    let writes = bus.writes;
    assert!(keeps(&bus, &planned()));
    assert_eq!(bus.writes, writes);
    let mut moved = bus.clone();
    moved.fake(3).registers[4] = 0x1000_0100;
    assert!(!keeps(&moved, &planned()));
    assert!(!keeps(&Bus::default(), &planned()));
}

#[test]
fn functions_are_where_the_window_has_them() {
    assert_eq!(Function::new(3, 1).map(Function::offset), Some(0x1_9000));
    assert_eq!(Function::new(31, 7).map(Function::offset), Some(BUS_BYTES - FUNCTION_BYTES));
    assert!(Function::new(32, 0).is_none() && Function::new(0, 8).is_none());
}

fn words() -> impl Strategy<Value = [u32; 64]> {
    prop::collection::vec(any::<u32>(), 64).prop_map(|words| words.try_into().expect("64"))
}

proptest! {
    /// A device with one thing changed at random is prepared as planned, or refused and off.
    #[test]
    fn a_damaged_device_is_refused_or_as_planned(index in 0..64_usize, value: u32, mask: u32) {
        let (found, mut bus) = after(|fake| {
            fake.registers[index] = value;
            fake.masks[index] = mask;
        });
        if found.is_ok() {
            prop_assert_eq!(bus.fake(3).registers[4] & !0xf, 0x1000_0000);
            prop_assert_eq!(bus.command(3) & 7, command::MEMORY);
        }
    }

    /// Devices of nothing but nonsense: each step ends, and few writes are made. Some say what is
    /// needed to come further: a header of a device, a command that can be written, the planned
    /// base address register, a list of capabilities.
    #[test]
    fn nonsense_ends(
        registers in words(),
        masks in words(),
        other in (words(), words(), 1..8_u8),
        sane in prop::collection::vec(any::<bool>(), 5),
    ) {
        let known = controller(3, 0);
        let mut function = Fake { registers, masks, ..known.clone() };
        for (range, is_sane) in [0..2, 3..4, 4..10, 13..14, 15..16].into_iter().zip(sane) {
            if is_sane {
                function.registers[range.clone()].copy_from_slice(&known.registers[range.clone()]);
                function.masks[range.clone()].copy_from_slice(&known.masks[range]);
            }
        }
        let (registers, masks, number) = other;
        let further = Fake { function: Function { slot: 3, number }, registers, masks };
        let mut bus = Bus { functions: vec![function, further], writes: 0 };
        silence(&mut bus, &[]);
        for fake in &bus.functions {
            let is_on = fake.registers[1] & fake.masks[1] & 7 != 0;
            prop_assert!(!is_on || is_absent(fake.registers[0]));
        }
        let identity = bus.read(planned().function, 0);
        let planned = Planned { vendor: identity as u16, product: (identity >> 16) as u16, ..planned() };
        let found = prepare(&mut bus, &planned, ASIDE);
        prop_assert!(bus.writes < 100);
        prop_assert!(found.is_err() || keeps(&bus, &planned));
        let mut count = 0;
        capabilities(&bus, planned.function, |_, _| count += 1);
        prop_assert!(count <= 48);
    }
}
