//! What the log says of the IPv4 address that DHCP gives, and when it says that there is none.

use culm::time::{Duration, Instant};
use culm_ip::host::Notice;

/// How long the first address may take before the log says that there is none. A server answers
/// within a second; a request that was lost is repeated after five.
const PATIENCE: Duration = Duration::from_secs(12);

/// The log's last word on the address.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Said {
    /// Nothing; at this time, that there is none.
    NothingUntil(Instant),
    Address,
    NoAddress,
    /// That the server's is not one.
    Unusable,
}

/// What the log has said.
pub(super) struct Log {
    said: Said,
}

impl Log {
    /// A log from `now` on; without an address that is leased it says nothing of its absence.
    pub(super) fn new(is_leased: bool, now: Instant) -> Self {
        Self { said: Said::NothingUntil(if is_leased { now + PATIENCE } else { Instant::NEVER }) }
    }

    /// Logs what has happened, where it is new.
    pub(super) fn tell(&mut self, notice: &Notice) {
        match notice {
            Notice::Addresses | Notice::NameServers => {}
            Notice::Leased(lease) => {
                culm::info!("address {} by DHCP", lease.address);
                self.said = Said::Address;
            }
            Notice::LeaseOver => {
                culm::warn!("no address: no DHCP server has renewed the lease, which has ended");
                self.said = Said::NoAddress;
            }
            Notice::LeaseRefused => {
                culm::warn!(
                    "no address: a DHCP server says that this network has other addresses; it is asked for one"
                );
                self.said = Said::NoAddress;
            }
            Notice::Unusable(address) if self.said != Said::Unusable => {
                culm::warn!("the DHCP server gives {address}, which cannot be an address: it is not used");
                self.said = Said::Unusable;
            }
            Notice::Unusable(_) => {}
            Notice::Duplicate(address) => {
                culm::warn!(
                    "another station has the address {address}, which is no longer used: give one of both another"
                );
            }
        }
    }

    /// Logs that there is no address yet, if that has taken too long by `now`.
    pub(super) fn lose_patience(&mut self, now: Instant) {
        if now >= self.due() {
            culm::warn!("no address yet: no DHCP server has given one");
            self.said = Said::NoAddress;
        }
    }

    /// When there is something to be said even if nothing happens.
    pub(super) fn due(&self) -> Instant {
        match self.said {
            Said::NothingUntil(at) => at,
            Said::Address | Said::NoAddress | Said::Unusable => Instant::NEVER,
        }
    }
}

#[cfg(test)]
mod tests {
    use crate::descriptor::flags::LINK_COUNT_SHIFT;
    use crate::stack::tests::lan::{HOST_MAC, Lan, MAC};
    use crate::stack::{Ending, Settings};
    use smoltcp::phy::ChecksumCapabilities;
    use smoltcp::wire::{
        DhcpMessageType, DhcpPacket, DhcpRepr, EthernetAddress, EthernetFrame, EthernetProtocol, EthernetRepr,
        IpProtocol, Ipv4Address, Ipv4Packet, Ipv4Repr, UdpPacket, UdpRepr,
    };
    use std::string::String;
    use std::vec;
    use std::vec::Vec;

    const SERVER: Ipv4Address = Ipv4Address::new(10, 0, 0, 2);

    #[test]
    fn a_link_that_is_up_again_has_the_address_asked_for_anew() {
        let mut lan = Lan::new(Settings { connections: 1, ..Settings::default() });
        lan.server = |_, _| {};
        let first = Ipv4Address::new(10, 0, 0, 77);
        assert!(pass(&mut lan, 3000, Some(first)).contains("address 10.0.0.77/24"));
        // The first frame that says so: for all, as a neighbour's question is.
        let mut frame = vec![0xff; 6];
        frame.extend(HOST_MAC);
        frame.extend([8, 6]);
        frame.resize(60, 0);
        // The same network: the address holds, and is asked for as that of before (RFC 2131 §3.2).
        lan.flags = 1 << LINK_COUNT_SHIFT;
        lan.wire.to_stack.push_back(frame.clone());
        lan.seen.clear();
        lan.pass(2);
        let asked: Vec<_> = lan.seen.iter().filter_map(|frame| message(frame)).collect();
        let [ref message] = asked[..] else { panic!("{} requests", asked.len()) };
        let request = DhcpRepr::parse(message).expect("it is one");
        assert_eq!((request.message_type, request.requested_ip), (DhcpMessageType::Request, Some(first)));
        assert!(request.server_identifier.is_none() && request.client_ip.is_unspecified());
        assert_eq!(pass(&mut lan, 3000, Some(first)), "");
        // Another network: its server refuses the address, and gives another one. Connections from
        // the old one end.
        let slot = lan.stack.connect("10.0.0.3:80".parse().expect("an address")).expect("there is a way");
        lan.flags = 2 << LINK_COUNT_SHIFT;
        lan.wire.to_stack.push_back(frame);
        let log = pass(&mut lan, 10_000, Some(Ipv4Address::new(10, 0, 0, 88)));
        assert!(log.contains("has other addresses") && log.contains("address 10.0.0.88/24"), "{log}");
        assert!(!lan.stack.addresses().iter().any(|own| own.address() == core::net::IpAddr::V4(first)));
        assert_eq!(lan.stack.stream(slot).and_then(|stream| stream.ending()), Some(Ending::AddressLost));
    }

    /// Returns the message to a DHCP server in a frame, if there is one.
    fn message(frame: &[u8]) -> Option<DhcpPacket<&[u8]>> {
        if frame.len() < 42 || frame[12..14] != [8, 0] || frame[23] != 17 || frame[36..38] != [0, 67] {
            return None;
        }
        DhcpPacket::new_checked(&frame[42..]).ok()
    }

    /// Returns the answer of a DHCP server, if the frame is a request to it: `address`, for ten
    /// seconds; to a request for another one, that it cannot be.
    fn answer(frame: &[u8], address: Ipv4Address) -> Option<Vec<u8>> {
        let message = message(frame)?;
        let request = DhcpRepr::parse(&message).ok()?;
        let message_type = match request.message_type {
            DhcpMessageType::Discover => DhcpMessageType::Offer,
            DhcpMessageType::Request if request.requested_ip.is_some_and(|wanted| wanted != address) => {
                DhcpMessageType::Nak
            }
            DhcpMessageType::Request => DhcpMessageType::Ack,
            _ => return None,
        };
        let dhcp = DhcpRepr {
            message_type,
            your_ip: address,
            server_ip: SERVER,
            server_identifier: Some(SERVER),
            subnet_mask: Some(Ipv4Address::new(255, 255, 255, 0)),
            lease_duration: Some(10),
            requested_ip: None,
            client_identifier: None,
            parameter_request_list: None,
            max_size: None,
            ..request
        };
        let udp = UdpRepr { src_port: 67, dst_port: 68 };
        let length = dhcp.buffer_len();
        let ip = Ipv4Repr {
            src_addr: SERVER,
            dst_addr: Ipv4Address::BROADCAST,
            next_header: IpProtocol::Udp,
            payload_len: udp.header_len() + length,
            hop_limit: 64,
        };
        let ethernet = EthernetRepr {
            src_addr: EthernetAddress(HOST_MAC),
            dst_addr: EthernetAddress(MAC),
            ethertype: EthernetProtocol::Ipv4,
        };
        let mut bytes = vec![0; ethernet.buffer_len() + ip.buffer_len() + ip.payload_len];
        let sums = ChecksumCapabilities::default();
        let mut frame = EthernetFrame::new_unchecked(&mut bytes[..]);
        ethernet.emit(&mut frame);
        let mut packet = Ipv4Packet::new_unchecked(frame.payload_mut());
        ip.emit(&mut packet, &sums);
        let mut datagram = UdpPacket::new_unchecked(packet.payload_mut());
        let write = |payload: &mut [u8]| dhcp.emit(&mut DhcpPacket::new_unchecked(payload)).expect("fits");
        udp.emit(&mut datagram, &SERVER.into(), &Ipv4Address::BROADCAST.into(), length, write, &sums);
        Some(bytes)
    }

    /// Lets time pass, with a server that gives `address` if there is one. Returns what is logged.
    fn pass(lan: &mut Lan, milliseconds: u64, address: Option<Ipv4Address>) -> String {
        for _ in 0..milliseconds {
            lan.pass(1);
            let asked = core::mem::take(&mut lan.seen);
            if let Some(address) = address {
                lan.wire.to_stack.extend(asked.iter().filter_map(|frame| answer(frame, address)));
            }
        }
        culm::testing::take_log()
    }

    #[test]
    fn the_log_says_once_that_no_server_gives_an_address() {
        let mut lan = Lan::new(Settings::default());
        assert_eq!(pass(&mut lan, 10_000, None), "");
        let log = pass(&mut lan, 50_000, None);
        assert_eq!(log.matches("no address yet: no DHCP server has given one").count(), 1, "{log}");
        assert_eq!(log.lines().count(), 1, "{log}");
        // It has asked less and less often (RFC 2131 §4.1).
        let log = pass(&mut lan, 70_000, Some(Ipv4Address::new(10, 0, 0, 77)));
        assert!(log.contains("address 10.0.0.77/24 by DHCP"), "{log}");
    }

    #[test]
    fn the_log_says_once_that_the_lease_has_ended() {
        let mut lan = Lan::new(Settings::default());
        for number in [77, 78] {
            let log = pass(&mut lan, 25_000, Some(Ipv4Address::new(10, 0, 0, number)));
            assert!(log.contains(&std::format!("address 10.0.0.{number}/24 by DHCP")), "{log}");
            assert!(!log.contains("no address"), "{log}");
            let log = pass(&mut lan, 60_000, None);
            assert_eq!(log.matches("no address: no DHCP server has renewed the lease").count(), 1, "{log}");
            assert_eq!(log.lines().count(), 1, "{log}");
        }
    }

    #[test]
    fn the_log_says_once_that_the_address_cannot_be_one() {
        let mut lan = Lan::new(Settings::default());
        let log = pass(&mut lan, 25_000, Some(Ipv4Address::new(0, 0, 0, 9)));
        assert_eq!(log.matches("gives 0.0.0.9, which cannot be an address").count(), 1, "{log}");
    }
}
