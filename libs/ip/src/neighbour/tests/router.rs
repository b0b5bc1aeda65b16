//! What a router advertises, and when.

use super::protocol::seal;
use super::{seconds, station};
use crate::ipv6::Ipv6;
use crate::neighbour::router::{Advertisement, Advertiser, LONGEST_ADVERTISEMENT, is_question};
use crate::neighbour::{LONGEST, Message, Prefix, RouterAdvertisement, RouterSolicitation};
use crate::{Instant, Malformed};
use core::net::Ipv6Addr;
use core::time::Duration;
use std::vec;
use std::vec::Vec;

const ROUTER: Ipv6Addr = Ipv6Addr::new(0xfe80, 0, 0, 0, 0, 0, 0, 1);
const HALF: u32 = 1 << 31;

fn server(number: u16) -> Ipv6Addr {
    Ipv6Addr::new(0x2001, 0xdb8, 0, 0, 0, 0, 0, number)
}

/// Has a host read what was written.
fn read(buffer: &[u8]) -> RouterAdvertisement<'_> {
    let packet = Ipv6::parse(buffer).expect("a packet");
    match Message::parse(&packet) {
        Ok(Message::RouterAdvertisement(told)) => told,
        other => panic!("{other:?}"),
    }
}

#[test]
fn hosts_read_what_a_router_announces() {
    let servers = [server(53), server(54), server(55), server(56)];
    let prefix = ("2001:db8:3::15".parse().expect("an address"), 64);
    let advertisement =
        Advertisement { source: ROUTER, link: station(1), is_default: true, mtu: 1400, prefix, name_servers: &servers };
    let mut buffer = [0; LONGEST_ADVERTISEMENT];
    assert_eq!(advertisement.write(&mut buffer), Some(LONGEST_ADVERTISEMENT));
    let told = read(&buffer);
    assert_eq!((told.source, told.hop_limit, told.lifetime), (ROUTER, Some(64), Duration::from_secs(1800)));
    assert_eq!((told.reachable, told.retransmit, told.link, told.mtu), (None, None, Some(station(1)), Some(1400)));
    let expected = Prefix {
        prefix: "2001:db8:3::".parse().expect("an address"),
        length: 64,
        is_on_link: true,
        is_autonomous: true,
        valid: Duration::from_secs(30 * 24 * 3600),
        preferred: Duration::from_secs(7 * 24 * 3600),
    };
    assert_eq!(told.prefixes().collect::<Vec<_>>(), [expected]);
    let half_an_hour = Duration::from_secs(1800);
    assert!(told.name_servers().eq([53, 54, 55].map(|number| (server(number), half_an_hour))));

    // Without a way to everywhere it is no router to that; without name servers it tells of none.
    let prefix = (prefix.0, 60);
    let advertisement = Advertisement { is_default: false, prefix, name_servers: &[], ..advertisement };
    let mut buffer = [0; LONGEST_ADVERTISEMENT];
    let length = advertisement.write(&mut buffer).expect("it fits");
    assert_eq!(advertisement.write(&mut buffer[..length - 1]), None);
    advertisement.write(&mut buffer);
    let told = read(&buffer[..length]);
    assert_eq!((told.lifetime, told.name_servers().count()), (Duration::ZERO, 0));
    let told: Vec<_> = told.prefixes().map(|prefix| (prefix.length, prefix.is_on_link, prefix.is_autonomous)).collect();
    assert_eq!(told, [(60, true, false)], "addresses are made of 64 bits");
}

/// RFC 4861 §6.1.1.
#[test]
fn questions_are_checked() {
    for source in [ROUTER, Ipv6Addr::UNSPECIFIED] {
        let mut buffer = [0; LONGEST];
        let length = RouterSolicitation { source, link: station(2) }.write(&mut buffer).expect("it fits");
        let packet = Ipv6::parse(&buffer[..length]).expect("a packet");
        assert_eq!(is_question(&packet), Ok(()));
        assert_eq!(is_question(&Ipv6 { hop_limit: 64, ..packet }), Err(Malformed::Distance));
        assert_eq!(is_question(&Ipv6 { next_header: 17, ..packet }), Err(Malformed::Version));
        assert_eq!(is_question(&Ipv6 { source: server(1), ..packet }), Err(Malformed::Checksum));
        // Its kind, its code, its end, an option without length, a station without an address.
        let changed = |change: fn(&mut Vec<u8>)| {
            let mut bytes = packet.payload.to_vec();
            change(&mut bytes);
            seal(&mut bytes, source, packet.destination);
            is_question(&Ipv6 { payload: &bytes, ..packet })
        };
        assert_eq!(changed(|bytes| bytes[0] = 135), Err(Malformed::Version));
        assert_eq!(changed(|bytes| bytes[1] = 1), Err(Malformed::Value));
        assert_eq!(changed(|bytes| bytes.truncate(7)), Err(Malformed::Short));
        assert_eq!(changed(|bytes| bytes.extend([1, 0, 2, 0, 0, 0, 0, 2])), Err(Malformed::Short));
        let with_station = changed(|bytes| bytes.extend([1, 1, 2, 0, 0, 0, 0, 2]));
        assert_eq!(with_station, if source == ROUTER { Ok(()) } else { Err(Malformed::Value) });
    }
}

/// RFC 4861 §6.2.4 and §6.2.6.
#[test]
fn advertisements_come_often_at_first_and_soon_when_somebody_asks() {
    let mut advertiser = Advertiser::new(seconds(0));
    let mut times = vec![];
    for _ in 0..5 {
        let due = advertiser.deadline();
        assert!(due.0 == 0 || !advertiser.poll(Instant(due.0 - 1), HALF));
        assert!(advertiser.poll(due, HALF));
        times.push(due);
    }
    assert_eq!(times, [0, 16, 32, 48, 448].map(seconds));
    // One who asks is answered within half a second, and again after three at the earliest.
    advertiser.asked(seconds(500), HALF);
    assert_eq!(advertiser.deadline(), Instant(500_250_000));
    assert!(advertiser.poll(Instant(500_250_000), HALF));
    for _ in 0..100 {
        advertiser.asked(seconds(501), HALF);
    }
    assert_eq!(advertiser.deadline(), Instant(503_500_000));
    // What is due before the answer would be is the answer.
    assert!(advertiser.poll(Instant(503_500_000), 0));
    let due = advertiser.deadline();
    advertiser.asked(Instant(due.0 - 1000), u32::MAX);
    assert_eq!(advertiser.deadline(), due);
}
