//! The two ends of a link, each the other's far end, honest or not, and restarted.

use crate::header::{flags::NEEDS_CHECKSUM, segmentation};
use crate::testing::{Peer, memory, ring};
use crate::{Client, Descriptor, HEADROOM, LARGE_BUFFER, PacketHeader};
use culm::connection::{NetClient, NetLink};
use proptest::prelude::*;
use std::vec::Vec;

const BUFFERS: u32 = 8;
const LARGE: u32 = 2;
const SIZE: u32 = 2048;
const CAPACITY: u32 = 16;

/// A packet of many segments, as a guest sends it: nobody has made its checksum.
const WHOLE: PacketHeader = PacketHeader {
    flags: NEEDS_CHECKSUM,
    segmentation: segmentation::TCP_6,
    header_length: 74,
    segment_size: 1428,
    checksum_start: 54,
    checksum_offset: 16,
    buffers: 0,
};

/// Both ends.
struct World {
    link: NetLink,
    client: NetClient,
    /// The link's own end, and its client's.
    ends: [Client; 2],
}

impl World {
    fn new() -> Self {
        let size = (BUFFERS * SIZE + LARGE * LARGE_BUFFER) as usize;
        let link = NetLink {
            mac: [2, 0, 0, 0, 0, 1],
            rx_large: LARGE,
            tx_large: LARGE,
            buffer_size: SIZE,
            rx_filled: ring::<Descriptor>(CAPACITY),
            rx_free: ring::<Descriptor>(CAPACITY),
            tx_filled: ring::<Descriptor>(CAPACITY),
            tx_free: ring::<Descriptor>(CAPACITY),
            rx_data: memory(size, 0),
            tx_data: memory(size, 0),
            rx_channel: 0,
            tx_channel: 1,
        };
        let client = NetClient {
            mac: [2, 0, 0, 0, 0, 2],
            promiscuous: 0,
            owns_rx: 1,
            linked: 1,
            rx_large: LARGE,
            tx_large: LARGE,
            buffer_size: SIZE,
            rx_buffer_size: SIZE,
            rx_filled: link.tx_filled,
            rx_free: link.tx_free,
            tx_filled: link.rx_filled,
            tx_free: link.rx_free,
            rx_data: link.tx_data,
            tx_data: link.rx_data,
            rx_channel: 2,
            tx_channel: 3,
        };
        let mut world = Self { link, client, ends: [Client::linked(link), Client::new(client)] };
        world.settle();
        world
    }

    /// Ends are restarted.
    fn restart(&mut self, ends: [bool; 2]) {
        if ends[0] {
            self.ends[0] = Client::linked(self.link);
        }
        if ends[1] {
            self.ends[1] = Client::new(self.client);
        }
    }

    /// Both have rounds until they have found each other. Returns what each received.
    fn settle(&mut self) -> [Vec<(PacketHeader, usize)>; 2] {
        let mut received = [Vec::new(), Vec::new()];
        for _ in 0..6 {
            for (end, received) in self.ends.iter_mut().zip(&mut received) {
                received.extend(round(end));
            }
        }
        received
    }

    /// An end sends as many frames of 60 bytes as it can. Returns their count.
    fn fill(&mut self, end: usize) -> usize {
        send(&mut self.ends[end], 100)
    }
}

/// A round of an end's. Returns the headers and lengths of what it received.
fn round(end: &mut Client) -> Vec<(PacketHeader, usize)> {
    end.begin();
    let mut received = Vec::new();
    while let Some(found) = end.receiver.receive_pieces(|header, frame| {
        assert_eq!(frame.len(), 1);
        (header, frame[0].len())
    }) {
        received.push(found);
    }
    let _ = end.end_round();
    received
}

/// An end sends up to so many frames of 60 bytes. Returns their count.
fn send(end: &mut Client, count: usize) -> usize {
    end.begin();
    let sent = (0..count).filter_map(|_| end.transmitter.send(60, |_| (PacketHeader::default(), ()))).count();
    let _ = end.end_round();
    sent
}

#[test]
fn each_end_has_all_buffers_of_the_other() {
    let mut world = World::new();
    for end in 0..2 {
        for _ in 0..3 {
            assert_eq!(world.fill(end), BUFFERS as usize);
            let received = world.settle();
            assert_eq!(received[1 - end].len(), BUFFERS as usize);
            assert!(received[end].is_empty());
        }
    }
}

/// From its first packet on: no end has to hear of the other before.
#[test]
fn packets_of_many_segments_go_as_they_are() {
    let mut world = World::new();
    for from in 0..2 {
        let end = &mut world.ends[from];
        assert!(end.transmitter.is_linked() && end.transmitter.offloads_checksum());
        end.begin();
        let longest = LARGE_BUFFER as usize - 1 - HEADROOM;
        assert_eq!(end.transmitter.send_whole(longest + 1, |_| Some(WHOLE)), None);
        assert_eq!(end.transmitter.send_whole(60_000, |_| None), None, "it was refused where it lies");
        for length in [longest, 3000] {
            assert_eq!(end.transmitter.send_whole(length, |_| Some(WHOLE)), Some(()));
        }
        assert_eq!(end.transmitter.send_whole(3000, |_| Some(WHOLE)), None, "there are two large buffers");
        let _ = end.end_round();
        let received = world.settle();
        assert_eq!(received[1 - from], [(WHOLE, longest), (WHOLE, 3000)]);
    }
}

#[test]
fn who_is_no_links_end_sends_nothing_whole() {
    let world = World::new();
    let mut end = Client::new(NetClient { linked: 0, ..world.client });
    assert_eq!(end.transmitter.send_whole(3000, |_| Some(WHOLE)), None);
}

#[test]
fn either_end_starts_over_with_all_buffers() {
    for restarted in [[true, false], [false, true], [true, true]] {
        let mut world = World::new();
        assert_eq!((world.fill(0), send(&mut world.ends[1], 3)), (BUFFERS as usize, 3));
        world.restart(restarted);
        world.settle();
        for end in 0..2 {
            assert_eq!(world.fill(end), BUFFERS as usize, "{restarted:?}");
            assert_eq!(world.settle()[1 - end].len(), BUFFERS as usize, "{restarted:?}");
        }
    }
}

proptest! {
    /// Whatever one end says, it is no panic at the other, what that one receives lies in its
    /// buffers and what it sends in its own; and an honest life finds all buffers.
    #[test]
    fn an_end_may_say_anything(
        is_client in any::<bool>(),
        said in prop::collection::vec((any::<bool>(), 0..4_u8, any::<u32>(), any::<u16>(), any::<u16>()), 0..80),
    ) {
        let mut world = World::new();
        let honest = usize::from(!is_client);
        // The hostile end has the queues of the other one, and nothing else.
        let (filled, free, provided, sent) = match is_client {
            true => (world.link.rx_filled, world.link.rx_free, world.link.tx_free, world.link.tx_filled),
            false => (world.client.rx_filled, world.client.rx_free, world.client.tx_free, world.client.tx_filled),
        };
        let mut gives = Peer::<Descriptor>::new(free, filled);
        let mut takes = Peer::<Descriptor>::new(sent, provided);
        let end = BUFFERS * SIZE + LARGE * LARGE_BUFFER;
        for (is_frame, kind, offset, length, flags) in said {
            let offset = match kind {
                0 => offset,
                1 => offset % (BUFFERS + 1) * SIZE,
                2 => BUFFERS * SIZE + offset % (LARGE + 1) * LARGE_BUFFER,
                _ => 0,
            };
            let flags = if kind == 3 { 0 } else { flags };
            let entry = Descriptor { offset, length, flags };
            let peer = if is_frame { &mut gives } else { &mut takes };
            peer.send(&[entry]);
            let own = &mut world.ends[honest];
            prop_assert!(round(own).iter().all(|(_, length)| length + HEADROOM <= LARGE_BUFFER as usize));
            own.begin();
            let _ = own.transmitter.send(60, |_| (PacketHeader::default(), ()));
            let _ = own.transmitter.send_whole(5000, |_| Some(WHOLE));
            let _ = own.end_round();
            for entry in gives.take().into_iter().chain(takes.take()) {
                prop_assert!(entry.offset < end && entry.offset + u32::from(entry.length) <= end);
            }
        }
        world.restart([is_client ^ true, is_client]);
        world.settle();
        for end in 0..2 {
            prop_assert_eq!(world.fill(end), BUFFERS as usize);
            prop_assert_eq!(world.settle()[1 - end].len(), BUFFERS as usize);
        }
    }
}
