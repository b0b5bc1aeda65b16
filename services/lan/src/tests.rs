//! Frames from a network to the whole component, and its answers.

use crate::Lan;
use crate::settings::Settings;
use culm::connection::NetClient;
use culm_dns::message::{Draft, flags, kind};
use culm_dns::{Question, Servers};
use culm_ip::dhcp::{self, Answer, Kind, Request, server};
use culm_ip::neighbour::arp::Arp;
use culm_ip::{Cidr, LinkAddress};
use culm_net::provider::{Beginning, Port};
use culm_net::testing::{client, provider_of};
use culm_net::{Client, PacketHeader};
use std::net::Ipv4Addr;
use std::vec::Vec;

const BUFFERS: u32 = 64;
const SIZE: u32 = 2048;
const MAC: [u8; 6] = [2, 0, 0, 0, 0, 1];
const PEER: LinkAddress = LinkAddress([2, 0, 0, 0, 0, 9]);
const OWN: Ipv4Addr = Ipv4Addr::new(10, 0, 3, 3);
const ROUTER: Ipv4Addr = Ipv4Addr::new(10, 0, 3, 1);
const NAMES: Ipv4Addr = Ipv4Addr::new(192, 0, 2, 53);

struct World {
    port: Port,
    lan: Lan,
}

impl World {
    fn new() -> Self {
        let client = NetClient { rx_channel: 40, tx_channel: 41, ..client(MAC, BUFFERS, SIZE) };
        let provider = provider_of(&client, 0, 1);
        let leases = server::Settings {
            own: Cidr::new(OWN, 24).expect("24 of 32"),
            first: Ipv4Addr::new(10, 0, 3, 100),
            last: Ipv4Addr::new(10, 0, 3, 110),
            router: Some(ROUTER),
            name_server: Some(OWN),
            lease: 600,
        };
        let settings = Settings { leases, reserved: Vec::new(), name_servers: Servers::new([NAMES.into()]) };
        let port = Port::new(&provider);
        let mut world = Self { port, lan: Lan::new(Client::new(client), &settings, 16, 4) };
        for _ in 0..6 {
            world.take();
        }
        world
    }

    /// Gives it a frame; returns what it sends.
    fn give(&mut self, frame: &[u8]) -> Vec<Vec<u8>> {
        self.port.begin();
        assert!(self.port.deliver_bytes(PacketHeader::default(), frame, Beginning { bytes: &[], instead_of: 0 }));
        let _ = self.port.end_round();
        self.take()
    }

    fn take(&mut self) -> Vec<Vec<u8>> {
        self.lan.turn();
        self.port.begin();
        let mut sent = Vec::new();
        while let Some(frame) = self.port.next_frame() {
            let mut bytes = std::vec![0; frame.length()];
            assert!(self.port.read(&frame, Beginning { bytes: &[], instead_of: 0 }, &mut bytes));
            sent.push(bytes);
        }
        let _ = self.port.end_round();
        sent
    }
}

/// A frame with a datagram.
fn datagram(to: LinkAddress, from: Ipv4Addr, port: u16, destination: (Ipv4Addr, u16), payload: &[u8]) -> Vec<u8> {
    let (mut udp, mut packet) = ([0; 1500], [0; 1500]);
    let datagram = culm_ip::udp::Datagram { source_port: port, destination_port: destination.1, payload };
    let length = datagram.write(from.into(), destination.0.into(), &mut udp).expect("it fits");
    let header = culm_ip::ipv4::Ipv4 {
        source: from,
        destination: destination.0,
        protocol: 17,
        time_to_live: 64,
        identification: 0,
        may_fragment: false,
        offset: 0,
        has_more: false,
        payload: &udp[..length],
        packet: &[],
    };
    let length = header.write(&mut packet).expect("it fits");
    [&to.0[..], &PEER.0, &[8, 0], &packet[..length]].concat()
}

/// The frames in which a datagram goes to this port.
fn to_port(frames: &[Vec<u8>], port: u16) -> Vec<&[u8]> {
    let is_it = |frame: &&Vec<u8>| frame[12..14] == [8, 0] && frame[36..38] == port.to_be_bytes();
    frames.iter().filter(is_it).map(Vec::as_slice).collect()
}

#[test]
fn a_station_without_an_address_is_offered_one() {
    let mut world = World::new();
    let mut message = [0; dhcp::LONGEST];
    let none = Ipv4Addr::UNSPECIFIED;
    let request =
        Request { kind: Kind::Discover, transaction: 7, seconds: 0, link: PEER, own: none, wanted: None, server: None };
    request.write(&mut message).expect("it fits");
    let to = (Ipv4Addr::BROADCAST, 67);
    let sent = world.give(&datagram(LinkAddress::BROADCAST, none, 68, to, &message));
    let offers = to_port(&sent, 68);
    assert_eq!((offers.len(), &offers[0][..6]), (1, &PEER.0[..]), "{sent:?}");
    let offer = Answer::parse(&offers[0][42..]).expect("an answer");
    assert_eq!((offer.kind, offer.address), (Kind::Offer, Ipv4Addr::new(10, 0, 3, 100)));
    // Not from another port, which no client has.
    let sent = world.give(&datagram(LinkAddress::BROADCAST, none, 69, to, &message));
    assert!(to_port(&sent, 68).is_empty() && to_port(&sent, 69).is_empty());
}

#[test]
fn a_question_goes_to_the_name_server_by_the_router_and_strangers_get_nothing() {
    let mut world = World::new();
    let mut draft = Draft::default();
    let name = "www.example".parse().expect("a name");
    draft.begin(7, flags::RECURSION_DESIRED, &Question { name, kind: kind::A, class: 1 });
    let own = LinkAddress(MAC);
    let stranger = Ipv4Addr::new(192, 0, 2, 7);
    let sent = world.give(&datagram(own, stranger, 5000, (OWN, 53), draft.as_bytes()));
    assert!(to_port(&sent, 53).is_empty() && to_port(&sent, 5000).is_empty());
    let client = Ipv4Addr::new(10, 0, 3, 100);
    let mut sent = world.give(&datagram(own, client, 5000, (OWN, 53), draft.as_bytes()));
    // The router's station is asked for first.
    let question = sent.iter().find(|frame| frame[12..14] == [8, 6] && frame[38..42] == ROUTER.octets());
    assert!(question.is_some(), "{sent:?}");
    let mut reply = [0; 28];
    reply[..8].copy_from_slice(&[0, 1, 8, 0, 6, 4, 0, 2]);
    reply[8..14].copy_from_slice(&PEER.0);
    reply[14..18].copy_from_slice(&ROUTER.octets());
    reply[18..24].copy_from_slice(&MAC);
    reply[24..].copy_from_slice(&OWN.octets());
    assert!(Arp::parse(&reply).is_ok());
    sent = world.give(&[&MAC[..], &PEER.0, &[8, 6], &reply].concat());
    let asked = to_port(&sent, 53);
    assert_eq!((asked.len(), &asked[0][..6], &asked[0][30..34]), (1, &PEER.0[..], &NAMES.octets()[..]), "{sent:?}");
    // Its answer comes back to the client, with the client's number.
    let mut answer = asked[0][42..].to_vec();
    let port = u16::from_be_bytes([asked[0][34], asked[0][35]]);
    answer[2] |= 0x80;
    answer[7] = 1;
    answer.extend([0xc0, 12, 0, 1, 0, 1, 0, 0, 0, 60, 0, 4, 192, 0, 2, 80]);
    let mut forged = answer.clone();
    forged[0] ^= 1;
    assert!(to_port(&world.give(&datagram(own, NAMES, 53, (OWN, port), &forged)), 5000).is_empty());
    let mut frames = world.give(&datagram(own, NAMES, 53, (OWN, port), &answer));
    // The client's station is asked for, if it is not known.
    reply[14..18].copy_from_slice(&client.octets());
    frames.extend(world.give(&[&MAC[..], &PEER.0, &[8, 6], &reply].concat()));
    let answers = to_port(&frames, 5000);
    assert_eq!((answers.len(), &answers[0][42..44]), (1, &[0, 7][..]), "{frames:?}");
    assert!(answers[0].ends_with(&[192, 0, 2, 80]));
}
