//! The settings of a stack.

use crate::Mac;
use core::fmt;
use core::str::FromStr;
use smoltcp::wire::{Ipv4Address, Ipv4Cidr, Ipv6Address, Ipv6Cidr};

/// The settings of a stack.
#[derive(Clone, Copy, Debug)]
pub struct Settings {
    /// The IPv4 address and the length of its network's prefix; none: by DHCP.
    pub address: Option<Ipv4Cidr>,
    /// Where IPv4 packets for other networks go; with DHCP, the server says.
    pub gateway: Option<Ipv4Address>,
    /// Whether to speak IPv6.
    pub ipv6: bool,
    /// TCP connections at a time, those counted that are over and wait. Half-open ones take no
    /// place.
    pub connections: usize,
    /// Bytes received and not yet taken, per connection.
    pub receive_buffer: usize,
    /// Bytes sent and not yet acknowledged, per connection.
    pub send_buffer: usize,
}

impl Default for Settings {
    /// DHCP, IPv6, and no TCP connection.
    fn default() -> Self {
        Self { address: None, gateway: None, ipv6: true, connections: 0, receive_buffer: 4096, send_buffer: 8192 }
    }
}

/// A text that is no address of the kind asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct InvalidAddress;

impl fmt::Display for InvalidAddress {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(
            "no address: write an address and the length of its network like 10.0.0.2/24, a gateway like 10.0.0.1",
        )
    }
}

impl core::error::Error for InvalidAddress {}

impl Settings {
    /// Takes the address, like `10.0.0.2/24`, and the gateway, like `10.0.0.1`, from texts; empty
    /// ones mean none.
    ///
    /// # Errors
    ///
    /// [`InvalidAddress`] where one of them is something else.
    pub fn with_addresses(mut self, address: &str, gateway: &str) -> Result<Self, InvalidAddress> {
        self.address = parse::<Ipv4Cidr>(address)?;
        self.gateway = parse::<Ipv4Address>(gateway)?;
        let usable =
            |address: Ipv4Address| !address.is_multicast() && !address.is_broadcast() && !address.is_unspecified();
        if self.address.is_none_or(|address| usable(address.address())) && self.gateway.is_none_or(usable) {
            Ok(self)
        } else {
            Err(InvalidAddress)
        }
    }
}

fn parse<T: FromStr>(text: &str) -> Result<Option<T>, InvalidAddress> {
    if text.is_empty() {
        return Ok(None);
    }
    text.parse().map(Some).map_err(|_| InvalidAddress)
}

/// The link-local address that belongs to an Ethernet address (RFC 4291 appendix A, RFC 2464 §4).
pub(super) fn link_local(mac: Mac) -> Ipv6Cidr {
    let [a, b, c, d, e, f] = mac.bytes();
    let address = Ipv6Address::from([0xfe, 0x80, 0, 0, 0, 0, 0, 0, a ^ 2, b, c, 0xff, 0xfe, d, e, f]);
    Ipv6Cidr::new(address, 64)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::string::ToString;

    #[test]
    fn addresses_are_read_or_refused() {
        let settings = Settings::default().with_addresses("10.0.0.2/24", "10.0.0.1").expect("addresses");
        assert_eq!(settings.address, Some(Ipv4Cidr::new(Ipv4Address::new(10, 0, 0, 2), 24)));
        assert!(Settings::default().with_addresses("", "").expect("none").address.is_none());
        for (address, gateway) in
            [("10.0.0.2", ""), ("10.0.0.2/33", ""), ("", "x"), ("224.0.0.1/24", ""), ("0.0.0.0/0", "")]
        {
            assert_eq!(
                Settings::default().with_addresses(address, gateway).err(),
                Some(InvalidAddress),
                "{address} {gateway}"
            );
        }
    }

    #[test]
    fn link_local_addresses_derive_from_the_mac() {
        let address = link_local(Mac::new([0x52, 0x54, 0, 0x12, 0x34, 0x56]));
        assert_eq!(address.to_string(), "fe80::5054:ff:fe12:3456/64");
    }
}
