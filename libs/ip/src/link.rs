//! Addresses of Ethernet stations, and which of them carry IP's multicasts.

use core::fmt;
use core::net::{IpAddr, Ipv6Addr};

/// The address of a station, or of a group of them (IEEE 802.3 §3.2.3).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct LinkAddress(pub [u8; 6]);

impl LinkAddress {
    /// Every station.
    pub const BROADCAST: Self = Self([0xff; 6]);

    /// Returns whether this is the address of a single station: neither a group's nor zero, which
    /// no station has.
    pub fn is_station(self) -> bool {
        self.0[0] & 1 == 0 && self.0 != [0; 6]
    }

    /// Returns the group that carries packets to the multicast or broadcast address `address`
    /// (RFC 1112 §6.4, RFC 2464 §7); `None` for an address of one host.
    pub fn of_group(address: IpAddr) -> Option<Self> {
        match address {
            IpAddr::V4(address) if address.is_broadcast() => Some(Self::BROADCAST),
            IpAddr::V4(address) if address.is_multicast() => {
                let [_, b, c, d] = address.octets();
                Some(Self([0x01, 0x00, 0x5e, b & 0x7f, c, d]))
            }
            IpAddr::V6(address) if address.is_multicast() => {
                let [.., a, b, c, d] = address.octets();
                Some(Self([0x33, 0x33, a, b, c, d]))
            }
            IpAddr::V4(_) | IpAddr::V6(_) => None,
        }
    }

    /// Returns the identifier that stateless autoconfiguration appends to a prefix (modified
    /// EUI-64, RFC 2464 §4).
    pub const fn interface_identifier(self) -> u64 {
        let [a, b, c, d, e, f] = self.0;
        u64::from_be_bytes([a ^ 0x02, b, c, 0xff, 0xfe, d, e, f])
    }
}

impl fmt::Display for LinkAddress {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let [a, b, c, d, e, f] = self.0;
        write!(formatter, "{a:02x}:{b:02x}:{c:02x}:{d:02x}:{e:02x}:{f:02x}")
    }
}

/// All nodes of the link (RFC 4291 §2.7.1).
pub const ALL_NODES: Ipv6Addr = Ipv6Addr::new(0xff02, 0, 0, 0, 0, 0, 0, 1);

/// All routers of the link (RFC 4291 §2.7.1).
pub const ALL_ROUTERS: Ipv6Addr = Ipv6Addr::new(0xff02, 0, 0, 0, 0, 0, 0, 2);

/// Returns the group in which whoever has `address` is asked for (RFC 4291 §2.7.1).
pub const fn solicited_node(address: Ipv6Addr) -> Ipv6Addr {
    let [.., low] = address.segments();
    let [.., a, _, _] = address.octets();
    Ipv6Addr::new(0xff02, 0, 0, 0, 0, 1, 0xff00 | a as u16, low)
}

#[cfg(test)]
mod tests {
    use super::*;
    use core::net::Ipv4Addr;
    use std::string::ToString;

    #[test]
    fn groups_have_the_addresses_of_the_standards() {
        let group = |text: &str| LinkAddress::of_group(text.parse().expect("an address")).map(|link| link.to_string());
        assert_eq!(group("224.129.2.3").as_deref(), Some("01:00:5e:01:02:03"));
        assert_eq!(group("255.255.255.255").as_deref(), Some("ff:ff:ff:ff:ff:ff"));
        assert_eq!(group("ff02::1:ff12:3456").as_deref(), Some("33:33:ff:12:34:56"));
        assert_eq!(group("10.0.0.1"), None);
        assert_eq!(group("fe80::1"), None);
        assert_eq!(LinkAddress::of_group(Ipv4Addr::new(10, 0, 0, 255).into()), None, "the mask decides, unknown here");
    }

    #[test]
    fn who_has_an_address_is_asked_for_in_its_group() {
        let address = "2001:db8::1:abcd:ef01".parse().expect("an address");
        assert_eq!(solicited_node(address).to_string(), "ff02::1:ffcd:ef01");
    }

    #[test]
    fn groups_and_zero_are_no_stations() {
        assert!(LinkAddress([2, 0, 0, 0, 0, 1]).is_station());
        assert!(!LinkAddress([3, 0, 0, 0, 0, 1]).is_station());
        assert!(!LinkAddress([0; 6]).is_station());
        assert_eq!(LinkAddress([0x52, 0x54, 0, 0x12, 0x34, 0x56]).interface_identifier(), 0x5054_00ff_fe12_3456);
    }
}
