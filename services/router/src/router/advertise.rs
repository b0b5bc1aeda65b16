//! Advertisements of the router on its networks, by which hosts of IPv6 give themselves addresses
//! and find the way out ([`culm_ip::neighbour::router`]).

use super::{Cards, Router};
use crate::station::Arrival;
use alloc::vec::Vec;
use core::net::Ipv6Addr;
use culm_ip::ipv6::Ipv6;
use culm_ip::neighbour::discovery;
use culm_ip::neighbour::router::{Advertisement, Advertiser, LONGEST_ADVERTISEMENT, is_question};
use culm_ip::{ALL_NODES, Instant, Key};
use culm_net::wire::types;
use culm_net::{ETHERNET_HEADER, PacketHeader};

/// The networks on which the router advertises itself.
pub(super) struct Advertisements {
    networks: Vec<(usize, Advertiser)>,
    name_servers: Vec<Ipv6Addr>,
    /// When the next advertisement is due.
    due: Instant,
    random: u64,
}

impl Advertisements {
    /// Creates it without networks. The key is of random bits, which choose times.
    pub(super) fn new(key: Key) -> Self {
        let Key([random, ..]) = key;
        Self { networks: Vec::new(), name_servers: Vec::new(), due: Instant::NEVER, random }
    }

    /// When the next advertisement is due.
    pub(super) fn deadline(&self) -> Instant {
        self.due
    }

    fn set_due(&mut self) {
        let all = self.networks.iter().map(|(_, advertiser)| advertiser.deadline());
        self.due = all.min().unwrap_or(Instant::NEVER);
    }

    /// A number for a time (SplitMix64; Steele, Lea and Flood 2014).
    fn random(&mut self) -> u32 {
        self.random = self.random.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mixed = (self.random ^ (self.random >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        (mixed >> 32) as u32
    }
}

impl Router {
    /// Has the router advertise itself on these networks, with these name servers. One on which it
    /// has no address of IPv6 is left out: there is no prefix to tell of.
    pub fn advertise(&mut self, networks: impl Iterator<Item = usize>, name_servers: Vec<Ipv6Addr>) {
        let has_prefix = |number: &usize| self.networks.get(*number).is_some_and(|network| network.v6.is_some());
        self.advertisements.networks =
            networks.filter(has_prefix).map(|network| (network, Advertiser::new(self.now))).collect();
        self.advertisements.name_servers = name_servers;
        self.advertisements.set_due();
    }

    /// Sends the advertisements that are due.
    #[inline]
    pub(super) fn send_advertisements_due(&mut self, cards: &mut impl Cards) {
        if self.advertisements.due <= self.now {
            self.advertise_now(cards);
        }
    }

    #[cold]
    fn advertise_now(&mut self, cards: &mut impl Cards) {
        let random = self.advertisements.random();
        let Self { advertisements, networks, stations, now, .. } = self;
        for (number, advertiser) in &mut advertisements.networks {
            let (Some(network), Some(station)) = (networks.get(*number), stations.get(*number)) else { continue };
            let (Some(own), Some(to)) = (network.v6, discovery::station(ALL_NODES, None)) else { continue };
            if !advertiser.poll(*now, random) {
                continue;
            }
            let advertisement = Advertisement {
                source: network.link_local(),
                link: station.link(),
                is_default: networks.has_gateway6(),
                mtu: network.mtu,
                prefix: (own.address, own.prefix),
                name_servers: &advertisements.name_servers,
            };
            let mut packet = [0; LONGEST_ADVERTISEMENT];
            let Some(length) = advertisement.write(&mut packet) else { continue };
            let packet = packet.get(..length).unwrap_or_default();
            // One that finds no buffer is lost; hosts that miss it ask.
            cards.send(*number, ETHERNET_HEADER + length, |out| {
                station.head(to, types::IPV6, out)?;
                out.get_mut(ETHERNET_HEADER..)?.copy_from_slice(packet);
                Some(PacketHeader::default())
            });
        }
        advertisements.set_due();
    }

    /// Takes a packet that may be a host's question for routers, and has it answered soon where the
    /// router advertises itself. Returns whether it is one.
    pub(super) fn takes_solicitation(&mut self, arrival: &Arrival, packet: &Ipv6<'_>) -> bool {
        if is_question(packet).is_err() {
            return false;
        }
        let random = self.advertisements.random();
        let asked = self.advertisements.networks.iter_mut().find(|(number, _)| *number == arrival.network);
        if let Some((_, advertiser)) = asked {
            advertiser.asked(self.now, random);
            self.advertisements.set_due();
        }
        true
    }
}
