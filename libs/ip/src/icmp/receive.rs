//! Messages that are received.

use super::{ICMP, ICMPV6, Quoted, ipv4_kind, ipv6_kind};
use crate::Malformed;
use crate::bytes::Reader;
use crate::ipv4::Ipv4;
use crate::ipv6::Ipv6;
use culm_packet::checksum::Sum;

/// A message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Message<'a> {
    /// Somebody wants these bytes back: an identifier, a number, and data.
    EchoRequest(&'a [u8]),
    /// These bytes have come back.
    EchoReply(&'a [u8]),
    /// A packet has not arrived.
    Error(Report, Quoted),
    /// It is of another kind: of neighbour discovery, or none of a host's.
    Other,
}

/// What has happened to a packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Report {
    /// It could not be delivered.
    Unreachable(Severity),
    /// It was too big for a link, which carries so many bytes; 0 if that is not said, which only
    /// routers of IPv4 may leave out.
    TooBig(u32),
    /// It passed too many routers, or parts of it were missing for too long.
    TimeExceeded,
    /// Its header was not understood.
    Parameter,
}

/// Whether trying again can help (RFC 1122 §4.2.3.9).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Severity {
    /// It can: a route or a host is missing, perhaps for a moment.
    Soft,
    /// It cannot: the host is there, and nobody takes the protocol or the port.
    Hard,
}

/// Reads the message in a packet of IPv4.
///
/// # Errors
///
/// The packet is a fragment or of another protocol, the message is cut off or not intact, or it
/// quotes no packet that had a beginning.
pub fn message_of_ipv4<'a>(packet: &Ipv4<'a>) -> Result<Message<'a>, Malformed> {
    if packet.protocol != ICMP || packet.is_fragment() {
        return Err(Malformed::Version);
    }
    if !Sum::ZERO.add_bytes(packet.payload).is_intact() {
        return Err(Malformed::Checksum);
    }
    let mut reader = Reader(packet.payload);
    let [kind, code, _, _] = reader.array()?;
    let content = reader.0;
    let rest = reader.word()?;
    let report = match (kind, code) {
        (ipv4_kind::ECHO_REQUEST, 0) => return Ok(Message::EchoRequest(content)),
        (ipv4_kind::ECHO_REPLY, 0) => return Ok(Message::EchoReply(content)),
        (ipv4_kind::UNREACHABLE, 4) => Report::TooBig(rest & 0xffff),
        (ipv4_kind::UNREACHABLE, 2 | 3) => Report::Unreachable(Severity::Hard),
        (ipv4_kind::UNREACHABLE, _) => Report::Unreachable(Severity::Soft),
        (ipv4_kind::TIME_EXCEEDED, _) => Report::TimeExceeded,
        (ipv4_kind::PARAMETER_PROBLEM, _) => Report::Parameter,
        _ => return Ok(Message::Other),
    };
    Quoted::of_ipv4(reader.0).map(|quoted| Message::Error(report, quoted))
}

/// Reads the message in `content`, which is what the packet of IPv6 carries behind its extension
/// headers ([`content`](crate::extension::content)).
///
/// # Errors
///
/// The message is cut off or not intact, or it quotes no packet that had a beginning.
pub fn message_of_ipv6<'a>(packet: &Ipv6<'_>, content: &'a [u8]) -> Result<Message<'a>, Malformed> {
    let pseudo = Sum::pseudo_header(packet.source, packet.destination, ICMPV6, content.len());
    if !pseudo.add_bytes(content).is_intact() {
        return Err(Malformed::Checksum);
    }
    let mut reader = Reader(content);
    let [kind, code, _, _] = reader.array()?;
    let content = reader.0;
    let rest = reader.word()?;
    let report = match (kind, code) {
        (ipv6_kind::ECHO_REQUEST, 0) => return Ok(Message::EchoRequest(content)),
        (ipv6_kind::ECHO_REPLY, 0) => return Ok(Message::EchoReply(content)),
        (ipv6_kind::UNREACHABLE, 4) => Report::Unreachable(Severity::Hard),
        (ipv6_kind::UNREACHABLE, _) => Report::Unreachable(Severity::Soft),
        (ipv6_kind::TOO_BIG, _) => Report::TooBig(rest),
        (ipv6_kind::TIME_EXCEEDED, _) => Report::TimeExceeded,
        (ipv6_kind::PARAMETER_PROBLEM, _) => Report::Parameter,
        _ => return Ok(Message::Other),
    };
    Quoted::of_ipv6(reader.0).map(|quoted| Message::Error(report, quoted))
}
