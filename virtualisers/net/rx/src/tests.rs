//! The virtualiser between a driver and clients, honest and hostile ones.

mod pieces;
mod restarts;
mod syns;

use crate::receive::Receive;
use core::sync::atomic::Ordering::Relaxed;
use culm::Region;
use culm::connection::{NetRxClient, NetRxVirtualiser, Ring};
use culm::testing::{channels, set_time};
use culm::time::{self, Duration};
use culm_lending::Shares;
use culm_net::testing::{Peer, frame, memory, ring, write_packet};
use culm_net::{Descriptor, DmaDescriptor, Mac};
use proptest::prelude::*;
use std::collections::BTreeSet;

/// So few that nothing is put off.
pub(crate) const BUFFERS: u32 = 24;
pub(crate) const SIZE: u32 = 2048;
pub(crate) const DMA: u64 = 0x8000_0000;
pub(crate) const STRANGER: Mac = Mac::new([2, 0, 0, 0, 0, 0x99]);

/// The virtualiser with a driver and clients around it.
pub(crate) struct World {
    pub(crate) connection: NetRxVirtualiser,
    pub(crate) client_connections: Vec<NetRxClient>,
    pub(crate) virtualiser: Receive,
    pub(crate) driver: Peer<DmaDescriptor>,
    pub(crate) clients: Vec<Peer<Descriptor>>,
    pub(crate) data: Region,
    /// Buffers that the driver has, oldest first.
    pub(crate) empty: Vec<DmaDescriptor>,
}

pub(crate) fn mac(client: usize) -> Mac {
    Mac::new([2, 0, 0, 0, 0, client as u8])
}

pub(crate) fn peer(filled: Ring, free: Ring) -> Peer<Descriptor> {
    Peer::new(filled, free)
}

/// Returns what a virtualiser with so many buffers and its clients are given, with queues of this
/// capacity.
pub(crate) fn connections(clients: usize, buffers: u32, capacity: u32) -> (NetRxVirtualiser, Vec<NetRxClient>) {
    let virtualiser = NetRxVirtualiser {
        driver_free: ring::<DmaDescriptor>(capacity),
        driver_filled: ring::<DmaDescriptor>(capacity),
        data: memory((buffers * SIZE) as usize, DMA),
        account: memory(16 * 1024, 0),
        buffer_size: SIZE,
        driver_channel: 0,
        clients: Default::default(),
    };
    let client = |client| NetRxClient {
        filled: ring::<Descriptor>(capacity),
        free: ring::<Descriptor>(capacity),
        channel: 1 + client as u32,
        mac: mac(client).bytes(),
        promiscuous: 0,
    };
    (virtualiser, (0..clients).map(client).collect())
}

impl World {
    pub(crate) fn new(clients: usize) -> Self {
        Self::connected(connections(clients, BUFFERS, 64))
    }

    fn connected((connection, client_connections): (NetRxVirtualiser, Vec<NetRxClient>)) -> Self {
        let mut world = Self {
            virtualiser: Receive::new(&connection, &client_connections),
            driver: Peer::new(connection.driver_free, connection.driver_filled),
            clients: client_connections.iter().map(|client| peer(client.filled, client.free)).collect(),
            data: Region::new(connection.data),
            connection,
            client_connections,
            empty: Vec::new(),
        };
        world.settle();
        world
    }

    /// Everybody takes turns until all know each other.
    pub(crate) fn settle(&mut self) {
        for _ in 0..4 {
            self.turn();
            for index in 0..self.clients.len() {
                let entries = self.clients[index].take();
                assert!(entries.is_empty());
            }
            self.driver_turn();
        }
    }

    pub(crate) fn turn(&mut self) {
        for _ in 0..4 {
            if self.virtualiser.round().is_asleep() {
                return;
            }
        }
    }

    pub(crate) fn driver_turn(&mut self) {
        let renewals = self.driver.renewals;
        let entries = self.driver.take();
        if self.driver.renewals != renewals {
            self.empty.clear();
        }
        self.empty.extend(entries);
    }

    /// The device receives a frame.
    pub(crate) fn receive(&mut self, frame: &[u8]) -> u32 {
        let entry = self.empty.remove(0);
        let offset = (entry.address - DMA) as u32;
        let length = write_packet(&self.data, offset, frame);
        self.driver.send(&[DmaDescriptor { address: 0, length, flags: 0, token: entry.token }]);
        entry.token
    }

    /// Receives a frame, and lets everybody have it.
    pub(crate) fn bring(&mut self, frame: &[u8]) {
        self.receive(frame);
        self.turn();
        self.driver_turn();
    }

    /// Receives a frame for `to`, and lets everybody have it.
    pub(crate) fn pass(&mut self, to: Mac) {
        self.bring(&frame(to, STRANGER, b"content"));
    }
}

/// A frame for nobody's address goes to the promiscuous client alone, whoever the one before was
/// for; each client's own frames stay its own.
#[test]
fn frames_for_nobody_go_to_the_promiscuous_client() {
    let (connection, mut clients) = connections(3, BUFFERS, 64);
    clients[1].promiscuous = 1;
    let mut world = World::connected((connection, clients));
    for (to, receiver) in [(STRANGER, 1), (mac(2), 2), (STRANGER, 1), (mac(1), 1), (mac(0), 0), (STRANGER, 1)] {
        world.pass(to);
        let counts: Vec<usize> = world.clients.iter_mut().map(|client| client.take().len()).collect();
        assert_eq!(counts, (0..3).map(|client| usize::from(client == receiver)).collect::<Vec<_>>(), "{to}");
    }
}

#[test]
fn the_driver_is_given_every_buffer_once() {
    let world = World::new(2);
    let offsets: BTreeSet<u64> = world.empty.iter().map(|entry| entry.address).collect();
    assert_eq!(offsets, (0..BUFFERS).map(|number| DMA + u64::from(number * SIZE)).collect());
    assert!(world.empty.iter().all(|entry| u32::from(entry.length) == SIZE));
}

#[test]
fn frames_go_by_their_address() {
    let mut world = World::new(3);
    for client in [2, 0, 1, 1] {
        world.pass(mac(client));
        for (index, peer) in world.clients.iter_mut().enumerate() {
            let entries = peer.take();
            assert_eq!(entries.len(), usize::from(index == client));
            peer.send(&entries);
        }
    }
    world.pass(STRANGER);
    assert!(world.clients.iter_mut().all(|client| client.take().is_empty()), "nobody is given a stranger's frame");
    // A returned buffer is found when the same client is given something: so one of the four is
    // back.
    assert_eq!(world.empty.len() as u32, BUFFERS - 3, "a frame for nobody costs no buffer");
}

#[test]
fn a_broadcast_is_free_when_the_last_reader_returned_it() {
    let mut world = World::new(3);
    world.pass(Mac::BROADCAST);
    let entries: Vec<_> = world.clients.iter_mut().map(|client| client.take()).collect();
    assert!(entries.iter().all(|own| own.len() == 1 && own[0].offset == entries[0][0].offset));
    for (index, entries) in entries.iter().enumerate() {
        assert_eq!(world.empty.len() as u32, BUFFERS - 1);
        world.clients[index].send(entries);
        world.virtualiser.mark_due(channels(&[1 + index as u32]));
        world.turn();
        world.driver_turn();
    }
    assert_eq!(world.empty.len() as u32, BUFFERS);
}

#[test]
fn a_client_cannot_return_what_it_does_not_hold() {
    let mut world = World::new(2);
    world.pass(mac(0));
    let lent = world.clients[0].take();
    let before = world.empty.len();
    // Another's, twice; one of the driver's; one that is not aligned; one that does not exist.
    let driver = (world.empty[0].address - DMA) as u32;
    let lies = [lent[0].offset, lent[0].offset, driver, lent[0].offset + 1, BUFFERS * SIZE, u32::MAX];
    world.clients[1].send(&lies.map(Descriptor::empty));
    world.virtualiser.mark_due(channels(&[2]));
    world.turn();
    world.driver_turn();
    assert_eq!(world.empty.len(), before);
    // The honest one, twice: the second time it does not hold it any more.
    world.clients[0].send(&[lent[0], lent[0]]);
    world.virtualiser.mark_due(channels(&[1]));
    world.turn();
    world.driver_turn();
    assert_eq!(world.empty.len(), before + 1);
}

#[test]
fn a_client_that_returns_nothing_starves_nobody() {
    let mut world = World::new(2);
    let mut kept = 0;
    for _ in 0..4 * BUFFERS {
        world.pass(mac(0));
        kept += world.clients[0].take().len();
    }
    let others = Shares::new(BUFFERS, 2).guarantee();
    assert!(
        kept as u32 <= BUFFERS - BUFFERS / 8 - others,
        "{kept} buffers are more than its share and the common rest"
    );
    // The other one still has its share, at once and for ever.
    for _ in 0..4 * BUFFERS {
        world.pass(mac(1));
        let entries = world.clients[1].take();
        assert_eq!(entries.len(), 1);
        world.clients[1].send(&entries);
    }
    assert!(!world.empty.is_empty(), "the device goes on");
}

#[test]
fn lengths_that_cannot_be_are_dropped() {
    let mut world = World::new(1);
    for length in [0, 25, SIZE as u16 + 1, u16::MAX] {
        let entry = world.empty.remove(0);
        world.driver.send(&[DmaDescriptor { address: 0, length, flags: 0, token: entry.token }]);
    }
    world.turn();
    world.driver_turn();
    assert!(world.clients[0].take().is_empty());
    assert_eq!(world.empty.len() as u32, BUFFERS);
}

#[test]
fn the_driver_is_woken_only_when_it_runs_low() {
    let mut world = World::new(1);
    let _ = culm::testing::signalled();
    assert!(world.clients[0].sleep().is_asleep());
    world.pass(mac(0));
    assert_eq!(culm::testing::signalled(), [1], "the client sleeps, the driver has plenty");
}

#[test]
fn a_restarted_client_gets_a_fresh_start() {
    let mut world = World::new(2);
    for _ in 0..5 {
        world.pass(mac(0));
        world.pass(Mac::BROADCAST);
    }
    let _ = world.clients[0].take();
    let connection = world.client_connections[0];
    world.clients[0] = peer(connection.filled, connection.free);
    world.virtualiser.mark_due(channels(&[1]));
    world.turn();
    assert!(world.clients[0].take().is_empty());
    world.turn();
    world.driver_turn();
    assert_eq!(world.empty.len() as u32, BUFFERS - 5, "only the other's broadcasts are still lent");
    world.pass(mac(0));
    assert_eq!(world.clients[0].take().len(), 1);
}

#[test]
fn a_restarted_driver_gets_its_buffers_again() {
    let mut world = World::new(1);
    world.pass(mac(0));
    let lent = world.clients[0].take();
    world.driver = Peer::new(world.connection.driver_free, world.connection.driver_filled);
    world.empty.clear();
    world.settle();
    assert_eq!(world.empty.len() as u32, BUFFERS - 1, "the client's buffer stays the client's");
    assert!(world.empty.iter().all(|entry| entry.address - DMA != u64::from(lent[0].offset)));
}

/// A driver's entries that can still be read are given out before the pair starts over, which makes
/// them void. Here the driver shows an index that cannot be, and receives a frame.
#[test]
fn a_frame_that_can_still_be_read_is_given_out_before_the_driver_starts_over() {
    let mut world = World::new(1);
    // The second line of a ring's head is its consumer's: how far the driver has read.
    let mut head = world.connection.data;
    (head.address, head.size) = (world.connection.driver_free.address, 128);
    let read = Region::new(head).atomic_u64(64).expect("inside");
    for frames in 0..200 {
        world.pass(mac(0));
        let entries = world.clients[0].take();
        world.clients[0].send(&entries);
        world.virtualiser.mark_due(channels(&[1]));
        // The virtualiser gives the returned buffer to the driver, and looks there if it knows of
        // no more space.
        read.fetch_add(1000, Relaxed);
        let _ = world.virtualiser.round();
        read.fetch_sub(1000, Relaxed);
        world.driver_turn();
        world.receive(&frame(mac(0), STRANGER, b"content"));
        let _ = world.virtualiser.round();
        let entries = world.clients[0].take();
        assert_eq!(entries.len(), 1, "after {frames} frames");
        if !world.virtualiser.driver().is_live() {
            return;
        }
        world.clients[0].send(&entries);
    }
    panic!("the virtualiser never looked");
}

#[test]
fn a_virtualiser_without_an_account_takes_everything_back() {
    let mut world = World::new(2);
    world.pass(mac(0));
    world.pass(mac(1));
    Region::new(world.connection.account).clear(0, 8).expect("inside");
    world.virtualiser = Receive::new(&world.connection, &world.client_connections);
    world.settle();
    assert_eq!(world.empty.len() as u32, BUFFERS);
    world.pass(mac(1));
    assert_eq!(world.clients[1].take().len(), 1);
}

#[test]
fn a_client_that_only_notifies_is_left_alone() {
    let mut world = World::new(2);
    world.pass(mac(1));
    let lent = world.clients[1].take();
    for _ in 0..1000 {
        world.virtualiser.mark_due(channels(&[2]));
        assert!(world.virtualiser.round().is_asleep());
    }
    let deadline = culm::testing::deadline().expect("it looks again");
    world.clients[1].send(&lent);
    world.virtualiser.mark_due(channels(&[2]));
    assert!(world.virtualiser.round().is_asleep());
    world.driver_turn();
    assert_eq!(world.empty.len() as u32, BUFFERS - 1, "nobody looks whether it has returned something this time");
    // Meanwhile others get what is for them, and it does too.
    world.pass(mac(0));
    world.pass(mac(1));
    assert_eq!((world.clients[0].take().len(), world.clients[1].take().len()), (1, 1));
    set_time(deadline);
    let _ = world.virtualiser.round();
    world.driver_turn();
    assert_eq!(world.empty.len() as u32, BUFFERS - 2, "in the end somebody does");
}

#[test]
fn a_client_that_starts_over_without_end_costs_little() {
    let mut world = World::new(2);
    let before = world.clients[1].renewals;
    for _ in 0..1000 {
        world.clients[1].link.start_over();
        for _ in 0..2 {
            let _ = world.clients[1].take();
            world.virtualiser.mark_due(channels(&[2]));
            world.turn();
        }
        let _ = world.clients[1].take();
        set_time(time::now() + Duration::from_millis(1));
    }
    let answers = world.clients[1].renewals - before;
    // In a second: its allowance, and ten times that as time passes.
    assert!(answers > 10 && answers < 11 * (256 + 3 * BUFFERS) / 6, "{answers} answers");
    world.pass(mac(0));
    assert_eq!(world.clients[0].take().len(), 1);
}

#[test]
fn a_client_that_returns_what_it_was_given_is_never_left_alone() {
    let mut world = World::new(2);
    for _ in 0..5000 {
        world.pass(mac(1));
        let lent = world.clients[1].take();
        assert_eq!(lent.len(), 1);
        world.clients[1].send(&lent);
        world.virtualiser.mark_due(channels(&[2]));
        world.turn();
        world.driver_turn();
        assert_eq!(world.empty.len() as u32, BUFFERS);
    }
}

/// An act of a hostile client.
#[derive(Clone, Debug)]
enum Act {
    /// A frame arrives for a client (or, from 3 on, for all).
    Frame(usize),
    /// The honest client returns some of what it holds.
    Return(usize),
    /// The hostile one returns what it likes.
    Lie(Vec<(u32, u16, u16)>),
    /// The hostile one is restarted.
    Restart,
    Turn,
}

fn act() -> impl Strategy<Value = Act> {
    let offset = prop_oneof![any::<u32>(), (0..BUFFERS).prop_map(|number| number * SIZE)];
    let flags = prop_oneof![4 => Just(0_u16), 1 => any::<u16>()];
    prop_oneof![
        4 => (0..4_usize).prop_map(Act::Frame),
        3 => (0..8_usize).prop_map(Act::Return),
        3 => proptest::collection::vec((offset, any::<u16>(), flags), 0..16).prop_map(Act::Lie),
        1 => Just(Act::Restart),
        4 => Just(Act::Turn),
    ]
}

proptest! {
    /// Client 0 is honest, client 1 hostile. Whatever the latter does, buffers are with one side
    /// only, and the honest one gets its frames and nobody else's.
    #[test]
    fn a_hostile_client_harms_nobody(acts in proptest::collection::vec(act(), 0..120)) {
        let mut world = World::new(2);
        let mut held: Vec<Descriptor> = Vec::new();
        let (mut expected, mut received) = (0, 0);
        for act in acts {
            match act {
                Act::Frame(client) if !world.empty.is_empty() => {
                    let to = match client { 0 | 1 => mac(client), 2 => STRANGER, _ => Mac::BROADCAST };
                    world.receive(&frame(to, STRANGER, &[7]));
                    // Its share is below its guarantee as long as it returns in time.
                    expected += u32::from((client == 0 || client > 2) && held.len() < 4);
                }
                Act::Frame(_) => {}
                Act::Return(count) => {
                    let count = count.min(held.len());
                    let returned: Vec<_> = held.drain(..count).collect();
                    world.clients[0].send(&returned);
                }
                Act::Lie(entries) => {
                    let entries: Vec<_> =
                        entries.iter().map(|(offset, length, flags)| Descriptor { offset: *offset, length: *length, flags: *flags }).collect();
                    world.clients[1].send(&entries);
                    world.virtualiser.mark_due(channels(&[2]));
                }
                Act::Restart => {
                    let connection = world.client_connections[1];
                    world.clients[1] = peer(connection.filled, connection.free);
                }
                Act::Turn => {}
            }
            world.turn();
            world.driver_turn();
            for packet in world.clients[0].take() {
                prop_assert!(!held.iter().any(|other| other.offset == packet.offset), "lent twice");
                let to = culm_net::testing::read_frame(&world.data, packet)[5];
                prop_assert!(to == 0 || to == 0xff, "a frame for {to}");
                held.push(packet);
                received += 1;
            }
            // With hostile returns among them, no buffer is with the driver and a client, nor twice
            // with the driver.
            let mut with_driver = BTreeSet::new();
            for entry in &world.empty {
                prop_assert!(with_driver.insert(entry.address - DMA), "given to the driver twice");
            }
            for packet in &held {
                prop_assert!(!with_driver.contains(&u64::from(packet.offset)), "with the driver and with the client");
            }
        }
        prop_assert!(received >= expected, "{received} frames of {expected}");
    }
}
