//! A bus with one fake device, and lives of the component before it.

use super::*;
use core::cell::RefCell;
use core::sync::atomic::AtomicU64;
use culm::connection::BusClient;
use culm_abi::start::Memory;
use culm_bus::Seat;
use culm_mmio::{Registers, Width};

/// The window, with a device in slot 3 whose registers keep the bits of their masks.
struct Window {
    registers: RefCell<[u32; 64]>,
    writes: RefCell<usize>,
}

const SLOT: usize = 3 << 15;

impl Registers for &Window {
    fn load<W: Width>(&self, offset: usize) -> W {
        let device = (SLOT..SLOT + 256).contains(&offset);
        W::truncate(if device { self.registers.borrow()[(offset - SLOT) / 4] } else { u32::MAX })
    }

    fn store<W: Width>(&self, offset: usize, value: W) {
        *self.writes.borrow_mut() += 1;
        let mask = match offset.wrapping_sub(SLOT) {
            0x04 => 0x407,
            0x10 => 0xffff_ff00,
            _ => 0,
        };
        if mask != 0 {
            let register = &mut self.registers.borrow_mut()[(offset - SLOT) / 4];
            *register = *register & !mask | value.extend() & mask;
        }
    }
}

/// A window, with the two sides of the device's client.
fn bus(identity: u32) -> (Window, Seated, Seat) {
    let window = Window { registers: RefCell::new([0; 64]), writes: RefCell::new(0) };
    {
        let mut registers = window.registers.borrow_mut();
        (registers[0], registers[1], registers[15]) = (identity, 7, 0x100);
    }
    let words = Box::leak(Box::new([const { AtomicU64::new(0) }; 8]));
    let shown = Memory { address: words.as_ptr().addr() as u64, size: 64, dma: 0 };
    let client = BusProviderClient {
        shown,
        address: 0x1000_0000,
        size: 0x100,
        slot: 3,
        bar: 0,
        vendor: 0x1b36,
        product: 7,
        channel: 3,
        is_master: 1,
    };
    (window, seat(&client).expect("a slot"), Seat::new(BusClient { shown, channel: 2 }))
}

#[test]
fn a_driver_is_told_of_its_device() {
    let (window, seated, seat) = bus(0x0007_1b36);
    make_ready(&mut Ecam::new(&window), &[seated], (0, 0));
    assert_eq!(seat.state(), State::Ready(1));
    assert_eq!(window.registers.borrow()[4], 0x1000_0000);
    assert_eq!(window.registers.borrow()[1] & 0x407, 6, "memory and bus mastering");
}

#[test]
fn a_driver_of_another_device_is_refused() {
    let (window, seated, seat) = bus(0x10d3_8086);
    window.registers.borrow_mut()[1] = 7;
    make_ready(&mut Ecam::new(&window), &[seated], (0, 0));
    assert_eq!(seat.state(), State::Refused);
    assert_eq!(window.registers.borrow()[1] & 7, 0, "it is off");
}

#[test]
fn a_device_in_use_is_left_alone_by_the_next_life() {
    let (window, seated, seat) = bus(0x0007_1b36);
    let seated = [seated];
    make_ready(&mut Ecam::new(&window), &seated, (0, 0));
    let writes = *window.writes.borrow();
    make_ready(&mut Ecam::new(&window), &seated, (0, 0));
    assert_eq!((*window.writes.borrow(), seat.state()), (writes, State::Ready(1)));
    // The address is gone, as after a reset of the device: it is made ready again.
    window.registers.borrow_mut()[4] = 0;
    make_ready(&mut Ecam::new(&window), &seated, (0, 0));
    assert_eq!((window.registers.borrow()[4], seat.state()), (0x1000_0000, State::Ready(2)));
}
