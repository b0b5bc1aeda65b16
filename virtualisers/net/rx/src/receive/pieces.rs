//! Frames that lie in several buffers (VIRTIO 1.2 §5.1.6.4, mergeable receive buffers).
//!
//! The first buffer's header says how many there are; the others hold nothing but bytes of the
//! frame, and follow in order. Here the buffers are collected, over several rounds if need be, and
//! given to a client all or none, so that a reader finds a frame whole. A frame that contradicts
//! itself is dropped whole.

use super::distribution::Distribution;
use alloc::vec::Vec;
use culm_lending::Holders;
use culm_net::descriptor::flags::{CONTINUES, DEVICE};
use culm_net::slots::LARGEST_PACKET;
use culm_net::{Descriptor, HEADROOM, Mac};

/// Buffers of a frame at most: as many as the longest frame fills, and one more.
pub(super) const MAX: usize = LARGEST_PACKET.div_ceil(culm_net::BUFFER_SIZE as usize) + 1;

/// A frame that is being collected.
#[derive(Default)]
pub(super) struct Frame {
    /// Its buffers so far. Neither the driver nor a client holds them.
    pieces: Vec<Piece>,
    /// Number of buffers that are to come.
    missing: usize,
    destination: Option<Mac>,
    /// Flags of its entries, for the client.
    flags: u16,
    /// Whether it is no valid frame.
    broken: bool,
}

/// One buffer of a frame.
pub(super) struct Piece {
    pub(super) number: u32,
    pub(super) length: u16,
}

impl Frame {
    pub(super) fn new() -> Self {
        Self { pieces: Vec::with_capacity(MAX), ..Self::default() }
    }

    /// Returns whether the next buffer is one of this frame's.
    #[inline(always)]
    pub(super) fn is_partial(&self) -> bool {
        self.missing > 0
    }
}

impl Distribution {
    /// Takes the first of `count` buffers, more than one, that hold a frame. Its entry is before
    /// index `through`.
    #[cold]
    pub(super) fn begin_frame(&mut self, piece: Piece, flags: u16, destination: Mac, count: usize, through: u32) {
        // The first buffer counts among the driver's until it is taken.
        if count > MAX || !self.driver_has(count) {
            // The entries that follow are not taken as pieces: there may never be so many, and
            // those that came would be kept for ever.
            self.tally.invalid += 1;
            self.stock.drop_entry(piece.number);
            return;
        }
        self.account.begin_run(through.wrapping_sub(1));
        self.frame.missing = count;
        self.frame.destination = Some(destination);
        self.frame.flags = flags & DEVICE;
        self.frame.broken = false;
        self.add_piece(piece, through);
    }

    /// Returns whether the driver has at least so many buffers. A device that has announced a frame
    /// has filled all of the frame's buffers, so those that have not come yet are still with the
    /// driver.
    fn driver_has(&self, count: usize) -> bool {
        self.stock.holders.all().filter(|(_, holders)| holders.is_driver()).take(count).count() == count
    }

    /// Takes the next buffer of the frame that is being collected. Its entry is before index
    /// `through`.
    #[cold]
    pub(super) fn add_piece(&mut self, piece: Piece, through: u32) {
        self.stock.holders.set(piece.number, Holders::NOBODY);
        let frame = &mut self.frame;
        frame.broken |= piece.length == 0 || usize::from(piece.length) > self.stock.slots.buffer_size();
        frame.pieces.push(piece);
        frame.missing -= 1;
        if frame.missing == 0 {
            self.finish_frame(through);
        }
    }

    fn finish_frame(&mut self, through: u32) {
        let pieces = core::mem::take(&mut self.frame.pieces);
        let length: usize = pieces.iter().map(|piece| usize::from(piece.length)).sum();
        let destination = self.frame.destination.take();
        let mut holders = Holders::NOBODY;
        match destination.filter(|_| !self.frame.broken && length <= LARGEST_PACKET) {
            None => self.tally.invalid += 1,
            Some(destination) if destination.is_group() => {
                for index in 0..self.clients.len() {
                    holders = holders.and(self.deliver_pieces(index, &pieces, through));
                }
            }
            Some(destination) => match self.find(destination) {
                Some(index) => holders = self.deliver_pieces(index, &pieces, through),
                None => self.tally.unknown += 1,
            },
        }
        if holders != Holders::NOBODY {
            self.tally.packets += 1;
            self.tally.bytes += (length - HEADROOM) as u64;
            for piece in &pieces {
                self.stock.holders.set(piece.number, holders);
            }
        }
        self.give_up(pieces);
    }

    /// Makes the buffers that no client got idle, and keeps the list's memory for the next frame.
    /// No frame is under way any more.
    fn give_up(&mut self, mut pieces: Vec<Piece>) {
        self.account.end_run();
        for piece in pieces.drain(..) {
            if self.stock.holders.get(piece.number) == Some(Holders::NOBODY) {
                self.stock.idle.push(piece.number);
            }
        }
        self.frame.pieces = pieces;
    }

    /// Gives up a partial frame, because the driver starts over or the device was reset: the
    /// missing buffers will not come.
    pub(super) fn forget_frame(&mut self) {
        self.frame.missing = 0;
        let pieces = core::mem::take(&mut self.frame.pieces);
        self.give_up(pieces);
    }

    /// Gives a frame to a client, if it has room for all of its buffers. Returns the client then,
    /// and nobody if not.
    fn deliver_pieces(&mut self, index: usize, pieces: &[Piece], through: u32) -> Holders {
        if self.clients.get(index).is_none_or(|client| client.held >= self.stock.batch) {
            self.take_returned(index);
        }
        self.active.insert(index);
        let Some(client) = self.clients.get_mut(index) else { return Holders::NOBODY };
        let count = pieces.len() as u32;
        if !client.link.is_live() {
            self.tally.full += 1;
            return Holders::NOBODY;
        }
        if !self.take_shares(index, count) {
            self.tally.share += 1;
            return Holders::NOBODY;
        }
        // Look the client up after its shares were taken, which may have found that it starts over.
        let Some(client) = self.clients.get_mut(index) else { return Holders::NOBODY };
        let output = &mut client.link.output;
        if output.free() < count && output.refresh() < count {
            for _ in 0..count {
                self.stock.shares.repay(&mut client.held);
            }
            self.tally.full += 1;
            return Holders::NOBODY;
        }
        for (at, piece) in pieces.iter().enumerate() {
            let more = if at + 1 < pieces.len() { CONTINUES } else { 0 };
            let offset = self.stock.offset(piece.number);
            // There is space for all pieces, as was just checked.
            let _ = output.push(Descriptor { offset, length: piece.length, flags: self.frame.flags | more });
        }
        client.account.set_progress(client.link.output.position(), through);
        self.stock.lent += count;
        Holders::client(index)
    }

    /// Takes `count` pieces of a client's share, or none. Returns whether it did.
    fn take_shares(&mut self, index: usize, count: u32) -> bool {
        for attempt in 0..2 {
            let Some(client) = self.clients.get_mut(index) else { return false };
            let taken = (0..count).take_while(|_| self.stock.shares.take(&mut client.held)).count() as u32;
            if taken == count {
                return true;
            }
            for _ in 0..taken {
                self.stock.shares.repay(&mut client.held);
            }
            if attempt == 0 {
                self.take_returned(index);
            }
        }
        false
    }
}
