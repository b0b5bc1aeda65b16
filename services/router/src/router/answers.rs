//! What senders are told of packets that go no further, and errors of others that go on.

use super::output::Change;
use super::{Cards, Router, milliseconds};
use crate::networks::is_nobody;
use crate::station::Arrival;
use culm_flow::{LONGEST_ANSWER, Packet, Problem, Quoted, Transport, answer, flags};
use culm_ip::LinkAddress;
use culm_net::wire::types;
use culm_net::{ETHERNET_HEADER, PacketHeader};

impl Router {
    /// Tells the sender of a packet why it goes no further, if he may be told. The answer goes to
    /// the station that the packet came from: who can pass it on to the sender is looked up by
    /// nobody, so that packets from nowhere fill no cache.
    #[inline(never)]
    pub(super) fn refuse(&mut self, problem: Problem, arrival: &Arrival, frame: &[u8], cards: &mut impl Cards) {
        self.tally.unreachable += 1;
        self.tell(problem, arrival, frame, cards);
    }

    /// Tells the sender of a packet that a rule refuses it: by a reset, of TCP.
    pub(super) fn reject(&mut self, arrival: &Arrival, frame: &[u8], packet: &Packet, cards: &mut impl Cards) {
        match packet.transport {
            Transport::Tcp(_) => self.reset(arrival, frame, packet, cards),
            _ => self.tell(Problem::Prohibited, arrival, frame, cards),
        }
    }

    /// Sends the error about a packet.
    pub(super) fn tell(&mut self, problem: Problem, arrival: &Arrival, frame: &[u8], cards: &mut impl Cards) {
        let bytes = frame.get(ETHERNET_HEADER..).unwrap_or_default();
        let Ok(packet) = Packet::read(bytes) else { return };
        let own = self.networks.get(arrival.network).and_then(|network| network.own(packet.source));
        let Some(own) = own else { return };
        // A packet that cannot be answered uses up nobody's share.
        if !culm_flow::may_be_answered(&packet, problem) || !self.limits.take(packet.source, milliseconds(self.now)) {
            return;
        }
        let mut out = [0; LONGEST_ANSWER];
        let Some(length) = answer(problem, &packet, bytes, own, &mut out) else { return };
        let message = out.get(..length).unwrap_or_default();
        if self.send_back(arrival.network, frame, &packet, message, cards) {
            self.tally.errors += 1;
        }
    }

    /// Answers a TCP segment by a reset, as a host does on which nobody listens (RFC 9293 §3.5.2).
    pub(super) fn reset(&mut self, arrival: &Arrival, frame: &[u8], packet: &Packet, cards: &mut impl Cards) {
        let Transport::Tcp(segment) = packet.transport else { return };
        if segment.has(flags::RST) || !self.limits.take(packet.source, milliseconds(self.now)) {
            return;
        }
        let mut out = [0; 60];
        let Some(length) = crate::reset::write(packet, &segment, &mut out) else { return };
        let message = out.get(..length).unwrap_or_default();
        if self.send_back(arrival.network, frame, packet, message, cards) {
            self.tally.errors += 1;
        }
    }

    /// Sends a packet of the router's own to the station that a frame came from.
    pub(super) fn send_back(
        &mut self,
        network: usize,
        frame: &[u8],
        packet: &Packet,
        message: &[u8],
        cards: &mut impl Cards,
    ) -> bool {
        let (Some(station), Some(to)) = (self.stations.get(network), sender(frame)) else { return false };
        let kind = if packet.source.is_ipv4() { types::IPV4 } else { types::IPV6 };
        cards.send(network, ETHERNET_HEADER + message.len(), |out| {
            station.head(to, kind, out)?;
            out.get_mut(ETHERNET_HEADER..)?.copy_from_slice(message);
            Some(PacketHeader::default())
        })
    }

    /// Passes on an ICMP error about a packet of a flow.
    pub(super) fn error(
        &mut self,
        arrival: &Arrival,
        frame: &[u8],
        packet: &Packet,
        quoted: &Quoted,
        cards: &mut impl Cards,
    ) {
        let found = self.table.find_quoted(quoted, milliseconds(self.now));
        let found = found.and_then(|(id, direction)| Some((direction, self.table.flow(id)?)));
        let Some((direction, flow)) = found else {
            self.tally.stray += 1;
            return;
        };
        // A router on the way may have sent it, which need not be on the way to the flow's end; but
        // over the network of this end it comes.
        let end = flow.tuple(direction).source;
        let comes_from_there = self.networks.way(end).is_some_and(|way| way.network == arrival.network);
        if !comes_from_there || self.networks.owner(packet.source).is_some() {
            self.tally.spoofed += 1;
            return;
        }
        let (quoted, source, destination) = flow.error_onward(direction, packet.source);
        // Where its sender is told as it is, it is one whose packets come this way (RFC 1812
        // §5.3.8).
        let is_somebody = !is_nobody(source) && !self.networks.is_for_all(source);
        if source == packet.source && !(is_somebody && self.comes_this_way(arrival.network, source)) {
            self.tally.spoofed += 1;
            return;
        }
        let Some(way) = self.networks.way(destination) else { return };
        let mtu = self.networks.get(way.network).map_or(0, |network| usize::from(network.mtu));
        if packet.hops <= 1 || packet.length > mtu {
            return;
        }
        let Some(station) = self.stations.get_mut(way.network) else { return };
        let Some(link) = station.find(way.next, &mut None, arrival, frame, self.now) else { return };
        let change = Change::Error { quoted, source, destination };
        self.emit(way.network, link, arrival, frame, packet, &change, false, cards);
    }
}

/// Returns the station that a frame comes from, if it is one.
pub(super) fn sender(frame: &[u8]) -> Option<LinkAddress> {
    let link = LinkAddress(*frame.get(6..12)?.first_chunk()?);
    link.is_station().then_some(link)
}
