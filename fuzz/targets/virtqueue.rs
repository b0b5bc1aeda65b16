//! A virtqueue of buffers and chains, and a device that is honest at times and writes anything into
//! the memory that it shares at others. Restarts of the driver come in between, which go on with
//! the queue or renew it.
//!
//! The input is a program: a byte says what happens next, the bytes after it with what. Whatever
//! the device writes, nothing panics or goes on for ever, and there are never more buffers than
//! descriptors. A device that only lies in what is its own to write (the used ring) moves nobody to
//! take a buffer back twice, or with a length that it cannot have.

#![no_main]

#[path = "../common/input.rs"]
mod input;

use culm::Region;
use culm_virtio::registers::Kind;
use culm_virtio::testing::{DMA, Fake};
use culm_virtio::transport::FEATURES;
use culm_virtio::virtqueue::Access;
use culm_virtio::{Layout, Part, Transport, Virtqueue};
use input::Input;
use libfuzzer_sys::fuzz_target;
use std::collections::BTreeMap;

/// The kind of device, which does not matter here.
const KIND: Kind = Kind::BLOCK;
const QUEUE: u32 = 0;
const SIZE: usize = 1024;
const DESCRIPTORS: u16 = 8;
const LAYOUT: Layout = Layout::new(DESCRIPTORS, 0);
const _: () = assert!(LAYOUT.end <= SIZE);

/// Memory, made once, and empty.
fn memory() -> Region {
    thread_local! {
        static MEMORY: Region = Region::new(culm::testing::memory(SIZE, DMA));
    }
    let memory = MEMORY.with(|memory| *memory);
    memory.clear(0, SIZE).expect("all of it");
    memory
}

/// The driver's side.
struct Driver {
    fake: Fake,
    memory: Region,
    device: Transport<Fake>,
    queue: Virtqueue,
    token: u32,
    /// Bytes that may be written, by the tokens that the device has.
    given: BTreeMap<u32, u32>,
    /// Used entries that were passed on, modulo 2¹⁶.
    passed_on: u16,
    /// Whether all that comes back must have been given.
    strict: bool,
}

impl Driver {
    fn new(memory: Region, strict: bool) -> Self {
        let fake = Fake::new(KIND, 1, memory);
        let device = Transport::find(fake.clone(), KIND).expect("it is there");
        let queue = Virtqueue::new(&memory, LAYOUT, Access::Write).expect("space");
        let mut driver = Self { fake, memory, device, queue, token: 0, given: BTreeMap::new(), passed_on: 0, strict };
        driver.reset();
        driver
    }

    fn add(&mut self, parts: u8, lengths: u8) {
        self.token += 1;
        let (address, length) = (u64::from(self.token) << 16, 1 + u32::from(lengths) * 0x1234);
        let (added, writable) = if parts < 2 {
            (self.queue.add(address, length as u16, self.token), u32::from(length as u16))
        } else {
            let part = |index: u8| Part {
                address: address + u64::from(index),
                length,
                access: if index < parts / 2 { Access::Read } else { Access::Write },
            };
            let all: Vec<_> = (0..parts).map(part).collect();
            (self.queue.add_chain(&all, self.token).is_ok(), length * u32::from(parts - parts / 2))
        };
        if added {
            self.given.insert(self.token, writable);
        }
    }

    fn take(&mut self) {
        self.queue.refresh();
        let mut taken = 0;
        while let Some(used) = self.queue.take() {
            taken += 1;
            let writable = self.given.remove(&used.token);
            if self.strict {
                let writable = writable.expect("a buffer comes back that the device does not have");
                assert!(used.length <= writable, "{} bytes where {writable} can be", used.length);
            }
        }
        assert!(taken <= DESCRIPTORS && self.queue.space() <= DESCRIPTORS.into());
        self.passed_on = self.queue.taken();
    }

    /// The next life: goes on if it can, unless it is to reset the device.
    fn restart(&mut self, reset: bool) {
        self.queue = Virtqueue::new(&self.memory, LAYOUT, Access::Write).expect("space");
        if self.queue.adopt(self.passed_on, self.device.has_event_index()) {
            // A buffer that was added and not published is gone: the next life would add it again.
            let with_device: Vec<u32> = self.given.keys().copied().collect();
            let lost = with_device.len() - usize::from(self.queue.in_flight()).min(with_device.len());
            with_device.iter().rev().take(lost).for_each(|token| _ = self.given.remove(token));
        } else {
            assert!(!self.strict, "nobody wrote where he must not");
            self.queue.clear();
        }
        if reset {
            self.take();
            self.reset();
        }
    }

    fn reset(&mut self) {
        self.queue.rank();
        self.device.reset(|offered| offered & FEATURES).expect("a device that works");
        self.queue.renew(self.device.has_event_index());
        self.device.set_to_work(&self.memory, &[(QUEUE, &self.queue)]);
        self.passed_on = 0;
        assert!(usize::from(self.queue.in_flight()) + self.queue.space() <= DESCRIPTORS.into());
        assert!(!self.strict || usize::from(self.queue.in_flight()) == self.given.len(), "a buffer is lost");
    }
}

fuzz_target!(|data: &[u8]| {
    let mut input = Input::new(data);
    let memory = memory();
    let mut driver = Driver::new(memory, input.byte() & 1 == 0);
    // A device that lies to a driver that dies can have its next life take anything for used; one
    // that writes over the driver's records, this life too.
    let mut lied = false;
    while !input.is_over() {
        match input.byte() % 12 {
            0..3 => {
                let shape = input.byte();
                driver.add(shape % 6, shape / 6);
            }
            3 => _ = driver.queue.publish(),
            4 | 5 => {
                if !lied && driver.strict {
                    driver.fake.0.take(QUEUE);
                    driver.fake.0.use_next(QUEUE, u32::from(input.byte()) << (input.byte() % 17));
                }
            }
            6 => {
                lied = true;
                let (place, number) = (usize::from(input.byte()) % 8, u32::from(input.byte()) % 10);
                let element = [number, u32::from(input.byte()) << (input.byte() % 25)].map(u32::to_le_bytes);
                memory.write(LAYOUT.used + 4 + 8 * place, element.as_flattened()).expect("inside");
            }
            7 => {
                lied = true;
                let index = u16::from(input.byte()) | u16::from(input.byte()) << 8;
                memory.write(LAYOUT.used + 2, &index.to_le_bytes()).expect("inside");
            }
            8 if !driver.strict => {
                let offset = usize::from(input.byte()) << 2 | usize::from(input.byte() & 3);
                let bytes = input.bytes(8);
                memory.write(offset.min(SIZE - bytes.len()), bytes).expect("inside");
            }
            9 => {
                driver.strict &= !lied;
                driver.restart(input.byte() & 1 == 0);
            }
            10 => _ = driver.queue.wait_for(input.byte().into()),
            _ => driver.take(),
        }
        if driver.queue.is_broken() {
            driver.reset();
            lied = false;
        }
    }
});
