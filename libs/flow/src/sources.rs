//! Who counts as one sender.

use core::net::IpAddr;

/// Returns the address of a sender in two words, of IPv6 only its net of 64 bits: who has such a
/// net has all of its addresses, and would be as many senders as it likes. No two senders have the
/// same.
pub fn prefix(address: IpAddr) -> [u64; 2] {
    match address {
        IpAddr::V4(address) => [0, u32::from(address).into()],
        IpAddr::V6(address) => [1, (u128::from(address) >> 64) as u64],
    }
}
