//! A hostile client against the provider's side, and a hostile provider against the client's.

use super::{MEMORY, VOLUME};
use crate::testing::{RamFiles, connection};
use crate::{Answer, AnswerEntry, Client, Done, Error, Info, Listing, MAX_FILES, Mode, RequestEntry, Volume};
use culm::{Link, Region};
use proptest::prelude::*;
use std::collections::BTreeSet;
use std::vec::Vec;

/// Words that are sometimes nearly right.
fn entry() -> impl Strategy<Value = RequestEntry> {
    let near = (0..4_u64, 0..14_u64, 0..3_u64, 0..40_u64, 0..1100_u64, 0..66_u64);
    prop_oneof![
        any::<[u64; 2]>().prop_map(RequestEntry),
        near.prop_map(|(token, operation, file, length, position, place)| {
            RequestEntry([token | operation << 16 | file << 24 | length << 32, position | place << 40])
        }),
    ]
}

proptest! {
    #[test]
    fn a_provider_is_given_nothing_outside(rounds in proptest::collection::vec(
        (proptest::collection::vec(entry(), 0..12), any::<bool>(), "/[ab]{0,2}(/[ab])?"), 1..30
    )) {
        let connection = connection(16, MEMORY, 1);
        let mut files = RamFiles::new(&connection, VOLUME);
        files.put("/a/b", b"content");
        let memory = Region::new(connection.memory);
        let mut client = Link::<RequestEntry, AnswerEntry>::new(connection.requests, connection.answers, 1);
        for (entries, reads, path) in rounds {
            let _ = client.begin();
            for block in 0..4 {
                memory.write(block * 1024, path.as_bytes()).expect("inside");
            }
            let _ = client.output.push_slice(&entries);
            if reads {
                while client.input.pop().is_some() {}
            }
            client.publish();
            files.take();
            for taken in &files.taken {
                prop_assert_eq!(taken.request.check(MEMORY), Ok(()));
                prop_assert!((taken.request.file as usize) < MAX_FILES);
                prop_assert!(!taken.request.operation.has_data()
                    || taken.request.offset() + taken.request.length as usize <= MEMORY);
            }
            prop_assert!(files.taken.len() <= 16);
            files.finish_all();
            let _ = files.end_round();
        }
        // An honest life finds files that work.
        let mut client = Client::<u8>::connect(&connection);
        let mut answered = None;
        for _ in 0..10 {
            client.begin();
            answered = answered.or(client.next_completion());
            if client.under_way() == 0 && client.volume().is_some() {
                client.stat("/", 0).expect("there is space");
            }
            let _ = client.end_round();
            let _ = files.round();
        }
        prop_assert!(answered.is_some_and(|answered| answered.result.is_ok()));
    }

    /// Whatever a provider answers, a client loses no request and takes no answer twice.
    #[test]
    fn a_client_loses_nothing(rounds in proptest::collection::vec(
        (proptest::collection::vec((any::<[u64; 2]>(), 0..5_u8, 0..40_u16), 0..8), any::<bool>(), 0..5_u8), 1..40
    )) {
        let connection = connection(16, MEMORY, 1);
        let mut client = Client::<u32>::connect(&connection);
        let mut provider = Link::<AnswerEntry, RequestEntry>::new(connection.answers, connection.requests, 2);
        let (mut sent, mut answered, mut files) = (0, BTreeSet::new(), Vec::new());
        let mut round = |client: &mut Client<u32>, step: u8| {
            client.begin();
            let complete: Vec<_> = core::iter::from_fn(|| client.next_completion()).collect();
            assert!(complete.iter().all(|complete| answered.insert(complete.tag)), "an answer came twice");
            let is_sent = match (step, files.last().copied()) {
                (0, _) => client.open("/a", if sent % 3 == 0 { Mode::Append } else { Mode::Read }, sent)
                    .map(|file| files.push(file)).is_ok(),
                (1, Some(file)) => client.read(file, 0, 0, 100, sent).is_ok(),
                (2, Some(file)) => client.write(file, 0, 100, sent).is_ok(),
                (3, Some(file)) => {
                    files.pop();
                    client.close(file);
                    false
                }
                (4, Some(file)) => client.commit(file, sent).is_ok(),
                _ => false,
            };
            sent += u32::from(is_sent);
            let _ = client.end_round();
            (sent, answered.len())
        };
        for (entries, takes, step) in rounds {
            let _ = provider.begin();
            for (words, kind, token) in entries {
                let entry = match kind {
                    0 => AnswerEntry(words),
                    1 => Answer::Of { token, result: Ok(Done::bytes(u32::MAX)) }.into(),
                    2 => Answer::Of { token, result: Ok(Done::file(Info::default())) }.into(),
                    3 => Answer::Of { token, result: Err(Error::ALL[usize::from(token) % 16]) }.into(),
                    _ => Answer::Volume(Volume::new(u32::from(token % 2) + 1, false)).into(),
                };
                let _ = provider.output.push(entry);
            }
            while takes && provider.input.pop().is_some() {}
            provider.publish();
            round(&mut client, step);
        }
        let mut honest = RamFiles::new(&connection, VOLUME);
        honest.put("/a", b"content");
        for _ in 0..30 {
            let _ = honest.round();
            round(&mut client, 5);
        }
        let (sent, answered) = round(&mut client, 5);
        prop_assert_eq!((answered as u32, client.under_way()), (sent, 0));
    }

    #[test]
    fn any_bytes_are_a_list_or_end_one(bytes in proptest::collection::vec(any::<u8>(), 0..200), zeroes in 0..40_usize) {
        let memory = Region::new(crate::testing::memory(1024, 0));
        memory.write(0, &bytes).expect("inside");
        memory.write(16, &[0; 40][..zeroes]).expect("inside");
        prop_assert!(Listing::read(&memory, 0, u32::MAX).count() <= 1024 / 24);
        prop_assert_eq!(Listing::read(&memory, u32::MAX, 1).count(), 0);
    }
}
