//! Driver for Arm PL011 serial ports.
//!
//! It moves bytes between the port and the serial virtualiser's queues, by interrupt in both
//! directions, and knows nothing of lines or clients. [`registers`] has the register map, [`port`]
//! uses it.

#![cfg_attr(target_os = "none", no_std, no_main)]
#![forbid(unsafe_code)]

mod port;
mod registers;
#[cfg(test)]
mod tests;

use culm::queue::{self, Consumer, Producer};
use culm::time::Duration;
use culm::{Channel, Channels, Component, Interrupt};
use culm_mmio::Mapped;
use port::Port;

culm::component!(Pl011);

/// Time until the next look at a port that was read as often as one turn may and was not empty.
const RECEIVE_PAUSE: Duration = Duration::from_millis(1);

struct Pl011 {
    port: Port<Mapped<{ registers::SIZE }>>,
    interrupt: Interrupt,
    virtualiser: Channel,
    tx: Consumer<u8>,
    rx: Producer<u8>,
}

impl Component for Pl011 {
    type Config = Config;
    type Connections = Connections;

    fn init(_: Config, connections: Connections) -> Self {
        let Connections { device, serial } = connections;
        let interrupt = device.interrupt(0).expect("the board's file gives a PL011 its combined interrupt");
        let mut driver = Self {
            port: Port::new(Mapped::new(device.registers())),
            interrupt,
            virtualiser: Channel::new(serial.channel),
            tx: queue::consumer(serial.tx),
            rx: queue::producer(serial.rx),
        };
        driver.serve();
        driver
    }

    fn notified(&mut self, channels: Channels) {
        self.serve();
        if channels.contains(self.interrupt.channel()) {
            self.interrupt.enable();
        }
    }
}

impl Pl011 {
    /// Moves bytes in both directions.
    fn serve(&mut self) {
        let received = self.port.receive(&mut self.rx);
        let mut virtualiser = self.rx.publish();
        counters::RECEIVED.add(received.bytes);
        counters::DROPPED.add(received.dropped);
        counters::ERRORS.add(received.errors);
        counters::SENT.add(self.port.send(&mut self.tx));
        virtualiser |= self.tx.release();
        if virtualiser.is_asleep() {
            self.virtualiser.notify();
        }
        // If the FIFO is full, its interrupt brings the next turn; else the next bytes do. Bytes
        // that came just now get a turn of their own, so that a virtualiser that never stops cannot
        // make this turn endless.
        if !self.port.waits_to_send() && self.tx.sleep().is_more() {
            culm::wake_at(culm::time::now());
        }
        if received.more {
            // No port receives as fast as it is read. What claims to is not worth all time.
            culm::wake_at(culm::time::now() + RECEIVE_PAUSE);
        }
    }
}
