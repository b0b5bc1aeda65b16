//! Headers, right and wrong.

use crate::make::{self, ACK, FIN, RST, SYN, Segment, tuple, v4, v6};
use culm_flow::{ICMP, ICMP6, Malformed, Packet, SCTP, TCP, Transport, UDP};
use proptest::prelude::*;

const CLIENT: [u8; 4] = [10, 0, 1, 5];
const SERVER: [u8; 4] = [192, 0, 2, 80];

fn from_client(protocol: u8) -> culm_flow::Tuple {
    tuple(protocol, (v4(CLIENT), 4000), (v4(SERVER), 80))
}

/// A packet of IPv6 whose payload is `chain`, the first header being `first`.
fn v6_packet(first: u8, chain: &[u8]) -> Vec<u8> {
    make::ip(v6(1), v6(2), first, 64, chain)
}

fn v6_udp() -> Vec<u8> {
    make::udp(&tuple(UDP, (v6(1), 4000), (v6(2), 53)), b"question")[40..].to_vec()
}

#[test]
fn a_segment_is_read() {
    let options = vec![1, 2, 4, 5, 0xb4, 3, 3, 15];
    let segment = Segment { flags: SYN, sequence: 7, window: 500, options, data: 3, ..Segment::default() };
    let mut bytes = make::tcp(&from_client(TCP), &segment);
    bytes.extend([0; 6]);
    let packet = Packet::read(&bytes).unwrap();
    assert_eq!((packet.length, packet.payload, packet.hops), (bytes.len() - 6, 20, 64));
    assert_eq!(packet.tuple(), Some(from_client(TCP)));
    let Transport::Tcp(read) = packet.transport else { panic!("{packet:?}") };
    assert_eq!((read.sequence, read.window, read.data, read.advance()), (7, 500, 3, 4));
    assert_eq!((read.scale, read.mss_at), (Some(14), Some(23)), "a larger scale is taken for 14");
}

#[test]
fn options_that_are_cut_short_end_the_list() {
    for options in [vec![1, 2, 4, 5], vec![2, 0, 0, 0], vec![0, 2, 4, 5, 0xb4], vec![9, 200, 1, 1]] {
        let segment = Segment { flags: SYN, options, ..Segment::default() };
        let bytes = make::tcp(&from_client(TCP), &segment);
        let Transport::Tcp(read) = Packet::read(&bytes).unwrap().transport else { panic!() };
        assert_eq!((read.scale, read.mss_at), (None, None));
    }
}

#[test]
fn flags_that_contradict_each_other_are_refused() {
    let read = |flags| Packet::read(&make::tcp(&from_client(TCP), &Segment { flags, ..Segment::default() }));
    for flags in [0, FIN, SYN | FIN, SYN | RST, SYN | ACK | FIN, 0b10_1001] {
        assert_eq!(read(flags), Err(Malformed::Flags), "{flags:#b}");
    }
    for flags in [SYN, SYN | ACK, ACK, ACK | FIN, RST, RST | ACK] {
        assert!(read(flags).is_ok(), "{flags:#b}");
    }
}

#[test]
fn lengths_that_contradict_each_other_are_refused() {
    let good = make::udp(&from_client(UDP), b"data");
    for (at, value, problem) in [
        (0, 0x44, Malformed::Length),
        (0, 0x35, Malformed::Version),
        (3, 19, Malformed::Length),
        (3, 200, Malformed::Truncated),
        (8, 7, Malformed::Checksum),
    ] {
        let mut bytes = good.clone();
        bytes[at] = value;
        assert_eq!(Packet::read(&bytes), Err(problem));
    }
    for (length, is_good) in [(7, false), (8, true), (12, true), (13, false)] {
        let mut bytes = good.clone();
        bytes[25] = length;
        assert_eq!(Packet::read(&bytes).is_ok(), is_good, "{length}");
    }
    for offset in [4, 6, 15] {
        let mut bytes = make::tcp(&from_client(TCP), &Segment { flags: ACK, ..Segment::default() });
        bytes[32] = offset << 4;
        assert!(Packet::read(&bytes).is_err(), "{offset}");
    }
}

#[test]
fn a_source_route_is_refused_and_other_options_are_not() {
    let with = |options: [u8; 4]| {
        let plain = make::udp(&from_client(UDP), b"");
        let mut bytes = [&plain[..20], &options, &plain[20..]].concat();
        bytes[0] = 0x46;
        bytes[3] += 4;
        bytes[10..12].copy_from_slice(&[0, 0]);
        let sum = make::checksum(&bytes[..24]);
        bytes[10..12].copy_from_slice(&sum);
        Packet::read(&bytes)
    };
    assert_eq!(with([131, 3, 4, 0]), Err(Malformed::SourceRoute));
    assert_eq!(with([1, 137, 3, 4]), Err(Malformed::SourceRoute));
    assert_eq!(with([148, 5, 0, 0]), Err(Malformed::Length));
    assert_eq!(with([148, 1, 0, 0]), Err(Malformed::Length));
    assert_eq!(with([148, 4, 0, 0]).unwrap().payload, 24);
    assert_eq!(with([0, 137, 3, 4]).unwrap().tuple(), Some(from_client(UDP)));
}

#[test]
fn extension_headers_are_walked_to_the_ports() {
    let mut chain = vec![60, 0, 1, 4, 0, 0, 0, 0, 43, 1, 1, 4, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0];
    chain.extend([UDP, 0, 4, 0, 0, 0, 0, 0]);
    chain.extend(v6_udp());
    let packet = Packet::read(&v6_packet(0, &chain)).unwrap();
    assert_eq!((packet.protocol, packet.payload, packet.fragment), (UDP, 72, None));
    assert_eq!(packet.tuple(), Some(tuple(UDP, (v6(1), 4000), (v6(2), 53))));
}

#[test]
fn chains_of_extension_headers_have_rules_and_a_bound() {
    let destinations = |count: usize| {
        let mut chain = [60, 0, 1, 4, 0, 0, 0, 0].repeat(count - 1);
        chain.extend([UDP, 0, 1, 4, 0, 0, 0, 0]);
        chain.extend(v6_udp());
        Packet::read(&v6_packet(60, &chain))
    };
    assert_eq!(destinations(8).unwrap().payload, 104);
    assert_eq!(destinations(9), Err(Malformed::Extension));
    let read = |first, chain: &[u8]| Packet::read(&v6_packet(first, &[chain, &v6_udp()].concat()));
    assert_eq!(read(60, &[0, 0, 1, 4, 0, 0, 0, 0, UDP, 0, 1, 4, 0, 0, 0, 0]), Err(Malformed::Extension));
    assert_eq!(read(43, &[UDP, 0, 0, 1, 0, 0, 0, 0]), Err(Malformed::SourceRoute));
    assert_eq!(read(60, &[UDP, 20, 1, 4, 0, 0, 0, 0]), Err(Malformed::Truncated));
    let twice = [44, 0, 0, 1, 0, 0, 0, 9, UDP, 0, 0, 1, 0, 0, 0, 9];
    assert_eq!(read(44, &twice), Err(Malformed::Extension));
}

#[test]
fn fragments_of_ipv6_know_their_place() {
    let read = |offset: u16, chain: &[u8]| {
        let [high, low] = offset.to_be_bytes();
        Packet::read(&v6_packet(44, &[&[UDP, 0, high, low, 0, 0, 1, 2], chain].concat()))
    };
    let whole = read(0, &v6_udp()).unwrap();
    assert!(whole.fragment.is_none() && whole.tuple().is_some(), "a packet that is its own only fragment");
    let first = read(1, &v6_udp()).unwrap();
    let fragment = first.fragment.unwrap();
    assert_eq!((fragment.identification, fragment.offset, fragment.length, fragment.more), (0x102, 0, 16, true));
    assert!(first.tuple().is_some());
    let later = read(8 << 3 | 1, &[9; 24]).unwrap();
    let fragment = later.fragment.unwrap();
    assert_eq!((later.protocol, later.tuple(), fragment.offset, fragment.length), (UDP, None, 64, 24));
    assert_eq!(read(1, &[9; 23]), Err(Malformed::Fragment), "not a multiple of 8");
    assert_eq!(read(0xfff8, &[9; 8]), Err(Malformed::Fragment), "beyond the longest packet");
    assert_eq!(read(8, &[]), Err(Malformed::Fragment), "empty");
}

#[test]
fn a_first_fragment_has_the_whole_transport_header() {
    let data = vec![7; 100];
    let packet = make::packet(&from_client(TCP), &data);
    assert_eq!(Packet::read(&make::fragment(&packet, 0, 16, 1)), Err(Malformed::Fragment));
    assert!(Packet::read(&make::fragment(&packet, 0, 24, 1)).is_ok());
    assert_eq!(Packet::read(&make::fragment(&packet, 8, 40, 1)), Err(Malformed::Fragment), "overwrites the flags");
    let rest = Packet::read(&make::fragment(&packet, 24, 120, 1)).unwrap();
    assert_eq!((rest.transport, rest.tuple()), (Transport::Rest, None));
    assert!(!rest.fragment.unwrap().more);
}

#[test]
fn an_error_tells_of_the_flow_it_is_about() {
    for (protocol, quoted) in [(TCP, 28), (UDP, 28), (ICMP, 28), (TCP, 1000)] {
        let mut about = from_client(protocol);
        about.destination_port = if protocol == ICMP { 0 } else { 80 };
        let bytes = make::error(v4([203, 0, 113, 1]), v4(CLIENT), 3, 4, &make::packet(&about, &[0; 40]), quoted);
        let packet = Packet::read(&bytes).unwrap();
        let Transport::Error(error) = packet.transport else { panic!("{packet:?}") };
        assert_eq!((error.tuple, error.sequence), (about, (protocol == TCP).then_some(0)));
        assert_eq!((packet.tuple(), error.transport), (None, 28));
    }
}

#[test]
fn errors_about_nothing_that_is_tracked_are_refused() {
    let about = from_client(UDP);
    let read =
        |kind, packet: &[u8], quoted| Packet::read(&make::error(v4(SERVER), v4(CLIENT), kind, 0, packet, quoted));
    let packet = make::packet(&about, &[0; 40]);
    assert_eq!(read(3, &packet, 27), Err(Malformed::Truncated));
    assert_eq!(read(11, &packet, 10), Err(Malformed::Truncated));
    let error = make::error(v4(CLIENT), v4(SERVER), 3, 0, &packet, 100);
    assert_eq!(read(3, &error, 100), Err(Malformed::Length), "an error about an error");
    assert_eq!(read(3, &make::fragment(&packet, 8, 48, 1), 100), Err(Malformed::Fragment));
    let six = make::udp(&tuple(UDP, (v6(1), 1), (v6(2), 2)), b"");
    assert_eq!(read(3, &six, 100), Err(Malformed::Version));
    let mut damaged = make::error(v4(SERVER), v4(CLIENT), 3, 0, &packet, 28);
    damaged[45] ^= 1;
    assert_eq!(Packet::read(&damaged), Err(Malformed::Checksum));
    let mut other = packet.clone();
    other[8] -= 1;
    assert_eq!(read(3, &other, 28), Err(Malformed::Checksum), "RFC 5508 REQ-3 a");
    for kind in [4, 5] {
        assert_eq!(read(kind, &packet, 28).unwrap().transport, Transport::Control { kind, code: 0 });
    }
}

#[test]
fn errors_of_ipv6_are_read() {
    let about = tuple(TCP, (v6(1), 4000), (v6(2), 80));
    let mut bytes = make::error(v6(9), v6(1), 2, 0, &make::packet(&about, &[0; 2000]), 1000);
    let Transport::Error(error) = Packet::read(&bytes).unwrap().transport else { panic!() };
    assert_eq!((error.tuple, error.transport), (about, 48));
    bytes[8] ^= 1;
    assert_eq!(Packet::read(&bytes), Err(Malformed::Checksum), "the sum has the addresses");
    let echo = make::echo(&tuple(ICMP6, (v6(1), 9), (v6(2), 0)), b"ping");
    assert_eq!(Packet::read(&echo).unwrap().tuple(), Some(tuple(ICMP6, (v6(1), 9), (v6(2), 0))));
}

#[test]
fn icmp_of_the_other_version_is_any_protocol() {
    let bytes = make::ip(v4(CLIENT), v4(SERVER), ICMP6, 64, &[3, 0]);
    assert_eq!(Packet::read(&bytes).unwrap().transport, Transport::Other);
    let bytes = v6_packet(ICMP, &[3, 0]);
    assert_eq!(Packet::read(&bytes).unwrap().transport, Transport::Other);
}

proptest! {
    #[test]
    fn nothing_is_a_panic(bytes in prop::collection::vec(any::<u8>(), 0..200), version in any::<bool>()) {
        let mut bytes = bytes;
        if let Some(first) = bytes.first_mut() {
            *first = if version { 0x45 } else { 0x60 };
        }
        if let Ok(packet) = Packet::read(&bytes) {
            prop_assert!(packet.length <= bytes.len() && packet.payload <= packet.length);
        }
    }

    /// Cutting a packet anywhere, or changing a byte, gives an error or a packet within its bounds.
    #[test]
    fn damage_is_no_panic(tuple in make::any_v4(), at in any::<usize>(), value in any::<u8>(), cut in 0..120_usize) {
        let inner = make::packet(&tuple, &[5; 20]);
        let outer = make::error(v4(SERVER), v4(CLIENT), 11, 0, &inner, 60);
        for mut bytes in [inner, outer] {
            let at = at % bytes.len();
            bytes[at] = value;
            make::reseal(&mut bytes);
            bytes.truncate(cut);
            if let Ok(packet) = Packet::read(&bytes) {
                prop_assert!(packet.length <= bytes.len() && packet.payload <= packet.length);
            }
        }
    }
}

/// What is put together is longer by its own headers (RFC 791 §3.1, RFC 8200 §4.5).
#[test]
fn fragments_make_no_packet_beyond_the_longest() {
    for (length, is_right) in [(11, true), (12, false)] {
        let mut bytes = make::ip(v4(CLIENT), v4(SERVER), UDP, 64, &vec![0; length]);
        bytes[6..8].copy_from_slice(&(65_504_u16 / 8).to_be_bytes());
        make::reseal(&mut bytes);
        assert_eq!(Packet::read(&bytes).is_ok(), is_right, "IPv4, {length} bytes");
    }
    let fragment = [&[UDP, 0, 0xff, 0xf8, 0, 0, 0, 9][..], &[0; 7]].concat();
    assert!(Packet::read(&v6_packet(44, &fragment)).is_ok());
    let behind_options = [&[44, 0, 1, 4, 0, 0, 0, 0][..], &fragment].concat();
    assert_eq!(Packet::read(&v6_packet(0, &behind_options)), Err(Malformed::Fragment));
}

/// Rules may name its ports (RFC 9260 §3.1).
#[test]
fn sctp_has_ports() {
    let tuple = from_client(SCTP);
    let message = [&4000_u16.to_be_bytes()[..], &80_u16.to_be_bytes(), &[7; 24]].concat();
    let bytes = make::ip(tuple.source, tuple.destination, SCTP, 64, &message);
    assert_eq!(Packet::read(&bytes).unwrap().tuple(), Some(tuple));
    assert_eq!(Packet::read(&make::fragment(&bytes, 0, 16, 1)).unwrap().tuple(), Some(tuple));
    assert_eq!(Packet::read(&make::fragment(&bytes, 0, 8, 1)), Err(Malformed::Fragment));
    let error = make::error(v4(SERVER), v4(CLIENT), 3, 1, &bytes, 28);
    let Transport::Error(quoted) = Packet::read(&error).unwrap().transport else { panic!() };
    assert_eq!(quoted.tuple, tuple);
}
