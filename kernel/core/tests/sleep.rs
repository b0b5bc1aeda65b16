//! Cores that sleep: whom an interrupt wakes, and whom a deadline. Each scenario runs by the fast
//! paths and without them.
#![cfg(not(loom))]

mod common;

use common::{Builder, Fake, Seen};
use culm_abi::syscall::{BadCall, NEVER};
use std::sync::atomic::Ordering;

/// Two drivers, of which the second has the higher priority, and a client of the first.
struct Machine {
    client: u32,
    drivers: [u32; 2],
    /// The first driver's end of the channel to its client.
    to_client: u32,
    /// The drivers' ends by which they ask for their interrupts.
    lines: [u32; 2],
    fake: Fake,
}

const NUMBERS: [u32; 2] = [40, 41];

/// All domains wait, with no deadline.
fn machine(fast: bool) -> Machine {
    let mut builder = Builder::default();
    let client = builder.domain(0, 10);
    let drivers = [builder.domain(0, 20), builder.domain(0, 30)];
    let (to_client, _) = builder.channel(drivers[0], client);
    let lines = [0, 1].map(|index| builder.interrupt(drivers[index], NUMBERS[index]));
    let mut fake = builder.build();
    fake.fast_path = fast;
    for domain in [drivers[1], drivers[0], client] {
        fake.wait(domain, 0);
    }
    assert_eq!(fake.runs(0), None);
    Machine { client, drivers, to_client, lines, fake }
}

/// The devices of these interrupts have one each.
fn interrupt(fake: &mut Fake, numbers: &[u32]) {
    let hardware = fake.cores[0].hardware();
    hardware.comes_together = true;
    hardware.storming = numbers.iter().copied().collect();
    fake.take_interrupts(0);
    fake.cores[0].hardware().storming.clear();
}

#[test]
fn a_device_wakes_its_driver_and_the_deadline_is_forgotten() {
    for fast in [true, false] {
        let Machine { drivers: [driver, _], lines, mut fake, .. } = machine(fast);
        interrupt(&mut fake, &NUMBERS[..1]);
        assert_eq!((fake.runs(0), fake.seen(driver)), (Some(driver), Seen::Notified(0, 1 << lines[0])));
        fake.wait_with(driver, 1 << lines[0], 500, 0);
        fake.pass(100);
        interrupt(&mut fake, &NUMBERS[..1]);
        assert_eq!((fake.runs(0), fake.seen(driver)), (Some(driver), Seen::Notified(0, 1 << lines[0])));
        fake.wait_with(driver, 1 << lines[0], NEVER, 0);
        fake.pass(1000);
        assert_eq!(fake.runs(0), None, "nobody waits for the time");
        let account = &fake.system.domain_accounts[driver as usize];
        assert_eq!((account.switches(), account.system_calls()), (3, 3));
        let core = &fake.system.core_accounts[0];
        assert_eq!((core.interrupts.load(Ordering::Relaxed), core.idle.load(Ordering::Relaxed)), (2, 1100));
    }
}

#[test]
fn a_deadline_ends_a_wait_that_left_the_core_asleep() {
    for fast in [true, false] {
        let Machine { client, drivers: [driver, _], to_client, lines, mut fake } = machine(fast);
        interrupt(&mut fake, &NUMBERS[..1]);
        fake.wait_with(driver, 1 << lines[0], 50, 0);
        fake.pass(49);
        assert_eq!(fake.runs(0), None);
        fake.pass(1);
        assert_eq!((fake.runs(0), fake.seen(driver)), (Some(driver), Seen::Notified(0, 0)));
        // A later one, in a turn that wakes the client; then an earlier one.
        for deadline in [300, 200] {
            if fake.runs(0).is_none() {
                interrupt(&mut fake, &NUMBERS[..1]);
            }
            fake.wait_with(driver, 1 << to_client | 1 << lines[0], deadline, 0);
            assert_eq!(fake.runs(0), Some(client));
            fake.wait(client, 0);
        }
        fake.pass(149);
        assert_eq!(fake.runs(0), None);
        fake.pass(1);
        assert_eq!((fake.runs(0), fake.seen(driver)), (Some(driver), Seen::Notified(0, 0)), "at 200, not at 300");
        fake.wait_with(driver, 1 << to_client, 200, 0);
        assert_eq!(fake.runs(0), Some(driver), "one that has passed ends the wait at once");
    }
}

#[test]
fn interrupts_that_come_together_are_taken_together() {
    for fast in [true, false] {
        let Machine { drivers, lines, mut fake, .. } = machine(fast);
        interrupt(&mut fake, &NUMBERS);
        assert_eq!(fake.runs(0), Some(drivers[1]), "the one of higher priority, though it came second");
        for index in [1, 0] {
            assert_eq!(fake.runs(0), Some(drivers[index]));
            assert_eq!(fake.seen(drivers[index]), Seen::Notified(0, 1 << lines[index]));
            fake.wait(drivers[index], 1 << lines[index]);
        }
        assert_eq!(fake.runs(0), None);
        assert_eq!(*fake.bench.enabled.borrow(), [NUMBERS[1], NUMBERS[0]]);
    }
}

#[test]
fn an_interrupt_of_a_driver_that_does_not_wait_stays_for_its_next_turn() {
    for fast in [true, false] {
        let mut builder = Builder::default();
        let (driver, server, supervisor) = (builder.domain(0, 10), builder.domain(0, 20), builder.domain(0, 30));
        let (at_driver, _) = builder.channel(driver, server);
        builder.supervise(supervisor, server);
        let line = builder.interrupt(driver, NUMBERS[0]);
        let mut fake = builder.build();
        fake.fast_path = fast;
        fake.wait(supervisor, 0);
        fake.wait(server, 0);
        fake.call(driver, at_driver, &[]);
        _ = fake.cores[0].refuse(BadCall::Number, 99);
        fake.wait(supervisor, 0);
        assert_eq!(fake.runs(0), None);
        interrupt(&mut fake, &NUMBERS[..1]);
        assert_eq!(fake.runs(0), None, "its call is not answered");
        assert!(fake.system.words[driver as usize].is_pending(), "line {line}");
    }
}
