//! Images of disks: a partition table, and FAT partitions that are filled from folders.
//!
//! A description ([`read`]) says what is on the disk; [`make()`] writes it. The same description
//! and the same files, with the same dates, make the same bytes: what a formatter would take from
//! the time of day or from chance is fixed, or derived from names.

mod fat;
mod fill;
pub mod keys;
mod make;
mod medium;
pub mod read;
mod record;
mod rest;
mod table;
#[cfg(test)]
mod tests;

pub use make::{Progress, make};
pub use medium::Medium;
pub use record::{Record, State};
pub use table::write_table;

use crate::failure::Failure;
use crate::folder;
use std::collections::{BTreeMap, BTreeSet};
use std::io::Write;
use std::path::PathBuf;
use std::time::UNIX_EPOCH;
use uuid::Uuid;

/// Bytes of a sector, the unit of partition tables.
pub const SECTOR: u64 = 512;

/// A disk as it is to be made: every place and identity is decided.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Disk {
    /// The kind of table, with the identity of the disk.
    pub table: Table,
    /// Sectors of the disk.
    pub sectors: u64,
    /// Its partitions, in the order of their numbers, which count from 1.
    pub partitions: Vec<Partition>,
}

/// A kind of partition table.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Table {
    /// GUID partition table (UEFI Specification, chapter GUID Partition Table), with the disk's
    /// GUID.
    Gpt(Uuid),
    /// Master boot record with four primary partitions, with the disk's signature.
    Mbr(u32),
}

/// A partition.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Partition {
    /// Its name, which a GPT has and an MBR does not.
    pub name: String,
    /// Its identity in a GPT; an MBR has the disk's signature and a number for it.
    pub uuid: Uuid,
    /// Its first sector on the disk.
    pub first: u64,
    /// The count of its sectors.
    pub sectors: u64,
    /// Firmware is to look for what it boots there.
    pub bootable: bool,
    /// Its file system; without one, it is zeroes.
    pub volume: Option<Volume>,
}

/// A FAT file system.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Volume {
    /// Its kind.
    pub kind: Fat,
    /// Its label: upper case, filled with spaces.
    pub label: Option<[u8; 11]>,
    /// Its identity.
    pub id: u32,
    /// The folder that it is filled from, if there is one.
    pub folder: Option<Folder>,
    /// The system that firmware is to find on it: its name, or the path of its file.
    pub boot: Option<String>,
    /// Files that are on it besides, by their paths.
    pub more: BTreeMap<String, FileSource>,
}

/// The content of a file on a volume.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum FileSource {
    /// A file of the host's.
    Path(PathBuf),
    /// Text.
    Text(String),
}

/// A kind of FAT, by the bits of its entries.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fat {
    /// Up to 65524 clusters.
    Fat16,
    /// From 65525 clusters on.
    Fat32,
}

/// A folder of the host's.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Folder {
    /// Its path as the description has it.
    pub given: String,
    /// Its path from where the tool runs.
    pub path: PathBuf,
}

/// The files and folders of a volume.
#[derive(Debug, Default)]
pub struct Content {
    /// The files, by their paths.
    files: BTreeMap<String, File>,
    /// The folders, by theirs; each is behind the one that it is in.
    folders: BTreeSet<String>,
}

/// A file that is to be on a volume.
#[derive(Debug)]
struct File {
    source: FileSource,
    /// Its bytes.
    size: u64,
    /// When it was written last, in seconds since 1970.
    modified: u64,
}

impl Disk {
    /// Returns the bytes of the disk.
    pub fn size(&self) -> u64 {
        self.sectors * SECTOR
    }
}

impl Volume {
    /// Returns what is to be on the volume.
    ///
    /// # Errors
    ///
    /// Names a file or folder that cannot be read, or whose name FAT does not have.
    pub fn content(&self) -> Result<Content, Failure> {
        let listing =
            self.folder.as_ref().map_or_else(|| Ok(folder::Listing::default()), |own| folder::list(&own.path))?;
        let mut content = Content { files: BTreeMap::new(), folders: listing.folders };
        let found = listing.files.into_iter().map(|(name, path)| (name, FileSource::Path(path)));
        for (name, source) in found.chain(self.more.clone()) {
            let (size, modified) = source.properties()?;
            let file = File { source, size, modified };
            if content.files.contains_key(&name) {
                return Err(Failure::new(format!("the folder has a file `{name}`, which the image has of itself"))
                    .help("rename it, or leave it out"));
            }
            content.folders.extend(name.rsplit_once('/').map(|(folder, _)| folder.to_string()));
            content.files.insert(name, file);
        }
        content.check()?;
        Ok(content)
    }
}

impl FileSource {
    /// Returns its bytes, and when it was written last, in seconds since 1970; the tool's own texts
    /// have no time.
    fn properties(&self) -> Result<(u64, u64), Failure> {
        match self {
            Self::Text(text) => Ok((text.len() as u64, 0)),
            Self::Path(path) => {
                let failed = |error| Failure::io(format_args!("read {}", path.display()), &error);
                let metadata = std::fs::metadata(path).map_err(failed)?;
                let modified = metadata.modified().map_err(failed)?;
                let since_1970 = modified.duration_since(UNIX_EPOCH).unwrap_or_default();
                Ok((metadata.len(), since_1970.as_secs()))
            }
        }
    }

    /// Copies it.
    fn copy(&self, into: &mut dyn Write) -> Result<(), Failure> {
        match self {
            Self::Text(text) => {
                into.write_all(text.as_bytes()).map_err(|error| Failure::io("write to the disk", &error))
            }
            Self::Path(path) => folder::copy(path, into).map(drop),
        }
    }
}

impl Content {
    /// The bytes of all files.
    pub fn size(&self) -> u64 {
        self.files.values().fold(0, |sum, file| sum.saturating_add(file.size))
    }

    /// Refuses what FAT cannot hold or would not tell apart, and what Culm would not open.
    fn check(&self) -> Result<(), Failure> {
        let mut seen = BTreeMap::new();
        for path in self.files.keys().chain(&self.folders) {
            if let Some(reason) = fat::reason_against(path) {
                return Err(Failure::new(format!("`{path}` cannot be on a FAT file system: {reason}"))
                    .help("rename it, or leave it out"));
            }
            if let Some(other) = seen.insert(path.chars().map(culm_fat::upper).collect::<String>(), path) {
                let message = format!("`{other}` and `{path}` have the same name on a FAT file system");
                return Err(Failure::new(message).help("upper and lower case are the same there: rename one"));
            }
        }
        if let Some((path, _)) = self.files.iter().find(|(_, file)| file.size > u64::from(u32::MAX)) {
            return Err(Failure::new(format!("`{path}` is too large for a FAT file system"))
                .help("a file has less than 4 GiB there"));
        }
        Ok(())
    }
}

impl Fat {
    /// The bits of an entry, by which people name the kind.
    pub fn bits(self) -> u32 {
        match self {
            Self::Fat16 => 16,
            Self::Fat32 => 32,
        }
    }
}
