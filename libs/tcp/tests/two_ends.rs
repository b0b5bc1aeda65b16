//! Two ends over a wire that loses, reorders, duplicates, delays and corrupts: every byte arrives
//! once and in order, nothing waits without a timer, and both ends come to CLOSED.

mod common;

use common::{Side, Wire, World, settings};
use culm_tcp::{Algorithm, Ending, Span};
use proptest::prelude::*;

/// What a case is made of besides the wire.
#[derive(Clone, Copy, Debug)]
struct Case {
    seed: u64,
    bytes: [u64; 2],
    capacity: [u32; 2],
    segment: [u16; 2],
    piece: [u32; 2],
    reads: [u32; 2],
    pause: [u32; 2],
    places: [usize; 2],
    is_cubic: bool,
    opens_twice: bool,
    train: u32,
    ecn: [bool; 2],
    first_capacity: [u32; 2],
}

fn any_wire() -> impl Strategy<Value = Wire> {
    (
        (0_u32..100_000, 0_u32..150, 0_u32..100, 0_u32..50, 0_u32..200, 0_u32..60_000, 0_u64..4),
        (prop_oneof![Just(0), 536_u16..1460], any::<bool>(), 0_u64..2_000_000, 0_u32..100, 0_u32..100),
    )
        .prop_map(|((delay, loses, duplicates, corrupts, reorders, lateness, rate), path)| Wire {
            marks: path.3,
            overtakes: path.4,
            shrinks_at: path.2,
            delay,
            loses,
            duplicates,
            corrupts,
            reorders,
            lateness,
            rate: [0, 100_000, 1_000_000, 10_000_000][rate as usize],
            patience: 50_000,
            carries: path.0,
            tells: path.1,
            losses_in_a_row: 3,
        })
}

fn any_case() -> impl Strategy<Value = Case> {
    let both = |range: std::ops::Range<u32>| [range.clone(), range];
    (
        (any::<u64>(), [0_u64..200_000, 0_u64..200_000], both(1..200_000), [500_u16..=1460, 500_u16..=1460]),
        (both(1..30_000), both(1..100_000), both(0..200_000), [1_usize..40, 1_usize..40]),
        (any::<bool>(), any::<bool>(), 1_u32..65_536, any::<[bool; 2]>(), both(0..20_000)),
    )
        .prop_map(|(first, second, third)| Case {
            seed: first.0,
            bytes: first.1,
            capacity: first.2,
            segment: first.3,
            piece: second.0,
            reads: second.1,
            pause: second.2,
            places: second.3,
            is_cubic: third.0,
            opens_twice: third.1,
            train: third.2,
            ecn: third.3,
            first_capacity: third.4,
        })
}

fn world(case: &Case, wire: Wire) -> World {
    let sides = [0, 1].map(|number| {
        let mut settings = settings(number as u16);
        // Longer than three timeouts: else a FIN that is lost so often finds nobody to answer it.
        settings.time_wait = Span::from_seconds(240);
        settings.capacity = case.capacity[number];
        (settings.ecn, settings.first_capacity) = (case.ecn[number], case.first_capacity[number]);
        settings.segment = case.segment[number];
        settings.longest_train = case.train;
        settings.algorithm = if case.is_cubic { Algorithm::Cubic } else { Algorithm::Reno };
        let mut side = Side::new(number, settings, case.places[number]);
        // What trickles through a window of a few bytes takes as many segments.
        side.to_send = case.bytes[number].min(u64::from(case.capacity[1 - number]) * 100);
        side.piece = case.piece[number].max((case.bytes[number] / 1000) as u32);
        side.reads = case.reads[number].max(case.capacity[number] / 100);
        side.pause = case.pause[number];
        side
    });
    World::new(sides, wire, case.seed)
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn every_byte_arrives_once_and_both_ends_close(case in any_case(), wire in any_wire()) {
        let mut world = world(&case, wire);
        world.open(0);
        if case.opens_twice {
            world.open(1);
        }
        if let Err(problem) = world.run(2_000_000) {
            prop_assert!(false, "{}", problem);
        }
        for number in 0..2 {
            prop_assert_eq!(world.sides[number].received, world.sides[1 - number].to_send);
            let ending = world.sides[number].connection.as_ref().and_then(|connection| connection.ending());
            prop_assert_eq!(ending, Some(Ending::Closed));
        }
    }
}

/// A path that carries six bytes less than a segment has with timestamps and blocks: the timeout
/// that shortens segments counts those options too.
#[test]
fn segments_get_shorter_where_only_their_options_are_too_much() {
    let case = Case {
        seed: 6489811422551351045,
        bytes: [7891, 4771],
        capacity: [4772, 1590],
        segment: [542, 542],
        piece: [51, 40],
        reads: [1, 114],
        pause: [0, 8913],
        places: [11, 13],
        is_cubic: false,
        opens_twice: false,
        train: 1,
        ecn: [false; 2],
        first_capacity: [2082, 269],
    };
    let wire = Wire {
        delay: 3343,
        loses: 25,
        duplicates: 0,
        corrupts: 0,
        reorders: 0,
        overtakes: 0,
        marks: 0,
        lateness: 0,
        rate: 0,
        patience: 50_000,
        carries: 536,
        tells: false,
        shrinks_at: 0,
        losses_in_a_row: 3,
    };
    let mut world = world(&case, wire);
    world.open(0);
    world.run(2_000_000).unwrap();
    for number in 0..2 {
        assert_eq!(world.sides[number].received, world.sides[1 - number].to_send);
    }
}
