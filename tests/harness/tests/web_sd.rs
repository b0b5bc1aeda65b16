//! The web server over an SD card's file system: what curl gets and puts there, and what is on the
//! card when the machine has ended, or was cut off.

#![allow(missing_docs, reason = "a test's name says what it tests")]

use culm_tests_harness::client::{Answer, Background, curl, exchange, run, try_run};
use culm_tests_harness::process::children;
use culm_tests_harness::{Boot, Machine, PATIENCE, root};
use std::io::{Read, Write};
use std::net::TcpStream;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};
use tempfile::TempDir;

const TOKEN: &str = "open-sesame";
/// The token's SHA-256.
const HASH: &str = "d7ecdf25eaf3deba0f2628771dbdd22d4138ab6cf38f91ed02a2ca0dec7c8ab7";
/// Bytes of the large file: more than the web server has of all memory.
const LARGE: usize = 40_000_001;
const LIMIT: usize = 8 << 20;

/// A machine, and its disk in a folder that goes with it.
struct World {
    machine: Machine,
    folder: TempDir,
}

fn bytes(length: usize, seed: u64) -> Vec<u8> {
    let words = (0..length as u64 / 8 + 1).map(|word| (word ^ seed << 40).wrapping_mul(0x9e37_79b9_7f4a_7c15));
    words.flat_map(u64::to_le_bytes).take(length).collect()
}

fn text(path: &Path) -> &str {
    path.to_str().expect("temporary paths are text")
}

/// The system in this folder, with more configuration of the server.
fn boot(folder: &Path, config: &str) -> Machine {
    // Tests run side by side, and what is built of a system has a folder of its name.
    static SYSTEMS: AtomicU32 = AtomicU32::new(0);
    let number = SYSTEMS.fetch_add(1, Ordering::Relaxed);
    let system = format!(
        "name = \"cards-{number}\"\ndescription = \"A web server over a disk\"\nboard = \"virt\"\n\
         [device.nic0]\npriority = 240\n[device.uart0]\npriority = 60\n[device.rtc0]\npriority = 50\n\
         [device.pci0]\npriority = 55\n[device.sd0]\npriority = 200\nbus = \"pci0\"\nimage = \"disk.img\"\n\
         [pd.files]\ncomponent = \"file\"\npriority = 150\ndisk = {{ device = \"sd0\", partition = \"site\" }}\nclock = \"rtc0\"\n\
         [pd.http]\ncomponent = \"http\"\npriority = 100\nobserve = true\nnet = \"nic0\"\nclock = \"rtc0\"\n\
         files = {{ device = \"files\", folder = \"/site\", write = true, memory = \"1MiB\" }}\n\
         config = {{ {config} }}\n"
    );
    let file = folder.join("cards.toml");
    std::fs::write(&file, system).expect("the folder is writable");
    let mut machine = Boot::system(text(&file)).start(&[80]);
    machine.wait_for_web();
    machine
}

fn with_uploads() -> String {
    format!("upload_token_sha256 = \"{HASH}\", upload_limit = \"{}MiB\", request_timeout = \"3s\"", LIMIT >> 20)
}

/// A card with room for the large file and more.
const ROOMY: &str = "size = \"256MiB\"\n\
                     partition = [{ name = \"site\", size = \"128MiB\", fat = 32, folder = \"files\" }]\n";

/// A card with as small a partition as FAT32 can have.
const SMALL: &str = "size = \"64MiB\"\n\
                     partition = [{ name = \"site\", size = \"34MiB\", fat = 32, folder = \"files\" }]\n";

/// The head of an upload of so many bytes, with the token and these fields.
fn upload_head(path: &str, length: usize, fields: &str) -> String {
    format!(
        "PUT {path} HTTP/1.1\r\nHost: a\r\nAuthorization: Bearer {TOKEN}\r\nContent-Length: {length}\r\n{fields}\r\n"
    )
}

impl World {
    /// With files on the disk, and this configuration of the server.
    fn new(config: &str) -> Self {
        Self::on(ROOMY, LARGE, config)
    }

    /// The same on a disk that is described so, with a large file of so many bytes.
    fn on(disk: &str, large: usize, config: &str) -> Self {
        let folder = tempfile::tempdir().expect("a temporary folder");
        let site = folder.path().join("files/site/docs");
        std::fs::create_dir_all(&site).expect("the folder is writable");
        let file = |name: &str, content: &[u8]| std::fs::write(site.join(name), content).expect("a file");
        file("../index.html", b"<p>start");
        file("index.html", b"<p>docs");
        file("../a file with a long name.txt", b"long");
        file("../large.bin", &bytes(large, 1));
        std::fs::write(folder.path().join("files/secret.txt"), b"outside").expect("a file");
        std::fs::write(folder.path().join("disk.toml"), disk).expect("the folder is writable");
        let (from, to) = (folder.path().join("disk.toml"), folder.path().join("disk.img"));
        run(300, text(&root().join("culm")), &["image", text(&from), "-o", text(&to)]);
        Self { machine: boot(folder.path(), config), folder }
    }

    fn url(&self, path: &str) -> String {
        self.machine.url(path)
    }

    fn get(&self, path: &str, options: &[&str]) -> Answer {
        curl(&self.url(path), options)
    }

    /// Uploads with the token.
    fn put(&self, path: &str, content: &[u8], options: &[&str]) -> Answer {
        let file = self.folder.path().join("upload");
        std::fs::write(&file, content).expect("the folder is writable");
        let authorization = format!("Authorization: Bearer {TOKEN}");
        let data = format!("@{}", file.display());
        // `--data-binary` and not `-T`: curl would ask for 100 Continue, which [`curl`] takes for
        // the answer.
        let mut all = vec!["-X", "PUT", "-H", &authorization, "-H", "Expect:", "--data-binary", &data];
        all.extend(options);
        curl(&self.url(path), &all)
    }

    /// The entity tag of a file, as soon as it is a strong one. A file that was changed a moment
    /// ago has a weak one, with which no range and no condition holds.
    fn strong_tag(&self, path: &str) -> String {
        let end = Instant::now() + PATIENCE;
        loop {
            let answer = self.get(path, &["--head"]);
            let tag = answer.header("etag").expect("a file has an entity tag");
            if !tag.starts_with("W/") {
                return tag.to_owned();
            }
            assert!(Instant::now() < end, "{path} never settles");
            std::thread::sleep(Duration::from_millis(200));
        }
    }

    fn delete(&self, path: &str) -> Answer {
        curl(&self.url(path), &["-X", "DELETE", "-H", &format!("Authorization: Bearer {TOKEN}")])
    }

    /// A connection to the server, on which this was sent.
    fn send(&self, request: &[u8]) -> TcpStream {
        let mut stream = TcpStream::connect(self.machine.address(80)).expect("the server is there");
        stream.set_read_timeout(Some(Duration::from_secs(60))).expect("a socket");
        stream.write_all(request).expect("the server takes it");
        stream
    }

    /// Cuts the machine off, as if its power went; what remains is the folder with the disk.
    fn cut(self) -> TempDir {
        let Self { machine, folder } = self;
        for process in children(machine.process()) {
            let number = process.file_name().and_then(|name| name.to_str()).expect("a process has a number");
            _ = try_run(10, "kill", &["-9", number]);
        }
        drop(machine);
        folder
    }

    /// Ends the machine when its volume is at rest: when it says of itself that it is whole, which
    /// it does when nothing has changed for a while.
    fn end(self) -> TempDir {
        self.machine.is_unharmed();
        let until = Instant::now() + PATIENCE;
        while !is_whole(&self.folder).0 {
            assert!(Instant::now() < until, "the volume does not come to rest");
            std::thread::sleep(Duration::from_millis(100));
        }
        self.machine.interrupt();
        self.folder
    }
}

/// Copies the partition, which begins at 1 MiB, out of the image.
fn partition(folder: &TempDir) -> PathBuf {
    let (image, part) = (folder.path().join("disk.img"), folder.path().join("part.img"));
    let (from, to) = (format!("if={}", text(&image)), format!("of={}", text(&part)));
    run(60, "dd", &[&from, &to, "bs=1M", "skip=1", "count=128", "status=none"]);
    part
}

/// Whether `fsck.fat` finds nothing wrong, and what it says.
fn is_whole(folder: &TempDir) -> (bool, String) {
    let checked = try_run(60, "/usr/sbin/fsck.fat", &["-n", text(&partition(folder))]);
    (checked.status.success(), String::from_utf8_lossy(&checked.stdout).into_owned())
}

/// A file of the disk's, by mtools, after the file system was checked.
fn on_disk(folder: &TempDir, path: &str) -> Option<Vec<u8>> {
    let (is_whole, said) = is_whole(folder);
    assert!(is_whole, "fsck.fat: {said}");
    on_disk_after_cut(folder, path)
}

#[test]
fn files_of_the_disk_are_sent() {
    let world = World::new("");
    assert_eq!(world.get("/", &[]).text(), "<p>start");
    assert_eq!(world.get("/docs/", &[]).text(), "<p>docs");
    assert_eq!(world.get("/docs?a", &[]).header("location"), Some("/docs/?a"));
    assert_eq!(world.get("/a%20file%20with%20a%20long%20name.txt", &[]).text(), "long");
    assert_eq!(world.get("/missing", &[]).status, 404);
    for outside in ["/../secret.txt", "/secret.txt", "/..%2fsecret.txt", "/%2e%2e/secret.txt", "/..%5csecret.txt"] {
        assert!(matches!(world.get(outside, &[]).status, 400 | 404), "{outside}");
    }
    let large = bytes(LARGE, 1);
    let whole = world.get("/large.bin", &[]);
    assert!(whole.status == 200 && whole.body == large, "{} bytes of {LARGE}", whole.body.len());
    let tag = world.strong_tag("/large.bin");
    let head = world.get("/large.bin", &["--head"]);
    assert_eq!((head.status, head.header("content-length"), head.body.len()), (200, Some("40000001"), 0));
    for (range, from, to) in [
        ("0-99", 0, 100),
        ("39999990-", 39_999_990, LARGE),
        ("-7", LARGE - 7, LARGE),
        ("1000001-3000000", 1_000_001, 3_000_001),
    ] {
        let part = world.get("/large.bin", &["-r", range]);
        assert!(part.status == 206 && part.body == large[from..to], "{range}");
        assert_eq!(part.header("content-range"), Some(format!("bytes {from}-{}/{LARGE}", to - 1).as_str()));
    }
    assert_eq!(world.get("/large.bin", &["-r", "40000001-"]).status, 416);
    assert_eq!(world.get("/large.bin", &["-H", &format!("If-None-Match: {tag}")]).status, 304);
    let condition = |value: &str| world.get("/large.bin", &["-r", "5-6", "-H", &format!("If-Range: {value}")]).status;
    assert_eq!((condition(&tag), condition("\"other\"")), (206, 200));
    // Uploads are off.
    let refused = world.put("/new.txt", b"new", &[]);
    assert_eq!((refused.status, refused.header("allow")), (405, Some("GET, HEAD")));
    assert_eq!(world.delete("/index.html").status, 405);
    let folder = world.end();
    assert_eq!(on_disk(&folder, "/site/index.html").as_deref(), Some(&b"<p>start"[..]));
}

#[test]
fn uploads() {
    let world = World::new(&with_uploads());
    let content = bytes(3_000_001, 2);
    assert_eq!(world.put("/new.bin", &content, &[]).status, 201);
    assert!(world.get("/new.bin", &[]).body == content);
    let shorter = bytes(70_000, 3);
    assert_eq!(world.put("/new.bin", &shorter, &["-H", "Transfer-Encoding: chunked"]).status, 204);
    let answer = world.get("/new.bin", &[]);
    assert!(answer.body == shorter);
    let modified = answer.header("last-modified").expect("the system has a clock").to_owned();
    // Until its time is sure to be another one after the next change, it is sent again.
    let end = Instant::now() + PATIENCE;
    let condition = format!("If-Modified-Since: {modified}");
    while world.get("/new.bin", &["-H", &condition]).status != 304 {
        assert!(Instant::now() < end, "the file never settles");
        std::thread::sleep(Duration::from_millis(200));
    }
    assert_eq!(world.put("/docs/empty", b"", &[]).status, 201);
    assert_eq!(world.put("/index.html", b"<p>other", &[]).status, 204);
    assert_eq!(world.put("/x", b"x", &["-H", "If-Match: *"]).status, 412);
    assert_eq!(world.put("/index.html", b"x", &["-H", "If-None-Match: *"]).status, 412);
    assert_eq!(world.put("/nowhere/x", b"x", &[]).status, 409);
    assert_eq!(world.put("/docs", b"x", &[]).status, 409);
    assert_eq!(world.put("/x", b"x", &["-H", "Content-Range: bytes 0-0/2"]).status, 400);
    assert_eq!(world.delete("/a%20file%20with%20a%20long%20name.txt").status, 204);
    assert_eq!(world.delete("/a%20file%20with%20a%20long%20name.txt").status, 404);

    let without = curl(&world.url("/x"), &["-X", "PUT", "-d", "x"]);
    assert_eq!(without.status, 401);
    assert!(without.header("www-authenticate").is_some_and(|value| value.starts_with("Bearer ")));
    // Refused before the content: of these 9 MiB none is sent.
    for fields in ["", "Expect: 100-continue\r\n"] {
        let head = upload_head("/x", 9 << 20, fields);
        let answer = exchange(world.machine.address(80), head.as_bytes()).expect("an answer");
        assert!(answer.starts_with(b"HTTP/1.1 413 "), "{}", String::from_utf8_lossy(&answer));
    }
    let waits = upload_head("/x", 5, "Expect: 100-continue\r\n");
    let mut stream = world.send(waits.as_bytes());
    let mut answer = [0; 25];
    stream.read_exact(&mut answer).expect("the server answers");
    assert_eq!(&answer, b"HTTP/1.1 100 Continue\r\n\r\n");
    stream.write_all(b"abcde").expect("the server takes it");
    stream.read_exact(&mut answer[..12]).expect("the server answers");
    assert_eq!(&answer[..12], b"HTTP/1.1 201");
    // Who guesses must wait, with the right token too.
    let guess = || curl(&world.url("/x"), &["-X", "DELETE", "-H", "Authorization: Bearer guess"]).status;
    let guesses: Vec<u16> = (0..12).map(|_| guess()).collect();
    assert!(guesses[0] == 401 && guesses[11] == 429, "{guesses:?}");
    assert_eq!(world.delete("/x").status, 429);

    let folder = world.end();
    let found = |path: &str| on_disk(&folder, path);
    assert!(found("/site/new.bin") == Some(shorter));
    assert_eq!(found("/site/docs/empty").as_deref(), Some(&b""[..]));
    assert_eq!(found("/site/index.html").as_deref(), Some(&b"<p>other"[..]));
    assert_eq!(found("/site/x").as_deref(), Some(&b"abcde"[..]));
    assert_eq!(found("/site/a file with a long name.txt"), None);
}

/// Readers get all of the old or all of the new, and an upload that breaks off leaves the old.
#[test]
fn a_file_is_replaced_as_a_whole() {
    let world = World::new(&with_uploads());
    let contents: Vec<Vec<u8>> = (0..4).map(|seed| bytes(1_000_000 + seed * 300_000, 10 + seed as u64)).collect();
    assert_eq!(world.put("/file", &contents[0], &[]).status, 201);
    let url = world.url("/file");
    std::thread::scope(|scope| {
        let readers: Vec<_> = (0..3)
            .map(|_| {
                scope.spawn(|| {
                    for _ in 0..8 {
                        let answer = curl(&url, &[]);
                        let is_one = contents.contains(&answer.body);
                        assert!(answer.status == 200 && is_one, "{} bytes, neither old nor new", answer.body.len());
                    }
                })
            })
            .collect();
        for content in &contents[1..] {
            assert_eq!(world.put("/file", content, &[]).status, 204);
        }
        readers.into_iter().for_each(|reader| reader.join().expect("a reader"));
    });
    let head =
        format!("PUT /file HTTP/1.1\r\nHost: a\r\nAuthorization: Bearer {TOKEN}\r\nContent-Length: 500000\r\n\r\n");
    let mut half = world.send(head.as_bytes());
    half.write_all(&contents[0][..300_000]).expect("the server takes it");
    drop(half);
    // One whose time runs out. Until the server has seen the other one's end, it is answered 503.
    let mut answer = Vec::new();
    while answer.is_empty() || answer.starts_with(b"HTTP/1.1 503 ") {
        answer.clear();
        let mut slow = world.send(head.as_bytes());
        slow.write_all(&contents[0][..100]).expect("the server takes it");
        // It may end in a reset, behind the answer.
        _ = slow.read_to_end(&mut answer);
    }
    assert!(answer.starts_with(b"HTTP/1.1 408 "), "{}", String::from_utf8_lossy(&answer));
    assert!(world.get("/file", &[]).body == contents[3]);
    let folder = world.end();
    assert!(on_disk(&folder, "/site/file").as_ref() == Some(&contents[3]));
}

/// Uploads that were answered are there after a power cut, whatever else was under way.
#[test]
fn an_upload_outlives_a_power_cut() {
    let world = World::new(&with_uploads());
    let (first, second) = (bytes(200_000, 20), bytes(500_000, 21));
    assert_eq!(world.put("/first", &first, &[]).status, 201);
    assert_eq!(world.put("/index.html", &second, &[]).status, 204);
    let file = world.folder.path().join("other");
    std::fs::write(&file, bytes(LIMIT, 22)).expect("the folder is writable");
    let authorization = format!("Authorization: Bearer {TOKEN}");
    let (url, file) = (world.url("/docs/index.html"), text(&file).to_owned());
    let other = Background::start("curl", &["-s", "-T", &file, "-H", &authorization, "--limit-rate", "2M", &url]);
    std::thread::sleep(Duration::from_millis(1500));
    let folder = world.cut();
    drop(other);
    assert!(on_disk_after_cut(&folder, "/site/first") == Some(first));
    assert!(on_disk_after_cut(&folder, "/site/index.html") == Some(second.clone()));
    assert_eq!(on_disk_after_cut(&folder, "/site/docs/index.html").as_deref(), Some(&b"<p>docs"[..]));

    // The next life goes on with it.
    let world = World { machine: boot(folder.path(), &with_uploads()), folder };
    assert!(world.get("/", &[]).body == second);
    assert_eq!(world.put("/first", b"new", &[]).status, 204);
    let folder = world.end();
    assert_eq!(on_disk(&folder, "/site/first").as_deref(), Some(&b"new"[..]));
}

/// A full card: what does not fit is refused, what is there stays as it was, and there is space
/// again when a file is removed.
#[test]
fn a_full_card_keeps_what_it_has() {
    let world = World::on(SMALL, 1000, &format!("upload_token_sha256 = \"{HASH}\", upload_limit = \"8MiB\""));
    let content = |number: usize| bytes(3 << 20, 30 + number as u64);
    let path = |number: usize| format!("/fill-{number}");
    let status = |number: usize| world.put(&path(number), &content(number), &[]).status;
    // Those that fit: 33 MiB, less what was there.
    let stored = (0..12).take_while(|number| status(*number) == 201).count();
    assert!((9..=11).contains(&stored), "{stored} files");
    assert_eq!(status(stored), 507);
    // Nor does what is to stand in another one's place, which stays till the new one is there.
    assert_eq!(world.put("/index.html", &content(0), &[]).status, 507);
    assert_eq!(world.put(&path(0), &content(1), &[]).status, 507);
    // Both are refused by their heads alone: none of these 3 MiB is sent.
    for path in [path(stored), path(0)] {
        for fields in ["", "Expect: 100-continue\r\n"] {
            let answer = exchange(world.machine.address(80), upload_head(&path, 3 << 20, fields).as_bytes());
            let answer = String::from_utf8(answer.expect("an answer")).expect("text");
            assert!(answer.starts_with("HTTP/1.1 507 "), "{path}: {answer}");
        }
    }
    assert_eq!(world.get(&path(stored), &[]).status, 404);
    assert_eq!(world.get("/", &[]).text(), "<p>start");
    for number in 0..stored {
        assert!(world.get(&path(number), &[]).body == content(number), "{}", path(number));
    }
    assert_eq!(world.delete(&path(0)).status, 204);
    assert_eq!(world.put("/index.html", &content(0), &[]).status, 204);
    assert!(world.get("/", &[]).body == content(0));
    let folder = world.end();
    assert!(on_disk(&folder, "/site/index.html").as_ref() == Some(&content(0)));
    assert!(on_disk(&folder, "/site/fill-1").as_ref() == Some(&content(1)));
    assert_eq!(on_disk(&folder, "/site/fill-0"), None);
}

/// The system `web-sd` as it is, on the card that its first run makes: the site, the status page,
/// and the log in the other partition.
#[test]
fn the_shipped_system_serves_its_site_and_keeps_its_log() {
    let image = root().join("build/disks/web-sd-sd0.img");
    // An earlier run may have left one.
    let _ = std::fs::remove_file(&image);
    let mut machine = Boot::system("web-sd").start(&[80]);
    machine.wait_for_web();
    let page = std::fs::read(root().join("site/index.html")).expect("the site is there");
    assert!(curl(&machine.url("/"), &[]).body == page, "another page than the site's");
    let mark = curl(&machine.url("/favicon.svg"), &[]);
    assert_eq!((mark.status, mark.header("content-type")), (200, Some("image/svg+xml")));
    // Uploads are off.
    assert_eq!(curl(&machine.url("/index.html"), &["-X", "DELETE"]).status, 405);
    let log = || try_run(60, "mtype", &["-i", &format!("{}@@1M", text(&image)), "::/log/log.txt"]).stdout;
    let until = Instant::now() + PATIENCE;
    while !String::from_utf8_lossy(&log()).contains(" info  http: ") {
        assert!(Instant::now() < until, "the log is not on the card:\n{}", machine.tail());
        std::thread::sleep(Duration::from_millis(200));
    }
    // Nothing of all that is unwell.
    machine.is_unharmed();
    for component in machine.status().components() {
        assert!(component["trouble"].is_null(), "{component}");
    }
    assert_eq!(curl(&machine.url("/_status"), &[]).status, 200);
    for wrong in [" warn ", " error "] {
        assert!(!machine.saw(wrong), "{wrong}:\n{}", machine.tail());
    }
}

/// [`on_disk`] without the check: after a cut clusters may be lost, and the volume says that it was
/// cut off.
fn on_disk_after_cut(folder: &TempDir, path: &str) -> Option<Vec<u8>> {
    let copied = try_run(60, "mtype", &["-i", text(&partition(folder)), &format!("::{path}")]);
    copied.status.success().then_some(copied.stdout)
}
