//! The driver between a fake device and a virtualiser.

mod device;
mod lies;
mod pci;
mod restarts;
mod trouble;

use crate::block::Block;
use crate::device::QUEUE_LIMIT;
use crate::engine::PERIOD;
use crate::registers::*;
use crate::requests::RECORD;
use culm::time;
use culm_block::{BLOCK, Completion, Disk, Error, MAX_BLOCKS, NotSent, Operation, Request, Segment};
use culm_virtio::registers::*;
use culm_virtio::{Layout, Unusable};
use device::{BLOCKS, Config, World, place, segment};
use std::vec;
use std::vec::Vec;

/// The tool refuses boards that give a device less than the manifest asks for.
#[test]
fn the_longest_queue_fits_the_memory_that_the_manifest_asks_for() {
    let (_, rest) = include_str!("../component.toml").split_once("dma = \"").expect("it asks for memory");
    let (asked, _) = rest.split_once("KiB\"").expect("by the KiB");
    let records = Layout::new(QUEUE_LIMIT, 0).end.next_multiple_of(RECORD);
    let end = records + RECORD * usize::from(QUEUE_LIMIT / 2);
    assert!(end <= asked.parse::<usize>().expect("a number") * 1024, "{end} bytes");
}

#[test]
fn the_disk_is_what_the_device_says() {
    let world = World::new();
    let expected = Disk {
        discards: true,
        writes_zeroes: true,
        segments: 4,
        most: MAX_BLOCKS,
        most_cleared: 6,
        failures: 1,
        ..Disk::new(BLOCKS, 1)
    };
    assert_eq!(world.disk(), Some(expected));
    assert_eq!(world.state.resets.get(), 1);
}

/// The disk that the virtualiser is shown of a device with this configuration and these features
/// besides those of the transport.
fn disk(config: Config, features: u64) -> Disk {
    World::with(config, FEATURE_VERSION_1 | features).disk().expect("it is shown")
}

#[test]
fn limits_are_those_of_the_device() {
    let config = Config::default();
    let bare = disk(config, 0);
    let expected = Disk { segments: 1, failures: 1, caches: false, ..Disk::new(BLOCKS, 1) };
    assert_eq!(bare, expected, "of what the device does not offer nothing is believed");
    assert_eq!(disk(config, FEATURE_READ_ONLY), Disk { read_only: true, ..expected });
    assert_eq!(disk(Config { segments: 0, ..config }, FEATURE_SEGMENTS).segments, 1);
    assert_eq!(disk(Config { segments: 2, ..config }, FEATURE_SEGMENTS).segments, 2);
    assert_eq!(disk(Config { segments: 9000, ..config }, FEATURE_SEGMENTS).segments, 4, "as its queue has space for");
    assert_eq!(disk(Config { segment_size: 4096 + 511, ..config }, FEATURE_SEGMENT_SIZE).most, 8);
    assert_eq!(disk(Config { segment_size: 511, ..config }, FEATURE_SEGMENT_SIZE), Disk::ABSENT);
    assert_eq!(disk(Config { segment_size: u32::MAX, ..config }, FEATURE_SEGMENT_SIZE).most, MAX_BLOCKS);
    assert_eq!(disk(Config { capacity: u64::MAX, ..config }, 0).blocks, culm_block::MAX_DISK);
    assert_eq!(disk(Config { capacity: 0, ..config }, 0), Disk::ABSENT);
}

#[test]
fn blocks_of_the_devices_own_are_never_divided() {
    let sized = |block_size| disk(Config { block_size, capacity: 100, ..Config::default() }, FEATURE_BLOCK_SIZE);
    assert_eq!((sized(512).granule, sized(512).blocks), (0, 100));
    assert_eq!((sized(4096).granule, sized(4096).blocks), (3, 96));
    assert_eq!(sized(65536), Disk::ABSENT, "no block is whole");
    for size in [1, 256, 520, 3 << 9, 131_072, u32::MAX] {
        assert_eq!(sized(size), Disk::ABSENT, "{size}");
    }
    let features = FEATURE_BLOCK_SIZE | FEATURE_SEGMENT_SIZE;
    let config = Config { block_size: 4096, segment_size: 5000, ..Config::default() };
    assert_eq!(disk(config, features).most, 8);
    assert_eq!(disk(Config { segment_size: 4000, ..config }, features), Disk::ABSENT);
}

#[test]
fn what_clears_blocks_is_limited_by_the_smaller_limit() {
    let both = FEATURE_DISCARD | FEATURE_WRITE_ZEROES;
    let config = Config { discarded: 1000, zeroed: 3, ..Config::default() };
    let cleared = |config, features| {
        let disk = disk(config, features);
        (disk.discards, disk.writes_zeroes, disk.most_cleared)
    };
    assert_eq!(cleared(config, both), (true, true, 1));
    assert_eq!(cleared(config, FEATURE_DISCARD), (true, false, 9));
    assert_eq!(cleared(Config { zeroed: 0, ..config }, both), (true, false, 9));
    assert_eq!(cleared(Config { ranges: 0, ..config }, both), (false, false, Disk::MAX_CLEARED));
    assert_eq!(cleared(Config { zeroed: u32::MAX, ..config }, FEATURE_WRITE_ZEROES), (false, true, 23));
    // Fewer blocks than one of the device's own.
    let features = both | FEATURE_BLOCK_SIZE;
    assert_eq!(cleared(Config { block_size: 4096, ..config }, features), (true, false, 9));
}

/// The virtualiser's notification is on its way when the device interrupts: it brings the turn in
/// which its request is taken.
#[test]
fn an_interrupt_alone_leaves_the_queue_of_requests_alone() {
    let mut world = World::new();
    let read = Request::read(0, &[segment(0, 1)]).expect("one segment");
    world.client.send(&read, 1).expect("the disk takes it");
    world.run();
    world.serve(1);
    world.client.send(&read, 2).expect("the disk takes it");
    let _ = world.client.end_round();
    world.block.interrupted(true);
    assert!(world.block.round().is_asleep());
    assert!(world.take().is_empty(), "nobody has notified");
    assert!(world.block.round().is_asleep());
    assert_eq!(world.take().len(), 1);
    // Where the driver has not asked for a notification, it looks.
    world.client.send(&read, 3).expect("the disk takes it");
    let _ = world.client.end_round();
    let disk = *world.block.engine.disk();
    world.block.engine.set_disk(disk);
    world.block.interrupted(true);
    assert!(world.block.round().is_asleep());
    assert_eq!(world.take().len(), 1);
}

#[test]
fn blocks_are_written_and_read_where_the_client_says() {
    let mut world = World::new();
    world.fill(0, 3, 0xa0);
    world.fill(5, 2, 0xb0);
    let write = Request::write(10, &[segment(0, 3), segment(5, 2)]).expect("two segments");
    assert_eq!(world.ask(&write), Ok(()));
    assert_eq!(world.device.block(9), [0; BLOCK]);
    for (block, byte) in [(10, 0xa0), (11, 0xa1), (12, 0xa2), (13, 0xb0), (14, 0xb1)] {
        assert_eq!(world.device.block(block), [byte; BLOCK], "block {block}");
    }
    let read = Request::read(11, &[segment(20, 1), segment(30, 2)]).expect("two segments");
    assert_eq!(world.ask(&read), Ok(()));
    for (block, byte) in [(20, 0xa1), (30, 0xa2), (31, 0xb0), (21, 0)] {
        assert_eq!(world.memory(block), [byte; BLOCK], "block {block} of memory");
    }
}

/// Requests reach the device in the form of §5.2.6, byte by byte.
#[test]
fn requests_have_the_form_that_the_device_expects() {
    let mut world = World::new();
    let all: [(Request, u32, u64, Option<[u64; 2]>); 6] = [
        (Request::read(7, &[segment(1, 2)]).expect("one"), TYPE_READ, 7, None),
        (Request::write(8, &[segment(3, 1)]).expect("one"), TYPE_WRITE, 8, None),
        (Request::flush(), TYPE_FLUSH, 0, None),
        (Request::discard(9, 5), TYPE_DISCARD, 0, Some([9, 5])),
        (Request::write_zeroes(10, 6, false), TYPE_WRITE_ZEROES, 0, Some([10, 6])),
        (Request::write_zeroes(10, 6, true), TYPE_WRITE_ZEROES, 0, Some([10, 6 | 1 << 32])),
    ];
    for (request, kind, block, range) in all {
        world.client.send(&request, 0).expect("the disk takes it");
        world.run();
        let given = world.take();
        assert_eq!(given.len(), 1, "{request:?}");
        let chain = world.device.chain(&given[0]);
        assert_eq!((chain.kind, chain.block), (kind, block), "{request:?}");
        match (range, request.segments()) {
            (Some(range), _) => assert_eq!(chain.range, Some(range), "{request:?}"),
            (None, segments) => assert_eq!(chain.data, segments, "{request:?}"),
        }
        world.serve(usize::MAX);
        world.run();
        assert_eq!(world.completions(), [(0, Ok(()))], "{request:?}");
    }
}

#[test]
fn zeroes_are_not_discarded_by_a_device_that_does_not_say_so() {
    let config = Config { zeroes_may_discard: false, ..Config::default() };
    let mut world = World::with(config, FEATURE_VERSION_1 | FEATURE_WRITE_ZEROES);
    world.client.send(&Request::write_zeroes(10, 6, true), 0).expect("the disk takes it");
    world.run();
    let given = world.take();
    assert_eq!(world.device.chain(&given[0]).range, Some([10, 6]));
}

#[test]
fn a_device_without_a_cache_is_not_flushed() {
    let mut world = World::with(Config::default(), FEATURE_VERSION_1);
    world.client.send(&Request::flush(), 3).expect("the disk takes it");
    world.run();
    assert_eq!(world.take(), []);
    assert_eq!(world.completions(), [(3, Ok(()))]);
}

#[test]
fn what_the_device_cannot_do_it_is_not_asked() {
    let mut world = World::with(Config::default(), FEATURE_VERSION_1 | FEATURE_READ_ONLY);
    let write = Request::write(0, &[segment(0, 1)]).expect("one");
    let refused = |error| Err(NotSent::Refused(error));
    assert_eq!(world.client.send(&write, 0), refused(Error::ReadOnly));
    let mut world = World::with(Config::default(), FEATURE_VERSION_1);
    assert_eq!(world.client.send(&Request::discard(0, 1), 0), refused(Error::Unsupported));
    let two = Request::read(0, &[segment(0, 1), segment(1, 1)]).expect("two");
    assert_eq!(world.client.send(&two, 0), refused(Error::Invalid));
    let behind = Request::read(BLOCKS, &[segment(0, 1)]).expect("one");
    assert_eq!(world.client.send(&behind, 0), refused(Error::OutOfRange));
}

/// A virtualiser that sends what the disk does not take: the driver refuses it too.
#[test]
fn what_the_virtualiser_should_have_refused_the_driver_refuses() {
    let mut world = World::with(Config::default(), FEATURE_VERSION_1 | FEATURE_READ_ONLY);
    let requests = [
        (Request::write(0, &[segment(0, 1)]).expect("one"), Error::ReadOnly),
        (Request::read(BLOCKS, &[segment(0, 1)]).expect("one"), Error::OutOfRange),
        (Request::read(0, &[segment(0, 1); 2]).expect("two"), Error::Invalid),
        (Request::discard(0, 1), Error::ReadOnly),
    ];
    for (request, error) in requests {
        assert_eq!(world.send_raw(&request), Err(error), "{request:?}");
    }
    assert_eq!(world.take(), []);
}

#[test]
fn errors_of_the_device_reach_the_client() {
    let mut world = World::new();
    for (status, expected) in [
        (STATUS_OK, Ok(())),
        (STATUS_FAILED, Err(Error::Failed)),
        (STATUS_UNSUPPORTED, Err(Error::Unsupported)),
        (3, Err(Error::Failed)),
        (0xff, Err(Error::Failed)),
    ] {
        world.device.status = Some(status);
        let read = Request::read(0, &[segment(0, 1)]).expect("one");
        assert_eq!(world.ask(&read), expected, "status {status}");
    }
    assert_eq!(world.state.resets.get(), 1);
}

#[test]
fn many_requests_cost_one_doorbell_one_interrupt_and_one_notification() {
    let mut world = World::new();
    // The device sleeps, and so does the client.
    world.take();
    world.state.doorbells.borrow_mut().clear();
    for tag in 0..4 {
        world.client.send(&Request::read(tag, &[segment(tag, 1)]).expect("one"), tag).expect("space");
    }
    let _ = culm::testing::signalled();
    let _ = world.client.end_round();
    assert_eq!(culm::testing::signalled(), [World::DRIVER]);
    world.turn();
    assert_eq!(*world.state.doorbells.borrow(), [QUEUE]);
    assert_eq!(culm::testing::signalled(), []);
    assert_eq!(world.take().len(), 4);
    world.serve(4);
    assert_eq!(world.state.interrupts.get(), 1);
    world.turn();
    assert_eq!(culm::testing::signalled(), [World::VIRTUALISER]);
    world.client.begin();
    let done: Vec<_> = core::iter::from_fn(|| world.client.next_completion()).collect();
    assert_eq!(done, (0..4).map(|tag| Completion { tag, result: Ok(()) }).collect::<Vec<_>>());
    assert_eq!(world.state.acknowledged.get(), 1);
}

#[test]
fn requests_are_answered_in_the_order_in_which_the_device_ends_them() {
    let mut world = World::new();
    for tag in 0..4 {
        world.client.send(&Request::read(tag, &[segment(tag, 1)]).expect("one"), tag).expect("space");
    }
    world.run();
    world.take();
    for index in [2, 0, 1, 0] {
        world.serve_one(index);
    }
    world.run();
    let tags: Vec<_> = world.completions().iter().map(|(tag, _)| *tag).collect();
    assert_eq!(tags, [2, 0, 3, 1]);
}

#[test]
fn more_requests_than_descriptors_are_done_in_the_end() {
    let mut world = World::new();
    for tag in 0..20 {
        world.client.send(&Request::read(tag, &[segment(tag, 1)]).expect("one"), tag).expect("space");
    }
    world.run();
    let mut done = Vec::new();
    for _ in 0..20 {
        assert!(world.take().len() <= 8);
        world.serve(usize::MAX);
        world.run();
        done.extend(world.completions().iter().map(|(tag, _)| *tag));
    }
    assert_eq!(done, (0..20).collect::<Vec<_>>());
}

#[test]
fn a_disk_that_grows_or_shrinks_is_told() {
    let mut world = World::new();
    let before = world.disk().expect("known");
    for blocks in [BLOCKS / 2, BLOCKS] {
        world.device.configure(&world.state, Config { capacity: blocks, ..Config::default() });
        world.state.raise(Causes::CHANGE);
        world.turn();
        world.run();
        assert_eq!(world.disk(), Some(Disk { blocks, ..before }));
        assert_eq!(world.state.causes.get(), Causes::ZERO);
    }
    assert_eq!(world.state.resets.get(), 1);
}

/// A change that comes together with an answer is not acknowledged with it, and interrupts again.
#[test]
fn a_change_beside_an_answer_is_not_missed() {
    let mut world = World::new();
    world.client.send(&Request::flush(), 0).expect("space");
    world.run();
    world.take();
    world.device.configure(&world.state, Config { capacity: 8, ..Config::default() });
    world.state.raise(Causes::CHANGE);
    world.serve(1);
    world.turn();
    world.turn();
    world.run();
    assert_eq!(world.disk().map(|disk| disk.blocks), Some(8));
    assert_eq!(world.completions(), [(0, Ok(()))]);
}

/// A request for blocks that are there no more when the device gets to it.
#[test]
fn a_request_under_way_when_the_disk_shrinks_ends_by_an_error() {
    let mut world = World::new();
    let read = Request::read(BLOCKS - 1, &[segment(0, 1)]).expect("one");
    world.client.send(&read, 0).expect("the disk takes it");
    world.run();
    world.device.configure(&world.state, Config { capacity: 8, ..Config::default() });
    world.state.raise(Causes::CHANGE);
    world.serve(1);
    world.run();
    assert_eq!(world.completions(), [(0, Err(Error::Failed))]);
}

#[test]
fn unusable_devices_are_told_apart() {
    let outcome = |change: fn(&culm_virtio::testing::State)| {
        let (fake, memory) = device::fake(Config::default());
        change(&fake.0);
        Block::new(fake, memory, &device::connection()).map(|_| ())
    };
    assert_eq!(outcome(|state| state.version.set(Version::LEGACY)), Err(Unusable::Legacy));
    assert_eq!(outcome(|state| state.kind.set(Kind::NONE)), Err(Unusable::Absent));
    assert_eq!(
        outcome(|state| state.kind.set(Kind::NETWORK)),
        Err(Unusable::Kind { wanted: Kind::BLOCK, found: Kind::NETWORK })
    );
    assert_eq!(outcome(|state| state.accepts_features.set(false)), Err(Unusable::Features));
    assert_eq!(outcome(|state| state.queue_size.set(3)), Err(Unusable::Queue));
    assert_eq!(outcome(|state| state.queue_size.set(4)), Ok(()));
    let (fake, _) = device::fake(Config::default());
    let small = culm_virtio::testing::memory(512);
    assert_eq!(Block::new(fake, small, &device::connection()).map(|_| ()), Err(Unusable::Queue));
}

#[test]
fn an_idle_driver_wants_no_turn() {
    let mut world = World::new();
    let _ = culm::testing::deadline();
    world.turn();
    assert_eq!(culm::testing::deadline(), None);
    world.client.send(&Request::flush(), 0).expect("space");
    world.run();
    let deadline = culm::testing::deadline().expect("somebody waits for the device");
    assert!(deadline <= time::now() + PERIOD);
}

/// All operations, in any order and any number under way, do what they say.
mod any {
    use super::*;
    use proptest::prelude::*;

    fn request() -> impl Strategy<Value = Request> {
        let range = (0..BLOCKS - 8, 1..8_u32);
        let segments = proptest::collection::vec(1..4_u32, 1..=4);
        prop_oneof![
            4 => (0..BLOCKS - 16, segments.clone()).prop_map(|(block, lengths)| moving(Operation::Read, block, &lengths)),
            4 => (0..BLOCKS - 16, segments).prop_map(|(block, lengths)| moving(Operation::Write, block, &lengths)),
            1 => Just(Request::flush()),
            1 => range.clone().prop_map(|(block, blocks)| Request::discard(block, blocks)),
            1 => (range, any::<bool>()).prop_map(|((block, blocks), may)| Request::write_zeroes(block, blocks, may)),
        ]
    }

    /// Segments of these lengths, each at the beginning of 8 blocks of memory.
    fn moving(operation: Operation, block: u64, lengths: &[u32]) -> Request {
        let segments: Vec<Segment> = (0..).zip(lengths).map(|(index, blocks)| segment(index * 8, *blocks)).collect();
        let request = if operation == Operation::Read {
            Request::read(block, &segments)
        } else {
            Request::write(block, &segments)
        };
        request.expect("few segments")
    }

    proptest! {
        #[test]
        fn requests_do_what_they_say(requests in proptest::collection::vec((request(), any::<u8>()), 1..60), offered in proptest::sample::select(device::kinds())) {
            let mut world = World::with(Config::default(), offered);
            let mut model = vec![0_u8; BLOCKS as usize * BLOCK];
            for (request, fill) in requests {
                let start = request.block as usize * BLOCK;
                let bytes = request.blocks as usize * BLOCK;
                let mut at = start;
                for (index, Segment { blocks, .. }) in (0..).zip(request.segments()) {
                    world.fill(index * 8, (*blocks).into(), fill);
                    for (block, chunk) in (0_u8..).zip(model[at..at + *blocks as usize * BLOCK].chunks_mut(BLOCK)) {
                        if request.operation == Operation::Write {
                            chunk.fill(fill.wrapping_add(block));
                        }
                    }
                    at += *blocks as usize * BLOCK;
                }
                if request.operation.clears_blocks() {
                    model[start..start + bytes].fill(0);
                }
                prop_assert_eq!(world.ask(&request), Ok(()));
                if request.operation == Operation::Read {
                    let mut at = start;
                    for (index, Segment { blocks, .. }) in (0..).zip(request.segments()) {
                        for block in 0..u64::from(*blocks) {
                            prop_assert_eq!(&world.memory(index * 8 + block)[..], &model[at..at + BLOCK]);
                            at += BLOCK;
                        }
                    }
                }
                prop_assert!(world.device.content == model);
            }
            prop_assert_eq!(place(0) % 8, 0, "memory begins at a page");
        }
    }
}
