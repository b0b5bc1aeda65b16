//! Changes that a router makes to a packet it forwards, with their checksums.

use crate::header::V4;
use crate::packet::Packet;
use crate::transport::{Quoted, Transport};
use crate::tuple::{ICMP, TCP, Tuple, UDP};
use core::net::IpAddr;
use culm_packet::checksum::Difference;
use culm_packet::wire::{icmp, ipv4, ipv6, tcp, udp};

/// Place of the identifier in an ICMP echo.
const ICMP_IDENTIFIER: usize = 4;

/// A packet cannot be translated: it is of IPv6, of a protocol other than TCP, UDP and ICMP, or not
/// the one that was read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CannotTranslate;

/// Counts this router: lowers the packet's time to live or hop limit, and returns what is left;
/// `None` if nothing is, or the bytes are not those of the packet. Then it is not forwarded, and
/// its sender is told (RFC 1812 §5.3.1, RFC 4443 §3.3).
pub fn count_hop(bytes: &mut [u8], packet: &Packet) -> Option<u8> {
    let left = packet.hops.checked_sub(1).filter(|left| *left != 0)?;
    if packet.source.is_ipv4() {
        let mut difference = Difference::default();
        difference.replace(bytes, ipv4::TIME_TO_LIVE, [left], false)?;
        difference.correct(bytes, ipv4::CHECKSUM, &mut Difference::default())?;
    } else {
        *bytes.get_mut(ipv6::HOP_LIMIT)? = left;
    }
    Some(left)
}

/// Lowers the maximum segment size that a SYN tells to `most`, for a way whose packets are smaller
/// than those of the ends' own links. Returns whether it was larger.
///
/// An end that tells none can be sent 536 bytes (RFC 9293 §3.7.1), so none is added.
pub fn clamp_mss(bytes: &mut [u8], packet: &Packet, most: u16) -> bool {
    let Transport::Tcp(segment) = packet.transport else { return false };
    let Some(at) = segment.mss_at else { return false };
    let place = packet.payload + usize::from(at);
    let Some(own) = bytes.get(place..).and_then(<[u8]>::first_chunk) else { return false };
    if u16::from_be_bytes(*own) <= most {
        return false;
    }
    let mut difference = Difference::default();
    difference.replace(bytes, place, most.to_be_bytes(), at % 2 == 1).is_some()
        && difference.correct(bytes, packet.payload + tcp::CHECKSUM, &mut Difference::default()).is_some()
}

/// Gives a packet the addresses and ports of `to`, which is of the same protocol. A later fragment
/// gets the addresses.
///
/// # Errors
///
/// The packet is not one of IPv4 that can be translated, or `bytes` are not its; these are not to
/// be sent then.
pub fn translate(bytes: &mut [u8], packet: &Packet, to: &Tuple) -> Result<(), CannotTranslate> {
    if packet.tuple().is_some_and(|own| own == *to) {
        return Ok(());
    }
    let bytes = bytes.get_mut(..packet.length).ok_or(CannotTranslate)?;
    let addresses = replace_addresses(bytes, 0, to).ok_or(CannotTranslate)?;
    let is_done = match packet.transport {
        Transport::Rest if matches!(packet.protocol, TCP | UDP | ICMP) => Some(()),
        Transport::Tcp(_) | Transport::Udp { .. } | Transport::Echo { .. } => {
            replace_ports(bytes, packet.payload, to, addresses, &mut Difference::default())
        }
        _ => None,
    };
    is_done.ok_or(CannotTranslate)
}

/// Translates an ICMP error: gives the packet that it quotes, whose flow it is about, the addresses
/// and ports of `quoted`, and the error itself these addresses (RFC 5508 §4.2).
///
/// # Errors
///
/// As those of [`translate`].
pub fn translate_error(
    bytes: &mut [u8],
    packet: &Packet,
    quoted: &Tuple,
    source: IpAddr,
    destination: IpAddr,
) -> Result<(), CannotTranslate> {
    let Transport::Error(Quoted { tuple, transport, .. }) = packet.transport else { return Err(CannotTranslate) };
    if (tuple, packet.source, packet.destination) == (*quoted, source, destination) {
        return Ok(());
    }
    let change = |bytes: &mut [u8]| {
        let message = bytes.get_mut(packet.payload..packet.length)?;
        let mut whole = Difference::default();
        let addresses = replace_addresses_within(message, icmp::HEADER, quoted, &mut whole)?;
        replace_ports(message, transport.into(), quoted, addresses, &mut whole)?;
        whole.correct(message, icmp::CHECKSUM, &mut Difference::default())?;
        // An ICMP message of IPv4 is summed without its packet's addresses.
        let outer = Tuple { source, destination, ..*quoted };
        replace_addresses(bytes, 0, &outer)?;
        Some(())
    };
    change(bytes).ok_or(CannotTranslate)
}

/// Replaces the addresses of the IPv4 header at `at`, and returns the difference that they make.
fn replace_addresses(bytes: &mut [u8], at: usize, to: &Tuple) -> Option<Difference> {
    replace_addresses_within(bytes, at, to, &mut Difference::default())
}

/// Replaces the addresses of the IPv4 header at `at`, in data of which `outer` is a difference.
fn replace_addresses_within(bytes: &mut [u8], at: usize, to: &Tuple, outer: &mut Difference) -> Option<Difference> {
    let (IpAddr::V4(source), IpAddr::V4(destination)) = (to.source, to.destination) else { return None };
    let header = bytes.get_mut(at..at.checked_add(V4)?)?;
    if header.first()? >> 4 != 4 {
        return None;
    }
    let mut addresses = Difference::default();
    addresses.replace(header, ipv4::SOURCE, source.octets(), false)?;
    addresses.replace(header, ipv4::DESTINATION, destination.octets(), false)?;
    addresses.correct(header, ipv4::CHECKSUM, outer)?;
    *outer = outer.and(addresses);
    Some(addresses)
}

/// Replaces the ports of the transport header at `at`, and corrects its checksum by theirs and the
/// addresses' differences. What is quoted of a packet may end before its checksum.
fn replace_ports(bytes: &mut [u8], at: usize, to: &Tuple, addresses: Difference, outer: &mut Difference) -> Option<()> {
    let header = bytes.get_mut(at..)?;
    let mut ports = Difference::default();
    let place = match to.protocol {
        TCP => tcp::CHECKSUM,
        UDP => udp::CHECKSUM,
        ICMP => {
            // One of the two is 0: an echo has one identifier.
            let identifier = to.source_port | to.destination_port;
            ports.replace(header, ICMP_IDENTIFIER, identifier.to_be_bytes(), false)?;
            ports.correct(header, icmp::CHECKSUM, outer)?;
            *outer = outer.and(ports);
            // A reply of zeros alone has the sum 0, which no difference leads to (RFC 1624 §3).
            if header.iter().all(|byte| *byte == 0) {
                outer.replace(header, icmp::CHECKSUM, [0xff, 0xff], false)?;
            }
            return Some(());
        }
        _ => return None,
    };
    ports.replace(header, 0, to.source_port.to_be_bytes(), false)?;
    ports.replace(header, 2, to.destination_port.to_be_bytes(), false)?;
    *outer = outer.and(ports);
    let Some(checksum) = header.get(place..).and_then(<[u8]>::first_chunk) else { return Some(()) };
    // RFC 768: no checksum was made, and one that comes out as zero is sent as its complement.
    let old = u16::from_be_bytes(*checksum);
    if to.protocol == UDP && old == 0 {
        return Some(());
    }
    let new = match ports.and(addresses).corrected(old) {
        0 if to.protocol == UDP => 0xffff,
        new => new,
    };
    outer.replace(header, place, new.to_be_bytes(), false)
}
