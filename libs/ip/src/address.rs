//! A host's address together with its network: how many of its bits all hosts of the link share.

use core::fmt;
use core::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use core::str::FromStr;

/// An address and the length of its network's prefix, written like `10.0.0.2/24`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Cidr<A = IpAddr> {
    address: A,
    length: u8,
}

/// Addresses of one version, or of both.
pub trait Address: Copy {
    /// Returns how many bits this address has.
    fn bits(self) -> u8;
}

impl Address for Ipv4Addr {
    fn bits(self) -> u8 {
        32
    }
}

impl Address for Ipv6Addr {
    fn bits(self) -> u8 {
        128
    }
}

impl Address for IpAddr {
    fn bits(self) -> u8 {
        if self.is_ipv4() { 32 } else { 128 }
    }
}

impl<A: Address> Cidr<A> {
    /// An address in a network whose prefix has `length` bits; `None` if an address has fewer.
    pub fn new(address: A, length: u8) -> Option<Self> {
        (length <= address.bits()).then_some(Self { address, length })
    }

    /// Returns the address.
    pub fn address(self) -> A {
        self.address
    }

    /// Returns how many bits the network's prefix has.
    pub fn length(self) -> u8 {
        self.length
    }
}

impl Cidr<Ipv4Addr> {
    /// Returns the bits of an address that are the network's.
    fn mask(self) -> u32 {
        u32::MAX.checked_shl(32 - u32::from(self.length)).unwrap_or(0)
    }

    /// Returns whether `other` is of the same network, and so on the link.
    pub fn contains(self, other: Ipv4Addr) -> bool {
        (self.address.to_bits() ^ other.to_bits()) & self.mask() == 0
    }

    /// Returns whether `destination` is everybody of this network: all bits behind the prefix are
    /// ones (RFC 919 §7). Networks of two hosts have no such address (RFC 3021 §2.1).
    pub fn is_everybody(self, destination: Ipv4Addr) -> bool {
        self.length < 31 && self.contains(destination) && destination.to_bits() | self.mask() == u32::MAX
    }

    /// Returns whether `address` can be that of a host of this network: one of its addresses that
    /// means neither everybody nor, with zeros behind the prefix, the network itself (RFC 1122
    /// §3.2.1.3; RFC 3021 §2.1).
    pub fn has_host(self, address: Ipv4Addr) -> bool {
        let is_network = self.length < 31 && address.to_bits() & !self.mask() == 0;
        is_host(address) && self.contains(address) && !self.is_everybody(address) && !is_network
    }
}

impl Cidr {
    /// Does what [`Cidr::<Ipv4Addr>::is_everybody`] does; of no network of IPv6 is there such an
    /// address.
    pub fn is_everybody(self, destination: Ipv4Addr) -> bool {
        match self.address {
            IpAddr::V4(address) => Cidr { address, length: self.length }.is_everybody(destination),
            IpAddr::V6(_) => false,
        }
    }
}

impl From<Cidr<Ipv4Addr>> for Cidr {
    fn from(cidr: Cidr<Ipv4Addr>) -> Self {
        Self { address: cidr.address.into(), length: cidr.length }
    }
}

impl From<Cidr<Ipv6Addr>> for Cidr {
    fn from(cidr: Cidr<Ipv6Addr>) -> Self {
        Self { address: cidr.address.into(), length: cidr.length }
    }
}

impl<A: fmt::Display> fmt::Display for Cidr<A> {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "{}/{}", self.address, self.length)
    }
}

/// A text that is no address with the length of its network's prefix.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct InvalidCidr;

impl<A: Address + FromStr> FromStr for Cidr<A> {
    type Err = InvalidCidr;

    fn from_str(text: &str) -> Result<Self, InvalidCidr> {
        let (address, length) = text.split_once('/').ok_or(InvalidCidr)?;
        let is_number = length.bytes().all(|byte| byte.is_ascii_digit());
        let length = length.parse().ok().filter(|_| is_number).ok_or(InvalidCidr)?;
        Self::new(address.parse().map_err(|_| InvalidCidr)?, length).ok_or(InvalidCidr)
    }
}

/// Returns whether `address` can be that of one host of an IPv4 network: not "this network", not
/// the loopback, no group and no broadcast address (RFC 1122 §3.2.1.3).
pub fn is_host(address: Ipv4Addr) -> bool {
    let [first, ..] = address.octets();
    first != 0 && first != 127 && first < 224
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::string::ToString;

    fn network(text: &str) -> Cidr<Ipv4Addr> {
        text.parse().expect("an address and its network")
    }

    fn address(text: &str) -> Ipv4Addr {
        text.parse().expect("an address")
    }

    #[test]
    fn a_network_has_those_with_its_prefix() {
        let cidr = network("10.1.2.3/20");
        assert!(cidr.contains(address("10.1.15.255")) && !cidr.contains(address("10.1.16.0")));
        assert!(cidr.is_everybody(address("10.1.15.255")) && !cidr.is_everybody(address("10.1.2.255")));
        assert!(network("10.0.0.1/0").contains(address("192.0.2.1")));
        assert!(!network("10.0.0.1/32").contains(address("10.0.0.2")));
        assert!(!network("10.0.0.1/31").is_everybody(address("10.0.0.1")));
    }

    #[test]
    fn hosts_of_a_network_have_addresses_of_their_own() {
        for (own, other, expected) in [
            ("10.1.2.3/20", "10.1.15.254", true),
            ("10.1.2.3/20", "10.1.15.255", false),
            ("10.1.2.3/20", "10.1.0.0", false),
            ("10.1.2.3/20", "10.1.16.1", false),
            ("10.0.0.0/31", "10.0.0.0", true),
            ("10.0.0.0/31", "10.0.0.1", true),
            ("10.0.0.1/32", "10.0.0.1", true),
            ("10.0.0.1/0", "192.0.2.1", true),
            ("10.0.0.1/0", "127.0.0.1", false),
        ] {
            assert_eq!(network(own).has_host(address(other)), expected, "{own} {other}");
        }
    }

    #[test]
    fn texts_are_read_as_they_are_written() {
        assert_eq!(network("10.0.0.2/24").to_string(), "10.0.0.2/24");
        for text in ["10.0.0.2", "10.0.0.2/33", "10.0.0.2/", "10.0.0.2/+4", "/24", "10.0.0/24", "fe80::1/64"] {
            assert_eq!(text.parse::<Cidr<Ipv4Addr>>(), Err(InvalidCidr), "{text}");
        }
        assert_eq!("fe80::1/64".parse::<Cidr>().map(Cidr::length), Ok(64));
    }

    #[test]
    fn hosts_are_neither_groups_nor_all_nor_none() {
        for (text, expected) in [
            ("10.0.0.1", true),
            ("0.0.0.9", false),
            ("127.0.0.1", false),
            ("224.0.0.1", false),
            ("255.255.255.255", false),
        ] {
            assert_eq!(is_host(address(text)), expected, "{text}");
        }
    }
}
