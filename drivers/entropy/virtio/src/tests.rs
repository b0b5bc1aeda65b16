//! The driver's source against a device, honest or not.

use crate::source::Source;
use culm::Region;
use culm::time::{self, Duration};
use culm_random::Seed;
use culm_virtio::Unusable;
use culm_virtio::registers::{Causes, Kind, Status};
use culm_virtio::testing::{DMA, Fake, State, memory};
use std::rc::Rc;

struct World {
    source: Source<Fake>,
    state: Rc<State>,
    memory: Region,
}

impl World {
    fn new() -> Self {
        let memory = memory(4096);
        let fake = Fake::new(Kind::ENTROPY, 1, memory);
        let state = fake.0.clone();
        Self { source: Source::new(fake, memory).expect("a device that works"), state, memory }
    }

    /// The device fills the buffer that it has with these bytes, as far as they fit.
    fn give(&self, bytes: &[u8]) -> usize {
        self.state.take(0);
        let Some(given) = self.state.use_next(0, bytes.len() as u32) else { return 0 };
        let buffer = given.buffer();
        let count = bytes.len().min(buffer.length as usize);
        self.memory.write((buffer.address - DMA) as usize, &bytes[..count]).expect("inside");
        count
    }
}

const SEED: Seed = [0x0706_0504_0302_0100, 0x0f0e_0d0c_0b0a_0908, 0x1716_1514_1312_1110, 0x1f1e_1d1c_1b1a_1918];

fn bytes() -> Vec<u8> {
    (0..32).collect()
}

#[test]
fn a_seed_is_what_the_device_gives() {
    let mut world = World::new();
    assert_eq!(world.source.take(), None);
    assert!(world.source.sleep().is_asleep());
    assert_eq!(world.give(&bytes()), 32);
    assert_eq!(world.state.interrupts.get(), 1, "as it was asked to");
    world.source.interrupted();
    assert_eq!(world.source.take(), Some(SEED));
    assert_eq!(world.give(&bytes()), 0, "nobody has asked for more");
    world.source.ask();
    assert_eq!(world.give(&bytes()), 32);
    assert_eq!(world.source.take(), Some(SEED));
}

#[test]
fn nothing_of_a_seed_stays_in_the_devices_memory() {
    let mut world = World::new();
    world.give(&[0xa5; 32]);
    assert!(world.source.take().is_some());
    let mut all = vec![0; world.memory.len()];
    world.memory.read(0, &mut all).expect("all of it");
    assert!(all.windows(4).all(|bytes| bytes != [0xa5; 4]));
}

#[test]
fn a_device_may_give_a_seed_in_pieces() {
    let mut world = World::new();
    for piece in bytes().chunks(10) {
        assert_eq!(world.source.take(), None);
        assert_eq!(world.give(piece), piece.len());
    }
    assert_eq!(world.source.take(), Some(SEED));
}

/// More than it was asked for, nothing at all, or a buffer that it does not have: it is reset, and
/// asked again after a while.
#[test]
fn a_device_that_gives_nothing_good_is_asked_again_after_a_while() {
    let lies: [fn(&World); 4] = [
        |world| _ = world.give(&[1; 33]),
        |world| _ = world.give(&[]),
        |world| world.state.use_raw(0, 3, 32),
        |world| world.state.set_used_index(0, 500),
    ];
    for lie in lies {
        let mut world = World::new();
        lie(&world);
        for _ in 0..100 {
            assert_eq!(world.source.take(), None);
            let _ = world.source.sleep();
            lie(&world);
        }
        assert!((2..4).contains(&world.state.resets.get()), "{} resets at once", world.state.resets.get());
        let deadline = culm::testing::deadline().expect("it waits for the next");
        culm::testing::set_time(deadline);
        let _ = world.source.take();
        world.give(&bytes());
        assert_eq!(world.source.take(), Some(SEED), "it came to its senses");
    }
}

#[test]
fn a_device_that_asks_for_a_reset_gets_it() {
    let mut world = World::new();
    world.state.status.set(world.state.status.get().set(Status::NEEDS_RESET));
    world.state.raise(Causes::CHANGE);
    world.source.interrupted();
    assert_eq!(world.source.take(), None);
    assert_eq!(world.state.resets.get(), 2);
    world.give(&bytes());
    assert_eq!(world.source.take(), Some(SEED));
}

#[test]
fn a_device_that_never_gives_anything_costs_nothing() {
    let mut world = World::new();
    assert!(world.source.sleep().is_asleep());
    culm::testing::set_time(time::now() + Duration::from_secs(10));
    assert_eq!(world.source.take(), None);
    assert!(world.source.sleep().is_asleep());
    assert_eq!(culm::testing::deadline(), None);
}

#[test]
fn what_is_no_source_is_refused() {
    let memory = memory(4096);
    let outcome = Source::new(Fake::new(Kind::NETWORK, 1, memory), memory).map(|_| ());
    assert_eq!(outcome, Err(Unusable::Kind { wanted: Kind::ENTROPY, found: Kind::NETWORK }));
    let memory = culm_virtio::testing::memory(192);
    assert_eq!(Source::new(Fake::new(Kind::ENTROPY, 1, memory), memory).map(|_| ()), Err(Unusable::Queue));
}
