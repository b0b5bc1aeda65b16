//! Fragments, and whom they follow.

use crate::make::{self, tuple, v4, v6};
use crate::tables::from;
use culm_flow::{Followed, Fragments, Key, Packet, TCP, Tuple, UDP};
use proptest::prelude::*;
use std::collections::BTreeMap;

fn new(packets: usize) -> Fragments {
    Fragments::new(Key([7, 8]), packets)
}

/// Bytes `from..until` of the payload of a packet of `tuple`, of 800 bytes.
fn part(tuple: &Tuple, from: usize, until: usize, identification: u16) -> Packet {
    let bytes = make::fragment(&make::packet(tuple, &[3; 792]), from, until, identification);
    Packet::read(&bytes).unwrap()
}

#[test]
fn later_fragments_follow_the_first() {
    let mut fragments = new(4);
    let (one, other) = (from(1, 1), from(2, 1));
    for (tuple, from, until, identification, followed) in [
        (one, 400, 800, 9, Followed::Unknown),
        (one, 0, 400, 9, Followed::Of(one)),
        (one, 400, 600, 8, Followed::Unknown),
        (other, 400, 600, 9, Followed::Unknown),
        (Tuple { protocol: TCP, ..one }, 400, 600, 9, Followed::Unknown),
        (one, 600, 800, 9, Followed::Of(one)),
        (one, 600, 800, 9, Followed::Repeated),
        (one, 400, 600, 9, Followed::Of(one)),
    ] {
        let packet = part(&tuple, from, until, identification);
        assert_eq!(fragments.follow(&packet, 0), followed, "{from}..{until} of {identification}");
    }
    let whole = Packet::read(&make::packet(&other, b"whole")).unwrap();
    assert_eq!((fragments.follow(&whole, 0), fragments.count()), (Followed::Of(other), 1));
}

#[test]
fn what_overlaps_ends_the_packet() {
    for (from_byte, until) in [(392, 600), (0, 408), (200, 600)] {
        let (mut fragments, tuple) = (new(4), from(1, 1));
        assert_eq!(fragments.follow(&part(&tuple, 0, 400, 9), 0), Followed::Of(tuple));
        assert_eq!(fragments.follow(&part(&tuple, from_byte, until, 9), 0), Followed::Overlapping);
        assert_eq!(fragments.follow(&part(&tuple, 600, 800, 9), 0), Followed::Overlapping);
    }
}

#[test]
fn there_is_one_end_and_one_beginning() {
    let (mut fragments, tuple) = (new(4), from(1, 1));
    let other_ports = Tuple { source_port: 2, ..tuple };
    fragments.follow(&part(&tuple, 0, 400, 9), 0);
    assert_eq!(fragments.follow(&part(&other_ports, 0, 400, 9), 0), Followed::Overlapping);
    fragments.follow(&part(&tuple, 0, 400, 10), 0);
    let longer = make::fragment(&make::packet(&tuple, &[3; 900]), 800, 908, 10);
    assert_eq!(fragments.follow(&part(&tuple, 600, 800, 10), 0), Followed::Of(tuple));
    assert_eq!(fragments.follow(&Packet::read(&longer).unwrap(), 0), Followed::Overlapping);
}

#[test]
fn a_packet_is_forgotten_after_its_time() {
    let (mut fragments, tuple) = (new(4), from(1, 1));
    fragments.follow(&part(&tuple, 0, 400, 9), 1000);
    assert_eq!(fragments.follow(&part(&tuple, 400, 600, 9), 30_999), Followed::Of(tuple));
    assert_eq!(fragments.follow(&part(&tuple, 600, 800, 9), 31_000), Followed::Unknown);
    assert_eq!(fragments.count(), 0);
}

/// Many packets may have had their time; one that comes anew is none of them.
#[test]
fn an_identification_can_be_used_again() {
    let (mut fragments, tuple) = (new(8), from(1, 1));
    for identification in 1..=6 {
        assert_eq!(fragments.follow(&part(&tuple, 0, 400, identification), 0), Followed::Of(tuple));
    }
    assert_eq!(fragments.follow(&part(&tuple, 0, 400, 6), 40_000), Followed::Of(tuple));
    assert_eq!(fragments.follow(&part(&tuple, 400, 800, 6), 40_000), Followed::Of(tuple));
}

/// RFC 8200 §4.5: of IPv6 all but the first fragment may name any next header.
#[test]
fn fragments_of_ipv6_are_told_apart_without_their_next_header() {
    let (mut fragments, tuple) = (new(8), tuple(UDP, (v6(1), 4000), (v6(2), 53)));
    let payload = make::udp(&tuple, &[3; 24])[40..].to_vec();
    let mut follow = |next: u8, field: u8, payload: &[u8]| {
        let bytes = [&[next, 0, 0, field, 0, 0, 0, 9], payload].concat();
        fragments.follow(&Packet::read(&make::ip(v6(1), v6(2), 44, 64, &bytes)).unwrap(), 0)
    };
    assert_eq!(follow(UDP, 1, &payload[..16]), Followed::Of(tuple));
    assert_eq!(follow(60, 16 | 1, &payload[16..24]), Followed::Of(tuple));
    assert_eq!(follow(132, 1, &payload[..16]), Followed::Overlapping, "two that begin");
    assert_eq!(follow(UDP, 24, &payload[24..]), Followed::Overlapping);
}

#[test]
fn one_sender_does_not_take_the_place_of_others() {
    let mut fragments = new(10);
    for source in 0..5 {
        fragments.follow(&part(&from(source, 1), 0, 400, 9), 0);
    }
    for identification in 0..5000 {
        fragments.follow(&part(&from(77, 1), 0, 400, identification), 1);
    }
    assert_eq!(fragments.count(), 10);
    for source in 0..5 {
        let tuple = from(source, 1);
        assert_eq!(fragments.follow(&part(&tuple, 400, 600, 9), 2), Followed::Of(tuple));
    }
    assert_eq!(new(0).follow(&part(&from(1, 1), 0, 400, 9), 0), Followed::Of(from(1, 1)));
}

/// What a naive receiver knows of a packet: which units of 8 bytes it has, and where it ends.
#[derive(Default)]
struct Model {
    units: BTreeMap<usize, ()>,
    end: Option<usize>,
    is_refused: bool,
}

proptest! {
    /// Unit by unit: none passes twice, none beyond the end, and none of a packet that overlaps.
    #[test]
    fn no_byte_passes_twice(steps in prop::collection::vec((0..99_usize, 1..30_usize), 1..60)) {
        let tuple = tuple(UDP, (v4([10, 0, 0, 1]), 1), (v4([10, 0, 0, 2]), 2));
        let (mut fragments, mut model) = (new(4), Model::default());
        for (from, count) in std::iter::once((0, 2)).chain(steps) {
            let until = (from + count).min(100);
            let followed = fragments.follow(&part(&tuple, from * 8, until * 8, 9), 0);
            let had = (from..until).filter(|unit| model.units.contains_key(unit)).count();
            let is_last = until == 100;
            let beyond = model.end.is_some_and(|end| until > end || is_last && until != end);
            model.is_refused |= beyond || had != 0 && had != until - from;
            let expected = match (model.is_refused, had) {
                (true, _) => Followed::Overlapping,
                (false, 0) => Followed::Of(tuple),
                (false, _) => Followed::Repeated,
            };
            if followed == Followed::Scattered {
                let starts = |unit: &&usize| **unit == 0 || !model.units.contains_key(&(**unit - 1));
                prop_assert!(expected == Followed::Of(tuple) && model.units.keys().filter(starts).count() == 8);
                continue;
            }
            prop_assert_eq!(followed, expected);
            if followed == Followed::Of(tuple) {
                model.units.extend((from..until).map(|unit| (unit, ())));
                model.end = model.end.or(is_last.then_some(until));
            }
        }
    }
}
