//! Tests of the driver against a fake device.

use crate::chip::{Chip, NeverReset};
use crate::registers::*;
use culm_mmio::{Layout as _, Registers, Width};
use std::cell::Cell;
use std::rc::Rc;

/// A device that is reset at once, or never.
#[derive(Clone, Default)]
struct Fake {
    control: Rc<Cell<Control>>,
    status: Rc<Cell<Status>>,
    is_stuck: bool,
}

impl Registers for Fake {
    fn load<W: Width>(&self, offset: usize) -> W {
        W::truncate(match offset {
            0x00 => self.control.get().bits(),
            0x04 => self.status.get().bits(),
            offset => panic!("read of register {offset:#x}"),
        })
    }

    fn store<W: Width>(&self, offset: usize, value: W) {
        let value = value.extend();
        match offset {
            0x00 if self.is_stuck => self.control.set(Control::from_bits(value)),
            0x00 => self.control.set(Control::from_bits(value).clear(Control::RESET)),
            0x04 => self.status.set(Status::from_bits(self.status.get().bits() & !value)),
            offset => panic!("write of register {offset:#x}"),
        }
    }
}

#[test]
fn the_device_is_on_after_its_reset() {
    let fake = Fake::default();
    assert!(Chip::new(fake.clone()).is_ok());
    assert_eq!(fake.control.get(), Control::ZERO.set(Control::ON));
}

#[test]
fn a_device_that_never_ends_its_reset_is_given_up() {
    let fake = Fake { is_stuck: true, ..Fake::default() };
    assert_eq!(Chip::new(fake).err(), Some(NeverReset));
}

#[test]
fn an_error_is_told_once() {
    let fake = Fake::default();
    let mut chip = Chip::new(fake.clone()).expect("it is reset at once");
    fake.status.set(Status::ZERO.set(Status::ERROR));
    assert!(chip.interrupted());
    assert!(!chip.interrupted());
}
