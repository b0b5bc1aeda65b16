//! The guest's disk over a connection of the block class.
//!
//! The device reaches the memory of the connection, not the guest's: data is copied once. Each
//! request has a slot of that memory for its own until it is answered. Requests for which there is
//! no slot stay in the guest's queue.

use super::rounds;
use crate::counters;
use crate::memory::GuestMemory;
use alloc::vec::Vec;
use culm::connection::BlockClient;
use culm::{Channel, Progress, Region};
use culm_block::{BLOCK, Client, Segment};
use culm_guest::virtio::block::{Block, Geometry, MAX_BYTES, Operation, Request, SECTOR, Status};

const _: () = assert!(SECTOR == BLOCK as u64);

/// The connection behind the disk.
pub struct Disk {
    client: Client<u16>,
    data: Region,
    /// Bytes of a slot, whole blocks.
    slot: usize,
    slots: Vec<Slot>,
    /// How many of the slots are taken.
    under_way: usize,
    /// How often the provider had said what the disk is when the guest was last told.
    told: u32,
    /// How often the medium had changed then.
    changes: u32,
}

/// A part of the connection's memory.
#[derive(Default)]
struct Slot {
    /// The request that has it, or had it last.
    request: Request,
    is_taken: bool,
}

impl Disk {
    /// Takes the connection up.
    pub fn new(connection: &BlockClient) -> Self {
        let data = Region::new(connection.data);
        let slot = (MAX_BYTES as usize).min(data.len()) / BLOCK * BLOCK;
        // A slot's number has 16 bits, and more than the guest's queue has are of no use.
        let count = data.len().checked_div(slot).unwrap_or(0).min(culm_guest::virtio::queue::MAX_SIZE.into());
        let slots = (0..count).map(|_| Slot::default()).collect();
        Self { client: Client::connect(connection), data, slot, slots, under_way: 0, told: 0, changes: 0 }
    }

    /// Returns whether the provider has said what the disk is.
    pub fn is_known(&self) -> bool {
        self.client.disk().is_some()
    }

    /// Returns the channel over which the connection notifies.
    pub fn channel(&self) -> Channel {
        self.client.channel()
    }

    /// Carries requests and answers. Returns what is left.
    #[inline(never)]
    pub fn carry(&mut self, device: &mut Block, memory: &GuestMemory) -> Progress {
        rounds(|| self.round(device, memory))
    }

    fn round(&mut self, device: &mut Block, memory: &GuestMemory) -> Progress {
        self.client.begin();
        while let Some(completion) = self.client.next_completion() {
            let number = usize::from(completion.tag);
            let Some(slot) = self.slots.get_mut(number).filter(|slot| slot.is_taken) else { continue };
            slot.is_taken = false;
            self.under_way -= 1;
            // If the guest has begun anew, do not copy into its memory: its new life owns it.
            if device.is_awaited(&self.slots[number].request) {
                let is_done = completion.result.is_ok() && self.copy_out(number, memory);
                self.answer(device, memory, number, is_done);
            }
        }
        self.tell(device);
        let is_open = self.is_known() && !self.cancel_forgotten(device);
        let mut has_more = false;
        for _ in 0..self.slots.len() {
            let free = self.slots.iter().position(|slot| !slot.is_taken).filter(|_| self.client.space() > 0);
            has_more = free.is_some() && is_open && device.has_request(memory);
            let Some(number) = free.filter(|_| has_more) else { break };
            if device.take_request(memory, &mut self.slots[number].request) {
                self.send(device, memory, number);
            }
        }
        device.publish(memory);
        let progress = self.client.end_round();
        // The guest may have asked just before it was asked to ring.
        let is_free = self.client.space() > 0 && self.under_way < self.slots.len();
        progress & Progress::more_if(has_more || is_free && is_open && device.has_request(memory))
    }

    /// Takes back the requests of before the guest began anew that the provider has not got: a
    /// write of then must not come after one of now. Returns whether any are under way still, those
    /// just taken back among them: their completions come in a later round.
    fn cancel_forgotten(&mut self, device: &Block) -> bool {
        // Most turns are for other devices.
        if self.under_way == 0 {
            return false;
        }
        let Self { client, slots, .. } = self;
        let is_forgotten = |slot: &Slot| slot.is_taken && !device.is_awaited(&slot.request);
        let any = slots.iter().any(is_forgotten);
        if any {
            client.cancel(|tag| slots.get(usize::from(*tag)).is_some_and(is_forgotten));
        }
        any
    }

    /// Tells the guest what the disk is, if that has changed.
    fn tell(&mut self, device: &mut Block) {
        let Some(disk) = self.client.disk().filter(|_| self.client.shown() != self.told) else { return };
        self.told = self.client.shown();
        if self.client.changes() != self.changes {
            self.changes = self.client.changes();
            device.exchange_medium();
        }
        device.set_geometry(&Geometry {
            sectors: disk.blocks,
            block: (BLOCK as u32) << disk.granule,
            most: (self.slot as u64).min(u64::from(disk.most) * SECTOR),
            read_only: disk.read_only,
        });
    }

    /// Sends the request of a slot, or answers it if it cannot be sent.
    fn send(&mut self, device: &mut Block, memory: &GuestMemory, number: usize) {
        counters::DISK_REQUESTS.add(1);
        let request = &self.slots[number].request;
        let segment = Segment { place: (number * self.slot / BLOCK) as u64, blocks: (request.bytes / SECTOR) as u32 };
        let (first, tag) = (request.sector, number as u16);
        let is_ready = match request.operation {
            Operation::Flush => true,
            Operation::Read => request.bytes <= self.slot as u64,
            Operation::Write => request.bytes <= self.slot as u64 && self.copy_in(number, memory),
        };
        let client = &mut self.client;
        let sent = is_ready
            && match self.slots[number].request.operation {
                Operation::Flush => client.send(&culm_block::Request::flush(), tag),
                Operation::Read => client.transfer(culm_block::Operation::Read, first, &[segment], tag),
                Operation::Write => client.transfer(culm_block::Operation::Write, first, &[segment], tag),
            }
            // There is space, and the disk is known: it is the disk that does not take it.
            .is_ok();
        if sent {
            self.slots[number].is_taken = true;
            self.under_way += 1;
        } else {
            self.answer(device, memory, number, false);
        }
    }

    fn answer(&self, device: &mut Block, memory: &GuestMemory, number: usize, is_done: bool) {
        if !is_done {
            counters::DISK_FAILURES.add(1);
        }
        device.answer(memory, &self.slots[number].request, if is_done { Status::Done } else { Status::Failed });
    }

    /// Copies what the guest writes into the slot. Returns false if it is not in its memory.
    fn copy_in(&self, number: usize, memory: &GuestMemory) -> bool {
        let mut at = number * self.slot;
        self.slots[number].request.source().all(|part| {
            let place = at;
            at += part.length as usize;
            let copied = GuestMemory::offset(part.address)
                .and_then(|offset| memory.region().copy(offset, &self.data, place, part.length as usize).ok());
            copied.is_some()
        })
    }

    /// Copies what the guest has read out of the slot. Returns false if it is not to its memory.
    fn copy_out(&self, number: usize, memory: &GuestMemory) -> bool {
        let request = &self.slots[number].request;
        if request.operation != Operation::Read {
            return true;
        }
        let mut at = number * self.slot;
        request.target().all(|part| {
            let place = at;
            at += part.length as usize;
            let copied = GuestMemory::offset(part.address)
                .and_then(|offset| self.data.copy(place, memory.region(), offset, part.length as usize).ok());
            copied.is_some()
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use culm::guest::MEMORY;
    use culm_block::testing::{RamDisk, connection};
    use culm_block::{Disk as Properties, Port};
    use culm_guest::virtio::Memory;
    use culm_guest::virtio::testing::set_up;

    /// Where the driver's queue is, and behind it a request's header, answer and data.
    const PLACES: [u64; 3] = [MEMORY, MEMORY + 1024, MEMORY + 2048];
    const HEADER: u64 = MEMORY + 4096;
    const STATUS: u64 = HEADER + 16;
    const DATA: u64 = HEADER + 512;

    const READ: u64 = 0;
    const WRITE: u64 = 1;

    /// A guest's disk, its memory, and the provider of the disk.
    struct World {
        connection: BlockClient,
        memory: GuestMemory,
        disk: Disk,
        device: Block,
        provider: RamDisk,
        available: u16,
    }

    impl World {
        fn new() -> Self {
            let connection = connection(32, 256, 0, 1);
            let mut world = Self {
                memory: GuestMemory::new(Region::new(culm::testing::memory(16384, 0))),
                disk: Disk::new(&connection),
                device: Block::default(),
                provider: RamDisk::new(&connection, Properties::new(100, 1)),
                available: 0,
                connection,
            };
            world.settle();
            assert!(world.disk.is_known());
            world.begin();
            world
        }

        /// The guest's driver begins, perhaps anew.
        fn begin(&mut self) {
            self.memory.write(MEMORY, &[0; 4096]).expect("inside");
            self.available = 0;
            set_up(&mut self.device.transport, 0, &[PLACES], 4);
        }

        /// The guest asks for the first sector, or to write its data there.
        fn ask(&mut self, kind: u64) {
            let header = u128::from(kind).to_le_bytes();
            self.memory.write(HEADER, &header).expect("inside");
            self.memory.write(STATUS, &[0xff]).expect("inside");
            let is_written = u128::from(kind == READ) << 1;
            for (number, (address, length, flags)) in
                (0_u128..).zip([(HEADER, 16, 1), (DATA, 512, 1 | is_written), (STATUS, 1, 2)])
            {
                let word = u128::from(address) | length << 64 | flags << 96 | (number + 1) << 112;
                self.memory.write(MEMORY + 16 * number as u64, &word.to_le_bytes()).expect("inside");
            }
            self.memory.store(PLACES[1] + 4 + 2 * u64::from(self.available % 4), 0).expect("inside");
            self.available += 1;
            self.memory.store(PLACES[1] + 2, self.available).expect("inside");
            self.carry();
        }

        fn carry(&mut self) {
            let _ = self.disk.carry(&mut self.device, &self.memory);
        }

        /// The provider answers all that it has.
        fn finish(&mut self) {
            let _ = self.provider.round();
            self.carry();
        }

        fn settle(&mut self) {
            (0..8).for_each(|_| self.finish());
        }

        fn fill(&self, byte: u8) {
            self.memory.write(DATA, &[byte; 512]).expect("inside");
        }

        fn data(&self) -> u8 {
            let mut bytes = [0; 512];
            self.memory.read(DATA, &mut bytes).expect("inside");
            assert!(bytes.iter().all(|byte| *byte == bytes[0]));
            bytes[0]
        }

        fn status(&self) -> u8 {
            let mut status = [0];
            self.memory.read(STATUS, &mut status).expect("inside");
            status[0]
        }
    }

    #[test]
    fn what_was_written_is_read() {
        let mut world = World::new();
        world.fill(7);
        world.ask(WRITE);
        world.finish();
        assert_eq!((world.status(), world.provider.content[511]), (0, 7));
        world.fill(0);
        world.ask(READ);
        world.finish();
        assert_eq!((world.status(), world.data()), (0, 7));
    }

    #[test]
    fn what_was_read_before_a_reset_does_not_come_into_the_memory() {
        for reset in [(0x70, 0), (0x44, 0)] {
            let mut world = World::new();
            world.fill(9);
            world.ask(READ);
            world.device.transport.write(reset.0, 4, reset.1);
            world.finish();
            assert_eq!((world.status(), world.data()), (0xff, 9), "{reset:x?}");
        }
    }

    #[test]
    fn requests_wait_until_those_of_before_a_reset_have_ended() {
        let mut world = World::new();
        world.fill(1);
        world.ask(WRITE);
        world.provider.take();
        assert_eq!(world.provider.taken.len(), 1);
        world.begin();
        world.fill(2);
        world.ask(WRITE);
        world.provider.take();
        assert_eq!(world.provider.taken.len(), 1, "the write of before is under way");
        world.finish();
        assert_eq!((world.status(), world.provider.content[0]), (0xff, 1));
        world.finish();
        assert_eq!((world.status(), world.provider.content[0]), (0, 2));
    }

    #[test]
    fn what_a_provider_has_not_got_is_not_written_after_a_reset() {
        let mut world = World::new();
        let BlockClient { requests, answers, .. } = world.connection;
        let mut next_life = Port::new(requests, answers, 63, 256);
        next_life.begin();
        let _ = next_life.end_round(true);
        world.fill(1);
        world.ask(WRITE);
        world.begin();
        world.fill(2);
        world.ask(WRITE);
        world.provider = world.provider.restarted(next_life);
        world.settle();
        assert_eq!((world.status(), &world.provider.results[..]), (0, &[Ok(())][..]));
        assert_eq!(world.provider.content[0], 2);
    }

    #[test]
    fn another_medium_gets_nothing_that_was_meant_for_the_one_of_before() {
        let mut world = World::new();
        world.provider.insert(Properties::ABSENT);
        world.settle();
        world.provider.insert(Properties::new(100, 2));
        world.settle();
        world.fill(5);
        world.ask(WRITE);
        world.finish();
        assert_eq!((world.status(), world.provider.content[0]), (1, 0));
        world.begin();
        world.ask(WRITE);
        world.finish();
        assert_eq!((world.status(), world.provider.content[0]), (0, 5));
    }
}
