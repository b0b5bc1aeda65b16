//! A flow that is exchanged for another at each moment of its being read.

use super::*;
use std::vec::Vec;

const ONE: usize = 1;
const OTHER: usize = 2;

/// Memory with one flow of UDP, whose addresses, tag and time all say `number`.
fn memory(number: usize) -> Vec<AtomicU64> {
    let memory: Vec<_> = (0..memory_words(1)).map(|_| AtomicU64::new(0)).collect();
    let records = Records::new(&memory, 1);
    records.clear_all();
    let address = |last: u8| IpAddr::V4(Ipv4Addr::new(10, 0, number as u8, last));
    let port = number as u16;
    let original =
        Tuple { protocol: 17, source: address(1), destination: address(2), source_port: port, destination_port: port };
    let tuples = [original, original.reversed()].map(|tuple| Packed::new(&tuple));
    records.write(0, tuples, State::BothWays, number as u64, number as u64, &<[Side; 2]>::default());
    memory
}

/// Reads what has the first flow's words until so many were read, and then the others'.
fn read(words: [&[AtomicU64]; 2], exchanged: usize) -> Option<Flow> {
    let mut count = 0;
    seen(|word| {
        let from = words[usize::from(count >= exchanged)];
        count += 1;
        from[HEADER + word].load(Relaxed)
    })
}

#[test]
fn a_flow_that_is_exchanged_while_it_is_read_is_seen_whole_or_not() {
    let (one, other) = (memory(ONE), memory(OTHER));
    let whole = |number: usize| Records::new(if number == ONE { &one } else { &other }, 1).checked(0, u64::MAX);
    let (first, second) = (whole(ONE).expect("it is whole"), whole(OTHER).expect("it is whole"));
    for exchanged in 0..RECORD + 8 {
        let flow = read([&one, &other], exchanged);
        assert!(flow.is_none() || flow == Some(first) || flow == Some(second), "after {exchanged}: {flow:?}");
    }
    assert_eq!((read([&one, &other], 0), read([&one, &other], RECORD + 2)), (Some(second), Some(first)));
}

/// Tests the moment at which the router has freed the slot, and written counts of the next flow.
#[test]
fn a_flow_that_goes_while_it_is_read_is_not_seen() {
    let (one, next) = (memory(ONE), memory(ONE));
    let first = Records::new(&one, 1).checked(0, u64::MAX);
    Records::new(&next, 1).count(0, Direction::Original, 1500);
    Records::new(&next, 1).clear(0);
    for exchanged in 0..=RECORD {
        assert_eq!(read([&one, &next], exchanged), None, "after {exchanged}");
    }
    assert_eq!(read([&one, &next], RECORD + 2), first);
}

#[test]
fn a_flow_whose_state_changes_while_it_is_read_is_seen() {
    let (one, next) = (memory(ONE), memory(ONE));
    Records::new(&next, 1).set_state(0, State::OneWay);
    for exchanged in 0..RECORD + 8 {
        assert!(read([&one, &next], exchanged).is_some(), "after {exchanged}");
    }
}
