//! The chip, faked: its lines change when a test says so, or at any access.

use crate::registers::*;
use crate::{BOUNCE, Lines};
use core::cell::Cell;
use culm::connection::{GpioClient, GpioProviderClient};
use culm::time::Instant;
use culm_gpio::{Line, Watcher};
use culm_mmio::{Registers, Width};

#[derive(Default)]
struct Fake {
    levels: Cell<u32>,
    direction: Cell<u32>,
    sense: Cell<u32>,
    both: Cell<u32>,
    enabled: Cell<u32>,
    raised: Cell<u32>,
    alternate: Cell<u32>,
    /// Accesses until line 3 changes by itself.
    left: Cell<u32>,
}

impl Fake {
    fn set(&self, levels: u32) {
        let changed = self.levels.replace(levels) ^ levels;
        self.raised.set(self.raised.get() | changed & self.both.get() & !self.sense.get());
    }

    fn interrupts(&self) -> bool {
        self.raised.get() & self.enabled.get() != 0
    }

    fn access(&self) {
        let left = self.left.get();
        self.left.set(left.saturating_sub(1));
        if left == 1 {
            self.set(self.levels.get() ^ BUTTON);
        }
    }

    fn register(&self, offset: usize) -> Option<&Cell<u32>> {
        let registers = [
            (DIRECTION.offset(), &self.direction),
            (SENSE.offset(), &self.sense),
            (BOTH_EDGES.offset(), &self.both),
            (INTERRUPT_ENABLE.offset(), &self.enabled),
            (ALTERNATE.offset(), &self.alternate),
        ];
        registers.into_iter().find(|(at, _)| *at == offset).map(|(_, register)| register)
    }
}

impl Registers for &Fake {
    fn load<W: Width>(&self, offset: usize) -> W {
        self.access();
        let value = match offset {
            _ if offset == DATA.offset() => self.levels.get(),
            _ if offset == RAW_STATUS.offset() => self.raised.get(),
            _ => self.register(offset).map_or(0, Cell::get),
        };
        W::truncate(value)
    }

    fn store<W: Width>(&self, offset: usize, value: W) {
        self.access();
        let value = value.extend();
        match self.register(offset) {
            Some(register) => register.set(value),
            None if offset == INTERRUPT_CLEAR.offset() => self.raised.set(self.raised.get() & !value),
            None => {}
        }
    }
}

const BUTTON: u32 = 1 << 3;

fn button() -> (GpioProviderClient, Line) {
    let shown = culm::testing::memory(64, 0);
    let provider = GpioProviderClient { shown, line: 3, channel: 3, active_low: 0 };
    (provider, Line::new(GpioClient { shown, channel: 2 }))
}

/// A driver that has just started.
fn new_driver<'a>(fake: &'a Fake, connection: &GpioProviderClient) -> Lines<&'a Fake> {
    Lines::new(fake, [Watcher::new(connection)].into(), Instant::default())
}

/// A driver that listens.
fn driver<'a>(fake: &'a Fake, connection: &GpioProviderClient) -> Lines<&'a Fake> {
    let mut lines = new_driver(fake, connection);
    settle(fake, &mut lines, &mut Instant::default());
    lines
}

/// Does what the component does: a turn for each interrupt, one at each deadline. Returns how many
/// there were until nothing is to be done any more.
fn settle(fake: &Fake, lines: &mut Lines<&Fake>, now: &mut Instant) -> u32 {
    for turns in 0.. {
        if !fake.interrupts() {
            let Some(again) = lines.again else { return turns };
            *now = again;
        }
        lines.turn(fake.interrupts(), *now);
        assert!(turns < 100, "it never rests");
    }
    unreachable!()
}

#[test]
fn a_press_and_a_release_are_told() {
    let (connection, line) = button();
    let (fake, mut now) = (Fake::default(), Instant::default());
    fake.direction.set(0xff);
    fake.sense.set(0xff);
    fake.alternate.set(0xff);
    let mut lines = driver(&fake, &connection);
    assert_eq!((fake.direction.get(), fake.alternate.get()), (0xf7, 0xf7), "others stay as they are");
    fake.set(BUTTON);
    assert!(fake.interrupts());
    lines.turn(true, now);
    assert!(line.is_active() && !fake.interrupts());
    settle(&fake, &mut lines, &mut now);
    fake.set(0);
    settle(&fake, &mut lines, &mut now);
    assert_eq!((line.is_active(), line.activations()), (false, 1));
}

#[test]
fn a_line_that_bounces_costs_two_turns_and_is_one_press() {
    let (connection, line) = button();
    let (fake, mut now) = (Fake::default(), Instant::default());
    let mut lines = driver(&fake, &connection);
    fake.set(BUTTON);
    lines.turn(fake.interrupts(), now);
    for level in [0, BUTTON, 0, BUTTON, 0, BUTTON] {
        fake.set(level);
        now += BOUNCE / 10;
        assert!(!fake.interrupts());
        assert!(lines.turn(false, now).is_some(), "another wake-up does not end the wait");
    }
    settle(&fake, &mut lines, &mut now);
    assert_eq!((line.is_active(), line.activations()), (true, 1));
}

#[test]
fn a_client_learns_of_what_a_life_told_that_died_before_it_notified() {
    let (connection, line) = button();
    let fake = Fake::default();
    let mut lines = driver(&fake, &connection);
    fake.set(BUTTON);
    lines.turn(true, Instant::default());
    drop(lines);
    // Signals leave at the end of a turn: this one's did not.
    culm::testing::signalled();
    new_driver(&fake, &connection);
    assert!(culm::testing::signalled().contains(&connection.channel));
    assert_eq!((line.is_active(), line.activations()), (true, 1));
}

#[test]
fn a_press_that_is_over_before_the_driver_runs_is_told() {
    let (connection, line) = button();
    let (fake, mut now) = (Fake::default(), Instant::default());
    let mut lines = driver(&fake, &connection);
    fake.set(BUTTON);
    fake.set(0);
    lines.turn(true, now);
    settle(&fake, &mut lines, &mut now);
    assert_eq!((line.is_active(), line.activations()), (false, 1));
    fake.set(BUTTON);
    settle(&fake, &mut lines, &mut now);
    fake.set(0);
    fake.set(BUTTON);
    settle(&fake, &mut lines, &mut now);
    assert_eq!((line.is_active(), line.activations()), (true, 3), "a release and a press");
}

#[test]
fn bounces_whenever_the_driver_looks_are_one_press() {
    // The contact rests after `edges` edges, some before the driver first looks.
    for (edges, before) in (1..8).step_by(2).flat_map(|edges| (1..=edges).map(move |before| (edges, before))) {
        let (connection, line) = button();
        let (fake, mut now) = (Fake::default(), Instant::default());
        let mut lines = driver(&fake, &connection);
        let toggle = |times| (0..times).for_each(|_| fake.set(fake.levels.get() ^ BUTTON));
        toggle(before);
        lines.turn(true, now);
        toggle(edges - before);
        settle(&fake, &mut lines, &mut now);
        assert_eq!((line.is_active(), line.activations()), (true, 1), "{before} of {edges} edges come first");
    }
}

#[test]
fn a_change_that_is_found_at_the_end_of_a_wait_may_bounce_too() {
    let (connection, line) = button();
    let (fake, mut now) = (Fake::default(), Instant::default());
    let mut lines = driver(&fake, &connection);
    fake.set(BUTTON);
    lines.turn(true, now);
    fake.set(0);
    now += BOUNCE;
    lines.turn(false, now);
    assert!(!line.is_active());
    fake.set(BUTTON);
    fake.set(0);
    settle(&fake, &mut lines, &mut now);
    assert_eq!((line.is_active(), line.activations()), (false, 1));
}

#[test]
fn a_button_that_is_held_at_boot_is_no_press() {
    let (connection, line) = button();
    let (fake, mut now) = (Fake::default(), Instant::default());
    fake.set(BUTTON);
    let mut lines = driver(&fake, &connection);
    assert_eq!((line.is_active(), line.activations()), (true, 0));
    for (level, activations) in [(0, 0), (BUTTON, 1), (0, 1)] {
        fake.set(level);
        settle(&fake, &mut lines, &mut now);
        assert_eq!((line.is_active(), line.activations()), (level != 0, activations));
    }
}

#[test]
fn a_line_that_the_chip_has_not_is_never_pressed() {
    for number in [9, 31, 40] {
        let (connection, line) = button();
        let connection = GpioProviderClient { line: number, active_low: 1, ..connection };
        let (fake, mut now) = (Fake::default(), Instant::default());
        let mut lines = driver(&fake, &connection);
        lines.turn(true, now);
        settle(&fake, &mut lines, &mut now);
        assert_eq!((line.is_active(), line.activations()), (false, 0), "line {number}");
    }
}

#[test]
fn an_edge_at_any_moment_is_found() {
    for left in 0..32 {
        let (connection, line) = button();
        let (fake, mut now) = (Fake::default(), Instant::default());
        fake.left.set(left);
        let mut lines = driver(&fake, &connection);
        settle(&fake, &mut lines, &mut now);
        assert_eq!(line.is_active(), fake.levels.get() != 0, "a press after {left} accesses");
        assert!(line.activations() <= 1, "a press after {left} accesses is no more than one");
        fake.left.set(left);
        let before = fake.levels.get();
        fake.set(before ^ BUTTON);
        settle(&fake, &mut lines, &mut now);
        assert_eq!(line.is_active(), fake.levels.get() != 0, "a second change after {left} accesses");
    }
}

#[test]
fn a_restart_while_it_is_pressed_is_no_second_press() {
    let (connection, line) = button();
    let (fake, mut now) = (Fake::default(), Instant::default());
    let mut lines = driver(&fake, &connection);
    fake.set(BUTTON);
    lines.turn(fake.interrupts(), now);
    let mut lines = driver(&fake, &connection);
    settle(&fake, &mut lines, &mut now);
    assert_eq!((line.is_active(), line.activations()), (true, 1));
    drop(lines);
    let mut lines = new_driver(&fake, &connection);
    fake.set(0);
    fake.set(BUTTON);
    settle(&fake, &mut lines, &mut now);
    assert_eq!((line.is_active(), line.activations()), (true, 1), "it still bounced");
    fake.set(0);
    drop(lines);
    let mut lines = driver(&fake, &connection);
    settle(&fake, &mut lines, &mut now);
    assert_eq!((line.is_active(), line.activations()), (false, 1), "the release was in between");
}
