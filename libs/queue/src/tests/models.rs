//! Exhaustive checks of the protocol under the memory model:
//! `RUSTFLAGS="--cfg loom" cargo test --release -p culm-queue models`.
//!
//! [`Notify`] stands for the kernel: a bit that a notification sets and a wait takes. A wake-up
//! that gets lost shows as a deadlock, which loom reports.

use crate::{Consumer, Producer, Shared, Storage};
use loom::sync::{Arc, Notify};
use loom::thread;
use std::boxed::Box;
use std::vec::Vec;

fn ring<const CAPACITY: usize>() -> Shared<u64> {
    // Loom's atomics must be new in every execution it explores; what they leak is small.
    Box::leak(Box::new(Storage::<u64, CAPACITY>::new())).shared()
}

/// A ring whose two sides have attached, greeted each other and gone to sleep.
fn warm<const CAPACITY: usize>() -> (Producer<u64>, Consumer<u64>) {
    let shared = ring::<CAPACITY>();
    let (mut producer, mut consumer) = (Producer::attach(shared), Consumer::attach(shared));
    let _ = (producer.refresh(), consumer.refresh());
    assert!(producer.publish().is_asleep() && consumer.release().is_asleep(), "a new generation must announce itself");
    assert!(!(producer.publish() | consumer.release()).is_asleep(), "but once");
    (producer, consumer)
}

/// Takes `count` entries as a component does: all there are, then sleep.
fn consume(mut consumer: Consumer<u64>, count: usize, own: &Notify, peer: &Notify) -> Vec<u64> {
    let mut taken = Vec::new();
    loop {
        taken.extend(consumer.drain(u32::MAX));
        if consumer.release().is_asleep() {
            peer.notify();
        }
        if taken.len() >= count {
            return taken;
        }
        if consumer.sleep().is_asleep() {
            own.wait();
        }
    }
}

/// Sends entries one by one, waiting for space where there is none.
fn produce(mut producer: Producer<u64>, entries: core::ops::RangeInclusive<u64>, own: &Notify, peer: &Notify) {
    for entry in entries {
        while producer.push(entry).is_err() {
            if producer.sleep().is_asleep() {
                own.wait();
            }
        }
        if producer.publish().is_asleep() {
            peer.notify();
        }
    }
}

#[test]
fn what_is_published_is_consumed_in_order() {
    loom::model(|| {
        let (mut producer, mut consumer) = warm::<2>();
        let thread = thread::spawn(move || {
            assert_eq!(producer.push_slice(&[1, 2]), 2);
            let _ = producer.publish();
            let more = producer.push(3).is_ok();
            let _ = producer.publish();
            more
        });
        let mut taken: Vec<u64> = consumer.drain(u32::MAX).collect();
        let _ = consumer.release();
        taken.extend(consumer.drain(u32::MAX));
        let count = if thread.join().unwrap() { 3 } else { 2 };
        let _ = consumer.release();
        taken.extend(consumer.drain(u32::MAX));
        assert_eq!(taken, (1..=count).collect::<Vec<_>>());
        assert_eq!(consumer.violations(), 0);
    });
}

#[test]
fn a_sleeping_consumer_is_woken() {
    loom::model(|| {
        let (producer, consumer) = warm::<4>();
        let (to_producer, to_consumer) = (Arc::new(Notify::new()), Arc::new(Notify::new()));
        let (own, peer) = (to_producer.clone(), to_consumer.clone());
        let thread = thread::spawn(move || produce(producer, 1..=2, &own, &peer));
        assert_eq!(consume(consumer, 2, &to_consumer, &to_producer), [1, 2]);
        thread.join().unwrap();
    });
}

#[test]
fn a_producer_that_waits_for_space_is_woken() {
    let mut builder = loom::model::Builder::new();
    builder.preemption_bound = Some(3);
    builder.check(|| {
        let (producer, consumer) = warm::<1>();
        let (to_producer, to_consumer) = (Arc::new(Notify::new()), Arc::new(Notify::new()));
        let (own, peer) = (to_producer.clone(), to_consumer.clone());
        let thread = thread::spawn(move || produce(producer, 1..=3, &own, &peer));
        assert_eq!(consume(consumer, 3, &to_consumer, &to_producer), [1, 2, 3]);
        thread.join().unwrap();
    });
}

#[test]
fn an_awake_consumer_is_not_notified() {
    loom::model(|| {
        let (mut producer, mut consumer) = warm::<4>();
        let thread = thread::spawn(move || {
            let mut notifications = 0;
            for entry in 1..=2 {
                producer.push(entry).unwrap();
                notifications += u32::from(producer.publish().is_asleep());
            }
            notifications
        });
        // One announcement, so at most one notification, however the two interleave. (The
        // announcement of an empty ring that was never slept on counts as the first.)
        let asleep = consumer.sleep().is_asleep();
        let notifications = thread.join().unwrap();
        assert!(notifications <= 1, "{notifications} notifications for one announcement");
        assert!(!asleep || notifications == 1, "asleep and not woken");
    });
}

#[test]
fn a_restarted_producer_loses_nothing_that_it_published() {
    let mut builder = loom::model::Builder::new();
    builder.preemption_bound = Some(3);
    builder.check(|| {
        let (mut producer, consumer) = warm::<4>();
        let shared = producer.shared();
        let (to_producer, to_consumer) = (Arc::new(Notify::new()), Arc::new(Notify::new()));
        let (own, peer) = (to_producer.clone(), to_consumer.clone());
        let thread = thread::spawn(move || {
            producer.push(1).unwrap();
            // It dies between the publication and the notification that it owes, with an entry half
            // done.
            let _ = producer.publish();
            producer.push(99).unwrap();
            let mut producer = Producer::attach(shared);
            if producer.publish().is_asleep() {
                peer.notify();
            }
            produce(producer, 2..=2, &own, &peer);
        });
        assert_eq!(consume(consumer, 2, &to_consumer, &to_producer), [1, 2]);
        thread.join().unwrap();
    });
}

#[test]
fn a_restarted_consumer_finds_what_it_did_not_release() {
    let mut builder = loom::model::Builder::new();
    builder.preemption_bound = Some(3);
    builder.check(|| {
        let (producer, mut consumer) = warm::<1>();
        let shared = producer.shared();
        let (to_producer, to_consumer) = (Arc::new(Notify::new()), Arc::new(Notify::new()));
        let (own, peer) = (to_producer.clone(), to_consumer.clone());
        let thread = thread::spawn(move || produce(producer, 1..=2, &own, &peer));
        // It dies having released, perhaps, one entry without the notification that it owes, or
        // asleep.
        let first: Vec<u64> = consumer.drain(1).collect();
        if first.is_empty() {
            let _ = consumer.sleep();
        }
        let _ = consumer.release();
        let consumer = Consumer::attach(shared);
        let taken = consume(consumer, 2 - first.len(), &to_consumer, &to_producer);
        assert_eq!([first, taken].concat(), [1, 2]);
        thread.join().unwrap();
    });
}
