//! A host on one link: what this crate's parts do together.
//!
//! [`Host`] takes frames and time, answers what a host answers by itself, and gives upper layers
//! what is theirs ([`Received`]). It has addresses: of IPv4 one that is given or that a server
//! leases, of IPv6 its link's and those of routers' prefixes. It claims them and defends them,
//! finds neighbours, learns routers, keeps paths' limits, and puts fragments together. Frames go
//! out through a [`Wire`], which the owner has.
//!
//! # Addresses under examination
//!
//! Addresses of IPv6 are optimistic (RFC 4429): they are in use while it is found out whether
//! anybody else has them, but nothing that the host sends would put a station's rightful entry at
//! a neighbour out of its place. One of IPv4 that is given is used at once, announced and defended
//! (RFC 5227 §2.4, (c)). One that is leased is asked for first, in a quarter of a second: its
//! server has done so too (RFC 2131 §2.2).
//!
//! # Bounds
//!
//! All memory is given ([`Memory`]). What waits for a neighbour's station lies in a pool of as many
//! packets as that memory has; where it is used up, the oldest packet of that neighbour makes way,
//! or the new one is lost.

mod four;
mod parcels;
mod receive;
mod send;
mod six;
#[cfg(test)]
mod tests;

use crate::icmp::{Limiter, Quoted, Report};
use crate::neighbour::{self, Action, Cache, Place};
use crate::path::{Limit, Path, Paths, TooBig};
use crate::reassembly::{Reassembly, Slot};
use crate::udp::Checksum;
use crate::{Cidr, Instant, Key, LinkAddress, dhcp, routers};
use core::net::{IpAddr, Ipv4Addr};
use core::time::Duration;
use four::Four;
use parcels::Parcels;
use six::Six;

pub use parcels::{Packet, Parcel};
pub use send::Unsent;

/// Bytes of the largest packet that a link of this host carries: Ethernet's MTU.
pub const LARGEST: usize = 1500;

/// Packets that wait for one neighbour (RFC 1122 §2.3.2.2: the latest at least).
pub const WAITING: usize = 3;

/// Addresses of a host: one of IPv4, its link's of IPv6, and those of routers' prefixes.
pub const ADDRESSES: usize = 2 + routers::PREFIXES;

/// Errors that can be sent in a row, and the time in which one more may be. Each takes two tokens
/// in the mean.
const ERRORS: (u32, Duration) = (120, Duration::from_micros(500));

/// A place for a neighbour.
pub type Neighbour = neighbour::Entry<Parcel, WAITING>;

/// A host's memory; of its parts, each holds as much as it is long.
#[derive(Debug)]
pub struct Memory<'a> {
    /// A place for each neighbour; a multiple of eight.
    pub neighbours: &'a mut [Neighbour],
    /// A place for each packet that waits for a neighbour; 255 at most are used.
    pub packets: &'a mut [Packet],
    /// A place for each destination that is reached by smaller packets than the link's.
    pub paths: &'a mut [Path],
    /// A place for each packet whose fragments come.
    pub slots: &'a mut [Slot],
    /// The bytes of those, of which each has the same share.
    pub fragments: &'a mut [u8],
}

/// How a host is to begin.
#[derive(Clone, Copy, Debug)]
pub struct Config {
    /// Its station.
    pub link: LinkAddress,
    /// How many bytes of a packet the link carries: 1,500 at most are used.
    pub mtu: u16,
    /// Its address of IPv4.
    pub ipv4: Ipv4Config,
    /// Whether it speaks IPv6.
    pub ipv6: bool,
    /// Secret numbers for tables.
    pub key: Key,
    /// What times and numbers of transactions are derived from, of which nobody need know.
    pub seed: u64,
}

/// Where a host's address of IPv4 comes from.
#[derive(Clone, Copy, Debug)]
pub enum Ipv4Config {
    /// It has none.
    None,
    /// It is given, with the router to other networks if there is one.
    Fixed(Cidr<Ipv4Addr>, Option<Ipv4Addr>),
    /// A server leases it.
    Leased,
}

/// What a frame carries.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// A message of ARP.
    Arp,
    /// A packet of IPv4.
    Ipv4,
    /// A packet of IPv6.
    Ipv6,
}

/// A frame that was received.
#[derive(Clone, Copy, Debug)]
pub struct Frame<'a> {
    /// The station that it comes from.
    pub from: LinkAddress,
    /// Whether it is for a group of stations, and not for this one alone.
    pub was_for_all: bool,
    /// What it carries.
    pub kind: Kind,
    /// That, with padding perhaps.
    pub packet: &'a [u8],
    /// Whether the checksum of UDP or TCP is still to be looked at.
    pub checksum: Checksum,
}

/// Where a host sends.
pub trait Wire {
    /// Sends a frame with `packet` to a station or a group. It may be lost, where there is no
    /// buffer for it say: whatever waits for an answer is repeated.
    fn send(&mut self, to: LinkAddress, kind: Kind, packet: &[u8]);

    /// Takes note that a packet has waited in vain: all questions for its next hop were asked, and
    /// nobody answers, of which an upper layer may want to know (RFC 4861 §7.2.2). One that had to
    /// make way, or waited while the link came up, is lost without a word.
    fn undelivered(&mut self, _packet: &[u8]) {}
}

/// What upper layers take.
pub trait Upper {
    /// Returns whether anybody takes packets of `protocol`; of UDP, those for `port`.
    fn takes(&self, protocol: u8, port: u16) -> bool;
}

impl<F: Fn(u8, u16) -> bool> Upper for F {
    fn takes(&self, protocol: u8, port: u16) -> bool {
        self(protocol, port)
    }
}

/// What becomes of a frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Received<'a> {
    /// The host has dealt with it, or dropped it.
    Done,
    /// An upper layer takes it. Of UDP the checksum was looked at.
    Packet(Payload<'a>),
    /// A packet that somebody says to be this host's did not arrive: whoever owns its flow decides
    /// whether that is to be believed (RFC 5927), and tells [`Host::too_big`] if it was too big.
    Error(Report, Quoted),
}

/// The payload of a whole packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Payload<'a> {
    /// Who sent it.
    pub source: IpAddr,
    /// Which of the host's addresses it is for.
    pub destination: IpAddr,
    /// What the payload is.
    pub protocol: u8,
    /// What it brings: behind all headers of IP, and put together if it came in fragments.
    pub payload: &'a [u8],
    /// The station that it, or its last fragment, came from.
    pub from: LinkAddress,
    /// Whether it came in one piece, so that what the device says of checksums holds.
    pub came_whole: bool,
    /// Whether it bears a mark of congestion (CE, RFC 3168 §5).
    pub is_marked: bool,
}

/// Something that has changed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Notice {
    /// The host's addresses.
    Addresses,
    /// The name servers that routers tell of ([`Host::name_servers`]).
    NameServers,
    /// A server has leased this, and the address is in use.
    Leased(dhcp::Lease),
    /// The lease is over, and with it the address.
    LeaseOver,
    /// A server says that this network has no such address, which is no longer in use.
    LeaseRefused,
    /// A server offers this address, which no host can have and this one does not take.
    Unusable(Ipv4Addr),
    /// Somebody else has this address of the host's, which is no longer in use.
    Duplicate(IpAddr),
}

/// Numbers for times and transactions (SplitMix64; Steele, Lea and Flood 2014).
#[derive(Clone, Copy, Debug)]
struct Random(u64);

impl Random {
    fn next(&mut self) -> u32 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mixed = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        (mixed >> 32) as u32
    }
}

/// A host on one link. See the [module](self).
#[derive(Debug)]
pub struct Host<'a> {
    reassembly: Reassembly<'a>,
    node: Node<'a>,
}

/// All of a host but the fragments, from whose memory packets are read while it works.
#[derive(Debug)]
struct Node<'a> {
    link: LinkAddress,
    mtu: u16,
    cache: Cache<'a, Parcel, WAITING>,
    parcels: Parcels<'a>,
    paths: Paths<'a>,
    limiter: Limiter,
    four: Four,
    six: Option<Six>,
    random: Random,
    notices: Notices,
}

/// Notices that were not taken yet, one of each kind.
#[derive(Debug, Default)]
struct Notices {
    addresses: bool,
    name_servers: bool,
    lease: Option<Notice>,
    duplicate: Option<IpAddr>,
}

// This crate is compiled for size (the workspace's `Cargo.toml`). If these were inlined, they and
// all that they call would be compiled for speed, in the crate of whoever calls them.
impl<'a> Host<'a> {
    /// A host that begins at `now`.
    #[inline(never)]
    pub fn new(config: Config, memory: Memory<'a>, now: Instant) -> Self {
        let mtu = config.mtu.min(LARGEST as u16);
        let mut random = Random(config.seed);
        let link = config.link;
        let four = Four::new(link, config.ipv4, now, random.next());
        let six = config.ipv6.then(|| Six::new(link, mtu, now, &mut random));
        let node = Node {
            link,
            mtu,
            cache: Cache::new(memory.neighbours, config.key),
            parcels: Parcels::new(memory.packets),
            paths: Paths::new(memory.paths, config.key, mtu),
            limiter: Limiter::new(ERRORS.0, ERRORS.1, now),
            four,
            six,
            random,
            notices: Notices { addresses: true, ..Notices::default() },
        };
        Self { reassembly: Reassembly::new(memory.slots, memory.fragments), node }
    }

    /// Returns the addresses that are in use, that of IPv4 first.
    pub fn addresses(&self) -> impl Iterator<Item = Cidr> + '_ {
        let four = self.node.four.network().map(Cidr::from);
        let six = self.node.six.iter().flat_map(Six::addresses);
        four.into_iter().chain(six.filter_map(|address| Cidr::new(address, 64)).map(Cidr::from))
    }

    /// Returns what a server has leased, if anything.
    pub fn lease(&self) -> Option<&dhcp::Lease> {
        self.node.four.lease()
    }

    /// Returns the name servers that routers tell of (RFC 8106).
    pub fn name_servers(&self) -> impl Iterator<Item = IpAddr> + '_ {
        self.node.six.iter().flat_map(|six| six.routers.name_servers()).map(IpAddr::V6)
    }

    /// Returns something that has changed since this was called last, or `None`.
    pub fn notice(&mut self) -> Option<Notice> {
        let notices = &mut self.node.notices;
        if let Some(address) = notices.duplicate.take() {
            return Some(Notice::Duplicate(address));
        }
        if core::mem::take(&mut notices.name_servers) {
            return Some(Notice::NameServers);
        }
        notices.lease.take().or_else(|| core::mem::take(&mut notices.addresses).then_some(Notice::Addresses))
    }

    /// When [`Self::poll`] has something to do.
    pub fn deadline(&self) -> Instant {
        let six = self.node.six.as_ref().map_or(Instant::NEVER, Six::deadline);
        self.reassembly.deadline().min(self.node.cache.deadline()).min(self.node.four.deadline()).min(six)
    }

    /// Does everything that is due by `now`.
    #[inline(never)]
    pub fn poll(&mut self, now: Instant, wire: &mut dyn Wire) {
        self.node.poll_four(now, wire);
        self.node.poll_six(now, wire);
        while let Some(action) = self.node.cache.poll(now) {
            match action {
                Action::Ask { address, to } => self.node.ask(address, to, now, wire),
                Action::Send { packet, to } => self.node.send_parcel(packet, to, wire),
                Action::Unreachable { packet, is_missing, .. } => self.node.give_back(packet, is_missing, wire),
                Action::Gone { address } => self.node.gone(address),
            }
        }
        while let Some(head) = self.reassembly.expire(now) {
            self.node.fragments_missing(head, now, wire);
        }
    }

    /// Takes a frame from the wire. Answers go back to the station that it came from, which is the
    /// sender's or that of the router on the way there.
    #[inline(never)]
    pub fn receive<'b>(
        &'b mut self,
        frame: &Frame<'b>,
        upper: &dyn Upper,
        now: Instant,
        wire: &mut dyn Wire,
    ) -> Received<'b> {
        // A frame of its own comes back where a switch has a loop.
        if frame.from == self.node.link || !frame.from.is_station() {
            return Received::Done;
        }
        match frame.kind {
            Kind::Arp => {
                self.node.receive_arp(frame.packet, now, wire);
                Received::Done
            }
            Kind::Ipv4 => self.receive_ipv4(frame, upper, now, wire),
            Kind::Ipv6 => self.receive_ipv6(frame, upper, now, wire),
        }
    }

    /// Takes note that the link is up again: the address of IPv4 may no longer hold, neighbours
    /// may be others, and routers are asked for, without whose word there are no name servers of
    /// theirs.
    #[inline(never)]
    pub fn link_is_up(&mut self, now: Instant) {
        let node = &mut self.node;
        node.cache.forget(now);
        node.four.link_is_up(now, node.random.next());
        if let Some(six) = &mut node.six {
            six.link_is_up(now);
        }
    }

    /// Returns the hop limit that packets of IPv6 begin with: what a router says, or 64 (RFC 4861
    /// §6.3.4).
    pub fn hop_limit(&self) -> u8 {
        self.node.hop_limit()
    }

    /// Returns how large a packet to `destination` may be.
    pub fn limit(&self, destination: IpAddr, now: Instant) -> Limit {
        let limit = self.node.paths.limit(destination, now);
        Limit { mtu: limit.mtu.min(self.node.mtu_of(destination)), ..limit }
    }

    /// Takes the message that a packet of an upper layer was too big; `is_own` says whether that
    /// layer has sent such a packet lately. Returns the limit if it is lower than it was.
    #[inline(never)]
    pub fn too_big(&mut self, told: TooBig, now: Instant, is_own: impl FnOnce() -> bool) -> Option<Limit> {
        self.node.paths.too_big(told, now, is_own)
    }

    /// Returns the host's address for packets to `destination`, if there is one by which it can be
    /// reached.
    #[inline(never)]
    pub fn source(&self, destination: IpAddr, now: Instant) -> Option<IpAddr> {
        self.node.source(destination, now)
    }

    /// Returns the station for packets to `destination`, which may be a router's, with its place in
    /// the cache. `None` if it is not known: it is asked for, if anybody can have it, and known a
    /// little later.
    pub fn station(&mut self, destination: IpAddr, now: Instant) -> Option<(LinkAddress, Place)> {
        self.node.station(destination, now)
    }

    /// Returns the station of the neighbour in `place` without a further look; `None` if
    /// [`Self::station`] has to find it again.
    #[inline]
    pub fn station_at(&mut self, place: Place, now: Instant) -> Option<LinkAddress> {
        self.node.cache.at(place, now)
    }

    /// Returns whether [`Self::poll`] would ask a neighbour whether it is still there, which those
    /// need not be asked that [`Self::confirm`] is told of before.
    pub fn is_asking(&self, now: Instant) -> bool {
        self.node.cache.is_asking(now)
    }

    /// Takes note that an upper layer has heard that something new has arrived at `destination` a
    /// moment ago, by the station `link`: the neighbour on the way is there (RFC 4861 §7.3.1).
    pub fn confirm(&mut self, destination: IpAddr, link: LinkAddress, now: Instant) {
        self.node.confirm(destination, link, now);
    }

    /// Sends a packet of IP, whole with its headers and checksums: at once, or as soon as its next
    /// hop's station is known.
    ///
    /// # Errors
    ///
    /// It is none, or longer than the link carries; there is no way to its destination; or that is
    /// known not to answer.
    #[inline(never)]
    pub fn send_packet(&mut self, packet: &[u8], now: Instant, wire: &mut dyn Wire) -> Result<(), Unsent> {
        self.node.send_packet(packet, now, wire)
    }

    /// Sends a datagram of UDP from the port `source_port` and the address that is best for its
    /// destination.
    ///
    /// # Errors
    ///
    /// It is longer than the path carries; there is no way to its destination; or that is known
    /// not to answer.
    #[inline(never)]
    pub fn send_datagram(
        &mut self,
        source_port: u16,
        destination: core::net::SocketAddr,
        payload: &[u8],
        now: Instant,
        wire: &mut dyn Wire,
    ) -> Result<(), Unsent> {
        self.node.send_datagram(source_port, destination, payload, now, wire)
    }
}
