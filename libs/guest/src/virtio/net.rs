//! The guest's network card (VIRTIO 1.2 §5.1): what the two queues carry. Frames are checked by
//! whoever sends them on.

use super::Memory;
use super::chain::{Chain, Part};
use super::queue::{Broken, Single};
use super::transport::Transport;

/// Kind of device (§5).
const DEVICE: u32 = 1;

/// Bytes of the header before each frame (§5.1.6).
pub const HEADER: usize = 12;

/// Where the header says how many buffers a frame takes.
const BUFFERS: usize = 10;

/// Queues (§5.1.2).
const RECEIVE: usize = 0;
const TRANSMIT: usize = 1;

/// Features (§5.1.3).
pub mod feature {
    /// The guest may leave checksums to the device.
    pub const CHECKSUM: u64 = 1 << 0;
    /// The guest takes frames with partial checksums.
    pub const GUEST_CHECKSUM: u64 = 1 << 1;
    /// The configuration has the address.
    pub const MAC: u64 = 1 << 5;
    /// The guest takes packets of many segments of TCP over IPv4.
    pub const GUEST_TSO4: u64 = 1 << 7;
    /// The guest takes packets of many segments of TCP over IPv6.
    pub const GUEST_TSO6: u64 = 1 << 8;
    /// The device divides packets of many segments of TCP over IPv4.
    pub const HOST_TSO4: u64 = 1 << 11;
    /// The device divides packets of many segments of TCP over IPv6.
    pub const HOST_TSO6: u64 = 1 << 12;
    /// A received frame may lie in several buffers.
    pub const MERGED_BUFFERS: u64 = 1 << 15;
}

/// Features by which the guest sends packets of many segments.
const HOST_TSO: u64 = feature::HOST_TSO4 | feature::HOST_TSO6;

/// The features that it offers.
const FEATURES: u64 = feature::CHECKSUM
    | feature::GUEST_CHECKSUM
    | feature::MAC
    | feature::GUEST_TSO4
    | feature::GUEST_TSO6
    | HOST_TSO
    | feature::MERGED_BUFFERS;

/// Frames that go either way before a guest that has not waited in between is busy: more than a
/// question and its answer, so that one who asks and waits is not.
const MANY: u16 = 4;

/// Frames that are found where a busy guest's were put off for as long as they may be, and that
/// show it busy still: more than one who asks has under way.
const SOME: u16 = 2;

/// Frames for which a guest that is busy does not ring, if they take no more than half of the
/// queue's descriptors: that many are one exit less. More of them would let a sender in bulk get
/// further ahead of its card.
const AHEAD: u16 = 31;

/// The most buffers that one frame is spread over: with buffers of half a page, twice what a frame
/// of 64 KiB needs.
const MAX_BUFFERS: u16 = 64;

/// The card.
#[derive(Clone, Debug)]
pub struct Net {
    /// Its registers.
    pub transport: Transport,
    /// How much room was found last, where it was not enough.
    shortage: Option<Shortage>,
    /// Frames that went either way since the guest last waited, of those that show it awake.
    moved: u16,
    /// The guest waits, as far as is known: it has neither rung since then nor been given a frame.
    /// What it still sends it has left before.
    waits: bool,
    /// Descriptors of the frames that were sent since the guest was last asked whether it wants an
    /// interrupt for them.
    untold: u16,
    /// Most descriptors of a frame that was sent since the guest last waited.
    longest: u16,
    /// The buffer of the frame that the guest sends, which was taken last.
    outgoing: Chain,
    /// The buffers of the frame that the guest is given: the first one, and the last one behind it.
    incoming: [Chain; 2],
}

/// The room that was found when a frame did not fit. Until the guest gives more buffers, a frame
/// that needs more than that is refused at once: so a flood for a guest that takes nothing has its
/// buffers filled in vain once, and not for each frame.
#[derive(Clone, Copy, Debug)]
struct Shortage {
    /// The count of resets when there was too little room.
    resets: u32,
    /// Where the queue was.
    position: (u16, u16),
    /// Bytes that one frame could have.
    room: u64,
}

/// A frame that the guest sends. [`Net::read`] has its bytes, and [`Net::sent`] gives it back.
#[derive(Clone, Copy, Debug)]
pub struct Frame {
    /// The header.
    pub header: [u8; HEADER],
    /// Bytes of the frame, without the header; there may be any number.
    pub length: u64,
}

/// What is left of a frame that lies in pieces one after the other.
struct Rest<'a> {
    piece: &'a [u8],
    others: core::slice::Iter<'a, &'a [u8]>,
}

impl Rest<'_> {
    /// Copies as many bytes as there are, and as `part` has room for. Returns their count, or
    /// nothing if the part is not in the guest's memory.
    #[inline]
    fn fill(&mut self, memory: &impl Memory, part: Part) -> Option<u32> {
        // Most parts lie within one piece.
        if let Some((now, later)) = self.piece.split_at_checked(part.length as usize) {
            memory.write(part.address, now)?;
            self.piece = later;
            return Some(part.length);
        }
        let mut filled = 0;
        while filled < part.length {
            if self.piece.is_empty() {
                let Some(next) = self.others.next() else { break };
                self.piece = next;
                continue;
            }
            let length = self.piece.len().min((part.length - filled) as usize);
            let (now, later) = self.piece.split_at(length);
            // An address that wraps is none that a guest's memory has.
            memory.write(part.address.wrapping_add(filled.into()), now)?;
            filled += length as u32;
            self.piece = later;
        }
        Some(filled)
    }
}

/// The outcome of a frame for the guest.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Delivery {
    /// The guest has it.
    Done,
    /// The guest has no room for it, or the card does not work.
    Refused,
}

impl Net {
    /// Creates a card with this address, behind which somebody divides packets of many segments, or
    /// takes them as they are.
    pub fn new(mac: [u8; 6]) -> Self {
        Self::with(mac, FEATURES)
    }

    /// Creates a card with this address that divides no packets: they go to somebody who takes them
    /// as they are, of one segment each.
    pub fn without_host_tso(mac: [u8; 6]) -> Self {
        Self::with(mac, FEATURES & !HOST_TSO)
    }

    fn with(mac: [u8; 6], features: u64) -> Self {
        let mut transport = Transport::new(DEVICE, features, 2);
        transport.configure(0, &mac);
        Self {
            transport,
            shortage: None,
            moved: 0,
            waits: false,
            untold: 0,
            longest: 0,
            outgoing: Chain::default(),
            incoming: [Chain::default(); 2],
        }
    }

    /// Returns whether the guest may send packets of many segments.
    pub fn sends_segments(&self) -> bool {
        self.transport.has(feature::HOST_TSO4) || self.transport.has(feature::HOST_TSO6)
    }

    /// Returns whether the guest is busy: several frames went either way and it has not waited in
    /// between. Its doorbell is put off then, and its monitor looks at the queues as the guest
    /// waits, and after a while.
    pub fn is_busy(&self) -> bool {
        self.moved >= MANY && self.transport.is_live()
    }

    /// Takes it that the guest waits, or is busy with something else: it rings at its next frame,
    /// once [`Self::publish`] has told it so.
    pub fn guest_waits(&mut self) {
        (self.moved, self.longest) = (0, 0);
        self.waits = true;
    }

    /// Takes it that the frames of a busy guest were put off for as long as they may be, and it has
    /// not waited. It is busy still if several are found now ([`Self::is_busy`]); if not, call
    /// [`Self::guest_waits`] when they are carried.
    pub fn guest_is_late(&mut self) {
        self.moved = MANY - SOME;
        self.waits = false;
    }

    /// Takes it that the guest has rung: it does not wait.
    pub fn guest_rings(&mut self) {
        self.waits = false;
    }

    /// Counts a frame that shows the guest awake.
    fn count_moved(&mut self) {
        self.moved = self.moved.saturating_add(1);
    }

    /// Takes the next frame that the guest sends.
    pub fn next_frame(&mut self, memory: &impl Memory) -> Option<Frame> {
        let taken = self.transport.queue(TRANSMIT)?.take(memory, &mut self.outgoing);
        if !self.transport.sound(taken)? {
            return None;
        }
        let mut header = [0; HEADER];
        if self.outgoing.read(memory, 0, &mut header).is_none() {
            // No header: the queue is not used as this device's is.
            self.transport.fail();
            return None;
        }
        Some(Frame { header, length: self.outgoing.readable_bytes() - HEADER as u64 })
    }

    /// Copies bytes of the frame that was taken last out, from `offset` on. Returns nothing unless
    /// all are there.
    pub fn read(&self, memory: &impl Memory, offset: u64, bytes: &mut [u8]) -> Option<()> {
        self.outgoing.read(memory, offset.saturating_add(HEADER as u64), bytes)
    }

    /// Returns whether all bytes of the frame that was taken last are in the guest's memory: then
    /// [`Self::read`] has any of them.
    pub fn is_readable(&self, memory: &impl Memory) -> bool {
        self.outgoing.is_readable(memory)
    }

    /// Gives the buffer of the frame that was taken last back, after it was sent or refused.
    pub fn sent(&mut self, memory: &impl Memory) {
        if let Some(queue) = self.transport.queue(TRANSMIT) {
            let result = queue.give_back(memory, &self.outgoing, 0);
            self.transport.sound(result);
            let descriptors = self.outgoing.count() as u16;
            self.untold = self.untold.saturating_add(descriptors);
            self.longest = self.longest.max(descriptors);
            if !self.waits {
                self.count_moved();
            }
        }
    }

    /// Gives the guest a frame, which lies in pieces one after the other, or leaves all of it.
    pub fn deliver(&mut self, memory: &impl Memory, header: [u8; HEADER], frame: &[&[u8]]) -> Delivery {
        let resets = self.transport.resets();
        let Some(queue) = self.transport.queue(RECEIVE) else { return Delivery::Refused };
        let needed = HEADER as u64 + frame.iter().map(|piece| piece.len() as u64).sum::<u64>();
        if let Some(shortage) = self.shortage {
            let looked = queue.look(memory);
            let is_still = (shortage.resets, shortage.position) == (resets, queue.position());
            if self.transport.sound(looked).is_none() || is_still && shortage.room < needed {
                return Delivery::Refused;
            }
            self.shortage = None;
        }
        let filled = self.fill(memory, header, frame, needed);
        match self.transport.sound(filled) {
            Some(room) if room >= needed => {
                self.waits = false;
                self.count_moved();
                Delivery::Done
            }
            Some(room) => {
                // The chains that were looked at in vain are there again, up to the last one that
                // was known of then.
                let position = self.transport.queue(RECEIVE).map(|queue| queue.position());
                self.shortage = position.map(|position| Shortage { resets, position, room });
                Delivery::Refused
            }
            None => Delivery::Refused,
        }
    }

    /// Fills buffers with a frame, whose header becomes true when their count is known. Where there
    /// is too little room they are the guest's again, whatever is in them by then. Returns how much
    /// room there was.
    fn fill(
        &mut self,
        memory: &impl Memory,
        mut header: [u8; HEADER],
        frame: &[&[u8]],
        needed: u64,
    ) -> Result<u64, Broken> {
        let most = if self.transport.has(feature::MERGED_BUFFERS) { MAX_BUFFERS } else { 1 };
        let Some(queue) = self.transport.queue(RECEIVE) else { return Ok(0) };
        let [first, other] = &mut self.incoming;
        header[BUFFERS..].copy_from_slice(&1_u16.to_le_bytes());
        if let Some(Single { head, part }) = queue.take_single(memory)? {
            // Most frames lie in one piece, and fit the first buffer.
            if let &[frame] = frame
                && u64::from(part.length) >= needed
            {
                memory.write(part.address, &header).ok_or(Broken)?;
                memory.write(part.address.wrapping_add(HEADER as u64), frame).ok_or(Broken)?;
                queue.give_back_head(memory, head, needed as u32)?;
                return Ok(needed);
            }
            first.begin_single(head, part, true);
        } else if !queue.take(memory, first)? {
            return Ok(0);
        }
        let mut rest = Rest { piece: &header, others: frame.iter() };
        let (mut buffers, mut room) = (0, 0);
        while room < needed && buffers < most {
            if buffers > 0
                && let Some(single) = queue.take_single(memory)?
            {
                let filled = rest.fill(memory, single.part).ok_or(Broken)?;
                queue.give_back_head(memory, single.head, filled)?;
                (buffers, room) = (buffers + 1, room + u64::from(single.part.length));
                continue;
            }
            let chain = if buffers == 0 { &mut *first } else { &mut *other };
            if buffers > 0 && !queue.take(memory, chain)? {
                break;
            }
            let mut filled = 0;
            for part in chain.writable() {
                // A buffer that is not in the guest's memory breaks the queue.
                filled += rest.fill(memory, *part).ok_or(Broken)?;
                room += u64::from(part.length);
            }
            queue.give_back(memory, chain, filled)?;
            buffers += 1;
        }
        if room < needed {
            queue.undo(buffers);
        } else if buffers > 1 {
            first.write(memory, BUFFERS as u64, &buffers.to_le_bytes()).ok_or(Broken)?;
        }
        Ok(room)
    }

    /// Shows the guest what was given back, and asks for its doorbell when it sends. An interrupt
    /// for nothing but frames that were sent is put off ([`Self::has_untold`]): until one for a
    /// received frame, until most of the queue waits for it, or until [`Self::tell_sent`].
    pub fn publish(&mut self, memory: &impl Memory) {
        if let Some(queue) = self.transport.queue(RECEIVE) {
            let wanted = queue.publish(memory);
            self.transport.tell(wanted);
        }
        let is_busy = self.is_busy();
        let Some(queue) = self.transport.queue(TRANSMIT) else {
            // The frames of a driver tell nothing of the next one.
            (self.moved, self.untold, self.longest) = (0, 0, 0);
            return;
        };
        // A frame of many segments takes a descriptor for each of its pages.
        let half = queue.size / 2;
        let ahead = if is_busy { AHEAD.min(half / self.longest.max(1)) } else { 0 };
        let shown = queue.show(memory, ahead);
        let is_much = self.untold > half;
        if self.transport.sound(shown).is_some() && (is_much || self.transport.is_interrupting()) {
            self.tell_sent(memory);
        }
    }

    /// Returns whether frames were sent of which the guest was not told by an interrupt, if it
    /// wants one.
    pub fn has_untold(&mut self) -> bool {
        self.transport.queue(TRANSMIT).is_some_and(|queue| queue.untold() > 0)
    }

    /// Interrupts the guest for the frames that were sent, if it wants to be.
    pub fn tell_sent(&mut self, memory: &impl Memory) {
        self.untold = 0;
        if let Some(queue) = self.transport.queue(TRANSMIT) {
            let wanted = queue.wants_interrupt(memory);
            self.transport.tell(wanted);
        }
    }

    /// Returns whether the guest has another frame to send.
    pub fn has_frame(&mut self, memory: &impl Memory) -> bool {
        let Some(queue) = self.transport.queue(TRANSMIT) else { return false };
        let result = queue.has_next(memory);
        self.transport.sound(result).unwrap_or(false)
    }
}

#[cfg(test)]
mod tests;
