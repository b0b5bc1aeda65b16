//! The flows that are shown: those that carry most just now.
//!
//! What a flow has carried since it was looked at before is the difference of its counts, which are
//! kept by the flow's number. Of another flow that has got the number, and has carried less than
//! the one before it, all counts; of one that has carried more, only the difference does.

use alloc::boxed::Box;
use alloc::vec;
use alloc::vec::Vec;
use core::cmp::Reverse;
use culm_flow::{Flow, Watch};

/// Flows that are shown at most.
pub(crate) const SHOWN: usize = 200;

/// Milliseconds after which flows are looked at again.
const PERIOD: u64 = 900;

/// A flow, and what it does.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Busy {
    pub(crate) flow: Flow,
    /// Bytes in a second, in original and reply direction.
    pub(crate) rates: [u64; 2],
}

/// What was seen of all flows.
pub(crate) struct Flows {
    watch: Watch<'static>,
    /// By number: the bytes that the flow had carried when it was looked at before.
    before: Box<[[u64; 2]]>,
    /// When that was, in milliseconds; 0 if never.
    time: u64,
    count: usize,
    busiest: Vec<Busy>,
}

impl Flows {
    /// The flows in this memory. Of `most` the counts are remembered; those with higher numbers are
    /// shown too, at a rate of 0.
    pub(crate) fn new(watch: Watch<'static>, most: usize) -> Self {
        let busiest = Vec::with_capacity(2 * SHOWN);
        Self { watch, before: vec![[0; 2]; most].into_boxed_slice(), time: 0, count: 0, busiest }
    }

    /// Returns how many flows there are, and for how many there is room.
    pub(crate) fn count(&self) -> (usize, usize) {
        (self.count, self.watch.capacity())
    }

    /// Returns those that carry most, the busiest first.
    pub(crate) fn busiest(&self) -> &[Busy] {
        &self.busiest
    }

    /// Looks at all flows, unless that was done just now. `now` is in milliseconds.
    pub(crate) fn look(&mut self, now: u64) {
        let passed = now.saturating_sub(self.time);
        if self.time != 0 && passed < PERIOD {
            return;
        }
        let is_first = self.time == 0;
        self.time = now.max(1);
        self.count = 0;
        self.busiest.clear();
        for (number, flow) in self.watch.flows() {
            self.count += 1;
            let before =
                self.before.get_mut(number).map_or(flow.bytes, |before| core::mem::replace(before, flow.bytes));
            let rate = |index: usize| {
                let (bytes, before) = (flow.bytes[index], before[index]);
                let carried = bytes.checked_sub(before).unwrap_or(bytes);
                if is_first { 0 } else { carried.saturating_mul(1000) / passed.max(1) }
            };
            self.busiest.push(Busy { flow, rates: [rate(0), rate(1)] });
            // Of twice as many the half stays: a step in the middle for each flow.
            if self.busiest.len() == 2 * SHOWN {
                self.busiest.select_nth_unstable_by_key(SHOWN, Busy::rank);
                self.busiest.truncate(SHOWN);
            }
        }
        self.busiest.sort_unstable_by_key(Busy::rank);
        self.busiest.truncate(SHOWN);
    }
}

impl Busy {
    /// Returns what those that carry most have least of: what they carry just now, then in all.
    fn rank(&self) -> Reverse<(u64, u64)> {
        let ([a, b], [c, d]) = (self.rates, self.flow.bytes);
        Reverse((a.saturating_add(b), c.saturating_add(d)))
    }
}
