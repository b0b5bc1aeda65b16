//! Data of files on its way: in turn of the clients, as much as the disk takes.

use super::{Service, Tag};
use crate::client::Item;
use crate::counters;
use crate::errors::of_disk;
use crate::open::Kind;
use crate::slots;
use crate::transfer::Transfer;
use culm_block::{BLOCK, Request, Segment};
use culm_file::{Done, Error, Taken};

/// The most blocks of one client's that are at the disk.
const WINDOW: u32 = 4096;

impl Service {
    /// Returns whether a position in a file is at the beginning of a granule.
    pub(super) fn is_granular(&self, position: u64) -> bool {
        position.is_multiple_of(u64::from(self.granule) * BLOCK as u64)
    }

    /// Begins to read an open file.
    #[inline]
    pub(super) fn begin_read(&mut self, number: usize, taken: Taken) -> Result<(), Error> {
        let open = self.clients.get(number).ok_or(Error::Invalid)?.open(taken.request.file)?;
        let size = match &self.opens.get(open).ok_or(Error::Invalid)?.kind {
            Kind::Reader { size, .. } => *size,
            Kind::Folder(_) => return Err(Error::WrongKind),
            Kind::Writer(_) => return Err(Error::Invalid),
        };
        let next = taken.request.position;
        let end = (next + u64::from(taken.request.length)).min(size);
        if end <= next {
            self.answer(number, &taken, Ok(Done::bytes(0)));
            return Ok(());
        }
        self.begin_transfer(Transfer {
            client: number,
            taken,
            open,
            is_write: false,
            next,
            end,
            outstanding: 0,
            error: None,
            was_asked: false,
            is_asking: false,
        });
        Ok(())
    }

    /// Returns whether a write can begin without the volume.
    ///
    /// # Errors
    ///
    /// The reason why it can never begin.
    pub(super) fn may_write_now(&mut self, number: usize, taken: &Taken) -> Result<bool, Error> {
        let open = self.clients.get(number).ok_or(Error::Invalid)?.open(taken.request.file)?;
        let is_granular = self.is_granular(taken.request.position);
        let writer = self.opens.get_mut(open).and_then(|open| open.writer()).ok_or(Error::Invalid)?;
        if let Some(error) = writer.error {
            return Err(error);
        }
        if taken.request.position != writer.end {
            return Err(Error::Invalid);
        }
        let has_space = writer.end + u64::from(taken.request.length) <= writer.reserved;
        Ok(has_space && (is_granular || writer.edges == 0))
    }

    /// Begins to write behind a file's end, where there is space.
    pub(crate) fn begin_write(&mut self, number: usize, taken: Taken) -> Result<(), Error> {
        let open = self.clients.get(number).ok_or(Error::Invalid)?.open(taken.request.file)?;
        let next = taken.request.position;
        let end = next + u64::from(taken.request.length);
        let has_edge = !(self.is_granular(next) && self.is_granular(end));
        let writer = self.opens.get_mut(open).and_then(|open| open.writer()).ok_or(Error::Invalid)?;
        writer.end = end;
        writer.edges += u32::from(has_edge);
        self.begin_transfer(Transfer {
            client: number,
            taken,
            open,
            is_write: true,
            next,
            end,
            outstanding: 0,
            error: None,
            was_asked: false,
            is_asking: false,
        });
        Ok(())
    }

    #[inline]
    fn begin_transfer(&mut self, transfer: Transfer) {
        let (client, open) = (transfer.client, transfer.open);
        let number = self.transfers.add(transfer);
        if let Some(open) = self.opens.get_mut(open) {
            open.transfers += 1;
        }
        if let Some(client) = self.clients.get_mut(client) {
            client.sending.push_back(number);
        }
    }

    /// Sends data, a request of each client that has some at a time, until nothing more can be
    /// sent. Returns whether somebody waits to be told by the volume where data lies.
    #[inline]
    pub(super) fn send(&mut self) -> bool {
        let count = self.clients.len();
        let mut somebody_asks = false;
        loop {
            let mut has_sent = false;
            for number in (self.sender..count).chain(0..self.sender) {
                if self.clients.get(number).is_none_or(|client| client.sending.is_empty()) {
                    continue;
                }
                match self.send_piece(number) {
                    Sent::Some => has_sent = true,
                    Sent::Unknown => (has_sent, somebody_asks) = (true, true),
                    Sent::None => {}
                }
            }
            if !has_sent {
                break;
            }
            self.sender = (self.sender + 1) % count;
        }
        // A job that is under way goes on when the disk answers.
        somebody_asks && self.job.is_none()
    }

    /// Sends a request for the first of a client's transfers.
    fn send_piece(&mut self, number: usize) -> Sent {
        let Some(client) = self.clients.get_mut(number) else { return Sent::None };
        let Some(&id) = client.sending.front() else { return Sent::None };
        if self.disk.space() == 0 || client.under_way >= WINDOW {
            return Sent::None;
        }
        let place_of_client = client.place;
        let transfer = self.transfers.get_mut(id);
        let Some(transfer) = transfer.filter(|transfer| transfer.client == number && transfer.error.is_none()) else {
            client.sending.pop_front();
            return Sent::Some;
        };
        let file = self.opens.get(transfer.open).and_then(|open| open.file());
        let Some(place) = file.and_then(|file| self.volume.place(file, transfer.next)) else {
            if transfer.is_asking {
                return Sent::None;
            }
            if transfer.was_asked || file.is_none() {
                client.sending.pop_front();
                transfer.error = Some(Error::Damaged);
                self.end_transfer(id);
                return Sent::Some;
            }
            // Others go before a read meanwhile. A write keeps its turn: the next one takes the end
            // of the granule that this one leaves.
            if !transfer.is_write {
                client.sending.pop_front();
            }
            (transfer.was_asked, transfer.is_asking) = (true, true);
            client.items.push_front(Item::Locate(id));
            return Sent::Unknown;
        };
        transfer.was_asked = false;
        let run = place.bytes.min(transfer.end - transfer.next);
        let granule = u64::from(self.granule) * BLOCK as u64;
        let block = place.block - place.block % u64::from(self.granule);
        let from = (place.block - block) * BLOCK as u64 + u64::from(place.offset);
        let memory = place_of_client + transfer.offset(transfer.next);
        let (bytes, blocks, place, tag);
        if from == 0 && run >= granule && memory.is_multiple_of(BLOCK) {
            blocks = (run / granule * u64::from(self.granule)).min(self.most.into()) as u32;
            bytes = u64::from(blocks) * BLOCK as u64;
            (place, tag) = (memory, Tag::Data { transfer: id, blocks });
        } else {
            let Some(slot) = self.slots.take() else { return Sent::None };
            (bytes, blocks, place) = (run.min(granule - from), self.granule, slots::offset(slot));
            let (from, bytes) = (from as u32, bytes as u32);
            tag = Tag::Edge { transfer: id, slot, blocks, from, bytes, to: memory };
            if !transfer.is_write {
                // A device that says that it has read and has not would show what the slot held,
                // which may be another client's.
                let _ = self.memory.clear(place + from as usize, bytes as usize);
            } else if let Some(writer) = self.opens.get_mut(transfer.open).and_then(|open| open.writer()) {
                let (from, end) = (from as usize, (from + bytes) as usize);
                if from == 0 {
                    writer.tail.fill(0);
                }
                if let Some(new) = writer.tail.get_mut(from..end) {
                    let _ = self.memory.read(memory, new);
                }
                let _ = self.memory.write(place, &writer.tail);
            }
        }
        let segment = [Segment { place: (place / BLOCK) as u64, blocks }];
        let request = if transfer.is_write { Request::write(block, &segment) } else { Request::read(block, &segment) };
        if request.is_none_or(|request| self.disk.send(&request, tag).is_err()) {
            if let Tag::Edge { slot, .. } = tag {
                self.slots.give(slot);
            }
            transfer.error = Some(Error::Failed);
            client.sending.pop_front();
            self.end_transfer(id);
            return Sent::Some;
        }
        transfer.next += bytes;
        transfer.outstanding += 1;
        client.under_way += blocks;
        if transfer.next == transfer.end {
            client.sending.pop_front();
        }
        Sent::Some
    }

    /// Takes it that the disk has done a request of a transfer's.
    #[inline]
    pub(super) fn moved(&mut self, id: usize, blocks: u32, result: Result<(), culm_block::Error>) {
        let Some(transfer) = self.transfers.get_mut(id) else { return };
        transfer.outstanding -= 1;
        if let Err(error) = result {
            transfer.error = transfer.error.or(Some(of_disk(error)));
        }
        if let Some(client) = self.clients.get_mut(transfer.client) {
            client.under_way -= blocks;
        }
        self.end_transfer(id);
    }

    /// Ends a transfer if nothing of it is left to do, and answers its request.
    #[inline]
    pub(crate) fn end_transfer(&mut self, id: usize) {
        let Some(transfer) = self.transfers.take_ended(id) else { return };
        let Transfer { client: number, taken, open, is_write, end, error, .. } = transfer;
        if error.is_some()
            && let Some(client) = self.clients.get_mut(number)
        {
            client.sending.retain(|other| *other != id);
        }
        let has_edge = !(self.is_granular(taken.request.position) && self.is_granular(end));
        if let Some(open) = self.opens.get_mut(open) {
            open.transfers -= 1;
            if is_write && let Some(writer) = open.writer() {
                writer.edges -= u32::from(has_edge);
                match error {
                    None => writer.wrote(taken.request.position, end),
                    Some(error) => writer.error = writer.error.or(Some(error)),
                }
            }
        }
        let bytes = end - taken.request.position;
        let counter = if is_write { &counters::BYTES_WRITTEN } else { &counters::BYTES_READ };
        counter.add(bytes);
        self.answer(number, &taken, error.map_or(Ok(Done::bytes(bytes as u32)), Err));
    }
}

/// The result of an attempt to send.
enum Sent {
    /// A request was sent, or a transfer has ended.
    Some,
    /// The volume must say where the bytes lie.
    Unknown,
    /// Nothing can be sent now.
    None,
}
