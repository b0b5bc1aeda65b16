//! The work on a disk in memory.

use crate::pattern::word;
use crate::work::{Extras, Work};
use culm_block::testing::{RamDisk, connection};
use culm_block::{BLOCK, Disk};

/// Does the work on a disk that holds `content`; returns what the disk holds then, and whether all
/// held.
fn done(disk: Disk, content: Vec<u8>, rounds: u32, spoil: impl Fn(&mut RamDisk)) -> (Vec<u8>, bool) {
    done_with(Extras::default(), disk, content, rounds, spoil)
}

fn done_with(
    extras: Extras,
    disk: Disk,
    content: Vec<u8>,
    rounds: u32,
    spoil: impl Fn(&mut RamDisk),
) -> (Vec<u8>, bool) {
    let connection = connection(32, 64, 0, 1);
    let mut ram = RamDisk::new(&connection, disk);
    ram.content = content;
    let mut work = Work::new(&connection, 7, rounds, extras);
    for _ in 0..10_000 {
        ram.take();
        // The last one first: requests that are under way at the same time have no order.
        while !ram.taken.is_empty() {
            ram.finish(ram.taken.len() - 1);
        }
        spoil(&mut ram);
        let asleep = ram.end_round().is_asleep() & work.round().is_asleep();
        if work.passed().is_some() || asleep && culm::testing::signalled().is_empty() {
            break;
        }
    }
    let passed = work.passed().expect("there is no end to it");
    (ram.content, passed)
}

fn is_pattern(content: &[u8], seed: u64) -> bool {
    let words = content.chunks_exact(8).map(|word| u64::from_le_bytes(word.try_into().expect("8 bytes")));
    words.zip(0..).all(|(value, place): (u64, u64)| value == word(seed, place / 64, place % 64))
}

#[test]
fn every_block_holds_the_last_seed_in_the_end() {
    for (blocks, granule) in [(1, 0), (100, 0), (104, 3)] {
        let disk = Disk { granule, ..Disk::new(blocks, 1) };
        let (content, passed) = done(disk, vec![0; blocks as usize * BLOCK], 3, |_| {});
        assert!(passed && is_pattern(&content, 9), "{blocks} blocks");
    }
}

#[test]
fn a_disk_that_is_read_only_is_read() {
    let disk = Disk { read_only: true, ..Disk::new(100, 1) };
    let (content, passed) = done(disk, vec![5; 100 * BLOCK], 3, |_| {});
    assert!(passed && content.iter().all(|byte| *byte == 5));
}

#[test]
fn a_wrong_block_is_seen() {
    let (_, passed) = done(Disk::new(100, 1), vec![0; 100 * BLOCK], 1, |disk| disk.content[50 * BLOCK + 8] = 1);
    assert!(!passed);
}

#[test]
fn the_first_half_is_zeroed_and_the_second_discarded() {
    let disk = Disk { discards: true, writes_zeroes: true, ..Disk::new(100, 1) };
    for (zeroes, discards) in [(true, true), (true, false), (false, true)] {
        let extras = Extras { discards, zeroes, ..Extras::default() };
        let (content, passed) = done_with(extras, disk, vec![0; 100 * BLOCK], 1, |_| {});
        assert!(passed);
        // The fake disk discards to zeroes.
        let pattern: Vec<u8> = (0..100 * 64).flat_map(|at| word(7, at / 64, at % 64).to_le_bytes()).collect();
        let (zeroed, discarded) = content.split_at(50 * BLOCK);
        for (cleared, found, written) in [(zeroes, zeroed, 0), (discards, discarded, 50 * BLOCK)] {
            let expected = if cleared { vec![0; 50 * BLOCK] } else { pattern[written..][..50 * BLOCK].to_vec() };
            assert!(found == expected, "zeroes: {zeroes}, discards: {discards}, from byte {written} on");
        }
    }
}
