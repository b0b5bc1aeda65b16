//! Answers to single frames, without a stack: ARP for one IPv4 address, echo requests of ICMP, and
//! UDP echo (RFC 862).
//!
//! An answer is its question with the two parties exchanged, so that nothing is remembered and the
//! checksums of ICMP and UDP need no pass over the payload. What cannot be answered to a single
//! station is not.
//!
//! Two echo servers would send each other for ever what a forger sends to one of them in the
//! other's name. So a datagram is answered to a client's port only ([`is_client_port`]), and its
//! answer has less time to live than itself: two such stations stop within [`HOP_LIMIT`] answers,
//! whatever their ports. A foreign server on a client's port that gives each answer its full time
//! to live cannot be told from a client.

use culm_net::checksum::Sum;
use culm_net::wire::{
    self, Ethernet, HOP_LIMIT, Ipv4, arp, ethernet, icmp, ipv4, is_client_port, protocols, put, types, udp,
};
use culm_net::{ETHERNET_HEADER, Mac};

/// Offset of what follows the Ethernet header.
const NETWORK: usize = ETHERNET_HEADER;

/// Offset of what follows an IPv4 header without options.
const TRANSPORT: usize = NETWORK + ipv4::HEADER;

/// The station that answers.
#[derive(Clone, Copy, Debug)]
pub struct Responder {
    mac: Mac,
    address: [u8; 4],
    /// The UDP port on which every datagram is sent back.
    port: u16,
}

/// A question that a frame asks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Question {
    /// Who has the address?
    Arp,
    /// An echo request of ICMP.
    Ping,
    /// A datagram that is to come back.
    Datagram,
}

/// An answer, yet to be written.
#[derive(Clone, Copy, Debug)]
pub struct Answer<'a> {
    responder: &'a Responder,
    /// The question that it answers.
    pub question: Question,
    /// Bytes of the answer's frame.
    pub length: usize,
}

impl Responder {
    /// Creates the station of these addresses.
    pub fn new(mac: Mac, address: [u8; 4], port: u16) -> Self {
        Self { mac, address, port }
    }

    /// Returns the answer to a frame, if it asks for something. Its UDP checksum is not looked at.
    #[inline]
    pub fn answer(&self, frame: &[u8]) -> Option<Answer<'_>> {
        let header = Ethernet::at(frame, 0)?;
        let to = Mac::new(header.destination());
        if Mac::new(header.source()).is_group() || to != self.mac && to != Mac::BROADCAST {
            return None;
        }
        let (question, length) = match header.kind() {
            types::IPV4 if to == self.mac => self.datagram(frame)?,
            types::ARP => self.arp(frame)?,
            _ => return None,
        };
        Some(Answer { responder: self, question, length })
    }

    /// A request for this station's address (RFC 826), with the length of its answer.
    fn arp(&self, frame: &[u8]) -> Option<(Question, usize)> {
        let is_request = wire::array(frame, NETWORK)? == &arp::REQUEST;
        let is_for_us = wire::array(frame, NETWORK + arp::TARGET)? == &self.address;
        let is_from_one = wire::array::<6>(frame, NETWORK + arp::SENDER_STATION)?[0] & 1 == 0;
        (is_request && is_for_us && is_from_one).then_some((Question::Arp, NETWORK + arp::LENGTH))
    }

    /// An echo request of ICMP (RFC 792) or of UDP in one IPv4 packet for this station, with the
    /// length of its answer. Padding behind the packet is not answered.
    fn datagram(&self, frame: &[u8]) -> Option<(Question, usize)> {
        let header = Ipv4::at(frame, NETWORK)?;
        let bytes: &[u8; ipv4::HEADER] = wire::array(frame, NETWORK)?;
        let total = header.total_length();
        let is_whole = bytes[0] == ipv4::VERSION_AND_LENGTH && !header.is_fragment();
        let is_right = Sum::ZERO.add_bytes(bytes).fold() == u16::MAX;
        let is_for_us = header.destination() == self.address && is_one_host(header.source());
        if !is_whole || !is_right || !is_for_us || header.source() == self.address {
            return None;
        }
        let end = NETWORK + total;
        let packet = frame.get(TRANSPORT..end)?;
        let question = match header.protocol() {
            protocols::ICMP => {
                let is_request = wire::array(packet, 0)? == &icmp::ECHO_REQUEST && packet.len() >= icmp::HEADER;
                (is_request && Sum::ZERO.add_bytes(packet).fold() == u16::MAX).then_some(Question::Ping)?
            }
            protocols::UDP => {
                let (from, to) = (wire::number(packet, udp::SOURCE)?, wire::number(packet, udp::DESTINATION)?);
                let length = usize::from(wire::number(packet, udp::LENGTH)?);
                let is_whole = length >= udp::HEADER && length == packet.len();
                let may_come_back = is_client_port(from, self.port) && bytes[ipv4::TIME_TO_LIVE] > 1;
                (is_whole && to == self.port && may_come_back).then_some(Question::Datagram)?
            }
            _ => return None,
        };
        Some((question, end))
    }
}

/// Whether an address can be one host's: none of "this network", loopback, groups and what is
/// reserved (RFC 6890). A network's own broadcast address (10.0.0.255 in 10.0.0.0/24) passes: it
/// cannot be known without the prefix, which nobody tells this station.
fn is_one_host(address: [u8; 4]) -> bool {
    !matches!(address[0], 0 | 127 | 224..)
}

impl Answer<'_> {
    /// Writes the answer to `frame`, in which it was found, into `answer`, which has its length.
    ///
    /// # Panics
    ///
    /// If it is another frame, or another length.
    #[inline]
    pub fn write(&self, frame: &[u8], answer: &mut [u8]) {
        let station = self.responder.mac.bytes();
        answer.copy_from_slice(&frame[..self.length]);
        answer.copy_within(ethernet::SOURCE..ethernet::SOURCE + ethernet::ADDRESS, ethernet::DESTINATION);
        put(answer, ethernet::SOURCE, station);
        let network = &mut answer[NETWORK..];
        if self.question == Question::Arp {
            network.copy_within(arp::SENDER_STATION..arp::TARGET_STATION, arp::TARGET_STATION);
            put(network, 0, arp::REPLY);
            put(network, arp::SENDER_STATION, station);
            return put(network, arp::SENDER, self.responder.address);
        }
        network.copy_within(ipv4::SOURCE..ipv4::DESTINATION, ipv4::DESTINATION);
        put(network, ipv4::SOURCE, self.responder.address);
        network[ipv4::TIME_TO_LIVE] = match self.question {
            // Nobody answers an answer to a ping, so it may go as far as any packet. The last step
            // of a traced route arrives with a time to live of 1 and is answered too.
            Question::Ping => HOP_LIMIT,
            _ => network[ipv4::TIME_TO_LIVE].min(HOP_LIMIT).saturating_sub(1),
        };
        put(network, ipv4::CHECKSUM, [0; 2]);
        let sum = Sum::ZERO.add_bytes(&network[..ipv4::HEADER]).fold();
        put(network, ipv4::CHECKSUM, (!sum).to_ne_bytes());
        let transport = &mut network[ipv4::HEADER..];
        if self.question == Question::Ping {
            // Only the type changes, and the sum by as much (RFC 1624). Where all words are 0 the
            // update gives 0, but only 0xffff is right; elsewhere the two are the same number.
            let sum = wire::number(transport, icmp::CHECKSUM).unwrap_or(0);
            let change = !u16::from_be_bytes(icmp::ECHO_REQUEST);
            let sum = !Sum::ZERO.add_number(!sum).add_number(change).fold();
            let sum = if sum == 0 { u16::MAX } else { sum };
            put(transport, icmp::CHECKSUM, sum.to_ne_bytes());
            return put(transport, 0, icmp::ECHO_REPLY);
        }
        // The sum does not change with the order of ports and addresses.
        let [a, b] = [udp::SOURCE, udp::DESTINATION].map(|port| wire::array::<2>(transport, port).copied());
        put(transport, udp::SOURCE, b.unwrap_or_default());
        put(transport, udp::DESTINATION, a.unwrap_or_default());
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use culm_net::checksum;
    use proptest::prelude::*;
    use std::vec;
    use std::vec::Vec;

    const OURS: Mac = Mac::new([2, 0, 0, 0, 0, 1]);
    const THEIRS: Mac = Mac::new([2, 0, 0, 0, 0, 2]);

    fn responder() -> Responder {
        Responder::new(OURS, [10, 0, 0, 1], 7)
    }

    fn arp_request(target: [u8; 4]) -> Vec<u8> {
        let mut frame: Vec<u8> = [Mac::BROADCAST.bytes(), THEIRS.bytes()].concat();
        frame.extend([8, 6]);
        frame.extend(arp::REQUEST);
        frame.extend(THEIRS.bytes());
        frame.extend([10, 0, 0, 2, 0, 0, 0, 0, 0, 0]);
        frame.extend(target);
        frame.resize(60, 0);
        frame
    }

    /// An IPv4 packet with right checksums, and some padding.
    fn packet(protocol: u8, payload: &[u8]) -> Vec<u8> {
        let mut frame: Vec<u8> = [OURS.bytes(), THEIRS.bytes()].concat();
        frame.extend([8, 0, 0x45, 0]);
        frame.extend((ipv4::HEADER as u16 + payload.len() as u16).to_be_bytes());
        frame.extend([0, 1, 0x40, 0, 17, protocol, 0, 0, 10, 0, 0, 2, 10, 0, 0, 1]);
        let sum = !Sum::ZERO.add_bytes(&frame[NETWORK..]).fold();
        put(&mut frame, NETWORK + ipv4::CHECKSUM, sum.to_ne_bytes());
        frame.extend(payload);
        checksum::complete(&mut frame);
        frame.resize(frame.len().max(60), 0);
        frame
    }

    fn ping(data: &[u8]) -> Vec<u8> {
        let mut message: Vec<u8> = vec![8, 0, 0, 0, 0, 1, 0, 2];
        message.extend(data);
        let sum = !Sum::ZERO.add_bytes(&message).fold();
        put(&mut message, icmp::CHECKSUM, sum.to_ne_bytes());
        packet(protocols::ICMP, &message)
    }

    fn datagram(from: u16, to: u16, data: &[u8]) -> Vec<u8> {
        let mut message: Vec<u8> = [from, to, udp::HEADER as u16 + data.len() as u16, 0].map(u16::to_be_bytes).concat();
        message.extend(data);
        packet(protocols::UDP, &message)
    }

    fn answer(frame: &[u8]) -> Option<Vec<u8>> {
        let responder = responder();
        let answer = responder.answer(frame)?;
        let mut bytes = vec![0xaa; answer.length];
        answer.write(frame, &mut bytes);
        Some(bytes)
    }

    #[test]
    fn it_says_who_has_its_address_and_no_other() {
        let said = answer(&arp_request([10, 0, 0, 1])).expect("its address");
        let mut expected: Vec<u8> = [THEIRS.bytes(), OURS.bytes()].concat();
        expected.extend([8, 6]);
        expected.extend(arp::REPLY);
        expected.extend(OURS.bytes());
        expected.extend([10, 0, 0, 1]);
        expected.extend(THEIRS.bytes());
        expected.extend([10, 0, 0, 2]);
        assert_eq!(said, expected);
        assert!(answer(&arp_request([10, 0, 0, 3])).is_none());
        assert!(answer(&said).is_none(), "a reply asks for nothing");
    }

    #[test]
    fn answers_have_right_checksums_whatever_the_payload() {
        for length in [0, 1, 2, 17, 56, 1000] {
            let data: Vec<u8> = (0..length).map(|byte| (byte as u8).wrapping_mul(37) ^ 0xff).collect();
            let pong = answer(&ping(&data)).expect("a request");
            assert_eq!(Sum::ZERO.add_bytes(&pong[NETWORK..TRANSPORT]).fold(), u16::MAX);
            assert_eq!(Sum::ZERO.add_bytes(&pong[TRANSPORT..]).fold(), u16::MAX);
            assert_eq!((pong[TRANSPORT], &pong[TRANSPORT + 8..]), (0, &data[..]));
            let back = answer(&datagram(1234, 7, &data)).expect("its port");
            assert_eq!(Sum::ZERO.add_bytes(&back[NETWORK..TRANSPORT]).fold(), u16::MAX);
            assert!(checksum::is_right(&back));
            assert_eq!(back[TRANSPORT..TRANSPORT + 4], [0, 7, 4, 210]);
            assert_eq!(back[TRANSPORT + 8..], data);
        }
    }

    #[test]
    fn a_ping_of_zeros_is_answered_with_a_right_sum() {
        for length in [0, 1, 3, 8, 55] {
            let mut message: Vec<u8> = vec![0; icmp::HEADER + length];
            put(&mut message, 0, icmp::ECHO_REQUEST);
            let sum = !Sum::ZERO.add_bytes(&message).fold();
            put(&mut message, icmp::CHECKSUM, sum.to_ne_bytes());
            let pong = answer(&packet(protocols::ICMP, &message)).expect("a request");
            assert_eq!(Sum::ZERO.add_bytes(&pong[TRANSPORT..]).fold(), u16::MAX, "{length} bytes of data");
        }
    }

    #[test]
    fn two_echo_servers_end_what_a_forged_datagram_began() {
        // A service's port is not answered at all; other pairs stop by the time to live.
        for ([ours, theirs], expected) in [([7, 8007], 1), ([8007, 7], 0), ([8007, 9007], u32::from(HOP_LIMIT) - 1)] {
            let servers = [Responder::new(OURS, [10, 0, 0, 1], ours), Responder::new(THEIRS, [10, 0, 0, 2], theirs)];
            let mut frame = datagram(theirs, ours, b"forged");
            frame[NETWORK + ipv4::TIME_TO_LIVE] = u8::MAX;
            put(&mut frame, NETWORK + ipv4::CHECKSUM, [0; 2]);
            let sum = !Sum::ZERO.add_bytes(&frame[NETWORK..TRANSPORT]).fold();
            put(&mut frame, NETWORK + ipv4::CHECKSUM, sum.to_ne_bytes());
            let mut answers = 0;
            for server in servers.iter().cycle().take(255) {
                let Some(answer) = server.answer(&frame) else { break };
                let mut bytes = vec![0; answer.length];
                answer.write(&frame, &mut bytes);
                frame = bytes;
                answers += 1;
            }
            assert_eq!(answers, expected, "ports {ours} and {theirs}");
        }
    }

    #[test]
    fn nothing_else_is_answered() {
        let mut cases = vec![
            ("another echo server's", datagram(7, 7, b"x")),
            ("another port's", datagram(1234, 9, b"x")),
            ("nobody's", datagram(0, 7, b"x")),
            ("a service's", datagram(1023, 7, b"x")),
            ("an answer", answer(&ping(b"x")).expect("a request")),
        ];
        let mut change = |what, offset: usize, byte| {
            let mut frame = ping(b"data");
            frame[offset] = byte;
            cases.push((what, frame));
        };
        change("for another station", ethernet::DESTINATION + 5, 9);
        change("from a group", ethernet::SOURCE, 3);
        change("of another type", ethernet::TYPE, 9);
        change("with options", NETWORK, 0x46);
        change("a fragment", NETWORK + ipv4::FRAGMENT, 0x20);
        change("longer than the frame", NETWORK + ipv4::TOTAL_LENGTH, 8);
        change("of another time to live than its sum says", NETWORK + ipv4::TIME_TO_LIVE, 3);
        change("of another content than its sum says", TRANSPORT + 8, 0);
        for (what, frame) in cases {
            assert!(answer(&frame).is_none(), "{what}");
        }
    }

    proptest! {
        /// Whatever a frame says, it is no panic, and what is answered is as long as said.
        #[test]
        fn any_bytes_may_come(
            kind in 0..3_usize,
            changes in prop::collection::vec((0_usize..60, any::<u8>()), 0..4),
            length in 0_usize..80,
        ) {
            let mut frame = [arp_request([10, 0, 0, 1]), ping(b"some data"), datagram(9999, 7, b"other")][kind].clone();
            for (offset, byte) in changes {
                frame[offset] = byte;
            }
            frame.resize(length, 0);
            if let Some(said) = answer(&frame) {
                prop_assert!(said.len() <= frame.len());
                prop_assert_eq!(&said[ethernet::DESTINATION..6], &frame[ethernet::SOURCE..12]);
            }
        }
    }
}
