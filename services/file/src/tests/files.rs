//! Files and folders: reading, writing, appending, commits, rest.

use super::*;

#[test]
fn a_file_is_read_from_any_position() {
    let image = Image::formatted("4");
    let content = pattern(100_003, 1);
    image.put("/long name.bin", &content);
    let mut world = World::new(&image, &[("/", false)]);
    let (file, done) = world.open(0, "/Long Name.bin", Mode::Read).expect("it is there");
    let info = done.info.expect("a file");
    assert!(info.size == 100_003 && info.mark != 0 && info.modified > 1_000_000_000);
    for (position, length) in [(0, 512), (0, 100_003), (1, 99_999), (511, 2), (2047, 70_000), (100_000, 1000)] {
        let end = (position + length).min(content.len());
        let found = world.read(0, file, position as u64, length).expect("it is read");
        assert!(found == content[position..end], "{position} {length}");
    }
    assert_eq!(world.read(0, file, 100_003, 1), Ok(vec![]));
    assert_eq!(world.open(0, "/none", Mode::Read), Err(Error::NotFound));
    assert_eq!(world.open(0, "/long name.bin", Mode::New), Err(Error::ReadOnly));
}

#[test]
fn what_lies_together_is_one_request() {
    let image = Image::formatted("4");
    image.put("/file", &pattern(200_000, 1));
    let mut world = World::new(&image, &[("/", false)]);
    let (file, _) = world.open(0, "/file", Mode::Read).expect("it is there");
    let before = world.disk.results.len();
    world.read(0, file, 0, 128 * 1024).expect("it is read");
    assert_eq!(world.disk.results.len() - before, 1);
}

#[test]
fn files_are_written_and_replaced() {
    let image = Image::formatted("4");
    let mut world = World::new(&image, &[("/", true)]);
    let (first, second) = (pattern(300_001, 2), pattern(123_456, 3));
    world.put(0, "/new.bin", &first, 65_536).expect("there is space");
    assert!(world.read_all(0, "/new.bin") == first);
    let (reader, _) = world.open(0, "/new.bin", Mode::Read).expect("it is there");
    world.put(0, "/new.bin", &second, 1000).expect("there is space");
    assert!(world.read(0, reader, 5000, 100_000).expect("the old one is read") == first[5000..105_000]);
    assert!(world.read_all(0, "/new.bin") == second);
    world.close(0, reader);
    let (given_up, _) = world.open(0, "/given up", Mode::New).expect("a name");
    world.write(0, given_up, &first[..200_000]).expect("there is space");
    world.close(0, given_up);
    assert_eq!(world.open(0, "/given up", Mode::Read), Err(Error::NotFound));
    world.rest();
    let image = world.image();
    assert!(image.get("/new.bin") == second);
}

#[test]
fn lines_are_appended_over_lives_of_the_service() {
    let image = Image::formatted("1");
    let mut world = World::new(&image, &[("/logs/today", true)]);
    let mut expected = Vec::new();
    let (file, _) = world.open(0, "/log", Mode::Append).expect("it is made");
    for number in 0..60 {
        let line = pattern(1 + number * 13, number as u64);
        world.write(0, file, &line).expect("there is space");
        expected.extend_from_slice(&line);
        if number % 7 == 0 {
            world.commit(0, file).expect("it is committed");
        }
        if number % 14 == 0 {
            world.restart();
            assert_eq!(world.run(), []);
        }
    }
    world.commit(0, file).expect("it is committed");
    assert!(world.read_all(0, "/log") == expected);
    world.rest();
    assert!(world.image().get("/logs/today/log") == expected);
}

#[test]
fn what_was_not_committed_is_lost_with_the_service() {
    let image = Image::formatted("1");
    let mut world = World::new(&image, &[("/", true)]);
    let (file, _) = world.open(0, "/log", Mode::Append).expect("it is made");
    world.write(0, file, b"line").expect("there is space");
    world.restart();
    assert_eq!(world.run(), []);
    assert_eq!(world.write(0, file, b"line"), Err(Error::Lost));
    world.close(0, file);
    world.rest();
    world.image();
}

#[test]
fn a_name_that_is_too_long_for_a_path_stops_no_list() {
    let image = Image::formatted("1");
    for name in ["/first", &format!("/{}.txt", "n".repeat(200)), "/last"] {
        image.put(name, name.as_bytes());
    }
    // Of each `n` of the long name, a character that takes three bytes of UTF-8.
    let mut bytes = std::fs::read(&image.file).expect("the image is there");
    for part in bytes.chunks_mut(32).filter(|part| part[11] == 0xf && part[13] != 0) {
        for at in [1, 3, 5, 7, 9, 14, 16, 18, 20, 22, 24, 28, 30] {
            if part[at..at + 2] == [b'n', 0] {
                part[at..at + 2].copy_from_slice(&0x65e5_u16.to_le_bytes());
            }
        }
    }
    std::fs::write(&image.file, bytes).expect("the folder is writable");
    let mut world = World::new(&image, &[("/", false)]);
    let (folder, _) = world.open(0, "/", Mode::Read).expect("its root");
    let sent = world.clients[0].list(folder, 0, 0, 2000, 7);
    let done = world.outcome(sent).expect("it is listed");
    let names: Vec<_> = world.clients[0].listing(0, done.count).map(|item| item.name).collect();
    assert_eq!(names, ["first", "NNNNNN~1.TXT", "last"]);
    assert_eq!(world.read_all(0, "/NNNNNN~1.TXT").len(), 205);
}

/// Tests that a volume is said to be whole after a removed file was closed, and is left alone then.
#[test]
fn a_close_leads_to_rest() {
    let image = Image::formatted("4");
    image.put("/file", &pattern(50_000, 4));
    let mut world = World::new(&image, &[("/", true)]);
    let (file, _) = world.open(0, "/file", Mode::Read).expect("it is there");
    let sent = world.clients[0].remove("/file", 7);
    assert_eq!(world.outcome(sent), Ok(Done::NOTHING));
    world.rest();
    assert_eq!(world.disk.content[37] & 1, 1, "its clusters are still in use");
    world.close(0, file);
    world.rest();
    assert_eq!(world.disk.content[37] & 1, 0);
    world.image();
    let (folder, _) = world.open(0, "/", Mode::Read).expect("its root");
    world.close(0, folder);
    assert_eq!(world.service.rest_at, None);
}

/// Makes each cluster of a file that lies in one piece, on a volume with clusters of a block, a
/// piece of its own: its chain runs backwards.
fn scatter(bytes: &mut [u8], name: &[u8; 11]) {
    let entry = bytes.chunks(32).position(|entry| entry.starts_with(name)).expect("the entry") * 32;
    let word = |bytes: &[u8], at: usize| u16::from_le_bytes([bytes[at], bytes[at + 1]]);
    let size = u32::from_le_bytes([28, 29, 30, 31].map(|at| bytes[entry + at]));
    let (first, clusters) = (word(bytes, entry + 26), size.div_ceil(512) as u16);
    let (reserved, length) = (usize::from(word(bytes, 14)) * BLOCK, usize::from(word(bytes, 22)) * BLOCK);
    bytes[entry + 26..entry + 28].copy_from_slice(&(first + clusters - 1).to_le_bytes());
    for table in [reserved, reserved + length] {
        for cluster in first..first + clusters {
            let (at, next) = (table + usize::from(cluster) * 2, if cluster == first { u16::MAX } else { cluster - 1 });
            bytes[at..at + 2].copy_from_slice(&next.to_le_bytes());
        }
    }
}

/// Tests that what is appended goes to the disk in its order, also if the volume has forgotten
/// where the file's last cluster lies, because it was asked so much about others.
#[test]
fn what_is_appended_keeps_its_order_where_its_place_is_not_known() {
    let image = Image::formatted("1");
    let names = ["LOG        ", "A          ", "B          ", "C          ", "D          "];
    let names = [&names[..], &["E          ", "F          ", "G          ", "H          "]].concat();
    for name in &names {
        image.put(&format!("/{}", name.trim_end()), &vec![b'x'; 1000 * BLOCK]);
    }
    let mut bytes = std::fs::read(&image.file).expect("the image is there");
    for name in &names {
        scatter(&mut bytes, name.as_bytes().try_into().expect("eleven letters"));
    }
    std::fs::write(&image.file, bytes).expect("the folder is writable");
    let mut world = World::new(&image, &[("/", true)]);
    let (log, _) = world.open(0, "/LOG", Mode::Append).expect("it is there");
    let content = pattern(1500, 5);
    world.write(0, log, &content[..100]).expect("there is space");
    world.commit(0, log).expect("it is committed");
    for name in &names[1..] {
        let (file, _) = world.open(0, &format!("/{}", name.trim_end()), Mode::Read).expect("it is there");
        assert_eq!(world.read(0, file, 0, 5), Ok(b"xxxxx".to_vec()));
    }
    world.clients[0].memory().write(100, &content[100..]).expect("inside");
    world.clients[0].write(log, 0, 412, 1).expect("there is space");
    world.clients[0].write(log, 1, 988, 2).expect("there is space");
    assert_eq!(world.run().len(), 2);
    world.commit(0, log).expect("it is committed");
    world.close(0, log);
    let found = world.read_all(0, "/LOG");
    assert_eq!(found.len(), 1000 * BLOCK + 1500);
    assert!(found[1000 * BLOCK..] == content, "another order");
}

/// Tests that a commit for which there is no room leaves the volume whole.
#[test]
fn a_commit_without_room_leaves_the_volume_whole() {
    let image = Image::formatted("1");
    image.run(program("mkfs.fat").args(["-F", "16", "-s", "1", "-r", "16"]).arg(&image.file));
    for number in 0..16 {
        image.put(&format!("/F{number}"), b"text");
    }
    let mut world = World::new(&image, &[("/", true)]);
    let (log, _) = world.open(0, "/LOG", Mode::Append).expect("a name");
    world.write(0, log, &pattern(5000, 1)).expect("there is space");
    assert_eq!(world.commit(0, log), Err(Error::Full));
    world.clients[0].close(log);
    world.run();
    assert_eq!(world.open(0, "/LOG", Mode::Read), Err(Error::NotFound));
    // A name can take more than one entry.
    for path in ["/F3", "/F4", "/F5"] {
        let sent = world.clients[0].remove(path, 7);
        assert_eq!(world.outcome(sent), Ok(Done::NOTHING));
    }
    world.put(0, "/NEW", &pattern(9000, 2), 4000).expect("there is space");
    world.rest();
    assert!(world.image().get("/NEW") == pattern(9000, 2));
}

/// Tests that a file whose folder was removed before its first commit does not come back when it is
/// closed: its clusters go to files of other clients.
#[test]
fn a_file_that_could_not_be_named_gets_no_blocks_of_anothers() {
    for restarts in [false, true] {
        let image = Image::formatted("1");
        let mut world = World::new(&image, &[("/a", true), ("/b", true)]);
        let sent = world.clients[0].make_folder("/x", 7);
        world.outcome(sent).expect("a folder");
        let (file, _) = world.open(0, "/x/f", Mode::Append).expect("a name");
        let content = pattern(128 * 1024, 1);
        // More clusters than are given free at once.
        for _ in 0..140 {
            world.write(0, file, &content).expect("there is space");
        }
        let sent = world.clients[0].remove("/x", 7);
        world.outcome(sent).expect("it is empty");
        world.clients[0].commit(file, 8).expect("it is sent");
        world.clients[0].make_folder("/x", 9).expect("it is sent");
        let mut complete = Vec::new();
        while !complete.iter().any(|(_, tag, _)| *tag == 9) {
            world.round(&mut complete);
        }
        assert_eq!(complete.iter().find(|(_, tag, _)| *tag == 8).map(|found| found.2), Some(Err(Error::NotFound)));
        if restarts {
            world.clients[0] = Client::connect(&World::client(&world.provided[0]));
        } else {
            world.clients[0].close(file);
        }
        world.run();
        let others = vec![b'o'; 7_500_000];
        world.put(1, "/other", &others, 65_536).expect("there is space");
        assert_eq!(world.open(0, "/x/f", Mode::Read), Err(Error::NotFound));
        world.rest();
        assert!(world.image().get("/b/other") == others);
    }
}

/// A new file that says how long it is has its space from the beginning on, or is none.
#[test]
fn space_is_promised_before_the_first_byte() {
    let image = Image::formatted("4");
    let mut world = World::new(&image, &[("/", true), ("/", true)]);
    let create = |world: &mut World, client: usize, path: &str, bytes: u64| {
        let file = world.clients[client].create(path, bytes, 7);
        let sent = file.map(|_| ());
        world.outcome(sent).map(|_| file.expect("it was sent"))
    };
    // The volume has 20 MiB, of which its tables take some.
    let (half, all) = (10 << 20, BLOCKS * BLOCK as u64);
    let content = pattern(300_001, 2);
    world.put(0, "/old", &content, 65_536).expect("there is space");
    for bytes in [all, u64::from(u32::MAX), u64::from(u32::MAX) + 1, 1 << 40] {
        assert_eq!(create(&mut world, 0, "/old", bytes), Err(Error::Full), "{bytes}");
    }
    let first = create(&mut world, 0, "/first", half).expect("there is space");
    assert_eq!(create(&mut world, 1, "/second", half), Err(Error::Full), "it is the first one's");
    let small = create(&mut world, 1, "/small", 100_000).expect("there is space");
    world.write(1, small, &content[..200_000]).expect("it may have more");
    world.commit(1, small).expect("it is committed");
    world.close(0, first);
    let second = create(&mut world, 1, "/second", half).expect("the first one is given back");
    for bytes in pattern(half as usize, 3).chunks(200_000) {
        world.write(1, second, bytes).expect("it was promised");
    }
    world.commit(1, second).expect("it is committed");
    world.close(1, second);
    world.close(1, small);
    world.rest();
    let image = world.image();
    assert!(image.get("/second") == pattern(half as usize, 3) && image.get("/old") == content);
    assert!(image.get("/small") == content[..200_000]);
}
