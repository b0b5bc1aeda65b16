//! The check of the tables refuses whatever the kernel would index with and must not.
#![cfg(not(loom))]

mod common;

use common::Builder;
use culm_abi::syscall::Event;
use culm_abi::system::{DomainDescription, EndDescription, InterruptRoute, MIN_PERIOD, NONE, end_rights};
use culm_kernel_core::{BadTable, System};

/// Domains 0 (client), 1 (server, passive), 2 (supervisor of both, with an interrupt) on core 0,
/// and 3 on core 1.
fn sound() -> System<'static> {
    let mut builder = Builder::default();
    let (client, server, supervisor) = (builder.domain(0, 10), builder.domain(0, 20), builder.domain(0, 200));
    let far = builder.domain(1, 10);
    builder.passive(server);
    builder.supervise(supervisor, client);
    builder.supervise(supervisor, server);
    builder.interrupt(supervisor, 40);
    builder.channel(client, server);
    builder.channel(client, far);
    builder.system()
}

/// The place of a domain's end among all.
fn place(system: &System<'_>, domain: usize, number: u32) -> usize {
    (system.domains[domain].first_end + number) as usize
}

fn with_end(domain: usize, number: u32, change: impl Fn(&mut EndDescription)) -> Result<(), BadTable> {
    let mut system = sound();
    let mut ends = system.ends.to_vec();
    change(&mut ends[place(&system, domain, number)]);
    system.ends = &ends;
    system.check()
}

fn with_domain(index: usize, change: impl Fn(&mut DomainDescription)) -> Result<(), BadTable> {
    let mut system = sound();
    let mut domains = system.domains.to_vec();
    change(&mut domains[index]);
    system.domains = &domains;
    system.check()
}

fn with_route(number: usize, change: impl Fn(&mut InterruptRoute)) -> Result<(), BadTable> {
    let mut system = sound();
    let mut routes = system.routes.to_vec();
    change(&mut routes[number - 32]);
    system.routes = &routes;
    system.check()
}

#[test]
fn sound_tables_are_sound() {
    assert_eq!(sound().check(), Ok(()));
}

#[test]
fn an_interrupts_owner_and_route_agree() {
    for number in [0, 16, 31, 41, 1020, u32::MAX] {
        assert!(with_end(2, 2, |end| end.target = number).is_err(), "{number}");
    }
    assert!(with_end(2, 2, |end| end.rights = end_rights::NOTIFY).is_err());
    assert_eq!(with_route(40, |route| route.domain = 0), Err(BadTable("ends", place(&sound(), 2, 2))));
    assert!(with_route(40, |route| route.domain = 99).is_err());
    assert!(with_route(40, |route| route.domain = NONE).is_err());
    assert!(with_route(40, |route| route.bit = 1).is_err());
    assert!(with_route(40, |route| route.word = 0).is_err());
    assert!(with_route(41, |route| *route = InterruptRoute { domain: 2, flags: 0, word: 2, bit: 2 }).is_err());
    let mut system = sound();
    system.routes = &system.routes[1..];
    assert!(system.check().is_err());
}

#[test]
fn both_ends_of_a_channel_agree() {
    assert!(with_end(0, 0, |end| end.target = 3).is_err());
    assert!(with_end(0, 0, |end| end.target = 99).is_err());
    assert!(with_end(0, 0, |end| end.word = 99).is_err());
    assert!(with_end(0, 0, |end| end.word = 0).is_err(), "a word of another domain");
    assert!(with_end(0, 0, |end| end.bit = 5).is_err());
    assert!(with_end(0, 0, |end| end.bit = 63).is_err());
    assert!(with_end(0, 0, |end| end.event = Event::called(7).0).is_err());
    assert!(with_end(0, 0, |end| end.event = Event::notified(0).0).is_err());
    assert!(with_end(0, 0, |end| end.kind = 9).is_err());
    assert!(with_end(0, 0, |end| end.rights |= 1 << 5).is_err());
}

#[test]
fn calls_lead_upwards_on_one_core() {
    assert!(with_end(0, 0, |end| end.callee = 2).is_err());
    assert!(with_end(0, 0, |end| end.callee = NONE).is_err());
    assert!(with_end(1, 0, |end| (end.rights, end.callee) = (end_rights::CALL, 0)).is_err(), "downwards");
    assert!(with_end(0, 1, |end| (end.rights, end.callee) = (end_rights::CALL, 3)).is_err(), "another core");
    assert!(with_domain(1, |domain| domain.priority = 10).is_err(), "an equal");
}

#[test]
fn nobody_signals_a_passive_domain() {
    assert!(with_end(0, 0, |end| end.rights |= end_rights::NOTIFY).is_err());
    assert!(with_domain(2, |domain| domain.flags |= 1).is_err(), "it supervises, and has an interrupt");
    assert!(with_domain(1, |domain| (domain.budget, domain.period) = (1, MIN_PERIOD)).is_err());
}

#[test]
fn a_period_is_no_shorter_than_its_budget_and_than_what_the_kernel_bears() {
    let with_budget = |budget, period| with_domain(0, |domain| (domain.budget, domain.period) = (budget, period));
    assert!(with_budget(1, MIN_PERIOD).is_ok());
    assert!(with_budget(1, MIN_PERIOD - 1).is_err());
    assert!(with_budget(MIN_PERIOD + 1, MIN_PERIOD).is_err());
}

#[test]
fn a_supervisor_and_its_child_agree() {
    assert!(with_end(2, 0, |end| end.target = 3).is_err());
    assert!(with_end(2, 0, |end| end.target = 99).is_err());
    assert!(with_domain(0, |domain| domain.supervisor = 1).is_err());
    assert!(with_domain(0, |domain| domain.supervisor = NONE).is_err());
    assert!(with_domain(0, |domain| domain.supervisor_bit = 1).is_err());
    assert!(with_domain(0, |domain| domain.supervisor_word = 77).is_err());
}

#[test]
fn every_range_is_its_domains_own() {
    assert!(with_domain(1, |domain| domain.first_word = 0).is_err());
    assert!(with_domain(1, |domain| domain.first_end = 0).is_err());
    assert!(with_domain(1, |domain| domain.groups = 2).is_err());
    assert!(with_domain(3, |domain| domain.end_count = u32::MAX).is_err());
    assert!(with_domain(3, |domain| domain.first_end = u32::MAX).is_err());
    assert!(with_domain(1, |domain| domain.core = 1).is_err());
    assert!(with_domain(1, |domain| domain.priority = 256).is_err());
    let mut system = sound();
    let mut cores = system.cores.to_vec();
    cores[1].first_pending_word = 0;
    system.cores = &cores;
    assert_eq!(system.check(), Err(BadTable("cores", 1)));
}

/// A monitor and its virtual CPU, domain 1.
fn with_virtual_cpu(change: impl Fn(&mut [DomainDescription])) -> Result<(), BadTable> {
    let mut builder = Builder::default();
    let monitor = builder.domain(0, 20);
    builder.virtual_cpu(monitor, 0, 10);
    let mut system = builder.system();
    let mut domains = system.domains.to_vec();
    change(&mut domains);
    system.domains = &domains;
    system.check()
}

#[test]
fn a_virtual_cpu_is_below_its_monitor_and_has_nothing_else() {
    assert_eq!(with_virtual_cpu(|_| {}), Ok(()));
    let wrong = Err(BadTable("domains", 1));
    assert_eq!(with_virtual_cpu(|domains| domains[1].priority = 20), wrong);
    assert_eq!(with_virtual_cpu(|domains| domains[1].supervisor = NONE), Err(BadTable("ends", 0)));
    assert_eq!(with_virtual_cpu(|domains| domains[1].flags = culm_abi::system::domain_flags::MAY_HALT), wrong);
    assert_eq!(with_virtual_cpu(|domains| domains[1].vectors = 0), wrong);
    assert_eq!(with_virtual_cpu(|domains| domains[0].virtual_cpu = 0x1000), Err(BadTable("domains", 0)));
}

#[test]
fn a_core_has_one_virtual_cpu() {
    let mut builder = Builder::default();
    let monitor = builder.domain(0, 20);
    builder.virtual_cpu(monitor, 0, 10);
    let second = builder.domain(0, 10);
    builder.supervise(monitor, second);
    let mut system = builder.system();
    let mut domains = system.domains.to_vec();
    domains[second as usize].virtual_cpu = 0x1000;
    system.domains = &domains;
    assert_eq!(system.check(), Err(BadTable("domains", second as usize)));
}
