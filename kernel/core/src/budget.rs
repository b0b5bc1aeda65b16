//! Budgets: a sporadic server per domain that has one.
//!
//! A domain may use `budget` ticks in every window of `period` ticks, whenever it likes. Used time
//! is replenished one period after the moment from which it was used, piece by piece (Sprunt, Sha,
//! Lehoczky: *Aperiodic Task Scheduling for Hard-Real-Time Systems*, 1989; with the correction of
//! Stanovic and others, RTAS 2010: a piece that comes back is never counted from before it was
//! there). The pieces wait in a list of fixed length; when it is full, two neighbours become one at
//! the later time, which can only delay the domain, never give it more than its budget. So a domain
//! whose time is cut into more pieces than the list holds, within one period, may be throttled
//! before it has used its budget.

/// Pieces of a budget at most. A domain with at most so many turns in a period gets its whole
/// budget.
const PIECES: usize = 16;

/// A part of the budget and the time from which it may be used.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Piece {
    from: u64,
    amount: u64,
}

/// The time that a domain may still use, and from when.
#[derive(Clone, Debug)]
pub struct Budget {
    budget: u64,
    period: u64,
    /// Sorted by time; none is empty, and the amounts add up to the budget.
    pieces: [Piece; PIECES],
    count: u32,
}

impl Budget {
    /// Creates a full budget, in ticks, usable at once.
    pub fn new(budget: u64, period: u64) -> Self {
        let mut pieces = [Piece::default(); PIECES];
        pieces[0] = Piece { from: 0, amount: budget };
        Self { budget, period, pieces, count: 1 }
    }

    /// Returns the earliest time at which there is something to use. If that is not after the
    /// present time, there is something already.
    pub fn available_from(&self) -> u64 {
        self.pieces[0].from
    }

    /// Returns the ticks that may be used from `now` on without a break.
    pub fn remaining(&self, now: u64) -> u64 {
        let mut amount = 0;
        for piece in &self.pieces[..self.count as usize] {
            if piece.from > now.saturating_add(amount) {
                break;
            }
            amount += piece.amount;
        }
        amount
    }

    /// Starts the use of the budget at `now`: pieces that were usable before count from now.
    pub fn begin(&mut self, now: u64) {
        if self.pieces[0].from >= now {
            return;
        }
        self.pieces[0].from = now;
        while self.count > 1 && self.pieces[1].from <= now {
            self.pieces[0].amount += self.pieces[1].amount;
            self.drop_first_keeping_sum();
        }
    }

    /// Charges `used` ticks, which passed since [`Self::begin`] or the last call of this. An
    /// overrun (a late timer) is taken from future replenishments, but never more than one further
    /// budget: a stall of the machine must not become the domain's debt.
    pub fn consume(&mut self, used: u64) {
        let mut left = used.min(self.budget.saturating_mul(2));
        while left > 0 {
            let first = self.pieces[0];
            let taken = first.amount.min(left);
            left -= taken;
            if taken == first.amount {
                self.remove_first();
            } else {
                self.pieces[0] = Piece { from: first.from.saturating_add(taken), amount: first.amount - taken };
            }
            self.give_back(Piece { from: first.from.saturating_add(self.period), amount: taken });
        }
    }

    fn remove_first(&mut self) {
        self.pieces.copy_within(1..self.count as usize, 0);
        self.count -= 1;
    }

    /// Removes the second piece, whose amount the first has taken over.
    fn drop_first_keeping_sum(&mut self) {
        self.pieces.copy_within(2..self.count as usize, 1);
        self.count -= 1;
    }

    /// Adds a piece behind the others, or joins it to the last if they are adjacent.
    fn give_back(&mut self, piece: Piece) {
        if let Some(last) = self.pieces[..self.count as usize].last_mut()
            && last.from.saturating_add(last.amount) >= piece.from
        {
            last.amount += piece.amount;
            return;
        }
        if self.count as usize == PIECES {
            self.make_room();
        }
        self.pieces[self.count as usize] = piece;
        self.count += 1;
    }

    /// Joins the two pieces that are nearest in time into one, at the later time. The first is left
    /// out, as it may be in use.
    fn make_room(&mut self) {
        let gap = |at: &usize| self.pieces[at + 1].from.saturating_sub(self.pieces[*at].from);
        let Some(nearest) = (1..PIECES - 1).min_by_key(gap) else { return };
        self.pieces[nearest + 1].amount += self.pieces[nearest].amount;
        self.pieces.copy_within(nearest + 1.., nearest);
        self.count -= 1;
    }
}
