//! Fakes for host tests of the class's components: queues and memory, and a disk in memory that
//! plays the provider.

use crate::{BLOCK, Disk, Error, Operation, Port, Request, Segment, Taken};
pub use culm::testing::memory;
use culm::{Progress, Region};
use culm_abi::connection::block::ENTRY_SIZE;
use culm_abi::connection::{BlockClient, Ring};
use std::vec;
use std::vec::Vec;

/// The channel that the other side has; those of the component under test have other numbers.
const CHANNEL: u32 = 63;

/// An empty queue.
///
/// # Panics
///
/// Where `capacity` is no power of two.
pub fn ring(capacity: u32) -> Ring {
    let bytes = culm_queue::layout(capacity, ENTRY_SIZE as usize).expect("a power of two");
    Ring { address: memory(bytes, 0).address, capacity, reserved: 0 }
}

/// Returns a client's connection: queues of that capacity, and a data region of `blocks` blocks,
/// which devices see at `dma`.
pub fn connection(capacity: u32, blocks: u64, dma: u64, channel: u32) -> BlockClient {
    BlockClient {
        requests: ring(capacity),
        answers: ring(capacity),
        data: memory(blocks as usize * BLOCK, dma),
        channel,
    }
}

/// A disk in memory. It takes requests and keeps them until a test lets it carry them out, in any
/// order.
#[derive(Debug)]
pub struct RamDisk {
    /// Its end of the queues.
    pub port: Port,
    /// The disk as clients are told of it.
    pub disk: Disk,
    /// Its blocks.
    pub content: Vec<u8>,
    /// Its blocks as they would be after a power cut: those that a flush has made durable.
    pub durable: Vec<u8>,
    /// The requests that it has taken and not carried out.
    pub taken: Vec<Taken>,
    /// The outcome of every request that was carried out.
    pub results: Vec<Result<(), Error>>,
    /// The answer to requests, if they are not to be carried out.
    pub failing: Option<Error>,
    /// A block that cannot be read.
    pub unreadable: Option<u64>,
    /// Whether requests are answered and nothing is done, which is quicker than to move data.
    pub is_hollow: bool,
    /// The memory that requests name, with the block at which each begins.
    memory: Vec<(u64, Region)>,
}

impl RamDisk {
    /// A disk over the same queues as its client `connection`, whose places count in the client's
    /// data region.
    pub fn new(connection: &BlockClient, disk: Disk) -> Self {
        let data = Region::new(connection.data);
        let blocks = data.len() as u64 / BLOCK as u64;
        let port = Port::new(connection.requests, connection.answers, CHANNEL, blocks);
        Self::with_port(port, disk, vec![(0, data)])
    }

    /// A disk behind `port`. Places count in the device's addresses; there are `memory` pieces,
    /// each with the number of its first block.
    pub fn with_port(mut port: Port, disk: Disk, memory: Vec<(u64, Region)>) -> Self {
        let bytes = disk.blocks as usize * BLOCK;
        port.set_disk(disk);
        let (content, durable) = (vec![0; bytes], vec![0; bytes]);
        Self {
            port,
            disk,
            content,
            durable,
            taken: Vec::new(),
            results: Vec::new(),
            failing: None,
            unreadable: None,
            is_hollow: false,
            memory,
        }
    }

    /// The next life of the disk's driver, with what is on the medium.
    pub fn restarted(self, mut port: Port) -> Self {
        port.set_disk(self.disk);
        Self { port, taken: Vec::new(), ..self }
    }

    /// The next life of the driver of a device that lost what was not durable in its reset: the
    /// medium has another number.
    pub fn restarted_without_cache(self, port: Port) -> Self {
        let disk = Disk { medium: self.disk.medium + 1, ..self.disk };
        let content = self.durable.clone();
        Self { content, disk, ..self }.restarted(port)
    }

    /// Puts another medium in, or the same one with other properties.
    pub fn insert(&mut self, disk: Disk) {
        if disk.medium != self.disk.medium {
            self.content = vec![0; disk.blocks as usize * BLOCK];
            self.durable = self.content.clone();
        }
        self.disk = disk;
        self.port.set_disk(disk);
    }

    /// Begins a round and takes all requests that are there.
    pub fn take(&mut self) {
        self.port.begin();
        while let Some(taken) = self.port.next_request() {
            self.taken.push(taken);
        }
    }

    /// Carries out the request of this index among those taken, and answers it.
    pub fn finish(&mut self, index: usize) {
        let Taken { token, request } = self.taken.remove(index);
        let result = self.failing.map_or_else(|| self.carry_out(&request), Err);
        if (request.operation, result) == (Operation::Flush, Err(Error::Failed)) && self.disk.failures != 0 {
            self.disk.failures = Disk::next_failure(self.disk.failures);
            self.port.set_disk(self.disk);
        }
        self.results.push(result);
        self.port.answer(token, result);
    }

    /// Carries out all that were taken, in their order.
    pub fn finish_all(&mut self) {
        while !self.taken.is_empty() {
            self.finish(0);
        }
    }

    /// Ends a round.
    pub fn end_round(&mut self) -> Progress {
        self.port.end_round(true)
    }

    /// A round of a disk that carries out at once what it takes.
    pub fn round(&mut self) -> Progress {
        self.take();
        self.finish_all();
        self.end_round()
    }

    /// Does what a request asks for.
    fn carry_out(&mut self, request: &Request) -> Result<(), Error> {
        if self.is_hollow {
            return Ok(());
        }
        let start = request.block as usize * BLOCK;
        let range = start..start + request.blocks as usize * BLOCK;
        match request.operation {
            Operation::Flush => self.durable.copy_from_slice(&self.content),
            Operation::Discard | Operation::WriteZeroes | Operation::DiscardToZeroes => {
                self.content.get_mut(range).ok_or(Error::OutOfRange)?.fill(0)
            }
            Operation::Read | Operation::Write => {
                let is_in = self.unreadable.is_some_and(|block| range.contains(&(block as usize * BLOCK)));
                if is_in && request.operation == Operation::Read {
                    return Err(Error::Failed);
                }
                let blocks = self.content.get_mut(range).ok_or(Error::OutOfRange)?;
                let mut rest = blocks;
                for segment in request.segments() {
                    let (bytes, behind) = rest.split_at_mut(segment.blocks as usize * BLOCK);
                    rest = behind;
                    let (region, offset) = find(&self.memory, *segment).ok_or(Error::Failed)?;
                    let moved = match request.operation {
                        Operation::Read => region.write(offset, bytes),
                        _ => region.read(offset, bytes),
                    };
                    moved.map_err(|_| Error::Failed)?;
                }
            }
        }
        Ok(())
    }
}

/// The memory in which a segment lies, and where.
fn find(memory: &[(u64, Region)], segment: Segment) -> Option<(Region, usize)> {
    memory.iter().find_map(|(first, region)| {
        let offset = segment.place.checked_sub(*first)? as usize * BLOCK;
        region.contains(offset, segment.blocks as usize * BLOCK).then_some((*region, offset))
    })
}

/// One segment.
pub fn segment(place: u64, blocks: u32) -> Segment {
    Segment { place, blocks }
}
