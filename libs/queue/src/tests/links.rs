//! Tests of links: an owner and a borrower of four buffers, either of which is restarted at any
//! time, dies at any step, or has been hostile in a previous life.

use crate::atomic::Ordering;
use crate::{Event, Generations, Link, Positions, Shared, Storage};
use proptest::prelude::*;
use std::boxed::Box;
use std::collections::BTreeSet;
use std::vec::Vec;

type Ring = Shared<u64>;

const CAPACITY: usize = 8;
const BUFFERS: u64 = 4;

fn ring() -> Ring {
    Box::leak(Box::new(Storage::<u64, CAPACITY>::new())).shared()
}

/// A pair of rings, and the generation that the next life wishes for.
struct Ground {
    there: Ring,
    back: Ring,
    wish: u32,
}

impl Ground {
    fn new() -> Self {
        Self { there: ring(), back: ring(), wish: 0 }
    }

    /// Generations that no hostile life guesses.
    fn wish(&mut self) -> u32 {
        self.wish += 1;
        self.wish.wrapping_mul(0x9e37_79b9)
    }

    fn owner(&mut self) -> Owner {
        Owner { link: Link::attach(self.there, self.back, self.wish()), lent: BTreeSet::new(), renewals: 0 }
    }

    fn borrower(&mut self) -> Borrower {
        Borrower { link: Link::attach(self.back, self.there, self.wish()), held: Vec::new(), renewals: 0 }
    }
}

/// Lends four buffers.
struct Owner {
    link: Link<u64>,
    lent: BTreeSet<u64>,
    renewals: u32,
}

/// Returns them.
struct Borrower {
    link: Link<u64>,
    held: Vec<u64>,
    renewals: u32,
}

impl Owner {
    /// Takes a turn; returns whether it notifies. Where the peer is `honest`, what it says must be
    /// so.
    fn turn(&mut self, honest: bool) -> bool {
        if self.link.begin() == Event::Renewed {
            self.lent.clear();
            self.renewals += 1;
        }
        while let Some(buffer) = self.link.input.pop() {
            assert!(self.link.is_live() || !honest);
            assert!(self.lent.remove(&buffer) || !honest, "{buffer} came back twice");
        }
        for buffer in 0..BUFFERS {
            if !self.lent.contains(&buffer) && self.link.output.push(buffer).is_ok() {
                assert!(self.link.is_live());
                self.lent.insert(buffer);
            }
        }
        (self.link.output.publish() | self.link.input.release()).is_asleep()
    }
}

impl Borrower {
    /// Takes a turn in which it returns so many; returns whether it notifies.
    fn turn(&mut self, give_back: usize, honest: bool) -> bool {
        if self.link.begin() == Event::Renewed {
            self.held.clear();
            self.renewals += 1;
        }
        while let Some(buffer) = self.link.input.pop() {
            assert!(!self.held.contains(&buffer) || !honest, "{buffer} was lent twice");
            self.held.push(buffer);
        }
        self.held.truncate(64);
        for _ in 0..give_back {
            if let Some(buffer) = self.held.last().copied()
                && self.link.output.push(buffer).is_ok()
            {
                self.held.pop();
            }
        }
        (self.link.output.publish() | self.link.input.release()).is_asleep()
    }
}

/// Both take turns, as long as somebody notifies or does not sleep; in the end all buffers are with
/// the borrower.
fn settle(owner: &mut Owner, borrower: &mut Borrower) {
    let (mut wake_owner, mut wake_borrower) = (true, true);
    for _ in 0..40 {
        if core::mem::take(&mut wake_owner) {
            wake_borrower |= owner.turn(false);
            wake_owner |= owner.link.sleep().is_more();
        }
        if core::mem::take(&mut wake_borrower) {
            wake_owner |= borrower.turn(0, false);
            wake_borrower |= borrower.link.sleep().is_more();
        }
    }
    assert!(owner.link.is_live() && borrower.link.is_live(), "{owner:?} {borrower:?}");
    assert!(!wake_owner && !wake_borrower, "they never sleep");
    borrower.held.sort_unstable();
    assert_eq!(borrower.held, [0, 1, 2, 3]);
    // And buffers come and go.
    borrower.turn(2, true);
    owner.turn(true);
    assert_eq!(owner.lent.len() as u64, BUFFERS);
    borrower.turn(4, true);
    owner.turn(true);
    borrower.turn(0, true);
    assert_eq!(borrower.held.len() as u64, BUFFERS);
}

impl core::fmt::Debug for Owner {
    fn fmt(&self, formatter: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        write!(formatter, "owner {:?}, lent {:?}", self.link, self.lent)
    }
}

impl core::fmt::Debug for Borrower {
    fn fmt(&self, formatter: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        write!(formatter, "borrower {:?}, held {:?}", self.link, self.held)
    }
}

#[test]
fn nothing_passes_before_both_are_there() {
    let mut ground = Ground::new();
    let mut owner = ground.owner();
    assert!(owner.turn(true), "a new life notifies");
    assert!(owner.link.sleep().is_asleep() && !owner.link.is_live());
    assert!(owner.link.output.push(1).is_err() && owner.link.input.pop().is_none());
    let mut borrower = ground.borrower();
    assert!(borrower.turn(0, true) && !borrower.link.is_live());
    assert!(owner.turn(true) && owner.link.is_live());
    assert!(borrower.turn(0, true) && borrower.link.is_live());
    assert_eq!(borrower.held, [0, 1, 2, 3]);
    assert_eq!((owner.renewals, borrower.renewals), (1, 1));
    assert_eq!((owner.link.violations(), borrower.link.violations()), (0, 0));
}

#[test]
fn what_was_sent_to_a_previous_life_is_void() {
    let mut ground = Ground::new();
    let (mut owner, mut borrower) = (ground.owner(), ground.borrower());
    settle(&mut owner, &mut borrower);
    borrower.turn(3, true);
    let mut owner = ground.owner();
    owner.turn(true);
    assert_eq!(borrower.renewals, 1);
    borrower.turn(0, true);
    owner.turn(true);
    borrower.turn(0, true);
    assert_eq!((owner.renewals, borrower.renewals), (1, 2));
    assert_eq!(borrower.held, [0, 1, 2, 3]);
}

#[test]
fn entries_that_were_not_published_are_for_nobody() {
    let mut ground = Ground::new();
    let (mut owner, mut borrower) = (ground.owner(), ground.borrower());
    settle(&mut owner, &mut borrower);
    borrower.link.output.push(9).expect("there is space");
    let mut owner = ground.owner();
    owner.turn(true);
    borrower.turn(0, true);
    owner.turn(true);
    assert!(owner.link.is_live() && owner.link.input.available() == 0);
}

#[test]
fn a_violation_has_both_start_over() {
    for at in [0, 64] {
        let mut ground = Ground::new();
        let (mut owner, mut borrower) = (ground.owner(), ground.borrower());
        settle(&mut owner, &mut borrower);
        // An index from nowhere, in either word of the borrower's.
        let word = if at == 0 { &ground.back.header().producer.word } else { &ground.there.header().consumer.word };
        word.store(word.load(Ordering::Relaxed) + 100, Ordering::Relaxed);
        owner.link.output.refresh();
        assert!(owner.link.sleep_for_space(8).is_more());
        settle(&mut owner, &mut borrower);
        assert_eq!(owner.link.violations(), 1);
        assert_eq!((owner.renewals, borrower.renewals), (2, 2));
    }
}

#[test]
fn one_life_can_go_on_with_another() {
    let mut ground = Ground::new();
    let (mut owner, mut borrower) = (ground.owner(), ground.borrower());
    settle(&mut owner, &mut borrower);
    let generations = borrower.link.generations();
    owner.link.output.push(7).expect("space");
    owner.link.output.push(8).expect("space");
    let _ = owner.link.output.publish();
    assert_eq!(borrower.link.begin(), Event::None);
    assert_eq!(borrower.link.input.pop(), Some(7), "and its life ends");
    let (there, back) = (ground.there, ground.back);
    let shown = Positions::shown(back, there);
    let resume_at = |output, input| Link::<u64>::resume(back, there, generations, Positions { output, input });
    let resume = |taken| resume_at(shown.output, shown.input + taken);
    assert!(resume(3).is_none(), "there are not so many");
    let mut life = resume(1).expect("it goes on");
    assert_eq!((life.begin(), life.input.pop(), life.input.pop()), (Event::None, Some(8), None));
    life.output.push(5).expect("space");
    assert!(life.output.publish().is_asleep(), "the first publication notifies");
    assert_eq!((owner.link.begin(), owner.link.input.pop()), (Event::None, Some(5)));
    let stranger = Generations { own: generations.own + 1, ..generations };
    assert!(Link::<u64>::resume(back, there, stranger, shown).is_none());
    // The life ends between two pushes: what was written is published by the next one.
    life.output.push(6).expect("space");
    life.output.push(7).expect("space");
    let written = life.output.position();
    let shown = Positions::shown(back, there);
    assert_eq!(written, shown.output + 2);
    let capacity = owner.link.input.capacity();
    assert!(resume_at(shown.output + capacity + 1, shown.input).is_none(), "the ring holds not so many");
    assert!(resume_at(shown.output - 1, shown.input).is_none(), "that was published");
    let mut life = resume_at(written, shown.input + 1).expect("it goes on");
    assert!(life.output.publish().is_asleep(), "the first publication notifies");
    assert_eq!(owner.link.begin(), Event::None);
    assert_eq!((owner.link.input.pop(), owner.link.input.pop(), owner.link.input.pop()), (Some(6), Some(7), None));
    assert_eq!(life.output.refresh(), capacity - 3, "nothing is released yet");
    // The owner is restarted meanwhile: the life goes on, and then finds that.
    let mut owner = ground.owner();
    owner.turn(true);
    let mut borrower =
        Borrower { link: resume_at(written, shown.input + 1).expect("it goes on"), held: Vec::new(), renewals: 0 };
    assert!(!borrower.link.look());
    settle(&mut owner, &mut borrower);
}

#[test]
fn what_a_previous_life_published_can_be_read_before_the_pair_starts_over() {
    let mut ground = Ground::new();
    let (mut owner, mut borrower) = (ground.owner(), ground.borrower());
    settle(&mut owner, &mut borrower);
    borrower.link.output.push(7).expect("space");
    borrower.link.output.push(8).expect("space");
    let _ = borrower.link.output.publish();
    let mut borrower = ground.borrower();
    assert!(!owner.link.look());
    assert_eq!(owner.link.input.pop(), Some(7));
    assert!(owner.link.sleep().is_more() && !owner.link.look());
    // The peer, hostile now, shows its previous generation again.
    let word = &ground.back.header().producer.word;
    let shown = word.swap(u64::from(owner.link.generations().peer) << 32, Ordering::Relaxed);
    assert!(owner.link.sleep().is_more(), "what was found does not pass");
    word.store(shown, Ordering::Relaxed);
    // Whatever is pushed in between is for nobody.
    let _ = owner.link.output.push(9);
    let _ = owner.link.output.publish();
    assert_eq!((owner.link.input.pop(), owner.link.input.pop()), (Some(8), None));
    settle(&mut owner, &mut borrower);
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

    /// Whichever side is restarted, at any time: no buffer is with both, and in the end all are in
    /// use again.
    #[test]
    fn buffers_survive_restarts(acts in proptest::collection::vec((0..8_u8, 0..5_usize), 0..200)) {
        let mut ground = Ground::new();
        let (mut owner, mut borrower) = (ground.owner(), ground.borrower());
        for (act, count) in acts {
            match act {
                0 => owner = ground.owner(),
                1 => borrower = ground.borrower(),
                2..5 => { owner.turn(true); }
                _ => { borrower.turn(count, true); }
            }
            prop_assert!(borrower.held.len() as u64 <= BUFFERS);
        }
        prop_assert_eq!((owner.link.violations(), borrower.link.violations()), (0, 0));
        settle(&mut owner, &mut borrower);
    }

    /// A hostile life writes anything anywhere into both rings, while the peer works; the next one
    /// is honest. Both get on.
    #[test]
    fn an_honest_life_follows_a_hostile_one(
        acts in proptest::collection::vec((0..8_u8, any::<u64>(), -12..12_i32), 0..120),
        hostile_owner: bool,
    ) {
        let mut ground = Ground::new();
        let (mut owner, mut borrower) = (ground.owner(), ground.borrower());
        settle(&mut owner, &mut borrower);
        for (act, value, near) in acts {
            scribble(&ground, act, value, near);
            match (act, hostile_owner) {
                (6, true) => { borrower.turn(value as usize % 5, false); }
                (6, false) => { owner.turn(false); }
                (7, true) => { let _ = borrower.link.sleep(); }
                (7, false) => { let _ = owner.link.sleep(); }
                _ => {}
            }
            prop_assert!(owner.link.output.free() <= 8 && owner.link.input.available() <= 8);
            prop_assert!(borrower.link.output.free() <= 8 && borrower.link.input.available() <= 8);
        }
        if hostile_owner {
            owner = ground.owner();
        } else {
            borrower = ground.borrower();
        }
        settle(&mut owner, &mut borrower);
    }

    /// A life ends at any step of any turn, the attachment included.
    #[test]
    fn a_life_may_end_at_any_step(
        acts in proptest::collection::vec((any::<bool>(), 0..5_usize, proptest::option::weighted(0.4, 0..30_u32)), 0..60),
    ) {
        let mut ground = Ground::new();
        let (mut owner, mut borrower) = (ground.owner(), ground.borrower());
        for (owners, count, death) in acts {
            let mut steps = death;
            loop {
                if let Some(steps) = steps.take() {
                    crate::crash::die_after(steps);
                }
                let turn = std::panic::AssertUnwindSafe(|| {
                    if owners { owner.turn(true) } else { borrower.turn(count, true) }
                });
                let outcome = std::panic::catch_unwind(turn);
                crate::crash::disarm();
                if outcome.is_ok() {
                    break;
                }
                // The next life dies in its attachment, sometimes.
                crate::crash::die_after(count as u32 * 2);
                let _ = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
                    if owners { owner = ground.owner() } else { borrower = ground.borrower() }
                }));
                crate::crash::disarm();
                if owners { owner = ground.owner() } else { borrower = ground.borrower() }
            }
        }
        prop_assert_eq!((owner.link.violations(), borrower.link.violations()), (0, 0));
        settle(&mut owner, &mut borrower);
    }
}

/// A hostile side writes something somewhere: words near the real ones do more harm than random
/// ones.
fn scribble(ground: &Ground, act: u8, value: u64, near: i32) {
    let rings = [ground.there, ground.back];
    let header = rings[value as usize & 1].header();
    let words = [&header.producer.word, &header.consumer.word, &header.producer.start];
    let word = words[(value >> 1) as usize % 3];
    match act {
        0 => word.store(value, Ordering::Relaxed),
        1 | 2 => word.store(word.load(Ordering::Relaxed).wrapping_add(near as u64), Ordering::Relaxed),
        3 => word.store(words[(value >> 4) as usize % 3].load(Ordering::Relaxed), Ordering::Relaxed),
        4 => {
            let generation = u64::from(value as u32 >> 8 & 7);
            word.store(generation << 32 | u64::from(near as u32), Ordering::Relaxed);
        }
        5 => rings[value as usize & 1].store((value >> 8) as u32, value >> 60),
        _ => {}
    }
}
