//! Filling of FAT file systems, by the code with which Culm's file service writes them: what is on
//! an image can be opened there, by the name that it has on the host.

use super::medium::Section;
use super::{Content, File};
use crate::failure::Failure;
use culm_fat::{Answer, Error as FatError, FileId, MAX_FOLDER_ENTRIES, Operation, Options, Step, Volume};
use std::io::{Error, Read as _, Result as IoResult, Seek as _, SeekFrom, Write};

/// Bytes of the unit in which a volume has its places.
const UNIT: u64 = culm_fat::BLOCK as u64;

/// Units of the cache: the longest folder, which has entries of 32 bytes, and as much besides.
const CACHE: usize = 2 * MAX_FOLDER_ENTRIES as usize * 32 / UNIT as usize;

/// Puts the content on an empty file system, with no dates later than `latest`, in seconds since
/// 1970; tells `progress` how many bytes of files have been written.
///
/// # Errors
///
/// A file cannot be read, or the medium cannot be written.
pub fn fill(content: &Content, latest: u64, part: Section<'_>, progress: &mut dyn FnMut(u64)) -> Result<(), Failure> {
    let blocks = part.size() / UNIT;
    let volume = Volume::new(Options { blocks, granule: 0, cache_blocks: CACHE, read_only: false });
    let mut filler = Filler { part, volume };
    let failed = |error: Error| Failure::io("write the file system", &error);
    filler.run(Operation::Mount).map_err(failed)?;
    for path in in_order(content) {
        let failed = |error: Error| Failure::io(format_args!("write `{path}` to the file system"), &error);
        if let Some(file) = content.files.get(path) {
            filler.volume.set_time(file.modified.min(latest));
            let id = filler.create(path, file.size).map_err(failed)?;
            let mut into = Writer { filler: &mut filler, id, end: 0, reserved: file.size, progress };
            file.source.copy(&mut into)?;
            let size = into.end;
            filler.publish(id, size).map_err(failed)?;
        } else {
            // Each name that is made gives its date to the folder that it is in.
            filler.volume.set_time(newest_beside(content, path).min(latest));
            filler.run(Operation::MakeFolder { path: path.into() }).map_err(failed)?;
        }
    }
    filler.run(Operation::Rest).map(drop).map_err(failed)
}

/// Returns all paths in the order in which they are made: each behind the folder that it is in, and
/// short names before long ones. A long name gets a short one too, which the file system makes up
/// from those that are free then: made first, it could take the name of a file or folder that comes
/// later.
fn in_order(content: &Content) -> Vec<&str> {
    let mut paths: Vec<&str> = content.folders.iter().chain(content.files.keys()).map(String::as_str).collect();
    paths.sort_by_key(|path| (path.matches('/').count(), !is_short(path.rsplit('/').next().unwrap_or(path))));
    paths
}

/// Returns whether a name is a short one, but for its case (fatgen103, Short Directory Entries):
/// eight letters at most, and three behind a dot.
fn is_short(name: &str) -> bool {
    let (base, extension) = name.split_once('.').unwrap_or((name, "x"));
    let is_letter = |letter: char| letter.is_ascii_alphanumeric() || "!#$%&'()-@^_`{}~".contains(letter);
    let is_part = |part: &str, most| (1..=most).contains(&part.len()) && part.chars().all(is_letter);
    is_part(base, 8) && is_part(extension, 3)
}

/// Returns the latest date of a file in the folder in which this path is; 0 if there is none.
fn newest_beside(content: &Content, path: &str) -> u64 {
    let folder = |path: &str| path.rsplit_once('/').map(|(folder, _)| folder.to_string());
    let beside = content.files.iter().filter(|(other, _)| folder(other) == folder(path));
    beside.map(|(_, file): (_, &File)| file.modified).max().unwrap_or(0)
}

/// A file system that is filled.
struct Filler<'m> {
    part: Section<'m>,
    volume: Volume,
}

impl Filler<'_> {
    /// Carries out an operation: each of its steps is answered at once.
    fn run(&mut self, operation: Operation) -> IoResult<Answer> {
        self.volume.begin(operation).map_err(Error::other)?;
        loop {
            match self.volume.step() {
                Step::Read { block: at, blocks } => {
                    let mut bytes = vec![0; blocks as usize * UNIT as usize];
                    self.part.seek(SeekFrom::Start(at * UNIT))?;
                    self.part.read_exact(&mut bytes)?;
                    self.volume.give(at, Some(&bytes));
                }
                Step::Write { block: at, bytes } => {
                    self.part.seek(SeekFrom::Start(at * UNIT))?;
                    self.part.write_all(bytes)?;
                    self.volume.wrote(true);
                }
                Step::Flush => self.volume.flushed(true),
                Step::Wait => return Err(Error::other(FatError::NotReady)),
                Step::Done(result) => return result.map_err(Error::other),
            }
        }
    }

    /// Begins a file with space for so many bytes.
    fn create(&mut self, path: &str, size: u64) -> IoResult<FileId> {
        let Answer::Opened { file, .. } = self.run(Operation::Create { path: path.into() })? else {
            return Err(Error::other(FatError::BadFile));
        };
        self.run(Operation::Reserve { file, size })?;
        Ok(file)
    }

    /// Gives a file its name and so many bytes.
    fn publish(&mut self, file: FileId, size: u64) -> IoResult<()> {
        self.run(Operation::Publish { file, size })?;
        self.run(Operation::Close { file }).map(drop)
    }
}

/// A file that is written.
struct Writer<'f, 'm> {
    filler: &'f mut Filler<'m>,
    id: FileId,
    /// Its bytes.
    end: u64,
    /// The bytes for which it has space. It may have grown since it was looked at.
    reserved: u64,
    progress: &'f mut dyn FnMut(u64),
}

impl Write for Writer<'_, '_> {
    fn write(&mut self, bytes: &[u8]) -> IoResult<usize> {
        if bytes.is_empty() {
            return Ok(0);
        }
        let end = self.end + bytes.len() as u64;
        if end > self.reserved {
            self.filler.run(Operation::Reserve { file: self.id, size: end })?;
            self.reserved = end;
        }
        let Filler { part, volume } = &mut *self.filler;
        let place = volume.place(self.id, self.end).ok_or_else(|| Error::other(FatError::BadFile))?;
        let bytes = &bytes[..bytes.len().min(place.bytes as usize)];
        part.seek(SeekFrom::Start(place.block * UNIT + u64::from(place.offset)))?;
        part.write_all(bytes)?;
        self.end += bytes.len() as u64;
        (self.progress)(bytes.len() as u64);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> IoResult<()> {
        Ok(())
    }
}
