//! Messages over TCP: each behind its length (RFC 1035 §4.2.2).

/// Bytes of the longest message that is taken over TCP. Addresses of one name need far less.
pub const LONGEST_STREAMED: usize = 4096;

/// Bytes of a message's length.
const LENGTH: usize = 2;

/// One message, as its bytes come.
#[derive(Clone, Debug)]
pub struct Incoming {
    bytes: [u8; LENGTH + LONGEST_STREAMED],
    count: usize,
}

impl Default for Incoming {
    fn default() -> Self {
        Self { bytes: [0; LENGTH + LONGEST_STREAMED], count: 0 }
    }
}

impl Incoming {
    /// Forgets what has come.
    pub fn clear(&mut self) {
        self.count = 0;
    }

    /// Takes the next bytes, as many as belong to the message and fit. Returns how many.
    pub fn take(&mut self, bytes: &[u8]) -> usize {
        let mut taken = 0;
        while let Some(byte) = bytes.get(taken)
            && self.count < self.end()
            && let Some(place) = self.bytes.get_mut(self.count)
        {
            *place = *byte;
            (self.count, taken) = (self.count + 1, taken + 1);
        }
        taken
    }

    /// Returns the message, once all of it has come.
    pub fn message(&self) -> Option<&[u8]> {
        self.bytes.get(LENGTH..self.end()).filter(|_| self.count >= LENGTH && self.count == self.end())
    }

    /// Returns whether what comes is longer than [`LONGEST_STREAMED`], and so is never whole.
    pub fn is_too_long(&self) -> bool {
        self.count >= LENGTH && self.end() > self.bytes.len()
    }

    /// Where the message ends; before its length is known, where that ends.
    fn end(&self) -> usize {
        match self.bytes {
            [high, low, ..] if self.count >= LENGTH => LENGTH + usize::from(u16::from_be_bytes([high, low])),
            _ => LENGTH,
        }
    }
}

/// Returns what stands before a message of `length` bytes over TCP.
pub fn prefix(length: usize) -> [u8; LENGTH] {
    // A message that is asked with is at most `LONGEST` bytes long.
    u16::try_from(length).unwrap_or(u16::MAX).to_be_bytes()
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::vec;

    #[test]
    fn a_message_comes_in_any_pieces() {
        for piece in 1..9 {
            let mut incoming = Incoming::default();
            let (mut came, mut taken) = (prefix(5).to_vec(), 0);
            came.extend(b"hello and more");
            for bytes in came.chunks(piece) {
                assert_eq!(incoming.message().is_some(), taken == 7);
                taken += incoming.take(bytes);
            }
            assert_eq!((taken, incoming.message()), (7, Some(&b"hello"[..])));
            incoming.clear();
            assert_eq!(incoming.message(), None);
        }
    }

    #[test]
    fn the_longest_and_the_shortest_come_and_longer_ones_do_not() {
        for (length, comes) in [(0, true), (LONGEST_STREAMED, true), (LONGEST_STREAMED + 1, false), (65_535, false)] {
            let mut incoming = Incoming::default();
            incoming.take(&prefix(length));
            incoming.take(&vec![7; length]);
            assert_eq!(incoming.message().map(<[u8]>::len), comes.then_some(length));
            assert_eq!(incoming.is_too_long(), !comes);
        }
    }
}
