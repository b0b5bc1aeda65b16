//! Receiving: packets are read where they lie, and their buffers go back.
//!
//! Where the buffers are the client's own, packets that a copier has passed on outlive it: nobody writes them but a copier
//! that this client gives the buffers to, and it gives them to the next one only after it has read what the previous one
//! left. In the device's buffers, packets are void as soon as the virtualiser is another: the device may be writing there.

#![allow(unsafe_code)]

use crate::descriptor::flags::DEVICE;
use crate::header::flags::{CHECKSUM_VALID, NEEDS_CHECKSUM};
use crate::{Descriptor, HEADROOM, PacketHeader, Slots, checksum, lendable, put_off};
use culm::connection::NetClient;
use culm::link::Event;
use culm::queue::Producer;
use culm::{Link, Region};

/// The receiving half of a client.
#[derive(Debug)]
pub struct Receiver {
    /// Filled buffers come, free ones go.
    link: Link<Descriptor>,
    data: Region,
    slots: Slots,
    /// The buffers are this client's own: it provides them.
    owner: bool,
    /// What the device can do, as the last packet said.
    device: u16,
    /// A large buffer was read since buffers were last returned.
    read_large: bool,
}

/// A received packet. Its buffer goes back when this is dropped.
#[derive(Debug)]
pub struct Packet<'a> {
    bytes: &'a [u8],
    offset: u32,
    device: u16,
    free: &'a mut Producer<Descriptor>,
}

impl Packet<'_> {
    /// The Ethernet frame.
    #[inline(always)]
    pub fn frame(&self) -> &[u8] {
        &self.bytes[HEADROOM..]
    }

    /// What the device says about it.
    #[inline(always)]
    pub fn header(&self) -> PacketHeader {
        match self.bytes.first_chunk() {
            Some(bytes) => PacketHeader::read(bytes),
            None => PacketHeader::default(),
        }
    }

    /// What the device can do ([`flags`](crate::descriptor::flags)), which each packet says anew.
    #[inline(always)]
    pub fn device(&self) -> u16 {
        self.device
    }

    /// Whether its TCP or UDP checksum is right: by the device's word where it gives that, else by computing it. (A packet
    /// whose checksum the sender left out was never on a wire.) True for other packets.
    #[inline(always)]
    pub fn is_intact(&self) -> bool {
        self.bytes[0] & (NEEDS_CHECKSUM | CHECKSUM_VALID) != 0 || checksum::is_right(self.frame())
    }
}

impl Drop for Packet<'_> {
    #[inline(always)]
    fn drop(&mut self) {
        // There is space: the queue has room for all buffers that are lent.
        let _ = self.free.push(Descriptor::empty(self.offset));
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
            device: 0,
            read_large: false,
        }
    }

    /// What the device can do, as far as it is known.
    #[inline(always)]
    pub(super) fn device(&self) -> u16 {
        self.device
    }

    /// Packets that can wait to be received.
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

    /// The pair of queues starts over, once what the peer's previous life has passed on is received.
    #[cold]
    fn start_over(&mut self) {
        let is_left = self.owner && self.link.input.available() > 0;
        if !is_left && self.link.settle() == Event::Renewed {
            self.provide();
        }
    }

    /// The next packet of those that were there at the beginning of the round.
    #[inline]
    pub fn receive(&mut self) -> Option<Packet<'_>> {
        loop {
            let descriptor = self.link.input.pop_known()?;
            let place = self.slots.number(descriptor.offset);
            if let Some(number) = place
                && self.slots.holds(number, descriptor.length)
            {
                self.device = descriptor.flags & DEVICE;
                self.read_large |= self.slots.is_large(number);
                let (offset, length) = (descriptor.offset as usize, usize::from(descriptor.length));
                // SAFETY: nobody writes the buffer before it goes back, which it does when the packet that has the slice is
                // dropped: not the copier (or device) that filled it, which this client relies on for its data, nor
                // that copier's next life, which has no buffers before `provide`, nor this program, which has the
                // region mapped read-only.
                let Ok(bytes) = (unsafe { self.data.slice(offset, length) }) else { continue };
                return Some(Packet {
                    bytes,
                    offset: descriptor.offset,
                    device: self.device,
                    free: &mut self.link.output,
                });
            }
            self.refuse(descriptor);
        }
    }

    /// Deals with an entry that is no packet. One of a length that cannot be gives its buffer back.
    #[cold]
    fn refuse(&mut self, descriptor: Descriptor) {
        if self.slots.number(descriptor.offset).is_some() {
            let _ = self.link.output.push(Descriptor::empty(descriptor.offset));
        }
    }

    /// Provides all buffers, where they are this client's: the pair of queues starts over, and is empty.
    #[cold]
    fn provide(&mut self) {
        let count = if self.owner { self.slots.count() } else { 0 };
        for number in 0..count {
            // There is space for as many as may be lent.
            let _ = self.link.output.push(Descriptor::empty(self.slots.offset(number)));
        }
    }

    #[inline]
    pub(super) fn publish(&mut self) {
        // A copier has enough other small buffers; of a device's, all clients together must not keep too many.
        let patience = if self.owner & !self.read_large { put_off(self.slots.count()) } else { 1 };
        self.read_large = false;
        self.link.publish_many(patience);
    }

    #[inline]
    pub(super) fn sleep(&mut self) -> bool {
        self.link.sleep()
    }
}

#[cfg(test)]
mod tests;
