//! What gets through a wire that loses and reorders, in simulated time, beside what the protocol's
//! own arithmetic promises.

mod common;

use common::{Side, Wire, World, settings};
use culm_tcp::Algorithm;

/// Returns bytes a second of simulated time for `megabytes` over `wire`.
fn goodput(algorithm: Algorithm, megabytes: u64, wire: Wire) -> f64 {
    let mut sides = [0, 1].map(|number| {
        let mut settings = settings(number);
        settings.algorithm = algorithm;
        Side::new(usize::from(number), settings, 1024)
    });
    sides[0].to_send = megabytes << 20;
    let mut world = World::new(sides, wire, 1);
    world.open(0);
    let start = world.now;
    world.run_until(|world| world.sides[1].received == megabytes << 20).unwrap();
    let rate = (megabytes << 20) as f64 / ((world.now - start) as f64 / 1e6);
    println!("{algorithm:?} {wire:?}: {:.2} MB/s, {} segments", rate / 1e6, world.sides[0].sent_segments);
    rate
}

const WIRE: Wire = Wire {
    delay: 10_000,
    loses: 0,
    duplicates: 0,
    corrupts: 0,
    reorders: 0,
    overtakes: 0,
    marks: 0,
    lateness: 0,
    rate: 125_000_000,
    patience: 20_000,
    carries: 0,
    tells: false,
    shrinks_at: 0,
    losses_in_a_row: 1000,
};

/// Bytes a second that Reno can have at a loss of `p`: segment / round trip × √(3 / 2p), for an
/// acknowledgement each segment (Mathis, Semke, Mahdavi and Ott 1997).
fn promised(p: f64) -> f64 {
    1448.0 / 0.020 * (1.5 / p).sqrt()
}

#[test]
fn one_percent_of_loss_leaves_what_reno_promises() {
    let rate = goodput(Algorithm::Reno, 4, Wire { loses: 10, ..WIRE });
    assert!(rate > 0.75 * promised(0.01), "{rate} of {}", promised(0.01));
    let rate = goodput(Algorithm::Cubic, 4, Wire { loses: 10, ..WIRE });
    assert!(rate > 0.75 * promised(0.01), "{rate} of {}", promised(0.01));
}

#[test]
fn five_percent_of_loss_leaves_half_of_what_reno_promises() {
    // The formula knows no timeouts, which this much loss brings.
    let rate = goodput(Algorithm::Reno, 2, Wire { loses: 50, ..WIRE });
    assert!(rate > 0.5 * promised(0.05), "{rate} of {}", promised(0.05));
}

#[test]
fn reordering_and_duplicates_are_not_taken_for_losses() {
    let reordered = goodput(Algorithm::Reno, 6, Wire { reorders: 50, lateness: 4000, ..WIRE });
    assert!(reordered > 5e6, "{reordered}");
    let duplicated = goodput(Algorithm::Reno, 6, Wire { duplicates: 100, ..WIRE });
    assert!(duplicated > 15e6, "{duplicated}");
}

/// Where a segment overtakes all that is on the way, the others are late by half a round trip, and
/// the least round trip, of which the reordering window is made (RFC 8985, §6.2), is half of one.
#[test]
fn segments_that_overtake_all_others_are_no_losses() {
    let wire = Wire { rate: 8_000_000, patience: 2_000_000, ..WIRE };
    for algorithm in [Algorithm::Cubic, Algorithm::Reno] {
        let smooth = goodput(algorithm, 8, wire);
        let overtaken = goodput(algorithm, 8, Wire { overtakes: 50, ..wire });
        assert!(overtaken > 0.9 * smooth, "{overtaken} of {smooth}");
    }
}

#[test]
fn a_path_without_loss_is_filled() {
    let rate = goodput(Algorithm::Cubic, 12, WIRE);
    assert!(rate > 30e6, "{rate}");
}

/// RFC 1191, and RFC 4821 where routers say nothing.
#[test]
fn a_narrow_path_carries_shorter_segments() {
    let told = goodput(Algorithm::Cubic, 4, Wire { carries: 1240, tells: true, ..WIRE });
    assert!(told > 10e6, "{told}");
    let silent = goodput(Algorithm::Cubic, 4, Wire { carries: 1240, ..WIRE });
    assert!(silent > 1e6, "{silent}");
    let narrow = goodput(Algorithm::Cubic, 4, Wire { carries: 600, ..WIRE });
    assert!(narrow > 0.7e6, "{narrow}");
}
