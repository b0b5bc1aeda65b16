//! Uploads and removals.

use crate::common::Pipe;
use crate::world::{World, delete, get, large, put, settle};
use culm_file::Operation;
use culm_file::testing::RamFiles;

#[test]
fn files_are_changed() {
    for memory in [16 * 1024, 128 * 1024] {
        let mut world = World::new(1, memory);
        let content = String::from_utf8(vec![b'x'; 200_001]).unwrap();
        assert_eq!(world.ask(0, &put("/new.bin", &content)).0, 201);
        assert_eq!(world.files().get("/new.bin"), Some(content.as_bytes()));
        assert_eq!(world.ask(0, &get("/new.bin")), (200, content.into_bytes()));
        assert_eq!(world.ask(0, &put("/new.bin", "short")).0, 204);
        // The open file is opened anew.
        assert_eq!(world.ask(0, &get("/new.bin")), (200, b"short".to_vec()));
        assert_eq!(world.ask(0, &put("/empty", "")).0, 201);
        assert_eq!(world.files().get("/empty"), Some(&b""[..]));
        assert_eq!(world.ask(0, &get("/empty")), (200, Vec::new()));
        assert_eq!(world.ask(0, &delete("/new.bin")).0, 204);
        assert_eq!(world.ask(0, &get("/new.bin")).0, 404);
        assert_eq!(world.ask(0, &delete("/new.bin")).0, 404);
        assert_eq!(world.ask(0, &put("/missing/x", "abc")).0, 409);
        assert_eq!(world.ask(0, &put("/album", "abc")).0, 409);
    }
}

#[test]
fn a_full_medium_refuses_and_keeps_the_old_file() {
    let mut world = World::new(1, 64 * 1024);
    world.files().space = 310_000;
    let content = String::from_utf8(vec![b'x'; 20_000]).unwrap();
    assert_eq!(world.ask(0, &put("/index.html", &content)).0, 507);
    assert!(world.files().get("/index.html") == Some(b"<p>start"));
}

#[test]
fn what_has_no_room_is_refused_before_it_is_sent() {
    let head =
        |length: u64| put("/index.html", "").replace("Length: 0", &format!("Length: {length}\r\nExpect: 100-continue"));
    let used = "<p>start".len() + "<p>album".len() + 300_000;
    let mut world = World::new(2, 64 * 1024);
    world.files().space = used + 1000;
    // The old file has its room until the new one is there.
    let (status, text) = world.ask(0, &head(1001));
    assert_eq!(status, 507, "{}", String::from_utf8_lossy(&text));
    world.pipe(1).input = head(1000).into_bytes();
    world.run(|_| 0);
    assert_eq!(std::mem::take(&mut world.pipe(1).output), b"HTTP/1.1 100 Continue\r\n\r\n");
    assert_eq!(world.ask(1, &"x".repeat(1000)).0, 204);
}

#[test]
fn one_upload_of_a_name_at_a_time() {
    let mut world = World::new(3, 128 * 1024);
    let half = put("/Same.txt", "abcdef").strip_suffix("def").unwrap().to_owned();
    world.pipe(0).input = half.into_bytes();
    world.run(|_| 0);
    assert!(world.pipe(0).output.is_empty());
    assert_eq!(world.ask(1, &put("/same.TXT", "other")).0, 503);
    assert_eq!(world.ask(2, &put("/another", "other")).0, 201);
    assert_eq!(world.ask(1, &get("/Same.txt")).0, 404, "nobody sees half a file");
    assert_eq!(world.ask(0, "def").0, 201);
    assert_eq!(world.files().get("/Same.txt"), Some(&b"abcdef"[..]));
}

#[test]
fn names_of_one_file_are_one_name() {
    let mut world = World::new(2, 128 * 1024);
    world.pipe(0).input = put("/album/Same name.txt", "abcdef").replace("Same name", "Same%20name").into_bytes();
    let _ = world.pipe(0).input.pop();
    world.run(|_| 0);
    for path in
        ["/album/%c5%bfAME%20name.txt", "/ALBUM/same%20name.TXT", "/album/SAMENA~1.TXT", "/AL~1/same%20name.txt"]
    {
        assert_eq!(world.ask(1, &put(path, "other")).0, 503, "{path}");
    }
    for path in ["/Same%20name.txt", "/album/other.txt", "/SAMENA~1.TXT"] {
        assert_eq!(world.ask(1, &put(path, "other")).0, 201, "{path}");
    }
    assert_eq!(world.ask(0, "f").0, 201);
}

#[test]
fn a_commit_that_a_restart_has_lost_is_not_known() {
    let mut world = World::new(1, 64 * 1024);
    world.pipe(0).input = put("/new", "abc").into_bytes();
    while !world.files().taken.iter().any(|it| it.request.operation == Operation::Commit) {
        world.files().finish_all();
        let _ = world.files().end_round();
        world.server.ready(0);
        world.serve();
        world.files().take();
    }
    world.files = world.files.take().map(RamFiles::restarted);
    world.run(|_| 0);
    let (status, text) = world.answer(0);
    assert_eq!(status, 503);
    assert!(String::from_utf8_lossy(&text).contains("not known"));
}

#[test]
fn what_was_changed_just_now_is_sent_again() {
    let mut world = World::new(1, 64 * 1024);
    world.files().time = 1_800_000_000 - 1;
    world.files().put("/young", b"young");
    world.pipe(0).input = get("/young").into_bytes();
    world.run(|_| 0);
    let output = String::from_utf8(std::mem::take(&mut world.pipe(0).output)).expect("text");
    let field = |name: &str| output.lines().find_map(|line| line.strip_prefix(name)).expect("a field").to_owned();
    let (tag, date) = (field("ETag: "), field("Last-Modified: "));
    assert!(tag.starts_with("W/"));
    for condition in [format!("If-None-Match: {tag}"), format!("If-Modified-Since: {date}")] {
        let request = format!("GET /young HTTP/1.1\r\nHost: a\r\n{condition}\r\n\r\n");
        assert_eq!(world.ask(0, &request), (200, b"young".to_vec()), "{condition}");
    }
}

#[test]
fn a_change_whose_client_has_gone_is_a_change() {
    for request in [put("/index.html", "new"), delete("/index.html")] {
        let is_removal = request.starts_with("DELETE");
        let mut world = World::new(3, 64 * 1024);
        assert_eq!(world.ask(0, &get("/index.html")), (200, b"<p>start".to_vec()));
        world.pipe(1).input = request.into_bytes();
        // The last step waits in the provider when the client goes.
        while !world
            .files()
            .taken
            .iter()
            .any(|it| matches!(it.request.operation, Operation::Commit | Operation::Remove))
        {
            world.files().finish_all();
            let _ = world.files().end_round();
            world.server.ready(1);
            world.serve();
            world.files().take();
        }
        world.pipe(1).aborted = true;
        world.server.ready(1);
        world.serve();
        world.pipes.0[1] = Some(Pipe::default());
        world.server.opened(1, 0);
        // Nobody else changes it before it is known what has become of it.
        world.pipe(2).input = put("/INDEX.html", "other").into_bytes();
        world.server.ready(2);
        world.serve();
        assert_eq!(world.answer(2).0, 503);
        let _ = world.files().round();
        world.run(|_| 0);
        let expected = if is_removal { 404 } else { 200 };
        let (status, content) = world.ask(0, &get("/index.html"));
        assert_eq!(status, expected);
        assert!(is_removal || content == b"new", "the old content is gone");
        assert!(matches!(world.ask(2, &put("/index.html", "other")).0, 201 | 204));
    }
}

#[test]
fn an_upload_goes_on_after_a_queue_that_was_full() {
    const CLIENTS: usize = 24;
    let mut world = World::new(CLIENTS, 256 * 1024);
    for slot in 0..CLIENTS {
        world.pipe(slot).input = match slot % 8 {
            0 => put(&format!("/new{slot}"), &"x".repeat(150_000 + slot)),
            _ => get("/large").repeat(2),
        }
        .into_bytes();
    }
    let mut random = 3usize;
    world.run(|_| {
        random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
        random >> 33
    });
    for slot in (0..CLIENTS).step_by(8) {
        assert_eq!(world.answer(slot).0, 201);
        assert_eq!(world.files().get(&format!("/new{slot}")).map(<[u8]>::len), Some(150_000 + slot));
    }
}

/// Has readers begin with a version of a file each and take no more of it, while it is replaced, by
/// an upload or by another component. Returns which clients they are.
fn read_what_is_replaced(world: &mut World, by_upload: bool) -> std::ops::Range<usize> {
    const READERS: usize = 18;
    for version in 0..READERS {
        world.pipe(version).input = get("/large").into_bytes();
        settle(world);
        world.now += 1;
        let content = "x".repeat(100_000 + version);
        if by_upload {
            upload_while_others_wait(world, READERS, &content);
            assert_eq!(world.answer(READERS).0, 204, "version {version}");
        } else {
            world.files().put("/large", content.as_bytes());
        }
        world.now += 1;
    }
    0..READERS
}

/// Has a client replace the large file while the others take nothing.
fn upload_while_others_wait(world: &mut World, slot: usize, content: &str) {
    world.pipe(slot).input = put("/large", content).into_bytes();
    for _ in 0..40 {
        world.pipe(slot).unacknowledged = 0;
        settle(world);
    }
}

#[test]
fn slow_readers_keep_two_old_versions_at_most_and_not_for_long() {
    for by_upload in [true, false] {
        let mut world = World::new(20, 128 * 1024);
        let readers = read_what_is_replaced(&mut world, by_upload);
        // The last one reads what nobody is known to have replaced where that was not done here.
        let most = if by_upload { 2 } else { 3 };
        assert_eq!(world.files().open_files(), most, "by an upload: {by_upload}");
        world.now += 300;
        settle(&mut world);
        assert_eq!(world.files().open_files(), 0, "by an upload: {by_upload}");
        // They get nothing of another version.
        world.run(|_| 0);
        for slot in readers {
            assert!(world.pipe(slot).aborted, "client {slot}");
            let (_, content) = world.answer(slot);
            assert!(content.iter().all(|byte| *byte == b'x') || content == large(300_000)[..content.len()]);
        }
    }
}

#[test]
fn readers_of_one_old_version_all_end_with_it() {
    const READERS: usize = 5;
    let mut world = World::new(READERS + 1, 128 * 1024);
    for slot in 0..READERS {
        world.pipe(slot).input = get("/large").into_bytes();
        settle(&mut world);
        world.now += 1;
    }
    upload_while_others_wait(&mut world, READERS, "other");
    world.now += 299 - READERS as u64;
    world.run(|_| 0);
    for slot in 0..READERS {
        assert_eq!(world.answer(slot), (200, large(300_000)), "client {slot}");
    }
}

#[test]
fn a_slow_reader_goes_on_after_its_file_was_opened_anew() {
    let mut world = World::new(2, 128 * 1024);
    world.pipe(0).input = get("/large").into_bytes();
    settle(&mut world);
    world.now += 1000;
    settle(&mut world);
    assert_eq!(world.files().open_files(), 0);
    // Another file is another one's.
    assert_eq!(world.ask(1, &put("/index.html", "new")).0, 204);
    world.run(|_| 0);
    assert_eq!(world.answer(0), (200, large(300_000)));
}

#[test]
fn an_upload_gets_the_space_of_old_versions() {
    let mut world = World::new(20, 128 * 1024);
    let _ = read_what_is_replaced(&mut world, true);
    // With the new file there is room for two versions, and not for four.
    world.files().space = 100_017 + 2 * 100_100;
    upload_while_others_wait(&mut world, 19, &"y".repeat(100_100));
    assert!(world.pipe(19).output.is_empty(), "it waits for space");
    world.now += 1;
    settle(&mut world);
    settle(&mut world);
    assert_eq!(world.answer(19).0, 204);
    // What has no space at all is refused, after it was tried once more.
    world.pipe(18).input = get("/large").into_bytes();
    settle(&mut world);
    world.now += 1;
    world.pipe(19).input = put("/large", &"z".repeat(1_000_000)).into_bytes();
    settle(&mut world);
    assert!(world.pipe(19).output.is_empty(), "it waits for space");
    world.now += 1;
    settle(&mut world);
    assert_eq!(world.answer(19).0, 507);
}

#[test]
fn what_nobody_reads_is_closed() {
    let mut world = World::new(1, 128 * 1024);
    world.is_patrolled = false;
    for version in 0..40_usize {
        world.files().put("/large", &large(200_000 + version));
        assert_eq!(world.ask(0, &get("/large")).0, 200);
        assert_eq!(world.files().open_files(), 1);
        world.now += 5;
    }
    world.is_patrolled = true;
    world.run(|_| 0);
    assert_eq!(world.files().open_files(), 0);
}
