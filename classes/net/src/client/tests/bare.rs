//! A client that has a device to itself, beside a driver that is restarted, honest or not.

use crate::testing::{Peer, frame, memory, ring, write_packet};
use crate::{Client, DmaDescriptor, HEADROOM, Mac, PacketHeader};
use culm::Region;
use culm::connection::NetBare;
use proptest::prelude::*;
use std::collections::BTreeSet;
use std::vec::Vec;

const OURS: Mac = Mac::new([2, 0, 0, 0, 0, 1]);
const THEIRS: Mac = Mac::new([2, 0, 0, 0, 0, 2]);
const BUFFERS: u32 = 8;
const SIZE: u32 = 2048;
const CAPACITY: u32 = 16;

/// Where the device sees the regions.
const RX_BASE: u64 = 0x5000_0000;
const TX_BASE: u64 = 0x6000_0000;

/// A client, and its driver's two ends.
struct World {
    connection: NetBare,
    client: Client<DmaDescriptor>,
    receive: Peer<DmaDescriptor>,
    transmit: Peer<DmaDescriptor>,
    /// The receive buffers, as the device has them.
    data: Region,
}

impl World {
    fn new() -> Self {
        let connection = NetBare {
            rx_free: ring::<DmaDescriptor>(CAPACITY),
            rx_filled: ring::<DmaDescriptor>(CAPACITY),
            tx_filled: ring::<DmaDescriptor>(CAPACITY),
            tx_free: ring::<DmaDescriptor>(CAPACITY),
            rx_data: memory((BUFFERS * SIZE) as usize, RX_BASE),
            tx_data: memory((BUFFERS * SIZE) as usize, TX_BASE),
            rx_channel: 0,
            tx_channel: 1,
            buffer_size: SIZE,
            mac: OURS.bytes(),
        };
        let mut world = Self {
            client: Client::bare(connection),
            receive: Peer::new(connection.rx_free, connection.rx_filled),
            transmit: Peer::new(connection.tx_filled, connection.tx_free),
            data: Region::new(connection.rx_data),
            connection,
        };
        world.meet();
        world
    }

    /// All begin rounds until they have found each other; returns the receive buffers that the
    /// driver was given.
    fn meet(&mut self) -> Vec<DmaDescriptor> {
        let mut given = Vec::new();
        for _ in 0..4 {
            given.extend(self.receive.take());
            let _ = self.transmit.take();
            let _ = self.round();
        }
        given.extend(self.receive.take());
        assert!(self.receive.is_live() && self.transmit.is_live());
        given
    }

    /// A round of the client's; returns what it received.
    fn round(&mut self) -> Vec<Vec<u8>> {
        self.client.begin();
        let mut frames = Vec::new();
        while let Some(packet) = self.client.receiver.receive() {
            frames.push(packet.frame().to_vec());
        }
        let _ = self.client.end_round();
        frames
    }

    /// The device writes a frame into the buffer with this token, and the driver passes it on.
    fn pass(&mut self, token: u32, bytes: &[u8]) {
        let length = write_packet(&self.data, token, bytes);
        self.receive.send(&[DmaDescriptor { address: 0, length, flags: 0, token }]);
    }

    /// Sends so many frames; returns how many found a buffer.
    fn send(&mut self, count: usize) -> usize {
        self.client.begin();
        let header = PacketHeader::default();
        let sent = (0..count).filter_map(|_| self.client.transmitter.send(60, |_| (header, ()))).count();
        let _ = self.client.end_round();
        sent
    }
}

#[test]
fn the_driver_gets_addresses_and_gives_back_tokens() {
    let mut world = World::new();
    // The buffers went over while the two met.
    world.receive = Peer::new(world.connection.rx_free, world.connection.rx_filled);
    let given = world.meet();
    let expected: Vec<_> = (0..BUFFERS).map(|number| (RX_BASE + u64::from(number * SIZE), number * SIZE)).collect();
    let found: Vec<_> = given.iter().map(|entry| (entry.address, entry.token)).collect();
    assert_eq!(found, expected);
    assert!(given.iter().all(|entry| u32::from(entry.length) == SIZE));
    let bytes = frame(OURS, THEIRS, b"content");
    world.pass(3 * SIZE, &bytes);
    assert_eq!(world.round(), [bytes]);
    let returned: Vec<_> = world.receive.take().iter().map(|entry| (entry.address, entry.token)).collect();
    assert_eq!(returned, [expected[3]]);
}

#[test]
fn frames_for_other_stations_go_back_unread() {
    let mut world = World::new();
    for to in [THEIRS, OURS, Mac::new([3, 0, 0, 0, 0, 9]), Mac::BROADCAST] {
        world.pass(SIZE, &frame(to, THEIRS, b"content"));
        assert_eq!(world.round().len(), usize::from(to != THEIRS), "{to}");
        assert_eq!(world.receive.take().len(), 1, "{to}");
    }
}

#[test]
fn each_buffer_is_sent_once_until_it_is_back() {
    let mut world = World::new();
    assert_eq!(world.send(100), BUFFERS as usize);
    let sent = world.transmit.take();
    let tokens: BTreeSet<u32> = sent.iter().map(|entry| entry.token).collect();
    assert_eq!((sent.len(), tokens.len()), (BUFFERS as usize, BUFFERS as usize));
    for entry in &sent {
        assert_eq!(entry.address, TX_BASE + u64::from(entry.token));
        assert_eq!(usize::from(entry.length), HEADROOM + 60);
    }
    assert_eq!(world.send(1), 0);
    world.transmit.send(&[DmaDescriptor { address: 0, length: 0, flags: 0, token: sent[5].token }]);
    assert_eq!(world.send(2), 1);
    assert_eq!(world.transmit.take()[0].token, sent[5].token);
}

#[test]
fn a_frame_that_is_refused_where_it_lies_costs_no_buffer() {
    let mut world = World::new();
    world.client.begin();
    let transmitter = &mut world.client.transmitter;
    let longest = transmitter.longest_frame();
    for _ in 0..2 * BUFFERS {
        assert_eq!(transmitter.send_checked(60, |_| None::<(PacketHeader, ())>), None);
    }
    assert_eq!(transmitter.send_checked(longest + 1, |_| Some((PacketHeader::default(), ()))), None);
    let header = PacketHeader { flags: 1, checksum_start: 34, ..PacketHeader::default() };
    let sent = transmitter.send_checked(60, |bytes| {
        bytes.fill(7);
        Some((header, bytes.len()))
    });
    assert_eq!(sent, Some(60));
    let _ = world.client.end_round();
    assert_eq!(world.send(100), BUFFERS as usize - 1, "the others are there still");
    let taken = world.transmit.take();
    let tokens: BTreeSet<u32> = taken.iter().map(|entry| entry.token).collect();
    assert_eq!((taken.len(), tokens.len()), (BUFFERS as usize, BUFFERS as usize));
}

/// The driver looks for who waits in turns of its own only.
#[test]
fn who_finds_no_buffer_tells_the_driver() {
    let mut world = World::new();
    assert_eq!(world.send(BUFFERS as usize), BUFFERS as usize);
    let _ = world.transmit.take();
    let _ = culm::testing::signalled();
    assert_eq!(world.send(1), 0);
    assert!(culm::testing::signalled().contains(&world.connection.tx_channel));
}

/// It had something to send while the driver's next life began, and only receives then.
#[test]
fn who_could_not_send_for_a_while_hears_of_packets_again() {
    let mut world = World::new();
    world.transmit = Peer::new(world.connection.tx_filled, world.connection.tx_free);
    assert_eq!(world.send(1), 0, "nobody is there");
    world.pass(0, &frame(OURS, THEIRS, b"one"));
    let _ = world.transmit.take();
    assert_eq!(world.round().len(), 1);
    let _ = world.transmit.take();
    assert!(world.transmit.is_live());
    world.receive.rang = false;
    world.pass(SIZE, &frame(OURS, THEIRS, b"two"));
    assert!(world.receive.rang, "the client sleeps");
    assert_eq!(world.round().len(), 1);
}

/// The driver has no buffer for more.
#[test]
fn who_waits_for_more_packets_than_there_are_buffers_is_woken_by_the_last() {
    let mut world = World::new();
    world.client.begin();
    let _ = world.client.end_round_until(2 * BUFFERS);
    world.receive.rang = false;
    for number in 0..BUFFERS {
        assert!(!world.receive.rang, "{number}");
        world.pass(number * SIZE, &frame(OURS, THEIRS, b"one"));
    }
    assert!(world.receive.rang);
    assert_eq!(world.round().len(), BUFFERS as usize);
}

#[test]
fn either_side_starts_over_with_all_buffers() {
    let mut world = World::new();
    assert_eq!(world.send(5), 5);
    world.receive = Peer::new(world.connection.rx_free, world.connection.rx_filled);
    world.transmit = Peer::new(world.connection.tx_filled, world.connection.tx_free);
    assert_eq!(world.meet().len(), BUFFERS as usize, "the driver was restarted");
    assert_eq!(world.send(100), BUFFERS as usize);
    let _ = world.transmit.take();
    world.client = Client::bare(world.connection);
    assert_eq!(world.send(1), 0, "nothing is sent before the driver has let go of what it has");
    assert_eq!(world.meet().len(), BUFFERS as usize, "the client was restarted");
    assert_eq!(world.send(100), BUFFERS as usize);
}

proptest! {
    /// Whatever the driver says, it is no panic, what is received lies in a buffer, and an honest
    /// life of the driver finds all buffers.
    #[test]
    fn a_driver_may_say_anything(
        said in prop::collection::vec((any::<bool>(), 0..3_u8, any::<u32>(), any::<u16>(), any::<u16>()), 0..80),
    ) {
        let mut world = World::new();
        for (is_receive, kind, token, length, flags) in said {
            let token = match kind {
                0 => token,
                1 => token % (BUFFERS + 1) * SIZE,
                _ => 0,
            };
            let entry = DmaDescriptor { address: u64::from(token) << 16, length, flags, token };
            let peer = if is_receive { &mut world.receive } else { &mut world.transmit };
            peer.send(&[entry]);
            prop_assert!(world.round().iter().all(|frame| frame.len() + HEADROOM <= SIZE as usize));
            prop_assert!(world.send(3) <= 3);
            let sent = world.transmit.take().into_iter().all(|entry| {
                let offset = entry.address.wrapping_sub(TX_BASE);
                offset < u64::from(BUFFERS * SIZE) && u32::from(entry.length) <= SIZE
            });
            let provided = world.receive.take().into_iter().all(|entry| {
                let offset = entry.address.wrapping_sub(RX_BASE);
                offset <= u64::from((BUFFERS - 1) * SIZE) && u32::from(entry.length) == SIZE
            });
            prop_assert!(sent && provided, "an entry leads out of the client's buffers");
        }
        world.receive = Peer::new(world.connection.rx_free, world.connection.rx_filled);
        world.transmit = Peer::new(world.connection.tx_filled, world.connection.tx_free);
        prop_assert_eq!(world.meet().len(), BUFFERS as usize);
        prop_assert_eq!(world.send(100), BUFFERS as usize);
    }
}
