//! Both sides together, when all goes well and when the provider refuses, fails or changes.

mod hostile;
mod restarts;

use crate::testing::{RamFiles, connection};
use crate::{BLOCK, Client, Completion, Done, Error, File, MAX_FILES, Mode, NotSent, Volume, path};
use std::string::{String, ToString};
use std::vec::Vec;
use std::{format, vec};

const MEMORY: usize = 32 * 1024;
const VOLUME: Volume = Volume::new(1, false);

/// A client and its files.
struct Pair {
    client: Client<u32>,
    files: RamFiles,
}

impl Pair {
    fn new() -> Self {
        let connection = connection(16, MEMORY, 1);
        let (client, files) = (Client::connect(&connection), RamFiles::new(&connection, VOLUME));
        let mut pair = Self { client, files };
        assert_eq!(pair.run(), []);
        assert_eq!(pair.client.volume(), Some(&VOLUME));
        pair
    }

    /// Lets both sides take rounds until nothing happens; returns what is complete.
    fn run(&mut self) -> Vec<Completion<u32>> {
        let mut complete = Vec::new();
        for _ in 0..40 {
            self.client.begin();
            complete.extend(core::iter::from_fn(|| self.client.next_completion()));
            let asleep = self.client.end_round().is_asleep();
            if self.files.round().is_asleep() && asleep && culm::testing::signalled().is_empty() {
                return complete;
            }
        }
        panic!("there is no end to it");
    }

    /// Returns what becomes of the one request that was sent with the tag 7.
    fn outcome(&mut self, sent: Result<(), NotSent>) -> Result<Done, Error> {
        match sent {
            Err(NotSent::Refused(error)) => return Err(error),
            sent => assert_eq!(sent, Ok(())),
        }
        let complete = self.run();
        let [Completion { tag: 7, result }] = complete[..] else { panic!("one answer: {complete:?}") };
        result
    }

    fn open(&mut self, path: &str, mode: Mode) -> Result<(File, Done), Error> {
        let file = match self.client.open(path, mode, 7) {
            Ok(file) => file,
            Err(NotSent::Refused(error)) => return Err(error),
            Err(error) => panic!("{error}"),
        };
        self.outcome(Ok(())).map(|done| (file, done))
    }

    /// Reads some bytes into block 2 of the memory.
    fn read(&mut self, file: File, position: u64, length: u32) -> Result<Vec<u8>, Error> {
        self.client.memory().write(2 * BLOCK, &[0xee; 4 * BLOCK]).expect("inside");
        let sent = self.client.read(file, position, 2, length, 7);
        let done = self.outcome(sent)?;
        let begin = position as usize % BLOCK;
        let mut all = vec![0; 4 * BLOCK];
        self.client.memory().read(2 * BLOCK, &mut all).expect("inside");
        let end = begin + done.count as usize;
        assert!(all[..begin].iter().chain(&all[end..]).all(|byte| *byte == 0xee), "more than the file was written");
        Ok(all[begin..end].to_vec())
    }

    /// Writes some bytes from block 8 of the memory.
    fn write(&mut self, file: File, bytes: &[u8]) -> Result<(), Error> {
        let offset = 8 * BLOCK + self.client.end(file) as usize % BLOCK;
        self.client.memory().write(offset, bytes).expect("inside");
        let sent = self.client.write(file, 8, bytes.len() as u32, 7);
        self.outcome(sent).map(|done| assert_eq!(done.count as usize, bytes.len()))
    }

    fn commit(&mut self, file: File) -> Result<Done, Error> {
        let sent = self.client.commit(file, 7);
        self.outcome(sent)
    }

    fn close(&mut self, file: File) {
        self.client.close(file);
        assert_eq!(self.run(), []);
    }

    fn remove(&mut self, path: &str) -> Result<Done, Error> {
        let sent = self.client.remove(path, 7);
        self.outcome(sent)
    }

    fn make_folder(&mut self, path: &str) -> Result<Done, Error> {
        let sent = self.client.make_folder(path, 7);
        self.outcome(sent)
    }

    fn rename(&mut self, from: &str, to: &str) -> Result<Done, Error> {
        let sent = self.client.rename(from, to, 7);
        self.outcome(sent)
    }

    /// Has the provider restarted.
    fn restart(self) -> Self {
        Self { files: self.files.restarted(), ..self }
    }
}

#[test]
fn an_open_that_is_refused_takes_nothing() {
    let mut pair = Pair::new();
    pair.files.put("/file", b"abc");
    let files: Vec<File> = (0..MAX_FILES).map(|_| pair.open("/file", Mode::Read).expect("a number").0).collect();
    for _ in 0..20 {
        assert_eq!(pair.client.open("/file", Mode::Read, 7), Err(NotSent::Refused(Error::TooMany)));
    }
    let sent = pair.client.stat("/file", 7);
    assert!(pair.outcome(sent).is_ok());
    pair.close(files[3]);
    assert!(pair.open("/file", Mode::Read).is_ok());
}

#[test]
fn a_file_is_read_from_any_position() {
    let mut pair = Pair::new();
    let content: Vec<u8> = (0..1500_u32).map(|byte| byte as u8).collect();
    pair.files.put("/folder/file", &content);
    let (file, done) = pair.open("/folder/file", Mode::Read).expect("it is there");
    let info = done.info.expect("it says what it is");
    assert!(info.size == 1500 && !info.is_folder);
    for (position, length) in [(0, 512), (0, 1500), (1, 1499), (511, 2), (513, 900), (1000, 1000), (1500, 1), (9999, 5)]
    {
        let end = (position + length).min(1500).max(position.min(1500));
        let expected = &content[position.min(1500)..end];
        assert_eq!(pair.read(file, position as u64, length as u32).as_deref(), Ok(expected), "{position} {length}");
    }
    pair.close(file);
    assert_eq!(pair.read(file, 0, 1), Err(Error::Invalid));
    assert_eq!(pair.open("/folder/other", Mode::Read), Err(Error::NotFound));
}

#[test]
fn a_new_file_is_there_when_it_is_committed() {
    let mut pair = Pair::new();
    pair.files.put("/a", b"old");
    let (reader, _) = pair.open("/a", Mode::Read).expect("it is there");
    let (file, _) = pair.open("/a", Mode::New).expect("it can be written");
    pair.write(file, b"new ").expect("there is space");
    pair.write(file, b"content").expect("there is space");
    assert_eq!(pair.files.get("/a"), Some(&b"old"[..]));
    pair.commit(file).expect("it is committed");
    assert_eq!(pair.files.get("/a"), Some(&b"new content"[..]));
    assert_eq!(pair.read(reader, 0, 100), Ok(b"old".to_vec()));
    pair.close(file);
    let (file, _) = pair.open("/a", Mode::New).expect("it can be written");
    pair.write(file, b"never").expect("there is space");
    pair.close(file);
    assert_eq!(pair.files.get("/a"), Some(&b"new content"[..]));
}

#[test]
fn a_file_is_appended_to() {
    let mut pair = Pair::new();
    let (file, done) = pair.open("/log", Mode::Append).expect("it is made");
    assert_eq!(done.info.expect("it says what it is").size, 0);
    let line = [b'x'; 300];
    for count in 1..4 {
        pair.write(file, &line).expect("there is space");
        assert_eq!(pair.client.end(file), 300 * count);
    }
    pair.commit(file).expect("it is committed");
    assert_eq!(pair.files.get("/log").map(<[u8]>::len), Some(900));
    assert_eq!(pair.open("/log", Mode::Append), Err(Error::Busy));
    pair.close(file);
    let (file, done) = pair.open("/log", Mode::Append).expect("it is there");
    assert_eq!((done.info.expect("it says what it is").size, pair.client.end(file)), (900, 900));
}

#[test]
fn a_write_that_fails_is_the_last() {
    let mut pair = Pair::new();
    pair.files.space = 700;
    let (file, _) = pair.open("/log", Mode::Append).expect("it is made");
    pair.write(file, &[1; 600]).expect("there is space");
    assert_eq!(pair.write(file, &[1; 200]), Err(Error::Full));
    assert_eq!(pair.write(file, &[1; 10]), Err(Error::Full));
    pair.close(file);
    assert!(pair.open("/log", Mode::Append).is_ok(), "it was not closed");
}

#[test]
fn folders_are_made_listed_and_removed() {
    let mut pair = Pair::new();
    assert_eq!(pair.make_folder("/a/b"), Err(Error::NotFound));
    assert_eq!(pair.make_folder("/a"), Ok(Done::NOTHING));
    assert_eq!(pair.make_folder("/a"), Err(Error::Exists));
    for number in 0..40_usize {
        pair.files.put(&format!("/a/file {number}"), &vec![0; number]);
    }
    let (folder, done) = pair.open("/a", Mode::Read).expect("it is there");
    assert!(done.info.expect("it says what it is").is_folder);
    let (mut next, mut found) = (0, Vec::new());
    loop {
        let sent = pair.client.list(folder, next, 3, 600, 7);
        let done = pair.outcome(sent).expect("it is listed");
        found.extend(pair.client.listing(3, done.count).map(|item| (item.name, item.info.size)));
        let Some(further) = done.next else { break };
        next = further;
    }
    found.sort();
    let mut expected: Vec<(String, u64)> = (0..40).map(|number| (format!("file {number}"), number)).collect();
    expected.sort();
    assert_eq!(found, expected);
    assert_eq!(pair.remove("/a"), Err(Error::NotEmpty));
    for number in 0..40 {
        assert_eq!(pair.remove(&format!("/a/file {number}")), Ok(Done::NOTHING));
    }
    assert_eq!(pair.remove("/a"), Ok(Done::NOTHING));
    assert_eq!(pair.remove("/a"), Err(Error::NotFound));
}

#[test]
fn names_change() {
    let mut pair = Pair::new();
    pair.files.put("/a/b", b"content");
    assert_eq!(pair.rename("/a/b", "/c"), Ok(Done::NOTHING));
    assert_eq!((pair.files.get("/a/b"), pair.files.get("/c")), (None, Some(&b"content"[..])));
    assert_eq!(pair.rename("/c", "/a"), Err(Error::Exists));
    assert_eq!(pair.rename("/d", "/e"), Err(Error::NotFound));
    let long = "/".to_string() + &"x".repeat(path::MAX_NAME) + "/" + &"y".repeat(path::MAX_PATH - path::MAX_NAME - 2);
    assert_eq!(long.len(), path::MAX_PATH);
    assert_eq!(pair.rename(&long, &long), Err(Error::NotFound));
}

#[test]
fn what_is_no_path_is_not_sent() {
    let mut pair = Pair::new();
    let long = "/".to_string() + &"x".repeat(path::MAX_NAME + 1);
    let deep = "/x".repeat(path::MAX_DEPTH + 1);
    for path in ["", "a", "//", "/a/", "/a//b", "/..", "/a/../b", "/.", "/a\\b", "/a\0", "/\u{7f}", &long, &deep] {
        assert_eq!(pair.client.stat(path, 7), Err(NotSent::Refused(Error::Name)), "{path:?}");
    }
    let sent = pair.client.stat("/", 7);
    assert!(pair.outcome(sent).is_ok_and(|done| done.info.is_some_and(|info| info.is_folder)));
}

#[test]
fn who_may_only_read_changes_nothing() {
    let mut pair = Pair::new();
    pair.files.put("/a", b"content");
    pair.files.insert(Volume { read_only: true, ..VOLUME });
    assert_eq!(pair.run(), []);
    for mode in [Mode::New, Mode::Append] {
        assert_eq!(pair.open("/a", mode), Err(Error::ReadOnly));
    }
    assert_eq!(pair.remove("/a"), Err(Error::ReadOnly));
    assert!(pair.open("/a", Mode::Read).is_ok());
    assert_eq!(pair.files.port.entries_refused(), 0);
}

#[test]
fn many_files_are_open() {
    let mut pair = Pair::new();
    pair.files.put("/a", b"content");
    let files: Vec<File> = (0..crate::MAX_FILES).map(|_| pair.open("/a", Mode::Read).expect("a number").0).collect();
    assert_eq!(pair.open("/a", Mode::Read), Err(Error::TooMany));
    pair.close(files[5]);
    let (file, _) = pair.open("/a", Mode::Read).expect("a number is free");
    assert_eq!(pair.read(file, 0, 100), Ok(b"content".to_vec()));
    assert_eq!(pair.read(files[5], 0, 100), Err(Error::Invalid));
}

#[test]
fn another_volume_ends_what_was_open() {
    let mut pair = Pair::new();
    pair.files.put("/a", b"content");
    let (file, _) = pair.open("/a", Mode::Read).expect("it is there");
    pair.files.insert(Volume::ABSENT);
    assert_eq!(pair.run(), []);
    assert_eq!(pair.read(file, 0, 1), Err(Error::Absent));
    pair.files.insert(VOLUME);
    assert_eq!(pair.run(), []);
    assert_eq!(pair.read(file, 0, 1), Err(Error::Changed));
    pair.close(file);
    assert_eq!(pair.client.changes(), 2);
    assert!(pair.open("/a", Mode::Read).is_ok());
}
