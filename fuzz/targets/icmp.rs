//! ICMP that anybody sends, over IPv4 and IPv6.
//!
//! The input is a message behind a header that is right. Whatever it is, it is read or refused; an
//! echo comes back as it was; and no error is sent about an error.

#![no_main]

#[path = "../common/input.rs"]
#[allow(dead_code, reason = "an input is one message, not a program that ends")]
mod input;

use culm_ip::extension::content;
use culm_ip::icmp::{self, LONGEST_IPV6, Message, Problem};
use culm_ip::ipv4::Ipv4;
use culm_ip::ipv6::Ipv6;
use input::Input;
use libfuzzer_sys::fuzz_target;
use std::net::{Ipv4Addr, Ipv6Addr};

const OWN: Ipv4Addr = Ipv4Addr::new(10, 0, 0, 7);
const PEER: Ipv4Addr = Ipv4Addr::new(10, 0, 0, 1);
const OWN_6: Ipv6Addr = Ipv6Addr::new(0xfe80, 0, 0, 0, 0, 0, 0, 7);
const PEER_6: Ipv6Addr = Ipv6Addr::new(0xfe80, 0, 0, 0, 0, 0, 0, 1);

/// Puts the checksum into a message, in which `sum` is what counts besides.
fn complete(message: &mut [u8], mut sum: u32) {
    if let Some(place) = message.get_mut(2..4) {
        place.fill(0);
    }
    for half in message.chunks(2) {
        sum += u32::from(half[0]) << 8 | u32::from(*half.get(1).unwrap_or(&0));
    }
    while sum > 0xffff {
        sum = (sum & 0xffff) + (sum >> 16);
    }
    if let Some(place) = message.get_mut(2..4) {
        place.copy_from_slice(&(!(sum as u16)).to_be_bytes());
    }
}

fn try_ipv4(message: &mut [u8], problem: Problem) {
    complete(message, 0);
    let header = Ipv4 {
        source: PEER,
        destination: OWN,
        protocol: icmp::ICMP,
        time_to_live: 64,
        identification: 0,
        may_fragment: false,
        offset: 0,
        has_more: false,
        payload: message,
        packet: &[],
    };
    let (mut bytes, mut answer) = (vec![0; message.len() + 20], vec![0; message.len() + 20]);
    assert_eq!(header.write(&mut bytes), Some(bytes.len()));
    let packet = Ipv4::parse(&bytes).expect("it was written");
    let found = icmp::message_of_ipv4(&packet);
    if let Ok(Message::EchoRequest(echo)) = found {
        let length = icmp::answer_ipv4(&packet, echo, |address| address == OWN, &mut answer).expect("an answer");
        let answer = Ipv4::parse(&answer[..length]).expect("it was written");
        assert_eq!(icmp::message_of_ipv4(&answer), Ok(Message::EchoReply(echo)));
    }
    let mut buffer = [0; LONGEST_IPV6];
    let error = icmp::error_about_ipv4(&packet, problem, OWN, false, &mut buffer);
    assert!(error.is_none() || !matches!(found, Ok(Message::Error(..))));
}

fn try_ipv6(next_header: u8, message: &mut [u8], problem: Problem) {
    let addresses = [PEER_6.segments(), OWN_6.segments()].concat().into_iter().map(u32::from).sum::<u32>();
    complete(message, addresses + 58 + message.len() as u32);
    let header = Ipv6 { source: PEER_6, destination: OWN_6, next_header, hop_limit: 64, payload: message };
    let (mut bytes, mut answer) = (vec![0; message.len() + 40], vec![0; message.len() + 40]);
    assert_eq!(header.write(&mut bytes), Some(bytes.len()));
    let packet = Ipv6::parse(&bytes).expect("it was written");
    let mut buffer = [0; LONGEST_IPV6];
    let error = icmp::error_about_ipv6(&packet, &bytes, problem, OWN_6, 64, false, &mut buffer);
    let Ok(inner) = content(&packet) else { return };
    if inner.protocol != icmp::ICMPV6 || inner.fragment.is_some() {
        return;
    }
    let found = icmp::message_of_ipv6(&packet, inner.payload);
    if let Ok(Message::EchoRequest(echo)) = found {
        let length = icmp::answer_ipv6(&packet, echo, OWN_6, 64, &mut answer).expect("an answer");
        let answer = Ipv6::parse(&answer[..length]).expect("it was written");
        assert_eq!(icmp::message_of_ipv6(&answer, answer.payload), Ok(Message::EchoReply(echo)));
    }
    assert!(error.is_none() || !matches!(found, Ok(Message::Error(..))));
}

fuzz_target!(|bytes: &[u8]| {
    let mut input = Input::new(bytes);
    let (what, place) = (input.byte(), input.byte());
    let problem = match what >> 6 {
        0 => Problem::Port,
        1 => Problem::Protocol(place.into()),
        2 => Problem::Fragments,
        _ => Problem::Field(place.into()),
    };
    let mut message = input.bytes(2000).to_vec();
    match what % 3 {
        0 => try_ipv4(&mut message, problem),
        1 => try_ipv6(icmp::ICMPV6, &mut message, problem),
        _ => try_ipv6(place, &mut message, problem),
    }
});
