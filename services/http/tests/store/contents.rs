//! Small files, whose content stays in memory while they are open.

use crate::common::Pipe;
use crate::world::{World, get, large, put, short_round};
use culm_file::{Error, Operation, Volume};
use proptest::prelude::*;

/// Bytes of the clients' memory with which [`SMALL`] files and no more have their content in it.
const MEMORY: usize = 128 * 1024;
const SMALL: usize = 7;

#[test]
fn a_file_is_read_once_for_all_who_ask_while_it_is_open() {
    let mut world = World::new(8, MEMORY);
    for slot in 0..8 {
        world.pipe(slot).input = get("/index.html").repeat(5).into_bytes();
    }
    world.run(|_| 0);
    let _ = world.answer(0);
    let part = "GET /index.html HTTP/1.1\r\nHost: a\r\nRange: bytes=3-5\r\n\r\n";
    assert_eq!(world.ask(0, part), (206, b"sta".to_vec()));
    assert_eq!(world.reads, 1);
    assert!((1..8).all(|slot| world.pipe(slot).output.ends_with(b"\r\n\r\n<p>start")));
    // A large file is read in pieces, and drives nothing out.
    assert_eq!(world.ask(0, &get("/large")), (200, large(300_000)));
    let reads = world.reads;
    assert!(reads > 10);
    assert_eq!(world.ask(0, &get("/index.html")), (200, b"<p>start".to_vec()));
    assert_eq!(world.reads, reads);
}

#[test]
fn what_others_change_is_seen_when_the_file_is_opened_anew() {
    let mut world = World::new(1, MEMORY);
    assert_eq!(world.ask(0, &get("/index.html")), (200, b"<p>start".to_vec()));
    // The same length and time, as a FAT would have it within two seconds.
    world.files().put("/index.html", b"<p>other");
    assert_eq!(world.ask(0, &get("/index.html")), (200, b"<p>start".to_vec()), "it is open");
    world.now += 1;
    assert_eq!(world.ask(0, &get("/index.html")), (200, b"<p>other".to_vec()));
    // A change through the server is seen at once.
    assert_eq!(world.ask(0, &put("/index.html", "<p>third")).0, 204);
    assert_eq!(world.ask(0, &get("/index.html")), (200, b"<p>third".to_vec()));
    // Another medium is other files.
    world.files().put("/index.html", b"<p>disk2");
    world.files().insert(Volume::new(2, false));
    world.run(|_| 0);
    assert_eq!(world.ask(0, &get("/index.html")), (200, b"<p>disk2".to_vec()));
}

#[test]
fn the_content_that_was_used_longest_ago_gives_way() {
    let mut world = World::with_fresh(1, MEMORY, 1000);
    for file in 0..=SMALL {
        world.files().put(&format!("/file{file}"), &large(4000 + file));
    }
    let mut reads = |file: usize| {
        let before = world.reads;
        world.now += 1;
        assert_eq!(world.ask(0, &get(&format!("/file{file}"))), (200, large(4000 + file)));
        world.reads - before
    };
    for expected in [1, 0] {
        for file in 0..SMALL {
            assert_eq!(reads(file), expected, "file {file}");
        }
    }
    assert_eq!(reads(SMALL), 1);
    assert_eq!((reads(1), reads(SMALL)), (0, 0));
    assert_eq!(reads(0), 1, "it was used longest ago");
    // Contents that others of the same round use stay.
    world.now += 1;
    for file in 0..=SMALL {
        let (status, content) = world.ask(0, &get(&format!("/file{file}")));
        assert_eq!((status, content), (200, large(4000 + file)));
    }
    let before = world.reads;
    let _ = world.ask(0, &get("/file0"));
    assert_eq!(world.reads, before);
}

#[test]
fn each_file_has_its_own_head() {
    let mut world = World::new(1, MEMORY);
    let path = |file: usize| format!("/file{file}.{}", if file.is_multiple_of(2) { "html" } else { "css" });
    (0..50).for_each(|file| world.files().put(&path(file), &large(file)));
    for file in 0..50 {
        world.pipe(0).input = get(&path(file)).into_bytes();
        world.run(|_| 0);
        let output = String::from_utf8_lossy(&world.pipe(0).output).into_owned();
        let media = if file.is_multiple_of(2) { "text/html" } else { "text/css" };
        assert!(output.contains(&format!("Content-Type: {media}")), "{output}");
        assert!(output.contains(&format!("Content-Length: {file}\r\n")), "{output}");
        world.pipe(0).output.clear();
    }
    // A tag is weak until its version is strong, also in a head that was made before.
    world.files().time = 1_800_000_000;
    world.files().put("/young", b"young");
    let tag = |world: &mut World| {
        world.pipe(0).input = get("/young").into_bytes();
        world.run(|_| 0);
        let output = String::from_utf8(std::mem::take(&mut world.pipe(0).output)).expect("text");
        output.lines().find_map(|line| line.strip_prefix("ETag: ")).expect("a tag").to_owned()
    };
    assert!(tag(&mut world).starts_with("W/"));
    world.server.files().as_mut().expect("a store").set_today(1_800_000_010);
    world.now += 1;
    assert!(!tag(&mut world).starts_with("W/"));
}

#[test]
fn content_that_nobody_waits_for_any_more_is_dropped_with_its_file() {
    let mut world = World::new(3, MEMORY);
    for round in 0..50 {
        let (old, new) = (vec![b'a' + round; 3000], vec![b'A' + round; 3000]);
        world.files().put("/file", &old);
        world.now += 1;
        world.pipe(0).input = get("/file").into_bytes();
        // The content is asked for, and waits in the provider.
        while !world.files().taken.iter().any(|it| it.request.operation == Operation::Read) {
            world.files().finish_all();
            let _ = world.files().end_round();
            world.server.ready(0);
            world.serve();
            world.files().take();
        }
        world.pipe(0).aborted = true;
        world.server.ready(0);
        world.serve();
        world.pipes.0[0] = Some(Pipe { buffer: Some(32 * 1024), ..Pipe::default() });
        world.server.opened(0, world.now);
        // Meanwhile it is another file.
        world.pipe(1).input = put("/file", &String::from_utf8(new.clone()).unwrap()).into_bytes();
        world.run(|count| count - 1);
        assert_eq!(world.answer(1).0, 204);
        world.pipe(2).input = get("/file").into_bytes();
        world.run(|count| count - 1);
        assert_eq!(world.answer(2), (200, new));
    }
}

/// The only place that is free is that of a file whose content is still asked for.
#[test]
fn content_that_comes_late_is_not_taken_for_that_of_another_file() {
    const HELD: usize = 19;
    let mut world = World::new(HELD + 2, MEMORY);
    for slot in 0..HELD {
        world.files().put(&format!("/held{slot}"), &large(400_000));
        world.pipe(slot).input = get(&format!("/held{slot}")).into_bytes();
    }
    world.files().put("/file", &[b'a'; 3000]);
    for _ in 0..200 {
        let _ = short_round(&mut world);
        let _ = world.files().round();
    }
    let take = |world: &mut World| {
        world.server.ready(HELD);
        world.server.ready(HELD + 1);
        let _ = short_round(world);
        world.files().take();
        world.files().taken.len()
    };
    world.pipe(HELD).input = get("/file").into_bytes();
    assert_eq!(take(&mut world), 1, "it is opened");
    world.files().finish(0);
    let _ = world.files().end_round();
    assert_eq!(take(&mut world), 1, "it is read");
    world.pipe(HELD).aborted = true;
    assert_eq!(take(&mut world), 1);
    world.files().put("/file", &[b'b'; 3000]);
    world.now += 1;
    world.pipe(HELD + 1).input = get("/file").into_bytes();
    assert_eq!(take(&mut world), 2, "it is opened anew");
    world.files().finish(1);
    let _ = world.files().end_round();
    assert_eq!(take(&mut world), 2, "it is read anew");
    world.files().finish(0);
    let _ = world.files().end_round();
    let _ = take(&mut world);
    world.files().finish_all();
    let _ = world.files().end_round();
    let _ = take(&mut world);
    assert_eq!(world.answer(HELD + 1), (200, vec![b'b'; 3000]));
}

#[test]
fn content_that_cannot_be_read_is_asked_for_again_later() {
    let mut world = World::new(4, MEMORY);
    assert_eq!(world.ask(3, &get("/index.html").replace("GET", "HEAD")).0, 200);
    world.files().failing = Some(Error::Failed);
    for slot in 0..3 {
        world.pipe(slot).input = get("/index.html").into_bytes();
    }
    world.run(|_| 0);
    assert!((0..3).all(|slot| world.answer(slot).0 == 500));
    world.files().failing = None;
    assert_eq!(world.ask(0, &get("/index.html")), (200, b"<p>start".to_vec()));
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 40, failure_persistence: None, ..ProptestConfig::default() })]

    /// Readers of more small files than there is room for, some of which go in the middle, while
    /// files are replaced through the server: who gets an answer gets one content, and one that was
    /// there since it asked.
    #[test]
    fn nothing_old_is_sent_after_a_change(
        steps in prop::collection::vec((0usize..4, 0usize..12, 0u8..10), 1..60),
        memory in prop::sample::select(vec![16 * 1024, 48 * 1024, MEMORY]),
        fresh in 1u64..20,
    ) {
        const CLIENTS: usize = 4;
        let mut world = World::with_fresh(CLIENTS + 1, memory, fresh);
        let content = |file: usize, version: u8| vec![b'a' + version; 300 + file * 97];
        let mut versions = [0; 12];
        for file in 0..12 {
            world.files().put(&format!("/file{file}"), &content(file, 0));
        }
        for (client, file, what) in steps {
            world.now += u64::from(what % 3);
            match what {
                0 => {
                    // It goes before it is answered.
                    world.pipe(client).input = get(&format!("/file{file}")).into_bytes();
                    world.server.ready(client);
                    world.serve();
                    let _ = world.files().round();
                    world.pipe(client).aborted = true;
                    world.server.ready(client);
                    world.serve();
                    world.pipes.0[client] = Some(Pipe { buffer: Some(32 * 1024), ..Pipe::default() });
                    world.server.opened(client, world.now);
                }
                1 | 2 => {
                    versions[file] = (versions[file] + 1) % 20;
                    let new = String::from_utf8(content(file, versions[file])).unwrap();
                    prop_assert_eq!(world.ask(CLIENTS, &put(&format!("/file{file}"), &new)).0, 204);
                }
                _ => {
                    let (status, got) = world.ask(client, &get(&format!("/file{file}")));
                    prop_assert_eq!((status, got), (200, content(file, versions[file])));
                }
            }
        }
    }
}
