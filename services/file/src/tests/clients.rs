//! Clients among themselves: folders, shares, deaths, turns.

use super::*;

#[test]
fn nobody_waits_for_all_of_a_long_file_to_be_removed() {
    // Clusters of 512 bytes: more links than are given free at once.
    let image = Image::formatted("1");
    image.put("/long", &vec![1; 15 << 20]);
    image.put("/other", b"other");
    let mut world = World::new(&image, &[("/", true), ("/", true)]);
    let sent = world.clients[0].remove("/long", 1);
    assert_eq!(sent, Ok(()));
    let sent = world.clients[1].stat("/other", 2);
    assert_eq!(sent, Ok(()));
    let (mut complete, mut is_freeing) = (Vec::new(), [false; 2]);
    for _ in 0..5000 {
        let seen = complete.len();
        let is_asleep = world.round(&mut complete);
        is_freeing[seen..complete.len()].fill(world.service.volume.is_freeing());
        if is_asleep {
            break;
        }
    }
    assert!(complete.iter().all(|(_, _, result)| result.is_ok()) && complete.len() == 2, "{complete:?}");
    assert_eq!(is_freeing, [true, true], "space is given free after both were answered");
    assert!(!world.service.volume.is_freeing());
    world.put(0, "/new", &vec![2; 15 << 20], 65_536).expect("there is space");
    world.rest();
    world.image();
}

#[test]
fn each_client_can_have_its_share_of_files_open() {
    let image = Image::formatted("4");
    image.put("/file", b"content");
    let mut world = World::new(&image, &[("/", false); 9]);
    let open_all = |world: &mut World, client: usize| {
        let mut files = Vec::new();
        loop {
            match world.open(client, "/file", Mode::Read) {
                Ok((file, _)) => files.push(file),
                Err(error) => {
                    assert_eq!(error, Error::TooMany);
                    return files;
                }
            }
        }
    };
    let all: Vec<Vec<File>> = (0..9).map(|client| open_all(&mut world, client)).collect();
    // Of 256, a share is 28, and the 4 that are left are whose who asks first.
    assert_eq!(all.iter().map(Vec::len).collect::<Vec<_>>(), [32, 28, 28, 28, 28, 28, 28, 28, 28]);
    for file in &all[8] {
        world.close(8, *file);
    }
    assert_eq!(open_all(&mut world, 7).len(), 0, "the share of another is nobody's");
    assert_eq!(open_all(&mut world, 8).len(), 28);
    // A client that starts over has its whole share again.
    world.clients[3] = Client::connect(&World::client(&world.provided[3]));
    assert_eq!(world.run(), []);
    assert_eq!(open_all(&mut world, 3).len(), 28);
}

#[test]
fn a_client_sees_its_folder() {
    let image = Image::formatted("4");
    image.make_folder("/site");
    image.make_folder("/other");
    image.put("/site/index.html", b"<html>");
    image.put("/other/secret", b"secret");
    let mut world = World::new(&image, &[("/site", false), ("/other", true)]);
    assert_eq!(world.read_all(0, "/index.html"), b"<html>");
    for path in ["/secret", "/other/secret", "/site/index.html"] {
        assert_eq!(world.open(0, path, Mode::Read), Err(Error::NotFound), "{path}");
    }
    let (folder, _) = world.open(1, "/", Mode::Read).expect("its root");
    for number in 0..30 {
        world.put(1, &format!("/a long name, number {number}"), &pattern(number, 1), 100).expect("there is space");
    }
    let (mut names, mut next) = (Vec::new(), 0);
    loop {
        let sent = world.clients[1].list(folder, next, 0, 500, 7);
        let done = world.outcome(sent).expect("it is listed");
        names.extend(world.clients[1].listing(0, done.count).map(|item| (item.name, item.info.size)));
        let Some(further) = done.next else { break };
        next = further;
    }
    assert_eq!(names.len(), 31);
    assert!(names.contains(&("a long name, number 29".into(), 29)), "{names:?}");
    let sent = world.clients[1].remove("/", 7);
    assert_eq!(world.outcome(sent), Err(Error::Invalid));
    let sent = world.clients[1].rename("/secret", "/known", 7);
    assert_eq!(world.outcome(sent), Ok(Done::NOTHING));
    let sent = world.clients[1].make_folder("/folder", 7);
    assert_eq!(world.outcome(sent), Ok(Done::NOTHING));
    world.rest();
    assert_eq!(world.image().get("/other/known"), b"secret");
}

/// Tests that a client's next life finds nothing open, and what was appended.
#[test]
fn a_client_that_died_has_nothing_open() {
    let image = Image::formatted("4");
    let mut world = World::new(&image, &[("/", true)]);
    let (log, _) = world.open(0, "/log", Mode::Append).expect("it is made");
    let (new, _) = world.open(0, "/new", Mode::New).expect("it is begun");
    world.write(0, log, b"a line").expect("there is space");
    world.write(0, new, b"never").expect("there is space");
    world.clients[0] = Client::connect(&World::client(&world.provided[0]));
    assert_eq!(world.run(), []);
    assert_eq!(world.open(0, "/new", Mode::Read), Err(Error::NotFound));
    assert_eq!(world.read_all(0, "/log"), b"a line");
    assert!(world.open(0, "/log", Mode::Append).is_ok(), "it is not closed");
    world.rest();
    world.image();
}

/// Tests that a small read is answered while a large one of another client's is under way.
#[test]
fn a_large_request_does_not_hold_up_a_small_one() {
    let image = Image::formatted("4");
    image.put("/large", &pattern(3_000_000, 4));
    image.put("/small", &pattern(1000, 5));
    let mut world = World::new(&image, &[("/", false), ("/", false)]);
    let (large, _) = world.open(0, "/large", Mode::Read).expect("it is there");
    let (small, _) = world.open(1, "/small", Mode::Read).expect("it is there");
    for tag in 0..20 {
        world.clients[0].read(large, 100_000 * tag, 0, 100_000, tag as u32).expect("there is space");
    }
    world.clients[1].read(small, 0, 0, 1000, 100).expect("there is space");
    let mut complete: Vec<(usize, u32, Result<Done, Error>)> = Vec::new();
    while !complete.iter().any(|(client, ..)| *client == 1) {
        world.round(&mut complete);
        assert!(complete.len() <= 21);
    }
    assert!(complete.iter().all(|(.., result)| result.is_ok()));
    let memory: Region = *world.clients[1].memory();
    let mut bytes = [0; 1000];
    memory.read(0, &mut bytes).expect("inside");
    assert_eq!(bytes.to_vec(), pattern(1000, 5));
}

/// Tests that what waits to be told where its bytes lie keeps its number, when its client starts
/// over meanwhile.
#[test]
fn a_client_that_starts_over_leaves_no_question_behind() {
    let image = Image::formatted("1");
    image.put("/large", &pattern(15_000_000, 4));
    image.put("/small", &pattern(3000, 5));
    let mut world = World::new(&image, &[("/", false), ("/", false)]);
    let (large, _) = world.open(0, "/large", Mode::Read).expect("it is there");
    let (small, _) = world.open(1, "/small", Mode::Read).expect("it is there");
    world.clients[0].read(large, 12_000_000, 0, 1000, 1).expect("there is space");
    hold(&mut world, 0);
    assert_eq!(world.disk.taken.len(), 1, "the table is read");
    world.clients[0] = Client::connect(&World::client(&world.provided[0]));
    hold(&mut world, 0);
    world.clients[1].read(small, 0, 0, 3000, 2).expect("there is space");
    hold(&mut world, 1);
    // The table is read, which lies before all files, and the other client's data is not.
    for _ in 0..50 {
        if let Some(index) = world.disk.taken.iter().position(|taken| taken.request.block < 1000) {
            world.disk.finish(index);
        }
        hold(&mut world, 1);
    }
    assert!(world.service.job.is_none());
    assert!(!world.disk.taken.is_empty(), "the other client's data");
    let complete = world.run();
    assert!(matches!(complete[..], [(1, 2, Ok(_))]), "{complete:?}");
    assert!(world.service.clients.iter().all(|client| client.sending.is_empty()));
    assert!(world.read_all(0, "/small") == pattern(3000, 5));
    assert!(world.read_all(1, "/small") == pattern(3000, 5));
}

/// Tests that what was answered of an append is there when its client dies with a write under way.
#[test]
fn a_client_that_dies_in_a_write_keeps_those_before() {
    let image = Image::formatted("4");
    let mut world = World::new(&image, &[("/", true)]);
    let (log, _) = world.open(0, "/log", Mode::Append).expect("it is made");
    let (new, _) = world.open(0, "/new", Mode::New).expect("it is begun");
    let content = pattern(5 * 700, 6);
    for bytes in content.chunks(700) {
        world.write(0, log, bytes).expect("there is space");
    }
    world.write(0, new, b"never").expect("there is space");
    world.clients[0].write(log, 1, 700, 1).expect("there is space");
    hold(&mut world, 0);
    assert!(!world.disk.taken.is_empty(), "the sixth write");
    world.clients[0] = Client::connect(&World::client(&world.provided[0]));
    hold(&mut world, 0);
    assert_eq!(world.run(), []);
    assert!(world.read_all(0, "/log") == content);
    assert_eq!(world.open(0, "/new", Mode::Read), Err(Error::NotFound));
    world.rest();
    assert!(world.image().get("/log") == content);
}

/// Tests that a client that asks for much at once leaves others their turns.
#[test]
fn a_round_carries_out_some_operations_only() {
    let image = Image::formatted("4");
    image.put("/file", b"text");
    let mut world = World::new(&image, &[("/", false)]);
    let (folder, _) = world.open(0, "/", Mode::Read).expect("its root");
    let sent = world.clients[0].list(folder, 0, 0, 500, 7);
    world.outcome(sent).expect("it is listed");
    for tag in 0..20 {
        world.clients[0].list(folder, 0, 0, 500, tag).expect("there is space");
    }
    world.clients[0].begin();
    let _ = world.clients[0].end_round();
    let mut counts = Vec::new();
    loop {
        let progress = world.service.round();
        world.clients[0].begin();
        counts.push(std::iter::from_fn(|| world.clients[0].next_completion()).count());
        let _ = world.clients[0].end_round();
        if progress.is_asleep() {
            break;
        }
    }
    assert_eq!(counts.iter().sum::<usize>(), 20);
    assert!(counts.iter().all(|count| *count <= 8), "{counts:?}");
}
