//! Turns end, and somebody moves on: whoever dies or writes what cannot be, and at whichever
//! moment.

use super::{RECEIVE, TRANSMIT, World, buffer, device_memory, fake};
use crate::net::Net;
use culm::time::{self, Duration};
use culm::{Channels, Region};
use culm_net::DmaDescriptor;
use culm_net::descriptor::flags::AFTER_RESET;
use culm_net::testing::Peer;
use culm_virtio::registers::Causes;
use culm_virtio::testing::Fake;
use std::vec::Vec;

fn frames(count: u32) -> Vec<DmaDescriptor> {
    (0..count).map(|token| DmaDescriptor { length: 100, ..buffer(token) }).collect()
}

impl World {
    /// The device sends all that it was given.
    fn send_all(&self) {
        self.state.take(TRANSMIT);
        while self.state.use_next(TRANSMIT, 0).is_some() {}
    }

    /// Frames go out and their buffers come back, so that less and less of the queue's space is
    /// known.
    fn wear_down(&mut self, laps: u32) {
        for _ in 0..laps {
            self.tx.send(&frames(12));
            self.turn();
            self.send_all();
            self.turn();
            assert_eq!(self.tx.take().len(), 12);
        }
    }

    fn restart_transmit(&mut self) {
        self.tx = Peer::new(self.connection.tx_free, self.connection.tx_filled);
    }

    /// A turn for this virtualiser alone.
    fn turn_for(&mut self, channel: u32) {
        self.net.mark_due(culm::testing::channels(&[channel]));
        self.rounds();
    }
}

/// Buffers of a previous life need no space in its queue.
#[test]
fn a_dead_transmit_virtualiser_is_waited_for_asleep() {
    for laps in 0..8 {
        let mut world = World::new();
        world.wear_down(laps);
        world.tx.send(&frames(12));
        world.turn();
        world.restart_transmit();
        world.turn_for(2);
        assert!(!world.tx.is_live(), "its frames are under way");
        world.send_all();
        world.interrupt();
        world.settle();
        assert!(world.tx.is_live(), "after {laps} laps");
        assert_eq!(world.state.resets.get(), 1, "after {laps} laps");
    }
}

#[test]
fn a_driver_that_dies_with_its_transmit_virtualiser_waits_asleep_too() {
    let mut world = World::new();
    world.tx.send(&frames(3));
    world.turn();
    world.state.take(TRANSMIT);
    world.restart_transmit();
    world.net = Net::new(Fake(world.state.clone()), world.net.memory, &world.connection).expect("a device that works");
    world.rounds();
    world.send_all();
    world.interrupt();
    world.settle();
    assert!(world.tx.is_live());
    assert_eq!(world.state.resets.get(), 1);
}

/// A bare client is both virtualisers, and had more to send than the device takes at once.
#[test]
fn a_bare_client_that_dies_with_frames_in_the_queue_is_waited_for_asleep() {
    let mut world = World::new();
    world.provide(0..4);
    world.wear_down(4);
    world.tx.send(&frames(50));
    world.turn();
    world.state.take(TRANSMIT);
    world.rx = Peer::new(world.connection.rx_filled, world.connection.rx_free);
    world.restart_transmit();
    world.turn();
    for _ in 0..8 {
        let _ = (world.rx.take(), world.tx.take());
        world.send_all();
        world.interrupt();
        world.turn();
    }
    assert!(world.rx.is_live() && world.tx.is_live());
    assert_eq!(world.state.resets.get(), 2, "one for the buffers to fill, none for the frames");
}

/// The receive virtualiser's turn comes between the deadline's setting and its end.
#[test]
fn the_deadline_for_the_last_frames_outlives_other_turns() {
    let mut world = World::new();
    world.provide(0..4);
    world.tx.send(&[buffer(10)]);
    world.turn();
    world.restart_transmit();
    world.turn_for(2);
    let deadline = culm::testing::deadline().expect("the device may never send");
    world.rx.send(&[buffer(4)]);
    world.turn_for(1);
    assert_eq!(culm::testing::deadline(), Some(deadline));
}

#[test]
fn a_device_that_sends_slowly_is_not_reset_for_it() {
    let mut world = World::new();
    world.tx.send(&frames(12));
    world.turn();
    world.state.take(TRANSMIT);
    world.restart_transmit();
    world.turn_for(2);
    for _ in 0..12 {
        assert!(world.state.use_next(TRANSMIT, 0).is_some());
        culm::testing::set_time(time::now() + Duration::from_millis(400));
        world.net.interrupted();
        world.net.mark_due(Channels::NONE);
        world.rounds();
    }
    world.settle();
    assert!(world.tx.is_live());
    assert_eq!(world.state.resets.get(), 1);
}

/// The driver sees the index only where it waits for space.
#[test]
fn an_index_that_cannot_be_ends_no_turn_late_while_the_queue_is_full() {
    let mut world = World::new();
    for lap in 0..5 {
        world.rx.send(&(lap * 16..lap * 16 + 16).map(buffer).collect::<Vec<_>>());
        world.turn();
        world.state.take(RECEIVE);
        let count = if lap < 4 { 16 } else { 1 };
        for _ in 0..count {
            world.state.use_next(RECEIVE, 60);
        }
        if lap < 4 {
            world.interrupt();
        }
    }
    let mut header = culm::testing::memory(128, 0);
    header.address = world.connection.rx_filled.address;
    let consumer = Region::new(header).atomic_u64(64).expect("inside");
    consumer.fetch_add(1000, core::sync::atomic::Ordering::Relaxed);
    world.interrupt();
    assert_eq!(world.state.resets.get(), 2, "the pair starts over");
}

/// The device returns one buffer twice while the virtualiser's next life begins.
#[test]
fn a_device_that_lies_gets_no_buffer_of_a_dead_virtualiser_again() {
    let mut world = World::new();
    world.provide(0..4);
    world.rx = Peer::new(world.connection.rx_filled, world.connection.rx_free);
    let _ = world.rx.take();
    world.state.set_used_index(RECEIVE, 4);
    world.interrupt();
    world.settle();
    assert!(world.rx.is_live());
    assert_eq!(world.state.take(RECEIVE).len(), 0);
}

/// The device waits for its reset, and its line is high for something else.
#[test]
fn an_interrupt_while_the_device_is_out_of_service_is_acknowledged() {
    let mut world = World::new();
    world.provide(0..4);
    for _ in 0..2 {
        world.state.set_used_index(RECEIVE, 500);
        world.interrupt();
    }
    assert!(culm::testing::deadline().is_some(), "the second reset waits");
    world.state.raise(Causes::CHANGE);
    world.interrupt();
    assert!(world.state.causes.get() == Causes::ZERO, "the line is low");
}

#[test]
fn the_shortest_queues_receive_without_end() {
    for size in [1, 2, 4] {
        let memory = device_memory();
        let fake = fake(memory);
        fake.0.queue_size.set(size);
        let mut world = World::with(fake, memory);
        world.rx.send(&(0..16).map(buffer).collect::<Vec<_>>());
        world.turn();
        let mut received = 0;
        for _ in 0..20 {
            world.state.take(RECEIVE);
            while world.state.use_next(RECEIVE, 60).is_some() {}
            world.interrupt();
            received += world.rx.take().len();
        }
        assert_eq!(received, 16, "with {size} entries");
    }
}

/// The device refuses its reset, and the driver dies before it tries again.
#[test]
fn a_driver_that_dies_while_its_device_is_out_of_service_waits_for_it_too() {
    let mut world = World::new();
    world.provide(0..4);
    world.tx.send(&frames(2));
    world.turn();
    world.state.accepts_features.set(false);
    world.state.set_used_index(RECEIVE, 500);
    world.interrupt();
    for _ in 0..3 {
        let fake = Fake(world.state.clone());
        world.net = Net::new(fake, world.net.memory, &world.connection).expect("it was at work");
        world.rounds();
    }
    world.state.accepts_features.set(true);
    for _ in 0..2 {
        // The first is for a try at once, which is too early.
        culm::testing::set_time(culm::testing::deadline().expect("it tries again"));
        world.net.mark_due(Channels::NONE);
        world.rounds();
    }
    world.settle();
    assert_eq!((world.rx.renewals, world.tx.renewals), (1, 1), "no virtualiser notices");
    assert_eq!((world.state.take(RECEIVE).len(), world.state.take(TRANSMIT).len()), (4, 2), "it has all again");
}

#[test]
fn a_device_that_never_worked_is_an_error_of_every_life() {
    let memory = device_memory();
    let fake = fake(memory);
    fake.0.accepts_features.set(false);
    let connection = World::new().connection;
    for _ in 0..3 {
        assert_eq!(Net::new(fake.clone(), memory, &connection).err(), Some(culm_virtio::Unusable::Features));
    }
}

/// The receive virtualiser starts over again and again, and each time the device had its buffers.
#[test]
fn resets_for_a_virtualiser_that_starts_over_again_and_again_have_a_bound() {
    let mut world = World::new();
    let start = time::now();
    let mut restarts = 0;
    while time::now().since(start) < Duration::from_secs(60) {
        if world.rx.is_live() {
            world.provide(0..4);
            world.rx = Peer::new(world.connection.rx_filled, world.connection.rx_free);
            restarts += 1;
        }
        let _ = world.rx.take();
        world.turn();
        culm::testing::set_time(time::now() + Duration::from_millis(1));
    }
    let resets = world.state.resets.get();
    assert!(restarts > 50 && resets < 100, "{resets} resets for {restarts} restarts in a minute");
    // The other direction works all the while.
    world.tx.send(&frames(1));
    world.turn();
    assert_eq!(world.state.take(TRANSMIT).len(), 1);
}

/// A frame may lie in several buffers, of which the device had filled some.
#[test]
fn the_first_packet_after_a_reset_is_marked_whoever_passes_it_on() {
    for dies in [false, true] {
        let mut world = World::new();
        let is_marked = |world: &mut World| {
            world.state.use_next(RECEIVE, 60).expect("a buffer");
            world.interrupt();
            world.rx.take().iter().map(|entry| entry.flags & AFTER_RESET != 0).collect::<Vec<_>>()
        };
        world.provide(0..8);
        assert_eq!(is_marked(&mut world), [true], "the first of all is after a reset too");
        assert_eq!(is_marked(&mut world), [false]);
        world.state.set_used_index(RECEIVE, 500);
        world.interrupt();
        assert_eq!((world.state.resets.get(), world.state.take(RECEIVE).len()), (2, 6));
        for marked in [true, false, false] {
            if dies {
                let fake = Fake(world.state.clone());
                world.net = Net::new(fake, world.net.memory, &world.connection).expect("it goes on");
            }
            assert_eq!(is_marked(&mut world), [marked]);
        }
        assert_eq!(world.state.resets.get(), 2);
    }
}
