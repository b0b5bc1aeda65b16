//! The copier between a virtualiser and a client, honest and hostile.

mod restarts;

use crate::copier::Copier;
use culm::Region;
use culm::connection::NetCopier;
use culm_net::descriptor::flags::{CONTINUES, REFUSED};
use culm_net::testing::{Peer, frame, memory, read_frame, ring, write_packet};
use culm_net::{Descriptor, LARGE_BUFFER, Mac};
use proptest::prelude::*;

pub(crate) const BUFFERS: u32 = 8;
pub(crate) const SIZE: u32 = 2048;
const ANYBODY: Mac = Mac::new([2, 0, 0, 0, 0, 1]);

/// A copier between a virtualiser and a client.
pub(crate) struct World {
    pub(crate) connection: NetCopier,
    pub(crate) copier: Copier,
    pub(crate) virtualiser: Peer<Descriptor>,
    client: Peer<Descriptor>,
    device_data: Region,
    client_data: Region,
}

impl World {
    pub(crate) fn new() -> Self {
        Self::with_large(0)
    }

    /// With so many large buffers of the client's, behind the small ones.
    fn with_large(large: u32) -> Self {
        let connection = NetCopier {
            device_filled: ring::<Descriptor>(64),
            device_free: ring::<Descriptor>(64),
            device_data: memory((BUFFERS * SIZE) as usize, 0),
            client_filled: ring::<Descriptor>(16),
            client_free: ring::<Descriptor>(16),
            client_data: memory((BUFFERS * SIZE + large * LARGE_BUFFER) as usize, 0),
            device_buffer_size: SIZE,
            client_buffer_size: SIZE,
            device_channel: 0,
            client_channel: 1,
            client_large: large,
        };
        let mut world = Self {
            copier: Copier::new(&connection),
            virtualiser: Peer::new(connection.device_free, connection.device_filled),
            client: Peer::new(connection.client_filled, connection.client_free),
            device_data: Region::new(connection.device_data),
            client_data: Region::new(connection.client_data),
            connection,
        };
        world.settle();
        world
    }

    fn settle(&mut self) {
        for _ in 0..4 {
            self.turn();
            let _ = self.virtualiser.take();
            let _ = self.client.take();
        }
    }

    pub(crate) fn turn(&mut self) {
        self.copier.mark_due(culm::testing::channels(&[0, 1]));
        for _ in 0..4 {
            if self.copier.round().is_asleep() {
                return;
            }
        }
    }

    /// The virtualiser passes a frame in buffer `number`.
    pub(crate) fn pass(&mut self, number: u32, content: &[u8]) {
        let offset = number * SIZE;
        let length = write_packet(&self.device_data, offset, &frame(ANYBODY, ANYBODY, content));
        self.virtualiser.send(&[Descriptor { offset, length, flags: 1 }]);
    }

    fn provide(&mut self, offsets: &[u32]) {
        let entries: Vec<_> = offsets.iter().map(|offset| Descriptor::empty(*offset)).collect();
        self.client.send(&entries);
    }
}

#[test]
fn frames_are_copied_and_their_buffers_returned() {
    let mut world = World::new();
    world.provide(&[3 * SIZE, 0]);
    for (number, content) in [(5, &b"first"[..]), (6, &[0x5a; 1486][..])] {
        world.pass(number, content);
        world.turn();
        let packets = world.client.take();
        assert_eq!(packets.len(), 1);
        assert_eq!(read_frame(&world.client_data, packets[0])[14..], *content);
        assert_eq!(packets[0].flags, 1, "what the device can do is passed on");
        assert_eq!(world.virtualiser.take(), [Descriptor::empty(number * SIZE)]);
    }
}

/// A mark of the client's for each of its buffers, whether one frame waits or more.
#[test]
fn what_the_client_says_of_syns_is_passed_on() {
    let mut world = World::new();
    for marks in [vec![REFUSED], vec![0, REFUSED, 0, REFUSED, REFUSED], vec![0; 3]] {
        let buffers = marks.iter().zip(0..);
        let entries: Vec<_> =
            buffers.map(|(flags, number)| Descriptor { offset: number * SIZE, length: 0, flags: *flags }).collect();
        world.client.send(&entries);
        (0..marks.len() as u32).for_each(|number| world.pass(number, b"content"));
        world.turn();
        assert_eq!(world.client.take().len(), marks.len());
        let returned = world.virtualiser.take();
        assert_eq!(returned.len(), marks.len());
        let marked = |flags: &[u16]| flags.iter().filter(|flags| **flags == REFUSED).count();
        let flags: Vec<_> = returned.iter().map(|entry| entry.flags).collect();
        assert_eq!(marked(&flags), marked(&marks));
    }
}

/// Each mark goes with the next buffer that goes back, whatever lay in it, and none to another
/// life.
#[test]
fn marks_do_not_pile_up() {
    let mut world = World::with_large(1);
    let marked = |offset| Descriptor { offset, length: 7, flags: REFUSED };
    for _ in 0..5 {
        world.client.send(&[marked(large(0))]);
        pass_pieces(&mut world, 0, &[5; 3000]);
        world.provide(&[0]);
        world.turn();
        assert_eq!(world.client.take().len(), 1);
        assert_eq!(world.virtualiser.take(), [marked(0), Descriptor::empty(SIZE)]);
    }
    // A frame that is larger than any that is provided has the marked one looked past.
    world.client.send(&[marked(SIZE)]);
    pass_pieces(&mut world, 0, &[5; 3000]);
    world.turn();
    assert!(world.client.take().is_empty());
    world.client = Peer::new(world.connection.client_filled, world.connection.client_free);
    world.settle();
    world.provide(&[large(0), 0]);
    world.turn();
    assert_eq!(world.client.take().len(), 1);
    assert_eq!(world.virtualiser.take(), [Descriptor::empty(0), Descriptor::empty(SIZE)]);
}

#[test]
fn without_a_buffer_frames_wait_and_nothing_is_lost() {
    let mut world = World::new();
    for number in 0..BUFFERS {
        world.pass(number, &[number as u8; 40]);
    }
    world.turn();
    assert!(world.virtualiser.take().is_empty(), "they count against the client's share");
    let _ = culm::testing::signalled();
    for number in 0..BUFFERS {
        world.provide(&[number * SIZE]);
        world.turn();
        let packets = world.client.take();
        assert_eq!(read_frame(&world.client_data, packets[0])[14], number as u8);
    }
    assert_eq!(world.virtualiser.take().len() as u32, BUFFERS);
}

#[test]
fn only_the_frame_is_copied() {
    let mut world = World::new();
    world.device_data.write(100, &[0xee; 1000]).expect("inside");
    world.provide(&[0]);
    world.pass(0, b"short");
    world.turn();
    assert_eq!(world.client.take().len(), 1);
    let mut rest = [1; 1000];
    world.client_data.read(100, &mut rest).expect("inside");
    assert!(rest.iter().all(|byte| *byte == 0), "what an older frame left in the device's buffer stays there");
}

#[test]
fn a_client_that_lies_about_its_buffers_harms_only_itself() {
    let mut world = World::new();
    world.provide(&[1, SIZE - 1, BUFFERS * SIZE, u32::MAX, 2 * SIZE]);
    world.pass(0, b"content");
    world.turn();
    let packets = world.client.take();
    assert_eq!(packets.len(), 1);
    assert_eq!(packets[0].offset, 2 * SIZE);
}

#[test]
fn restarts_on_either_side_are_survived() {
    let mut world = World::new();
    world.provide(&[0, SIZE]);
    world.client = Peer::new(world.connection.client_filled, world.connection.client_free);
    world.settle();
    world.pass(0, b"content");
    world.turn();
    assert!(world.client.take().is_empty(), "buffers of its previous life are not written any more");
    world.provide(&[2 * SIZE]);
    world.turn();
    assert_eq!(world.client.take()[0].offset, 2 * SIZE);
    let _ = world.virtualiser.take();

    world.virtualiser = Peer::new(world.connection.device_free, world.connection.device_filled);
    world.settle();
    world.copier = Copier::new(&world.connection);
    world.settle();
    world.provide(&[3 * SIZE]);
    world.pass(1, b"content");
    world.turn();
    assert_eq!(world.client.take()[0].offset, 3 * SIZE);
}

/// Passes a packet of these bytes in the device's buffers from `number` on.
fn pass_pieces(world: &mut World, number: u32, packet: &[u8]) {
    let pieces: Vec<&[u8]> = packet.chunks(SIZE as usize).collect();
    for (index, piece) in pieces.iter().enumerate() {
        let offset = (number + index as u32) * SIZE;
        world.device_data.write(offset as usize, piece).expect("inside");
        let flags = if index + 1 < pieces.len() { 1 | CONTINUES } else { 1 };
        world.virtualiser.send(&[Descriptor { offset, length: piece.len() as u16, flags }]);
    }
}

/// Where the client's large buffers are.
fn large(number: u32) -> u32 {
    BUFFERS * SIZE + number * LARGE_BUFFER
}

#[test]
fn pieces_are_put_together() {
    let mut world = World::with_large(2);
    world.provide(&[0, large(1), SIZE, large(0)]);
    let packet: Vec<u8> = (0..9000).map(|index| (index % 251) as u8).collect();
    world.pass(7, b"before");
    pass_pieces(&mut world, 0, &packet);
    world.pass(6, b"after");
    world.turn();
    let packets = world.client.take();
    assert_eq!(packets.iter().map(|packet| packet.offset).collect::<Vec<_>>(), [0, large(0), SIZE]);
    assert_eq!(packets[1].flags, 1, "nothing continues");
    let mut found = vec![0; packets[1].length.into()];
    world.client_data.read(packets[1].offset as usize, &mut found).expect("inside");
    assert_eq!(found, packet);
    let returned: Vec<u32> = world.virtualiser.take().iter().map(|entry| entry.offset / SIZE).collect();
    assert_eq!(returned, [7, 0, 1, 2, 3, 4, 6]);
}

#[test]
fn without_a_large_buffer_pieces_wait() {
    let mut world = World::with_large(1);
    world.provide(&[0, SIZE]);
    pass_pieces(&mut world, 0, &[5; 3000]);
    world.pass(6, b"after");
    world.turn();
    assert!(world.client.take().is_empty() && world.virtualiser.take().is_empty());
    world.provide(&[large(0)]);
    world.turn();
    let packets = world.client.take();
    assert_eq!(packets.iter().map(|packet| packet.offset).collect::<Vec<_>>()[0], large(0));
    assert_eq!(packets.len(), 2, "the small buffers were not lost meanwhile");
}

#[test]
fn a_client_that_has_no_large_buffers_never_gets_such_frames() {
    let mut world = World::new();
    world.provide(&[0]);
    pass_pieces(&mut world, 0, &[5; 3000]);
    world.pass(6, b"after");
    world.turn();
    let packets = world.client.take();
    assert_eq!(packets.len(), 1);
    assert_eq!(read_frame(&world.client_data, packets[0])[14..], *b"after");
    assert_eq!(world.virtualiser.take().len(), 3);
}

#[test]
fn what_is_not_whole_is_dropped() {
    let mut world = World::with_large(1);
    world.provide(&[large(0), 0]);
    // No end; then an empty piece; then one longer than a buffer.
    let piece = |number: u32, length, flags| Descriptor { offset: number * SIZE, length, flags };
    for pieces in [
        vec![piece(0, 2048, CONTINUES)],
        vec![piece(0, 2048, CONTINUES), piece(1, 0, 0)],
        vec![piece(0, 2048, CONTINUES), piece(1, 2049, 0)],
        vec![piece(0, 10, CONTINUES), piece(1, 2048, 0)],
    ] {
        world.virtualiser.send(&pieces);
        world.turn();
        assert!(world.client.take().is_empty());
        assert_eq!(world.virtualiser.take().len(), pieces.len(), "the device's buffers go back");
    }
    pass_pieces(&mut world, 0, &[5; 3000]);
    world.turn();
    assert_eq!(world.client.take().len(), 1, "the client's buffer is still there");
}

#[test]
fn the_longest_frame_is_the_longest() {
    let mut world = World::with_large(1);
    world.provide(&[large(0), 0]);
    for (last, fits) in [(2048, false), (2047, true)] {
        // The same buffer again and again: the virtualiser would not, but the copier does not know.
        let mut pieces = vec![Descriptor { offset: 0, length: 2048, flags: CONTINUES }; 31];
        pieces.push(Descriptor { offset: 0, length: last, flags: 0 });
        world.virtualiser.send(&pieces);
        world.turn();
        assert_eq!(world.client.take().len(), usize::from(fits));
        assert_eq!(world.virtualiser.take().len(), 32);
    }
}

#[test]
fn stashed_buffers_are_forgotten_with_the_client() {
    let mut world = World::with_large(2);
    world.provide(&[0, SIZE, large(0), large(1)]);
    // Looks past the small ones.
    pass_pieces(&mut world, 0, &[5; 3000]);
    world.turn();
    assert_eq!(world.client.take().len(), 1);
    world.client = Peer::new(world.connection.client_filled, world.connection.client_free);
    world.settle();
    world.pass(0, b"content");
    world.turn();
    assert!(world.client.take().is_empty(), "buffers of its previous life are not written any more");
}

proptest! {
    /// Whatever the client and the virtualiser put into their queues: nothing is written outside of
    /// the buffers that the client named.
    #[test]
    fn any_entries_are_survived(
        mine in proptest::collection::vec((any::<u32>(), any::<u16>(), any::<u16>()), 0..40),
        theirs in proptest::collection::vec((any::<u32>(), any::<u16>(), any::<u16>()), 0..40),
        large in 0..3_u32,
    ) {
        let mut world = World::with_large(large);
        let entry = |(offset, length, flags): &(u32, u16, u16)| Descriptor { offset: *offset, length: *length, flags: *flags };
        for (mine, theirs) in mine.chunks(4).zip(theirs.chunks(4)) {
            world.client.send(&mine.iter().map(entry).collect::<Vec<_>>());
            world.virtualiser.send(&theirs.iter().map(entry).collect::<Vec<_>>());
            world.turn();
            let _ = (world.client.take(), world.virtualiser.take());
        }
    }
}
