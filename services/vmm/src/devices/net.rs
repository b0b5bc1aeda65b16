//! The guest's network card over a connection of the net class, whose packet header is virtio-net's
//! too.
//!
//! A frame that the guest sends is copied once, into a buffer that the guest cannot change, and
//! goes on if it carries the card's own address. A frame that it receives is copied once, from the
//! buffer of the connection. One for which the guest has no room is lost, as on any card.

use crate::counters;
use crate::memory::GuestMemory;
use culm::connection::NetClient;
use culm::{Progress, ROUNDS, run_rounds};
use culm_guest::virtio::net::{Delivery, Frame, HEADER, Net, feature};
use culm_net::checksum::Sum;
use culm_net::client::Client;
use culm_net::header::flags::{CHECKSUM_VALID, NEEDS_CHECKSUM};
use culm_net::header::segmentation;
use culm_net::outgoing::{HEAD, may_send};
use culm_net::{HEADROOM, PacketHeader};

const _: () = assert!(HEADER == HEADROOM);

/// The most frames that the guest may send in one round.
const FRAMES: usize = 256;

/// The value of `segmentation` for many segments of TCP over IPv6 (VIRTIO 1.2 §5.1.6).
const TCP_6: u8 = 4;

/// The connection behind the card.
pub struct Card {
    client: Client,
}

impl Card {
    /// Takes the connection up.
    pub fn new(connection: NetClient) -> Self {
        Self { client: Client::new(connection) }
    }

    /// Returns the card that the guest sees.
    pub fn device(&self) -> Net {
        Net::new(self.client.mac().bytes())
    }

    /// Carries frames both ways.
    pub fn carry(&mut self, device: &mut Net, memory: &GuestMemory) {
        run_rounds(ROUNDS, || self.round(device, memory));
    }

    fn round(&mut self, device: &mut Net, memory: &GuestMemory) -> Progress {
        self.client.begin();
        while let Some(packet) = self.client.receiver.receive() {
            let counter = match deliver(device, memory, packet.header(), packet.frame()) {
                Delivery::Done => counters::FRAMES_RECEIVED,
                Delivery::Refused => counters::FRAMES_LOST,
            };
            counter.add(1);
        }
        let (mut has_more, mut is_full) = (false, false);
        for _ in 0..FRAMES {
            has_more = device.has_frame(memory);
            is_full = has_more && !self.client.transmitter.is_ready();
            if !has_more || is_full {
                break;
            }
            let Some(frame) = device.next_frame(memory) else { break };
            let counter = if self.send(&frame, memory) { counters::FRAMES_SENT } else { counters::FRAMES_REFUSED };
            counter.add(1);
            device.sent(memory, &frame);
        }
        device.publish(memory);
        let progress = self.client.end_round();
        // Where no buffer is free, the connection wakes the monitor when one is. Else the guest may
        // have sent more just before it was asked to ring.
        progress & Progress::more_if(!is_full && (has_more || device.has_frame(memory)))
    }

    /// Sends a frame of the guest's, if it may. Returns whether it did.
    fn send(&mut self, frame: &Frame, memory: &GuestMemory) -> bool {
        let header = PacketHeader::read(&frame.header);
        let mut head = [0; HEAD];
        let head = &mut head[..HEAD.min(frame.length as usize)];
        let mac = self.client.mac();
        let transmitter = &mut self.client.transmitter;
        let fits = frame.length <= transmitter.longest_frame() as u64;
        let is_there = frame.read(memory, 0, head).is_some();
        let is_plain = header.segmentation == segmentation::NONE;
        if !fits || !is_there || !is_plain || !may_send(header, head, frame.length as usize, mac) {
            return false;
        }
        let offloads = transmitter.offloads_checksum();
        let sent = transmitter.send(frame.length as usize, |bytes| {
            let (first, rest) = bytes.split_at_mut(head.len());
            // Send the head that was checked: the guest can have changed its own since.
            first.copy_from_slice(head);
            if frame.read(memory, head.len() as u64, rest).is_none() {
                // Part of it is not in the guest's memory: nothing of an older frame is sent.
                rest.fill(0);
            }
            (finish(bytes, &header, offloads), ())
        });
        sent.is_some()
    }
}

/// Completes the checksum that a frame of the guest's asks for, or returns the header that has the
/// device do it.
fn finish(frame: &mut [u8], header: &PacketHeader, offloads: bool) -> PacketHeader {
    if header.flags & NEEDS_CHECKSUM == 0 {
        return PacketHeader::default();
    }
    let (checksum_start, checksum_offset) = (header.checksum_start, header.checksum_offset);
    if offloads {
        return PacketHeader { flags: NEEDS_CHECKSUM, checksum_start, checksum_offset, ..PacketHeader::default() };
    }
    if let Some((at, sum)) = checksum(frame, header) {
        frame[at..at + 2].copy_from_slice(&sum);
    }
    PacketHeader::default()
}

/// Returns where the checksum is that the header asks for, and what it is: the field has the sum of
/// the pseudo-header (VIRTIO 1.2 §5.1.6.2). Returns nothing if it is not in the frame.
fn checksum(frame: &[u8], header: &PacketHeader) -> Option<(usize, [u8; 2])> {
    let start = usize::from(header.checksum_start);
    let at = start + usize::from(header.checksum_offset);
    let is_inside = at.checked_add(2).is_some_and(|end| end <= frame.len());
    let sum = !Sum::ZERO.add_bytes(frame.get(start..)?).fold();
    // Zero would say that there is none (RFC 768); TCP's receiver takes its other form as well.
    let sum = if sum == 0 { u16::MAX } else { sum };
    is_inside.then_some((at, sum.to_ne_bytes()))
}

/// Gives the guest a frame in the form that it takes.
fn deliver(device: &mut Net, memory: &GuestMemory, mut header: PacketHeader, frame: &[u8]) -> Delivery {
    let takes_it = match header.segmentation {
        segmentation::NONE => true,
        segmentation::TCP_4 => device.transport.has(feature::GUEST_TCP_4),
        TCP_6 => device.transport.has(feature::GUEST_TCP_6),
        _ => false,
    };
    if !takes_it {
        return Delivery::Refused;
    }
    let takes_partial = device.transport.has(feature::GUEST_CHECKSUM);
    let mut bytes = [0; HEADER];
    if takes_partial || header.flags & NEEDS_CHECKSUM == 0 {
        let known = if takes_partial { NEEDS_CHECKSUM | CHECKSUM_VALID } else { 0 };
        header.flags &= known;
        header.write(&mut bytes);
        return device.deliver(memory, bytes, &[frame]);
    }
    match checksum(frame, &header) {
        Some((at, sum)) => device.deliver(memory, bytes, &[&frame[..at], &sum, &frame[at + 2..]]),
        None => Delivery::Refused,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A datagram of UDP over IPv4 whose checksum field has the sum of its pseudo-header.
    fn datagram() -> (std::vec::Vec<u8>, PacketHeader) {
        let mut frame = std::vec![0; 14 + 20 + 8 + 3];
        frame[12..15].copy_from_slice(&[0x08, 0x00, 0x45]);
        frame[17] = 31;
        frame[23] = 17;
        frame[26..34].copy_from_slice(&[10, 0, 0, 1, 10, 0, 0, 2]);
        frame[34..40].copy_from_slice(&[0, 7, 0, 9, 0, 11]);
        frame[42..].copy_from_slice(b"abc");
        let pseudo = Sum::ZERO.add_bytes(&frame[26..34]).add_number(17).add_number(11).fold();
        frame[40..42].copy_from_slice(&pseudo.to_ne_bytes());
        let header =
            PacketHeader { flags: NEEDS_CHECKSUM, checksum_start: 34, checksum_offset: 6, ..Default::default() };
        (frame, header)
    }

    #[test]
    fn a_checksum_is_completed_or_left_to_the_device() {
        let (mut frame, header) = datagram();
        assert_eq!(finish(&mut frame, &header, true), header);
        assert!(!culm_net::checksum::is_right(&frame), "not yet");
        assert_eq!(finish(&mut frame, &header, false), PacketHeader::default());
        assert!(culm_net::checksum::is_right(&frame));
    }

    #[test]
    fn a_checksum_outside_of_the_frame_is_none() {
        let (frame, header) = datagram();
        for (checksum_start, checksum_offset) in [(46, 0), (34, 10), (u16::MAX, u16::MAX)] {
            assert_eq!(checksum(&frame, &PacketHeader { checksum_start, checksum_offset, ..header }), None);
        }
    }
}
