//! Clients of the service, on volumes that `mkfs.fat` has made and `fsck.fat` checks.

mod clients;
mod files;
mod hostile;
mod media;

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

/// Lets a client send and the service take what it sent; the disk takes requests and answers none.
fn hold(world: &mut World, client: usize) {
    world.clients[client].begin();
    let _ = world.clients[client].end_round();
    let _ = world.service.round();
    world.disk.take();
    let _ = world.disk.end_round();
}
