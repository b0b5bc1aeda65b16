//! Free space in many pieces, and how much of it is remembered.

use super::*;
use crate::file::{MOST_EXTENTS, Taken};
use proptest::prelude::*;
use std::collections::BTreeSet;

/// A volume of which every second cluster is in use, by a table that `fsck.fat` would not like.
fn in_pieces() -> Disk {
    let mut disk = Disk::large();
    let number = |at: usize| u32::from_le_bytes(disk.bytes[at..at + 4].try_into().expect("four bytes"));
    let first = usize::from(u16::from_le_bytes([disk.bytes[14], disk.bytes[15]])) * BLOCK;
    let length = number(36) as usize * BLOCK;
    for table in [first, first + length] {
        for cluster in (4..68_000).step_by(2) {
            let at = table + cluster * 4;
            disk.bytes[at..at + 4].copy_from_slice(&0x0fff_ffff_u32.to_le_bytes());
        }
    }
    // Free clusters have not been counted.
    disk.bytes[BLOCK + 488..BLOCK + 492].fill(0xff);
    disk
}

/// Returns how many extents are promised to files, and for how many that are known there is space.
fn remembered(volume: &Volume) -> (usize, usize) {
    let files = || volume.mounted().files.iter();
    (files().map(|file| file.fresh.len()).sum(), files().map(|file| file.known.capacity()).sum())
}

#[test]
fn a_reserve_that_fails_keeps_nothing() {
    let mut disk = in_pieces();
    let mut volume = mounted(&mut disk);
    let mut files = Vec::new();
    for number in 0..34 {
        let operation = Operation::Create { path: format!("x{number}") };
        let (file, _) = opened(&mut volume, &mut disk, operation).expect("a name");
        assert_eq!(run(&mut volume, &mut disk, Operation::Reserve { file, size: 1 << 20 }), Err(Error::Fragmented));
        assert_eq!(remembered(&volume), (0, 0));
        files.push(file);
    }
    for file in &files {
        // What an earlier operation has promised stays.
        let reserve = |size: usize| Operation::Reserve { file: *file, size: (size * BLOCK) as u64 };
        assert_eq!(run(&mut volume, &mut disk, reserve(3)), Ok(Answer::Done));
        assert_eq!(run(&mut volume, &mut disk, reserve(2048)), Err(Error::Fragmented));
    }
    assert_eq!(remembered(&volume).0, 3 * files.len());
    for file in files {
        run(&mut volume, &mut disk, Operation::Close { file }).expect("it is open");
    }
    assert_eq!(volume.mounted().session.borrow().taken.count(), 0);
}

#[test]
fn some_files_leave_space_for_others_to_be_written() {
    let mut disk = in_pieces();
    let mut volume = mounted(&mut disk);
    let mut results = Vec::new();
    for number in 0..40 {
        let operation = Operation::Create { path: format!("x{number}") };
        let (file, _) = opened(&mut volume, &mut disk, operation).expect("a name");
        let reserve = |pieces: usize| Operation::Reserve { file, size: (pieces * BLOCK) as u64 };
        results.push(run(&mut volume, &mut disk, reserve(1000)).is_ok());
        assert_eq!(run(&mut volume, &mut disk, reserve(16)), Ok(Answer::Done));
    }
    assert_eq!(results.iter().filter(|is_well| **is_well).count(), 2);
    assert_eq!(remembered(&volume).0, 2000 + 38 * 16);
}

#[test]
fn places_of_files_in_many_pieces_are_forgotten_again() {
    let mut disk = in_pieces();
    let mut volume = mounted(&mut disk);
    let (file, _) = opened(&mut volume, &mut disk, Operation::Append { path: "log".into() }).expect("a name");
    let content = pattern(3, 3000 * BLOCK);
    for part in 0..6 {
        let from = part * 500 * BLOCK;
        let piece = &content[from..from + 500 * BLOCK];
        write_open(&mut volume, &mut disk, file, from as u64, piece).expect("there is space");
        assert!(remembered(&volume).1 <= MOST_EXTENTS, "{:?}", remembered(&volume));
    }
    let readers: Vec<_> = (0..40)
        .map(|_| {
            let (file, size) = opened(&mut volume, &mut disk, Operation::Open { path: "log".into() }).expect("a file");
            run(&mut volume, &mut disk, Operation::Locate { file, offset: size - 1 }).expect("it is there");
            assert!(remembered(&volume).1 <= 8 * MOST_EXTENTS, "{:?}", remembered(&volume));
            file
        })
        .collect();
    for reader in readers.into_iter().step_by(13) {
        let found = read_open(&mut volume, &mut disk, reader, content.len() as u64).expect("it is read");
        assert!(found == content);
    }
    write_open(&mut volume, &mut disk, file, content.len() as u64, b"the end").expect("there is space");
    let found = read(&mut volume, &mut disk, "log").expect("it is there");
    assert!(found[..content.len()] == content && &found[content.len()..] == b"the end");
}

proptest! {
    #[test]
    fn ranges_are_as_sets(steps in proptest::collection::vec((any::<bool>(), 2..60_u32, 1..9_u32), 0..80)) {
        let (mut taken, mut set) = (Taken::default(), BTreeSet::new());
        for (takes, first, count) in steps {
            if !takes {
                taken.release(first, count);
                set.retain(|cluster| !(first..first + count).contains(cluster));
            } else if !(first..first + count).any(|cluster| set.contains(&cluster)) {
                taken.take(first, count);
                set.extend(first..first + count);
            }
            for cluster in 0..80 {
                prop_assert_eq!(taken.has(cluster), set.contains(&cluster));
            }
            let ranges = set.iter().filter(|cluster| !set.contains(&(**cluster + 1))).count();
            prop_assert_eq!(taken.count(), ranges);
        }
    }
}
