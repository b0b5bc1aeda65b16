//! Packets of any kind on their way through a router.
//!
//! The input is packets with what is to become of them. Whatever they are, no length leads beyond
//! them; what is translated still parses, has the tuple that was asked for, and right checksums if
//! it had right ones before.

#![no_main]

#[path = "../common/input.rs"]
mod input;

use culm_flow::rewrite::{clamp_mss, count_hop, translate, translate_error};
use culm_flow::{LONGEST_ANSWER, Packet, Problem, Transport, Tuple, answer, checksum, checksum_is_right};
use input::Input;
use libfuzzer_sys::fuzz_target;
use std::net::IpAddr;

/// Gives an IPv4 header its checksum, which the fuzzer would seldom find.
fn seal(bytes: &mut [u8], at: usize) {
    let Some(first) = bytes.get(at) else { return };
    let end = at + usize::from(first & 0xf) * 4;
    if first >> 4 != 4 || bytes.len() < end || end < at + 20 {
        return;
    }
    bytes[at + 10..at + 12].fill(0);
    let mut sum = checksum::Sum::default();
    sum.bytes(&bytes[at..end]);
    bytes[at + 10..at + 12].copy_from_slice(&sum.checksum().to_be_bytes());
}

/// Gives an ICMP error over IPv4 its checksums.
fn seal_error(bytes: &mut [u8]) {
    seal(bytes, 28);
    if bytes.len() > 28 && bytes[0] == 0x45 && bytes[9] == 1 {
        bytes[22..24].fill(0);
        let length = usize::from(u16::from_be_bytes([bytes[2], bytes[3]])).clamp(24, bytes.len());
        let mut sum = checksum::Sum::default();
        sum.bytes(&bytes[20..length]);
        bytes[22..24].copy_from_slice(&sum.checksum().to_be_bytes());
    }
}

/// A tuple of the same kind, of IPv4.
fn another(tuple: &Tuple, input: &mut Input<'_>) -> Tuple {
    let mut address = || {
        let mut octets = [0; 4];
        octets.iter_mut().for_each(|octet| *octet = input.byte());
        IpAddr::from(octets)
    };
    let (source, destination) = (address(), address());
    let mut port = |own| if own == 0 { 0 } else { u16::from_be_bytes([input.byte(), input.byte() | 1]) };
    let (source_port, destination_port) = (port(tuple.source_port), port(tuple.destination_port));
    Tuple { source, destination, source_port, destination_port, ..*tuple }
}

/// Whether a checksum that was right is so still, and none was added. One that was wrong may become
/// right: a sum of zero is wrong, and the same in one's complement as that of all ones.
fn stays(was_right: Option<bool>, is_right: Option<bool>) -> bool {
    was_right == Some(false) || was_right == is_right
}

fn forward(bytes: &mut [u8], packet: Packet, input: &mut Input<'_>) {
    assert!(packet.payload <= packet.length && packet.length <= bytes.len());
    let was_right = checksum_is_right(&packet, bytes);
    let mut out = [0; LONGEST_ANSWER];
    if let Some(length) = answer(Problem::TooBig { mtu: 1280 }, &packet, bytes, packet.destination, &mut out) {
        let error = Packet::read(&out[..length]);
        // What quotes a packet of another protocol's errors, or that is cut short, is not read.
        assert!(error.is_err() || checksum_is_right(&error.unwrap(), &out[..length]) == Some(true));
    }
    if count_hop(bytes, &packet).is_some() {
        clamp_mss(bytes, &packet, 1200);
        let again = Packet::read(bytes).expect("it is still a packet");
        assert_eq!((again.hops + 1, again.tuple()), (packet.hops, packet.tuple()));
        assert!(stays(was_right, checksum_is_right(&again, bytes)));
    }
    let packet = Packet::read(bytes).expect("it is still a packet");
    match (packet.tuple(), packet.transport) {
        (Some(tuple), _) => {
            let to = another(&tuple, input);
            if translate(bytes, &packet, &to).is_ok() {
                let translated = Packet::read(bytes).expect("it is still a packet");
                assert_eq!(translated.tuple(), Some(to));
                assert!(stays(was_right, checksum_is_right(&translated, bytes)));
            }
        }
        (None, Transport::Error(error)) => {
            let to = another(&error.tuple, input);
            if translate_error(bytes, &packet, &to, to.destination, to.source).is_ok() {
                let translated = Packet::read(bytes).expect("it is still a packet");
                let Transport::Error(error) = translated.transport else { panic!("it is no error any more") };
                assert!(error.tuple == to && translated.source == to.destination);
                assert_eq!(checksum_is_right(&translated, bytes), Some(true));
            }
        }
        _ => {}
    }
}

fuzz_target!(|bytes: &[u8]| {
    let mut input = Input::new(bytes);
    while !input.is_over() {
        let (kind, length) = (input.byte(), input.byte());
        let mut packet = input.bytes(length.into()).to_vec();
        if kind & 1 == 0 {
            seal_error(&mut packet);
            seal(&mut packet, 0);
        }
        if let Ok(read) = Packet::read(&packet) {
            forward(&mut packet, read, &mut input);
        }
    }
});
