//! Buffers of the virtualiser's own, for frames whose sender is checked.
//!
//! A client can write its buffers at any time, also between a check and the moment at which the
//! device reads them. So the frame of a client that may send from one address only is copied first:
//! the copy is checked, and the copy is sent.

use alloc::boxed::Box;
use alloc::vec;
use alloc::vec::Vec;
use culm::Region;
use culm::connection::NetTxVirtualiser;
use culm_net::outgoing::{HEAD, may_send};
use culm_net::{HEADROOM, Mac, PacketHeader, Shares, Slots};

/// The owner of an empty buffer.
const NOBODY: Owner = Owner { client: u16::MAX, length: 0 };

/// The client whose frame a buffer holds, and the length of the packet.
#[derive(Clone, Copy, PartialEq, Eq)]
struct Owner {
    client: u16,
    length: u16,
}

/// A frame that the driver has sent from one of these buffers.
pub(crate) struct Sent {
    /// The client whose frame it was.
    pub(crate) client: u32,
    pub(crate) length: u16,
    /// Whether the buffer is a large one.
    pub(crate) large: bool,
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
    /// The owner of each buffer's frame.
    owners: Box<[Owner]>,
}

impl Bounce {
    /// Creates the stock for so many clients whose frames are copied.
    pub(crate) fn new(connection: &NetTxVirtualiser, clients: u32) -> Self {
        let data = Region::new(connection.bounce);
        let large = connection.bounce_large;
        let slots = Slots::with_large(data.len() as u64, connection.buffer_size, large, 1 << 16);
        let owners = vec![NOBODY; slots.count() as usize].into_boxed_slice();
        let (small, large) = (0..slots.count()).rev().partition(|number| !slots.is_large(*number));
        Self { data, slots, idle: [small, large], shares: Shares::new(slots.large(), clients), owners }
    }

    /// Copies the packet of client `index`, which may send from the address `only` and uses
    /// `large_copies` of the large buffers.
    ///
    /// The beginning is copied first, and checked in the copy, which the client cannot change. So a
    /// refused packet costs no more than that, however long it is.
    ///
    /// # Errors
    ///
    /// [`Refusal`], which says whether trying again later can help.
    pub(crate) fn copy(
        &mut self,
        packet: &Region,
        index: usize,
        only: Mac,
        large_copies: &mut u32,
    ) -> Result<u32, Refusal> {
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
        match copied {
            Ok(number) => {
                self.owners[number as usize] = Owner { client: index as u16, length: packet.len() as u16 };
            }
            Err(_) if large => self.shares.give_back(large_copies),
            Err(_) => {}
        }
        copied
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
        let owner = self.owners.get_mut(number as usize)?;
        let Owner { client, length } = core::mem::replace(owner, NOBODY);
        if client == NOBODY.client {
            return None;
        }
        let large = self.slots.is_large(number);
        self.idle[usize::from(large)].push(number);
        Some(Sent { client: client.into(), length, large })
    }

    /// Gives back a client's share of a large buffer that it used.
    pub(crate) fn give_back(&mut self, large_copies: &mut u32) {
        self.shares.give_back(large_copies);
    }

    /// Returns the count of buffers.
    pub(crate) fn count(&self) -> u32 {
        self.slots.count()
    }
}
