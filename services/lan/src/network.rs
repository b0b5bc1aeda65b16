//! The station on its network: a host of [`culm_ip`], whose frames come from and go to the net
//! class's queues.

use alloc::vec;
use alloc::vec::Vec;
use core::net::{IpAddr, Ipv4Addr, SocketAddr};
use culm::Progress;
use culm_dns::Datagram;
use culm_ip::dhcp::server::{Answer, Settings};
use culm_ip::dhcp::{CLIENT_PORT, SERVER_PORT};
use culm_ip::host::{self, Host, Ipv4Config, Kind, LARGEST, Wire};
use culm_ip::ipv4::Ipv4;
use culm_ip::udp::{self, Checksum, UDP};
use culm_ip::{Cidr, Instant, Key, LinkAddress};
use culm_net::client::Transmitter;
use culm_net::header::flags::{CHECKSUM_VALID, NEEDS_CHECKSUM};
use culm_net::wire::{ethernet, types};
use culm_net::{Client, ETHERNET_HEADER, PacketHeader};

/// Neighbours that are known at a time, packets that wait for one of them, and paths.
const NEIGHBOURS: usize = 256;
const PACKETS: usize = 32;
const PATHS: usize = 16;

/// Datagrams whose fragments come, and bytes for them: name servers send none, clients neither.
const SLOTS: usize = 4;
const FRAGMENTS: usize = 8192;

/// The station.
pub struct Network {
    client: Client,
    host: Host<'static>,
    own: Cidr<Ipv4Addr>,
    link: LinkAddress,
}

/// What has come.
pub enum Received {
    /// Nothing for the services.
    Other,
    /// A datagram, whose payload is in the buffer.
    Datagram {
        /// Who has sent it.
        from: SocketAddr,
        /// The port that it is for.
        port: u16,
        /// Bytes of the payload.
        length: usize,
        /// Whether its sender is of the network.
        is_of_network: bool,
    },
}

/// Where the host's frames go.
struct Output<'a> {
    transmitter: &'a mut Transmitter,
    link: LinkAddress,
}

impl Wire for Output<'_> {
    fn send(&mut self, to: LinkAddress, kind: Kind, packet: &[u8]) {
        let protocol = match kind {
            Kind::Arp => types::ARP,
            Kind::Ipv4 => types::IPV4,
            Kind::Ipv6 => types::IPV6,
        };
        // A frame has 60 bytes at least (IEEE 802.3 §4A.2.3.2.4).
        let length = (ETHERNET_HEADER + packet.len()).max(60);
        let sent = self.transmitter.send(length, |frame| {
            frame.fill(0);
            let parts = [&to.0[..], &self.link.0, &protocol.to_be_bytes(), packet];
            let mut place = frame;
            for part in parts {
                let Some((here, rest)) = core::mem::take(&mut place).split_at_mut_checked(part.len()) else { break };
                here.copy_from_slice(part);
                place = rest;
            }
            (PacketHeader::default(), ())
        });
        crate::counters::NOT_SENT.add(u64::from(sent.is_none()));
    }
}

impl Network {
    /// The station with the server's address and router.
    pub fn new(client: Client, settings: &Settings, now: Instant) -> Self {
        let link = LinkAddress(client.mac().bytes());
        let words: [u64; 6] = culm::random::words().unwrap_or([now.0; 6]);
        let [seed, key @ ..] = words;
        let config = host::Config {
            link,
            mtu: LARGEST as u16,
            ipv4: Ipv4Config::Fixed(settings.own, settings.router),
            ipv6: false,
            key: Key(key),
            seed,
        };
        let neighbours: Vec<host::Neighbour> = (0..NEIGHBOURS).map(|_| Default::default()).collect();
        let memory = host::Memory {
            neighbours: neighbours.leak(),
            packets: vec![Default::default(); PACKETS].leak(),
            paths: vec![Default::default(); PATHS].leak(),
            slots: vec![Default::default(); SLOTS].leak(),
            fragments: vec![0; FRAGMENTS].leak(),
        };
        Self { client, host: Host::new(config, memory, now), own: settings.own, link }
    }

    /// Begins a round, with all that the host has to do.
    pub fn begin(&mut self, now: Instant) {
        self.client.begin();
        self.poll(now);
    }

    /// Does all that the host has to do, like asking for neighbours that something waits for.
    pub fn poll(&mut self, now: Instant) {
        let mut output = Output { transmitter: &mut self.client.transmitter, link: self.link };
        self.host.poll(now, &mut output);
    }

    /// Ends it.
    pub fn end_round(&mut self) -> Progress {
        self.client.end_round()
    }

    /// When the host has something to do.
    pub fn deadline(&self) -> Instant {
        self.host.deadline()
    }

    /// Takes a frame, as long as there is a buffer for an answer. A datagram for a port that is
    /// taken is left in `buffer`; all else the host deals with. `None`: there is none.
    pub fn receive(&mut self, takes: impl Fn(u16) -> bool, now: Instant, buffer: &mut [u8]) -> Option<Received> {
        if !self.client.transmitter.is_ready() {
            return None;
        }
        let packet = self.client.receiver.receive()?;
        let bytes = packet.frame();
        let Some(frame) = parse(bytes, packet.header().flags & (NEEDS_CHECKSUM | CHECKSUM_VALID) != 0) else {
            return Some(Received::Other);
        };
        if let Some(payload) = lease_request(&frame) {
            let from = SocketAddr::new(Ipv4Addr::UNSPECIFIED.into(), CLIENT_PORT);
            let length = copy(payload, buffer);
            return Some(Received::Datagram { from, port: SERVER_PORT, length, is_of_network: true });
        }
        let mut output = Output { transmitter: &mut self.client.transmitter, link: self.link };
        let upper = |protocol, port| protocol == UDP && takes(port);
        let host::Received::Packet(received) = self.host.receive(&frame, &upper, now, &mut output) else {
            return Some(Received::Other);
        };
        // Its checksum was looked at.
        let (source, destination) = (received.source, received.destination);
        let read = udp::Datagram::parse(source, destination, received.payload, Checksum::Verified);
        let Ok(datagram) = read else { return Some(Received::Other) };
        Some(Received::Datagram {
            from: SocketAddr::new(source, datagram.source_port),
            port: datagram.destination_port,
            length: copy(datagram.payload, buffer),
            is_of_network: matches!(source, IpAddr::V4(source) if self.own.contains(source)),
        })
    }

    /// Sends a datagram of the forwarder's. What cannot be sent is lost; whoever waits for it asks
    /// again.
    pub fn send(&mut self, datagram: &Datagram<'_>, now: Instant) {
        let mut output = Output { transmitter: &mut self.client.transmitter, link: self.link };
        let sent = self.host.send_datagram(datagram.source_port, datagram.to, datagram.payload, now, &mut output);
        crate::counters::NOT_SENT.add(u64::from(sent.is_err()));
    }

    /// Sends an answer about a lease: to a station that may have no address yet, and so cannot be
    /// asked for.
    pub fn send_lease(&mut self, to: &Answer, payload: &[u8]) {
        let (mut datagram, mut packet) = ([0; LARGEST], [0; LARGEST]);
        let source = self.own.address();
        let udp = udp::Datagram { source_port: SERVER_PORT, destination_port: CLIENT_PORT, payload };
        let Some(length) = udp.write(source.into(), to.address.into(), &mut datagram) else { return };
        let header = Ipv4 {
            source,
            destination: to.address,
            protocol: UDP,
            time_to_live: 64,
            identification: 0,
            may_fragment: false,
            offset: 0,
            has_more: false,
            payload: datagram.get(..length).unwrap_or_default(),
            packet: &[],
        };
        let Some(length) = header.write(&mut packet) else { return };
        let mut output = Output { transmitter: &mut self.client.transmitter, link: self.link };
        output.send(to.link, Kind::Ipv4, packet.get(..length).unwrap_or_default());
    }
}

/// Copies as much as fits; returns how much that was.
fn copy(payload: &[u8], buffer: &mut [u8]) -> usize {
    let length = payload.len().min(buffer.len());
    if let (Some(from), Some(to)) = (payload.get(..length), buffer.get_mut(..length)) {
        to.copy_from_slice(from);
    }
    length
}

/// Reads a frame's header. `is_verified`: the device has looked at the checksum of UDP or TCP, or
/// the frame was never on a wire.
fn parse(bytes: &[u8], is_verified: bool) -> Option<host::Frame<'_>> {
    let (header, packet) = bytes.split_at_checked(ETHERNET_HEADER)?;
    let address = |at: usize| header.get(at..)?.first_chunk().copied().map(LinkAddress);
    let kind = match u16::from_be_bytes(*header.get(ethernet::TYPE..)?.first_chunk()?) {
        types::ARP => Kind::Arp,
        types::IPV4 => Kind::Ipv4,
        types::IPV6 => Kind::Ipv6,
        _ => return None,
    };
    let was_for_all = !address(ethernet::DESTINATION)?.is_station();
    let checksum = if is_verified { Checksum::Verified } else { Checksum::Unknown };
    Some(host::Frame { from: address(ethernet::SOURCE)?, was_for_all, kind, packet, checksum })
}

/// Returns the payload of a datagram from a client to the server that leases addresses, to all or
/// to this station. It is read here, since a host takes nothing from who has no address (RFC 1122
/// §3.2.1.3).
fn lease_request<'a>(frame: &host::Frame<'a>) -> Option<&'a [u8]> {
    if frame.kind != Kind::Ipv4 || !frame.was_for_all {
        return None;
    }
    let packet = Ipv4::parse(frame.packet).ok()?;
    if packet.protocol != UDP || packet.offset != 0 || packet.has_more || !packet.destination.is_broadcast() {
        return None;
    }
    let (source, destination) = (packet.source.into(), packet.destination.into());
    let datagram = udp::Datagram::parse(source, destination, packet.payload, frame.checksum).ok()?;
    (datagram.destination_port == SERVER_PORT && datagram.source_port == CLIENT_PORT).then_some(datagram.payload)
}
