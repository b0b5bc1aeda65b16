//! The clock, faked: a second begins whenever its registers were read or written so often.

use crate::chip::Chip;
use crate::registers::{DATA, INTERRUPT_CLEAR, INTERRUPT_MASK, MATCH};
use core::cell::Cell;
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
}

impl Fake {
    fn new(left: u32) -> Self {
        let (second, matched, mask) = (Cell::new(BEGIN), Cell::new(0), Cell::new(0));
        Self { second, matched, mask, raised: Cell::new(false), left: Cell::new(left) }
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
        W::truncate(if offset == DATA.offset() { self.second.get() } else { 0 })
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
    assert_eq!(chip.second(), BEGIN);
    chip.interrupt_in(1);
    assert!(!fake.interrupts());
    fake.tick();
    assert!(fake.interrupts());
    assert_eq!(chip.begun(), BEGIN + 1);
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
