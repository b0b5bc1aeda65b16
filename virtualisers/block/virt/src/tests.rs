//! Clients, honest and hostile, that share a disk.

mod flushes;
mod hostile;
mod media;
mod sharing;

use crate::Virtualiser;
use crate::turns::WINDOW;
use culm::Region;
use culm::connection::{BlockClient, BlockVirtualiser, BlockVirtualiserClient};
use culm::testing::{self, channels, memory, set_start_block, set_time, signalled};
use culm::time::{self, Duration};
use culm_abi::start::{MAGIC, Span, StartHeader};
use culm_block::testing::{RamDisk, ring, segment};
use culm_block::{BLOCK, Client, Completion, Disk, Error, MAX_BLOCKS, MAX_DISK, Operation, Port, Request};
use culm_queue::crash;
use proptest::prelude::*;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::vec;
use std::vec::Vec;

const CAPACITY: u32 = 64;
const MEMORY: u64 = 64;

/// The share of a test's client: the partition by its number (0 for the disk), the first block, the
/// count of blocks, and whether it may not write.
type Share = (u8, u64, u64, bool);

/// The channel that each client has to the virtualiser.
const CLIENT_CHANNEL: u32 = 62;

/// The whole disk.
const ALL: Share = (0, 0, 0, false);

/// A virtualiser with its clients and a disk.
struct World {
    connection: BlockVirtualiser,
    shares: Vec<BlockVirtualiserClient>,
    virtualiser: Virtualiser,
    clients: Vec<Client<u64>>,
    data: Vec<Region>,
    disk: RamDisk,
    memory: Vec<(u64, Region)>,
}

fn dma(number: usize) -> u64 {
    0x4000_0000 + number as u64 * 0x100_0000
}

impl World {
    fn new(shares: &[Share], disk: Disk) -> Self {
        Self::with_memory(shares, disk, MEMORY)
    }

    /// Each client has a data region of so many blocks.
    fn with_memory(shares: &[Share], disk: Disk, blocks_of_memory: u64) -> Self {
        let connection: BlockVirtualiser = BlockVirtualiser {
            requests: ring(CAPACITY),
            answers: ring(CAPACITY),
            table: memory(128 * BLOCK, dma(31)),
            account: memory(8, 0),
            clients: Span::default(),
            channel: 0,
        };
        // A start block whose only content are the texts of partitions and the clients' names.
        let texts: Vec<u8> = (b'1'..=b'9').chain(b'A'..=b'}').collect();
        let header = size_of::<StartHeader>() as u32;
        set_start_block(&start_block(&texts));
        let shares: Vec<BlockVirtualiserClient> = (1..)
            .zip(shares)
            .map(|(number, (partition, first, blocks, read_only))| BlockVirtualiserClient {
                requests: ring(CAPACITY),
                answers: ring(CAPACITY),
                data: memory(blocks_of_memory as usize * BLOCK, dma(number)),
                first: *first,
                blocks: *blocks,
                partition: match partition {
                    0 => Span::default(),
                    number => Span { offset: header + u32::from(*number) - 1, count: 1 },
                },
                name: Span { offset: header + 8 + number as u32, count: 1 },
                channel: number as u32,
                read_only: u32::from(*read_only),
            })
            .collect();
        let mut memory: Vec<(u64, Region)> =
            shares.iter().map(|share| (share.data.dma / BLOCK as u64, Region::new(share.data))).collect();
        memory.push((connection.table.dma / BLOCK as u64, Region::new(connection.table)));
        let disk = RamDisk::with_port(Self::port(&connection), disk, memory.clone());
        let virtualiser = Virtualiser::new(&connection, &shares);
        let clients = shares.iter().map(|share| Client::connect(&Self::client(share))).collect();
        let data = shares.iter().map(|share| Region::new(share.data)).collect();
        Self { connection, shares, virtualiser, clients, data, disk, memory }
    }

    fn port(connection: &BlockVirtualiser) -> Port {
        Port::new(connection.requests, connection.answers, 63, MAX_DISK)
    }

    fn client(share: &BlockVirtualiserClient) -> BlockClient {
        BlockClient { requests: share.requests, answers: share.answers, data: share.data, channel: CLIENT_CHANNEL }
    }

    fn round(&mut self) -> Vec<(usize, Completion<u64>)> {
        let mut complete = Vec::new();
        for (number, client) in self.clients.iter_mut().enumerate() {
            client.begin();
            complete.extend(core::iter::from_fn(|| client.next_completion()).map(|complete| (number, complete)));
            let _ = client.end_round();
            if signalled().contains(&CLIENT_CHANNEL) {
                self.virtualiser.mark_due(channels(&[self.shares[number].channel]));
            }
        }
        let _ = self.virtualiser.round();
        complete
    }

    /// Lets a client that is no library's have its turn: the virtualiser is notified.
    fn notify(&mut self, number: usize) {
        self.virtualiser.mark_due(channels(&[self.shares[number].channel]));
        let _ = self.virtualiser.round();
    }

    /// Lets all take rounds; returns what is complete.
    fn run(&mut self) -> Vec<(usize, Completion<u64>)> {
        let mut complete = Vec::new();
        for _ in 0..40 {
            complete.extend(self.round());
            let _ = self.disk.round();
        }
        assert!(self.virtualiser.round().is_asleep(), "it does not turn around for nothing");
        complete
    }

    /// Sends a request of a client, and returns what becomes of it.
    fn ask(&mut self, number: usize, request: &Request) -> Result<(), Error> {
        self.clients[number].send(request, 9).expect("the disk takes it");
        let complete = self.run();
        let [(found, Completion { tag: 9, result })] = complete[..] else { panic!("one answer: {complete:?}") };
        assert_eq!(found, number);
        result
    }

    /// The virtualiser's next life.
    fn restart(&mut self) {
        self.virtualiser = Virtualiser::new(&self.connection, &self.shares);
    }
}

/// A start block without anything but these texts behind its header.
fn start_block(texts: &[u8]) -> Vec<u8> {
    let size = size_of::<StartHeader>() + texts.len();
    let mut block = vec![0; size];
    block[..8].copy_from_slice(&MAGIC.to_le_bytes());
    block[8..12].copy_from_slice(&culm_abi::VERSION.to_le_bytes());
    block[12..16].copy_from_slice(&(size as u32).to_le_bytes());
    block[size_of::<StartHeader>()..].copy_from_slice(texts);
    block
}

fn write(block: u64, place: u64, blocks: u32) -> Request {
    Request::write(block, &[segment(place, blocks)]).expect("one segment")
}

fn read(block: u64, place: u64, blocks: u32) -> Request {
    Request::read(block, &[segment(place, blocks)]).expect("one segment")
}

/// Writes an MBR with these partitions to a disk: first block and count of blocks.
fn partition(disk: &mut RamDisk, parts: &[(u32, u32)]) {
    for (number, (first, blocks)) in parts.iter().enumerate() {
        let entry = &mut disk.content[446 + 16 * number..][..16];
        entry[4] = 0x83;
        entry[8..12].copy_from_slice(&first.to_le_bytes());
        entry[12..].copy_from_slice(&blocks.to_le_bytes());
    }
    disk.content[510..512].copy_from_slice(&[0x55, 0xaa]);
}

#[test]
fn each_client_has_its_part() {
    let shares = [ALL, (1, 0, 0, false), (2, 5, 10, true), (3, 0, 0, false), (1, 90, 20, false)];
    let mut world = World::new(&shares, Disk::new(400, 7));
    partition(&mut world.disk, &[(100, 100), (200, 50), (390, 20)]);
    world.run();
    let blocks: Vec<u64> = world.clients.iter().map(|client| client.disk().expect("it is known").blocks).collect();
    assert_eq!(blocks, [400, 100, 10, 0, 0], "the third partition and the last range reach outside");
    assert!(!world.clients[3].disk().expect("it is known").is_present());
    assert!(world.clients[2].disk().expect("it is known").read_only);
    world.data[1].write(0, &[0xbb; 2 * BLOCK]).expect("inside");
    assert_eq!(world.ask(1, &write(98, 0, 2)), Ok(()));
    assert!(world.disk.content[198 * BLOCK..200 * BLOCK].iter().all(|byte| *byte == 0xbb));
    assert_eq!(world.disk.content.iter().filter(|byte| **byte == 0xbb).count(), 2 * BLOCK);
    assert_eq!(world.ask(0, &read(199, 3, 1)), Ok(()));
    let mut bytes = [0; BLOCK];
    world.data[0].read(3 * BLOCK, &mut bytes).expect("inside");
    assert_eq!(bytes, [0xbb; BLOCK]);
    assert_eq!(world.ask(2, &read(9, 0, 1)), Ok(()));
}

proptest! {
    /// Whatever requests two clients send, each changes and sees its own part only.
    #[test]
    fn parts_are_apart(requests in proptest::collection::vec((0..2_usize, 0..110_u64, 1..20_u32, any::<bool>()), 1..60)) {
        let mut world = World::new(&[(1, 0, 0, false), (2, 10, 30, false)], Disk::new(400, 7));
        partition(&mut world.disk, &[(100, 100), (200, 50)]);
        for (block, bytes) in world.disk.content.chunks_mut(BLOCK).enumerate().skip(1) {
            bytes.fill(if (100..200).contains(&block) { 1 } else if (210..240).contains(&block) { 2 } else { 3 });
        }
        world.run();
        for number in 0..2 {
            let bytes = vec![1 + number as u8; 20 * BLOCK];
            world.data[number].write(0, &bytes).expect("inside");
        }
        for (number, block, blocks, writes) in requests {
            let request = if writes { write(block, 0, blocks) } else { read(block, 20, blocks) };
            let fits = block + u64::from(blocks) <= [100, 30][number];
            prop_assert_eq!(world.clients[number].send(&request, 0).is_ok(), fits);
            world.run();
            let mut bytes = vec![0; 20 * BLOCK];
            world.data[number].read(20 * BLOCK, &mut bytes).expect("inside");
            prop_assert!(bytes.iter().all(|byte| *byte == 0 || *byte == 1 + number as u8));
        }
        for (block, bytes) in world.disk.content.chunks(BLOCK).enumerate().skip(1) {
            let expected = if (100..200).contains(&block) { 1 } else if (210..240).contains(&block) { 2 } else { 3 };
            prop_assert!(bytes.iter().all(|byte| *byte == expected), "block {}", block);
        }
    }
}

/// The life of the virtualiser, of the driver or of both ends before each of their stores, while
/// two clients write and read back. Returns how many ended.
fn die(steps: u32, again: Option<u32>, is_driver: bool) -> usize {
    const BLOCKS: u64 = 10;
    let mut world = World::new(&[(1, 0, 0, false), (2, 0, 0, false)], Disk::new(100, 7));
    partition(&mut world.disk, &[(10, 20), (30, 20)]);
    for (number, data) in world.data.iter().enumerate() {
        for block in 0..BLOCKS {
            data.write(block as usize * BLOCK, &[1 + number as u8 * 100 + block as u8; BLOCK]).expect("inside");
        }
    }
    let (mut ends, mut ended) = ([Some(steps), again].into_iter().flatten(), 0);
    let mut left = ends.next();
    let (mut sent, mut complete) = ([0_u64; 2], [0_u64; 2]);
    for _ in 0..300 {
        for (number, client) in world.clients.iter_mut().enumerate() {
            client.begin();
            while let Some(completion) = client.next_completion() {
                assert_eq!(completion.result, Ok(()));
                complete[number] += 1;
            }
            let allowed = if complete[number] < BLOCKS { BLOCKS } else { 2 * BLOCKS };
            while sent[number] < allowed && client.disk().is_some() {
                let block = sent[number] % BLOCKS;
                let request =
                    if sent[number] < BLOCKS { write(block, block, 1) } else { read(block, BLOCKS + block, 1) };
                client.send(&request, block).expect("there is space");
                sent[number] += 1;
            }
            let _ = client.end_round();
            if signalled().contains(&CLIENT_CHANNEL) {
                world.virtualiser.mark_due(channels(&[number as u32 + 1]));
            }
        }
        if let Some(steps) = left {
            crash::die_after(steps);
        }
        let mortal = || if is_driver { world.disk.round() } else { world.virtualiser.round() };
        let died = catch_unwind(AssertUnwindSafe(mortal)).is_err();
        left = crash::disarm();
        if died {
            (left, ended) = (ends.next(), ended + 1);
            if is_driver {
                let port = World::port(&world.connection);
                let fresh = RamDisk::with_port(World::port(&world.connection), Disk::new(1, 1), world.memory.clone());
                world.disk = core::mem::replace(&mut world.disk, fresh).restarted(port);
            } else {
                world.restart();
            }
        }
        let _ = if is_driver { world.virtualiser.round() } else { world.disk.round() };
        if complete == [2 * BLOCKS; 2] {
            for (number, data) in world.data.iter().enumerate() {
                for block in 0..BLOCKS {
                    let mut bytes = [0; BLOCK];
                    data.read((BLOCKS + block) as usize * BLOCK, &mut bytes).expect("inside");
                    assert_eq!(bytes, [1 + number as u8 * 100 + block as u8; BLOCK]);
                }
            }
            return ended;
        }
    }
    panic!("requests are lost: {complete:?} of {sent:?}, after {steps} and {again:?} steps");
}

/// Tests that requests of all clients are answered once, with what was written, wherever a life
/// ends.
#[test]
fn a_restart_at_any_store_loses_nothing() {
    for is_driver in [false, true] {
        for again in [None, Some(0), Some(7)] {
            let deaths = (0..).take_while(|steps| die(*steps, again, is_driver) > 0).count();
            assert!(deaths > 30, "{deaths} places to die");
        }
    }
}

/// Tests that what the previous life of the virtualiser sent ends before its next life sends
/// anything.
#[test]
fn what_a_previous_life_sent_ends_first() {
    let mut world = World::new(&[ALL], Disk::new(100, 7));
    world.run();
    world.clients[0].send(&write(0, 0, 1), 1).expect("there is space");
    for _ in 0..3 {
        world.round();
    }
    world.disk.take();
    assert_eq!(world.disk.taken.len(), 1);
    world.restart();
    for _ in 0..10 {
        assert!(world.round().is_empty());
        world.disk.take();
        assert!(world.disk.end_round().is_asleep());
        assert_eq!(world.disk.taken.len(), 1, "the request that is sent again waits");
    }
    let complete = world.run();
    assert!(matches!(complete[..], [(0, Completion { tag: 1, result: Ok(()) })]), "{complete:?}");
    assert_eq!(world.disk.results.len(), 2);
}

/// Fills the driver's queue and has a request of client 0 wait in the virtualiser.
fn crowd() -> World {
    let mut world = World::with_memory(&[(1, 0, 0, false), ALL], Disk::new(5000, 7), MAX_BLOCKS.into());
    partition(&mut world.disk, &[(1, 4900)]);
    world.run();
    for tag in 0..6 {
        world.clients[0].send(&write(2048 + tag, 0, MAX_BLOCKS), tag).expect("there is space");
    }
    for _ in 0..3 {
        world.round();
    }
    world.disk.take();
    assert_eq!(world.disk.taken.len(), 2, "the window is full");
    world
}

/// Tests that a client that is restarted while a request of it waits in the virtualiser is served
/// again, and that this request of its previous life never reaches the disk.
#[test]
fn a_client_may_be_restarted_while_it_waits() {
    let mut world = crowd();
    world.clients[0] = Client::connect(&World::client(&world.shares[0]));
    for _ in 0..10 {
        assert!(world.round().is_empty());
    }
    assert!(world.clients[0].disk().is_none(), "what is under way ends first");
    world.run();
    assert_eq!(world.disk.results.len(), 3, "the table was read, and nothing else of the previous life was done");
    assert_eq!(world.ask(0, &read(0, 0, 1)), Ok(()));
}
