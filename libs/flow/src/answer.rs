//! ICMP errors by which a router tells a sender why its packet goes no further.
//!
//! Path MTU discovery (RFC 1191, RFC 8201) and traceroute work by these. They are made of the
//! packet as it came, before it is translated, since that is the packet that its sender knows.
//! Whoever sends them asks a [`crate::Limits`] before.

use crate::header::{V4, V6};
use crate::packet::Packet;
use crate::transport::Transport;
use crate::tuple::{ICMP, ICMP6};
use core::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use culm_packet::checksum::Sum;

/// Most bytes of an error over IPv4 (RFC 1812 §4.3.2.3).
const LONGEST_V4: usize = 576;

/// Most bytes of an error over IPv6: no link takes less (RFC 4443 §2.4 c).
const LONGEST_V6: usize = 1280;

/// Bytes of an ICMP header.
const ICMP_HEADER: usize = 8;

/// Bytes that [`answer`] needs at most.
pub const LONGEST_ANSWER: usize = LONGEST_V6;

/// Time to live and hop limit of errors.
const HOPS: u8 = 64;

/// Precedence and traffic class of errors: internetwork control (RFC 1812 §4.3.2.5).
const CLASS: u8 = 0xc0;

/// Why a packet goes no further.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Problem {
    /// It has passed as many routers as it may.
    TimeExceeded,
    /// It is longer than the next link takes, and may not be divided.
    TooBig {
        /// Bytes that the link takes.
        mtu: u16,
    },
    /// No route leads to its receiver.
    NoRoute,
    /// Its receiver does not answer on its link.
    NoHost,
    /// Nobody takes it there.
    NoPort,
    /// A rule refuses it.
    Prohibited,
}

impl Problem {
    /// Returns the ICMP type and code for IPv4 (RFC 792, RFC 1812 §5.2.7.1) or IPv6 (RFC 4443 §3).
    fn code(self, is_v4: bool) -> (u8, u8) {
        match (self, is_v4) {
            (Self::TimeExceeded, true) => (11, 0),
            (Self::TooBig { .. }, true) => (3, 4),
            (Self::NoRoute, true) => (3, 0),
            (Self::NoHost, true) => (3, 1),
            (Self::NoPort, true) => (3, 3),
            (Self::Prohibited, true) => (3, 13),
            (Self::TimeExceeded, false) => (3, 0),
            (Self::TooBig { .. }, false) => (2, 0),
            (Self::NoRoute, false) => (1, 0),
            (Self::NoHost, false) => (1, 3),
            (Self::NoPort, false) => (1, 4),
            (Self::Prohibited, false) => (1, 1),
        }
    }
}

/// Returns whether a packet may be answered by an error (RFC 1122 §3.2.2, RFC 1812 §4.3.2.7,
/// RFC 4443 §2.4 e): none about an error, lest two routers answer each other for ever; none about a
/// later fragment, whose first one is answered; none to or about those who are many, or nobody.
pub fn may_be_answered(packet: &Packet, problem: Problem) -> bool {
    let is_v4 = packet.source.is_ipv4();
    let is_message = match packet.transport {
        Transport::Error(_) | Transport::Rest => return false,
        // Router advertisements and solicitations, times, masks.
        Transport::Control { kind, .. } if is_v4 => matches!(kind, 9 | 10 | 13..=18),
        // Below 128 are errors, 137 is a redirect.
        Transport::Control { kind, .. } => kind >= 128 && kind != 137,
        _ => true,
    };
    let source_is_one = match packet.source {
        IpAddr::V4(source) => is_one(source),
        IpAddr::V6(source) => !source.is_unspecified() && !source.is_multicast() && !source.is_loopback(),
    };
    let destination_is_one = match packet.destination {
        IpAddr::V4(destination) => is_one(destination),
        // Path MTU discovery of IPv6 works for multicasts too (RFC 4443 §2.4 e.3).
        IpAddr::V6(destination) => !destination.is_multicast() || matches!(problem, Problem::TooBig { .. }),
    };
    is_message && source_is_one && destination_is_one
}

/// Returns whether an address is one host's: not of class D or E, nor of nets 0 and 127.
fn is_one(address: Ipv4Addr) -> bool {
    let [first, ..] = address.octets();
    !matches!(first, 0 | 127 | 224..)
}

/// Writes the error by which `from`, an address of the router, tells the sender of `packet`, whose
/// bytes are `bytes`, of a problem. Returns the error's length, which is [`LONGEST_ANSWER`] at
/// most; `None` if such a packet must not be answered, the addresses are not of one family, or
/// `out` is too short for the error's headers.
pub fn answer(problem: Problem, packet: &Packet, bytes: &[u8], from: IpAddr, out: &mut [u8]) -> Option<usize> {
    if !may_be_answered(packet, problem) {
        return None;
    }
    let own = bytes.get(..packet.length)?;
    match (from, packet.source) {
        (IpAddr::V4(from), IpAddr::V4(to)) => answer_v4(problem, own, from, to, out),
        (IpAddr::V6(from), IpAddr::V6(to)) => answer_v6(problem, own, from, to, out),
        _ => None,
    }
}

/// Writes the ICMP message at `out[at..]`, which is `longest` bytes at most with all before it, and
/// returns the length of both. Its checksum is that of `sum` and the message.
fn message(problem: Problem, is_v4: bool, quoted: &[u8], out: &mut [u8], at: usize) -> Option<usize> {
    let longest = if is_v4 { LONGEST_V4 } else { LONGEST_V6 };
    let (kind, code) = problem.code(is_v4);
    let mtu = if let Problem::TooBig { mtu } = problem { mtu } else { 0 };
    let [high, low] = mtu.to_be_bytes();
    let room = longest.min(out.len());
    let (header, rest) = out.get_mut(at..room)?.split_first_chunk_mut::<ICMP_HEADER>()?;
    // For IPv4 the MTU is the last 16 bits (RFC 1191 §4), for IPv6 all 32 (RFC 4443 §3.2).
    *header = [kind, code, 0, 0, 0, 0, high, low];
    let count = quoted.len().min(rest.len());
    rest.get_mut(..count)?.copy_from_slice(quoted.get(..count)?);
    Some(at + ICMP_HEADER + count)
}

/// Writes the checksum of the ICMP message at `at`, to which `sum` has its pseudo-header.
fn seal(sum: Sum, out: &mut [u8], at: usize) -> Option<()> {
    let checksum = sum.add_bytes(out.get(at..)?).checksum().to_be_bytes();
    *out.get_mut(at + 2..)?.first_chunk_mut()? = checksum;
    Some(())
}

fn answer_v4(problem: Problem, own: &[u8], from: Ipv4Addr, to: Ipv4Addr, out: &mut [u8]) -> Option<usize> {
    let length = message(problem, true, own, out, V4)?;
    let out = out.get_mut(..length)?;
    seal(Sum::ZERO, out, V4)?;
    let [a, b] = u16::try_from(length).ok()?.to_be_bytes();
    let mut header = [0x45, CLASS, a, b, 0, 0, 0x40, 0, HOPS, ICMP, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0];
    header[12..16].copy_from_slice(&from.octets());
    header[16..].copy_from_slice(&to.octets());
    let checksum = Sum::ZERO.add_bytes(&header).checksum().to_be_bytes();
    header[10..12].copy_from_slice(&checksum);
    *out.first_chunk_mut()? = header;
    Some(length)
}

fn answer_v6(problem: Problem, own: &[u8], from: Ipv6Addr, to: Ipv6Addr, out: &mut [u8]) -> Option<usize> {
    let length = message(problem, false, own, out, V6)?;
    let out = out.get_mut(..length)?;
    seal(Sum::pseudo_header(from, to, ICMP6, length - V6), out, V6)?;
    let [a, b] = u16::try_from(length - V6).ok()?.to_be_bytes();
    let header: &mut [u8; V6] = out.first_chunk_mut()?;
    header[..8].copy_from_slice(&[0x60 | CLASS >> 4, CLASS << 4, 0, 0, a, b, ICMP6, HOPS]);
    header[8..24].copy_from_slice(&from.octets());
    header[24..].copy_from_slice(&to.octets());
    Some(length)
}
