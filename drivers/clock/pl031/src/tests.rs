//! The clock, faked: a second begins whenever its registers were read or written so often.

use crate::chip::Chip;
use crate::registers::{DATA, INTERRUPT_CLEAR, INTERRUPT_MASK, MATCH};
use crate::shown::{PATIENCE, Shown};
use core::cell::Cell;
use culm::connection::ClockProvider;
use culm::testing::{memory, set_time};
use culm::time::{self, Duration, Instant};
use culm_clock::Face;
use culm_mmio::{Registers, Width};

/// Seconds since 1970 when a test begins.
const BEGIN: u32 = 1_000_000_000;

struct Fake {
    second: Cell<u32>,
    matched: Cell<u32>,
    mask: Cell<u32>,
    raised: Cell<bool>,
    /// Accesses until the next second begins.
    left: Cell<u32>,
    /// How many readings of the second end with the driver preempted, for half a second.
    preempted: Cell<u32>,
}

impl Fake {
    fn new(left: u32) -> Self {
        let (second, matched, mask) = (Cell::new(BEGIN), Cell::new(0), Cell::new(0));
        Self { second, matched, mask, raised: Cell::new(false), left: Cell::new(left), preempted: Cell::new(0) }
    }

    fn tick(&self) {
        self.second.set(self.second.get() + 1);
        if self.second.get() == self.matched.get() {
            self.raised.set(true);
        }
    }

    fn access(&self) {
        let left = self.left.get();
        self.left.set(left.saturating_sub(1));
        if left == 1 {
            self.tick();
        }
    }

    fn interrupts(&self) -> bool {
        self.raised.get() && self.mask.get() == 1
    }
}

impl Registers for &Fake {
    fn load<W: Width>(&self, offset: usize) -> W {
        self.access();
        let second = self.second.get();
        if self.preempted.get() > 0 {
            self.preempted.set(self.preempted.get() - 1);
            set_time(time::now() + Duration::from_millis(500));
        }
        W::truncate(if offset == DATA.offset() { second } else { 0 })
    }

    fn store<W: Width>(&self, offset: usize, value: W) {
        self.access();
        let value = value.extend();
        match offset {
            offset if offset == MATCH.offset() => self.matched.set(value),
            offset if offset == INTERRUPT_MASK.offset() => self.mask.set(value),
            offset if offset == INTERRUPT_CLEAR.offset() => self.raised.set(false),
            _ => {}
        }
    }
}

#[test]
fn it_interrupts_when_the_second_begins() {
    let fake = Fake::new(0);
    let mut chip = Chip::new(&fake);
    assert_eq!(chip.second().0, BEGIN);
    chip.interrupt_in(1);
    assert!(!fake.interrupts());
    fake.tick();
    assert!(fake.interrupts());
    assert_eq!(chip.begun().0, BEGIN + 1);
    assert!(!fake.interrupts());
    chip.interrupt_in(3);
    (0..2).for_each(|_| fake.tick());
    assert!(!fake.interrupts());
    fake.tick();
    assert!(fake.interrupts());
}

/// A second that begins while its interrupt is asked for is not missed: the next one is awaited.
#[test]
fn a_second_may_begin_at_any_moment() {
    for left in 0..12 {
        let fake = Fake::new(left);
        let mut chip = Chip::new(&fake);
        chip.interrupt_in(1);
        let before = fake.second.get();
        if !fake.interrupts() {
            fake.tick();
        }
        assert!(fake.interrupts(), "the second began after {left} accesses; it is {before}");
    }
}

/// A driver that is preempted between the second and the time reads both again, and not for ever.
#[test]
fn the_second_and_the_time_are_read_at_once() {
    for (preempted, read_later) in [(1, 500), (3, 1500), (9, 2000)] {
        let fake = Fake::new(0);
        let mut chip = Chip::new(&fake);
        fake.preempted.set(preempted);
        let start = time::now();
        let (_, moment) = chip.begun();
        assert_eq!(moment.since(start), Duration::from_millis(read_later));
        assert_eq!(fake.preempted.get(), preempted.saturating_sub(4));
    }
}

/// A driver's time of day, and what clients see of it.
struct World {
    face: Face,
    shown: Shown,
    /// The moment at which the second [`BEGIN`] begins.
    begin: Instant,
}

impl World {
    fn new() -> Self {
        let face = Face::new(ClockProvider { shown: memory(64, 0) });
        Self { face, shown: Shown::new(face), begin: Instant::default() + Duration::from_secs(5000) }
    }

    fn at(&self, milliseconds: u64) -> Instant {
        self.begin + Duration::from_millis(milliseconds)
    }

    /// Has a second begin, so many milliseconds after the second [`BEGIN`] began.
    fn second_begins(&mut self, milliseconds: u64) -> bool {
        self.shown.second_begins((BEGIN + (milliseconds / 1000) as u32, self.at(milliseconds)))
    }

    /// Begins a new life, in which this second is read and then the time.
    fn restart(&mut self, second: u32, milliseconds: u64) {
        self.shown = Shown::new(self.face);
        self.shown.begin((BEGIN + second, self.at(milliseconds)));
    }

    /// Returns by how many milliseconds what clients read is ahead of the time.
    fn ahead(&self) -> i128 {
        let shown = self.face.shown(self.begin).expect("it is shown");
        shown.as_millis() as i128 - i128::from(BEGIN) * 1000
    }
}

/// A driver that begins anew in the middle of a second does not know how far in it is: what its
/// last life showed is right, and stays.
#[test]
fn a_restart_does_not_set_the_time_back() {
    let mut world = World::new();
    assert!(world.second_begins(0));
    for milliseconds in [1, 300, 999, 1700, 59_999] {
        world.restart((milliseconds / 1000) as u32, milliseconds);
        assert_eq!(world.ahead(), 0, "after {milliseconds} ms");
    }
}

/// A second may end after it was read and before the time is; and the clock may be a bit behind.
#[test]
fn a_restart_at_the_end_of_a_second_does_not_set_the_time_back() {
    for (second, milliseconds) in [(0, 1000), (0, 1001), (6, 7002), (59, 60_008)] {
        let mut world = World::new();
        assert!(world.second_begins(0));
        world.restart(second, milliseconds);
        assert_eq!(world.ahead(), 0, "after {milliseconds} ms");
    }
}

/// A time that was shown and cannot be does not stay, whatever it is.
#[test]
fn a_time_that_cannot_be_is_replaced() {
    for wrong in [-5000_i64, -1, 1010, 5000] {
        let mut world = World::new();
        world.face.show(Duration::from_secs(u64::from(BEGIN) + 5), world.at((5000 - wrong) as u64));
        world.restart(0, 0);
        assert_eq!(world.ahead(), 0, "{wrong} ms ahead");
    }
}

/// An interrupt that is handled late says less than what is shown; the drift of the clock is
/// followed.
#[test]
fn a_late_interrupt_does_not_set_the_time_back() {
    for late in [10, 12, 40, 400, 999] {
        let mut world = World::new();
        assert!(world.second_begins(0));
        assert!(!world.second_begins(60_000 + late), "handled {late} ms late");
        assert_eq!(world.ahead(), 0);
        assert!(world.second_begins(61_006), "6 ms of drift");
        assert_eq!(world.ahead(), -6);
    }
}

/// Late interrupts are counted in a row: a few among many that come in time do nothing.
#[test]
fn late_interrupts_now_and_then_do_not_set_the_time_back() {
    let mut world = World::new();
    for minute in 0..10 {
        assert!(world.second_begins(minute * 60_000));
        for second in 1..u64::from(PATIENCE) {
            assert!(!world.second_begins(minute * 60_000 + second * 1000 + 300));
        }
        assert_eq!(world.ahead(), 0);
    }
}

/// A clock that was set back by less than a second seems to have late interrupts ever after: the
/// time follows it, by the least of what they say.
#[test]
fn a_clock_that_was_set_back_is_followed() {
    for back in [15, 400, 985] {
        let mut world = World::new();
        assert!(world.second_begins(0));
        let late = [9, 2, 20];
        for (second, late) in (60..).zip(&late[..2]) {
            assert!(!world.shown.second_begins((BEGIN + second, world.at(u64::from(second) * 1000 + back + late))));
            assert_eq!(world.ahead(), 0, "it may be chance");
        }
        let begun = (BEGIN + 62, world.at(62_000 + back + late[2]));
        assert!(world.shown.second_begins(begun));
        assert_eq!(world.ahead(), -(i128::from(back) + 2));
        assert!(world.shown.second_begins((BEGIN + 122, world.at(122_000 + back))), "the rest is drift");
        assert_eq!(world.ahead(), -i128::from(back));
    }
}
