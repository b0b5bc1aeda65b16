//! The virtualiser between clients, honest and hostile ones, and a driver.

mod fairness;
mod restarts;

use crate::transmit::Transmit;
use culm::Region;
use culm::connection::{NetTxClient, NetTxVirtualiser};
use culm::testing::set_time;
use culm::time::{self, Duration};
use culm_net::testing::{Peer, frame, memory, ring, write_packet};
use culm_net::{Descriptor, DmaDescriptor, HEADROOM, LARGE_BUFFER, Mac, PacketHeader, header};
use proptest::prelude::*;
use std::collections::BTreeSet;

pub(crate) const BUFFERS: u32 = 16;
pub(crate) const SIZE: u32 = 2048;
const BOUNCE: u64 = 0x9000_0000;
pub(crate) const SOMEBODY: Mac = Mac::new([2, 0, 0, 0, 0, 0x99]);

/// The virtualiser with clients and a driver around it.
pub(crate) struct World {
    pub(crate) connection: NetTxVirtualiser,
    pub(crate) client_connections: Vec<NetTxClient>,
    pub(crate) virtualiser: Transmit,
    pub(crate) driver: Peer<DmaDescriptor>,
    pub(crate) clients: Vec<Peer<Descriptor>>,
    /// Buffers that each client has.
    pub(crate) free: Vec<Vec<Descriptor>>,
    /// How many small ones each client has at most.
    pub(crate) buffers: u32,
}

pub(crate) fn mac(client: usize) -> Mac {
    Mac::new([2, 0, 0, 0, 0, client as u8])
}

pub(crate) fn dma(client: usize) -> u64 {
    0x8000_0000 + (client as u64) * 0x10_0000
}

impl World {
    pub(crate) fn new(clients: usize, anti_spoof: bool) -> Self {
        Self::with_large(clients, anti_spoof, 0)
    }

    /// With so many large buffers for each client.
    pub(crate) fn with_large(clients: usize, anti_spoof: bool, large: u32) -> Self {
        Self::with_buffers(clients, anti_spoof, large, BUFFERS)
    }

    /// With so many small buffers for each client too.
    pub(crate) fn with_buffers(clients: usize, anti_spoof: bool, large: u32, buffers: u32) -> Self {
        let bytes = (buffers * SIZE + large * LARGE_BUFFER) as usize;
        let capacity = (buffers + large + 8).next_power_of_two();
        let connection = NetTxVirtualiser {
            driver_filled: ring::<DmaDescriptor>(capacity),
            driver_free: ring::<DmaDescriptor>(capacity),
            driver_channel: 0,
            buffer_size: SIZE,
            bounce: memory(bytes, BOUNCE),
            account: memory(64 * 1024, 0),
            clients: Default::default(),
            bounce_large: large,
        };
        let client_connections: Vec<NetTxClient> = (0..clients)
            .map(|client| NetTxClient {
                filled: ring::<Descriptor>(capacity),
                free: ring::<Descriptor>(capacity),
                data: memory(bytes, dma(client)),
                channel: 1 + client as u32,
                anti_spoof: anti_spoof.into(),
                large,
                mac: mac(client).bytes(),
            })
            .collect();
        let mut world = Self {
            virtualiser: Transmit::new(&connection, &client_connections),
            driver: Peer::new(connection.driver_filled, connection.driver_free),
            clients: client_connections.iter().map(|client| Peer::new(client.free, client.filled)).collect(),
            free: vec![Vec::new(); clients],
            connection,
            client_connections,
            buffers,
        };
        world.settle();
        world
    }

    fn settle(&mut self) {
        for _ in 0..4 {
            self.turn();
            self.collect();
            assert!(self.driver.take().is_empty());
        }
    }

    pub(crate) fn turn(&mut self) {
        set_time(time::now() + Duration::from_millis(1));
        let channels: Vec<u32> = (0..=self.clients.len() as u32).collect();
        self.virtualiser.mark_due(culm::testing::channels(&channels));
        for _ in 0..8 {
            if self.virtualiser.round().is_asleep() {
                return;
            }
        }
    }

    /// Clients take what they are given.
    pub(crate) fn collect(&mut self) {
        for (client, free) in self.clients.iter_mut().zip(&mut self.free) {
            let renewals = client.renewals;
            let entries = client.take();
            if client.renewals != renewals {
                free.clear();
            }
            free.extend(entries);
        }
    }

    /// A client sends a frame from an address.
    pub(crate) fn send(&mut self, client: usize, from: Mac) -> Option<u32> {
        let buffer = self.free[client].pop()?;
        let data = Region::new(self.client_connections[client].data);
        let length = write_packet(&data, buffer.offset, &frame(SOMEBODY, from, b"content"));
        self.clients[client].send(&[Descriptor { length, ..buffer }]);
        Some(buffer.offset)
    }

    /// The driver returns what it has sent.
    pub(crate) fn complete(&mut self, entries: &[DmaDescriptor]) {
        self.driver.send(entries);
        self.turn();
        self.collect();
    }
}

#[test]
fn clients_are_given_every_buffer_once() {
    let world = World::new(2, false);
    for free in &world.free {
        let offsets: BTreeSet<u32> = free.iter().map(|entry| entry.offset).collect();
        assert_eq!(offsets, (0..BUFFERS).map(|number| number * SIZE).collect());
        assert_eq!(free.len() as u32, BUFFERS);
    }
}

#[test]
fn the_device_is_told_where_a_frame_is() {
    let mut world = World::new(2, false);
    for client in [1, 0] {
        let offset = world.send(client, mac(client)).expect("a buffer");
        world.turn();
        let sent = world.driver.take();
        assert_eq!(sent.len(), 1);
        assert_eq!(sent[0].address, dma(client) + u64::from(offset));
        assert_eq!(usize::from(sent[0].length), 12 + 14 + 7);
        world.complete(&sent);
        assert_eq!(world.free[client].len() as u32, BUFFERS);
    }
}

#[test]
fn a_client_cannot_send_what_it_does_not_hold() {
    let mut world = World::new(2, false);
    let offset = world.send(0, mac(0)).expect("a buffer");
    world.turn();
    let sent = world.driver.take();
    // While it is being sent; not aligned; beyond the end; into the next client's memory.
    let lies = [offset, 5, BUFFERS * SIZE, 0x10_0000, u32::MAX];
    world.clients[0].send(&lies.map(|offset| Descriptor { offset, length: 60, flags: 0 }));
    world.turn();
    assert!(world.driver.take().is_empty());
    world.complete(&sent);
    assert_eq!(world.free[0].len() as u32, BUFFERS, "each buffer is back, once");
    // Lengths that cannot be; the buffers come back.
    let mine: Vec<_> = world.free[0].drain(..).collect();
    for (entry, length) in mine.iter().zip([0, 25, SIZE as u16 + 1, u16::MAX]) {
        world.clients[0].send(&[Descriptor { length, ..*entry }]);
    }
    world.turn();
    world.collect();
    assert!(world.driver.take().is_empty());
    assert_eq!(world.free[0].len(), 4);
}

#[test]
fn a_client_cannot_send_under_anothers_address() {
    let mut world = World::new(2, true);
    world.send(0, mac(1));
    world.send(0, Mac::BROADCAST);
    world.send(0, mac(0));
    world.turn();
    let sent = world.driver.take();
    assert_eq!(sent.len(), 1, "only the one from its own address");
    world.collect();
    assert_eq!(world.free[0].len() as u32, BUFFERS, "copied frames need their buffers no more");
    world.complete(&sent);
    // Nor can it ask the device for more than its frame.
    let buffer = world.free[0].pop().expect("a buffer");
    let data = Region::new(world.client_connections[0].data);
    let length = write_packet(&data, buffer.offset, &frame(SOMEBODY, mac(0), b"content"));
    data.write(buffer.offset as usize, &[1, 0, 0, 0, 0, 0, 0xff, 0xff]).expect("inside");
    world.clients[0].send(&[Descriptor { length, ..buffer }]);
    world.turn();
    assert!(world.driver.take().is_empty());
}

#[test]
fn a_client_cannot_have_the_device_write_over_what_was_checked() {
    let mut world = World::new(1, true);
    let data = Region::new(world.client_connections[0].data);
    // Sums from anywhere to the second half of the source address, in frames of nothing in
    // particular and of UDP.
    for (start, offset, kind) in [(0_u8, 6_u8, 0x88_u8), (0, 10, 0x88), (10, 0, 8), (14, 12, 8), (14, 20, 8)] {
        let buffer = world.free[0].pop().expect("a buffer");
        let mut sent = frame(SOMEBODY, mac(0), &[0; 60]);
        sent[12..15].copy_from_slice(&[kind, 0, 0x45]);
        let length = write_packet(&data, buffer.offset, &sent);
        data.write(buffer.offset as usize, &[1, 0, 0, 0, 0, 0, start, 0, offset, 0]).expect("inside");
        world.clients[0].send(&[Descriptor { length, ..buffer }]);
        world.turn();
        assert!(world.driver.take().is_empty(), "a checksum at {start} + {offset}");
        world.collect();
    }
}

#[test]
fn a_client_cannot_change_a_frame_after_the_check() {
    let mut world = World::new(1, true);
    let offset = world.send(0, mac(0)).expect("a buffer");
    world.turn();
    let sent = world.driver.take();
    let data = Region::new(world.client_connections[0].data);
    data.write(offset as usize + 12 + 6, &mac(1).bytes()).expect("inside");
    let bounce = Region::new(world.connection.bounce);
    let mut source = [0; 6];
    bounce.read((sent[0].address - BOUNCE) as usize + 12 + 6, &mut source).expect("what is sent is the copy");
    assert_eq!(source, mac(0).bytes());
}

#[test]
fn the_driver_is_asked_for_buffers_only_when_they_run_short() {
    let mut world = World::new(1, false);
    for count in 1..=BUFFERS {
        world.send(0, mac(0));
        world.turn();
        let short = count > BUFFERS / 2;
        assert_eq!(world.driver.output().awaited(count), short, "{count} of {BUFFERS}");
    }
}

#[test]
fn who_waits_for_its_share_has_the_driver_look() {
    for clients in [1, 2, 8] {
        let mut world = World::new(clients, false);
        assert!(world.driver.sleep().is_asleep());
        let _ = culm::testing::signalled();
        let (mut sent, mut looked) = (0, false);
        for _ in 0..BUFFERS {
            world.send(0, mac(0));
            world.turn();
            // A driver that looks only when it is notified.
            if culm::testing::signalled().contains(&0) {
                sent += world.driver.take().len() as u32;
                looked = world.driver.output().awaited(sent);
                assert!(world.driver.sleep().is_asleep());
            }
        }
        assert!(looked, "{clients} clients: {sent} frames are being sent, and the driver does not know that one waits");
    }
}

#[test]
fn the_driver_cannot_return_what_it_does_not_have() {
    let mut world = World::new(2, false);
    world.send(0, mac(0));
    world.turn();
    let sent = world.driver.take();
    let lie = |token| DmaDescriptor { token, ..DmaDescriptor::default() };
    world.complete(&[lie(1 << 16), lie(7 << 16), lie(u32::MAX - 1), lie(0xffff_0000), lie(BUFFERS), sent[0], sent[0]]);
    assert_eq!(world.free[0].len() as u32, BUFFERS);
    assert_eq!(world.free[1].len() as u32, BUFFERS);
}

#[test]
fn a_restarted_driver_gives_everything_back() {
    for anti_spoof in [false, true] {
        let mut world = World::new(2, anti_spoof);
        for _ in 0..5 {
            world.send(0, mac(0));
            world.send(1, mac(1));
        }
        world.turn();
        let _ = world.driver.take();
        world.driver = Peer::new(world.connection.driver_filled, world.connection.driver_free);
        world.settle();
        assert!(world.free.iter().all(|free| free.len() as u32 == BUFFERS));
        world.send(0, mac(0));
        world.turn();
        assert_eq!(world.driver.take().len(), 1);
    }
}

#[test]
fn a_restarted_client_is_not_given_what_is_being_sent() {
    let mut world = World::new(1, false);
    world.send(0, mac(0));
    world.turn();
    let sent = world.driver.take();
    let connection = world.client_connections[0];
    world.clients[0] = Peer::new(connection.free, connection.filled);
    world.free[0].clear();
    for _ in 0..3 {
        world.turn();
        world.collect();
    }
    assert_eq!(world.free[0].len() as u32, BUFFERS - 1);
    world.complete(&sent);
    assert_eq!(world.free[0].len() as u32, BUFFERS);
}

/// A frame of TCP over IPv4 of 60,014 bytes.
pub(crate) fn segments(from: Mac) -> Vec<u8> {
    segments_of(from, 60_000)
}

/// As [`segments`], of an IP packet of `length` bytes.
pub(crate) fn segments_of(from: Mac, length: u16) -> Vec<u8> {
    let mut frame = frame(SOMEBODY, from, &vec![0; length.into()]);
    frame[12..14].copy_from_slice(&[8, 0]);
    frame[14..24].copy_from_slice(&[0x45, 0, 0, 0, 0, 0, 0x40, 0, 64, 6]);
    frame[16..18].copy_from_slice(&length.to_be_bytes());
    frame[46] = 0x50;
    frame
}

/// A client sends a frame with this packet header in a buffer that it has.
pub(crate) fn send_packet(world: &mut World, client: usize, buffer: Descriptor, frame: &[u8], header: PacketHeader) {
    let data = Region::new(world.client_connections[client].data);
    let length = write_packet(&data, buffer.offset, frame);
    let mut bytes = [0; HEADROOM];
    header.write(&mut bytes);
    data.write(buffer.offset as usize, &bytes).expect("inside");
    world.clients[client].send(&[Descriptor { length, ..buffer }]);
}

/// A world in which the client has sent `count` packets of many segments; returns what the driver
/// got.
fn send_large(world: &mut World, count: usize, segment_size: u16) -> Vec<DmaDescriptor> {
    let large: Vec<_> = world.free[0].extract_if(.., |buffer| buffer.offset >= BUFFERS * SIZE).collect();
    for (index, buffer) in large.into_iter().enumerate() {
        if index >= count {
            world.free[0].push(buffer);
            continue;
        }
        let header = PacketHeader {
            flags: header::flags::NEEDS_CHECKSUM,
            segmentation: header::segmentation::TCP_4,
            header_length: 54,
            segment_size,
            checksum_start: 34,
            checksum_offset: 16,
            buffers: 0,
        };
        send_packet(world, 0, buffer, &segments(mac(0)), header);
    }
    world.turn();
    world.collect();
    world.driver.take()
}

#[test]
fn packets_of_many_segments_have_buffers_of_their_own() {
    for anti_spoof in [false, true] {
        let mut world = World::with_large(1, anti_spoof, 2);
        assert_eq!(world.free[0].len() as u32, BUFFERS + 2);
        let sent = send_large(&mut world, 1, 1460);
        assert_eq!(sent.iter().map(|entry| entry.length).collect::<Vec<_>>(), [60_026]);
        let start = if anti_spoof { BOUNCE } else { dma(0) } + u64::from(BUFFERS * SIZE);
        assert!(sent[0].address >= start && (sent[0].address - start).is_multiple_of(LARGE_BUFFER.into()));
        world.complete(&sent);
        assert_eq!(world.free[0].len() as u32, BUFFERS + 2);
    }
}

#[test]
fn a_checked_client_cannot_ask_for_segments_that_cannot_be() {
    let mut world = World::with_large(1, true, 2);
    assert!(send_large(&mut world, 1, 0).is_empty());
    assert!(send_large(&mut world, 2, 7).is_empty());
    assert_eq!(world.free[0].len() as u32, BUFFERS + 2, "all buffers are back");
    assert_eq!(send_large(&mut world, 2, 536).len(), 2, "those of the virtualiser too");
}

#[test]
fn large_buffers_are_asked_for_before_the_last_is_gone() {
    let mut world = World::with_large(1, false, 4);
    let sent = send_large(&mut world, 2, 1460);
    assert!(!world.driver.output().awaited(2), "half of them are plenty");
    let more = send_large(&mut world, 1, 1460);
    assert!(world.driver.output().awaited(3), "most are with the driver, though few buffers are");
    world.complete(&sent);
    world.complete(&more);
    assert_eq!(world.free[0].len() as u32, BUFFERS + 4);
}

#[test]
fn a_virtualiser_without_an_account_lends_when_the_driver_has_nothing_any_more() {
    let mut world = World::new(2, false);
    world.send(0, mac(0));
    world.turn();
    Region::new(world.connection.account).clear(0, 8).expect("inside");
    world.virtualiser = Transmit::new(&world.connection, &world.client_connections);
    for _ in 0..4 {
        world.turn();
        world.collect();
    }
    assert!(world.free.iter().all(Vec::is_empty), "the card may be reading some");
    for _ in 0..4 {
        world.turn();
        world.collect();
        let _ = world.driver.take();
    }
    assert!(world.free.iter().all(|free| free.len() as u32 == BUFFERS));
}

/// An act of a client or the driver.
#[derive(Clone, Debug)]
enum Act {
    /// The honest client sends.
    Send,
    /// The hostile one sends what it likes.
    Lie(Vec<(u32, u16, u16)>),
    /// The driver completes some.
    Complete(usize),
    /// The hostile client is restarted.
    Restart,
}

fn act() -> impl Strategy<Value = Act> {
    let large = (0..3_u32).prop_map(|number| BUFFERS * SIZE + number * LARGE_BUFFER);
    let offset = prop_oneof![any::<u32>(), (0..BUFFERS).prop_map(|number| number * SIZE), large];
    let length = prop_oneof![any::<u16>(), 26..2048_u16];
    let flags = prop_oneof![6 => Just(0_u16), 1 => any::<u16>()];
    prop_oneof![
        4 => Just(Act::Send),
        4 => proptest::collection::vec((offset, length, flags), 0..16).prop_map(Act::Lie),
        4 => (0..16_usize).prop_map(Act::Complete),
        1 => Just(Act::Restart),
    ]
}

proptest! {
    /// Client 0 is honest, client 1 hostile. Whatever the latter does, only memory of the sender
    /// reaches the device, nothing twice at a time, and every frame of the honest one is sent.
    #[test]
    fn a_hostile_client_harms_nobody(acts in proptest::collection::vec(act(), 0..100), anti_spoof: bool, large in 0..3_u32) {
        let mut world = World::with_large(2, anti_spoof, large);
        let bytes = u64::from(BUFFERS * SIZE + large * LARGE_BUFFER);
        let (mut handed, mut sent) = (0, 0);
        let mut with_driver: Vec<DmaDescriptor> = Vec::new();
        for act in acts {
            match act {
                Act::Send => handed += u32::from(world.send(0, mac(0)).is_some()),
                Act::Lie(entries) => {
                    let entries: Vec<_> =
                        entries.iter().map(|(offset, length, flags)| Descriptor { offset: *offset, length: *length, flags: *flags }).collect();
                    world.clients[1].send(&entries);
                }
                Act::Complete(count) => {
                    let count = count.min(with_driver.len());
                    let done: Vec<_> = with_driver.drain(..count).collect();
                    world.driver.send(&done);
                }
                Act::Restart => {
                    let connection = world.client_connections[1];
                    world.clients[1] = Peer::new(connection.free, connection.filled);
                }
            }
            world.turn();
            world.collect();
            for entry in world.driver.take() {
                let end = entry.address + u64::from(entry.length);
                let inside = |start: u64| entry.address >= start && end <= start + bytes;
                prop_assert!(inside(BOUNCE) == anti_spoof && (anti_spoof || inside(dma(0)) || inside(dma(1))));
                prop_assert!(with_driver.iter().all(|other| other.address != entry.address), "sent twice at a time");
                let honest = if anti_spoof {
                    let mut source = [0; 6];
                    Region::new(world.connection.bounce).read((entry.address - BOUNCE) as usize + 18, &mut source).expect("inside");
                    source == mac(0).bytes()
                } else {
                    inside(dma(0))
                };
                sent += u32::from(honest);
                with_driver.push(entry);
            }
        }
        // A frame that waits for its turn is sent when the driver gets on.
        for _ in 0..8 {
            let done = std::mem::take(&mut with_driver);
            world.driver.send(&done);
            world.turn();
            for entry in world.driver.take() {
                let honest = if anti_spoof {
                    let mut source = [0; 6];
                    Region::new(world.connection.bounce).read((entry.address - BOUNCE) as usize + 18, &mut source).expect("inside");
                    source == mac(0).bytes()
                } else {
                    entry.address < dma(1)
                };
                sent += u32::from(honest);
                with_driver.push(entry);
            }
        }
        prop_assert_eq!(handed, sent);
    }
}
