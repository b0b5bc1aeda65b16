//! The guest's serial port: a PL011 (Arm DDI 0183), of which the bytes that it sends and receives
//! are the monitor's to carry.

/// Registers, by offset.
mod register {
    pub const DR: u64 = 0x000;
    pub const FR: u64 = 0x018;
    pub const IBRD: u64 = 0x024;
    pub const FBRD: u64 = 0x028;
    pub const LCR_H: u64 = 0x02c;
    pub const CR: u64 = 0x030;
    pub const IFLS: u64 = 0x034;
    pub const IMSC: u64 = 0x038;
    pub const RIS: u64 = 0x03c;
    pub const MIS: u64 = 0x040;
    pub const ICR: u64 = 0x044;
    pub const IDENTITY: u64 = 0xfe0;
}

/// `UARTFR`.
mod flags {
    pub const RECEIVE_EMPTY: u32 = 1 << 4;
    pub const TRANSMIT_FULL: u32 = 1 << 5;
    pub const RECEIVE_FULL: u32 = 1 << 6;
    pub const TRANSMIT_EMPTY: u32 = 1 << 7;
    pub const BUSY: u32 = 1 << 3;
}

/// `UARTRIS` and its like.
mod interrupt {
    pub const RECEIVE: u32 = 1 << 4;
    pub const TRANSMIT: u32 = 1 << 5;
    pub const RECEIVE_TIMEOUT: u32 = 1 << 6;
    pub const ALL: u32 = 0x7ff;
}

/// `UARTPeriphID0` to `UARTPCellID3`: revision 1p5.
const IDENTITY: [u32; 8] = [0x11, 0x10, 0x34, 0x00, 0x0d, 0xf0, 0x05, 0xb1];

/// Bytes that each direction holds.
const CAPACITY: usize = 32;

/// Bytes in the order in which they came.
#[derive(Clone, Debug, Default)]
struct Fifo {
    bytes: [u8; CAPACITY],
    first: usize,
    count: usize,
}

impl Fifo {
    fn push(&mut self, byte: u8) -> bool {
        let has_room = self.count < CAPACITY;
        if has_room {
            self.bytes[(self.first + self.count) % CAPACITY] = byte;
            self.count += 1;
        }
        has_room
    }

    fn pop(&mut self) -> Option<u8> {
        if self.count == 0 {
            return None;
        }
        let byte = self.bytes[self.first];
        self.first = (self.first + 1) % CAPACITY;
        self.count -= 1;
        Some(byte)
    }
}

/// The port.
#[derive(Clone, Debug, Default)]
pub struct Serial {
    sent: Fifo,
    received: Fifo,
    /// The settings on which nothing depends: baud rate, line and modem control, levels.
    settings: [u32; 5],
    mask: u32,
    raw: u32,
}

impl Serial {
    /// Returns whether its interrupt is asserted.
    pub fn is_interrupting(&self) -> bool {
        self.raw & self.mask != 0
    }

    /// Returns whether there is a byte that the guest has sent.
    pub fn has_sent(&self) -> bool {
        self.sent.count > 0
    }

    /// Takes a byte that the guest has sent.
    pub fn take_sent(&mut self) -> Option<u8> {
        let byte = self.sent.pop();
        // A real port interrupts as the level falls to half; to interrupt at each byte below that
        // would be once too often for a guest that has cleared it. An empty one interrupts too, or
        // a guest that never filled half of it would not learn that its bytes are gone.
        if byte.is_some() && [0, CAPACITY / 2].contains(&self.sent.count) {
            self.raw |= interrupt::TRANSMIT;
        }
        byte
    }

    /// Gives the guest a byte. Returns whether there was room for it.
    pub fn receive(&mut self, byte: u8) -> bool {
        let has_room = self.received.push(byte);
        self.raw |= interrupt::RECEIVE | interrupt::RECEIVE_TIMEOUT;
        has_room
    }

    /// Returns whether there is room for another byte from outside.
    pub fn has_room(&self) -> bool {
        self.received.count < CAPACITY
    }

    /// Reads the register at an offset; what is none reads as zero.
    pub fn read(&mut self, offset: u64) -> u32 {
        match offset {
            register::DR => {
                let byte = self.received.pop().unwrap_or_default();
                if self.received.count == 0 {
                    self.raw &= !(interrupt::RECEIVE | interrupt::RECEIVE_TIMEOUT);
                }
                byte.into()
            }
            register::FR => {
                let flag = |set: bool, flag: u32| if set { flag } else { 0 };
                flag(self.received.count == 0, flags::RECEIVE_EMPTY)
                    | flag(self.received.count == CAPACITY, flags::RECEIVE_FULL)
                    | flag(self.sent.count == CAPACITY, flags::TRANSMIT_FULL)
                    | flag(self.sent.count == 0, flags::TRANSMIT_EMPTY)
                    | flag(self.sent.count > 0, flags::BUSY)
            }
            register::IMSC => self.mask,
            register::RIS => self.raw,
            register::MIS => self.raw & self.mask,
            register::IDENTITY.. if offset < register::IDENTITY + 32 && offset.is_multiple_of(4) => {
                IDENTITY[(offset - register::IDENTITY) as usize / 4]
            }
            _ => setting(offset).map_or(0, |index| self.settings[index]),
        }
    }

    /// Writes the register at an offset; what is none ignores it.
    pub fn write(&mut self, offset: u64, value: u32) {
        match offset {
            register::DR => {
                // One that finds no room is lost, as on a real port.
                self.sent.push(value as u8);
                // Linux writes half of what the port holds at each interrupt, without a look at the
                // flags.
                if self.sent.count > CAPACITY / 2 {
                    self.raw &= !interrupt::TRANSMIT;
                }
            }
            register::IMSC => self.mask = value & interrupt::ALL,
            register::ICR => self.raw &= !value,
            _ => {
                if let Some(index) = setting(offset) {
                    self.settings[index] = value & 0xffff;
                }
            }
        }
    }
}

/// The place of a setting.
fn setting(offset: u64) -> Option<usize> {
    [register::IBRD, register::FBRD, register::LCR_H, register::CR, register::IFLS]
        .iter()
        .position(|register| *register == offset)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::vec::Vec;

    #[test]
    fn bytes_go_both_ways_in_order() {
        let mut serial = Serial::default();
        (0..40).for_each(|byte| serial.write(register::DR, byte));
        assert_eq!(serial.read(register::FR) & flags::TRANSMIT_FULL, flags::TRANSMIT_FULL);
        let sent: Vec<u8> = core::iter::from_fn(|| serial.take_sent()).collect();
        assert_eq!(sent, (0..32).collect::<Vec<u8>>(), "what found no room is lost");
        assert!(serial.receive(b'a') && serial.receive(b'b'));
        assert_eq!((serial.read(register::DR), serial.read(register::DR)), (b'a'.into(), b'b'.into()));
        assert_eq!(serial.read(register::FR) & flags::RECEIVE_EMPTY, flags::RECEIVE_EMPTY);
    }

    #[test]
    fn it_interrupts_while_there_is_something_and_it_may() {
        let mut serial = Serial::default();
        serial.receive(b'a');
        assert!(!serial.is_interrupting(), "masked");
        serial.write(register::IMSC, interrupt::RECEIVE);
        assert!(serial.is_interrupting());
        serial.read(register::DR);
        assert!(!serial.is_interrupting());
        serial.write(register::IMSC, interrupt::TRANSMIT);
        serial.write(register::DR, 1);
        assert!(!serial.is_interrupting());
        serial.take_sent();
        assert!(serial.is_interrupting(), "there is room");
        serial.write(register::ICR, interrupt::TRANSMIT);
        assert!(!serial.is_interrupting());
    }

    #[test]
    fn it_interrupts_for_room_while_that_is_half_of_it() {
        let mut serial = Serial::default();
        serial.write(register::IMSC, interrupt::TRANSMIT);
        serial.write(register::DR, 0);
        serial.take_sent();
        for count in 1..=CAPACITY {
            serial.write(register::DR, 0);
            assert_eq!(serial.is_interrupting(), count <= CAPACITY / 2, "{count} bytes");
        }
        for left in (0..CAPACITY).rev() {
            serial.take_sent();
            assert_eq!(serial.is_interrupting(), left <= CAPACITY / 2, "{left} bytes");
        }
    }

    #[test]
    fn it_tells_what_it_is() {
        let mut serial = Serial::default();
        let identity: Vec<u32> = (0..8).map(|index| serial.read(register::IDENTITY + 4 * index)).collect();
        assert_eq!(identity, IDENTITY);
        serial.write(register::CR, 0x301);
        assert_eq!((serial.read(register::CR), serial.read(0x100)), (0x301, 0));
    }
}
