//! The checkpoint that one life of a driver leaves, so that its next life can go on from there.
//!
//! The device's memory outlives the driver, and the device works in it meanwhile. So a restarted
//! driver does not reset the device: it finds its place again in the virtqueues and in the links to
//! its virtualisers, and goes on as if it had not been restarted. For that, each step of a buffer's
//! way is *committed* by one store:
//!
//! * An entry of a link's input is taken at the moment at which the virtqueue's available index
//!   passes it: that store gives it to the device. An entry that was popped but not made available
//!   is popped again.
//! * A used entry is passed on at the moment at which the index of the link's output passes it:
//!   that store gives it to the virtualiser. An entry that was taken but not published is taken
//!   again.
//!
//! As long as a link lives, the distance between its index and its virtqueue's index is constant.
//! The checkpoint stores both directions' distances, with the generations of their links and the
//! features that were negotiated with the device. A link that starts over changes its distance: the
//! old one is invalidated before ([`Checkpoint::forget`]), and the new one is written after
//! ([`Checkpoint::keep`]).
//!
//! A checkpoint is checked before it is used. If it is invalid, a link was not live, or the device
//! is not at work, the device is reset. It gets those buffers again whose link is in the
//! checkpoint; the others are void, and their virtualiser learns of it by a new generation.

use crate::crash_point;
use core::sync::atomic::AtomicU64;
use core::sync::atomic::Ordering::{Acquire, Release};
use culm::Region;
use culm::link::Generations;

/// Bytes that a checkpoint takes, at the beginning of the device's memory.
pub const SIZE: usize = 64;

/// Virtqueues of a device of which a checkpoint can tell: those with the lowest numbers.
pub const QUEUES: u32 = 3;

/// Upper half of the first word of a checkpoint of this layout.
const SIGNATURE: u64 = 0x7669_7232 << 32;

/// Bit of the first word of a device at work: nothing that it has used since its reset was passed
/// on.
const FRESH: u64 = 1 << 2;

/// Bit of a queue's first word: the checkpoint tells of the queue.
const KNOWN: u64 = 1 << 32;

/// The state in which a life of the driver left the device.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum State {
    /// There is no checkpoint.
    Unknown,
    /// The device is set up, and the checkpoint's distances hold.
    AtWork,
    /// The device is being reset: everything that was given or taken is committed, indices mean
    /// nothing, and the device is to get every buffer whose slot is busy.
    Resetting,
}

/// The checkpoint of one virtqueue and the link that leads to it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Position {
    /// The generations of the link.
    pub generations: Generations,
    /// Distance from the virtqueue's available index to the index of the next entry to take of the
    /// link's input, modulo 2¹⁶.
    pub input: u16,
    /// Distance from the index of the link's output to the index of the next used entry to take,
    /// modulo 2¹⁶.
    pub output: u16,
}

/// A checkpoint in the device's memory.
#[derive(Debug)]
pub struct Checkpoint {
    words: &'static [AtomicU64],
}

impl Checkpoint {
    /// Returns the checkpoint at the beginning of `memory`; `None` if that is too small.
    pub fn new(memory: &Region) -> Option<Self> {
        Some(Self { words: memory.atomics_u64(0, SIZE / 8).ok()? })
    }

    /// Returns the state in which the previous life left the device.
    pub fn state(&self) -> State {
        match self.load(0) {
            word if word & !FRESH == SIGNATURE | 1 => State::AtWork,
            word if word == SIGNATURE | 2 => State::Resetting,
            _ => State::Unknown,
        }
    }

    /// Returns whether nothing may have been passed on that the device has used since its reset.
    pub fn is_fresh(&self) -> bool {
        self.load(0) == SIGNATURE | 1 | FRESH
    }

    /// Records that something was passed on that the device has used since its reset.
    pub fn end_freshness(&self) {
        self.store(0, SIGNATURE | 1);
    }

    /// Records the state of this life. A device is set to work after a reset, and is fresh.
    pub fn set_state(&self, state: State) {
        let word = match state {
            State::Unknown => 0,
            State::AtWork => SIGNATURE | 1 | FRESH,
            State::Resetting => SIGNATURE | 2,
        };
        self.store(0, word);
    }

    /// Returns the features that were negotiated.
    pub fn features(&self) -> u64 {
        self.load(1)
    }

    /// Records the features that were negotiated.
    pub fn set_features(&self, features: u64) {
        self.store(1, features);
    }

    /// Returns where virtqueue `queue` and its link were, if that is known.
    pub fn position(&self, queue: u32) -> Option<Position> {
        let word = self.load(Self::place(queue));
        let both = self.load(Self::place(queue) + 1);
        let generations = Generations { own: both as u32, peer: (both >> 32) as u32 };
        let known = Position { generations, input: word as u16, output: (word >> 16) as u16 };
        (word & KNOWN != 0).then_some(known)
    }

    /// Records where virtqueue `queue`, one of the first [`QUEUES`], and its link are. Everything
    /// that was pushed and added there must be published.
    pub fn keep(&self, queue: u32, position: Position) {
        let Position { generations: Generations { own, peer }, input, output } = position;
        self.store(Self::place(queue) + 1, u64::from(own) | u64::from(peer) << 32);
        self.store(Self::place(queue), u64::from(input) | u64::from(output) << 16 | KNOWN);
    }

    /// Removes what is known of virtqueue `queue`.
    pub fn forget(&self, queue: u32) {
        self.store(Self::place(queue), 0);
    }

    fn place(queue: u32) -> usize {
        2 + 2 * queue.min(QUEUES) as usize
    }

    fn load(&self, word: usize) -> u64 {
        self.words.get(word).map_or(0, |word| word.load(Acquire))
    }

    fn store(&self, word: usize, value: u64) {
        crash_point();
        if let Some(word) = self.words.get(word) {
            word.store(value, Release);
        }
        // Later stores must not be seen before this one.
        core::sync::atomic::compiler_fence(core::sync::atomic::Ordering::SeqCst);
    }
}
