//! The host's address of IPv4: given or leased, claimed and defended.

use super::{Ipv4Config, LARGEST, Node, Notice, Wire};
use crate::dhcp::{self, CLIENT_PORT, Client, Lease, Outcome, SERVER_PORT};
use crate::host::Kind;
use crate::ipv4::Ipv4;
use crate::neighbour::arp::Arp;
use crate::neighbour::{Claim, Rules, Step};
use crate::udp::{self, Datagram, UDP};
use crate::{Cidr, Instant, LinkAddress};
use core::net::{IpAddr, Ipv4Addr};
use core::time::Duration;

/// The claim to an address that is given: it is used at once, announced, and not given up.
const GIVEN: Rules = Rules {
    delay: Duration::ZERO,
    probes: 0,
    interval: (Duration::ZERO, Duration::ZERO),
    patience: Duration::ZERO,
    yields: false,
    ..Rules::ARP
};

/// The claim to one that is leased. Its server has asked whether anybody has it (RFC 2131 §2.2), so
/// that the host asks for certainty only, and not as long as one that has made its address up.
const LEASED: Rules = Rules {
    delay: Duration::ZERO,
    probes: 2,
    interval: (Duration::from_millis(100), Duration::ZERO),
    patience: Duration::from_millis(150),
    ..Rules::ARP
};

/// IPv4 of a host.
#[derive(Debug)]
pub(super) struct Four {
    network: Option<Cidr<Ipv4Addr>>,
    claim: Option<Claim>,
    router: Option<Ipv4Addr>,
    client: Option<Client>,
    /// What a server says that the link carries.
    pub(super) mtu: Option<u16>,
}

impl Four {
    pub(super) fn new(link: LinkAddress, config: Ipv4Config, now: Instant, random: u32) -> Self {
        let none = Self { network: None, claim: None, router: None, client: None, mtu: None };
        match config {
            Ipv4Config::None => none,
            Ipv4Config::Fixed(network, router) => {
                let mut claim = Claim::new(GIVEN, 0, now, random);
                // Its first step is to use the address.
                let _ = claim.poll(now, random);
                Self { network: Some(network), claim: Some(claim), router, ..none }
            }
            Ipv4Config::Leased => Self { client: Some(Client::new(link, now, random)), ..none },
        }
    }

    fn holds(&self) -> bool {
        self.claim.is_some_and(|claim| claim.is_held())
    }

    /// The address and its network, if it is in use.
    pub(super) fn network(&self) -> Option<Cidr<Ipv4Addr>> {
        self.network.filter(|_| self.holds())
    }

    /// The address, if it is in use.
    pub(super) fn own(&self) -> Option<Ipv4Addr> {
        self.network().map(Cidr::address)
    }

    pub(super) fn lease(&self) -> Option<&Lease> {
        self.client.as_ref().and_then(Client::lease)
    }

    /// Whether a datagram for this port and destination is an answer of DHCP's, which comes to
    /// stations that have no address yet.
    pub(super) fn takes_answer(&self, datagram: &Ipv4<'_>) -> bool {
        let port = datagram.payload.get(2..4);
        self.client.is_some()
            && datagram.protocol == UDP
            && !datagram.is_fragment()
            && port == Some(&CLIENT_PORT.to_be_bytes())
    }

    /// The neighbour to which a packet for `destination` goes.
    pub(super) fn next_hop(&self, destination: Ipv4Addr) -> Option<Ipv4Addr> {
        let network = self.network()?;
        if network.contains(destination) { Some(destination) } else { self.router }
    }

    /// Whether `destination` is everybody on the link.
    pub(super) fn is_everybody(&self, destination: Ipv4Addr) -> bool {
        destination.is_broadcast() || self.network().is_some_and(|network| network.is_everybody(destination))
    }

    pub(super) fn deadline(&self) -> Instant {
        let claim = self.claim.map_or(Instant::NEVER, |claim| claim.deadline());
        claim.min(self.client.as_ref().map_or(Instant::NEVER, Client::deadline))
    }

    pub(super) fn link_is_up(&mut self, now: Instant, random: u32) {
        if let Some(client) = &mut self.client {
            client.link_is_up(now, random);
        }
    }

    /// Takes over what a lease says besides the address.
    fn take(&mut self, lease: &Lease) {
        (self.network, self.router, self.mtu) = (Some(lease.address), lease.router, lease.mtu);
    }

    /// No longer has an address. Returns whether it had one.
    fn drop_address(&mut self) -> bool {
        let had = self.holds();
        (self.network, self.claim, self.router, self.mtu) = (None, None, None, None);
        had
    }
}

impl Node<'_> {
    /// Does what is due about the address.
    pub(super) fn poll_four(&mut self, now: Instant, wire: &mut dyn Wire) {
        while let Some(step) = self.four.claim.as_mut().and_then(|claim| claim.poll(now, self.random.next())) {
            let Some(address) = self.four.network.map(Cidr::address) else { break };
            let message = match step {
                Step::Probe => Arp::probe(self.link, address),
                Step::Announce => Arp::announcement(self.link, address),
                Step::Use => {
                    self.notices.addresses = true;
                    if let Some(lease) = self.four.lease() {
                        self.notices.lease = Some(Notice::Leased(*lease));
                    }
                    continue;
                }
            };
            wire.send(LinkAddress::BROADCAST, Kind::Arp, &message.bytes());
        }
        while let Some(step) = self.four.client.as_mut().and_then(|client| client.poll(now, self.random.next())) {
            match step {
                dhcp::Step::Send { source, destination, request } => {
                    self.send_request(source, destination, &request, now, wire);
                }
                dhcp::Step::Lost => self.lose_lease(Notice::LeaseOver),
            }
        }
    }

    fn send_request(
        &mut self,
        source: Ipv4Addr,
        destination: Ipv4Addr,
        request: &dhcp::Request,
        now: Instant,
        wire: &mut dyn Wire,
    ) {
        let (mut message, mut datagram, mut packet) =
            ([0; dhcp::LONGEST], [0; dhcp::LONGEST + udp::HEADER], [0; LARGEST]);
        let payload = request.write(&mut message).and_then(|length| message.get(..length)).unwrap_or_default();
        let udp = Datagram { source_port: CLIENT_PORT, destination_port: SERVER_PORT, payload };
        let length = udp.write(source.into(), destination.into(), &mut datagram).unwrap_or(0);
        let payload = datagram.get(..length).unwrap_or_default();
        let length = super::send::ipv4(source, destination, UDP, payload).write(&mut packet).unwrap_or(0);
        let packet = packet.get(..length).unwrap_or_default();
        if source.is_unspecified() {
            wire.send(LinkAddress::BROADCAST, Kind::Ipv4, packet);
        } else {
            // Where it is lost it is repeated.
            let _ = self.send_packet(packet, now, wire);
        }
    }

    /// Takes a datagram that [`Four::takes_answer`] says to be for DHCP's client.
    pub(super) fn receive_answer(&mut self, packet: &Ipv4<'_>, checksum: udp::Checksum, now: Instant) {
        let (source, destination) = (packet.source.into(), packet.destination.into());
        let Ok(datagram) = Datagram::parse(source, destination, packet.payload, checksum) else { return };
        let Some(client) = &mut self.four.client else { return };
        match client.receive(datagram.payload, now, self.random.next()) {
            Outcome::Nothing => {}
            Outcome::Granted(lease) => {
                self.four.take(&lease);
                self.four.claim = Some(Claim::new(LEASED, 0, now, self.random.next()));
            }
            Outcome::Renewed(lease) => {
                self.four.take(&lease);
                self.notices.addresses = true;
            }
            Outcome::Lost => self.lose_lease(Notice::LeaseRefused),
            Outcome::Unusable(address) => self.notices.lease = Some(Notice::Unusable(address)),
        }
    }

    fn lose_lease(&mut self, why: Notice) {
        if self.four.drop_address() {
            (self.notices.addresses, self.notices.lease) = (true, Some(why));
        }
    }

    /// Takes note that somebody else has the address.
    fn lose_address(&mut self, address: Ipv4Addr, now: Instant) {
        let was_in_use = self.four.drop_address();
        self.notices.addresses |= was_in_use;
        self.notices.duplicate = Some(IpAddr::V4(address));
        if let Some(client) = &mut self.four.client {
            client.decline(now, self.random.next());
        }
    }

    /// Takes a message of ARP.
    pub(super) fn receive_arp(&mut self, message: &[u8], now: Instant, wire: &mut dyn Wire) {
        let Ok(arp) = Arp::parse(message) else { return };
        if let (Some(address), Some(claim)) = (self.four.network.map(Cidr::address), &mut self.four.claim)
            && arp.conflicts(self.link, address, claim.is_tentative())
        {
            if claim.conflict(now) {
                self.lose_address(address, now);
            }
            // Whoever says that the address is his is told otherwise by an announcement, if at all,
            // and not as often as he says so (RFC 5227 §2.4).
            return;
        }
        let own = self.four.own();
        if let Some(reply) = arp.receive(&mut self.cache, self.link, own, now) {
            wire.send(arp.sender_link, Kind::Arp, &reply.bytes());
        }
    }

    /// Asks for the station of a neighbour over IPv4.
    pub(super) fn ask_four(&mut self, address: Ipv4Addr, to: Option<LinkAddress>, wire: &mut dyn Wire) {
        let Some(own) = self.four.own() else { return };
        let request = Arp::request(self.link, own, address);
        wire.send(to.unwrap_or(LinkAddress::BROADCAST), Kind::Arp, &request.bytes());
    }
}
