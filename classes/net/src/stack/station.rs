//! This station: by what packets are known to be for it, and whom it can answer.

use super::classify::Key;
use crate::Mac;
use core::net::{IpAddr, Ipv4Addr};
use culm_ip::host::ADDRESSES;
use culm_ip::{Cidr, is_host};

/// The loopback address of IPv6, as it lies in a packet (RFC 4291 §2.5.3).
const LOOPBACK: [u64; 2] = [0, u64::from_le_bytes([0, 0, 0, 0, 0, 0, 0, 1])];

/// The addresses of a station, as they lie in a packet.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Station {
    pub(super) mac: [u8; 6],
    /// The hop limit that its packets of IPv6 begin with.
    pub(super) hop_limit: u8,
    /// 0 for none.
    pub(super) ipv4: u32,
    /// The broadcast address of its network of IPv4; 0 for none.
    broadcast: u32,
    /// All zero for none.
    pub(super) ipv6: [[u64; 2]; ADDRESSES - 1],
}

impl Station {
    pub(super) fn new(mac: Mac, addresses: &[Cidr], hop_limit: u8) -> Self {
        let mut all = Self { mac: mac.bytes(), hop_limit, ..Self::default() };
        let mut places = all.ipv6.iter_mut();
        for own in addresses {
            match own.address() {
                IpAddr::V4(address) if all.ipv4 == 0 => {
                    let last =
                        Ipv4Addr::from_bits(address.to_bits() | u32::MAX.checked_shr(own.length().into()).unwrap_or(0));
                    all.ipv4 = u32::from_le_bytes(address.octets());
                    all.broadcast = if own.is_everybody(last) { u32::from_le_bytes(last.octets()) } else { 0 };
                }
                IpAddr::V4(_) => {}
                IpAddr::V6(address) => {
                    if let Some(place) = places.next() {
                        *place = words(address.octets());
                    }
                }
            }
        }
        all
    }

    /// Returns whether segments with this key are from one station, not all on a link, to this one.
    #[inline]
    pub(super) fn can_answer(&self, key: &Key, is_version_4: bool) -> bool {
        if is_version_4 {
            let (remote, local) = (key.remote[0] as u32, key.local[0] as u32);
            local == self.ipv4
                && local != 0
                && remote != local
                && remote != self.broadcast
                && is_host(Ipv4Addr::from(remote.to_le_bytes()))
        } else {
            ![key.local, key.remote].contains(&[0, 0])
                && self.ipv6.contains(&key.local)
                && !self.ipv6.contains(&key.remote)
                && key.remote != LOOPBACK
                && key.remote[0] as u8 != 0xff
        }
    }
}

/// The words of an address of IPv6, as it lies in a packet.
fn words(octets: [u8; 16]) -> [u64; 2] {
    let all = u128::from_le_bytes(octets);
    [all as u64, (all >> 64) as u64]
}

/// Whether an address is one station's, and not that of all on a link.
pub(super) fn is_station(address: IpAddr, own: &[Cidr]) -> bool {
    match address {
        IpAddr::V4(address) => is_host(address) && !own.iter().any(|own| own.is_everybody(address)),
        IpAddr::V6(address) => !address.is_multicast() && !address.is_unspecified() && !address.is_loopback(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// Addresses of which some are a station's own, and others are nobody's.
    fn any_address() -> impl Strategy<Value = IpAddr> {
        prop::sample::select(
            [
                "10.0.0.2",
                "10.0.0.3",
                "10.0.0.255",
                "255.255.255.255",
                "0.0.0.0",
                "127.0.0.1",
                "224.0.0.1",
                "10.0.1.255",
                "fe80::2",
                "fe80::3",
                "2001:db8::2",
                "::",
                "::1",
                "ff02::1",
                "::ffff:a00:2",
                "a00:2::",
            ]
            .map(|text| text.parse().expect("an address"))
            .to_vec(),
        )
    }

    proptest! {
        /// It says what the addresses themselves say.
        #[test]
        fn the_words_of_a_key_say_what_its_addresses_do(
            remote in any_address(), local in any_address(), length in 0_u8..=32, has_four: bool,
        ) {
            prop_assume!(remote.is_ipv4() == local.is_ipv4());
            let four = Cidr::new("10.0.0.2".parse().expect("an address"), length).filter(|_| has_four);
            let six = ["fe80::2", "2001:db8::2"].map(|text| Cidr::new(text.parse().expect("an address"), 64));
            let own: std::vec::Vec<Cidr> = [four].into_iter().chain(six).flatten().collect();
            let is_own = |address| own.iter().any(|own: &Cidr| own.address() == address);
            let expected = is_own(local) && !is_own(remote) && is_station(remote, &own);
            let station = Station::new(Mac::new([2; 6]), &own, 64);
            let key = Key::new((remote, 1), (local, 2));
            prop_assert_eq!(station.can_answer(&key, remote.is_ipv4()), expected, "{} to {}", remote, local);
        }
    }
}
