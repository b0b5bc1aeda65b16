//! The costs that one client can cause the others, and this domain: by what it sends, and by what
//! it does besides.

use crate::tests::{BUFFERS, SIZE, SOMEBODY, World, dma, mac, segments, segments_of, send_packet};
use culm::testing::set_time;
use culm_net::testing::frame;
use culm_net::{Descriptor, DmaDescriptor, PacketHeader, header};

/// The header of [`segments`].
fn divided() -> PacketHeader {
    PacketHeader {
        flags: header::flags::NEEDS_CHECKSUM,
        segmentation: header::segmentation::TCP_4,
        header_length: 54,
        segment_size: 1460,
        checksum_start: 34,
        checksum_offset: 16,
        buffers: 0,
    }
}

/// Bytes for which a turn brings credit, as the reference of the class says.
const CREDIT: u64 = 16 * 1024;

/// Has a client send from all of its buffers: large packets from the large ones, of others `length`
/// bytes each.
fn send_all(world: &mut World, client: usize, large: bool, length: usize) {
    let is_large = |buffer: &mut Descriptor| buffer.offset >= world.buffers * SIZE;
    for buffer in world.free[client].extract_if(.., |buffer| is_large(buffer) == large).collect::<Vec<_>>() {
        if large {
            send_packet(world, client, buffer, &segments(mac(client)), divided());
        } else {
            let content = vec![0; length - 14];
            send_packet(world, client, buffer, &frame(SOMEBODY, mac(client), &content), PacketHeader::default());
        }
    }
}

/// Bytes that each of two clients gets onto the wire which send without end, the first one packets
/// of many segments, the other frames of `length` bytes, with a driver that completes `pace` frames
/// at a time.
fn compete(length: usize, pace: usize, anti_spoof: bool) -> [u64; 2] {
    let mut world = World::with_buffers(2, anti_spoof, 16, 400);
    let mut sent = [0; 2];
    let mut with_driver: Vec<DmaDescriptor> = Vec::new();
    for _ in 0..3000 {
        send_all(&mut world, 0, true, 0);
        send_all(&mut world, 1, false, length);
        world.turn();
        with_driver.extend(world.driver.take());
        let count = pace.min(with_driver.len());
        let done: Vec<_> = with_driver.drain(..count).collect();
        for entry in &done {
            sent[usize::from(usize::from(entry.length) == 12 + length)] += u64::from(entry.length);
        }
        world.driver.send(&done);
        world.turn();
        world.collect();
    }
    sent
}

#[test]
fn clients_share_the_card_by_bytes() {
    // Frames that are shorter than what each counts at least have less, by as much.
    for (length, most, anti_spoof) in [(1500, 2, false), (1500, 2, true), (600, 2, false), (60, 16, true)] {
        let [large, small] = compete(length, 4, anti_spoof);
        assert!(
            large <= most * small && small <= most * large,
            "{large} bytes of many segments, {small} of {length}-byte frames, copied: {anti_spoof}"
        );
    }
}

#[test]
fn large_buffers_of_the_virtualisers_own_are_shared() {
    let mut world = World::with_large(2, true, 8);
    send_all(&mut world, 0, true, 0);
    world.turn();
    let first = world.driver.take();
    assert!((1..8).contains(&first.len()), "{} of eight", first.len());
    // A frame, then a packet of many segments.
    assert!(world.send(1, mac(1)).is_some());
    send_all(&mut world, 1, true, 0);
    world.turn();
    let lengths: Vec<u16> = world.driver.take().iter().map(|entry| entry.length).collect();
    assert!(lengths.len() > 1, "who has sent nothing gets its share, of either size: {lengths:?}");
    world.complete(&first);
    world.turn();
    assert!(!world.driver.take().is_empty(), "what came back is used again");
}

/// Sends `count` frames of `length` bytes each.
fn send_some(world: &mut World, client: usize, count: usize, length: usize) {
    let content = vec![0; length - 14];
    for _ in 0..count {
        let at = world.free[client].iter().position(|buffer| buffer.offset < world.buffers * SIZE);
        let buffer = world.free[client].swap_remove(at.expect("a small buffer"));
        send_packet(world, client, buffer, &frame(SOMEBODY, mac(client), &content), PacketHeader::default());
    }
}

#[test]
fn turns_alternate_by_bytes() {
    // The frames of the two, all of which the driver may have at once: so nothing but their turns
    // orders them.
    for (first, second) in [((30, 1500), (30, 1500)), ((60, 700), (30, 1500)), ((1, 60_014), (30, 1500))] {
        let mut world = World::with_buffers(2, false, 1, 400);
        for (client, (count, length)) in [first, second].into_iter().enumerate() {
            if length > usize::from(u16::MAX / 2) {
                send_all(&mut world, client, true, 0);
            } else {
                send_some(&mut world, client, count, length);
            }
        }
        world.turn();
        let entries = world.driver.take();
        assert_eq!(entries.len(), first.0 + second.0, "all of them are sent");
        let whose = |entry: &DmaDescriptor| usize::from(entry.address >= dma(1));
        let mut left = [first.0, second.0];
        let mut sent = [0_u64; 2];
        let longest = first.1.max(second.1) as u64 + 12;
        for entry in &entries {
            sent[whose(entry)] += u64::from(entry.length);
            left[whose(entry)] -= 1;
            if left.contains(&0) {
                break;
            }
            let ahead = sent[0].abs_diff(sent[1]);
            assert!(ahead <= CREDIT + longest, "{first:?} and {second:?}: one is {ahead} bytes ahead, {sent:?}");
        }
        // A client with a few long packets does not get them all sent before the other has sent
        // anything.
        let begun = entries.iter().take_while(|entry| whose(entry) == whose(&entries[0]));
        let begun: u64 = begun.map(|entry| u64::from(entry.length)).sum();
        assert!(
            begun <= 4 * CREDIT && usize::from(entries[0].length) <= 2000,
            "{begun} bytes before the other's first"
        );
    }
}

#[test]
fn a_client_that_sends_without_end_delays_others_little() {
    let (length, buffers) = (1500, 400);
    let mut world = World::with_buffers(2, false, 0, buffers);
    // The driver may have as many times 512 bytes as frames, of which an eighth is nobody's. Half
    // of the others are guaranteed, to two alike, and one may have all of the rest; with its last
    // frame it may pass that.
    let shared = 512 * u64::from(culm_net::lendable(512)) * 7 / 8;
    let most = shared / 4 + shared / 2 + length as u64;
    let mut with_driver: Vec<DmaDescriptor> = Vec::new();
    let mut delayed = 0;
    for round in 0..200 {
        send_all(&mut world, 0, false, length);
        world.turn();
        with_driver.extend(world.driver.take());
        if round % 10 == 0 {
            assert!(world.send(1, mac(1)).is_some());
            world.turn();
            with_driver.extend(world.driver.take());
            let place = with_driver.iter().rposition(|entry| entry.address >= dma(1));
            let place = place.expect("the other's frame is among those sent");
            let ahead: u64 = with_driver[..place].iter().map(|entry| u64::from(entry.length)).sum();
            assert!(ahead <= most, "{ahead} bytes before it");
            delayed = delayed.max(ahead);
        }
        let count = with_driver.len().min(20);
        let done: Vec<_> = with_driver.drain(..count).collect();
        world.complete(&done);
    }
    assert!(delayed > most / 2, "{delayed} bytes: the first has sent as much as it may");
}

#[test]
fn large_copies_are_shared_where_nothing_else_runs_short() {
    // Packets that need a large buffer each, and are so short that the driver may have all of them.
    let send = |world: &mut World, client: usize| {
        let large: Vec<_> = world.free[client].extract_if(.., |buffer| buffer.offset >= world.buffers * SIZE).collect();
        for buffer in large {
            send_packet(world, client, buffer, &segments_of(mac(client), 4000), divided());
        }
        world.turn();
        world.collect();
        world.driver.take()
    };
    let mut world = World::with_buffers(2, true, 8, 400);
    // Of eight one is nobody's, and one the other's whatever this one does.
    let first = send(&mut world, 0);
    assert_eq!(first.len(), 6, "what one client may have");
    assert_eq!(send(&mut world, 1).len(), 1, "what is guaranteed to the other");
    // Buffers that came back of the one are there for both.
    world.complete(&first);
    assert_eq!(world.driver.take().len(), 6, "again");
    let mut world = World::with_buffers(1, true, 8, 400);
    assert_eq!(send(&mut world, 0).len(), 8, "who is alone may have all");
}

#[test]
fn a_client_that_starts_over_without_end_costs_little() {
    let mut world = World::new(2, false);
    let mut lent = 0;
    for _ in 0..1000 {
        world.clients[1].link.start_over();
        let _ = world.clients[1].take();
        world.turn();
        lent += world.clients[1].take().len();
    }
    // In a second: its allowance, and ten times that as time passes.
    assert!(lent < 11 * (256 + 3 * BUFFERS as usize), "{lent} buffers were lent");
    assert!(lent > BUFFERS as usize, "{lent}: it is answered");
}

/// Fills the queue of a hostile client, as fast as it is read.
fn refill(world: &mut World, entry: Descriptor) {
    let _ = world.clients[1].output().refresh();
    while world.clients[1].output().push(entry).is_ok() {}
    let _ = world.clients[1].output().publish();
}

#[test]
fn reading_ends_whatever_a_client_sends() {
    let nobodys = Descriptor { offset: 5, length: 60, flags: 0 };
    let too_long = Descriptor { offset: 0, length: u16::MAX, flags: 0 };
    for anti_spoof in [false, true] {
        for entry in [nobodys, too_long, Descriptor { flags: 3, ..nobodys }] {
            let mut world = World::new(2, anti_spoof);
            let mut rounds = 0;
            let deadline = loop {
                refill(&mut world, entry);
                // It takes what it is given, so that there is space for answers.
                while world.clients[1].input().pop().is_some() {}
                let _ = world.clients[1].input().release();
                world.virtualiser.mark_due(culm::testing::channels(&[2]));
                let _ = world.virtualiser.round();
                if let Some(deadline) = culm::testing::deadline() {
                    break deadline;
                }
                rounds += 1;
                assert!(rounds < 500, "{entry:?}: it is read without end");
            };
            // Others go on meanwhile.
            assert!(world.send(0, mac(0)).is_some());
            world.virtualiser.mark_due(culm::testing::channels(&[1, 2]));
            assert!(world.virtualiser.round().is_asleep());
            assert_eq!(world.driver.take().len(), 1);
            set_time(deadline);
            world.virtualiser.mark_due(culm::testing::channels(&[]));
            let violations = world.clients[1].output().free();
            let _ = world.virtualiser.round();
            assert!(world.clients[1].output().refresh() > violations, "{entry:?}: it is looked at again");
        }
    }
}

#[test]
fn frames_in_anothers_name_are_not_copied_without_end() {
    let mut world = World::new(2, true);
    let mut sent = 0;
    for _ in 0..2000 {
        world.collect();
        while world.send(1, mac(0)).is_some() {
            sent += 1;
        }
        world.virtualiser.mark_due(culm::testing::channels(&[2]));
        let _ = world.virtualiser.round();
    }
    assert!((50..200).contains(&sent), "{sent} frames were looked at without time passing");
    assert!(world.driver.take().is_empty());
}

#[test]
fn a_client_that_only_notifies_is_left_alone() {
    let mut world = World::new(2, false);
    for _ in 0..1000 {
        world.virtualiser.mark_due(culm::testing::channels(&[2]));
        assert!(world.virtualiser.round().is_asleep());
    }
    let deadline = culm::testing::deadline().expect("it looks again");
    let frame = world.send(1, mac(1));
    world.virtualiser.mark_due(culm::testing::channels(&[2]));
    assert!(world.virtualiser.round().is_asleep() && frame.is_some());
    assert!(world.driver.take().is_empty(), "nobody looks whether it has a frame this time");
    set_time(deadline);
    let _ = world.virtualiser.round();
    assert_eq!(world.driver.take().len(), 1, "in the end somebody does");
}

#[test]
fn a_client_that_has_its_share_and_only_notifies_is_left_alone() {
    let mut world = World::new(8, false);
    while world.send(1, mac(1)).is_some() {}
    world.turn();
    let first = world.driver.take();
    assert!((1..BUFFERS as usize).contains(&first.len()), "{} frames: it has its share", first.len());
    for _ in 0..1000 {
        world.virtualiser.mark_due(culm::testing::channels(&[2]));
        let _ = world.virtualiser.round();
    }
    let deadline = culm::testing::deadline().expect("it looks again");
    world.driver.send(&first);
    world.virtualiser.mark_due(culm::testing::channels(&[0]));
    let _ = world.virtualiser.round();
    assert!(world.driver.take().is_empty(), "it waits, although its share is back");
    set_time(deadline);
    let _ = world.virtualiser.round();
    assert!(!world.driver.take().is_empty(), "and then it sends");
}

#[test]
fn who_is_left_alone_delays_nobody() {
    let mut world = World::with_large(2, false, 1);
    for _ in 0..1000 {
        world.virtualiser.mark_due(culm::testing::channels(&[2]));
        let _ = world.virtualiser.round();
    }
    assert!(culm::testing::deadline().is_some(), "one of the two is left alone");
    // The small ones first.
    world.free[0].reverse();
    // The other sends a frame, which the driver returns without a word, since nobody waits for it;
    // then it sends its only large one, and runs short.
    assert!(world.send(0, mac(0)).is_some());
    world.virtualiser.mark_due(culm::testing::channels(&[1]));
    while world.virtualiser.round().is_more() {}
    let sent = world.driver.take();
    assert_eq!(sent.len(), 1);
    world.driver.send(&sent);
    send_all(&mut world, 0, true, 0);
    world.virtualiser.mark_due(culm::testing::channels(&[1]));
    while world.virtualiser.round().is_more() {}
    world.collect();
    assert_eq!(world.free[0].len() as u32, BUFFERS, "what was returned is found");
}

#[test]
fn a_client_that_sends_is_never_left_alone() {
    let mut world = World::new(2, false);
    for _ in 0..2000 {
        assert!(world.send(0, mac(0)).is_some());
        world.virtualiser.mark_due(culm::testing::channels(&[1]));
        while world.virtualiser.round().is_more() {}
        let sent = world.driver.take();
        assert_eq!(sent.len(), 1);
        // Once more than there is a reason for.
        world.virtualiser.mark_due(culm::testing::channels(&[1]));
        while world.virtualiser.round().is_more() {}
        world.driver.send(&sent);
        world.virtualiser.mark_due(culm::testing::channels(&[0]));
        while world.virtualiser.round().is_more() {}
        world.collect();
    }
}

#[test]
fn a_restarted_client_has_its_buffers_at_once() {
    let mut world = World::with_large(1, false, 4);
    for _ in 0..2 {
        let connection = world.client_connections[0];
        world.clients[0] = culm_net::testing::Peer::new(connection.free, connection.filled);
        world.free[0].clear();
        for _ in 0..3 {
            world.virtualiser.mark_due(culm::testing::channels(&[1]));
            while world.virtualiser.round().is_more() {}
            world.collect();
        }
        assert_eq!(world.free[0].len() as u32, BUFFERS + 4);
    }
}

#[test]
fn what_is_lent_comes_between_others_frames() {
    let buffers = 400;
    let mut world = World::with_buffers(2, false, 0, buffers);
    let connection = world.client_connections[1];
    world.clients[1] = culm_net::testing::Peer::new(connection.free, connection.filled);
    let (mut rounds, mut lent) = (0, 0);
    while lent < buffers {
        world.virtualiser.mark_due(culm::testing::channels(&[2]));
        let _ = world.virtualiser.round();
        let now = world.clients[1].take().len() as u32;
        assert!(now <= 64, "{now} in one round");
        lent += now;
        rounds += 1;
        assert!(rounds < 100);
    }
}
