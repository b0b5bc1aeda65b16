//! Messages of neighbour discovery (RFC 4861 §4), in packets of IPv6.
//!
//! They are read here and not by another's parser because a host has to look at each prefix of an
//! advertisement (§6.3.4), of which smoltcp 0.14 keeps one.

use crate::bytes::{Reader, Writer};
use crate::ipv6::{HEADER, Ipv6};
use crate::{ALL_ROUTERS, LinkAddress, Malformed};
use core::net::Ipv6Addr;
use core::time::Duration;
use culm_packet::checksum::Sum;
use culm_packet::wire::protocols::ICMPV6 as ICMP;

/// The hop limit of every message, which shows that no router has passed it on (§3.1).
pub(super) const HOP_LIMIT: u8 = 255;

/// Types of messages.
pub(super) mod kind {
    pub const ROUTER_SOLICITATION: u8 = 133;
    pub const ROUTER_ADVERTISEMENT: u8 = 134;
    pub const SOLICITATION: u8 = 135;
    pub const ADVERTISEMENT: u8 = 136;
}

/// Types of options (§4.6).
pub(super) mod option {
    pub const SOURCE_LINK: u8 = 1;
    pub const TARGET_LINK: u8 = 2;
    pub const PREFIX: u8 = 3;
    pub const MTU: u8 = 5;
    /// RFC 8106 §5.1.
    pub const NAME_SERVERS: u8 = 25;
}

/// Bytes of the longest packet that this module writes.
pub const LONGEST: usize = HEADER + 24 + 8;

/// A message that a host takes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Message<'a> {
    /// A router tells of itself.
    RouterAdvertisement(RouterAdvertisement<'a>),
    /// Somebody asks who has an address.
    NeighbourSolicitation(NeighbourSolicitation),
    /// A neighbour tells of itself.
    NeighbourAdvertisement(NeighbourAdvertisement),
}

/// A question for a neighbour (§4.3).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NeighbourSolicitation {
    /// Who asks; unspecified while it only asks whether anybody has the target.
    pub source: Ipv6Addr,
    /// Whom it is sent to: the target, or its solicited-node group.
    pub destination: Ipv6Addr,
    /// The address that is asked for.
    pub target: Ipv6Addr,
    /// The station that asks, if it says so.
    pub link: Option<LinkAddress>,
}

/// What a neighbour tells of itself (§4.4).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NeighbourAdvertisement {
    /// Who tells.
    pub source: Ipv6Addr,
    /// Whom: who has asked, or all nodes.
    pub destination: Ipv6Addr,
    /// The address that it has.
    pub target: Ipv6Addr,
    /// The station that has it, if it says so.
    pub link: Option<LinkAddress>,
    /// Whether it is a router.
    pub is_router: bool,
    /// Whether this answers a question.
    pub is_solicited: bool,
    /// Whether another station that is known for the address is to be replaced.
    pub overrides: bool,
}

/// A question for routers (§4.1).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RouterSolicitation {
    /// Who asks; unspecified while it has no address.
    pub source: Ipv6Addr,
    /// The station that asks.
    pub link: LinkAddress,
}

/// What a router tells of itself and of the link (§4.2).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RouterAdvertisement<'a> {
    /// The router, by its link-local address.
    pub source: Ipv6Addr,
    /// The hop limit that packets are to begin with, if it says one.
    pub hop_limit: Option<u8>,
    /// How long it is a router to everywhere; nothing if it is none.
    pub lifetime: Duration,
    /// How long neighbours count as reachable, if it says that.
    pub reachable: Option<Duration>,
    /// The time between requests, if it says that.
    pub retransmit: Option<Duration>,
    /// Its station, if it says so.
    pub link: Option<LinkAddress>,
    /// How many bytes a packet on this link may have, if it says that.
    pub mtu: Option<u32>,
    options: &'a [u8],
}

/// Addresses of the link, or that hosts may give themselves (§4.6.2).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Prefix {
    /// The first bits of the addresses; the others mean nothing.
    pub prefix: Ipv6Addr,
    /// How many bits count, 128 at most.
    pub length: u8,
    /// Whether who has such an address is on the link.
    pub is_on_link: bool,
    /// Whether hosts may give themselves such addresses.
    pub is_autonomous: bool,
    /// How long all this holds; [`Duration::MAX`] for ever.
    pub valid: Duration,
    /// How long addresses are for new connections too; [`Duration::MAX`] for ever.
    pub preferred: Duration,
}

impl<'a> Message<'a> {
    /// Reads a message, as RFC 4861 has it checked (§6.1, §7.1). Options of unknown types are
    /// passed over.
    ///
    /// # Errors
    ///
    /// It is none of these messages ([`Malformed::Version`]), a router has passed it on
    /// ([`Malformed::Distance`]), or something about it is not as it has to be.
    pub fn parse(packet: &Ipv6<'a>) -> Result<Self, Malformed> {
        let is_one = |kind| matches!(kind, kind::ROUTER_ADVERTISEMENT | kind::SOLICITATION | kind::ADVERTISEMENT);
        let (kind, reader) = open(packet, is_one)?;
        match kind {
            kind::ROUTER_ADVERTISEMENT => router_advertisement(packet, reader).map(Self::RouterAdvertisement),
            kind::SOLICITATION => solicitation(packet, reader).map(Self::NeighbourSolicitation),
            _ => advertisement(packet, reader).map(Self::NeighbourAdvertisement),
        }
    }
}

/// Checks what all messages have in common, of the kinds for which `is_one` says so. Returns the
/// kind, and what stands behind the checksum.
pub(super) fn open<'a>(packet: &Ipv6<'a>, is_one: impl Fn(u8) -> bool) -> Result<(u8, Reader<'a>), Malformed> {
    let mut reader = Reader(packet.payload);
    let [kind, code] = reader.array()?;
    if packet.next_header != ICMP || !is_one(kind) {
        return Err(Malformed::Version);
    }
    if packet.hop_limit != HOP_LIMIT {
        return Err(Malformed::Distance);
    }
    let pseudo = Sum::pseudo_header(packet.source, packet.destination, ICMP, packet.payload.len());
    if !pseudo.add_bytes(packet.payload).is_intact() {
        return Err(Malformed::Checksum);
    }
    if code != 0 {
        return Err(Malformed::Value);
    }
    reader.half()?;
    Ok((kind, reader))
}

fn router_advertisement<'a>(packet: &Ipv6<'a>, mut reader: Reader<'a>) -> Result<RouterAdvertisement<'a>, Malformed> {
    if !packet.source.is_unicast_link_local() {
        return Err(Malformed::Value);
    }
    let [hop_limit, _flags] = reader.array()?;
    let lifetime = Duration::from_secs(reader.half()?.into());
    let said = |milliseconds: u32| (milliseconds != 0).then(|| Duration::from_millis(milliseconds.into()));
    let (reachable, retransmit) = (said(reader.word()?), said(reader.word()?));
    let mut mtu = None;
    let link = link_option(reader.0, option::SOURCE_LINK)?;
    for (kind, mut content) in Options(reader.0) {
        if kind == option::MTU {
            content.half()?;
            mtu = Some(content.word()?);
        }
    }
    let source = packet.source;
    let hop_limit = (hop_limit != 0).then_some(hop_limit);
    Ok(RouterAdvertisement { source, hop_limit, lifetime, reachable, retransmit, link, mtu, options: reader.0 })
}

fn solicitation(packet: &Ipv6<'_>, mut reader: Reader<'_>) -> Result<NeighbourSolicitation, Malformed> {
    reader.word()?;
    let target = reader.ipv6()?;
    let link = link_option(reader.0, option::SOURCE_LINK)?;
    let Ipv6 { source, destination, .. } = *packet;
    // Whoever has no address yet asks everybody, and says nothing of its station (§7.1.1).
    let is_anonymous = source.is_unspecified();
    let may_be_anonymous = link.is_none() && is_solicited_node(destination);
    if target.is_multicast() || is_anonymous && !may_be_anonymous {
        return Err(Malformed::Value);
    }
    Ok(NeighbourSolicitation { source, destination, target, link })
}

fn advertisement(packet: &Ipv6<'_>, mut reader: Reader<'_>) -> Result<NeighbourAdvertisement, Malformed> {
    let flags = reader.word()? >> 29;
    let target = reader.ipv6()?;
    let link = link_option(reader.0, option::TARGET_LINK)?;
    let Ipv6 { source, destination, .. } = *packet;
    let (is_router, is_solicited, overrides) = (flags & 4 != 0, flags & 2 != 0, flags & 1 != 0);
    if target.is_multicast() || is_solicited && destination.is_multicast() {
        return Err(Malformed::Value);
    }
    Ok(NeighbourAdvertisement { source, destination, target, link, is_router, is_solicited, overrides })
}

/// Returns whether `address` is a solicited-node group (RFC 4291 §2.7.1).
fn is_solicited_node(address: Ipv6Addr) -> bool {
    address.segments().starts_with(&[0xff02, 0, 0, 0, 0, 1]) && address.octets()[12] == 0xff
}

/// Checks that all options are whole, and returns what the last one of the kind `wanted` says.
pub(super) fn link_option(options: &[u8], wanted: u8) -> Result<Option<LinkAddress>, Malformed> {
    let mut all = Options(options);
    let mut link = None;
    for (_, mut content) in all.by_ref().filter(|(kind, _)| *kind == wanted) {
        let found = LinkAddress(content.array()?);
        if !found.is_station() || !content.0.is_empty() {
            return Err(Malformed::Value);
        }
        link = Some(found);
    }
    if all.0.is_empty() { Ok(link) } else { Err(Malformed::Short) }
}

/// Options as far as they are whole, each with its type and its content; what is left then is
/// nothing, or not whole.
struct Options<'a>(&'a [u8]);

impl<'a> Iterator for Options<'a> {
    type Item = (u8, Reader<'a>);

    fn next(&mut self) -> Option<Self::Item> {
        let &[kind, units, ..] = self.0 else { return None };
        let (option, rest) = self.0.split_at_checked(usize::from(units) * 8)?;
        // An option without length would have no end (§4.6).
        let content = option.get(2..)?;
        self.0 = rest;
        Some((kind, Reader(content)))
    }
}

impl<'a> RouterAdvertisement<'a> {
    /// Returns the prefixes that it tells of. One that is cut off, or has more bits than an
    /// address, is left out.
    pub fn prefixes(&self) -> impl Iterator<Item = Prefix> + use<'a> {
        let options = Options(self.options).filter(|(kind, _)| *kind == option::PREFIX);
        options.filter_map(|(_, content)| prefix(content).ok()).filter(|prefix| prefix.length <= 128)
    }

    /// Returns the addresses of name servers that it tells of, each with how long it holds; no time
    /// if that is over (RFC 8106 §5.1). Those of an option with a wrong length are left out
    /// (§5.3.1), as are groups and other addresses that no server has.
    pub fn name_servers(&self) -> impl Iterator<Item = (Ipv6Addr, Duration)> + use<'a> {
        let options = Options(self.options).filter(|(kind, _)| *kind == option::NAME_SERVERS);
        let servers = options.flat_map(|(_, content)| {
            let is_whole = content.0.len() >= 22 && (content.0.len() - 6).is_multiple_of(16);
            let (head, list) = content.0.split_at_checked(6).filter(|_| is_whole).unwrap_or_default();
            let lifetime = Reader(head.get(2..).unwrap_or_default()).word().map_or(Duration::ZERO, seconds);
            let (addresses, _) = list.as_chunks::<16>();
            addresses.iter().map(move |octets| (Ipv6Addr::from(*octets), lifetime))
        });
        servers.filter(|(address, _)| !address.is_multicast() && !address.is_unspecified() && !address.is_loopback())
    }
}

/// So many seconds, the most of which are for ever.
fn seconds(seconds: u32) -> Duration {
    if seconds == u32::MAX { Duration::MAX } else { Duration::from_secs(seconds.into()) }
}

fn prefix(mut content: Reader<'_>) -> Result<Prefix, Malformed> {
    let [length, flags] = content.array()?;
    let (valid, preferred) = (seconds(content.word()?), seconds(content.word()?));
    content.word()?;
    let (is_on_link, is_autonomous) = (flags & 0x80 != 0, flags & 0x40 != 0);
    Ok(Prefix { prefix: content.ipv6()?, length, is_on_link, is_autonomous, valid, preferred })
}

impl NeighbourSolicitation {
    /// Writes it as a packet; `None` if `buffer` has less than [`LONGEST`] bytes and it does not
    /// fit.
    pub fn write(&self, buffer: &mut [u8]) -> Option<usize> {
        let option = self.link.map(|link| (option::SOURCE_LINK, link));
        write(buffer, self.source, self.destination, kind::SOLICITATION, 0, Some(self.target), option)
    }
}

impl NeighbourAdvertisement {
    /// Writes it as a packet; `None` if `buffer` has less than [`LONGEST`] bytes and it does not
    /// fit.
    pub fn write(&self, buffer: &mut [u8]) -> Option<usize> {
        let flags = u32::from(self.is_router) << 2 | u32::from(self.is_solicited) << 1 | u32::from(self.overrides);
        let option = self.link.map(|link| (option::TARGET_LINK, link));
        write(buffer, self.source, self.destination, kind::ADVERTISEMENT, flags << 29, Some(self.target), option)
    }
}

impl RouterSolicitation {
    /// Writes it as a packet; `None` if `buffer` has less than [`LONGEST`] bytes and it does not
    /// fit. Without an address it does not tell its station (§4.1).
    pub fn write(&self, buffer: &mut [u8]) -> Option<usize> {
        let option = (!self.source.is_unspecified()).then_some((option::SOURCE_LINK, self.link));
        write(buffer, self.source, ALL_ROUTERS, kind::ROUTER_SOLICITATION, 0, None, option)
    }
}

/// Writes a message of any kind.
fn write(
    buffer: &mut [u8],
    source: Ipv6Addr,
    destination: Ipv6Addr,
    kind: u8,
    flags: u32,
    target: Option<Ipv6Addr>,
    option: Option<(u8, LinkAddress)>,
) -> Option<usize> {
    let mut writer = Writer::new(buffer);
    let length = 8 + target.map_or(0, |_| 16) + option.map_or(0, |_| 8);
    let packet = Ipv6 { source, destination, next_header: ICMP, hop_limit: HOP_LIMIT, payload: &[] };
    packet.write_header(&mut writer, length)?;
    writer.put(&[kind, 0, 0, 0])?;
    writer.put(&flags.to_be_bytes())?;
    if let Some(target) = target {
        writer.put(&target.octets())?;
    }
    if let Some((kind, link)) = option {
        writer.put(&[kind, 1])?;
        writer.put(&link.0)?;
    }
    seal(&mut writer, source, destination)?;
    Some(writer.len())
}

/// Puts the checksum into the packet that was written.
pub(super) fn seal(writer: &mut Writer<'_>, source: Ipv6Addr, destination: Ipv6Addr) -> Option<()> {
    let message = writer.written().get(HEADER..)?;
    let sum = Sum::pseudo_header(source, destination, ICMP, message.len()).add_bytes(message);
    writer.patch(HEADER + 2, &sum.checksum().to_be_bytes())
}
