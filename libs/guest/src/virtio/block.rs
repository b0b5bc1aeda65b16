//! The guest's disk (VIRTIO 1.2 §5.2): requests and their answers.

use super::Memory;
use super::chain::{Chain, Part};
use super::transport::Transport;

/// Kind of device (§5).
const DEVICE: u32 = 2;

/// The one queue.
const REQUESTS: usize = 0;

/// Features (§5.2.3).
mod feature {
    pub const LARGEST_SEGMENT: u64 = 1 << 1;
    pub const SEGMENTS: u64 = 1 << 2;
    pub const READ_ONLY: u64 = 1 << 5;
    pub const BLOCK_SIZE: u64 = 1 << 6;
    pub const FLUSH: u64 = 1 << 9;
}

/// Offsets in the configuration (§5.2.4).
mod configuration {
    pub const CAPACITY: usize = 0;
    pub const LARGEST_SEGMENT: usize = 8;
    pub const SEGMENTS: usize = 12;
    pub const BLOCK_SIZE: usize = 20;
}

/// Kinds of requests (§5.2.6).
mod kind {
    pub const READ: u32 = 0;
    pub const WRITE: u32 = 1;
    pub const FLUSH: u32 = 4;
    pub const IDENTITY: u32 = 8;
}

/// Bytes of a request's header: kind, reserved, first sector.
const HEADER: usize = 16;

/// Bytes of a sector, whatever the disk has (§5.2.4).
pub const SECTOR: u64 = 512;

/// The most segments of a request.
pub const SEGMENTS: u32 = 16;

/// The most bytes of a segment: a page.
const LARGEST_SEGMENT: u32 = 4096;

/// The most bytes of a request that a driver makes which keeps to the configuration.
pub const MAX_BYTES: u64 = SEGMENTS as u64 * LARGEST_SEGMENT as u64;

/// Bytes of the disk's name (§5.2.6).
const IDENTITY: usize = 20;

/// The disk's name.
const NAME: &[u8; IDENTITY] = b"culm\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0";

/// Answers (§5.2.6).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Status {
    /// It is done.
    Done = 0,
    /// It failed, or cannot be done there.
    Failed = 1,
    /// There is no such request.
    Unknown = 2,
}

/// The kind of a request.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Operation {
    /// Bytes go to the guest.
    Read,
    /// Bytes come from the guest.
    Write,
    /// Makes durable what was written.
    #[default]
    Flush,
}

/// The properties of the disk that the guest is told.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Geometry {
    /// Count of its sectors.
    pub sectors: u64,
    /// Bytes of a block: requests begin and end at a multiple of it.
    pub block: u32,
    /// The most bytes of a request; at most [`MAX_BYTES`] are used.
    pub most: u64,
    /// Nothing can be written.
    pub read_only: bool,
}

/// A request that its monitor carries out and answers by [`Block::answer`].
#[derive(Clone, Debug, Default)]
pub struct Request {
    chain: Chain,
    /// The count of resets when the request was taken: one of an earlier count is not answered.
    resets: u32,
    /// Its kind.
    pub operation: Operation,
    /// The first sector. It need not be on the disk.
    pub sector: u64,
    /// Bytes of its data: whole sectors, [`MAX_BYTES`] at most; 0 of a flush.
    pub bytes: u64,
}

impl Request {
    /// Returns the parts of the guest's memory from which it writes.
    pub fn source(&self) -> impl Iterator<Item = Part> + '_ {
        self.chain.readable_from(HEADER as u64, self.bytes)
    }

    /// Returns the parts of the guest's memory into which it reads.
    pub fn target(&self) -> impl Iterator<Item = Part> + '_ {
        self.chain.writable_from(0, self.bytes)
    }
}

/// The disk.
#[derive(Clone, Debug)]
pub struct Block {
    /// Its registers.
    pub transport: Transport,
    /// The count of resets when the medium was exchanged: until the next one, requests fail.
    exchanged: Option<u32>,
}

impl Default for Block {
    fn default() -> Self {
        let mut transport = Transport::new(DEVICE, 0, 1);
        transport.configure(configuration::LARGEST_SEGMENT, &LARGEST_SEGMENT.to_le_bytes());
        Self { transport, exchanged: None }
    }
}

impl Block {
    /// Sets what the disk is. Of a guest that knows it already, this can change the sectors only:
    /// the rest is looked at when a driver begins.
    pub fn set_geometry(&mut self, geometry: &Geometry) {
        let read_only = if geometry.read_only { feature::READ_ONLY } else { 0 };
        let features = feature::LARGEST_SEGMENT | feature::SEGMENTS | feature::BLOCK_SIZE | feature::FLUSH;
        self.transport.offer(features | read_only);
        let segments = (geometry.most / u64::from(LARGEST_SEGMENT)).clamp(1, SEGMENTS.into()) as u32;
        self.transport.configure(configuration::SEGMENTS, &segments.to_le_bytes());
        self.transport.configure(configuration::BLOCK_SIZE, &geometry.block.to_le_bytes());
        self.transport.configure(configuration::CAPACITY, &geometry.sectors.to_le_bytes());
    }

    /// Says that the disk has another medium. What the guest reads and writes until it begins anew
    /// with the disk is meant for the medium of before: it fails.
    pub fn exchange_medium(&mut self) {
        self.exchanged = Some(self.transport.resets());
    }

    /// Takes the next request into `request`, in place of what was there: to move one costs as much
    /// as to read it. Returns whether there is one; one that the disk has nothing to do with is
    /// answered, and counts as none.
    pub fn take_request(&mut self, memory: &impl Memory, request: &mut Request) -> bool {
        let Some(queue) = self.transport.queue(REQUESTS) else { return false };
        let taken = queue.take(memory, &mut request.chain);
        if self.transport.sound(taken) != Some(true) {
            return false;
        }
        let mut header = [0; HEADER];
        if request.chain.read(memory, 0, &mut header).is_none() || request.chain.writable_bytes() == 0 {
            // No header, or no place for an answer: the queue is not used as a disk's is.
            self.transport.fail();
            return false;
        }
        let word = u128::from_le_bytes(header);
        (request.resets, request.sector) = (self.transport.resets(), (word >> 64) as u64);
        match self.asked(&request.chain, word as u32) {
            Ok(asked) => (request.operation, request.bytes) = asked,
            Err(status) => {
                self.refuse(memory, &request.chain, word as u32, status);
                return false;
            }
        }
        true
    }

    /// Returns what a request of this kind asks for, and of how many bytes; or its answer, if it is
    /// none of the disk's.
    fn asked(&self, chain: &Chain, kind: u32) -> Result<(Operation, u64), Status> {
        let given = chain.readable_bytes() - HEADER as u64;
        let taken = chain.writable_bytes() - 1;
        let (operation, bytes) = match kind {
            kind::READ => (Operation::Read, taken),
            kind::WRITE => (Operation::Write, given),
            kind::FLUSH => (Operation::Flush, 0),
            _ => return Err(Status::Unknown),
        };
        let is_whole = bytes.is_multiple_of(SECTOR) && bytes <= MAX_BYTES;
        let is_exchanged = self.exchanged == Some(self.transport.resets());
        if !is_whole || bytes == 0 && operation != Operation::Flush || is_exchanged {
            return Err(Status::Failed);
        }
        Ok((operation, bytes))
    }

    /// Answers a request that is not the disk's.
    fn refuse(&mut self, memory: &impl Memory, chain: &Chain, kind: u32, status: Status) {
        let name = &NAME[..IDENTITY.min(chain.writable_bytes() as usize - 1)];
        let (status, length) = match kind {
            kind::IDENTITY if chain.write(memory, 0, name).is_some() => (Status::Done, name.len() as u64),
            _ => (status, 0),
        };
        self.give_back(memory, chain, length, status);
    }

    /// Returns whether the guest that made a request still waits for it: it has not reset the disk
    /// or its queue meanwhile, and its memory is what it was.
    pub fn is_awaited(&self, request: &Request) -> bool {
        request.resets == self.transport.resets()
    }

    /// Answers a request, if it is still awaited.
    pub fn answer(&mut self, memory: &impl Memory, request: &Request, status: Status) {
        if self.is_awaited(request) {
            let length = if request.operation == Operation::Read && status == Status::Done { request.bytes } else { 0 };
            self.give_back(memory, &request.chain, length, status);
        }
    }

    fn give_back(&mut self, memory: &impl Memory, chain: &Chain, length: u64, status: Status) {
        let last = chain.writable_bytes() - 1;
        if chain.write(memory, last, &[status as u8]).is_none() {
            self.transport.fail();
        }
        if let Some(queue) = self.transport.queue(REQUESTS) {
            // The status is behind all that can be written, the data before it; no request has
            // 4 GiB.
            let written = if length == last { length + 1 } else { length };
            let result = queue.give_back(memory, chain, written as u32);
            self.transport.sound(result);
        }
    }

    /// Shows the guest what was answered, and asks for its doorbell at the next request.
    pub fn publish(&mut self, memory: &impl Memory) {
        if let Some(queue) = self.transport.queue(REQUESTS) {
            let wanted = queue.publish(memory);
            self.transport.tell(wanted);
        }
    }

    /// Returns whether the guest has another request.
    pub fn has_request(&mut self, memory: &impl Memory) -> bool {
        let Some(queue) = self.transport.queue(REQUESTS) else { return false };
        let result = queue.has_next(memory);
        self.transport.sound(result).unwrap_or(false)
    }
}

#[cfg(test)]
mod tests {
    use super::super::tests::{Driver, Ram};
    use super::super::transport::tests::live;
    use super::*;

    const BUFFER: u64 = Ram::BASE + 8192;
    const STATUS: u64 = BUFFER + 16;
    const DATA: u64 = BUFFER + 1024;

    fn disk() -> (Ram, Driver, Block) {
        let (requests, none) = (Driver::new(4), Driver::at(Ram::BASE + 4096, 4));
        let mut block = Block::default();
        block.transport = live(block.transport, 0, [&requests, &none]);
        (Ram::new(16384), requests, block)
    }

    fn ask(ram: &Ram, driver: &mut Driver, kind: u32, sector: u64, data: &[(u64, u32, bool)]) {
        let header = u128::from(kind) | u128::from(sector) << 64;
        ram.write(BUFFER, &header.to_le_bytes()).expect("inside");
        ram.write(STATUS, &[0xff]).expect("inside");
        let mut parts = std::vec![(BUFFER, 16, false)];
        parts.extend(data);
        parts.push((STATUS, 1, true));
        driver.offer(ram, &parts);
    }

    /// Takes the next request, if there is one.
    fn take(block: &mut Block, ram: &Ram) -> Option<Request> {
        let mut request = Request::default();
        block.take_request(ram, &mut request).then_some(request)
    }

    fn status(ram: &Ram) -> u8 {
        let mut status = [0];
        ram.read(STATUS, &mut status).expect("inside");
        status[0]
    }

    #[test]
    fn a_read_and_a_write_name_sectors_and_memory() {
        let (ram, mut driver, mut block) = disk();
        ask(&ram, &mut driver, kind::READ, 7, &[(DATA, 512, true), (DATA + 1024, 512, true)]);
        let request = take(&mut block, &ram).expect("one");
        assert_eq!((request.operation, request.sector, request.bytes), (Operation::Read, 7, 1024));
        let target: std::vec::Vec<Part> = request.target().collect();
        assert_eq!(target, [(DATA, 512), (DATA + 1024, 512)].map(|(address, length)| Part { address, length }));
        block.answer(&ram, &request, Status::Done);
        block.publish(&ram);
        assert_eq!((driver.used(&ram), status(&ram)), (Some((0, 1025)), 0));
        ask(&ram, &mut driver, kind::WRITE, 8, &[(DATA, 512, false)]);
        let request = take(&mut block, &ram).expect("one");
        assert_eq!((request.operation, request.sector, request.bytes), (Operation::Write, 8, 512));
        assert_eq!(request.source().collect::<std::vec::Vec<_>>(), [Part { address: DATA, length: 512 }]);
        block.answer(&ram, &request, Status::Failed);
        block.publish(&ram);
        assert_eq!((driver.used(&ram).map(|used| used.1), status(&ram)), (Some(1), 1));
    }

    #[test]
    fn what_is_no_request_of_a_disk_is_answered_at_once() {
        type Parts = &'static [(u64, u32, bool)];
        let cases: [(u32, Parts, u8); 5] = [
            (kind::READ, &[(DATA, 511, true)], 1),
            (kind::WRITE, &[], 1),
            (kind::WRITE, &[(DATA, 512 * 1024, false)], 1),
            (99, &[(DATA, 512, true)], 2),
            (kind::IDENTITY, &[(DATA, 20, true)], 0),
        ];
        for (kind, data, expected) in cases {
            let (ram, mut driver, mut block) = disk();
            ask(&ram, &mut driver, kind, 0, data);
            assert!(take(&mut block, &ram).is_none(), "{kind} {data:?}");
            block.publish(&ram);
            assert!(driver.used(&ram).is_some() && block.transport.is_live());
            assert_eq!(status(&ram), expected, "{kind} {data:?}");
        }
    }

    #[test]
    fn a_request_of_before_a_reset_is_not_answered() {
        let (ram, mut driver, mut block) = disk();
        ask(&ram, &mut driver, kind::FLUSH, 0, &[]);
        let request = take(&mut block, &ram).expect("one");
        block.transport.write(0x070, 4, 0);
        let again = Driver::new(4);
        block.transport = live(block.transport, 0, [&again, &again]);
        assert!(!block.is_awaited(&request));
        block.answer(&ram, &request, Status::Done);
        block.publish(&ram);
        assert_eq!((driver.used(&ram), status(&ram)), (None, 0xff));
    }

    #[test]
    fn a_request_of_before_a_reset_of_the_queue_is_not_answered() {
        let (ram, mut driver, mut block) = disk();
        ask(&ram, &mut driver, kind::READ, 0, &[(DATA, 512, true)]);
        let request = take(&mut block, &ram).expect("one");
        assert!(block.is_awaited(&request));
        let ([select, ready], places) = ([0x030, 0x044], driver.places());
        for (register, value) in [(select, 0), (ready, 0), (0x038, 4), (0x080, places[0]), (0x090, places[1])] {
            block.transport.write(register, 4, value);
        }
        block.transport.write(0x0a0, 4, places[2]);
        block.transport.write(ready, 4, 1);
        assert!(block.transport.is_live() && !block.is_awaited(&request));
        block.answer(&ram, &request, Status::Done);
        block.publish(&ram);
        assert_eq!((driver.used(&ram), status(&ram)), (None, 0xff));
    }

    #[test]
    fn requests_that_another_medium_was_meant_for_fail() {
        let (ram, mut driver, mut block) = disk();
        block.exchange_medium();
        ask(&ram, &mut driver, kind::WRITE, 0, &[(DATA, 512, false)]);
        assert!(take(&mut block, &ram).is_none());
        block.publish(&ram);
        assert_eq!((driver.used(&ram).is_some(), status(&ram)), (true, 1));
        block.transport.write(0x070, 4, 0);
        let (mut again, none) = (Driver::at(Ram::BASE + 4096, 4), Driver::new(4));
        block.transport = live(block.transport, 0, [&again, &none]);
        ask(&ram, &mut again, kind::WRITE, 0, &[(DATA, 512, false)]);
        assert!(take(&mut block, &ram).is_some(), "its driver has begun anew");
    }

    #[test]
    fn refused_requests_are_taken_one_by_one() {
        let (ram, mut driver, mut block) = disk();
        ask(&ram, &mut driver, 99, 0, &[]);
        ask(&ram, &mut driver, 99, 0, &[]);
        assert!(take(&mut block, &ram).is_none() && block.has_request(&ram));
        assert!(take(&mut block, &ram).is_none() && !block.has_request(&ram));
    }

    #[test]
    fn a_request_without_a_header_or_an_answer_stops_the_disk() {
        for part in [(BUFFER, 15, false), (BUFFER, 16, false), (0, 16, false)] {
            let (ram, mut driver, mut block) = disk();
            driver.offer(&ram, &[part]);
            assert!(take(&mut block, &ram).is_none() && !block.transport.is_live(), "{part:?}");
        }
    }
}
