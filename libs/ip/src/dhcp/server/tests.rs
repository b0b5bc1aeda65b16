//! The server, with this crate's client and with clients that break the rules.

use super::*;
use crate::dhcp::{self, Kind, Request};
use proptest::prelude::*;
use std::collections::BTreeMap;
use std::vec;
use std::vec::Vec;

const OWN: Ipv4Addr = Ipv4Addr::new(10, 0, 3, 2);
const ROUTER: Ipv4Addr = Ipv4Addr::new(10, 0, 3, 1);
const NOW: Instant = Instant(1_000_000);

fn address(last: u8) -> Ipv4Addr {
    Ipv4Addr::new(10, 0, 3, last)
}

fn station(last: u8) -> LinkAddress {
    LinkAddress([2, 0, 0, 0, 0, last])
}

fn settings(first: u8, last: u8) -> Settings {
    let (first, last) = (address(first), address(last));
    let own = Cidr::new(OWN, 24).expect("24 of 32");
    Settings { own, first, last, router: Some(ROUTER), name_server: Some(OWN), lease: 600 }
}

fn server(first: u8, last: u8) -> Server<'static> {
    let places = vec![Place::default(); usize::from(last - first) + 1].leak();
    Server::new(settings(first, last), [(station(99), address(50)), (station(98), address(101))], places)
        .expect("usable")
}

fn request(kind: Kind, from: u8, wanted: Option<Ipv4Addr>, server: Option<Ipv4Addr>) -> Request {
    Request { kind, transaction: 7, seconds: 0, link: station(from), own: Ipv4Addr::UNSPECIFIED, wanted, server }
}

/// Gives the server a message; returns whom the answer is for, and what it says.
fn ask(server: &mut Server<'_>, request: Request, now: Instant) -> Option<(Answer, dhcp::Answer)> {
    let (mut message, mut buffer) = ([0; dhcp::LONGEST], [0; LONGEST_ANSWER]);
    request.write(&mut message).expect("it fits");
    let answer = server.receive(&message, now, &mut buffer)?;
    let read = dhcp::Answer::parse(&buffer[..answer.length]).expect("the client reads it");
    assert_eq!((read.transaction, read.link, read.server), (7, request.link, OWN));
    Some((answer, read))
}

/// A client's whole way to an address.
fn lease(server: &mut Server<'_>, from: u8, now: Instant) -> Option<Ipv4Addr> {
    let (_, offer) = ask(server, request(Kind::Discover, from, None, None), now)?;
    let (_, ack) = ask(server, request(Kind::Request, from, Some(offer.address), Some(OWN)), now)?;
    assert_eq!(ack.kind, Kind::Ack);
    Some(ack.address)
}

#[test]
fn a_client_gets_an_address_with_all_that_belongs_to_it() {
    let mut server = server(100, 110);
    let (to, offer) = ask(&mut server, request(Kind::Discover, 1, None, None), NOW).expect("an offer");
    assert_eq!((to.link, to.address, offer.kind), (station(1), address(100), Kind::Offer));
    let (_, ack) = ask(&mut server, request(Kind::Request, 1, Some(address(100)), Some(OWN)), NOW).expect("a grant");
    let lease = ack.lease.expect("a lease");
    assert_eq!((lease.address.address(), lease.address.length(), lease.router), (address(100), 24, Some(ROUTER)));
    assert_eq!((lease.name_servers[0], lease.duration), (Some(OWN), Duration::from_secs(600)));
    let renewal = Request { own: address(100), ..request(Kind::Request, 1, None, None) };
    let (to, ack) = ask(&mut server, renewal, NOW).expect("an answer");
    assert_eq!((to.link, to.address, ack.kind), (station(1), address(100), Kind::Ack));
    assert_eq!((server.leased(NOW), server.leased(NOW + Duration::from_secs(600))), (1, 0));
}

#[test]
fn what_was_offered_is_nobody_elses_for_a_while() {
    let mut server = server(102, 103);
    let offer = |server: &mut Server<'_>, from, now| {
        ask(server, request(Kind::Discover, from, None, None), now).map(|(_, offer)| offer.address)
    };
    assert_eq!(offer(&mut server, 1, NOW), Some(address(102)));
    assert_eq!(offer(&mut server, 2, NOW), Some(address(103)));
    assert_eq!(offer(&mut server, 3, NOW), None);
    assert_eq!(offer(&mut server, 1, NOW), Some(address(102)), "the same again");
    let other = Some(Ipv4Addr::new(10, 0, 3, 77));
    assert!(ask(&mut server, request(Kind::Request, 2, Some(address(9)), other), NOW).is_none(), "another server's");
    assert_eq!(offer(&mut server, 3, NOW), Some(address(103)));
    assert_eq!(offer(&mut server, 4, NOW + OFFER), Some(address(102)));
    assert_eq!(server.take_tally().exhausted, 1);
}

#[test]
fn a_client_that_looks_for_a_server_keeps_its_lease() {
    let mut server = server(102, 103);
    assert_eq!(lease(&mut server, 1, NOW), Some(address(102)));
    assert!(ask(&mut server, request(Kind::Discover, 1, None, None), NOW).is_some());
    assert_eq!(server.leased(NOW + OFFER), 1);
}

#[test]
fn what_nobody_may_have_is_refused_to_all() {
    let mut server = server(100, 110);
    assert_eq!(lease(&mut server, 1, NOW), Some(address(100)));
    for wanted in [address(100), address(101), address(111), address(2), address(50), Ipv4Addr::new(192, 0, 2, 1)] {
        for chosen in [Some(OWN), None] {
            let asked = request(Kind::Request, 2, Some(wanted), chosen);
            let (to, answer) = ask(&mut server, asked, NOW).expect("a refusal");
            assert_eq!((to.link, to.address, answer.kind), (LinkAddress::BROADCAST, Ipv4Addr::BROADCAST, Kind::Nak));
        }
    }
    let (_, answer) = ask(&mut server, request(Kind::Request, 3, Some(address(105)), None), NOW).expect("an answer");
    assert_eq!(answer.kind, Kind::Ack, "of a server that was started anew");
}

#[test]
fn reserved_addresses_are_for_their_stations_only() {
    let mut server = server(100, 102);
    assert_eq!(lease(&mut server, 99, NOW), Some(address(50)));
    assert_eq!(lease(&mut server, 98, NOW), Some(address(101)));
    let got: Vec<_> = (1..4).map(|from| lease(&mut server, from, NOW)).collect();
    assert_eq!(got, [Some(address(100)), Some(address(102)), None]);
}

#[test]
fn declined_addresses_rest_and_released_ones_come_back() {
    let mut server = server(102, 103);
    assert_eq!(lease(&mut server, 1, NOW), Some(address(102)));
    let stranger = request(Kind::Decline, 2, Some(address(102)), Some(OWN));
    assert!(ask(&mut server, stranger, NOW).is_none());
    assert_eq!(server.leased(NOW), 1, "only who has it can decline it");
    assert!(ask(&mut server, request(Kind::Decline, 1, Some(address(102)), Some(OWN)), NOW).is_none());
    assert_eq!(lease(&mut server, 1, NOW), Some(address(103)));
    assert_eq!(lease(&mut server, 2, NOW), None);
    assert_eq!(lease(&mut server, 2, NOW + DECLINED), Some(address(102)));
}

#[test]
fn a_client_gets_what_it_had_and_others_what_was_unused_for_longest() {
    let mut server = server(102, 104);
    let second = |count| NOW + Duration::from_secs(count);
    for from in 1..4 {
        assert_eq!(lease(&mut server, from, second(from.into())), Some(address(101 + from)));
    }
    assert_eq!(lease(&mut server, 2, second(2000)), Some(address(103)));
    assert_eq!(lease(&mut server, 9, second(2000)), Some(address(102)));
}

/// An answer goes to the address that a client says to have (RFC 2131 §4.1), which would be
/// anybody's if the station that it names passed it on.
#[test]
fn no_answer_goes_to_another_network() {
    let mut server = server(100, 110);
    let mut buffer = [0; LONGEST_ANSWER];
    let own = [address(77), address(255), address(0), Ipv4Addr::new(192, 0, 2, 1), Ipv4Addr::new(224, 0, 0, 1)];
    for (own, is_of_network) in own.into_iter().zip([true, false, false, false, false]) {
        let discover = Request { own, ..request(Kind::Discover, 1, None, None) };
        let (to, offer) = ask(&mut server, discover, NOW).expect("an offer");
        assert_eq!((to.link, to.address), (station(1), if is_of_network { own } else { offer.address }));
        let mut inform = [0; dhcp::LONGEST];
        discover.write(&mut inform).expect("it fits");
        inform[242] = 8;
        let to = server.receive(&inform, NOW, &mut buffer).map(|to| (to.link, to.address));
        assert_eq!(to, is_of_network.then_some((station(1), own)), "{own} asks for settings only");
    }
}

#[test]
fn settings_that_contradict_themselves_are_none() {
    let unusable = |settings: Settings, reserved: &[(LinkAddress, Ipv4Addr)]| {
        Server::new(settings, reserved.iter().copied(), vec![Place::default(); 20].leak()).err()
    };
    for (first, last) in [(110, 100), (0, 10), (250, 255)] {
        assert_eq!(unusable(settings(first, last), &[]), Some(Unusable::Range));
    }
    let outside = Settings { last: Ipv4Addr::new(10, 0, 4, 1), ..settings(100, 101) };
    assert_eq!(unusable(outside, &[]), Some(Unusable::Range));
    assert_eq!(unusable(settings(2, 9), &[]), Some(Unusable::OwnInRange(OWN)));
    assert_eq!(unusable(settings(1, 1), &[]), Some(Unusable::OwnInRange(ROUTER)));
    assert_eq!(unusable(settings(100, 120), &[]), Some(Unusable::TooLarge));
    for wrong in [OWN, ROUTER, address(255), Ipv4Addr::new(10, 0, 4, 1)] {
        assert_eq!(unusable(settings(100, 101), &[(station(1), wrong)]), Some(Unusable::Reservation(wrong)));
    }
    let twice = [(station(1), address(5)), (station(2), address(5))];
    assert_eq!(unusable(settings(100, 101), &twice), Some(Unusable::Reservation(address(5))));
}

proptest! {
    /// Whatever clients send, and however time passes: no two have one address at a time.
    #[test]
    fn no_address_is_leased_twice(
        steps in prop::collection::vec((0_u8..6, 1_u8..8, 100_u8..106, any::<bool>(), 0_u64..200), 1..200),
    ) {
        let mut server = server(100, 105);
        let mut held = BTreeMap::<Ipv4Addr, (u8, Instant)>::new();
        let mut now = NOW;
        for (what, from, last, is_named, seconds) in steps {
            now = now + Duration::from_secs(seconds / 20);
            let (wanted, named) = (Some(address(last)), is_named.then_some(OWN));
            let asked = match what {
                0 | 1 => request(Kind::Discover, from, wanted.filter(|_| is_named), None),
                2 => request(Kind::Request, from, wanted, named),
                3 => Request { own: address(last), ..request(Kind::Request, from, None, None) },
                4 => request(Kind::Request, from, wanted, Some(ROUTER)),
                _ => request(Kind::Decline, from, wanted, Some(OWN)),
            };
            let answer = ask(&mut server, asked, now);
            if what == 4 || what == 5 {
                // It has told that it has none, or not this one.
                held.retain(|at, (by, _)| *by != from || what == 5 && *at != address(last));
            }
            if let Some((_, answer)) = answer && answer.kind != Kind::Nak {
                let holder = held.get(&answer.address).filter(|(by, until)| *by != from && *until > now);
                prop_assert_eq!(holder, None);
                prop_assert!(answer.address != address(101));
                if answer.kind == Kind::Ack {
                    held.retain(|_, (by, _)| *by != from);
                    held.insert(answer.address, (from, now + Duration::from_secs(600)));
                }
            }
        }
    }

    #[test]
    fn nothing_that_comes_is_a_panic(bytes in prop::collection::vec(any::<u8>(), 0..400), tail in prop::collection::vec(any::<u8>(), 0..60)) {
        let (mut server, mut buffer) = (server(100, 105), [0; LONGEST_ANSWER]);
        server.receive(&bytes, NOW, &mut buffer);
        let mut message = [0; dhcp::LONGEST];
        request(Kind::Discover, 1, None, None).write(&mut message).expect("it fits");
        server.receive(&[&message[..243], &tail].concat(), NOW, &mut buffer);
    }
}
