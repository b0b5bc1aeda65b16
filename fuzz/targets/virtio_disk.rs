//! A virtio disk that lies: it returns what it does not have, at any length, with any status or
//! none, says that it is done and has done nothing, is another disk from one moment to the next,
//! and writes anything into the memory that it shares with the driver. Restarts of the driver come
//! in between.
//!
//! The input is a program: a byte says what happens next, the bytes after it with what. Whatever
//! the device does, the driver neither panics nor goes on for ever, and ends no request twice. A
//! device that writes only what is its own to write is given nothing but the memory of requests
//! that are under way, as they ask, and blocks that they name; and a request of which it has said
//! nothing good is not answered as done. At the end the device is as it should be: every request
//! is answered then, and the disk is of use again.

#![no_main]

#[path = "../common/asker.rs"]
mod asker;
#[path = "../common/peers.rs"]
#[allow(dead_code, reason = "entries of the net class are none of this one's")]
mod peers;

use asker::{Asker, DATA};
use block_virtio::Block;
use block_virtio::registers::*;
use culm::connection::BlockDriver;
use culm::time::{self, Duration};
use culm::{Region, testing};
use culm_block::{BLOCK, Operation, Request, Segment};
use culm_mmio::{Layout as _, Registers, Width};
use culm_virtio::registers::*;
use libfuzzer_sys::fuzz_target;
use peers::Input;
use std::cell::{Cell, RefCell};
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::rc::Rc;

/// Blocks of the memory of requests, and of the disk.
const MEMORY: u64 = 64;
const DISK: u64 = 256;
/// Where the device sees the memory that it shares with the driver.
const OWN: u64 = 0x7000_0000;
const OWN_SIZE: usize = 16 * 1024;
/// Descriptors of the queue.
const QUEUE_SIZE: u32 = 16;
/// The most requests that are under way.
const MOST: usize = 24;
/// Parts of a request at most: what the driver gives is longer only if it has gone mad.
const MOST_PARTS: usize = 64;

const FEATURES: u64 = FEATURE_VERSION_1
    | FEATURE_EVENT_INDEX
    | FEATURE_TABLES
    | FEATURE_SEGMENTS
    | FEATURE_BLOCK_SIZE
    | FEATURE_FLUSH
    | FEATURE_DISCARD
    | FEATURE_WRITE_ZEROES;

/// Memory that device and driver share, the same for each input, and zero.
fn own() -> Region {
    thread_local! {
        static OWN_MEMORY: Region = Region::new(testing::memory(OWN_SIZE, OWN));
    }
    let own = OWN_MEMORY.with(|own| *own);
    own.clear(0, OWN_SIZE).expect("all of it");
    own
}

/// The device's registers, and its place in the queue.
struct State {
    status: Cell<u32>,
    causes: Cell<u32>,
    features: Cell<u64>,
    accepts_features: Cell<bool>,
    is_stuck: Cell<bool>,
    half: Cell<u32>,
    configuration: RefCell<[u8; 64]>,
    generation: Cell<u32>,
    changes_for_ever: Cell<bool>,
    /// Descriptors, available ring and used ring: offsets in the memory of its own.
    rings: Cell<[u64; 3]>,
    size: Cell<u32>,
    /// The next available entry, and the next used one.
    next: Cell<u16>,
    used: Cell<u16>,
    resets: Cell<u32>,
    /// The value that one register has instead, at its offset.
    lie: Cell<Option<(usize, u32)>>,
}

#[derive(Clone)]
struct Device(Rc<State>);

impl Registers for Device {
    fn load<W: Width>(&self, offset: usize) -> W {
        let state = &self.0;
        if let Some((_, value)) = state.lie.get().filter(|(at, _)| *at == offset) {
            return W::truncate(value);
        }
        W::truncate(match offset {
            0x000 => Magic::VIRT.number(),
            0x004 => Version::MODERN.number(),
            0x008 => Kind::BLOCK.number(),
            0x010 => (state.features.get() >> (32 * (state.half.get() & 1))) as u32,
            0x034 => QUEUE_SIZE,
            0x044 => 1,
            0x060 => state.causes.get(),
            0x070 => state.status.get(),
            0x0fc => {
                state.generation.set(state.generation.get().wrapping_add(state.changes_for_ever.get().into()));
                state.generation.get()
            }
            CONFIGURATION.. => {
                let configuration = state.configuration.borrow();
                let bytes = configuration.get(offset - CONFIGURATION..).unwrap_or_default();
                bytes.iter().take(4).rev().fold(0, |value, byte| value << 8 | u32::from(*byte))
            }
            _ => 0,
        })
    }

    fn store<W: Width>(&self, offset: usize, value: W) {
        let (state, value) = (&self.0, value.extend());
        match offset {
            0x014 => state.half.set(value),
            0x038 => state.size.set(value),
            0x064 => state.causes.set(state.causes.get() & !value),
            0x070 if value == 0 && state.is_stuck.get() => {}
            0x070 if value == 0 => {
                [&state.status, &state.causes, &state.size].iter().for_each(|register| register.set(0));
                [&state.next, &state.used].iter().for_each(|index| index.set(0));
                state.resets.set(state.resets.get() + 1);
            }
            0x070 => {
                let refused =
                    if state.accepts_features.get() { 0 } else { Status::ZERO.set(Status::FEATURES_OK).bits() };
                state.status.set(value & !refused);
            }
            0x080 | 0x090 | 0x0a0 => {
                let mut rings = state.rings.get();
                rings[(offset - 0x080) / 0x10] = u64::from(value).wrapping_sub(OWN);
                state.rings.set(rings);
            }
            _ => {}
        }
    }
}

/// A request that the device has taken.
struct Taken {
    number: u16,
    /// Bytes that it may write.
    writable: u32,
    /// Offset of its status in the memory of its own.
    status: u64,
}

struct World {
    own: Region,
    queues: &'static BlockDriver,
    state: Rc<State>,
    /// `None` if the device could not be used.
    block: Option<Block<Device>>,
    asker: Asker,
    held: VecDeque<Taken>,
    resets: u32,
    /// The tags of requests that ask for what was given last with each status.
    asking: BTreeMap<u64, Vec<u64>>,
    /// Whether the device has written only what is its own to write.
    is_strict: bool,
    /// Whether a register has said what it should not. A driver may have taken features of that.
    has_lied: bool,
    /// Requests of which the device has said that they are done.
    good: BTreeSet<u64>,
}

impl World {
    fn new(setting: u8) -> Self {
        let (own, queues) = (own(), asker::queues());
        let mut features = FEATURES;
        for (bit, feature) in [(1, FEATURE_EVENT_INDEX), (2, FEATURE_TABLES), (4, FEATURE_FLUSH)] {
            features &= if setting & bit == 0 { u64::MAX } else { !feature };
        }
        let state = Rc::new(State {
            status: Cell::new(0),
            causes: Cell::new(0),
            features: Cell::new(features),
            accepts_features: Cell::new(true),
            is_stuck: Cell::new(false),
            half: Cell::new(0),
            configuration: RefCell::new(configuration(DISK, 512)),
            generation: Cell::new(0),
            changes_for_ever: Cell::new(false),
            rings: Cell::new([0; 3]),
            size: Cell::new(0),
            next: Cell::new(0),
            used: Cell::new(0),
            resets: Cell::new(0),
            lie: Cell::new(None),
        });
        let mut world = Self {
            own,
            queues,
            state,
            block: None,
            asker: Asker::new(queues, MOST),
            held: VecDeque::new(),
            resets: 0,
            asking: BTreeMap::new(),
            is_strict: true,
            has_lied: false,
            good: BTreeSet::new(),
        };
        world.restart();
        world
    }

    /// Begins the driver's next life.
    fn restart(&mut self) {
        self.block = Block::new(Device(self.state.clone()), self.own, self.queues).ok();
    }

    /// A turn of the driver, and one of its client's.
    fn turn(&mut self) {
        let is_interrupted = self.state.causes.get() != 0;
        if let Some(block) = &mut self.block {
            if is_interrupted {
                block.interrupted(false);
            }
            culm::run_rounds(8, || block.round());
        }
        // Before its answer ends a request that it says it has done although it has not taken it.
        self.take();
        let Self { asker, good, is_strict, .. } = self;
        asker.turn(|tag, request, result| {
            if result.is_ok() && *is_strict && request.operation != Operation::Flush {
                assert!(good.contains(&tag), "nobody has said that request {tag} is done");
            }
        });
    }

    fn run(&mut self) {
        asker::run(60, || self.turn());
    }

    fn own<const N: usize>(&self, offset: u64) -> Option<[u8; N]> {
        let mut bytes = [0; N];
        self.own.read(usize::try_from(offset).ok()?, &mut bytes).ok().map(|()| bytes)
    }

    fn half_word(&self, offset: u64) -> Option<u16> {
        self.own(offset).map(u16::from_le_bytes)
    }

    /// Writes into the memory that it shares with the driver.
    fn write(&self, offset: u64, bytes: &[u8]) {
        // Nobody can be harmed by what it writes elsewhere.
        let _ = self.own.write(offset as usize, bytes);
    }

    /// The device takes what it was given.
    fn take(&mut self) {
        if self.state.resets.get() != self.resets {
            self.resets = self.state.resets.get();
            self.held.clear();
        }
        let size = self.state.size.get();
        if size == 0 {
            return;
        }
        let [_, available, used] = self.state.rings.get();
        let Some(end) = self.half_word(available.wrapping_add(2)) else { return };
        for _ in 0..size {
            let next = self.state.next.get();
            if next == end {
                break;
            }
            let entry = available.wrapping_add(4 + 2 * u64::from(u32::from(next) % size));
            let taken = self.half_word(entry).and_then(|number| self.understand(number));
            assert!(taken.is_some() || !self.is_strict, "what the driver gives cannot be understood");
            self.held.extend(taken);
            self.state.next.set(next.wrapping_add(1));
        }
        assert!(!self.is_strict || self.state.next.get() == end, "more was made available than there is");
        // avail_event, or the flag that stands for it.
        self.write(used.wrapping_add(4 + 8 * u64::from(size)), &self.state.next.get().to_le_bytes());
    }

    /// Understands a chain or table, as far as it can be.
    fn understand(&mut self, number: u16) -> Option<Taken> {
        let [descriptors, ..] = self.state.rings.get();
        let (mut table, mut at, mut is_indirect) = (descriptors, u64::from(number), false);
        let mut parts: Vec<(u64, u32, bool)> = Vec::new();
        loop {
            let bytes: [u8; 16] = self.own(table.wrapping_add(16 * at))?;
            let word = |range: core::ops::Range<usize>| {
                bytes[range].iter().rev().fold(0, |word, byte| word << 8 | u64::from(*byte))
            };
            let (address, length, flags, next) = (word(0..8), word(8..12) as u32, word(12..14) as u16, word(14..16));
            if flags & DESCRIPTOR_TABLE != 0 {
                // One that leads to another, or to itself: the device has written over it.
                if is_indirect {
                    return None;
                }
                (table, at, is_indirect) = (address.wrapping_sub(OWN), 0, true);
                continue;
            }
            parts.push((address, length, flags & DESCRIPTOR_WRITE != 0));
            if flags & DESCRIPTOR_NEXT == 0 {
                break;
            }
            at = next;
            if parts.len() > MOST_PARTS {
                return None;
            }
        }
        let ((head, 16, false), (status, 1, true)) = (*parts.first()?, *parts.last()?) else { return None };
        let data = &parts[1..parts.len() - 1];
        let head: [u8; 16] = self.own(head.wrapping_sub(OWN))?;
        let (kind, block) = head.split_at(8);
        let kind = u32::from_le_bytes(kind[..4].try_into().ok()?);
        let block = u64::from_le_bytes(block.try_into().ok()?);
        let asking = self.asker.under_way.iter().filter(|(_, request)| self.asks_for(request, kind, block, data));
        let tags: Vec<u64> = asking.map(|(tag, _)| *tag).collect();
        assert!(!tags.is_empty() || !self.is_strict, "nobody has asked for {kind} at {block} with {data:x?}");
        let status = status.wrapping_sub(OWN);
        self.asking.insert(status, tags);
        let writable =
            parts.iter().filter(|(.., writes)| *writes).map(|(_, length, _)| *length).fold(0, u32::wrapping_add);
        Some(Taken { number, writable, status })
    }

    /// Returns whether a request is the one that was given.
    fn asks_for(&self, request: &Request, kind: u32, block: u64, data: &[(u64, u32, bool)]) -> bool {
        let expected = match request.operation {
            Operation::Read => TYPE_READ,
            Operation::Write => TYPE_WRITE,
            Operation::Flush => TYPE_FLUSH,
            Operation::Discard => TYPE_DISCARD,
            Operation::WriteZeroes | Operation::DiscardToZeroes => TYPE_WRITE_ZEROES,
        };
        if kind != expected {
            return false;
        }
        if request.operation.moves_data() {
            let segments = request.segments().iter().map(|segment| {
                (segment.place * BLOCK as u64, segment.blocks * BLOCK as u32, request.operation.is_read())
            });
            return block == request.block && segments.eq(data.iter().copied());
        }
        if request.operation.is_flush() {
            return data.is_empty();
        }
        let [(range, 16, false)] = data else { return false };
        let range: Option<[u8; 16]> = self.own(range.wrapping_sub(OWN));
        range.is_some_and(|range| {
            range[..8] == request.block.to_le_bytes() && range[8..12] == request.blocks.to_le_bytes()
        })
    }

    /// Puts an entry into the used ring.
    fn put_used(&self, number: u32, length: u32, interrupts: bool) {
        let (size, [.., ring]) = (self.state.size.get(), self.state.rings.get());
        if size == 0 {
            return;
        }
        let used = self.state.used.get();
        let element = [number, length].map(u32::to_le_bytes);
        self.write(ring.wrapping_add(4 + 8 * u64::from(u32::from(used) % size)), element.as_flattened());
        self.state.used.set(used.wrapping_add(1));
        self.write(ring.wrapping_add(2), &used.wrapping_add(1).to_le_bytes());
        self.state.causes.set(self.state.causes.get() | u32::from(interrupts));
    }

    /// The device ends one of the requests that it holds, as the input says.
    fn end(&mut self, input: &mut Input<'_>) {
        self.take();
        if self.held.is_empty() {
            return;
        }
        let index = usize::from(input.byte()) % self.held.len();
        let Some(taken) = self.held.remove(index) else { return };
        let how = input.byte();
        let status = match how & 3 {
            0 | 1 => Some(STATUS_OK),
            2 => Some(input.byte()),
            _ => None,
        };
        let length = if how & 4 == 0 { taken.writable } else { input.number() };
        if let Some(status) = status {
            self.write(taken.status, &[status]);
            if status == STATUS_OK {
                self.good.extend(self.asking.get(&taken.status).into_iter().flatten());
            }
        }
        self.put_used(taken.number.into(), length, how & 8 == 0);
    }

    /// The device ends everything as it should.
    fn serve(&mut self) {
        self.take();
        while let Some(taken) = self.held.pop_front() {
            self.write(taken.status, &[STATUS_OK]);
            self.good.extend(self.asking.get(&taken.status).into_iter().flatten());
            self.put_used(taken.number.into(), taken.writable, true);
        }
    }

    /// Ends all that was wrong. The device begins anew, and so does the driver if the device has
    /// written over its notes, or has been another one.
    fn mend(&mut self) {
        let state = &self.state;
        state.lie.set(None);
        state.is_stuck.set(false);
        state.accepts_features.set(true);
        state.changes_for_ever.set(false);
        *state.configuration.borrow_mut() = configuration(DISK, 512);
        state.status.set(state.status.get() | Status::ZERO.set(Status::NEEDS_RESET).bits());
        state.causes.set(3);
        if self.block.is_none() || !self.is_strict || self.has_lied {
            self.restart();
        }
    }
}

/// The bytes of §5.2.4 for a disk of so many blocks.
fn configuration(blocks: u64, block_size: u32) -> [u8; 64] {
    let mut bytes = [0; 64];
    bytes[..8].copy_from_slice(&blocks.to_le_bytes());
    for (at, value) in [(12, 126), (20, block_size), (36, 64), (40, 1), (48, 32), (52, 1)] {
        bytes[at..at + 4].copy_from_slice(&u32::to_le_bytes(value));
    }
    bytes[56] = 1;
    bytes
}

fn request(input: &mut Input<'_>) -> Option<Request> {
    let block = u64::from(input.byte());
    let mut segment = || {
        let first = u64::from(input.byte()) % MEMORY;
        Segment { place: DATA / BLOCK as u64 + first, blocks: (1 + (first as u32 >> 3)).min((MEMORY - first) as u32) }
    };
    let segments = [segment(), segment()];
    let how = input.byte();
    let segments = &segments[usize::from(how >> 7)..];
    Some(match how % 7 {
        0..=2 => Request::read(block, segments)?,
        3 | 4 => Request::write(block, segments)?,
        5 if how & 8 == 0 => Request::discard(block, 1 + u32::from(how >> 4)),
        5 => Request::write_zeroes(block, 1 + u32::from(how >> 4), how & 16 == 0),
        _ => Request::flush(),
    })
}

fuzz_target!(|bytes: &[u8]| {
    testing::forget();
    let mut input = Input::new(bytes);
    let mut world = World::new(input.byte());
    world.run();
    while !input.is_over() {
        let state = world.state.clone();
        match input.byte() % 16 {
            0..3 => {
                if let Some(request) = request(&mut input) {
                    world.asker.send(&request);
                }
            }
            3..6 => world.end(&mut input),
            6 => world.put_used(input.number() >> 8 * (input.byte() % 4), input.number(), true),
            7 => {
                let [.., ring] = state.rings.get();
                let index = if input.byte() & 1 == 0 { state.used.get() } else { input.number() as u16 };
                if state.size.get() > 0 {
                    state.used.set(index);
                    world.write(ring.wrapping_add(2), &index.to_le_bytes());
                }
                state.causes.set(state.causes.get() | 1);
            }
            8 => {
                // Anywhere in the memory that it shares with the driver.
                world.is_strict = false;
                let offset = u64::from(input.number()) % OWN_SIZE as u64;
                let count = 1 + usize::from(input.byte() % 8);
                world.write(offset, input.bytes(count));
            }
            9 => {
                let (blocks, size) = (u64::from(input.number()), u32::from(input.byte()) << (input.byte() % 17));
                let size = if size & 1 == 0 { 512 } else { size };
                *state.configuration.borrow_mut() = configuration(blocks >> (input.byte() % 32), size);
                state.changes_for_ever.set(input.byte() == 0);
                state.generation.set(state.generation.get() + 1);
                state.causes.set(state.causes.get() | 2);
            }
            10 => {
                let (at, value) = (usize::from(input.byte()) * 4 % 0x140, input.number());
                state.lie.set((at != 0).then_some((at, value)));
                world.has_lied = true;
            }
            11 => {
                state.status.set(state.status.get() | Status::ZERO.set(Status::NEEDS_RESET).bits());
                state.causes.set(state.causes.get() | 2);
            }
            12 => {
                let byte = input.byte();
                state.is_stuck.set(byte & 3 == 3);
                state.accepts_features.set(byte & 12 != 12);
            }
            13 => world.restart(),
            14 => {
                testing::set_time(time::now() + Duration::from_millis(u64::from(input.byte()) * 200));
                world.run();
            }
            _ => state.causes.set(input.byte().into()),
        }
        world.turn();
    }
    world.mend();
    for _ in 0..40 {
        testing::set_time(time::now() + Duration::from_secs(2));
        (0..8).for_each(|_| {
            world.turn();
            world.serve();
        });
    }
    world.asker.ask_at_the_end(DISK);
    for _ in 0..8 {
        world.turn();
        world.serve();
    }
    world.asker.is_answered();
    let _ = testing::take_log();
});
