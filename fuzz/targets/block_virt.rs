//! The virtualiser of the block class between two clients and a driver, one of which is hostile.
//!
//! The hostile one writes anything anywhere in the queues that it shares, at any time between two
//! rounds, and a hostile driver into the memory for the partition table too. A hostile client
//! reaches its own blocks and its own memory only, and takes nothing from the other: that one's
//! blocks are what it wrote. A hostile driver has no request answered twice. In the end an honest
//! one takes the hostile one's place, and every request of an honest client is answered.

#![no_main]

#[path = "../common/peers.rs"]
#[allow(dead_code, reason = "entries of the net class are none of this one's")]
mod peers;

use block_virt::Virtualiser;
use culm::connection::{BlockClient, BlockVirtualiser, BlockVirtualiserClient};
use culm::testing::{channels, memory, set_start_block, set_time, signalled, take_log};
use culm::time::{self, Duration};
use culm::{Link, Region};
use culm_abi::start::{MAGIC, Span, StartHeader};
use culm_block::testing::{RamDisk, ring, segment};
use culm_block::{
    Answer, AnswerEntry, BLOCK, Client, Completion, Disk, MAX_DISK, MAX_SEGMENTS, Port, Request, RequestEntry,
};
use culm_partition::MAX_READ;
use libfuzzer_sys::fuzz_target;
use peers::{Input, clear, scribble};
use std::cell::OnceCell;

/// Blocks of a client's memory.
const MEMORY: u64 = 8;

/// Where the device sees the table's memory, and that of a client, in blocks.
const TABLE: u64 = 0x10_0000;

/// The disk, of which partition 1 is the honest client's and partition 2 the hostile one's.
const DISK: Disk = Disk { granule: 1, segments: 4, most: 6, discards: true, writes_zeroes: true, ..Disk::new(64, 1) };

/// First block and count of blocks of each partition.
const PARTS: [(u64, u64); 2] = [(8, 20), (32, 24)];

/// The others' ends of the virtualiser's channels: the driver's, and each client's.
const ENDS: [u32; 3] = [63, 40, 41];

/// The virtualiser's turn, where some time has passed and it hears of who has notified it.
fn turn(virtualiser: &mut Virtualiser) {
    set_time(time::now() + Duration::from_millis(5));
    let told: Vec<u32> =
        signalled().iter().filter_map(|end| ENDS.iter().position(|other| other == end)).map(|end| end as u32).collect();
    virtualiser.mark_due(channels(&told));
    let _ = virtualiser.round();
}

fn place(client: usize) -> u64 {
    TABLE + 0x1000 * (1 + client as u64)
}

/// Queues and memory, the same for each input.
struct Ground {
    connection: BlockVirtualiser,
    clients: [BlockVirtualiserClient; 2],
}

impl Ground {
    fn new() -> Self {
        let header = size_of::<StartHeader>();
        let texts = b"12";
        let mut block = vec![0; header + texts.len()];
        block[..8].copy_from_slice(&MAGIC.to_le_bytes());
        block[8..12].copy_from_slice(&culm_abi::VERSION.to_le_bytes());
        let size = block.len() as u32;
        block[12..16].copy_from_slice(&size.to_le_bytes());
        block[header..].copy_from_slice(texts);
        set_start_block(&block);
        let connection = BlockVirtualiser {
            requests: ring(32),
            answers: ring(32),
            table: memory(MAX_READ as usize * BLOCK, TABLE * BLOCK as u64),
            account: memory(8, 0),
            clients: Span::default(),
            channel: 0,
        };
        let client = |index: usize| BlockVirtualiserClient {
            requests: ring(32),
            answers: ring(32),
            data: memory(MEMORY as usize * BLOCK, place(index) * BLOCK as u64),
            first: 0,
            blocks: 0,
            partition: Span { offset: (header + index) as u32, count: 1 },
            name: Span::default(),
            channel: 1 + index as u32,
            read_only: 0,
        };
        Self { connection, clients: [client(0), client(1)] }
    }

    /// The same for each input of this thread.
    fn get() -> &'static Self {
        thread_local! {
            static GROUND: OnceCell<&'static Ground> = const { OnceCell::new() };
        }
        GROUND.with(|ground| *ground.get_or_init(|| Box::leak(Box::new(Self::new()))))
    }

    fn client(&self, index: usize) -> BlockClient {
        let BlockVirtualiserClient { requests, answers, data, .. } = self.clients[index];
        BlockClient { requests, answers, data, channel: ENDS[1 + index] }
    }

    fn disk(&self, medium: u32) -> RamDisk {
        let BlockVirtualiser { requests, answers, table, .. } = self.connection;
        let port = Port::new(requests, answers, ENDS[0], MAX_DISK);
        let mut memory = vec![(TABLE, Region::new(table))];
        memory.extend((0..2).map(|index| (place(index), Region::new(self.clients[index].data))));
        let mut disk = RamDisk::with_port(port, Disk { medium, ..DISK }, memory);
        for (number, (first, blocks)) in PARTS.iter().enumerate() {
            let entry = &mut disk.content[446 + 16 * number..][..16];
            entry[4] = 0x83;
            // By the disk's own blocks.
            entry[8..12].copy_from_slice(&(*first as u32 >> DISK.granule).to_le_bytes());
            entry[12..].copy_from_slice(&(*blocks as u32 >> DISK.granule).to_le_bytes());
        }
        disk.content[510..512].copy_from_slice(&[0x55, 0xaa]);
        disk
    }

    /// Empties everything; returns the queues of the hostile side.
    fn clear(&self, is_driver: bool) -> Vec<Region> {
        let BlockVirtualiser { requests, answers, table, .. } = self.connection;
        let rings = |requests, answers| [clear::<RequestEntry>(requests), clear::<AnswerEntry>(answers)];
        let driver = rings(requests, answers);
        let clients = self.clients.map(|client| rings(client.requests, client.answers));
        let table = Region::new(table);
        table.clear(0, table.len()).expect("all of it");
        if is_driver { driver.into_iter().chain([table]).collect() } else { clients[1].into() }
    }
}

fn words(input: &mut Input<'_>) -> [u64; 2] {
    core::array::from_fn(|_| u64::from(input.number()) << 32 | u64::from(input.number()))
}

/// A request that is valid or nearly so.
fn request(input: &mut Input<'_>) -> Request {
    let [kind, block, place, blocks] = core::array::from_fn(|_| u64::from(input.byte()));
    let segments = [segment(place % 10, (blocks % 8) as u32), segment(place >> 4, (blocks >> 6) as u32 + 1)];
    let segments = &segments[..1 + (kind as usize >> 7)];
    match kind % 5 {
        0 => Request::read(block % 64, segments).expect("one or two"),
        1 | 2 => Request::write(block % 64, segments).expect("one or two"),
        3 => Request::flush(),
        _ => Request::write_zeroes(block % 64, blocks as u32, false),
    }
}

/// An honest client: it writes a number to two of its blocks, reads them back, and again.
struct Honest {
    client: Client<bool>,
    data: Region,
    number: u64,
    answered: u32,
}

impl Honest {
    fn new(ground: &Ground) -> Self {
        let connection = ground.client(0);
        Self { client: Client::connect(&connection), data: Region::new(connection.data), number: 0, answered: 0 }
    }

    /// Takes a turn. If `is_strict`, all of its requests are done, and well.
    fn turn(&mut self, is_strict: bool) {
        self.client.begin();
        while let Some(Completion { tag: is_read, result }) = self.client.next_completion() {
            self.answered += 1;
            assert!(result.is_ok() || !is_strict, "{result:?}");
            let word: u64 = self.data.load(4 * BLOCK).expect("inside");
            assert!(!is_strict || !is_read || word == self.number, "block of number {} has {word}", self.number);
            if !is_read {
                let read = Request::read(self.block(), &[segment(4, 2)]).expect("one");
                let _ = self.client.send(&read, true);
            }
        }
        if self.client.under_way() == 0 && self.client.disk().is_some_and(|disk| disk.blocks >= PARTS[0].1) {
            self.number += 1;
            self.data.store(0, &self.number).expect("inside");
            let write = Request::write(self.block(), &[segment(0, 2)]).expect("one");
            let _ = self.client.send(&write, false);
        }
        let _ = self.client.end_round();
        assert!(self.client.answers_refused() == 0, "the virtualiser says what is not so");
    }

    fn block(&self) -> u64 {
        self.number * 2 % PARTS[0].1
    }
}

/// A request at the driver is for its client's blocks and memory, or reads the table.
fn check(request: &Request) {
    let inside = |first: u64, count: u64, start: u64, length: u64| first >= start && first + count <= start + length;
    let blocks = u64::from(request.blocks);
    let is_of = |client: usize| {
        let (first, count) = PARTS[client];
        let memory = request
            .segments()
            .iter()
            .all(|segment| inside(segment.place, segment.blocks.into(), place(client), MEMORY));
        memory && inside(request.block, blocks, first, count)
    };
    let is_table = !request.operation.changes_blocks()
        && request.segments().iter().all(|part| inside(part.place, part.blocks.into(), TABLE, MAX_READ.into()));
    assert!(is_of(0) || is_of(1) || is_table, "{request:?} is nobody's");
}

/// A hostile client beside an honest one, at an honest driver.
fn against_client(input: &mut Input<'_>) {
    let ground = Ground::get();
    let reach = ground.clear(false);
    let (mut disk, mut honest) = (ground.disk(1), Honest::new(ground));
    let mut virtualiser = Virtualiser::new(&ground.connection, &ground.clients);
    let BlockVirtualiserClient { requests, answers, .. } = ground.clients[1];
    let mut hostile = Link::<RequestEntry, AnswerEntry>::new(requests, answers, ENDS[2]);
    let mut round = |disk: &mut RamDisk| {
        turn(&mut virtualiser);
        disk.take();
        disk.taken.iter().for_each(|taken| check(&taken.request));
        honest.turn(true);
        honest.answered
    };
    for _ in 0..6 {
        let _ = hostile.begin();
        hostile.publish();
        round(&mut disk);
        disk.finish_all();
        let _ = disk.end_round();
    }
    while !input.is_over() {
        let _ = hostile.begin();
        match input.byte() % 8 {
            0 => {
                scribble(&reach, input);
            }
            1 => while hostile.input.pop().is_some() {},
            2 => hostile.start_over(),
            3 => {
                let _ = hostile.output.push(RequestEntry(words(input)));
            }
            4..=6 => {
                let (request, mut entries) = (request(input), [RequestEntry::default(); MAX_SEGMENTS]);
                let count = RequestEntry::write(&request, input.byte().into(), &mut entries);
                hostile.output.push_slice(&entries[..count]);
            }
            _ => {
                if !disk.taken.is_empty() {
                    disk.finish(usize::from(input.byte()) % disk.taken.len());
                }
            }
        }
        hostile.publish();
        round(&mut disk);
        let _ = disk.end_round();
    }
    let before = round(&mut disk);
    for _ in 0..20 {
        disk.finish_all();
        let _ = disk.end_round();
        round(&mut disk);
    }
    assert!(round(&mut disk) > before, "the honest client waits for ever");
    drop(hostile);
    let mut next = Client::<()>::connect(&ground.client(1));
    for _ in 0..20 {
        next.begin();
        if next.next_completion().is_some() {
            return;
        }
        if next.under_way() == 0 {
            let _ = next.send(&Request::flush(), ());
        }
        let _ = next.end_round();
        round(&mut disk);
        disk.finish_all();
        let _ = disk.end_round();
    }
    panic!("the hostile client's next life is not served");
}

/// A hostile driver below two honest clients, then an honest one.
fn against_driver(input: &mut Input<'_>) {
    let ground = Ground::get();
    let reach = ground.clear(true);
    let mut honest = Honest::new(ground);
    let mut other = Client::<()>::connect(&ground.client(1));
    let BlockVirtualiser { requests, answers, .. } = ground.connection;
    let mut hostile = Link::<AnswerEntry, RequestEntry>::new(answers, requests, ENDS[0]);
    let mut virtualiser = Virtualiser::new(&ground.connection, &ground.clients);
    let mut round = |is_strict: bool| {
        turn(&mut virtualiser);
        honest.turn(is_strict);
        other.begin();
        while other.next_completion().is_some() {}
        let _ = other.send(&Request::flush(), ());
        let _ = other.end_round();
        honest.answered
    };
    while !input.is_over() {
        let _ = hostile.begin();
        match input.byte() % 8 {
            0 => {
                scribble(&reach, input);
            }
            1 => while hostile.input.pop().is_some() {},
            2 => hostile.start_over(),
            3 => {
                let _ = hostile.output.push(AnswerEntry(words(input)));
            }
            4 | 5 => {
                let answer = Answer::Of { token: u16::from(input.byte() % 40), result: Ok(()) };
                let _ = hostile.output.push(answer.into());
            }
            6 => {
                // A table, or something like it.
                let table = reach.last().expect("the table's memory");
                let entry = [0, 0, 0, 0, 0x83, 0, 0, 0, input.byte(), 0, 0, 0, input.byte(), 0, 0, 0];
                table.write(446 + 16 * usize::from(input.byte() % 4), &entry).expect("inside");
                table.write(510, &[0x55, 0xaa]).expect("inside");
            }
            _ => {
                let number = input.byte();
                let disk = Disk { medium: 1 + u32::from(number % 2), blocks: u64::from(number) * 8, ..DISK };
                let _ = hostile.output.push(Answer::Disk(disk).into());
            }
        }
        hostile.publish();
        round(false);
    }
    drop(hostile);
    // The hostile one's changes of medium are no reason to read the table again.
    let mut disk = ground.disk(9);
    let mut answered = 0;
    for turn in 0..40 {
        round(false);
        disk.take();
        disk.taken.iter().for_each(|taken| check(&taken.request));
        disk.finish_all();
        let _ = disk.end_round();
        if turn == 20 {
            answered = round(false);
        }
    }
    assert!(round(true) > answered, "the clients of an honest driver wait for ever");
}

fuzz_target!(|bytes: &[u8]| {
    culm::testing::forget();
    let mut input = Input::new(bytes);
    if input.byte() % 2 == 0 {
        against_client(&mut input);
    } else {
        against_driver(&mut input);
    }
    let _ = (signalled(), take_log());
});
