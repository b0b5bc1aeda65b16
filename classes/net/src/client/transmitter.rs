//! Transmitting: packets are written where the device reads them.

use crate::descriptor::flags::{CHECKSUM_OFFLOAD, LINK_COUNT, SEGMENTATION_OFFLOAD_4, SEGMENTATION_OFFLOAD_6};
use crate::header::RawHeader;
use crate::header::flags::NEEDS_CHECKSUM;
use crate::header::segmentation::TCP_6;
use crate::slots::LARGEST_PACKET;
use crate::wire::tcp;
use crate::{BufferEntry, Descriptor, DmaDescriptor, HEADROOM, PacketHeader, Slots, checksum, lendable};
use culm::connection::{NetBare, NetClient};
use culm::link::Event;
use culm::queue::Producer;
use culm::{Exclusive, Link, Progress};
use culm_abi::start::Memory;
use culm_lending::Stash;

/// Flags of a device that divides packets of some kind.
const SEGMENTS: u16 = SEGMENTATION_OFFLOAD_4 | SEGMENTATION_OFFLOAD_6;

/// Room for a frame. Unless that is sent, the buffer stays for the next one.
#[derive(Debug)]
pub struct Room<'a, E: BufferEntry = Descriptor> {
    header: &'a mut [u8; HEADROOM],
    frame: &'a mut [u8],
    offset: u32,
    base: u64,
    device: u16,
    output: &'a mut Producer<E>,
    spare: &'a mut Option<u32>,
}

impl<E: BufferEntry> Room<'_, E> {
    /// Returns where the frame is to be written: the bytes are those of some older one.
    #[inline(always)]
    pub fn frame(&mut self) -> &mut [u8] {
        self.frame
    }

    /// Sends the frame, with its own checksums complete or to be completed as the header says.
    #[inline(always)]
    pub fn send(self, header: PacketHeader) {
        header.write(self.header);
        self.push();
    }

    /// Sends the frame, whose checksum is completed if the header of the one that it was before
    /// asks for that: by the device if it can, else here.
    #[inline(always)]
    pub fn send_on(self, header: RawHeader<'_>) {
        if header.needs_checksum() && self.device & CHECKSUM_OFFLOAD != 0 {
            header.write_checksum(self.header);
        } else {
            if header.needs_checksum() {
                complete_asked(self.frame, header);
            }
            PacketHeader::default().write(self.header);
        }
        self.push();
    }

    #[inline(always)]
    fn push(self) {
        let total = HEADROOM + self.frame.len();
        // This push does not fail: there was space when the buffer was taken.
        let _ = self.output.push(E::of_packet(self.offset, total as u16, self.base));
        core::mem::forget(self);
    }
}

impl<E: BufferEntry> Drop for Room<'_, E> {
    #[inline(always)]
    fn drop(&mut self) {
        *self.spare = Some(self.offset);
    }
}

/// The transmitting half of a client.
#[derive(Debug)]
pub struct Transmitter<E: BufferEntry = Descriptor> {
    /// The link: filled buffers go, free ones come.
    link: Link<E>,
    data: Exclusive,
    /// Address of `data` as the device sees it.
    base: u64,
    slots: Slots,
    /// Flags of the device's offloads, and how often its link came up.
    device: u16,
    /// Whether its link has come up, and nobody has asked.
    has_new_link: bool,
    /// Whether the far end takes packets as they are: it is a link's.
    is_linked: bool,
    /// A buffer that was taken from the queue and not used yet.
    spare: Option<u32>,
    /// The same for a large buffer.
    spare_large: Option<u32>,
    /// Buffers that came while a buffer of the other size was looked for; of a bare device, those
    /// too that were never sent.
    stash: Stash,
    /// Whether something could not be sent in this round because no small buffer or no queue space
    /// was free.
    starved: bool,
}

impl Transmitter {
    pub(super) fn new(connection: &NetClient) -> Self {
        let slots = Slots::with_large(connection.tx_data.size, connection.buffer_size, connection.tx_large, u32::MAX);
        let link = Link::new(connection.tx_filled, connection.tx_free, connection.tx_channel);
        let is_linked = connection.linked != 0;
        let device = if is_linked { CHECKSUM_OFFLOAD | SEGMENTS } else { 0 };
        Self { device, is_linked, ..Self::with(link, connection.tx_data, slots) }
    }
}

impl Transmitter<DmaDescriptor> {
    pub(super) fn bare(connection: &NetBare) -> Self {
        let limit = lendable(connection.tx_free.capacity.min(connection.tx_filled.capacity));
        let slots = Slots::new(connection.tx_data.size, connection.buffer_size, limit);
        let link = Link::new(connection.tx_filled, connection.tx_free, connection.tx_channel);
        Self::with(link, connection.tx_data, slots)
    }
}

impl<E: BufferEntry> Transmitter<E> {
    fn with(link: Link<E>, data: Memory, slots: Slots) -> Self {
        Self {
            has_new_link: false,
            link,
            base: data.dma,
            data: Exclusive::take(data),
            slots,
            device: 0,
            is_linked: false,
            spare: None,
            spare_large: None,
            stash: Stash::new(slots),
            starved: false,
        }
    }

    /// Returns the length of the longest frame that can be sent as it is.
    pub fn longest_frame(&self) -> usize {
        self.slots.buffer_size() - HEADROOM
    }

    /// Returns whether a frame can be sent now. If not, the client gets a turn when one can.
    #[inline]
    pub fn is_ready(&mut self) -> bool {
        if self.spare.is_none() {
            self.spare = self.take();
        }
        self.spare.is_some()
    }

    /// Returns whether a frame that carries many segments can be sent now. If not, its parts can be
    /// sent one by one.
    #[inline]
    pub fn has_large(&mut self) -> bool {
        if self.spare_large.is_none() && self.offloads_segmentation() {
            self.spare_large = self.take_large();
        }
        self.spare_large.is_some() && self.offloads_segmentation()
    }

    /// Has the client get a turn when a buffer comes back: for who cannot send the parts of a frame
    /// one by one where [`Self::has_large`] says no, or would pay too much for that.
    pub fn wait_for_large(&mut self) {
        self.starved = true;
    }

    /// Sends the frame of `length` bytes that `write` makes, with its own checksums complete or to
    /// be completed as the header which it returns says. The bytes that `write` is given are those
    /// of some older frame. Returns `None` if no buffer is free, or none holds `length`.
    #[inline(always)]
    pub fn send<R>(&mut self, length: usize, write: impl FnOnce(&mut [u8]) -> (PacketHeader, R)) -> Option<R> {
        if length > self.longest_frame() {
            return None;
        }
        let offset = if let Some(spare) = self.spare.take() { spare } else { self.take()? };
        self.send_in(offset, length, |frame| Some(write(frame)))
    }

    /// Does what [`Self::send`] does, unless `write` returns `None`: then nothing is sent, and the
    /// buffer stays for the next frame. For frames of others, which are checked where nobody else
    /// can change them.
    #[inline(always)]
    pub fn send_checked<R>(
        &mut self,
        length: usize,
        write: impl FnOnce(&mut [u8]) -> Option<(PacketHeader, R)>,
    ) -> Option<R> {
        let mut room = self.room(length)?;
        let (header, result) = write(room.frame())?;
        room.send(header);
        Some(result)
    }

    /// Returns room for a frame of `length` bytes, to be written and then sent. `None` if no buffer
    /// is free, or none holds `length`. For who would rather not hand over a closure: what that
    /// captures lies in memory, unless the compiler makes one piece of both.
    #[inline(always)]
    pub fn room(&mut self, length: usize) -> Option<Room<'_, E>> {
        if length > self.longest_frame() {
            return None;
        }
        let offset = if let Some(spare) = self.spare.take() { spare } else { self.take()? };
        let Self { data, link, spare, device, base, .. } = self;
        let bytes = data.slice_mut(offset as usize, HEADROOM + length).ok()?;
        let (header, frame) = bytes.split_first_chunk_mut()?;
        Some(Room { header, frame, offset, base: *base, device: *device, output: &mut link.output, spare })
    }

    /// Sends the frame that `write` makes, if it makes one, in the buffer at `offset`, which has
    /// room for it and is this client's.
    #[inline(always)]
    fn send_in<R>(
        &mut self,
        offset: u32,
        length: usize,
        write: impl FnOnce(&mut [u8]) -> Option<(PacketHeader, R)>,
    ) -> Option<R> {
        let total = HEADROOM + length;
        let bytes = self.data.slice_mut(offset as usize, total).ok()?;
        let (header, frame) = bytes.split_first_chunk_mut::<HEADROOM>()?;
        let (metadata, result) = write(frame)?;
        metadata.write(header);
        // This push does not fail: `take` has seen that there is space.
        let _ = self.link.output.push(E::of_packet(offset, total as u16, self.base));
        Some(result)
    }

    /// Does what [`Self::send`] does, for frames whose TCP or UDP checksum is still to be made: by
    /// the device if it can, else here.
    #[inline]
    pub fn send_with_checksum<R>(&mut self, length: usize, write: impl FnOnce(&mut [u8]) -> R) -> Option<R> {
        let offload = self.offloads_checksum();
        self.send(length, |frame| {
            let result = write(frame);
            (make_checksum(frame, offload), result)
        })
    }

    /// Sends a frame of this kind of [`segmentation`](crate::header::segmentation) that the device
    /// is to divide into segments of `payload` bytes each, headers not counted. Returns `None` if
    /// no large buffer is free, none holds `length`, the device does not divide packets of that
    /// kind, or the frame has no TCP right behind IP.
    #[inline]
    pub fn send_segments<R>(
        &mut self,
        length: usize,
        kind: u8,
        payload: u16,
        write: impl FnOnce(&mut [u8]) -> R,
    ) -> Option<R> {
        if !self.divides(kind) || length > LARGEST_PACKET - HEADROOM || !self.has_large() {
            return None;
        }
        let offset = self.spare_large.take()?;
        let sent = self.send_in(offset, length, |frame| {
            let result = write(frame);
            Some((divide(frame, kind, payload)?, result))
        });
        if sent.is_none() {
            self.spare_large = Some(offset);
        }
        sent
    }

    /// Does what [`Self::is_ready`] does, out of line: for what is rare, and where that was asked
    /// before, so that it nearly never has to look.
    #[cfg(feature = "stack")]
    #[inline(never)]
    pub(crate) fn becomes_ready(&mut self) -> bool {
        self.is_ready()
    }

    /// Sends the frame of `length` bytes that `write` makes. `header` says what the device is to do
    /// with it: to make a checksum, in whose place `write` puts the sum of the pseudo-header (where
    /// the device cannot, it is made here); and, if `segment_size` is not 0, to divide the frame
    /// into segments of that size. Returns whether it was sent: not if no buffer is free, none
    /// holds `length`, or the device does not divide frames.
    #[cfg(feature = "stack")]
    #[inline(always)]
    pub(crate) fn send_described(
        &mut self,
        length: usize,
        header: &PacketHeader,
        write: impl FnOnce(&mut [u8]),
    ) -> bool {
        let (divides, offload) = (header.segment_size != 0, self.offloads_checksum());
        let longest = if divides { LARGEST_PACKET - HEADROOM } else { self.longest_frame() };
        let is_ready = if divides { self.has_large() } else { self.spare.is_some() || self.becomes_ready() };
        if length > longest || !is_ready {
            return false;
        }
        let spare = if divides { self.spare_large.take() } else { self.spare.take() };
        let Some(offset) = spare else { return false };
        let sent = self.send_in(offset, length, |frame| {
            write(frame);
            Some((if divides { *header } else { checksum::finish(frame, header, offload) }, ()))
        });
        sent.is_some()
    }

    /// Sends the packet of many segments of `length` bytes that `write` makes, with the header that
    /// it returns, over a link. Returns `None` if this is no link, no large buffer is free, none
    /// holds `length`, or `write` returns `None`: then nothing is sent.
    #[inline]
    pub fn send_whole(&mut self, length: usize, write: impl FnOnce(&mut [u8]) -> Option<PacketHeader>) -> Option<()> {
        if !self.is_linked || length > LARGEST_PACKET - HEADROOM || !self.has_large() {
            return None;
        }
        let offset = self.spare_large.take()?;
        let sent = self.send_in(offset, length, |frame| Some((write(frame)?, ())));
        if sent.is_none() {
            self.spare_large = Some(offset);
        }
        sent
    }

    /// Returns whether the far end is a link's, which takes packets of many segments of TCP over
    /// either version of IP by [`Self::send_whole`].
    #[inline(always)]
    pub fn is_linked(&self) -> bool {
        self.is_linked
    }

    /// Returns whether there are buffers for packets of many segments.
    #[inline]
    pub fn has_large_buffers(&self) -> bool {
        self.slots.large() > 0
    }

    /// Returns whether the device divides packets of any kind, and there are buffers for them.
    #[inline(always)]
    pub fn offloads_segmentation(&self) -> bool {
        self.device & SEGMENTS != 0 && self.device & CHECKSUM_OFFLOAD != 0 && self.slots.large() > 0
    }

    /// Returns whether the device divides packets of this kind of
    /// [`segmentation`](crate::header::segmentation), and there are buffers for them.
    #[inline(always)]
    pub fn divides(&self, kind: u8) -> bool {
        let both = CHECKSUM_OFFLOAD | if kind == TCP_6 { SEGMENTATION_OFFLOAD_6 } else { SEGMENTATION_OFFLOAD_4 };
        self.device & both == both && self.slots.large() > 0
    }

    /// Returns whether something could not be sent in this round because no buffer or no queue
    /// space was free.
    #[inline(always)]
    pub(super) fn is_starved(&self) -> bool {
        self.starved
    }

    /// Returns whether the device completes checksums.
    #[inline(always)]
    pub fn offloads_checksum(&self) -> bool {
        self.device & CHECKSUM_OFFLOAD != 0
    }

    /// Takes an empty small buffer, if the queue has space for it and another one; returns its
    /// offset.
    #[inline(always)]
    fn take(&mut self) -> Option<u32> {
        if !self.has_space() {
            return None;
        }
        self.look_for(false)
    }

    /// Does what [`Self::take`] does, for a large buffer.
    fn take_large(&mut self) -> Option<u32> {
        if !self.has_space() {
            return None;
        }
        self.look_for(true)
    }

    /// Returns whether the queue has space for both spare buffers.
    #[inline(always)]
    fn has_space(&mut self) -> bool {
        let enough = self.link.output.free() > 1 || self.link.output.refresh() > 1;
        self.starved |= !enough;
        enough
    }

    /// Returns the next buffer of that size from the queue, or one that came while the other size
    /// was looked for.
    #[inline(always)]
    fn look_for(&mut self, large: bool) -> Option<u32> {
        loop {
            let Some(descriptor) = self.link.input.pop().map(E::parts) else {
                let kept = self.stash.take(large);
                // Who waits for a large buffer says so: see `wait_for_large`.
                self.starved |= kept.is_none() && !large;
                return kept;
            };
            let is_small = descriptor.flags == 0 && self.slots.small_number(descriptor.offset).is_some();
            if is_small && !large || self.is_taken(descriptor, large) {
                return Some(descriptor.offset);
            }
        }
    }

    /// Returns whether an entry is an empty buffer of that size. Keeps one of the other size.
    #[cold]
    fn is_taken(&mut self, descriptor: Descriptor, large: bool) -> bool {
        if descriptor.flags != 0 || self.slots.number(descriptor.offset).is_none() {
            return false;
        }
        let is_wanted = self.slots.is_large_at(descriptor.offset) == large;
        if !is_wanted {
            self.stash.keep(descriptor.offset, !large);
        }
        is_wanted
    }

    /// Begins a round: looks whether the peer was restarted.
    #[inline]
    pub fn begin(&mut self) {
        let is_renewed = self.link.begin() == Event::Renewed;
        if is_renewed | !self.link.is_live() {
            self.forget();
        }
        if E::BARE && is_renewed {
            self.own_all();
        }
    }

    /// Takes all buffers: the pair of queues starts over, and no virtualiser lends them.
    #[cold]
    fn own_all(&mut self) {
        for number in 0..self.slots.count() {
            self.stash.keep(self.slots.offset(number), self.slots.is_large(number));
        }
    }

    /// Forgets all buffers: the pair of queues starts over, and they are with their owner again.
    #[cold]
    fn forget(&mut self) {
        (self.spare, self.spare_large) = (None, None);
        self.stash.clear();
    }

    /// Records the device's offloads. Returns whether it has begun or ceased to divide packets.
    #[inline(always)]
    pub(crate) fn learn(&mut self, device: u16) -> bool {
        device != self.device && !self.is_linked && self.relearn(device)
    }

    /// Returns whether the card's link has come up since the last call of this.
    #[cfg(feature = "stack")]
    #[inline(always)]
    pub(crate) fn take_new_link(&mut self) -> bool {
        self.has_new_link && core::mem::take(&mut self.has_new_link)
    }

    #[cold]
    fn relearn(&mut self, device: u16) -> bool {
        let before = self.offloads_segmentation();
        self.has_new_link |= (device ^ self.device) & LINK_COUNT != 0;
        self.device = device;
        self.offloads_segmentation() != before
    }

    #[inline]
    pub(super) fn publish(&mut self) {
        self.link.publish();
    }

    #[inline]
    pub(super) fn sleep(&mut self) -> Progress {
        // Buffers that were missing in this round may be there in the next one.
        let starved = core::mem::take(&mut self.starved);
        if !self.link.is_live() {
            return self.link.sleep();
        }
        if !starved {
            return Progress::Asleep;
        }
        // Wait for what is missing: a free buffer if there is none, else queue space for the two
        // spare buffers.
        if self.link.input.refresh() > 0 {
            return self.link.sleep_for_space(2);
        }
        let progress = self.link.sleep();
        if E::BARE && progress.is_asleep() {
            // A driver takes sent buffers back when it is told that somebody waits, not before.
            self.link.channel().notify();
        }
        progress
    }
}

/// Completes the checksum that a frame's header asks for.
#[inline(never)]
fn complete_asked(frame: &mut [u8], header: RawHeader<'_>) {
    checksum::finish(frame, &header.read(), false);
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

/// The header that lets the device divide a frame of this kind of TCP into segments of `payload`
/// bytes.
#[inline]
fn divide(frame: &mut [u8], kind: u8, payload: u16) -> Option<PacketHeader> {
    let (checksum_start, checksum_offset) = checksum::offload(frame)?;
    // The data offset, in words of 4 bytes (RFC 9293 §3.1).
    let words = frame.get(usize::from(checksum_start) + tcp::DATA_OFFSET).map_or(0, |byte| byte >> 4);
    Some(PacketHeader {
        flags: NEEDS_CHECKSUM,
        segmentation: kind,
        header_length: checksum_start + u16::from(words) * 4,
        segment_size: payload,
        checksum_start,
        checksum_offset,
        ..PacketHeader::default()
    })
}
