//! A client, as the transmit virtualiser sees it: its queues, and where each of its buffers is.

use alloc::boxed::Box;
use alloc::vec;
use culm::connection::NetTxClient;
use culm::queue::{Consumer, Producer};
use culm::{Channel, Region, queue};
use culm_net::session::{Event, Marked, Marker};
use culm_net::{Descriptor, Mac, Session, Slots, lendable, put_off};

/// Where a buffer is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Place {
    /// Here, to be given to the client.
    Here,
    /// With the client, which may write it.
    Client,
    /// Being sent.
    Driver,
}

/// A client.
pub(crate) struct Client {
    /// Frames to send.
    pub(crate) filled: Consumer<Descriptor>,
    /// Buffers for it.
    free: Producer<Descriptor>,
    session: Session,
    channel: Channel,
    data: Region,
    slots: Slots,
    places: Box<[Place]>,
    /// There may be buffers [`Place::Here`].
    owed: bool,
    /// Frames of it that are with the driver.
    pub(crate) in_flight: u32,
    /// How many of them are no reason to wait for any.
    plenty: u32,
    /// How many of them are in large buffers.
    large_in_flight: u32,
    /// The only address that it may send from.
    pub(crate) only: Option<Mac>,
}

/// What an entry of a client's is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Entry {
    /// A frame in the buffer of this number, which from now on is being sent.
    Frame(u32),
    /// A buffer that it holds, with a length that cannot be. It still holds it.
    Invalid(u32),
    /// A buffer that it does not hold, or none at all.
    NotHeld,
    /// A marker, or an entry of a previous life.
    Other,
}

impl Client {
    pub(crate) fn new(connection: &NetTxClient, buffer_size: u32) -> Self {
        let mut free = queue::producer(connection.free);
        let session = Session::begin(&mut free);
        let limit = lendable(connection.free.capacity.min(1 << 16));
        let slots = Slots::with_large(connection.data.size, buffer_size, connection.large, limit);
        Self {
            filled: queue::consumer(connection.filled),
            free,
            session,
            channel: Channel::new(connection.channel),
            data: if connection.data.address == 0 {
                Region::new(connection.data)
            } else {
                Region::read_only(connection.data)
            },
            slots,
            places: vec![Place::Here; slots.count() as usize].into_boxed_slice(),
            owed: true,
            in_flight: 0,
            plenty: 0,
            large_in_flight: 0,
            only: (connection.anti_spoof != 0).then(|| Mac::new(connection.mac)),
        }
    }

    pub(crate) fn channel(&self) -> Channel {
        self.channel
    }

    /// What `entry` is.
    #[inline(always)]
    pub(crate) fn examine(&mut self, entry: Descriptor) -> Entry {
        if let Some(number) = self.slots.number(entry.offset)
            && let Some(place) = self.places.get_mut(number as usize)
            && *place == Place::Client
            && entry.flags == 0
        {
            if !self.slots.holds(number, entry.length) {
                return Entry::Invalid(number);
            }
            *place = Place::Driver;
            if self.slots.is_large_at(entry.offset) {
                self.large_in_flight += 1;
            }
            return Entry::Frame(number);
        }
        self.examine_other(entry)
    }

    #[cold]
    fn examine_other(&mut self, entry: Descriptor) -> Entry {
        match entry.as_marker() {
            Some(marker) => {
                self.session.receive(marker);
                if matches!(marker, Marker::Welcome(_)) {
                    self.settle();
                }
                Entry::Other
            }
            None if self.session.is_live() => Entry::NotHeld,
            None => Entry::Other,
        }
    }

    /// Whether the session or buffers that are owed need [`Self::settle`].
    #[inline(always)]
    pub(crate) fn is_unsettled(&self) -> bool {
        self.owed | !self.session.is_live()
    }

    /// Answers markers, and gives the client every buffer that is here. Where the client starts over, those that it had are
    /// here again.
    #[cold]
    pub(crate) fn settle(&mut self) {
        if self.session.settle(&mut self.free) == Event::Renewed {
            self.owed = true;
            for place in &mut self.places {
                if *place == Place::Client {
                    *place = Place::Here;
                }
            }
        }
        if !self.owed || !self.session.is_live() {
            return;
        }
        self.owed = false;
        for number in 0..self.slots.count() {
            if self.places[number as usize] == Place::Here {
                self.give(number);
            }
        }
    }

    /// Gives a buffer to the client, which may write it from now on.
    #[inline(always)]
    pub(crate) fn give(&mut self, number: u32) {
        let given = self.session.is_live() && self.free.push(Descriptor::empty(self.slots.offset(number))).is_ok();
        if let Some(place) = self.places.get_mut(number as usize) {
            *place = if given { Place::Client } else { Place::Here };
        }
        self.owed |= !given;
    }

    /// Takes back a buffer that the driver returns. False: it was not being sent.
    #[inline(always)]
    pub(crate) fn sent(&mut self, number: u32) -> bool {
        if self.places.get(number as usize) != Some(&Place::Driver) {
            return false;
        }
        self.leave(number);
        self.give(number);
        true
    }

    /// Gives a buffer back whose frame is not sent from there: it was refused, or copied.
    #[inline]
    pub(crate) fn give_back(&mut self, number: u32) {
        if self.places.get(number as usize) == Some(&Place::Driver) {
            self.leave(number);
        }
        self.give(number);
    }

    /// A buffer is not being sent any more.
    #[inline(always)]
    fn leave(&mut self, number: u32) {
        if self.slots.is_large(number) {
            self.large_in_flight -= 1;
        }
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

    /// Makes what it was given visible to it, then the space of what it sent.
    #[inline(always)]
    pub(crate) fn publish(&mut self) {
        let given = self.free.publish();
        // In this order: what is read again after a restart must not have been answered in vain.
        let taken = self.session.may_release() && self.filled.release_many(put_off(self.filled.capacity()));
        if given | taken {
            self.channel.notify();
        }
    }

    /// Asks to be notified of its next frame. False: there is one already.
    #[inline(always)]
    pub(crate) fn sleep(&mut self) -> bool {
        if !self.session.is_live() {
            return self.session.sleep(&mut self.free, &mut self.filled);
        }
        self.filled.sleep()
    }

    /// Asks to be notified when it has taken what fills its queue of returned buffers.
    #[inline(always)]
    pub(crate) fn wait_for_space(&mut self) -> bool {
        !self.owed || !self.session.is_live() || self.free.sleep()
    }
}
