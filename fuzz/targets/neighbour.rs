//! Neighbours that say anything.
//!
//! The input is a host's day on a link: packets that it wants to send, time that passes, and what
//! is received: ARP's messages and those of neighbour discovery, bytes of the input with checksums
//! that are right, routers' among them. Whatever comes, each packet has one end, and the host comes
//! to rest.

#![no_main]

#[path = "../common/input.rs"]
mod input;

use culm_ip::ipv6::Ipv6;
use culm_ip::neighbour::arp::Arp;
use culm_ip::neighbour::discovery::{self, Own, Response};
use culm_ip::neighbour::{Action, Cache, Entry, LONGEST, Message, Resolution};
use culm_ip::routers::{PREFIXES, Routers};
use culm_ip::{Instant, Key, LinkAddress, solicited_node};
use input::Input;
use libfuzzer_sys::fuzz_target;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::time::Duration;

const LINK: LinkAddress = LinkAddress([2, 0, 0, 0, 0, 7]);
const OWN: Ipv4Addr = Ipv4Addr::new(10, 0, 0, 7);
const OWN_6: Ipv6Addr = Ipv6Addr::new(0xfe80, 0, 0, 0, 0, 0, 0, 7);

type Neighbours<'a> = Cache<'a, u32, 3>;

/// A packet with the input's ICMP message, of the length that the input says, and its checksum.
fn discovery_packet(input: &mut Input<'_>) -> Vec<u8> {
    let mut source = Ipv6Addr::new(0xfe80, 0, 0, 0, 0, 0, 0, input.byte().into());
    if source == Ipv6Addr::new(0xfe80, 0, 0, 0, 0, 0, 0, 0) {
        source = Ipv6Addr::UNSPECIFIED;
    }
    let destination = if input.byte() & 1 == 0 { OWN_6 } else { solicited_node(OWN_6) };
    let count = usize::from(input.byte());
    let mut message = [&[133 + input.byte() % 5, 0, 0, 0], input.bytes(count)].concat();
    let halves = message.chunks(2).map(|half| u32::from(half[0]) << 8 | u32::from(*half.get(1).unwrap_or(&0)));
    let addresses = [source.segments(), destination.segments()].concat().into_iter().map(u32::from);
    let mut sum = halves.chain(addresses).sum::<u32>() + 58 + message.len() as u32;
    while sum > 0xffff {
        sum = (sum & 0xffff) + (sum >> 16);
    }
    message[2..4].copy_from_slice(&(!(sum as u16)).to_be_bytes());
    let mut buffer = vec![0; 40 + message.len()];
    let packet = Ipv6 { source, destination, next_header: 58, hop_limit: 255, payload: &message };
    assert_eq!(packet.write(&mut buffer), Some(buffer.len()));
    buffer
}

/// Has the host take a message of neighbour discovery.
fn discover(cache: &mut Neighbours<'_>, routers: &mut Routers, input: &mut Input<'_>, now: Instant) {
    let bytes = discovery_packet(input);
    let packet = Ipv6::parse(&bytes).expect("it was written");
    let own = |address| if address == OWN_6 { Own::Yes } else { Own::No };
    let response = match Message::parse(&packet) {
        Ok(Message::NeighbourSolicitation(question)) => discovery::solicited(cache, &question, own, LINK, now),
        Ok(Message::NeighbourAdvertisement(told)) => discovery::advertised(cache, &told, own, now),
        Ok(Message::RouterAdvertisement(told)) => {
            assert!(told.prefixes().all(|prefix| prefix.length <= 128));
            routers.advertised(&told, now);
            let steps = (0..100).take_while(|_| routers.poll(now, 0).is_some()).count();
            assert!(steps <= 2 * PREFIXES + 1 && routers.deadline() > now && (1280..=1500).contains(&routers.mtu()));
            Response::Nothing
        }
        Err(problem) => {
            assert_ne!(format!("{problem:?}"), "Checksum");
            Response::Nothing
        }
    };
    if let Response::Answer(answer) = response {
        let mut buffer = [0; LONGEST];
        let length = answer.write(&mut buffer).expect("it fits");
        let packet = Ipv6::parse(&buffer[..length]).expect("it was written");
        assert_eq!(Message::parse(&packet), Ok(Message::NeighbourAdvertisement(answer)));
    }
}

/// Does all that is due; returns how many packets have found their end.
fn work(cache: &mut Neighbours<'_>, now: Instant) -> usize {
    let mut ended = 0;
    for _ in 0..1000 {
        match cache.poll(now) {
            Some(Action::Send { .. } | Action::Unreachable { .. }) => ended += 1,
            Some(Action::Ask { .. } | Action::Gone { .. }) => {}
            None => return ended,
        }
    }
    panic!("there is no end to it");
}

fuzz_target!(|bytes: &[u8]| {
    let mut input = Input::new(bytes);
    let mut entries: Vec<Entry<u32, 3>> = (0..1 + input.byte() % 32).map(|_| Entry::default()).collect();
    let mut cache = Cache::new(&mut entries, Key([1, 3, 5, 7, u64::from(input.byte())]));
    let (mut now, mut waiting) = (Instant::default(), 0);
    let mut routers = Routers::new(LINK, 1500, now, 0);
    while !input.is_over() {
        let what = input.byte();
        match what % 5 {
            0 => {
                let address = match what & 8 {
                    0 => IpAddr::from(Ipv4Addr::new(10, 0, 0, input.byte())),
                    _ => Ipv6Addr::new(0xfe80, 0, 0, 0, 0, 0, 0, input.byte().into()).into(),
                };
                match cache.resolve(address, 1, now) {
                    Resolution::Waiting(None) => waiting += 1,
                    Resolution::Known(_, link, place) => {
                        assert!(link.is_station());
                        cache.confirm(place, now);
                        assert_eq!(cache.at(place, now), Some(link));
                    }
                    Resolution::Waiting(Some(_)) | Resolution::Refused(_) => {}
                }
            }
            1 => now = now + Duration::from_millis(u64::from(input.byte()) * 50),
            2 => waiting -= work(&mut cache, now),
            3 => {
                let mut message = Arp::request(LINK, OWN, OWN).bytes();
                message[7] = 1 + (what >> 7);
                message[8..].iter_mut().zip(input.bytes(20)).for_each(|(place, byte)| *place ^= byte);
                if let Ok(message) = Arp::parse(&message)
                    && let Some(reply) = message.receive(&mut cache, LINK, Some(OWN), now)
                {
                    assert_eq!(Arp::parse(&reply.bytes()), Ok(reply));
                }
            }
            _ => discover(&mut cache, &mut routers, &mut input, now),
        }
    }
    for _ in 0..20 {
        waiting -= work(&mut cache, now);
        assert!(cache.deadline() > now);
        if cache.deadline() == Instant::NEVER {
            break;
        }
        now = cache.deadline();
    }
    assert_eq!((cache.deadline(), waiting), (Instant::NEVER, 0), "the host comes to rest, and nothing waits");
});
