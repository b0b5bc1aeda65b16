//! Receiving packets: whether they are for this host, and for whom in it.

use super::{Frame, Host, Kind, LARGEST, Node, Payload, Received, Upper, Wire};
use crate::extension::{Content, behind, content};
use crate::icmp::{
    ICMP, ICMPV6, Message, Problem, answer_ipv4, answer_ipv6, error_about_ipv4, error_about_ipv6, fragments_missing,
    message_of_ipv4, message_of_ipv6,
};
use crate::ipv4::Ipv4;
use crate::ipv6::{self, Ipv6};
use crate::neighbour::discovery::Own;
use crate::reassembly::{Fragment, Outcome, Refusal};
use crate::udp::{Checksum, Datagram, UDP};
use crate::{Instant, LinkAddress};
use core::net::{IpAddr, Ipv4Addr};
use culm_packet::ip;
use culm_packet::wire::ecn;

/// No upper layer has anything to do with a packet.
struct Unwanted;

/// Gives a whole packet, of either version, to the upper layer that takes it. A broken datagram is
/// dropped.
fn offer<'b>(packet: Payload<'b>, checksum: Checksum, upper: &dyn Upper) -> Result<Received<'b>, Unwanted> {
    let port = if packet.protocol == UDP {
        match Datagram::parse(packet.source, packet.destination, packet.payload, checksum) {
            Ok(datagram) => datagram.destination_port,
            Err(_) => return Ok(Received::Done),
        }
    } else {
        0
    };
    if upper.takes(packet.protocol, port) { Ok(Received::Packet(packet)) } else { Err(Unwanted) }
}

impl Received<'_> {
    /// Has it bear a mark of congestion, or not.
    fn with_mark(self, is_marked: bool) -> Self {
        match self {
            Self::Packet(payload) => Self::Packet(Payload { is_marked, ..payload }),
            other => other,
        }
    }
}

impl Host<'_> {
    pub(super) fn receive_ipv4<'b>(
        &'b mut self,
        frame: &Frame<'b>,
        upper: &dyn Upper,
        now: Instant,
        wire: &mut dyn Wire,
    ) -> Received<'b> {
        let Self { reassembly, node } = self;
        let Ok(packet) = Ipv4::parse(frame.packet) else { return Received::Done };
        let is_own = node.four.own() == Some(packet.destination);
        // Before it has an address a host takes what comes to its station (RFC 2131 §4.1).
        let is_for_client = is_own || packet.destination.is_broadcast() || !frame.was_for_all;
        if is_for_client && node.four.takes_answer(&packet) {
            node.receive_answer(&packet, frame.checksum, now);
            return Received::Done;
        }
        // What is for one host, in a frame for all, is somebody's mistake (RFC 1122 §3.3.6).
        if !is_own || frame.was_for_all {
            return Received::Done;
        }
        if !packet.is_fragment() {
            let is_marked = ip::ecn(frame.packet) == ecn::MARKED;
            return node.take_ipv4(&packet, frame, Some(&packet), upper, now, wire).with_mark(is_marked);
        }
        match reassembly.take(&Fragment::of_ipv4(&packet), now) {
            Outcome::Whole { protocol, payload, is_marked } => {
                let whole = Ipv4 { protocol, payload, offset: 0, has_more: false, ..packet };
                node.take_ipv4(&whole, frame, None, upper, now, wire).with_mark(is_marked)
            }
            Outcome::Incomplete | Outcome::Refused(_) => Received::Done,
        }
    }

    pub(super) fn receive_ipv6<'b>(
        &'b mut self,
        frame: &Frame<'b>,
        upper: &dyn Upper,
        now: Instant,
        wire: &mut dyn Wire,
    ) -> Received<'b> {
        let Self { reassembly, node } = self;
        let Some(six) = &node.six else { return Received::Done };
        let Ok(packet) = Ipv6::parse(frame.packet) else { return Received::Done };
        let is_own = six.own(packet.destination) != Own::No;
        if !is_own && !six.is_in(packet.destination) {
            return Received::Done;
        }
        let Ok(found) = content(&packet) else { return Received::Done };
        let Some(part) = found.fragment else {
            let is_marked = ip::ecn(frame.packet) == ecn::MARKED;
            return node.take_ipv6(&packet, &found, frame, true, upper, now, wire).with_mark(is_marked);
        };
        // The header of a fragment, before its payload.
        let place = ipv6::HEADER + (packet.payload.len() - found.payload.len()).saturating_sub(8);
        let fragment = Fragment::of_ipv6(frame.packet, &packet, part, found.protocol, found.payload);
        match reassembly.take(&fragment, now) {
            Outcome::Whole { protocol, payload, is_marked } => match behind(protocol, payload) {
                Ok(whole) if whole.fragment.is_none() => {
                    node.take_ipv6(&packet, &whole, frame, false, upper, now, wire).with_mark(is_marked)
                }
                _ => Received::Done,
            },
            Outcome::Refused(Refusal::Length) => {
                node.tell_ipv6(&packet, frame, Problem::Field(4), now, wire);
                Received::Done
            }
            Outcome::Refused(Refusal::End) => {
                node.tell_ipv6(&packet, frame, Problem::Field(place as u32 + 2), now, wire);
                Received::Done
            }
            Outcome::Incomplete | Outcome::Refused(_) => Received::Done,
        }
    }
}

impl Node<'_> {
    /// Takes a whole packet for this host; `told` is the packet that an error is about, if its
    /// sender can be told.
    fn take_ipv4<'b>(
        &mut self,
        packet: &Ipv4<'b>,
        frame: &Frame<'_>,
        told: Option<&Ipv4<'_>>,
        upper: &dyn Upper,
        now: Instant,
        wire: &mut dyn Wire,
    ) -> Received<'b> {
        if packet.protocol == ICMP {
            return self.take_icmp(packet, frame.from, wire);
        }
        let (protocol, came_whole) = (packet.protocol, told.is_some());
        let checksum = if came_whole { frame.checksum } else { Checksum::Unknown };
        let (source, destination) = (packet.source.into(), packet.destination.into());
        let whole = Payload {
            source,
            destination,
            protocol,
            payload: packet.payload,
            from: frame.from,
            came_whole,
            is_marked: false,
        };
        let problem = match offer(whole, checksum, upper) {
            Ok(received) => return received,
            Err(Unwanted) if protocol == UDP => Problem::Port,
            Err(Unwanted) => Problem::Protocol(9),
        };
        if let Some(told) = told
            && self.limiter.allows(now, self.random.next())
        {
            let mut buffer = [0; LARGEST];
            let written = error_about_ipv4(told, problem, told.destination, frame.was_for_all, &mut buffer);
            send(wire, frame.from, Kind::Ipv4, written, &buffer);
        }
        Received::Done
    }

    fn take_icmp<'b>(&mut self, packet: &Ipv4<'_>, from: LinkAddress, wire: &mut dyn Wire) -> Received<'b> {
        match message_of_ipv4(packet) {
            Ok(Message::EchoRequest(echo)) => {
                let mut buffer = [0; LARGEST];
                let own = |address: Ipv4Addr| self.four.own() == Some(address);
                let written = answer_ipv4(packet, echo, own, &mut buffer);
                send(wire, from, Kind::Ipv4, written, &buffer);
            }
            Ok(Message::Error(report, quoted)) if quoted.source == IpAddr::V4(packet.destination) => {
                return Received::Error(report, quoted);
            }
            Ok(Message::Error(..) | Message::EchoReply(_) | Message::Other) | Err(_) => {}
        }
        Received::Done
    }

    /// Takes the content of a whole packet for this host, or for a group that it is in.
    #[expect(clippy::too_many_arguments, reason = "a packet, its content, its frame, and who else is there")]
    fn take_ipv6<'b>(
        &mut self,
        packet: &Ipv6<'_>,
        found: &Content<'b>,
        frame: &Frame<'_>,
        came_whole: bool,
        upper: &dyn Upper,
        now: Instant,
        wire: &mut dyn Wire,
    ) -> Received<'b> {
        let (protocol, payload) = (found.protocol, found.payload);
        if protocol == ICMPV6 {
            return self.take_icmpv6(packet, payload, frame.from, came_whole, now, wire);
        }
        let is_own = self.six.as_ref().is_some_and(|six| six.own(packet.destination) != Own::No);
        if !is_own || frame.was_for_all || packet.source.is_unspecified() {
            return Received::Done;
        }
        let checksum = if came_whole { frame.checksum } else { Checksum::Unknown };
        let (source, destination) = (packet.source.into(), packet.destination.into());
        let whole = Payload { source, destination, protocol, payload, from: frame.from, came_whole, is_marked: false };
        let problem = match offer(whole, checksum, upper) {
            Ok(received) => return received,
            Err(Unwanted) if protocol == UDP => Problem::Port,
            // Of a packet without extension headers, whose place is known.
            Err(Unwanted) if packet.next_header == protocol => Problem::Protocol(6),
            Err(Unwanted) => return Received::Done,
        };
        if came_whole {
            self.tell_ipv6(packet, frame, problem, now, wire);
        }
        Received::Done
    }

    fn take_icmpv6<'b>(
        &mut self,
        packet: &Ipv6<'_>,
        message: &[u8],
        from: LinkAddress,
        came_whole: bool,
        now: Instant,
        wire: &mut dyn Wire,
    ) -> Received<'b> {
        // No message of neighbour discovery comes in fragments (RFC 6980 §5).
        if matches!(message.first(), Some(130..=137 | 143)) {
            if came_whole {
                self.receive_discovery(packet, message, from, now, wire);
            }
            return Received::Done;
        }
        let Some(six) = &self.six else { return Received::Done };
        let (is_own, hop_limit) = (six.own(packet.destination) != Own::No, self.hop_limit());
        match message_of_ipv6(packet, message) {
            Ok(Message::EchoRequest(echo)) => {
                // Whoever asks a group is answered from an address of the host's (RFC 4443 §4.2).
                let own = if is_own { Some(packet.destination) } else { six.source(packet.source, now) };
                let mut buffer = [0; LARGEST];
                let written = own.and_then(|own| answer_ipv6(packet, echo, own, hop_limit, &mut buffer));
                send(wire, from, Kind::Ipv6, written, &buffer);
            }
            Ok(Message::Error(report, quoted)) if quoted.source == IpAddr::V6(packet.destination) => {
                return Received::Error(report, quoted);
            }
            Ok(Message::Error(..) | Message::EchoReply(_) | Message::Other) | Err(_) => {}
        }
        Received::Done
    }

    /// Tells the sender of a packet of IPv6 what is wrong with it, if errors are not too many.
    fn tell_ipv6(&mut self, packet: &Ipv6<'_>, frame: &Frame<'_>, problem: Problem, now: Instant, wire: &mut dyn Wire) {
        if !self.limiter.allows(now, self.random.next()) {
            return;
        }
        let mut buffer = [0; LARGEST];
        let (own, all) = (packet.destination, frame.was_for_all);
        let bytes = frame.packet.get(..ipv6::HEADER + packet.payload.len()).unwrap_or_default();
        let written = error_about_ipv6(packet, bytes, problem, own, self.hop_limit(), all, &mut buffer);
        send(wire, frame.from, Kind::Ipv6, written, &buffer);
    }

    /// Tells the sender of the packet that begins with `head` that its other fragments have not
    /// come. Its station is looked up: nobody has remembered where the fragments came from.
    pub(super) fn fragments_missing(&mut self, head: &[u8], now: Instant, wire: &mut dyn Wire) {
        if !self.limiter.allows(now, self.random.next()) {
            return;
        }
        let mut buffer = [0; LARGEST];
        let written = fragments_missing(head, self.hop_limit(), &mut buffer);
        if let Some(packet) = written.and_then(|length| buffer.get(..length)) {
            // Nobody waits for it.
            let _ = self.send_packet(packet, now, wire);
        }
    }
}

/// Sends what was written, if anything was.
fn send(wire: &mut dyn Wire, to: LinkAddress, kind: Kind, written: Option<usize>, buffer: &[u8]) {
    if let Some(packet) = written.and_then(|length| buffer.get(..length)) {
        wire.send(to, kind, packet);
    }
}
