//! Buffers of the virtualiser's own, for frames whose sender is checked.
//!
//! A client can write its buffers at any time, also between a check and the moment at which the device reads them. So the frame of
//! a client that may send from one address only is copied first; what is checked is what is sent.

use alloc::boxed::Box;
use alloc::vec;
use alloc::vec::Vec;
use core::sync::atomic::Ordering::Relaxed;
use culm::Region;
use culm::connection::NetTxVirtualiser;
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

    /// Copies a client's packet. `None`: it asks for what it may not, or does not come from `only`.
    pub(crate) fn copy(&mut self, packet: &Region, client: u32, only: Mac) -> Option<u32> {
        let large = packet.len() > self.slots.buffer_size();
        let number = self.idle[usize::from(large)].pop()?;
        let offset = self.slots.offset(number) as usize;
        let copied = packet.copy(0, &self.data, offset, packet.len()).is_ok();
        if !copied || !self.is_allowed(offset, packet.len(), only) {
            self.idle[usize::from(large)].push(number);
            return None;
        }
        self.owners[number as usize] = client;
        Some(number)
    }

    fn is_allowed(&self, offset: usize, length: usize, only: Mac) -> bool {
        let mut header = [0; HEADROOM];
        let read = self.data.read(offset, &mut header).is_ok();
        read && self.source(offset) == Some(only) && PacketHeader::read(&header).is_sane(length - HEADROOM)
    }

    /// The address that a copied frame says it comes from: the six bytes after the destination.
    fn source(&self, offset: usize) -> Option<Mac> {
        const { assert!(HEADROOM.is_multiple_of(4)) };
        let low = self.data.atomic_u32(offset + HEADROOM + 4).ok()?.load(Relaxed);
        let high = self.data.atomic_u32(offset + HEADROOM + 8).ok()?.load(Relaxed);
        Some(Mac::from_word((u64::from(low) | u64::from(high) << 32) >> 16))
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
