//! Who is connected to, as the description says it: `www.example:7`, `192.0.2.1:7`,
//! `[2001:db8::1]:7`.

use core::fmt;
use core::net::{IpAddr, SocketAddr};
use core::str::FromStr;
use culm_net::stack::names::Name;

/// A host's port.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Service {
    pub host: Host,
    pub port: u16,
}

/// A host.
#[expect(clippy::large_enum_variant, reason = "there are few, and nothing is boxed")]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Host {
    Address(IpAddr),
    Name(Name),
}

/// A text that says no service.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct InvalidService;

impl fmt::Display for InvalidService {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("write a name or an address, a colon and a port, like www.example:7 or [2001:db8::1]:7")
    }
}

impl FromStr for Service {
    type Err = InvalidService;

    fn from_str(text: &str) -> Result<Self, InvalidService> {
        let service = match text.parse::<SocketAddr>() {
            Ok(address) => Self { host: Host::Address(address.ip()), port: address.port() },
            Err(_) => {
                let (name, port) = text.rsplit_once(':').ok_or(InvalidService)?;
                let is_name = name.bytes().any(|byte| byte.is_ascii_alphabetic()) && !name.contains([':', '[', ']']);
                let name = name.parse().ok().filter(|_| is_name).ok_or(InvalidService)?;
                Self { host: Host::Name(name), port: port.parse().map_err(|_| InvalidService)? }
            }
        };
        if service.port == 0 { Err(InvalidService) } else { Ok(service) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_and_addresses_are_read_or_refused() {
        let read = |text: &str| text.parse::<Service>();
        let name = Host::Name("www.example".parse().expect("a name"));
        assert_eq!(read("www.example:7"), Ok(Service { host: name, port: 7 }));
        let address = Host::Address([192, 0, 2, 1].into());
        assert_eq!(read("192.0.2.1:80"), Ok(Service { host: address, port: 80 }));
        assert!(matches!(read("[2001:db8::1]:7"), Ok(Service { host: Host::Address(IpAddr::V6(_)), port: 7 })));
        for wrong in ["", "www.example", "www.example:", "www.example:0", "192.0.2:7", "2001:db8::1", "a..b:7", ":7"] {
            assert_eq!(read(wrong), Err(InvalidService), "{wrong}");
        }
    }
}
