//! A network device for host tests: honest, or misbehaving as a test wishes.

use crate::registers::*;
use crate::ring::Layout;
use crate::step;
use core::sync::atomic::Ordering::{Acquire, Relaxed, Release};
use culm::Region;
use culm_mmio::{Register, Registers, Width};
use std::cell::{Cell, RefCell};
use std::collections::VecDeque;
use std::rc::Rc;
use std::vec::Vec;

/// Where the device sees its memory.
pub const DMA: u64 = 0x7000_0000;

/// A queue, as the device sees it.
#[derive(Clone, Copy, Default)]
struct Queue {
    size: u32,
    ready: bool,
    addresses: [[u32; 2]; 3],
    /// Index of the next available entry to take.
    next: u16,
    used: u16,
}

/// A buffer that the driver gave.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Given {
    pub number: u16,
    pub address: u64,
    pub length: u32,
    pub writable: bool,
}

/// What a device is and does.
pub struct State {
    memory: Region,
    pub kind: Cell<u32>,
    pub version: Cell<u32>,
    pub features: Cell<u64>,
    pub accepts_features: Cell<bool>,
    pub link: Cell<u16>,
    pub queue_size: Cell<u32>,
    pub status: Cell<u32>,
    driver_features: Cell<u64>,
    halves: Cell<[u32; 2]>,
    selected: Cell<usize>,
    queues: RefCell<[Queue; 2]>,
    /// Doorbells rung, by queue.
    pub doorbells: RefCell<Vec<u32>>,
    /// Interrupts that the driver was to be sent.
    pub interrupts: Cell<u32>,
    pub acknowledged: Cell<u32>,
    /// What [`INTERRUPT_STATUS`] says. The interrupt line is high while it is not 0.
    pub causes: Cell<u32>,
    /// How often the line rose.
    pub edges: Cell<u32>,
    pub resets: Cell<u32>,
    /// Buffers taken from each queue and not used yet.
    held: RefCell<[VecDeque<Given>; 2]>,
}

/// The device's registers.
#[derive(Clone)]
pub struct Fake(pub Rc<State>);

impl Fake {
    pub fn new(memory: Region) -> Self {
        let features = FEATURE_VERSION_1 | FEATURE_EVENT_INDEX | FEATURE_MAC | FEATURE_STATUS | FEATURE_CHECKSUM;
        Self(Rc::new(State {
            memory,
            kind: Cell::new(DEVICE_NET),
            version: Cell::new(VERSION_MODERN),
            features: Cell::new(features),
            accepts_features: Cell::new(true),
            link: Cell::new(LINK_UP),
            queue_size: Cell::new(16),
            status: Cell::new(0),
            driver_features: Cell::new(0),
            halves: Cell::new([0; 2]),
            selected: Cell::new(0),
            queues: RefCell::default(),
            doorbells: RefCell::default(),
            interrupts: Cell::new(0),
            acknowledged: Cell::new(0),
            causes: Cell::new(0),
            edges: Cell::new(0),
            resets: Cell::new(0),
            held: RefCell::default(),
        }))
    }
}

impl State {
    fn half(&self, features: u64, index: usize) -> u32 {
        (features >> (32 * (self.halves.get()[index] & 1))) as u32
    }

    fn reset(&self) {
        self.resets.set(self.resets.get() + 1);
        *self.queues.borrow_mut() = Default::default();
        *self.held.borrow_mut() = Default::default();
        self.driver_features.set(0);
    }

    /// The features that the driver has settled on.
    pub fn settled(&self) -> u64 {
        self.driver_features.get()
    }

    fn has(&self, feature: u64) -> bool {
        self.driver_features.get() & feature != 0
    }

    fn layout(&self, queue: usize) -> Option<Layout> {
        let Queue { size, ready, addresses, .. } = self.queues.borrow()[queue];
        let offset = |[low, high]: [u32; 2]| (u64::from(low) | u64::from(high) << 32).checked_sub(DMA);
        let [descriptors, available, used] = addresses.map(|address| offset(address).unwrap_or(0) as usize);
        ready.then_some(Layout { size: size as u16, descriptors, available, used, slots: 0, end: 0 })
    }

    fn half_word(&self, offset: usize) -> u16 {
        self.memory.atomics_u16(offset, 1).expect("inside")[0].load(Acquire)
    }

    fn store_half_word(&self, offset: usize, value: u16) {
        self.memory.atomics_u16(offset, 1).expect("inside")[0].store(value, Release);
    }

    /// Takes what the driver made available, and asks for a doorbell at the next buffer.
    pub fn take(&self, queue: u32) -> Vec<Given> {
        let queue = queue as usize;
        let Some(layout) = self.layout(queue) else { return Vec::new() };
        let mut taken = Vec::new();
        let mut next = self.queues.borrow()[queue].next;
        while next != self.half_word(layout.available + 2) {
            let number = self.half_word(layout.available + 4 + 2 * usize::from(next % layout.size));
            let at = layout.descriptors + 16 * usize::from(number);
            let words = self.memory.atomics_u64(at, 2).expect("a descriptor that exists");
            let (address, rest) = (words[0].load(Relaxed), words[1].load(Relaxed));
            let writable = rest >> 32 & u64::from(DESCRIPTOR_WRITE) != 0;
            taken.push(Given { number, address, length: rest as u32, writable });
            next = next.wrapping_add(1);
            assert!(taken.len() <= layout.size as usize, "more was made available than there is");
        }
        self.queues.borrow_mut()[queue].next = next;
        // avail_event, or the flag that stands for it.
        let event = layout.used + 4 + 8 * usize::from(layout.size);
        self.store_half_word(event, next);
        self.held.borrow_mut()[queue].extend(&taken);
        taken
    }

    /// Uses a buffer, whatever number and length it is said to have; interrupts where that is
    /// wished.
    pub fn use_raw(&self, queue: u32, number: u32, length: u32) {
        let queue = queue as usize;
        let Some(layout) = self.layout(queue) else { return };
        let used = self.queues.borrow()[queue].used;
        let at = layout.used + 4 + 8 * usize::from(used % layout.size);
        let element = u64::from(number) | u64::from(length) << 32;
        self.memory.atomics_u64(at, 1).expect("inside")[0].store(element, Relaxed);
        self.queues.borrow_mut()[queue].used = used.wrapping_add(1);
        self.store_half_word(layout.used + 2, used.wrapping_add(1));
        let wished = if self.has(FEATURE_EVENT_INDEX) {
            self.half_word(layout.available + 4 + 2 * usize::from(layout.size)) == used
        } else {
            self.half_word(layout.available) & AVAILABLE_NO_INTERRUPT == 0
        };
        if wished {
            self.interrupts.set(self.interrupts.get() + 1);
            self.raise(INTERRUPT_USED);
        }
    }

    /// Raises the interrupt line for `cause`. If it is high already, it stays so and no edge is
    /// seen.
    pub fn raise(&self, cause: u32) {
        let causes = self.causes.get();
        if causes == 0 {
            self.edges.set(self.edges.get() + 1);
        }
        self.causes.set(causes | cause);
    }

    /// Uses the oldest buffer that it holds, with this length.
    pub fn use_next(&self, queue: u32, length: u32) -> Option<Given> {
        let given = self.held.borrow_mut()[queue as usize].pop_front()?;
        self.use_raw(queue, given.number.into(), length);
        Some(given)
    }

    /// Sets its used index to anything.
    pub fn set_used_index(&self, queue: u32, index: u16) {
        if let Some(layout) = self.layout(queue as usize) {
            self.store_half_word(layout.used + 2, index);
        }
    }
}

impl Registers for Fake {
    fn read<T: Width>(&self, register: Register<T>) -> T {
        step();
        let state = &self.0;
        let offset = register.offset();
        let value = match offset {
            _ if offset == MAGIC.offset() => MAGIC_VALUE,
            _ if offset == VERSION.offset() => state.version.get(),
            _ if offset == DEVICE_ID.offset() => state.kind.get(),
            _ if offset == DEVICE_FEATURES.offset() => state.half(state.features.get(), 0),
            _ if offset == QUEUE_SIZE_MAX.offset() => state.queue_size.get(),
            _ if offset == STATUS.offset() => state.status.get(),
            _ if offset == QUEUE_READY.offset() => state.queues.borrow()[state.selected.get()].ready.into(),
            _ if offset == INTERRUPT_STATUS.offset() => state.causes.get(),
            _ if offset == CONFIG_STATUS.offset() => state.link.get().into(),
            0x100..0x106 => (offset - 0x100) as u32,
            _ => panic!("a read of {offset:#x}, which the driver has no reason for"),
        };
        T::truncate(value)
    }

    fn write<T: Width>(&self, register: Register<T>, value: T) {
        step();
        let state = &self.0;
        let value = value.extend();
        let select = |index: usize| {
            let mut halves = state.halves.get();
            halves[index] = value;
            state.halves.set(halves);
        };
        let address = |part: usize, half: usize| {
            state.queues.borrow_mut()[state.selected.get()].addresses[part][half] = value;
        };
        match register.offset() {
            0x014 => select(0),
            0x024 => select(1),
            0x020 => {
                let shift = 32 * (state.halves.get()[1] & 1);
                state.driver_features.set(state.driver_features.get() | u64::from(value) << shift);
            }
            0x030 => state.selected.set(value as usize & 1),
            0x038 => state.queues.borrow_mut()[state.selected.get()].size = value,
            0x044 => state.queues.borrow_mut()[state.selected.get()].ready = value == 1,
            0x050 => state.doorbells.borrow_mut().push(value),
            0x064 => {
                state.acknowledged.set(state.acknowledged.get() + 1);
                state.causes.set(state.causes.get() & !value);
            }
            0x070 if value == 0 => {
                state.reset();
                state.status.set(0);
            }
            0x070 => {
                let refuse = if state.accepts_features.get() { 0 } else { STATUS_FEATURES_OK };
                state.status.set(value & !refuse);
            }
            0x080 => address(0, 0),
            0x084 => address(0, 1),
            0x090 => address(1, 0),
            0x094 => address(1, 1),
            0x0a0 => address(2, 0),
            0x0a4 => address(2, 1),
            offset => panic!("a write to {offset:#x}, which the driver has no reason for"),
        }
    }
}
