//! A virtio device for host tests: honest, or misbehaving as a test wishes. On MMIO, and in `pci`
//! on a PCI bus.

pub mod pci;

use crate::crash_point;
use crate::registers::*;
use crate::virtqueue::{Access, Layout, Part};
use core::sync::atomic::Ordering::{Acquire, Relaxed, Release};
use culm::Region;
use culm_mmio::{Field, Layout as _, Registers, Width};
use std::cell::{Cell, RefCell};
use std::collections::VecDeque;
use std::rc::Rc;
use std::vec::Vec;

/// Where the device sees its memory.
pub const DMA: u64 = 0x7000_0000;

/// Returns zeroed memory for a device's queues.
pub fn memory(size: usize) -> Region {
    Region::new(culm::testing::memory(size, DMA))
}

/// A queue, as the device sees it.
#[derive(Clone, Debug, Default)]
struct Queue {
    size: u32,
    ready: bool,
    addresses: [[u32; 2]; 3],
    /// Index of the next available entry to take.
    next: u16,
    used: u16,
    /// Buffers taken and not used yet.
    held: VecDeque<Given>,
}

/// A buffer or chain that the driver gave.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Given {
    /// The number of its first descriptor.
    pub number: u16,
    /// Its parts, in order.
    pub parts: Vec<Part>,
}

impl Given {
    /// Returns the buffer, which is one descriptor.
    ///
    /// # Panics
    ///
    /// If it is a chain.
    pub fn buffer(&self) -> Part {
        assert_eq!(self.parts.len(), 1, "a chain where a buffer is expected");
        self.parts[0]
    }
}

/// The state of a device.
#[derive(Debug)]
pub struct State {
    memory: Region,
    /// The kind of device.
    pub kind: Cell<Kind>,
    /// The version of the interface.
    pub version: Cell<Version>,
    /// The features that it offers.
    pub features: Cell<u64>,
    /// Whether it accepts those that the driver wants.
    pub accepts_features: Cell<bool>,
    /// Its configuration.
    pub configuration: RefCell<Vec<u8>>,
    /// Whether the configuration changes each time that it is looked at.
    pub changes_for_ever: Cell<bool>,
    generation: Cell<u32>,
    /// The largest size that its queues can have.
    pub queue_size: Cell<u32>,
    /// Its status register.
    pub status: Cell<Status>,
    driver_features: Cell<u64>,
    halves: Cell<[u32; 2]>,
    selected: Cell<usize>,
    queues: RefCell<Vec<Queue>>,
    /// Doorbells rung, by queue.
    pub doorbells: RefCell<Vec<u32>>,
    /// Interrupts that the driver was to be sent.
    pub interrupts: Cell<u32>,
    /// How often interrupts were acknowledged.
    pub acknowledged: Cell<u32>,
    /// The causes that [`INTERRUPT_STATUS`] shows. The interrupt line is high while there is a
    /// cause.
    pub causes: Cell<Causes>,
    /// How often the line rose.
    pub edges: Cell<u32>,
    /// Whether it does not reset.
    pub is_stuck: Cell<bool>,
    /// How often the device was reset.
    pub resets: Cell<u32>,
}

/// The device's registers.
#[derive(Clone, Debug)]
pub struct Fake(pub Rc<State>);

impl Fake {
    /// Creates a device of a kind, with so many queues of 16 descriptors in `memory`, and with
    /// [`crate::transport::FEATURES`] of its own, but for those of the platform.
    pub fn new(kind: Kind, queues: usize, memory: Region) -> Self {
        Self(Rc::new(State {
            memory,
            kind: Cell::new(kind),
            version: Cell::new(Version::MODERN),
            features: Cell::new(FEATURE_VERSION_1 | FEATURE_EVENT_INDEX),
            accepts_features: Cell::new(true),
            configuration: RefCell::default(),
            changes_for_ever: Cell::new(false),
            generation: Cell::new(0),
            queue_size: Cell::new(16),
            status: Cell::new(Status::ZERO),
            driver_features: Cell::new(0),
            halves: Cell::new([0; 2]),
            selected: Cell::new(0),
            queues: RefCell::new(std::vec![Queue::default(); queues]),
            doorbells: RefCell::default(),
            interrupts: Cell::new(0),
            acknowledged: Cell::new(0),
            causes: Cell::new(Causes::ZERO),
            edges: Cell::new(0),
            is_stuck: Cell::new(false),
            resets: Cell::new(0),
        }))
    }
}

impl State {
    fn half(&self, features: u64, index: usize) -> u32 {
        (features >> (32 * (self.halves.get()[index] & 1))) as u32
    }

    fn reset(&self) {
        self.resets.set(self.resets.get() + 1);
        self.queues.borrow_mut().iter_mut().for_each(|queue| *queue = Queue::default());
        self.driver_features.set(0);
    }

    /// Returns the features that the driver has settled on.
    pub fn driver_features(&self) -> u64 {
        self.driver_features.get()
    }

    fn has(&self, feature: u64) -> bool {
        self.driver_features.get() & feature != 0
    }

    fn layout(&self, queue: usize) -> Option<Layout> {
        let queues = self.queues.borrow();
        let Queue { size, ready, addresses, .. } = queues.get(queue)?;
        let offset = |[low, high]: [u32; 2]| (u64::from(low) | u64::from(high) << 32).checked_sub(DMA);
        let [descriptors, available, used] = addresses.map(|address| offset(address).unwrap_or(0) as usize);
        ready.then_some(Layout { size: *size as u16, descriptors, available, used, slots: 0, end: 0 })
    }

    fn half_word(&self, offset: usize) -> u16 {
        self.memory.atomics_u16(offset, 1).expect("inside")[0].load(Acquire)
    }

    fn store_half_word(&self, offset: usize, value: u16) {
        self.memory.atomics_u16(offset, 1).expect("inside")[0].store(value, Release);
    }

    /// Takes what the driver made available, and asks for a doorbell at the next buffer.
    ///
    /// # Panics
    ///
    /// If the driver made more available than the queue has, or a chain that has no end.
    pub fn take(&self, queue: u32) -> Vec<Given> {
        let queue = queue as usize;
        let Some(layout) = self.layout(queue) else { return Vec::new() };
        let mut taken = Vec::new();
        let mut next = self.queues.borrow()[queue].next;
        while next != self.half_word(layout.available + 2) {
            let number = self.half_word(layout.available + 4 + 2 * usize::from(next % layout.size));
            taken.push(Given { number, parts: self.parts(layout, number) });
            next = next.wrapping_add(1);
            assert!(taken.len() <= layout.size as usize, "more was made available than there is");
        }
        self.queues.borrow_mut()[queue].next = next;
        // avail_event, or the flag that stands for it.
        let event = layout.used + 4 + 8 * usize::from(layout.size);
        self.store_half_word(event, next);
        self.queues.borrow_mut()[queue].held.extend(taken.iter().cloned());
        taken
    }

    /// Reads the descriptors of a chain, of a table, or of the one buffer that it is.
    ///
    /// # Panics
    ///
    /// At a table that the driver did not settle on, or that is no whole one of its own.
    fn parts(&self, layout: Layout, number: u16) -> Vec<Part> {
        let (address, rest) = self.descriptor(layout.descriptors + 16 * usize::from(number));
        if (rest >> 32) as u16 & DESCRIPTOR_TABLE == 0 {
            return self.chain(layout.descriptors, layout.size, number);
        }
        assert!(self.has(FEATURE_TABLES), "a table that was not settled on");
        assert_eq!((rest >> 32, rest as u32 % 16), (DESCRIPTOR_TABLE.into(), 0), "a table stands alone");
        let (length, table) = (rest as u32 / 16, address.checked_sub(DMA).expect("in the device's memory"));
        let parts = self.chain(table as usize, length as u16, 0);
        assert_eq!(parts.len(), length as usize, "all of a table is used");
        parts
    }

    fn descriptor(&self, at: usize) -> (u64, u64) {
        let words = self.memory.atomics_u64(at, 2).expect("a descriptor that exists");
        (words[0].load(Relaxed), words[1].load(Relaxed))
    }

    /// Reads the chain that begins with descriptor `number` of the `size` at `start`.
    fn chain(&self, start: usize, size: u16, number: u16) -> Vec<Part> {
        let mut parts = Vec::new();
        let mut next = Some(number);
        while let Some(number) = next {
            assert!(parts.len() < size.into(), "a chain without end");
            let (address, rest) = self.descriptor(start + 16 * usize::from(number));
            let flags = (rest >> 32) as u16;
            let access = if flags & DESCRIPTOR_WRITE != 0 { Access::Write } else { Access::Read };
            parts.push(Part { address, length: rest as u32, access });
            next = (flags & DESCRIPTOR_NEXT != 0).then_some((rest >> 48) as u16);
        }
        parts
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
            self.raise(Causes::USED);
        }
    }

    /// Raises the interrupt line for `cause`. If it is high already, it stays so and no edge is
    /// seen.
    pub fn raise(&self, cause: Field<Causes>) {
        let causes = self.causes.get();
        if causes == Causes::ZERO {
            self.edges.set(self.edges.get() + 1);
        }
        self.causes.set(causes.set(cause));
    }

    /// Uses the oldest buffer that it holds, with this length.
    pub fn use_next(&self, queue: u32, length: u32) -> Option<Given> {
        let given = self.queues.borrow_mut()[queue as usize].held.pop_front()?;
        self.use_raw(queue, given.number.into(), length);
        Some(given)
    }

    /// Ages a queue in which it has no buffer, as if so many more had been given and used. The
    /// driver has to adopt it then.
    ///
    /// # Panics
    ///
    /// If it has a buffer.
    pub fn age(&self, queue: u32, count: u16) {
        let layout = self.layout(queue as usize).expect("a queue that is set up");
        let mut queues = self.queues.borrow_mut();
        let Queue { next, used, .. } = &mut queues[queue as usize];
        assert_eq!((self.half_word(layout.available + 2), *used), (*next, *next), "it has a buffer");
        (*next, *used) = (next.wrapping_add(count), used.wrapping_add(count));
        let event = layout.used + 4 + 8 * usize::from(layout.size);
        for index in [layout.available + 2, layout.used + 2, event] {
            self.store_half_word(index, *next);
        }
    }

    /// Sets its used index to anything.
    pub fn set_used_index(&self, queue: u32, index: u16) {
        if let Some(layout) = self.layout(queue as usize) {
            self.store_half_word(layout.used + 2, index);
        }
    }

    /// Returns whether the doorbell of a queue was rung, and forgets it.
    pub fn rung(&self, queue: u32) -> bool {
        let mut doorbells = self.doorbells.borrow_mut();
        let rung = doorbells.contains(&queue);
        doorbells.retain(|other| *other != queue);
        rung
    }

    fn read_configuration<T: Width>(&self, offset: usize) -> T {
        if self.changes_for_ever.get() {
            self.generation.set(self.generation.get().wrapping_add(1));
        }
        let mut bytes = [0; 4];
        let configuration = self.configuration.borrow();
        let known = configuration.get(offset - CONFIGURATION..).unwrap_or_default();
        assert!(known.len() >= size_of::<T>(), "a read of {offset:#x}, which the device does not have");
        bytes[..size_of::<T>()].copy_from_slice(&known[..size_of::<T>()]);
        T::truncate(u32::from_le_bytes(bytes))
    }

    fn with_selected(&self, change: impl FnOnce(&mut Queue)) {
        if let Some(queue) = self.queues.borrow_mut().get_mut(self.selected.get()) {
            change(queue);
        }
    }
}

impl Registers for Fake {
    fn load<W: Width>(&self, offset: usize) -> W {
        crash_point();
        let state = &self.0;
        let has_queue = state.selected.get() < state.queues.borrow().len();
        let value = match offset {
            _ if offset >= CONFIGURATION => return state.read_configuration(offset),
            _ if offset == MAGIC.offset() => Magic::VIRT.number(),
            _ if offset == VERSION.offset() => state.version.get().number(),
            _ if offset == DEVICE_ID.offset() => state.kind.get().number(),
            _ if offset == DEVICE_FEATURES.offset() => state.half(state.features.get(), 0),
            _ if offset == QUEUE_SIZE_MAX.offset() && has_queue => state.queue_size.get(),
            _ if offset == QUEUE_SIZE_MAX.offset() => 0,
            _ if offset == STATUS.offset() => state.status.get().bits(),
            _ if offset == QUEUE_READY.offset() && has_queue => {
                state.queues.borrow()[state.selected.get()].ready.into()
            }
            _ if offset == INTERRUPT_STATUS.offset() => state.causes.get().bits(),
            _ if offset == CONFIGURATION_GENERATION.offset() => state.generation.get(),
            _ => panic!("a read of {offset:#x}, which the driver has no reason for"),
        };
        W::truncate(value)
    }

    fn store<W: Width>(&self, offset: usize, value: W) {
        crash_point();
        let state = &self.0;
        let value = value.extend();
        let select = |index: usize| {
            let mut halves = state.halves.get();
            halves[index] = value;
            state.halves.set(halves);
        };
        match offset {
            0x014 => select(0),
            0x024 => select(1),
            0x020 => {
                let shift = 32 * (state.halves.get()[1] & 1);
                state.driver_features.set(state.driver_features.get() | u64::from(value) << shift);
            }
            0x030 => state.selected.set(value as usize),
            0x038 => state.with_selected(|queue| queue.size = value),
            0x044 => state.with_selected(|queue| queue.ready = value == 1),
            0x050 => state.doorbells.borrow_mut().push(value),
            0x064 => {
                state.acknowledged.set(state.acknowledged.get() + 1);
                state.causes.set(Causes::from_bits(state.causes.get().bits() & !value));
            }
            0x070 if value == 0 && state.is_stuck.get() => {}
            0x070 if value == 0 => {
                state.reset();
                state.status.set(Status::ZERO);
            }
            0x070 => {
                let status = Status::from_bits(value);
                let accepts = state.accepts_features.get();
                state.status.set(if accepts { status } else { status.clear(Status::FEATURES_OK) });
            }
            offset @ (0x080 | 0x084 | 0x090 | 0x094 | 0x0a0 | 0x0a4) => {
                let (part, half) = ((offset - 0x080) / 0x10, offset % 8 / 4);
                state.with_selected(|queue| queue.addresses[part][half] = value);
            }
            offset => panic!("a write to {offset:#x}, which the driver has no reason for"),
        }
    }
}
