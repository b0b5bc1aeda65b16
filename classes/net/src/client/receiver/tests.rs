//! The receiving half beside a peer that is restarted, honest or not.

use super::Receiver;
use crate::testing::{Peer, frame, memory, ring, write_packet};
use crate::{Descriptor, Mac};
use culm::Region;
use culm::connection::NetClient;
use std::vec::Vec;

const BUFFERS: u32 = 8;
const SIZE: u32 = 2048;
const CAPACITY: u32 = 16;

/// A receiver, and whoever fills its buffers.
struct World {
    connection: NetClient,
    receiver: Receiver,
    peer: Peer<Descriptor>,
    data: Region,
}

impl World {
    /// The buffers are the client's own, or the device's.
    fn new(owner: bool) -> Self {
        let connection = NetClient {
            promiscuous: 0,
            mac: [2, 0, 0, 0, 0, 1],
            owns_rx: owner.into(),
            rx_large: 0,
            tx_large: 0,
            buffer_size: SIZE,
            rx_filled: ring::<Descriptor>(CAPACITY),
            rx_free: ring::<Descriptor>(CAPACITY),
            tx_filled: ring::<Descriptor>(CAPACITY),
            tx_free: ring::<Descriptor>(CAPACITY),
            rx_data: memory((BUFFERS * SIZE) as usize, 0),
            tx_data: memory((BUFFERS * SIZE) as usize, 0),
            rx_channel: 0,
            tx_channel: 1,
        };
        let mut world = Self {
            receiver: Receiver::new(&connection),
            peer: Peer::new(connection.rx_free, connection.rx_filled),
            data: Region::new(connection.rx_data),
            connection,
        };
        world.settle();
        world
    }

    /// Both begin rounds until they have found each other.
    fn settle(&mut self) {
        for _ in 0..4 {
            let _ = self.peer.take();
            assert_eq!(self.round(usize::MAX), 0);
        }
        assert!(self.peer.is_live());
    }

    /// A round of the receiver's that takes up to `most` frames; returns how many there were.
    fn round(&mut self, most: usize) -> usize {
        self.receiver.begin();
        let count = core::iter::from_fn(|| self.receiver.receive().map(|_| ())).take(most).count();
        self.receiver.publish();
        count
    }

    /// The peer passes on `count` frames.
    fn pass(&mut self, count: u32) {
        let bytes = frame(Mac::BROADCAST, Mac::BROADCAST, b"content");
        let entry = |number| {
            let offset = number * SIZE;
            Descriptor { offset, length: write_packet(&self.data, offset, &bytes), flags: 0 }
        };
        let entries: Vec<_> = (0..count).map(entry).collect();
        self.peer.send(&entries);
    }

    /// The peer is restarted.
    fn restart(&mut self) {
        self.peer = Peer::new(self.connection.rx_free, self.connection.rx_filled);
    }
}

#[test]
fn frames_of_a_previous_copier_are_received_first() {
    let mut world = World::new(true);
    world.pass(5);
    world.restart();
    assert_eq!(world.round(2), 2);
    assert!(world.receiver.sleep().is_more(), "there is more");
    assert!(world.peer.take().is_empty(), "buffers are not lent to the new one before");
    assert!(!world.peer.is_live());
    assert_eq!(world.round(usize::MAX), 3);
    assert!(world.receiver.sleep().is_more(), "the pair has to start over");
    assert_eq!(world.round(usize::MAX), 0);
    assert!(world.receiver.sleep().is_asleep(), "the peer has to look");
    let mut lent = Vec::new();
    for _ in 0..3 {
        lent.extend(world.peer.take().iter().map(|buffer| buffer.offset / SIZE));
        assert_eq!(world.round(usize::MAX), 0);
    }
    assert_eq!(lent, (0..BUFFERS).collect::<Vec<_>>(), "all of them, once");
}

#[test]
fn frames_in_a_devices_buffers_are_void_with_their_virtualiser() {
    let mut world = World::new(false);
    world.pass(5);
    world.restart();
    assert_eq!(world.round(usize::MAX), 0, "the device may be writing there");
    world.settle();
    world.pass(2);
    assert_eq!(world.round(usize::MAX), 2);
}

#[test]
fn a_copier_that_starts_over_without_end_has_frames_read_once() {
    let mut world = World::new(true);
    let (mut passed, mut received) = (0, 0);
    for round in 0..1000_u32 {
        if world.peer.is_live() {
            world.pass(BUFFERS);
            passed += BUFFERS as usize;
        }
        // Before the receiver looks, or between its rounds, or several times.
        for _ in 0..round % 4 {
            world.peer.link.start_over();
            let _ = world.peer.take();
        }
        let count = world.round(1 + round as usize % 7);
        assert!(count as u32 <= CAPACITY);
        received += count;
        let _ = world.peer.take();
    }
    assert!((1..=passed).contains(&received), "{received} of {passed}");
    // Once it stops, the two find each other.
    while world.round(usize::MAX) > 0 {}
    world.settle();
    world.pass(3);
    assert_eq!(world.round(usize::MAX), 3);
}
