//! The settings of a stack.

use core::fmt;
use core::net::Ipv4Addr;
use core::str::FromStr;
use culm::time::Duration;
use culm_ip::Cidr;

/// The settings of a stack.
#[derive(Clone, Copy, Debug)]
pub struct Settings {
    /// The IPv4 address and the length of its network's prefix; none: by DHCP.
    pub address: Option<Cidr<Ipv4Addr>>,
    /// Where IPv4 packets for other networks go; with DHCP, the server says.
    pub gateway: Option<Ipv4Addr>,
    /// Whether to speak IPv6.
    pub ipv6: bool,
    /// TCP connections at a time, 65,534 at most. Half-open ones take no place, nor do those that
    /// are over, nor those whose clients are to speak first and have said nothing. 0: neither
    /// side can open one, and no port can be listened on.
    pub connections: usize,
    /// Bytes received and not yet taken, per connection, at first: its window. With connections it
    /// has a byte at least: peers could send nothing.
    pub receive_buffer: usize,
    /// The most of these that a connection gets whose path carries more in a round trip: 64 times
    /// as many at most, and no more than the pool has for its peer. 0: as many as at first.
    pub largest_receive_buffer: usize,
    /// Bytes that connections share for that, from the start of the component on.
    pub receive_pool: usize,
    /// Bytes sent and not yet acknowledged, per connection, of what is copied to be sent. 0: all
    /// that is sent is referred to.
    pub send_buffer: usize,
    /// How long the peer of a connection that the application has released may acknowledge less
    /// than 536 bytes of what was sent to it, and less than all; else it has as long again.
    pub release_timeout: Duration,
}

impl Default for Settings {
    /// DHCP, IPv6, and no TCP connection.
    fn default() -> Self {
        Self {
            address: None,
            gateway: None,
            ipv6: true,
            connections: 0,
            receive_buffer: 4096,
            largest_receive_buffer: 0,
            receive_pool: 0,
            send_buffer: 8192,
            release_timeout: Duration::from_secs(20),
        }
    }
}

/// A text that is no address of the kind asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct InvalidAddress;

impl fmt::Display for InvalidAddress {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(
            "no address of a host: write an address and the length of its network like 10.0.0.2/24, \
             and a gateway of another host in that network like 10.0.0.1",
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
    /// [`InvalidAddress`] where one of them is something else, where no host can have it, and where
    /// the gateway is not another host of the address's network: what `culm check` refuses of a
    /// description.
    pub fn with_addresses(mut self, address: &str, gateway: &str) -> Result<Self, InvalidAddress> {
        self.address = parse::<Cidr<Ipv4Addr>>(address)?;
        self.gateway = parse::<Ipv4Addr>(gateway)?;
        let is_reachable =
            |gateway| self.address.is_some_and(|own: Cidr<Ipv4Addr>| own.has_host(gateway) && gateway != own.address());
        if self.address.is_none_or(|own| own.has_host(own.address())) && self.gateway.is_none_or(is_reachable) {
            Ok(self)
        } else {
            Err(InvalidAddress)
        }
    }

    /// Checks that connections could be used.
    ///
    /// # Panics
    ///
    /// They could not.
    pub(super) fn check(&self) {
        assert!(
            self.connections == 0 || self.receive_buffer > 0,
            "`receive_buffer` is 0 bytes: peers of the stack's connections could send nothing"
        );
    }
}

fn parse<T: FromStr>(text: &str) -> Result<Option<T>, InvalidAddress> {
    if text.is_empty() {
        return Ok(None);
    }
    text.parse().map(Some).map_err(|_| InvalidAddress)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_are_read_or_refused() {
        let settings = Settings::default().with_addresses("10.0.0.2/24", "10.0.0.1").expect("addresses");
        assert_eq!(settings.address, Cidr::new(Ipv4Addr::new(10, 0, 0, 2), 24));
        assert!(Settings::default().with_addresses("", "").expect("none").address.is_none());
        for (address, gateway) in
            [("10.0.0.2/24", ""), ("10.0.0.0/31", "10.0.0.1"), ("10.0.0.1/32", ""), ("10.0.0.255/8", "10.0.1.0")]
        {
            assert!(Settings::default().with_addresses(address, gateway).is_ok(), "{address} {gateway}");
        }
        for (address, gateway) in [
            ("10.0.0.2", ""),
            ("10.0.0.2/33", ""),
            ("", "x"),
            ("224.0.0.1/24", ""),
            ("0.0.0.0/0", ""),
            ("10.0.0.0/24", ""),
            ("10.0.0.255/24", ""),
            ("", "10.0.0.1"),
            ("10.0.0.2/24", "10.0.1.1"),
            ("10.0.0.2/24", "10.0.0.0"),
            ("10.0.0.2/24", "10.0.0.255"),
            ("10.0.0.2/24", "10.0.0.2"),
            ("10.0.0.2/0", "127.0.0.1"),
        ] {
            assert_eq!(
                Settings::default().with_addresses(address, gateway).err(),
                Some(InvalidAddress),
                "{address} {gateway}"
            );
        }
    }
}
