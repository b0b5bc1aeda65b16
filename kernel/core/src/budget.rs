//! Budgets: a sporadic server per domain that has one.
//!
//! A domain may use `budget` ticks in every window of `period` ticks, whenever it likes. What it uses comes back one
//! period after the moment from which it was used, piece by piece (Sprunt, Sha, Lehoczky: *Aperiodic Task Scheduling
//! for Hard-Real-Time Systems*, 1989; with the correction of Stanovic and others, RTAS 2010: a piece that comes back
//! is never counted from before it was there). The pieces wait in a list of fixed length; when it is full, the two
//! last pieces become one at the later time, which can only delay the domain, never give it more than its budget.

const PIECES: usize = 4;

/// A part of the budget and the time from which it may be used.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Piece {
    from: u64,
    amount: u64,
}

/// What a domain may still use.
#[derive(Clone, Debug)]
pub struct Budget {
    period: u64,
    /// Sorted by time; none is empty, and the amounts add up to the budget.
    pieces: [Piece; PIECES],
    count: u32,
}

impl Budget {
    /// A full budget, in ticks, usable at once.
    pub fn new(budget: u64, period: u64) -> Self {
        let mut pieces = [Piece::default(); PIECES];
        pieces[0] = Piece { from: 0, amount: budget };
        Self { period, pieces, count: 1 }
    }

    /// The earliest time at which there is something to use: not after `now` where there is something already.
    pub fn available_from(&self) -> u64 {
        self.pieces[0].from
    }

    /// Ticks that may be used from `now` on without a break.
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

    /// The domain starts to run at `now`: what was usable before counts from now.
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

    /// The domain ran for `used` ticks since [`Self::begin`] or the last call of this. More than was there (interrupts
    /// are late) is taken from pieces that are still to come back. However much it is, each piece is looked at once or
    /// twice.
    pub fn consume(&mut self, used: u64) {
        let budget: u64 = self.pieces[..self.count as usize].iter().map(|piece| piece.amount).sum();
        // To use the whole budget is to use every piece, which puts each off by a period.
        let rounds = used / budget;
        if rounds > 0 {
            for piece in &mut self.pieces[..self.count as usize] {
                piece.from = piece.from.saturating_add(self.period.saturating_mul(rounds));
            }
        }
        let mut left = used % budget;
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

    fn give_back(&mut self, piece: Piece) {
        if self.count > 0 {
            let last = &mut self.pieces[self.count as usize - 1];
            // Adjacent pieces are one; a full list forces the two last to be.
            if last.from.saturating_add(last.amount) >= piece.from || self.count as usize == PIECES {
                if self.count as usize == PIECES {
                    last.from = last.from.max(piece.from);
                }
                last.amount += piece.amount;
                return;
            }
        }
        self.pieces[self.count as usize] = piece;
        self.count += 1;
    }
}
