//! The transport and the virtqueue against a device, honest or not.

mod pci;
mod restarts;

use crate::registers::*;
use crate::testing::{DMA, Fake, Given, State, memory};
use crate::transport::{FEATURES, Transport, Unusable};
use crate::virtqueue::{Access, Layout, NotAdded, Part, Table, Used, Virtqueue};
use crate::{Configuration, Interface};
use culm::Region;
use proptest::prelude::*;
use std::collections::BTreeMap;
use std::vec::Vec;

std::thread_local! {
    /// The act of [`meanwhile`].
    static MEANWHILE: std::cell::RefCell<Option<std::boxed::Box<dyn FnMut()>>> = const { std::cell::RefCell::new(None) };
}

/// Has happen what a test wants to happen before each store of the driver's.
pub(crate) fn meanwhile() {
    MEANWHILE.with_borrow_mut(|act| act.iter_mut().for_each(|act| act()));
}

/// The kind of device of these tests.
const KIND: Kind = Kind::BLOCK;
/// Its one queue.
const QUEUE: u32 = 0;

const SIZE: usize = 8 * 1024;

fn fake() -> (Fake, Region) {
    let memory = memory(SIZE);
    (Fake::new(KIND, 1, memory), memory)
}

/// Sets a device up, with nothing before.
fn start(fake: Fake, memory: &Region) -> Result<(Transport<Fake>, Virtqueue), Unusable> {
    let mut device = Transport::find(fake, KIND)?;
    let mut queue = device.find_queue(QUEUE, 512, memory, 0, Access::Read)?;
    device.reset(|offered| offered & FEATURES)?;
    queue.renew(device.has_event_index());
    device.set_to_work(memory, &[(QUEUE, &queue)]);
    Ok((device, queue))
}

#[test]
fn unusable_devices_are_told_apart() {
    let outcome = |change: fn(&State)| {
        let (fake, memory) = fake();
        change(&fake.0);
        start(fake, &memory).map(|_| ())
    };
    assert_eq!(outcome(|state| state.version.set(Version::LEGACY)), Err(Unusable::Legacy));
    assert_eq!(outcome(|state| state.kind.set(Kind::NONE)), Err(Unusable::Absent));
    assert_eq!(
        outcome(|state| state.kind.set(Kind::NETWORK)),
        Err(Unusable::Kind { wanted: KIND, found: Kind::NETWORK })
    );
    assert_eq!(outcome(|state| state.features.set(FEATURE_EVENT_INDEX)), Err(Unusable::Legacy));
    assert_eq!(outcome(|state| state.accepts_features.set(false)), Err(Unusable::Features));
    assert_eq!(outcome(|state| state.queue_size.set(0)), Err(Unusable::Queue));
    assert_eq!(outcome(|state| state.queue_size.set(100)), Ok(()));
    let memory = memory(512);
    assert_eq!(start(Fake::new(KIND, 1, memory), &memory).map(|_| ()), Err(Unusable::Queue));
    let memory = self::memory(SIZE);
    assert_eq!(start(Fake::new(KIND, 0, memory), &memory).map(|_| ()), Err(Unusable::Queue), "a device without queues");
}

#[test]
fn a_feature_that_a_device_does_not_offer_is_not_used() {
    let (fake, _) = fake();
    let state = fake.0.clone();
    let mut device = Transport::find(fake, KIND).expect("it is there");
    device.reset(|_| u64::MAX).expect("it accepts what it offers");
    assert_eq!(device.features(), FEATURE_VERSION_1 | FEATURE_EVENT_INDEX);
    assert_eq!(state.driver_features(), device.features());
}

#[test]
fn a_device_at_work_is_taken_over_only_as_it_was_left() {
    let (fake, memory) = fake();
    let (device, _) = start(fake.clone(), &memory).expect("a device that works");
    let resume = |features| Transport::find(fake.clone(), KIND).expect("it is there").resume(features, [QUEUE]);
    assert!(resume(device.features()));
    assert!(!resume(FEATURE_EVENT_INDEX), "these are not features with which it can have been at work");
    let status = fake.0.status.get();
    fake.0.status.set(status.set(Status::NEEDS_RESET));
    assert!(device.needs_reset() && !resume(device.features()));
    fake.0.status.set(Status::ZERO);
    assert!(!resume(device.features()));
}

#[test]
fn a_configuration_is_read_in_one_state() {
    let (fake, _) = fake();
    fake.0.configuration.borrow_mut().extend([1, 2, 3, 4]);
    let device = Transport::find(fake.clone(), KIND).expect("it is there");
    let register = culm_mmio::Register::<u8, culm_mmio::ReadOnly>::at(2);
    let looks = std::cell::Cell::new(0);
    let read = |configuration: &Configuration<'_, Fake>| {
        looks.set(looks.get() + 1);
        configuration.read(register)
    };
    assert_eq!((device.configuration(read), looks.get()), (3, 1));
    fake.0.changes_for_ever.set(true);
    assert_eq!(device.configuration(read), 3, "a device that changes for ever holds nobody up");
}

#[test]
fn a_change_is_told_once_and_not_acknowledged_with_buffers() {
    let (fake, _) = fake();
    let device = Transport::find(fake.clone(), KIND).expect("it is there");
    fake.0.raise(Causes::CHANGE);
    fake.0.raise(Causes::USED);
    device.acknowledge();
    assert_eq!(fake.0.causes.get(), Causes::ZERO.set(Causes::CHANGE));
    assert!(device.has_changed());
    assert!(!device.has_changed());
}

const fn part(address: u64, length: u32, access: Access) -> Part {
    Part { address, length, access }
}

/// A request as a block device has them: a head, data of a length that fits no single buffer, a
/// status.
const REQUEST: [Part; 3] =
    [part(0x1000, 16, Access::Read), part(0x2_0000, 0x3_0000, Access::Write), part(0x1010, 1, Access::Write)];

#[test]
fn the_parts_of_a_chain_reach_the_device_in_order() {
    let (fake, memory) = fake();
    let (device, mut queue) = start(fake.clone(), &memory).expect("a device that works");
    assert_eq!(queue.add_chain(&REQUEST, 7), Ok(()));
    assert!(queue.add(0x9000, 100, 8));
    assert_eq!((queue.space(), queue.in_flight()), (12, 2));
    assert!(queue.publish());
    device.ring_doorbell(QUEUE);
    let taken = fake.0.take(QUEUE);
    assert_eq!(taken[0].parts, REQUEST);
    assert_eq!(taken[1].buffer(), part(0x9000, 100, Access::Read));
    fake.0.use_next(QUEUE, 0x3_0001);
    fake.0.use_next(QUEUE, 0);
    assert_eq!(queue.refresh(), 2);
    assert_eq!(queue.take(), Some(Used { token: 7, length: 0x3_0001 }));
    assert_eq!(queue.take(), Some(Used { token: 8, length: 0 }));
    assert_eq!((queue.take(), queue.space(), queue.errors()), (None, 16, 0));
}

/// The length that the device says it wrote is the driver's to compare: also one that no single
/// buffer can have.
#[test]
fn the_parts_of_a_table_reach_the_device_in_order() {
    const TABLE: usize = 2048;
    let (fake, memory) = fake();
    fake.0.features.set(fake.0.features.get() | FEATURE_TABLES);
    let (mut device, mut queue) = start(fake.clone(), &memory).expect("a device that works");
    device.reset(|offered| offered).expect("it works");
    queue.renew(true);
    device.set_to_work(&memory, &[(QUEUE, &queue)]);
    let table = Table::new(memory.atomics_u64(TABLE, 6).expect("inside"));
    let [first, between, last] = REQUEST;
    table.set_ends(first, last);
    for length in [0x3_0001, 0xffff, u32::MAX] {
        assert_eq!(table.set(first, [between].into_iter()), 3);
        assert!(queue.add_table(DMA + TABLE as u64, 3, 7));
        assert_eq!((queue.space(), queue.in_flight()), (15, 1));
        let _ = queue.publish();
        assert_eq!(fake.0.take(QUEUE)[0].parts, REQUEST);
        // A reset does not take it from the device.
        queue.rank();
        device.reset(|offered| offered).expect("it works");
        queue.renew(true);
        device.set_to_work(&memory, &[(QUEUE, &queue)]);
        let given = fake.0.take(QUEUE);
        assert_eq!(given[0].parts, REQUEST);
        fake.0.use_raw(QUEUE, given[0].number.into(), length);
        assert_eq!(queue.refresh(), 1);
        assert_eq!(queue.take(), Some(Used { token: 7, length }));
        assert_eq!((queue.take(), queue.space(), queue.errors()), (None, 16, 0));
    }
    assert!((0..16).all(|token| queue.add_table(DMA, 1, token)));
    assert!(!queue.add_table(DMA, 1, 16));
}

#[test]
fn what_is_no_chain_is_not_added() {
    let (fake, memory) = fake();
    let (_, mut queue) = start(fake, &memory).expect("a device that works");
    let [read, write, _] = REQUEST;
    assert_eq!(queue.add_chain(&[], 0), Err(NotAdded::NoChain));
    assert_eq!(queue.add_chain(&[read], 0), Err(NotAdded::NoChain));
    assert_eq!(queue.add_chain(&[write, read], 0), Err(NotAdded::NoChain));
    assert_eq!(queue.add_chain(&[read; 17], 0), Err(NotAdded::Full));
    assert_eq!(queue.add_chain(&[read; 16], 0), Ok(()));
    assert_eq!((queue.add_chain(&[read; 2], 1), queue.space()), (Err(NotAdded::Full), 0));
}

#[test]
fn a_length_that_a_chain_cannot_have_is_not_believed() {
    let (fake, memory) = fake();
    let (_, mut queue) = start(fake.clone(), &memory).expect("a device that works");
    assert_eq!(queue.add_chain(&REQUEST, 7), Ok(()));
    let _ = queue.publish();
    fake.0.take(QUEUE);
    fake.0.use_next(QUEUE, 0x3_0002);
    queue.refresh();
    assert_eq!(queue.take(), Some(Used { token: 7, length: 0 }));
    assert_eq!((queue.errors(), queue.is_broken()), (1, false));
}

/// A device returns the middle of a chain, or a chain twice.
#[test]
fn what_a_device_does_not_have_it_cannot_return() {
    for (returned, expected) in [(1, 0), (0, 1)] {
        let (fake, memory) = fake();
        let (_, mut queue) = start(fake.clone(), &memory).expect("a device that works");
        assert_eq!(queue.add_chain(&REQUEST, 7), Ok(()));
        assert_eq!(queue.add_chain(&REQUEST, 8), Ok(()));
        let _ = queue.publish();
        let first = u32::from(fake.0.take(QUEUE)[0].number);
        let descriptor = memory.atomics_u64(16 * first as usize, 2).expect("inside");
        let middle = (descriptor[1].load(core::sync::atomic::Ordering::Relaxed) >> 48) as u32;
        let number = if returned == 0 { first } else { middle };
        fake.0.use_raw(QUEUE, number, 0);
        fake.0.use_raw(QUEUE, first, 0);
        queue.refresh();
        let taken = core::iter::from_fn(|| queue.take()).count();
        assert_eq!(taken, expected);
        assert!(queue.is_broken());
        // It is reset, and gets what it did not return again.
        queue.rank();
        queue.renew(true);
        assert_eq!(usize::from(queue.in_flight()), 2 - expected);
        assert_eq!(queue.space(), 16 - 3 * (2 - expected));
    }
}

/// Nor does it get what the driver knows nothing of, whether buffer or chain.
#[test]
fn a_device_gets_again_what_the_driver_keeps() {
    let (fake, memory) = fake();
    let (_, mut queue) = start(fake.clone(), &memory).expect("a device that works");
    for token in [7, 8] {
        assert_eq!(queue.add_chain(&REQUEST, token), Ok(()));
        assert!(queue.add(0x9000, 100, token + 10));
    }
    let _ = queue.publish();
    queue.rank();
    queue.retain(|token| token == 8 || token == 17);
    queue.renew(true);
    assert_eq!((queue.in_flight(), queue.space()), (2, 16 - 4));
    let taken = fake.0.take(QUEUE);
    assert_eq!(taken.iter().map(|given| given.parts.len()).collect::<Vec<_>>(), [1, 3]);
    for token in [17, 8] {
        fake.0.use_next(QUEUE, 0);
        queue.refresh();
        assert_eq!(queue.take(), Some(Used { token, length: 0 }));
    }
}

/// A device that goes on writing after its reset, over the driver's records: of two chains that are
/// not whole, one is so again whenever the driver frees the other.
#[test]
fn a_device_that_writes_after_its_reset_does_not_keep_the_driver_busy() {
    let (fake, memory) = fake();
    let (_, mut queue) = start(fake, &memory).expect("a device that works");
    assert_eq!((queue.add_chain(&REQUEST, 7), queue.add_chain(&REQUEST, 7)), (Ok(()), Ok(())));
    assert!(queue.add(0x9000, 100, 8));
    let _ = queue.publish();
    queue.rank();
    let slots = memory.atomics_u64(queue.layout().slots, 16).expect("inside");
    let relaxed = core::sync::atomic::Ordering::Relaxed;
    let firsts: Vec<_> = slots.iter().filter(|slot| slot.load(relaxed) as u32 == 7).collect();
    assert_eq!(firsts.len(), 2);
    // Each goes on with a descriptor that the queue has not.
    let broken = firsts[0].load(relaxed) | 0xff << 32;
    let break_both = move || firsts.iter().for_each(|first| first.store(broken, relaxed));
    break_both();
    MEANWHILE.set(Some(std::boxed::Box::new(break_both)));
    let mut death = Some(1000);
    let renewed = culm_queue::crash::outlive(&mut death, || queue.renew(true));
    MEANWHILE.set(None);
    assert!(renewed.is_some(), "it goes on and on");
    assert_eq!((queue.in_flight(), queue.space()), (1, 15));
}

/// A device that has written an index that cannot be: nothing else will come of it.
#[test]
fn nobody_waits_for_a_queue_that_breaks_meanwhile() {
    let (fake, memory) = fake();
    let (_, mut queue) = start(fake.clone(), &memory).expect("a device that works");
    assert!(queue.add(0x9000, 100, 8));
    let _ = queue.publish();
    assert!(queue.wait_for(1).is_asleep());
    fake.0.set_used_index(QUEUE, 500);
    assert!(queue.wait_for(1).is_more() && queue.is_broken());
}

/// A device that uses three buffers, of which the second is none, and then one that cannot be.
#[test]
fn what_a_device_cannot_have_used_counts_as_an_error_and_as_no_buffer() {
    let (mut queue, memory, layout) = bare_queue(16);
    let head = memory.atomics_u16(layout.used, 2).expect("inside");
    let elements = memory.atomics_u64(layout.used + 4, 16).expect("inside");
    let relaxed = core::sync::atomic::Ordering::Relaxed;
    for token in 0..4 {
        assert!(queue.add(0, 1, token));
    }
    queue.publish();
    for (element, number) in elements.iter().zip([0, 0, 2]) {
        element.store(number, relaxed);
    }
    head[1].store(3, relaxed);
    assert_eq!(queue.refresh(), 3);
    assert_eq!(core::iter::from_fn(|| queue.take()).count(), 1);
    assert_eq!((queue.taken(), queue.skipped(), queue.errors(), queue.is_broken()), (3, 2, 1, true));
    // An index of entries that it was never given is one too, once.
    let (mut queue, memory, layout) = bare_queue(16);
    memory.atomics_u16(layout.used, 2).expect("inside")[1].store(1, relaxed);
    assert_eq!([queue.refresh(), queue.refresh()], [0, 0]);
    assert_eq!((queue.errors(), queue.skipped(), queue.is_broken()), (1, 0, true));
}

/// A queue without a driver, and the device's side of it.
fn bare_queue(size: u16) -> (Virtqueue, Region, Layout) {
    let memory = memory(SIZE);
    let layout = Layout::new(size, 0);
    let mut queue = Virtqueue::new(&memory, layout, Access::Read).expect("space");
    queue.renew(true);
    (queue, memory, layout)
}

#[test]
fn a_size_that_no_queue_has_is_refused() {
    let memory = memory(1 << 20);
    for (size, possible) in [(0, false), (3, false), (1, true), (Layout::MAX_SIZE, true), (1 << 14, false)] {
        assert_eq!(Virtqueue::new(&memory, Layout::new(size, 0), Access::Read).is_some(), possible, "{size}");
    }
}

/// Indices count modulo 2¹⁶: past that, buffers come back as before, and doorbells and interrupts
/// are asked for where they are wanted.
#[test]
fn indices_go_round() {
    for (event_index, before) in [true, false].into_iter().flat_map(|wish| (0..20).map(move |before| (wish, before))) {
        let (fake, memory) = fake();
        if !event_index {
            fake.0.features.set(FEATURE_VERSION_1);
        }
        let (_device, mut queue) = start(fake.clone(), &memory).expect("a device that works");
        let begin = 0_u16.wrapping_sub(before);
        fake.0.age(QUEUE, begin);
        assert!(queue.adopt(begin, event_index));
        for token in (0..40).step_by(5) {
            for offset in [0, 1] {
                assert!(queue.add(0x1000, 100, token + offset));
            }
            assert!(queue.publish(), "the device has seen all before");
            for offset in [2, 3, 4] {
                assert!(queue.add(0x1000, 100, token + offset));
            }
            assert_eq!(queue.publish(), !event_index, "the device is awake");
            assert_eq!((queue.in_flight(), queue.added()), (5, begin.wrapping_add(token as u16 + 5)));
            assert_eq!(fake.0.take(QUEUE).len(), 5);
            assert!(queue.wait_for(4).is_asleep());
            for used in 1..=4 {
                fake.0.interrupts.set(0);
                fake.0.use_next(QUEUE, 0);
                // Without the feature, the device interrupts for each.
                let is_wanted = !event_index || used == 4;
                assert_eq!(fake.0.interrupts.get(), u32::from(is_wanted), "buffer {used} of 4");
            }
            queue.suppress();
            fake.0.interrupts.set(0);
            fake.0.use_next(QUEUE, 0);
            assert_eq!(fake.0.interrupts.get(), 0);
            assert_eq!(queue.refresh(), 5);
            for offset in 0..5 {
                assert_eq!(queue.take(), Some(Used { token: token + offset, length: 0 }));
            }
            assert_eq!((queue.in_flight(), queue.taken()), (0, begin.wrapping_add(token as u16 + 5)));
        }
        assert_eq!((queue.errors(), queue.is_broken(), queue.space()), (0, false, 16));
    }
}

/// Adds a buffer, or a chain of so many parts, to write as many bytes as there are parts.
fn add(queue: &mut Virtqueue, parts: usize, token: u32) -> bool {
    let address = u64::from(token) * 2048;
    match parts {
        0 | 1 => queue.add(address, 1, token),
        _ => {
            let parts: Vec<_> = (0..parts as u64).map(|index| part(address + index, 1, Access::Write)).collect();
            queue.add_chain(&parts, token).is_ok()
        }
    }
}

proptest! {
    /// Whatever the device writes into the used ring: each buffer comes back at most once, with a
    /// length it can have.
    #[test]
    fn a_queue_survives_any_device(
        acts in proptest::collection::vec((0..8_usize, prop_oneof![0..20_u32, any::<u32>()], any::<u32>(), any::<u16>()), 1..200),
        wild: bool,
    ) {
        let (mut queue, memory, layout) = bare_queue(16);
        let head = memory.atomics_u16(layout.used, 2).expect("inside");
        let elements = memory.atomics_u64(layout.used + 4, 16).expect("inside");
        let (mut token, mut given) = (0, BTreeMap::new());
        let mut used = 0_u16;
        for (act, number, length, index) in acts {
            if act < 5 {
                token += 1;
                if add(&mut queue, act, token) {
                    given.insert(token, act.max(1));
                }
                queue.publish();
            } else {
                elements[usize::from(used % 16)].store(u64::from(number) | u64::from(length) << 32, core::sync::atomic::Ordering::Relaxed);
                used = if wild { index } else { used.wrapping_add(1) };
                head[1].store(used, core::sync::atomic::Ordering::Release);
            }
            let waiting = queue.refresh();
            prop_assert!(waiting <= 16);
            let mut taken = 0;
            while let Some(Used { token, length }) = queue.take() {
                taken += 1;
                let parts = given.remove(&token);
                prop_assert!(parts.is_some(), "{token} comes back although the device does not have it");
                prop_assert!(length as usize <= parts.unwrap_or(0) && taken <= 16);
            }
            if queue.is_broken() {
                break;
            }
            prop_assert_eq!(queue.space() + given.values().sum::<usize>(), 16);
        }
    }

    /// A device that also writes over the driver's records: no panic, no more free descriptors than
    /// there are, and a reset has the queue work again.
    #[test]
    fn a_queue_survives_a_device_that_writes_over_its_records(
        acts in proptest::collection::vec((0..8_usize, 0..16_usize, any::<u64>(), 0..20_u32), 1..200),
    ) {
        let (mut queue, memory, layout) = bare_queue(16);
        let head = memory.atomics_u16(layout.used, 2).expect("inside");
        let elements = memory.atomics_u64(layout.used + 4, 16).expect("inside");
        let slots = memory.atomics_u64(layout.slots, 16).expect("inside");
        let relaxed = core::sync::atomic::Ordering::Relaxed;
        let (mut token, mut used) = (0, 0_u16);
        for (act, place, value, number) in acts {
            match act {
                0..5 => {
                    token += 1;
                    add(&mut queue, act, token);
                    queue.publish();
                }
                5 => slots[place].store(value, relaxed),
                // Something nearly right.
                6 => slots[place].store(slots[place].load(relaxed) ^ 1 << (32 + value % 20), relaxed),
                _ => {
                    elements[usize::from(used % 16)].store(number.into(), relaxed);
                    used = used.wrapping_add(1);
                    head[1].store(used, core::sync::atomic::Ordering::Release);
                }
            }
            queue.refresh();
            while queue.take().is_some() {}
            prop_assert!(queue.space() <= 16);
            if queue.is_broken() {
                queue.rank();
                queue.renew(true);
                used = 0;
                prop_assert!(!queue.is_broken() && usize::from(queue.in_flight()) + queue.space() <= 16);
            }
        }
    }

    /// An honest device that completes in any order: everything comes back, and no wake-up is lost.
    #[test]
    fn a_queue_loses_nothing(acts in proptest::collection::vec((0..5_u8, 0..16_usize), 1..300)) {
        let (fake, memory) = fake();
        let (_device, mut queue) = start(fake.clone(), &memory).expect("works");
        let mut with_device: Vec<Given> = Vec::new();
        let (mut token, mut given, mut back) = (0, 0, 0);
        let mut asleep = false;
        for (act, count) in acts {
            match act {
                0 => for _ in 0..count {
                    token += 1;
                    given += u32::from(queue.add(u64::from(token) * 2048, 2048, token));
                },
                1 => {
                    token += 1;
                    given += u32::from(add(&mut queue, count.max(2), token));
                }
                2 => {
                    let wanted = queue.publish();
                    let taken = fake.0.take(QUEUE);
                    // The device looks only when its bell rings; here it always looks, so it may
                    // not need the bell.
                    prop_assert!(wanted || taken.is_empty() || with_device.len() + taken.len() > 0);
                    with_device.extend(taken);
                }
                3 => for _ in 0..count.min(with_device.len()) {
                    let interrupts = fake.0.interrupts.get();
                    let given = with_device.swap_remove(count % with_device.len());
                    fake.0.use_raw(QUEUE, given.number.into(), 0);
                    asleep &= fake.0.interrupts.get() == interrupts;
                    prop_assert!(!asleep, "asleep until the next, and not woken by it");
                },
                _ => {
                    queue.refresh();
                    while queue.take().is_some() {
                        back += 1;
                    }
                    asleep = queue.in_flight() > 0 && queue.wait_for(1).is_asleep();
                }
            }
        }
        let _ = queue.publish();
        with_device.extend(fake.0.take(QUEUE));
        for given in with_device {
            fake.0.use_raw(QUEUE, given.number.into(), 0);
        }
        queue.refresh();
        while queue.take().is_some() {
            back += 1;
        }
        prop_assert_eq!(given, back);
        prop_assert_eq!((queue.errors(), queue.is_broken(), queue.space()), (0, false, 16));
    }
}
