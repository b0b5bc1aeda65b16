//! The memory of a connection: what has come and is not read, which may grow by chunks of a
//! [pool](super::pool), and what is to be sent and not acknowledged, which has the size that it was
//! made with.

use super::pool::{Chunk, Pool, memory};
use alloc::boxed::Box;
use alloc::vec::Vec;
use culm_tcp::{Connection, Part, Piece};

/// Pieces that can wait to be acknowledged: of memory that is referenced, and of copied bytes.
pub(in crate::stack) const PIECES: usize = 16;

/// The most chunks of one connection.
const MOST_CHUNKS: usize = 64;

/// Bytes that have come, in a ring of chunks that are equally long: one of its own, and those that
/// the [pool](super::pool) has lent.
#[derive(Debug)]
pub(in crate::stack) struct Inbox {
    /// At least one, and no more than `limit`, for which there is room.
    chunks: Vec<Chunk>,
    limit: usize,
    /// The bytes of a chunk, and of all that there are.
    chunk: usize,
    capacity: usize,
    /// Where the first byte is that was not read.
    first: usize,
    /// Whom the pool's chunks are lent to.
    hash: u64,
}

/// Returns the bytes of a chunk, and how many there may be, of a ring that has `bytes` at first
/// and `most` at most.
fn lengths(bytes: usize, most: usize) -> [usize; 2] {
    let chunk = bytes.max(1);
    [chunk, (most / chunk).clamp(1, MOST_CHUNKS)]
}

impl Inbox {
    /// A ring of `bytes`, at least one, which may grow to `most`.
    pub(in crate::stack) fn new(bytes: usize, most: usize) -> Self {
        let [chunk, limit] = lengths(bytes, most);
        let mut chunks = Vec::with_capacity(limit);
        chunks.push(memory(chunk));
        Self { chunks, limit, chunk, capacity: chunk, first: 0, hash: 0 }
    }

    /// Returns the bytes of a ring at first, and those that it may grow to, as [`Self::new`] makes
    /// it.
    pub(in crate::stack) fn windows(bytes: usize, most: usize) -> [u32; 2] {
        let [chunk, limit] = lengths(bytes, most);
        [1, limit].map(|chunks| u32::try_from(chunks * chunk).unwrap_or(u32::MAX))
    }

    #[inline(always)]
    pub(in crate::stack) fn capacity(&self) -> usize {
        self.capacity
    }

    /// Forgets what is in it, and gives back what the pool has lent.
    pub(in crate::stack) fn give_back(&mut self, pool: &mut Pool) {
        self.first = 0;
        if self.chunks.len() > 1 {
            pool.take_back(self.hash, &mut self.chunks, 1);
            self.capacity = self.chunk;
        }
    }

    /// Doubles its capacity, or does less, as far as the pool lends chunks to the peer of this
    /// hash, which is the same until they are given back.
    #[cold]
    #[inline(never)]
    pub(in crate::stack) fn grow(&mut self, pool: &mut Pool, hash: u64) {
        let count = self.chunks.len();
        if count == 1 {
            self.hash = hash;
        }
        // The ring ends in the chunk with the first byte, before that byte: now it goes on in the
        // first new one, and ends behind that.
        let (index, at) = (self.first / self.chunk, self.first % self.chunk);
        let lent = pool.lend(self.hash, count.min(self.limit - count), &mut self.chunks, index);
        self.first += lent * self.chunk;
        self.capacity += lent * self.chunk;
        if lent > 0
            && let Some((new, old)) = self.chunks.split_at_mut_checked(index + lent)
            && let (Some(from), Some(to)) = (old.first(), new.get_mut(index))
        {
            to[..at].copy_from_slice(&from[..at]);
        }
    }

    /// Returns the chunk and the place in it of the byte that is `offset` behind the first that was
    /// not read. `offset` is below the capacity.
    #[inline(always)]
    fn place(&self, offset: usize) -> (usize, usize) {
        let at = self.first + offset;
        let at = if at >= self.capacity { at - self.capacity } else { at };
        if at < self.chunk { (0, at) } else { (at / self.chunk, at % self.chunk) }
    }

    /// Keeps `bytes`, whose place is `offset` bytes behind the first that was not read: as far as
    /// there is room.
    #[inline]
    pub(in crate::stack) fn keep(&mut self, offset: usize, bytes: &[u8]) {
        let room = self.capacity.saturating_sub(offset);
        let bytes = &bytes[..bytes.len().min(room)];
        if bytes.is_empty() {
            return;
        }
        let (index, at) = self.place(offset);
        if let Some(chunk) = self.chunks.get_mut(index)
            && let Some(place) = chunk.get_mut(at..at + bytes.len())
        {
            place.copy_from_slice(bytes);
        } else {
            self.keep_over(index, at, bytes);
        }
    }

    /// Keeps bytes that go over the end of a chunk.
    #[inline(never)]
    fn keep_over(&mut self, mut index: usize, mut at: usize, mut bytes: &[u8]) {
        while let Some(chunk) = self.chunks.get_mut(index) {
            let (here, rest) = bytes.split_at(bytes.len().min(chunk.len() - at));
            chunk[at..at + here.len()].copy_from_slice(here);
            if rest.is_empty() {
                return;
            }
            (bytes, at) = (rest, 0);
            index = if index + 1 == self.chunks.len() { 0 } else { index + 1 };
        }
    }

    /// Returns those of the first `count` bytes that lie side by side.
    #[inline]
    pub(in crate::stack) fn first(&self, count: usize) -> &[u8] {
        let (index, at) = self.place(0);
        let bytes = self.chunks.get(index).and_then(|chunk| chunk.get(at..)).unwrap_or_default();
        &bytes[..bytes.len().min(count)]
    }

    /// Copies the first of `count` bytes; returns how many.
    pub(in crate::stack) fn copy(&self, count: usize, into: &mut [u8]) -> usize {
        let count = count.min(into.len()).min(self.capacity);
        let mut done = 0;
        while done < count {
            let (index, at) = self.place(done);
            let bytes = &self.chunks[index][at..];
            let length = bytes.len().min(count - done);
            into[done..done + length].copy_from_slice(&bytes[..length]);
            done += length;
        }
        count
    }

    /// Drops the first `count` bytes, no more than there are.
    #[inline]
    pub(in crate::stack) fn drop(&mut self, count: usize) {
        let first = self.first + count;
        self.first = if first >= self.capacity { first - self.capacity } else { first };
    }
}

/// Where a piece lies.
#[derive(Clone, Copy, Debug)]
enum Source {
    /// In the ring, from a byte on that is counted from the first ever written.
    Kept { start: u64, length: u32 },
    /// In memory that stays as it is.
    Referenced(&'static [u8]),
}

/// Bytes to be sent: copied ones in a ring, others by reference.
#[derive(Debug)]
pub(in crate::stack) struct Outbox {
    ring: Box<[u8]>,
    /// Bytes ever written to the ring, and of those the ones that are not needed any more.
    written: u64,
    freed: u64,
    /// By the lower bits of their pieces' tokens.
    sources: Box<[Source; PIECES]>,
    /// The next token.
    next: u64,
}

impl Outbox {
    pub(in crate::stack) fn new(bytes: usize) -> Self {
        Self {
            ring: memory(bytes),
            written: 0,
            freed: 0,
            sources: Box::new([Source::Referenced(&[]); PIECES]),
            next: 0,
        }
    }

    /// Forgets all pieces.
    pub(in crate::stack) fn clear(&mut self) {
        (self.written, self.freed, self.next) = (0, 0, 0);
    }

    #[inline(always)]
    fn source(&self, token: u64) -> Source {
        self.sources[token as usize % PIECES]
    }

    /// Takes back a piece that was acknowledged.
    #[inline]
    pub(in crate::stack) fn release(&mut self, token: u64) {
        if let Source::Kept { start, length } = self.source(token) {
            self.freed = start + u64::from(length);
        }
    }

    /// Returns how many bytes [`Self::keep`] takes now.
    #[inline]
    pub(in crate::stack) fn room(&self, connection: &Connection<'static>) -> usize {
        if !connection.has_place() {
            return 0;
        }
        let freed = match connection.first_piece().map(|(token, done)| (self.source(token), done)) {
            Some((Source::Kept { start, .. }, done)) => start + u64::from(done),
            _ => self.freed,
        };
        self.ring.len() - (self.written - freed) as usize
    }

    /// Gives `connection` up to `count` bytes to send that `fill` writes into the ring: it is given
    /// the room that lies side by side, and returns how many bytes it has written.
    #[inline]
    pub(in crate::stack) fn keep(
        &mut self,
        connection: &mut Connection<'static>,
        count: usize,
        fill: impl FnOnce(&mut [u8]) -> usize,
    ) -> usize {
        let room = self.room(connection).min(count);
        if room == 0 {
            return 0;
        }
        let at = (self.written % self.ring.len() as u64) as usize;
        let end = self.ring.len().min(at + room);
        let place = &mut self.ring[at..end];
        let length = fill(place).min(end - at);
        if self.give(connection, length as u32) { length } else { 0 }
    }

    /// Gives `connection` the next `length` bytes of the ring, behind those before if these are the
    /// last that it was given.
    #[inline]
    fn give(&mut self, connection: &mut Connection<'static>, length: u32) -> bool {
        let last = self.next.wrapping_sub(1) as usize % PIECES;
        if let Source::Kept { start, length: before } = self.sources[last]
            && connection.unacknowledged() > 0
            && self.next > 0
            && before as usize + length as usize <= self.ring.len()
            && connection.send_more(length).is_ok()
        {
            self.sources[last] = Source::Kept { start, length: before + length };
            self.written += u64::from(length);
            return true;
        }
        let given = connection.send(Piece { token: self.next, length }).is_ok();
        if given {
            self.sources[self.next as usize % PIECES] = Source::Kept { start: self.written, length };
            self.next += 1;
            self.written += u64::from(length);
        }
        given
    }

    /// Gives `connection` bytes to send that stay where they are; returns how many.
    pub(in crate::stack) fn refer(&mut self, connection: &mut Connection<'static>, bytes: &'static [u8]) -> usize {
        let bytes = &bytes[..bytes.len().min(culm_tcp::MOST_BYTES as usize / 2)];
        if connection.send(Piece { token: self.next, length: bytes.len() as u32 }).is_err() {
            return 0;
        }
        self.sources[self.next as usize % PIECES] = Source::Referenced(bytes);
        self.next += 1;
        bytes.len()
    }

    /// Copies a part of a piece to the start of `into`, which has at least as many bytes; returns
    /// the rest.
    #[inline]
    pub(in crate::stack) fn copy<'a>(&self, part: Part, into: &'a mut [u8]) -> &'a mut [u8] {
        let (offset, length) = (part.offset as usize, (part.length as usize).min(into.len()));
        let (place, rest) = into.split_at_mut(length);
        match self.source(part.token) {
            Source::Referenced(bytes) => {
                if let Some(bytes) = bytes.get(offset..offset + length) {
                    place.copy_from_slice(bytes);
                }
            }
            Source::Kept { start, .. } => {
                let at = ((start + offset as u64) % self.ring.len() as u64) as usize;
                if let Some(bytes) = self.ring.get(at..at + length) {
                    place.copy_from_slice(bytes);
                } else {
                    let (here, over) = place.split_at_mut(self.ring.len() - at);
                    here.copy_from_slice(&self.ring[at..]);
                    over.copy_from_slice(&self.ring[..over.len()]);
                }
            }
        }
        rest
    }
}
