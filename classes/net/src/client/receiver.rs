//! Receiving: packets are read where they lie, and their buffers go back.
//!
//! Where the buffers are the client's own, packets that a copier has passed on outlive it: nobody
//! writes them but a copier that this client gives the buffers to, and it gives them to the next
//! one only after it has read what the previous one left. In the device's buffers, packets are void
//! as soon as the virtualiser is another: the device may be writing there. Where the device is used
//! bare, packets that a driver has passed on outlive it too: the device had returned their buffers.

#![allow(unsafe_code)]

#[cfg(feature = "stack")]
use crate::descriptor;
use crate::descriptor::flags::{CONTINUES, DEVICE};
use crate::header::RawHeader;
use crate::header::flags::{CHECKSUM_VALID, NEEDS_CHECKSUM};
use crate::slots::LARGEST_PACKET;
use crate::{
    BufferEntry, Descriptor, DmaDescriptor, HEADROOM, MIN_PACKET, Mac, PIECE_SIZE, PacketHeader, Slots, checksum,
    lendable, release_batch, wire,
};
use culm::connection::{NetBare, NetClient};
use culm::link::Event;
use culm::queue::Producer;
use culm::{Link, Progress, Region};

/// The most buffers of a packet that is received in pieces: those of the longest one, filled, and
/// one more.
pub const MAX_PIECES: usize = LARGEST_PACKET.div_ceil(PIECE_SIZE as usize) + 1;

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

    /// Has the buffer go back with the mark of a SYN that was dropped unread.
    #[cfg(feature = "stack")]
    #[cold]
    pub(crate) fn mark_refused(mut self, now: culm::time::Instant) {
        self.empty = self.empty.refused(descriptor::moment(now));
    }

    /// Returns the packet header.
    #[inline(always)]
    pub fn header(&self) -> PacketHeader {
        match self.bytes.first_chunk() {
            Some(bytes) => PacketHeader::read(bytes),
            None => PacketHeader::default(),
        }
    }

    /// Returns the packet header where it lies.
    #[inline(always)]
    pub fn raw_header(&self) -> RawHeader<'_> {
        const NONE: [u8; HEADROOM] = [0; HEADROOM];
        RawHeader(self.bytes.first_chunk().unwrap_or(&NONE))
    }

    /// Returns the flags of the device's offloads ([`flags`](crate::descriptor::flags)), which each
    /// packet carries.
    #[inline(always)]
    pub fn device(&self) -> u16 {
        self.device
    }

    /// Returns whether its TCP or UDP checksum is right: as the device says, if it does, else by
    /// computing it. True for other packets.
    #[inline(always)]
    pub fn is_intact(&self) -> bool {
        self.is_verified() || checksum::is_right(self.frame())
    }

    /// Returns whether nobody need look at its TCP or UDP checksum: the device has. (A packet whose
    /// checksum the sender left out was never on a wire.)
    #[inline(always)]
    pub(crate) fn is_verified(&self) -> bool {
        self.bytes[0] & (NEEDS_CHECKSUM | CHECKSUM_VALID) != 0
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
            slots: Slots::with_large(connection.rx_data.size, connection.rx_buffer_size, connection.rx_large, limit),
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
    pub(crate) fn device(&self) -> u16 {
        self.device
    }

    /// Returns how many packets were there at the beginning of the round and were not received yet.
    #[cfg(feature = "stack")]
    #[inline(always)]
    pub(crate) fn available(&self) -> usize {
        self.link.input.available() as usize
    }

    /// Returns how many packets can wait to be received.
    #[cfg(feature = "stack")]
    pub(crate) fn capacity(&self) -> u32 {
        self.link.input.capacity()
    }

    /// Begins a round: looks at received packets, and whether the peer was restarted.
    #[inline(always)]
    pub fn begin(&mut self) {
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
            if self.is_packet(descriptor) {
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

    /// Has `take` look at the next packet of those that were there at the beginning of the round:
    /// at its header, and at its frame, which lies in pieces one after the other. There is one, or
    /// as many as there are buffers of the device's, where the component's manifest says that it
    /// takes those (`takes_pieces`) and nobody puts them together. The buffers go back.
    #[inline]
    pub fn receive_pieces<R>(&mut self, mut take: impl FnMut(PacketHeader, &[&[u8]]) -> R) -> Option<R> {
        self.receive_with(
            &mut take,
            |take, header, frame| take(header.read(), &[frame]),
            |take, header, pieces| take(header, pieces),
        )
    }

    /// Does what [`Self::receive_pieces`] does: has `whole` look at a packet in one buffer, and
    /// `parts` at one in several, each with `context`.
    #[inline(always)]
    pub fn receive_with<C, R>(
        &mut self,
        context: &mut C,
        whole: impl FnOnce(&mut C, RawHeader<'_>, &[u8]) -> R,
        parts: impl FnOnce(&mut C, PacketHeader, &[&[u8]]) -> R,
    ) -> Option<R> {
        loop {
            let first = self.link.input.pop_known()?.parts();
            if first.flags & CONTINUES != 0 {
                let mut entries = [Descriptor::default(); MAX_PIECES];
                match self.gather(first, &mut entries) {
                    Some(count) => {
                        return Some(self.look(entries.get(..count)?, |header, pieces| parts(context, header, pieces)));
                    }
                    None => continue,
                }
            }
            if !self.is_packet(first) {
                self.refuse(first);
                continue;
            }
            self.device = first.flags & DEVICE;
            // SAFETY: [A3, A6] as in `receive`: the buffer goes back when `take` has returned.
            let Ok(bytes) = (unsafe { self.data.slice(first.offset as usize, first.length.into()) }) else { continue };
            if E::BARE && !self.is_for_this_station(bytes) {
                self.give_back(&[first]);
                continue;
            }
            let result = bytes.split_first_chunk().map(|(header, frame)| whole(context, RawHeader(header), frame));
            self.give_back(&[first]);
            return result;
        }
    }

    /// Takes the entries of a packet that begins with `first`. Returns how many they are, or
    /// nothing if they make no packet, whose buffers go back.
    #[inline(never)]
    fn gather(&mut self, first: Descriptor, entries: &mut [Descriptor; MAX_PIECES]) -> Option<usize> {
        let (mut entry, mut count, mut length, mut is_sound) = (first, 0, 0, true);
        loop {
            let least = if count == 0 { MIN_PACKET } else { 1 };
            let bytes = usize::from(entry.length);
            length += bytes;
            is_sound &= (least..=self.slots.buffer_size()).contains(&bytes);
            if self.slots.small_number(entry.offset).is_none() {
                is_sound = false;
            } else if let Some(place) = entries.get_mut(count) {
                (*place, count) = (entry, count + 1);
            } else {
                is_sound = false;
                self.give_back(&[entry]);
            }
            if entry.flags & CONTINUES == 0 {
                break;
            }
            // The virtualiser publishes all entries of a packet at once.
            let Some(next) = self.link.input.pop_known() else {
                is_sound = false;
                break;
            };
            entry = next.parts();
        }
        if is_sound && length <= LARGEST_PACKET {
            self.device = first.flags & DEVICE;
            return Some(count);
        }
        self.give_back(entries.get(..count).unwrap_or_default());
        None
    }

    /// Has `take` look at the packet in these buffers, which go back then.
    #[inline(never)]
    fn look<R>(&mut self, entries: &[Descriptor], take: impl FnOnce(PacketHeader, &[&[u8]]) -> R) -> R {
        let mut pieces: [&[u8]; MAX_PIECES] = [&[]; MAX_PIECES];
        for (piece, entry) in pieces.iter_mut().zip(entries) {
            // SAFETY: [A3, A6] as in `receive`: the buffers go back when `take` has returned.
            let bytes = unsafe { self.data.slice(entry.offset as usize, entry.length.into()) };
            *piece = bytes.unwrap_or_default();
        }
        let mut header = PacketHeader::default();
        if let Some((bytes, frame)) = pieces[0].split_first_chunk() {
            header = PacketHeader::read(bytes);
            pieces[0] = frame;
        }
        let result = take(header, pieces.get(..entries.len()).unwrap_or_default());
        self.give_back(entries);
        result
    }

    /// Gives buffers back.
    fn give_back(&mut self, entries: &[Descriptor]) {
        for entry in entries {
            let empty = self.empty(entry.offset);
            // This push does not fail: the queue has space for all buffers that are lent.
            let _ = self.link.output.push(empty);
        }
    }

    /// Returns whether an entry is a packet in one buffer.
    #[inline(always)]
    fn is_packet(&mut self, descriptor: Descriptor) -> bool {
        let is_small =
            self.slots.small_number(descriptor.offset).is_some() && self.slots.small_holds(descriptor.length);
        is_small || self.is_large_packet(descriptor)
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

    #[inline]
    pub(super) fn sleep_until(&mut self, count: u32) -> Progress {
        // Who has so many buffers cannot send more.
        self.link.sleep_until(count.min(self.slots.count()))
    }
}

#[cfg(test)]
mod tests;
