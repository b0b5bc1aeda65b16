//! The right to an address by the rules of RFC 5227 and RFC 4862.

use super::*;
use crate::neighbour::{Claim, Rules, Step};

/// Lets a claim go on until it has nothing to do. Returns each step with its milliseconds.
fn steps(claim: &mut Claim, random: u32) -> Vec<(u64, Step)> {
    let mut steps = Vec::new();
    while claim.deadline() != Instant::NEVER {
        let now = claim.deadline();
        assert_eq!(
            claim.poll(Instant(now.0.saturating_sub(1)), random).filter(|_| now.0 > 0),
            None,
            "nothing is done too early"
        );
        steps.extend(claim.poll(now, random).map(|step| (now.0 / 1000, step)));
    }
    steps
}

#[test]
fn arp_probes_three_times_then_announces_twice() {
    use Step::{Announce, Probe, Use};
    let mut claim = Claim::new(Rules::ARP, 0, seconds(1), 1 << 31);
    assert!(claim.is_tentative() && !claim.is_held());
    let expected = [(1500, Probe), (3000, Probe), (4500, Probe), (6500, Use), (6500, Announce), (8500, Announce)];
    assert_eq!(steps(&mut claim, 1 << 31), expected);
    assert!(claim.is_held());
}

#[test]
fn discovery_probes_once_and_announces_nothing() {
    let mut claim = Claim::new(Rules::DISCOVERY, 0, seconds(1), 0);
    assert_eq!(steps(&mut claim, 7), [(1000, Step::Probe), (2000, Step::Use)]);
    assert!(claim.is_held() && !claim.is_tentative());
}

#[test]
fn who_is_first_has_the_address() {
    for probes in 0..4 {
        let mut claim = Claim::new(Rules::ARP, 0, seconds(1), 0);
        for _ in 0..probes {
            assert_eq!(claim.poll(claim.deadline(), 0), Some(Step::Probe));
        }
        assert!(claim.conflict(claim.deadline()));
        assert!(!claim.is_held() && !claim.is_tentative());
        assert_eq!(claim.deadline(), Instant::NEVER);
        assert!(!claim.conflict(seconds(100)), "it is lost once");
    }
}

#[test]
fn many_conflicts_slow_the_next_attempt_down() {
    assert_eq!(Claim::new(Rules::ARP, 9, seconds(0), 0).deadline(), seconds(0));
    assert_eq!(Claim::new(Rules::ARP, 10, seconds(0), 0).deadline(), seconds(60));
}

#[test]
fn an_address_is_defended_once_in_ten_seconds_and_then_given_up() {
    let mut claim = Claim::new(Rules::ARP, 0, seconds(0), 0);
    steps(&mut claim, 0);
    assert!(!claim.conflict(seconds(100)));
    assert_eq!(steps(&mut claim, 0), [(100_000, Step::Announce)]);
    assert!(!claim.conflict(seconds(110)), "ten seconds later it is defended again");
    assert_eq!(steps(&mut claim, 0), [(110_000, Step::Announce)]);
    assert!(claim.conflict(seconds(119)));
    assert!(!claim.is_held());
}

#[test]
fn who_does_not_yield_defends_once_in_ten_seconds() {
    let mut claim = Claim::new(Rules { yields: false, ..Rules::ARP }, 0, seconds(0), 0);
    steps(&mut claim, 0);
    let mut announced = 0;
    for second in 100..200 {
        assert!(!claim.conflict(seconds(second)));
        announced += steps(&mut claim, 0).len();
    }
    assert_eq!(announced, 10);
    assert!(claim.is_held());
}

#[test]
fn an_ipv6_address_that_was_found_free_is_kept() {
    let mut claim = Claim::new(Rules::DISCOVERY, 0, seconds(0), 0);
    steps(&mut claim, 0);
    for second in 100..103 {
        assert!(!claim.conflict(seconds(second)));
        assert_eq!(steps(&mut claim, 0), []);
    }
    assert!(claim.is_held());
}
