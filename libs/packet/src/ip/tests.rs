//! Lengths that contradict each other, extension headers out of their place, any bytes at all.

use super::*;
use proptest::prelude::*;
use std::vec::Vec;

/// A header of 20 bytes and 4 of payload, behind which two of padding are.
const PACKET_4: [u8; 26] = [0x45, 0, 0, 24, 1, 2, 0x20, 3, 64, 17, 0, 0, 10, 0, 0, 1, 10, 0, 0, 2, 9, 9, 9, 9, 0, 0];

#[test]
fn lengths_of_ipv4_fit_each_other() {
    let read = |at: usize, value: u8, extent, until: usize| {
        let mut bytes = PACKET_4;
        bytes[at] = value;
        Packet4::read(&bytes[..until], extent).map(|packet| (packet.payload.len(), packet.options().len()))
    };
    assert_eq!(read(0, 0x45, Extent::Whole, 26), Ok((4, 0)));
    assert_eq!(read(0, 0x46, Extent::Whole, 26), Ok((0, 4)));
    assert_eq!(read(0, 0x55, Extent::Whole, 26), Err(Flaw::Version));
    assert_eq!(read(0, 0x44, Extent::Whole, 26), Err(Flaw::HeaderLength));
    assert_eq!(read(0, 0x47, Extent::Whole, 26), Err(Flaw::TotalLength));
    assert_eq!(read(3, 19, Extent::Whole, 26), Err(Flaw::TotalLength));
    assert_eq!(read(3, 27, Extent::Whole, 26), Err(Flaw::Truncated));
    assert_eq!(read(3, 27, Extent::Quoted, 26), Ok((6, 0)));
    assert_eq!(read(0, 0x46, Extent::Quoted, 23), Err(Flaw::Truncated));
    assert_eq!(read(0, 0x45, Extent::Quoted, 19), Err(Flaw::Truncated));
    assert_eq!(Packet4::read(&[], Extent::Quoted).err(), Some(Flaw::Truncated));
}

#[test]
fn a_header_says_its_fragments_place() {
    let packet = Packet4::read(&PACKET_4, Extent::Whole).expect("a packet");
    assert_eq!(Part::of(packet.header), Part { identification: 0x0102, offset: 24, has_more: true });
    let mut bytes = PACKET_4;
    bytes[10..12].copy_from_slice(&Sum::ZERO.add_bytes(&PACKET_4[..20]).checksum().to_be_bytes());
    assert!(!packet.is_intact());
    assert!(Packet4::read(&bytes, Extent::Whole).expect("a packet").is_intact());
}

#[test]
fn a_packet_of_ipv6_ends_where_it_says() {
    let mut bytes = [0; 50];
    bytes[0] = 0x60;
    bytes[5] = 6;
    bytes[6] = 17;
    let payload = |bytes: &[u8], extent| Packet6::read(bytes, extent).map(|packet| packet.payload.len());
    assert_eq!(payload(&bytes, Extent::Whole), Ok(6));
    assert_eq!(payload(&bytes[..45], Extent::Whole), Err(Flaw::Truncated));
    assert_eq!(payload(&bytes[..45], Extent::Quoted), Ok(5));
    assert_eq!(payload(&bytes[..39], Extent::Quoted), Err(Flaw::Truncated));
    bytes[0] = 0x45;
    assert_eq!(payload(&bytes, Extent::Whole), Err(Flaw::Version));
}

/// Walks to the protocol, and returns it with the kinds of the headers in front.
fn walk(first: u8, bytes: &[u8]) -> Result<(u8, Vec<u8>), Flaw> {
    let (mut walk, mut kinds) = (Extensions::new(first, bytes), Vec::new());
    while let Some(header) = walk.advance()? {
        kinds.push(header.kind);
    }
    Ok((walk.protocol, kinds))
}

#[test]
fn extension_headers_are_walked_over_in_their_order() {
    let bytes = [
        &[60, 0, 0, 0, 0, 0, 0, 0][..],
        &[43, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0],
        &[44, 0, 0, 0, 0, 0, 0, 0],
        &[17, 255, 0x05, 0xa9, 1, 2, 3, 4],
    ]
    .concat();
    assert_eq!(walk(0, &bytes), Ok((17, [0, 60, 43, 44].into())));
    for end in 0..bytes.len() {
        assert_eq!(walk(0, &bytes[..end]), Err(Flaw::Truncated), "{end}");
    }
    let fragment = Extensions::new(44, &bytes[32..]).advance().expect("it is whole").expect("it is one");
    assert_eq!(fragment.part(), Some(Part { identification: 0x0102_0304, offset: 0x05a8, has_more: true }));
    assert_eq!(walk(60, &[0; 16]), Err(Flaw::Extension), "hop-by-hop comes first");
}

#[test]
fn as_many_extension_headers_as_may_be_are_walked_over() {
    let chain = |count: usize| {
        let mut bytes = [60, 0, 0, 0, 0, 0, 0, 0].repeat(count);
        bytes[(count - 1) * 8] = 17;
        walk(60, &bytes)
    };
    assert_eq!(chain(MOST_EXTENSIONS), Ok((17, [60; MOST_EXTENSIONS].into())));
    assert_eq!(chain(MOST_EXTENSIONS + 1), Err(Flaw::Extension));
}

proptest! {
    #[test]
    fn nothing_that_comes_is_a_panic(mut bytes in prop::collection::vec(any::<u8>(), 0..100), is_v6: bool, whole: bool) {
        let extent = if whole { Extent::Whole } else { Extent::Quoted };
        if let Some(first) = bytes.first_mut() {
            *first = if is_v6 { 0x60 } else { 0x40 | *first & 15 };
        }
        if let Ok(packet) = Packet4::read(&bytes, extent) {
            prop_assert!(!whole || packet.whole_header.len() + packet.payload.len() == packet.length);
        }
        if let Ok(packet) = Packet6::read(&bytes, extent) {
            prop_assert!(!whole || 40 + packet.payload.len() == packet.length);
            let mut walk = packet.extensions();
            while let Ok(Some(header)) = walk.advance() {
                prop_assert!(header.content.len() >= 6);
            }
            prop_assert!(packet.payload.ends_with(walk.rest));
        }
    }
}
