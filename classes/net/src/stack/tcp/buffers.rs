//! The memory of a connection: what has come and is not read, and what is to be sent and not
//! acknowledged. Both have the size that they were made with.

use alloc::boxed::Box;
use alloc::vec;
use culm_tcp::{Connection, Part, Piece};

/// Pieces that can wait to be acknowledged: of memory that is referenced, and of copied bytes.
pub(in crate::stack) const PIECES: usize = 16;

/// Bytes that have come, in a ring.
#[derive(Debug)]
pub(in crate::stack) struct Inbox {
    ring: Box<[u8]>,
    /// Where the first byte is that was not read.
    first: usize,
}

impl Inbox {
    pub(in crate::stack) fn new(bytes: usize) -> Self {
        Self { ring: vec![0; bytes].into_boxed_slice(), first: 0 }
    }

    pub(in crate::stack) fn capacity(&self) -> usize {
        self.ring.len()
    }

    /// Forgets what is in it.
    pub(in crate::stack) fn clear(&mut self) {
        self.first = 0;
    }

    /// Returns the place that is `offset` bytes behind the first that was not read. `offset` is
    /// below the capacity.
    #[inline(always)]
    fn place(&self, offset: usize) -> usize {
        let at = self.first + offset;
        if at >= self.ring.len() { at - self.ring.len() } else { at }
    }

    /// Keeps `bytes`, whose place is `offset` bytes behind the first that was not read: as far as
    /// there is room.
    #[inline]
    pub(in crate::stack) fn keep(&mut self, offset: usize, bytes: &[u8]) {
        let room = self.ring.len().saturating_sub(offset);
        let bytes = &bytes[..bytes.len().min(room)];
        if bytes.is_empty() {
            return;
        }
        let at = self.place(offset);
        if let Some(place) = self.ring.get_mut(at..at + bytes.len()) {
            place.copy_from_slice(bytes);
        } else {
            let (here, rest) = bytes.split_at(self.ring.len() - at);
            self.ring[at..].copy_from_slice(here);
            self.ring[..rest.len()].copy_from_slice(rest);
        }
    }

    /// Returns those of the first `count` bytes that lie side by side.
    #[inline]
    pub(in crate::stack) fn first(&self, count: usize) -> &[u8] {
        let end = self.ring.len().min(self.first + count);
        &self.ring[self.first..end]
    }

    /// Copies the first of `count` bytes; returns how many.
    pub(in crate::stack) fn copy(&self, count: usize, into: &mut [u8]) -> usize {
        let count = count.min(into.len());
        let here = self.first(count);
        let (start, rest) = into[..count].split_at_mut(here.len());
        start.copy_from_slice(here);
        rest.copy_from_slice(&self.ring[..rest.len()]);
        count
    }

    /// Drops the first `count` bytes, no more than there are.
    #[inline]
    pub(in crate::stack) fn drop(&mut self, count: usize) {
        self.first = if count < self.ring.len() { self.place(count) } else { self.first };
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
            ring: vec![0; bytes].into_boxed_slice(),
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
