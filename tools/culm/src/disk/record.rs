//! The record beside an image that the tool has made: from which description, and from which files.
//!
//! An image is made once and then keeps what the machine writes. The record tells if it would be
//! another one if it were made now.

use super::{Disk, Partition, SECTOR, Table, Volume};
use crate::failure::Failure;
use std::fmt::Write as _;
use std::io::Write;
use std::path::{Path, PathBuf};

/// The description of an image, and a checksum of its files.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Record {
    /// A line for the disk and one for each partition.
    lines: Vec<String>,
    /// A line for each folder, with the checksum of what is in it.
    folders: Vec<String>,
}

/// The changes since an image was made.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum State {
    /// Nothing.
    Same,
    /// Files in these folders, by their paths in the description.
    Files(Vec<String>),
    /// The description: its line then and now, of the first that differs.
    Description(String, String),
}

/// Begins the lines of folders.
const FOLDER: &str = "folder ";

impl Record {
    /// Returns the record of a disk that is made now.
    ///
    /// # Errors
    ///
    /// Names a file or folder that cannot be read.
    pub fn of(disk: &Disk) -> Result<Self, Failure> {
        let mut lines = vec![line_of_disk(disk)];
        lines.extend(disk.partitions.iter().map(line_of_partition));
        let volumes = disk.partitions.iter().filter_map(|partition| partition.volume.as_ref());
        let folders = volumes.filter_map(|volume| {
            let folder = volume.folder.as_ref()?;
            Some(checksum(volume).map(|sum| format!("{FOLDER}{sum:016x} {}", folder.given)))
        });
        Ok(Self { lines, folders: folders.collect::<Result<_, _>>()? })
    }

    /// Returns the place of an image's record.
    pub fn path(image: &Path) -> PathBuf {
        image.with_extension("made")
    }

    /// Reads a record; `None` if there is none.
    pub fn read(path: &Path) -> Option<Self> {
        Some(Self::parse(&std::fs::read_to_string(path).ok()?))
    }

    fn parse(text: &str) -> Self {
        let (folders, lines) = text.lines().map(str::to_string).partition(|line| line.starts_with(FOLDER));
        Self { lines, folders }
    }

    /// Returns it as text.
    pub fn text(&self) -> String {
        self.lines.iter().chain(&self.folders).fold(String::new(), |mut text, line| {
            let _ = writeln!(text, "{line}");
            text
        })
    }

    /// Returns what has changed since `self` was made, if `now` would be made now.
    pub fn compare(&self, now: &Self) -> State {
        let count = self.lines.len().max(now.lines.len());
        let line = |record: &Self, index: usize| record.lines.get(index).cloned().unwrap_or_else(|| "nothing".into());
        let mut lines = (0..count).map(|index| (line(self, index), line(now, index)));
        if let Some((then, now)) = lines.find(|(then, now)| then != now) {
            return State::Description(then, now);
        }
        let changed: Vec<String> = now.folders.iter().filter(|line| !self.folders.contains(line)).cloned().collect();
        match changed.is_empty() {
            true => State::Same,
            // Behind the word and the checksum.
            false => {
                State::Files(changed.iter().filter_map(|line| line.splitn(3, ' ').nth(2)).map(Into::into).collect())
            }
        }
    }
}

fn line_of_disk(disk: &Disk) -> String {
    let table = match disk.table {
        Table::Gpt(uuid) => format!("gpt {uuid}"),
        Table::Mbr(signature) => format!("mbr {signature:08x}"),
    };
    format!("disk of {} bytes, {table}", disk.size())
}

fn line_of_partition(partition: &Partition) -> String {
    let Partition { name, uuid, first, sectors, bootable, volume } = partition;
    let mut line = format!("partition {name:?}, {uuid}, at {}, {} bytes", first * SECTOR, sectors * SECTOR);
    if *bootable {
        line += ", bootable";
    }
    if let Some(Volume { kind, label, id, folder, .. }) = volume {
        let label = label.map_or(String::new(), |label| format!(" {:?}", String::from_utf8_lossy(&label).trim_end()));
        let _ = write!(line, ", FAT{}{label} {id:08x}", kind.bits());
        if let Some(folder) = folder {
            let _ = write!(line, " from {:?}", folder.given);
        }
    }
    line
}

/// Returns a checksum of a volume's files and their names.
fn checksum(volume: &Volume) -> Result<u64, Failure> {
    let content = volume.content()?;
    let mut sum = Sum::default();
    for folder in &content.folders {
        sum.field(folder.as_bytes());
    }
    for (name, file) in &content.files {
        sum.field(name.as_bytes());
        sum.field(&file.size.to_le_bytes());
        file.source.copy(&mut sum)?;
    }
    Ok(sum.0)
}

/// The checksum FNV-1a of 64 bits. It notices changes; it is no proof against anybody.
struct Sum(u64);

impl Default for Sum {
    fn default() -> Self {
        Self(0xcbf2_9ce4_8422_2325)
    }
}

impl Sum {
    /// Adds bytes and an end to them.
    fn field(&mut self, bytes: &[u8]) {
        self.add(bytes);
        self.add(&[0]);
    }

    fn add(&mut self, bytes: &[u8]) {
        self.0 = bytes.iter().fold(self.0, |sum, byte| (sum ^ u64::from(*byte)).wrapping_mul(0x0100_0000_01b3));
    }
}

impl Write for Sum {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        self.add(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}
