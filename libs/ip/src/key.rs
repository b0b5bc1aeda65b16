//! Hashes of addresses that nobody outside can foresee.

use core::net::IpAddr;

/// Secret numbers by which addresses are spread over sets of places.
#[derive(Clone, Copy, Debug)]
pub struct Key(pub [u64; 5]);

impl Key {
    /// Returns 32 bits of which two addresses have the first so many in common with no more than
    /// chance, whoever chooses them (vector multiply-shift; Dietzfelbinger 1996).
    pub(crate) fn hash(&self, address: IpAddr) -> u32 {
        let words = match address {
            IpAddr::V4(address) => u128::from(u32::from(address)),
            IpAddr::V6(address) => u128::from(address),
        };
        let [first, factors @ ..] = self.0;
        let sum = factors.iter().enumerate().fold(first, |sum, (index, factor)| {
            sum.wrapping_add(factor.wrapping_mul(u64::from((words >> (32 * index)) as u32)))
        });
        (sum >> 32) as u32
    }
}
