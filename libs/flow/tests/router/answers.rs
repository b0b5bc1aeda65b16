//! ICMP errors that a router makes.

use crate::make::{self, Segment, tuple, v4, v6};
use culm_flow::{LONGEST_ANSWER, Packet, Problem, TCP, Transport, Tuple, UDP, answer, checksum_is_right};
use std::net::IpAddr;

const ALL: [Problem; 6] = [
    Problem::TimeExceeded,
    Problem::TooBig { mtu: 1300 },
    Problem::NoRoute,
    Problem::NoHost,
    Problem::NoPort,
    Problem::Prohibited,
];

fn answered(problem: Problem, bytes: &[u8], from: IpAddr) -> Option<Vec<u8>> {
    let packet = Packet::read(bytes).unwrap();
    let mut out = vec![0xaa; LONGEST_ANSWER + 10];
    let length = answer(problem, &packet, bytes, from, &mut out)?;
    assert!(out[length..].iter().all(|byte| *byte == 0xaa));
    out.truncate(length);
    Some(out)
}

fn ends(is_v4: bool) -> (Tuple, IpAddr) {
    if is_v4 {
        (tuple(UDP, (v4([10, 0, 0, 1]), 7), (v4([192, 0, 2, 2]), 53)), v4([10, 0, 0, 254]))
    } else {
        (tuple(UDP, (v6(1), 7), (v6(2), 53)), v6(0xffff))
    }
}

#[test]
fn an_answer_is_an_error_about_the_packet() {
    for is_v4 in [true, false] {
        let (about, router) = ends(is_v4);
        for problem in ALL {
            for data in [0, 10, 500, 1400] {
                let bytes = make::udp(&about, &vec![1; data]);
                let answer = answered(problem, &bytes, router).unwrap();
                let packet = Packet::read(&answer).unwrap();
                assert_eq!(checksum_is_right(&packet, &answer), Some(true));
                assert_eq!((packet.source, packet.destination, packet.length), (router, about.source, answer.len()));
                let Transport::Error(error) = packet.transport else { panic!("{packet:?}") };
                assert_eq!(error.tuple, about);
                let (longest, header) = if is_v4 { (576, 28) } else { (1280, 48) };
                assert_eq!(answer.len(), longest.min(header + bytes.len()));
                assert_eq!(answer[header..], bytes[..answer.len() - header]);
            }
        }
    }
}

/// RFC 1191 §4 and RFC 4443 §3.2.
#[test]
fn the_next_links_mtu_stands_where_senders_look_for_it() {
    for (is_v4, kind, at) in [(true, [3, 4], 20), (false, [2, 0], 40)] {
        let (about, router) = ends(is_v4);
        let answer = answered(Problem::TooBig { mtu: 1300 }, &make::udp(&about, &[1; 1400]), router).unwrap();
        assert_eq!(answer[at..at + 2], kind);
        assert_eq!(answer[at + 4..at + 8], 1300_u32.to_be_bytes());
    }
}

#[test]
fn nobody_is_told_of_what_must_not_be_answered() {
    let (about, router) = ends(true);
    let packet = make::udp(&about, &[1; 40]);
    let error = make::error(router, about.source, 11, 0, &packet, 40);
    let rest = make::fragment(&packet, 8, 48, 1);
    let redirect = make::icmp(about.source, about.destination, vec![5, 0, 0, 0, 0, 0, 0, 0]);
    for bytes in [error, rest, redirect] {
        assert_eq!(answered(Problem::TimeExceeded, &bytes, router), None);
    }
    assert!(answered(Problem::TimeExceeded, &make::fragment(&packet, 0, 40, 1), router).is_some());
    for nobody in [[0, 0, 0, 0], [127, 0, 0, 1], [224, 0, 0, 1], [255, 255, 255, 255], [240, 0, 0, 1]] {
        for bytes in [Tuple { source: v4(nobody), ..about }, Tuple { destination: v4(nobody), ..about }] {
            assert_eq!(answered(Problem::NoRoute, &make::udp(&bytes, b""), router), None);
        }
    }
    assert_eq!(answered(Problem::NoRoute, &packet, v6(1)), None, "the families differ");
}

#[test]
fn ipv6_answers_multicasts_that_are_too_big_and_no_other() {
    let (about, router) = ends(false);
    let many = IpAddr::from([0xff0e, 0, 0, 0, 0, 0, 0, 1]);
    let bytes = make::udp(&Tuple { destination: many, ..about }, &[0; 1400]);
    assert!(answered(Problem::TooBig { mtu: 1280 }, &bytes, router).is_some());
    assert_eq!(answered(Problem::NoRoute, &bytes, router), None);
    let bytes = make::udp(&Tuple { source: many, ..about }, &[0; 1400]);
    assert_eq!(answered(Problem::TooBig { mtu: 1280 }, &bytes, router), None);
    let redirect = make::icmp(about.source, about.destination, vec![137, 0, 0, 0, 0, 0, 0, 0]);
    assert_eq!(answered(Problem::NoRoute, &redirect, router), None);
}

#[test]
fn a_short_place_is_no_panic() {
    let (about, router) = ends(false);
    let bytes = make::tcp(&Tuple { protocol: TCP, ..about }, &Segment { flags: make::ACK, ..Segment::default() });
    let packet = Packet::read(&bytes).unwrap();
    for length in 0..200 {
        let mut out = vec![0; length];
        let written = answer(Problem::NoPort, &packet, &bytes, router, &mut out);
        assert_eq!(written.is_some(), length >= 48);
        assert!(written.unwrap_or(0) <= length);
    }
}
