//! Copying frames from the device's buffers to a client's.
//!
//! The copier keeps no frame between turns. It takes a frame from its queue only together with a
//! buffer of the client's for it. While the client provides none, frames stay in their queue and
//! count against the client's share at the virtualiser; frames beyond that share are dropped there
//! or by the device. So a client that falls behind costs nothing here.
//!
//! A frame that lies in several of the device's buffers ([`CONTINUES`]), or in one that is larger
//! than the client's, is assembled in one of the client's large ones. The virtualiser gives such a
//! frame as a whole; if the end is missing nevertheless, the frame is dropped.

use crate::counters;
use culm::connection::NetCopier as Connection;
use culm::link::Event;
use culm::{Channels, Link, Progress, Region};
use culm_lending::Stash;
use culm_net::descriptor::flags::{CONTINUES, REFUSED};
use culm_net::slots::LARGEST_PACKET;
use culm_net::{BufferEntry, Descriptor, HEADROOM, MIN_PACKET, Slots};

/// The client's side of the copier: its queues, its buffers, and their memory.
struct Side {
    link: Link<Descriptor>,
    data: Region,
    slots: Slots,
}

/// The copier's state.
pub struct Copier {
    device: Side,
    client: Side,
    /// Buffers of the client's that came while a buffer of the other size was looked for.
    stash: Stash,
    /// Buffers that the client returned with the mark [`REFUSED`], for which none went to the
    /// virtualiser with it yet.
    refused: u32,
    /// When the last of those was dropped that it returned so.
    refused_at: u16,
    /// Whether the client has notified since it was last looked at.
    client_notified: bool,
    tally: Tally,
}

#[derive(Default)]
struct Tally {
    packets: u64,
    bytes: u64,
    invalid: u64,
    buffers_refused: u64,
}

impl Copier {
    /// Creates the copier between the two sides of `connection`.
    pub fn new(connection: &Connection) -> Self {
        let device_slots = Slots::new(connection.device_data.size, connection.device_buffer_size, u32::MAX);
        let large = connection.client_large;
        let client_slots =
            Slots::with_large(connection.client_data.size, connection.client_buffer_size, large, u32::MAX);
        let device = Side {
            link: Link::new(connection.device_free, connection.device_filled, connection.device_channel),
            data: Region::read_only(connection.device_data),
            slots: device_slots,
        };
        let client = Side {
            link: Link::new(connection.client_filled, connection.client_free, connection.client_channel),
            data: Region::new(connection.client_data),
            slots: client_slots,
        };
        let stash = Stash::new(client_slots);
        Self { device, client, stash, refused: 0, refused_at: 0, client_notified: true, tally: Tally::default() }
    }

    /// Marks the client if it notified.
    #[inline(always)]
    pub fn mark_due(&mut self, channels: Channels) {
        self.client_notified |= channels.contains(self.client.link.channel());
    }

    /// Copies frames, publishes them and announces sleep.
    #[inline]
    pub fn round(&mut self) -> Progress {
        if self.client_notified | !self.client.link.is_live() {
            self.look_at_client();
        }
        // Every event is ignored: the copier keeps none of the device's buffers, which belong to
        // the virtualiser again if that starts over.
        let (Event::None | Event::Changed | Event::Renewed) = self.device.link.begin();
        let starved = self.copy();
        self.client.link.publish();
        self.device.link.publish();
        let tally = core::mem::take(&mut self.tally);
        counters::PACKETS.add(tally.packets);
        counters::BYTES.add(tally.bytes);
        if tally.invalid | tally.buffers_refused != 0 {
            counters::DROPS_INVALID.add(tally.invalid);
            counters::BUFFERS_REFUSED.add(tally.buffers_refused);
        }
        self.sleep(starved)
    }

    /// Copies frames as long as there are both frames and buffers. Returns true if there are
    /// frames, but no buffer.
    #[inline]
    fn copy(&mut self) -> bool {
        if !self.client.link.is_live() {
            return self.device.link.input.available() > 0;
        }
        loop {
            // Costs more than it saves where a single frame waits.
            if self.device.link.input.available() > 1 {
                self.copy_small();
            }
            if self.device.link.input.available() == 0 {
                return false;
            }
            let Some(offset) = self.look_for(false) else { return true };
            if !self.fill(offset) {
                self.stash.keep(offset, false);
                let large = self.look_for(true);
                if large.is_none() && self.client.slots.large() > 0 {
                    return true;
                }
                self.gather(large);
            }
        }
    }

    /// Copies frames that lie in one small buffer into the client's small buffers, as long as the
    /// next of both are such, and keeps the positions of all queues in registers meanwhile. What is
    /// unusual in any way stays in its queue, for [`Self::fill`].
    #[inline(always)]
    fn copy_small(&mut self) {
        let Self { device, client, tally, .. } = self;
        let (from, to) = (&mut *device.link, &mut *client.link);
        let known = from.input.available();
        let (mut frames, mut buffers) = (from.input.drain(known), to.input.drain(known));
        let count = frames.len().min(buffers.len()) as u32;
        let (mut empty, mut filled) = (from.output.reserve(count), to.output.reserve(count));
        let (mut packets, mut bytes) = (0, 0);
        for _ in 0..count.min(empty.left()).min(filled.left()) {
            let (Some(frame), Some(buffer)) = (frames.peek(), buffers.peek()) else { break };
            let is_usual = device.slots.small_number(frame.offset).is_some()
                & client.slots.small_holds(frame.length)
                & (frame.flags & CONTINUES == 0)
                & client.slots.small_number(buffer.offset).is_some()
                & (buffer.flags == 0);
            let (place, to, length) = (frame.offset as usize, buffer.offset as usize, usize::from(frame.length));
            if !is_usual || device.data.copy(place, &client.data, to, length).is_err() {
                break;
            }
            frames.pass();
            buffers.pass();
            // There is space for both, as just asked.
            let _ = empty.push(Descriptor::empty(frame.offset));
            let _ = filled.push(Descriptor { offset: buffer.offset, ..frame });
            packets += 1;
            bytes += (length - HEADROOM) as u64;
        }
        tally.packets += packets;
        tally.bytes += bytes;
    }

    /// Returns the next buffer of that size that the client provides, or one that came while the
    /// other size was looked for.
    #[inline(always)]
    fn look_for(&mut self, large: bool) -> Option<u32> {
        loop {
            let Some(buffer) = self.client.link.input.pop() else { return self.stash.take(large) };
            let is_marked = buffer.flags == REFUSED;
            if is_marked {
                // No more than the client can have.
                self.refused = (self.refused + 1).min(self.client.slots.count());
                self.refused_at = buffer.length;
            }
            if self.client.slots.number(buffer.offset).is_none() | (buffer.flags != 0 && !is_marked) {
                self.tally.buffers_refused += 1;
            } else if self.client.slots.is_large_at(buffer.offset) == large {
                return Some(buffer.offset);
            } else {
                self.stash.keep(buffer.offset, !large);
            }
        }
    }

    /// Assembles the next frame, which lies in several buffers, in the client's large buffer at
    /// `offset`. Drops it if there is none.
    #[inline(never)]
    fn gather(&mut self, offset: Option<u32>) {
        let mut length = 0;
        let (mut whole, mut flags) = (false, 0);
        while let Some(piece) = self.device.link.input.pop_known() {
            let least = if length == 0 { MIN_PACKET } else { 1 };
            let bytes = usize::from(piece.length);
            if self.device.slots.number(piece.offset).is_none() {
                break;
            }
            // The virtualiser's queue has space for all buffers that it lends, so this push does
            // not fail.
            let empty = self.returned(piece.offset);
            let _ = self.device.link.output.push(empty);
            let sane = bytes >= least && bytes <= self.device.slots.buffer_size() && length + bytes <= LARGEST_PACKET;
            let copied = sane
                && offset.is_some_and(|offset| {
                    let (from, to) = (&self.device.data, &self.client.data);
                    from.copy(piece.offset as usize, to, offset as usize + length, bytes).is_ok()
                });
            length = if copied { length + bytes } else { usize::MAX / 2 };
            if piece.flags & CONTINUES == 0 {
                (whole, flags) = (length <= LARGEST_PACKET, piece.flags);
                break;
            }
        }
        let Some(offset) = offset else {
            self.tally.invalid += 1;
            return;
        };
        if whole && self.client.link.output.push(Descriptor { offset, length: length as u16, flags }).is_ok() {
            self.tally.packets += 1;
            self.tally.bytes += (length - HEADROOM) as u64;
        } else {
            self.tally.invalid += 1;
            self.stash.keep(offset, true);
        }
    }

    /// Copies the next frame into the client's small buffer at `offset`. Returns false if the frame
    /// needs a large buffer.
    #[inline(always)]
    fn fill(&mut self, offset: u32) -> bool {
        let Some(frame) = self.device.link.input.pop_known() else { return true };
        let place = self.device.slots.number(frame.offset);
        let small = self.client.slots.small_holds(frame.length) & (frame.flags & CONTINUES == 0);
        if place.is_none() | !small {
            return if place.is_none() { self.refuse(offset) } else { self.put_back() };
        }
        let length = usize::from(frame.length);
        let (from, to) = (&self.device.data, &self.client.data);
        let copied = from.copy(frame.offset as usize, to, offset as usize, length).is_ok();
        // The virtualiser's queue has space for all buffers that it lends, so this push does not
        // fail.
        let empty = self.returned(frame.offset);
        let _ = self.device.link.output.push(empty);
        if copied && self.client.link.output.push(Descriptor { offset, ..frame }).is_ok() {
            self.tally.packets += 1;
            self.tally.bytes += (length - HEADROOM) as u64;
        } else {
            // The client's queue is full. That does not happen to a client that provides only its
            // own buffers.
            self.tally.invalid += 1;
        }
        true
    }

    /// Returns the entry by which the device's buffer at `offset` goes back, with one of the marks
    /// that are to be passed on.
    #[inline(always)]
    fn returned(&mut self, offset: u32) -> Descriptor {
        let empty = Descriptor::empty(offset);
        if self.refused == 0 {
            return empty;
        }
        self.refused -= 1;
        empty.refused(self.refused_at)
    }

    /// Skips an entry that names no buffer, and keeps the client's buffer at `offset`. Returns
    /// true.
    #[cold]
    fn refuse(&mut self, offset: u32) -> bool {
        self.tally.buffers_refused += 1;
        self.stash.keep(offset, false);
        true
    }

    /// Puts the frame that was read last back into its queue. Returns false.
    #[cold]
    fn put_back(&mut self) -> bool {
        self.device.link.input.put_back();
        false
    }

    /// Looks at a client that has notified: it provides buffers, or it was restarted. If it was,
    /// its earlier buffers are void.
    #[cold]
    fn look_at_client(&mut self) {
        self.client_notified = false;
        if self.client.link.begin() == Event::Renewed {
            self.stash.clear();
            self.refused = 0;
        }
    }

    #[inline]
    fn sleep(&mut self, starved: bool) -> Progress {
        let mut progress = Progress::Asleep;
        // A side whose link is not live waits for its peer.
        if starved | !self.client.link.is_live() {
            progress &= self.client.link.sleep();
        }
        if !starved | !self.device.link.is_live() {
            progress &= self.device.link.sleep();
        }
        progress
    }
}
