//! A client on a station of its own, made of single segments, so that it can leave out what a
//! proper host would do.

use super::lan::{Lan, MAC};
use crate::checksum;
use std::vec::Vec;

pub(super) const FIN: u8 = 1;
pub(super) const SYN: u8 = 2;
pub(super) const RST: u8 = 4;
pub(super) const ACK: u8 = 16;

/// A client on a station of its own.
#[derive(Clone, Copy, Debug)]
pub(super) struct Station {
    pub(super) mac: [u8; 6],
    pub(super) address: [u8; 4],
    pub(super) port: u16,
    /// The next sequence number of its own, and the next one of the stack's that it has not seen.
    pub(super) next: u32,
    pub(super) seen: u32,
}

/// Stations have ports from here on, by their numbers.
pub(super) const PORTS: u16 = 20_000;

/// The port that a segment of TCP over IPv4 goes to.
pub(super) fn addressee(frame: &[u8]) -> Option<u16> {
    let is_segment = frame.len() >= 54 && frame[12..14] == [8, 0] && frame[23] == 6;
    is_segment.then(|| u16::from_be_bytes([frame[36], frame[37]]))
}

/// The timestamp of a segment of TCP over IPv4, if it has one.
pub(super) fn stamp(frame: &[u8]) -> Option<u32> {
    let options = frame.get(54..34 + usize::from(frame[46] >> 4) * 4)?;
    let at = options.windows(2).position(|option| option == [8, 10])?;
    Some(u32::from_be_bytes(options.get(at + 2..at + 6)?.try_into().ok()?))
}

impl Station {
    pub(super) fn new(number: u16) -> Self {
        let [high, low] = number.to_be_bytes();
        Self {
            mac: [2, 7, 0, 0, high, low],
            address: [10, 0, 0, 100 + low % 100],
            port: PORTS + number,
            next: 77,
            seen: 0,
        }
    }

    /// A segment of this station's.
    pub(super) fn segment(&self, flags: u8, payload: &[u8]) -> Vec<u8> {
        self.segment_with(flags, &[], payload)
    }

    /// A segment with a timestamp and the one that it echoes.
    pub(super) fn stamped(&self, flags: u8, payload: &[u8], [value, echo]: [u32; 2]) -> Vec<u8> {
        let options = [&[1, 1, 8, 10][..], &value.to_be_bytes(), &echo.to_be_bytes()].concat();
        self.segment_with(flags, &options, payload)
    }

    /// A segment with these options, whose length is a multiple of four.
    fn segment_with(&self, flags: u8, options: &[u8], payload: &[u8]) -> Vec<u8> {
        let mut frame = [MAC, self.mac].concat();
        let length = (40 + options.len() + payload.len()) as u16;
        frame.extend([0x08, 0, 0x45, 0]);
        frame.extend(length.to_be_bytes());
        frame.extend([0, 0, 0, 0, 64, 6, 0, 0]);
        frame.extend(self.address);
        frame.extend([10, 0, 0, 1]);
        frame.extend(self.port.to_be_bytes());
        frame.extend(80_u16.to_be_bytes());
        frame.extend(self.next.to_be_bytes());
        frame.extend(self.seen.to_be_bytes());
        frame.extend([0x50 + (options.len() as u8) * 4, flags, 0x20, 0, 0, 0, 0, 0]);
        frame.extend(options);
        frame.extend(payload);
        let sum = !checksum::Sum::ZERO.add_bytes(&frame[14..34]).fold();
        frame[24..26].copy_from_slice(&sum.to_le_bytes());
        checksum::complete(&mut frame);
        frame
    }

    pub(super) fn send(&mut self, lan: &mut Lan, flags: u8, payload: &[u8]) {
        lan.wire.to_stack.push_back(self.segment(flags, payload));
        self.next += payload.len() as u32 + u32::from(flags & (SYN | FIN) != 0);
    }

    /// Flags and payload of the stack's segments to this station since the last time, in their
    /// order.
    pub(super) fn receive(&mut self, lan: &mut Lan) -> Vec<(u8, Vec<u8>)> {
        let mut segments = Vec::new();
        lan.seen.retain(|frame| {
            let is_ours = addressee(frame) == Some(self.port) && frame[..6] == self.mac;
            if is_ours {
                segments.push(self.take(frame));
            }
            !is_ours
        });
        segments
    }

    /// Flags and payload of a segment for this station.
    pub(super) fn take(&mut self, frame: &[u8]) -> (u8, Vec<u8>) {
        let sequence = u32::from_be_bytes(frame[38..42].try_into().expect("four bytes"));
        let end = 14 + usize::from(u16::from_be_bytes([frame[16], frame[17]]));
        let payload = frame[34 + usize::from(frame[46] >> 4) * 4..end].to_vec();
        let flags = frame[47];
        self.seen = sequence.wrapping_add(payload.len() as u32 + u32::from(flags & (SYN | FIN) != 0));
        (flags, payload)
    }

    /// Asks for a connection and is answered.
    pub(super) fn shake_hands(&mut self, lan: &mut Lan) {
        self.send(lan, SYN, b"");
        lan.pass(2);
        assert!(matches!(self.receive(lan)[..], [(flags, _)] if flags == SYN | ACK));
    }

    /// Opens a connection.
    pub(super) fn open(&mut self, lan: &mut Lan) {
        self.shake_hands(lan);
        self.send(lan, ACK, b"");
        lan.pass(2);
        assert!(self.receive(lan).is_empty());
    }

    /// Sends some bytes and expects the same back, which it acknowledges.
    pub(super) fn exchange(&mut self, lan: &mut Lan, content: &[u8]) {
        self.send(lan, ACK, content);
        lan.pass(5);
        let answer: Vec<u8> = self.receive(lan).into_iter().flat_map(|(_, payload)| payload).collect();
        assert_eq!(answer, content, "{self:?}");
        self.send(lan, ACK, b"");
        lan.pass(2);
    }
}
