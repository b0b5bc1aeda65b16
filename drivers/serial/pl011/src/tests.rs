//! Tests of the driver against a fake port.

use crate::port::{Port, Received};
use crate::registers::*;
use culm_mmio::{Field, Layout as _, Registers, Width};
use culm_queue::{Consumer, Producer, Storage};
use std::cell::RefCell;
use std::collections::VecDeque;
use std::rc::Rc;

/// A port with a transmit FIFO of 16 that sends when it is told to.
#[derive(Default)]
struct Fake {
    received: VecDeque<u32>,
    fifo: VecDeque<u8>,
    sent: Vec<u8>,
    mask: u32,
    control: u32,
    line_control: u32,
    log: Vec<usize>,
    never_empty: bool,
    always_busy: bool,
    /// The interrupts that are pending, as their bits.
    pending: u32,
    /// A byte that arrives, and times out, right after the FIFO was seen to be empty.
    late: Option<u8>,
}

impl Fake {
    fn lets_through(&self, interrupt: Field<Interrupts>) -> bool {
        Interrupts::from_bits(self.mask).has(interrupt)
    }

    fn send(&mut self, count: usize) {
        let count = count.min(self.fifo.len());
        self.sent.extend(self.fifo.drain(..count));
    }
}

#[derive(Clone, Default)]
struct Shared(Rc<RefCell<Fake>>);

impl Registers for Shared {
    fn load<W: Width>(&self, offset: usize) -> W {
        let mut fake = self.0.borrow_mut();
        let empty = fake.received.is_empty() && !fake.never_empty;
        W::truncate(match offset {
            0x00 => fake.received.pop_front().unwrap_or(b'!'.into()),
            0x18 => {
                let full = fake.fifo.len() == 16;
                if empty && let Some(byte) = fake.late.take() {
                    fake.received.push_back(byte.into());
                    fake.pending |= Interrupts::ZERO.set(Interrupts::TIMEOUT).bits();
                }
                u32::from(fake.always_busy) << 3 | u32::from(empty) << 4 | u32::from(full) << 5
            }
            offset => panic!("read of register {offset:#x}"),
        })
    }

    fn store<W: Width>(&self, offset: usize, value: W) {
        let mut fake = self.0.borrow_mut();
        let value = value.extend();
        fake.log.push(offset);
        match offset {
            0x00 => {
                assert!(fake.fifo.len() < 16, "written to a full FIFO");
                fake.fifo.push_back(value as u8);
            }
            0x2c => fake.line_control = value,
            0x30 => fake.control = value,
            0x38 => fake.mask = value,
            0x44 => fake.pending &= !value,
            0x34 => {}
            offset => panic!("write of register {offset:#x}"),
        }
    }
}

fn ring<const CAPACITY: usize>() -> (Producer<u8>, Consumer<u8>) {
    let shared = Box::leak(Box::new(Storage::<u8, CAPACITY>::new())).shared();
    (Producer::attach(shared), Consumer::attach(shared))
}

#[test]
fn the_port_is_off_while_it_is_set_up() {
    let fake = Shared::default();
    Port::new(fake.clone());
    let fake = fake.0.borrow();
    assert_eq!(fake.log, [0x30, 0x44, 0x2c, 0x34, 0x30, 0x38]);
    assert_eq!((fake.control, fake.line_control), (0x301, 0x70));
    assert_eq!(fake.mask, 1 << 4 | 1 << 6);
}

#[test]
fn a_port_that_stays_busy_is_set_up_all_the_same() {
    let fake = Shared::default();
    fake.0.borrow_mut().always_busy = true;
    Port::new(fake.clone());
    assert_eq!(fake.0.borrow().control, 0x301);
}

#[test]
fn more_than_the_fifo_holds_is_sent_by_interrupt() {
    let fake = Shared::default();
    let mut port = Port::new(fake.clone());
    let (mut producer, mut consumer) = ring::<64>();
    producer.push_slice(b"The quick brown fox jumps.");
    let _ = producer.publish();
    assert_eq!(port.send(&mut consumer), 16);
    assert!(port.waits_to_send() && fake.0.borrow().lets_through(Interrupts::TRANSMIT));
    fake.0.borrow_mut().send(16);
    assert_eq!(port.send(&mut consumer), 10);
    assert!(!port.waits_to_send() && !fake.0.borrow().lets_through(Interrupts::TRANSMIT));
    fake.0.borrow_mut().send(16);
    assert_eq!(fake.0.borrow().sent, b"The quick brown fox jumps.");
}

#[test]
fn damaged_bytes_are_counted_and_not_handed_on() {
    let fake = Shared::default();
    fake.0.borrow_mut().received.extend([0x61, 0x62 | 1 << 8, Data::ZERO.set(Data::OVERRUN).bits() | 0x63]);
    let (mut producer, mut consumer) = ring::<64>();
    let received = Port::new(fake).receive(&mut producer);
    assert_eq!(received, Received { bytes: 2, dropped: 0, errors: 2, more: false });
    let _ = producer.publish();
    assert_eq!(consumer.drain(9).collect::<Vec<_>>(), b"ac");
}

/// The driver may be preempted between its last look at the FIFO and what follows.
#[test]
fn the_interrupt_of_a_byte_after_the_last_look_is_kept() {
    let fake = Shared::default();
    let mut port = Port::new(fake.clone());
    fake.0.borrow_mut().received.push_back(b'a'.into());
    fake.0.borrow_mut().late = Some(b'b');
    let (mut producer, _consumer) = ring::<64>();
    assert_eq!(port.receive(&mut producer).bytes, 1);
    assert_ne!(fake.0.borrow().pending & fake.0.borrow().mask, 0, "nothing else tells of the byte");
    assert_eq!(port.receive(&mut producer).bytes, 1);
    assert_eq!(fake.0.borrow().pending, 0);
}

#[test]
fn bytes_without_space_are_counted() {
    let fake = Shared::default();
    fake.0.borrow_mut().received.extend([u32::from(b'a'); 6]);
    let (mut producer, _consumer) = ring::<4>();
    let received = Port::new(fake).receive(&mut producer);
    assert_eq!(received, Received { bytes: 4, dropped: 2, errors: 0, more: false });
}

#[test]
fn a_port_that_never_runs_empty_ends_a_turn() {
    let fake = Shared::default();
    fake.0.borrow_mut().never_empty = true;
    let (mut producer, _consumer) = ring::<4>();
    let received = Port::new(fake).receive(&mut producer);
    assert_eq!(received.bytes + received.dropped, 128);
    assert!(received.more, "it asks for another turn");
}
