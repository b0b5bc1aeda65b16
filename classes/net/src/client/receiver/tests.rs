//! The receiving half beside a peer that is restarted, honest or not.

use super::{MAX_PIECES, Receiver};
use crate::descriptor::flags::{CONTINUES, SEGMENTATION_OFFLOAD_4};
use crate::testing::{Peer, client, frame, memory, ring, write_packet};
use crate::{Descriptor, HEADROOM, Mac, PIECE_SIZE};
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
        let mac = [2, 0, 0, 0, 0, 1];
        let connection = NetClient { owns_rx: owner.into(), ..client(mac, BUFFERS, SIZE) };
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

/// Bytes of a piece that fills its buffer.
const WHOLE: u16 = PIECE_SIZE as u16;

/// A receiver that takes packets in pieces, with buffers of `size` bytes of the device's, all of
/// which hold bytes of their number.
fn gathering(size: u32, buffers: u32) -> World {
    let mut world = World::new(false);
    let connection = NetClient {
        rx_buffer_size: size,
        rx_filled: ring::<Descriptor>(64),
        rx_free: ring::<Descriptor>(64),
        rx_data: memory((buffers * size) as usize, 0),
        ..world.connection
    };
    world.receiver = Receiver::new(&connection);
    world.peer = Peer::new(connection.rx_free, connection.rx_filled);
    world.data = Region::new(connection.rx_data);
    world.connection = connection;
    world.settle();
    for number in 0..buffers {
        let bytes = std::vec![number as u8; size as usize];
        world.data.write((number * size) as usize, &bytes).expect("inside");
    }
    world
}

/// Has the peer pass on entries of (buffer, length, whether the packet continues). Returns the
/// pieces of each packet that is received: first byte and length.
fn pieces(world: &mut World, entries: &[(u32, u16, bool)]) -> Vec<Vec<(u8, usize)>> {
    let size = world.connection.rx_buffer_size;
    let entry = |(number, length, continues): &(u32, u16, bool)| {
        let flags = if *continues { CONTINUES } else { 0 } | SEGMENTATION_OFFLOAD_4;
        Descriptor { offset: number * size, length: *length, flags }
    };
    world.peer.send(&entries.iter().map(entry).collect::<Vec<_>>());
    world.receiver.begin();
    let mut packets = Vec::new();
    let shape = |pieces: &[&[u8]]| pieces.iter().map(|piece| (piece[0], piece.len())).collect();
    while let Some(packet) = world.receiver.receive_pieces(|_, pieces| shape(pieces)) {
        packets.push(packet);
    }
    world.receiver.publish();
    packets
}

#[test]
fn a_packet_is_received_in_the_pieces_in_which_it_lies() {
    let mut world = gathering(PIECE_SIZE, 8);
    let packets =
        pieces(&mut world, &[(3, 100, false), (1, WHOLE, true), (5, WHOLE, true), (0, 7, false), (2, 60, false)]);
    let whole = usize::from(WHOLE);
    let first = whole - HEADROOM;
    assert_eq!(packets, [std::vec![(3, 88)], std::vec![(1, first), (5, whole), (0, 7)], std::vec![(2, 48)]]);
    let returned: Vec<u32> = world.peer.take().iter().map(|buffer| buffer.offset / PIECE_SIZE).collect();
    assert_eq!(returned, [3, 1, 5, 0, 2], "each goes back");
    assert_eq!(world.receiver.device() & SEGMENTATION_OFFLOAD_4, SEGMENTATION_OFFLOAD_4);
}

#[test]
fn what_makes_no_packet_is_dropped_whole_and_its_buffers_go_back() {
    type Entries<'a> = &'a [(u32, u16, bool)];
    let cases: [(&str, Entries<'_>); 5] = [
        ("no room for a header", &[(1, 20, true), (2, 100, false)]),
        ("an empty piece", &[(1, WHOLE, true), (2, 0, true), (3, 100, false)]),
        ("a piece longer than its buffer", &[(1, WHOLE, true), (2, WHOLE + 1, false)]),
        ("no such buffer", &[(1, WHOLE, true), (8, 100, false)]),
        ("no end", &[(1, WHOLE, true), (2, WHOLE, true)]),
    ];
    for (what, entries) in cases {
        let mut world = gathering(PIECE_SIZE, 8);
        assert!(pieces(&mut world, entries).is_empty(), "{what}");
        let returned: Vec<u32> = world.peer.take().iter().map(|buffer| buffer.offset / PIECE_SIZE).collect();
        let lent: Vec<u32> = entries.iter().map(|(number, ..)| *number).filter(|number| *number < 8).collect();
        assert_eq!(returned, lent, "{what}");
        assert_eq!(pieces(&mut world, &[(4, 60, false)]).len(), 1, "{what}: the next one is received");
    }
}

#[test]
fn a_packet_in_more_pieces_than_the_longest_fills_is_dropped() {
    let count = MAX_PIECES as u32 + 1;
    let mut world = gathering(PIECE_SIZE, count);
    let of =
        |length: u16, count: u32| (0..count).map(|number| (number, length, number + 1 < count)).collect::<Vec<_>>();
    assert_eq!(pieces(&mut world, &of(3000, count - 1))[0].len(), MAX_PIECES);
    assert!(pieces(&mut world, &of(3000, count)).is_empty());
    assert!(pieces(&mut world, &of(WHOLE, count - 1)).is_empty(), "longer than a packet can be");
    assert_eq!(world.peer.take().len() as u32, 3 * count - 2, "all of their buffers");
}
