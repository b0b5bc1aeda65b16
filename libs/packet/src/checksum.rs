//! The Internet checksum (RFC 1071), whole, 8 bytes to an addition, and by differences (RFC 1624).
//!
//! A one's-complement sum does not care in which width it is summed, nor in which byte order, so
//! long as the result is folded and stored in the same one (RFC 1071 §2): words are added as they
//! lie in memory, carries are kept by summing halves.
//!
//! A router changes a few words of a packet whose rest it has no reason to read. So it corrects a
//! checksum by the difference that its change makes. That also keeps a packet that was damaged on
//! its way damaged, and leaves it to its receiver to notice; a checksum that is computed anew would
//! hide the damage.

use core::net::IpAddr;

/// A one's-complement sum in the making.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Sum(u64);

impl Sum {
    /// The sum of nothing.
    pub const ZERO: Self = Self(0);

    /// Returns the sum of the pseudo-header of a transport protocol (RFC 9293 §3.1, RFC 768,
    /// RFC 8200 §8.1), of which `length` bytes follow. Both addresses are of one version.
    #[inline]
    pub fn pseudo_header(
        source: impl Into<IpAddr>,
        destination: impl Into<IpAddr>,
        protocol: u8,
        length: usize,
    ) -> Self {
        let sum = Self::ZERO.add_address(source.into()).add_address(destination.into());
        sum.add_number(protocol.into()).add_bytes(&(length as u32).to_be_bytes())
    }

    /// Adds bytes, of which the first is at an even distance from the beginning of what is summed;
    /// an odd number only as the last ones, which counts as if a zero followed.
    #[inline]
    pub fn add_bytes(self, bytes: &[u8]) -> Self {
        // Of a long line the carry is added once, but what is left of the last one is longer.
        let (sum, rest) = self.add_lines::<256>(bytes);
        let (mut sum, rest) = sum.add_lines::<64>(rest);
        let (words, rest) = rest.as_chunks::<8>();
        for word in words {
            sum = sum.add_word(u64::from_le_bytes(*word));
        }
        let mut last = [0; 8];
        last[..rest.len()].copy_from_slice(rest);
        sum.add_word(u64::from_le_bytes(last))
    }

    /// Adds as many lines as there are, a multiple of eight bytes each: one addition with carry for
    /// each eight bytes. Returns what is left too.
    #[inline(always)]
    fn add_lines<const LINE: usize>(mut self, bytes: &[u8]) -> (Self, &[u8]) {
        let (lines, rest) = bytes.as_chunks::<LINE>();
        for line in lines {
            let (mut sum, mut carry) = (self.0, false);
            for word in line.as_chunks::<8>().0 {
                (sum, carry) = sum.carrying_add(u64::from_le_bytes(*word), carry);
            }
            self = Self(sum).add_word(carry.into());
        }
        (self, rest)
    }

    /// Adds eight bytes, as they lie in memory.
    #[inline(always)]
    pub fn add_word(self, word: u64) -> Self {
        let (sum, carry) = self.0.overflowing_add(word);
        // After a carry the sum is below its maximum, so this does not carry again.
        Self(sum + u64::from(carry))
    }

    /// Adds a 16-bit number in network byte order.
    #[inline(always)]
    pub fn add_number(self, number: u16) -> Self {
        self.add_word(u64::from(number.swap_bytes()))
    }

    #[inline]
    fn add_address(self, address: IpAddr) -> Self {
        match address {
            IpAddr::V4(address) => self.add_bytes(&address.octets()),
            IpAddr::V6(address) => self.add_bytes(&address.octets()),
        }
    }

    /// Returns the sum in 16 bits, as it lies in memory. It is `0xffff` over data whose checksum is
    /// right and included.
    #[inline(always)]
    pub fn fold(self) -> u16 {
        // A number plus itself with its halves exchanged has in its upper half the sum of both, the
        // carry out of the lower half included: the end-around carry.
        let half = ((self.0.wrapping_add(self.0.rotate_left(32))) >> 32) as u32;
        (half.wrapping_add(half.rotate_left(16)) >> 16) as u16
    }

    /// Returns the checksum, a number: what makes the sum of everything that it is part of all
    /// ones.
    #[inline]
    pub fn checksum(self) -> u16 {
        !self.fold().swap_bytes()
    }

    /// Returns whether what was summed, its checksum included, is intact.
    #[inline]
    pub fn is_intact(self) -> bool {
        self.fold() == 0xffff
    }
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
            self.0 = self.0.add_number(!(u16::from(*old) << shift)).add_number(u16::from(new) << shift);
        }
        *place = new;
        Some(())
    }

    /// Returns this difference and `other`.
    pub fn and(self, other: Self) -> Self {
        Self(self.0.add_word(other.0.0))
    }

    /// Returns what becomes of `checksum` (RFC 1624, equation 3).
    pub fn corrected(self, checksum: u16) -> u16 {
        self.0.add_number(!checksum).checksum()
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
        Sum::ZERO.add_bytes(bytes).checksum()
    }

    /// The definition, 16 bits at a time.
    fn simple(bytes: &[u8]) -> u16 {
        let mut sum = 0_u32;
        for pair in bytes.chunks(2) {
            sum += u32::from(u16::from_be_bytes([pair[0], *pair.get(1).unwrap_or(&0)]));
            sum = (sum >> 16) + (sum & 0xffff);
        }
        sum as u16
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

    #[test]
    fn a_pseudo_header_is_summed_like_its_bytes() {
        let bytes = [10, 0, 0, 1, 192, 168, 3, 4, 0, 17, 0x12, 0x34];
        let sum = Sum::pseudo_header([10, 0, 0, 1], [192, 168, 3, 4], 17, 0x1234);
        assert_eq!(sum.checksum(), checksum(&bytes));
        // Of a packet without a byte the sum is zero, of any other zero is written as all ones.
        assert_eq!((Sum::ZERO.checksum(), Sum::ZERO.is_intact()), (0xffff, false));
    }

    proptest! {
        #[test]
        fn sums_as_defined(bytes in prop::collection::vec(any::<u8>(), 0..800)) {
            let folded = Sum::ZERO.add_bytes(&bytes).fold().swap_bytes();
            // The two zeros of one's complement are the same number.
            prop_assert_eq!(folded % 0xffff, simple(&bytes) % 0xffff);
            prop_assert_eq!(!Sum::ZERO.add_bytes(&bytes).checksum(), folded);
        }

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
            prop_assert!(Sum::ZERO.add_bytes(&data).is_intact());
            data[bit / 8] ^= 1 << (bit % 8);
            prop_assert!(!Sum::ZERO.add_bytes(&data).is_intact());
        }
    }
}
