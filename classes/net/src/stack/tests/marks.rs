//! Marks of congestion (ECN, RFC 3168), from the packets that come to those that go.

use super::lan::{HOST, HOST_MAC, Lan};
use super::station::{ACK, SYN, Station, addressee};
use crate::checksum;
use crate::wire::ecn;
use std::vec::Vec;

const ECE: u8 = 64;
const CWR: u8 = 128;

/// The stack's timestamp that came last.
fn stamp(frame: &[u8]) -> [u8; 4] {
    let options = &frame[54..];
    let at = options.windows(2).position(|kind| kind == [8, 10]).expect("timestamps");
    options[at + 2..at + 6].try_into().expect("four bytes")
}

/// Gives a segment timestamps, and its packet a mark.
fn with_stamps(mut frame: Vec<u8>, echo: [u8; 4], mark: u8) -> Vec<u8> {
    let options = [&[1, 1, 8, 10, 0, 0, 0, 9][..], &echo].concat();
    frame.splice(54..54, options);
    let length = (frame.len() - 14) as u16;
    frame[15] = mark;
    frame[16..18].copy_from_slice(&length.to_be_bytes());
    frame[46] = 0x80;
    for place in [24, 50] {
        frame[place..place + 2].fill(0);
    }
    let sum = !checksum::Sum::ZERO.add_bytes(&frame[14..34]).fold();
    frame[24..26].copy_from_slice(&sum.to_le_bytes());
    checksum::complete(&mut frame);
    frame
}

/// A client that has timestamps.
struct Client {
    station: Station,
    echo: [u8; 4],
}

impl Client {
    /// Has a segment of the client's come in a packet with this mark.
    fn send(&mut self, lan: &mut Lan, flags: u8, mark: u8, payload: &[u8]) {
        let frame = with_stamps(self.station.segment(flags, payload), self.echo, mark);
        lan.wire.to_stack.push_back(frame);
        self.station.next += payload.len() as u32 + u32::from(flags & SYN != 0);
        lan.pass(50);
    }

    /// Flags, mark and payload of the segments that were sent to it.
    fn receive(&mut self, lan: &mut Lan) -> Vec<(u8, u8, Vec<u8>)> {
        let frames = core::mem::take(&mut lan.seen);
        let mac = self.station.mac;
        let ours = frames.iter().filter(|frame| frame[..6] == mac && addressee(frame).is_some());
        let each = ours.map(|frame| {
            self.echo = stamp(frame);
            let sum = checksum::Sum::ZERO.add_bytes(&frame[14..34]);
            assert!(sum.is_intact() && checksum::is_right(frame), "{frame:x?}");
            let (flags, payload) = self.station.take(frame);
            (flags, frame[15], payload)
        });
        each.collect()
    }

    /// Opens a connection with a SYN of these flags, which has to be answered by those.
    fn open(lan: &mut Lan, station: Station, flags: u8, answer: u8) -> Self {
        let mut client = Self { station, echo: [0; 4] };
        client.send(lan, flags, ecn::UNMARKABLE, b"");
        assert!(matches!(client.receive(lan)[..], [(flags, ecn::UNMARKABLE, _)] if flags == answer), "{flags:#x}");
        client
    }
}

fn lan() -> Lan {
    let mut lan = Lan::fixed(4);
    lan.stack.listen(80);
    lan
}

/// The answer to what came marked, be it the first segment of the connection, says so until the
/// client has heard it; data may be marked, and nothing else.
#[test]
fn marks_are_echoed_and_data_may_be_marked() {
    let mut lan = lan();
    for first in [ecn::MARKABLE, ecn::MARKED] {
        let mut client = Client::open(&mut lan, Station::new(first.into()), SYN | ECE | CWR, SYN | ACK | ECE);
        client.send(&mut lan, ACK, first, b"one");
        let echo = if first == ecn::MARKED { ECE } else { 0 };
        assert_eq!(client.receive(&mut lan), [(ACK | 8 | echo, ecn::MARKABLE, b"one".to_vec())]);
        client.send(&mut lan, ACK | CWR, ecn::MARKED, b"two");
        assert_eq!(client.receive(&mut lan), [(ACK | 8 | ECE, ecn::MARKABLE, b"two".to_vec())]);
        client.send(&mut lan, ACK | CWR, ecn::MARKABLE, b"three");
        assert_eq!(client.receive(&mut lan), [(ACK | 8, ecn::MARKABLE, b"three".to_vec())]);
        // Its own data came marked: the window is reduced, and the next data says so.
        client.send(&mut lan, ACK | ECE, ecn::UNMARKABLE, b"");
        client.send(&mut lan, ACK, ecn::MARKABLE, b"four");
        assert_eq!(client.receive(&mut lan), [(ACK | 8 | CWR, ecn::MARKABLE, b"four".to_vec())]);
    }
}

#[test]
fn whoever_has_not_offered_it_sends_and_is_sent_no_marks() {
    let mut lan = lan();
    let mut client = Client::open(&mut lan, Station::new(1), SYN, SYN | ACK);
    client.send(&mut lan, ACK, ecn::MARKED, b"one");
    assert_eq!(client.receive(&mut lan), [(ACK | 8, ecn::UNMARKABLE, b"one".to_vec())]);
}

/// A mark of one fragment is that of the segment.
#[test]
fn marks_of_fragments_are_echoed() {
    let mut lan = lan();
    let station = Station { mac: HOST_MAC, address: [10, 0, 0, 2], ..Station::new(0) };
    let mut client = Client::open(&mut lan, station, SYN | ECE | CWR, SYN | ACK | ECE);
    client.send(&mut lan, ACK, ecn::UNMARKABLE, b"");
    let whole = with_stamps(client.station.segment(ACK, b"in two pieces"), client.echo, ecn::MARKABLE);
    let fragment = |field: u16, mark: u8, payload: &[u8]| {
        let mut frame = whole[..34].to_vec();
        frame[15] = mark;
        frame[16..18].copy_from_slice(&(20 + payload.len() as u16).to_be_bytes());
        frame[20..22].copy_from_slice(&field.to_be_bytes());
        frame[24..26].fill(0);
        let sum = !checksum::Sum::ZERO.add_bytes(&frame[14..34]).fold();
        frame[24..26].copy_from_slice(&sum.to_le_bytes());
        frame.extend(payload);
        frame
    };
    lan.wire.to_stack.push_back(fragment(0x2000, ecn::MARKED, &whole[34..66]));
    lan.wire.to_stack.push_back(fragment(4, ecn::MARKABLE, &whole[66..]));
    lan.pass(50);
    assert_eq!(client.receive(&mut lan), [(ACK | 8 | ECE, ecn::MARKABLE, b"in two pieces".to_vec())]);
}

/// The stack offers it where it opens, and does without where a SYN gets no answer.
#[test]
fn a_syn_offers_it_once() {
    let mut lan = Lan::fixed(1);
    lan.server = |_, _| {};
    lan.stack.connect((core::net::IpAddr::from(HOST), 81).into()).expect("a way");
    for _ in 0..1500 {
        lan.pass(1);
        // Nobody hears it.
        lan.wire.to_host.retain(|frame| frame[12..14] != [8, 0]);
    }
    let syns = lan.seen.iter().filter(|frame| frame[12..14] == [8, 0] && frame[23] == 6);
    assert_eq!(syns.map(|frame| (frame[47], frame[15])).collect::<Vec<_>>(), [(SYN | ECE | CWR, 0), (SYN, 0)]);
}
