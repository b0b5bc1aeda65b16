//! The door: SYNs wait here until everything else that was received is dealt with.
//!
//! Whoever has a connection comes first: his segments end work that was begun, those of newcomers begin more. So under
//! overload what is begun is finished, and too many newcomers cost only the reading of their SYNs. A SYN waits as a record of
//! its few facts, its buffer goes back at once. Where more wait than there is room for, one who has asked before takes the place
//! of the one that waits longest: who floods makes up a new sender for each SYN, while who wants a connection asks again
//! (RFC 6298 §2).

use super::askers::Askers;
use super::knock::Knock;
use alloc::collections::VecDeque;
use culm::time::{Duration, Instant};

/// SYNs that wait at most: what is answered in some hundredths of a second.
const ROOM: usize = 256;

/// How long a SYN may wait: then its sender asks again.
const PATIENCE: Duration = Duration::from_millis(900);

/// The door of a stack.
pub(super) struct Door {
    waiting: VecDeque<(Knock, Instant)>,
    askers: Askers,
    /// SYNs that came.
    pub(super) attempts: u64,
    /// SYNs that were not answered.
    pub(super) refused: u64,
}

impl Door {
    /// A door of a stack with so many places.
    pub(super) fn new(places: usize) -> Self {
        let room = if places == 0 { 0 } else { ROOM };
        Self { waiting: VecDeque::with_capacity(room), askers: Askers::new(places), attempts: 0, refused: 0 }
    }

    /// Takes a SYN in, whose sender has this hash.
    pub(super) fn knock(&mut self, knock: Knock, hash: u64, now: Instant) {
        let again = self.askers.again(hash, now);
        if self.waiting.len() == ROOM {
            self.refused += 1;
            if !again {
                return;
            }
            self.waiting.pop_front();
        }
        self.waiting.push_back((knock, now));
    }

    /// Whether somebody with this hash has asked lately.
    pub(super) fn knows(&mut self, hash: u64, now: Instant) -> bool {
        self.askers.knows(hash, now)
    }

    #[inline(always)]
    pub(super) fn is_empty(&self) -> bool {
        self.waiting.is_empty()
    }

    /// The SYN that waits longest.
    pub(super) fn next(&mut self, now: Instant) -> Option<Knock> {
        while let Some((knock, since)) = self.waiting.pop_front() {
            if now < since + PATIENCE {
                return Some(knock);
            }
            self.refused += 1;
        }
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::stack::classify::Key;
    use crate::stack::cookie::Offer;
    use smoltcp::wire::{IpAddress, IpEndpoint};

    fn knock(number: u32) -> Knock {
        let endpoint = IpEndpoint::new(IpAddress::v4(10, 0, 0, 1), 80);
        Knock {
            link: [0; 6],
            key: Key::default(),
            remote: endpoint,
            local: endpoint,
            sequence: number,
            acknowledged: 0,
            offer: Offer::default(),
        }
    }

    fn at(milliseconds: u64) -> Instant {
        Instant::default() + Duration::from_millis(milliseconds)
    }

    #[test]
    fn who_asks_again_goes_before_who_asks_for_the_first_time() {
        let mut door = Door::new(64);
        // One who is turned away, since so many came before.
        for number in 0..ROOM as u32 {
            door.knock(knock(number), u64::from(number) << 6, at(0));
        }
        door.knock(knock(1000), 1000 << 6, at(1));
        assert_eq!((door.waiting.len(), door.refused), (ROOM, 1));
        door.knock(knock(1000), 1000 << 6, at(500));
        assert_eq!((door.waiting.len(), door.refused), (ROOM, 2));
        assert_eq!(door.next(at(500)).map(|knock| knock.sequence), Some(1), "the one that waited longest is gone");
        assert!(door.waiting.iter().any(|(knock, _)| knock.sequence == 1000));
    }

    #[test]
    fn who_has_waited_too_long_asks_again_anyway() {
        let mut door = Door::new(64);
        door.knock(knock(1), 1, at(0));
        door.knock(knock(2), 2, at(500));
        assert_eq!(door.next(at(1000)).map(|knock| knock.sequence), Some(2));
        assert!(door.next(at(1000)).is_none() && door.is_empty());
        assert_eq!(door.refused, 1);
    }
}
