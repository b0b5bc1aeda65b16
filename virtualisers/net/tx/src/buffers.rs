//! The record of each buffer's place, in memory that outlives the virtualiser.
//!
//! A buffer's way is: here, with its client, being sent, here or with its client again. Each step
//! is one store, to a word of the account ([`culm_lending::account`]). The word of a step that is
//! done by pushing an entry has the entry's index too, so that the next life can tell a step whose
//! entry was published from one whose entry was not. See [`crate::resume`].

use core::sync::atomic::AtomicU64;
use core::sync::atomic::Ordering::Relaxed;
use culm_lending::account::store;
use culm_net::{Descriptor, Slots};

/// The upper half of a token of [`Bounce`](crate::bounce::Bounce)'s buffers. A token has a buffer's
/// number in its lower half and its client's in the upper half.
pub(crate) const BOUNCE: u32 = 0xffff;

/// Returns the token of a client's buffer.
#[inline(always)]
pub(crate) fn token(client: usize, number: u32) -> u32 {
    (client as u32) << 16 | number
}

/// The place of a buffer, in one word. The lower 16 bits are 0 if it is here, 1 if the client has
/// it, and else the length of the packet in it that is being sent, at least
/// [`culm_net::MIN_PACKET`]. The upper half is the index of the entry by which the client or the
/// driver got it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct BufferState(u64);

impl BufferState {
    /// At the virtualiser, to be given to the client.
    pub(crate) const HERE: Self = Self(0);

    const CLIENT: u16 = 1;

    /// With the client, which may write it, by the entry of this index.
    #[inline(always)]
    pub(crate) const fn with_client(index: u32) -> Self {
        Self(Self::CLIENT as u64 | (index as u64) << 32)
    }

    /// With the driver, by the entry of this index: a packet of `length` bytes is being sent.
    #[inline(always)]
    pub(crate) const fn sent(length: u16, index: u32) -> Self {
        Self(length as u64 | (index as u64) << 32)
    }

    /// Returns whether the client has it.
    #[inline(always)]
    pub(crate) const fn is_with_client(self) -> bool {
        self.0 as u16 == Self::CLIENT
    }

    /// Returns the length of the packet in it, if that is being sent.
    #[inline(always)]
    pub(crate) const fn being_sent(self) -> Option<u16> {
        if self.0 as u16 > Self::CLIENT { Some(self.0 as u16) } else { None }
    }

    /// Returns the index of the entry by which the client or the driver got it.
    pub(crate) const fn index(self) -> u32 {
        (self.0 >> 32) as u32
    }
}

/// The record of one buffer: a word that says where it is.
#[derive(Clone, Copy)]
pub(crate) struct Record(&'static AtomicU64);

impl Record {
    /// Returns where the buffer is.
    #[inline(always)]
    pub(crate) fn get(self) -> BufferState {
        BufferState(self.0.load(Relaxed))
    }

    /// Records where the buffer is.
    #[inline(always)]
    pub(crate) fn set(self, state: BufferState) {
        store(self.0, state.0);
    }
}

/// The buffer in which a frame is that a client sends.
#[derive(Clone, Copy)]
pub(crate) struct Frame {
    pub(crate) number: u32,
    record: Record,
    /// Whether the buffer is a large one.
    large: bool,
}

impl Frame {
    /// Records that the frame, of this length, went to the driver by the entry of this index.
    /// Returns whether it is in a large buffer.
    #[inline(always)]
    pub(crate) fn send(self, length: u16, index: u32) -> bool {
        self.record.set(BufferState::sent(length, index));
        self.large
    }
}

/// The buffers of a client.
#[derive(Clone, Copy)]
pub(crate) struct Buffers {
    pub(crate) slots: Slots,
    states: &'static [AtomicU64],
    /// The states of the small ones.
    small: &'static [AtomicU64],
}

impl Buffers {
    /// Creates the record of the buffers of `slots` in as many words.
    pub(crate) fn new(slots: Slots, states: &'static [AtomicU64]) -> Self {
        Self { slots, states, small: &states[..slots.small() as usize] }
    }

    /// Returns the count of buffers.
    #[inline(always)]
    pub(crate) fn count(&self) -> u32 {
        self.slots.count()
    }

    /// Returns the record of a buffer, if there is one of this number.
    #[inline(always)]
    pub(crate) fn record(&self, number: u32) -> Option<Record> {
        Some(Record(self.states.get(number as usize)?))
    }

    /// Returns the buffer in which the frame of a client's `entry` is; `None` if it is no frame.
    #[inline(always)]
    pub(crate) fn frame(&self, entry: Descriptor) -> Option<Frame> {
        let number = self.slots.candidate(entry.offset);
        let Some(state) = self.small.get(number as usize).filter(|_| self.slots.small_holds(entry.length)) else {
            return self.large_frame(entry);
        };
        let record = Record(state);
        let is_held = entry.flags == 0 && record.get().is_with_client();
        is_held.then_some(Frame { number, record, large: false })
    }

    /// Does what [`Self::frame`] does, for large buffers.
    #[inline(never)]
    fn large_frame(&self, entry: Descriptor) -> Option<Frame> {
        let (number, record) = self.held(entry)?;
        let is_frame = self.slots.is_large(number) && self.slots.holds(number, entry.length);
        is_frame.then_some(Frame { number, record, large: true })
    }

    /// Returns the buffer of a client's `entry`, if the client holds it.
    #[inline(always)]
    pub(crate) fn held(&self, entry: Descriptor) -> Option<(u32, Record)> {
        if entry.flags != 0 {
            return None;
        }
        let number = self.slots.number(entry.offset)?;
        let record = self.record(number)?;
        if record.get().is_with_client() { Some((number, record)) } else { None }
    }

    /// Returns where a buffer is, if there is one of this number.
    #[inline(always)]
    pub(crate) fn state(&self, number: u32) -> Option<BufferState> {
        Some(self.record(number)?.get())
    }

    /// Records where a buffer is.
    #[inline(always)]
    pub(crate) fn set(&self, number: u32, state: BufferState) {
        if let Some(record) = self.record(number) {
            record.set(state);
        }
    }

    /// Returns the numbers and states of all buffers.
    pub(crate) fn all(&self) -> impl Iterator<Item = (u32, BufferState)> + use<> {
        let states = self.states;
        (0..).zip(states.iter().map(|word| BufferState(word.load(Relaxed))))
    }
}
