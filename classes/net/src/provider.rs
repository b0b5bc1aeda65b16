//! The provider's side: the far end of clients that have no device, for a switch, a gateway or a
//! guest's back-end.
//!
//! A provider stands where device, virtualisers and copier stand otherwise: it takes the frames
//! that its clients send ([`Port::next_frame`]) and copies them to whom they are for
//! ([`Port::deliver`]). Its clients are as hostile as a virtualiser's. A [`Frame`] lies where its
//! client can still change it; so its headers are read once, checked if the client must not invent
//! an address, and stand in each copy as they were read.
//!
//! A turn tells each port which channels were notified ([`Port::mark_due`]). A round begins each
//! port ([`Port::begin`]), passes frames on, and ends the round of each ([`Port::end_round`]). A
//! client that does not read its frames loses those that come; it stops nobody. One that makes the
//! provider work without use, by notifications, entries that name no buffer or by starting over,
//! has an [`Allowance`] for that; when it has used it up, its queues are not looked at for a while.

use crate::descriptor::flags::REFUSED;
use crate::header::{flags::NEEDS_CHECKSUM, segmentation};
use crate::outgoing::{HEAD, is_from};
use crate::wire::ethernet;
use crate::{Descriptor, HEADROOM, MIN_PACKET, Mac, PacketHeader, Slots, lendable};
use alloc::boxed::Box;
use alloc::vec;
use culm::connection::NetProviderClient;
use culm::link::Event;
use culm::{Channel, Channels, Link, Progress, Region, time};
use culm_lending::allowance::PAUSE;
use culm_lending::{Allowance, Stash};

/// Buffers that are lent at a time to a client that starts over.
const LENDING: u32 = 64;

/// Bytes of a frame that are read where its addresses are not checked: the header, with a VLAN tag.
const SHORT_HEAD: usize = ethernet::HEADER + 4;

/// Steps of a client's allowance that its starting over costs.
const CHANGE: u32 = 2;

/// One client of a provider.
pub struct Port {
    /// Frames go to the client, empty buffers come from it.
    receiving: Link<Descriptor>,
    rx_data: Region,
    rx_slots: Slots,
    /// Receive buffers that came while one of the other size was looked for.
    stash: Stash,
    /// Frames come from the client, empty buffers go to it.
    sending: Link<Descriptor>,
    tx_data: Region,
    tx_slots: Slots,
    /// Whether the client holds the transmit buffer of that number.
    lent: Box<[bool]>,
    /// The transmit buffers below this number were lent in the client's present life.
    next: u32,
    /// The transmit buffer of the frame that was taken last.
    taken: Option<u32>,
    mac: Mac,
    anti_spoof: bool,
    /// Work without use that the client may still cause.
    allowance: Allowance,
    /// Whether it was used up, and is not back yet.
    paused: bool,
    /// The counts since they were last asked for.
    tally: Tally,
}

/// Counts of what happened at a port.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Tally {
    /// Frames that the client was given.
    pub delivered: u64,
    /// Frames that it was not given, since it provided no buffer that holds them.
    pub missed: u64,
    /// Entries of the client's that name no buffer which it held, and frames with another's
    /// address.
    pub entries_refused: u64,
}

/// A frame that a client sends. Its buffer goes back when the next one is taken, and at the end of
/// the round.
#[derive(Clone, Copy, Debug)]
pub struct Frame {
    offset: u32,
    length: u16,
    /// The beginning of the frame, read once.
    head: [u8; HEAD],
    /// How much of it was read.
    known: usize,
}

impl Frame {
    /// Returns the address of the station that the frame is for.
    pub fn destination(&self) -> Mac {
        let [a, b, c, d, e, f, ..] = self.head;
        Mac::new([a, b, c, d, e, f])
    }

    /// Returns the length of the Ethernet frame.
    pub fn length(&self) -> usize {
        usize::from(self.length) - HEADROOM
    }

    /// Returns the beginning of the frame as it was read: header and VLAN tag at least, where the
    /// frame is as long. Each copy begins so.
    pub fn head(&self) -> &[u8] {
        self.head.get(..self.known).unwrap_or_default()
    }

    /// Returns the length of the frame with another beginning.
    pub fn length_with(&self, beginning: &Beginning<'_>) -> usize {
        self.length() - beginning.instead_of.min(self.length()) + beginning.bytes.len()
    }
}

/// Bytes that stand in a copy of a frame in the place of its first ones, for who puts in a VLAN tag
/// or takes one out. The default leaves the frame as it is.
#[derive(Clone, Copy, Debug, Default)]
pub struct Beginning<'a> {
    /// The bytes.
    pub bytes: &'a [u8],
    /// How many bytes of the frame they stand for: no more than [`Frame::head`] has.
    pub instead_of: usize,
}

impl Beginning<'_> {
    /// Returns a packet's header where the frame has this beginning: the place of its checksum
    /// moves, and so does the end of its headers.
    pub fn shift(&self, mut header: PacketHeader) -> PacketHeader {
        let moved = |place: u16| (usize::from(place) + self.bytes.len()).saturating_sub(self.instead_of) as u16;
        if header.flags & NEEDS_CHECKSUM != 0 {
            header.checksum_start = moved(header.checksum_start);
        }
        if header.segmentation != segmentation::NONE {
            header.header_length = moved(header.header_length);
        }
        header
    }
}

impl Port {
    /// Creates the provider's side of one client.
    ///
    /// # Panics
    ///
    /// If `client` contradicts itself, which those of a start block do not.
    pub fn new(client: &NetProviderClient) -> Self {
        let limit = lendable(client.tx_free.capacity.min(client.tx_filled.capacity));
        let tx_slots = Slots::with_large(client.tx_data.size, client.buffer_size, client.tx_large, limit);
        let rx_slots = Slots::with_large(client.rx_data.size, client.buffer_size, client.rx_large, u32::MAX);
        let mut port = Self {
            receiving: Link::new(client.rx_filled, client.rx_free, client.rx_channel),
            rx_data: Region::new(client.rx_data),
            rx_slots,
            stash: Stash::new(rx_slots),
            sending: Link::new(client.tx_free, client.tx_filled, client.tx_channel),
            tx_data: Region::read_only(client.tx_data),
            tx_slots,
            lent: vec![false; tx_slots.count() as usize].into_boxed_slice(),
            next: tx_slots.count(),
            taken: None,
            mac: Mac::new(client.mac),
            anti_spoof: client.anti_spoof != 0,
            allowance: Allowance::new(tx_slots.count()),
            paused: false,
            tally: Tally::default(),
        };
        port.receiving.publish();
        port.sending.publish();
        port
    }

    /// Returns the client's address.
    pub fn mac(&self) -> Mac {
        self.mac
    }

    /// Returns whether a channel is this client's.
    pub fn has(&self, channel: Channel) -> bool {
        channel == self.receiving.channel() || channel == self.sending.channel()
    }

    /// Notes which channels were notified, at the beginning of each turn. Returns whether the
    /// client was paused until now: then it may have sent meanwhile, and its link has not announced
    /// sleep, so that a round is due whatever was notified.
    pub fn mark_due(&mut self, channels: Channels) -> bool {
        let was_paused = self.paused;
        if channels.contains(self.receiving.channel()) || channels.contains(self.sending.channel()) {
            self.allowance.spend(1);
        }
        self.wait();
        was_paused && !self.paused
    }

    /// Returns whether the client has used up its allowance and waits until it is back. The
    /// component gets a turn then, if it says so each turn by [`Self::mark_due`].
    pub fn is_paused(&self) -> bool {
        self.paused
    }

    /// Leaves the client alone until its allowance is back, if that is used up.
    fn wait(&mut self) {
        if self.paused || self.allowance.is_spent() {
            self.paused = !self.allowance.replenish();
        }
        if self.paused {
            culm::wake_at(time::now() + PAUSE);
        }
    }

    /// Begins a round: looks at what the client sent and provided, and whether it was restarted.
    pub fn begin(&mut self) {
        if self.paused {
            return;
        }
        let receiving = self.receiving.begin();
        if receiving == Event::Renewed {
            self.stash.clear();
        }
        let sending = self.sending.begin();
        if sending == Event::Renewed {
            self.lent.fill(false);
            (self.next, self.taken) = (0, None);
            self.allowance.spend(self.tx_slots.count() / 8);
        }
        for event in [receiving, sending] {
            self.allowance.spend(if event == Event::None { 0 } else { CHANGE });
        }
        self.lend();
    }

    /// Lends the client some of its transmit buffers, if it has begun another life.
    fn lend(&mut self) {
        if !self.sending.is_live() || self.next == self.tx_slots.count() {
            return;
        }
        let end = self.next.saturating_add(LENDING).min(self.tx_slots.count());
        for number in self.next..end {
            self.give_back(number);
        }
        self.allowance.spend(1 + end - self.next);
        self.next = end;
    }

    /// Gives the client the transmit buffer of this number, which it does not hold.
    fn give_back(&mut self, number: u32) {
        let buffer = Descriptor::empty(self.tx_slots.offset(number));
        // This push does not fail: the queue has space for all buffers that are lent.
        if let (true, Some(lent)) = (self.sending.output.push(buffer).is_ok(), self.lent.get_mut(number as usize)) {
            *lent = true;
        }
    }

    /// Takes the next frame that the client sends, of those that were there at the beginning of the
    /// round. The buffer of the one before goes back.
    pub fn next_frame(&mut self) -> Option<Frame> {
        self.finish();
        while !self.paused && !self.allowance.is_spent() {
            let entry = self.sending.input.pop_known()?;
            let number = self.tx_slots.number(entry.offset).filter(|number| entry.flags == 0 && self.is_lent(*number));
            if let Some(number) = number {
                if let Some(lent) = self.lent.get_mut(number as usize) {
                    *lent = false;
                }
                self.taken = Some(number);
                if let Some(frame) = self.read_head(number, entry) {
                    self.allowance.earn(1);
                    return Some(frame);
                }
                self.finish();
            }
            self.tally.entries_refused += 1;
            self.allowance.spend(1);
        }
        None
    }

    /// Reads the beginning of the frame in a buffer: its addresses and, if they are checked, what
    /// is checked. `None` if it is no frame, or has an address that is not the client's.
    fn read_head(&self, number: u32, entry: Descriptor) -> Option<Frame> {
        if !self.tx_slots.holds(number, entry.length) {
            return None;
        }
        let needed = if self.anti_spoof { HEAD } else { SHORT_HEAD };
        let known = needed.min(usize::from(entry.length) - HEADROOM);
        let mut frame = Frame { offset: entry.offset, length: entry.length, head: [0; HEAD], known };
        self.tx_data.read(entry.offset as usize + HEADROOM, frame.head.get_mut(..known)?).ok()?;
        (!self.anti_spoof || is_from(frame.head(), self.mac)).then_some(frame)
    }

    /// Gives back the buffer of the frame that was taken last.
    fn finish(&mut self) {
        if let Some(number) = self.taken.take() {
            self.give_back(number);
        }
    }

    fn is_lent(&self, number: u32) -> bool {
        self.lent.get(number as usize) == Some(&true)
    }

    /// Copies a frame of `from`, with this beginning, into a buffer of this client's and gives it
    /// to the client. Returns false if it could not be given.
    pub fn deliver(&mut self, from: &Self, frame: &Frame, beginning: Beginning<'_>) -> bool {
        let Ok(length) = u16::try_from(HEADROOM + frame.length_with(&beginning)) else { return false };
        let (source, start) = (&from.tx_data, frame.offset as usize + HEADROOM);
        let Some(rest) = frame.head().get(beginning.instead_of..) else { return false };
        let placed = self.place(length, |data, offset| {
            let offset = offset + HEADROOM;
            let known = beginning.bytes.len() + rest.len();
            let behind = frame.length() - frame.known;
            // What was read is not read again: the sender may have changed it since.
            data.write(offset, beginning.bytes).is_ok()
                && data.write(offset + beginning.bytes.len(), rest).is_ok()
                && source.copy(start + frame.known, data, offset + known, behind).is_ok()
        });
        // No device has looked at the frame, and none will complete it.
        placed.is_some_and(|offset| self.publish_at(offset, length, PacketHeader::default()))
    }

    /// Gives the client a frame that is not another client's, with this beginning and with what is
    /// known of its checksum.
    pub fn deliver_bytes(&mut self, header: PacketHeader, frame: &[u8], beginning: Beginning<'_>) -> bool {
        let Some(rest) = frame.get(beginning.instead_of..) else { return false };
        let Ok(length) = u16::try_from(HEADROOM + beginning.bytes.len() + rest.len()) else { return false };
        let placed = self.place(length, |data, offset| {
            let offset = offset + HEADROOM;
            data.write(offset, beginning.bytes).is_ok() && data.write(offset + beginning.bytes.len(), rest).is_ok()
        });
        placed.is_some_and(|offset| self.publish_at(offset, length, beginning.shift(header)))
    }

    /// Copies a frame of this client's, with this beginning, into `bytes`, which are as many as it
    /// has then ([`Frame::length_with`]). Returns false if they are not.
    pub fn read(&self, frame: &Frame, beginning: Beginning<'_>, bytes: &mut [u8]) -> bool {
        let Some(rest) = frame.head().get(beginning.instead_of..) else { return false };
        let Some((start, bytes)) = bytes.split_at_mut_checked(beginning.bytes.len()) else { return false };
        let Some((head, behind)) = bytes.split_at_mut_checked(rest.len()) else { return false };
        if behind.len() != frame.length() - frame.known {
            return false;
        }
        start.copy_from_slice(beginning.bytes);
        head.copy_from_slice(rest);
        self.tx_data.read(frame.offset as usize + HEADROOM + frame.known, behind).is_ok()
    }

    /// Takes a buffer of the client's that holds a packet of `length` bytes, and has it written.
    fn place(&mut self, length: u16, write: impl FnOnce(&Region, usize) -> bool) -> Option<u32> {
        let offset = self.take(length);
        let written = offset.filter(|offset| write(&self.rx_data, *offset as usize));
        if written.is_none() {
            self.tally.missed += 1;
        }
        written
    }

    /// Returns a buffer that the client provides and that holds a packet of `length` bytes, if
    /// there is space to give it back with the packet.
    fn take(&mut self, length: u16) -> Option<u32> {
        let large = !self.rx_slots.small_holds(length);
        if usize::from(length) < MIN_PACKET || large && self.rx_slots.large() == 0 {
            return None;
        }
        // Without space, a packet would be copied that does not arrive, and nobody charged for it.
        // This costs the client none of its allowance: else others could have one paused that only
        // reads slowly.
        let output = &mut self.receiving.output;
        if output.free() == 0 && output.refresh() == 0 {
            return None;
        }
        while !self.paused && !self.allowance.is_spent() {
            let Some(buffer) = self.receiving.input.pop() else { return self.stash.take(large) };
            if self.rx_slots.number(buffer.offset).is_none() || buffer.flags & !REFUSED != 0 {
                self.tally.entries_refused += 1;
            } else if self.rx_slots.is_large_at(buffer.offset) == large {
                return Some(buffer.offset);
            } else {
                self.stash.keep(buffer.offset, !large);
            }
            self.allowance.spend(1);
        }
        None
    }

    /// Gives the client the packet in its buffer at `offset`.
    fn publish_at(&mut self, offset: u32, length: u16, header: PacketHeader) -> bool {
        let mut bytes = [0; HEADROOM];
        header.write(&mut bytes);
        let written = self.rx_data.write(offset as usize, &bytes).is_ok();
        let given = written && self.receiving.output.push(Descriptor { offset, length, flags: 0 }).is_ok();
        self.allowance.earn(u32::from(given));
        self.tally.delivered += u64::from(given);
        self.tally.missed += u64::from(!given);
        given
    }

    /// Ends a round: publishes what was delivered and given back, and announces sleep.
    pub fn end_round(&mut self) -> Progress {
        self.finish();
        self.receiving.publish();
        self.sending.publish();
        self.wait();
        if self.paused {
            return Progress::Asleep;
        }
        let lending = self.sending.is_live() && self.next < self.tx_slots.count();
        // Buffers that the client provides wake nobody: a frame that finds none is lost.
        let receiving = if self.receiving.is_live() { Progress::Asleep } else { self.receiving.sleep() };
        receiving & self.sending.sleep() & Progress::more_if(lending)
    }

    /// Returns what happened since this was last called.
    pub fn tally(&mut self) -> Tally {
        core::mem::take(&mut self.tally)
    }
}

impl core::fmt::Debug for Port {
    fn fmt(&self, formatter: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        formatter.debug_struct("Port").field("mac", &self.mac).finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests;
