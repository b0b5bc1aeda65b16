//! The port: moves bytes between its FIFOs and the queues.

use crate::registers::*;
use culm::queue::{Consumer, Producer};
use culm_mmio::{Field, Registers};

/// Bytes that one turn takes from the receive FIFO. The largest FIFO holds 32; further bytes of a
/// port that never runs empty wait for the next turn.
const RECEIVE_LIMIT: u32 = 128;

/// Number of looks whether the port has finished sending before it is switched over. It sends 32
/// bytes at 9600 baud in 33 ms; a port that never finishes is switched over all the same.
const BUSY_LIMIT: u32 = 1_000_000;

/// The interrupts that say that something was received.
const RECEIVE_INTERRUPTS: Interrupts = Interrupts::ZERO.set(Interrupts::RECEIVE).set(Interrupts::TIMEOUT);

/// A serial port.
#[derive(Debug)]
pub struct Port<R: Registers> {
    registers: R,
    /// The interrupts that are enabled, as last written to the port.
    mask: Interrupts,
}

/// The result of a call of [`Port::receive`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Received {
    /// Bytes handed on.
    pub bytes: u64,
    /// Bytes for which the queue had no space.
    pub dropped: u64,
    /// Bytes that arrived damaged, which are not handed on, and times that the port lost bytes.
    pub errors: u64,
    /// Whether the port may hold more bytes, for which it does not interrupt.
    pub more: bool,
}

impl<R: Registers> Port<R> {
    /// Sets the port up: eight bits, FIFOs on, receive interrupts on. The speed stays as the
    /// firmware set it.
    pub fn new(registers: R) -> Self {
        for _ in 0..BUSY_LIMIT {
            if !registers.read(FLAGS).has(Flags::BUSY) {
                break;
            }
        }
        // The order that DDI 0183G, 3.3.8, asks for: off, then line control, then on.
        registers.write(CONTROL, Control::ZERO);
        registers.write(INTERRUPT_CLEAR, Interrupts::ZERO.with(Interrupts::ALL, u16::MAX));
        registers
            .write(LINE_CONTROL, LineControl::ZERO.set(LineControl::FIFOS).with(LineControl::LENGTH, Length::EIGHT));
        let levels = FifoLevels::ZERO.with(FifoLevels::TRANSMIT, Level::EIGHTH);
        registers.write(FIFO_LEVELS, levels.with(FifoLevels::RECEIVE, Level::HALF));
        registers.write(CONTROL, Control::ZERO.set(Control::ENABLE).set(Control::TRANSMIT).set(Control::RECEIVE));
        let mask = RECEIVE_INTERRUPTS;
        registers.write(INTERRUPT_MASK, mask);
        Self { registers, mask }
    }

    /// Moves received bytes into `queue`, and does not publish it.
    pub fn receive(&mut self, queue: &mut Producer<u8>) -> Received {
        // Clear the interrupts before the first look. Afterwards that would discard the interrupt
        // of a byte that came behind the last look, if the driver was preempted in between.
        self.registers.write(INTERRUPT_CLEAR, RECEIVE_INTERRUPTS);
        let mut received = Received { more: true, ..Received::default() };
        for _ in 0..RECEIVE_LIMIT {
            if self.registers.read(FLAGS).has(Flags::RECEIVE_EMPTY) {
                received.more = false;
                break;
            }
            let data = self.registers.read(DATA);
            received.errors += u64::from(data.has(Data::OVERRUN));
            if data.has(Data::FRAMING_ERROR) || data.has(Data::PARITY_ERROR) || data.has(Data::BREAK) {
                received.errors += 1;
            } else if queue.push(data.get(Data::CHARACTER)).is_ok() {
                received.bytes += 1;
            } else {
                received.dropped += 1;
            }
        }
        received
    }

    /// Sends bytes of `queue`, as far as the FIFO has space; returns how many. If more are left,
    /// the port interrupts when it has space again.
    pub fn send(&mut self, queue: &mut Consumer<u8>) -> u64 {
        // Clear the interrupt before writing. It means that the FIFO's level fell below the mark
        // (DDI 0183G, 2.8.2), not that it is below it, so one that comes from here on must be kept.
        self.registers.write(INTERRUPT_CLEAR, Interrupts::ZERO.set(Interrupts::TRANSMIT));
        let mut sent = 0;
        let full = loop {
            if self.registers.read(FLAGS).has(Flags::TRANSMIT_FULL) {
                break true;
            }
            let Some(byte) = queue.pop() else { break false };
            self.registers.write(DATA, Data::ZERO.with(Data::CHARACTER, byte));
            sent += 1;
        };
        self.let_through(Interrupts::TRANSMIT, full);
        sent
    }

    /// Enables or disables an interrupt.
    fn let_through(&mut self, interrupt: Field<Interrupts>, on: bool) {
        let mask = self.mask.with(interrupt, on);
        if mask != self.mask {
            self.mask = mask;
            self.registers.write(INTERRUPT_MASK, mask);
        }
    }

    /// Returns whether the port will interrupt when it can send more.
    pub fn waits_to_send(&self) -> bool {
        self.mask.has(Interrupts::TRANSMIT)
    }
}
