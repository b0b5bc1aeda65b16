//! Buffers of the virtualiser's own, for frames whose sender is checked.
//!
//! A client can write its buffers at any time, also between a check and the moment at which the device reads them. So the frame of
//! a client that may send from one address only is copied first; what is checked is what is sent.

use alloc::boxed::Box;
use alloc::vec;
use alloc::vec::Vec;
use culm::Region;
use culm::connection::NetTxVirtualiser;
use culm_net::outgoing::{HEAD, may_send};
use culm_net::{HEADROOM, Mac, PacketHeader, Slots};

/// No client's frame.
const NOBODY: u32 = u32::MAX;

/// The stock of buffers.
pub(crate) struct Bounce {
    data: Region,
    slots: Slots,
    /// Numbers of small and of large ones that hold nothing.
    idle: [Vec<u32>; 2],
    /// Whose frame each buffer holds.
    owners: Box<[u32]>,
}

impl Bounce {
    pub(crate) fn new(connection: &NetTxVirtualiser) -> Self {
        let data = Region::new(connection.bounce);
        let large = connection.bounce_large;
        let slots = Slots::with_large(data.len() as u64, connection.buffer_size, large, 1 << 16);
        let owners = vec![NOBODY; slots.count() as usize].into_boxed_slice();
        let (small, large) = (0..slots.count()).rev().partition(|number| !slots.is_large(*number));
        Self { data, slots, idle: [small, large], owners }
    }

    /// Whether there is a buffer to copy into, whatever the packet's length.
    #[inline(always)]
    pub(crate) fn is_ready(&self) -> bool {
        let [small, large] = &self.idle;
        !small.is_empty() && (!large.is_empty() || self.slots.large() == 0)
    }

    /// Copies a client's packet. `None`: it is none that a client with the address `only` may send.
    ///
    /// The beginning is copied first, and checked in the copy, which the client cannot change: so what is refused costs no
    /// more than that beginning, however long it is.
    pub(crate) fn copy(&mut self, packet: &Region, client: u32, only: Mac) -> Option<u32> {
        let large = packet.len() > self.slots.buffer_size();
        let number = self.idle[usize::from(large)].pop()?;
        let offset = self.slots.offset(number) as usize;
        let first = packet.len().min(HEADROOM + HEAD);
        let copied = packet.copy(0, &self.data, offset, first).is_ok()
            && self.is_allowed(offset, packet.len(), only)
            && packet.copy(first, &self.data, offset + first, packet.len() - first).is_ok();
        if !copied {
            self.idle[usize::from(large)].push(number);
            return None;
        }
        self.owners[number as usize] = client;
        Some(number)
    }

    /// Whether the packet of `length` bytes whose beginning was copied to `offset` may be sent.
    fn is_allowed(&self, offset: usize, length: usize, only: Mac) -> bool {
        let mut beginning = [0; HEADROOM + HEAD];
        let bytes = &mut beginning[..length.min(HEADROOM + HEAD)];
        if self.data.read(offset, bytes).is_err() {
            return false;
        }
        let Some((header, head)) = bytes.split_first_chunk() else { return false };
        may_send(PacketHeader::read(header), head, length - HEADROOM, only)
    }

    /// Where the device finds a buffer.
    pub(crate) fn dma(&self, number: u32) -> u64 {
        self.data.dma() + u64::from(self.slots.offset(number))
    }

    /// Takes back a buffer that the driver returns; says whose frame it was, or `None` where it was not being sent.
    pub(crate) fn sent(&mut self, number: u32) -> Option<u32> {
        let owner = self.owners.get_mut(number as usize)?;
        let client = core::mem::replace(owner, NOBODY);
        if client == NOBODY {
            return None;
        }
        self.idle[usize::from(self.slots.is_large(number))].push(number);
        Some(client)
    }

    /// Count of buffers.
    pub(crate) fn count(&self) -> u32 {
        self.slots.count()
    }
}
