//! The table of addresses.

use crate::Address;
use crate::table::{Heard, Table, WAYS};
use proptest::prelude::*;
use std::collections::BTreeMap;
use std::vec::Vec;

fn address(number: u32) -> Address {
    let [a, b, c, d] = number.to_be_bytes();
    [2, 0, a, b, c, d]
}

#[test]
fn a_station_is_found_where_it_was_last_heard() {
    let mut table = Table::new(64, 4, 300, [1, 2]);
    assert_eq!(table.hear(0, 1, address(1), 0), Heard::Learned);
    assert_eq!(table.hear(0, 1, address(1), 0), Heard::Known);
    assert_eq!(table.find(0, 1, address(1)), Some(0));
    assert_eq!(table.find(0, 2, address(1)), None, "of another VLAN");
    assert_eq!(table.hear(0, 1, address(1), 3), Heard::Moved(0));
    assert_eq!((table.find(0, 1, address(1)), table.count(0), table.count(3)), (Some(3), 0, 1));
}

#[test]
fn what_is_old_counts_for_nothing() {
    let mut table = Table::new(64, 4, 300, [1, 2]);
    table.hear(1000, 1, address(1), 0);
    assert_eq!(table.find(1300, 1, address(1)), Some(0));
    assert_eq!(table.find(1301, 1, address(1)), None);
    assert_eq!(table.find(900, 1, address(1)), Some(0), "time that goes back ages nobody");
    assert_eq!(table.hear(1301, 1, address(1), 2), Heard::Learned);
    table.hear(1301, 1, address(2), 2);
    (0..64).for_each(|_| table.sweep(1602));
    assert_eq!(table.count(2), 0);
}

/// Nobody sweeps while nothing comes: what became too old meanwhile takes no place from a station
/// that comes afterwards.
#[test]
fn a_full_part_of_old_stations_is_as_good_as_empty() {
    let mut table = Table::new(1024, 4, 300, [7, 8]);
    for number in 0.. {
        if table.count(0) == table.bound() {
            break;
        }
        table.hear(0, 1, address(number), 0);
    }
    let later = |number| table.hear(301, 1, address(number), 0);
    assert!((10_000..10_100).map(later).all(|heard| heard == Heard::Learned));
}

#[test]
fn a_flood_of_addresses_leaves_the_others_theirs() {
    let mut table = Table::new(1024, 4, 300, [7, 8]);
    (0..100).for_each(|number| assert_eq!(table.hear(0, 1, address(number), 1), Heard::Learned));
    for number in 1000..100_000 {
        table.hear(0, 1, address(number), 0);
    }
    assert_eq!((table.bound(), table.count(0) <= 256), (256, true));
    assert!((0..100).all(|number| table.find(0, 1, address(number)) == Some(1)));
    // Another port still finds places for most of what is its part.
    for number in 200_000..200_200 {
        table.hear(0, 1, address(number), 2);
    }
    assert!(table.count(2) >= 190, "{}", table.count(2));
}

#[test]
fn a_full_bucket_makes_room_for_who_has_less() {
    let mut table = Table::new(WAYS, 2, 300, [7, 8]);
    assert_eq!(table.bound(), WAYS as u32);
    for number in 0..WAYS as u32 {
        assert_eq!(table.hear(number, 1, address(number), 0), Heard::Learned);
    }
    assert_eq!(table.hear(8, 1, address(100), 0), Heard::Full);
    assert_eq!(table.hear(8, 1, address(101), 1), Heard::Learned);
    assert_eq!(table.find(8, 1, address(0)), None, "the oldest of who has most");
    for number in 102..105 {
        assert_eq!(table.hear(8, 1, address(number), 1), Heard::Learned);
    }
    assert_eq!(table.hear(8, 1, address(105), 1), Heard::Full, "both have half");
    table.forget(0);
    assert_eq!((table.count(0), table.count(1)), (0, 4));
    assert_eq!(table.hear(8, 1, address(105), 1), Heard::Learned);
}

#[derive(Clone, Debug)]
enum Step {
    Hear(u16, u32, usize),
    Wait(u32),
    Sweep,
    Forget(usize),
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        12 => (1_u16..3, 0_u32..60, 0_usize..3).prop_map(|(vlan, number, port)| Step::Hear(vlan, number, port)),
        2 => (0_u32..200).prop_map(Step::Wait),
        2 => Just(Step::Sweep),
        1 => (0_usize..3).prop_map(Step::Forget),
    ]
}

proptest! {
    /// Whatever is heard: the table knows nothing that a map without bounds would not know, knows
    /// what it says that it has learned until it has made room for others, and counts right.
    #[test]
    fn the_table_is_a_map_that_forgets(steps in prop::collection::vec(step(), 1..300), key: [u64; 2]) {
        let mut table = Table::new(32, 3, 300, key);
        let mut model = BTreeMap::<(u16, u32), (usize, u32)>::new();
        let mut now = 0;
        for step in steps {
            match step {
                Step::Hear(vlan, number, port) => {
                    let before = table.find(now, vlan, address(number));
                    let mut other = table.clone();
                    prop_assert_eq!(other.hear_again(now, vlan, address(number), port), before == Some(port));
                    let heard = table.hear(now, vlan, address(number), port);
                    model.insert((vlan, number), (port, now));
                    let found = table.find(now, vlan, address(number));
                    match heard {
                        Heard::Known => prop_assert_eq!((before, found), (Some(port), Some(port))),
                        Heard::Learned => prop_assert_eq!((before, found), (None, Some(port))),
                        Heard::Moved(from) => prop_assert_eq!((before, found), (Some(from), Some(port))),
                        Heard::Full => prop_assert_eq!(found, None),
                    }
                }
                Step::Wait(seconds) => now += seconds,
                Step::Sweep => table.sweep(now),
                Step::Forget(port) => {
                    table.forget(port);
                    model.retain(|_, (of, _)| *of != port);
                }
            }
            let mut known = [0_u32; 3];
            for ((vlan, number), (port, heard)) in &model {
                if let Some(found) = table.find(now, *vlan, address(*number)) {
                    prop_assert_eq!(found, *port);
                    prop_assert!(now - heard <= 300);
                    known[found] += 1;
                }
            }
            for (port, known) in known.into_iter().enumerate() {
                prop_assert!(known <= table.count(port) && table.count(port) <= table.bound());
            }
        }
        // Once all is swept, nothing counts that is not known.
        (0..8).for_each(|_| table.sweep(now));
        let known: Vec<usize> =
            model.keys().filter_map(|(vlan, number)| table.find(now, *vlan, address(*number))).collect();
        for port in 0..3 {
            prop_assert_eq!(known.iter().filter(|of| **of == port).count() as u32, table.count(port));
        }
    }
}
