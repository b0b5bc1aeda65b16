//! A disk behind the fake device, and a client that asks it by way of the driver.

use crate::block::Block;
use crate::registers::*;
use culm::Region;
use culm::connection::BlockDriver;
use culm_block::testing::ring;
use culm_block::{
    Answer, AnswerEntry, BLOCK, Client, Completion, Disk, Error, MAX_DISK, Request, RequestEntry, Segment,
};
use culm_virtio::Interface;
use culm_virtio::registers::*;
use culm_virtio::testing::{DMA, Fake, Given, State, memory};
use culm_virtio::virtqueue::Access;
use std::collections::VecDeque;
use std::rc::Rc;
use std::vec;
use std::vec::Vec;

/// Blocks of the disk.
pub const BLOCKS: u64 = 64;

/// Blocks of the client's memory.
const MEMORY: u64 = 64;

/// Where the device sees the client's memory.
const DATA: u64 = 0x4000_0000;

/// The features that a device of these tests offers.
pub const FEATURES: u64 = FEATURE_TABLES
    | FEATURE_VERSION_1
    | FEATURE_EVENT_INDEX
    | FEATURE_SEGMENTS
    | FEATURE_FLUSH
    | FEATURE_DISCARD
    | FEATURE_WRITE_ZEROES;

/// The same, and without what changes how the queue is used.
pub fn kinds() -> Vec<u64> {
    let without = |features: u64| FEATURES & !features;
    vec![FEATURES, without(FEATURE_EVENT_INDEX), without(FEATURE_TABLES), without(FEATURE_EVENT_INDEX | FEATURE_TABLES)]
}

/// The device's configuration.
#[derive(Clone, Copy, Debug)]
pub struct Config {
    pub capacity: u64,
    pub segment_size: u32,
    pub segments: u32,
    pub block_size: u32,
    pub discarded: u32,
    pub zeroed: u32,
    /// Ranges of a request that discards or zeroes.
    pub ranges: u32,
    pub zeroes_may_discard: bool,
}

impl Default for Config {
    fn default() -> Self {
        Self {
            capacity: BLOCKS,
            segment_size: 0,
            segments: 126,
            block_size: 512,
            discarded: 64,
            zeroed: 100,
            ranges: 1,
            zeroes_may_discard: true,
        }
    }
}

impl Config {
    /// The bytes of §5.2.4.
    fn bytes(&self) -> Vec<u8> {
        let mut bytes = vec![0; SIZE - CONFIGURATION];
        let mut put = |at: usize, value: &[u8]| bytes[at..at + value.len()].copy_from_slice(value);
        put(0, &self.capacity.to_le_bytes());
        let words = [
            (8, self.segment_size),
            (12, self.segments),
            (20, self.block_size),
            (36, self.discarded),
            (40, self.ranges),
            (48, self.zeroed),
            (52, self.ranges),
        ];
        words.iter().for_each(|(at, value)| put(*at, &value.to_le_bytes()));
        put(56, &[self.zeroes_may_discard.into()]);
        bytes
    }
}

/// A fake device with this configuration, and its memory.
pub fn fake(config: Config) -> (Fake, Region) {
    let memory = memory(16 * 1024);
    let fake = Fake::new(Kind::BLOCK, 1, memory);
    fake.0.features.set(FEATURES);
    *fake.0.configuration.borrow_mut() = config.bytes();
    (fake, memory)
}

/// The queues between driver and virtualiser.
pub fn connection() -> BlockDriver {
    BlockDriver { requests: ring(64), answers: ring(64), channel: World::VIRTUALISER }
}

/// The number of a block of the client's memory, for the device.
pub fn place(block: u64) -> u64 {
    DATA / BLOCK as u64 + block
}

/// Blocks of the client's memory.
pub fn segment(block: u64, blocks: u32) -> Segment {
    Segment { place: place(block), blocks }
}

/// A chain that the driver gave, as the device understands it.
#[derive(Debug)]
pub struct Chain {
    pub kind: u32,
    pub block: u64,
    /// Places and lengths of the data.
    pub data: Vec<Segment>,
    pub range: Option<[u64; 2]>,
    /// Where the status lies.
    status: u64,
    /// Bytes that the device may write.
    writable: u32,
}

/// The disk in the device.
pub struct Device {
    pub content: Vec<u8>,
    capacity: u64,
    /// The status that each request gets, whatever it asks for.
    pub status: Option<u8>,
    /// Chains that were taken and not carried out.
    pub held: VecDeque<Given>,
    own: Region,
    data: Region,
}

impl Device {
    /// A disk of zeroes.
    pub fn new(config: Config, own: Region) -> Self {
        let data = Region::new(culm::testing::memory(MEMORY as usize * BLOCK, DATA));
        let content = vec![0; BLOCKS as usize * BLOCK];
        Self { content, capacity: config.capacity, status: None, held: VecDeque::new(), own, data }
    }

    /// A block of the client's memory.
    pub fn memory(&self, block: u64) -> [u8; BLOCK] {
        let mut bytes = [0; BLOCK];
        self.data.read(block as usize * BLOCK, &mut bytes).expect("inside");
        bytes
    }

    /// Fills a block of the client's memory with `byte`.
    pub fn fill(&self, block: u64, byte: u8) {
        self.data.write(block as usize * BLOCK, &[byte; BLOCK]).expect("inside");
    }

    /// Changes the configuration.
    pub fn configure(&mut self, state: &State, config: Config) {
        self.capacity = config.capacity;
        *state.configuration.borrow_mut() = config.bytes();
    }

    /// A block's content.
    pub fn block(&self, block: u64) -> &[u8] {
        &self.content[block as usize * BLOCK..][..BLOCK]
    }

    fn words(&self, address: u64) -> [u64; 2] {
        self.own.load((address - DMA) as usize).expect("inside the driver's memory")
    }

    /// Understands a chain, which is as §5.2.6 says.
    ///
    /// # Panics
    ///
    /// If it is not.
    pub fn chain(&self, given: &Given) -> Chain {
        let (head, rest) = given.parts.split_first().expect("a header");
        let (status, data) = rest.split_last().expect("a status");
        assert_eq!((head.length, head.access), (16, Access::Read));
        assert_eq!((status.length, status.access), (1, Access::Write));
        let [kind, block] = self.words(head.address);
        let kind = kind as u32;
        let writable = given.parts.iter().filter(|part| part.access == Access::Write).map(|part| part.length).sum();
        let mut chain = Chain { kind, block, data: Vec::new(), range: None, status: status.address, writable };
        match kind {
            TYPE_READ | TYPE_WRITE => {
                let access = if kind == TYPE_READ { Access::Write } else { Access::Read };
                for part in data {
                    assert_eq!((part.access, part.address % 512, part.length % 512), (access, 0, 0));
                    chain.data.push(Segment { place: part.address / 512, blocks: part.length / 512 });
                }
                assert!(!data.is_empty());
            }
            TYPE_FLUSH => assert_eq!((data.len(), block), (0, 0)),
            TYPE_DISCARD | TYPE_WRITE_ZEROES => {
                assert_eq!((data.len(), data[0].length, data[0].access, block), (1, 16, Access::Read, 0));
                chain.range = Some(self.words(data[0].address));
            }
            _ => panic!("type {kind}"),
        }
        chain
    }

    /// Says that a request was carried out, and does nothing. Returns how many bytes it says were
    /// written.
    pub fn pretend(&self, given: &Given) -> u32 {
        let chain = self.chain(given);
        self.own.write((chain.status - DMA) as usize, &[STATUS_OK]).expect("inside the driver's memory");
        chain.writable
    }

    /// Carries a request out. Returns how many bytes were written.
    pub fn carry_out(&mut self, given: &Given) -> u32 {
        let chain = self.chain(given);
        let blocks = match chain.range {
            Some([_, count]) => u64::from(count as u32),
            None => chain.data.iter().map(|segment| u64::from(segment.blocks)).sum(),
        };
        let first = chain.range.map_or(chain.block, |[first, _]| first);
        let status = self.status.unwrap_or(if first + blocks > self.capacity { STATUS_FAILED } else { STATUS_OK });
        if status == STATUS_OK {
            let content = &mut self.content[first as usize * BLOCK..][..blocks as usize * BLOCK];
            if chain.range.is_some() {
                content.fill(0);
            }
            let mut rest = content;
            for segment in &chain.data {
                let (bytes, behind) = rest.split_at_mut(segment.blocks as usize * BLOCK);
                rest = behind;
                let offset = (segment.place - place(0)) as usize * BLOCK;
                let moved = if chain.kind == TYPE_READ {
                    self.data.write(offset, bytes)
                } else {
                    self.data.read(offset, bytes)
                };
                moved.expect("inside the client's memory");
            }
        }
        self.own.write((chain.status - DMA) as usize, &[status]).expect("inside the driver's memory");
        chain.writable
    }
}

/// The driver, its device, and the virtualiser, which is a client like any other.
pub struct World<I = Fake> {
    pub connection: BlockDriver,
    pub state: Rc<State>,
    pub device: Device,
    pub block: Block<I>,
    pub client: Client<u64>,
    done: Vec<(u64, Result<(), Error>)>,
    /// How often the device had been reset when it last took something.
    resets: u32,
}

impl World {
    /// The channel from the virtualiser to the driver.
    pub const DRIVER: u32 = 2;
    /// The channel from the driver to the virtualiser.
    pub const VIRTUALISER: u32 = 1;

    pub fn new() -> Self {
        Self::with(Config::default(), FEATURES)
    }

    /// A device with this configuration that offers these features.
    pub fn with(config: Config, features: u64) -> Self {
        let (fake, memory) = fake(config);
        fake.0.features.set(features);
        Self::of(config, fake, memory)
    }

    /// The world of a fake device and its memory.
    pub fn of(config: Config, fake: Fake, memory: Region) -> Self {
        Self::over(fake.clone(), config, &fake, memory)
    }
}

impl<I: Interface> World<I> {
    /// The world of a fake device behind this interface, and its memory.
    pub fn over(interface: I, config: Config, fake: &Fake, memory: Region) -> Self {
        let (state, connection) = (fake.0.clone(), connection());
        let device = Device::new(config, memory);
        let block = Block::new(interface, memory, &connection).expect("a device that works");
        let client = Client::new(connection.requests, connection.answers, World::DRIVER, MAX_DISK);
        let mut world = Self { connection, state, device, block, client, done: Vec::new(), resets: 0 };
        world.run();
        world
    }

    pub fn disk(&self) -> Option<Disk> {
        self.client.disk().copied()
    }

    /// A turn of the driver's, with the interrupt if the device raises it.
    pub fn turn(&mut self) {
        if self.state.causes.get() != Causes::ZERO {
            self.block.interrupted(false);
        }
        for _ in 0..8 {
            if self.block.round().is_asleep() {
                return;
            }
        }
        panic!("the driver turns around for nothing");
    }

    /// Driver and client take turns until both know everything.
    pub fn run(&mut self) {
        for _ in 0..6 {
            self.client.begin();
            let done = core::iter::from_fn(|| self.client.next_completion());
            self.done.extend(done.map(|Completion { tag, result }| (tag, result)));
            let _ = self.client.end_round();
            self.turn();
        }
    }

    /// Takes the completions that no earlier call has returned.
    pub fn completions(&mut self) -> Vec<(u64, Result<(), Error>)> {
        core::mem::take(&mut self.done)
    }

    /// The device takes what it was given; returns what is new.
    pub fn take(&mut self) -> Vec<Given> {
        let resets = self.state.resets.get();
        if core::mem::replace(&mut self.resets, resets) != resets {
            // A reset ends what was taken before.
            self.device.held.clear();
        }
        let taken = self.state.take(QUEUE);
        self.device.held.extend(taken.iter().cloned());
        taken
    }

    /// The device takes what it was given, and carries out so many requests at most, the oldest
    /// first.
    pub fn serve(&mut self, count: usize) {
        self.take();
        for _ in 0..count.min(self.device.held.len()) {
            self.serve_one(0);
        }
    }

    /// The device carries out one of those that it has taken.
    pub fn serve_one(&mut self, index: usize) {
        let given = self.device.held.remove(index).expect("it has taken so many");
        let written = self.device.carry_out(&given);
        self.state.use_raw(QUEUE, given.number.into(), written);
    }

    /// The same, but it says that it has written so many bytes.
    pub fn serve_with(&mut self, index: usize, written: u32) {
        let given = self.device.held.remove(index).expect("it has taken so many");
        self.device.carry_out(&given);
        self.state.use_raw(QUEUE, given.number.into(), written);
    }

    /// The result of a request, which is the only one that ends meanwhile.
    pub fn ask(&mut self, request: &Request) -> Result<(), Error> {
        self.ask_as(request, 77)
    }

    /// The same with this tag.
    pub fn ask_as(&mut self, request: &Request, tag: u64) -> Result<(), Error> {
        self.client.send(request, tag).expect("the disk takes it");
        self.run();
        self.serve(usize::MAX);
        self.run();
        match self.completions().as_slice() {
            [(done, result)] if *done == tag => *result,
            other => panic!("{other:?}"),
        }
    }

    /// The memory that driver and device share.
    pub fn own(&self) -> Region {
        self.device.own
    }

    /// The answer to a request that the client's side does not check. The client is gone
    /// afterwards.
    pub fn send_raw(&mut self, request: &Request) -> Result<(), Error> {
        let BlockDriver { requests, answers, .. } = self.connection;
        let mut link = culm::Link::<RequestEntry, AnswerEntry>::new(requests, answers, World::DRIVER);
        let mut entries = [RequestEntry::default(); culm_block::MAX_SEGMENTS];
        let count = RequestEntry::write(request, 5, &mut entries);
        let mut is_sent = false;
        for _ in 0..8 {
            let _ = link.begin();
            while let Some(entry) = link.input.pop_known() {
                if let Some(Answer::Of { token, result }) = entry.read() {
                    assert_eq!(token, 5);
                    return result;
                }
            }
            if link.is_live() && !is_sent {
                is_sent = link.output.push_slice(&entries[..count]) == count;
            }
            link.publish();
            self.turn();
        }
        panic!("no answer to {request:?}");
    }

    /// Fills blocks of the client's memory with `byte`, one more in each.
    pub fn fill(&self, first: u64, blocks: u64, byte: u8) {
        (0..blocks).for_each(|index| self.device.fill(first + index, byte.wrapping_add(index as u8)));
    }

    /// A block of the client's memory.
    pub fn memory(&self, block: u64) -> [u8; BLOCK] {
        self.device.memory(block)
    }
}
