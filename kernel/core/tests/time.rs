//! One scenario per rule of time: whose budget pays, who runs when it is used up, and what passive
//! domains may.
//!
//! The clock moves whenever it is read, as a real one does: an entry that took the time twice would
//! see two.
#![cfg(not(loom))]

mod common;

use common::{Builder, Fake, Seen};
use culm_abi::syscall::{BadCall, FaultKind, NEVER, WAIT};
use culm_kernel_core::domain::State;
use culm_kernel_core::pending::Posted;
use culm_kernel_core::system::Command;
use std::sync::atomic::Ordering;

fn build(builder: Builder) -> Fake {
    let fake = builder.build();
    fake.bench.pace.set(1);
    fake
}

fn ticks(fake: &Fake, domain: u32) -> u64 {
    fake.system.domain_accounts[domain as usize].ticks.load(Ordering::Relaxed)
}

/// A command of a supervisor on another core.
fn command(fake: &mut Fake, domain: u32, command: Command) {
    fake.system.shared[domain as usize].command(command);
    assert_eq!(fake.system.pending_domains[0].post(domain), Posted::First);
    _ = fake.cores[0].ipi();
}

/// A callee on its caller's budget wakes at its deadline while that caller computes: accounting
/// sees two times in one entry, unless that takes the time once.
#[test]
fn a_deadline_that_passes_while_its_budget_runs_is_booked_once() {
    let mut builder = Builder::default();
    let (client, other) = (builder.domain(0, 10), builder.domain(0, 5));
    let server = builder.domain(0, 20);
    builder.budget(client, 500, 1000);
    builder.budget(server, 400, 1000);
    let (at_client, _) = builder.channel(client, server);
    let mut fake = build(builder);
    fake.wait_until(server, 100);
    fake.pass(50);
    fake.call(client, at_client, &[]);
    fake.reply_wait_until(server, 100);
    fake.pass(200);
    assert_eq!(fake.runs(0), Some(server));
    fake.wait(server, 0);
    fake.pass(2000);
    assert!(ticks(&fake, client) <= 1100 && ticks(&fake, other) > 0);
    let all = ticks(&fake, client) + ticks(&fake, server) + ticks(&fake, other);
    assert!(all <= fake.bench.now.get(), "{all} ticks were booked");
}

#[test]
fn a_counter_that_steps_back_harms_nobody() {
    let mut builder = Builder::default();
    let (greedy, modest) = (builder.domain(0, 20), builder.domain(0, 10));
    builder.budget(greedy, 30, 100);
    let mut fake = build(builder);
    fake.pass(20);
    for _ in 0..5 {
        fake.signal(greedy, 0);
        fake.bench.now.set(fake.bench.now.get() - 2);
        _ = fake.cores[0].timer();
    }
    fake.pass(20);
    assert_eq!(fake.runs(0), Some(modest));
    fake.pass(100);
    assert!(ticks(&fake, greedy) <= 64 && ticks(&fake, modest) <= 100);
}

/// The fast paths, which a core without budgets takes, book time as well: none of it twice, none
/// for nobody.
#[test]
fn a_counter_that_steps_back_leaves_the_sum_of_accounts_right() {
    let mut builder = Builder::default();
    let (client, server) = (builder.domain(0, 10), builder.domain(0, 20));
    let (at_client, _) = builder.channel(client, server);
    let mut fake = build(builder);
    fake.wait(server, 0);
    let booked = |fake: &Fake| ticks(fake, client).wrapping_add(ticks(fake, server));
    let (begin, before) = (fake.bench.now.get(), booked(&fake));
    for _ in 0..5 {
        fake.bench.now.set(fake.bench.now.get() + 20);
        fake.call(client, at_client, &[]);
        fake.bench.now.set(fake.bench.now.get() - 10);
        fake.reply_wait(server, &[]);
        assert_eq!(booked(&fake) - before, fake.bench.now.get() - begin);
    }
    let fast = [client, server]
        .map(|domain| fake.system.domain_accounts[domain as usize].fast_switches.load(Ordering::Relaxed));
    assert_eq!(fast, [5; 2]);
}

/// A domain that ran out of budget in its own wait, and is woken, is throttled: nothing else may be
/// needed to bring it back than the timer.
#[test]
fn a_domain_that_is_woken_without_budget_comes_back_while_a_lower_one_runs_on() {
    let mut builder = Builder::default();
    let (driver, low) = (builder.domain(0, 100), builder.domain(0, 10));
    builder.budget(driver, 30, 100);
    builder.interrupt(driver, 40);
    let mut fake = build(builder);
    fake.bench.now.set(40);
    fake.wait(driver, 0);
    _ = fake.cores[0].interrupt(40);
    assert_eq!(fake.runs(0), Some(low));
    fake.pass(75);
    assert_eq!(fake.runs(0), Some(driver));
    assert_eq!(fake.seen(driver), Seen::Notified(0, 1));
}

/// A server and two clients of it; both have a budget. Below all, one without.
struct Shared {
    server: u32,
    clients: [u32; 2],
    ends: [u32; 2],
    other: u32,
    fake: Fake,
}

fn shared(budgets: [(u64, u64); 2]) -> Shared {
    let mut builder = Builder::default();
    let server = builder.domain(0, 50);
    builder.passive(server);
    let clients = [builder.domain(0, 20), builder.domain(0, 15)];
    let other = builder.domain(0, 10);
    for (client, (budget, period)) in clients.iter().zip(budgets) {
        builder.budget(*client, budget, period);
    }
    let ends = clients.map(|client| builder.channel(client, server).0);
    Shared { server, clients, ends, other, fake: build(builder) }
}

#[test]
fn a_passive_domain_does_not_run_before_it_is_called() {
    let Shared { server, clients, ends, mut fake, .. } = shared([(30, 100), (30, 100)]);
    assert_eq!(fake.runs(0), Some(clients[0]));
    fake.pass(10);
    assert_eq!(ticks(&fake, server), 0);
    fake.call(clients[0], ends[0], &[7]);
    assert_eq!(fake.runs(0), Some(server));
    assert_eq!(fake.seen(server), Seen::Started, "its first caller pays for its start");
    fake.wait(server, 0);
    assert_eq!(fake.seen(server), Seen::Called(0, vec![7]));
    fake.reply_wait(server, &[8]);
    assert_eq!(fake.seen(clients[0]), Seen::Replied(vec![8]));
}

#[test]
fn a_passive_domain_that_never_ends_its_start_takes_no_more_than_its_callers_budget() {
    let Shared { server, clients, ends, other, mut fake } = shared([(30, 100), (5, 1000)]);
    fake.call(clients[0], ends[0], &[]);
    fake.pass(1000);
    assert!((240..=340).contains(&ticks(&fake, server)), "{}", ticks(&fake, server));
    assert!(ticks(&fake, clients[1]) <= 12 && ticks(&fake, other) > 600);
}

#[test]
fn a_passive_domain_may_not_wait_for_a_time() {
    for replies in [false, true] {
        let Shared { server, clients, ends, mut fake, .. } = shared([(30, 100), (30, 100)]);
        fake.call(clients[0], ends[0], &[]);
        fake.wait(server, 0);
        let result = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
            if replies {
                fake.reply_wait_until(server, 50);
            } else {
                fake.reply_wait(server, &[]);
                fake.call(clients[0], ends[0], &[]);
                fake.reply_wait_until(server, 0);
            }
        }));
        assert!(result.is_err(), "nobody supervises it, so that the system halts");
        let report = fake.system.shared[server as usize].fault();
        assert_eq!((report.kind, report.address), (FaultKind::SystemCall as u64, BadCall::Deadline as u64));
    }
}

#[test]
fn a_call_whose_client_has_gone_is_finished_at_that_ones_expense() {
    let Shared { server, clients, ends, mut fake, .. } = shared([(30, 100), (30, 100)]);
    fake.call(clients[0], ends[0], &[]);
    fake.wait(server, 0);
    command(&mut fake, clients[0], Command::Stop);
    assert_eq!(fake.runs(0), Some(server));
    fake.pass(40);
    assert_eq!(fake.runs(0), Some(clients[1]), "the budget of the one that was stopped is used up");
    fake.pass(70);
    assert_eq!(fake.runs(0), Some(server));
    fake.reply_wait(server, &[]);
    fake.pass(1000);
    assert_eq!(fake.domain_state(server), State::Waiting);
}

/// The callee ends one client's call and begins with the next without leaving the core.
#[test]
fn each_call_is_booked_to_its_own_client() {
    let Shared { server, clients, ends, other, mut fake } = shared([(30, 100_000), (30, 100_000)]);
    fake.call(clients[0], ends[0], &[]);
    fake.wait(server, 0);
    fake.pass(20);
    // The second client comes while the first is served: only an interrupt could bring that about,
    // or its budget's end.
    fake.pass(15);
    fake.call(clients[1], ends[1], &[]);
    fake.pass(4);
    assert_eq!(fake.runs(0), Some(server), "the second client waits for it and pays");
    fake.reply_wait(server, &[]);
    assert_eq!(fake.seen(server), Seen::Called(1, vec![]));
    fake.pass(60);
    assert_eq!(fake.runs(0), Some(other));
    let all = ticks(&fake, clients[0]) + ticks(&fake, clients[1]) + ticks(&fake, server);
    assert!(all <= 65, "{all} of 60 ticks");
}

#[test]
fn after_a_restart_a_queued_client_pays_for_the_new_life() {
    let Shared { server, clients, ends, other, mut fake } = shared([(30, 100), (30, 100)]);
    fake.call(clients[0], ends[0], &[]);
    fake.wait(server, 0);
    fake.pass(35);
    fake.call(clients[1], ends[1], &[]);
    command(&mut fake, clients[0], Command::Stop);
    command(&mut fake, server, Command::Restart);
    assert_eq!(fake.seen(server), Seen::Started);
    fake.wait(server, 0);
    assert_eq!(fake.seen(server), Seen::Called(1, vec![]));
    let (before, from) = (ticks(&fake, server), fake.bench.now.get());
    fake.pass(1000);
    let used = ticks(&fake, server) - before;
    let most = 30 * ((fake.bench.now.get() - from) / 100 + 2);
    assert!(used <= most, "{used} ticks, at most {most}");
    assert!(ticks(&fake, other) > 500);
}

/// Without inheritance the second client, which has budget, would wait for the budget of the first.
#[test]
fn who_waits_for_a_throttled_server_may_pay_for_it() {
    let Shared { server, clients, ends, mut fake, .. } = shared([(5, 100_000), (5_000, 10_000)]);
    fake.call(clients[0], ends[0], &[]);
    fake.wait(server, 0);
    fake.pass(10);
    assert_eq!(fake.runs(0), Some(clients[1]));
    fake.call(clients[1], ends[1], &[]);
    assert_eq!(fake.runs(0), Some(server), "at the expense of the second");
    assert_eq!(fake.cores[0].paid_by(), Some(clients[1]));
    fake.reply_wait(server, &[1]);
    assert_eq!(fake.seen(server), Seen::Called(1, vec![]));
    fake.reply_wait(server, &[2]);
    assert_eq!(fake.runs(0), Some(clients[1]), "the first has its answer, and no budget");
    assert_eq!(fake.seen(clients[1]), Seen::Replied(vec![2]));
}

/// The client that waits has budget again before the one that is served.
#[test]
fn whoever_has_budget_first_pays_for_a_server_that_was_throttled() {
    let Shared { server, clients, ends, other, mut fake } = shared([(5, 100_000), (20, 200)]);
    fake.call(clients[0], ends[0], &[]);
    fake.wait(server, 0);
    fake.pass(10);
    fake.call(clients[1], ends[1], &[]);
    fake.pass(40);
    assert_eq!(fake.runs(0), Some(other), "both budgets are used up");
    fake.pass(200);
    assert!(fake.runs(0) == Some(server) || ticks(&fake, server) > 30, "the second pays again");
    assert!(ticks(&fake, server) < 60);
}

/// A client that waits for a server pays only until the served client can again.
#[test]
fn who_waits_pays_only_while_the_client_has_none() {
    let mut builder = Builder::default();
    let server = builder.domain(0, 50);
    builder.passive(server);
    let (client, waiting) = (builder.domain(0, 20), builder.domain(0, 15));
    builder.budget(client, 50, 100);
    builder.budget(waiting, 5_000, 10_000);
    let (from_client, from_waiting) = (builder.channel(client, server).0, builder.channel(waiting, server).0);
    let mut fake = build(builder);
    fake.call(client, from_client, &[]);
    fake.wait(server, 0);
    fake.pass(60);
    fake.call(waiting, from_waiting, &[]);
    let mut paid = [0; 2];
    for _ in 0..3_000 {
        if fake.runs(0) == Some(server) {
            paid[usize::from(fake.cores[0].paid_by() == Some(waiting))] += 1;
        }
        fake.pass(1);
    }
    assert!(paid[0] >= 1_400, "the client paid {} and who waits {}", paid[0], paid[1]);
}

/// The callee begins with a queued call without leaving the core, while its last client, answered,
/// still has budget.
#[test]
fn a_queued_call_is_paid_by_its_own_client() {
    let Shared { server, clients, ends, mut fake, .. } = shared([(50, 100), (5_000, 10_000)]);
    fake.call(clients[0], ends[0], &[]);
    fake.wait(server, 0);
    fake.pass(60);
    fake.call(clients[1], ends[1], &[]);
    while fake.cores[0].paid_by() != Some(clients[0]) {
        assert!(fake.bench.now.get() < 1_000, "its budget never comes back");
        fake.pass(1);
    }
    assert_eq!(fake.runs(0), Some(server));
    fake.reply_wait(server, &[]);
    assert_eq!(fake.runs(0), Some(server), "the client that has its answer is of a lower priority");
    assert_eq!(fake.seen(server), Seen::Called(1, vec![]));
    assert_eq!(fake.cores[0].paid_by(), Some(clients[1]));
}

/// A server that is throttled inside another, which somebody with a budget waits for.
#[test]
fn inheritance_reaches_through_calls() {
    let mut builder = Builder::default();
    let (inner, outer) = (builder.domain(0, 60), builder.domain(0, 50));
    builder.passive(inner);
    builder.passive(outer);
    let clients = [builder.domain(0, 20), builder.domain(0, 15)];
    builder.budget(clients[0], 20, 100_000);
    builder.budget(clients[1], 5_000, 10_000);
    let at_outer = builder.channel(outer, inner).0;
    let ends = clients.map(|client| builder.channel(client, outer).0);
    let mut fake = build(builder);
    fake.call(clients[0], ends[0], &[]);
    fake.wait(outer, 0);
    fake.call(outer, at_outer, &[]);
    fake.wait(inner, 0);
    fake.pass(30);
    assert_eq!(fake.runs(0), Some(clients[1]));
    fake.call(clients[1], ends[1], &[]);
    assert_eq!(fake.runs(0), Some(inner));
    assert_eq!(fake.cores[0].paid_by(), Some(clients[1]));
}

/// The signal was taken by a wait that ended with another one, or at a deadline, before the IPI
/// came.
#[test]
fn a_late_ipi_does_not_end_a_later_wait() {
    let mut builder = Builder::default();
    let (here, there) = (builder.domain(0, 10), builder.domain(1, 10));
    let (_, at_there) = builder.channel(here, there);
    let mut fake = build(builder);
    fake.wait_until(here, 100);
    fake.signal(there, 1 << at_there);
    // The deadline passes before the interrupt from the other core is taken.
    fake.bench.now.set(100);
    _ = fake.cores[0].timer();
    assert_eq!(fake.seen(here), Seen::Notified(0, 1));
    fake.wait(here, 0);
    assert_eq!(fake.runs(0), None);
    fake.deliver_ipis();
    assert_eq!(fake.runs(0), None, "there is nothing for it");
}

#[test]
fn registers_that_say_more_than_a_channel_are_a_fault() {
    const BIT_63: u64 = 1 << 63;
    for (signals, options, reason) in [
        (1, 1, BadCall::Options),
        (0, 1, BadCall::Options),
        (1, 0x8000_0000, BadCall::Options),
        (BIT_63, 0, BadCall::Channel),
        (BIT_63, 1 << 32, BadCall::Channel),
        (1, 0xffff_ffff << 32, BadCall::Channel),
        // 63 times this wraps to 60 in 32 bits, which is a channel.
        (1 << 3, 0xc30c_30c4 << 32, BadCall::Channel),
    ] {
        for fast in [true, false] {
            for waits in [true, false] {
                let mut builder = Builder::default();
                let (domain, peer) = (builder.domain(0, 20), builder.domain(0, 10));
                let supervisor = builder.domain(0, 200);
                builder.supervise(supervisor, domain);
                for _ in 0..70 {
                    builder.channel(domain, peer);
                }
                let mut fake = build(builder);
                fake.fast_path = fast;
                fake.wait(supervisor, 0);
                if waits {
                    fake.wait_with(domain, signals, NEVER, options);
                } else {
                    fake.signal_with(domain, signals, options);
                }
                let report = fake.system.shared[domain as usize].fault();
                assert_eq!(
                    (report.kind, report.address),
                    (FaultKind::SystemCall as u64, reason as u64),
                    "signals {signals:#x}, options {options:#x}"
                );
                assert_eq!(report.syndrome == u64::from(WAIT), waits);
            }
        }
    }
}

/// Lets a core run while its devices and its timer interrupt it, each entry for 20 ticks and more.
/// Each domain but the `driver` computes; that one asks for the next interrupt of its device at
/// once. Answers how many ticks were left to compute in.
fn storm(fake: &mut Fake, driver: u32, end: u32, ticks: u64) -> u64 {
    let until = fake.bench.now.get() + ticks;
    let mut computed = 0;
    while fake.bench.now.get() < until {
        if fake.cores[0].hardware().is_interrupted() {
            fake.take_interrupts(0);
        } else if fake.runs(0) == Some(driver) {
            fake.wait(driver, 1 << end);
        } else {
            fake.bench.now.set(fake.bench.now.get() + 1);
            computed += 1;
        }
    }
    computed
}

#[test]
fn a_storm_of_interrupts_is_paid_for_by_the_budget_of_the_driver() {
    let mut builder = Builder::default();
    let (_victim, driver) = (builder.domain(0, 10), builder.domain(0, 20));
    builder.budget(driver, 100, 1000);
    let end = builder.interrupt(driver, 40);
    let mut fake = build(builder);
    fake.cores[0].hardware().toll = 10;
    fake.cores[0].hardware().storming.insert(40);
    let computed = storm(&mut fake, driver, end, 100_000);
    // A tenth is the driver's, and coming back costs an entry or two.
    assert!(computed > 86_000, "{computed} of 100,000 ticks were left to others");
}

#[test]
fn a_storm_interrupts_once_where_the_driver_has_to_wait_for_its_turn() {
    let mut builder = Builder::default();
    let (driver, _victim) = (builder.domain(0, 10), builder.domain(0, 20));
    let end = builder.interrupt(driver, 40);
    let mut fake = build(builder);
    fake.cores[0].hardware().storming.insert(40);
    storm(&mut fake, driver, end, 1000);
    assert_eq!(fake.cores[0].hardware().looks, 2);
}

/// Here the machine takes longer for an interrupt than the budget and its period are: each entry
/// ends nevertheless.
#[test]
fn an_entry_ends_although_interrupts_do_not() {
    let mut builder = Builder::default();
    let driver = builder.domain(0, 10);
    builder.budget(driver, 1, 2);
    let mut fake = build(builder);
    fake.cores[0].hardware().toll = 10;
    fake.pass(1);
    fake.bench.now.set(fake.bench.now.get() + 10);
    fake.take_interrupts(0);
    let looks = fake.cores[0].hardware().looks;
    assert!((2..100).contains(&looks), "{looks}");
}
