//! Division of a common stock among clients that may hoard.
//!
//! Each client is guaranteed a number of pieces; beyond that it draws on a common rest, as long as
//! there is some. So a client that gives nothing back can take the rest, but never another's
//! guarantee. A part of the stock is given to no client: it keeps the device going.

/// The division of a stock. Each client's count of held pieces lies with the client and changes
/// only here.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Shares {
    guarantee: u32,
    rest: u32,
    most: u32,
    /// The amount that clients have beyond guarantees and rest: see [`Self::take_amount`].
    overdrawn: u32,
    /// A client that has more than this gets no more of the rest: see [`Self::cap_borrowing_at`].
    borrowing_cap: u32,
}

impl Shares {
    /// Divides `stock` among `clients`. A single client may have everything, since it can harm no
    /// other. If it hoards, the device stops, which costs nothing; otherwise buffers would be
    /// filled and emptied for work that is thrown away.
    pub const fn new(stock: u32, clients: u32) -> Self {
        if clients <= 1 {
            return Self { guarantee: stock, rest: 0, most: stock, overdrawn: 0, borrowing_cap: u32::MAX };
        }
        let divided = stock - stock / 8;
        let guarantee = divided / (2 * clients);
        let rest = divided - guarantee * clients;
        Self { guarantee, rest, most: guarantee + rest, overdrawn: 0, borrowing_cap: u32::MAX }
    }

    /// Grants one more piece to a client that holds `held`. Returns whether it was granted: not if
    /// the client has its guarantee and the rest is used up.
    #[inline(always)]
    pub fn take(&mut self, held: &mut u32) -> bool {
        if *held >= self.guarantee {
            if self.rest == 0 {
                return false;
            }
            self.rest -= 1;
        }
        *held += 1;
        true
    }

    /// Records that a client holds one piece besides `held`, which [`Self::take`] granted earlier:
    /// in the previous life of the component whose stock it is. It counts even if that life cannot
    /// have granted it, as a life can claim that wrote over its own account.
    pub fn restore(&mut self, held: &mut u32) {
        if *held >= self.guarantee {
            self.take_beyond(1);
        }
        *held += 1;
    }

    /// Grants `amount` to a client that holds `held`, of a stock whose pieces are of different
    /// sizes. A client below its guarantee always gets one piece, even if that exceeds the
    /// guarantee and the rest together; otherwise a large piece could never be granted. The excess
    /// is owed to the rest (`overdrawn`) until it is repaid.
    #[inline(always)]
    pub fn take_amount(&mut self, held: &mut u32, amount: u32) -> bool {
        let after = held.saturating_add(amount);
        if after > self.guarantee {
            if *held >= self.guarantee && (amount > self.rest || *held > self.borrowing_cap) {
                return false;
            }
            self.take_beyond(after - self.guarantee.max(*held));
        }
        *held = after;
        true
    }

    /// Records that a client holds `amount` besides `held`, which [`Self::take_amount`] granted
    /// earlier: in the previous life of the component whose stock it is.
    pub fn restore_amount(&mut self, held: &mut u32, amount: u32) {
        let after = held.saturating_add(amount);
        if after > self.guarantee {
            self.take_beyond(after - self.guarantee.max(*held));
        }
        *held = after;
    }

    /// Makes [`Self::take_amount`] give nothing of the rest to clients that hold more than `held`,
    /// until the next call of this.
    pub fn cap_borrowing_at(&mut self, held: u32) {
        self.borrowing_cap = held;
    }

    fn take_beyond(&mut self, amount: u32) {
        self.overdrawn += amount.saturating_sub(self.rest);
        self.rest = self.rest.saturating_sub(amount);
    }

    /// Takes `amount` back from a client that got it by [`Self::take_amount`].
    #[inline(always)]
    pub fn repay_amount(&mut self, held: &mut u32, amount: u32) {
        let after = held.saturating_sub(amount);
        if *held > self.guarantee {
            self.give_beyond(*held - after.max(self.guarantee));
        }
        *held = after;
    }

    #[inline(always)]
    fn give_beyond(&mut self, amount: u32) {
        let repaid = amount.min(self.overdrawn);
        self.overdrawn -= repaid;
        self.rest += amount - repaid;
    }

    /// Takes one piece back from a client that holds `held`, which is not 0.
    #[inline(always)]
    pub fn repay(&mut self, held: &mut u32) {
        *held -= 1;
        if *held >= self.guarantee {
            self.give_beyond(1);
        }
    }

    /// Returns the pieces that a client can have at most.
    pub const fn most(&self) -> u32 {
        self.most
    }

    /// Returns the pieces that each client is guaranteed.
    pub const fn guarantee(&self) -> u32 {
        self.guarantee
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::vec;

    proptest! {
        /// Whatever clients take and return: each can have its guarantee, all together never more
        /// than seven eighths.
        #[test]
        fn nobody_starves(clients in 2_u32..20, acts in proptest::collection::vec((0_usize..20, any::<bool>()), 0..2000)) {
            let stock = 512;
            let mut shares = Shares::new(stock, clients);
            let start = shares;
            let mut held = vec![0; clients as usize];
            for (client, take) in acts {
                let count = &mut held[client % clients as usize];
                if take {
                    let below = *count < shares.guarantee();
                    prop_assert!(shares.take(count) || !below);
                } else if *count > 0 {
                    shares.repay(count);
                }
                prop_assert!(held.iter().sum::<u32>() <= stock - stock / 8);
            }
            for count in &mut held {
                while *count > 0 {
                    shares.repay(count);
                }
            }
            prop_assert_eq!(shares, start);
        }
    }

    proptest! {
        /// The same with pieces of any size: a client that has nothing always gets one, all
        /// together have at most one piece each too much, and all that was taken comes back.
        #[test]
        fn nobody_starves_whatever_the_size(
            clients in 2_u32..10, acts in proptest::collection::vec((0_usize..10, prop_oneof![1..65_536_u32, 1..2000_u32], any::<bool>()), 0..500),
        ) {
            let stock = 400_000;
            let mut shares = Shares::new(stock, clients);
            let start = shares;
            let mut held = vec![(0, vec![]); clients as usize];
            for (client, amount, take) in acts {
                let (count, pieces) = &mut held[client % clients as usize];
                if take {
                    let below = *count < shares.guarantee();
                    let taken = shares.take_amount(count, amount);
                    prop_assert!(taken || !below);
                    if taken {
                        pieces.push(amount);
                    }
                } else if let Some(amount) = pieces.pop() {
                    shares.repay_amount(count, amount);
                }
                prop_assert_eq!(*count, pieces.iter().sum::<u32>());
                prop_assert!(held.iter().map(|(count, _)| *count).sum::<u32>() <= stock - stock / 8 + clients * 65_536);
            }
            for (count, pieces) in &mut held {
                for amount in pieces.drain(..) {
                    shares.repay_amount(count, amount);
                }
            }
            prop_assert_eq!(shares, start);
        }
    }

    #[test]
    fn a_single_client_may_have_all() {
        let mut shares = Shares::new(4, 1);
        let mut held = 0;
        assert!((0..4).all(|_| shares.take(&mut held)));
        assert!(!shares.take(&mut held));
    }

    /// Of two clients, the account says, one holds everything.
    #[test]
    fn what_no_life_can_have_granted_comes_back_all_the_same() {
        let start = Shares::new(16, 2);
        let (mut shares, mut held) = (start, 0);
        (0..16).for_each(|_| shares.restore(&mut held));
        assert_eq!(held, 16);
        (0..16).for_each(|_| shares.repay(&mut held));
        assert_eq!((shares, held), (start, 0));
    }

    #[test]
    fn more_clients_than_pieces_share_what_there_is() {
        let mut shares = Shares::new(8, 16);
        let mut held = 0;
        assert_eq!((0..16).filter(|_| shares.take(&mut held)).count(), 7);
    }
}
