//! Receiving: packets are read where they lie, and their buffers go back.

#![allow(unsafe_code)]

use crate::descriptor::flags::DEVICE;
use crate::header::flags::{CHECKSUM_VALID, NEEDS_CHECKSUM};
use crate::session::{Event, Marked, Marker};
use crate::{Descriptor, HEADROOM, PacketHeader, Session, Slots, checksum, lendable, put_off};
use culm::connection::NetClient;
use culm::queue::{Consumer, Producer};
use culm::{Channel, Region, queue};

/// The receiving half of a client.
#[derive(Debug)]
pub struct Receiver {
    filled: Consumer<Descriptor>,
    free: Producer<Descriptor>,
    data: Region,
    slots: Slots,
    session: Session,
    channel: Channel,
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
        let filled = queue::consumer(connection.rx_filled);
        let mut free = queue::producer(connection.rx_free);
        let limit = lendable(connection.rx_free.capacity.min(connection.rx_filled.capacity));
        let limit = if connection.owns_rx != 0 { limit } else { u32::MAX };
        let session = Session::begin(&mut free);
        Self {
            filled,
            free,
            data: Region::read_only(connection.rx_data),
            slots: Slots::with_large(connection.rx_data.size, connection.buffer_size, connection.rx_large, limit),
            session,
            channel: Channel::new(connection.rx_channel),
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
        self.filled.capacity()
    }

    #[inline(always)]
    pub(super) fn begin(&mut self) {
        self.filled.refresh();
    }

    /// The next packet of those that were there at the beginning of the round.
    #[inline]
    pub fn receive(&mut self) -> Option<Packet<'_>> {
        loop {
            let descriptor = self.filled.pop_known()?;
            let place = self.slots.number(descriptor.offset);
            if let Some(number) = place
                && self.slots.holds(number, descriptor.length) & self.session.is_live()
            {
                self.device = descriptor.flags & DEVICE;
                self.read_large |= self.slots.is_large(number);
                let (offset, length) = (descriptor.offset as usize, usize::from(descriptor.length));
                // SAFETY: nobody writes the buffer before it goes back, which it does when the packet that has the slice is
                // dropped: not the copier (or device) that filled it, which this client relies on for its data, nor
                // this program, which has the region mapped read-only.
                let Ok(bytes) = (unsafe { self.data.slice(offset, length) }) else { continue };
                return Some(Packet { bytes, offset: descriptor.offset, device: self.device, free: &mut self.free });
            }
            self.examine(descriptor);
        }
    }

    /// Deals with an entry that is no packet.
    #[cold]
    fn examine(&mut self, descriptor: Descriptor) {
        match descriptor.as_marker() {
            Some(marker) => {
                self.session.receive(marker);
                if matches!(marker, Marker::Welcome(_)) {
                    self.renew();
                }
            }
            // A packet of a length that cannot be: its buffer goes back.
            None if self.session.is_live() && self.slots.number(descriptor.offset).is_some() => {
                let _ = self.free.push(Descriptor::empty(descriptor.offset));
            }
            None => {}
        }
    }

    /// Answers markers; where the pair of queues starts over, provides all buffers.
    #[cold]
    fn renew(&mut self) {
        if self.session.settle(&mut self.free) == Event::Renewed && self.owner {
            for number in 0..self.slots.count() {
                if self.free.push(Descriptor::empty(self.slots.offset(number))).is_err() {
                    // Markers took the space; a few buffers stay unused until the queues start over again.
                    break;
                }
            }
        }
    }

    #[inline]
    pub(super) fn publish(&mut self) {
        if !self.session.is_live() {
            self.renew();
        }
        // A copier has enough other small buffers; of a device's, all clients together must not keep too many.
        let patience = if self.owner & !self.read_large { put_off(self.slots.count()) } else { 1 };
        self.read_large = false;
        let returned = self.free.publish_many(patience);
        let taken = self.session.may_release() && self.filled.release_many(put_off(self.filled.capacity()));
        if returned | taken {
            self.channel.notify();
        }
    }

    #[inline]
    pub(super) fn sleep(&mut self) -> bool {
        if self.session.is_live() { self.filled.sleep() } else { self.session.sleep(&mut self.free, &mut self.filled) }
    }
}
