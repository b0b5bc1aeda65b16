//! Budgets: a sporadic server per domain that has one.
//!
//! A domain may use `budget` ticks in every window of `period` ticks, whenever it likes. Used time
//! is replenished one period after the moment from which it was used, piece by piece (Sprunt, Sha,
//! Lehoczky: *Aperiodic Task Scheduling for Hard-Real-Time Systems*, 1989; with the correction of
//! Stanovic and others, RTAS 2010: a replenishment is never counted from before it was there). The
//! replenishments wait in a list of fixed length; when it is full, two neighbours become one at the
//! later time, which can only delay the domain, never give it more than its budget. So a domain
//! whose time is cut into more replenishments than the list holds, within one period, may be
//! throttled before it has used its budget.

/// Replenishments of a budget at most. A domain with at most so many turns in a period gets its
/// whole budget.
const MAX_REPLENISHMENTS: usize = 16;

/// A part of the budget and the time from which it may be used.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Replenishment {
    from: u64,
    amount: u64,
}

/// The time that a domain may still use, and from when.
#[derive(Clone, Debug)]
pub struct Budget {
    budget: u64,
    period: u64,
    /// Sorted by time; none is empty, and the amounts add up to the budget.
    replenishments: [Replenishment; MAX_REPLENISHMENTS],
    count: u32,
}

impl Budget {
    /// Creates a full budget, in ticks, usable at once.
    pub fn new(budget: u64, period: u64) -> Self {
        let mut replenishments = [Replenishment::default(); MAX_REPLENISHMENTS];
        replenishments[0] = Replenishment { from: 0, amount: budget };
        Self { budget, period, replenishments, count: 1 }
    }

    /// Returns the earliest time at which there is something to use. If that is not after the
    /// present time, there is something already.
    pub fn available_from(&self) -> u64 {
        self.replenishments[0].from
    }

    /// Returns the ticks that may be used from `now` on without a break.
    pub fn remaining(&self, now: u64) -> u64 {
        let mut amount = 0;
        for replenishment in &self.replenishments[..self.count as usize] {
            if replenishment.from > now.saturating_add(amount) {
                break;
            }
            amount += replenishment.amount;
        }
        amount
    }

    /// Starts the use of the budget at `now`: replenishments that were usable before count from
    /// now.
    pub fn begin(&mut self, now: u64) {
        if self.replenishments[0].from >= now {
            return;
        }
        self.replenishments[0].from = now;
        while self.count > 1 && self.replenishments[1].from <= now {
            self.replenishments[0].amount += self.replenishments[1].amount;
            self.drop_second();
        }
    }

    /// Charges `used` ticks, which passed since [`Self::begin`] or the last call of this. An
    /// overrun (a late timer) is taken from future replenishments, but never more than one further
    /// budget: a stall of the machine must not become the domain's debt.
    pub fn consume(&mut self, used: u64) {
        let mut left = used.min(self.budget.saturating_mul(2));
        while left > 0 {
            let first = self.replenishments[0];
            let taken = first.amount.min(left);
            left -= taken;
            if taken == first.amount {
                self.remove_first();
            } else {
                self.replenishments[0] =
                    Replenishment { from: first.from.saturating_add(taken), amount: first.amount - taken };
            }
            self.replenish_later(Replenishment { from: first.from.saturating_add(self.period), amount: taken });
        }
    }

    fn remove_first(&mut self) {
        self.replenishments.copy_within(1..self.count as usize, 0);
        self.count -= 1;
    }

    /// Removes the second replenishment, whose amount the first has taken over.
    fn drop_second(&mut self) {
        self.replenishments.copy_within(2..self.count as usize, 1);
        self.count -= 1;
    }

    /// Adds a replenishment behind the others, or joins it to the last if they are adjacent.
    fn replenish_later(&mut self, replenishment: Replenishment) {
        if let Some(last) = self.replenishments[..self.count as usize].last_mut()
            && last.from.saturating_add(last.amount) >= replenishment.from
        {
            last.amount += replenishment.amount;
            return;
        }
        if self.count as usize == MAX_REPLENISHMENTS {
            self.make_room();
        }
        self.replenishments[self.count as usize] = replenishment;
        self.count += 1;
    }

    /// Joins the two replenishments that are nearest in time into one, at the later time. The first
    /// is left out, as it may be in use.
    fn make_room(&mut self) {
        let gap = |at: &usize| self.replenishments[at + 1].from.saturating_sub(self.replenishments[*at].from);
        let Some(nearest) = (1..MAX_REPLENISHMENTS - 1).min_by_key(gap) else { return };
        self.replenishments[nearest + 1].amount += self.replenishments[nearest].amount;
        self.replenishments.copy_within(nearest + 1.., nearest);
        self.count -= 1;
    }
}
