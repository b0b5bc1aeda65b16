//! A client, as the transmit virtualiser sees it: its queues, and where each of its buffers is.

use alloc::boxed::Box;
use alloc::vec;
use culm::connection::NetTxClient;
use culm::link::Event;
use culm::{Link, Region};
use culm_net::{Allowance, Descriptor, Mac, Slots, lendable};

/// Buffers that a client which starts over is given at a time, between others' turns.
const LENDING: u32 = 64;

/// Steps of its allowance that it costs a client to be another than it was.
const CHANGE: u32 = 2;

/// Where a buffer is, in one number: of what is being sent, it is the packet's length, which no packet has below
/// [`culm_net::MIN_PACKET`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Place(u16);

impl Place {
    /// Here, to be given to the client.
    const HERE: Self = Self(0);
    /// With the client, which may write it.
    const CLIENT: Self = Self(1);

    /// The length of the packet in it that is being sent.
    #[inline(always)]
    const fn being_sent(self) -> Option<u16> {
        if self.0 > Self::CLIENT.0 { Some(self.0) } else { None }
    }
}

/// A client.
pub(crate) struct Client {
    /// Frames to send come from it, buffers go to it.
    pub(crate) link: Link<Descriptor>,
    data: Region,
    slots: Slots,
    places: Box<[Place]>,
    /// How many buffers are [`Place::HERE`].
    here: u32,
    /// Where the next of them is looked for.
    next: u32,
    /// What it may still cost that brings nothing.
    pub(crate) allowance: Allowance,
    /// Bytes that it may send before others get their turn.
    pub(crate) credit: u32,
    /// Frames of it that are with the driver, and what they count ([`culm_net::Shares`]).
    in_flight: u32,
    pub(crate) share: u32,
    /// How many frames with the driver are no reason to wait for any.
    plenty: u32,
    /// How many of its own large buffers are being sent.
    large_in_flight: u32,
    /// How many large buffers of the virtualiser's hold frames of it.
    pub(crate) large_copies: u32,
    /// The only address that it may send from.
    pub(crate) only: Option<Mac>,
}

/// What an entry of a client's is that is no frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Entry {
    /// A buffer that it holds, with a length that cannot be. It still holds it.
    Invalid(u32),
    /// A buffer that it does not hold, or none at all.
    NotHeld,
}

impl Client {
    pub(crate) fn new(connection: &NetTxClient, buffer_size: u32) -> Self {
        let limit = lendable(connection.free.capacity.min(1 << 16));
        let slots = Slots::with_large(connection.data.size, buffer_size, connection.large, limit);
        Self {
            link: Link::new(connection.free, connection.filled, connection.channel),
            data: if connection.data.address == 0 {
                Region::new(connection.data)
            } else {
                Region::read_only(connection.data)
            },
            slots,
            places: vec![Place::HERE; slots.count() as usize].into_boxed_slice(),
            here: slots.count(),
            next: 0,
            allowance: Allowance::new(slots.count()),
            credit: 0,
            in_flight: 0,
            share: 0,
            plenty: slots.count() / 2,
            large_in_flight: 0,
            large_copies: 0,
            only: (connection.anti_spoof != 0).then(|| Mac::new(connection.mac)),
        }
    }

    /// Begins a round with it: looks what it sends, and whether the pair of queues starts over. Then what it had is here again.
    #[inline(always)]
    pub(crate) fn begin(&mut self) {
        match self.link.begin() {
            Event::None => {}
            Event::Changed => self.allowance.spend(CHANGE),
            Event::Renewed => self.start_over(),
        }
    }

    /// The number of the buffer in which `entry` says that a frame is. `None`: see [`Self::examine`].
    #[inline(always)]
    pub(crate) fn frame(&self, entry: Descriptor) -> Option<u32> {
        let number = self.held(entry)?;
        if self.slots.holds(number, entry.length) { Some(number) } else { None }
    }

    /// The number of the buffer of which `entry` speaks, which the client holds.
    #[inline(always)]
    fn held(&self, entry: Descriptor) -> Option<u32> {
        let number = self.slots.number(entry.offset)?;
        let held = self.places.get(number as usize) == Some(&Place::CLIENT) && entry.flags == 0;
        if held { Some(number) } else { None }
    }

    /// What an entry is that is no frame.
    #[cold]
    pub(crate) fn examine(&self, entry: Descriptor) -> Entry {
        if let Some(number) = self.held(entry) {
            return Entry::Invalid(number);
        }
        Entry::NotHeld
    }

    /// A frame of the client's of this length goes to the driver from its buffer `number`.
    #[inline(always)]
    pub(crate) fn send(&mut self, number: u32, length: u16) {
        if let Some(place) = self.places.get_mut(number as usize) {
            *place = Place(length);
        }
        if self.slots.is_large(number) {
            self.large_in_flight += 1;
        }
        self.in_flight += 1;
    }

    /// A copy of a frame of the client's goes to the driver.
    pub(crate) fn send_copy(&mut self) {
        self.in_flight += 1;
    }

    /// Whether it needs [`Self::settle`].
    #[inline(always)]
    pub(crate) fn is_unsettled(&self) -> bool {
        (self.here > 0) | !self.link.is_live()
    }

    /// What the client had is here again.
    #[cold]
    fn start_over(&mut self) {
        for place in &mut self.places {
            if *place == Place::CLIENT {
                *place = Place::HERE;
                self.here += 1;
            }
        }
        self.next = 0;
        self.allowance.spend(CHANGE + self.slots.count() / 8);
    }

    /// Gives the client some of the buffers that are here. True: there are more, and space for them.
    #[cold]
    pub(crate) fn settle(&mut self) -> bool {
        if !self.link.is_live() {
            self.begin();
        }
        if !self.link.is_live() {
            return false;
        }
        let end = self.next.saturating_add(LENDING).min(self.slots.count());
        let given = self.here;
        while self.next < end && self.here > 0 {
            if self.places.get(self.next as usize) == Some(&Place::HERE) && !self.give_here(self.next) {
                return false;
            }
            self.next += 1;
        }
        if self.next == self.slots.count() {
            self.next = 0;
        }
        self.allowance.spend(1 + given - self.here);
        self.here > 0
    }

    /// Gives a buffer that is here to the client. False: its queue is full.
    fn give_here(&mut self, number: u32) -> bool {
        self.here -= 1;
        self.give(number)
    }

    /// Gives a buffer to the client, which may write it from now on. False: it is here now, since the client's queue is full or
    /// it is not there.
    #[inline(always)]
    fn give(&mut self, number: u32) -> bool {
        let given = self.link.output.push(Descriptor::empty(self.slots.offset(number))).is_ok();
        if let Some(place) = self.places.get_mut(number as usize) {
            *place = if given { Place::CLIENT } else { Place::HERE };
        }
        self.here += u32::from(!given);
        given
    }

    /// Takes back a buffer that the driver returns; says how long the packet in it was. `None`: it was not being sent.
    #[inline(always)]
    pub(crate) fn sent(&mut self, number: u32) -> Option<u16> {
        let length = self.places.get(number as usize)?.being_sent()?;
        if self.slots.is_large(number) {
            self.large_in_flight -= 1;
        }
        self.in_flight -= 1;
        self.give(number);
        Some(length)
    }

    /// A copy of one of its frames was sent.
    pub(crate) fn sent_copy(&mut self) {
        self.in_flight -= 1;
    }

    /// Gives a buffer back that the client holds, and whose frame is not sent from there: it was refused, or copied.
    #[inline]
    pub(crate) fn give_back(&mut self, number: u32) {
        self.give(number);
    }

    /// Count of its buffers.
    pub(crate) fn count(&self) -> u32 {
        self.slots.count()
    }

    /// Where the device finds a buffer.
    #[inline(always)]
    pub(crate) fn dma(&self, number: u32) -> u64 {
        self.data.dma() + u64::from(self.slots.offset(number))
    }

    /// The packet in a buffer. The client may change it at any time.
    #[inline(always)]
    pub(crate) fn packet(&self, number: u32, length: u16) -> Option<Region> {
        self.data.part(self.slots.offset(number) as usize, length.into()).ok()
    }

    /// Whether so many of its frames are being sent that it may soon wait for them.
    #[inline(always)]
    pub(crate) fn is_short(&self) -> bool {
        (self.in_flight > self.plenty) | (self.large_in_flight > self.slots.large() / 2)
    }

    /// Sets how many frames of it may be sent at a time: when half of them are, it is short.
    pub(crate) fn limit(&mut self, most: u32) {
        self.plenty = most.min(self.slots.count()) / 2;
    }

    /// Asks to be notified of its next frame, of its return, or of space for what waits for it. False: it is there already.
    pub(crate) fn sleep(&mut self) -> bool {
        self.link.sleep() && (!self.link.is_live() || self.here == 0 || self.link.sleep_for_space(1))
    }
}
