//! Whose request is next: fair by blocks, by deficit round robin (Shreedhar and Varghese, 1995).
//!
//! A client whose turn it is may send as many blocks as it has credit for, and gets a [`QUANTUM`]
//! more each time that its turn comes. So clients that always have requests get the same count of
//! blocks, however these are divided into requests.
//!
//! All clients together have at most [`WINDOW`] blocks at the driver, where there is no order any
//! more: whoever has the turn waits until its request fits. Past it goes only a client that has
//! nothing at the driver, and only on credit: it may owe a [`QUANTUM`], which its next turn pays.
//! So a small read waits for what is in the device, never for all that the others want; and who has
//! the turn waits until all others owe as much as they may, never longer.

use culm_block::{MAX_BLOCKS, Operation, Request};

/// Blocks at the driver, beyond which only clients that have none there send something.
pub const WINDOW: u32 = 2 * MAX_BLOCKS;

/// Blocks that a client may send more each time that its turn comes, and that it may owe.
pub const QUANTUM: u32 = MAX_BLOCKS / 8;

/// The exponent of the most blocks that one request clears: as many as one writes. A device may
/// take as long for them.
pub const MAX_CLEARED: u8 = MAX_BLOCKS.ilog2() as u8;

/// The blocks that a request counts for at least: a small one costs the device time too.
const MIN_COST: u32 = 8;

/// Returns how many blocks a request counts for, at most [`MAX_BLOCKS`].
pub fn cost(request: &Request) -> u32 {
    match request.operation {
        // It moves nothing, but a device may have much to do.
        Operation::Flush => QUANTUM,
        _ => request.blocks.max(MIN_COST),
    }
}

/// A client's share of the driver.
#[derive(Clone, Copy, Debug, Default)]
pub struct Share {
    /// Blocks that it may send in its turn; negative if it owes some.
    credit: i32,
    /// Blocks that are at the driver.
    under_way: u32,
}

impl Share {
    /// Returns whether nothing is at the driver.
    #[inline]
    pub fn is_idle(&self) -> bool {
        self.under_way == 0
    }

    /// Returns whether the client may send a request of this cost out of turn.
    #[inline]
    pub fn may_pass(&self, cost: u32) -> bool {
        self.is_idle() && self.credit - cost as i32 >= -(QUANTUM as i32)
    }

    /// Gives credit: the client's turn has come.
    pub fn begin_turn(&mut self) {
        self.credit += QUANTUM as i32;
    }

    /// Takes credit back: the client wants nothing. What it owes stays.
    #[inline(always)]
    pub fn rest(&mut self) {
        self.credit = self.credit.min(0);
    }

    /// Forgives what the client owes: everybody had a turn, and it had no use for its own.
    pub fn forgive(&mut self) {
        self.credit = self.credit.max(0);
    }

    /// Returns whether there is credit for a request of this cost.
    #[inline]
    pub fn affords(&self, cost: u32) -> bool {
        self.credit >= cost as i32
    }

    /// Records that a request was sent.
    pub fn send(&mut self, cost: u32) {
        self.credit -= cost as i32;
        self.under_way += cost;
    }

    /// Records that a request is complete.
    pub fn complete(&mut self, cost: u32) {
        self.under_way = self.under_way.saturating_sub(cost);
    }
}
