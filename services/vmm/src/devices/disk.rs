//! The guest's disk over a connection of the block class.
//!
//! The device reaches the memory of the connection, not the guest's: data is copied once. Each
//! request has a slot of that memory for its own until it is answered. Requests for which there is
//! no slot stay in the guest's queue.

use crate::counters;
use crate::memory::GuestMemory;
use alloc::vec::Vec;
use culm::connection::BlockClient;
use culm::{Progress, ROUNDS, Region, run_rounds};
use culm_block::{BLOCK, Client, NotSent, Segment};
use culm_guest::virtio::block::{Block, Geometry, MAX_BYTES, Operation, Request, SECTOR, Status};

const _: () = assert!(SECTOR == BLOCK as u64);

/// The connection behind the disk.
pub struct Disk {
    client: Client<u16>,
    data: Region,
    /// Bytes of a slot, whole blocks.
    slot: usize,
    /// The request that has each slot.
    requests: Vec<Option<Request>>,
    /// How often the provider had said what the disk is when the guest was last told.
    told: u32,
}

impl Disk {
    /// Takes the connection up.
    pub fn new(connection: &BlockClient) -> Self {
        let data = Region::new(connection.data);
        let slot = (MAX_BYTES as usize).min(data.len()) / BLOCK * BLOCK;
        // A slot's number has 16 bits, and more than the guest's queue has are of no use.
        let count = data.len().checked_div(slot).unwrap_or(0).min(culm_guest::virtio::queue::MAX_SIZE.into());
        let requests = (0..count).map(|_| None).collect();
        Self { client: Client::connect(connection), data, slot, requests, told: 0 }
    }

    /// Returns whether the provider has said what the disk is.
    pub fn is_known(&self) -> bool {
        self.client.disk().is_some()
    }

    /// Carries requests and answers.
    pub fn carry(&mut self, device: &mut Block, memory: &GuestMemory) {
        run_rounds(ROUNDS, || self.round(device, memory));
    }

    fn round(&mut self, device: &mut Block, memory: &GuestMemory) -> Progress {
        self.client.begin();
        while let Some(completion) = self.client.next_completion() {
            let request = self.requests.get_mut(usize::from(completion.tag)).and_then(Option::take);
            // Of a guest that has begun anew, the memory is another's by now.
            let Some(request) = request.filter(|request| device.is_awaited(request)) else { continue };
            let is_done = completion.result.is_ok() && self.copy_out(&request, completion.tag, memory);
            self.answer(device, memory, &request, is_done);
        }
        self.tell(device);
        let mut has_more = false;
        for _ in 0..self.requests.len() {
            let slot = self.requests.iter().position(Option::is_none).filter(|_| self.client.space() > 0);
            has_more = slot.is_some() && self.is_known() && device.has_request(memory);
            let Some(slot) = slot.filter(|_| has_more) else { break };
            let Some(request) = device.next_request(memory) else { continue };
            self.send(device, memory, request, slot as u16);
        }
        device.publish(memory);
        let progress = self.client.end_round();
        // The guest may have asked just before it was asked to ring.
        let is_free = self.client.space() > 0 && self.requests.iter().any(Option::is_none);
        progress & Progress::more_if(has_more || is_free && self.is_known() && device.has_request(memory))
    }

    /// Tells the guest what the disk is, if that has changed.
    fn tell(&mut self, device: &mut Block) {
        let Some(disk) = self.client.disk().filter(|_| self.client.shown() != self.told) else { return };
        self.told = self.client.shown();
        device.set_geometry(&Geometry {
            sectors: disk.blocks,
            block: (BLOCK as u32) << disk.granule,
            most: (self.slot as u64).min(u64::from(disk.most) * SECTOR),
            read_only: disk.read_only,
        });
    }

    /// Sends a request, or answers one that cannot be sent.
    fn send(&mut self, device: &mut Block, memory: &GuestMemory, request: Request, slot: u16) {
        counters::DISK_REQUESTS.add(1);
        let segment =
            Segment { place: (usize::from(slot) * self.slot / BLOCK) as u64, blocks: (request.bytes / SECTOR) as u32 };
        let fits = request.bytes <= self.slot as u64;
        let made = match request.operation {
            Operation::Flush => Some(culm_block::Request::flush()),
            Operation::Read => culm_block::Request::read(request.sector, &[segment]).filter(|_| fits),
            Operation::Write => culm_block::Request::write(request.sector, &[segment])
                .filter(|_| fits && self.copy_in(&request, slot, memory)),
        };
        let sent = made.is_some_and(|made| match self.client.send(&made, slot) {
            Ok(()) => true,
            // There is space, and the disk is known: it is the disk that does not take it.
            Err(NotSent::Full | NotSent::Unknown | NotSent::Refused(_)) => false,
        });
        if sent {
            self.requests[usize::from(slot)] = Some(request);
        } else {
            self.answer(device, memory, &request, false);
        }
    }

    fn answer(&self, device: &mut Block, memory: &GuestMemory, request: &Request, is_done: bool) {
        if !is_done {
            counters::DISK_FAILURES.add(1);
        }
        device.answer(memory, request, if is_done { Status::Done } else { Status::Failed });
    }

    /// Copies what the guest writes into the slot. Returns false if it is not in its memory.
    fn copy_in(&self, request: &Request, slot: u16, memory: &GuestMemory) -> bool {
        let mut at = usize::from(slot) * self.slot;
        request.source().all(|part| {
            let place = at;
            at += part.length as usize;
            let copied = GuestMemory::offset(part.address)
                .and_then(|offset| memory.region().copy(offset, &self.data, place, part.length as usize).ok());
            copied.is_some()
        })
    }

    /// Copies what the guest has read out of the slot. Returns false if it is not to its memory.
    fn copy_out(&self, request: &Request, slot: u16, memory: &GuestMemory) -> bool {
        if request.operation != Operation::Read {
            return true;
        }
        let mut at = usize::from(slot) * self.slot;
        request.target().all(|part| {
            let place = at;
            at += part.length as usize;
            let copied = GuestMemory::offset(part.address)
                .and_then(|offset| self.data.copy(place, memory.region(), offset, part.length as usize).ok());
            copied.is_some()
        })
    }
}
