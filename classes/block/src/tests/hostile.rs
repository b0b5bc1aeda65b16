//! A hostile client against the provider's side, and a hostile provider against the client's.

use crate::entry::Step;
use crate::testing::{RamDisk, connection, segment};
use crate::{Answer, AnswerEntry, Client, Disk, Error, Operation, Request, RequestEntry};
use culm::Link;
use proptest::prelude::*;
use std::collections::BTreeSet;
use std::vec::Vec;

const MEMORY: u64 = 8;
const DISK: Disk = Disk { granule: 1, segments: 4, most: 6, writes_zeroes: true, ..Disk::new(20, 1) };

/// Words that are sometimes nearly right.
fn entry() -> impl Strategy<Value = RequestEntry> {
    let near = (0..24_u64, 0..4_u64, 0..8_u64, 0..4_u64, 0..10_u64, 0..8_u64);
    prop_oneof![
        any::<[u64; 2]>().prop_map(RequestEntry),
        near.prop_map(|(block, token, operation, flags, place, blocks)| {
            RequestEntry([block | token << 40 | operation << 56 | flags << 60, place | blocks << 40])
        }),
    ]
}

/// A client that takes no answers, until it does: a provider that wants nothing meanwhile sleeps.
#[test]
fn a_provider_that_wants_no_requests_does_not_wait_for_space_that_is_there() {
    let connection = connection(32, MEMORY, 0, 1);
    let mut disk = RamDisk::new(&connection, DISK);
    let mut client = Link::<RequestEntry, AnswerEntry>::new(connection.requests, connection.answers, 1);
    let mut entries = [RequestEntry::default(); crate::MAX_SEGMENTS];
    RequestEntry::write(&Request::flush(), 3, &mut entries);
    for _ in 0..8 {
        let _ = client.begin();
        while client.output.push(entries[0]).is_ok() {}
        client.publish();
        let _ = disk.round();
    }
    disk.take();
    assert_eq!(disk.taken, [], "there is no space for answers");
    let _ = client.begin();
    while client.input.pop().is_some() {}
    client.publish();
    disk.port.begin();
    let asleep = (0..2).any(|_| disk.port.end_round(false).is_asleep());
    assert!(asleep, "it turns around for nothing");
    // It takes the others when it wants them.
    assert!(disk.port.end_round(true).is_more());
    disk.take();
    assert_ne!(disk.taken, []);
}

proptest! {
    #[test]
    fn a_provider_is_given_nothing_outside(rounds in proptest::collection::vec(
        (proptest::collection::vec(entry(), 0..12), any::<bool>(), any::<bool>()), 1..30
    )) {
        let connection = connection(32, MEMORY, 0, 1);
        let mut disk = RamDisk::new(&connection, DISK);
        let mut client = Link::<RequestEntry, AnswerEntry>::new(connection.requests, connection.answers, 1);
        for (entries, reads, finishes) in rounds {
            let _ = client.begin();
            let _ = client.output.push_slice(&entries);
            if reads {
                while client.input.pop().is_some() {}
            }
            client.publish();
            disk.take();
            for taken in &disk.taken {
                prop_assert_eq!(DISK.check(&taken.request, MEMORY), Ok(()));
                prop_assert!(taken.request.segments().iter().all(|segment| segment.end() <= MEMORY));
                let end = taken.request.block + u64::from(taken.request.blocks);
                prop_assert!(end <= DISK.blocks);
                prop_assert!(taken.request.operation != Operation::Flush || end == 0);
            }
            prop_assert!(disk.taken.len() <= 32);
            if finishes {
                disk.finish_all();
            }
            let _ = disk.end_round();
        }
        prop_assert!(disk.results.iter().all(Result::is_ok));
        // An honest life finds a disk that works.
        disk.finish_all();
        let mut client = Client::<u8>::connect(&connection);
        let mut answered = None;
        for _ in 0..10 {
            client.begin();
            answered = answered.or(client.next_completion());
            if client.under_way() == 0 && client.disk().is_some() {
                client.send(&Request::read(0, &[segment(0, 2)]).expect("one segment"), 0).expect("there is space");
            }
            let _ = client.end_round();
            let _ = disk.round();
        }
        prop_assert!(answered.is_some_and(|answered| answered.result.is_ok()));
    }

    /// Whatever a provider answers, a client loses no request and takes no answer twice.
    #[test]
    fn a_client_loses_nothing(rounds in proptest::collection::vec(
        (proptest::collection::vec((any::<[u64; 2]>(), 0..3_u8, 0..40_u16), 0..8), any::<bool>()), 1..30
    )) {
        let connection = connection(32, MEMORY, 0, 1);
        let mut client = Client::<u32>::connect(&connection);
        let mut provider = Link::<AnswerEntry, RequestEntry>::new(connection.answers, connection.requests, 2);
        let (mut sent, mut answered) = (0, BTreeSet::new());
        let mut round = |client: &mut Client<u32>, sends: bool| {
            client.begin();
            let complete: Vec<_> = core::iter::from_fn(|| client.next_completion()).collect();
            assert!(complete.iter().all(|complete| answered.insert(complete.tag)), "an answer came twice");
            if sends && client.send(&Request::flush(), sent).is_ok() {
                sent += 1;
            }
            let _ = client.end_round();
            (sent, answered.len())
        };
        for (entries, takes) in rounds {
            let _ = provider.begin();
            for (words, kind, token) in entries {
                let entry = match kind {
                    0 => AnswerEntry(words),
                    1 => Answer::Of { token, result: Ok(()) }.into(),
                    _ => Answer::Disk(Disk { medium: u32::from(token % 2) + 1, ..DISK }).into(),
                };
                let _ = provider.output.push(entry);
            }
            while takes && provider.input.pop().is_some() {}
            provider.publish();
            round(&mut client, true);
        }
        let mut disk = RamDisk::new(&connection, DISK);
        for _ in 0..20 {
            let _ = disk.round();
            round(&mut client, false);
        }
        let (sent, answered) = round(&mut client, false);
        prop_assert_eq!((answered as u32, client.under_way()), (sent, 0));
    }
}

/// Malformed entries of a chain are answered once for each request that was begun.
#[test]
fn chains_that_are_none_are_refused() {
    let connection = connection(64, 64, 0, 1);
    let mut disk = RamDisk::new(&connection, Disk::new(100, 1));
    let mut client = Link::<RequestEntry, AnswerEntry>::new(connection.requests, connection.answers, 1);
    for _ in 0..4 {
        let _ = client.begin();
        client.publish();
        let _ = disk.round();
    }
    const READ: u64 = 1 << 56;
    const SEGMENT: u64 = 7 << 56;
    const CONTINUES: u64 = 1 << 60;
    let entry = |word: u64| RequestEntry([word, 1 << 40]);
    let begun = |token: u64| entry(READ | CONTINUES | token << 40);
    let mut entries = std::vec![entry(SEGMENT), begun(1), begun(2), entry(8 << 56 | 3 << 40), begun(4)];
    entries.extend([entry(SEGMENT | CONTINUES); 20]);
    entries.extend([entry(SEGMENT), entry(READ | 5 << 40), begun(6)]);
    assert_eq!(client.output.push_slice(&entries), entries.len());
    client.publish();
    let _ = disk.round();
    let _ = client.begin();
    let answers: Vec<_> = core::iter::from_fn(|| client.input.pop()).filter_map(AnswerEntry::read).collect();
    let expected = [(1, false), (2, false), (3, false), (4, false), (5, true)]
        .map(|(token, done)| Answer::Of { token, result: if done { Ok(()) } else { Err(Error::Invalid) } });
    assert_eq!(answers.get(1..), Some(&expected[..]), "behind what the disk is");
    // Six segments were more than a request can have.
    assert_eq!((disk.port.under_way(), disk.port.entries_refused()), (0, 5 + 6));
    // The last one is whole only now.
    let _ = client.output.push(entry(SEGMENT));
    client.publish();
    let _ = disk.round();
    let _ = client.begin();
    assert_eq!(client.input.pop().and_then(AnswerEntry::read), Some(Answer::Of { token: 6, result: Ok(()) }));
}

/// A client that reads no answers is given no more of them than its queue holds, and then waits for
/// itself alone.
#[test]
fn who_reads_no_answers_is_not_served() {
    let connection = connection(32, MEMORY, 0, 1);
    let mut disk = RamDisk::new(&connection, DISK);
    let mut client = Link::<RequestEntry, AnswerEntry>::new(connection.requests, connection.answers, 1);
    let mut rounds = 0;
    loop {
        let _ = client.begin();
        while client.output.push(RequestEntry([3 << 56, 0])).is_ok() {}
        client.publish();
        let before = disk.results.len();
        let asleep = disk.round().is_asleep();
        rounds += 1;
        if rounds > 6 && disk.results.len() == before {
            assert!(asleep, "it does not turn around for nothing");
            break;
        }
        assert!(rounds < 100);
    }
    assert!(disk.results.len() < 32);
    while client.input.pop().is_some() {}
    client.publish();
    let before = disk.results.len();
    let _ = disk.round();
    assert!(disk.results.len() > before);
}

/// Tests that an answer before the request was sent to this life of the provider counts for
/// nothing, and the request is answered once.
#[test]
fn an_answer_before_the_request_is_none() {
    let connection = connection(32, MEMORY, 0, 1);
    let mut disk = RamDisk::new(&connection, DISK);
    let mut client = Client::<u8>::connect(&connection);
    let mut complete = Vec::new();
    let mut round = |client: &mut Client<u8>| {
        client.begin();
        complete.extend(core::iter::from_fn(|| client.next_completion()).map(|complete| complete.tag));
        let _ = client.end_round();
        complete.len()
    };
    for _ in 0..4 {
        round(&mut client);
        let _ = disk.round();
    }
    client.send(&Request::flush(), 9).expect("there is space");
    let mut provider = Link::<AnswerEntry, RequestEntry>::new(connection.answers, connection.requests, 2);
    for _ in 0..4 {
        let _ = provider.begin();
        let _ = provider.output.push_slice(&[Answer::Of { token: 0, result: Ok(()) }.into(); 4]);
        provider.publish();
        assert_eq!(round(&mut client), 0);
    }
    assert!(client.answers_refused() > 0);
    let mut disk = RamDisk::new(&connection, DISK);
    for _ in 0..6 {
        let _ = disk.round();
        round(&mut client);
    }
    assert_eq!((round(&mut client), client.under_way(), disk.results.len()), (1, 0, 1));
}

/// Tests that an answer that comes twice does not answer a request that was sent later.
#[test]
fn a_doubled_answer_answers_no_later_request() {
    let connection = connection(32, MEMORY, 0, 1);
    let mut client = Client::<u32>::connect(&connection);
    let mut provider = Link::<AnswerEntry, RequestEntry>::new(connection.answers, connection.requests, 2);
    let mut complete = Vec::new();
    let mut round = |client: &mut Client<u32>| {
        client.begin();
        complete.extend(core::iter::from_fn(|| client.next_completion()).map(|complete| complete.tag));
        let _ = client.end_round();
        complete.clone()
    };
    for _ in 0..4 {
        let _ = provider.begin();
        provider.publish();
        round(&mut client);
    }
    let _ = provider.output.push(Answer::Disk(DISK).into());
    provider.publish();
    round(&mut client);
    let mut before = None;
    for tag in 0..100 {
        client.send(&Request::flush(), tag).expect("there is space");
        round(&mut client);
        let _ = provider.begin();
        let Some(Step::Begin { token, .. }) = provider.input.pop().map(RequestEntry::step) else {
            panic!("it is sent")
        };
        // The earlier request's answer comes again, then this one's.
        for (token, answered) in [(before.unwrap_or(token ^ 1), tag), (token, tag + 1)] {
            let _ = provider.output.push(Answer::Of { token, result: Ok(()) }.into());
            provider.publish();
            assert_eq!(round(&mut client).len() as u32, answered);
        }
        before = Some(token);
    }
    assert_eq!(client.answers_refused(), 100);
}

/// Tests that a flush with blocks is refused: a driver would take them for something.
#[test]
fn a_flush_with_numbers_is_refused() {
    for words in [[3 << 56 | 1, 0], [3 << 56, 1 << 40], [3 << 56, 1]] {
        assert_eq!(RequestEntry(words).step(), Step::Nonsense { token: 0 });
    }
    for (block, blocks) in [(1, 0), (0, 1)] {
        let mut request = Request::discard(block, blocks);
        request.operation = Operation::Flush;
        assert_eq!(DISK.check(&request, MEMORY), Err(Error::Invalid));
    }
}

/// Tests that a provider that answers once too often has no effect on its client.
#[test]
fn an_answer_without_a_request_is_not_sent() {
    let connection = connection(32, MEMORY, 0, 1);
    let mut disk = RamDisk::new(&connection, DISK);
    let mut client = Client::<u8>::connect(&connection);
    for _ in 0..8 {
        disk.port.answer(0, Ok(()));
        let _ = disk.round();
        client.begin();
        assert!(client.next_completion().is_none());
        let _ = client.end_round();
    }
    assert_eq!((client.answers_refused(), client.disk().is_some()), (0, true));
}
