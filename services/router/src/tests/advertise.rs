//! Advertisements of the router, as hosts of its networks get them.

use super::{INNER, OUTER, Sent, World, address, frame, link, neighbour};
use culm_ip::ipv6::Ipv6;
use culm_ip::neighbour::{LONGEST, Message, RouterSolicitation};
use culm_ip::{Instant, LinkAddress};
use culm_net::{ETHERNET_HEADER, PacketHeader};
use std::net::{IpAddr, Ipv6Addr};
use std::vec::Vec;

/// Returns the networks over which advertisements have gone, with the prefixes that they tell of.
fn told(sent: Sent) -> Vec<(usize, Vec<Ipv6Addr>)> {
    let read = |(network, bytes): (usize, Vec<u8>)| {
        let packet = Ipv6::parse(&bytes[ETHERNET_HEADER..]).expect("a packet");
        let Ok(Message::RouterAdvertisement(told)) = Message::parse(&packet) else { panic!("{packet:?}") };
        assert_eq!(bytes[..12], [&[0x33, 0x33, 0, 0, 0, 1], &link(network).0[..]].concat());
        assert_eq!((told.link, told.mtu), (Some(link(network)), Some(1500)));
        assert_eq!(told.lifetime.as_secs(), 1800, "there is a router to everywhere");
        assert!(told.name_servers().map(|(server, _)| IpAddr::from(server)).eq([address("2001:db8::53")]));
        (network, told.prefixes().map(|prefix| prefix.prefix).collect())
    };
    sent.0.into_iter().map(read).collect()
}

/// Has the router do what is due at a time.
fn due(world: &mut World, now: Instant) -> Vec<(usize, Vec<Ipv6Addr>)> {
    let mut sent = Sent::default();
    world.router.begin(now, &mut sent);
    told(sent)
}

/// A host asks for routers.
fn ask(world: &mut World, network: usize, source: &str) {
    let source = source.parse().expect("an address");
    let mut packet = [0; LONGEST];
    let question = RouterSolicitation { source, link: neighbour(network) };
    let length = question.write(&mut packet).expect("it fits");
    let all = LinkAddress([0x33, 0x33, 0, 0, 0, 2]);
    let mut sent = Sent::default();
    let bytes = frame(all, neighbour(network), &packet[..length]);
    world.router.take_with(network, PacketHeader::default(), &bytes, &mut sent);
    assert!(sent.0.is_empty(), "nobody is answered at once");
}

#[test]
fn the_router_advertises_itself_where_it_is_to() {
    let mut world = World::new();
    let start = world.now;
    let prefix = [(INNER, [Ipv6Addr::new(0x2001, 0xdb8, 1, 0, 0, 0, 0, 0)].to_vec())];
    assert_eq!((due(&mut world, start), world.router.deadline()), ([].to_vec(), Instant::NEVER));
    ask(&mut world, INNER, "fe80::9");
    assert_eq!(world.router.deadline(), Instant::NEVER, "it is to advertise itself nowhere");

    world.router.advertise([INNER, 7].into_iter(), [Ipv6Addr::new(0x2001, 0xdb8, 0, 0, 0, 0, 0, 0x53)].to_vec());
    assert_eq!(due(&mut world, start), prefix);
    let second = world.router.deadline();
    assert_eq!(second, Instant(start.0 + 16_000_000));
    // Who asks is answered soon; who asks on another network is not.
    let now = Instant(start.0 + 5_000_000);
    assert_eq!(due(&mut world, now), []);
    ask(&mut world, OUTER, "fe80::9");
    assert_eq!(world.router.deadline(), second);
    for source in ["::", "fe80::9"] {
        ask(&mut world, INNER, source);
    }
    let answer = world.router.deadline();
    assert!(answer >= now && answer < Instant(now.0 + 500_000), "{answer:?}");
    assert_eq!(due(&mut world, answer), prefix);
    assert_eq!(due(&mut world, answer), []);
}
