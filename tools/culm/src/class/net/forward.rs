//! Ports of the host that lead to ports of the guest.

use super::cards::cards;
use crate::failure::Failure;
use crate::plan::{ConfigValue, ConnectionData, DomainId, Plan};
use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::net::{Ipv4Addr, TcpListener, UdpSocket};
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
    /// Address of the guest, of which there are as many as it has network clients. It also says to
    /// which card the port leads ([`Forward::card`]).
    pub address: Ipv4Addr,
    /// Port of the guest.
    pub guest: u16,
}

/// The third byte of the addresses in the network of the first card, 10.0.2.0/24, which is QEMU's
/// own choice. Each further card has the next one.
const FIRST_NETWORK: u8 = 2;

/// The network of a card, by its place among the cards.
pub fn network(card: usize) -> String {
    let [a, b, c, _] = address(card, 0).octets();
    format!("{a}.{b}.{c}.0/24")
}

/// The address that QEMU's own network of a card gives to the client which asks as the one after
/// `before` others.
fn address(card: usize, before: usize) -> Ipv4Addr {
    // It gives out 16 addresses, from this one on (QEMU's manual, "Using the user mode network
    // stack").
    Ipv4Addr::new(10, 0, FIRST_NETWORK.saturating_add(card.min(255) as u8), 15 + before.min(15) as u8)
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
        let parts: Vec<&str> = ports.split(':').collect();
        let forward = match parts[..] {
            [host, guest] => port(host).zip(port(guest)).map(|(host, guest)| (host, address(0, 0), guest)),
            [host, address, guest] => port(host)
                .zip(address.parse().ok())
                .zip(port(guest))
                .map(|((host, address), guest)| (host, address, guest)),
            _ => None,
        };
        let (host, address, guest) = forward.ok_or(
            "expected HOST:GUEST or udp:HOST:GUEST, two ports from 1 to 65535, for example 8080:80; \
             or HOST:ADDRESS:GUEST, for example 8080:10.0.2.16:80",
        )?;
        Ok(Self { protocol, host, address, guest })
    }
}

impl Forward {
    /// The value that QEMU's user networking takes for it.
    pub fn qemu(&self) -> String {
        format!("hostfwd={}:127.0.0.1:{}-{}:{}", self.protocol, self.host, self.address, self.guest)
    }

    /// The place among the cards of the one to which it leads: that whose network has the address,
    /// else the first.
    pub fn card(&self) -> usize {
        match self.address.octets() {
            [10, 0, network, _] => network.saturating_sub(FIRST_NETWORK).into(),
            _ => 0,
        }
    }

    /// The same forward from the next host port that is free, not the debugger's and none of
    /// `others`; `None` where none of a hundred is.
    fn next_free(self, debugger: Option<u16>, others: &[Self]) -> Option<Self> {
        let candidates = (self.host..=u16::MAX).take(100).map(|host| Self { host, ..self });
        let is_taken = |new: &Self| others.iter().any(|old| (old.protocol, old.host) == (new.protocol, new.host));
        let mut candidates = candidates.filter(|forward| Some(forward.host) != debugger && !is_taken(forward));
        candidates.find(Self::is_free)
    }

    /// Whether nobody else has the host's port.
    fn is_free(&self) -> bool {
        match self.protocol {
            Protocol::Tcp => TcpListener::bind(("127.0.0.1", self.host)).is_ok(),
            Protocol::Udp => UdpSocket::bind(("127.0.0.1", self.host)).is_ok(),
        }
    }
}

/// As it is written on the command line.
impl fmt::Display for Forward {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.protocol == Protocol::Udp {
            formatter.write_str("udp:")?;
        }
        match self.address == address(0, 0) {
            true => write!(formatter, "{}:{}", self.host, self.guest),
            false => write!(formatter, "{}:{}:{}", self.host, self.address, self.guest),
        }
    }
}

/// Refuses ports that another program has, an earlier one of these forwards, or the debugger.
pub fn check(forwards: &[Forward], debugger: Option<u16>) -> Result<(), Failure> {
    if let Some(port) = debugger {
        check_debugger(port, forwards)?;
    }
    for (index, forward) in forwards.iter().enumerate() {
        let is_same = |other: &&Forward| (other.protocol, other.host) == (forward.protocol, forward.host);
        if let Some(other) = forwards[..index].iter().find(is_same) {
            return Err(Failure::new(format!(
                "{} port {} of this machine cannot lead to both {}:{} and {}:{}",
                forward.protocol, forward.host, other.address, other.guest, forward.address, forward.guest
            ))
            .help("give each a port of its own"));
        }
        if !forward.is_free() {
            let failure = Failure::new(format!(
                "{} port {} of this machine is taken, or this user may not have it",
                forward.protocol, forward.host
            ));
            // Ports below that are the superuser's.
            let from = Forward { host: forward.host.max(1024), ..*forward };
            return Err(match from.next_free(debugger, forwards) {
                Some(free) => failure.help(format!("this one is free: --forward {free}")),
                None => failure.help("choose another"),
            });
        }
    }
    Ok(())
}

/// A debugger connects to this port of 127.0.0.1, so that nobody else can have it.
fn check_debugger(port: u16, forwards: &[Forward]) -> Result<(), Failure> {
    let own = Forward { protocol: Protocol::Tcp, host: port, address: address(0, 0), guest: port };
    let is_other = |forward: &&Forward| (forward.protocol, forward.host) == (own.protocol, own.host);
    let problem = match forwards.iter().find(is_other) {
        Some(other) => {
            format!("tcp port {port} of this machine cannot be both the debugger's and lead to {}", other.guest)
        }
        None if own.is_free() => return Ok(()),
        None => format!("tcp port {port} of this machine, for the debugger, is taken, or this user may not have it"),
    };
    let is_unused = |host: &u16| {
        let forward = Forward { host: *host, ..own };
        forward.is_free() && !forwards.iter().any(|other| (other.protocol, other.host) == (own.protocol, *host))
    };
    // Ports below that are the superuser's.
    let advice = match (port.max(1024)..=u16::MAX).take(100).find(is_unused) {
        Some(free) => format!("this one is free: --gdb {free}"),
        None => "choose another".to_string(),
    };
    Err(Failure::new(problem).help(advice))
}

/// Returns what is forwarded if the command line says nothing: the `port` of each network client,
/// by TCP and UDP, through each of its cards that `is_user` says to be on QEMU's own network. Ports
/// below 1024 are raised by 8000, so that 80 is found at 8080; where a port is taken, the next free
/// one is used. Of several clients of a card with the same port each has an address, and a port
/// that leads to it: the one that the description gives it, if it does. The debugger's port is none
/// of them.
pub fn defaults(plan: &Plan, debugger: Option<u16>, is_user: impl Fn(usize) -> bool) -> Vec<Forward> {
    let clients: Vec<BTreeSet<usize>> = clients(plan).map(|id| cards_of(plan, id)).collect();
    let cards = cards(&plan.devices).len();
    let mut forwards = Vec::<Forward>::new();
    for (guest, servers) in ports(plan) {
        let (fixed, servers): (Vec<_>, Vec<_>) = servers.into_iter().partition(|id| fixed_address(plan, *id).is_some());
        let fixed: Vec<(usize, Ipv4Addr)> = fixed.into_iter().filter_map(|id| fixed_address(plan, id)).collect();
        let servers: Vec<BTreeSet<usize>> = servers.into_iter().map(|id| cards_of(plan, id)).collect();
        let on = |card: usize, all: &[BTreeSet<usize>]| all.iter().filter(|cards| cards.contains(&card)).count();
        for protocol in [Protocol::Tcp, Protocol::Udp] {
            let mut host = match guest {
                80 => 8080,
                0..1024 => guest + 8000,
                _ => guest,
            };
            for card in (0..cards).filter(|card| is_user(*card)) {
                // Which client gets which address is known only at run time. If exactly one client
                // of the card has this port, assume the first address: it usually asks first.
                // Hazard: if another client asks first, the forward leads to the wrong one.
                let addresses = match on(card, &servers) {
                    several @ 2.. => on(card, &clients).max(several),
                    one_or_none => one_or_none,
                };
                let fixed = fixed.iter().filter(|(on, _)| *on == card).map(|(_, address)| *address);
                for address in fixed.chain((0..addresses).map(|before| address(card, before))) {
                    let wanted = Forward { protocol, host, address, guest };
                    let Some(forward) = wanted.next_free(debugger, &forwards) else { break };
                    host = forward.host.saturating_add(1);
                    forwards.push(forward);
                }
            }
        }
    }
    forwards
}

/// The card in whose network of QEMU's the address is that the description gives a domain, and the
/// address; `None` where it gives none, or one of another network.
fn fixed_address(plan: &Plan, id: DomainId) -> Option<(usize, Ipv4Addr)> {
    let mut fields = plan.component_of(id).manifest.config.iter().zip(&plan.domains[id].config);
    let (_, value) = fields.find(|(field, _)| field.name == "address")?;
    let ConfigValue::Text(text) = value else { return None };
    let address: Ipv4Addr = text.split('/').next()?.parse().ok()?;
    let card =
        (0..cards(&plan.devices).len()).find(|card| self::address(*card, 0).octets()[..3] == address.octets()[..3])?;
    cards_of(plan, id).contains(&card).then_some((card, address))
}

/// The providers of the network whose client a domain is, by name.
fn providers(plan: &Plan, domain: DomainId) -> impl Iterator<Item = &str> {
    let connections = plan.domains.get(domain).map_or(&[][..], |domain| &domain.connections);
    let is_client = |data: &ConnectionData| matches!(data, ConnectionData::NetClient(_) | ConnectionData::NetBare(_));
    connections.iter().filter(move |connection| is_client(&connection.data)).map(|connection| connection.peer.as_str())
}

/// The domains that are clients of the network.
fn clients(plan: &Plan) -> impl Iterator<Item = DomainId> {
    (0..plan.domains.len()).filter(|id| providers(plan, *id).next().is_some())
}

/// The cards through which a domain is reached, by their places among the cards: its own, or else
/// those of the domains whose client it is. (A router's own card is outside; what is on the switch
/// inside reaches the router without its host's help.)
fn cards_of(plan: &Plan, domain: DomainId) -> BTreeSet<usize> {
    let cards = cards(&plan.devices);
    let (mut found, mut seen, mut left) = (BTreeSet::new(), BTreeSet::from([domain]), vec![domain]);
    while let Some(at) = left.pop() {
        // Behind the dot is the connection of one that provides several.
        let bases = || providers(plan, at).map(|name| name.split('.').next().unwrap_or(name));
        found.extend(bases().filter_map(|base| cards.iter().position(|card| *card == base)));
        if at == domain && !found.is_empty() {
            return found;
        }
        for base in bases() {
            left.extend(plan.domain(base).filter(|next| seen.insert(*next)));
        }
    }
    found
}

/// The `port` of each network client, with those that have it.
pub fn ports(plan: &Plan) -> BTreeMap<u16, Vec<DomainId>> {
    let mut ports = BTreeMap::<u16, Vec<DomainId>>::new();
    for id in clients(plan) {
        let fields = plan.component_of(id).manifest.config.iter().zip(&plan.domains[id].config);
        for (_, value) in fields.filter(|(field, _)| field.name == "port") {
            if let ConfigValue::Unsigned(port) = value
                && let Ok(port) = u16::try_from(*port)
            {
                ports.entry(port).or_default().push(id);
            }
        }
    }
    ports
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn forwards_are_read_as_the_help_says() {
        let forward = |text: &str| text.parse::<Forward>().map(|forward| forward.qemu());
        assert_eq!(forward("8080:80").as_deref(), Ok("hostfwd=tcp:127.0.0.1:8080-10.0.2.15:80"));
        assert_eq!(forward("udp:7007:7").as_deref(), Ok("hostfwd=udp:127.0.0.1:7007-10.0.2.15:7"));
        assert_eq!(forward("8081:10.0.2.16:80").as_deref(), Ok("hostfwd=tcp:127.0.0.1:8081-10.0.2.16:80"));
        for wrong in ["", "80", "0:80", "8080:", "sctp:1:2", "70000:1", "1:2:3", "1:10.0.2.16:2:3"] {
            assert!(forward(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn the_address_says_which_card_is_meant() {
        for (text, card) in
            [("8080:80", 0), ("8080:10.0.2.16:80", 0), ("8080:10.0.3.15:80", 1), ("8080:192.0.2.1:80", 0)]
        {
            let forward = text.parse::<Forward>().expect("a forward");
            assert_eq!(forward.card(), card, "{text}");
            assert_eq!(forward.to_string(), text);
        }
        assert_eq!(network(0), "10.0.2.0/24");
        assert_eq!((0..300).map(network).filter(|network| network == "10.0.4.0/24").count(), 1);
    }

    #[test]
    fn a_taken_port_is_refused_with_one_that_is_free() {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a free port");
        let host = listener.local_addr().expect("an address").port();
        let taken = Forward { protocol: Protocol::Tcp, host, address: address(0, 0), guest: 80 };
        let failure = check(&[taken], None).expect_err("taken").to_string();
        assert!(failure.contains(&format!("tcp port {host}")), "{failure}");
        let advice = failure.split_once("--forward ").expect("it advises another").1;
        let advised: Forward = advice.parse().expect("it can be typed");
        assert!(advised.host != host && advised.guest == 80, "{failure}");
    }

    #[test]
    fn a_port_cannot_lead_to_two_places() {
        let forward = |text: &str| text.parse::<Forward>().expect("it is one");
        let twice = [forward("18080:80"), forward("18080:10.0.2.16:80")];
        let failure = check(&twice, None).expect_err("one port").to_string();
        assert!(failure.contains("both 10.0.2.15:80 and 10.0.2.16:80") || failure.contains("taken"), "{failure}");
    }

    #[test]
    fn the_debuggers_port_is_its_own() {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a free port");
        let port = listener.local_addr().expect("an address").port();
        let failure = check(&[], Some(port)).expect_err("taken").to_string();
        assert!(failure.contains(&format!("tcp port {port} of this machine, for the debugger")), "{failure}");
        let advised = failure.split_once("--gdb ").expect("it advises another").1.parse::<u16>();
        assert!(advised.is_ok_and(|advised| advised > port), "{failure}");
        drop(listener);
        let forward = Forward { protocol: Protocol::Tcp, host: port, address: address(0, 0), guest: 80 };
        let failure = check(&[forward], Some(port)).expect_err("twice").to_string();
        assert!(failure.contains("both the debugger's and lead to 80") && failure.contains("--gdb "), "{failure}");
        let is_none_of_its = |free: Option<Forward>| free.is_none_or(|free| free.host != port);
        assert!(is_none_of_its(forward.next_free(Some(port), &[])));
    }

    #[test]
    fn the_next_port_is_taken_where_one_is_not_free() {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a free port");
        let host = listener.local_addr().expect("an address").port();
        let wanted = Forward { protocol: Protocol::Tcp, host, address: address(0, 0), guest: 80 };
        assert!(wanted.next_free(None, &[]).is_none_or(|free| free.host > host));
    }
}
