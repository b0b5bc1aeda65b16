//! Vector registers: each that may use them finds what it left there, or zero after a restart, and
//! they move only from one to another.
#![cfg(not(loom))]

mod common;

use common::{Builder, Fake, VECTOR_MOVES, VECTORS};
use culm_abi::syscall::{RESTART, RESUME};
use culm_kernel_core::system::Command;
use proptest::prelude::*;
use std::collections::BTreeMap;

/// Uses the vector registers of a domain that runs: returns what they hold, and puts `value` there.
/// Returns `None` if it may not.
fn exchange(fake: &mut Fake, domain: u32, value: u64) -> Option<u64> {
    let (core, local) = fake.core(domain);
    // Where they have its content the entry code opens them by itself.
    if !core.domain(local).context.opens_vectors {
        assert_eq!(core.take_vectors()?, local);
    }
    let core = fake.system.domains[domain as usize].core;
    Some(VECTORS.with_borrow_mut(|cores| cores.insert(core, value)).unwrap_or_default())
}

/// How often the registers are stored or loaded while `action` goes on.
fn moves(action: impl FnOnce()) -> u32 {
    let before = VECTOR_MOVES.get();
    action();
    VECTOR_MOVES.get() - before
}

/// A supervisor and its children, all of one priority, on two cores. Each second child may use
/// vector registers.
fn family(children: u32) -> (Fake, Vec<u32>) {
    VECTORS.with_borrow_mut(BTreeMap::clear);
    let mut builder = Builder::default();
    let supervisor = builder.domain(0, 10);
    let mut ends = Vec::new();
    for child in 1..=children {
        let domain = builder.domain(u32::from(child > children / 2), 10);
        if child % 2 == 0 {
            builder.vectors(domain);
        }
        ends.push(builder.supervise(supervisor, domain));
    }
    (builder.build(), ends)
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

    /// Domains take turns in which they use the registers or do not; the supervisor restarts some.
    #[test]
    fn each_finds_what_it_left(
        turns in prop::collection::vec((0..2_u32, any::<bool>(), prop::option::weighted(0.3, 0..8_usize)), 1..200),
    ) {
        let (mut fake, ends) = family(8);
        let mut left = BTreeMap::new();
        for (turn, (core, uses, restarts)) in (1..).zip(turns) {
            let Some(running) = fake.runs(core) else { continue };
            if uses {
                let found = exchange(&mut fake, running, turn);
                prop_assert_eq!(found.is_some(), running != 0 && running % 2 == 0);
                if let Some(found) = found {
                    let expected = left.insert(running, turn).unwrap_or(0);
                    prop_assert_eq!(found, expected, "of domain {}", running);
                }
            }
            if let Some(child) = restarts.filter(|_| running == 0) {
                _ = fake.core(0).0.supervise(ends[child].into(), Command::Restart, RESTART);
                fake.deliver_ipis();
                left.remove(&(child as u32 + 1));
            }
            // A wait that is over at once: the next of the same priority has the core.
            fake.wait_until(running, 0);
        }
    }
}

#[test]
fn one_alone_moves_nothing() {
    let (mut fake, _) = family(2);
    assert_eq!(fake.runs(1), Some(2), "alone on its core");
    assert_eq!(moves(|| assert_eq!(exchange(&mut fake, 2, 7), Some(0))), 1, "loaded at first");
    let again = moves(|| {
        fake.wait_until(2, 0);
        assert_eq!(exchange(&mut fake, 2, 8), Some(7));
    });
    assert_eq!(again, 0);
}

#[test]
fn a_guest_has_them_until_a_domain_takes_them_and_takes_them_back() {
    VECTORS.with_borrow_mut(BTreeMap::clear);
    let mut builder = Builder::default();
    let (monitor, high) = (builder.domain(0, 30), builder.domain(0, 20));
    builder.vectors(high);
    let interrupt = builder.interrupt(high, 40);
    let (guest, end) = builder.virtual_cpu(monitor, 0, 10);
    let mut fake = builder.build();
    let core = |fake: &mut Fake| fake.core(guest).1;
    let local = core(&mut fake);
    fake.core(guest).0.domain(local).context.is_answered = true;
    _ = fake.core(monitor).0.supervise(end.into(), Command::Resume, RESUME);
    fake.wait(monitor, 0);
    if fake.runs(0) == Some(monitor) {
        fake.wait(monitor, 0);
    }
    fake.wait(high, 0);
    assert_eq!(fake.runs(0), Some(guest));
    let lacks = |fake: &mut Fake| fake.core(guest).0.domain(local).context.lacks_vectors;
    assert!(!lacks(&mut fake), "what the machine begins with is its own");
    VECTORS.with_borrow_mut(|cores| cores.insert(0, 77));
    for round in 1..4 {
        _ = fake.core(high).0.interrupt(40);
        assert_eq!(fake.runs(0), Some(high));
        assert!(round > 1 || !lacks(&mut fake), "nobody has used them yet");
        assert_eq!(exchange(&mut fake, high, round), Some(round - 1));
        assert!(lacks(&mut fake));
        fake.wait(high, 1 << interrupt);
        assert_eq!(fake.runs(0), Some(guest));
        assert_eq!(moves(|| assert_eq!(exchange(&mut fake, guest, 77), Some(77))), 2);
        assert!(!lacks(&mut fake));
    }
}
