//! The server over the file class: its files are in memory, behind the class's queues.

mod changes;
#[path = "../../../../libs/http/tests/common/mod.rs"]
mod common;
mod contents;
mod crowds;
mod world;

use common::Pipe;
use culm_file::testing::RamFiles;
use culm_file::{Error, Volume};
use proptest::prelude::*;
use world::{VOLUME, World, get, large, put, short_round};
#[test]
fn files_are_read() {
    for memory in [16 * 1024, 128 * 1024] {
        let mut world = World::new(2, memory);
        assert_eq!(world.ask(0, &get("/")), (200, b"<p>start".to_vec()));
        assert_eq!(world.ask(0, &get("/album/")), (200, b"<p>album".to_vec()));
        assert_eq!(world.ask(0, &get("/album")).0, 301);
        assert_eq!(world.ask(0, &get("/missing")).0, 404);
        assert_eq!(world.ask(0, &get("/large/x")).0, 404);
        assert_eq!(world.ask(0, &get("/a%01b")).0, 404);
        assert_eq!(world.ask(0, &get("/large")), (200, large(300_000)));
        let part = "GET /large HTTP/1.1\r\nHost: a\r\nRange: bytes=777-99999\r\n\r\n";
        assert_eq!(world.ask(1, part), (206, large(300_000)[777..100_000].to_vec()));
    }
}

#[test]
fn a_client_that_goes_leaves_nothing() {
    let mut world = World::new(2, 64 * 1024);
    let content = String::from_utf8(vec![b'x'; 100_000]).unwrap();
    for round in 0..100 {
        let request = if round % 2 == 0 { put("/index.html", &content) } else { get("/large") };
        let request = &request.as_bytes()[..request.len().min(60_000)];
        world.pipe(0).input = request.to_vec();
        for _ in 0..round % 7 {
            world.server.ready(0);
            world.serve();
            let _ = world.files().round();
        }
        world.pipe(0).aborted = true;
        world.server.ready(0);
        world.serve();
        world.pipes.0[0] = Some(Pipe { buffer: Some(32 * 1024), ..Pipe::default() });
        world.server.opened(0, 0);
        world.run(|_| 0);
        assert_eq!(world.files().get("/index.html"), Some(&b"<p>start"[..]), "round {round}");
    }
    assert_eq!(world.ask(1, &put("/index.html", "new")).0, 204);
    assert_eq!(world.ask(0, &get("/large")), (200, large(300_000)));
}

#[test]
fn a_path_that_no_file_has_is_missed_also_when_room_comes_late() {
    let long = format!("/{}", "x".repeat(1500));
    for path in ["/x//y", "/%ff", &long] {
        let mut world = World::new(1, 64 * 1024);
        let pipe = world.pipe(0);
        pipe.input = get(path).into_bytes();
        pipe.unacknowledged = 32 * 1024;
        world.server.ready(0);
        world.serve();
        assert!(world.pipe(0).output.is_empty());
        world.run(|_| 0);
        assert_eq!(world.answer(0).0, 404);
    }
}

#[test]
fn a_restarted_provider_is_asked_again() {
    let mut world = World::new(2, 64 * 1024);
    world.pipe(0).input = get("/large").into_bytes();
    world.pipe(1).input = put("/new", &"x".repeat(50_000)).into_bytes()[..30_000].to_vec();
    for _ in 0..4 {
        (0..2).for_each(|slot| world.server.ready(slot));
        world.serve();
        let _ = world.files().round();
    }
    world.files = world.files.take().map(RamFiles::restarted);
    world.run(|_| 0);
    assert_eq!(world.answer(0), (200, large(300_000)), "who reads goes on");
    let rest = "x".repeat(30_000);
    assert_eq!(world.ask(1, &rest).0, 503, "an upload is lost, and said to be");
    assert_eq!(world.files().get("/new"), None);
    assert_eq!(world.ask(0, &put("/new", "abc")).0, 201);
}

#[test]
fn without_a_medium_nothing_is_promised() {
    let mut world = World::new(1, 64 * 1024);
    world.run(|_| 0);
    world.files().insert(Volume::ABSENT);
    assert_eq!(world.ask(0, &get("/index.html")).0, 500);
    assert_eq!(world.ask(0, &put("/x", "abc")).0, 500);
    world.files().insert(Volume::new(2, true));
    world.run(|_| 0);
    world.now += 10;
    assert_eq!(world.ask(0, &get("/index.html")).0, 200);
    assert_eq!(world.ask(0, &put("/x", "abc")).0, 403);
    world.files().insert(VOLUME);
    world.run(|_| 0);
    world.files().failing = Some(Error::Failed);
    assert_eq!(world.ask(0, &put("/x", "abc")).0, 500);
    world.files().failing = None;
    world.now += 10;
    assert_eq!(world.ask(0, &put("/x", "abc")).0, 201);
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 60, failure_persistence: None, ..ProptestConfig::default() })]

    /// Readers of a file that is replaced again and again get one of its contents, and all of it.
    #[test]
    fn readers_see_old_or_new(
        lengths in prop::collection::vec(0usize..60_000, 1..5),
        seed in any::<u64>(),
        memory in prop::sample::select(vec![16 * 1024, 64 * 1024]),
    ) {
        const READERS: usize = 4;
        let mut world = World::new(READERS + 1, memory);
        world.files().put("/file", &[b'a'; 30_000]);
        let contents: Vec<String> =
            lengths.iter().zip('b'..).map(|(length, letter)| letter.to_string().repeat(*length)).collect();
        let writes: String = contents.iter().map(|content| put("/file", content)).collect();
        world.pipe(READERS).input = writes.into_bytes();
        for slot in 0..READERS {
            world.pipe(slot).input = get("/file").repeat(6).into_bytes();
        }
        let mut random = seed;
        world.run(|_| {
            random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            (random >> 33) as usize
        });
        let writer = String::from_utf8(std::mem::take(&mut world.pipe(READERS).output)).unwrap();
        prop_assert_eq!(writer.matches("HTTP/1.1 204 ").count(), contents.len());
        prop_assert_eq!(world.files().get("/file"), contents.last().map(|content| content.as_bytes()));
        for slot in 0..READERS {
            let output = String::from_utf8(std::mem::take(&mut world.pipe(slot).output)).unwrap();
            let mut rest = output.as_str();
            for _ in 0..6 {
                let (head, body) = rest.split_once("\r\n\r\n").expect("a head");
                let length = head.lines().find_map(|line| line.strip_prefix("Content-Length: ")).expect("a length");
                let (content, after) = body.split_at(length.parse().expect("a number"));
                let is_first = content == "a".repeat(30_000);
                prop_assert!(is_first || contents.iter().any(|one| one == content), "neither old nor new");
                rest = after;
            }
            prop_assert!(rest.is_empty());
        }
    }

    /// Readers of more files than are open at a time, each at its own pace, while one after another
    /// is replaced: who is not broken off gets one content, and all of it.
    #[test]
    fn readers_that_take_turns_get_one_content(seed in any::<u64>(), hold in 1u64..4) {
        const READERS: usize = 26;
        const LENGTH: usize = 100_000;
        let mut world = World::new(READERS + 1, 128 * 1024);
        for slot in 0..READERS {
            world.files().put(&format!("/file{slot}"), &[b'a'; LENGTH]);
            world.pipe(slot).input = get(&format!("/file{slot}")).into_bytes();
        }
        let mut random = seed;
        let mut next = |below: usize| {
            random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            (random >> 33) as usize % below
        };
        for round in 0..250 {
            world.now += u64::from(round % 4 == 0) * hold;
            for _ in 0..4 {
                let slot = next(READERS);
                world.pipe(slot).unacknowledged = 0;
                world.server.ready(slot);
            }
            if round % 25 == 0 {
                let content = vec![b'b' + (round / 25) as u8; LENGTH];
                let request = put(&format!("/file{}", next(READERS)), &String::from_utf8(content).unwrap());
                world.pipe(READERS).input.extend(request.into_bytes());
            }
            world.server.ready(READERS);
            let _ = short_round(&mut world);
            let _ = world.files().round();
        }
        for _ in 0..10 {
            world.run(|_| 0);
            world.now += 10;
        }
        let mut whole = 0;
        for slot in 0..READERS {
            let is_broken_off = world.pipe(slot).aborted;
            prop_assert!(is_broken_off || !world.pipe(slot).output.is_empty());
            if is_broken_off && world.pipe(slot).output.is_empty() {
                continue;
            }
            let (status, content) = world.answer(slot);
            prop_assert!(status == 200 && content.iter().all(|byte| Some(byte) == content.first()), "two contents");
            prop_assert!(is_broken_off || content.len() == LENGTH);
            whole += usize::from(!is_broken_off);
        }
        prop_assert!(whole >= READERS - 10, "{} are broken off", READERS - whole);
    }
}
