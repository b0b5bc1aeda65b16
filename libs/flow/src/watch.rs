//! Flows as somebody sees them who maps their memory for reading, beside the router that writes it.
//!
//! The router knows nothing of it, so that being watched costs it nothing. Each flow is read once,
//! into a copy that is checked as one of a previous life is: one that was exchanged for another
//! while it was read does not have its seal, or is not there any more, and is left out.

use crate::flow::Flow;
use crate::record::{HEADER, Records};
use core::sync::atomic::AtomicU64;
use core::sync::atomic::Ordering::Acquire;

/// The flows of a router, for whoever only looks.
#[derive(Clone, Copy, Debug)]
pub struct Watch<'a> {
    memory: &'a [AtomicU64],
}

impl<'a> Watch<'a> {
    /// The flows in `memory`, which a router has as its own.
    pub fn new(memory: &'a [AtomicU64]) -> Self {
        Self { memory }
    }

    /// Returns how many flows there is room for: 0 until the router has begun.
    pub fn capacity(&self) -> usize {
        self.records().capacity()
    }

    /// Returns the flows that there are, each with its number, which another flow has when it is
    /// gone. Their counts go on while they are read.
    pub fn flows(&self) -> impl Iterator<Item = (usize, Flow)> + use<'a> {
        let records = self.records();
        (0..records.capacity()).filter_map(move |slot| Some((slot, records.seen(slot)?)))
    }

    /// The records of which the memory's own header says that there are as many.
    fn records(&self) -> Records<'a> {
        let most = self.memory.get(HEADER - 1).map_or(0, |word| word.load(Acquire));
        let records = Records::new(self.memory, usize::try_from(most).unwrap_or(usize::MAX));
        if records.is_left() { records } else { Records::new(&[], 0) }
    }
}
