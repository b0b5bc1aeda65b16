//! Clients of the service, on volumes that `mkfs.fat` has made and `fsck.fat` checks.

mod hostile;

use crate::Service;
use culm::Region;
use culm::connection::{BlockClient, FileClient, FileProviderClient};
use culm::testing::{set_start_block, set_time, signalled};
use culm::time::{self, Duration};
use culm_abi::start::{MAGIC, Memory, Span, StartHeader};
use culm_block::testing::RamDisk;
use culm_block::{BLOCK, Disk};
use culm_file::testing::ring;
use culm_file::{Client, Completion, Done, Error, File, Mode, NotSent};
use std::format;
use std::path::PathBuf;
use std::process::Command;
use std::string::String;
use std::vec;
use std::vec::Vec;
use tempfile::TempDir;

/// Bytes of the service's own memory, and of each client's.
const OWN: usize = 128 * 1024;
const MEMORY: usize = 256 * 1024;
/// Blocks of the disk.
const BLOCKS: u64 = 40 * 1024;

/// A program of the host's, which may be in a folder that only root searches.
fn program(name: &str) -> Command {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let folders = std::env::split_paths(&path).chain(["/usr/sbin".into(), "/sbin".into()]);
    let found = folders.map(|folder| folder.join(name)).find(|file| file.is_file());
    Command::new(found.unwrap_or_else(|| panic!("this test needs `{name}`: `./culm setup --tests` installs it")))
}

/// A volume in a file of the host's.
struct Image {
    _folder: TempDir,
    file: PathBuf,
}

impl Image {
    fn new(content: &[u8]) -> Self {
        let folder = tempfile::tempdir().expect("a temporary folder");
        let file = folder.path().join("volume.img");
        std::fs::write(&file, content).expect("the folder is writable");
        Self { _folder: folder, file }
    }

    fn run(&self, command: &mut Command) -> Vec<u8> {
        let output = command.output().expect("it starts");
        let said = String::from_utf8_lossy(&output.stdout).into_owned() + &String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "{command:?}: {said}");
        output.stdout
    }

    fn formatted(clusters: &str) -> Self {
        let image = Self::new(&vec![0; BLOCKS as usize * BLOCK]);
        image.run(program("mkfs.fat").args(["-F", "16", "-s", clusters]).arg(&image.file));
        image
    }

    fn put(&self, path: &str, content: &[u8]) {
        let source = self.file.with_extension("source");
        std::fs::write(&source, content).expect("the folder is writable");
        let to = format!("::{path}");
        self.run(program("mcopy").arg("-i").arg(&self.file).arg("-o").arg(&source).arg(to));
    }

    fn get(&self, path: &str) -> Vec<u8> {
        self.run(program("mtype").arg("-i").arg(&self.file).arg(format!("::{path}")))
    }

    fn make_folder(&self, path: &str) {
        self.run(program("mmd").arg("-i").arg(&self.file).arg(format!("::{path}")));
    }
}

/// A disk, the service, and its clients.
struct World {
    connection: BlockClient,
    provided: Vec<FileProviderClient>,
    disk: RamDisk,
    service: Service,
    clients: Vec<Client<u32>>,
}

impl World {
    /// Clients with these folders and rights.
    fn new(image: &Image, clients: &[(&str, bool)]) -> Self {
        Self::on(image, clients, Disk::new(BLOCKS, 1))
    }

    fn on(image: &Image, clients: &[(&str, bool)], disk: Disk) -> Self {
        let header = size_of::<StartHeader>() as u32;
        let (mut texts, mut folders) = (Vec::new(), Vec::new());
        for (folder, _) in clients {
            folders.push(Span { offset: header + texts.len() as u32, count: folder.len() as u32 });
            texts.extend_from_slice(folder.as_bytes());
            texts.resize(texts.len().next_multiple_of(8), 0);
        }
        set_start_block(&start_block(&texts));
        let blocks = (OWN + clients.len() * MEMORY) / BLOCK;
        let connection = culm_block::testing::connection(64, blocks as u64, 0, 0);
        let provided: Vec<FileProviderClient> = (0..)
            .zip(clients.iter().zip(folders))
            .map(|(number, ((_, may_write), folder))| {
                let place = (OWN + number * MEMORY) as u64;
                FileProviderClient {
                    requests: ring(32),
                    answers: ring(32),
                    memory: Memory { address: connection.data.address + place, size: MEMORY as u64, dma: 0 },
                    place,
                    folder,
                    name: Span::default(),
                    channel: number as u32 + 1,
                    may_write: u32::from(*may_write),
                }
            })
            .collect();
        let mut disk = RamDisk::new(&connection, disk);
        disk.content = std::fs::read(&image.file).expect("the image is there");
        disk.durable = disk.content.clone();
        let service = Service::new(&connection, &provided, None, 256);
        let clients = provided.iter().map(|client| Client::connect(&Self::client(client))).collect();
        let mut world = Self { connection, provided, disk, service, clients };
        assert_eq!(world.run(), []);
        world
    }

    fn client(provided: &FileProviderClient) -> FileClient {
        let FileProviderClient { requests, answers, memory, .. } = *provided;
        FileClient { requests, answers, memory, channel: 60 }
    }

    fn round(&mut self, complete: &mut Vec<(usize, u32, Result<Done, Error>)>) -> bool {
        let mut asleep = true;
        for (number, client) in self.clients.iter_mut().enumerate() {
            client.begin();
            while let Some(Completion { tag, result }) = client.next_completion() {
                complete.push((number, tag, result));
            }
            asleep &= client.end_round().is_asleep();
        }
        asleep &= self.service.round().is_asleep();
        asleep & self.disk.round().is_asleep() & signalled().is_empty()
    }

    /// Lets all take rounds until nothing happens; returns what is complete.
    fn run(&mut self) -> Vec<(usize, u32, Result<Done, Error>)> {
        let mut complete = Vec::new();
        for _ in 0..5000 {
            if self.round(&mut complete) {
                return complete;
            }
        }
        panic!("there is no end to it");
    }

    /// Returns what becomes of the one request that was sent with the tag 7.
    fn outcome(&mut self, sent: Result<(), NotSent>) -> Result<Done, Error> {
        match sent {
            Err(NotSent::Refused(error)) => return Err(error),
            sent => assert_eq!(sent, Ok(())),
        }
        let complete = self.run();
        let [(_, 7, result)] = complete[..] else { panic!("one answer: {complete:?}") };
        result
    }

    fn open(&mut self, client: usize, path: &str, mode: Mode) -> Result<(File, Done), Error> {
        let file = match self.clients[client].open(path, mode, 7) {
            Ok(file) => file,
            Err(NotSent::Refused(error)) => return Err(error),
            Err(error) => panic!("{error}"),
        };
        self.outcome(Ok(())).map(|done| (file, done))
    }

    fn read(&mut self, client: usize, file: File, position: u64, length: usize) -> Result<Vec<u8>, Error> {
        let memory = *self.clients[client].memory();
        memory.write(0, &vec![0xee; length + 2 * BLOCK]).expect("inside");
        let sent = self.clients[client].read(file, position, 0, length as u32, 7);
        let done = self.outcome(sent)?;
        let begin = position as usize % BLOCK;
        let end = begin + done.count as usize;
        let mut all = vec![0; length + 2 * BLOCK];
        memory.read(0, &mut all).expect("inside");
        assert!(all[..begin].iter().chain(&all[end..]).all(|byte| *byte == 0xee), "more than the file was written");
        Ok(all[begin..end].to_vec())
    }

    fn read_all(&mut self, client: usize, path: &str) -> Vec<u8> {
        let (file, done) = self.open(client, path, Mode::Read).expect("it is there");
        let (size, mut content) = (done.info.expect("a file").size, Vec::new());
        while (content.len() as u64) < size {
            let bytes = self.read(client, file, content.len() as u64, 100_000).expect("it is read");
            assert!(!bytes.is_empty());
            content.extend(bytes);
        }
        self.clients[client].close(file);
        assert_eq!(self.run(), []);
        content
    }

    fn write(&mut self, client: usize, file: File, bytes: &[u8]) -> Result<(), Error> {
        let begin = self.clients[client].end(file) as usize % BLOCK;
        self.clients[client].memory().write(begin, bytes).expect("inside");
        let sent = self.clients[client].write(file, 0, bytes.len() as u32, 7);
        self.outcome(sent).map(|done| assert_eq!(done.count as usize, bytes.len()))
    }

    fn commit(&mut self, client: usize, file: File) -> Result<Done, Error> {
        let sent = self.clients[client].commit(file, 7);
        self.outcome(sent)
    }

    fn close(&mut self, client: usize, file: File) {
        self.clients[client].close(file);
        assert_eq!(self.run(), []);
    }

    /// Makes a file with this content, in writes of these lengths.
    fn put(&mut self, client: usize, path: &str, content: &[u8], piece: usize) -> Result<(), Error> {
        let (file, _) = self.open(client, path, Mode::New)?;
        for bytes in content.chunks(piece) {
            self.write(client, file, bytes)?;
        }
        self.commit(client, file)?;
        self.close(client, file);
        Ok(())
    }

    /// The service's next life.
    fn restart(&mut self) {
        self.service = Service::new(&self.connection, &self.provided, None, 256);
    }

    /// The disk as the host sees it, which must be whole.
    fn image(&self) -> Image {
        let image = Image::new(&self.disk.content);
        image.run(program("fsck.fat").arg("-n").arg(&image.file));
        image
    }

    /// Lets a time pass in which nothing happens.
    fn rest(&mut self) {
        set_time(time::now() + Duration::from_secs(5));
        assert_eq!(self.run(), []);
    }
}

/// A start block whose only content are texts.
fn start_block(texts: &[u8]) -> Vec<u8> {
    let size = size_of::<StartHeader>() + texts.len();
    let mut block = vec![0; size];
    block[..8].copy_from_slice(&MAGIC.to_le_bytes());
    block[8..12].copy_from_slice(&culm_abi::VERSION.to_le_bytes());
    block[12..16].copy_from_slice(&(size as u32).to_le_bytes());
    block[size_of::<StartHeader>()..].copy_from_slice(texts);
    block
}

fn pattern(length: usize, seed: u64) -> Vec<u8> {
    let words = (0..length as u64 / 8 + 1).map(|word| (word + seed).wrapping_mul(0x9e37_79b9_7f4a_7c15));
    let mut bytes: Vec<u8> = words.flat_map(u64::to_le_bytes).collect();
    bytes.truncate(length);
    bytes
}

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
    // What a life had open is its next one's again.
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

/// Lets a client send and the service take what it sent; the disk takes requests and answers none.
fn hold(world: &mut World, client: usize) {
    world.clients[client].begin();
    let _ = world.clients[client].end_round();
    let _ = world.service.round();
    world.disk.take();
    let _ = world.disk.end_round();
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

/// Tests that a commit for which there is no room, tried again when the file is closed, leaves the
/// volume whole.
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
