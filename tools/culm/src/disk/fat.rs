//! FAT file systems: formatting, how much there is room for, and filling.

use super::medium::Section;
use super::{Content, Fat, Medium, SECTOR, Volume};
use crate::failure::Failure;
use lamfat::{Date, DateTime, FatType, FileSystem, FormatVolumeOptions, FsOptions, StdIoWrapper, TimeProvider};
use std::cell::Cell;
use std::io::{Error, Write};

/// Bytes of an entry of a folder.
const ENTRY: u64 = 32;

/// Letters of a long name in one entry.
const LETTERS: usize = 13;

/// Entries of the first folder of a FAT16, which has its own place.
const ROOT_ENTRIES: u16 = 512;

/// The room of an empty file system.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Capacity {
    /// Bytes of a cluster.
    pub cluster: u64,
    /// Clusters for files and folders.
    pub clusters: u64,
    /// Entries that the first folder can have, if that is limited.
    root: Option<u64>,
}

/// The file system of a volume.
type Mounted<'m> = FileSystem<StdIoWrapper<Section<'m>>, Moment<'m>>;

/// The time of what is written, in seconds since 1970.
#[derive(Clone, Copy, Debug)]
struct Moment<'m>(&'m Cell<u64>);

impl TimeProvider for Moment<'_> {
    fn get_current_date(&self) -> Date {
        self.get_current_date_time().date
    }

    fn get_current_date_time(&self) -> DateTime {
        culm_fat::date_time(self.0.get())
    }
}

/// The least and the most sectors of a file system of this kind.
pub fn bounds(kind: Fat) -> (u64, u64) {
    match kind {
        Fat::Fat16 => (8_300, (2047 << 20) / SECTOR),
        Fat::Fat32 => (66_600, (2047 << 30) / SECTOR),
    }
}

/// Returns the room of an empty file system on so many sectors, or `None` if there is no such.
pub fn capacity(volume: &Volume, sectors: u64) -> Option<Capacity> {
    let (mut medium, time) = (Medium::in_memory(sectors * SECTOR), Cell::new(0));
    let mounted = format(volume, medium.part(0, sectors * SECTOR), Moment(&time)).ok()?;
    let stats = mounted.stats().ok()?;
    let root = (volume.kind == Fat::Fat16).then(|| u64::from(ROOT_ENTRIES) - u64::from(volume.label.is_some()));
    // The first folder of a FAT32 has a cluster already, and is counted with what it has.
    let clusters = u64::from(stats.free_clusters()) + u64::from(volume.kind == Fat::Fat32);
    Some(Capacity { cluster: u64::from(stats.cluster_size()), clusters, root })
}

impl Capacity {
    /// Returns why the content does not fit, if it does not.
    pub fn reason_against(&self, volume: &Volume, content: &Content) -> Option<String> {
        let mut clusters = 0_u64;
        let entries = |folder: Option<&str>| {
            let all = content.files.keys().chain(&content.folders);
            let own = all.filter(|path| path.rsplit_once('/').map(|(folder, _)| folder) == folder);
            own.map(|path| entries_of(path.rsplit('/').next().unwrap_or_default())).sum::<u64>()
        };
        let root = entries(None) + u64::from(volume.label.is_some());
        match self.root {
            Some(most) if root - u64::from(volume.label.is_some()) > most => {
                return Some(format!("its first folder has room for {most} entries, and {root} are needed"));
            }
            Some(_) => {}
            None => clusters += (root * ENTRY).div_ceil(self.cluster).max(1),
        }
        for folder in &content.folders {
            // A folder has entries for itself and for the one that it is in.
            clusters += ((entries(Some(folder)) + 2) * ENTRY).div_ceil(self.cluster);
        }
        clusters += content.files.values().map(|file| file.size.div_ceil(self.cluster)).sum::<u64>();
        (clusters > self.clusters).then(|| {
            let in_kib = |clusters: u64| format!("{} KiB", (clusters * self.cluster).div_ceil(1024));
            format!("{} are needed, and the partition has room for {}", in_kib(clusters), in_kib(self.clusters))
        })
    }
}

/// Entries of a folder for a name: the long one, and a short one.
fn entries_of(name: &str) -> u64 {
    name.encode_utf16().count().div_ceil(LETTERS) as u64 + 1
}

/// Returns why a file or folder cannot have this name on a FAT file system, if it cannot.
pub fn reason_against(name: &str) -> Option<&'static str> {
    let is_refused = |letter: char| letter.is_control() || "\"*/:<>?\\|".contains(letter);
    if name.chars().any(is_refused) {
        return Some("no name has one of \" * / : < > ? \\ | there");
    }
    if name.ends_with(['.', ' ']) || name.starts_with(' ') {
        return Some("no name begins with a space, or ends with one or with a dot");
    }
    (name.encode_utf16().count() > 255).then_some("a name has 255 letters at most")
}

/// Makes an empty file system.
fn format<'m>(volume: &Volume, part: Section<'m>, moment: Moment<'m>) -> Result<Mounted<'m>, Error> {
    let kind = match volume.kind {
        Fat::Fat16 => FatType::Fat16,
        Fat::Fat32 => FatType::Fat32,
    };
    let options = FormatVolumeOptions::new().fat_type(kind).volume_id(volume.id).max_root_dir_entries(ROOT_ENTRIES);
    let options = volume.label.map_or(options.clone(), |label| options.volume_label(label));
    let mut part = StdIoWrapper::new(part);
    lamfat::format_volume(&mut part, options)?;
    Ok(FileSystem::new(part, FsOptions::new().time_provider(moment))?)
}

/// Makes a file system with this content, whose files have no dates later than `latest`, in seconds
/// since 1970; tells `progress` how many bytes of files have been written.
///
/// # Errors
///
/// A file cannot be read, or the medium cannot be written.
pub fn make(
    volume: &Volume,
    content: &Content,
    latest: u64,
    part: Section<'_>,
    progress: &mut dyn FnMut(u64),
) -> Result<(), Failure> {
    let failed = |error: Error| Failure::io("write the file system", &error);
    let of = |error: lamfat::Error<Error>| failed(error.into());
    let time = Cell::new(0);
    let mounted = format(volume, part, Moment(&time)).map_err(failed)?;
    {
        let root = mounted.root_dir();
        for folder in &content.folders {
            root.create_dir(folder).map_err(of)?;
        }
        for (name, file) in &content.files {
            time.set(file.modified.min(latest));
            let mut into = Counting { into: root.create_file(name).map_err(of)?, progress };
            file.source.copy(&mut into)?;
            into.flush().map_err(failed)?;
        }
    }
    mounted.unmount().map_err(of)
}

/// A writer that tells how much it has written.
struct Counting<'p, W> {
    into: W,
    progress: &'p mut dyn FnMut(u64),
}

impl<W: Write> Write for Counting<'_, W> {
    fn write(&mut self, bytes: &[u8]) -> Result<usize, Error> {
        let count = self.into.write(bytes)?;
        (self.progress)(count as u64);
        Ok(count)
    }

    fn flush(&mut self) -> Result<(), Error> {
        self.into.flush()
    }
}
