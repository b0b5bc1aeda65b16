//! Buffers of the virtualiser's own, for frames whose sender is checked.
//!
//! A client can write its buffers at any time, also between a check and the moment at which the
//! device reads them. So the frame of a client that may send from one address only is copied first:
//! the copy is checked, and the copy is sent.
//!
//! Whose frame a buffer holds is recorded in memory that outlives the virtualiser. That record has
//! the number of the client's own buffer too, and the index of the entry by which the driver gets
//! the copy: if that was never published, the next life goes on as if nothing had been copied. See
//! [`crate::resume`].

use alloc::vec::Vec;
use core::sync::atomic::AtomicU64;
use core::sync::atomic::Ordering::Relaxed;
use culm::Region;
use culm::connection::NetTxVirtualiser;
use culm_lending::Shares;
use culm_lending::account::store;
use culm_net::outgoing::{HEAD, may_send};
use culm_net::{HEADROOM, Mac, PacketHeader, Slots};

/// The owner of a buffer's frame, in one word: from the lowest bit on, the packet's length (16
/// bits), the client (6), the number of the client's buffer that it was copied from (16), and the
/// lower bits of the index of the driver's entry. It is 0 if the buffer is empty.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) struct Owner(u64);

impl Owner {
    /// The owner of an empty buffer.
    pub(crate) const NOBODY: Self = Self(0);

    /// Where the index of the driver's entry begins.
    const INDEX: u32 = 38;

    /// Creates the record of a frame of `length` bytes.
    fn new(Source { client, number, index }: Source, length: u16) -> Self {
        const { assert!(culm_lending::ClientSet::MAX <= 64) };
        let of_client = (client as u64 & 0x3f) << 16 | u64::from(number & 0xffff) << 22;
        Self(u64::from(length) | of_client | u64::from(index) << Self::INDEX)
    }

    /// Returns whether the buffer is empty.
    pub(crate) fn is_nobody(self) -> bool {
        self.length() == 0
    }

    pub(crate) fn length(self) -> u16 {
        self.0 as u16
    }

    pub(crate) fn client(self) -> usize {
        (self.0 >> 16 & 0x3f) as usize
    }

    /// Returns the number of the client's buffer.
    pub(crate) fn number(self) -> u32 {
        (self.0 >> 22 & 0xffff) as u32
    }

    /// Returns the first index from `from` on that the driver's entry can have.
    pub(crate) fn index(self, from: u32) -> u32 {
        let mask = u32::MAX >> (Self::INDEX - 32);
        from.wrapping_add(((self.0 >> Self::INDEX) as u32).wrapping_sub(from) & mask)
    }
}

/// The record of each buffer's owner.
#[derive(Clone, Copy)]
pub(crate) struct Owners(&'static [AtomicU64]);

impl Owners {
    /// Creates the record in these words, one for each buffer.
    pub(crate) fn new(words: &'static [AtomicU64]) -> Self {
        Self(words)
    }

    pub(crate) fn get(self, number: u32) -> Option<Owner> {
        Some(Owner(self.0.get(number as usize)?.load(Relaxed)))
    }

    pub(crate) fn set(self, number: u32, owner: Owner) {
        if let Some(word) = self.0.get(number as usize) {
            store(word, owner.0);
        }
    }

    /// Returns the numbers and owners of all buffers.
    pub(crate) fn all(self) -> impl Iterator<Item = (u32, Owner)> + use<> {
        (0..).zip(self.0.iter().map(|word| Owner(word.load(Relaxed))))
    }
}

/// A frame that the driver has sent from one of these buffers.
pub(crate) struct Sent {
    /// The client whose frame it was.
    pub(crate) client: usize,
    pub(crate) length: u16,
    /// Whether the buffer is a large one.
    pub(crate) large: bool,
}

impl Sent {
    fn new(owner: Owner, large: bool) -> Self {
        Self { client: owner.client(), length: owner.length(), large }
    }
}

/// A frame that is to be copied.
#[derive(Clone, Copy)]
pub(crate) struct Source {
    pub(crate) client: usize,
    /// Number of the client's buffer in which it is.
    pub(crate) number: u32,
    /// Index of the entry by which the driver gets the copy.
    pub(crate) index: u32,
}

/// The reason why a packet was not copied.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Refusal {
    /// The client has used its share of the buffers of that size, and none is free besides.
    NoBuffer,
    /// The client may not send it.
    NotAllowed,
}

/// The stock of buffers.
pub(crate) struct Bounce {
    data: Region,
    slots: Slots,
    /// Numbers of small and of large ones that hold nothing.
    idle: [Vec<u32>; 2],
    /// The clients' shares of the large buffers.
    shares: Shares,
    owners: Owners,
}

impl Bounce {
    /// Creates the stock for so many clients whose frames are copied. Some buffers may be being
    /// sent, as `owners` says.
    pub(crate) fn new(connection: &NetTxVirtualiser, owners: Owners, clients: u32) -> Self {
        let slots = Self::slots(connection);
        let idle = (0..slots.count()).rev().filter(|number| owners.get(*number).is_some_and(Owner::is_nobody));
        let (small, large) = idle.partition(|number| !slots.is_large(*number));
        let shares = Shares::new(slots.large(), clients);
        Self { data: Region::new(connection.bounce), slots, idle: [small, large], shares, owners }
    }

    /// Returns the geometry of the buffers.
    pub(crate) fn slots(connection: &NetTxVirtualiser) -> Slots {
        let size = connection.bounce.size;
        Slots::with_large(size, connection.buffer_size, connection.bounce_large, 1 << 16)
    }

    /// Returns the frames that are being sent.
    pub(crate) fn in_flight(&self) -> impl Iterator<Item = Sent> + use<> {
        let slots = self.slots;
        let sent =
            move |(number, owner): (u32, Owner)| (!owner.is_nobody()).then(|| Sent::new(owner, slots.is_large(number)));
        self.owners.all().filter_map(sent)
    }

    /// Grants a client the large buffer that a frame of it is in since the previous life.
    pub(crate) fn restore(&mut self, large_copies: &mut u32) {
        let _ = self.shares.take(large_copies);
    }

    /// Copies a packet whose client may send from the address `only` and uses `large_copies` of the
    /// large buffers. Returns the number of the buffer that holds the copy now: see [`Self::send`].
    ///
    /// The beginning is copied first, and checked in the copy, which the client cannot change. So a
    /// refused packet costs no more than that, however long it is.
    ///
    /// # Errors
    ///
    /// [`Refusal`], which says whether trying again later can help.
    pub(crate) fn copy(&mut self, packet: &Region, only: Mac, large_copies: &mut u32) -> Result<u32, Refusal> {
        let large = packet.len() > self.slots.buffer_size();
        if large && !self.shares.take(large_copies) {
            return Err(Refusal::NoBuffer);
        }
        let copied = match self.idle[usize::from(large)].pop() {
            None => Err(Refusal::NoBuffer),
            Some(number) if self.copy_into(packet, number, only) => Ok(number),
            Some(number) => {
                self.idle[usize::from(large)].push(number);
                Err(Refusal::NotAllowed)
            }
        };
        if large && copied.is_err() {
            self.shares.repay(large_copies);
        }
        copied
    }

    /// Records that the copy in buffer `number` was pushed to the driver.
    pub(crate) fn send(&mut self, number: u32, source: Source, length: u16) {
        self.owners.set(number, Owner::new(source, length));
    }

    /// Copies a packet into a buffer. Returns false if it may not be sent.
    fn copy_into(&self, packet: &Region, number: u32, only: Mac) -> bool {
        let offset = self.slots.offset(number) as usize;
        let first = packet.len().min(HEADROOM + HEAD);
        packet.copy(0, &self.data, offset, first).is_ok()
            && self.is_allowed(offset, packet.len(), only)
            && packet.copy(first, &self.data, offset + first, packet.len() - first).is_ok()
    }

    /// Returns whether the packet of `length` bytes whose beginning was copied to `offset` may be
    /// sent.
    fn is_allowed(&self, offset: usize, length: usize, only: Mac) -> bool {
        let mut beginning = [0; HEADROOM + HEAD];
        let bytes = &mut beginning[..length.min(HEADROOM + HEAD)];
        if self.data.read(offset, bytes).is_err() {
            return false;
        }
        let Some((header, head)) = bytes.split_first_chunk() else { return false };
        may_send(PacketHeader::read(header), head, length - HEADROOM, only)
    }

    /// Returns the address at which the device sees a buffer.
    pub(crate) fn dma(&self, number: u32) -> u64 {
        self.data.dma() + u64::from(self.slots.offset(number))
    }

    /// Takes back a buffer that the driver returns; `None` if it was not being sent.
    pub(crate) fn sent(&mut self, number: u32) -> Option<Sent> {
        let owner = self.owners.get(number).filter(|owner| !owner.is_nobody())?;
        self.owners.set(number, Owner::NOBODY);
        let large = self.slots.is_large(number);
        self.idle[usize::from(large)].push(number);
        Some(Sent::new(owner, large))
    }

    /// Gives back a client's share of a large buffer that it used.
    pub(crate) fn free_large(&mut self, large_copies: &mut u32) {
        self.shares.repay(large_copies);
    }

    /// Returns the count of buffers.
    pub(crate) fn count(&self) -> u32 {
        self.slots.count()
    }
}
