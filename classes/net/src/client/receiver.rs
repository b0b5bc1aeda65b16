//! Receiving: packets are read where they lie, and their buffers go back.
//!
//! Where the buffers are the client's own, packets that a copier has passed on outlive it: nobody
//! writes them but a copier that this client gives the buffers to, and it gives them to the next
//! one only after it has read what the previous one left. In the device's buffers, packets are void
//! as soon as the virtualiser is another: the device may be writing there. Where the device is used
//! bare, packets that a driver has passed on outlive it too: the device had returned their buffers.

#![allow(unsafe_code)]

use crate::descriptor::flags::DEVICE;
use crate::header::flags::{CHECKSUM_VALID, NEEDS_CHECKSUM};
use crate::{
    BufferEntry, Descriptor, DmaDescriptor, HEADROOM, Mac, PacketHeader, Slots, checksum, lendable, release_batch, wire,
};
use culm::connection::{NetBare, NetClient};
use culm::link::Event;
use culm::queue::Producer;
use culm::{Link, Progress, Region};

/// The receiving half of a client.
#[derive(Debug)]
pub struct Receiver<E: BufferEntry = Descriptor> {
    /// The link: filled buffers come, free ones go.
    link: Link<E>,
    data: Region,
    slots: Slots,
    /// Whether the buffers are this client's own: then it provides them.
    owner: bool,
    /// The client's address: of a bare device, frames for others come too.
    mac: Mac,
    /// Flags of the device's offloads, from the last packet.
    device: u16,
    /// Whether a large buffer was read since buffers were last returned.
    read_large: bool,
}

/// A received packet. Its buffer goes back when this is dropped.
#[derive(Debug)]
pub struct Packet<'a, E: BufferEntry = Descriptor> {
    bytes: &'a [u8],
    /// The entry by which the buffer goes back.
    empty: E,
    device: u16,
    free: &'a mut Producer<E>,
}

impl<E: BufferEntry> Packet<'_, E> {
    /// Returns the Ethernet frame.
    #[inline(always)]
    pub fn frame(&self) -> &[u8] {
        &self.bytes[HEADROOM..]
    }

    /// Returns the packet header.
    #[inline(always)]
    pub fn header(&self) -> PacketHeader {
        match self.bytes.first_chunk() {
            Some(bytes) => PacketHeader::read(bytes),
            None => PacketHeader::default(),
        }
    }

    /// Returns the flags of the device's offloads ([`flags`](crate::descriptor::flags)), which each
    /// packet carries.
    #[inline(always)]
    pub fn device(&self) -> u16 {
        self.device
    }

    /// Returns whether its TCP or UDP checksum is right: as the device says, if it does, else by
    /// computing it. (A packet whose checksum the sender left out was never on a wire.) True for
    /// other packets.
    #[inline(always)]
    pub fn is_intact(&self) -> bool {
        self.bytes[0] & (NEEDS_CHECKSUM | CHECKSUM_VALID) != 0 || checksum::is_right(self.frame())
    }
}

impl<E: BufferEntry> Drop for Packet<'_, E> {
    #[inline(always)]
    fn drop(&mut self) {
        // This push does not fail: the queue has space for all buffers that are lent.
        let _ = self.free.push(self.empty);
    }
}

impl Receiver<DmaDescriptor> {
    pub(super) fn bare(connection: &NetBare) -> Self {
        let limit = lendable(connection.rx_free.capacity.min(connection.rx_filled.capacity));
        Self {
            link: Link::new(connection.rx_free, connection.rx_filled, connection.rx_channel),
            data: Region::read_only(connection.rx_data),
            slots: Slots::new(connection.rx_data.size, connection.buffer_size, limit),
            owner: true,
            mac: Mac::new(connection.mac),
            device: 0,
            read_large: false,
        }
    }
}

impl Receiver {
    pub(super) fn new(connection: &NetClient) -> Self {
        let limit = lendable(connection.rx_free.capacity.min(connection.rx_filled.capacity));
        let limit = if connection.owns_rx != 0 { limit } else { u32::MAX };
        Self {
            link: Link::new(connection.rx_free, connection.rx_filled, connection.rx_channel),
            data: Region::read_only(connection.rx_data),
            slots: Slots::with_large(connection.rx_data.size, connection.buffer_size, connection.rx_large, limit),
            owner: connection.owns_rx != 0,
            mac: Mac::new(connection.mac),
            device: 0,
            read_large: false,
        }
    }
}

impl<E: BufferEntry> Receiver<E> {
    /// Returns the flags of the device's offloads, as far as they are known.
    #[inline(always)]
    pub(super) fn device(&self) -> u16 {
        self.device
    }

    /// Returns how many packets can wait to be received.
    #[cfg(feature = "stack")]
    pub(crate) fn capacity(&self) -> u32 {
        self.link.input.capacity()
    }

    #[inline(always)]
    pub(super) fn begin(&mut self) {
        if !self.link.look() {
            self.start_over();
        }
    }

    /// The pair of queues starts over, once what the peer's previous life has passed on is
    /// received.
    #[cold]
    fn start_over(&mut self) {
        let is_left = self.owner && self.link.input.available() > 0;
        if !is_left && self.link.reconnect() == Event::Renewed {
            self.provide();
        }
    }

    /// Returns the next packet of those that were there at the beginning of the round.
    #[inline]
    pub fn receive(&mut self) -> Option<Packet<'_, E>> {
        loop {
            let descriptor = self.link.input.pop_known()?.parts();
            let is_small =
                self.slots.small_number(descriptor.offset).is_some() && self.slots.small_holds(descriptor.length);
            if is_small || self.is_large_packet(descriptor) {
                self.device = descriptor.flags & DEVICE;
                let (offset, length) = (descriptor.offset as usize, usize::from(descriptor.length));
                // SAFETY: [A3, A6] nobody writes the buffer before it goes back, which it does when
                // the packet that has the slice is dropped: not the copier (or device) that filled
                // it, which this client relies on for its data, nor that copier's next life, which
                // has no buffers before `provide`, nor this program, which has the region mapped
                // read-only.
                let Ok(bytes) = (unsafe { self.data.slice(offset, length) }) else { continue };
                let empty = self.empty(descriptor.offset);
                if E::BARE && !self.is_for_this_station(bytes) {
                    let _ = self.link.output.push(empty);
                    continue;
                }
                return Some(Packet { bytes, empty, device: self.device, free: &mut self.link.output });
            }
            self.refuse(descriptor);
        }
    }

    /// Returns whether an entry is a packet in a large buffer, of which one is read then.
    #[cold]
    fn is_large_packet(&mut self, descriptor: Descriptor) -> bool {
        let is_held =
            self.slots.number(descriptor.offset).is_some_and(|number| self.slots.holds(number, descriptor.length));
        self.read_large |= is_held;
        is_held
    }

    /// Handles an entry that is no packet. If only its length is invalid, its buffer is returned.
    #[cold]
    fn refuse(&mut self, descriptor: Descriptor) {
        if self.slots.number(descriptor.offset).is_some() {
            let empty = self.empty(descriptor.offset);
            let _ = self.link.output.push(empty);
        }
    }

    /// Returns the entry of the empty buffer at `offset`.
    #[inline(always)]
    fn empty(&self, offset: u32) -> E {
        E::of_empty(offset, self.slots.buffer_size(), self.data.dma())
    }

    /// Returns whether a packet is for this client, alone or among others.
    #[inline(always)]
    fn is_for_this_station(&self, packet: &[u8]) -> bool {
        let destination = wire::array(packet, HEADROOM + wire::ethernet::DESTINATION).map(|bytes| Mac::new(*bytes));
        destination.is_some_and(|destination| destination == self.mac || destination.is_group())
    }

    /// Provides all buffers, if they are this client's: the pair of queues starts over, and is
    /// empty.
    #[cold]
    fn provide(&mut self) {
        let count = if self.owner { self.slots.count() } else { 0 };
        for number in 0..count {
            let empty = self.empty(self.slots.offset(number));
            // This push does not fail: the queue has space for as many buffers as may be lent.
            let _ = self.link.output.push(empty);
        }
    }

    #[inline]
    pub(super) fn publish(&mut self) {
        // Return the client's own small buffers in batches: the copier has others. Return large
        // ones, and buffers of the device, at once: few exist, or all clients share them.
        let patience = if self.owner & !self.read_large { release_batch(self.slots.count()) } else { 1 };
        self.read_large = false;
        self.link.publish_many(patience);
    }

    #[inline]
    pub(super) fn sleep(&mut self) -> Progress {
        self.link.sleep()
    }
}

#[cfg(test)]
mod tests;
