//! The same device on a PCI bus.

use super::*;
use crate::Pci;
use crate::testing::pci::{FakePci, structures};
use culm_pci::virtio::{Place, Structures};

type Device = Transport<Pci<FakePci>>;

/// Sets a device up, with nothing before.
fn start(fake: &Fake, structures: Structures, memory: &Region) -> Result<(Device, Virtqueue), Unusable> {
    let mut device = Transport::find(Pci::new(FakePci(fake.clone()), structures), KIND)?;
    device.reset(|offered| offered & FEATURES)?;
    let mut queue = device.find_queue(QUEUE, 512, memory, 0, Access::Read)?;
    queue.renew(device.has_event_index());
    device.set_to_work(memory, &[(QUEUE, &queue)]);
    Ok((device, queue))
}

#[test]
fn buffers_go_to_the_device_and_come_back() {
    let (fake, memory) = fake();
    let (device, mut queue) = start(&fake, structures(&fake), &memory).expect("a device that works");
    assert_eq!(device.features(), FEATURE_VERSION_1 | FEATURE_EVENT_INDEX);
    assert_eq!((queue.size(), fake.0.driver_features()), (16, device.features()));
    queue.add_chain(&REQUEST, 5).expect("space");
    assert!(queue.publish());
    device.ring_doorbell(QUEUE);
    assert!(fake.0.rung(QUEUE));
    assert_eq!(fake.0.take(QUEUE).len(), 1);
    fake.0.use_next(QUEUE, 0);
    queue.refresh();
    assert_eq!(queue.take().map(|used| used.token), Some(5));
}

#[test]
fn a_device_at_work_is_seen_to_be() {
    let (fake, memory) = fake();
    let (device, _) = start(&fake, structures(&fake), &memory).expect("a device that works");
    let mut next: Device = Transport::find(Pci::new(FakePci(fake.clone()), structures(&fake)), KIND).expect("there");
    assert!(next.resume(device.features(), [QUEUE]));
    fake.0.status.set(fake.0.status.get().set(Status::NEEDS_RESET));
    assert!(next.needs_reset() && !next.resume(device.features(), [QUEUE]));
}

#[test]
fn unusable_devices_are_told_apart() {
    let outcome = |change: fn(&State)| {
        let (fake, memory) = fake();
        change(&fake.0);
        start(&fake, structures(&fake), &memory).map(|_| ())
    };
    let other = Unusable::Kind { wanted: KIND, found: Kind::NETWORK };
    assert_eq!(outcome(|state| state.kind.set(Kind::NETWORK)), Err(other));
    assert_eq!(outcome(|state| state.features.set(FEATURE_EVENT_INDEX)), Err(Unusable::Legacy));
    assert_eq!(outcome(|state| state.accepts_features.set(false)), Err(Unusable::Features));
    assert_eq!(outcome(|state| state.is_stuck.set(true)), Ok(()), "nothing was left of an earlier life");
    assert_eq!(outcome(|state| state.queue_size.set(0)), Err(Unusable::Queue));
}

/// Its queue has a doorbell behind all others.
#[test]
fn a_queue_without_a_doorbell_is_none() {
    let (fake, memory) = fake();
    let with = |doorbells, multiplier| {
        let structures =
            Structures { doorbells: Place { offset: 0x3000, size: doorbells }, multiplier, ..structures(&fake) };
        let mut device: Device = Transport::find(Pci::new(FakePci(fake.clone()), structures), KIND).expect("there");
        device.reset(|offered| offered & FEATURES).expect("it resets");
        device.find_queue(QUEUE, 512, &memory, 0, Access::Read).map(|_| ())
    };
    assert_eq!(with(2, u32::MAX), Ok(()), "its number is 0");
    assert_eq!(with(1, 4), Err(Unusable::Queue));
    let interface = Pci::new(FakePci(fake.clone()), structures(&fake));
    for queue in [1, 4, u32::MAX] {
        assert_eq!(interface.find_queue(queue), 0, "a queue that the device or the driver does not have");
        interface.ring_doorbell(queue);
    }
    assert!(fake.0.doorbells.borrow().is_empty());
}

#[test]
fn what_a_configuration_is_too_short_for_is_zero() {
    let (fake, _) = fake();
    fake.0.configuration.borrow_mut().extend([1, 2, 3, 4, 5, 6, 7, 8]);
    let configuration = Place { offset: 0x2000, size: 7 };
    let device: Device =
        Transport::find(Pci::new(FakePci(fake.clone()), Structures { configuration, ..structures(&fake) }), KIND)
            .expect("there");
    let word = |offset| culm_mmio::Register::<u32, culm_mmio::ReadOnly>::at(offset);
    let found = device.configuration(|own| (own.read(word(0)), own.read(word(4)), own.read(word(1 << 40))));
    assert_eq!(found, (0x0403_0201, 0, 0));
}

/// Reading the causes clears them all, so a change that comes with buffers would be lost.
#[test]
fn a_change_that_comes_with_buffers_is_remembered() {
    let (fake, memory) = fake();
    let (device, _) = start(&fake, structures(&fake), &memory).expect("a device that works");
    fake.0.raise(Causes::USED);
    device.acknowledge();
    assert!(!device.was_told_of_change() && !device.has_changed());
    fake.0.raise(Causes::CHANGE);
    fake.0.raise(Causes::USED);
    device.acknowledge();
    assert_eq!(fake.0.causes.get(), Causes::ZERO, "the line is low");
    assert!(device.was_told_of_change() && device.has_changed());
    assert!(!device.was_told_of_change() && !device.has_changed());
}
