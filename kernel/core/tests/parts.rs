//! The parts that have a shape of their own: budgets and the timer queue.
#![cfg(not(loom))]

use culm_kernel_core::budget::Budget;
use culm_kernel_core::timer::{Slot, TimerQueue};
use proptest::prelude::*;
use std::collections::BTreeMap;

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

    /// Whatever the pattern of running and pausing, no window of one period holds more than the
    /// budget, and a domain that always wants to run gets all of it.
    #[test]
    fn no_window_holds_more_than_the_budget(
        budget in 1..50_u64,
        extra in 0..100_u64,
        pattern in prop::collection::vec((0..40_u64, 1..40_u64), 1..80),
    ) {
        let period = budget + extra;
        let mut server = Budget::new(budget, period);
        let (mut now, mut ran) = (1000, vec![]);
        for (pause, want) in pattern {
            now = (now + pause).max(server.available_from());
            server.begin(now);
            let run = want.min(server.remaining(now));
            prop_assert!(run > 0, "what is available can be used");
            server.consume(run);
            ran.push((now, now + run));
            now += run;
        }
        for (start, _) in &ran {
            let end = start + period;
            let used: u64 =
                ran.iter().map(|(from, to)| (*to.min(&end)).saturating_sub(*from.max(start))).sum();
            prop_assert!(used <= budget, "{used} of {budget} in the window from {start}: {ran:?}");
        }
    }

    #[test]
    fn a_greedy_domain_gets_its_share(budget in 1..50_u64, extra in 0..100_u64) {
        let period = budget + extra;
        let mut server = Budget::new(budget, period);
        let (mut now, mut used) = (0, 0);
        while now < 10 * period {
            now = now.max(server.available_from());
            server.begin(now);
            let run = server.remaining(now);
            server.consume(run);
            now += run;
            used += run;
        }
        prop_assert!(used >= 10 * budget);
    }

    /// Time used beyond the budget, since interrupts are late, is missing later, up to another
    /// budget.
    #[test]
    fn an_overrun_is_paid_back(overrun in 1..=10_u64) {
        let mut server = Budget::new(10, 100);
        server.begin(0);
        server.consume(10 + overrun);
        let (mut now, mut used) = (10 + overrun, 0);
        while now < 1010 {
            now = now.max(server.available_from());
            server.begin(now);
            let run = server.remaining(now);
            server.consume(run);
            now += run;
            used += run;
        }
        prop_assert!(used + 10 + overrun <= 10 * 11, "{used}");
    }

    /// As if each tick had been used by itself.
    #[test]
    fn what_is_used_is_taken_tick_by_tick(budget in 1..50_u64, extra in 0..100_u64, share in 0..=100_u64) {
        let used = budget * share / 100;
        let (mut once, mut ticks) = (Budget::new(budget, budget + extra), Budget::new(budget, budget + extra));
        once.begin(1000);
        ticks.begin(1000);
        once.consume(used);
        for _ in 0..used {
            ticks.consume(1);
        }
        prop_assert_eq!(once.available_from(), ticks.available_from());
    }

    /// However long the machine stood still while the domain ran, it is throttled for two periods
    /// at most.
    #[test]
    fn a_stall_of_the_machine_is_not_the_domains_debt(budget in 1..50_u64, extra in 1..100_u64, stall in any::<u64>()) {
        let period = budget + extra;
        let mut server = Budget::new(budget, period);
        server.begin(1000);
        server.consume(budget.saturating_add(stall));
        prop_assert!((1000 + period..=1000 + 2 * period).contains(&server.available_from()));
    }

    /// Turns that come evenly and use no more than the budget are never late, as long as there are
    /// not too many in a period.
    #[test]
    fn who_keeps_to_its_budget_is_not_throttled(turns in 1..16_u64, share in 1..=100_u64) {
        let (budget, period) = (16_000, 100_000);
        let mut server = Budget::new(budget, period);
        for turn in 0..turns * 20 {
            let now = turn * period / turns;
            server.begin(now);
            let used = budget * share / 100 / turns;
            prop_assert!(server.remaining(now) >= used, "turn {turn} finds {} of {used}", server.remaining(now));
            server.consume(used);
        }
    }

    #[test]
    fn timers_come_in_order_and_never_late(
        steps in prop::collection::vec((0..8_u32, 1..100_u64, any::<bool>()), 0..200),
    ) {
        let mut slots = [Slot::default(); 8];
        let mut queue = TimerQueue::new(&mut slots);
        let mut model = BTreeMap::new();
        let mut now = 0;
        for (domain, ticks, set) in steps {
            if set {
                let time = now + ticks;
                queue.set(domain, time);
                let entry = model.entry(domain).or_insert(time);
                *entry = time.min(*entry);
            } else {
                now += ticks;
                while let Some(domain) = queue.expired(now) {
                    let time = model.remove(&domain);
                    prop_assert!(time.is_some_and(|time| time <= now));
                }
                prop_assert!(model.values().all(|time| *time > now));
            }
            prop_assert_eq!(queue.earliest(), model.values().copied().min().unwrap_or(u64::MAX));
        }
    }
}
