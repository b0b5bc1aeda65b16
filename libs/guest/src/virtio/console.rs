//! The guest's console (VIRTIO 1.2 §5.3): one port, whose bytes both ways are the monitor's to
//! carry. It costs a doorbell and an interrupt for many bytes, where the serial port
//! ([`Serial`](crate::serial::Serial)) costs exits for each.

use super::Memory;
use super::chain::Chain;
use super::transport::Transport;

/// Kind of device (§5).
const DEVICE: u32 = 3;

/// Queues (§5.3.2): what the guest receives, and what it sends.
const RECEIVE: usize = 0;
const TRANSMIT: usize = 1;

/// Bytes of the guest's memory that are read at a time.
const PORTION: usize = 64;

/// A buffer of the guest's that was taken and not given back, and how much of it is done with.
#[derive(Clone, Debug, Default)]
struct Current {
    chain: Chain,
    done: u64,
    /// The count of resets when it was taken, if one was: after another it is the guest's again.
    taken: Option<u32>,
}

/// The console.
#[derive(Clone, Debug)]
pub struct Console {
    /// Its registers.
    pub transport: Transport,
    outgoing: Current,
    incoming: Current,
    /// Bytes that the guest has sent, as they were when they were read, and how many of them are
    /// still to be taken, at the end of the first `known`.
    portion: [u8; PORTION],
    known: usize,
    left: usize,
    /// The count of resets when the guest last sent a byte.
    used: Option<u32>,
}

impl Default for Console {
    fn default() -> Self {
        Self {
            transport: Transport::new(DEVICE, 0, 2),
            outgoing: Current::default(),
            incoming: Current::default(),
            portion: [0; PORTION],
            known: 0,
            left: 0,
            used: None,
        }
    }
}

impl Console {
    /// Returns whether the guest has sent anything by it since it last set it up: a driver alone
    /// does not tell that anybody listens there.
    pub fn is_used(&self) -> bool {
        self.transport.is_live() && self.used == Some(self.transport.resets())
    }

    /// Takes a byte that the guest has sent.
    pub fn take_sent(&mut self, memory: &impl Memory) -> Option<u8> {
        if !self.has_sent(memory) {
            return None;
        }
        let byte = self.portion[self.known - self.left];
        self.left -= 1;
        self.used = Some(self.transport.resets());
        Some(byte)
    }

    /// Returns whether there is a byte that the guest has sent. Gives back the buffers that are
    /// done with on the way, as many as the queue has at most.
    pub fn has_sent(&mut self, memory: &impl Memory) -> bool {
        let resets = self.transport.resets();
        if !self.transport.is_live() || self.outgoing.taken.is_some_and(|taken| taken != resets) {
            // What it has sent in an earlier life is of no interest any more.
            (self.left, self.outgoing.taken) = (0, None);
        }
        for _ in 0..=super::queue::MAX_SIZE {
            if self.left > 0 {
                return true;
            }
            let Some(queue) = self.transport.queue(TRANSMIT) else { return false };
            if self.outgoing.taken.is_none() {
                let taken = queue.take(memory, &mut self.outgoing.chain);
                if self.transport.sound(taken) != Some(true) {
                    return false;
                }
                (self.outgoing.done, self.outgoing.taken) = (0, Some(resets));
            }
            self.read_portion(memory);
        }
        false
    }

    /// Reads on in the buffer that was taken, or gives it back if nothing is left of it.
    fn read_portion(&mut self, memory: &impl Memory) {
        let Current { chain, done, taken } = &mut self.outgoing;
        let length = (chain.readable_bytes() - *done).min(PORTION as u64) as usize;
        if length > 0 && chain.read(memory, *done, &mut self.portion[..length]).is_some() {
            *done += length as u64;
            (self.known, self.left) = (length, length);
            return;
        }
        *taken = None;
        if length > 0 {
            // A buffer that is not in the guest's memory.
            self.transport.fail();
        } else if let Some(queue) = self.transport.queue(TRANSMIT) {
            let result = queue.give_back(memory, chain, 0);
            self.transport.sound(result);
        }
    }

    /// Returns whether there is room for a byte from outside.
    pub fn has_room(&mut self, memory: &impl Memory) -> bool {
        let resets = self.transport.resets();
        if self.incoming.taken.is_some_and(|taken| taken != resets) {
            self.incoming.taken = None;
        }
        for _ in 0..=super::queue::MAX_SIZE {
            if self.incoming.taken.is_some() {
                if self.incoming.done < self.incoming.chain.writable_bytes() {
                    return self.transport.is_live();
                }
                self.give_incoming(memory);
            }
            let Some(queue) = self.transport.queue(RECEIVE) else { return false };
            let taken = queue.take(memory, &mut self.incoming.chain);
            if self.transport.sound(taken) != Some(true) {
                return false;
            }
            (self.incoming.done, self.incoming.taken) = (0, Some(resets));
        }
        false
    }

    /// Gives the guest a byte, which it sees after [`Self::publish`]. Returns whether there was
    /// room for it.
    pub fn receive(&mut self, memory: &impl Memory, byte: u8) -> bool {
        if !self.has_room(memory) {
            return false;
        }
        let written = self.incoming.chain.write(memory, self.incoming.done, &[byte]);
        if written.is_none() {
            // A buffer that is not in the guest's memory.
            self.incoming.taken = None;
            self.transport.fail();
            return false;
        }
        self.incoming.done += 1;
        true
    }

    /// Gives the buffer back that is being filled, however full it is.
    fn give_incoming(&mut self, memory: &impl Memory) {
        self.incoming.taken = None;
        if let Some(queue) = self.transport.queue(RECEIVE) {
            // No console fills 4 GiB.
            let result = queue.give_back(memory, &self.incoming.chain, self.incoming.done as u32);
            self.transport.sound(result);
        }
    }

    /// Shows the guest what it received and which of its buffers are done with, and asks for its
    /// doorbell at the next ones. It may have sent something just before: look again
    /// ([`Self::has_sent`]).
    pub fn publish(&mut self, memory: &impl Memory) {
        let is_awaited = self.incoming.taken == Some(self.transport.resets());
        if is_awaited && self.incoming.done > 0 {
            self.give_incoming(memory);
        }
        for number in [RECEIVE, TRANSMIT] {
            if let Some(queue) = self.transport.queue(number) {
                let wanted = queue.publish(memory);
                self.transport.tell(wanted);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::tests::{Driver, Ram};
    use super::super::transport::tests::live;
    use super::*;
    use std::vec::Vec;

    const BUFFER: u64 = Ram::BASE + 8192;

    struct World {
        ram: Ram,
        receive: Driver,
        transmit: Driver,
        console: Console,
    }

    fn world() -> World {
        let (receive, transmit) = (Driver::new(4), Driver::at(Ram::BASE + 4096, 4));
        let mut console = Console::default();
        console.transport = live(console.transport, 0, [&receive, &transmit]);
        World { ram: Ram::new(16384), receive, transmit, console }
    }

    /// Takes all that the guest has sent.
    fn sent(console: &mut Console, ram: &Ram) -> Vec<u8> {
        let bytes = core::iter::from_fn(|| console.take_sent(ram)).collect();
        console.publish(ram);
        bytes
    }

    #[test]
    fn what_the_guest_sends_comes_in_order_however_it_lies() {
        let World { ram, mut transmit, mut console, .. } = world();
        let text: Vec<u8> = (0..200).collect();
        ram.write(BUFFER, &text).expect("inside");
        transmit.offer(&ram, &[(BUFFER, 70, false), (BUFFER + 70, 100, false)]);
        transmit.offer(&ram, &[(BUFFER, 0, false)]);
        transmit.offer(&ram, &[(BUFFER + 170, 30, false)]);
        assert!(!console.is_used());
        assert_eq!(sent(&mut console, &ram), text);
        assert!(console.is_used() && !console.has_sent(&ram));
        let back: Vec<_> = core::iter::from_fn(|| transmit.used(&ram)).collect();
        assert_eq!(back, [(0, 0), (2, 0), (3, 0)]);
        assert!(console.transport.is_interrupting());
    }

    #[test]
    fn what_comes_for_the_guest_fills_its_buffers_as_they_are() {
        let World { ram, mut receive, mut console, .. } = world();
        assert!(!console.receive(&ram, b'x'), "no buffer");
        receive.offer(&ram, &[(BUFFER, 2, true), (BUFFER + 8, 1, true)]);
        receive.offer(&ram, &[(BUFFER + 16, 4, true)]);
        assert!(b"abcde".iter().all(|byte| console.receive(&ram, *byte)));
        console.publish(&ram);
        assert_eq!([receive.used(&ram), receive.used(&ram)], [Some((0, 3)), Some((2, 2))]);
        for (at, expected) in [(0, b"ab"), (8, b"c\0"), (16, b"de")] {
            let mut bytes = [0; 2];
            ram.read(BUFFER + at, &mut bytes).expect("inside");
            assert_eq!(&bytes, expected);
        }
        assert!(!console.is_used(), "it has not sent anything");
        assert!(!console.has_room(&ram), "a buffer goes back with what is in it");
    }

    #[test]
    fn nothing_is_left_of_before_a_reset() {
        let World { ram, mut receive, mut transmit, mut console } = world();
        transmit.offer(&ram, &[(BUFFER, 3, false)]);
        receive.offer(&ram, &[(BUFFER + 100, 9, true)]);
        assert!(console.take_sent(&ram).is_some() && console.receive(&ram, b'a'));
        console.transport.write(0x070, 4, 0);
        assert!(console.take_sent(&ram).is_none() && !console.has_room(&ram) && !console.is_used());
        let (receive, transmit) = (Driver::new(4), Driver::at(Ram::BASE + 4096, 4));
        ram.write(Ram::BASE, &[0; 8192]).expect("inside");
        console.transport = live(console.transport, 0, [&receive, &transmit]);
        console.publish(&ram);
        assert!(!console.has_sent(&ram) && !console.has_room(&ram) && !console.is_used());
        let mut receive = receive;
        assert_eq!(receive.used(&ram), None, "the buffer of before does not go back to the new driver");
    }

    #[test]
    fn a_buffer_elsewhere_stops_the_console() {
        let World { ram, mut transmit, mut console, .. } = world();
        transmit.offer(&ram, &[(0, 3, false)]);
        assert!(!console.has_sent(&ram) && !console.transport.is_live());
        let World { ram, mut receive, mut console, .. } = world();
        receive.offer(&ram, &[(0, 3, true)]);
        assert!(!console.receive(&ram, b'a') && !console.transport.is_live());
    }
}
