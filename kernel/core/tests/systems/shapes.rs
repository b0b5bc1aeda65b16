//! The random systems, and what happens to them.

use crate::common::{Builder, Fake};
use culm_abi::syscall::GROUP;
use culm_kernel_core::system::Command;
use proptest::prelude::*;

/// Domain 0 supervises the others. The first are on core 0, the others on core 1.
pub(crate) const DOMAINS: usize = 9;
pub(crate) const ON_FIRST_CORE: usize = 6;

#[derive(Clone, Debug)]
pub(crate) struct Shape {
    pub(crate) priorities: [u8; DOMAINS],
    pub(crate) budgets: [Option<(u64, u64)>; DOMAINS],
    pub(crate) passive: [bool; DOMAINS],
}

pub(crate) fn shapes() -> impl Strategy<Value = Shape> {
    let budget = prop::option::of((20..80_u64, 2..8_u64).prop_map(|(budget, share)| (budget, budget * share)));
    (prop::array::uniform9(0..5_u8), prop::array::uniform9(budget), prop::array::uniform9(prop::bool::weighted(0.3)))
        .prop_map(|(priorities, mut budgets, mut passive)| {
            passive[0] = false;
            for domain in 0..DOMAINS {
                budgets[domain] = budgets[domain].filter(|_| !passive[domain]);
            }
            Shape { priorities, budgets, passive }
        })
}

/// An action of the running domain of a core, or what happens to that core. Choices are taken
/// modulo what is possible.
#[derive(Clone, Debug)]
pub(crate) enum Action {
    /// Waits, or replies and waits.
    Turn {
        signals: Vec<u8>,
        deadline: Option<u64>,
    },
    Signal {
        signals: Vec<u8>,
    },
    Call {
        choice: u8,
    },
    /// A passive domain ends its turn, another calls a passive one.
    Work {
        choice: u8,
    },
    Fault,
    Supervise {
        child: u8,
        command: Command,
    },
    Interrupt {
        domain: u8,
    },
    /// A device begins to want an interrupt whenever it may have one, or ends that.
    Storm {
        domain: u8,
    },
    /// The timer goes off, although it is not due.
    Timer,
    Ipi,
    Pass {
        ticks: u64,
    },
}

pub(crate) fn steps() -> impl Strategy<Value = Vec<(u32, Action)>> {
    let signals = || prop::collection::vec(any::<u8>(), 0..4);
    let deadline = prop_oneof![2 => Just(None), 2 => (0..300_u64).prop_map(Some)];
    let command = prop_oneof![Just(Command::Resume), Just(Command::Restart), Just(Command::Stop)];
    let action = prop_oneof![
        8 => (signals(), deadline).prop_map(|(signals, deadline)| Action::Turn { signals, deadline }),
        2 => signals().prop_map(|signals| Action::Signal { signals }),
        5 => any::<u8>().prop_map(|choice| Action::Call { choice }),
        1 => Just(Action::Fault),
        2 => (any::<u8>(), command).prop_map(|(child, command)| Action::Supervise { child, command }),
        3 => any::<u8>().prop_map(|domain| Action::Interrupt { domain }),
        1 => any::<u8>().prop_map(|domain| Action::Storm { domain }),
        1 => Just(Action::Timer),
        3 => Just(Action::Ipi),
        5 => (0..100_u64).prop_map(|ticks| Action::Pass { ticks }),
    ];
    prop::collection::vec((prop_oneof![3 => Just(0), 1 => Just(1)], action), 0..250)
}

pub(crate) fn build(shape: &Shape) -> Fake {
    let mut builder = Builder::default();
    for (index, priority) in shape.priorities.iter().enumerate() {
        let domain = builder.domain(u32::from(index >= ON_FIRST_CORE), u32::from(*priority) * 10);
        if shape.passive[index] {
            builder.passive(domain);
        }
        if let Some((budget, period)) = shape.budgets[index] {
            builder.budget(domain, budget, period);
        }
    }
    for child in 1..DOMAINS as u32 {
        builder.supervise(0, child);
    }
    // So many that a second group begins.
    for _ in 0..GROUP {
        builder.both_ways(1, 2);
    }
    for own in 0..DOMAINS as u32 {
        for peer in own + 1..DOMAINS as u32 {
            builder.both_ways(own, peer);
        }
    }
    for domain in (0..DOMAINS as u32).filter(|domain| !shape.passive[*domain as usize]) {
        builder.interrupt(domain, 40 + domain);
    }
    builder.build()
}

/// Systems in which two calls often meet at a passive server: clients of lower priority, whose
/// budgets end while it serves them.
pub(crate) fn shared_servers() -> impl Strategy<Value = (Shape, Vec<(u32, Action)>)> {
    let budgets = prop::collection::vec((20..80_u64, 2..8_u64), 4);
    let action = prop_oneof![
        3 => any::<u8>().prop_map(|choice| Action::Work { choice }),
        4 => (0..40_u64).prop_map(|ticks| Action::Pass { ticks }),
    ];
    (budgets, prop::collection::vec(action.prop_map(|action| (0, action)), 0..250)).prop_map(|(budgets, steps)| {
        let mut shape = Shape { priorities: [0; DOMAINS], budgets: [None; DOMAINS], passive: [false; DOMAINS] };
        for (client, (budget, share)) in budgets.into_iter().enumerate() {
            shape.priorities[client] = client as u8;
            shape.budgets[client] = Some((budget, budget * share));
        }
        (shape.priorities[4], shape.priorities[5]) = (4, 5);
        (shape.passive[4], shape.passive[5]) = (true, true);
        (shape, steps)
    })
}
