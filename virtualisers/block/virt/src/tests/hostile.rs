//! Clients that ask for what is not theirs, and that cause work without use.

use super::*;
use culm::Link;
use culm_block::{Answer, AnswerEntry, RequestEntry, Segment};

/// A read of segments from the block on.
fn scattered_read(block: u64, segments: &[Segment]) -> Request {
    Request::read(block, segments).expect("some segments")
}

/// Sends requests of a client one after the other, past its library's checks, and returns the
/// answer to each.
fn ask_raw(world: &mut World, number: usize, hostile: &mut Raw, requests: &[Request]) -> Vec<Result<(), Error>> {
    let mut results = Vec::new();
    for (token, request) in (0..).zip(requests) {
        let mut entries = [RequestEntry::default(); culm_block::MAX_SEGMENTS];
        let count = RequestEntry::write(request, token, &mut entries);
        assert_eq!(hostile.output.push_slice(&entries[..count]), count);
        hostile.publish();
        for _ in 0..2 {
            world.notify(number);
            let _ = world.disk.round();
        }
        let _ = hostile.begin();
        let answers = core::iter::from_fn(|| hostile.input.pop()).filter_map(AnswerEntry::read);
        let mut answers = answers.filter(|answer| matches!(answer, Answer::Of { .. }));
        let Some(Answer::Of { token: answered, result }) = answers.next() else { panic!("{request:?}: no answer") };
        assert_eq!((answered, answers.next()), (token, None), "{request:?}: one answer");
        results.push(result);
    }
    results
}

/// Tests what clients get that ask for more than their parts, past their library's checks: the
/// blocks behind the last one, and memory behind their own. What is just inside reaches the disk.
#[test]
fn nobody_reaches_outside() {
    let disk = Disk { discards: true, writes_zeroes: true, ..Disk::new(400, 7) };
    let shares = [(1, 0, 0, false), (2, 0, 0, false), (1, 40, 20, false), (2, 0, 0, true)];
    let mut world = World::new(&shares, disk);
    partition(&mut world.disk, &[(100, 100), (200, 50)]);
    world.run();
    for (number, (first, blocks, read_only)) in
        [(100, 100, false), (200, 50, false), (140, 20, false), (200, 50, true)].into_iter().enumerate()
    {
        let (outside, invalid) = (Err(Error::OutOfRange), Err(Error::Invalid));
        let writes = |expected| if read_only { Err(Error::ReadOnly) } else { expected };
        let last = blocks - 1;
        let cases = [
            (read(blocks, 0, 1), outside),
            (read(last, 0, 2), outside),
            (scattered_read(last, &[segment(0, 1), segment(1, 1)]), outside),
            (read(u64::MAX >> 24, 0, 1), outside),
            (read(0, MEMORY, 1), invalid),
            (read(0, MEMORY - 1, 2), invalid),
            (scattered_read(0, &[segment(0, 1), segment(MEMORY, 1)]), invalid),
            (read(0, 0, 0), invalid),
            (write(blocks, 0, 1), writes(outside)),
            (write(last, 0, 2), writes(outside)),
            (write(u64::MAX >> 24, 0, 1), writes(outside)),
            (write(0, MEMORY, 1), writes(invalid)),
            (write(0, MEMORY - 1, 2), writes(invalid)),
            (Request::discard(blocks, 1), writes(outside)),
            (Request::discard(last, 2), writes(outside)),
            (Request::write_zeroes(last, 2, false), writes(outside)),
            (Request::write_zeroes(last, 2, true), writes(outside)),
            (Request::discard(u64::MAX >> 24, 1), writes(outside)),
        ];
        let (requests, expected): (Vec<_>, Vec<_>) = cases.into_iter().unzip();
        let mut hostile = raw(&mut world, number);
        let (done, before) = (world.disk.results.len(), world.disk.content.clone());
        assert_eq!(ask_raw(&mut world, number, &mut hostile, &requests), expected, "client {number}");
        assert_eq!(world.disk.results.len(), done, "nothing of that reaches the disk");
        assert!(world.disk.content == before);
        // The last block of the part, and of the memory.
        world.data[number].write((MEMORY as usize - 1) * BLOCK, &[0xcc; BLOCK]).expect("inside");
        let inside = [write(last, MEMORY - 1, 1), read(last, MEMORY - 1, 1)];
        assert_eq!(ask_raw(&mut world, number, &mut hostile, &inside), [writes(Ok(())), Ok(())], "client {number}");
        let place = (first + last as usize) * BLOCK;
        let mut after = before;
        if !read_only {
            after[place..place + BLOCK].fill(0xcc);
        }
        assert!(world.disk.content == after, "client {number} writes its last block, and nothing else");
        let clears = [Request::discard(last, 1), Request::write_zeroes(0, blocks as u32, true)];
        assert_eq!(ask_raw(&mut world, number, &mut hostile, &clears), [writes(Ok(())); 2], "client {number}");
        let done = world.disk.results.len() - done;
        assert_eq!(done, if read_only { 1 } else { 4 }, "what is inside reaches the disk");
    }
}

/// An operation's request for these blocks; what reads and writes has these segments.
fn any_request(operation: Operation, block: u64, segments: &[(u64, u32)]) -> Request {
    let (segments, blocks): (Vec<_>, Vec<_>) =
        segments.iter().map(|(place, blocks)| (segment(*place, *blocks), *blocks)).unzip();
    match operation {
        Operation::Read => Request::read(block, &segments).expect("some segments"),
        Operation::Write => Request::write(block, &segments).expect("some segments"),
        Operation::Flush => Request::flush(),
        Operation::Discard => Request::discard(block, blocks[0]),
        Operation::WriteZeroes => Request::write_zeroes(block, blocks[0], false),
        Operation::DiscardToZeroes => Request::write_zeroes(block, blocks[0], true),
    }
}

/// The first number of a block that has no place in a queue.
const LIMIT: u64 = 1 << 40;

/// Any operation.
fn operation() -> impl Strategy<Value = Operation> {
    use Operation::{Discard, DiscardToZeroes, Flush, Read, Write, WriteZeroes};
    proptest::sample::select(vec![Read, Write, Flush, Discard, WriteZeroes, DiscardToZeroes])
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 64, ..ProptestConfig::default() })]

    /// The virtualiser's own bounds, with no client's library before them: whatever two clients
    /// ask for, what fits into a client's part and memory is done, and nothing else is; each
    /// changes and sees its own part only.
    #[test]
    fn parts_are_apart_without_the_library(
        requests in proptest::collection::vec(
            (
                0..2_usize,
                operation(),
                prop_oneof![9 => 0..110_u64, 1 => LIMIT - 30..LIMIT],
                proptest::collection::vec(
                    (prop_oneof![9 => 0..70_u64, 1 => LIMIT - 30..LIMIT], 0..25_u32), 1..4,
                ),
            ),
            1..40,
        ),
    ) {
        let disk = Disk { discards: true, writes_zeroes: true, ..Disk::new(400, 7) };
        let mut world = World::new(&[(1, 0, 0, false), (2, 10, 30, false)], disk);
        partition(&mut world.disk, &[(100, 100), (200, 50)]);
        let owner = |block| if (100..200).contains(&block) { 1 } else if (210..240).contains(&block) { 2 } else { 3 };
        for (block, bytes) in world.disk.content.chunks_mut(BLOCK).enumerate().skip(1) {
            bytes.fill(owner(block));
        }
        world.run();
        for number in 0..2 {
            world.data[number].write(0, &vec![1 + number as u8; MEMORY as usize * BLOCK]).expect("inside");
        }
        let mut hostile = [raw(&mut world, 0), raw(&mut world, 1)];
        for (number, operation, block, segments) in requests {
            let is_whole = segments.iter().all(|(place, blocks)| *blocks > 0 && place + u64::from(*blocks) <= MEMORY);
            let sum: u32 = segments.iter().map(|(_, blocks)| blocks).sum();
            let fits = |blocks: u32| block + u64::from(blocks) <= [100, 30][number];
            let is_legal = match operation {
                Operation::Flush => true,
                Operation::Read | Operation::Write => is_whole && fits(sum),
                _ => segments[0].1 > 0 && fits(segments[0].1),
            };
            let request = any_request(operation, block, &segments);
            let result = ask_raw(&mut world, number, &mut hostile[number], core::slice::from_ref(&request))[0];
            prop_assert_eq!(result.is_ok(), is_legal, "client {}: {:?}: {:?}", number, request, result);
            for (number, data) in world.data.iter().enumerate() {
                let mut bytes = vec![0; MEMORY as usize * BLOCK];
                data.read(0, &mut bytes).expect("inside");
                let own = [1 + number as u8; BLOCK];
                let is_own = |block: &[u8]| *block == own || *block == [0; BLOCK];
                prop_assert!(bytes.chunks(BLOCK).all(is_own), "{:?}", request);
            }
        }
        for (block, bytes) in world.disk.content.chunks(BLOCK).enumerate().skip(1) {
            let is_own = *bytes == [owner(block); BLOCK] || (*bytes == [0; BLOCK] && owner(block) != 3);
            prop_assert!(is_own, "block {}", block);
        }
    }
}

/// The queues of a client without the library.
type Raw = Link<RequestEntry, AnswerEntry>;

/// A client without the library, whose pair is live.
fn raw(world: &mut World, number: usize) -> Raw {
    let share = world.shares[number];
    let mut hostile = Link::new(share.requests, share.answers, 9);
    for _ in 0..6 {
        let _ = hostile.begin();
        hostile.publish();
        world.notify(number);
        let _ = world.disk.round();
    }
    hostile
}

/// Lets a hostile client have its way for so many turns, then checks that it is left alone, while
/// another one is served, and that it is served again after a while.
fn storm(turns: u32, mut act: impl FnMut(&mut World, &mut Raw)) {
    let mut world = World::new(&[ALL, ALL], Disk::new(400, 7));
    world.run();
    let mut hostile = raw(&mut world, 0);
    for _ in 0..turns {
        let _ = hostile.begin();
        while hostile.input.pop().is_some() {}
        act(&mut world, &mut hostile);
        hostile.publish();
        world.notify(0);
    }
    assert!(world.virtualiser.is_paused(0), "the client is left alone");
    assert_eq!(world.ask(1, &read(0, 0, 1)), Ok(()));
    assert!(world.virtualiser.is_paused(0));
    for _ in 0..20 {
        set_time(time::now() + Duration::from_millis(25));
        let _ = world.virtualiser.round();
        let _ = world.disk.round();
        let _ = hostile.begin();
        while hostile.input.pop().is_some() {}
        hostile.publish();
    }
    assert!(!world.virtualiser.is_paused(0));
    world.clients[0] = Client::connect(&World::client(&world.shares[0]));
    world.run();
    assert_eq!(world.ask(0, &read(0, 0, 1)), Ok(()));
}

#[test]
fn nonsense_is_paid_for() {
    storm(20, |_, hostile| while hostile.output.push(RequestEntry([7 << 56, 0])).is_ok() {});
}

/// A request of which each segment says that there are more.
#[test]
fn requests_without_end_are_paid_for() {
    let mut has_begun = false;
    storm(20, |_, hostile| {
        if !core::mem::replace(&mut has_begun, true) {
            hostile.output.push(RequestEntry([1 << 56 | 1 << 60, 1 << 40])).expect("space");
        }
        while hostile.output.push(RequestEntry([6 << 56 | 1 << 60, 1 << 40])).is_ok() {}
    });
}

#[test]
fn requests_that_are_refused_are_paid_for() {
    storm(20, |_, hostile| {
        let mut entries = [RequestEntry::default(); culm_block::MAX_SEGMENTS];
        RequestEntry::write(&read(1 << 39, 0, 1), 3, &mut entries);
        while hostile.output.push(entries[0]).is_ok() {}
    });
}

#[test]
fn flushes_without_writes_are_paid_for() {
    storm(20, |world, hostile| {
        while hostile.output.push(RequestEntry([3 << 56, 0])).is_ok() {}
        let _ = world.disk.round();
    });
}

#[test]
fn notifications_without_reason_are_paid_for() {
    storm(1000, |_, _| {});
}

#[test]
fn lives_without_end_are_paid_for() {
    storm(100, |_, hostile| hostile.start_over());
}

/// Tests that work with use costs nothing: a client that is served is never left alone.
#[test]
fn who_is_served_is_never_left_alone() {
    let mut world = World::new(&[ALL], Disk::new(400, 7));
    world.run();
    for _ in 0..3000 {
        world.clients[0].send(&read(0, 0, 1), 0).expect("there is space");
        let _ = world.round();
        let _ = world.disk.round();
        assert!(!world.virtualiser.is_paused(0));
    }
    world.run();
    assert_eq!(world.disk.results.len(), 3000);
}

/// Tests that the flush of a client that cannot write needs no device.
#[test]
fn a_read_only_clients_flush_does_not_reach_the_device() {
    let mut world = World::new(&[(1, 0, 0, true)], Disk::new(400, 7));
    partition(&mut world.disk, &[(100, 100)]);
    world.run();
    let before = world.disk.results.len();
    assert_eq!(world.ask(0, &Request::flush()), Ok(()));
    assert_eq!(world.disk.results.len(), before);
    // One with numbers is none.
    let mut hostile = raw(&mut world, 0);
    let _ = hostile.output.push(RequestEntry([3 << 56 | 0xff_ffff_ffff, 0xff_ffff << 40]));
    hostile.publish();
    world.notify(0);
    let _ = world.disk.round();
    let _ = hostile.begin();
    let answers: Vec<_> = core::iter::from_fn(|| hostile.input.pop()).filter_map(AnswerEntry::read).collect();
    assert_eq!(answers.last(), Some(&Answer::Of { token: 0, result: Err(Error::Invalid) }));
    assert_eq!(world.disk.results.len(), before);
}
