//! Virtio devices that say where their structures are, or lie about it.

use super::*;
use crate::virtio::{Name, Place, Structures, WORDS, find};

/// Bytes of the registers.
const SIZE: u64 = 0x4000;

fn planned() -> Planned {
    Planned { vendor: 0x1af4, product: 0x1042, bar: 4, size: SIZE, ..super::planned() }
}

/// A capability at `offset`: the next one's offset, the type, where the structure is, and the
/// multiplier.
struct Capability(u8, u8, u32, u32, u32);

/// A disk with these capabilities, one behind the other from 0x40 on, each with its multiplier.
fn disk(capabilities: &[Capability]) -> Bus {
    let mut fake = controller(3, 0);
    fake.registers[0] = 0x1042_1af4;
    (fake.registers[6], fake.masks[6], fake.registers[7], fake.masks[7]) = (0, 0, 0, 0);
    (fake.registers[8], fake.masks[8]) = (0xc, 0xffff_c000);
    (fake.registers[9], fake.masks[9]) = (0, u32::MAX);
    for (index, Capability(kind, bar, offset, size, multiplier)) in capabilities.iter().enumerate() {
        let at = 0x10 + 5 * index;
        let next = if index + 1 < capabilities.len() { 0x54 + 20 * index as u32 } else { 0 };
        let words = [u32::from(*kind) << 24 | 20 << 16 | next << 8 | 9, (*bar).into(), *offset, *size, *multiplier];
        fake.registers[at..at + 5].copy_from_slice(&words);
    }
    fake.masks[16..].fill(0);
    Bus { functions: vec![fake], writes: 0 }
}

/// The capabilities of QEMU's disk.
fn usual() -> [Capability; 5] {
    [
        Capability(1, 4, 0, 0x1000, 0),
        Capability(2, 4, 0x3000, 0x1000, 4),
        Capability(3, 4, 0x1000, 0x1000, 0),
        Capability(4, 4, 0x2000, 0x1000, 0),
        // Access by way of configuration space, which nobody needs.
        Capability(5, 0, 0, 0, 0),
    ]
}

fn structures() -> Structures {
    let place = |offset| Place { offset, size: 0x1000 };
    Structures {
        kind: 2,
        common: place(0),
        doorbells: place(0x3000),
        multiplier: 4,
        causes: place(0x1000),
        configuration: place(0x2000),
    }
}

/// Returns the structures that are found after `change`.
fn after(change: impl Fn(&mut [Capability; 5])) -> Result<Option<Structures>, Refusal> {
    let mut capabilities = usual();
    change(&mut capabilities);
    find(&disk(&capabilities), &planned())
}

#[test]
fn a_disks_structures_are_found() {
    let mut bus = disk(&usual());
    let extras = prepare(&mut bus, &planned(), ASIDE).expect("as planned");
    assert_eq!(extras.structures, Some(structures()));
    assert_eq!(Structures::from_words(structures().words(), SIZE), Some(structures()));
    assert_eq!(Structures::from_words(structures().words(), SIZE - 1), None);
    assert_eq!(find(&bus, &Planned { product: 0x1001, ..planned() }), Ok(None), "one with the legacy interface");
}

#[test]
fn the_first_structure_in_the_planned_registers_counts() {
    let found = after(|all| all[4] = Capability(1, 4, 0x800, 0x100, 0));
    assert_eq!(found, Ok(Some(structures())), "another one behind it");
    let found = after(|all| {
        all[4] = Capability(1, 4, 0x800, 0x100, 0);
        all[0].1 = 7;
    });
    let common = Place { offset: 0x800, size: 0x100 };
    assert_eq!(found, Ok(Some(Structures { common, ..structures() })), "one at a reserved register before it");
}

#[test]
fn a_device_that_lies_about_its_structures_is_refused() {
    for (index, name) in [Name::Common, Name::Doorbells, Name::Causes].into_iter().enumerate() {
        assert_eq!(after(|all| all[index].0 = 0), Err(Refusal::NoStructure(name)));
        assert_eq!(after(|all| all[index].1 = 2), Err(Refusal::NoStructure(name)), "of another register");
        assert_eq!(after(|all| all[index].3 = 0), Err(Refusal::Structure(name)));
    }
    for (index, name) in [Name::Common, Name::Doorbells, Name::Causes, Name::Configuration].into_iter().enumerate() {
        assert_eq!(after(|all| all[index].2 = SIZE as u32 - 0xff0), Err(Refusal::Structure(name)), "beyond the end");
        assert_eq!(after(|all| all[index].2 = !3), Err(Refusal::Structure(name)), "beyond all");
        assert_eq!(after(|all| all[index].3 = u32::MAX), Err(Refusal::Structure(name)));
        let is_possible = after(|all| all[index].2 += 1).is_ok();
        assert_eq!(is_possible, name == Name::Causes, "an odd place of {name:?}");
    }
    assert_eq!(after(|all| all[0].3 = 0x37), Err(Refusal::Structure(Name::Common)));
    let (bare, none) = (after(|all| all[3].0 = 0), Place::default());
    assert_eq!(bare, Ok(Some(Structures { configuration: none, ..structures() })), "not all kinds have one");
}

#[test]
fn a_capability_that_is_cut_short_is_none() {
    let mut bus = disk(&usual());
    bus.fake(3).registers[0x10 + 5] &= !0xff_0000 | 16 << 16;
    assert_eq!(find(&bus, &planned()), Err(Refusal::NoStructure(Name::Doorbells)), "it has no multiplier");
    let mut bus = disk(&usual());
    bus.fake(3).registers[0x10] &= !0xff_0000 | 12 << 16;
    assert_eq!(find(&bus, &planned()), Err(Refusal::NoStructure(Name::Common)));
    let mut bus = disk(&usual()[..1]);
    let words = [2 << 24 | 20 << 16 | 9, 4, 0x3000, 0x1000];
    bus.fake(3).registers[16] |= 0xf0 << 8;
    bus.fake(3).registers[60..].copy_from_slice(&words);
    assert_eq!(find(&bus, &planned()), Err(Refusal::NoStructure(Name::Doorbells)), "it ends with the space");
}

#[test]
fn a_queues_doorbell_is_among_the_doorbells() {
    let all = structures();
    assert_eq!((all.doorbell(0), all.doorbell(1), all.doorbell(0x3ff)), (Some(0x3000), Some(0x3004), Some(0x3ffc)));
    assert_eq!((all.doorbell(0x400), all.doorbell(u16::MAX)), (None, None));
    assert_eq!(Structures { multiplier: 0, ..all }.doorbell(u16::MAX), Some(0x3000), "one for all");
    assert_eq!(Structures { multiplier: u32::MAX, ..all }.doorbell(2), None);
    assert_eq!(Structures { multiplier: 3, ..all }.doorbell(1), None, "an odd one");
}

proptest! {
    /// Whatever a device or a component says, what passes is among the registers.
    #[test]
    fn what_passes_is_among_the_registers(
        registers in super::words(),
        likely in prop::collection::vec((0..7_u8, 3..6_u8, 0..0x5000_u32, 0..0x5000_u32, 0..9_u32), 0..7),
        words in prop::array::uniform5(any::<u64>()),
        number: u16,
    ) {
        let likely: Vec<_> = likely.iter().map(|all| Capability(all.0, all.1, all.2, all.3, all.4)).collect();
        let mut bus = disk(&likely);
        let mut nonsense = disk(&[]);
        nonsense.fake(3).registers[16..].copy_from_slice(&registers[16..]);
        nonsense.fake(3).registers[13] = registers[13];
        let told: [u64; WORDS] = words.map(|word| word & 0x3fff_0000_3fff);
        let heard = [words, told].map(|words| Structures::from_words(words, SIZE));
        let found = [&mut bus, &mut nonsense].map(|bus| find(bus, &planned()).ok().flatten());
        for all in heard.into_iter().chain(found).flatten() {
            for place in [all.common, all.doorbells, all.causes, all.configuration] {
                prop_assert!(u64::from(place.offset) + u64::from(place.size) <= SIZE);
            }
            prop_assert!(all.common.size >= 0x38 && all.common.offset.is_multiple_of(4));
            prop_assert!(all.configuration.offset.is_multiple_of(4));
            let doorbells = all.doorbells.offset..all.doorbells.offset + all.doorbells.size - 1;
            for offset in [number, number & 0xff, 0].into_iter().filter_map(|number| all.doorbell(number)) {
                prop_assert!(doorbells.contains(&offset) && offset.is_multiple_of(2));
            }
            prop_assert_eq!(Structures::from_words(all.words(), SIZE), Some(all));
        }
    }
}
