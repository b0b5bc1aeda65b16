//! Random systems of one core without time against a model that is too simple to be wrong: sets,
//! queues and a linear search. (`systems` has time, budgets, supervision and several cores.)
//!
//! Each sequence runs three times: in the model, in the kernel with its fast paths, in the kernel
//! without them.
#![cfg(not(loom))]

mod common;

use common::{Builder, Fake, Seen};
use proptest::prelude::*;
use std::collections::{BTreeSet, VecDeque};

const DOMAINS: usize = 5;

/// An action of the running domain, or what happens to the core. Choices are taken modulo what is
/// possible.
#[derive(Clone, Debug)]
enum Step {
    Wait { signals: u8 },
    Signal { signals: u8 },
    Call { channel: u8, words: Vec<u64> },
    Reply { words: Vec<u64> },
    Interrupt { domain: u8 },
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let words = || prop::collection::vec(1..100_u64, 0..=8);
    let step = prop_oneof![
        4 => any::<u8>().prop_map(|signals| Step::Wait { signals }),
        2 => any::<u8>().prop_map(|signals| Step::Signal { signals }),
        3 => (any::<u8>(), words()).prop_map(|(channel, words)| Step::Call { channel, words }),
        3 => words().prop_map(|words| Step::Reply { words }),
        1 => any::<u8>().prop_map(|domain| Step::Interrupt { domain }),
    ];
    prop::collection::vec(step, 0..200)
}

/// The channels: every pair of domains has one; the number of the channel to `peer` at `own`, which
/// also has its interrupt at number 0.
fn channel(own: usize, peer: usize) -> u32 {
    1 + if peer < own { peer } else { peer - 1 } as u32
}

fn peer_of(own: usize, number: u32) -> usize {
    let index = number as usize - 1;
    if index < own { index } else { index + 1 }
}

fn build(priorities: &[u8; DOMAINS]) -> Fake {
    let mut builder = Builder::default();
    for priority in priorities {
        builder.domain(0, u32::from(*priority));
    }
    for domain in 0..DOMAINS as u32 {
        builder.interrupt(domain, 40 + domain);
    }
    // In this order each domain's channels are numbered by peer, as `channel` has it.
    for own in 0..DOMAINS {
        for peer in own + 1..DOMAINS {
            builder.both_ways(own as u32, peer as u32);
        }
    }
    builder.build()
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Doing {
    Ready,
    Waiting,
    Calling,
}

struct Model {
    priorities: [u8; DOMAINS],
    doing: [Doing; DOMAINS],
    /// Ready domains, the running one included, in the order in which they would run among equals.
    order: VecDeque<usize>,
    pending: [BTreeSet<u32>; DOMAINS],
    callers: [VecDeque<(usize, Vec<u64>)>; DOMAINS],
    client: [Option<usize>; DOMAINS],
    waiting_result: [bool; DOMAINS],
    seen: [Seen; DOMAINS],
    running: Option<usize>,
}

impl Model {
    fn new(priorities: [u8; DOMAINS]) -> Self {
        let mut model = Self {
            priorities,
            doing: [Doing::Ready; DOMAINS],
            order: (0..DOMAINS).collect(),
            pending: Default::default(),
            callers: Default::default(),
            client: [None; DOMAINS],
            waiting_result: [false; DOMAINS],
            seen: std::array::from_fn(|_| Seen::Started),
            running: None,
        };
        model.schedule();
        model
    }

    /// The running domain keeps the core against equals; the first of the highest takes it
    /// otherwise.
    fn schedule(&mut self) {
        let best = self.order.iter().map(|domain| self.priorities[*domain]).max();
        let still = self.running.filter(|domain| self.doing[*domain] == Doing::Ready);
        if let Some(running) = still
            && Some(self.priorities[running]) == best
        {
            return;
        }
        if let Some(running) = still {
            // Preempted: it stays in front of its equals.
            self.order.retain(|domain| *domain != running);
            self.order.push_front(running);
        }
        self.running = self.order.iter().copied().find(|domain| Some(self.priorities[*domain]) == best);
        if let Some(running) = self.running
            && std::mem::take(&mut self.waiting_result[running])
        {
            self.collect(running);
        }
    }

    fn collect(&mut self, domain: usize) {
        let set = std::mem::take(&mut self.pending[domain]).iter().map(|bit| 1 << bit).sum();
        self.seen[domain] = Seen::Notified(0, set);
    }

    fn block(&mut self, domain: usize, doing: Doing) {
        self.doing[domain] = doing;
        self.order.retain(|other| *other != domain);
    }

    fn unblock(&mut self, domain: usize) {
        self.doing[domain] = Doing::Ready;
        self.order.push_back(domain);
    }

    fn notify(&mut self, domain: usize, bit: u32) {
        self.pending[domain].insert(bit);
        if self.doing[domain] == Doing::Waiting {
            self.waiting_result[domain] = true;
            self.unblock(domain);
        }
    }

    fn send(&mut self, from: usize, signals: u64) {
        for number in (0..63).filter(|bit| signals >> bit & 1 == 1) {
            if number != 0 {
                let peer = peer_of(from, number);
                self.notify(peer, channel(peer, from));
            }
        }
    }

    fn receive(&mut self, domain: usize) {
        if !self.pending[domain].is_empty() {
            self.waiting_result[domain] = true;
        } else if let Some((caller, words)) = self.callers[domain].pop_front() {
            self.serve(domain, caller, words);
        } else {
            return self.block(domain, Doing::Waiting);
        }
        // Its wait was over at once: equals that are ready go first.
        self.order.retain(|other| *other != domain);
        self.order.push_back(domain);
        self.running = None;
    }

    fn serve(&mut self, callee: usize, caller: usize, words: Vec<u64>) {
        self.client[callee] = Some(caller);
        self.seen[callee] = Seen::Called(channel(callee, caller), words);
    }

    fn call(&mut self, caller: usize, callee: usize, words: Vec<u64>) {
        self.block(caller, Doing::Calling);
        if self.doing[callee] == Doing::Waiting {
            self.unblock(callee);
            self.serve(callee, caller, words);
            self.running = Some(callee);
            // It is on the core now, whatever its place in the order.
            self.order.retain(|domain| *domain != callee);
            self.order.push_front(callee);
        } else {
            self.callers[callee].push_back((caller, words));
        }
    }

    fn reply(&mut self, callee: usize, words: Vec<u64>) {
        let Some(client) = self.client[callee].take() else { return };
        self.seen[client] = Seen::Replied(words);
        self.receive(callee);
        if self.doing[callee] == Doing::Waiting {
            let best = self.order.iter().map(|domain| self.priorities[*domain]).max();
            self.unblock(client);
            if Some(self.priorities[client]) >= best {
                self.order.retain(|domain| *domain != client);
                self.order.push_front(client);
                self.running = Some(client);
            }
        } else {
            self.unblock(client);
        }
    }
}

/// Returns the meaning of the step for the running domain: signals that exist, a callee of higher
/// priority.
fn signals_of(byte: u8) -> u64 {
    u64::from(byte) & ((1 << DOMAINS) - 1)
}

fn callee_of(priorities: &[u8; DOMAINS], caller: usize, choice: u8) -> Option<usize> {
    let higher: Vec<_> = (0..DOMAINS).filter(|domain| priorities[*domain] > priorities[caller]).collect();
    (!higher.is_empty()).then(|| higher[choice as usize % higher.len()])
}

fn play(priorities: [u8; DOMAINS], steps: &[Step], fast: bool) -> Result<(), TestCaseError> {
    let mut fake = build(&priorities);
    fake.fast_path = fast;
    let mut model = Model::new(priorities);
    for step in steps {
        match (step, model.running) {
            (Step::Wait { signals }, Some(domain)) if model.client[domain].is_none() => {
                fake.wait(domain as u32, signals_of(*signals));
                model.send(domain, signals_of(*signals));
                model.receive(domain);
            }
            (Step::Signal { signals }, Some(domain)) => {
                fake.signal(domain as u32, signals_of(*signals));
                model.seen[domain] = Seen::Nothing;
                model.send(domain, signals_of(*signals));
            }
            (Step::Call { channel: choice, words }, Some(domain)) => {
                let Some(callee) = callee_of(&priorities, domain, *choice) else { continue };
                fake.call(domain as u32, channel(domain, callee), words);
                model.call(domain, callee, words.clone());
            }
            (Step::Reply { words }, Some(domain)) if model.client[domain].is_some() => {
                fake.reply_wait(domain as u32, words);
                model.reply(domain, words.clone());
            }
            (Step::Interrupt { domain }, _) => {
                let domain = *domain as usize % DOMAINS;
                _ = fake.cores[0].interrupt(40 + domain as u32);
                model.notify(domain, 0);
            }
            _ => continue,
        }
        model.schedule();
        prop_assert_eq!(fake.runs(0).map(|domain| domain as usize), model.running, "after {:?}", step);
        if let Some(running) = model.running {
            // A fast signal leaves the results to the entry code.
            let seen = fake.seen(running as u32);
            if model.seen[running] != Seen::Nothing {
                prop_assert_eq!(&seen, &model.seen[running], "domain {} after {:?}", running, step);
            }
        }
    }
    Ok(())
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 400, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn the_kernel_does_what_the_model_does(priorities: [u8; DOMAINS], steps in steps()) {
        play(priorities, &steps, true)?;
        play(priorities, &steps, false)?;
    }

    #[test]
    fn few_priorities_make_equals(priorities in prop::array::uniform5(0..3_u8), steps in steps()) {
        play(priorities, &steps, true)?;
        play(priorities, &steps, false)?;
    }
}
