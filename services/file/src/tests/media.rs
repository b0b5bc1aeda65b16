//! Disks that fail, change, or cannot be used.

use super::*;
use culm::testing::{observe, trouble};

#[test]
fn a_disk_with_larger_blocks_is_used() {
    let image = Image::formatted("8");
    image.run(program("mkfs.fat").args(["-F", "16", "-S", "4096", "-s", "1"]).arg(&image.file));
    let mut world = World::on(&image, &[("/", true)], Disk { granule: 3, ..Disk::new(BLOCKS, 1) });
    let content = pattern(50_001, 4);
    world.put(0, "/file", &content, 3000).expect("there is space");
    assert!(world.read_all(0, "/file") == content);
    let (file, _) = world.open(0, "/file", Mode::Read).expect("it is there");
    assert!(world.read(0, file, 5000, 40_000).expect("it is read") == content[5000..45_000]);
    world.rest();
    world.image();
}

#[test]
fn a_disk_that_fails_is_tried_again() {
    let image = Image::formatted("4");
    image.put("/file", &pattern(50_000, 4));
    let mut world = World::new(&image, &[("/", true)]);
    let (file, _) = world.open(0, "/file", Mode::Read).expect("it is there");
    world.disk.failing = Some(culm_block::Error::Failed);
    assert_eq!(world.read(0, file, 0, 1000), Err(Error::Failed));
    let sent = world.clients[0].make_folder("/folder", 7);
    assert_eq!(world.outcome(sent), Err(Error::Failed));
    world.disk.failing = None;
    // Those were reads; the next one is a write, after which the volume is another one.
    let sent = world.clients[0].make_folder("/folder", 7);
    assert_eq!(world.outcome(sent), Ok(Done::NOTHING));
    assert!(world.read(0, file, 0, 1000).is_ok());
    world.disk.failing = Some(culm_block::Error::Failed);
    let sent = world.clients[0].make_folder("/other", 7);
    assert_eq!(world.outcome(sent), Err(Error::Failed));
    world.disk.failing = None;
    world.rest();
    assert_eq!(world.read(0, file, 0, 1000), Err(Error::Changed));
    assert!(world.read_all(0, "/file") == pattern(50_000, 4));
}

#[test]
fn another_medium_ends_what_was_open() {
    let image = Image::formatted("4");
    image.put("/file", &pattern(50_000, 4));
    let mut world = World::new(&image, &[("/", true)]);
    let (file, _) = world.open(0, "/file", Mode::Read).expect("it is there");
    world.disk.insert(Disk::ABSENT);
    assert_eq!(world.run(), []);
    assert_eq!(world.read(0, file, 0, 1000), Err(Error::Absent));
    world.disk.insert(Disk::new(BLOCKS, 2));
    assert_eq!(world.run(), []);
    assert_eq!(world.clients[0].volume().and_then(|volume| volume.fault), Some(Error::Damaged));
}

/// Makes a volume with `/good/file` and `/bad/MARKER.TXT`; returns the block of the folder `/bad`.
fn two_folders() -> (Image, u64) {
    let image = Image::formatted("4");
    image.make_folder("/good");
    image.make_folder("/bad");
    image.put("/good/file", &pattern(50_000, 4));
    image.put("/bad/MARKER.TXT", b"text");
    let bytes = std::fs::read(&image.file).expect("the image is there");
    let entry = bytes.chunks(32).position(|entry| entry.starts_with(b"MARKER  TXT")).expect("the entry");
    (image, (entry * 32 / BLOCK) as u64)
}

/// Tests that a folder that cannot be read is the end of nothing else.
#[test]
fn a_block_that_cannot_be_read_ends_what_needs_it() {
    let (image, block) = two_folders();
    let mut world = World::new(&image, &[("/bad", false), ("/good", true)]);
    let (file, _) = world.open(1, "/file", Mode::Read).expect("it is there");
    let (log, _) = world.open(1, "/log", Mode::Append).expect("it is made");
    world.disk.unreadable = Some(block);
    for _ in 0..3 {
        assert_eq!(world.open(0, "/marker.txt", Mode::Read), Err(Error::Failed));
        assert!(world.read(1, file, 0, 50_000).expect("it is read") == pattern(50_000, 4));
        world.write(1, log, b"a line").expect("there is space");
        world.commit(1, log).expect("it is committed");
    }
    world.disk.unreadable = None;
    assert_eq!(world.read_all(0, "/marker.txt"), b"text");
    world.close(1, log);
    world.rest();
    assert!(world.image().get("/good/log") == b"a line".repeat(3));
}

/// Tests that a volume that cannot be recovered is tried some times, and then only read.
#[test]
fn a_volume_that_cannot_be_recovered_is_only_read() {
    let (image, block) = two_folders();
    let mut world = World::new(&image, &[("/bad", true), ("/good", true)]);
    world.disk.unreadable = Some(block);
    // The volume is not at rest.
    world.disk.content[37] |= 1;
    world.restart();
    assert_eq!(world.run(), []);
    assert_eq!(world.clients[1].volume().and_then(|volume| volume.fault), Some(Error::Failed));
    world.rest();
    world.rest();
    assert!(world.read_all(1, "/file") == pattern(50_000, 4));
    assert_eq!(world.open(1, "/new", Mode::New), Err(Error::ReadOnly));
    assert_eq!(world.open(0, "/marker.txt", Mode::Read), Err(Error::Failed));
    assert_eq!(world.disk.content[37] & 1, 1);
    // Another medium is written again, also if it is the same card.
    world.disk.unreadable = None;
    let content = world.disk.content.clone();
    world.disk.insert(Disk::ABSENT);
    assert_eq!(world.run(), []);
    world.disk.insert(Disk::new(BLOCKS, 2));
    world.disk.content = content;
    assert_eq!(world.run(), []);
    world.put(1, "/new", b"new", 10).expect("it is written");
}

/// Tests that nothing is written to a volume that recovery gives up: of two files that share
/// clusters, removing one would give those of the other to a third one.
#[test]
fn a_volume_that_recovery_cannot_make_whole_is_only_read() {
    let image = Image::formatted("4");
    image.put("/FIRST", &pattern(9000, 1));
    image.put("/SECOND", &pattern(9000, 2));
    let mut bytes = std::fs::read(&image.file).expect("the image is there");
    let at = |name: &[u8]| bytes.chunks(32).position(|entry| entry.starts_with(name)).expect("the entry") * 32;
    let (first, second) = (at(b"FIRST      "), at(b"SECOND     "));
    bytes.copy_within(first + 26..first + 28, second + 26);
    // The volume is not at rest.
    bytes[37] |= 1;
    std::fs::write(&image.file, &bytes).expect("the folder is writable");
    observe();
    let mut world = World::new(&image, &[("/", true)]);
    assert!(world.clients[0].volume().is_some_and(|volume| volume.read_only));
    let sent = world.clients[0].remove("/SECOND", 7);
    assert_eq!(world.outcome(sent), Err(Error::ReadOnly));
    assert_eq!(world.open(0, "/new", Mode::New), Err(Error::ReadOnly));
    assert!(world.read_all(0, "/FIRST") == pattern(9000, 1));
    world.rest();
    assert!(world.disk.content == bytes, "something was written");
    let told = trouble();
    assert!(told.contains("it is only read") && told.ends_with("(`fsck.fat`)"), "{told}");
    // Another medium is written.
    world.disk.insert(Disk::ABSENT);
    assert_eq!(world.run(), []);
    world.disk.insert(Disk::new(BLOCKS, 2));
    bytes[37] &= !1;
    world.disk.content = bytes;
    assert_eq!(world.run(), []);
    assert_eq!(trouble(), "");
    world.put(0, "/new", b"new", 10).expect("it is written");
}

/// Tests that a file closed after a write that failed ends where the first gap begins.
#[test]
fn a_write_that_fails_leaves_those_before_it() {
    let image = Image::formatted("4");
    let mut world = World::new(&image, &[("/", true)]);
    let (log, _) = world.open(0, "/log", Mode::Append).expect("it is made");
    let content = pattern(5 * 1024, 7);
    world.write(0, log, &content[..1024]).expect("there is space");
    world.clients[0].memory().write(0, &content).expect("inside");
    for tag in 1..5 {
        world.clients[0].write(log, 2 * tag, 1024, tag).expect("there is space");
    }
    hold(&mut world, 0);
    assert_eq!(world.disk.taken.len(), 4);
    // The last one is done first, the third fails.
    for (index, failing) in [(3, None), (2, Some(culm_block::Error::Failed)), (1, None), (0, None)] {
        world.disk.failing = failing;
        world.disk.finish(index);
    }
    world.disk.failing = None;
    let failed: Vec<u32> = world.run().into_iter().filter(|(.., result)| result.is_err()).map(|one| one.1).collect();
    assert_eq!(failed, [3]);
    world.close(0, log);
    assert!(world.read_all(0, "/log") == content[..3 * 1024]);
    world.rest();
    world.image();
}

/// Returns the first block of a volume's second table.
fn second_table(image: &Image) -> u64 {
    let boot = std::fs::read(&image.file).expect("the image is there");
    let field = |at: usize| u64::from(u16::from_le_bytes([boot[at], boot[at + 1]]));
    // The fields BPB_RsvdSecCnt and BPB_FATSz16 (Microsoft, FAT specification 1.03, section 3.1).
    field(14) + field(22)
}

/// Tests that a file keeps at its close what was written to it before a commit that failed,
/// whether it was empty, was not there, or had a content.
#[test]
fn a_commit_that_fails_leaves_what_was_written_to_the_close() {
    for before in [Some(""), None, Some("before, ")] {
        let image = Image::formatted("4");
        if let Some(content) = before {
            image.put("/log", content.as_bytes());
        }
        let mut world = World::new(&image, &[("/", true)]);
        let (log, _) = world.open(0, "/log", Mode::Append).expect("it is made, or there");
        let long = "a line ".repeat(1000);
        world.write(0, log, long.as_bytes()).expect("there is space");
        world.disk.unreadable = Some(second_table(&image));
        assert_eq!(world.commit(0, log), Err(Error::Failed), "{before:?}");
        world.disk.unreadable = None;
        assert_eq!(world.open(0, "/log", Mode::Append).err(), Some(Error::Busy), "{before:?}");
        world.close(0, log);
        let expected = before.unwrap_or_default().to_string() + &long;
        assert!(world.read_all(0, "/log") == expected.as_bytes(), "{before:?}");
        // The commit that failed may have lost clusters: the next mounting looks for them.
        world.restart();
        assert_eq!(world.run(), []);
        world.rest();
        assert!(world.image().get("/log") == expected.as_bytes(), "{before:?}");
    }
}

/// Tests that a file that cannot take its name is nobody's: another one can be made in its place.
#[test]
fn a_file_that_was_given_up_is_in_nobody_s_way() {
    let image = Image::formatted("4");
    image.make_folder("/folder");
    let mut world = World::new(&image, &[("/", true)]);
    let (log, _) = world.open(0, "/folder/log", Mode::Append).expect("it is made");
    world.write(0, log, b"a line").expect("there is space");
    let sent = world.clients[0].remove("/folder", 7);
    assert_eq!(world.outcome(sent), Ok(Done::NOTHING));
    assert_eq!(world.commit(0, log), Err(Error::NotFound));
    let sent = world.clients[0].make_folder("/folder", 7);
    assert_eq!(world.outcome(sent), Ok(Done::NOTHING));
    let (other, _) = world.open(0, "/folder/log", Mode::Append).expect("it is made");
    world.write(0, other, b"another line").expect("there is space");
    world.close(0, log);
    world.close(0, other);
    assert_eq!(world.read_all(0, "/folder/log"), b"another line");
    world.rest();
    world.image();
}

/// Tests that a disk whose granules no FAT volume can have is not asked again and again.
#[test]
fn a_disk_with_too_large_blocks_is_not_used() {
    let image = Image::formatted("4");
    let mut world = World::on(&image, &[("/", true)], Disk { granule: 4, ..Disk::new(BLOCKS, 1) });
    for _ in 0..3 {
        assert_eq!(world.clients[0].volume().and_then(|volume| volume.fault), Some(Error::Unsupported));
        assert_eq!(world.service.retry_at, None);
        world.rest();
    }
    assert_eq!(world.disk.results.len(), 0);
    world.disk.insert(Disk::new(BLOCKS, 1));
    assert_eq!(world.run(), []);
    world.put(0, "/new", b"new", 10).expect("it is written");
}

/// Tests that a disk that says that it has read, and has not, shows nobody what is another's.
#[test]
fn a_disk_that_reads_nothing_shows_nothing_of_others() {
    let image = Image::formatted("4");
    for (number, folder) in ["one", "two"].into_iter().enumerate() {
        image.make_folder(&format!("/{folder}"));
        image.put(&format!("/{folder}/file"), &pattern(100, number as u64));
        image.put(&format!("/{folder}/log"), &pattern(100, number as u64 + 2));
    }
    image.put("/one/mine", b"mine");
    let mut world = World::new(&image, &[("/one", true), ("/two", true)]);

    // Nothing of the second folder is in the cache.
    assert_eq!(world.read_all(0, "/mine"), b"mine");
    let (mine, _) = world.open(0, "/mine", Mode::Append).expect("it is there");
    world.disk.is_hollow = true;
    assert_eq!(world.open(1, "/mine", Mode::Read), Err(Error::NotFound), "a folder");
    world.disk.is_hollow = false;
    world.close(0, mine);
    world.restart();
    assert_eq!(world.run(), []);

    let (first, _) = world.open(0, "/file", Mode::Read).expect("it is there");
    let (second, _) = world.open(1, "/file", Mode::Read).expect("it is there");
    assert_eq!(world.read(0, first, 0, 100), Ok(pattern(100, 0)));
    world.disk.is_hollow = true;
    assert_eq!(world.read(1, second, 0, 100), Ok(vec![0; 100]), "the end of a file");
    world.disk.is_hollow = false;

    let sent = world.clients[1].stat("/log", 7);
    world.outcome(sent).expect("it is there");
    assert_eq!(world.read(0, first, 0, 100), Ok(pattern(100, 0)));
    world.disk.is_hollow = true;
    let (log, _) = world.open(1, "/log", Mode::Append).expect("all that it needs is in the cache");
    world.disk.is_hollow = false;
    world.write(1, log, b"more").expect("there is space");
    world.close(1, log);
    let content = world.read_all(1, "/log");
    assert!(content == [vec![0; 100], b"more".to_vec()].concat(), "the end that is appended to: {content:x?}");
}
