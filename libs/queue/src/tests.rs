//! Tests of the ring with honest, restarted and hostile peers.

use crate::{Consumer, Full, Producer, Shared, Storage, layout};
use std::boxed::Box;
use std::vec::Vec;

fn ring<const CAPACITY: usize>() -> Shared<u64> {
    Box::leak(Box::new(Storage::<u64, CAPACITY>::new())).shared()
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
fn sizes_are_checked() {
    assert_eq!(layout(512, 8), Some(128 + 4096));
    assert_eq!(layout(0, 8), None);
    assert_eq!(layout(3, 8), None);
    assert_eq!(layout(4, 3), None);
    assert_eq!(layout(1 << 31, 8), None);
}
