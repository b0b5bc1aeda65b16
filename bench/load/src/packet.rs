//! The content of a packet: who it is, and a pattern that shows whether it came back whole.

/// Bytes in front of the pattern; also the least size of a packet.
pub const HEADER: usize = 24;
/// The largest size of a packet: what an Ethernet frame of 1,500 bytes carries over UDP and IPv4.
pub const LARGEST: usize = 1472;

const MAGIC: u64 = u64::from_le_bytes(*b"culmload");
const PATTERN_SIZE: usize = LARGEST + 256;

/// The pseudo-random bytes that patterns are cut from.
pub struct Pattern([u8; PATTERN_SIZE]);

impl Default for Pattern {
    fn default() -> Self {
        let mut state = 0x9e37_79b9_7f4a_7c15u64;
        Self(std::array::from_fn(|_| {
            state ^= state << 13;
            state ^= state >> 7;
            state ^= state << 17;
            state as u8
        }))
    }
}

impl Pattern {
    /// Different for packets that follow each other, so that a server which mixes up buffers is
    /// found out.
    fn of(&self, sequence: u64, length: usize) -> &[u8] {
        let start = (sequence % 251) as usize;
        &self.0[start..start + length]
    }

    /// Fills `packet`, which is `HEADER` to `LARGEST` bytes.
    pub fn write(&self, packet: &mut [u8], sequence: u64, due: u64) {
        packet[..8].copy_from_slice(&MAGIC.to_le_bytes());
        packet[8..16].copy_from_slice(&sequence.to_le_bytes());
        packet[16..24].copy_from_slice(&due.to_le_bytes());
        let length = packet.len() - HEADER;
        packet[HEADER..].copy_from_slice(self.of(sequence, length));
    }

    /// The sequence number and due time of an answer, or nothing where it is not what was sent.
    pub fn read(&self, packet: &[u8], size: usize) -> Option<(u64, u64)> {
        let word = |at: usize| packet.get(at..at + 8)?.try_into().ok().map(u64::from_le_bytes);
        let sequence = word(8)?;
        let whole = packet.len() == size && word(0)? == MAGIC && packet[HEADER..] == *self.of(sequence, size - HEADER);
        whole.then_some((sequence, word(16)?))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_packet_is_read_back_and_a_changed_one_is_not() {
        let pattern = Pattern::default();
        let mut packet = vec![0; LARGEST];
        pattern.write(&mut packet, u64::MAX - 1, 77);
        assert_eq!(pattern.read(&packet, LARGEST), Some((u64::MAX - 1, 77)));
        assert_eq!(pattern.read(&packet[..LARGEST - 1], LARGEST), None);
        packet[LARGEST - 1] ^= 1;
        assert_eq!(pattern.read(&packet, LARGEST), None);
        assert_eq!(pattern.read(&[], HEADER), None);
    }
}
