//! The console: queues of bytes to and from whoever shares the real serial port.

use culm::connection::SerialClient;
use culm::queue::{self, Consumer, Producer};
use culm::{Channel, Progress, ROUNDS, run_rounds};
use culm_guest::serial::Serial;

/// Where the guest's bytes go, and come from where the description gives it the input.
pub struct Console {
    channel: Channel,
    output: Producer<u8>,
    input: Option<Consumer<u8>>,
}

/// How many bytes went which way.
#[derive(Clone, Copy, Debug, Default)]
pub struct Carried {
    /// From the guest.
    pub sent: u64,
    /// To the guest.
    pub received: u64,
}

impl Console {
    /// Attaches to the queues.
    pub fn new(client: &SerialClient) -> Self {
        Self {
            channel: Channel::new(client.channel),
            output: queue::producer(client.tx),
            input: (client.rx.capacity > 0).then(|| queue::consumer(client.rx)),
        }
    }

    /// Carries what there is and what there is room for, and asks to be notified of more. What
    /// finds no room stays where it is, and the port seems full to whoever sends.
    pub fn carry(&mut self, serial: &mut Serial) -> Carried {
        let mut carried = Carried::default();
        run_rounds(ROUNDS, || self.round(serial, &mut carried));
        carried
    }

    fn round(&mut self, serial: &mut Serial, carried: &mut Carried) -> Progress {
        while self.output.free() > 0 || self.output.refresh() > 0 {
            let Some(byte) = serial.take_sent() else { break };
            // There is room, as just found.
            if self.output.push(byte).is_ok() {
                carried.sent += 1;
            }
        }
        let mut peer = self.output.publish();
        let mut progress = if serial.has_sent() { self.output.sleep() } else { Progress::Asleep };
        if let Some(input) = &mut self.input {
            while serial.has_room() {
                let Some(byte) = input.pop() else { break };
                serial.receive(byte);
                carried.received += 1;
            }
            peer |= input.release();
            if serial.has_room() {
                progress &= input.sleep();
            }
        }
        if peer.is_asleep() {
            self.channel.notify();
        }
        progress
    }
}
