//! What the system file says, read.

use crate::Config;
use alloc::vec::Vec;
use core::fmt;
use core::net::{IpAddr, Ipv4Addr};
use culm_dns::Servers;
use culm_ip::{Cidr, LinkAddress, dhcp, is_host};

/// Addresses that are leased at most.
const LONGEST_RANGE: u32 = 1024;

/// What is leased, and who is asked.
pub struct Settings {
    pub leases: dhcp::server::Settings,
    pub reserved: Vec<(LinkAddress, Ipv4Addr)>,
    pub name_servers: Servers,
}

/// Why it cannot be used.
#[derive(Debug, PartialEq, Eq)]
pub enum Unusable {
    Address(&'static str),
    Network(&'static str),
    Reservation(&'static str),
}

impl fmt::Display for Unusable {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Address(text) => write!(formatter, "{text:?} is no IPv4 address of a host, like 10.0.3.1"),
            Self::Network(text) => write!(formatter, "{text:?} is no address with its prefix, like 10.0.3.2/24"),
            Self::Reservation(text) => {
                write!(formatter, "{text:?} is no station and its address, like \"52:54:00:00:00:07 10.0.3.7\"")
            }
        }
    }
}

impl Settings {
    /// Reads the configuration.
    pub fn read(config: &Config) -> Result<Self, Unusable> {
        let own: Cidr<Ipv4Addr> = config.address.parse().map_err(|_| Unusable::Network(config.address))?;
        let servers: Result<Vec<IpAddr>, _> =
            config.name_servers.iter().map(|text| host(text).map(IpAddr::from)).collect();
        let reserved: Result<_, _> = config.reserved.iter().map(reservation).collect();
        let leases = dhcp::server::Settings {
            own,
            first: host(config.first)?,
            last: host(config.last)?,
            router: Some(host(config.router)?),
            name_server: Some(own.address()),
            lease: config.lease.as_secs() as u32,
        };
        Ok(Self { leases, reserved: reserved?, name_servers: Servers::new(servers?) })
    }

    /// How many addresses are leased.
    pub fn places(&self) -> usize {
        let count = self.leases.last.to_bits().saturating_sub(self.leases.first.to_bits()).saturating_add(1);
        count.min(LONGEST_RANGE) as usize
    }
}

fn host(text: &'static str) -> Result<Ipv4Addr, Unusable> {
    text.parse().ok().filter(|address| is_host(*address)).ok_or(Unusable::Address(text))
}

/// Reads a station and its address, with a space between.
fn reservation(text: &'static str) -> Result<(LinkAddress, Ipv4Addr), Unusable> {
    let read = || {
        let (station, address) = text.split_once(' ')?;
        let mut bytes = [0; 6];
        let mut parts = station.split(':');
        for byte in &mut bytes {
            *byte = parts.next().filter(|part| part.len() == 2).and_then(|part| u8::from_str_radix(part, 16).ok())?;
        }
        let link = LinkAddress(bytes);
        (parts.next().is_none() && link.is_station()).then_some((link, host(address.trim()).ok()?))
    };
    read().ok_or(Unusable::Reservation(text))
}
