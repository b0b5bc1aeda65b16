//! A disk in memory, and what tests do with it.

mod cuts;
mod documented;
mod hostile;
mod memory;
mod model;
mod names;
mod reading;
mod space;

use crate::{Answer, BLOCK, Error, FileId, Operation, Options, Step, Volume};
use std::format;
use std::path::PathBuf;
use std::process::{Command, Output};
use std::string::{String, ToString};
use std::vec;
use std::vec::Vec;

/// Something that the medium was asked for.
#[derive(Clone, Debug)]
pub(crate) enum Event {
    Write { block: u64, bytes: Vec<u8> },
    Flush,
}

/// A disk, which keeps a record of what is written.
pub(crate) struct Disk {
    pub(crate) bytes: Vec<u8>,
    pub(crate) record: Vec<Event>,
    pub(crate) reads: usize,
    /// A block that cannot be read.
    pub(crate) broken: Option<u64>,
    /// Bytes that are read and written at once.
    pub(crate) unit: usize,
}

/// Runs a program of the host's.
pub(crate) fn program(name: &str, arguments: &[&str]) -> Output {
    let result = Command::new(name).args(arguments).output();
    result.unwrap_or_else(|error| panic!("cannot start {name}, of the package dosfstools: {error}"))
}

impl Disk {
    pub(crate) fn new(bytes: Vec<u8>) -> Self {
        Self { bytes, record: Vec::new(), reads: 0, broken: None, unit: BLOCK }
    }

    /// Makes a volume by `mkfs.fat` with these arguments.
    pub(crate) fn formatted(blocks: u64, arguments: &[&str]) -> Self {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("volume");
        std::fs::File::create(&path).and_then(|file| file.set_len(blocks * BLOCK as u64)).expect("an empty volume");
        let text = path.to_str().expect("text");
        let made = program("mkfs.fat", &[&["--invariant"], arguments, &[text]].concat());
        assert!(made.status.success(), "{}", String::from_utf8_lossy(&made.stderr));
        Self::new(std::fs::read(&path).expect("a volume"))
    }

    /// A FAT16 of 4 MiB with clusters of 512 bytes.
    pub(crate) fn small() -> Self {
        Self::formatted(8192, &["-F", "16", "-s", "1", "-r", "64"])
    }

    /// A FAT32 of 34 MiB with clusters of 512 bytes.
    pub(crate) fn large() -> Self {
        Self::formatted(34 << 11, &["-F", "32", "-s", "1"])
    }

    /// A FAT16 of 20 MiB with clusters of 4 KiB, on a disk with blocks of 4 KiB.
    pub(crate) fn coarse() -> Self {
        Self { unit: 4096, ..Self::formatted(20 << 11, &["-F", "16", "-s", "8", "-r", "128"]) }
    }

    /// One of 21 MiB, of which only the clusters begin where blocks of the disk do: the boot
    /// sector, the tables and the root folder share such blocks.
    pub(crate) fn uneven() -> Self {
        let blocks = 21 << 11;
        for reserved in 1..9 {
            let reserved = reserved.to_string();
            let arguments = ["-F", "16", "-s", "8", "-r", "192", "-a", "-R", &reserved];
            let disk = Self { unit: 4096, ..Self::formatted(blocks, &arguments) };
            let table = usize::from(disk.bytes[22]) + 256 * usize::from(disk.bytes[23]);
            let first = usize::from(disk.bytes[14]);
            if (first + 2 * table + 12) % 8 == 0 {
                let within = [first, first + table, first + 2 * table].map(|sector| sector % 8);
                assert!(!within.contains(&0), "{within:?}");
                return disk;
            }
        }
        panic!("no count of reserved sectors has clusters begin where blocks do");
    }

    /// Returns what `fsck.fat` says, if it finds anything.
    pub(crate) fn complaint(&self) -> Option<String> {
        let folder = tempfile::tempdir().expect("a folder");
        let path: PathBuf = folder.path().join("volume");
        std::fs::write(&path, &self.bytes).expect("a file");
        let result = program("fsck.fat", &["-n", path.to_str().expect("text")]);
        (!result.status.success()).then(|| String::from_utf8_lossy(&result.stdout).to_string())
    }

    pub(crate) fn write(&mut self, block: u64, bytes: &[u8]) {
        let at = block as usize * BLOCK;
        assert!(at.is_multiple_of(self.unit) && bytes.len().is_multiple_of(self.unit));
        self.bytes[at..at + bytes.len()].copy_from_slice(bytes);
        self.record.push(Event::Write { block, bytes: bytes.to_vec() });
    }
}

/// Carries out an operation.
pub(crate) fn run(volume: &mut Volume, disk: &mut Disk, operation: Operation) -> Result<Answer, Error> {
    volume.begin(operation)?;
    let mut outstanding = 0;
    for _ in 0..1_000_000 {
        match volume.step() {
            Step::Read { block, blocks } => {
                let at = block as usize * BLOCK;
                assert!(at.is_multiple_of(disk.unit) && (blocks as usize * BLOCK).is_multiple_of(disk.unit));
                disk.reads += 1;
                let is_broken = disk.broken.is_some_and(|broken| (block..block + u64::from(blocks)).contains(&broken));
                let bytes = disk.bytes[at..at + blocks as usize * BLOCK].to_vec();
                volume.give(block, (!is_broken).then_some(&bytes));
            }
            Step::Write { block, bytes } => {
                disk.write(block, bytes);
                outstanding += 1;
            }
            Step::Flush => {
                assert_eq!(outstanding, 0, "a flush while writes are under way");
                disk.record.push(Event::Flush);
                volume.flushed(true);
            }
            Step::Wait => {
                assert!(outstanding > 0, "it waits for nothing");
                (0..outstanding).for_each(|_| volume.wrote(true));
                outstanding = 0;
            }
            Step::Done(result) => return result,
        }
    }
    panic!("the operation does not end");
}

/// Mounts a disk.
pub(crate) fn mounted(disk: &mut Disk) -> Volume {
    let blocks = (disk.bytes.len() / BLOCK) as u64;
    let granule = (disk.unit / BLOCK).ilog2() as u8;
    let mut volume = Volume::new(Options { blocks, granule, cache_blocks: 2048, read_only: false });
    volume.set_time(1_700_000_000);
    assert_eq!(run(&mut volume, disk, Operation::Mount), Ok(Answer::Done));
    volume
}

/// Opens a file; returns its number and size.
pub(crate) fn opened(volume: &mut Volume, disk: &mut Disk, operation: Operation) -> Result<(FileId, u64), Error> {
    match run(volume, disk, operation)? {
        Answer::Opened { file, size } => Ok((file, size)),
        other => panic!("not open: {other:?}"),
    }
}

/// Reads all of an open file.
pub(crate) fn read_open(volume: &mut Volume, disk: &mut Disk, file: FileId, size: u64) -> Result<Vec<u8>, Error> {
    let mut content = Vec::new();
    while (content.len() as u64) < size {
        let offset = content.len() as u64;
        let place = match volume.place(file, offset) {
            Some(place) => place,
            None => match run(volume, disk, Operation::Locate { file, offset })? {
                Answer::Located(Some(place)) => place,
                other => panic!("{other:?} at {offset} of {size}"),
            },
        };
        let at = place.block as usize * BLOCK + place.offset as usize;
        content.extend_from_slice(&disk.bytes[at..at + place.bytes as usize]);
    }
    Ok(content)
}

/// Reads a file.
pub(crate) fn read(volume: &mut Volume, disk: &mut Disk, path: &str) -> Result<Vec<u8>, Error> {
    let (file, size) = opened(volume, disk, Operation::Open { path: path.into() })?;
    let content = read_open(volume, disk, file, size);
    run(volume, disk, Operation::Close { file })?;
    content
}

/// Writes to an open file behind its first `from` bytes, and publishes it.
pub(crate) fn write_open(
    volume: &mut Volume,
    disk: &mut Disk,
    file: FileId,
    from: u64,
    content: &[u8],
) -> Result<(), Error> {
    let size = from + content.len() as u64;
    run(volume, disk, Operation::Reserve { file, size })?;
    let mut done = 0;
    while done < content.len() {
        let offset = from + done as u64;
        let place = match volume.place(file, offset) {
            Some(place) => place,
            None => match run(volume, disk, Operation::Locate { file, offset })? {
                Answer::Located(Some(place)) => place,
                other => panic!("{other:?}"),
            },
        };
        let count = (place.bytes as usize).min(content.len() - done);
        let at = place.block as usize * BLOCK + place.offset as usize;
        let (first, inside) = (at - at % disk.unit, at % disk.unit);
        let mut blocks = disk.bytes[first..first + (inside + count).next_multiple_of(disk.unit)].to_vec();
        blocks[inside..inside + count].copy_from_slice(&content[done..done + count]);
        disk.write((first / BLOCK) as u64, &blocks);
        done += count;
    }
    run(volume, disk, Operation::Publish { file, size }).map(|_| ())
}

/// Writes a file anew.
pub(crate) fn write(volume: &mut Volume, disk: &mut Disk, path: &str, content: &[u8]) -> Result<(), Error> {
    let (file, _) = opened(volume, disk, Operation::Create { path: path.into() })?;
    let result = write_open(volume, disk, file, 0, content);
    run(volume, disk, Operation::Close { file })?;
    result
}

/// Writes behind a file's end.
pub(crate) fn append(volume: &mut Volume, disk: &mut Disk, path: &str, content: &[u8]) -> Result<(), Error> {
    let (file, size) = opened(volume, disk, Operation::Append { path: path.into() })?;
    let result = write_open(volume, disk, file, size, content);
    run(volume, disk, Operation::Close { file })?;
    result
}

/// Returns the names in a folder, with a `/` behind a folder's.
pub(crate) fn list(volume: &mut Volume, disk: &mut Disk, path: &str) -> Result<Vec<String>, Error> {
    let (mut names, mut from) = (vec![], 0);
    loop {
        let Answer::Listed { entries, next } = run(volume, disk, Operation::List { path: path.into(), from, most: 3 })?
        else {
            panic!("no list")
        };
        let is_folder = |entry: &crate::Entry| entry.kind == crate::Kind::Folder;
        names.extend(entries.iter().map(|entry| format!("{}{}", entry.name, if is_folder(entry) { "/" } else { "" })));
        match next {
            Some(next) => from = next,
            None => return Ok(names),
        }
    }
}

/// Returns bytes that differ from place to place.
pub(crate) fn pattern(seed: u64, length: usize) -> Vec<u8> {
    let mut state = seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1;
    (0..length)
        .map(|_| {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            (state >> 56) as u8
        })
        .collect()
}
