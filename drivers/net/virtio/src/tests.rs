//! The driver between a fake device and virtualisers.

mod restarts;
mod turns;

use crate::device::{Device, QUEUE_LIMIT, Virtqueues};
use crate::net::Net;
use crate::registers::*;
use culm::connection::NetDriver;
use culm::time::{self, Duration};
use culm::{Channels, Region};
use culm_net::DmaDescriptor;
use culm_net::descriptor::flags::{
    AFTER_RESET, CHECKSUM_OFFLOAD, LINK_COUNT, LINK_COUNT_SHIFT, SEGMENTATION_OFFLOAD_4, SEGMENTATION_OFFLOAD_6,
};
use culm_net::testing::{Peer, ring};
use culm_virtio::registers::*;
use culm_virtio::testing::{Fake, State, memory};
use culm_virtio::virtqueue::Access;
use culm_virtio::{Layout, Unusable, checkpoint};
use std::rc::Rc;
use std::vec::Vec;

const RECEIVE: u32 = QUEUE_RECEIVE;
const TRANSMIT: u32 = QUEUE_TRANSMIT;

/// The cause of an interrupt for something other than buffers.
const CHANGE: Causes = Causes::ZERO.set(Causes::CHANGE);

/// Sets a device up, with nothing before.
fn start(fake: Fake, memory: &Region, large: bool) -> Result<(Device<Fake>, Virtqueues), Unusable> {
    let (mut device, mut queues) = Device::find(fake, memory, checkpoint::SIZE, large)?;
    device.reset()?;
    for queue in [&mut queues.receive, &mut queues.transmit] {
        queue.renew(device.has_event_index());
    }
    device.set_to_work(memory, &queues.receive, &queues.transmit);
    Ok((device, queues))
}

/// A network device, with everything that the driver asks of one.
pub fn fake(memory: Region) -> Fake {
    let fake = Fake::new(Kind::NETWORK, 2, memory);
    let features = fake.0.features.get() | FEATURE_MAC | FEATURE_STATUS | FEATURE_CHECKSUM;
    fake.0.features.set(features);
    set_link(&fake.0, true);
    fake
}

/// A connection to both virtualisers, by queues of so many entries.
fn connection(entries: u32) -> NetDriver {
    let rings = || ring::<DmaDescriptor>(entries);
    NetDriver {
        rx_free: rings(),
        rx_filled: rings(),
        tx_filled: rings(),
        tx_free: rings(),
        rx_channel: 1,
        tx_channel: 2,
        mac: [0, 1, 2, 3, 4, 5],
        large_receive: 0,
    }
}

fn set_link(state: &State, up: bool) {
    *state.configuration.borrow_mut() = std::vec![0, 1, 2, 3, 4, 5, up.into(), 0];
}

fn device_memory() -> Region {
    memory(64 * 1024)
}

/// The tool refuses boards that give a device less than the manifest asks for.
#[test]
fn the_longest_queues_fit_the_memory_that_the_manifest_asks_for() {
    let (_, rest) = include_str!("../component.toml").split_once("dma = \"").expect("it asks for memory");
    let (asked, _) = rest.split_once("KiB\"").expect("by the KiB");
    let transmit = Layout::new(QUEUE_LIMIT, Layout::new(QUEUE_LIMIT, checkpoint::SIZE).end);
    assert!(transmit.end <= asked.parse::<usize>().expect("a number") * 1024, "{} bytes", transmit.end);
}

/// The driver, its device, and both virtualisers.
struct World {
    connection: NetDriver,
    state: Rc<State>,
    net: Net<Fake>,
    rx: Peer<DmaDescriptor>,
    tx: Peer<DmaDescriptor>,
}

fn buffer(token: u32) -> DmaDescriptor {
    DmaDescriptor { address: 0x1000_0000 + u64::from(token) * 2048, length: 2048, flags: 0, token }
}

impl World {
    fn new() -> Self {
        let memory = device_memory();
        let fake = self::fake(memory);
        Self::with(fake, memory)
    }

    fn with(fake: Fake, memory: Region) -> Self {
        let connection = connection(64);
        let state = fake.0.clone();
        let net = Net::new(fake, memory, &connection).expect("a device that works");
        let mut world = Self {
            rx: Peer::new(connection.rx_filled, connection.rx_free),
            tx: Peer::new(connection.tx_free, connection.tx_filled),
            connection,
            state,
            net,
        };
        world.settle();
        world
    }

    /// Everybody takes turns until all know each other.
    fn settle(&mut self) {
        for _ in 0..6 {
            self.turn();
            let _ = (self.rx.take(), self.tx.take());
        }
    }

    fn turn(&mut self) {
        self.net.mark_due(culm::testing::channels(&[1, 2]));
        self.rounds();
    }

    /// Rounds of one turn, until there is nothing left to do.
    fn rounds(&mut self) {
        let ends = (0..64).any(|_| self.net.round().is_asleep());
        assert!(ends, "a turn that does not end");
    }

    fn interrupt(&mut self) {
        self.net.interrupted();
        self.rounds();
    }

    /// Gives the device receive buffers with these tokens.
    fn provide(&mut self, tokens: core::ops::Range<u32>) {
        self.rx.send(&tokens.map(buffer).collect::<Vec<_>>());
        self.turn();
        self.state.take(RECEIVE);
    }
}

#[test]
fn a_device_is_set_up_as_it_wants_to_be() {
    let world = World::new();
    assert_eq!(world.state.resets.get(), 1);
    assert!(world.net.flags & CHECKSUM_OFFLOAD != 0);
}

#[test]
fn segments_are_left_to_devices_that_make_checksums_too() {
    let flags = |features: u64| {
        let memory = device_memory();
        let fake = self::fake(memory);
        fake.0.features.set(FEATURE_VERSION_1 | features);
        start(fake, &memory, false).expect("works").0.flags()
    };
    assert_eq!(flags(FEATURE_CHECKSUM | FEATURE_HOST_TSO4), CHECKSUM_OFFLOAD | SEGMENTATION_OFFLOAD_4);
    assert_eq!(flags(FEATURE_CHECKSUM | FEATURE_HOST_TSO6), CHECKSUM_OFFLOAD | SEGMENTATION_OFFLOAD_6);
    assert_eq!(flags(FEATURE_CHECKSUM), CHECKSUM_OFFLOAD);
    assert_eq!(flags(FEATURE_HOST_TSO4 | FEATURE_HOST_TSO6), 0);
}

#[test]
fn packets_in_several_buffers_are_received_only_where_all_is_ready_for_them() {
    let settled = |features: u64, large: bool| {
        let memory = device_memory();
        let fake = self::fake(memory);
        fake.0.features.set(FEATURE_VERSION_1 | features);
        let state = fake.0.clone();
        start(fake, &memory, large).expect("works");
        state.driver_features() & !FEATURE_VERSION_1
    };
    let all = FEATURE_GUEST_TSO | FEATURE_MERGE | FEATURE_GUEST_CHECKSUM;
    assert_eq!(settled(all, true), all);
    assert_eq!(settled(all, false), FEATURE_GUEST_CHECKSUM);
    assert_eq!(settled(all & !FEATURE_MERGE, true), FEATURE_GUEST_CHECKSUM);
    assert_eq!(settled(all & !FEATURE_GUEST_CHECKSUM, true), 0);
}

#[test]
fn unusable_devices_are_told_apart() {
    let outcome = |change: fn(&State)| {
        let memory = device_memory();
        let fake = self::fake(memory);
        change(&fake.0);
        start(fake, &memory, false).map(|_| ())
    };
    assert_eq!(outcome(|state| state.version.set(Version::LEGACY)), Err(Unusable::Legacy));
    assert_eq!(outcome(|state| state.kind.set(Kind::NONE)), Err(Unusable::Absent));
    assert_eq!(
        outcome(|state| state.kind.set(Kind::BLOCK)),
        Err(Unusable::Kind { wanted: Kind::NETWORK, found: Kind::BLOCK })
    );
    assert_eq!(outcome(|state| state.features.set(FEATURE_MAC)), Err(Unusable::Legacy));
    assert_eq!(outcome(|state| state.accepts_features.set(false)), Err(Unusable::Features));
    assert_eq!(outcome(|state| state.queue_size.set(0)), Err(Unusable::Queue));
    assert_eq!(outcome(|state| state.queue_size.set(1000)), Ok(()));
    let memory = memory(512);
    let start = start(fake(memory), &memory, false);
    assert_eq!(start.map(|_| ()), Err(Unusable::Queue));
}

#[test]
fn received_packets_are_passed_on() {
    let mut world = World::new();
    world.provide(0..10);
    for (token, length) in [(0, 60), (1, 1526), (2, 2048)] {
        let given = world.state.use_next(RECEIVE, length).expect("a buffer");
        let given = given.buffer();
        assert_eq!((given.address, given.length, given.access), (buffer(token).address, 2048, Access::Write));
        world.interrupt();
        let entries = world.rx.take();
        let first = if token == 0 { AFTER_RESET } else { 0 };
        let expected = DmaDescriptor { address: 0, length: length as u16, flags: CHECKSUM_OFFLOAD | first, token };
        assert_eq!(entries, [expected]);
    }
    assert_eq!(world.state.interrupts.get(), 3, "one for each, since the driver slept each time");
}

#[test]
fn one_interrupt_and_one_notification_for_many() {
    let mut world = World::new();
    world.provide(0..10);
    assert!(world.rx.sleep().is_asleep());
    let _ = culm::testing::signalled();
    for _ in 0..10 {
        world.state.use_next(RECEIVE, 60);
    }
    assert_eq!(world.state.interrupts.get(), 1);
    world.interrupt();
    assert_eq!(culm::testing::signalled(), [1]);
    assert_eq!(world.rx.take().len(), 10);
    assert_eq!(world.state.acknowledged.get(), 1);
}

#[test]
fn packets_are_sent_with_one_doorbell() {
    let mut world = World::new();
    world.state.take(TRANSMIT);
    world.state.doorbells.borrow_mut().clear();
    let frames: Vec<_> = (0..5).map(|token| DmaDescriptor { length: 100, ..buffer(token) }).collect();
    world.tx.send(&frames);
    world.turn();
    assert_eq!(*world.state.doorbells.borrow(), [TRANSMIT]);
    let given = world.state.take(TRANSMIT);
    assert_eq!(given.len(), 5);
    let given = given.iter().map(culm_virtio::testing::Given::buffer);
    assert!(
        given.zip(&frames).all(|(given, frame)| {
            (given.address, given.length, given.access) == (frame.address, 100, Access::Read)
        })
    );
}

#[test]
fn nobody_is_disturbed_for_sent_packets_unless_somebody_waits() {
    let mut world = World::new();
    world.tx.send(&[buffer(0), buffer(1)]);
    world.turn();
    world.state.take(TRANSMIT);
    world.state.use_next(TRANSMIT, 0);
    world.state.use_next(TRANSMIT, 0);
    world.turn();
    assert_eq!(world.state.interrupts.get(), 0);
    assert!(world.tx.take().is_empty());
    // Now the virtualiser waits: announced before the packets that the driver sees.
    assert!(world.tx.sleep().is_asleep());
    world.tx.send(&[buffer(2)]);
    world.turn();
    assert_eq!(world.tx.take().len(), 2, "those that were sent come back at once");
    assert!(world.tx.sleep().is_asleep());
    world.turn();
    world.state.take(TRANSMIT);
    world.state.use_next(TRANSMIT, 0);
    assert_eq!(world.state.interrupts.get(), 1, "the last one interrupts");
    world.interrupt();
    assert_eq!(world.tx.take().len(), 1);
}

#[test]
fn more_packets_than_descriptors_are_sent_in_the_end() {
    let mut world = World::new();
    world.tx.send(&(0..40).map(buffer).collect::<Vec<_>>());
    let mut sent = 0;
    for _ in 0..10 {
        world.turn();
        sent += world.state.take(TRANSMIT).len();
        let interrupts = world.state.interrupts.get();
        while world.state.use_next(TRANSMIT, 0).is_some() {}
        if sent < 40 {
            assert!(world.state.interrupts.get() > interrupts, "what waits for a descriptor needs the interrupt");
        }
        world.interrupt();
    }
    assert_eq!(sent, 40);
}

#[test]
fn a_length_that_a_buffer_does_not_have_is_not_believed() {
    let mut world = World::new();
    world.provide(0..10);
    world.state.use_next(RECEIVE, 4000);
    world.interrupt();
    let entries = world.rx.take();
    assert_eq!(entries.iter().map(|entry| (entry.token, entry.length)).collect::<Vec<_>>(), [(0, 0)]);
    assert_eq!(world.state.resets.get(), 1);
}

/// A buffer instead of which the device returns another would never come back. So it is reset, and
/// gets all again.
#[test]
fn a_device_that_lies_is_reset_and_no_descriptor_is_lost() {
    for lie in [0xffff_fff0, 15, 16] {
        let mut world = World::new();
        world.provide(0..10);
        world.state.use_next(RECEIVE, 60);
        world.state.use_raw(RECEIVE, lie, 60);
        world.interrupt();
        assert_eq!(world.rx.take().len(), 1, "what came before the lie counts");
        assert_eq!(world.state.resets.get(), 2);
        let again = world.state.take(RECEIVE);
        let expected: Vec<_> = (1..10).map(|token| buffer(token).address).collect();
        assert_eq!(again.iter().map(|given| given.buffer().address).collect::<Vec<_>>(), expected);
        assert_eq!((world.rx.renewals, world.tx.renewals), (1, 1), "no virtualiser notices");
        world.state.use_next(RECEIVE, 70);
        world.interrupt();
        assert_eq!(world.rx.take()[0].token, 1);
    }
}

#[test]
fn a_device_that_lost_its_place_is_reset() {
    let mut world = World::new();
    world.provide(0..10);
    world.tx.send(&[buffer(20), buffer(21)]);
    world.turn();
    world.state.take(TRANSMIT);
    world.state.set_used_index(RECEIVE, 500);
    world.interrupt();
    assert_eq!(world.state.resets.get(), 2);
    let again: Vec<_> = world.state.take(TRANSMIT).iter().map(|given| given.buffer().address).collect();
    assert_eq!(again, [buffer(20).address, buffer(21).address], "what it had to send it gets again, in order");
    assert_eq!(world.state.take(RECEIVE).len(), 10);
    world.state.use_next(RECEIVE, 60);
    world.interrupt();
    assert_eq!(world.rx.take().len(), 1);
}

#[test]
fn a_device_that_asks_for_a_reset_gets_it() {
    let mut world = World::new();
    world.provide(0..4);
    world.state.status.set(world.state.status.get().set(Status::NEEDS_RESET));
    world.state.causes.set(CHANGE);
    world.interrupt();
    assert_eq!(world.state.resets.get(), 2);
    assert_eq!(world.state.take(RECEIVE).len(), 4);
    world.state.use_next(RECEIVE, 60);
    world.interrupt();
    assert_eq!(world.rx.take().len(), 1);
}

/// A change that comes together with a packet is not acknowledged with it, and so interrupts again.
#[test]
fn a_change_beside_a_packet_is_not_missed() {
    let mut world = World::new();
    world.provide(0..4);
    world.state.use_next(RECEIVE, 60);
    world.state.status.set(world.state.status.get().set(Status::NEEDS_RESET));
    world.state.causes.set(CHANGE.set(Causes::USED));
    world.interrupt();
    assert_eq!(world.state.causes.get(), CHANGE);
    world.interrupt();
    assert_eq!(world.state.resets.get(), 2);
}

#[test]
fn a_device_that_fails_for_ever_costs_little_and_is_never_given_up() {
    let mut world = World::new();
    world.provide(0..4);
    let start = time::now();
    let mut turns = 0;
    while time::now().since(start) < Duration::from_secs(60) {
        world.state.set_used_index(RECEIVE, 500);
        world.interrupt();
        turns += 1;
        let deadline = culm::testing::deadline().filter(|deadline| *deadline > time::now());
        culm::testing::set_time(deadline.unwrap_or(time::now() + Duration::from_millis(1)));
    }
    assert!((60..100).contains(&world.state.resets.get()), "{} resets in a minute", world.state.resets.get());
    assert!(turns < 1000);
    // It comes to its senses.
    for _ in 0..3 {
        world.interrupt();
        if let Some(deadline) = culm::testing::deadline() {
            culm::testing::set_time(deadline);
        }
    }
    assert_eq!(world.state.take(RECEIVE).len(), 4);
    world.state.use_next(RECEIVE, 60);
    world.interrupt();
    assert_eq!(world.rx.take().len(), 1);
}

/// A machine that only sends, whose transmit virtualiser is restarted again and again.
#[test]
fn restarts_of_the_transmit_virtualiser_do_not_use_a_device_up() {
    let mut world = World::new();
    for life in 0..40 {
        world.tx.send(&[buffer(0), buffer(1)]);
        world.turn();
        assert_eq!(world.state.take(TRANSMIT).len(), 2, "in life {life}");
        world.tx = Peer::new(world.connection.tx_free, world.connection.tx_filled);
        world.turn();
        assert!(!world.tx.is_live());
        let _ = world.tx.take();
        assert!(!world.tx.is_live(), "its buffers are still being sent");
        world.state.use_next(TRANSMIT, 0);
        world.state.use_next(TRANSMIT, 0);
        assert!(world.state.interrupts.get() > 0, "for which the driver waits");
        world.interrupt();
        world.settle();
        assert!(world.tx.is_live(), "in life {life}");
    }
    assert_eq!(world.state.resets.get(), 1);
}

#[test]
fn a_device_that_does_not_send_is_reset_for_a_restarted_virtualiser() {
    let mut world = World::new();
    world.provide(0..4);
    world.tx.send(&[buffer(10)]);
    world.turn();
    world.tx = Peer::new(world.connection.tx_free, world.connection.tx_filled);
    world.turn();
    let deadline = culm::testing::deadline().expect("it waits for the device, but not for ever");
    culm::testing::set_time(deadline);
    world.net.mark_due(Channels::NONE);
    world.rounds();
    world.settle();
    assert_eq!(world.state.resets.get(), 2);
    assert!(world.tx.is_live());
    assert_eq!(world.state.take(TRANSMIT).len(), 0);
    assert_eq!(world.state.take(RECEIVE).len(), 4, "those to receive into are with it again");
}

#[test]
fn a_restarted_virtualiser_finds_an_empty_device() {
    let mut world = World::new();
    world.provide(0..4);
    world.rx = Peer::new(world.connection.rx_filled, world.connection.rx_free);
    world.settle();
    assert_eq!(world.state.resets.get(), 2, "what the device had belongs to the virtualiser's previous life");
    world.provide(7..9);
    world.state.use_next(RECEIVE, 60);
    world.interrupt();
    assert_eq!(world.rx.take()[0].token, 7);
}

/// The driver takes buffers when many are missing, so some may lie in the queue when their owner
/// dies.
#[test]
fn buffers_that_a_dead_virtualiser_left_in_the_queue_are_void() {
    let mut world = World::new();
    world.provide(0..4);
    world.rx.send(&[buffer(4), buffer(5)]);
    world.rx = Peer::new(world.connection.rx_filled, world.connection.rx_free);
    world.settle();
    assert_eq!(world.state.resets.get(), 2, "one reset takes back what the device had");
    assert!(world.rx.is_live());
    assert_eq!(world.state.take(RECEIVE).len(), 0);
    world.provide(7..9);
    world.state.use_next(RECEIVE, 60);
    world.interrupt();
    assert_eq!(world.rx.take()[0].token, 7);
}

#[test]
fn without_event_index_flags_do() {
    let memory = device_memory();
    let fake = self::fake(memory);
    fake.0.features.set(FEATURE_VERSION_1);
    let mut world = World::with(fake, memory);
    world.provide(0..4);
    world.state.use_next(RECEIVE, 60);
    assert!(world.state.interrupts.get() > 0);
    world.interrupt();
    let entries = world.rx.take();
    assert_eq!(entries.len(), 1);
    assert_eq!(entries[0].flags, AFTER_RESET, "nor does it complete checksums");
    world.tx.send(&[buffer(0)]);
    world.turn();
    assert_eq!(world.state.take(TRANSMIT).len(), 1);
}

#[test]
fn changes_of_the_link_are_logged_and_told_with_the_next_packet() {
    let mut world = World::new();
    world.provide(0..10);
    let told = |world: &mut World| {
        world.state.use_next(RECEIVE, 60);
        world.interrupt();
        world.rx.take()[0].flags & LINK_COUNT
    };
    assert_eq!(told(&mut world), 0);
    for link in [false, true] {
        set_link(&world.state, link);
        world.state.causes.set(CHANGE);
        world.interrupt();
    }
    assert_eq!(told(&mut world), 1 << LINK_COUNT_SHIFT);
    let log = culm::testing::take_log();
    assert!(log.contains("link down") && log.contains("link up"), "{log}");
}
