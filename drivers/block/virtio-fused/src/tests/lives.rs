//! The domain dies and goes on, between a fake device and clients: what a life has answered, the
//! next one has not forgotten.

use block_virt::{Tag, Virtualiser};
use block_virtio::Engine;
use block_virtio::registers::*;
use culm::Region;
use culm::connection::{BlockClient, BlockVirtualiser, BlockVirtualiserClient};
use culm::testing::{channels, memory, set_start_block, signalled};
use culm_abi::start::{MAGIC, Span, StartHeader};
use culm_block::testing::{ring, segment};
use culm_block::{BLOCK, Client, Completion, Error, Request};
use culm_virtio::registers::{Causes, FEATURE_VERSION_1, Kind};
use culm_virtio::testing::{DMA, Fake};

/// Blocks of the disk, which is one partition but for the first of them.
const BLOCKS: u64 = 64;

/// Where the device sees the memory for the partition table.
const TABLE: u64 = 0x4000_0000;

/// The channel that each client has to the domain.
const DOMAIN: u32 = 62;

/// The device, the domain, and two clients: one has the first partition, the other the disk.
struct World {
    own: Region,
    fake: Fake,
    /// The types of the requests that the device has got.
    got: Vec<u32>,
    fails_flushes: bool,
    connection: BlockVirtualiser,
    shares: [BlockVirtualiserClient; 2],
    virtualiser: Virtualiser<Engine<Fake, Tag>>,
    clients: [Client<u64>; 2],
}

impl World {
    fn new() -> Self {
        let own = culm_virtio::testing::memory(16 * 1024);
        let fake = Fake::new(Kind::BLOCK, 1, own);
        fake.0.features.set(FEATURE_VERSION_1 | FEATURE_FLUSH);
        *fake.0.configuration.borrow_mut() = [&BLOCKS.to_le_bytes()[..], &[0; 56]].concat();
        let connection = BlockVirtualiser {
            requests: ring(16),
            answers: ring(16),
            table: memory(128 * BLOCK, TABLE),
            account: memory(8, 0),
            clients: Span::default(),
            channel: 0,
        };
        let partition = set_text(b"1");
        let shares = [(1, partition), (2, Span::default())].map(|(channel, partition)| BlockVirtualiserClient {
            requests: ring(64),
            answers: ring(64),
            data: memory(4 * BLOCK, TABLE + u64::from(channel) * 0x10_0000),
            first: 0,
            blocks: 0,
            partition,
            name: Span::default(),
            channel,
            read_only: 0,
        });
        let virtualiser = Self::life(&fake, own, &connection, &shares);
        let clients = shares.map(|BlockVirtualiserClient { requests, answers, data, .. }| {
            Client::connect(&BlockClient { requests, answers, data, channel: DOMAIN })
        });
        let mut world =
            Self { own, fake, got: Vec::new(), fails_flushes: false, connection, shares, virtualiser, clients };
        world.run();
        world
    }

    /// A life of the domain's, which begins as its `init` does.
    fn life(
        fake: &Fake,
        own: Region,
        connection: &BlockVirtualiser,
        shares: &[BlockVirtualiserClient],
    ) -> Virtualiser<Engine<Fake, Tag>> {
        let engine = Engine::new(fake.clone(), own).expect("a device that works");
        Virtualiser::with_driver(engine, connection, shares)
    }

    fn restart(&mut self) {
        self.virtualiser = Self::life(&self.fake, self.own, &self.connection, &self.shares);
    }

    /// The clients' turns, then the domain's; returns what is complete, and whose it is.
    fn round(&mut self) -> Vec<(usize, Completion<u64>)> {
        let mut complete = Vec::new();
        for (number, client) in self.clients.iter_mut().enumerate() {
            client.begin();
            complete.extend(core::iter::from_fn(|| client.next_completion()).map(|complete| (number, complete)));
            let _ = client.end_round();
            if signalled().contains(&DOMAIN) {
                self.virtualiser.mark_due(channels(&[self.shares[number].channel]));
            }
        }
        if self.fake.0.causes.get() != Causes::ZERO {
            self.virtualiser.driver().interrupted();
        }
        culm::run_rounds(8, || self.virtualiser.round());
        complete
    }

    /// Lets all take rounds, the device too.
    fn run(&mut self) -> Vec<(usize, Completion<u64>)> {
        let mut complete = Vec::new();
        for _ in 0..20 {
            complete.extend(self.round());
            self.serve();
        }
        complete
    }

    /// The device does what it was given (VIRTIO 1.2 §5.2.6). It keeps nothing: what is read is a
    /// partition table.
    fn serve(&mut self) {
        for given in self.fake.0.take(QUEUE) {
            let [head, data @ .., status] = &given.parts[..] else { panic!("{given:?}") };
            let [kind, block]: [u64; 2] = self.own.load((head.address - DMA) as usize).expect("a header");
            let kind = kind as u32;
            self.got.push(kind);
            let has_failed = self.fails_flushes && kind == TYPE_FLUSH;
            if let (TYPE_READ, 0, [part]) = (kind, block, data) {
                let at = (part.address - TABLE) as usize;
                Region::new(self.connection.table).write(at, &table()).expect("the read is of a block or more");
            }
            let result = if has_failed { STATUS_FAILED } else { STATUS_OK };
            self.own.write((status.address - DMA) as usize, &[result]).expect("a status");
            let written = if kind == TYPE_READ { data.iter().map(|part| part.length).sum() } else { 0 };
            self.fake.0.use_raw(QUEUE, given.number.into(), written + 1);
        }
    }

    /// Sends a request of a client's, and returns what becomes of it.
    fn ask(&mut self, number: usize, request: &Request) -> Result<(), Error> {
        self.clients[number].send(request, 9).expect("the disk takes it");
        let complete = self.run();
        let [(found, Completion { tag: 9, result })] = complete[..] else { panic!("one answer: {complete:?}") };
        assert_eq!(found, number);
        result
    }

    /// Returns how many requests of this type the device has got.
    fn count(&self, kind: u32) -> usize {
        self.got.iter().filter(|got| **got == kind).count()
    }
}

/// Sets a start block whose only content is this text; returns where that is.
fn set_text(text: &[u8]) -> Span {
    let header = size_of::<StartHeader>();
    let size = header + text.len();
    let mut block = vec![0; size];
    block[..8].copy_from_slice(&MAGIC.to_le_bytes());
    block[8..12].copy_from_slice(&culm_abi::VERSION.to_le_bytes());
    block[12..16].copy_from_slice(&(size as u32).to_le_bytes());
    block[header..].copy_from_slice(text);
    set_start_block(&block);
    Span { offset: header as u32, count: text.len() as u32 }
}

/// An MBR with the one partition.
fn table() -> [u8; BLOCK] {
    let mut block = [0; BLOCK];
    block[446 + 4] = 0x83;
    block[446 + 8..][..4].copy_from_slice(&1_u32.to_le_bytes());
    block[446 + 12..][..4].copy_from_slice(&(BLOCKS as u32 - 1).to_le_bytes());
    block[510..].copy_from_slice(&[0x55, 0xaa]);
    block
}

fn write() -> Request {
    Request::write(0, &[segment(0, 1)]).expect("one segment")
}

#[test]
fn the_next_life_flushes_what_the_one_before_has_written() {
    let mut world = World::new();
    for number in 0..2 {
        assert_eq!(world.ask(number, &write()), Ok(()));
        world.restart();
        let before = world.count(TYPE_FLUSH);
        assert_eq!(world.ask(number, &Request::flush()), Ok(()));
        assert_eq!(world.count(TYPE_FLUSH), before + 1, "client {number}: the device must be asked");
    }
}

#[test]
fn the_next_life_tells_of_a_flush_that_failed() {
    let mut world = World::new();
    assert_eq!((world.ask(0, &write()), world.ask(1, &write())), (Ok(()), Ok(())));
    world.fails_flushes = true;
    assert_eq!(world.ask(0, &Request::flush()), Err(Error::Failed));
    world.fails_flushes = false;
    world.restart();
    assert_eq!(world.ask(1, &Request::flush()), Err(Error::Failed), "its write may be lost");
    assert_eq!(world.ask(1, &Request::flush()), Ok(()), "it has been told");
}

/// The partition table takes some round trips to the device, in which the clients are there again.
#[test]
fn no_request_ends_while_the_next_life_reads_the_partition_table() {
    let mut world = World::new();
    let media = world.clients.each_ref().map(Client::changes);
    for client in &mut world.clients {
        client.send(&write(), 3).expect("the disk takes it");
    }
    world.round();
    world.restart();
    // The device is slow.
    for _ in 0..8 {
        assert!(world.round().is_empty());
    }
    let mut complete = world.run();
    complete.sort_by_key(|(number, _)| *number);
    assert_eq!(complete, [0, 1].map(|number| (number, Completion { tag: 3, result: Ok(()) })));
    assert_eq!(world.clients.each_ref().map(Client::changes), media, "the medium is the one that it was");
}
