//! Frames that lie in several buffers, from devices that are honest about it and from others.

use crate::tests::{BUFFERS, DMA, SIZE, STRANGER, World, mac};
use culm_net::descriptor::flags::{AFTER_RESET, CONTINUES};
use culm_net::testing::{Peer, frame};
use culm_net::{Descriptor, DmaDescriptor, HEADROOM, Mac, PacketHeader};
use proptest::prelude::*;

/// A packet of this frame whose header says that it lies in so many buffers.
fn packet(frame: &[u8], buffers: u16) -> Vec<u8> {
    let mut header = [0; HEADROOM];
    PacketHeader { buffers, ..PacketHeader::default() }.write(&mut header);
    [&header, frame].concat()
}

/// The device fills buffers with these bytes, in order, and passes them to the driver.
fn fill(world: &mut World, packet: &[u8]) -> Vec<DmaDescriptor> {
    let fill = |bytes: &[u8]| {
        let entry = world.empty.remove(0);
        world.data.write((entry.address - DMA) as usize, bytes).expect("inside");
        DmaDescriptor { address: 0, length: bytes.len() as u16, flags: 0, token: entry.token }
    };
    packet.chunks(SIZE as usize).map(fill).collect()
}

/// Receives a frame for `to` with this content, in as many buffers as it takes.
fn receive(world: &mut World, to: Mac, content: &[u8]) -> usize {
    let frame = frame(to, STRANGER, content);
    let count = (frame.len() + HEADROOM).div_ceil(SIZE as usize);
    let entries = fill(world, &packet(&frame, count as u16));
    world.driver.send(&entries);
    count
}

/// Returns what a client was given, as the packets that it is.
fn packets(world: &World, entries: &[Descriptor]) -> Vec<Vec<u8>> {
    let mut packets = vec![Vec::new()];
    for entry in entries {
        let mut bytes = vec![0; entry.length.into()];
        world.data.read(entry.offset as usize, &mut bytes).expect("inside");
        packets.last_mut().expect("one").extend(bytes);
        if entry.flags & CONTINUES == 0 {
            packets.push(Vec::new());
        }
    }
    assert_eq!(packets.pop(), Some(Vec::new()), "the end of a frame is missing");
    packets
}

/// Buffers that nobody but the driver has.
fn with_driver(world: &mut World) -> u32 {
    for _ in 0..3 {
        // Somebody has returned something.
        world.virtualiser.mark_due(culm::testing::channels(&[1, 2]));
        world.turn();
        world.driver_turn();
    }
    world.empty.len() as u32
}

#[test]
fn a_client_is_given_all_buffers_of_its_frame() {
    let mut world = World::new(2);
    let content: Vec<u8> = (0..9000).map(|index| index as u8).collect();
    receive(&mut world, mac(1), &content);
    receive(&mut world, mac(1), b"short");
    world.turn();
    assert!(world.clients[0].take().is_empty());
    let entries = world.clients[1].take();
    let packets = packets(&world, &entries);
    assert_eq!(packets.iter().map(|packet| &packet[26..]).collect::<Vec<_>>(), [&content[..], b"short"]);
    let returned: Vec<_> = entries.iter().map(|entry| Descriptor::empty(entry.offset)).collect();
    world.clients[1].send(&returned);
    assert_eq!(with_driver(&mut world), BUFFERS);
}

#[test]
fn buffers_that_come_later_belong_to_the_frame_that_began() {
    let mut world = World::new(2);
    let entries = fill(&mut world, &packet(&frame(mac(0), STRANGER, &[9; 5000]), 3));
    for entry in entries {
        assert!(world.clients[0].take().is_empty(), "nothing before all of it is there");
        world.driver.send(&[entry]);
        world.turn();
    }
    let entries = world.clients[0].take();
    assert_eq!((entries.len(), packets(&world, &entries).len()), (3, 1));
}

/// The device had filled two of three buffers. What it receives after its reset is another frame.
#[test]
fn a_reset_of_the_device_ends_a_frame() {
    let mut world = World::new(2);
    let entries = fill(&mut world, &packet(&frame(mac(0), STRANGER, &[9; 5000]), 3));
    world.driver.send(&entries[..2]);
    world.turn();
    for (content, flags) in [(&b"first"[..], AFTER_RESET), (b"second", 0)] {
        let entries = fill(&mut world, &packet(&frame(mac(0), STRANGER, content), 1));
        world.driver.send(&[DmaDescriptor { flags, ..entries[0] }]);
        world.turn();
        let entries = world.clients[0].take();
        assert!(entries.iter().all(|entry| entry.flags == 0), "it is the virtualiser's to know");
        let packets = packets(&world, &entries);
        assert_eq!(packets.iter().map(|packet| &packet[26..]).collect::<Vec<_>>(), [content]);
    }
}

#[test]
fn every_client_may_hold_a_group_frame() {
    let mut world = World::new(2);
    receive(&mut world, Mac::BROADCAST, &[9; 5000]);
    world.turn();
    for client in 0..2 {
        let entries = world.clients[client].take();
        assert_eq!(packets(&world, &entries).len(), 1);
        assert_eq!(with_driver(&mut world), BUFFERS - 3);
        let returned: Vec<_> = entries.iter().map(|entry| Descriptor::empty(entry.offset)).collect();
        world.clients[client].send(&returned);
    }
    assert_eq!(with_driver(&mut world), BUFFERS);
}

#[test]
fn a_frame_for_which_there_is_no_room_is_dropped_whole() {
    let mut world = World::new(2);
    let mut count = 0;
    // The client returns nothing. Its share is used up in the middle of some frame.
    for _ in 0..4 {
        receive(&mut world, mac(0), &[9; 11_000]);
        world.turn();
        world.driver_turn();
        let entries = world.clients[0].take();
        packets(&world, &entries);
        count += entries.len() as u32;
    }
    assert!(count > 0 && count < 4 * 6 && count.is_multiple_of(6));
    assert_eq!(with_driver(&mut world), BUFFERS - count, "what was dropped is the driver's again");
    receive(&mut world, mac(1), &[9; 5000]);
    world.turn();
    assert_eq!(world.clients[1].take().len(), 3, "the other client has its share still");
}

#[test]
fn frames_for_nobody_cost_nothing() {
    let mut world = World::new(1);
    receive(&mut world, STRANGER, &[9; 5000]);
    assert_eq!(with_driver(&mut world), BUFFERS);
}

#[test]
fn counts_that_cannot_be_are_refused() {
    let mut world = World::new(1);
    for count in [34, 1000, u16::MAX] {
        let entries = fill(&mut world, &packet(&frame(mac(0), STRANGER, b"content"), count));
        world.driver.send(&entries);
        assert_eq!(with_driver(&mut world), BUFFERS, "{count}");
    }
    // Buffers in which nothing is, or that are longer than they can be.
    for length in [0, SIZE as u16 + 1] {
        let mut entries = fill(&mut world, &packet(&frame(mac(0), STRANGER, &[9; 5000]), 3));
        entries[1].length = length;
        world.driver.send(&entries);
        assert_eq!(with_driver(&mut world), BUFFERS, "{length}");
    }
    assert!(world.clients[0].take().is_empty());
    receive(&mut world, mac(0), &[9; 5000]);
    world.turn();
    assert_eq!(world.clients[0].take().len(), 3, "and what follows is received");
}

#[test]
fn a_driver_that_is_restarted_in_the_middle_of_a_frame_begins_with_another() {
    let mut world = World::new(1);
    let entries = fill(&mut world, &packet(&frame(mac(0), STRANGER, &[9; 5000]), 3));
    world.driver.send(&entries[..2]);
    world.turn();
    world.driver = Peer::new(world.connection.driver_free, world.connection.driver_filled);
    world.empty.clear();
    world.settle();
    assert_eq!(world.empty.len() as u32, BUFFERS);
    world.pass(mac(0));
    let entries = world.clients[0].take();
    assert_eq!((entries.len(), entries[0].flags), (1, 0));
}

#[test]
fn a_device_that_announces_more_buffers_than_it_has_keeps_none() {
    let mut world = World::new(1);
    // So many hold no frame of any device, but fewer than could be.
    for count in [BUFFERS as u16 + 1, 33] {
        for _ in 0..2 * BUFFERS {
            let entries = fill(&mut world, &packet(&frame(STRANGER, STRANGER, b"content"), count));
            world.driver.send(&entries);
            world.turn();
            world.driver_turn();
        }
        assert_eq!(with_driver(&mut world), BUFFERS, "{count}");
    }
    world.pass(mac(0));
    assert_eq!(world.clients[0].take().len(), 1, "and what follows is received");
}

proptest! {
    /// Whatever a device says about counts and lengths: a client gets whole frames, and no buffer
    /// is lost or lent twice.
    #[test]
    fn any_counts_are_survived(frames in proptest::collection::vec((0..40_u16, 0..6_usize, 0..3_usize, any::<bool>()), 1..60)) {
        let mut world = World::new(2);
        let mut held = Vec::new();
        for (count, buffers, to, returns) in frames {
            if world.empty.len() > buffers {
                let to = [mac(0), mac(1), Mac::BROADCAST][to];
                let content = vec![7; (buffers * SIZE as usize).saturating_sub(HEADROOM)];
                let entries = fill(&mut world, &packet(&frame(to, STRANGER, &content), count));
                world.driver.send(&entries);
            }
            world.turn();
            world.driver_turn();
            for client in 0..2 {
                let entries = world.clients[client].take();
                packets(&world, &entries);
                held.extend(entries.iter().map(|entry| (client, entry.offset)));
            }
            for empty in &world.empty {
                prop_assert!(held.iter().all(|(_, offset)| u64::from(*offset) != empty.address - DMA));
            }
            if returns {
                for (client, offset) in held.drain(..) {
                    world.clients[client].send(&[Descriptor::empty(offset)]);
                }
            }
        }
    }
}
