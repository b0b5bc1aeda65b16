//! The two sides of the block class, each with a hostile other.
//!
//! The hostile side writes anything anywhere in the queues, at any time between two rounds. A
//! provider is given nothing that lies outside the disk or its client's memory, and never more at a
//! time than its answers have space for; a client takes no answer twice. In the end an honest other
//! side takes the hostile one's place: every request is answered, and new ones are served.

#![no_main]

#[path = "../common/peers.rs"]
#[allow(dead_code, reason = "entries of the net class are none of this one's")]
mod peers;

use culm::connection::BlockClient;
use culm::testing::signalled;
use culm::{Link, Region};
use culm_abi::connection::block::MIN_QUEUE;
use culm_block::testing::{RamDisk, connection, segment};
use culm_block::{Answer, AnswerEntry, Client, Disk, Request, RequestEntry};
use libfuzzer_sys::fuzz_target;
use peers::{Input, clear, scribble};
use std::sync::OnceLock;

const MEMORY: u64 = 8;
const DISK: Disk = Disk { granule: 1, segments: 4, most: 6, discards: true, ..Disk::new(20, 1) };

/// Queues and memory, the same for each input.
fn ground() -> &'static BlockClient {
    static GROUND: OnceLock<BlockClient> = OnceLock::new();
    GROUND.get_or_init(|| connection(MIN_QUEUE, MEMORY, 0, 1))
}

fn words(input: &mut Input<'_>) -> [u64; 2] {
    core::array::from_fn(|_| u64::from(input.number()) << 32 | u64::from(input.number()))
}

/// A hostile client, then an honest one.
fn against_client(input: &mut Input<'_>, reach: &[Region]) {
    let ground = ground();
    let mut disk = RamDisk::new(ground, DISK);
    let mut hostile = Link::<RequestEntry, AnswerEntry>::new(ground.requests, ground.answers, 2);
    while !input.is_over() {
        let _ = hostile.begin();
        match input.byte() % 8 {
            0 => {
                scribble(reach, input);
            }
            1 => while hostile.input.pop().is_some() {},
            2 => hostile.start_over(),
            3 => {
                let _ = hostile.output.push(RequestEntry(words(input)));
            }
            // Entries that are nearly a request.
            4 | 5 => {
                let [low, high, place, blocks] = core::array::from_fn(|_| u64::from(input.byte()));
                let word = low % 24 | (high & 0x77) << 56 | low << 40;
                let _ = hostile.output.push(RequestEntry([word, place % 10 | (blocks % 8) << 40]));
            }
            6 => {
                if !disk.taken.is_empty() {
                    disk.finish(usize::from(input.byte()) % disk.taken.len());
                }
            }
            _ => disk.insert(Disk { medium: 1 + u32::from(input.byte() % 2), ..DISK }),
        }
        hostile.publish();
        disk.take();
        assert!(disk.taken.len() < MIN_QUEUE as usize);
        for taken in &disk.taken {
            assert_eq!(DISK.check(&taken.request, MEMORY), Ok(()));
        }
        let _ = disk.end_round();
    }
    disk.finish_all();
    let mut client = Client::<()>::connect(ground);
    let mut answers = 0;
    for _ in 0..10 {
        client.begin();
        while client.next_completion().is_some() {
            answers += 1;
        }
        if client.under_way() == 0 && client.disk().is_some() {
            let request = Request::read(0, &[segment(0, 2)]).expect("one segment");
            client.send(&request, ()).expect("the disk takes it");
        }
        let _ = client.end_round();
        let _ = disk.round();
    }
    assert!(answers > 0);
}

/// A hostile provider, then an honest one.
fn against_provider(input: &mut Input<'_>, reach: &[Region]) {
    let ground = ground();
    let mut client = Client::<u32>::connect(ground);
    let mut hostile = Link::<AnswerEntry, RequestEntry>::new(ground.answers, ground.requests, 2);
    let mut open = vec![false; 4096];
    let mut sent = 0;
    let mut round = |client: &mut Client<u32>, sends: bool| {
        client.begin();
        while let Some(complete) = client.next_completion() {
            assert!(std::mem::take(&mut open[complete.tag as usize]), "a request was answered twice");
        }
        if sends && client.send(&Request::flush(), sent % 4096).is_ok() {
            open[(sent % 4096) as usize] = true;
            sent += 1;
        }
        let _ = client.end_round();
        open.iter().filter(|open| **open).count()
    };
    while !input.is_over() {
        let _ = hostile.begin();
        match input.byte() % 8 {
            0 => {
                scribble(reach, input);
            }
            1 => while hostile.input.pop().is_some() {},
            2 => hostile.start_over(),
            3 => {
                let _ = hostile.output.push(AnswerEntry(words(input)));
            }
            4 | 5 => {
                let answer = Answer::Of { token: u16::from(input.byte() % 40), result: Ok(()) };
                let _ = hostile.output.push(answer.into());
            }
            _ => {
                let disk = Disk { medium: 1 + u32::from(input.byte() % 2), ..DISK };
                let _ = hostile.output.push(Answer::Disk(disk).into());
            }
        }
        hostile.publish();
        assert_eq!(round(&mut client, true), client.under_way());
    }
    let mut disk = RamDisk::new(ground, DISK);
    for _ in 0..20 {
        let _ = disk.round();
        round(&mut client, false);
    }
    assert_eq!((round(&mut client, false), client.under_way()), (0, 0));
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
