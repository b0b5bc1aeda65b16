//! Messages, and what is done about them.

use super::*;
use crate::ipv6::Ipv6;
use crate::neighbour::arp::{self, Arp, Operation};
use crate::neighbour::discovery::{self, Own, Response};
use crate::neighbour::{
    LONGEST, Message, NeighbourAdvertisement, NeighbourSolicitation, Prefix, Resolution, RouterAdvertisement,
    RouterSolicitation,
};
use crate::{ALL_NODES, ALL_ROUTERS, Malformed, solicited_node};
use core::net::Ipv6Addr;
use culm_packet::checksum::Sum;
use proptest::prelude::*;
use std::vec;

const OWN: Ipv4Addr = Ipv4Addr::new(10, 0, 0, 77);
const PEER: Ipv4Addr = Ipv4Addr::new(10, 0, 0, 1);
const OWN_6: Ipv6Addr = Ipv6Addr::new(0xfe80, 0, 0, 0, 0, 0, 0, 0x77);
const PEER_6: Ipv6Addr = Ipv6Addr::new(0xfe80, 0, 0, 0, 0, 0, 0, 1);

/// The message of a packet with this ICMP message, whose checksum is filled in.
fn parse<'a>(bytes: &'a mut Vec<u8>, source: Ipv6Addr, destination: Ipv6Addr) -> Result<Message<'a>, Malformed> {
    seal(bytes, source, destination);
    Message::parse(&Ipv6 { source, destination, next_header: 58, hop_limit: 255, payload: bytes })
}

/// Gives an ICMP message its checksum.
pub(super) fn seal(bytes: &mut [u8], source: Ipv6Addr, destination: Ipv6Addr) {
    bytes[2..4].fill(0);
    let sum = Sum::pseudo_header(source, destination, 58, bytes.len()).add_bytes(bytes).checksum();
    bytes[2..4].copy_from_slice(&sum.to_be_bytes());
}

fn solicitation(target: Ipv6Addr, options: &[u8]) -> Vec<u8> {
    [&[135, 0, 0, 0, 0, 0, 0, 0], &target.octets()[..], options].concat()
}

fn advertisement(flags: u8, target: Ipv6Addr, options: &[u8]) -> Vec<u8> {
    [&[136, 0, 0, 0, flags << 5, 0, 0, 0], &target.octets()[..], options].concat()
}

#[test]
fn arp_messages_are_those_of_the_standard() {
    let request = Arp::request(station(7), OWN, PEER);
    let bytes =
        [&[0, 1, 8, 0, 6, 4, 0, 1][..], &[2, 0, 0, 0, 0, 7, 10, 0, 0, 77], &[0, 0, 0, 0, 0, 0, 10, 0, 0, 1]].concat();
    assert_eq!(request.bytes()[..], bytes);
    assert_eq!(Arp::parse(&bytes), Ok(request));
    assert_eq!(Arp::parse(&bytes[..27]), Err(Malformed::Short));
    for (place, value, problem) in [
        (1, 6, Malformed::Version),
        (3, 1, Malformed::Version),
        (4, 8, Malformed::Version),
        (7, 3, Malformed::Version),
        (8, 1, Malformed::Value),
        (14, 224, Malformed::Value),
        (14, 127, Malformed::Value),
    ] {
        let mut bytes = bytes.clone();
        bytes[place] = value;
        assert_eq!(Arp::parse(&bytes), Err(problem), "{place}");
    }
}

#[test]
fn a_request_is_answered_and_its_sender_learnt() {
    let mut places = entries(16);
    let mut cache = Cache::new(&mut places, key(1));
    let request = Arp::request(station(1), PEER, OWN);
    let reply = request.receive(&mut cache, station(7), Some(OWN), seconds(0)).expect("an answer");
    assert_eq!(reply.operation, Operation::Reply);
    assert_eq!((reply.sender, reply.sender_link, reply.target, reply.target_link), (OWN, station(7), PEER, station(1)));
    assert!(matches!(cache.resolve(PEER.into(), 0, seconds(0)), Resolution::Known(..)));
    let foreign = Arp::request(station(2), Ipv4Addr::new(10, 0, 0, 2), PEER);
    assert_eq!(foreign.receive(&mut cache, station(7), Some(OWN), seconds(0)), None);
    assert_eq!(cache.resolve(foreign.sender.into(), 0, seconds(0)), Resolution::Waiting(None));
    assert_eq!(request.receive(&mut cache, station(7), None, seconds(0)), None, "nobody asks a host without address");
}

#[test]
fn a_reply_that_was_asked_for_is_taken() {
    let mut places = entries(16);
    let mut cache = Cache::new(&mut places, key(1));
    cache.resolve(PEER.into(), 5, seconds(0));
    assert_eq!(due(&mut cache, seconds(0)), [Action::Ask { address: PEER.into(), to: None }]);
    let reply = Arp::request(station(7), OWN, PEER).reply(station(1));
    assert_eq!(reply.receive(&mut cache, station(7), Some(OWN), seconds(0)), None);
    assert_eq!(due(&mut cache, seconds(0)), [Action::Send { packet: 5, to: station(1) }]);
}

#[test]
fn a_station_that_takes_an_address_over_is_followed() {
    let mut places = entries(16);
    let mut cache = Cache::new(&mut places, key(1));
    let request = Arp::request(station(1), PEER, OWN);
    request.receive(&mut cache, station(7), Some(OWN), seconds(0));
    Arp::announcement(station(2), PEER).receive(&mut cache, station(7), Some(OWN), seconds(1));
    let resolution = cache.resolve(PEER.into(), 0, seconds(1));
    assert!(matches!(resolution, Resolution::Known(_, link, _) if link == station(2)), "{resolution:?}");
}

#[test]
fn conflicts_are_what_another_station_says_of_ones_address() {
    let (own, other) = (station(7), station(1));
    assert!(Arp::announcement(other, OWN).conflicts(own, OWN, false));
    assert!(!Arp::announcement(own, OWN).conflicts(own, OWN, true), "one's own, which the link gives back");
    assert!(Arp::probe(other, OWN).conflicts(own, OWN, true));
    assert!(!Arp::probe(other, OWN).conflicts(own, OWN, false), "it is answered");
    assert!(!Arp::request(other, PEER, OWN).conflicts(own, OWN, true));
    let mut places = entries(16);
    let mut cache = Cache::new(&mut places, key(1));
    Arp::announcement(other, OWN).receive(&mut cache, own, Some(OWN), seconds(0));
    assert_eq!(cache.resolve(OWN.into(), 0, seconds(0)), Resolution::Waiting(None), "one's own is not learnt");
    let probe = Arp::probe(other, OWN).receive(&mut cache, own, Some(OWN), seconds(0)).expect("an answer");
    assert_eq!((probe.target, probe.target_link), (Ipv4Addr::UNSPECIFIED, other));
}

#[test]
fn messages_of_discovery_have_to_come_from_the_link() {
    let bytes = solicitation(OWN_6, &[]);
    let packet = Ipv6 { source: PEER_6, destination: OWN_6, next_header: 58, hop_limit: 254, payload: &bytes };
    assert_eq!(Message::parse(&packet), Err(Malformed::Distance));
    assert_eq!(Message::parse(&Ipv6 { hop_limit: 255, ..packet }), Err(Malformed::Checksum));
    assert_eq!(Message::parse(&Ipv6 { next_header: 17, ..packet }), Err(Malformed::Version));
    let mut redirect = vec![137, 0, 0, 0];
    assert_eq!(parse(&mut redirect, PEER_6, OWN_6), Err(Malformed::Version), "redirects are not followed");
}

/// RFC 4861 §7.1.1.
#[test]
fn questions_are_checked() {
    let link = [1, 1, 2, 0, 0, 0, 0, 1];
    let group = solicited_node(OWN_6);
    let nobody = Ipv6Addr::UNSPECIFIED;
    let kind = |mut bytes: Vec<u8>, source, destination| parse(&mut bytes, source, destination).err();
    assert_eq!(kind(solicitation(OWN_6, &link), PEER_6, group), None);
    assert_eq!(kind(solicitation(OWN_6, &[]), PEER_6, OWN_6), None);
    assert_eq!(kind(solicitation(OWN_6, &[]), nobody, group), None);
    assert_eq!(kind(solicitation(OWN_6, &link), nobody, group), Some(Malformed::Value));
    assert_eq!(kind(solicitation(OWN_6, &[]), nobody, OWN_6), Some(Malformed::Value));
    assert_eq!(kind(solicitation(ALL_NODES, &[]), PEER_6, OWN_6), Some(Malformed::Value));
    assert_eq!(kind(solicitation(OWN_6, &[1, 0, 0, 0, 0, 0, 0, 0]), PEER_6, group), Some(Malformed::Short));
    assert_eq!(kind(solicitation(OWN_6, &link[..7]), PEER_6, group), Some(Malformed::Short));
    assert_eq!(kind(solicitation(OWN_6, &[1, 1, 3, 0, 0, 0, 0, 1]), PEER_6, group), Some(Malformed::Value));
    assert_eq!(
        kind(solicitation(OWN_6, &[99, 1, 3, 0, 0, 0, 0, 1]), PEER_6, group),
        None,
        "unknown ones are passed over"
    );
    assert_eq!(kind(vec![135, 0, 0, 0, 0, 0, 0, 0, 1], PEER_6, group), Some(Malformed::Short));
    let mut code = solicitation(OWN_6, &[]);
    code[1] = 1;
    assert_eq!(kind(code, PEER_6, group), Some(Malformed::Value));
}

/// RFC 4861 §7.1.2.
#[test]
fn answers_are_checked() {
    let kind = |mut bytes: Vec<u8>, destination| parse(&mut bytes, PEER_6, destination).err();
    assert_eq!(kind(advertisement(0b011, PEER_6, &[]), OWN_6), None);
    assert_eq!(kind(advertisement(0b010, PEER_6, &[]), ALL_NODES), Some(Malformed::Value));
    assert_eq!(kind(advertisement(0b001, PEER_6, &[]), ALL_NODES), None);
    assert_eq!(kind(advertisement(0, ALL_NODES, &[]), OWN_6), Some(Malformed::Value));
}

#[test]
fn a_router_tells_all_its_prefixes() {
    let prefix = |number: u8, length: u8| {
        let mut option = vec![3, 4, length, 0xc0, 0, 0, 1, 0, 0xff, 0xff, 0xff, 0xff, 0, 0, 0, 0];
        option.extend(Ipv6Addr::new(0x2001, 0xdb8, number.into(), 0, 0, 0, 0, 0).octets());
        option
    };
    let head = vec![134, 0, 0, 0, 64, 0, 0x07, 0x08, 0, 0, 0, 0, 0, 0, 0x03, 0xe8];
    let others = vec![1, 1, 2, 0, 0, 0, 0, 9, 5, 1, 0, 0, 0, 0, 5, 0];
    let servers = |units: u8, lifetime: u32, numbers: &[u8]| {
        let mut option = vec![25, units, 0, 0];
        option.extend(lifetime.to_be_bytes());
        option.extend(numbers.iter().flat_map(|number| [&[0x20, 1, 0xd, 0xb8][..], &[0; 11], &[*number]].concat()));
        option.resize(usize::from(units) * 8, 0xff);
        option
    };
    let named = [servers(5, 600, &[1, 2]), servers(4, 600, &[3]), servers(1, 600, &[]), servers(3, u32::MAX, &[4])];
    let mut bytes = [head, prefix(1, 64), others, prefix(2, 129), named.concat(), prefix(3, 128)].concat();
    let Ok(Message::RouterAdvertisement(told)) = parse(&mut bytes, PEER_6, ALL_NODES) else { panic!("it is one") };
    let RouterAdvertisement { source, hop_limit, lifetime, reachable, retransmit, link, mtu, .. } = told;
    assert_eq!((source, hop_limit, lifetime), (PEER_6, Some(64), Duration::from_secs(1800)));
    assert_eq!((reachable, retransmit), (None, Some(Duration::from_secs(1))));
    assert_eq!((link, mtu), (Some(station(9)), Some(1280)));
    let prefixes: Vec<Prefix> = told.prefixes().collect();
    assert_eq!(prefixes.len(), 2, "an address has no 129 bits");
    assert_eq!(prefixes[0].prefix, "2001:db8:1::".parse::<Ipv6Addr>().expect("an address"));
    assert_eq!((prefixes[0].valid, prefixes[0].preferred), (Duration::from_secs(256), Duration::MAX));
    assert!(prefixes[0].is_on_link && prefixes[0].is_autonomous && prefixes[1].length == 128);
    let server = |number: u16| Ipv6Addr::new(0x2001, 0xdb8, 0, 0, 0, 0, 0, number);
    let ten_minutes = Duration::from_secs(600);
    let named = [(server(1), ten_minutes), (server(2), ten_minutes), (server(4), Duration::MAX)];
    assert!(told.name_servers().eq(named), "no option has half an address, or none");
    let far = Ipv6Addr::new(0x2001, 0xdb8, 0, 0, 0, 0, 0, 1);
    assert_eq!(parse(&mut bytes, far, ALL_NODES), Err(Malformed::Value), "routers speak by link-local addresses");
}

#[test]
fn a_question_for_an_own_address_is_answered() {
    let mut places = entries(16);
    let mut cache = Cache::new(&mut places, key(1));
    let own = |address| if address == OWN_6 { Own::Yes } else { Own::No };
    let question = discovery::question(PEER_6, station(1), OWN_6, None);
    assert_eq!(discovery::station(question.destination, None), Some(LinkAddress([0x33, 0x33, 0xff, 0, 0, 0x77])));
    let Response::Answer(answer) = discovery::solicited(&mut cache, &question, own, station(7), seconds(0)) else {
        panic!("an answer")
    };
    assert_eq!((answer.source, answer.destination, answer.target), (OWN_6, PEER_6, OWN_6));
    assert!(answer.is_solicited && answer.overrides && !answer.is_router && answer.link == Some(station(7)));
    assert!(matches!(cache.resolve(PEER_6.into(), 0, seconds(0)), Resolution::Known(..)));
    let probe = discovery::probe(OWN_6);
    let Response::Answer(answer) = discovery::solicited(&mut cache, &probe, own, station(7), seconds(0)) else {
        panic!("an answer")
    };
    assert_eq!((answer.destination, answer.is_solicited), (ALL_NODES, false));
    let other = discovery::question(PEER_6, station(1), PEER_6, None);
    assert_eq!(discovery::solicited(&mut cache, &other, own, station(7), seconds(0)), Response::Nothing);
}

/// RFC 4862 §5.4.3 and §5.4.4.
#[test]
fn a_tentative_address_is_not_answered_for() {
    let mut places = entries(16);
    let mut cache = Cache::new(&mut places, key(1));
    let own = |address| if address == OWN_6 { Own::Tentative } else { Own::No };
    let mut solicited = |question| discovery::solicited(&mut cache, &question, own, station(7), seconds(0));
    assert_eq!(solicited(discovery::question(PEER_6, station(1), OWN_6, None)), Response::Nothing);
    assert_eq!(solicited(discovery::probe(OWN_6)), Response::Conflict(OWN_6));
    let told = NeighbourAdvertisement {
        source: PEER_6,
        destination: ALL_NODES,
        target: OWN_6,
        link: Some(station(1)),
        is_router: false,
        is_solicited: false,
        overrides: true,
    };
    assert_eq!(discovery::advertised(&mut cache, &told, own, seconds(0)), Response::Conflict(OWN_6));
}

#[test]
fn a_neighbour_is_found_by_discovery() {
    let mut places = entries(16);
    let mut cache = Cache::new(&mut places, key(1));
    cache.resolve(PEER_6.into(), 5, seconds(0));
    assert_eq!(due(&mut cache, seconds(0)), [Action::Ask { address: PEER_6.into(), to: None }]);
    let question = discovery::question(OWN_6, station(7), PEER_6, None);
    // The neighbour is another host of the same kind.
    let mut foreign_places = entries(16);
    let mut foreign = Cache::new(&mut foreign_places, key(2));
    let theirs = |address| if address == PEER_6 { Own::Yes } else { Own::No };
    let response = discovery::solicited(&mut foreign, &question, theirs, station(1), seconds(0));
    let Response::Answer(mut answer) = response else { panic!("an answer") };
    answer.is_router = true;
    let none = |_| Own::No;
    assert_eq!(discovery::advertised(&mut cache, &answer, none, seconds(0)), Response::Nothing);
    assert_eq!(due(&mut cache, seconds(0)), [Action::Send { packet: 5, to: station(1) }]);
    answer.is_router = false;
    assert_eq!(discovery::advertised(&mut cache, &answer, none, seconds(1)), Response::NoRouter(PEER_6));
}

fn address() -> impl Strategy<Value = Ipv6Addr> {
    any::<[u8; 15]>().prop_map(|rest| {
        let mut octets = [0x20; 16];
        octets[1..].copy_from_slice(&rest);
        octets.into()
    })
}

proptest! {
    #[test]
    fn written_messages_are_read(
        source in address(), target in address(), number: u8, has_link: bool, flags in any::<[bool; 3]>(),
    ) {
        let link = has_link.then_some(station(number));
        let mut buffer = [0; LONGEST];
        let question = NeighbourSolicitation { source, destination: solicited_node(target), target, link };
        let length = question.write(&mut buffer).expect("fits");
        let packet = Ipv6::parse(&buffer[..length]).expect("a packet");
        prop_assert_eq!(Message::parse(&packet), Ok(Message::NeighbourSolicitation(question)));
        let [is_router, is_solicited, overrides] = flags;
        let answer = NeighbourAdvertisement { source, destination: source, target, link, is_router, is_solicited, overrides };
        let length = answer.write(&mut buffer).expect("fits");
        let packet = Ipv6::parse(&buffer[..length]).expect("a packet");
        prop_assert_eq!(Message::parse(&packet), Ok(Message::NeighbourAdvertisement(answer)));
        prop_assert_eq!(answer.write(&mut buffer[..length - 1]), None);
    }

    #[test]
    fn arp_messages_that_are_read_are_written_the_same(bytes in any::<[u8; 20]>(), is_reply: bool) {
        let all = [&[0, 1, 8, 0, 6, 4, 0, 1 + u8::from(is_reply)], &bytes[..]].concat();
        if let Ok(message) = Arp::parse(&all) {
            prop_assert_eq!(&message.bytes()[..], &all[..arp::LENGTH]);
        }
    }
}

#[test]
fn a_question_for_routers_goes_to_all_of_them() {
    let mut buffer = [0; LONGEST];
    for (source, length) in [(OWN_6, 16), (Ipv6Addr::UNSPECIFIED, 8)] {
        let written = RouterSolicitation { source, link: station(7) }.write(&mut buffer).expect("fits");
        let packet = Ipv6::parse(&buffer[..written]).expect("a packet");
        assert_eq!((packet.destination, packet.hop_limit, packet.payload.len()), (ALL_ROUTERS, 255, length));
        assert_eq!(packet.payload[0], 133);
        assert!(Sum::pseudo_header(source, ALL_ROUTERS, 58, length).add_bytes(packet.payload).is_intact());
    }
}
