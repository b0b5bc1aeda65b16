//! Free space in many pieces, and how much of it is remembered.

use super::*;
use crate::file::{MOST_EXTENTS, Taken};
use crate::table::END;
use proptest::prelude::*;
use std::collections::BTreeSet;

/// Sets what stands for clusters of a FAT32, in both copies of its table, behind the back of its
/// count of free clusters.
fn set_links(disk: &mut Disk, clusters: impl IntoIterator<Item = usize>, link: u32) {
    let number = |at: usize| u32::from_le_bytes(disk.bytes[at..at + 4].try_into().expect("four bytes"));
    let first = usize::from(u16::from_le_bytes([disk.bytes[14], disk.bytes[15]])) * BLOCK;
    let length = number(36) as usize * BLOCK;
    for cluster in clusters {
        for table in [first, first + length] {
            let at = table + cluster * 4;
            disk.bytes[at..at + 4].copy_from_slice(&link.to_le_bytes());
        }
    }
    // The count is not known.
    disk.bytes[BLOCK + 488..BLOCK + 492].fill(0xff);
}

/// A volume of which every second cluster is in use, by a table that `fsck.fat` would not like.
fn in_pieces() -> Disk {
    let mut disk = Disk::large();
    set_links(&mut disk, (4..68_000).step_by(2), END);
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
        // A reservation that fails leaves the clusters of earlier ones promised.
        let reserve = |size: usize| Operation::Reserve { file: *file, size: (size * BLOCK) as u64 };
        assert_eq!(run(&mut volume, &mut disk, reserve(3)), Ok(Answer::Done));
        assert_eq!(run(&mut volume, &mut disk, reserve(2048)), Err(Error::Fragmented));
    }
    // One more for the growth of the folder.
    assert_eq!(remembered(&volume).0, (3 + 1) * files.len());
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
    // The first four have one more, for the growth of the folder; the others' names have room.
    assert_eq!(remembered(&volume).0, 2000 + 38 * 16 + 4);
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

/// Returns the free bytes of a volume.
fn free(volume: &mut Volume, disk: &mut Disk) -> u64 {
    match run(volume, disk, Operation::Count) {
        Ok(Answer::Counted(space)) => space.free,
        other => panic!("{other:?}"),
    }
}

/// Tests that nobody has the table read again and again by asking for what others were promised.
#[test]
fn space_that_is_promised_is_refused_without_a_look_at_the_table() {
    for is_counted in [true, false] {
        let mut disk = Disk::large();
        if !is_counted {
            set_links(&mut disk, [], END);
        }
        // The table has 540 blocks, the cache 256.
        let mut volume = Volume::new(Options { blocks: 34 << 11, granule: 0, cache_blocks: 256, read_only: false });
        run(&mut volume, &mut disk, Operation::Mount).unwrap();
        let open = |volume: &mut Volume, disk: &mut Disk, path: &str| {
            opened(volume, disk, Operation::Create { path: path.into() }).unwrap().0
        };
        let (file, other) = (open(&mut volume, &mut disk, "a"), open(&mut volume, &mut disk, "b"));
        let size = 18 << 20;
        run(&mut volume, &mut disk, Operation::Reserve { file, size }).unwrap();
        // What is free may have to be counted once.
        assert_eq!(run(&mut volume, &mut disk, Operation::Reserve { file: other, size }), Err(Error::Full));
        let third = open(&mut volume, &mut disk, "c");
        let before = disk.reads;
        for file in [other, other, third] {
            assert_eq!(run(&mut volume, &mut disk, Operation::Reserve { file, size }), Err(Error::Full));
            assert_eq!(disk.reads, before, "counted when it was mounted: {is_counted}");
        }
        let space = free(&mut volume, &mut disk);
        assert_eq!(space, free(&mut mounted(&mut disk), &mut disk));
        // All that is left can be had, but for a cluster for the other one's name, and all of it
        // once that one is closed.
        let left = space - size - BLOCK as u64;
        run(&mut volume, &mut disk, Operation::Reserve { file: other, size: left }).unwrap();
        run(&mut volume, &mut disk, Operation::Close { file }).unwrap();
        run(&mut volume, &mut disk, Operation::Reserve { file: other, size: space }).unwrap();
    }
}

/// Tests that a file for whose data there was space can take its name too, whatever others want
/// meanwhile: its folder has to grow for that by two clusters.
#[test]
fn a_new_file_has_space_for_the_growth_of_its_folder() {
    let mut disk = Disk::large();
    let mut volume = mounted(&mut disk);
    let path = format!("d/{}", "n".repeat(255));
    run(&mut volume, &mut disk, Operation::MakeFolder { path: "d".into() }).unwrap();
    for number in 0..6 {
        // Two entries each, of 16 in a cluster.
        write(&mut volume, &mut disk, &format!("d/f{number}"), b"").unwrap();
    }
    let before = free(&mut volume, &mut disk);
    let content = pattern(1, 8 * BLOCK);
    let (file, _) = opened(&mut volume, &mut disk, Operation::Create { path: path.clone() }).unwrap();
    run(&mut volume, &mut disk, Operation::Reserve { file, size: content.len() as u64 }).unwrap();
    write(&mut volume, &mut disk, "rest", b"").unwrap();
    let (rest, _) = opened(&mut volume, &mut disk, Operation::Append { path: "rest".into() }).unwrap();
    let left = before - content.len() as u64;
    let fits = |clusters: &u64| {
        let size = left - clusters * BLOCK as u64;
        run(&mut volume, &mut disk, Operation::Reserve { file: rest, size }).is_ok()
    };
    assert_eq!((0..8).find(fits), Some(2));
    assert_eq!(run(&mut volume, &mut disk, Operation::MakeFolder { path: "other".into() }), Err(Error::Full));
    write_open(&mut volume, &mut disk, file, 0, &content).unwrap();
    assert!(read(&mut volume, &mut disk, &path).unwrap() == content);
    for file in [file, rest] {
        run(&mut volume, &mut disk, Operation::Close { file }).unwrap();
    }
    assert_eq!(volume.mounted().session.borrow().taken.count(), 0);
    assert_eq!(free(&mut volume, &mut disk), left - 2 * BLOCK as u64);
    run(&mut volume, &mut disk, Operation::Rest).unwrap();
    assert_eq!(disk.complaint(), None);
    assert_eq!(free(&mut mounted(&mut disk), &mut disk), left - 2 * BLOCK as u64);
}

/// Tests that the last cluster is for a file whose name has space where it is to stand.
#[test]
fn a_new_file_takes_all_that_is_free_if_its_folder_has_room() {
    let mut disk = Disk::large();
    let mut volume = mounted(&mut disk);
    let left = free(&mut volume, &mut disk) as usize;
    // A cluster of the root has 16 entries.
    assert_eq!(write(&mut volume, &mut disk, &"n".repeat(255), &vec![1; left]), Err(Error::Full));
    write(&mut volume, &mut disk, "short", &vec![1; left]).unwrap();
    assert_eq!(free(&mut volume, &mut disk), 0);
    run(&mut volume, &mut disk, Operation::Rest).unwrap();
    assert_eq!(disk.complaint(), None);
}

/// Blocks that were written since the record was cleared.
fn written(disk: &Disk) -> usize {
    let bytes = |event: &Event| if let Event::Write { bytes, .. } = event { bytes.len() } else { 0 };
    disk.record.iter().map(bytes).sum::<usize>() / BLOCK
}

#[test]
fn a_long_file_is_removed_in_parts() {
    let mut disk = Disk::large();
    let mut volume = mounted(&mut disk);
    let before = free(&mut volume, &mut disk);
    // Its links take 320 blocks of each copy of the table.
    write(&mut volume, &mut disk, "long", &pattern(1, 20 << 20)).unwrap();
    write(&mut volume, &mut disk, "short", &pattern(2, 3000)).unwrap();
    for act in [Operation::Remove { path: "long".into() }, Operation::Remove { path: "short".into() }] {
        disk.record.clear();
        run(&mut volume, &mut disk, act).unwrap();
        assert!(volume.is_freeing());
        assert!(written(&disk) < 200, "{}", written(&disk));
    }
    disk.record.clear();
    assert_eq!(list(&mut volume, &mut disk, ""), Ok(vec![]));
    assert_eq!(written(&disk), 0, "who changes nothing gives nothing free");
    let mut parts = 0;
    while volume.is_freeing() {
        disk.record.clear();
        run(&mut volume, &mut disk, Operation::Free).unwrap();
        assert!(written(&disk) < 200, "{}", written(&disk));
        parts += 1;
    }
    assert!((3..=12).contains(&parts), "{parts}");
    assert_eq!(free(&mut volume, &mut disk), before);
    run(&mut volume, &mut disk, Operation::Rest).unwrap();
    assert!(volume.is_at_rest());
    assert_eq!(disk.complaint(), None);
}

#[test]
fn space_that_is_not_yet_given_free_is_there() {
    let long = 20 << 20;
    let fill = |volume: &mut Volume, disk: &mut Disk| {
        write(volume, disk, "long", &pattern(1, long)).unwrap();
        let left = free(volume, disk) as usize;
        write(volume, disk, "rest", &vec![0; left]).unwrap();
        run(volume, disk, Operation::Remove { path: "long".into() }).unwrap();
        assert!(volume.is_freeing());
    };
    let mut disk = Disk::large();
    let mut volume = mounted(&mut disk);
    fill(&mut volume, &mut disk);
    write(&mut volume, &mut disk, "other", &pattern(2, long)).unwrap();
    run(&mut volume, &mut disk, Operation::Remove { path: "other".into() }).unwrap();
    assert_eq!(free(&mut volume, &mut disk), long as u64);
    run(&mut volume, &mut disk, Operation::Remove { path: "rest".into() }).unwrap();
    fill(&mut volume, &mut disk);
    run(&mut volume, &mut disk, Operation::MakeFolder { path: "folder".into() }).unwrap();
    run(&mut volume, &mut disk, Operation::Rest).unwrap();
    assert!(volume.is_at_rest() && !volume.is_freeing());
    assert_eq!(disk.complaint(), None);
}

#[test]
fn a_new_name_for_which_its_folder_grows_waits_for_space_too() {
    let mut disk = Disk::large();
    let mut volume = mounted(&mut disk);
    write(&mut volume, &mut disk, "long", &pattern(1, 20 << 20)).unwrap();
    let left = free(&mut volume, &mut disk) as usize;
    write(&mut volume, &mut disk, "rest", &vec![0; left]).unwrap();
    run(&mut volume, &mut disk, Operation::Remove { path: "long".into() }).unwrap();
    // All clusters that the removal has freed so far are promised to another file; the rest are
    // freed later.
    let freed = volume.mounted().free.expect("it was counted");
    let (file, _) = opened(&mut volume, &mut disk, Operation::Create { path: "promised".into() }).unwrap();
    let size = u64::from(freed) * BLOCK as u64;
    run(&mut volume, &mut disk, Operation::Reserve { file, size }).unwrap();
    assert!(volume.is_freeing());
    // One cluster of a folder has 16 entries, and this name takes 17.
    let name = "n".repeat(200);
    write(&mut volume, &mut disk, &name, b"").unwrap();
    assert_eq!(read(&mut volume, &mut disk, &name).unwrap(), b"");
    run(&mut volume, &mut disk, Operation::Close { file }).unwrap();
    run(&mut volume, &mut disk, Operation::Rest).unwrap();
    assert_eq!(disk.complaint(), None);
}

#[test]
fn a_power_cut_while_a_long_file_is_removed_leaves_clusters_that_recovery_gives_free() {
    let mut disk = Disk::large();
    let mut volume = mounted(&mut disk);
    let before = free(&mut volume, &mut disk);
    write(&mut volume, &mut disk, "long", &pattern(1, 20 << 20)).unwrap();
    run(&mut volume, &mut disk, Operation::Remove { path: "long".into() }).unwrap();
    run(&mut volume, &mut disk, Operation::Free).unwrap();
    let mut volume = mounted(&mut disk);
    assert!(volume.is_marked());
    run(&mut volume, &mut disk, Operation::Recover).unwrap();
    assert_eq!(free(&mut volume, &mut disk), before);
    run(&mut volume, &mut disk, Operation::Rest).unwrap();
    assert_eq!(disk.complaint(), None);
}

/// Tests that a file that could not take its name stays without one: its clusters are being given
/// free, and go to other files.
#[test]
fn a_file_that_could_not_be_named_is_not_published_again() {
    let mut disk = Disk::large();
    let mut volume = mounted(&mut disk);
    let before = free(&mut volume, &mut disk);
    run(&mut volume, &mut disk, Operation::MakeFolder { path: "d".into() }).unwrap();
    let (file, _) = opened(&mut volume, &mut disk, Operation::Append { path: "d/x".into() }).unwrap();
    run(&mut volume, &mut disk, Operation::Remove { path: "d".into() }).unwrap();
    // Too long to be given free at once.
    let content = pattern(1, 20 << 20);
    let size = content.len() as u64;
    assert_eq!(write_open(&mut volume, &mut disk, file, 0, &content), Err(Error::NotFound));
    assert!(volume.is_freeing());
    let place = volume.place(file, 0).expect("it is still promised");
    run(&mut volume, &mut disk, Operation::MakeFolder { path: "d".into() }).unwrap();
    assert_eq!(run(&mut volume, &mut disk, Operation::Publish { file, size }), Err(Error::BadFile));
    assert_eq!(run(&mut volume, &mut disk, Operation::Reserve { file, size: size + 1 }), Err(Error::BadFile));
    assert_eq!(list(&mut volume, &mut disk, "d"), Ok(vec![]));
    // Writes of its data that are late reach no other file.
    write(&mut volume, &mut disk, "other", &vec![b'o'; 9 << 20]).unwrap();
    assert_eq!(volume.place(file, 0), Some(place));
    disk.write(place.block, &[b'x'; BLOCK]);
    assert!(read(&mut volume, &mut disk, "other").unwrap() == vec![b'o'; 9 << 20]);
    run(&mut volume, &mut disk, Operation::Close { file }).unwrap();
    write(&mut volume, &mut disk, "third", &vec![b't'; 9 << 20]).unwrap();
    run(&mut volume, &mut disk, Operation::Rest).unwrap();
    assert!(volume.is_at_rest());
    assert_eq!(disk.complaint(), None);
    assert!(read(&mut volume, &mut disk, "third").unwrap() == vec![b't'; 9 << 20]);
    for path in ["other", "third", "d"] {
        run(&mut volume, &mut disk, Operation::Remove { path: path.into() }).unwrap();
    }
    assert_eq!(free(&mut volume, &mut disk), before);
    assert_eq!(volume.mounted().session.borrow().taken.count(), 0);
}

/// Tests the same of names for which there is no space, or which a folder has taken meanwhile.
#[test]
fn whatever_keeps_a_file_from_its_name_it_stays_without_one() {
    let mut disk = Disk::formatted(60_000, &["-F", "16", "-s", "1", "-r", "16"]);
    let mut volume = mounted(&mut disk);
    let before = free(&mut volume, &mut disk);
    for number in 0..7 {
        write(&mut volume, &mut disk, &format!("F{number}"), b"").unwrap();
    }
    let content = pattern(1, 9000 * BLOCK);
    let size = content.len() as u64;
    for (path, wanted) in [("A LONG NAME OF A FILE", Error::FolderFull), ("X", Error::Busy), ("Y", Error::IsAFolder)] {
        let (file, _) = opened(&mut volume, &mut disk, Operation::Create { path: path.into() }).unwrap();
        let other = match wanted {
            Error::Busy => {
                write(&mut volume, &mut disk, path, b"").unwrap();
                Some(opened(&mut volume, &mut disk, Operation::Append { path: path.into() }).unwrap().0)
            }
            Error::IsAFolder => {
                run(&mut volume, &mut disk, Operation::MakeFolder { path: path.into() }).unwrap();
                None
            }
            _ => None,
        };
        assert_eq!(write_open(&mut volume, &mut disk, file, 0, &content), Err(wanted));
        assert!(volume.is_freeing());
        if let Some(file) = other {
            run(&mut volume, &mut disk, Operation::Close { file }).unwrap();
        }
        for path in ["F0", "F1", "F2", "X", "Y"] {
            let _ = run(&mut volume, &mut disk, Operation::Remove { path: path.into() });
        }
        assert_eq!(run(&mut volume, &mut disk, Operation::Publish { file, size }), Err(Error::BadFile));
        run(&mut volume, &mut disk, Operation::Close { file }).unwrap();
        write(&mut volume, &mut disk, "G", &content).unwrap();
        run(&mut volume, &mut disk, Operation::Rest).unwrap();
        assert_eq!(disk.complaint(), None);
        assert!(read(&mut volume, &mut disk, "G").unwrap() == content);
        run(&mut volume, &mut disk, Operation::Remove { path: "G".into() }).unwrap();
        assert_eq!(free(&mut volume, &mut disk), before);
    }
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

#[test]
fn a_folder_grows_into_free_space_that_is_farther_away_than_the_cache_is_long() {
    // Links that fill more blocks of the table than the cache holds.
    let far = 260 * 128;
    let mut disk = Disk::large();
    set_links(&mut disk, 1000..1000 + 2 * far, END);
    set_links(&mut disk, [1000, 1000 + far, 1001 + 2 * far], 0);
    let mut volume = Volume::new(Options { blocks: 34 << 11, granule: 0, cache_blocks: 256, read_only: false });
    run(&mut volume, &mut disk, Operation::Mount).unwrap();
    // All that is free before: the next three clusters are far from each other.
    write(&mut volume, &mut disk, "fill", &vec![1; 997 * BLOCK]).unwrap();
    for number in 0..5 {
        write(&mut volume, &mut disk, &format!("f{number}"), b"").unwrap();
    }
    // The root needs two clusters more for the name, and the folder has one.
    let long = "n".repeat(255);
    run(&mut volume, &mut disk, Operation::MakeFolder { path: long.clone() }).unwrap();
    assert_eq!(list(&mut volume, &mut disk, &long), Ok(vec![]));
    assert_eq!(list(&mut volume, &mut disk, "").unwrap().len(), 7);
}
