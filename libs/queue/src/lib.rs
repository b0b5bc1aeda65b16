//! Bounded single-producer single-consumer rings between protection domains that do not trust each
//! other.
//!
//! A ring is a header of two cache lines, one written by each side, and a power of two of entries:
//!
//! ```text
//!   0  producer: generation << 32 | index of the next entry to write
//!   8  producer: index which the consumer must pass to wake it (it waits for space)
//!  16  producer: generation of the consumer << 32 | index of the first entry for it (links only)
//!  64  consumer: generation << 32 | index of the next entry to read
//!  72  consumer: index which the producer must pass to wake it (it waits for entries)
//! 128  entries
//! ```
//!
//! Indices are free-running: entry `i` lies in slot `i` modulo the capacity. Zeroed memory is an
//! empty ring.
//!
//! # Batches
//!
//! [`Producer::push`] many, [`Producer::publish`] once; [`Consumer::drain`] (or [`Consumer::pop`])
//! many, [`Consumer::release`] once. A side looks at the other's index only if the entries or the
//! space that it knew of are used up.
//!
//! # Sleep
//!
//! A consumer that finds nothing announces the index at which it wants to be woken
//! ([`Consumer::sleep`]), then looks again. [`Producer::publish`] says whether that index was
//! passed, which it is once per announcement: no wake-up is lost, none is wasted, and a consumer
//! that is awake has nothing to take back. A producer that waits for space does the same the other
//! way round ([`Producer::sleep`], [`Consumer::release`]).
//!
//! # Restart
//!
//! Either side may be restarted at any time. [`Producer::attach`] and [`Consumer::attach`] resume
//! where the side's published index stands, so published entries stay queued, entries that were
//! pushed but not published are forgotten, and entries that were popped but not released are popped
//! again. Each attachment is a new generation; the other side learns of it by
//! [`Producer::restarted`] and [`Consumer::restarted`]. A component whose queues were attached
//! behaves as if it had just been notified on all of them: it looks into each, publishes and
//! releases, even if there is nothing to publish or release. The first publish and release after an
//! attachment always ask for a notification, since the previous life may have ended between a
//! publication and its notification.
//!
//! That is for rings that are used alone, whose entries mean the same to every life. If two rings
//! lead to and from the same peer, and entries lend something to the peer's present life, the two
//! are a [`Link`]: see [`link`].
//!
//! # A hostile peer
//!
//! Both sides can write the whole ring. Each keeps its own index privately and never reads it back,
//! except once, at attachment, where it is checked like the peer's. The peer's word is read once
//! per batch and checked: an index that goes backwards, or further ahead than the capacity allows,
//! is invalid. It is counted ([`Producer::violations`], [`Consumer::violations`]) and the ring
//! taken as empty: a consumer goes on at the producer's index, a producer takes all that it
//! published as consumed. So a hostile peer loses entries of its own queue, and an honest one that
//! was restarted after a hostile life finds a ring that works. One hostile life can do more: if it
//! has announced the generation that the next one gets, and has overwritten the honest side's word,
//! that side sees no restart, and the two can wait for each other until its own next life. A
//! [`Link`] does not depend on that. All access is by atomics and every slot number is masked:
//! whatever the peer writes, at any time, nothing crashes, hangs or reads
//! elsewhere. Popping without releasing, and pushing without publishing, end after `capacity`
//! entries at the latest, but a peer can fill a ring as fast as it is emptied: a component that
//! serves several peers must limit what it takes from each in one turn. The reader must check the
//! *contents* of entries. An entry is copied out once, so the value that was checked is the value
//! that is used.

#![no_std]

#[cfg(any(test, all(feature = "crash", not(target_os = "none"))))]
extern crate std;

mod atomic;
mod consumer;
#[cfg(any(all(test, not(loom)), feature = "crash"))]
pub mod crash;
mod entry;
pub mod link;
mod peer;
mod producer;
mod progress;
mod shared;

pub use consumer::{Consumer, Drain};
pub use entry::{Entry, Word};
pub use link::{Event, Generations, Link, Positions};
pub use peer::Peer;
pub use producer::{Full, Producer, Reservation};
pub use progress::Progress;
pub use shared::{Depth, Invalid, Shared, Storage};

/// Bytes before the first entry.
pub const HEADER_SIZE: usize = 128;

/// Alignment of a ring: one cache line.
pub const ALIGNMENT: usize = 64;

/// The most entries that a ring can have: a distance between indices must fit twice into 32 bits.
pub const MAX_CAPACITY: u32 = 1 << 30;

/// Returns the bytes of a ring of `capacity` entries of `entry_size` bytes, or `None` if `capacity`
/// is not a power of two of at most [`MAX_CAPACITY`], or `entry_size` is not that of a [`Word`].
pub const fn layout(capacity: u32, entry_size: usize) -> Option<usize> {
    if !capacity.is_power_of_two() || capacity > MAX_CAPACITY || !matches!(entry_size, 1 | 2 | 4 | 8 | 16) {
        return None;
    }
    Some(HEADER_SIZE + capacity as usize * entry_size)
}

/// Returns how many buffers may be lent over a pair of queues of this capacity: all but an eighth.
/// So there is always space for a buffer that comes back, although the other side may put off the
/// release of entries that it has read.
#[inline(always)]
pub const fn lendable(capacity: u32) -> u32 {
    capacity - capacity / 8
}

/// Returns the least capacity, a power of two, of a pair of queues over which so many buffers can
/// be lent.
pub const fn capacity_for(buffers: u32) -> u32 {
    let capacity = buffers.next_power_of_two();
    if lendable(capacity) < buffers { capacity * 2 } else { capacity }
}

/// Marks that the next store is seen by the other side, or by this side's next life: tests end a
/// life just there (feature `crash`).
#[inline(always)]
pub fn crash_point() {
    #[cfg(any(all(test, not(loom)), feature = "crash"))]
    crash::point();
}

/// Joins generation and index into a published word.
const fn word(generation: u32, index: u32) -> u64 {
    (generation as u64) << 32 | index as u64
}

/// Returns the generation in a published word.
const fn generation(word: u64) -> u32 {
    (word >> 32) as u32
}

/// Returns the index in a published word.
const fn index(word: u64) -> u32 {
    word as u32
}

/// Returns the generation after `generation`. It is never 0, which means that a side was never
/// attached.
const fn next_generation(generation: u32) -> u32 {
    match generation.wrapping_add(1) {
        0 => 1,
        next => next,
    }
}

/// A value that [`Producer`] and [`Consumer`] compare with the peer's generation and that no word
/// can have, so that nothing is read or written until a link is live.
const NOBODY: u64 = 1 << 32;

/// Returns whether an index that went from `old` to `new` passed `wanted`: it was at it or before
/// it, and is behind it now.
const fn passed(wanted: u32, old: u32, new: u32) -> bool {
    new.wrapping_sub(wanted).wrapping_sub(1) < new.wrapping_sub(old)
}

#[cfg(test)]
mod tests;
