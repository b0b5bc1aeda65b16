//! Whose request is next: fair by blocks, by deficit round robin (Shreedhar and Varghese, 1995).
//!
//! A client whose turn it is may send as many blocks as it has credit for, and gets more credit
//! each time that its turn comes. So clients that always have requests get the same count of
//! blocks, however these are divided into requests. Two bounds keep the driver's queue short, where
//! there is no order any more: all clients together have at most [`WINDOW`] blocks under way, but a
//! client that has none may send one request of up to [`QUANTUM`] blocks at any time. So a small
//! read waits for what is in the device, never for all that the others want.

use culm_block::{MAX_BLOCKS, Operation, Request};

/// Once so many blocks are at the driver, a client that has some there must wait.
pub const WINDOW: u32 = 2 * MAX_BLOCKS;

/// Blocks that a client may send more each time that its turn comes.
pub const QUANTUM: u32 = MAX_BLOCKS / 8;

/// The blocks that a request counts for at least: a small one costs the device time too.
const MIN_COST: u32 = 8;

/// Returns how many blocks a request counts for.
pub fn cost(request: &Request) -> u32 {
    match request.operation {
        Operation::Read | Operation::Write => request.blocks.max(MIN_COST),
        // These move nothing, but a device may have much to do.
        Operation::Flush | Operation::Discard | Operation::WriteZeroes { .. } => QUANTUM,
    }
}

/// A client's share of the driver.
#[derive(Clone, Copy, Debug, Default)]
pub struct Share {
    /// Blocks that it may send in its turn. It is negative if it sent requests out of turn, by
    /// [`MAX_BLOCKS`] at most: so its turn comes again soon.
    credit: i32,
    /// Blocks that are under way.
    under_way: u32,
}

impl Share {
    /// Returns whether the client may send a request of this cost out of turn.
    pub fn may_pass(&self, cost: u32) -> bool {
        self.under_way == 0 && cost <= QUANTUM
    }

    /// Gives credit: the client's turn has come.
    pub fn refill(&mut self) {
        self.credit = self.credit.saturating_add(QUANTUM as i32);
    }

    /// Takes credit back that the client has no use for. What it owes stays.
    pub fn give_up(&mut self) {
        self.credit = self.credit.min(0);
    }

    /// Returns whether there is credit for a request of this cost.
    pub fn affords(&self, cost: u32) -> bool {
        self.credit >= cost as i32
    }

    /// Records that a request was sent.
    pub fn send(&mut self, cost: u32) {
        self.credit = self.credit.saturating_sub(cost as i32).max(-(MAX_BLOCKS as i32));
        self.under_way += cost;
    }

    /// Records that a request is complete.
    pub fn complete(&mut self, cost: u32) {
        self.under_way = self.under_way.saturating_sub(cost);
    }
}
