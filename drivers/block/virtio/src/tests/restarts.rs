//! The driver dies at every step that outlives it, under verified load, and its next life goes on.
//!
//! A step is a store to a queue or to the virtqueue, or an access to a register
//! ([`culm_queue::crash`]). The device and the virtualiser act only on what they are told: a
//! doorbell, an interrupt or a notification that is lost stops the load.

use super::device::{self, BLOCKS, Config, Device, FEATURES as ALL, World as Parts, segment};
use crate::block::Block;
use crate::registers::*;
use culm::Region;
use culm::connection::BlockDriver;
use culm_block::{BLOCK, Client, Completion, Error, MAX_DISK, Request};
use culm_queue::crash;
use culm_virtio::registers::*;
use culm_virtio::testing::{Fake, State};
use proptest::prelude::*;
use std::collections::{BTreeMap, BTreeSet};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::rc::Rc;
use std::vec;
use std::vec::Vec;

/// The next event of a run.
#[derive(Clone, Copy, Debug)]
enum Act {
    /// The virtualiser's turn: it takes answers, and sends so many requests.
    Client(usize),
    /// The device's turn, where it was told something: it carries out so many requests, the oldest
    /// first, or the newest.
    Device(usize, bool),
    /// The driver's turn, where it was told something.
    Turn,
    /// The virtualiser is restarted.
    Restart,
    /// The device meets an error that only a reset ends.
    Fail,
}

/// A request that is under way.
#[derive(Clone, Copy, Debug)]
enum Asked {
    Write(u8),
    Read,
    Zero,
    Flush,
}

struct World {
    connection: BlockDriver,
    memory: Region,
    state: Rc<State>,
    device: Device,
    block: Option<Block<Fake>>,
    lives: u32,
    /// After how many more steps the driver dies.
    death: Option<u32>,
    /// Whether somebody told the driver something.
    told: bool,
    client: Client<u64>,
    /// The request under way on each block, or, behind all blocks, a flush.
    asked: BTreeMap<u64, Asked>,
    /// Each block's content; `None` where a virtualiser's death has left a write in doubt.
    content: Vec<Option<u8>>,
    number: u64,
    complete: u64,
    /// How often the device has failed.
    failures: u32,
    /// How often the device had been reset when it last took something.
    resets: u32,
}

impl World {
    fn new(features: u64) -> Self {
        let (fake, memory) = device::fake(Config::default());
        fake.0.features.set(features);
        let connection = device::connection();
        let mut world = Self {
            connection,
            memory,
            state: fake.0.clone(),
            device: Device::new(Config::default(), memory),
            block: None,
            lives: 0,
            death: None,
            told: true,
            client: Client::new(connection.requests, connection.answers, Parts::DRIVER, MAX_DISK),
            asked: BTreeMap::new(),
            content: vec![Some(0); BLOCKS as usize],
            number: 0,
            complete: 0,
            failures: 0,
            resets: 0,
        };
        for _ in 0..4 {
            world.act(Act::Turn);
            world.act(Act::Client(0));
        }
        assert!(world.client.disk().is_some());
        world
    }

    /// The driver's turn; where it dies, its next life begins.
    fn turn(&mut self) {
        let interrupted = self.state.causes.get() != Causes::ZERO;
        if self.block.is_some() && !self.told && !interrupted {
            return;
        }
        let (mut block, fake) = (self.block.take(), Fake(self.state.clone()));
        let (memory, connection, told) = (self.memory, &self.connection, self.told);
        let turn = AssertUnwindSafe(|| {
            let mut block = match block.take() {
                None => Block::new(fake, memory, connection).expect("a device that works"),
                Some(mut block) => {
                    if interrupted {
                        block.interrupted(!told);
                    }
                    block
                }
            };
            let asleep = (0..8).any(|_| block.round().is_asleep());
            (block, asleep)
        });
        let armed = self.death.take();
        if let Some(steps) = armed {
            crash::die_after(steps);
        }
        let outcome = catch_unwind(turn);
        self.death = crash::disarm();
        match outcome {
            Ok((block, asleep)) => {
                self.block = Some(block);
                self.told = !asleep;
            }
            Err(_) => {
                assert!(armed.is_some() && self.death.is_none(), "a panic that no test asked for");
                // The dead driver's notifications are lost.
                let _ = culm::testing::signalled();
                self.lives += 1;
                // The device does not notice, and is as fast as it likes.
                if self.lives.is_multiple_of(2) {
                    self.act(Act::Device(1, false));
                }
                self.turn();
            }
        }
    }

    fn act(&mut self, act: Act) {
        match act {
            Act::Turn => self.turn(),
            Act::Client(count) => self.take_answers(count),
            Act::Device(count, newest) => {
                let resets = self.state.resets.get();
                if core::mem::replace(&mut self.resets, resets) != resets {
                    // A reset ends what was taken before.
                    self.device.held.clear();
                }
                if self.state.rung(QUEUE) {
                    self.device.held.extend(self.state.take(QUEUE));
                }
                for _ in 0..count.min(self.device.held.len()) {
                    let next = if newest { self.device.held.pop_back() } else { self.device.held.pop_front() };
                    let given = next.expect("there are so many");
                    let written = self.device.carry_out(&given);
                    self.state.use_raw(QUEUE, given.number.into(), written);
                }
            }
            Act::Restart => {
                let BlockDriver { requests, answers, .. } = self.connection;
                self.client = Client::new(requests, answers, Parts::DRIVER, MAX_DISK);
                for (block, asked) in core::mem::take(&mut self.asked) {
                    if let (Some(content), Asked::Write(_) | Asked::Zero) =
                        (self.content.get_mut(block as usize), asked)
                    {
                        *content = None;
                    }
                }
                self.told = true;
            }
            Act::Fail => {
                self.failures += 1;
                self.state.status.set(self.state.status.get().set(Status::NEEDS_RESET));
                self.state.raise(Causes::CHANGE);
            }
        }
    }

    fn take_answers(&mut self, count: usize) {
        self.client.begin();
        while let Some(Completion { tag, result }) = self.client.next_completion() {
            self.check_answer(tag, result);
        }
        if self.client.disk().is_some() {
            (0..count.min(self.client.space())).for_each(|_| self.send());
        }
        if self.client.end_round().is_more() {
            self.take_answers(0);
        }
        self.told |= culm::testing::signalled().contains(&Parts::DRIVER);
    }

    /// Nothing is answered wrongly.
    fn check_answer(&mut self, block: u64, result: Result<(), Error>) {
        let asked = self.asked.remove(&block).expect("no request is answered twice");
        let may_fail = self.failures > 0 && matches!(asked, Asked::Flush);
        assert!(result.is_ok() || may_fail, "{asked:?} of block {block}: {result:?}");
        self.complete += 1;
        let Some(content) = self.content.get_mut(block as usize) else { return };
        match asked {
            Asked::Write(byte) => *content = Some(byte),
            Asked::Zero => *content = Some(0),
            Asked::Read => {
                let read = self.device.memory(block);
                assert!(content.is_none_or(|byte| read == [byte; BLOCK]), "block {block}: {content:?}");
                return;
            }
            Asked::Flush => return,
        }
        assert_eq!(self.device.block(block), [content.unwrap_or(0); BLOCK], "block {block} after {asked:?}");
    }

    /// Sends a request for a block on which nothing is under way.
    fn send(&mut self) {
        self.number += 1;
        let first = self.number * 7;
        let free = (0..BLOCKS).map(|ahead| (first + ahead) % BLOCKS).find(|block| !self.asked.contains_key(block));
        let Some(block) = free else { return };
        let byte = self.number as u8 | 1;
        let segments = [segment(block, 1)];
        let (block, request, asked) = match self.number % 8 {
            0 if !self.asked.contains_key(&BLOCKS) => (BLOCKS, Request::flush(), Asked::Flush),
            1 => (block, Request::write_zeroes(block, 1, false), Asked::Zero),
            2..=4 => {
                self.device.fill(block, 0xee);
                (block, Request::read(block, &segments).expect("one"), Asked::Read)
            }
            _ => {
                self.device.fill(block, byte);
                (block, Request::write(block, &segments).expect("one"), Asked::Write(byte))
            }
        };
        self.client.send(&request, block).expect("the disk takes it");
        self.asked.insert(block, asked);
    }

    /// Everything under way ends, and all blocks are what they should be.
    fn finish(&mut self, context: &str) {
        for _ in 0..60 {
            // The device last: what it has when time passes, it would be found to leave unanswered.
            for act in [Act::Turn, Act::Device(64, false), Act::Turn, Act::Client(0), Act::Device(64, false)] {
                self.act(act);
            }
            if let Some(deadline) = culm::testing::deadline()
                && !self.asked.is_empty()
                && self.state.resets.get() > 1 + self.lives
            {
                // Only the back-off between resets may need time.
                culm::testing::set_time(deadline);
                self.told = true;
            }
        }
        assert!(self.asked.is_empty(), "never answered, {context}: {:?}", self.asked);
        for (block, content) in (0..).zip(&self.content) {
            let expected = content.map(|byte| [byte; BLOCK]);
            assert!(expected.is_none_or(|bytes| self.device.block(block) == bytes), "block {block}, {context}");
        }
    }
}

/// Bursts and single requests, a full queue, and answers out of order.
const LOAD: [Act; 22] = {
    use Act::*;
    [
        Client(3),
        Turn,
        Device(1, false),
        Turn,
        Client(1),
        Turn,
        Device(2, true),
        Client(20),
        Turn,
        Device(3, true),
        Turn,
        Client(4),
        Device(9, false),
        Turn,
        Turn,
        Client(0),
        Client(9),
        Turn,
        Device(30, false),
        Turn,
        Client(2),
        Turn,
    ]
};

/// Runs `acts` once for each step at which the driver can die.
fn die_everywhere(features: u64, acts: &[Act]) {
    let mut steps = 0;
    loop {
        let mut world = World::new(features);
        world.death = Some(steps);
        acts.iter().for_each(|act| world.act(*act));
        world.finish(&std::format!("death at step {steps}"));
        if world.lives == 0 {
            break;
        }
        steps += 1;
    }
    assert!(steps > 100, "{steps} steps only");
}

#[test]
fn the_load_of_these_tests_needs_no_deaths() {
    let mut world = World::new(ALL);
    LOAD.iter().for_each(|act| world.act(*act));
    world.finish("no death");
    assert_eq!((world.complete, world.state.resets.get()), (39, 1));
}

#[test]
fn a_driver_that_dies_at_any_step_loses_no_request() {
    device::kinds().into_iter().for_each(|features| die_everywhere(features, &LOAD));
}

#[test]
fn a_driver_that_dies_while_it_resets_the_device_loses_no_request() {
    let mut acts = LOAD[..11].to_vec();
    acts.extend([Act::Fail, Act::Turn, Act::Device(1, false), Act::Turn]);
    acts.extend(LOAD);
    die_everywhere(ALL, &acts);
}

#[test]
fn a_driver_that_dies_while_the_virtualiser_restarts_is_of_use_to_the_next_one() {
    let mut acts = LOAD[..11].to_vec();
    acts.extend([Act::Restart, Act::Turn, Act::Client(2), Act::Device(2, false), Act::Turn]);
    acts.extend(LOAD);
    die_everywhere(ALL, &acts);
}

/// The first life's write must not reach the disk after the second life's, whose answer is given.
#[test]
fn what_a_previous_life_gave_the_device_has_ended_before_the_next_takes_requests() {
    let mut world = World::new(ALL);
    world.act(Act::Client(8));
    world.act(Act::Turn);
    world.act(Act::Device(0, false));
    assert_eq!(world.device.held.len(), 8);
    world.block = None;
    world.act(Act::Turn);
    let told: BTreeSet<u64> = world.asked.keys().copied().collect();
    world.act(Act::Device(64, false));
    assert!(world.device.held.is_empty());
    world.finish("one death");
    assert_eq!(told.len(), 8);
}

/// A driver dies while the device has a flush. The next life counts it if it failed, or may have.
#[test]
fn the_next_life_counts_a_flush_that_failed_and_was_not_answered() {
    let failures = |status: Option<u8>, needs_reset: bool| {
        let mut parts = Parts::new();
        let before = parts.disk().expect("it is known").failures;
        parts.client.send(&Request::flush(), 3).expect("there is space");
        parts.run();
        parts.take();
        if let Some(status) = status {
            parts.device.status = Some(status);
            let given = parts.device.held[0].clone();
            parts.device.carry_out(&given);
        }
        if needs_reset {
            parts.state.status.set(parts.state.status.get().set(Status::NEEDS_RESET));
        }
        let (fake, own) = (Fake(parts.state.clone()), parts.own());
        parts.block = Block::new(fake, own, &parts.connection).expect("a device that works");
        parts.run();
        let counted = parts.disk().expect("it is known").failures - before;
        // It is counted once.
        parts.device.status = None;
        parts.serve(9);
        let fake = Fake(parts.state.clone());
        parts.block = Block::new(fake, own, &parts.connection).expect("a device that works");
        parts.run();
        assert_eq!(parts.disk().expect("it is known").failures - before, counted);
        counted
    };
    assert_eq!(failures(None, false), 0, "it is under way, and sent again");
    assert_eq!(failures(Some(STATUS_OK), false), 0);
    assert_eq!(failures(Some(STATUS_OK), true), 0);
    assert_eq!(failures(Some(STATUS_FAILED), false), 1);
    assert_eq!(failures(None, true), 1);
}

/// Each flush that is answered as failed is counted once, and told with the answer.
#[test]
fn a_flush_that_fails_is_counted() {
    let mut parts = Parts::new();
    let before = parts.disk().expect("it is known").failures;
    parts.device.status = Some(STATUS_FAILED);
    assert_eq!(parts.ask(&Request::flush()), Err(Error::Failed));
    let read = Request::read(0, &[segment(0, 1)]).expect("one");
    assert_eq!(parts.ask(&read), Err(Error::Failed));
    assert_eq!(parts.disk().expect("it is known").failures, before + 1);
    parts.device.status = None;
    parts.client.send(&Request::flush(), 3).expect("there is space");
    parts.run();
    parts.take();
    parts.state.status.set(parts.state.status.get().set(Status::NEEDS_RESET));
    parts.state.raise(Causes::CHANGE);
    parts.run();
    assert_eq!(parts.completions(), [(3, Err(Error::Failed))]);
    assert_eq!(parts.disk().expect("it is known").failures, before + 2);
}

fn acts() -> impl Strategy<Value = Vec<(Act, Option<u32>)>> {
    let act = prop_oneof![
        6 => Just(Act::Turn),
        4 => (0..20_usize).prop_map(Act::Client),
        4 => (0..20_usize, any::<bool>()).prop_map(|(count, newest)| Act::Device(count, newest)),
        1 => Just(Act::Restart),
        1 => Just(Act::Fail),
    ];
    proptest::collection::vec((act, proptest::option::weighted(0.3, 0..80_u32)), 1..120)
}

proptest! {
    /// Any load, and any number of deaths, also of lives that just began. A device that fails more
    /// often than a request survives ends it by an error, so here it fails twice at most.
    #[test]
    fn any_number_of_deaths_loses_nothing(acts in acts(), features in proptest::sample::select(device::kinds())) {
        let mut world = World::new(features);
        for (act, death) in acts {
            if world.failures >= 2 && matches!(act, Act::Fail) {
                continue;
            }
            if let Some(steps) = death {
                world.death = Some(steps);
            }
            world.act(act);
        }
        world.death = None;
        world.finish("random deaths");
    }
}
