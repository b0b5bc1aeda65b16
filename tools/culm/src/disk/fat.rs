//! FAT file systems: formatting, how much there is room for, and which paths there are.

use super::medium::Section;
use super::{Content, Fat, Medium, SECTOR, Volume};
use culm_abi::connection::file::MAX_PATH;
use culm_fat::{MAX_DEPTH, MAX_FOLDER_ENTRIES, MAX_NAME};
use lamfat::{FatType, FileSystem, FormatVolumeOptions, FsOptions, StdIoWrapper};
use std::io::Error;

/// Bytes of an entry of a folder.
const ENTRY: u64 = 32;

/// Letters of a long name in one entry.
const LETTERS: usize = 13;

/// Entries of the first folder of a FAT16, which has its own place.
const ROOT_ENTRIES: u16 = 512;

/// Entries of a folder at most.
const MOST_ENTRIES: u64 = MAX_FOLDER_ENTRIES as u64;

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

/// The least and the most sectors of a file system of this kind.
pub fn bounds(kind: Fat) -> (u64, u64) {
    match kind {
        Fat::Fat16 => (8_300, (2047 << 20) / SECTOR),
        Fat::Fat32 => (66_600, (2047 << 30) / SECTOR),
    }
}

/// Returns the room of an empty file system on so many sectors, or `None` if there is no such.
pub fn capacity(volume: &Volume, sectors: u64) -> Option<Capacity> {
    let mut medium = Medium::in_memory(sectors * SECTOR);
    format(volume, medium.part(0, sectors * SECTOR)).ok()?;
    let part = StdIoWrapper::new(medium.part(0, sectors * SECTOR));
    let stats = FileSystem::new(part, FsOptions::new()).ok()?.stats().ok()?;
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
            None if root > MOST_ENTRIES => {
                return Some(format!(
                    "a folder has room for {MOST_ENTRIES} entries, and {root} are needed in the first"
                ));
            }
            None => clusters += (root * ENTRY).div_ceil(self.cluster).max(1),
        }
        for folder in &content.folders {
            // A folder has entries for itself and for the one that it is in.
            let needed = entries(Some(folder)) + 2;
            if needed > MOST_ENTRIES {
                return Some(format!("a folder has room for {MOST_ENTRIES} entries, and `{folder}` needs {needed}"));
            }
            clusters += (needed * ENTRY).div_ceil(self.cluster);
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

/// Returns why there can be no file or folder of this path on a FAT file system, or why Culm would
/// not open it there, if so.
pub fn reason_against(path: &str) -> Option<String> {
    let is_refused = |letter: char| letter.is_control() || "\"*:<>?\\|".contains(letter);
    let names = || path.split('/');
    let any = |is_refused: &dyn Fn(&str) -> bool| names().any(is_refused);
    // The paths of the file class begin with a `/`. A client whose folder is the volume's root must
    // reach the file.
    let most = MAX_PATH - 1;
    Some(if any(&|name| name.contains(is_refused)) {
        "no name has one of \" * / : < > ? \\ | there".into()
    } else if any(&|name| name.contains(|letter| letter > '\u{ffff}')) {
        "no name has a letter beyond U+FFFF there".into()
    } else if any(&|name| name.ends_with(['.', ' ']) || name.starts_with(' ')) {
        "no name begins with a space, or ends with one or with a dot".into()
    } else if any(&|name| name.len() > MAX_NAME) {
        format!("a name has {MAX_NAME} bytes at most")
    } else if names().count() > MAX_DEPTH {
        format!("a path has {MAX_DEPTH} names at most")
    } else if path.len() > most {
        format!("a path has {most} bytes at most")
    } else {
        return None;
    })
}

/// Makes an empty file system.
///
/// # Errors
///
/// There is none on so many sectors, or the medium cannot be written.
pub fn format(volume: &Volume, part: Section<'_>) -> Result<(), Error> {
    let kind = match volume.kind {
        Fat::Fat16 => FatType::Fat16,
        Fat::Fat32 => FatType::Fat32,
    };
    let options = FormatVolumeOptions::new().fat_type(kind).volume_id(volume.id).max_root_dir_entries(ROOT_ENTRIES);
    let options = volume.label.map_or(options.clone(), |label| options.volume_label(label));
    Ok(lamfat::format_volume(&mut StdIoWrapper::new(part), options)?)
}
