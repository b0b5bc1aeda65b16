//! The two sides of the file class, each with a hostile other.
//!
//! The hostile side writes anything anywhere in the queues and in the client's memory, at any time
//! between two rounds. A provider is given nothing that lies outside the client's memory or has no
//! sense, and never more at a time than its answers have space for; a client takes no answer twice.
//! In the end an honest other side takes the hostile one's place: every request is answered, and
//! new ones are served.

#![no_main]

#[path = "../common/peers.rs"]
#[allow(dead_code, reason = "entries of the net class are none of this one's")]
mod peers;

use culm::connection::FileClient;
use culm::testing::signalled;
use culm::{Link, Region};
use culm_file::testing::{RamFiles, connection};
use culm_file::{Answer, AnswerEntry, Client, Done, Error, File, Info, MAX_FILES, Mode, RequestEntry, Volume};
use libfuzzer_sys::fuzz_target;
use peers::{Input, clear, scribble};
use std::sync::OnceLock;

/// Entries of a queue, and bytes of the client's memory.
const QUEUE: u32 = 16;
const MEMORY: usize = 16 * 1024;
const PATHS: [&str; 4] = ["/", "/a", "/a/b", "/b"];

/// Queues and memory, the same for each input.
fn ground() -> &'static FileClient {
    static GROUND: OnceLock<FileClient> = OnceLock::new();
    GROUND.get_or_init(|| connection(QUEUE, MEMORY, 1))
}

fn files() -> RamFiles {
    let mut files = RamFiles::new(ground(), Volume::new(1, false));
    files.put("/a/b", b"content");
    files
}

fn words(input: &mut Input<'_>) -> [u64; 2] {
    core::array::from_fn(|_| u64::from(input.number()) << 32 | u64::from(input.number()))
}

/// A hostile client, then an honest one.
fn against_client(input: &mut Input<'_>, reach: &[Region]) {
    let ground = ground();
    let mut files = files();
    let memory = Region::new(ground.memory);
    let mut hostile = Link::<RequestEntry, AnswerEntry>::new(ground.requests, ground.answers, 2);
    while !input.is_over() {
        let _ = hostile.begin();
        match input.byte() % 9 {
            0 => {
                scribble(reach, input);
            }
            1 => while hostile.input.pop().is_some() {},
            2 => hostile.start_over(),
            3 => {
                let _ = hostile.output.push(RequestEntry(words(input)));
            }
            // Entries that are nearly a request, as `RequestEntry` has their fields.
            4 | 5 => {
                let [operation, file, length, place] = core::array::from_fn(|_| u64::from(input.byte()));
                let word = operation % 14 << 16 | file % 34 << 24 | length << 32;
                let _ = hostile.output.push(RequestEntry([word, length % 9 | place % 36 << 40]));
            }
            6 => {
                if !files.taken.is_empty() {
                    files.finish(usize::from(input.byte()) % files.taken.len());
                }
            }
            7 => {
                let (block, path) = (usize::from(input.byte() % 32), PATHS[usize::from(input.byte() % 4)]);
                memory.write(block * 512, path.as_bytes()).expect("inside");
            }
            _ => files.insert(Volume::new(1 + u32::from(input.byte() % 2), false)),
        }
        hostile.publish();
        files.take();
        assert!(files.taken.len() < QUEUE as usize);
        for taken in &files.taken {
            let request = &taken.request;
            assert_eq!(request.check(MEMORY), Ok(()));
            assert!(usize::from(request.file) < MAX_FILES && request.offset() < MEMORY);
        }
        let _ = files.end_round();
    }
    files.finish_all();
    let mut client = Client::<()>::connect(ground);
    let mut answers = 0;
    for _ in 0..10 {
        client.begin();
        while let Some(completion) = client.next_completion() {
            answers += usize::from(completion.result.is_ok());
        }
        if client.under_way() == 0 && client.volume().is_some() {
            client.stat("/", ()).expect("there is space");
        }
        let _ = client.end_round();
        let _ = files.round();
    }
    assert!(answers > 0);
}

/// A hostile provider, then an honest one.
fn against_provider(input: &mut Input<'_>, reach: &[Region]) {
    let ground = ground();
    let mut client = Client::<u32>::connect(ground);
    let mut hostile = Link::<AnswerEntry, RequestEntry>::new(ground.answers, ground.requests, 2);
    let (mut is_open, mut sent) = (vec![false; 4096], 0);
    let mut opened: Vec<File> = Vec::new();
    let mut round = |client: &mut Client<u32>, step: u8| {
        client.begin();
        while let Some(complete) = client.next_completion() {
            assert!(std::mem::take(&mut is_open[complete.tag as usize]), "a request was answered twice");
        }
        let (tag, file) = (sent % 4096, opened.last().copied());
        let is_sent = !is_open[tag as usize]
            && match (step, file) {
                (0 | 1, _) => {
                    let mode = [Mode::Read, Mode::New, Mode::Append][tag as usize % 3];
                    client.open("/a/b", mode, tag).map(|file| opened.push(file)).is_ok()
                }
                (2, Some(file)) => client.read(file, 0, 0, 100, tag).is_ok(),
                (3, Some(file)) => client.write(file, 0, 100, tag).is_ok(),
                (4, Some(file)) => client.commit(file, tag).is_ok(),
                (5, Some(file)) => client.list(file, 0, 0, 500, tag).is_ok(),
                (6, Some(file)) => {
                    opened.pop();
                    client.close(file);
                    false
                }
                (7, _) => client.rename("/a", "/b", tag).is_ok(),
                _ => false,
            };
        is_open[tag as usize] |= is_sent;
        sent += u32::from(is_sent);
        let _ = client.end_round();
        is_open.iter().filter(|open| **open).count()
    };
    while !input.is_over() {
        let _ = hostile.begin();
        let token = u16::from(input.byte() % 40);
        match input.byte() % 9 {
            0 => {
                scribble(reach, input);
            }
            1 => while hostile.input.pop().is_some() {},
            2 => hostile.start_over(),
            3 => {
                let _ = hostile.output.push(AnswerEntry(words(input)));
            }
            4 => {
                let result = Ok(Done::bytes(input.number()));
                let _ = hostile.output.push(Answer::Of { token, result }.into());
            }
            5 | 6 => {
                let info = Info { size: u64::from(input.byte()), ..Info::default() };
                let _ = hostile.output.push(Answer::Of { token, result: Ok(Done::file(info)) }.into());
            }
            7 => {
                let result = Err(Error::ALL[usize::from(input.byte()) % Error::ALL.len()]);
                let _ = hostile.output.push(Answer::Of { token, result }.into());
            }
            _ => {
                let volume = Volume::new(1 + u32::from(input.byte() % 2), input.byte() % 4 == 0);
                let _ = hostile.output.push(Answer::Volume(volume).into());
            }
        }
        hostile.publish();
        let step = input.byte() % 10;
        // Those to close and open again are the client's own.
        assert!(round(&mut client, step) <= client.under_way());
    }
    let mut files = files();
    for _ in 0..40 {
        let _ = files.round();
        round(&mut client, 9);
    }
    assert_eq!((round(&mut client, 9), client.under_way()), (0, 0));
}

fuzz_target!(|bytes: &[u8]| {
    let reach = [clear::<RequestEntry>(ground().requests), clear::<AnswerEntry>(ground().answers)];
    let mut input = Input::new(bytes);
    if input.byte() % 2 == 0 {
        against_client(&mut input, &reach);
    } else {
        against_provider(&mut input, &reach);
    }
    let _ = signalled();
});
