//! Sending: a packet's next hop, and that one's station.

use super::{Kind, LARGEST, Node, Wire};
use crate::ipv4::{self, Ipv4};
use crate::ipv6::{self, Ipv6};
use crate::neighbour::{Place, Resolution};
use crate::udp::{self, Datagram, UDP};
use crate::{Instant, LinkAddress};
use core::fmt;
use core::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};

use super::parcels::Parcel;

/// Hops that a packet may take (RFC 1700: the recommended default).
const HOPS: u8 = 64;

/// Why a packet is not sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Unsent {
    /// It is longer than the path to its destination carries.
    TooLong,
    /// The host has no address of that version, or knows no router there.
    NoRoute,
    /// Nobody answers for its next hop's address, or too many neighbours are asked for.
    Unreachable,
    /// It is no packet of IP.
    Malformed,
}

impl fmt::Display for Unsent {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(match self {
            Self::TooLong => "it is longer than the path to its destination carries",
            Self::NoRoute => "there is no address of its version, or no router to its destination",
            Self::Unreachable => "its next hop does not answer",
            Self::Malformed => "it is no packet of IP",
        })
    }
}

impl core::error::Error for Unsent {}

/// Where a packet goes next.
enum Hop {
    /// To a group of stations.
    Group(LinkAddress),
    /// To a neighbour.
    Neighbour(IpAddr),
}

/// A packet of IPv4 that is not to be divided.
pub(super) fn ipv4(source: Ipv4Addr, destination: Ipv4Addr, protocol: u8, payload: &[u8]) -> Ipv4<'_> {
    Ipv4 {
        source,
        destination,
        protocol,
        time_to_live: HOPS,
        identification: 0,
        may_fragment: false,
        offset: 0,
        has_more: false,
        payload,
        packet: &[],
    }
}

impl Node<'_> {
    /// How many bytes a packet to the next hop for `destination` may have.
    pub(super) fn mtu_of(&self, destination: IpAddr) -> u16 {
        let said = match destination {
            IpAddr::V4(_) => self.four.mtu,
            IpAddr::V6(_) => self.six.as_ref().map(|six| six.routers.mtu()),
        };
        said.map_or(self.mtu, |said| said.min(self.mtu))
    }

    pub(super) fn source(&self, destination: IpAddr, now: Instant) -> Option<IpAddr> {
        match destination {
            IpAddr::V4(destination) => {
                let is_reached = self.four.is_everybody(destination) || self.four.next_hop(destination).is_some();
                self.four.own().filter(|_| is_reached).map(IpAddr::V4)
            }
            IpAddr::V6(destination) => self.six.as_ref()?.source(destination, now).map(IpAddr::V6),
        }
    }

    /// The hop limit that packets of IPv6 begin with.
    pub(super) fn hop_limit(&self) -> u8 {
        self.six.as_ref().map_or(HOPS, |six| six.routers.hop_limit())
    }

    fn hop(&self, destination: IpAddr) -> Option<Hop> {
        if let Some(group) = LinkAddress::of_group(destination) {
            return Some(Hop::Group(group));
        }
        match destination {
            IpAddr::V4(address) if self.four.is_everybody(address) => Some(Hop::Group(LinkAddress::BROADCAST)),
            IpAddr::V4(address) => {
                let is_own = self.four.own() == Some(address);
                let hop = self.four.next_hop(address).filter(|_| !is_own && crate::is_host(address));
                hop.map(|hop| Hop::Neighbour(hop.into()))
            }
            IpAddr::V6(address) => {
                let six = self.six.as_ref()?;
                let is_none =
                    address.is_unspecified() || address.is_loopback() || six.addresses().any(|own| own == address);
                let hop = six.routers.next_hop(address).filter(|_| !is_none);
                hop.map(|hop| Hop::Neighbour(hop.into()))
            }
        }
    }

    pub(super) fn station(&mut self, destination: IpAddr, now: Instant) -> Option<(LinkAddress, Place)> {
        let Hop::Neighbour(neighbour) = self.hop(destination)? else { return None };
        match self.cache.resolve(neighbour, Parcel::NONE, now) {
            Resolution::Known(_, link, place) => Some((link, place)),
            Resolution::Waiting(lost) => {
                self.parcels.free(lost.unwrap_or(Parcel::NONE));
                None
            }
            Resolution::Refused(_) => None,
        }
    }

    pub(super) fn send_packet(&mut self, packet: &[u8], now: Instant, wire: &mut dyn Wire) -> Result<(), Unsent> {
        if packet.len() > self.mtu.into() {
            return Err(Unsent::TooLong);
        }
        let (destination, kind): (IpAddr, _) = match packet.first().map(|first| first >> 4) {
            Some(4) => {
                let octets = packet.get(16..ipv4::HEADER).and_then(|bytes| bytes.first_chunk::<4>());
                (Ipv4Addr::from(*octets.ok_or(Unsent::Malformed)?).into(), Kind::Ipv4)
            }
            Some(6) => {
                let octets = packet.get(24..ipv6::HEADER).and_then(|bytes| bytes.first_chunk::<16>());
                (Ipv6Addr::from(*octets.ok_or(Unsent::Malformed)?).into(), Kind::Ipv6)
            }
            _ => return Err(Unsent::Malformed),
        };
        let neighbour = match self.hop(destination).ok_or(Unsent::NoRoute)? {
            Hop::Group(group) => {
                wire.send(group, kind, packet);
                return Ok(());
            }
            Hop::Neighbour(neighbour) => neighbour,
        };
        let parcel = self.parcels.claim();
        match self.cache.resolve(neighbour, parcel, now) {
            Resolution::Known(parcel, link, _) => {
                self.parcels.free(parcel);
                wire.send(link, kind, packet);
                Ok(())
            }
            Resolution::Waiting(lost) => {
                self.parcels.free(lost.unwrap_or(Parcel::NONE));
                self.parcels.fill(parcel, packet);
                Ok(())
            }
            Resolution::Refused(parcel) => {
                self.parcels.free(parcel);
                Err(Unsent::Unreachable)
            }
        }
    }

    /// Sends a packet that has waited.
    pub(super) fn send_parcel(&mut self, parcel: Parcel, to: LinkAddress, wire: &mut dyn Wire) {
        let packet = self.parcels.bytes(parcel);
        match packet.first().map(|first| first >> 4) {
            Some(4) => wire.send(to, Kind::Ipv4, packet),
            Some(6) => wire.send(to, Kind::Ipv6, packet),
            // It was lost for want of a place.
            _ => {}
        }
        self.parcels.free(parcel);
    }

    /// Frees a packet that has waited in vain, and gives it back if its neighbour is missing.
    pub(super) fn give_back(&mut self, parcel: Parcel, is_missing: bool, wire: &mut dyn Wire) {
        let packet = self.parcels.bytes(parcel);
        if is_missing && !packet.is_empty() {
            wire.undelivered(packet);
        }
        self.parcels.free(parcel);
    }

    /// Takes note that something has arrived at `destination` by way of the station `link`.
    pub(super) fn confirm(&mut self, destination: IpAddr, link: LinkAddress, now: Instant) {
        if let Some(Hop::Neighbour(neighbour)) = self.hop(destination) {
            self.cache.confirm_at(neighbour, link, now);
        }
    }

    pub(super) fn send_datagram(
        &mut self,
        source_port: u16,
        destination: SocketAddr,
        payload: &[u8],
        now: Instant,
        wire: &mut dyn Wire,
    ) -> Result<(), Unsent> {
        let (address, destination_port) = (destination.ip(), destination.port());
        let source = self.source(address, now).ok_or(Unsent::NoRoute)?;
        let header = if address.is_ipv4() { ipv4::HEADER } else { ipv6::HEADER };
        let limit = self.paths.limit(address, now).mtu.min(self.mtu_of(address));
        if payload.len() + udp::HEADER + header > limit.into() {
            return Err(Unsent::TooLong);
        }
        let (mut datagram, mut packet) = ([0; LARGEST], [0; LARGEST]);
        let udp = Datagram { source_port, destination_port, payload };
        let length = udp.write(source, address, &mut datagram).ok_or(Unsent::TooLong)?;
        let payload = datagram.get(..length).unwrap_or_default();
        let written = match (source, address) {
            (IpAddr::V4(source), IpAddr::V4(destination)) => ipv4(source, destination, UDP, payload).write(&mut packet),
            (IpAddr::V6(source), IpAddr::V6(destination)) => {
                Ipv6 { source, destination, next_header: UDP, hop_limit: self.hop_limit(), payload }.write(&mut packet)
            }
            _ => None,
        };
        let length = written.ok_or(Unsent::TooLong)?;
        self.send_packet(packet.get(..length).unwrap_or_default(), now, wire)
    }

    pub(super) fn ask(&mut self, address: IpAddr, to: Option<LinkAddress>, now: Instant, wire: &mut dyn Wire) {
        match address {
            IpAddr::V4(address) => self.ask_four(address, to, wire),
            IpAddr::V6(address) => self.ask_six(address, to, now, wire),
        }
    }

    /// Takes note that a neighbour no longer answers.
    pub(super) fn gone(&mut self, address: IpAddr) {
        if let (IpAddr::V6(address), Some(six)) = (address, &mut self.six) {
            six.routers.gone(address);
        }
    }
}
