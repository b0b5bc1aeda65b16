//! The driver dies at every step that outlives it, under traffic in both directions, and its next
//! life goes on.
//!
//! A step is a store to a queue, to a virtqueue or to the checkpoint, or an access to a register
//! ([`culm_queue::crash`]). The device and the virtualisers act only on what they are told: a
//! doorbell, an interrupt or a notification that is lost stops the traffic.

use crate::net::Net;
use crate::registers::*;
use crate::tests::{connection, fake};
use core::sync::atomic::Ordering::Relaxed;
use culm::Region;
use culm::connection::NetDriver;
use culm_net::DmaDescriptor;
use culm_net::testing::Peer;
use culm_queue::crash::{Mortal, at_every_step};
use culm_virtio::checkpoint;
use culm_virtio::registers::*;
use culm_virtio::testing::{Fake, State, memory};
use proptest::prelude::*;
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::rc::Rc;
use std::vec::Vec;

const RECEIVE: u32 = QUEUE_RECEIVE;
const TRANSMIT: u32 = QUEUE_TRANSMIT;

/// Buffers of each virtualiser.
const BUFFERS: u32 = 24;

/// The next event of a run.
#[derive(Clone, Copy, Debug)]
enum Act {
    /// The transmit virtualiser sends so many frames, as far as it has buffers.
    Send(u32),
    /// The device sends so many frames, from the oldest on.
    Sent(usize),
    /// The device receives so many packets.
    Receive(u32),
    /// The virtualisers take what there is, and the one gives empty buffers.
    Take,
    /// The driver's turn, where somebody told it something.
    Turn,
    /// The transmit virtualiser is restarted.
    RestartTransmit,
    /// The receive virtualiser is restarted.
    RestartReceive,
    /// The device meets an error that only a reset ends.
    Fail,
}

/// The part of the device's interrupt line that the interrupt controller passes on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Trigger {
    /// That it is high.
    Level,
    /// That it rose: told once, to one life.
    Edge,
}

/// A driver that dies, a device that does not notice, and both virtualisers.
struct World {
    connection: NetDriver,
    memory: Region,
    state: Rc<State>,
    net: Mortal<Net<Fake>>,
    rx: Peer<DmaDescriptor>,
    tx: Peer<DmaDescriptor>,
    /// Channels that were notified and not served; `Some` of an empty list after an interrupt.
    told: BTreeSet<u32>,
    trigger: Trigger,
    /// How often the line had risen when a life was last told.
    edges_told: u32,
    /// Tokens that the transmit virtualiser has, and those that are with the driver.
    free: VecDeque<u32>,
    sending: BTreeSet<u32>,
    sent: u64,
    /// Numbers of the frames that left the device.
    on_the_wire: Vec<u64>,
    /// Tokens that the receive virtualiser has, and those that are with the driver.
    empty: VecDeque<u32>,
    filling: BTreeSet<u32>,
    /// Tokens by the address that the device knows.
    addresses: BTreeMap<u64, u32>,
    received: u32,
    /// The packets that the device received: number of the packet, and token.
    expected: VecDeque<(u32, u32)>,
    delivered: Vec<u32>,
    /// Some are lost by design in this run.
    lossy: bool,
    /// How many turns did not end asleep.
    endless: u32,
}

impl World {
    fn new(queue_size: u32, event_index: bool, trigger: Trigger) -> Self {
        let memory = memory(64 * 1024);
        let fake = fake(memory);
        fake.0.queue_size.set(queue_size);
        if !event_index {
            fake.0.features.set(FEATURE_VERSION_1);
        }
        let connection = connection(32);
        let mut world = Self {
            rx: Peer::new(connection.rx_filled, connection.rx_free),
            tx: Peer::new(connection.tx_free, connection.tx_filled),
            connection,
            memory,
            state: fake.0.clone(),
            net: Mortal::NEW,
            told: BTreeSet::new(),
            trigger,
            edges_told: 0,
            free: (0..BUFFERS).collect(),
            sending: BTreeSet::new(),
            sent: 0,
            on_the_wire: Vec::new(),
            empty: (100..100 + BUFFERS).collect(),
            filling: BTreeSet::new(),
            addresses: BTreeMap::new(),
            received: 0,
            expected: VecDeque::new(),
            delivered: Vec::new(),
            lossy: false,
            endless: 0,
        };
        for _ in 0..6 {
            world.act(Act::Turn);
            world.act(Act::Take);
        }
        assert!(world.rx.is_live() && world.tx.is_live());
        world
    }

    /// The driver's turn; where it dies, its next life begins.
    fn turn(&mut self) {
        let edges = self.state.edges.get();
        let interrupted = match self.trigger {
            Trigger::Level => self.state.causes.get() != Causes::ZERO,
            Trigger::Edge => edges != self.edges_told,
        };
        if self.net.life.is_some() && self.told.is_empty() && !interrupted {
            return;
        }
        self.edges_told = edges;
        let told: Vec<u32> = self.told.iter().copied().collect();
        let (fake, memory, connection) = (Fake(self.state.clone()), self.memory, &self.connection);
        let asleep = self.net.turn(|life| {
            let mut net = match life {
                None => Net::new(fake, memory, connection).expect("a device that works"),
                Some(mut net) => {
                    if interrupted {
                        net.interrupted();
                    }
                    if !told.is_empty() {
                        net.mark_due(culm::testing::channels(&told));
                    }
                    net
                }
            };
            let asleep = (0..64).any(|_| net.round().is_asleep());
            (net, asleep)
        });
        match asleep {
            Some(asleep) => {
                self.told.clear();
                if !asleep {
                    self.endless += 1;
                    self.told.extend([1, 2]);
                }
            }
            None => {
                self.turn();
            }
        }
    }

    fn act(&mut self, act: Act) {
        match act {
            Act::Turn => self.turn(),
            Act::Send(count) => {
                if self.free.len() < count as usize {
                    // It wants to know what was sent.
                    self.told.insert(2);
                }
                for token in self.free.drain(..self.free.len().min(count as usize)) {
                    let entry = DmaDescriptor { address: 0x1_0000 + self.sent, length: 100, flags: 0, token };
                    self.tx.output().push(entry).expect("room for all buffers");
                    self.sending.insert(token);
                    self.sent += 1;
                }
                if self.tx.output().publish().is_asleep() {
                    self.told.insert(2);
                }
            }
            Act::Sent(count) => {
                if self.state.rung(TRANSMIT) {
                    let taken = self.state.take(TRANSMIT);
                    self.on_the_wire.extend(taken.iter().map(|given| given.buffer().address - 0x1_0000));
                }
                for _ in 0..count {
                    self.state.use_next(TRANSMIT, 0);
                }
            }
            Act::Receive(count) => {
                if self.state.rung(RECEIVE) {
                    self.state.take(RECEIVE);
                }
                for _ in 0..count {
                    let number = self.received % 1000;
                    if let Some(given) = self.state.use_next(RECEIVE, 60 + number) {
                        self.expected.push_back((self.received, self.addresses[&given.buffer().address]));
                        self.received += 1;
                    }
                }
            }
            Act::Take => self.take(),
            Act::RestartTransmit => {
                self.tx = Peer::new(self.connection.tx_free, self.connection.tx_filled);
                // It has none before its pair of queues is live: see `take`.
                (self.free, self.sending) = (VecDeque::new(), BTreeSet::new());
                self.told.insert(2);
            }
            Act::RestartReceive => {
                self.rx = Peer::new(self.connection.rx_filled, self.connection.rx_free);
                (self.empty, self.filling) = ((100..100 + BUFFERS).collect(), BTreeSet::new());
                self.told.insert(1);
                self.lossy = true;
            }
            Act::Fail => {
                self.state.status.set(self.state.status.get().set(Status::NEEDS_RESET));
                self.state.raise(Causes::CHANGE);
                self.lossy = true;
            }
        }
    }

    /// Checks that the virtualisers were given what they lent; packets come in order, each once.
    fn take(&mut self) {
        let renewals = (self.rx.renewals, self.tx.renewals);
        let entries = self.tx.take();
        if core::mem::take(&mut self.tx.rang) {
            self.told.insert(2);
        }
        if self.tx.renewals != renewals.1 {
            self.free.extend(core::mem::take(&mut self.sending));
        }
        for entry in entries {
            assert!(self.sending.remove(&entry.token), "{} comes back twice", entry.token);
            self.free.push_back(entry.token);
        }
        let entries = self.rx.take();
        if core::mem::take(&mut self.rx.rang) {
            self.told.insert(1);
        }
        if self.rx.renewals != renewals.0 {
            self.empty.extend(core::mem::take(&mut self.filling));
        }
        for entry in entries {
            assert!(self.filling.remove(&entry.token), "{} comes back twice", entry.token);
            self.empty.push_back(entry.token);
            let length = u32::from(entry.length);
            let found =
                self.expected.iter().position(|(number, token)| (60 + number % 1000, *token) == (length, entry.token));
            assert!(found == Some(0) || self.lossy && found.is_some(), "a packet out of order: {found:?}");
            let (number, _) = self.expected.drain(..=found.unwrap_or(0)).next_back().expect("found");
            self.delivered.push(number);
        }
        if self.rx.is_live() {
            for token in self.empty.drain(..) {
                let address = 0x2_0000_0000 + u64::from(token) * 2048;
                self.addresses.insert(address, token);
                self.rx.output().push(DmaDescriptor { address, length: 2048, flags: 0, token }).expect("room for all");
                self.filling.insert(token);
            }
        }
        if self.rx.output().publish().is_asleep() {
            self.told.insert(1);
        }
        // Both ask to be told, as virtualisers do that are short of buffers.
        let _ = (self.rx.sleep(), self.tx.sleep());
        if !self.tx.is_live() {
            self.free.clear();
        } else if self.free.is_empty() && self.sending.is_empty() {
            self.free = (0..BUFFERS).collect();
        }
    }

    /// Everything under way arrives.
    fn finish(&mut self) {
        for _ in 0..40 {
            for act in [Act::Turn, Act::Sent(BUFFERS as usize), Act::Turn, Act::Take] {
                self.act(act);
            }
            // A deadline passes.
            if let Some(deadline) = culm::testing::deadline() {
                culm::testing::set_time(deadline);
                self.told.extend([1, 2]);
            }
        }
        self.told.insert(2);
        self.act(Act::Turn);
        self.act(Act::Take);
    }

    /// Nothing was lost, nothing came twice, nothing is missing.
    fn check(&self, context: &str) {
        let expected: Vec<u64> = (0..self.sent).collect();
        assert_eq!(self.on_the_wire, expected, "frames on the wire, {context}");
        assert_eq!(self.delivered, (0..self.received).collect::<Vec<_>>(), "packets received, {context}");
        assert!(self.expected.is_empty(), "{context}");
        assert_eq!(self.state.resets.get(), 1, "the device was reset, {context}");
        assert_eq!((self.rx.renewals, self.tx.renewals), (1, 1), "a session was begun anew, {context}");
        self.check_buffers(context);
    }

    fn check_buffers(&self, context: &str) {
        assert_eq!(self.endless, 0, "turns that did not end, {context}");
        assert!(self.rx.is_live() && self.tx.is_live(), "a virtualiser waits for ever, {context}");
        assert_eq!(self.filling.len() + self.empty.len(), BUFFERS as usize, "{context}");
        assert!(self.sending.is_empty(), "{} frames are never sent, {context}", self.sending.len());
    }
}

/// Traffic in both directions: bursts and single packets, a full queue, and buffers that come back.
const TRAFFIC: [Act; 30] = {
    use Act::*;
    [
        Take,
        Turn,
        Receive(3),
        Turn,
        Send(2),
        Turn,
        Sent(1),
        Take,
        Receive(1),
        Turn,
        Send(20),
        Turn,
        Sent(12),
        Take,
        Turn,
        Receive(12),
        Send(9),
        Turn,
        Take,
        Turn,
        Sent(3),
        Receive(9),
        Turn,
        Take,
        Turn,
        Sent(20),
        Send(5),
        Turn,
        Sent(5),
        Take,
    ]
};

/// Runs `acts` once for each step at which the driver can die; `check` looks at each end.
fn die_everywhere(size: u32, event_index: bool, trigger: Trigger, acts: &[Act], check: impl Fn(&World, &str)) {
    at_every_step(100, |step| {
        let mut world = World::new(size, event_index, trigger);
        world.net.death = Some(step);
        for act in acts {
            world.act(*act);
        }
        world.finish();
        check(&world, &std::format!("death at step {step}"));
        world.net.deaths > 0
    });
}

#[test]
fn the_traffic_of_these_tests_flows_without_deaths() {
    for (size, event_index) in [(16, true), (16, false), (64, true)] {
        let mut world = World::new(size, event_index, Trigger::Level);
        TRAFFIC.iter().for_each(|act| world.act(*act));
        world.finish();
        world.check("no death");
        assert!(world.sent >= 30 && world.received >= 20, "{} sent, {} received", world.sent, world.received);
    }
}

#[test]
fn a_driver_that_dies_at_any_step_loses_nothing() {
    for (size, event_index) in [(16, true), (16, false), (64, true)] {
        die_everywhere(size, event_index, Trigger::Level, &TRAFFIC, World::check);
    }
}

/// The interrupt in whose turn a life ends is not passed on to the next, and the line does not rise
/// while it is high.
#[test]
fn a_driver_whose_interrupt_is_an_edge_loses_nothing_either() {
    for (size, event_index) in [(16, true), (16, false), (64, true)] {
        die_everywhere(size, event_index, Trigger::Edge, &TRAFFIC, World::check);
    }
}

/// The second half of the traffic after a restart of the transmit virtualiser.
#[test]
fn a_driver_that_dies_while_the_transmit_virtualiser_restarts_confuses_nobody() {
    let mut acts = TRAFFIC[..18].to_vec();
    acts.extend([Act::RestartTransmit, Act::Turn, Act::Sent(30), Act::Turn, Act::Take]);
    acts.extend(TRAFFIC);
    die_everywhere(16, true, Trigger::Level, &acts, |world, context| {
        world.check_buffers(context);
        let once: BTreeSet<_> = world.on_the_wire.iter().collect();
        assert_eq!(once.len(), world.on_the_wire.len(), "a frame twice, {context}");
        assert_eq!(world.state.resets.get(), 1, "for the transmit virtualiser alone no device is reset, {context}");
        if world.net.deaths == 0 {
            assert_eq!(once.len() as u64, world.sent, "what was queued before the restart is sent");
        }
    });
}

#[test]
fn a_driver_that_dies_while_the_receive_virtualiser_restarts_loses_no_frame_to_send() {
    let mut acts = TRAFFIC[..18].to_vec();
    acts.extend([Act::RestartReceive, Act::Turn, Act::Turn, Act::Take]);
    acts.extend(TRAFFIC);
    die_everywhere(16, true, Trigger::Level, &acts, |world, context| {
        world.check_buffers(context);
        let resets = world.state.resets.get();
        // A life that dies between a reset and its record resets the device again.
        let most = 2 + world.net.deaths;
        assert!((2..=most).contains(&resets), "what the device had belonged to the previous life, {context}");
        let once: BTreeSet<_> = world.on_the_wire.iter().collect();
        assert_eq!(once.len() as u64, world.sent, "frames that were never sent, {context}");
        assert_eq!(world.tx.renewals, 1, "the transmit virtualiser does not notice, {context}");
    });
}

#[test]
fn a_driver_that_dies_while_it_resets_the_device_loses_no_frame_and_no_buffer() {
    let mut acts = TRAFFIC[..18].to_vec();
    acts.extend([Act::Fail, Act::Turn, Act::Turn, Act::Sent(1), Act::Take]);
    acts.extend(TRAFFIC);
    die_everywhere(16, true, Trigger::Level, &acts, |world, context| {
        world.check_buffers(context);
        assert_eq!((world.rx.renewals, world.tx.renewals), (1, 1), "the virtualisers do not notice, {context}");
        let mut seen = BTreeSet::new();
        let firsts: Vec<u64> = world.on_the_wire.iter().copied().filter(|number| seen.insert(*number)).collect();
        assert_eq!(firsts, (0..world.sent).collect::<Vec<_>>(), "frames not sent, or out of order, {context}");
    });
}

fn acts() -> impl Strategy<Value = Vec<(Act, Option<u32>)>> {
    let act = prop_oneof![
        4 => Just(Act::Turn),
        2 => (1..20_u32).prop_map(Act::Send),
        2 => (0..20_usize).prop_map(Act::Sent),
        2 => (1..20_u32).prop_map(Act::Receive),
        2 => Just(Act::Take),
    ];
    proptest::collection::vec((act, proptest::option::weighted(0.3, 0..60_u32)), 1..120)
}

proptest! {
    /// Any traffic, and any number of deaths, also of lives that just began.
    #[test]
    fn any_number_of_deaths_loses_nothing(acts in acts(), size in prop_oneof![Just(8_u32), Just(16), Just(64)], event_index: bool, edge: bool) {
        let mut world = World::new(size, event_index, if edge { Trigger::Edge } else { Trigger::Level });
        for (act, death) in acts {
            if let Some(steps) = death {
                world.net.death = Some(steps);
            }
            world.act(act);
        }
        world.net.death = None;
        world.finish();
        world.check("random deaths");
    }

    /// Everybody dies, at any time: all find each other again, and the device is reset only where
    /// somebody's death asks for it.
    #[test]
    fn any_number_of_deaths_of_all_ends(
        acts in acts(), restarts in proptest::collection::vec((0..120_usize, any::<bool>()), 0..6), size in prop_oneof![Just(8_u32), Just(16), Just(64)]
    ) {
        let mut world = World::new(size, true, Trigger::Level);
        for (number, (act, death)) in acts.iter().enumerate() {
            for (_, receive) in restarts.iter().filter(|(at, _)| *at == number) {
                world.act(if *receive { Act::RestartReceive } else { Act::RestartTransmit });
            }
            if let Some(steps) = death {
                world.net.death = Some(*steps);
            }
            world.act(*act);
        }
        world.net.death = None;
        world.finish();
        world.check_buffers("deaths of all");
        // A transmit virtualiser's death asks for one if the device sends nothing meanwhile.
        let deaths = restarts.len() as u32 + world.net.deaths;
        prop_assert!(world.state.resets.get() <= 1 + deaths, "{} resets for {deaths} deaths", world.state.resets.get());
    }

    /// Whatever stands in the memory from which a life would go on: it begins, in bounded time, and
    /// works.
    #[test]
    fn any_checkpoint_is_survived(
        scribbles in proptest::collection::vec((0..3_usize, any::<usize>(), any::<u64>()), 1..40),
        traffic in 0..30_usize,
    ) {
        let mut world = World::new(16, true, Trigger::Level);
        TRAFFIC[..traffic].iter().for_each(|act| world.act(*act));
        let words = world.memory.atomics_u64(0, 256).expect("inside");
        for (place, offset, value) in scribbles {
            let (index, value) = match place {
                // The checkpoint, but for its state: then nothing would be believed.
                0 => (1 + offset % (checkpoint::SIZE / 8 - 1), value),
                1 => (checkpoint::SIZE / 8 + offset % 200, value),
                // Something nearly right.
                _ => (1 + offset % 200, words[1 + offset % 200].load(Relaxed) ^ (1 << (value % 64))),
            };
            words[index].store(value, Relaxed);
        }
        world.lossy = true;
        world.net.life = None;
        // Which buffers are void nobody can say any more; a virtualiser checks what it is given.
        // Here: no panic, no endless loop.
        for _ in 0..10 {
            world.turn();
            let _ = (world.rx.take(), world.tx.take());
            world.told.extend([1, 2]);
        }
    }
}
