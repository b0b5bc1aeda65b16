//! A ring whose other side is hostile: it writes anything anywhere in the ring, between any two
//! steps of ours.
//!
//! The input is a program: a byte says what happens next, the bytes after it with what. Both sides
//! of the ring are attacked. Whatever happens, memory around the ring stays as it is, every count
//! stays within the capacity, loops end, and in the end two honest sides that attach to what is
//! left pass entries to each other.

#![no_main]

#[path = "../common/input.rs"]
mod input;

use culm_queue::{Consumer, HEADER_SIZE, Producer, Shared, layout};
use input::Input;
use libfuzzer_sys::fuzz_target;
use std::ptr::NonNull;
use std::sync::atomic::{AtomicU8, Ordering};

const CAPACITY: u32 = 8;
const SIZE: usize = HEADER_SIZE + CAPACITY as usize * 8;
/// Bytes before and behind the ring that must not change.
const GUARD: usize = 256;
/// Their content.
const PATTERN: u8 = 0xa5;

/// A ring with guards around it.
#[repr(C, align(64))]
struct Memory {
    bytes: [AtomicU8; GUARD + SIZE + GUARD],
}

impl Memory {
    /// An empty ring, always the same memory.
    fn ring() -> (&'static Self, Shared<u64>) {
        static MEMORY: Memory = Memory { bytes: [const { AtomicU8::new(0) }; GUARD + SIZE + GUARD] };
        assert_eq!(layout(CAPACITY, 8), Some(SIZE));
        for (index, byte) in MEMORY.bytes.iter().enumerate() {
            let inside = (GUARD..GUARD + SIZE).contains(&index);
            byte.store(if inside { 0 } else { PATTERN }, Ordering::Relaxed);
        }
        let address = NonNull::from(&MEMORY.bytes[GUARD..]).cast();
        // SAFETY: `layout` bytes, aligned since `GUARD` is a multiple of 64, never freed, touched
        // through atomics only.
        let shared = unsafe { Shared::from_raw(address, CAPACITY) };
        (&MEMORY, shared.expect("a power of two at a multiple of 64"))
    }

    /// The hostile peer writes.
    fn write(&self, offset: u8, bytes: &[u8]) {
        for (index, byte) in bytes.iter().enumerate() {
            self.bytes[GUARD + (offset as usize + index) % SIZE].store(*byte, Ordering::Relaxed);
        }
    }

    fn check(&self) {
        let guards = self.bytes[..GUARD].iter().chain(&self.bytes[GUARD + SIZE..]);
        assert!(guards.into_iter().all(|byte| byte.load(Ordering::Relaxed) == PATTERN), "written outside the ring");
    }
}

fuzz_target!(|data: &[u8]| {
    let mut input = Input::new(data);
    let (memory, shared) = Memory::ring();
    let (mut producer, mut consumer) = (Producer::attach(shared), Consumer::attach(shared));
    // Since the last publication, and since the last release.
    let (mut pushed, mut popped) = (0, 0);
    while !input.is_over() {
        match input.byte() % 16 {
            0..=4 => {
                let offset = input.byte();
                let count = 1 + input.byte() as usize % 16;
                memory.write(offset, input.bytes(count));
            }
            5 => pushed += u32::from(producer.push(1).is_ok()),
            6 => {
                let mut reservation = producer.reserve(input.byte().into());
                while reservation.push(2).is_ok() {
                    pushed += 1;
                    // In the middle of a batch.
                    memory.write(pushed as u8 * 8, input.bytes(8));
                }
            }
            7 => {
                let _ = producer.publish();
                pushed = 0;
            }
            8 => {
                let _ = producer.sleep_until(input.byte().into());
            }
            9 => {
                let violations = consumer.violations();
                popped += u32::from(consumer.pop().is_some());
                if consumer.violations() != violations {
                    popped = 0;
                }
            }
            10 => {
                let violations = consumer.violations();
                let drained = consumer.drain(input.byte().into()).count() as u32;
                popped = if consumer.violations() == violations { popped + drained } else { drained };
            }
            11 => {
                let _ = consumer.release();
                popped = 0;
            }
            12 => {
                let violations = consumer.violations();
                let _ = consumer.sleep_until(input.byte().into());
                if consumer.violations() != violations {
                    popped = 0;
                }
            }
            13 => {
                producer = Producer::attach(shared);
                pushed = 0;
            }
            14 => {
                consumer = Consumer::attach(shared);
                popped = 0;
            }
            _ => {
                let _ = (producer.restarted(), consumer.restarted(), shared.depth());
            }
        }
        assert!(pushed <= CAPACITY && producer.free() <= CAPACITY, "pushing does not end");
        assert!(popped <= CAPACITY && consumer.available() <= CAPACITY, "popping does not end");
    }
    memory.check();
    heal(Producer::attach(shared), Consumer::attach(shared));
    memory.check();
});

/// Two honest sides pass entries, whatever happened to the ring before.
fn heal(mut producer: Producer<u64>, mut consumer: Consumer<u64>) {
    for entry in 0..20 {
        let pushed = producer.push(entry);
        let _ = producer.publish();
        let taken: Vec<u64> = consumer.drain(u32::MAX).collect();
        let _ = consumer.release();
        let _ = producer.refresh();
        // First what is left of the past.
        assert!(entry < 3 || pushed.is_ok() && taken == [entry], "entry {entry} of an honest ring: {taken:?}");
    }
}
