//! What a host does besides TCP and answering datagrams: `libs/ip`'s host on this client's link.
//!
//! It has what the fast ways do not take: ARP, neighbour discovery, DHCP, ICMP, fragments, packets
//! with options, and datagrams that the application sends of its own accord. What it finds to be
//! TCP's or a bound port's, put together or without its options, is written into a frame as the
//! fast ways know it, and given to them.

use super::datagram::Ports;
use super::frame::Link;
use super::lease::Log;
use super::settings::Settings;
use super::table::places;
use crate::client::{Packet, Transmitter};
use crate::header::flags::{CHECKSUM_VALID, NEEDS_CHECKSUM};
use crate::wire::{Ethernet, HOP_LIMIT, ecn, ethernet, ipv4, ipv6, protocols, put, types, udp};
use crate::{ETHERNET_HEADER, MTU, Mac, PacketHeader, checksum};
use alloc::vec::Vec;
use core::net::{IpAddr, SocketAddr};
use culm::time;
use culm_ip::dhcp::Lease;
use culm_ip::host::{
    ADDRESSES, Config, Frame, Host, Ipv4Config, Kind, Memory, Notice, Payload, Received, Unsent, Wire,
};
use culm_ip::icmp::{Quoted, Report};
use culm_ip::path::TooBig;
use culm_ip::udp::Checksum;
use culm_ip::{Cidr, Instant, Key, LinkAddress};

/// Neighbours that are known at a time.
const NEIGHBOURS: usize = 64;

/// Packets that wait for neighbours.
const PACKETS: usize = 8;

/// Destinations that are reached by smaller packets than the link's.
const PATHS: usize = 64;

/// Packets whose fragments come at a time, and bytes of each.
const FRAGMENTED: usize = 8;
const FRAGMENTED_LENGTH: usize = 4096;

/// Bytes of the longest headers of a frame before its payload.
const LONGEST_HEADERS: usize = ETHERNET_HEADER + ipv6::HEADER;

/// The host, and what it is remembered by.
pub(super) struct LinkHost {
    host: Host<'static>,
    mac: Mac,
    /// Its addresses in use.
    addresses: Vec<Cidr>,
    log: Log,
    /// A frame that was put together.
    frame: Vec<u8>,
    /// Packets of TCP's that have waited in vain for their neighbours.
    undelivered: Vec<Quoted>,
}

/// What a frame turns out to be.
pub(super) enum Found<'a> {
    /// The host has dealt with it, or the application has.
    Nothing,
    /// TCP's, or a datagram for a bound port: [`LinkHost::whole`] has it as it would be without
    /// fragments and options, its checksum right.
    Whole,
    /// A datagram of UDP for a port that is awaited.
    Answer(Payload<'a>),
    /// A packet of TCP's has not arrived, somebody says.
    Error(Report, Quoted),
}

/// What has changed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Change {
    Nothing,
    /// The name servers that routers tell of.
    NameServers,
    /// The addresses, and with them the lease perhaps, and those name servers too.
    Addresses,
}

impl LinkHost {
    /// A host that begins at `now`. Its memory is taken from the heap for good.
    pub(super) fn new(mac: Mac, settings: &Settings, key: [u64; 5], seed: u64, now: Instant) -> Self {
        let memory = Memory {
            neighbours: places(NEIGHBOURS),
            packets: places(PACKETS),
            paths: places(PATHS),
            slots: places(FRAGMENTED),
            fragments: places(FRAGMENTED * FRAGMENTED_LENGTH),
        };
        let config = Config {
            link: LinkAddress(mac.bytes()),
            mtu: MTU as u16,
            ipv4: settings.address.map_or(Ipv4Config::Leased, |own| Ipv4Config::Fixed(own, settings.gateway)),
            ipv6: settings.ipv6,
            key: Key(key),
            seed,
        };
        let host = Host::new(config, memory, now);
        let mut host = Self {
            host,
            mac,
            addresses: Vec::with_capacity(ADDRESSES),
            log: Log::new(settings.address.is_none(), time::now()),
            frame: Vec::with_capacity(LONGEST_HEADERS + FRAGMENTED_LENGTH),
            undelivered: Vec::with_capacity(PACKETS),
        };
        host.note_addresses();
        host
    }

    /// Takes note of the host's addresses.
    #[inline(never)]
    fn note_addresses(&mut self) {
        self.addresses.clear();
        // There is space for all that the host can have.
        self.addresses.extend(self.host.addresses().take(ADDRESSES));
    }

    /// The addresses in use.
    pub(super) fn addresses(&self) -> &[Cidr] {
        &self.addresses
    }

    /// Takes note that the card's link has come up: the network may be another one.
    #[cold]
    pub(super) fn link_is_up(&mut self, now: Instant) {
        self.host.link_is_up(now);
    }

    /// The hop limit that packets of IPv6 begin with.
    pub(super) fn hop_limit(&self) -> u8 {
        self.host.hop_limit()
    }

    /// What a server has leased, if anything.
    pub(super) fn lease(&self) -> Option<&Lease> {
        self.host.lease()
    }

    /// The name servers that routers tell of.
    pub(super) fn name_servers(&self) -> impl Iterator<Item = IpAddr> + '_ {
        self.host.name_servers()
    }

    /// When the host has something to do.
    pub(super) fn deadline(&self) -> Instant {
        self.host.deadline()
    }

    /// When the log has something to say even if nothing happens.
    pub(super) fn remark_at(&self) -> time::Instant {
        self.log.due()
    }

    /// Takes a frame that is none of those that the fast ways take. Datagrams for ports for which
    /// `is_awaited` says so come back.
    #[cold]
    pub(super) fn receive<'a>(
        &'a mut self,
        packet: &'a Packet<'a>,
        ports: &Ports,
        is_awaited: &impl Fn(u16) -> bool,
        transmitter: &mut Transmitter,
        now: Instant,
    ) -> Found<'a> {
        let Some((header, rest)) = packet.frame().split_first_chunk::<ETHERNET_HEADER>() else {
            return Found::Nothing;
        };
        let Some(ethernet) = Ethernet::at(header, 0) else { return Found::Nothing };
        let kind = match ethernet.kind() {
            types::ARP => Kind::Arp,
            types::IPV4 => Kind::Ipv4,
            types::IPV6 => Kind::Ipv6,
            _ => return Found::Nothing,
        };
        let is_verified = packet.header().flags & (NEEDS_CHECKSUM | CHECKSUM_VALID) != 0;
        let frame = Frame {
            from: LinkAddress(ethernet.source()),
            was_for_all: ethernet.destination()[0] & 1 != 0,
            kind,
            packet: rest,
            checksum: if is_verified { Checksum::Verified } else { Checksum::Unknown },
        };
        let is_taken = |protocol: u8, port: u16| match protocol {
            protocols::TCP => true,
            protocols::UDP => ports.is_bound(port) || is_awaited(port),
            _ => false,
        };
        let mut wire = Out { transmitter, mac: self.mac };
        let payload = match self.host.receive(&frame, &is_taken, now, &mut wire) {
            Received::Done => return Found::Nothing,
            Received::Error(report, quoted) => return Found::Error(report, quoted),
            Received::Packet(payload) => payload,
        };
        if payload.protocol == protocols::UDP && !ports.is_bound(udp_port(payload.payload)) {
            return Found::Answer(payload);
        }
        if !rebuild(&mut self.frame, &payload, self.mac) {
            return Found::Nothing;
        }
        // The host looks at checksums of UDP alone.
        let is_right =
            payload.protocol == protocols::UDP || is_verified && payload.came_whole || checksum::is_right(&self.frame);
        if is_right { Found::Whole } else { Found::Nothing }
    }

    /// The frame that was made whole last.
    pub(super) fn whole(&self) -> &[u8] {
        &self.frame
    }

    /// Does what is due. Returns what has changed.
    #[cold]
    pub(super) fn poll(&mut self, transmitter: &mut Transmitter, now: Instant) -> Change {
        self.host
            .poll(now, &mut Polled { out: Out { transmitter, mac: self.mac }, undelivered: &mut self.undelivered });
        let mut change = Change::Nothing;
        while let Some(notice) = self.host.notice() {
            change = change.max(match notice {
                Notice::Addresses => Change::Addresses,
                Notice::NameServers => Change::NameServers,
                _ => Change::Nothing,
            });
            self.log.tell(&notice);
        }
        self.log.lose_patience(time::now());
        if change == Change::Addresses {
            self.note_addresses();
        }
        change
    }

    /// Returns a packet of TCP's that has waited in vain for its neighbour.
    pub(super) fn undelivered(&mut self) -> Option<Quoted> {
        self.undelivered.pop()
    }

    /// Returns whether a neighbour is about to be asked whether it is still there.
    pub(super) fn is_asking(&self, now: Instant) -> bool {
        self.host.is_asking(now)
    }

    /// Takes note that something new has arrived at `remote` a moment ago, by the station `link`.
    pub(super) fn confirm(&mut self, remote: IpAddr, link: Link, now: Instant) {
        self.host.confirm(remote, LinkAddress(link), now);
    }

    /// Sends a datagram from `port` to `destination`, at once or when its neighbour is known.
    pub(super) fn send(
        &mut self,
        port: u16,
        destination: SocketAddr,
        payload: &[u8],
        transmitter: &mut Transmitter,
        now: Instant,
    ) -> Result<(), Unsent> {
        self.host.send_datagram(port, destination, payload, now, &mut Out { transmitter, mac: self.mac })
    }

    /// Returns the address that packets to `destination` are best sent from.
    pub(super) fn source(&self, destination: IpAddr, now: Instant) -> Option<IpAddr> {
        self.host.source(destination, now)
    }

    /// Sends a packet of IP, whole: at once, or as soon as its neighbour's station is known. Where
    /// there is no way to it, it is lost.
    pub(super) fn send_packet(&mut self, packet: &[u8], transmitter: &mut Transmitter, now: Instant) {
        let _ = self.host.send_packet(packet, now, &mut Out { transmitter, mac: self.mac });
    }

    /// Takes note that packets to where the quoted one was to go may have so many bytes only: its
    /// flow has believed it.
    pub(super) fn remember(&mut self, told: TooBig, now: Instant) {
        let _ = self.host.too_big(told, now, || true);
    }
}

/// The port that a datagram of UDP, whose header was read before, is for.
fn udp_port(datagram: &[u8]) -> u16 {
    datagram.get(udp::DESTINATION..).and_then(<[u8]>::first_chunk).copied().map_or(0, u16::from_be_bytes)
}

/// Where the host sends: frames in the client's buffers.
struct Out<'a> {
    transmitter: &'a mut Transmitter,
    mac: Mac,
}

impl Wire for Out<'_> {
    fn send(&mut self, to: LinkAddress, kind: Kind, packet: &[u8]) {
        let kind = match kind {
            Kind::Arp => types::ARP,
            Kind::Ipv4 => types::IPV4,
            Kind::Ipv6 => types::IPV6,
        };
        let header = ethernet_header(to.0, self.mac, kind);
        // Where there is no buffer it is lost: networks lose packets.
        self.transmitter.send(ETHERNET_HEADER + packet.len(), |frame| {
            if let Some((head, rest)) = frame.split_first_chunk_mut() {
                *head = header;
                rest.copy_from_slice(packet);
            }
            (PacketHeader::default(), ())
        });
    }
}

/// The same, which also keeps the packets that have waited in vain: the host gives them back while
/// it does what is due.
struct Polled<'a> {
    out: Out<'a>,
    undelivered: &'a mut Vec<Quoted>,
}

impl Wire for Polled<'_> {
    fn send(&mut self, to: LinkAddress, kind: Kind, packet: &[u8]) {
        self.out.send(to, kind, packet);
    }

    fn undelivered(&mut self, packet: &[u8]) {
        if let Ok(quoted) = Quoted::of_packet(packet)
            && quoted.protocol == protocols::TCP
            && self.undelivered.len() < self.undelivered.capacity()
        {
            self.undelivered.push(quoted);
        }
    }
}

fn ethernet_header(to: [u8; 6], from: Mac, kind: u16) -> [u8; ETHERNET_HEADER] {
    let mut header = [0; ETHERNET_HEADER];
    put(&mut header, ethernet::DESTINATION, to);
    put(&mut header, ethernet::SOURCE, from.bytes());
    put(&mut header, ethernet::TYPE, kind.to_be_bytes());
    header
}

/// Writes the frame in which `payload` would have come in one piece and without options. Returns
/// whether there is space for it: not for a packet with options that a device has put together
/// from many segments.
pub(super) fn rebuild(frame: &mut Vec<u8>, payload: &Payload<'_>, mac: Mac) -> bool {
    let Payload { source, destination, protocol, payload, from, is_marked, .. } = *payload;
    let mark = if is_marked { ecn::MARKED } else { ecn::UNMARKABLE };
    if payload.len() > frame.capacity().saturating_sub(LONGEST_HEADERS) {
        return false;
    }
    let kind = if source.is_ipv4() { types::IPV4 } else { types::IPV6 };
    let mut ethernet = ethernet_header(mac.bytes(), Mac::new(from.0), kind);
    put(&mut ethernet, ethernet::SOURCE, from.0);
    frame.clear();
    frame.extend_from_slice(&ethernet);
    match (source, destination) {
        (IpAddr::V4(source), IpAddr::V4(destination)) => {
            let mut header = [0; ipv4::HEADER];
            header[ipv4::VERSION] = ipv4::VERSION_AND_LENGTH;
            header[ipv4::SERVICE] = mark;
            put(&mut header, ipv4::TOTAL_LENGTH, ((ipv4::HEADER + payload.len()) as u16).to_be_bytes());
            put(&mut header, ipv4::TIME_TO_LIVE, [HOP_LIMIT, protocol]);
            put(&mut header, ipv4::SOURCE, source.octets());
            put(&mut header, ipv4::DESTINATION, destination.octets());
            let sum = !checksum::Sum::ZERO.add_bytes(&header).fold();
            put(&mut header, ipv4::CHECKSUM, sum.to_le_bytes());
            frame.extend_from_slice(&header);
        }
        (IpAddr::V6(source), IpAddr::V6(destination)) => {
            let mut header = [0; ipv6::HEADER];
            put(&mut header, ipv6::VERSION, ipv6::VERSION_ALONE);
            header[ipv6::CLASS] = mark << ecn::SHIFT_6;
            put(&mut header, ipv6::PAYLOAD_LENGTH, (payload.len() as u16).to_be_bytes());
            put(&mut header, ipv6::NEXT_HEADER, [protocol, HOP_LIMIT]);
            put(&mut header, ipv6::SOURCE, source.octets());
            put(&mut header, ipv6::DESTINATION, destination.octets());
            frame.extend_from_slice(&header);
        }
        // Both were read from one header.
        _ => {}
    }
    frame.extend_from_slice(payload);
    true
}
