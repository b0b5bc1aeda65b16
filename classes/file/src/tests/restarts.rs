//! The provider's or the client's life ends.

use super::{MEMORY, Pair, VOLUME};
use crate::testing::{RamFiles, connection};
use crate::{BLOCK, Client, Completion, Done, Error, File, Mode, NotSent, Operation};
use culm_abi::connection::FileClient;
use culm_queue::crash;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::vec::Vec;

#[test]
fn what_is_still_there_is_opened_again() {
    let mut pair = Pair::new();
    for path in ["/same", "/other", "/log", "/unfinished"] {
        pair.files.put(path, b"content");
    }
    let mut open = |path, mode| pair.open(path, mode).expect("it is there").0;
    let (same, other) = (open("/same", Mode::Read), open("/other", Mode::Read));
    let (log, unfinished) = (open("/log", Mode::Append), open("/unfinished", Mode::Append));
    let new = open("/new", Mode::New);
    pair.write(log, b", more").expect("there is space");
    pair.commit(log).expect("it is committed");
    pair.write(unfinished, b", more").expect("there is space");
    pair.files.put("/other", b"content");
    let mut pair = pair.restart();
    assert_eq!(pair.run(), []);
    assert_eq!(pair.read(same, 0, 100), Ok(b"content".to_vec()));
    for lost in [other, unfinished, new] {
        assert_eq!(pair.read(lost, 0, 100), Err(Error::Lost));
    }
    pair.write(log, b", and more").expect("there is space");
    pair.commit(log).expect("it is committed");
    assert_eq!(pair.files.get("/log"), Some(&b"content, more, and more"[..]));
    for file in [same, other, log, unfinished, new] {
        pair.close(file);
    }
    assert!(pair.open("/unfinished", Mode::Append).is_ok(), "it was not closed");
}

/// Tests that what was under way when a provider died is done, or ends by an error.
#[test]
fn what_was_under_way_ends() {
    let mut pair = Pair::new();
    pair.files.put("/same", b"content");
    pair.files.put("/other", b"content");
    let same = pair.open("/same", Mode::Read).expect("it is there").0;
    let other = pair.open("/other", Mode::Read).expect("it is there").0;
    pair.client.read(same, 0, 0, 7, 1).expect("there is space");
    pair.client.read(other, 0, 1, 7, 2).expect("there is space");
    pair.client.make_folder("/folder", 3).expect("there is space");
    pair.client.remove("/gone", 4).expect("there is space");
    pair.client.rename("/gone", "/to", 5).expect("there is space");
    let _ = pair.client.end_round();
    pair.files.take();
    // The next life finds done what the earlier one did and did not answer.
    pair.files.put("/folder/file", b"");
    pair.files.put("/other", b"changed");
    let mut pair = pair.restart();
    let mut complete = pair.run();
    complete.sort_by_key(|complete| complete.tag);
    let results: Vec<_> = complete.iter().map(|complete| complete.result.map(|done| done.count)).collect();
    assert_eq!(results, [Ok(7), Err(Error::Lost), Ok(0), Ok(0), Err(Error::Lost)]);
}

/// Tests that a client whose requests all wait for a file can still have that file opened again.
#[test]
fn a_file_is_opened_again_for_as_many_requests_as_there_can_be() {
    let mut pair = Pair::new();
    pair.files.put("/file", b"content");
    let file = pair.open("/file", Mode::Read).expect("it is there").0;
    let count = pair.client.space();
    for tag in 0..count {
        pair.client.read(file, 0, 0, 7, tag as u32).expect("there is space");
    }
    assert_eq!(pair.client.read(file, 0, 0, 7, 99), Err(NotSent::Full));
    let _ = pair.client.end_round();
    pair.files.take();
    let mut pair = pair.restart();
    let complete = pair.run();
    assert_eq!((complete.len(), pair.client.under_way()), (count, 0));
    assert!(complete.iter().all(|complete| complete.result.is_ok_and(|done| done.count == 7)), "{complete:?}");
}

/// A client that writes a file, commits it, reads it and removes it, over and over.
struct Writer {
    client: Client<u8>,
    file: Option<File>,
    is_busy: bool,
    step: u8,
    done: u32,
}

impl Writer {
    fn new(connection: &FileClient) -> Self {
        Self { client: Client::connect(connection), file: None, is_busy: false, step: 0, done: 0 }
    }

    fn round(&mut self) {
        self.client.begin();
        while let Some(Completion { tag, result }) = self.client.next_completion() {
            assert_eq!(tag, self.step);
            self.is_busy = false;
            match result {
                Ok(done) => self.complete(done),
                // Writes that were not committed are lost; they are done again.
                Err(Error::Lost) => self.begin_again(),
                Err(error) => panic!("step {tag}: {error}"),
            }
        }
        if !self.is_busy && self.client.volume().is_some() && self.done < 2 {
            self.go_on();
        }
        let _ = self.client.end_round();
    }

    fn begin_again(&mut self) {
        if let Some(file) = self.file.take() {
            self.client.close(file);
        }
        self.step = 0;
    }

    fn complete(&mut self, done: Done) {
        match self.step {
            2 => self.client.close(self.file.take().expect("it is open")),
            4 => {
                let mut bytes = [0; 5];
                self.client.memory().read(BLOCK, &mut bytes).expect("inside");
                assert_eq!((done.count, &bytes), (5, b"bytes"));
                self.client.close(self.file.take().expect("it is open"));
            }
            5 => {
                self.done += 1;
                self.step = 0;
                return;
            }
            _ => {}
        }
        self.step += 1;
    }

    fn go_on(&mut self) {
        let (client, step) = (&mut self.client, self.step);
        let sent = match (step, self.file) {
            (0 | 3, None) => {
                let mode = if step == 0 { Mode::New } else { Mode::Read };
                client.open("/file", mode, step).map(|file| self.file = Some(file))
            }
            (1, Some(file)) => {
                client.memory().write(0, b"bytes").expect("inside");
                client.write(file, 0, 5, step)
            }
            (2, Some(file)) => client.commit(file, step),
            (4, Some(file)) => client.read(file, 0, 1, 100, step),
            (5, None) => client.remove("/file", step),
            state => panic!("{state:?}"),
        };
        match sent {
            Ok(()) => self.is_busy = true,
            Err(error) => {
                assert_eq!(error, crate::NotSent::Refused(Error::Lost));
                self.begin_again();
            }
        }
    }
}

/// Lets files serve a writer until that is done. The life of one side ends before its store number
/// `steps`. Returns whether it ended.
fn run(is_client: bool, steps: u32) -> bool {
    let connection = connection(16, MEMORY, 1);
    let (mut writer, mut files) = (Writer::new(&connection), RamFiles::new(&connection, VOLUME));
    let (mut left, mut has_died) = (Some(steps), false);
    for _ in 0..200 {
        if let Some(steps) = left {
            crash::die_after(steps);
        }
        let mortal = || if is_client { writer.round() } else { _ = files.round() };
        let died = catch_unwind(AssertUnwindSafe(mortal)).is_err();
        left = crash::disarm();
        if died {
            has_died = true;
            left = None;
            if is_client {
                writer = Writer::new(&connection);
            } else {
                files = files.restarted();
            }
        }
        if is_client {
            _ = files.round();
        } else {
            writer.round();
        }
        if writer.done == 2 && writer.client.under_way() == 0 {
            assert_eq!(files.get("/file"), None);
            return has_died;
        }
    }
    panic!("step {} has no end, after a death at {steps}", writer.step);
}

#[test]
fn either_life_may_end_anywhere() {
    for is_client in [false, true] {
        let deaths = (0..).take_while(|steps| run(is_client, *steps)).count();
        assert!(deaths > 15, "{deaths} places to die");
    }
}

/// Tests that requests are sent again in the order in which they were sent, whichever places they
/// have.
#[test]
fn what_is_sent_again_keeps_its_order() {
    let mut pair = Pair::new();
    pair.files.put("/file", &[7; 1000]);
    let file = pair.open("/file", Mode::Read).expect("it is there").0;
    let (mut sent, mut order) = (0, Vec::new());
    for turn in 0..6_usize {
        pair.client.begin();
        let complete: Vec<_> = core::iter::from_fn(|| pair.client.next_completion()).collect();
        order.retain(|position| complete.iter().all(|complete| u64::from(complete.tag) != *position));
        while pair.client.space() > 0 {
            pair.client.read(file, sent, 0, 1, sent as u32).expect("there is space");
            order.push(sent);
            sent += 1;
        }
        let _ = pair.client.end_round();
        pair.files.take();
        if turn < 5 {
            // Places are free in any order.
            (0..4).for_each(|number| pair.files.finish(number * 5 % pair.files.taken.len()));
        }
        let _ = pair.files.end_round();
    }
    let mut pair = pair.restart();
    let mut taken = Vec::new();
    for _ in 0..10 {
        pair.client.begin();
        while pair.client.next_completion().is_some() {}
        let _ = pair.client.end_round();
        pair.files.take();
        let reads = pair.files.taken.iter().filter(|taken| taken.request.operation == Operation::Read);
        taken.extend(reads.map(|taken| taken.request.position));
        pair.files.finish_all();
        let _ = pair.files.end_round();
    }
    assert!(order.len() >= 5, "{order:?}");
    assert_eq!(taken, order);
}
