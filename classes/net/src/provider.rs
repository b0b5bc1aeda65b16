//! The provider's side: the far end of clients that have no device, for a switch, a gateway or a
//! guest's back-end.
//!
//! A provider stands where device, virtualisers and copier stand otherwise: it takes the frames
//! that its clients send ([`Port::next_frame`]) and copies them to whom they are for
//! ([`Port::deliver`]). Its clients are as hostile as a virtualiser's. A [`Frame`] lies where its
//! client can still change it; what is delivered is a copy, whose source address is checked where
//! the client must not invent one.
//!
//! A round begins each port ([`Port::begin`]), passes frames on, and settles each
//! ([`Port::settle`]). A client that does not read its frames loses those that come; it stops
//! nobody.

use crate::{Descriptor, ETHERNET_HEADER, HEADROOM, MIN_PACKET, Mac, PacketHeader, Slots, lendable};
use alloc::boxed::Box;
use alloc::vec;
use culm::connection::NetProviderClient;
use culm::link::Event;
use culm::{Channels, Link, Progress, Region};
use culm_lending::Stash;

/// Buffers that are lent at a time to a client that starts over.
const LENDING: u32 = 64;

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
    /// What happened since it was last asked for.
    tally: Tally,
}

/// Counts of what happened at a port.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Tally {
    /// Frames that the client was given.
    pub delivered: u64,
    /// Frames that it was not given, since it provided no buffer that holds them.
    pub missed: u64,
    /// Entries of the client's that were no frame of its own, and frames with another's address.
    pub refused: u64,
}

/// A frame that a client sends. Its buffer goes back when the next one is taken, and at the end of
/// the round.
#[derive(Clone, Copy, Debug)]
pub struct Frame {
    offset: u32,
    length: u16,
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

    /// Returns whether one of these channels is this client's.
    pub fn is_among(&self, channels: Channels) -> bool {
        channels.contains(self.receiving.channel()) || channels.contains(self.sending.channel())
    }

    /// Begins a round: looks at what the client sent and provided, and whether it was restarted.
    pub fn begin(&mut self) {
        if self.receiving.begin() == Event::Renewed {
            self.stash.clear();
        }
        if self.sending.begin() == Event::Renewed {
            self.lent.fill(false);
            (self.next, self.taken) = (0, None);
        }
        self.lend();
    }

    /// Lends the client some of its transmit buffers, if it has begun another life.
    fn lend(&mut self) {
        if !self.sending.is_live() {
            return;
        }
        let end = self.next.saturating_add(LENDING).min(self.tx_slots.count());
        for number in self.next..end {
            self.give_back(number);
        }
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
        loop {
            let entry = self.sending.input.pop_known()?;
            let number = self.tx_slots.number(entry.offset).filter(|number| entry.flags == 0 && self.is_lent(*number));
            let Some(number) = number else {
                self.tally.refused += 1;
                continue;
            };
            if let Some(lent) = self.lent.get_mut(number as usize) {
                *lent = false;
            }
            self.taken = Some(number);
            if self.tx_slots.holds(number, entry.length) {
                return Some(Frame { offset: entry.offset, length: entry.length });
            }
            self.tally.refused += 1;
            self.finish();
        }
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

    /// Returns the Ethernet header of a frame. Hazard: the client may change it until the frame is
    /// delivered; what is decided by it concerns that client alone.
    pub fn header(&self, frame: Frame) -> [u8; ETHERNET_HEADER] {
        let mut header = [0; ETHERNET_HEADER];
        // A frame is at least so long, and lies inside.
        let _ = self.tx_data.read(frame.offset as usize + HEADROOM, &mut header);
        header
    }

    /// Copies a frame of `from` into a buffer of this client's and gives it to the client. Returns
    /// false if it could not be given, or must not be: its source is not the sender's address.
    pub fn deliver(&mut self, from: &mut Self, frame: Frame) -> bool {
        let (source, length) = (&from.tx_data, usize::from(frame.length));
        let sender = from.anti_spoof.then_some(from.mac);
        let placed =
            self.place(frame.length, |data, offset| source.copy(frame.offset as usize, data, offset, length).is_ok());
        let Some(offset) = placed else { return false };
        if sender.is_some_and(|sender| self.source_at(offset) != sender) {
            from.tally.refused += 1;
            self.stash.keep(offset, self.rx_slots.is_large_at(offset));
            return false;
        }
        // No device has looked at the frame, and none will complete it.
        self.publish_at(offset, frame.length, PacketHeader::default())
    }

    /// Gives the client a frame that is not another client's, with what is known of its checksum.
    pub fn deliver_bytes(&mut self, header: PacketHeader, frame: &[u8]) -> bool {
        let Ok(length) = u16::try_from(HEADROOM + frame.len()) else { return false };
        let placed = self.place(length, |data, offset| data.write(offset + HEADROOM, frame).is_ok());
        placed.is_some_and(|offset| self.publish_at(offset, length, header))
    }

    /// Copies a frame of this client's into `bytes`, from their beginning; returns its length.
    /// `None` if it does not fit, or must not be passed on: its source is not the client's address.
    pub fn read(&mut self, frame: Frame, bytes: &mut [u8]) -> Option<usize> {
        let length = usize::from(frame.length) - HEADROOM;
        let bytes = bytes.get_mut(..length)?;
        self.tx_data.read(frame.offset as usize + HEADROOM, bytes).ok()?;
        let is_own = !self.anti_spoof || bytes.get(6..12) == Some(&self.mac.bytes());
        self.tally.refused += u64::from(!is_own);
        is_own.then_some(length)
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

    /// Returns a buffer that the client provides and that holds a packet of `length` bytes.
    fn take(&mut self, length: u16) -> Option<u32> {
        let large = !self.rx_slots.small_holds(length);
        if usize::from(length) < MIN_PACKET || large && self.rx_slots.large() == 0 {
            return None;
        }
        loop {
            let Some(buffer) = self.receiving.input.pop() else { return self.stash.take(large) };
            if self.rx_slots.number(buffer.offset).is_none() || buffer.flags != 0 {
                self.tally.refused += 1;
            } else if self.rx_slots.is_large_at(buffer.offset) == large {
                return Some(buffer.offset);
            } else {
                self.stash.keep(buffer.offset, !large);
            }
        }
    }

    /// The source address in the packet that lies in a buffer of the client's.
    fn source_at(&self, offset: u32) -> Mac {
        let mut address = [0; 6];
        let _ = self.rx_data.read(offset as usize + HEADROOM + 6, &mut address);
        Mac::new(address)
    }

    /// Gives the client the packet in its buffer at `offset`.
    fn publish_at(&mut self, offset: u32, length: u16, header: PacketHeader) -> bool {
        let mut bytes = [0; HEADROOM];
        header.write(&mut bytes);
        let written = self.rx_data.write(offset as usize, &bytes).is_ok();
        let given = written && self.receiving.output.push(Descriptor { offset, length, flags: 0 }).is_ok();
        self.tally.delivered += u64::from(given);
        self.tally.missed += u64::from(!given);
        given
    }

    /// Ends a round: publishes what was delivered and given back, and announces sleep.
    pub fn settle(&mut self) -> Progress {
        self.finish();
        self.receiving.publish();
        self.sending.publish();
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
