//! A driver of chains and single buffers dies at every step that outlives it, and its next life
//! goes on, or resets the device and goes on then.
//!
//! The driver here is the least that there can be: it takes requests by number, gives them to the
//! device, and lists those that are done. What it has released and listed outlives it, as the
//! queues to a virtualiser do.

use crate::checkpoint::{self, Checkpoint, Position, State};
use crate::crash_point;
use crate::registers::Kind;
use crate::testing::{Fake, memory};
use crate::transport::{FEATURES, Transport};
use crate::virtqueue::{Access, Part, Virtqueue};
use culm::Region;
use culm::link::Generations;
use culm_queue::crash;
use proptest::prelude::*;
use std::cell::{Cell, RefCell};
use std::vec::Vec;

const KIND: Kind = Kind::BLOCK;
const QUEUE: u32 = 0;

/// The state that outlives the driver, besides the device and its memory.
#[derive(Default)]
struct Peers {
    /// Requests there are.
    wanted: Cell<u32>,
    /// Requests that were taken and released.
    released: Cell<u32>,
    /// Requests that were said to be done.
    done: RefCell<Vec<u32>>,
}

/// The driver.
struct Driver<'w> {
    device: Transport<Fake>,
    queue: Virtqueue,
    memory: Region,
    checkpoint: Checkpoint,
    peers: &'w Peers,
    /// The next request to take.
    next: u32,
}

/// Parts of a request: one to five.
fn parts(request: u32) -> Vec<Part> {
    let part = |index: u32| Part {
        address: u64::from(request) << 16 | u64::from(index),
        length: 100,
        access: if index < 2 { Access::Read } else { Access::Write },
    };
    (0..1 + request % 5).map(part).collect()
}

impl<'w> Driver<'w> {
    /// Begins a life, which goes on with the device if it can, and resets it if it is to.
    fn new(fake: Fake, memory: Region, peers: &'w Peers, reset: bool) -> Self {
        let mut device = Transport::find(fake, KIND).expect("a device");
        let checkpoint = Checkpoint::new(&memory).expect("space");
        let queue = device.find_queue(QUEUE, 16, &memory, checkpoint::SIZE, Access::Read).expect("space");
        let at_work = checkpoint.state() == State::AtWork;
        let goes_on = at_work && device.resume(checkpoint.features(), [QUEUE]) && !reset;
        let mut driver = Self { device, queue, memory, checkpoint, peers, next: peers.released.get() };
        if at_work {
            let position = driver.checkpoint.position(QUEUE).expect("it was kept before the state");
            let seen = (peers.done.borrow().len() as u16).wrapping_add(position.output);
            assert!(driver.queue.adopt(seen, driver.device.has_event_index()), "nobody wrote where he must not");
            driver.next = u32::from(driver.queue.added().wrapping_add(position.input));
        }
        if !goes_on {
            driver.reset();
        }
        driver.device.ring_doorbell(QUEUE);
        driver
    }

    fn reset(&mut self) {
        if self.checkpoint.state() == State::AtWork {
            self.finish();
            self.queue.rank();
        }
        self.checkpoint.set_state(State::Resetting);
        self.device.reset(|offered| offered & FEATURES).expect("a device that works");
        self.checkpoint.set_features(self.device.features());
        self.queue.renew(self.device.has_event_index());
        let input = (self.next as u16).wrapping_sub(self.queue.added());
        let output = self.queue.taken().wrapping_sub(self.peers.done.borrow().len() as u16);
        self.checkpoint.keep(QUEUE, Position { generations: Generations { own: 1, peer: 1 }, input, output });
        self.checkpoint.set_state(State::AtWork);
        self.device.set_to_work(&self.memory, &[(QUEUE, &self.queue)]);
    }

    /// Passes on what is done, then releases what was taken.
    fn finish(&mut self) {
        self.queue.refresh();
        let done: Vec<u32> = core::iter::from_fn(|| self.queue.take().map(|used| used.token)).collect();
        crash_point();
        self.peers.done.borrow_mut().extend(done);
        if self.queue.publish() {
            self.device.ring_doorbell(QUEUE);
        }
        crash_point();
        self.peers.released.set(self.next);
    }

    fn turn(&mut self) {
        self.finish();
        while self.next < self.peers.wanted.get() {
            let parts = parts(self.next);
            let added = match parts[..] {
                [only] => self.queue.add(only.address, only.length as u16, self.next),
                _ => self.queue.add_chain(&parts, self.next).is_ok(),
            };
            if !added {
                break;
            }
            self.next += 1;
        }
        self.finish();
        assert!(!self.queue.is_broken() && self.queue.errors() == 0, "an honest device");
    }
}

/// The next event.
#[derive(Clone, Copy, Debug)]
enum Act {
    /// So many requests more.
    Want(u32),
    /// The device takes what was made available, and uses so many, from the oldest on.
    Use(u32),
    /// The driver's turn.
    Turn,
}

struct World {
    fake: Fake,
    memory: Region,
    peers: &'static Peers,
    driver: Option<Driver<'static>>,
    /// After how many more steps the driver dies.
    death: Option<u32>,
    deaths: u32,
    /// Whether each new life resets the device.
    resets: bool,
    /// The requests that the device was given, in order.
    given: Vec<u32>,
}

impl World {
    fn new(event_index: bool, resets: bool) -> Self {
        let memory = memory(8 * 1024);
        let fake = Fake::new(KIND, 1, memory);
        if !event_index {
            fake.0.features.set(crate::registers::FEATURE_VERSION_1);
        }
        let peers = std::boxed::Box::leak(std::boxed::Box::default());
        let mut world = Self { fake, memory, peers, driver: None, death: None, deaths: 0, resets, given: Vec::new() };
        world.turn();
        world
    }

    /// Creates a world in which the queue's indices are so many entries before they begin anew.
    fn before_the_wrap(event_index: bool, entries: u16) -> Self {
        let mut world = Self::new(event_index, false);
        // The next life goes on from what is changed here.
        world.driver = None;
        let aged = 0_u16.wrapping_sub(entries);
        world.fake.0.age(QUEUE, aged);
        let checkpoint = Checkpoint::new(&world.memory).expect("space");
        let Position { generations, input, output } = checkpoint.position(QUEUE).expect("it was kept");
        let (input, output) = (input.wrapping_sub(aged), output.wrapping_add(aged));
        checkpoint.keep(QUEUE, Position { generations, input, output });
        world
    }

    fn act(&mut self, act: Act) {
        match act {
            Act::Want(count) => self.peers.wanted.set(self.peers.wanted.get() + count),
            Act::Turn => self.turn(),
            Act::Use(count) => {
                for given in self.fake.0.take(QUEUE) {
                    let request = (given.parts[0].address >> 16) as u32;
                    assert_eq!(given.parts, parts(request));
                    self.given.push(request);
                }
                for _ in 0..count {
                    self.fake.0.use_next(QUEUE, 0);
                }
            }
        }
    }

    /// The driver's turn; if it dies, its next life begins.
    fn turn(&mut self) {
        let (fake, memory, peers, resets) = (self.fake.clone(), self.memory, self.peers, self.resets);
        let driver = self.driver.take();
        let outcome = crash::outlive(&mut self.death, || {
            let mut driver = driver.unwrap_or_else(|| Driver::new(fake, memory, peers, resets));
            driver.turn();
            driver
        });
        match outcome {
            Some(driver) => self.driver = Some(driver),
            None => {
                self.deaths += 1;
                self.turn();
            }
        }
    }

    /// Lets everything under way come to its end, and looks whether each request was done once.
    fn check(&mut self) {
        // A turn passes on one request at least, however long its chain, unless it ends in a death.
        for _ in 0..self.peers.wanted.get().max(40) {
            self.act(Act::Turn);
            self.act(Act::Use(16));
        }
        self.act(Act::Turn);
        let wanted: Vec<u32> = (0..self.peers.wanted.get()).collect();
        assert_eq!(*self.peers.done.borrow(), wanted, "each is done once, in order");
        if !self.resets {
            assert_eq!(self.given, wanted, "the device was given each once");
            assert_eq!(self.fake.0.resets.get(), 1);
        }
        let mut seen = std::collections::BTreeSet::new();
        let firsts: Vec<u32> = self.given.iter().copied().filter(|request| seen.insert(*request)).collect();
        assert_eq!(firsts, wanted, "the device was given all, in order");
    }
}

const ACTS: [Act; 16] = {
    use Act::{Turn, Use, Want};
    [Want(3), Turn, Use(1), Turn, Want(9), Turn, Use(2), Turn, Use(3), Want(2), Turn, Use(1), Turn, Use(9), Turn, Turn]
};

/// Has the driver die at each step of [`ACTS`] in a world of its own.
fn die_everywhere(new: impl Fn() -> World) {
    for steps in 0.. {
        let mut world = new();
        world.death = Some(steps);
        ACTS.iter().for_each(|act| world.act(*act));
        let died = world.deaths > 0;
        world.death = None;
        world.check();
        if !died {
            assert!(steps > 100, "{steps} steps only");
            break;
        }
    }
}

#[test]
fn a_driver_that_dies_at_any_step_has_each_request_done_once() {
    for (event_index, resets) in [(true, false), (false, false), (true, true)] {
        die_everywhere(|| World::new(event_index, resets));
    }
}

/// The same where the queue's indices begin anew in between, at each place of the traffic.
#[test]
fn a_driver_that_dies_as_indices_begin_anew_has_each_request_done_once() {
    for entries in 0..16 {
        die_everywhere(|| World::before_the_wrap(entries % 2 == 0, entries));
    }
}

proptest! {
    /// Any traffic, and any number of deaths, also of lives that just began.
    #[test]
    fn any_number_of_deaths_has_each_request_done_once(
        acts in proptest::collection::vec(
            (
                prop_oneof![Just(Act::Turn), (1..9_u32).prop_map(Act::Want), (0..9_u32).prop_map(Act::Use)],
                proptest::option::weighted(0.3, 0..60_u32),
            ),
            1..120,
        ),
        event_index: bool,
        resets: bool,
    ) {
        let mut world = World::new(event_index, resets);
        for (act, death) in acts {
            world.death = death.or(world.death);
            world.act(act);
        }
        world.death = None;
        world.check();
    }
}
