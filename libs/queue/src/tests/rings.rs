//! Tests of the ring with honest, restarted and hostile peers, against a model that is a
//! `VecDeque`.

use crate::atomic::Ordering;
use crate::{Consumer, Full, Invalid, Producer, Shared, Storage, generation, layout, next_generation, passed, word};
use core::ptr::NonNull;
use proptest::prelude::*;
use std::boxed::Box;
use std::collections::VecDeque;
use std::vec::Vec;

fn ring<const CAPACITY: usize>() -> Shared<u64> {
    Box::leak(Box::new(Storage::<u64, CAPACITY>::new())).shared()
}

/// An empty ring both of whose indices stand at `start`.
fn ring_at<const CAPACITY: usize>(start: u32) -> Shared<u64> {
    let shared = ring::<CAPACITY>();
    shared.header().producer.word.store(word(0, start), Ordering::Relaxed);
    shared.header().consumer.word.store(word(0, start), Ordering::Relaxed);
    shared
}

#[test]
fn entries_come_out_in_order() {
    let shared = ring::<4>();
    let (mut producer, mut consumer) = (Producer::attach(shared), Consumer::attach(shared));
    for round in 0..1000u64 {
        assert_eq!(producer.push_slice(&[round, round + 1, round + 2]), 3);
        assert_eq!(consumer.pop(), None, "visible before it was published");
        let _ = producer.publish();
        assert_eq!(consumer.drain(9).collect::<Vec<_>>(), [round, round + 1, round + 2]);
        let _ = consumer.release();
    }
}

#[test]
fn a_full_ring_takes_no_more() {
    let shared = ring::<2>();
    let (mut producer, mut consumer) = (Producer::attach(shared), Consumer::attach(shared));
    assert_eq!(producer.push_slice(&[1, 2, 3]), 2);
    let _ = producer.publish();
    assert_eq!(producer.push(3), Err(Full));
    assert_eq!(consumer.pop(), Some(1));
    assert_eq!(producer.push(3), Err(Full), "popped but not released");
    let _ = consumer.release();
    assert_eq!(producer.push(3), Ok(()));
}

#[test]
fn what_a_drain_leaves_stays_queued() {
    let shared = ring::<4>();
    let (mut producer, mut consumer) = (Producer::attach(shared), Consumer::attach(shared));
    assert_eq!(producer.push_slice(&[1, 2, 3]), 3);
    let _ = producer.publish();
    assert_eq!(consumer.drain(8).next(), Some(1));
    let mut buffer = [0; 2];
    assert_eq!(consumer.pop_slice(&mut buffer), 2);
    assert_eq!(buffer, [2, 3]);
}

#[test]
fn what_is_looked_at_stays_until_it_is_passed_over() {
    let shared = ring::<4>();
    let (mut producer, mut consumer) = (Producer::attach(shared), Consumer::attach(shared));
    assert_eq!(producer.push_slice(&[1, 2, 3]), 3);
    let _ = producer.publish();
    let mut drain = consumer.drain(2);
    assert_eq!((drain.peek(), drain.peek()), (Some(1), Some(1)));
    drain.pass();
    assert_eq!(drain.peek(), Some(2));
    drop(drain);
    let mut drain = consumer.drain(1);
    drain.pass();
    drain.pass();
    assert_eq!(drain.peek(), None);
    drop(drain);
    assert_eq!(consumer.pop(), Some(3));
}

#[test]
fn what_is_put_back_comes_again() {
    let shared = ring::<4>();
    let (mut producer, mut consumer) = (Producer::attach(shared), Consumer::attach(shared));
    consumer.put_back();
    assert_eq!(consumer.available(), 0, "nothing was popped");
    assert_eq!(producer.push_slice(&[1, 2]), 2);
    let _ = producer.publish();
    assert_eq!((consumer.pop(), consumer.pop_known()), (Some(1), Some(2)));
    consumer.put_back();
    assert_eq!(consumer.pop_known(), Some(2));
    let _ = consumer.release();
    consumer.put_back();
    assert_eq!(consumer.pop(), None, "released, it is the producer's");
}

#[test]
fn entries_of_every_size_travel() {
    let shared = Box::leak(Box::new(Storage::<u8, 2>::new())).shared();
    let (mut producer, mut consumer) = (Producer::attach(shared), Consumer::attach(shared));
    assert_eq!(producer.push_slice(b"ab"), 2);
    let _ = producer.publish();
    assert_eq!((consumer.pop(), consumer.pop()), (Some(b'a'), Some(b'b')));

    let shared = Box::leak(Box::new(Storage::<[u64; 2], 1>::new())).shared();
    let (mut producer, mut consumer) = (Producer::attach(shared), Consumer::attach(shared));
    producer.push([1, 2]).unwrap();
    let _ = producer.publish();
    assert_eq!(consumer.pop(), Some([1, 2]));
}

#[test]
fn sizes_and_addresses_are_checked() {
    assert_eq!(layout(512, 8), Some(128 + 4096));
    for (capacity, entry_size) in [(0, 8), (3, 8), (4, 3), (4, 0), (1 << 31, 8)] {
        assert_eq!(layout(capacity, entry_size), None);
    }
    // SAFETY: both are refused before the memory is looked at.
    let (capacity, address) =
        unsafe { (Shared::<u8>::from_raw(NonNull::dangling(), 3), Shared::<u8>::from_raw(NonNull::dangling(), 4)) };
    assert_eq!(capacity.unwrap_err(), Invalid::Capacity(3));
    assert_eq!(address.unwrap_err(), Invalid::Address(1));
}

#[test]
fn an_index_is_passed_once() {
    assert!(passed(5, 5, 6) && passed(5, 3, 6) && passed(u32::MAX, u32::MAX, 0));
    assert!(!passed(5, 6, 7) && !passed(5, 3, 5) && !passed(5, 5, 5));
}

#[test]
fn one_announcement_brings_one_notification() {
    let shared = ring::<8>();
    let (mut producer, mut consumer) = (Producer::attach(shared), Consumer::attach(shared));
    assert!(producer.publish().is_asleep() && consumer.release().is_asleep(), "a new generation announces itself");
    assert!(consumer.sleep_until(2).is_asleep());
    let mut push = |entry| {
        producer.push(entry).unwrap();
        producer.publish().is_asleep()
    };
    assert!(!push(1), "it waits for two");
    assert!(push(2));
    assert!(!push(3), "it is awake");
    assert!(consumer.sleep().is_more(), "there is something to do");

    assert_eq!(producer.push_slice(&[4, 5, 6, 7, 8]), 5);
    let _ = producer.publish();
    assert!(producer.sleep_until(4).is_asleep());
    assert_eq!(consumer.drain(3).count(), 3);
    assert!(!consumer.release().is_asleep(), "it waits for four");
    assert_eq!(consumer.drain(1).count(), 1);
    assert!(consumer.release().is_asleep());
}

/// An event of a ring both of whose sides are honest.
#[derive(Clone, Debug)]
enum Step {
    Push(u32),
    Reserve(u32, u32),
    Publish,
    Pop,
    Drain(u32, u32),
    Release,
    ProducerSleeps(u32),
    ConsumerSleeps(u32),
    ProducerRestarts,
    ConsumerRestarts,
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        4 => (1..6u32).prop_map(Step::Push),
        3 => (0..12u32, 0..12u32).prop_map(|(reserved, used)| Step::Reserve(reserved, used)),
        4 => Just(Step::Publish),
        3 => Just(Step::Pop),
        3 => (0..12u32, 0..12u32).prop_map(|(limit, taken)| Step::Drain(limit, taken)),
        4 => Just(Step::Release),
        2 => (1..10u32).prop_map(Step::ProducerSleeps),
        2 => (1..10u32).prop_map(Step::ConsumerSleeps),
        1 => Just(Step::ProducerRestarts),
        1 => Just(Step::ConsumerRestarts),
    ]
}

/// A simple model of an honest ring.
#[derive(Default)]
struct Model {
    /// Entries in slots, oldest first: popped ones, then queued ones, then pushed ones.
    slots: VecDeque<u64>,
    popped: usize,
    pushed: usize,
    next: u64,
    /// Entries that a sleeping consumer waits for, slots that a sleeping producer waits for. Who
    /// does something is awake.
    consumer_waits: Option<usize>,
    producer_waits: Option<usize>,
}

impl Model {
    const CAPACITY: usize = 8;

    fn queued(&self) -> usize {
        self.slots.len() - self.popped - self.pushed
    }

    fn push(&mut self) -> u64 {
        assert!(self.slots.len() < Self::CAPACITY, "pushed into a full ring");
        self.next += 1;
        self.producer_waits = None;
        self.slots.push_back(self.next);
        self.pushed += 1;
        self.next
    }

    fn pop(&mut self) -> Option<u64> {
        (self.queued() > 0).then(|| {
            self.popped += 1;
            self.consumer_waits = None;
            self.slots[self.popped - 1]
        })
    }
}

fn run(start: u32, steps: Vec<Step>) {
    let shared = ring_at::<{ Model::CAPACITY }>(start);
    let (mut producer, mut consumer) = (Producer::attach(shared), Consumer::attach(shared));
    let _ = (producer.publish(), consumer.release());
    let _ = (producer.refresh(), consumer.refresh());
    assert!(!producer.restarted() && !consumer.restarted(), "a first start is no restart");
    let mut model = Model::default();
    for step in steps {
        match step {
            Step::Push(count) => {
                for _ in 0..count {
                    if model.slots.len() == Model::CAPACITY {
                        assert_eq!(producer.push(0), Err(Full));
                    } else {
                        producer.push(model.push()).unwrap();
                    }
                }
            }
            Step::Reserve(reserved, used) => {
                let mut reservation = producer.reserve(reserved);
                let free = (Model::CAPACITY - model.slots.len()).min(reserved as usize);
                assert_eq!(reservation.left() as usize, free);
                for _ in 0..free.min(used as usize) {
                    reservation.push(model.push()).unwrap();
                }
            }
            Step::Publish => {
                let notified = producer.publish().is_asleep();
                model.pushed = 0;
                if model.consumer_waits.take_if(|count| model.slots.len() - model.popped >= *count).is_some() {
                    assert!(notified, "a wake-up was lost");
                }
            }
            Step::Pop => assert_eq!(consumer.pop(), model.pop()),
            Step::Drain(limit, taken) => {
                let drain = consumer.drain(limit);
                assert_eq!(drain.len(), model.queued().min(limit as usize));
                for entry in drain.take(taken as usize) {
                    assert_eq!(Some(entry), model.pop());
                }
            }
            Step::Release => {
                let notified = consumer.release().is_asleep();
                model.slots.drain(..core::mem::take(&mut model.popped));
                let free = Model::CAPACITY - model.slots.len();
                if model.producer_waits.take_if(|count| free >= *count).is_some() {
                    assert!(notified, "a wake-up was lost");
                }
            }
            Step::ProducerSleeps(count) => {
                let sleeps = producer.sleep_until(count).is_asleep();
                let count = (count as usize).min(Model::CAPACITY);
                assert_eq!(sleeps, Model::CAPACITY - model.slots.len() < count);
                model.producer_waits = sleeps.then_some(count);
            }
            Step::ConsumerSleeps(count) => {
                let sleeps = consumer.sleep_until(count).is_asleep();
                let count = (count as usize).min(Model::CAPACITY);
                assert_eq!(sleeps, model.queued() < count);
                // Entries that are popped and not released are counted from the next one to read.
                model.consumer_waits = sleeps.then_some(count).filter(|_| model.popped == 0);
            }
            Step::ProducerRestarts => {
                producer = Producer::attach(shared);
                let _ = consumer.refresh();
                assert!(consumer.restarted() && !consumer.restarted());
                model.slots.truncate(model.slots.len() - core::mem::take(&mut model.pushed));
                model.producer_waits = None;
            }
            Step::ConsumerRestarts => {
                consumer = Consumer::attach(shared);
                let _ = producer.refresh();
                assert!(producer.restarted() && !producer.restarted());
                model.popped = 0;
                model.consumer_waits = None;
            }
        }
        let depth = shared.depth();
        assert_eq!(depth.queued as usize, model.slots.len() - model.pushed);
    }
    assert_eq!((producer.violations(), consumer.violations()), (0, 0));
}

/// An act of a hostile peer between any two steps of the honest side.
#[derive(Clone, Debug)]
enum Tamper {
    ProducerWord(u64),
    ConsumerWord(u64),
    ProducerWanted(u32),
    ConsumerWanted(u32),
    Slot(u32, u64),
}

fn tamper() -> impl Strategy<Value = Tamper> {
    // Words near the real ones do more harm than random ones.
    let word_near = || prop_oneof![any::<u64>(), (0..4u64, -20..20i32).prop_map(|(g, i)| g << 32 | i as u32 as u64)];
    prop_oneof![
        word_near().prop_map(Tamper::ProducerWord),
        word_near().prop_map(Tamper::ConsumerWord),
        any::<u32>().prop_map(Tamper::ProducerWanted),
        any::<u32>().prop_map(Tamper::ConsumerWanted),
        (any::<u32>(), any::<u64>()).prop_map(|(index, entry)| Tamper::Slot(index, entry)),
    ]
}

fn apply(shared: Shared<u64>, tamper: &Tamper) {
    let header = shared.header();
    match *tamper {
        Tamper::ProducerWord(word) => header.producer.word.store(word, Ordering::Relaxed),
        Tamper::ConsumerWord(word) => header.consumer.word.store(word, Ordering::Relaxed),
        Tamper::ProducerWanted(wanted) => header.producer.wanted.store(wanted, Ordering::Relaxed),
        Tamper::ConsumerWanted(wanted) => header.consumer.wanted.store(wanted, Ordering::Relaxed),
        Tamper::Slot(index, entry) => shared.store(index, entry),
    }
}

/// Two honest sides of a ring with any past: after each looked once, entries pass as if nothing had
/// been.
fn heals(mut producer: Producer<u64>, mut consumer: Consumer<u64>) {
    let mut exchange = |expected: Option<u64>| {
        let pushed = producer.push(expected.unwrap_or(0)).is_ok();
        assert!(producer.free() <= producer.capacity());
        let _ = producer.publish();
        let taken: Vec<u64> = consumer.drain(u32::MAX).collect();
        let _ = consumer.release();
        let _ = producer.refresh();
        (pushed, taken)
    };
    // The past comes out: entries of it, contradictions. Each side needs one look at the other, and
    // then another at what that did.
    for _ in 0..3 {
        let _ = exchange(None);
    }
    for entry in 1..40 {
        assert_eq!(exchange(Some(entry)), (true, [entry].to_vec()));
    }
}

/// Returns whether a hostile life has announced the generation that its successor gets, which
/// begins by `word`: then the other side sees no restart.
fn hides_its_successor(all: &[(Vec<Tamper>, u8, u32)], word: u64) -> bool {
    let next = next_generation(generation(word));
    all.iter().flat_map(|(tampers, ..)| tampers).any(|tamper| match tamper {
        Tamper::ProducerWord(word) | Tamper::ConsumerWord(word) => generation(*word) == next,
        _ => false,
    })
}

/// Numbers that look random (Marsaglia's xorshift).
fn scramble(state: &mut u64) -> u64 {
    *state ^= *state << 13;
    *state ^= *state >> 7;
    *state ^= *state << 17;
    *state
}

#[test]
fn a_peer_that_writes_at_the_same_time_changes_nothing_about_that() {
    let shared = ring::<8>();
    let stop = std::sync::atomic::AtomicBool::new(false);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            let mut state = 1;
            while !stop.load(Ordering::Relaxed) {
                let value = scramble(&mut state);
                let near = (value >> 60 << 32) | (value % 32);
                match value % 5 {
                    0 => apply(shared, &Tamper::ProducerWord(near)),
                    1 => apply(shared, &Tamper::ConsumerWord(near)),
                    2 => apply(shared, &Tamper::ProducerWanted(value as u32)),
                    3 => apply(shared, &Tamper::ConsumerWanted(value as u32)),
                    _ => apply(shared, &Tamper::Slot(value as u32, value)),
                }
            }
        });
        let (mut producer, mut consumer) = (Producer::attach(shared), Consumer::attach(shared));
        for round in 0..100_000 {
            assert!(producer.push_slice(&[round; 12]) <= 8);
            let _ = (producer.publish(), producer.sleep());
            assert!(consumer.drain(u32::MAX).count() <= 8);
            let _ = (consumer.release(), consumer.sleep());
            assert!(producer.free() <= 8 && consumer.available() <= 8);
        }
        stop.store(true, Ordering::Relaxed);
    });
    assert!(shared.depth().queued <= 8);
    heals(Producer::attach(shared), Consumer::attach(shared));
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn an_honest_ring_is_a_bounded_queue(
        start in prop_oneof![Just(0), Just(u32::MAX - 20), Just(i32::MAX as u32 - 20), any::<u32>()],
        steps in proptest::collection::vec(step(), 0..120),
    ) {
        run(start, steps);
    }

    #[test]
    fn a_consumer_outlives_a_hostile_producer(
        all in proptest::collection::vec((proptest::collection::vec(tamper(), 0..4), 0..5u8, 0..12u32), 0..60),
    ) {
        let shared = ring::<8>();
        let mut consumer = Consumer::attach(shared);
        let mut popped = 0;
        for (tampers, action, count) in all.clone() {
            tampers.iter().for_each(|tamper| apply(shared, tamper));
            match action {
                0 => popped += u32::from(consumer.pop().is_some()),
                1 => popped += consumer.drain(count).count() as u32,
                2 => { let _ = consumer.sleep_until(count); }
                3 => { let _ = consumer.restarted(); }
                _ => { let _ = consumer.release(); popped = 0; }
            }
            prop_assert!(popped <= 8 * (1 + consumer.violations()), "a loop of pops without end");
            prop_assert!(consumer.available() <= 8);
        }
        if !hides_its_successor(&all, shared.header().producer.word.load(Ordering::Relaxed)) {
            heals(Producer::attach(shared), consumer);
        }
    }

    #[test]
    fn a_producer_outlives_a_hostile_consumer(
        all in proptest::collection::vec((proptest::collection::vec(tamper(), 0..4), 0..5u8, 0..12u32), 0..60),
    ) {
        let shared = ring::<8>();
        let mut producer = Producer::attach(shared);
        let mut pushed = 0;
        for (tampers, action, count) in all.clone() {
            tampers.iter().for_each(|tamper| apply(shared, tamper));
            match action {
                0 => pushed += u32::from(producer.push(7).is_ok()),
                1 => pushed += producer.push_slice(&[9; 12][..count as usize]) as u32,
                2 => { let _ = producer.sleep_until(count); }
                3 => { let _ = producer.restarted(); }
                _ => { let _ = producer.publish(); pushed = 0; }
            }
            prop_assert!(pushed <= 8, "a loop of pushes without end");
            prop_assert!(producer.free() <= 8);
        }
        if !hides_its_successor(&all, shared.header().consumer.word.load(Ordering::Relaxed)) {
            heals(producer, Consumer::attach(shared));
        }
    }
}

#[test]
fn a_producer_can_ask_whether_it_is_waited_for() {
    let ring = ring::<8>();
    let mut producer = Producer::attach(ring);
    let mut consumer = Consumer::attach(ring);
    assert!(consumer.sleep_until(3).is_asleep());
    assert!(!producer.awaited(2) && producer.awaited(3) && producer.awaited(8));
    for entry in 0..3 {
        producer.push(entry).expect("there is space");
    }
    assert!(producer.publish().is_asleep());
    // It was woken; it does not sleep again by itself.
    assert!(!producer.awaited(8));
}

#[test]
fn small_change_can_be_put_off() {
    let ring = ring::<8>();
    let (mut producer, mut consumer) = (Producer::attach(ring), Consumer::attach(ring));
    let _ = (producer.refresh(), consumer.refresh());
    assert!(
        producer.publish_many(4).is_asleep() && consumer.release_many(4).is_asleep(),
        "the first always ask for a notification"
    );
    assert!(consumer.sleep().is_asleep());
    for entry in 0..3 {
        producer.push(entry).expect("there is space");
        assert!(!producer.publish_many(4).is_asleep());
    }
    assert_eq!(consumer.refresh(), 0);
    producer.push(3).expect("there is space");
    assert!(producer.publish_many(4).is_asleep());
    assert_eq!(consumer.drain(8).count(), 4);
    assert!(producer.sleep_until(8).is_asleep());
    assert!(!consumer.release_many(5).is_asleep() && producer.refresh() == 4);
    assert!(consumer.release_many(4).is_asleep() && producer.refresh() == 8);
}

/// A producer that fills whatever is free would otherwise never sleep.
#[test]
fn an_index_that_cannot_be_makes_space_once() {
    let shared = ring::<8>();
    let mut producer = Producer::attach(shared);
    let fill = |producer: &mut Producer<u64>| {
        let free = producer.refresh();
        (0..free).for_each(|number| producer.push(number.into()).expect("free"));
        let _ = producer.publish();
        free
    };
    assert_eq!(fill(&mut producer), 8);
    shared.header().consumer.word.fetch_add(1000, Ordering::Relaxed);
    assert_eq!(fill(&mut producer), 8);
    assert!((0..100).all(|_| fill(&mut producer) == 0));
    assert!(producer.sleep_until(8).is_asleep());
    assert_eq!(producer.violations(), 1);
    // Whoever writes another such index has worked for it.
    shared.header().consumer.word.fetch_add(1000, Ordering::Relaxed);
    assert_eq!(fill(&mut producer), 8);
    let mut consumer = Consumer::attach(shared);
    // The next life goes on behind all that was published.
    assert_eq!(fill(&mut producer), 8);
    assert_eq!(consumer.drain(100).count(), 8);
    let _ = consumer.release();
    assert_eq!(fill(&mut producer), 8);
}
