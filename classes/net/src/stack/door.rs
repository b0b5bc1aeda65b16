//! The door: SYNs wait here until everything else that was received is dealt with.
//!
//! Whoever has a connection comes first: his segments end work that was begun, those of newcomers
//! begin more. So under overload what is begun is finished, and too many newcomers cost only the
//! receiving of their SYNs. A SYN waits as a record of its few facts, its buffer goes back at once,
//! and one that already waits is not taken in again. Where there is no room for more, a SYN is too
//! much, which is known before it is read. Of a crowd all are equal. Of a flood, one who has asked
//! before takes the place of one who has not: who floods makes up a new sender for each SYN, while
//! who wants a connection asks again (RFC 6298 §2). Which place that is, nobody outside can tell.

use super::askers::Askers;
use super::knock::Knock;
use alloc::boxed::Box;
use alloc::collections::VecDeque;
use alloc::vec;
use culm::time::{Duration, Instant};

/// SYNs that wait at most: what is answered in some hundredths of a second.
const ROOM: usize = 256;

/// How long a SYN may wait: then its sender asks again.
const PATIENCE: Duration = Duration::from_millis(900);

/// Bits by which waiting clients are known. Two clients that share a bit are taken for one: the
/// second asks again.
const BITS: usize = 1 << 14;

/// What is known of a SYN before it is read.
pub(super) struct Ask {
    /// Of its sender, keyed.
    hash: u64,
    /// Its sender has asked before.
    again: bool,
    since: Instant,
}

/// A SYN that waits.
struct Waiting {
    knock: Knock,
    ask: Ask,
}

/// The door of a stack.
pub(super) struct Door {
    waiting: VecDeque<Waiting>,
    /// A bit for the hash of each who waits.
    present: Box<[u64]>,
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
        let bits = if places == 0 { 0 } else { BITS };
        Self {
            waiting: VecDeque::with_capacity(room),
            present: vec![0; bits / 64].into_boxed_slice(),
            askers: Askers::new(places),
            attempts: 0,
            refused: 0,
        }
    }

    /// A SYN came. Whether it is one of too many, which is known before anything else is: of a
    /// crowd all are equal.
    #[inline]
    pub(super) fn turns_away(&mut self, is_flood: bool) -> bool {
        let is_too_much = self.waiting.len() >= ROOM && !is_flood;
        self.attempts += u64::from(is_too_much);
        self.refused += u64::from(is_too_much);
        is_too_much
    }

    /// A SYN came that was not turned away, whose sender has this hash. None where it is not worth
    /// reading: of a flood, what is by somebody who asks for the first time.
    pub(super) fn ask(&mut self, hash: u64, now: Instant) -> Option<Ask> {
        self.attempts += 1;
        let ask = Ask { hash, again: self.askers.again(hash, now), since: now };
        if self.present.get(word(hash)).is_some_and(|word| word & bit(hash) != 0) {
            return None;
        }
        let is_let_in = self.waiting.len() < ROOM || ask.again && !self.waiting[place(hash)].ask.again;
        self.refused += u64::from(!is_let_in);
        is_let_in.then_some(ask)
    }

    /// Lets a SYN wait.
    pub(super) fn admit(&mut self, knock: Knock, ask: Ask) {
        let hash = ask.hash;
        self.mark(hash, true);
        if self.waiting.len() < ROOM {
            return self.waiting.push_back(Waiting { knock, ask });
        }
        self.refused += 1;
        let gone = core::mem::replace(&mut self.waiting[place(hash)], Waiting { knock, ask });
        self.mark(gone.ask.hash, false);
    }

    /// Notes whether somebody with this hash waits.
    fn mark(&mut self, hash: u64, waits: bool) {
        let Some(word) = self.present.get_mut(word(hash)) else { return };
        *word = if waits { *word | bit(hash) } else { *word & !bit(hash) };
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
        while let Some(Waiting { knock, ask }) = self.waiting.pop_front() {
            self.mark(ask.hash, false);
            if now < ask.since + PATIENCE {
                return Some(knock);
            }
            self.refused += 1;
        }
        None
    }
}

/// Where the bit for a hash is: the word, and the bit in it.
fn word(hash: u64) -> usize {
    hash as usize % BITS / 64
}

fn bit(hash: u64) -> u64 {
    1 << (hash % 64)
}

/// Returns the place at a full door that a client takes which has asked before.
fn place(hash: u64) -> usize {
    (hash >> 32) as usize % ROOM
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

    impl Door {
        fn offer(&mut self, knock: Knock, hash: u64, now: Instant) {
            if let Some(ask) = self.ask(hash, now) {
                self.admit(knock, ask);
            }
        }
    }

    #[test]
    fn who_asks_again_goes_before_who_asks_for_the_first_time() {
        let mut door = Door::new(64);
        // A client that is turned away, since so many came before.
        for number in 0..ROOM as u32 {
            door.offer(knock(number), u64::from(number) << 6, at(0));
        }
        door.offer(knock(1000), 1, at(1));
        assert_eq!((door.waiting.len(), door.refused), (ROOM, 1));
        door.offer(knock(1000), 1, at(500));
        assert_eq!((door.waiting.len(), door.refused), (ROOM, 2));
        assert!(door.waiting.iter().any(|waiting| waiting.knock.sequence == 1000));
    }

    #[test]
    fn of_a_crowd_all_are_equal() {
        let mut door = Door::new(64);
        (0..ROOM as u32).for_each(|number| door.offer(knock(number), u64::from(number) << 6, at(0)));
        assert!(door.turns_away(false));
        assert!(!door.turns_away(true));
        assert_eq!((door.attempts, door.refused), (ROOM as u64 + 1, 1));
        assert!(door.next(at(1)).is_some() && !door.turns_away(false), "there is room");
    }

    #[test]
    fn those_who_ask_again_do_not_drive_each_other_out() {
        let mut door = Door::new(64);
        let hash = |number: u32| u64::from(number) << 6 | u64::from(number) << 32;
        for now in [0, 1000] {
            // So many that each place is some one's, and nobody waits twice.
            (0..2 * ROOM as u32).for_each(|number| door.offer(knock(number), hash(number), at(now)));
            door.waiting.retain(|_| now > 0);
            door.present.fill(0);
        }
        assert!(door.waiting.iter().all(|waiting| waiting.ask.again && waiting.knock.sequence < ROOM as u32));
        assert!(door.ask(hash(0), at(2000)).is_none(), "not worth reading");
        assert_eq!(door.next(at(1000)).map(|knock| knock.sequence), Some(0));
        assert!(door.ask(hash(0), at(2000)).is_some(), "there is room");
    }

    #[test]
    fn who_repeats_itself_takes_one_place_and_nobody_elses() {
        let mut door = Door::new(64);
        door.offer(knock(1), 77, at(0));
        for _ in 0..10 * ROOM {
            door.offer(knock(2), 78, at(1));
        }
        assert_eq!((door.waiting.len(), door.refused), (2, 0));
        assert_eq!(door.next(at(2)).map(|knock| knock.sequence), Some(1));
        assert_eq!(door.next(at(2)).map(|knock| knock.sequence), Some(2));
        door.offer(knock(2), 78, at(3));
        assert_eq!(door.waiting.len(), 1, "who was answered may ask again");
    }

    #[test]
    fn who_has_waited_too_long_asks_again_anyway() {
        let mut door = Door::new(64);
        door.offer(knock(1), 1, at(0));
        door.offer(knock(2), 2, at(500));
        assert_eq!(door.next(at(1000)).map(|knock| knock.sequence), Some(2));
        assert!(door.next(at(1000)).is_none() && door.is_empty());
        assert_eq!(door.refused, 1);
    }
}
