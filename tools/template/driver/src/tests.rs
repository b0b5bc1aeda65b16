//! Tests of the driver against a fake device.

use crate::chip::{Chip, NeverReset};
use crate::registers::*;
use culm_mmio::{Register, Registers, Width};
use std::cell::Cell;
use std::rc::Rc;

/// A device that is reset at once, or never.
#[derive(Clone, Default)]
struct Fake {
    control: Rc<Cell<u32>>,
    status: Rc<Cell<u32>>,
    is_stuck: bool,
}

impl Registers for Fake {
    fn read<T: Width>(&self, register: Register<T>) -> T {
        T::truncate(match register.offset() {
            0x00 => self.control.get(),
            0x04 => self.status.get(),
            offset => panic!("read of register {offset:#x}"),
        })
    }

    fn write<T: Width>(&self, register: Register<T>, value: T) {
        let value = value.extend();
        match register.offset() {
            0x00 if self.is_stuck => self.control.set(value),
            0x00 => self.control.set(value & !CONTROL_RESET),
            0x04 => self.status.set(self.status.get() & !value),
            offset => panic!("write of register {offset:#x}"),
        }
    }
}

#[test]
fn the_device_is_on_after_its_reset() {
    let fake = Fake::default();
    assert!(Chip::new(fake.clone()).is_ok());
    assert_eq!(fake.control.get(), CONTROL_ON);
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
    fake.status.set(STATUS_ERROR);
    assert!(chip.interrupted());
    assert!(!chip.interrupted());
}
