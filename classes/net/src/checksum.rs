//! The checksums of TCP and UDP in frames: checked, completed, or left to a device.

use crate::header::flags::NEEDS_CHECKSUM;
use crate::wire::{Ethernet, Ipv4, Ipv6, ipv4, ipv6, protocols, tcp, types, udp};
use crate::{ETHERNET_HEADER, PacketHeader};

pub use culm_packet::checksum::Sum;

/// The place of the TCP or UDP part of a frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Transport {
    /// Its first byte, from the frame's start.
    pub start: usize,
    /// Its end, from the frame's start.
    pub end: usize,
    /// Offset of its checksum from its first byte.
    pub checksum: usize,
    /// Sum of the pseudo-header (RFC 9293 §3.1, RFC 768).
    pub pseudo: Sum,
    /// Whether a checksum of 0 means that there is none (UDP over IPv4).
    pub optional: bool,
}

/// Finds the TCP or UDP part of a frame; `None` if there is none, or only a fragment, or the
/// lengths contradict each other.
#[inline]
pub fn transport(frame: &[u8]) -> Option<Transport> {
    match Ethernet::at(frame, 0)?.kind() {
        types::IPV4 => transport_4(frame),
        types::IPV6 => transport_6(frame),
        _ => None,
    }
}

#[inline]
fn transport_4(frame: &[u8]) -> Option<Transport> {
    let header = Ipv4::at(frame, ETHERNET_HEADER)?;
    let (header_length, total) = (header.header_length(), header.total_length());
    let start = ETHERNET_HEADER + header_length;
    let end = ETHERNET_HEADER + total;
    if header_length < ipv4::HEADER || header.is_fragment() || total < header_length || end > frame.len() {
        return None;
    }
    found(Sum::ZERO.add_bytes(header.addresses()), header.protocol(), start, end, true)
}

#[inline]
fn transport_6(frame: &[u8]) -> Option<Transport> {
    let header = Ipv6::at(frame, ETHERNET_HEADER)?;
    let start = ETHERNET_HEADER + ipv6::HEADER;
    let end = start + header.payload_length();
    if end > frame.len() {
        return None;
    }
    found(Sum::ZERO.add_bytes(header.addresses()), header.next_header(), start, end, false)
}

#[inline(always)]
fn found(addresses: Sum, protocol: u8, start: usize, end: usize, version_4: bool) -> Option<Transport> {
    let (checksum, shortest) = match protocol {
        protocols::TCP => (tcp::CHECKSUM, tcp::HEADER),
        protocols::UDP => (udp::CHECKSUM, udp::HEADER),
        _ => return None,
    };
    if end - start < shortest {
        return None;
    }
    let pseudo = addresses.add_number(protocol.into()).add_number((end - start) as u16);
    Some(Transport { start, end, checksum, pseudo, optional: version_4 && protocol == protocols::UDP })
}

/// Returns whether the TCP or UDP checksum of a frame is right; true for frames without such a
/// part, which are not checked here.
#[inline(never)]
pub fn is_right(frame: &[u8]) -> bool {
    let Some(part) = transport(frame) else { return true };
    let bytes = &frame[part.start..part.end];
    if part.optional && bytes[part.checksum..part.checksum + 2] == [0, 0] {
        return true;
    }
    part.pseudo.add_word(culm::sum(bytes)).is_intact()
}

/// Writes the TCP or UDP checksum of a frame.
#[inline]
pub fn complete(frame: &mut [u8]) {
    let Some(part) = transport(frame) else { return };
    let bytes = &mut frame[part.start..part.end];
    bytes[part.checksum..part.checksum + 2].fill(0);
    // A UDP checksum that comes out as 0 is sent as its other zero (RFC 768); TCP's is not, though
    // receivers take either (RFC 1624 §3).
    let sum = match !part.pseudo.add_word(culm::sum(bytes)).fold() {
        0 if part.checksum == udp::CHECKSUM => 0xffff,
        sum => sum,
    };
    bytes[part.checksum..part.checksum + 2].copy_from_slice(&sum.to_le_bytes());
}

/// Leaves the checksum to the device: writes the sum of the pseudo-header, which is where the
/// device begins (VIRTIO 1.2 §5.1.6.2), and returns where it is to sum from and, counted from
/// there, where to store.
#[inline]
pub fn offload(frame: &mut [u8]) -> Option<(u16, u16)> {
    let part = transport(frame)?;
    let place = part.start + part.checksum;
    frame[place..place + 2].copy_from_slice(&part.pseudo.fold().to_le_bytes());
    Some((part.start as u16, part.checksum as u16))
}

/// Completes the checksum that a frame's header asks the device for, where it asks: leaves that to
/// the device if it `offloads` checksums, and does it here if not. Returns the header to send it
/// with. One that is asked for where the frame has no room for it is left out.
pub fn finish(frame: &mut [u8], header: &PacketHeader, offloads: bool) -> PacketHeader {
    if header.flags & NEEDS_CHECKSUM == 0 {
        return PacketHeader::default();
    }
    let (checksum_start, checksum_offset) = (header.checksum_start, header.checksum_offset);
    if offloads {
        return PacketHeader { flags: NEEDS_CHECKSUM, checksum_start, checksum_offset, ..PacketHeader::default() };
    }
    if let Some((at, sum)) = asked_for(frame, header) {
        frame[at..at + 2].copy_from_slice(&sum);
    }
    PacketHeader::default()
}

/// Returns where the checksum is that a frame's header asks for, and what it is: the field has the
/// sum of the pseudo-header (VIRTIO 1.2 §5.1.6.2). Returns nothing if it is not in the frame.
pub fn asked_for(frame: &[u8], header: &PacketHeader) -> Option<(usize, [u8; 2])> {
    let start = usize::from(header.checksum_start);
    let at = start + usize::from(header.checksum_offset);
    let is_inside = at.checked_add(2).is_some_and(|end| end <= frame.len());
    let sum = !Sum::ZERO.add_word(culm::sum(frame.get(start..)?)).fold();
    // Of UDP's, zero would say that there is none (RFC 768).
    let is_udp = usize::from(header.checksum_offset) == udp::CHECKSUM;
    let sum = if sum == 0 && is_udp { u16::MAX } else { sum };
    is_inside.then_some((at, sum.to_ne_bytes()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::vec::Vec;

    fn udp_frame(payload: &[u8], ipv6: bool) -> Vec<u8> {
        let mut frame = Vec::from([0x55; 12]);
        let length = (8 + payload.len()) as u16;
        if ipv6 {
            frame.extend([0x86, 0xdd, 0x60, 0, 0, 0]);
            frame.extend(length.to_be_bytes());
            frame.extend([17, 64]);
            frame.extend([7; 32]);
        } else {
            frame.extend([0x08, 0, 0x45, 0]);
            frame.extend((20 + length).to_be_bytes());
            frame.extend([0, 0, 0x40, 0, 64, 17, 0, 0, 10, 0, 0, 1, 10, 0, 0, 2]);
        }
        frame.extend([1, 2, 3, 4]);
        frame.extend(length.to_be_bytes());
        frame.extend([0xde, 0xad]);
        frame.extend(payload);
        frame
    }

    proptest! {
        #[test]
        fn what_is_completed_is_right(payload in proptest::collection::vec(any::<u8>(), 0..100), ipv6: bool, bit in 0..800_usize) {
            let mut frame = udp_frame(&payload, ipv6);
            complete(&mut frame);
            prop_assert!(is_right(&frame));
            let start = transport(&frame).expect("UDP").start;
            let place = start + bit / 8 % (frame.len() - start);
            // The UDP length is not what the IP header says, so it may differ unnoticed only in the
            // sum.
            frame[place] ^= 1 << (bit % 8);
            prop_assert!(!is_right(&frame) || frame[start + 6..start + 8] == [0, 0]);
        }

        #[test]
        fn a_device_completes_what_was_offloaded(payload in proptest::collection::vec(any::<u8>(), 0..100), ipv6: bool) {
            let mut frame = udp_frame(&payload, ipv6);
            let (start, offset) = offload(&mut frame).expect("UDP");
            let sum = !Sum::ZERO.add_bytes(&frame[start as usize..]).fold();
            let place = usize::from(start + offset);
            frame[place..place + 2].copy_from_slice(&sum.to_le_bytes());
            prop_assert!(is_right(&frame));
        }

        #[test]
        fn any_bytes_are_survived(mut frame in proptest::collection::vec(any::<u8>(), 0..100), kind in 0..3) {
            if frame.len() >= 15 {
                match kind {
                    0 => frame[12..15].copy_from_slice(&[8, 0, 0x45]),
                    1 => frame[12..14].copy_from_slice(&[0x86, 0xdd]),
                    _ => {}
                }
            }
            let _ = is_right(&frame);
            complete(&mut frame);
            let _ = offload(&mut frame);
        }
    }

    #[test]
    fn only_datagrams_have_another_zero() {
        for (protocol, place, zero) in [(protocols::TCP, tcp::CHECKSUM, 0), (protocols::UDP, udp::CHECKSUM, 0xffff)] {
            let mut frame = udp_frame(&[0; 20], false);
            frame[ETHERNET_HEADER + ipv4::PROTOCOL] = protocol;
            let start = ETHERNET_HEADER + ipv4::HEADER;
            // One of the last two bytes' values makes the sum come out as 0.
            let sums: Vec<u16> = (0..=u16::MAX)
                .map(|last| {
                    let end = frame.len() - 2;
                    frame[end..].copy_from_slice(&last.to_be_bytes());
                    complete(&mut frame);
                    let sum = [frame[start + place], frame[start + place + 1]];
                    let (checksum_start, checksum_offset) = offload(&mut frame).expect("it has one");
                    let header = PacketHeader { checksum_start, checksum_offset, ..PacketHeader::default() };
                    assert_eq!(asked_for(&frame, &header), Some((start + place, sum)));
                    u16::from_be_bytes(sum)
                })
                .filter(|sum| matches!(sum, 0 | 0xffff))
                .collect();
            assert!(!sums.is_empty() && sums.iter().all(|sum| *sum == zero), "{protocol}: {sums:?}");
        }
    }

    #[test]
    fn fragments_are_left_alone() {
        let mut frame = udp_frame(b"abc", false);
        frame[20] = 0x20;
        assert_eq!(transport(&frame), None);
        assert!(is_right(&frame));
    }

    #[test]
    fn a_checksum_is_completed_or_left_to_the_device() {
        for ipv6 in [false, true] {
            let mut frame = udp_frame(b"abc", ipv6);
            let (checksum_start, checksum_offset) = offload(&mut frame).expect("it has one");
            let header =
                PacketHeader { flags: NEEDS_CHECKSUM, checksum_start, checksum_offset, ..PacketHeader::default() };
            assert_eq!(finish(&mut frame, &header, true), header);
            assert!(!is_right(&frame), "not yet");
            assert_eq!(finish(&mut frame, &header, false), PacketHeader::default());
            assert!(is_right(&frame));
            // What is asked for outside of the frame is not there.
            let header = PacketHeader { checksum_start: frame.len() as u16 - 1, ..header };
            assert_eq!(asked_for(&frame, &header), None);
            assert_eq!(asked_for(&frame, &PacketHeader { checksum_start: u16::MAX, ..header }), None);
        }
    }
}
