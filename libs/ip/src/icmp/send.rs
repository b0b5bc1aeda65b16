//! Messages that are sent: echo replies, and errors where the rules allow them.

use super::{ICMP, ICMPV6, ipv4_kind, ipv6_kind};
use crate::Instant;
use crate::address::is_host;
use crate::bytes::{Reader, Writer};
use crate::extension::{Content, behind, content};
use crate::ipv4::{self, Ipv4};
use crate::ipv6::{self, Ipv6};
use core::net::{Ipv4Addr, Ipv6Addr};
use core::time::Duration;
use culm_packet::checksum::Sum;

/// Bytes of the longest error over IPv4: as many as every host receives (RFC 1812 §4.3.2.3).
pub const LONGEST_IPV4: usize = ipv4::MINIMUM_MTU as usize;

/// Bytes of the longest error over IPv6 (RFC 4443 §2.4 (c)).
pub const LONGEST_IPV6: usize = ipv6::MINIMUM_MTU as usize;

/// Hops that a message over IPv4 may take.
const HOPS: u8 = 64;

/// What this host has against a packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Problem {
    /// Nobody takes the port.
    Port,
    /// Nobody takes the protocol, whose number is so many bytes from the packet's beginning.
    Protocol(u32),
    /// The other fragments have not come in time.
    Fragments,
    /// A field at so many bytes from the packet's beginning cannot be so.
    Field(u32),
}

impl Problem {
    /// Type, code and the word behind the checksum, of ICMP.
    fn of_ipv4(self) -> (u8, u8, u32) {
        match self {
            Self::Port => (ipv4_kind::UNREACHABLE, 3, 0),
            Self::Protocol(_) => (ipv4_kind::UNREACHABLE, 2, 0),
            Self::Fragments => (ipv4_kind::TIME_EXCEEDED, 1, 0),
            Self::Field(place) => (ipv4_kind::PARAMETER_PROBLEM, 0, place.min(255) << 24),
        }
    }

    /// Type, code and the word behind the checksum, of ICMPv6.
    fn of_ipv6(self) -> (u8, u8, u32) {
        match self {
            Self::Port => (ipv6_kind::UNREACHABLE, 4, 0),
            Self::Protocol(place) => (ipv6_kind::PARAMETER_PROBLEM, 1, place),
            Self::Fragments => (ipv6_kind::TIME_EXCEEDED, 1, 0),
            Self::Field(place) => (ipv6_kind::PARAMETER_PROBLEM, 0, place),
        }
    }
}

/// Bounds how many errors are sent (RFC 4443 §2.4 (f), RFC 1812 §4.3.2.8).
///
/// Each takes one to three of its tokens, as chance has it: whoever counts the errors that he gets
/// cannot tell by them whether somebody else got one, and so which ports are open to a third.
#[derive(Clone, Copy, Debug)]
pub struct Limiter {
    tokens: u32,
    /// The most tokens, and how long it takes until there is one more.
    most: u32,
    interval: Duration,
    /// When the last token came.
    since: Instant,
}

impl Limiter {
    /// A limiter with `burst` tokens, and one more after each `interval`.
    pub fn new(burst: u32, interval: Duration, now: Instant) -> Self {
        Self { tokens: burst, most: burst, interval: interval.max(Duration::from_micros(1)), since: now }
    }

    /// Returns whether another error may be sent; `random` chooses what it takes.
    pub fn allows(&mut self, now: Instant, random: u32) -> bool {
        // Whatever does not fit into 64 bits is enough for all. Division of 128 is a lot of code.
        let microseconds = |time: Duration| u64::try_from(time.as_micros()).unwrap_or(u64::MAX);
        let new = microseconds(now.since(self.since)).checked_div(microseconds(self.interval));
        let new = new.map_or(u32::MAX, |new| u32::try_from(new).unwrap_or(u32::MAX));
        self.tokens = self.tokens.saturating_add(new).min(self.most);
        // What is left of an interval is not lost, unless there is nothing to save it for.
        self.since = if self.tokens == self.most { now } else { self.since + self.interval.saturating_mul(new) };
        if self.tokens == 0 {
            return false;
        }
        self.tokens = self.tokens.saturating_sub(1 + random % 3);
        true
    }
}

/// Writes the reply to an echo request over IPv4 that has brought `echo`; `None` if there is none
/// to be given, or it does not fit into `buffer`. `own` says whether an address is this host's: who
/// asks all hosts at once is not answered (RFC 1122 §3.2.2.6).
pub fn answer_ipv4(
    request: &Ipv4<'_>,
    echo: &[u8],
    own: impl Fn(Ipv4Addr) -> bool,
    buffer: &mut [u8],
) -> Option<usize> {
    if !own(request.destination) || !is_host(request.source) {
        return None;
    }
    let head = ipv4_head(request.destination, request.source);
    let mut writer = Writer::new(buffer);
    head.write_header(&mut writer, echo.len().checked_add(4)?)?;
    finish(writer, ipv4::HEADER, &[ipv4_kind::ECHO_REPLY, 0], &[echo], Sum::ZERO)
}

/// Writes the reply to an echo request over IPv6 that has brought `echo`, from the address `own`:
/// the request's destination, or another of this host's if that is a group (RFC 4443 §4.2). It
/// begins with `hop_limit`. `None` if nobody can be answered, or the reply does not fit into
/// `buffer`.
pub fn answer_ipv6(request: &Ipv6<'_>, echo: &[u8], own: Ipv6Addr, hop_limit: u8, buffer: &mut [u8]) -> Option<usize> {
    if own.is_multicast() || request.source.is_unspecified() {
        return None;
    }
    let length = echo.len().checked_add(4)?;
    let head = ipv6_head(own, request.source, hop_limit);
    let mut writer = Writer::new(buffer);
    head.write_header(&mut writer, length)?;
    let pseudo = Sum::pseudo_header(own, request.source, ICMPV6, length);
    finish(writer, ipv6::HEADER, &[ipv6_kind::ECHO_REPLY, 0], &[echo], pseudo)
}

/// Writes an error about a packet of IPv4 that was for `own`, an address of this host's; `None` if
/// nobody may be told (RFC 1122 §3.2.2), or it does not fit into `buffer`. `was_for_all` says
/// whether the frame that brought it was for a group of stations.
pub fn error_about_ipv4(
    packet: &Ipv4<'_>,
    problem: Problem,
    own: Ipv4Addr,
    was_for_all: bool,
    buffer: &mut [u8],
) -> Option<usize> {
    // Types that are no question and no answer are those of errors, or may be; so may be a message
    // without a type.
    let is_error = packet.protocol == ICMP
        && !matches!(packet.payload.first(), Some(&(ipv4_kind::ECHO_REPLY | ipv4_kind::ECHO_REQUEST | 13..=18)));
    let is_told =
        packet.destination == own && !was_for_all && packet.offset == 0 && is_host(packet.source) && !is_error;
    if !is_told {
        return None;
    }
    let quoted = packet.packet.get(..LONGEST_IPV4 - ipv4::HEADER - 8).unwrap_or(packet.packet);
    let (kind, code, rest) = problem.of_ipv4();
    let mut writer = Writer::new(buffer);
    ipv4_head(own, packet.source).write_header(&mut writer, quoted.len() + 8)?;
    finish(writer, ipv4::HEADER, &[kind, code], &[&rest.to_be_bytes(), quoted], Sum::ZERO)
}

/// Writes an error about a packet of IPv6 that was for `own`, an address of this host's; `bytes`
/// are those of the packet from its header on. The error begins with `hop_limit`. `None` if nobody
/// may be told (RFC 4443 §2.4 (e)), or the error does not fit into `buffer`.
pub fn error_about_ipv6(
    packet: &Ipv6<'_>,
    bytes: &[u8],
    problem: Problem,
    own: Ipv6Addr,
    hop_limit: u8,
    was_for_all: bool,
    buffer: &mut [u8],
) -> Option<usize> {
    // A first fragment may have further headers before what it begins with.
    let found = content(packet).and_then(|found| match found.fragment {
        Some(part) if part.offset == 0 => {
            let inner = behind(found.protocol, found.payload)?;
            Ok(Content { fragment: found.fragment, ..inner })
        }
        _ => Ok(found),
    });
    let is_error = match found {
        Ok(found) if found.protocol == ICMPV6 => match found.payload.first() {
            Some(kind) => *kind < 128 || *kind == ipv6_kind::REDIRECT,
            None => true,
        },
        Ok(_) => false,
        // What is behind headers that are not understood cannot be told from an error. It is told
        // of these headers alone, by an error that has none and so cannot be answered in turn.
        Err(_) => !matches!(problem, Problem::Field(_) | Problem::Protocol(_)),
    };
    let is_first = !found.is_ok_and(|found| found.fragment.is_some_and(|part| part.offset != 0));
    let is_host = !packet.source.is_unspecified() && !packet.source.is_loopback() && !packet.source.is_multicast();
    if packet.destination != own || was_for_all || !is_host || is_error || !is_first {
        return None;
    }
    let quoted = bytes.get(..LONGEST_IPV6 - ipv6::HEADER - 8).unwrap_or(bytes);
    let (kind, code, rest) = problem.of_ipv6();
    let length = quoted.len() + 8;
    let mut writer = Writer::new(buffer);
    ipv6_head(own, packet.source, hop_limit).write_header(&mut writer, length)?;
    let pseudo = Sum::pseudo_header(own, packet.source, ICMPV6, length);
    finish(writer, ipv6::HEADER, &[kind, code], &[&rest.to_be_bytes(), quoted], pseudo)
}

/// Writes the error that fragments have not come in time, to the sender of the packet of either
/// version that begins with `head` and was for this host; over IPv6 it begins with `hop_limit`.
/// `None` if nobody may be told, `head` has not as much as a header, or the error does not fit into
/// `buffer`.
pub fn fragments_missing(head: &[u8], hop_limit: u8, buffer: &mut [u8]) -> Option<usize> {
    let mut reader = Reader(head);
    let [first] = reader.array().ok()?;
    if first >> 4 == 4 {
        reader.take(8).ok()?;
        let [protocol, _, _] = reader.array().ok()?;
        let (source, destination) = (reader.ipv4().ok()?, reader.ipv4().ok()?);
        let payload = head.get(usize::from(first & 15) * 4..)?;
        let packet = Ipv4 { protocol, payload, packet: head, ..ipv4_head(source, destination) };
        return error_about_ipv4(&packet, Problem::Fragments, destination, false, buffer);
    }
    // The length in the header does not hold for what there is of the packet.
    reader.take(5).ok()?;
    let [next_header, hops_left] = reader.array().ok()?;
    let (source, destination) = (reader.ipv6().ok()?, reader.ipv6().ok()?);
    let packet = Ipv6 { source, destination, next_header, hop_limit: hops_left, payload: reader.0 };
    error_about_ipv6(&packet, head, Problem::Fragments, destination, hop_limit, false, buffer)
}

fn ipv4_head<'a>(source: Ipv4Addr, destination: Ipv4Addr) -> Ipv4<'a> {
    Ipv4 {
        source,
        destination,
        protocol: ICMP,
        time_to_live: HOPS,
        identification: 0,
        may_fragment: false,
        offset: 0,
        has_more: false,
        payload: &[],
        packet: &[],
    }
}

fn ipv6_head<'a>(source: Ipv6Addr, destination: Ipv6Addr, hop_limit: u8) -> Ipv6<'a> {
    Ipv6 { source, destination, next_header: ICMPV6, hop_limit, payload: &[] }
}

/// Writes a message behind its IP header, which has `header` bytes: type and code in `kind`, then
/// its parts. `sum` is that of the pseudo-header. Returns the length of all.
fn finish(mut writer: Writer<'_>, header: usize, kind: &[u8; 2], parts: &[&[u8]], sum: Sum) -> Option<usize> {
    writer.put(kind)?;
    writer.put(&[0; 2])?;
    for part in parts {
        writer.put(part)?;
    }
    let checksum = sum.add_bytes(writer.written().get(header..)?).checksum();
    writer.patch(header + 2, &checksum.to_be_bytes())?;
    Some(writer.len())
}
