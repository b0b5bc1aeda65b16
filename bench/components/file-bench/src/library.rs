//! Reads by the component itself, which has the disk and the library `culm-fat`.

use crate::Count;
use alloc::string::ToString;
use alloc::vec;
use culm::connection::BlockClient;
use culm::{Progress, Region};
use culm_bench_guest::file::{PATH, SIZE};
use culm_block::{BLOCK, Client, Completion, MAX_BLOCKS, Request, Segment};
use culm_fat::{Answer, FileId, Operation, Options, Step, Volume};

/// Blocks of memory for what the file system reads, in front of those for the file's data.
const OWN: u32 = 512;

/// Blocks of the file system that are kept.
const CACHE: usize = 512;

/// A request to the disk.
#[derive(Clone, Copy, Debug)]
enum Tag {
    /// Blocks for the file system.
    Volume { block: u64, blocks: u32 },
    /// A piece of the file's data.
    Data,
}

/// A file system of its own.
pub struct Reader {
    client: Client<Tag>,
    memory: Region,
    volume: Option<Volume>,
    file: Option<FileId>,
    /// The position of the next byte that is asked for.
    next: u32,
    /// Requests for data that are under way.
    under_way: u32,
    count: Count,
    is_done: bool,
}

impl Reader {
    /// Begins with mounting the volume.
    pub fn new(connection: &BlockClient) -> Self {
        let (client, memory) = (Client::connect(connection), Region::new(connection.data));
        let count = Count::default();
        Self { client, memory, volume: None, file: None, next: 0, under_way: 0, count, is_done: false }
    }

    /// Takes answers, and asks for more.
    pub fn round(&mut self) -> Progress {
        self.client.begin();
        while let Some(Completion { tag, result }) = self.client.next_completion() {
            if let Err(error) = result {
                panic!("the disk cannot be read, so nothing is measured: {error}");
            }
            self.complete(tag);
        }
        if let Some(disk) = self.client.disk().copied().filter(|_| self.volume.is_none()) {
            let options = Options { blocks: disk.blocks, granule: disk.granule, cache_blocks: CACHE, read_only: true };
            let mut volume = Volume::new(options);
            begin(&mut volume, Operation::Mount);
            self.volume = Some(volume);
        }
        self.go_on();
        self.client.end_round()
    }

    fn complete(&mut self, tag: Tag) {
        match tag {
            Tag::Data => {
                self.under_way -= 1;
                if self.next == SIZE && self.under_way == 0 {
                    self.next = 0;
                    self.is_done = !self.count.add();
                }
            }
            Tag::Volume { block, blocks } => {
                let mut bytes = vec![0; blocks as usize * BLOCK];
                let is_read = self.memory.read(0, &mut bytes).is_ok();
                if let Some(volume) = &mut self.volume {
                    volume.give(block, is_read.then_some(&bytes));
                }
            }
        }
    }

    /// Does what the volume says until it waits, then asks for data.
    fn go_on(&mut self) {
        let Some(volume) = &mut self.volume else { return };
        while !volume.is_idle() {
            match volume.step() {
                Step::Read { block, blocks } => {
                    let segment = Segment { place: 0, blocks: blocks.min(OWN) };
                    send(&mut self.client, block, segment, Tag::Volume { block, blocks });
                    return;
                }
                Step::Done(Ok(Answer::Opened { file, size })) => {
                    assert!(size == u64::from(SIZE), "{PATH} has {size} bytes and not {SIZE}, so nothing is measured");
                    self.file = Some(file);
                }
                Step::Done(Ok(_)) if self.file.is_none() => {
                    begin(volume, Operation::Open { path: PATH.to_string() });
                }
                Step::Done(Ok(_)) => {}
                Step::Done(Err(error)) => panic!("{PATH} cannot be read, so nothing is measured: {error}"),
                // Nothing is written.
                Step::Write { .. } | Step::Flush | Step::Wait => return,
            }
        }
        let Some(file) = self.file.filter(|_| !self.is_done) else { return };
        while self.next < SIZE {
            let Some(place) = volume.place(file, self.next.into()) else {
                begin(volume, Operation::Locate { file, offset: self.next.into() });
                return self.go_on();
            };
            let bytes = place.bytes.min((SIZE - self.next).into()) as u32;
            let blocks = (bytes / BLOCK as u32).min(MAX_BLOCKS);
            let segment = Segment { place: u64::from(OWN + self.next / BLOCK as u32), blocks };
            send(&mut self.client, place.block, segment, Tag::Data);
            self.next += blocks * BLOCK as u32;
            self.under_way += 1;
        }
    }
}

fn begin(volume: &mut Volume, operation: Operation) {
    if let Err(error) = volume.begin(operation) {
        panic!("the volume cannot be used, so nothing is measured: {error}");
    }
}

fn send(client: &mut Client<Tag>, block: u64, segment: Segment, tag: Tag) {
    let request = Request::read(block, &[segment]);
    let is_sent = request.is_some_and(|request| client.send(&request, tag).is_ok());
    assert!(is_sent, "the disk does not take a read of {} blocks, so nothing is measured", segment.blocks);
}
