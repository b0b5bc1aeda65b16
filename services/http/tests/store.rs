//! The server over the file class: its files are in memory, behind the class's queues.

#[path = "../../../libs/http/tests/common/mod.rs"]
mod common;

use common::{Clock, Pipe, Pipes, TIMEOUTS};
use culm_file::testing::{RamFiles, connection};
use culm_file::{Error, Operation, Volume};
use culm_http::{Caching, Server, Site};
use http::guard::{Guard, read_hash};
use http::store::Store;
use proptest::prelude::*;

const HASH: &str = "d7ecdf25eaf3deba0f2628771dbdd22d4138ab6cf38f91ed02a2ca0dec7c8ab7";
const TOKEN: &str = "open-sesame";
const LIMIT: u64 = 4 << 20;
const VOLUME: Volume = Volume::new(1, false);

/// A server, its files, and its clients.
struct World {
    server: Server<'static, Clock, Option<Store>>,
    files: Option<RamFiles>,
    pipes: Pipes,
    now: u64,
}

impl World {
    /// With so many clients and so much memory for their files.
    fn new(clients: usize, memory: usize) -> Self {
        let connection = connection(16, memory, 1);
        let mut files = RamFiles::new(&connection, VOLUME);
        files.put("/index.html", b"<p>start");
        files.put("/album/index.html", b"<p>album");
        files.put("/large", &large(300_000));
        let uploads = Some((Guard::new(read_hash(HASH).expect("a hash"), 1), LIMIT));
        let caching = Caching::new([("*.bin", "no-store")].into_iter());
        let mut store = Store::connect(&connection, clients, uploads, caching, 1);
        store.set_today(1_800_000_000);
        let site = Site::new(std::iter::empty::<(&str, &[u8])>(), &Caching::default(), &[], &[]);
        let mut server = Server::with_files(site, Clock, Some(store), clients, TIMEOUTS);
        (0..clients).for_each(|slot| server.opened(slot, 0));
        let pipes = Pipes((0..clients).map(|_| Some(Pipe { buffer: Some(32 * 1024), ..Pipe::default() })).collect());
        Self { server, files: Some(files), pipes, now: 0 }
    }

    fn files(&mut self) -> &mut RamFiles {
        self.files.as_mut().expect("there are files")
    }

    fn pipe(&mut self, slot: usize) -> &mut Pipe {
        self.pipes.0[slot].as_mut().expect("a client")
    }

    /// A round of the server.
    fn serve(&mut self) {
        self.server.files().as_mut().expect("a store").begin_round(self.now);
        while let Some(slot) = self.server.files().as_mut().and_then(Store::news) {
            self.server.ready(slot);
        }
        while self.server.run(&mut self.pipes, self.now, 1) {}
        let _ = self.server.files().as_mut().expect("a store").end_round();
    }

    /// Rounds of both sides until nothing happens. Clients take at once what is sent; the files
    /// finish what they have taken in an order that `order` decides.
    fn run(&mut self, mut order: impl FnMut(usize) -> usize) {
        let mut quiet = 0;
        while quiet < 6 {
            let before = self.state();
            for slot in 0..self.pipes.0.len() {
                let pipe = self.pipe(slot);
                pipe.unacknowledged = 0;
                self.server.ready(slot);
            }
            self.serve();
            if let Some(files) = &mut self.files {
                files.take();
                if !files.taken.is_empty() {
                    let index = order(files.taken.len()) % files.taken.len();
                    // Changes keep their order.
                    files.finish(if files.taken.iter().any(|it| it.request.operation.changes_files()) {
                        0
                    } else {
                        index
                    });
                }
                let _ = files.end_round();
            }
            quiet = if self.state() == before { quiet + 1 } else { 0 };
        }
    }

    fn state(&mut self) -> Vec<usize> {
        let mut state: Vec<_> =
            self.pipes.0.iter().flatten().flat_map(|it| [it.input.len(), it.output.len()]).collect();
        state.push(self.files.as_ref().map_or(0, |files| files.taken.len()));
        state
    }

    fn ask(&mut self, slot: usize, request: &str) -> (u16, Vec<u8>) {
        self.pipe(slot).input.extend(request.bytes());
        self.run(|_| 0);
        self.answer(slot)
    }

    /// Takes the answer that a client got: its status, and what came behind its head.
    fn answer(&mut self, slot: usize) -> (u16, Vec<u8>) {
        let output = std::mem::take(&mut self.pipe(slot).output);
        let text = String::from_utf8_lossy(&output[..output.len().min(300)]).into_owned();
        let end = output.windows(4).position(|four| four == b"\r\n\r\n").unwrap_or_else(|| panic!("no answer: {text}"));
        (text[9..12].parse().expect("a status"), output[end + 4..].to_vec())
    }
}

fn large(length: usize) -> Vec<u8> {
    (0..length).map(|at| (at % 251) as u8).collect()
}

fn get(path: &str) -> String {
    format!("GET {path} HTTP/1.1\r\nHost: a\r\n\r\n")
}

fn put(path: &str, content: &str) -> String {
    let length = content.len();
    format!(
        "PUT {path} HTTP/1.1\r\nHost: a\r\nAuthorization: Bearer {TOKEN}\r\nContent-Length: {length}\r\n\r\n{content}"
    )
}

fn delete(path: &str) -> String {
    format!("DELETE {path} HTTP/1.1\r\nHost: a\r\nAuthorization: Bearer {TOKEN}\r\n\r\n")
}

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
fn files_are_changed() {
    for memory in [16 * 1024, 128 * 1024] {
        let mut world = World::new(1, memory);
        let content = String::from_utf8(vec![b'x'; 200_001]).unwrap();
        assert_eq!(world.ask(0, &put("/new.bin", &content)).0, 201);
        assert_eq!(world.files().get("/new.bin"), Some(content.as_bytes()));
        assert_eq!(world.ask(0, &get("/new.bin")), (200, content.into_bytes()));
        assert_eq!(world.ask(0, &put("/new.bin", "short")).0, 204);
        // What was open is opened anew.
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
fn more_readers_than_there_is_room_for_all_get_theirs() {
    const CLIENTS: usize = 60;
    let mut world = World::new(CLIENTS, 32 * 1024);
    for slot in 0..CLIENTS {
        let content = large(40_000 + slot);
        world.files().put(&format!("/file{slot}"), &content);
        world.pipe(slot).input = get(&format!("/file{slot}")).into_bytes();
    }
    let mut random = 7usize;
    world.run(|_| {
        random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
        random >> 33
    });
    for slot in 0..CLIENTS {
        assert_eq!(world.answer(slot), (200, large(40_000 + slot)), "client {slot}");
    }
}

/// A round in which each connection has a turn at most; returns whether some have more to do.
fn short_round(world: &mut World) -> bool {
    world.server.files().as_mut().expect("a store").begin_round(world.now);
    while let Some(slot) = world.server.files().as_mut().and_then(Store::news) {
        world.server.ready(slot);
    }
    let more = world.server.run(&mut world.pipes, world.now, 64);
    let asleep = world.server.files().as_mut().expect("a store").end_round().is_asleep();
    more || !asleep
}

/// As many clients as there are places for open files, which take nothing of what they asked for.
fn occupy_all_places(world: &mut World) {
    const PLACES: usize = 20;
    for slot in 0..PLACES {
        world.files().put(&format!("/held{slot}"), &large(400_000));
        world.pipe(slot).input = get(&format!("/held{slot}")).into_bytes();
    }
    for _ in 0..200 {
        let _ = short_round(world);
        let _ = world.files().round();
    }
}

#[test]
fn those_who_wait_leave_the_processor_to_others() {
    const CLIENTS: usize = 20 + 70;
    let mut world = World::new(CLIENTS, 128 * 1024);
    occupy_all_places(&mut world);
    for slot in 20..CLIENTS {
        world.files().put(&format!("/file{slot}"), b"abc");
        world.pipe(slot).input = get(&format!("/file{slot}")).into_bytes();
        world.server.ready(slot);
    }
    let rounds = (0..50).take_while(|_| short_round(&mut world)).count();
    assert!(rounds < 50, "there is no end to it");
    assert!((20..CLIENTS).all(|slot| world.pipe(slot).output.is_empty()));
    // One that goes makes room for all of them.
    world.pipe(0).aborted = true;
    world.server.ready(0);
    world.server.run(&mut world.pipes, 0, 64);
    world.pipes.0[0] = Some(Pipe::default());
    for _ in 0..2000 {
        let _ = short_round(&mut world);
        let _ = world.files().round();
    }
    for slot in 20..CLIENTS {
        assert_eq!(world.answer(slot), (200, b"abc".to_vec()), "client {slot}");
    }
}

/// Rounds after which everybody has what there is to have, while clients take nothing.
fn settle(world: &mut World) {
    for _ in 0..60 {
        (0..world.pipes.0.len()).for_each(|slot| world.server.ready(slot));
        let _ = short_round(world);
        let _ = world.files().round();
    }
}

#[test]
fn slow_readers_keep_nobody_from_other_files() {
    let mut world = World::new(22, 128 * 1024);
    occupy_all_places(&mut world);
    world.pipe(20).input = get("/index.html").into_bytes();
    settle(&mut world);
    assert!(world.pipe(20).output.is_empty(), "what was opened just now stays open");
    world.now += 10;
    settle(&mut world);
    assert_eq!(world.answer(20), (200, b"<p>start".to_vec()));
    // They go on where they were, but for one whose file is another one now.
    world.now += 10;
    let other = vec![b'x'; 400_000];
    world.files().put("/held0", &other);
    world.run(|_| 0);
    for slot in 1..20 {
        assert_eq!(world.answer(slot), (200, large(400_000)), "client {slot}");
    }
    assert!(world.pipe(0).aborted);
    let (_, content) = world.answer(0);
    assert!(content.len() < 400_000 && content == large(400_000)[..content.len()]);
}

#[test]
fn slow_readers_of_one_file_keep_nobody_from_it() {
    let mut world = World::new(22, 128 * 1024);
    for slot in 0..20 {
        world.pipe(slot).input = get("/large").into_bytes();
        settle(&mut world);
        world.now += 1;
    }
    for path in ["/large", "/index.html"] {
        world.pipe(20).input = get(path).into_bytes();
        settle(&mut world);
        assert!(!world.pipe(20).output.is_empty(), "{path}");
        world.run(|_| 0);
        let _ = world.answer(20);
    }
    for slot in 0..20 {
        assert_eq!(world.answer(slot), (200, large(300_000)), "client {slot}");
    }
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
fn fast_readers_do_not_shut_out_another() {
    const READERS: usize = 12;
    let mut world = World::new(READERS, 128 * 1024);
    for slot in 0..READERS {
        world.files().put(&format!("/film{slot}"), &large(3_000_000));
        *world.pipe(slot) = Pipe { input: get(&format!("/film{slot}")).into_bytes(), ..Pipe::default() };
    }
    for _ in 0..100 {
        let _ = short_round(&mut world);
        let _ = world.files().round();
    }
    let got: Vec<_> = world.pipes.0.iter().flatten().map(|pipe| pipe.output.len()).collect();
    let (least, most) = (got.iter().min().unwrap(), got.iter().max().unwrap());
    assert!(*least > 100_000 && most - least < 200_000, "{got:?}");
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
