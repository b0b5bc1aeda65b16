//! The client against a server, and messages of any kind.

use super::*;
use crate::bytes::Writer;
use crate::{Instant, LinkAddress};
use core::net::Ipv4Addr;
use core::time::Duration;
use proptest::prelude::*;
use std::vec::Vec;

const LINK: LinkAddress = LinkAddress([2, 0, 0, 0, 0, 1]);
const SERVER: Ipv4Addr = Ipv4Addr::new(10, 0, 0, 2);
const ADDRESS: Ipv4Addr = Ipv4Addr::new(10, 0, 0, 77);

/// What chance says in all of these tests: the middle.
const MIDDLE: u32 = 1 << 31;

fn at(seconds: u64) -> Instant {
    Instant(seconds * 1_000_000)
}

/// A server's message with these options; `kind` is that of RFC 2132 §9.6.
fn message(transaction: u32, address: Ipv4Addr, kind: u8, options: &[u8]) -> Vec<u8> {
    let mut bytes = std::vec![0; 236];
    let mut writer = Writer::new(&mut bytes);
    writer.put(&[2, 1, 6, 0]).expect("space");
    writer.put(&transaction.to_be_bytes()).expect("space");
    writer.put(&[0; 8]).expect("space");
    writer.put(&address.octets()).expect("space");
    writer.put(&[0; 8]).expect("space");
    writer.put(&LINK.0).expect("space");
    bytes.extend([99, 130, 83, 99, 53, 1, kind]);
    bytes.extend(options);
    bytes.push(255);
    bytes
}

/// Options of a grant by `SERVER` for so many seconds.
fn grant(seconds: u32) -> Vec<u8> {
    let [a, b, c, d] = seconds.to_be_bytes();
    std::vec![54, 4, 10, 0, 0, 2, 51, 4, a, b, c, d, 1, 4, 255, 255, 255, 0, 3, 4, 10, 0, 0, 1, 6, 4, 10, 0, 0, 53]
}

/// The next request by `now`, with its destination.
fn sent(client: &mut Client, now: Instant) -> Option<(Request, Ipv4Addr)> {
    match client.poll(now, MIDDLE) {
        Some(Step::Send { source, destination, request }) => {
            assert_eq!(source, request.own);
            Some((request, destination))
        }
        Some(Step::Lost) => panic!("the address is lost"),
        None => None,
    }
}

/// A client that has the address for so many seconds from 0 on.
fn bound(seconds: u32) -> Client {
    let mut client = Client::new(LINK, at(0), 7);
    assert_eq!(sent(&mut client, at(0)).map(|(request, _)| request.kind), Some(Kind::Discover));
    assert_eq!(client.receive(&message(7, ADDRESS, 2, &grant(seconds)), at(0), 0), Outcome::Nothing);
    let (request, destination) = sent(&mut client, at(0)).expect("a request");
    assert_eq!((request.kind, request.wanted, request.server), (Kind::Request, Some(ADDRESS), Some(SERVER)));
    assert_eq!(destination, Ipv4Addr::BROADCAST);
    let outcome = client.receive(&message(7, ADDRESS, 5, &grant(seconds)), at(0), 0);
    let Outcome::Granted(lease) = outcome else { panic!("{outcome:?}") };
    assert_eq!(client.lease(), Some(&lease));
    client
}

#[test]
fn an_address_is_leased_with_what_comes_with_it() {
    let client = bound(3600);
    let lease = client.lease().expect("a lease");
    assert_eq!((lease.address.address(), lease.address.length()), (ADDRESS, 24));
    assert_eq!((lease.router, lease.mtu), (Some(Ipv4Addr::new(10, 0, 0, 1)), None));
    assert_eq!(lease.name_servers, [Some(Ipv4Addr::new(10, 0, 0, 53)), None, None]);
    assert_eq!((lease.renewal.as_secs(), lease.rebinding.as_secs()), (1800, 3150));
    assert_eq!(client.deadline(), at(1800));
}

/// RFC 2131 §4.1: 4, 8, 16, 32, 64, 64 seconds.
#[test]
fn who_is_not_answered_asks_less_and_less_often() {
    let mut client = Client::new(LINK, at(0), 7);
    let mut now = 0;
    for wait in [4, 8, 16, 32, 64, 64] {
        let (request, _) = sent(&mut client, at(now)).expect("a request");
        assert_eq!((request.kind, u64::from(request.seconds)), (Kind::Discover, now));
        assert_eq!(client.deadline(), at(now + wait));
        assert_eq!(client.poll(at(now + wait - 1), 0), None);
        now += wait;
    }
}

#[test]
fn a_lease_is_renewed_rebound_and_lost() {
    let mut client = bound(800);
    assert_eq!(sent(&mut client, at(399)), None);
    let (request, destination) = sent(&mut client, at(400)).expect("a renewal");
    assert_eq!((request.own, request.wanted, request.server, destination), (ADDRESS, None, None, SERVER));
    // Half of the time up to the rebinding at 700 s; then a minute.
    assert_eq!(client.deadline(), at(550));
    assert!(sent(&mut client, at(550)).is_some());
    assert_eq!(client.deadline(), at(625));
    assert!(sent(&mut client, at(640)).is_some());
    let (_, destination) = sent(&mut client, at(700)).expect("a rebinding");
    assert_eq!(destination, Ipv4Addr::BROADCAST);
    assert_eq!(client.poll(at(799), 9).map(|step| matches!(step, Step::Send { .. })), Some(true));
    assert_eq!(client.poll(at(800), 9), Some(Step::Lost));
    assert_eq!(sent(&mut client, at(800)).map(|(request, _)| request.kind), Some(Kind::Discover));
}

#[test]
fn a_renewal_counts_from_its_request() {
    let mut client = bound(800);
    let (request, _) = sent(&mut client, at(400)).expect("a renewal");
    let outcome = client.receive(&message(request.transaction, ADDRESS, 5, &grant(800)), at(410), 0);
    assert!(matches!(outcome, Outcome::Renewed(_)));
    assert_eq!(client.deadline(), at(800));
}

#[test]
fn a_refusal_has_it_look_for_another_address() {
    let mut client = bound(800);
    let nak = [54, 4, 10, 0, 0, 2];
    assert_eq!(client.receive(&message(7, ADDRESS, 6, &nak), at(1), 0), Outcome::Nothing, "nothing was asked for");
    let (request, _) = sent(&mut client, at(400)).expect("a renewal");
    assert_eq!(client.receive(&message(request.transaction, ADDRESS, 6, &nak), at(400), 0), Outcome::Lost);
    assert_eq!(sent(&mut client, at(400)), None, "not without a pause");
    assert_eq!(sent(&mut client, at(401)).map(|(request, _)| request.kind), Some(Kind::Discover));
}

#[test]
fn a_conflict_is_told_to_the_server() {
    let mut client = bound(800);
    client.decline(at(1), 9);
    let (request, _) = sent(&mut client, at(1)).expect("a message");
    assert_eq!((request.kind, request.wanted, request.server), (Kind::Decline, Some(ADDRESS), Some(SERVER)));
    assert_eq!(client.lease(), None);
    assert_eq!(sent(&mut client, at(10)), None);
    assert_eq!(sent(&mut client, at(11)).map(|(request, _)| request.kind), Some(Kind::Discover));
}

#[test]
fn after_the_link_was_down_servers_are_asked_whether_the_address_holds() {
    let mut client = bound(800);
    client.link_is_up(at(100), 9);
    let (request, destination) = sent(&mut client, at(100)).expect("a request");
    assert_eq!((request.wanted, request.server, destination), (Some(ADDRESS), None, Ipv4Addr::BROADCAST));
    let outcome = client.receive(&message(9, ADDRESS, 5, &grant(800)), at(101), 0);
    assert!(matches!(outcome, Outcome::Renewed(_)));
    assert_eq!(client.deadline(), at(500));
    // Nobody answers: what holds goes on.
    client.link_is_up(at(200), 9);
    assert!(sent(&mut client, at(200)).is_some() && sent(&mut client, at(204)).is_some());
    assert_eq!(sent(&mut client, at(212)), None);
    assert_eq!(client.deadline(), at(500));
}

#[test]
fn only_answers_to_the_own_request_count() {
    let mut client = Client::new(LINK, at(0), 7);
    assert_eq!(client.receive(&message(7, ADDRESS, 2, &grant(800)), at(0), 0), Outcome::Nothing);
    assert!(sent(&mut client, at(0)).is_some());
    for (transaction, kind) in [(8, 2), (7, 5), (7, 6), (7, 1)] {
        assert_eq!(client.receive(&message(transaction, ADDRESS, kind, &grant(800)), at(0), 0), Outcome::Nothing);
        assert_eq!(client.deadline(), at(4), "{transaction} {kind}");
    }
    let mut other = message(7, ADDRESS, 2, &grant(800));
    other[28] ^= 1;
    assert_eq!(client.receive(&other, at(0), 0), Outcome::Nothing);
    assert_eq!(client.deadline(), at(4), "another station's");
    let nowhere = message(7, Ipv4Addr::new(0, 0, 0, 9), 2, &grant(800));
    assert_eq!(client.receive(&nowhere, at(0), 0), Outcome::Unusable(Ipv4Addr::new(0, 0, 0, 9)));
}

#[test]
fn options_in_fields_for_names_are_read() {
    let mut bytes = message(7, ADDRESS, 2, &[52, 1, 3, 54, 4, 10, 0, 0, 2]);
    bytes[108..121].copy_from_slice(&[51, 4, 0, 0, 3, 32, 1, 4, 255, 255, 0, 0, 255]);
    bytes[44..49].copy_from_slice(&[26, 2, 5, 0, 255]);
    let lease = Answer::parse(&bytes).expect("an offer").lease.expect("a lease");
    assert_eq!((lease.duration.as_secs(), lease.address.length(), lease.mtu), (800, 16, Some(1280)));
}

#[test]
fn what_no_host_could_use_is_no_lease() {
    let lease = |address: [u8; 4], options: &[u8]| {
        let answer = Answer::parse(&message(7, address.into(), 2, &[&[54, 4, 10, 0, 0, 2], options].concat()));
        answer.expect("an offer").lease
    };
    let good = ADDRESS.octets();
    assert_eq!(lease(good, &[51, 4, 0, 0, 0, 9]), None, "a moment");
    assert_eq!(lease(good, &[]), None, "no time at all");
    assert_eq!(lease(good, &[51, 4, 0, 0, 1, 0, 1, 4, 255, 0, 255, 0]), None, "no mask");
    assert_eq!(lease([224, 0, 0, 1], &[51, 4, 0, 0, 1, 0]), None);
    let found = lease(good, &[51, 4, 255, 255, 255, 255]).expect("a lease for ever");
    assert_eq!((found.address.length(), found.duration, found.renewal), (8, Duration::MAX, Duration::MAX));
    let found = lease(good, &[51, 4, 0, 0, 3, 32, 58, 4, 0, 0, 2, 0, 59, 4, 0, 0, 1, 0]).expect("a lease");
    assert_eq!((found.renewal.as_secs(), found.rebinding.as_secs()), (400, 700), "times in no order");
    let found = lease(good, &[51, 4, 0, 0, 3, 32, 26, 2, 0, 68]).expect("a lease");
    assert_eq!(found.mtu, None, "fewer bytes than every host takes");
}

#[test]
fn requests_have_the_format_of_the_standard() {
    let request = Request {
        kind: Kind::Request,
        transaction: 0x0102_0304,
        seconds: 5,
        link: LINK,
        own: Ipv4Addr::UNSPECIFIED,
        wanted: Some(ADDRESS),
        server: Some(SERVER),
    };
    let mut buffer = [0xff; 400];
    assert_eq!(request.write(&mut buffer[..LONGEST - 1]), None);
    assert_eq!(request.write(&mut buffer), Some(LONGEST));
    assert_eq!(buffer[..12], [1, 1, 6, 0, 1, 2, 3, 4, 0, 5, 0, 0]);
    assert_eq!(buffer[28..34], LINK.0);
    assert_eq!(buffer[236..243], [99, 130, 83, 99, 53, 1, 3]);
    assert_eq!(buffer[252..264], [50, 4, 10, 0, 0, 77, 54, 4, 10, 0, 0, 2]);
    assert_eq!(buffer[277..LONGEST], [255].into_iter().chain([0; 22]).collect::<Vec<u8>>()[..]);
}

#[test]
fn who_loses_the_address_to_another_while_asking_anew_declines_it() {
    let mut client = bound(800);
    client.link_is_up(at(10), 9);
    assert!(sent(&mut client, at(10)).is_some());
    // A station of the new network has it.
    client.decline(at(11), 11);
    assert_eq!(client.receive(&message(9, ADDRESS, 5, &grant(800)), at(11), 0), Outcome::Nothing);
    assert_eq!(client.lease(), None);
}

#[test]
fn a_link_that_comes_up_again_and_again_keeps_no_address_beyond_its_time() {
    let mut client = bound(800);
    let mut lost = false;
    for second in (10..900).step_by(5) {
        client.link_is_up(at(second), 9);
        while let Some(step) = client.poll(at(second), 0) {
            lost |= step == Step::Lost;
        }
        assert!(lost || second <= 800, "the address is kept");
    }
    assert_eq!(client.lease(), None);
}

#[test]
fn what_is_asked_anew_shortly_before_its_end_ends_in_time() {
    let mut client = bound(800);
    client.link_is_up(at(795), 9);
    for second in [795, 799] {
        assert!(sent(&mut client, at(second)).is_some());
    }
    assert!(client.deadline() <= at(800), "{:?}", client.deadline());
}

proptest! {
    /// Whatever a server sends, the client goes on, and has no address beyond its time.
    #[test]
    fn nothing_that_a_server_sends_stops_the_client(
        answers in prop::collection::vec(
            (0_u64..400, 1_u8..8, prop::collection::vec(any::<u8>(), 0..40), any::<bool>(), any::<u32>()), 0..60,
        ),
    ) {
        let mut client = Client::new(LINK, at(0), 7);
        let mut now = 0;
        let mut transaction = 7;
        for (passed, kind, noise, is_good, random) in answers {
            now += passed;
            let mut steps = 0;
            while let Some(step) = client.poll(at(now), random) {
                if let Step::Send { request, .. } = step {
                    transaction = request.transaction;
                }
                steps += 1;
                prop_assert!(steps < 4, "{step:?}");
            }
            prop_assert!(client.deadline() > at(now));
            let options = if is_good { grant(u32::from(noise.len() as u16) * 20) } else { noise };
            let _ = client.receive(&message(transaction, ADDRESS, kind, &options), at(now), random);
            if let Some(lease) = client.lease() {
                prop_assert!(lease.duration >= Duration::from_secs(10) && crate::is_host(lease.address.address()));
                prop_assert!(client.deadline() <= at(now) + lease.duration);
            }
        }
    }

    #[test]
    fn nothing_that_comes_is_a_panic(bytes in prop::collection::vec(any::<u8>(), 0..400), is_framed: bool) {
        let bytes = if is_framed { message(7, ADDRESS, 2, &bytes) } else { bytes };
        let _ = Answer::parse(&bytes);
    }
}
