//! The driver between a fake device and virtualisers.

use crate::device::{Device, Unusable};
use crate::fake::{DMA, Fake, Given, State};
use crate::net::Net;
use crate::registers::*;
use crate::ring::{Layout, Ring, Used};
use culm::Region;
use culm::connection::NetDriver;
use culm_net::descriptor::flags::{CHECKSUM_OFFLOAD, SEGMENTATION_OFFLOAD};
use culm_net::testing::{Peer, memory, ring};
use culm_net::{DmaDescriptor, HEADROOM};
use proptest::prelude::*;
use std::rc::Rc;
use std::vec::Vec;

const RECEIVE: u32 = QUEUE_RECEIVE;
const TRANSMIT: u32 = QUEUE_TRANSMIT;

fn device_memory() -> Region {
    Region::new(memory(64 * 1024, DMA))
}

/// The driver, its device, and both virtualisers.
struct World {
    connection: NetDriver,
    state: Rc<State>,
    net: Net<Fake>,
    rx: Peer<DmaDescriptor>,
    tx: Peer<DmaDescriptor>,
    memory: Region,
}

fn buffer(token: u32) -> DmaDescriptor {
    DmaDescriptor { address: 0x1000_0000 + u64::from(token) * 2048, length: 2048, flags: 0, token }
}

impl World {
    fn new() -> Self {
        let memory = device_memory();
        let fake = Fake::new(memory);
        Self::with(fake, memory)
    }

    fn with(fake: Fake, memory: Region) -> Self {
        let rings = || ring::<DmaDescriptor>(64);
        let connection = NetDriver {
            rx_free: rings(),
            rx_filled: rings(),
            tx_filled: rings(),
            tx_free: rings(),
            rx_channel: 1,
            tx_channel: 2,
            mac: [0, 1, 2, 3, 4, 5],
            large_receive: 0,
            reserved: 0,
        };
        let state = fake.0.clone();
        let net = Net::new(fake, memory, &connection).expect("a device that works");
        let mut world = Self {
            rx: Peer::new(connection.rx_filled, connection.rx_free),
            tx: Peer::new(connection.tx_free, connection.tx_filled),
            connection,
            state,
            net,
            memory,
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
        self.net.note(culm::testing::channels(&[1, 2]));
        for _ in 0..8 {
            if self.net.round() {
                return;
            }
        }
    }

    fn interrupt(&mut self) {
        self.net.interrupted();
        for _ in 0..8 {
            if self.net.round() {
                return;
            }
        }
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
    assert!(world.net_flags() & CHECKSUM_OFFLOAD != 0);
}

impl World {
    /// What the driver says about the device, as a packet bears it.
    fn net_flags(&self) -> u16 {
        let (device, _) = Device::start(Fake::new(device_memory()), &device_memory(), false)
            .map_err(|(_, error)| error)
            .expect("works");
        device.flags()
    }
}

#[test]
fn segments_are_left_to_devices_that_make_checksums_too() {
    let flags = |features: u64| {
        let memory = device_memory();
        let fake = Fake::new(memory);
        fake.0.features.set(FEATURE_VERSION_1 | features);
        let (device, _) = Device::start(fake, &memory, false).map_err(|(_, error)| error).expect("works");
        device.flags()
    };
    assert_eq!(flags(FEATURE_CHECKSUM | FEATURE_SEGMENTS_4), CHECKSUM_OFFLOAD | SEGMENTATION_OFFLOAD);
    assert_eq!(flags(FEATURE_CHECKSUM), CHECKSUM_OFFLOAD);
    assert_eq!(flags(FEATURE_SEGMENTS_4), 0);
}

#[test]
fn packets_in_several_buffers_are_received_only_where_all_is_ready_for_them() {
    let settled = |features: u64, large: bool| {
        let memory = device_memory();
        let fake = Fake::new(memory);
        fake.0.features.set(FEATURE_VERSION_1 | features);
        let state = fake.0.clone();
        Device::start(fake, &memory, large).map_err(|(_, error)| error).expect("works");
        state.settled() & !FEATURE_VERSION_1
    };
    let all = FEATURE_GUEST_SEGMENTS | FEATURE_MERGE | FEATURE_GUEST_CHECKSUM;
    assert_eq!(settled(all, true), all);
    assert_eq!(settled(all, false), FEATURE_GUEST_CHECKSUM);
    assert_eq!(settled(all & !FEATURE_MERGE, true), FEATURE_GUEST_CHECKSUM);
    assert_eq!(settled(all & !FEATURE_GUEST_CHECKSUM, true), 0);
}

#[test]
fn unusable_devices_are_told_apart() {
    let start = |change: fn(&State)| {
        let memory = device_memory();
        let fake = Fake::new(memory);
        change(&fake.0);
        Device::start(fake, &memory, false).map(|_| ()).map_err(|(_, reason)| reason)
    };
    assert_eq!(start(|state| state.version.set(1)), Err(Unusable::Legacy));
    assert_eq!(start(|state| state.kind.set(0)), Err(Unusable::Absent));
    assert_eq!(start(|state| state.kind.set(2)), Err(Unusable::Kind(2)));
    assert_eq!(start(|state| state.features.set(FEATURE_MAC)), Err(Unusable::Legacy));
    assert_eq!(start(|state| state.accepts_features.set(false)), Err(Unusable::Features));
    assert_eq!(start(|state| state.queue_size.set(0)), Err(Unusable::Queue));
    assert_eq!(start(|state| state.queue_size.set(1000)), Ok(()));
    let memory = Region::new(memory(512, DMA));
    let start = Device::start(Fake::new(memory), &memory, false);
    assert_eq!(start.map(|_| ()).map_err(|(_, reason)| reason), Err(Unusable::Queue));
}

#[test]
fn received_packets_are_passed_on() {
    let mut world = World::new();
    world.provide(0..10);
    for (token, length) in [(0, 60), (1, 1526), (2, 2048)] {
        let given = world.state.use_next(RECEIVE, length).expect("a buffer");
        assert_eq!((given.address, given.length, given.writable), (buffer(token).address, 2048, true));
        world.interrupt();
        let entries = world.rx.take();
        let expected = DmaDescriptor { address: 0, length: length as u16, flags: CHECKSUM_OFFLOAD, token };
        assert_eq!(entries, [expected]);
    }
    assert_eq!(world.state.interrupts.get(), 3, "one for each, since the driver slept each time");
}

#[test]
fn one_interrupt_and_one_notification_for_many() {
    let mut world = World::new();
    world.provide(0..10);
    assert!(world.rx.sleep());
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
    assert!(given.iter().zip(&frames).all(|(given, frame)| given.address == frame.address && given.length == 100));
    assert!(given.iter().all(|given| !given.writable));
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
    assert!(world.tx.sleep());
    world.tx.send(&[buffer(2)]);
    world.turn();
    assert_eq!(world.tx.take().len(), 2, "those that were sent come back at once");
    assert!(world.tx.sleep());
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
fn a_device_that_lies_is_not_believed() {
    let mut world = World::new();
    world.provide(0..10);
    // A number that does not exist, one that the device does not have, the same one twice.
    world.state.use_raw(RECEIVE, 0xffff_fff0, 60);
    world.state.use_raw(RECEIVE, 15, 60);
    let given = world.state.use_next(RECEIVE, 60).expect("a buffer");
    world.state.use_raw(RECEIVE, given.number.into(), 60);
    // A length that the buffer does not have.
    world.state.use_next(RECEIVE, 4000);
    world.interrupt();
    let entries = world.rx.take();
    assert_eq!(entries.iter().map(|entry| (entry.token, entry.length)).collect::<Vec<_>>(), [(0, 60), (1, 0)]);
}

#[test]
fn a_device_that_lost_its_place_is_reset() {
    let mut world = World::new();
    world.provide(0..10);
    world.state.set_used_index(RECEIVE, 500);
    world.interrupt();
    assert_eq!(world.state.resets.get(), 2);
    world.settle();
    assert_eq!(world.rx.renewals, 2, "the virtualisers take back what the device had");
    assert_eq!(world.tx.renewals, 2);
    world.provide(0..4);
    world.state.use_next(RECEIVE, 60);
    world.interrupt();
    assert_eq!(world.rx.take().len(), 1);
}

#[test]
fn a_device_that_never_works_is_given_up() {
    let mut world = World::new();
    for _ in 0..20 {
        world.provide(0..4);
        world.state.set_used_index(RECEIVE, 500);
        world.interrupt();
        world.settle();
    }
    assert!(world.state.resets.get() < 12);
    assert!(culm::testing::take_log().contains("the device is given up"));
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

#[test]
fn a_restarted_driver_starts_afresh() {
    let mut world = World::new();
    world.provide(0..4);
    world.tx.send(&[buffer(0)]);
    world.turn();
    world.net = Net::new(Fake(world.state.clone()), world.memory, &world.connection).expect("works");
    world.settle();
    assert_eq!((world.rx.renewals, world.tx.renewals), (2, 2));
    world.provide(5..6);
    assert_eq!(world.state.use_next(RECEIVE, 60).expect("a buffer").address, buffer(5).address);
}

#[test]
fn without_event_index_flags_do() {
    let memory = device_memory();
    let fake = Fake::new(memory);
    fake.0.features.set(FEATURE_VERSION_1);
    let mut world = World::with(fake, memory);
    world.provide(0..4);
    world.state.use_next(RECEIVE, 60);
    assert!(world.state.interrupts.get() > 0);
    world.interrupt();
    let entries = world.rx.take();
    assert_eq!(entries.len(), 1);
    assert_eq!(entries[0].flags, 0, "nor does it complete checksums");
    world.tx.send(&[buffer(0)]);
    world.turn();
    assert_eq!(world.state.take(TRANSMIT).len(), 1);
}

#[test]
fn changes_of_the_link_are_logged() {
    let mut world = World::new();
    world.state.link.set(0);
    world.interrupt();
    world.state.link.set(LINK_UP);
    world.interrupt();
    let log = culm::testing::take_log();
    assert!(log.contains("link down") && log.contains("link up"), "{log}");
}

/// A ring without a driver, and the device's side of it.
fn bare_ring(size: u16) -> (Ring, Region, Layout) {
    let memory = device_memory();
    let layout = Layout::new(size, 0);
    (Ring::new(&memory, layout, 0, true).expect("space"), memory, layout)
}

proptest! {
    /// Whatever the device writes into the used ring: each buffer comes back at most once, with a length it can have.
    #[test]
    fn a_ring_survives_any_device(
        acts in proptest::collection::vec((any::<bool>(), prop_oneof![0..20_u32, any::<u32>()], any::<u32>(), any::<u16>()), 1..200),
        wild: bool,
    ) {
        let (mut ring, memory, layout) = bare_ring(16);
        let head = memory.atomics_u16(layout.used, 2).expect("inside");
        let elements = memory.atomics_u64(layout.used + 4, 16).expect("inside");
        let (mut token, mut given) = (0, Vec::new());
        let mut used = 0_u16;
        for (add, number, length, index) in acts {
            if add {
                token += 1;
                if ring.add(u64::from(token) * 2048, 2048, token) {
                    given.push(token);
                }
                ring.publish();
            } else {
                elements[usize::from(used % 16)].store(u64::from(number) | u64::from(length) << 32, core::sync::atomic::Ordering::Relaxed);
                used = if wild { index } else { used.wrapping_add(1) };
                head[1].store(used, core::sync::atomic::Ordering::Release);
            }
            let waiting = ring.refresh();
            prop_assert!(waiting <= 16);
            let mut taken = 0;
            while let Some(Used { token, length }) = ring.take() {
                taken += 1;
                prop_assert!(length <= 2048 && taken <= 16);
                let place = given.iter().position(|other| *other == token);
                prop_assert!(place.is_some(), "{token} comes back although the device does not have it");
                given.remove(place.unwrap_or(0));
            }
            prop_assert!(given.len() <= 16);
            if ring.is_broken() {
                break;
            }
        }
    }

    /// An honest device that completes in any order: everything comes back, and no wake-up is lost.
    #[test]
    fn a_ring_loses_nothing(acts in proptest::collection::vec((0..4_u8, 0..16_usize), 1..300)) {
        let memory = device_memory();
        let fake = Fake::new(memory);
        let (_device, mut rings) = Device::start(fake.clone(), &memory, false).map_err(|(_, reason)| reason).expect("works");
        let ring = &mut rings.transmit;
        let mut with_device: Vec<Given> = Vec::new();
        let (mut token, mut given, mut back) = (0, 0, 0);
        let mut asleep = false;
        for (act, count) in acts {
            match act {
                0 => for _ in 0..count {
                    token += 1;
                    given += u32::from(ring.add(u64::from(token) * 2048 + HEADROOM as u64, 2048, token));
                },
                1 => {
                    let wanted = ring.publish();
                    let taken = fake.0.take(TRANSMIT);
                    // The device looks only when its bell rings; here it always looks, so it may not need the bell.
                    prop_assert!(wanted || taken.is_empty() || with_device.len() + taken.len() > 0);
                    with_device.extend(taken);
                }
                2 => for _ in 0..count.min(with_device.len()) {
                    let interrupts = fake.0.interrupts.get();
                    let given = with_device.swap_remove(count % with_device.len());
                    fake.0.use_raw(TRANSMIT, given.number.into(), 0);
                    asleep &= fake.0.interrupts.get() == interrupts;
                    prop_assert!(!asleep, "asleep until the next, and not woken by it");
                },
                _ => {
                    ring.refresh();
                    while ring.take().is_some() {
                        back += 1;
                    }
                    asleep = ring.in_flight() > 0 && ring.wait_for(1);
                }
            }
        }
        let _ = ring.publish();
        with_device.extend(fake.0.take(TRANSMIT));
        for given in with_device {
            fake.0.use_raw(TRANSMIT, given.number.into(), 0);
        }
        ring.refresh();
        while ring.take().is_some() {
            back += 1;
        }
        prop_assert_eq!(given, back);
        prop_assert_eq!((ring.errors(), ring.is_broken(), ring.space()), (0, false, 16));
    }
}
