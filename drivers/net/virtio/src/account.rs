//! The account of the driver's life that its next life goes on from.
//!
//! The device's memory outlives the driver, and the device works in it meanwhile. So a restarted driver does not reset the device: it finds
//! its place again in the two virtqueues and in the queues to and from the virtualisers, and goes on as if nothing had
//! been. For that, each step of a buffer's way is *committed* by one store:
//!
//! * An entry of the virtualiser's queue is taken in the moment in which the virtqueue's available index passes it: that is
//!   the store by which the device has it. What was popped but not made available is popped again.
//! * A used entry is passed on in the moment in which the index of the queue to the virtualiser passes it: the store by
//!   which the virtualiser has it. What was taken but not published is taken again.
//!
//! Between the two indices of such a couple there is a constant distance, as long as the link to the virtualiser lives. It
//! is what this account holds, with the generations of that link and the features that were settled with the device. It changes when the
//! link starts over, which is when there is a new one to hold, and none in between ([`Account::forget`]).
//!
//! What stands here is checked before it is believed. Where it cannot be, where a link was not live, or where the device is not at
//! work, the device is reset: those buffers of which there is an account are given to it again, the others are
//! void, and their virtualiser learns of it by a new generation.

use crate::step;
use core::sync::atomic::AtomicU64;
use core::sync::atomic::Ordering::{Acquire, Release};
use culm::Region;
use culm::link::Generations;

/// Bytes that an account takes.
pub const SIZE: usize = 64;

/// What stands in the first word's upper half where there is an account, of this layout.
const SIGNATURE: u64 = 0x7669_7232 << 32;

/// Bit of a direction's word: there is an account of it.
const KNOWN: u64 = 1 << 32;

/// Where a life of the driver was with the device.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum State {
    /// There is no account.
    Unknown,
    /// The device is set up, and what the account says of indices holds.
    AtWork,
    /// The device is being reset: everything that was given or taken is committed, indices mean nothing, and the device is to get every
    /// buffer whose slot is busy.
    Resetting,
}

/// The account of one direction.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Direction {
    /// Those of the link.
    pub generations: Generations,
    /// From the virtqueue's available index to that of the next entry to take of the virtualiser's queue, modulo 2¹⁶.
    pub input: u16,
    /// From the index of the queue to the virtualiser to that of the next used entry to take, modulo 2¹⁶.
    pub output: u16,
}

/// An account in the device's memory.
pub struct Account {
    words: &'static [AtomicU64],
}

impl Account {
    /// The account at the beginning of `memory`; `None` where that is too small.
    pub fn new(memory: &Region) -> Option<Self> {
        Some(Self { words: memory.atomics_u64(0, SIZE / 8).ok()? })
    }

    /// Where the previous life was.
    pub fn state(&self) -> State {
        match self.load(0) {
            word if word == SIGNATURE | 1 => State::AtWork,
            word if word == SIGNATURE | 2 => State::Resetting,
            _ => State::Unknown,
        }
    }

    /// Says where this life is.
    pub fn set_state(&self, state: State) {
        let word = match state {
            State::Unknown => 0,
            State::AtWork => SIGNATURE | 1,
            State::Resetting => SIGNATURE | 2,
        };
        self.store(0, word);
    }

    /// The features that were settled.
    pub fn features(&self) -> u64 {
        self.load(1)
    }

    /// Keeps the features that were settled.
    pub fn set_features(&self, features: u64) {
        self.store(1, features);
    }

    /// What is known of the direction of virtqueue `queue`.
    pub fn direction(&self, queue: u32) -> Option<Direction> {
        let word = self.load(Self::place(queue));
        let both = self.load(Self::place(queue) + 1);
        let generations = Generations { own: both as u32, peer: (both >> 32) as u32 };
        let known = Direction { generations, input: word as u16, output: (word >> 16) as u16 };
        (word & KNOWN != 0).then_some(known)
    }

    /// Keeps the account of a direction. Everything that was pushed and added there is published.
    pub fn keep(&self, queue: u32, direction: Direction) {
        let Direction { generations: Generations { own, peer }, input, output } = direction;
        self.store(Self::place(queue) + 1, u64::from(own) | u64::from(peer) << 32);
        self.store(Self::place(queue), u64::from(input) | u64::from(output) << 16 | KNOWN);
    }

    /// There is no account of this direction until the next is kept.
    pub fn forget(&self, queue: u32) {
        self.store(Self::place(queue), 0);
    }

    fn place(queue: u32) -> usize {
        if queue == 0 { 2 } else { 4 }
    }

    fn load(&self, word: usize) -> u64 {
        self.words.get(word).map_or(0, |word| word.load(Acquire))
    }

    fn store(&self, word: usize, value: u64) {
        step();
        if let Some(word) = self.words.get(word) {
            word.store(value, Release);
        }
        // What comes after is not to be seen before.
        core::sync::atomic::compiler_fence(core::sync::atomic::Ordering::SeqCst);
    }
}
