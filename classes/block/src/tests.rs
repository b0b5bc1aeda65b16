//! Both sides together, when all goes well and when the disk refuses, fails or changes.

mod hostile;
mod restarts;

use crate::testing::{RamDisk, connection, segment};
use crate::{BLOCK, Client, Completion, Disk, Error, MAX_SEGMENTS, NotSent, Operation, Request};
use culm::Region;
use culm_abi::connection::BlockClient;
use proptest::prelude::*;
use std::vec::Vec;

/// A client and its disk.
struct Pair {
    connection: BlockClient,
    client: Client<u32>,
    disk: RamDisk,
    data: Region,
}

impl Pair {
    fn new(disk: Disk) -> Self {
        let connection = connection(32, 64, 0, 1);
        let (client, disk) = (Client::connect(&connection), RamDisk::new(&connection, disk));
        let mut pair = Self { connection, client, disk, data: Region::new(connection.data) };
        assert_eq!(pair.run(), []);
        assert!(pair.client.disk().is_some());
        pair
    }

    /// Lets both sides take rounds until nothing happens; returns what is complete.
    fn run(&mut self) -> Vec<Completion<u32>> {
        let mut complete = Vec::new();
        for _ in 0..20 {
            self.client.begin();
            complete.extend(core::iter::from_fn(|| self.client.next_completion()));
            let asleep = self.client.end_round().is_asleep();
            if self.disk.round().is_asleep() && asleep && culm::testing::signalled().is_empty() {
                return complete;
            }
        }
        panic!("there is no end to it");
    }

    /// Sends a request and returns what becomes of it.
    fn ask(&mut self, request: &Request) -> Result<(), Error> {
        self.client.send(request, 7).expect("there is space");
        let complete = self.run();
        let [Completion { tag: 7, result }] = complete[..] else { panic!("one answer: {complete:?}") };
        result
    }
}

#[test]
fn what_was_written_is_read() {
    let mut pair = Pair::new(Disk::new(100, 1));
    pair.data.write(3 * BLOCK, &[0xa5; 2 * BLOCK]).expect("inside");
    pair.data.write(9 * BLOCK, &[0x5a; BLOCK]).expect("inside");
    let write = Request::write(97, &[segment(3, 2), segment(9, 1)]).expect("two segments");
    assert_eq!(pair.ask(&write), Ok(()));
    let read = Request::read(97, &[segment(20, 1), segment(30, 2)]).expect("two segments");
    assert_eq!(pair.ask(&read), Ok(()));
    let mut bytes = [0; BLOCK];
    for (place, expected) in [(20, 0xa5), (30, 0xa5), (31, 0x5a), (21, 0), (32, 0)] {
        pair.data.read(place * BLOCK, &mut bytes).expect("inside");
        assert_eq!(bytes, [expected; BLOCK], "block {place} of memory");
    }
}

#[test]
fn a_flush_makes_durable_what_was_answered() {
    let mut pair = Pair::new(Disk { discards: true, writes_zeroes: true, ..Disk::new(8, 1) });
    pair.data.write(0, &[1; BLOCK]).expect("inside");
    assert_eq!(pair.ask(&Request::write(0, &[segment(0, 1)]).expect("one")), Ok(()));
    assert_eq!(pair.disk.durable[0], 0);
    assert_eq!(pair.ask(&Request::flush()), Ok(()));
    assert_eq!(pair.disk.durable[0], 1);
    assert_eq!(pair.ask(&Request::write_zeroes(0, 1, true)), Ok(()));
    assert_eq!(pair.ask(&Request::discard(4, 4)), Ok(()));
    assert_eq!((pair.disk.content[0], pair.disk.durable[0]), (0, 1));
}

#[test]
fn a_flush_of_a_disk_that_caches_nothing_is_done_without_it() {
    let mut pair = Pair::new(Disk { caches: false, ..Disk::new(8, 1) });
    assert_eq!(pair.ask(&Request::flush()), Ok(()));
    assert!(pair.disk.results.is_empty(), "the provider is not asked");
    assert_eq!(pair.client.under_way(), 0);
    pair.disk.insert(Disk::ABSENT);
    pair.run();
    assert_eq!(pair.client.send(&Request::flush(), 7), Err(NotSent::Refused(Error::Absent)));
}

/// A device that has failed a flush, was reset, and says since that it has no cache.
#[test]
fn a_medium_that_had_a_cache_is_flushed_whatever_is_said_later() {
    let mut pair = Pair::new(Disk::new(8, 1));
    pair.disk.insert(Disk { caches: false, ..Disk::new(8, 1) });
    pair.run();
    pair.disk.failing = Some(Error::Failed);
    assert_eq!(pair.ask(&Request::flush()), Err(Error::Failed));
    pair.disk.insert(Disk { caches: false, ..Disk::new(8, 2) });
    pair.run();
    assert_eq!(pair.ask(&Request::flush()), Ok(()), "of another medium nothing was written");
}

#[test]
fn a_transfer_is_a_read_or_write_with_as_many_segments_as_the_disk_takes() {
    let mut pair = Pair::new(Disk { segments: 2, ..Disk::new(8, 1) });
    pair.data.write(0, &[1; 2 * BLOCK]).expect("inside");
    for (operation, place) in [(Operation::Write, 0), (Operation::Read, 8)] {
        pair.client.transfer(operation, 3, &[segment(place, 1), segment(place + 1, 1)], 7).expect("there is space");
        assert_eq!(pair.run(), [Completion { tag: 7, result: Ok(()) }]);
    }
    let mut bytes = [0; 2 * BLOCK];
    pair.data.read(8 * BLOCK, &mut bytes).expect("inside");
    assert_eq!(bytes, [1; 2 * BLOCK]);
    let many = [segment(0, 1); MAX_SEGMENTS + 1];
    let cases = [(Operation::Write, &many[..]), (Operation::Read, &many[..3]), (Operation::Read, &[])];
    for (operation, segments) in cases.into_iter().chain([(Operation::Discard, &many[..1]), (Operation::Flush, &[])]) {
        let sent = pair.client.transfer(operation, 0, segments, 7);
        assert_eq!(sent, Err(NotSent::Refused(Error::Invalid)), "{operation:?}, {} segments", segments.len());
    }
}

#[test]
fn what_the_disk_does_not_take_is_not_sent() {
    let mut pair = Pair::new(Disk { granule: 1, segments: 2, most: 8, ..Disk::new(100, 1) });
    let one = |block, place, blocks| Request::read(block, &[segment(place, blocks)]).expect("one segment");
    let three = Request::read(0, &[segment(0, 1), segment(2, 1), segment(4, 2)]).expect("three segments");
    let cases = [
        (one(1, 0, 2), Error::Invalid),
        (one(0, 0, 1), Error::Invalid),
        (one(0, 0, 0), Error::Invalid),
        (one(0, 0, 10), Error::Invalid),
        (one(0, 63, 2), Error::Invalid),
        (three, Error::Invalid),
        (one(100, 0, 2), Error::OutOfRange),
        (one(98, 0, 4), Error::OutOfRange),
        (Request::discard(0, 2), Error::Unsupported),
        (Request::write_zeroes(0, 2, false), Error::Unsupported),
    ];
    for (request, error) in cases {
        assert_eq!(pair.client.send(&request, 0), Err(NotSent::Refused(error)), "{request:?}");
    }
    pair.disk.insert(Disk { read_only: true, ..pair.disk.disk });
    assert_eq!(pair.run(), []);
    let write = Request::write(0, &[segment(0, 2)]).expect("one segment");
    assert_eq!(pair.client.send(&write, 0), Err(NotSent::Refused(Error::ReadOnly)));
    assert_eq!(pair.disk.port.entries_refused(), 0);
}

/// The disk became smaller and the client does not know it yet, or was not even told.
#[test]
fn what_came_too_late_is_answered_by_its_reason() {
    for is_told in [true, false] {
        let mut pair = Pair::new(Disk::new(100, 1));
        pair.client.send(&Request::read(50, &[segment(0, 1)]).expect("one"), 3).expect("it is within");
        pair.disk.insert(Disk { blocks: 50, ..pair.disk.disk });
        if is_told {
            assert!(pair.disk.end_round().is_asleep());
        }
        assert_eq!(pair.run(), [Completion { tag: 3, result: Err(Error::OutOfRange) }]);
    }
}

#[test]
fn a_failure_reaches_the_client() {
    let mut pair = Pair::new(Disk::new(100, 1));
    for error in Error::ALL {
        pair.disk.failing = Some(error);
        assert_eq!(pair.ask(&Request::flush()), Err(error));
    }
}

/// Tests what happens to requests for a medium that is taken out: those that were taken and those
/// that were not end, and none reaches the next one.
#[test]
fn requests_do_not_reach_another_medium() {
    for other in [Disk::ABSENT, Disk::new(100, 2)] {
        let mut pair = Pair::new(Disk::new(100, 1));
        pair.data.write(0, &[1; BLOCK]).expect("inside");
        let write = |block| Request::write(block, &[segment(0, 1)]).expect("one segment");
        pair.client.send(&write(0), 0).expect("there is space");
        assert!(pair.client.end_round().is_asleep());
        pair.disk.take();
        assert_eq!(pair.disk.taken.len(), 1);
        pair.client.send(&write(1), 1).expect("there is space");
        assert!(pair.client.end_round().is_asleep());
        pair.client.send(&write(2), 2).expect("there is space");
        pair.disk.insert(other);
        pair.disk.failing = Some(Error::Absent);
        pair.disk.finish_all();
        pair.disk.failing = None;
        let mut complete = pair.run();
        complete.sort_by_key(|complete| complete.tag);
        assert_eq!(complete.iter().map(|complete| complete.tag).collect::<Vec<_>>(), [0, 1, 2]);
        assert!(complete.iter().all(|complete| matches!(complete.result, Err(Error::Absent | Error::Changed))));
        assert!(pair.disk.content.iter().all(|byte| *byte == 0), "nothing was written to another medium");
        assert_eq!(pair.client.disk(), Some(&other));
        let refused = Err(NotSent::Refused(Error::Absent));
        assert_eq!(pair.client.send(&write(0), 0), if other.is_present() { Ok(()) } else { refused });
    }
}

/// Tests that requests for a medium that was taken out do not reach it after it was put in again,
/// though the provider had no round in between: it may have been changed elsewhere.
#[test]
fn out_and_in_again_is_another_medium() {
    let mut pair = Pair::new(Disk::new(100, 1));
    pair.data.write(0, &[1; BLOCK]).expect("inside");
    let write = Request::write(0, &[segment(0, 1)]).expect("one segment");
    let changes = pair.client.changes();
    pair.client.send(&write, 0).expect("there is space");
    assert!(pair.client.end_round().is_asleep());
    pair.client.send(&write, 1).expect("there is space");
    pair.disk.insert(Disk::ABSENT);
    pair.disk.insert(Disk::new(100, 1));
    let complete = pair.run();
    assert_eq!(complete.len(), 2);
    assert!(complete.iter().all(|complete| complete.result == Err(Error::Changed)), "{complete:?}");
    assert!(pair.disk.content.iter().all(|byte| *byte == 0), "nothing was written");
    assert_ne!(pair.client.changes(), changes);
    assert_eq!(pair.ask(&write), Ok(()));
    assert_eq!(pair.client.answers_refused(), 0);
}

#[test]
fn as_many_as_possible_are_under_way() {
    let mut pair = Pair::new(Disk::new(100, 1));
    let segments: Vec<_> = (0..16).map(|place| segment(place, 1)).collect();
    let request = Request::read(0, &segments).expect("sixteen segments");
    let depth = pair.client.space() as u32;
    assert_eq!(depth, crate::depth(pair.connection.requests.capacity, pair.connection.answers.capacity));
    for tag in 0..depth {
        pair.client.send(&request, tag).expect("there is space");
    }
    assert_eq!(pair.client.send(&request, depth), Err(NotSent::Full));
    let mut tags: Vec<u32> = pair.run().iter().map(|complete| complete.tag).collect();
    tags.sort_unstable();
    assert_eq!(tags, (0..depth).collect::<Vec<_>>());
    assert_eq!((pair.client.under_way(), pair.client.answers_refused()), (0, 0));
}

/// Tests that a disk that takes no request at all, or ends within one of its blocks, is none.
#[test]
fn limits_fit_the_granule() {
    let disk = Disk { granule: 3, ..Disk::new(800, 1) };
    assert!(disk.is_valid());
    let wrong = [Disk { blocks: 801, ..disk }, Disk { most: 7, ..disk }, Disk { most_cleared: 2, ..disk }];
    assert!(!wrong.iter().any(Disk::is_valid));
}

#[test]
fn a_part_of_a_disk_is_within_it() {
    let disk = Disk { granule: 3, ..Disk::new(800, 1) };
    assert_eq!(disk.part(8, 16), Some(Disk { blocks: 16, ..disk }));
    for (first, blocks) in [(1, 16), (8, 15), (800, 8), (8, 800), (u64::MAX - 7, 8), (8, u64::MAX - 7)] {
        assert_eq!(disk.part(first, blocks), None, "{first} {blocks}");
    }
}

proptest! {
    /// Whatever is taken and finished in whatever order, each request is answered once.
    #[test]
    fn each_request_is_answered_once(steps in proptest::collection::vec((0..4_u8, 0..32_usize, 1..17_usize), 1..200)) {
        let mut pair = Pair::new(Disk::new(100, 1));
        let (mut sent, mut seen) = (0, std::collections::BTreeSet::new());
        let note = |pair: &mut Pair, seen: &mut std::collections::BTreeSet<u32>| {
            pair.client.begin();
            while let Some(complete) = pair.client.next_completion() {
                assert!(complete.result.is_ok() && seen.insert(complete.tag));
            }
        };
        for (step, index, segments) in steps {
            match step {
                0 => {
                    let segments: Vec<_> = (0..segments as u64).map(|place| segment(place, 1)).collect();
                    let request = Request::read(index as u64, &segments).expect("some segments");
                    sent += u32::from(pair.client.send(&request, sent).is_ok());
                }
                1 => {
                    note(&mut pair, &mut seen);
                    let _ = pair.client.end_round();
                }
                2 => pair.disk.take(),
                _ => {
                    if !pair.disk.taken.is_empty() {
                        pair.disk.finish(index % pair.disk.taken.len());
                    }
                    let _ = pair.disk.end_round();
                }
            }
        }
        seen.extend(pair.run().iter().map(|complete| complete.tag));
        prop_assert!(seen.into_iter().eq(0..sent));
    }
}
