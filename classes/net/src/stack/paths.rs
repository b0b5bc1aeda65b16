//! smoltcp's interface for what is answered to where it came from: echo requests, and what nobody
//! takes.
//!
//! smoltcp looks each destination up among its neighbours, whom it learns from ARP and neighbour
//! discovery: one question a second in all, a few places, and the last answer is believed. A server
//! needs none of that. A question is answered through the station that brought it. So this
//! interface knows one neighbour, whom it takes for the router to everywhere, and the [`Port`] puts
//! the right station's address in its place.

use super::port::{Port, capabilities};
use crate::{ETHERNET_HEADER, Mac};
use alloc::vec;
use alloc::vec::Vec;
use smoltcp::iface::{Config, Interface, SocketSet};
use smoltcp::phy::{self, ChecksumCapabilities, DeviceCapabilities};
use smoltcp::time::Instant;
use smoltcp::wire::{
    ArpOperation, ArpPacket, ArpRepr, EthernetAddress, EthernetFrame, EthernetProtocol, HardwareAddress, Icmpv6Packet,
    Icmpv6Repr, IpAddress, IpCidr, IpProtocol, Ipv4Address, Ipv6Address, Ipv6Packet, Ipv6Repr, NdiscNeighborFlags,
    NdiscRepr,
};

/// The interface, and the addresses that it answers for.
pub(super) struct Paths {
    interface: Interface,
    mac: Mac,
    /// The neighbour's hardware address, which nobody else knows, and so nobody can pretend to
    /// have.
    neighbour: EthernetAddress,
    addresses: Vec<IpCidr>,
}

impl Paths {
    pub(super) fn new(mac: Mac, secret: u64, now: Instant) -> Self {
        let [a, b, c, d, e, ..] = secret.to_le_bytes();
        let neighbour = EthernetAddress([2, a, b, c, d, e]);
        let config = Config::new(HardwareAddress::Ethernet(EthernetAddress(mac.bytes())));
        let interface = Interface::new(config, &mut Teacher { frame: None }, now);
        Self { interface, mac, neighbour, addresses: Vec::new() }
    }

    /// This station's addresses.
    pub(super) fn addresses(&self) -> &[IpCidr] {
        &self.addresses
    }

    /// Takes over addresses, where they have changed.
    pub(super) fn set_addresses(&mut self, addresses: &[IpCidr]) {
        if self.addresses != addresses {
            self.addresses = addresses.to_vec();
            self.teach();
        }
    }

    /// Tells the interface its addresses, that each protocol's first one is that of the router to
    /// everywhere, and where that router is.
    #[cold]
    fn teach(&mut self) {
        let interface = &mut self.interface;
        interface.update_ip_addrs(|own| {
            own.clear();
            // There is space for as many as the other interface has.
            own.extend(self.addresses.iter().map(|address| host(address.address())).take(own.capacity()));
        });
        interface.routes_mut().update(|routes| routes.clear());
        let four = self.addresses.iter().find_map(|address| match address.address() {
            IpAddress::Ipv4(address) => Some(address),
            IpAddress::Ipv6(_) => None,
        });
        let six = self.addresses.iter().find_map(|address| match address.address() {
            IpAddress::Ipv6(address) => Some(address),
            IpAddress::Ipv4(_) => None,
        });
        let mut frames = Vec::new();
        if let Some(address) = four {
            // There are two places for routes, one for each protocol.
            let _ = interface.routes_mut().add_default_ipv4_route(address);
            frames.push(arp(self.mac, self.neighbour, address));
        }
        if let Some(address) = six {
            let _ = interface.routes_mut().add_default_ipv6_route(address);
            frames.push(advertisement(self.mac, self.neighbour, address));
        }
        for frame in frames {
            // Neighbours are forgotten after a minute; not one who was seen in the far future.
            let never = Instant::from_micros(i64::MAX / 2);
            let mut teacher = Teacher { frame: Some(frame) };
            interface.poll_ingress_single(never, &mut teacher, &mut SocketSet::new(vec![]));
        }
    }

    /// Answers a frame that is for no connection of this station: by an echo, a reset, or by saying
    /// that nobody is there.
    #[cold]
    pub(super) fn answer(&mut self, port: &mut Port<'_>, now: Instant) {
        self.interface.poll_ingress_single(now, port, &mut SocketSet::new(vec![]));
    }
}

/// An address with a network that has nobody else.
fn host(address: IpAddress) -> IpCidr {
    let bits = match address {
        IpAddress::Ipv4(_) => 32,
        IpAddress::Ipv6(_) => 128,
    };
    IpCidr::new(address, bits)
}

/// An ARP reply by which `mac` learns that `address` is at `neighbour`.
fn arp(mac: Mac, neighbour: EthernetAddress, address: Ipv4Address) -> Vec<u8> {
    let own = EthernetAddress(mac.bytes());
    let reply = ArpRepr::EthernetIpv4 {
        operation: ArpOperation::Reply,
        source_hardware_addr: neighbour,
        source_protocol_addr: address,
        target_hardware_addr: own,
        target_protocol_addr: address,
    };
    let mut bytes = vec![0; ETHERNET_HEADER + reply.buffer_len()];
    let mut frame = EthernetFrame::new_unchecked(&mut bytes);
    ethernet(&mut frame, neighbour, own, EthernetProtocol::Arp);
    reply.emit(&mut ArpPacket::new_unchecked(frame.payload_mut()));
    bytes
}

/// The same for IPv6, a neighbour advertisement.
fn advertisement(mac: Mac, neighbour: EthernetAddress, address: Ipv6Address) -> Vec<u8> {
    let own = EthernetAddress(mac.bytes());
    let advert = Icmpv6Repr::Ndisc(NdiscRepr::NeighborAdvert {
        flags: NdiscNeighborFlags::OVERRIDE,
        target_addr: address,
        lladdr: Some(neighbour.into()),
    });
    let header = Ipv6Repr {
        src_addr: address,
        dst_addr: address,
        next_header: IpProtocol::Icmpv6,
        payload_len: advert.buffer_len(),
        hop_limit: 255,
    };
    let mut bytes = vec![0; ETHERNET_HEADER + header.buffer_len() + advert.buffer_len()];
    let mut frame = EthernetFrame::new_unchecked(&mut bytes);
    ethernet(&mut frame, neighbour, own, EthernetProtocol::Ipv6);
    let mut packet = Ipv6Packet::new_unchecked(frame.payload_mut());
    header.emit(&mut packet);
    let mut message = Icmpv6Packet::new_unchecked(packet.payload_mut());
    advert.emit(&address, &address, &mut message, &ChecksumCapabilities::default());
    bytes
}

fn ethernet(
    frame: &mut EthernetFrame<&mut Vec<u8>>,
    from: EthernetAddress,
    to: EthernetAddress,
    kind: EthernetProtocol,
) {
    frame.set_src_addr(from);
    frame.set_dst_addr(to);
    frame.set_ethertype(kind);
}

/// A device that brings one frame and takes none.
struct Teacher {
    frame: Option<Vec<u8>>,
}

struct Lesson(Vec<u8>);
struct Silent;

impl phy::RxToken for Lesson {
    fn consume<R, F: FnOnce(&[u8]) -> R>(self, read: F) -> R {
        read(&self.0)
    }
}

impl phy::TxToken for Silent {
    fn consume<R, F: FnOnce(&mut [u8]) -> R>(self, length: usize, write: F) -> R {
        write(&mut vec![0; length])
    }
}

impl phy::Device for Teacher {
    type RxToken<'a> = Lesson;
    type TxToken<'a> = Silent;

    fn receive(&mut self, _: Instant) -> Option<(Lesson, Silent)> {
        Some((Lesson(self.frame.take()?), Silent))
    }

    fn transmit(&mut self, _: Instant) -> Option<Silent> {
        None
    }

    fn capabilities(&self) -> DeviceCapabilities {
        capabilities()
    }
}
