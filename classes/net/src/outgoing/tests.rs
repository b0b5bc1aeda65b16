//! A device that does what packet headers ask, between the check and the wire: what was checked
//! must still be true there.

use super::*;
use crate::checksum;
use crate::wire::protocols::{TCP, UDP};
use proptest::prelude::*;
use std::vec::Vec;

const OWN: Mac = Mac::new([2, 0, 0, 0, 0, 1]);
const OTHER: Mac = Mac::new([2, 0, 0, 0, 0, 2]);

/// A frame of TCP or UDP with so many bytes of payload, and `tags` VLAN tags.
fn frame(version_4: bool, protocol: u8, tags: usize, payload: usize) -> Vec<u8> {
    let least = if protocol == TCP { 20 } else { 8 };
    let mut frame = Vec::from([0xff; 6]);
    frame.extend(OWN.bytes());
    for _ in 0..tags {
        frame.extend([0x81, 0, 0, 5]);
    }
    let size = least + payload;
    if version_4 {
        frame.extend([8, 0, 0x45, 0]);
        frame.extend(((20 + size) as u16).to_be_bytes());
        frame.extend([0, 0, 0x40, 0, 64, protocol, 0, 0, 10, 0, 0, 1, 10, 0, 0, 2]);
    } else {
        frame.extend([0x86, 0xdd, 0x60, 0, 0, 0]);
        frame.extend((size as u16).to_be_bytes());
        frame.extend([protocol, 64]);
        frame.extend([7; 32]);
    }
    let start = frame.len();
    frame.resize(start + size, 0);
    if protocol == TCP {
        frame[start + 12] = 0x50;
    }
    frame
}

/// The header with which the client library asks for a checksum.
fn ask(frame: &mut [u8]) -> PacketHeader {
    let (checksum_start, checksum_offset) = checksum::offload(frame).expect("TCP or UDP");
    PacketHeader { flags: flags::NEEDS_CHECKSUM, checksum_start, checksum_offset, ..PacketHeader::default() }
}

fn check(header: PacketHeader, frame: &[u8]) -> bool {
    may_send(header, &frame[..frame.len().min(HEAD)], frame.len(), OWN)
}

/// The header and frame of 40 segments.
fn large(version_4: bool) -> (PacketHeader, Vec<u8>) {
    let (kind, headers) = if version_4 { (segmentation::TCP_4, 54) } else { (segmentation::TCP_6, 74) };
    let segment_size = 1514 - headers;
    let mut frame = frame(version_4, TCP, 0, 40 * usize::from(segment_size));
    let asked = ask(&mut frame);
    (PacketHeader { segmentation: kind, header_length: headers, segment_size, ..asked }, frame)
}

/// Completes a frame that asks for a checksum, as a device does (VIRTIO 1.2 §5.1.6.2): wherever it
/// is told to.
fn complete(header: PacketHeader, frame: &mut [u8]) {
    let start = usize::from(header.checksum_start);
    let place = start + usize::from(header.checksum_offset);
    if header.flags & flags::NEEDS_CHECKSUM != 0
        && let Some(bytes) = frame.get(start..)
        && place + 2 <= frame.len()
    {
        let sum = !checksum::Sum::ZERO.add_bytes(bytes).fold();
        frame[place..place + 2].copy_from_slice(&sum.to_le_bytes());
    }
}

proptest! {
    /// Whatever a header asks for and wherever IP begins: what is let through has the checked
    /// address behind the device too.
    #[test]
    fn the_device_writes_behind_what_was_checked(
        flags in 0..4_u8, segmentation in 0..6_u8, header_length: u16, segment_size: u16,
        checksum_start in 0..120_u16, checksum_offset in prop_oneof![0..40_u16, any::<u16>()],
        kind in 0..4_u8, tags in 0..4_usize, changes in proptest::collection::vec((12..120_usize, any::<u8>()), 0..4),
    ) {
        let mut frame = frame(kind & 1 == 0, if kind & 2 == 0 { TCP } else { UDP }, tags, 40);
        for (at, byte) in changes {
            let at = at % frame.len();
            frame[at.max(12)] = byte;
        }
        let header = PacketHeader { flags, segmentation, header_length, segment_size, checksum_start, checksum_offset, buffers: 0 };
        if check(header, &frame) {
            let before = frame.clone();
            complete(header, &mut frame);
            // Nothing but two bytes of what is behind Ethernet and IP has changed.
            prop_assert_eq!(&frame[..34], &before[..34]);
        }
    }

    /// What is let through as many segments can be divided, into frames that the link takes.
    #[test]
    fn segments_that_are_let_through_fit_the_link(
        version_4: bool, payload in 0..4000_usize, size in 40..1500_u16, words in 4..16_u8,
        change in proptest::option::of((12..80_usize, any::<u8>())), headers in -1..2_i16,
    ) {
        let mut frame = frame(version_4, TCP, 0, payload);
        let asked = ask(&mut frame);
        let start = usize::from(asked.checksum_start);
        frame[start + 12] = words << 4;
        if let Some((at, byte)) = change {
            let at = at % frame.len();
            frame[at.max(12)] = byte;
        }
        let header = PacketHeader {
            segmentation: if version_4 { segmentation::TCP_4 } else { segmentation::TCP_6 },
            header_length: (asked.checksum_start + 4 * u16::from(words)).wrapping_add_signed(headers),
            segment_size: size,
            ..asked
        };
        if check(header, &frame) {
            let length = usize::from(header.header_length);
            let segments = segments::Segments::new(&frame[..length], frame.len(), size).expect("it can be divided");
            let longest = (0..segments.count()).map(|index| length + segments.payload(index).len()).max();
            prop_assert!(longest.is_some_and(|longest| longest <= ETHERNET_HEADER + MTU));
        }
    }

    #[test]
    fn any_bytes_are_survived(frame in proptest::collection::vec(any::<u8>(), 0..200), header: [u8; 12], kind in 0..5_usize) {
        let mut frame = frame;
        if frame.len() > 15 {
            frame[6..12].copy_from_slice(&OWN.bytes());
            let kinds = [[8_u8, 0], [8, 6], [0x81, 0], [0x86, 0xdd], [0x88, 0xa8]];
            frame[12..14].copy_from_slice(&kinds[kind]);
        }
        let _ = check(PacketHeader::read(&header), &frame);
    }
}

#[test]
fn a_checksum_over_the_checked_address_is_refused() {
    let mut frame = frame(true, UDP, 0, 40);
    let good = ask(&mut frame);
    assert!(check(good, &frame));
    // The device would write the sum of what follows at the second half of the source address.
    for (checksum_start, checksum_offset) in [(0, 6), (0, 10), (4, 4), (8, 2), (10, 0), (14, 12), (14, 20), (34, 4)] {
        assert!(
            !check(PacketHeader { checksum_start, checksum_offset, ..good }, &frame),
            "{checksum_start} {checksum_offset}"
        );
    }
}

#[test]
fn what_the_client_library_asks_for_is_let_through() {
    for version_4 in [true, false] {
        for protocol in [TCP, UDP] {
            let mut frame = frame(version_4, protocol, 0, 100);
            let header = ask(&mut frame);
            assert!(check(header, &frame), "{version_4} {protocol}");
            assert!(check(PacketHeader::default(), &frame));
        }
        let (header, frame) = large(version_4);
        assert!(check(header, &frame), "segments, {version_4}");
    }
}

#[test]
fn tags_are_looked_behind() {
    for tags in 1..4 {
        let mut frame = frame(true, TCP, tags, 40);
        let start = (34 + tags * TAG) as u16;
        let header = PacketHeader { flags: 1, checksum_start: start, checksum_offset: 16, ..PacketHeader::default() };
        assert_eq!(check(header, &frame), tags < 3, "{tags} tags");
        assert!(!check(PacketHeader { checksum_start: 34, ..header }, &frame));
        frame[17..19].copy_from_slice(&[0xff, 0xff]);
        assert!(!check(header, &frame));
    }
}

#[test]
fn nobody_elses_address_is_sent() {
    let mut frame = frame(true, UDP, 0, 40);
    frame[6..12].copy_from_slice(&OTHER.bytes());
    assert!(!check(PacketHeader::default(), &frame));
    assert!(!check(PacketHeader::default(), &frame[..11]));
    for tags in 0..2 {
        let mut arp = Vec::from([0xff; 6]);
        arp.extend(OWN.bytes());
        if tags > 0 {
            arp.extend([0x81, 0, 0, 0]);
        }
        arp.extend([8, 6, 0, 1, 8, 0, 6, 4, 0, 2]);
        let sender = arp.len();
        arp.extend(OWN.bytes());
        arp.extend([0; 14]);
        assert!(check(PacketHeader::default(), &arp));
        arp[sender..sender + 6].copy_from_slice(&OTHER.bytes());
        assert!(!check(PacketHeader::default(), &arp), "ARP in the name of another, {tags} tags");
        assert!(!check(PacketHeader::default(), &arp[..sender]));
    }
}

#[test]
fn checksums_have_their_place() {
    let mut frame = frame(true, UDP, 0, 40);
    let good = ask(&mut frame);
    for bad in [
        PacketHeader { checksum_offset: 16, ..good },
        PacketHeader { checksum_start: 35, ..good },
        PacketHeader { checksum_start: u16::MAX, ..good },
        PacketHeader { checksum_offset: u16::MAX, ..good },
        PacketHeader { flags: 3, ..good },
        PacketHeader { flags: 2, ..PacketHeader::default() },
        PacketHeader { segmentation: segmentation::TCP_4, header_length: 42, segment_size: 1000, ..good },
        PacketHeader { segmentation: 1, ..PacketHeader::default() },
    ] {
        assert!(!check(bad, &frame), "{bad:?}");
    }
    let without = PacketHeader { checksum_start: 500, ..PacketHeader::default() };
    assert!(check(without, &frame), "what is not asked for may say anything");
    for (at, byte) in [(20, 0x20), (14, 0x44), (14, 0x65), (23, 1), (16, 0xff), (17, 27), (12, 0x86)] {
        let mut frame = frame.clone();
        frame[at] = byte;
        assert!(!check(good, &frame), "byte {at} is {byte:#x}");
    }
}

#[test]
fn segments_need_headers_and_payload() {
    for version_4 in [true, false] {
        let (good, frame) = large(version_4);
        let other = segmentation::TCP_4 + segmentation::TCP_6 - good.segmentation;
        assert!(!check(PacketHeader::default(), &frame) && !check(PacketHeader::default(), &frame[..1519]));
        assert!(check(PacketHeader::default(), &frame[..1518]));
        for bad in [
            PacketHeader { flags: 0, ..good },
            PacketHeader { segmentation: other, ..good },
            PacketHeader { segmentation: 3, ..good },
            PacketHeader { header_length: good.checksum_start, ..good },
            PacketHeader { header_length: good.header_length - 1, ..good },
            PacketHeader { header_length: good.header_length + 1, ..good },
            PacketHeader { segment_size: 0, ..good },
            PacketHeader { segment_size: MIN_SEGMENT - 1, ..good },
            PacketHeader { segment_size: good.segment_size + 1, ..good },
            PacketHeader { checksum_start: 59_999, ..good },
            PacketHeader { checksum_start: 14, ..good },
        ] {
            assert!(!check(bad, &frame), "{bad:?}");
        }
        assert!(!check(good, &frame[..frame.len() - 1]), "lengths add up");
        // Shorter headers than TCP's, longer ones than the packet header says, another protocol,
        // another version of IP, and another's address.
        let words = usize::from(good.checksum_start) + 12;
        let (protocol, kind) = if version_4 { (23, 0x86) } else { (20, 0x08) };
        for (at, byte) in [(words, 0x40), (words, 0x60), (protocol, UDP), (12, kind), (11, 2)] {
            let mut frame = frame.clone();
            frame[at] = byte;
            assert!(!check(good, &frame), "byte {at} is {byte:#x}");
        }
    }
}
