//! Queues in ordinary memory, and a peer that plays the other side of them.

use super::memory;
use crate::Progress;
use crate::link::{Event, Link};
use crate::queue::{Consumer, Entry, Producer};
use culm_abi::connection::Ring;
use std::vec::Vec;

/// Returns an empty queue of `capacity` entries of `T`.
///
/// # Panics
///
/// If there can be no such queue.
pub fn ring<T: Entry>(capacity: u32) -> Ring {
    let bytes = culm_queue::layout(capacity, size_of::<T>()).expect("a power of two");
    Ring { address: memory(bytes, 0).address, capacity, reserved: 0 }
}

/// The channel that a peer has; those of the component under test have other numbers.
const CHANNEL: u32 = 63;

/// The other side of a pair of queues, honest unless a test makes it do otherwise.
#[derive(Debug)]
pub struct Peer<T: Entry> {
    /// This side's end.
    pub link: Link<T>,
    /// How often the pair has started over, as seen from here.
    pub renewals: u32,
    /// This side has notified the other; a test takes it back.
    pub rang: bool,
}

impl<T: Entry> Peer<T> {
    /// Creates the peer that reads `input` and writes `output`.
    pub fn new(input: Ring, output: Ring) -> Self {
        Self { link: Link::new(output, input, CHANNEL), renewals: 0, rang: false }
    }

    /// Returns whether the two sides have found each other.
    pub fn is_live(&self) -> bool {
        self.link.is_live()
    }

    /// Returns what is sent to this side.
    pub fn input(&mut self) -> &mut Consumer<T> {
        &mut self.link.input
    }

    /// Returns what this side sends.
    pub fn output(&mut self) -> &mut Producer<T> {
        &mut self.link.output
    }

    /// Takes all entries, as a turn does: returns what was sent to this side.
    pub fn take(&mut self) -> Vec<T> {
        if self.link.begin() == Event::Renewed {
            self.renewals += 1;
        }
        let entries = core::iter::from_fn(|| self.link.input.pop()).collect();
        self.rang |= (self.link.output.publish() | self.link.input.release()).is_asleep();
        entries
    }

    /// Publishes entries, as many as there is space for.
    pub fn send(&mut self, entries: &[T]) {
        let _ = self.link.output.push_slice(entries);
        self.rang |= self.link.output.publish().is_asleep();
    }

    /// Announces that this side sleeps.
    pub fn sleep(&mut self) -> Progress {
        self.link.sleep()
    }
}
