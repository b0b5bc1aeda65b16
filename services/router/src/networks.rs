//! The networks that the router is on: its own addresses, and the way to every other one.

use alloc::vec::Vec;
use core::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use culm_ip::LinkAddress;

/// An address of the router's, and the network that it is on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Address<A> {
    /// The address.
    pub address: A,
    /// Bits of it that all addresses of the network have in common.
    pub prefix: u8,
}

impl<A: core::str::FromStr> Address<A> {
    /// Reads `10.0.0.1/24` or `2001:db8::1/64`; `None` if it is neither.
    pub fn parse(text: &str) -> Option<Self> {
        let (address, prefix) = text.split_once('/')?;
        Some(Self { address: address.parse().ok()?, prefix: prefix.parse().ok()? })
    }
}

/// A network on one of the router's cards.
#[derive(Clone, Copy, Debug)]
pub struct Network {
    /// Its name in the rules.
    pub name: &'static str,
    /// The router's station on it.
    pub link: LinkAddress,
    /// The router's address of IPv4.
    pub v4: Option<Address<Ipv4Addr>>,
    /// The router's address of IPv6, besides the link-local one.
    pub v6: Option<Address<Ipv6Addr>>,
    /// Bytes of the longest packet that it carries.
    pub mtu: u16,
}

/// Where a packet goes next.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Way {
    /// The number of the network.
    pub network: usize,
    /// The neighbour on it that gets the packet.
    pub next: IpAddr,
}

/// All networks, in the order of their cards.
#[derive(Clone, Debug)]
pub struct Networks {
    networks: Vec<Network>,
    gateway4: Option<Ipv4Addr>,
    gateway6: Option<Ipv6Addr>,
}

impl Network {
    /// Returns the link-local address that the router has on it (RFC 4291 §2.5.6).
    pub fn link_local(&self) -> Ipv6Addr {
        Ipv6Addr::from_bits(0xfe80 << 112 | u128::from(self.link.interface_identifier()))
    }

    /// Returns the router's address from which `to` is told of something.
    pub fn own(&self, to: IpAddr) -> Option<IpAddr> {
        match to {
            IpAddr::V4(_) => self.v4.map(|own| own.address.into()),
            IpAddr::V6(to) if to.is_unicast_link_local() => Some(self.link_local().into()),
            IpAddr::V6(_) => Some(self.v6.map_or_else(|| self.link_local(), |own| own.address).into()),
        }
    }

    /// Returns whether a host with this address would be on the network, and how many bits say so.
    fn has(&self, address: IpAddr) -> Option<u8> {
        match address {
            IpAddr::V4(address) => {
                let own = self.v4?;
                let differ = (address.to_bits() ^ own.address.to_bits()).leading_zeros();
                (differ >= own.prefix.into()).then_some(own.prefix)
            }
            IpAddr::V6(address) => {
                let own = self.v6?;
                let differ = (address.to_bits() ^ own.address.to_bits()).leading_zeros();
                (differ >= own.prefix.into()).then_some(own.prefix)
            }
        }
    }

    /// Returns whether `address` means all hosts of the network, or the network itself, which old
    /// hosts take for the same (RFC 1812 §4.2.3.1, §5.3.5.2).
    fn is_for_all(&self, address: Ipv4Addr) -> bool {
        let Some(own) = self.v4 else { return false };
        let hosts = u32::MAX.checked_shr(own.prefix.into()).unwrap_or(0);
        // On a link of two hosts or one (RFC 3021) every address is a host's.
        own.prefix <= 30
            && (address.to_bits() ^ own.address.to_bits()) & !hosts == 0
            && [0, hosts].contains(&(address.to_bits() & hosts))
    }
}

impl Networks {
    /// These networks, and the routers to everything else.
    pub fn new(networks: Vec<Network>, gateway4: Option<Ipv4Addr>, gateway6: Option<Ipv6Addr>) -> Self {
        Self { networks, gateway4, gateway6 }
    }

    /// Returns a network by its number.
    pub fn get(&self, number: usize) -> Option<&Network> {
        self.networks.get(number)
    }

    /// Returns all networks.
    pub fn all(&self) -> &[Network] {
        &self.networks
    }

    /// Returns the number of the network on which the router has this address. Link-local ones are
    /// asked for by [`Network::link_local`]: they mean something on one network only.
    pub fn owner(&self, address: IpAddr) -> Option<usize> {
        self.networks.iter().position(|network| match address {
            IpAddr::V4(address) => network.v4.is_some_and(|own| own.address == address),
            IpAddr::V6(address) => network.v6.is_some_and(|own| own.address == address),
        })
    }

    /// Returns whether `address` means all hosts of one of the networks.
    pub fn is_for_all(&self, address: IpAddr) -> bool {
        match address {
            IpAddr::V4(address) => self.networks.iter().any(|network| network.is_for_all(address)),
            IpAddr::V6(_) => false,
        }
    }

    /// Returns the way to an address: over the network that it is on, the one with the longest
    /// prefix if several say so, else over the gateway.
    pub fn way(&self, to: IpAddr) -> Option<Way> {
        if let Some(network) = self.direct(to) {
            return Some(Way { network, next: to });
        }
        let next: IpAddr = match to {
            IpAddr::V4(_) => self.gateway4?.into(),
            IpAddr::V6(_) => self.gateway6?.into(),
        };
        let is_link_local = matches!(next, IpAddr::V6(next) if next.is_unicast_link_local());
        // The first network is the one outside.
        let network = if is_link_local { 0 } else { self.direct(next)? };
        Some(Way { network, next })
    }

    /// Returns whether packets of IPv6 to everywhere have a next hop.
    pub fn has_gateway6(&self) -> bool {
        self.gateway6.is_some()
    }

    fn direct(&self, to: IpAddr) -> Option<usize> {
        let mut best: Option<(u8, usize)> = None;
        for (number, network) in self.networks.iter().enumerate() {
            if let Some(prefix) = network.has(to)
                && best.is_none_or(|(longest, _)| prefix > longest)
            {
                best = Some((prefix, number));
            }
        }
        best.map(|(_, number)| number)
    }
}

/// Returns whether no host has this address, so that nothing comes from it (RFC 1812 §5.3.7,
/// RFC 4291 §2.5).
pub fn is_nobody(address: IpAddr) -> bool {
    match address {
        IpAddr::V4(address) => matches!(address.octets(), [0 | 127 | 224..=255, ..]),
        IpAddr::V6(address) => {
            // An address of IPv4 in one of IPv6 is for within hosts (RFC 4291 §2.5.5).
            let is_of_v4 = address.to_bits() >> 32 <= 0xffff;
            address.is_multicast() || is_of_v4
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn networks() -> Networks {
        let network = |name, last, v4, v6| Network {
            name,
            link: LinkAddress([2, 0, 0, 0, 0, last]),
            v4: Address::parse(v4),
            v6: Address::parse(v6),
            mtu: 1500,
        };
        let outer = network("outer", 1, "192.0.2.2/24", "2001:db8::2/64");
        let inner = network("inner", 2, "10.0.1.1/16", "2001:db8:1::1/48");
        let dmz = network("dmz", 3, "10.0.2.1/24", "2001:db8:1:2::1/64");
        let link = network("link", 4, "10.1.0.0/31", "none");
        Networks::new(Vec::from([outer, inner, dmz, link]), "192.0.2.1".parse().ok(), "fe80::1".parse().ok())
    }

    fn address(text: &str) -> IpAddr {
        text.parse().expect("an address")
    }

    #[test]
    fn the_longest_prefix_is_the_way() {
        let networks = networks();
        let way = |to: &str| networks.way(address(to)).map(|way| (way.network, way.next));
        for (to, network) in
            [("10.0.9.9", 1), ("10.0.2.9", 2), ("10.1.0.1", 3), ("2001:db8:1:1::9", 1), ("2001:db8:1:2::9", 2)]
        {
            assert_eq!(way(to), Some((network, address(to))), "{to}");
        }
        assert_eq!(way("198.51.100.1"), Some((0, address("192.0.2.1"))));
        assert_eq!(way("2001:db8:9::1"), Some((0, address("fe80::1"))));
        let without = Networks::new(networks.all().into(), None, None);
        assert_eq!(without.way(address("198.51.100.1")), None);
    }

    #[test]
    fn own_addresses_and_those_of_all_are_told_apart() {
        let networks = networks();
        assert_eq!(networks.owner(address("10.0.2.1")), Some(2));
        assert_eq!(networks.owner(address("10.0.2.2")), None);
        for all in ["10.0.255.255", "10.0.0.0", "10.0.2.255", "192.0.2.255"] {
            assert!(networks.is_for_all(address(all)), "{all}");
        }
        for one in ["10.1.0.0", "10.1.0.1", "10.0.2.3", "198.51.100.255"] {
            assert!(!networks.is_for_all(address(one)), "{one}");
        }
    }

    #[test]
    fn errors_come_from_an_address_that_their_receiver_can_reach() {
        let networks = networks();
        let own = |number: usize, to: &str| networks.get(number).and_then(|network| network.own(address(to)));
        assert_eq!(own(1, "10.0.9.9"), Some(address("10.0.1.1")));
        assert_eq!(own(1, "2001:db8:1:1::9"), Some(address("2001:db8:1::1")));
        assert_eq!(own(1, "fe80::9"), Some(address("fe80::ff:fe00:2")));
        assert_eq!(own(3, "2001:db8:1:1::9"), Some(address("fe80::ff:fe00:4")));
    }

    #[test]
    fn nobody_has_addresses_of_groups_and_of_hosts_themselves() {
        for nobody in ["0.1.2.3", "127.0.0.1", "224.0.0.1", "255.255.255.255", "240.0.0.1", "::", "::1", "ff02::1"] {
            assert!(is_nobody(address(nobody)), "{nobody}");
        }
        assert!(is_nobody(address("::ffff:10.0.0.1")));
        for host in ["1.2.3.4", "223.255.255.255", "10.0.0.1", "fe80::1", "2001:db8::1"] {
            assert!(!is_nobody(address(host)), "{host}");
        }
    }
}
