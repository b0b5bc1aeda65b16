//! A disk on a PCI bus, whose interrupts tell of everything at once.

use super::device::{BLOCKS, Config, FEATURES, World, fake, segment};
use crate::registers::QUEUE;
use culm_block::{BLOCK, Request};
use culm_virtio::Pci;
use culm_virtio::registers::{Causes, Status};
use culm_virtio::testing::pci::{FakePci, structures};
use std::rc::Rc;

fn world(features: u64) -> World<Pci<FakePci>> {
    let config = Config::default();
    let (fake, memory) = fake(config);
    fake.0.features.set(features);
    let structures = structures(&fake);
    World::over(Pci::new(FakePci(fake.clone()), structures), config, &fake, memory)
}

#[test]
fn blocks_are_written_and_read() {
    for features in super::device::kinds() {
        let mut world = world(features);
        world.fill(0, 2, 0xa0);
        assert_eq!(world.ask(&Request::write(10, &[segment(0, 2)]).expect("a segment")), Ok(()));
        assert_eq!(world.device.block(11), [0xa1; BLOCK]);
        assert_eq!(world.ask(&Request::flush()), Ok(()));
        assert_eq!(world.ask(&Request::read(11, &[segment(5, 1)]).expect("a segment")), Ok(()));
        assert_eq!(world.memory(5), [0xa1; BLOCK]);
    }
}

#[test]
fn a_change_that_comes_with_an_answer_is_seen() {
    let mut world = world(FEATURES);
    let read = Request::read(1, &[segment(0, 1)]).expect("a segment");
    world.client.send(&read, 1).expect("the disk takes it");
    world.run();
    let state = Rc::clone(&world.state);
    world.device.configure(&state, Config { capacity: BLOCKS / 2, ..Config::default() });
    world.serve(1);
    state.raise(Causes::CHANGE);
    world.run();
    assert_eq!(world.completions(), [(1, Ok(()))]);
    assert_eq!(world.disk().map(|disk| disk.blocks), Some(BLOCKS / 2));
}

#[test]
fn a_device_that_fails_is_reset_and_gets_its_requests_again() {
    let mut world = world(FEATURES);
    world.fill(0, 1, 0xc0);
    world.client.send(&Request::write(3, &[segment(0, 1)]).expect("a segment"), 1).expect("the disk takes it");
    world.run();
    assert_eq!(world.take().len(), 1);
    let state = Rc::clone(&world.state);
    state.status.set(state.status.get().set(Status::NEEDS_RESET));
    state.raise(Causes::CHANGE);
    world.run();
    assert!(state.rung(QUEUE) && state.resets.get() == 2);
    world.serve(1);
    world.run();
    assert_eq!((world.completions(), world.device.block(3)), (std::vec![(1, Ok(()))], &[0xc0; BLOCK][..]));
}
