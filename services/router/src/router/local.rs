//! What is for the router itself: ARP, neighbour discovery, pings; everything else that the rules
//! let come is answered as by a host on which nobody listens.

use super::answers::sender;
use super::{Cards, Router};
use crate::station::Arrival;
use core::net::{IpAddr, Ipv6Addr};
use culm_firewall::Action;
use culm_flow::{ICMP6, Packet, Problem, Transport, Tuple};
use culm_ip::ipv6::Ipv6;
use culm_ip::neighbour::arp::{self, Arp};
use culm_ip::neighbour::discovery::{self, Own, Response};
use culm_ip::neighbour::{LONGEST, Message, NeighbourAdvertisement};
use culm_net::wire::types;
use culm_net::{ETHERNET_HEADER, PacketHeader};
use culm_packet::checksum::Difference;

/// Hop limit of what the router answers.
const HOPS: u8 = 64;

/// The least and the greatest type of neighbour discovery's messages (RFC 4861 §4).
const DISCOVERY: core::ops::RangeInclusive<u8> = 133..=137;

impl Router {
    /// Takes a message of ARP.
    #[inline(never)]
    pub(super) fn arp(&mut self, arrival: &Arrival, frame: &[u8], cards: &mut impl Cards) {
        let Self { networks, stations, policy, now, .. } = self;
        let (Some(network), Some(station)) = (networks.get(arrival.network), stations.get_mut(arrival.network)) else {
            return;
        };
        let Some(Ok(message)) = frame.get(ETHERNET_HEADER..).map(Arp::parse) else { return };
        let own = network.v4.map(|own| own.address);
        // Who asks for an address that NAT lends is answered as for the router's own.
        let own = if policy.lends(message.target) { Some(message.target) } else { own };
        let link = station.link();
        let Some(answer) = message.receive(station.cache(), link, own, *now) else { return };
        let mut out = [0; ETHERNET_HEADER + arp::LENGTH];
        if station.arp(&answer, message.sender_link, &mut out).is_some() {
            send(arrival.network, &out, cards);
        }
    }

    /// Takes a packet of IPv6 for a group of stations: questions for neighbours, and for routers.
    #[inline(never)]
    pub(super) fn group(&mut self, arrival: &Arrival, frame: &[u8], cards: &mut impl Cards) {
        self.discovery(arrival, frame, cards);
    }

    /// Takes a message of neighbour discovery. Returns whether it is one.
    fn discovery(&mut self, arrival: &Arrival, frame: &[u8], cards: &mut impl Cards) -> bool {
        let Some(Ok(packet)) = frame.get(ETHERNET_HEADER..).map(Ipv6::parse) else { return false };
        if packet.next_header != ICMP6 || !packet.payload.first().is_some_and(|kind| DISCOVERY.contains(kind)) {
            return false;
        }
        if self.takes_solicitation(arrival, &packet) {
            return true;
        }
        let Self { networks, stations, now, .. } = self;
        let (Some(network), Some(station)) = (networks.get(arrival.network), stations.get_mut(arrival.network)) else {
            return false;
        };
        let own = |address: Ipv6Addr| {
            let is_own = address == network.link_local() || network.v6.is_some_and(|own| own.address == address);
            if is_own { Own::Yes } else { Own::No }
        };
        let link = station.link();
        match Message::parse(&packet) {
            Ok(Message::NeighbourSolicitation(question)) => {
                if let Response::Answer(answer) = discovery::solicited(station.cache(), &question, own, link, *now) {
                    // RFC 4861 §7.2.4: a router says that it is one.
                    let answer = NeighbourAdvertisement { is_router: true, ..answer };
                    let mut out = [0; ETHERNET_HEADER + LONGEST];
                    let to = discovery::station(answer.destination, question.link.or_else(|| sender(frame)));
                    let length = out.get_mut(ETHERNET_HEADER..).and_then(|out| answer.write(out));
                    if let (Some(to), Some(length)) = (to, length)
                        && station.head(to, types::IPV6, &mut out).is_some()
                    {
                        send(arrival.network, out.get(..ETHERNET_HEADER + length).unwrap_or_default(), cards);
                    }
                }
            }
            Ok(Message::NeighbourAdvertisement(told)) => {
                discovery::advertised(station.cache(), &told, own, *now);
            }
            Ok(Message::RouterAdvertisement(_)) | Err(_) => {}
        }
        true
    }

    /// Takes a packet for the router's own address.
    pub(super) fn local(&mut self, arrival: &Arrival, frame: &[u8], packet: &Packet, cards: &mut impl Cards) {
        if packet.protocol == ICMP6 && self.discovery(arrival, frame, cards) {
            return;
        }
        let Packet { source, destination, protocol, .. } = *packet;
        let none = Tuple { protocol, source, destination, source_port: 0, destination_port: 0 };
        let tuple = packet.tuple().unwrap_or(none);
        let judgement = self.policy.judge(packet, &tuple, arrival.network, None);
        if judgement.outcome.logs {
            self.journal.tell(&self.networks, &judgement, packet, &tuple, arrival.network, None, self.now);
        }
        match (judgement.outcome.action, packet.transport) {
            (Action::Deny, _) => self.tally.denied += 1,
            (Action::Reject, _) => {
                self.tally.denied += 1;
                self.reject(arrival, frame, packet, cards);
            }
            (Action::Allow, Transport::Echo { is_request: true, .. }) if packet.fragment.is_none() => {
                self.echo(arrival, frame, packet, cards);
            }
            (Action::Allow, Transport::Tcp(_)) => self.reset(arrival, frame, packet, cards),
            (Action::Allow, Transport::Udp { .. }) => self.tell(Problem::NoPort, arrival, frame, cards),
            (Action::Allow, _) => self.tally.stray += 1,
        }
    }

    /// Answers an echo request (RFC 792, RFC 4443 §4.2).
    fn echo(&mut self, arrival: &Arrival, frame: &[u8], packet: &Packet, cards: &mut impl Cards) {
        let (Some(station), Some(to)) = (self.stations.get(arrival.network), sender(frame)) else { return };
        let length = ETHERNET_HEADER + packet.length;
        let Some(frame) = frame.get(..length) else { return };
        let is_sent = cards.send(arrival.network, length, |out| {
            out.copy_from_slice(frame);
            let kind = if packet.source.is_ipv4() { types::IPV4 } else { types::IPV6 };
            station.head(to, kind, out)?;
            reply(out.get_mut(ETHERNET_HEADER..)?, packet)?;
            Some(PacketHeader::default())
        });
        self.tally.echoes += u64::from(is_sent);
        self.tally.congestion += u64::from(!is_sent);
    }
}

/// Makes a packet with an echo request its reply. Sums over both addresses stay as they are.
fn reply(bytes: &mut [u8], packet: &Packet) -> Option<()> {
    let mut message = Difference::default();
    match (packet.source, packet.destination) {
        (IpAddr::V4(source), IpAddr::V4(destination)) => {
            bytes.get_mut(12..16)?.copy_from_slice(&destination.octets());
            bytes.get_mut(16..20)?.copy_from_slice(&source.octets());
            let mut header = Difference::default();
            header.replace(bytes, 8, [HOPS], false)?;
            header.correct(bytes, 10, &mut Difference::default())?;
            message.replace(bytes, packet.payload, [0], false)?;
        }
        (IpAddr::V6(source), IpAddr::V6(destination)) => {
            bytes.get_mut(8..24)?.copy_from_slice(&destination.octets());
            bytes.get_mut(24..40)?.copy_from_slice(&source.octets());
            *bytes.get_mut(7)? = HOPS;
            message.replace(bytes, packet.payload, [129], false)?;
        }
        _ => return None,
    }
    message.correct(bytes, packet.payload + 2, &mut Difference::default())
}

fn send(network: usize, frame: &[u8], cards: &mut impl Cards) {
    cards.send(network, frame.len(), |out| {
        out.copy_from_slice(frame);
        Some(PacketHeader::default())
    });
}
