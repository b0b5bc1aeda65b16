//! Packets of gdb's remote serial protocol (GDB manual, appendix E.1, "Overview"): `$`, data, `#`
//! and a checksum, each acknowledged by `+`, or asked for again by `-`.

/// Most bytes of data in a packet, either way.
pub const LENGTH: usize = 1024;

/// The byte by which gdb interrupts a target that runs; it is in no packet.
const INTERRUPT: u8 = 3;

/// Something that has come whole.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Received {
    /// A packet: [`Receiver::data`].
    Packet,
    /// One that did not come as it was sent, or is longer than any may be.
    Broken,
    /// The order to stop.
    Interrupt,
    /// The order to send the last packet again.
    Again,
}

/// Where in a packet the next byte is.
#[derive(Clone, Copy, Debug)]
enum Place {
    Outside,
    Data,
    /// The first digit of the checksum.
    Sum,
    /// The second; this is the first.
    SecondOfSum(Option<u8>),
}

/// Puts packets together, whatever bytes come.
#[derive(Debug)]
pub struct Receiver {
    data: [u8; LENGTH],
    /// Bytes of the data, those for which there is no room counted too.
    length: usize,
    sum: u8,
    place: Place,
}

impl Default for Receiver {
    /// One that waits for a packet.
    fn default() -> Self {
        Self { data: [0; LENGTH], length: 0, sum: 0, place: Place::Outside }
    }
}

impl Receiver {
    /// Returns the data of the packet that came last, until the next byte is taken.
    pub fn data(&self) -> &[u8] {
        &self.data[..self.length.min(LENGTH)]
    }

    /// Takes a byte; returns what is whole by it.
    pub fn take(&mut self, byte: u8) -> Option<Received> {
        match (self.place, byte) {
            // A packet that begins within another one begins anew: the other's end was lost.
            (_, b'$') => {
                (self.length, self.sum, self.place) = (0, 0, Place::Data);
                None
            }
            (Place::Outside, INTERRUPT) => Some(Received::Interrupt),
            (Place::Outside, b'-') => Some(Received::Again),
            (Place::Outside, _) => None,
            (Place::Data, b'#') => {
                self.place = Place::Sum;
                None
            }
            (Place::Data, _) => {
                if let Some(slot) = self.data.get_mut(self.length) {
                    *slot = byte;
                }
                self.length = self.length.saturating_add(1);
                self.sum = self.sum.wrapping_add(byte);
                None
            }
            (Place::Sum, _) => {
                self.place = Place::SecondOfSum(digit(byte));
                None
            }
            (Place::SecondOfSum(first), _) => {
                self.place = Place::Outside;
                let sum = first.zip(digit(byte)).map(|(first, second)| first << 4 | second);
                let is_whole = sum == Some(self.sum) && self.length <= LENGTH;
                Some(if is_whole { Received::Packet } else { Received::Broken })
            }
        }
    }
}

/// A packet to gdb, which goes out byte by byte.
#[derive(Debug)]
pub struct Answer {
    /// `$`, data, `#` and two digits.
    bytes: [u8; LENGTH + 4],
    length: usize,
    /// Bytes that have gone out.
    taken: usize,
}

impl Default for Answer {
    /// One that has gone out.
    fn default() -> Self {
        Self { bytes: [0; LENGTH + 4], length: 0, taken: 0 }
    }
}

impl Answer {
    /// Begins another one.
    pub fn begin(&mut self) {
        self.bytes[0] = b'$';
        (self.length, self.taken) = (1, 0);
    }

    /// Adds data. What finds no room is missing: whoever adds keeps to [`LENGTH`].
    pub fn add(&mut self, data: &[u8]) {
        for byte in data {
            if self.length <= LENGTH {
                self.bytes[self.length] = *byte;
                self.length += 1;
            }
        }
    }

    /// Adds bytes as digits.
    pub fn add_bytes(&mut self, bytes: &[u8]) {
        bytes.iter().for_each(|byte| self.add(&digits(*byte)));
    }

    /// Adds a number as the fewest digits.
    pub fn add_number(&mut self, number: usize) {
        let shifts = (0..usize::BITS / 4).rev().map(|place| number >> (4 * place));
        for (place, rest) in shifts.enumerate() {
            if rest != 0 || place as u32 + 1 == usize::BITS / 4 {
                self.add(&[digits(rest as u8)[1]]);
            }
        }
    }

    /// Ends it.
    pub fn end(&mut self) {
        let data = &self.bytes[1..self.length];
        let sum = digits(data.iter().fold(0, |sum: u8, byte| sum.wrapping_add(*byte)));
        self.bytes[self.length..self.length + 3].copy_from_slice(&[b'#', sum[0], sum[1]]);
        self.length += 3;
    }

    /// Has it go out again.
    pub fn again(&mut self) {
        self.taken = 0;
    }

    /// Returns the next byte that goes out.
    pub fn next(&self) -> Option<u8> {
        self.bytes[..self.length].get(self.taken).copied()
    }

    /// Notes that this byte has gone out.
    pub fn pass(&mut self) {
        self.taken = self.length.min(self.taken + 1);
    }
}

/// Returns the value of a digit.
pub fn digit(byte: u8) -> Option<u8> {
    char::from(byte).to_digit(16).map(|digit| digit as u8)
}

/// Returns the two digits of a byte.
fn digits(byte: u8) -> [u8; 2] {
    [byte >> 4, byte & 15].map(|digit| b"0123456789abcdef"[usize::from(digit)])
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::vec::Vec;

    fn received(receiver: &mut Receiver, bytes: &[u8]) -> Vec<Received> {
        bytes.iter().filter_map(|byte| receiver.take(*byte)).collect()
    }

    #[test]
    fn packets_are_told_from_what_is_none() {
        let mut receiver = Receiver::default();
        assert_eq!(received(&mut receiver, b"+noise#00$m0,4#fd"), [Received::Packet]);
        assert_eq!(receiver.data(), b"m0,4");
        assert_eq!(received(&mut receiver, b"\x03-$#00"), [Received::Interrupt, Received::Again, Received::Packet]);
        assert_eq!(receiver.data(), b"");
        assert_eq!(received(&mut receiver, b"$g#68$g#6g$g#"), [Received::Broken; 2]);
        assert_eq!(received(&mut receiver, b"$lost$g#67"), [Received::Packet]);
        assert_eq!(receiver.data(), b"g");
    }

    #[test]
    fn a_packet_that_is_too_long_is_broken() {
        let packet = |length: usize| {
            let sum = (0..length).fold(0_u8, |sum, _| sum.wrapping_add(b'x'));
            std::format!("${}#{sum:02x}", "x".repeat(length)).into_bytes()
        };
        let mut receiver = Receiver::default();
        assert_eq!(received(&mut receiver, &packet(LENGTH)), [Received::Packet]);
        assert_eq!(receiver.data().len(), LENGTH);
        assert_eq!(received(&mut receiver, &packet(LENGTH + 1)), [Received::Broken]);
        assert_eq!(received(&mut receiver, &packet(100 * LENGTH)), [Received::Broken]);
    }

    fn out(answer: &mut Answer) -> Vec<u8> {
        core::iter::from_fn(|| answer.next().inspect(|_| answer.pass())).collect()
    }

    #[test]
    fn an_answer_goes_out_with_its_checksum() {
        let mut answer = Answer::default();
        assert_eq!(out(&mut answer), b"");
        answer.begin();
        answer.add(b"T02");
        answer.add_bytes(&[0x0f, 0xa0]);
        [0, 9, 0x4f0].into_iter().for_each(|number| answer.add_number(number));
        answer.end();
        assert_eq!(out(&mut answer), b"$T020fa0094f0#10");
        answer.again();
        assert_eq!(out(&mut answer).len(), 16);
        answer.begin();
        answer.add(&[b'x'; 2 * LENGTH]);
        answer.end();
        assert_eq!(out(&mut answer).len(), LENGTH + 4);
    }
}
