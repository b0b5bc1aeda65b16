//! A segment's header, read from and written to the wire (RFC 9293, §3.1).

use crate::Sequence;
use crate::options::Options;

/// Bytes of a header without options.
pub const SHORTEST: usize = 20;

/// Bytes of the longest header.
pub const LONGEST: usize = 60;

/// What a header says beside its numbers: the bits of RFC 9293, §3.1.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Flags(pub u8);

impl Flags {
    /// The sender has sent all.
    pub const FIN: Self = Self(0x01);
    /// The sequence number is the initial one.
    pub const SYN: Self = Self(0x02);
    /// The connection is reset.
    pub const RST: Self = Self(0x04);
    /// The receiver is to have the data soon.
    pub const PSH: Self = Self(0x08);
    /// The acknowledgement number has a meaning.
    pub const ACK: Self = Self(0x10);
    /// The urgent pointer has a meaning.
    pub const URG: Self = Self(0x20);
    /// A mark of congestion has come; in a SYN an offer (RFC 3168, §6.1).
    pub const ECE: Self = Self(0x40);
    /// The sender has reduced its congestion window; in a SYN an offer (RFC 3168, §6.1).
    pub const CWR: Self = Self(0x80);

    /// Returns whether all of `flags` are among these.
    #[inline]
    pub const fn has(self, flags: Self) -> bool {
        self.0 & flags.0 == flags.0
    }

    /// Returns these and `others`.
    #[inline]
    pub const fn with(self, others: Self) -> Self {
        Self(self.0 | others.0)
    }

    /// Returns these without `others`.
    #[inline]
    pub const fn without(self, others: Self) -> Self {
        Self(self.0 & !others.0)
    }
}

/// A segment's header. Its payload is where it came from or is to go, and only its length matters
/// here.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Header {
    /// The sender's port.
    pub source: u16,
    /// The receiver's port.
    pub destination: u16,
    /// The number of the SYN, or else of the payload's first byte.
    pub sequence: Sequence,
    /// The number that the sender expects next; without [`Flags::ACK`] it means nothing.
    pub acknowledgement: Sequence,
    /// The flags.
    pub flags: Flags,
    /// The window as it stands on the wire, not scaled.
    pub window: u16,
    /// The options.
    pub options: Options,
}

/// Why bytes are no segment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Malformed {
    /// There are fewer bytes than a header has.
    Truncated,
    /// The data offset is below that of the shortest header.
    DataOffset,
}

impl Header {
    /// Reads a header; returns it and its length in bytes, which is where the payload begins.
    ///
    /// The checksum is not looked at: whoever took the packet has checked it, or had the device do
    /// so. Reserved bits and the urgent pointer are ignored (RFC 6093: urgent data is data).
    #[inline(always)]
    pub fn parse(bytes: &[u8]) -> Result<(Self, usize), Malformed> {
        let mut header = Self::default();
        let length = header.read(bytes)?;
        Ok((header, length))
    }

    /// Does what [`Self::parse`] does, where the header is to stay: it is large to be moved. After
    /// an error some of it may have been read.
    #[inline(always)]
    pub fn read(&mut self, bytes: &[u8]) -> Result<usize, Malformed> {
        let (fixed, _) = bytes.split_first_chunk::<SHORTEST>().ok_or(Malformed::Truncated)?;
        let length = usize::from(fixed[12] >> 4) * 4;
        let options = match bytes.get(SHORTEST..length) {
            Some(options) => options,
            None if length < SHORTEST => return Err(Malformed::DataOffset),
            None => return Err(Malformed::Truncated),
        };
        let number = |at: usize| u32::from_be_bytes([fixed[at], fixed[at + 1], fixed[at + 2], fixed[at + 3]]);
        *self = Self {
            source: u16::from_be_bytes([fixed[0], fixed[1]]),
            destination: u16::from_be_bytes([fixed[2], fixed[3]]),
            sequence: Sequence(number(4)),
            acknowledgement: Sequence(number(8)),
            flags: Flags(fixed[13]),
            window: u16::from_be_bytes([fixed[14], fixed[15]]),
            options: Options::default(),
        };
        self.options.take(options);
        Ok(length)
    }

    /// Returns the length of the header on the wire, in bytes: 20 to 60, a multiple of 4.
    #[inline]
    pub fn length(&self) -> usize {
        SHORTEST + self.options.length()
    }

    /// Writes the header to the start of `bytes`, and returns [`Self::length`]; 0, if there are
    /// fewer bytes than that. Its checksum and urgent pointer are 0: the checksum is for whoever
    /// knows the IP addresses and the payload, or for the device.
    #[inline(always)]
    pub fn emit(&self, bytes: &mut [u8]) -> usize {
        let length = self.length();
        match bytes.get_mut(..length) {
            Some(bytes) => self.emit_whole(bytes),
            None => return 0,
        }
        length
    }

    /// Writes the header to `bytes`, which must have exactly [`Self::length`] bytes: the data
    /// offset is taken from that. As [`Self::emit`], for who has asked for the length before.
    #[inline(always)]
    pub fn emit_whole(&self, bytes: &mut [u8]) {
        let length = bytes.len();
        let Some((fixed, space)) = bytes.split_first_chunk_mut::<SHORTEST>() else { return };
        self.options.emit(space);
        fixed[0..2].copy_from_slice(&self.source.to_be_bytes());
        fixed[2..4].copy_from_slice(&self.destination.to_be_bytes());
        fixed[4..8].copy_from_slice(&self.sequence.0.to_be_bytes());
        fixed[8..12].copy_from_slice(&self.acknowledgement.0.to_be_bytes());
        fixed[12] = (length as u8 / 4) << 4;
        fixed[13] = self.flags.0;
        fixed[14..16].copy_from_slice(&self.window.to_be_bytes());
        fixed[16..20].fill(0);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Range;
    use crate::options::{Blocks, Timestamps};
    use proptest::prelude::*;

    fn any_options() -> impl Strategy<Value = Options> {
        let stamps = prop::option::of((any::<u32>(), any::<u32>()))
            .prop_map(|stamps| stamps.map(|(value, echo)| Timestamps { value, echo }));
        let blocks = prop::collection::vec((any::<u32>(), any::<u32>()), 0..=4);
        (prop::option::of(any::<u16>()), prop::option::of(0_u8..=14), any::<bool>(), stamps, blocks).prop_map(
            |(mss, window_scale, sack_permitted, timestamps, blocks)| {
                // A SYN has no blocks, and other segments have nothing but blocks and timestamps:
                // together they would not fit.
                let is_syn = mss.is_some() || window_scale.is_some() || sack_permitted;
                let mut sack = Blocks::default();
                for (start, end) in blocks.into_iter().take(if timestamps.is_some() { 3 } else { 4 }) {
                    if !is_syn {
                        sack.push(Range { start: Sequence(start), end: Sequence(end) });
                    }
                }
                Options { mss, window_scale, sack_permitted, timestamps, sack }
            },
        )
    }

    proptest! {
        #[test]
        fn what_is_written_is_read_back(
            ports: (u16, u16), numbers: (u32, u32), flags: u8, window: u16, options in any_options(),
        ) {
            let header = Header {
                source: ports.0,
                destination: ports.1,
                sequence: Sequence(numbers.0),
                acknowledgement: Sequence(numbers.1),
                flags: Flags(flags),
                window,
                options,
            };
            let mut bytes = [0xff; LONGEST];
            let length = header.emit(&mut bytes);
            prop_assert_eq!(length % 4, 0);
            prop_assert_eq!(length, header.length());
            let (mut exact, mut short) = (std::vec![0; length], std::vec![0; length - 1]);
            prop_assert_eq!((header.emit(&mut exact), header.emit(&mut short)), (length, 0));
            prop_assert_eq!(&exact[..], &bytes[..length]);
            prop_assert_eq!(Header::parse(&bytes[..length]), Ok((header, length)));
            prop_assert_eq!(Header::parse(&bytes[..length - 1]), Err(Malformed::Truncated));
        }

        #[test]
        fn any_bytes_are_read_or_refused(bytes in prop::collection::vec(any::<u8>(), 0..80)) {
            if let Ok((header, length)) = Header::parse(&bytes) {
                prop_assert!((SHORTEST..=LONGEST).contains(&length) && length <= bytes.len());
                let mut again = [0; LONGEST];
                let written = header.emit(&mut again);
                prop_assert!(written <= LONGEST);
            }
        }
    }

    #[test]
    fn a_data_offset_below_the_shortest_is_refused() {
        let mut bytes = [0; 24];
        bytes[12] = 0x40;
        assert_eq!(Header::parse(&bytes), Err(Malformed::DataOffset));
    }
}
