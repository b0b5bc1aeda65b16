//! The clients that are left alone because they have used up their allowances
//! ([`crate::allowance`]).
//!
//! A virtualiser does not look at a paused client's queues, so the client causes it no work but
//! the wake-up by a notification. It is looked at again when its allowance is back, whether or not
//! it notifies then.

use crate::allowance::PAUSE;
use crate::{Allowance, ClientSet};
use culm::time;

/// The paused clients.
#[derive(Clone, Copy, Debug, Default)]
pub struct Paused(ClientSet);

impl Paused {
    /// No client.
    pub const NONE: Self = Self(ClientSet::EMPTY);

    /// Returns whether no client is paused.
    #[inline(always)]
    pub const fn is_empty(self) -> bool {
        self.0.is_empty()
    }

    /// Returns whether a client is paused.
    #[inline(always)]
    pub const fn contains(self, index: usize) -> bool {
        self.0.contains(index)
    }

    /// Returns the paused clients.
    #[inline(always)]
    pub const fn clients(self) -> ClientSet {
        self.0
    }

    /// Pauses a client whose allowance is spent, and asks for the wake-up at which it is looked at
    /// again. Returns whether it is paused: time may have given it some back.
    #[cold]
    pub fn pause(&mut self, index: usize, allowance: &mut Allowance) -> bool {
        if !self.contains(index) && !allowance.replenish() {
            self.0.insert(index);
            culm::wake_at(time::now() + PAUSE);
        }
        self.contains(index)
    }

    /// Ends the pause of each client whose allowance `is_back` ([`Allowance::replenish`]); asks to
    /// be woken for the others. Of the clients that are `due`, the paused ones are removed, and
    /// those whose pause has ended are added.
    #[cold]
    pub fn look(&mut self, due: &mut ClientSet, mut is_back: impl FnMut(usize) -> bool) {
        for index in self.0 {
            if is_back(index) {
                self.0.remove(index);
                due.insert(index);
            }
        }
        *due -= self.0;
        if !self.is_empty() {
            culm::wake_at(time::now() + PAUSE);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use culm::testing::{deadline, set_time};

    #[test]
    fn a_client_is_left_alone_until_its_allowance_is_back() {
        let mut allowances = [Allowance::new(0); 3];
        let mut paused = Paused::NONE;
        for index in [0, 2] {
            allowances[index].spend(u32::MAX);
            paused.pause(index, &mut allowances[index]);
        }
        let start = time::now();
        assert_eq!(deadline(), Some(start + PAUSE), "it is looked at without notifying");
        let mut due = ClientSet::first(3);
        paused.look(&mut due, |index| allowances[index].replenish());
        assert_eq!(due, ClientSet::one(1), "the others go on");
        assert_eq!(deadline(), Some(start + PAUSE));
        set_time(start + PAUSE);
        let mut due = ClientSet::EMPTY;
        paused.look(&mut due, |index| allowances[index].replenish());
        assert_eq!(due, ClientSet::one(0) | ClientSet::one(2), "they are looked at whether or not they notify");
        assert!(paused.is_empty() && !paused.contains(0));
        assert_eq!(deadline(), None, "nobody is waited for");
    }

    #[test]
    fn pausing_twice_prolongs_nothing() {
        let mut allowance = Allowance::new(0);
        allowance.spend(u32::MAX);
        let mut paused = Paused::NONE;
        paused.pause(5, &mut allowance);
        set_time(time::now() + PAUSE);
        paused.pause(5, &mut allowance);
        assert!(paused.contains(5));
        let mut due = ClientSet::EMPTY;
        paused.look(&mut due, |_| allowance.replenish());
        assert_eq!(due, ClientSet::one(5));
    }
}
