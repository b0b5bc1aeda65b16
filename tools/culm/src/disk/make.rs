//! Writes the image of a disk.

use super::{Content, Disk, Medium, Partition, SECTOR, Volume, fat, fill, write_table};
use crate::failure::Failure;
use crate::tree::cannot_build;
use std::ffi::OsStr;
use std::fs::{self, OpenOptions};
use std::io::{IsTerminal as _, Write as _};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

/// The environment's variable with the latest date of files
/// (<https://reproducible-builds.org/specs/source-date-epoch/>).
const LATEST: &str = "SOURCE_DATE_EPOCH";

/// Makes the image of a disk at `path`, where nothing may be. What is there then is whole: it is
/// written under another name first.
///
/// # Errors
///
/// Names a file that cannot be read or written.
pub fn make(disk: &Disk, path: &Path) -> Result<(), Failure> {
    let failed = |error: &std::io::Error| cannot_build(format_args!("make the disk {}", path.display()), error);
    if let Some(folder) = path.parent() {
        fs::create_dir_all(folder).map_err(|error| failed(&error))?;
    }
    let unfinished = Unfinished(unfinished_name(path));
    let file = OpenOptions::new().read(true).write(true).create(true).truncate(true).open(&unfinished.0);
    let mut medium = file.and_then(|file| Medium::in_file(file, disk.size())).map_err(|error| failed(&error))?;
    write(disk, path, &mut medium)?;
    medium.finish().map_err(|error| failed(&error))?;
    fs::rename(&unfinished.0, path).map_err(|error| failed(&error))
}

/// Writes the disk to a medium of its size; `path` is its name in messages.
///
/// # Errors
///
/// Names a file that cannot be read or written.
pub fn write(disk: &Disk, path: &Path, medium: &mut Medium) -> Result<(), Failure> {
    let latest = latest_date(std::env::var_os(LATEST).as_deref())?;
    let contents = disk.partitions.iter().map(|partition| match &partition.volume {
        Some(volume) => checked(partition, volume).map(Some),
        None => Ok(None),
    });
    let contents = contents.collect::<Result<Vec<_>, _>>()?;
    let mut progress = Progress::new(path, contents.iter().flatten().map(Content::size).sum());
    for (partition, content) in disk.partitions.iter().zip(&contents) {
        let (Some(volume), Some(content)) = (&partition.volume, content) else { continue };
        let (first, length) = (partition.first * SECTOR, partition.sectors * SECTOR);
        fat::format(volume, medium.part(first, length))
            .map_err(|error| cannot_build(format_args!("format partition `{}`", partition.name), &error))?;
        fill::fill(content, latest, medium.part(first, length), &mut |count| progress.add(count))?;
    }
    write_table(disk, medium)
        .map_err(|error| cannot_build(format_args!("write the partition table of {}", path.display()), &error))
}

/// Returns the latest date that files have on an image, in seconds since 1970: what the variable
/// says, if it is set.
pub(super) fn latest_date(value: Option<&OsStr>) -> Result<u64, Failure> {
    let Some(value) = value else { return Ok(u64::MAX) };
    value.to_str().and_then(|text| text.parse().ok()).ok_or_else(|| {
        Failure::new(format!("{LATEST} is `{}`, and that is no time", value.display()))
            .help("it is a count of seconds since 1970, as of `git log -1 --format=%ct`; or unset it")
    })
}

/// Returns what is to be on a volume, if it fits: files may have grown since the description was
/// read, and what is built has its size only now.
fn checked(partition: &Partition, volume: &Volume) -> Result<Content, Failure> {
    let content = volume.content()?;
    let reason = fat::capacity(volume, partition.sectors).and_then(|room| room.reason_against(volume, &content));
    match reason {
        None => Ok(content),
        Some(reason) => {
            Err(Failure::new(format!("what is to be in partition `{}` does not fit: {reason}", partition.name))
                .help("make the partition larger"))
        }
    }
}

fn unfinished_name(path: &Path) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push(format!(".{}.new", std::process::id()));
    PathBuf::from(name)
}

/// A file that is removed, unless it has another name by then.
struct Unfinished(PathBuf);

impl Drop for Unfinished {
    fn drop(&mut self) {
        // It is there only if something failed.
        _ = fs::remove_file(&self.0);
    }
}

/// A line on a terminal that says how far the work is, once that takes long.
pub struct Progress {
    what: String,
    done: u64,
    total: u64,
    /// When it was shown, or the work began.
    last: Instant,
    is_shown: bool,
    is_terminal: bool,
}

/// The time between two lines.
const INTERVAL: Duration = Duration::from_millis(250);

impl Progress {
    /// Begins the work of writing so many bytes.
    pub fn new(path: &Path, total: u64) -> Self {
        let what = path.display().to_string();
        let is_terminal = std::io::stderr().is_terminal();
        Self { what, done: 0, total, last: Instant::now(), is_shown: false, is_terminal }
    }

    /// So many bytes more have been written.
    pub fn add(&mut self, count: u64) {
        self.done += count;
        if !self.is_terminal || self.last.elapsed() < INTERVAL {
            return;
        }
        self.last = Instant::now();
        self.is_shown = true;
        let percent = self.done * 100 / self.total.max(1);
        let _ = write!(std::io::stderr(), "\r{}: {} MiB, {percent} %", self.what, self.done >> 20);
    }
}

impl Drop for Progress {
    fn drop(&mut self) {
        if self.is_shown {
            let _ = writeln!(std::io::stderr());
        }
    }
}
