//! Copying frames from the device's buffers to a client's.
//!
//! Of frames nothing is kept between turns. One is taken from its queue only together with a buffer of the client's to put it
//! into; while the client provides none, frames stay in their queue and count against the client's share at the virtualiser, and what
//! comes beyond that is dropped there or by the device. So a client that falls behind costs nothing here.
//!
//! A frame that lies in several of the device's buffers ([`CONTINUES`]), or in one that is larger than the client's, is put together in one of the client's large ones. The
//! virtualiser gives such a frame as a whole; where the end is missing nevertheless, what there is of it is dropped.

use crate::counters;
use culm::connection::NetCopier as Connection;
use culm::queue::{Consumer, Producer};
use culm::{Channel, Channels, Region, queue};
use culm_net::descriptor::flags::CONTINUES;
use culm_net::session::{Event, Marked};
use culm_net::slots::LARGEST_PACKET;
use culm_net::{Descriptor, HEADROOM, MIN_PACKET, Marker, Session, Slots, Stash, put_off};

/// One side of the copier: where packets or buffers come from and where they go.
struct Side {
    input: Consumer<Descriptor>,
    output: Producer<Descriptor>,
    session: Session,
    channel: Channel,
    data: Region,
    slots: Slots,
    /// Buffers that came while one of the other size was looked for.
    stash: Stash,
}

/// The copier's state.
pub(crate) struct Copier {
    device: Side,
    client: Side,
    /// The client has notified since it was last looked at.
    client_notified: bool,
    tally: Tally,
}

#[derive(Default)]
struct Tally {
    packets: u64,
    bytes: u64,
    invalid: u64,
    refused: u64,
}

/// What became of an empty buffer.
enum Filled {
    /// It was used.
    Yes,
    /// There was no frame but only markers; it went back to the client.
    NoFrame,
    /// The next frame takes a large one, or cannot be one.
    Large,
}

impl Side {
    /// Deals with an entry that is no packet or buffer. False: it says nothing at all.
    #[cold]
    fn examine(&mut self, entry: Descriptor) -> bool {
        let Some(marker) = entry.as_marker() else { return !self.session.is_live() };
        self.session.receive(marker);
        if matches!(marker, Marker::Welcome(_)) {
            self.settle();
        }
        true
    }

    /// Answers markers. Where the pair starts over, buffers are their owner's again.
    #[cold]
    fn settle(&mut self) {
        if self.session.settle(&mut self.output) == Event::Renewed {
            self.stash.clear();
        }
    }

    #[inline(always)]
    fn publish(&mut self) {
        if !self.session.is_live() {
            self.settle();
        }
        let given = self.output.publish();
        // In this order: what is read again after a restart must not have been answered in vain.
        let taken = self.session.may_release() && self.input.release_many(put_off(self.input.capacity()));
        if given | taken {
            self.channel.notify();
        }
    }

    #[cold]
    fn sleep_apart(&mut self) -> bool {
        self.session.sleep(&mut self.output, &mut self.input)
    }
}

impl Copier {
    pub(crate) fn new(connection: &Connection) -> Self {
        let mut device_output = queue::producer(connection.device_free);
        let mut client_output = queue::producer(connection.client_filled);
        let device_slots = Slots::new(connection.device_data.size, connection.device_buffer_size, u32::MAX);
        let large = connection.client_large;
        let client_slots =
            Slots::with_large(connection.client_data.size, connection.client_buffer_size, large, u32::MAX);
        let device = Side {
            input: queue::consumer(connection.device_filled),
            session: Session::begin(&mut device_output),
            output: device_output,
            channel: Channel::new(connection.device_channel),
            data: Region::read_only(connection.device_data),
            slots: device_slots,
            stash: Stash::new(device_slots),
        };
        let client = Side {
            input: queue::consumer(connection.client_free),
            session: Session::begin(&mut client_output),
            output: client_output,
            channel: Channel::new(connection.client_channel),
            data: Region::new(connection.client_data),
            slots: client_slots,
            stash: Stash::new(client_slots),
        };
        Self { device, client, client_notified: true, tally: Tally::default() }
    }

    /// Takes note of who notified.
    #[inline(always)]
    pub(crate) fn note(&mut self, channels: Channels) {
        self.client_notified |= channels.contains(self.client.channel);
    }

    /// Copies what there is to be copied, publishes it and announces sleep. False: there is more already.
    #[inline]
    pub(crate) fn round(&mut self) -> bool {
        if self.client_notified | !self.client.session.is_live() {
            self.look_at_client();
        }
        if !self.device.session.is_live() {
            self.start_over_with_device();
        }
        let starved = self.copy();
        self.client.publish();
        self.device.publish();
        let tally = core::mem::take(&mut self.tally);
        counters::PACKETS.add(tally.packets);
        counters::BYTES.add(tally.bytes);
        if tally.invalid | tally.refused != 0 {
            counters::DROPS_INVALID.add(tally.invalid);
            counters::REFUSED.add(tally.refused);
        }
        self.sleep(starved)
    }

    /// Copies frames as long as there are both frames and buffers. True: there are frames, but no buffer.
    #[inline]
    fn copy(&mut self) -> bool {
        if !self.device.session.is_live() {
            return false;
        }
        if !self.client.session.is_live() {
            return self.device.input.refresh() > 0;
        }
        self.device.input.refresh();
        loop {
            if self.device.input.available() == 0 {
                return false;
            }
            let Some(offset) = self.look_for(false) else { return true };
            match self.fill(offset) {
                Filled::Yes => {}
                Filled::NoFrame => return false,
                Filled::Large => {
                    self.client.stash.keep(offset, false);
                    let large = self.look_for(true);
                    if large.is_none() && self.client.slots.large() > 0 {
                        return true;
                    }
                    self.gather(large);
                }
            }
        }
    }

    /// The next buffer of that size that the client provides, or one that came while the other size was looked for.
    #[inline(always)]
    fn look_for(&mut self, large: bool) -> Option<u32> {
        loop {
            let Some(buffer) = self.client.input.pop() else { return self.client.stash.take(large) };
            if self.client.slots.number(buffer.offset).is_none() | (buffer.flags != 0) {
                self.tally.refused += u64::from(!self.client.examine(buffer));
            } else if self.client.slots.is_large_at(buffer.offset) == large {
                return Some(buffer.offset);
            } else {
                self.client.stash.keep(buffer.offset, !large);
            }
        }
    }

    /// Puts the next frame, which lies in several buffers, together in the client's large one at `offset`. Without one it is dropped.
    #[inline(never)]
    fn gather(&mut self, offset: Option<u32>) {
        let mut length = 0;
        let (mut whole, mut flags) = (false, 0);
        while let Some(piece) = self.device.input.pop_known() {
            let least = if length == 0 { MIN_PACKET } else { 1 };
            let bytes = usize::from(piece.length);
            if self.device.slots.number(piece.offset).is_none() || piece.as_marker().is_some() {
                // The virtualiser was restarted in the middle.
                self.device.examine(piece);
                break;
            }
            // As for whole frames, the virtualiser's queue has space for all buffers that it lends.
            let _ = self.device.output.push(Descriptor::empty(piece.offset));
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
        if whole && self.client.output.push(Descriptor { offset, length: length as u16, flags }).is_ok() {
            self.tally.packets += 1;
            self.tally.bytes += (length - HEADROOM) as u64;
        } else {
            self.tally.invalid += 1;
            self.client.stash.keep(offset, true);
        }
    }

    /// Copies the next frame into the client's small buffer at `offset`.
    #[inline(always)]
    fn fill(&mut self, offset: u32) -> Filled {
        while let Some(frame) = self.device.input.pop_known() {
            let place = self.device.slots.number(frame.offset);
            let small = self.client.slots.small_holds(frame.length) & (frame.flags & CONTINUES == 0);
            if place.is_none() | !small {
                if place.is_some() && frame.as_marker().is_none() {
                    self.device.input.put_back();
                    return Filled::Large;
                }
                self.device.examine(frame);
                continue;
            }
            let length = usize::from(frame.length);
            let (from, to) = (&self.device.data, &self.client.data);
            let copied = from.copy(frame.offset as usize, to, offset as usize, length).is_ok();
            let output = &mut self.client.output;
            let passed = copied && output.push(Descriptor { offset, ..frame }).is_ok();
            // The virtualiser's queue has space for all buffers that it lends.
            let _ = self.device.output.push(Descriptor::empty(frame.offset));
            if passed {
                self.tally.packets += 1;
                self.tally.bytes += (length - HEADROOM) as u64;
                return Filled::Yes;
            }
            // The client's queue is full, which one that provides only its own buffers never sees.
            self.tally.invalid += 1;
            return Filled::Yes;
        }
        // Nothing but markers: the client's buffer is unused. It is given back as an empty packet would be, by itself.
        let _ = self.client.output.push(Descriptor::empty(offset));
        Filled::NoFrame
    }

    /// The client has notified: it provides buffers that were waited for, or it was restarted.
    #[cold]
    fn look_at_client(&mut self) {
        self.client_notified = false;
        self.client.input.refresh();
        if self.client.input.restarted() | !self.client.session.is_live() {
            self.start_over_with_client();
        }
    }

    /// The client was restarted, or this copier: buffers from before are void.
    fn start_over_with_client(&mut self) {
        while let Some(entry) = self.client.input.pop() {
            let is_marker = entry.as_marker().is_some();
            self.client.examine(entry);
            if is_marker && self.client.session.is_live() {
                break;
            }
        }
    }

    /// The virtualiser was restarted, or this copier: frames from before are void.
    #[cold]
    fn start_over_with_device(&mut self) {
        while let Some(entry) = self.device.input.pop() {
            let is_marker = entry.as_marker().is_some();
            self.device.examine(entry);
            if is_marker && self.device.session.is_live() {
                break;
            }
        }
    }

    #[inline]
    fn sleep(&mut self, starved: bool) -> bool {
        let mut asleep = true;
        if !self.client.session.is_live() {
            asleep &= self.client.sleep_apart();
        } else if starved {
            asleep &= self.client.input.sleep();
        }
        if !self.device.session.is_live() {
            asleep &= self.device.sleep_apart();
        } else if !starved {
            asleep &= self.device.input.sleep();
        }
        asleep
    }
}
