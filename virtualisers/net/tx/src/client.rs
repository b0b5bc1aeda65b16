//! A client, as the transmit virtualiser sees it: its queues, and where each of its buffers is.

use alloc::boxed::Box;
use alloc::vec;
use culm::connection::NetTxClient;
use culm::link::Event;
use culm::{Link, Progress, Region};
use culm_net::{Allowance, Descriptor, Mac, Slots, lendable};

/// Buffers that are lent at a time to a client that starts over, between others' turns.
const LENDING: u32 = 64;

/// Steps of a client's allowance that its starting over costs.
const CHANGE: u32 = 2;

/// The place of a buffer, in one number. For a buffer that is being sent, it is the packet's
/// length, which is at least [`culm_net::MIN_PACKET`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Place(u16);

impl Place {
    /// At the virtualiser, to be given to the client.
    const HERE: Self = Self(0);
    /// With the client, which may write it.
    const CLIENT: Self = Self(1);

    /// Returns the length of the packet in it, if that is being sent.
    #[inline(always)]
    const fn being_sent(self) -> Option<u16> {
        if self.0 > Self::CLIENT.0 { Some(self.0) } else { None }
    }
}

/// A client.
pub(crate) struct Client {
    /// The link: frames to send come from the client, buffers go to it.
    pub(crate) link: Link<Descriptor>,
    data: Region,
    slots: Slots,
    places: Box<[Place]>,
    /// How many buffers are [`Place::HERE`].
    here: u32,
    /// The number of the buffer at which the search for the next of them begins.
    next: u32,
    /// Work without use that it may still cause.
    pub(crate) allowance: Allowance,
    /// Bytes that it may send before others get their turn.
    pub(crate) credit: u32,
    /// Frames of it that are with the driver; `share` is what they count ([`culm_net::Shares`]).
    in_flight: u32,
    pub(crate) share: u32,
    /// Frames with the driver up to which it need not wait for their buffers.
    plenty: u32,
    /// How many of its own large buffers are being sent.
    large_in_flight: u32,
    /// How many large buffers of the virtualiser's hold frames of it.
    pub(crate) large_copies: u32,
    /// The only address from which it may send.
    pub(crate) only: Option<Mac>,
}

/// An entry of a client's that is no frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Entry {
    /// A buffer that it holds, with an invalid length. It still holds it.
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

    /// Begins a round with it: looks at what it sends, and whether the pair of queues starts over.
    /// If so, takes back all buffers that it had.
    #[inline(always)]
    pub(crate) fn begin(&mut self) {
        match self.link.begin() {
            Event::None => {}
            Event::Changed => self.allowance.spend(CHANGE),
            Event::Renewed => self.start_over(),
        }
    }

    /// Returns the number of the buffer in which the frame of `entry` is; `None` if it is no frame:
    /// see [`Self::examine`].
    #[inline(always)]
    pub(crate) fn frame(&self, entry: Descriptor) -> Option<u32> {
        let number = self.held(entry)?;
        if self.slots.holds(number, entry.length) { Some(number) } else { None }
    }

    /// Returns the number of the buffer of `entry`, if the client holds it.
    #[inline(always)]
    fn held(&self, entry: Descriptor) -> Option<u32> {
        let number = self.slots.number(entry.offset)?;
        let held = self.places.get(number as usize) == Some(&Place::CLIENT) && entry.flags == 0;
        if held { Some(number) } else { None }
    }

    /// Tells what is wrong with an entry that is no frame.
    #[cold]
    pub(crate) fn examine(&self, entry: Descriptor) -> Entry {
        if let Some(number) = self.held(entry) {
            return Entry::Invalid(number);
        }
        Entry::NotHeld
    }

    /// Records that a frame of this length goes to the driver from the client's buffer `number`.
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

    /// Records that a copy of a frame of the client's goes to the driver.
    pub(crate) fn send_copy(&mut self) {
        self.in_flight += 1;
    }

    /// Returns whether it needs [`Self::settle`].
    #[inline(always)]
    pub(crate) fn is_unsettled(&self) -> bool {
        (self.here > 0) | !self.link.is_live()
    }

    /// Takes back all buffers that the client had.
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

    /// Gives the client some of the buffers that are here. There is more to do if there are more of
    /// them, and space.
    #[cold]
    pub(crate) fn settle(&mut self) -> Progress {
        if !self.link.is_live() {
            self.begin();
        }
        if !self.link.is_live() {
            return Progress::Asleep;
        }
        let end = self.next.saturating_add(LENDING).min(self.slots.count());
        let given = self.here;
        while self.next < end && self.here > 0 {
            if self.places.get(self.next as usize) == Some(&Place::HERE) && !self.give_here(self.next) {
                return Progress::Asleep;
            }
            self.next += 1;
        }
        if self.next == self.slots.count() {
            self.next = 0;
        }
        self.allowance.spend(1 + given - self.here);
        Progress::more_if(self.here > 0)
    }

    /// Gives a buffer that is here to the client. Returns false if its queue is full.
    fn give_here(&mut self, number: u32) -> bool {
        self.here -= 1;
        self.give(number)
    }

    /// Gives a buffer to the client, which may write it from now on. Returns false if the buffer
    /// stays here, since the client's queue is full or the link is not live.
    #[inline(always)]
    fn give(&mut self, number: u32) -> bool {
        let given = self.link.output.push(Descriptor::empty(self.slots.offset(number))).is_ok();
        if let Some(place) = self.places.get_mut(number as usize) {
            *place = if given { Place::CLIENT } else { Place::HERE };
        }
        self.here += u32::from(!given);
        given
    }

    /// Takes back a buffer that the driver returns. Returns the length of the packet in it; `None`
    /// if it was not being sent.
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

    /// Records that a copy of one of its frames was sent.
    pub(crate) fn sent_copy(&mut self) {
        self.in_flight -= 1;
    }

    /// Gives a buffer that the client holds back to it: the frame in it was refused, or copied.
    #[inline]
    pub(crate) fn give_back(&mut self, number: u32) {
        self.give(number);
    }

    /// Returns the count of its buffers.
    pub(crate) fn count(&self) -> u32 {
        self.slots.count()
    }

    /// Returns the address at which the device sees a buffer.
    #[inline(always)]
    pub(crate) fn dma(&self, number: u32) -> u64 {
        self.data.dma() + u64::from(self.slots.offset(number))
    }

    /// Returns the packet in a buffer. Hazard: the client may change it at any time.
    #[inline(always)]
    pub(crate) fn packet(&self, number: u32, length: u16) -> Option<Region> {
        self.data.part(self.slots.offset(number) as usize, length.into()).ok()
    }

    /// Returns whether so many of its frames are being sent that it may soon wait for them.
    #[inline(always)]
    pub(crate) fn is_short(&self) -> bool {
        (self.in_flight > self.plenty) | (self.large_in_flight > self.slots.large() / 2)
    }

    /// Sets how many of its frames may be with the driver at a time. It is short of buffers when
    /// more than half of them are.
    pub(crate) fn limit(&mut self, most: u32) {
        self.plenty = most.min(self.slots.count()) / 2;
    }

    /// Asks to be notified of its next frame, of its new life, or of space for buffers that wait
    /// for it, unless there is one of these already.
    pub(crate) fn sleep(&mut self) -> Progress {
        let progress = self.link.sleep();
        let waits_for_space = progress.is_asleep() && self.link.is_live() && self.here > 0;
        if waits_for_space { self.link.sleep_for_space(1) } else { progress }
    }
}
