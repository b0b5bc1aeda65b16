//! Transmitting: packets are written where the device reads them.

#![allow(unsafe_code)]

use crate::descriptor::flags::CHECKSUM_OFFLOAD;
use crate::header::flags::NEEDS_CHECKSUM;
use crate::session::{Event, Marked};
use crate::{Descriptor, HEADROOM, PacketHeader, Session, Slots, checksum, put_off};
use culm::connection::NetClient;
use culm::queue::{Consumer, Producer};
use culm::{Channel, Region, queue};

/// The transmitting half of a client.
#[derive(Debug)]
pub struct Transmitter {
    filled: Producer<Descriptor>,
    free: Consumer<Descriptor>,
    data: Region,
    slots: Slots,
    session: Session,
    channel: Channel,
    /// What the device can do.
    device: u16,
    /// A buffer that was taken from the queue and not used yet.
    spare: Option<u32>,
    /// Something could not be sent for want of a buffer.
    starved: bool,
}

impl Transmitter {
    pub(super) fn new(connection: &NetClient) -> Self {
        let mut filled = queue::producer(connection.tx_filled);
        let session = Session::begin(&mut filled);
        Self {
            filled,
            free: queue::consumer(connection.tx_free),
            data: Region::new(connection.tx_data),
            slots: Slots::new(connection.tx_data.size, connection.buffer_size, u32::MAX),
            session,
            channel: Channel::new(connection.tx_channel),
            device: 0,
            spare: None,
            starved: false,
        }
    }

    /// The longest frame that can be sent.
    pub fn longest_frame(&self) -> usize {
        self.slots.buffer_size() - HEADROOM
    }

    /// Whether a frame can be sent now. If not, the client gets a turn when one can.
    #[inline]
    pub fn is_ready(&mut self) -> bool {
        if self.spare.is_none() {
            self.spare = self.take();
        }
        self.spare.is_some()
    }

    /// Sends the frame of `length` bytes that `write` makes, with its own checksums complete or to be completed as the header
    /// which it returns says. The bytes that `write` is given are those of some older frame. `None`: no buffer is free, or none
    /// holds `length`.
    #[inline(always)]
    pub fn send<R>(&mut self, length: usize, write: impl FnOnce(&mut [u8]) -> (PacketHeader, R)) -> Option<R> {
        if length > self.longest_frame() {
            return None;
        }
        let offset = if let Some(spare) = self.spare.take() { spare } else { self.take()? };
        let total = HEADROOM + length;
        // SAFETY: the buffer is this client's until it is sent, a few lines down; nobody else may write the region, and of
        // this program only this function touches it, one buffer at a time.
        let bytes = unsafe { self.data.slice_mut(offset as usize, total) }.ok()?;
        let (header, frame) = bytes.split_first_chunk_mut::<HEADROOM>()?;
        let (metadata, result) = write(frame);
        metadata.write(header);
        // There is space: `take` has looked.
        let _ = self.filled.push(Descriptor { offset, length: total as u16, flags: 0 });
        Some(result)
    }

    /// As [`Self::send`], for frames whose TCP or UDP checksum is still to be made: by the device where it does that.
    #[inline]
    pub fn send_with_checksum<R>(&mut self, length: usize, write: impl FnOnce(&mut [u8]) -> R) -> Option<R> {
        let offload = self.offloads_checksum();
        self.send(length, |frame| {
            let result = write(frame);
            (make_checksum(frame, offload), result)
        })
    }

    /// Whether something could not be sent in this round for want of a buffer.
    #[inline(always)]
    pub(super) fn is_starved(&self) -> bool {
        self.starved
    }

    /// Whether the device completes checksums.
    #[inline(always)]
    pub fn offloads_checksum(&self) -> bool {
        self.device & CHECKSUM_OFFLOAD != 0
    }

    /// An empty buffer's offset, with space in the queue to send it.
    #[inline(always)]
    fn take(&mut self) -> Option<u32> {
        if self.filled.free() == 0 && self.filled.refresh() == 0 {
            self.starved = true;
            return None;
        }
        loop {
            let Some(descriptor) = self.free.pop() else {
                self.starved = true;
                return None;
            };
            if descriptor.flags == 0 && self.slots.number(descriptor.offset).is_some() {
                return Some(descriptor.offset);
            }
            self.examine(descriptor);
        }
    }

    /// Deals with an entry that is no buffer.
    #[cold]
    fn examine(&mut self, descriptor: Descriptor) {
        if let Some(marker) = descriptor.as_marker() {
            self.session.receive(marker);
            self.spare = None;
            self.renew();
        }
    }

    /// Answers markers. The virtualiser provides all buffers when the pair of queues starts over.
    #[cold]
    fn renew(&mut self) {
        let (Event::None | Event::Renewed) = self.session.settle(&mut self.filled);
    }

    #[inline]
    pub(super) fn begin(&mut self) {
        self.free.refresh();
        if self.free.restarted() | !self.session.is_live() {
            self.start_over();
        }
    }

    /// Reads on to the marker that makes buffers good: those before it are void.
    #[cold]
    fn start_over(&mut self) {
        while let Some(descriptor) = self.free.pop() {
            self.examine(descriptor);
            if descriptor.as_marker().is_some() && self.session.is_live() {
                break;
            }
        }
    }

    pub(super) fn learn(&mut self, device: u16) {
        self.device = device;
    }

    #[inline]
    pub(super) fn publish(&mut self) {
        if !self.session.is_live() {
            self.renew();
        }
        let sent = self.filled.publish();
        let taken = self.session.may_release() && self.free.release_many(put_off(self.free.capacity()));
        if sent | taken {
            self.channel.notify();
        }
    }

    #[inline]
    pub(super) fn sleep(&mut self) -> bool {
        if !self.session.is_live() {
            return self.session.sleep(&mut self.filled, &mut self.free);
        }
        if !core::mem::take(&mut self.starved) {
            return true;
        }
        // Buffers, or space in the queue for those that there are: whichever was missing is the later to come.
        if self.free.refresh() == 0 { self.free.sleep() } else { self.filled.sleep() }
    }
}

/// Makes the TCP or UDP checksum of a frame, or the header that lets the device make it.
#[inline]
fn make_checksum(frame: &mut [u8], offload: bool) -> PacketHeader {
    if offload && let Some((checksum_start, checksum_offset)) = checksum::offload(frame) {
        return PacketHeader { flags: NEEDS_CHECKSUM, checksum_start, checksum_offset, ..PacketHeader::default() };
    }
    checksum::complete(frame);
    PacketHeader::default()
}
