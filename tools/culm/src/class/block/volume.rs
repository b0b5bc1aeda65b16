//! Whether a client finds the file system for which its component is made on its part of a disk.

use super::image::{self, Image};
use super::options::{ClientOptions, DeviceOptions};
use crate::diagnostics::Diagnostic;
use crate::disk::Disk;
use crate::expand::draft::{Client, Draft, DraftProvider};
use culm_abi::connection::block::BLOCK;
use culm_fat::{Error, NotFat, Operation, Options, Step, Volume};
use culm_manifest::FileSystem;
use std::fs::File;
use std::ops::Range;
use std::os::unix::fs::FileExt as _;

/// Blocks of the cache with which a volume is looked at, the fewest that it takes.
const CACHE: usize = 256;

/// The least bytes for which the advice is FAT16: 4085 clusters of a block and what describes them
/// (fatgen103, FAT Type Determination).
const LEAST_16: u64 = 2300 << 10;

/// The least bytes at which `mkfs.fat` has clusters enough for FAT16 without being told their size.
const LEAST_USUAL: u64 = 16 << 20;

/// The least bytes for which the advice is FAT32; the tool makes none that is much smaller.
const LEAST_32: u64 = 34 << 20;

/// Returns what is wrong with the clients of a disk whose components read a file system. Without
/// an image, what is there shows when the machine runs.
pub fn check(draft: &Draft<'_>, provider: DraftProvider) -> Vec<Diagnostic> {
    let Some(image) = &DeviceOptions::of(&draft.providers[provider]).image else { return Vec::new() };
    let clients = draft.clients_of(provider);
    clients.filter_map(|client| check_client(draft, image, client)).collect()
}

fn check_client(draft: &Draft<'_>, image: &Image, client: &Client) -> Option<Diagnostic> {
    let domain = &draft.domains[client.domain];
    let FileSystem::Fat = domain.manifest.connections.get(client.slot?)?.file_system?;
    let options = ClientOptions::of(client);
    let blocks = options.part.on_disk()?;
    let (reason, help) = match (&image.file.path, &image.file.disk) {
        (Some(path), _) => {
            // A file that is gone meanwhile is reported where it was read first.
            let file = File::open(path).ok()?;
            let read = |at: u64, bytes: &mut [u8]| file.read_exact_at(bytes, at).is_ok();
            let reason = mount(&blocks, read).err()?;
            (reason.to_string(), formatting(&blocks))
        }
        (None, Some(disk)) => described(disk, &blocks)?,
        (None, None) => {
            let help = "in place of `size`, `image = { partition = [{ name = \"data\", size = \"64MiB\", fat = 32 }] }` has the \
                        first run make a disk whose `partition = \"data\"` is a volume";
            ("nothing is on it".to_string(), help.to_string())
        }
    };
    let what = match options.part.partition.as_str() {
        "" => image.name.clone(),
        partition => format!("{} of {}", image::described(partition), image.name),
    };
    let help = match &image.table {
        Ok(table) if options.part.partition.is_empty() && !table.partitions.is_empty() => {
            format!("name a partition of it: it has {}", image::list(table))
        }
        _ => help,
    };
    let message = format!("`{}` needs a FAT volume, and {what} has none: {reason}", domain.name.value);
    Some(draft.at(&options.at, message).related(draft.source, image.at.clone(), "the image").help(help))
}

/// Mounts the volume that begins at the first of these blocks, as the machine will; `read` reads
/// what is at a byte of the image.
fn mount(blocks: &Range<u64>, read: impl Fn(u64, &mut [u8]) -> bool) -> Result<(), NotFat> {
    let length = blocks.end - blocks.start;
    let mut volume = Volume::new(Options { blocks: length, granule: 0, cache_blocks: CACHE, read_only: true });
    // A new volume does nothing yet.
    let _ = volume.begin(Operation::Mount);
    loop {
        match volume.step() {
            Step::Read { block, blocks: count } => {
                let mut bytes = vec![0; count as usize * BLOCK];
                let is_read = read((blocks.start + block) * BLOCK as u64, &mut bytes);
                volume.give(block, is_read.then_some(&bytes));
            }
            Step::Done(Err(Error::NotFat(reason))) => return Err(reason),
            // Nothing is written to mount, and a file that cannot be read is no missing volume.
            _ => return Ok(()),
        }
    }
}

/// Returns how to make a volume in these blocks of an image.
fn formatting(blocks: &Range<u64>) -> String {
    let bytes = (blocks.end - blocks.start) * BLOCK as u64;
    if bytes < LEAST_16 {
        return "it is too small for one, which has 2.2 MiB at least; is another disk or partition meant?".to_string();
    }
    let kind = match bytes {
        LEAST_32.. => "32",
        LEAST_USUAL.. => "16",
        _ => "16 -s 1",
    };
    let offset = match blocks.start {
        0 => String::new(),
        first => format!(" --offset {first}"),
    };
    let size = bytes >> 10;
    format!(
        "`mkfs.fat -F {kind}{offset} FILE {size}` makes one and removes what is there; or is another disk or partition meant?"
    )
}

/// Returns what is wrong with these blocks of a disk that the tool makes, and what to do.
fn described(disk: &Disk, blocks: &Range<u64>) -> Option<(String, String)> {
    let within = |first: u64, sectors: u64| (first..first + sectors).contains(&blocks.start);
    let partition = disk.partitions.iter().find(|partition| within(partition.first, partition.sectors));
    let Some(partition) = partition else {
        return Some((NotFat::NoBootSector.to_string(), "name a partition with `fat`".to_string()));
    };
    let whole = partition.first..partition.first + partition.sectors;
    if partition.volume.is_none() {
        let help = "write `fat = 32` in its table (`fat = 16` below 33 MiB), which has it made with a file system";
        return Some(("it is made without a file system".to_string(), help.to_string()));
    }
    if *blocks == whole {
        return None;
    }
    let reason = if blocks.start == whole.start { NotFat::TooLong } else { NotFat::NoBootSector };
    Some((reason.to_string(), "leave out `offset` and `size`: the volume fills its partition".to_string()))
}
