//! FAT volumes that anybody may have written.
//!
//! Two volumes were made by `mkfs.fat` and filled by mtools. The input writes over their boot
//! sectors, tables and folders, and then has operations carried out; some reads and writes fail.
//! Whatever stands there, each operation ends after a bounded number of steps, asks only for blocks
//! of the disk, and says of no byte of a file that it lies elsewhere than in clusters.

#![no_main]

#[path = "../common/input.rs"]
mod input;

use culm_fat::{Answer, BLOCK, Error, FileId, Operation, Options, Place, Step, Volume};
use input::Input;
use libfuzzer_sys::fuzz_target;
use std::collections::BTreeMap;
use std::sync::OnceLock;

/// The blocks that are not zero of a volume, and how many it has: each as its number, its length
/// without zeroes at the end, and its bytes.
const MEDIA: [&[u8]; 2] = [include_bytes!("../common/fat16.blocks"), include_bytes!("../common/fat32.blocks")];

/// The most steps of one operation: those of a recovery of the larger volume, some times over.
const MOST_STEPS: usize = 20_000;
/// The most operations.
const MOST_OPERATIONS: usize = 24;

#[derive(Clone)]
struct Disk {
    blocks: u64,
    bytes: BTreeMap<u64, [u8; BLOCK]>,
}

fn media() -> &'static [Disk; 2] {
    static DISKS: OnceLock<[Disk; 2]> = OnceLock::new();
    DISKS.get_or_init(|| {
        MEDIA.map(|mut packed| {
            let mut take = |count: usize| {
                let (taken, rest) = packed.split_at(count.min(packed.len()));
                packed = rest;
                taken
            };
            let number = |bytes: &[u8]| bytes.iter().rev().fold(0, |number, byte| number << 8 | u64::from(*byte));
            let blocks = number(take(4));
            let mut bytes = BTreeMap::new();
            while let block @ [_, ..] = take(4) {
                let content = take(2);
                let content = take(number(content) as usize);
                let mut whole = [0; BLOCK];
                whole[..content.len()].copy_from_slice(content);
                bytes.insert(number(block), whole);
            }
            Disk { blocks, bytes }
        })
    })
}

impl Disk {
    fn read(&self, block: u64, blocks: u32) -> Vec<u8> {
        assert!(block + u64::from(blocks) <= self.blocks && (1..=512).contains(&blocks), "{block} {blocks}");
        let one = |block| self.bytes.get(&block).copied().unwrap_or([0; BLOCK]);
        (block..block + u64::from(blocks)).flat_map(one).collect()
    }

    fn write(&mut self, block: u64, bytes: &[u8]) {
        assert!(!bytes.is_empty() && bytes.len().is_multiple_of(BLOCK));
        assert!(block + (bytes.len() / BLOCK) as u64 <= self.blocks, "{block}");
        for (block, bytes) in (block..).zip(bytes.chunks(BLOCK)) {
            self.bytes.insert(block, bytes.try_into().expect("a block"));
        }
    }

    /// Writes what the input says over a block that is not zero, or one near it.
    fn damage(&mut self, input: &mut Input<'_>) {
        let which = usize::from(input.byte()) % (self.bytes.len() + 4);
        let block = match self.bytes.keys().nth(which) {
            Some(block) => block + u64::from(input.byte() % 8 == 7),
            None => self.blocks - 1 - u64::from(input.byte()),
        };
        let at = usize::from(input.byte()) * 2;
        let count = usize::from(input.byte() % 33).min(BLOCK - at);
        let bytes = input.bytes(count);
        let mut whole = self.bytes.get(&block).copied().unwrap_or([0; BLOCK]);
        whole[at..at + bytes.len()].copy_from_slice(bytes);
        self.bytes.insert(block, whole);
    }
}

/// Carries out an operation. From `fails` steps on, what the medium is asked for fails.
fn run(volume: &mut Volume, disk: &mut Disk, operation: Operation, mut fails: usize) -> Result<Answer, Error> {
    volume.begin(operation.clone())?;
    let mut outstanding = 0;
    for _ in 0..MOST_STEPS {
        match volume.step() {
            Step::Read { block, blocks } => {
                let bytes = disk.read(block, blocks);
                volume.give(block, (fails > 0).then_some(&*bytes));
            }
            Step::Write { block, bytes } => {
                disk.write(block, bytes);
                outstanding += 1;
            }
            Step::Flush => volume.flushed(fails > 0),
            Step::Wait => {
                assert!(outstanding > 0, "{operation:?} waits for nothing");
                (0..outstanding).for_each(|_| volume.wrote(fails > 0));
                outstanding = 0;
            }
            Step::Done(result) => return result,
        }
        fails = fails.saturating_sub(1);
    }
    panic!("{operation:?} does not end");
}

/// Checks where bytes are said to lie.
fn check(place: &Place, disk: &Disk) {
    assert!(place.bytes > 0 && place.block > 0 && u64::from(place.offset) < BLOCK as u64, "{place:?}");
    let end = place.block * BLOCK as u64 + u64::from(place.offset) + place.bytes;
    assert!(end <= disk.blocks * BLOCK as u64, "{place:?}");
}

fn path(input: &mut Input<'_>) -> String {
    const PATHS: [&str; 14] = [
        "",
        "index.html",
        "empty",
        "B.TXT",
        "a folder with a long name",
        "a folder with a long name/inner",
        "a folder with a long name/inner/übrig.txt",
        "rather long name of a file.text",
        "AFOLDE~1/new",
        "new",
        "é",
        "a folder with a long name/new folder that is longer than one part",
        "empty/x",
        "../x",
    ];
    PATHS[usize::from(input.byte()) % PATHS.len()].into()
}

fn operation(input: &mut Input<'_>, files: &[FileId]) -> Operation {
    let kind = input.byte();
    let file = files.get(usize::from(kind >> 4) % files.len().max(1)).copied();
    let size = u64::from(input.byte()) << (input.byte() % 16);
    match (kind % 18, file) {
        (0, _) => Operation::Find { path: path(input) },
        (1, _) => Operation::Open { path: path(input) },
        (2, _) => Operation::Create { path: path(input) },
        (3, _) => Operation::Append { path: path(input) },
        (4 | 5, Some(file)) => Operation::Locate { file, offset: size },
        (6 | 7, Some(file)) => Operation::Reserve { file, size },
        (8 | 9, Some(file)) => Operation::Publish { file, size },
        (10, Some(file)) => Operation::Close { file },
        (11, _) => Operation::MakeFolder { path: path(input) },
        (12, _) => Operation::Remove { path: path(input) },
        (13, _) => Operation::Rename { from: path(input), to: path(input), replace: kind & 0x40 != 0 },
        (14, _) => Operation::Count,
        (15, _) => Operation::Rest,
        (16, _) => Operation::Recover,
        (17, _) => Operation::Mount,
        _ => Operation::List { path: path(input), from: size, most: usize::from(kind >> 4) },
    }
}

fuzz_target!(|bytes: &[u8]| {
    let mut input = Input::new(bytes);
    let kind = input.byte();
    let mut disk = media()[usize::from(kind & 1)].clone();
    for _ in 0..input.byte() % 12 {
        disk.damage(&mut input);
    }
    let granule = if kind & 2 != 0 { 3 } else { 0 };
    let cache_blocks = if kind & 4 != 0 { 256 } else { 4096 };
    let options = Options { blocks: disk.blocks, granule, cache_blocks, read_only: kind & 8 != 0 };
    let mut volume = Volume::new(options);
    volume.set_time(u64::from(kind) << 26);
    let _ = run(&mut volume, &mut disk, Operation::Mount, usize::MAX);
    let (mut files, mut has_read_all) = (Vec::new(), false);
    for _ in 0..MOST_OPERATIONS {
        if input.is_over() {
            break;
        }
        let operation = operation(&mut input, &files);
        // These read all of a table: once is enough.
        if matches!(operation, Operation::Count | Operation::Recover) {
            if has_read_all {
                continue;
            }
            has_read_all = true;
        }
        let fails = if input.byte() == 0xff { usize::from(input.byte()) } else { usize::MAX };
        match run(&mut volume, &mut disk, operation, fails) {
            Ok(Answer::Opened { file, .. }) => files.push(file),
            Ok(Answer::Located(Some(place))) => check(&place, &disk),
            _ => {}
        }
        for file in &files {
            if let Some(place) = volume.place(*file, 0) {
                check(&place, &disk);
            }
        }
    }
});
