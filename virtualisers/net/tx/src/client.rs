//! A client, as the transmit virtualiser sees it: its queues, and where each of its buffers is.

use crate::buffers::{BufferState, Buffers, Frame, Record};
use alloc::vec::Vec;
use culm::connection::NetTxClient;
use culm::link::Event;
use culm::{Link, Progress, Region};
use culm_lending::{Allowance, LinkAccount};
use culm_net::{Descriptor, Mac, Slots, lendable};

/// Buffers that are lent at a time to a client that starts over, between others' turns.
const LENDING: u32 = 64;

/// Steps of a client's allowance that its starting over costs.
const CHANGE: u32 = 2;

/// A client.
pub(crate) struct Client {
    /// The link: frames to send come from the client, buffers go to it.
    pub(crate) link: Link<Descriptor>,
    /// The account of the link, for the next life.
    pub(crate) account: LinkAccount,
    data: Region,
    buffers: Buffers,
    /// How many buffers are [`BufferState::HERE`].
    here: u32,
    /// The number of the buffer at which the search for the next of them begins.
    next: u32,
    /// Work without use that it may still cause.
    pub(crate) allowance: Allowance,
    /// Bytes that it may send before others get their turn.
    pub(crate) credit: u32,
    /// Frames of it that are with the driver; `share` is what they count
    /// ([`culm_lending::Shares`]).
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
    /// Creates a client with this link and these buffers, some of which may be being sent.
    pub(crate) fn new(
        connection: &NetTxClient,
        buffers: Buffers,
        link: Link<Descriptor>,
        account: LinkAccount,
    ) -> Self {
        let count = buffers.count();
        let is_large =
            |(number, state): (u32, BufferState)| state.being_sent().is_some().then(|| buffers.slots.is_large(number));
        let in_flight: Vec<bool> = buffers.all().filter_map(is_large).collect();
        Self {
            link,
            account,
            data: if connection.data.address == 0 {
                Region::new(connection.data)
            } else {
                Region::read_only(connection.data)
            },
            buffers,
            here: buffers.all().filter(|(_, state)| *state == BufferState::HERE).count() as u32,
            next: 0,
            allowance: Allowance::new(count),
            credit: 0,
            in_flight: in_flight.len() as u32,
            share: 0,
            plenty: count / 2,
            large_in_flight: in_flight.iter().filter(|is_large| **is_large).count() as u32,
            large_copies: 0,
            only: (connection.anti_spoof != 0).then(|| Mac::new(connection.mac)),
        }
    }

    /// Returns the geometry of the buffers of a client.
    pub(crate) fn slots(connection: &NetTxClient, buffer_size: u32) -> Slots {
        let limit = lendable(connection.free.capacity.min(1 << 16));
        Slots::with_large(connection.data.size, buffer_size, connection.large, limit)
    }

    /// Returns the lengths of the packets in its own buffers that are being sent.
    pub(crate) fn lengths_in_flight(&self) -> impl Iterator<Item = u16> + use<> {
        self.buffers.all().filter_map(|(_, state)| state.being_sent())
    }

    /// Begins a round with it: looks at what it sends, and whether the pair of queues starts over.
    #[inline(always)]
    pub(crate) fn begin(&mut self) {
        if !self.link.look() {
            self.start_over();
        }
    }

    /// Takes the next steps towards a live link. When it is live, all buffers that the client had
    /// are here again.
    #[cold]
    fn start_over(&mut self) {
        self.account.forget();
        match self.link.reconnect() {
            Event::None => {}
            Event::Changed => self.allowance.spend(CHANGE),
            Event::Renewed => {
                self.take_all_back();
                self.account.keep(self.link.generations(), self.link.positions());
            }
        }
    }

    /// Returns the record of its buffers.
    #[inline(always)]
    pub(crate) fn buffers(&self) -> Buffers {
        self.buffers
    }

    /// Tells what is wrong with an entry that is no frame.
    #[cold]
    pub(crate) fn examine(&self, entry: Descriptor) -> Entry {
        if let Some((number, _)) = self.buffers.held(entry) {
            return Entry::Invalid(number);
        }
        Entry::NotHeld
    }

    /// Records that a frame of this length went to the driver from the client's buffer, by the
    /// entry of this index. Call [`Self::count_sent`] for it.
    #[inline(always)]
    pub(crate) fn send(&mut self, frame: Frame, length: u16, index: u32) {
        if frame.send(length, index) {
            self.large_in_flight += 1;
        }
    }

    /// Records that so many frames, or copies of them, went to the driver.
    #[inline(always)]
    pub(crate) fn count_sent(&mut self, count: u32) {
        self.in_flight += count;
    }

    /// Returns whether it needs [`Self::lend`].
    #[inline(always)]
    pub(crate) fn needs_lending(&self) -> bool {
        (self.here > 0) | !self.link.is_live()
    }

    /// Takes back all buffers that the client had.
    fn take_all_back(&mut self) {
        for (number, state) in self.buffers.all() {
            if state.is_with_client() {
                self.buffers.set(number, BufferState::HERE);
                self.here += 1;
            }
        }
        self.next = 0;
        self.allowance.spend(CHANGE + self.buffers.count() / 8);
    }

    /// Gives the client some of the buffers that are here, if it `lends`. There is more to do if
    /// there are more of them, and space.
    #[cold]
    pub(crate) fn lend(&mut self, lends: bool) -> Progress {
        if !self.link.is_live() {
            self.begin();
        }
        if !self.link.is_live() || !lends {
            return Progress::Asleep;
        }
        let end = self.next.saturating_add(LENDING).min(self.buffers.count());
        let given = self.here;
        while self.next < end && self.here > 0 {
            if self.buffers.state(self.next) == Some(BufferState::HERE) && !self.give_here(self.next) {
                return Progress::Asleep;
            }
            self.next += 1;
        }
        if self.next == self.buffers.count() {
            self.next = 0;
        }
        self.allowance.spend(1 + given - self.here);
        Progress::more_if(self.here > 0)
    }

    /// Gives a buffer that is here to the client. Returns false if its queue is full.
    fn give_here(&mut self, number: u32) -> bool {
        self.here -= 1;
        self.buffers.record(number).is_some_and(|record| self.give(number, record))
    }

    /// Gives a buffer to the client, which may write it from now on. Returns false if the buffer
    /// stays here, since the client's queue is full or the link is not live.
    #[inline(always)]
    fn give(&mut self, number: u32, record: Record) -> bool {
        let index = self.link.output.position();
        if self.link.output.push(Descriptor::empty(self.buffers.slots.offset(number))).is_err() {
            record.set(BufferState::HERE);
            self.here += 1;
            return false;
        }
        record.set(BufferState::with_client(index));
        true
    }

    /// Takes back a buffer that the driver returns. Returns the length of the packet in it; `None`
    /// if it was not being sent.
    #[inline(always)]
    pub(crate) fn sent(&mut self, number: u32) -> Option<u16> {
        let record = self.buffers.record(number)?;
        let length = record.get().being_sent()?;
        if self.buffers.slots.is_large(number) {
            self.large_in_flight -= 1;
        }
        self.in_flight -= 1;
        self.give(number, record);
        Some(length)
    }

    /// Records that a copy of one of its frames was sent.
    pub(crate) fn sent_copy(&mut self) {
        self.in_flight -= 1;
    }

    /// Gives a buffer that the client holds back to it: the frame in it was refused, or copied.
    #[inline]
    pub(crate) fn return_unsent(&mut self, number: u32) {
        if let Some(record) = self.buffers.record(number) {
            self.give(number, record);
        }
    }

    /// Returns the count of its buffers.
    pub(crate) fn count(&self) -> u32 {
        self.buffers.count()
    }

    /// Returns the address at which the device sees the first of its buffers.
    #[inline(always)]
    pub(crate) fn dma(&self) -> u64 {
        self.data.dma()
    }

    /// Returns the packet in a buffer. Hazard: the client may change it at any time.
    #[inline(always)]
    pub(crate) fn packet(&self, number: u32, length: u16) -> Option<Region> {
        self.data.part(self.buffers.slots.offset(number) as usize, length.into()).ok()
    }

    /// Returns whether so many of its frames are being sent that it may soon wait for them.
    #[inline(always)]
    pub(crate) fn is_short(&self) -> bool {
        (self.in_flight > self.plenty) | (self.large_in_flight > self.buffers.slots.large() / 2)
    }

    /// Sets how many of its frames may be with the driver at a time. It is short of buffers when
    /// more than half of them are.
    pub(crate) fn limit(&mut self, most: u32) {
        self.plenty = most.min(self.buffers.count()) / 2;
    }

    /// Asks to be notified of its next frame, of its new life, or, if it `lends`, of space for the
    /// buffers that are here, unless there is one of these already.
    pub(crate) fn sleep(&mut self, lends: bool) -> Progress {
        let progress = self.link.sleep();
        let waits_for_space = progress.is_asleep() && lends && self.link.is_live() && self.here > 0;
        if waits_for_space { self.link.sleep_for_space(1) } else { progress }
    }
}
