//! Ports of the host that lead to ports of the guest.

use crate::failure::Failure;
use crate::plan::{ConfigValue, ConnectionData, Plan};
use std::collections::BTreeSet;
use std::fmt;
use std::net::{TcpListener, UdpSocket};
use std::str::FromStr;

/// A transport protocol.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Protocol {
    /// TCP.
    Tcp,
    /// UDP.
    Udp,
}

impl fmt::Display for Protocol {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(match self {
            Self::Tcp => "tcp",
            Self::Udp => "udp",
        })
    }
}

/// One port of the host that leads to one of the guest.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Forward {
    /// The transport protocol.
    pub protocol: Protocol,
    /// Port of this machine's loopback address.
    pub host: u16,
    /// Port of the guest.
    pub guest: u16,
}

impl FromStr for Forward {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let (protocol, ports) = match text.split_once(':') {
            Some(("tcp", ports)) => (Protocol::Tcp, ports),
            Some(("udp", ports)) => (Protocol::Udp, ports),
            _ => (Protocol::Tcp, text),
        };
        let port = |text: &str| text.parse::<u16>().ok().filter(|&port| port > 0);
        ports
            .split_once(':')
            .and_then(|(host, guest)| Some(Self { protocol, host: port(host)?, guest: port(guest)? }))
            .ok_or_else(|| {
                "expected HOST:GUEST or udp:HOST:GUEST, two ports from 1 to 65535, for example 8080:80".to_string()
            })
    }
}

impl Forward {
    /// The value that QEMU's user networking takes for it.
    pub fn qemu(&self) -> String {
        format!("hostfwd={}:127.0.0.1:{}-:{}", self.protocol, self.host, self.guest)
    }

    /// Whether nobody else has the host's port.
    fn is_free(&self) -> bool {
        match self.protocol {
            Protocol::Tcp => TcpListener::bind(("127.0.0.1", self.host)).is_ok(),
            Protocol::Udp => UdpSocket::bind(("127.0.0.1", self.host)).is_ok(),
        }
    }
}

/// Refuses ports that another program has.
pub fn check(forwards: &[Forward]) -> Result<(), Failure> {
    match forwards.iter().find(|forward| !forward.is_free()) {
        None => Ok(()),
        Some(taken) => Err(Failure::new(format!(
            "{} port {} of this machine is taken, or this user may not have it",
            taken.protocol, taken.host
        ))
        .help(format!("choose another: --forward {}:{}", FREE_EXAMPLE, taken.guest))),
    }
}

const FREE_EXAMPLE: u16 = 18080;

/// What is forwarded where the command line says nothing: the `port` of each network client, by TCP and UDP. Ports
/// below 1024 are raised by 8000, so that 80 is found at 8080; where a port is taken, the next free one is used.
pub fn defaults(plan: &Plan) -> Vec<Forward> {
    let is_client = |data: &ConnectionData| matches!(data, ConnectionData::NetClient { .. });
    let mut ports = BTreeSet::new();
    for (id, domain) in plan.domains.iter().enumerate() {
        if !domain.connections.iter().any(|connection| is_client(&connection.data)) {
            continue;
        }
        let fields = plan.component_of(id).manifest.config.iter().zip(&domain.config);
        ports.extend(fields.filter(|(field, _)| field.name == "port").filter_map(|(_, value)| match value {
            ConfigValue::Unsigned(port) => u16::try_from(*port).ok(),
            _ => None,
        }));
    }
    let mut forwards = Vec::new();
    for guest in ports {
        for protocol in [Protocol::Tcp, Protocol::Udp] {
            let wanted = match guest {
                80 => 8080,
                0..1024 => guest + 8000,
                _ => guest,
            };
            let candidates = (wanted..=u16::MAX).take(100).map(|host| Forward { protocol, host, guest });
            forwards.extend(candidates.into_iter().find(Forward::is_free));
        }
    }
    forwards
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn forwards_are_read_as_the_help_says() {
        let forward = |text: &str| text.parse::<Forward>().map(|forward| forward.qemu());
        assert_eq!(forward("8080:80").as_deref(), Ok("hostfwd=tcp:127.0.0.1:8080-:80"));
        assert_eq!(forward("udp:7007:7").as_deref(), Ok("hostfwd=udp:127.0.0.1:7007-:7"));
        for wrong in ["", "80", "0:80", "8080:", "sctp:1:2", "70000:1", "1:2:3"] {
            assert!(forward(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn a_taken_port_is_refused_with_another() {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a free port");
        let host = listener.local_addr().expect("an address").port();
        let failure = check(&[Forward { protocol: Protocol::Tcp, host, guest: 80 }]).expect_err("taken").to_string();
        assert!(failure.contains(&format!("tcp port {host}")) && failure.contains("--forward"), "{failure}");
    }
}
