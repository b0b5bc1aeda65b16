//! Changes of packets on their way, against checksums that are computed anew.

use crate::make::{self, Segment, tuple, v4, v6};
use culm_flow::rewrite::{CannotTranslate, clamp_mss, count_hop, translate, translate_error};
use culm_flow::{ICMP, Packet, TCP, Transport, Tuple, UDP, checksum_is_right};
use proptest::prelude::*;

/// Reads a packet whose checksums are all right.
fn read(bytes: &[u8]) -> Packet {
    let packet = Packet::read(bytes).unwrap();
    assert_eq!(checksum_is_right(&packet, bytes), Some(true));
    packet
}

fn translated(bytes: &[u8], to: &Tuple) -> Vec<u8> {
    let mut bytes = bytes.to_vec();
    let packet = Packet::read(&bytes).unwrap();
    translate(&mut bytes, &packet, to).unwrap();
    bytes
}

/// The same kind of tuple with other addresses and ports.
fn another(tuple: &Tuple, other: &Tuple) -> Tuple {
    let port = |own: u16, other: u16| if own == 0 { 0 } else { other.max(1) };
    Tuple {
        source_port: port(tuple.source_port, other.source_port),
        destination_port: port(tuple.destination_port, other.destination_port),
        protocol: tuple.protocol,
        ..*other
    }
}

#[test]
fn a_hop_is_counted_until_none_is_left() {
    for (source, destination) in [(v4([10, 0, 0, 1]), v4([10, 0, 0, 2])), (v6(1), v6(2))] {
        let mut bytes = make::udp(&tuple(UDP, (source, 1), (destination, 2)), b"data");
        for left in (1..64).rev() {
            let packet = read(&bytes);
            assert_eq!(count_hop(&mut bytes, &packet), Some(left));
            assert_eq!(read(&bytes).hops, left);
        }
        let before = bytes.clone();
        assert_eq!(count_hop(&mut bytes, &read(&before)), None);
        assert_eq!(bytes, before);
    }
}

#[test]
fn a_segment_size_is_lowered_wherever_it_stands() {
    let at = tuple(TCP, (v4([10, 0, 0, 1]), 1), (v4([10, 0, 0, 2]), 2));
    for padding in 0..4 {
        let mut options = vec![1; padding];
        options.extend([2, 4, 0x05, 0xb4]);
        let segment = Segment { flags: make::SYN, options, data: 3, ..Segment::default() };
        let mut bytes = make::tcp(&at, &segment);
        let packet = read(&bytes);
        assert!(!clamp_mss(&mut bytes, &packet, 1460) && clamp_mss(&mut bytes, &packet, 1212));
        read(&bytes);
        assert_eq!(bytes[42 + padding..44 + padding], 1212_u16.to_be_bytes());
    }
    let mut bytes = make::tcp(&at, &Segment { flags: make::ACK, options: vec![2, 4, 5, 0xb4], ..Segment::default() });
    let packet = read(&bytes);
    assert!(!clamp_mss(&mut bytes, &packet, 100), "it means nothing without SYN");
}

#[test]
fn udp_without_a_checksum_stays_without() {
    let from = tuple(UDP, (v4([10, 0, 0, 1]), 1), (v4([10, 0, 0, 2]), 2));
    let mut bytes = make::udp(&from, b"data");
    bytes[26..28].copy_from_slice(&[0, 0]);
    let bytes = translated(&bytes, &tuple(UDP, (v4([192, 0, 2, 1]), 5000), (v4([10, 0, 0, 2]), 2)));
    assert_eq!(bytes[26..28], [0, 0]);
}

#[test]
fn a_checksum_of_udp_never_becomes_zero() {
    // Of all ports, some make the sum come out as zero, which would say that there is none.
    let from = tuple(UDP, (v4([10, 0, 0, 1]), 1), (v4([10, 0, 0, 2]), 2));
    let bytes = make::udp(&from, b"data");
    for port in 0..=u16::MAX {
        let bytes = translated(&bytes, &Tuple { source_port: port, ..from });
        assert_ne!(bytes[26..28], [0, 0]);
    }
}

/// Zeros alone have the checksum 0xffff, which the difference alone makes 0.
#[test]
fn a_reply_of_zeros_has_a_right_checksum() {
    let mut from = make::echo(&tuple(ICMP, (v4([192, 0, 2, 1]), 0), (v4([10, 0, 0, 2]), 7)), &[0; 5]);
    from[26..28].copy_from_slice(&[0, 0]);
    from[22..24].copy_from_slice(&(!7_u16).to_be_bytes());
    for identifier in [0, 7, 0, 0] {
        from = translated(&from, &tuple(ICMP, (v4([192, 0, 2, 1]), 0), (v4([10, 0, 0, 3]), identifier)));
        read(&from);
    }
}

#[test]
fn what_cannot_be_translated_is_refused() {
    let from = tuple(UDP, (v6(1), 1), (v6(2), 2));
    let mut bytes = make::udp(&from, b"data");
    let packet = read(&bytes);
    assert_eq!(translate(&mut bytes, &packet, &from), Ok(()), "nothing is to be done");
    assert_eq!(translate(&mut bytes, &packet, &from.reversed()), Err(CannotTranslate));
    let from = tuple(47, (v4([10, 0, 0, 1]), 0), (v4([10, 0, 0, 2]), 0));
    let mut bytes = make::ip(from.source, from.destination, 47, 64, &[0; 20]);
    let packet = Packet::read(&bytes).unwrap();
    assert_eq!(translate(&mut bytes, &packet, &from.reversed()), Err(CannotTranslate));
    assert_eq!(translate(&mut bytes[..10], &packet, &from.reversed()), Err(CannotTranslate));
}

#[test]
fn damage_is_not_hidden() {
    let from = tuple(TCP, (v4([10, 0, 0, 1]), 1), (v4([10, 0, 0, 2]), 2));
    let mut bytes = make::packet(&from, b"data");
    bytes[41] ^= 4;
    let bytes = translated(&bytes, &Tuple { source: v4([192, 0, 2, 1]), source_port: 7, ..from });
    assert_eq!(checksum_is_right(&Packet::read(&bytes).unwrap(), &bytes), Some(false));
}

proptest! {
    #[test]
    fn a_translated_packet_is_the_one_that_would_have_been_sent(
        from in make::any_v4(), other in make::any_v4(), data in prop::collection::vec(any::<u8>(), 0..40),
    ) {
        let to = another(&from, &other);
        let bytes = make::packet(&from, &data);
        let there = translated(&bytes, &to);
        prop_assert_eq!(read(&there).tuple(), Some(to));
        prop_assert_eq!(&there, &make::packet(&to, &data));
        prop_assert_eq!(translated(&there, &from), bytes, "there and back");
    }

    /// The first fragment has the checksum of the whole; put together, it is right.
    #[test]
    fn fragments_are_translated_each_for_itself(
        from in make::any_v4(), other in make::any_v4(), cut in 3..8_usize,
    ) {
        let to = another(&from, &other);
        let bytes = make::packet(&from, &[9; 60]);
        let first = translated(&make::fragment(&bytes, 0, cut * 8, 77), &to);
        let last = translated(&make::fragment(&bytes, cut * 8, bytes.len() - 20, 77), &to);
        let mut whole = [&first[..], &last[20..]].concat();
        whole[2..8].copy_from_slice(&bytes[2..8]);
        make::reseal(&mut whole);
        prop_assert_eq!(whole, make::packet(&to, &[9; 60]));
    }

    /// An error about a translated packet becomes the error about the original.
    #[test]
    fn an_error_is_translated_with_what_it_quotes(
        from in make::any_v4(), other in make::any_v4(), quoted in 28..90_usize, router in any::<[u8; 4]>(),
    ) {
        // Half a checksum cannot be corrected, and is of no use to whoever reads it.
        prop_assume!(quoted != 37);
        let to = another(&from, &other);
        let (inside, outside) = (make::packet(&from, &[9; 40]), make::packet(&to, &[9; 40]));
        let mut bytes = make::error(v4(router), to.source, 3, 4, &outside, quoted);
        let packet = read(&bytes);
        translate_error(&mut bytes, &packet, &from, v4(router), from.source).unwrap();
        let read = read(&bytes);
        let Transport::Error(error) = read.transport else { panic!("{read:?}") };
        prop_assert_eq!(error.tuple, from);
        prop_assert_eq!(bytes, make::error(v4(router), from.source, 3, 4, &inside, quoted));
    }

    #[test]
    fn bytes_of_another_packet_are_no_panic(from in make::any_v4(), other in make::any_v4(), cut in 0..100_usize) {
        let to = another(&from, &other);
        let inner = make::packet(&from, &[9; 40]);
        let error = make::error(v4([9, 9, 9, 9]), from.source, 3, 4, &inner, 60);
        let (inner, error) = (Packet::read(&inner).unwrap(), Packet::read(&error).unwrap());
        let mut bytes = vec![0x45; cut];
        let _ = translate(&mut bytes, &inner, &to);
        let _ = translate_error(&mut bytes, &error, &to, to.source, to.destination);
        let _ = (count_hop(&mut bytes, &inner), clamp_mss(&mut bytes, &inner, 0));
    }
}

#[test]
fn an_echo_keeps_its_one_identifier() {
    let request = tuple(ICMP, (v4([10, 0, 0, 1]), 5), (v4([10, 0, 0, 2]), 0));
    let to = Tuple { source: v4([192, 0, 2, 1]), source_port: 9000, ..request };
    let bytes = translated(&make::echo(&request, b"ping"), &to);
    assert_eq!(read(&bytes).tuple(), Some(to));
}
