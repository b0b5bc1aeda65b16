//! The Internet checksum (RFC 1071), whole and by differences (RFC 1624).
//!
//! A router changes a few words of a packet whose rest it has no reason to read. So it corrects a
//! checksum by the difference that its change makes. That also keeps a packet that was damaged on
//! its way damaged, and leaves it to its receiver to notice; a checksum that is computed anew would
//! hide the damage.

use core::net::IpAddr;

/// A sum of 16-bit words in one's complement arithmetic.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Sum(u64);

impl Sum {
    /// Adds a word.
    pub fn word(&mut self, word: u16) {
        // A sum of less than 2³² words does not overflow, and no packet has more.
        self.0 = self.0.wrapping_add(u64::from(word));
    }

    /// Adds `bytes`, which begin at an even distance from the beginning of what is summed. An odd
    /// last byte counts as if a zero followed it.
    pub fn bytes(&mut self, bytes: &[u8]) {
        let (words, rest) = bytes.as_chunks::<2>();
        for word in words {
            self.word(u16::from_be_bytes(*word));
        }
        if let [last] = rest {
            self.word(u16::from_be_bytes([*last, 0]));
        }
    }

    /// Adds an address.
    pub fn address(&mut self, address: IpAddr) {
        match address {
            IpAddr::V4(address) => self.bytes(&address.octets()),
            IpAddr::V6(address) => self.bytes(&address.octets()),
        }
    }

    /// Adds the pseudo-header of a transport protocol (RFC 9293 §3.1, RFC 8200 §8.1), of which
    /// `length` bytes follow.
    pub fn pseudo_header(&mut self, source: IpAddr, destination: IpAddr, protocol: u8, length: usize) {
        self.address(source);
        self.address(destination);
        self.word(protocol.into());
        self.bytes(&(length as u32).to_be_bytes());
    }

    /// Returns the sum in 16 bits. It is `0xffff` over data whose checksum is right and included.
    pub fn folded(self) -> u16 {
        let mut sum = self.0;
        while sum >> 16 != 0 {
            sum = (sum & 0xffff) + (sum >> 16);
        }
        sum as u16
    }

    /// Returns the checksum: the complement of the sum.
    pub fn checksum(self) -> u16 {
        !self.folded()
    }
}

/// Returns whether the checksum that `bytes` include is right, without a pseudo-header.
pub fn is_right(bytes: &[u8]) -> bool {
    let mut sum = Sum::default();
    sum.bytes(bytes);
    sum.folded() == 0xffff
}

/// What changes have made of the sum over some data.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Difference(Sum);

impl Difference {
    /// Writes `new` to `bytes[at..]`, and adds the difference that it makes. `is_odd` says whether
    /// the place is at an odd distance from the beginning of what the checksum covers. Returns
    /// `None`, and changes nothing, if there is no such place.
    pub fn replace<const N: usize>(&mut self, bytes: &mut [u8], at: usize, new: [u8; N], is_odd: bool) -> Option<()> {
        let place: &mut [u8; N] = bytes.get_mut(at..)?.first_chunk_mut()?;
        for (index, (old, new)) in place.iter().zip(new).enumerate() {
            let shift = if (index % 2 == 1) == is_odd { 8 } else { 0 };
            self.0.word(!(u16::from(*old) << shift));
            self.0.word(u16::from(new) << shift);
        }
        *place = new;
        Some(())
    }

    /// Returns this difference and `other`.
    pub fn and(self, other: Self) -> Self {
        Self(Sum(self.0.0.wrapping_add(other.0.0)))
    }

    /// Returns what becomes of `checksum` (RFC 1624, equation 3).
    pub fn corrected(self, checksum: u16) -> u16 {
        let mut sum = self.0;
        sum.word(!checksum);
        sum.checksum()
    }

    /// Corrects the checksum at `bytes[at..]`, and adds to `outer` the difference that this makes,
    /// for a checksum that covers this one; the two bytes stand at an even distance from its
    /// beginning. Returns `None`, and changes nothing, if there is no such place.
    pub fn correct(self, bytes: &mut [u8], at: usize, outer: &mut Self) -> Option<()> {
        let old = u16::from_be_bytes(*bytes.get(at..)?.first_chunk()?);
        outer.replace(bytes, at, self.corrected(old).to_be_bytes(), false)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn checksum(bytes: &[u8]) -> u16 {
        let mut sum = Sum::default();
        sum.bytes(bytes);
        sum.checksum()
    }

    /// RFC 1071 §3, and RFC 1624 §4, whose example the older equation gets wrong.
    #[test]
    fn the_examples_of_the_standards_come_out() {
        assert_eq!(checksum(&[0x00, 0x01, 0xf2, 0x03, 0xf4, 0xf5, 0xf6, 0xf7]), !0xddf2);
        let mut difference = Difference::default();
        let mut word = 0x5555_u16.to_be_bytes();
        difference.replace(&mut word, 0, 0x3285_u16.to_be_bytes(), false).unwrap();
        assert_eq!((difference.corrected(0xdd2f), word), (0, [0x32, 0x85]));
    }

    #[test]
    fn an_odd_last_byte_counts_as_the_upper_half() {
        assert_eq!(checksum(&[1, 2, 3]), checksum(&[1, 2, 3, 0]));
    }

    proptest! {
        #[test]
        fn a_corrected_checksum_is_that_of_the_changed_data(
            mut data in prop::collection::vec(any::<u8>(), 8..100),
            changes in prop::collection::vec((any::<usize>(), any::<[u8; 4]>()), 1..5),
        ) {
            // Data that is all zero has the sum 0, all others have it as 0xffff.
            data[0] |= 1;
            let mut checksum_of_it = checksum(&data);
            for (at, new) in changes {
                let at = 1 + at % (data.len() - 4);
                let mut difference = Difference::default();
                difference.replace(&mut data, at, new, at % 2 == 1).unwrap();
                checksum_of_it = difference.corrected(checksum_of_it);
                prop_assert_eq!(checksum_of_it, checksum(&data));
            }
            prop_assert!(Difference::default().replace(&mut data, usize::MAX, [0], false).is_none());
        }

        #[test]
        fn data_with_its_checksum_is_right_until_a_bit_changes(
            mut data in prop::collection::vec(any::<u8>(), 2..50), bit in 0..16_usize,
        ) {
            data.truncate(data.len() / 2 * 2);
            let own = checksum(&data).to_be_bytes();
            data.extend(own);
            prop_assert!(is_right(&data));
            data[bit / 8] ^= 1 << (bit % 8);
            prop_assert!(!is_right(&data));
        }
    }
}
