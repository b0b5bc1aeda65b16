//! A provider between two clients, honest and hostile, and through restarts of each.

use super::{Beginning, Port, Tally};
use crate::testing::{Peer, client, memory, provider_of};
use crate::{BufferEntry, Client, Descriptor, ETHERNET_HEADER, LARGE_BUFFER, Mac, PacketHeader};
use culm::Channels;
use culm::connection::{NetClient, NetProviderClient};
use proptest::prelude::*;
use std::vec;
use std::vec::Vec;

const BUFFERS: u32 = 8;
const SIZE: u32 = 2048;
const MACS: [[u8; 6]; 2] = [[2, 0, 0, 0, 0, 1], [2, 0, 0, 0, 0, 2]];

/// Returns the connections of a provider and its client.
fn connections(mac: [u8; 6], large: u32, anti_spoof: bool) -> (NetProviderClient, NetClient) {
    let size = (BUFFERS * SIZE + large * LARGE_BUFFER) as usize;
    let client = NetClient {
        rx_large: large,
        tx_large: large,
        rx_data: memory(size, 0),
        tx_data: memory(size, 0),
        rx_channel: 2,
        tx_channel: 3,
        ..client(mac, BUFFERS, SIZE)
    };
    (NetProviderClient { anti_spoof: anti_spoof.into(), ..provider_of(&client, 0, 1) }, client)
}

/// Two clients of one provider, which passes everything from each to the other.
struct World {
    ports: [Port; 2],
    clients: [Client; 2],
    connections: [(NetProviderClient, NetClient); 2],
}

impl World {
    fn new(anti_spoof: bool) -> Self {
        let connections = MACS.map(|mac| connections(mac, 0, anti_spoof));
        let ports = connections.each_ref().map(|(provider, _)| Port::new(provider));
        let clients = connections.each_ref().map(|(_, client)| Client::new(*client));
        let mut world = Self { ports, clients, connections };
        world.settle();
        world
    }

    fn turn(&mut self) {
        for _ in 0..8 {
            let [first, second] = &mut self.ports;
            first.begin();
            second.begin();
            while let Some(frame) = first.next_frame() {
                second.deliver(first, &frame, Beginning::default());
            }
            while let Some(frame) = second.next_frame() {
                first.deliver(second, &frame, Beginning::default());
            }
            if (first.end_round() & second.end_round()).is_asleep() {
                return;
            }
        }
    }

    /// Everybody takes turns until they have found each other; returns what the clients receive.
    fn settle(&mut self) -> [Vec<u8>; 2] {
        let mut received = [Vec::new(), Vec::new()];
        for _ in 0..6 {
            self.turn();
            for (client, received) in self.clients.iter_mut().zip(&mut received) {
                client.begin();
                while let Some(packet) = client.receiver.receive() {
                    received.push(packet.frame()[ETHERNET_HEADER]);
                }
                let _ = client.end_round();
            }
        }
        received
    }

    /// The first client sends a frame of `length` bytes from this address, with `content` behind
    /// the header.
    fn send(&mut self, from: [u8; 6], content: u8, length: usize) -> bool {
        let client = &mut self.clients[0];
        client.begin();
        let sent = client.transmitter.send(length, |frame| {
            frame.fill(content);
            frame[..6].copy_from_slice(&MACS[1]);
            frame[6..12].copy_from_slice(&from);
            (PacketHeader::default(), ())
        });
        let _ = client.end_round();
        sent.is_some()
    }
}

#[test]
fn frames_go_from_client_to_client() {
    let mut world = World::new(false);
    for round in 0..100 {
        assert!(world.send(MACS[0], round, 60 + usize::from(round)));
        assert_eq!(world.settle(), [vec![], vec![round]]);
    }
    assert_eq!(world.ports[1].tally(), Tally { delivered: 100, ..Tally::default() });
}

#[test]
fn who_must_not_speak_as_another_does_not() {
    let mut world = World::new(true);
    assert!(world.send(MACS[1], 1, 60) && world.send(MACS[0], 2, 60));
    assert_eq!(world.settle(), [vec![], vec![2]]);
    assert_eq!(world.ports[0].tally().entries_refused, 1);
    // No buffer is lost by it.
    for round in 0..3 * BUFFERS as u8 {
        assert!(world.send(MACS[1], round, 60));
        assert_eq!(world.settle()[1], []);
    }
    assert!(world.send(MACS[0], 9, 60));
    assert_eq!(world.settle()[1], [9]);
}

/// ARP tells an address of its own, which others believe (RFC 826).
#[test]
fn nobody_tells_of_another_by_arp() {
    let mut world = World::new(true);
    for (sender, content) in [(MACS[1], 1), (MACS[0], 2)] {
        let client = &mut world.clients[0];
        client.begin();
        let sent = client.transmitter.send(60, |frame| {
            frame.fill(0);
            frame[..6].copy_from_slice(&MACS[1]);
            frame[6..12].copy_from_slice(&MACS[0]);
            frame[12..20].copy_from_slice(&[8, 6, 0, 1, 8, 0, 6, 4]);
            frame[22..28].copy_from_slice(&sender);
            frame[ETHERNET_HEADER + 7] = content;
            (PacketHeader::default(), ())
        });
        assert!(sent.is_some());
        let _ = client.end_round();
    }
    assert_eq!(world.settle()[1].len(), 1);
    assert_eq!(world.ports[0].tally().entries_refused, 1);
}

/// The bytes that were checked are delivered, whatever the sender writes meanwhile.
#[test]
fn an_address_that_changes_after_the_check_is_not_delivered() {
    let mut world = World::new(true);
    assert!(world.send(MACS[0], 7, 60));
    let [first, second] = &mut world.ports;
    first.begin();
    second.begin();
    let frame = first.next_frame().expect("it was sent");
    let data = culm::Region::new(world.connections[0].0.tx_data);
    for buffer in 0..BUFFERS {
        data.write((buffer * SIZE) as usize + 12, &[0xff; 12]).expect("inside");
    }
    let mut bytes = [0; 60];
    assert!(
        first.read(&frame, Beginning::default(), &mut bytes) && second.deliver(first, &frame, Beginning::default())
    );
    assert_eq!((&bytes[..6], &bytes[6..12]), (&MACS[1][..], &MACS[0][..]));
    let _ = second.end_round();
    let client = &mut world.clients[1];
    client.begin();
    let packet = client.receiver.receive().expect("it was delivered");
    assert_eq!(packet.frame()[..12], bytes[..12]);
}

/// Returns a frame of the first client that its provider has taken, with the bytes that it had.
fn taken(world: &mut World, length: usize) -> (super::Frame, Vec<u8>) {
    assert!(world.send(MACS[0], 7, length));
    let [first, second] = &mut world.ports;
    first.begin();
    second.begin();
    let frame = first.next_frame().expect("it was sent");
    let mut bytes = vec![0; length];
    assert!(first.read(&frame, Beginning::default(), &mut bytes));
    (frame, bytes)
}

/// A frame is given with another beginning, longer or shorter than its own, whether it is checked
/// or not.
#[test]
fn another_beginning_takes_the_place_of_a_frames_own() {
    for (anti_spoof, instead_of, length) in [(false, 12, 60), (false, 16, 60), (true, 12, 1400), (true, 16, 18)] {
        let mut world = World::new(anti_spoof);
        let (frame, bytes) = taken(&mut world, length);
        let beginning = Beginning { bytes: b"a new beginning.", instead_of };
        let wanted = [beginning.bytes, &bytes[instead_of..]].concat();
        assert_eq!(frame.length_with(&beginning), wanted.len());
        let [first, second] = &mut world.ports;
        let mut read = vec![0; wanted.len()];
        assert!(first.read(&frame, beginning, &mut read) && read == wanted);
        assert!(!first.read(&frame, beginning, &mut vec![0; wanted.len() + 1]));
        assert!(second.deliver(first, &frame, beginning));
        assert!(second.deliver_bytes(PacketHeader::default(), &bytes, beginning));
        let _ = second.end_round();
        let client = &mut world.clients[1];
        client.begin();
        for _ in 0..2 {
            assert_eq!(client.receiver.receive().expect("it was delivered").frame(), wanted);
        }
    }
}

#[test]
fn a_beginning_in_place_of_more_than_there_is_is_refused() {
    let mut world = World::new(false);
    let (frame, bytes) = taken(&mut world, 15);
    let [first, second] = &mut world.ports;
    let beginning = Beginning { bytes: &[0; 16], instead_of: 16 };
    assert!(!second.deliver(first, &frame, beginning));
    assert!(!second.deliver_bytes(PacketHeader::default(), &bytes, beginning));
    assert!(!first.read(&frame, beginning, &mut [0; 16]));
}

/// Where a tag is put in, the place of a checksum that is to be completed moves.
#[test]
fn a_checksums_place_moves_with_the_beginning() {
    let mut world = World::new(false);
    let header = PacketHeader { flags: 1, checksum_start: 34, checksum_offset: 6, ..PacketHeader::default() };
    let second = &mut world.ports[1];
    second.begin();
    for (bytes, instead_of) in [(&[0; 16][..], 12), (&[0; 12], 16), (&[0; 16], 16)] {
        assert!(second.deliver_bytes(header, &[0; 60], Beginning { bytes, instead_of }));
    }
    let _ = second.end_round();
    let client = &mut world.clients[1];
    client.begin();
    let starts = [38, 30, 34].map(|_| client.receiver.receive().expect("it was delivered").header().checksum_start);
    assert_eq!(starts, [38, 30, 34]);
}

/// Returns a provider's port, and what its client writes, which is anything.
fn hostile(large: u32) -> (Port, [Peer<Descriptor>; 2]) {
    let (provider, _) = connections(MACS[0], large, true);
    let mut port = Port::new(&provider);
    let mut receiving = Peer::<Descriptor>::new(provider.rx_filled, provider.rx_free);
    let mut sending = Peer::<Descriptor>::new(provider.tx_free, provider.tx_filled);
    for _ in 0..4 {
        port.begin();
        let _ = (port.end_round(), receiving.take(), sending.take());
    }
    (port, [receiving, sending])
}

/// Sends an entry again and again over both of a client's queues, which the provider reads; returns
/// how many it took of each.
fn exhaust(entry: Descriptor, large: u32) -> [u32; 2] {
    let (mut port, mut peers) = hostile(large);
    let before = peers.each_mut().map(|peer| peer.output().position());
    for _ in 0..5000 {
        peers.iter_mut().for_each(|peer| peer.send(&[entry]));
        port.mark_due(Channels::NONE);
        port.begin();
        let _ = (
            port.next_frame(),
            port.deliver_bytes(PacketHeader::default(), &[0; 60], Beginning::default()),
            port.end_round(),
        );
    }
    assert!(port.is_paused());
    let after = peers.each_mut().map(|peer| peer.output().position());
    [after[0] - before[0], after[1] - before[1]]
}

/// What a client says of SYNs is not for a provider, which is no receive virtualiser.
#[test]
fn a_mark_of_a_refused_syn_is_overlooked() {
    let (mut port, [mut receiving, _]) = hostile(0);
    receiving.send(&[Descriptor::empty(0).refused(1)]);
    port.mark_due(Channels::NONE);
    port.begin();
    assert!(port.deliver_bytes(PacketHeader::default(), &[0; 60], Beginning::default()));
    let _ = port.end_round();
    assert_eq!(receiving.take().len(), 1);
    assert_eq!(port.tally().entries_refused, 0);
}

/// Work without use ends when the client's allowance is used up.
#[test]
fn nonsense_ends_when_the_allowance_is_used_up() {
    for taken in exhaust(Descriptor { offset: 77, length: 60, flags: 0 }, 0) {
        assert!((100..2000).contains(&taken), "{taken} entries");
    }
    // Buffers of the size that nobody needs.
    let [receiving, _] = exhaust(Descriptor::empty(BUFFERS * SIZE), 1);
    assert!(receiving < 2000, "{receiving} entries");
}

/// So does work for one that starts over without end.
#[test]
fn lives_end_when_the_allowance_is_used_up() {
    let (provider, client) = connections(MACS[0], 0, false);
    let mut port = Port::new(&provider);
    let mut lives = 0;
    while !port.is_paused() {
        lives += 1;
        assert!(lives < 1000, "it is not left alone");
        let mut client = Client::new(client);
        for _ in 0..3 {
            port.begin();
            let _ = port.end_round();
            client.begin();
            let _ = client.end_round();
        }
    }
    assert!(lives > 2, "it may start over, and soon once more");
    culm::testing::set_time(culm::testing::deadline().expect("a turn is asked for"));
    port.mark_due(Channels::NONE);
    assert!(!port.is_paused());
}

#[test]
fn a_client_that_reads_nothing_loses_its_own_frames_only() {
    let mut world = World::new(false);
    for content in 0..4 * BUFFERS as u8 {
        assert!(world.send(MACS[0], content, 60), "its buffers come back");
        world.turn();
    }
    assert!(world.ports[1].tally().missed > 0);
    let received = world.settle();
    assert_eq!(received[1], (0..BUFFERS as u8).collect::<Vec<_>>());
    assert!(world.send(MACS[0], 77, 60));
    assert_eq!(world.settle()[1], [77]);
}

/// A buffer is not taken, and nothing copied, while the queue in which it would go back is full:
/// the sender is not charged for a copy that does not arrive. Frames are lost by this without end,
/// and cost a slow reader nothing but those frames.
#[test]
fn nothing_is_copied_for_a_client_whose_queue_is_full() {
    let (provider, _) = connections(MACS[0], 0, false);
    let mut port = Port::new(&provider);
    let mut client = Peer::<Descriptor>::new(provider.rx_filled, provider.rx_free);
    for _ in 0..4 {
        port.begin();
        let _ = (port.end_round(), client.take());
    }
    let data = culm::Region::new(provider.rx_data);
    let deliver = |port: &mut Port| port.deliver_bytes(PacketHeader::default(), &[5; 60], Beginning::default());
    for _ in 0..16 {
        client.send(&[Descriptor::empty(0)]);
        assert!(deliver(&mut port), "there is space");
    }
    let _ = port.end_round();
    let marker = [0xa5; 72];
    data.write(SIZE as usize, &marker).expect("inside");
    client.send(&[Descriptor::empty(SIZE)]);
    for _ in 0..5000 {
        port.begin();
        assert!(!deliver(&mut port), "the queue is full");
        let _ = port.end_round();
    }
    let mut bytes = [0; 72];
    data.read(SIZE as usize, &mut bytes).expect("inside");
    assert_eq!(bytes, marker);
    assert!(!port.is_paused());
    assert_eq!(port.tally(), Tally { delivered: 16, missed: 5000, entries_refused: 0 });
    // When the client reads, the buffer is still there.
    assert_eq!(client.take().len(), 16);
    assert!(deliver(&mut port));
    let _ = port.end_round();
    assert_eq!(client.take().iter().map(|packet| packet.offset).collect::<Vec<_>>(), [SIZE]);
}

#[test]
fn anybody_may_be_restarted() {
    let mut world = World::new(false);
    for round in 0..5 {
        for who in 0..2 {
            world.clients[who] = Client::new(world.connections[who].1);
            world.settle();
            assert!(world.send(MACS[0], round, 60));
            assert_eq!(world.settle()[1], [round]);
            world.ports[who] = Port::new(&world.connections[who].0);
            world.settle();
            assert!(world.send(MACS[0], round, 60));
            assert_eq!(world.settle()[1], [round]);
        }
    }
    // All buffers are there.
    for content in 0..BUFFERS as u8 {
        assert!(world.send(MACS[0], content, 60));
    }
    assert_eq!(world.settle()[1].len() as u32, BUFFERS);
}

#[test]
fn large_frames_need_large_buffers() {
    for large in [0, 1] {
        let (provider, _) = connections(MACS[0], large, false);
        let mut port = Port::new(&provider);
        let mut client = Peer::<Descriptor>::new(provider.rx_filled, provider.rx_free);
        for _ in 0..4 {
            port.begin();
            let _ = (port.end_round(), client.take());
        }
        let offsets = [0, SIZE, BUFFERS * SIZE];
        client.send(&offsets[..2 + large as usize].iter().map(|offset| Descriptor::empty(*offset)).collect::<Vec<_>>());
        port.begin();
        assert_eq!(port.deliver_bytes(PacketHeader::default(), &[5; 4000], Beginning::default()), large > 0);
        assert!(
            port.deliver_bytes(PacketHeader::default(), &[6; 60], Beginning::default()),
            "small buffers are still there"
        );
        assert!(port.deliver_bytes(PacketHeader::default(), &[6; 60], Beginning::default()));
        assert!(!port.deliver_bytes(PacketHeader::default(), &[6; 60], Beginning::default()));
    }
}

proptest! {
    /// Whatever a client puts into its queues: nothing is read or written outside of its buffers,
    /// and nobody waits for ever.
    #[test]
    fn any_entries_are_survived(
        entries in proptest::collection::vec((any::<u32>(), any::<u16>(), any::<u16>(), any::<bool>()), 0..60),
        large in 0..2_u32,
    ) {
        let (provider, _) = connections(MACS[0], large, true);
        let (other, _) = connections(MACS[1], large, false);
        let (mut port, mut target) = (Port::new(&provider), Port::new(&other));
        let mut receiving = Peer::<Descriptor>::new(provider.rx_filled, provider.rx_free);
        let mut sending = Peer::<Descriptor>::new(provider.tx_free, provider.tx_filled);
        for chunk in entries.chunks(4) {
            for (offset, length, flags, near) in chunk {
                let offset = if *near { offset % 20 * SIZE } else { *offset };
                let flags = if *near { 0 } else { *flags };
                let entry = Descriptor { offset, length: *length, flags };
                receiving.send(&[entry]);
                sending.send(&[entry]);
            }
            port.begin();
            target.begin();
            while let Some(frame) = port.next_frame() {
                let mut bytes = vec![0; frame.length()];
                prop_assert!(port.read(&frame, Beginning::default(), &mut bytes));
                let _ = target.deliver(&port, &frame, Beginning::default());
            }
            let _ = port.deliver_bytes(PacketHeader::default(), &[1; 70], Beginning::default());
            let _ = (port.end_round(), receiving.take(), sending.take());
        }
        prop_assert_eq!(port.mac(), Mac::new(MACS[0]));
    }
}
