//! The client's side: sends requests, keeps each until it is answered, and sends it again if the
//! provider starts over.
//!
//! A round begins by [`Client::begin`], takes what is complete by [`Client::next_completion`] until
//! there is nothing, sends by [`Client::send`], and ends by [`Client::end_round`], which publishes
//! everything at once and announces that the client sleeps.

use crate::request::Borrowed;
use crate::{
    Answer, AnswerEntry, BLOCK, Disk, Error, MAX_SEGMENTS, Operation, Request, RequestEntry, Segment, Shift, depth,
};
use alloc::boxed::Box;
use alloc::collections::VecDeque;
use alloc::vec::Vec;
use core::fmt;
use culm::link::Event;
use culm::{Link, Progress, order};
use culm_abi::connection::block::{CLIENT_REQUEST, MIN_QUEUE};
use culm_abi::connection::{BlockClient, Ring};
use culm_queue::Producer;

/// A request that is complete.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Completion<T> {
    /// The tag that the client gave to [`Client::send`].
    pub tag: T,
    /// The outcome of the request.
    pub result: Result<(), Error>,
}

/// The reason why a request was not sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NotSent {
    /// As many as possible are under way.
    Full,
    /// The disk is not known yet: the provider has not begun.
    Unknown,
    /// The disk does not take it, for this reason.
    Refused(Error),
}

impl fmt::Display for NotSent {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Full => formatter.write_str("as many requests as possible are under way"),
            Self::Unknown => formatter.write_str("the disk is not known yet"),
            Self::Refused(error) => error.fmt(formatter),
        }
    }
}

impl core::error::Error for NotSent {}

/// In place of how many requests were sent before one: it has ended, and is not sent again.
const ENDED: u64 = u64::MAX;

/// One request that is under way.
#[derive(Debug)]
struct Slot<T> {
    /// The client's own name for the request; `None` if the slot is free.
    tag: Option<T>,
    /// The request's name in the queues: the slot's number, with another number above it each time.
    /// Otherwise an answer that comes twice would answer the slot's next request.
    token: u16,
    /// How many requests were sent before it, or [`ENDED`].
    sent_before: u64,
    /// Whether the provider's present life can have seen it.
    is_sent: bool,
    /// Whether an earlier life of the provider may have it still: the device may be at its memory
    /// until the present life has said what the disk is.
    is_left: bool,
    /// Whether it ends, and is not sent again, as soon as no earlier life can have it.
    is_cancelled: bool,
    /// The request as it lies in the queue.
    entries: [RequestEntry; MAX_SEGMENTS],
    count: usize,
}

/// The build tool compares heaps with this: a slot, and its number in each list of those.
const _: () = assert!(size_of::<Slot<()>>() + 3 * size_of::<u16>() >= CLIENT_REQUEST as usize);

impl<T> Slot<T> {
    /// Ends the slot's request; returns its tag, and gives the next one another token.
    #[inline(always)]
    fn release(&mut self, stride: u16) -> Option<T> {
        let tag = self.tag.take()?;
        (self.is_sent, self.is_left, self.is_cancelled) = (false, false, false);
        self.token = self.token.wrapping_add(stride);
        Some(tag)
    }

    /// Pushes the request's entries, if there is space for all, so that they are published
    /// together. Returns whether it did.
    #[inline(always)]
    fn push(&mut self, output: &mut Producer<RequestEntry>) -> bool {
        self.is_sent = match self.entries.get(..self.count) {
            Some([entry]) => output.push(*entry).is_ok(),
            Some(entries) => {
                let count = entries.len() as u32;
                (output.free() >= count || output.refresh() >= count) && output.push_slice(entries) == entries.len()
            }
            None => false,
        };
        self.is_sent
    }
}

/// A client's connection to a disk. Each request has a tag of type `T`, with which it comes back.
#[derive(Debug)]
pub struct Client<T> {
    link: Link<RequestEntry, AnswerEntry>,
    /// Blocks of the memory that requests name.
    memory_blocks: u64,
    disk: Option<Disk>,
    /// How often the provider has said what the disk is, modulo 2³².
    shown: u32,
    /// Whether `disk` was shown since the pair started over.
    is_confirmed: bool,
    slots: Box<[Slot<T>]>,
    /// Slots without a request.
    free: Vec<u16>,
    /// Slots whose requests are to be sent, in their order.
    waiting: VecDeque<u16>,
    /// Slots whose requests have ended without the provider, and how.
    ended: Vec<(u16, Result<(), Error>)>,
    /// The difference between one token of a slot and the next: a power of two, no less than the
    /// count of slots.
    stride: u16,
    /// How many requests were ever sent.
    sent: u64,
    /// How often the medium has changed, modulo 2³².
    changes: u32,
    answers_refused: u32,
}

impl<T> Client<T> {
    /// Creates the client's side of `connection`. Places in requests count from the beginning of
    /// its data region, of which `culm::Region` gives access.
    ///
    /// # Panics
    ///
    /// As [`Self::new`].
    pub fn connect(connection: &BlockClient) -> Self {
        let BlockClient { requests, answers, data, channel } = *connection;
        Self::new(requests, answers, channel, data.size / BLOCK as u64)
    }

    /// Creates the client's side of a pair of queues, whose requests name the first `memory_blocks`
    /// blocks of whatever their places count in.
    ///
    /// # Panics
    ///
    /// If one of the queues has fewer than [`MIN_QUEUE`] entries, which the build tool does
    /// not let happen.
    pub fn new(requests: Ring, answers: Ring, channel: u32, memory_blocks: u64) -> Self {
        let least = requests.capacity.min(answers.capacity);
        assert!(least >= MIN_QUEUE, "a queue of {least} entries: make it {MIN_QUEUE} at least");
        let depth = depth(requests.capacity, answers.capacity).min(1 << 15) as u16;
        let slot = |token| Slot {
            tag: None,
            token,
            sent_before: 0,
            is_sent: false,
            is_left: false,
            is_cancelled: false,
            entries: [RequestEntry::default(); MAX_SEGMENTS],
            count: 0,
        };
        let mut client = Self {
            link: Link::new(requests, answers, channel),
            memory_blocks,
            disk: None,
            shown: 0,
            is_confirmed: false,
            slots: (0..depth).map(slot).collect(),
            free: (0..depth).rev().collect(),
            waiting: VecDeque::with_capacity(depth.into()),
            ended: Vec::with_capacity(depth.into()),
            stride: depth.next_power_of_two(),
            sent: 0,
            changes: 0,
            answers_refused: 0,
        };
        // Tell the provider of this life.
        client.link.publish();
        client
    }

    /// Returns what the disk is, as far as the provider has said. After a restart of the provider
    /// it is what the previous life said, until [`Self::next_completion`] finds what the new one
    /// says.
    #[inline(always)]
    pub fn disk(&self) -> Option<&Disk> {
        self.disk.as_ref()
    }

    /// Returns how often the provider has said what the disk is, modulo 2³².
    #[inline(always)]
    pub fn shown(&self) -> u32 {
        self.shown
    }

    /// Returns how often the medium has changed, modulo 2³²: each time that one was taken out or
    /// put in. So it tells one that was taken out and put in again, with the same number, from one
    /// that stayed.
    #[inline(always)]
    pub fn changes(&self) -> u32 {
        self.changes
    }

    /// Returns how many requests are under way, those included that wait for a provider's restart.
    #[inline(always)]
    pub fn under_way(&self) -> usize {
        self.slots.len() - self.free.len()
    }

    /// Returns how many more requests can be sent now.
    #[inline(always)]
    pub fn space(&self) -> usize {
        self.free.len()
    }

    /// Returns how many entries of the provider's were none, or answered what was not asked.
    pub fn answers_refused(&self) -> u32 {
        self.answers_refused
    }

    /// Returns the channel to the provider.
    pub fn channel(&self) -> culm::Channel {
        self.link.channel()
    }

    /// Begins a round: looks at answers, and whether the provider was restarted.
    #[inline]
    pub fn begin(&mut self) {
        if self.link.begin() != Event::None {
            self.start_over();
        }
    }

    /// Has everything sent again as soon as the provider has said what the disk is.
    #[cold]
    fn start_over(&mut self) {
        self.is_confirmed = false;
        for (index, _) in &self.ended {
            if let Some(slot) = self.slots.get_mut(usize::from(*index)) {
                slot.sent_before = ENDED;
            }
        }
        self.waiting.clear();
        for (index, slot) in (0..).zip(self.slots.iter_mut()) {
            slot.is_left |= core::mem::take(&mut slot.is_sent);
            if slot.tag.is_some() && slot.sent_before != ENDED {
                self.waiting.push_back(index);
            }
        }
        let slots = &self.slots;
        order::sort(self.waiting.make_contiguous(), |index| slots[usize::from(index)].sent_before);
    }

    /// Sends a request that reads or writes the blocks from `block` on, as [`Self::send`] does,
    /// without a copy of its segments. Any other operation is invalid.
    ///
    /// # Errors
    ///
    /// See [`NotSent`].
    #[inline(always)]
    pub fn transfer(&mut self, operation: Operation, block: u64, segments: &[Segment], tag: T) -> Result<(), NotSent> {
        if !operation.moves_data() {
            return Err(NotSent::Refused(Error::Invalid));
        }
        self.ask(Borrowed::moving(operation, block, segments), tag)
    }

    /// Sends a request, which the provider sees after [`Self::end_round`]. Its memory is the
    /// device's until [`Self::next_completion`] returns `tag`, whatever happens to the provider.
    ///
    /// # Errors
    ///
    /// See [`NotSent`].
    #[inline]
    pub fn send(&mut self, request: &Request, tag: T) -> Result<(), NotSent> {
        self.ask(request.into(), tag)
    }

    /// Sends a request, if the disk takes it.
    #[inline(always)]
    fn ask(&mut self, request: Borrowed<'_>, tag: T) -> Result<(), NotSent> {
        let disk = self.disk.as_ref().ok_or(NotSent::Unknown)?;
        disk.check_borrowed(request, self.memory_blocks).map_err(NotSent::Refused)?;
        if request.operation.is_flush() && !disk.caches {
            return self.end_at_once(tag);
        }
        self.add(request, Shift::NONE, tag)
    }

    /// Gives a request a slot that is done without the provider.
    #[inline(never)]
    fn end_at_once(&mut self, tag: T) -> Result<(), NotSent> {
        let index = self.free.pop().ok_or(NotSent::Full)?;
        if let Some(slot) = self.slots.get_mut(usize::from(index)) {
            slot.tag = Some(tag);
            self.ended.push((index, Ok(())));
        }
        Ok(())
    }

    /// Sends a request that a [`Port`](crate::Port) has taken from a client of this client's, with
    /// its numbers shifted. It is within that client's part and memory, and not compared with this
    /// disk, whose provider does it once more.
    ///
    /// # Errors
    ///
    /// [`NotSent::Full`].
    #[inline(always)]
    pub fn forward(&mut self, request: &Request, shift: Shift, tag: T) -> Result<(), NotSent> {
        self.add(request.into(), shift, tag)
    }

    /// Gives a request a slot, and pushes it if that is possible.
    #[inline(always)]
    fn add(&mut self, request: Borrowed<'_>, shift: Shift, tag: T) -> Result<(), NotSent> {
        let index = self.free.pop().ok_or(NotSent::Full)?;
        let Some(slot) = self.slots.get_mut(usize::from(index)) else { return Err(NotSent::Full) };
        slot.count = RequestEntry::write_shifted(request, shift, slot.token, &mut slot.entries);
        (slot.tag, slot.sent_before) = (Some(tag), self.sent);
        self.sent += 1;
        // Those that wait come first: a provider's turns keep the order as far as they can.
        let may_push = self.is_confirmed && self.waiting.is_empty();
        if !may_push || !slot.push(&mut self.link.output) {
            self.waiting.push_back(index);
        }
        Ok(())
    }

    /// Ends those requests whose tag `is_meant` and that are not at the provider, by
    /// [`Error::Changed`]. What of them an earlier life of the provider has done stays done; one
    /// that such a life may have still ends when the present one has said what the disk is, and so
    /// that nothing is at the request's memory any more.
    #[cold]
    pub fn cancel(&mut self, mut is_meant: impl FnMut(&T) -> bool) {
        for index in &self.waiting {
            if let Some(slot) = self.slots.get_mut(usize::from(*index)) {
                slot.is_cancelled |= slot.tag.as_ref().is_some_and(&mut is_meant);
            }
        }
        self.end_cancelled();
    }

    /// Ends the requests that are cancelled and that no earlier life of the provider can have.
    #[cold]
    fn end_cancelled(&mut self) {
        let (slots, ended) = (&self.slots, &mut self.ended);
        self.waiting.retain(|index| {
            let slot = slots.get(usize::from(*index));
            let ends = slot.is_some_and(|slot| slot.is_cancelled && !slot.is_left);
            if ends {
                ended.push((*index, Err(Error::Changed)));
            }
            !ends
        });
    }

    /// Returns the next request that is complete, of those that were at the beginning of the round.
    #[inline]
    pub fn next_completion(&mut self) -> Option<Completion<T>> {
        while let Some((index, result)) = self.ended.pop() {
            if let Some(tag) = self.release(index) {
                return Some(Completion { tag, result });
            }
        }
        loop {
            match self.link.input.pop_known()?.read() {
                Some(Answer::Of { token, result }) => match self.answered(token) {
                    Some(tag) => return Some(Completion { tag, result }),
                    None => self.refuse_answer(),
                },
                Some(Answer::Disk(disk)) => self.learn(disk),
                None => self.refuse_answer(),
            }
        }
    }

    #[cold]
    fn refuse_answer(&mut self) {
        self.answers_refused = self.answers_refused.saturating_add(1);
    }

    /// Frees the slot of the request of this token, if it is at the provider; returns its tag.
    #[inline(always)]
    fn answered(&mut self, token: u16) -> Option<T> {
        let index = token & (self.stride - 1);
        let slot = self.slots.get_mut(usize::from(index)).filter(|slot| slot.is_sent && slot.token == token)?;
        let tag = slot.release(self.stride)?;
        self.free.push(index);
        Some(tag)
    }

    /// Frees the slot of a request that is complete; returns its tag.
    #[inline(always)]
    fn release(&mut self, index: u16) -> Option<T> {
        let tag = self.slots.get_mut(usize::from(index))?.release(self.stride)?;
        self.free.push(index);
        Some(tag)
    }

    /// Takes what the provider says of the disk.
    #[cold]
    fn learn(&mut self, disk: Disk) {
        if self.disk.is_some_and(|known| known.medium != disk.medium) {
            // Nothing is on its way to a disk without a medium.
            if self.is_confirmed && self.disk.is_some_and(|known| known.is_present()) {
                // Requests on their way would reach the new medium: a provider starts over first,
                // so this one is broken.
                self.answers_refused = self.answers_refused.saturating_add(1);
                self.link.start_over();
                self.start_over();
                return;
            }
            self.changes = self.changes.wrapping_add(1);
            self.ended.extend(self.waiting.drain(..).map(|index| (index, Err(Error::Changed))));
        }
        let disk = self.disk.map_or(disk, |known| disk.after(&known));
        (self.disk, self.is_confirmed) = (Some(disk), true);
        self.shown = self.shown.wrapping_add(1);
        // The provider has ended what its earlier lives had, before it said so.
        self.slots.iter_mut().for_each(|slot| slot.is_left = false);
        self.end_cancelled();
    }

    /// Ends a round: publishes the requests that were sent, and announces that the client sleeps.
    #[inline]
    pub fn end_round(&mut self) -> Progress {
        let lacking = self.push();
        self.link.publish();
        // While the queue is full, space in it is worth a turn.
        let space = lacking.map_or(Progress::Asleep, |count| self.link.sleep_for_space(count));
        space & self.link.sleep() & Progress::more_if(!self.ended.is_empty())
    }

    /// Pushes requests that wait, as many as there is space for. Returns how much space the next
    /// one needs, if there is one that can be sent.
    #[inline]
    fn push(&mut self) -> Option<u32> {
        if !self.is_confirmed || !self.link.is_live() {
            return None;
        }
        while let Some(index) = self.waiting.front() {
            let slot = self.slots.get_mut(usize::from(*index))?;
            if !slot.push(&mut self.link.output) {
                return Some(slot.count as u32);
            }
            self.waiting.pop_front();
        }
        None
    }
}
