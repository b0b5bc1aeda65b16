//! The host's addresses of IPv6, its groups, and what it learns from routers.

use super::{ADDRESSES, Kind, LARGEST, Node, Random, Wire};
use crate::ipv6::Ipv6;
use crate::multicast::{self, Query, Report, Reports};
use crate::neighbour::discovery::{self, Own, Response};
use crate::neighbour::{
    Claim, LONGEST, Message, NeighbourAdvertisement, NeighbourSolicitation, RouterAdvertisement, RouterSolicitation,
    Rules, Step, Times,
};
use crate::routers::{self, Routers};
use crate::{ALL_NODES, ALL_ROUTERS, Instant, LinkAddress, solicited_node};
use core::net::{IpAddr, Ipv6Addr};

/// An address that the host has, or claims.
#[derive(Clone, Copy, Debug)]
struct Address {
    address: Ipv6Addr,
    claim: Claim,
}

/// IPv6 of a host.
#[derive(Debug)]
pub(super) struct Six {
    link_local: Ipv6Addr,
    addresses: [Option<Address>; ADDRESSES - 1],
    pub(super) routers: Routers,
    reports: Reports,
}

impl Six {
    pub(super) fn new(link: LinkAddress, mtu: u16, now: Instant, random: &mut Random) -> Self {
        let link_local = routers::link_local(link);
        let mut six = Self {
            link_local,
            addresses: [None; ADDRESSES - 1],
            routers: Routers::new(link, mtu, now, random.next()),
            reports: Reports::default(),
        };
        six.claim(link_local, now, random.next());
        six
    }

    /// Begins to use an address, and to find out whether anybody else has it.
    fn claim(&mut self, address: Ipv6Addr, now: Instant, random: u32) {
        let is_known = self.addresses.iter().flatten().any(|own| own.address == address);
        if let Some(place) = self.addresses.iter_mut().find(|place| place.is_none() && !is_known) {
            *place = Some(Address { address, claim: Claim::new(Rules::DISCOVERY, 0, now, random) });
            // Neighbours' questions come to the address's group, the host's own among them.
            self.reports.joined(now);
        }
    }

    fn remove(&mut self, address: Ipv6Addr) {
        for place in &mut self.addresses {
            if place.is_some_and(|own| own.address == address) {
                *place = None;
            }
        }
    }

    /// The addresses in use.
    pub(super) fn addresses(&self) -> impl Iterator<Item = Ipv6Addr> + Clone + '_ {
        self.addresses.iter().flatten().map(|own| own.address)
    }

    pub(super) fn own(&self, address: Ipv6Addr) -> Own {
        match self.addresses.iter().flatten().find(|own| own.address == address) {
            Some(own) if own.claim.is_tentative() => Own::Tentative,
            Some(_) => Own::Yes,
            None => Own::No,
        }
    }

    /// Returns whether the host listens to `group`.
    pub(super) fn is_in(&self, group: Ipv6Addr) -> bool {
        group == ALL_NODES || self.addresses().any(|address| solicited_node(address) == group)
    }

    /// The best address for packets to `destination`; `None` if the host has none any more.
    pub(super) fn source(&self, destination: Ipv6Addr, now: Instant) -> Option<Ipv6Addr> {
        let source = self.routers.source(destination, self.link_local, now);
        (self.own(source) != Own::No).then_some(source)
    }

    pub(super) fn deadline(&self) -> Instant {
        let claims = self.addresses.iter().flatten().map(|own| own.claim.deadline());
        claims.fold(self.routers.deadline().min(self.reports.deadline()), Instant::min)
    }

    pub(super) fn link_is_up(&mut self, now: Instant) {
        self.reports.joined(now);
        self.routers.link_is_up(now);
    }

    /// The next step of a claim.
    fn poll_claims(&mut self, now: Instant, random: &mut Random) -> Option<(Ipv6Addr, Step)> {
        let mut own = self.addresses.iter_mut().flatten();
        own.find_map(|own| Some((own.address, own.claim.poll(now, random.next())?)))
    }
}

impl Node<'_> {
    /// Does what is due about IPv6.
    pub(super) fn poll_six(&mut self, now: Instant, wire: &mut dyn Wire) {
        let Some(six) = &mut self.six else { return };
        while let Some(step) = six.routers.poll(now, self.random.next()) {
            match step {
                routers::Step::Claim(address) => {
                    six.claim(address, now, self.random.next());
                    let is_used = six.own(address) != Own::No;
                    six.routers.assign(address, is_used);
                    self.notices.addresses = true;
                }
                routers::Step::Remove(address) => {
                    six.remove(address);
                    self.notices.addresses = true;
                }
                routers::Step::NameServers => self.notices.name_servers = true,
                routers::Step::Solicit => {
                    let link_local = six.link_local;
                    // While somebody else may have the address, nobody is to learn it.
                    let is_own = six.own(link_local) == Own::Yes;
                    let source = if is_own { link_local } else { Ipv6Addr::UNSPECIFIED };
                    let question = RouterSolicitation { source, link: self.link };
                    send(wire, ALL_ROUTERS, None, |buffer| question.write(buffer));
                }
            }
        }
        // Tell of groups before asking in them: switches are to have learnt them.
        while let Some(report) = six.reports.poll(now, self.random.next()) {
            send_report(six, report, wire);
        }
        while let Some((address, step)) = six.poll_claims(now, &mut self.random) {
            if step == Step::Probe {
                let question = discovery::probe(address);
                send(wire, question.destination, None, |buffer| question.write(buffer));
            }
        }
    }

    /// Takes a message of ICMPv6 that is no upper layer's: neighbour discovery, or a query about
    /// groups. Returns whether it is one.
    pub(super) fn receive_discovery(
        &mut self,
        packet: &Ipv6<'_>,
        content: &[u8],
        from: LinkAddress,
        now: Instant,
        wire: &mut dyn Wire,
    ) -> bool {
        let Some(six) = &mut self.six else { return false };
        match content.first() {
            Some(130) => {
                if let Ok(query) = Query::parse(packet, content) {
                    six.reports.asked(&query, now, self.random.next());
                }
                return true;
            }
            Some(131..=137 | 143) => {}
            _ => return false,
        }
        let message = Ipv6 { next_header: crate::icmp::ICMPV6, payload: content, ..*packet };
        match Message::parse(&message) {
            Ok(Message::NeighbourSolicitation(question)) => self.solicited(&question, from, now, wire),
            Ok(Message::NeighbourAdvertisement(told)) => {
                let response = discovery::advertised(&mut self.cache, &told, |address| six.own(address), now);
                self.respond(response, from, now, wire);
            }
            Ok(Message::RouterAdvertisement(told)) => self.router_advertised(&told, now),
            Err(_) => {}
        }
        true
    }

    fn solicited(&mut self, question: &NeighbourSolicitation, from: LinkAddress, now: Instant, wire: &mut dyn Wire) {
        let Some(six) = &mut self.six else { return };
        // Of an optimistic address whoever asks with an address of his own is told, but so that he
        // keeps another station that he knows (RFC 4429 §3.3).
        let is_optimistic = six.own(question.target) == Own::Tentative && !question.source.is_unspecified();
        let own = |address| match six.own(address) {
            Own::Tentative if is_optimistic && address == question.target => Own::Yes,
            own => own,
        };
        let response = match discovery::solicited(&mut self.cache, question, own, self.link, now) {
            Response::Answer(answer) if is_optimistic => {
                Response::Answer(NeighbourAdvertisement { overrides: false, ..answer })
            }
            response => response,
        };
        self.respond(response, question.link.unwrap_or(from), now, wire);
    }

    fn respond(&mut self, response: Response, to: LinkAddress, now: Instant, wire: &mut dyn Wire) {
        let Some(six) = &mut self.six else { return };
        match response {
            Response::Nothing => {}
            Response::Answer(answer) => send(wire, answer.destination, Some(to), |buffer| answer.write(buffer)),
            Response::NoRouter(address) => six.routers.no_router(address),
            Response::Conflict(address) => {
                let mut claims = six.addresses.iter_mut().flatten();
                let is_lost = claims.find(|own| own.address == address).is_some_and(|own| own.claim.conflict(now));
                if is_lost {
                    six.remove(address);
                    six.routers.assign(address, false);
                    (self.notices.addresses, self.notices.duplicate) = (true, Some(IpAddr::V6(address)));
                }
            }
        }
    }

    fn router_advertised(&mut self, told: &RouterAdvertisement<'_>, now: Instant) {
        let Some(six) = &mut self.six else { return };
        six.routers.advertised(told, now);
        if told.reachable.is_some() || told.retransmit.is_some() {
            let times = Times::default();
            let (reachable, retransmit) =
                (told.reachable.unwrap_or(Times::REACHABLE), told.retransmit.unwrap_or(times.retransmit));
            self.cache.set_times(Times::new(reachable, retransmit, self.random.next()));
        }
        if let Some(link) = told.link {
            self.cache.heard(told.source.into(), link, !told.lifetime.is_zero(), now);
        }
    }

    /// Asks for the station of a neighbour over IPv6.
    pub(super) fn ask_six(&mut self, target: Ipv6Addr, to: Option<LinkAddress>, now: Instant, wire: &mut dyn Wire) {
        let Some(six) = &self.six else { return };
        let Some(source) = six.source(target, now) else { return };
        let mut question = discovery::question(source, self.link, target, to);
        if six.own(source) == Own::Tentative {
            // Nobody is to take this station for the address's before it is certain (RFC 4429
            // §3.2).
            question.link = None;
        }
        send(wire, question.destination, to, |buffer| question.write(buffer));
    }
}

/// Sends a message of neighbour discovery that `write` makes: to a group's stations, or to `to`.
fn send(
    wire: &mut dyn Wire,
    destination: Ipv6Addr,
    to: Option<LinkAddress>,
    write: impl FnOnce(&mut [u8]) -> Option<usize>,
) {
    let mut buffer = [0; LONGEST];
    let packet = write(&mut buffer).and_then(|length| buffer.get(..length));
    if let (Some(packet), Some(station)) = (packet, discovery::station(destination, to)) {
        wire.send(station, Kind::Ipv6, packet);
    }
}

fn send_report(six: &Six, report: Report, wire: &mut dyn Wire) {
    const _: () = assert!(multicast::LONGEST <= LARGEST && multicast::GROUPS >= ADDRESSES - 1);
    let mut buffer = [0; multicast::LONGEST];
    // Before it is certain that the link's address is this host's it comes from no address (RFC
    // 3590 §4).
    let is_own = six.own(six.link_local) == Own::Yes;
    let source = if is_own { six.link_local } else { Ipv6Addr::UNSPECIFIED };
    let groups = six.addresses().map(solicited_node);
    let mut tell = |destination: Ipv6Addr, written: Option<usize>, buffer: &[u8]| {
        let station = LinkAddress::of_group(destination.into());
        if let (Some(packet), Some(station)) = (written.and_then(|length| buffer.get(..length)), station) {
            wire.send(station, Kind::Ipv6, packet);
        }
    };
    match report {
        Report::All { is_answer } => {
            let written = multicast::write_all(source, groups, is_answer, &mut buffer);
            tell(multicast::ALL_ROUTERS_2, written, &buffer);
        }
        Report::Each => {
            for group in groups {
                let written = multicast::write_one(source, group, &mut buffer);
                tell(group, written, &buffer);
            }
        }
    }
}
