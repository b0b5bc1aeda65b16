//! Damaged media, and caches that are small.

use super::*;
use crate::Recovered;
use crate::entry::MOVED;
use crate::recover::room;
use crate::table::END;

/// Random numbers.
struct Chance(u64);

impl Chance {
    fn next(&mut self, below: usize) -> usize {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) as usize % below
    }
}

/// A volume with some files and folders.
fn filled(mut disk: Disk) -> Disk {
    let mut volume = mounted(&mut disk);
    for path in ["folder", "folder/a folder with a long name"] {
        run(&mut volume, &mut disk, Operation::MakeFolder { path: path.into() }).unwrap();
    }
    for index in 0..12 {
        let path = format!("folder/a file with a long name {index}.text");
        write(&mut volume, &mut disk, &path, &pattern(index, 900 * index as usize)).unwrap();
    }
    write(&mut volume, &mut disk, "folder/a folder with a long name/x", &pattern(1, 100)).unwrap();
    run(&mut volume, &mut disk, Operation::Rest).unwrap();
    disk
}

/// Carries out operations on a damaged volume: each ends.
fn poke(disk: &mut Disk, chance: &mut Chance) {
    let blocks = (disk.bytes.len() / BLOCK) as u64;
    let granule = if chance.next(3) == 0 { 3 } else { 0 };
    let mut volume = Volume::new(Options { blocks, granule, cache_blocks: 512, read_only: false });
    if run(&mut volume, disk, Operation::Mount).is_err() {
        return;
    }
    let mut files = Vec::new();
    for _ in 0..16 {
        let path = |chance: &mut Chance| match chance.next(5) {
            0 => "folder".into(),
            1 => "folder/a folder with a long name/x".into(),
            2 => "folder/a folder with a long name".into(),
            3 => format!("folder/é{}", chance.next(9)),
            _ => format!("folder/a file with a long name {}.text", chance.next(13)),
        };
        let file = files.get(chance.next(4)).copied();
        let size = 1 << chance.next(20);
        let operation = match (chance.next(14), file) {
            (0, _) => Operation::Find { path: path(chance) },
            (1, _) => Operation::Open { path: path(chance) },
            (2, _) => Operation::Create { path: path(chance) },
            (3, _) => Operation::Append { path: path(chance) },
            (4, Some(file)) => Operation::Locate { file, offset: size },
            (5, Some(file)) => Operation::Reserve { file, size },
            (6, Some(file)) => Operation::Publish { file, size },
            (7, Some(file)) => Operation::Close { file },
            (8, _) => Operation::MakeFolder { path: path(chance) },
            (9, _) => Operation::Remove { path: path(chance) },
            (10, _) => Operation::Rename { from: path(chance), to: path(chance), replace: true },
            (11, _) => Operation::Recover,
            (12, _) => Operation::Free,
            _ => Operation::List { path: path(chance), from: 0, most: 100 },
        };
        match run(&mut volume, disk, operation) {
            Ok(Answer::Opened { file, .. }) => files.push(file),
            Ok(Answer::Located(Some(place))) => {
                assert!(place.block * BLOCK as u64 + u64::from(place.offset) + place.bytes <= blocks * BLOCK as u64);
            }
            _ => {}
        }
    }
}

#[test]
fn on_a_damaged_volume_every_operation_ends() {
    let rounds = std::env::var("CULM_FAT_ROUNDS").ok().and_then(|rounds| rounds.parse().ok()).unwrap_or(2);
    let whole = filled(Disk::small());
    // The boot sector, the tables, the root folder, and the clusters that are in use.
    let places: Vec<usize> = (0..whole.bytes.len() / BLOCK)
        .filter(|block| whole.bytes[block * BLOCK..][..BLOCK].iter().any(|byte| *byte != 0))
        .collect();
    let mut chance = Chance(7);
    for _ in 0..rounds * 200 {
        let mut disk = Disk::new(whole.bytes.clone());
        for _ in 0..=chance.next(6) {
            let place = places[chance.next(places.len().min(60))];
            // Boot sectors that are none are dull.
            let at = if place == 0 { 11 + chance.next(40) } else { chance.next(256) * 2 };
            for offset in 0..=chance.next(4) {
                let value = if chance.next(2) == 0 { chance.next(256) } else { chance.next(6) };
                disk.bytes[place * BLOCK + (at + offset).min(BLOCK - 1)] = value as u8;
            }
        }
        poke(&mut disk, &mut chance);
    }
}

#[test]
fn a_chain_that_runs_in_a_circle_is_found_after_as_many_clusters_as_there_are() {
    let mut disk = filled(Disk::small());
    let mut volume = mounted(&mut disk);
    let path = "folder/a file with a long name 11.text";
    let (file, size) = opened(&mut volume, &mut disk, Operation::Open { path: path.into() }).unwrap();
    assert_eq!(read_open(&mut volume, &mut disk, file, size).map(|content| content.len()), Ok(9900));
    // The last link of the table that follows another names the cluster before it.
    let first = usize::from(disk.bytes[14]) * BLOCK;
    let link =
        |cluster: usize| usize::from(u16::from_le_bytes([0, 1].map(|byte| disk.bytes[first + cluster * 2 + byte])));
    let follows = |cluster: &usize| link(*cluster) == cluster + 1 && link(cluster - 1) == *cluster;
    let cluster = (3..4000).rev().find(follows).expect("a chain of three");
    disk.bytes[first + cluster * 2..][..2].copy_from_slice(&(cluster as u16 - 1).to_le_bytes());
    let mut volume = mounted(&mut disk);
    assert_eq!(append(&mut volume, &mut disk, path, b"x"), Err(Error::Corrupt));
}

#[test]
fn a_file_may_be_much_longer_than_the_cache() {
    let mut disk = Disk::large();
    let mut volume = Volume::new(Options { blocks: 34 << 11, granule: 0, cache_blocks: 256, read_only: false });
    run(&mut volume, &mut disk, Operation::Mount).unwrap();
    // Clusters of 512 bytes: the links of 20 MiB take 320 blocks.
    let content = pattern(5, 20 << 20);
    write(&mut volume, &mut disk, "short", &pattern(6, 3000)).unwrap();
    write(&mut volume, &mut disk, "long", &content).unwrap();
    assert!(read(&mut volume, &mut disk, "long").unwrap() == content);
    run(&mut volume, &mut disk, Operation::Remove { path: "short".into() }).unwrap();
    append(&mut volume, &mut disk, "long", &pattern(7, 5000)).unwrap();
    assert_eq!(write(&mut volume, &mut disk, "other", &content), Err(Error::Full));
    let (file, size) = opened(&mut volume, &mut disk, Operation::Open { path: "long".into() }).unwrap();
    run(&mut volume, &mut disk, Operation::Remove { path: "long".into() }).unwrap();
    assert!(read_open(&mut volume, &mut disk, file, size).unwrap() == [content, pattern(7, 5000)].concat());
    let free = |answer| match answer {
        Ok(Answer::Counted(space)) => space.free,
        other => panic!("{other:?}"),
    };
    let before = free(run(&mut volume, &mut disk, Operation::Count));
    run(&mut volume, &mut disk, Operation::Close { file }).unwrap();
    let after = free(run(&mut volume, &mut disk, Operation::Count));
    assert_eq!(after - before, size.next_multiple_of(512));
    let recovered = run(&mut volume, &mut disk, Operation::Recover);
    assert_eq!(recovered, Ok(Answer::Recovered(Recovered { is_whole: true, ..Recovered::default() })));
    run(&mut volume, &mut disk, Operation::Rest).unwrap();
    assert_eq!(disk.complaint(), None);
}

#[test]
fn a_folder_that_is_longer_than_the_cache_is_refused() {
    let mut disk = Disk::large();
    let mut volume = mounted(&mut disk);
    with_long_folder(&mut volume, &mut disk, 6400);
    for (cache_blocks, wanted) in [(256, Error::FolderTooLong), (1024, Error::NotFound)] {
        let mut volume = Volume::new(Options { blocks: 34 << 11, granule: 0, cache_blocks, read_only: false });
        run(&mut volume, &mut disk, Operation::Mount).unwrap();
        assert_eq!(read(&mut volume, &mut disk, "f/xxxxxxxx.xxx"), Ok(vec![]));
        let made = run(&mut volume, &mut disk, Operation::Remove { path: "f/none".into() });
        assert_eq!(made, Err(wanted), "{cache_blocks}");
        assert_eq!(read(&mut volume, &mut disk, "f/none"), Err(wanted), "{cache_blocks}");
    }
}

/// Returns the disk as it is after each write while a file of this content goes to another folder.
fn renamed(mut disk: Disk, content: &[u8]) -> Vec<Disk> {
    let mut volume = mounted(&mut disk);
    run(&mut volume, &mut disk, Operation::MakeFolder { path: "folder".into() }).unwrap();
    write(&mut volume, &mut disk, "a file", content).unwrap();
    disk.record.clear();
    let mut after = Disk::new(disk.bytes.clone());
    let (from, to) = ("a file".into(), "folder/another name of the file".into());
    run(&mut volume, &mut disk, Operation::Rename { from, to, replace: false }).unwrap();
    let mut disks = Vec::new();
    for event in &disk.record {
        if let Event::Write { block, bytes } = event {
            after.write(*block, bytes);
            disks.push(Disk::new(after.bytes.clone()));
        }
    }
    disks
}

/// The memory that a recovery of this disk asks for at once: the sets, and what it needs besides.
fn memory_for_recovery(disk: &Disk) -> usize {
    let mut disk = Disk::new(disk.bytes.clone());
    room::limit(1 << 30);
    run(&mut mounted(&mut disk), &mut disk, Operation::Recover).unwrap();
    (1 << 30) - room::least()
}

/// A medium may have a size at which its sets of clusters leave nothing of the memory.
#[test]
fn recovery_changes_nothing_if_it_could_run_out_of_memory() {
    for disk in renamed(Disk::small(), &pattern(1, 3000)) {
        let needed = memory_for_recovery(&disk);
        assert!(needed > 2048 * BLOCK, "the cache can fill: {needed}");
        for (memory, is_whole) in [(needed, true), (needed - 1, false)] {
            let mut disk = Disk::new(disk.bytes.clone());
            room::limit(memory);
            let mut volume = mounted(&mut disk);
            let recovered = run(&mut volume, &mut disk, Operation::Recover);
            let Ok(Answer::Recovered(recovered)) = recovered else { panic!("{recovered:?}") };
            assert_eq!(recovered.is_whole, is_whole);
            if !is_whole {
                assert!(disk.record.is_empty());
                continue;
            }
            let inside = list(&mut volume, &mut disk, "folder").unwrap();
            let path = inside.first().map_or("a file".into(), |name| format!("folder/{name}"));
            assert_eq!(list(&mut volume, &mut disk, "").unwrap().len(), 2 - inside.len());
            assert!(read(&mut volume, &mut disk, &path).unwrap() == pattern(1, 3000));
            run(&mut volume, &mut disk, Operation::Rest).unwrap();
            assert_eq!(disk.complaint(), None);
        }
    }
}

#[test]
fn a_table_that_cannot_be_read_costs_its_chain_and_nothing_else() {
    for broken in 0..2 {
        let mut disk = Disk::small();
        let mut volume = mounted(&mut disk);
        write(&mut volume, &mut disk, "long", &pattern(1, 400 * 512)).unwrap();
        write(&mut volume, &mut disk, "other", &pattern(2, 5000)).unwrap();
        run(&mut volume, &mut disk, Operation::Rest).unwrap();
        // Nothing of the table is in memory.
        let mut volume = mounted(&mut disk);
        disk.broken = Some(u64::from(disk.bytes[14]) + broken);
        assert_eq!(
            run(&mut volume, &mut disk, Operation::Remove { path: "long".into() }),
            Ok(Answer::Done),
            "{broken}"
        );
        let found = run(&mut volume, &mut disk, Operation::Find { path: "other".into() });
        assert!(matches!(found, Ok(Answer::Found(_))), "{broken}: {found:?}");
        assert_eq!(list(&mut volume, &mut disk, ""), Ok(vec!["other".into()]));
        // The volume stays marked, so that it is recovered when the table can be read.
        run(&mut volume, &mut disk, Operation::Rest).unwrap();
        disk.broken = None;
        let mut volume = mounted(&mut disk);
        assert!(volume.is_marked());
        let recovered = run(&mut volume, &mut disk, Operation::Recover);
        let Ok(Answer::Recovered(recovered)) = recovered else { panic!("{recovered:?}") };
        assert!(recovered.is_whole && recovered.freed > 0, "{recovered:?}");
        run(&mut volume, &mut disk, Operation::Rest).unwrap();
        assert_eq!(disk.complaint(), None);
    }
}

#[test]
fn a_new_folder_is_empty_also_on_the_medium() {
    let mut disk = Disk::formatted(40_000, &["-F", "16", "-s", "4", "-r", "64"]);
    let mut volume = mounted(&mut disk);
    // Has the search for free clusters come round to the one before.
    let wrap = |volume: &mut Volume, disk: &mut Disk| {
        let (file, _) = opened(volume, disk, Operation::Create { path: "wrap".into() }).unwrap();
        let Ok(Answer::Counted(space)) = run(volume, disk, Operation::Count) else { panic!("no space") };
        run(volume, disk, Operation::Reserve { file, size: space.free - u64::from(space.cluster) }).unwrap();
        run(volume, disk, Operation::Close { file }).unwrap();
    };
    run(&mut volume, &mut disk, Operation::MakeFolder { path: "f".into() }).unwrap();
    run(&mut volume, &mut disk, Operation::Remove { path: "f".into() }).unwrap();
    wrap(&mut volume, &mut disk);
    // The folder's cluster becomes a file's, and in it are what would be entries.
    let mut forged = vec![0; 2048];
    for (index, entry) in forged.chunks_mut(BLOCK).enumerate() {
        entry[..11].copy_from_slice(b"SECRET  BIN");
        entry[0] = b'A' + index as u8;
        entry[11] = 0x20;
    }
    write(&mut volume, &mut disk, "data", &forged).unwrap();
    let at = disk.bytes.windows(11).position(|bytes| bytes == b"AECRET  BIN").expect("the data");
    run(&mut volume, &mut disk, Operation::Remove { path: "data".into() }).unwrap();
    wrap(&mut volume, &mut disk);
    run(&mut volume, &mut disk, Operation::MakeFolder { path: "f".into() }).unwrap();
    assert_eq!(&disk.bytes[at..at + 11], b".          ", "the same cluster");
    assert!(disk.bytes[at + 64..at + 2048].iter().all(|byte| *byte == 0));
    run(&mut volume, &mut disk, Operation::Rest).unwrap();
    assert_eq!(list(&mut mounted(&mut disk), &mut disk, "f"), Ok(vec![]));
    assert_eq!(disk.complaint(), None);
}

#[test]
fn two_names_of_a_file_that_no_move_has_made_stay() {
    let mut disk = Disk::small();
    let mut volume = mounted(&mut disk);
    write(&mut volume, &mut disk, "a", &pattern(1, 500)).unwrap();
    write(&mut volume, &mut disk, "b", &pattern(2, 50_000)).unwrap();
    run(&mut volume, &mut disk, Operation::Sync).unwrap();
    let place = |disk: &Disk, name: &[u8]| disk.bytes.windows(11).position(|bytes| bytes == name).expect("an entry");
    let (a, b) = (place(&disk, b"A          "), place(&disk, b"B          "));
    disk.bytes.copy_within(b + 26..b + 28, a + 26);
    for moved in [None, Some(a), Some(b)] {
        let mut disk = Disk::new(disk.bytes.clone());
        if let Some(at) = moved {
            // Another one names the clusters: three names are no move's either.
            disk.bytes[at + 12] |= MOVED;
            let third = disk.bytes[b..b + 32].to_vec();
            let free = b + 32;
            assert_eq!(disk.bytes[free], 0);
            disk.bytes[free..free + 32].copy_from_slice(&third);
            disk.bytes[free] = b'C';
            disk.bytes[free + 12] &= !MOVED;
        }
        let before = disk.bytes.clone();
        let mut volume = mounted(&mut disk);
        let recovered = run(&mut volume, &mut disk, Operation::Recover);
        assert_eq!(recovered, Ok(Answer::Recovered(Recovered::default())), "{moved:?}");
        assert!(disk.bytes == before, "{moved:?}");
    }
}

#[test]
fn a_cut_during_recovery_leaves_what_can_be_recovered() {
    for mut disk in renamed(Disk::small(), &pattern(1, 3000)) {
        let before = disk.bytes.clone();
        disk.record.clear();
        let mut volume = mounted(&mut disk);
        run(&mut volume, &mut disk, Operation::Recover).unwrap();
        // Of the writes that follow a flush, any may be lost.
        let mut durable = before;
        for writes in disk.record.split(|event| matches!(event, Event::Flush)) {
            assert!(writes.len() < 10);
            for chosen in 0..1_u32 << writes.len() {
                let mut after = Disk::new(durable.clone());
                for (index, event) in writes.iter().enumerate() {
                    if let (true, Event::Write { block, bytes }) = (chosen >> index & 1 != 0, event) {
                        after.write(*block, bytes);
                    }
                }
                let mut volume = mounted(&mut after);
                let recovered = run(&mut volume, &mut after, Operation::Recover);
                let is_whole = matches!(recovered, Ok(Answer::Recovered(Recovered { is_whole: true, .. })));
                assert!(is_whole, "{recovered:?}");
                let inside = list(&mut volume, &mut after, "folder").unwrap();
                assert_eq!(list(&mut volume, &mut after, "").unwrap().len(), 2 - inside.len());
                run(&mut volume, &mut after, Operation::Rest).unwrap();
                assert_eq!(after.complaint(), None);
            }
            for event in writes {
                if let Event::Write { block, bytes } = event {
                    let at = *block as usize * BLOCK;
                    durable[at..at + bytes.len()].copy_from_slice(bytes);
                }
            }
        }
    }
}

#[test]
fn free_space_is_counted_right_after_a_recovery_that_repairs_nothing() {
    let mut disk = Disk::small();
    let mut volume = mounted(&mut disk);
    run(&mut volume, &mut disk, Operation::Recover).unwrap();
    run(&mut volume, &mut disk, Operation::Recover).unwrap();
    write(&mut volume, &mut disk, "a", &pattern(1, 50_000)).unwrap();
    let counted = run(&mut volume, &mut disk, Operation::Count);
    assert_eq!(counted, run(&mut mounted(&mut disk), &mut disk, Operation::Count));
}

#[test]
fn free_space_that_recovery_has_counted_is_not_counted_again() {
    let mut disk = Disk::large();
    // The table has 540 blocks.
    let mut volume = Volume::new(Options { blocks: 34 << 11, granule: 0, cache_blocks: 256, read_only: false });
    run(&mut volume, &mut disk, Operation::Mount).unwrap();
    run(&mut volume, &mut disk, Operation::Recover).unwrap();
    let (file, _) = opened(&mut volume, &mut disk, Operation::Create { path: "a".into() }).unwrap();
    let before = disk.reads;
    assert_eq!(run(&mut volume, &mut disk, Operation::Reserve { file, size: 35 << 20 }), Err(Error::Full));
    assert_eq!(disk.reads, before);
}

#[test]
fn a_count_that_has_failed_begins_again() {
    let mut disk = Disk::large();
    let mut volume = mounted(&mut disk);
    write(&mut volume, &mut disk, "a", &pattern(1, 50_000)).unwrap();
    run(&mut volume, &mut disk, Operation::Sync).unwrap();
    // The count is not known when the volume is mounted with its mark.
    let mut volume = mounted(&mut disk);
    let table = u64::from(disk.bytes[14]);
    disk.broken = Some(table + 400);
    assert_eq!(run(&mut volume, &mut disk, Operation::Count), Err(Error::Failed));
    disk.broken = None;
    // This gives clusters free that the count has passed.
    run(&mut volume, &mut disk, Operation::Remove { path: "a".into() }).unwrap();
    let counted = run(&mut volume, &mut disk, Operation::Count);
    assert_eq!(counted, run(&mut mounted(&mut disk), &mut disk, Operation::Count));
}

#[test]
fn an_empty_file_that_was_moved_does_not_say_so_for_ever() {
    for mut disk in renamed(Disk::small(), b"") {
        let mut volume = mounted(&mut disk);
        let recovered = run(&mut volume, &mut disk, Operation::Recover);
        assert!(matches!(recovered, Ok(Answer::Recovered(Recovered { is_whole: true, .. }))), "{recovered:?}");
        // The long name, before the short one, begins so.
        let name = [b'a', 0, b'n', 0, b'o', 0, b't', 0];
        let entries = disk.bytes.chunks(32).zip(disk.bytes.chunks(32).skip(1));
        let moved = entries.filter(|(long, short)| long[1..].starts_with(&name) && short[12] & MOVED != 0);
        assert_eq!(moved.count(), 0);
    }
}

#[test]
fn a_volume_with_more_to_repair_than_fits_the_cache_can_be_used() {
    // The cache has 128 units of 1024 bytes, in each of which are 256 links.
    let mut disk = Disk { unit: 1024, ..Disk::formatted(68 << 11, &["-F", "32", "-s", "2"]) };
    let mount = |disk: &mut Disk| {
        let mut volume = Volume::new(Options { blocks: 68 << 11, granule: 1, cache_blocks: 256, read_only: false });
        run(&mut volume, disk, Operation::Mount).map(|_| volume).unwrap()
    };
    let mut volume = mount(&mut disk);
    for number in 0..64 {
        write(&mut volume, &mut disk, &format!("F{number}"), b"content").unwrap();
    }
    // Each chain is longer than its file, and each in other units of the table's two copies.
    let number = |at: usize| u32::from_le_bytes(disk.bytes[at..at + 4].try_into().unwrap()) as usize;
    let (table, length) = (usize::from(disk.bytes[14]) * BLOCK, number(36) * BLOCK);
    for file in 0..64 {
        let name = format!("{:11}\x20", format!("F{file}"));
        let entry = disk.bytes.windows(12).position(|bytes| bytes == name.as_bytes()).expect("the entry");
        let first = (file + 1) * 1024_u32;
        disk.bytes[entry + 26..entry + 28].copy_from_slice(&(first as u16).to_le_bytes());
        disk.bytes[entry + 20..entry + 22].copy_from_slice(&((first >> 16) as u16).to_le_bytes());
        for at in [table, table + length].map(|table| table + first as usize * 4) {
            disk.bytes[at..at + 4].copy_from_slice(&(first + 1).to_le_bytes());
            disk.bytes[at + 4..at + 8].copy_from_slice(&END.to_le_bytes());
        }
    }
    // A part of a long name that has lost its short one.
    let entry = disk.bytes.windows(12).position(|bytes| bytes == b"F0         \x20").expect("the entry");
    disk.bytes[entry] = b'G';
    let before = disk.bytes.clone();
    let mut volume = mount(&mut disk);
    let recovered = run(&mut volume, &mut disk, Operation::Recover);
    assert_eq!(recovered, Ok(Answer::Recovered(Recovered::default())));
    assert!(disk.bytes == before && volume.is_marked());
    assert_eq!(list(&mut volume, &mut disk, "").map(|names| names.len()), Ok(64));
}

/// Returns an unrecovered volume with folders of a cluster each in the root's folder `F`, side by
/// side or within each other, and a cluster that nothing names.
fn with_folders(count: u32, is_deep: bool) -> Disk {
    let mut disk = Disk::large();
    let number = |at: usize| u32::from_le_bytes(disk.bytes[at..at + 4].try_into().unwrap());
    let (table, length) = (u32::from(disk.bytes[14]), number(36));
    let entry = |name: &str, first: u32| {
        let mut entry = [0; 32];
        entry[..11].copy_from_slice(format!("{name:11}").as_bytes());
        entry[11] = 0x10;
        let [low, high] = [first as u16, (first >> 16) as u16].map(u16::to_le_bytes);
        entry[20..22].copy_from_slice(&high);
        entry[26..28].copy_from_slice(&low);
        entry
    };
    let per_cluster = BLOCK as u32 / 32;
    // `F` begins at cluster 3, behind the root, and has all the entries if nothing is deep.
    let own = if is_deep { 1 } else { (count + 2).div_ceil(per_cluster) };
    let first = |folder: u32| 3 + own + folder;
    let mut put = |cluster: u32, index: u32, entry: [u8; 32]| {
        let at = (table + 2 * length + cluster - 2 + index / per_cluster) as usize * BLOCK;
        let at = at + (index % per_cluster) as usize * 32;
        disk.bytes[at..at + 32].copy_from_slice(&entry);
    };
    put(2, 0, entry("F", 3));
    put(3, 0, entry(".", 3));
    put(3, 1, entry("..", 0));
    for folder in 0..count {
        let parent = if is_deep && folder > 0 { first(folder - 1) } else { 3 };
        put(parent, if is_deep { 2 } else { folder + 2 }, entry(&format!("F{folder}"), first(folder)));
        put(first(folder), 0, entry(".", first(folder)));
        put(first(folder), 1, entry("..", parent));
    }
    // The last one is nobody's.
    for cluster in 3..=first(count) {
        let link = if cluster < 2 + own { cluster + 1 } else { END };
        for table in [table, table + length] {
            let at = table as usize * BLOCK + cluster as usize * 4;
            disk.bytes[at..at + 4].copy_from_slice(&link.to_le_bytes());
        }
    }
    // The mark of a volume that is being written (Microsoft, FAT specification 1.03, section 3.3).
    disk.bytes[65] |= 1;
    disk
}

#[test]
fn recovery_walks_as_many_folders_as_there_are() {
    for (count, is_deep, is_whole) in [(20_000, false, true), (2000, true, true), (3000, true, false)] {
        let mut disk = with_folders(count, is_deep);
        let before = disk.bytes.clone();
        let mut volume = mounted(&mut disk);
        assert!(volume.is_marked());
        let recovered = run(&mut volume, &mut disk, Operation::Recover);
        let freed = u32::from(is_whole);
        assert_eq!(recovered, Ok(Answer::Recovered(Recovered { is_whole, freed, ..Recovered::default() })), "{count}");
        if is_whole {
            run(&mut volume, &mut disk, Operation::Rest).unwrap();
            assert_eq!(disk.complaint(), None, "{count}");
        } else {
            assert!(disk.bytes == before && volume.is_marked());
        }
    }
}

#[test]
fn a_volume_with_open_files_is_not_recovered() {
    let mut disk = Disk::small();
    let mut volume = mounted(&mut disk);
    write(&mut volume, &mut disk, "a", &pattern(1, 5000)).unwrap();
    let (file, size) = opened(&mut volume, &mut disk, Operation::Open { path: "a".into() }).unwrap();
    run(&mut volume, &mut disk, Operation::Remove { path: "a".into() }).unwrap();
    assert_eq!(run(&mut volume, &mut disk, Operation::Recover), Err(Error::NotReady));
    assert!(read_open(&mut volume, &mut disk, file, size).unwrap() == pattern(1, 5000));
    run(&mut volume, &mut disk, Operation::Close { file }).unwrap();
    assert!(matches!(run(&mut volume, &mut disk, Operation::Recover), Ok(Answer::Recovered(_))));
}

/// Makes a folder `f` that has so many entries, all in use, of which only the first can be found.
fn with_long_folder(volume: &mut Volume, disk: &mut Disk, entries: usize) {
    // A file full of entries of one name is made a folder.
    let mut content = vec![b'X'; entries * 32];
    content[11..32].fill(0);
    write(volume, disk, "f", &content).unwrap();
    let entry = disk.bytes.windows(12).position(|bytes| bytes == b"F          \x20").expect("the entry");
    disk.bytes[entry + 11] = 0x10;
    disk.bytes[entry + 28..entry + 32].fill(0);
}

#[test]
fn a_folder_does_not_grow_beyond_what_can_be_read() {
    let mut disk = Disk::large();
    let mut volume = mounted(&mut disk);
    let most = crate::MAX_FOLDER_ENTRIES as usize;
    with_long_folder(&mut volume, &mut disk, most - BLOCK / 32);
    let mut volume = Volume::new(Options { blocks: 34 << 11, granule: 0, cache_blocks: 8192, read_only: false });
    run(&mut volume, &mut disk, Operation::Mount).unwrap();
    // The one needs two clusters, the other one; there is one.
    let long = format!("f/{}", "n".repeat(255));
    assert_eq!(write(&mut volume, &mut disk, &long, b""), Err(Error::FolderFull));
    assert_eq!(write(&mut volume, &mut disk, "f/short", b"content"), Ok(()));
    assert_eq!(read(&mut volume, &mut disk, "f/short"), Ok(b"content".to_vec()));
}

#[test]
fn a_count_of_free_clusters_that_is_too_low_keeps_nobody_from_writing() {
    let mut disk = Disk::large();
    disk.bytes[BLOCK + 488..BLOCK + 492].copy_from_slice(&1_u32.to_le_bytes());
    let mut volume = mounted(&mut disk);
    write(&mut volume, &mut disk, "a", &pattern(1, 5000)).unwrap();
    let count = run(&mut volume, &mut disk, Operation::Count);
    assert!(matches!(count, Ok(Answer::Counted(space)) if space.free > 30 << 20), "{count:?}");
    assert_eq!(write(&mut volume, &mut disk, "b", &pattern(1, 35 << 20)), Err(Error::Full));
    run(&mut volume, &mut disk, Operation::Rest).unwrap();
    assert_eq!(disk.complaint(), None);
}

#[test]
fn a_table_whose_bits_are_too_many_for_32_bits_is_refused() {
    let boot = |sectors: u32| {
        let mut boot = Disk::large().bytes[..BLOCK].to_vec();
        boot[36..40].copy_from_slice(&sectors.to_le_bytes());
        boot[32..36].copy_from_slice(&(4_u32 << 20).to_le_bytes());
        crate::geometry::Geometry::parse(&boot, 1 << 40, BLOCK as u32).map(|_| ())
    };
    assert_eq!(boot((1 << 20) - 1), Ok(()));
    assert_eq!(boot(1 << 20), Err(crate::NotFat::BadField));
}
