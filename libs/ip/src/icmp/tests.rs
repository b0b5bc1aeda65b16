//! Messages by the rules of RFC 792, RFC 1122 §3.2.2, and RFC 4443.

use super::*;
use crate::ipv4::Ipv4;
use crate::ipv6::Ipv6;
use crate::{ALL_NODES, Instant, Malformed};
use core::net::{Ipv4Addr, Ipv6Addr};
use core::time::Duration;
use culm_packet::checksum::Sum;
use proptest::prelude::*;
use std::vec;
use std::vec::Vec;

const OWN: Ipv4Addr = Ipv4Addr::new(10, 0, 0, 7);
const PEER: Ipv4Addr = Ipv4Addr::new(10, 0, 0, 1);
const OWN_6: Ipv6Addr = Ipv6Addr::new(0x2001, 0xdb8, 0, 0, 0, 0, 0, 7);
const PEER_6: Ipv6Addr = Ipv6Addr::new(0x2001, 0xdb8, 0, 0, 0, 0, 0, 1);

/// The hop limit that messages begin with.
const HOPS: u8 = 37;

/// Ports 1 and 2, and TCP's sequence number 3.
const START: [u8; 8] = [0, 1, 0, 2, 0, 0, 0, 3];

fn ipv4<'a>(source: Ipv4Addr, destination: Ipv4Addr, protocol: u8, payload: &'a [u8]) -> Ipv4<'a> {
    Ipv4 {
        source,
        destination,
        protocol,
        time_to_live: 64,
        identification: 0,
        may_fragment: false,
        offset: 0,
        has_more: false,
        payload,
        packet: &[],
    }
}

fn ipv6<'a>(source: Ipv6Addr, destination: Ipv6Addr, next_header: u8, payload: &'a [u8]) -> Ipv6<'a> {
    Ipv6 { source, destination, next_header, hop_limit: 64, payload }
}

fn bytes_of_ipv4(packet: &Ipv4<'_>) -> Vec<u8> {
    let mut buffer = vec![0; 2000];
    let length = packet.write(&mut buffer).expect("fits");
    buffer.truncate(length);
    buffer
}

fn bytes_of_ipv6(packet: &Ipv6<'_>) -> Vec<u8> {
    let mut buffer = vec![0; 2000];
    let length = packet.write(&mut buffer).expect("fits");
    buffer.truncate(length);
    buffer
}

/// A message with its checksum.
fn message(kind: u8, code: u8, rest: &[u8], sum: Sum) -> Vec<u8> {
    let mut bytes = [&[kind, code, 0, 0], rest].concat();
    let checksum = sum.add_bytes(&bytes).checksum();
    bytes[2..4].copy_from_slice(&checksum.to_be_bytes());
    bytes
}

/// What is read of a message over IPv4 of this kind about a packet of the host's.
fn read_ipv4(kind: u8, code: u8, rest: u32, quoted: &[u8]) -> Result<Report, Malformed> {
    let bytes = message(kind, code, &[&rest.to_be_bytes(), quoted].concat(), Sum::ZERO);
    match message_of_ipv4(&ipv4(PEER, OWN, ICMP, &bytes))? {
        Message::Error(report, found) => {
            assert_eq!((found.source, found.destination), (OWN.into(), PEER.into()));
            assert_eq!((found.protocol, found.length, found.ports(), found.sequence()), (6, 40, (1, 2), 3));
            Ok(report)
        }
        other => panic!("{other:?}"),
    }
}

/// What is read of a message over IPv6 of this kind about a packet of the host's.
fn read_ipv6(kind: u8, code: u8, rest: u32, quoted: &[u8]) -> Result<Report, Malformed> {
    let rest = [&rest.to_be_bytes(), quoted].concat();
    let bytes = message(kind, code, &rest, Sum::pseudo_header(PEER_6, OWN_6, ICMPV6, rest.len() + 4));
    match message_of_ipv6(&ipv6(PEER_6, OWN_6, ICMPV6, &bytes), &bytes)? {
        Message::Error(report, found) => {
            assert_eq!((found.source, found.destination), (OWN_6.into(), PEER_6.into()));
            assert_eq!((found.protocol, found.ports(), found.sequence()), (6, (1, 2), 3));
            Ok(report)
        }
        other => panic!("{other:?}"),
    }
}

#[test]
fn errors_over_ipv4_are_read_with_what_they_quote() {
    let whole = bytes_of_ipv4(&ipv4(OWN, PEER, 6, &[&START[..], &[0; 12]].concat()));
    let quoted = &whole[..28];
    assert_eq!(read_ipv4(3, 4, 0xabcd_0500, quoted), Ok(Report::TooBig(1280)));
    for (code, severity) in
        [(0, Severity::Soft), (1, Severity::Soft), (2, Severity::Hard), (3, Severity::Hard), (13, Severity::Soft)]
    {
        assert_eq!(read_ipv4(3, code, 0, quoted), Ok(Report::Unreachable(severity)), "{code}");
    }
    assert_eq!(read_ipv4(11, 0, 0, quoted), Ok(Report::TimeExceeded));
    assert_eq!(read_ipv4(12, 0, 0, quoted), Ok(Report::Parameter));
    assert_eq!(read_ipv4(3, 3, 0, &whole[..27]), Err(Malformed::Short));
    let mut changed = whole.clone();
    changed[7] = 1;
    assert_eq!(read_ipv4(3, 3, 0, &changed), Err(Malformed::Value), "a fragment that is not the first");
    changed[7] = 0;
    changed[8] = 3;
    assert_eq!(read_ipv4(3, 3, 0, &changed), Ok(Report::Unreachable(Severity::Hard)), "routers change its hops");
    for first in [0x44, 0x65] {
        changed[0] = first;
        assert_eq!(read_ipv4(3, 3, 0, &changed), Err(Malformed::Version));
    }
}

#[test]
fn errors_over_ipv6_are_read_with_what_they_quote() {
    let quoted = bytes_of_ipv6(&ipv6(OWN_6, PEER_6, 6, &START));
    assert_eq!(read_ipv6(2, 0, 1280, &quoted), Ok(Report::TooBig(1280)));
    for (code, severity) in [(0, Severity::Soft), (1, Severity::Soft), (3, Severity::Soft), (4, Severity::Hard)] {
        assert_eq!(read_ipv6(1, code, 0, &quoted), Ok(Report::Unreachable(severity)), "{code}");
    }
    assert_eq!(read_ipv6(3, 0, 0, &quoted), Ok(Report::TimeExceeded));
    assert_eq!(read_ipv6(4, 1, 40, &quoted), Ok(Report::Parameter));
    assert_eq!(read_ipv6(4, 1, 40, &quoted[..47]), Err(Malformed::Short));
    let fragment = |place: u8| [&[6, 0, 0, place, 0, 0, 0, 9][..], &START].concat();
    let first = bytes_of_ipv6(&ipv6(OWN_6, PEER_6, 44, &fragment(1)));
    assert_eq!(read_ipv6(2, 0, 1280, &first), Ok(Report::TooBig(1280)));
    let second = bytes_of_ipv6(&ipv6(OWN_6, PEER_6, 44, &fragment(8)));
    assert_eq!(read_ipv6(2, 0, 1280, &second), Err(Malformed::Value));
}

#[test]
fn messages_that_are_not_intact_are_refused() {
    let mut bytes = message(8, 0, &[1, 2, 3, 4, 5], Sum::ZERO);
    assert_eq!(message_of_ipv4(&ipv4(PEER, OWN, ICMP, &bytes)), Ok(Message::EchoRequest(&[1, 2, 3, 4, 5])));
    let fragment = Ipv4 { has_more: true, ..ipv4(PEER, OWN, ICMP, &bytes) };
    assert_eq!(message_of_ipv4(&fragment), Err(Malformed::Version));
    assert_eq!(message_of_ipv4(&ipv4(PEER, OWN, 17, &bytes)), Err(Malformed::Version));
    bytes[8] ^= 1;
    assert_eq!(message_of_ipv4(&ipv4(PEER, OWN, ICMP, &bytes)), Err(Malformed::Checksum));
    let bytes = message(128, 0, &[1, 2, 3, 4], Sum::pseudo_header(PEER_6, OWN_6, ICMPV6, 8));
    let packet = ipv6(PEER_6, OWN_6, ICMPV6, &bytes);
    assert_eq!(message_of_ipv6(&packet, &bytes), Ok(Message::EchoRequest(&[1, 2, 3, 4])));
    let other = ipv6(OWN_6, OWN_6, ICMPV6, &bytes);
    assert_eq!(message_of_ipv6(&other, &bytes), Err(Malformed::Checksum), "the addresses are part of it");
    let bytes = message(13, 0, &[0; 4], Sum::ZERO);
    assert_eq!(message_of_ipv4(&ipv4(PEER, OWN, ICMP, &bytes)), Ok(Message::Other));
}

#[test]
fn an_echo_is_given_back() {
    let echo = [0x12, 0x34, 0, 1, b'd', b'a', b't', b'a', b'!'];
    let mut buffer = [0; 100];
    let own = |address| address == OWN;
    let length = answer_ipv4(&ipv4(PEER, OWN, ICMP, &[]), &echo, own, &mut buffer).expect("an answer");
    let packet = Ipv4::parse(&buffer[..length]).expect("a packet");
    assert_eq!((packet.source, packet.destination), (OWN, PEER));
    assert_eq!(message_of_ipv4(&packet), Ok(Message::EchoReply(&echo)));
    assert_eq!(answer_ipv4(&ipv4(PEER, OWN, ICMP, &[]), &echo, own, &mut buffer[..length - 1]), None);
    let length =
        answer_ipv6(&ipv6(PEER_6, ALL_NODES, ICMPV6, &[]), &echo, OWN_6, HOPS, &mut buffer).expect("an answer");
    let packet = Ipv6::parse(&buffer[..length]).expect("a packet");
    assert_eq!((packet.source, packet.destination, packet.hop_limit), (OWN_6, PEER_6, HOPS));
    assert_eq!(message_of_ipv6(&packet, packet.payload), Ok(Message::EchoReply(&echo)));
}

#[test]
fn nobody_is_answered_who_is_no_host_or_asks_all() {
    let mut buffer = [0; 100];
    let own = |address| address == OWN;
    let broadcast = Ipv4Addr::new(10, 0, 0, 255);
    assert_eq!(answer_ipv4(&ipv4(PEER, broadcast, ICMP, &[]), b"echo", own, &mut buffer), None);
    for source in [[0, 0, 0, 0], [127, 0, 0, 1], [224, 0, 0, 1], [255, 255, 255, 255]] {
        assert_eq!(answer_ipv4(&ipv4(source.into(), OWN, ICMP, &[]), b"echo", own, &mut buffer), None);
    }
    assert_eq!(answer_ipv6(&ipv6(Ipv6Addr::UNSPECIFIED, OWN_6, ICMPV6, &[]), b"echo", OWN_6, HOPS, &mut buffer), None);
    assert_eq!(answer_ipv6(&ipv6(PEER_6, ALL_NODES, ICMPV6, &[]), b"echo", ALL_NODES, HOPS, &mut buffer), None);
}

/// Whether an error is sent about a packet over IPv4.
fn is_told_ipv4(packet: &Ipv4<'_>, was_for_all: bool) -> bool {
    let bytes = bytes_of_ipv4(packet);
    let mut buffer = [0; LONGEST_IPV4];
    let packet = Ipv4 { packet: &bytes, ..*packet };
    error_about_ipv4(&packet, Problem::Port, OWN, was_for_all, &mut buffer).is_some()
}

/// RFC 1122 §3.2.2.
#[test]
fn errors_over_ipv4_are_sent_where_the_rules_allow_it() {
    let datagram = ipv4(PEER, OWN, 17, &START);
    assert!(is_told_ipv4(&datagram, false));
    assert!(!is_told_ipv4(&datagram, true), "it came to all stations");
    assert!(!is_told_ipv4(&Ipv4 { destination: Ipv4Addr::BROADCAST, ..datagram }, false));
    assert!(!is_told_ipv4(&Ipv4 { offset: 8, ..datagram }, false));
    assert!(is_told_ipv4(&Ipv4 { has_more: true, ..datagram }, false), "a first fragment");
    for source in [[0, 0, 0, 0], [127, 0, 0, 1], [224, 0, 0, 1], [255, 255, 255, 255]] {
        assert!(!is_told_ipv4(&Ipv4 { source: source.into(), ..datagram }, false));
    }
    for (kind, is_told) in
        [(0, true), (8, true), (13, true), (3, false), (4, false), (5, false), (11, false), (12, false), (99, false)]
    {
        let payload = [kind, 0, 0, 0, 0, 0, 0, 0];
        assert_eq!(is_told_ipv4(&ipv4(PEER, OWN, ICMP, &payload), false), is_told, "{kind}");
    }
    assert!(!is_told_ipv4(&ipv4(PEER, OWN, ICMP, &[]), false));
}

/// Whether an error is sent about a packet over IPv6.
fn is_told_ipv6(packet: &Ipv6<'_>, problem: Problem, was_for_all: bool) -> bool {
    let bytes = bytes_of_ipv6(packet);
    let mut buffer = [0; LONGEST_IPV6];
    error_about_ipv6(packet, &bytes, problem, OWN_6, HOPS, was_for_all, &mut buffer).is_some()
}

/// RFC 4443 §2.4 (e).
#[test]
fn errors_over_ipv6_are_sent_where_the_rules_allow_it() {
    let datagram = ipv6(PEER_6, OWN_6, 17, &START);
    let told = |packet: &Ipv6<'_>| is_told_ipv6(packet, Problem::Port, false);
    assert!(told(&datagram));
    assert!(!is_told_ipv6(&datagram, Problem::Port, true));
    assert!(!told(&Ipv6 { destination: ALL_NODES, ..datagram }));
    assert!(!told(&Ipv6 { source: Ipv6Addr::UNSPECIFIED, ..datagram }));
    assert!(!told(&Ipv6 { source: Ipv6Addr::LOCALHOST, ..datagram }));
    for (kind, is_told) in [(1, false), (4, false), (127, false), (128, true), (129, true), (135, true), (137, false)] {
        let payload = [kind, 0, 0, 0, 0, 0, 0, 0];
        assert_eq!(told(&ipv6(PEER_6, OWN_6, ICMPV6, &payload)), is_told, "{kind}");
        let behind_options = [&[ICMPV6, 0, 1, 4, 0, 0, 0, 0], &payload[..]].concat();
        assert_eq!(told(&ipv6(PEER_6, OWN_6, 60, &behind_options)), is_told, "{kind}");
        let in_fragment = [&[60, 0, 0, 1, 0, 0, 0, 9], &behind_options[..]].concat();
        assert_eq!(told(&ipv6(PEER_6, OWN_6, 44, &in_fragment)), is_told, "{kind} behind options of a fragment");
    }
    let fragment = |place: u8| [&[17, 0, 0, place, 0, 0, 0, 9][..], &START].concat();
    assert!(told(&ipv6(PEER_6, OWN_6, 44, &fragment(1))));
    assert!(!told(&ipv6(PEER_6, OWN_6, 44, &fragment(8))));
    let routed = [17, 0, 0, 1, 0, 0, 0, 0];
    assert!(!told(&ipv6(PEER_6, OWN_6, 43, &routed)), "what is behind it cannot be told");
    assert!(is_told_ipv6(&ipv6(PEER_6, OWN_6, 43, &routed), Problem::Field(43), false));
}

#[test]
fn an_error_quotes_as_much_as_fits() {
    let payload = vec![7; 1400];
    let bytes = bytes_of_ipv4(&ipv4(PEER, OWN, 17, &payload));
    let packet = Ipv4::parse(&bytes).expect("a packet");
    let mut buffer = [0; LONGEST_IPV6];
    for (problem, kind, code, rest) in [
        (Problem::Port, 3, 3, 0),
        (Problem::Protocol(9), 3, 2, 0),
        (Problem::Fragments, 11, 1, 0),
        (Problem::Field(20), 12, 0, 20 << 24),
    ] {
        let length = error_about_ipv4(&packet, problem, OWN, false, &mut buffer).expect("an error");
        assert_eq!(length, LONGEST_IPV4);
        let error = Ipv4::parse(&buffer[..length]).expect("a packet");
        assert_eq!((error.source, error.destination), (OWN, PEER));
        assert_eq!((error.payload[0], error.payload[1]), (kind, code));
        assert_eq!(error.payload[4..8], u32::to_be_bytes(rest));
        assert_eq!(error.payload[8..], bytes[..LONGEST_IPV4 - 28]);
        assert!(Sum::ZERO.add_bytes(error.payload).is_intact());
    }
    let bytes = bytes_of_ipv6(&ipv6(PEER_6, OWN_6, 17, &payload));
    let packet = Ipv6::parse(&bytes).expect("a packet");
    for (problem, kind, code, rest) in [
        (Problem::Port, 1, 4, 0),
        (Problem::Protocol(6), 4, 1, 6),
        (Problem::Fragments, 3, 1, 0),
        (Problem::Field(42), 4, 0, 42),
    ] {
        let length = error_about_ipv6(&packet, &bytes, problem, OWN_6, HOPS, false, &mut buffer).expect("an error");
        assert_eq!(length, LONGEST_IPV6);
        let error = Ipv6::parse(&buffer[..length]).expect("a packet");
        assert_eq!((error.source, error.destination, error.payload[0], error.payload[1]), (OWN_6, PEER_6, kind, code));
        assert_eq!(error.hop_limit, HOPS);
        assert_eq!(error.payload[4..8], u32::to_be_bytes(rest));
        assert_eq!(error.payload[8..], bytes[..LONGEST_IPV6 - 48]);
        assert!(matches!(message_of_ipv6(&error, error.payload), Ok(Message::Error(..))));
    }
}

#[test]
fn errors_are_bounded_by_time() {
    let mut limiter = Limiter::new(6, Duration::from_millis(100), Instant(0));
    let count = |limiter: &mut Limiter, now, random| (0..20).filter(|_| limiter.allows(now, random)).count();
    assert_eq!(count(&mut limiter, Instant(0), 0), 6);
    assert_eq!(count(&mut limiter, Instant(99_999), 0), 0);
    assert_eq!(count(&mut limiter, Instant(250_000), 0), 2);
    assert_eq!(count(&mut limiter, Instant(300_000), 0), 1, "the half that was over is not lost");
    assert_eq!(count(&mut limiter, Instant(1_000_000_000), 0), 6, "no more than a burst is saved");
    assert_eq!(count(&mut limiter, Instant(2_000_000_000), 2), 2, "chance takes up to three");
    let mut frozen = Limiter::new(0, Duration::ZERO, Instant(0));
    assert!(!frozen.allows(Instant::NEVER, 0));
}

proptest! {
    /// No error is about an error, whatever comes; what is sent is read as what it is.
    #[test]
    fn no_error_answers_an_error(bytes in prop::collection::vec(any::<u8>(), 0..200), next_header: u8) {
        let mut buffer = [0; LONGEST_IPV6];
        let packet = ipv6(PEER_6, OWN_6, next_header, &bytes);
        let whole = bytes_of_ipv6(&packet);
        if let Some(length) = error_about_ipv6(&packet, &whole, Problem::Port, OWN_6, HOPS, false, &mut buffer) {
            let error = Ipv6::parse(&buffer[..length]).expect("a packet");
            let back = Ipv6 { source: PEER_6, destination: OWN_6, ..error };
            let again = bytes_of_ipv6(&back);
            let mut other = [0; LONGEST_IPV6];
            prop_assert_eq!(error_about_ipv6(&back, &again, Problem::Port, OWN_6, HOPS, false, &mut other), None);
        }
        let _ = message_of_ipv6(&packet, &bytes);
        let _ = message_of_ipv4(&ipv4(PEER, OWN, ICMP, &bytes));
    }

    /// Over any time no more errors are sent than a burst and what the time gives.
    #[test]
    fn a_limiter_keeps_its_rate(questions in prop::collection::vec((0_u64..300_000, any::<u32>()), 0..300)) {
        let mut limiter = Limiter::new(5, Duration::from_millis(100), Instant(0));
        let (mut now, mut allowed) = (0, 0);
        for (passed, random) in questions {
            now += passed;
            allowed += u64::from(limiter.allows(Instant(now), random));
            prop_assert!(allowed <= 5 + now / 100_000);
        }
    }
}
