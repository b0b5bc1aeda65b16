//! A guest's driver sets a device up, or does what it may not.

use super::super::testing::{self, SEEN, accept, set_up_queue};
use super::super::tests::{Driver, Ram};
use super::*;

const FEATURE: u64 = 1 << 5;

fn device() -> Transport {
    Transport::new(1, FEATURE, 2)
}

/// A device with both queues, as a driver leaves it.
pub(crate) fn live(mut transport: Transport, features: u64, drivers: [&Driver; 2]) -> Transport {
    testing::set_up(&mut transport, features, &drivers.map(Driver::places), 4);
    transport
}

#[test]
fn it_says_what_it_is() {
    let mut transport = device();
    transport.configure(0, &[1, 2, 3, 4, 5, 6]);
    let read = |offset, size| transport.read(offset, size);
    assert_eq!(read(register::MAGIC, 4), u64::from(u32::from_le_bytes(*b"virt")));
    assert_eq!((read(register::VERSION, 4), read(register::DEVICE, 4)), (2, 1));
    assert_eq!(read(register::VENDOR, 4), u64::from(u32::from_le_bytes(*b"culm")));
    assert_eq!(
        (read(0x100, 1), read(0x102, 2), read(0x102, 4), read(0x100, 8)),
        (1, 0x403, 0x0605_0403, 0x0605_0403_0201)
    );
    assert_eq!((read(0x13e, 4), read(0x140, 4), read(0xfff, 8), read(u64::MAX, 8)), (0, 0, 0, 0));
    assert_eq!((read(register::MAGIC, 1), read(register::MAGIC, 8)), (0, 0), "words only");
}

#[test]
fn features_are_settled_if_it_has_them() {
    for (features, settles) in
        [(VERSION_1, true), (VERSION_1 | FEATURE, true), (FEATURE, false), (VERSION_1 | 2, false)]
    {
        let mut transport = device();
        accept(&mut transport, features);
        transport.write(register::STATUS, 4, SEEN | 8);
        assert_eq!(transport.read(register::STATUS, 4) == SEEN | 8, settles, "{features:#x}");
        transport.write(register::STATUS, 4, SEEN | 8 | 4);
        assert_eq!(transport.is_live(), settles, "{features:#x}");
        accept(&mut transport, u64::MAX);
        assert_eq!(transport.has(1 << 40), !settles, "they stay once they are settled");
    }
}

#[test]
fn features_that_a_driver_was_shown_stay_until_it_begins_anew() {
    let mut transport = device();
    transport.write(register::STATUS, 4, SEEN);
    assert_eq!(transport.read(register::DEVICE_FEATURES, 4) & FEATURE, FEATURE);
    transport.offer(0);
    accept(&mut transport, VERSION_1 | FEATURE);
    transport.write(register::STATUS, 4, SEEN | 8);
    assert_eq!(transport.read(register::STATUS, 4), SEEN | 8, "it keeps to what it said");
    transport.write(register::STATUS, 4, 0);
    assert_eq!(transport.read(register::DEVICE_FEATURES, 4) & FEATURE, 0);
    transport.offer(FEATURE);
    assert_eq!(transport.read(register::DEVICE_FEATURES, 4) & FEATURE, FEATURE, "nobody has begun");
}

#[test]
fn a_queue_gets_ready_only_if_it_can_be_one() {
    let driver = Driver::new(4);
    for (size, ready) in [(4, 1), (256, 1), (0, 0), (3, 0), (512, 0), (0x1_0004, 0)] {
        let mut transport = device();
        set_up_queue(&mut transport, 1, driver.places(), size);
        assert_eq!(transport.read(register::QUEUE_READY, 4), ready, "{size}");
    }
    for unaligned in [register::QUEUE_DESCRIPTORS, register::QUEUE_DRIVER, register::QUEUE_DEVICE] {
        let mut transport = device();
        transport.write(register::QUEUE_SIZE, 4, 4);
        transport.write(unaligned, 4, 1);
        transport.write(register::QUEUE_READY, 4, 1);
        assert_eq!(transport.read(register::QUEUE_READY, 4), 0, "{unaligned:#x}");
    }
    let mut transport = device();
    transport.write(register::QUEUE_SELECT, 4, 2);
    assert_eq!(transport.read(register::QUEUE_SIZE_MAX, 4), 0, "no such queue");
    transport.write(register::QUEUE_READY, 4, 1);
    transport.write(register::QUEUE_SELECT, 4, u32::MAX.into());
    assert_eq!(transport.read(register::QUEUE_READY, 4), 0);
}

#[test]
fn a_broken_queue_stops_it_until_a_reset() {
    let (ram, mut first, second) = (Ram::new(8192), Driver::new(4), Driver::at(Ram::BASE + 4096, 4));
    let mut transport = live(device(), 0, [&first, &second]);
    first.set_index(&ram, 5);
    let next = transport.queue(0).expect("live").next(&ram);
    assert_eq!(transport.sound(next), None);
    assert!(transport.queue(0).is_none() && !transport.is_live());
    assert_eq!((transport.read(register::STATUS, 4) & 64, transport.is_interrupting()), (64, true));
    transport.write(register::STATUS, 4, SEEN | 8 | 4);
    assert!(!transport.is_live(), "it cannot be talked out of it");
    let resets = transport.resets();
    transport.write(register::STATUS, 4, 0);
    assert_eq!((transport.read(register::STATUS, 4), transport.resets()), (0, resets + 1));
    assert_eq!(transport.take_causes(), Some(Causes { are_cleared: true, raised: 0 }));
    assert!(live(transport, 0, [&first, &second]).queue(0).is_some());
}

#[test]
fn a_change_of_the_configuration_is_told_to_a_guest_that_works() {
    let (first, second) = (Driver::new(4), Driver::at(Ram::BASE + 4096, 4));
    let mut transport = device();
    transport.configure(0, &[1]);
    assert!(!transport.is_interrupting());
    let mut transport = live(transport, 0, [&first, &second]);
    transport.configure(0, &[1]);
    assert!(!transport.is_interrupting(), "nothing new");
    transport.configure(0, &[2]);
    let raised = transport.take_causes().map(|causes| causes.raised);
    assert_eq!((raised, transport.read(register::GENERATION, 4)), (Some(cause::CHANGE), 2));
    assert!(!transport.is_interrupting());
}

#[test]
fn causes_are_told_once_and_those_of_before_a_reset_are_gone() {
    let (first, second) = (Driver::new(4), Driver::at(Ram::BASE + 4096, 4));
    let mut transport = live(device(), 0, [&first, &second]);
    assert_eq!(transport.take_causes(), Some(Causes { are_cleared: true, raised: 0 }));
    transport.tell(Ok(true));
    transport.tell(Ok(false));
    assert_eq!(transport.take_causes(), Some(Causes { are_cleared: false, raised: cause::USED }));
    assert_eq!(transport.take_causes(), None);
    transport.tell(Ok(true));
    transport.write(register::STATUS, 4, 0);
    assert_eq!(transport.take_causes(), Some(Causes { are_cleared: true, raised: 0 }));
}
