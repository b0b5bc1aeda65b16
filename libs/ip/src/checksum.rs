//! The Internet checksum (RFC 1071): the ones' complement of the ones' complement sum of all
//! halves.

use core::net::{IpAddr, Ipv4Addr, Ipv6Addr};

/// A sum under way.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Sum(u64);

impl Sum {
    /// The sum of IPv6's pseudo-header (RFC 8200 §8.1) for `length` bytes of `protocol`.
    pub(crate) fn pseudo(source: Ipv6Addr, destination: Ipv6Addr, protocol: u8, length: usize) -> Self {
        let sum = Self::default().add(&source.octets()).add(&destination.octets());
        Self(sum.0 + u64::from(protocol) + length as u64)
    }

    /// The sum of IPv4's pseudo-header (RFC 768) for `length` bytes of `protocol`.
    pub(crate) fn pseudo_of_ipv4(source: Ipv4Addr, destination: Ipv4Addr, protocol: u8, length: usize) -> Self {
        let sum = Self::default().add(&source.octets()).add(&destination.octets());
        Self(sum.0 + u64::from(protocol) + length as u64)
    }

    /// The sum of the pseudo-header between two addresses; `None` if they are of two versions.
    pub(crate) fn pseudo_of(source: IpAddr, destination: IpAddr, protocol: u8, length: usize) -> Option<Self> {
        match (source, destination) {
            (IpAddr::V4(source), IpAddr::V4(destination)) => {
                Some(Self::pseudo_of_ipv4(source, destination, protocol, length))
            }
            (IpAddr::V6(source), IpAddr::V6(destination)) => Some(Self::pseudo(source, destination, protocol, length)),
            _ => None,
        }
    }

    /// Adds bytes that begin at an even place. A last half that is cut off counts as if a zero
    /// followed.
    pub(crate) fn add(self, bytes: &[u8]) -> Self {
        let (halves, rest) = bytes.as_chunks::<2>();
        let sum = halves.iter().fold(self.0, |sum, half| sum + u64::from(u16::from_be_bytes(*half)));
        Self(sum + rest.first().map_or(0, |byte| u64::from(*byte) << 8))
    }

    /// Returns the checksum: what makes the sum of everything that it is part of all ones.
    pub(crate) fn checksum(self) -> u16 {
        let mut sum = self.0;
        while sum > 0xffff {
            sum = (sum & 0xffff) + (sum >> 16);
        }
        !(sum as u16)
    }

    /// Returns whether what was summed, its checksum included, is intact.
    pub(crate) fn is_intact(self) -> bool {
        self.checksum() == 0
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// RFC 1071 §3.
    #[test]
    fn the_sum_is_that_of_the_standard() {
        let sum = Sum::default().add(&[0x00, 0x01, 0xf2, 0x03, 0xf4, 0xf5, 0xf6, 0xf7]);
        assert_eq!(!sum.checksum(), 0xddf2);
    }

    proptest! {
        #[test]
        fn what_has_its_checksum_is_intact_and_no_longer_so_after_a_flip(
            mut bytes in prop::collection::vec(any::<u8>(), 2..100), place in any::<usize>(), bit in 0..8,
        ) {
            bytes[..2].fill(0);
            let checksum = Sum::default().add(&bytes).checksum();
            bytes[..2].copy_from_slice(&checksum.to_be_bytes());
            prop_assert!(Sum::default().add(&bytes).is_intact());
            let place = place % bytes.len();
            bytes[place] ^= 1_u8 << bit;
            prop_assert!(!Sum::default().add(&bytes).is_intact());
        }
    }
}
