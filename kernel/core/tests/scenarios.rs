//! One scenario per rule of the kernel, each on a fake machine.
#![cfg(not(loom))]

mod common;

use common::{Builder, Fake, Seen};
use culm_abi::syscall::{BadCall, FaultKind, NEVER};
use culm_kernel_core::domain::State;
use culm_kernel_core::pending::Posted;
use culm_kernel_core::system::Command;
use std::sync::atomic::Ordering;

#[test]
fn the_highest_priority_runs_first_and_equals_in_order() {
    let mut builder = Builder::default();
    let low = builder.domain(0, 10);
    let first = builder.domain(0, 20);
    let second = builder.domain(0, 20);
    let mut fake = builder.build();
    for expected in [first, second, low] {
        assert_eq!(fake.runs(0), Some(expected));
        fake.wait(expected, 0);
    }
    assert_eq!(fake.runs(0), None);
}

#[test]
fn a_signal_wakes_a_higher_domain_at_once_and_a_lower_one_later() {
    let mut builder = Builder::default();
    let (high, low) = (builder.domain(0, 20), builder.domain(0, 10));
    let (at_high, at_low) = builder.channel(high, low);
    let mut fake = builder.build();
    fake.wait(high, 0);
    fake.signal(low, 1 << at_low);
    assert_eq!(fake.runs(0), Some(high));
    assert_eq!(fake.seen(high), Seen::Notified(0, 1 << at_high));
    fake.wait(high, 1 << at_high);
    fake.wait(low, 0);
    assert_eq!(fake.runs(0), Some(low), "the signal came before the wait and ends it");
    assert_eq!(fake.seen(low), Seen::Notified(0, 1 << at_low));
}

#[test]
fn signals_of_one_channel_merge_and_of_several_arrive_together() {
    let mut builder = Builder::default();
    let (receiver, sender) = (builder.domain(0, 10), builder.domain(0, 20));
    let first = builder.channel(sender, receiver);
    let second = builder.channel(sender, receiver);
    let mut fake = builder.build();
    fake.signal(sender, 1 << first.0);
    fake.signal(sender, 1 << first.0 | 1 << second.0);
    fake.wait(sender, 0);
    fake.wait(receiver, 0);
    assert_eq!(fake.seen(receiver), Seen::Notified(0, 1 << first.1 | 1 << second.1));
    fake.wait(receiver, 0);
    assert_eq!(fake.runs(0), None);
}

/// No bit is not bit 64, which a domain with so many ends has.
#[test]
fn a_signal_of_no_channel_reaches_nobody() {
    let mut builder = Builder::default();
    let (receiver, sender) = (builder.domain(0, 10), builder.domain(0, 20));
    let ends: Vec<_> = (0..70).map(|_| builder.channel(sender, receiver)).collect();
    assert!(ends.iter().any(|end| end.0 == 64));
    let mut fake = builder.build();
    fake.signal(sender, 0);
    fake.wait(sender, 0);
    fake.wait(receiver, 0);
    assert_eq!(fake.runs(0), None);
}

#[test]
fn channels_beyond_63_arrive_group_by_group() {
    let mut builder = Builder::default();
    let receiver = builder.domain(0, 10);
    let senders: Vec<_> = (0..130).map(|_| builder.domain(0, 20)).collect();
    let ends: Vec<_> = senders.iter().map(|sender| builder.channel(*sender, receiver)).collect();
    let mut fake = builder.build();
    for (sender, end) in senders.iter().zip(&ends) {
        fake.wait(*sender, 1 << end.0);
    }
    let mut got = vec![];
    for _ in 0..3 {
        fake.wait(receiver, 0);
        let Seen::Notified(group, set) = fake.seen(receiver) else { panic!("no notification") };
        got.extend((0..63).filter(|bit| set >> bit & 1 == 1).map(|bit| group * 63 + bit));
    }
    got.sort_unstable();
    assert_eq!(got, ends.iter().map(|end| end.1).collect::<Vec<_>>());
    fake.wait(receiver, 0);
    assert_eq!(fake.runs(0), None);
}

#[test]
fn a_call_carries_words_both_ways_and_nothing_more() {
    let mut builder = Builder::default();
    let (client, server) = (builder.domain(0, 10), builder.domain(0, 20));
    let (at_client, at_server) = builder.channel(client, server);
    let mut fake = builder.build();
    fake.wait(server, 0);
    fake.call(client, at_client, &[7, 8]);
    assert_eq!(fake.seen(server), Seen::Called(at_server, vec![7, 8]));
    fake.reply_wait(server, &[9]);
    assert_eq!(fake.runs(0), Some(client));
    assert_eq!(fake.seen(client), Seen::Replied(vec![9]));
    fake.call(client, at_client, &[]);
    assert_eq!(fake.seen(server), Seen::Called(at_server, vec![]));
    fake.reply_wait(server, &[]);
    assert_eq!(fake.seen(client), Seen::Replied(vec![]));
}

#[test]
fn a_callee_that_waits_instead_of_replying_is_stopped_and_no_caller_is_forgotten() {
    let mut builder = Builder::default();
    let (server, waker) = (builder.domain(0, 30), builder.domain(0, 40));
    let supervisor = builder.domain(0, 200);
    builder.supervise(supervisor, server);
    let clients = [builder.domain(0, 20), builder.domain(0, 10)];
    let ends = clients.map(|client| builder.channel(client, server).0);
    let (at_server, _) = builder.channel(server, waker);
    for fast in [true, false] {
        let mut fake = builder.clone().build();
        fake.fast_path = fast;
        for domain in [supervisor, waker, server] {
            fake.wait(domain, 0);
        }
        fake.call(clients[0], ends[0], &[1]);
        fake.wait(server, 1 << at_server);
        assert_eq!(fake.runs(0), Some(supervisor), "the server is at fault");
        let report = fake.system.shared[server as usize].fault();
        assert_eq!((report.kind, report.address), (FaultKind::SystemCall as u64, BadCall::Owed as u64));
        fake.wait(supervisor, 0);
        fake.call(clients[1], ends[1], &[2]);
        assert_eq!(fake.runs(0), None, "both callers wait for what the supervisor decides");
        fake.system.shared[server as usize].command(Command::Restart);
        assert_eq!(fake.system.pending_domains[0].post(server), Posted::First);
        _ = fake.cores[0].ipi();
        fake.wait(server, 0);
        assert_eq!(fake.seen(clients[0]), Seen::CalleeGone);
        fake.reply_wait(server, &[3]);
        assert_eq!(fake.seen(clients[1]), Seen::Replied(vec![3]));
    }
}

#[test]
fn callers_queue_up_while_the_callee_is_busy() {
    let mut builder = Builder::default();
    let server = builder.domain(0, 30);
    builder.budget(server, 10, 1000);
    let clients: Vec<_> = [21, 20].iter().map(|priority| builder.domain(0, *priority)).collect();
    let ends: Vec<_> = clients.iter().map(|client| builder.channel(*client, server)).collect();
    let mut fake = builder.build();
    fake.wait(server, 0);
    fake.call(clients[0], ends[0].0, &[1]);
    // The server runs out of its own budget in the middle of the first call; the second comes
    // meanwhile.
    fake.pass(10);
    fake.call(clients[1], ends[1].0, &[2]);
    assert_eq!(fake.runs(0), None);
    fake.pass(990);
    assert_eq!(fake.seen(server), Seen::Called(ends[0].1, vec![1]));
    fake.reply_wait(server, &[11]);
    assert_eq!(fake.seen(server), Seen::Called(ends[1].1, vec![2]));
    fake.reply_wait(server, &[22]);
    assert_eq!(fake.seen(clients[0]), Seen::Replied(vec![11]));
    assert_eq!(fake.seen(clients[1]), Seen::Replied(vec![22]));
}

#[test]
fn an_interrupt_is_delivered_once_until_it_is_enabled_again() {
    let mut builder = Builder::default();
    let driver = builder.domain(0, 20);
    let end = builder.interrupt(driver, 40);
    let mut fake = builder.build();
    fake.wait(driver, 0);
    _ = fake.cores[0].interrupt(40);
    assert_eq!(fake.seen(driver), Seen::Notified(0, 1 << end));
    assert!(fake.bench.enabled.borrow().is_empty());
    fake.wait(driver, 1 << end);
    assert_eq!(*fake.bench.enabled.borrow(), [40]);
    _ = fake.cores[0].interrupt(41);
    assert_eq!(fake.runs(0), None, "an interrupt that nobody owns wakes nobody");
}

/// A driver's usual turn: it has given something to the next component, and is ready for more.
#[test]
fn a_turn_that_notifies_and_asks_for_its_interrupts_again_does_both() {
    for fast_path in [true, false] {
        let mut builder = Builder::default();
        let (driver, reader) = (builder.domain(0, 20), builder.domain(0, 10));
        let (at_driver, at_reader) = builder.channel(driver, reader);
        let lines = [builder.interrupt(driver, 40), builder.interrupt(driver, 41)];
        let mut fake = builder.build();
        fake.fast_path = fast_path;
        fake.wait(driver, 0);
        fake.wait(reader, 0);
        for turn in 1..3 {
            _ = fake.cores[0].interrupt(40);
            assert_eq!(fake.seen(driver), Seen::Notified(0, 1 << lines[0]));
            fake.wait(driver, 1 << at_driver | 1 << lines[0] | 1 << lines[1]);
            assert_eq!(*fake.bench.enabled.borrow(), [40, 41].repeat(turn));
            assert_eq!((fake.runs(0), fake.seen(reader)), (Some(reader), Seen::Notified(0, 1 << at_reader)));
            fake.wait(reader, 0);
            assert_eq!(fake.runs(0), None);
        }
    }
}

#[test]
fn a_deadline_ends_a_wait_with_nothing_and_a_past_one_polls() {
    let mut builder = Builder::default();
    let domain = builder.domain(0, 20);
    let mut fake = builder.build();
    fake.wait_until(domain, 100);
    fake.pass(99);
    assert_eq!(fake.runs(0), None);
    fake.pass(1);
    assert_eq!(fake.runs(0), Some(domain));
    assert_eq!(fake.seen(domain), Seen::Notified(0, 0));
    fake.wait_until(domain, 50);
    assert_eq!(fake.runs(0), Some(domain));
}

#[test]
fn a_wait_that_is_over_at_once_lets_equals_go_first() {
    let mut builder = Builder::default();
    let (first, second, caller) = (builder.domain(0, 20), builder.domain(0, 20), builder.domain(0, 10));
    let end = builder.interrupt(first, 40);
    let (at_caller, _) = builder.channel(caller, first);
    let mut fake = builder.build();
    // A deadline that is past, as the components have it that have more to do.
    for _ in 0..3 {
        for turn in [first, second] {
            assert_eq!(fake.runs(0), Some(turn));
            fake.wait_until(turn, 0);
        }
    }
    // A signal that is pending.
    _ = fake.cores[0].interrupt(40);
    fake.wait(first, 0);
    assert_eq!(fake.runs(0), Some(second), "although a signal for the first is pending");
    fake.wait(second, 0);
    assert_eq!(fake.seen(first), Seen::Notified(0, 1 << end));
    fake.wait(first, 0);
    // Nobody of a lower priority goes first.
    fake.call(caller, at_caller, &[1]);
    fake.reply_wait_until(first, 0);
    assert_eq!(fake.runs(0), Some(first));
}

#[test]
fn a_later_deadline_replaces_an_earlier_one() {
    let mut builder = Builder::default();
    let (domain, waker) = (builder.domain(0, 20), builder.domain(0, 10));
    let (_, at_waker) = builder.channel(domain, waker);
    let mut fake = builder.build();
    fake.wait_until(domain, 100);
    fake.signal(waker, 1 << at_waker);
    fake.wait_until(domain, 300);
    fake.wait(waker, 0);
    fake.pass(299);
    assert_eq!(fake.runs(0), None);
    fake.pass(1);
    assert_eq!(fake.runs(0), Some(domain));
}

#[test]
fn a_budget_is_enforced_and_comes_back() {
    let mut builder = Builder::default();
    let (greedy, modest) = (builder.domain(0, 20), builder.domain(0, 10));
    builder.budget(greedy, 30, 100);
    let mut fake = builder.build();
    assert_eq!(fake.runs(0), Some(greedy));
    fake.pass(29);
    assert_eq!(fake.runs(0), Some(greedy));
    fake.pass(1);
    assert_eq!(fake.runs(0), Some(modest));
    fake.pass(69);
    assert_eq!(fake.runs(0), Some(modest));
    fake.pass(1);
    assert_eq!(fake.runs(0), Some(greedy));
    let ticks = |index: u32| fake.system.domain_accounts[index as usize].ticks.load(Ordering::Relaxed);
    assert_eq!((ticks(greedy), ticks(modest)), (30, 70));
    assert_eq!(fake.system.domain_accounts[greedy as usize].throttles.load(Ordering::Relaxed), 1);
}

#[test]
fn a_passive_callee_runs_on_its_callers_budget() {
    let mut builder = Builder::default();
    let (client, server, other) = (builder.domain(0, 10), builder.domain(0, 20), builder.domain(0, 5));
    builder.budget(client, 30, 100);
    builder.passive(server);
    let (at_client, _) = builder.channel(client, server);
    let mut fake = builder.build();
    fake.call(client, at_client, &[]);
    fake.wait(server, 0);
    assert_eq!(fake.runs(0), Some(server));
    fake.pass(30);
    assert_eq!(fake.runs(0), Some(other), "the caller's budget is used up, so its callee stops");
    fake.pass(70);
    assert_eq!(fake.runs(0), Some(server));
    fake.reply_wait(server, &[]);
    assert_eq!(fake.runs(0), Some(client));
}

#[test]
fn a_rule_broken_is_a_fault_that_the_supervisor_reads_and_mends() {
    let mut builder = Builder::default();
    let (supervisor, child) = (builder.domain(0, 200), builder.domain(0, 10));
    let end = builder.supervise(supervisor, child);
    let mut fake = builder.build();
    fake.wait(supervisor, 0);
    _ = fake.cores[0].wait(1 << 5, NEVER, 0);
    assert_eq!(fake.runs(0), Some(supervisor));
    assert_eq!(fake.seen(supervisor), Seen::Notified(0, 1 << end));
    let report = fake.system.shared[child as usize].fault();
    assert_eq!((report.kind, report.address), (FaultKind::SystemCall as u64, BadCall::Channel as u64));
    _ = fake.cores[0].read_fault(u64::from(end));
    assert_eq!(fake.seen(supervisor), Seen::Fault(FaultKind::SystemCall as u64));
    _ = fake.cores[0].supervise(u64::from(end), Command::Restart, 6);
    fake.wait(supervisor, 0);
    assert_eq!(fake.runs(0), Some(child));
    assert_eq!(fake.seen(child), Seen::Started);
    assert_eq!(fake.system.shared[child as usize].fault().kind, FaultKind::None as u64);
}

#[test]
fn the_hardware_is_told_of_who_stays_stopped_after_a_fault() {
    let mut builder = Builder::default();
    let (supervisor, child) = (builder.domain(0, 200), builder.domain(0, 10));
    let end = builder.supervise(supervisor, child);
    let mut fake = builder.build();
    _ = fake.cores[0].supervise(u64::from(end), Command::Stop, 7);
    assert!(fake.bench.given_up.borrow().is_empty(), "it has not faulted");
    _ = fake.cores[0].supervise(u64::from(end), Command::Restart, 6);
    fake.wait(supervisor, 0);
    assert_eq!(fake.runs(0), Some(child));
    _ = fake.cores[0].wait(1 << 5, NEVER, 0);
    assert!(fake.bench.given_up.borrow().is_empty(), "it may be restarted yet");
    _ = fake.cores[0].supervise(u64::from(end), Command::Stop, 7);
    assert_eq!(*fake.bench.given_up.borrow(), [child]);
}

#[test]
fn only_a_supervisor_supervises() {
    let mut builder = Builder::default();
    let (supervisor, child) = (builder.domain(0, 10), builder.domain(0, 20));
    builder.supervise(supervisor, child);
    let boss = builder.domain(0, 5);
    builder.supervise(boss, supervisor);
    let mut fake = builder.build();
    _ = fake.cores[0].supervise(0, Command::Stop, 7);
    let (core, local) = fake.core(child);
    assert_eq!(core.domain(local).state, State::Faulted);
}

#[test]
fn when_a_callee_restarts_its_client_learns_and_queued_callers_stay() {
    let mut builder = Builder::default();
    let supervisor = builder.domain(0, 200);
    let (first, second) = (builder.domain(0, 10), builder.domain(0, 9));
    let server = builder.domain(0, 20);
    let end = builder.supervise(supervisor, server);
    let (at_first, _) = builder.channel(first, server);
    let (at_second, served_second) = builder.channel(second, server);
    let mut fake = builder.build();
    fake.wait(supervisor, 0);
    fake.wait(server, 0);
    fake.call(first, at_first, &[1]);
    _ = fake.cores[0].refuse(BadCall::Number, 99);
    fake.wait(supervisor, 0);
    fake.call(second, at_second, &[2]);
    assert_eq!(fake.runs(0), None);
    // Somebody wakes the supervisor: its back-off has passed.
    let (core, local) = fake.core(supervisor);
    assert!(core.domain(local).state.waits());
    let (core, _) = fake.core(server);
    _ = core;
    let _ = end;
    fake.system.shared[server as usize].command(Command::Restart);
    assert_eq!(fake.system.pending_domains[0].post(server), Posted::First);
    _ = fake.cores[0].ipi();
    assert_eq!(fake.runs(0), Some(server));
    assert_eq!(fake.seen(first), Seen::CalleeGone);
    fake.wait(server, 0);
    assert_eq!(fake.seen(server), Seen::Called(served_second, vec![2]));
}

#[test]
fn a_stopped_callee_answers_every_caller_at_once() {
    let mut builder = Builder::default();
    let supervisor = builder.domain(0, 200);
    let (client, server) = (builder.domain(0, 10), builder.domain(0, 20));
    let end = builder.supervise(supervisor, server);
    let (at_client, _) = builder.channel(client, server);
    let mut fake = builder.build();
    _ = fake.cores[0].supervise(u64::from(end), Command::Stop, 7);
    fake.wait(supervisor, 0);
    fake.call(client, at_client, &[1]);
    assert_eq!(fake.runs(0), Some(client));
    assert_eq!(fake.seen(client), Seen::CalleeGone);
}

#[test]
fn cores_signal_each_other_with_one_interrupt_per_sleep() {
    let mut builder = Builder::default();
    let here = builder.domain(0, 10);
    let (there, busy) = (builder.domain(1, 20), builder.domain(1, 10));
    let (at_here, at_there) = builder.channel(here, there);
    let (to_busy, _) = builder.channel(here, busy);
    let mut fake = builder.build();
    fake.wait(there, 0);
    fake.signal(here, 1 << at_here);
    fake.signal(here, 1 << at_here);
    assert_eq!(*fake.bench.ipis.borrow(), [1], "the second signal finds the first under way");
    fake.deliver_ipis();
    assert_eq!(fake.runs(1), Some(there));
    assert_eq!(fake.seen(there), Seen::Notified(0, 1 << at_there));
    fake.signal(here, 1 << to_busy);
    assert!(fake.bench.ipis.borrow().is_empty(), "a domain that does not sleep needs no interrupt");
}

#[test]
fn a_supervisor_stops_and_restarts_across_cores() {
    let mut builder = Builder::default();
    let supervisor = builder.domain(0, 200);
    let child = builder.domain(1, 10);
    let end = builder.supervise(supervisor, child);
    let mut fake = builder.build();
    assert_eq!(fake.runs(1), Some(child));
    _ = fake.cores[0].supervise(u64::from(end), Command::Stop, 7);
    fake.deliver_ipis();
    assert_eq!(fake.runs(1), None);
    _ = fake.cores[0].supervise(u64::from(end), Command::Restart, 6);
    fake.deliver_ipis();
    assert_eq!(fake.runs(1), Some(child));
    assert_eq!(fake.seen(child), Seen::Started);
}

#[test]
#[should_panic(expected = "halted with status")]
fn a_fault_without_a_supervisor_halts_the_system() {
    let mut builder = Builder::default();
    builder.domain(0, 10);
    let mut fake = builder.build();
    _ = fake.cores[0].refuse(BadCall::Number, 99);
}

#[test]
fn each_start_has_a_seed_of_its_own() {
    let mut builder = Builder::default();
    let supervisor = builder.domain(0, 200);
    let child = builder.domain(0, 100);
    let end = builder.supervise(supervisor, child);
    let mut fake = builder.build();
    let seed = |fake: &mut Fake, domain: u32| {
        let (core, local) = fake.core(domain);
        core.domain(local).context.seed[0]
    };
    assert_eq!((seed(&mut fake, supervisor), seed(&mut fake, child)), (1, 2));
    _ = fake.cores[0].supervise(u64::from(end), Command::Restart, 6);
    assert_eq!(seed(&mut fake, child), 3);
}
